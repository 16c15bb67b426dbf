"""
Can clusters have equal sizes?
==============================

`balance=1.1`: no cluster has more than 1.1 times the mean number of rows. The mean cosine falls a little.
"""

import matplotlib.pyplot as plt
import numpy as np

from armillary import SphericalKMeans
from armillary.datasets import make_vmf_mixture

X, _, _ = make_vmf_mixture(4_000, 16, 12, weights=np.arange(1, 13) / 78, concentration=30.0, random_state=0)
fig, axes = plt.subplots(1, 2, figsize=(8, 3.2), sharey=True, layout="constrained")
for ax, balance in zip(axes, (None, 1.1), strict=True):
    model = SphericalKMeans(12, balance=balance, random_state=0).fit(X)
    ax.bar(range(12), np.sort(np.bincount(model.labels_, minlength=12))[::-1])
    ax.axhline(len(X) / 12, color="black", lw=0.8)
    ax.set(title=f"balance={balance}: mean cosine {model.objective_ / len(X):.3f}", xlabel="cluster")
axes[0].set_ylabel("rows")
