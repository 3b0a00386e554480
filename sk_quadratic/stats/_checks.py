"""Checks of what the callers of the tests hand in."""

from __future__ import annotations

from numbers import Integral, Real

import numpy as np
from numpy.typing import ArrayLike

ALTERNATIVES = ("two-sided", "greater", "less")


def check_vector(values: ArrayLike, name: str) -> np.ndarray:
    """Return a fresh 1-D float64 array of finite numbers, or say what is wrong."""
    try:
        raw = np.asarray(values)
    except ValueError:  # rows of unequal length
        raise ValueError(
            f"{name} must be 1-D, one number an entry; got rows of unequal length."
        ) from None
    if raw.ndim != 1:
        raise ValueError(
            f"{name} must be 1-D, one number an entry; got shape {raw.shape}."
        )
    if raw.dtype.kind not in "biufO":
        raise TypeError(f"{name} must hold real numbers; got dtype {raw.dtype}.")
    try:
        vector = np.array(raw, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{name} must hold real numbers; {error}.") from None
    if not np.isfinite(vector).all():
        place = int(np.flatnonzero(~np.isfinite(vector))[0])
        raise ValueError(
            f"{name} must be finite; got {vector[place]} at position {place}."
        )
    return vector


def check_scores(a: ArrayLike, b: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """Return copies of two sets of paired scores, of equal length and finite."""
    first, second = check_vector(a, "a"), check_vector(b, "b")
    if first.shape != second.shape:
        raise ValueError(
            f"a and b must have the same shape; got {first.shape} and {second.shape}."
        )
    if first.size == 0:
        raise ValueError("a and b must hold at least one pair; got none.")
    with np.errstate(over="ignore"):
        if not np.isfinite(first - second).all():
            raise ValueError(
                "a - b must be finite; got scores whose difference overflows. "
                "Give them in larger units."
            )
    return first, second


def check_alternative(alternative: str) -> None:
    """Refuse an alternative that is not one of the three."""
    if not isinstance(alternative, str):
        kind = type(alternative).__name__
        raise TypeError(
            f"alternative must be a str, one of {ALTERNATIVES}; got {kind}."
        )
    if alternative not in ALTERNATIVES:
        raise ValueError(
            f"alternative must be one of {ALTERNATIVES}; got {alternative!r}."
        )


def check_real(value: float, name: str) -> float:
    """Return a Python float; a bool or anything but a number is refused."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, Real):
        raise TypeError(f"{name} must be a number; got {type(value).__name__}.")
    return float(value)


def check_fraction(value: float, name: str) -> float:
    """Return a Python float strictly between 0 and 1."""
    number = check_real(value, name)
    if not 0.0 < number < 1.0:
        raise ValueError(f"{name} must be strictly between 0 and 1; got {value}.")
    return number


def check_positive(value: float, name: str) -> float:
    """Return a finite Python float above 0."""
    number = check_real(value, name)
    if not (number > 0.0 and np.isfinite(number)):
        raise ValueError(f"{name} must be finite and above 0; got {value}.")
    return number


def check_n_resamples(n_resamples: int) -> int:
    """Return the number of resamples as an int of at least 1."""
    if isinstance(n_resamples, bool) or not isinstance(n_resamples, Integral):
        kind = type(n_resamples).__name__
        raise TypeError(f"n_resamples must be an int; got {n_resamples!r} ({kind}).")
    if n_resamples < 1:
        raise ValueError(f"n_resamples must be at least 1; got {n_resamples}.")
    return int(n_resamples)


def check_generator(
    random_state: int | np.random.Generator | np.random.RandomState | None,
) -> np.random.Generator:
    """Return a generator that shares no state with numpy's global one."""
    if isinstance(random_state, np.random.Generator):
        return random_state
    if isinstance(random_state, np.random.RandomState):
        words = random_state.randint(2**32, size=4, dtype=np.uint32)
        return np.random.default_rng(words)
    allowed = "None, an int of at least 0, a numpy Generator or a numpy RandomState"
    if random_state is None:
        return np.random.default_rng()
    if isinstance(random_state, bool) or not isinstance(random_state, Integral):
        kind = type(random_state).__name__
        raise TypeError(f"random_state must be {allowed}; got {kind}.")
    if random_state < 0:
        raise ValueError(f"random_state must be {allowed}; got {random_state}.")
    return np.random.default_rng(int(random_state))
