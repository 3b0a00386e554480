"""Encoding of tables and scaling of targets on the way to float32."""

import numpy as np
import pandas as pd
import pytest
import torch

from sk_quadratic._columns import read_table
from sk_quadratic._encoding import MISSING, UNKNOWN, TableEncoder
from sk_quadratic._targets import TargetScaler


def encode(X, **parameters):
    table = read_table(X)
    return TableEncoder().fit(table, **parameters).transform(table)


def table_of(*labels):
    return read_table(pd.DataFrame({"t": list(labels)}))


# Numbers --------------------------------------------------------------------------


def test_quartiles_of_a_column_lie_as_those_of_a_standard_normal_variable():
    X = np.random.default_rng(0).normal([5.0, -1e6, 0.0], [1e-3, 1e4, 1e9], (501, 3))
    encoded = encode(X)
    assert encoded.dtype == torch.float32
    low, middle, high = np.quantile(encoded, [0.25, 0.5, 0.75], axis=0)
    clipped = 0.6745 / np.sqrt(1 + (0.6745 / 3) ** 2)
    np.testing.assert_allclose(middle, 0.0, atol=1e-6)
    np.testing.assert_allclose(high - low, 2 * clipped, rtol=0.02)


def test_wild_values_are_clipped_and_move_nothing_else():
    x = np.random.default_rng(0).normal(size=(400, 1))
    wild = x.copy()
    wild[7] = 1e9
    encoded, plain = encode(wild), encode(x)
    others = np.arange(400) != 7
    np.testing.assert_allclose(encoded[others], plain[others], atol=0.03)
    assert float(encoded[7]) == pytest.approx(3.0, abs=1e-4)
    for extreme in (1e300, -1e300, np.finfo(float).max):
        wild[7] = extreme
        assert abs(float(encode(wild)[7])) == pytest.approx(3.0, abs=1e-4)


def test_large_offset_keeps_the_digits_of_a_column():
    X = np.arange(100.0).reshape(-1, 1)
    np.testing.assert_allclose(encode(X + 1e9), encode(X), atol=1e-6)


@pytest.mark.parametrize("unit", [1e-300, 1e300, -4.0])
def test_unit_of_a_column_does_not_matter(unit):
    X = np.random.default_rng(0).normal(size=(100, 2))
    sign = np.sign(unit)
    torch.testing.assert_close(encode(X * unit), sign * encode(X), atol=1e-6, rtol=1e-5)


def test_mostly_equal_numbers_are_scaled_by_their_wider_quantiles():
    x = np.zeros((200, 1))
    x[:20, 0] = np.linspace(1.0, 2.0, 20)  # a tenth: the quartiles are equal
    x[0] = 1e9
    encoded = encode(x).numpy().ravel()
    assert (encoded[20:] == 0.0).all()
    assert (encoded[1:20] > 0.3).all()
    assert np.isfinite(encoded).all()


def test_constant_column_is_zero_whatever_comes_later():
    encoder = TableEncoder().fit(read_table(np.full((10, 1), 0.1)))
    for value in (0.1, 7.0, -1e300, np.nan):
        assert not encoder.transform(read_table(np.full((3, 1), value))).any()


def test_chunks_do_not_change_the_result(monkeypatch):
    X = np.random.default_rng(0).normal(size=(100, 3))
    X[::9, 1] = np.nan
    whole = encode(X)
    monkeypatch.setattr("sk_quadratic._encoding._ROWS_PER_CHUNK", 7)
    assert torch.equal(encode(X), whole)


def test_single_and_double_precision_tables_are_encoded_alike():
    X = np.random.default_rng(0).normal(size=(100, 3)).astype(np.float32)
    torch.testing.assert_close(encode(X), encode(X.astype(np.float64)))


# Missing numbers ------------------------------------------------------------------


def test_missing_number_is_the_median_with_an_indicator():
    x = np.array([[1.0, 5.0], [np.nan, 6.0], [3.0, 7.0], [2.0, 8.0]])
    encoder = TableEncoder().fit(read_table(x))
    encoded = encoder.transform(read_table(x))
    assert encoded.shape == (4, 3)
    assert encoder.feature_of_column.tolist() == [0, 1, 0]
    assert encoded[1, 0] == 0.0
    assert encoded[:, 2].tolist() == [0.0, 1.0, 0.0, 0.0]
    later = encoder.transform(read_table(np.array([[2.0, np.nan]])))
    assert torch.isfinite(later).all()


def test_column_that_is_missing_in_all_training_rows_is_left_to_its_indicator():
    x = np.array([[1.0, np.nan], [2.0, np.nan], [3.0, 4.0]])
    table = read_table(x)
    encoded = TableEncoder().fit(table, np.array([0, 1])).transform(table)
    assert encoded[:, 1].tolist() == [0.0, 0.0, 0.0]
    assert encoded[:, 2].tolist() == [1.0, 1.0, 0.0]


# Labels ---------------------------------------------------------------------------


def test_labels_have_codes_and_so_have_missing_rare_and_unknown_ones():
    table = table_of("b", "a", "b", "a", "b", None, "once")
    encoder = TableEncoder().fit(table)
    assert encoder.categories_[0].tolist() == ["b", "a"]
    codes = encoder.transform(table)[:, 0].tolist()
    assert codes == [2.0, 3.0, 2.0, 3.0, 2.0, MISSING, UNKNOWN]
    assert encoder.transform(table_of("z", "a"))[:, 0].tolist() == [UNKNOWN, 3.0]
    assert encoder.n_codes == [4]


def test_number_of_categories_is_bounded_and_the_most_frequent_are_kept():
    labels = [f"n{i}" for i in range(1000) for _ in range(2)] + ["often"] * 5
    encoder = TableEncoder().fit(table_of(*labels))
    assert encoder.n_codes == [256]
    assert encoder.categories_[0][0] == "often"


def test_only_training_rows_make_categories():
    table = table_of("a", "a", "b", "b")
    encoder = TableEncoder().fit(table, np.array([0, 1]))
    assert encoder.categories_ == []  # nothing to tell apart
    encoder = TableEncoder().fit(table_of("a", "a", "b", "c", "c"), np.array([0, 1, 2]))
    assert encoder.categories_[0].tolist() == ["a"]


def test_column_of_one_label_is_left_out_whatever_comes_later():
    encoder = TableEncoder().fit(table_of("a", "a", "a"))
    assert not encoder.transform(table_of("a", "b", None)).any()


def test_state_goes_through_json_and_back():
    import json

    frame = pd.DataFrame({"x": [1.0, np.nan, 3.0, 9.5], "t": ["a", "b", "a", None]})
    table = read_table(frame)
    encoder = TableEncoder().fit(table, min_count=0.0)
    other = TableEncoder.from_state(json.loads(json.dumps(encoder.get_state())))
    assert torch.equal(other.transform(table), encoder.transform(table))


def test_table_without_a_usable_column_becomes_zeros():
    table = read_table(pd.DataFrame({"x": [np.nan, np.nan], "t": [None, None]}))
    encoder = TableEncoder().fit(table)
    assert encoder.transform(table).tolist() == [[0.0], [0.0]]


# Targets --------------------------------------------------------------------------


def test_target_comes_back_in_its_own_units():
    y = np.random.default_rng(0).normal(1e6, 1e3, (200, 1))
    scaler = TargetScaler("deviation").fit(y)
    z = scaler.transform(y)
    assert z.shape == (200, 1)
    assert z.dtype == torch.float32
    assert float(z.std(correction=0)) == pytest.approx(1.0, rel=1e-5)
    back = scaler.inverse_transform(z.numpy())
    assert back.dtype == np.float64
    np.testing.assert_allclose(back, y, atol=1e-6 * y.std() * 10)


@pytest.mark.parametrize("scaling", ["deviation", "quartiles"])
@pytest.mark.parametrize("value", [0.0, -7.25e-12, 1e9, 1e300])
def test_constant_target_comes_back_exactly(scaling, value):
    y = np.full((83, 1), value)
    scaler = TargetScaler(scaling).fit(y)
    assert not scaler.transform(y).any()
    assert np.array_equal(scaler.inverse_transform(np.ones((3, 1))), y[:3])


def test_target_without_a_finite_variance_is_refused():
    with pytest.raises(ValueError, match="y has values too large"):
        TargetScaler("deviation").fit(np.array([[-1e300], [1e300]]))


def test_tiny_target_keeps_its_variation():
    y = np.random.default_rng(0).normal(size=(50, 1))
    for scaling in ("deviation", "quartiles"):
        plain, tiny = (TargetScaler(scaling).fit(y * u) for u in (1.0, 1e-300))
        np.testing.assert_allclose(
            tiny.transform(y * 1e-300), plain.transform(y), atol=1e-6
        )


def test_scaling_by_quartiles_is_not_moved_by_a_wild_target():
    y = np.random.default_rng(0).normal(5.0, 2.0, (1000, 1))
    y[3] = 1e9
    scaler = TargetScaler("quartiles").fit(y)
    assert scaler.center_[0] == pytest.approx(5.0, abs=0.3)
    assert scaler.scale_[0] == pytest.approx(2.0, abs=0.3)


def test_counts_are_divided_by_their_mean():
    y = np.array([[0.0], [2.0], [4.0]])
    scaler = TargetScaler("mean").fit(y)
    assert scaler.transform(y).tolist() == [[0.0], [1.0], [2.0]]
    np.testing.assert_allclose(scaler.inverse_transform(np.log([[0.5]])), [[1.0]])


@pytest.mark.parametrize("scaling", ["deviation", "quartiles", "mean"])
def test_integer_weights_scale_a_target_as_repeated_rows_do(scaling):
    rng = np.random.default_rng(0)
    y, w = rng.gamma(2.0, size=(40, 2)), rng.integers(1, 4, 40).astype(float)
    weighted = TargetScaler(scaling).fit(y, w)
    repeated = TargetScaler(scaling).fit(np.repeat(y, w.astype(int), axis=0))
    rtol = 0.1 if scaling == "quartiles" else 1e-12  # interpolated between the rows
    np.testing.assert_allclose(weighted.center_, repeated.center_, rtol=rtol)
    np.testing.assert_allclose(weighted.scale_, repeated.scale_, rtol=rtol)
