"""Starting kernels on torch tensors: shapes of launches, scratch, and which card there is.

There is no autotuning: a short table of configurations, each held to float64 labels by tests/gpu. With
TRITON_INTERPRET=1 the kernels run on the CPU's tensors, slowly: that is how machines without a GPU test them.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import numpy as np
import torch
import triton
from triton.errors import TritonError
from triton.tools.tensor_descriptor import TensorDescriptor

from armillary.kernels.gpu import choose, draws, exact, frames, soft, sums
from armillary.rules import AffineRule

# What the compiler raises.
KernelError = TritonError
IS_INTERPRETED = os.environ.get("TRITON_INTERPRET", "0") == "1"
# Columns up to which a row lies in the registers of one thread.
NARROW = 8
# Columns up to which the CPU has float64 scores of k-means++ (kernels/rows/blocks.py); beyond, sums in lanes.
SHORT = 16
# Clusters of a tile: the place of one has 7 bits of a key.
_TILE = 128
_ROWS = 128
# Columns of a step, and those up to which rows stay in the multiprocessor while clusters go by.
_DEEP = 64
_RESIDENT = 128
# Programs on each multiprocessor of the flat filter: 98 KB of shared memory each.
_PER_PROCESSOR = 2
# Warps and stages of kernels that are sensitive to them.
_OPTIONS = {
    "flat": {"num_warps": 4, "num_stages": 2},
    "resident": {"num_warps": 4, "num_stages": 1},
    "sums": {"num_warps": 2},
    "pairs": {"num_warps": 8, "num_stages": 3},
}
# Pairs of rows and clusters that there is room for at first, for each 4 rows, and at most: 16 bytes each.
_FEWEST_PAIRS = 1 << 16
_MOST_PAIRS = 1 << 27
# Pairs that are counted, and no more: far from 2^31, where programs that add at once cannot come.
_ENOUGH_PAIRS = 1 << 30
# Programs of a launch across, in its second dimension: what CUDA allows, in whole blocks of 16 bytes of anything.
MOST_ACROSS = 65520
# Pairs of a program, and columns of them that are on their way together.
_PAIRS_TOGETHER, _PAIR_AHEAD = 32, 16
# Values of rows that are halved together: 64 MiB in float64.
_AT_ONCE = 1 << 23
# Tiles of exact scores.
_EXACT = (64, 64)
# Rows of a program that has a row in each thread; the interpreter pays for programs, not for rows.
_BLOCK = 4096 if IS_INTERPRETED else 256
# Rows of one program of sums, and copies of the sums of narrow rows.
_TOGETHER = 512
_SUM_ROWS = 4
_SUM_COLUMNS = 128
_COPIES = 64
# Counters of rows by label lie so many numbers apart, up to so many of them.
_APART = 32
_FEW_COUNTERS = 1 << 16
# Labels whose first and last rows are sought one by one.
_FEW_LABELS = 64
# Lengths of vectors by the largest offset below which the filter has nothing left to see.
_FLATTEST = 2.0**-60
_LOWEST, _HIGHEST = -(2**63), 2**31 - 1
# Bytes that are not worth waiting for; what came home and goes back lies in plain memory up to there.
_FEW_BYTES = 1 << 16
# Bytes beside rows that go home by way of page-locked memory.
_MOST_LOCKED = 1 << 26


def device() -> torch.device:
    """Where rows live."""
    return torch.device("cpu") if IS_INTERPRETED else torch.device("cuda", torch.cuda.current_device())


@cache
def _processors(number: int) -> int:
    return int(torch.cuda.get_device_properties(number).multi_processor_count)


def n_processors() -> int:
    """Multiprocessors of the card."""
    return 2 if IS_INTERPRETED else _processors(torch.cuda.current_device())


@cache
def _generation(number: int) -> int:
    return int(torch.cuda.get_device_capability(number)[0])


def has_descriptors() -> bool:
    """Whether the current card copies tiles by descriptors (Hopper and later)."""
    return IS_INTERPRETED or _generation(torch.cuda.current_device()) >= 9


def across(n_items: int) -> list[tuple[int, int]]:
    """From..to of what one launch takes across."""
    return [(first, min(first + MOST_ACROSS, n_items)) for first in range(0, n_items, MOST_ACROSS)]


def _grid(n_items: int, block: int) -> int:
    return max(1, -(-n_items // block))


def to_device(values: Any, dtype: torch.dtype | None = None) -> torch.Tensor:
    """A host array on the device."""
    # torch warns of arrays that cannot be written, such as fitted attributes: those are small, and copied
    given = np.require(values, requirements=("C", "W"))
    # of few numbers in memory that is not page-locked the driver takes a copy, and the host need not wait
    found = torch.from_numpy(given).to(device(), non_blocking=given.nbytes <= _FEW_BYTES)
    return found if dtype is None else found.to(dtype)


def to_host(values: torch.Tensor) -> Any:
    """A tensor at home, in memory that the card writes to by itself: three times as fast for sums of many clusters."""
    if not values.is_cuda:
        return values.numpy()
    home = torch.empty(values.shape, dtype=values.dtype, pin_memory=True)
    home.copy_(values)
    found = home.numpy()
    return found.copy() if found.nbytes <= _FEW_BYTES else found


def at_home(values: torch.Tensor) -> Any:
    """A tensor at home in memory that may be kept: by way of page-locked memory, where that is little."""
    if not values.is_cuda or values.numel() * values.element_size() > _MOST_LOCKED:
        return values.cpu().numpy()
    home = to_host(values)
    return home.copy() if home.nbytes > _FEW_BYTES else home


# ------------------------------------------------------------------------------------------------------- rules


@dataclass(frozen=True, eq=False)
class DeviceRule:
    """An affine rule on the device; layouts are made when first asked for."""

    rule: AffineRule
    vectors: torch.Tensor  # (K, D) float64
    offsets: torch.Tensor  # (K,) float64

    @classmethod
    def of(cls, rule: AffineRule) -> DeviceRule:
        """From the host."""
        return cls(
            rule, to_device(np.asarray(rule.vectors, np.float64)), to_device(np.asarray(rule.offsets, np.float64))
        )

    @property
    def n_clusters(self) -> int:
        """K."""
        return int(self.vectors.shape[0])

    @cached_property
    def turned(self) -> torch.Tensor:
        """(D, K)."""
        return self.vectors.T.contiguous()

    @cached_property
    def is_rival(self) -> torch.Tensor:
        """(K,) int8."""
        rivals = self.rule.is_rival
        return to_device((np.zeros(self.n_clusters) if rivals is None else rivals).astype(np.int8))

    @cached_property
    def floor(self) -> torch.Tensor:
        """(1,) float64."""
        return to_device(np.array([self.rule.floor + 0.0]))

    @property
    def has_floor(self) -> bool:
        """Whether some rows may be refused by their score."""
        return self.rule.floor > -np.inf

    @property
    def has_rivals(self) -> bool:
        """Whether some rows may be refused by their cluster."""
        return self.rule.is_rival is not None and bool(self.rule.is_rival.any())

    @cached_property
    def halves(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Vectors as halves (K', D'), offsets (K',) and what bounds the filter (4,): see `choose.py`.

        All are divided by a power of two that makes the longest vector at most 1 long, and offsets numbers that
        float32 has.
        """
        n_clusters, n_features = self.vectors.shape
        width, n_padded, place = padded_width(n_features), -(-n_clusters // _TILE) * _TILE, self.vectors.device
        longest = float(np.sqrt(np.vecdot(self.rule.vectors, self.rule.vectors).max(initial=0.0)))
        offsets = np.abs(self.rule.offsets)
        longest = max(longest, _FLATTEST * float(offsets[offsets < np.inf].max(initial=0.0)))
        scale = 2.0 ** -np.ceil(np.log2(longest)) if 0.0 < longest < np.inf else 1.0
        numbers = to_device(np.array([scale, self.rule.floor * scale if self.has_floor else 0.0]))
        half = torch.empty((n_padded, width), dtype=torch.float16, device=place)
        lengths, errors = torch.empty((2, n_clusters), dtype=torch.float64, device=place)
        levels = torch.empty(n_padded, dtype=torch.float32, device=place)
        bounds = torch.empty(4, dtype=torch.float32, device=place)
        choose.halve_rule[(n_padded,)](
            self.vectors, self.offsets, numbers, half, lengths, errors, n_clusters, n_features, width,
            COLUMNS=min(256, 1 << (width - 1).bit_length()),
        )  # fmt: skip
        choose.bound_rule[(1,)](
            self.offsets, numbers, lengths, errors, levels, bounds, n_clusters, n_padded, width, BLOCK=1024
        )
        return half, levels, bounds


def padded_width(n_features: int) -> int:
    """Columns of halves: a power of two up to `_RESIDENT`, then whole steps."""
    if n_features > _RESIDENT:
        return -(-n_features // _DEEP) * _DEEP
    return max(16, 1 << (n_features - 1).bit_length())


def make_shadow(rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Rows as halves (n, D'), and upper bounds (n,) on the length of what that leaves."""
    n_rows, n_features = rows.shape
    width = padded_width(n_features)
    shadow = torch.zeros if width > n_features else torch.empty
    half = shadow((n_rows, width), dtype=torch.float16, device=rows.device)
    errors = torch.empty(n_rows, dtype=torch.float32, device=rows.device)
    step = max(1, _AT_ONCE // n_features)
    for first in range(0, n_rows, step):
        part = rows[first : first + step]
        half[first : first + step, :n_features] = part
        left = part.double() - half[first : first + step, :n_features].double()
        errors[first : first + step] = torch.linalg.vector_norm(left, dim=1) * (1.0 + 1e-6)
    return half, errors


def unit_and_shadow(
    rows: torch.Tensor, norms: torch.Tensor, factors: torch.Tensor, kind: torch.dtype
) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
    """Rows (n, D) times factors (n,) by norms (n,) in a type, and the shadow of that."""
    n_rows, n_features = rows.shape
    width = padded_width(n_features)
    out = torch.empty((n_rows, n_features), dtype=kind, device=rows.device)
    half = torch.empty((n_rows, width), dtype=torch.float16, device=rows.device)
    errors = torch.empty(n_rows, dtype=torch.float32, device=rows.device)
    columns = min(_RESIDENT, width)
    together = max(1, (_EXACT[0] * _EXACT[1] if IS_INTERPRETED else 512) // columns)
    if n_rows:
        exact.unit[(_grid(n_rows, together),)](
            rows, norms, factors, out, half, errors, n_rows, n_features, width, rows.stride(0), ROWS=together,
            COLUMNS=columns, enable_fp_fusion=False,
        )  # fmt: skip
    return out, (half, errors)


# ---------------------------------------------------------------------------------------------- exact numbers


def squares(rows: torch.Tensor) -> torch.Tensor:
    """Sums of squares of rows (n,), in column order."""
    out = torch.empty(rows.shape[0], dtype=torch.float64, device=rows.device)
    if rows.shape[0]:
        exact.squares[(_grid(rows.shape[0], _BLOCK),)](
            rows, out, *rows.shape, rows.stride(0), BLOCK=_BLOCK, AHEAD=exact.AHEAD, enable_fp_fusion=False
        )
    return out


def roots(numbers: torch.Tensor) -> torch.Tensor:
    """Square roots (n,), correctly rounded."""
    out = torch.empty_like(numbers)
    if len(numbers):
        exact.roots[(_grid(len(numbers), _BLOCK),)](numbers, out, len(numbers), BLOCK=_BLOCK)
    return out


def own_scores(rows: torch.Tensor, rule: DeviceRule, labels: torch.Tensor) -> torch.Tensor:
    """The float64 score of each row under its own label (n,)."""
    out = torch.empty(rows.shape[0], dtype=torch.float64, device=rows.device)
    if rows.shape[0]:
        exact.own_scores[(_grid(rows.shape[0], _BLOCK),)](
            rows, rule.vectors, rule.offsets, labels, out, *rows.shape, rows.stride(0),
            BLOCK=_BLOCK, AHEAD=exact.AHEAD, enable_fp_fusion=False,
        )  # fmt: skip
    return out


def table(rows: torch.Tensor, rule: DeviceRule, dtype: torch.dtype) -> torch.Tensor:
    """Scores (n, K): float64 sums in column order, in a type."""
    n_rows, n_features = rows.shape
    out = torch.empty((n_rows, rule.n_clusters), dtype=dtype, device=rows.device)
    if out.numel():
        tile = _tile_for(rule.n_clusters)
        exact.table[(_grid(n_rows, tile[0]), _grid(rule.n_clusters, tile[1]))](
            rows, rule.turned, rule.offsets, out, n_rows, rule.n_clusters, n_features, rows.stride(0),
            ROWS=tile[0], CLUSTERS=tile[1], num_warps=8, enable_fp_fusion=False,
        )  # fmt: skip
    return out


def _tile_for(n_clusters: int) -> tuple[int, int]:
    return _EXACT if n_clusters > 16 else (_BLOCK, max(2, 1 << (n_clusters - 1).bit_length()))


def row_scores(rows: torch.Tensor, rule: DeviceRule) -> torch.Tensor:
    """Scores (n, K) in the type of the rows, with the bits of the CPU's `row_scores`."""
    n_rows, n_features = rows.shape
    if n_features <= SHORT:
        return table(rows, rule, rows.dtype)
    out = torch.empty((n_rows, rule.n_clusters), dtype=rows.dtype, device=rows.device)
    for first, last in across(rule.n_clusters) if out.numel() else ():
        exact.lane_scores[(_grid(n_rows, 128), last - first)](
            rows, rule.vectors.to(rows.dtype), rule.offsets.to(rows.dtype), out, n_rows, rule.n_clusters, n_features,
            rows.stride(0), first, HAS_OFFSETS=bool(np.any(rule.rule.offsets)), BLOCK=128, LANES=exact.LANES,
            enable_fp_fusion=False,
        )  # fmt: skip
    return out


def uniforms(key: tuple[int, int], first_row: int, n_rows: int) -> torch.Tensor:
    """The draws of rows (n,)."""
    out = torch.empty(n_rows, dtype=torch.float64, device=device())
    if n_rows:
        words = to_device(np.array([key[0] & 0xFFFFFFFF, key[1] & 0xFFFFFFFF], dtype=np.int64))
        draws.uniforms[(_grid(n_rows, _BLOCK),)](out, words, first_row, n_rows, BLOCK=_BLOCK)
    return out


# ----------------------------------------------------------------------------------------------------- arg max


class Scratch:
    """What a pass writes down for n rows: taken when first asked for, and kept between passes."""

    def __init__(self, n_rows: int) -> None:
        self._n_rows = n_rows
        self.n_pairs = 0
        self.pairs: list[torch.Tensor] = []

    def _beside(self, dtype: torch.dtype, fill: int | None = None) -> torch.Tensor:
        place = device()
        if fill is None:
            return torch.empty(self._n_rows, dtype=dtype, device=place)
        return torch.full((self._n_rows,), fill, dtype=dtype, device=place)

    @cached_property
    def found(self) -> torch.Tensor:
        """The best cluster, -1 where a row is refused."""
        return self._beside(torch.int32)

    @cached_property
    def tops(self) -> torch.Tensor:
        """The best score that the filter found."""
        return self._beside(torch.float32)

    @cached_property
    def listed(self) -> torch.Tensor:
        """Rows that the filter cannot tell."""
        return self._beside(torch.int32)

    @cached_property
    def bests(self) -> torch.Tensor:
        """The best exact score of listed rows."""
        return self._beside(torch.int64, _LOWEST)

    @cached_property
    def firsts(self) -> torch.Tensor:
        """The first cluster that has it."""
        return self._beside(torch.int32, _HIGHEST)

    @cached_property
    def moved(self) -> torch.Tensor:
        """Rows whose sums change."""
        return self._beside(torch.int32)

    @cached_property
    def befores(self) -> torch.Tensor:
        """The labels that they had."""
        return self._beside(torch.int32)

    @cached_property
    def counters(self) -> torch.Tensor:
        """Listed rows, pairs, rows that moved, that were refused, whose sums change."""
        return torch.zeros(8, dtype=torch.int32, device=device())

    def make_room(self, n_pairs: int) -> None:
        """Room for pairs."""
        if n_pairs > self.n_pairs:
            self.pairs.clear()
            place = device()
            self.pairs = [torch.empty(n_pairs, dtype=kind, device=place) for kind in (torch.int32, torch.int32)]
            self.pairs.append(torch.empty(n_pairs, dtype=torch.int64, device=place))
            self.n_pairs = n_pairs

    def forget(self) -> None:
        """The best scores of listed rows."""
        self.bests.fill_(_LOWEST)
        self.firsts.fill_(_HIGHEST)


@dataclass(frozen=True, eq=False)
class Found:
    """What a pass counted; on the host."""

    n_listed: int
    n_pairs: int
    n_moved: int
    n_refused: int
    n_changed: int


class Chooser:
    """Labels of rows by a rule: `find` leaves the best clusters in `scratch.found`, `record` makes labels of them."""

    def __init__(self, rows: torch.Tensor, shadow: Any, scratch: Scratch) -> None:
        self._rows = rows
        self._shadow = shadow  # a function that gives halves and errors
        self.scratch = scratch

    def label(
        self,
        rule: DeviceRule,
        labels: torch.Tensor,
        span: tuple[int, int],
        *,
        is_listed: bool = False,
        after: Callable[[], None] = lambda: None,
    ) -> Found:
        """Write labels of the rows from..to. With `is_listed`, rows whose sums change are in `scratch.moved`.

        `after` starts more work on the labels before the host waits for what was counted; it is called again where
        there was no room for all pairs, in which case the labels were still those before.
        """
        scratch = self.scratch
        scratch.counters.zero_()
        is_wide = self._rows.shape[1] > NARROW
        if is_wide:
            scratch.make_room(max(_FEWEST_PAIRS, rule.n_clusters, len(self._rows) // 4))
            self._filter(rule, span)
            self._settle(rule, 0, span[1] - span[0])
        else:
            self.brute(rule, span)
        self._record(labels, span, is_listed)
        after()
        found = self._counted()
        if is_wide and found.n_pairs > scratch.n_pairs:
            self._settle_all(rule, 0, found.n_listed, found.n_pairs)
            scratch.counters[1] = 0
            self._record(labels, span, is_listed)
            after()
            found = self._counted()
        return found

    def _counted(self) -> Found:
        return Found(*self.scratch.counters[:5].tolist())

    def brute(self, rule: DeviceRule, span: tuple[int, int], *, is_plain: bool = False) -> None:
        """By float64 scores of all clusters."""
        rows, scratch = self._rows, self.scratch
        n_features = rows.shape[1]
        if n_features <= NARROW and not is_plain:
            frames.narrow[(_grid(span[1] - span[0], _BLOCK),)](
                rows, rule.vectors, rule.offsets, rule.is_rival, scratch.found, rule.floor, *span, rule.n_clusters,
                N_FEATURES=n_features, HAS_RIVALS=rule.has_rivals, BLOCK=_BLOCK, enable_fp_fusion=False,
            )  # fmt: skip
            return
        tile = _tile_for(rule.n_clusters)
        exact.best[(_grid(span[1] - span[0], tile[0]),)](
            rows, rule.turned, rule.offsets, rule.is_rival, scratch.found, rule.floor, *span, rule.n_clusters,
            n_features, rows.stride(0), HAS_RIVALS=rule.has_rivals, ROWS=tile[0], CLUSTERS=tile[1], num_warps=8,
            enable_fp_fusion=False,
        )  # fmt: skip

    def _filter(self, rule: DeviceRule, span: tuple[int, int]) -> None:
        scratch = self.scratch
        shadow, errors = self._shadow()
        half, levels, bounds = rule.halves
        width, n_tiles = half.shape[1], len(half) // _TILE
        beside = levels, errors, rule.is_rival, scratch.found, scratch.tops, scratch.listed, scratch.counters, *span
        flags = {"HAS_FLOOR": rule.has_floor, "HAS_RIVALS": rule.has_rivals}
        n_row_tiles = _grid(span[1] - span[0], _ROWS)
        if not has_descriptors():
            choose.filter_pointers[(n_row_tiles,)](
                shadow, half, *beside, n_tiles, -(-width // _DEEP) if width > _DEEP else 1, width, bounds, **flags,
                ROWS=_ROWS, TILE=_TILE, DEEP=min(_DEEP, width), num_warps=8, num_stages=3,
            )  # fmt: skip
        elif width <= _RESIDENT:
            choose.filter_resident[(n_row_tiles,)](
                TensorDescriptor.from_tensor(shadow, [_ROWS, width]),
                TensorDescriptor.from_tensor(half, [_TILE, width]),
                *beside, n_tiles, bounds, **flags, ROWS=_ROWS, TILE=_TILE, DEEP=width, **_OPTIONS["resident"],
            )  # fmt: skip
        else:
            choose.filter_flat[(min(n_row_tiles, _PER_PROCESSOR * n_processors()),)](
                TensorDescriptor.from_tensor(shadow, [_ROWS, _DEEP]),
                TensorDescriptor.from_tensor(half, [_TILE, _DEEP]),
                *beside, n_tiles, width // _DEEP, bounds, **flags, ROWS=_ROWS, TILE=_TILE, DEEP=_DEEP,
                **_OPTIONS["flat"],
            )  # fmt: skip

    def _settle(self, rule: DeviceRule, begin: int, end: int) -> None:
        """Of the listed rows begin..end, in float64, if there is room for their pairs."""
        scratch, rows = self.scratch, self._rows
        shadow, errors = self._shadow()
        half, levels, bounds = rule.halves
        width, n_tiles = half.shape[1], len(half) // _TILE
        deep = min(_DEEP, width)
        pair_rows, pair_clusters, keys = scratch.pairs
        n_programs = min(_grid(end - begin, _ROWS), 2 * n_processors())
        choose.list_pairs[(n_programs, min(n_tiles, 8))](
            shadow, half, levels, errors, scratch.tops, scratch.listed, scratch.counters, pair_rows, pair_clusters,
            scratch.n_pairs, n_tiles, width // deep, width, rule.n_clusters, bounds, begin, end,
            ENOUGH=_ENOUGH_PAIRS, ROWS=_ROWS, TILE=_TILE, DEEP=deep, **_OPTIONS["pairs"],
        )  # fmt: skip
        n_programs = 8 * n_processors()
        choose.score_pairs[(n_programs,)](
            rows, rule.vectors, rule.offsets, scratch.listed, scratch.counters, pair_rows, pair_clusters, keys,
            scratch.bests, scratch.n_pairs, rows.shape[1], rows.stride(0), AHEAD=_PAIR_AHEAD, BLOCK=_PAIRS_TOGETHER,
            num_warps=max(1, _PAIRS_TOGETHER // 32),
            enable_fp_fusion=False,
        )  # fmt: skip
        n_programs = 4 * n_processors()
        choose.name_pairs[(n_programs,)](
            scratch.counters, pair_rows, pair_clusters, keys, scratch.bests, scratch.firsts, scratch.n_pairs, BLOCK=128
        )
        choose.settle[(n_programs,)](
            scratch.listed, scratch.counters, scratch.bests, scratch.firsts, rule.is_rival, scratch.found,
            _ordered(rule.rule.floor), begin, end, scratch.n_pairs, HAS_RIVALS=rule.has_rivals, BLOCK=128,
        )  # fmt: skip

    def _settle_all(self, rule: DeviceRule, begin: int, end: int, n_pairs: int) -> None:
        """Where there was no room for all pairs: with more room, or half of the rows after the other half."""
        self.scratch.forget()
        if n_pairs > _MOST_PAIRS and end - begin > 1:
            middle = (begin + end) // 2
            for first, last in ((begin, middle), (middle, end)):
                self._settle_all(rule, first, last, n_pairs // 2)
            return
        self.scratch.make_room(max(n_pairs, rule.n_clusters))
        self.scratch.counters[1] = 0
        self._settle(rule, begin, end)
        needed = self._counted().n_pairs
        if needed > self.scratch.n_pairs:
            self._settle_all(rule, begin, end, needed)

    def _record(self, labels: torch.Tensor, span: tuple[int, int], is_listed: bool) -> None:
        scratch = self.scratch
        moved, befores = (scratch.moved, scratch.befores) if is_listed else (labels, labels)
        choose.record[(_grid(span[1] - span[0], 1024),)](
            scratch.found, labels, moved, befores, scratch.counters, *span, max(1, scratch.n_pairs),
            HAS_LIST=is_listed, BLOCK=1024,
        )  # fmt: skip


def _ordered(value: float) -> int:
    """An integer in the order of float64 numbers."""
    bits = int(np.float64(value + 0.0).view(np.int64))
    return bits if bits >= 0 else bits ^ 0x7FFFFFFFFFFFFFFF


# -------------------------------------------------------------------------------------------------------- sums


@dataclass(frozen=True, eq=False)
class DeviceSums:
    """Whole sums in quanta."""

    counts: torch.Tensor  # (K,) int64
    resultants: torch.Tensor  # (K, D) int64

    def copy(self) -> DeviceSums:
        """The same sums, to be changed by themselves."""
        return DeviceSums(self.counts.clone(), self.resultants.clone())


def by_label(labels: torch.Tensor, n_clusters: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Rows by label, those without one left out: numbers, labels in that order, -1 at the end, and sizes (K,).

    A counting sort by atomics: within a label rows come in any order, which whole sums do not see.
    """
    n_rows = len(labels)
    grid = (_grid(n_rows, 1024),)
    apart = _APART if n_clusters <= _FEW_COUNTERS else 1
    counters = torch.zeros((n_clusters, apart), dtype=torch.int32, device=labels.device)
    sums.count[grid](labels, counters, n_rows, apart, BLOCK=1024)
    sizes = counters[:, 0].clone()
    counters[:, 0] = torch.cumsum(sizes, 0, dtype=torch.int32) - sizes
    order = torch.zeros(n_rows, dtype=torch.int32, device=labels.device)
    ordered = torch.full_like(order, -1)
    sums.deal[grid](labels, counters, order, ordered, n_rows, apart, BLOCK=1024)
    return order, ordered, sizes


def ends(labels: torch.Tensor, span: tuple[int, int], n_clusters: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The first and the last row from..to with each label (K,); n and -1 where there is none."""
    nowhere = len(labels)
    firsts = torch.full((n_clusters,), nowhere, dtype=torch.int64, device=labels.device)
    lasts = torch.full((n_clusters,), -1, dtype=torch.int64, device=labels.device)
    if n_clusters <= _FEW_LABELS and span[0] < span[1]:
        sums.ends[(_grid(span[1] - span[0], 1024),)](labels, firsts, lasts, *span, n_clusters, BLOCK=1024)
    elif span[0] < span[1]:
        numbers = torch.arange(*span, dtype=torch.int64, device=labels.device)
        values = labels[slice(*span)]
        is_here = (values >= 0) & (values < n_clusters)
        values, numbers = values[is_here].long(), numbers[is_here]
        firsts = firsts.scatter_reduce(0, values, numbers, "amin")
        lasts = lasts.scatter_reduce(0, values, numbers, "amax")
    return firsts, lasts


@cache
def magic_of(rounder: float, place: str) -> torch.Tensor:
    """M where kernels find it."""
    return torch.full((1,), rounder, dtype=torch.float64, device=place)


def sum_rows(
    rows: torch.Tensor, weights: torch.Tensor | None, labels: torch.Tensor, n_clusters: int, rounder: float
) -> DeviceSums:
    """Sums of the labelled rows."""
    n_rows, n_features = rows.shape
    magic = magic_of(rounder, str(rows.device))
    given = magic if weights is None else weights
    if n_features <= NARROW:
        copies = max(1, min(_COPIES, (1 << 22) // (n_clusters * (n_features + 1))))
        total = torch.zeros((copies, n_clusters, n_features + 1), dtype=torch.int64, device=rows.device)
        if n_rows:
            sums.add_narrow[(_grid(n_rows, _BLOCK),)](
                rows, given, labels, total, magic, n_rows, n_clusters, copies, N_FEATURES=n_features,
                HAS_WEIGHTS=weights is not None, BLOCK=_BLOCK, enable_fp_fusion=False,
            )  # fmt: skip
        whole = total.sum(dim=0)
        return DeviceSums(whole[:, -1].contiguous(), whole[:, :-1].contiguous())
    resultants = torch.zeros((n_clusters, n_features), dtype=torch.int64, device=rows.device)
    counts = torch.zeros(n_clusters, dtype=torch.int64, device=rows.device)
    if not n_rows:
        return DeviceSums(counts, resultants)
    order, ordered, sizes = by_label(labels, n_clusters)
    if weights is None:
        quantum = int(np.float64(1.0 + rounder).view(np.int64) - np.float64(rounder).view(np.int64))
        counts = sizes.long() * quantum
    columns = min(_SUM_COLUMNS, max(16, 1 << (n_features - 1).bit_length()))
    sums.add_sorted[(_grid(n_rows, _TOGETHER), _grid(n_features, columns))](
        rows, given, order, ordered, resultants, counts, magic, n_rows, n_features, rows.stride(0),
        HAS_WEIGHTS=weights is not None, TOGETHER=_TOGETHER, ROWS=_SUM_ROWS, COLUMNS=columns, enable_fp_fusion=False,
        **_OPTIONS["sums"],
    )  # fmt: skip
    return DeviceSums(counts, resultants)


def move_rows(
    rows: torch.Tensor,
    weights: torch.Tensor | None,
    labels: torch.Tensor,
    moved: tuple[torch.Tensor, torch.Tensor, torch.Tensor],
    into: DeviceSums,
    rounder: float,
) -> None:
    """Bring sums up to date by rows that moved: their numbers, labels before, and how many they are (1,)."""
    n_features = rows.shape[1]
    magic = magic_of(rounder, str(rows.device))
    columns = min(128, max(16, 1 << (n_features - 1).bit_length()))
    sums.add_moved[(8 * n_processors(), _grid(n_features, columns))](
        rows, magic if weights is None else weights, labels, *moved[:2], into.resultants, into.counts, moved[2], magic,
        n_features, rows.stride(0), HAS_WEIGHTS=weights is not None, ROWS=8, COLUMNS=columns, enable_fp_fusion=False,
    )  # fmt: skip


# ----------------------------------------------------------------------------------------------------- softmax

# Rows of a softmax that one program has at once, and warps on each multiprocessor.
_SOFT_ROWS, _SOFT_WARPS = 1, 48
# Clusters up to which one program has the scores of a row.
MOST_SHARED = 8192
# Rows are multiplied by it before they are halved: what is left of their small numbers is then no denormal half.
_ROW_SCALE = 64.0


class SoftSums:
    """Sums of rows by their shares, some rows at a time, by products of halves; float64 from part to part."""

    def __init__(self, rule: DeviceRule, n_features: int) -> None:
        n_clusters = rule.n_clusters
        self._rule, self._n_features = rule, n_features
        self._width = -(-n_features // 8) * 8  # products want whole vectors
        largest = float(np.abs(rule.rule.vectors).max(initial=0.0))
        power = 2.0 ** (8 - np.ceil(np.log2(largest))) if largest > 0.0 else 1.0
        high, low = _two_halves(rule.vectors * power)
        self._vectors = torch.zeros((n_clusters, 3 * self._width), dtype=torch.float16, device=high.device)
        for number, part in enumerate((high, low, high)):
            self._vectors[:, number * self._width : number * self._width + n_features] = part
        self._scale = torch.full((1,), 1.0 / (power * _ROW_SCALE), dtype=torch.float32, device=high.device)
        self._row_scale = torch.full((1,), _ROW_SCALE, dtype=torch.float32, device=high.device)
        self._offsets = rule.offsets.float()
        self._total = torch.zeros((n_clusters, self._width), dtype=torch.float64, device=high.device)
        self._counts = torch.zeros(n_clusters, dtype=torch.float64, device=high.device)

    def add(self, rows: torch.Tensor, weights: torch.Tensor | None) -> torch.Tensor:
        """Add rows, whose weights are at most 1; their log evidence (m,)."""
        n_rows, n_clusters, width = len(rows), self._rule.n_clusters, self._width
        held = torch.empty((n_rows, 3 * width), dtype=torch.float16, device=rows.device)
        soft.halve[(_grid(n_rows, 16), _grid(width, 128))](
            rows, held, self._row_scale, n_rows, self._n_features, width, rows.stride(0), ROWS=16, COLUMNS=128,
            enable_fp_fusion=False,
        )  # fmt: skip
        scores = _product(held, self._vectors.T)
        large, small = (torch.empty(scores.shape, dtype=torch.float16, device=rows.device) for _ in range(2))
        evidence = torch.empty(n_rows, dtype=torch.float64, device=rows.device)
        given = self._scale if weights is None else weights.float()
        block = max(16, 1 << (n_clusters - 1).bit_length())
        warps = min(16, max(1, _SOFT_ROWS * block // 512))
        n_programs = min(n_rows, _SOFT_WARPS // warps * n_processors())
        counts = torch.empty((n_programs, n_clusters), dtype=torch.float64, device=rows.device)
        soft.softmax[(n_programs,)](
            scores, self._offsets, given, large, small, evidence, counts, self._scale, n_rows, n_clusters,
            HAS_WEIGHTS=weights is not None, ROWS=_SOFT_ROWS, BLOCK=block, SMALL=soft.SMALL, num_warps=warps,
        )  # fmt: skip
        self._counts += counts.sum(dim=0)
        # both halves of rows in one product: large shares are read once for them
        both = _product(large.T, held[:, width:])
        self._total += both[:, :width].double()
        self._total += both[:, width:].double()
        self._total += _product(small.T, held[:, :width]).double() / soft.SMALL
        return evidence

    def sums(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Counts (K,) and resultants (K, D)."""
        return self._counts, (self._total / _ROW_SCALE)[:, : self._n_features].contiguous()


def _two_halves(values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Numbers as sums of two halves."""
    high = values.half()
    return high, (values - high.to(values.dtype)).half()


def _product(one: torch.Tensor, two: torch.Tensor) -> torch.Tensor:
    """A product of halves in float32."""
    return torch.mm(one, two, out_dtype=torch.float32) if one.is_cuda else one.float() @ two.float()


def version() -> str:
    """Of the compiler."""
    return str(triton.__version__)
