"""Rows on the host as a GPU reads them: where blocks end, what crosses the bus, and whether there is room for all.

Dense rows lie in an array, a map or files, CSR rows in memory; or they are some rows of either.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from itertools import pairwise
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import torch

from armillary.engines.contract import Numbers
from armillary.engines.cuda_points import KNOWN_TYPES, MOST_ROWS, unit_and_shadow
from armillary.engines.cuda_sparse import unit_csr
from armillary.exceptions import RowError
from armillary.kernels.gpu import start
from armillary.kernels.gpu.start_sparse import CsrRows
from armillary.points import SparseBlock, as_csr, cut, some_of
from armillary.sources.stored import StoredRows
from armillary.validation import computing_dtype

# Bytes of a block as it is stored. Passes bring K x D sums home for each, and nothing hides the first copy of a fit:
# blocks of 512 MiB are 2 % of 25 GB, and take 10 ms of a bus of 55 GB/s.
BLOCK_BYTES = 1 << 29
# The share of free memory that rows on the device may have, and bytes beside each row: labels, lists, their errors.
_SHARE = 0.9
_BESIDE = 64
# Bytes beside each entry of CSR rows, while they are made unit or their columns are sorted; entries that are sorted
# together; and where numbers of any type may begin.
_BESIDE_ENTRY = 16
_MOST_ENTRIES = 2**31 - 1024
_ALIGNED = 16
_COPY_BYTES = 1 << 22


def free_bytes() -> int | None:
    """What the device has left, with what torch holds and does not use; None where there is no device."""
    if start.IS_INTERPRETED:
        return None
    free, _ = torch.cuda.mem_get_info()
    return int(free + torch.cuda.memory_reserved() - torch.cuda.memory_allocated())


def fits(shape: tuple[int, int], dtype: np.dtype[Any]) -> bool:
    """Whether rows of a shape, stored in a type, may lie on the device with half of them again as a shadow."""
    free = free_bytes()
    if free is None:
        return True
    kept = computing_dtype(dtype)
    bytes_each = 1.5 * shape[1] * kept.itemsize + (0 if kept == dtype else shape[1] * dtype.itemsize) + _BESIDE
    return shape[0] * bytes_each <= _SHARE * free


class Source:
    """Rows on the host: an array or a memory map, rows on disk, or some rows of either."""

    is_sparse = False

    def __init__(self, rows: Any, numbers: Numbers | None = None, first: int = 0) -> None:
        self.rows, self.numbers, self.first = rows, numbers, first  # the number of its row 0 among those that came
        self.n_features = int(rows.shape[1])
        self.dtype = np.dtype(rows.dtype) if np.dtype(rows.dtype) in KNOWN_TYPES else computing_dtype(rows.dtype)
        self._reader = rows.sequential() if isinstance(rows, StoredRows) and numbers is None else None

    @property
    def n_rows(self) -> int:
        """How many rows."""
        return int(self.rows.shape[0]) if self.numbers is None else len(self.numbers)

    def some(self, numbers: Numbers) -> Source:
        """Some of the rows."""
        return Source(self.rows, numbers if self.numbers is None else self.numbers[numbers], self.first)

    def between(self, first: int, last: int) -> Source:
        """The rows from..to."""
        if self.numbers is not None:
            return Source(self.rows, self.numbers[first:last], self.first)
        rows = self.rows.between(first, last) if isinstance(self.rows, StoredRows) else self.rows[first:last]
        return Source(rows, None, self.first + first)

    def gather(self, numbers: Numbers) -> npt.NDArray[Any]:
        """A few rows as they are stored."""
        return np.asarray(self.rows[numbers if self.numbers is None else self.numbers[numbers]])

    @property
    def width(self) -> float:
        """Numbers that a row has, on average."""
        return float(self.n_features)

    def spans(self) -> list[tuple[int, int]]:
        """From..to of each block: lengths equal to within one, so that passes write down in the same places."""
        most = max(1, min(BLOCK_BYTES // max(1, self.n_features * self.dtype.itemsize), MOST_ROWS))
        n_blocks = max(1, -(-self.n_rows // most))
        return list(pairwise(number * self.n_rows // n_blocks for number in range(n_blocks + 1)))

    def fits(self) -> bool:
        """Whether the device has room for all rows."""
        return fits((self.n_rows, self.n_features), self.dtype)

    def n_bytes(self, first: int, last: int) -> int:
        """Bytes of the rows first..last as they cross the bus."""
        return (last - first) * self.n_features * self.dtype.itemsize

    def fill(self, first: int, last: int, out: npt.NDArray[np.uint8], pool: ThreadPoolExecutor) -> None:
        """Rows first..last into so many bytes."""
        self.read(first, last, np.ndarray((last - first, self.n_features), self.dtype, out), pool)

    def laid(self, first: int, last: int, there: torch.Tensor) -> Any:
        """Bytes on the device as rows, as they are stored."""
        return there.view(torch_type(self.dtype)).view(last - first, self.n_features)

    def unit(self, raw: Any, who: str) -> tuple[Any, Any]:
        """Rows through the gate, in memory of their own, and their shadow."""
        return unit_and_shadow(raw, who)

    def read(self, first: int, last: int, out: npt.NDArray[Any], pool: ThreadPoolExecutor) -> None:
        """Rows first..last into `out` (m, D)."""
        if self.numbers is not None:
            _copy(out, np.asarray(self.rows[self.numbers[first:last]]))
        elif self._reader is not None and self.dtype == self.rows.dtype:
            self._reader.read(first, last, out)
        elif self._reader is not None:
            _copy(out, self.rows.read(first, last))
        else:
            _copy_together(out, self.rows[first:last], pool)

    def place(self, row: int) -> str | None:
        """Where a row is, in words; None in memory."""
        number = row if self.numbers is None else int(self.numbers[row])
        return self.rows.place(number) if isinstance(self.rows, StoredRows) else None

    def told(self, error: RowError, row: int) -> RowError:
        """What is wrong with a row, by the number that it has among those that came, and its file."""
        number = self.first + (row if self.numbers is None else int(self.numbers[row]))
        moved, place = error.moved(number - error.row), self.place(row)
        return moved if place is None else moved.at(place)


class CsrSource(Source):
    """CSR rows in the memory of the host; a block is its entries, their columns and where rows begin, in one buffer."""

    is_sparse = True

    def __init__(self, rows: SparseBlock, numbers: Numbers | None = None, first: int = 0) -> None:
        self.rows, self.numbers, self.first = rows, numbers, first
        self.n_features = rows.n_features
        self.dtype = rows.data.dtype if rows.data.dtype in KNOWN_TYPES else computing_dtype(rows.data.dtype)

    @cached_property
    def _starts(self) -> npt.NDArray[np.int64]:
        """Where rows begin among the entries of these rows (n + 1,)."""
        pointers = self.rows.indptr.astype(np.int64)
        if self.numbers is None:
            return pointers - pointers[0]
        return np.append(0, np.cumsum(np.diff(pointers)[self.numbers]))

    @property
    def n_rows(self) -> int:
        """How many rows."""
        return len(self.rows.indptr) - 1 if self.numbers is None else len(self.numbers)

    @property
    def width(self) -> float:
        """Entries of a row, on average."""
        return int(self._starts[-1]) / max(1, self.n_rows)

    def some(self, numbers: Numbers) -> CsrSource:
        """Some of the rows."""
        return CsrSource(self.rows, numbers if self.numbers is None else self.numbers[numbers], self.first)

    def between(self, first: int, last: int) -> CsrSource:
        """The rows from..to."""
        if self.numbers is not None:
            return CsrSource(self.rows, self.numbers[first:last], self.first)
        return CsrSource(cast(SparseBlock, cut(self.rows, first, last)), None, self.first + first)

    def all(self) -> Any:
        """All rows as they are stored, as SciPy's CSR."""
        return as_csr(self.rows) if self.numbers is None else self.gather(np.arange(self.n_rows))

    def gather(self, numbers: Numbers) -> Any:
        """A few rows as they are stored, as SciPy's CSR."""
        return as_csr(cast(SparseBlock, some_of(self.rows, numbers if self.numbers is None else self.numbers[numbers])))

    def spans(self) -> list[tuple[int, int]]:
        """From..to of each block: as many rows as have so many bytes, one at least."""
        edges, starts = [0], self._starts
        most = BLOCK_BYTES - 2 * _ALIGNED
        beside = 8 * np.arange(self.n_rows + 1) + starts * (self.dtype.itemsize + 4)
        while edges[-1] < self.n_rows:
            reached = int(np.searchsorted(beside, beside[edges[-1]] + most, side="right")) - 1
            edges.append(min(max(reached, edges[-1] + 1), edges[-1] + MOST_ROWS, self.n_rows))
        return list(pairwise(edges)) or [(0, 0)]

    def fits(self) -> bool:
        """Whether the device has room for all rows, and for their columns, which sums by shares go through."""
        free, n_entries = free_bytes(), int(self._starts[-1])
        if free is None:
            return True
        each = 2 * (computing_dtype(self.dtype).itemsize + 4) + _BESIDE_ENTRY
        return n_entries < _MOST_ENTRIES and n_entries * each + self.n_rows * _BESIDE <= _SHARE * free

    def _parts(self, first: int, last: int) -> list[tuple[int, int, np.dtype[Any]]]:
        """Where entries, columns and the beginnings of rows lie among the bytes of a block, how many, and their types.

        Each begins where numbers of any type may.
        """
        n_entries = int(self._starts[last] - self._starts[first])
        sizes = (n_entries, self.dtype), (n_entries, np.dtype(np.int32)), (last - first + 1, np.dtype(np.int64))
        begin, found = 0, []
        for size, dtype in sizes:
            found.append((begin, size, dtype))
            begin += -(-size * dtype.itemsize // _ALIGNED) * _ALIGNED
        return found

    def n_bytes(self, first: int, last: int) -> int:
        """Bytes of the rows first..last as they cross the bus."""
        begin, size, dtype = self._parts(first, last)[-1]
        return begin + size * dtype.itemsize

    def fill(self, first: int, last: int, out: npt.NDArray[np.uint8], pool: ThreadPoolExecutor) -> None:
        """Rows first..last into so many bytes."""
        if self.numbers is None:
            begin = int(self.rows.indptr[0])
            held = slice(begin + int(self._starts[first]), begin + int(self._starts[last]))
            data, indices = self.rows.data[held], self.rows.indices[held]
        else:
            own = self.gather(np.arange(first, last))
            data, indices = own.data, own.indices
        given = data, indices, self._starts[first : last + 1] - self._starts[first]
        for (begin, size, dtype), values in zip(self._parts(first, last), given, strict=True):
            _copy_together(np.ndarray((size,), dtype, out, begin), values, pool)

    def laid(self, first: int, last: int, there: torch.Tensor) -> CsrRows:
        """Bytes on the device as rows, as they are stored."""
        data, indices, pointers = (
            there[begin : begin + size * dtype.itemsize].view(torch_type(dtype))
            for begin, size, dtype in self._parts(first, last)
        )
        return CsrRows(data, indices, pointers, self.n_features)

    def unit(self, raw: CsrRows, who: str) -> tuple[CsrRows, None]:
        """Rows through the gate, in memory of their own: that of the buffer is another block's soon."""
        data = raw.data.to(torch_type(computing_dtype(self.dtype)), copy=True)
        return unit_csr(CsrRows(data, raw.indices.clone(), raw.pointers.clone(), raw.n_features), who), None


def _copy_together(out: npt.NDArray[Any], rows: npt.NDArray[Any], pool: ThreadPoolExecutor) -> None:
    """`_copy` by all copiers."""
    step = max(1, _COPY_BYTES // max(1, out[:1].nbytes))
    pieces = [slice(at, min(at + step, len(out))) for at in range(0, len(out), step)]
    list(pool.map(lambda piece: _copy(out[piece], rows[piece]), pieces))


def _copy(out: npt.NDArray[Any], rows: npt.NDArray[Any]) -> None:
    with np.errstate(over="ignore", invalid="ignore"):
        np.copyto(out, rows, casting="unsafe")


def torch_type(dtype: np.dtype[Any]) -> torch.dtype:
    """A type of NumPy in torch's words."""
    return torch.from_numpy(np.empty(0, dtype)).dtype
