"""
How fast do topics drift?
=========================

A temporal mixture learns the drift of each direction over slices of time.
"""

import math

import numpy as np

from armillary import TemporalVonMisesFisherMixture
from armillary.datasets import make_drifting_mixture
from armillary.plots import plot_trajectories

slices, _, _ = make_drifting_mixture(200, 3, 3, 12, concentration=150.0, drift_concentration=60.0, random_state=2)
model = TemporalVonMisesFisherMixture(3, random_state=0).fit(slices)
ax = plot_trajectories(model, np.concatenate(slices))
ax.set_title(f"{math.degrees(model.drift_angle_):.1f} degrees a slice")
