"""The models as the command line names them. Imports nothing heavy: completion and help read this table."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from armillary.exceptions import ParameterError


@dataclass(frozen=True)
class ModelName:
    """One model: its class, and which of its parameters the general options set."""

    class_name: str
    what: str
    count: str | None = None  # the parameter that --n-clusters sets
    takes_angle: bool = False  # whether --max-angle sets `max_angle`
    is_streaming: bool = False  # whether `stream` takes it


MODELS = {
    "skmeans": ModelName("SphericalKMeans", "spherical k-means: K directions", "n_clusters", is_streaming=True),
    "hkmeans": ModelName("HierarchicalSphericalKMeans", "spherical k-means on levels, coarse to fine", "n_clusters"),
    "dp": ModelName("DPvMFMeans", "clusters within an angle, however many", takes_angle=True, is_streaming=True),
    "ddp": ModelName("DDPvMFMeans", "the same for batches in time", takes_angle=True, is_streaming=True),
    "links": ModelName("Links", "one vector at a time, ids for ever", is_streaming=True),
    "vmf": ModelName("VonMisesFisherMixture", "soft clusters, by EM", "n_components"),
    "bayes": ModelName("BayesianVonMisesFisherMixture", "soft clusters with priors", "n_components"),
    "gibbs": ModelName("GibbsVonMisesFisherMixture", "the same, by Gibbs sampling", "n_components"),
    "tree": ModelName("HierarchicalVonMisesFisherMixture", "clusters on a tree"),
    "temporal": ModelName("TemporalVonMisesFisherMixture", "directions that drift over time", "n_components"),
    "dpmm": ModelName("DirichletProcessMixture", "Dirichlet process mixture, by MCMC"),
    "soft-kmeans": ModelName("SoftKMeans", "soft k-means", "n_components"),
    "multinomial": ModelName("MultinomialMixture", "for word counts", "n_components"),
}
AUTO = "auto"


def entry(name: str) -> tuple[str, ModelName]:
    """The model with this short name or class name, whatever its case."""
    wanted = name.strip().lower()
    for short, model in MODELS.items():
        if wanted in (short, model.class_name.lower()):
            return short, model
    raise ParameterError(f"--model must be one of {', '.join([AUTO, *MODELS])} or the name of a class; got '{name}'.")


def completed(incomplete: str) -> Iterator[tuple[str, str]]:
    """Names that begin so, with what they are; after a comma the next one of a list."""
    done, comma, begun = incomplete.rpartition(",")
    known = {AUTO: "chosen by measurement", **{name: model.what for name, model in MODELS.items()}}
    for name, what in known.items():
        if name.startswith(begun.lower()):
            yield f"{done}{comma}{name}", what


def completed_streaming(incomplete: str) -> Iterator[tuple[str, str]]:
    """Names of models that `stream` takes."""
    for name, model in MODELS.items():
        if model.is_streaming and name.startswith(incomplete.lower()):
            yield name, model.what
