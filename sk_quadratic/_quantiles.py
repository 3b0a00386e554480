"""Quantiles of weighted numbers, and a scale that a few odd values do not move."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import norm

_PAIRS = ((0.25, 0.75), (0.1, 0.9), (0.02, 0.98))


def weighted_quantiles(
    values: NDArray[np.floating],
    quantiles: ArrayLike,
    weight: NDArray[np.floating] | None = None,
) -> NDArray[np.float64]:
    """Quantiles of numbers with weights.

    Parameters
    ----------
    values : ndarray of shape (n,)
        Numbers, finite, at least one.
    quantiles : array-like of shape (k,)
        Within 0 and 1.
    weight : ndarray of shape (n,) or None
        Positive weights; None is equal ones.

    Returns
    -------
    ndarray of shape (k,)
        The quantiles.

    Notes
    -----
    A value stands in the middle of its weight and the quantile is linear in between,
    which is Hazen's rule for equal weights.
    """
    quantiles = np.asarray(quantiles, dtype=np.float64)
    values = values.astype(np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        if weight is None:
            return np.quantile(values * 0.5, quantiles, method="hazen") * 2.0
        order = np.argsort(values, kind="stable")
        cumulative = np.cumsum(weight[order])
        middle = (cumulative - 0.5 * weight[order]) / cumulative[-1]
        return np.interp(quantiles, middle, values[order] * 0.5) * 2.0


def robust_center_scale(
    values: NDArray[np.floating], weight: NDArray[np.floating] | None = None
) -> tuple[float, float]:
    """Median, and the spread of the quartiles in units of a normal deviation.

    Parameters
    ----------
    values : ndarray of shape (n,)
        Numbers, finite.
    weight : ndarray of shape (n,) or None
        Positive weights.

    Returns
    -------
    center : float
        The median; 0 without values.
    scale : float
        Distance of the quartiles, divided by that of a standard normal variable. Where
        it is zero, since most values are equal, wider quantiles are taken, and half
        the range at last. 0 if all values are equal.
    """
    if not len(values):
        return 0.0, 0.0
    levels = [0.5, *(level for pair in _PAIRS for level in pair), 0.0, 1.0]
    median, *ends = weighted_quantiles(values, levels, weight)
    rounding = 8.0 * np.finfo(values.dtype).eps
    widths = [norm.ppf(high) - norm.ppf(low) for low, high in _PAIRS]
    for low, high, width in zip(ends[::2], ends[1::2], [*widths, 2.0], strict=True):
        spread = high / width - low / width  # their difference may overflow
        if spread > rounding * max(abs(low), abs(high)) / width:
            return float(median), float(spread)
    return float(values[0]), 0.0
