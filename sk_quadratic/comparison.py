"""The paired-seed comparison of regressors: tune, fit, score, test, report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from pickle import PicklingError
from typing import Any

from sk_quadratic import _inputs
from sk_quadratic._checkpoint import open_checkpoint, package_versions
from sk_quadratic._notes import comparison_notes
from sk_quadratic._protocol import Candidate, Progress, run_protocol
from sk_quadratic._results import (
    ComparisonResult,
    ModelResult,
    PairResult,
    model_result,
    pair_results,
)
from sk_quadratic._splits import Plan, PlanOptions, make_plan
from sk_quadratic.datasets import Dataset

__all__ = [
    "DEFAULT_LEARNING_RATES",
    "ComparisonResult",
    "ModelResult",
    "PairResult",
    "compare",
]

DEFAULT_LEARNING_RATES = (1e-3, 2e-3, 4e-3, 8e-3, 1.6e-2, 3.2e-2, 6.4e-2)
"""Learning rates that every model is tried with, if no others are given."""


def compare(
    models: Mapping[str, Any] | Sequence[Any] | None,
    data: Any,
    *,
    n_seeds: int = 8,
    tuning_seeds: int = 4,
    learning_rates: Sequence[float] = DEFAULT_LEARNING_RATES,
    parameter: str | Mapping[str, str | None] = "learning_rate",
    baseline: str | None = None,
    n_train: int | None = None,
    n_test: int | None = None,
    test_fraction: float = 0.2,
    validation_fraction: float = 0.2,
    random_state: int = 0,
    n_jobs: int = 1,
    checkpoint: str | Path | None = None,
    progress: Progress | None = None,
) -> ComparisonResult:
    """Compare regressors on paired seeds, each with its learning rate tuned.

    Each seed gives all models the same training and test rows and the same
    `random_state`. Before, the learning rate of each model is chosen from one shared
    grid, on validation rows of other seeds and never on a test row. The paired test
    mean squared errors then go through an exact permutation test.

    Parameters
    ----------
    models : dict, sequence or None
        Scikit-learn regressors by name, or two or more of them, named by their
        classes. None compares the default models: the branch MLP, the branch sum in
        the trunk of the quadratic form, the quadratic form, and the full structure, at
        about equal numbers of parameters.
    data : Dataset, str, Path or tuple
        A data set of :func:`load_dataset`, the name of one, or a pair ``(X, y)``.
    n_seeds : int, default=8
        Number of paired seeds. Below 6 no difference can reach p = 0.05.
    tuning_seeds : int, default=4
        Number of seeds to tune on.
    learning_rates : sequence of float, default=DEFAULT_LEARNING_RATES
        The grid for all models; by default seven values from 0.001 to 0.064.
    parameter : str or dict, default="learning_rate"
        Name of the parameter to tune, also found inside a pipeline. For
        ``"learning_rate"`` a parameter named `learning_rate_init` or `eta0` is taken
        where `learning_rate` is missing or a word. A dict gives the full name for each
        model. A model without it, or with None, is fitted as it is, and reported so.
    baseline : str, default=None
        Name of the model to hold the others against; None is the first.
    n_train, n_test : int, default=None
        Rows of the training part, validation rows included, and of the test part of
        one seed. None is 800 and 400 for generated data, and for a finite table the
        share `test_fraction` and all the rest.
    test_fraction : float, default=0.2
        Share of a finite table in the test part of one seed, from 0.01 to 0.45.
    validation_fraction : float, default=0.2
        Share of the training rows that validate in tuning, from 0.01 to 0.9.
    random_state : int, default=0
        Seed of all seeds.
    n_jobs : int, default=1
        Number of processes, each on one thread; -1 takes all cores. The scores do not
        depend on it.
    checkpoint : str or Path, default=None
        File to keep finished fits in until all are done; a call with the same arguments
        goes on from there. ``"auto"`` chooses a file in the user's cache folder.
    progress : callable, default=None
        Called as ``progress(n_done, n_all, last_fit)`` after every fit.

    Returns
    -------
    ComparisonResult
        Scores, costs, tests; ``print`` it for the report.

    Raises
    ------
    ValueError
        If an argument has a wrong value, there are too few rows, or a model diverged at
        every learning rate or in a final fit.
    TypeError
        If an argument has a wrong type or a model is no regressor.

    See Also
    --------
    load_dataset : Data sets by name, and tables from files.
    paired_permutation_test : The test.

    Notes
    -----
    *Generated data.* Every seed draws new rows, so that the pairs are independent. In
    tuning the last rows of a training part, drawn from seeds of their own, validate.

    *Finite tables.* A random pool of twice a test part is set aside. The test part of a
    seed is a random half of it, and the seed trains on all other rows (or on `n_train`
    of them); tuning sees only the rows outside of the pool. Seeds share rows, so the
    permutation test speaks of this table; the report adds the corrected resampled
    t-test, which allows for shared training rows.

    A learning rate at which a fit of the tuning diverges is out. Several comparisons
    get Holm's correction. After an exception or Ctrl-C the checkpoint stays.

    Examples
    --------
    >>> from sklearn.linear_model import Lasso, Ridge
    >>> from sk_quadratic import compare
    >>> result = compare([Ridge(), Lasso(0.1)], "diabetes", parameter="alpha",
    ...                  learning_rates=(0.01, 0.1, 1.0))
    >>> [model.value for model in result.models]
    [0.1, 0.1]
    """
    options = PlanOptions(
        n_seeds=n_seeds,
        tuning_seeds=tuning_seeds,
        n_train=n_train,
        n_test=n_test,
        test_fraction=test_fraction,
        validation_fraction=validation_fraction,
        random_state=random_state,
    )
    _inputs.check_options(options)
    _inputs.check_n_jobs(n_jobs)
    grid = _inputs.as_grid(learning_rates)
    dataset = _inputs.as_dataset(data)
    estimators = _inputs.as_estimators(models, dataset.n_features)
    candidates = _inputs.as_candidates(estimators, parameter)
    baseline = _inputs.as_baseline(baseline, estimators)
    plan = make_plan(dataset, options)
    versions = package_versions()
    # Hashing needs models and data that can be pickled; without a checkpoint and in
    # one process they need not be.
    identity: dict[str, Any] = {}
    if checkpoint is not None:
        identity = _identity(candidates, dataset, options, grid, versions)
    kept = open_checkpoint(checkpoint, identity)
    records = run_protocol(
        candidates,
        dataset,
        plan,
        grid,
        n_jobs=n_jobs,
        checkpoint=kept,
        progress=progress,
    )
    results = tuple(map(model_result, candidates, records))
    split = plan.final[0]
    sizes = None if dataset.n_rows is None else (split.n_train, split.n_eval)
    pairs = pair_results(results, baseline, sizes, random_state)
    kept.delete()
    return ComparisonResult(
        data=_data_summary(dataset, plan),
        models=results,
        pairs=pairs,
        notes=tuple(comparison_notes(dataset, candidates, records, pairs)),
        seeds=tuple(split.seed for split in plan.final),
        tuning_seeds=tuple(split.seed for split in plan.tuning),
        arguments={
            **asdict(options),
            "learning_rates": list(grid),
            "parameter": parameter if isinstance(parameter, str) else dict(parameter),
            "baseline": baseline,
            "n_jobs": n_jobs,
        },
        versions=versions,
    )


def _data_summary(dataset: Dataset, plan: Plan) -> dict[str, Any]:
    tuning, final = plan.tuning[0], plan.final[0]
    return {
        "name": dataset.name,
        "n_rows": dataset.n_rows,
        "n_features": dataset.n_features,
        "feature_names": list(dataset.feature_names),
        "n_train": final.n_train,
        "n_test": final.n_eval,
        "n_tuning_train": tuning.n_train,
        "n_validation": tuning.n_eval,
    }


def _identity(
    candidates: list[Candidate],
    dataset: Dataset,
    options: PlanOptions,
    grid: tuple[float, ...],
    versions: dict[str, str],
) -> dict[str, Any]:
    """What the scores depend on; the number of processes is not among it."""
    table = (dataset.name, dataset.X, dataset.y, dataset.generator)
    return {
        "models": [
            [c.name, _hash(f"The model {c.name!r}", c.estimator), c.parameter]
            for c in candidates
        ],
        "data": _hash("The data set", table),
        "options": asdict(options),
        "grid": list(grid),
        "versions": versions,
    }


def _hash(what: str, value: Any) -> str:
    import joblib

    try:
        return joblib.hash(value)
    except PicklingError as error:
        raise TypeError(
            f"{what} must be picklable for a checkpoint. Define its class or function "
            "at the top of a module, or leave checkpoint out."
        ) from error
