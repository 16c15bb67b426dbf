"""Shards of tables: Parquet, and Arrow files and streams (Feather is one). The home of pyarrow besides `files`.

Lists of numbers in Arrow that is not compressed lie plainly in the file: pyarrow says where each record batch has its
numbers, and they are read from there like those of an npy file; for Parquet see `parquet_pages.py`. Everything else is
decoded some rows at a time by pyarrow and copied from its buffers. No row is ever a Python object.

Many small batches are most often as long as each other. To look at the message of each before the first row is read
took a cold file of 10 million rows a third of the time of a pass. So those of the first batches and of the last are
looked at by pyarrow, and in between messages are expected where they should be; each is compared as its rows are read,
and one that is otherwise has all of them looked at after all.
"""

from __future__ import annotations

import mmap
import struct
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from armillary.exceptions import InputError, MissingExtraError
from armillary.sources.columns import chosen_columns, is_list, some
from armillary.sources.parquet_pages import PagedShard, plain_chunks
from armillary.sources.shards import Reader, Shard, damaged, reading
from armillary.sources.watched import WatchedFile

# Numbers decoded at a time: 8 MB of float32.
_VALUES_AT_ONCE = 1 << 21
# Cells of a column of words that are decoded at a time.
_WORDS_AT_ONCE = 1 << 16
_PARQUET_ENDINGS = (".parquet", ".pq")
# Bytes of a column of a Parquet file that are fetched at a time.
_PARQUET_BUFFER = 1 << 20
# Small record batches that are read together: how many, of how many bytes in all, and how far apart at most.
_MOST_TOGETHER = 256
_BYTES_TOGETHER = 1 << 23
_NEAR = 1 << 16
# Batches whose beginnings the system is asked for together.
_FETCHED = 64
# Batches that are alike before more of them are expected, how many more there must be, and how many of those are tried.
_ALIKE = 4
_LEAST_EXPECTED = 64
_TRIED = 16
# Bytes after those that are read: the table of contents of a file, and few batches, which must be small.
_MOST_LEFT = 1 << 23
_ARROW_FILE = b"ARROW1"
_ARROW_FILE_START = 8  # an Arrow file is these bytes, a stream, and a table of contents
_MESSAGE = b"\xff\xff\xff\xff"  # what a message of a stream begins with


def _arrow() -> Any:
    try:
        import pyarrow
        import pyarrow.compute
        import pyarrow.ipc
    except ImportError as error:
        raise MissingExtraError.of("Reading Parquet and Arrow files", "pyarrow", "cli") from error
    return pyarrow


@contextmanager
def _reading(path: str) -> Iterator[Any]:
    """pyarrow, with what it complains of as a sentence."""
    pa = _arrow()
    with reading(path, "Parquet or Arrow"):
        try:
            yield pa
        except pa.ArrowException as error:
            raise damaged(path, "Parquet or Arrow", error) from error


def table_shard(kind: str, path: str, column: str | None, weights: str | None) -> Shard:
    """The rows of a table, "parquet" or "arrow"."""
    return (_parquet_shard if kind == "parquet" else _arrow_shard)(path, column, weights)


def _parquet_shard(path: str, column: str | None, weights: str | None) -> Shard:
    """The rows of a Parquet file."""
    with _reading(path):
        import pyarrow.parquet

        with pyarrow.parquet.ParquetFile(path) as file:
            schema, about = file.schema_arrow, file.metadata
            names = chosen_columns(schema, path, column, weights)
            group_rows = [about.row_group(number).num_rows for number in range(about.num_row_groups)]
            plain = plain_chunks(file, path, names[0]) if is_list(schema.field(names[0]).type) else None
        decoded = _decoded_shard(_Parquet(path, names), schema, group_rows)
        if plain is not None and plain[1:] == (decoded.dtype, decoded.n_features):
            paged = PagedShard(path, *plain, decoded)
            paged.columns = decoded.columns
            return paged
        return decoded


def _arrow_shard(path: str, column: str | None, weights: str | None) -> Shard:
    """The rows of an Arrow file or stream, or of a Feather file."""
    with _reading(path) as pa:
        with pa.memory_map(path) as mapped:
            schema, _ = _arrow_batches(pa, mapped, None)
            names = chosen_columns(schema, path, column, weights)
        if is_list(schema.field(names[0]).type):
            plain = _plain_shard(pa, path, names[0])
            if plain is not None:
                plain.columns = (names[0],)
                return plain
        return _decoded_shard(_Arrow(path, names), schema, _batch_rows(pa, path))


def table_column(path: str, name: str) -> npt.NDArray[Any]:
    """One column of numbers of a table, as it is stored."""
    is_parquet = path.lower().endswith(_PARQUET_ENDINGS)
    with _reading(path) as pa:
        if is_parquet:
            import pyarrow.parquet

            values = pyarrow.parquet.read_table(path, columns=[name])[name]
        else:
            with pa.memory_map(path) as mapped:
                schema, batches = _arrow_batches(pa, mapped, [name])
                values = pa.chunked_array([batch.column(0) for batch in batches], type=schema.field(name).type)
        if values.null_count:
            raise InputError(
                f"Column '{name}' of '{path}' must have a number in every row; {values.null_count:,} are missing. "
                "Fill them; 0 leaves a row out."
            )
        return np.asarray(values.to_numpy())


# ------------------------------------------------------------------------------------------- lists that lie plainly


@dataclass(frozen=True)
class _Piece:
    """Where one record batch has its lists."""

    n_rows: int
    values_at: int  # byte of the first number
    n_values: int
    offsets_at: int | None  # byte of the first offset; None where all lists have one length by their type
    message_at: int | None = None  # byte of the message, where it is only expected there

    @property
    def begins_at(self) -> int:
        """Byte of the first thing that must be read."""
        if self.message_at is not None:
            return self.message_at
        return self.values_at if self.offsets_at is None else self.offsets_at

    def moved(self, n_bytes: int, message_at: int) -> _Piece:
        """A batch like this one, so many bytes further on, whose message is expected at a byte."""
        offsets_at = None if self.offsets_at is None else self.offsets_at + n_bytes
        return _Piece(self.n_rows, self.values_at + n_bytes, self.n_values, offsets_at, message_at)


class _UnexpectedError(Exception):
    """A record batch is not where it was expected."""


class PiecedShard(Shard):
    """Lists of numbers that lie in several pieces of one file."""

    def __init__(
        self,
        path: str,
        column: str,
        pieces: list[_Piece],
        dtype: np.dtype[Any],
        width: int,
        offset_dtype: str,
        message: bytes = b"",
    ) -> None:
        super().__init__(path)
        self.column, self.pieces, self.dtype, self.n_features = column, pieces, dtype, width
        self.offset_dtype = np.dtype(offset_dtype)
        self.message = message  # what stands before batches that are expected
        self.starts = np.concatenate([[0], np.cumsum([piece.n_rows for piece in pieces], dtype=np.int64)]).tolist()
        self.n_rows = self.starts[-1]

    def reader(self) -> Reader:
        """See `Shard`."""
        return _PiecedReader(self)

    def looked_through(self) -> Shard:
        """The same rows, the message of each batch looked at."""
        with _reading(self.path) as pa:
            found = _plain_shard(pa, self.path, self.column, looks_at_all=True)
        self.check_unchanged()
        if found is None or (found.n_rows, found.n_features) != (self.n_rows, self.n_features):
            raise damaged(self.path, "Arrow", "its record batches are not where the first of them say")
        found.is_forgotten = self.is_forgotten
        return found


class _PiecedReader(Reader):
    def __init__(self, shard: PiecedShard) -> None:
        self._shard = shard
        self._even: npt.NDArray[Any] = np.zeros(0, np.int64)
        self._are_even = True  # until a batch is found whose lists lie otherwise: reading it twice would not pay
        self._certain: Reader | None = None  # once a batch was not where it was expected

    def read(self, start: int, stop: int, out: npt.NDArray[Any] | None) -> npt.NDArray[Any]:
        assert out is not None
        if self._certain is None:
            try:
                return self._read(start, stop, out)
            except _UnexpectedError:
                self._certain = self._shard.looked_through().reader()
        return self._certain.read(start, stop, out)

    def _read(self, start: int, stop: int, out: npt.NDArray[Any]) -> npt.NDArray[Any]:
        shard, done = self._shard, start
        number = bisect_right(shard.starts, start) - 1
        with shard.opened() as descriptor:
            while done < stop:
                base = shard.starts[number]
                many = self._together(number, stop) if self._are_even and done == base else 0
                if many > 1:
                    self._are_even = self._fill_many(descriptor, number, many, out[done - start :])
                    if self._are_even:
                        number += many
                        done = shard.starts[number]
                        continue
                last = min(stop, base + shard.pieces[number].n_rows)
                if last > done:
                    self._fill_some(descriptor, number, done, last, out[done - start : last - start])
                    done = last
                number += 1
        return out

    def _fill_some(self, descriptor: int, number: int, start: int, stop: int, out: npt.NDArray[Any]) -> None:
        """Rows of one piece."""
        shard, piece = self._shard, self._shard.pieces[number]
        if piece.message_at is not None:
            message = np.empty(len(shard.message), np.uint8)
            shard.fill(descriptor, piece.message_at, message)
            self._expect(message)
        first_value = self._first_value(descriptor, piece, shard.starts[number], start, stop)
        shard.fill(descriptor, piece.values_at + first_value * shard.dtype.itemsize, out)

    def _together(self, number: int, stop: int) -> int:
        """How many whole pieces from one on lie close to each other: batches of a thousand rows are common."""
        shard, count = self._shard, 0
        first = end = shard.pieces[number].begins_at
        for piece in shard.pieces[number : number + _MOST_TOGETHER]:
            n_values = piece.n_rows * shard.n_features
            if shard.starts[number + count + 1] > stop or n_values > piece.n_values:
                break
            n_bytes = 0 if piece.offsets_at is None else (piece.n_rows + 1) * shard.offset_dtype.itemsize
            if not end <= piece.begins_at <= piece.values_at - n_bytes <= piece.values_at <= end + _NEAR:
                break
            end = piece.values_at + n_values * shard.dtype.itemsize
            if end > first + _BYTES_TOGETHER:
                break
            count += 1
        return count

    def _fill_many(self, descriptor: int, number: int, count: int, out: npt.NDArray[Any]) -> bool:
        """Whole pieces in one reading, what lies between them aside; False where they are not what they seem."""
        shard, done, segments, between = self._shard, 0, list[Any](), list[npt.NDArray[np.uint8]]()
        pieces = shard.pieces[number : number + count]
        first = end = pieces[0].begins_at
        for piece in pieces:
            between.append(np.empty(piece.values_at - end, np.uint8))
            values = out[done : done + piece.n_rows].reshape(-1).view(np.uint8)
            segments += [between[-1], values]
            done, end = done + piece.n_rows, piece.values_at + values.size
        if not shard.scatter(descriptor, first, segments, end - first):
            return False
        for piece, gap in zip(pieces, between, strict=True):
            if piece.message_at is not None:
                skipped = len(gap) - (piece.values_at - piece.message_at)
                self._expect(gap[skipped : skipped + len(shard.message)])
            if piece.offsets_at is not None:
                skipped = len(gap) - (piece.values_at - piece.offsets_at)
                n_bytes = (piece.n_rows + 1) * shard.offset_dtype.itemsize
                offsets = gap[skipped : skipped + n_bytes].view(shard.offset_dtype)
                if not np.array_equal(offsets, self._even_offsets(piece.n_rows)):
                    return False
        return True

    def _expect(self, message: npt.NDArray[np.uint8]) -> None:
        if message.tobytes() != self._shard.message:
            raise _UnexpectedError

    def _even_offsets(self, n_rows: int) -> npt.NDArray[Any]:
        """Those of lists that begin with the first number and have one length."""
        if len(self._even) <= n_rows:
            self._even = np.arange(n_rows + 1, dtype=np.int64) * self._shard.n_features
        return self._even[: n_rows + 1]

    def _first_value(self, descriptor: int, piece: _Piece, base: int, start: int, stop: int) -> int:
        """The number of the first value of a row, once all lists are seen to be as long as they should."""
        shard = self._shard
        if piece.offsets_at is None:
            first, last = (start - base) * shard.n_features, (stop - base) * shard.n_features
        else:
            offsets = np.empty(stop - start + 1, shard.offset_dtype)
            shard.fill(descriptor, piece.offsets_at + (start - base) * offsets.itemsize, offsets)
            refuse_ragged(np.diff(offsets), shard.n_features, shard.path, start)
            first, last = int(offsets[0]), int(offsets[-1])
        if not 0 <= first <= last <= piece.n_values:
            raise _short_buffers(shard.path)
        return first


def refuse_ragged(lengths: npt.NDArray[Any], width: int, path: str, first_row: int) -> None:
    """Refuse lists that are not all as long as the first of the file."""
    odd = np.flatnonzero(lengths != width)
    if odd.size:
        raise InputError(
            f"'{path}' must have lists of one length; its first row has {width} numbers and row {first_row + odd[0]:,} "
            f"(counted from 0 in this file) has {lengths[odd[0]]}. Drop such rows, or embed them again."
        )


def _short_buffers(path: str) -> InputError:
    return InputError(
        f"'{path}' must be a whole Arrow file; its lists point outside their numbers, so it is damaged. "
        "Fetch it again from where it came."
    )


def _missing(path: str, column: str, row: int) -> InputError:
    return InputError(
        f"'{path}' must have a vector in every row; column '{column}' has none in row {row:,} (counted from 0 in this "
        "file). Drop such rows, or embed them."
    )


def _missing_number(path: str, column: str, row: int) -> InputError:
    return InputError(
        f"'{path}' must have every number; column '{column}' misses one in row {row:,} (counted from 0 in this file). "
        "Drop such rows, or fill them."
    )


def _arrow_batches(pa: Any, mapped: Any, columns: list[str] | None, first: int = 0) -> tuple[Any, Iterator[Any]]:
    """Schema and record batches, from one of them on, of an open Arrow file or stream; of some columns only."""
    start = _stream_start(mapped)
    if start is None or (start and first):
        # it can go to any batch, but copies columns that are picked while it reads
        whole = pa.ipc.open_file(mapped)
        numbers = range(first, whole.num_record_batches)
        found = (whole.get_batch(number) for number in numbers)
        return whole.schema, found if columns is None else (batch.select(columns) for batch in found)
    mapped.seek(start)
    reader = pa.ipc.open_stream(mapped)
    schema = reader.schema
    if columns is not None:
        fields = sorted(schema.get_field_index(name) for name in columns)
        mapped.seek(start)
        reader = pa.ipc.open_stream(mapped, options=pa.ipc.IpcReadOptions(included_fields=fields))
    return schema, (batch for number, batch in enumerate(reader) if number >= first)


def _stream_start(mapped: Any) -> int | None:
    """Where the stream of messages begins; None in files that have their schema in the table of contents alone.

    Polars writes such files: what stands at the place of the first message is no message.
    """
    mapped.seek(0)
    begin = mapped.read(_ARROW_FILE_START + len(_MESSAGE))
    if not begin.startswith(_ARROW_FILE):
        return 0
    return _ARROW_FILE_START if begin.endswith(_MESSAGE) else None


def _plain_shard(pa: Any, path: str, column: str, *, looks_at_all: bool = False) -> PiecedShard | None:
    """Lists whose numbers lie in the file as they are; None where they are compressed, or not whole bytes."""
    with _looked_through(pa, path) as (whole, mapped, fetch):
        schema, batches = _arrow_batches(pa, mapped, [column])
        kind = schema.field(column).type
        if pa.types.is_boolean(kind.value_type):
            return None
        lists = _Lists(pa, path, column, kind)
        pieces: list[_Piece] = []
        ends: list[int] = []  # where the next message begins, of each of the first batches
        expected = _Expected([], b"")
        for batch in batches:
            if pieces and len(pieces) % _FETCHED == _ALIKE + 1:
                apart = pieces[-1].values_at - pieces[-2].values_at
                fetch(pieces[-1].values_at + apart + pieces[-1].n_values * lists.dtype.itemsize, apart)
            piece = lists.piece(whole.address, whole.size, batch)
            if piece is None:
                return None
            pieces.append(piece)
            if len(pieces) <= _ALIKE:
                ends.append(mapped.tell())
            if len(pieces) == _ALIKE and not looks_at_all:
                expected = _expected(pa, whole, pieces, ends, lists)
                if expected.pieces:
                    pieces += expected.pieces
                    break
        return PiecedShard(path, column, pieces, lists.dtype, max(lists.width, 0), lists.offset_dtype, expected.message)


class _Lists:
    """The column of lists of one file, batch by batch."""

    def __init__(self, pa: Any, path: str, column: str, kind: Any) -> None:
        self._pa, self.path, self.column = pa, path, column
        self._is_fixed = pa.types.is_fixed_size_list(kind)
        self.offset_dtype = "<i8" if pa.types.is_large_list(kind) else "<i4"
        self.dtype = np.dtype(kind.value_type.to_pandas_dtype())
        self.width = kind.list_size if self._is_fixed else -1
        self.n_rows = 0  # of the batches so far

    def piece(self, address: int, size: int, batch: Any) -> _Piece | None:
        """Where a batch has its lists, from an address on; None where they do not lie plainly there."""
        pa, lists = self._pa, batch.column(0)
        if lists.null_count or lists.values.null_count:
            lists.validate(full=True)
        if lists.null_count:
            row = self.n_rows + int(pa.compute.index(lists.is_null(), True).as_py())
            raise _missing(self.path, self.column, row)
        values = lists.values
        if values.null_count:
            place = int(pa.compute.index(values.is_null(), True).as_py())
            row = self.n_rows + _row_of(lists, place, is_fixed=self._is_fixed)
            raise _missing_number(self.path, self.column, row)
        piece = _piece(address, size, lists, values, self.dtype.itemsize, is_fixed=self._is_fixed, width=self.width)
        if piece is not None and self.width < 0 and piece.n_rows:
            # not by len(lists[0]): pyarrow ends the process over offsets that point outside
            first, second = np.frombuffer(lists.buffers()[1], self.offset_dtype, lists.offset + 2)[-2:].tolist()
            self.width = second - first
            if not 0 <= first <= second <= piece.n_values:
                raise _short_buffers(self.path)
        if piece is not None:
            self.n_rows += piece.n_rows
        return piece


@dataclass(frozen=True)
class _Expected:
    """Batches after the first ones: those that are expected to be like them, and those at the end, which were read."""

    pieces: list[_Piece]
    message: bytes


def _expected(pa: Any, whole: Any, pieces: list[_Piece], ends: list[int], lists: _Lists) -> _Expected:
    """All other batches of a file, where it goes on as it begins; none where it may not."""
    none, view = _Expected([], b""), memoryview(whole)
    start, apart = ends[0], ends[1] - ends[0]
    model = pieces[1]
    n_bytes = model.begins_at - start
    if n_bytes <= 0 or apart <= 0 or bytes(view[start : start + len(_MESSAGE)]) != _MESSAGE:
        return none
    message = bytes(view[start : start + min(n_bytes, 8 + int.from_bytes(view[start + 4 : start + 8], "little"))])

    def is_alike(number: int) -> bool:
        """Whether the message of a batch is where it should be."""
        place = start + (number - 1) * apart
        return bytes(view[place : place + len(message)]) == message

    if any(
        replace(model.moved(number * apart, 0), message_at=None) != piece for number, piece in enumerate(pieces[1:])
    ):
        return none
    # of those that are expected; one more that begins alike, and what comes after it, are read
    last = bisect_right(range(_ALIKE, (len(view) - start) // apart + 1), False, key=lambda number: not is_alike(number))
    last += _ALIKE - 2
    tried = np.linspace(_ALIKE, last, _TRIED).astype(int).tolist()
    n_left = len(view) - start - last * apart
    if last - _ALIKE + 1 < _LEAST_EXPECTED or n_left > _MOST_LEFT or not all(map(is_alike, tried)):
        return none
    found = [model.moved((number - 1) * apart, start + (number - 1) * apart) for number in range(_ALIKE, last + 1)]
    n_before, lists.n_rows = lists.n_rows, lists.n_rows + len(found) * model.n_rows
    try:
        found += _last_pieces(pa, view, start + last * apart, lists)
    except (pa.ArrowException, InputError):
        lists.n_rows = n_before
        return none  # looking at all of them says what is wrong, and where
    return _Expected(found, message)


def _last_pieces(pa: Any, view: memoryview, place: int, lists: _Lists) -> list[_Piece]:
    """The batches from a byte on, read as a stream of their own."""
    reader = pa.BufferReader(pa.py_buffer(view))
    first = _stream_start(reader)
    _arrow_batches(pa, reader, None)  # goes to the end of the schema
    head = bytes(view[first : reader.tell()])
    with open(lists.path, "rb") as stream:  # not through the map, of which one page at a time is fetched
        stream.seek(place)
        rest = pa.py_buffer(head + stream.read())
    shift = place - len(head)
    pieces = []
    for batch in _arrow_batches(pa, pa.BufferReader(rest), [lists.column])[1]:
        piece = lists.piece(rest.address - shift, rest.size + shift, batch)
        if piece is None:
            raise pa.ArrowInvalid("the last batches do not lie plainly")
        pieces.append(piece)
    return pieces


@contextmanager
def _looked_through(pa: Any, path: str) -> Iterator[tuple[Any, Any, Callable[[int, int], None]]]:
    """A file as a buffer and as something to read, of which only what is looked at is fetched.

    Without that advice the system fetches 128 kB for each of the messages, which is half of the file where batches have
    a thousand rows, and all of it before the first row is worked on. Batches are most often as long as each other: the
    third value has the system fetch what says so of the next ones, from a place on and so far apart, all at once.
    """
    with open(path, "rb") as stream:
        mapped = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
    if hasattr(mapped, "madvise"):
        mapped.madvise(mmap.MADV_RANDOM)
    whole = pa.py_buffer(mapped)  # the map lives as long as what was found in it

    def fetch(first: int, apart: int) -> None:
        if apart < mmap.PAGESIZE or not hasattr(mapped, "madvise"):
            return
        last = min(first + (2 * _FETCHED + 1) * apart, len(mapped) - 2 * mmap.PAGESIZE)
        for place in range(first, last, apart):
            mapped.madvise(mmap.MADV_WILLNEED, place - place % mmap.PAGESIZE, 2 * mmap.PAGESIZE)

    yield whole, pa.BufferReader(whole), fetch


def _row_of(lists: Any, place: int, *, is_fixed: bool) -> int:
    if is_fixed:
        return place // max(1, lists.type.list_size)
    return int(np.searchsorted(lists.offsets.to_numpy(), place, side="right")) - 1


def _piece(
    address: int, size: int, lists: Any, values: Any, n_bytes: int, *, is_fixed: bool, width: int
) -> _Piece | None:
    """Where the buffers of a column of lists lie in so many bytes from an address on; None where they do not."""
    buffers = values.buffers()
    if not len(lists):
        return _Piece(0, 0, 0, None)
    if buffers[1] is None:
        return _Piece(len(lists), 0, 0, None) if is_fixed and width == 0 else None
    values_at = buffers[1].address - address
    n_held = buffers[1].size // n_bytes - values.offset
    if not 0 <= values_at <= size - buffers[1].size:
        return None
    offsets_at = None
    if is_fixed:
        values_at += lists.offset * width * n_bytes
    else:
        offsets = lists.buffers()[1]
        offsets_at = offsets.address - address
        if not 0 <= offsets_at <= size - offsets.size:
            return None
        n_bytes_each = 8 if offsets.size >= 8 * (len(lists) + 1) and str(lists.type).startswith("large") else 4
        if offsets.size < n_bytes_each * (lists.offset + len(lists) + 1):
            return None
        offsets_at += lists.offset * n_bytes_each
    return _Piece(len(lists), values_at + values.offset * n_bytes, n_held, offsets_at)


# ------------------------------------------------------------------------------------------------ rows that are decoded


def _batch_rows(pa: Any, path: str) -> list[int]:
    """How many rows each record batch has; nothing is decompressed where messages say it."""
    with pa.memory_map(path) as mapped:
        start = _stream_start(mapped)
        if start is None:
            return [batch.num_rows for batch in _arrow_batches(pa, mapped, None)[1]]
        mapped.seek(start)
        messages = pa.ipc.MessageReader.open_stream(mapped)
        found: list[int] = []
        while True:
            try:
                message = messages.read_next_message()
            except StopIteration:
                return found
            if message.type == "record batch":
                found.append(_rows_in_message(message.metadata.to_pybytes()))


def _rows_in_message(message: bytes) -> int:
    """The length of a record batch: the first field of the third field of its message (Arrow's Message.fbs)."""

    def number(form: str, place: int) -> int:
        return int(struct.unpack_from(form, message, place)[0])

    def field(table: int, which: int) -> int | None:
        names = table - number("<i", table)
        place = 4 + 2 * which
        offset = number("<H", names + place) if place < number("<H", names) else 0
        return table + offset if offset else None

    header = field(number("<I", 0), 2)
    assert header is not None
    length = field(header + number("<I", header), 0)
    return 0 if length is None else number("<q", length)


@dataclass(frozen=True)
class _Parquet:
    """How to decode a Parquet file from one of its row groups on."""

    path: str
    columns: list[str]

    def batches(self, first: int, n_rows: int) -> Iterator[Any]:
        import pyarrow.parquet

        # with a buffer, not a whole column of a row group is held, but a page or so
        with pyarrow.parquet.ParquetFile(self.path, buffer_size=_PARQUET_BUFFER, pre_buffer=False) as file:
            groups = list(range(first, file.metadata.num_row_groups))
            yield from file.iter_batches(n_rows, row_groups=groups, columns=self.columns)


@dataclass(frozen=True)
class _Arrow:
    """How to decode an Arrow file from one of its record batches on."""

    path: str
    columns: list[str]

    def batches(self, first: int, n_rows: int) -> Iterator[Any]:
        pa = _arrow()
        with pa.memory_map(self.path) as mapped:
            yield from _arrow_batches(pa, mapped, self.columns, first)[1]


def _decoded_shard(decoder: _Parquet | _Arrow, schema: Any, group_rows: list[int]) -> DecodedShard:
    kinds = [schema.field(name).type for name in decoder.columns]
    if is_list(kinds[0]):
        dtype = np.dtype(kinds[0].value_type.to_pandas_dtype())
        fixed = getattr(kinds[0], "list_size", None)
        return DecodedShard(decoder, group_rows, dtype, fixed, is_of_lists=True)
    common = np.result_type(*{np.dtype(kind.to_pandas_dtype()) for kind in kinds})
    dtype = common if common.kind == "f" else np.dtype(np.float64)
    return DecodedShard(decoder, group_rows, dtype, len(kinds), is_of_lists=False)


class DecodedShard(Shard):
    """Rows that pyarrow decodes, some at a time, from the beginning of a group of rows on."""

    def __init__(
        self,
        decoder: _Parquet | _Arrow,
        group_rows: list[int],
        dtype: np.dtype[Any],
        width: int | None,
        *,
        is_of_lists: bool,
    ) -> None:
        super().__init__(decoder.path)
        self.decoder, self.dtype, self.is_of_lists = decoder, dtype, is_of_lists
        self.columns = tuple(decoder.columns)
        self.starts = [0, *np.cumsum(group_rows, dtype=np.int64).tolist()]
        self.n_rows = self.starts[-1]
        self.n_features = self._first_width() if width is None else width

    def _first_width(self) -> int:
        """How long the first list is."""
        for batch in self.decoder.batches(0, 1):
            batch.validate(full=True)
            if len(batch):
                first = batch.column(0)[0].as_py()
                if first is None:
                    raise _missing(self.path, self.decoder.columns[0], 0)
                return len(first)
        return 0

    def reader(self) -> Reader:
        """See `Shard`."""
        return _DecodedReader(self)

    def reorder(self, columns: tuple[str, ...]) -> None:
        """See `Shard`."""
        self.decoder, self.columns = replace(self.decoder, columns=list(columns)), columns

    def copy(self, batch: Any, out: npt.NDArray[Any], first_row: int) -> None:
        """The vectors of a record batch, whose first row is `first_row` of the file."""
        if self.is_of_lists:
            self._copy_lists(batch.column(batch.schema.get_field_index(self.decoder.columns[0])), out, first_row)
            return
        for number, name in enumerate(self.decoder.columns):
            column = batch.column(batch.schema.get_field_index(name))
            if column.null_count:
                place = int(_arrow().compute.index(column.is_null(), True).as_py())
                raise _missing_number(self.path, name, first_row + place)
            out[:, number] = column.to_numpy(zero_copy_only=False)

    def _copy_lists(self, lists: Any, out: npt.NDArray[Any], first_row: int) -> None:
        pa, name = _arrow(), self.decoder.columns[0]
        if lists.null_count:
            raise _missing(self.path, name, first_row + int(pa.compute.index(lists.is_null(), True).as_py()))
        if pa.types.is_fixed_size_list(lists.type):
            values = lists.flatten()
        else:
            offsets = lists.offsets.to_numpy()
            refuse_ragged(np.diff(offsets), self.n_features, self.path, first_row)
            if not 0 <= offsets[0] <= offsets[-1] <= len(lists.values):
                raise _short_buffers(self.path)
            values = lists.values[int(offsets[0]) : int(offsets[-1])]
        if values.null_count:
            place = int(pa.compute.index(values.is_null(), True).as_py())
            raise _missing_number(self.path, name, first_row + place // max(1, self.n_features))
        out[...] = values.to_numpy(zero_copy_only=False).reshape(out.shape)


class _DecodedReader(Reader):
    """Rows of a shard as they are decoded."""

    def __init__(self, shard: DecodedShard) -> None:
        self._shard = shard
        n_rows = max(1, _VALUES_AT_ONCE // max(1, shard.n_features))
        self._walk = _Walk(shard, shard.decoder, shard.starts, n_rows)

    def read(self, start: int, stop: int, out: npt.NDArray[Any] | None) -> npt.NDArray[Any]:
        assert out is not None
        shard = self._shard
        shard.check_unchanged()
        try:
            with _reading(shard.path):
                for part, first in self._walk.parts(start, stop):
                    shard.copy(part, out[first - start : first - start + len(part)], first)
        except BaseException:
            self.close()
            raise
        shard.check_unchanged()
        return out

    def close(self) -> None:
        """See `Reader`."""
        self._walk.close()


class _Walk:
    """Record batches of a table from any row on: a place in a file that can be gone on from, but not back."""

    def __init__(self, file: WatchedFile, decoder: _Parquet | _Arrow, starts: list[int], rows_at_once: int) -> None:
        self.file = file
        self._decoder, self._starts, self._rows_at_once = decoder, starts, rows_at_once
        self._batches: Iterator[Any] | None = None
        self._batch: Any = None
        self._first = 0  # row of the batch at hand

    def parts(self, start: int, stop: int) -> Iterator[tuple[Any, int]]:
        """The rows start..stop as parts of record batches, each with its first row."""
        self._go_to(start)
        done = start
        while done < stop:
            end = self._first + len(self._batch)
            if done >= end:
                self._next(end)
                continue
            last = min(stop, end)
            yield self._batch.slice(done - self._first, last - done), done
            done = last

    def _go_to(self, row: int) -> None:
        """Have a batch at hand that begins at this row or before it, in the group of the row or at its end."""
        group = bisect_right(self._starts, row) - 1
        is_near = self._batches is not None and self._starts[group] <= self._first + len(self._batch)
        if not is_near or row < self._first:
            self.close()
            self._batches = self._decoder.batches(group, self._rows_at_once)
            self._next(self._starts[group])

    def _next(self, first: int) -> None:
        assert self._batches is not None
        batch = next(self._batches, None)
        if batch is None:
            raise self.file.changed(f"it ends at row {first:,} of {self._starts[-1]:,}")
        batch.validate(full=True)  # offsets of a file are believed by everything that comes after
        self._batch, self._first = batch, first

    def close(self) -> None:
        """Let go of the file."""
        if self._batches is not None:
            self._batches.close()  # type: ignore[attr-defined]
        self._batches = self._batch = None


# ------------------------------------------------------------------------------------------------ columns of words


class TableColumn:
    """One column of tables that stay on disk, in their order: some rows of it at a time, as they are stored."""

    def __init__(self, paths: Sequence[str], name: str) -> None:
        self._walks: list[_Walk] = []
        self._starts, self._type = [0], None
        for path in paths:
            with _reading(path) as pa:
                file = WatchedFile(path)
                decoder, schema, group_rows = _opened(pa, path, [name])
                if name not in schema.names:
                    raise InputError(f"'{path}' has no column '{name}'. Its columns: {some(schema.names)}.")
                self._type = self._type or _cell_type(pa, schema.field(name).type)
            starts = [0, *np.cumsum(group_rows, dtype=np.int64).tolist()]
            self._walks.append(_Walk(file, decoder, starts, _WORDS_AT_ONCE))
            self._starts.append(self._starts[-1] + starts[-1])

    def __len__(self) -> int:
        return self._starts[-1]

    def __getitem__(self, wanted: Any) -> Any:
        """One cell by its number, or an Arrow array of those from..to."""
        if not isinstance(wanted, slice):
            return self._between(int(wanted), int(wanted) + 1)[0].as_py()
        first, last, _ = wanted.indices(len(self))
        return self._between(first, last)

    def _between(self, first: int, last: int) -> Any:
        pa, parts = _arrow(), []
        while first < last:
            table = bisect_right(self._starts, first) - 1
            start, stop = self._starts[table], min(last, self._starts[table + 1])
            walk = self._walks[table]
            walk.file.check_unchanged()
            with _reading(walk.file.path):
                parts += [part.column(0).cast(self._type) for part, _ in walk.parts(first - start, stop - start)]
            walk.file.check_unchanged()
            first = stop
        return pa.chunked_array(parts, type=self._type)

    def close(self) -> None:
        """Let go of the files."""
        for walk in self._walks:
            walk.close()


def _cell_type(pa: Any, kind: Any) -> Any:
    """As a column is stored, but for codes and views of words, which differ from batch to batch."""
    is_plain = not pa.types.is_dictionary(kind) and not pa.types.is_string_view(kind)
    return kind if is_plain else pa.string()


def column_types(path: str) -> dict[str, Any]:
    """The columns of a table by name, and the types of their values."""
    with _reading(path) as pa:
        _, schema, _ = _opened(pa, path, [])
        return {field.name: field.type for field in schema}


def _opened(pa: Any, path: str, names: list[str]) -> tuple[_Parquet | _Arrow, Any, list[int]]:
    """How to decode some columns of a table, what it holds, and the rows of its groups."""
    if path.lower().endswith(_PARQUET_ENDINGS):
        import pyarrow.parquet

        with pyarrow.parquet.ParquetFile(path) as file:
            about = file.metadata
            group_rows = [about.row_group(number).num_rows for number in range(about.num_row_groups)]
            return _Parquet(path, names), file.schema_arrow, group_rows
    with pa.memory_map(path) as mapped:
        schema, _ = _arrow_batches(pa, mapped, None)
    return _Arrow(path, names), schema, _batch_rows(pa, path)
