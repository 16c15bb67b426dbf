"""Lists of numbers in Parquet that is neither compressed nor encoded: read from their pages as they lie there.

To decode such a column, pyarrow walks over two levels for each number: 1.2 s of CPU for 2 million x 128 rows of
float16, where a pass with a hundred clusters takes 1.0. A page is a header, levels and numbers. Levels say where lists
begin and what is missing; those of whole lists of one length are the same bytes in page after page, so they are
decoded once and compared afterwards, and the numbers are read as they lie. Anything else is left to pyarrow.

Format: parquet-format, PageHeader in Thrift's compact protocol, levels in the RLE and bit-packing hybrid.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from armillary.exceptions import InputError
from armillary.sources.shards import Reader, Shard, advise

_PLAIN = {0, 3, 4}  # PLAIN, RLE, BIT_PACKED
# physical types whose bytes are those of a NumPy type, by the Arrow type that they stand for
_SAME = {
    (7, "halffloat"): "<f2",  # FIXED_LEN_BYTE_ARRAY
    (4, "float"): "<f4",
    (5, "double"): "<f8",
    (1, "int32"): "<i4",
    (2, "int64"): "<i8",
}
_MOST_FOOTER = 1 << 22  # bytes: those of a table of vectors are few
_DATA_PAGE, _DATA_PAGE_V2 = 0, 3
_HEADER_BYTES = 1 << 12  # more than a header takes, whose statistics hold two numbers
_MOST_KNOWN = 64  # level bytes that are remembered


class NotPlainError(Exception):
    """Something that pyarrow must look at."""


@dataclass(frozen=True)
class Chunk:
    """The column in one group of rows."""

    n_rows: int
    start: int  # byte of its first page
    n_bytes: int
    max_definition: int


@dataclass(frozen=True)
class _Page:
    first: int  # number of its first value in the group
    n_values: int
    values_at: int  # byte of its values


def plain_chunks(file: Any, path: str, column: str) -> tuple[list[Chunk], np.dtype[Any], int] | None:
    """Where a column of lists lies plainly, its type and width; None where it is encoded, or its lists differ."""
    leaves = [file.schema.column(number) for number in range(file.metadata.num_columns)]
    own = [number for number, leaf in enumerate(leaves) if str(leaf.path).split(".", 1)[0] == column]
    kind = str(file.schema_arrow.field(column).type.value_type)
    if len(own) != 1 or leaves[own[0]].max_repetition_level != 1:
        return None
    try:
        groups = [(group[3], group[1][own[0]][3]) for group in _footer(path)[4]]
        return _chunks(groups, kind, leaves[own[0]].max_definition_level)
    except (NotPlainError, LookupError, TypeError, struct.error):
        return None


def _footer(path: str) -> dict[int, Any]:
    """What a file says of its groups. Not by pyarrow, which ends the process over some codecs that do not exist."""
    with open(path, "rb") as stream:
        size = stream.seek(0, 2)
        stream.seek(max(0, size - 8))
        n_bytes = int.from_bytes(stream.read(4), "little")
        if n_bytes > min(_MOST_FOOTER, size - 8):
            raise NotPlainError
        stream.seek(size - 8 - n_bytes)
        return _struct(stream.read(n_bytes), 0)[0]


def _chunks(
    groups: list[tuple[int, dict[int, Any]]], kind: str, definition: int
) -> tuple[list[Chunk], np.dtype[Any], int] | None:
    """From rows and ColumnMetaData of each group."""
    chunks, width, dtype = [], 0, None
    for n_rows, about in groups:
        dtype = _SAME.get((about[1], kind))
        is_plain = about[4] == 0 and set(about[2]) <= _PLAIN and 11 not in about
        if n_rows < 1 or not is_plain or dtype is None:
            return None
        width = width or about[5] // n_rows
        if width < 1 or about[5] != width * n_rows or about[9] < 0 or about[7] < 0:
            return None
        chunks.append(Chunk(n_rows, about[9], about[7], definition))
    return (chunks, np.dtype(dtype), width) if chunks else None


class PagedShard(Shard):
    """Lists whose numbers lie in the pages of a Parquet file."""

    def __init__(self, path: str, chunks: list[Chunk], dtype: np.dtype[Any], width: int, decoded: Shard) -> None:
        super().__init__(path)
        self.chunks, self.dtype, self.n_features, self.decoded = chunks, dtype, width, decoded
        self.starts = [0, *np.cumsum([chunk.n_rows for chunk in chunks], dtype=np.int64).tolist()]
        self.n_rows = self.starts[-1]
        self._known: set[tuple[bytes, int, int]] = set()

    def reader(self) -> Reader:
        """See `Shard`."""
        return _PagedReader(self)

    def page(self, descriptor: int, chunk: Chunk, place: int, first: int) -> tuple[_Page, int]:
        """The page at a byte, whose first value has this number, and where it ends.

        `NotPlain` where it is not as it should be.
        """
        if place >= chunk.start + chunk.n_bytes:
            raise NotPlainError  # there are fewer values than rows need
        head = np.empty(min(_HEADER_BYTES, self.stamp.size - place), np.uint8)
        self.fill(descriptor, place, head)
        header, n_header = _struct(head.tobytes(), 0)
        n_values, levels, at = self._levels(descriptor, header, place + n_header, chunk)
        if header[3] < 1 or not 0 <= n_values <= chunk.n_rows * self.n_features - first:
            raise NotPlainError
        if not self._are_whole(levels, first % self.n_features, n_values, chunk):
            raise NotPlainError
        end = place + n_header + header[3]
        if at + n_values * self.dtype.itemsize != end:
            raise NotPlainError  # values are encoded otherwise, or some are missing
        return _Page(first, n_values, at), end

    def _levels(
        self, descriptor: int, header: dict[int, Any], place: int, chunk: Chunk
    ) -> tuple[int, tuple[bytes, bytes], int]:
        """Values, the levels of repetition and definition, and the byte where the values begin."""
        if header[1] == _DATA_PAGE_V2:
            about = header[8]
            if about[4] != 0 or about.get(2, 0):
                raise NotPlainError
            lengths = (about[6], about[5])
            levels = self._bytes(descriptor, place, sum(lengths))
            return about[1], (levels[: lengths[0]], levels[lengths[0] :]), place + sum(lengths)
        if header[1] != _DATA_PAGE or header[5][2] != 0:
            raise NotPlainError
        found = []
        for _ in range(2 if chunk.max_definition else 1):
            n_bytes = int.from_bytes(self._bytes(descriptor, place, 4), "little")
            if n_bytes > header[3]:
                raise NotPlainError
            found.append(self._bytes(descriptor, place + 4, n_bytes))
            place += 4 + n_bytes
        return header[5][1], (found[0], found[1] if len(found) > 1 else b""), place

    def _bytes(self, descriptor: int, place: int, n_bytes: int) -> bytes:
        values = np.empty(n_bytes, np.uint8)
        self.fill(descriptor, place, values)
        return values.tobytes()

    def _are_whole(self, levels: tuple[bytes, bytes], phase: int, n_values: int, chunk: Chunk) -> bool:
        """Whether lists begin at every D-th value and nowhere else, and nothing is missing."""
        # by their number too: the last group of eight levels is filled up with zeros, which would be levels of lists
        known = (levels[0], n_values, phase), (levels[1], n_values, -1)
        if all(key in self._known for key in known):
            return True
        repetition = _hybrid(levels[0], 1, n_values)
        begins = (phase + np.arange(n_values)) % self.n_features == 0
        definition = _hybrid(levels[1], chunk.max_definition.bit_length(), n_values) if levels[1] else None
        if not np.array_equal(repetition == 0, begins):
            return False
        if definition is not None and not (definition == chunk.max_definition).all():
            return False
        if len(self._known) > _MOST_KNOWN:
            self._known.clear()
        self._known.update(known)
        return True


class _Walk:
    """The pages of one group, found as far as they are wanted: so a file is read once, from beginning to end."""

    def __init__(self, shard: PagedShard, chunk: Chunk) -> None:
        self._shard, self._chunk = shard, chunk
        self._place, self._n_known = chunk.start, 0
        self._pages: list[_Page] = []

    def page(self, descriptor: int, value: int) -> _Page:
        """The page that has a value."""
        while self._n_known <= value:
            page, self._place = self._shard.page(descriptor, self._chunk, self._place, self._n_known)
            self._pages.append(page)
            self._n_known += page.n_values
        return self._pages[bisect_right(self._pages, value, key=lambda page: page.first) - 1]


class _PagedReader(Reader):
    def __init__(self, shard: PagedShard) -> None:
        self._shard = shard
        self._number, self._walk = -1, _Walk(shard, shard.chunks[0])
        self._decoded: Reader | None = None

    def read(self, start: int, stop: int, out: npt.NDArray[Any] | None) -> Any:
        assert out is not None
        if self._decoded is None:
            try:
                self._read(start, stop, out)
                return out
            except InputError:
                raise
            except (NotPlainError, LookupError, TypeError, ValueError, struct.error, OverflowError):
                self._decoded = self._shard.decoded.reader()  # which has the sentences, or reads it
        return self._decoded.read(start, stop, out)

    def _read(self, start: int, stop: int, out: npt.NDArray[Any]) -> None:
        shard = self._shard
        number, done = bisect_right(shard.starts, start) - 1, start
        with shard.opened() as descriptor:
            advise(descriptor, "SEQUENTIAL")
            while done < stop:
                last = min(stop, shard.starts[number + 1])
                if last > done:
                    if number != self._number:
                        self._walk, self._number = _Walk(shard, shard.chunks[number]), number
                    base = shard.starts[number]
                    self._copy(descriptor, done - base, last - base, out[done - start : last - start])
                done, number = last, number + 1

    def _copy(self, descriptor: int, start: int, stop: int, out: npt.NDArray[Any]) -> None:
        """Rows start..stop of the group at hand."""
        shard, flat = self._shard, out.reshape(-1)
        first, last = start * shard.n_features, stop * shard.n_features
        done = first
        while done < last:
            page = self._walk.page(descriptor, done)
            end = min(last, page.first + page.n_values)
            where = page.values_at + (done - page.first) * shard.dtype.itemsize
            shard.fill(descriptor, where, flat[done - first : end - first])
            done = end

    def close(self) -> None:
        """See `Reader`."""
        if self._decoded is not None:
            self._decoded.close()


def _varint(text: bytes, place: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = text[place]
        value, shift, place = value | (byte & 0x7F) << shift, shift + 7, place + 1
        if byte < 0x80:
            return value, place


def _struct(text: bytes, place: int) -> tuple[dict[int, Any], int]:
    """Fields of a struct in Thrift's compact protocol by their numbers, and where it ends."""
    fields: dict[int, Any] = {}
    number = 0
    while (head := text[place]) != 0:
        place += 1
        kind = head & 0x0F
        if head >> 4:
            number += head >> 4
        else:
            number, place = _varint(text, place)
            number = (number >> 1) ^ -(number & 1)
        fields[number], place = _value(text, place, kind)
    return fields, place + 1


def _value(text: bytes, place: int, kind: int) -> tuple[Any, int]:
    match kind:
        case 1 | 2:
            return kind == 1, place
        case 3:
            return text[place], place + 1
        case 4 | 5 | 6:
            value, place = _varint(text, place)
            return (value >> 1) ^ -(value & 1), place
        case 7:
            return struct.unpack_from("<d", text, place)[0], place + 8
        case 8:
            length, place = _varint(text, place)
            return text[place : place + length], place + length
        case 9 | 10:
            count, inner, place = text[place] >> 4, text[place] & 0x0F, place + 1
            if count == 15:
                count, place = _varint(text, place)
            values = []
            for _ in range(count):
                value, place = _value(text, place, inner)
                values.append(value)
            return values, place
        case 12:
            return _struct(text, place)
    raise NotPlainError  # maps stand nowhere


def _hybrid(text: bytes, n_bits: int, n_values: int) -> npt.NDArray[np.uint8]:
    """Levels in the hybrid of runs and bit-packed groups of eight."""
    levels = np.empty(n_values + 8, np.uint8)
    place = done = 0
    while done < n_values:
        head, place = _varint(text, place)
        if head & 1:
            count, n_bytes = 8 * (head >> 1), (head >> 1) * n_bits
            packed = np.frombuffer(text, np.uint8, n_bytes, place)
            bits = np.unpackbits(packed, bitorder="little").reshape(-1, n_bits)
            values = bits @ (1 << np.arange(n_bits, dtype=np.uint8))
            take = min(count, n_values - done)
            levels[done : done + take] = values[:take]
            place += n_bytes
        else:
            count = head >> 1
            take = min(count, n_values - done)
            levels[done : done + take] = text[place]
            place += 1  # one byte holds levels of lists
        if not count:
            raise NotPlainError
        done += take
    return levels[:n_values]
