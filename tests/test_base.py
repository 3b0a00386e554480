"""The estimators: learning, kinds of input, seeds, and life in scikit-learn."""

import copy
import pickle
import random
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import pytest
import torch
from _quick import BOTH, quick
from scipy import sparse
from sklearn.datasets import load_diabetes, make_friedman1
from sklearn.exceptions import DataConversionWarning
from sklearn.metrics import r2_score
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sk_quadratic.estimators import BranchMLPRegressor, QuadraticGramRegressor

# Learning ---------------------------------------------------------------------


@BOTH
def test_defaults_learn_real_and_generated_data(make):
    X, y = make_friedman1(n_samples=1000, noise=1.0, random_state=0)
    model = make(random_state=0).fit(X[:800], y[:800])
    assert model.score(X[800:], y[800:]) > 0.9  # about 0.95 is the best possible
    X, y = load_diabetes(return_X_y=True)
    scores = cross_val_score(make(random_state=0), X, y, cv=3)
    assert scores.mean() > 0.35  # ridge has about 0.48


@BOTH
@pytest.mark.parametrize("loss", ["squared_error", "absolute_error", "huber"])
def test_every_loss_learns(make, loss, small_table):
    X, y = small_table
    assert quick(make, loss=loss, max_epochs=100).fit(X, y).score(X, y) > 0.8


@BOTH
@pytest.mark.parametrize(
    "parameters",
    [{"width": None}, {"n_blocks": 2}, {"learning_rate_schedule": "constant"}],
)
def test_other_networks_learn(make, parameters, small_table):
    X, y = small_table
    model = quick(make, max_epochs=100, **parameters).fit(X, y)
    assert model.score(X, y) > 0.8


def test_absolute_error_resists_outliers_that_spoil_the_squared_error(small_table):
    X, y = small_table
    spoiled = y.copy()
    spoiled[::10] += 100.0
    scores = [
        quick(BranchMLPRegressor, width=None, n_branches=8, loss=loss, max_epochs=60)
        .fit(X, spoiled)
        .score(X, y)
        for loss in ("squared_error", "absolute_error")
    ]
    assert scores[1] > 0.5 > scores[0]


@BOTH
def test_column_target_trains_the_same_model_as_a_vector(make, small_table):
    X, y = small_table
    vector = quick(make).fit(X, y).predict(X)
    with pytest.warns(DataConversionWarning, match="column-vector"):
        column = quick(make).fit(X, y.reshape(-1, 1)).predict(X)
    assert np.array_equal(vector, column)
    assert vector.shape == (80,)


@BOTH
@pytest.mark.parametrize(("scale", "shift"), [(1e9, 0.0), (1e-9, 0.0), (1.0, 1e5)])
def test_scale_and_shift_of_the_target_do_not_matter(make, scale, shift, small_table):
    X, y = small_table
    plain = quick(make).fit(X, y).predict(X)
    scaled = quick(make).fit(X, y * scale + shift).predict(X)
    np.testing.assert_allclose((scaled - shift) / scale, plain, atol=1e-4)


@BOTH
def test_scale_and_shift_of_the_features_do_not_matter(make, small_table):
    X, y = small_table
    plain = quick(make).fit(X, y).predict(X)
    Z = X * [1e9, 1e-9, 1e4, -3.0] + [1e9, 0.0, -1e6, 5.0]
    moved = quick(make).fit(Z, y).predict(Z)
    # The last column changes its sign, which another network sees the same way.
    Z[:, 3] = X[:, 3]
    same_sign = quick(make).fit(Z, y).predict(Z)
    np.testing.assert_allclose(same_sign, plain, atol=1e-4)
    assert r2_score(plain, moved) > 0.9


@BOTH
@pytest.mark.parametrize("value", [0.0, 3.5, 1e9, -7.25e-12])
def test_constant_target_is_predicted_exactly(make, value, small_table):
    X, _ = small_table
    for early_stopping in (False, True):
        model = quick(make, early_stopping=early_stopping)
        prediction = model.fit(X, np.full(80, value)).predict(X + 1.0)
        assert np.array_equal(prediction, np.full(80, value))


@BOTH
@pytest.mark.parametrize("n", [1, 2, 3, 33])
def test_few_rows_and_a_last_batch_of_one_row_are_learned(make, n, small_table):
    X, y = small_table[0][:n], small_table[1][:n]
    prediction = quick(make, early_stopping="auto").fit(X, y).predict(X)
    assert prediction.shape == (n,)
    assert np.isfinite(prediction).all()


# Kinds of input ---------------------------------------------------------------


@BOTH
def test_lists_frames_and_memory_layouts_give_the_same_model(make, small_table):
    X, y = small_table
    expected = quick(make).fit(X, y).predict(X)
    index = np.random.default_rng(0).permutation(80)
    frame = pd.DataFrame(X, columns=list("abcd"), index=index)
    for other_X, other_y in (
        (X.tolist(), y.tolist()),
        (frame, pd.Series(y, index=index + 1000)),
        (np.asfortranarray(X), y[::-1].copy()[::-1]),
        (X[:, ::-1].copy()[:, ::-1], y),
        (torch.tensor(X), torch.tensor(y)),
    ):
        got = quick(make).fit(other_X, other_y).predict(other_X)
        assert np.array_equal(got, expected)


@BOTH
@pytest.mark.parametrize("dtype", ["float32", "float16", "int64", "uint8", "bool"])
def test_other_number_types_are_taken(make, dtype, small_table):
    X = (np.abs(small_table[0]) * 20).astype(dtype)
    y = X.astype(float).sum(axis=1)
    prediction = quick(make).fit(X, y).predict(X)
    as_float = quick(make).fit(X.astype(float), y).predict(X.astype(float))
    assert prediction.dtype == np.float64
    np.testing.assert_allclose(prediction, as_float, atol=1e-3 * y.std())


@BOTH
def test_data_is_not_changed(make, small_table):
    X, y = small_table
    X_before, y_before = X.copy(), y.copy()
    X.flags.writeable = y.flags.writeable = False
    quick(make, early_stopping=True).fit(X, y).predict(X)
    assert np.array_equal(X, X_before)
    assert np.array_equal(y, y_before)


@BOTH
def test_names_are_kept_and_checked(make, small_table):
    X, y = small_table
    frame = pd.DataFrame(X, columns=["home.dest", "type", "a b[0]<1", "keys"])
    model = quick(make).fit(frame, y)
    assert list(model.feature_names_in_) == list(frame.columns)
    assert model.n_features_in_ == 4
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(frame.iloc[:, ::-1])
    with pytest.raises(ValueError, match=r"3 features, but .* is expecting 4"):
        quick(make).fit(X, y).predict(X[:, :3])


@BOTH
def test_a_row_is_predicted_alike_alone_and_in_company(make, small_table):
    X, y = small_table
    model = quick(make).fit(X, y)
    whole = model.predict(X)
    alone = [model.predict(X[[i]])[0] for i in range(80)]
    # Equal to the bit where the matrix product rounds alike in every 32 rows.
    np.testing.assert_allclose(alone, whole, rtol=0, atol=1e-7 * y.std())
    np.testing.assert_allclose(model.predict(np.repeat(X, 200, axis=0))[::200], whole)


def test_sparse_input_is_refused_by_name(small_table):
    X, y = small_table
    with pytest.raises(TypeError, match=r"(?i)sparse"):
        quick(QuadraticGramRegressor).fit(sparse.csr_array(X), y)


# Seeds and shared state -------------------------------------------------------


@BOTH
@pytest.mark.parametrize("early_stopping", [False, True])
def test_same_seed_same_model(make, early_stopping, small_table):
    X, y = small_table
    one, two, other = (
        quick(make, random_state=s, early_stopping=early_stopping).fit(X, y).predict(X)
        for s in (1, 1, 2)
    )
    assert np.array_equal(one, two)
    assert not np.allclose(one, other)


@BOTH
def test_random_state_objects_advance_and_none_differs(make, small_table):
    X, y = small_table
    state = np.random.RandomState(0)
    one = quick(make, random_state=state).fit(X, y).predict(X)
    two = quick(make, random_state=state).fit(X, y).predict(X)
    again = quick(make, random_state=np.random.RandomState(0)).fit(X, y).predict(X)
    assert not np.allclose(one, two)
    assert np.array_equal(one, again)


def test_initial_weights_and_order_do_not_hang_on_the_split(small_table):
    X, y = small_table
    nets = [
        quick(
            BranchMLPRegressor,
            max_epochs=1,
            learning_rate=1e-12,
            early_stopping=early_stopping,
        )
        .fit(X, y)
        .module_
        for early_stopping in (False, True)
    ]
    for p, q in zip(nets[0].parameters(), nets[1].parameters(), strict=True):
        torch.testing.assert_close(p, q, rtol=0, atol=1e-6)


@BOTH
def test_global_generators_threads_and_dtype_are_left_alone(make, small_table):
    X, y = small_table

    def state():
        return (
            random.getstate(),
            np.random.get_state()[1].tobytes(),  # noqa: NPY002
            torch.get_rng_state().numpy().tobytes(),
            torch.get_num_threads(),
            torch.get_default_dtype(),
        )

    before = state()
    model = quick(make, early_stopping=True).fit(X, y)
    model.predict(X)
    with pytest.raises(ValueError, match="diverged"):
        quick(make, learning_rate=1e30).fit(X, y)
    assert state() == before


@BOTH
def test_settings_of_torch_around_a_fit_do_not_matter(make, small_table):
    X, y = small_table
    expected = quick(make, early_stopping=True).fit(X, y).predict(X)

    def check():
        model = quick(make, early_stopping=True).fit(X, y)
        assert np.array_equal(model.predict(X), expected)
        model.partial_fit(X, y)

    for context in (
        torch.no_grad(),
        torch.inference_mode(),
        torch.autocast("cpu", torch.bfloat16),
        torch.device("meta"),
    ):
        with context:
            check()
    for dtype in (torch.float64, torch.float16):
        torch.set_default_dtype(dtype)
        try:
            check()
        finally:
            torch.set_default_dtype(torch.float32)


@BOTH
def test_fits_in_threads_equal_fits_one_after_another(make, small_table):
    X, y = small_table

    def fit(seed):
        return quick(make, random_state=seed).fit(X, y).predict(X)

    expected = [fit(seed) for seed in range(4)]
    with ThreadPoolExecutor(4) as pool:
        got = list(pool.map(fit, [0, 1, 2, 3] * 3))
    for k, prediction in enumerate(got):
        assert np.array_equal(prediction, expected[k % 4])


def test_processes_give_the_scores_of_one(small_table):
    X, y = small_table
    model = quick(QuadraticGramRegressor)
    one = cross_val_score(model, X, y, cv=2, n_jobs=1)
    two = cross_val_score(model, X, y, cv=2, n_jobs=2)
    assert np.array_equal(one, two)


# Living with scikit-learn -----------------------------------------------------


@BOTH
def test_learning_rate_is_tuned_in_a_pipeline(make, small_table):
    X, y = small_table
    pipeline = make_pipeline(StandardScaler(), quick(make, max_epochs=30))
    name = f"{make.__name__.lower()}__learning_rate"
    search = GridSearchCV(pipeline, {name: np.array([1e-6, 1e-3, 1e-2])}, cv=2)
    search.fit(X, y)
    scores = search.cv_results_["mean_test_score"]
    assert len(set(scores)) == 3
    assert search.best_params_[name] == 1e-2


@BOTH
def test_parameters_from_numpy_are_kept_and_work(make, small_table):
    given = {
        "learning_rate": np.float64(0.003),
        "batch_size": np.int64(7),
        "max_epochs": np.int32(2),
        "n_branches": np.int64(5),
        "early_stopping": np.True_,
        "device": torch.device("cpu"),
    }
    model = make(**given, random_state=0)
    assert all(model.get_params()[k] is v for k, v in given.items())
    assert model.fit(*small_table).n_iter_ == 2


@BOTH
@pytest.mark.parametrize(
    "copied", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))]
)
def test_copies_predict_the_same_and_can_be_fitted(make, copied, small_table):
    X, y = small_table
    model = quick(make, early_stopping=True).fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again = copied(model)
    assert np.array_equal(again.predict(X), model.predict(X))
    assert again.get_params() == model.get_params()
    assert again.loss_curve_ == model.loss_curve_
    assert np.array_equal(again.fit(X, y).predict(X), model.predict(X))


def test_pickle_holds_no_training_data(friedman_table):
    sizes = []
    for n in (100, 200):
        X, y = (a[:n] for a in friedman_table)
        model = quick(QuadraticGramRegressor, batch_size=n, max_epochs=3).fit(X, y)
        sizes.append(len(pickle.dumps(model)))
    assert abs(sizes[0] - sizes[1]) < 200  # a few digits; a row takes 40 bytes


def test_fitted_attributes_need_a_fit(small_table):
    model = quick(QuadraticGramRegressor)
    for name in ("gram_", "module_", "net_", "n_iter_"):
        assert not hasattr(model, name)
    model.fit(*small_table)
    assert model.module_ is model.net_.module_


def test_gram_is_that_of_the_branch_weights_block_by_block(small_table):
    model = quick(QuadraticGramRegressor, width=6, n_heads=3, n_blocks=2, rank=2)
    gram = model.fit(*small_table).gram_
    assert isinstance(gram, np.ndarray)
    assert gram.shape == (6, 6, 6)
    for k, block in enumerate(model.module_.blocks):
        W = (block.left_factor @ block.right_factor.mT).detach().numpy()
        expected = W @ W.transpose(0, 2, 1)
        np.testing.assert_allclose(gram[3 * k : 3 * k + 3], expected, atol=1e-6)


def test_weights_are_saved_and_loaded_by_skorch(small_table, tmp_path):
    X, y = small_table
    model = quick(QuadraticGramRegressor).fit(X, y)
    model.net_.save_params(f_params=tmp_path / "weights.pt")
    other = quick(QuadraticGramRegressor, max_epochs=1).fit(X, y)
    assert not np.array_equal(other.predict(X), model.predict(X))
    other.net_.load_params(f_params=tmp_path / "weights.pt")
    assert np.array_equal(other.predict(X), model.predict(X))


def test_trained_module_can_be_exported(small_table):
    model = quick(QuadraticGramRegressor).fit(*small_table)
    x = torch.randn(5, 4)
    program = torch.export.export(model.module_.eval(), (x,))
    torch.testing.assert_close(program.module()(x), model.module_(x))
