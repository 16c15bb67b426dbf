"""Labels and columns beside rows on a GPU; see `engines/contract.py`."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt
import torch

from armillary._typing import Float64Array, FloatArray
from armillary.engines.contract import Numbers, Span
from armillary.engines.cpu_column import mass_grid, mass_targets
from armillary.engines.cuda_points import CudaPoints
from armillary.kernels.gpu import start, start_frames
from armillary.points import everywhere
from armillary.rules import AffineRule
from armillary.sums import whole
from armillary.sums.directional import DirectionalStatistics

if TYPE_CHECKING:
    from armillary.engines.cuda import CudaPasses

# A span, the first row with each label (K,) of the span, and the last of all rows.
Ends: TypeAlias = tuple[tuple[int, int], Numbers, Numbers]
# The share of rows that may have moved in the last sweep for the next to add and take away only those that move.
_MOST_MOVED = 0.04


class CudaLabels:
    """Labels of n rows (n,) int32 on the device, with the sums that are known."""

    def __init__(self, points: CudaPoints, values: torch.Tensor) -> None:
        self._points = points
        self.values = values
        self._sums: start.DeviceSums | None = None
        self._statistics: DirectionalStatistics | None = None
        self._ends: Ends | None = None
        self._n_moved = len(values)

    def sweep(self, passes: CudaPasses, rule: AffineRule) -> tuple[start.Found, DirectionalStatistics]:
        """Label every row; what that found, and the new sums. Where few rows moved the last time, by those alone."""
        known = self._sums if self._n_moved <= _MOST_MOVED * len(self.values) else None
        if known is not None and len(known.counts) != len(rule.offsets):
            known = None
        chooser, scratch = passes.chooser, passes.chooser.scratch
        sums = known

        def add() -> None:
            nonlocal sums
            if known is None:
                sums = passes.device_sums(self.values, len(rule.offsets))
            else:
                passes.add_moved(self.values, (scratch.moved, scratch.befores, scratch.counters[4:5]), known)

        given = start.DeviceRule.of(rule)
        span = (0, len(self.values))
        found = chooser.label(given, self.values, span, is_listed=known is not None, after=add)
        assert sums is not None
        self._n_moved = found.n_moved
        statistics = passes.at_home(sums)
        self.note(sums, statistics)
        return found, statistics

    def note(
        self, sums: start.DeviceSums | None, statistics: DirectionalStatistics | None, ends: Ends | None = None
    ) -> None:
        """Sums by the labels as they are, and which rows are the first and last of each, where they are known."""
        self._sums, self._statistics, self._ends = sums, statistics, ends

    def note_sums(self, sums: start.DeviceSums, statistics: DirectionalStatistics) -> None:
        """Sums by labels that are as they were."""
        self.note(sums, statistics, self._ends)

    def known(self, points: CudaPoints, n_clusters: int) -> DirectionalStatistics | None:
        """Sums by the labels, over these points and so many clusters, where they are known."""
        known = self._statistics
        is_it = known is not None and len(known.counts) == n_clusters and points.weights is self._points.weights
        return known if is_it else None

    def move(self, passes: CudaPasses, numbers: Numbers, labels: npt.NDArray[np.int32]) -> None:
        """Give some rows (m,) other labels (m,), and bring the sums up to date."""
        places = _numbers(numbers)
        sums, befores = self._sums, self.values[places]
        self.values[places] = start.to_device(np.broadcast_to(labels, len(numbers)).astype(np.int32))
        self.note(None, None)
        if sums is not None and len(numbers):
            n_moved = start.to_device(np.array([len(numbers)], dtype=np.int32))
            passes.add_moved(self.values, (places.int(), befores, n_moved), sums)
        if sums is not None:
            self.note(sums, passes.at_home(sums))

    # ------------------------------------------------------------------------------------------ questions

    def sizes(self, n_clusters: int, *, counted: bool = False) -> npt.NDArray[np.int64]:
        """Rows with each label (K,)."""
        labels = self.values
        if counted and self._points.weights is not None:
            labels = labels[self._points.weights > 0.0]
        found = torch.bincount(labels.clamp(min=-1) + 1, minlength=n_clusters + 1)
        return np.asarray(found[1:].cpu().numpy(), dtype=np.int64)

    def at(self, numbers: Numbers) -> npt.NDArray[np.int32]:
        """The labels of a few rows (m,)."""
        return self.values[_numbers(numbers)].cpu().numpy()

    def first_rows(self, is_sought: npt.NDArray[np.bool_], span: Span = None) -> Numbers:
        """The first row of the span with each label (K,) that is sought; n where there is none."""
        where, ends = span or (0, len(self.values)), self._ends
        if ends is not None and ends[0] == where and len(ends[1]) == len(is_sought):
            found = ends[1]
        else:
            found = start.ends(self.values, where, len(is_sought))[0].cpu().numpy()
        return np.where(is_sought, found, len(self.values))

    def last_rows(self, is_sought: npt.NDArray[np.bool_]) -> Numbers:
        """The last row with each label (K,) that is sought; -1 where there is none."""
        if self._ends is not None and len(self._ends[2]) == len(is_sought):
            found = self._ends[2]
        else:
            found = start.ends(self.values, (0, len(self.values)), len(is_sought))[1].cpu().numpy()
        return np.where(is_sought, found, -1)

    def surplus(self, room: npt.NDArray[np.int64]) -> Numbers:
        """The rows with each label k beyond the first room[k] (K,), in their order."""
        ordered, order = torch.sort(self.values, stable=True)  # by label, each in the order of its rows
        sizes = torch.bincount(ordered, minlength=len(room))
        begins = torch.cumsum(sizes, 0) - sizes
        own = ordered.long()
        places = torch.arange(len(own), device=own.device) - begins[own]
        is_beyond = places >= start.to_device(np.asarray(room, np.int64))[own]
        return np.sort(order[is_beyond].cpu().numpy())

    def refused(self, span: Span, most: int) -> Numbers:
        """The first rows of the span with a negative label, at most so many."""
        first, last = span or (0, len(self.values))
        found = torch.nonzero(self.values[first:last] < 0).ravel()[:most]
        return first + np.asarray(found.cpu().numpy(), dtype=np.int64)

    def n_refused(self, *, counted: bool = False) -> int:
        """How many rows have a negative label; with `counted`, of weight above 0."""
        is_refused = self.values < 0
        if counted and self._points.weights is not None:
            is_refused &= self._points.weights > 0.0
        return int(is_refused.sum())

    def to_host(self, names: npt.NDArray[np.int64] | None = None) -> npt.NDArray[Any]:
        """The labels (n,) as an array for the user."""
        if names is None:
            return everywhere(np.array(start.at_home(self.values)), self._points.is_present)
        found = start_frames.renamed(self.values, np.array(names, np.int64))
        return everywhere(found, self._points.is_present)

    # -------------------------------------------------------------------------------------------- changes

    def forget(self) -> None:
        """Nothing is known of clusters besides labels and sums."""

    def keep(self, is_kept: npt.NDArray[np.bool_]) -> None:
        """Drop clusters that have no rows; the others move up and keep their order."""
        if is_kept.all():
            return
        table = start.to_device(np.cumsum(is_kept, dtype=np.int32) - np.int32(1))
        self.values.copy_(table[self.values.long()])
        statistics, sums, ends = self._statistics, self._sums, self._ends
        if ends is not None:
            self._ends = (ends[0], ends[1][is_kept], ends[2][is_kept]) if len(ends[1]) == len(is_kept) else None
        if statistics is not None and sums is not None:
            kept = start.to_device(is_kept)
            self.note_sums(start.DeviceSums(sums.counts[kept], sums.resultants[kept]), statistics.select(is_kept))

    def copy(self) -> CudaLabels:
        """The same labels, to be changed by themselves."""
        twin = copy.copy(self)
        twin.values = self.values.clone()
        twin._sums = None if self._sums is None else self._sums.copy()
        return twin

    def put(self, numbers: Numbers, values: npt.ArrayLike) -> None:
        """Give a few rows their labels."""
        given = np.broadcast_to(np.asarray(values, dtype=np.int32), np.shape(numbers))
        if len(given) and (np.diff(numbers) == 1).all():  # a block of rows
            self.values[int(numbers[0]) : int(numbers[-1]) + 1] = start.to_device(given)
        else:
            self.values[_numbers(numbers)] = start.to_device(given)
        self.note(None, None)

    def fill(self, label: int, span: Span = None) -> None:
        """Give the rows of the span one label."""
        self.values[slice(None) if span is None else slice(*span)] = label
        self.note(None, None)

    def rename(self, table: npt.NDArray[np.integer[Any]]) -> None:
        """Label k becomes table[k]; negative ones stay."""
        given = start.to_device(np.asarray(table, dtype=np.int32))
        self.values.copy_(torch.where(self.values >= 0, given[self.values.clamp(min=0).long()], self.values))
        self.note(None, None)


class CudaColumn:
    """Values (n,) beside rows of these weights."""

    def __init__(self, values: torch.Tensor, points: CudaPoints) -> None:
        self.values = values
        self._points = points

    def top(self) -> float:
        """The largest value; 0 where there are no rows."""
        return max(0.0, float(self.values.max())) if len(self.values) else 0.0

    def pick(self, uniforms: Float64Array) -> Numbers:
        """Rows drawn with the probability of weight times value, by uniforms (m,); none where all of that is 0."""
        masses = self.masses(mass_grid(self._points.q, self.top()))
        if masses.total <= 0.0:
            return np.empty(0, dtype=np.int64)
        return masses.reached(mass_targets(uniforms, masses.total, masses.q))

    def masses(self, q: int) -> Masses:
        """Weight times value of the rows as multiples of 2^-q."""
        return Masses(whole_masses(self.values, self._points.weights, q), q)

    def at(self, numbers: Numbers) -> FloatArray:
        """The values of a few rows (m,)."""
        return self.values[_numbers(numbers)].cpu().numpy()

    def farthest(self, n_ignored: int = 0) -> int:
        """The row with the largest value but for `n_ignored` others; the first of equals."""
        return self.find(float(self.largest(n_ignored + 1)[0]))

    def largest(self, most: int) -> FloatArray:
        """The largest values, at most so many, the least of them first."""
        return torch.topk(self.values, min(most, len(self.values))).values.cpu().numpy()[::-1]

    def find(self, value: float) -> int:
        """The first row with this value; -1 where there is none."""
        found = torch.nonzero(self.values == value).ravel()[:1]
        return int(found[0]) if len(found) else -1

    def least(self, most: int, *, counted: bool = False) -> Numbers:
        """The rows with the smallest values, in their order, equals by number."""
        values, weights = self.values, self._points.weights
        numbers = torch.arange(len(values), device=values.device)
        if counted and weights is not None:
            numbers = torch.nonzero(weights).ravel()
        values = values[numbers]
        if most < len(numbers):
            # all that are no larger than the last wanted: equals are settled by their numbers
            is_low = values <= torch.topk(values, most, largest=False).values.max()
            numbers, values = numbers[is_low], values[is_low]
        order = torch.sort(values, stable=True).indices
        return np.asarray(numbers[order][:most].cpu().numpy(), dtype=np.int64)

    def to_host(self) -> FloatArray:
        """The values (n,)."""
        return self.values.cpu().numpy()


class Masses:
    """Weight times value of each row as whole numbers: running sums of them are exact."""

    def __init__(self, masses: torch.Tensor, q: int) -> None:
        self.q = q
        self._running = torch.cumsum(masses, 0)

    @property
    def total(self) -> float:
        """The mass of all rows."""
        return float(self._running[-1])

    def reached(self, targets: Float64Array) -> Numbers:
        """The first rows whose running sum is above the targets, which are below the total."""
        found = torch.searchsorted(self._running, start.to_device(np.asarray(targets)), right=True)
        return np.asarray(found.cpu().numpy(), dtype=np.int64)


def whole_masses(values: torch.Tensor, weights: torch.Tensor | None, q: int) -> torch.Tensor:
    """Weight times value (..., n) in float64, rounded to multiples of 2^-q."""
    own = values.double()
    magic = whole.rounder(q)
    return ((own if weights is None else own * weights) + magic) - magic


class CudaGroups:
    """Rows by their label: labels that follow merges."""

    def __init__(self, labels: CudaLabels) -> None:
        self.values = labels.values.clone()

    def merge(self, kept: int, gone: int) -> None:
        """Give the rows of `gone` to `kept`."""
        self.values[self.values == gone] = kept


def _numbers(numbers: Any) -> torch.Tensor:
    return start.to_device(np.asarray(numbers, dtype=np.int64))
