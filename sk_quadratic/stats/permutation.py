"""The sign-flip test of paired scores."""

from __future__ import annotations

from collections.abc import Callable
from math import inf, isfinite, isnan, ldexp, nan
from numbers import Real
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from sk_quadratic.stats._checks import (
    check_alternative,
    check_fraction,
    check_generator,
    check_n_resamples,
    check_scores,
)
from sk_quadratic.stats._detectable import standardized_effect
from sk_quadratic.stats._patterns import (
    flipped_sums,
    half_of_signs,
    lowest_kept_shift,
    n_patterns,
    n_rejected,
)
from sk_quadratic.stats.result import ConfidenceInterval, PairedPermutationResult

_EPS = float(np.finfo(np.float64).eps)

Statistic = Callable[[np.ndarray], float]


def paired_permutation_test(
    a: ArrayLike,
    b: ArrayLike,
    *,
    alternative: str = "two-sided",
    statistic: str | Statistic = "mean",
    n_resamples: int = 20_000,
    confidence_level: float = 0.95,
    power: float = 0.8,
    random_state: int | np.random.Generator | np.random.RandomState | None = None,
) -> PairedPermutationResult:
    r"""Test whether paired scores differ, by flipping the signs of their differences.

    If it makes no difference which of two models a score comes from, each
    ``a[i] - b[i]`` is as likely as its negative. The p-value is the share of the sign
    patterns whose statistic is at least as extreme as the one observed.

    Parameters
    ----------
    a, b : array-like of shape (n_pairs,)
        Scores of two models, entry ``i`` of both from the same seed, split or data set.
    alternative : {"two-sided", "greater", "less"}, default="two-sided"
        What is to be shown: that the differences ``a - b`` lie away from 0, above 0 or
        below 0. For errors, ``"less"`` asks whether ``a`` is the better model.
    statistic : "mean" or callable, default="mean"
        What is taken of the differences. A callable is called once for each sign
        pattern, with a 1-D array of the differences under it, and returns a finite
        number.
    n_resamples : int, default=20000
        All ``2**n_pairs`` sign patterns are enumerated if they are no more than this.
        Otherwise so many are drawn, rounded up to an even number, the observed pattern
        among them.
    confidence_level : float, default=0.95
        Level of the confidence interval; one minus the level of the test that the
        detectable effect refers to.
    power : float, default=0.8
        Probability with which the detectable effect is found.
    random_state : int, Generator, RandomState or None, default=None
        Draws the sign patterns when they are not all enumerated. None takes fresh
        entropy. No global generator is read or changed.

    Returns
    -------
    PairedPermutationResult
        The p-value, with the size of the difference, its confidence interval, the
        effect that so many pairs can detect and the null distribution.

    See Also
    --------
    corrected_resampled_ttest : For scores from overlapping training sets.
    holm_correction : For the p-values of several comparisons.
    scipy.stats.permutation_test : Other statistics of more than one sample.

    Notes
    -----
    **What must be exchangeable.** Within each pair the two scores must be exchangeable
    if the models are equally good, independently of the other pairs: seeds, freshly
    generated data or separate data sets. The test then holds its level whatever the
    distribution is. Scores from overlapping training sets, such as the folds of
    cross-validation, are not independent, and the p-values come out too small: use
    :func:`corrected_resampled_ttest`.

    **Few pairs.** The two-sided p-value cannot fall below :math:`2 / 2^n`, the
    one-sided below :math:`1 / 2^n`. Five pairs reach 1/16 and never 0.05; eight reach
    2/256.

    **Several comparisons** each have their own chance of a false alarm: adjust the
    p-values with :func:`holm_correction`.

    **p-value.** A pattern is counted as at least as extreme if it is so up to the
    rounding of the scores. The two-sided value is twice the smaller one-sided one, at
    most 1. Patterns that are drawn come in pairs of opposite signs, the observed one
    and its opposite among them, so that the value is never 0 [1]_: two-sided it cannot
    fall below 2 / ``n_resamples``, rounded up to even, one-sided below half of that.

    **Confidence interval.** It holds the shifts :math:`\delta` for which the test of
    ``a - b`` minus :math:`\delta` is not rejected under the same sign patterns. Its
    ends are order statistics of the means over subsets of the differences [2]_. It has
    one end for a one-sided alternative, and none where so few pairs cannot reject.

    **Smallest detectable effect.** The size of the mean difference at which this test
    rejects with probability ``power``, if the differences are normal with the standard
    deviation observed. It is computed from simulated samples, always the same ones,
    under the sign patterns of this test: the directions of the residuals are drawn;
    their length and the mean are integrated out. It is infinite for one pair, and where
    the test cannot reject or not with that power. If all differences are equal it is 0,
    as without spread any shift is found.

    **Callable statistic.** The interval and the detectable effect belong to the mean.
    With a callable they are NaN, for those of the mean could contradict the p-value.
    ``relative`` is always that of the means.

    References
    ----------
    .. [1] B. Phipson and G. K. Smyth. Permutation p-values should never be zero:
       calculating exact p-values when permutations are randomly drawn. Statistical
       Applications in Genetics and Molecular Biology, 9(1), 2010.
    .. [2] J. A. Hartigan. Using subsample values as typical values. Journal of the
       American Statistical Association, 64(328):1303-1317, 1969.

    Examples
    --------
    >>> from sk_quadratic.stats import paired_permutation_test
    >>> ours = [1.12, 1.20, 1.09, 1.15, 1.18, 1.11, 1.21, 1.16]
    >>> theirs = [1.31, 1.30, 1.33, 1.27, 1.36, 1.25, 1.38, 1.34]
    >>> result = paired_permutation_test(ours, theirs)
    >>> result.wins, result.pvalue
    (8, 0.0078125)
    """
    first, second = check_scores(a, b)
    check_alternative(alternative)
    function = _check_statistic(statistic)
    n_resamples = check_n_resamples(n_resamples)
    confidence_level = check_fraction(confidence_level, "confidence_level")
    power = check_fraction(power, "power")
    generator = check_generator(random_state)

    n_pairs, two_sided = first.size, alternative == "two-sided"
    count, exact = n_patterns(n_pairs, n_resamples)
    # Both tails at half the level, or one at the whole.
    level = (1.0 - confidence_level) / (2.0 if two_sided else 1.0)
    scaled = _Scaled.from_scores(first, second)
    if function is None:
        tails = _tails_of_mean(scaled, count, exact, level, generator)
        effect = _detectable_effect(scaled, count, exact, level, two_sided, power)
    else:
        tails = _tails_of_callable(function, first - second, count, exact, generator)
        effect = nan
    counted = {"greater": tails.above, "less": tails.below}
    extreme = counted.get(alternative, 2 * min(tails.above, tails.below))
    return PairedPermutationResult(
        statistic=float(tails.null[0]),
        relative=scaled.relative(),
        pvalue=min(1.0, extreme / count),
        n_pairs=n_pairs,
        wins=int(np.count_nonzero(first < second)),
        ties=int(np.count_nonzero(first == second)),
        losses=int(np.count_nonzero(first > second)),
        confidence_interval=_interval(tails, alternative),
        minimum_detectable_effect=effect,
        min_pvalue=min(1.0, ldexp(2.0 if two_sided else 1.0, -n_pairs)),
        exact=exact,
        alternative=alternative,
        confidence_level=confidence_level,
        power=power,
        null_distribution=tails.null,
    )


class _Tails(NamedTuple):
    """The statistic under each pattern, how many are in each tail, and the bounds."""

    null: np.ndarray
    above: int
    below: int
    low: float
    high: float


class _Scaled(NamedTuple):
    """Scores divided by a power of two, so that no sum of them overflows."""

    a: np.ndarray
    b: np.ndarray
    differences: np.ndarray
    exponent: int

    @classmethod
    def from_scores(cls, a: np.ndarray, b: np.ndarray) -> _Scaled:
        """Scale both, exactly, by the magnitude of the largest score."""
        largest = max(np.abs(a).max(), np.abs(b).max())
        exponent = int(np.frexp(largest)[1])
        a, b = np.ldexp(a, -exponent), np.ldexp(b, -exponent)
        return cls(a, b, a - b, exponent)

    def tolerance(self) -> float:
        """Return how far rounding can move the sum of some of the differences.

        Each score is within half a unit in the last place of the number meant, and
        each of the sums rounds in turn. The bound is relative, whatever the units.
        """
        size = np.abs(self.differences).sum() * self.differences.size
        return _EPS * float(np.abs(self.a).sum() + np.abs(self.b).sum() + size)

    def relative(self) -> float:
        """Return the mean difference as a share of the mean of ``b``."""
        base = float(self.b.mean())
        return float(self.differences.mean()) / base if base != 0.0 else nan


def _check_statistic(statistic: str | Statistic) -> Statistic | None:
    """Return the callable, or None for the mean."""
    if isinstance(statistic, str):
        if statistic != "mean":
            raise ValueError(
                f"statistic must be 'mean' or a callable; got {statistic!r}."
            )
        return None
    if not callable(statistic):
        kind = type(statistic).__name__
        raise TypeError(f"statistic must be 'mean' or a callable; got {kind}.")
    return statistic


def _tails_of_mean(
    scaled: _Scaled,
    count: int,
    exact: bool,
    level: float,
    generator: np.random.Generator,
) -> _Tails:
    values = scaled.differences
    sums, sizes = flipped_sums(values[:, np.newaxis], count, exact, generator)
    tolerance, rejected = scaled.tolerance(), n_rejected(count, level)
    low = float(lowest_kept_shift(sums, sizes, rejected)[0])
    high = -float(lowest_kept_shift(-sums, sizes, rejected)[0])
    null = (values.sum() - 2.0 * sums[:, 0]) / values.size
    return _Tails(
        null=np.ldexp(null, scaled.exponent),
        above=int(np.count_nonzero(sums <= tolerance)),
        below=int(np.count_nonzero(sums >= -tolerance)),
        low=_bound(low, tolerance, scaled.exponent),
        high=_bound(high, tolerance, scaled.exponent),
    )


def _bound(shift: float, tolerance: float, exponent: int) -> float:
    # A shift that is 0 but for rounding: the p-value counts it as 0, so must this.
    return _unscaled(0.0 if abs(shift) <= tolerance else shift, exponent)


def _unscaled(value: float, exponent: int) -> float:
    # math.ldexp raises where the product is beyond the largest float.
    with np.errstate(over="ignore"):
        return float(np.ldexp(value, exponent))


def _tails_of_callable(
    function: Statistic,
    differences: np.ndarray,
    count: int,
    exact: bool,
    generator: np.random.Generator,
) -> _Tails:
    null = np.empty(count)
    for index, signs in enumerate(
        half_of_signs(differences.size, count, exact, generator)
    ):
        null[index] = _call(function, signs * differences)
        null[-1 - index] = _call(function, -signs * differences)
    # How a callable treats the rounding of the scores is unknown: only its own counts.
    tolerance = 64.0 * _EPS * float(np.abs(null).max())
    above = int(np.count_nonzero(null >= null[0] - tolerance))
    below = int(np.count_nonzero(null <= null[0] + tolerance))
    return _Tails(null, above, below, nan, nan)


def _call(function: Statistic, differences: np.ndarray) -> float:
    value = function(differences)
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value[()]
    if not isinstance(value, Real):
        kind = type(value).__name__
        raise TypeError(f"statistic must return one real number; got {kind}.")
    if not isfinite(value):
        raise ValueError(f"statistic must return a finite number; got {value}.")
    return float(value)


def _interval(tails: _Tails, alternative: str) -> ConfidenceInterval:
    low, high = tails.low, tails.high
    if isnan(low):  # a callable
        return ConfidenceInterval(nan, nan)
    return ConfidenceInterval(
        -inf if alternative == "less" else low,
        inf if alternative == "greater" else high,
    )


def _detectable_effect(
    scaled: _Scaled,
    count: int,
    exact: bool,
    level: float,
    two_sided: bool,
    power: float,
) -> float:
    values = scaled.differences
    effect = standardized_effect(values.size, count, exact, level, two_sided, power)
    if effect == inf:  # one pair, whose spread is unknown, is among these
        return inf
    return _unscaled(effect * float(values.std(ddof=1)), scaled.exponent)
