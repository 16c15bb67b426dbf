"""Rows on a GPU: passes with the labels and whole sums of the CPU, bit for bit.

torch holds the memory and starts kernels, which are in `kernels/gpu`. What is K-sized is done on the host, as
everywhere: rules go to the device with each pass, sums come home. Labels of wide rows come from a product of halves
that is only a filter (`kernels/gpu/choose.py`); whole sums are integers, so their order does not matter. Shares agree
to what `engines/contract.py` promises. Sets of rows are in `cuda_sets.py`. What has no form here yet says so: nothing
goes to the CPU in silence.
"""

from __future__ import annotations

import importlib
import math
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from functools import cached_property, partial
from typing import Any, NoReturn, TypeVar, cast

import numpy as np
import numpy.typing as npt
import torch

from armillary._typing import Float64Array
from armillary.engines.contract import (
    UNIT,
    Algorithm,
    Between,
    Counted,
    Directed,
    FewRows,
    Folder,
    Gate,
    Here,
    Labelled,
    Numbered,
    Numbers,
    Outcome,
    Placed,
    RowFunction,
    Rule,
    Scaled,
    Shuffled,
    Span,
    What,
    Which,
)
from armillary.engines.cpu import LaneSums, chosen_rows, most_evidence
from armillary.engines.cpu_column import EQUAL, mass_grid
from armillary.engines.cuda_labels import CudaColumn, CudaGroups, CudaLabels, whole_masses
from armillary.engines.cuda_points import CudaPoints, as_points, card_of, rows_at_home
from armillary.engines.cuda_sets import CudaHalves, CudaPartition
from armillary.exceptions import InputError, ParameterError
from armillary.kernels.gpu import start, start_frames, start_sets
from armillary.kernels.rows.contract import FLOAT32_SLOPE_LIMIT, Kernels
from armillary.kernels.select import kernels_for
from armillary.points import everywhere
from armillary.rules import AffineRule, Anchors, QuadraticRule
from armillary.sums import whole
from armillary.sums.directional import DirectionalStatistics
from armillary.validation import unit_block
from armillary.workers import thread_count

T = TypeVar("T")
# Scores of a table that stands on the device: 1 GiB of float64; and of one that goes home.
_TABLE_VALUES = 1 << 27
_HOME_VALUES = 1 << 24
# Rows of a function of scores that go home together.
_HOME_ROWS = 1 << 16


class CudaPasses:
    """Passes over one set of points on a GPU; see `engines/contract.py`."""

    # what starts kernels on rows of this form
    on: Any = start

    def __init__(self, points: CudaPoints) -> None:
        self.points = points
        self._pieces: dict[tuple[int, int], CudaPoints] = {}

    @cached_property
    def host(self) -> Kernels:
        """What the host does with a few rows."""
        return kernels_for("cpu")

    @cached_property
    def chooser(self) -> start.Chooser:
        """Labels by a rule."""
        points = self.points
        return start.Chooser(points.matrix, lambda: points.shadow, points.scratch)

    @cached_property
    def _rounder(self) -> float:
        return whole.rounder(self.points.q)

    def over(self, which: Which) -> CudaPasses:
        """Passes over some of the rows, as rows of their own; these themselves where that is all rows as they are."""
        points = self._chosen(which)
        return self if points is self.points else self._of(points)

    def _of(self, points: CudaPoints) -> CudaPasses:
        return CudaPasses(points)

    def _rows_of(self, part: slice) -> Any:
        return self.points.matrix[part]

    def _chosen(self, which: Which) -> CudaPoints:
        points = self.points
        match which:
            case Counted():
                return points.counted()
            case Shuffled(generator):
                return points.take(start.to_device(generator.permutation(points.n_rows)))
            case Numbered(numbers):
                return points.take(start.to_device(np.asarray(numbers, np.int64)))
            case Between(first, last):
                return points.between(first, last)
            case Placed(first_row, q):
                return points.placed(first_row, q)
            case Labelled(labels, label):
                return points.take(torch.nonzero(cast(CudaLabels, labels).values == label).ravel())
            case Scaled(column):
                factors = cast(CudaColumn, column).values.double()
                weights = factors if points.weights is None else points.weights * factors
                return CudaPoints(points.matrix, weights, points.who, points.first_row, points.is_present)
            case Directed():
                return self._refuse("rows of counts")

    def _refuse(self, what: str, instead: str = "device='cpu'") -> NoReturn:
        raise InputError(
            f"X of {self.points.who} must be rows on the CPU here: {what} have no form on a GPU yet; got rows on a "
            f"GPU. Use {instead}."
        )

    # ------------------------------------------------------------------------------------- beside the rows

    def labels(
        self, algorithm: Algorithm = "lloyd", n_clusters: int | None = None, into: npt.NDArray[np.int32] | None = None
    ) -> CudaLabels:
        """Labels, all -1. Bounds are not kept: a product of halves takes less than to look at them."""
        return self.labels_of(torch.full((self.points.n_rows,), -1, dtype=torch.int32, device=start.device()))

    def labels_of(self, values: torch.Tensor) -> CudaLabels:
        """Labels (n,) int32 that are on the device."""
        return CudaLabels(self.points, values)

    def labels_from(self, values: npt.NDArray[np.integer[Any]]) -> CudaLabels:
        """Labels that a user gave (n,)."""
        return self.labels_of(start.to_device(np.asarray(values).astype(np.int32)))

    def random_labels(self, n_clusters: int, generator: np.random.Generator) -> CudaLabels:
        """A label from 0 to K - 1 for each row, by chance."""
        return self.labels_from(generator.integers(n_clusters, size=self.points.n_rows, dtype=np.int32))

    def column(self, fill: float, *, is_exact: bool = False) -> CudaColumn:
        """One number beside each row."""
        dtype = torch.float64 if is_exact or self.points.dtype == np.float64 else torch.float32
        return self._beside(torch.full((self.points.n_rows,), fill, dtype=dtype, device=start.device()))

    def _beside(self, values: torch.Tensor) -> CudaColumn:
        return CudaColumn(values, self.points)

    def own(self, rule: AffineRule, labels: Any) -> CudaColumn:
        """The float64 score of each row with its own label."""
        return self._beside(self.on.own_scores(self.points.matrix, start.DeviceRule.of(rule), labels.values))

    def inverse_lengths(self) -> CudaColumn:
        """1 / |x| of each row, to float64 precision."""
        return self._beside(1.0 / start.roots(self.on.squares(self.points.matrix)))

    def lower(self, column: Any, rule: AffineRule, *, is_exact: bool = False) -> None:
        """Lower to 1 - the best score of the rule, where that is less."""
        given, rows = start.DeviceRule.of(rule), self.points.matrix
        if is_exact:
            best = torch.zeros(len(rows), dtype=torch.int32, device=rows.device)
            if given.n_clusters > 1 and len(rows):
                best.fill_(-1)
                self.chooser.label(given, best, (0, len(rows)))
            scores = self.on.own_scores(rows, given, best)
        else:
            scores = self.on.row_scores(rows, given)[:, 0]
        torch.minimum(column.values, _distances(scores), out=column.values)

    def left(self, column: Any, rule: AffineRule) -> Float64Array:
        """The weighted sum that would remain if each cluster of the rule (K,) were used to `lower` by itself."""
        q, given, points = mass_grid(self.points.q, column.top()), start.DeviceRule.of(rule), self.points
        total = torch.zeros(given.n_clusters, dtype=torch.float64, device=start.device())
        for part in self._parts(given.n_clusters):
            lowered = torch.minimum(
                _distances(self.on.row_scores(self._rows_of(part), given)), column.values[part][:, None]
            )
            weights = None if points.weights is None else points.weights[part]
            total += whole_masses(lowered.T, weights, q).sum(dim=1)
        return total.cpu().numpy()

    def _parts(self, n_clusters: int, most: int | None = None) -> Iterator[slice]:
        """Rows whose scores stand in one table."""
        step = max(1, (_TABLE_VALUES if most is None else most) // max(1, n_clusters))
        for first in range(0, self.points.n_rows, step):
            yield slice(first, min(first + step, self.points.n_rows))

    def groups(self, labels: Any, n_clusters: int) -> CudaGroups:
        """Rows by their label."""
        return CudaGroups(labels)

    def lowest(self, groups: Any, rule: AffineRule, clusters: Iterable[int]) -> float:
        """The lowest float64 score that a row of some clusters has with a rule of one cluster; inf for no rows."""
        wanted = start.to_device(np.fromiter(clusters, np.int32))
        numbers = torch.nonzero(torch.isin(groups.values, wanted)).ravel()
        if not len(numbers):
            return math.inf
        rows = self.points.matrix[numbers]
        nothing = torch.zeros(len(rows), dtype=torch.int32, device=rows.device)
        return float(self.on.own_scores(rows, start.DeviceRule.of(rule), nothing).min())

    # ------------------------------------------------------------------------------------------ the passes

    def label(self, rule: AffineRule, labels: Any, *, span: Span = None, sums: bool = True) -> Outcome:
        """Write the best cluster of each row of the span over its label, or refuse the row."""
        n_clusters = len(rule.offsets)
        if not self.points.n_rows:
            return Outcome(DirectionalStatistics.zero(*rule.shape, self.points.q) if sums else None)
        if self._is_frame(n_clusters):
            return self._label_frame(rule, labels, span or (0, self.points.n_rows), sums=sums)
        if span is None and sums:
            found, statistics = labels.sweep(self, rule)
            return Outcome(statistics, 0.0, found.n_moved, found.n_refused)
        rows = span or (0, self.points.n_rows)
        labels.note(None, None)
        if rows[0] >= rows[1]:
            return Outcome(self.sum(labels, n_clusters) if sums else None)
        found = self.chooser.label(start.DeviceRule.of(rule), labels.values, rows)
        if not sums:
            return Outcome(None, n_refused=found.n_refused)
        if rows[1] < self.points.n_rows:
            return Outcome(self.sum(labels, n_clusters), n_refused=labels.n_refused())
        return Outcome(self.sum(labels, n_clusters), 0.0, found.n_moved, found.n_refused)

    def _is_frame(self, n_clusters: int) -> bool:
        """Whether a pass is one kernel."""
        return not self.points.is_sparse and start_frames.is_served(self.points.n_features, n_clusters)

    def _label_frame(self, rule: AffineRule, labels: Any, span: tuple[int, int], *, sums: bool) -> Outcome:
        """`label` of narrow rows and few clusters: the first and last rows of each come home with the sums."""
        points = self.points
        if span[0] >= span[1]:
            return Outcome(self.sum(labels, len(rule.offsets)) if sums else None)
        weights, rounder = (points.sum_weights, self._rounder) if sums else (None, None)
        found = start_frames.sweep(points.matrix, weights, rule, labels.values, span, rounder)
        if not sums:
            labels.note(None, None)
            return Outcome(None, n_refused=found.n_refused)
        quantum = math.ldexp(1.0, -points.q)
        counts, resultants = (quanta.astype(np.float64) * quantum for quanta in (found.counts, found.resultants))
        statistics = DirectionalStatistics(counts, resultants, points.q)
        labels.note(found.sums, statistics, (span, found.firsts, found.lasts))
        if span[1] < points.n_rows:
            return Outcome(statistics, n_refused=found.n_negative)
        return Outcome(statistics, 0.0, found.n_moved, found.n_refused)

    def name(self, rule: AffineRule, names: npt.NDArray[np.int64], over: Any | None = None) -> npt.NDArray[np.int64]:
        """The name of the best cluster of each row, for the user."""
        points = self.points
        if points.n_rows and self._is_frame(len(rule.offsets)):
            found = start_frames.names(points.matrix, rule, np.asarray(names, np.int64))
            return everywhere(found, points.is_present)
        labels = self.labels()
        self.label(rule, labels, sums=False)
        return labels.to_host(names)

    def sum(self, labels: Any | None, n_clusters: int, within: tuple[int, int] | None = None) -> DirectionalStatistics:
        """Statistics of the labelled rows; None: all rows as cluster 0. `within`: of the clusters from..to alone."""
        if labels is None:
            nothing = torch.zeros(self.points.n_rows, dtype=torch.int32, device=start.device())
            return self.at_home(self.device_sums(nothing, n_clusters))
        if within is None or within == (0, n_clusters):
            known: DirectionalStatistics | None = labels.known(self.points, n_clusters)
            if known is None:
                sums = self.device_sums(labels.values, n_clusters)
                known = self.at_home(sums)
                if self.points.weights is labels._points.weights:
                    labels.note_sums(sums, known)
            return known
        first, last = within
        values = labels.values
        inside = torch.where((values >= first) & (values < last), values - first, -1).int()
        return self.at_home(self.device_sums(inside, last - first))

    def device_sums(self, labels: torch.Tensor, n_clusters: int) -> start.DeviceSums:
        """Sums in quanta, where the rows are."""
        return self.on.sum_rows(self.points.matrix, self.points.sum_weights, labels, n_clusters, self._rounder)

    def add_moved(
        self, labels: torch.Tensor, moved: tuple[torch.Tensor, torch.Tensor, torch.Tensor], into: start.DeviceSums
    ) -> None:
        """Bring sums up to date by rows that moved."""
        self.on.move_rows(self.points.matrix, self.points.sum_weights, labels, moved, into, self._rounder)

    def at_home(self, sums: start.DeviceSums) -> DirectionalStatistics:
        """Sums as the host has them: quanta times 2^-q, exactly; in one array, so that the host waits once."""
        both = torch.cat([sums.counts, sums.resultants.ravel()]).double() * math.ldexp(1.0, -self.points.q)
        home, n_clusters = start.to_host(both), len(sums.counts)
        counts = home[:n_clusters].copy()  # which may be kept by itself
        return DirectionalStatistics(counts, home[n_clusters:].reshape(n_clusters, -1), self.points.q)

    def move(self, labels: Any, numbers: Numbers, values: npt.ArrayLike) -> None:
        """Give a few rows their labels; sums that are known stay so."""
        labels.move(self, numbers, np.asarray(values, dtype=np.int32))

    def weigh(self, labels: Any, n_clusters: int) -> Float64Array:
        """The sum of the weights of each cluster's rows (K,)."""
        weights = self.points.host_weights
        values = np.maximum(labels.values.cpu().numpy(), -1) + 1
        return np.bincount(values, weights, minlength=n_clusters + 1)[1:].astype(np.float64, copy=False)

    # --------------------------------------------------------------------------------------------- softmax

    def _soft_table(self, rows: torch.Tensor, rule: start.DeviceRule) -> torch.Tensor:
        """Scores (m, K) for a softmax: float64, or float32 where rows, slopes and offsets allow it, as on the CPU."""
        if self._is_float32(rule.rule):
            return torch.addmm(rule.offsets.float(), rows, rule.vectors.float().T)
        return torch.addmm(rule.offsets, rows.double(), rule.vectors.T)

    def _is_float32(self, rule: AffineRule) -> bool:
        """Whether scores of a softmax are float32: the rule of the CPU (kernels/rows/blocks.py)."""
        longest = float(np.sqrt(np.vecdot(rule.vectors, rule.vectors).max(initial=0.0)))
        largest = max(longest, float(np.abs(rule.offsets).max(initial=0.0)))
        is_wide = self.points.n_features > start.SHORT
        return self.points.matrix.dtype == torch.float32 and is_wide and largest < FLOAT32_SLOPE_LIMIT

    def _soft_parts(self, n_clusters: int, most: int | None = None) -> Iterator[slice]:
        """Rows that are shared together: copies of them, widened or halved, stand beside their scores."""
        return self._parts(n_clusters + self.points.n_features, most)

    def _shares(self, rows: torch.Tensor, rule: start.DeviceRule) -> tuple[torch.Tensor, torch.Tensor]:
        """Shares (m, K), in the type of the scores, and log evidence (m,) in float64."""
        table = self._soft_table(rows, rule)
        top = table.amax(dim=1, keepdim=True)
        table.sub_(top).exp_()
        total = table.sum(dim=1, dtype=torch.float64)
        table.div_(total[:, None].to(table.dtype))
        return table, top[:, 0].double() + torch.log(total)

    def share(self, rule: AffineRule, *, is_lent: bool = False) -> Outcome:
        """Sums with every row shared by responsibility, and the evidence."""
        given, points = start.DeviceRule.of(rule), self.points
        if self._is_float32(rule) and given.n_clusters <= start.MOST_SHARED:
            return self._share_halves(given)
        place = start.device()
        counts = torch.zeros(given.n_clusters, dtype=torch.float64, device=place)
        resultants = torch.zeros(rule.shape, dtype=torch.float64, device=place)
        evidence = torch.zeros((), dtype=torch.float64, device=place)
        # weights of any size do not fit into float32
        weights, most = self._even_weights() if self._is_float32(rule) else (points.weights, 1.0)
        for part in self._soft_parts(given.n_clusters):
            rows = self._rows_of(part)
            shares, log_evidence = self._shares(rows, given)
            if weights is not None:
                own = weights[part]
                shares.mul_(own[:, None].to(shares.dtype))
                log_evidence = log_evidence * own
            evidence += log_evidence.sum()
            counts += shares.sum(dim=0, dtype=torch.float64)
            resultants += self._shared(shares, rows)
        statistics = DirectionalStatistics((most * counts).cpu().numpy(), (most * resultants).cpu().numpy())
        return Outcome(statistics, most * float(evidence))

    def _even_weights(self) -> tuple[torch.Tensor | None, float]:
        """Weights that are at most 1, and what they were divided by."""
        weights = self.points.weights
        if weights is None or not self.points.n_rows:
            return weights, 1.0
        most = max(float(weights.max()), 1e-300)
        return weights / most, most

    def _shared(self, shares: torch.Tensor, rows: Any) -> torch.Tensor:
        """Sums of rows by their shares (K, D)."""
        return (shares.T @ rows.to(shares.dtype)).double()

    def shared_lanes(self, rule: AffineRule) -> LaneSums:
        """What `share` adds up, for rows that are a part of more: all rows are one lane."""
        return LaneSums([self.share(rule)], rule.shape)

    def _share_halves(self, rule: start.DeviceRule) -> Outcome:
        """`share` of wide float32 rows, on tensor cores."""
        sums = start.SoftSums(rule, self.points.n_features)
        weights, most = self._even_weights()
        evidence = torch.zeros((), dtype=torch.float64, device=start.device())
        for part in self._soft_parts(rule.n_clusters):
            own = None if weights is None else weights[part]
            found = sums.add(self._rows_of(part), own)
            evidence += found.sum() if own is None else (found * own).sum()
        counts, resultants = sums.sums()
        statistics = DirectionalStatistics((most * counts).cpu().numpy(), (most * resultants).cpu().numpy())
        return Outcome(statistics, most * float(evidence))

    def evidence(self, rule: AffineRule) -> float:
        """The weighted sum over rows of log sum exp score: a whole sum, on a grid by the rule's bound on a score."""
        found = self._log_evidence(rule)
        q = mass_grid(self.points.q, most_evidence(rule))
        return float(whole_masses(found, self.points.weights, q).sum())

    def _log_evidence(self, rule: AffineRule) -> torch.Tensor:
        given = start.DeviceRule.of(rule)
        found = torch.empty(self.points.n_rows, dtype=torch.float64, device=start.device())
        for part in self._soft_parts(given.n_clusters):
            found[part] = self._shares(self._rows_of(part), given)[1]
        return found

    # ----------------------------------------------------------------------------------------------- draws

    def anchors(self, labels: Any, key: tuple[int, int], n_clusters: int) -> Anchors:
        """The row of each cluster with the lowest priority."""
        points = self.points
        own = start.uniforms(key, points.first_row, points.n_rows)
        return Anchors(key, *start_sets.anchors(labels.values, own, points.first_row, n_clusters))

    def draw(self, rule: Rule, labels: Any, key: tuple[int, int], anchors: Anchors | None = None) -> None:
        """Write one draw per row over its label, among the clusters that its priority allows; anchors stay."""
        points, n_clusters = self.points, len(rule.offsets)
        given: Any = start.DeviceRule.of(rule) if isinstance(rule, AffineRule) else start_sets.DeviceForms.of(rule)
        beside = None if anchors is None else (start.to_device(anchors.priorities), start.to_device(anchors.rows))
        for part in self._parts(n_clusters):
            own, first, n_rows = labels.values[part], points.first_row + part.start, part.stop - part.start
            if isinstance(rule, AffineRule):
                # the CPU's scores of more than 16 columns are products of BLAS, whose last bits are its own
                scores = self.on.table(self._rows_of(part), given, torch.float64).T.contiguous()
            else:
                scores = start_sets.table_to_draw_from(points.matrix[part], given, own)
            stays = None
            if anchors is not None and beside is not None:
                stays = (start.uniforms(anchors.key, first, n_rows), *beside)
            start_sets.choose(scores, own, start.uniforms(key, first, n_rows), first, stays)
        labels.note(None, None)

    # ---------------------------------------------------------------------------------------------- scores

    def compare(self, rule: AffineRule, labels: Any, first: int, own: Any, nearest: Any) -> None:
        """Write scores with own clusters over `own`, and raise `nearest` to the largest of the others."""
        given = start.DeviceRule.of(rule)
        for part in self._parts(given.n_clusters):
            scores = self.on.table(self._rows_of(part), given, torch.float64)
            codes = (labels.values[part] - first).long()
            is_here = (codes >= 0) & (codes < given.n_clusters)
            places = codes.clamp(0, given.n_clusters - 1)[:, None]
            found = scores.gather(1, places)
            own.values[part] = torch.where(is_here, found[:, 0].to(own.values.dtype), own.values[part])
            scores.scatter_(1, places, torch.where(is_here[:, None], -math.inf, found))
            best = scores.amax(dim=1).to(nearest.values.dtype)
            nearest.values[part] = torch.maximum(nearest.values[part], best)

    def fold(
        self,
        rule: AffineRule | None,
        folder: Folder[Any, T],
        labels: Any | None = None,
        columns: Sequence[Any] = (),
    ) -> T:
        """A summary of the scores of all rows, with what lies beside them: scores are made here, and folded at home."""
        dtype = torch.float64 if folder.is_exact else self.points.matrix.dtype
        by_row = getattr(folder, "is_by_row", False)
        tables = self._tables(rule, dtype, labels, columns, by_row=by_row)
        return folder.join([folder.part(scores, here) for scores, here in tables])

    def _tables(
        self,
        rule: Rule | None,
        dtype: torch.dtype,
        labels: Any | None,
        columns: Sequence[Any],
        *,
        by_row: bool = False,
    ) -> Iterator[tuple[Any, Here]]:
        """Scores of some rows at home, and what lies beside them."""
        score = None if rule is None else _scores_by(self.on, rule, dtype, by_row=by_row)
        n_clusters = 0 if rule is None else len(rule.offsets)
        points = self.points
        step = max(1, min(_HOME_ROWS, _HOME_VALUES // max(1, n_clusters)))
        for first in range(0, points.n_rows, step):
            part = slice(first, min(first + step, points.n_rows))
            rows = self._rows_of(part)
            if score is None:
                scores = np.empty((len(rows), 0), np.float64 if dtype == torch.float64 else np.float32)
            else:
                scores = score(rows).cpu().numpy()
            weights = points.host_weights
            yield (
                scores,
                Here(
                    points.first_row + first,
                    None if weights is None else weights[part],
                    None if labels is None else labels.values[part].cpu().numpy(),
                    tuple(column.values[part].cpu().numpy() for column in columns),
                    partial(rows_at_home, rows),
                ),
            )

    def values(
        self, rule: Rule | None, what: What | RowFunction, labels: Any | None = None, columns: Sequence[Any] = ()
    ) -> npt.NDArray[Any]:
        """Something of each row for the user, (n,) or (n, K)."""
        if not isinstance(what, str):
            found = [what.of(scores, here) for scores, here in self._tables(rule, torch.float64, labels, columns)]
            return np.concatenate(found) if len(found) != 1 else found[0]
        assert isinstance(rule, AffineRule)
        if what == "evidence":
            return self._log_evidence(rule).cpu().numpy()
        given = start.DeviceRule.of(rule)
        dtype = self.points.dtype if what == "scores" else np.dtype(np.float64)
        table = np.empty((self.points.n_rows, given.n_clusters), dtype)
        for part in self._soft_parts(given.n_clusters, _HOME_VALUES) if table.size else ():
            rows = self._rows_of(part)
            found_part = self.on.table(rows, given, rows.dtype) if what == "scores" else self._shares(rows, given)[0]
            table[part] = found_part.cpu().numpy()
        return table

    def mean(self, values: npt.NDArray[Any]) -> float:
        """The mean of something of each row (n,), weighted as the rows are."""
        return float(np.average(values, weights=self.points.host_weights))

    # -------------------------------------------------------------------------------------------- few rows

    def rows(self, numbers: range | Numbers) -> FewRows:
        """A few rows on the host."""
        points, weights = self.points, self.points.host_weights
        if isinstance(numbers, range):
            part = slice(numbers.start, numbers.stop)
            block = rows_at_home(points.matrix[part])
            return FewRows(np.arange(numbers.start, numbers.stop), block, None if weights is None else weights[part])
        chosen = np.asarray(numbers, np.int64)
        block = rows_at_home(points.matrix[start.to_device(chosen)])
        return FewRows(numbers, block, None if weights is None else weights[chosen])

    def unit_rows(self, numbers: npt.ArrayLike) -> Float64Array:
        """A few rows (m, D), dense and of unit length in float64."""
        block = self.rows(np.asarray(numbers, np.int64)).block
        return np.asarray(unit_block(np.asarray(block, dtype=np.float64), 0, self.points.who))

    def weights_at(self, numbers: Numbers) -> Float64Array | None:
        """The weights of a few rows (m,)."""
        weights = self.points.host_weights
        return None if weights is None else weights[numbers]

    def choose(self, n_rows: int, generator: np.random.Generator) -> Numbers:
        """Distinct rows, each drawn with the probability of its weight."""
        return chosen_rows(self.points.n_rows, self.points.host_weights, n_rows, generator)

    def partition(self, labels: Any, n_clusters: int | None = None) -> CudaPartition:
        """All rows by their labels, which have no gaps; rows that are a part are told how many clusters there are."""
        return CudaPartition(self, labels, n_clusters)

    def top_label(self, labels: Any) -> int:
        """The largest label."""
        return int(labels.values.max()) if len(labels.values) else -1

    def halves(self, is_left: npt.NDArray[np.bool_] | None = None) -> CudaHalves:
        """A side beside each row: as given (n,), or all right."""
        given = np.zeros(self.points.n_rows, dtype=np.int8) if is_left is None else is_left.astype(np.int8)
        return CudaHalves(start.to_device(given))

    def each(self, spans: Sequence[tuple[int, int]], task: Callable[[int, Any], T]) -> list[T]:
        """`task(number, passes)` over the rows of each span, in turn."""
        return [task(number, self._of(self._piece(*span))) for number, span in enumerate(spans)]

    def _piece(self, first: int, last: int) -> CudaPoints:
        """The rows from..to, the same points every time: they know their shadow."""
        known = self._pieces.get((first, last))
        if known is None:
            known = self._pieces[first, last] = self.points.between(first, last)
        return known

    def by_feature(self, edges: npt.NDArray[np.int64]) -> None:
        """Rows here are dense."""
        return


def _scores_by(on: Any, rule: Rule, dtype: torch.dtype, *, by_row: bool) -> Callable[[Any], torch.Tensor]:
    """Scores (m, K) of some rows by a rule."""
    if isinstance(rule, QuadraticRule):
        forms = start_sets.DeviceForms.of(rule)
        return lambda rows: start_sets.table(rows, forms).T.contiguous()
    given = start.DeviceRule.of(rule)
    return lambda rows: on.row_scores(rows, given) if by_row else on.table(rows, given, dtype)


def _distances(cosines: torch.Tensor) -> torch.Tensor:
    """1 - cos, 0 for equal directions: rounding must not make a row seem apart from itself."""
    apart = 1.0 - cosines
    return torch.where(apart < EQUAL["f" if cosines.dtype == torch.float32 else "d"], torch.zeros_like(apart), apart)


class CudaEngine:
    """The engine of rows on a GPU, the current one or the one of a number; see `engines/contract.py`."""

    def __init__(self, card: int | None = None) -> None:
        self.name = "cuda" if card is None else f"cuda:{card}"
        self._card = card
        reason = why_not(card)
        if reason:
            raise ParameterError(f"`device` must have a GPU here; got '{self.name}'. {reason}")

    def points(
        self,
        X: Any,
        who: str,
        sample_weight: Any = None,
        expected_features: int | None = None,
        gate: Gate = UNIT,
    ) -> Any:
        """Check rows and their weights, on the device; rows that it has no room for, block by block in every pass."""
        place = _place_of(X)
        if place is not None and self._card not in (None, place.index):
            raise InputError(
                f"X of {who} must be on the card that `device` names; got rows on {place} and device='{self.name}'. "
                f"Move them: X.to('{self.name}'), or leave `device` to go where X is."
            )
        with _at(self._card if place is None else place), _sentences(who):
            given = X, who, sample_weight, expected_features, gate
            found = _stream().host_points(*given) or _sparse().csr_points(*given) or as_points(*given)
            return replace(found, engine=self.name)

    @contextmanager
    def open(self, points: Any, n_threads: int | None, who: str) -> Iterator[Any]:
        """Passes over points, on the device that they are on and the stream that is current there."""
        thread_count(n_threads, who)
        if not isinstance(points, CudaPoints):
            with _at(self._card), _sentences(who), _stream().streamed(points) as passes:
                yield passes
            return
        with _at(_place_of(points.matrix.data)), _sentences(who):
            yield _sparse().SparsePasses(points) if points.is_sparse else CudaPasses(points)


def _stream() -> Any:
    """Rows that go by in blocks: that module knows this one's passes."""
    return importlib.import_module("armillary.engines.cuda_stream")


def _sparse() -> Any:
    """CSR rows, as `_stream`."""
    return importlib.import_module("armillary.engines.cuda_sparse")


def _place_of(X: Any) -> torch.device | None:
    """The card that rows are on; None where they are on none, or do not say it in the words of torch or DLPack."""
    if isinstance(X, torch.Tensor):
        return X.device if X.is_cuda else None
    card = card_of(X)
    return None if card is None else torch.device("cuda", card)


def _at(card: torch.device | int | None) -> AbstractContextManager[Any]:
    """A card as the current one: kernels start there, though another may be current."""
    return nullcontext() if card is None or start.IS_INTERPRETED else torch.cuda.device(card)


@contextmanager
def _sentences(who: str) -> Iterator[None]:
    """What the driver says, in a sentence."""
    try:
        yield
    except torch.OutOfMemoryError as error:
        raise InputError(
            f"X of {who} must fit into the memory of the GPU, with half of it again for its shadow; there was no more: "
            f"{str(error).splitlines()[0]} Give fewer rows, float32 rows, or use device='cpu'."
        ) from error
    except start.KernelError as error:
        raise _not_compiled(who, error) from error
    except RuntimeError as error:
        said = str(error)
        if said.startswith(_NO_MEMORY):
            raise InputError(
                f"X of {who} must leave room on the GPU, and page-locked memory on the host where rows go by in "
                f"blocks; the driver had none: {said.splitlines()[0]} Give fewer rows, end what else is there, or use "
                "device='cpu'."
            ) from error
        if said.startswith(_NO_COMPILER):
            raise _not_compiled(who, error) from error
        raise


# How sentences of the driver begin, by way of torch and triton, and those of the compiler that are no `KernelError`.
_NO_MEMORY = (
    "CUDA error: out of memory",
    "CUDA error: CUBLAS_STATUS_ALLOC_FAILED",
    "Triton Error [CUDA]: out of memory",
)
_NO_COMPILER = ("Failed to find C compiler", "PassManager::run failed")


def _not_compiled(who: str, error: Exception) -> ParameterError:
    return ParameterError(
        f"`device` of {who} must be a card that its kernels can be compiled for; one of them was not, by triton "
        f"{start.version()}: {str(error).strip().splitlines()[-1].rstrip('.')}. Use device='cpu', and tell us."
    )


def why_not(card: int | None = None) -> str:
    """Why no rows can be worked on by the current card, or the one of a number; empty where they can."""
    n_cards = 1 if start.IS_INTERPRETED else torch.cuda.device_count()
    if not start.IS_INTERPRETED and not torch.cuda.is_available():
        return "No CUDA device, or no driver for it, was found: use device='cpu', or None to go where X is."
    if card is not None and card >= n_cards:
        return f"There are {n_cards} of them, counted from 0: use device='cuda:{n_cards - 1}' at most."
    if start.IS_INTERPRETED:
        return ""
    major, minor = torch.cuda.get_device_capability(card)
    if major < 8:
        return f"Cards from compute capability 8.0 on are served, this one has {major}.{minor}: use device='cpu'."
    return ""


def described() -> str:
    """The card and what drives it, in a line."""
    reason = why_not()
    if reason:
        return reason
    if start.IS_INTERPRETED:
        return f"Triton's interpreter on the CPU, for tests (torch {torch.__version__}, triton {start.version()})"
    found = torch.cuda.get_device_properties(torch.cuda.current_device())
    return (
        f"{found.name}, {found.total_memory / 2**30:.0f} GiB, compute capability {found.major}.{found.minor} "
        f"(torch {torch.__version__}, triton {start.version()})"
    )


def like(X: Any, found: Any) -> Any:
    """Arrays on the device that X is on, in its kind: a tensor of torch, or what its library makes of one."""
    if isinstance(found, tuple):
        return tuple(like(X, each) for each in found)
    if not isinstance(found, np.ndarray) or found.dtype.kind not in "fiub":
        return found
    place = X.device if isinstance(X, torch.Tensor) else _place_of(X)
    tensor = torch.from_numpy(np.ascontiguousarray(found)).to(start.device() if place is None else place)
    if isinstance(X, torch.Tensor):
        return tensor
    home = type(X).__module__.split(".")[0].replace("cupyx", "cupy")  # where CuPy has its sparse matrices
    make = getattr(sys.modules.get(home), "from_dlpack", None)
    return tensor if make is None else make(tensor)
