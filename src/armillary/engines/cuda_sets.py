"""Sets of rows on a GPU, known by their numbers there: sums over them and scores of each row, with the CPU's bits.

What is beside all rows (labels, halves, numbers by set) stays on the device; sums come home as integers. Sides and odds
of a set come home too, 8 bytes a row at most: they meet the uniforms of a generator of the host, and the attempts made
at once look at half of the rows or few. A few hundred rows of a set come home for fits to them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np
import numpy.typing as npt
import torch

from armillary._typing import Float64Array
from armillary.engines.contract import Rule
from armillary.engines.cpu_sets import CpuPartition, CpuSets, CpuSides, Flags, SideLimbs
from armillary.engines.cuda_points import rows_at_home
from armillary.engines.parted_sets import sets_at_home
from armillary.kernels.gpu import start, start_sets
from armillary.points import Block
from armillary.rules import AffineRule, QuadraticRule
from armillary.sums import whole

if TYPE_CHECKING:
    from armillary.engines.cuda import CudaPasses

T = TypeVar("T")
# Values of rows that are copied together.
_COPIED_VALUES = 1 << 26


class CudaSets(CpuSets):
    """G sets of rows; `numbers` (M,) int32 are on the device. See `engines/contract.py`."""

    _passes: Any
    numbers: Any

    def _cut(self) -> None:
        """When it is first asked for."""

    # of each set that is a union of two clusters: the clusters, and how many rows they have
    unions_of: Sequence[tuple[Sequence[int], Sequence[int]]] | None = None

    @property
    def _side_limbs(self) -> SideLimbs:
        found: SideLimbs = self._passes.host.side_limbs
        return found

    @cached_property
    def _pieces(self) -> start_sets.Pieces:
        return start_sets.Pieces(lambda: self._passes.points.matrix, self.numbers, self.starts)

    @staticmethod
    def each_large(
        passes: Any, task: Callable[[int], T], n_tasks: int, n_rows: int, fold: Callable[[T], object]
    ) -> None:
        """In turn: the device works on one after the other anyway."""
        for number in range(n_tasks):
            fold(task(number))

    @staticmethod
    def _joined(sets: Sequence[Any]) -> Any:
        return torch.cat(list(sets))

    @staticmethod
    def side_of(passes: Any, numbers: Any, sides: CpuSides) -> tuple[Any, Any]:
        """The rows of a set that are left, and those that are right."""
        is_left = start.to_device(sides.is_left)
        return numbers[is_left], numbers[~is_left]

    @cached_property
    def owners(self) -> torch.Tensor:
        """The set of each row (M,)."""
        return torch.repeat_interleave(start.to_device(self.sizes), output_size=len(self.numbers))

    def n_left(self, is_left: torch.Tensor) -> npt.NDArray[np.int64]:
        """How many rows i of each set (G,) have is_left[i], 0 or 1: running sums where sets end, for one wait."""
        running = torch.cumsum(is_left[self.numbers.long()], 0, dtype=torch.int64)
        ends = torch.cat([running.new_zeros(1), running])[start.to_device(np.asarray(self.starts, np.int64))]
        return np.diff(start.to_host(ends))

    # ------------------------------------------------------------------------------------------------ sums

    @cached_property
    def _totals(self) -> Float64Array:
        rounder = whole.rounder(self._passes.points.q)
        return self._sparse_totals(rounder) if self._passes.points.is_sparse else self._pieces.totals(rounder)

    @property
    def _copied_rows(self) -> int:
        """Rows that are copied together."""
        return max(1, _COPIED_VALUES // max(1, round(self._passes.points.width)))

    def _sparse_totals(self, rounder: float) -> Float64Array:
        """`_totals` of CSR rows, whose entries are copied some rows at a time."""
        points, step = self._passes.points, self._copied_rows
        sums = torch.zeros((len(self), points.n_features), dtype=torch.int64, device=self.numbers.device)
        for first in range(0, len(self.numbers), step):
            part = slice(first, first + step)
            rows, owners = points.matrix[self.numbers[part].long()], self.owners[part].int()
            sums += self._passes.on.sum_rows(rows, None, owners, len(self), rounder).resultants
        return np.asarray(start.to_host(sums) * (rounder / whole.ROUNDER))

    def scatter_limbs(self, centres: Float64Array) -> Float64Array:
        """What `whole.from_products` makes the scatters of."""
        return self._pieces.scatter_limbs(centres)

    def tangent_limbs(self, bases: Float64Array, *, with_scatter: bool, with_curvature: bool) -> Float64Array:
        """What `tangent_gaussian.from_limbs` makes the sums of."""
        wanted = {"with_scatter": with_scatter, "with_curvature": with_curvature}
        return self._pieces.tangent_limbs(bases, self._passes.points.q, **wanted)

    # ------------------------------------------------------------------------------------------- other sets

    def few(self, ranks: Sequence[npt.NDArray[np.int64]]) -> CpuSets:
        """Some rows of each set, by their ranks in it: they come home."""
        return sets_at_home(self._passes, self.rows_at(ranks), [len(own) for own in ranks])

    def rows_at(self, ranks: Sequence[npt.NDArray[np.int64]]) -> Block:
        """Some rows of each set, by their ranks in it, one set after the other."""
        places = np.concatenate([first + own for first, own in zip(self.starts[:-1], ranks, strict=True)])
        numbers = self.numbers[start.to_device(places)]
        return rows_at_home(self._passes.points.matrix[numbers.long()])

    def some(self, places: Sequence[int]) -> CpuSets:
        """The sets at some places."""
        found = super().some(places)
        if found is not self and self.unions_of is not None:
            cast(CudaSets, found).unions_of = [self.unions_of[place] for place in places]
        return found

    def parted(self, sides: Sequence[CpuSides | None]) -> CpuSets:
        """In the place of each set its left and its right rows, both of which must be there; None leaves it whole."""
        places, sizes = [], []
        for number, own in enumerate(sides):
            first, last = self.starts[number], self.starts[number + 1]
            if own is None:
                parts = [np.arange(first, last, dtype=np.int32)]
            else:
                parts = [(first + np.flatnonzero(side)).astype(np.int32) for side in (own.is_left, ~own.is_left)]
            places += parts
            sizes += [len(part) for part in parts]
        numbers = torch.index_select(self.numbers, 0, start.to_device(np.concatenate(places)))
        return CudaSets(self._passes, numbers, np.concatenate([[0], np.cumsum(sizes)]))

    def halved(self, is_left: Any) -> CudaSets:
        """2 G sets: of each the rows with is_left[i], then the others. Both must be there."""
        keys = 2 * self.owners + 1 - is_left[self.numbers.long()]
        numbers = self.numbers[torch.sort(keys, stable=True)[1]]
        n_left = self.n_left(is_left)
        sizes = np.stack([n_left, self.sizes - n_left], axis=1).ravel()
        return CudaSets(self._passes, numbers, np.concatenate([[0], np.cumsum(sizes)]))

    # ---------------------------------------------------------------------------------------- row by row

    def device_odds(self, rule: Rule) -> torch.Tensor:
        """Of each row of set g the score of cluster 2 g of the rule less that of 2 g + 1 (M,)."""
        if isinstance(rule, QuadraticRule):
            return self._pieces.odds(start_sets.DeviceForms.of(rule))
        out = torch.empty(len(self.numbers), dtype=torch.float64, device=self.numbers.device)
        points, step = self._passes.points, self._copied_rows
        for number in range(len(self)):
            two, own_part = slice(2 * number, 2 * number + 2), self.part(number)
            slopes = None if rule.slopes is None else rule.slopes[two]
            own = start.DeviceRule.of(AffineRule(rule.directions[two], rule.offsets[two], slopes=slopes))
            for first in range(own_part.start, own_part.stop, step):
                part = slice(first, min(first + step, own_part.stop))
                # as many bits as the CPU takes there, whatever the type of the rows
                scores = self._passes.on.row_scores(points.matrix[self.numbers[part].long()].double(), own)
                out[part] = scores[:, 0] - scores[:, 1]
        return out

    def log_odds(self, rule: Rule) -> Float64Array:
        """`device_odds` at home."""
        found: Float64Array = start.to_host(self.device_odds(rule))
        return found

    def where(self, number: int, labels: Any, label: int) -> CpuSides:
        """Left where a row of a set has this label."""
        sides = LabelledSides(labels.values, self.numbers[self.part(number)], label)
        if self.unions_of is not None and label in self.unions_of[number][0]:
            clusters, sizes = self.unions_of[number]
            vars(sides)["n_left"] = sizes[list(clusters).index(label)]
        return sides

    def draw_sides(self, rule: Rule, key: tuple[int, int], is_left: Any) -> None:
        """Redraw is_left[i] of each row i of the sets, with their odds and the uniform of the row."""
        points = self._passes.points
        uniforms = start.uniforms(key, points.first_row, points.n_rows)
        start_sets.draw_sides(self.numbers, self.device_odds(rule), uniforms, is_left)


class LabelledSides(CpuSides):
    """Left where rows have a label, which they must keep until somebody asks: they come home then."""

    def __init__(self, values: torch.Tensor, numbers: torch.Tensor, label: int) -> None:
        vars(self)["_made_of"] = values, numbers, label

    @cached_property
    def is_left(self) -> Flags:
        """(n,)."""
        values, numbers, label = vars(self)["_made_of"]
        found: Flags = (torch.index_select(values, 0, numbers) == label).cpu().numpy()
        return found

    @property
    def n_right(self) -> int:
        """Rows on the right."""
        return len(vars(self)["_made_of"][1]) - self.n_left


class CudaHalves:
    """A side beside each row, whatever set it is in; see `engines/contract.py`."""

    def __init__(self, is_left: torch.Tensor) -> None:
        self._is_left = is_left  # (n,) int8

    def copy(self) -> CudaHalves:
        """The same sides, to be changed by themselves."""
        return CudaHalves(self._is_left.clone())

    def n_left(self, sets: CudaSets) -> npt.NDArray[np.int64]:
        """How many rows of each set (G,) are left."""
        return sets.n_left(self._is_left)

    def of(self, sets: CudaSets) -> list[CpuSides]:
        """The sides of each set."""
        return [self.side(sets, number) for number in range(len(sets))]

    def side(self, sets: CudaSets, number: int) -> CpuSides:
        """The sides of one set."""
        return CpuSides((self._is_left[sets.numbers[sets.part(number)].long()] != 0).cpu().numpy())

    def parts(self, sets: CudaSets) -> CudaSets:
        """The left and the right rows of each set, both of which must be there."""
        return sets.halved(self._is_left)

    def put(self, sets: CudaSets, sides: CpuSides | None) -> None:
        """Give the rows of one set their sides; None: all are left."""
        numbers = sets.numbers.long()
        self._is_left[numbers] = 1 if sides is None else start.to_device(sides.is_left.astype(np.int8))

    def draw(self, sets: CudaSets, rule: Rule, key: tuple[int, int]) -> None:
        """Redraw the side of each row of set g, left by cluster 2 g of the rule, right by 2 g + 1."""
        sets.draw_sides(rule, key, self._is_left)

    def fill(self, is_left: Flags) -> None:
        """Give every row its side (n,)."""
        self._is_left.copy_(start.to_device(is_left.astype(np.int8)))

    def to_host(self) -> Flags:
        """Which rows are left (n,)."""
        return np.asarray((self._is_left != 0).cpu().numpy())


class CudaPartition(CpuPartition):
    """All rows in K clusters, whose numbers are on the device; see `engines/contract.py`."""

    _kind = CudaSets
    _members: list[Any]

    def __init__(self, passes: CudaPasses, labels: Any, n_clusters: int | None = None) -> None:
        super().__init__(passes, labels, n_clusters)  # type: ignore[arg-type]
        self._memory = None

    def _gather(self, sizes: npt.NDArray[np.int64]) -> None:
        """Row numbers of each cluster, in increasing order."""
        starts = np.concatenate([[0], np.cumsum(sizes)])
        order = start_sets.stable_order(cast(Any, self._labels.values), len(sizes))
        self._members = [order[first:last] for first, last in pairwise(starts)]
        passes: Any = self._passes
        self._everything = CudaSets(passes, order, starts)

    def unions(self, groups: Sequence[Sequence[int]]) -> CpuSets:
        """The rows of each group of clusters as one set."""
        if max(map(len, groups)) > 2:
            return super().unions(groups)
        lists = [[self._members[cluster] for cluster in group] for group in groups]
        sizes = [[len(own) for own in group] for group in lists]
        starts = np.concatenate([[0], np.cumsum([sum(own) for own in sizes])])
        found = CudaSets(cast(Any, self._passes), start_sets.unions(lists), starts)
        found.unions_of = list(zip(groups, sizes, strict=True))
        return found

    def together(self, *clusters: int) -> Any:
        """Which rows some clusters have, in increasing order."""
        if len(clusters) == 1:
            return self._members[clusters[0]]
        return torch.sort(torch.cat([self._members[k] for k in clusters]))[0]

    def _name(self, cluster: int) -> None:
        labels: Any = self._labels
        labels.values[self._members[cluster].long()] = cluster
        labels.note(None, None)
