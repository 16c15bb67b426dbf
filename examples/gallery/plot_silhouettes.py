"""
How well apart are the clusters?
================================

The silhouette by cosine of every row, in O(n K) operations. Rows near 0 are borderline; below 0 they may be in the
wrong cluster.
"""

import matplotlib.pyplot as plt

from armillary import SphericalKMeans
from armillary.datasets import make_vmf_mixture
from armillary.metrics import cosine_silhouette_samples
from armillary.plots import plot_silhouettes

X, _, _ = make_vmf_mixture(1_500, 8, 5, concentration=20.0, random_state=0)
fig, axes = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
for ax, k in zip(axes, (5, 8), strict=True):
    labels = SphericalKMeans(k, n_init=5, random_state=0).fit_predict(X)
    plot_silhouettes(cosine_silhouette_samples(X, labels), labels, ax=ax)
    ax.set_title(f"K = {k}", loc="right")
