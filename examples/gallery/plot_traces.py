"""
Did the chains mix?
===================

Four chains from different starts. Split R-hat near 1 says that they tell the same story.
"""

from armillary import DirichletProcessMixture
from armillary.datasets import make_vmf_mixture
from armillary.plots import plot_traces

X, _, _ = make_vmf_mixture(200, 3, 4, concentration=40.0, min_angle=0.8, random_state=0)
model = DirichletProcessMixture(n_chains=4, n_burn_in=20, n_draws=80, random_state=0).fit(X)
axes = plot_traces(model)
print(model.convergence())
