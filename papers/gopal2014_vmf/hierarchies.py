"""Section 8: trees of directions against flat mixtures with as many components as leaves, by held-out likelihood.

Every model of a split starts from the same directions: the leaves of top-down spherical k-means, after the tied EM run
that the tree starts with. So a gap is one between models, not between starts.
"""

from __future__ import annotations

from typing import Any

from documents import Documents
from held_out import FLAT, collected, described, flat, gain, halves

import armillary

SHAPES = ((3, 3), (3, 4), (4, 3), (2, 10), (3, 5))  # height, branching
MODELS = (*FLAT, "H-vMFmix", "H-vMFmix factorised")


def measure(documents: Documents, shape: tuple[int, int], seed: int) -> dict[str, float]:
    """One split into halves: every model, fitted to one and scored on the other."""
    rows = halves(documents, seed)
    tree = armillary.HierarchicalVonMisesFisherMixture
    start = tree(*shape, max_iter=1, random_state=seed).fit(rows.train).means_
    found = flat(rows, start, seed)
    for name, inference in zip(MODELS[len(FLAT) :], ("messages", "factorised"), strict=True):
        model = tree(*shape, inference=inference, init=start, random_state=seed).fit(rows.train)
        found[name] = gain(model.score(rows.test), start.shape[1])
    return found


def over_shapes(documents: Documents, shapes: tuple[tuple[int, int], ...], n_splits: int, track: Any) -> dict[str, Any]:
    """By shape of the tree."""
    by_shape = {
        f"({height}, {branching})": collected(
            [measure(documents, (height, branching), seed) for seed in range(1, n_splits + 1)]
        )
        for height, branching in track(shapes, f"{documents.name}, trees")
    }
    return described(documents, n_splits, by_shape)
