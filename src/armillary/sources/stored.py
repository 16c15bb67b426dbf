"""Rows that stay on disk, in one file or many, as one object: what `open_rows` gives.

Memory: nothing but the weights, where there are any, is kept of the rows.
"""

from __future__ import annotations

import threading
import weakref
from bisect import bisect_right
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from armillary.exceptions import InputError, InputTypeError
from armillary.sources.columns import some as listed
from armillary.sources.memory import SHARE, free_memory, in_words
from armillary.sources.shards import Reader, Shard, ShardPart, ThinnedShard

# Rows that are wanted and lie so many bytes apart at most are read in one go.
_NEAR_BYTES = 1 << 18
_MOST_NAMED = 3  # files named at either end of a list of them


class StoredRows:
    """Vectors on disk, one in each row, in the order of their files. Every estimator takes them for X.

    `shape`, `dtype` (as stored), `len`, `repr` and `describe` say what they are. `rows[:1000]` and `rows[numbers]` read
    some of them into memory. Values are looked at when a pass reads them. A context manager; files are open only while
    they are read, so that leaving it open costs nothing.

    Parameters
    ----------
    shards : sequence of Shard
        Files in order; `open_rows` makes them.
    weights : array of shape (n,), optional
        Weights of the rows.

    Examples
    --------
    >>> import numpy as np, tempfile
    >>> from armillary import open_rows
    >>> path = tempfile.mkdtemp() + "/rows.npy"
    >>> np.save(path, np.eye(4, dtype=np.float32))
    >>> rows = open_rows(path)
    >>> len(rows), rows.shape, rows[1:3].shape
    (4, (4, 4), (2, 4))
    """

    def __init__(self, shards: Sequence[Shard], weights: npt.NDArray[Any] | None = None) -> None:
        self.shards = [shard for shard in shards if shard.n_rows] or list(shards[:1])
        _refuse_others(self.shards)
        self.starts = np.concatenate([[0], np.cumsum([shard.n_rows for shard in self.shards])]).tolist()
        self.shape = (int(self.starts[-1]), int(self.shards[0].n_features))
        self.dtype = self.shards[0].dtype
        self.is_sparse = self.shards[0].is_sparse
        self.weights = weights
        self.ndim = 2
        if self.nbytes > free_memory():
            for shard in self.shards:
                shard.is_forgotten = True
        self._direct = Sequential(self)
        self._lock = threading.Lock()
        self._is_closed = False

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        kind = f"{self.dtype}{', CSR' if self.is_sparse else ''}{', weighted' if self.weights is not None else ''}"
        return f"<StoredRows {self.shape[0]:,} x {self.shape[1]:,} ({kind}) in {self.order()}>"

    def order(self) -> str:
        """The files in their order, in words: all where they are few.

        Returns
        -------
        str
            A sentence's part.
        """
        names = [f"'{shard.path}'" for shard in self.shards]
        if len(names) == 1:
            return names[0]
        if len(names) > 2 * _MOST_NAMED:
            names = [*names[:_MOST_NAMED], "...", *names[-_MOST_NAMED:]]
        return f"{len(self.shards):,} files in this order: {', '.join(names)}"

    def describe(self) -> str:
        """One line for each file, in their order: its first row, its rows and its name.

        Returns
        -------
        str
            Lines.
        """
        lines = [f"{self.shape[0]:,} rows of {self.shape[1]:,} numbers ({self.dtype})"]
        for start, shard in zip(self.starts, self.shards, strict=False):
            lines.append(f"{start:>15,} {shard.n_rows:>15,}  {shard.path}")
        return "\n".join(lines)

    @property
    def nbytes(self) -> int:
        """Bytes that all rows would take in memory, as they are stored; for CSR a lower bound."""
        return self.shape[0] * (8 if self.is_sparse else self.shape[1] * self.dtype.itemsize)

    def __reduce__(self) -> tuple[Any, ...]:
        # for a worker: where the rows lie, not what was read of them
        return type(self), self._told()

    def _told(self) -> tuple[Any, ...]:
        return self.shards, self.weights

    def between(self, first: int, last: int) -> StoredRows:
        """The rows from..to, still on disk, without weights.

        Parameters
        ----------
        first : int
            The first row.
        last : int
            The row after the last.

        Returns
        -------
        StoredRows
            Rows first..last - 1.
        """
        spans = zip(self.shards, self.starts, strict=False)
        inside = [(shard, max(0, first - start), min(shard.n_rows, last - start)) for shard, start in spans]
        return StoredRows([ShardPart(shard, start, stop) for shard, start, stop in inside if start < stop])

    def only(self, is_here: npt.NDArray[np.bool_]) -> Self:
        """These rows but for some, still on disk.

        Parameters
        ----------
        is_here : array of bool, shape (n,)
            False for rows that are passed over as if they were not there.

        Returns
        -------
        StoredRows
            The rows that stay, in their order, with their weights.
        """
        spans = [slice(start, start + shard.n_rows) for start, shard in zip(self.starts, self.shards, strict=False)]
        masks = [is_here[span] for span in spans]
        shards = [
            shard if mask.all() else ThinnedShard(shard, mask) for shard, mask in zip(self.shards, masks, strict=True)
        ]
        return self._with(shards, None if self.weights is None else self.weights[is_here])

    def _with(self, shards: Sequence[Shard], weights: npt.NDArray[Any] | None) -> Self:
        return type(self)(shards, weights)

    # ------------------------------------------------------------------------------------------------ reading

    def read(self, start: int, stop: int) -> Any:
        """Rows start..stop, as stored: an array (m, D) or a CSR matrix of their own.

        Parameters
        ----------
        start : int
            The first row.
        stop : int
            The row after the last.

        Returns
        -------
        array of shape (m, D) or CSR matrix
            Rows start..stop - 1.
        """
        out = None if self.is_sparse else np.empty((stop - start, self.shape[1]), self.dtype)
        with self._lock:
            return self._direct.read(start, stop, out)

    def sequential(self) -> Sequential:
        """A place of its own among the rows, for whoever reads them in order.

        Returns
        -------
        Sequential
            A reader.
        """
        return Sequential(self)

    def __getitem__(self, which: Any) -> Any:
        if isinstance(which, slice):
            start, stop, step = which.indices(self.shape[0])
            if step == 1:
                self._refuse_large(max(0, stop - start))
                return self.read(start, max(start, stop))
            which = np.arange(start, stop, step)
        numbers = np.asarray(which)
        if numbers.dtype == np.bool_ and numbers.shape == (self.shape[0],):
            numbers = np.flatnonzero(numbers)
        if numbers.size == 0 and numbers.ndim == 1:
            numbers = numbers.astype(np.int64)
        if numbers.dtype.kind not in "iu" or numbers.ndim > 1:
            raise InputTypeError(
                f"Rows on disk are named by a slice, a number, numbers or a mask; got {type(which).__name__}. "
                "Columns cannot be picked before the rows are read: rows[:1000][:, columns]."
            )
        numbers = np.where(numbers < 0, numbers + self.shape[0], numbers)
        if numbers.size and not (numbers.min() >= 0 and numbers.max() < self.shape[0]):
            raise IndexError(f"Rows on disk have numbers from 0 to {self.shape[0] - 1}; got another among them.")
        if numbers.ndim == 0:
            return self.read(int(numbers), int(numbers) + 1)[0]
        self._refuse_large(len(numbers))
        return self._gathered(numbers)

    def _gathered(self, numbers: npt.NDArray[Any]) -> Any:
        if not len(numbers):
            return self.read(0, 0)
        distinct, places = np.unique(numbers, return_inverse=True)
        row_bytes = 8 if self.is_sparse else max(1, self.shape[1] * self.dtype.itemsize)
        breaks = np.flatnonzero(np.diff(distinct) > max(1, _NEAR_BYTES // row_bytes)) + 1
        parts = []
        for near in np.split(distinct, breaks):
            for some in np.array_split(near, -(-max(1, int(near[-1] - near[0]) * row_bytes) // (1 << 24))):
                if len(some):
                    first = int(some[0])
                    parts.append(self.read(first, int(some[-1]) + 1)[some - first])
        if self.is_sparse:
            return sp.csr_array(sp.vstack(parts, format="csr"))[places]
        return np.concatenate(parts)[places]

    def _refuse_large(self, n_rows: int) -> None:
        n_bytes, free = n_rows * self.nbytes / max(1, self.shape[0]), free_memory()
        if n_bytes > SHARE * free:
            raise InputError(
                f"Rows that are read into memory may take half of what is free, {in_words(SHARE * free)}; these "
                f"{n_rows:,} rows take {in_words(n_bytes)}. Take fewer, e.g. a sample: "
                "X[numpy.random.default_rng(0).choice(len(X), 100_000, replace=False)]."
            )

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        raise InputError(
            f"Rows on disk do not become an array by themselves; {self!r} was given where all rows are needed in "
            "memory. Give X[:], which reads them, or a sample: X[numbers]."
        )

    @property
    def indptr(self) -> Any:
        """Not there: whoever asks wants all rows in memory."""
        return self.__array__()

    data = indices = nnz = indptr

    # ------------------------------------------------------------------------------------------------ files

    def place(self, row: int) -> str:
        """Where a row is, in words: "row 17 of 'b.npy'".

        Parameters
        ----------
        row : int
            Its number.

        Returns
        -------
        str
            For messages.
        """
        number = min(bisect_right(self.starts, row) - 1, len(self.shards) - 1)
        shard = self.shards[number]
        return f"row {shard.place(row - self.starts[number]):,} of '{shard.path}'"

    def check_unchanged(self) -> None:
        """Refuse files that are not as they were when they were opened."""
        for shard in self.shards:
            shard.check_unchanged()

    def check_open(self) -> None:
        """Refuse rows that were closed."""
        if self._is_closed:
            raise InputError("These rows on disk were closed. Open them again: armillary.open_rows(...).")

    def close(self) -> None:
        """Read nothing from these rows any more."""
        self._is_closed = True
        with self._lock:
            self._direct.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class DealtRows(StoredRows):
    """Rows on disk that are dealt to workers: so many processes of this machine, or those of "dask" or "ray"."""

    def __init__(
        self, shards: Sequence[Shard], weights: npt.NDArray[Any] | None = None, n_workers: int | str = 1
    ) -> None:
        super().__init__(shards, weights)
        self.n_workers = n_workers
        self._held: dict[str, Any] = {}
        self._whole: DealtRows | None = None  # those that these are a part of, whose workers serve here too

    def _with(self, shards: Sequence[Shard], weights: npt.NDArray[Any] | None) -> Self:
        found = type(self)(shards, weights, self.n_workers)
        found._whole = self
        return found

    def held(self, name: str, make: Callable[[], Any]) -> Any:
        """Something that is closed when these rows are, or are gone: workers that wait for the next call."""
        if self._whole is not None:
            return self._whole.held(name, make)
        with self._lock:
            if name not in self._held:
                made = self._held[name] = make()
                weakref.finalize(self, made.close)
            return self._held[name]

    def close(self) -> None:
        """Read nothing from these rows any more, and let the workers go."""
        super().close()
        for one in self._held.values():
            one.close()

    def _told(self) -> tuple[Any, ...]:
        return self.shards, self.weights, self.n_workers


class Sequential:
    """A place among rows of many shards: one reader at a time, which goes on where it was."""

    def __init__(self, rows: StoredRows) -> None:
        self._shards, self._rows = rows.shards, rows
        self._number = -1
        self._reader: Reader | None = None

    def read(self, start: int, stop: int, out: npt.NDArray[Any] | None) -> Any:
        """Rows start..stop into `out`, which is returned; CSR rows in a matrix of their own."""
        self._rows.check_open()
        starts = self._rows.starts
        number = min(bisect_right(starts, start) - 1, len(self._shards) - 1)
        parts: list[Any] = []
        done = start
        while done < stop or not parts:
            last = min(stop, starts[number + 1])
            into = None if out is None else out[done - start : last - start]
            parts.append(self._of(number).read(done - starts[number], last - starts[number], into))
            done, number = last, number + 1
        if out is not None:
            return out
        return parts[0] if len(parts) == 1 else sp.csr_array(sp.vstack(parts, format="csr"))

    def _of(self, number: int) -> Reader:
        if number != self._number or self._reader is None:
            self.close()
            self._reader, self._number = self._shards[number].reader(), number
        return self._reader

    def close(self) -> None:
        """Leave the place."""
        if self._reader is not None:
            self._reader.close()
        self._reader = None


def _refuse_others(shards: Sequence[Shard]) -> None:
    """Refuse files that do not go together."""
    first, named = shards[0], next((shard for shard in shards if shard.columns is not None), shards[0])
    if first.dtype.kind not in "fiub":
        raise InputTypeError(
            f"'{first.path}' must hold real numbers; it has dtype {first.dtype}. Save it again as floats."
        )
    for shard in shards[1:]:
        if shard.is_sparse != first.is_sparse:
            raise InputError(
                f"Files of one set of rows must all be dense or all be CSR; '{first.path}' and '{shard.path}' are "
                "not alike. Open them one by one."
            )
        if shard.columns is not None and named.columns is not None and shard.columns != named.columns:
            if sorted(shard.columns) != sorted(named.columns):
                raise InputError(
                    f"Files of one set of rows must have vectors in columns of one name; '{named.path}' has "
                    f"{listed(named.columns, 4)} and '{shard.path}' has {listed(shard.columns, 4)}. Name the column, "
                    "or rename it in one of them."
                )
            shard.reorder(named.columns)
        if shard.n_features != first.n_features:
            raise InputError(
                f"Files of one set of rows must have one width; '{first.path}' has {first.n_features} columns and "
                f"'{shard.path}' has {shard.n_features}. Leave out the one that is of another embedding."
            )
        if shard.dtype != first.dtype:
            raise InputError(
                f"Files of one set of rows must have one dtype; '{first.path}' has {first.dtype} and '{shard.path}' "
                f"has {shard.dtype}. Save them again alike."
            )
