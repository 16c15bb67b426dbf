"""Bodies of requests to vectors: JSON, npy, plain float32 or float16, and msgpack.

JSON costs more than the clustering; the others are read without a copy. What does not fit is refused with its row.
"""

from __future__ import annotations

import io
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeGuard

import msgpack
import numpy as np

from armillary.exceptions import ArmillaryError, RowError
from armillary.points import as_points
from armillary.service.errors import ServiceError, unusable
from armillary.service.operations import DTYPES, Rows

JSON, NPY, RAW, MSGPACK = "application/json", "application/x-npy", "application/octet-stream", "application/msgpack"
_KNOWN = {"vectors", "dtype", "shape", "frame", "frames", "margin"}
_ASKED = {"frame", "margin", "dtype", "dimension", "k"}  # after the question mark
_MOST_FRAME = 256  # characters
_MOST_DEEP = 64  # levels of what is attached; what writes answers goes a few hundred deep


@dataclass(frozen=True)
class Given:
    """Vectors with what was said of them."""

    rows: Rows
    fields: dict[str, Any]
    more: dict[str, Any]


def read_vectors(
    content_type: str, body: bytes, query: Mapping[str, str], *, n_features: int | None, most: int, widest: int
) -> Given:
    """The vectors of a request, looked at as a fit would, and its rules."""
    for name in query:
        if name not in _ASKED:  # a frame that is written otherwise would be no frame
            raise unusable(
                f"?{name[:64]}= is none of {', '.join(sorted(_ASKED))}. frames are fields of JSON or msgpack."
            )
    kind = content_type.split(";")[0].strip().lower() or JSON
    beside: dict[str, Any] = {}
    if kind == NPY:
        rows = _npy(body)
    elif kind == RAW:
        rows = _raw(body, query, n_features)
    elif kind in (JSON, MSGPACK):
        beside = _object(_json(body) if kind == JSON else _msgpack(body))
        rows = _rows_of(beside)
    else:
        raise ServiceError(415, f"Vectors come as {JSON}, {NPY}, {RAW} or {MSGPACK}; got {kind!r}.")
    rows = _matrix(rows)
    if len(rows) > most:
        raise ServiceError(413, f"A request has at most {most:,} vectors; got {len(rows):,}. Send several.")
    _check(rows, n_features, widest)
    return Given(rows, _rules(beside, query, len(rows)), beside)


def attachment(body: bytes) -> dict[str, Any]:
    """A body that must be a JSON object which can be told again: of finite numbers, of text, and not too deep."""
    given = _object(_json(body), "")
    if _is_deeper(given, _MOST_DEEP):
        raise unusable(f"meta must be at most {_MOST_DEEP} objects or lists deep. Write what is inside as text.")
    try:
        json.dumps(given, allow_nan=False, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise unusable("meta must be of whole characters; it has half of one (\\ud800 to \\udfff).") from None
    except ValueError:
        raise unusable("meta must be JSON with finite numbers.") from None
    return given


def _is_deeper(value: Any, most: int) -> bool:
    layer = [value]
    for _ in range(most + 1):
        inside = [one for one in layer if isinstance(one, dict | list)]
        layer = [part for one in inside for part in (one.values() if isinstance(one, dict) else one)]
    return bool(inside)


def _json(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError) as error:
        raise unusable(f"The body must be JSON; it is not: {str(error)[:200]}.") from None


def _msgpack(body: bytes) -> Any:
    try:
        return msgpack.unpackb(body, strict_map_key=True)
    except (ValueError, TypeError, RecursionError, msgpack.UnpackException, msgpack.exceptions.StackError) as error:
        raise unusable(f"The body must be msgpack; it is not: {str(error)[:200]}.") from None


def _object(value: Any, having: str = " with the field vectors") -> dict[str, Any]:
    if not isinstance(value, dict):
        raise unusable(f"The body must be an object{having}; got {type(value).__name__}.")
    return value


def _rows_of(given: dict[str, Any]) -> Rows:
    for name in given:
        if name not in _KNOWN:
            raise unusable(
                f"{str(name)[:64]!r} is no field of a request for vectors; there are {', '.join(sorted(_KNOWN))}."
            )
    vectors = given.get("vectors")
    if isinstance(vectors, bytes):
        return _packed(vectors, given)
    if not isinstance(vectors, list) or not vectors:
        raise unusable("vectors must be a list of lists of numbers with one entry at least.")
    if not isinstance(vectors[0], list):
        vectors = [vectors]
    width = len(vectors[0]) if isinstance(vectors[0], list) else 0
    for row, vector in enumerate(vectors):
        if not isinstance(vector, list) or len(vector) != width or not width:
            raise unusable(f"Row {row} of vectors must be a list of {width or 'some'} numbers, as row 0 is.", row=row)
        for value in vector:
            if type(value) is not float and type(value) is not int:
                raise unusable(f"Row {row} of vectors must hold numbers; it holds {type(value).__name__}.", row=row)
    try:
        return np.array(vectors, np.float64)
    except (ValueError, OverflowError):
        raise unusable("vectors must hold numbers that a float64 can hold.") from None


def _packed(content: bytes, given: dict[str, Any]) -> Rows:
    dtype, shape = given.get("dtype", "float32"), given.get("shape")
    if dtype not in DTYPES or not _is_shape(shape):
        raise unusable(f"vectors as bytes need dtype ({', '.join(DTYPES)}) and shape [n, D].")
    if shape[0] * shape[1] * np.dtype(dtype).itemsize != len(content):
        raise unusable(f"vectors must have as many bytes as shape {shape} of {dtype}; got {len(content):,}.")
    return np.frombuffer(content, np.dtype(dtype).newbyteorder("<")).reshape(shape).astype(dtype, copy=False)


def _is_shape(shape: Any) -> TypeGuard[list[int]]:
    return isinstance(shape, list) and len(shape) == 2 and all(type(n) is int and n > 0 for n in shape)


def _npy(body: bytes) -> Rows:
    stream = io.BytesIO(body)
    try:
        version = np.lib.format.read_magic(stream)
        read = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}[version]
        shape, is_fortran, dtype = read(stream, max_header_size=4096)
    except Exception:
        # its reader evaluates the header, and raises what that raises
        raise unusable("The body must be an npy file of version 1 or 2; it is not.") from None
    content = memoryview(body)[stream.tell() :]
    if dtype.newbyteorder("=").name not in DTYPES or not 1 <= len(shape) <= 2:
        raise unusable(f"The npy file must hold rows of {', '.join(DTYPES)}; it holds {dtype} of {len(shape)} axes.")
    is_whole = all(type(n) is int and 0 <= n <= len(content) for n in shape)  # its reader takes True and -4 too
    if not is_whole or math.prod(shape) * dtype.itemsize != len(content):
        says = str(shape)[:100]
        raise unusable(f"The npy file must have as many bytes as it says; it says {says} and has {len(content):,}.")
    rows = np.frombuffer(content, dtype).reshape(shape, order="F" if is_fortran else "C")
    return np.ascontiguousarray(rows, dtype.newbyteorder("="))


def _raw(body: bytes, query: Mapping[str, str], n_features: int | None) -> Rows:
    dtype, width = query.get("dtype", "float32"), query.get("dimension", str(n_features or ""))
    is_width = width.isascii() and width.isdigit() and len(width) < 9 and int(width) > 0
    if dtype not in DTYPES or not is_width:
        raise unusable(
            f"Plain bytes need ?dtype= ({', '.join(DTYPES)}) and ?dimension=; got {dtype!r}, {width[:20]!r}."
        )
    if not body or len(body) % (int(width) * np.dtype(dtype).itemsize):
        raise unusable(f"Plain bytes must be whole rows of {width} {dtype}; got {len(body):,} bytes.")
    return np.frombuffer(body, np.dtype(dtype).newbyteorder("<")).reshape(-1, int(width)).astype(dtype, copy=False)


def _matrix(rows: Rows) -> Rows:
    rows = rows.reshape(1, -1) if rows.ndim == 1 else rows
    if not rows.size:
        raise unusable("vectors must have one row and one column at least.")
    return rows


def _check(rows: Rows, n_features: int | None, widest: int) -> None:
    if rows.shape[1] > widest:
        raise unusable(f"Vectors have at most {widest:,} columns; got {rows.shape[1]:,}.")
    if n_features is not None and rows.shape[1] != n_features:
        raise unusable(f"Vectors of this collection have {n_features} columns; row 0 has {rows.shape[1]}.", row=0)
    try:
        as_points(rows, "the collection")
    except RowError as error:
        raise unusable(str(error), row=error.row) from None
    except ArmillaryError as error:
        raise unusable(str(error)) from None


def _rules(beside: Mapping[str, Any], query: Mapping[str, str], n_rows: int) -> dict[str, Any]:
    """frames and margin, where there are any."""
    fields: dict[str, Any] = {}
    frame, frames = beside.get("frame", query.get("frame")), beside.get("frames")
    if frame is not None and frames is not None:
        raise unusable("Give frame for all vectors or frames for each, not both.")
    if frame is not None:
        frames = [frame] * n_rows
    if frames is not None:
        fields["frames"] = _frames(frames, n_rows)
    margin = beside.get("margin", query.get("margin"))
    if margin is not None:
        fields["margin"] = _margin(margin)
    return fields


def _frames(frames: Any, n_rows: int) -> list[str]:
    if not isinstance(frames, list) or len(frames) != n_rows:
        raise unusable(f"frames must be a list with one entry for each of the {n_rows} vectors.")
    for frame in frames:
        is_word = (isinstance(frame, str) and frame.isprintable()) or type(frame) is int
        if not is_word or len(str(frame)) > _MOST_FRAME:
            raise unusable(f"A frame must be an integer or a printable string of up to {_MOST_FRAME} characters.")
    return [str(frame) for frame in frames]


def _margin(margin: Any) -> float:
    try:
        value = float(margin) if isinstance(margin, str | int | float) and not isinstance(margin, bool) else math.nan
    except (ValueError, OverflowError):
        value = math.nan
    if not 0.0 <= value <= 2.0:
        raise unusable("margin must be a number from 0 to 2, a difference of two cosines.")
    return value
