"""
What are these documents about?
===============================

Counts of words in a CSR matrix stay sparse. The largest entries of a direction are the words of its cluster.
"""

import matplotlib.pyplot as plt
import numpy as np

from armillary import SphericalKMeans
from armillary.datasets import make_sparse_topics

counts, _, truth = make_sparse_topics(800, 1_500, 4, random_state=0)
model = SphericalKMeans(4, n_init=5, random_state=0).fit(counts)
lift = model.cluster_centers_ - model.cluster_centers_.mean(axis=0)
fig, axes = plt.subplots(1, 4, figsize=(10, 3), layout="constrained")
for number, ax in enumerate(axes):
    words = np.argsort(lift[number])[::-1][:8]
    ax.barh([f"word{word}" for word in words][::-1], lift[number, words][::-1])
    ax.set_title(f"cluster {number}: {np.sum(model.labels_ == number)}")
