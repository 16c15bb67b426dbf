"""Data with a known truth."""

from armillary.datasets.synthetic import (
    DriftingMixtureTruth,
    SparseTopicsTruth,
    TangentGaussianMixtureTruth,
    VonMisesFisherMixtureTruth,
    make_drifting_mixture,
    make_sparse_topics,
    make_tangent_gaussian_mixture,
    make_vmf_mixture,
)

__all__ = [
    "DriftingMixtureTruth",
    "SparseTopicsTruth",
    "TangentGaussianMixtureTruth",
    "VonMisesFisherMixtureTruth",
    "make_drifting_mixture",
    "make_sparse_topics",
    "make_tangent_gaussian_mixture",
    "make_vmf_mixture",
]
