"""
Which new rows belong to no cluster?
====================================

`predict(X, reject=True)` answers -1 for rows beyond the radius of every cluster: strangers.
"""

import numpy as np

from armillary import DPvMFMeans
from armillary.datasets import make_vmf_mixture
from armillary.plots import plot_sphere

X, _, _ = make_vmf_mixture(1_000, 3, 4, concentration=100.0, min_angle=1.0, random_state=0)
model = DPvMFMeans(max_angle=0.45).fit(X)
new = np.random.default_rng(0).standard_normal((1_500, 3))
new /= np.linalg.norm(new, axis=1, keepdims=True)
answers = model.predict(new, reject=True)
ax = plot_sphere(new, answers, centers=model.cluster_centers_)
ax.set_title(f"{np.mean(answers == -1):.0%} of uniform rows are nobody's")
