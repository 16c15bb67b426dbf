"""Starting kernels on CSR rows: `start.py` for rows that are mostly zeros."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch

from armillary.kernels.gpu import sparse, start

# Numbers of a tile of scores, and clusters of one at most. The interpreter pays for programs, not for rows.
_TILE = 4096 if start.IS_INTERPRETED else 256
_MOST_CLUSTERS = 64
# Rows and entries of a step of sums.
_SUM_ROWS = 64 if start.IS_INTERPRETED else 4
_SUM_WIDTH = 32
_BLOCK = 1024 if start.IS_INTERPRETED else 128
# Entries of a column that one program adds: columns that most rows have are cut.
_SEGMENT = 512
# Numbers of rows that are spread out together.
_SPREAD = 1 << 24


@dataclass(frozen=True, eq=False)
class CsrRows:
    """Rows `pointers[i]:pointers[i + 1]` of entries, on the device."""

    data: torch.Tensor  # (e,) float32 or float64
    indices: torch.Tensor  # (e,) int32
    pointers: torch.Tensor  # (n + 1,) int64; the first need not be 0
    n_features: int

    def __len__(self) -> int:
        return len(self.pointers) - 1

    @property
    def shape(self) -> tuple[int, int]:
        """N and D."""
        return len(self), self.n_features

    @property
    def dtype(self) -> torch.dtype:
        """float32 or float64."""
        return self.data.dtype

    @property
    def device(self) -> torch.device:
        """Where they are."""
        return self.data.device

    @property
    def width(self) -> float:
        """Entries of a row, on average."""
        return int(self.pointers[-1] - self.pointers[0]) / max(1, len(self))

    def double(self) -> CsrRows:
        """The same entries in float64."""
        return replace(self, data=self.data.double())

    def __getitem__(self, which: Any) -> CsrRows:
        """Rows from..to, as a view, or some by their numbers."""
        if isinstance(which, slice):
            first, last, _ = which.indices(len(self))
            return CsrRows(self.data, self.indices, self.pointers[first : max(first, last) + 1], self.n_features)
        begins = self.pointers[which]
        lengths = self.pointers[which + 1] - begins
        pointers = torch.zeros(len(lengths) + 1, dtype=torch.int64, device=self.device)
        torch.cumsum(lengths, 0, out=pointers[1:])
        places = torch.arange(int(pointers[-1]), device=self.device)
        places += torch.repeat_interleave(begins - pointers[:-1], lengths)
        return CsrRows(self.data[places], self.indices[places], pointers, self.n_features)

    def to_host(self) -> tuple[Any, Any, Any]:
        """Data, indices and pointers at home, those of these rows alone."""
        first, last = int(self.pointers[0]), int(self.pointers[-1])
        entries = self.data[first:last], self.indices[first:last], self.pointers - first
        data, indices, pointers = (part.cpu().numpy() for part in entries)
        # pointers as SciPy has them: the host's loops are compiled for those
        return data, indices, pointers.astype(np.int32 if last - first < 2**31 else np.int64)

    @cached_property
    def columns(self) -> tuple[CsrRows, CsrRows]:
        """Columns as rows of pieces, each with entries in the order of the rows, and columns as rows of their pieces.

        Made once: sums by shares go through it in every step.
        """
        first, last = int(self.pointers[0]), int(self.pointers[-1])
        place = self.device
        lengths = torch.diff(self.pointers)
        rows = torch.repeat_interleave(torch.arange(len(self), dtype=torch.int32, device=place), lengths)
        ordered, order = torch.sort(self.indices[first:last], stable=True)
        sizes = torch.bincount(ordered, minlength=self.n_features)
        n_pieces = torch.div(sizes + (_SEGMENT - 1), _SEGMENT, rounding_mode="floor")
        begins = torch.cumsum(sizes, 0) - sizes
        joined = torch.zeros(self.n_features + 1, dtype=torch.int64, device=place)
        torch.cumsum(n_pieces, 0, out=joined[1:])
        total = int(joined[-1])
        within = torch.arange(total, device=place) - torch.repeat_interleave(joined[:-1], n_pieces)
        starts = torch.repeat_interleave(begins, n_pieces) + _SEGMENT * within
        pointers = torch.cat([starts, torch.full((1,), len(order), dtype=torch.int64, device=place)])
        pieces = CsrRows(self.data[first:last][order], rows[order], pointers, len(self))
        ones = torch.ones(total, dtype=torch.float64, device=place)
        return pieces, CsrRows(ones, torch.arange(total, dtype=torch.int32, device=place), joined, total)


def squares(rows: CsrRows) -> torch.Tensor:
    """Sums of squares of rows (n,), in the order stored."""
    out = torch.empty(len(rows), dtype=torch.float64, device=rows.device)
    if len(rows):
        sparse.squares[(start._grid(len(rows), _BLOCK),)](
            rows.data, rows.pointers, out, len(rows), BLOCK=_BLOCK, AHEAD=sparse.AHEAD, enable_fp_fusion=False
        )
    return out


def own_scores(rows: CsrRows, rule: start.DeviceRule, labels: torch.Tensor) -> torch.Tensor:
    """The float64 score of each row under its own label (n,)."""
    out = torch.empty(len(rows), dtype=torch.float64, device=rows.device)
    if len(rows):
        sparse.own_scores[(start._grid(len(rows), _BLOCK),)](
            rows.data, rows.indices, rows.pointers, rule.vectors, rule.offsets, labels, out, *rows.shape,
            BLOCK=_BLOCK, AHEAD=sparse.AHEAD, enable_fp_fusion=False,
        )  # fmt: skip
    return out


def table(rows: CsrRows, rule: start.DeviceRule, dtype: torch.dtype) -> torch.Tensor:
    """Scores (n, K), in a type."""
    return product(rows, rule.turned.to(dtype), rule.offsets)


def row_scores(rows: CsrRows, rule: start.DeviceRule) -> torch.Tensor:
    """Scores (n, K) in the type of the rows, with the bits of the CPU's `row_scores`: those of the dense rows."""
    n_rows, n_features = rows.shape
    if n_features <= start.SHORT:
        return table(rows, rule, torch.float64).to(rows.dtype)
    out = torch.empty((n_rows, rule.n_clusters), dtype=rows.dtype, device=rows.device)
    n_together = max(1, _SPREAD // n_features)
    for first in range(0, n_rows, n_together):
        part = slice(first, min(first + n_together, n_rows))
        out[part] = start.row_scores(_spread(rows[part]), rule)
    return out


def _spread(rows: CsrRows) -> torch.Tensor:
    """Rows with their zeros (n, D)."""
    dense = torch.zeros(rows.shape, dtype=rows.dtype, device=rows.device)
    begin, end = int(rows.pointers[0]), int(rows.pointers[-1])
    numbers = torch.repeat_interleave(
        torch.arange(len(rows), device=rows.device), rows.pointers.diff(), output_size=end - begin
    )
    dense[numbers, rows.indices[begin:end].long()] = rows.data[begin:end]
    return dense


def product(rows: CsrRows, turned: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
    """Rows times a matrix (D, K), and offsets (K,) float64 added; in the type of the matrix."""
    n_clusters = turned.shape[1]
    out = torch.empty((len(rows), n_clusters), dtype=turned.dtype, device=rows.device)
    if out.numel():
        n_rows, n_together = _tile(n_clusters)
        sparse.table[(start._grid(len(rows), n_rows), start._grid(n_clusters, n_together))](
            rows.data, rows.indices, rows.pointers, turned, offsets, out, len(rows), n_clusters, ROWS=n_rows,
            CLUSTERS=n_together, AHEAD=sparse.AHEAD, enable_fp_fusion=False,
        )  # fmt: skip
    return out


def _tile(n_clusters: int) -> tuple[int, int]:
    """Rows and clusters of a program: few rows, as each waits for the longest.

    One of (16, 16), (8, 32), (4, 64). Triton 3.6 fails to compile 32 and 64 rows of fewer clusters.
    """
    n_together = min(_MOST_CLUSTERS, max(16, 1 << (n_clusters - 1).bit_length()))
    return max(4, _TILE // n_together), n_together


class Chooser(start.Chooser):
    """Labels of CSR rows by float64 scores of all clusters; no filter of halves: rows are read once as they are."""

    def label(
        self,
        rule: start.DeviceRule,
        labels: torch.Tensor,
        span: tuple[int, int],
        *,
        is_listed: bool = False,
        after: Callable[[], None] = lambda: None,
    ) -> start.Found:
        """Write labels of the rows from..to; see `start.Chooser.label`."""
        self.scratch.counters.zero_()
        self.brute(rule, span)
        self._record(labels, span, is_listed)
        after()
        return self._counted()

    def brute(self, rule: start.DeviceRule, span: tuple[int, int], *, is_plain: bool = False) -> None:
        """By float64 scores of all clusters."""
        rows = self._rows
        n_rows, n_together = _tile(rule.n_clusters)
        sparse.best[(start._grid(span[1] - span[0], n_rows),)](
            rows.data, rows.indices, rows.pointers, rule.turned, rule.offsets, rule.is_rival, self.scratch.found,
            rule.floor, *span, rule.n_clusters, HAS_RIVALS=rule.has_rivals, ROWS=n_rows, CLUSTERS=n_together,
            AHEAD=sparse.AHEAD, enable_fp_fusion=False,
        )  # fmt: skip


def sum_rows(
    rows: CsrRows, weights: torch.Tensor | None, labels: torch.Tensor, n_clusters: int, rounder: float
) -> start.DeviceSums:
    """Sums of the labelled rows."""
    resultants = torch.zeros((n_clusters, rows.n_features), dtype=torch.int64, device=rows.device)
    counts = torch.zeros(n_clusters, dtype=torch.int64, device=rows.device)
    magic = start.magic_of(rounder, str(rows.device))
    if len(rows):
        sparse.add[(start._grid(len(rows), _SUM_ROWS),)](
            rows.data, rows.indices, rows.pointers, magic if weights is None else weights, labels, resultants, counts,
            magic, *rows.shape, HAS_WEIGHTS=weights is not None, ROWS=_SUM_ROWS, WIDTH=_SUM_WIDTH,
            enable_fp_fusion=False,
        )  # fmt: skip
    return start.DeviceSums(counts, resultants)


def move_rows(
    rows: CsrRows,
    weights: torch.Tensor | None,
    labels: torch.Tensor,
    moved: tuple[torch.Tensor, torch.Tensor, torch.Tensor],
    into: start.DeviceSums,
    rounder: float,
) -> None:
    """Bring sums up to date by rows that moved: their numbers, labels before, and how many they are (1,)."""
    magic = start.magic_of(rounder, str(rows.device))
    sparse.move[(8 * start.n_processors(),)](
        rows.data, rows.indices, rows.pointers, magic if weights is None else weights, labels, *moved[:2],
        into.resultants, into.counts, moved[2], magic, rows.n_features, HAS_WEIGHTS=weights is not None,
        ROWS=_SUM_ROWS, WIDTH=_SUM_WIDTH, enable_fp_fusion=False,
    )  # fmt: skip


def shared_sums(rows: CsrRows, shares: torch.Tensor) -> torch.Tensor:
    """Sums of rows by their shares (n, K), as (K, D): pieces of columns first, then columns, each in its order."""
    pieces, columns = rows.columns
    nothing = torch.zeros(shares.shape[1], dtype=torch.float64, device=shares.device)
    return product(columns, product(pieces, shares.contiguous(), nothing), nothing).T


def unit_data(rows: CsrRows, norms: torch.Tensor, factors: torch.Tensor) -> torch.Tensor:
    """The entries of rows times factors (n,), divided by norms (n,): in float64, rounded once."""
    lengths, n_entries = torch.diff(rows.pointers), len(rows.data)
    scaled = rows.data.double() * torch.repeat_interleave(factors, lengths, output_size=n_entries)
    return (scaled / torch.repeat_interleave(norms, lengths, output_size=n_entries)).to(rows.dtype)


def from_host(data: Any, indices: Any, pointers: Any, n_features: int) -> CsrRows:
    """CSR arrays of the host."""
    return CsrRows(
        start.to_device(np.asarray(data)),
        start.to_device(np.asarray(indices).astype(np.int32)),
        start.to_device(np.asarray(pointers).astype(np.int64)),
        n_features,
    )
