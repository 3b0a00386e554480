"""The four models that a comparison looks at by default, matched in parameters."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from torch import nn

from sk_quadratic._base import BaseBlockRegressor
from sk_quadratic.costs import count_parameters, match_parameters
from sk_quadratic.estimators import BranchMLPRegressor, QuadraticGramRegressor

# One training for all rows of the table. Without early stopping every model learns
# from all training rows for equally many steps, and the schedule ends each run.
_TRAINING: dict[str, Any] = {
    "max_epochs": 100,
    "early_stopping": False,
    "weight_decay": 0.01,
}
_WIDTHS = range(3, 25)
_TOLERANCE = 0.02

Builder = Callable[[int, int], BaseBlockRegressor]


def default_models(n_features: int) -> dict[str, BaseBlockRegressor]:
    """Build the baseline and three others with no more parameters than it has.

    Parameters
    ----------
    n_features : int
        Number of features, on which the parameter counts depend.

    Returns
    -------
    dict of str to estimator
        ``"branch MLP"``, the two-layer perceptron of 64 hidden units, and baseline;
        ``"branch sum in trunk"``, the same sum as a residual block between a stem and
        a head; ``"quadratic form"``, the factored form in that trunk; and
        ``"full structure"``, the full one. All are trained alike. The others have at
        most the baseline's parameters, and within 2 % of them where a size does.
    """
    baseline = BranchMLPRegressor(width=None, n_branches=64, **_TRAINING)
    return {
        "branch MLP": baseline,
        "branch sum in trunk": _match(baseline, _branch_sum, 5.0, n_features),
        "quadratic form": _match(baseline, _factored_form, 2.6, n_features),
        "full structure": _match(baseline, _full_form, 1.5, n_features),
    }


def _branch_sum(width: int, n_branches: int) -> BaseBlockRegressor:
    return BranchMLPRegressor(width=width, n_branches=n_branches, **_TRAINING)


def _factored_form(width: int, n_heads: int) -> BaseBlockRegressor:
    return QuadraticGramRegressor(
        width=width, n_heads=n_heads, n_branches=1, **_TRAINING
    )


def _full_form(width: int, n_heads: int) -> BaseBlockRegressor:
    # Every hidden unit takes width**2 parameters, so there are few of them.
    return QuadraticGramRegressor(
        width=width,
        n_heads=n_heads,
        n_branches=2,
        structure="full",
        hidden_width=width + 2,
        **_TRAINING,
    )


def _match(
    baseline: BaseBlockRegressor, build: Builder, shape: float, n_features: int
) -> BaseBlockRegressor:
    """Size of equal parameters whose second number is nearest to `shape` widths."""

    target = _network(baseline, n_features)
    wanted = count_parameters(target)
    found = []
    for width in _WIDTHS:

        def sized(second: int, width: int = width) -> nn.Module:
            return _network(build(width, second), n_features)

        numbers = range(1, math.ceil(4 * shape * width))
        if count_parameters(sized(1)) > wanted:
            break
        second = match_parameters(sized, target, numbers, at_most=True, tolerance=1.0)
        missing = 1.0 - count_parameters(sized(second)) / wanted
        far = abs(math.log(second / (shape * width)))
        found.append((max(missing, _TOLERANCE), far, width, second))
    *_, width, second = min(found)
    return build(width, second)


def _network(model: BaseBlockRegressor, n_features: int) -> nn.Module:
    return model._network_maker(n_features)(device="meta")
