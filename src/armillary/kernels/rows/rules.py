"""An affine rule as the loops want it: the doubt of float32 scores, and layouts that are made when first asked for."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property
from threading import RLock
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from armillary._typing import Float64Array
from armillary.kernels.rows import nearest, sparse
from armillary.kernels.rows.simd import CACHE_LINE, FEWEST_TOGETHER
from armillary.rules import AffineRule

# Neighbours of a direction that are known one by one.
_MOST_NEIGHBOURS = 256
# Directions whose neighbours are sought at once.
_CIRCLES_AT_ONCE = 512
# 2^-24: half a unit in the last place of a float32.
_HALF_ULP = 2.0**-24
# Angles between directions are made smaller by more than the rounding of their arc cosines.
_CIRCLE_DOUBT = 1e-6

_T = TypeVar("_T")
_making = RLock()
if hasattr(os, "register_at_fork"):  # a child never finds it held by a thread that it does not have
    os.register_at_fork(before=_making.acquire, after_in_parent=_making.release, after_in_child=_making.release)


class _made_once(cached_property[_T]):  # noqa: N801 (a decorator)
    """A cached property of which threads that want it at the same time make one, not one each: it may be large."""

    def __get__(self, instance: Any, owner: type[Any] | None = None) -> Any:
        with _making:
            return super().__get__(instance, owner)


@dataclass(frozen=True, eq=False)
class PreparedRule:
    """An affine rule with the doubt of float32 scores; the layouts that loops want are made when first asked for."""

    rule: AffineRule
    directions: Float64Array  # (K, D)
    slopes: Float64Array  # (K,)
    offsets: Float64Array  # (K,)
    offsets32: npt.NDArray[np.float32]  # (K,)
    longest: float  # vector
    farthest: float  # offset from 0
    margin_constant: float
    margin_per_term: float
    floor: float
    is_rival: npt.NDArray[np.bool_]  # (K,)

    def bar(self, margin: np.float32) -> np.float32:
        """A float32 score above it is surely not below the floor."""
        if self.floor == -np.inf:
            return np.float32(-np.inf)
        return np.nextafter(np.float32(self.floor + margin), np.float32(np.inf))

    def margin(self, n_terms: int) -> np.float32:
        """Twice the error bound of a float32 score: `n_terms` products in any order, then the offset."""
        return np.float32(self.margin_constant + n_terms * self.margin_per_term)

    @_made_once
    def vectors(self) -> Float64Array:
        """(K, D)."""
        return np.ascontiguousarray(self.rule.vectors, dtype=np.float64)

    @_made_once
    def vectors32(self) -> npt.NDArray[np.float32]:
        """(K, D)."""
        return self.vectors.astype(np.float32)

    @_made_once
    def narrow(self) -> tuple[Any, ...]:
        """What the loops over narrow rows want of a rule."""
        n_clusters, n_features = self.vectors.shape
        n_bits = nearest.code_bits(n_clusters)
        largest = max(self.longest + self.farthest, abs(self.floor) if self.floor > -np.inf else 0.0)
        # products are added to the offset: each addition rounds at its size too; a code changes the last bits
        doubt = n_features * self.farthest + 2.0 * 2.0**n_bits * largest
        margin = np.float32(self.margin(n_features) + 2.0 * _HALF_ULP * doubt)
        table = nearest.score_table(self.vectors, self.offsets, self.floor, self.is_rival)
        return table, np.int32(n_bits), margin, self.vectors, self.offsets, self.floor, self.is_rival

    @_made_once
    def matrix32(self) -> npt.NDArray[np.float32]:
        """(D, K), for BLAS."""
        return np.ascontiguousarray(self.vectors32.T)

    @_made_once
    def everyone(self) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.float32]]:
        """All clusters with their offsets, as a list for wide rows; hopeless ones fill up the last that go together."""
        n_clusters = len(self.offsets)
        listed = np.zeros(_whole(n_clusters, FEWEST_TOGETHER), np.int32)
        listed[:n_clusters] = np.arange(n_clusters)
        return listed, self._levels(self.offsets, len(listed))

    @_made_once
    def circle(self) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.float32], npt.NDArray[np.float32]]:
        """The neighbours of each unit direction (K, L) from the nearest on, safe angles to them, and their offsets.

        The angles (K, L + 1) are a little too small. The last is at most that of the first neighbour that is not
        listed, infinite if all are. Hopeless neighbours fill up the last that go together.
        """
        n_clusters, n_features = self.rule.shape
        n_listed = min(n_clusters - 1, _MOST_NEIGHBOURS)
        n_columns = max(1, _whole(n_listed, FEWEST_TOGETHER))
        neighbours = np.zeros((n_clusters, n_columns), np.int32)
        angles = np.full((n_clusters, n_columns + 1), np.inf, np.float32)
        for first in range(0, n_clusters, _CIRCLES_AT_ONCE):
            some = slice(first, min(first + _CIRCLES_AT_ONCE, n_clusters))
            cosines = self.vectors[some] @ self.vectors.T
            cosines[np.arange(len(cosines)), np.arange(some.start, some.stop)] = -np.inf  # not its own neighbour
            order = np.argpartition(-cosines, n_listed - 1, axis=1)[:, :n_listed] if n_listed else neighbours[some, :0]
            found = np.take_along_axis(cosines, order, axis=1)
            nearest_first = np.argsort(-found, axis=1)
            neighbours[some, :n_listed] = np.take_along_axis(order, nearest_first, axis=1)
            found = np.take_along_axis(found, nearest_first, axis=1)
            # products of unit vectors are off by less than D 2^-52
            angles[some, :n_listed] = np.arccos(np.minimum(found + n_features * 2.0**-52, 1.0)) - _CIRCLE_DOUBT
        if n_listed < n_clusters - 1:
            angles[:, n_listed] = angles[:, n_listed - 1]
        return neighbours, angles, self._levels(np.zeros(n_listed), n_columns)

    @staticmethod
    def _levels(offsets: Float64Array, n_places: int) -> npt.NDArray[np.float32]:
        """Offsets of listed clusters; no row prefers the places behind them."""
        level = np.full(n_places, -np.inf, np.float32)
        level[: len(offsets)] = offsets
        return level

    @_made_once
    def padded32(self) -> npt.NDArray[np.float32]:
        """(D, K) for labels of CSR rows."""
        # in whole cache lines: in the units of float64 the labels of 20 clusters take a tenth longer
        return self._padded(np.dtype(np.float32), CACHE_LINE // 4)

    @_made_once
    def padded(self) -> Float64Array:
        """(D, K) for scores of CSR rows."""
        return self._padded(np.dtype(np.float64), sparse.COLUMN_UNIT)

    def _padded(self, dtype: np.dtype[Any], unit: int) -> npt.NDArray[Any]:
        """(D, K) with columns of no meaning up to a multiple of `unit`; it starts where a cache line does."""
        n_clusters, n_features = self.rule.shape
        n_columns = _whole(n_clusters, unit)
        line = CACHE_LINE // dtype.itemsize
        room = np.empty(n_features * n_columns + line, dtype)
        start = -(room.ctypes.data // dtype.itemsize) % line
        padded = room[start : start + n_features * n_columns].reshape(n_features, n_columns)
        sparse.transpose(self.directions, self.slopes, padded)
        return padded

    @_made_once
    def matrix(self) -> Float64Array:
        """(D, K), for BLAS in float64."""
        return np.ascontiguousarray(self.vectors.T)


def _whole(number: int, unit: int) -> int:
    """The next multiple of `unit`."""
    return -(-number // unit) * unit


def prepare(rule: AffineRule) -> PreparedRule:
    """Done once per pass."""
    directions = np.ascontiguousarray(rule.directions, dtype=np.float64)
    offsets = np.ascontiguousarray(rule.offsets, dtype=np.float64)
    slopes = np.ones(len(offsets)) if rule.slopes is None else np.ascontiguousarray(rule.slopes, dtype=np.float64)
    longest = float(np.sqrt((slopes**2 * np.vecdot(directions, directions)).max(initial=0.0)))
    farthest = float(np.abs(offsets).max(initial=0.0))
    # |error| <= (n + 2) u |x| |v| for the products and the casts of both factors, 2 u |b| for the offset
    return PreparedRule(
        rule,
        directions,
        slopes,
        offsets,
        offsets.astype(np.float32),
        longest,
        farthest,
        margin_constant=2.0 * _HALF_ULP * (4.0 * longest + 3.0 * farthest),
        margin_per_term=2.0 * _HALF_ULP * longest,
        floor=rule.floor,
        is_rival=np.zeros(len(offsets), np.bool_) if rule.is_rival is None else rule.is_rival,
    )
