"""Both estimators with settings that train in a fraction of a second."""

import pytest

from sk_quadratic.estimators import BranchMLPRegressor, QuadraticGramRegressor

BOTH = pytest.mark.parametrize(
    "make", [QuadraticGramRegressor, BranchMLPRegressor], ids=["form", "branches"]
)


def quick(make, **parameters):
    defaults = {
        "max_epochs": 8,
        "learning_rate": 0.01,
        "batch_size": 32,
        "early_stopping": False,
        "random_state": 0,
    }
    return make(**{**defaults, **parameters})


def split_of(model, X, y):
    """Numbers of the rows that a fitted model trained on, and was validated on."""
    rows = model._read_rows(X, y, None, reset=False).merged()
    train, valid = model._split(rows)
    return train.index, valid.index
