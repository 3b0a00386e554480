"""The corrected resampled t-test, and Holm's correction."""

from itertools import combinations
from math import inf, sqrt

import numpy as np
import pytest
from scipy import stats

from sk_quadratic.stats import corrected_resampled_ttest, holm_correction

ALTERNATIVES = ["two-sided", "greater", "less"]
A = [0.61, 0.58, 0.64, 0.60, 0.59, 0.62]
B = [0.66, 0.65, 0.65, 0.67, 0.66, 0.60]

# The corrected t-test -------------------------------------------------------


@pytest.mark.parametrize("alternative", ALTERNATIVES)
def test_without_test_rows_it_is_the_paired_ttest(alternative):
    # With n_test / n_train far below the rounding of 1/k the correction vanishes.
    ours = corrected_resampled_ttest(
        A, B, n_train=1.0, n_test=1e-300, alternative=alternative, confidence_level=0.9
    )
    theirs = stats.ttest_rel(A, B, alternative=alternative)
    assert ours.statistic == pytest.approx(theirs.statistic, rel=1e-12)
    assert ours.pvalue == pytest.approx(theirs.pvalue, rel=1e-10)
    assert ours.df == theirs.df
    np.testing.assert_allclose(
        ours.confidence_interval, theirs.confidence_interval(0.9), rtol=1e-10
    )


@pytest.mark.parametrize("alternative", ALTERNATIVES)
def test_correction_multiplies_the_standard_error(alternative):
    plain = stats.ttest_rel(A, B)
    factor = sqrt((1 / 6 + 100 / 500) / (1 / 6))
    result = corrected_resampled_ttest(
        A, B, n_train=500, n_test=100, alternative=alternative
    )
    statistic = plain.statistic / factor
    student = stats.t(df=5)
    below, above = student.cdf(statistic), student.sf(statistic)
    expected = {"two-sided": 2 * min(below, above), "greater": above, "less": below}
    assert result.statistic == pytest.approx(statistic, rel=1e-12)
    assert result.pvalue == pytest.approx(expected[alternative], rel=1e-10)
    assert result.mean_difference == pytest.approx(np.mean(A) - np.mean(B))
    assert result.standard_error == pytest.approx(
        factor * np.std(np.subtract(A, B), ddof=1) / sqrt(6), rel=1e-12
    )
    low, high = result.confidence_interval
    assert (low == -inf, high == inf) == (
        alternative == "less",
        alternative == "greater",
    )
    # An end of the interval is the shift at which the p-value is one minus the level.
    end = high if alternative == "less" else low
    moved = corrected_resampled_ttest(
        np.subtract(A, end), B, n_train=500, n_test=100, alternative=alternative
    )
    assert moved.pvalue == pytest.approx(0.05, rel=1e-9)


def test_random_splits_hold_the_level_better_than_without_the_correction():
    """Scores that share training rows: means of random subsets of one sample."""
    rng = np.random.default_rng(0)
    corrected = plain = 0
    for _ in range(400):
        sample = rng.normal(0.0, 1.0, 60)
        order = rng.permuted(np.tile(np.arange(60), (15, 1)), axis=1)
        scores = sample[order[:, :20]].mean(axis=1)
        result = corrected_resampled_ttest(scores, np.zeros(15), n_train=40, n_test=20)
        corrected += result.pvalue <= 0.05
        plain += stats.ttest_1samp(scores, 0.0).pvalue <= 0.05
    # The true variance of the mean is the plain one times 1 + 15/2, as that of 15
    # scores correlated by 1/3; the corrected one says just that.
    assert corrected / 400 <= 0.05 + 3 * sqrt(0.05 * 0.95 / 400)
    assert plain / 400 > 0.3


def test_numbers_of_the_result_are_plain_python_numbers():
    result = corrected_resampled_ttest(A, B, n_train=np.int64(50), n_test=10.5)
    for name in ("statistic", "mean_difference", "standard_error", "pvalue"):
        assert type(getattr(result, name)) is float, name
    assert (type(result.df), type(result.n_pairs)) == (int, int)
    assert [type(end) for end in result.confidence_interval] == [float, float]


@pytest.mark.parametrize("alternative", ALTERNATIVES)
def test_identical_scores_show_nothing(alternative):
    result = corrected_resampled_ttest(
        A, A, n_train=5, n_test=1, alternative=alternative
    )
    assert (result.statistic, result.pvalue, result.standard_error) == (0.0, 1.0, 0.0)
    assert 0.0 in result.confidence_interval


@pytest.mark.parametrize("unit", [1e-300, 1.0, 1e300])
def test_equal_differences_have_no_variance_to_test_by(unit):
    a = np.array([0.3, 0.4, 0.7]) * unit  # 0.3 - 0.1 and 0.4 - 0.2 differ as floats
    b = np.array([0.1, 0.2, 0.5]) * unit
    with pytest.raises(ValueError, match=r"a - b must vary.* in all 3 pairs"):
        corrected_resampled_ttest(a, b, n_train=5, n_test=1)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"n_train": 0}, ValueError, "n_train must be finite and above 0; got 0"),
        ({"n_test": inf}, ValueError, "n_test must be finite and above 0; got inf"),
        ({"n_test": "10"}, TypeError, "n_test must be a number; got str"),
        ({"alternative": "more"}, ValueError, "alternative must be one of"),
        ({"confidence_level": 0}, ValueError, "confidence_level must be strictly"),
        ({"a": [1.0], "b": [2.0]}, ValueError, "at least two pairs for a t-test"),
        ({"a": [1.0, np.nan], "b": [2.0, 1.0]}, ValueError, "a must be finite; got"),
        ({"a": [1.0, 2.0]}, ValueError, r"same shape; got \(2,\) and \(6,\)"),
    ],
)
def test_bad_arguments_of_the_ttest_are_refused(arguments, error, message):
    with pytest.raises(error, match=message):
        corrected_resampled_ttest(
            **{"a": A, "b": B, "n_train": 50, "n_test": 10} | arguments
        )


# Holm -----------------------------------------------------------------------


def holm_by_closure(pvalues):
    """Closed testing: reject where every set that holds a test fails Bonferroni."""
    n_tests = len(pvalues)
    sets = [
        subset
        for size in range(1, n_tests + 1)
        for subset in combinations(range(n_tests), size)
    ]
    return [
        max(
            min(1.0, len(subset) * min(pvalues[j] for j in subset))
            for subset in sets
            if i in subset
        )
        for i in range(n_tests)
    ]


@pytest.mark.parametrize("n_tests", [1, 2, 3, 5, 7])
def test_holm_is_the_closure_of_bonferroni(n_tests):
    rng = np.random.default_rng(n_tests)
    for _ in range(20):
        pvalues = rng.beta(0.4, 1.0, n_tests).round(2)  # with ties, zeros and ones
        np.testing.assert_allclose(
            holm_correction(pvalues), holm_by_closure(pvalues), rtol=1e-15
        )


def test_holm_leaves_its_input_alone():
    pvalues = np.array([0.04, 0.01, 0.03])
    pvalues.flags.writeable = False
    adjusted = holm_correction(pvalues)
    assert adjusted is not pvalues
    assert pvalues.tolist() == [0.04, 0.01, 0.03]
    np.testing.assert_allclose(adjusted, [0.06, 0.03, 0.06], rtol=1e-15)


@pytest.mark.parametrize(
    ("pvalues", "error", "message"),
    [
        ([], ValueError, "pvalues must hold at least one p-value; got none"),
        ([0.1, 1.5], ValueError, "between 0 and 1; got 1.5 at position 1"),
        ([-0.1, 0.5], ValueError, "between 0 and 1; got -0.1 at position 0"),
        ([0.1, np.nan], ValueError, "pvalues must be finite; got nan at position 1"),
        ([[0.1, 0.2]], ValueError, r"pvalues must be 1-D.*; got shape \(1, 2\)"),
        (0.1, ValueError, r"pvalues must be 1-D.*; got shape \(\)"),
        (["0.1"], TypeError, "pvalues must hold real numbers; got dtype"),
    ],
)
def test_bad_pvalues_are_refused(pvalues, error, message):
    with pytest.raises(error, match=message):
        holm_correction(pvalues)
