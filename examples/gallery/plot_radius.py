"""
Which radius suits my rows?
===========================

`DPvMFMeans` needs an angle instead of K. `select_max_angle` compares angles by the silhouette.
"""

from armillary import select_max_angle
from armillary.datasets import make_vmf_mixture
from armillary.plots import plot_angle_table

X, _, _ = make_vmf_mixture(2_000, 3, 12, concentration=300.0, min_angle=0.5, random_state=0)
table = select_max_angle(X, random_state=0)
ax = plot_angle_table(table)
print(table)
