"""
Which rows are borderline?
==========================

A mixture gives each row a share of every cluster. Rows whose largest share is small lie between clusters.
"""

import matplotlib.pyplot as plt
import numpy as np

from armillary import VonMisesFisherMixture
from armillary.datasets import make_vmf_mixture

X, _, _ = make_vmf_mixture(2_000, 3, 3, concentration=8.0, min_angle=1.2, random_state=1)
model = VonMisesFisherMixture(3, random_state=0).fit(X)
largest = model.predict_proba(X).max(axis=1)

fig, axes = plt.subplots(1, 2, figsize=(8.5, 3.6), layout="constrained")
longitude, latitude = np.arctan2(X[:, 1], X[:, 0]), np.arcsin(X[:, 2])
shown = axes[0].scatter(np.degrees(longitude), np.degrees(latitude), c=largest, s=6, cmap="viridis")
fig.colorbar(shown, ax=axes[0], label="largest share")
axes[0].set(xlabel="longitude", ylabel="latitude")
axes[1].hist(largest, bins=40)
axes[1].set(xlabel="largest share", ylabel="rows", title=f"{np.mean(largest < 0.6):.0%} are borderline (below 0.6)")
