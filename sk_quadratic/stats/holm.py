"""Correction of several p-values."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from sk_quadratic.stats._checks import check_vector


def holm_correction(pvalues: ArrayLike) -> np.ndarray:
    r"""Adjust the p-values of several comparisons by Holm's step-down method.

    Rejecting where the adjusted value is at most :math:`\alpha` keeps the probability
    of any false rejection at :math:`\alpha` or below, however the tests depend on
    each other.

    Parameters
    ----------
    pvalues : array-like of shape (n_tests,)
        The p-value of each comparison.

    Returns
    -------
    ndarray of shape (n_tests,)
        Adjusted p-values, in the order of ``pvalues`` and none above 1.

    See Also
    --------
    paired_permutation_test : Gives the p-value of one comparison.

    Notes
    -----
    With the p-values in rising order, number :math:`i` of :math:`m` is multiplied by
    :math:`m - i + 1`, and none is left below one before it [1]_.

    References
    ----------
    .. [1] S. Holm. A simple sequentially rejective multiple test procedure.
       Scandinavian Journal of Statistics, 6(2):65-70, 1979.

    Examples
    --------
    >>> from sk_quadratic.stats import holm_correction
    >>> holm_correction([0.01, 0.04, 0.03]).round(3).tolist()
    [0.03, 0.06, 0.06]
    """
    values = check_vector(pvalues, "pvalues")
    if values.size == 0:
        raise ValueError("pvalues must hold at least one p-value; got none.")
    outside = (values < 0.0) | (values > 1.0)
    if outside.any():
        place = int(np.flatnonzero(outside)[0])
        raise ValueError(
            f"pvalues must be between 0 and 1; got {values[place]} at position {place}."
        )
    order = np.argsort(values, kind="stable")
    stepped = values[order] * np.arange(values.size, 0, -1)
    adjusted = np.empty_like(values)
    adjusted[order] = np.minimum(np.maximum.accumulate(stepped), 1.0)
    return adjusted
