"""Learned quadratic forms of a branch Gram matrix, as scikit-learn regressors.

The public names are imported when they are first used, so that ``import sk_quadratic``
and the statistics alone do not import torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sk_quadratic.comparison import compare
    from sk_quadratic.costs import match_parameters, module_costs
    from sk_quadratic.datasets import load_dataset
    from sk_quadratic.estimators import BranchMLPRegressor, QuadraticGramRegressor
    from sk_quadratic.modules import BlockNetwork, BranchSumBlock, QuadraticGramBlock
    from sk_quadratic.stats import (
        corrected_resampled_ttest,
        holm_correction,
        paired_permutation_test,
    )

    __version__: str

__all__ = [
    "BlockNetwork",
    "BranchMLPRegressor",
    "BranchSumBlock",
    "QuadraticGramBlock",
    "QuadraticGramRegressor",
    "compare",
    "corrected_resampled_ttest",
    "holm_correction",
    "load_dataset",
    "match_parameters",
    "module_costs",
    "paired_permutation_test",
]

# The module each public name is imported from on first use (PEP 562).
_HOMES = {
    "BlockNetwork": "modules",
    "BranchMLPRegressor": "estimators",
    "BranchSumBlock": "modules",
    "QuadraticGramBlock": "modules",
    "QuadraticGramRegressor": "estimators",
    "compare": "comparison",
    "corrected_resampled_ttest": "stats",
    "holm_correction": "stats",
    "load_dataset": "datasets",
    "match_parameters": "costs",
    "module_costs": "costs",
    "paired_permutation_test": "stats",
}


def __getattr__(name: str) -> object:
    if name == "__version__":
        value: object = import_module("importlib.metadata").version("sk-quadratic")
    elif name in _HOMES:
        value = getattr(import_module(f"sk_quadratic.{_HOMES[name]}"), name)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value  # the next access does not come here
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, "__version__"})
