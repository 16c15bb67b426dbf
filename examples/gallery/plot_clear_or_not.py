"""
Are there clusters at all?
==========================

`clarity_` says how clear the clusters are, from 0, no more than rows without any, to 1; 0.2 is clear. Here five groups
come together, and the answer turns from clear to not clear.
"""

import matplotlib.pyplot as plt

from armillary import AutoClusterer
from armillary.datasets import make_vmf_mixture

concentrations = [4.0, 8.0, 12.0, 20.0, 40.0]
fits = []
for concentration in concentrations:
    X, _, _ = make_vmf_mixture(600, 16, 5, concentration=concentration, random_state=0)
    fits.append(AutoClusterer().fit(X))

fig, ax = plt.subplots(figsize=(6, 3.5), layout="constrained")
ax.plot(concentrations, [fit.clarity_ for fit in fits], "o-")
for concentration, fit in zip(concentrations, fits, strict=True):
    said = "clear" if fit.is_clear_ else "not clear"
    ax.annotate(said, (concentration, fit.clarity_), (6, -12), textcoords="offset points")
ax.set(xlabel="concentration of the clusters", ylabel="clarity_", xscale="log", ylim=(-0.1, 1.1))
