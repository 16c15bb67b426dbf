"""The kernel contract: what every device computes on a block of rows, to the bit where that is possible.

A row meets a cluster through one dot product. With an affine curve the score is

    score_k(x) = vectors_k . x + offsets_k            (the slope of the curve is folded into `vectors_k`)

and then comes a choice (arg max, softmax, or a draw) and a sum. A kernel works on one block of rows with arrays
alone: no project types, no threads, no chunking. `fitting/passes.py` runs blocks and adds their sums.

**Rows.** A dense block is a C-contiguous unit-row array (n, D), float32 or float64. A sparse block is a
`points.SparseBlock`, whose `indptr` belongs to the block while `data` and `indices` are the whole matrix's.

**Arg max.** The label is the k with the largest *float64* score, its products added in column order (for CSR,
in the order stored); ties go to the smallest k. Devices may score in float32 first, but must decide every row
whose two best scores lie within the rounding bound of that filter by the float64 rule. So labels do not
depend on block size, BLAS, device, or on whether rows come one at a time.

**Softmax.** Responsibilities are exp(score - max) / sum; the evidence of a row is log sum exp score. Scores are
float64, except that wide float32 rows are scored in float32 where vectors and offsets stay below `FLOAT32_SLOPE_LIMIT`.

**Draw.** Row i draws uniform u_i = philox(key, i) and takes the first k whose cumulative responsibility exceeds u_i.

**Sums.** Counts, resultants and evidence are float64, weighted by `weights` (None: all 1). Kernels add *into* the
arrays they are given, in an order fixed by the block alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from armillary._typing import Float64Array, FloatArray
from armillary.points import Block

# float32 scores are off by about 6e-8 |vector|: 2e-3 nats at this length. Beyond it, float64 (vmf_mixtures.md, 14).
FLOAT32_SLOPE_LIMIT = 3e4


@dataclass(frozen=True, eq=False)
class AffineRule:
    """score_k(x) = vectors_k . x + offsets_k."""

    vectors: Float64Array  # (K, D)
    offsets: Float64Array  # (K,)

    @classmethod
    def cosines(cls, directions: Float64Array) -> AffineRule:
        """The identity curve on unit directions: the score is the cosine."""
        return cls(np.ascontiguousarray(directions, dtype=np.float64), np.zeros(len(directions)))


@dataclass(frozen=True, eq=False)
class AngleBounds:
    """Safe bounds on the angles of a block's rows, and how far directions turned since they were made."""

    own: npt.NDArray[np.float32]  # (n,) at least the angle to the row's own direction
    other: npt.NDArray[np.float32]  # (n,) at most the angle to every other direction
    turned: npt.NDArray[np.float32]  # (K,) padded angle each direction turned
    largest: np.float32  # the largest of `turned`, of direction `widest`
    second_largest: np.float32
    widest: int


class Kernels(Protocol):
    """What a device offers. Every function works on one block."""

    def prepare(self, rule: AffineRule) -> Any:
        """The rule in the device's own layout; done once per pass."""

    def scores(self, rows: Block, rule: Any, out: FloatArray) -> None:
        """Fill `out` (n, K) with scores, in the dtype of `out`."""

    def own_scores(self, rows: Block, rule: Any, labels: npt.NDArray[np.int32], out: Float64Array) -> None:
        """Fill `out` (n,) with the score of each row under its own label."""

    def assign_best(self, rows: Block, rule: Any, labels: npt.NDArray[np.int32], changed: npt.NDArray[np.int64]) -> int:
        """Write the arg max over `labels` (n,); return how many rows changed.

        For a row that moves from cluster a to b, `changed[a]` and `changed[b]` grow by one (a row labelled -1
        comes from nowhere).
        """

    def assign_bounded(
        self,
        rows: Block,
        rule: Any,
        labels: npt.NDArray[np.int32],
        changed: npt.NDArray[np.int64],
        angles: AngleBounds,
    ) -> int:
        """`assign_best` for a rule of cosines, with the same labels, that may pass over rows the bounds settle."""

    def assign_draw(
        self,
        rows: Block,
        rule: Any,
        weights: Float64Array | None,
        key: tuple[int, int],
        first_row: int,
        labels: npt.NDArray[np.int32],
    ) -> float:
        """Write one draw per row over `labels`; return the weighted evidence."""

    def responsibilities(self, rows: Block, rule: Any, out: FloatArray, log_evidence: Float64Array) -> None:
        """Fill `out` (n, K) with responsibilities and `log_evidence` (n,) with log sum exp score."""

    def add_rows(
        self,
        rows: Block,
        weights: Float64Array | None,
        labels: npt.NDArray[np.int32],
        is_wanted: npt.NDArray[np.bool_],
        counts: Float64Array,
        resultants: Float64Array,
    ) -> None:
        """Add each row to `counts` (K,) and `resultants` (K, D) of its label, where `is_wanted[label]`."""

    def add_soft(
        self,
        rows: Block,
        rule: Any,
        weights: Float64Array | None,
        counts: Float64Array,
        resultants: Float64Array,
    ) -> float:
        """Add each row to every cluster by its responsibility; return the weighted evidence."""
