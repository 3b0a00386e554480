"""Tables and targets as float32 tensors of moderate numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sk_quadratic._columns import LABEL, NUMBER, Labels, Table
from sk_quadratic._quantiles import robust_center_scale

UNKNOWN, MISSING = 0, 1
"""Codes of labels that are not among the categories, and of missing labels."""

_N_RESERVED = 2
_MAX_CATEGORIES = 254  # with the two reserved codes a byte's worth
_CLIP = 3.0
_ROWS_PER_CHUNK = 65_536  # bounds the float64 copies made on the way to float32


class TableEncoder:
    """Bring a table to numbers of order one, with the statistics of the training rows.

    The columns of the result are the scaled numbers, then an indicator of missing
    values for each number column that lacked some in training, then the codes of the
    labels.

    A number is centred at the median, divided by the spread of the quartiles and
    smoothly clipped to +-3, so that a few wild values move neither the rest nor the
    network. A missing one becomes the median. The statistics and the division are in
    float64, so that a column with a large offset keeps its digits.

    A label has the code of its category, most frequent first. A missing label has a
    code of its own; labels never seen in training share one with those that are too
    rare to be learned: seen once, or beyond the 254 most frequent. A column whose
    labels all have one code in training is left out.

    Attributes
    ----------
    kinds_ : ndarray of int of shape (n_features,)
        What each column counts as.
    center_, scale_ : ndarray of shape (n_numbers,)
        Statistics of the number columns; a scale of 0 is that of a constant column.
    with_missing_ : ndarray of int
        Number columns that have an indicator.
    used_labels_ : ndarray of int
        Label columns that are encoded.
    categories_ : list of ndarray of str
        The categories of each of these.
    """

    kinds_: NDArray[np.int8]
    center_: NDArray[np.float64]
    scale_: NDArray[np.float64]
    with_missing_: NDArray[np.intp]
    used_labels_: NDArray[np.intp]
    categories_: list[NDArray]

    def fit(
        self,
        table: Table,
        rows: NDArray[np.intp] | None = None,
        weight: NDArray[np.floating] | None = None,
        *,
        min_count: float = 2.0,
    ) -> TableEncoder:
        """Learn the statistics of the training rows.

        Parameters
        ----------
        table : Table
            The whole table.
        rows : ndarray of int of shape (n_train,) or None
            Its training rows; None is all.
        weight : ndarray of shape (n_train,) or None
            Weights of the training rows.
        min_count : float, default=2.0
            Smallest weight, where the mean is 1, of a category of its own. With 0 all
            declared ones are kept, since there are more rows to come.

        Returns
        -------
        TableEncoder
            The encoder itself.
        """
        if rows is None:
            rows = np.arange(len(table))
        if weight is not None:
            weight = weight / weight.mean()
        self.kinds_ = table.kinds
        center, scale, with_missing = [], [], []
        for j in range(table.numbers.shape[1]):
            column = table.numbers[rows, j]
            present = ~np.isnan(column)
            if not present.all():
                with_missing.append(j)
                column = column[present]
            w = None if weight is None else weight[present]
            c, s = robust_center_scale(column, w)
            center.append(c)
            scale.append(s)
        self.center_ = np.array(center, dtype=np.float64)
        self.scale_ = np.array(scale, dtype=np.float64)
        self.with_missing_ = np.array(with_missing, dtype=np.intp)
        used, kept = [], []
        for j, labels in enumerate(table.labels):
            categories = _frequent_labels(labels, rows, weight, min_count)
            codes = _code_of_label(labels.values, categories)[labels.codes[rows]]
            if min_count == 0.0 or (codes != codes[0]).any():
                used.append(j)
                kept.append(categories)
        self.used_labels_ = np.array(used, dtype=np.intp)
        self.categories_ = kept
        return self

    @property
    def n_numbers(self) -> int:
        """Number of leading columns of the result that are numbers.

        A table without any usable column becomes one column of zeros.
        """
        n_numbers = len(self.center_) + len(self.with_missing_)
        return n_numbers if n_numbers or self.categories_ else 1

    @property
    def n_codes(self) -> list[int]:
        """Number of codes of each of the other columns."""
        return [len(c) + _N_RESERVED for c in self.categories_]

    @property
    def n_columns(self) -> int:
        """Number of columns of the result."""
        return self.n_numbers + len(self.categories_)

    @property
    def feature_of_column(self) -> NDArray[np.intp]:
        """Which feature each column of the result comes from."""
        numbers = np.flatnonzero(self.kinds_ == NUMBER)
        labels = np.flatnonzero(self.kinds_ == LABEL)
        return np.concatenate(
            [numbers, numbers[self.with_missing_], labels[self.used_labels_]]
        )

    def transform(self, table: Table, rows: NDArray[np.intp] | None = None) -> Tensor:
        """Encode rows.

        Parameters
        ----------
        table : Table
            A table of the same columns.
        rows : ndarray of int of shape (n_rows,) or None
            Rows to encode; None is all.

        Returns
        -------
        Tensor of shape (n_rows, n_columns)
            In float32, on the CPU.
        """
        n_rows = len(table) if rows is None else len(rows)
        out = np.zeros((n_rows, self.n_columns), dtype=np.float32)
        n_scaled, n_numbers = len(self.center_), len(self.center_)
        n_numbers += len(self.with_missing_)
        for start in range(0, n_rows, _ROWS_PER_CHUNK):
            chunk = slice(start, min(start + _ROWS_PER_CHUNK, n_rows))
            numbers = table.numbers[chunk if rows is None else rows[chunk]]
            missing = np.isnan(numbers)
            scaled = self._scale(numbers)
            scaled[missing] = 0.0
            out[chunk, :n_scaled] = scaled
            out[chunk, n_scaled:n_numbers] = missing[:, self.with_missing_]
        for j, categories in enumerate(self.categories_):
            labels = table.labels[self.used_labels_[j]]
            codes = labels.codes if rows is None else labels.codes[rows]
            code_of_label = _code_of_label(labels.values, categories)
            out[:, self.n_numbers + j] = code_of_label[codes]
        return torch.from_numpy(out)

    def _scale(self, numbers: NDArray[np.floating]) -> NDArray[np.float64]:
        """Centre, divide and clip; a constant column is 0 whatever its values."""
        constant = self.scale_ == 0.0
        with np.errstate(over="ignore"):
            z = 0.5 * numbers.astype(np.float64) - 0.5 * self.center_
            z /= np.where(constant, np.inf, 0.5 * self.scale_)
        np.clip(z, -1e6, 1e6, out=z)
        return z / np.sqrt(1.0 + (z / _CLIP) ** 2)

    def get_state(self) -> dict[str, Any]:
        """State as arrays and lists of text, to be kept in a file."""
        return {
            "kinds": self.kinds_.tolist(),
            "center": self.center_.tolist(),
            "scale": self.scale_.tolist(),
            "with_missing": self.with_missing_.tolist(),
            "used_labels": self.used_labels_.tolist(),
            "categories": [c.tolist() for c in self.categories_],
        }

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> TableEncoder:
        """Encoder of a state that `get_state` gave."""
        encoder = cls()
        encoder.kinds_ = np.array(state["kinds"], dtype=np.int8)
        encoder.center_ = np.array(state["center"], dtype=np.float64)
        encoder.scale_ = np.array(state["scale"], dtype=np.float64)
        encoder.with_missing_ = np.array(state["with_missing"], dtype=np.intp)
        encoder.used_labels_ = np.array(state["used_labels"], dtype=np.intp)
        encoder.categories_ = [np.array(c, dtype=object) for c in state["categories"]]
        return encoder


def _frequent_labels(
    labels: Labels,
    rows: NDArray[np.intp],
    weight: NDArray[np.floating] | None,
    min_count: float,
) -> NDArray:
    """Labels that get a category: the most frequent ones, ties by their text."""
    codes = labels.codes[rows]
    present = codes >= 0
    counts = np.bincount(
        codes[present],
        None if weight is None else weight[present],
        minlength=len(labels.values),
    )
    wanted = np.flatnonzero(counts >= min_count).tolist()
    wanted.sort(key=lambda i: (-counts[i], labels.values[i]))
    kept = [labels.values[i] for i in wanted[:_MAX_CATEGORIES]]
    return np.array(kept, dtype=object)


def _code_of_label(values: list[str], categories: NDArray) -> NDArray[np.float32]:
    """Code of each label, and of a missing one in the last place, for code -1."""
    codes = np.full(len(values) + 1, float(UNKNOWN), dtype=np.float32)
    codes[-1] = MISSING
    index = {text: code for code, text in enumerate(categories, start=_N_RESERVED)}
    for i, text in enumerate(values):
        codes[i] = index.get(text, UNKNOWN)
    return codes
