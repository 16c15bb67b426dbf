"""The seam: what models and fits may ask of rows, wherever they live.

An `Engine` takes rows in (`points`: the gate) and opens `Passes` over them. All work on N rows is a method of `Passes`.
What crosses the seam is K-sized (rules in, sums out), a few rows (`FewRows`), or opaque: `Labels` and `Column` stay
with the rows they belong to, and come home only to be shown to a user (`to_host`, `values`).

**The promise.** The same rows give the same labels and the same sums, bit for bit, on every engine and for every cut
of the rows. Labels are those of float64 scores added in column order, ties to the smallest k. Sums are whole numbers
of a small unit (`sums`), so that they do not depend on the order of additions. So are tangent sums, scatters and log
probabilities of sets, evidence as `Passes.evidence` gives it, and what k-means++ draws by.

Soft sums (`share`, and the evidence it returns) are plain float64: a component of one heavy row needs its resultant to
1e-12 of its own weight, not of that of all rows. They are sums over lanes, ranges of rows that depend on the shape of
all rows alone, added in order. Memory, maps, files and chunks take the same lanes, so they give the same bytes on any
number of threads; so do parts that end where lanes do, each of which adds its lanes to the sums of those before it
(`Partitioned.share`): any number of workers. For any other cut, for CSR rows in parts, and between CSR rows and the
same rows dense, soft sums agree to 1e-9 of the total weight, and to 1e-5 where wide float32 rows are scored in float32:
the tolerance of `tests/laws/test_passes_laws.py`.

**Refusal.** A row whose best score is below the rule's `floor`, or belongs to a rival (`is_rival`), is refused: its
label becomes -2 - before, so that the label it had can be had back, and -1 stays -1. It counts as unmoved.

**Numbers of rows** are counted from 0 within the rows that a `Passes` is over. Draws are keyed by `first_row` plus that
number, so that a part of the rows draws what the whole would.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple, Protocol, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from armillary._typing import Float64Array, FloatArray
from armillary.distributions.geodesic_walk import RevivalCurve, WeightRule
from armillary.distributions.row_sets import RowSets
from armillary.points import Block
from armillary.rules import (
    AffineRule,
    Anchors,
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
from armillary.sums.directional import DirectionalStatistics
from armillary.validation import MOST_WEIGHT

Rule: TypeAlias = AffineRule | QuadraticRule
Numbers: TypeAlias = npt.NDArray[np.int64]
# Rows from..to; None: all.
Span: TypeAlias = tuple[int, int] | None
# How labels are kept between passes: as they are, with bounds on angles, or as the engine finds best.
Algorithm: TypeAlias = Literal["auto", "lloyd", "hamerly"]
What: TypeAlias = Literal["scores", "shares", "evidence"]

P = TypeVar("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


@dataclass(frozen=True, eq=False)
class Outcome:
    """What a pass found. A pass over rows A and then B finds the merge of what passes over A and over B find."""

    statistics: DirectionalStatistics | None  # None: they were not asked for
    evidence: float = 0.0
    n_moved: int = 0
    n_refused: int = 0

    def merge(self, other: Outcome) -> Outcome:
        """The outcome over both sets of rows."""
        statistics = self.statistics
        if statistics is not None and other.statistics is not None:
            statistics = statistics.merge(other.statistics)
        return Outcome(
            statistics,
            self.evidence + other.evidence,
            self.n_moved + other.n_moved,
            self.n_refused + other.n_refused,
        )

    @property
    def sums(self) -> DirectionalStatistics:
        """The statistics, where they were asked for."""
        assert self.statistics is not None
        return self.statistics


class FewRows(NamedTuple):
    """Some rows on the host, with the bits that passes see."""

    numbers: Numbers  # (m,)
    block: Block  # (m, D)
    weights: Float64Array | None  # (m,)


class Here(NamedTuple):
    """What lies beside the scores of a few rows."""

    first_row: int  # the number of the first of them
    weights: Float64Array | None  # (m,)
    labels: npt.NDArray[np.int32] | None  # (m,)
    columns: tuple[FloatArray, ...]  # each (m,)
    rows: Callable[[], Block]  # the rows themselves (m, D), with the bits that passes see; seldom asked for


class RowFunction(Protocol):
    """A function of the scores of a row. A frozen record that can be pickled, so that a worker can have it.

    One that has `is_exact = False` takes scores in the type of the rows too, which cost half as much, in a table that
    is lent for the call; it must answer by the row alone all the same.
    """

    def of(self, scores: Any, here: Here) -> npt.NDArray[Any]:
        """From float64 scores (m, K) to one number or more for each row: (m,) or (m, J)."""


class Folder(Protocol[P, R_co]):
    """A summary of scores. A frozen record that can be pickled.

    `join` must not depend on how rows were cut into parts: sum whole numbers (`sums`), take extremes, or say it. Scores
    in the type of the rows may have other last bits in another block; not where a folder says `is_by_row`. A folder
    whose `join` also joins what it made of some rows each says `is_mergeable`: less comes home from workers then.
    """

    is_exact: ClassVar[bool]  # whether scores are float64, or of the type of the rows

    def part(self, scores: FloatArray, here: Here) -> P:
        """Of the scores (m, K) of a few rows."""

    def join(self, parts: Sequence[P]) -> R_co:
        """Of all rows, from their parts in order."""


# ------------------------------------------------------------------------------------------------------------ rows


@dataclass(frozen=True)
class Gate:
    """What rows must be."""

    kind: Literal["unit", "counts"] = "unit"  # rows of counts are not made unit
    most_weight: float = MOST_WEIGHT  # the largest sum of the weights
    allows_missing: bool = False  # rows without a direction (NaN, inf, all zero) are passed over and get label -1
    allows_empty: bool = False  # there may be no rows


UNIT = Gate()


class Points(Protocol):
    """A set of unit rows and weights, wherever they live."""

    @property
    def engine(self) -> str:
        """The name of the engine they live on."""

    @property
    def who(self) -> str:
        """The name that sentences of errors begin with."""

    @property
    def n_rows(self) -> int:
        """How many rows."""

    @property
    def n_given(self) -> int:
        """How many came, those that are missing included."""

    def spread(self, found: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Numbers of the rows that are here (n, ...), for all that came: NaN for those that are missing."""

    @property
    def n_features(self) -> int:
        """How many columns."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """float32 or float64."""

    @property
    def width(self) -> float:
        """Numbers that a row has, on average: columns, or entries of a sparse row."""

    @property
    def is_sparse(self) -> bool:
        """Whether rows are CSR."""

    @property
    def has_weights(self) -> bool:
        """Whether rows have weights; all weigh 1 where they have none."""

    @property
    def first_row(self) -> int:
        """The number of the first row among those that these are a part of."""

    @property
    def total_weight(self) -> float:
        """The sum of the weights, whole as all sums are; the number of rows where there are none."""

    @property
    def q(self) -> int:
        """Sums over labelled rows are multiples of 2^-q (sums/whole.py); parts of a set have that of the set."""

    @property
    def scale(self) -> float:
        """What rows of counts were divided by."""


class Counted(NamedTuple):
    """The rows whose weight is above 0."""


class Shuffled(NamedTuple):
    """All rows in a random order."""

    generator: np.random.Generator


class Numbered(NamedTuple):
    """Some rows, in the order of their numbers given."""

    numbers: Numbers


class Between(NamedTuple):
    """The rows from..to."""

    first: int
    last: int


class Placed(NamedTuple):
    """All rows, as a part of more: the number of the first of them there, and the grid `Points.q` of sums over all."""

    first_row: int
    q: int


class Labelled(NamedTuple):
    """The rows with one label."""

    labels: Labels
    label: int


class Scaled(NamedTuple):
    """All rows, their weights multiplied by a column."""

    column: Column


class Directed(NamedTuple):
    """Rows of counts that are not zero and have weight, made unit."""


Which: TypeAlias = Counted | Shuffled | Numbered | Between | Placed | Labelled | Scaled | Directed


# ---------------------------------------------------------------------------------------------- beside each row


class Labels(Protocol):
    """One int32 beside each row, opaque to models. -1: none; below: refused (see above)."""

    def sizes(self, n_clusters: int, *, counted: bool = False) -> npt.NDArray[np.int64]:
        """Rows with each label (K,); with `counted`, of weight above 0."""

    def at(self, numbers: Numbers) -> npt.NDArray[np.int32]:
        """The labels of a few rows (m,)."""

    def put(self, numbers: Numbers, values: npt.ArrayLike) -> None:
        """Give a few rows their labels."""

    def fill(self, label: int, span: Span = None) -> None:
        """Give the rows of the span one label."""

    def keep(self, is_kept: npt.NDArray[np.bool_]) -> None:
        """Drop clusters that have no rows; the others move up and keep their order. No label may be negative."""

    def copy(self) -> Labels:
        """The same labels, to be changed by themselves."""

    def rename(self, table: npt.NDArray[np.integer[Any]]) -> None:
        """Label k becomes table[k]; negative ones stay."""

    def first_rows(self, is_sought: npt.NDArray[np.bool_], span: Span = None) -> Numbers:
        """The first row of the span with each label (K,) that is sought; n where there is none."""

    def last_rows(self, is_sought: npt.NDArray[np.bool_]) -> Numbers:
        """The last row with each label (K,) that is sought; -1 where there is none."""

    def surplus(self, room: npt.NDArray[np.int64]) -> Numbers:
        """The rows with each label k beyond the first room[k] (K,), in their order. No label may be negative."""

    def refused(self, span: Span, most: int) -> Numbers:
        """The first rows of the span with a negative label, at most so many."""

    def n_refused(self, *, counted: bool = False) -> int:
        """How many rows have a negative label; with `counted`, of weight above 0."""

    def forget(self) -> None:
        """The clusters are no longer those of the last pass: whatever is known of them besides labels does not hold."""

    def to_host(self, names: npt.NDArray[np.int64] | None = None) -> npt.NDArray[Any]:
        """The labels as an array for the user: int32, or as names (K,) int64.

        -1 for rows without one, and for rows that came and are missing.
        """


class Column(Protocol):
    """One float beside each row."""

    def pick(self, uniforms: Float64Array) -> Numbers:
        """Rows drawn with the probability of weight times value, by uniforms (m,); none where all of that is 0.

        Values must not be negative. The masses are whole numbers, so that no cut of the rows changes a pick.
        """

    def farthest(self, n_ignored: int = 0) -> int:
        """The row with the largest value but for `n_ignored` others; the first of equals."""

    def least(self, most: int, *, counted: bool = False) -> Numbers:
        """The rows with the smallest values, in their order, equals by number; with `counted`, of weight above 0."""

    def to_host(self) -> FloatArray:
        """The values as an array for the user (n,)."""


class Groups(Protocol):
    """Rows by their label, opaque: for questions about a few clusters at a time."""

    def merge(self, kept: int, gone: int) -> None:
        """Give the rows of `gone` to `kept`."""


# ----------------------------------------------------------------------------------------------------- sets of rows


class Sides(Protocol):
    """Left or right beside each row of a set, opaque."""

    @property
    def n_left(self) -> int:
        """Rows on the left."""

    @property
    def n_right(self) -> int:
        """Rows on the right."""


class Odds(Protocol):
    """Log odds of the left side beside each row of a set, opaque."""

    def sides(self) -> Sides:
        """Left where that is the more probable."""

    def log_probabilities(self, sides: Any) -> tuple[float, float]:
        """Of these sides, and of the opposite ones, if every row is drawn by itself; odds must be held to a `most`."""


class Chance(Protocol):
    """One uniform beside each row of a set, opaque."""

    def below(self, law: Any) -> Sides:
        """Left with one probability for all (a float), or with `Odds` of their own."""


class FewSets(RowSets, Protocol):
    """G sets of few rows, on the host."""

    def rows(self, number: int) -> Any:
        """The rows (n, D) of one set in float64, an array or CSR."""

    def shared(self, lefts: Sequence[Float64Array]) -> RowSets:
        """2 G sets: each with the weights (n,) given, then with what is missing to 1."""

    def log_odds(self, rule: Rule) -> Float64Array:
        """Of each row of set g the score of cluster 2 g of the rule less that of cluster 2 g + 1, all sets in turn."""


class Sets(RowSets, Protocol):
    """G sets of rows, none empty, each in the order of its rows' numbers: opaque but for sums."""

    def __len__(self) -> int:
        """G."""

    @property
    def sizes(self) -> npt.NDArray[np.int64]:
        """Rows of each set (G,)."""

    def some(self, places: Sequence[int]) -> Sets:
        """The sets at some places."""

    def few(self, ranks: Sequence[npt.NDArray[np.int64]]) -> FewSets:
        """Some rows of each set, a few hundred at most, by their ranks in it, which increase."""

    def parted(self, sides: Sequence[Any]) -> Sets:
        """In the place of each set its left and its right rows, both of which must be there; None leaves it whole."""

    def odds(self, rule: Rule, most: float = np.inf) -> Sequence[Odds]:
        """Of each row of set g the score of cluster 2 g of the rule less that of 2 g + 1, none beyond `most`."""

    def chance(self, number: int, generator: np.random.Generator) -> Chance:
        """One uniform beside each row of a set, drawn in the order of the rows."""

    def where(self, number: int, labels: Any, label: int) -> Sides:
        """Left where a row of a set has this label."""

    def remembered(self, names: Sequence[Hashable], make: Callable[[list[int]], Sequence[Any]]) -> list[Any]:
        """Something of each set, a function of the set and of the name given for it.

        `make` finds it for the sets at some places. An engine may remember what it was.
        """


class Halves(Protocol):
    """A side beside each row, whatever set it is in, opaque."""

    def copy(self) -> Halves:
        """The same sides, to be changed by themselves."""

    def n_left(self, sets: Any) -> npt.NDArray[np.int64]:
        """How many rows of each set (G,) are left."""

    def of(self, sets: Any) -> Sequence[Sides]:
        """The sides of each set."""

    def parts(self, sets: Any) -> Sets:
        """The left and the right rows of each set, both of which must be there."""

    def put(self, sets: Any, sides: Any) -> None:
        """Give the rows of one set their sides; None: all are left."""

    def draw(self, sets: Any, rule: Rule, key: tuple[int, int]) -> None:
        """Redraw the side of each row of set g, left by cluster 2 g of the rule, right by 2 g + 1."""

    def to_host(self) -> npt.NDArray[np.bool_]:
        """Which rows are left (n,), for the user."""


class Partition(Protocol):
    """All rows in K clusters, none of them empty, that split, merge and are drawn anew."""

    def __len__(self) -> int:
        """K."""

    @property
    def n_rows(self) -> int:
        """All rows."""

    @property
    def counts(self) -> npt.NDArray[np.int64]:
        """Rows of each cluster (K,)."""

    @property
    def labels(self) -> Labels:
        """The cluster of each row; they change with the next move."""

    def first_row(self, cluster: int) -> int:
        """The first row of a cluster."""

    def sets(self, *clusters: int) -> Sets:
        """The rows of some clusters, or of all."""

    def unions(self, groups: Sequence[Sequence[int]]) -> Sets:
        """The rows of each group of clusters as one set."""

    def split(self, cluster: int, sides: Any) -> None:
        """Leave the rows that are left in the cluster, and make those that are right the last cluster."""

    def merge(self, first: int, second: int) -> None:
        """Give the rows of `second` to `first`; the last cluster takes the place of `second`."""

    def relabel(self, labels: Any) -> None:
        """Take other labels, without gaps."""

    def redraw(self, rule: Rule, key: tuple[int, int], anchor_key: tuple[int, int] | None) -> npt.NDArray[np.int64]:
        """Draw every label anew among the clusters of `rule`; without `anchor_key` clusters may end empty.

        Returns the counts (K,) of the clusters of the rule. Empty ones are then gone from this partition.
        """


# ---------------------------------------------------------------------------------------------------------- slices


class SliceMessages(NamedTuple):
    """What chains of K directions over T slices were smoothed with: their vectors follow from the sums of the rows."""

    concentrations: Float64Array  # (K,) of the rows
    start: Float64Array  # (D,) or (K, D), the natural vector of the law of the first direction
    ahead: Float64Array  # (T, K) what a step forward leaves
    back: Float64Array  # (T, K) what a step backward leaves
    scales: Float64Array  # (T, K) that vectors are wanted times
    first_slopes: Float64Array  # (K,) that those of the first slice are summed times


class SharedRows(Protocol):
    """Rows of T slices shared by K clusters, opaque but for what they sum to."""

    @property
    def counts(self) -> Float64Array:
        """Weights of the rows of each slice in each cluster (T, K)."""

    @property
    def products(self) -> Float64Array:
        """What the rows' products with the directions are in the sum of their scores (T, K)."""

    @property
    def evidence(self) -> float:
        """The weighted sum over rows of log sum exp score."""


class FeatureSlices(Protocol):
    """Sparse rows in T slices, by feature: no sums of all slices are ever made."""

    def share_by(self, rule: AffineRule) -> SharedRows:
        """Share the rows of all slices by one rule."""

    def share(self, table: Any, offsets: Float64Array) -> SharedRows:
        """Share rows by the vectors of their slices, a table that `fill` made, and offsets (T, K)."""

    def fill(self, shared: Any, messages: SliceMessages) -> tuple[Any, Float64Array]:
        """The table of vectors, which holds until the next is made, and the sum of those of the first slice (D,)."""

    def products(self, shared: Any, direction: Float64Array) -> Float64Array:
        """Inner products (K, T + 1, T + 1) of the sums of each slice and, last, a direction (D,)."""

    def squares_moved(self, after: Any, before: Any) -> Float64Array:
        """|R - R before|^2 (T, K) of the sums of each slice."""

    def resultants(self, number: int, shared: Any) -> Float64Array:
        """The sums (K, D) of the rows of one slice."""


# ---------------------------------------------------------------------------------------------------------- passes


class Host(Protocol):
    """What is done on the host whatever the engine: K-sized work, and few rows decided one after the other.

    The functions are described in `kernels/rows/contract.py`.
    """

    def prepare(self, rule: Rule) -> Any:
        """The rule in the layout of the functions below."""

    def filter_scores(self, rows: Block, rule: Any) -> tuple[FloatArray, float]:
        """Scores (m, K) to decide by, and their doubt."""

    def exact_scores(self, rows: Block, rule: Any, out: Float64Array) -> None:
        """The float64 scores that labels are defined by."""

    def walk(
        self,
        start: int,
        numbers: Numbers,
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
        """Decide rows one after the other."""

    def walk_on(
        self,
        start: int,
        calm_from: int,
        numbers: Numbers,
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
        """`walk` over narrow dense rows, through births and revivals."""

    def meet_tracks(self, tracks: Tracks, towards: Float64Array, lengths: Float64Array, rule: WeightRule) -> Meeting:
        """Most likely walks of tracks to rows."""

    def revival_curves(self, tracks: Tracks, miss_price: float) -> RevivalCurve:
        """Scores of tracks without rows, as curves of an angle."""


class Passes(Protocol):
    """All work on N rows."""

    @property
    def points(self) -> Points:
        """The rows that these are passes over."""

    @property
    def host(self) -> Host:
        """What the host does with a few rows."""

    # ------------------------------------------------------------------------------------------ beside rows

    def labels(
        self,
        algorithm: Algorithm = "lloyd",
        n_clusters: int | None = None,
        into: npt.NDArray[np.int32] | None = None,
    ) -> Labels:
        """Labels, all -1. "auto" is the engine's choice, for so many clusters; all give equal bits.

        `into` (n,) is where the user wants them: an engine whose labels lie on the host keeps them there.
        """

    def labels_from(self, values: npt.NDArray[np.integer[Any]]) -> Labels:
        """Labels that a user gave, or that were made on the host (n,)."""

    def random_labels(self, n_clusters: int, generator: np.random.Generator) -> Labels:
        """A label from 0 to K - 1 for each row, by chance."""

    def column(self, fill: float, *, is_exact: bool = False) -> Column:
        """One number beside each row, in the type of the rows; exact: float64."""

    def own(self, rule: AffineRule, labels: Labels) -> Column:
        """The float64 score of each row with its own label."""

    def inverse_lengths(self) -> Column:
        """1 / |x| of each row, to float64 precision: rows are unit only to the precision of their type."""

    def lower(self, column: Column, rule: AffineRule, *, is_exact: bool = False) -> None:
        """Lower to 1 - the score of one cluster, where that is less.

        Exact: by float64 sums in column order, and then of any number of clusters, of which the best counts.
        """

    def left(self, column: Column, rule: AffineRule) -> Float64Array:
        """The weighted sum that would remain if each cluster of the rule (K,) were used to `lower` by itself."""

    def groups(self, labels: Labels, n_clusters: int) -> Groups:
        """Rows by their label."""

    def lowest(self, groups: Groups, rule: AffineRule, clusters: Iterable[int]) -> float:
        """The lowest float64 score that a row of some clusters has with a rule of one cluster; inf for no rows."""

    # ---------------------------------------------------------------------------------------------- passes

    def label(self, rule: AffineRule, labels: Labels, *, span: Span = None, sums: bool = True) -> Outcome:
        """Write the best cluster of each row of the span over its label, or refuse the row.

        The sums are those of all rows by their labels, also where only a span was labelled; rows that are refused are
        in none of them.
        """

    def name(self, rule: AffineRule, names: npt.NDArray[np.int64], over: Labels | None = None) -> npt.NDArray[np.int64]:
        """The name of the best cluster of each row, for the user: `label`, then `to_host(names)`.

        Labels that are no longer wanted may be given to write `over`.
        """

    def share(self, rule: AffineRule, *, is_lent: bool = False) -> Outcome:
        """Sums with every row shared by responsibility, and the evidence: the weighted sum of log sum exp score.

        Statistics that are lent hold until the next are.
        """

    def evidence(self, rule: AffineRule) -> float:
        """The weighted sum over rows of log sum exp score."""

    def anchors(self, labels: Labels, key: tuple[int, int], n_clusters: int) -> Anchors:
        """The row of each cluster with the lowest priority."""

    def draw(self, rule: Rule, labels: Labels, key: tuple[int, int], anchors: Anchors | None = None) -> None:
        """Write one draw per row over its label, among the clusters that its priority allows; anchors stay."""

    def sum(
        self, labels: Labels | None, n_clusters: int, within: tuple[int, int] | None = None
    ) -> DirectionalStatistics:
        """Statistics of the labelled rows; None: all rows as cluster 0. `within`: of the clusters from..to alone.

        No pass where they are known: after `label`, and after `move`.
        """

    def move(self, labels: Labels, numbers: Numbers, values: npt.ArrayLike) -> None:
        """`put`, after which sums by the labels that the engine knew are known still: few rows leave and join them."""

    def weigh(self, labels: Labels, n_clusters: int) -> Float64Array:
        """The sum of the weights of each cluster's rows (K,)."""

    def compare(self, rule: AffineRule, labels: Labels, first: int, own: Column, nearest: Column) -> None:
        """Write scores with the own clusters over `own`, and raise `nearest` to the largest of the others.

        The first cluster of the rule has the label `first`. Scores are float64; a row whose cluster is not among those
        of the rule keeps its `own`.
        """

    def fold(
        self,
        rule: AffineRule | None,
        folder: Folder[Any, R],
        labels: Labels | None = None,
        columns: Sequence[Column] = (),
    ) -> R:
        """A summary of the scores of all rows, with what lies beside them; without a rule, of that alone."""

    def values(
        self,
        rule: Rule | None,
        what: What | RowFunction,
        labels: Labels | None = None,
        columns: Sequence[Column] = (),
    ) -> npt.NDArray[Any]:
        """Something of each row for the user, (n,) or (n, K).

        Scores in the type of the rows, shares, the log evidence, or a function of float64 scores.
        """

    def mean(self, values: npt.NDArray[Any]) -> float:
        """The mean of something of each row (n,) that `values` gave, weighted as the rows are."""

    # ---------------------------------------------------------------------------------------------- few rows

    def rows(self, numbers: range | Numbers) -> FewRows:
        """A few thousand rows at most."""

    def unit_rows(self, numbers: npt.ArrayLike) -> Float64Array:
        """A few rows (m, D), dense and of unit length in float64."""

    def weights_at(self, numbers: Numbers) -> Float64Array | None:
        """The weights of a few rows (m,)."""

    def choose(self, n_rows: int, generator: np.random.Generator) -> Numbers:
        """Distinct rows, each drawn with the probability of its weight."""

    def partition(self, labels: Any) -> Partition:
        """All rows by their labels, which have no gaps, and which are the partition's own from here on."""

    def halves(self, is_left: npt.NDArray[np.bool_] | None = None) -> Halves:
        """A side beside each row: as given (n,), or all right."""

    def each(self, spans: Sequence[tuple[int, int]], task: Callable[[int, Any], R]) -> list[R]:
        """`task(number, passes)` over the rows of each span, as rows of their own, in any order."""

    def by_feature(self, edges: npt.NDArray[np.int64]) -> FeatureSlices | None:
        """Sparse rows in slices that begin and end at these edges (T + 1,), by feature; None: the engine cannot."""

    def over(self, which: Which) -> Passes:
        """Passes over some of the rows, as rows of their own; these themselves where that is all rows as they are."""


class Engine(Protocol):
    """Where rows live and passes run."""

    @property
    def name(self) -> str:
        """What `device_` says."""

    def points(
        self,
        X: Any,
        who: str,
        sample_weight: Any = None,
        expected_features: int | None = None,
        gate: Gate = UNIT,
    ) -> Points:
        """Check rows and their weights; `who` (the estimator's name) appears in error sentences."""

    def open(self, points: Any, n_threads: int | None, who: str) -> AbstractContextManager[Passes]:
        """Passes over points of this engine, with threads that end with the context."""
