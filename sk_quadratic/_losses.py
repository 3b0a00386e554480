"""Losses: what the network's outputs mean, what is minimised, and the best constant.

The network's output is turned into predictions by a link, so that quantiles do not
cross and rates are positive. All is in units of the scaled target.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from sk_quadratic._quantiles import weighted_quantiles


class RowLoss(nn.Module):
    """Mean over the rows, with or without weights, of a loss per row."""

    scaling: Literal["deviation", "quartiles", "mean"] = "deviation"
    """How the target is scaled: see :class:`~sk_quadratic._targets.TargetScaler`."""

    def forward(
        self, output: Tensor, target: Tensor, weight: Tensor | None = None
    ) -> Tensor:
        """Loss of a batch.

        Parameters
        ----------
        output : Tensor of shape (batch, n_outputs)
            Output of the network.
        target : Tensor of shape (batch, n_targets)
            Scaled target.
        weight : Tensor of shape (batch,) or None
            Weights, of mean 1 over the table: dividing by their sum over the batch
            would favour the rows that meet light ones.

        Returns
        -------
        Tensor of shape ()
            The loss.
        """
        rows = self.row_loss(self.link(output), target)
        return rows.mean() if weight is None else (rows * weight).mean()

    def n_outputs(self, n_targets: int) -> int:
        """Number of outputs that the network has for so many targets."""
        return n_targets

    def link(self, output: Tensor) -> Tensor:
        """Predictions of shape (batch, n_outputs) from the network's output."""
        return output

    @abstractmethod
    def row_loss(self, prediction: Tensor, target: Tensor) -> Tensor:
        """Loss of each row, of shape (batch,)."""

    @abstractmethod
    def best_constant(
        self, target: NDArray[np.floating], weight: NDArray[np.floating] | None
    ) -> NDArray[np.floating]:
        """Constant prediction of shape (n_outputs,) with the lowest loss."""


class SquaredError(RowLoss):
    """Squared difference."""

    def row_loss(self, prediction: Tensor, target: Tensor) -> Tensor:
        return F.mse_loss(prediction, target, reduction="none").mean(dim=-1)

    def best_constant(
        self, target: NDArray[np.floating], weight: NDArray[np.floating] | None
    ) -> NDArray[np.floating]:
        return np.average(target, axis=0, weights=weight)


class _MedianLoss(RowLoss):
    """A loss that a few wild targets do not move, and so neither should the scaling."""

    scaling = "quartiles"

    def best_constant(
        self, target: NDArray[np.floating], weight: NDArray[np.floating] | None
    ) -> NDArray[np.floating]:
        columns = [weighted_quantiles(column, [0.5], weight) for column in target.T]
        return np.concatenate(columns)


class AbsoluteError(_MedianLoss):
    """Absolute difference."""

    def row_loss(self, prediction: Tensor, target: Tensor) -> Tensor:
        return F.l1_loss(prediction, target, reduction="none").mean(dim=-1)


class Huber(_MedianLoss):
    """Half the squared difference, linear from one on; its best constant is close to
    the median, which stands for it."""

    def row_loss(self, prediction: Tensor, target: Tensor) -> Tensor:
        return F.huber_loss(prediction, target, reduction="none").mean(dim=-1)


class Quantile(RowLoss):
    """Pinball loss of one or more levels of one target.

    The lowest level is an output of the network and each following one is above it by
    the softplus of another output, so that the quantiles do not cross.
    """

    scaling = "quartiles"

    def __init__(self, levels: Sequence[float]) -> None:
        super().__init__()
        self.levels = tuple(float(level) for level in levels)
        order = sorted(range(len(self.levels)), key=self.levels.__getitem__)
        self._place = [order.index(i) for i in range(len(order))]

    def n_outputs(self, n_targets: int) -> int:
        return n_targets * len(self.levels)

    def link(self, output: Tensor) -> Tensor:
        if len(self.levels) == 1:
            return output
        steps = torch.cat([output[..., :1], F.softplus(output[..., 1:])], dim=-1)
        return steps.cumsum(dim=-1)[..., self._place]

    def row_loss(self, prediction: Tensor, target: Tensor) -> Tensor:
        above = target - prediction
        if len(self.levels) == 1:
            return (self.levels[0] * above + F.relu(-above)).mean(dim=-1)
        levels = above.new_tensor(self.levels)
        return (levels * above + F.relu(-above)).mean(dim=-1)

    def best_constant(
        self, target: NDArray[np.floating], weight: NDArray[np.floating] | None
    ) -> NDArray[np.floating]:
        columns = [
            weighted_quantiles(column, self.levels, weight) for column in target.T
        ]
        return np.concatenate(columns)


class Poisson(RowLoss):
    """Half the Poisson deviance; the prediction is the logarithm of the rate."""

    scaling = "mean"

    def row_loss(self, prediction: Tensor, target: Tensor) -> Tensor:
        deviance = torch.special.xlogy(target, target) - target * prediction
        return (deviance - target + prediction.exp()).mean(dim=-1)

    def best_constant(
        self, target: NDArray[np.floating], weight: NDArray[np.floating] | None
    ) -> NDArray[np.floating]:
        rate = np.average(target, axis=0, weights=weight)
        return np.log(np.maximum(rate, 1e-30))


_LOSSES: dict[str, Callable[[], RowLoss]] = {
    "squared_error": SquaredError,
    "absolute_error": AbsoluteError,
    "huber": Huber,
    "poisson": Poisson,
}
LOSS_NAMES = (*_LOSSES, "quantile")


def make_loss(
    loss: str, quantile: float | Sequence[float] | None, n_targets: int
) -> RowLoss:
    """Loss of the estimators' parameters `loss` and `quantile`.

    Parameters
    ----------
    loss : str
        One of `LOSS_NAMES`.
    quantile : float, sequence of float or None
        Levels, where `loss` is ``"quantile"``.
    n_targets : int
        Number of targets.

    Returns
    -------
    RowLoss
        The loss.

    Raises
    ------
    ValueError
        If `quantile` and `loss` do not fit together, or a level is not within 0 and 1.
    """
    if loss != "quantile":
        if quantile is not None:
            raise ValueError(
                f"quantile={quantile!r} is for loss='quantile'; got loss={loss!r}."
            )
        return _LOSSES[loss]()
    if quantile is None:
        raise ValueError(
            "loss='quantile' needs the parameter quantile: a level such as 0.5, or a "
            "list of levels."
        )
    levels = np.atleast_1d(np.asarray(quantile, dtype=np.float64))
    if levels.ndim != 1 or not levels.size:
        raise ValueError(
            f"quantile must be a float or a list of floats; got {quantile!r}."
        )
    if not ((levels > 0.0) & (levels < 1.0)).all():
        raise ValueError(
            f"Each level of quantile must be between 0 and 1; got {quantile!r}."
        )
    if len(set(levels.tolist())) < len(levels):
        raise ValueError(f"quantile has a level twice: {quantile!r}.")
    if len(levels) > 1 and n_targets > 1:
        raise ValueError(
            f"quantile={quantile!r} gives {len(levels)} columns for one target, and y "
            f"has {n_targets}. Fit one target at a time."
        )
    return Quantile(levels.tolist())


def explained(loss: float, baseline: float) -> float:
    """Share of the best constant's loss that is explained: R2 for squared error."""
    if math.isnan(baseline):
        return math.nan
    if baseline == 0.0:
        return 1.0 if loss == 0.0 else 0.0
    return 1.0 - loss / baseline
