"""
Does the form beat the branches?
================================

:func:`~sk_quadratic.compare` gives two models the same data, initialisation and order
of batches on each of eight seeds, tunes the learning rate of each on validation rows,
and asks whether the paired differences could be chance. The data are Friedman's first
function: a product, a square and two linear terms, among ten features.
"""

# %%
# Two networks with nearly the same number of parameters, in the same residual trunk: a
# stem, one block and a head. Only the block differs. One holds a sum of branches, the
# other the quadratic form.

import matplotlib.pyplot as plt

from sk_quadratic import BranchMLPRegressor, QuadraticGramRegressor, compare

training = {"width": 8, "max_epochs": 100, "early_stopping": False}
models = {
    "branch sum": BranchMLPRegressor(n_branches=39, **training),
    "quadratic form": QuadraticGramRegressor(n_heads=21, n_branches=1, **training),
}
result = compare(
    models, "friedman1", learning_rates=(0.004, 0.008, 0.016, 0.032), tuning_seeds=3
)
print(result)

# %%
# Every line joins the scores of one seed. Seeds differ more among themselves than the
# models do within a seed, which is why the scores are compared in pairs.

fig, ax = plt.subplots(layout="constrained")
result.plot(ax=ax)
plt.show()

# %%
# This is one function with a product in it, which suits the form. The command
# ``python -m sk_quadratic compare`` asks the same of a table of yours, and adds the
# plain two-layer network, which has neither stem nor residual connection.
