"""Read frames, arrays and lists as numbers and labels, column by column.

Nothing is learned here: a value is a number, a label or missing by itself, whatever
the other rows hold. What a column counts as is decided once, in `fit`.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

NUMBER, LABEL, EMPTY = 0, 1, 2
"""What a column counts as; an empty one had no value in `fit` and is left out."""

_MISSING = -1
_NUMBERS = (Real, Decimal, np.bool_)
_TEMPORAL = (
    datetime.date,
    datetime.time,
    datetime.timedelta,
    np.datetime64,
    np.timedelta64,
)
_TEMPORAL_ADVICE = (
    "Give its parts as numbers, such as the year, the month or the days since a date."
)


@dataclass(frozen=True)
class Labels:
    """A column of labels as codes.

    Parameters
    ----------
    codes : ndarray of int of shape (n_samples,)
        Index into `values`, or -1 for a missing label.
    values : list of str
        The labels, in any order, each once: those that occur, and those that the type
        of the column declares.
    """

    codes: NDArray[np.intp]
    values: list[str]


@dataclass(frozen=True)
class Table:
    """Rows of numbers and labels.

    Parameters
    ----------
    names : list of str
        How messages call each column.
    kinds : ndarray of int of shape (n_features,)
        NUMBER, LABEL or EMPTY for each column.
    numbers : ndarray of shape (n_samples, n_numbers)
        The number columns, in their order; NaN is missing.
    labels : list of Labels
        The label columns, in their order.
    """

    names: list[str]
    kinds: NDArray[np.int8]
    numbers: NDArray[np.floating]
    labels: list[Labels]

    def __len__(self) -> int:
        return len(self.numbers)

    def names_of(self, kind: int) -> list[str]:
        """Names of the columns of one kind, as messages call them."""
        return [self.names[j] for j in np.flatnonzero(self.kinds == kind)]


def is_frame(X: object) -> bool:
    """Whether X is a frame of pandas or polars."""
    return hasattr(X, "get_columns") or (hasattr(X, "iloc") and hasattr(X, "columns"))


def as_frame_or_array(X: Any) -> Any:
    """Bring a table to a frame of pandas or polars, or to an array where it is a list.

    Parameters
    ----------
    X : array-like or frame
        A table. Lists that hold text become an array of objects: numpy would turn the
        numbers beside the text into text.

    Returns
    -------
    frame or array-like
        The table.

    Raises
    ------
    TypeError
        If it is a lazy frame.
    """
    if is_frame(X):
        return X
    if hasattr(X, "collect_schema"):
        raise TypeError("X is a lazy frame; pass X.collect().")
    if hasattr(X, "to_pandas"):
        return X.to_pandas()
    if isinstance(X, list | tuple):
        try:
            kind = np.asarray(X).dtype.kind
        except ValueError:
            return X  # ragged: scikit-learn says so
        if kind in "USO":
            return np.array(X, dtype=object)
    return X


def check_frame_size(X: Any) -> None:
    """Refuse a frame without rows or without columns, in scikit-learn's words."""
    n_rows, n_features = X.shape
    for n, what in ((n_rows, "sample"), (n_features, "feature")):
        if not n:
            raise ValueError(
                f"Found array with 0 {what}(s) (shape={X.shape}) while a minimum of 1 "
                "is required."
            )


def is_numeric_array(X: object) -> bool:
    """Whether X is an array-like that numpy reads as numbers."""
    if hasattr(X, "dtype") and hasattr(X, "shape") and not isinstance(X, np.ndarray):
        return True  # a tensor or a sparse matrix: scikit-learn takes or refuses it
    return np.asarray(X).dtype.kind not in "USOMmV"


def resolve_categorical(
    categorical_features: str | ArrayLike | None,
    n_features: int,
    feature_names: Sequence[str] | None,
) -> NDArray[np.bool_] | None:
    """Mask of the columns that the user declared to be categorical.

    Parameters
    ----------
    categorical_features : 'from_dtype', array-like of str, int or bool, or None
        As :class:`sklearn.ensemble.HistGradientBoostingRegressor` takes it.
    n_features : int
        Number of columns.
    feature_names : sequence of str or None
        Their names.

    Returns
    -------
    ndarray of bool of shape (n_features,) or None
        None where the types of the columns decide.

    Raises
    ------
    ValueError
        If it names a column that there is not, or is neither names, indices nor a
        mask.
    """
    if isinstance(categorical_features, str):
        if categorical_features == "from_dtype":
            return None
        raise ValueError(
            "categorical_features must be 'from_dtype', None, or an array-like of "
            "names, of indices or a boolean mask; got "
            f"{categorical_features!r}. For one column give a list."
        )
    mask = np.zeros(n_features, dtype=bool)
    if categorical_features is None:
        return mask
    given = np.asarray(categorical_features)
    if given.size == 0:
        return mask
    if given.ndim != 1 or given.dtype.kind not in "biuUO":
        raise ValueError(
            "categorical_features must be a list of names, of indices or a boolean "
            f"mask; got an array of {given.dtype} and shape {given.shape}."
        )
    if given.dtype.kind == "b":
        if len(given) != n_features:
            raise ValueError(
                "categorical_features as a mask must have one entry per feature, "
                f"{n_features}; got {len(given)}."
            )
        return given.astype(bool)
    if given.dtype.kind in "iu":
        if given.min() < 0 or given.max() >= n_features:
            raise ValueError(
                "categorical_features as indices must be within "
                f"[0, n_features - 1] = [0, {n_features - 1}]; got {given.tolist()}."
            )
        mask[given] = True
        return mask
    if feature_names is None:
        raise ValueError(
            "categorical_features can name columns only where X is a frame with "
            f"string names; got {given.tolist()}. Give indices."
        )
    names = list(feature_names)
    for name in given.tolist():
        if name not in names:
            raise ValueError(
                f"categorical_features names {name!r}, which is not a column of X: "
                f"{names}."
            )
        mask[names.index(name)] = True
    return mask


def read_table(
    X: Any,
    *,
    feature_names: Sequence[str] | None = None,
    categorical: NDArray[np.bool_] | None = None,
    kinds: NDArray[np.int8] | None = None,
) -> Table:
    """Read a table.

    Parameters
    ----------
    X : frame of pandas or polars, or ndarray of shape (n_samples, n_features)
        The table.
    feature_names : sequence of str or None
        Names of the columns, for the messages.
    categorical : ndarray of bool of shape (n_features,) or None
        In `fit`: which columns hold labels. None reads text and categories as labels,
        all else as numbers.
    kinds : ndarray of int of shape (n_features,) or None
        After `fit`: what the columns counted as there.

    Returns
    -------
    Table
        Numbers and labels.

    Raises
    ------
    TypeError
        If a column holds dates, or anything but numbers, text and categories.
    ValueError
        If a column of numbers holds a text that is none, or an infinite value.
    """
    n_features = X.shape[1]
    names = [
        str(j) if feature_names is None else repr(str(feature_names[j]))
        for j in range(n_features)
    ]
    if isinstance(X, np.ndarray) and X.dtype.kind == "f":
        return _read_number_array(X, names, categorical, kinds)
    found_kinds = np.zeros(n_features, dtype=np.int8)
    numbers: list[NDArray[np.floating]] = []
    labels: list[Labels] = []
    for j in range(n_features):
        if kinds is not None and kinds[j] == EMPTY:
            found_kinds[j] = EMPTY
            continue
        column = _read_column(X, j, names[j])
        if kinds is not None:
            wanted = int(kinds[j])
        elif _is_empty(column):
            found_kinds[j] = EMPTY
            continue
        elif categorical is None:
            wanted = LABEL if isinstance(column, Labels) else NUMBER
        else:
            wanted = LABEL if categorical[j] else NUMBER
        found_kinds[j] = wanted
        if wanted == LABEL:
            if not isinstance(column, Labels):
                column = _labels_of_numbers(column)
            labels.append(column)
        else:
            if isinstance(column, Labels):
                column = _numbers_of_labels(column, names[j])
            numbers.append(column)
    return Table(names, found_kinds, _stack(numbers, len(X)), labels)


def _read_number_array(
    X: NDArray[np.floating],
    names: list[str],
    categorical: NDArray[np.bool_] | None,
    kinds: NDArray[np.int8] | None,
) -> Table:
    """Read an array of floats without taking it apart where all of it is numbers."""
    if kinds is None:
        kinds = np.zeros(X.shape[1], dtype=np.int8)
        if categorical is not None:
            kinds[categorical] = LABEL
    is_number = kinds == NUMBER
    return Table(
        names,
        kinds,
        X if is_number.all() else X[:, is_number],
        [_labels_of_numbers(X[:, j]) for j in np.flatnonzero(kinds == LABEL)],
    )


def _stack(columns: list[NDArray[np.floating]], n: int) -> NDArray[np.floating]:
    if not columns:
        return np.empty((n, 0), dtype=np.float32)
    return np.stack(columns, axis=1)


def _is_empty(column: NDArray[np.floating] | Labels) -> bool:
    if isinstance(column, Labels):
        return bool((column.codes < 0).all())
    return bool(np.isnan(column).all())


def _read_column(X: Any, j: int, name: str) -> NDArray[np.floating] | Labels:
    """Read one column as what its type says: float numbers, or labels."""
    if isinstance(X, np.ndarray):
        column = _read_objects(X[:, j].tolist(), name)
    elif hasattr(X, "iloc"):
        column = _read_pandas(X.iloc[:, j], name)
    else:
        column = _read_polars(X[:, j], name)
    if not isinstance(column, Labels) and np.isinf(column).any():
        row = int(np.flatnonzero(np.isinf(column))[0])
        raise ValueError(
            f"Input X contains infinity in column {name}, row {row}. Replace it by a "
            "number, or by NaN for missing."
        )
    return column


def _read_pandas(series: Any, name: str) -> NDArray[np.floating] | Labels:
    dtype = series.dtype
    kind = getattr(dtype, "kind", "O")
    if hasattr(dtype, "categories") and hasattr(series, "cat"):
        values = series.cat.categories.tolist()
        if values and all(isinstance(value, _TEMPORAL) for value in values):
            raise _temporal(name, dtype)
        codes = series.cat.codes.to_numpy().astype(np.intp)
        return _canonical([_label(value) for value in values], codes)
    if hasattr(dtype, "subtype") and hasattr(series, "sparse"):
        series = series.sparse.to_dense()
        dtype, kind = series.dtype, getattr(series.dtype, "kind", "O")
    if kind in "mM" or str(dtype).startswith("period"):
        raise _temporal(name, dtype)
    if kind == "c":
        raise TypeError(f"Complex data not supported: column {name} is {dtype}.")
    if kind in "fiub":
        wanted = np.float32 if dtype in (np.float32, np.float16) else np.float64
        return series.to_numpy(dtype=wanted, na_value=np.nan)
    return _read_objects(series.tolist(), name)


def _read_polars(series: Any, name: str) -> NDArray[np.floating] | Labels:
    dtype = series.dtype
    if dtype.is_temporal():
        raise _temporal(name, dtype)
    if dtype.is_numeric() or str(dtype) == "Boolean":
        wanted = np.float32 if str(dtype) == "Float32" else np.float64
        return np.array(series.to_numpy(), dtype=wanted)  # None becomes NaN
    return _read_objects(series.to_list(), name)


def _temporal(name: str, dtype: object) -> TypeError:
    return TypeError(
        f"Column {name} of X holds dates or times ({dtype}), which are not taken as "
        f"they are. {_TEMPORAL_ADVICE}"
    )


def _read_objects(values: list[Any], name: str) -> NDArray[np.floating] | Labels:
    """Read Python objects: numbers where all are, otherwise labels."""
    try:
        index: dict[Any, int] = {}
        codes = np.fromiter(
            (index.setdefault(value, len(index)) for value in values),
            dtype=np.intp,
            count=len(values),
        )
    except TypeError as error:
        odd = next(value for value in values if not _is_hashable(value))
        raise _not_a_value(name, odd) from error
    unique = list(index)
    missing = [_is_missing(value) for value in unique]
    present = [v for v, gone in zip(unique, missing, strict=True) if not gone]
    for value in present:
        if isinstance(value, _TEMPORAL):
            raise _temporal(name, type(value).__name__)
        if not isinstance(value, (str, bytes, *_NUMBERS)):
            raise _not_a_value(name, value)
    if not any(isinstance(value, str | bytes) for value in present):
        numbers = [
            np.nan if gone else float(value)
            for value, gone in zip(unique, missing, strict=True)
        ]
        return np.array(numbers, dtype=np.float64)[codes]
    texts = [
        None if gone else _label(value)
        for value, gone in zip(unique, missing, strict=True)
    ]
    return _canonical(texts, codes)


def _not_a_value(name: str, value: object) -> TypeError:
    return TypeError(
        f"Column {name} of X holds a {type(value).__name__}; each value of the X "
        "argument must be a string or a number, or missing."
    )


def _is_hashable(value: object) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True


def _is_missing(value: Any) -> bool:
    """Whether a value is None, NaN, NaT or the NA of pandas."""
    if value is None or type(value).__name__ == "NAType":
        return True
    return isinstance(value, Real | Decimal | np.generic) and bool(value != value)


def _label(value: Any) -> str:
    """Text of a label; a number has the same one as int, float and bool."""
    if isinstance(value, str):
        return str(value)
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    if isinstance(value, _NUMBERS):
        number = float(value)
        return str(int(number)) if number.is_integer() else repr(number)
    return str(value)


def _canonical(texts: Sequence[str | None], codes: NDArray[np.intp]) -> Labels:
    """Number the labels anew: one code per text, none for a missing one."""
    index: dict[str, int] = {}
    new = np.full(len(texts) + 1, _MISSING, dtype=np.intp)  # the last is for code -1
    for i, text in enumerate(texts):
        if text is not None:
            new[i] = index.setdefault(text, len(index))
    return Labels(new[codes], list(index))


def _labels_of_numbers(column: NDArray[np.floating]) -> Labels:
    unique, codes = np.unique(column, return_inverse=True)
    texts = [None if np.isnan(value) else _label(float(value)) for value in unique]
    return _canonical(texts, codes)


def _numbers_of_labels(column: Labels, name: str) -> NDArray[np.float64]:
    """Read labels as numbers: NaN is missing."""
    numbers = np.full(len(column.values) + 1, np.nan)
    for i in np.unique(column.codes[column.codes >= 0]).tolist():
        text = column.values[i]
        try:
            numbers[i] = float(text)
        except ValueError as error:
            row = int(np.flatnonzero(column.codes == i)[0])
            raise ValueError(
                f"Column {name} of X is one of numbers, and row {row} holds "
                f"{text!r}. A column of text or categories is taken as it is where "
                "fit sees it as such, unless categorical_features leaves it out."
            ) from error
        if np.isinf(numbers[i]):
            raise ValueError(f"Input X contains infinity in column {name}.")
    return numbers[column.codes]
