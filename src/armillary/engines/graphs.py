"""The door to the kernel that moves nodes between the communities of a graph, on the host."""

from __future__ import annotations

import importlib
from functools import cache
from typing import Any

__all__ = ["kernel"]


@cache
def kernel() -> Any:
    """The compiled moves of nodes, imported when first asked for."""
    return importlib.import_module("armillary.kernels.rows.communities")
