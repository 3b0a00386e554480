"""The estimators: stopping, history, fitting again, failure and interruption."""

import pickle
import signal
import warnings

import numpy as np
import pytest
from _quick import BOTH, quick, split_of
from sklearn.exceptions import NotFittedError
from skorch.callbacks import Callback, EpochScoring
from tqdm import tqdm

from sk_quadratic.estimators import BranchMLPRegressor, QuadraticGramRegressor


class RaisesInEpoch(Callback):
    """Raises in the middle of an epoch, as Ctrl-C or a broken callback would."""

    def __init__(self, epoch, error):
        self.epoch = epoch
        self.error = error

    def on_epoch_begin(self, net, **kwargs):
        if len(net.history) == self.epoch:
            error = self.error

            def forward(X):
                raise error

            net.module_.forward = forward

    def on_train_end(self, net, **kwargs):
        vars(net.module_).pop("forward", None)


# Stopping and history ---------------------------------------------------------


@BOTH
def test_early_stopping_keeps_the_best_epoch(make, friedman_table):
    X, y = friedman_table
    model = quick(
        make,
        early_stopping=True,
        validation_fraction=0.25,
        learning_rate=0.05,
        learning_rate_schedule="constant",
        max_epochs=60,
        n_iter_no_change=60,
    ).fit(X, y)
    scores = model.validation_scores_
    assert len(scores) == len(model.loss_curve_) == model.n_iter_ == 60
    assert model.best_epoch_ == int(np.argmax(scores)) + 1 < 60
    # The kept weights have that score on the held-out rows.
    _, valid = split_of(model, X, y)
    assert len(valid) == 50
    assert model.score(X[valid], y[valid]) == pytest.approx(max(scores), abs=1e-5)


@BOTH
def test_training_stops_when_nothing_is_learned(make):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(120, 5)), rng.normal(size=120)
    model = quick(make, early_stopping=True, n_iter_no_change=3, max_epochs=400)
    assert model.fit(X, y).n_iter_ < 100


@BOTH
def test_all_epochs_run_without_early_stopping(make, small_table):
    model = quick(make, max_epochs=7).fit(*small_table)
    assert model.n_iter_ == model.best_epoch_ == len(model.loss_curve_) == 7
    assert np.isnan(model.validation_scores_).all()


@BOTH
def test_auto_stops_early_from_a_hundred_rows_on(make, friedman_table):
    X, y = friedman_table
    for n, expected in ((99, False), (100, True)):
        model = quick(make, early_stopping="auto", max_epochs=2).fit(X[:n], y[:n])
        assert np.isfinite(model.validation_scores_).all() == expected


def test_scalers_see_no_validation_row(friedman_table):
    X, y = friedman_table
    model = quick(QuadraticGramRegressor, early_stopping=True)
    model.fit(X, y)
    train, valid = split_of(model, X, y)
    assert not set(train) & set(valid)
    np.testing.assert_allclose(model._encoder.center_, np.median(X[train], axis=0))
    np.testing.assert_allclose(model._target_scaler.center_, y[train].mean())


def test_validation_scores_of_other_losses_compare_with_the_best_constant(
    friedman_table,
):
    X, y = friedman_table
    model = quick(BranchMLPRegressor, loss="absolute_error", early_stopping=True)
    model.fit(X, y)
    _, valid = split_of(model, X, y)
    errors = np.abs(y[valid] - model.predict(X[valid])).sum()
    constant = np.abs(y[valid] - np.median(y[valid])).sum()
    best = model.validation_scores_[model.best_epoch_ - 1]
    assert best == pytest.approx(1 - errors / constant, abs=1e-5)


@BOTH
def test_skorch_callbacks_are_copied_and_called(make, small_table):
    X, y = small_table

    class Counts(Callback):
        n_epochs = 0

        def on_epoch_end(self, net, **kwargs):
            self.n_epochs += 1

    mine = Counts()
    model = quick(make, callbacks=[("counts", mine)]).fit(X, y)
    assert mine.n_epochs == 0
    assert dict(model.net_.callbacks_)["counts"].n_epochs == 8
    scoring = EpochScoring(
        lambda net, X, y=None: 1.0, name="mine", on_train=True, use_caching=False
    )
    model = quick(make, callbacks=[scoring]).fit(X, y)
    assert model.net_.history[:, "mine"] == [1.0] * 8


@BOTH
def test_silent_unless_asked(make, small_table, capfd):
    quick(make).fit(*small_table)
    make(max_epochs=2, random_state=0).fit(*small_table)
    assert capfd.readouterr() == ("", "")
    quick(make, verbose=2).fit(*small_table)
    assert "train_loss" in capfd.readouterr().out


@BOTH
def test_progress_bar_shows_epochs_loss_score_and_time(make, friedman_table, capfd):
    X, y = friedman_table
    model = make(max_epochs=4, random_state=0, verbose=1).fit(X, y)
    last = capfd.readouterr().err.replace("\r", "\n").strip().splitlines()[-1]
    score = model.validation_scores_[-1]
    assert "4/4" in last
    assert "epoch/s" in last or "s/epoch" in last
    assert f"loss {model.loss_curve_[-1]:.4g}, validation score {score:.4f}" in last
    pickle.loads(pickle.dumps(model)).partial_fit(X, y)
    assert "1/1" in capfd.readouterr().err


@BOTH
def test_progress_bar_is_closed_when_training_fails(make, small_table, capfd):
    with pytest.raises(ValueError, match="diverged"):
        quick(make, verbose=1, learning_rate=1e9).fit(*small_table)
    assert capfd.readouterr().err.endswith("\n")
    assert not tqdm._instances


class CountsEpochs(Callback):
    n_epochs = 0

    def on_epoch_end(self, net, **kwargs):
        self.n_epochs += 1


@BOTH
def test_callbacks_see_the_epoch_that_stops_the_training(make, friedman_table):
    model = make(
        n_iter_no_change=1, random_state=0, callbacks=[("counts", CountsEpochs())]
    ).fit(*friedman_table)
    assert model.n_iter_ < model.max_epochs
    assert dict(model.net_.callbacks_)["counts"].n_epochs == model.n_iter_


# Fitting again ----------------------------------------------------------------


@BOTH
def test_fit_starts_afresh(make, small_table):
    X, y = small_table
    model = quick(make)
    first = model.fit(X, y).predict(X)
    assert np.array_equal(model.fit(X, y).predict(X), first)
    assert model.fit(X[:, :2], y).n_features_in_ == 2


@BOTH
def test_warm_start_goes_on(make, small_table):
    X, y = small_table
    model = quick(make, warm_start=True, learning_rate=0.003)
    losses = []
    for k in range(1, 5):
        model.fit(X, y)
        assert model.n_iter_ == 8 * k == len(model.loss_curve_)
        losses.append(np.mean((model.predict(X) - y) ** 2))
    assert losses == sorted(losses, reverse=True)
    assert losses[-1] < 0.5 * losses[0]


def test_warm_start_takes_new_training_parameters(small_table):
    X, y = small_table
    model = quick(BranchMLPRegressor, warm_start=True).fit(X, y)
    model.set_params(early_stopping=True, learning_rate=0.05, n_iter_no_change=5)
    model.fit(X, y)
    assert model.net_.lr == 0.05
    assert np.isnan(model.validation_scores_[:8]).all()
    assert np.isfinite(model.validation_scores_[8:]).all()
    assert model.best_epoch_ > 8


@BOTH
def test_partial_fit_learns_chunk_by_chunk(make, small_table):
    X, y = small_table
    model = quick(make, early_stopping="auto")
    for k in range(60):
        chunk = slice(0, 40) if k % 2 else slice(40, 80)
        assert model.partial_fit(X[chunk], y[chunk]) is model
    assert model.n_iter_ == 60
    assert model.score(X, y) > 0.8
    np.testing.assert_allclose(model._encoder.center_, np.median(X[40:], axis=0))


def test_partial_fit_trains_on_every_row_and_refuses_other_columns(small_table):
    X, y = small_table
    models = [
        quick(BranchMLPRegressor, early_stopping=stop).partial_fit(X, y)
        for stop in (True, False)
    ]
    assert np.array_equal(models[0].predict(X), models[1].predict(X))
    with pytest.raises(ValueError, match="expecting 4 features"):
        models[0].partial_fit(X[:, :2], y)
    assert np.array_equal(models[0].predict(X), models[1].predict(X))


@BOTH
def test_partial_fit_goes_on_from_a_fit(make, friedman_table):
    X, y = friedman_table
    model = quick(make, early_stopping=True).fit(X, y)
    before = model.predict(X)
    model.partial_fit(X, y)
    assert model.n_iter_ == model.best_epoch_ == 9
    assert np.isnan(model.validation_scores_[-1])
    assert not np.array_equal(model.predict(X), before)


# Failure and interruption -----------------------------------------------------


@BOTH
@pytest.mark.parametrize("early_stopping", [False, True])
def test_divergence_is_an_error_that_names_the_learning_rate(
    make, early_stopping, small_table
):
    model = quick(make, learning_rate=1e30, early_stopping=early_stopping)
    with pytest.raises(
        ValueError, match=r"Training diverged.*learning_rate, now 1e\+30"
    ):
        model.fit(*small_table)
    assert not [name for name in vars(model) if name.endswith("_")]


@BOTH
@pytest.mark.parametrize("method", ["fit", "warm fit", "partial_fit"])
def test_failed_training_leaves_the_estimator_as_it_was(make, method, small_table):
    X, y = small_table
    model = quick(make).fit(X, y)
    expected, n_iter = model.predict(X), model.n_iter_
    model.set_params(
        learning_rate=1e30,
        learning_rate_schedule="constant",
        warm_start=method == "warm fit",
    )
    with pytest.raises(ValueError, match="diverged"):
        getattr(model, method.split()[-1])(X, y)
    assert np.array_equal(model.predict(X), expected)
    assert model.n_iter_ == n_iter
    with pytest.raises(ValueError, match="NaN"):
        model.fit(X, np.full(80, np.nan))
    assert np.array_equal(model.predict(X), expected)


@BOTH
def test_interruption_keeps_the_best_epoch_so_far(make, friedman_table):
    X, y = friedman_table
    callback = RaisesInEpoch(4, KeyboardInterrupt())
    model = quick(make, early_stopping=True, callbacks=[callback])
    with pytest.warns(UserWarning, match="Training interrupted by user"):
        model.fit(X, y)
    assert model.n_iter_ == len(model.loss_curve_) == 3
    assert np.isfinite(model.predict(X)).all()
    three = quick(make, early_stopping=True).fit(X, y)
    assert model.loss_curve_ == three.loss_curve_[:3]


@BOTH
def test_interruption_before_the_first_epoch_leaves_the_estimator_as_it_was(
    make, small_table
):
    X, y = small_table
    model = quick(make, callbacks=[RaisesInEpoch(1, KeyboardInterrupt())])
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    with pytest.raises(NotFittedError):
        model.predict(X)
    model.set_params(callbacks=None).fit(X, y)


class Interrupts(Callback):
    """Raises in one hook of the third epoch, by a statement or by a real signal."""

    def __init__(self, hook, by_signal):
        self.hook = hook
        self.by_signal = by_signal

    def _act(self, hook, net):
        if hook == self.hook and len(net.history) == 3:
            if self.by_signal:
                signal.raise_signal(signal.SIGINT)
            raise KeyboardInterrupt

    def on_epoch_begin(self, net, **kwargs):
        self._act("epoch_begin", net)

    def on_epoch_end(self, net, **kwargs):
        self._act("epoch_end", net)


class InterruptsInBatch(Interrupts):
    def on_batch_end(self, net, **kwargs):
        self._act("batch_end", net)

    def on_grad_computed(self, net, **kwargs):
        self._act("grad_computed", net)


@pytest.mark.parametrize("by_signal", [False, True], ids=["statement", "signal"])
@pytest.mark.parametrize("early_stopping", [False, True])
@pytest.mark.parametrize(
    "hook", ["epoch_begin", "epoch_end", "batch_end", "grad_computed"]
)
def test_interruption_in_a_callback_keeps_what_was_learned(
    hook, early_stopping, by_signal, friedman_table
):
    X, y = friedman_table
    kind = Interrupts if hook.startswith("epoch") else InterruptsInBatch
    model = quick(
        BranchMLPRegressor,
        early_stopping=early_stopping,
        callbacks=[kind(hook, by_signal)],
    )
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        model.fit(X, y)
    # Only Ctrl-C is worth a warning; a callback that stops has its reasons.
    assert any("interrupted by user" in str(w.message) for w in seen) == by_signal
    assert model.n_iter_ == (3 if hook == "epoch_end" else 2)
    assert 1 <= model.best_epoch_ <= model.n_iter_ == len(model.validation_scores_)
    assert np.isfinite(model.predict(X)).all()


def test_first_chunk_with_a_constant_target_is_refused(small_table):
    X, y = small_table
    model = quick(BranchMLPRegressor)
    for n in (1, 5):
        with pytest.raises(ValueError, match=f"its {n} targets are all equal"):
            model.partial_fit(X[:n], np.full(n, 3.0))
    assert not hasattr(model, "net_")
    model.partial_fit(X, y).partial_fit(X[:1], y[:1])
    assert model.predict(X).std() > 0


def test_a_fit_on_a_constant_target_is_no_start_to_go_on_from(small_table):
    X, y = small_table
    model = quick(BranchMLPRegressor, warm_start=True)
    model.fit(X, np.full(80, 3.0)).fit(X, y)
    assert model.n_iter_ == 8
    assert model.predict(X).std() > 0
