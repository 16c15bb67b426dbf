"""Section 2.1: how many iterations the Metropolis sampler of q(kappa) needs, by its proposal.

On a grid the sampler's transition matrix is known, and its second eigenvalue says after how many steps it has forgotten
where it was: the relaxation time, 1 / (1 - lambda). Components are those of free vMFmix; the prior is the log-normal
law of their concentrations, as empirical Bayes has it.

prior       the prior itself, whatever the current value
step of 1   normal about the current value with variance 1, as section 10.2 has it for the log-normal law
log step    log-normal about the current value, as wide as the posterior's logarithm: "around the current value", tuned
"""

from __future__ import annotations

import numpy as np
from documents import Documents, tf_idf
from methods import make_start
from scipy.stats import norm

import armillary
from armillary.distributions import bessel

N_POINTS, REACH = 401, 7.0  # of the grid, over so many standard deviations of the posterior
LEAST_SPREAD = 0.05  # of the prior's logarithm: components can agree


def measure(documents: Documents, seed: int) -> dict[str, list[float]]:
    """By proposal: the relaxation time of every component with at least five documents."""
    rows = tf_idf(documents.counts)
    start = make_start(rows, documents.n_classes, "k-means++", seed).directions
    model = armillary.VonMisesFisherMixture(len(start), concentration="free", init=start).fit(rows)
    logs = np.log(model.concentrations_)
    prior = float(logs.mean()), max(float(logs.std()), LEAST_SPREAD)
    counts = np.bincount(model.labels_, minlength=len(start))
    found: dict[str, list[float]] = {}
    for k in np.flatnonzero(counts >= 5):
        sums = np.asarray(rows[model.labels_ == k].sum(axis=0)).ravel()
        for name, value in relaxation(rows.shape[1], int(counts[k]), float(np.linalg.norm(sums)), prior).items():
            found.setdefault(name, []).append(value)
    return found


def relaxation(dimension: int, count: int, length: float, prior: tuple[float, float]) -> dict[str, float]:
    """The relaxation time of each proposal for one component: its documents and the length of their sum."""
    points, log_p = _posterior(dimension, count, length, prior)
    weights = np.exp(log_p - log_p.max())
    weights /= weights.sum()
    logs = np.log(points)
    spread = float(np.sqrt(weights @ (logs - weights @ logs) ** 2))
    cells = np.diff(points, append=2.0 * points[-1] - points[-2])
    densities = {
        "prior": np.broadcast_to(norm.pdf(logs, *prior) / points, (len(points), len(points))),
        "step of 1": norm.pdf(points[None] - points[:, None]),
        "log step": norm.pdf(logs[None] - logs[:, None], scale=2.4 * spread) / points[None],
    }
    return {name: _relaxation(density * cells, log_p) for name, density in densities.items()}


def _posterior(dimension: int, count: int, length: float, prior: tuple[float, float]) -> tuple[np.ndarray, np.ndarray]:
    """A grid of concentrations about the mode, and the log posterior there but for a constant."""

    def log_p(kappa: np.ndarray) -> np.ndarray:
        log_c = np.asarray(bessel.log_normalizer(dimension, kappa))
        return count * log_c + kappa * length + norm.logpdf(np.log(kappa), *prior) - np.log(kappa)

    coarse = np.exp(np.linspace(prior[0] - 6.0 * prior[1] - 2.0, prior[0] + 6.0 * prior[1] + 2.0, 2001))
    weights = np.exp(log_p(coarse) - log_p(coarse).max()) * coarse
    weights /= weights.sum()
    middle = float(weights @ coarse)
    spread = max(float(np.sqrt(weights @ (coarse - middle) ** 2)), 1e-3 * middle)
    points = np.linspace(max(middle - REACH * spread, 1e-3 * middle), middle + REACH * spread, N_POINTS)
    return points, log_p(points)


def _relaxation(proposal: np.ndarray, log_p: np.ndarray) -> float:
    """Of the Metropolis-Hastings chain; proposals beyond the grid are rejected, as they would be."""
    log_q = np.log(np.maximum(proposal, 1e-300))
    ratio = log_p[None] - log_p[:, None] + log_q.T - log_q
    moves = proposal * np.exp(np.minimum(0.0, ratio))
    np.fill_diagonal(moves, 0.0)
    np.fill_diagonal(moves, 1.0 - np.minimum(moves.sum(axis=1), 1.0))
    # reversible: similar to a symmetric matrix
    root = np.exp(0.5 * (log_p - log_p.max()))
    is_there = root > 1e-12
    symmetric = (root[:, None] * moves / np.maximum(root, 1e-300)[None])[np.ix_(is_there, is_there)]
    values = np.linalg.eigvalsh(0.5 * (symmetric + symmetric.T))
    return float(1.0 / max(1.0 - values[-2], 1e-12))
