"""The kernel contract: what every device computes on a block of rows, to the bit where that is possible.

A row meets a cluster through one dot product. With an affine curve the score is

    score_k(x) = vectors_k . x + offsets_k,     vectors_k = slopes_k directions_k

and then comes a choice (arg max, softmax, or a draw) and a sum. A kernel works on one block of rows with arrays
alone: no project types, no threads, no chunking. `engines/cpu.py` runs blocks and adds their sums.

**Rows.** A dense block is a C-contiguous unit-row array (n, D), float32 or float64. A sparse block is a
`points.SparseBlock`, whose `indptr` belongs to the block while `data` and `indices` are the whole matrix's.

**Arg max.** The label is the k with the largest *float64* score, its products added in column order (for CSR,
in the order stored); ties go to the smallest k. Devices may score in float32 first, but must decide every row
whose two best scores lie within the rounding bound of that filter by the float64 rule. So labels do not
depend on block size, BLAS, device, or on whether rows come one at a time.

**Refusal.** A row whose best score is below the rule's `floor`, or belongs to a rival (`is_rival`), is refused: its
label becomes -2 - before, so that the label it had can be had back, and -1 stays -1. A refused row counts as unmoved.

**One row at a time.** Models in which rows open clusters are defined row by row. `walk` decides a list of rows that
way from a table of their scores, and stops where a new direction is needed. See `fitting/optimistic.py`.

**Slices of time.** Of sparse rows in many slices, sums T x K x D would be far larger than the rows. `list_shares`,
`add_slice_products`, `fill_slice_vectors` and `share_by_table` do without: they go by feature (`cpu/slices.py`).

**Softmax.** Responsibilities are exp(score - max) / sum; the evidence of a row is log sum exp score. Scores are
float64, except that wide dense float32 rows are scored in float32 where vectors and offsets stay below
`FLOAT32_SLOPE_LIMIT`.

**Draw.** Row i draws uniform u_i = philox(key, i) and takes the first k whose cumulative responsibility exceeds u_i.

**One row after the other, by chance.** In a collapsed sampler a row's law depends on the labels of all others, so
`gibbs_sweep` removes, draws and adds each row in turn, and carries the sums along.

**Sums.** Counts, resultants and evidence are float64, weighted by `weights` (None: all 1). Kernels add *into* the
arrays they are given. What labelled rows add is y = w x, then (y + rounder) - rounder, nothing fused or folded: whole
sums (`sums/whole.py`), whose bits no order changes. Sums of shares have an order fixed
by the block alone. Shares up to `NO_SHARE` may be passed over: what a count,
or a coordinate of a resultant, then misses is at most `NO_SHARE` of the total weight, a ten-thousandth of its rounding.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from armillary._typing import Float64Array, FloatArray
from armillary.distributions.geodesic_walk import RevivalCurve, WeightRule
from armillary.points import Block, SparseBlock
from armillary.rules import (
    AffineRule,
    Anchors,
    CollapsedRule,
    CollapsedSums,
    Company,
    Exact,
    Halt,
    Meeting,
    QuadraticRule,
    Recall,
    Seeds,
    Slots,
    Tracks,
)
from armillary.validation import Gauge

# float32 scores are off by about 6e-8 |vector|: 2e-3 nats at this length. Beyond it, float64 (vmf_mixtures.md, 14).
FLOAT32_SLOPE_LIMIT = 3e4
# A share of a row that need not be added to a sum.
NO_SHARE = 1e-20
# Tables of vectors by cluster have a multiple of this many columns; those beyond the clusters have no meaning.
TABLE_UNIT = 4


@dataclass(frozen=True, eq=False)
class AngleBounds:
    """Safe bounds on the angles of a block's rows, and how far directions turned since they were made."""

    own: npt.NDArray[np.float32]  # (n,) at least the angle to the row's own direction
    other: npt.NDArray[np.float32]  # (n,) at most the angle to every other direction
    turned: npt.NDArray[np.float32]  # (K,) padded angle each direction turned
    largest: np.float32  # the largest of `turned`, of direction `widest`
    second_largest: np.float32
    widest: int
    reach: np.float32  # rows that may lie farther from their own direction are looked at: they may be refused


class SliceColumns(NamedTuple):
    """Sparse rows in the order of time, feature by feature.

    A place is a feature in a slice that has rows with it; the places of a feature are in the order of time.
    """

    data: FloatArray  # (nnz,) in the order of the places
    rows: npt.NDArray[np.integer[Any]]  # (nnz,) the row of each value
    place_starts: npt.NDArray[np.int64]  # (C + 1,) where each place begins in `data`
    times: npt.NDArray[np.int64]  # (C,) the slice of each place
    places: npt.NDArray[np.int64]  # (D + 1,) where each feature begins among the places
    slots: npt.NDArray[np.int64]  # (C,) the row of each place in a table, whose rows are in the order of the slices


class ListedShares(NamedTuple):
    """The shares of rows that are not 0, times the weights of rows: row i has starts[i]:starts[i + 1]."""

    starts: npt.NDArray[np.int64]  # (n + 1,)
    clusters: npt.NDArray[np.int32]  # (m,)
    parts: Float64Array  # (m,)


class ChainSteps(NamedTuple):
    """How vectors are combined along time, for W >= K clusters: W is a multiple of `TABLE_UNIT`."""

    start: Float64Array  # (D,) what all chains begin with
    ahead: Float64Array  # (T, T, W) what is left at t of the sum up to s <= t
    back: Float64Array  # (T, T, W) what is left at t of the sum from u >= t on
    scales: Float64Array  # (T, W) of the vectors in the table
    first_slopes: Float64Array  # (K,) of the vectors of slice 0 in their sum


class Kernels(Protocol):
    """What a device offers. Every function works on one block."""

    def prepare(self, rule: AffineRule | QuadraticRule) -> Any:
        """The rule in the device's own layout; done once per pass. Quadratic rules are for what says so."""

    gauge: Gauge  # norms of rows at the gate, with the bits that `validation.GAUGE` has

    def scores(self, rows: Block, rule: Any, out: FloatArray) -> None:
        """Fill `out` (n, K) with scores, in the dtype of `out`; with a quadratic rule, dense rows and float64."""

    def row_scores(self, rows: Block, rule: Any, out: FloatArray) -> None:
        """`scores` of an affine rule whose bits depend on the row alone, not on the rows beside it, dense or CSR."""

    def own_scores(self, rows: Block, rule: Any, labels: npt.NDArray[np.int32], out: Float64Array) -> None:
        """Fill `out` (n,) with the score of each row under its own label."""

    def assign_best(
        self, rows: Block, rule: Any, labels: npt.NDArray[np.int32], changed: npt.NDArray[np.int64] | None
    ) -> int:
        """Write the arg max over `labels` (n,), or refuse the row; return how many rows changed.

        For a row that moves from cluster a to b, `changed[a]` and `changed[b]` grow by one (a row labelled -1
        comes from nowhere). With `changed=None` clusters are not counted.
        """

    def assign_and_add(
        self,
        rows: Block,
        rule: Any,
        weights: Float64Array | None,
        labels: npt.NDArray[np.int32],
        changed: npt.NDArray[np.int64] | None,
        counts: Float64Array,
        resultants: Float64Array,
        rounder: float,
    ) -> int:
        """`assign_best`, then `add_rows` of every cluster, with the same bits: a device may read the rows only once."""

    def assign_lanes(
        self,
        rows: Block,
        rule: Any,
        labels: npt.NDArray[np.int32],
        lanes: npt.NDArray[np.int64],
        helpers: Any = ...,
        *,
        n_kept: int = 0,
        weights: Float64Array | None = None,
        rounder: float = 0.0,
        sums: Float64Array | None = None,
        is_change: bool = False,
        names: tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]] | None = None,
    ) -> int:
        """`assign_best` of lanes of narrow dense rows, row ranges (L, 2); helpers are of a `crew`.

        The first `n_kept` rows keep their labels.
        Unless None, `sums` (L, K, D + 1) gets the rows of each lane added, resultants first and counts last, with the
        bits of `add_rows` by `rounder`; with `is_change`, only rows whose label changed, taken out of the sums of one
        label and added to those of the other, as by `move_rows`. Unless None, `names` are those of the clusters (K,),
        and an array (n,) that gets those of the rows, -1 where they are refused. Returns how many rows changed.
        """

    def takes_pieces(self, rows: FloatArray) -> bool:
        """Whether `assign_pieces` serves such dense rows; else they are taken block by block."""

    def assign_pieces(
        self,
        rows: FloatArray,
        rule: Any,
        labels: npt.NDArray[np.int32],
        helpers: Any = ...,
        *,
        angles: AngleBounds | None = None,
        weights: Float64Array | None = None,
        rounder: float = 0.0,
        sums: tuple[Float64Array, Float64Array] | None = None,
    ) -> int:
        """`assign_best` of all rows, or with `angles` `assign_bounded`; unless None, `sums` get all rows added.

        One call for a pass: helpers of a `crew` take pieces of the rows. Sums are counts (K,) and resultants (K, D).
        """

    def crew(self) -> AbstractContextManager[Any]:
        """Helpers that passes may take, where these kernels have any, else None; they are nobody else's meanwhile."""

    def share_lanes(
        self,
        rows: Block,
        rule: Any,
        weights: Float64Array | None,
        lanes: npt.NDArray[np.int64],
        helpers: Any = ...,
    ) -> tuple[Float64Array, Float64Array]:
        """`add_soft` of each lane of narrow dense rows by itself: sums (L, K, D + 1), counts last, evidence (L,)."""

    def assign_bounded(
        self,
        rows: Block,
        rule: Any,
        labels: npt.NDArray[np.int32],
        changed: npt.NDArray[np.int64] | None,
        angles: AngleBounds,
    ) -> int:
        """`assign_best` for a rule of cosines, with the same labels, that may pass over rows the bounds settle."""

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
        rounder: float,
    ) -> None:
        """Add each row to `counts` (K,) and `resultants` (K, D) of its label, where `is_wanted[label]`.

        Rows with a negative label are passed over.
        """

    def move_rows(
        self,
        rows: Block,
        weights: Float64Array | None,
        before: npt.NDArray[np.int32],
        after: npt.NDArray[np.int32],
        is_wanted: npt.NDArray[np.bool_],
        counts: Float64Array,
        resultants: Float64Array,
        rounder: float,
    ) -> None:
        """Take rows whose label changed out of the sums of `before` (n,) and add them to those of `after` (n,).

        Only sums that are wanted change; a negative label is in none.
        """

    def add_soft(
        self,
        rows: Block,
        rule: Any,
        weights: Float64Array | None,
        counts: Float64Array,
        resultants: Float64Array,
    ) -> float:
        """Add each row to every cluster by its responsibility; return the weighted evidence."""

    def add_shares(
        self,
        rows: Block,
        weights: Float64Array | None,
        shares: Float64Array,
        is_wanted: npt.NDArray[np.bool_],
        counts: Float64Array,
        resultants: Float64Array,
    ) -> None:
        """Add each row to `counts` (K,) and `resultants` (K, D) by its shares (n, K), where `is_wanted`."""

    def list_shares(self, shares: Float64Array, weights: Float64Array | None) -> ListedShares:
        """The shares (n, K) above `NO_SHARE`, times the weights of rows."""

    def add_slice_products(
        self,
        columns: SliceColumns,
        features: tuple[int, int],
        shares: ListedShares,
        direction: Float64Array,
        products: Float64Array,
    ) -> None:
        """Add what the features from..to have of R_t.R_s to `products[t, s]`, s <= t, and of R_t.direction to the last.

        R_t (K, D) are the sums of the rows of slice t by their shares; `products` is (T + 1, T, W).
        """

    def fill_slice_vectors(
        self,
        columns: SliceColumns,
        features: tuple[int, int],
        shares: ListedShares,
        steps: ChainSteps,
        table: Float64Array,
        total: Float64Array,
    ) -> None:
        """Fill what the features from..to have of N_t = sum_{s <= t} ahead[s, t] R_s + sum_{u > t} back[t, u] R_u.

        The sum up to 0 begins with `start`. `table` (C, W) gets N_t times `scales[t]` at every place, `total` (D,) the
        sum over clusters of N_0 times `first_slopes`.
        """

    def share_by_table(
        self,
        rows: SparseBlock,
        table: Float64Array,
        offsets: Float64Array,
        out: Float64Array,
        log_evidence: Float64Array,
    ) -> None:
        """`responsibilities` of rows whose indices are slots of `table`."""

    def filter_scores(self, rows: Block, rule: Any) -> tuple[FloatArray, float]:
        """Scores (n, K) to decide by, and their doubt: scores that differ by more are in the right order.

        The doubt is 0 where they are the exact scores themselves.
        """

    def exact_scores(self, rows: Block, rule: Any, out: Float64Array) -> None:
        """Fill `out` (n, K) with the float64 scores that labels are defined by."""

    def last_rows(
        self, labels: npt.NDArray[np.int32], is_sought: npt.NDArray[np.bool_], last: npt.NDArray[np.int64]
    ) -> None:
        """Write the last row with each label; slots that no row has keep what `last` (K,) holds.

        Only labels in `is_sought` (K,) count: a label that no row has would be looked for in all rows.
        """

    def first_rows(
        self,
        labels: npt.NDArray[np.int32],
        first_row: int,
        is_sought: npt.NDArray[np.bool_],
        first: npt.NDArray[np.int64],
    ) -> None:
        """Lower `first` (K,) to the first row with each label in `is_sought`, where that comes earlier.

        Row 0 of `labels` is `first_row`; negative labels are passed over.
        """

    def walk(
        self,
        start: int,
        numbers: npt.NDArray[np.int64],
        table: FloatArray,
        doubt: float,
        closing: npt.NDArray[np.int32],
        is_seed: npt.NDArray[np.bool_],
        company: Company,
        floor: float,
        max_open: int,
        recall: Recall,
        exact: Exact,
        labels: npt.NDArray[np.int32],
    ) -> tuple[int, Halt, int]:
        """Decide the rows `numbers` (m,) one after the other, from position `start`, and write `labels` (m,).

        `table` (m, >= K) holds their cosines, wrong by at most `doubt` in any comparison. `closing[r]` is the slot
        whose last row this is (-1: none), or -2 - slot where the row is its own company (its weight exceeds 1).
        `is_seed[k]`: slot k's direction is that of its last row, so that a lone row which finds no other slot stays.

        A row takes the slot with company that has the largest cosine, or the track without company that has a larger
        score, or, where both are below `floor`, asks for a birth; with `max_open` slots in company it then takes the
        best of them. Ties: slots before tracks before a birth, the smaller number first.

        Returns the position where the walk halted, why, and the track of a revival (else -1).
        """

    def walk_on(
        self,
        start: int,
        calm_from: int,
        numbers: npt.NDArray[np.int64],
        rows: FloatArray,
        seeds: Seeds,
        table: FloatArray,
        closing: npt.NDArray[np.int32],
        slots: Slots,
        n_slots: int,
        floor: float,
        max_open: int,
        recall: Recall,
        tracks: Tracks,
        exact: Exact,
        labels: npt.NDArray[np.int32],
    ) -> tuple[int, Halt, int, int]:
        """`walk` over narrow dense rows (m, D) that goes on through births and revivals.

        `table` (m, C) holds exact cosines, and gets those of new directions. Returns the position where the walk
        halted, why, the number of slots now, and the position after the last event (`calm_from` if there was none). A
        birth halts it only where there is no room for it.
        """

    def meet_tracks(self, tracks: Tracks, towards: Float64Array, lengths: Float64Array, rule: WeightRule) -> Meeting:
        """Most likely walks of tracks to rows whose resultants have the directions `towards` (T, D) and `lengths` (T,).

        `rule` is that of `geodesic_walk.memory_weight`. Each track by itself: its bits do not depend on the others.
        """

    def revival_curves(self, tracks: Tracks, miss_price: float) -> RevivalCurve:
        """Angles, scores and slopes (T, knots) of `geodesic_walk.revival_curve`."""

    def gibbs_sweep(
        self,
        rows: Block,
        numbers: npt.NDArray[np.int64],
        projections: Float64Array,
        key: tuple[int, int],
        rule: CollapsedRule,
        sums: CollapsedSums,
        labels: npt.NDArray[np.int32],
        rounder: float = 0.0,
    ) -> int:
        """Draw the label of each row given the labels of all others, one row after the other in the order of the block.

        With row x out of the sums and w_k = kappa_k S_k + C_0 mu_0 (vmf_mixtures.md, 7),

            p(k)  proportional to  (alpha + n_k) H(|w_k + kappa_k x|) / (H(kappa_k) H(|w_k|)),

        and the label is the first k whose cumulative probability exceeds philox(key, numbers[r]). `numbers` (n,) are
        the rows' own, so that the draw of a row does not depend on the order of the sweep. `projections` (n,) holds
        x.mu_0. Lengths come from the sums: |w|^2 = kappa^2 |S|^2 + 2 kappa C_0 S.mu_0 + C_0^2; x.x is taken as it is,
        not as 1, so that sums of float32 rows stay those of the rows. The products x.S_k are added in column order (for
        CSR, in the order stored): dense and CSR rows have the same scores.

        `labels` (n,) must hold the labels that the sums were made with, none negative. Returns how many changed.
        """

    def quadratic_odds(
        self,
        rows: FloatArray,
        numbers: npt.NDArray[np.int32],
        edges: npt.NDArray[np.int64],
        rule: Any,
        pairs: npt.NDArray[np.int64],
        out: Float64Array,
    ) -> None:
        """Fill `out` (edges[P] - edges[0],) with log odds of the rows of P pieces of dense rows, as in `row_totals`.

        Of each row of piece p the score of cluster 2 pairs[p] less that of cluster 2 pairs[p] + 1, by a quadratic rule.
        """

    def draw_sides(
        self,
        numbers: npt.NDArray[np.int32],
        odds: Float64Array,
        key: tuple[int, int],
        first_row: int,
        is_left: npt.NDArray[np.bool_],
    ) -> None:
        """Write philox(key, first_row + i) < 1 / (1 + exp(-odds)) over is_left[i] of each row i = numbers[m]."""

    def side_limbs(
        self, odds: Float64Array, is_left: npt.NDArray[np.bool_], rounders: tuple[float, float]
    ) -> Float64Array:
        """Sums over rows of log p and of log p - log(1 - p), p the probability of the side that each is on.

        In two limbs (2, 2): see `whole.limbs_of`.
        """

    def part_rows(
        self,
        numbers: npt.NDArray[np.int32],
        starts: npt.NDArray[np.int64],
        is_left: npt.NDArray[np.bool_],
        out: npt.NDArray[np.int32],
    ) -> npt.NDArray[np.int64]:
        """Order the rows of each set numbers[starts[g]:starts[g + 1]] in `out`, those with is_left[i] first.

        Else they stay as they were. Returns how many are left (G,).
        """

    def divide_rows(
        self, numbers: npt.NDArray[np.int32], is_left: npt.NDArray[np.bool_], out: npt.NDArray[np.int32]
    ) -> int:
        """Order the rows `numbers` (n,) in `out`, those with a flag (n,) first; else they stay as they were.

        Returns how many have a flag.
        """

    def merge_rows(self, one: npt.NDArray[np.int32], two: npt.NDArray[np.int32], out: npt.NDArray[np.int32]) -> None:
        """Write two lists of rows, each of numbers that increase and none in both, as one such list."""

    def group_rows(
        self, labels: npt.NDArray[np.int32], starts: npt.NDArray[np.int64], order: npt.NDArray[np.int32]
    ) -> None:
        """Write the numbers of the rows of label k, in increasing order, over order[starts[k]:starts[k + 1]]."""

    def row_totals(
        self,
        rows: FloatArray,
        numbers: npt.NDArray[np.int32],
        edges: npt.NDArray[np.int64],
        rounder: float = 0.0,
        weights: Float64Array | None = None,
    ) -> Float64Array:
        """Sums (P, D) of P pieces of dense rows, rows[numbers[edges[p]:edges[p + 1]]], by the weights of `numbers`."""

    def scatters(
        self,
        rows: FloatArray,
        numbers: npt.NDArray[np.int32],
        edges: npt.NDArray[np.int64],
        centres: Float64Array,
        weights: Float64Array | None,
    ) -> Float64Array:
        """sum w (x - c)(x - c)' of P pieces of dense rows, as in `row_totals`, each around its centre (P, D).

        The weights, at most 1, are those of `numbers`; centres are no longer than rows. Limbs (P, 2, 3, D, D) as
        `whole.from_products` takes them.
        """

    def tangent_sums(
        self,
        rows: FloatArray,
        numbers: npt.NDArray[np.int32],
        edges: npt.NDArray[np.int64],
        bases: Float64Array,
        weights: Float64Array | None,
        rounders: Float64Array,
        *,
        with_scatter: bool,
        with_curvature: bool,
        out: Float64Array | None = None,
    ) -> Float64Array:
        """`tangent_gaussian.row_sums` of P pieces of dense rows, as in `row_totals`, each at its base point (P, D).

        The weights are those of `numbers`. Sums are in two limbs, as `tangent_gaussian.from_limbs` takes them, by the
        `rounders` (5, 2) of the fields of `RowSums`: (P, 2, D + D D + 4). They are added to `out` where it is given.
        """

    def find_anchors(self, labels: npt.NDArray[np.int32], first_row: int, anchors: Anchors) -> None:
        """Lower each cluster's anchor to its row with the lowest priority in this block, where that comes earlier.

        Row 0 of `labels` is `first_row`. Anchors not found yet have an infinite priority.
        """

    def draw_anchored(
        self,
        rows: Block,
        rule: Any,
        anchors: Anchors,
        key: tuple[int, int],
        first_row: int,
        labels: npt.NDArray[np.int32],
    ) -> None:
        """Write one draw per row over `labels`, among the clusters that its priority allows; anchors stay.

        The rule is of either kind. The label is the first k whose cumulative weight reaches u times the total,
        u = philox(key, row). A cluster whose weight is below exp(-40) of the largest may count as 0.
        """
