"""The paired-seed protocol: which rows go where, what is chosen, what is kept."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from _regressors import Descent, Failing, Noisy, Picky, Spy
from sklearn.datasets import make_friedman1
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.metrics import mean_squared_error

from sk_quadratic._splits import MIN_ROWS
from sk_quadratic.comparison import ComparisonResult, compare
from sk_quadratic.datasets import load_dataset

RATES = (0.01, 0.05, 0.2)
SMALL: dict[str, Any] = {"learning_rates": RATES, "n_train": 60, "n_test": 30}


@pytest.fixture
def table() -> tuple[np.ndarray, np.ndarray]:
    """Return 200 rows whose first column is the row number."""
    rng = np.random.default_rng(0)
    X = np.column_stack([np.arange(200.0), rng.normal(size=(200, 3))])
    return X, X[:, 1:].sum(axis=1) + 0.1 * rng.normal(size=200)


@pytest.fixture(autouse=True)
def _clean_logs() -> None:
    Spy.log.clear()
    Failing.plan.clear()


def pair(**params: Any) -> dict[str, Descent]:
    return {"short": Descent(n_steps=5, **params), "long": Descent(**params)}


def without_times(result: ComparisonResult) -> dict[str, Any]:
    content = result.to_dict()
    del content["arguments"]["n_jobs"]
    for model in content["models"]:
        del model["fit_seconds"], model["predict_seconds"]
    return content


@pytest.mark.parametrize("options", [{}, {"n_train": 100}, {"n_test": 20}])
def test_tuning_sees_no_row_that_any_seed_tests_on(
    table: tuple[np.ndarray, np.ndarray], options: dict[str, Any]
) -> None:
    result = compare(
        {"a": Spy(), "b": Spy(n_steps=5)}, table, learning_rates=RATES, **options
    )
    tuned: set[float] = set()
    tested: set[float] = set()
    for what, seed, _, rows in Spy.log:
        if seed in result.tuning_seeds:
            tuned |= rows
        else:
            assert seed in result.seeds
            tested |= rows if what == "predict" else set()
    assert tuned
    assert tested
    assert not tuned & tested


def test_training_and_test_rows_of_a_seed_are_apart_and_shared_by_the_models(
    table: tuple[np.ndarray, np.ndarray],
) -> None:
    result = compare({"a": Spy(), "b": Spy(n_steps=5)}, table, learning_rates=RATES)
    for seed in (*result.seeds, *result.tuning_seeds):
        fits = {rows for what, s, _, rows in Spy.log if s == seed and what == "fit"}
        scored = {rows for what, s, _, rows in Spy.log if s == seed and what != "fit"}
        assert len(fits) == len(scored) == 1
        assert not fits.pop() & scored.pop()


def test_parts_of_a_table_have_the_stated_sizes(
    table: tuple[np.ndarray, np.ndarray],
) -> None:
    result = compare({"a": Spy(), "b": Spy(n_steps=5)}, table, learning_rates=RATES)
    sizes = {(what, seed in result.seeds): len(rows) for what, seed, _, rows in Spy.log}
    assert sizes == {
        ("predict", True): 40,  # a fifth of 200
        ("fit", True): 160,
        ("predict", False): 24,  # a fifth of the 120 rows outside of the test pool
        ("fit", False): 96,
    }
    assert result.data["n_train"] == 160
    assert result.data["n_test"] == 40
    assert result.data["n_tuning_train"] == 96
    assert result.data["n_validation"] == 24
    tested = [
        rows for what, s, _, rows in Spy.log if what != "fit" and s in result.seeds
    ]
    assert len(set(tested)) > 1
    assert len(frozenset.union(*tested)) <= 80


def test_generated_seeds_follow_the_protocol_row_by_row() -> None:
    result = compare(pair(), "friedman1", learning_rates=RATES, n_seeds=3)
    assert not set(result.seeds) & set(result.tuning_seeds)
    for model, n_steps in zip(result.models, (5, 20), strict=True):
        means = []
        for rate in RATES:
            scores = []
            for seed in result.tuning_seeds:
                X, y = make_friedman1(800, n_features=10, noise=1.0, random_state=seed)
                fit = Descent(learning_rate=rate, n_steps=n_steps, random_state=seed)
                fit.fit(X[:640], y[:640])
                scores.append(mean_squared_error(y[640:], fit.predict(X[640:])))
            assert model.tuning_scores[rate] == pytest.approx(scores)
            means.append(np.mean(scores))
        assert model.value == RATES[int(np.argmin(means))]
        for seed, score in zip(result.seeds, model.scores, strict=True):
            X, y = make_friedman1(1200, n_features=10, noise=1.0, random_state=seed)
            best = Descent(
                learning_rate=model.value, n_steps=n_steps, random_state=seed
            )
            best.fit(X[:800], y[:800])
            expected = mean_squared_error(y[800:], best.predict(X[800:]))
            assert score == pytest.approx(expected)


def test_pairs_are_tested_with_the_model_first() -> None:
    result = compare(pair(), "friedman1", n_seeds=8, **SMALL)
    short, long = (np.array(model.scores) for model in result.models)
    test = result.pairs[0].test
    assert (result.pairs[0].model, result.pairs[0].baseline) == ("long", "short")
    assert test.statistic == pytest.approx((long - short).mean())
    assert test.wins == (long < short).sum()
    assert result.models[0].mean_score == pytest.approx(short.mean())
    assert result.models[0].std_score == pytest.approx(short.std(ddof=1))


def test_more_seeds_keep_the_first_ones() -> None:
    few = compare(pair(), "friedman1", n_seeds=2, **SMALL)
    more = compare(pair(), "friedman1", n_seeds=4, **SMALL)
    assert more.models[1].scores[:2] == few.models[1].scores
    other = compare(pair(), "friedman1", n_seeds=2, random_state=1, **SMALL)
    assert not set(other.seeds) & set(more.seeds)


@pytest.mark.slow
def test_two_processes_give_the_scores_of_one(
    table: tuple[np.ndarray, np.ndarray],
) -> None:
    one = compare(pair(), table, learning_rates=RATES, n_seeds=3)
    two = compare(pair(), table, learning_rates=RATES, n_seeds=3, n_jobs=2)
    assert without_times(one) == without_times(two)


def test_baseline_can_be_any_model() -> None:
    models = {**pair(), "line": LinearRegression()}
    result = compare(models, "friedman1", baseline="long", n_seeds=2, **SMALL)
    assert [(p.model, p.baseline) for p in result.pairs] == [
        ("short", "long"),
        ("line", "long"),
    ]


def test_blocks_in_one_trunk_are_compared_with_each_other() -> None:
    names = ("branch MLP", "branch sum in trunk", "quadratic form", "full structure")
    models = {name: Descent(n_steps=3 + i) for i, name in enumerate(names)}
    result = compare(models, "friedman1", **SMALL)
    assert [(p.model, p.baseline) for p in result.pairs] == [
        ("branch sum in trunk", "branch MLP"),
        ("quadratic form", "branch MLP"),
        ("full structure", "branch MLP"),
        ("quadratic form", "branch sum in trunk"),
    ]
    for test in result.pairs:
        assert test.test.pvalue <= test.adjusted_pvalue <= 4 * test.test.pvalue
    in_trunk = compare(models, "friedman1", baseline="branch sum in trunk", **SMALL)
    assert len(in_trunk.pairs) == 3


def test_models_in_a_sequence_are_named_by_their_classes() -> None:
    result = compare([Descent(), Descent(n_steps=5)], "friedman1", n_seeds=1, **SMALL)
    assert [model.name for model in result.models] == ["Descent", "Descent 2"]


def test_models_are_not_changed() -> None:
    models = pair()
    compare(models, "friedman1", n_seeds=1, **SMALL)
    assert not hasattr(models["long"], "coef_")
    assert models["long"].learning_rate == 0.1


def test_data_frames_stay_data_frames(table: tuple[np.ndarray, np.ndarray]) -> None:
    class Frames(Descent):
        def fit(self, X: Any, y: Any) -> "Frames":
            assert list(X.columns) == ["row", "a", "b", "c"]
            super().fit(X, y)
            return self

    frame = pd.DataFrame(table[0], columns=["row", "a", "b", "c"])
    models = {"a": Frames(), "b": Frames(n_steps=5)}
    framed = compare(models, (frame, pd.Series(table[1])), learning_rates=RATES)
    plain = compare(pair(), table, learning_rates=RATES)
    assert framed.data["feature_names"] == ["row", "a", "b", "c"]
    # The memory order of the rows differs, and with it the order of some sums.
    assert framed.models[0].scores == pytest.approx(plain.models[1].scores)


# Divergence


def test_rates_that_diverge_in_tuning_are_out_and_reported() -> None:
    rates = (0.1, 0.2, 0.5, 1.0)
    models = {"plain": Descent(), "picky": Picky()}
    result = compare(
        models, "friedman1", learning_rates=rates, n_train=60, n_test=30, n_seeds=6
    )
    assert result.models[1].tuning_scores[0.5] == (None,) * 4
    assert result.models[1].value in (0.1, 0.2)
    note = "picky: diverged in tuning, and so out: learning_rate 0.5, 1."
    assert note in result.notes
    assert note in str(result)


def test_scores_that_overflow_count_as_diverged() -> None:
    models = {"a": Descent(n_steps=900), "b": Descent()}
    result = compare(
        models,
        "friedman1",
        n_seeds=1,
        learning_rates=(0.1, 50.0),
        n_train=60,
        n_test=30,
    )
    assert result.models[0].tuning_scores[50.0] == (None,) * 4
    assert result.models[0].value == 0.1


def test_divergence_at_every_rate_is_an_error() -> None:
    models = {"plain": Descent(), "picky": Picky()}
    message = (
        r"picky diverged at every value of learning_rate tried: 0.5, 0.9. Add lower "
        r"values to learning_rates.*now 0.5"
    )
    with pytest.raises(ValueError, match=message):
        compare(models, "friedman1", learning_rates=(0.5, 0.9), n_train=60, n_test=30)


def test_divergence_of_a_final_fit_is_an_error() -> None:
    seeds = compare(pair(), "friedman1", n_seeds=2, **SMALL).seeds
    models = {"plain": Descent(), "noisy": Noisy(bad_seeds=seeds[1:])}
    message = (
        r"noisy, seed 2 diverged with learning_rate=.*error of the predictions is nan"
    )
    with pytest.raises(ValueError, match=message):
        compare(models, "friedman1", n_seeds=2, **SMALL)
    with pytest.raises(ValueError, match="noisy, seed 2 diverged: The mean squared"):
        compare(models, "friedman1", n_seeds=2, parameter={"plain": None}, **SMALL)


def test_wrong_arguments_are_not_taken_for_divergence() -> None:
    Failing.plan[:] = [ValueError("The 'learning_rate' parameter must be a float")]
    with pytest.raises(ValueError, match="parameter must be a float") as raised:
        compare({"f": Failing(), "d": Descent()}, "friedman1", n_seeds=1, **SMALL)
    notes = raised.value.__notes__
    assert notes == ["While fitting f, learning_rate=0.01, tuning seed 1."]


def test_other_exceptions_of_a_model_pass() -> None:
    Failing.plan[:] = [RuntimeError("out of luck")]
    with pytest.raises(RuntimeError, match="out of luck"):
        compare({"f": Failing(), "d": Descent()}, "friedman1", n_seeds=1, **SMALL)


def test_predictions_of_a_wrong_shape_are_refused() -> None:
    class Wide(Descent):
        def predict(self, X: Any) -> np.ndarray:
            return np.zeros((len(X), 2))

    with pytest.raises(ValueError, match=r"must have shape \(12,\); got \(12, 2\)"):
        compare({"w": Wide(), "d": Descent()}, "friedman1", n_seeds=1, **SMALL)


# Interruption


def interrupted(models: dict[str, Any], path: Path, **options: Any) -> None:
    with pytest.raises(KeyboardInterrupt):
        compare(models, "friedman1", n_seeds=3, checkpoint=path, **SMALL, **options)


@pytest.mark.parametrize("event", [KeyboardInterrupt(), "swallow"])
@pytest.mark.parametrize("n_before", [0, 5, 13])
def test_resumed_comparison_equals_an_uninterrupted_one(
    tmp_path: Path, event: Any, n_before: int
) -> None:
    models = {"f": Failing(), "d": Descent(n_steps=5)}
    whole = compare(models, "friedman1", n_seeds=3, **SMALL)
    path = tmp_path / "new" / "checkpoint.json"
    Failing.plan[:] = [*[None] * n_before, event]
    interrupted(models, path)
    kept = len(json.loads(path.read_text())["records"]) if path.exists() else 0
    # Twelve fits tune the first model, as many the second; then come the final ones.
    assert kept == n_before + 12 * (n_before > 12)
    calls: list[tuple[int, int, str]] = []
    resumed = compare(
        models,
        "friedman1",
        n_seeds=3,
        checkpoint=path,
        progress=lambda *call: calls.append(call),
        **SMALL,
    )
    assert without_times(resumed) == without_times(whole)
    assert len([call for call in calls if call[2] != "resumed"]) == 30 - kept
    assert calls[-1][:2] == (30, 30)
    assert not path.exists()
    assert not list(path.parent.iterdir())


def test_checkpoint_is_kept_after_an_error(tmp_path: Path) -> None:
    Failing.plan[:] = [None, None, RuntimeError("out of luck")]
    models = {"f": Failing(), "d": Descent()}
    path = tmp_path / "checkpoint.json"
    with pytest.raises(RuntimeError):
        compare(models, "friedman1", checkpoint=path, **SMALL)
    assert len(json.loads(path.read_text())["records"]) == 2


def test_checkpoint_of_another_comparison_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint.json"
    models = {"f": Failing(), "d": Descent()}
    Failing.plan[:] = [None, KeyboardInterrupt()]
    interrupted(models, path)
    models["d"] = Descent(n_steps=3)
    with pytest.raises(ValueError, match=r"checkpoint\.json belongs to another"):
        compare(models, "friedman1", n_seeds=3, checkpoint=path, **SMALL)
    path.write_text('{"comparison"')
    with pytest.raises(ValueError, match="is not a checkpoint of a comparison"):
        compare(models, "friedman1", n_seeds=3, checkpoint=path, **SMALL)


def test_automatic_checkpoint_lies_in_the_cache_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    models = {"f": Failing(), "d": Descent()}
    Failing.plan[:] = [None, KeyboardInterrupt()]
    interrupted(models, "auto")  # type: ignore[arg-type]
    (file,) = (tmp_path / "sk_quadratic").iterdir()
    assert len(json.loads(file.read_text())["records"]) == 1
    Failing.plan[:] = [KeyboardInterrupt()]
    models["d"] = Descent(n_steps=3)
    interrupted(models, "auto")  # type: ignore[arg-type]
    assert list((tmp_path / "sk_quadratic").iterdir()) == [file]
    models["d"] = Descent()
    compare(models, "friedman1", n_seeds=3, checkpoint="auto", **SMALL)
    assert not file.exists()


def test_checkpoint_needs_models_that_can_be_pickled(tmp_path: Path) -> None:
    class Local(Descent):
        pass

    models = {"local": Local(), "d": Descent(n_steps=5)}
    assert compare(models, "friedman1", n_seeds=1, **SMALL).models[0].name == "local"
    with pytest.raises(TypeError, match="The model 'local' must be picklable for a"):
        compare(models, "friedman1", checkpoint=tmp_path / "c.json", **SMALL)


def test_cache_folder_that_cannot_be_made_is_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sk_quadratic").write_text("a file in the way")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.warns(UserWarning, match="cannot be written: an interrupted"):
        compare(pair(), "friedman1", n_seeds=1, checkpoint="auto", **SMALL)


# Errors

PAIR = {"a": Descent(), "b": Descent()}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_seeds": 0}, "n_seeds must be at least 1; got 0"),
        ({"tuning_seeds": 0}, "tuning_seeds must be at least 1; got 0"),
        ({"n_train": 0}, "n_train must be at least 1; got 0"),
        ({"n_test": -1}, "n_test must be at least 1; got -1"),
        ({"random_state": -1}, "random_state must be at least 0; got -1"),
        ({"test_fraction": 0.5}, "test_fraction must be from 0.01 to 0.45; got 0.5"),
        ({"validation_fraction": 1.0}, "validation_fraction must be from 0.01 to 0.9"),
        ({"n_jobs": 0}, "n_jobs must be at least 1, or -1 for all cores; got 0"),
        ({"n_jobs": -2}, "n_jobs must be at least 1, or -1 for all cores; got -2"),
        ({"learning_rates": ()}, "learning_rates must hold at least one value"),
        ({"learning_rates": (0.1, 0.0)}, "must be finite and above 0; got 0.0"),
        ({"learning_rates": (np.nan,)}, "must be finite and above 0; got nan"),
        ({"baseline": "c"}, "baseline must be one of 'a', 'b'; got 'c'"),
        ({"parameter": {"c": "x"}}, "names the model 'c'; the models are 'a', 'b'"),
        ({"parameter": {"a": "x"}}, "'a' has no parameter 'x'; it has 'learning_rate'"),
        ({"n_train": 40}, "need 10 rows each; got n_train=40, of which 8 validate"),
        ({"n_test": 9}, "need 10 rows each; got n_train=800.*n_test=9"),
    ],
)
def test_wrong_values_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        compare(PAIR, "friedman1", **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_seeds": 2.0}, "n_seeds must be an int; got 2.0"),
        ({"n_seeds": True}, "n_seeds must be an int; got True"),
        ({"random_state": None}, "random_state must be an int; got None"),
        ({"test_fraction": "a"}, "test_fraction must be a number; got 'a'"),
        ({"n_jobs": None}, "n_jobs must be an int; got None"),
        ({"learning_rates": 0.1}, "must be a sequence of numbers; got float"),
        ({"learning_rates": ("a",)}, "learning_rates must hold numbers; got 'a'"),
        ({"parameter": 3}, "parameter must be a str, or a dict .* got int"),
    ],
)
def test_wrong_types_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        compare(PAIR, "friedman1", **options)


@pytest.mark.parametrize(
    ("models", "error", "message"),
    [
        ({"a": Ridge()}, ValueError, "at least two regressors; got 1"),
        (Ridge(), TypeError, "models must be a dict .* got Ridge"),
        ({"a": Ridge(), "b": Ridge}, TypeError, r"'b' must be an instance.*Ridge\(\)"),
        ({"a": Ridge(), "b": 3}, TypeError, "regressor; got int without fit"),
        (
            {"a": Ridge(), "b": LogisticRegression()},
            TypeError,
            "regressor; got LogisticRegression, a classifier",
        ),
        ({1: Ridge(), "b": Ridge()}, TypeError, "non-empty strings; got 1"),
    ],
)
def test_wrong_models_are_refused(
    models: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        compare(models, "friedman1")


@pytest.mark.parametrize(
    ("data", "error", "message"),
    [
        (3, TypeError, r"a path or a pair \(X, y\); got int"),
        ((np.ones(3), np.ones(3)), ValueError, r"got \(3,\) and \(3,\)"),
        ((np.ones((3, 1)), np.ones(2)), ValueError, r"got \(3, 1\) and \(2,\)"),
        ((np.ones((3, 1)), np.ones((3, 1))), ValueError, r"got \(3, 1\) and \(3, 1\)"),
        (([[1.0]], ["a"]), ValueError, "y must be numeric; got dtype <U1"),
        (([[1.0]], [np.nan]), ValueError, "y must be finite; got 1 NaN or infinite"),
    ],
)
def test_wrong_data_is_refused(data: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        compare(PAIR, data)


@pytest.mark.parametrize(
    ("options", "needed"), [({}, 78), ({"n_train": 70, "n_test": 15}, 85)]
)
def test_too_few_rows_are_refused_with_the_number_needed(
    options: dict[str, Any], needed: int
) -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(needed, 2)), rng.normal(size=needed)
    message = f"at least {needed} rows .* part has {MIN_ROWS}; .* has {needed - 1}"
    with pytest.raises(ValueError, match=message):
        compare(PAIR, (X[:-1], y[:-1]), **options)
    assert compare(PAIR, (X, y), n_seeds=1, **options).data["n_rows"] == needed


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_train": 5}, "n_train must be at least 10; got 5"),
        ({"n_test": 5}, "n_test must be at least 10; got 5"),
        ({"n_train": 30}, "need 10 rows; got n_train=30, of which 6 validate"),
        ({"n_train": 600}, "needs at least 749 rows .* diabetes has 442"),
    ],
)
def test_parts_too_small_or_too_large_for_a_table_are_refused(
    options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        compare(PAIR, load_dataset("diabetes"), **options)


def test_parameter_that_no_model_has_is_refused():
    models = {"one": Ridge(), "two": Ridge(alpha=2.0)}
    with pytest.raises(ValueError, match="No model has a numeric parameter 'alhpa'"):
        compare(models, "friedman1", n_seeds=2, parameter="alhpa", **SMALL)
