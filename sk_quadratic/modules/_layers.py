"""What the blocks share: activations, the affine map, initial weights, checks."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu": F.gelu,
    "relu": F.relu,
    "silu": F.silu,
    "tanh": torch.tanh,
}
"""Element-wise functions by the name that the modules and the estimators take."""


class Linear(nn.Module):
    """Affine map that takes its generator, with :class:`torch.nn.Linear`'s initial law.

    Building one draws nothing: all is zero until `reset_parameters` is called.
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        *,
        bias: bool = True,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.in_features = in_features
        self.out_features = out_features
        self.weight = nn.Parameter(
            torch.zeros((out_features, in_features), device=device, dtype=dtype)
        )
        self.bias = (
            nn.Parameter(torch.zeros(out_features, device=device, dtype=dtype))
            if bias
            else None
        )

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        bound = 1.0 / math.sqrt(self.in_features)
        uniform_(self.weight, bound, generator)
        if self.bias is not None:
            uniform_(self.bias, bound, generator)

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, self.weight, self.bias)

    def extra_repr(self) -> str:
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, "
            f"bias={self.bias is not None}"
        )


def normal_(parameter: Tensor, std: float, generator: torch.Generator | None) -> None:
    """Fill with normal numbers of that deviation, drawn on the CPU on any device."""
    if not parameter.is_meta:
        draw = torch.randn(
            parameter.shape, generator=generator, dtype=parameter.dtype, device="cpu"
        )
        parameter.data.copy_(draw * std)


def uniform_(
    parameter: Tensor, bound: float, generator: torch.Generator | None
) -> None:
    """Fill with uniform numbers in +-bound, drawn on the CPU on any device."""
    if not parameter.is_meta:
        draw = torch.rand(
            parameter.shape, generator=generator, dtype=parameter.dtype, device="cpu"
        )
        parameter.data.copy_((2.0 * draw - 1.0) * bound)


def check_sizes(**sizes: int) -> None:
    for name, size in sizes.items():
        if size < 1:
            raise ValueError(f"{name} must be at least 1; got {size!r}.")


def check_name(parameter: str, value: str, allowed: tuple[str, ...]) -> str:
    if value not in allowed:
        raise ValueError(f"{parameter} must be one of {allowed}; got {value!r}.")
    return value


def check_out_features(out_features: int | None, width: int, residual: bool) -> int:
    if out_features is None:
        return width
    if residual and out_features != width:
        raise ValueError(
            "out_features must equal width in a residual block; got "
            f"out_features={out_features} and width={width}. Set residual=False."
        )
    return out_features
