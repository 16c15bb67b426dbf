"""Where `predict` puts labels: a new array, an array that is given, or an npy file written whole or not at all.

Labels are written once, where they are to be: for many rows they never lie twice in memory, and those of a file lie in
none but the pages of the system.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from armillary.durable.whole import whole_file
from armillary.engines.contract import Passes, Points
from armillary.exceptions import InputError, InputTypeError, RowError
from armillary.rules import AffineRule
from armillary.sources.stored import StoredRows
from armillary.sparse_structure import checked_csr

# Rows whose labels are found together where a model finds them part by part.
_PART_ROWS = 1 << 17


class LabelsOut:
    """Labels to be written, and what `predict` returns for them."""

    def __init__(self, labels: npt.NDArray[Any], *, is_new: bool = False) -> None:
        self.is_new = is_new  # nobody else has this array
        self.labels = labels  # (n,), -1 everywhere
        self.result: npt.NDArray[Any] = labels

    def put(self, labels: npt.NDArray[Any]) -> None:
        """Labels that an engine has brought home, which may lie in their place already."""
        if self.is_new:
            self.labels = self.result = labels
        elif not np.shares_memory(labels, self.labels):
            self.labels[:] = labels


@contextmanager
def labels_to(out: Any, n_rows: int, dtype: Any, who: str) -> Iterator[LabelsOut]:
    """A place for n labels, all -1 at first; what is `out` of `predict` has them when the block ends.

    After an error a file is as it was before; an array that was given may have some labels already.
    """
    if out is None:
        yield LabelsOut(np.full(n_rows, -1, dtype), is_new=True)
    elif isinstance(out, np.ndarray):
        with _to_array(out, n_rows, np.dtype(dtype), who) as place:
            yield place
    else:
        with _to_file(out, n_rows, np.dtype(dtype), who) as place:
            yield place


def best_labels_to(
    out: Any,
    points: Points,
    opened: AbstractContextManager[Passes],
    rule: AffineRule,
    names: npt.NDArray[np.int64] | None = None,
) -> Any:
    """The cluster with the highest score of each row, or -1 where the rule refuses it, int32, into `out`.

    With `names` (K,), cluster k is written as names[k].
    """
    if out is None:  # the common case, and the shortest: a row at a time takes 0.1 ms
        with opened as passes:
            labels = passes.labels()
            passes.label(rule, labels, sums=False)
            if names is not None:
                labels.rename(names)
            return labels.to_host()
    with labels_to(out, points.n_given, np.int32, points.who) as place, opened as passes:
        # labels of rows of which some are missing are put in their places when all are known
        labels = passes.labels(into=place.labels) if points.n_given == points.n_rows else passes.labels()
        passes.label(rule, labels, sums=False)
        if names is not None:
            labels.rename(names)
        place.put(labels.to_host())
    return place.result


def part_by_part(X: Any, n_rows: int, out: Any, dtype: Any, who: str, predict: Callable[[Any, slice], Any]) -> Any:
    """Labels found by `predict(rows, part)` for some rows at a time: for models that keep more than labels of a row."""
    rows = checked_csr(X, who) if sp.issparse(X) else X  # not every form of sparse matrices has rows that can be taken
    with labels_to(out, n_rows, dtype, who) as place:
        for start in range(0, n_rows, _PART_ROWS):
            part = slice(start, min(start + _PART_ROWS, n_rows))
            try:
                place.labels[part] = predict(rows[part], part)
            except RowError as error:  # the gate counts rows from the beginning of the part
                moved = error.moved(start)
                raise moved.at(X.place(moved.row)) if isinstance(X, StoredRows) else moved from None
    return place.result


def is_in_parts(X: Any, out: Any) -> bool:
    """Whether labels are to be found part by part: they go elsewhere, or the rows are on disk."""
    return out is not None or isinstance(X, StoredRows)


@contextmanager
def _to_array(out: npt.NDArray[Any], n_rows: int, dtype: np.dtype[Any], who: str) -> Iterator[LabelsOut]:
    if out.shape != (n_rows,) or not np.can_cast(dtype, out.dtype, "same_kind") or out.dtype.kind != "i":
        raise InputError(
            f"`out` of {who}.predict must be an array of signed integers with one place per row, shape ({n_rows},); "
            f"got {out.dtype} of shape {out.shape}. Use numpy.empty({n_rows}, numpy.{dtype})."
        )
    if not out.flags.writeable:
        raise InputError(f"`out` of {who}.predict must be writeable; it is read-only. Open a memory map by mode 'r+'.")
    if out.dtype == dtype and out.flags.c_contiguous:
        place = LabelsOut(np.asarray(out))
        place.labels.fill(-1)
        yield place
    else:
        place = LabelsOut(np.full(n_rows, -1, dtype))
        yield place
        if place.labels.size and not np.can_cast(np.min_scalar_type(int(place.labels.max())), out.dtype, "same_kind"):
            raise InputError(f"`out` of {who}.predict must hold every label; {out.dtype} does not.")
        out[:] = place.labels
    place.result = out


@contextmanager
def _to_file(out: Any, n_rows: int, dtype: np.dtype[Any], who: str) -> Iterator[LabelsOut]:
    try:
        path = os.fsdecode(out)
    except TypeError:
        raise InputTypeError(
            f"`out` of {who}.predict must be an array, a memory map or the path of an npy file; got "
            f"{type(out).__name__}. Use numpy.empty({n_rows}, numpy.{dtype})."
        ) from None
    if not path.lower().endswith(".npy"):
        raise InputError(
            f"`out` of {who}.predict must be a path that ends in .npy; got '{path}'. Labels are written as one array."
        )
    with whole_file(path, f"{who}.predict") as stream:
        np.lib.format.write_array_header_1_0(
            stream, {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": (n_rows,)}
        )
        stream.flush()
        offset = stream.tell()
        _reserve(stream, offset + n_rows * dtype.itemsize)
        mapped = np.memmap(stream, dtype, "r+", offset, (n_rows,))
        place = LabelsOut(np.asarray(mapped))
        place.labels.fill(-1)
        yield place
        mapped.flush()
        place.labels = np.empty(0, dtype)
        del mapped  # some systems do not rename a file that is mapped
    place.result = np.load(path, mmap_mode="r")


def _reserve(stream: Any, n_bytes: int) -> None:
    """Room on the disk for a file that is written through a map: a disk that is full then ends the process."""
    stream.truncate(n_bytes)
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(stream.fileno(), 0, n_bytes)
