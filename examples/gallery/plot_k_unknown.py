"""
How many clusters are there?
============================

`AutoClusterer` compares clusterings from coarse to fine. Taken is the one that halves of the rows agree on.
"""

from armillary import choose_model
from armillary.datasets import make_vmf_mixture
from armillary.plots import plot_sweep

X, truth, _ = make_vmf_mixture(1_500, 32, 9, concentration=70.0, random_state=0)
choice = choose_model(X)
ax = plot_sweep(choice.table, best=choice.best)
ax.set_title(f"{choice.model.n_clusters_} clusters; clear: {choice.is_clear}", loc="left")
print(choice.reason)
