"""
How sure is the number of clusters?
===================================

A Dirichlet process mixture draws from the posterior of partitions: K has a distribution, not a value.
Single draws carry a few tiny clusters; the point estimate leaves them out.
"""

import matplotlib.pyplot as plt
import numpy as np

from armillary import DirichletProcessMixture
from armillary.datasets import make_vmf_mixture

X, _, _ = make_vmf_mixture(250, 3, 5, concentration=25.0, min_angle=0.7, random_state=0)
model = DirichletProcessMixture(n_burn_in=30, n_draws=200, random_state=0).fit(X)
drawn = model.trace_[0, model.n_discarded_ :, 0].astype(int)
values, counts = np.unique(drawn, return_counts=True)
fig, ax = plt.subplots(figsize=(6, 3.2), layout="constrained")
ax.bar(values, counts / len(drawn))
ax.set(xlabel="clusters", ylabel="posterior probability", title=f"point estimate: {model.n_clusters_}; truth: 5")
