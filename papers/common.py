"""What the scripts of all papers share: recorded data, progress, cases that resume, intervals, numbers for JSON."""

from __future__ import annotations

import json
import math
import os
import platform
import tempfile
import time
import zlib
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import sklearn
from rich.console import Console
from rich.progress import track as rich_track
from scipy import stats

import armillary

T = TypeVar("T")

CONSOLE = Console()
# Wall and CPU seconds of cases that an earlier process computed for the run that goes on.
_EARLIER = {"wall": 0.0, "cpu": 0.0}
NO_DATA = "ARMILLARY_SHARED_DATA does not name a data folder"


def shared_data() -> Path | None:
    """The folder with recorded data, where there is one."""
    named = os.environ.get("ARMILLARY_SHARED_DATA")
    return Path(named) if named and Path(named).is_dir() else None


def temporary_folder(paper: Path) -> Path:
    """Where results go that are not worth keeping beside the script."""
    return Path(tempfile.gettempdir()) / "armillary-papers" / paper.name


def cases_of(paper: Path, size: str, part: str) -> Path:
    """Where a part of a run keeps its cases until it is whole; runs into other folders of that name are others."""
    place = f"{zlib.crc32(str(paper.resolve()).encode()):08x}"
    return temporary_folder(paper) / f"cases {place}" / f"{size}, {part}.json"


def track(items: Iterable[T], word: str) -> Iterable[T]:
    """A progress bar."""
    return rich_track(list(items), description=word, console=CONSOLE, transient=True)


def versions() -> dict[str, str]:
    """Of what the results depend on."""
    return {
        "python": platform.python_version(),
        "armillary": armillary.__version__,
        "numpy": np.__version__,
        "scikit-learn": sklearn.__version__,
    }


def unit(rows: np.ndarray) -> np.ndarray:
    """To length one, along the last axis."""
    return np.asarray(rows / np.linalg.norm(rows, axis=-1, keepdims=True))


def clean(value: Any) -> Any:
    """Ready for JSON: numbers with six digits, None for what is not a number."""
    if isinstance(value, dict):
        return {key: clean(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [clean(item) for item in value]
    if isinstance(value, float):
        return None if math.isnan(value) else float(f"{value:.6g}")
    return value


def clock() -> dict[str, float]:
    """Wall and CPU seconds of this process so far, with those of a run that it goes on with."""
    return {"wall": _EARLIER["wall"] + time.perf_counter(), "cpu": _EARLIER["cpu"] + time.process_time()}


def since(begin: Mapping[str, float]) -> dict[str, float]:
    """Seconds since a reading of the clock."""
    return {name: round(value - begin[name], 1) for name, value in clock().items()}


def told_seconds(seconds: Mapping[str, Mapping[str, float]], parts: Iterable[str]) -> str:
    """Wall and CPU seconds of parts, in words; early runs told the clock alone, or the time of all parts together."""
    told = [
        f"{name} {spent['wall']:.0f}" + (f" ({spent['cpu']:.0f})" if "cpu" in spent else "")
        for name, spent in seconds.items()
    ]
    others = [name for name in parts if name not in seconds]
    wall = sum(spent["wall"] for spent in seconds.values())
    known = [spent["cpu"] for spent in seconds.values() if "cpu" in spent]
    return (
        "**Time.** Seconds by the clock (and of CPU) of each part, on two cores that had other work: "
        f"{', '.join(told)}. In all {wall / 60.0:.0f} minutes by the clock, "
        f"and {sum(known) / 60.0:.0f} of CPU where it was told."
        + (f" Of an earlier run, whose parts have no time: {', '.join(others)}." if others else "")
    )


def _asked(case: Callable[[], Any]) -> str:
    """What a case is asked to do, as far as numbers and words tell: another number of sweeps is another case."""
    if not isinstance(case, partial):
        return ""
    told = [one for one in (*case.args, *case.keywords.values()) if isinstance(one, int | float | str | tuple | dict)]
    return f"{getattr(case.func, '__name__', '')}{told}"


def resumed(cases: Mapping[str, Callable[[], Any]], store: Path, word: str, *, is_kept: bool = False) -> dict[str, Any]:
    """What all cases gave, ready for JSON; a run that was cut short goes on from what it left in `store`.

    What was computed for other numbers than are asked now is computed again. `is_kept` leaves the store to the caller.
    """
    store.parent.mkdir(parents=True, exist_ok=True)
    left: dict[str, Any] = json.loads(store.read_text()) if store.exists() else {}
    asked = {name: _asked(case) for name, case in cases.items()}
    found = {name: one for name, one in left.items() if one.get("asked", asked.get(name)) == asked.get(name)}
    for name in found:
        for kind, value in found[name]["spent"].items():
            _EARLIER[kind] += value
    missing = [name for name in cases if name not in found]
    for name in track(missing, word) if word else missing:  # bars within bars are not shown
        begin = clock()
        value = clean(cases[name]())
        found[name] = {"value": value, "spent": since(begin), "asked": asked[name]}
        half = store.with_suffix(".part")
        half.write_text(json.dumps(found))
        half.replace(store)
    if not is_kept:
        store.unlink(missing_ok=True)
    return {name: found[name]["value"] for name in cases}


def computed(
    parts: Mapping[str, Callable[[], Any]], store: Path, *, is_kept: bool = False
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Every part's results, and its seconds: a run that was cut short goes on with the parts that are missing.

    A run that computes its parts in two goes keeps those of the first (`is_kept`) until its results are written, and
    then calls `written`.
    """

    def timed(part: Callable[[], Any]) -> dict[str, Any]:
        begin = clock()
        results = part()
        return {"results": results, "seconds": since(begin)}

    cases = {name: lambda part=part: timed(part) for name, part in parts.items()}
    found = resumed(cases, _of_parts(parts, store), word="", is_kept=is_kept)
    return {name: one["results"] for name, one in found.items()}, {name: one["seconds"] for name, one in found.items()}


def written(parts: Iterable[str], store: Path) -> None:
    """What `computed` kept is no longer needed."""
    _of_parts(parts, store).unlink(missing_ok=True)


def _of_parts(parts: Iterable[str], store: Path) -> Path:
    """Another choice of parts is another run."""
    return store.with_stem(f"{store.stem} {zlib.crc32('; '.join(parts).encode()):08x}")


def interval(values: Iterable[float], level: float = 0.95) -> tuple[float, float]:
    """Of the mean, by Student's law; one value, or equal ones, have none to tell and give themselves."""
    found = np.asarray(list(values), dtype=np.float64)
    mean, error = float(found.mean()), float(stats.sem(found)) if len(found) > 1 else 0.0
    if error == 0.0:
        return mean, mean
    low, high = stats.t.interval(level, len(found) - 1, mean, error)
    return float(low), float(high)


def interval_of(mean: float, sd: float, n_runs: int, level: float = 0.95) -> tuple[float, float]:
    """The same from a mean and a standard deviation that are stored."""
    half = float(stats.t.ppf(0.5 + level / 2.0, n_runs - 1)) * sd / math.sqrt(n_runs) if n_runs > 1 else 0.0
    return mean - half, mean + half


def share_interval(n_wins: int, n: int, level: float = 0.95) -> tuple[float, float]:
    """Of a share, by Wilson."""
    found = stats.binomtest(n_wins, n).proportion_ci(level, method="wilson")
    return float(found.low), float(found.high)


def between(ends: tuple[float, float], digits: int = 3) -> str:
    """An interval in words."""
    return f"95%: {ends[0]:.{digits}f} to {ends[1]:.{digits}f}"
