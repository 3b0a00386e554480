"""The order of a comparison: tune every model, choose the rates, fit and score."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from sk_quadratic._checkpoint import Checkpoint
from sk_quadratic._fits import FitJob, FitRecord, run_fit
from sk_quadratic._interrupts import deferred_interrupts, ignored_interrupts
from sk_quadratic._splits import Plan
from sk_quadratic.datasets import Dataset

Progress = Callable[[int, int, str], None]
"""Called with the number of finished fits, that of all fits, and the last one."""


@dataclass(frozen=True)
class Candidate:
    """One model of a comparison, and the parameter of it that is tuned, if any."""

    name: str
    estimator: Any
    parameter: str | None


@dataclass(frozen=True)
class ModelRecords:
    """All that the fits of one model gave.

    `tuning` has one list of records per value of the grid, `final` one record per seed.
    """

    chosen: float | None
    tuning: dict[float, list[FitRecord]]
    final: list[FitRecord]


def run_protocol(
    candidates: list[Candidate],
    dataset: Dataset,
    plan: Plan,
    grid: tuple[float, ...],
    *,
    n_jobs: int,
    checkpoint: Checkpoint,
    progress: Progress | None,
) -> list[ModelRecords]:
    """Run all fits that the checkpoint does not hold yet."""
    tuning = {
        c.name: {v: _tuning_jobs(c, plan, v) for v in grid} if c.parameter else {}
        for c in candidates
    }
    jobs = [job for lists in tuning.values() for fits in lists.values() for job in fits]
    total = len(jobs) + len(candidates) * len(plan.final)
    runner = _Runner(dataset, n_jobs, checkpoint, progress, total)
    runner.run(jobs)
    results = []
    for candidate in candidates:
        records = {
            value: [runner.record(job) for job in fits]
            for value, fits in tuning[candidate.name].items()
        }
        chosen = _choose(candidate, records) if records else None
        results.append((candidate, chosen, records))
    final = [_final_jobs(c, plan, chosen) for c, chosen, _ in results]
    runner.run([job for fits in final for job in fits])
    return [
        ModelRecords(chosen, records, [runner.record(job) for job in fits])
        for (_, chosen, records), fits in zip(results, final, strict=True)
    ]


class _Runner:
    """Runs jobs, keeps each record as soon as it is there, reports progress."""

    def __init__(
        self,
        dataset: Dataset,
        n_jobs: int,
        checkpoint: Checkpoint,
        progress: Progress | None,
        total: int,
    ) -> None:
        self.dataset = dataset
        self.n_jobs = n_jobs
        self.checkpoint = checkpoint
        self.progress = progress
        self.total = total
        if checkpoint.records:
            self._report("resumed")

    def run(self, jobs: list[FitJob]) -> None:
        """Run the jobs that have no record yet."""
        missing = [job for job in jobs if job.key not in self.checkpoint.records]
        by_key = {job.key: job for job in missing}
        for key, record in _execute(missing, self.dataset, self.n_jobs):
            if key.startswith("final") and record.score is None:
                raise ValueError(_divergence_message(by_key[key], record))
            with deferred_interrupts():
                self.checkpoint.add(key, asdict(record))
                self._report(by_key[key].label)

    def record(self, job: FitJob) -> FitRecord:
        """Record of a job that was run."""
        return FitRecord(**self.checkpoint.records[job.key])

    def _report(self, label: str) -> None:
        if self.progress is not None:
            self.progress(len(self.checkpoint.records), self.total, label)


def _execute(
    jobs: list[FitJob], dataset: Dataset, n_jobs: int
) -> Iterator[tuple[str, FitRecord]]:
    """Records in the order in which the fits end."""
    if n_jobs == 1 or len(jobs) < 2:
        for job in jobs:
            yield run_fit(job, dataset)
        return
    from joblib import Parallel, delayed, parallel_config

    with parallel_config(backend="loky", inner_max_num_threads=1):
        parallel = Parallel(n_jobs=n_jobs, return_as="generator_unordered")
    with ignored_interrupts():  # the call starts the processes
        records = parallel(delayed(run_fit)(job, dataset) for job in jobs)
    yield from records


def _tuning_jobs(candidate: Candidate, plan: Plan, value: float) -> list[FitJob]:
    name, parameter = candidate.name, candidate.parameter
    return [
        FitJob(
            key=f"tuning|{name}|{value!r}|{i}",
            label=f"{name}, {parameter}={value:g}, tuning seed {i + 1}",
            model=candidate.estimator,
            parameter=parameter,
            value=value,
            split=split,
        )
        for i, split in enumerate(plan.tuning)
    ]


def _final_jobs(candidate: Candidate, plan: Plan, chosen: float | None) -> list[FitJob]:
    return [
        FitJob(
            key=f"final|{candidate.name}|{chosen!r}|{i}",
            label=f"{candidate.name}, seed {i + 1}",
            model=candidate.estimator,
            parameter=candidate.parameter,
            value=chosen,
            split=split,
            with_costs=i == 0,
        )
        for i, split in enumerate(plan.final)
    ]


def mean_scores(
    records: Mapping[float, list[FitRecord]],
) -> dict[float, float]:
    """Mean validation score of every value that diverged in no tuning seed."""
    means = {}
    for value, fits in records.items():
        scores = [fit.score for fit in fits if fit.score is not None]
        if len(scores) == len(fits):
            means[value] = float(np.mean(scores))
    return means


def _choose(candidate: Candidate, records: Mapping[float, list[FitRecord]]) -> float:
    means = mean_scores(records)
    if not means:
        values = ", ".join(f"{value:g}" for value in records)
        reason = next(f.reason for fits in records.values() for f in fits if f.reason)
        raise ValueError(
            f"{candidate.name} diverged at every value of {candidate.parameter} tried: "
            f"{values}. Add lower values to learning_rates. The first message: {reason}"
        )
    return min(means, key=lambda value: (means[value], value))


def _divergence_message(job: FitJob, record: FitRecord) -> str:
    if job.parameter is None:
        return f"{job.label} diverged: {record.reason}"
    return (
        f"{job.label} diverged with {job.parameter}={job.value:g}, which had been "
        f"chosen on validation rows. Leave the highest values out of learning_rates. "
        f"The message: {record.reason}"
    )
