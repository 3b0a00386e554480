"""What all tests share: one torch thread, small tables, and the gpu marker."""

import os
from collections.abc import Iterator

# Read when matplotlib and scipy are imported, so set before: no window is ever opened,
# and scikit-learn does not skip its check of array API input.
os.environ.setdefault("MPLBACKEND", "Agg")
os.environ.setdefault("SCIPY_ARRAY_API", "1")

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from sklearn.datasets import make_friedman1

Table = tuple[NDArray[np.float64], NDArray[np.float64]]


def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> None:
    """Deselect the tests marked ``gpu`` where there is no CUDA device."""
    if torch.cuda.is_available():
        return
    on_gpu = [item for item in items if item.get_closest_marker("gpu")]
    if on_gpu:
        items[:] = [item for item in items if not item.get_closest_marker("gpu")]
        config.hook.pytest_deselected(items=on_gpu)


@pytest.fixture(scope="session", autouse=True)
def _one_torch_thread() -> Iterator[None]:
    """Run on one thread: small steps gain nothing from two, and results repeat."""
    n_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(n_threads)


@pytest.fixture
def small_table() -> Table:
    """Return 80 rows of 4 features: a linear part, a product and little noise."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 4))
    y = 2.0 * X[:, 0] + X[:, 1] * X[:, 2] + 0.1 * rng.normal(size=80)
    return X, y


@pytest.fixture
def friedman_table() -> Table:
    """Return 200 rows of Friedman #1 with 10 features and noise 1.0."""
    return make_friedman1(n_samples=200, n_features=10, noise=1.0, random_state=0)
