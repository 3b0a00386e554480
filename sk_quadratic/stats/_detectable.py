"""The smallest effect that the sign-flip test finds with a given power."""

from __future__ import annotations

from functools import lru_cache
from math import inf, sqrt

import numpy as np
from scipy.optimize import brentq
from scipy.special import gammaincinv, ndtr

from sk_quadratic.stats._patterns import (
    flipped_sums,
    lowest_kept_shift,
    n_rejected,
)

_MAX_PATTERNS = 2**15  # more change the power by less than a thousandth
_N_CELLS = 2**22  # patterns times directions: a tenth of a second
_PER_DRAW = 64  # directions that share a draw of patterns
_MANY_PAIRS = 200  # from here on the effect falls as one over the root of the pairs


def _critical_shifts(n_pairs: int, count: int, exact: bool, level: float) -> np.ndarray:
    """Simulate the centred sample of a normal one: what must its mean exceed?

    The mean of a normal sample is independent of its residuals, and so is their
    length of their direction. The mean is left to the normal distribution, the
    length goes through evenly spaced quantiles; only directions are drawn.
    """
    generator = np.random.default_rng(0)  # the same answer at every call
    n_directions = int(np.clip(_N_CELLS // count, 256, 4096))
    directions = generator.standard_normal((n_pairs, n_directions))
    directions -= directions.mean(axis=0)
    directions /= np.linalg.norm(directions, axis=0)
    quantiles = (np.arange(n_directions) + 0.5) / n_directions
    lengths = np.sqrt(2.0 * gammaincinv((n_pairs - 1) / 2.0, quantiles))
    rejected, shifts = n_rejected(count, level), []
    for start in range(0, n_directions, _PER_DRAW):
        columns = directions[:, start : start + _PER_DRAW]
        sums, sizes = flipped_sums(columns, count, exact, generator)
        shifts.append(-lowest_kept_shift(sums, sizes, rejected))
    return np.concatenate(shifts) * lengths


@lru_cache(maxsize=256)
def standardized_effect(
    n_pairs: int, count: int, exact: bool, level: float, two_sided: bool, power: float
) -> float:
    """Return the detectable mean in units of the standard deviation.

    Parameters
    ----------
    n_pairs : int
        Number of pairs.
    count : int
        Number of sign patterns the test looks at.
    exact : bool
        Whether these are all patterns.
    level : float
        Level of one tail.
    two_sided : bool
        Whether the other tail rejects too.
    power : float
        Probability of a rejection.

    Returns
    -------
    float
        Mean at which normal differences of unit variance are rejected with
        probability ``power``; infinite where the test cannot reach it.
    """
    if not exact or count > _MAX_PATTERNS:
        count, exact = min(count, _MAX_PATTERNS), False
    if n_rejected(count, level) == 0 or n_pairs == 1:
        return inf
    if n_pairs > _MANY_PAIRS:
        few = standardized_effect(_MANY_PAIRS, count, False, level, two_sided, power)
        return few * sqrt(_MANY_PAIRS / n_pairs)
    shifts = _critical_shifts(n_pairs, count, exact, level)
    root = sqrt(n_pairs)

    def excess(effect: float) -> float:
        found = ndtr(root * (effect - shifts)).mean()
        if two_sided:  # the wrong tail counts as a rejection too
            found += ndtr(root * (-effect - shifts)).mean()
        return float(found) - power

    if excess(0.0) >= 0.0:
        return 0.0
    largest = (
        float(np.max(shifts, where=np.isfinite(shifts), initial=0.0)) + 40.0 / root
    )
    return brentq(excess, 0.0, largest) if excess(largest) > 0.0 else inf
