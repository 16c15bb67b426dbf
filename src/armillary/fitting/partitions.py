"""One partition for many draws of labels: the draw that is nearest to all others.

Components of a sampler are exchangeable, so draws of labels cannot be averaged row by row. A loss between partitions
does not see the numbering, and the draw with the least mean loss to all draws estimates the partition that would have
the least expected loss (Wade and Ghahramani 2018). Both losses here are sums over the cells of a contingency table,

    loss(a, b) = scale * (sum_j g(a_j) + sum_k g(b_k) - 2 sum_jk g(c_jk)),

variation of information with g(n) = n log n and scale 1/N, Binder's loss with g(n) = n^2 and scale 1/(N (N-1)). So S
draws take S^2/2 tables of N rows and no N x N matrix.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from armillary._typing import Float64Array
from armillary.exceptions import InputError
from armillary.validation import check_choice

LOSSES = ("variation_of_information", "binder")

Codes: TypeAlias = npt.NDArray[np.integer[Any]]
Sizes: TypeAlias = npt.NDArray[np.int64]

# Draws that are held at a time, and rows of them that are counted at a time.
_DRAWS_AT_ONCE = 4
_ROWS_AT_ONCE = 1 << 16
# A table of all cells is kept where it has at most this many for each row; beyond, rows are sorted by their cell.
_CELLS_PER_ROW = 4
_FEW_CELLS = 10_000
# Sums of as many logarithms as there are cells differ by less.
_ROUNDING = 1e-12


class Draws(Protocol):
    """S draws of labels (N,), to be gone through as often as wanted."""

    def __len__(self) -> int:
        """S."""

    def __iter__(self) -> Iterator[Codes]:
        """One after the other."""


@dataclass(frozen=True, eq=False)
class PointPartition:
    """A partition chosen among draws.

    Examples
    --------
    >>> from armillary.diagnostics import point_partition
    >>> found = point_partition([[0, 0, 1], [0, 0, 1], [0, 1, 1]])
    >>> found.labels.tolist(), found.draw
    ([0, 0, 1], 0)
    """

    labels: npt.NDArray[np.int32]  # (N,) numbered in the order of first appearance
    draw: int  # the first draw that has this partition
    expected_loss: float  # its mean loss to all draws


def point_partition(labels: Any, *, loss: str = "variation_of_information") -> PointPartition:
    """The draw with the least expected loss; the first of equals.

    Parameters
    ----------
    labels : array-like of shape (S, N), int
        Draws of the labels of N rows.
    loss : {"variation_of_information", "binder"}, default="variation_of_information"
        Variation of information is in nats. Binder's loss is the share of pairs of rows that one partition joins and
        the other parts (1 - the Rand index); it favours partitions with some small extra clusters.

    Returns
    -------
    PointPartition
        `labels`, the number of the `draw`, and its `expected_loss`.

    Notes
    -----
    S^2/2 contingency tables, each made from the one before by the rows whose label changed: a second for 100 draws of
    300,000 rows of which few change, a minute where all do.

    Examples
    --------
    >>> from armillary.diagnostics import point_partition
    >>> point_partition([[0, 0, 1], [1, 1, 0], [0, 1, 1]]).labels
    array([0, 0, 1], dtype=int32)
    """
    check_choice(loss, "loss", "point_partition", LOSSES)
    return best_draw(_coded(check_draws(labels, "point_partition")), loss)


def best_draw(draws: Draws, loss: str) -> PointPartition:
    """`point_partition` of draws of labels from 0, with few gaps, that can be looked at again and again, in order."""
    means = _mean_losses(draws, loss)
    # equal partitions with other numbers differ by rounding
    best = int(np.argmax(means <= means.min() * (1.0 + _ROUNDING) + _ROUNDING))
    chosen = next(islice(draws, best, None))
    return PointPartition(in_order_of_appearance(chosen), best, float(means[best]))


def expected_losses(labels: Any, *, loss: str = "variation_of_information") -> Float64Array:
    """The mean loss (S,) of each of the draws (S, N) to all of them; see `point_partition`.

    Parameters
    ----------
    labels : array-like of shape (S, N), int
        Draws of the labels of N rows.
    loss : {"variation_of_information", "binder"}, default="variation_of_information"
        As in `point_partition`.

    Returns
    -------
    array of shape (S,)
        The least belongs to the draw that stands for all.

    Examples
    --------
    >>> from armillary.diagnostics import expected_losses
    >>> expected_losses([[0, 0, 1], [1, 1, 0], [0, 1, 1]], loss="binder").round(3)
    array([0.222, 0.222, 0.444])
    """
    check_choice(loss, "loss", "expected_losses", LOSSES)
    return _mean_losses(_coded(check_draws(labels, "expected_losses")), loss)


def expected_loss(labels: Codes, draws: Draws, loss: str) -> float:
    """The mean loss of a partition (N,) to all draws."""
    return float(np.mean([losses[0] for losses in _losses_to([labels], draws, loss)]))


def check_draws(labels: Any, who: str) -> npt.NDArray[np.integer[Any]]:
    """Draws (S, N) of integer labels."""
    draws = np.asarray(labels)
    if draws.ndim != 2 or draws.size == 0 or draws.dtype.kind not in "iu":
        raise InputError(
            f"`labels` of {who} must be draws of integer labels, of shape (S, N) with S and N at least 1; "
            f"got shape {draws.shape} of {draws.dtype}. One labelling is labels[None]."
        )
    return draws


def _coded(draws: Codes) -> list[Codes]:
    """The same partitions, clusters numbered as they first appear: equal ones are then equal to the bit."""
    return [in_order_of_appearance(np.unique(draw, return_inverse=True)[1]) for draw in draws]


def in_order_of_appearance(labels: Codes) -> npt.NDArray[np.int32]:
    """The same partition (N,) of labels from 0, its clusters numbered 0, 1, ... as they first appear."""
    first = np.full(int(labels.max()) + 1, len(labels))
    for start, stop in reversed(_blocks(len(labels))):
        # of a row's label that is met again, the last value stays: that of the first row
        first[labels[start:stop][::-1]] = np.arange(stop - 1, start - 1, -1)
    rank = np.empty(len(first), dtype=np.int32)
    rank[np.argsort(first, kind="stable")] = np.arange(len(first))
    return relabelled(labels, rank)


def without_gaps(labels: Codes) -> npt.NDArray[np.int32]:
    """The same partition (N,) of any labels, numbered from 0 in the order of the labels, as an array of its own."""
    if labels.min() < 0 or labels.max() >= max(len(labels), _FEW_CELLS):
        return np.unique(labels, return_inverse=True)[1].astype(np.int32)
    counts = label_counts(labels, int(labels.max()) + 1)
    return relabelled(labels, np.cumsum(counts > 0, dtype=np.int32) - 1)


def n_labels(labels: Codes) -> int:
    """How many clusters labels (N,) without gaps tell apart."""
    return int(labels.max()) + 1


def label_counts(labels: Codes, n_clusters: int) -> Sizes:
    """Rows of each label 0..K-1 (K,). NumPy alone would copy the labels to 64 bits."""
    counts = np.zeros(n_clusters, dtype=np.int64)
    for start, stop in _blocks(len(labels)):
        counts += np.bincount(labels[start:stop], minlength=n_clusters)
    return counts


def relabelled(labels: Codes, table: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
    """table[labels] (N,), without a copy of the labels in 64 bits."""
    found = np.empty(len(labels), dtype=np.int32)
    for start, stop in _blocks(len(labels)):
        found[start:stop] = table[labels[start:stop]]
    return found


def _mean_losses(draws: Draws, loss: str) -> Float64Array:
    """The mean loss (S,) of each draw to all."""
    total = np.zeros(len(draws))
    for start in range(0, len(draws), _DRAWS_AT_ONCE):
        group = list(islice(draws, start, start + _DRAWS_AT_ONCE))
        for number, losses in enumerate(_losses_to(group, islice(draws, start, None), loss), start):
            total[start : start + len(group)] += losses
            if number >= start + len(group):
                total[number] += losses.sum()
    return total / len(draws)


def _losses_to(group: list[Codes], draws: Iterable[Codes], loss: str) -> Iterator[Float64Array]:
    """The losses (G,) of the partitions of a group to each draw in turn."""
    n_rows = len(group[0])
    scale = 1.0 / n_rows if loss == "variation_of_information" else 1.0 / max(n_rows * (n_rows - 1), 1)
    tables = [_Table(one) for one in group]
    for draw in draws:
        sums = [[_cell_sum(sizes, loss) for sizes in table.sizes(draw)] for table in tables]
        ours, theirs, shared = np.array(sums).T
        # rounding of the logarithms must not make a loss negative
        yield np.maximum(scale * (ours + theirs - 2.0 * shared), 0.0)


class _Table:
    """The contingency table of one partition with draws that come one after the other."""

    def __init__(self, labels: Codes) -> None:
        self._ours = labels
        self._n_ours = int(labels.max()) + 1
        self._before: Codes | None = None
        self._counts = np.zeros((self._n_ours, 0), dtype=np.int64)

    def sizes(self, draw: Codes) -> tuple[Sizes, Sizes, Sizes]:
        """How many rows this partition's clusters have, the draw's, and the cells of the table."""
        n_theirs = int(draw.max()) + 1
        if self._n_ours * n_theirs > max(_CELLS_PER_ROW * len(draw), _FEW_CELLS):
            # nearly all cells are empty
            cells = self._ours.astype(np.int64) * n_theirs + draw
            sizes = label_counts(self._ours, self._n_ours), label_counts(draw, n_theirs)
            return *sizes, np.unique(cells, return_counts=True)[1]
        if self._before is None or n_theirs > self._counts.shape[1]:
            self._counts = np.zeros((self._n_ours, n_theirs), dtype=np.int64)
            self._before = None
        for start, stop in _blocks(len(draw)):
            ours, new = self._ours[start:stop], draw[start:stop]
            if self._before is not None:
                old = self._before[start:stop]
                changed = np.flatnonzero(new != old)
                ours, new, old = ours[changed], new[changed], old[changed]
                self._counts -= self._counted(ours, old)
            self._counts += self._counted(ours, new)
        self._before = draw
        return self._counts.sum(axis=1), self._counts.sum(axis=0), self._counts

    def _counted(self, ours: Codes, theirs: Codes) -> Sizes:
        shape = self._counts.shape
        cells = ours.astype(np.int64)
        cells *= shape[1]
        cells += theirs
        return np.bincount(cells, minlength=shape[0] * shape[1]).reshape(shape)


def _blocks(n_rows: int) -> list[tuple[int, int]]:
    return [(start, min(start + _ROWS_AT_ONCE, n_rows)) for start in range(0, n_rows, _ROWS_AT_ONCE)]


def _cell_sum(sizes: Sizes, loss: str) -> float:
    """sum g(n) over cells."""
    wide = sizes[sizes > 0].astype(np.float64)
    return float(wide @ (np.log(wide) if loss == "variation_of_information" else wide))


def adjusted_rand_of_codes(first: npt.NDArray[np.int32], second: npt.NDArray[np.int32]) -> float:
    """scikit-learn's `adjusted_rand_score` of two labellings from 0, without its checks, which take ten times this."""
    n_rows, n_second = len(first), int(second.max()) + 1
    pairs = np.bincount(first.astype(np.int64) * n_second + second)
    together = int(pairs @ pairs) - n_rows  # pairs of rows, each counted from both ends
    in_first, in_second = (int(sizes @ sizes) - n_rows for sizes in (np.bincount(first), np.bincount(second)))
    most, expected = (in_first + in_second) * n_rows * (n_rows - 1), 2 * in_first * in_second
    if most == expected:  # one cluster, or each row its own, in both
        return 1.0
    return (2 * together * n_rows * (n_rows - 1) - expected) / (most - expected)
