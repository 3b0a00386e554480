"""Merging of equal rows."""

import numpy as np
import pandas as pd

from sk_quadratic._columns import read_table
from sk_quadratic._rows import merge_equal_rows

FRAME = pd.DataFrame(
    {
        "x": [1.0, 2.0, 1.0, np.nan, 0.0, np.nan, -0.0],
        "t": ["a", "a", "a", None, "b", None, "b"],
    }
)
Y = np.array([[1.0], [1.0], [1.0], [2.0], [3.0], [2.0], [3.0]])


def merged(frame, y, weight=None):
    rows, summed = merge_equal_rows(read_table(frame), y, weight)
    summed = np.ones(len(rows)) if summed is None else summed
    return [(*frame.iloc[r], y[r, 0], w) for r, w in zip(rows, summed, strict=True)]


def test_equal_rows_become_one_with_their_number_as_weight():
    found = sorted(merged(FRAME, Y), key=repr)
    assert [(str(x), t if t == t and t else "None", y, w) for x, t, y, w in found] == [
        ("0.0", "b", 3.0, 2.0),
        ("1.0", "a", 1.0, 2.0),
        ("2.0", "a", 1.0, 1.0),
        ("nan", "None", 2.0, 2.0),
    ]


def test_rows_of_other_targets_are_others():
    y = np.arange(7.0)[:, None]
    rows, weight = merge_equal_rows(read_table(FRAME), y)
    assert sorted(rows) == list(range(7))
    assert weight is None


def test_order_of_the_rows_and_units_do_not_matter():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(50, 3)), rng.normal(size=(50, 1))
    plain, _ = merge_equal_rows(read_table(X), y)
    order = rng.permutation(50)
    moved, _ = merge_equal_rows(read_table(X[order]), y[order])
    assert np.array_equal(order[moved], plain)
    scaled, _ = merge_equal_rows(read_table(1e9 * X + [1e3, 0.0, -7.0]), y / 3 - 1)
    assert np.array_equal(scaled, plain)
    single, _ = merge_equal_rows(read_table(X.astype(np.float32)), y)
    assert np.array_equal(single, plain)
    assert not np.array_equal(plain, np.arange(50))


def test_weights_are_repeated_rows_and_zero_is_none():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.normal(size=30), "t": rng.choice(list("ab"), 30)})
    y, weight = rng.normal(size=(30, 1)), rng.integers(0, 4, 30).astype(float)
    again = rng.permutation(np.repeat(np.arange(30), weight.astype(int)))
    assert merged(frame, y, weight) == merged(frame.iloc[again], y[again])


def test_equal_weights_are_no_weights():
    X, y = np.arange(6.0)[:, None], np.zeros((6, 1))
    _, weight = merge_equal_rows(read_table(X), y, np.full(6, 7.0))
    assert weight is None


def test_rows_that_meet_in_their_keys_alone_stay_apart(monkeypatch):
    def keys(table, y, rows):
        return np.zeros(len(rows), dtype=np.uint64)

    monkeypatch.setattr("sk_quadratic._rows._row_keys", keys)
    X = np.array([[1.0], [1.0], [2.0]])
    rows, weight = merge_equal_rows(read_table(X), np.zeros((3, 1)))
    assert rows.tolist() == [0, 2]
    assert weight.tolist() == [2.0, 1.0]
