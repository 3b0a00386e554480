"""The training loop against skorch's own, and its batches, schedule and callbacks."""

import math

import numpy as np
import pytest
import torch
from skorch.callbacks import (
    Callback,
    EarlyStopping,
    EpochScoring,
    GradientNormClipping,
    LRScheduler,
)
from skorch.dataset import ValidSplit
from torch import nn

from sk_quadratic._training import (
    BestEpoch,
    TableSplit,
    TabularNet,
    TensorBatches,
    TensorTable,
)

N_TRAIN, N_VALID = 70, 30


class Perceptron(nn.Module):
    def __init__(self, seed: int = 0) -> None:
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.layers = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1))

    def forward(self, X):
        return self.layers(X)


@pytest.fixture
def split() -> TableSplit:
    generator = torch.Generator().manual_seed(0)
    X = torch.randn(N_TRAIN + N_VALID, 3, generator=generator)
    y = X[:, :1] * X[:, 1:2] + 0.1 * torch.randn(len(X), 1, generator=generator)
    return TableSplit(
        TensorTable(X[:N_TRAIN], y[:N_TRAIN]), TensorTable(X[N_TRAIN:], y[N_TRAIN:])
    )


def make_net(**parameters) -> TabularNet:
    defaults = {
        "criterion": nn.MSELoss,
        "optimizer": torch.optim.AdamW,
        "lr": 0.01,
        "max_epochs": 5,
        "batch_size": 16,
        "train_split": None,
        "iterator_train": TensorBatches,
        "iterator_train__seed": 0,
        "iterator_valid": TensorBatches,
        "verbose": 0,
    }
    return TabularNet(Perceptron, **{**defaults, **parameters})


class SeesBatches(Callback):
    """Does nothing, but makes the net run skorch's own loop."""

    def __init__(self):
        self.n_rows = []

    def on_batch_end(self, net, batch=None, training=False, **kwargs):
        if training:
            self.n_rows.append(len(batch[0]))


def weights(net: TabularNet) -> torch.Tensor:
    return nn.utils.parameters_to_vector(net.module_.parameters()).detach()


# Batches ------------------------------------------------------------------------


def rows_of(batches: TensorBatches) -> list[int]:
    return torch.cat([X[:, 0] for X, _ in batches]).int().tolist()


@pytest.fixture
def numbered() -> TensorTable:
    numbers = torch.arange(100.0).unsqueeze(1)
    return TensorTable(numbers, 2 * numbers)


def test_every_row_comes_once_an_epoch_with_its_own_target(numbered):
    batches = TensorBatches(numbered, 32, seed=0)
    seen = list(batches)
    assert [len(X) for X, _ in seen] == [32, 32, 32, 4]
    assert len(batches) == 4
    assert all(torch.equal(y, 2 * X) for X, y in seen)
    assert sorted(torch.cat([X for X, _ in seen])[:, 0].tolist()) == list(range(100))


def test_orders_differ_between_epochs_and_seeds_and_repeat_with_both(numbered):
    batches = TensorBatches(numbered, 32, seed=0)
    first, second = rows_of(batches), rows_of(batches)
    assert first != second
    assert rows_of(TensorBatches(numbered, 32, seed=0)) == first
    assert rows_of(TensorBatches(numbered, 32, seed=0, first_epoch=1)) == second
    assert rows_of(TensorBatches(numbered, 32, seed=1)) not in (first, second)


def test_rows_keep_their_order_without_a_seed(numbered):
    assert rows_of(TensorBatches(numbered, 32)) == list(range(100))


def test_blocks_do_not_change_the_batches(numbered, monkeypatch):
    whole = list(TensorBatches(numbered, 8, seed=3))
    monkeypatch.setattr("sk_quadratic._training._ROWS_PER_BLOCK", 20)
    blocks = list(TensorBatches(numbered, 8, seed=3))
    for (X, y), (X_block, y_block) in zip(whole, blocks, strict=True):
        assert torch.equal(X, X_block)
        assert torch.equal(y, y_block)


def test_other_data_sets_are_taken_too(numbered):
    class Plain(torch.utils.data.Dataset):
        def __len__(self):
            return 10

        def __getitem__(self, i):
            return np.full(2, i, dtype=np.float32), np.float32(i)

    X, y = next(iter(TensorBatches(Plain(), 4)))
    assert X.tolist() == [[0, 0], [1, 1], [2, 2], [3, 3]]
    assert y.tolist() == [0, 1, 2, 3]


# The loop -----------------------------------------------------------------------


@pytest.mark.parametrize("schedule", ["cosine", "constant"])
def test_plain_loop_equals_the_loop_of_skorch(split, schedule):
    plain = make_net(schedule=schedule).fit(split, None)
    watched = make_net(schedule=schedule, callbacks=[SeesBatches()]).fit(split, None)
    assert torch.equal(weights(plain), weights(watched))
    for column in ("train_loss", "valid_loss", "train_batch_count"):
        np.testing.assert_allclose(
            plain.history[:, column], watched.history[:, column], rtol=1e-5
        )


def test_plain_loop_equals_a_bare_torch_loop(split):
    net = make_net(schedule="constant", patience=None).fit(
        TableSplit(split.train), None
    )
    module = Perceptron()
    optimizer = torch.optim.AdamW(module.parameters(), lr=0.01)
    batches = TensorBatches(split.train, 16, seed=0)
    for _ in range(5):
        for X, y in batches:
            optimizer.zero_grad()
            nn.functional.mse_loss(module(X), y).backward()
            optimizer.step()
    bare = nn.utils.parameters_to_vector(module.parameters()).detach()
    assert torch.equal(weights(net), bare)


def test_history_has_one_row_of_losses_an_epoch_of_the_whole_table(split):
    net = make_net(lr=1e-12, schedule="constant").fit(split, None)
    assert len(net.history) == 5
    assert [len(epoch["batches"]) for epoch in net.history] == [2] * 5
    assert net.history[-1, "train_batch_count"] == math.ceil(N_TRAIN / 16)
    for table, column in ((split.train, "train_loss"), (split.valid, "valid_loss")):
        X, y = table.tensors
        with torch.inference_mode():  # the weights hardly move at this rate
            loss = float(nn.functional.mse_loss(net.module_(X), y))
        assert net.history[-1, column] == pytest.approx(loss, rel=1e-5)


def test_callbacks_see_every_batch_if_they_ask_for_them(split):
    net = make_net(callbacks=[("sees", SeesBatches())], max_epochs=2).fit(split, None)
    assert dict(net.callbacks_)["sees"].n_rows == [16, 16, 16, 16, 6] * 2


def test_callbacks_of_skorch_work(split):
    net = make_net(
        schedule="constant",
        callbacks=[
            ("clip", GradientNormClipping(1e-3)),
            ("decay", LRScheduler("ExponentialLR", gamma=0.5)),
            ("stop", EarlyStopping(monitor="train_loss", patience=3, threshold=0.99)),
        ],
        max_epochs=50,
    ).fit(split, None)
    # The first epoch is the best one by that threshold, then three more may pass.
    assert len(net.history) == 4
    rates = net.history[:, "event_lr"]
    np.testing.assert_allclose(rates, 0.01 * 0.5 ** np.arange(4))
    assert not net.interrupted_


def test_arrays_with_a_split_and_a_score_of_skorch_work(split):
    X, y = (t.numpy() for t in split.train.tensors)
    score = EpochScoring("neg_mean_squared_error", lower_is_better=False, name="score")
    net = make_net(train_split=ValidSplit(0.2), callbacks=[score]).fit(X, y)
    # The score is over the same validation rows as the loss.
    np.testing.assert_allclose(
        net.history[:, "score"], -np.array(net.history[:, "valid_loss"]), rtol=1e-5
    )
    assert net.predict(X).shape == (N_TRAIN, 1)


def test_net_is_silent_unless_asked(split, capsys):
    make_net().fit(split, None)
    assert capsys.readouterr().out == ""
    make_net(verbose=2).fit(split, None)
    assert "train_loss" in capsys.readouterr().out


def test_net_keeps_no_data_after_fit(split):
    net = make_net().fit(split, None)
    assert not [
        v for v in vars(net).values() if isinstance(v, TableSplit | TensorTable)
    ]
    assert not [v for v in vars(net).values() if isinstance(v, TensorBatches)]


# Learning rate ---------------------------------------------------------------------


def rates_of_steps(split, **parameters) -> list[float]:
    class Spy(SeesBatches):
        def __init__(self):
            self.rates = []

        def on_batch_end(self, net, training=False, **kwargs):
            if training:
                self.rates.append(net.optimizer_.param_groups[0]["lr"])

    net = make_net(callbacks=[("spy", Spy())], **parameters).fit(
        TableSplit(split.train), None
    )
    return dict(net.callbacks_)["spy"].rates


def test_cosine_schedule_warms_up_and_falls_to_zero(split):
    rates = np.array(rates_of_steps(split, max_epochs=20, warmup_steps=4))
    steps = np.arange(100)
    expected = 0.01 * 0.5 * (1 + np.cos(np.pi * steps / 100))
    expected[:4] *= np.arange(1, 5) / 5
    np.testing.assert_allclose(rates, expected, rtol=1e-12)


def test_warm_up_takes_at_most_a_tenth_of_the_steps(split):
    rates = rates_of_steps(split, max_epochs=4, warmup_steps=50)
    assert np.argmax(rates) == 2  # of 20 steps


def test_constant_schedule_leaves_the_rate_alone(split):
    assert set(rates_of_steps(split, schedule="constant")) == {0.01}


def test_learning_rate_is_given_back_after_the_schedule(split):
    net = make_net(max_epochs=2).fit(split, None)
    assert net.optimizer_.param_groups[0]["lr"] == 0.01


# Best epoch ----------------------------------------------------------------------


def test_weights_of_the_best_epoch_are_kept(split):
    net = make_net(patience=1000, lr=0.3, max_epochs=40, schedule="constant").fit(
        split, None
    )
    losses = net.history[:, "valid_loss"]
    assert net.best_epoch_ == int(np.argmin(losses)) + 1
    assert net.best_epoch_ < 40  # else the test shows nothing
    X, y = split.valid.tensors
    with torch.inference_mode():
        loss = float(nn.functional.mse_loss(net.module_(X), y))
    assert loss == pytest.approx(min(losses), rel=1e-5)


def test_training_stops_after_the_patience(split):
    net = make_net(patience=3, lr=0.3, max_epochs=400, schedule="constant").fit(
        split, None
    )
    losses = net.history[:, "valid_loss"]
    assert len(losses) < 400
    assert len(losses) - net.best_epoch_ == 3
    assert not net.interrupted_


def test_small_improvements_do_not_prolong_the_training(split):
    steady = TableSplit(split.train, split.train)
    common = {"patience": 3, "max_epochs": 20, "lr": 1e-3, "batch_size": N_TRAIN}
    patient = make_net(**common, tol=0.0).fit(steady, None)
    strict = make_net(**common, tol=0.5).fit(steady, None)
    assert len(patient.history) == 20
    assert len(strict.history) == 4
    assert strict.best_epoch_ == 4  # kept all the same: it is the best of them


def test_without_patience_the_last_weights_are_kept(split):
    net = make_net(lr=0.3, schedule="constant", max_epochs=12).fit(split, None)
    assert len(net.history) == net.best_epoch_ == 12
    assert not [c for _, c in net.callbacks_ if isinstance(c, BestEpoch)]


# What goes wrong ---------------------------------------------------------------------


@pytest.mark.parametrize("callbacks", [None, [SeesBatches()]])
def test_divergence_is_an_error_that_names_the_learning_rate(split, callbacks):
    net = make_net(lr=1e30, callbacks=callbacks)
    with pytest.raises(
        ValueError, match=r"diverged.*epoch \d.*learning_rate, now 1e\+30"
    ):
        net.fit(split, None)


class Interrupts(Callback):
    """Stands for Ctrl-C in the middle of an epoch."""

    def __init__(self, epoch):
        self.epoch = epoch

    def on_epoch_begin(self, net, **kwargs):
        if len(net.history) == self.epoch:
            net.module_.forward = self._raise

    @staticmethod
    def _raise(X):
        raise KeyboardInterrupt


def test_interruption_drops_the_unfinished_epoch_and_keeps_the_best(split):
    net = make_net(callbacks=[Interrupts(4)], patience=10).fit(split, None)
    assert net.interrupted_
    assert len(net.history) == 3
    assert net.best_epoch_ == int(np.argmin(net.history[:, "valid_loss"])) + 1
    assert net.optimizer_.param_groups[0]["lr"] == 0.01


def test_interruption_in_the_first_epoch_leaves_no_history(split):
    net = make_net(callbacks=[Interrupts(1)]).fit(split, None)
    assert net.interrupted_
    assert len(net.history) == 0
