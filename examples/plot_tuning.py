"""
How much does the learning rate matter?
=======================================

The learning rate is the parameter to tune first. Here it is tuned with
:class:`~sklearn.model_selection.GridSearchCV` in a pipeline, for the quadratic form and
for the plain sum of branches, on scikit-learn's diabetes data.
"""

# %%
# The table has 442 rows of 10 numeric features. A quarter is kept for the end. Features
# and target are standardised inside the models; the imputer stands for whatever
# preparation a table needs.

import matplotlib.pyplot as plt
from sklearn.datasets import load_diabetes
from sklearn.impute import SimpleImputer
from sklearn.linear_model import RidgeCV
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import make_pipeline

from sk_quadratic import BranchMLPRegressor, QuadraticGramRegressor

X, y = load_diabetes(return_X_y=True, as_frame=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)

# %%
# Small networks suit a small table. Both searches try the same rates on the same folds.

rates = [0.0003, 0.001, 0.003, 0.01, 0.03]
models = {
    "quadratic form": QuadraticGramRegressor(width=8, max_epochs=60, random_state=0),
    "branch sum": BranchMLPRegressor(
        width=8, n_branches=32, max_epochs=60, random_state=0
    ),
}
searches = {}
for name, model in models.items():
    pipeline = make_pipeline(SimpleImputer(), model)
    parameter = f"{type(model).__name__.lower()}__learning_rate"
    searches[name] = GridSearchCV(pipeline, {parameter: rates}, cv=4)
    searches[name].fit(X_train, y_train)

# %%
# The curve is flat near its top, so a factor of three to either side costs little; far
# below, the network has not learned enough by the end of its schedule.

ridge = RidgeCV(alphas=[0.01, 0.1, 1.0, 10.0]).fit(X_train, y_train)

fig, ax = plt.subplots(layout="constrained")
for name, search in searches.items():
    mean = search.cv_results_["mean_test_score"]
    std = search.cv_results_["std_test_score"]
    ax.errorbar(rates, mean, std, marker="o", capsize=3, label=name)
ax.set(
    xscale="log",
    xlabel="learning rate",
    ylabel="R² of the validation folds",
    title="Tuned on four folds of the training rows",
)
ax.legend()
plt.show()

# %%
# What the best of each reaches on the rows that were kept aside. A linear model is hard
# to beat on this table, whose signal is nearly linear and whose noise is large: this is
# a case for ridge regression, and not for a network.

for name, search in searches.items():
    (rate,) = search.best_params_.values()
    print(f"{name:15} rate {rate:<7} test R² {search.score(X_test, y_test):.3f}")
print(f"{'ridge':15} {'':12} test R² {ridge.score(X_test, y_test):.3f}")
