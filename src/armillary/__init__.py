"""Armillary: clustering of unit vectors.

Public names are imported on first use, so that `import armillary` stays as light as `import numpy`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from armillary.models.angle_search import find_max_angle
    from armillary.models.angle_selection import select_max_angle, suggest_max_angle
    from armillary.models.automatic import choose_model
    from armillary.models.bayesian_vmf_mixture import BayesianVonMisesFisherMixture
    from armillary.models.ddp_vmf_means import DDPvMFMeans
    from armillary.models.dirichlet_process_mixture import DirichletProcessMixture
    from armillary.models.dp_vmf_means import DPvMFMeans
    from armillary.models.hierarchical_vmf_mixture import HierarchicalVonMisesFisherMixture
    from armillary.models.link_tuning import LINK_PRESETS, tune_links
    from armillary.models.links import Links
    from armillary.models.multinomial_mixture import MultinomialMixture
    from armillary.models.soft_kmeans import SoftKMeans
    from armillary.models.spherical_kmeans import SphericalKMeans
    from armillary.models.temporal_vmf_mixture import TemporalVonMisesFisherMixture
    from armillary.models.vmf_mixture import VonMisesFisherMixture
    from armillary.persistence.archive import load, save

__version__ = "0.1.0"

_HOMES = {
    "BayesianVonMisesFisherMixture": "armillary.models.bayesian_vmf_mixture",
    "DDPvMFMeans": "armillary.models.ddp_vmf_means",
    "DPvMFMeans": "armillary.models.dp_vmf_means",
    "DirichletProcessMixture": "armillary.models.dirichlet_process_mixture",
    "HierarchicalVonMisesFisherMixture": "armillary.models.hierarchical_vmf_mixture",
    "LINK_PRESETS": "armillary.models.link_tuning",
    "Links": "armillary.models.links",
    "MultinomialMixture": "armillary.models.multinomial_mixture",
    "SoftKMeans": "armillary.models.soft_kmeans",
    "SphericalKMeans": "armillary.models.spherical_kmeans",
    "TemporalVonMisesFisherMixture": "armillary.models.temporal_vmf_mixture",
    "VonMisesFisherMixture": "armillary.models.vmf_mixture",
    "choose_model": "armillary.models.automatic",
    "find_max_angle": "armillary.models.angle_search",
    "load": "armillary.persistence.archive",
    "save": "armillary.persistence.archive",
    "select_max_angle": "armillary.models.angle_selection",
    "suggest_max_angle": "armillary.models.angle_selection",
    "tune_links": "armillary.models.link_tuning",
}
_ROOMS = ("datasets", "diagnostics", "distributions", "geometry", "metrics", "plots", "vision")

__all__ = [
    "LINK_PRESETS",
    "BayesianVonMisesFisherMixture",
    "DDPvMFMeans",
    "DPvMFMeans",
    "DirichletProcessMixture",
    "HierarchicalVonMisesFisherMixture",
    "Links",
    "MultinomialMixture",
    "SoftKMeans",
    "SphericalKMeans",
    "TemporalVonMisesFisherMixture",
    "VonMisesFisherMixture",
    "__version__",
    "choose_model",
    "find_max_angle",
    "load",
    "save",
    "select_max_angle",
    "suggest_max_angle",
    "tune_links",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    if name in _ROOMS:
        return importlib.import_module(f"armillary.{name}")
    raise AttributeError(f"module 'armillary' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, *_ROOMS])
