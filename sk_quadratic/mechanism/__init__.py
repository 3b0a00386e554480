"""The theory as a tool: expand any branch function, and check what the theory predicts.

A sum of interchangeable branches with weights near zero is a quadratic form in their
Gram matrix (arXiv:2608.13335, Theorem 1). :func:`quadratic_expansion` finds the form.
"""

from sk_quadratic.mechanism.branches import gated_branch, two_layer_branch
from sk_quadratic.mechanism.expansion import (
    QuadraticExpansion,
    module_expansion,
    quadratic_expansion,
)

__all__ = [
    "QuadraticExpansion",
    "gated_branch",
    "module_expansion",
    "quadratic_expansion",
    "two_layer_branch",
]
