"""The estimators on tables as people have them: frames, gaps, weights, targets."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from _quick import BOTH, quick
from sklearn.base import clone
from sklearn.exceptions import DataConversionWarning
from sklearn.metrics import mean_pinball_loss, r2_score
from sklearn.utils import get_tags

from sk_quadratic.estimators import BranchMLPRegressor, QuadraticGramRegressor


@pytest.fixture
def mixed():
    """Numbers, text, categories and flags, with gaps in each, and a target of them."""
    rng = np.random.default_rng(0)
    n = 120
    area = rng.normal(100.0, 20.0, n)
    town = rng.choice(["north", "south", "east"], n)
    X = pd.DataFrame(
        {
            "area": area,
            "rooms": pd.Series(rng.integers(1, 6, n), dtype="Int64"),
            "garage": rng.random(n) < 0.5,
            "town": pd.Series(town, dtype=object),
            "grade": pd.Categorical(rng.choice(["low", "high"], n)),
        }
    )
    y = 0.05 * (area - 100.0) + 2.0 * (town == "north") + 0.1 * rng.normal(size=n)
    X.loc[::9, "area"] = np.nan
    X.loc[::7, "rooms"] = pd.NA
    X.loc[::11, "town"] = None
    X.loc[::13, "grade"] = np.nan
    return X, y


# Frames -----------------------------------------------------------------------------


@BOTH
def test_mixed_frame_with_gaps_is_learned(make, mixed):
    X, y = mixed
    model = quick(make, max_epochs=60).fit(X, y)
    assert model.score(X, y) > 0.6
    assert model.is_categorical_.tolist() == [False, False, False, True, True]
    without_town = clone(model).fit(X.drop(columns="town"), y)
    assert without_town.score(X.drop(columns="town"), y) < model.score(X, y) - 0.05


@BOTH
def test_polars_and_pandas_frames_give_one_model(make, mixed):
    X, y = mixed
    expected = quick(make).fit(X, y).predict(X)
    frame = pl.from_pandas(X)
    model = quick(make).fit(frame, pl.Series("y", y))
    np.testing.assert_array_equal(model.predict(frame), expected)
    np.testing.assert_array_equal(model.predict(X), expected)
    assert model.feature_names_in_.tolist() == list(X.columns)


@BOTH
def test_lists_with_text_give_the_model_of_the_frame(make, mixed):
    X, y = mixed
    rows = X.astype(object).where(X.notna(), None).values.tolist()
    expected = quick(make).fit(X, y).predict(X)
    np.testing.assert_array_equal(quick(make).fit(rows, y).predict(rows), expected)


@BOTH
def test_order_of_the_rows_does_not_matter(make, mixed):
    X, y = mixed
    order = np.random.default_rng(1).permutation(len(X))
    for early_stopping in (False, True):
        model = quick(make, early_stopping=early_stopping)
        expected = clone(model).fit(X, y).predict(X)
        moved = clone(model).fit(X.iloc[order], y[order])
        np.testing.assert_array_equal(moved.predict(X), expected)


@BOTH
def test_unknown_category_and_new_gaps_leave_the_other_rows_alone(make, mixed):
    X, y = mixed
    model = quick(make).fit(X, y)
    later = X.copy()
    later["garage"] = later["garage"].astype(object)
    later.loc[:3, "town"] = "harbour"
    later.loc[4:6, "garage"] = np.nan
    later.loc[7:9, "area"] = 1e9
    found = model.predict(later)
    assert np.isfinite(found).all()
    np.testing.assert_array_equal(found[10:], model.predict(X)[10:])


@BOTH
def test_useless_columns_are_harmless(make, mixed):
    X, y = mixed
    odd = X.assign(
        none=np.nan, nothing=None, same=7, one="a", id=[f"row {i}" for i in range(120)]
    )
    model = quick(make, max_epochs=60).fit(odd, y)
    assert model.score(odd, y) > 0.6
    later = odd.assign(none=1.0, nothing="text", same=8.0, one="b", id="new")
    np.testing.assert_allclose(model.predict(later), model.predict(odd), atol=1e-9)


def test_table_without_a_usable_column_predicts_a_constant():
    X = pd.DataFrame({"a": [np.nan] * 30, "b": [None] * 30})
    y = np.random.default_rng(0).normal(5.0, 1.0, 30)
    found = quick(BranchMLPRegressor, max_epochs=60).fit(X, y).predict(X)
    np.testing.assert_allclose(found, y.mean(), atol=0.2)


def test_wild_number_does_not_wreck_the_rest(mixed):
    X, y = mixed
    wild = X.copy()
    wild.loc[3, "area"] = 1e9
    model = quick(QuadraticGramRegressor, max_epochs=60)
    assert clone(model).fit(wild, y).score(wild.drop(3), np.delete(y, 3)) > 0.6


def test_high_cardinality_costs_a_bounded_number_of_parameters():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"id": [f"u{i % 5000}" for i in range(10_000)]})
    model = quick(BranchMLPRegressor, max_epochs=1).fit(X, rng.normal(size=10_000))
    assert model.module_.embedding.vectors.shape == (256, 8)


def test_categorical_features_take_numbers_as_categories():
    rng = np.random.default_rng(0)
    code = rng.integers(0, 6, 200)
    y = np.array([0.0, 5.0, -3.0, 4.0, -6.0, 1.0])[code]
    X = np.c_[code, rng.normal(size=200)]
    kwargs = {"width": 4, "n_branches": 2, "max_epochs": 60, "learning_rate": 0.03}
    model = quick(BranchMLPRegressor, categorical_features=[0], **kwargs).fit(X, y)
    numeric = quick(BranchMLPRegressor, **kwargs).fit(X, y)
    assert model.score(X, y) > 0.98 > numeric.score(X, y)
    assert model.is_categorical_.tolist() == [True, False]
    frame = pd.DataFrame({"code": code, "x": X[:, 1]})
    named = quick(BranchMLPRegressor, categorical_features=["code"], **kwargs)
    np.testing.assert_array_equal(named.fit(frame, y).predict(frame), model.predict(X))
    # pandas turns a column of whole numbers into floats where one is missing.
    gap = frame.astype({"code": float})
    np.testing.assert_array_equal(named.predict(gap), named.predict(frame))


def test_no_categorical_features_means_numbers(mixed):
    X, y = mixed
    with pytest.raises(ValueError, match=r"Column 'town' of X is one of numbers.*text"):
        quick(BranchMLPRegressor, categorical_features=None).fit(X, y)
    as_text = X[["area"]].astype(str).replace("nan", None)
    model = quick(BranchMLPRegressor, categorical_features=None).fit(as_text, y)
    expected = quick(BranchMLPRegressor).fit(X[["area"]], y).predict(X[["area"]])
    np.testing.assert_array_equal(model.predict(as_text), expected)


@BOTH
def test_frame_of_other_columns_is_refused(make, mixed):
    X, y = mixed
    model = quick(make).fit(X, y)
    with pytest.raises(ValueError, match="feature names"):
        model.predict(X[X.columns[::-1]])
    with pytest.raises(ValueError, match="feature"):
        model.predict(X.drop(columns="grade"))
    with pytest.raises(ValueError, match=r"Column 'area'.*row 0 holds 'large'"):
        model.predict(X.assign(area="large"))


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_empty_frames_are_refused_in_scikit_learns_words(frame):
    with pytest.raises(ValueError, match=r"0 sample\(s\)"):
        quick(BranchMLPRegressor).fit(frame({"a": []}), [])
    with pytest.raises(ValueError, match=r"0 (sample|feature)\(s\)"):
        quick(BranchMLPRegressor).fit(frame(), [])


@BOTH
def test_callers_data_is_left_as_it_was(make, mixed):
    X, y = mixed
    X_before, y_before = X.copy(deep=True), y.copy()
    quick(make).fit(X, y).predict(X)
    pd.testing.assert_frame_equal(X, X_before)
    np.testing.assert_array_equal(y, y_before)


@BOTH
def test_tags_are_true_to_behaviour(make):
    tags = get_tags(make())
    assert tags.input_tags.allow_nan
    assert tags.input_tags.categorical
    assert tags.target_tags.multi_output
    assert not tags.input_tags.sparse


# Weights ----------------------------------------------------------------------------


@BOTH
@pytest.mark.parametrize("early_stopping", [False, True])
def test_whole_weights_are_repeated_rows(make, early_stopping, mixed):
    X, y = mixed
    rng = np.random.default_rng(0)
    weight = rng.integers(0, 4, len(X))
    rows = rng.permutation(np.repeat(np.arange(len(X)), weight))
    model = quick(make, early_stopping=early_stopping)
    weighted = clone(model).fit(X, y, sample_weight=weight)
    repeated = clone(model).fit(X.iloc[rows], y[rows])
    np.testing.assert_array_equal(weighted.predict(X), repeated.predict(X))
    assert weighted.validation_scores_ == pytest.approx(
        repeated.validation_scores_, nan_ok=True
    )


@BOTH
def test_weight_zero_is_no_row_and_equal_weights_are_none(make, mixed):
    X, y = mixed
    plain = quick(make).fit(X, y).predict(X)
    for weight in (1.0, 7.0, np.full(len(X), 0.3)):
        found = quick(make).fit(X, y, sample_weight=weight).predict(X)
        np.testing.assert_array_equal(found, plain)
    used = np.arange(len(X)) % 3 > 0
    spoiled = np.where(used, y, 1e6)
    found = quick(make).fit(X, spoiled, sample_weight=used).predict(X)
    expected = quick(make).fit(X[used], y[used]).predict(X)
    np.testing.assert_array_equal(found, expected)


def test_heavier_rows_are_fitted_better(friedman_table):
    X, _ = friedman_table
    y = np.where(np.arange(len(X)) % 2, 1.0, -1.0)
    X = np.zeros_like(X)
    for weight in (1.0, 3.0, 9.0):
        w = np.where(y > 0, weight, 1.0)
        found = quick(BranchMLPRegressor, max_epochs=60).fit(X, y, sample_weight=w)
        assert found.predict(X[:1])[0] == pytest.approx(
            (weight - 1) / (weight + 1), abs=0.02
        )


@BOTH
@pytest.mark.parametrize(
    "weight",
    [
        np.zeros(120),
        np.ones(119),
        np.full(120, np.nan),
        np.ones((120, 2)),
        -np.ones(120),
    ],
    ids=["zeros", "short", "nan", "matrix", "negative"],
)
def test_bad_weights_are_refused(make, weight, mixed):
    with pytest.raises(ValueError, match=r"(?i)sample.?weight|negative"):
        quick(make).fit(*mixed, sample_weight=weight)


def test_skorch_scoring_callbacks_work_with_weights(friedman_table):
    from skorch.callbacks import EpochScoring

    X, y = friedman_table
    scoring = EpochScoring("r2", name="r2", lower_is_better=False)
    model = quick(BranchMLPRegressor, early_stopping=True, callbacks=[scoring])
    model.fit(X, y, sample_weight=np.linspace(0.5, 2.0, len(X)))
    assert np.isfinite(model.net_.history[:, "r2"]).all()


# Validation data --------------------------------------------------------------------


@BOTH
def test_given_validation_rows_choose_the_epoch(make, friedman_table):
    X, y = friedman_table
    model = quick(make, early_stopping="auto", max_epochs=20, learning_rate=0.05)
    model.fit(X[:60], y[:60], X_val=X[60:], y_val=y[60:])
    assert model.best_epoch_ == int(np.argmax(model.validation_scores_)) + 1
    score = model.validation_scores_[model.best_epoch_ - 1]
    assert model.score(X[60:], y[60:]) == pytest.approx(score, abs=1e-5)


def test_weights_of_validation_rows_count(friedman_table):
    X, y = friedman_table
    weight = (np.arange(140) < 20).astype(float)
    model = quick(BranchMLPRegressor, early_stopping=True, max_epochs=20)
    weighted = clone(model).fit(
        X[:60], y[:60], X_val=X[60:], y_val=y[60:], sample_weight_val=weight
    )
    fewer = clone(model).fit(X[:60], y[:60], X_val=X[60:80], y_val=y[60:80])
    assert weighted.validation_scores_ == fewer.validation_scores_


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"X_val": True}, "X_val is provided, but y_val was not"),
        ({"y_val": True}, "y_val is provided, but X_val was not"),
        ({"sample_weight_val": True}, "without X_val and y_val"),
    ],
)
def test_half_of_the_validation_data_is_refused(given, message, friedman_table):
    X, y = friedman_table
    whole = {"X_val": X, "y_val": y, "sample_weight_val": np.ones(len(y))}
    with pytest.raises(ValueError, match=message):
        quick(BranchMLPRegressor, early_stopping=True).fit(
            X, y, **{name: whole[name] for name in given}
        )


def test_validation_data_without_early_stopping_is_refused(friedman_table):
    X, y = friedman_table
    with pytest.raises(ValueError, match="early_stopping is False"):
        quick(BranchMLPRegressor).fit(X, y, X_val=X, y_val=y)


def test_error_in_the_validation_data_says_so(mixed):
    X, y = mixed
    with pytest.raises(ValueError, match="Column 'area'") as caught:
        quick(BranchMLPRegressor, early_stopping=True).fit(
            X, y, X_val=X.assign(area="large"), y_val=y
        )
    assert "X_val" in caught.value.__notes__[0]


# Targets and losses -----------------------------------------------------------------


@BOTH
def test_several_targets_are_learned_in_their_units(make, friedman_table):
    X, y = friedman_table
    Y = np.c_[y, 1e6 - 1e3 * y, 1e-6 * X[:, 0]]
    model = quick(make, max_epochs=60, early_stopping=True).fit(X, Y)
    found = model.predict(X)
    assert found.shape == Y.shape
    assert (r2_score(Y, found, multioutput="raw_values") > 0.7).all()
    with pytest.raises(ValueError, match=r"y has 1 targets.*fitted with 3"):
        model.set_params(warm_start=True).fit(X, y)


def test_column_of_one_target_is_flattened_with_a_warning(friedman_table):
    X, y = friedman_table
    with pytest.warns(DataConversionWarning, match="column-vector"):
        model = quick(BranchMLPRegressor).fit(X, y[:, None])
    np.testing.assert_array_equal(
        model.predict(X), quick(BranchMLPRegressor).fit(X, y).predict(X)
    )


@BOTH
def test_quantiles_hold_their_share_and_do_not_cross(make, friedman_table):
    X, _ = friedman_table
    X = np.repeat(X, 3, axis=0) + np.random.default_rng(1).normal(size=(600, 10)) * 0.1
    y = X[:, 3] + np.random.default_rng(0).exponential(size=600)
    levels = [0.9, 0.1, 0.5]
    model = quick(make, loss="quantile", quantile=levels, max_epochs=30).fit(X, y)
    found = model.predict(X)
    assert found.shape == (600, 3)
    assert (np.diff(found[:, [1, 2, 0]], axis=1) >= 0).all()
    np.testing.assert_allclose((y[:, None] <= found).mean(axis=0), levels, atol=0.08)
    with pytest.raises(ValueError, match=r"3 quantiles.*mean_pinball_loss"):
        model.score(X, y)


def test_single_quantile_is_flat_and_beats_the_constant(friedman_table):
    X, y = friedman_table
    model = quick(BranchMLPRegressor, loss="quantile", quantile=0.8, max_epochs=60)
    found = model.fit(X, y).predict(X)
    assert found.shape == y.shape
    constant = np.full(len(y), np.quantile(y, 0.8))
    ours = mean_pinball_loss(y, found, alpha=0.8)
    assert ours < 0.5 * mean_pinball_loss(y, constant, alpha=0.8)


@BOTH
def test_poisson_learns_rates_of_any_size(make):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 3))
    for size in (5.0, 1e4):
        rate = size * np.exp(0.8 * X[:, 0])
        model = quick(make, loss="poisson", early_stopping=True, max_epochs=40)
        model.fit(X, rng.poisson(rate))
        found = model.predict(X)
        assert (found > 0).all()
        assert r2_score(np.log(rate), np.log(found)) > 0.8


@pytest.mark.parametrize("y", [np.full(20, -1.0), np.zeros(20)])
def test_poisson_refuses_targets_that_are_no_counts(y):
    with pytest.raises(ValueError, match=r"loss='poisson' requires y >= 0 and sum"):
        quick(BranchMLPRegressor, loss="poisson").fit(np.arange(20.0)[:, None], y)


@pytest.mark.parametrize("loss", ["absolute_error", "huber"])
def test_wild_target_does_not_wreck_a_robust_loss(loss, friedman_table):
    X, y = friedman_table
    wild = y.copy()
    wild[5] = 1e9
    model = quick(QuadraticGramRegressor, loss=loss, max_epochs=80).fit(X, wild)
    kept = np.arange(len(y)) != 5
    assert model.score(X[kept], y[kept]) > 0.7


# Chunks -----------------------------------------------------------------------------


def test_partial_fit_keeps_the_categories_that_the_type_declares():
    rng = np.random.default_rng(0)
    town = pd.Categorical(rng.choice(["a", "b", "c"], 300), ["a", "b", "c"])
    X = pd.DataFrame({"town": town, "x": rng.normal(size=300)})
    y = np.where(town == "c", 5.0, -1.0) + X["x"]
    first = np.flatnonzero(town != "c")
    model = quick(BranchMLPRegressor, learning_rate=0.02)
    model.partial_fit(X.iloc[first], y.iloc[first])
    for _ in range(40):
        model.partial_fit(X, y)
    assert model.score(X, y) > 0.95


def test_partial_fit_takes_weights(friedman_table):
    X, y = friedman_table
    used = np.arange(len(X)) % 2 == 0
    a, b = quick(BranchMLPRegressor), quick(BranchMLPRegressor)
    for _ in range(3):
        a.partial_fit(X, np.where(used, y, 1e6), sample_weight=used)
        b.partial_fit(X[used], y[used])
    np.testing.assert_array_equal(a.predict(X), b.predict(X))


@BOTH
def test_defaults_warn_of_nothing_on_a_mixed_frame(make, mixed):
    X, y = mixed
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        make(max_epochs=3).fit(X, y).predict(X)
