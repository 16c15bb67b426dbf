"""Weights at the ends of their range: every model that takes any gives finite numbers, or a sentence about them."""

from __future__ import annotations

import inspect
import warnings

import numpy as np
import pytest

import armillary
from armillary.exceptions import InputError

FEW = {"n_clusters": 3, "n_components": 3, "max_iter": 3, "random_state": 0}
WEIGHED = [
    name
    for name in armillary.__all__
    if "sample_weight" in inspect.signature(getattr(getattr(armillary, name), "fit", len)).parameters
]
# concentrations of models without drift, and what was never summed
MAY_BE_INFINITE = {"drift_concentration_"}


def weights(kind, size):
    found = np.random.default_rng(1).uniform(0.5, 2.0, size=30)
    chosen = {"all": slice(None), "one": slice(1), "a slice of time": slice(0, None, 3)}[kind]
    found[chosen] *= size
    return found


@pytest.mark.parametrize("name", WEIGHED)
@pytest.mark.parametrize("kind", ["all", "one", "a slice of time"])
def test_weights_of_any_size(name, kind):
    X = np.abs(np.random.default_rng(0).normal(size=(30, 4)))
    refusals = {}
    for size in (1e300, 1e-310, 1e-200, 1e14):
        model = getattr(armillary, name)()
        model.set_params(**{parameter: value for parameter, value in FEW.items() if parameter in model.get_params()})
        times = {"times": np.arange(30) % 3} if "times" in inspect.signature(model.fit).parameters else {}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a few steps are not enough
            try:
                model.fit(X, sample_weight=weights(kind, size), **times)
            except InputError as error:
                refusals[size] = str(error)
                continue
        for attribute, value in vars(model).items():
            if attribute.endswith("_") and isinstance(value, float | np.ndarray) and attribute not in MAY_BE_INFINITE:
                is_float = np.asarray(value).dtype.kind == "f"
                assert not is_float or np.isfinite(value).all(), f"{attribute} at {size:g}"
    may_be_refused = {1e14, 1e-200} if name == "GibbsVonMisesFisherMixture" else {1e14}  # it takes no weights
    assert {1e300, 1e-310} <= set(refusals) <= {1e300, 1e-310} | may_be_refused
    assert all(said.startswith(f"`sample_weight` of {name} must") for said in refusals.values())
