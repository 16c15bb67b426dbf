"""How many groups are in my embeddings? `choose_model` finds the number, says why, and keeps what it compared.

    python examples/embeddings.py

The rows are made up: 4,000 vectors of 128 numbers in 25 groups, the largest fifty times as large as the smallest.

It prints:

      clusters  modularity  agreement   score
             1       0.000      1.000   0.000
            23       0.908      0.367   0.000
            24       0.910      0.567   0.516
    >       25       0.913      1.000   0.913
            27       0.851      0.916   0.780
            49       0.622      0.652   0.406
           157       0.402      0.366   0.000
           326       0.294      0.180   0.000
    25 clusters, adjusted Rand index 1.00
    One cluster: no clear clusters were found in the 1,000 rows. Models learned from halves of the rows
    agree to 0.018 at most; it takes 0.5, which rows without clusters did not reach where it was
    measured. Give SphericalKMeans a number of clusters to cut the rows all the same.
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
