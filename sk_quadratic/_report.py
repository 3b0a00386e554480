"""A comparison in words: tables as text or Markdown, verdicts, and a plot."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np

from sk_quadratic._tables import INSTALL_HINT

if TYPE_CHECKING:
    from sk_quadratic._results import ComparisonResult, ModelResult, PairResult

LEVEL = 0.05
"""Largest p-value that is called a difference."""

_MODEL_HEADER = (
    "model",
    "test MSE",
    "sd",
    "rate",
    "parameters",
    "FLOPs/row",
    "saved B/row",
    "fit s",
    "predict s",
)
_PAIR_HEADER = (
    "model",
    "against",
    "difference",
    "relative",
    "95 % interval",
    "wins/ties/losses",
    "p",
    "detectable",
)


def as_text(result: ComparisonResult) -> str:
    """The report for a terminal."""
    parts = [_title(result), _protocol_line(result)]
    parts += ["", *_aligned(_MODEL_HEADER, _model_rows(result))]
    parts += ["", "Paired differences of the test MSE (negative: the model is better)"]
    parts += _aligned(_pair_header(result), _pair_rows(result))
    parts += ["", *_wrapped_verdicts(result)]
    if result.notes:
        parts += ["", "Notes", *(f"- {note}" for note in result.notes)]
    return "\n".join(parts)


def as_markdown(result: ComparisonResult) -> str:
    """The report with Markdown tables."""
    versions = ", ".join(f"{name} {v}" for name, v in result.versions.items())
    parts = [f"# {_title(result)}", "", _protocol_line(result), ""]
    parts += [*_markdown_table(_MODEL_HEADER, _model_rows(result)), ""]
    parts += ["Paired differences of the test MSE (negative: the model is better):", ""]
    parts += [*_markdown_table(_pair_header(result), _pair_rows(result)), ""]
    parts += [f"- {sentence}" for sentence in result.verdicts]
    if result.notes:
        parts += ["", "Notes:", "", *(f"- {note}" for note in result.notes)]
    parts += ["", f"Versions: {versions}.", ""]
    return "\n".join(parts)


def verdict(pair: PairResult, n_comparisons: int) -> str:
    """One plain sentence on one pair."""
    test, a, b = pair.test, pair.model, pair.baseline
    p = f"p = {test.pvalue:.2g}"
    if n_comparisons > 1:
        p += f", {pair.adjusted_pvalue:.2g} after Holm's correction"
    if pair.adjusted_pvalue <= LEVEL:
        sentence = _difference(pair, p)
        corrected = pair.corrected_ttest
        if corrected is not None and corrected.pvalue > LEVEL:
            sentence += (
                f" The corrected t-test, which allows for shared training rows, does "
                f"not confirm it (p = {corrected.pvalue:.2g})."
            )
        return sentence
    none = f"{a} against {b}: no difference shown ({p})"
    if test.min_pvalue > LEVEL:
        return (
            f"{none}; {test.n_pairs} pairs cannot show any, as their smallest p is "
            f"{test.min_pvalue:.3g}."
        )
    if test.pvalue <= LEVEL:
        return f"{none}."
    effect = test.minimum_detectable_effect
    if not math.isfinite(effect):
        return f"{none}; no difference could have been found."
    size = _number(effect, 2) + _share(effect, test)
    # The power is that of one test; the correction lowers it.
    alone = " by this test alone" if n_comparisons > 1 else ""
    return (
        f"{none}; a difference of {size} would have been found with probability "
        f"{test.power:g}{alone}."
    )


def _difference(pair: PairResult, p: str) -> str:
    test = pair.test
    better = test.statistic < 0
    word, side = ("better", "lower") if better else ("worse", "higher")
    count, kind = (test.wins, "") if better else (test.losses, " lost")
    size = _number(abs(test.statistic), 2)
    if math.isfinite(test.relative):
        size = f"{_number(100 * abs(test.relative), 2)} %"
    return (
        f"{pair.model} is {word} than {pair.baseline}: {size} {side} mean test MSE, "
        f"{count} of {test.n_pairs} pairs{kind}, {p}."
    )


def _share(effect: float, test: Any) -> str:
    """The effect as a share of the baseline's mean, which the test holds implicitly."""
    if not math.isfinite(test.relative) or test.statistic == 0 or test.relative == 0:
        return ""
    share = effect * test.relative / test.statistic
    return f" ({_number(100 * share, 2)} %)"


def plot(result: ComparisonResult, ax: Any = None) -> Any:
    """Scores of all models, a line joining those of one seed."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        message = f"plot needs matplotlib. Install it with: {INSTALL_HINT}"
        raise ImportError(message) from error
    if ax is None:
        figure, ax = plt.subplots(figsize=(1.5 + 1.5 * len(result.models), 4.0))
        figure.set_layout_engine("constrained")
    places = range(len(result.models))
    for scores in zip(*(model.scores for model in result.models), strict=True):
        ax.plot(places, scores, color="0.7", marker="o", markersize=3, linewidth=0.8)
    means = [model.mean_score for model in result.models]
    ax.plot(places, means, "_", color="C3", markersize=24, label="mean")
    ax.set_xticks(list(places), [model.name for model in result.models])
    ax.set_ylabel("test mean squared error")
    ax.set_title(f"{result.data['name']}, {len(result.seeds)} paired seeds")
    ax.legend()
    return ax


def _title(result: ComparisonResult) -> str:
    data = result.data
    return (
        f"{data['name']}: {data['n_features']} features, {data['n_train']} training "
        f"and {data['n_test']} test rows, {len(result.seeds)} paired seeds"
    )


def _protocol_line(result: ComparisonResult) -> str:
    data = result.data
    if not any(model.parameter for model in result.models):
        return "No parameter was tuned."
    n_seeds = len(result.tuning_seeds)
    grid = ", ".join(f"{value:g}" for value in result.arguments["learning_rates"])
    return (
        f"Each rate is the best of {grid} on {data['n_validation']} validation rows of "
        f"{n_seeds} other seed{'s' if n_seeds > 1 else ''}."
    )


def _model_rows(result: ComparisonResult) -> list[tuple[str, ...]]:
    return [_model_row(model) for model in result.models]


def _model_row(model: ModelResult) -> tuple[str, ...]:
    def count(value: float | None) -> str:
        return "-" if value is None else f"{value:.0f}"

    return (
        model.name,
        _number(model.mean_score, 4),
        _number(model.std_score, 2),
        "-" if model.value is None else f"{model.value:g}",
        count(model.n_parameters),
        count(model.flops_per_row),
        count(model.saved_bytes_per_row),
        _number(median(model.fit_seconds), 2),
        _number(median(model.predict_seconds), 2),
    )


def _pair_header(result: ComparisonResult) -> tuple[str, ...]:
    header = list(_PAIR_HEADER)
    if len(result.pairs) > 1:
        header.insert(header.index("p") + 1, "Holm p")
    if any(pair.corrected_ttest for pair in result.pairs):
        header.append("corrected t p")
    return tuple(header)


def _pair_rows(result: ComparisonResult) -> list[tuple[str, ...]]:
    header = _pair_header(result)
    rows = []
    for pair in result.pairs:
        test = pair.test
        low, high = test.confidence_interval
        share = "-"
        if math.isfinite(test.relative):
            share = f"{_number(100 * test.relative, 2, sign=True)} %"
        row = [
            pair.model,
            pair.baseline,
            _number(test.statistic, 3, sign=True),
            share,
            f"{_number(low, 3, sign=True)} to {_number(high, 3, sign=True)}",
            f"{test.wins}/{test.ties}/{test.losses}",
            f"{test.pvalue:.2g}",
            _number(test.minimum_detectable_effect, 2),
        ]
        if "Holm p" in header:
            row.insert(header.index("Holm p"), f"{pair.adjusted_pvalue:.2g}")
        if "corrected t p" in header:
            corrected = pair.corrected_ttest
            row.append("-" if corrected is None else f"{corrected.pvalue:.2g}")
        rows.append(tuple(row))
    return rows


def _wrapped_verdicts(result: ComparisonResult) -> list[str]:
    head = "Verdict" if len(result.pairs) == 1 else "Verdicts"
    return [head, *(f"- {sentence}" for sentence in result.verdicts)]


def _number(value: float, digits: int, sign: bool = False) -> str:
    """Significant digits without an exponent, unless the number is extreme."""
    if math.isnan(value):
        return "-"
    if value != 0 and not 1e-5 <= abs(value) < 1e7:
        return f"{value:{'+' if sign else ''}.{digits}g}"
    return np.format_float_positional(
        value, digits, unique=False, fractional=False, trim="-", sign=sign
    )


def _aligned(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Columns of equal width, names to the left and numbers to the right."""
    table = [header, *rows]
    widths = [max(len(row[i]) for row in table) for i in range(len(header))]
    n_left = 2 if "against" in header else 1
    return [
        "  ".join(
            cell.ljust(width) if i < n_left else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in table
    ]


def _markdown_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    n_left = 2 if "against" in header else 1
    rule = ["---" if i < n_left else "---:" for i in range(len(header))]
    cells = [[c.replace("|", "\\|") for c in row] for row in (header, rule, *rows)]
    return [f"| {' | '.join(row)} |" for row in cells]
