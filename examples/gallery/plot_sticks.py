"""
Can a mixture empty components that it does not need?
=====================================================

Twenty components with a stick-breaking prior, five clusters in the rows.
"""

import matplotlib.pyplot as plt
import numpy as np

from armillary import BayesianVonMisesFisherMixture
from armillary.datasets import make_vmf_mixture

X, _, _ = make_vmf_mixture(800, 8, 5, concentration=60.0, min_angle=0.9, random_state=0)
model = BayesianVonMisesFisherMixture(20, weight_prior="stick_breaking", random_state=0).fit(X)
fig, (left, right) = plt.subplots(1, 2, figsize=(8, 3.2), layout="constrained")
left.bar(range(20), np.sort(model.weights_)[::-1])
left.set(xlabel="component", ylabel="expected weight", title=f"{model.n_clusters_} are used")
right.plot(model.lower_bounds_)
right.set(xlabel="step", title="evidence lower bound")
