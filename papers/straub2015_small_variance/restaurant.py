"""Section 7.1: the CRP sampler of the paper's own model on all rows, compiled.

Concentrations are known, as in the paper (section 3): a row leaves its cluster and joins cluster k with probability
proportional to n_k times its predictive density there, or a new one with alpha times its density under the prior. That
is eq. 4 with a uniform prior of directions and with directions integrated out, where the paper draws them. The
library's form takes every component and is Python, row by row, so that its hours say nothing of the method; this one is
for one concentration alone.
"""

from __future__ import annotations

import math

import numpy as np

from armillary.distributions import bessel
from armillary.geometry import sphere
from armillary.kernels.jit import kernel
from armillary.kernels.rows.bessel import log_h, order_tables

ALPHA = 1.0


@kernel
def _length(sums, k):
    square = 0.0
    for d in range(sums.shape[1]):
        square += sums[k, d] * sums[k, d]
    return math.sqrt(square)


@kernel
def _sweep(rows, labels, counts, sums, n_clusters, uniforms, kappa, log_opened, tables, scores):
    """Draw the label of every row, in row order.

    log_opened: the log of alpha times the density of a row under the prior, less that of the law's normaliser, which
    all clusters share.
    """
    own = np.empty(scores.shape[0])  # log H of each cluster's sum
    for k in range(n_clusters):
        own[k] = log_h(kappa * _length(sums, k), tables)
    for i in range(rows.shape[0]):
        left = labels[i]
        counts[left] -= 1
        for d in range(rows.shape[1]):
            sums[left, d] -= rows[i, d]
        if counts[left] == 0:
            # the last cluster takes the place of the one that is gone
            n_clusters -= 1
            counts[left] = counts[n_clusters]
            sums[left] = sums[n_clusters]
            own[left] = own[n_clusters]
            for j in range(labels.shape[0]):
                if labels[j] == n_clusters:
                    labels[j] = left
        else:
            own[left] = log_h(kappa * _length(sums, left), tables)
        highest = log_opened
        for k in range(n_clusters):
            square = 0.0
            for d in range(rows.shape[1]):
                square += (sums[k, d] + rows[i, d]) ** 2
            scores[k] = math.log(counts[k]) + log_h(kappa * math.sqrt(square), tables) - own[k]
            highest = max(highest, scores[k])
        total = math.exp(log_opened - highest)
        for k in range(n_clusters):
            scores[k] = math.exp(scores[k] - highest)
            total += scores[k]
        rest = uniforms[i] * total
        chosen = 0
        while chosen < n_clusters and rest >= scores[chosen]:
            rest -= scores[chosen]
            chosen += 1
        if chosen == n_clusters:
            n_clusters += 1
            counts[chosen] = 0
            sums[chosen] = 0.0
        labels[i] = chosen
        counts[chosen] += 1
        for d in range(rows.shape[1]):
            sums[chosen, d] += rows[i, d]
        own[chosen] = log_h(kappa * _length(sums, chosen), tables)


class Seats:
    """Labels of rows, drawn anew one after the other, from given ones on."""

    def __init__(self, rows: np.ndarray, labels: np.ndarray, kappa: float) -> None:
        self.rows = np.ascontiguousarray(rows, dtype=np.float64)
        self.labels = np.unique(labels, return_inverse=True)[1].astype(np.int64)
        self._kappa = kappa
        n_features = rows.shape[1]
        self._tables = order_tables(0.5 * n_features - 1.0)
        normalizer = float(bessel.log_normalizer(n_features, np.array([kappa]))[0])
        self._log_opened = math.log(ALPHA) - float(sphere.log_area(n_features)) - normalizer

    def sweep(self, uniforms: np.ndarray) -> None:
        """Every row once, each by its uniform number."""
        most = len(self.rows) + 1  # every row alone, and one that opens another cluster
        counts = np.bincount(self.labels, minlength=most)
        sums = np.stack([np.bincount(self.labels, column, minlength=most) for column in self.rows.T], axis=1)
        given = uniforms, self._kappa, self._log_opened, self._tables, np.empty(most)
        _sweep(self.rows, self.labels, counts, sums, int(self.labels.max()) + 1, *given)
