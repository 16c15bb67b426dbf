"""Section 10.2: vMFmix that starts from a low concentration against one that starts from that of maximum likelihood.

Maximum likelihood is that of the labels the start gives: each row at its nearest direction, one concentration for all
(section 1.2, in exact form).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from documents import Documents, tf_idf
from methods import MEASURES, Start, make_start

import armillary
from armillary.distributions.bessel import concentration_from_resultant

LOW = 10.0  # "relative low values like 5 or 10"


def likeliest(rows: Any, start: Start) -> float:
    """The concentration that suits the labels of the start best."""
    cosines = np.asarray(rows @ start.directions.T)
    labels = cosines.argmax(axis=1)
    sums = [np.asarray(rows[labels == k].sum(axis=0)).ravel() for k in np.unique(labels)]
    length = sum(float(np.linalg.norm(one)) for one in sums) / rows.shape[0]
    return float(concentration_from_resultant(rows.shape[1], min(length, 1.0 - 1e-9)))


def measure(documents: Documents, kind: str, seed: int) -> dict[str, Any]:
    """The six measures from both first concentrations, one start for both."""
    assert documents.classes is not None
    rows = tf_idf(documents.counts)
    start = make_start(rows, documents.n_classes, kind, seed)
    found: dict[str, Any] = {"likeliest concentration": likeliest(rows, start)}
    for name, concentration in (("low", LOW), ("likeliest", found["likeliest concentration"])):
        model = armillary.VonMisesFisherMixture(
            documents.n_classes, init=start.directions, initial_concentration=concentration, random_state=seed
        )
        labels = model.fit_predict(rows)
        found[name] = {measure: float(function(documents.classes, labels)) for measure, function in MEASURES.items()}
        found[name]["steps"] = float(model.n_iter_)
    return found
