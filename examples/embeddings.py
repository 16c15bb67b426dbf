"""How many groups are in my embeddings? `choose_model` finds the number, says why, and keeps what it compared.

    python examples/embeddings.py

The rows are made up: 4,000 vectors of 128 numbers in 25 groups, the largest fifty times as large as the smallest.

It prints:

      clusters  modularity  at most  agreement   score
             1       0.000    0.000      1.000   0.000
            23       0.908    0.916      0.402   0.382
            24       0.910    0.916      0.643   0.612
    >       25       0.913    0.916      1.000   0.953
            27       0.851    0.931      0.883   0.752
            50       0.620    0.970      0.644   0.456
           151       0.400    0.991      0.364   0.146
           326       0.294    0.996      0.184   0.054
    25 clusters, adjusted Rand index 1.00
    Spherical k-means with 83 clusters. They are not clear: rows like these without clusters have
    clusters nearly as clear (0.00 on a scale from 0, rows like these without clusters, to 1; it takes
    0.20). This is the best cut all the same. Of 4 clusterings of the 1,000 rows, with 20 to 83 clusters
    (communities of rows that share neighbours), it has the highest modularity x agreement for its
    sizes, 0.00: rows have their neighbours in their own cluster (modularity 0.23 of at most 0.99), and
    models learned from halves of the rows give the same labels (agreement 0.02). It is the finest of
    them: smaller clusters are not looked for, since neighbours would not see them.
"""

import textwrap

import numpy as np
from sklearn.metrics import adjusted_rand_score

from armillary import choose_model
from armillary.datasets import make_vmf_mixture


def main() -> None:
    """Groups of very different sizes, and rows with none."""
    weights = np.geomspace(50.0, 1.0, 25)
    rows, truth, _ = make_vmf_mixture(
        4_000, 128, 25, concentration=150.0, weights=weights / weights.sum(), random_state=0
    )
    choice = choose_model(rows)
    print(choice)
    score = adjusted_rand_score(truth, choice.model.labels_)
    print(f"{choice.model.n_clusters_} clusters, adjusted Rand index {score:.2f}")

    noise = np.random.default_rng(0).normal(size=(1_000, 128))
    print(textwrap.fill(choose_model(noise).reason, 100))


if __name__ == "__main__":
    main()
