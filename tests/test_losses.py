"""The losses against scikit-learn's, and their best constants."""

import numpy as np
import pytest
import torch
from sklearn.metrics import (
    mean_absolute_error,
    mean_pinball_loss,
    mean_poisson_deviance,
    mean_squared_error,
)

from sk_quadratic._losses import LOSS_NAMES, explained, make_loss
from sk_quadratic._quantiles import robust_center_scale, weighted_quantiles

LEVELS = [0.8, 0.1, 0.5]


def data(n_outputs=1, seed=0):
    rng = np.random.default_rng(seed)
    output = torch.from_numpy(rng.normal(size=(40, n_outputs)))
    target = torch.from_numpy(rng.gamma(1.0, size=(40, 1)))
    weight = rng.gamma(1.0, size=40)
    return output, target, torch.from_numpy(weight / weight.mean())


REFERENCE = {
    "squared_error": mean_squared_error,
    "absolute_error": mean_absolute_error,
    "poisson": lambda y, z, sample_weight: (
        0.5 * mean_poisson_deviance(y, np.exp(z), sample_weight=sample_weight)
    ),
}


@pytest.mark.parametrize("name", REFERENCE)
def test_loss_is_that_of_scikit_learn(name):
    output, target, weight = data()
    loss = make_loss(name, None, 1)
    for w in (None, weight):
        expected = REFERENCE[name](target.numpy(), output.numpy(), sample_weight=w)
        assert float(loss(output, target, w)) == pytest.approx(float(expected))


def test_huber_is_quadratic_within_one_and_linear_beyond():
    loss = make_loss("huber", None, 1)
    z = torch.tensor([[0.5], [3.0]])
    assert loss.row_loss(z, torch.zeros(2, 1)).tolist() == [0.125, 2.5]


def test_quantile_loss_is_the_mean_pinball_loss_of_the_levels():
    output, target, weight = data(3)
    loss = make_loss("quantile", LEVELS, 1)
    prediction = loss.link(output)
    expected = np.mean(
        [
            mean_pinball_loss(
                target.numpy()[:, 0], column, alpha=level, sample_weight=weight.numpy()
            )
            for level, column in zip(LEVELS, prediction.numpy().T, strict=True)
        ]
    )
    assert float(loss(output, target, weight)) == pytest.approx(expected)


def test_quantiles_do_not_cross_and_keep_the_order_of_their_levels():
    output = torch.randn(200, 3, generator=torch.Generator().manual_seed(0)) * 10
    high, low, middle = make_loss("quantile", LEVELS, 1).link(output).T
    assert (low <= middle).all()
    assert (middle <= high).all()


@pytest.mark.parametrize("name", LOSS_NAMES)
@pytest.mark.parametrize("weighted", [False, True])
def test_no_constant_is_better_than_the_best_one(name, weighted):
    _, target, weight = data()
    loss = make_loss(name, LEVELS if name == "quantile" else None, 1)
    w = weight if weighted else None
    best = torch.from_numpy(
        loss.best_constant(target.numpy(), None if w is None else w.numpy())
    )

    def value(shift: float) -> float:
        rows = loss.row_loss((best + shift).expand(40, -1), target)
        return float(rows.mean() if w is None else (rows * w).mean())

    slack = 0.05 if name in ("huber", "quantile", "absolute_error") else 1e-9
    assert value(0.0) <= min(value(0.3), value(-0.3)) + slack * value(0.0)


@pytest.mark.parametrize(
    ("loss", "quantile", "n_targets", "message"),
    [
        ("quantile", None, 1, "needs the parameter quantile"),
        ("quantile", 1.0, 1, "between 0 and 1"),
        ("quantile", [0.5, 1.5], 1, "between 0 and 1"),
        ("quantile", [0.5, 0.5], 1, "a level twice"),
        ("quantile", [], 1, "a float or a list"),
        ("quantile", [[0.5]], 1, "a float or a list"),
        ("quantile", [0.1, 0.9], 2, "2 columns for one target, and y has 2"),
        ("huber", 0.5, 1, "is for loss='quantile'; got loss='huber'"),
    ],
)
def test_quantile_and_loss_have_to_fit_together(loss, quantile, n_targets, message):
    with pytest.raises(ValueError, match=message):
        make_loss(loss, quantile, n_targets)


def test_explained_share():
    assert explained(0.25, 1.0) == 0.75
    assert explained(0.0, 0.0) == 1.0
    assert explained(0.1, 0.0) == 0.0
    assert np.isnan(explained(1.0, np.nan))


# Quantiles --------------------------------------------------------------------------


def test_unweighted_quantiles_are_hazens_and_weights_of_one_change_nothing():
    x = np.random.default_rng(0).normal(size=31)
    levels = [0.0, 0.1, 0.5, 0.9, 1.0]
    expected = np.quantile(x, levels, method="hazen")
    np.testing.assert_allclose(weighted_quantiles(x, levels), expected)
    np.testing.assert_allclose(weighted_quantiles(x, levels, np.ones(31)), expected)


def test_scale_of_wild_equal_and_absent_values():
    x = np.random.default_rng(0).normal(2.0, 3.0, 2000)
    center, scale = robust_center_scale(x)
    assert center == pytest.approx(2.0, abs=0.3)
    assert scale == pytest.approx(3.0, abs=0.2)
    assert robust_center_scale(np.append(x, 1e300))[1] == pytest.approx(scale, rel=1e-2)
    assert robust_center_scale(np.full(5, 0.1)) == (0.1, 0.0)
    assert robust_center_scale(np.array([])) == (0.0, 0.0)
    assert robust_center_scale(np.array([0.0] * 99 + [8.0])) == (0.0, 4.0)
