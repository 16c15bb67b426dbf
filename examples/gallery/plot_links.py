"""
Who is speaking?
================

`Links` answers each vector at once. Ids against the true speakers, as the stream goes on.
"""

import matplotlib.pyplot as plt
import numpy as np

from armillary import Links
from armillary.datasets import make_vmf_mixture

X, speakers, _ = make_vmf_mixture(240, 64, 5, concentration=150.0, min_angle=1.0, random_state=3)
speakers = np.repeat(np.arange(5), 8)[np.argsort(np.random.default_rng(0).random(40))].repeat(6)
centers = np.array([X[number] for number in range(5)])
rng = np.random.default_rng(1)
voices = centers[speakers] + 0.08 * rng.standard_normal((240, 64))

stream = Links()
ids = np.array([stream.learn_one(voice) for voice in voices])
fig, ax = plt.subplots(figsize=(8.5, 3), layout="constrained")
ax.scatter(range(240), ids, c=speakers, s=12, cmap="tab10")
ax.set(xlabel="vector", ylabel="id answered", title=f"{stream.n_clusters_} ids; colours are the true speakers")
