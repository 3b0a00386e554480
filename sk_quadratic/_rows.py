"""Rows of a table, each different one once, in an order of their own.

A fit then depends on which rows there are and how often, and not on how they are
written down: an integer weight is the same as so many equal rows, a zero weight the
same as none, the order of the rows is without effect, and no copy of a training row
is validated on.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from sk_quadratic._columns import Table

_ODD_NUMBERS = (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB)


@dataclass(frozen=True)
class Rows:
    """Rows of a table, by their numbers, so that the table is not copied.

    Parameters
    ----------
    table : Table
        The whole table.
    y : ndarray of shape (len(table), n_targets)
        Its targets.
    index : ndarray of int of shape (n_rows,)
        Numbers of the rows meant.
    weight : ndarray of shape (n_rows,) or None
        Their weights.
    """

    table: Table
    y: NDArray[np.floating]
    index: NDArray[np.intp]
    weight: NDArray[np.float64] | None

    def __len__(self) -> int:
        return len(self.index)

    @property
    def target(self) -> NDArray[np.floating]:
        """Targets of the rows: shape (n_rows, n_targets)."""
        return self.y[self.index]

    def subset(self, positions: NDArray[np.intp]) -> Rows:
        """Some of the rows, by their positions among these."""
        weight = None if self.weight is None else self.weight[positions]
        return replace(self, index=self.index[positions], weight=weight)

    def present(self) -> Rows:
        """Those of positive weight."""
        if self.weight is None:
            return self
        return self.subset(np.flatnonzero(self.weight > 0.0))

    def merged(self) -> Rows:
        """The different rows of a whole table, each once, with summed weights."""
        index, weight = merge_equal_rows(self.table, self.y, self.weight)
        return replace(self, index=index, weight=weight)


def merge_equal_rows(
    table: Table, y: NDArray[np.floating], weight: NDArray[np.floating] | None = None
) -> tuple[NDArray[np.intp], NDArray[np.float64] | None]:
    """Find the different rows, and the weight of each.

    Parameters
    ----------
    table : Table
        Features.
    y : ndarray of shape (n_samples, n_outputs)
        Targets: rows that differ in them are different.
    weight : ndarray of shape (n_samples,) or None
        Weights; rows of weight zero are left out.

    Returns
    -------
    rows : ndarray of int of shape (n_different,)
        Number of one row of each kind, in an order that depends on the contents alone,
        and neither on the units of the columns.
    weight : ndarray of shape (n_different,) or None
        Sum of the weights of each kind of row; None where all are equal.
    """
    kept = np.arange(len(table)) if weight is None else np.flatnonzero(weight > 0)
    keys = _row_keys(table, y, kept)
    by_key = np.argsort(keys, kind="stable")
    order, keys = kept[by_key], keys[by_key]
    alike = keys[1:] == keys[:-1]
    pairs = np.flatnonzero(alike)
    if not pairs.size and weight is None:
        return order, None
    alike[pairs] = _equal_rows(table, y, order[pairs], order[pairs + 1])
    starts = np.flatnonzero(np.concatenate([[True], ~alike]))
    ones = np.ones(len(order)) if weight is None else weight[order]
    summed = np.add.reduceat(ones.astype(np.float64), starts)
    return order[starts], None if (summed == summed[0]).all() else summed


def _row_keys(
    table: Table, y: NDArray[np.floating], rows: NDArray[np.intp]
) -> NDArray[np.uint64]:
    """One number per row: equal for equal rows, and hardly ever for others.

    A number counts by its rank, so that neither unit nor offset of a column matter.
    """
    keys = np.zeros(len(rows), dtype=np.uint64)
    for block in (table.numbers, y):
        for j in range(block.shape[1]):
            ranks = np.unique(block[rows, j], return_inverse=True)[1]
            _stir(keys, ranks.astype(np.uint64))
    for labels in table.labels:
        digests = [
            int.from_bytes(
                hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=8).digest()
            )
            for text in labels.values
        ]
        _stir(keys, np.array([*digests, 0], dtype=np.uint64)[labels.codes[rows]])
    return keys


def _stir(keys: NDArray[np.uint64], column: NDArray[np.uint64]) -> None:
    """Mix a column into the keys, as splitmix64 does with its state."""
    keys += np.uint64(_ODD_NUMBERS[0])
    keys ^= column * np.uint64(_ODD_NUMBERS[2])
    keys ^= keys >> np.uint64(30)
    keys *= np.uint64(_ODD_NUMBERS[1])
    keys ^= keys >> np.uint64(27)


def _equal_rows(
    table: Table,
    y: NDArray[np.floating],
    left: NDArray[np.intp],
    right: NDArray[np.intp],
) -> NDArray[np.bool_]:
    """Whether the rows `left` equal the rows `right`, one by one."""
    equal = np.ones(len(left), dtype=bool)
    for block in (table.numbers, y):
        a, b = block[left], block[right]
        equal &= ((a == b) | (np.isnan(a) & np.isnan(b))).all(axis=1)
    for labels in table.labels:
        equal &= labels.codes[left] == labels.codes[right]
    return equal
