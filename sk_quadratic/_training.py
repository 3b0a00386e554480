"""Training through skorch without its per-batch costs: net, batches, callbacks, losses.

skorch's history, callbacks, ``set_params``, ``save_params`` and ``partial_fit`` work as
they do for any skorch net. What differs is that the table is moved to the device once
and that an epoch is one plain loop, unless a callback asks to see single batches.
"""

from __future__ import annotations

import dis
import math
from collections.abc import Callable, Iterator
from typing import Any

import torch
from skorch import NeuralNetRegressor
from skorch.callbacks import Callback, EpochTimer, PassthroughScoring, PrintLog
from torch import Tensor
from torch.utils.data import Dataset, default_collate
from tqdm import tqdm

from sk_quadratic._losses import explained

_ROWS_PER_BLOCK = 65_536  # one gather per block is faster than one per batch
_BATCH_HOOKS = ("on_batch_begin", "on_batch_end", "on_grad_computed")


class TensorTable(Dataset):
    """Features, target and perhaps weights as tensors of equal length.

    Parameters
    ----------
    X : Tensor of shape (n_samples, n_features)
        Features.
    y : Tensor of shape (n_samples, n_outputs)
        Target.
    weight : Tensor of shape (n_samples,) or None, default=None
        Weights of the rows.
    """

    def __init__(self, X: Tensor, y: Tensor, weight: Tensor | None = None) -> None:
        self.tensors = (X, y) if weight is None else (X, y, weight)

    def __len__(self) -> int:
        return len(self.tensors[0])

    def __getitem__(self, i: Any) -> tuple[Any, Any]:
        return _as_pair(tuple(t[i] for t in self.tensors))


class TableSplit:
    """Training rows and, for early stopping, validation rows of one fit.

    It stands for both arguments of ``net.fit``, so that the net holds no data
    afterwards.

    Parameters
    ----------
    train : TensorTable
        Rows to train on.
    valid : TensorTable or None
        Rows to choose the epoch on.
    """

    def __init__(self, train: TensorTable, valid: TensorTable | None = None) -> None:
        self.train = train
        self.valid = valid


class TensorBatches:
    """Batches of a table that lies on the device, in a new order every epoch.

    A batch is a pair of features and target. Where the table has weights, target and
    weights take the place of the target, since skorch knows pairs alone.

    Parameters
    ----------
    dataset : Dataset
        A :class:`TensorTable`; any other data set is turned into tensors once.
    batch_size : int
        Rows per batch; the last may have fewer.
    seed : int or None, default=None
        Seed of the orders, or None to keep the rows in their order.
    first_epoch : int, default=0
        Number of the first epoch. The order depends on the seed and the number alone,
        so that continued training does not repeat the first orders.
    """

    def __init__(
        self,
        dataset: Dataset,
        batch_size: int,
        *,
        seed: int | None = None,
        first_epoch: int = 0,
    ) -> None:
        if isinstance(dataset, TensorTable):
            tensors: Any = dataset.tensors
        else:
            tensors = default_collate([dataset[i] for i in range(len(dataset))])  # type: ignore[arg-type]
        self.tensors = tuple(tensors)
        self.batch_size = int(batch_size)
        self.seed = seed
        self.epoch = first_epoch

    def to(self, device: str | torch.device) -> TensorBatches:
        """Move the whole table to a device, before the first epoch."""
        self.tensors = tuple(t.to(device) for t in self.tensors)
        return self

    def __len__(self) -> int:
        return math.ceil(len(self.tensors[0]) / self.batch_size)

    def __iter__(self) -> Iterator[tuple[Any, Any]]:
        blocks = [self.tensors] if self.seed is None else self._shuffled_blocks()
        for block in blocks:
            batches = zip(*(t.split(self.batch_size) for t in block), strict=True)
            yield from map(_as_pair, batches)

    def _shuffled_blocks(self) -> Iterator[tuple[Tensor, ...]]:
        # The order is drawn on the CPU, to be the same on every device.
        generator = torch.Generator("cpu").manual_seed(_mix(self.seed or 0, self.epoch))
        self.epoch += 1
        order = torch.randperm(len(self.tensors[0]), generator=generator, device="cpu")
        order = order.to(self.tensors[0].device, non_blocking=True)
        rows = max(_ROWS_PER_BLOCK // self.batch_size, 1) * self.batch_size
        for block in order.split(rows):
            yield tuple(t.index_select(0, block) for t in self.tensors)


class BestEpoch(Callback):
    """Keep the weights of the epoch with the lowest validation loss; say when to stop.

    Parameters
    ----------
    patience : int
        Epochs without an improvement after which training stops.
    tol : float, default=0.0
        Smallest decrease of the validation loss that counts as an improvement for
        stopping. The kept epoch is the one with the lowest loss, whatever `tol`.

    Attributes
    ----------
    best_epoch_ : int
        Number of the kept epoch, counted from 1, or 0 before the first one.
    is_over_ : bool
        Whether the loss has not improved for so long. The net then stops, once all
        callbacks have seen the epoch.
    """

    def __init__(self, patience: int, tol: float = 0.0) -> None:
        self.patience = patience
        self.tol = tol

    def on_train_begin(self, net: TabularNet, **kwargs: Any) -> None:
        self.best_epoch_ = 0
        self._best_loss = self._loss_to_beat = math.inf
        self._n_without = 0
        self.is_over_ = False
        self._weights: list[Tensor] = []

    def on_epoch_end(self, net: TabularNet, **kwargs: Any) -> None:
        loss = net.history[-1]["valid_loss"]
        if loss < self._best_loss:
            self._best_loss = loss
            self.best_epoch_ = len(net.history)
            state = net.module_.state_dict().values()
            self._weights = [t.detach().clone() for t in state]
        if loss < self._loss_to_beat - self.tol:
            self._loss_to_beat, self._n_without = loss, 0
        else:
            self._n_without += 1
        self.is_over_ = self._n_without >= self.patience

    def on_train_end(self, net: TabularNet, **kwargs: Any) -> None:
        if self._weights:
            state = net.module_.state_dict()
            net.module_.load_state_dict(dict(zip(state, self._weights, strict=True)))
        self._weights = []


class EpochBar(Callback):
    """Progress bar over the epochs: training loss, validation score and time left."""

    _bar: Any = None

    def on_epoch_begin(self, net: TabularNet, **kwargs: Any) -> None:
        if self._bar is None:
            # Not ten times a second: a log keeps every state of the bar.
            self._bar = tqdm(total=net.n_epochs_, unit="epoch", mininterval=0.5)

    def on_epoch_end(self, net: TabularNet, **kwargs: Any) -> None:
        epoch = net.history[-1]
        text = f"loss {epoch['train_loss']:.4g}"
        if "valid_loss" in epoch:
            score = explained(epoch["valid_loss"], net.baseline_loss)
            text += f", validation score {score:.4f}"
        self._bar.set_postfix_str(text, refresh=False)
        self._bar.update()

    def close(self) -> None:
        """Leave the bar as it stands, after the last epoch or a failure."""
        if self._bar is not None:
            self._bar.close()
            self._bar = None


class TabularNet(NeuralNetRegressor):
    """skorch regressor whose epoch is one plain loop over tensors on the device.

    Parameters
    ----------
    *args, **kwargs
        As for :class:`skorch.NeuralNetRegressor`.
    patience : int or None, default=None
        Epochs without improvement after which training stops; None trains all epochs
        and keeps the last weights.
    tol : float, default=0.0
        Smallest decrease of the validation loss that counts as an improvement.
    schedule : {"cosine", "constant"}, default="cosine"
        ``"cosine"`` warms up linearly and falls to zero at `max_epochs`.
        ``"constant"`` leaves the learning rate alone, or to a callback.
    warmup_steps : int, default=50
        Steps of the warm-up, at most a tenth of all.

    Attributes
    ----------
    interrupted_ : bool
        Whether the last training was stopped from outside, not by a callback.
    n_epochs_ : int
        Number of epochs that the last training was to have.
    baseline_loss : float
        Validation loss of the best constant, NaN where it is not known.
    """

    n_epochs_: int = 0
    baseline_loss: float = math.nan

    def __init__(
        self,
        *args: Any,
        patience: int | None = None,
        tol: float = 0.0,
        schedule: str = "cosine",
        warmup_steps: int = 50,
        **kwargs: Any,
    ) -> None:
        self.patience = patience
        self.tol = tol
        self.schedule = schedule
        self.warmup_steps = warmup_steps
        super().__init__(*args, **kwargs)

    def get_default_callbacks(self) -> list[tuple[str, Callback]]:
        """Only what is needed: skorch's PrintLog builds its table even when silent."""
        callbacks: list[tuple[str, Callback]] = [
            ("epoch_timer", EpochTimer()),
            ("train_loss", PassthroughScoring(name="train_loss", on_train=True)),
            ("valid_loss", PassthroughScoring(name="valid_loss")),
        ]
        if self.patience is not None:
            callbacks.append(("best_epoch", BestEpoch(self.patience, self.tol)))
        if self.verbose == 1:
            callbacks.append(("epoch_bar", EpochBar()))
        elif self.verbose:
            callbacks.append(("print_log", PrintLog()))
        return callbacks

    @property
    def best_epoch_(self) -> int:
        """Number of the epoch whose weights are held, counted from 1."""
        for name, callback in self.callbacks_:
            if name == "best_epoch" and callback.best_epoch_:
                return callback.best_epoch_
        return len(self.history)

    def get_split_datasets(self, X: Any, y: Any = None, **fit_params: Any) -> Any:
        """Take a `TableSplit` apart; leave anything else to skorch."""
        if isinstance(X, TableSplit):
            return X.train, X.valid
        return super().get_split_datasets(X, y, **fit_params)

    def get_iterator(self, dataset: Any, training: bool = False) -> Any:
        """Iterator over the batches, with the table on the device of the net."""
        iterator = super().get_iterator(dataset, training)
        if isinstance(iterator, TensorBatches):
            iterator = iterator.to(self.device)
        return iterator

    def notify(self, method_name: str, **cb_kwargs: Any) -> None:
        """Call the callbacks, and remember if one of them ends the training.

        They know a target and no weights beside it.
        """
        batch = cb_kwargs.get("batch")
        if batch is not None and isinstance(batch[1], tuple):
            cb_kwargs["batch"] = (batch[0], batch[1][0])
        try:
            super().notify(method_name, **cb_kwargs)
            if method_name == "on_epoch_end" and self._is_over():
                raise KeyboardInterrupt  # skorch's signal for an orderly stop
        except KeyboardInterrupt as stop:
            self._stopped_by_callback = _is_raised_by_statement(stop)
            raise

    def fit_loop(
        self, X: Any, y: Any = None, epochs: int | None = None, **kw: Any
    ) -> Any:
        """Run the epochs; on an interruption drop the unfinished one and note it."""
        self.interrupted_ = False
        self._stopped_by_callback = False
        self._validates = False
        self._n_steps = 0
        self.n_epochs_ = self.max_epochs if epochs is None else epochs
        rates = [group["lr"] for group in self.optimizer_.param_groups]
        self._rates = rates
        try:
            return super().fit_loop(X, y, epochs, **kw)
        except KeyboardInterrupt:
            self.interrupted_ = not self._stopped_by_callback
            wanted = {"train_loss", "valid_loss"} if self._validates else {"train_loss"}
            if self.history and not wanted <= self.history[-1].keys():
                del self.history[-1]
            raise
        finally:
            for _, callback in self.callbacks_:
                if isinstance(callback, EpochBar):
                    callback.close()
            for group, rate in zip(self.optimizer_.param_groups, rates, strict=True):
                group["lr"] = rate

    def run_single_epoch(
        self,
        iterator: Any,
        training: bool,
        prefix: str,
        step_fn: Callable[..., dict],
        **fit_params: Any,
    ) -> None:
        """Run one epoch in a plain loop, or in skorch's if a callback needs batches."""
        if iterator is None:
            return
        if training:
            self._n_steps_total = self.n_epochs_ * len(iterator)
        else:
            self._validates = True
        if fit_params or self._needs_batches():
            super().run_single_epoch(iterator, training, prefix, step_fn, **fit_params)
            losses = [
                b[f"{prefix}_loss"]
                for b in self.history[-1]["batches"]
                if f"{prefix}_loss" in b
            ]
            mean_loss = sum(losses) / len(losses)
        else:
            mean_loss = self._run_plain_epoch(iterator, training, prefix)
        if not math.isfinite(mean_loss):
            raise ValueError(
                f"Training diverged: the {prefix} loss is {mean_loss} in epoch "
                f"{len(self.history)}. Lower learning_rate, now {self.lr}."
            )

    def _run_plain_epoch(self, iterator: Any, training: bool, prefix: str) -> float:
        """One epoch without hooks; losses are read from the device once."""
        self._set_training(training)
        step = self._training_loss if training else self._validation_loss
        total: Any = 0.0
        n_rows = n_batches = 0
        for X, y in iterator:
            total = total + step(X, y) * len(X)
            n_rows += len(X)
            n_batches += 1
        mean_loss = float(total) / n_rows
        self.history.new_batch()
        self.history.record_batch(f"{prefix}_loss", mean_loss)
        self.history.record_batch(f"{prefix}_batch_size", n_rows)
        self.history.record(f"{prefix}_batch_count", n_batches)
        return mean_loss

    def get_loss(
        self, y_pred: Any, y_true: Any, X: Any = None, training: bool = False
    ) -> Tensor:
        """Loss of a batch; a pair in the place of the target is target and weights."""
        if isinstance(y_true, tuple | list):
            return self.criterion_(y_pred, *y_true)
        return super().get_loss(y_pred, y_true, X=X, training=training)

    def _training_loss(self, X: Tensor, y: Any) -> Tensor:
        self._set_learning_rate()
        self.optimizer_.zero_grad()
        loss = self.get_loss(self.infer(X), y, X=X, training=True)
        loss.backward()
        self.optimizer_.step()
        return loss.detach()

    def _validation_loss(self, X: Tensor, y: Any) -> Tensor:
        with torch.inference_mode():
            return self.get_loss(self.infer(X), y, X=X, training=False)

    def train_step(self, batch: Any, **fit_params: Any) -> dict:
        """Take one step of skorch's own loop, at the scheduled learning rate."""
        self._set_learning_rate()
        return super().train_step(batch, **fit_params)

    def _set_learning_rate(self) -> None:
        """Learning rate of the coming step: linear warm-up, cosine to zero."""
        if self.schedule == "constant":
            return
        done, total = self._n_steps, self._n_steps_total
        self._n_steps += 1
        warmup = min(self.warmup_steps, total // 10)
        factor = 0.5 * (1.0 + math.cos(math.pi * done / total))
        if done < warmup:
            factor *= (done + 1) / (warmup + 1)
        for group, rate in zip(self.optimizer_.param_groups, self._rates, strict=True):
            group["lr"] = rate * factor

    def _is_over(self) -> bool:
        """Whether the validation loss has not improved for long enough."""
        callbacks = [c for _, c in self.callbacks_ if isinstance(c, BestEpoch)]
        return any(callback.is_over_ for callback in callbacks)

    def _needs_batches(self) -> bool:
        """Whether a callback overrides a hook that is called for every batch."""
        return any(
            getattr(type(callback), hook) is not getattr(Callback, hook)
            for _, callback in self.callbacks_
            for hook in _BATCH_HOOKS
        )


def _is_raised_by_statement(error: BaseException) -> bool:
    """Whether code raised the error, as callbacks that stop do, and not a signal.

    Python raises KeyboardInterrupt for Ctrl-C between any two instructions.
    """
    traceback = error.__traceback__
    while traceback is not None and traceback.tb_next is not None:
        traceback = traceback.tb_next
    if traceback is None:
        return True
    instruction = traceback.tb_frame.f_code.co_code[traceback.tb_lasti]
    return instruction == dis.opmap["RAISE_VARARGS"]


def _as_pair(tensors: tuple[Tensor, ...]) -> tuple[Any, Any]:
    """Features, and the target alone or with its weights."""
    X, *rest = tensors
    return X, rest[0] if len(rest) == 1 else tuple(rest)


def _mix(seed: int, epoch: int) -> int:
    """Seed of one epoch; a large odd factor keeps neighbouring seeds apart."""
    return (seed * 0x9E3779B97F4A7C15 + epoch) % 2**63
