"""One fit of one model: fit, predict, score, time, and tell a diverged one."""

from __future__ import annotations

import re
import sys
import time
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from sklearn.base import clone
from threadpoolctl import ThreadpoolController

from sk_quadratic._interrupts import unswallowed_interrupts
from sk_quadratic._splits import Split
from sk_quadratic.datasets import Dataset

RATE_NAMES = ("learning_rate", "learning_rate_init", "eta0")
"""Names under which scikit-learn's regressors take a numeric learning rate."""

_DIVERGED = re.compile(r"diverg|non-finite|overflow|learning_rate", re.IGNORECASE)


@dataclass(frozen=True)
class FitJob:
    """One fit to be done, with all that a worker process needs to know."""

    key: str
    label: str
    model: Any
    parameter: str | None
    value: float | None
    split: Split
    with_costs: bool = False


@dataclass(frozen=True)
class FitRecord:
    """What one fit gave; `score` is None if it diverged, and `reason` says how."""

    score: float | None
    reason: str | None
    fit_seconds: float
    predict_seconds: float
    costs: dict[str, int] | None = None


def find_parameter(model: Any, name: str) -> str | None:
    """Name of the numeric parameter to tune, also inside a pipeline, or None.

    A parameter whose value is a word is not meant: `learning_rate` of
    :class:`~sklearn.neural_network.MLPRegressor` is its schedule, and the rate is its
    `learning_rate_init`.
    """
    params = model.get_params(deep=True)
    names = RATE_NAMES if name == "learning_rate" else (name,)
    for wanted in names:
        found = [
            key
            for key, value in params.items()
            if key.split("__")[-1] == wanted and not isinstance(value, str)
        ]
        if not found:
            continue
        depth = min(key.count("__") for key in found)
        nearest = [key for key in found if key.count("__") == depth]
        if len(nearest) > 1:
            raise ValueError(
                f"parameter={name!r} is ambiguous: the model has "
                f"{', '.join(sorted(nearest))}. Give parameter as a dict from the "
                "model's name to one of them."
            )
        return nearest[0]
    return None


def run_fit(job: FitJob, dataset: Dataset) -> tuple[str, FitRecord]:
    """Fit a clone of the model on one thread, and score it by its squared error."""
    try:
        # One thread, for times that compare and results that do not depend on n_jobs.
        with _controller(len(sys.modules)).limit(limits=1), unswallowed_interrupts():
            return job.key, _fit_and_score(job, dataset)
    except Exception as error:
        error.add_note(f"While fitting {job.label}.")
        raise


def _fit_and_score(job: FitJob, dataset: Dataset) -> FitRecord:
    X_train, y_train, X_eval, y_eval = job.split.materialize(dataset)
    model = _configured(job)
    fitted = started = time.perf_counter()
    try:
        model.fit(X_train, y_train)
        fitted = time.perf_counter()
        predictions = np.asarray(model.predict(X_eval), dtype=np.float64)
    except ValueError as error:
        message = str(error)
        if "must be" in message or not _DIVERGED.search(message):
            raise  # a wrong argument is no divergence, even one that names the rate
        reason = message.splitlines()[0]
        return FitRecord(None, reason, time.perf_counter() - started, 0.0)
    ended = time.perf_counter()
    if predictions.size != y_eval.size:
        raise ValueError(
            f"Predictions must have shape {y_eval.shape}; got {predictions.shape}."
        )
    with np.errstate(over="ignore", invalid="ignore"):
        score = float(np.mean((predictions.reshape(y_eval.shape) - y_eval) ** 2))
    seconds = (fitted - started, ended - fitted)
    if not np.isfinite(score):
        reason = f"The mean squared error of the predictions is {score}."
        return FitRecord(None, reason, *seconds)
    costs = fitted_costs(model) if job.with_costs else None
    return FitRecord(score, None, *seconds, costs)


def _configured(job: FitJob) -> Any:
    """Clone of the model with its seed, at every depth, and the rate to try."""
    model = clone(job.model)
    seeds = {
        key: job.split.seed
        for key in model.get_params(deep=True)
        if key.split("__")[-1] == "random_state"
    }
    model.set_params(**seeds)
    if job.parameter is not None and job.value is not None:
        model.set_params(**{job.parameter: job.value})
    return model


@lru_cache(maxsize=1)
def _controller(n_modules: int) -> ThreadpoolController:
    """Controller of the thread pools, made anew when imports may have added one."""
    return ThreadpoolController()


def fitted_costs(model: Any) -> dict[str, int]:
    """Costs of a fitted model, as far as they can be known.

    Parameters, and for torch modules floating-point operations and bytes saved for the
    backward pass, both per row.
    """
    inner = _innermost(model)
    if hasattr(inner, "module_"):
        from sk_quadratic.costs import module_costs

        costs = module_costs(inner.module_, inner.module_.n_features)
        return {
            "n_parameters": int(costs.n_parameters),
            "flops_per_row": int(costs.flops_per_row),
            "saved_bytes_per_row": int(costs.saved_bytes_per_row),
        }
    weights: list[Any] = []
    if hasattr(inner, "coefs_"):
        weights = [*inner.coefs_, *inner.intercepts_]
    elif hasattr(inner, "coef_"):
        weights = [inner.coef_, getattr(inner, "intercept_", 0.0)]
    return {"n_parameters": int(sum(np.size(w) for w in weights))} if weights else {}


def _innermost(model: Any) -> Any:
    """The fitted regressor inside pipelines, searches and target transformers."""
    while True:
        if hasattr(model, "steps"):
            model = model.steps[-1][1]
        elif hasattr(model, "best_estimator_"):
            model = model.best_estimator_
        elif hasattr(model, "regressor_"):
            model = model.regressor_
        else:
            return model
