"""A fit over workers that goes on where it was killed: what came home from the rows, in one file.

All that a fit learns of its rows comes home in answers that are K-sized, and everything else follows from them. So the
file keeps the answers, each as it comes, and a fit that is started again takes them from there: no pass over rows that
was done is done again. Where the file ends the fit goes on. What lay beside the rows, labels above all, is made anew by
the last commands behind it (`engines/remote.py`): one pass, or labels that came home.

The content is that of model files: arrays (safetensors) and JSON, never code. Each answer has its length and SHA-256
before it, so that the end of a file that was cut short is known, and left out.
"""

from __future__ import annotations

import hashlib
import json
import os
import struct
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

import numpy as np
import safetensors
import safetensors.numpy

from armillary.durable.locks import held
from armillary.engines.contract import FewRows, Outcome
from armillary.engines.desk import Stays
from armillary.engines.partitioned import PartedPoints
from armillary.exceptions import ArchiveError
from armillary.fitting.events import FitEvent
from armillary.points import SparseBlock
from armillary.rules import Anchors
from armillary.sums.directional import DirectionalStatistics
from armillary.validation import check_path

_MAGIC = b"ARMFIT01"
_HEAD = struct.Struct("<Q32s")
_LONGEST = 1 << 40
# The records that answers are made of; nothing else is made from a file.
_RECORDS: dict[str, Any] = {
    kind.__name__: kind for kind in (Anchors, DirectionalStatistics, FewRows, Outcome, PartedPoints, SparseBlock, Stays)
}
_OTHER_FILE = "Name another file, or remove this one to begin anew."


class Checkpoint:
    """A file from which a fit that was killed goes on, with the result that it would have had.

    Give it as one of the `callbacks` of a model whose rows are at workers (`open_rows(..., n_workers=)`, Dask, Ray),
    and start the same fit again after whatever ended it: a killed process, a lost scheduler, Ctrl-C. No pass over the
    rows is done twice, but one to find the last labels again. Other rows or other parameters are refused: files are
    known by their names, sizes and times, rows of Dask and Ray by the sum of all of them and by some of them, for which
    they are read once. A fit that came to its end is read from the file; remove it when the model is saved.

    Parameters
    ----------
    path : str or os.PathLike
        The file. It grows with every step by what the step learnt of the rows: for most models the sums of K clusters,
        8 K (D + 1) bytes for each worker.

    Examples
    --------
    >>> import numpy as np, os, tempfile
    >>> from armillary import SphericalKMeans, open_rows
    >>> from armillary.persistence import Checkpoint
    >>> folder = tempfile.mkdtemp()
    >>> np.save(os.path.join(folder, "rows.npy"), np.random.default_rng(0).normal(size=(500, 8)))
    >>> kept = Checkpoint(os.path.join(folder, "fit.checkpoint"))
    >>> with open_rows(os.path.join(folder, "rows.npy"), n_workers=1) as rows:
    ...     first = SphericalKMeans(3, random_state=0, callbacks=kept).fit(rows)
    ...     again = SphericalKMeans(3, random_state=0, callbacks=kept).fit(rows)
    >>> bool((first.labels_ == again.labels_).all())
    True
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(os.path.realpath(check_path(path, "Checkpoint")))
        self._open: _Answers | None = None

    def __call__(self, event: FitEvent) -> None:
        """See that a step is on the disk, whatever happens to the machine."""
        if self._open is not None:
            self._open.settle()
        elif event.kind == "start":
            raise ArchiveError(
                f"A Checkpoint keeps fits that go on for long; a step of {event.model} is not kept. Save the model "
                "after each step instead: armillary.save(model, path)."
            )

    @contextmanager
    def answers(self, fit: dict[str, Any], n_parts: int) -> Iterator[_Answers]:
        """The answers of a fit that is told by `fit`; `n_parts` where it begins here, else as many as it had.

        Parameters
        ----------
        fit : dict
            What tells the fit: model, parameters, rows.
        n_parts : int
            Parts that rows are dealt in.

        Returns
        -------
        context manager
            Gives the answers, known ones first, and holds the file until its block ends.
        """
        way_out = "Wait for it, or name another file."
        with held(self.path, f"The checkpoint '{self.path}'", way_out), _Answers(self.path, fit, n_parts) as found:
            self._open = found
            try:
                yield found
            finally:
                self._open = None


class _Answers:
    """The answers of each part, those that are known and those that come."""

    def __init__(self, path: Path, fit: dict[str, Any], n_parts: int) -> None:
        self._lock = threading.Lock()
        self._path = path
        self._stream: BinaryIO = open(path, "r+b" if path.exists() else "w+b")  # noqa: SIM115 - closed by __exit__
        try:
            places = self._places()
            if not places:
                self._begin({**fit, "parts": n_parts})
                places = self._places()
            told = self._read(places[0])["fit"]
            self.n_parts = int(told.pop("parts"))
            if told != json.loads(json.dumps(fit)):
                self.refuse(", ".join(sorted(name for name in {*told, *fit} if told.get(name) != fit.get(name))))
            self._known: list[deque[int]] = [deque() for _ in range(self.n_parts)]
            for place in places[1:]:
                self._known[self._part(place)].append(place)
        except BaseException:
            self._stream.close()
            raise

    def __enter__(self) -> _Answers:
        return self

    def __exit__(self, *_: object) -> None:
        self.settle()
        self._stream.close()

    # ------------------------------------------------------------------------------------------- for each part

    def recalled(self, part: int, method: str) -> tuple[bool, Any]:
        """Whether the next answer of a part is known, and that answer."""
        with self._lock:
            if not self._known[part]:
                return False, None
            found = self._read(self._known[part].popleft())
        if found["method"] != method:
            raise ArchiveError(
                f"The checkpoint '{self._path}' must be of the same fit; that asked its rows for '{found['method']}' "
                f"where this one asks for '{method}'. {_OTHER_FILE}"
            )
        return True, found["value"]

    def note(self, part: int, method: str, value: Any) -> None:
        """Keep an answer of a part."""
        blob = _packed({"part": part, "method": method, "value": value})
        with self._lock:
            self._append(blob)

    def refuse(self, what: str) -> NoReturn:
        """Say that these answers are of another fit, which differs in this."""
        raise ArchiveError(
            f"The checkpoint '{self._path}' must be of the same fit; it differs in {what}. {_OTHER_FILE}"
        )

    def settle(self) -> None:
        """See that everything is on the disk."""
        with self._lock:
            self._stream.flush()
            os.fsync(self._stream.fileno())

    # --------------------------------------------------------------------------------------------- in the file

    def _begin(self, fit: dict[str, Any]) -> None:
        self._stream.seek(0)
        self._stream.truncate()
        self._stream.write(_MAGIC)
        self._append(_packed({"part": -1, "method": "", "fit": fit}))

    def _append(self, blob: bytes) -> None:
        self._stream.seek(0, os.SEEK_END)
        self._stream.write(_HEAD.pack(len(blob), hashlib.sha256(blob).digest()) + blob)
        self._stream.flush()  # to the system: a killed process loses nothing

    def _places(self) -> list[int]:
        """Where whole answers are; what comes after the last is cut off."""
        stream = self._stream
        stream.seek(0)
        magic = stream.read(len(_MAGIC))
        if magic != _MAGIC[: len(magic)]:
            raise ArchiveError(f"'{self._path}' must be a checkpoint of a fit; it is something else. {_OTHER_FILE}")
        found, place = [], len(_MAGIC)
        while self._blob(place) is not None:
            found.append(place)
            place = stream.tell()
        if found:
            stream.truncate(place)
        return found

    def _blob(self, place: int) -> bytes | None:
        self._stream.seek(place)
        head = self._stream.read(_HEAD.size)
        if len(head) < _HEAD.size:
            return None
        length, digest = _HEAD.unpack(head)
        blob = self._stream.read(min(length, _LONGEST))
        return blob if len(blob) == length and hashlib.sha256(blob).digest() == digest else None

    def _read(self, place: int) -> dict[str, Any]:
        blob = self._blob(place)
        assert blob is not None, "it was whole when the file was opened"
        try:
            return _unpacked(blob)
        except (KeyError, TypeError, ValueError, safetensors.SafetensorError) as error:
            raise ArchiveError(f"The checkpoint '{self._path}' holds what no fit wrote. {_OTHER_FILE}") from error

    def _part(self, place: int) -> int:
        part = self._read(place)["part"]
        if type(part) is not int or not 0 <= part < self.n_parts:
            raise ArchiveError(f"The checkpoint '{self._path}' holds what no fit wrote. {_OTHER_FILE}")
        return part


# ----------------------------------------------------------------------------------------- values <-> arrays, JSON


def _packed(value: dict[str, Any]) -> bytes:
    arrays: dict[str, Any] = {}
    tree = json.dumps(_as_tree(value, arrays), allow_nan=True).encode()
    arrays["tree"] = np.frombuffer(tree, np.uint8)
    return safetensors.numpy.save(arrays)


def _unpacked(blob: bytes) -> dict[str, Any]:
    arrays = safetensors.numpy.load(blob)
    return _from_tree(json.loads(arrays["tree"].tobytes()), arrays)


def _as_tree(value: Any, arrays: dict[str, Any]) -> Any:
    """Plain values as JSON has them, the others as a list that begins with what they are."""
    if value is None or isinstance(value, bool | str) or type(value) in (int, float):
        return value
    if isinstance(value, np.ndarray | np.generic):
        name = str(len(arrays))
        arrays[name] = np.ascontiguousarray(value)
        return ["array", name, list(np.shape(value)), isinstance(value, np.generic)]
    if isinstance(value, np.dtype):
        return ["dtype", value.str]
    if isinstance(value, dict):
        return {name: _as_tree(one, arrays) for name, one in value.items()}
    if type(value).__name__ in _RECORDS:
        names = [one.name for one in fields(value)] if hasattr(value, "__dataclass_fields__") else value._fields
        return ["record", type(value).__name__, {name: _as_tree(getattr(value, name), arrays) for name in names}]
    if isinstance(value, list | tuple):
        kind = "tuple" if isinstance(value, tuple) else "list"
        return [kind, [_as_tree(one, arrays) for one in value]]
    raise ArchiveError(
        f"A Checkpoint keeps arrays, numbers and words; got {type(value).__name__} from the rows. This model cannot be "
        "kept so: fit it without."
    )


def _from_tree(tree: Any, arrays: dict[str, Any]) -> Any:
    if isinstance(tree, dict):
        return {name: _from_tree(one, arrays) for name, one in tree.items()}
    if not isinstance(tree, list):
        return tree
    match tree:
        case ["array", name, shape, is_scalar]:
            array = arrays[name].reshape(shape)
            return array[()] if is_scalar else array
        case ["dtype", name]:
            return np.dtype(name)
        case ["record", name, content]:
            return _RECORDS[name](**_from_tree(content, arrays))
        case ["tuple", content]:
            return tuple(_from_tree(one, arrays) for one in content)
        case ["list", content]:
            return [_from_tree(one, arrays) for one in content]
    raise ValueError(f"no value is told by {tree[:1]}")
