"""The exchangeable sum of two-layer branches, as a residual block."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from sk_quadratic.modules._layers import (
    ACTIVATIONS,
    Linear,
    check_name,
    check_out_features,
    check_sizes,
)


class BranchSumBlock(nn.Module):
    r"""Residual block of the exchangeable two-layer branch sum.

    Computes :math:`y = x + c + \sum_i a_i \, \mathrm{act}(u_i \cdot x + c_i)`, the sum
    whose leading order :class:`QuadraticGramBlock` computes directly.

    Parameters
    ----------
    width : int
        Length :math:`n` of the input, and of the output unless `out_features` is given.
    n_branches : int, default=64
        Number of branches.
    activation : {"gelu", "relu", "silu", "tanh"}, default="gelu"
        Non-linearity of the branches.
    residual : bool, default=True
        Whether the input is added to the output.
    out_features : int or None, default=None
        Length of the output, `width` with None. Another length needs
        ``residual=False``.
    generator : torch.Generator or None, default=None
        CPU generator of the initial weights; None is torch's global one.
    device, dtype : optional
        Where and in which type the parameters are kept, as in :class:`torch.nn.Linear`.

    Attributes
    ----------
    branches : Linear from width to n_branches
        The :math:`u_i` and :math:`c_i`.
    projection : Linear from n_branches to out_features
        The :math:`a_i` and :math:`c`.

    Raises
    ------
    ValueError
        If a size is below 1, the activation is unknown, or a residual block is asked
        for another output length.
    """

    def __init__(
        self,
        width: int,
        *,
        n_branches: int = 64,
        activation: str = "gelu",
        residual: bool = True,
        out_features: int | None = None,
        generator: torch.Generator | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        check_sizes(width=width, n_branches=n_branches)
        self.width = width
        self.n_branches = n_branches
        self.activation = check_name("activation", activation, tuple(ACTIVATIONS))
        self.residual = residual
        self.out_features = check_out_features(out_features, width, residual)
        self.branches = Linear(width, n_branches, device=device, dtype=dtype)
        self.projection = Linear(
            n_branches, self.out_features, device=device, dtype=dtype
        )
        self.reset_parameters(generator)

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Draw all weights anew.

        Parameters
        ----------
        generator : torch.Generator or None, default=None
            CPU generator to draw from; None is torch's global one.
        """
        self.branches.reset_parameters(generator)
        self.projection.reset_parameters(generator)

    def forward(self, x: Tensor) -> Tensor:
        """Apply the block.

        Parameters
        ----------
        x : Tensor of shape (..., width)
            Inputs of the block.

        Returns
        -------
        Tensor of shape (..., out_features)
            The input plus the sum of the branches, or this alone without residual.
        """
        y = self.projection(ACTIVATIONS[self.activation](self.branches(x)))
        return x + y if self.residual else y
