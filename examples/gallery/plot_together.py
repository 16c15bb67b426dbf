"""
How often do two rows share a cluster?
======================================

Over the draws of a sampler. Blocks are clusters; grey between them is doubt.
"""

import matplotlib.pyplot as plt
import numpy as np

from armillary import DirichletProcessMixture
from armillary.datasets import make_vmf_mixture
from armillary.diagnostics import coclustering_matrix

X, truth, _ = make_vmf_mixture(150, 3, 4, concentration=18.0, min_angle=0.9, random_state=1)
model = DirichletProcessMixture(n_burn_in=30, n_draws=150, random_state=0).fit(X)
order = np.argsort(truth, kind="stable")
together = coclustering_matrix(model.sample_labels_)[np.ix_(order, order)]
fig, ax = plt.subplots(figsize=(5, 4.2), layout="constrained")
shown = ax.imshow(together, cmap="Greys", vmin=0, vmax=1)
fig.colorbar(shown, label="share of draws")
ax.set(xlabel="row, by true cluster", ylabel="row, by true cluster")
