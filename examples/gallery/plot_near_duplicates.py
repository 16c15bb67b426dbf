"""
Which rows are there twice?
===========================

`near_duplicates` keeps one row of each group. Those that go have a cosine of at least the threshold to one that stays.
"""

import matplotlib.pyplot as plt
import numpy as np

from armillary.curation import near_duplicates
from armillary.datasets import make_vmf_mixture

X, _, _ = make_vmf_mixture(2_000, 24, 8, concentration=40.0, random_state=0)
draws = np.random.default_rng(0)
X[1_700:] = X[:300] + draws.uniform(0.0, 0.08, (300, 1)) * draws.standard_normal((300, 24))
found = near_duplicates(X, threshold=0.95)
fig, ax = plt.subplots(figsize=(6, 3), layout="constrained")
ax.hist(found.cosines[~found.is_kept], bins=40)
ax.axvline(0.95, color="black", lw=0.8)
ax.set(
    xlabel="cosine to the row that stays", ylabel="rows", title=f"{found.n_removed} to remove; exact: {found.is_exact}"
)
