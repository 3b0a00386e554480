"""Size of the difference: interval, detectable effect, and how a result is shown."""

import copy
import pickle
import sys
from dataclasses import FrozenInstanceError
from fractions import Fraction
from html.parser import HTMLParser
from itertools import product
from math import inf

import numpy as np
import pytest

from sk_quadratic.stats import paired_permutation_test

ALTERNATIVES = ["two-sided", "greater", "less"]
A = [1.0, 2.0, 3.0, 4.0]
B = [0.0, 2.0, 5.0, 1.0]


def exact_pvalue(differences, alternative):
    """P-value of rational differences by enumeration."""
    sums = [
        sum(s * v for s, v in zip(signs, differences, strict=True))
        for signs in product((1, -1), repeat=len(differences))
    ]
    greater = Fraction(sum(t >= sums[0] for t in sums), len(sums))
    less = Fraction(sum(t <= sums[0] for t in sums), len(sums))
    both = min(Fraction(1), 2 * min(greater, less))
    return {"greater": greater, "less": less, "two-sided": both}[alternative]


# The interval ---------------------------------------------------------------


@pytest.mark.parametrize("alternative", ALTERNATIVES)
@pytest.mark.parametrize(("n_pairs", "level"), [(6, 0.9), (8, 0.95), (8, 0.5)])
def test_interval_holds_the_shifts_that_are_not_rejected(n_pairs, level, alternative):
    differences = np.random.default_rng(n_pairs).integers(-40, 80, n_pairs)
    result = paired_permutation_test(
        differences, np.zeros(n_pairs), alternative=alternative, confidence_level=level
    )
    low, high = result.confidence_interval
    alpha = 1 - Fraction(repr(level))

    def kept(shift):
        return exact_pvalue([int(d) - shift for d in differences], alternative) > alpha

    assert (low == -inf) == (alternative == "less")
    assert (high == inf) == (alternative == "greater")
    near = Fraction(1, 10**6)  # the means over subsets lie at least 1/56 apart
    for end, outwards in ((low, -1), (high, 1)):
        if np.isfinite(end):
            # The ends are means of at most 8 integers.
            exact_end = Fraction(end).limit_denominator(8)
            assert float(exact_end) == pytest.approx(end, abs=1e-12)
            assert kept(exact_end)
            assert not kept(exact_end + outwards * near)
    for shift in range(-40, 81, 5):
        assert kept(Fraction(shift)) == (low <= shift <= high)


def test_moving_the_scores_by_the_ends_agrees_with_the_pvalue():
    a, b = np.random.default_rng(1).normal(0.3, 1.0, (2, 9)).round(2)
    low, high = paired_permutation_test(a, b).confidence_interval
    for end, outwards in ((low, -1e-6), (high, 1e-6)):
        assert paired_permutation_test(a - end, b).pvalue > 0.05
        assert paired_permutation_test(a - end - outwards, b).pvalue <= 0.05


@pytest.mark.parametrize("alternative", ALTERNATIVES)
@pytest.mark.parametrize("n_pairs", [8, 30])
def test_interval_leaves_out_zero_exactly_where_the_test_rejects(n_pairs, alternative):
    rng = np.random.default_rng(0)
    rejected = 0
    for seed in range(200):
        # One decimal: many sums tie at 0 and differ from it in their last bits.
        a, b = rng.normal([[0.5], [0.0]], 1.0, (2, n_pairs)).round(1)
        result = paired_permutation_test(
            a, b, alternative=alternative, n_resamples=600, random_state=seed
        )
        low, high = result.confidence_interval
        assert (result.pvalue <= 0.05) == (not low <= 0.0 <= high)
        rejected += result.pvalue <= 0.05
    assert alternative == "less" or 20 < rejected < 190


def test_drawn_interval_is_close_to_the_enumerated_one():
    a, b = np.random.default_rng(0).normal(0.3, 1.0, (2, 14))
    exact = paired_permutation_test(a, b)
    drawn = paired_permutation_test(a, b, n_resamples=10_000, random_state=0)
    assert exact.exact
    assert not drawn.exact
    # The 2.5 % quantile of 5000 independent means has a standard error of 0.04 of
    # their spread, as their density there is 0.058 of one over it.
    spread = np.std(a - b) / np.sqrt(14)
    np.testing.assert_allclose(
        drawn.confidence_interval, exact.confidence_interval, atol=0.15 * spread
    )


@pytest.mark.parametrize("n_pairs", [1, 2, 5])
def test_too_few_pairs_have_no_finite_interval_and_detect_nothing(n_pairs):
    result = paired_permutation_test(np.arange(1.0, n_pairs + 1), np.zeros(n_pairs))
    assert result.confidence_interval == (-inf, inf)
    assert result.minimum_detectable_effect == inf
    assert result.min_pvalue == 2 / 2**n_pairs
    assert "it takes at least 6" in str(result)
    enough = paired_permutation_test(np.arange(1.0, 7.0), np.zeros(6))
    assert np.isfinite(enough.confidence_interval).all()
    assert np.isfinite(enough.minimum_detectable_effect)


# The detectable effect ------------------------------------------------------


def share_rejected(differences, count, alternative="two-sided", level=0.05):
    """Test each row by sign patterns: all, or ``count`` random ones."""
    n_pairs = differences.shape[1]
    if 2**n_pairs <= count:
        signs = np.array(list(product((1.0, -1.0), repeat=n_pairs)))
    else:
        rng = np.random.default_rng(1)
        signs = rng.choice([1.0, -1.0], (count, n_pairs))
        signs[0] = 1.0
    rejected = 0
    for rows in np.array_split(differences, 20):
        sums = rows @ signs.T
        observed = sums[:, :1]
        greater = np.mean(sums >= observed - 1e-9, axis=1)
        less = np.mean(sums <= observed + 1e-9, axis=1)
        both = 2 * np.minimum(greater, less)
        pvalues = {"greater": greater, "less": less, "two-sided": both}[alternative]
        rejected += np.count_nonzero(pvalues <= level)
    return rejected / len(differences)


def test_the_reference_above_agrees_with_the_test():
    differences = np.random.default_rng(0).normal(0.8, 1.0, (300, 8))
    rejected = [paired_permutation_test(d, 0 * d).pvalue <= 0.05 for d in differences]
    assert share_rejected(differences, 256) == np.mean(rejected)


@pytest.mark.parametrize(
    ("n_pairs", "alternative", "level", "power"),
    [
        (6, "two-sided", 0.95, 0.8),
        (8, "two-sided", 0.95, 0.8),
        (8, "less", 0.95, 0.9),
        (8, "two-sided", 0.9, 0.5),
        (10, "greater", 0.99, 0.8),
        (12, "two-sided", 0.95, 0.8),
        (20, "two-sided", 0.95, 0.8),
        (60, "two-sided", 0.95, 0.8),
    ],
)
def test_stated_power_is_reached_at_the_stated_effect(
    n_pairs, alternative, level, power
):
    rng = np.random.default_rng(n_pairs)
    observed = rng.normal(3.0, 2.5, n_pairs)
    result = paired_permutation_test(
        observed,
        np.zeros(n_pairs),
        alternative=alternative,
        confidence_level=level,
        power=power,
        random_state=0,
    )
    effect = result.minimum_detectable_effect
    assert effect > 0.0
    mean = -effect if alternative == "less" else effect
    simulated = rng.normal(mean, np.std(observed, ddof=1), (8000, n_pairs))
    reached = share_rejected(simulated, 4096, alternative, round(1 - level, 9))
    # Four standard errors of 8000 experiments are 0.018 to 0.022.
    assert reached == pytest.approx(power, abs=0.022)


def test_stated_power_counts_the_loss_from_few_resamples():
    rng = np.random.default_rng(5)
    observed = rng.normal(0.0, 1.0, 20)
    few, many = (
        paired_permutation_test(
            observed, np.zeros(20), n_resamples=n_resamples, random_state=0
        ).minimum_detectable_effect
        for n_resamples in (79, 20_000)
    )
    assert few > 1.05 * many
    simulated = rng.normal(few, np.std(observed, ddof=1), (3000, 20))
    rejected = [
        paired_permutation_test(d, 0 * d, n_resamples=79, random_state=rng).pvalue
        <= 0.05
        for d in simulated
    ]
    assert np.mean(rejected) == pytest.approx(0.8, abs=0.029)  # four standard errors


def test_many_pairs_detect_an_effect_that_falls_with_their_root():
    effects = []
    for n_pairs in (100, 200, 300, 5000):
        even = np.tile([1.0, -1.0], n_pairs // 2)
        result = paired_permutation_test(even, 0 * even, random_state=0)
        effects.append(result.minimum_detectable_effect * np.sqrt(n_pairs))
    # The z-test needs 1.960 + 0.842; both tests agree as the number of pairs grows.
    assert effects == pytest.approx([2.80] * 4, rel=0.025)


def test_detectable_effect_without_spread_or_below_the_size_of_the_test_is_zero():
    constant = paired_permutation_test(np.full(8, 2.0), np.zeros(8))
    assert constant.minimum_detectable_effect == 0.0
    modest = paired_permutation_test(np.arange(8.0), np.zeros(8), power=0.01)
    assert modest.minimum_detectable_effect == 0.0


def test_detectable_effect_is_the_same_at_every_call():
    a, b = np.random.default_rng(0).normal(0.0, 1.0, (2, 40))
    effects = {
        paired_permutation_test(a, b, random_state=seed).minimum_detectable_effect
        for seed in (0, 1, None)
    }
    assert len(effects) == 1


# The result -----------------------------------------------------------------


def test_fields_of_a_small_example():
    result = paired_permutation_test(A, B)
    assert result.statistic == 0.5
    assert result.relative == 0.25
    assert result.n_pairs == 4
    assert (result.wins, result.ties, result.losses) == (1, 1, 2)
    assert result.min_pvalue == 0.125
    assert result.exact is True
    assert result.alternative == "two-sided"
    assert (result.confidence_level, result.power) == (0.95, 0.8)


@pytest.mark.parametrize("alternative", ALTERNATIVES)
@pytest.mark.parametrize("statistic", ["mean", np.median])
def test_numbers_are_plain_python_numbers(statistic, alternative):
    result = paired_permutation_test(
        A, B, statistic=statistic, alternative=alternative, n_resamples=10
    )
    for name in (
        "statistic",
        "relative",
        "pvalue",
        "minimum_detectable_effect",
        "min_pvalue",
        "confidence_level",
        "power",
    ):
        assert type(getattr(result, name)) is float, name
    for name in ("n_pairs", "wins", "ties", "losses"):
        assert type(getattr(result, name)) is int, name
    assert type(result.exact) is bool
    assert [type(end) for end in result.confidence_interval] == [float, float]


def test_share_of_a_mean_of_zero_is_not_defined():
    result = paired_permutation_test([1.0, 2.0], [-1.0, 1.0])
    assert np.isnan(result.relative)
    assert "% of the mean of b" not in str(result)
    assert "(+25.00% of the mean of b)" in str(paired_permutation_test(A, B))


def test_result_is_frozen_and_survives_pickling_and_copying():
    result = paired_permutation_test(A, B)
    with pytest.raises(FrozenInstanceError):
        result.pvalue = 0.0
    for back in (pickle.loads(pickle.dumps(result)), copy.deepcopy(result)):
        assert back == result
        assert hash(back) == hash(result)
        np.testing.assert_array_equal(back.null_distribution, result.null_distribution)
    assert "pvalue=0." in repr(result)
    assert len(repr(result)) < 500


def test_text_is_aligned_and_ends_in_a_sentence():
    rng = np.random.default_rng(0)
    a, b = rng.normal(1.0, 0.1, 8), rng.normal(2.0, 0.1, 8)
    title, *rows, sentence = str(paired_permutation_test(a, b)).splitlines()
    assert title == (
        "Paired permutation test, two-sided: 8 pairs, all 256 sign patterns"
    )
    names = [row[2:30].rstrip() for row in rows]
    assert names == [
        "mean of a - b",
        "95 % confidence interval",
        "p-value",
        "wins, ties, losses",
        "smallest detectable effect",
    ]
    assert all(row[28:30] == "  " and row[30] != " " for row in rows)
    assert "0.007812 (at best 0.007812)" in rows[2]
    assert "8, 0, 0 (a win is a < b)" in rows[3]
    assert sentence == "a lies below b: the difference is significant at 0.05."
    assert "a lies above b" in str(paired_permutation_test(b, a))
    assert "No difference is shown" in str(paired_permutation_test(a, a))
    drawn = paired_permutation_test(a, b, n_resamples=99, random_state=0)
    assert "100 random sign patterns" in str(drawn)
    assert "at best 0.02)" in str(drawn)
    few = paired_permutation_test(a, b, n_resamples=20, random_state=0)
    assert "20 sign patterns cannot show a difference at 0.05" in str(few)


def test_html_is_well_formed_and_escaped():
    class Cells(HTMLParser):
        def __init__(self):
            super().__init__()
            self.open, self.text = [], []

        def handle_starttag(self, tag, attrs):
            self.open.append(tag)

        def handle_endtag(self, tag):
            assert self.open.pop() == tag

        def handle_data(self, data):
            self.text.append(data)

    result = paired_permutation_test(A, B)
    page = result._repr_html_()
    cells = Cells()
    cells.feed(page)
    assert cells.open == []
    assert "a win is a &lt; b" in page
    for line in str(result).splitlines()[1:-1]:
        assert line[2:30].rstrip() in cells.text
        assert line[30:] in cells.text


def test_plot_draws_the_null_distribution_and_the_observed_value():
    plt = pytest.importorskip("matplotlib.pyplot")
    result = paired_permutation_test(A, B)
    own = result.plot()
    _, given = plt.subplots()
    try:
        assert result.plot(ax=given) is given
        assert own is not given
        for ax in (own, given):
            assert sum(patch.get_height() for patch in ax.patches) == 16
            assert ax.lines[0].get_xdata()[0] == result.statistic
        same = paired_permutation_test(A, A).plot()
        assert sum(patch.get_height() for patch in same.patches) == 16
    finally:
        plt.close("all")


def test_plot_without_matplotlib_says_how_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match=r'pip install "sk-quadratic\[compare\]"'):
        paired_permutation_test(A, B).plot()
