"""The default models of a comparison: sizes, order and equal training."""

import pytest

from sk_quadratic._models import default_models
from sk_quadratic.costs import count_parameters

NAMES = ["branch MLP", "branch sum in trunk", "quadratic form", "full structure"]
ARCHITECTURE = {
    "width",
    "n_blocks",
    "n_branches",
    "n_heads",
    "rank",
    "structure",
    "structure_rank",
    "hidden_width",
    "init_scale",
}


def n_parameters(model, n_features: int) -> int:
    return count_parameters(model._network_maker(n_features)(device="meta"))


@pytest.mark.parametrize("n_features", [4, 8, 10, 13, 30, 90])
def test_models_have_at_most_the_parameters_of_the_baseline(n_features):
    models = default_models(n_features)
    assert list(models) == NAMES
    counts = [n_parameters(model, n_features) for model in models.values()]
    assert counts[0] == 64 * (n_features + 2) + 1
    assert all(0.98 * counts[0] <= count <= counts[0] for count in counts)


def test_one_feature_gives_four_models_too():
    counts = [n_parameters(model, 1) for model in default_models(1).values()]
    assert all(0.9 * counts[0] <= count <= counts[0] for count in counts)


def test_models_differ_in_nothing_but_the_architecture():
    trainings = []
    for model in default_models(10).values():
        parameters = model.get_params(deep=False)
        trainings.append({k: v for k, v in parameters.items() if k not in ARCHITECTURE})
    assert all(training == trainings[0] for training in trainings)
    assert trainings[0]["early_stopping"] is False


def test_rows_are_what_their_names_say():
    mlp, trunk, form, full = default_models(10).values()
    assert mlp.width is None
    assert mlp.n_branches == 64
    assert trunk.width is not None
    assert form.structure == "factored"
    assert full.structure == "full"
