"""Rows that stay on disk: `open_rows`. Names are imported on first use."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from armillary.sources.opening import open_rows
    from armillary.sources.stored import StoredRows

_HOMES = {"StoredRows": "stored", "open_rows": "opening"}

__all__ = ["StoredRows", "open_rows"]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(f"armillary.sources.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'armillary.sources' has no attribute {name!r}")
