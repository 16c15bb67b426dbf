"""One number beside each row on the CPU: distances to what was chosen, scores with the own cluster.

Weighted sums of the values are whole (sums/whole.py), on a grid that follows from the largest value: so the rows that
are picked do not depend on how rows are cut.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import numpy.typing as npt

from armillary._typing import Float64Array, FloatArray
from armillary.engines.contract import Here, Numbers
from armillary.points import even_ranges
from armillary.sums import whole

if TYPE_CHECKING:
    from collections.abc import Sequence

# Rows whose mass is added up together.
_BLOCK_ROWS = 4096
# Cosines looked at together, 1 MiB: they stay in the cache.
_CACHED_VALUES = 1 << 17
# Up to this many clusters cosines are turned round first, so that the maximum runs along rows: at K = 10 that takes a
# quarter of the time, at K = 100 twice as long.
_FEW_CLUSTERS = 48
# 1 - cos below which directions count as equal.
EQUAL = {np.dtype(kind).char: float(8.0 * np.finfo(kind).eps) for kind in (np.float32, np.float64)}


class CpuColumn:
    """Values (n,) beside rows of these weights; see `engines/contract.py`."""

    def __init__(self, values: FloatArray, weights: Float64Array | None, q: int) -> None:
        self.values = values
        self._weights = weights
        self._q = q  # sums of rows of these weights are multiples of 2^-q

    # ----------------------------------------------------------------------------------------------- draws

    def top(self) -> float:
        """The largest value; 0 where there are no rows."""
        return float(self.values.max(initial=0.0))

    def pick(self, uniforms: Float64Array) -> Numbers:
        """Rows drawn with the probability of weight times value, by uniforms (m,); none where all of that is 0."""
        masses = self.masses(mass_grid(self._q, self.top()))
        if masses.total <= 0.0:
            return np.empty(0, dtype=np.int64)
        return masses.reached(mass_targets(uniforms, masses.total, masses.q))

    def masses(self, q: int) -> Masses:
        """Weight times value of the rows as multiples of 2^-q."""
        return Masses(self.values, self._weights, q)

    # -------------------------------------------------------------------------------------------- extremes

    def at(self, numbers: Numbers) -> FloatArray:
        """The values of a few rows (m,)."""
        return self.values[numbers]

    def farthest(self, n_ignored: int = 0) -> int:
        """The row with the largest value but for `n_ignored` others; the first of equals."""
        if n_ignored == 0:
            return int(np.argmax(self.values))
        return self.find(float(self.largest(n_ignored + 1)[0]))

    def largest(self, most: int) -> FloatArray:
        """The largest values, at most so many, the least of them first."""
        place = max(0, len(self.values) - most)
        return np.partition(self.values, place)[place:] if place else np.sort(self.values)

    def find(self, value: float) -> int:
        """The first row with this value; -1 where there is none."""
        found = np.flatnonzero(self.values == value)
        return int(found[0]) if found.size else -1

    def least(self, most: int, *, counted: bool = False) -> Numbers:
        """The rows with the smallest values, in their order, equals by number."""
        numbers = np.arange(len(self.values))
        if counted and self._weights is not None:
            numbers = np.flatnonzero(self._weights)
        values = self.values[numbers]
        if most < len(numbers):
            # all that are no larger than the last wanted: equals are settled by their numbers
            is_low = values <= np.partition(values, most - 1)[most - 1]
            numbers, values = numbers[is_low], values[is_low]
        return numbers[np.argsort(values, kind="stable")][:most]

    def to_host(self) -> FloatArray:
        """The values (n,)."""
        return self.values


def mass_grid(q: int, top: float) -> int:
    """q for weighted sums of values up to `top`, of rows whose own sums have q (sums/whole.py)."""
    if top <= 0.0:
        return q
    mantissa, power = math.frexp(top)
    return q - (power - (mantissa == 0.5))


def mass_targets(uniforms: Float64Array, total: float, q: int) -> Float64Array:
    """Masses below the total that running sums must exceed: whole too, so that no rounding comes in between."""
    quantum = math.ldexp(1.0, -q)
    return np.asarray(np.minimum(np.floor(uniforms * (total / quantum)) * quantum, total - quantum))


def distances(cosines: FloatArray) -> FloatArray:
    """1 - cos, 0 for equal directions: rounding must not make a row seem apart from itself."""
    apart = np.subtract(1.0, cosines, order="C")
    apart[apart < EQUAL[cosines.dtype.char]] = 0.0
    return apart


def own_and_nearest(
    cosines: FloatArray, labels: npt.NDArray[np.int32], own: Float64Array, nearest: Float64Array
) -> None:
    """Take from `cosines` (m, K) the own cluster's into `own` (m,) and raise `nearest` (m,) to the largest of others.

    Labels outside 0..K-1 have their own cluster elsewhere. `cosines` is scratch afterwards.
    """
    n_rows, n_clusters = cosines.shape
    is_turned = n_clusters <= _FEW_CLUSTERS
    step = max(1, _CACHED_VALUES // n_clusters)
    for start in range(0, n_rows, step):
        part = slice(start, start + step)
        block = np.ascontiguousarray(cosines[part].T) if is_turned else cosines[part]
        codes = labels[part].astype(np.intp)
        row_stride, cluster_stride = (1, len(codes)) if is_turned else (n_clusters, 1)
        places = np.arange(len(codes)) * row_stride + codes * cluster_stride
        is_here = (codes >= 0) & (codes < n_clusters)
        values = block.reshape(-1)
        if is_here.all():
            own[part] = values[places]
        else:
            places = places[is_here]
            own[part][is_here] = values[places]
        values[places] = -np.inf
        np.maximum(nearest[part], block.max(axis=0 if is_turned else 1), out=nearest[part])


@dataclass(frozen=True)
class Left:
    """The weighted sums of the column lowered to each cluster's distances, as multiples of 2^-q."""

    q: int
    is_exact: ClassVar[bool] = False
    is_by_row: ClassVar[bool] = True  # k-means++ keeps the candidate with the least: no cut may decide which
    is_mergeable: ClassVar[bool] = True

    def part(self, scores: FloatArray, here: Here) -> Float64Array:
        """Of a few rows."""
        # a line for each of the few clusters: NumPy takes a fourth of the time that many lines of few would take
        lowered = distances(scores.T)
        np.minimum(lowered, here.columns[0], out=lowered)
        weighted = lowered.astype(np.float64) if here.weights is None else lowered * here.weights
        return np.asarray(whole.rounded(weighted, self.q).sum(axis=1))

    def join(self, parts: Sequence[Float64Array]) -> Float64Array:
        """Of all rows."""
        return np.asarray(np.sum(parts, axis=0))


class Masses:
    """Weight times value of each row, and where a running sum of them reaches a target. First a block, then a row."""

    def __init__(self, values: FloatArray, weights: Float64Array | None, q: int) -> None:
        self._values, self._weights, self.q = values, weights, q
        self._blocks = even_ranges(len(values), max(1, -(-len(values) // _BLOCK_ROWS)))
        self._sums = np.cumsum([self._mass(*block).sum() for block in self._blocks])

    def _mass(self, start: int, stop: int) -> Float64Array:
        own = self._values[start:stop].astype(np.float64)
        return whole.rounded(own if self._weights is None else own * self._weights[start:stop], self.q)

    @property
    def total(self) -> float:
        """The mass of all rows."""
        return float(self._sums[-1])

    def reached(self, targets: Float64Array) -> Numbers:
        """The first rows whose running sum is above the targets, which are below the total."""
        found = []
        for block, target in zip(np.searchsorted(self._sums, targets, side="right"), targets, strict=True):
            before = self._sums[block - 1] if block else 0.0
            start, stop = self._blocks[block]
            running = before + np.cumsum(self._mass(start, stop))
            found.append(start + int(np.searchsorted(running, target, side="right")))
        return np.array(found, dtype=np.int64)
