"""A t-test for scores whose training sets overlap."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, sqrt

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import stdtr, stdtrit

from sk_quadratic.stats._checks import (
    check_alternative,
    check_fraction,
    check_positive,
    check_scores,
)
from sk_quadratic.stats.result import ConfidenceInterval

_EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class CorrectedResampledTTestResult:
    """Result of :func:`corrected_resampled_ttest`.

    Attributes
    ----------
    statistic : float
        The corrected t-statistic.
    mean_difference : float
        Mean of ``a - b``.
    standard_error : float
        Standard error of the mean difference, corrected for the overlap.
    pvalue : float
        The p-value.
    df : int
        Degrees of freedom, one less than the number of pairs.
    n_pairs : int
        Number of pairs.
    confidence_interval : ConfidenceInterval
        Interval for the mean difference, with one end for a one-sided alternative.
    alternative : str
        The alternative tested.
    confidence_level : float
        Level of ``confidence_interval``.
    """

    statistic: float
    mean_difference: float
    standard_error: float
    pvalue: float
    df: int
    n_pairs: int
    confidence_interval: ConfidenceInterval
    alternative: str
    confidence_level: float


def corrected_resampled_ttest(
    a: ArrayLike,
    b: ArrayLike,
    *,
    n_train: float,
    n_test: float,
    alternative: str = "two-sided",
    confidence_level: float = 0.95,
) -> CorrectedResampledTTestResult:
    r"""Compare paired scores from random splits or folds of one data set.

    Scores from overlapping training sets vary together, so that their variance says
    too little of how uncertain their mean is. The corrected resampled t-test [1]_
    enlarges it by the ratio of test to training rows.

    Parameters
    ----------
    a, b : array-like of shape (n_pairs,)
        Scores of two models, entry ``i`` of both from split ``i``; two or more.
    n_train : float
        Number of training rows in a split, or their mean if it varies.
    n_test : float
        Number of test rows in a split, or their mean if it varies.
    alternative : {"two-sided", "greater", "less"}, default="two-sided"
        What is to be shown: that the mean of ``a - b`` is not 0, above 0 or below 0.
    confidence_level : float, default=0.95
        Level of the confidence interval.

    Returns
    -------
    CorrectedResampledTTestResult
        The statistic, the p-value and the interval of the mean difference.

    See Also
    --------
    paired_permutation_test : For pairs that are independent; makes no assumption about
        the distribution.

    Notes
    -----
    With :math:`\bar d` and :math:`s^2` the mean and variance of the :math:`k`
    differences,

    .. math:: t = \bar d \Big/
        \sqrt{\left(\tfrac1k + \tfrac{n_\text{test}}{n_\text{train}}\right) s^2}

    is referred to Student's distribution with :math:`k - 1` degrees of freedom. The
    correction is an approximation: it takes the correlation between two splits to be
    the share of rows that are tested.

    If all differences are 0 the statistic is 0 and the p-value 1. If they are equal but
    not 0, the statistic would be infinite and the p-value 0: that is an error.

    References
    ----------
    .. [1] C. Nadeau and Y. Bengio. Inference for the generalization error. Machine
       Learning, 52(3):239-281, 2003.

    Examples
    --------
    >>> from sk_quadratic.stats import corrected_resampled_ttest
    >>> ours = [0.61, 0.58, 0.64, 0.60, 0.59]
    >>> theirs = [0.66, 0.65, 0.65, 0.67, 0.66]
    >>> result = corrected_resampled_ttest(ours, theirs, n_train=400, n_test=100)
    >>> round(result.statistic, 3), round(result.pvalue, 3)
    (-3.087, 0.037)
    """
    first, second = check_scores(a, b)
    check_alternative(alternative)
    n_train = check_positive(n_train, "n_train")
    n_test = check_positive(n_test, "n_test")
    confidence_level = check_fraction(confidence_level, "confidence_level")
    n_pairs = first.size
    if n_pairs < 2:
        raise ValueError("a and b must hold at least two pairs for a t-test; got 1.")

    mean, spread = _mean_and_spread(first, second)
    error = spread * sqrt(1.0 / n_pairs + n_test / n_train)
    # Without spread the differences are all 0, as anything else was refused.
    statistic = mean / error if error > 0.0 else 0.0
    df = n_pairs - 1
    below = 1.0 if error == 0.0 else float(stdtr(df, statistic))
    above = 1.0 if error == 0.0 else float(stdtr(df, -statistic))
    pvalue = {"greater": above, "less": below}.get(alternative, 2 * min(above, below))
    tail = (1.0 - confidence_level) / (2.0 if alternative == "two-sided" else 1.0)
    reach = -float(stdtrit(df, tail)) * error
    return CorrectedResampledTTestResult(
        statistic=statistic,
        mean_difference=mean,
        standard_error=error,
        pvalue=min(1.0, pvalue),
        df=df,
        n_pairs=n_pairs,
        confidence_interval=ConfidenceInterval(
            -inf if alternative == "less" else mean - reach,
            inf if alternative == "greater" else mean + reach,
        ),
        alternative=alternative,
        confidence_level=confidence_level,
    )


def _mean_and_spread(a: np.ndarray, b: np.ndarray) -> tuple[float, float]:
    """Return mean and spread of a - b; no spread around another value is refused."""
    differences = a - b
    mean = float(differences.mean())
    # Below this the differences of rounded scores are equal but for their last digits.
    rounding = 4.0 * _EPS * float(max(np.abs(a).max(), np.abs(b).max()))
    if np.abs(differences - mean).max() > rounding:
        return mean, float(differences.std(ddof=1))
    if abs(mean) <= rounding:
        return 0.0, 0.0
    raise ValueError(
        "a - b must vary for a t-test; "
        f"got the same difference, {mean:.6g}, in all {differences.size} pairs."
    )
