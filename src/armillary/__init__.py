"""Armillary: clustering of unit vectors.

Public names are imported on first use, so that `import armillary` stays as light as `import numpy`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from armillary.models.spherical_kmeans import SphericalKMeans
    from armillary.persistence.archive import load, save

__version__ = "0.1.0"

_HOMES = {
    "SphericalKMeans": "armillary.models.spherical_kmeans",
    "load": "armillary.persistence.archive",
    "save": "armillary.persistence.archive",
}
_ROOMS = ("datasets", "distributions", "geometry", "metrics", "plots")

__all__ = ["SphericalKMeans", "__version__", "load", "save"]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    if name in _ROOMS:
        return importlib.import_module(f"armillary.{name}")
    raise AttributeError(f"module 'armillary' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, *_ROOMS])
