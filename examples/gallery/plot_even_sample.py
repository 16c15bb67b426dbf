"""
How do I draw a sample in which concepts are even?
==================================================

One concept has most of the rows. `balanced_sample` keeps rare ones whole and thins frequent ones.
"""

import matplotlib.pyplot as plt
import numpy as np

from armillary import HierarchicalSphericalKMeans
from armillary.curation import balanced_sample
from armillary.datasets import make_vmf_mixture

shares = [0.6, 0.2, 0.1, 0.05, 0.03, 0.02]
X, truth, _ = make_vmf_mixture(4_000, 16, 6, weights=shares, concentration=60.0, random_state=0)
model = HierarchicalSphericalKMeans(n_clusters=(6, 60), random_state=0).fit(X)
chosen = balanced_sample(model, 400)
by_chance = np.random.default_rng(0).choice(4_000, 400, replace=False)
fig, ax = plt.subplots(figsize=(6.5, 3.2), layout="constrained")
places = np.arange(6)
ax.bar(places - 0.2, np.bincount(truth[by_chance], minlength=6), 0.4, label="by chance")
ax.bar(places + 0.2, np.bincount(truth[chosen], minlength=6), 0.4, label="balanced_sample")
ax.set(xlabel="concept", ylabel="rows of 400")
ax.legend()
