"""Embedding of encoded tables: numbers pass, codes of categories become vectors."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from sk_quadratic.modules._layers import check_sizes, normal_

_N_RESERVED = 2  # codes of unknown and of missing labels, which come first


class TableEmbedding(nn.Module):
    """Turn the codes of categories in a table into learned vectors.

    Parameters
    ----------
    n_numbers : int
        Number of leading columns that pass as they are.
    n_codes : sequence of int
        Number of codes of each of the other columns, which hold codes from 0 on. Codes
        0 and 1 stand for an unknown and for a missing category and start at zero, the
        mean of the others.
    dim : int, default=8
        Length of the vector of a category.
    generator : torch.Generator or None, default=None
        CPU generator of the initial vectors; None is torch's global generator.
    device, dtype : optional
        Where and in which type the vectors are kept, as in :class:`torch.nn.Linear`.

    Attributes
    ----------
    out_features : int
        Length of the output.
    vectors : Parameter of shape (sum of `n_codes`, dim)
        Vectors of all categories, column by column.
    """

    first_code: Tensor

    def __init__(
        self,
        n_numbers: int,
        n_codes: Sequence[int],
        dim: int = 8,
        *,
        generator: torch.Generator | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        check_sizes(n_columns=len(n_codes), dim=dim)
        self.n_numbers = n_numbers
        self.n_codes = tuple(int(n) for n in n_codes)
        self.dim = dim
        self.out_features = n_numbers + len(self.n_codes) * dim
        self.vectors = nn.Parameter(
            torch.empty((sum(self.n_codes), dim), device=device, dtype=dtype)
        )
        first = torch.tensor([0, *self.n_codes[:-1]], device="cpu").cumsum(0)
        self.register_buffer("first_code", first.to(device), persistent=False)
        normal_(self.vectors, 1.0 / math.sqrt(dim), generator)
        with torch.no_grad():
            for start in first.tolist():
                self.vectors[start : start + _N_RESERVED] = 0.0

    @property
    def column_of_output(self) -> list[int]:
        """Which input column each number of the output comes from.

        Returns
        -------
        list of int of length `out_features`
            Number of the column.
        """
        columns = range(self.n_numbers, self.n_numbers + len(self.n_codes))
        return [*range(self.n_numbers), *(c for c in columns for _ in range(self.dim))]

    def forward(self, X: Tensor) -> Tensor:
        """Embed.

        Parameters
        ----------
        X : Tensor of shape (..., n_numbers + len(n_codes))
            Numbers, then codes.

        Returns
        -------
        Tensor of shape (..., out_features)
            Numbers, then vectors.
        """
        codes = X[..., self.n_numbers :].long() + self.first_code
        vectors = F.embedding(codes, self.vectors).flatten(start_dim=-2)
        return torch.cat([X[..., : self.n_numbers], vectors], dim=-1)

    def extra_repr(self) -> str:
        """Show the sizes in the printed module.

        Returns
        -------
        str
            Names and values.
        """
        return f"n_numbers={self.n_numbers}, n_codes={self.n_codes}, dim={self.dim}"
