"""Starting the kernels of Gaussians and of sets of rows; see `start.py`."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from armillary._typing import Float64Array
from armillary.distributions import tangent_gaussian
from armillary.kernels.gpu import gaussians
from armillary.kernels.gpu.start import IS_INTERPRETED, across, magic_of, to_device, to_host
from armillary.kernels.rows import quadratic
from armillary.rules import QuadraticRule
from armillary.sums import whole

if IS_INTERPRETED:
    from armillary.kernels.gpu.interpreted import round_once

    round_once()

# Rows of a piece of a set: a program has one set. Sums of products of so many are whole (`whole.PRODUCT_ROWS`).
PIECE_ROWS = whole.PRODUCT_ROWS
# Rows of a program that has a row in each thread.
_BLOCK = 256
# Labels whose lowest priorities are sought one by one, and rows of a program that does.
_FEW_LABELS = 64
_LEAST_ROWS = 4096 if IS_INTERPRETED else 1024
_INFINITY_BITS = int(np.float64(np.inf).view(np.int64))
# Columns whose products are all summed by one program: those of eight would be compiled for minutes.
_FEW_COLUMNS = 4
# Clusters whose labels are a byte.
_BYTES = 255
_EXACT: dict[str, Any] = {"num_warps": 4, "enable_fp_fusion": False}


def _grid(n_items: int) -> int:
    return -(-n_items // _BLOCK)


@dataclass(frozen=True, eq=False)
class DeviceForms:
    """A quadratic rule on the device, in the layout of the CPU (`kernels/rows/quadratic.py`)."""

    forms: quadratic.Forms
    packed: torch.Tensor  # (K, .)
    offsets: torch.Tensor  # (K,)
    traces: torch.Tensor  # (K,)
    volume: torch.Tensor  # (1,) arguments of kernels are float32

    @classmethod
    def of(cls, rule: QuadraticRule) -> DeviceForms:
        """From the host."""
        forms = quadratic.prepare(rule)
        numbers = (forms.triangles, forms.offsets, forms.traces, [forms.volume])
        return cls(forms, *(to_device(np.ascontiguousarray(own, dtype=np.float64)) for own in numbers))

    @property
    def n_clusters(self) -> int:
        """K."""
        return len(self.forms.offsets)

    @property
    def laws(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """What turns halves of squares into scores."""
        return self.offsets, self.traces, self.volume

    def sizes(self, rows: torch.Tensor) -> tuple[int, int, int, int]:
        """Columns of rows, of forms, of packed forms, and the step from row to row."""
        n_features = int(rows.shape[1])
        return n_features, n_features + (not self.forms.is_curved), int(self.packed.shape[1]), int(rows.stride(0))


def table(rows: torch.Tensor, forms: DeviceForms) -> torch.Tensor:
    """Scores (K, n)."""
    n_rows = rows.shape[0]
    out = torch.empty((forms.n_clusters, n_rows), dtype=torch.float64, device=rows.device)
    for first, last in across(forms.n_clusters) if n_rows else ():
        gaussians.table[(_grid(n_rows), last - first)](
            rows, forms.packed, *forms.laws, out, n_rows, *forms.sizes(rows), first, IS_CURVED=forms.forms.is_curved,
            BLOCK=_BLOCK, **_EXACT,
        )  # fmt: skip
    return out


def table_to_draw_from(rows: torch.Tensor, forms: DeviceForms, labels: torch.Tensor) -> torch.Tensor:
    """Scores (K, n) as draws of labels have them: in three dimensions by other sums, and only those that matter."""
    sphere = forms.forms.on_the_sphere
    if sphere is None:
        return table(rows, forms)
    n_rows = rows.shape[0]
    out = torch.empty((forms.n_clusters, n_rows), dtype=torch.float64, device=rows.device)
    if n_rows:
        given = [to_device(np.ascontiguousarray(own)) for own in sphere]
        gaussians.sphere_table[(_grid(n_rows),)](
            rows, labels, *given, *forms.laws, out, n_rows, forms.n_clusters, rows.stride(0), BLOCK=_BLOCK, **_EXACT
        )
    return out


def choose(
    scores: torch.Tensor,
    labels: torch.Tensor,
    uniforms: torch.Tensor,
    first_row: int,
    anchors: tuple[torch.Tensor, torch.Tensor, torch.Tensor] | None,
) -> None:
    """Draw labels (n,) from scores (K, n), which are written over; with priorities (n,), and those of anchors (K,)."""
    n_clusters, n_rows = scores.shape
    if n_rows:
        gaussians.choose[(_grid(n_rows),)](
            scores, labels, *(_own(anchors, uniforms, labels)), first_row, n_rows, n_clusters,
            HAS_ANCHORS=anchors is not None, BLOCK=_BLOCK, **_EXACT,
        )  # fmt: skip


def _own(
    anchors: tuple[torch.Tensor, torch.Tensor, torch.Tensor] | None, uniforms: torch.Tensor, labels: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Priorities of rows, uniforms, priorities and rows of anchors; whatever is there where there are none."""
    if anchors is None:
        return uniforms, uniforms, uniforms, labels.new_zeros(1, dtype=torch.int64)
    return anchors[0], uniforms, anchors[1], anchors[2]


def draw_sides(numbers: torch.Tensor, odds: torch.Tensor, uniforms: torch.Tensor, is_left: torch.Tensor) -> None:
    """Write is_left[number] (int8) of rows by their log odds, and their uniforms, which are of all rows."""
    if len(numbers):
        gaussians.sides[(_grid(len(numbers)),)](numbers, odds, uniforms, is_left, len(numbers), BLOCK=_BLOCK, **_EXACT)


# --------------------------------------------------------------------------------------------------------- sets


class Pieces:
    """Sets of rows cut into pieces: numbers of rows (M,), and where sets begin and end (G + 1,).

    Rows are asked for in every pass: those of a block that goes by must not be held.
    """

    def __init__(self, rows: Callable[[], torch.Tensor], numbers: torch.Tensor, starts: npt.NDArray[np.int64]) -> None:
        self._rows, self.numbers = rows, numbers
        self.n_sets = len(starts) - 1
        sizes = np.diff(starts)
        n_pieces = -(-sizes // PIECE_ROWS)
        self.of_rows = np.repeat(np.arange(self.n_sets), n_pieces)  # the set of each piece
        within = np.arange(len(self.of_rows)) - np.repeat(np.cumsum(n_pieces) - n_pieces, n_pieces)
        edges = np.append(starts[:-1][self.of_rows] + within * PIECE_ROWS, starts[-1])
        both = to_device(np.concatenate([edges, self.of_rows]).astype(np.int64))
        self.edges, self.owners = both[: len(edges)], both[len(edges) :]

    @property
    def rows(self) -> torch.Tensor:
        """(n, D)."""
        return self._rows()

    @property
    def _given(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
        return self.rows, self.numbers, self.edges, self.owners

    @property
    def _shape(self) -> tuple[int, int]:
        return int(self.rows.shape[1]), int(self.rows.stride(0))

    def _whole(self, *shape: int) -> torch.Tensor:
        return torch.zeros((self.n_sets, *shape), dtype=torch.int64, device=self.rows.device)

    def odds(self, forms: DeviceForms) -> torch.Tensor:
        """Of each row of set g the score of cluster 2 g less that of 2 g + 1 (M,)."""
        out = torch.empty(len(self.numbers), dtype=torch.float64, device=self.rows.device)
        if len(self.of_rows):
            gaussians.odds[(len(self.of_rows),)](
                *self._given, forms.packed, *forms.laws, out, *forms.sizes(self.rows), IS_CURVED=forms.forms.is_curved,
                BLOCK=PIECE_ROWS, **_EXACT,
            )  # fmt: skip
        return out

    def totals(self, rounder: float) -> Float64Array:
        """sum x (G, D)."""
        sums, n_features = self._whole(self.rows.shape[1]), self._shape[0]
        if len(self.of_rows):
            gaussians.totals[(len(self.of_rows), n_features)](
                *self._given, magic_of(rounder, str(self.rows.device)), sums, *self._shape, BLOCK=PIECE_ROWS, **_EXACT
            )
        return np.asarray(to_host(sums) * (rounder / whole.ROUNDER))

    def tangent_limbs(self, bases: Float64Array, q: int, *, with_scatter: bool, with_curvature: bool) -> Float64Array:
        """What `tangent_gaussian.from_limbs` makes sums of."""
        n_features, place = bases.shape[1], str(self.rows.device)
        width = n_features + n_features**2
        limbs = self._whole(2, width + 4)
        wanted = {"WITH_SCATTER": with_scatter, "WITH_CURVATURE": with_curvature, "BLOCK": PIECE_ROWS, **_EXACT}
        if len(self.of_rows) and n_features <= _FEW_COLUMNS:
            gaussians.tangents[(len(self.of_rows),)](
                *self._given, to_device(np.ascontiguousarray(bases)), _magics(q, n_features, place), limbs,
                *self._shape, N_FEATURES=n_features, **wanted,
            )  # fmt: skip
        elif len(self.of_rows):
            magics, seats = _magics(q, n_features, place), to_device(np.ascontiguousarray(bases))
            seen = torch.empty((2, len(self.numbers)), dtype=torch.float64, device=self.rows.device)
            gaussians.look[(len(self.of_rows),)](
                *self._given, seats, magics, seen[0], seen[1], limbs, *self._shape, **wanted
            )
            pairs = _tangent_pairs(n_features, with_scatter, place)
            for first, last in across(len(pairs)):
                gaussians.tangent_pairs[(len(self.of_rows), last - first)](
                    *self._given, seats, magics, seen[0], seen[1], pairs[first:last], limbs, *self._shape,
                    BLOCK=PIECE_ROWS, **_EXACT,
                )  # fmt: skip
        return np.asarray(to_host(limbs) * _units(q, n_features))

    def scatter_limbs(self, centres: Float64Array) -> Float64Array:
        """What `whole.from_products` makes scatters of."""
        n_features = centres.shape[1]
        limbs = self._whole(2, 3, n_features, n_features)
        if len(self.of_rows):
            grids = np.array([whole.rounder(grid) for grid in whole.HALF_GRIDS])
            pairs = _upper_pairs(n_features, str(self.rows.device))
            given = *self._given, to_device(np.ascontiguousarray(centres)), to_device(grids)
            for first, last in across(len(pairs)):
                gaussians.products[(len(self.of_rows), last - first)](
                    *given, pairs[first:last], limbs, *self._shape, BLOCK=PIECE_ROWS, **_EXACT
                )
        high, low = whole.HALF_GRIDS
        units = np.array([math.ldexp(1.0, -grid) for grid in (2 * high, high + low, 2 * low)])
        carried = np.array([math.ldexp(1.0, -grid) for grid in whole.CARRY_GRIDS])
        return np.asarray(to_host(limbs) * np.array([carried, units])[:, :, None, None])


@cache
def _magics(q: int, n_features: int, place: str) -> torch.Tensor:
    """What `tangent_gaussian.sum_rounders` has, where kernels find it."""
    return torch.from_numpy(tangent_gaussian.sum_rounders(q, n_features).ravel()).to(place)


@cache
def _units(q: int, n_features: int) -> Float64Array:
    """What one of each limb is (2, D + D D + 4)."""
    kinds = np.repeat([0, 1, 2, 1, 3, 4], [n_features, n_features**2, 1, 1, 1, 1])
    return np.asarray(tangent_gaussian.sum_rounders(q, n_features)[kinds].T / whole.ROUNDER)


@cache
def _upper_pairs(n_features: int, place: str) -> torch.Tensor:
    """Pairs (., 2) of columns j <= k."""
    pairs = np.stack(np.triu_indices(n_features), axis=1).astype(np.int32)
    return torch.from_numpy(np.ascontiguousarray(pairs)).to(place)


@cache
def _tangent_pairs(n_features: int, with_scatter: bool, place: str) -> torch.Tensor:
    """Single columns, and pairs of them."""
    alone = np.stack([np.arange(n_features), np.full(n_features, -1)], axis=1).astype(np.int32)
    single = torch.from_numpy(alone).to(place)
    return torch.cat([single, _upper_pairs(n_features, place)]) if with_scatter else single


def stable_order(labels: torch.Tensor, n_clusters: int) -> torch.Tensor:
    """Numbers of rows (n,) by label, each label's in their order; keys of one byte are sorted in a quarter of time."""
    keys = labels.to(torch.uint8) if n_clusters <= _BYTES else labels
    return torch.sort(keys, stable=True)[1].int()


def unions(groups: Sequence[Sequence[torch.Tensor]]) -> torch.Tensor:
    """Numbers of rows in each group of one or two lists, each in order, in order, one group after the other."""
    lists = [own for group in groups for own in group]
    numbers = torch.cat(lists)
    if len(lists) == len(groups):
        return numbers
    sizes = np.array([len(own) for own in lists])
    starts = np.cumsum(sizes) - sizes
    # the list that each meets: itself where it has no other, of which nothing is looked at
    first = np.cumsum([0, *(len(group) for group in groups)])[:-1]
    partner, is_met = np.arange(len(lists)), np.zeros(len(lists), dtype=np.bool_)
    home = np.empty(len(lists), dtype=np.int64)
    for place, group in zip(first.tolist(), groups, strict=True):
        home[place : place + len(group)] = starts[place]
        if len(group) == 2:
            partner[place], partner[place + 1] = place + 1, place
            is_met[place : place + 2] = True
    n_pieces = -(-sizes // PIECE_ROWS)
    of_piece = np.repeat(np.arange(len(lists)), n_pieces)
    within = np.arange(len(of_piece)) - np.repeat(np.cumsum(n_pieces) - n_pieces, n_pieces)
    begins = starts[of_piece] + within * PIECE_ROWS
    own_ends, met = (starts + sizes)[of_piece], partner[of_piece]
    plan = np.stack(
        [
            begins,
            np.minimum(begins + PIECE_ROWS, own_ends),
            starts[of_piece],
            starts[met],
            starts[met] + np.where(is_met, sizes, 0)[met],
            home[of_piece],
        ]
    )
    out = torch.empty_like(numbers)
    if not len(of_piece):
        return out
    gaussians.merge[(len(of_piece),)](numbers, to_device(plan), out, len(of_piece), BLOCK=PIECE_ROWS, num_warps=4)
    return out


def anchors(
    labels: torch.Tensor, priorities: torch.Tensor, first_row: int, n_clusters: int
) -> tuple[Float64Array, npt.NDArray[np.int64]]:
    """The lowest priority among the rows with each label (K,), inf where there is none, and the row (K,), -1 there."""
    n_rows, place = len(labels), labels.device
    both = torch.full((2, n_clusters), 2**62, dtype=torch.int64, device=place)
    lowest = both[0]
    lowest.fill_(_INFINITY_BITS)
    if n_rows:
        if n_clusters <= _FEW_LABELS:
            gaussians.least[(-(-n_rows // _LEAST_ROWS),)](
                labels, priorities, lowest, n_rows, n_clusters, BLOCK=_LEAST_ROWS
            )
        else:
            lowest.scatter_reduce_(0, labels.long(), priorities.view(torch.int64), "amin")
        gaussians.first_least[(_grid(n_rows),)](labels, priorities, lowest, both[1], first_row, n_rows, BLOCK=_BLOCK)
    bits, rows = to_host(both)
    return bits.view(np.float64), np.where(bits == _INFINITY_BITS, -1, rows)
