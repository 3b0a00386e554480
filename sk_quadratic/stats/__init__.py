"""Tests for paired scores: is one model better than the other, and by how much."""

from sk_quadratic.stats.holm import holm_correction
from sk_quadratic.stats.permutation import paired_permutation_test
from sk_quadratic.stats.result import ConfidenceInterval, PairedPermutationResult
from sk_quadratic.stats.ttest import (
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
