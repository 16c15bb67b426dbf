"""
Is a fit from disk the same as one from memory?
===============================================

To the bit: sums are whole numbers, so no order and no cut changes them. Here rows lie in three files of float16.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from armillary import SphericalKMeans, open_rows
from armillary.datasets import make_vmf_mixture

X, _, _ = make_vmf_mixture(30_000, 16, 6, concentration=40.0, random_state=0)
X = X.astype(np.float16)
traces = {}
with tempfile.TemporaryDirectory() as folder:
    for number, part in enumerate(np.array_split(X, 3)):
        np.save(Path(folder) / f"part-{number}.npy", part)
    for name, rows in (("memory", X), ("disk", open_rows(f"{folder}/part-*.npy"))):
        steps = []
        model = SphericalKMeans(
            6, tol=0.0, random_state=0, callbacks=lambda event, steps=steps: steps.append(event.objective)
        )
        model.fit(rows)
        traces[name] = [value for value in steps if value is not None]

fig, ax = plt.subplots(figsize=(6, 3), layout="constrained")
ax.plot(traces["memory"], lw=5, alpha=0.4, label="memory")
ax.plot(traces["disk"], "k--", lw=1, label="disk")
ax.set(xlabel="step", ylabel="objective", title=f"equal: {traces['memory'] == traces['disk']}")
ax.legend()
