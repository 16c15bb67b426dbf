"""
What shall I call the clusters?
===============================

`name_clusters` finds words that tell clusters apart.
"""

import matplotlib.pyplot as plt
import numpy as np

from armillary import AutoClusterer
from armillary.texts import tfidf_rows

subjects = {
    "kitchen": "garlic pan simmer sauce salt oven butter",
    "sky": "planet comet orbit telescope nebula moon star",
    "bank": "card transfer exchange rate account fee declined",
    "sea": "harbour sail anchor tide captain deck wave",
}
draws = np.random.default_rng(0)
texts = [
    " ".join(draws.choice(words.split(), 6))
    for share, words in zip((90, 70, 50, 30), subjects.values(), strict=True)
    for _ in range(share)
]
rows, _ = tfidf_rows(texts)
model = AutoClusterer().fit(rows, texts=texts)
sizes = [int(np.sum(model.labels_ == label)) for label in model.names_]
fig, ax = plt.subplots(figsize=(7, 2.8), layout="constrained")
ax.barh([model.names_[label] for label in model.names_], sizes)
ax.set_xlabel("texts")
