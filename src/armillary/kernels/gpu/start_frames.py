"""Starting the kernels of narrow rows: one upload, one kernel and one answer for each pass; see `start.py`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np
import numpy.typing as npt
import torch

from armillary._typing import Float64Array
from armillary.kernels.gpu import exact, frames
from armillary.kernels.gpu.start import IS_INTERPRETED, NARROW, DeviceSums, at_home, magic_of, to_device, to_host
from armillary.rules import AffineRule
from armillary.validation import PLAIN_SQUARES

# Clusters up to which a program looks for the rows of each.
FEW_CLUSTERS = 64
# Rows of a program: a few in each thread, as their coordinates leave room for.
_BLOCK, _BLOCK_OF_MANY_COLUMNS, _PLAIN_BLOCK = (4096, 4096, 4096) if IS_INTERPRETED else (256, 256, 256)
_FEW_COLUMNS = 4
_N_COUNTERS = 3
# Copies of what a pass finds.
_COPIES = 16


def is_served(n_features: int, n_clusters: int) -> bool:
    """Whether passes of such rows and rules have this form."""
    return n_features <= NARROW and 0 < n_clusters <= FEW_CLUSTERS


def _block(n_features: int) -> int:
    return _BLOCK if n_features <= _FEW_COLUMNS else _BLOCK_OF_MANY_COLUMNS


def _grid(n_rows: int, block: int) -> tuple[int]:
    return (max(1, -(-n_rows // block)),)


def _packed(rule: AffineRule) -> Float64Array:
    """Vectors (K, D), offsets (K,), whether they are rivals (K,), and the floor."""
    n_clusters, n_features = rule.shape
    out = np.empty(n_clusters * (n_features + 2) + 1)
    out[: n_clusters * n_features] = np.asarray(rule.vectors, np.float64).ravel()
    beside = out[n_clusters * n_features : -1].reshape(2, n_clusters)
    beside[0] = rule.offsets
    beside[1] = 0.0 if rule.is_rival is None else rule.is_rival
    out[-1] = rule.floor + 0.0
    return out


@dataclass(frozen=True, eq=False)
class Swept:
    """What a pass found, on the host but for the sums that the next may change."""

    counts: npt.NDArray[np.int64]  # (K,) in quanta
    resultants: npt.NDArray[np.int64]  # (K, D) in quanta
    firsts: npt.NDArray[np.int64]  # (K,) the first row of the span with each label, n where there is none
    lasts: npt.NDArray[np.int64]  # (K,) the last of all rows looked at, -1 where there is none
    n_moved: int
    n_refused: int
    n_negative: int  # labels, of all rows looked at
    sums: DeviceSums  # where the rows are


class SumsOfCopies(DeviceSums):
    """Sums that are added up when somebody changes them: most are not."""

    def __init__(self, copies: torch.Tensor, n_clusters: int, n_features: int) -> None:
        vars(self)["_made_of"] = copies, n_clusters, n_features

    def _added(self, first: int, last: int) -> torch.Tensor:
        return vars(self)["_made_of"][0][:, first:last].sum(dim=0)

    @cached_property
    def counts(self) -> torch.Tensor:
        """(K,)."""
        _, n_clusters, n_features = vars(self)["_made_of"]
        return self._added(n_clusters * n_features, n_clusters * (n_features + 1))

    @cached_property
    def resultants(self) -> torch.Tensor:
        """(K, D)."""
        _, n_clusters, n_features = vars(self)["_made_of"]
        return self._added(0, n_clusters * n_features).reshape(n_clusters, n_features)


def sweep(
    rows: torch.Tensor,
    weights: torch.Tensor | None,
    rule: AffineRule,
    labels: torch.Tensor,
    span: tuple[int, int],
    rounder: float | None,
) -> Swept:
    """Labels of the rows from..to; with a rounder, sums by the labels of all rows."""
    n_clusters, n_features = rule.shape
    n_rows, has_sums = len(rows), rounder is not None
    begin, end = (0, n_rows) if has_sums else span
    size = n_clusters * (n_features + 3) + _N_COUNTERS
    found = torch.zeros((_COPIES, size), dtype=torch.int64, device=rows.device)
    magic = magic_of(0.0 if rounder is None else rounder, str(rows.device))
    block = _block(n_features)
    frames.sweep[_grid(end - begin, block)](
        rows, magic if weights is None else weights, to_device(_packed(rule)), labels, found, magic, n_rows, begin, end,
        *span, n_clusters, _COPIES, N_FEATURES=n_features, HAS_WEIGHTS=weights is not None, HAS_SUMS=has_sums,
        BLOCK=block, enable_fp_fusion=False,
    )  # fmt: skip
    home = to_host(found)
    n_sums = n_clusters * (n_features + 1)
    sums, counters = home[:, :n_sums].sum(axis=0), home[:, -_N_COUNTERS:].sum(axis=0)
    firsts, lasts = home[:, n_sums:-_N_COUNTERS].max(axis=0).reshape(2, n_clusters)
    resultants = sums[: n_clusters * n_features].reshape(n_clusters, n_features)
    on_device = SumsOfCopies(found, n_clusters, n_features)
    counts = sums[n_clusters * n_features :]
    return Swept(counts, resultants, n_rows - firsts, lasts - 1, *counters.tolist(), on_device)


def names(rows: torch.Tensor, rule: AffineRule, given: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The name of the best cluster of each row (n,) at home, -1 where it is refused."""
    n_clusters, n_features = rule.shape
    packed = _packed(rule)
    sent = to_device(np.concatenate([packed.view(np.int64), given]))
    out = torch.empty(len(rows), dtype=torch.int64, device=rows.device)
    block = _block(n_features)
    frames.name[_grid(len(rows), block)](
        rows, sent[: len(packed)].view(torch.float64), sent[len(packed) :], out, len(rows), n_clusters,
        N_FEATURES=n_features, BLOCK=block, enable_fp_fusion=False,
    )  # fmt: skip
    return at_home(out)


def renamed(labels: torch.Tensor, given: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The name of each label (n,) at home, -1 for negative ones."""
    out = torch.empty(len(labels), dtype=torch.int64, device=labels.device)
    if len(labels):
        frames.rename[_grid(len(labels), _PLAIN_BLOCK)](labels, to_device(given), out, len(labels), BLOCK=_PLAIN_BLOCK)
    return at_home(out)


@cache
def _unit_bounds(tolerance: float, place: str) -> torch.Tensor:
    return torch.tensor([*PLAIN_SQUARES, tolerance], dtype=torch.float64, device=place)


def are_unit(rows: torch.Tensor, tolerance: float) -> bool:
    """Whether the gate would leave all rows as they are."""
    n_off = torch.zeros(1, dtype=torch.int32, device=rows.device)
    frames.count_off[_grid(len(rows), _PLAIN_BLOCK)](
        rows, _unit_bounds(tolerance, str(rows.device)), n_off, *rows.shape, rows.stride(0), BLOCK=_PLAIN_BLOCK,
        AHEAD=exact.AHEAD, enable_fp_fusion=False,
    )  # fmt: skip
    return not n_off.item()
