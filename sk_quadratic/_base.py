"""Base of the estimators: check, encode, seed, train the skorch net, predict."""

from __future__ import annotations

import copy
import math
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import RegressorMixin
from sklearn.model_selection import train_test_split
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn
from torch.nn.functional import pad

from sk_quadratic._encoding import TableEncoder
from sk_quadratic._losses import LOSS_NAMES, Quantile, explained, make_loss
from sk_quadratic._reading import TableReader
from sk_quadratic._resources import check_device, resolve_batch_size
from sk_quadratic._rows import Rows
from sk_quadratic._sklearn_compat import Interval, StrOptions, _fit_context
from sk_quadratic._targets import TargetScaler
from sk_quadratic._threads import plain_torch
from sk_quadratic._training import TableSplit, TabularNet, TensorBatches, TensorTable
from sk_quadratic.modules import ACTIVATIONS, BlockNetwork, TableEmbedding

_ROWS_PER_CHUNK = 8192  # of predict: larger blocks of activations leave the cache
_ROWS_MULTIPLE = 32
_ROWS_FOR_EARLY_STOPPING = 100  # below, a validation part is too noisy to choose by


class BaseBlockRegressor(RegressorMixin, TableReader, ABC):
    """Regressor that trains a `BlockNetwork` through skorch.

    A subclass lists its parameters in ``__init__`` and builds its block in
    ``_make_block``.
    """

    _parameter_constraints: ClassVar[dict[str, list]] = {
        "width": [Interval(Integral, 1, None, closed="left"), None],
        "n_blocks": [Interval(Integral, 1, None, closed="left")],
        "n_branches": [Interval(Integral, 1, None, closed="left")],
        "activation": [StrOptions(set(ACTIVATIONS))],
        "loss": [StrOptions(set(LOSS_NAMES))],
        "quantile": [Interval(Real, 0, 1, closed="neither"), "array-like", None],
        "categorical_features": ["array-like", StrOptions({"from_dtype"}), None],
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
    def fit(
        self,
        X: Any,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        X_val: Any = None,
        y_val: ArrayLike | None = None,
        sample_weight_val: ArrayLike | None = None,
    ) -> Self:
        """Fit the network.

        Parameters
        ----------
        X : array-like or frame of shape (n_samples, n_features)
            Features: a frame of pandas or polars with columns of numbers, booleans,
            text and categories, or an array or list. Missing values are taken as they
            are. Numbers are scaled inside and categories embedded.
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
            Target or targets, finite. They are scaled inside.
        sample_weight : array-like of shape (n_samples,), float or None, default=None
            Weights, not negative. A whole number is the same as so many equal rows,
            and zero the same as no row.
        X_val : array-like or frame of shape (n_val, n_features) or None, default=None
            Rows to choose the epoch on, in place of a random part of `X`.
        y_val : array-like of shape (n_val,) or (n_val, n_targets) or None, default=None
            Their targets.
        sample_weight_val : array-like of shape (n_val,) or None, default=None
            Their weights.

        Returns
        -------
        self : object
            The fitted estimator.

        Raises
        ------
        TypeError
            If a column holds dates or times, or anything but numbers, text and
            categories.
        ValueError
            If the data or a parameter is not valid, or training diverges. The
            estimator is then as it was before the call.
        KeyboardInterrupt
            If the training is interrupted before its first epoch is over. Later on
            an interruption warns, and what was learned until then is kept.
        """
        with self._all_or_nothing(), plain_torch():
            goes_on = self.warm_start and self._can_go_on()
            given = self._read_rows(X, y, sample_weight, reset=not goes_on)
            valid = self._read_validation_rows(X_val, y_val, sample_weight_val)
            rows = given.merged()
            if not goes_on:
                self._draw_seeds()
            if valid is None:
                rows, valid = self._split(rows)
            if goes_on:
                self.net_ = copy.deepcopy(self.net_)
            else:
                self._start(rows)
            self._set_training_parameters(len(rows), early_stopping=valid is not None)
            self._train(rows, valid)
        return self

    @_fit_context(prefer_skip_nested_validation=True)
    def partial_fit(
        self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Train for one epoch on a chunk of the data.

        The first chunk fixes the scaling of features and target and the categories,
        so it has to be one of different targets: a random sample of all rows, for
        example. Categories that the type of a column declares count as known. The
        learning rate is constant, since the number of epochs to come is not known,
        and no row is held out, whatever `early_stopping` is: when to stop is up to the
        caller.

        Parameters
        ----------
        X : array-like or frame of shape (n_samples, n_features)
            Features, as for `fit`.
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
            Target or targets, finite.
        sample_weight : array-like of shape (n_samples,), float or None, default=None
            Weights, not negative, relative to one another within the chunk.

        Returns
        -------
        self : object
            The fitted estimator.

        Raises
        ------
        TypeError
            If a column holds dates or times, or anything but numbers, text and
            categories.
        ValueError
            If the data or a parameter is not valid, or training diverges. The
            estimator is then as it was before the call.
        """
        with self._all_or_nothing(), plain_torch():
            goes_on = self._can_go_on()
            rows = self._read_rows(X, y, sample_weight, reset=not goes_on).present()
            if goes_on:
                self.net_ = copy.deepcopy(self.net_)
            else:
                self._draw_seeds()
                self._start(rows, min_count=0.0)
                if (self._target_scaler.scale_ == 0.0).any():
                    raise ValueError(
                        "The first chunk of partial_fit fixes the scaling of the "
                        f"target, and its {len(rows)} targets are all equal. "
                        "Begin with a chunk of different targets."
                    )
            self._set_training_parameters(len(rows), early_stopping=False)
            self.net_.set_params(schedule="constant", max_epochs=1)
            self._train(rows, None)
        return self

    def predict(self, X: Any) -> NDArray[np.float64]:
        """Predict the target.

        Parameters
        ----------
        X : array-like or frame of shape (n_samples, n_features)
            Features, in the columns of `fit`. Categories that were not seen there
            count as unknown ones.

        Returns
        -------
        ndarray of shape (n_samples,), (n_samples, n_targets) or (n_samples, n_levels)
            Predictions in the units of the target: one column for each target, or for
            each level where `quantile` is a list.
        """
        check_is_fitted(self)
        table = self._read_table(X, reset=False)
        with plain_torch():
            z = self._forward(self._encoder.transform(table))
        with np.errstate(over="ignore"):
            predictions = self._target_scaler.inverse_transform(z)
        finite = np.isfinite(predictions).all(axis=1)
        if not finite.all():
            raise ValueError(
                f"The prediction of row {int(np.flatnonzero(~finite)[0])} is not "
                "finite: it lies too far from the training data."
            )
        return predictions[:, 0] if self._has_flat_predictions else predictions

    def score(
        self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> float:
        """Coefficient of determination of the predictions.

        Parameters
        ----------
        X : array-like or frame of shape (n_samples, n_features)
            Features.
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
            True targets.
        sample_weight : array-like of shape (n_samples,) or None, default=None
            Weights.

        Returns
        -------
        float
            The mean over the targets of :math:`R^2`, at most 1.

        Raises
        ------
        ValueError
            If the estimator predicts several quantiles, which no single score judges.
        """
        check_is_fitted(self)
        loss = self.net_.criterion_
        if isinstance(loss, Quantile) and not self._has_flat_predictions:
            n_levels = len(loss.levels)
            raise ValueError(
                f"score needs one prediction per target; this model gives {n_levels} "
                "quantiles. Use sklearn.metrics.mean_pinball_loss on a column of them."
            )
        return super().score(X, y, sample_weight)

    @property
    def module_(self) -> BlockNetwork:
        """The trained network, a :class:`torch.nn.Module`."""
        check_is_fitted(self)
        return self.net_.module_

    def _can_go_on(self) -> bool:
        """Whether there is a net that learned something: not from a constant target."""
        return hasattr(self, "net_") and bool((self._target_scaler.scale_ != 0.0).any())

    def _network_maker(
        self, n_features: int, n_codes: Sequence[int] = (), n_outputs: int = 1
    ) -> Callable[..., BlockNetwork]:
        """Maker of the network for encoded tables, which takes the `generator`.

        Of the `n_features` columns the last ones hold codes, so many of them.
        """
        embedding = None
        if len(n_codes):
            n_numbers = n_features - len(n_codes)
            embedding = partial(TableEmbedding, n_numbers, tuple(n_codes))
        return partial(
            BlockNetwork,
            n_features,
            n_outputs,
            width=None if self.width is None else int(self.width),
            n_blocks=int(self.n_blocks),
            block=self._make_block(),
            embedding=embedding,
            device="cpu",
            dtype=torch.float32,
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

    def _split(self, rows: Rows) -> tuple[Rows, Rows | None]:
        """Rows to train on and rows to validate on (None without early stopping)."""
        n = len(rows)
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
            np.arange(n), test_size=n_valid, random_state=self._seeds["split"]
        )
        return rows.subset(np.sort(train)), rows.subset(np.sort(valid))

    def _start(self, rows: Rows, *, min_count: float = 2.0) -> None:
        """Fit the encoders on the training rows and build an untrained net."""
        loss = make_loss(self.loss, self.quantile, self._n_targets)
        encoder = TableEncoder()
        encoder.fit(rows.table, rows.index, rows.weight, min_count=min_count)
        self._encoder = encoder
        self._target_scaler = TargetScaler(loss.scaling).fit(rows.target, rows.weight)
        network = self._network_maker(
            encoder.n_columns, encoder.n_codes, loss.n_outputs(self._n_targets)
        )
        self.net_ = TabularNet(
            partial(network, generator=self._seeds["weights"]),
            criterion=loss,
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

    def _tensors(self, rows: Rows) -> TensorTable:
        """Encoded rows, with weights of mean 1."""
        weight = None
        if rows.weight is not None:
            scaled = rows.weight / rows.weight.mean()
            weight = torch.from_numpy(scaled.astype(np.float32))
        return TensorTable(
            self._encoder.transform(rows.table, rows.index),
            self._target_scaler.transform(rows.target),
            weight,
        )

    def _train(self, rows: Rows, valid: Rows | None) -> None:
        """Train, check what came out, and set the fitted attributes."""
        parts = (rows,) if valid is None else (rows, valid)
        split = TableSplit(*(self._tensors(part) for part in parts))
        baseline = self._baseline_loss(split.valid)
        net = self.net_
        net.baseline_loss = baseline
        n_before = len(net.history)
        net.iterator_train__first_epoch = n_before
        net.partial_fit(split)
        if len(net.history) == n_before:
            raise KeyboardInterrupt
        if net.interrupted_:
            warnings.warn("Training interrupted by user.", stacklevel=4)
        self._check_converged(split.train)
        n_new = len(net.history) - n_before
        baselines = [baseline] * n_new
        # A new list: the old one is the previous fit's, to go back to after a failure.
        self._validation_baselines = self._validation_baselines + baselines
        self.n_iter_ = len(net.history)
        self.best_epoch_ = net.best_epoch_
        self.loss_curve_ = [float(epoch["train_loss"]) for epoch in net.history]
        self.validation_scores_ = [
            explained(epoch.get("valid_loss", math.nan), baseline)
            for epoch, baseline in zip(
                net.history, self._validation_baselines, strict=True
            )
        ]

    def _forward(self, X: Tensor) -> NDArray[np.float32]:
        """Scaled predictions in chunks, on the CPU: shape (n_samples, n_outputs).

        Matrix products round a row alike in every multiple of some rows, but not in
        every number of them. Padding makes the prediction of a row, to the last bit,
        the same alone and in company.
        """
        module, device = self.net_.module_.eval(), self.net_.device
        link = self.net_.criterion_.link
        chunks = []
        with torch.inference_mode():
            for rows in X.split(_ROWS_PER_CHUNK):
                padded = pad(rows, (0, 0, 0, -len(rows) % _ROWS_MULTIPLE))
                chunks.append(link(module(padded.to(device)))[: len(rows)].cpu())
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
        _, y, *weight = valid.tensors
        w = weight[0].numpy() if weight else None
        loss = self.net_.criterion_
        constant = torch.from_numpy(loss.best_constant(y.numpy(), w)).to(y.dtype)
        rows = loss.row_loss(constant.expand(len(y), -1), y)
        return float((rows if w is None else rows * weight[0]).mean())

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
