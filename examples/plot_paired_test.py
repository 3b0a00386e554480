"""
What can eight paired scores show?
==================================

Two models were trained on the same eight seeds. Is the one with the lower mean error
better, or was it lucky? :func:`~sk_quadratic.paired_permutation_test` answers with
every way in which chance could have handed out the same scores.
"""

# %%
# The test errors of two models, seed by seed. If the models were equally good, it would
# not matter which of two scores of a seed belongs to which model: every difference
# could as well have had the other sign.

import matplotlib.pyplot as plt
import numpy as np

from sk_quadratic import paired_permutation_test

a = np.array([1.12, 1.24, 1.09, 1.15, 1.31, 1.11, 1.21, 1.16])
b = np.array([1.19, 1.26, 1.20, 1.14, 1.36, 1.22, 1.25, 1.29])
result = paired_permutation_test(a, b)
print(result)

# %%
# The 256 sign patterns give the distribution of the mean difference under chance. The
# p-value is the share of patterns at least as far out as what was observed.

fig, ax = plt.subplots(layout="constrained")
result.plot(ax=ax)
plt.show()

# %%
# How small can the p-value get? With n pairs there are 2^n patterns, of which two are
# the most extreme: five pairs cannot reach 0.05, however clear the difference. And how
# small a difference would be found? Below, the spread of the differences is that of the
# eight seeds above, and the power 0.8.

n_pairs = np.arange(4, 21)
rng = np.random.default_rng(0)
spread = np.std(a - b, ddof=1)
smallest_p, detectable = [], []
for n in n_pairs:
    d = rng.normal(size=n)
    d *= spread / np.std(d, ddof=1)
    of_size_n = paired_permutation_test(d, np.zeros(n), n_resamples=2_000)
    smallest_p.append(of_size_n.min_pvalue)
    detectable.append(of_size_n.minimum_detectable_effect)

fig, (left, right) = plt.subplots(1, 2, figsize=(9, 4), layout="constrained")
left.semilogy(n_pairs, smallest_p, "o-")
left.axhline(0.05, color="grey", linestyle="--")
left.text(20, 0.055, "0.05", ha="right", va="bottom", color="grey")
left.set(xlabel="pairs", ylabel="smallest possible p-value")
right.plot(n_pairs, detectable, "o-")
right.set(xlabel="pairs", ylabel="smallest detectable difference", ylim=(0, None))
plt.show()

# %%
# Below six pairs no difference at all can be found, so the curve begins there. From
# eight to twenty pairs it falls by about half: to find much smaller differences takes
# many more seeds.
