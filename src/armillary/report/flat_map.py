"""A flat map of the rows, beside the sphere: by UMAP or PaCMAP where one is installed, or places that the user has.

The home of both libraries. A map is no proof of a cluster: what it keeps is measured and printed beside it, the share
of each row's nearest rows that are nearest on the map too.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Any

import numpy as np

from armillary._typing import Float64Array, IntArray
from armillary.engines.contract import Passes
from armillary.exceptions import InputError, MissingExtraError

MAPS = ("umap", "pacmap")
_PACKAGES = {"umap": "umap-learn", "pacmap": "pacmap"}
_SEED = 0
# Rows that a map is learned from, and that its quality is measured on; neighbours of each that are looked at.
_MOST_LEARNED, _MOST_TESTED, _N_NEAREST = 20_000, 1000, 10
_MOST_VALUES = 1 << 27  # numbers of dense rows at once


@dataclass(frozen=True, eq=False)
class FlatMap:
    """Places in the plane, within a circle of radius 1."""

    name: str  # what made it, for people
    places: Float64Array  # (m, 2)
    kept: float  # share of nearest rows that are nearest on the map
    n_tested: int


def make_flat_map(asked: Any, passes: Passes, drawn: IntArray, n_rows: int) -> FlatMap | None:
    """The map that is asked for, of the rows of `passes`; places that are given are those of all rows."""
    if asked is None:
        return None
    if isinstance(asked, str):
        places, name = _learned(check_map(asked), passes), {"umap": "UMAP", "pacmap": "PaCMAP"}[asked]
    else:
        places, name = _given(asked, n_rows)[drawn], "the places that were given"
    kept, n_tested = _kept(passes, places)
    return FlatMap(name, _within_circle(places), kept, n_tested)


def check_map(name: str) -> str:
    """`name`, if it is a map that can be made and its library is here."""
    if name not in MAPS:
        raise InputError(f"A map must be one of {', '.join(MAPS)}, or places (n, 2); got '{name}'. Leave it out.")
    try:
        importlib.import_module(name)
    except ImportError as error:
        raise MissingExtraError(
            f"A map by {name} needs {_PACKAGES[name]}, which is not installed. Run: pip install {_PACKAGES[name]}"
        ) from error
    return name


def _given(asked: Any, n_rows: int) -> Float64Array:
    places = np.asarray(asked, dtype=np.float64) if np.ndim(asked) == 2 else np.empty((0, 0))
    if places.shape != (n_rows, 2) or not np.isfinite(places).all():
        raise InputError(
            f"`map` of write_report must be finite places of shape ({n_rows}, 2), or a name; got shape "
            f"{np.shape(asked)}. Give two numbers for each row of X."
        )
    return places


def _learned(name: str, passes: Passes) -> Float64Array:
    """Places of all rows, from a map learned on some of them that are evenly spaced."""
    n_rows, n_columns = passes.points.n_rows, passes.points.n_features
    n_learned = min(n_rows, _MOST_LEARNED, max(100, _MOST_VALUES // n_columns))
    chosen = np.arange(n_learned) * n_rows // n_learned
    rows = passes.unit_rows(chosen).astype(np.float32)
    module = importlib.import_module(name)
    if name == "umap":
        mapper = module.UMAP(n_components=2, metric="cosine", random_state=_SEED, n_jobs=1)
    else:
        mapper = module.PaCMAP(n_components=2, random_state=_SEED)
    places = np.asarray(mapper.fit_transform(rows), dtype=np.float64)
    return places if n_learned == n_rows else _beside_nearest(passes, rows, places)


def _beside_nearest(passes: Passes, rows: Any, places: Float64Array) -> Float64Array:
    """Rows that were not learned lie where their nearest learned rows do."""
    found = np.empty((passes.points.n_rows, 2))
    for start in range(0, len(found), 2048):
        block = passes.unit_rows(np.arange(start, min(start + 2048, len(found)))).astype(np.float32)
        nearest = np.argpartition(-(block @ rows.T), 3, axis=1)[:, :3]
        found[start : start + len(block)] = places[nearest].mean(axis=1)
    return found


def _within_circle(places: Float64Array) -> Float64Array:
    """The same, with its middle at 0 and nearly all rows within 1."""
    middle = (np.quantile(places, 0.005, axis=0) + np.quantile(places, 0.995, axis=0)) / 2.0
    centred = places - middle
    reach = float(np.quantile(np.linalg.norm(centred, axis=1), 0.995)) or 1.0
    return np.clip(centred / (1.05 * reach), -1.0, 1.0)


def _kept(passes: Passes, places: Float64Array) -> tuple[float, int]:
    """The share of the nearest rows, among some that are evenly spaced, that are nearest on the map."""
    n_rows = passes.points.n_rows
    n_tested = min(n_rows, _MOST_TESTED)
    n_nearest = min(_N_NEAREST, n_tested - 1)
    if n_nearest < 1:
        return 1.0, n_tested
    chosen = np.arange(n_tested) * n_rows // n_tested
    rows, flat = passes.unit_rows(chosen), places[chosen]
    true = -(rows @ rows.T)
    shown = np.square(flat[:, None, :] - flat[None, :, :]).sum(axis=2)
    both = [_nearest(distances, n_nearest) for distances in (true, shown)]
    return float((both[0] & both[1]).sum() / (n_nearest * n_tested)), n_tested


def _nearest(distances: Float64Array, n: int) -> Any:
    np.fill_diagonal(distances, np.inf)
    is_near = np.zeros(distances.shape, dtype=np.bool_)
    np.put_along_axis(is_near, np.argpartition(distances, n - 1, axis=1)[:, :n], True, axis=1)
    return is_near
