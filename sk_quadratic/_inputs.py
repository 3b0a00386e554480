"""Check and convert what a comparison is called with."""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterable, Mapping
from numbers import Integral, Real
from pathlib import Path
from typing import Any

import numpy as np

from sk_quadratic._fits import find_parameter
from sk_quadratic._protocol import Candidate
from sk_quadratic._splits import PlanOptions
from sk_quadratic.datasets import Dataset, load_dataset


def as_dataset(data: Any) -> Dataset:
    """Take a data set, the name of one, or a pair of features and target."""
    if isinstance(data, Dataset):
        return data
    if isinstance(data, str | Path):
        return load_dataset(data)
    if not (isinstance(data, tuple | list) and len(data) == 2):
        raise TypeError(
            "data must be a Dataset, a name, a path or a pair (X, y); got "
            f"{type(data).__name__}."
        )
    X = data[0] if hasattr(data[0], "shape") else np.asarray(data[0])
    y = np.asarray(data[1])
    if len(X.shape) != 2 or y.ndim != 1 or X.shape[0] != len(y):
        raise ValueError(
            "X must have shape (n_samples, n_features) and y shape (n_samples,); got "
            f"{tuple(X.shape)} and {y.shape}."
        )
    if y.dtype.kind not in "biuf":
        raise ValueError(f"y must be numeric; got dtype {y.dtype}.")
    y = y.astype(np.float64)
    if not np.isfinite(y).all():
        n_bad = int((~np.isfinite(y)).sum())
        raise ValueError(f"y must be finite; got {n_bad} NaN or infinite values.")
    names = getattr(X, "columns", range(X.shape[1]))
    return Dataset("the given table", X, y, tuple(map(str, names)))


def select_models(
    names: Iterable[str] | None, n_features: int, max_epochs: int | None
) -> dict[str, Any]:
    """Some of the default models, as the command line asks for them."""
    from sk_quadratic._models import default_models

    models = default_models(n_features)
    if max_epochs is not None:
        for model in models.values():
            model.set_params(max_epochs=max_epochs)
    if names is None:
        return models
    chosen = [known_name(name, models) for name in names]
    return {name: models[name] for name in chosen}


def known_name(name: str, models: Iterable[str]) -> str:
    """The model that is meant: ``-`` and ``_`` are blanks, and case does not matter."""

    def plain(text: str) -> str:
        return text.replace("-", " ").replace("_", " ").lower()

    for known in models:
        if plain(known) == plain(name):
            return known
    raise ValueError(f"A model must be one of {quoted(models)}; got {name!r}.")


def as_estimators(models: Any, n_features: int) -> dict[str, Any]:
    """Take the models by name, name them by their classes, or make the default ones."""
    if models is None:
        from sk_quadratic._models import default_models

        models = default_models(n_features)
    if isinstance(models, Mapping):
        named = dict(models)
    elif isinstance(models, Iterable) and not hasattr(models, "fit"):
        named = _named_by_class(list(models))
    else:
        raise TypeError(
            "models must be a dict from names to regressors or a sequence of them; got "
            f"{type(models).__name__}."
        )
    if len(named) < 2:
        raise ValueError(f"models must hold at least two regressors; got {len(named)}.")
    for name, estimator in named.items():
        _check_estimator(name, estimator)
    return named


def as_candidates(
    estimators: dict[str, Any], parameter: str | Mapping[str, str | None]
) -> list[Candidate]:
    """Find the parameter to tune in each model."""
    if isinstance(parameter, str):
        found = [
            Candidate(n, e, find_parameter(e, parameter)) for n, e in estimators.items()
        ]
        # The default may fit no model, such as two of ridge; a name that was given
        # and fits none is a slip.
        if parameter != "learning_rate" and all(c.parameter is None for c in found):
            raise ValueError(
                f"No model has a numeric parameter {parameter!r} to tune. Give a "
                "parameter of at least one of them."
            )
        return found
    if not isinstance(parameter, Mapping):
        raise TypeError(
            "parameter must be a str, or a dict from a model's name to a str or None; "
            f"got {type(parameter).__name__}."
        )
    unknown = [name for name in parameter if name not in estimators]
    if unknown:
        raise ValueError(
            f"parameter names the model {unknown[0]!r}; the models are "
            f"{quoted(estimators)}."
        )
    for name, wanted in parameter.items():
        known = estimators[name].get_params(deep=True)
        if wanted is not None and wanted not in known:
            raise ValueError(
                f"The model {name!r} has no parameter {wanted!r}; it has "
                f"{quoted(known)}."
            )
    return [Candidate(n, e, parameter.get(n)) for n, e in estimators.items()]


def as_baseline(baseline: str | None, names: Iterable[str]) -> str:
    """Take the name of the baseline, or the first model's."""
    names = list(names)
    if baseline is None:
        return names[0]
    if baseline not in names:
        raise ValueError(f"baseline must be one of {quoted(names)}; got {baseline!r}.")
    return baseline


def as_grid(values: Any) -> tuple[float, ...]:
    """Sort the values to try."""
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise TypeError(
            "learning_rates must be a sequence of numbers; got "
            f"{type(values).__name__}."
        )
    values = list(values)
    for value in values:
        if not isinstance(value, Real) or isinstance(value, bool):
            raise TypeError(f"learning_rates must hold numbers; got {value!r}.")
        if not (math.isfinite(value) and float(value) > 0):
            raise ValueError(f"learning_rates must be finite and above 0; got {value}.")
    if not values:
        raise ValueError("learning_rates must hold at least one value; got none.")
    return tuple(sorted({float(value) for value in values}))


def check_options(options: PlanOptions) -> None:
    """Refuse numbers of seeds and rows, and shares, that make no sense."""
    _check_count("n_seeds", options.n_seeds, 1)
    _check_count("tuning_seeds", options.tuning_seeds, 1)
    for name, size in (("n_train", options.n_train), ("n_test", options.n_test)):
        if size is not None:
            _check_count(name, size, 1)
    _check_fraction("test_fraction", options.test_fraction, 0.01, 0.45)
    _check_fraction("validation_fraction", options.validation_fraction, 0.01, 0.9)
    _check_count("random_state", options.random_state, 0)


def _check_count(name: str, value: Any, low: int) -> None:
    """Refuse what is not an integer of at least `low`."""
    if not isinstance(value, Integral) or isinstance(value, bool):
        raise TypeError(f"{name} must be an int; got {value!r}.")
    if int(value) < low:
        raise ValueError(f"{name} must be at least {low}; got {value}.")


def _check_fraction(name: str, value: Any, low: float, high: float) -> None:
    """Refuse what is not a number from `low` to `high`."""
    if not isinstance(value, Real) or isinstance(value, bool):
        raise TypeError(f"{name} must be a number; got {value!r}.")
    if not low <= float(value) <= high:
        raise ValueError(f"{name} must be from {low} to {high}; got {value}.")


def check_n_jobs(n_jobs: Any) -> None:
    """Refuse what joblib does not take as a number of processes."""
    if not isinstance(n_jobs, Integral) or isinstance(n_jobs, bool):
        raise TypeError(f"n_jobs must be an int; got {n_jobs!r}.")
    if int(n_jobs) < 1 and n_jobs != -1:
        raise ValueError(
            f"n_jobs must be at least 1, or -1 for all cores; got {n_jobs}."
        )


def quoted(names: Iterable[Any]) -> str:
    """Names in quotes, separated by commas."""
    return ", ".join(repr(str(name)) for name in names)


def _named_by_class(estimators: list[Any]) -> dict[str, Any]:
    named: dict[str, Any] = {}
    for estimator in estimators:
        kind = type(estimator).__name__
        same = sum(type(other).__name__ == kind for other in named.values())
        named[f"{kind} {same + 1}" if same else kind] = estimator
    return named


def _check_estimator(name: Any, estimator: Any) -> None:
    from sklearn.base import is_classifier

    if not isinstance(name, str) or not name.strip():
        raise TypeError(f"The names of models must be non-empty strings; got {name!r}.")
    if inspect.isclass(estimator):
        raise TypeError(
            f"The model {name!r} must be an instance; got the class "
            f"{estimator.__name__}. Write {estimator.__name__}()."
        )
    methods = ("fit", "predict", "get_params", "set_params")
    missing = [m for m in methods if not hasattr(estimator, m)]
    if missing or is_classifier(estimator):
        lack = f" without {missing[0]}" if missing else ", a classifier"
        raise TypeError(
            f"The model {name!r} must be a scikit-learn regressor; got "
            f"{type(estimator).__name__}{lack}."
        )
