"""Base of the estimators: check, encode, seed, train the skorch net, predict."""

from __future__ import annotations

import copy
import math
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from numbers import Integral, Real
from typing import ClassVar, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.model_selection import train_test_split
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor, nn
from torch.nn.functional import pad

from sk_quadratic._encoding import NumericEncoder, TargetScaler
from sk_quadratic._sklearn_compat import Interval, StrOptions, _fit_context
from sk_quadratic._threads import plain_torch
from sk_quadratic._training import (
    LOSSES,
    TableSplit,
    TabularNet,
    TensorBatches,
    TensorTable,
)
from sk_quadratic.modules import ACTIVATIONS, BlockNetwork

_ROWS_PER_CHUNK = 8192  # of predict: larger blocks of activations leave the cache
_ROWS_MULTIPLE = 32
_ROWS_FOR_EARLY_STOPPING = 100  # below, a validation part is too noisy to choose by


class BaseBlockRegressor(RegressorMixin, BaseEstimator, ABC):
    """Regressor that trains a `BlockNetwork` through skorch.

    A subclass lists its parameters in ``__init__`` and builds its block in
    ``_make_block``.
    """

    _parameter_constraints: ClassVar[dict[str, list]] = {
        "width": [Interval(Integral, 1, None, closed="left"), None],
        "n_blocks": [Interval(Integral, 1, None, closed="left")],
        "n_branches": [Interval(Integral, 1, None, closed="left")],
        "activation": [StrOptions(set(ACTIVATIONS))],
        "loss": [StrOptions(set(LOSSES))],
        "learning_rate": [Interval(Real, 0, None, closed="neither")],
        "learning_rate_schedule": [StrOptions({"cosine", "constant"})],
        "weight_decay": [Interval(Real, 0, None, closed="left")],
        "batch_size": [
            Interval(Integral, 1, None, closed="left"),
            StrOptions({"auto"}),
        ],
        "max_epochs": [Interval(Integral, 1, None, closed="left")],
        "early_stopping": ["boolean", StrOptions({"auto"})],
        "validation_fraction": [Interval(Real, 0, 1, closed="neither")],
        "n_iter_no_change": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "device": [str, torch.device],
        "random_state": ["random_state"],
        "warm_start": ["boolean"],
        "verbose": ["verbose"],
        "callbacks": [list, None],
    }

    net_: TabularNet
    n_iter_: int
    best_epoch_: int
    loss_curve_: list[float]
    validation_scores_: list[float]

    @abstractmethod
    def _make_block(self) -> Callable[..., nn.Module]:
        """Maker of one block, as `BlockNetwork` takes it."""

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Fit the network.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Numeric features, finite. They are standardised inside.
        y : array-like of shape (n_samples,)
            Target, finite. It is standardised inside.

        Returns
        -------
        self : object
            The fitted estimator.

        Raises
        ------
        ValueError
            If the data or a parameter is not valid, or training diverges. The
            estimator is then as it was before the call.
        KeyboardInterrupt
            If the training is interrupted before its first epoch is over. Later on
            an interruption warns, and what was learned until then is kept.
        """
        with self._all_or_nothing(), plain_torch():
            goes_on = self.warm_start and self._can_go_on()
            X_checked, y_checked = self._check_X_y(X, y, reset=not goes_on)
            if not goes_on:
                self._draw_seeds()
            train, valid = self._split(len(X_checked))
            if goes_on:
                self.net_ = copy.deepcopy(self.net_)
            else:
                self._start(X_checked[train], y_checked[train])
            self._set_training_parameters(len(train), early_stopping=valid is not None)
            parts = (train,) if valid is None else (train, valid)
            self._train(
                TableSplit(*(self._table(X_checked[i], y_checked[i]) for i in parts))
            )
        return self

    @_fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Train for one epoch on a chunk of the data.

        The first chunk fixes the scaling of features and target, so it has to be one
        of different targets. The learning rate is
        constant, since the number of epochs to come is not known, and no row is held
        out, whatever `early_stopping` is: when to stop is up to the caller.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Numeric features, finite.
        y : array-like of shape (n_samples,)
            Target, finite.

        Returns
        -------
        self : object
            The fitted estimator.

        Raises
        ------
        ValueError
            If the data or a parameter is not valid, or training diverges. The
            estimator is then as it was before the call.
        """
        with self._all_or_nothing(), plain_torch():
            goes_on = self._can_go_on()
            X_checked, y_checked = self._check_X_y(X, y, reset=not goes_on)
            if goes_on:
                self.net_ = copy.deepcopy(self.net_)
            else:
                self._draw_seeds()
                self._start(X_checked, y_checked)
                if self._target_scaler.scale_ == 0.0:
                    raise ValueError(
                        "The first chunk of partial_fit fixes the scaling of the "
                        f"target, and its {len(y_checked)} targets are all equal. "
                        "Begin with a chunk of different targets."
                    )
            self._set_training_parameters(len(X_checked), early_stopping=False)
            self.net_.set_params(schedule="constant", max_epochs=1)
            self._train(TableSplit(self._table(X_checked, y_checked)))
        return self

    def predict(self, X: ArrayLike) -> NDArray[np.float64]:
        """Predict the target.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Numeric features, finite.

        Returns
        -------
        ndarray of shape (n_samples,)
            Predictions in the units of the target.
        """
        check_is_fitted(self)
        X_checked = validate_data(
            self, X, reset=False, dtype=(np.float64, np.float32), order="C"
        )
        with plain_torch():
            z = self._forward(self._encoder.transform(X_checked))
        if not np.isfinite(z).all():
            row = int(np.flatnonzero(~np.isfinite(z[:, 0]))[0])
            raise ValueError(
                f"The prediction of row {row} is not finite: X lies too far from the "
                "training data. Clip it."
            )
        return self._target_scaler.inverse_transform(z)

    @property
    def module_(self) -> BlockNetwork:
        """The trained network, a :class:`torch.nn.Module`."""
        check_is_fitted(self)
        return self.net_.module_

    def _can_go_on(self) -> bool:
        """Whether there is a net that learned something: not from a constant target."""
        return hasattr(self, "net_") and self._target_scaler.scale_ != 0.0

    def _network_maker(self, n_features: int) -> Callable[..., BlockNetwork]:
        """Maker of the network for so many features, which takes the `generator`."""
        return partial(
            BlockNetwork,
            n_features,
            width=None if self.width is None else int(self.width),
            n_blocks=int(self.n_blocks),
            block=self._make_block(),
            device="cpu",
            dtype=torch.float32,
        )

    def _check_X_y(
        self, X: ArrayLike, y: ArrayLike, *, reset: bool
    ) -> tuple[NDArray[np.floating], NDArray[np.floating]]:
        return validate_data(
            self,
            X,
            y,
            reset=reset,
            dtype=(np.float64, np.float32),
            order="C",
            y_numeric=True,
        )

    def _draw_seeds(self) -> None:
        """One seed for each use, so that none changes with another's parameters."""
        random_state = check_random_state(self.random_state)
        root = np.random.SeedSequence(int(random_state.randint(2**31)))
        names = ("split", "weights", "order")
        self._seeds = {
            name: int(child.generate_state(1)[0])
            for name, child in zip(names, root.spawn(len(names)), strict=True)
        }

    def _split(self, n: int) -> tuple[NDArray[np.intp], NDArray[np.intp] | None]:
        """Rows to train on and rows to validate on (None without early stopping)."""
        rows = np.arange(n)
        early_stopping = self.early_stopping
        if early_stopping == "auto":
            early_stopping = n >= _ROWS_FOR_EARLY_STOPPING
        if not early_stopping:
            return rows, None
        n_valid = math.ceil(self.validation_fraction * n)
        if n - n_valid < 1:
            raise ValueError(
                f"early_stopping with validation_fraction={self.validation_fraction} "
                f"leaves no row to train on: n_samples={n}. Set early_stopping=False."
            )
        train, valid = train_test_split(
            rows, test_size=n_valid, random_state=self._seeds["split"]
        )
        return np.sort(train), np.sort(valid)

    def _start(self, X: NDArray[np.floating], y: NDArray[np.floating]) -> None:
        """Fit the encoders on the training rows and build an untrained net."""
        names = getattr(self, "feature_names_in_", None)
        self._encoder = NumericEncoder().fit(X, names)
        self._target_scaler = TargetScaler().fit(y)
        self.net_ = TabularNet(
            partial(self._network_maker(X.shape[1]), generator=self._seeds["weights"]),
            criterion=LOSSES[self.loss],
            optimizer=torch.optim.AdamW,
            optimizer__fused=True,
            train_split=None,
            iterator_train=TensorBatches,
            iterator_train__seed=self._seeds["order"],
            iterator_valid=TensorBatches,
            iterator_valid__batch_size=_ROWS_PER_CHUNK,
            callbacks=copy.deepcopy(self.callbacks),
            device=check_device(self.device),
            verbose=int(self.verbose),
        )
        self._validation_baselines: list[float] = []

    def _set_training_parameters(self, n_train: int, *, early_stopping: bool) -> None:
        """Hand the training parameters to the net, which may be a trained one."""
        net = self.net_
        patience = int(self.n_iter_no_change) if early_stopping else None
        other_callbacks = (net.patience, net.tol) != (patience, float(self.tol))
        net.set_params(
            lr=float(self.learning_rate),
            optimizer__weight_decay=float(self.weight_decay),
            max_epochs=int(self.max_epochs),
            batch_size=resolve_batch_size(self.batch_size, n_train),
            schedule=self.learning_rate_schedule,
            patience=patience,
            tol=float(self.tol),
        )
        if not net.initialized_:
            net.initialize()
        elif other_callbacks:
            net.initialize_callbacks()

    def _table(self, X: NDArray[np.floating], y: NDArray[np.floating]) -> TensorTable:
        return TensorTable(self._encoder.transform(X), self._target_scaler.transform(y))

    def _train(self, split: TableSplit) -> None:
        """Train, check what came out, and set the fitted attributes."""
        net = self.net_
        n_before = len(net.history)
        net.iterator_train__first_epoch = n_before
        net.partial_fit(split)
        if len(net.history) == n_before:
            raise KeyboardInterrupt
        if net.interrupted_:
            warnings.warn("Training interrupted by user.", stacklevel=4)
        self._check_converged(split.train)
        n_new = len(net.history) - n_before
        baselines = [self._baseline_loss(split.valid)] * n_new
        # A new list: the old one is the previous fit's, to go back to after a failure.
        self._validation_baselines = self._validation_baselines + baselines
        self.n_iter_ = len(net.history)
        self.best_epoch_ = net.best_epoch_
        self.loss_curve_ = [float(epoch["train_loss"]) for epoch in net.history]
        self.validation_scores_ = [
            _explained(epoch.get("valid_loss", math.nan), baseline)
            for epoch, baseline in zip(
                net.history, self._validation_baselines, strict=True
            )
        ]

    def _forward(self, X: Tensor) -> NDArray[np.float32]:
        """Output of the network in chunks, on the CPU: shape (n_samples, 1).

        Matrix products round a row alike in every multiple of some rows, but not in
        every number of them. Padding makes the prediction of a row, to the last bit,
        the same alone and in company.
        """
        module, device = self.net_.module_.eval(), self.net_.device
        chunks = []
        with torch.inference_mode():
            for rows in X.split(_ROWS_PER_CHUNK):
                padded = pad(rows, (0, 0, 0, -len(rows) % _ROWS_MULTIPLE))
                chunks.append(module(padded.to(device))[: len(rows)].cpu())
        return torch.cat(chunks).numpy()

    def _check_converged(self, train: TensorTable) -> None:
        """Refuse weights that a last step has blown up."""
        if not np.isfinite(self._forward(train.tensors[0])).all():
            raise ValueError(
                "Training diverged: predictions of the training rows are not finite. "
                f"Lower learning_rate, now {self.learning_rate}."
            )

    def _baseline_loss(self, valid: TensorTable | None) -> float:
        """Validation loss of the best constant, in the units of the training loss."""
        if valid is None:
            return math.nan
        y = valid.tensors[1]
        constant = y.mean() if self.loss == "squared_error" else y.median()
        return float(self.net_.criterion_(constant.expand_as(y), y))

    @contextmanager
    def _all_or_nothing(self) -> Iterator[None]:
        """Leave the estimator as it was if the body fails."""
        before = dict(self.__dict__)
        try:
            yield
        except BaseException:
            self.__dict__.clear()
            self.__dict__.update(before)
            raise


def check_device(device: str | torch.device) -> str:
    """Name of a device that is there.

    Parameters
    ----------
    device : str or torch.device
        ``"auto"`` is CUDA where there is one and the CPU elsewhere.

    Returns
    -------
    str
        Name of the device.

    Raises
    ------
    ValueError
        If torch does not know the device, or it is not on this machine.
    """
    if device == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        found = torch.device(device)
    except RuntimeError as error:
        raise ValueError(
            f"device must be 'auto', 'cpu', 'cuda' or another device of torch; got "
            f"{device!r}."
        ) from error
    if found.type == "cpu":
        return str(found)
    backend = getattr(torch, found.type, None)
    if backend is None or not backend.is_available():
        raise ValueError(
            f"device={str(device)!r} is not available on this machine. Use 'auto' to "
            "take CUDA where there is one and the CPU elsewhere."
        )
    if found.index is not None and found.index >= backend.device_count():
        raise ValueError(
            f"device={str(device)!r} is not available: the machine has "
            f"{backend.device_count()} of them, counted from 0."
        )
    return str(found)


def resolve_batch_size(batch_size: int | str, n_train: int) -> int:
    """Rows per batch.

    Parameters
    ----------
    batch_size : int or "auto"
        ``"auto"`` is the power of two nearest to a sixteenth of the rows, within 32
        and 256.
    n_train : int
        Number of training rows.

    Returns
    -------
    int
        Rows per batch, at most all.
    """
    if batch_size == "auto":
        batch_size = 2 ** min(max(round(math.log2(n_train / 16)), 5), 8)
    return min(int(batch_size), n_train)


def _explained(loss: float, baseline: float) -> float:
    """Share of the best constant's loss that is explained: R2 for squared error."""
    if baseline == 0.0:
        return 1.0 if loss == 0.0 else 0.0
    return 1.0 - loss / baseline
