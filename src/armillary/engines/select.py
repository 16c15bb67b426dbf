"""From the kind of X and the name of a device to an engine, imported when asked for.

What was asked for happens, or an error says why: nothing falls back in silence. A new engine is one line in each of
two tables (`register`), and no change elsewhere.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Hashable
from contextlib import AbstractContextManager
from functools import cache
from typing import Any, cast

import numpy as np

from armillary import validation
from armillary.engines.contract import UNIT, Engine, Gate, Passes, Points
from armillary.exceptions import InputError, ParameterError
from armillary.points import refuse_stored

# The home of each engine: a module, and what makes the engine there.
_HOMES: dict[str, tuple[str, str]] = {
    "chunks": ("armillary.engines.chunks", "ChunksEngine"),
    "cpu": ("armillary.engines.cpu", "CpuEngine"),
    "cuda": ("armillary.engines.cuda", "CudaEngine"),
    "dask": ("armillary.engines.dask", "DaskEngine"),
    "ray": ("armillary.engines.ray", "RayEngine"),
    "reference": ("armillary.engines.reference", "ReferenceEngine"),
    "workers": ("armillary.engines.dealt", "StoredDealtEngine"),
}
# Kinds of X that do not live on the CPU: the full name of the class, and the engine it lives on.
_KINDS: dict[str, str] = {
    "armillary.sources.stored.DealtRows": "workers",
    "armillary.sources.stored.StoredRows": "chunks",
}
# Packages whose objects live on an engine, whatever their class is called in this or that version.
_PACKAGES = {"cupyx": "cuda", "dask": "dask", "ray": "ray"}
# Engines of rows that lie elsewhere but are worked on by the CPU.
_BY_THE_CPU = frozenset({"chunks", "dask", "ray", "workers"})
# Devices that may be asked for by name; one of several cards by its number.
_DEVICES = re.compile(r"auto|cpu|cuda(:\d{1,3})?")
# The number of CUDA devices in DLPack.
_DLPACK_CUDA = 2
# What the engine of GPUs is written with: the extra `gpu`.
_OF_GPUS = frozenset({"torch", "triton"})
_made: dict[str, Engine] = {}


def register(name: str, module: str, maker: str, kinds: tuple[str, ...] = ()) -> None:
    """Make an engine known: `maker()` in `module`, for X of the classes with these full names."""
    _HOMES[name] = (module, maker)
    _KINDS.update(dict.fromkeys(kinds, name))
    _made.pop(name, None)
    _home_of_kind.cache_clear()


def engine(name: str, who: str | None = None) -> Engine:
    """The engine of this name, for whoever asks."""
    found = _made.get(name)
    if found is None:
        kind, _, card = name.partition(":")
        if kind not in _HOMES:
            known = ", ".join(repr(known) for known in _HOMES)
            raise ParameterError(f"An engine must be one of {known}; got {name!r}. There is no other here.")
        module, maker = _HOMES[kind]
        make = getattr(_imported(module, who), maker)
        found = _made[name] = cast(Engine, make(int(card)) if card else make())
    return found


def _imported(module: str, who: str | None = None) -> Any:
    try:
        return importlib.import_module(module)
    except (ImportError, OSError) as error:
        said = _what_is_missing(module, error)
        if said is None:
            raise
        whose = "" if who is None else f" of {who}"
        raise ParameterError(
            f"`device`{whose} must have its packages here; got 'cuda', and {said}. Install "
            "'armillary[gpu]' on Linux with an NVIDIA driver, or use device='cpu'."
        ) from None


def _what_is_missing(module: str, error: ImportError | OSError) -> str | None:
    """Why the packages of GPUs do not load, in words; None where something else is wrong."""
    name = getattr(error, "name", None) or ""
    is_of_gpus = name.split(".")[0] in _OF_GPUS
    if isinstance(error, ModuleNotFoundError):
        return f"{name} is not installed" if is_of_gpus else None
    if is_of_gpus or (not name and module == _HOMES["cuda"][0]):  # libraries of theirs are not there, or others
        return f"one of them does not load: {str(error).strip().splitlines()[0].rstrip('.')}"
    return None


def gpu_in_words() -> tuple[bool, str]:
    """Whether rows can be worked on by a GPU here, and the card, or why not, in a line."""
    try:
        found = _imported("armillary.engines.cuda")
    except ParameterError as error:
        return False, str(error)
    return not found.why_not(), found.described()


def like(X: Any, found: Any) -> Any:
    """What was found of rows, in the kind of array that X is where that lives on a GPU."""
    if _home_of(X) != "cuda" or not isinstance(found, np.ndarray | tuple):
        return found
    return importlib.import_module("armillary.engines.cuda").like(X, found)


def check_device(device: Any, who: str) -> str | None:
    """The parameter `device`: None, or a name of a device, whether there is an engine for it here or not."""
    if device is None or (isinstance(device, str) and (_DEVICES.fullmatch(device) or device in _HOMES)):
        return device
    raise ParameterError(
        f"`device` of {who} must be None, 'auto', 'cpu', 'cuda' or a card such as 'cuda:1'; got {device!r}. None goes "
        "where X is."
    )


def engine_for(X: Any, device: Any = None, who: str = "this model") -> Engine:
    """Where the rows of X are worked on: where X lives, unless a device was asked for."""
    asked, lives = check_device(device, who), _home_of(X)
    is_here = asked == "cpu" and lives in _BY_THE_CPU
    if asked is None or is_here or (asked == "auto" and lives != "cpu"):
        return engine(lives, who)
    if asked.partition(":")[0] == lives:  # a card says itself where X is on another
        return engine(asked, who)
    if asked == "auto":
        return engine("cuda" if gpu_in_words()[0] else "cpu", who)
    if lives != "cpu" and not (lives == "chunks" and asked.partition(":")[0] == "cuda"):
        raise ParameterError(
            f"`device` of {who} must be None, 'auto' or {lives!r} for X of class {type(X).__name__}, which lives "
            f"there; got {asked!r}. Give the rows as an array to work on them elsewhere."
        )
    return engine(asked, who)


def _home_of(X: Any) -> str:
    """The engine that X lives on."""
    home = "cpu" if type(X) is np.ndarray else _home_of_kind(cast(Hashable, type(X)))
    return "cuda" if home == "cpu" and _is_on_gpu(X) else home


def _is_on_gpu(X: Any) -> bool:
    """Whether X says so: a tensor of torch, CuPy or JAX, or what Numba has there."""
    if type(X) is np.ndarray:
        return False
    tell = getattr(type(X), "__dlpack_device__", None)
    if tell is not None:
        return bool(tell(X)[0] == _DLPACK_CUDA)
    return hasattr(type(X), "__cuda_array_interface__")


def is_bare_on_gpu(X: Any) -> bool:
    """Whether X is an array on a GPU, whose columns have no names."""
    return _is_on_gpu(X) and not hasattr(X, "columns")


def has_no_frame(X: Any) -> bool:
    """Whether X lies elsewhere, so that its names and columns are not asked for as those of a frame in memory."""
    return _home_of(X) in _PACKAGES


def refuse_at_workers(X: Any, who: str, why: str) -> None:
    """Refuse rows on disk and at workers where all rows must be in memory; `why` says what needs them."""
    refuse_stored(X, who, why)
    home = _home_of(X)
    if home in _BY_THE_CPU:
        raise InputError(
            f"X of {who} must be in memory, since {why}; got rows at workers of {home}. Give a sample as an array, or "
            "take a model that goes through its rows in order, such as SphericalKMeans, DPvMFMeans or "
            "VonMisesFisherMixture."
        )


def n_columns(X: Any, who: str) -> int:
    """How many columns the rows of X have."""
    if not has_no_frame(X):
        return validation.n_columns(X, who)
    home: Any = engine(_home_of(X))
    return int(home.n_columns(X))


@cache
def _home_of_kind(kind: type[Any]) -> str:
    """The engine that X of this class lives on."""
    for each in kind.__mro__:
        home = _KINDS.get(f"{each.__module__}.{each.__qualname__}")
        if home is not None:
            return home
    return _PACKAGES.get(kind.__module__.partition(".")[0], "cpu")


def checked_points(
    X: Any,
    who: str,
    sample_weight: Any = None,
    expected_features: int | None = None,
    *,
    gate: Gate = UNIT,
    device: str | None = None,
) -> Points:
    """The rows of X through the gate of the engine they go to."""
    return engine_for(X, device, who).points(X, who, sample_weight, expected_features, gate)


def open_passes(
    points: Points, n_threads: int | None, who: str, journal: Any = None, fit: dict[str, Any] | None = None
) -> AbstractContextManager[Passes]:
    """Passes over the points, on the engine that they live on, with threads that end with the context.

    Where there is a journal, what comes of the rows is kept there for the fit that is told by `fit`.
    """
    home: Any = engine(points.engine)
    if journal is None:
        return cast(AbstractContextManager[Passes], home.open(points, n_threads, who))
    if not hasattr(home, "told"):
        raise InputError(
            f"Rows of {who} with a Checkpoint must be at workers; got rows of the engine '{points.engine}'. Open them "
            "so: armillary.open_rows(path, n_workers=1)."
        )
    return cast(AbstractContextManager[Passes], home.open(points, n_threads, who, journal, fit))
