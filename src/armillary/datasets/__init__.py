"""Data with a known truth."""

from armillary.datasets.mixtures import (
    TangentGaussianMixtureTruth,
    VonMisesFisherMixtureTruth,
    make_tangent_gaussian_mixture,
    make_vmf_mixture,
)
from armillary.datasets.streams import DriftingMixtureTruth, make_drifting_mixture
from armillary.datasets.topics import SparseTopicsTruth, make_sparse_topics
from armillary.datasets.trees import VonMisesFisherTreeTruth, make_vmf_tree

__all__ = [
    "DriftingMixtureTruth",
    "SparseTopicsTruth",
    "TangentGaussianMixtureTruth",
    "VonMisesFisherMixtureTruth",
    "VonMisesFisherTreeTruth",
    "make_drifting_mixture",
    "make_sparse_topics",
    "make_tangent_gaussian_mixture",
    "make_vmf_mixture",
    "make_vmf_tree",
]
