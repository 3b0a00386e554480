"""Targets: checked, scaled for training, and predictions brought back."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.exceptions import DataConversionWarning
from sklearn.utils import check_array
from torch import Tensor

from sk_quadratic._quantiles import robust_center_scale
from sk_quadratic._sklearn_compat import _check_sample_weight

_LARGEST = 1e15  # squares stay far within the range of float32


def check_target(
    y: ArrayLike, n_samples: int, estimator: object = None
) -> NDArray[np.floating]:
    """Check a target.

    Parameters
    ----------
    y : array-like of shape (n_samples,) or (n_samples, n_targets)
        Target or targets.
    n_samples : int
        Number of rows of X.
    estimator : object or None
        Whom messages speak of.

    Returns
    -------
    ndarray of shape (n_samples,) or (n_samples, n_targets)
        Floats; flat, with a warning, where one target came as a column.

    Raises
    ------
    ValueError
        If y is not finite, not numeric, of another length or of more dimensions.
    """
    target: NDArray[np.floating] = check_array(
        y,
        ensure_2d=False,
        allow_nd=True,
        dtype=(np.float64, np.float32),
        input_name="y",
        estimator=estimator,
    )
    if target.ndim not in (1, 2):
        raise ValueError(
            "y must have shape (n_samples,) or (n_samples, n_targets); got "
            f"{target.shape}."
        )
    if len(target) != n_samples:
        raise ValueError(
            "Found input variables with inconsistent numbers of samples: "
            f"[{n_samples}, {len(target)}]"
        )
    if target.ndim == 2 and target.shape[1] == 1:
        warnings.warn(
            "A column-vector y was passed when a 1d array was expected. Please change "
            "the shape of y to (n_samples,), for example using ravel().",
            DataConversionWarning,
            stacklevel=4,
        )
        return target[:, 0]
    return target


def check_weight(sample_weight: ArrayLike, n_samples: int) -> NDArray[np.float64]:
    """Check weights.

    Parameters
    ----------
    sample_weight : array-like of shape (n_samples,) or float
        Weights.
    n_samples : int
        Number of rows of X.

    Returns
    -------
    ndarray of shape (n_samples,)
        Weights.

    Raises
    ------
    ValueError
        If they are negative, not finite, of another shape or all zero.
    """
    weight = _check_sample_weight(
        sample_weight,
        np.empty((n_samples, 1), dtype=np.bool_),
        dtype=np.float64,
        ensure_non_negative=True,
    )
    if not weight.any():
        raise ValueError("sample_weight must have a positive weight; all are zero.")
    if not np.isfinite(weight.sum()):
        raise ValueError("sample_weight has values too large to be summed.")
    return weight


class TargetScaler:
    """Bring targets to numbers of order one, and predictions back.

    A constant target is mapped to zero and every prediction back to the constant.

    Parameters
    ----------
    scaling : {"deviation", "quartiles", "mean"}
        ``"deviation"`` takes mean and standard deviation, ``"quartiles"`` the median
        and the spread of the quartiles, which wild values do not move, and ``"mean"``
        divides counts by their mean, of which the network predicts the logarithm.
    """

    def __init__(self, scaling: str) -> None:
        self.scaling = scaling

    def fit(
        self, y: NDArray[np.floating], weight: NDArray[np.floating] | None = None
    ) -> TargetScaler:
        """Learn centre and scale.

        Parameters
        ----------
        y : ndarray of shape (n_samples, n_targets)
            Training targets, finite.
        weight : ndarray of shape (n_samples,) or None
            Positive weights.

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
        if self.scaling == "mean":
            self.center_ = np.zeros(y.shape[1])
            self.scale_ = np.average(y, axis=0, weights=weight)
            return self
        statistics = (
            robust_center_scale if self.scaling == "quartiles" else _mean_deviation
        )
        pairs = [statistics(column, weight) for column in y.T]
        self.center_ = np.array([center for center, _ in pairs])
        self.scale_ = np.array([scale for _, scale in pairs])
        if not np.isfinite(self.scale_).all():
            raise ValueError("y has values too large to have a finite variance.")
        return self

    def transform(self, y: NDArray[np.floating]) -> Tensor:
        """Scale targets.

        Parameters
        ----------
        y : ndarray of shape (n_samples, n_targets)
            Targets.

        Returns
        -------
        Tensor of shape (n_samples, n_targets)
            Scaled targets in float32: a column for one target too, as the network's
            output is one, and a vector beside it would broadcast in the loss.
        """
        scale = np.where(self.scale_ == 0.0, 1.0, self.scale_)
        scaled = (np.asarray(y, dtype=np.float64) - self.center_) / scale
        if np.abs(scaled).max() > _LARGEST:
            raise ValueError(
                f"y has values {_LARGEST:.0e} times as far from the others as these "
                "are from one another, too far to be trained on. Clip or remove them."
            )
        return torch.from_numpy(scaled.astype(np.float32))

    def inverse_transform(self, z: NDArray[np.floating]) -> NDArray[np.float64]:
        """Bring predictions back to the units of the target.

        Parameters
        ----------
        z : ndarray of shape (n_samples, n_outputs)
            Predictions of the network: one column per target, or several of one.

        Returns
        -------
        ndarray of shape (n_samples, n_outputs)
            Predictions in the targets' units, in float64.
        """
        z = z.astype(np.float64)
        if self.scaling == "mean":
            return np.exp(z) * self.scale_
        return z * self.scale_ + self.center_

    def get_state(self) -> dict[str, Any]:
        """State as lists of numbers, to be kept in a file."""
        return {
            "scaling": self.scaling,
            "center": self.center_.tolist(),
            "scale": self.scale_.tolist(),
        }

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> TargetScaler:
        """Scaler of a state that `get_state` gave."""
        scaler = cls(state["scaling"])
        scaler.center_ = np.array(state["center"], dtype=np.float64)
        scaler.scale_ = np.array(state["scale"], dtype=np.float64)
        return scaler


def _mean_deviation(
    y: NDArray[np.float64], weight: NDArray[np.floating] | None
) -> tuple[float, float]:
    """Mean and standard deviation; a deviation of 0 where all values are equal."""
    unit = float(np.abs(y).max()) or 1.0  # squares of tiny values vanish
    with np.errstate(over="ignore", invalid="ignore"):
        mean = float(np.average(y, weights=weight))
        variance = float(np.average((y - mean) ** 2, weights=weight))
        scaled = np.average(((y - mean) / unit) ** 2, weights=weight)
    if not np.isfinite(variance):
        return mean, np.inf
    deviation = float(np.sqrt(scaled)) * unit
    if deviation <= 10.0 * np.finfo(np.float64).eps * abs(mean):
        return float(y[0]), 0.0  # the mean of equal numbers may differ in a bit
    return mean, deviation
