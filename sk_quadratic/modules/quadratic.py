r"""The quadratic form in the Gram matrix of branch weights, as a residual block."""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from sk_quadratic.modules._layers import (
    ACTIVATIONS,
    Linear,
    check_name,
    check_out_features,
    check_sizes,
    normal_,
    uniform_,
)


class QuadraticGramBlock(nn.Module):
    r"""Residual block of quadratic forms in the Gram matrix of branch weights.

    Computes :math:`y = x + P z(x)`, where head :math:`k` of :math:`z` is

    .. math:: z_k(x) = b_k(x) + \mu_k \cdot g(x) + \operatorname{Tr}[M_k A(x)],
        \qquad M_k = W_k W_k^\top, \quad A(x) = \tfrac12 (B(x) + B(x)^\top),

    the leading order of a wide sum of exchangeable branches with near-zero weights
    :math:`w_i`, the columns of :math:`W` (Theorem 1 of [1]_). Only :math:`M` matters:
    permuting the branches, or mixing them by an orthogonal matrix, changes nothing.

    Parameters
    ----------
    width : int
        Length :math:`n` of the input, and of the output unless `out_features` is given.
    n_heads : int, default=8
        Number of forms. They share the structure; each has branch weights of its own.
    n_branches : int, default=2
        Number of branches :math:`d` per head, an upper bound on the rank of each
        :math:`M`.
    structure : {"factored", "full"}, default="factored"
        ``"factored"`` takes :math:`B(x) = \Phi(x) \Psi(x)^\top`, a product of learned
        features. ``"full"`` takes the literal :math:`B(x) = \mathrm{reshape}(H h(x))`,
        which makes every form a linear read-out of the hidden layer :math:`h(x)`.
    structure_rank : int, default=1
        Number of columns :math:`s` of :math:`\Phi` and :math:`\Psi`. Only the factored
        structure uses it.
    hidden_width : int or None, default=None
        Units of the hidden layer :math:`h` of the structure network. With None the
        factored structure has no hidden layer: :math:`\Phi` and :math:`\Psi` are the
        activation of an affine map of the input, :math:`g(x) = x` and :math:`b` is
        constant. With None the full structure has `width` hidden units.
    rank : int or None, default=None
        Rank :math:`r` of factored branch weights :math:`W = U V^\top`, or None for free
        branch weights.
    activation : {"gelu", "relu", "silu", "tanh"}, default="gelu"
        Non-linearity of the structure network.
    init_scale : float, default=1.0
        :math:`\epsilon` of the initial branch weights, whose entries have standard
        deviation :math:`\epsilon / \sqrt{n}`.
    first_order : bool, default=True
        Whether the term :math:`\mu \cdot g(x)` is there.
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
    branch_weights : Parameter of shape (n_heads, width, n_branches)
        :math:`W`; only with ``rank=None``.
    left_factor : Parameter of shape (n_heads, width, rank)
        :math:`U`; only with a rank.
    right_factor : Parameter of shape (n_heads, n_branches, rank)
        :math:`V`; only with a rank.
    first_order_weights : Parameter of shape (n_heads, width)
        :math:`\mu`; only with ``first_order=True``.
    projection : Linear from n_heads to out_features
        :math:`P`, without bias.

    Raises
    ------
    ValueError
        If a size is below 1, a name is unknown, `init_scale` is not positive, or a
        residual block is asked for another output length.

    Notes
    -----
    Nothing of size ``width * width`` per row is formed. The factored structure costs
    ``O(n_heads * width * min(n_branches, width))`` a row; the full one forms
    :math:`H^\top \mathrm{vec}(M)` once per call and is a product with `hidden_width`
    numbers per head thereafter.

    References
    ----------
    .. [1] arXiv:2608.13335, Theorem 1.
    """

    def __init__(
        self,
        width: int,
        *,
        n_heads: int = 8,
        n_branches: int = 2,
        structure: Literal["factored", "full"] = "factored",
        structure_rank: int = 1,
        hidden_width: int | None = None,
        rank: int | None = None,
        activation: str = "gelu",
        init_scale: float = 1.0,
        first_order: bool = True,
        residual: bool = True,
        out_features: int | None = None,
        generator: torch.Generator | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        check_sizes(
            width=width,
            n_heads=n_heads,
            n_branches=n_branches,
            structure_rank=structure_rank,
            hidden_width=1 if hidden_width is None else hidden_width,
            rank=1 if rank is None else rank,
        )
        check_name("structure", structure, ("factored", "full"))
        if not init_scale > 0:
            raise ValueError(f"init_scale must be positive; got {init_scale!r}.")
        if structure == "full" and hidden_width is None:
            hidden_width = width
        self.width = width
        self.n_heads = n_heads
        self.n_branches = n_branches
        self.structure = structure
        self.structure_rank = structure_rank
        self.hidden_width = hidden_width
        self.rank = rank
        self.activation = check_name("activation", activation, tuple(ACTIVATIONS))
        self.init_scale = init_scale
        self.residual = residual
        self.out_features = check_out_features(out_features, width, residual)

        def empty(*shape: int) -> nn.Parameter:
            return nn.Parameter(torch.empty(shape, device=device, dtype=dtype))

        def linear(n_in: int, n_out: int, bias: bool = True) -> Linear:
            return Linear(n_in, n_out, bias=bias, device=device, dtype=dtype)

        if rank is None:
            self.branch_weights = empty(n_heads, width, n_branches)
        else:
            self.left_factor = empty(n_heads, width, rank)
            self.right_factor = empty(n_heads, n_branches, rank)
        n_structure = width if hidden_width is None else hidden_width
        self.hidden = None if hidden_width is None else linear(width, hidden_width)
        if structure == "factored":
            # Without a hidden layer the factors carry the non-linearity and a bias.
            self.left_structure = linear(n_structure, structure_rank * width)
            self.right_structure = linear(n_structure, structure_rank * width)
        else:
            self.structure_readout = linear(n_structure, width * width, bias=False)
        self.first_order_weights = empty(n_heads, width) if first_order else None
        if hidden_width is None:
            self.offset_bias = empty(n_heads)
        else:
            self.offset_readout = linear(hidden_width, n_heads)
            if first_order:
                # A bias of g(x) would only repeat b(x).
                self.first_order_readout = linear(hidden_width, width, bias=False)
        self.projection = linear(n_heads, self.out_features, bias=False)
        self.reset_parameters(generator)

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Draw all weights anew.

        Parameters
        ----------
        generator : torch.Generator or None, default=None
            CPU generator to draw from; None is torch's global one.
        """
        root_n = math.sqrt(self.width)
        if self.rank is None:
            normal_(self.branch_weights, self.init_scale / root_n, generator)
        else:
            # The entries of U V^T then have standard deviation init_scale / sqrt(n).
            normal_(self.left_factor, self.init_scale / root_n, generator)
            normal_(self.right_factor, 1.0 / math.sqrt(self.rank), generator)
        if self.first_order_weights is not None:
            uniform_(self.first_order_weights, 1.0 / root_n, generator)
        if self.hidden_width is None:
            uniform_(self.offset_bias, 1.0 / root_n, generator)
        for child in self.children():
            if isinstance(child, Linear):
                child.reset_parameters(generator)

    def gram(self) -> Tensor:
        r"""Gram matrix :math:`M = W W^\top` of the branch weights of each head.

        Returns
        -------
        Tensor of shape (n_heads, width, width)
            Symmetric and positive semi-definite.
        """
        if self.rank is None:
            return self.branch_weights @ self.branch_weights.mT
        return self.left_factor @ self._right_gram() @ self.left_factor.mT

    def structure_matrix(self, x: Tensor) -> Tensor:
        r"""Structure matrix :math:`A(x)`, formed for inspection.

        Parameters
        ----------
        x : Tensor of shape (..., width)
            Inputs of the block.

        Returns
        -------
        Tensor of shape (..., width, width)
            :math:`A(x) = \tfrac12 (B(x) + B(x)^\top)`; symmetric, of either sign.
        """
        if self.structure == "factored":
            phi, psi = self._factors(self._hidden(x))
            B = phi.mT @ psi
        else:
            B = self.structure_readout(self._hidden(x))
            B = B.unflatten(-1, (self.width, self.width))
        return (B + B.mT) / 2

    def offset(self, x: Tensor) -> Tensor:
        r"""Offset :math:`b(x)` of the forms.

        Parameters
        ----------
        x : Tensor of shape (..., width)
            Inputs of the block.

        Returns
        -------
        Tensor of shape (..., n_heads)
            :math:`b(x)`, constant where there is no hidden layer.
        """
        if self.hidden_width is None:
            return self.offset_bias.expand(*x.shape[:-1], self.n_heads)
        return self.offset_readout(self._hidden(x))

    def first_order(self, x: Tensor) -> Tensor:
        r"""First-order features :math:`g(x)`.

        Parameters
        ----------
        x : Tensor of shape (..., width)
            Inputs of the block.

        Returns
        -------
        Tensor of shape (..., width)
            :math:`g(x)`: the input itself where there is no hidden layer, since any
            linear :math:`g` is absorbed by :math:`\mu`. Zero without first order.
        """
        if self.first_order_weights is None:
            return torch.zeros_like(x)
        return (
            x
            if self.hidden_width is None
            else self.first_order_readout(self._hidden(x))
        )

    def form(self, x: Tensor) -> Tensor:
        r"""Value :math:`z(x)` of the quadratic forms.

        Parameters
        ----------
        x : Tensor of shape (..., width)
            Inputs of the block.

        Returns
        -------
        Tensor of shape (..., n_heads)
            :math:`b(x) + \mu \cdot g(x) + \operatorname{Tr}[M A(x)]`.
        """
        hidden = self._hidden(x)
        if self.structure == "full":
            return self._full_form(hidden)
        return self._affine_part(hidden) + self._factored_trace(*self._factors(hidden))

    def forward(self, x: Tensor) -> Tensor:
        """Apply the block.

        Parameters
        ----------
        x : Tensor of shape (..., width)
            Inputs of the block.

        Returns
        -------
        Tensor of shape (..., out_features)
            The input plus the projected forms, or these alone without residual.
        """
        y = self.projection(self.form(x))
        return x + y if self.residual else y

    def extra_repr(self) -> str:
        """Show the sizes in the printed module.

        Returns
        -------
        str
            Names and values.
        """
        return (
            f"width={self.width}, n_heads={self.n_heads}, "
            f"n_branches={self.n_branches}, structure={self.structure!r}, "
            f"rank={self.rank}"
        )

    def _hidden(self, x: Tensor) -> Tensor:
        """Output of the hidden layer; the input where there is none."""
        if self.hidden is None:
            return x
        return ACTIVATIONS[self.activation](self.hidden(x))

    def _factors(self, hidden: Tensor) -> tuple[Tensor, Tensor]:
        """Transposed factors Phi^T and Psi^T of B(x), each (..., s, width)."""
        phi, psi = self.left_structure(hidden), self.right_structure(hidden)
        if self.hidden is None:
            act = ACTIVATIONS[self.activation]
            phi, psi = act(phi), act(psi)
        shape = (self.structure_rank, self.width)
        return phi.unflatten(-1, shape), psi.unflatten(-1, shape)

    def _right_gram(self) -> Tensor:
        return self.right_factor.mT @ self.right_factor  # (n_heads, rank, rank)

    def _affine_part(self, hidden: Tensor) -> Tensor:
        """``b(x) + mu . g(x)``, both linear in the hidden layer: one product."""
        mu = self.first_order_weights
        if self.hidden_width is None:
            if mu is None:
                return self.offset_bias
            return F.linear(hidden, mu, self.offset_bias)
        weight: Tensor = self.offset_readout.weight
        if mu is not None:
            weight = weight + mu @ self.first_order_readout.weight
        return F.linear(hidden, weight, self.offset_readout.bias)

    def _full_form(self, hidden: Tensor) -> Tensor:
        """Forms of the full structure, in which ``A(x)`` is folded away.

        ``M`` is symmetric, so ``Tr[M A(x)] = vec(M) . H h(x) = h(x) . H^T vec(M)``.
        """
        readout = self.gram().flatten(1) @ self.structure_readout.weight
        return self._affine_part(hidden) + F.linear(hidden, readout)

    def _factored_trace(self, phi: Tensor, psi: Tensor) -> Tensor:
        """``Tr[M A(x)] = sum_s phi_s . M psi_s``, grouped as is cheapest.

        `phi` and `psi` have shape (..., s, width), the result (..., n_heads).
        """
        if self.rank is not None and 2 * self.rank <= self.width:
            left = self._project(phi, self.left_factor @ self._right_gram())
            right = self._project(psi, self.left_factor)
        elif self.rank is None and 2 * self.n_branches <= self.width:
            left = self._project(phi, self.branch_weights)
            right = self._project(psi, self.branch_weights)
        else:  # many branches: M is formed once per call, never per row
            left, right = self._project(phi, self.gram()), psi.unsqueeze(-2)
        return (left * right).sum(dim=(-3, -1))

    def _project(self, phi: Tensor, weights: Tensor) -> Tensor:
        """Product of (..., s, n) with (n_heads, n, c): shape (..., s, n_heads, c)."""
        n_heads, width, n_columns = weights.shape
        flat = weights.transpose(0, 1).reshape(width, n_heads * n_columns)
        return (phi @ flat).unflatten(-1, (n_heads, n_columns))
