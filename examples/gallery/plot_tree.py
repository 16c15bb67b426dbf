"""
Which kinds of documents are there, and kinds of kinds?
=======================================================

Groups on a tree: leaves borrow from their relatives, inner nodes say what is common below them.
"""

import matplotlib.pyplot as plt

from armillary import HierarchicalVonMisesFisherMixture
from armillary.datasets import make_vmf_tree
from armillary.plots import plot_tree

X, _, _ = make_vmf_tree(1_500, 40, height=2, branching=3, random_state=1)
model = HierarchicalVonMisesFisherMixture(height=2, branching=3, n_init=2, random_state=0).fit(X)
fig, ax = plt.subplots(figsize=(9, 4.5), layout="constrained")
plot_tree(model, feature_names=[f"word{number}" for number in range(40)], n=2, ax=ax)
