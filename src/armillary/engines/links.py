"""The door to the kernel of `Links`, which learns vectors one after the other, on the host."""

from __future__ import annotations

import importlib
from functools import cache
from typing import Any

from armillary.kernels.links.records import (
    LINK_CALL,
    LINK_GROUP,
    LINK_NODE,
    Corrections,
    Fate,
    LinkForest,
    LinkLog,
    LinkRule,
    Tally,
)

__all__ = [
    "LINK_CALL",
    "LINK_GROUP",
    "LINK_NODE",
    "Corrections",
    "Fate",
    "LinkForest",
    "LinkLog",
    "LinkRule",
    "Tally",
    "kernel",
]


@cache
def kernel() -> Any:
    """The compiled forest, imported when first asked for."""
    return importlib.import_module("armillary.kernels.links.forest")
