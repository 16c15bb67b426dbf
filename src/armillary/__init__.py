"""Armillary: clustering of unit vectors.

Public names are imported on first use, so that `import armillary` stays as light as `import numpy`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from armillary.collector import imported

if TYPE_CHECKING:
    from armillary.models.dirichlet_process.dirichlet_process_mixture import DirichletProcessMixture
    from armillary.models.links.links import Links
    from armillary.models.means.ddp_vmf_means import DDPvMFMeans
    from armillary.models.means.dp_vmf_means import DPvMFMeans
    from armillary.models.means.hierarchical_spherical_kmeans import HierarchicalSphericalKMeans
    from armillary.models.means.soft_kmeans import SoftKMeans
    from armillary.models.means.spherical_kmeans import SphericalKMeans
    from armillary.models.vmf.bayesian_vmf_mixture import BayesianVonMisesFisherMixture
    from armillary.models.vmf.gibbs_vmf_mixture import GibbsVonMisesFisherMixture
    from armillary.models.vmf.hierarchical_vmf_mixture import HierarchicalVonMisesFisherMixture
    from armillary.models.vmf.multinomial_mixture import MultinomialMixture
    from armillary.models.vmf.temporal_vmf_mixture import TemporalVonMisesFisherMixture
    from armillary.models.vmf.vmf_mixture import VonMisesFisherMixture
    from armillary.naming.cluster_names import name_clusters
    from armillary.persistence.archive import load, save
    from armillary.selection.angle_search import find_max_angle
    from armillary.selection.angle_selection import select_max_angle, suggest_max_angle
    from armillary.selection.auto_clusterer import AutoClusterer
    from armillary.selection.automatic import choose_model
    from armillary.selection.link_tuning import LINK_PRESETS, tune_links
    from armillary.sources.opening import open_rows

__version__ = "0.1.0"

_HOMES = {
    "AutoClusterer": "armillary.selection.auto_clusterer",
    "BayesianVonMisesFisherMixture": "armillary.models.vmf.bayesian_vmf_mixture",
    "DDPvMFMeans": "armillary.models.means.ddp_vmf_means",
    "DPvMFMeans": "armillary.models.means.dp_vmf_means",
    "DirichletProcessMixture": "armillary.models.dirichlet_process.dirichlet_process_mixture",
    "GibbsVonMisesFisherMixture": "armillary.models.vmf.gibbs_vmf_mixture",
    "HierarchicalSphericalKMeans": "armillary.models.means.hierarchical_spherical_kmeans",
    "HierarchicalVonMisesFisherMixture": "armillary.models.vmf.hierarchical_vmf_mixture",
    "LINK_PRESETS": "armillary.selection.link_tuning",
    "Links": "armillary.models.links.links",
    "MultinomialMixture": "armillary.models.vmf.multinomial_mixture",
    "SoftKMeans": "armillary.models.means.soft_kmeans",
    "SphericalKMeans": "armillary.models.means.spherical_kmeans",
    "TemporalVonMisesFisherMixture": "armillary.models.vmf.temporal_vmf_mixture",
    "VonMisesFisherMixture": "armillary.models.vmf.vmf_mixture",
    "choose_model": "armillary.selection.automatic",
    "find_max_angle": "armillary.selection.angle_search",
    "load": "armillary.persistence.archive",
    "name_clusters": "armillary.naming.cluster_names",
    "open_rows": "armillary.sources.opening",
    "save": "armillary.persistence.archive",
    "select_max_angle": "armillary.selection.angle_selection",
    "suggest_max_angle": "armillary.selection.angle_selection",
    "tune_links": "armillary.selection.link_tuning",
}
_ROOMS = ("curation", "datasets", "diagnostics", "distributions", "geometry", "metrics", "plots", "vision")

__all__ = [
    "LINK_PRESETS",
    "AutoClusterer",
    "BayesianVonMisesFisherMixture",
    "DDPvMFMeans",
    "DPvMFMeans",
    "DirichletProcessMixture",
    "GibbsVonMisesFisherMixture",
    "HierarchicalSphericalKMeans",
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
    "name_clusters",
    "open_rows",
    "save",
    "select_max_angle",
    "suggest_max_angle",
    "tune_links",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(imported(_HOMES[name]), name)
    if name in _ROOMS:
        return imported(f"armillary.{name}")
    raise AttributeError(f"module 'armillary' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, *_ROOMS])
