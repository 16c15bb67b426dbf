"""What a saved model is: which attributes each class has, and how values are written.

A model is the parameters of its constructor and its fitted attributes, the public names that end in "_". Private
attributes are not saved: a model publishes whatever its next step needs. A later model is one more row of `MODELS`.

Version 1 is a safetensors file whose metadata has one entry, "armillary", with this JSON object:

    format             "armillary.model"
    schema_version     1
    armillary_version  of the writer; only messages use it
    class              a key of `MODELS`
    params             name -> value, as `to_json` writes it
    fields             name -> value of each fitted attribute, likewise
    sha256             of everything above and all tensors

A fitted array is a tensor under its own name; an array in a parameter is a tensor named "params/...".
"""

from __future__ import annotations

import importlib
import inspect
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from armillary.exceptions import ArchiveError

FORMAT = "armillary.model"
SCHEMA_VERSION = 1

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"
Array: TypeAlias = npt.NDArray[Any]

# Parameters that watch a fit and take no part in the model. They are not saved, and load with their default.
OBSERVERS = frozenset({"callbacks"})

# What both NumPy and safetensors have, complex numbers aside.
_TENSOR_DTYPES = frozenset(
    {"bool", "float16", "float32", "float64"} | {f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)}
)


# One of NumPy's units with how many of them make a step, which must not be 0.
_UNIT_OF_DATES = re.compile(r"([1-9]\d{0,8})?(Y|M|W|D|h|m|s|ms|us|ns|ps|fs|as)")

# Lists in lists of a parameter: no parameter has more than two.
_DEEPEST = 32
_PLAIN = {name: np.dtype(name) for name in _TENSOR_DTYPES}

# The kind of an array of int64, float64, datetime64 or strings: whatever can be put in order of time.
TIMES = "times"


@dataclass(frozen=True, slots=True)
class Field:
    """One fitted attribute."""

    name: str
    kind: str  # "int", "float", "bool", "strings", `TIMES`, or the dtype of an array, e.g. "float64"
    # One letter per axis: K clusters, D features, N rows, C components, G nodes, S draws, T tracks, E events, V nodes
    # of a tree of which M are inner, U sub-clusters, H merges of these, P pairs, L names, R chains, Q pivots, F
    # those of A pairs of halves, B bytes, and I or J steps; a digit is a length.
    shape: str = ""
    is_required: bool = True


@dataclass(frozen=True, slots=True)
class ModelSchema:
    """One class: the module it lives in and its fitted attributes."""

    home: str
    fields: tuple[Field, ...]


# Attributes that tell the length of an axis. An axis without one, N, is as long as in the first array that has it.
_AXIS_TOLD_BY = {"n_clusters_": "K", "n_features_in_": "D", "n_subclusters_": "U"}

# First in every model, so that K and D are known before the arrays are looked at.
_EVERY_MODEL = (
    Field("n_features_in_", "int"),
    Field("feature_names_in_", "strings", "D", is_required=False),
    Field("n_clusters_", "int"),
)

_EVERY_MIXTURE = (
    Field("labels_", "int32", "N"),
    Field("weights_", "float64", "C"),
    Field("log_likelihood_", "float"),
    Field("n_iter_", "int"),
    Field("converged_", "bool"),
)

MODELS: dict[str, ModelSchema] = {
    "SphericalKMeans": ModelSchema(
        home="armillary.models.spherical_kmeans",
        fields=(
            *_EVERY_MODEL,
            Field("labels_", "int32", "N"),
            Field("cluster_centers_", "float64", "KD"),
            Field("counts_", "float64", "K"),
            Field("resultants_", "float64", "KD"),
            Field("inertia_", "float"),
            Field("objective_", "float"),
            Field("n_iter_", "int"),
            Field("n_steps_", "int"),
        ),
    ),
    "DPvMFMeans": ModelSchema(
        home="armillary.models.dp_vmf_means",
        fields=(
            *_EVERY_MODEL,
            Field("labels_", "int32", "N"),
            Field("cluster_centers_", "float64", "KD"),
            Field("counts_", "float64", "K"),
            Field("resultants_", "float64", "KD"),
            Field("objective_", "float"),
            Field("lambda_", "float"),
            Field("n_outside_", "int"),
            Field("n_iter_", "int"),
            Field("n_steps_", "int"),
        ),
    ),
    "VonMisesFisherMixture": ModelSchema(
        home="armillary.models.vmf_mixture",
        fields=(
            *_EVERY_MODEL,
            *_EVERY_MIXTURE,
            Field("means_", "float64", "CD"),
            Field("concentrations_", "float64", "C"),
        ),
    ),
    "BayesianVonMisesFisherMixture": ModelSchema(
        home="armillary.models.bayesian_vmf_mixture",
        fields=(
            *_EVERY_MODEL,
            Field("labels_", "int32", "N"),
            Field("weights_", "float64", "C"),
            Field("means_", "float64", "CD"),
            Field("concentrations_", "float64", "C"),
            Field("concentration_deviations_", "float64", "C"),
            Field("log_concentrations_", "float64", "C"),
            Field("log_concentration_variances_", "float64", "C"),
            Field("posterior_concentrations_", "float64", "C"),
            Field("weight_concentration_", "float"),
            Field("mean_direction_", "float64", "D"),
            Field("mean_concentration_", "float"),
            Field("log_concentration_mean_", "float"),
            Field("log_concentration_variance_", "float"),
            Field("counts_", "float64", "C"),
            Field("resultants_", "float64", "CD"),
            Field("expected_log_h_", "float64", "C"),
            Field("direction_coefficients_", "float64", "C2"),
            Field("natural_coefficients_", "float64", "C2"),
            Field("nodes_", "float64", "GC"),
            Field("node_weights_", "float64", "GC"),
            Field("node_pulls_", "float64", "GC"),
            Field("n_iter_", "int"),
            Field("converged_", "bool"),
            Field("n_steps_", "int", is_required=False),
            Field("rows_seen_", "float", is_required=False),
            Field("seed_", "int", is_required=False),
            Field("lower_bound_", "float", is_required=False),
            Field("lower_bounds_", "float64", "I", is_required=False),
            Field("sample_labels_", "int32", "SN", is_required=False),
            Field("sample_concentrations_", "float64", "SC", is_required=False),
            Field("sample_counts_", "float64", "SC", is_required=False),
            Field("sample_resultants_", "float64", "SCD", is_required=False),
            Field("log_joint_", "float64", "J", is_required=False),
            Field("partition_", "int32", "N", is_required=False),
            Field("partition_draw_", "int", is_required=False),
        ),
    ),
    "HierarchicalVonMisesFisherMixture": ModelSchema(
        home="armillary.models.hierarchical_vmf_mixture",
        fields=(
            *_EVERY_MODEL,
            Field("labels_", "int32", "N"),
            Field("parents_", "int64", "V"),
            Field("weights_", "float64", "C"),
            Field("means_", "float64", "CD"),
            Field("concentrations_", "float64", "C"),
            Field("concentration_deviations_", "float64", "C"),
            Field("log_concentrations_", "float64", "C"),
            Field("log_concentration_variances_", "float64", "C"),
            Field("posterior_concentrations_", "float64", "C"),
            Field("inner_means_", "float64", "MD"),
            Field("inner_concentrations_", "float64", "M"),
            Field("inner_concentration_deviations_", "float64", "M"),
            Field("inner_posterior_concentrations_", "float64", "M"),
            Field("weight_concentration_", "float"),
            Field("mean_direction_", "float64", "D"),
            Field("mean_concentration_", "float"),
            Field("log_concentration_mean_", "float"),
            Field("log_concentration_variance_", "float"),
            Field("inner_log_concentration_mean_", "float"),
            Field("inner_log_concentration_variance_", "float"),
            Field("counts_", "float64", "C"),
            Field("resultants_", "float64", "CD"),
            Field("prior_directions_", "float64", "CD"),
            Field("prior_concentrations_", "float64", "C"),
            Field("expected_log_h_", "float64", "C"),
            Field("natural_coefficients_", "float64", "C2"),
            Field("grid_concentrations_", "float64", "GC"),
            Field("grid_weights_", "float64", "GC"),
            Field("grid_pulls_", "float64", "GC"),
            Field("lower_bound_", "float"),
            Field("lower_bounds_", "float64", "I"),
            Field("n_iter_", "int"),
            Field("converged_", "bool"),
        ),
    ),
    "TemporalVonMisesFisherMixture": ModelSchema(
        home="armillary.models.temporal_vmf_mixture",
        fields=(
            *_EVERY_MODEL,
            Field("times_", TIMES, "T"),
            Field("labels_", "int32", "N"),
            Field("means_", "float64", "TCD"),
            Field("mean_concentrations_", "float64", "TC"),
            Field("concentrations_", "float64", "C"),
            Field("concentration_deviations_", "float64", "C"),
            Field("log_concentrations_", "float64", "C"),
            Field("log_concentration_variances_", "float64", "C"),
            Field("expected_log_h_", "float64", "C"),
            Field("nodes_", "float64", "GC"),
            Field("node_weights_", "float64", "GC"),
            Field("weights_", "float64", "C"),
            Field("slice_weights_", "float64", "TC"),
            Field("expected_log_weights_", "float64", "TC"),
            Field("counts_", "float64", "TC"),
            Field("total_counts_", "float64", "C"),
            Field("projections_", "float64", "C"),
            Field("weight_concentration_", "float"),
            Field("mean_direction_", "float64", "D"),
            Field("mean_concentration_", "float"),
            Field("log_concentration_mean_", "float"),
            Field("log_concentration_variance_", "float"),
            Field("drift_concentration_", "float"),
            Field("drift_angle_", "float"),
            Field("lower_bound_", "float"),
            Field("lower_bounds_", "float64", "I"),
            Field("n_iter_", "int"),
            Field("converged_", "bool"),
            Field("n_slices_", "int"),
            Field("seed_", "int"),
        ),
    ),
    "SoftKMeans": ModelSchema(
        home="armillary.models.soft_kmeans",
        fields=(*_EVERY_MODEL, *_EVERY_MIXTURE, Field("means_", "float64", "CD"), Field("variance_", "float")),
    ),
    "MultinomialMixture": ModelSchema(
        home="armillary.models.multinomial_mixture",
        fields=(*_EVERY_MODEL, *_EVERY_MIXTURE, Field("feature_probabilities_", "float64", "CD")),
    ),
    "Links": ModelSchema(
        home="armillary.models.links",
        fields=(
            *_EVERY_MODEL,
            Field("labels_", "int64", "N"),
            Field("nodes_", "int64", "N"),
            Field("n_subclusters_", "int"),
            Field("n_vectors_", "int"),
            Field("next_id_", "int"),
            Field("next_subcluster_", "int"),
            Field("resultants_", "float64", "UD"),
            Field("counts_", "float64", "U"),
            Field("subcluster_numbers_", "int64", "U"),
            Field("subcluster_ids_", "int64", "U"),
            Field("subcluster_parents_", "int64", "U"),
            Field("is_pinned_", "bool", "U"),
            Field("last_seen_", "int64", "U"),
            Field("history_", "int64", "E4"),
            Field("joins_", "int64", "H2"),
            Field("apart_", "int64", "P2"),
            Field("named_ids_", "int64", "L"),
            Field("names_", "strings", "L"),
        ),
    ),
    "DirichletProcessMixture": ModelSchema(
        home="armillary.models.dirichlet_process_mixture",
        fields=(
            *_EVERY_MODEL,
            Field("labels_", "int32", "N"),
            Field("weights_", "float64", "K"),
            Field("means_", "float64", "KD"),
            Field("covariances_", "float64", "KDD", is_required=False),
            Field("concentrations_", "float64", "K", is_required=False),
            Field("trace_", "float64", "RI3"),
            Field("packed_draws_", "uint8", "B"),
            Field("draw_ends_", "int64", "S"),
            Field("partition_draw_", "int"),
            Field("expected_loss_", "float"),
            Field("spread_", "float"),
            Field("degrees_of_freedom_", "float"),
            Field("weight_concentration_", "float"),
            Field("n_discarded_", "int"),
            Field("chain_labels_", "int32", "RN"),
            Field("chain_pivots_", "float64", "QD"),
            Field("chain_alphas_", "float64", "R"),
            Field("chain_sides_", "bool", "RN", is_required=False),
            Field("chain_ages_", "int64", "A", is_required=False),
            Field("chain_half_pivots_", "float64", "FD", is_required=False),
            Field("seed_", "int"),
        ),
    ),
    "DDPvMFMeans": ModelSchema(
        home="armillary.models.ddp_vmf_means",
        fields=(
            *_EVERY_MODEL,
            Field("labels_", "int64", "N"),
            Field("cluster_ids_", "int64", "T"),
            Field("memory_directions_", "float64", "TD"),
            Field("memory_weights_", "float64", "T"),
            Field("steps_unseen_", "int64", "T"),
            Field("next_id_", "int"),
            Field("history_", "int64", "E3"),
            Field("objective_", "float"),
            Field("lambda_", "float"),
            Field("n_iter_", "int"),
            Field("n_steps_", "int"),
        ),
    ),
}


def class_named(name: str) -> type[Any]:
    """The class behind a key of `MODELS`. Only modules named in that table are imported, never one from a file."""
    found: type[Any] = getattr(importlib.import_module(MODELS[name].home), name)
    return found


def defaults_of(model_class: type[Any]) -> Mapping[str, Any]:
    """The parameters of a class and their defaults; `inspect.Parameter.empty` where there is none."""
    known = _DEFAULTS.get(model_class)
    if known is None:
        parameters = inspect.signature(model_class).parameters.items()
        known = _DEFAULTS[model_class] = {name: parameter.default for name, parameter in parameters}
    return known


_DEFAULTS: dict[type[Any], Mapping[str, Any]] = {}  # to ask a signature takes a third of the time to load a small model


# ------------------------------------------------------------------------------------------- fitted attributes


def fitted_attributes(model: object) -> dict[str, Any]:
    """The fitted attributes of a model as plain values: Python numbers, lists of strings, arrays."""
    names = (name for name in vars(model) if name.endswith("_") and not name.startswith("_"))
    return {name: _plain(getattr(model, name)) for name in names}


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray) and value.dtype == object:
        return value.tolist()
    return value


def check_fields(model: str, values: Mapping[str, Any], place: str, way_out: str) -> None:
    """Refuse values that are not the fitted attributes of a model: unknown, missing, or of a wrong kind or shape.

    `place` says where they were found: a file, or "this model".
    """
    fields = {field.name: field for field in MODELS[model].fields}
    for name in values:
        if name not in fields:
            raise ArchiveError(f"`{name}` is no fitted attribute of {model}; {place} has one. {way_out}")
    lengths = {digit: int(digit) for digit in "123456789"}
    for name, field in fields.items():
        if name not in values:
            if field.is_required:
                raise ArchiveError(f"A fitted {model} must have `{name}`; {place} has none. {way_out}")
            continue
        value = values[name]
        # a list is flat, or it is none of ours: NumPy would look for a shape in whatever it holds
        shape = (len(value),) if isinstance(value, list) else getattr(value, "shape", ())
        for axis, length in zip(field.shape, shape, strict=False):
            lengths.setdefault(axis, length)
        if not _is_plainly(value, field, lengths):
            rule, got = _rule(field, lengths), _described(value, is_times=field.kind == TIMES)
            if got != rule:
                raise ArchiveError(f"`{name}` of {model} must be {rule}; {place} has {got}. {way_out}")
        if name in _AXIS_TOLD_BY:
            lengths[_AXIS_TOLD_BY[name]] = value


def _is_plainly(value: Any, field: Field, lengths: Mapping[str, int]) -> bool:
    """Whether a value is what a field must be, where that is seen at once: words for all would double a small load."""
    if isinstance(value, np.ndarray):
        return value.dtype == _PLAIN.get(field.kind) and value.shape == tuple(lengths.get(axis) for axis in field.shape)
    return not field.shape and type(value).__name__ == field.kind


def _rule(field: Field, lengths: Mapping[str, int]) -> str:
    """What a field must be, in words."""
    if not field.shape:
        return f"one {field.kind}"
    return f"{field.kind} of shape {tuple(lengths.get(axis, axis) for axis in field.shape)}"


def _described(value: Any, *, is_times: bool = False) -> str:
    """What a value is, in the words of `_rule`."""
    if isinstance(value, np.ndarray):
        is_time = is_times and (value.dtype.kind == "M" or value.dtype in (np.int64, np.float64))
        return f"{TIMES if is_time else value.dtype.name} of shape {value.shape}"
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return f"{TIMES if is_times else 'strings'} of shape {(len(value),)}"
    return f"one {type(value).__name__}"


# -------------------------------------------------------------------------------------------------- parameters


def to_json(value: Any, path: str, tensors: dict[str, Array]) -> Json:
    """A parameter's value as JSON that `from_json` turns back; its arrays go into `tensors` under `path`.

    None, bool, int, finite float, str and list stand for themselves. JSON has no word for the others, so each is an
    object with one key: {"float": "inf"}, {"tuple": [...]}, {"dict": [[key, value], ...]}, {"tensor": "params/init"},
    {"dates": ["times_", "D"]} for a tensor of dates counted in a unit of NumPy's.

    TypeError, with the name of the type, where a value has no place in a file.
    """
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"float": repr(value)}
    if isinstance(value, list | tuple):
        items = _listed(value, path, tensors)
        return items if isinstance(value, list) else {"tuple": items}
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {"dict": [[key, item] for key, item in zip(value, _listed(value.values(), path, tensors), strict=True)]}
    # not a masked array: its mask would be lost without a word
    if type(value) in (np.ndarray, np.memmap) and value.dtype.name in _TENSOR_DTYPES:
        tensors[path] = value
        return {"tensor": path}
    if type(value) is np.ndarray and value.dtype.kind == "M" and value.dtype.isnative:
        unit, count = np.datetime_data(value.dtype)
        tensors[path] = value.astype(np.int64)
        return {"dates": [path, unit if count == 1 else f"{count}{unit}"]}
    raise TypeError(type(value).__name__)


def _listed(values: Iterable[Any], path: str, tensors: dict[str, Array]) -> list[Json]:
    if path.count("/") > _DEEPEST:
        raise TypeError(f"list in lists, more than {_DEEPEST} deep")
    # tensors are numbered, so that no two inside a parameter can have the same name
    return [to_json(value, f"{path}/{position}", tensors) for position, value in enumerate(values)]


def from_json(value: Any, tensors: dict[str, Array], depth: int = 0) -> Any:
    """The inverse of `to_json`; takes the arrays it needs out of `tensors`.

    AttributeError, LookupError, TypeError or ValueError where `value` is not something that `to_json` writes.
    """
    if isinstance(value, list):
        return [from_json(item, tensors, _deeper(depth)) for item in value]
    if not isinstance(value, dict):
        return value
    ((tag, content),) = value.items()
    match tag:
        case "float":
            return float(content)
        case "tuple":
            return tuple(from_json(item, tensors, _deeper(depth)) for item in content)
        case "dict":
            return {key: from_json(item, tensors, _deeper(depth)) for key, item in content}
        case "tensor":
            return tensors.pop(content)
        case "dates":
            path, unit = content
            if not _UNIT_OF_DATES.fullmatch(unit):
                raise ValueError(unit)
            return tensors.pop(path).astype(f"datetime64[{unit}]")
    raise ValueError(tag)


def _deeper(depth: int) -> int:
    if depth > _DEEPEST:
        raise ValueError(f"more than {_DEEPEST} deep")
    return depth + 1
