"""Tables from files and data frames: the target, the numeric columns, complete rows."""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

TABLE_SUFFIXES = (".csv", ".csv.gz", ".parquet", ".pq")
"""File names that are read as tables."""

INSTALL_HINT = 'pip install "sk-quadratic[compare]"'
"""What installs the optional dependencies of comparisons."""

_SHOWN_COLUMNS = 30


class NumericTable(NamedTuple):
    """Complete rows of the numeric columns, and what was left out to get there."""

    X: np.ndarray
    y: np.ndarray
    feature_names: tuple[str, ...]
    notes: tuple[str, ...]


def is_table_path(name: str) -> bool:
    """Tell whether a name is meant as a file: by its suffix, or a separator in it."""
    return name.lower().endswith(TABLE_SUFFIXES) or len(Path(name).parts) > 1


def import_pandas(purpose: str) -> Any:
    """Import pandas, or say what it is needed for and how to get it."""
    try:
        import pandas
    except ImportError as error:
        message = f"{purpose} needs pandas. Install it with: {INSTALL_HINT}"
        raise ImportError(message) from error
    return pandas


def read_table(path: str | Path) -> Any:
    """Read a CSV or Parquet file into a data frame.

    Only an empty field of a CSV file is missing: words such as ``None`` and ``NA``
    are values.
    """
    path = Path(path).expanduser()
    name = path.name.lower()
    if not name.endswith(TABLE_SUFFIXES):
        allowed = ", ".join(TABLE_SUFFIXES)
        raise ValueError(
            f"A table's file name must end in one of {allowed}; got {path}."
        )
    pandas = import_pandas(f"Reading {path.name}")
    if not path.is_file():
        what = "is a folder, not a file" if path.is_dir() else "does not exist"
        raise FileNotFoundError(f"The file {path} {what}.")
    try:
        if name.endswith((".parquet", ".pq")):
            return pandas.read_parquet(path)
        return pandas.read_csv(path, keep_default_na=False, na_values=[""])
    except ImportError as error:
        message = f"Reading {path.name} needs pyarrow. Install it with: {INSTALL_HINT}"
        raise ImportError(message) from error
    except (ValueError, OSError, EOFError) as error:
        kind = "Parquet" if name.endswith((".parquet", ".pq")) else "CSV"
        raise ValueError(f"Cannot read {path} as {kind}: {error}") from error


def numeric_table(frame: Any, target: str, source: str) -> NumericTable:
    """Split off the target and keep the numeric columns and the complete rows."""
    frame = frame.rename(columns=str)
    if len(frame) == 0:
        raise ValueError(f"{source} has no rows.")
    _check_target(frame, target, source)
    features = frame.drop(columns=target)
    notes = []
    dropped = [c for c in features if not _is_numeric(features[c])]
    if dropped:
        columns = "column" if len(dropped) == 1 else "columns"
        notes.append(
            f"{len(dropped)} {columns} of {source} left out as not numeric: "
            f"{_listing(dropped)}."
        )
        features = features.drop(columns=dropped)
    empty = [c for c in features if features[c].isna().all()]
    if empty:
        columns = "column" if len(empty) == 1 else "columns"
        notes.append(
            f"{len(empty)} {columns} of {source} left out as empty: {_listing(empty)}."
        )
        features = features.drop(columns=empty)
    if features.shape[1] == 0:
        raise ValueError(
            f"{source} must have at least one numeric column beside the target "
            f"{target!r}; got {_listing(frame.drop(columns=target)) or 'none'}."
        )
    names = tuple(features.columns)
    X = features.to_numpy(dtype=np.float64, na_value=np.nan)
    y = frame[target].to_numpy(dtype=np.float64, na_value=np.nan)
    _check_finite(X, y, (*names, target), source)
    complete = ~(np.isnan(X).any(axis=1) | np.isnan(y))
    n_dropped = len(y) - int(complete.sum())
    if n_dropped:
        notes.append(
            f"{n_dropped} of {len(y)} rows of {source} left out for missing values."
        )
    if not complete.any():
        raise ValueError(f"{source} has no row without missing values; got {len(y)}.")
    return NumericTable(X[complete], y[complete], names, tuple(notes))


def _check_target(frame: Any, target: str, source: str) -> None:
    columns = list(frame.columns)
    if target not in columns:
        close = difflib.get_close_matches(target, columns, n=1)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        if len(columns) == 1 and any(mark in columns[0] for mark in ";\t|"):
            hint = " The fields of the file must be separated by commas."
        raise ValueError(
            f"The target column {target!r} is not in {source}; its columns are "
            f"{_listing(columns)}.{hint}"
        )
    if columns.count(target) > 1:
        raise ValueError(f"The target column {target!r} must be once in {source}.")
    if not _is_numeric(frame[target]):
        raise ValueError(
            f"The target column {target!r} of {source} must be numeric; got "
            f"{frame[target].dtype}."
        )


def _check_finite(
    X: np.ndarray, y: np.ndarray, names: tuple[str, ...], source: str
) -> None:
    infinite = np.isinf(np.column_stack([X, y])).any(axis=0)
    if infinite.any():
        columns = _listing([n for n, bad in zip(names, infinite, strict=True) if bad])
        raise ValueError(f"{source} must be finite; got infinite values in {columns}.")


def _is_numeric(column: Any) -> bool:
    return getattr(column.dtype, "kind", "O") in "biuf"


def _listing(names: Any) -> str:
    """Names in quotes, the end of a long list left out."""
    names = list(names)
    shown = ", ".join(repr(str(n)) for n in names[:_SHOWN_COLUMNS])
    more = len(names) - _SHOWN_COLUMNS
    return f"{shown} and {more} more" if more > 0 else shown
