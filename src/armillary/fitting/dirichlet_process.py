"""The rows' side of Dirichlet-process mixtures: partitions to start from, and what a rule says of each row.

A partition of the rows into K clusters lives with the rows (`engines/contract.py`, `Partition`). A sampler sees it as a
list of clusters, asks for sums over the rows of one or two of them, and says which to split or merge.

Labels are redrawn by anchored restricted Gibbs (dp_tgmm.md, 7): given parameters and weights, and K held fixed, rows
are independent but for the rule that no cluster may end empty. The row of each cluster with the lowest random priority
stays, and the others may go to clusters whose anchor comes before them; that is exact, and parallel over rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import logsumexp, softmax

from armillary._typing import Float64Array
from armillary.distributions import bessel
from armillary.distributions.components import Component, Parameters
from armillary.distributions.gaussian_component import Gaussian
from armillary.distributions.tangent_gaussian import TangentGaussian, log_map
from armillary.engines.contract import Here, Labels, Partition, Passes, Rule
from armillary.fitting import initialization
from armillary.fitting.partitions import Codes, without_gaps
from armillary.points import as_float64, even_ranges
from armillary.rules import AffineRule, QuadraticRule

_LLOYD_STEPS = 10
# Rows that are equal but for rounding have no spread.
_LEAST_SPREAD = 1e-6
# Rows that tell the spread of a cluster, one number for all directions, to a tenth or two.
_ENOUGH_ROWS = 4
# Rows that are brought home together.
_FEW_ROWS = 4096


def score_rule(component: Component, laws: Parameters, log_weights: Float64Array) -> Rule:
    """Log weights plus log densities of K clusters, as engines want them."""
    dimension = component.n_features
    if isinstance(laws, TangentGaussian):
        p = dimension - 1
        volume = p - 1.0 if getattr(component, "volume_factor", True) else 0.0
        heights = log_weights - 0.5 * (p * np.log(2.0 * np.pi) + laws.log_determinant)
        return QuadraticRule(laws.root, heights, means=laws.mean, volume=volume)
    if isinstance(laws, Gaussian):
        heights = log_weights - 0.5 * (dimension * np.log(2.0 * np.pi) + laws.log_determinant)
        return QuadraticRule(laws.root, heights, shifts=np.vecdot(laws.root, laws.mean[:, None]))
    heights = log_weights + bessel.log_normalizer(dimension, laws.concentration)
    return AffineRule(laws.mean, heights, slopes=laws.concentration)


def clusters_of(passes: Passes, given: npt.ArrayLike) -> Partition:
    """The rows by labels (N,) that a user gave, or that were made on the host: any integers."""
    return passes.partition(passes.labels_from(without_gaps(np.asarray(given))))


def rough_clusters(passes: Passes, n_clusters: int, generator: np.random.Generator) -> Partition:
    """Clusters of spherical k-means, stopped after ten steps: a start, not a result."""
    labels = _rough_labels(passes, n_clusters, generator)
    labels.keep(labels.sizes(n_clusters) > 0)
    return passes.partition(labels)


def _rough_labels(passes: Passes, n_clusters: int, generator: np.random.Generator) -> Labels:
    directions = initialization.plus_plus(passes, n_clusters, generator)
    labels = passes.labels()
    for _ in range(_LLOYD_STEPS):
        statistics = passes.label(AffineRule.cosines(directions), labels).sums
        directions = statistics.directions(otherwise=directions)
    return labels


def typical_spread(clusters: Partition, otherwise: float) -> float:
    """The median over clusters of the root mean squared chord in each tangent direction, in radians.

    Of clusters with more than 4 rows, or D if that is less: a mean over directions needs no more rows in more of them.
    `otherwise` where there is none, or where their rows are all equal.
    """
    sets = clusters.sets()
    means = sets.totals() / sets.counts[:, None]
    n_features = means.shape[1]
    # the mean of |x - m|^2 of unit rows
    chords = np.maximum(1.0 - np.vecdot(means, means), 0.0)[sets.counts > min(n_features, _ENOUGH_ROWS)]
    spread = float(np.sqrt(np.median(chords) / (n_features - 1.0))) if len(chords) else 0.0
    return spread if spread > _LEAST_SPREAD else otherwise


# ------------------------------------------------------------------------------------------------------- row by row


@dataclass(frozen=True)
class _Best:
    """The cluster with the highest score, in the smallest unsigned integers."""

    def of(self, scores: Float64Array, here: Here) -> Codes:
        return np.argmax(scores, axis=1).astype(np.min_scalar_type(scores.shape[1] - 1))


@dataclass(frozen=True)
class _Shares:
    """The share of each cluster."""

    def of(self, scores: Float64Array, here: Here) -> Float64Array:
        return np.asarray(softmax(scores, axis=1))


@dataclass(frozen=True)
class _Evidence:
    """log sum exp of the scores and of what is not in the rule: clusters not seen yet, by the prior."""

    component: Component
    log_rest: float

    def of(self, scores: Float64Array, here: Here) -> Float64Array:
        unseen = self.log_rest + self.component.log_prior_predictive(as_float64(here.rows()))
        return np.logaddexp(logsumexp(scores, axis=1), unseen)


def best_clusters(passes: Passes, rule: Rule) -> Codes:
    """The cluster with the highest score of each row (n,), in the smallest unsigned integers."""
    return passes.values(rule, _Best())


def responsibilities(passes: Passes, rule: Rule) -> Float64Array:
    """The share of each cluster in each row (n, K)."""
    return passes.values(rule, _Shares())


def log_evidence(passes: Passes, rule: Rule, component: Component, log_rest: float) -> Float64Array:
    """log sum exp of the scores of each row (n,) and of clusters not seen yet, of this weight."""
    return passes.values(rule, _Evidence(component, log_rest))


def coordinates(passes: Passes, mean: Float64Array, axes: Float64Array, *, is_curved: bool) -> Float64Array:
    """Rows (n, p) along axes (p, D) from a mean: by the log map of the sphere, or straight."""
    parts = []
    for start, stop in even_ranges(passes.points.n_rows, -(-passes.points.n_rows // _FEW_ROWS)):
        rows = passes.unit_rows(np.arange(start, stop))
        vectors = log_map(rows, mean).vectors if is_curved else rows - mean
        parts.append(vectors @ axes.T)
    return np.concatenate(parts)
