"""The conditions of the theorem, checked numerically; order of the remainder."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.func import jacrev, vmap

from sk_quadratic.mechanism._rows import Function, draw, evaluate_rows

if TYPE_CHECKING:
    from sk_quadratic.mechanism.expansion import QuadraticExpansion

_SCALES = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1)
_N_DIRECTIONS = 8
_ROUNDING_SCALE = 1e-12  # of weights so small that a remainder can only be rounding
_HIGHEST_ORDER = 6
_N_ROWS = 16  # on which the order is looked for
_SYMMETRY_TOLERANCE = 1e-10


def check_same_derivatives(name: str, expansion: QuadraticExpansion) -> None:
    """Refuse a function that its second-order expansion does not describe near zero.

    In every direction the remainder divided by the weights squared must go to zero.
    Autograd takes some derivative on either side of a kink, which this finds out.
    """
    n, d = expansion.n_weights, expansion.n_branches or 1
    directions = draw((_N_DIRECTIONS, n, d), 0)
    directions /= directions.flatten(1).norm(dim=1)[:, None, None]
    directions = torch.cat([directions, -directions])
    absolute = expansion.remainder(_ROUNDING_SCALE * directions).abs().max()
    ratios, clear = [], []  # of shape (n_directions, rows, ...) for every scale
    for t in _SCALES:
        exact = expansion.exact(t * directions).abs().max()
        rounding = absolute + 50 * torch.finfo(torch.float64).eps * exact
        ratios.append(expansion.remainder(t * directions).abs() / t**2)
        clear.append(ratios[-1] > 20 * rounding / t**2)
    for i, t in enumerate(_SCALES[:-2]):
        r, larger, largest = ratios[i : i + 3]
        # A cubic term makes these 0.1 and 0.01; without a second derivative both are 1.
        kinked = clear[i] & (r > 0.5 * larger) & (r > 0.25 * largest)
        if i:
            kinked &= ~clear[i - 1]  # judged at the smallest scale above the rounding
        if kinked.any() or not r.isfinite().all():
            share = float(r[kinked].max()) if kinked.any() else math.nan
            raise ValueError(
                f"{name} has no second derivative at zero weights, which Theorem 1 "
                "needs: at weights of "
                f"size t = {t:g} it differs from its expansion by {share:.3g} t^2, "
                f"and this does not fall with t, in {int(kinked.sum())} of "
                f"{kinked.numel()} directions and rows. ReLU branches are of this "
                "kind; gelu, silu and tanh are not."
            )


def check_symmetric(module: Function, rows: Tensor, n: int, d: int) -> None:
    """Refuse a module whose value changes when its branches are exchanged."""
    change = symmetry_violation(module, rows, n, d)
    if not change <= _SYMMETRY_TOLERANCE:
        raise ValueError(
            "module must not change when its branches are exchanged, the columns of "
            f"W: it changes by {change:.3g} of its largest value."
        )


def symmetry_violation(module: Function, rows: Tensor, n: int, d: int) -> float:
    """Largest change under a swap and a cyclic shift, which generate all permutations.

    It is relative to the largest difference to the value at zero weights.
    """
    W = draw((3, n, d), 0) / math.sqrt(n)
    values = evaluate_rows(module, W, rows, "module")
    size = (values - evaluate_rows(module, 0 * W[:1], rows, "module")).abs().max()
    swapped = torch.cat([W[..., [1, 0]], W[..., 2:]], dim=-1)
    changes = [
        (evaluate_rows(module, other, rows, "module") - values).abs().max()
        for other in (swapped, W.roll(1, dims=-1))
    ]
    change = float(torch.stack(changes).max())
    return change / float(size) if change else 0.0


def check_no_interaction(cross: Tensor, own: Tensor) -> None:
    """Refuse branches whose mixed second derivatives are not zero."""
    size, own_size = float(cross.abs().max()), float(own.abs().max())
    if size > _SYMMETRY_TOLERANCE * max(own_size, 1.0):
        raise ValueError(
            "module must not couple two branches at second order, or it is no "
            "quadratic form in the Gram matrix: the largest mixed derivative at zero "
            f"weights is {size:.3g}, beside {own_size:.3g} within a branch."
        )


def find_order(
    function: Function, expansion: QuadraticExpansion, rows: Tensor, d: int
) -> float:
    """Order of the first derivative after the second that is not zero.

    Exact derivatives along random directions, on some of the rows.
    """
    n = expansion.n_weights
    W = draw((3, n, d), 1) / math.sqrt(n)
    remainder, exact = expansion.remainder(W), expansion.exact(W)
    size = exact.abs() + expansion.value.abs()
    if bool((remainder.abs() <= 1e-13 * d * n * size.max()).all()):
        return math.inf
    step = max(len(rows) // _N_ROWS, 1)
    rows = rows[::step][:_N_ROWS]
    zero = torch.zeros((), dtype=rows.dtype, device=rows.device)

    def along(t: Tensor, V: Tensor, row: Tensor) -> Tensor:
        return function(t * V, row)

    derivative: Callable[..., Tensor] = along
    sizes: list[float] = []
    for order in range(1, _HIGHEST_ORDER + 1):
        derivative = jacrev(derivative)
        over_rows = vmap(derivative, in_dims=(None, None, 0))
        found = vmap(over_rows, in_dims=(None, 0, None))(zero, W, rows)
        size_of_term = float(found.abs().max()) / math.factorial(order)
        if not math.isfinite(size_of_term):
            return math.nan
        if order > 2 and size_of_term > 1e-12 * max(sizes):
            return float(order)
        sizes.append(size_of_term)
    return math.nan
