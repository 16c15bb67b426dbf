"""Input files of every format, whole and hostile: rows that are what they should be, or a sentence.

A trial writes a small file, changes it (bytes, lengths, numbers in headers, pointers, sizes, encodings, compression) or
leaves it as it is, and reads it as `armillary convert --normalize` would. A file that was left alone comes back as it
was written. Any other gives rows with as many ids and texts, finite once they have passed the gate, or a sentence that
names the file. The process may take 1 GiB beyond what it has, so that a file which only claims to be large shows.
"""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import re
import resource
import tempfile
import warnings
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.ipc
import pyarrow.json
import pyarrow.parquet
import scipy.io
import scipy.sparse as sp
from tests.campaigns.campaign import main

from armillary.exceptions import InputError
from armillary.files import Vectors, read_labels, read_vectors, sizes, write_vectors
from armillary.files.formats import FORMATS
from armillary.validation import unit_rows

Random = np.random.Generator

_ROOM = 1 << 30  # bytes that a trial may take
_FREELY = 1 << 22  # bytes that a file may unpack to here: bombs are then quick to make
_PACK = {".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress}
_ENDING = {"svmlight": ".svm"}
_SPARSE_FORMS = ("csr", "csc", "coo", "bsr", "dia")
_WORDS = [
    b"999999999999",
    b"1000000000",
    b"-1",
    b"0",
    b"1e400",
    b"nan",
    b"inf",
    b"",
    b"18446744073709551616",
    b"x",
    b"2",
]


def trial(random: Random) -> str:
    """One file."""
    kind = str(random.choice(sorted(FORMATS)))
    rows = _rows(random)
    content = _content(random, kind, rows)
    change = _CHANGES[random.integers(len(_CHANGES))]
    is_whole = change is _nothing
    content = change(random, kind, content)
    ending = _ENDING.get(kind, f".{kind}")
    if random.random() < 0.15:
        packing = str(random.choice(sorted(_PACK)))
        content, ending = _PACK[packing](content), ending + packing
        if random.random() < 0.3:
            content, is_whole = _flips(random, kind, content), False
    with tempfile.TemporaryDirectory() as folder, _little_room(), _errors_for_warnings():
        path = Path(folder, f"file{ending}")
        path.write_bytes(content)
        return _read(random, path, rows if is_whole else None)


def _read(random: Random, path: Path, expected: np.ndarray | None) -> str:
    try:
        if expected is None and random.random() < 0.1:
            labels = read_labels(path, 7)
            assert labels.shape == (7,)
            return "labels"
        vectors = read_vectors(path)
    except (InputError, OSError) as error:
        if expected is not None:
            raise
        return _sentence(error, path)
    n_rows, n_features = vectors.rows.shape
    assert n_rows > 0, "no rows"
    assert n_features > 1, "no columns"
    for words in (vectors.ids, vectors.texts):
        assert words is None or len(words) == n_rows, "words of other rows"
    if expected is not None:
        found = vectors.rows.toarray() if sp.issparse(vectors.rows) else vectors.rows
        np.testing.assert_allclose(found, expected, rtol=1e-6)
    try:
        unit = unit_rows(vectors.rows, vectors.source, "The array")
        assert np.isfinite(unit.data if sp.issparse(unit) else unit).all()
        if random.random() < 0.2:
            _write_again(random, path, Vectors(unit, vectors.ids, vectors.texts))
    except InputError as error:
        return "rows, then a " + _sentence(error, path)
    return "rows"


def _write_again(random: Random, path: Path, vectors: Vectors) -> None:
    """Write what was read in another format; it comes back."""
    if vectors.rows.shape[0] * vectors.rows.shape[1] > 1 << 20:
        return
    kind = str(random.choice(sorted(FORMATS)))
    other = path.with_name(f"other{_ENDING.get(kind, f'.{kind}')}")
    write_vectors(other, vectors)
    assert read_vectors(other).rows.shape == vectors.rows.shape


def _sentence(error: Exception, path: Path) -> str:
    assert path.name in str(error) or isinstance(error, OSError), f"a sentence that names no file: {error}"
    assert len(str(error)) < 1000, f"a sentence of {len(str(error))} letters"
    return "sentence"


@contextmanager
def _little_room() -> Iterator[None]:
    """Within, the process has 1 GiB more than now, and compressed files unpack to a few MiB."""
    # threads of pyarrow, and their memory, are there before the room is measured
    pyarrow.csv.read_csv(io.BytesIO(b"a\n1\n"))
    pyarrow.json.read_json(io.BytesIO(b'{"a": 1}\n'))
    before, freely = resource.getrlimit(resource.RLIMIT_AS), sizes.UNPACKED_FREELY
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    sizes.UNPACKED_FREELY = _FREELY
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + _ROOM, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)
        sizes.UNPACKED_FREELY = freely


@contextmanager
def _errors_for_warnings() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


# ------------------------------------------------------------------------------------------------------ whole files


def _rows(random: Random) -> np.ndarray:
    shape = random.integers(1, 9), random.integers(2, 7)
    rows = np.round(random.normal(size=shape), 3) * (random.random(shape) < 0.8)
    rows[:, 0] += 5.0  # every row has a direction
    rows[:, -1] += 0.5  # and svmlight a last column
    return rows.astype(random.choice([np.float32, np.float64]))


def _content(random: Random, kind: str, rows: np.ndarray) -> bytes:
    if kind == "npz" and random.random() < 0.6:
        return _sparse_npz(random, rows)
    if kind == "mtx":
        return _mtx(random, rows)
    if kind == "arrow" and random.random() < 0.7:
        return _arrow(random, rows)
    if kind == "parquet" and random.random() < 0.7:
        return _parquet(random, rows)
    has_words = random.random() < 0.3
    words = {"ids": [f"id{n}" for n in range(len(rows))], "texts": ["a text, so"] * len(rows)} if has_words else {}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "whole")
        write_vectors(path, Vectors(rows, **words), format=kind)
        return path.read_bytes()


def _sparse_npz(random: Random, rows: np.ndarray) -> bytes:
    form = str(random.choice(_SPARSE_FORMS))
    stream = io.BytesIO()
    sp.save_npz(stream, getattr(sp, f"{form}_array")(rows), compressed=bool(random.random() < 0.5))
    return stream.getvalue()


def _mtx(random: Random, rows: np.ndarray) -> bytes:
    stream = io.BytesIO()
    scipy.io.mmwrite(stream, sp.coo_array(rows) if random.random() < 0.6 else rows)
    return stream.getvalue()


def _table(random: Random, rows: np.ndarray) -> pa.Table:
    if random.random() < 0.5:
        return pa.table({f"x{number}": column for number, column in enumerate(rows.T)})
    words = {"text": pa.array(["some", "words"] * len(rows)).slice(0, len(rows)).dictionary_encode()}
    return pa.table({**(words if random.random() < 0.5 else {}), "vector": rows.tolist()})


def _arrow(random: Random, rows: np.ndarray) -> bytes:
    table, stream = _table(random, rows), io.BytesIO()
    options = pyarrow.ipc.IpcWriteOptions(compression=random.choice([None, "lz4", "zstd"]))
    make = pyarrow.ipc.new_file if random.random() < 0.6 else pyarrow.ipc.new_stream
    with make(stream, table.schema, options=options) as writer:
        writer.write_table(table, max_chunksize=int(random.integers(1, 9)))
    return stream.getvalue()


def _parquet(random: Random, rows: np.ndarray) -> bytes:
    stream = io.BytesIO()
    packing = str(random.choice(["none", "snappy", "gzip", "zstd"]))
    table = _table(random, rows)
    pyarrow.parquet.write_table(table, stream, compression=packing, row_group_size=int(random.integers(1, 9)))
    return stream.getvalue()


# ---------------------------------------------------------------------------------------------------------- changes


def _nothing(random: Random, kind: str, content: bytes) -> bytes:
    return content


def _flips(random: Random, kind: str, content: bytes) -> bytes:
    """Some bytes become others."""
    found = bytearray(content)
    for place in random.integers(max(1, len(found)), size=random.integers(1, 12)):
        if place < len(found):
            found[place] = random.integers(256)
    return bytes(found)


def _flips_in_front(random: Random, kind: str, content: bytes) -> bytes:
    """Some of the first bytes become others: most headers are there."""
    return _flips(random, kind, content[:160]) + content[160:]


def _flips_at_end(random: Random, kind: str, content: bytes) -> bytes:
    """Some of the last bytes become others: zip, parquet and arrow have their lists there."""
    return content[:-200] + _flips(random, kind, content[-200:])


def _cut(random: Random, kind: str, content: bytes) -> bytes:
    return content[: random.integers(len(content))]


def _moved(random: Random, kind: str, content: bytes) -> bytes:
    """A piece is left out, or comes twice, or comes from elsewhere in the file."""
    start, stop = np.sort(random.integers(len(content) + 1, size=2))
    piece = content[start:stop]
    place = random.integers(len(content) + 1)
    return [content[:start] + content[stop:], content[:stop] + piece + content[stop:], content[:place] + piece][
        random.integers(3)
    ]


def _numbers(random: Random, kind: str, content: bytes) -> bytes:
    """A number that is written in digits becomes another; the header of an npy file keeps its length."""
    found = list(re.finditer(rb"-?\d[\d.e+-]*", content))
    if not found:
        return content + b"\n"
    # of three files of four, one of the first numbers: those of headers
    match = found[random.integers(min(len(found), 8) if random.random() < 0.75 else len(found))]
    word = _WORDS[random.integers(len(_WORDS))]
    changed = content[: match.start()] + word + content[match.end() :]
    longer = len(word) - (match.end() - match.start())
    if kind == "npy" and b"\n" in changed:
        end = changed.index(b"\n")
        spaces = b" " * max(0, -longer)
        changed = changed[: end - max(0, longer)] + spaces + changed[end:]
    return changed


def _integers(random: Random, kind: str, content: bytes) -> bytes:
    """Four or eight bytes become an integer at the end of its range, or near 0."""
    width = int(random.choice([4, 8]))
    value = (
        int(random.choice([0, 1, -1, 2**31 - 1, -(2**31), 10**8]))
        if width == 4
        else int(random.choice([0, 1, -1, 2**62, -(2**63), 10**12]))
    )
    place = int(random.integers(max(1, len(content) - width)))
    return content[:place] + value.to_bytes(width, "little", signed=True) + content[place + width :]


def _other_members(random: Random, kind: str, content: bytes) -> bytes:
    """An archive of arrays with one of them changed: pointers, indices, shapes, kinds; or made anew from elsewhere."""
    if kind != "npz":
        return _flips(random, kind, content)
    with np.load(io.BytesIO(content)) as archive:
        arrays = {name: archive[name] for name in archive.files}
    name = str(random.choice(sorted(arrays)))
    arrays[name] = _odd_array(random, arrays[name])
    if random.random() < 0.1:
        del arrays[name]
    stream = io.BytesIO()
    np.savez(stream, **arrays)
    return stream.getvalue()


def _odd_array(random: Random, array: np.ndarray) -> np.ndarray:
    if array.dtype.kind in "iuf" and array.size and random.random() < 0.7:
        array = array.copy()
        ends = [0, 1, -1, 7, 10**8, -(10**8), 2**31 - 1] if array.dtype.kind in "iu" else [np.nan, np.inf, 1e38, 0.0]
        array.flat[random.integers(array.size)] = np.array(random.choice(ends)).astype(array.dtype)
        return array
    return [
        array.ravel()[:-1],
        array.astype(bytes) if array.dtype.kind != "S" else array.astype(str),
        array.reshape(1, *array.shape),
        np.array("csr"),
        np.array("xyz"),
        np.zeros(0),
        array.astype(np.complex128) if array.dtype.kind in "iuf" else array,
        np.array([2**62, 2**62]),
        np.array([10**9, 5]),
    ][random.integers(9)]


def _bomb(random: Random, kind: str, content: bytes) -> bytes:
    """Something that unpacks to far more than it is."""
    n_bytes = int(random.choice([1 << 20, 1 << 23, 1 << 25]))
    stream = io.BytesIO()
    if kind == "npz":
        with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
            array = io.BytesIO()
            np.save(array, np.ones((n_bytes // 64, 8)))
            archive.writestr("vectors.npy", array.getvalue())
    elif kind == "parquet":
        pyarrow.parquet.write_table(pa.table({"x": np.ones(n_bytes // 8), "y": np.ones(n_bytes // 8)}), stream)
    elif kind == "arrow":
        table = pa.table({"x": np.ones(n_bytes // 16), "y": np.ones(n_bytes // 16)})
        with pyarrow.ipc.new_file(
            stream, table.schema, options=pyarrow.ipc.IpcWriteOptions(compression="zstd")
        ) as writer:
            writer.write_table(table)
    else:
        return content + b" " * n_bytes
    return stream.getvalue()


def _claims(random: Random, kind: str, content: bytes) -> bytes:
    """A header that says too much."""
    many = int(random.choice([10**6, 10**9, 10**12, 2**63, 10**30]))
    if kind == "npy":
        array = io.BytesIO()
        np.lib.format.write_array_header_1_0(array, {"descr": "<f8", "fortran_order": False, "shape": (many, 3)})
        return array.getvalue() + bytes(48)
    if kind == "npz":
        array, stream = io.BytesIO(), io.BytesIO()
        np.lib.format.write_array_header_1_0(array, {"descr": "<f4", "fortran_order": False, "shape": (many, 2)})
        with zipfile.ZipFile(stream, "w") as archive:
            archive.writestr("x.npy", array.getvalue() + bytes(16))
        return stream.getvalue()
    if kind == "mtx":
        entries = int(random.choice([1, 2, many]))
        form = str(random.choice(["coordinate real general", "coordinate real symmetric", "array real general"]))
        sizes = f"{many} 3" if form.startswith("array") else f"{many} {random.choice([3, many])} {entries}"
        return f"%%MatrixMarket matrix {form}\n{sizes}\n1 1 1.0\n2 1 2.0\n".encode()
    if kind == "svmlight":
        return [f"# armillary columns: {many}\n0 1:1 2:1\n", f"0 1:1 {many}:1\n0 1:2\n"][random.integers(2)].encode()
    if kind == "safetensors":
        header = json.dumps({"x": {"dtype": "F32", "shape": [many, 3], "data_offsets": [0, 24]}}).encode()
        return len(header).to_bytes(8, "little") + header + bytes(24)
    if kind == "jsonl":
        return b"[" * int(random.choice([10, 10**5])) + content
    return _integers(random, kind, content)


def _encodings(random: Random, kind: str, content: bytes) -> bytes:
    """Text in another encoding, with other ends of lines, with marks in it."""
    text = content.decode("latin-1")
    return [
        text.encode("utf-16"),
        text.encode("utf-8-sig"),
        text.replace("\n", "\r\n").encode("utf-8"),
        text.replace("\n", "\r").encode("utf-8"),
        text.replace(" ", "\x00").encode("utf-8"),
        text.replace("1", "\u0661").encode("utf-8"),
        text.replace("0", "\u00e9").encode("latin-1"),
        ('"' + text).encode("utf-8"),
        (text + "\n\n\n").encode("utf-8"),
    ][random.integers(9)]


def _lines(random: Random, kind: str, content: bytes) -> bytes:
    """Lines are dropped, doubled, joined or cut."""
    lines = content.split(b"\n")
    number = int(random.integers(len(lines)))
    line = lines[number]
    lines[number] = [
        b"",
        line + b"\n" + line,
        line[: len(line) // 2],
        line + line,
        line + b",1",
        line.replace(b",", b" "),
    ][random.integers(6)]
    return b"\n".join(lines)


def _other_kind(random: Random, kind: str, content: bytes) -> bytes:
    """A file of one format under the name of another."""
    return _content(random, str(random.choice(sorted(FORMATS))), _rows(random))


def _nearly_empty(random: Random, kind: str, content: bytes) -> bytes:
    return [b"", b"\n", b"\x00", b"PK\x03\x04", b"\x93NUMPY", b"PAR1PAR1", b"ARROW1", b"{}", b"[]", b"%%MatrixMarket"][
        random.integers(10)
    ]


_CHANGES: list[Callable[[Random, str, bytes], Any]] = [
    _nothing,
    _flips,
    _flips_in_front,
    _flips_at_end,
    _cut,
    _moved,
    _numbers,
    _integers,
    _other_members,
    _bomb,
    _claims,
    _encodings,
    _lines,
    _other_kind,
    _nearly_empty,
]


if __name__ == "__main__":
    main("inputs", trial)
