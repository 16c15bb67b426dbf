"""Sections 2.1, 2.2 and 7: ways to the posterior of B-vMFmix, by held-out likelihood and seconds of one core.

sampling      q(kappa) by Metropolis draws, the paper's first scheme; it is what section 7 of the paper uses
bounding      q(kappa) log-normal with the paper's approximation of E[log I], its second scheme
grid          q(kappa) on a grid, the paper's third; ours by default, there with the joint factor q(mu, kappa)
Gibbs         labels and concentrations drawn, directions and weights integrated out
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from documents import Documents
from held_out import gain, halves
from methods import make_start
from sklearn.metrics import normalized_mutual_info_score

import armillary

SAMPLING, BOUNDING, GRID, JOINT, GIBBS = "sampling", "bounding", "grid", "grid, joint factor", "Gibbs"
_LAWS: dict[str, dict[str, Any]] = {
    SAMPLING: {"factors": "factorised", "concentration_posterior": "monte_carlo"},
    BOUNDING: {"factors": "factorised", "concentration_posterior": "log_normal", "log_normal_bound": "delta"},
    GRID: {"factors": "factorised"},
    JOINT: {},
}
WAYS = (*_LAWS, GIBBS)


FEW = 10.0  # a component of fewer documents has a concentration that its prior tells, not they


def measure(documents: Documents, way: str, seed: int, gibbs: tuple[int, int]) -> dict[str, Any]:
    """One split into halves: nats a document over the uniform law, seconds of one core, agreement with the classes.

    Of variational ways also how often a step lowered the bound, and the standard deviation of q(kappa) over its mean in
    every component of ten documents or more.
    """
    assert documents.classes is not None
    rows = halves(documents, seed)
    start = make_start(rows.train, documents.n_classes, "k-means++", seed).directions
    shared: dict[str, Any] = {"init": start, "random_state": seed, "n_threads": 1}
    model: Any
    if way == GIBBS:
        burn_in, draws = gibbs
        model = armillary.GibbsVonMisesFisherMixture(len(start), n_burn_in=burn_in, n_draws=draws, **shared)
    else:
        model = armillary.BayesianVonMisesFisherMixture(len(start), **_LAWS[way], **shared)
    begin = time.process_time()
    model.fit(rows.train)
    seconds = time.process_time() - begin
    classes = documents.classes[rows.trained]
    told: dict[str, Any] = {}
    if way != GIBBS:
        bounds = np.asarray(model.lower_bounds_)
        # rounding of a sum over all documents is no fall
        told["falls"] = float((np.diff(bounds) < -1e-9 * np.abs(bounds[:-1])).sum())
        is_told = np.asarray(model.counts_) >= FEW
        told["widths"] = (model.concentration_deviations_ / model.concentrations_)[is_told].tolist()
    return told | {
        "nats": gain(model.score(rows.test), start.shape[1]),
        "seconds": seconds,
        "steps": float(getattr(model, "n_iter_", 0)),
        "NMI": float(normalized_mutual_info_score(classes, model.labels_)),
    }
