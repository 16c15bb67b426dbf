"""Work that a run has done, on disk: a run that was killed goes on where it was, if it is the same run.

Every piece is one file written whole (`durable/whole.py`). The folder lies hidden beside the place of the results, is
known by what the run was asked for, and goes when the results are there. Who has the lock of the results has it.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from armillary.durable.locks import beside
from armillary.durable.whole import whole_file
from armillary.engines.contract import Passes
from armillary.points import as_float64
from armillary.sources.stored import StoredRows

_QUESTION = "question.json"
# Rows whose bytes tell whether rows that are no files are the same, and sums of all of them that do: so many, of so
# many numbers at most.
_LOOKED_AT, _SUMS, _SUM_VALUES = 1 << 12, 1 << 8, 1 << 22


class Work:
    """Pieces by name: a `Memory` (fitting/memory.py)."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.n_known = 0  # pieces that were there already
        self.n_made = 0

    @classmethod
    def beside(cls, target: Path, question: Mapping[str, Any]) -> Work:
        """The work on a target that was asked for by the same question; work on another question goes."""
        folder = beside(target, ".work")
        text = json.dumps(question, sort_keys=True)
        if not _is_text(folder / _QUESTION, text):
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            with whole_file(folder / _QUESTION, "curate") as stream:
                stream.write(text.encode())
        return cls(folder)

    def get(self, name: str) -> dict[str, Any] | None:
        """What is known under a name."""
        found = self.look(name)
        self.n_known += found is not None
        return found

    def look(self, name: str) -> dict[str, Any] | None:
        """The same, not counted: for what is looked at again and again."""
        try:
            with np.load(self._folder / f"{name}.npz", allow_pickle=False) as held:
                found = {key: held[key] for key in held.files}
        except FileNotFoundError:
            return None
        return {key: value if value.ndim else value.item() for key, value in found.items()}

    def put(self, name: str, **values: Any) -> None:
        """Remember some arrays and numbers."""
        with whole_file(self._folder / f"{name}.npz", "curate") as stream:
            np.savez(stream, **values)
        self.n_made += 1

    def known(self, name: str, make: Any) -> dict[str, Any]:
        """What is known under a name, or what `make()` gives, remembered."""
        found = self.get(name)
        if found is None:
            found = dict(make())
            self.put(name, **found)
        return found

    def remove(self) -> None:
        """The results are there: all of it goes."""
        shutil.rmtree(self._folder, ignore_errors=True)


def _is_text(path: Path, text: str) -> bool:
    try:
        return path.read_text() == text
    except (OSError, UnicodeDecodeError):
        return False


def told_apart(X: Any, passes: Passes) -> dict[str, Any]:
    """What tells rows from others: files by name, size and time; other rows by their shape, some of them and sums.

    Every row is in one of the sums, drawn by its number, so that one that changed, or changed places, is noticed.
    """
    points = passes.points
    shape = [points.n_rows, points.n_features]
    if isinstance(X, StoredRows):
        paths = [str(shard.path) for shard in X.shards]
        return {"shape": shape, "files": [(path, *_facts(path)) for path in paths]}
    numbers = np.unique(np.linspace(0, points.n_rows - 1, _LOOKED_AT).astype(np.int64))
    some: Any = as_float64(passes.rows(numbers).block)
    n_sums = max(1, min(_SUMS, _SUM_VALUES // points.n_features))
    sums = passes.sum(passes.random_labels(n_sums, np.random.default_rng(0)), n_sums).resultants
    digest = hashlib.sha256(np.ascontiguousarray(sums).tobytes())
    for part in (some,) if isinstance(some, np.ndarray) else (some.data, some.indices, some.indptr):
        digest.update(np.ascontiguousarray(part).tobytes())
    return {"shape": shape, "dtype": str(points.dtype), "rows": digest.hexdigest()}


def _facts(path: str) -> tuple[int, int]:
    found = os.stat(path)
    return found.st_size, found.st_mtime_ns
