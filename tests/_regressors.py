"""Small regressors that show what a comparison does to them."""

import signal
import time
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin


class Descent(RegressorMixin, BaseEstimator):
    """Linear regression by gradient descent from a random start; diverges if driven."""

    def __init__(
        self,
        *,
        learning_rate: float = 0.1,
        n_steps: int = 20,
        random_state: int | None = None,
    ) -> None:
        self.learning_rate = learning_rate
        self.n_steps = n_steps
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> "Descent":
        X, y = np.asarray(X, dtype=float), np.asarray(y, dtype=float)
        self.mean_, self.scale_ = X.mean(axis=0), X.std(axis=0) + 1e-12
        Z = np.column_stack([(X - self.mean_) / self.scale_, np.ones(len(X))])
        rng = np.random.default_rng(self.random_state)
        weights = rng.normal(size=Z.shape[1])
        with np.errstate(over="ignore", invalid="ignore"):
            for _ in range(self.n_steps):
                weights -= self.learning_rate * Z.T @ (Z @ weights - y) / len(y)
        self.coef_, self.intercept_ = weights[:-1], weights[-1]
        return self

    def predict(self, X: Any) -> np.ndarray:
        Z = (np.asarray(X, dtype=float) - self.mean_) / self.scale_
        with np.errstate(over="ignore", invalid="ignore"):
            return Z @ self.coef_ + self.intercept_


class Spy(Descent):
    """Descent that notes the rows of every fit and prediction, by the first column."""

    log: ClassVar[list[tuple[str, int | None, float, frozenset[float]]]] = []

    def fit(self, X: Any, y: Any) -> "Spy":
        self._note("fit", X)
        super().fit(X, y)
        return self

    def predict(self, X: Any) -> np.ndarray:
        self._note("predict", X)
        return super().predict(X)

    def _note(self, what: str, X: Any) -> None:
        rows = frozenset(np.asarray(X)[:, 0].tolist())
        Spy.log.append((what, self.random_state, self.learning_rate, rows))


class Failing(Descent):
    """Descent that fails in fits of its own choice.

    Each call of `fit` takes the next entry of `plan`; past its end all is well.
    """

    plan: ClassVar[list[Any]] = []

    def fit(self, X: Any, y: Any) -> "Failing":
        event = Failing.plan.pop(0) if Failing.plan else None
        if event == "swallow":
            try:  # as neural networks do: stop early, keep the half-trained model
                signal.raise_signal(signal.SIGINT)
            except KeyboardInterrupt:
                self.n_steps = 1
        elif event is not None:
            raise event
        super().fit(X, y)
        return self


class Picky(Descent):
    """Descent that refuses learning rates from 0.5 on, as a diverging network does."""

    message: ClassVar[str] = "Training diverged. Lower learning_rate, now {}."

    def fit(self, X: Any, y: Any) -> "Picky":
        if self.learning_rate >= 0.5:
            raise ValueError(self.message.format(self.learning_rate))
        super().fit(X, y)
        return self


class Noisy(Descent):
    """Descent whose predictions in chosen seeds are NaN."""

    def __init__(
        self,
        *,
        learning_rate: float = 0.1,
        n_steps: int = 20,
        random_state: int | None = None,
        bad_seeds: tuple[int, ...] = (),
    ) -> None:
        super().__init__(
            learning_rate=learning_rate, n_steps=n_steps, random_state=random_state
        )
        self.bad_seeds = bad_seeds

    def predict(self, X: Any) -> np.ndarray:
        predictions = super().predict(X)
        return predictions * (np.nan if self.random_state in self.bad_seeds else 1.0)


class Sleepy(Descent):
    """Descent that takes a while, and ends early when interrupted, as networks do."""

    def fit(self, X: Any, y: Any) -> "Sleepy":
        try:
            time.sleep(0.1)
        except KeyboardInterrupt:
            self.n_steps = 1
        super().fit(X, y)
        return self
