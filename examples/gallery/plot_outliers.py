"""
Which rows are outliers?
========================

One row in ten belongs nowhere. `outliers="auto"` gives such rows the label -1, at a stated rate of false alarms.
"""

import numpy as np

from armillary import AutoClusterer
from armillary.datasets import make_vmf_mixture
from armillary.plots import plot_sphere_views

X, truth, _ = make_vmf_mixture(2_000, 3, 5, concentration=120.0, min_angle=0.9, noise=0.1, random_state=0)
model = AutoClusterer(outliers="auto").fit(X)
figure = plot_sphere_views(X, model.labels_)
is_noise = truth == -1
print(f"noise found: {np.mean(model.labels_[is_noise] == -1):.0%}")
print(f"members lost: {np.mean(model.labels_[~is_noise] == -1):.1%}")
