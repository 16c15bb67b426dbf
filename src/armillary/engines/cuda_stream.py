"""Rows that a GPU has no room for: they stay on the host and go by in blocks, the next copied while one is worked on.

A block of rows is a part (`engines/partitioned.py`): passes over it bring it to the device, and its labels, 4 bytes a
row, stay there. Rows cross the bus as they are stored, float16 as float16, and are looked at, widened and made unit on
the device in every pass, as those of files are on the CPU. There are two buffers on either side. One thread fills one
in page-locked memory and starts its copy on a stream of its own, while kernels work on the other.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NoReturn, TypeVar, cast

import numpy as np
import numpy.typing as npt
import torch

from armillary._typing import Float64Array
from armillary.cores import usable_cores
from armillary.engines.contract import (
    Between,
    Counted,
    Directed,
    FewRows,
    Gate,
    Labelled,
    Numbered,
    Numbers,
    Placed,
    Scaled,
    Shuffled,
    Which,
)
from armillary.engines.cpu import chosen_rows
from armillary.engines.cuda import CudaPasses
from armillary.engines.cuda_labels import CudaLabels, Ends
from armillary.engines.cuda_points import MOST_ROWS, TORCH_TYPES, CudaPoints, refuse_all_missing, unit_rows
from armillary.engines.cuda_sources import CsrSource, Source, fits, torch_type
from armillary.engines.cuda_sparse import SparsePasses, dense_unit_rows, unit_csr
from armillary.engines.partitioned import PartedColumn, PartedLabels, Partitioned
from armillary.exceptions import InputError, RowError
from armillary.kernels.gpu import start, start_sparse
from armillary.points import SparseBlock, as_present_points, everywhere, refuse_stored
from armillary.points import as_points as as_host_points
from armillary.sources.memory import in_words
from armillary.sources.stored import StoredRows
from armillary.sums import whole
from armillary.validation import as_matrix, check_sample_weight, computing_dtype, has_direction, unit_matrix

T = TypeVar("T")
_logger = logging.getLogger("armillary.engines")
# Sums that labels of all blocks know between passes, in bytes: beyond, they are found anew where they are asked for.
_KNOWN_SUMS = 1 << 30
# Threads that copy rows to page-locked memory: one has 8 GB/s, a bus 55.
_COPIERS = 8


# ----------------------------------------------------------------------------------------------------------- the belt


class _Slot:
    """One buffer on either side of the bus, and what has happened to it."""

    def __init__(self, n_bytes: int) -> None:
        self.n_bytes = n_bytes
        self.is_plain = start.IS_INTERPRETED
        self.home = torch.empty(n_bytes, dtype=torch.uint8, pin_memory=not self.is_plain)
        self.there = self.home if self.is_plain else torch.empty(n_bytes, dtype=torch.uint8, device=start.device())
        self.copied: Any = None if self.is_plain else torch.cuda.Event()
        self.released: Any = None if self.is_plain else torch.cuda.Event()
        self.let_go()  # its memory may have been another's, whose kernels still run

    def let_go(self) -> None:
        """Kernels that were started are the last to read it."""
        if not self.is_plain:
            self.released.record()


class _Block:
    """A block of rows on the device."""

    def __init__(self, key: tuple[int, int, int], source: Source, slot: _Slot, raw: Any) -> None:
        self.key, self.source, self.slot, self.raw = key, source, slot, raw
        self.unit: Any = None
        self.shadow: tuple[torch.Tensor, torch.Tensor] | None = None


class Belt:
    """Brings blocks of rows to the device: the one asked for, and behind it the next."""

    def __init__(self, who: str) -> None:
        self._who = who
        self._slots: list[_Slot] = []
        self._now: _Block | None = None
        self._next: tuple[tuple[int, int, int], Future[_Block]] | None = None
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="armillary-streaming")
        self._copiers = ThreadPoolExecutor(min(_COPIERS, usable_cores()), thread_name_prefix="armillary-copying")
        self._place = start.device()
        self._side = None if start.IS_INTERPRETED else torch.cuda.Stream()
        self._scratch: tuple[int, start.Scratch] | None = None

    def block(self, source: Source, span: tuple[int, int], following: tuple[int, int]) -> _Block:
        """The rows from..to of a source; those that follow are on their way then."""
        found = self.raw(source, span, following)
        if found.unit is None:
            found.unit, found.shadow = self._unit(found)
        return found

    def raw(self, source: Source, span: tuple[int, int], following: tuple[int, int]) -> _Block:
        """`block`, its rows as they are stored."""
        key = (id(source), *span)
        if self._now is None or self._now.key != key:
            self._let_go()
            self._now = self._arrived(key, source)
            if following != span:
                self._send((id(source), *following), source)
        return self._now

    def scratch(self, n_rows: int) -> start.Scratch:
        """What passes write down, in the place of the block before."""
        if self._scratch is None or self._scratch[0] < n_rows:
            n_room = n_rows + 1  # blocks of one source have lengths equal to within one
            self._scratch = n_room, start.Scratch(n_room)
        return self._scratch[1]

    def close(self) -> None:
        """Give everything back; copies that are under way end first."""
        self._forget_next()
        self._now = None
        self._pool.shutdown()
        self._copiers.shutdown()
        if self._side is not None:
            self._side.synchronize()
        self._slots.clear()
        self._scratch = None

    def _let_go(self) -> None:
        if self._now is not None:
            self._now.slot.let_go()
            self._now = None

    def _arrived(self, key: tuple[int, int, int], source: Source) -> _Block:
        if self._next is None or self._next[0] != key:
            self._forget_next()
            self._send(key, source)
        assert self._next is not None
        block = self._next[1].result()
        self._next = None
        if self._side is not None:
            torch.cuda.current_stream().wait_event(block.slot.copied)
        return block

    def _forget_next(self) -> None:
        if self._next is not None:
            self._next[1].exception()  # it may have failed, and nobody wants it
            self._next = None

    def _send(self, key: tuple[int, int, int], source: Source) -> None:
        slot = self._slot(source.n_bytes(*key[1:]))
        self._next = key, self._pool.submit(self._bring, key, source, slot)

    def _slot(self, n_bytes: int) -> _Slot:
        """A buffer that no block is in."""
        used = None if self._now is None else self._now.slot
        free = [slot for slot in self._slots if slot is not used]
        for slot in free:
            if slot.n_bytes >= n_bytes:
                return slot
        if self._side is not None:
            self._side.synchronize()  # the memory of one that is too small is used again by others
        self._slots = [slot for slot in self._slots if slot is used]
        self._slots.append(_Slot(max(n_bytes, 1)))
        return self._slots[-1]

    def _bring(self, key: tuple[int, int, int], source: Source, slot: _Slot) -> _Block:
        _, first, last = key
        n_bytes = source.n_bytes(first, last)
        if not slot.is_plain:
            torch.cuda.set_device(self._place)
            slot.copied.synchronize()  # the copy before has left the host
        source.fill(first, last, slot.home.numpy(), self._copiers)
        if not slot.is_plain:
            assert self._side is not None
            with torch.cuda.stream(self._side):
                self._side.wait_event(slot.released)
                slot.there[:n_bytes].copy_(slot.home[:n_bytes], non_blocking=True)
                slot.copied.record()
        return _Block(key, source, slot, source.laid(first, last, slot.there[:n_bytes]))

    def _unit(self, block: _Block) -> tuple[Any, Any]:
        """The gate, and halves. Sentences say which row it was, and in which file."""
        first = block.key[1]
        try:
            return block.source.unit(block.raw, self._who)
        except RowError as error:
            raise block.source.told(error, first + error.row) from None


# ------------------------------------------------------------------------------------------------------------- points


@dataclass(frozen=True, eq=False)
class StreamedPoints:
    """Rows on the host that go by on a GPU, and their weights (n,) or None; see `engines/contract.py`."""

    source: Source
    weights: Float64Array | None
    who: str
    first_row: int = 0
    is_present: npt.NDArray[np.bool_] | None = None
    grid: int | None = None
    engine: str = "cuda"
    scale: float = 1.0

    @property
    def is_sparse(self) -> bool:
        """Whether rows are CSR."""
        return self.source.is_sparse

    @property
    def n_rows(self) -> int:
        """How many rows."""
        return self.source.n_rows

    @property
    def n_given(self) -> int:
        """How many came, those that are missing included."""
        return self.n_rows if self.is_present is None else len(self.is_present)

    def spread(self, found: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Numbers of the rows that are here (n, ...), for all that came: NaN for those that are missing."""
        return everywhere(found, self.is_present, np.nan)

    @property
    def n_features(self) -> int:
        """How many columns."""
        return self.source.n_features

    @property
    def dtype(self) -> np.dtype[Any]:
        """float32 or float64."""
        return computing_dtype(self.source.dtype)

    @property
    def width(self) -> float:
        """Numbers that a row has, on average."""
        return self.source.width

    @property
    def has_weights(self) -> bool:
        """Whether rows have weights."""
        return self.weights is not None

    @cached_property
    def q(self) -> int:
        """Sums over labelled rows are multiples of 2^-q (sums/whole.py); parts of a set have that of the set."""
        if self.grid is not None:
            return self.grid
        return whole.exponent(self.n_rows) if self.weights is None else whole.weights_exponent([self.weights])

    @cached_property
    def total_weight(self) -> float:
        """The sum of the weights, whole as all sums are; the number of rows where there are none."""
        if self.weights is None:
            return float(self.n_rows)
        return float(whole.rounded(whole.lifted(self.weights, self.q), self.q).sum())

    @cached_property
    def spans(self) -> list[tuple[int, int]]:
        """From..to of each block."""
        return self.source.spans()

    def take(self, numbers: Numbers) -> StreamedPoints:
        """Some rows with their weights, as points of their own."""
        own = None if self.weights is None else self.weights[numbers]
        return StreamedPoints(self.source.some(numbers), own, self.who, engine=self.engine)


class BlockPoints(CudaPoints):
    """The rows of one block: on the device while they are worked on."""

    def __init__(self, points: StreamedPoints, number: int, belt: Belt, weights: torch.Tensor | None) -> None:
        spans = points.spans
        own = {
            "weights": weights,
            "who": points.who,
            "first_row": points.first_row + spans[number][0],
            "is_present": None,
            "grid": points.q,
            "engine": points.engine,
            "scale": 1.0,
            "_source": points.source,
            "_span": spans[number],
            "_following": spans[(number + 1) % len(spans)],
            "_belt": belt,
            "_dtype": points.dtype,
        }
        vars(self).update(own)  # the class is frozen

    _source: Source
    _span: tuple[int, int]
    _following: tuple[int, int]
    _belt: Belt
    _dtype: np.dtype[Any]

    @property
    def matrix(self) -> Any:
        """Unit rows (n, D) or `CsrRows`, brought to the device where they are not there."""
        found = self._belt.block(self._source, self._span, self._following).unit
        assert found is not None
        return found

    @property
    def shadow(self) -> tuple[torch.Tensor, torch.Tensor]:
        """The rows as halves, and bounds on what that leaves."""
        found = self._belt.block(self._source, self._span, self._following).shadow
        assert found is not None
        return found

    @property
    def scratch(self) -> start.Scratch:
        """What passes write down, in the place of the block before."""
        return self._belt.scratch(self.n_rows)

    @property
    def is_sparse(self) -> bool:
        """Whether rows are CSR."""
        return self._source.is_sparse

    @property
    def width(self) -> float:
        """Numbers that a row has, on average of all blocks."""
        return self._source.width

    @property
    def n_rows(self) -> int:
        """How many rows."""
        return self._span[1] - self._span[0]

    @property
    def n_features(self) -> int:
        """How many columns."""
        return self._source.n_features

    @property
    def dtype(self) -> np.dtype[Any]:
        """float32 or float64."""
        return self._dtype


class _OfBlock(CudaPasses):
    """Passes over one block."""

    def __init__(self, points: BlockPoints, most_known: int) -> None:
        super().__init__(points)
        self._most_known = most_known

    def labels_of(self, values: torch.Tensor) -> CudaLabels:
        """Labels that lie on the device between passes."""
        return BlockLabels(self.points, values, self._most_known)


class BlockPasses(_OfBlock):
    """Passes over one block of dense rows."""

    @property
    def chooser(self) -> start.Chooser:
        """Labels by a rule."""
        points = self.points
        return start.Chooser(points.matrix, lambda: points.shadow, points.scratch)


class SparseBlockPasses(_OfBlock, SparsePasses):
    """Passes over one block of CSR rows."""

    def _rows_of(self, part: slice) -> Any:
        """Some rows, which are not held: the block is another one soon."""
        rows = self.points.matrix
        return rows if (part.start, part.stop) == (0, self.points.n_rows) else cast(Any, rows)[part]


class BlockLabels(CudaLabels):
    """Labels of one block of many: sums are known between passes where those of all blocks are not too large."""

    def __init__(self, points: CudaPoints, values: torch.Tensor, most_known: int) -> None:
        super().__init__(points, values)
        self._most_known = most_known

    def note(self, sums: start.DeviceSums | None, statistics: Any, ends: Ends | None = None) -> None:
        """What is known by the labels as they are."""
        if sums is not None and sums.resultants.numel() * sums.resultants.element_size() > self._most_known:
            sums = statistics = None
        super().note(sums, statistics, ends)


class StreamedPasses(Partitioned):
    """Passes over all blocks, one after the other; see `engines/contract.py`."""

    def __init__(self, points: StreamedPoints, belt: Belt) -> None:
        self._belt = belt
        self._streamed = points
        kind = SparseBlockPasses if points.is_sparse else BlockPasses
        n_blocks = len(points.spans)
        super().__init__(
            [kind(block, _KNOWN_SUMS // n_blocks) for block in _blocks(points, belt)],
            points=cast(Any, points),
        )

    def over(self, which: Which) -> Any:
        """Passes over some of the rows, as rows of their own; these themselves where that is all rows as they are.

        They are kept on the device where they fit.
        """
        points = self._streamed
        match which:
            case Counted():
                if points.weights is None or points.weights.all():
                    return self
                return self._of_points(points.take(np.flatnonzero(points.weights)))
            case Shuffled(generator):
                return self._of_points(points.take(generator.permutation(points.n_rows)))
            case Numbered(numbers):
                return self._of_points(points.take(np.asarray(numbers, np.int64)))
            case Between(first, last):
                if (first, last) == (0, points.n_rows):
                    return self
                own = None if points.weights is None else points.weights[first:last]
                part = StreamedPoints(points.source.between(first, last), own, points.who, points.first_row + first)
                return self._of_points(replace(part, engine=points.engine))
            case Placed(first_row, q):
                if (first_row, q) == (points.first_row, points.q):
                    return self
                return StreamedPasses(replace(points, first_row=first_row, grid=q), self._belt)
            case Labelled(labels, label):
                parts = zip(cast(PartedLabels, labels).parts, points.spans, strict=True)
                found = [span[0] + torch.nonzero(part.values == label).ravel().cpu().numpy() for part, span in parts]
                return self._of_points(points.take(np.concatenate(found)))
            case Scaled(column):
                factors = cast(PartedColumn, column).to_host().astype(np.float64)
                weights = factors if points.weights is None else points.weights * factors
                return StreamedPasses(replace(points, weights=weights, grid=None), self._belt)
            case Directed():
                return self._refuse("rows of counts", "device='cpu'")

    def _of_points(self, points: StreamedPoints) -> Any:
        """Passes over rows of their own, on the device where they fit."""
        if len(points.spans) > 1 and not _is_small(points):
            return StreamedPasses(points, self._belt)
        here = resident(points)
        return SparsePasses(here) if here.is_sparse else CudaPasses(here)

    def _refuse(self, what: str, instead: str) -> NoReturn:
        raise InputError(
            f"X of {self.points.who} must fit into the memory of the GPU here: {what} have no form there for rows that "
            f"go by in blocks. Use {instead}, or fewer rows."
        )

    # -------------------------------------------------------------------------------------------- few rows

    def rows(self, numbers: range | Numbers) -> FewRows:
        """A few rows, which are on the host already."""
        points, chosen = self._streamed, np.asarray(numbers, np.int64)
        try:
            few = unit_matrix(points.source.gather(chosen), points.who)
        except RowError as error:
            raise points.source.told(error, int(chosen[error.row])) from None
        block = few if isinstance(few, np.ndarray) else SparseBlock(few.data, few.indices, few.indptr, few.shape[1])
        return FewRows(chosen, block, self.weights_at(chosen))

    def unit_rows(self, numbers: npt.ArrayLike) -> Float64Array:
        """A few rows (m, D), dense and of unit length in float64."""
        return dense_unit_rows(self.rows(np.asarray(numbers, np.int64)).block, self._streamed.who)

    def weights_at(self, numbers: Numbers) -> Float64Array | None:
        """The weights of a few rows (m,)."""
        weights = self._streamed.weights
        return None if weights is None else weights[numbers]

    def choose(self, n_rows: int, generator: np.random.Generator) -> Numbers:
        """Distinct rows, each drawn with the probability of its weight."""
        return chosen_rows(self._streamed.n_rows, self._streamed.weights, n_rows, generator)

    def each(self, spans: Sequence[tuple[int, int]], task: Callable[[int, Any], T]) -> list[T]:
        """`task(number, passes)` over the rows of each span, in turn."""
        return [task(number, self.over(Between(*span))) for number, span in enumerate(spans)]


@contextmanager
def streamed(points: StreamedPoints) -> Iterator[StreamedPasses]:
    """Passes over points; files are looked at once more at the end."""
    belt = Belt(points.who)
    try:
        yield StreamedPasses(points, belt)
    finally:
        belt.close()
    if isinstance(points.source.rows, StoredRows):
        points.source.rows.check_unchanged()


def _blocks(points: StreamedPoints, belt: Belt) -> Iterator[BlockPoints]:
    for number, span in enumerate(points.spans):
        weights = None if points.weights is None else start.to_device(points.weights[slice(*span)])
        yield BlockPoints(points, number, belt, weights)


def _is_small(points: StreamedPoints) -> bool:
    return points.n_rows <= MOST_ROWS and points.source.fits()


def resident(points: StreamedPoints) -> CudaPoints:
    """Rows of a source that are brought to the device to stay there, block by block."""
    source = points.source
    weights = None if points.weights is None else start.to_device(points.weights)
    try:
        unit = _resident_csr(source, points.who) if isinstance(source, CsrSource) else _resident_rows(points)
    except RowError as error:
        raise source.told(error, error.row) from None
    return CudaPoints(unit, weights, points.who, points.first_row, points.is_present, points.grid, points.engine)


def _resident_rows(points: StreamedPoints) -> torch.Tensor:
    source, spans = points.source, points.spans
    rows = torch.empty((points.n_rows, points.n_features), dtype=torch_type(source.dtype), device=start.device())
    belt = Belt(points.who)
    try:
        for number, span in enumerate(spans):
            rows[slice(*span)] = belt.raw(source, span, spans[min(number + 1, len(spans) - 1)]).raw
    finally:
        belt.close()
    return unit_rows(rows, points.who)


def _resident_csr(source: CsrSource, who: str) -> Any:
    found = source.all()
    values = found.data.astype(computing_dtype(found.data.dtype), copy=False)
    return unit_csr(start_sparse.from_host(values, found.indices, found.indptr, source.n_features), who)


# ------------------------------------------------------------------------------------------------------------ the gate


def host_points(
    X: Any, who: str, sample_weight: Any, expected_features: int | None, gate: Gate
) -> StreamedPoints | CudaPoints | None:
    """Rows on disk, and arrays that the device has no room for; None for others.

    Values are looked at by the first pass, but for rows on disk that fit.
    """
    if isinstance(X, StoredRows):
        if X.is_sparse:
            return None
        if gate.kind == "counts":
            refuse_stored(X, who, "counts are divided by the length of the longest row before the first pass")
        taken = as_present_points if gate.allows_missing else as_host_points
        found = taken(X, who, sample_weight, expected_features, most_weight=gate.most_weight)
        if not found.n_rows and not gate.allows_empty:
            refuse_all_missing(found.n_given, who)
        points = StreamedPoints(Source(found.matrix), found.weights, who, is_present=found.is_present)
        if _is_small(points):
            here = resident(points)
            X.check_unchanged()
            return here
    else:
        given = _large_array(X)
        if given is None or gate.kind == "counts":
            return None
        matrix = cast(npt.NDArray[Any], as_matrix(given, who, expected_features))
        weights = check_sample_weight(sample_weight, len(matrix), who, most=gate.most_weight)
        points = StreamedPoints(Source(matrix), weights, who)
        if gate.allows_missing:
            is_present = has_direction(matrix)
            if not is_present.all():
                points = replace(points.take(np.flatnonzero(is_present)), is_present=is_present)
                if not points.n_rows and not gate.allows_empty:
                    refuse_all_missing(len(is_present), who)
    _say(points)
    return points


def host_csr(matrix: Any, weights: Float64Array | None, who: str, is_present: Any) -> StreamedPoints | CudaPoints:
    """CSR rows of the host whose structure was checked: on the device where it has room for them."""
    source = CsrSource(SparseBlock(matrix.data, matrix.indices, matrix.indptr, int(matrix.shape[1])))
    points = StreamedPoints(source, weights, who, is_present=is_present)
    if _is_small(points):
        return resident(points)
    _say(points)
    return points


def _large_array(X: Any) -> Any | None:
    """X as an array of the host, where it is one and the device has no room for it."""
    if isinstance(X, torch.Tensor) and not start.IS_INTERPRETED and X.device.type == "cpu":
        if X.layout != torch.strided or X.dtype == torch.bfloat16 or X.dtype not in TORCH_TYPES:
            return None
        X = X.detach().numpy()
    if not isinstance(X, np.ndarray) or X.ndim != 2 or X.dtype.kind not in "fiub":
        return None
    return None if fits(cast(tuple[int, int], X.shape), X.dtype) else X


def _say(points: StreamedPoints) -> None:
    """A line in the log: where rows are decides how long a pass takes."""
    n_bytes = points.source.n_bytes(0, points.n_rows)
    _logger.info(
        "%s: %s of rows do not fit into the memory of the GPU with half of them again, and go by in %d blocks in every "
        "pass",
        points.who,
        in_words(n_bytes),
        len(points.spans),
    )
