"""
What if clusters are long, not round?
=====================================

Each cluster is a Gaussian with a full covariance in the tangent space of the sphere at its mean.
"""

import matplotlib.pyplot as plt

from armillary import DirichletProcessMixture
from armillary.datasets import make_tangent_gaussian_mixture
from armillary.plots import plot_sphere, plot_tangent_space

X, _, _ = make_tangent_gaussian_mixture(900, 3, 4, spread=0.15, min_angle=0.9, random_state=3)
model = DirichletProcessMixture(n_burn_in=10, n_draws=20, random_state=0).fit(X)
fig = plt.figure(figsize=(9, 4), layout="constrained")
plot_sphere(X, model.labels_, ax=fig.add_subplot(1, 2, 1))
plot_tangent_space(model, X, int(model.condition_numbers().argmax()), ax=fig.add_subplot(1, 2, 2))
