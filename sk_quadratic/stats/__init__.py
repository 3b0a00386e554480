"""Tests for paired scores: is one model better than the other, and by how much."""

from sk_quadratic.stats._holm import holm_correction
from sk_quadratic.stats._permutation import paired_permutation_test
from sk_quadratic.stats._result import ConfidenceInterval, PairedPermutationResult
from sk_quadratic.stats._ttest import (
    CorrectedResampledTTestResult,
    corrected_resampled_ttest,
)

__all__ = [
    "ConfidenceInterval",
    "CorrectedResampledTTestResult",
    "PairedPermutationResult",
    "corrected_resampled_ttest",
    "holm_correction",
    "paired_permutation_test",
]
