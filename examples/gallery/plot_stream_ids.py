"""
Do ids survive an absence?
==========================

Four groups drift. One is away for five steps, and comes back under the id it had.
"""

import matplotlib.pyplot as plt

from armillary import DDPvMFMeans
from armillary.datasets import make_drifting_mixture
from armillary.plots import plot_id_shares

is_present = [[True, not 5 <= step < 10, True, step >= 3] for step in range(16)]
batches, _, _ = make_drifting_mixture(
    600, 3, 4, 16, concentration=200.0, rotation=0.03, is_present=is_present, min_angle=0.9, random_state=0
)
stream = DDPvMFMeans(max_angle=0.5)
ids = [stream.partial_fit_predict(batch) for batch in batches]
fig, ax = plt.subplots(figsize=(8, 3.4), layout="constrained")
plot_id_shares(ids, ax=ax)
