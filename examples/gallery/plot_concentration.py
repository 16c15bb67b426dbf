"""
What does a concentration mean?
===============================

The angle of rows to the mean direction, for one concentration in 3, 30 and 300 dimensions: in many dimensions rows
of a cluster lie at nearly one angle from its centre.
"""

import matplotlib.pyplot as plt
import numpy as np

from armillary.distributions import vmf
from armillary.geometry import sphere

fig, ax = plt.subplots(figsize=(6.5, 3.6), layout="constrained")
for dimension in (3, 30, 300):
    mean = np.eye(dimension)[0]
    rows = vmf.sample(mean, 100.0, 4_000, random_state=0)
    angles = np.degrees(sphere.angle(rows, mean))
    ax.hist(angles, bins=60, histtype="step", label=f"D = {dimension}", density=True)
ax.set(xlabel="angle to the mean direction, degrees", ylabel="density", title="concentration 100")
ax.legend()
