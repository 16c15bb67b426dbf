"""Names that files of earlier schema versions have, and what became of them: one table, read by `load` alone.

In Python an old name is an error at once. A file cannot be edited, so it is brought up to date here, before anything in
it is looked at: what comes out is checked as a file of today is (`schema`, `values`). Values stay as they were saved:
sums from before there was a grid are rounded to it, once, by the model that goes on with them (`sums/directional.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from armillary.persistence.schema import MODELS

# What Gibbs sampling never took, when it was a kind of inference of the Bayesian mixture.
_NOT_OF_GIBBS = (
    "inference",
    "factors",
    "concentration_posterior",
    "log_normal_bound",
    "weight_prior",
    "n_init",
    "max_iter",
    "tol",
    "merge",
    "batch_size",
    "total_rows",
    "learning_offset",
    "learning_decay",
)

# Parameters by class: the name in a file of version 1, and the name now; None where there is none any more.
PARAMETERS: Mapping[str, Mapping[str, str | None]] = {
    "DirichletProcessMixture": {"n_samples": "n_draws", "weight_concentration": "weight_prior"},
    "BayesianVonMisesFisherMixture": {"n_samples": None, "n_burn_in": None, "thin": None},
    "GibbsVonMisesFisherMixture": {"n_samples": "n_draws", **dict.fromkeys(_NOT_OF_GIBBS)},
    "MultinomialMixture": {"weight_prior": "weight_concentration_prior"},
}

# Parameters whose values have other names too, in files of any version: name in the file, name of today, its values.
_SAID_OTHERWISE: Mapping[str, tuple[str, str, Mapping[Any, str]]] = {
    "DDPvMFMeans": ("allow_missing", "missing", {False: "raise", True: "flag"}),
}

# Fitted attributes, likewise.
FIELDS: Mapping[str, Mapping[str, str | None]] = {"DDPvMFMeans": {"memory_directions_": "cluster_centers_"}}


class Content(NamedTuple):
    """What a file says of a model."""

    name: str  # of the class
    params: Mapping[str, Any]
    fields: Mapping[str, Any]
    state: Mapping[str, Any] = MappingProxyType({})  # version 1 has none


def brought_up(content: Content, version: int) -> Content:
    """The content of a file of a version, under the names of today."""
    return _said_as_today(_from_first(content) if version == 1 else content)


def _said_as_today(content: Content) -> Content:
    return content._replace(params=values_now(content.name, content.params))


def values_now(name: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
    """Parameters of a class as they are written now; what was never a value of one stays, and is refused."""
    before, now, values = _SAID_OTHERWISE.get(name, ("", "", {}))
    if before not in params:
        return params
    given = params[before]
    others = {key: value for key, value in params.items() if key != before}
    return {**others, now: values[given] if isinstance(given, bool) else given}


def _from_first(content: Content) -> Content:
    """Version 1 had all of the saved states as fitted attributes, and Gibbs sampling as a kind of inference."""
    name = class_now(content.name, content.params)
    hidden = {f"{field.name}_": field.name for field in MODELS[name].state}
    fields = _renamed(content.fields, {**FIELDS.get(name, {}), **dict.fromkeys(hidden)})
    state = {hidden[key]: value for key, value in content.fields.items() if key in hidden}
    return Content(name, _renamed(content.params, PARAMETERS.get(name, {})), fields, state)


def class_now(name: str, params: Mapping[str, Any]) -> str:
    """What a class of version 1 with these parameters is called."""
    inference = params.get("inference")
    is_gibbs = name == "BayesianVonMisesFisherMixture" and isinstance(inference, str) and inference == "gibbs"
    return "GibbsVonMisesFisherMixture" if is_gibbs else name


def _renamed(values: Mapping[str, Any], names: Mapping[str, str | None]) -> dict[str, Any]:
    """Values under their new names; those without one are left out."""
    known = {names.get(name, name): value for name, value in values.items()}
    return {name: value for name, value in known.items() if name is not None}
