r"""The quadratic expansion of a sum of branches around zero weights."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import torch
from torch import Tensor
from torch.func import jacrev, vmap

from sk_quadratic.mechanism._conditions import (
    check_no_interaction,
    check_same_derivatives,
    check_symmetric,
    find_order,
)
from sk_quadratic.mechanism._rows import (
    Function,
    as_double,
    check_callable,
    check_count,
    evaluate_rows,
)

__all__ = ["QuadraticExpansion", "module_expansion", "quadratic_expansion"]

_ZERO = 1e-10  # relative to the curvature: a gradient below is rounding
_HESSIAN_NUMBERS = 2**22  # of the rows that are differentiated at once


@dataclass(frozen=True)
class QuadraticExpansion:
    r"""A sum of branches to second order in the weights of the branches.

    Everything is in float64, whatever the type of the input.

    Attributes
    ----------
    value : Tensor of shape (...) or (..., n_outputs)
        Value at zero weights: of one branch, or of the whole module.
    first_order : Tensor of shape (..., n_weights) or (..., n_outputs, n_weights)
        :math:`g(x)`, the gradient of a branch at zero weights.
    structure_matrix : Tensor of shape (..., n_weights, n_weights) or (..., n_outputs, \
n_weights, n_weights)
        :math:`A(x)`, half the Hessian of a branch at zero weights, symmetric.
    predicted_order : float
        Power of :math:`\epsilon` with which the remainder vanishes for weights of that
        size: the order of the first derivative after the second that is not zero. It
        is ``inf`` where there is no remainder, and NaN where none of the derivatives
        up to the sixth decides, as at a kink of the second derivative.
    n_branches : int or None
        Number of branches of a whole module; None where a sum of any number of
        branches was expanded.
    """

    value: Tensor
    first_order: Tensor
    structure_matrix: Tensor
    predicted_order: float
    n_branches: int | None
    _function: Function = field(repr=False, compare=False)
    _x: Tensor = field(repr=False, compare=False)

    @property
    def n_weights(self) -> int:
        """Number of weights of a branch.

        Returns
        -------
        int
            Length of the gradient.
        """
        return self.first_order.shape[-1]

    @property
    def gradient_size(self) -> float:
        """Largest entry of `first_order`, without its sign.

        Returns
        -------
        float
            Zero, up to rounding, where the theorem applies.
        """
        return float(self.first_order.abs().max())

    @property
    def vanishing_gradient(self) -> bool:
        """Whether the gradient at zero weights vanishes, as the theorem requires.

        Returns
        -------
        bool
            Whether `gradient_size` is rounding, next to the curvature.
        """
        curvature = float(self.structure_matrix.abs().max())
        return self.gradient_size <= _ZERO * max(curvature, 1.0)

    @property
    def outside_theorem(self) -> str | None:
        """Condition of the theorem that fails.

        Returns
        -------
        str or None
            What fails and by how much, or None.
        """
        if self.vanishing_gradient:
            return None
        return (
            "The gradient of a branch at zero weights does not vanish: its largest "
            f"entry is {self.gradient_size:.3g}. Outside Theorem 1 of "
            "arXiv:2608.13335 the sum is first of all mu.g(x), and mixing the branches "
            "changes it. A softplus branch, whose activation is not zero at zero, is "
            "of this kind."
        )

    def approximate(self, W: Tensor) -> Tensor:
        r"""Value of the expansion for some branch weights.

        Parameters
        ----------
        W : Tensor of shape (n_weights, n_branches) or (n_sets, n_weights, n_branches)
            Branch weights, one branch a column; several sets of them are taken at once.

        Returns
        -------
        Tensor of the shape of `value`, after (n_sets,) for several sets
            :math:`f(0) + \mu \cdot g(x) + \operatorname{Tr}[W W^\top A(x)]`, where
            :math:`\mu` is the sum of the branches' weights and :math:`f(0)` that of
            their values at zero weights.
        """
        W = self._check_weights(W)
        n_terms = W.shape[-1] if self.n_branches is None else 1
        mu, M = W.sum(dim=-1), W @ W.mT
        first = torch.tensordot(mu, self.first_order, dims=([-1], [-1]))
        second = torch.tensordot(M, self.structure_matrix, dims=([-2, -1], [-2, -1]))
        return n_terms * self.value + first + second

    def exact(self, W: Tensor) -> Tensor:
        """Value of the branches themselves.

        Parameters
        ----------
        W : Tensor of shape (n_weights, n_branches) or (n_sets, n_weights, n_branches)
            Branch weights.

        Returns
        -------
        Tensor of the shape of `value`, after (n_sets,) for several sets
            Sum over the branches, or value of the module.
        """
        W = self._check_weights(W)
        n_features, rows = self._x.shape[-1], self._x.shape[:-1]
        values = evaluate_rows(
            self._function, W.reshape(-1, *W.shape[-2:]), self._x.view(-1, n_features)
        )
        return values.view((*W.shape[:-2], *rows, *values.shape[2:]))

    def remainder(self, W: Tensor) -> Tensor:
        """What the expansion leaves out.

        Parameters
        ----------
        W : Tensor of shape (n_weights, n_branches) or (n_sets, n_weights, n_branches)
            Branch weights.

        Returns
        -------
        Tensor of the shape of `value`, after (n_sets,) for several sets
            `exact` minus `approximate`.
        """
        return self.exact(W) - self.approximate(W)

    def __str__(self) -> str:
        """Return what was found as a few lines.

        Returns
        -------
        str
            Sizes, order of the remainder, and a condition that fails.
        """
        n = self.n_weights
        what = "a sum of branches"
        if self.n_branches is not None:
            what = f"a module of {self.n_branches} branches"
        rows = tuple(self._x.shape[:-1])
        lines = [
            f"Quadratic expansion of {what}: {n} weights a branch, rows {rows}",
            f"  largest entry of g(x)   {self.gradient_size:.3g}",
            f"  largest entry of A(x)   {float(self.structure_matrix.abs().max()):.3g}",
            f"  order of the remainder  {self.predicted_order:g}",
        ]
        return "\n".join([*lines, self.outside_theorem or "Theorem 1 applies."])

    def _check_weights(self, W: Tensor) -> Tensor:
        W = as_double("W", W)
        d = self.n_branches
        shape = f"({self.n_weights}, {'n_branches' if d is None else d})"
        fits = W.ndim in (2, 3) and W.shape[-2] == self.n_weights and W.shape[-1] > 0
        if not fits or d not in (None, W.shape[-1]):
            raise ValueError(
                f"W must have shape {shape}, one branch a column, or several such sets "
                f"along a first axis; got {tuple(W.shape)}."
            )
        return W


def quadratic_expansion(
    branch: Callable[[Tensor, Tensor], Tensor], x: Tensor, *, n_weights: int
) -> QuadraticExpansion:
    r"""Expand a sum of branches to second order around zero weights.

    A sum of interchangeable branches :math:`\sum_i \varphi(w_i; x)` with weights near
    zero is, to leading order, a quadratic form in their Gram matrix (Theorem 1 of
    [1]_). This finds the form of any branch function and verifies the conditions.

    Parameters
    ----------
    branch : callable
        :math:`\varphi`: maps the weights of one branch, of shape (n_weights,), and one
        row, of shape (n_features,), to a scalar or to (n_outputs,). It is called with
        float64 tensors under :func:`torch.func.vmap`, so it must not branch on values;
        a module inside it is to be converted with ``.double()``.
    x : Tensor of shape (..., n_features)
        Rows at which to expand.
    n_weights : int
        Number of weights of a branch, which the function itself does not tell.

    Returns
    -------
    QuadraticExpansion
        :math:`g(x)`, :math:`A(x)` and the predicted order of the remainder. Where the
        gradient at zero does not vanish the expansion holds with its term
        :math:`\mu \cdot g(x)`, and ``outside_theorem`` says that the theorem does not.

    Raises
    ------
    ValueError
        If the value or a derivative at zero is not finite, there is no second
        derivative at zero, as with ReLU, or an argument is not valid.

    See Also
    --------
    module_expansion : Expands a function of all branches.

    Notes
    -----
    Autograd gives a second derivative of zero for a kink, silently. So the expansion is
    compared with the branch at weights of size 0.1 down to 1e-6 in random directions,
    where :math:`\varphi` minus its expansion must fall faster than the weights squared.

    References
    ----------
    .. [1] arXiv:2608.13335, Theorem 1.

    Examples
    --------
    >>> import torch
    >>> from sk_quadratic import quadratic_expansion
    >>> def branch(w, x):
    ...     return w[0] * torch.tanh(w[1:] @ x)
    >>> expansion = quadratic_expansion(branch, torch.tensor([[1.0, 2.0]]), n_weights=3)
    >>> expansion.structure_matrix
    tensor([[[0.0000, 0.5000, 1.0000],
             [0.5000, 0.0000, 0.0000],
             [1.0000, 0.0000, 0.0000]]], dtype=torch.float64)
    >>> expansion.predicted_order
    4.0
    """
    check_callable("branch", branch)
    check_count("n_weights", n_weights)

    def _sum(W: Tensor, row: Tensor) -> Tensor:
        return vmap(branch, in_dims=(1, None))(W, row).sum(dim=0)

    return _expand("branch", _sum, _check_rows(x), n_weights, n_branches=None)


def module_expansion(
    module: Callable[[Tensor, Tensor], Tensor],
    x: Tensor,
    *,
    n_weights: int,
    n_branches: int,
) -> QuadraticExpansion:
    """Expand a function of all branches that claims to be symmetric in them.

    The claim is checked first: exchanging branches must leave the value alone, the
    gradient at zero weights must vanish, and no two branches may interact at second
    order, as they do not in a sum.

    Parameters
    ----------
    module : callable
        Maps the weights of all branches, of shape (n_weights, n_branches), and one row,
        of shape (n_features,), to a scalar or to (n_outputs,); called like the `branch`
        of :func:`quadratic_expansion`.
    x : Tensor of shape (..., n_features)
        Rows at which to expand.
    n_weights : int
        Number of weights of a branch.
    n_branches : int
        Number of branches, at least 2.

    Returns
    -------
    QuadraticExpansion
        The expansion, for weights of `n_branches` columns.

    Raises
    ------
    ValueError
        If a condition of the theorem fails; the message says which, and by how much.

    See Also
    --------
    quadratic_expansion : Expands a sum of branches, given one of them.

    Examples
    --------
    >>> import torch
    >>> from sk_quadratic import module_expansion
    >>> def network(W, x):
    ...     return W[0] @ torch.tanh(W[1:].T @ x)
    >>> x = torch.tensor([1.0, 2.0])
    >>> module_expansion(network, x, n_weights=3, n_branches=5).structure_matrix[0]
    tensor([0.0000, 0.5000, 1.0000], dtype=torch.float64)
    """
    check_callable("module", module)
    check_count("n_weights", n_weights)
    check_count("n_branches", n_branches, at_least=2)
    rows = _check_rows(x)
    check_symmetric(module, rows.view(-1, rows.shape[-1]), n_weights, n_branches)
    return _expand("module", module, rows, n_weights, n_branches=n_branches)


def _check_rows(x: Tensor) -> Tensor:
    x = as_double("x", x)
    if x.ndim == 0 or x.numel() == 0:
        raise ValueError(
            f"x must have shape (..., n_features) and hold a row; got {tuple(x.shape)}."
        )
    if not x.isfinite().all():
        raise ValueError("x must be finite; got NaN or infinity.")
    return x


def _expand(
    name: str, function: Function, x: Tensor, n_weights: int, n_branches: int | None
) -> QuadraticExpansion:
    d = 1 if n_branches is None else n_branches
    flat = x.view(-1, x.shape[-1])
    zero = torch.zeros(n_weights, d, dtype=x.dtype, device=x.device)
    value = evaluate_rows(function, zero[None], flat, name)[0]
    _check_finite(name, "value", value)
    gradient, curvature = _derivatives(function, flat, zero, value[0].numel())
    _check_finite(name, "gradient", gradient)
    _check_finite(name, "second derivative", curvature)
    H = curvature[..., 0, :, 0]  # of the first branch alone
    rows = x.shape[:-1]
    expansion = partial(
        QuadraticExpansion,
        value=value.view((*rows, *value.shape[1:])),
        first_order=gradient[..., 0].reshape(*rows, *value.shape[1:], n_weights),
        structure_matrix=((H + H.mT) / 4).reshape(
            *rows, *value.shape[1:], n_weights, n_weights
        ),
        n_branches=n_branches,
        _function=function,
        _x=x,
    )
    unordered = expansion(predicted_order=math.nan)
    if n_branches is not None:
        if not unordered.vanishing_gradient:
            raise ValueError(f"module: {unordered.outside_theorem}")
        check_no_interaction(curvature[..., 0, :, 1], H)
    check_same_derivatives(name, unordered)
    return expansion(predicted_order=find_order(function, unordered, flat, d))


def _derivatives(
    function: Function, rows: Tensor, zero: Tensor, n_outputs: int
) -> tuple[Tensor, Tensor]:
    """Gradient (rows, ..., n, c) and Hessian (rows, ..., n, c, n, c) at zero.

    The derivatives are those by the first c branches: one, or two where they may
    interact.
    """
    n, d = zero.shape
    c = min(d, 2)
    others = zero[:, c:]

    def of_first(V: Tensor, row: Tensor) -> Tensor:
        return function(torch.cat([V, others], dim=1), row)

    chunk = max(_HESSIAN_NUMBERS // (n_outputs * (n * c) ** 2), 1)

    def over_rows(derivative: Callable[..., Tensor]) -> Tensor:
        return vmap(derivative, in_dims=(None, 0), chunk_size=chunk)(zero[:, :c], rows)

    gradient = jacrev(of_first)
    return over_rows(gradient), over_rows(jacrev(gradient))


def _check_finite(name: str, what: str, found: Tensor) -> None:
    if not found.isfinite().all():
        raise ValueError(
            f"The {what} of {name} at zero weights must be finite; got NaN or infinity "
            f"in {int((~found.isfinite()).sum())} of {found.numel()} numbers. "
            "Theorem 1 needs two derivatives there."
        )
