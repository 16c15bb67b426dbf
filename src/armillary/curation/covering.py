"""What a set of rows covers: how many concepts of each level, and how evenly."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from armillary._typing import ArrayLike, Float64Array
from armillary.curation.levels import checked_labels, checked_rows, levels_of, sizes_of


@dataclass(frozen=True)
class Coverage:
    """One level.

    Attributes
    ----------
    level : int
        0 is the coarsest.
    n_clusters : int
        Clusters of the level.
    n_filled : int
        Of these, clusters that rows are in.
    effective : float
        exp of the entropy of their shares: as many clusters of equal size would be as even.
    largest_share : float
        The share of rows in the largest.
    gini : float
        0 where all clusters have equally many rows, towards 1 where one has all.

    Examples
    --------
    >>> import numpy as np
    >>> from armillary import SphericalKMeans
    >>> from armillary.curation import coverage
    >>> rows = np.array([[0.0, 1.0], [0.0, 1.0], [0.0, 1.0], [1.0, 0.0]])
    >>> level, = coverage(SphericalKMeans(2, random_state=0).fit(rows))
    >>> level.n_filled, level.largest_share
    (2, 0.75)
    """

    level: int
    n_clusters: int
    n_filled: int
    effective: float
    largest_share: float
    gini: float


def coverage(model: Any, *, labels: ArrayLike | None = None, among: ArrayLike | None = None) -> list[Coverage]:
    """How many clusters of each level rows are in, and how evenly they lie there.

    Parameters
    ----------
    model : clusterer
        Fitted: `HierarchicalSphericalKMeans`, or a flat one with `cluster_centers_`.
    labels : array-like of shape (n,) or None, default=None
        Clusters of the rows at the finest level. None takes `model.labels_`.
    among : array-like or None, default=None
        A mask (n,) or numbers of the rows to look at. None is all.

    Returns
    -------
    list of Coverage
        One for each level, coarse to fine.

    Examples
    --------
    >>> from armillary import SphericalKMeans
    >>> from armillary.curation import balanced_sample, coverage
    >>> from armillary.datasets import make_vmf_mixture
    >>> X, _, _ = make_vmf_mixture(1000, 8, 5, weights=[0.9, 0.04, 0.03, 0.02, 0.01], random_state=0)
    >>> model = SphericalKMeans(20, random_state=0).fit(X)
    >>> before, = coverage(model)
    >>> after, = coverage(model, among=balanced_sample(model, 100))
    >>> after.effective > before.effective
    True
    """
    who = "coverage"
    levels, codes = levels_of(model, who), checked_labels(model, labels, who)
    looked_at = codes[checked_rows(among, len(codes), "among", who) & (codes >= 0)]
    found = []
    for level, (ancestors, n_clusters) in enumerate(zip(levels, sizes_of(model, levels), strict=True)):
        sizes = np.bincount(ancestors[looked_at], minlength=n_clusters).astype(np.float64)
        found.append(Coverage(level, len(sizes), int(np.count_nonzero(sizes)), *_evenness(sizes)))
    return found


def _evenness(sizes: Float64Array) -> tuple[float, float, float]:
    """Effective number, largest share and Gini coefficient; zeros where there are no rows."""
    total = sizes.sum()
    if total == 0.0:
        return 0.0, 0.0, 0.0
    shares = sizes[sizes > 0] / total
    rising = np.sort(sizes)
    weights = 2.0 * np.arange(1, len(sizes) + 1) - len(sizes) - 1
    gini = float(weights @ rising / (len(sizes) * total))
    return float(np.exp(-(shares * np.log(shares)).sum())), float(shares.max()), gini
