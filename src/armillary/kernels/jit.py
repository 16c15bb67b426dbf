"""The one decorator of the CPU kernels: compiled on first use, kept on disk, free of the interpreter lock.

A first use that finds nothing on disk takes a second or so for each kind of rows, and says so once, on the logger
"armillary.kernels" at level INFO, which `verbose=1` and the command line show.

Kernels are kept where numba keeps compiled code: in NUMBA_CACHE_DIR, beside the sources, or in the cache of the user.
In a container none of them may be writable. What the image was built with is read there all the same, and what is
compiled is kept in a private folder for temporary files, or not at all, of which one warning tells. A cache spares
seconds: nothing about it may end a fit.
"""

from __future__ import annotations

import hashlib
import logging
import os
import pickle
import re
import stat
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import numba
from numba.core import caching, config, event

from armillary.exceptions import CacheWarning

F = TypeVar("F", bound=Callable[..., Any])

# Sums over rows may be regrouped into vector lanes and multiply-adds fused; the grouping is fixed at compile
# time, so results repeat. No NaN or infinity is assumed away. Such a sum must not share its loop with a store: the
# compiler then makes a second version of the loop, for arrays that overlap, and the bits depend on which is run.
VECTOR_SUMS = frozenset({"reassoc", "contract", "nsz"})
# Multiply-adds may be fused, nothing else.
CONTRACT = frozenset({"contract"})
# Filter scores are finite, so maxima may be kept per vector lane; the error bound of a filter holds for any order.
FILTER = frozenset({"nnan", "nsz", "reassoc", "contract"})


def kernel(function: F | None = None, *, fastmath: frozenset[str] | None = None, is_inlined: bool = False) -> Any:
    """Compile `function` lazily. Serial and `nogil`: threads run whole blocks.

    `is_inlined` is for short pieces of inner loops: arrays go to a function that is called as seven arguments each.
    """

    def decorate(inner: F) -> Any:
        if config.DISABLE_JIT:  # type: ignore[attr-defined]
            return inner
        options = {
            "nopython": True,
            "nogil": True,
            "error_model": "numpy",
            "fastmath": set(fastmath or ()),
            "forceinline": is_inlined,
        }
        made = _make(inner, options)
        made._cache = _KernelCache(inner)  # as its `enable_caching` does
        _made.append(made)
        return made

    return decorate if function is None else decorate(function)


# ----------------------------------------------------------------------------------------------------- two ways


# Minor versions of numba on which `parts`, which needs names that numba does not promise, was tested: first and last.
TESTED = ((0, 61), (0, 68))
_made: list[Any] = []  # of this process; one that is made for a number of columns is here with each of them


def _make(function: Any, options: dict[str, Any]) -> Any:
    """By parts where that was tested, else by numba's own dispatcher: the same bits, more seconds to compile."""
    if _parts is None:
        return numba.jit(**options)(function)
    return _parts.Kernel(function, options)


def _import_parts() -> Any:
    """The module, None where this numba is not known to have what it takes."""
    why = f"numba {numba.__version__} was not tested"
    if is_tested(numba.__version__):
        try:
            from armillary.kernels import parts

            parts.Kernel(_import_parts, {"nopython": True})
            return parts
        except (ImportError, AttributeError, TypeError) as error:
            why = f"this numba has other internals ({error})"
    _logger.debug("Kernels are compiled by numba alone, which takes longer: %s.", why)
    return None


def is_tested(version: str) -> bool:
    """Whether `parts` was tested on a version of numba."""
    found = re.match(r"(\d+)\.(\d+)", version)
    return found is not None and TESTED[0] <= (int(found[1]), int(found[2])) <= TESTED[1]


_logger = logging.getLogger("armillary.kernels")
_parts = None if config.DISABLE_JIT else _import_parts()  # type: ignore[attr-defined]


# --------------------------------------------------------------------------------------------- where they are kept


def versions() -> dict[str, int]:
    """Of each kernel that was called in this process, how many versions: types of arguments, numbers of columns."""
    counts: Counter[str] = Counter()
    for one in _made:
        name = f"{one.py_func.__module__.removeprefix('armillary.kernels.')}.{one.py_func.__name__}"
        counts[name] += len(one.signatures)
    return {name: number for name, number in sorted(counts.items()) if number}


def where_kept() -> str:
    """A sentence about where the kernels of Armillary are kept, which is the warning where one was given."""
    if _warnings_given:
        return _warnings_given[0]
    ours = [one for one in _made if one.signatures and one.py_func.__module__.startswith("armillary.")]
    folders = {one.stats.cache_path for one in ours} or {_KernelCache(kernel).cache_path}
    return f"They are kept in {os.path.commonpath(sorted(folders))}."


class _PrivateFolder(caching._SourceFileBackedLocatorMixin, caching._CacheLocator):
    """A folder for temporary files that nobody but this user can write to: what is read from it is run."""

    def __init__(self, py_func: Any, py_file: str) -> None:
        self._py_file = py_file
        self._lineno = py_func.__code__.co_firstlineno
        self._cache_path = os.path.join(_private_path(), self.get_suitable_cache_subpath(py_file))

    def get_cache_path(self) -> str:
        """The folder in it for one folder of sources."""
        return self._cache_path

    @classmethod
    def from_function(cls, py_func: Any, py_file: str) -> Any:
        """As numba asks for it: None where there is no such folder."""
        try:
            return super().from_function(py_func, py_file) if _is_private(_private_path()) else None
        except OSError:
            return None


def _private_path() -> Path:
    owner = str(os.getuid()) if hasattr(os, "getuid") else "kernels"
    return Path(tempfile.gettempdir()) / f"armillary-{owner}"


def _is_private(path: Path) -> bool:
    """Whether a folder, made where it is missing, is this user's alone, and nobody can put another in its place."""
    path.mkdir(mode=0o700, exist_ok=True)
    if not hasattr(os, "getuid"):
        return True  # Windows: temporary files are in the profile of the user
    own, around = path.lstat(), path.parent.stat()
    is_own = stat.S_ISDIR(own.st_mode) and own.st_uid == os.getuid() and not own.st_mode & 0o077
    return is_own and bool(around.st_mode & stat.S_ISVTX or not around.st_mode & 0o022)


class _ReadOnly(caching._SourceFileBackedLocatorMixin, caching._CacheLocator):
    """The folder beside the sources where nothing can be written: what an image was built with can be read."""

    def __init__(self, py_func: Any, py_file: str) -> None:
        self._py_file = py_file
        self._lineno = py_func.__code__.co_firstlineno

    def get_cache_path(self) -> str:
        """Where python and numba keep what they compile."""
        return os.path.join(os.path.dirname(self._py_file), "__pycache__")

    def ensure_cache_path(self) -> None:
        """Asked for before a write."""
        raise OSError(_NOWHERE)

    @classmethod
    def from_function(cls, py_func: Any, py_file: str) -> Any:
        """As numba asks for it."""
        return cls(py_func, py_file)


class _Locator:
    """The first of numba's places, or the private folder, that can be written: looked for once, not for each kernel."""

    _chosen: dict[str, Any] = {}  # noqa: RUF012 one for the process

    @classmethod
    def from_function(cls, py_func: Any, py_file: str) -> Any:
        """As numba asks for it."""
        folder = os.path.dirname(py_file)
        if folder not in cls._chosen:
            candidates: list[Any] = [*caching.CompileResultCacheImpl._locator_classes, _PrivateFolder, _ReadOnly]
            cls._chosen[folder] = next(one for one in candidates if one.from_function(py_func, py_file) is not None)
        return cls._chosen[folder](py_func, py_file)


_NOWHERE = "neither the folder of the package nor the cache of the user can be written"
_warnings_given: list[str] = []  # one at most for the process


def _warn_once(why: str, now: str) -> None:
    if not _warnings_given:
        way_out = "Set NUMBA_CACHE_DIR to a folder that lasts and can be written."
        _warnings_given.append(f"Compiled kernels cannot be kept where they belong: {why}. {now}. {way_out}")
        warnings.warn(_warnings_given[0], CacheWarning, stacklevel=2)


class _KernelCacheImpl(caching.CompileResultCacheImpl):
    _locator_classes: list[Any] = [_Locator]  # noqa: RUF012 numba's own are a list


@cache
def _sources_stamp() -> str:
    """Changes with any source of any kernel: one is compiled into another, which lies in another file."""
    found = hashlib.sha256()
    for path in sorted(Path(__file__).parent.rglob("*.py")):
        about = path.stat()
        found.update(f"{path.name} {about.st_mtime_ns} {about.st_size}\n".encode())
    return found.hexdigest()


class _KernelFiles(caching.IndexDataCacheFile):
    """A file for each version of a kernel, named after what it was compiled for, which it holds beside the code.

    Numba counts the files of a kernel and keeps the numbers in an index. Two processes that compile two versions at
    once then take one number for both, and the index may name the code of the other: no error tells, the answers are
    wrong. Here nothing is counted, and code is used only where it says that it is what was asked for.
    """

    def __init__(self, cache_path: str, filename_base: str, source_stamp: Any) -> None:
        super().__init__(cache_path, filename_base, source_stamp)
        self._base = filename_base
        self._about = self._version, source_stamp, _sources_stamp()

    def _path(self, key: Any) -> str:
        digest = hashlib.sha256(repr(key).encode()).hexdigest()[:16]
        return str(self._data_path(f"{self._base}.{digest}.nbc"))

    def save(self, key: Any, data: Any) -> None:
        """Keep the code of one version, in the place of what is there."""
        content = self._dump((self._about, key, data))
        with self._open_for_write(self._path(key)) as stream:
            stream.write(content)

    def load(self, key: Any) -> Any:
        """The code of one version; None where there is none."""
        try:
            content = Path(self._path(key)).read_bytes()
        except FileNotFoundError:
            return None
        about, found, data = pickle.loads(content)
        return data if (about, found) == (self._about, key) else None

    def flush(self) -> None:
        """Nothing is kept but what `save` replaces."""


class _KernelCache(caching.FunctionCache):
    """Numba's files of one kernel. Those that cannot be read or written cost a compilation, and never a fit."""

    _impl_class = _KernelCacheImpl

    def __init__(self, py_func: Any) -> None:
        super().__init__(py_func)
        self._cache_file = self._files_in(self._cache_path)

    def _files_in(self, folder: str) -> _KernelFiles:
        return _KernelFiles(folder, self._impl.filename_base, self._impl.locator.get_source_stamp())

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The compiled code for a signature, None where there is none that can be used."""
        try:
            found = super().load_overload(sig, target_context)
            return self._load_built_in(sig, target_context) if found is None else found
        except Exception:  # a damaged file may make pickle, or what it builds, raise anything
            return None

    def _load_built_in(self, sig: Any, target_context: Any) -> Any:
        """What lies beside the source, as in the image of a container, though other files are written elsewhere."""
        folder = os.path.join(os.path.dirname(self._py_func.__code__.co_filename), "__pycache__")
        data = self._files_in(folder).load(self._index_key(sig, target_context.codegen()))
        return None if data is None else self._impl.rebuild(target_context, data)

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep compiled code, in the place of files that are damaged."""
        try:
            super().save_overload(sig, data)
        except OSError as error:
            self.disable()
            _warn_once(str(error), "They are compiled again in each process")
        else:
            self._tell_of_place()

    def _tell_of_place(self) -> None:
        """Warn where kernels are not kept in the folder the user named, or not for long."""
        told = config.CACHE_DIR  # type: ignore[attr-defined]
        if told and not Path(self.cache_path).is_relative_to(told):
            _warn_once(f"NUMBA_CACHE_DIR={told} cannot be written", f"They are kept in {self.cache_path} for now")
        elif isinstance(self._impl.locator, _PrivateFolder):
            _warn_once(_NOWHERE, f"They are kept in {self.cache_path} for now")


class _Announcer(event.Listener):
    """Says once per process that kernels are being compiled rather than read from disk."""

    has_spoken = False

    def on_start(self, event: Any) -> None:
        is_ours = event.data["dispatcher"].py_func.__module__.startswith("armillary.")
        # who listens may come later: the gate may compile before a progress bar is there to show it
        if is_ours and not self.has_spoken and _logger.isEnabledFor(logging.INFO):
            self.has_spoken = True
            _logger.info("Compiling the kernels for this kind of rows: a few seconds, once per machine.")

    def on_end(self, event: Any) -> None:
        """Nothing to say."""


announcer = _Announcer()
event.register("numba:compile", announcer)
