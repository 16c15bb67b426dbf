"""
Which clusters are alike?
=========================

Cosines between the centres, ordered so that like clusters lie together.
"""

import matplotlib.pyplot as plt

from armillary import SphericalKMeans
from armillary.datasets import make_vmf_tree
from armillary.plots import plot_similarity

X, _, _ = make_vmf_tree(2_000, 30, height=2, branching=4, random_state=0)
model = SphericalKMeans(16, n_init=3, random_state=0).fit(X)
fig, ax = plt.subplots(figsize=(5.5, 4.6), layout="constrained")
plot_similarity(model.cluster_centers_, ax=ax)
