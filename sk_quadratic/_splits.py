"""Which rows train, validate and test in each seed of a comparison."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from sk_quadratic.datasets import Dataset

MIN_ROWS = 10
"""Fewest rows of any part: the training, validation and test rows of one seed."""

GENERATED_TRAIN, GENERATED_TEST = 800, 400
"""Rows of one seed of a generated data set, unless the caller sets them."""

_FINAL, _TUNING, _POOLS = 0, 1, 2


@dataclass(frozen=True)
class Split:
    """The rows of one fit: the first `n_train` to learn from, the rest to score.

    Parameters
    ----------
    seed : int
        Seed of the draw, which the models get as their `random_state` too.
    n_train, n_eval : int
        Numbers of rows.
    rows : ndarray of shape (n_train + n_eval,) or None
        Row numbers in a finite table, or None for rows to generate from the seed.
    """

    seed: int
    n_train: int
    n_eval: int
    rows: np.ndarray | None = None

    def materialize(self, dataset: Dataset) -> tuple[Any, np.ndarray, Any, np.ndarray]:
        """Training features and target, then those of the rows to score."""
        n = self.n_train
        if self.rows is None:
            X, y = dataset.sample(n + self.n_eval, self.seed)
            return X[:n], y[:n], X[n:], y[n:]
        return *dataset.take(self.rows[:n]), *dataset.take(self.rows[n:])


@dataclass(frozen=True)
class Plan:
    """Splits to tune on and splits to test on; no test row is in a tuning split."""

    tuning: tuple[Split, ...]
    final: tuple[Split, ...]


@dataclass(frozen=True)
class PlanOptions:
    """The arguments of a comparison that say which rows go where."""

    n_seeds: int
    tuning_seeds: int
    n_train: int | None
    n_test: int | None
    test_fraction: float
    validation_fraction: float
    random_state: int


@dataclass(frozen=True)
class _Sizes:
    """Rows of a tuning split, and of a final one."""

    tuning_train: int
    validation: int
    train: int
    test: int

    def are_enough(self) -> bool:
        return (
            min(self.tuning_train, self.validation, self.train, self.test) >= MIN_ROWS
        )


def make_plan(dataset: Dataset, options: PlanOptions) -> Plan:
    """Draw the splits of all seeds.

    A generated data set is drawn anew for every seed, and the tuning seeds are others
    than the final ones. A finite table is cut once into a development pool and a test
    pool of twice a test part. The test part of a seed is a random half of the test
    pool; the seed trains on all other rows. Tuning sees the development pool only.
    """
    state = options.random_state
    final = [draw_seed(state, _FINAL, i) for i in range(options.n_seeds)]
    tuning = [draw_seed(state, _TUNING, i) for i in range(options.tuning_seeds)]
    if dataset.n_rows is None:
        sizes = _generated_sizes(options)
        return Plan(
            tuple(Split(s, sizes.tuning_train, sizes.validation) for s in tuning),
            tuple(Split(s, sizes.train, sizes.test) for s in final),
        )
    sizes = _table_sizes(dataset.n_rows, options)
    if not sizes.are_enough():
        _raise_too_few(dataset, options)
    pools = np.random.default_rng(draw_seed(state, _POOLS, 0))
    rows = pools.permutation(dataset.n_rows)
    test_pool, development = rows[: 2 * sizes.test], rows[2 * sizes.test :]
    return Plan(
        tuple(_tuning_split(s, development, sizes) for s in tuning),
        tuple(_final_split(s, development, test_pool, sizes) for s in final),
    )


def draw_seed(random_state: int, kind: int, index: int) -> int:
    """One seed of a stream that depends on nothing else, so that more can follow.

    The last bit tells tuning seeds from the final ones: they can never coincide.
    """
    sequence = np.random.SeedSequence(random_state, spawn_key=(kind, index))
    return (int(sequence.generate_state(1)[0]) >> 1) // 2 * 2 + (kind == _TUNING)


def _tuning_split(seed: int, development: np.ndarray, sizes: _Sizes) -> Split:
    rows = np.random.default_rng(seed).permutation(development)
    n = sizes.tuning_train + sizes.validation
    return Split(seed, sizes.tuning_train, sizes.validation, rows[:n])


def _final_split(
    seed: int, development: np.ndarray, test_pool: np.ndarray, sizes: _Sizes
) -> Split:
    rng = np.random.default_rng(seed)
    pool = rng.permutation(test_pool)
    test, others = pool[: sizes.test], pool[sizes.test :]
    train = rng.permutation(np.concatenate([development, others]))[: sizes.train]
    return Split(seed, sizes.train, sizes.test, np.concatenate([train, test]))


def _generated_sizes(options: PlanOptions) -> _Sizes:
    train = GENERATED_TRAIN if options.n_train is None else options.n_train
    test = GENERATED_TEST if options.n_test is None else options.n_test
    validation = round(options.validation_fraction * train)
    sizes = _Sizes(train - validation, validation, train, test)
    if not sizes.are_enough():
        raise ValueError(
            f"The training, validation and test part of a seed need {MIN_ROWS} rows "
            f"each; got n_train={train}, of which {validation} validate, and "
            f"n_test={test}."
        )
    return sizes


def _table_sizes(n_rows: int, options: PlanOptions) -> _Sizes:
    """Sizes of the parts; a training part that cannot be had counts as empty."""
    test = options.n_test
    if test is None:
        test = int(options.test_fraction * n_rows)
    development = max(n_rows - 2 * test, 0)
    train = n_rows - test if options.n_train is None else options.n_train
    if train > n_rows - test:
        train = 0
    tuning = min(train, development)
    validation = round(options.validation_fraction * tuning)
    return _Sizes(tuning - validation, validation, train, test)


def _raise_too_few(dataset: Dataset, options: PlanOptions) -> None:
    n_train, n_test, n_rows = options.n_train, options.n_test, len(dataset.y)
    for name, value in (("n_train", n_train), ("n_test", n_test)):
        if value is not None and value < MIN_ROWS:
            raise ValueError(f"{name} must be at least {MIN_ROWS}; got {value}.")
    if n_train is not None:
        validation = round(options.validation_fraction * n_train)
        if min(validation, n_train - validation) < MIN_ROWS:
            raise ValueError(
                f"Both parts of the training rows in tuning need {MIN_ROWS} rows; got "
                f"n_train={n_train}, of which {validation} validate."
            )
    needed = max(n_rows, n_train or 0, 2 * (n_test or 0))
    while not _table_sizes(needed, options).are_enough():
        needed += 1
    raise ValueError(
        f"The comparison needs at least {needed} rows with these settings, so that "
        f"every training, validation and test part has {MIN_ROWS}; {dataset.name} has "
        f"{n_rows}."
    )
