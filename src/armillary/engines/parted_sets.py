"""Sets of rows in parts: each part has its share of every set, and what is summed adds up.

Sums cross the seam in limbs (sums/whole.py), sets by sets: they are exact, so that neither the cut nor the order of
parts decides a bit, and each is rounded once, here. Sides, odds and uniforms stay with the rows: a uniform belongs to
the rank of a row in its set, so each part leaves out the draws of the parts before it. A few hundred rows of a set come
home for fits to them (`PartedSets.few`).
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Hashable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from armillary._typing import Float64Array
from armillary.distributions import tangent_gaussian
from armillary.distributions.tangent_gaussian import RowSums
from armillary.draws import skip_uniforms
from armillary.engines.contract import Rule
from armillary.engines.cpu import Passes as HostPasses
from armillary.engines.cpu_sets import CpuSets, log_probabilities
from armillary.points import Block, Points, SparseBlock, joined_blocks
from armillary.sums import whole
from armillary.workers import Workers

if TYPE_CHECKING:
    from armillary.engines.partitioned import PartedLabels, Partitioned

T = TypeVar("T")


class PartedSides:
    """Left or right beside each row of a set; see `engines/contract.py`."""

    def __init__(self, parts: list[Any]) -> None:
        self.parts = parts
        self.n_left = sum(part.n_left for part in parts)
        self.n_right = sum(part.n_right for part in parts)


class PartedOdds:
    """Log odds of the left side beside each row of a set."""

    def __init__(self, sets: PartedSets, parts: list[Any], place: int) -> None:
        self.parts, self.place = parts, place  # each part has the odds of all sets
        self._sets = sets

    def sides(self) -> PartedSides:
        """Left where that is the more probable."""
        return PartedSides(self._sets.run(lambda number, _: self.parts[number].sides(self.place)))

    def log_probabilities(self, sides: PartedSides) -> tuple[float, float]:
        """Of these sides, and of the opposite ones, if every row is drawn by itself."""

        def task(number: int, _: Any) -> Float64Array:
            found: Float64Array = self.parts[number].log_limbs(self.place, sides.parts[number])
            return found

        return log_probabilities(np.sum(self._sets.run(task), axis=0))


class PartedChance:
    """One uniform beside each row of a set: where a generator was before they were drawn."""

    def __init__(self, sets: PartedSets, number: int, generator: np.random.Generator) -> None:
        self._sets, self._number = sets, number
        self._generator = copy.deepcopy(generator)
        skip_uniforms(generator, int(sets.sizes[number]))

    def below(self, law: float | PartedOdds) -> PartedSides:
        """Left with one probability for all, or with odds of their own."""
        sizes = self._sets.part_sizes[:, self._number]
        before = (np.cumsum(sizes) - sizes).tolist()
        place = law.place if isinstance(law, PartedOdds) else 0

        def task(number: int, part: Any) -> Any:
            own = law.parts[number] if isinstance(law, PartedOdds) else law
            return part.sides_below(self._number, copy.deepcopy(self._generator), before[number], own, place)

        return PartedSides(self._sets.run(task))


class PartedSets:
    """G sets of rows, none empty; see `engines/contract.py`."""

    def __init__(self, passes: Partitioned, parts: list[Any]) -> None:
        self._passes = passes
        self.parts = parts
        self.part_sizes = np.array([part.sizes for part in parts])  # (P, G)
        self._known: dict[Hashable, Any] = {}
        self._last_sums: tuple[Float64Array, RowSums] | None = None

    def run(self, task: Callable[[int, Any], T]) -> list[T]:
        """`task(number, sets)` of every part."""
        return self._passes.run_over(task, self.parts)

    def __len__(self) -> int:
        return self.part_sizes.shape[1]

    @cached_property
    def sizes(self) -> npt.NDArray[np.int64]:
        """Rows of each set (G,)."""
        return np.asarray(self.part_sizes.sum(axis=0))

    @property
    def counts(self) -> Float64Array:
        """Rows of each set (G,)."""
        return self.sizes.astype(np.float64)

    # ------------------------------------------------------------------------------------------------ sums

    def totals(self) -> Float64Array:
        """sum x (G, D)."""
        return self._totals

    @cached_property
    def _totals(self) -> Float64Array:
        return np.sum(self.run(lambda _, part: part.totals()), axis=0)

    def scatters(self, centres: Float64Array) -> Float64Array:
        """sum (x - c)(x - c)' (G, D, D), of dense rows."""
        return whole.from_products(np.sum(self.run(lambda _, part: part.scatter_limbs(centres)), axis=0))

    def tangent_sums(self, bases: Float64Array, *, with_scatter: bool = True, with_curvature: bool = False) -> RowSums:
        """Sums seen from a base point (G, D) of each set; the last with a scatter and no curvature are remembered."""
        is_kept = with_scatter and not with_curvature
        if is_kept and self._last_sums is not None and np.array_equal(self._last_sums[0], bases):
            return self._last_sums[1]
        wanted = {"with_scatter": with_scatter, "with_curvature": with_curvature}
        limbs = np.sum(self.run(lambda _, part: part.tangent_limbs(bases, **wanted)), axis=0)
        found = tangent_gaussian.from_limbs(limbs, bases, with_scatter=with_scatter)
        if is_kept:
            self._last_sums = bases.copy(), found
        return found

    def of_each(self, name: Hashable, make: Callable[[PartedSets], T]) -> T:
        """What `make` gives, made when it is first asked for by this name."""
        if name not in self._known:
            self._known[name] = make(self)
        found: T = self._known[name]
        return found

    def remembered(self, names: Sequence[Hashable], make: Callable[[list[int]], Sequence[Any]]) -> list[Any]:
        """Made anew."""
        return list(make(list(range(len(self)))))

    # ------------------------------------------------------------------------------------------- other sets

    def _made(self, task: Callable[[int, Any], Any]) -> PartedSets:
        return PartedSets(self._passes, self.run(task))

    def some(self, places: Sequence[int]) -> PartedSets:
        """The sets at some places."""
        if list(places) == list(range(len(self))):
            return self
        return self._made(lambda _, part: part.some(list(places)))

    def parted(self, sides: Sequence[PartedSides | None]) -> PartedSets:
        """In the place of each set its left and its right rows; None leaves it whole."""
        return self._made(
            lambda number, part: part.parted([None if own is None else own.parts[number] for own in sides])
        )

    def few(self, ranks: Sequence[npt.NDArray[np.int64]]) -> CpuSets:
        """Some rows of each set, by their ranks in it, which increase: they come home."""
        after = np.cumsum(self.part_sizes, axis=0)
        before = after - self.part_sizes
        inside = [
            [own[(own >= before[number, place]) & (own < after[number, place])] for place, own in enumerate(ranks)]
            for number in range(len(self.parts))
        ]

        def task(number: int, part: Any) -> Block | None:
            if not any(len(own) for own in inside[number]):
                return None
            found: Block = part.rows_at(
                [own - first for own, first in zip(inside[number], before[number], strict=True)]
            )
            return found

        blocks = [block for block in self.run(task) if block is not None]
        # they come part by part, and in each set by set
        owners = np.concatenate([np.repeat(place, len(own)) for part in inside for place, own in enumerate(part)])
        rows = joined_blocks(blocks, np.argsort(owners, kind="stable"))
        return sets_at_home(self._passes, rows, [len(own) for own in ranks])

    # ---------------------------------------------------------------------------------------- row by row

    def odds(self, rule: Rule, most: float = np.inf) -> list[PartedOdds]:
        """Of each row of set g the score of cluster 2 g of the rule less that of 2 g + 1, none beyond `most`."""
        parts = self.run(lambda _, part: part.all_odds(rule, most))
        return [PartedOdds(self, parts, place) for place in range(len(self))]

    def chance(self, number: int, generator: np.random.Generator) -> PartedChance:
        """One uniform beside each row of a set, drawn in the order of the rows."""
        return PartedChance(self, number, generator)

    def where(self, number: int, labels: PartedLabels, label: int) -> PartedSides:
        """Left where a row of a set has this label."""
        return PartedSides(self.run(lambda own, part: part.where(number, labels.parts[own], label)))


def sets_at_home(passes: Any, rows: Block, sizes: list[int]) -> CpuSets:
    """Sets of rows that lie one after the other on the host, with the bits and the grid that they have in `passes`."""
    points, matrix = passes.points, cast(Any, rows)
    if isinstance(rows, SparseBlock):
        matrix = sp.csr_array(rows[:3], shape=(len(rows.indptr) - 1, rows.n_features))
    here = Points(matrix, points.dtype, None, is_unit=True, who=points.who, grid=points.q)
    numbers = np.arange(sum(sizes), dtype=np.int32)
    return CpuSets.of(HostPasses(here, passes.host, Workers(1)), np.split(numbers, np.cumsum(sizes)[:-1]))


class PartedHalves:
    """A side beside each row, whatever set it is in; see `engines/contract.py`."""

    def __init__(self, passes: Partitioned, parts: list[Any]) -> None:
        self._passes, self._each = passes, parts

    def _run(self, task: Callable[[int, Any], T]) -> list[T]:
        return self._passes.run_over(task, self._each)

    def copy(self) -> PartedHalves:
        """The same sides, to be changed by themselves."""
        return PartedHalves(self._passes, self._run(lambda _, part: part.copy()))

    def n_left(self, sets: PartedSets) -> npt.NDArray[np.int64]:
        """How many rows of each set (G,) are left."""
        return np.sum(self._run(lambda number, part: part.n_left(sets.parts[number])), axis=0)

    def of(self, sets: PartedSets) -> list[PartedSides]:
        """The sides of each set."""
        each = self._run(lambda number, part: [part.side(sets.parts[number], place) for place in range(len(sets))])
        return [PartedSides(list(parts)) for parts in zip(*each, strict=True)]

    def parts(self, sets: PartedSets) -> PartedSets:
        """The left and the right rows of each set, both of which must be there."""
        return PartedSets(self._passes, self._run(lambda number, part: part.parts(sets.parts[number])))

    def put(self, sets: PartedSets, sides: PartedSides | None) -> None:
        """Give the rows of one set their sides; None: all are left."""
        self._run(lambda number, part: part.put(sets.parts[number], None if sides is None else sides.parts[number]))

    def draw(self, sets: PartedSets, rule: Rule, key: tuple[int, int]) -> None:
        """Redraw the side of each row of set g, left by cluster 2 g of the rule, right by 2 g + 1."""
        self._run(lambda number, part: part.draw(sets.parts[number], rule, key))

    def to_host(self) -> npt.NDArray[np.bool_]:
        """Which rows are left (n,)."""
        return np.concatenate(self._run(lambda _, part: part.to_host()))


class PartedPartition:
    """All rows in K clusters, none of them empty; see `engines/contract.py`."""

    def __init__(self, passes: Partitioned, labels: PartedLabels, n_clusters: int) -> None:
        self._passes = passes
        self._parts: list[Any] = []
        self._begin(labels, n_clusters)

    def _begin(self, labels: PartedLabels, n_clusters: int) -> None:
        """Each part by its labels, anew: so what a worker must remember of the past is the labels."""
        self._labels = labels
        self._parts = []  # as large as what takes their place
        self._parts = self._passes.run_over(
            lambda number, part: part.partition(labels.parts[number], n_clusters), self._passes.parts
        )
        self._counts = np.array([part.counts for part in self._parts])  # (P, K)
        self._everything: PartedSets | None = None
        self._first_rows: npt.NDArray[np.int64] | None = None

    def _run(self, task: Callable[[int, Any], T]) -> list[T]:
        return self._passes.run_over(task, self._parts)

    def relabel(self, labels: PartedLabels) -> None:
        """Take other labels, without gaps."""
        self._begin(labels, self._passes.n_labels(labels))

    @property
    def labels(self) -> PartedLabels:
        """The labels; they change with the next move."""
        return self._labels

    @property
    def n_rows(self) -> int:
        """All rows."""
        return self._passes.points.n_rows

    @property
    def counts(self) -> npt.NDArray[np.int64]:
        """Rows of each cluster (K,)."""
        return np.asarray(self._counts.sum(axis=0))

    def __len__(self) -> int:
        return self._counts.shape[1]

    # --------------------------------------------------------------------------------------------- sets of rows

    def first_row(self, cluster: int) -> int:
        """The first row of a cluster."""
        if self._first_rows is None:
            each = self._run(lambda _, part: part.first_rows())
            starts = np.array([start for start, _ in self._passes.spans()])[:, None]
            self._first_rows = np.where(self._counts > 0, starts + np.array(each), self.n_rows).min(axis=0)
        return int(self._first_rows[cluster])

    def sets(self, *clusters: int) -> PartedSets:
        """The rows of some clusters, or of all."""
        if clusters and clusters != tuple(range(len(self))):
            return self.unions([(cluster,) for cluster in clusters])
        if self._everything is None:
            self._everything = PartedSets(self._passes, self._run(lambda _, part: part.sets()))
        return self._everything

    def unions(self, groups: Sequence[Sequence[int]]) -> PartedSets:
        """The rows of each group of clusters as one set."""
        wanted = [tuple(group) for group in groups]
        return PartedSets(self._passes, self._run(lambda _, part: part.unions(wanted)))

    # --------------------------------------------------------------------------------------------------- moves

    def split(self, cluster: int, sides: PartedSides) -> None:
        """Leave the rows that are left in the cluster, and make those that are right the last cluster."""
        self._run(lambda number, part: part.split(cluster, sides.parts[number]))
        self._counts = np.append(self._counts, [[part.n_right] for part in sides.parts], axis=1)
        self._counts[:, cluster] = [part.n_left for part in sides.parts]
        self._everything = self._first_rows = None

    def merge(self, first: int, second: int) -> None:
        """Give the rows of `second` to `first`; the last cluster takes the place of `second`."""
        self._run(lambda _, part: part.merge(first, second))
        self._counts = _merged(self._counts, first, second, np.add)
        if self._first_rows is not None:
            self._first_rows = _merged(self._first_rows[None], first, second, np.minimum)[0]
        self._everything = None

    def redraw(self, rule: Rule, key: tuple[int, int], anchor_key: tuple[int, int] | None) -> npt.NDArray[np.int64]:
        """Draw every label anew among the clusters of `rule`; without `anchor_key` clusters may end empty."""
        n_clusters, labels = len(rule.offsets), self._labels
        anchors = None if anchor_key is None else self._passes.anchors(labels, anchor_key, n_clusters)
        self._passes.draw(rule, labels, key, anchors)
        counts = labels.sizes(n_clusters)
        labels.keep(counts > 0)
        self._begin(labels, int(np.count_nonzero(counts)))
        return counts


def _merged(
    values: npt.NDArray[np.int64], first: int, second: int, join: Callable[[Any, Any], Any]
) -> npt.NDArray[np.int64]:
    """Values (P, K) with the last cluster in the place of one that another took in."""
    kept = values.copy()
    kept[:, first] = join(kept[:, first], kept[:, second])
    kept[:, second] = kept[:, -1]  # `first` itself, where that was last
    return kept[:, :-1]
