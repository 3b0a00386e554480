"""Base of the estimators that take tables: check what comes in and read it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import Tags
from sklearn.utils.validation import validate_data

from sk_quadratic._columns import (
    LABEL,
    Table,
    as_frame_or_array,
    check_frame_size,
    is_frame,
    is_numeric_array,
    read_table,
    resolve_categorical,
)
from sk_quadratic._rows import Rows
from sk_quadratic._targets import check_target, check_weight


class TableReader(BaseEstimator):
    """Estimator that reads frames, arrays and lists, with or without weights.

    A subclass has the parameters `categorical_features`, `early_stopping`, `loss` and
    `quantile`.
    """

    is_categorical_: NDArray[np.bool_]
    _kinds: NDArray[np.int8]
    _n_targets: int
    _has_flat_predictions: bool

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        # Not `string`, though text is taken: scikit-learn's checks want estimators of
        # that tag to take any object in a cell.
        tags.target_tags.multi_output = True
        return tags

    def _read_table(self, X: Any, *, reset: bool) -> Table:
        """Check a table against the columns of `fit`, or learn these from it."""
        X = as_frame_or_array(X)
        if is_frame(X):
            check_frame_size(X)
            validate_data(self, X, reset=reset, skip_check_array=True)
        elif is_numeric_array(X):
            X = validate_data(
                self,
                X,
                reset=reset,
                dtype=(np.float64, np.float32),
                ensure_all_finite="allow-nan",
            )
        else:
            X = validate_data(self, X, reset=reset, dtype=None, ensure_all_finite=False)
        names = getattr(self, "feature_names_in_", None)
        if not reset:
            return read_table(X, feature_names=names, kinds=self._kinds)
        categorical = resolve_categorical(
            self.categorical_features, self.n_features_in_, names
        )
        table = read_table(X, feature_names=names, categorical=categorical)
        self._kinds = table.kinds
        self.is_categorical_ = table.kinds == LABEL
        return table

    def _read_rows(
        self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None, *, reset: bool
    ) -> Rows:
        """Check features, targets and weights."""
        if y is None:
            raise ValueError(
                f"This {type(self).__name__} estimator requires y to be passed, but "
                "the target y is None."
            )
        table = self._read_table(X, reset=reset)
        target = check_target(y, len(table), self)
        if self.loss == "poisson" and not (target.min() >= 0.0 and target.sum() > 0.0):
            raise ValueError("loss='poisson' requires y >= 0 and sum(y) > 0.")
        if reset:
            self._n_targets = 1 if target.ndim == 1 else target.shape[1]
            one_level = self.quantile is None or np.ndim(self.quantile) == 0
            self._has_flat_predictions = target.ndim == 1 and one_level
        target = target.reshape(len(target), -1)
        if target.shape[1] != self._n_targets:
            raise ValueError(
                f"y has {target.shape[1]} targets, but {type(self).__name__} was "
                f"fitted with {self._n_targets}."
            )
        weight = None
        if sample_weight is not None:
            weight = check_weight(sample_weight, len(table))
        return Rows(table, target, np.arange(len(table)), weight)

    def _read_validation_rows(
        self, X: Any, y: ArrayLike | None, sample_weight: ArrayLike | None
    ) -> Rows | None:
        if X is None and y is None:
            if sample_weight is not None:
                raise ValueError("sample_weight_val is given without X_val and y_val.")
            return None
        if X is None or y is None:
            given, lacking = ("y_val", "X_val") if X is None else ("X_val", "y_val")
            raise ValueError(f"{given} is provided, but {lacking} was not provided.")
        if self.early_stopping is False:
            raise ValueError(
                "X_val and y_val are for early stopping, and early_stopping is False. "
                "Set it to 'auto' or True."
            )
        try:
            return self._read_rows(X, y, sample_weight, reset=False).present()
        except (TypeError, ValueError) as error:
            error.add_note("This concerns X_val, y_val and sample_weight_val.")
            raise
