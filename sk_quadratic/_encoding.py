"""Tables and targets as standardised float32 tensors."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.preprocessing import StandardScaler
from torch import Tensor

_ROWS_PER_CHUNK = 65_536  # bounds the float64 copies made on the way to float32


class NumericEncoder:
    """Standardise numeric columns with the statistics of the training rows.

    The statistics and the division are in float64, so that a column with a large
    offset keeps its digits; only the result is float32.
    """

    def fit(
        self, X: NDArray[np.floating], feature_names: Sequence[str] | None = None
    ) -> NumericEncoder:
        """Learn mean and deviation of every column.

        Parameters
        ----------
        X : ndarray of shape (n_samples, n_features)
            Training rows, finite.
        feature_names : sequence of str or None
            Names of the columns for the messages.

        Returns
        -------
        NumericEncoder
            The encoder itself.

        Raises
        ------
        ValueError
            If a column's values are too large to have a finite variance.
        """
        self.feature_names = None if feature_names is None else list(feature_names)
        with np.errstate(over="ignore", invalid="ignore"):
            scaler = StandardScaler().fit(X)
        self._check_finite(scaler.var_, "have no finite variance")
        self.mean_ = scaler.mean_
        self.scale_ = scaler.scale_
        return self

    def transform(self, X: NDArray[np.floating]) -> Tensor:
        """Standardise rows.

        Parameters
        ----------
        X : ndarray of shape (n_samples, n_features)
            Rows, finite.

        Returns
        -------
        Tensor of shape (n_samples, n_features)
            Standardised rows in float32, on the CPU.

        Raises
        ------
        ValueError
            If a value is too far from the training data for float32.
        """
        out = np.empty(X.shape, dtype=np.float32)
        for start in range(0, len(X), _ROWS_PER_CHUNK):
            rows = slice(start, start + _ROWS_PER_CHUNK)
            with np.errstate(over="ignore"):
                out[rows] = (X[rows].astype(np.float64) - self.mean_) / self.scale_
            self._check_finite(
                out[rows].sum(axis=0, dtype=np.float64),
                "are too far from the training data for float32",
            )
        return torch.from_numpy(out)

    def _check_finite(self, per_column: NDArray[np.floating], problem: str) -> None:
        bad = np.flatnonzero(~np.isfinite(per_column))
        if bad.size:
            names = self.feature_names
            which = ", ".join(repr(names[j]) if names else str(j) for j in bad[:5])
            raise ValueError(
                f"X has values too large: those of column {which} {problem}. Rescale "
                "or clip them."
            )


class TargetScaler:
    """Standardise a target with the statistics of the training rows.

    A constant target is mapped to zero and every prediction back to the constant.
    """

    def fit(self, y: NDArray[np.floating]) -> TargetScaler:
        """Learn mean and deviation.

        Parameters
        ----------
        y : ndarray of shape (n_samples,)
            Training target, finite.

        Returns
        -------
        TargetScaler
            The scaler itself.

        Raises
        ------
        ValueError
            If the values are too large to have a finite variance.
        """
        y = np.asarray(y, dtype=np.float64)
        with np.errstate(over="ignore", invalid="ignore"):
            self.mean_ = float(y.mean())
            variance = float(y.var())
            unit = float(np.abs(y).max()) or 1.0  # squares of tiny values vanish
            deviation = float((y / unit).std()) * unit
        if not np.isfinite(variance):
            raise ValueError("y has values too large to have a finite variance.")
        rounding = np.finfo(np.float64).eps * abs(self.mean_)
        self.scale_ = deviation if deviation > 10.0 * rounding else 0.0
        if self.scale_ == 0.0:
            self.mean_ = float(y[0])  # the mean of equal numbers may differ in a bit
        return self

    def transform(self, y: NDArray[np.floating]) -> Tensor:
        """Standardise a target.

        Parameters
        ----------
        y : ndarray of shape (n_samples,)
            Target.

        Returns
        -------
        Tensor of shape (n_samples, 1)
            Standardised target in float32: a column, as the network's output is one,
            and a vector beside it would broadcast in the loss.
        """
        scaled = (np.asarray(y, dtype=np.float64) - self.mean_) / (self.scale_ or 1.0)
        return torch.from_numpy(scaled.astype(np.float32)).unsqueeze(1)

    def inverse_transform(self, z: NDArray[np.floating]) -> NDArray[np.float64]:
        """Bring predictions back to the units of the target.

        Parameters
        ----------
        z : ndarray of shape (n_samples, 1)
            Output of the network.

        Returns
        -------
        ndarray of shape (n_samples,)
            Predictions in the target's units, in float64.
        """
        return z[:, 0].astype(np.float64) * self.scale_ + self.mean_
