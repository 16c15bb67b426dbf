"""Section 9: directions that drift against mixtures that stand still, by the likelihood of the next slice of time.

All models learn from the slices up to one and are scored on the next that has documents, from one k-means++ start.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from documents import Documents
from held_out import FLAT, collected, described, flat, gain, split
from methods import make_start

import armillary

MODELS = (*FLAT, "T-vMFmix", "T-vMFmix factorised, drift given", "T-vMFmix factorised, drift learned")


def measure(documents: Documents, last: int, n_components: int, seed: int) -> dict[str, float]:
    """Learn up to slice `last`, score the next; the drift learned by messages is given to the paper's inference too."""
    assert documents.slices is not None
    slices = documents.slices
    following = slices[slices > last].min()
    # in the order of time, so that slices are views
    order = np.argsort(slices, kind="stable")
    rows = split(documents, order[slices[order] <= last], np.flatnonzero(slices == following))
    times, every = slices[rows.trained], range(int(slices.min()), last + 1)
    start = make_start(rows.train, n_components, "k-means++", seed).directions
    found = flat(rows, start, seed)

    def add(name: str, **how: Any) -> Any:
        model = armillary.TemporalVonMisesFisherMixture(n_components, init=start, random_state=seed, **how)
        model.fit(rows.train, times=times, slices=every)
        found[name] = gain(model.score_next(rows.test, n_steps=int(following - last)), start.shape[1])
        return model

    smoothed = add(MODELS[3])
    drift = smoothed.drift_concentration_
    add(MODELS[4], inference="factorised", drift=drift, drift_unit="concentration")
    factorised = add(MODELS[5], inference="factorised")
    cosines = {"drift, degrees": smoothed.drift_angle_, "drift factorised, degrees": factorised.drift_angle_}
    return found | {name: float(np.degrees(angle)) for name, angle in cosines.items()}


def over_time(documents: Documents, lasts: tuple[int, ...], n_components: int, track: Any) -> dict[str, Any]:
    """By the last slice that was learned."""
    by_slice = {
        str(last): collected([measure(documents, last, n_components, seed=1)])
        for last in track(lasts, f"{documents.name}, slices")
    }
    return described(documents, 1, by_slice)
