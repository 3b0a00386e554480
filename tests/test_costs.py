"""Counts against numbers worked out by hand."""

from functools import partial

import pytest
import torch
from torch import nn

from sk_quadratic.costs import ModuleCosts, match_parameters, module_costs
from sk_quadratic.modules import BlockNetwork, BranchSumBlock, QuadraticGramBlock


def perceptron(n_branches: int) -> BlockNetwork:
    block = partial(BranchSumBlock, n_branches=n_branches)
    return BlockNetwork(10, width=None, block=block)


def form(width: int, **parameters) -> BlockNetwork:
    block = partial(QuadraticGramBlock, **parameters)
    return BlockNetwork(10, width=width, block=block)


def test_costs_of_the_perceptron_equal_a_count_by_hand():
    # A multiply-add is two operations. Kept for the backward pass: the input and the
    # hidden layer before and after the activation, four bytes each.
    assert module_costs(perceptron(64), 10) == ModuleCosts(
        n_parameters=10 * 64 + 64 + 64 + 1,
        flops_per_row=2 * (10 * 64 + 64),
        saved_bytes_per_row=4 * (10 + 64 + 64),
    )


def test_costs_of_the_factored_form_equal_a_count_by_hand():
    n, k, d = 11, 8, 2
    costs = module_costs(form(n, n_heads=k, n_branches=d), 10)
    assert costs.n_parameters == (
        (10 * n + n)  # stem
        + 2 * (n * n + n)  # both factors
        + k * n * d  # branch weights
        + k * n + k  # first order and offset
        + n * k  # projection
        + n + 1  # head
    )  # fmt: skip
    assert costs.flops_per_row == 2 * (
        10 * n + 2 * n * n + 2 * n * k * d + n * k + k * n + n
    )
    # Input, stream, both factors before and after the activation, both projections
    # of the factors, the value of the forms, and the stream after the block.
    kept = 10 + n + 4 * n + 2 * k * d + k + n
    assert costs.saved_bytes_per_row == 4 * kept


def test_full_form_costs_no_more_with_more_branches():
    few, many = (
        module_costs(form(16, structure="full", hidden_width=6, n_branches=d), 10)
        for d in (2, 2000)
    )
    assert many.flops_per_row == few.flops_per_row
    assert many.saved_bytes_per_row == few.saved_bytes_per_row
    # stem, hidden layer, folded structure, affine part, projection, head
    by_hand = 10 * 16 + 16 * 6 + 6 * 8 + 6 * 8 + 8 * 16 + 16
    assert few.flops_per_row == 2 * by_hand


def test_factored_form_stops_growing_at_half_the_width():
    costs = [
        module_costs(form(16, n_branches=d), 10).flops_per_row for d in (8, 9, 900)
    ]
    assert costs[0] == costs[1] == costs[2]


def test_counting_changes_nothing():
    module = form(11)
    module.eval()
    before = [p.detach().clone() for p in module.parameters()]
    state = torch.get_rng_state()
    module_costs(module, 10)
    assert torch.equal(torch.get_rng_state(), state)
    assert not module.training
    assert all(p.grad is None for p in module.parameters())
    assert all(
        torch.equal(p, q) for p, q in zip(module.parameters(), before, strict=True)
    )


def test_saved_bytes_are_counted_without_gradients_around():
    expected = module_costs(perceptron(64), 10)
    with torch.no_grad():
        assert module_costs(perceptron(64), 10) == expected
    with torch.inference_mode():
        assert module_costs(perceptron(64), 10) == expected


def test_frozen_and_shared_parameters_are_counted_right():
    layer = nn.Linear(10, 10)
    frozen = nn.Linear(10, 10).requires_grad_(False)
    assert module_costs(nn.Sequential(layer, layer, frozen), 10).n_parameters == 110


def test_float64_module_is_counted_in_its_own_type():
    double = module_costs(nn.Linear(10, 3).double(), 10)
    single = module_costs(nn.Linear(10, 3), 10)
    assert double.saved_bytes_per_row == 2 * single.saved_bytes_per_row == 80


@pytest.mark.parametrize("wanted", [100, 769, 5000])
def test_matched_size_is_the_closest_of_all(wanted):
    sizes = range(1, 400)
    target = nn.Linear(wanted, 1, bias=False)
    found = match_parameters(perceptron, target, sizes, tolerance=1.0)
    errors = [abs(12 * size + 1 - wanted) for size in sizes]
    assert errors[sizes.index(found)] == min(errors)


def test_matched_size_has_equal_flops():
    target = form(11)
    n_branches = match_parameters(
        perceptron, target, range(1, 300), n_features=10, by="flops"
    )
    assert n_branches == 1782 // (2 * 11)
    wanted = module_costs(target, 10).flops_per_row
    assert module_costs(perceptron(n_branches), 10).flops_per_row == wanted == 1782


def test_matched_size_can_be_kept_below_the_target():
    def build(n_inputs: int) -> nn.Module:
        return nn.Linear(n_inputs, 1, bias=False)

    target = nn.Linear(100, 1, bias=False)
    assert match_parameters(build, target, [98, 101]) == 101
    assert match_parameters(build, target, [98, 101], at_most=True) == 98
    assert match_parameters(build, target, [98, 100], at_most=True) == 100
    assert match_parameters(build, target, [99, 101]) == 99  # of equally close ones


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"sizes": range(1, 5)}, r"No size within 2.0% of the 769 parameters.*is 4"),
        (
            {"sizes": range(70, 80), "at_most": True},
            "No size has at most the 769 parameters of the target; the smallest is 70",
        ),
        ({"sizes": []}, "sizes must have at least one candidate"),
        ({"by": "memory"}, "by must be 'parameters' or 'flops'; got 'memory'"),
        ({"by": "flops"}, "by='flops' needs n_features"),
    ],
)
def test_sizes_that_cannot_be_matched_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        match_parameters(perceptron, perceptron(64), **{"sizes": [64], **arguments})


def test_number_of_features_is_checked():
    with pytest.raises(ValueError, match="n_features must be at least 1; got 0"):
        module_costs(perceptron(2), 0)
