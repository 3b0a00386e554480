"""The blocks against the literal formula with every matrix formed."""

from functools import partial
from itertools import product

import pytest
import torch
from torch import Tensor

from sk_quadratic.modules import (
    ACTIVATIONS,
    BlockNetwork,
    BranchSumBlock,
    QuadraticGramBlock,
)

WIDTH, N_HEADS = 7, 3
# All ways in which the form is computed: few and many branches, ranks below and above
# half the width, one and several structure columns, with and without hidden layer.
FORMS = [
    pytest.param(
        {
            "structure": structure,
            "hidden_width": hidden_width,
            "rank": rank,
            "n_branches": n_branches,
            "structure_rank": structure_rank,
            "first_order": first_order,
        },
        id=f"{structure}-h{hidden_width}-r{rank}-d{n_branches}-s{structure_rank}"
        f"-{'mu' if first_order else 'no_mu'}",
    )
    for structure, hidden_width, rank, n_branches, structure_rank, first_order in (
        product(
            ("factored", "full"),
            (None, 5),
            (None, 2, 6),
            (2, 30),
            (1, 3),
            (True, False),
        )
    )
    if structure == "factored" or structure_rank == 1
]


def make_block(seed: int = 0, dtype=torch.float64, **parameters) -> QuadraticGramBlock:
    generator = torch.Generator().manual_seed(seed)
    return QuadraticGramBlock(
        WIDTH, n_heads=N_HEADS, generator=generator, dtype=dtype, **parameters
    )


def make_inputs(*shape: int, dtype=torch.float64) -> Tensor:
    generator = torch.Generator().manual_seed(1)
    return torch.randn(*shape, WIDTH, generator=generator, dtype=dtype)


def branch_weights(block: QuadraticGramBlock) -> Tensor:
    """W of every head, multiplied out where it is factored."""
    if block.rank is None:
        return block.branch_weights
    return block.left_factor @ block.right_factor.mT


def literal_form(block: QuadraticGramBlock, x: Tensor) -> Tensor:
    """b + mu.g + Tr[M A], with M and A formed and one trace per row and head."""
    W = branch_weights(block)
    z = block.offset(x).clone()
    for head in range(block.n_heads):
        M = W[head] @ W[head].T
        product_MA = M @ block.structure_matrix(x)
        z[..., head] += product_MA.diagonal(dim1=-2, dim2=-1).sum(dim=-1)
        if block.first_order_weights is not None:
            z[..., head] += block.first_order(x) @ block.first_order_weights[head]
    return z


# The form ---------------------------------------------------------------------


@pytest.mark.parametrize("parameters", FORMS)
def test_form_and_block_equal_the_literal_formula(parameters):
    block, x = make_block(**parameters), make_inputs(4, 6)
    with torch.no_grad():
        z = literal_form(block, x)
        # A few hundred products of numbers near one, in float64.
        torch.testing.assert_close(block.form(x), z, rtol=0, atol=1e-12)
        y = x + z @ block.projection.weight.T
        torch.testing.assert_close(block(x), y, rtol=0, atol=1e-12)


@pytest.mark.parametrize("parameters", FORMS[::5])
def test_gram_is_the_product_of_the_branch_weights(parameters):
    block = make_block(**parameters)
    with torch.no_grad():
        W = branch_weights(block)
        torch.testing.assert_close(block.gram(), W @ W.mT, rtol=0, atol=1e-13)
        assert torch.linalg.eigvalsh(block.gram()).min() > -1e-13


def test_structure_matrix_is_symmetric_and_of_either_sign():
    block, x = make_block(), make_inputs(50)
    with torch.no_grad():
        A = block.structure_matrix(x)
        assert A.shape == (50, WIDTH, WIDTH)
        assert torch.equal(A, A.mT)
        eigenvalues = torch.linalg.eigvalsh(A)
    assert eigenvalues.min() < 0 < eigenvalues.max()


@pytest.mark.parametrize(
    ("dtype", "bound"), [(torch.float64, 1e-12), (torch.float32, 1e-6)]
)
@pytest.mark.parametrize("change", ["permutation", "rotation"])
@pytest.mark.parametrize("n_branches", [3, 30])
@pytest.mark.parametrize("structure", ["factored", "full"])
def test_only_the_gram_matrix_of_the_branches_matters(
    structure, n_branches, change, dtype, bound
):
    block = make_block(dtype=dtype, structure=structure, n_branches=n_branches)
    x = make_inputs(40, dtype=dtype)
    generator = torch.Generator().manual_seed(2)
    if change == "permutation":
        Q = torch.eye(n_branches)[torch.randperm(n_branches, generator=generator)]
    else:
        random = torch.randn(n_branches, n_branches, generator=generator).double()
        Q = torch.linalg.qr(random).Q
    with torch.no_grad():
        before = block(x)
        W = (block.branch_weights.double() @ Q.double()).to(dtype)
        assert (W - block.branch_weights).abs().max() > 0.01
        block.branch_weights.copy_(W)
        difference = (block(x) - before).abs().max() / before.abs().max()
    assert difference < bound


def test_rank_of_the_gram_matrix_is_the_rank_asked_for():
    block = make_block(rank=2, n_branches=5)
    ranks = torch.linalg.matrix_rank(block.gram().detach())
    assert ranks.tolist() == [2] * N_HEADS


@pytest.mark.parametrize("parameters", FORMS[::7])
def test_gradients_are_right(parameters):
    block = make_block(**parameters)
    x = make_inputs(2).requires_grad_()
    named = dict(block.named_parameters())
    # The readout of the full structure alone has too many entries for differences.
    named.pop("structure_readout.weight", None)

    def call(x: Tensor, *values: Tensor) -> Tensor:
        replaced = dict(zip(named, values, strict=True))
        return torch.func.functional_call(block, replaced, (x,))

    torch.autograd.gradcheck(call, (x, *named.values()))


def test_nothing_of_size_width_squared_is_kept_per_row():
    width = 64
    for structure in ("factored", "full"):
        block = QuadraticGramBlock(
            width, n_heads=2, n_branches=4, structure=structure, hidden_width=8
        )
        largest = 0

        def pack(tensor: Tensor) -> Tensor:
            nonlocal largest
            largest = max(largest, tensor.numel())
            return tensor

        x = torch.randn(1000, width)
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
            block(x)
        assert largest <= 1000 * width


@pytest.mark.parametrize("init_scale", [0.1, 2.0])
@pytest.mark.parametrize("rank", [None, 3])
def test_branch_weights_start_at_the_size_asked_for(rank, init_scale):
    generator = torch.Generator().manual_seed(0)
    block = QuadraticGramBlock(
        50,
        n_heads=40,
        n_branches=20,
        rank=rank,
        init_scale=init_scale,
        generator=generator,
    )
    with torch.no_grad():
        std = float(branch_weights(block).std()) * 50**0.5
    assert std == pytest.approx(init_scale, rel=0.05)  # of 40 000 draws


# The branch sum -----------------------------------------------------------------


def test_branch_sum_equals_the_literal_sum():
    generator = torch.Generator().manual_seed(0)
    block = BranchSumBlock(
        WIDTH, n_branches=5, activation="tanh", generator=generator, dtype=torch.float64
    )
    x = make_inputs(6)
    u, c = block.branches.weight, block.branches.bias
    a = block.projection.weight
    y = x + block.projection.bias
    for i in range(5):
        y = y + torch.tanh(x @ u[i] + c[i]).unsqueeze(-1) * a[:, i]
    torch.testing.assert_close(block(x), y, rtol=0, atol=1e-13)


def test_branch_sum_without_trunk_is_the_two_layer_perceptron():
    block = partial(BranchSumBlock, n_branches=64)
    network = BlockNetwork(10, width=None, block=block, generator=0)
    assert sum(p.numel() for p in network.parameters()) == 10 * 64 + 64 + 64 + 1
    perceptron = torch.nn.Sequential(
        torch.nn.Linear(10, 64), torch.nn.GELU(), torch.nn.Linear(64, 1)
    )
    with torch.no_grad():
        for mine, theirs in zip(
            perceptron.parameters(), network.parameters(), strict=True
        ):
            mine.copy_(theirs)
        x = torch.randn(20, 10)
        torch.testing.assert_close(network(x), perceptron(x), rtol=1e-6, atol=1e-6)


# What both share ------------------------------------------------------------------

BLOCKS = [
    partial(QuadraticGramBlock, n_heads=3),
    partial(QuadraticGramBlock, n_heads=3, structure="full", rank=2),
    partial(BranchSumBlock, n_branches=5),
]


@pytest.mark.parametrize("block", BLOCKS)
def test_leading_dimensions_are_kept(block):
    made, x = block(WIDTH, dtype=torch.float64), make_inputs(2, 3, 4)
    y = made(x)
    assert y.shape == x.shape
    torch.testing.assert_close(made(x[1, 2]), y[1, 2], rtol=0, atol=1e-13)
    assert made(x[:, :0]).shape == (2, 0, 4, WIDTH)


@pytest.mark.parametrize("block", BLOCKS)
def test_same_seed_gives_the_same_weights_and_leaves_the_global_generator(block):
    state = torch.get_rng_state()
    one = BlockNetwork(4, block=block, width=8, generator=3)
    two = BlockNetwork(4, block=block, width=8, generator=3)
    other = BlockNetwork(4, block=block, width=8, generator=4)
    assert torch.equal(torch.get_rng_state(), state)
    for p, q, r in zip(
        one.parameters(), two.parameters(), other.parameters(), strict=True
    ):
        assert torch.equal(p, q)
        assert not torch.equal(p, r)


@pytest.mark.parametrize("block", BLOCKS)
def test_reset_parameters_draws_all_weights_anew(block):
    made = block(WIDTH, generator=torch.Generator().manual_seed(0))
    before = [p.detach().clone() for p in made.parameters()]
    made.reset_parameters(torch.Generator().manual_seed(1))
    assert not any(
        torch.equal(p, q) for p, q in zip(made.parameters(), before, strict=True)
    )
    made.reset_parameters(torch.Generator().manual_seed(0))
    assert all(
        torch.equal(p, q) for p, q in zip(made.parameters(), before, strict=True)
    )


@pytest.mark.parametrize("block", BLOCKS)
def test_exported_network_gives_the_same_output(block):
    network = BlockNetwork(4, block=block, width=8, n_blocks=2, generator=0)
    x = torch.randn(5, 4)
    rows = torch.export.Dim("rows", min=2, max=4096)
    program = torch.export.export(network, (x,), dynamic_shapes=({0: rows},))
    x = torch.randn(9, 4)
    torch.testing.assert_close(program.module()(x), network(x))


@pytest.mark.parametrize("block", BLOCKS)
def test_compiled_network_is_one_graph_with_the_same_output(block):
    network = BlockNetwork(4, block=block, width=8, n_blocks=2, generator=0)
    # The eager backend traces as the default one does, without a C++ compiler.
    compiled = torch.compile(network, backend="eager", fullgraph=True)
    x = torch.randn(5, 4)
    torch.testing.assert_close(compiled(x), network(x))


@pytest.mark.parametrize("block", BLOCKS)
def test_stacked_members_equal_the_single_networks(block):
    members = [BlockNetwork(4, block=block, width=8, generator=k) for k in range(3)]
    parameters, buffers = torch.func.stack_module_state(members)

    def call(parameters: dict, buffers: dict, x: Tensor) -> Tensor:
        return torch.func.functional_call(members[0], (parameters, buffers), (x,))

    x = torch.randn(6, 4)
    stacked = torch.vmap(call, in_dims=(0, 0, None))(parameters, buffers, x)
    single = torch.stack([member(x) for member in members])
    torch.testing.assert_close(stacked, single, rtol=1e-5, atol=1e-6)


@pytest.mark.gpu
@pytest.mark.parametrize("block", BLOCKS)
def test_cuda_gives_the_same_weights_and_outputs_as_the_cpu(block):
    on_cpu = BlockNetwork(4, block=block, width=8, generator=0, dtype=torch.float64)
    on_gpu = BlockNetwork(
        4, block=block, width=8, generator=0, dtype=torch.float64, device="cuda"
    )
    x = torch.randn(6, 4, dtype=torch.float64)
    y = on_gpu(x.cuda())
    assert y.is_cuda
    torch.testing.assert_close(y.cpu(), on_cpu(x), rtol=1e-12, atol=1e-12)


def test_embedding_comes_before_the_stem():
    class Twice(torch.nn.Module):
        out_features = 8

        def __init__(self, **_: object) -> None:
            super().__init__()

        def forward(self, x: Tensor) -> Tensor:
            return torch.cat([x, x.square()], dim=-1)

    network = BlockNetwork(4, embedding=Twice, width=5, generator=0)
    x = torch.randn(6, 4)
    expected = network.head(network.blocks[0](network.stem(torch.cat([x, x**2], -1))))
    torch.testing.assert_close(network(x), expected)
    assert BlockNetwork(4, 3, embedding=Twice, width=None)(x).shape == (6, 3)


# Errors -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_heads": 0}, "n_heads must be at least 1; got 0"),
        ({"n_branches": -1}, "n_branches must be at least 1; got -1"),
        ({"structure_rank": 0}, "structure_rank must be at least 1; got 0"),
        ({"hidden_width": 0}, "hidden_width must be at least 1; got 0"),
        ({"rank": 0}, "rank must be at least 1; got 0"),
        ({"structure": "half"}, r"structure must be one of .*'full'.*; got 'half'"),
        ({"activation": "sin"}, r"activation must be one of .*'gelu'.*; got 'sin'"),
        ({"init_scale": 0.0}, "init_scale must be positive; got 0.0"),
        ({"out_features": 3}, "out_features must equal width in a residual block"),
    ],
)
def test_bad_parameters_of_the_form_are_named(parameters, message):
    with pytest.raises(ValueError, match=message):
        QuadraticGramBlock(WIDTH, **parameters)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_branches": 0}, "n_branches must be at least 1; got 0"),
        ({"activation": "sin"}, "activation must be one of"),
        ({"out_features": 3}, "out_features must equal width in a residual block"),
    ],
)
def test_bad_parameters_of_the_branch_sum_are_named(parameters, message):
    with pytest.raises(ValueError, match=message):
        BranchSumBlock(WIDTH, **parameters)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_features": 0}, "n_features must be at least 1; got 0"),
        ({"n_blocks": 0}, "n_blocks must be at least 1; got 0"),
        ({"width": None, "n_blocks": 2}, "n_blocks must be 1 with width=None.*got 2"),
        ({"width": 0}, "width must be at least 1; got 0"),
    ],
)
def test_bad_parameters_of_the_network_are_named(parameters, message):
    with pytest.raises(ValueError, match=message):
        BlockNetwork(**{"n_features": 4, **parameters})


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activation_reaches_the_structure_network(name):
    block, x = make_block(activation=name), make_inputs(5)
    with torch.no_grad():
        layer = block.left_structure
        phi = ACTIVATIONS[name](x @ layer.weight.T + layer.bias)
        psi = block.right_structure
        psi = ACTIVATIONS[name](x @ psi.weight.T + psi.bias)
        A = (phi.unsqueeze(-1) * psi.unsqueeze(-2)).double()
        A = (A + A.mT) / 2
    torch.testing.assert_close(block.structure_matrix(x).detach(), A)
