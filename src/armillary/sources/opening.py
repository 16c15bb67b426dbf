"""`open_rows`: from paths, folders and patterns to rows on disk, in the natural order of their names."""

from __future__ import annotations

import glob
import json
import os
import re
import stat
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from armillary.exceptions import InputError, InputTypeError
from armillary.sources.shards import Shard
from armillary.sources.stored import DealtRows, StoredRows
from armillary.validation import check_integer, check_path

_WHO = "open_rows"
# endings of files that can be read in blocks, and what they are
ENDINGS = {
    ".npy": "npy",
    ".npz": "npz",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
}
_OPENED_TOGETHER = 8
_ELSEWHERE = ("dask", "ray")
_MOST_WORKERS = 1024
_TABLES = frozenset({"parquet", "arrow"})
_COMPRESSED = (".gz", ".bz2", ".xz", ".zst")
# what HuggingFace's save_to_disk leaves beside its files: those of one split, and of several
_STATE, _SPLITS = "state.json", "dataset_dict.json"


def open_rows(
    path_or_paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    *,
    column: str | None = None,
    weights: str | os.PathLike[str] | None = None,
    n_workers: int | str | None = None,
) -> StoredRows:
    """Rows that stay on disk: every `fit`, `partial_fit` and `predict` takes them, with the result of rows in memory.

    Nothing is read but what says shapes and types. A pass reads the files from beginning to end, some rows at a time,
    the next ones while the last are worked on. Rows of float16, int8 and other narrow types stay as they are stored and
    become float32 block by block.

    Parameters
    ----------
    path_or_paths : str, os.PathLike or several of them
        A file (npy; npz that is not compressed, also with a CSR matrix; parquet; arrow or feather), a folder of files
        of one format, a folder that HuggingFace's `save_to_disk` wrote, a Zarr array (needs the extra "zarr"), a
        pattern such as "shards/*.npy", or a list of these. Files of a folder or a pattern are taken in the natural
        order of their names, shard-2 before shard-10; a list is taken as it is. `repr` and `describe` show the order.
    column : str, optional
        Which column of lists of a table, or which array of an npz file or Zarr group. By default the only one; of a
        table without lists all columns of numbers.
    weights : str or os.PathLike, optional
        Weights of the rows: a column of the table, or an npy file with one number per row. Fits take them for
        `sample_weight`.
    n_workers : int, "dask", "ray" or None, default=None
        Who works on the rows: so many processes, started for each call and gone after it, the workers of the present
        Dask client or of Ray (both must see the same paths), or this process. The result does not depend on it.

    Returns
    -------
    rows : StoredRows
        With `shape`, `dtype` and `len`. `rows[:1000]` reads some of them. A context manager.

    Raises
    ------
    InputError
        With a sentence that names the file and what is wrong with it.

    Examples
    --------
    >>> import numpy as np, tempfile, os
    >>> from armillary import SphericalKMeans, open_rows
    >>> folder = tempfile.mkdtemp()
    >>> X = np.random.default_rng(0).normal(size=(1000, 8)).astype(np.float16)
    >>> np.save(os.path.join(folder, "shard-0.npy"), X[:400])
    >>> np.save(os.path.join(folder, "shard-1.npy"), X[400:])
    >>> rows = open_rows(folder)
    >>> rows.shape
    (1000, 8)
    >>> on_disk = SphericalKMeans(5, random_state=0).fit(rows)
    >>> bool((on_disk.labels_ == SphericalKMeans(5, random_state=0).fit(X).labels_).all())
    True
    """
    files = files_of(path_or_paths)
    name = None if weights is None else check_path(weights, _WHO, "weights")
    in_table = name if name is not None and all(kind in _TABLES for kind, _ in files) and not _is_file(name) else None
    # what says where rows lie is spread over Arrow files: several are looked at side by side, for the disk's sake
    with ThreadPoolExecutor(min(_OPENED_TOGETHER, len(files))) as pool:
        rows = StoredRows(list(pool.map(lambda file: _shard(file[0], file[1], column, in_table), files)))
    if rows.shape[0] == 0:
        raise InputError(f"'{files[0][1]}' must have at least one row; it has none. Check the step that wrote it.")
    if name is not None:
        rows.weights = _weights(rows, files, name, in_table)
    return rows if n_workers is None else DealtRows(rows.shards, rows.weights, _checked_workers(n_workers))


def _checked_workers(n_workers: Any) -> int | str:
    if isinstance(n_workers, str) and n_workers in _ELSEWHERE:
        return n_workers
    hint = "It is a number of processes, 'dask' or 'ray'; None works in this process."
    return check_integer(n_workers, "n_workers", _WHO, low=1, high=_MOST_WORKERS, hint=hint)


def _is_file(name: str) -> bool:
    return name.lower().endswith(".npy") or os.path.exists(name)


def _shard(kind: str, path: str, column: str | None, weights: str | None) -> Shard:
    try:
        match kind:
            case "npy":
                from armillary.sources.arrays import npy_shard

                if column is not None:
                    raise InputError(f"`column` of {_WHO} must name a column of a table; '{path}' is one array.")
                return npy_shard(path)
            case "npz":
                from armillary.sources.arrays import npz_shard

                return npz_shard(path, column)
            case "parquet" | "arrow":
                from armillary.sources.tables import table_shard

                return table_shard(kind, path, column, weights)
            case _:
                from armillary.sources.zarr_arrays import ZarrShard

                return ZarrShard(path, column)
    except OSError as error:
        if error.errno is None:
            raise
        raise InputError(f"'{path}' cannot be read: {error.strerror}. Check its permissions.") from error


def _weights(rows: StoredRows, files: list[tuple[str, str]], name: str, in_table: str | None) -> npt.NDArray[Any]:
    if in_table is not None:
        from armillary.sources.tables import table_column

        values = np.concatenate([table_column(path, name) for _, path in files])
    else:
        if not name.lower().endswith(".npy") or not os.path.isfile(name):
            raise InputError(
                f"`weights` of {_WHO} must be a column of the table or an npy file; got '{name}', which is neither. "
                "Save them: numpy.save('weights.npy', weights)."
            )
        try:
            values = np.load(name, mmap_mode="r", allow_pickle=False)
        except (ValueError, EOFError, OSError) as error:
            raise InputError(f"'{name}' must be an npy file of numbers; it does not read ({error}).") from error
    if values.shape != (rows.shape[0],):
        raise InputError(
            f"`weights` of {_WHO} must have one number per row, shape ({rows.shape[0]},); '{name}' has {values.shape}. "
            "Check that both come from the same rows."
        )
    return np.array(values)  # not the map: its file may become shorter, and nobody would look


# ------------------------------------------------------------------------------------------------ which files


def files_of(path_or_paths: Any) -> list[tuple[str, str]]:
    """Kinds and paths of the files that are meant, in their order."""
    if isinstance(path_or_paths, str | bytes | os.PathLike):
        return _files_at(os.fsdecode(path_or_paths))
    try:
        paths = list(path_or_paths)
    except TypeError:
        raise InputTypeError(
            f"{_WHO} takes a path or several; got {type(path_or_paths).__name__}. Use str(path) or a list of paths."
        ) from None
    found = [file for path in paths for file in _files_at(check_path(path, _WHO))]
    if not found:
        raise InputError(f"{_WHO} must be given a file at least; got an empty list. Check the pattern that made it.")
    return found


def _files_at(path: str) -> list[tuple[str, str]]:
    if path == "-":
        raise _once("Standard input")
    if not os.path.exists(path):
        if glob.has_magic(path):
            return _files_like(path)
        raise InputError(f"'{path}' does not exist. Check the path.")
    if os.path.isdir(path):
        return _files_in(path)
    if not stat.S_ISREG(os.stat(path).st_mode):
        raise _once(f"'{path}'")
    return [(_kind(path), path)]


def _once(what: str) -> InputError:
    return InputError(
        f"{what} must be a file, since a fit reads its rows several times; it is a pipe or a device, which can be read "
        "only once. Save the rows first, e.g. numpy.save('rows.npy', X), and name that file."
    )


def _kind(path: str) -> str:
    ending = Path(path).suffix.lower()
    if ending in _COMPRESSED:
        raise InputError(
            f"'{path}' must not be compressed to be read in blocks; its ending is {ending}. Unpack it first."
        )
    if ending not in ENDINGS:
        raise InputError(
            f"The ending of '{path}' must be one of {', '.join(ENDINGS)} to be read in blocks; it is "
            f"'{ending}'. Convert it: armillary convert '{path}' rows.npy."
        )
    return ENDINGS[ending]


def _files_like(pattern: str) -> list[tuple[str, str]]:
    names = sorted(glob.glob(pattern, recursive=True), key=natural)
    if not names:
        raise InputError(f"The pattern '{pattern}' must name a file at least; none is like it. Check the folder.")
    return [file for name in names for file in _files_at(name)]


def _files_in(folder: str) -> list[tuple[str, str]]:
    from armillary.sources.zarr_arrays import is_zarr

    if is_zarr(folder):
        return [("zarr", folder)]
    if Path(folder, _SPLITS).is_file():
        return _files_in(_only_split(folder))
    if Path(folder, _STATE).is_file():
        return _saved_dataset(folder)
    found = []
    for place, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith((".", "_"))]
        for name in names:
            if not name.startswith((".", "_")) and Path(name).suffix.lower() in ENDINGS:
                found.append(os.path.join(place, name))
    if not found:
        raise InputError(
            f"'{folder}' must have files of rows; it has none that end in {', '.join(ENDINGS)}. Check the path."
        )
    kinds = Counter(ENDINGS[Path(name).suffix.lower()] for name in found)
    if len(kinds) > 1:
        told = ", ".join(f"{count} {kind}" for kind, count in kinds.items())
        raise InputError(
            f"'{folder}' must have files of one format; it has {told}. Name those that are meant by a pattern, e.g. "
            f"'{os.path.join(folder, '*' + Path(found[0]).suffix)}'."
        )
    return [(_kind(name), name) for name in sorted(found, key=natural)]


def _only_split(folder: str) -> str:
    """The folder of the one split that `save_to_disk` wrote."""
    named = _json(Path(folder, _SPLITS)).get("splits")
    splits = [os.path.join(folder, str(name)) for name in named] if isinstance(named, list) else []
    if len(splits) != 1:
        raise InputError(
            f"'{folder}' must be one set of rows; it has {len(splits)} splits. Name one: "
            f"{', '.join(map(repr, splits)) or 'none is listed'}."
        )
    if os.path.dirname(os.path.relpath(splits[0], folder)) or not Path(splits[0], _STATE).is_file():
        raise InputError(f"'{folder}' must be whole; its {_SPLITS} names '{splits[0]}', which is not in it.")
    return splits[0]


def _saved_dataset(folder: str) -> list[tuple[str, str]]:
    """The files of a folder that `save_to_disk` wrote, in the order that it says."""
    state = _json(Path(folder, _STATE))
    if state.get("_indices_files") or state.get("_indices_data_files"):
        raise InputError(
            f"'{folder}' must have its rows in their files' order; it was filtered or shuffled by indices. Save it "
            "again: dataset.flatten_indices().save_to_disk(path)."
        )
    try:
        names = [os.path.join(folder, entry["filename"]) for entry in state["_data_files"]]
    except (KeyError, TypeError):
        names = sorted(map(str, Path(folder).glob("*.arrow")), key=natural)
    if not names:
        raise InputError(f"'{folder}' must have files of rows; its {_STATE} names none. Save the dataset again.")
    for name in names:
        if os.path.dirname(os.path.relpath(name, folder)) or not os.path.isfile(name):
            raise InputError(f"'{folder}' must be whole; its {_STATE} names '{name}', which is not in it.")
    return [("arrow", name) for name in names]


def _json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, OSError) as error:
        raise InputError(f"'{path}' must be JSON; it does not read ({error}).") from error
    return content if isinstance(content, dict) else {}


def natural(name: str) -> list[tuple[int, int, str]]:
    """A key by which shard-2 comes before shard-10: digits count as numbers."""
    parts = re.split(r"(\d+)", name)  # what stands between numbers may be a digit too: \u00b2 is one that is no number
    keys = [(1, int(part), "") if place % 2 else (0, 0, part) for place, part in enumerate(parts)]
    return [*keys, (0, 0, name)]
