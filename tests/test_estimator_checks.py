"""scikit-learn's common checks on both estimators, with no expected failures."""

from sklearn.base import BaseEstimator
from sklearn.utils.estimator_checks import parametrize_with_checks

from sk_quadratic import BranchMLPRegressor, QuadraticGramRegressor

# Fewer epochs at a higher rate: check_regressors_train asks for R2 > 0.5 of 200 rows.
CHEAP = {"max_epochs": 60, "learning_rate": 0.02, "random_state": 0}

ESTIMATORS = [
    QuadraticGramRegressor(),
    BranchMLPRegressor(),
    QuadraticGramRegressor(**CHEAP, structure="full", hidden_width=8),
    QuadraticGramRegressor(**CHEAP, rank=2, early_stopping=True),
    QuadraticGramRegressor(**CHEAP, structure="full", rank=2, early_stopping=False),
    QuadraticGramRegressor(**CHEAP, width=None, n_branches=16, init_scale=0.3),
    QuadraticGramRegressor(
        **CHEAP, n_blocks=2, structure_rank=2, hidden_width=16, loss="huber"
    ),
    BranchMLPRegressor(**CHEAP, early_stopping=True, batch_size=16),
    BranchMLPRegressor(**CHEAP, early_stopping=False, activation="relu"),
    BranchMLPRegressor(**CHEAP, width=None, learning_rate_schedule="constant"),
]


@parametrize_with_checks(ESTIMATORS)
def test_scikit_learn_checks(estimator: BaseEstimator, check) -> None:
    check(estimator)
