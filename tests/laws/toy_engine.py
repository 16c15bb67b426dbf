"""An engine in a few lines: rows in a list of arrays, worked one array after the other.

Nothing outside the tests knows of it: `register` is all that it takes.
"""

from contextlib import ExitStack, contextmanager
from itertools import accumulate, pairwise

import numpy as np

from armillary.engines.contract import UNIT, Gate
from armillary.engines.partitioned import PartedPoints, Partitioned
from armillary.engines.select import engine, register
from armillary.sums import whole


class Listed:
    """Rows in a list of arrays (n_1, D), (n_2, D), ..."""

    def __init__(self, arrays):
        self.arrays = list(arrays)

    @property
    def shape(self):
        return sum(array.shape[0] for array in self.arrays), self.arrays[0].shape[1]


class ToyPoints(PartedPoints):
    """What is known of all rows; the rows themselves are in `arrays`."""


class ToyEngine:
    """Rows in a list, each array on the CPU."""

    name = "toy"

    def points(self, X, who, sample_weight=None, expected_features=None, gate: Gate = UNIT):
        edges = list(accumulate((array.shape[0] for array in X.arrays), initial=0))
        weights = None if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
        parts = [
            engine("cpu").points(array, who, None if weights is None else weights[first:last], expected_features, gate)
            for array, (first, last) in zip(X.arrays, pairwise(edges), strict=True)
        ]
        q = whole.exponent(edges[-1]) if weights is None else whole.weights_exponent([weights])
        parts = [part.placed(first, q) for part, first in zip(parts, edges, strict=False)]
        points = ToyPoints.of([_Held(part) for part in parts], self.name)
        object.__setattr__(points, "arrays", parts)
        return points

    @contextmanager
    def open(self, points, n_threads, who):
        with ExitStack() as stack:
            parts = [stack.enter_context(engine("cpu").open(part, n_threads, who)) for part in points.arrays]
            yield Partitioned(parts, points=points)


class _Held:
    """Something with points, as `PartedPoints.of` asks for it."""

    def __init__(self, points):
        self.points = points


def register_toy():
    """Make the engine known."""
    register("toy", __name__, "ToyEngine", kinds=(f"{__name__}.Listed",))
