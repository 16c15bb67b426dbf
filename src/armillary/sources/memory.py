"""How much memory is free, and how much of it one reading may take."""

from __future__ import annotations

import os

from armillary.cores import memory_left

# Of the memory that is free, what rows that are brought home may take: fits need room beside them.
SHARE = 0.5
_UNKNOWN = 1 << 33  # where the system does not tell


def free_memory() -> int:
    """Bytes that can be had without swapping, of those that a container leaves."""
    left = memory_left()
    return _free_of_system() if left is None else min(left, _free_of_system())


def _free_of_system() -> int:
    try:
        with open("/proc/meminfo", encoding="ascii") as lines:
            for line in lines:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    names = getattr(os, "sysconf_names", {})
    if "SC_PHYS_PAGES" in names and "SC_PAGE_SIZE" in names:  # macOS tells what there is, not what is free
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
    return _UNKNOWN


def in_words(n_bytes: float) -> str:
    """E.g. "25.6 GB"."""
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if n_bytes >= size:
            return f"{n_bytes / size:.3g} {unit}"
    return f"{int(n_bytes)} bytes"
