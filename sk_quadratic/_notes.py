"""What a reader of a comparison's numbers has to know, as sentences."""

from __future__ import annotations

from sk_quadratic._protocol import Candidate, ModelRecords, mean_scores
from sk_quadratic._report import LEVEL
from sk_quadratic._results import PairResult
from sk_quadratic.datasets import Dataset


def comparison_notes(
    dataset: Dataset,
    candidates: list[Candidate],
    records: list[ModelRecords],
    pairs: tuple[PairResult, ...],
) -> list[str]:
    """Notes on the data, the tuning and the test, in that order."""
    notes = list(dataset.notes)
    for candidate, fits in zip(candidates, records, strict=True):
        notes += _tuning_notes(candidate, fits)
    notes += _test_notes(pairs)
    if dataset.n_rows is not None:
        notes.append(
            "The seeds share rows of one table, so p speaks of this table and not of "
            "new ones like it; the corrected t-test allows for shared training rows."
        )
    return notes


def _tuning_notes(candidate: Candidate, records: ModelRecords) -> list[str]:
    name, parameter = candidate.name, candidate.parameter
    if parameter is None:
        return [f"{name}: fitted as it is, without tuning."]
    notes = []
    means = mean_scores(records.tuning)
    diverged = [value for value in records.tuning if value not in means]
    if diverged:
        values = ", ".join(f"{value:g}" for value in diverged)
        notes.append(f"{name}: diverged in tuning, and so out: {parameter} {values}.")
    grid = list(records.tuning)
    if len(grid) == 1:
        notes.append(f"{name}: {parameter} had one value to choose from.")
    elif records.chosen in (grid[0], grid[-1]):
        side = "lower" if records.chosen == grid[0] else "higher"
        notes.append(
            f"{name}: the chosen {parameter} {records.chosen:g} is at the edge of the "
            f"grid; a {side} one may be better."
        )
    return notes


def _test_notes(pairs: tuple[PairResult, ...]) -> list[str]:
    n_pairs, smallest = pairs[0].test.n_pairs, pairs[0].test.min_pvalue
    if smallest > LEVEL:
        return [
            f"{n_pairs} pairs cannot reach p = {LEVEL:g}: their smallest p is "
            f"{smallest:.3g}. Use at least 6 seeds."
        ]
    if smallest * len(pairs) > LEVEL:
        return [
            f"After Holm's correction for {len(pairs)} comparisons {n_pairs} pairs "
            f"cannot reach p = {LEVEL:g}: their smallest p is then "
            f"{min(smallest * len(pairs), 1.0):.3g}. Use more seeds."
        ]
    return []
