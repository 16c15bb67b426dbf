"""
How many components does a mixture need?
========================================

The Bayesian information criterion is least at the best number; held-out density agrees.
"""

import matplotlib.pyplot as plt

from armillary import VonMisesFisherMixture
from armillary.datasets import make_vmf_mixture

X, _, _ = make_vmf_mixture(2_000, 8, 5, concentration=25.0, min_angle=0.9, random_state=0)
numbers = range(2, 10)
fits = [VonMisesFisherMixture(k, n_init=3, max_iter=1_000, random_state=0).fit(X[:1_000]) for k in numbers]

fig, (left, right) = plt.subplots(1, 2, figsize=(8, 3.2), layout="constrained")
left.plot(numbers, [fit.bic(X[:1_000]) for fit in fits], "o-")
left.set(xlabel="components", title="BIC: least is best")
right.plot(numbers, [fit.score(X[1_000:]) for fit in fits], "o-")
right.set(xlabel="components", title="log density of new rows: most is best")
