"""The branch functions of the theory, for the checks and as examples."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

__all__ = ["gated_branch", "two_layer_branch"]


def two_layer_branch(
    activation: Callable[[Tensor], Tensor],
) -> Callable[[Tensor, Tensor], Tensor]:
    r"""Branch of a two-layer network.

    Parameters
    ----------
    activation : callable
        Element-wise function of a tensor, such as :func:`torch.tanh`.

    Returns
    -------
    callable
        :math:`\varphi(w; x) = a \, \mathrm{act}(u \cdot x)` with :math:`w = (a, u)`:
        one weight more than `x` has numbers.

    Examples
    --------
    >>> import torch
    >>> from sk_quadratic.mechanism import two_layer_branch
    >>> branch = two_layer_branch(torch.relu)
    >>> branch(torch.tensor([2.0, 1.0, 1.0]), torch.tensor([3.0, 4.0]))
    tensor(14.)
    """

    def _branch(w: Tensor, x: Tensor) -> Tensor:
        return w[0] * activation(w[1:] @ x)

    return _branch


def gated_branch(w: Tensor, x: Tensor) -> Tensor:
    r"""Product of two linear functions: a branch without activation.

    Parameters
    ----------
    w : Tensor of shape (2 * n_features,)
        :math:`w = (u, v)`.
    x : Tensor of shape (n_features,)
        One row.

    Returns
    -------
    Tensor of shape ()
        :math:`(u \cdot x)(v \cdot x)`, which is its own quadratic expansion.
    """
    u, v = w.tensor_split(2)
    return (u @ x) * (v @ x)
