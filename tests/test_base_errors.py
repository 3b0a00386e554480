"""The estimators: devices, bad input and bad parameters, each with its message."""

import numpy as np
import pandas as pd
import pytest
import torch
from _quick import BOTH, quick

from sk_quadratic._base import check_device, resolve_batch_size
from sk_quadratic.estimators import BranchMLPRegressor, QuadraticGramRegressor

# Devices ----------------------------------------------------------------------


def test_unknown_and_absent_devices_are_refused(small_table):
    with pytest.raises(ValueError, match=r"device must be .*'cuda'.*got 'toaster'"):
        quick(QuadraticGramRegressor, device="toaster").fit(*small_table)
    with pytest.raises(ValueError, match="device='xla' is not available"):
        check_device("xla")
    assert check_device(torch.device("cpu")) == check_device("cpu") == "cpu"


def test_cuda_is_not_replaced_in_silence(small_table, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ValueError, match="device='cuda' is not available"):
        quick(QuadraticGramRegressor, device="cuda").fit(*small_table)
    assert check_device("auto") == "cpu"
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    assert check_device("auto") == "cuda"
    with pytest.raises(
        ValueError, match=r"device='cuda:1' is not available.* has 1 of"
    ):
        check_device("cuda:1")


@pytest.mark.gpu
@BOTH
def test_cuda_trains_the_model_of_the_cpu(make, small_table):
    X, y = small_table
    on_cpu = quick(make, early_stopping=True, device="cpu").fit(X, y)
    on_gpu = quick(make, early_stopping=True, device="cuda").fit(X, y)
    assert all(p.is_cuda for p in on_gpu.module_.parameters())
    np.testing.assert_allclose(
        on_gpu.predict(X), on_cpu.predict(X), atol=0.02 * y.std()
    )


# Bad input --------------------------------------------------------------------


@BOTH
@pytest.mark.parametrize(
    ("where", "value", "message"),
    [
        ("X", np.inf, "Input X contains infinity"),
        ("y", np.nan, "Input y contains NaN"),
        ("y", -np.inf, "Input y contains infinity"),
    ],
)
def test_nan_and_infinity_are_refused(make, where, value, message, small_table):
    X, y = small_table
    (X if where == "X" else y)[3] = value
    with pytest.raises(ValueError, match=message):
        quick(make).fit(X, y)


@BOTH
@pytest.mark.parametrize(
    ("shape", "message"),
    [
        (lambda X: X[:, 0], "Expected 2D array, got 1D array"),
        (lambda X: X[:, :, None], "dim 3"),
        (lambda X: X[:0], "0 sample"),
        (lambda X: X[:, :0], r"0 feature\(s\)"),
    ],
)
def test_wrong_shapes_are_refused(make, shape, message, small_table):
    X, y = small_table
    bad = shape(X)
    with pytest.raises(ValueError, match=message):
        quick(make).fit(bad, y[: len(bad)])
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        quick(make).fit(X, y[:-1])
    with pytest.raises(ValueError, match=r"y must have shape .*got \(80, 1, 1\)"):
        quick(make).fit(X, y[:, None, None])


@BOTH
@pytest.mark.parametrize(
    "parameters",
    [
        {"learning_rate": 0.0},
        {"learning_rate": "fast"},
        {"learning_rate_schedule": "linear"},
        {"weight_decay": -1.0},
        {"batch_size": 0},
        {"batch_size": "huge"},
        {"max_epochs": 0},
        {"early_stopping": "yes"},
        {"validation_fraction": 1.0},
        {"n_iter_no_change": 0},
        {"tol": -1e-3},
        {"width": 0},
        {"n_blocks": 0},
        {"n_branches": 2.5},
        {"activation": "sin"},
        {"loss": "log_loss"},
        {"device": 0},
        {"random_state": -1},
        {"callbacks": "stop"},
    ],
)
def test_bad_parameters_are_named_in_fit_not_in_init(make, parameters, small_table):
    model = make(**parameters)
    (name,) = parameters
    with pytest.raises(ValueError, match=f"The '{name}' parameter of {make.__name__}"):
        model.fit(*small_table)


@pytest.mark.parametrize(
    "parameters",
    [
        {"n_heads": 0},
        {"rank": 0},
        {"structure": "half"},
        {"structure_rank": 0},
        {"hidden_width": 0},
        {"init_scale": 0.0},
    ],
)
def test_bad_parameters_of_the_form_are_named(parameters, small_table):
    (name,) = parameters
    message = f"The '{name}' parameter of QuadraticGramRegressor"
    with pytest.raises(ValueError, match=message):
        QuadraticGramRegressor(**parameters).fit(*small_table)


def test_several_blocks_need_a_stem(small_table):
    model = quick(BranchMLPRegressor, width=None, n_blocks=2)
    with pytest.raises(ValueError, match="n_blocks must be 1 with width=None"):
        model.fit(*small_table)


def test_validation_part_that_leaves_nothing_is_refused(small_table):
    X, y = small_table
    model = quick(BranchMLPRegressor, early_stopping=True, validation_fraction=0.9)
    with pytest.raises(ValueError, match="leaves no row to train on: n_samples=2"):
        model.fit(X[:2], y[:2])


@BOTH
def test_targets_that_are_too_large_are_refused(make, small_table):
    X, y = small_table
    y[1] = 1e300
    with pytest.raises(ValueError, match="y has values too large"):
        quick(make).fit(X, y)
    with pytest.raises(ValueError, match=r"y has values .* too far to be trained on"):
        quick(make, loss="absolute_error").fit(X, y)


def test_infinity_in_a_frame_is_refused_by_column(small_table):
    X, y = small_table
    frame = pd.DataFrame(X, columns=list("abcd"))
    frame.loc[frame.index[7], "c"] = -np.inf
    with pytest.raises(ValueError, match="infinity in column 'c', row 7"):
        quick(QuadraticGramRegressor).fit(frame, y)


@BOTH
def test_prediction_that_overflows_is_refused(make, small_table):
    X, y = small_table
    model = quick(make).fit(X, y)
    with torch.no_grad():
        for parameter in model.module_.parameters():
            parameter *= 1e30
    with pytest.raises(ValueError, match="prediction of row 0 is not finite"):
        model.predict(X)


# Batch size -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("n_rows", "expected"),
    [(5, 5), (100, 32), (800, 64), (1400, 64), (1500, 128), (3000, 256), (10**6, 256)],
)
def test_automatic_batch_size_grows_with_the_table(n_rows, expected):
    assert resolve_batch_size("auto", n_rows) == expected


def test_batch_size_is_at_most_the_table():
    assert resolve_batch_size(1024, 20) == 20
    assert resolve_batch_size(np.int64(7), 20) == 7
