"""The p-value of the sign-flip test, against enumeration in exact arithmetic."""

import random
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
import torch
from scipy import stats

from sk_quadratic.stats import paired_permutation_test

ALTERNATIVES = ["two-sided", "greater", "less"]
ERRORS_A = [0.91, 0.84, 0.95, 0.88, 0.90, 0.87]
ERRORS_B = [0.52, 0.47, 0.55, 0.45, 0.51, 0.49]


def brute_force(a, b, alternative):
    """Enumerate every sign pattern of decimal scores, without rounding."""
    d = [
        Fraction(repr(float(x))) - Fraction(repr(float(y)))
        for x, y in zip(a, b, strict=True)
    ]
    sums = [
        sum(s * v for s, v in zip(signs, d, strict=True))
        for signs in product((1, -1), repeat=len(d))
    ]
    greater = Fraction(sum(t >= sum(d) for t in sums), len(sums))
    less = Fraction(sum(t <= sum(d) for t in sums), len(sums))
    both = min(Fraction(1), 2 * min(greater, less))
    return float({"greater": greater, "less": less, "two-sided": both}[alternative])


def scores(n_pairs, seed, decimals=3):
    rng = np.random.default_rng(seed)
    a = rng.normal(1.2, 1.0, n_pairs).round(decimals)
    return a, rng.normal(1.0, 1.0, n_pairs).round(decimals)


# Exact ----------------------------------------------------------------------


@pytest.mark.parametrize("alternative", ALTERNATIVES)
@pytest.mark.parametrize("n_pairs", [2, 3, 5, 8, 9])
def test_pvalue_equals_exact_enumeration(n_pairs, alternative):
    for seed in range(2):
        a, b = scores(n_pairs, seed)
        result = paired_permutation_test(a, b, alternative=alternative)
        # Counts divided by a power of two: no rounding at all.
        assert result.pvalue == brute_force(a, b, alternative)
        assert result.exact
        assert len(result.null_distribution) == 2**n_pairs


@pytest.mark.parametrize("alternative", ALTERNATIVES)
def test_coarse_scores_with_many_ties_equal_exact_enumeration(alternative):
    # Decimals such as 0.1 are not floats: sums that tie differ in their last bits.
    for seed in range(8):
        a, b = scores(8, seed, decimals=1)
        pvalue = paired_permutation_test(a, b, alternative=alternative).pvalue
        assert pvalue == brute_force(a, b, alternative)


@pytest.mark.parametrize("alternative", ALTERNATIVES)
def test_pvalue_and_null_distribution_equal_those_of_scipy(alternative):
    for seed in range(5):
        a, b = scores(9, seed, decimals=12)
        ours = paired_permutation_test(a, b, alternative=alternative)
        theirs = stats.permutation_test(
            (a, b),
            lambda x, y, axis: np.mean(x - y, axis=axis),
            permutation_type="samples",
            alternative=alternative,
            n_resamples=np.inf,
        )
        assert ours.pvalue == pytest.approx(theirs.pvalue, abs=1e-12)
        assert ours.statistic == pytest.approx(theirs.statistic, abs=1e-12)
        # Sums of nine numbers of size one, added in another order.
        np.testing.assert_allclose(
            np.sort(ours.null_distribution),
            np.sort(theirs.null_distribution),
            atol=1e-14,
        )


def test_every_positive_difference_gives_the_smallest_pvalue():
    for n_pairs in range(1, 13):
        a = np.arange(1, n_pairs + 1) / 7.0
        zero = np.zeros(n_pairs)
        both = paired_permutation_test(a, zero)
        above = paired_permutation_test(a, zero, alternative="greater")
        below = paired_permutation_test(a, zero, alternative="less")
        assert both.pvalue == both.min_pvalue == min(1.0, 2 / 2**n_pairs)
        assert above.pvalue == above.min_pvalue == 1 / 2**n_pairs
        assert below.pvalue == 1.0
        assert below.min_pvalue == 1 / 2**n_pairs


def test_one_sided_values_and_swapped_models_fit_together():
    for seed in range(6):
        a, b = scores(7, seed, decimals=12)
        two, above, below = (
            paired_permutation_test(a, b, alternative=alternative).pvalue
            for alternative in ALTERNATIVES
        )
        assert above + below == 1 + 1 / 128  # only the observed pattern is in both
        assert two == min(1.0, 2 * min(above, below))
        assert paired_permutation_test(b, a, alternative="less").pvalue == above
        assert paired_permutation_test(b, a).pvalue == two


def test_the_worse_model_is_not_reported_as_the_better_one():
    worse = paired_permutation_test(ERRORS_A, ERRORS_B, alternative="greater")
    better = paired_permutation_test(ERRORS_B, ERRORS_A, alternative="less")
    assert worse.statistic > 0.0
    assert worse.pvalue == better.pvalue == 1 / 64
    assert better.statistic == -worse.statistic
    assert paired_permutation_test(ERRORS_A, ERRORS_B, alternative="less").pvalue == 1
    assert (worse.wins, worse.losses) == (0, 6)
    assert (better.wins, better.losses) == (6, 0)


@pytest.mark.slow
def test_eight_pairs_hold_the_level_and_the_interval_its_coverage():
    rng = np.random.default_rng(0)
    a, b = rng.standard_t(3, (2, 20_000, 8))  # nothing differs
    rejected = covered = 0
    for x, y in zip(a, b, strict=True):
        result = paired_permutation_test(x, y)
        low, high = result.confidence_interval
        rejected += result.pvalue <= 0.05
        covered += low <= 0.0 <= high
    assert rejected / 20_000 <= 0.05
    # Six patterns in each tail of 256; four standard errors.
    margin = 4 * np.sqrt(12 / 256 / 20_000)
    assert rejected / 20_000 == pytest.approx(12 / 256, abs=margin)
    assert covered / 20_000 == pytest.approx(1 - 12 / 256, abs=margin)


# Ties and units -------------------------------------------------------------


@pytest.mark.parametrize("alternative", ALTERNATIVES)
def test_identical_scores_give_pvalue_one(alternative):
    result = paired_permutation_test(ERRORS_A, ERRORS_A, alternative=alternative)
    assert result.pvalue == 1.0
    assert result.statistic == 0.0
    assert result.ties == 6


def test_equal_pairs_count_neither_for_nor_against():
    with_ties = paired_permutation_test([1.0, 2.0, 3.0, 0.0, 0.0], np.zeros(5))
    without = paired_permutation_test([1.0, 2.0, 3.0], np.zeros(3))
    assert with_ties.pvalue == without.pvalue == 2 / 8
    assert paired_permutation_test([1, 1, 1, -1], [0, 0, 0, 0]).pvalue == 10 / 16


@pytest.mark.parametrize("unit", [1e-300, 1e-12, 1e-8, 1e8, 1e300])
def test_units_do_not_matter(unit):
    for seed in range(5):
        a, b = scores(8, seed)
        plain = paired_permutation_test(a, b)
        other = paired_permutation_test(a * unit, b * unit)
        assert other.pvalue == plain.pvalue
        # A few roundings of relative size 2e-16.
        assert other.statistic == pytest.approx(plain.statistic * unit, rel=1e-12)
        assert other.relative == pytest.approx(plain.relative, rel=1e-12)
        np.testing.assert_allclose(
            other.confidence_interval,
            np.multiply(plain.confidence_interval, unit),
            rtol=1e-12,
        )
        assert other.minimum_detectable_effect == pytest.approx(
            plain.minimum_detectable_effect * unit, rel=1e-12
        )


def test_a_common_offset_leaves_ties_tied():
    a, b = scores(8, 3, decimals=1)
    for offset in (1e3, 1e6, -1e6):
        shifted = paired_permutation_test(a + offset, b + offset)
        assert shifted.pvalue == paired_permutation_test(a, b).pvalue


def test_differences_far_below_the_scores_are_not_taken_for_ties():
    differences = np.arange(1.0, 9.0) * [1, 1, -1, 1, 1, -1, 1, 1]
    plain = paired_permutation_test(differences, np.zeros(8))
    # Steps of 2**-44, over a hundred times the rounding of scores about 1.
    fine = paired_permutation_test(1.0 + differences * 2.0**-44, np.ones(8))
    assert fine.pvalue == plain.pvalue < 1.0


def test_the_largest_scores_do_not_overflow():
    a, b = [1.5e308] * 6, [1.0e308] * 6
    result = paired_permutation_test(a, b)
    assert result.pvalue == 2 / 64
    assert result.statistic == pytest.approx(0.5e308)
    assert result.relative == pytest.approx(0.5)
    spread = paired_permutation_test([1.7e308, 0.0] * 3, [0.0, 1.7e308] * 3)
    assert spread.minimum_detectable_effect == np.inf
    assert spread.confidence_interval == (-1.7e308, 1.7e308)


# Monte Carlo ----------------------------------------------------------------


@pytest.mark.parametrize("alternative", ALTERNATIVES)
@pytest.mark.parametrize("n_resamples", [1, 2, 3, 99, 100, 2000])
def test_drawn_pvalue_is_never_zero(n_resamples, alternative):
    a = np.random.default_rng(0).normal(5.0, 0.1, 40)
    sign = -1.0 if alternative == "less" else 1.0
    result = paired_permutation_test(
        sign * a,
        np.zeros(40),
        alternative=alternative,
        n_resamples=n_resamples,
        random_state=0,
    )
    n_patterns = len(result.null_distribution)
    assert n_patterns == 2 * ((n_resamples + 1) // 2)
    tails = 2 if alternative == "two-sided" else 1
    assert result.pvalue == min(1.0, tails / n_patterns)
    assert result.pvalue >= 1 / (n_resamples + 1)
    assert not result.exact


def test_observed_pattern_comes_first_and_its_opposite_last():
    a, b = scores(40, 0)
    null = paired_permutation_test(a, b, n_resamples=200, random_state=0)
    drawn = null.null_distribution
    assert drawn[0] == null.statistic
    # The opposites are formed by a subtraction, which rounds.
    np.testing.assert_allclose(drawn, -drawn[::-1], atol=1e-14)


def test_mean_difference_of_zero_gives_pvalue_one():
    even = np.tile([1.0, -1.0], 20)
    for seed in range(20):
        result = paired_permutation_test(
            even, np.zeros(40), n_resamples=200, random_state=seed
        )
        assert result.pvalue == 1.0


def exact_by_convolution(differences):
    """Two-sided p-value of integers from the distribution of all sign patterns."""
    counts = {0: 1}
    for value in differences.tolist():
        step = {}
        for total, count in counts.items():
            for new in (total + value, total - value):
                step[new] = step.get(new, 0) + count
        counts = step
    observed = abs(int(differences.sum()))
    extreme = sum(count for total, count in counts.items() if abs(total) >= observed)
    return extreme / 2 ** len(differences)


@pytest.mark.parametrize("n_pairs", [16, 26, 63, 64, 65])
def test_drawn_pvalue_agrees_with_the_exact_one(n_pairs):
    differences = np.random.default_rng(n_pairs).integers(-6, 8, n_pairs)
    exact = exact_by_convolution(differences)
    pvalue = paired_permutation_test(
        differences, np.zeros(n_pairs), random_state=0
    ).pvalue
    # 10 000 independent draws, each with its opposite; five standard errors.
    assert pvalue == pytest.approx(
        exact, abs=5 * np.sqrt(exact * (1 - exact) / 10_000) + 1e-4
    )


def test_enumeration_starts_where_all_patterns_fit():
    a, b = scores(9, 0)
    assert paired_permutation_test(a, b, n_resamples=512).exact
    assert not paired_permutation_test(a, b, n_resamples=511, random_state=0).exact


def test_many_pairs_are_drawn_in_pieces():
    rng = np.random.default_rng(0)
    a = rng.normal(0.0, 1.0, 20_000)
    result = paired_permutation_test(a, 0.0 * a, n_resamples=500, random_state=0)
    # The statistic under random signs has standard deviation sqrt(sum d^2) / n, here
    # estimated from 249 independent values; five standard errors.
    spread = np.sqrt(np.sum(a**2)) / a.size
    assert np.std(result.null_distribution) == pytest.approx(spread, rel=0.23)


# Callable statistics --------------------------------------------------------


@pytest.mark.parametrize("alternative", ALTERNATIVES)
@pytest.mark.parametrize("n_resamples", [20_000, 77])
def test_callable_mean_equals_the_mean(n_resamples, alternative):
    a, b = scores(8, 1, decimals=12)
    by_name, by_call = (
        paired_permutation_test(
            a,
            b,
            statistic=statistic,
            alternative=alternative,
            n_resamples=n_resamples,
            random_state=4,
        )
        for statistic in ("mean", np.mean)
    )
    assert by_call.statistic == pytest.approx(by_name.statistic, abs=1e-15)
    assert by_call.relative == by_name.relative
    assert by_call.pvalue == by_name.pvalue
    # The same patterns, in the same order; their sums round differently.
    np.testing.assert_allclose(
        by_call.null_distribution, by_name.null_distribution, atol=1e-14
    )


def trimmed(differences):
    return np.sort(differences)[1:-1].mean()


@pytest.mark.parametrize("statistic", [np.median, np.max, trimmed])
@pytest.mark.parametrize("alternative", ALTERNATIVES)
def test_callable_statistic_equals_scipy(statistic, alternative):
    a, b = scores(7, 2, decimals=12)
    result = paired_permutation_test(a, b, statistic=statistic, alternative=alternative)
    theirs = stats.permutation_test(
        (a, b),
        lambda x, y: statistic(x - y),
        permutation_type="samples",
        alternative=alternative,
        n_resamples=np.inf,
        vectorized=False,
    )
    assert result.pvalue == pytest.approx(theirs.pvalue, abs=1e-12)
    assert result.statistic == pytest.approx(theirs.statistic, abs=1e-15)


@pytest.mark.parametrize("alternative", ALTERNATIVES)
def test_callable_statistics_that_tie_but_for_rounding_count_as_ties(alternative):
    for seed in range(8):
        a, b = scores(8, seed, decimals=1)
        result = paired_permutation_test(
            a, b, statistic=np.mean, alternative=alternative
        )
        assert result.pvalue == brute_force(a, b, alternative)


def test_callable_is_called_once_for_each_pattern_with_its_own_array():
    seen = []

    def spoil(differences):
        seen.append(tuple(differences))
        value = float(differences.sum())
        differences[:] = 0.0
        return value

    a, b = np.array([1.0, 2.0, 4.0]), np.zeros(3)
    result = paired_permutation_test(a, b, statistic=spoil)
    assert sorted(seen) == sorted(product((1.0, -1.0), (2.0, -2.0), (4.0, -4.0)))
    assert result.statistic == 7.0
    assert result.pvalue == 2 / 8
    assert a.tolist() == [1.0, 2.0, 4.0]


def test_callable_has_no_interval_and_no_detectable_effect():
    result = paired_permutation_test(ERRORS_A, ERRORS_B, statistic=np.median)
    assert np.isnan(result.confidence_interval).all()
    assert np.isnan(result.minimum_detectable_effect)
    assert "not given for a callable" in str(result)


# Seeds and purity -----------------------------------------------------------


def test_same_seed_gives_the_same_pvalue():
    a, b = scores(40, 1)

    def pvalue(random_state):
        return paired_permutation_test(
            a, b, n_resamples=200, random_state=random_state
        ).pvalue

    assert pvalue(3) == pvalue(3) == pvalue(np.int64(3))
    assert len({pvalue(seed) for seed in range(8)}) > 1
    for make in (np.random.default_rng, np.random.RandomState):
        assert pvalue(make(5)) == pvalue(make(5))
        shared = make(5)
        assert len({pvalue(shared) for _ in range(8)}) > 1  # it moves on
    assert len({pvalue(None) for _ in range(8)}) > 1


def test_enumeration_does_not_depend_on_the_seed():
    a, b = scores(8, 1)
    results = [paired_permutation_test(a, b, random_state=s) for s in (None, 0, 1)]
    assert results[0] == results[1] == results[2]


def test_global_generators_are_neither_read_nor_changed():
    def states():
        return (
            random.getstate(),
            np.random.get_state()[1].tobytes(),  # noqa: NPY002
            torch.get_rng_state().numpy().tobytes(),
        )

    a, b = scores(40, 1)
    before = states()
    for random_state in (None, 0):
        paired_permutation_test(a, b, n_resamples=200, random_state=random_state)
    assert states() == before
    first = paired_permutation_test(a, b, n_resamples=200, random_state=0)
    np.random.seed(7)  # noqa: NPY002
    second = paired_permutation_test(a, b, n_resamples=200, random_state=0)
    assert first == second


def test_read_only_scores_are_taken_and_left_alone():
    a, b = np.array([3.0, 1.0, 2.0, 5.0]), np.array([1.0, 1.5, 0.0, 2.0])
    a.flags.writeable = b.flags.writeable = False
    result = paired_permutation_test(a, b)
    assert a.tolist() == [3.0, 1.0, 2.0, 5.0]
    assert b.tolist() == [1.0, 1.5, 0.0, 2.0]
    assert result == paired_permutation_test(a.tolist(), tuple(b.tolist()))
    assert result == paired_permutation_test(a[::-1], b[::-1])


# Bad input ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("a", "b", "message"),
    [
        ([1, 2, 3], [1, 2], r"a and b must have the same shape; got \(3,\) and \(2,\)"),
        ([1.0, 2.0, 3.0], [1.0], r"same shape; got \(3,\) and \(1,\)"),
        ([], [], r"a and b must hold at least one pair; got none"),
        ([[1.0, 2.0]], [[0.0, 1.0]], r"a must be 1-D.*; got shape \(1, 2\)"),
        ([1.0, 2.0], 0.0, r"b must be 1-D.*; got shape \(\)"),
        ([[1.0], [1.0, 2.0]], [1.0, 2.0], "a must be 1-D.*unequal length"),
        ([1.0, np.nan], [0.0, 1.0], "a must be finite; got nan at position 1"),
        ([1.0, 2.0], [-np.inf, 1.0], "b must be finite; got -inf at position 0"),
        ([1.0, None], [0.0, 1.0], "a must be finite; got nan at position 1"),
        ([1.7e308, 1.0], [-1.7e308, 1.0], "a - b must be finite.*overflows"),
    ],
)
def test_scores_that_cannot_be_compared_are_refused(a, b, message):
    with pytest.raises(ValueError, match=message):
        paired_permutation_test(a, b)


@pytest.mark.parametrize(
    ("a", "message"),
    [
        (["0.5", "0.6"], "a must hold real numbers; got dtype <U3"),
        ([1j, 2.0], "a must hold real numbers; got dtype complex128"),
        ([1.0, object()], "a must hold real numbers; float"),
    ],
)
def test_scores_that_are_not_numbers_are_refused(a, message):
    with pytest.raises(TypeError, match=message):
        paired_permutation_test(a, [1.0, 2.0])


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"alternative": "larger"}, ValueError, r"one of \('two-sided', 'greater'"),
        ({"alternative": None}, TypeError, "alternative must be a str.*NoneType"),
        ({"statistic": "median"}, ValueError, "'mean' or a callable; got 'median'"),
        (
            {"statistic": 3},
            TypeError,
            "statistic must be 'mean' or a callable; got int",
        ),
        ({"n_resamples": 0}, ValueError, "n_resamples must be at least 1; got 0"),
        ({"n_resamples": -5}, ValueError, "n_resamples must be at least 1; got -5"),
        ({"n_resamples": 2.5}, TypeError, "n_resamples must be an int; got 2.5"),
        ({"n_resamples": "many"}, TypeError, "n_resamples must be an int; got 'many'"),
        ({"n_resamples": True}, TypeError, "n_resamples must be an int; got True"),
        ({"confidence_level": 95}, ValueError, "strictly between 0 and 1; got 95"),
        ({"confidence_level": "a"}, TypeError, "confidence_level must be a number"),
        ({"power": 1.0}, ValueError, "power must be strictly between 0 and 1; got 1"),
        ({"power": False}, TypeError, "power must be a number; got bool"),
        ({"random_state": -1}, ValueError, "random_state must be None, an int"),
        ({"random_state": 0.5}, TypeError, "random_state must be None.*; got float"),
        ({"random_state": True}, TypeError, "random_state must be None.*; got bool"),
        (
            {"statistic": lambda d: np.nan},
            ValueError,
            "statistic must return a finite number; got nan",
        ),
        ({"statistic": lambda d: d}, TypeError, "one real number; got ndarray"),
        ({"statistic": lambda d: None}, TypeError, "one real number; got NoneType"),
    ],
)
def test_bad_arguments_are_refused(arguments, error, message):
    with pytest.raises(error, match=message):
        paired_permutation_test(ERRORS_A, ERRORS_B, **arguments)
