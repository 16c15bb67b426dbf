"""Labels of a Dirichlet-process mixture drawn one row after the other, given the labels of all others.

A row leaves its cluster, which is gone if it was the last, and joins cluster k with probability proportional to n_k
times the predictive density of the row, or a new one with alpha times its density under the prior (Neal 2000,
algorithms 2 and 3). Clusters are told by the statistics of their component; where that has a pivot, a new cluster draws
its own from the exact law given its one row. Made to be right for every component, not fast: a row takes a millisecond.
Rows are asked for one by one, so they must be in memory.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from armillary._typing import Float64Array
from armillary.distributions.components import Component, Pivots, Statistics
from armillary.engines.contract import Partition, Passes
from armillary.engines.host import host_passes


def in_memory(passes: Passes) -> Passes:
    """The passes, where rows can be asked for one by one."""
    return host_passes(passes, 'use sampler="split_merge"')


class Restaurant:
    """Rows at tables: the statistics of K clusters, carried along as rows move."""

    def __init__(self, component: Component, passes: Passes, clusters: Partition, pivots: Pivots, alpha: float) -> None:
        self._component = component
        self._passes = in_memory(passes)
        self._log_alpha = float(np.log(alpha))
        self.labels: npt.NDArray[np.int64] = clusters.labels.to_host().astype(np.int64)
        self.pivots = pivots
        self._counts = clusters.counts.astype(np.float64)
        self._sums = component.set_statistics(pivots, clusters.sets())
        self._log_marginals = component.log_marginal(self._sums)

    def sweep(self, generator: np.random.Generator) -> None:
        """Draw the label of every row, in row order."""
        for number in range(len(self.labels)):
            self._seat(number, self._passes.unit_rows([number]), generator)

    def _seat(self, number: int, row: Float64Array, generator: np.random.Generator) -> None:
        alone = self._alone(row)
        self._remove(int(self.labels[number]), alone)
        if len(alone[0]) != len(self._counts):
            alone = self._alone(row)  # its cluster is gone
        joined = tuple(sums + part for sums, part in zip(self._sums, alone, strict=True))
        log_joined = self._component.log_marginal(joined)
        scores = np.append(
            np.log(self._counts) + log_joined - self._log_marginals,
            self._log_alpha + self._component.log_prior_predictive(row),
        )
        cumulative = np.cumsum(np.exp(scores - scores.max()))
        chosen = int(np.argmax(cumulative >= generator.random() * cumulative[-1]))
        if chosen == len(self._counts):
            self._open(row, generator)
        else:
            self._counts[chosen] += 1.0
            for sums, part in zip(self._sums, joined, strict=True):
                sums[chosen] = part[chosen]
            self._log_marginals[chosen] = log_joined[chosen]
        self.labels[number] = chosen

    def _alone(self, row: Float64Array) -> Statistics:
        """Statistics (K, ...) of one row under the pivot of each cluster."""
        alone = self._component.statistics(self.pivots, row)
        n_clusters = len(self._counts)
        return tuple(np.broadcast_to(part[0], (n_clusters, *part.shape[2:])) for part in alone)

    def _remove(self, cluster: int, alone: Statistics) -> None:
        self._counts[cluster] -= 1.0
        if self._counts[cluster] > 0.0:
            for sums, part in zip(self._sums, alone, strict=True):
                sums[cluster] -= part[cluster]
            rest = tuple(sums[cluster] for sums in self._sums)
            self._log_marginals[cluster] = self._component.log_marginal(rest)
            return
        self._counts = np.delete(self._counts, cluster)
        self._sums = tuple(np.delete(sums, cluster, axis=0) for sums in self._sums)
        self._log_marginals = np.delete(self._log_marginals, cluster)
        if self.pivots is not None:
            self.pivots = np.delete(self.pivots, cluster, axis=0)
        self.labels[self.labels > cluster] -= 1

    def _open(self, row: Float64Array, generator: np.random.Generator) -> None:
        pivot = self._component.draw_pivot_of_one(row[0], generator)
        if pivot is not None:
            self.pivots = pivot if self.pivots is None else np.concatenate([self.pivots, pivot])
        alone = tuple(part[0] for part in self._component.statistics(pivot, row))
        self._counts = np.append(self._counts, 1.0)
        self._sums = tuple(np.concatenate([sums, part]) for sums, part in zip(self._sums, alone, strict=True))
        self._log_marginals = np.append(self._log_marginals, self._component.log_marginal(alone))
