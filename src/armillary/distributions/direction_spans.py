"""Fewer coordinates for directions that lie in the span of a few vectors with many columns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from armillary._typing import Float64Array
from armillary.distributions.natural_vectors import natural_lengths

# Directions of a span are told apart down to cosines that differ by rounding.
_LEAST_EIGENVALUE = 1e-15


@dataclass(frozen=True, eq=False)
class Span:
    """Coordinates for the span of L resultants and some other vectors, in which lengths and angles are the same.

    They are at most as many as the vectors; all that is said on a tree lies there, so that what is done in these
    coordinates costs next to nothing. Where D is no more than that, they are the D columns. Make it by `of`.
    """

    resultants: Float64Array  # (L, D)
    others: Float64Array  # (n, D)
    lengths: Float64Array  # (L + n,) of all of them
    coordinates: Float64Array  # (L, r) of the resultants
    other_coordinates: Float64Array  # (n, r)
    back: Float64Array | None  # (r, L + n): each axis as a combination of their directions; None: the columns

    @classmethod
    def of(cls, resultants: Float64Array, others: Float64Array) -> Span:
        """From resultants (L, D) and other vectors (n, D) or (D,)."""
        others = np.atleast_2d(others)
        n_leaves, n_vectors = len(resultants), len(resultants) + len(others)
        if resultants.shape[1] <= n_vectors:
            lengths = natural_lengths(np.concatenate([resultants, others]))
            return cls(resultants, others, lengths, resultants, others, None)
        gram = np.empty((n_vectors, n_vectors))
        gram[:n_leaves, :n_leaves] = resultants @ resultants.T
        gram[n_leaves:, :n_leaves] = others @ resultants.T
        gram[n_leaves:, n_leaves:] = others @ others.T
        gram[:n_leaves, n_leaves:] = gram[n_leaves:, :n_leaves].T
        lengths = np.sqrt(np.diagonal(gram))
        shares = 1.0 / np.where(lengths > 0.0, lengths, 1.0)
        # of directions, not of vectors: a leaf with next to no rows is as exact as the others
        values, axes = np.linalg.eigh(shares[:, None] * gram * shares)
        is_there = values > _LEAST_EIGENVALUE * values[-1]
        roots, axes = np.sqrt(values[is_there]), axes[:, is_there]
        coordinates = lengths[:, None] * axes * roots
        back = (axes / roots).T * shares
        return cls(resultants, others, lengths, coordinates[:n_leaves], coordinates[n_leaves:], back)

    def coordinates_of(self, vectors: Float64Array) -> Float64Array:
        """(..., r) of vectors (..., D): of their projections on the span, where they do not lie in it."""
        if self.back is None:
            return vectors
        products = np.concatenate([vectors @ self.resultants.T, vectors @ self.others.T], axis=-1)
        return np.asarray(products @ self.back.T)

    def vectors(self, coordinates: Float64Array, own: Float64Array | None = None) -> Float64Array:
        """(n, D) of vectors given by coordinates (n, r); for n = L, `own` (L,) times the resultants is added."""
        if self.back is None:
            return coordinates if own is None else own[:, None] * self.resultants + coordinates
        parts = coordinates @ self.back
        n_leaves = len(self.resultants)
        if own is not None:
            parts[:, :n_leaves] += np.diag(own)
        made = parts[:, :n_leaves] @ self.resultants
        if len(self.others):
            made += parts[:, n_leaves:] @ self.others
        return np.asarray(made)
