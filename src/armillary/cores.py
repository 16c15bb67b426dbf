"""How many cores this process has: what it may run on, what a container lets it use, and no core counted twice.

The memory that a container leaves is found in the same place.

A container sees all cores of its machine and may own two of them: its limit is a quota of CPU time in control groups,
which neither affinity nor `os.cpu_count` knows. Threads beyond it are stopped again and again by the system. Two
hyperthreads of a core share its arithmetic: loops over rows gain little from the second.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path, PurePosixPath

_ROOT = Path("/")


def usable_cores() -> int:
    """Cores worth a thread each."""
    if hasattr(os, "sched_getaffinity"):
        cores = physical_cores(frozenset(os.sched_getaffinity(0)))
    else:
        cores = os.cpu_count() or 1
    quota = cpu_quota()
    return cores if quota is None else max(1, min(cores, math.ceil(quota)))


@cache
def physical_cores(processors: frozenset[int], root: Path = _ROOT) -> int:
    """How many cores some logical processors are on; one of which nothing is known counts as a core."""
    return len({_siblings(number, root) for number in processors})


def _siblings(number: int, root: Path) -> str:
    """What tells the core of a logical processor: the list of those that are on it."""
    place = root / f"sys/devices/system/cpu/cpu{number}/topology/thread_siblings_list"
    return _text(place) or f"processor {number}"


@cache  # a predict of one row takes 0.1 ms, these files half of that
def cpu_quota(root: Path = _ROOT) -> float | None:
    """Cores' worth of time that control groups leave this process, the least of its group and those above.

    None where there is no limit, or nothing that tells.
    """
    quotas = [quota for place in _groups(root, "cpu") for quota in (_quota(place),) if quota is not None]
    return min(quotas, default=None)


def memory_left(root: Path = _ROOT) -> int | None:
    """Bytes that control groups leave this process, the least of its group and those above; None without a limit.

    What is cached of files counts as used there, and is given up as soon as somebody needs the room.
    """
    rooms = [room for place in _groups(root, "memory") for room in (_room(place),) if room is not None]
    return min(rooms, default=None)


def _room(place: Path) -> int | None:
    for limit, used, cached in (
        ("memory.max", "memory.current", "inactive_file"),  # version 2
        ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
    ):
        most, now = _text(place / limit), _text(place / used)
        if most.isdigit() and now.isdigit():  # "max" is no limit
            stat = dict(line.split()[:2] for line in _text(place / "memory.stat").splitlines() if " " in line)
            reclaimed = stat.get(cached, "")
            return max(0, int(most) - int(now) + (int(reclaimed) if reclaimed.isdigit() else 0))
    return None


def _groups(root: Path, controller: str) -> Iterator[Path]:
    """Folders that may limit this process: of version 2 and of version 1, from its own up to the top.

    Inside a container the names are often those outside, or hidden: what is not there is passed over, and the top is
    its own.
    """
    mounted = root / "sys/fs/cgroup"
    for line in _text(root / "proc/self/cgroup").splitlines():
        _, controllers, name = line.split(":", 2) if line.count(":") >= 2 else ("", "", "")
        if not name.startswith("/"):
            continue
        if not controllers:
            tops = [mounted, mounted / "unified"]
        elif controller in controllers.split(","):
            tops = [mounted / controllers, mounted / controller]
        else:
            continue
        group = PurePosixPath(name).relative_to("/")
        for top in tops:
            yield from (top / part for part in (group, *group.parents))
    yield from (mounted, mounted / "unified", mounted / controller)


def _quota(place: Path) -> float | None:
    both = _text(place / "cpu.max").split()  # version 2: "200000 100000", or "max 100000"
    if not both:
        both = [_text(place / f"cpu.cfs_{what}_us") for what in ("quota", "period")]  # version 1: -1 is no limit
    try:
        quota, period = (int(number) for number in both)
    except ValueError:
        return None
    return quota / period if quota > 0 and period > 0 else None


def _text(place: Path) -> str:
    try:
        return place.read_text().strip()
    except (OSError, UnicodeDecodeError):
        return ""
