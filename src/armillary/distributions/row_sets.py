"""Sets of rows, as far as the laws of clusters look at them: counts and sums.

Components never see which rows a set has, only what is summed over them. So one component serves rows that are held as
an array (`ArrayRows`), rows that a sampler finds by number among millions, dense or CSR, and rows with weights.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import cached_property
from typing import Any, Protocol, TypeVar

import numpy as np

from armillary._typing import Float64Array
from armillary.distributions.tangent_gaussian import RowSums, row_sums

T = TypeVar("T")


class RowSets(Protocol):
    """G sets of unit rows, none empty. A sum over a set is the same to the bit whenever its rows are the same."""

    @property
    def counts(self) -> Float64Array:
        """Rows of each set (G,), or the sums of their weights."""

    def totals(self) -> Float64Array:
        """sum x (G, D)."""

    def scatters(self, centres: Float64Array) -> Float64Array:
        """sum (x - c)(x - c)' (G, D, D) around a centre (G, D) of each set, no longer than rows are."""

    def tangent_sums(self, bases: Float64Array, *, with_scatter: bool = True, with_curvature: bool = False) -> RowSums:
        """Sums seen from a base point (G, D) of each set; the fields have the axis of the sets first."""

    def of_each(self, name: Hashable, make: Callable[[Any], T]) -> T:
        """What `make` gives for these sets, a named tuple of arrays (G, ...) that are functions of each set alone.

        Made when it is first asked for by this name.
        """


class ArrayRows:
    """One set of rows (n, D), or the same rows with G different weights (G, n): then they are G sets."""

    def __init__(self, rows: Float64Array, weights: Float64Array | None = None) -> None:
        self.rows = rows
        self._weights = weights

    @cached_property
    def counts(self) -> Float64Array:
        """Rows, or sums of weights (G,)."""
        return np.array([float(self.rows.shape[0])]) if self._weights is None else self._weights.sum(axis=1)

    def totals(self) -> Float64Array:
        """sum w x (G, D)."""
        weights = np.ones((1, len(self.rows))) if self._weights is None else self._weights
        # one by one: a product of all would have other bits than that of each alone
        return np.array([own @ self.rows for own in weights])

    def scatters(self, centres: Float64Array) -> Float64Array:
        """sum w (x - c)(x - c)' (G, D, D)."""
        return np.array([scatter_of(self.rows - centre, weights) for centre, weights in self._with_weights(centres)])

    def tangent_sums(self, bases: Float64Array, *, with_scatter: bool = True, with_curvature: bool = False) -> RowSums:
        """Sums of each weighting at its base point."""
        each = [
            row_sums(self.rows, base, weights, with_scatter=with_scatter, with_curvature=with_curvature)
            for base, weights in self._with_weights(bases)
        ]
        return RowSums(*(np.array(parts) for parts in zip(*each, strict=True)))

    def of_each(self, name: Hashable, make: Callable[[Any], T]) -> T:
        """Made whenever it is asked for."""
        return make(self)

    def _with_weights(self, places: Float64Array) -> list[tuple[Float64Array, Float64Array | None]]:
        weights = [None] if self._weights is None else list(self._weights)
        return list(zip(places, weights, strict=True))


def as_sets(rows: Any) -> RowSets:
    """Rows (n, D) as one set; what is sets already stays."""
    return rows if hasattr(rows, "tangent_sums") else ArrayRows(np.asarray(rows, dtype=np.float64))


def scatter_of(centred: Float64Array, weights: Float64Array | None) -> Float64Array:
    """sum w v v' (D, D) of vectors (n, D)."""
    return np.asarray((centred if weights is None else weights[:, None] * centred).T @ centred)
