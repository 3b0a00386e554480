"""Scaling of tables and targets on the way to float32."""

import numpy as np
import pytest
import torch

from sk_quadratic._encoding import NumericEncoder, TargetScaler


def test_columns_have_mean_zero_and_deviation_one():
    X = np.random.default_rng(0).normal([5.0, -1e6, 0.0], [1e-3, 1e4, 1e9], (500, 3))
    encoded = NumericEncoder().fit(X).transform(X)
    assert encoded.dtype == torch.float32
    np.testing.assert_allclose(encoded.mean(dim=0), 0.0, atol=1e-5)
    np.testing.assert_allclose(encoded.std(dim=0, correction=0), 1.0, rtol=1e-5)


def test_large_offset_keeps_the_digits_of_a_column():
    X = np.arange(100.0).reshape(-1, 1)
    plain = NumericEncoder().fit(X).transform(X)
    moved = NumericEncoder().fit(X + 1e9).transform(X + 1e9)
    np.testing.assert_allclose(moved, plain, atol=1e-6)


def test_constant_column_becomes_zero_and_stays_finite_elsewhere():
    X = np.full((10, 1), 0.1)
    encoder = NumericEncoder().fit(X)
    # The mean of ten times 0.1 may differ from it in the last bit.
    np.testing.assert_allclose(encoder.transform(X), 0.0, atol=1e-15)
    assert np.isfinite(encoder.transform(X + 7.0).numpy()).all()


def test_chunks_do_not_change_the_result(monkeypatch):
    X = np.random.default_rng(0).normal(size=(100, 3))
    whole = NumericEncoder().fit(X).transform(X)
    monkeypatch.setattr("sk_quadratic._encoding._ROWS_PER_CHUNK", 7)
    assert torch.equal(NumericEncoder().fit(X).transform(X), whole)


def test_single_and_double_precision_tables_are_encoded_alike():
    X = np.random.default_rng(0).normal(size=(100, 3)).astype(np.float32)
    single = NumericEncoder().fit(X)
    double = NumericEncoder().fit(X.astype(np.float64))
    np.testing.assert_allclose(single.mean_, double.mean_, rtol=1e-9)
    torch.testing.assert_close(single.transform(X), double.transform(X.astype(float)))


@pytest.mark.parametrize(
    ("names", "column"), [(None, "column 1 have"), (["size", "price"], "'price' have")]
)
def test_column_without_a_finite_variance_is_named(names, column):
    X = np.array([[0.0, -1e300], [1.0, 1e300]])
    with pytest.raises(ValueError, match=f"{column} no finite variance"):
        NumericEncoder().fit(X, names)


def test_column_that_overflows_in_predict_is_named():
    encoder = NumericEncoder().fit(np.eye(3), ["a", "b", "c"])
    far = np.array([[0.0, 0.0, -1e200], [0.0, 1e200, 0.0]])
    with pytest.raises(ValueError, match="column 'b', 'c' are too far"):
        encoder.transform(far)


def test_target_comes_back_in_its_own_units():
    y = np.random.default_rng(0).normal(1e6, 1e3, 200)
    scaler = TargetScaler().fit(y)
    z = scaler.transform(y)
    assert z.shape == (200, 1)
    assert z.dtype == torch.float32
    assert float(z.std(correction=0)) == pytest.approx(1.0, rel=1e-5)
    back = scaler.inverse_transform(z.numpy())
    assert back.dtype == np.float64
    np.testing.assert_allclose(back, y, atol=1e-6 * y.std() * 10)


@pytest.mark.parametrize("value", [0.0, -7.25e-12, 1e9, 1e300])
def test_constant_target_comes_back_exactly(value):
    y = np.full(83, value)
    scaler = TargetScaler().fit(y)
    assert not scaler.transform(y).any()
    assert np.array_equal(scaler.inverse_transform(np.ones((3, 1))), y[:3])


def test_target_without_a_finite_variance_is_refused():
    with pytest.raises(ValueError, match="y has values too large"):
        TargetScaler().fit(np.array([-1e300, 1e300]))


def test_tiny_target_keeps_its_variation():
    y = np.random.default_rng(0).normal(size=50)
    plain, tiny = TargetScaler().fit(y), TargetScaler().fit(y * 1e-300)
    np.testing.assert_allclose(
        tiny.transform(y * 1e-300), plain.transform(y), atol=1e-6
    )
