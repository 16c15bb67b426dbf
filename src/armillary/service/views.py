"""What is shown of a collection: summaries, ids, nearest others, places on a sphere."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from armillary._typing import Float64Array
from armillary.models.links.links import parts_of
from armillary.models.turns import snapshot
from armillary.service.collection import Collection
from armillary.service.identities import Identities, Int64Array, spread
from armillary.service.operations import Event, Rows

_MOST_EVENTS, _MOST_NEAREST, _MOST_ROWS, _MOST_NODES = 50, 6, 1000, 10_000


def n_ids(collection: Collection) -> int:
    """How many there are now."""
    return len(collection.identities.ids_now())


def summary(collection: Collection) -> dict[str, Any]:
    """A line about a collection."""
    identities = collection.identities
    return {
        "name": collection.name,
        "model": type(identities.model).__name__,
        "ids": n_ids(collection),
        "next_id": identities.next_id,
        "vectors": identities.n_rows,
        "dimension": identities.n_features,
        "store_members": identities.store_members,
        "operation": identities.seq,
        "event": identities.next_event - 1,
        "is_broken": collection.broken is not None,
    }


def details(collection: Collection) -> dict[str, Any]:
    """The same with the model, and how fast it works."""
    facts = collection.facts.get("model", {})
    return {
        **summary(collection),
        "parameters": facts.get("parameters", {}),
        "tuned": facts.get("tuned"),
        "waiting": collection.n_waiting,
        "milliseconds": _quantiles(collection.latencies),
        "commit_milliseconds": _quantiles(collection.commits),
        "snapshot": None if collection.snapshot is None else collection.snapshot.seq,
        "at": time.time(),
    }


def _quantiles(seconds: Any) -> dict[str, float | None]:
    values = np.array(list(seconds))
    if not values.size:
        return {"p50": None, "p99": None}
    p50, p99 = 1000.0 * np.quantile(values, [0.5, 0.99])
    return {"p50": round(float(p50), 3), "p99": round(float(p99), 3)}


def _sizes(identities: Identities) -> tuple[Int64Array, Float64Array, Int64Array]:
    """Ids (K,), their weights (K,) and how many sub-clusters each has (K,)."""
    model, ids = identities.model, identities.ids_now()
    if not identities.is_links or not len(ids):
        return ids, np.full(len(ids), np.nan), np.ones(len(ids), np.int64)
    owners, counts = model.subcluster_ids_.copy(), model.counts_.copy()
    n_known = min(len(owners), len(counts))
    ids, codes = np.unique(owners[:n_known], return_inverse=True)
    weights = np.bincount(codes, counts[:n_known], len(ids)).astype(np.float64)
    return ids, weights, np.bincount(codes, minlength=len(ids)).astype(np.int64)


def identities(
    collection: Collection, after: int, limit: int, *, newest: bool = False, find: str = ""
) -> dict[str, Any]:
    """Lines of ids, increasing or the newest first, and of how many these are: all above `after`, or those found."""
    state = collection.identities
    next_id = state.next_id
    ids, weights, parts = _sizes(state)
    names = state.names
    places = np.arange(np.searchsorted(ids, after, side="right"), len(ids))
    if find:
        places = places[np.isin(ids[places], _found(find, names))]
    shown = (places[::-1] if newest else places)[:limit]
    images = collection.store.with_thumbnails(ids[shown].tolist())
    lines = [
        {
            "id": number,
            "name": names.get(number),
            "vectors": None if np.isnan(weight) else float(weight),
            "subclusters": n_parts,
            "has_thumbnail": number in images,
        }
        for number, weight, n_parts in zip(ids[shown].tolist(), weights[shown], parts[shown].tolist(), strict=True)
    ]
    return {"ids": lines, "of": len(places), "next_id": next_id}


def _found(wanted: str, names: dict[int, str]) -> list[int]:
    """The id that is written so, and those whose names have it."""
    number, word = wanted.strip().removeprefix("#"), wanted.strip().casefold()
    own = [int(number)] if number.isascii() and number.isdigit() and len(number) < 19 else []
    return own + [one for one, name in names.items() if word in name.casefold()]


def identity(collection: Collection, number: int) -> dict[str, Any]:
    """Everything about one id."""
    state = collection.identities
    (now,) = state.current([number])
    past = state.known_as(number)
    found: dict[str, Any] = {
        "id": number,
        "current": now,
        "known_as": past[:1000],
        "name": state.names.get(now),
        "meta": {str(key): value for key, value in collection.store.metas(past[:500]).items()},
        "has_thumbnail": bool(collection.store.with_thumbnails(past[:500])),
        "history": [_told(event, state) for event in _history(collection, past[:500])],
    }
    if now >= 0 and state.is_links:
        found |= _figure(collection, now)
    return found


def _history(collection: Collection, past: list[int]) -> list[Any]:
    stored = collection.store.events_of(past, _MOST_EVENTS)
    last, known = (stored[-1].number if stored else 0), set(past)
    fresh = [event for event in list(collection.recent) if event.number > last and {event.id, event.other} & known]
    return (stored + fresh)[-_MOST_EVENTS:]


def _told(event: Event, state: Identities) -> dict[str, Any]:
    """An event, and whether it can still be taken back."""
    return {**event.body(), **({"can_undo": True} if event.operation in state.undoable else {})}


def _figure(collection: Collection, now: int) -> dict[str, Any]:
    numbers, counts, sums = parts_of(collection.identities.model, now)
    total, weight = sums.sum(axis=0), float(counts.sum())
    length = float(np.linalg.norm(total))
    kept = _kept(collection, now) if collection.identities.store_members else []
    return {
        "vectors": weight,
        "subclusters": numbers.tolist()[:1000],
        "spread_degrees": spread(weight, length),
        "rows": [row for row, _ in kept],
        "nearest": _nearest(collection, total / (length or 1.0), now),
    }


def _kept(collection: Collection, now: int) -> list[tuple[int, int]]:
    """Numbers of kept vectors, also of those whose sub-clusters were merged into others since."""
    nodes = np.array(collection.store.member_nodes(), np.int64)
    own = nodes[collection.identities.model.labels_now(nodes) == now]
    return collection.store.members_in(own.tolist()[:_MOST_NODES], _MOST_ROWS)


def _nearest(collection: Collection, centre: Float64Array, now: int) -> list[dict[str, Any]]:
    if not np.linalg.norm(centre):
        return []
    names = collection.identities.names
    found = collection.identities.model.alternatives(centre, _MOST_NEAREST + 1)
    return [
        {"id": one.id, "cosine": one.cosine, "margin": one.margin, "name": names.get(one.id)}
        for one in found
        if one.id != now
    ][:_MOST_NEAREST]


def alternatives(collection: Collection, rows: Rows, k: int) -> list[list[dict[str, Any]]]:
    """The nearest ids of each vector."""
    state = collection.identities
    if not state.is_fitted or not len(state.ids_now()):
        return [[] for _ in rows]
    if state.is_links:
        return [[one._asdict() for one in state.model.alternatives(row.astype(np.float64), k)] for row in rows]
    model = snapshot(state.model)  # ids and cosines of one step
    ids = Identities(model).ids_now()
    cosines = np.asarray(model.transform(rows)) if hasattr(model, "transform") else np.empty((len(rows), 0))
    order = np.argsort(-cosines, axis=1, kind="stable")[:, :k]
    return [
        [{"id": int(ids[place]), "cosine": float(cosines[row, place])} for place in places]
        for row, places in enumerate(order)
    ]


def places(collection: Collection, limit: int) -> dict[str, Any]:
    """The largest ids as points on a sphere: the three directions along which their centres differ most."""
    state = collection.identities
    if not state.is_fitted or not len(state.ids_now()):
        return {"ids": [], "points": []}
    ids, weights, _ = _sizes(state)
    chosen = np.sort(np.argsort(-np.nan_to_num(weights), kind="stable")[:limit])
    centres = _centres(state, ids, chosen)
    if centres is None:
        return {"ids": [], "points": []}
    points = _on_sphere(centres)
    names = state.names
    return {
        "ids": ids[chosen].tolist(),
        "points": np.round(points, 5).tolist(),
        "vectors": np.nan_to_num(weights[chosen]).tolist(),
        "names": [names.get(number) for number in ids[chosen].tolist()],
    }


def _centres(state: Identities, ids: Int64Array, chosen: Int64Array) -> Float64Array | None:
    """The centres of chosen ids, and of no others: there may be a million; None where there are none."""
    if not state.is_links:
        centres = np.asarray(getattr(state.model, "cluster_centers_", ()))
        return centres[chosen] if len(centres) == len(ids) else None  # else a step came between the two
    # owners change in place: the second look at them must be at what the first one saw
    owners, sums = state.model.subcluster_ids_.copy(), state.model.resultants_
    n_known = min(len(owners), len(sums))  # a vector may come between the two
    own = np.flatnonzero(np.isin(owners[:n_known], ids[chosen]))
    centres = np.zeros((len(chosen), sums.shape[1]))
    np.add.at(centres, np.searchsorted(ids[chosen], owners[own]), sums[own])
    lengths = np.linalg.norm(centres, axis=1, keepdims=True)
    return centres / np.where(lengths > 0.0, lengths, 1.0)


def _on_sphere(centres: Float64Array) -> Float64Array:
    width = centres.shape[1]
    if width <= 3:
        points = np.pad(centres, ((0, 0), (0, 3 - width)))
    else:
        _, axes = np.linalg.eigh(centres.T @ centres) if width <= 512 else (None, np.eye(width)[:, ::-1])
        points = centres @ axes[:, :-4:-1]
    lengths = np.linalg.norm(points, axis=1, keepdims=True)
    return np.where(lengths > 0.0, points / np.where(lengths > 0.0, lengths, 1.0), [0.0, 0.0, 1.0])
