"""
Which thresholds suit my embeddings?
====================================

`tune_links` finds the thresholds of `Links` from labelled vectors, and shows what it compared.
"""

from armillary import tune_links
from armillary.datasets import make_vmf_mixture
from armillary.plots import plot_links_table

X, people, _ = make_vmf_mixture(300, 48, 10, concentration=90.0, random_state=0)
table = tune_links(X, people, max_rounds=3)
ax = plot_links_table(table)
print(table.model())
