"""What a module costs per row, and modules of equal cost."""

from __future__ import annotations

import copy
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal, TypeVar

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

__all__ = ["ModuleCosts", "match_parameters", "module_costs"]

Size = TypeVar("Size")


@dataclass(frozen=True)
class ModuleCosts:
    """Costs of a module that do not depend on the machine.

    Attributes
    ----------
    n_parameters : int
        Number of trainable parameters.
    flops_per_row : int
        Floating-point operations of the matrix products in a forward pass, for each
        further row. A multiply-add counts as two; work done once per call, whatever
        the number of rows, does not count.
    saved_bytes_per_row : int
        Bytes that autograd keeps for the backward pass, for each further row.
    """

    n_parameters: int
    flops_per_row: int
    saved_bytes_per_row: int


def module_costs(module: nn.Module, n_features: int) -> ModuleCosts:
    """Count parameters, operations and memory of a module.

    Nothing is computed: the module is copied to torch's meta device, where operations
    have shapes but no values.

    Parameters
    ----------
    module : Module
        Maps inputs of shape (n_rows, n_features); it is not changed.
    n_features : int
        Number of features.

    Returns
    -------
    ModuleCosts
        The counts.

    Raises
    ------
    ValueError
        If `n_features` is below 1.

    Examples
    --------
    >>> from torch import nn
    >>> from sk_quadratic import module_costs
    >>> module_costs(nn.Linear(10, 3), 10).flops_per_row
    60
    """
    if n_features < 1:
        raise ValueError(f"n_features must be at least 1; got {n_features!r}.")
    # The caller may have switched gradients off, which would keep nothing.
    with torch.inference_mode(False), torch.enable_grad():
        return _count(copy.deepcopy(module).to("meta").train(), n_features)


def _count(module: nn.Module, n_features: int) -> ModuleCosts:
    dtype = next((p.dtype for p in module.parameters()), torch.get_default_dtype())
    counts = []
    for n_rows in (64, 128):
        X = torch.empty(n_rows, n_features, dtype=dtype, device="meta")
        counts.append((_count_flops(module, X), _count_saved_bytes(module, X)))
    (flops, saved), (flops_twice, saved_twice) = counts
    return ModuleCosts(
        n_parameters=count_parameters(module),
        flops_per_row=(flops_twice - flops) // 64,
        saved_bytes_per_row=(saved_twice - saved) // 64,
    )


def count_parameters(module: nn.Module) -> int:
    """Number of trainable parameters.

    Parameters
    ----------
    module : Module
        Any module.

    Returns
    -------
    int
        Elements of all parameters that take a gradient; a shared one counts once.
    """
    return sum(p.numel() for p in module.parameters() if p.requires_grad)


def match_parameters(
    build: Callable[[Size], nn.Module],
    target: nn.Module,
    sizes: Sequence[Size],
    *,
    n_features: int | None = None,
    by: Literal["parameters", "flops"] = "parameters",
    at_most: bool = False,
    tolerance: float = 0.02,
) -> Size:
    """Pick the size of one module so that it costs as much as another.

    Parameters
    ----------
    build : callable
        Makes a module from a size. It is called on torch's meta device, so that large
        candidates take no memory.
    target : Module
        Module to match.
    sizes : sequence
        Candidates for `build` in increasing order of cost, such as a range of one
        size. Only a few of them are built.
    n_features : int or None, default=None
        Number of features; only ``by="flops"`` needs it.
    by : {"parameters", "flops"}, default="parameters"
        What shall be equal: trainable parameters, or operations per row.
    at_most : bool, default=False
        Whether to leave out the candidates that cost more than the target.
    tolerance : float, default=0.02
        Largest relative difference that is accepted.

    Returns
    -------
    size
        The candidate closest to the target; of two equally close ones the smaller.

    Raises
    ------
    ValueError
        If no candidate is within `tolerance`, or a parameter is not valid.

    Examples
    --------
    >>> from functools import partial
    >>> from sk_quadratic import BlockNetwork, BranchSumBlock, match_parameters
    >>> def perceptron(n_branches):
    ...     block = partial(BranchSumBlock, n_branches=n_branches)
    ...     return BlockNetwork(10, width=None, block=block)
    >>> match_parameters(perceptron, BlockNetwork(10, width=11), range(1, 200))
    63
    """
    if by not in ("parameters", "flops"):
        raise ValueError(f"by must be 'parameters' or 'flops'; got {by!r}.")
    if by == "flops" and n_features is None:
        raise ValueError("by='flops' needs n_features, the number of input features.")

    def _cost(module: nn.Module) -> int:
        if n_features is None or by == "parameters":
            return count_parameters(module)
        return module_costs(module, n_features).flops_per_row

    if not sizes:
        raise ValueError("sizes must have at least one candidate; got none.")
    wanted = _cost(target)

    @cache
    def _cost_at(i: int) -> int:
        return _cost(build(sizes[i]))

    with torch.device("meta"):
        n_below = bisect_right(range(len(sizes)), wanted, key=_cost_at)
        end = n_below if at_most else min(n_below + 1, len(sizes))
        allowed = [(sizes[i], _cost_at(i)) for i in range(max(n_below - 1, 0), end)]
    if not allowed:
        raise ValueError(
            f"No size has at most the {wanted} {by} of the target; the smallest is "
            f"{sizes[0]!r}."
        )
    size, closest = min(allowed, key=lambda pair: abs(pair[1] - wanted))
    if abs(closest - wanted) > tolerance * wanted:
        raise ValueError(
            f"No size within {tolerance:.1%} of the {wanted} {by} of the target; the "
            f"closest of {len(sizes)} is {size!r} with {closest}."
        )
    return size


def _count_flops(module: nn.Module, X: Tensor) -> int:
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        module(X)
    return counter.get_total_flops()


def _count_saved_bytes(module: nn.Module, X: Tensor) -> int:
    """Bytes of the distinct storages kept for the backward pass, weights left out."""
    parameters = {p.untyped_storage()._cdata for p in module.parameters()}
    kept: dict[int, Tensor] = {}

    def pack(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage._cdata not in parameters:
            kept[storage._cdata] = tensor  # holds the storage, whose key stays unique
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        output = module(X)
    del output
    return sum(t.untyped_storage().nbytes() for t in kept.values())
