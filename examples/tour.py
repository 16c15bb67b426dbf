"""A tour: cluster, look, predict, follow a stream, save.

    python examples/tour.py

docs/guide/tour.md shows this script and what it prints; `tests/unit/test_readme.py` holds them together.
"""

import textwrap

import numpy as np

import armillary
from armillary.datasets import make_drifting_mixture, make_vmf_mixture
from armillary.metrics import cosine_silhouette_score, matched_accuracy_score

# Cluster: 6,000 vectors of 64 numbers; yours would be embeddings, normals, TF-IDF rows ...
X, truth, _ = make_vmf_mixture(6_000, 64, 12, concentration=50.0, random_state=0)
choice = armillary.choose_model(X[:5_000])
model = choice.model
print(textwrap.fill(choice.reason, 100))

# Look: how large the clusters are, how well apart, and which row is the most central of the largest
similarity = model.transform(X[:5_000])
largest = int(np.argmax(model.counts_))
print("sizes     ", sorted(model.counts_.astype(int).tolist(), reverse=True))
print("silhouette", f"{cosine_silhouette_score(X[:5_000], model.labels_):.3f}")
print("central   ", f"row {np.argmax(similarity[:, largest])} of cluster {largest}")

# Predict: rows that the model has not seen
print("new rows  ", f"{matched_accuracy_score(truth[5_000:], model.predict(X[5_000:])):.1%} correct")

# Stream: batches of a turning scene; one group is away for three of them, and comes back under the id it had
is_present = [[True, step not in (3, 4, 5), True] for step in range(1, 8)]
batches, _, _ = make_drifting_mixture(
    900, 3, 3, 7, concentration=200.0, rotation=0.02, is_present=is_present, min_angle=1.0, random_state=1
)
stream = armillary.DDPvMFMeans(max_angle=0.5)
print("ids       ", *(sorted(set(stream.partial_fit_predict(batch).tolist())) for batch in batches))

# Save: one file, no pickle
armillary.save(model, "model.safetensors")
print("again     ", armillary.load("model.safetensors").predict(X[:6]), "is", model.labels_[:6])
