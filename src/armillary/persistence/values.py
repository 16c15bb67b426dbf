"""What the values of fitted attributes must be: the part of a saved model's schema that kinds and shapes do not say.

A digest tells damage from what was saved, and nothing about who saved it. So a file that says of itself that it is
whole is looked at as an input is: every number that is used as an index lies in its range, graphs are forests, laws
integrate to one, covariances have a root, and fields that speak of the same thing agree. What passes can be used
without further looks; what does not is refused with a sentence. The same look is taken when a model is saved.

A name means the same in every class, so most rules are told once (`_EVERYWHERE`); a class tells those that differ, and
what several of its fields must be together. Fields without a rule are finite where they are floats, and from 0 to 2^62
where they are ints. Each look is a pass or two over an array, with memory for one number per row of it at most, but for
the roots of covariances, which `predict` takes too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np

from armillary.distributions.direction_trees import Tree
from armillary.distributions.log_concentration import HIGHEST, LOWEST
from armillary.engines.links import Fate
from armillary.exceptions import ArchiveError, InputError
from armillary.fitting.kept_draws import are_packed_draws
from armillary.geometry import sphere
from armillary.models.estimator import flags_missing
from armillary.models.mixture import EMPTY
from armillary.persistence.schema import MODELS, Array

# Parameters, fitted attributes and the saved state, by name; that of a field of the state ends in "_" here too, so that
# none is mistaken for a parameter.
Facts: TypeAlias = Mapping[str, Any]

# Directions are unit to float64 when they are made, and sums of a million rounded terms still are to this.
_UNIT = 1e-9
# Rows count as unit within 2e-6 (validation.UNIT_TOLERANCE), so a resultant may be longer than its rows' weight.
_LONGER = 1.0 + 1e-5
# Counts add up to the whole but for the rounding of sums of millions of rows.
_ADDS_UP = 1e-6
# What is left of sums that cancel, relative to all that was summed.
_ROUNDING = 1e-9
# Ids, steps and seeds are held in 64 bits, and counted on from where they are.
_MOST = 1 << 62
# A column number must fit into the 32 bits that CSR rows have for it.
_MOST_FEATURES = (1 << 31) - 1
# Nodes of broad log-normal laws reach 1e64; squares of what is below this bound are finite.
_LARGE = 1e120


@dataclass(frozen=True, slots=True)
class Rule:
    """What one value must be, in words that follow "must be", and whether it is."""

    words: str
    holds: Callable[[Any, Facts], bool]


@dataclass(frozen=True, slots=True)
class Bond:
    """What several values must be together, in words that follow "must have", and whether they are."""

    words: str
    holds: Callable[[Facts], bool]


def check_values(model: str, params: Facts, fields: Facts, state: Facts, place: str, way_out: str) -> None:
    """Refuse fitted attributes and saved states of the right kinds and shapes whose values no fit can have left.

    `place` says where they were found: a file, or "this model".
    """
    facts = {**params, **fields, **{f"{name}_": value for name, value in state.items()}}
    for field, name, rule in _rules(model):
        if name not in facts:
            continue
        value = facts[name]
        if not rule.holds(value, facts):
            got = f"has {value!r}" if np.ndim(value) == 0 else "has other values there"
            raise ArchiveError(f"`{field}` of {model} must be {rule.words}; {place} {got}. {way_out}")
    for bond in _TOGETHER.get(model, ()):
        if not bond.holds(facts):
            raise ArchiveError(f"A fitted {model} must have {bond.words}; {place} does not. {way_out}")


@cache
def _rules(model: str) -> tuple[tuple[str, str, Rule], ...]:
    """Of each field that has a rule: its name, its name among the facts, and the rule."""
    rules = {**_EVERYWHERE, **_OWN.get(model, {})}
    known = [(field, field.name) for field in MODELS[model].fields]
    known += [(field, f"{field.name}_") for field in MODELS[model].state]
    found = ((field.name, name, rules.get(name) or _BY_KIND.get(field.kind)) for field, name in known)
    return tuple((field, name, rule) for field, name, rule in found if rule is not None)


# --------------------------------------------------------------------------------------------------------- numbers


def _lies_between(value: Any, low: float, high: float) -> bool:
    # min and max pass NaN on, and it compares as False
    if not isinstance(value, np.ndarray):
        return low <= value <= high
    return value.size == 0 or bool(low <= value.min() and value.max() <= high)


def _between(low: float, high: float, words: str = "") -> Rule:
    return Rule(words or f"in [{low:g}, {high:g}]", lambda value, _: _lies_between(value, low, high))


def _count(facts: Facts, name: str) -> int:
    """A number of things: told by itself, or by the length of an array."""
    return int(facts[name]) if np.ndim(facts[name]) == 0 else len(facts[name])


def _numbers_of(name: str, low: int = 0) -> Rule:
    """Places in an array, or ids below the next one."""
    what = f"the next one in `{name}`" if name.startswith("next") else f"the length of `{name}`"
    return Rule(
        f"whole numbers from {low} to below {what}",
        lambda value, facts: _lies_between(value, low, _count(facts, name) - 1),
    )


def _labels_of(name: str) -> Rule:
    """Places in an array of clusters, and -1 in models that flag rows without a direction."""
    return Rule(
        f"whole numbers from 0 to below the length of `{name}`",
        lambda value, facts: _lies_between(
            value, -1 if flags_missing(facts.get("missing")) else 0, _count(facts, name) - 1
        ),
    )


_FINITE = _between(-np.finfo(np.float64).max, np.finfo(np.float64).max, "finite")
_NOT_NEGATIVE = _between(0.0, np.finfo(np.float64).max, "finite and not negative")
_POSITIVE = _between(np.nextafter(0.0, 1.0), np.finfo(np.float64).max, "finite and above 0")
_SCALE = _between(0.0, _LARGE)
_POSITIVE_SCALE = _between(np.nextafter(0.0, 1.0), _LARGE, f"above 0 and at most {_LARGE:g}")
_COUNTER = _between(0, _MOST, "from 0 to 2^62")
_AT_LEAST_ONE = _between(1, _MOST, "from 1 to 2^62")
_PRICE = _between(-2.0, 0.0)
_LOG_SCALE = _between(LOWEST - 1.0, HIGHEST + 1.0)
_NOT_ABOVE_ZERO = _between(-np.finfo(np.float64).max, 1e-9, "finite and not above 0")

_BY_KIND = {"int": _COUNTER, "float": _FINITE, "float64": _FINITE}


# ---------------------------------------------------------------------------------------------------- laws and rows


def _squares(value: Array) -> Array:
    with np.errstate(over="ignore", invalid="ignore"):
        return np.asarray(np.vecdot(value, value))


def _long_lengths(value: Array) -> Array:
    """Of rows whose squares overflow: they are scaled first."""
    largest = np.abs(value).max(axis=-1, initial=0.0)
    factors = np.where((largest > 0.0) & np.isfinite(largest), largest, 1.0)
    with np.errstate(over="ignore", invalid="ignore"):
        return np.asarray(np.sqrt(_squares(value / factors[..., None])) * factors)


def _adds_up(value: Array, axis: int, tolerance: float = _ADDS_UP) -> bool:
    return _lies_between(value, 0.0, 1.0 + tolerance) and _lies_between(
        value.sum(axis=axis), 1.0 - tolerance, 1.0 + tolerance
    )


_UNIT_ROWS = Rule("unit vectors", lambda value, _: _lies_between(_squares(value), 1.0 - 2.0 * _UNIT, 1.0 + 2.0 * _UNIT))
_IN_BALL = Rule("vectors no longer than 1", lambda value, _: _lies_between(_squares(value), 0.0, _LONGER))
_SHARES = Rule("shares that sum to 1", lambda value, _: _adds_up(value, -1))
_NODE_SHARES = Rule("shares that sum to 1 in each column", lambda value, _: _adds_up(value, 0))
_RISING = Rule("strictly increasing", lambda value, _: _is_rising(value))
_DISTINCT = Rule(
    "different from each other and not negative",
    lambda value, _: _lies_between(value, 0, _MOST) and len(np.unique(value)) == len(value),
)


def _is_rising(value: Any) -> bool:
    """NaN, NaT and infinities rise from nothing."""
    if isinstance(value, list):
        return all(one < other for one, other in pairwise(value))
    if value.dtype.kind == "f" and not np.isfinite(value).all():
        return False
    return not (value.dtype.kind == "M" and np.isnat(value).any()) and bool((value[:-1] < value[1:]).all())


def _resultants_of(counts: str) -> Rule:
    return Rule(
        f"sums of unit vectors, none longer than `{counts}`",
        lambda value, facts: _are_sums(value, facts[counts]),
    )


def _are_sums(resultants: Array, counts: Array, least: float = 0.0) -> bool:
    """Whether no sum of unit rows is longer than their weight; what hardly any weight is behind may be rounding.

    `least` is the least square of a length, as compiled code takes it.
    """
    squares = _squares(resultants)
    is_moderate = _lies_between(squares, 0.0, 1e290)
    lengths = np.sqrt(squares) if is_moderate else _long_lengths(resultants)
    slack = _ROUNDING * counts.sum(axis=-1, keepdims=True) + 1e-300
    return bool((lengths <= counts * _LONGER + slack).all()) and _lies_between(squares, least, np.inf)


def _is_resolved(value: Array, facts: Facts) -> bool:
    """Whether covariances are symmetric and have the root that densities and draws are made of."""
    if facts["component"] == "vmf":
        return True  # it has none: said of both together
    if not _lies_between(value, -_LARGE, _LARGE):
        return False
    across = np.swapaxes(value, 1, 2)
    if not (np.abs(value - across) <= 1e-6 * np.abs(value).max(axis=(1, 2), initial=0.0)[:, None, None]).all():
        return False
    if facts["component"] == "tangent_gaussian":
        frames = sphere.tangent_frame(facts["means_"])
        value = np.swapaxes(frames, 1, 2) @ value @ frames
    try:
        roots = np.diagonal(np.linalg.cholesky(value), axis1=1, axis2=2)
        return _lies_between(roots, 1.0 / _LARGE, _LARGE)  # their squares are divided by
    except np.linalg.LinAlgError:
        return False


# ------------------------------------------------------------------------------------------------- graphs and stories


def _is_forest(parents: Array, _: Facts) -> bool:
    """Whether every path of parents ends at -1: each turn of the loop doubles how far it is followed."""
    if not _lies_between(parents, -1, len(parents) - 1):
        return False
    above = np.append(parents, -1)  # the last place is what -1 points to
    for _turn in range(len(parents).bit_length()):
        above = above[above]
    return bool((above == -1).all())


def _is_tree(parents: Array, _: Facts) -> bool:
    try:
        Tree.of(parents)
    except InputError:
        return False
    return True


def _are_events(history: Array, facts: Facts) -> bool:
    """Lines of `Links.history_`: vector, fate, id, other id. Following merges ends."""
    vectors, fates, ids, others = history.T
    is_merge = fates == Fate.MERGE
    return (
        _lies_between(vectors, 0, facts["n_vectors_"])
        and _lies_between(fates, min(Fate), max(Fate))
        and _lies_between(ids, 0, facts["next_id_"] - 1)
        and _lies_between(others, -1, facts["next_id_"] - 1)
        and _ends(ids[is_merge], others[is_merge])
    )


def _ends(gone: Array, kept: Array) -> bool:
    """Whether steps from ids to others, of which the last of each counts, never come back."""
    if bool((kept < gone).all()):  # to older ones alone, as nearly always
        return bool((kept >= 0).all())
    onward = dict(zip(gone.tolist(), kept.tolist(), strict=True))
    done = {-1}
    for start in onward:
        path: dict[int, None] = {}
        number = start
        while number in onward and number not in done:
            if number in path:
                return False
            path[number] = None
            number = onward[number]
        done.update(path)
    return bool((kept >= 0).all())


def _are_lives(history: Array, facts: Facts) -> bool:
    """Lines of `DDPvMFMeans.history_`: step, life, id."""
    steps, lives, ids = history.T
    return (
        _lies_between(steps, 1, facts["n_steps_"])
        and _lies_between(lives, 1, 4)
        and _lies_between(ids, 0, facts["next_id_"] - 1)
    )


def _are_merges(merges: Array, facts: Facts) -> bool:
    """Lines of `DDPvMFMeans.merges_`: step, gone id, kept id. The kept one is older, so that following them ends."""
    steps, gone, kept = merges.T
    return (
        _lies_between(steps, 1, facts["n_steps_"])
        and _lies_between(merges[:, 1:], 0, facts["next_id_"] - 1)
        and bool((kept < gone).all())
    )


def _are_near_pairs(pairs: Array, facts: Facts) -> bool:
    older, younger, steps = pairs.T
    return (
        _lies_between(pairs[:, :2], 0, facts["next_id_"] - 1)
        and bool((older < younger).all())
        and _lies_between(steps, 1, facts["n_steps_"])
    )


def _are_joins(joins: Array, facts: Facts) -> bool:
    # the older one holds the younger, so that following them comes to an end
    return _lies_between(joins, 0, facts["next_subcluster_"] - 1) and bool((joins[:, 1] < joins[:, 0]).all())


def _has_one_id_per_tree(facts: Facts) -> bool:
    parents, ids = facts["subcluster_parents_"], facts["subcluster_ids_"]
    roots = np.sort(ids[parents < 0])
    is_below = parents >= 0
    return (
        len(roots) == facts["n_clusters_"]
        and bool((roots[:-1] < roots[1:]).all())
        and bool((ids[is_below] == ids[parents[is_below]]).all())
    )


def _has_leaves(facts: Facts) -> bool:
    tree = Tree.of(facts["parents_"])
    return len(tree.leaves) == len(facts["weights_"]) and len(tree.inner) == len(facts["inner_concentrations_"])


def _has_levels(facts: Facts) -> bool:
    """Whether every node of a level hangs on one of the level above, and none before that of the node before it."""
    sizes, parents = facts["level_sizes_"], facts["parents_"]
    if len(parents) != sizes.sum() or len(facts["inner_centers_"]) != sizes.sum() - sizes[-1]:
        return False
    starts = np.cumsum([0, *sizes])
    below = [parents[first:last] for first, last in pairwise(starts)]
    return bool((below[0] == -1).all()) and all(
        _lies_between(own, first, last - 1) and bool((np.diff(own) >= 0).all())
        for own, first, last in zip(below[1:], starts[:-2], starts[1:-1], strict=True)
    )


# ------------------------------------------------------------------------------------------- fields that go together


def _are_all_or_none(names: tuple[str, ...], facts: Facts) -> bool:
    return len({name in facts for name in names}) == 1


def _clusters_have_weight(facts: Facts) -> bool:
    # weights come from logarithms, so that one at the bound may be on either side of it
    weights = facts["weights_"]
    low, high = (int(np.count_nonzero(weights > EMPTY * factor)) for factor in (1.0 + 1e-9, 1.0 - 1e-9))
    return low <= facts["n_clusters_"] <= high


def _ends_with(bounds: str, last: str) -> Callable[[Facts], bool]:
    def holds(facts: Facts) -> bool:
        return bounds not in facts or (len(facts[bounds]) > 0 and facts[bounds][-1] == facts[last])

    return holds


def _draws_add_up(facts: Facts) -> bool:
    counts, n_rows = facts["sample_counts_"], len(facts["labels_"])
    return (
        len(facts["sample_labels_"]) > 0
        and facts["partition_draw_"] < len(facts["sample_labels_"])
        and bool((np.abs(counts.sum(axis=1) - n_rows) <= _ADDS_UP * n_rows).all())
        and _are_sums(facts["sample_resultants_"], counts)
    )


def _has_its_component(facts: Facts) -> bool:
    is_vmf = facts["component"] == "vmf"
    return ("concentrations_" in facts) == is_vmf and ("covariances_" in facts) != is_vmf


def _has_its_means(facts: Facts) -> bool:
    """Those of Euclidean Gaussians lie inside the sphere."""
    return (_IN_BALL if facts["component"] == "gaussian" else _UNIT_ROWS).holds(facts["means_"], facts)


def _has_its_degrees(facts: Facts) -> bool:
    dimension = facts["n_features_in_"] - (facts["component"] != "gaussian")
    return dimension + 1.0 < facts["degrees_of_freedom_"] <= _LARGE


def _has_whole_chains(facts: Facts) -> bool:
    """Labels without gaps, and a pivot for each cluster of each chain, or none at all."""
    labels = facts["chain_labels_"]
    if labels.size == 0 or not _lies_between(labels, 0, labels.shape[1] - 1):
        return False
    sizes = [np.bincount(own) for own in labels]
    n_clusters = sum(map(len, sizes))
    halves = facts.get("chain_half_pivots_", ())
    return (
        all(own.all() for own in sizes)
        and len(facts["chain_pivots_"]) in (0, n_clusters)
        and len(facts.get("chain_ages_", np.empty(n_clusters))) == n_clusters
        and len(halves) in (0, 2 * n_clusters)
    )


def _has_its_halves(facts: Facts) -> bool:
    halves = ("chain_sides_", "chain_ages_", "chain_half_pivots_")
    return _are_all_or_none(halves, facts) and (halves[0] in facts) == (facts["sampler"] == "subclusters")


def _has_its_draws(facts: Facts) -> bool:
    n_chains, n_draws = len(facts["chain_labels_"]), len(facts["draw_ends_"])
    return (
        n_draws > 0
        and n_draws % n_chains == 0
        and facts["partition_draw_"] < n_draws
        and facts["trace_"].shape[1] > 0
        and are_packed_draws(len(facts["labels_"]), facts["packed_draws_"], facts["draw_ends_"], n_chains)
    )


def _has_traced(facts: Facts) -> bool:
    clusters, alphas = facts["trace_"][:, :, 0], facts["trace_"][:, :, 1]
    return _lies_between(clusters, 1, len(facts["labels_"])) and _lies_between(alphas, np.nextafter(0.0, 1.0), _LARGE)


def _are_mergers(value: Any, facts: Facts) -> bool:
    """Merger i takes two of the leaves and of the mergers before it; all but the last are taken once."""
    n_leaves = len(facts["pieces_"])
    before = n_leaves + np.arange(len(value))
    return (
        len(value) == n_leaves - 1
        and bool((value >= 0).all() and (value < before[:, None]).all())
        and len(np.unique(value)) == value.size
    )


def _never_falls(value: Any) -> bool:
    return _lies_between(value, 0.0, _LARGE) and bool((np.diff(value) >= 0.0).all())


def _has_slices(facts: Facts) -> bool:
    return 0 < len(facts["times_"]) <= facts["n_slices_"]


def _counts_slices(facts: Facts) -> bool:
    """After `fit` all counts are told; a stream of slices tells the last one's."""
    told, known = facts["counts_"].sum(axis=0), facts["total_counts_"]
    return bool((told <= known * (1.0 + _ADDS_UP) + _ROUNDING * known.sum() + 1e-300).all())


# ------------------------------------------------------------------------------------------------------------ the table

_EVERYWHERE: dict[str, Rule] = {
    "n_features_in_": _between(1, _MOST_FEATURES),
    "labels_": _labels_of("weights_"),
    "partition_": _numbers_of("weights_"),
    "sample_labels_": _numbers_of("weights_"),
    "cluster_centers_": _UNIT_ROWS,
    "means_": _UNIT_ROWS,
    "inner_means_": _UNIT_ROWS,
    "prior_directions_": _UNIT_ROWS,
    "mean_direction_": _UNIT_ROWS,
    "weights_": _SHARES,
    "slice_weights_": _SHARES,
    "feature_probabilities_": _SHARES,
    "node_weights_": _NODE_SHARES,
    "grid_weights_": _NODE_SHARES,
    "counts_": _NOT_NEGATIVE,
    "total_counts_": _NOT_NEGATIVE,
    "sample_counts_": _NOT_NEGATIVE,
    "resultants_": _resultants_of("counts_"),
    "inertia_": _NOT_NEGATIVE,
    "lambda_": _PRICE,
    "concentrations_": _SCALE,
    "concentration_deviations_": _SCALE,
    "log_concentrations_": _LOG_SCALE,
    "log_concentration_variances_": _SCALE,
    "posterior_concentrations_": _SCALE,
    "inner_concentrations_": _SCALE,
    "inner_concentration_deviations_": _SCALE,
    "inner_posterior_concentrations_": _SCALE,
    "prior_concentrations_": _SCALE,
    "mean_concentrations_": _SCALE,
    "sample_concentrations_": _POSITIVE_SCALE,
    "weight_concentration_": _POSITIVE_SCALE,
    "mean_concentration_": _SCALE,
    "log_concentration_mean_": _LOG_SCALE,
    "log_concentration_variance_": _POSITIVE_SCALE,
    "inner_log_concentration_mean_": _LOG_SCALE,
    "inner_log_concentration_variance_": _POSITIVE_SCALE,
    "expected_log_h_": _between(-_LARGE, _LARGE),
    "expected_log_weights_": _NOT_ABOVE_ZERO,
    "direction_coefficients_": _between(-_LARGE, _LARGE),
    "natural_coefficients_": _between(-_LARGE, _LARGE),
    "nodes_": _SCALE,
    "node_pulls_": _SCALE,
    "grid_concentrations_": _SCALE,
    "grid_pulls_": _SCALE,
    "rows_seen_": _POSITIVE,
    "seed_": _between(0, (1 << 63) - 1, "from 0 to below 2^63"),
    "times_": _RISING,
}

_OWN: dict[str, dict[str, Rule]] = {
    "SphericalKMeans": {"labels_": _labels_of("cluster_centers_"), "n_clusters_": _AT_LEAST_ONE},
    "HierarchicalSphericalKMeans": {
        "labels_": _labels_of("cluster_centers_"),
        "n_clusters_": _AT_LEAST_ONE,
        "inner_centers_": _UNIT_ROWS,
        "parents_": Rule(
            "numbers of nodes before their own, or -1",
            lambda value, facts: (
                _lies_between(value, -1, len(value) - 1) and bool((value < np.arange(len(value))).all())
            ),
        ),
        "level_sizes_": Rule(
            "numbers of clusters that rise, the last `n_clusters_`",
            lambda value, facts: (
                len(value) > 0 and value[0] > 0 and _is_rising(value) and value[-1] == facts["n_clusters_"]
            ),
        ),
    },
    "DPvMFMeans": {"labels_": _labels_of("cluster_centers_"), "n_clusters_": _AT_LEAST_ONE},
    "AutoClusterer": {
        "n_clusters_": _AT_LEAST_ONE,
        "labels_": Rule(
            "-1 or one of `cluster_ids_`",
            lambda value, facts: bool(np.isin(value, np.append(facts["cluster_ids_"], -1)).all()),
        ),
        "cluster_ids_": Rule(
            "the increasing numbers that are in `names`",
            lambda value, facts: np.array_equal(value, np.unique(facts["names_"])),
        ),
        "membership_": _between(0.0, 1.0),
        "clarity_": _between(0.0, 1.0),
        "k_range_": Rule("two rising counts", lambda value, _: 1 <= value[0] <= value[1] <= _MOST),
        "directions_": _UNIT_ROWS,
        "pieces_": _UNIT_ROWS,
        "parents_": Rule(
            "rising places in `directions`, each at least once",
            lambda value, facts: (
                len(value) > 0
                and bool((np.diff(value) >= 0).all())
                and np.array_equal(np.unique(value), np.arange(len(facts["directions_"])))
            ),
        ),
        "names_": _numbers_of("pieces_"),
        "coarse_": _numbers_of("directions_"),
        "children_": Rule("a merger of nodes that came before it, each once", _are_mergers),
        "heights_": Rule("not negative and not falling", lambda value, _: _never_falls(value)),
        "shapes_": _POSITIVE_SCALE,
        "scales_": _POSITIVE_SCALE,
        "limits_": _between(0.0, 2.0),
        "leaves_": _numbers_of("pieces_", low=-1),
        "idf_": _between(0.0, _LARGE),
    },
    "DDPvMFMeans": {
        "labels_": _numbers_of("next_id_", low=-1),
        "cluster_ids_": Rule(
            "increasing ids below the next one",
            lambda value, facts: _is_rising(value) and _lies_between(value, 0, facts["next_id_"] - 1),
        ),
        # infinite where nothing drifts and nothing is forgotten
        "memory_weights_": _between(np.nextafter(0.0, 1.0), math.inf, "above 0"),
        "steps_unseen_": _numbers_of("n_steps_"),
        "history_": Rule("steps so far, lives from 1 to 4 and ids that were given", _are_lives),
        "merges_": Rule("steps so far, and ids that were given with older ones", _are_merges),
        "near_pairs_": Rule("ids that were given, the older first, and steps so far", _are_near_pairs),
        "n_steps_": _AT_LEAST_ONE,
    },
    "SoftKMeans": {"means_": _IN_BALL, "variance_": _between(1e-13, 1.0)},
    "MultinomialMixture": {
        "feature_probabilities_": Rule(
            "shares above 0 that sum to 1",
            lambda value, _: _adds_up(value, -1) and _lies_between(value, np.nextafter(0.0, 1.0), 1.0 + _ADDS_UP),
        ),
    },
    "HierarchicalVonMisesFisherMixture": {
        "parents_": Rule("a tree, with parents before their children", _is_tree),
    },
    "TemporalVonMisesFisherMixture": {
        "drift_concentration_": _between(0.0, math.inf, "not negative"),
        "drift_angle_": _between(0.0, 0.5 * math.pi + 1e-9),
        "projections_": Rule(
            "sums along unit vectors, none larger than `total_counts_`",
            lambda value, facts: _are_sums(value[:, None], facts["total_counts_"]),
        ),
    },
    "Links": {
        "labels_": _numbers_of("next_id_", low=-1),
        "nodes_": _numbers_of("next_subcluster_", low=-1),
        "counts_": _POSITIVE,
        # compiled code divides by their lengths
        "resultants_": Rule(
            "sums of unit vectors, none without a direction or longer than `counts_`",
            lambda value, facts: _are_sums(value, facts["counts_"], least=np.nextafter(0.0, 1.0)),
        ),
        "subcluster_numbers_": Rule(
            "different numbers below the next one",
            lambda value, facts: (
                _DISTINCT.holds(value, facts) and _lies_between(value, 0, facts["next_subcluster_"] - 1)
            ),
        ),
        "subcluster_ids_": _numbers_of("next_id_"),
        "subcluster_parents_": Rule("a forest: places of other sub-clusters, or -1, without a circle", _is_forest),
        "last_seen_": Rule(
            "numbers of vectors that were learned",
            lambda value, facts: _lies_between(value, 0, facts["n_vectors_"]),
        ),
        "history_": Rule(
            "vectors so far, fates from 1 to 4 and ids that were given, never merged in a circle", _are_events
        ),
        "joins_": Rule("pairs of a sub-cluster that was and an older one", _are_joins),
        "apart_": _numbers_of("next_id_"),
        "named_ids_": Rule(
            "increasing ids below the next one",
            lambda value, facts: _is_rising(value) and _lies_between(value, 0, facts["next_id_"] - 1),
        ),
    },
    "DirichletProcessMixture": {
        "labels_": _numbers_of("means_"),
        # what is missing to 1 is the weight of clusters not seen yet
        "weights_": Rule(
            "above 0, with a sum of at most 1",
            lambda value, _: _lies_between(value, np.nextafter(0.0, 1.0), 1.0) and bool(value.sum() <= 1.0 + _ADDS_UP),
        ),
        "means_": _FINITE,
        "concentrations_": _POSITIVE_SCALE,
        "covariances_": Rule("symmetric and positive definite", _is_resolved),
        "packed_draws_": Rule("bytes", lambda *_: True),
        "draw_ends_": _RISING,
        "chain_labels_": Rule("cluster numbers", lambda value, _: _lies_between(value, 0, _MOST)),
        "chain_pivots_": _FINITE,
        "chain_half_pivots_": _FINITE,
        "chain_ages_": _between(-1, _MOST, "from -1 to 2^62"),
        "chain_alphas_": _POSITIVE_SCALE,
        "expected_loss_": _between(-1e-6, _LARGE),
        "spread_": _POSITIVE_SCALE,
        "degrees_of_freedom_": _POSITIVE_SCALE,
        "n_clusters_": _AT_LEAST_ONE,
    },
}

_HAS_WEIGHT = Bond("as many clusters in `n_clusters_` as `weights_` above 1e-8", _clusters_have_weight)
_HAS_COMPONENTS = Bond(
    "no more clusters in `n_clusters_` than `weights_`", lambda facts: facts["n_clusters_"] <= len(facts["weights_"])
)
_HAS_BOUNDS = Bond("`lower_bounds_` that end with `lower_bound_`", _ends_with("lower_bounds_", "lower_bound_"))

_TOGETHER: dict[str, tuple[Bond, ...]] = {
    "VonMisesFisherMixture": (_HAS_WEIGHT,),
    "SoftKMeans": (_HAS_WEIGHT,),
    "MultinomialMixture": (_HAS_WEIGHT,),
    "DDPvMFMeans": (
        Bond(
            "as many clusters in `n_clusters_` as were seen in the last step",
            # one whose rows cancel is seen, and has no direction to remember
            lambda facts: (
                np.count_nonzero(facts["steps_unseen_"] == 0) <= facts["n_clusters_"] <= max(len(facts["labels_"]), 0)
            ),
        ),
    ),
    "BayesianVonMisesFisherMixture": (
        _HAS_COMPONENTS,
        _HAS_BOUNDS,
        Bond("as many `lower_bounds_` as steps", lambda facts: _traces(facts, "lower_bounds_")),
    ),
    "GibbsVonMisesFisherMixture": (
        _HAS_COMPONENTS,
        Bond("as many entries of `log_joint_` as sweeps", lambda facts: _traces(facts, "log_joint_")),
        Bond("draws whose counts add up to the rows and whose sums are no longer", _draws_add_up),
    ),
    "HierarchicalSphericalKMeans": (
        Bond("a tree whose levels are those of `level_sizes_`, children of a node in a row", _has_levels),
    ),
    "HierarchicalVonMisesFisherMixture": (
        _HAS_COMPONENTS,
        _HAS_BOUNDS,
        Bond("as many `lower_bounds_` as steps", lambda facts: _traces(facts, "lower_bounds_")),
        Bond("a component for each leaf of its tree, and inner directions for the others", _has_leaves),
    ),
    "TemporalVonMisesFisherMixture": (
        _HAS_COMPONENTS,
        _HAS_BOUNDS,
        Bond("at least one slice, and no more than it counts", _has_slices),
        Bond("counts of slices that stay within those of all", _counts_slices),
    ),
    "Links": (Bond("one id for each tree of its sub-clusters, `n_clusters_` in all", _has_one_id_per_tree),),
    "DirichletProcessMixture": (
        Bond("`concentrations_` if its component is vmf, and else `covariances_`", _has_its_component),
        Bond("means on the sphere, or inside it for Gaussians", _has_its_means),
        Bond("more degrees of freedom than its covariances have columns, and one", _has_its_degrees),
        Bond("halves of clusters where its sampler is by sub-clusters, and only there", _has_its_halves),
        Bond("chains whose labels have no gaps, and pivots for their clusters", _has_whole_chains),
        Bond("draws of each chain within its bytes, and one of them chosen", _has_its_draws),
        Bond("a trace of numbers of clusters and concentrations above 0", _has_traced),
    ),
}


def _traces(facts: Facts, trace: str) -> bool:
    return trace not in facts or len(facts[trace]) == facts["n_iter_"]
