"""What a comparison reports: tables, verdicts, notes, costs and files."""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from _regressors import Descent
from sklearn.compose import TransformedTargetRegressor
from sklearn.ensemble import HistGradientBoostingRegressor, VotingRegressor
from sklearn.linear_model import LinearRegression, Ridge, SGDRegressor
from sklearn.model_selection import GridSearchCV
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sk_quadratic._fits import find_parameter, fitted_costs
from sk_quadratic._report import verdict
from sk_quadratic._results import PairResult, pair_results
from sk_quadratic.comparison import ComparisonResult, ModelResult, compare
from sk_quadratic.costs import module_costs
from sk_quadratic.estimators import QuadraticGramRegressor
from sk_quadratic.stats import corrected_resampled_ttest, paired_permutation_test

SMALL: dict[str, Any] = {
    "learning_rates": (0.01, 0.05, 0.2),
    "n_train": 60,
    "n_test": 30,
}


@pytest.fixture(scope="module")
def result() -> ComparisonResult:
    """Return a comparison of two descents and a line on generated rows."""
    models = {
        "short": Descent(n_steps=5),
        "long": Descent(n_steps=40),
        "line": LinearRegression(),
    }
    return compare(models, "friedman1", **SMALL)


@pytest.fixture(scope="module")
def on_table() -> ComparisonResult:
    """Return a comparison on a finite table."""
    models = {"short": Descent(n_steps=5), "long": Descent(n_steps=40)}
    return compare(models, "diabetes", learning_rates=(0.01, 0.05, 0.2))


def model(name: str, scores: np.ndarray) -> ModelResult:
    return ModelResult(
        name, "Model()", tuple(scores), None, None, {}, None, None, None, (1.0,), (1.0,)
    )


def only_pair(a: np.ndarray, b: np.ndarray) -> PairResult:
    (pair,) = pair_results((model("B", b), model("A", a)), "B", None, 0)
    return pair


BASE = np.array([2.0, 2.2, 1.9, 2.1, 2.05, 1.95, 2.15, 1.85])
WIGGLE = np.array([0.01, -0.02, 0.03, 0.0, -0.01, 0.02, -0.03, 0.01])


def test_verdict_names_the_better_model() -> None:
    sentence = verdict(only_pair(BASE - 0.32 + WIGGLE, BASE), 1)
    assert sentence == (
        "A is better than B: 16 % lower mean test MSE, 8 of 8 pairs, p = 0.0078."
    )


def test_verdict_names_the_worse_model() -> None:
    sentence = verdict(only_pair(BASE + 0.32 + WIGGLE, BASE), 1)
    assert sentence == (
        "A is worse than B: 16 % higher mean test MSE, 8 of 8 pairs lost, p = 0.0078."
    )


def test_verdict_without_a_difference_tells_what_would_have_been_found() -> None:
    noise = np.array([1.0, -1.0, 0.5, -0.5, 0.7, -0.8, 0.2, -0.2]) / 10
    pair = only_pair(BASE + noise, BASE)
    effect = pair.test.minimum_detectable_effect
    sentence = verdict(pair, 1)
    assert sentence.startswith("A against B: no difference shown (p = ")
    assert f"a difference of {effect:.2g} (" in sentence
    assert f"({100 * effect / BASE.mean():.2g} %)" in sentence
    assert sentence.endswith("would have been found with probability 0.8.")
    assert verdict(pair, 2).endswith("with probability 0.8 by this test alone.")


def test_verdict_of_too_few_pairs_tells_that_they_cannot_show_any() -> None:
    sentence = verdict(only_pair(BASE[:5] - 1.0, BASE[:5]), 1)
    assert sentence == (
        "A against B: no difference shown (p = 0.062); 5 pairs cannot show any, as "
        "their smallest p is 0.0625."
    )


def test_verdict_goes_by_the_corrected_p_value() -> None:
    a = BASE[:6] - 0.3
    models = tuple(model(n, s) for n, s in (("B", BASE[:6]), ("A", a), ("C", a)))
    first, _ = pair_results(models, "B", None, 0)
    assert first.test.pvalue == pytest.approx(2 / 2**6)
    assert verdict(first, 2) == (
        "A against B: no difference shown (p = 0.031, 0.062 after Holm's correction)."
    )


def test_verdict_on_a_table_tells_if_the_corrected_test_disagrees() -> None:
    a = BASE - 0.05 + np.abs(WIGGLE)
    (pair,) = pair_results((model("B", BASE), model("A", a)), "B", (20, 80), 0)
    assert pair.corrected_ttest is not None
    expected = corrected_resampled_ttest(a, BASE, n_train=20, n_test=80)
    assert pair.corrected_ttest.pvalue == expected.pvalue
    assert pair.test.pvalue < 0.05 < expected.pvalue
    sentence = verdict(pair, 1)
    assert sentence.startswith("A is better than B")
    assert f"does not confirm it (p = {expected.pvalue:.2g})" in sentence


def test_verdict_of_equal_models() -> None:
    assert "no difference shown (p = 1)" in verdict(only_pair(BASE, BASE), 1)


def test_verdict_without_a_mean_to_relate_to() -> None:
    zero = np.zeros(8)
    assert "1 higher mean test MSE" in verdict(only_pair(zero + 1.0, zero), 1)


def test_many_pairs_are_tested_repeatably() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 20))
    first, second = only_pair(a, b), only_pair(a, b)
    assert not first.test.exact
    assert first.test.pvalue == second.test.pvalue


def test_text_report_holds_every_number(result: ComparisonResult) -> None:
    text = str(result)
    assert text.startswith(
        "friedman1: 10 features, 60 training and 30 test rows, 8 pai"
    )
    assert "best of 0.01, 0.05, 0.2 on 12 validation rows of 4 other seeds" in text
    for m in result.models:
        (row,) = [x for x in text.splitlines() if x.startswith(m.name) and m.name in x][
            :1
        ]
        assert f"{m.mean_score:.4g}" in row
    for p in result.pairs:
        assert f"{p.test.pvalue:.2g}" in text
        assert f"{p.test.wins}/{p.test.ties}/{p.test.losses}" in text
    assert "Holm p" in text
    for sentence in (*result.verdicts, *result.notes):
        assert f"- {sentence}" in text
    assert "corrected" not in text


def test_text_table_is_aligned(result: ComparisonResult) -> None:
    lines = str(result).splitlines()
    header = lines.index(next(line for line in lines if line.startswith("model")))
    assert len({len(line) for line in lines[header : header + 4]}) == 1


def test_report_on_a_table_warns_of_shared_rows(on_table: ComparisonResult) -> None:
    assert "The seeds share rows of one table" in on_table.notes[-1]
    assert "corrected t p" in str(on_table)
    assert on_table.pairs[0].corrected_ttest is not None


def test_untuned_models_are_reported_so(result: ComparisonResult) -> None:
    line = result.models[2]
    assert (line.parameter, line.value, line.tuning_scores) == (None, None, {})
    assert "line: fitted as it is, without tuning." in result.notes


def test_a_rate_at_the_edge_is_reported(result: ComparisonResult) -> None:
    assert result.models[0].value == 0.2
    note = (
        "short: the chosen learning_rate 0.2 is at the edge of the grid; a higher one "
        "may be better."
    )
    assert note in result.notes


def test_a_single_rate_is_reported() -> None:
    options = {**SMALL, "learning_rates": [0.1]}
    single = compare([Descent(), LinearRegression()], "friedman1", n_seeds=1, **options)
    assert "Descent: learning_rate had one value to choose from." in single.notes


def test_comparison_without_tuning_says_so() -> None:
    plain = compare([LinearRegression(), Ridge()], "friedman1", n_seeds=6)
    assert "No parameter was tuned." in str(plain)
    assert not any("edge" in note for note in plain.notes)


@pytest.mark.parametrize(
    ("n_models", "n_seeds", "note"),
    [
        (
            2,
            5,
            "5 pairs cannot reach p = 0.05: their smallest p is 0.0625. Use at least",
        ),
        (3, 6, "correction for 2 comparisons 6 pairs cannot reach p = 0.05: their "),
        (2, 6, None),
    ],
)
def test_too_few_seeds_are_reported(
    n_models: int, n_seeds: int, note: str | None
) -> None:
    models = [Ridge(alpha) for alpha in (1.0, 2.0, 3.0)[:n_models]]
    few = compare(models, "friedman1", n_seeds=n_seeds)
    assert any(note in n for n in few.notes) if note else "cannot" not in str(few)


def test_notes_of_the_data_set_come_along(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    rows = [f"{a:.3f},x,{b:.3f}" for a, b in rng.normal(size=(90, 2))]
    path = tmp_path / "t.csv"
    path.write_text("\n".join(["a,b,y", *rows]))
    from sk_quadratic.datasets import load_dataset

    models = [LinearRegression(), Ridge()]
    few = compare(models, load_dataset(path, target="y"), n_seeds=2)
    assert few.notes[0] == "1 column of t.csv left out as not numeric: 'b'."


def test_markdown_report_has_two_tables(
    result: ComparisonResult, tmp_path: Path
) -> None:
    text = result.to_markdown(tmp_path / "report.md")
    assert (tmp_path / "report.md").read_text() == text
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert len([row for row in rows if row.startswith("| ---")]) == 2
    assert len(rows) == 2 + 3 + 2 + 2
    assert "Versions: python " in text
    for sentence in (*result.verdicts, *result.notes):
        assert f"- {sentence}" in text


def test_json_holds_scores_tuning_arguments_and_versions(
    result: ComparisonResult, tmp_path: Path
) -> None:
    text = result.to_json(tmp_path / "report.json")
    assert (tmp_path / "report.json").read_text() == text
    content = json.loads(text)
    assert content == result.to_dict()
    first = content["models"][0]
    assert first["scores"] == list(result.models[0].scores)
    assert first["mean_score"] == result.models[0].mean_score
    assert list(first["tuning_scores"]) == ["0.01", "0.05", "0.2"]
    assert all(len(scores) == 4 for scores in first["tuning_scores"].values())
    assert content["pairs"][0]["test"]["pvalue"] == result.pairs[0].test.pvalue
    assert len(content["pairs"][0]["test"]["confidence_interval"]) == 2
    assert content["seeds"] == list(result.seeds)
    assert content["verdicts"] == list(result.verdicts)
    assert content["arguments"]["n_train"] == 60
    assert content["arguments"]["learning_rates"] == [0.01, 0.05, 0.2]
    assert content["data"]["name"] == "friedman1"
    assert set(content["versions"]) == {
        "python",
        "numpy",
        "scipy",
        "scikit-learn",
        "torch",
        "sk-quadratic",
    }


def test_json_has_null_for_what_is_not_finite() -> None:
    one = compare([LinearRegression(), Ridge()], "friedman1", n_seeds=1)
    content = json.loads(one.to_json())
    assert content["models"][0]["std_score"] is None
    assert content["pairs"][0]["test"]["minimum_detectable_effect"] is None
    assert " -  " in str(one)


def test_plot_joins_the_scores_of_a_seed(result: ComparisonResult) -> None:
    plt = pytest.importorskip("matplotlib.pyplot")
    ax = result.plot()
    lines = [line.get_ydata() for line in ax.lines]
    scores = np.array([m.scores for m in result.models])
    np.testing.assert_array_equal(lines[:8], scores.T)
    np.testing.assert_allclose(lines[8], scores.mean(axis=1))
    assert [t.get_text() for t in ax.get_xticklabels()] == ["short", "long", "line"]
    figure, own = plt.subplots()
    assert result.plot(own) is own
    plt.close(ax.figure)
    plt.close(figure)


def test_plot_without_matplotlib_names_the_extra(
    result: ComparisonResult, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match=r'pip install "sk-quadratic\[compare\]"'):
        result.plot()


# The tuned parameter and the costs


@pytest.mark.parametrize(
    ("estimator", "name", "found"),
    [
        (Descent(), "learning_rate", "learning_rate"),
        (MLPRegressor(), "learning_rate", "learning_rate_init"),
        (SGDRegressor(), "learning_rate", "eta0"),
        (HistGradientBoostingRegressor(), "learning_rate", "learning_rate"),
        (Ridge(), "learning_rate", None),
        (Ridge(), "alpha", "alpha"),
        (
            make_pipeline(StandardScaler(), MLPRegressor()),
            "learning_rate",
            "mlpregressor__learning_rate_init",
        ),
        (
            TransformedTargetRegressor(regressor=Descent()),
            "learning_rate",
            "regressor__learning_rate",
        ),
    ],
)
def test_learning_rate_is_found(estimator: Any, name: str, found: str | None) -> None:
    assert find_parameter(estimator, name) == found


def test_ambiguous_parameter_is_refused_and_can_be_named() -> None:
    vote = VotingRegressor([("a", Descent()), ("b", Descent())])
    with pytest.raises(
        ValueError, match="model has a__learning_rate, b__learning_rate"
    ):
        compare({"vote": vote, "d": Descent()}, "friedman1", **SMALL)
    named = {"vote": "b__learning_rate", "d": "learning_rate"}
    models = {"vote": vote, "d": Descent()}
    result = compare(models, "friedman1", n_seeds=1, parameter=named, **SMALL)
    assert result.models[0].parameter == "b__learning_rate"
    assert result.arguments["parameter"] == named


def test_seeds_and_rates_reach_into_pipelines() -> None:
    inside = make_pipeline(StandardScaler(), Descent(n_steps=5))
    models = {"inside": inside, "plain": Descent(n_steps=5)}
    result = compare(models, "friedman1", n_seeds=2, **SMALL)
    assert result.models[0].scores == pytest.approx(result.models[1].scores)


def test_parameters_of_scikit_learn_models_are_counted(
    small_table: tuple[np.ndarray, np.ndarray],
) -> None:
    X, y = small_table
    network = MLPRegressor(hidden_layer_sizes=(5,), max_iter=99, tol=1e9).fit(X, y)
    assert fitted_costs(network) == {"n_parameters": 4 * 5 + 5 + 5 + 1}
    assert fitted_costs(make_pipeline(StandardScaler(), Ridge()).fit(X, y)) == {
        "n_parameters": 5
    }
    search = GridSearchCV(Ridge(), {"alpha": [1.0, 2.0]}, cv=2).fit(X, y)
    assert fitted_costs(search) == {"n_parameters": 5}
    target = TransformedTargetRegressor(regressor=Ridge()).fit(X, y)
    assert fitted_costs(target) == {"n_parameters": 5}
    boosting = HistGradientBoostingRegressor(max_iter=2).fit(X, y)
    assert fitted_costs(boosting) == {}


def test_costs_of_torch_models_come_from_their_modules() -> None:
    form = QuadraticGramRegressor(max_epochs=1, width=5, n_heads=2)
    models = {"form": form, "line": LinearRegression()}
    result = compare(models, "friedman1", n_seeds=1, tuning_seeds=1, **SMALL)
    X, y = np.random.default_rng(0).normal(size=(2, 60, 10))
    module = form.set_params(random_state=0).fit(X, y[:, 0]).module_
    costs = module_costs(module, 10)
    row = result.models[0]
    assert row.n_parameters == costs.n_parameters
    assert row.flops_per_row == costs.flops_per_row
    assert row.saved_bytes_per_row == costs.saved_bytes_per_row
    assert str(costs.flops_per_row) in str(result)


def test_times_are_those_of_every_seed(result: ComparisonResult) -> None:
    for m in result.models:
        assert len(m.fit_seconds) == len(m.predict_seconds) == 8
        assert min(*m.fit_seconds, *m.predict_seconds) > 0.0


def test_pair_test_is_the_paired_permutation_test(result: ComparisonResult) -> None:
    expected = paired_permutation_test(result.models[1].scores, result.models[0].scores)
    assert result.pairs[0].test == expected
