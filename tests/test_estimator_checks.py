"""scikit-learn's common checks on both estimators, with no expected failures."""

from sklearn.base import BaseEstimator
from sklearn.utils.estimator_checks import parametrize_with_checks

from sk_quadratic import BranchMLPRegressor, QuadraticGramRegressor

# Fewer epochs at a higher rate: check_regressors_train asks for R2 > 0.5 of 200 rows.
CHEAP = {"max_epochs": 20, "learning_rate": 0.02, "random_state": 0}

ESTIMATORS = [
    QuadraticGramRegressor(),
    BranchMLPRegressor(),
    QuadraticGramRegressor(**CHEAP, structure="full", early_stopping=True),
    QuadraticGramRegressor(**CHEAP, structure="full", rank=2, early_stopping=False),
    QuadraticGramRegressor(**CHEAP, rank=2, n_blocks=2, early_stopping=True),
    QuadraticGramRegressor(
        **CHEAP, width=None, hidden_width=16, structure_rank=2, early_stopping=False
    ),
    BranchMLPRegressor(**CHEAP, n_blocks=2, batch_size=16, early_stopping=True),
    BranchMLPRegressor(
        **CHEAP,
        width=None,
        activation="relu",
        loss="huber",
        learning_rate_schedule="constant",
        early_stopping=False,
    ),
]


@parametrize_with_checks(ESTIMATORS)
def test_scikit_learn_checks(estimator: BaseEstimator, check) -> None:
    check(estimator)
