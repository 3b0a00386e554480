"""The result of a comparison: per model, per pair, and as a whole."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sk_quadratic import _report
from sk_quadratic._fits import FitRecord
from sk_quadratic._protocol import Candidate, ModelRecords
from sk_quadratic.stats import (
    CorrectedResampledTTestResult,
    PairedPermutationResult,
    corrected_resampled_ttest,
    holm_correction,
    paired_permutation_test,
)

# The shape of the block alone: both in one trunk.
_SAME_TRUNK = ("quadratic form", "branch sum in trunk")


@dataclass(frozen=True)
class ModelResult:
    """What one model reached, and what it took.

    Attributes
    ----------
    name : str
        Name of the model.
    estimator : str
        The estimator and its parameters, as text.
    scores : tuple of float
        Test mean squared error of each seed.
    parameter : str or None
        Name of the tuned parameter, or None if nothing was tuned.
    value : float or None
        Value of it that was chosen on validation rows.
    tuning_scores : dict
        For each value tried the validation mean squared errors, one per tuning seed;
        None stands for a fit that diverged.
    n_parameters : int or None
        Number of fitted parameters, or None where it is not known.
    flops_per_row : int or None
        Floating-point operations of a forward pass per row, for torch modules.
    saved_bytes_per_row : int or None
        Bytes that autograd keeps for the backward pass per row, for torch modules.
    fit_seconds, predict_seconds : tuple of float
        Seconds that each seed's fit, and its prediction of the test part, took on one
        thread.
    """

    name: str
    estimator: str
    scores: tuple[float, ...]
    parameter: str | None
    value: float | None
    tuning_scores: dict[float, tuple[float | None, ...]]
    n_parameters: int | None
    flops_per_row: int | None
    saved_bytes_per_row: int | None
    fit_seconds: tuple[float, ...]
    predict_seconds: tuple[float, ...]

    @property
    def mean_score(self) -> float:
        """Mean of the test mean squared errors."""
        return float(np.mean(self.scores))

    @property
    def std_score(self) -> float:
        """Standard deviation of the test mean squared errors, NaN for one seed."""
        return float(np.std(self.scores, ddof=1)) if len(self.scores) > 1 else np.nan


@dataclass(frozen=True)
class PairResult:
    """The paired test of one model against another.

    Attributes
    ----------
    model : str
        Name of the model in question.
    baseline : str
        Name of the model it is held against.
    test : PairedPermutationResult
        Test of the scores of `model` against those of `baseline`: a negative statistic
        means a lower error of `model`.
    adjusted_pvalue : float
        The p-value after Holm's correction for all comparisons of the report.
    corrected_ttest : CorrectedResampledTTestResult or None
        For a finite table the test that allows for seeds that share training rows.
    """

    model: str
    baseline: str
    test: PairedPermutationResult
    adjusted_pvalue: float
    corrected_ttest: CorrectedResampledTTestResult | None


@dataclass(frozen=True)
class ComparisonResult:
    """A finished comparison: scores, costs, tests and a verdict in words.

    Attributes
    ----------
    data : dict
        Name and sizes of the data set.
    models : tuple of ModelResult
        The models in the order in which they were given.
    pairs : tuple of PairResult
        Every other model against the baseline; with the default models also the two
        blocks in the same trunk against each other.
    notes : tuple of str
        What a reader of the numbers has to know.
    seeds, tuning_seeds : tuple of int
        The seeds of the test and of the tuning.
    arguments : dict
        The arguments of :func:`compare`.
    versions : dict
        Versions of Python and of the packages that the numbers depend on.

    See Also
    --------
    compare : Makes it.
    """

    data: dict[str, Any]
    models: tuple[ModelResult, ...]
    pairs: tuple[PairResult, ...]
    notes: tuple[str, ...]
    seeds: tuple[int, ...]
    tuning_seeds: tuple[int, ...]
    arguments: dict[str, Any]
    versions: dict[str, str]

    @property
    def verdicts(self) -> tuple[str, ...]:
        """One plain sentence for each pair."""
        return tuple(_report.verdict(pair, len(self.pairs)) for pair in self.pairs)

    def to_dict(self) -> dict[str, Any]:
        """Give all numbers as dicts, lists, strings and numbers.

        Returns
        -------
        dict
            Every field, with per-seed scores. A number that is not finite is None, as
            JSON has no such numbers.
        """
        content = _as_plain(asdict(self))
        for pair in content["pairs"]:
            # The scores give it back, and it can have thousands of values.
            del pair["test"]["null_distribution"]
        for model, plain in zip(self.models, content["models"], strict=True):
            plain["mean_score"] = model.mean_score
            plain["std_score"] = _as_plain(model.std_score)
        return {**content, "verdicts": list(self.verdicts)}

    def to_json(self, path: str | Path | None = None) -> str:
        """Write :meth:`to_dict` as JSON.

        Parameters
        ----------
        path : str or Path, default=None
            File to write as well.

        Returns
        -------
        str
            The JSON text.
        """
        text = json.dumps(self.to_dict(), indent=2, allow_nan=False) + "\n"
        if path is not None:
            Path(path).write_text(text, encoding="utf-8")
        return text

    def to_markdown(self, path: str | Path | None = None) -> str:
        """Write the report with Markdown tables.

        Parameters
        ----------
        path : str or Path, default=None
            File to write as well.

        Returns
        -------
        str
            The Markdown text.
        """
        text = _report.as_markdown(self)
        if path is not None:
            Path(path).write_text(text, encoding="utf-8")
        return text

    def plot(self, ax: Any = None) -> Any:
        """Plot the scores of all models, a line joining those of one seed.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, default=None
            Axes to draw in; None makes a figure.

        Returns
        -------
        matplotlib.axes.Axes
            The axes.
        """
        return _report.plot(self, ax)

    def __str__(self) -> str:
        return _report.as_text(self)


def model_result(candidate: Candidate, records: ModelRecords) -> ModelResult:
    """Gather the fits of one model."""
    costs = records.final[0].costs or {}
    return ModelResult(
        name=candidate.name,
        estimator=" ".join(repr(candidate.estimator).split()),
        scores=tuple(_score(fit) for fit in records.final),
        parameter=candidate.parameter,
        value=records.chosen,
        tuning_scores={
            value: tuple(fit.score for fit in fits)
            for value, fits in records.tuning.items()
        },
        n_parameters=costs.get("n_parameters"),
        flops_per_row=costs.get("flops_per_row"),
        saved_bytes_per_row=costs.get("saved_bytes_per_row"),
        fit_seconds=tuple(fit.fit_seconds for fit in records.final),
        predict_seconds=tuple(fit.predict_seconds for fit in records.final),
    )


def pair_results(
    models: tuple[ModelResult, ...],
    baseline: str,
    table_sizes: tuple[int, int] | None,
    random_state: int,
) -> tuple[PairResult, ...]:
    """Test every model against the baseline, and the two blocks in one trunk.

    `table_sizes` are the training and test rows of a seed of a finite table, whose
    seeds share rows; None stands for generated data.
    """
    scores = {model.name: np.array(model.scores) for model in models}
    names = [(name, baseline) for name in scores if name != baseline]
    if set(_SAME_TRUNK) <= set(scores) and baseline not in _SAME_TRUNK:
        names.append(_SAME_TRUNK)
    tests = [
        paired_permutation_test(scores[a], scores[b], random_state=random_state)
        for a, b in names
    ]
    adjusted = holm_correction([test.pvalue for test in tests])
    pairs = []
    for (a, b), test, pvalue in zip(names, tests, adjusted, strict=True):
        corrected = None
        if table_sizes is not None and test.n_pairs > 1:
            n_train, n_test = table_sizes
            corrected = corrected_resampled_ttest(
                scores[a], scores[b], n_train=n_train, n_test=n_test
            )
        pairs.append(PairResult(a, b, test, float(pvalue), corrected))
    return tuple(pairs)


def _score(fit: FitRecord) -> float:
    if fit.score is None:
        raise RuntimeError(f"A final fit has no score: {fit.reason}")
    return fit.score


def _as_plain(value: Any) -> Any:
    """Arrays and tuples as lists, keys as strings, and what is not finite as None."""
    if isinstance(value, dict):
        return {str(key): _as_plain(item) for key, item in value.items()}
    if hasattr(value, "_asdict"):
        return _as_plain(value._asdict())
    if isinstance(value, list | tuple | np.ndarray):
        return [_as_plain(item) for item in value]
    if isinstance(value, float | np.floating):
        return float(value) if np.isfinite(value) else None
    return value
