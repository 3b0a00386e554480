"""Functions of branch weights and rows: evaluation in float64, and checked inputs."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Integral

import torch
from torch import Tensor
from torch.func import vmap

Function = Callable[[Tensor, Tensor], Tensor]
"""Maps weights (n_weights, n_branches) and a row (n_features,) to a value or values."""

_NUMBERS = 2**20  # weights times rows that are evaluated at once


def evaluate_rows(
    function: Function, W: Tensor, rows: Tensor, name: str = "branch"
) -> Tensor:
    """Values for every set of weights and row: (n_sets, n_rows) or with the outputs."""
    over_rows = vmap(function, in_dims=(None, 0))
    chunk = max(_NUMBERS // (len(rows) * W.shape[-1]), 1)
    try:
        values = vmap(over_rows, in_dims=(0, None), chunk_size=chunk)(W, rows)
    except (RuntimeError, ValueError, IndexError) as error:
        shape = tuple(W.shape[1:] if name == "module" else W.shape[1:2])
        error.add_note(
            f"{name} was called under torch.func.vmap with float64 weights of shape "
            f"{shape} and a float64 row of shape {tuple(rows.shape[1:])}. A module "
            "inside it needs .double()."
        )
        raise
    if values.ndim not in (2, 3):
        raise ValueError(
            f"{name} must return a scalar or a vector for one row; got shape "
            f"{tuple(values.shape[2:])}."
        )
    if values.dtype != torch.float64:
        raise TypeError(
            f"{name} must return float64 for float64 weights and rows; got "
            f"{values.dtype}."
        )
    return values


def as_double(name: str, tensor: Tensor) -> Tensor:
    """Detached contiguous float64 copy of a tensor or of numbers."""
    try:
        found = torch.as_tensor(tensor)
    except (TypeError, ValueError, RuntimeError) as error:
        raise TypeError(
            f"{name} must be a tensor of numbers; got {type(tensor).__name__}."
        ) from error
    if found.is_complex():
        raise TypeError(f"{name} must hold real numbers; got {found.dtype}.")
    return found.detach().double().contiguous()


def check_callable(name: str, function: object) -> None:
    if not callable(function):
        raise TypeError(
            f"{name} must be a function of weights and a row; got "
            f"{type(function).__name__}."
        )


def check_count(name: str, value: int, at_least: int = 1) -> None:
    if not isinstance(value, Integral) or isinstance(value, bool):
        raise TypeError(f"{name} must be an int; got {type(value).__name__}.")
    if value < at_least:
        raise ValueError(f"{name} must be at least {at_least}; got {value!r}.")


def generator(random_state: int) -> torch.Generator:
    return torch.Generator().manual_seed(random_state)


def draw(shape: tuple[int, ...], random_state: int | torch.Generator) -> Tensor:
    """Normal numbers in float64, from a seed or a generator."""
    if isinstance(random_state, int):
        random_state = generator(random_state)
    return torch.randn(shape, generator=random_state, dtype=torch.float64)


def draw_orthogonal(shape: tuple[int, ...], random_state: torch.Generator) -> Tensor:
    """Orthogonal matrices, uniform: the signs of R's diagonal are taken out."""
    Q, R = torch.linalg.qr(draw(shape, random_state))
    return Q * R.diagonal(dim1=-2, dim2=-1).sign().unsqueeze(-2)
