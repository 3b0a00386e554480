"""Reading of frames, arrays and lists, column by column."""

import datetime
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pytest

from sk_quadratic._columns import (
    EMPTY,
    LABEL,
    NUMBER,
    as_frame_or_array,
    read_table,
    resolve_categorical,
)

NAN = np.nan


def one(values, **parameters):
    """Read a frame of one column x: its numbers, or its labels with None missing."""
    frame = values if hasattr(values, "columns") else pd.DataFrame({"x": values})
    table = read_table(frame, feature_names=["x"], **parameters)
    if table.kinds[0] == LABEL:
        (labels,) = table.labels
        return [None if code < 0 else labels.values[code] for code in labels.codes]
    return table.numbers[:, 0].tolist() if table.numbers.shape[1] else None


NUMBERS = {
    "int": pd.Series([3, 1, 2]),
    "bool": pd.Series([True, False, True]),
    "float16": pd.Series([0.5, NAN, 2.0], dtype="float16"),
    "Int64": pd.Series([3, None, 2], dtype="Int64"),
    "Float64": pd.Series([3.5, None, 2.0], dtype="Float64"),
    "boolean": pd.Series([True, None, False], dtype="boolean"),
    "arrow int": pd.Series([3, None, 2], dtype="int32[pyarrow]"),
    "arrow bool": pd.Series([True, None, False], dtype="bool[pyarrow]"),
    "objects": pd.Series([1, 2.5, None], dtype=object),
    "Decimals": pd.Series([Decimal("1.5"), Decimal("NaN"), None], dtype=object),
    "bools and NA": pd.Series([True, pd.NA, np.False_], dtype=object),
    "sparse": pd.Series(pd.arrays.SparseArray([0.0, 0.0, 2.0])),
}


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_of_any_pandas_type_are_numbers(name):
    values = [NAN if pd.isna(v) else float(v) for v in NUMBERS[name]]
    np.testing.assert_array_equal(one(NUMBERS[name]), values)


LABELS = {
    "object": pd.Series(["a", None, "b"], dtype=object),
    "NaN and NA": pd.Series(["a", NAN, pd.NA], dtype=object),
    "string": pd.Series(["a", None, "b"], dtype="string"),
    "arrow string": pd.Series(["a", None, "b"], dtype="string[pyarrow]"),
    "category": pd.Series(["a", None, "b"], dtype="category"),
    "ordered": pd.Series(pd.Categorical(["a", None, "b"], ["b", "a"], ordered=True)),
}


@pytest.mark.parametrize("name", LABELS)
def test_text_and_categories_of_any_pandas_type_are_labels(name):
    values = [None if pd.isna(v) else v for v in LABELS[name]]
    assert one(LABELS[name]) == values


def test_numbers_as_categories_have_one_label_in_every_type():
    for values in ([1, 2, 1], [1.0, 2.0, 1.0], [True, 2, True], ["1", "2", 1]):
        assert one(pd.Series(values, dtype=object).astype("category")) == [
            "1",
            "2",
            "1",
        ]
    mask = np.array([True])
    assert one([1, 2, 1], categorical=mask) == ["1", "2", "1"]
    assert one([1.0, NAN, 0.5], categorical=mask) == ["1", None, "0.5"]
    assert one(["1", 1, 1.0]) == ["1", "1", "1"]


def test_intervals_of_a_cut_column_are_labels():
    assert one(pd.cut(pd.Series([1.0, 9.0]), [0, 5, 10])) == ["(0, 5]", "(5, 10]"]


def test_polars_types_are_read_as_those_of_pandas():
    frame = pl.DataFrame(
        {
            "i": [1, None, 3],
            "f": pl.Series([0.5, None, 2.0], dtype=pl.Float32),
            "b": [True, None, False],
            "d": pl.Series([1, None, 2], dtype=pl.Int8),
            "s": ["u", None, "v"],
            "c": pl.Series(["u", None, "v"], dtype=pl.Categorical),
            "e": pl.Series(["u", None, "v"], dtype=pl.Enum(["v", "u"])),
            "n": pl.Series([None, None, None]),
        }
    )
    table = read_table(frame, feature_names=frame.columns)
    assert table.kinds.tolist() == [NUMBER] * 4 + [LABEL] * 3 + [EMPTY]
    wanted = [[1, 0.5, 1, 1], [NAN] * 4, [3, 2, 0, 2]]
    np.testing.assert_array_equal(table.numbers, wanted)
    for labels in table.labels:
        assert [labels.values[c] for c in labels.codes if c >= 0] == ["u", "v"]
        assert labels.codes[1] == -1


TIMES = {
    "datetime": pd.Series(pd.date_range("2020-01-01", periods=3)),
    "zone": pd.Series(pd.date_range("2020-01-01", periods=3, tz="UTC")),
    "timedelta": pd.Series(pd.to_timedelta([1, 2, 3], unit="D")),
    "period": pd.Series(pd.period_range("2020-01", periods=3, freq="M")),
    "dates": pd.Series([datetime.date(2020, 1, 1), None, None], dtype=object),
    "arrow": pd.Series([datetime.date(2020, 1, 1)] * 3, dtype="date32[pyarrow]"),
    "category": pd.Series(pd.date_range("2020-01-01", periods=3)).astype("category"),
}


@pytest.mark.parametrize("name", TIMES)
def test_times_are_refused_by_name_with_what_to_do(name):
    with pytest.raises(
        TypeError, match=r"Column 'x' of X holds dates or times.*as numbers"
    ):
        one(TIMES[name])


def test_times_of_polars_are_refused_by_name():
    frame = pl.DataFrame({"x": [datetime.datetime(2020, 1, 1)]})
    with pytest.raises(TypeError, match=r"Column 'x' of X holds dates.*numbers"):
        one(frame)


@pytest.mark.parametrize("value", [{"a": 1}, [1, 2], (1, 2), 1j, object()])
def test_other_objects_are_refused_by_name(value):
    column = pd.Series([1.0, None, None], dtype=object)
    column.iloc[1] = value
    with pytest.raises(TypeError, match=r"Column 'x' of X holds a \w+; each value"):
        one(pd.DataFrame({"x": column}))


def test_complex_column_is_refused_by_name():
    with pytest.raises(TypeError, match="Complex data not supported: column 'x'"):
        one(np.array([1j, 2j]))


def test_column_keeps_what_it_counted_as_in_fit():
    number, label = np.array([NUMBER], np.int8), np.array([LABEL], np.int8)
    assert one(["2.5", None, "1"], kinds=number)[::2] == [2.5, 1.0]
    with pytest.raises(ValueError, match=r"Column 'x' .* numbers, and row 1 .* 'NA'"):
        one(["2.5", "NA", "1"], kinds=number)
    assert one([2, None, 1], kinds=label) == ["2", None, "1"]
    assert one([2.0, 7.5], kinds=np.array([EMPTY], np.int8)) is None


def test_lists_with_text_keep_their_numbers():
    table = read_table(as_frame_or_array([[1, "a"], [2.5, None], [None, "b"]]))
    assert table.kinds.tolist() == [NUMBER, LABEL]
    np.testing.assert_array_equal(table.numbers[:, 0], [1, 2.5, NAN])


def test_arrow_tables_are_taken_and_lazy_frames_refused():
    pa = pytest.importorskip("pyarrow")
    frame = as_frame_or_array(pa.table({"x": [1.0, 2.0], "t": ["a", "b"]}))
    assert list(frame.columns) == ["x", "t"]
    with pytest.raises(TypeError, match=r"lazy frame; pass X\.collect\(\)"):
        as_frame_or_array(pl.DataFrame({"x": [1]}).lazy())


def test_nothing_is_written_into_the_frame():
    frame = pd.DataFrame({"x": [1.0, NAN], "t": ["a", None], "b": [True, False]})
    before = frame.copy(deep=True)
    read_table(frame)
    pd.testing.assert_frame_equal(frame, before)


# categorical_features ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "mask"),
    [
        (["b"], [False, True, False]),
        ([0, 2], [True, False, True]),
        (np.array([False, True, True]), [False, True, True]),
        ([], [False, False, False]),
        (None, [False, False, False]),
        ("from_dtype", None),
    ],
)
def test_categorical_features_are_names_indices_or_a_mask(given, mask):
    found = resolve_categorical(given, 3, ["a", "b", "c"])
    assert found is None if mask is None else found.tolist() == mask


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["z"], "names 'z', which is not a column"),
        ([3], r"within \[0, n_features - 1\] = \[0, 2\]; got \[3\]"),
        ([-1], "within"),
        ([True, False], "one entry per feature, 3; got 2"),
        ("a", "must be 'from_dtype'.*For one column give a list"),
        ([0.5], "list of names, of indices or a boolean mask"),
    ],
)
def test_wrong_categorical_features_are_refused(given, message):
    with pytest.raises(ValueError, match=message):
        resolve_categorical(given, 3, ["a", "b", "c"])


def test_names_need_a_frame_with_names():
    with pytest.raises(ValueError, match=r"frame with string names.*Give indices"):
        resolve_categorical(["a"], 3, None)
