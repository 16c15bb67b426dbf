"""One clustering for the draws of a Dirichlet-process mixture.

Clusters     those of the draw with the least mean loss to all draws, each with its most probable parameters
Rows         each in its most probable cluster: in a draw a row between two clusters is in one of them by chance
Tiny ones    a posterior makes and removes clusters of a few rows all the time, and every draw has some. The small
             clusters are left out one after the other, the smallest first, where that lowers the mean loss to all draws
             or raises the posterior of the partition: draws that are few may all have one more row on its own than is
             most probable
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from armillary._typing import Float64Array
from armillary.distributions.components import Component, Parameters
from armillary.engines.contract import Passes
from armillary.fitting.dirichlet_process import best_clusters, clusters_of, score_rule
from armillary.fitting.kept_draws import KeptDraws
from armillary.fitting.partitions import Codes, best_draw, expected_loss, label_counts, without_gaps
from armillary.models.dirichlet_process._chains import log_crp

# Clusters with fewer rows than this share of the mean count, or than so many, may be left out; at most so many are
# tried.
_SMALL = 0.1
_FEW_ROWS = 6
_MOST_TRIED = 20


class Estimate(NamedTuple):
    """K clusters, and how far they are from the draws."""

    labels: npt.NDArray[np.int32]  # (N,)
    laws: Parameters  # of K clusters
    weights: Float64Array  # (K,)
    draw: int  # the draw that the clusters come from
    expected_loss: float  # mean loss of `labels` to all draws


def point_estimate(passes: Passes, component: Component, draws: KeptDraws, alpha: float, loss: str) -> Estimate:
    """The clustering that the draws agree on best, as described above."""
    chosen = best_draw(draws, loss)
    clusters = clusters_of(passes, chosen.labels)
    laws, counts = component.point_estimate(clusters.sets()), clusters.counts
    draw = chosen.draw
    del chosen, clusters  # their labels would be held along with those tried
    weights = counts / (passes.points.n_rows + alpha)

    def labelled(kept: npt.NDArray[np.int64]) -> tuple[Codes, float]:
        some, shares = _some_of(laws, weights, kept)
        labels = best_clusters(passes, score_rule(component, some, np.log(shares)))
        return labels, expected_loss(labels, draws, loss)

    def log_posterior(labels: Codes) -> float:
        found = clusters_of(passes, labels)
        return log_crp(found.counts, alpha) + float(component.central_evidence(found.sets()).sum())

    kept = np.arange(len(counts))
    labels, least = labelled(kept)
    small = [k for k in np.argsort(counts, kind="stable") if counts[k] < max(_SMALL * counts.mean(), _FEW_ROWS)]
    highest = log_posterior(labels) if small else 0.0
    for cluster in small[: min(_MOST_TRIED, len(counts) - 1)]:
        fewer = kept[kept != cluster]
        without, mean_loss = labelled(fewer)
        height = log_posterior(without)
        if mean_loss <= least or height > highest:
            kept, labels, least, highest = fewer, without, mean_loss, height
    # a cluster that is nowhere the most probable one makes no difference
    kept = kept[label_counts(labels, len(kept)) > 0]
    return Estimate(without_gaps(labels), *_some_of(laws, weights, kept), draw, least)


def _some_of(laws: Parameters, weights: Float64Array, kept: npt.NDArray[np.int64]) -> tuple[Parameters, Float64Array]:
    return type(laws)(*(field[kept] for field in laws)), weights[kept]
