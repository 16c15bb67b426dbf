"""What a saved model is: which attributes each class has, and how values are written.

A model is the parameters of its constructor, its fitted attributes (the public names that end in "_") and, where its
next step or a prediction needs more than users read, its saved state: one record, `_saved_state`, of the class's
`_state_kind`. Other private attributes are not saved. A later model is one more row of `MODELS`.

Version 2 is a safetensors file whose metadata has one entry, "armillary", with this JSON object:

    format             "armillary.model"
    schema_version     2
    armillary_version  of the writer; only messages use it
    class              a key of `MODELS`
    params             name -> value, as `to_json` writes it
    fields             name -> value of each fitted attribute, likewise
    state              name -> value of each field of the saved state, likewise
    sha256             of everything above and all tensors

A fitted array is a tensor under its own name; an array in a parameter is a tensor named "params/...", one of
the saved state "state/...". Version 1 has no state, and other names for some parameters and classes (`renamed`).
"""

from __future__ import annotations

import importlib
import inspect
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from armillary.exceptions import ArchiveError

FORMAT = "armillary.model"
SCHEMA_VERSION = 2
# Versions that `load` reads: `renamed` brings earlier ones up to date.
READABLE = (1, 2)

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
_DIGITS = {digit: int(digit) for digit in "123456789"}  # axes of a stated length
_PLAIN = {name: np.dtype(name) for name in _TENSOR_DTYPES}
_TENSORS = frozenset(_PLAIN.values()) | {dtype.newbyteorder() for dtype in _PLAIN.values()}  # in either byte order

# The kind of an array of int64, float64, datetime64 or strings: whatever can be put in order of time.
TIMES = "times"

# The one attribute with a number for each row of the fit, and models that hold others against it: draws of labels, or
# the clusters of the last step.
LABELS = "labels_"
NEED_LABELS = frozenset({"AutoClusterer", "DDPvMFMeans", "DirichletProcessMixture", "GibbsVonMisesFisherMixture"})


@dataclass(frozen=True, slots=True)
class Field:
    """One fitted attribute, or one field of a saved state."""

    name: str
    kind: str  # "int", "float", "bool", "str", "strings", `TIMES`, or the dtype of an array, e.g. "float64"
    # One letter per axis: K clusters, D features, N rows, C components, G nodes, S draws, T tracks, E events, V nodes
    # of a tree of which M are inner, U sub-clusters, H merges of these, P pairs, L names, R chains, Q pivots, F
    # those of A pairs of halves, B bytes, and I or J steps; a digit is a length.
    shape: str = ""
    is_required: bool = True


@dataclass(frozen=True, slots=True)
class ModelSchema:
    """One class: the module it lives in, its fitted attributes, and the fields of its saved state."""

    home: str
    fields: tuple[Field, ...]
    state: tuple[Field, ...] = ()


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

# Of a Bayesian mixture with one law for each component, and its laws (models/vmf/_component_mixture.py).
_COMPONENTS = (
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
    Field("n_iter_", "int"),
    Field("converged_", "bool"),
)
_LAWS = (
    Field("expected_log_h", "float64", "C"),
    Field("direction_coefficients", "float64", "C2"),
    Field("natural_coefficients", "float64", "C2"),
    Field("nodes", "float64", "GC"),
    Field("node_weights", "float64", "GC"),
    Field("node_pulls", "float64", "GC"),
)

MODELS: dict[str, ModelSchema] = {
    "SphericalKMeans": ModelSchema(
        home="armillary.models.means.spherical_kmeans",
        fields=(
            *_EVERY_MODEL,
            Field("labels_", "int32", "N"),
            Field("cluster_centers_", "float64", "KD"),
            Field("counts_", "float64", "K"),
            Field("resultants_", "float64", "KD"),
            Field("offsets_", "float64", "K", is_required=False),  # not in files from before `balance`
            Field("inertia_", "float"),
            Field("objective_", "float"),
            Field("free_objective_", "float", is_required=False),  # these two of balanced clusters alone
            Field("free_largest_", "int", is_required=False),
            Field("n_iter_", "int"),
            Field("n_steps_", "int"),
        ),
    ),
    "HierarchicalSphericalKMeans": ModelSchema(
        home="armillary.models.means.hierarchical_spherical_kmeans",
        fields=(
            *_EVERY_MODEL,
            Field("labels_", "int32", "N"),
            Field("cluster_centers_", "float64", "KD"),
            Field("counts_", "float64", "K"),
            Field("inner_centers_", "float64", "MD"),
            Field("level_sizes_", "int64", "I"),
            Field("parents_", "int64", "V"),
            Field("inertia_", "float"),
            Field("objective_", "float"),
            Field("n_iter_", "int"),
        ),
    ),
    "AutoClusterer": ModelSchema(
        home="armillary.selection.auto_clusterer",
        fields=(
            *_EVERY_MODEL,
            Field("labels_", "int32", "N"),
            Field("membership_", "float64", "N"),
            Field("cluster_ids_", "int64", "K"),
            Field("cluster_centers_", "float64", "KD"),
            Field("is_clear_", "bool"),
            Field("clarity_", "float"),
            Field("k_range_", "int64", "2"),
            Field("reason_", "str"),
        ),
        state=(
            Field("directions", "float64", "CD"),
            Field("pieces", "float64", "VD"),
            Field("parents", "int32", "V"),
            Field("names", "int32", "V"),
            Field("coarse", "int32", "C"),
            Field("children", "int64", "M2"),
            Field("heights", "float64", "M"),
            Field("shapes", "float64", "C"),
            Field("scales", "float64", "C"),
            Field("limits", "float64", "C"),
            Field("leaves", "int32", "N"),
            Field("idf", "float64", "D", is_required=False),
        ),
    ),
    "DPvMFMeans": ModelSchema(
        home="armillary.models.means.dp_vmf_means",
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
        home="armillary.models.vmf.vmf_mixture",
        fields=(
            *_EVERY_MODEL,
            *_EVERY_MIXTURE,
            Field("means_", "float64", "CD"),
            Field("concentrations_", "float64", "C"),
        ),
    ),
    "BayesianVonMisesFisherMixture": ModelSchema(
        home="armillary.models.vmf.bayesian_vmf_mixture",
        fields=(
            *_EVERY_MODEL,
            *_COMPONENTS,
            Field("n_steps_", "int"),
            Field("lower_bound_", "float"),
            Field("lower_bounds_", "float64", "I"),
        ),
        state=(*_LAWS, Field("rows_seen", "float"), Field("seed", "int")),
    ),
    "GibbsVonMisesFisherMixture": ModelSchema(
        home="armillary.models.vmf.gibbs_vmf_mixture",
        fields=(
            *_EVERY_MODEL,
            *_COMPONENTS,
            Field("sample_labels_", "int32", "SN"),
            Field("sample_concentrations_", "float64", "SC"),
            Field("sample_counts_", "float64", "SC"),
            Field("sample_resultants_", "float64", "SCD"),
            Field("log_joint_", "float64", "J"),
            Field("partition_", "int32", "N"),
            Field("partition_draw_", "int"),
        ),
        state=_LAWS,
    ),
    "HierarchicalVonMisesFisherMixture": ModelSchema(
        home="armillary.models.vmf.hierarchical_vmf_mixture",
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
            Field("lower_bound_", "float"),
            Field("lower_bounds_", "float64", "I"),
            Field("n_iter_", "int"),
            Field("converged_", "bool"),
        ),
        state=(
            Field("prior_directions", "float64", "CD"),
            Field("prior_concentrations", "float64", "C"),
            Field("expected_log_h", "float64", "C"),
            Field("natural_coefficients", "float64", "C2"),
            Field("grid_concentrations", "float64", "GC"),
            Field("grid_weights", "float64", "GC"),
            Field("grid_pulls", "float64", "GC"),
        ),
    ),
    "TemporalVonMisesFisherMixture": ModelSchema(
        home="armillary.models.vmf.temporal_vmf_mixture",
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
            Field("weights_", "float64", "C"),
            Field("slice_weights_", "float64", "TC"),
            Field("counts_", "float64", "TC"),
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
        ),
        state=(
            Field("expected_log_h", "float64", "C"),
            Field("expected_log_weights", "float64", "TC"),
            Field("nodes", "float64", "GC"),
            Field("node_weights", "float64", "GC"),
            Field("total_counts", "float64", "C"),
            Field("projections", "float64", "C"),
            Field("seed", "int"),
        ),
    ),
    "SoftKMeans": ModelSchema(
        home="armillary.models.means.soft_kmeans",
        fields=(*_EVERY_MODEL, *_EVERY_MIXTURE, Field("means_", "float64", "CD"), Field("variance_", "float")),
    ),
    "MultinomialMixture": ModelSchema(
        home="armillary.models.vmf.multinomial_mixture",
        fields=(*_EVERY_MODEL, *_EVERY_MIXTURE, Field("feature_probabilities_", "float64", "CD")),
    ),
    "Links": ModelSchema(
        home="armillary.models.links.links",
        fields=(
            *_EVERY_MODEL,
            Field("labels_", "int64", "N"),
            Field("nodes_", "int64", "N"),
            Field("n_subclusters_", "int"),
            Field("n_vectors_", "int"),
            Field("next_id_", "int"),
            Field("resultants_", "float64", "UD"),
            Field("counts_", "float64", "U"),
            Field("subcluster_ids_", "int64", "U"),
            Field("subcluster_parents_", "int64", "U"),
            Field("history_", "int64", "E4"),
        ),
        state=(
            Field("next_subcluster", "int"),
            Field("subcluster_numbers", "int64", "U"),
            Field("is_pinned", "bool", "U"),
            Field("last_seen", "int64", "U"),
            Field("joins", "int64", "H2"),
            Field("apart", "int64", "P2"),
            Field("named_ids", "int64", "L"),
            Field("names", "strings", "L"),
        ),
    ),
    "DirichletProcessMixture": ModelSchema(
        home="armillary.models.dirichlet_process.dirichlet_process_mixture",
        fields=(
            *_EVERY_MODEL,
            Field("labels_", "int32", "N"),
            Field("weights_", "float64", "K"),
            Field("means_", "float64", "KD"),
            Field("covariances_", "float64", "KDD", is_required=False),
            Field("concentrations_", "float64", "K", is_required=False),
            Field("trace_", "float64", "RI3"),
            Field("partition_draw_", "int"),
            Field("expected_loss_", "float"),
            Field("spread_", "float"),
            Field("degrees_of_freedom_", "float"),
            Field("weight_concentration_", "float"),
            Field("n_discarded_", "int"),
        ),
        state=(
            Field("packed_draws", "uint8", "B"),
            Field("draw_ends", "int64", "S"),
            Field("chain_labels", "int32", "RN"),
            Field("chain_pivots", "float64", "QD"),
            Field("chain_alphas", "float64", "R"),
            Field("chain_sides", "bool", "RN", is_required=False),
            Field("chain_ages", "int64", "A", is_required=False),
            Field("chain_half_pivots", "float64", "FD", is_required=False),
            Field("seed", "int"),
        ),
    ),
    "DDPvMFMeans": ModelSchema(
        home="armillary.models.means.ddp_vmf_means",
        fields=(
            *_EVERY_MODEL,
            Field("labels_", "int64", "N"),
            Field("cluster_ids_", "int64", "T"),
            Field("cluster_centers_", "float64", "TD"),
            Field("memory_weights_", "float64", "T"),
            Field("steps_unseen_", "int64", "T"),
            Field("next_id_", "int"),
            Field("history_", "int64", "E3"),
            Field("merges_", "int64", "H3", is_required=False),  # not in files from before `merge_angle`
            Field("objective_", "float"),
            Field("lambda_", "float"),
            Field("n_iter_", "int"),
            Field("n_steps_", "int"),
        ),
        state=(Field("near_pairs", "int64", "P3", is_required=False),),
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


def saved_state(model: Any) -> dict[str, Any]:
    """The saved state of a model as plain values; fields without one (None) are left out."""
    state = getattr(model, "_saved_state", None)
    if state is None:
        return {}
    return {name: _plain(value) for name, value in vars(state).items() if value is not None}


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray) and value.dtype == object:
        return value.tolist()
    return value


def check_fields(
    model: str,
    values: Mapping[str, Any],
    state: Mapping[str, Any],
    place: str,
    way_out: str,
    *,
    has_labels: bool = True,
) -> None:
    """Refuse values that are not the fitted attributes and saved state of a model: unknown, missing, of a wrong kind.

    `place` says where they were found: a file, or "this model". Without labels, `labels_` is not among them.
    """
    lengths = dict(_DIGITS)
    own, kept = _by_name(model)
    for fields, given, what in ((own, values, "fitted attribute"), (kept, state, "part of the saved state")):
        for name in given:
            if name not in fields:
                raise ArchiveError(f"`{name}` is no {what} of {model}; {place} has one. {way_out}")
        for name, field in fields.items():
            if name in given:
                _check_field(model, field, given[name], lengths, place, way_out)
            elif field.is_required and (has_labels or name != LABELS):
                raise ArchiveError(f"A fitted {model} must have `{name}`; {place} has none. {way_out}")


@cache
def _by_name(model: str) -> tuple[dict[str, Field], dict[str, Field]]:
    """Fitted attributes and the saved state of a model, by name."""
    return {one.name: one for one in MODELS[model].fields}, {one.name: one for one in MODELS[model].state}


def _check_field(model: str, field: Field, value: Any, lengths: dict[str, int], place: str, way_out: str) -> None:
    """Refuse a value of another kind or shape; axes that it is the first to have are noted in `lengths`."""
    if field.shape:
        # a list is flat, or it is none of ours: NumPy would look for a shape in whatever it holds
        shape = (len(value),) if isinstance(value, list) else getattr(value, "shape", ())
        for axis, length in zip(field.shape, shape, strict=False):
            lengths.setdefault(axis, length)
    if not _is_plainly(value, field, lengths):
        rule, got = _rule(field, lengths), _described(value, is_times=field.kind == TIMES)
        if got != rule:
            raise ArchiveError(f"`{field.name}` of {model} must be {rule}; {place} has {got}. {way_out}")
    if field.name in _AXIS_TOLD_BY:
        lengths[_AXIS_TOLD_BY[field.name]] = value


def _is_plainly(value: Any, field: Field, lengths: Mapping[str, int]) -> bool:
    """Whether a value is what a field must be, where that is seen at once: words for all would double a small load."""
    if not field.shape:
        return type(value).__name__ == field.kind
    return (
        isinstance(value, np.ndarray)
        and value.dtype == _PLAIN.get(field.kind)
        and value.shape == tuple([lengths.get(axis) for axis in field.shape])
    )


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
    if type(value) in (np.ndarray, np.memmap) and value.dtype in _TENSORS:
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
