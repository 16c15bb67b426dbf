"""
Can I have coarser and finer clusters that nest?
================================================

`levels_` has three levels. Every fine cluster lies in one coarse cluster.
"""

import matplotlib.pyplot as plt
import numpy as np

from armillary import AutoClusterer
from armillary.datasets import make_vmf_tree
from armillary.plots import plot_cluster_sizes

X, _, _ = make_vmf_tree(1_500, 30, height=2, branching=3, random_state=1)
levels = AutoClusterer().fit(X).levels_
fig, axes = plt.subplots(1, 3, figsize=(10, 3.4), layout="constrained")
for ax, name in zip(axes, ("coarse", "chosen", "fine"), strict=True):
    labels = getattr(levels, name)
    plot_cluster_sizes(labels, ax=ax)
    ax.set_title(f"{name}: {len(np.unique(labels))} clusters", loc="left")
