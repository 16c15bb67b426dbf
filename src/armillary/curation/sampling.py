"""Even samples: as many rows of every concept as there are, up to a common level, from the coarsest to the finest."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from armillary._typing import ArrayLike
from armillary.curation.levels import Ancestors, checked_labels, checked_rows, levels_of
from armillary.draws import Stream
from armillary.exceptions import InputError
from armillary.validation import check_choice, check_integer, check_numbers

Counts = npt.NDArray[np.int64]


def balanced_sample(
    model: Any,
    n_rows: int,
    *,
    labels: ArrayLike | None = None,
    among: ArrayLike | None = None,
    order: str = "random",
    angles: ArrayLike | None = None,
    random_state: int = 0,
) -> npt.NDArray[np.int64]:
    """Rows chosen so that concepts are even: clusters of the coarsest level get equal shares, and so on below.

    A cluster with fewer rows than its share gives all of them, and what is missing goes to the others of its level
    (Vo et al. 2024). So rare concepts are kept whole, and frequent ones thinned.

    Parameters
    ----------
    model : clusterer
        Fitted: `HierarchicalSphericalKMeans`, or a flat one with `cluster_centers_`.
    n_rows : int
        Rows to choose; all of them where there are fewer.
    labels : array-like of shape (n,) or None, default=None
        Clusters of the rows at the finest level, e.g. `model.predict(X)`. None takes `model.labels_`. Rows of label -1
        are not chosen.
    among : array-like or None, default=None
        A mask (n,) or numbers of the rows to choose from: those that deduplication kept, say. None is all.
    order : {"random", "central", "edge"}, default="random"
        Which rows of a cluster: by chance, or the nearest or farthest ones by `angles`.
    angles : array-like of shape (n,) or None, default=None
        Angle of each row to its cluster, for "central" and "edge".
    random_state : int, default=0
        Seed.

    Returns
    -------
    array of int64
        Numbers of the chosen rows, rising.

    Examples
    --------
    >>> import numpy as np
    >>> from armillary import HierarchicalSphericalKMeans
    >>> from armillary.curation import balanced_sample
    >>> from armillary.datasets import make_vmf_mixture
    >>> X, truth, _ = make_vmf_mixture(
    ...     2000, 8, 4, concentration=200.0, weights=[0.85, 0.05, 0.05, 0.05], min_angle=0.9, random_state=0
    ... )
    >>> model = HierarchicalSphericalKMeans(n_clusters=(4, 40), random_state=0).fit(X)
    >>> chosen = balanced_sample(model, 200)
    >>> len(chosen), int(np.bincount(truth[chosen]).min() > 35)
    (200, 1)
    """
    who = "balanced_sample"
    n_wanted = check_integer(n_rows, "n_rows", who, low=0)
    levels, codes = levels_of(model, who), checked_labels(model, labels, who)
    choice = check_choice(order, "order", who, ("random", "central", "edge"))
    seed = check_integer(random_state, "random_state", who, low=0)
    usable = np.flatnonzero(checked_rows(among, len(codes), "among", who) & (codes >= 0))
    quotas = shared_out(n_wanted, levels, np.bincount(codes[usable], minlength=len(levels[0])))
    keys = _keys(choice, angles, usable, len(codes), seed, who)
    by_cluster = np.lexsort((usable, keys, codes[usable]))
    own = codes[usable][by_cluster]
    ranks = np.arange(len(own)) - np.searchsorted(own, own)
    return np.sort(usable[by_cluster[ranks < quotas[own]]])


def _keys(choice: str, angles: Any, usable: Counts, n_rows: int, seed: int, who: str) -> npt.NDArray[np.float64]:
    """Numbers that say which rows of a cluster come first: the lowest."""
    if choice == "random":
        # of all rows, so that a row keeps its chance whatever others there are
        return Stream(seed).generator("sample").random(n_rows)[usable]
    if angles is None:
        raise InputError(
            f'`order` of {who} must be "random" where `angles` are not given; got {choice!r}. Give the angle of each '
            "row to its cluster: nearest_clusters(model, X, 1).angles[:, 0]."
        )
    values = check_numbers(angles, "angles", who)
    if values.shape != (n_rows,):
        raise InputError(
            f"`angles` of {who} must have one number per row, shape ({n_rows},); got shape {values.shape}. Give those "
            "of all rows."
        )
    return values[usable] if choice == "central" else -values[usable]


def shared_out(n_wanted: int, levels: list[Ancestors], sizes: Counts) -> Counts:
    """How many rows of each of the finest clusters (K,): even at the coarsest level, then within each cluster of it."""
    parents = [np.zeros(len(sizes), dtype=np.int64), *levels]  # one root above all
    quotas = np.array([min(n_wanted, int(sizes.sum()))])
    for above, here in pairwise(parents):
        n_here = int(here.max()) + 1
        room = np.bincount(here, sizes, minlength=n_here).astype(np.int64)
        parent = np.zeros(n_here, dtype=np.int64)
        parent[here] = above
        shares = np.zeros(n_here, dtype=np.int64)
        for node in np.flatnonzero(quotas):
            children = np.flatnonzero(parent == node)
            shares[children] = evenly(int(quotas[node]), room[children])
        quotas = shares
    return quotas


def evenly(n_wanted: int, room: Counts) -> Counts:
    """`n_wanted` in parts as equal as can be, none above its room; what does not divide goes to the first with room."""
    rising = np.sort(room)
    ahead = np.concatenate([[0], np.cumsum(rising)])[:-1]
    # as if all from the k-th smallest on were filled to its height
    filled = ahead + rising * np.arange(len(room), 0, -1)
    full = int(np.searchsorted(filled, n_wanted, side="right"))  # so many are filled to the brim
    if full == len(room):
        return room.copy()
    height, rest = divmod(n_wanted - int(ahead[full]), len(room) - full)
    parts = np.minimum(room, height)
    parts[np.flatnonzero(room > height)[:rest]] += 1
    return parts
