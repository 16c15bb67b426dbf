"""Layouts for vector stores: centroids with lists of rows, and residual codebooks, as plain arrays and JSON.

faiss      centroids (K, D) float32 of an inner-product quantiser, offsets (K + 1,) and ids (n,) of its inverted lists
lance      the same centroids, as `ivf_centroids` of `create_index`, and the partition of each row
pgvector   lines for COPY: one of each centroid, one of each row with its list, and the tables they go into
residual   codebooks (L, C, D): a row is about its centroid plus one entry of each
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from armillary._typing import ArrayLike
from armillary.curation.levels import checked_labels
from armillary.curation.nearest import checked_directions
from armillary.durable.whole import whole_file
from armillary.engines.contract import Numbered, Passes
from armillary.engines.select import checked_points, open_passes
from armillary.exceptions import InputError
from armillary.rules import AffineRule
from armillary.validation import check_choice, check_integer, check_path

STYLES = ("faiss", "lance", "pgvector")
# Rows that get their codes at a time.
_BLOCK_ROWS = 1 << 14


@dataclass(frozen=True, eq=False)
class InvertedLists:
    """Rows by their cluster.

    Attributes
    ----------
    centroids : array of shape (K, D), float32
        Unit directions.
    offsets : array of shape (K + 1,), int64
        Where the list of each cluster begins and ends.
    ids : array of shape (n,), int64
        Numbers of rows, list after list, rising within each.

    Examples
    --------
    >>> import numpy as np
    >>> from armillary.curation import InvertedLists
    >>> lists = InvertedLists(np.eye(2, dtype=np.float32), offsets=np.array([0, 2, 3]), ids=np.array([0, 2, 1]))
    >>> lists.members(0).tolist()
    [0, 2]
    """

    centroids: npt.NDArray[np.float32]
    offsets: npt.NDArray[np.int64]
    ids: npt.NDArray[np.int64]

    def members(self, number: int) -> npt.NDArray[np.int64]:
        """The rows of one list.

        Parameters
        ----------
        number : int
            Of the list.

        Returns
        -------
        array of int64
            Rising.
        """
        return self.ids[self.offsets[number] : self.offsets[number + 1]]


@dataclass(frozen=True, eq=False)
class ResidualCodebooks:
    """What rows are made of: a centroid, and one entry of each codebook.

    Attributes
    ----------
    centroids : array of shape (K, D), float32
        Of the coarse level.
    codebooks : array of shape (L, C, D), float32
        Entries of each residual level.

    Examples
    --------
    >>> import numpy as np
    >>> from armillary.curation import ResidualCodebooks
    >>> books = ResidualCodebooks(np.eye(2, dtype=np.float32), np.array([[[0.0, 0.0], [0.0, 0.5]]], np.float32))
    >>> books.decode([0, 1], [[1], [0]]).tolist()
    [[1.0, 0.5], [0.0, 1.0]]
    """

    centroids: npt.NDArray[np.float32]
    codebooks: npt.NDArray[np.float32]

    def decode(self, lists: ArrayLike, codes: ArrayLike) -> npt.NDArray[np.float32]:
        """Rows (n, D) from the centroid (n,) and the entry of each level (n, L).

        Parameters
        ----------
        lists : array of int of shape (n,)
        codes : array of int of shape (n, L)

        Returns
        -------
        array of shape (n, D), float32
            What the codes stand for.
        """
        found = self.centroids[np.asarray(lists)].copy()
        for level, own in enumerate(np.asarray(codes).T):
            found += self.codebooks[level][own]
        return found

    def encode(self, X: Any, *, n_threads: int | None = None) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.uint16]]:
        """The centroid (n,) and the entries (n, L) of rows, the nearest at each level.

        Parameters
        ----------
        X : array or CSR matrix of shape (n, D)
        n_threads : int, optional
            None: as many as there are cores.

        Returns
        -------
        lists : array of shape (n,), int32
        codes : array of shape (n, L), uint16
        """
        who = "ResidualCodebooks.encode"
        points = checked_points(X, who, expected_features=self.centroids.shape[1])
        n_levels = len(self.codebooks)
        lists, codes = np.empty(points.n_rows, dtype=np.int32), np.empty((points.n_rows, n_levels), dtype=np.uint16)
        with open_passes(points, n_threads, who) as passes:
            for part, left, own in _residuals(passes, self.centroids, points.n_rows):
                lists[part] = own
                for level in range(n_levels):
                    codes[part, level] = _nearest(left, self.codebooks[level])
                    left -= self.codebooks[level][codes[part, level]]
        return lists, codes


def inverted_lists(model: Any, labels: ArrayLike | None = None) -> InvertedLists:
    """Centroids and lists of rows, as inverted files have them.

    Parameters
    ----------
    model : clusterer
        Fitted, with `cluster_centers_`. With `balance` no list is longer than its bound.
    labels : array-like of shape (n,) or None, default=None
        Clusters of the rows, which are then numbered from 0. None takes `model.labels_`. Rows of label -1 are in no
        list.

    Returns
    -------
    InvertedLists
        `centroids`, `offsets` and `ids`.

    Examples
    --------
    >>> from armillary import SphericalKMeans
    >>> from armillary.curation import inverted_lists
    >>> from armillary.datasets import make_vmf_mixture
    >>> X, _, _ = make_vmf_mixture(600, 8, 5, random_state=0)
    >>> lists = inverted_lists(SphericalKMeans(6, balance=1.2, random_state=0).fit(X))
    >>> lists.centroids.shape, int((lists.offsets[1:] - lists.offsets[:-1]).max()) <= 120
    ((6, 8), True)
    """
    who = "inverted_lists"
    directions, codes = checked_directions(model, who), checked_labels(model, labels, who)
    rows = np.flatnonzero(codes >= 0)
    sizes = np.bincount(codes[rows], minlength=len(directions))
    ids = rows[np.argsort(codes[rows], kind="stable")]
    return InvertedLists(directions.astype(np.float32), np.concatenate([[0], np.cumsum(sizes)]), ids)


def residual_codebooks(
    X: Any,
    model: Any,
    *,
    n_levels: int = 2,
    n_codes: int = 256,
    n_rows: int = 100_000,
    max_iter: int = 10,
    random_state: int = 0,
    n_threads: int | None = None,
) -> ResidualCodebooks:
    """Codebooks of what is left of rows when their centroid is taken away, level after level.

    Parameters
    ----------
    X : array-like of shape (n, D), CSR or rows on disk
        Rows, made unit here.
    model : clusterer
        Fitted, with `cluster_centers_`: the coarse level.
    n_levels : int, default=2
        Residual levels.
    n_codes : int, default=256
        Entries of each, 65,536 at most.
    n_rows : int, default=100000
        Rows that codebooks are made from, drawn by chance.
    max_iter : int, default=10
        Steps of k-means for each codebook (scikit-learn's: residuals are not unit).
    random_state : int, default=0
        Seed.
    n_threads : int or None, default=None
        Threads of passes over rows; None takes every core.

    Returns
    -------
    ResidualCodebooks
        `centroids`, `codebooks`, and `encode` and `decode`.

    Examples
    --------
    >>> import numpy as np
    >>> from armillary import SphericalKMeans
    >>> from armillary.curation import residual_codebooks
    >>> from armillary.datasets import make_vmf_mixture
    >>> X, _, _ = make_vmf_mixture(800, 8, 5, random_state=0)
    >>> books = residual_codebooks(X, SphericalKMeans(5, random_state=0).fit(X), n_codes=16)
    >>> made = books.decode(*books.encode(X))
    >>> bool(((made - X) ** 2).sum() < ((books.centroids[books.encode(X)[0]] - X) ** 2).sum())
    True
    """
    from sklearn.cluster import KMeans

    who = "residual_codebooks"
    n_books = check_integer(n_levels, "n_levels", who, low=1, high=64)
    n_entries = check_integer(n_codes, "n_codes", who, low=1, high=1 << 16)
    most = check_integer(n_rows, "n_rows", who, low=1)
    n_steps = check_integer(max_iter, "max_iter", who, low=1)
    seed = check_integer(random_state, "random_state", who, low=0)
    centroids = checked_directions(model, who).astype(np.float32)
    points = checked_points(X, who, expected_features=centroids.shape[1])
    n_used = min(most, points.n_rows)
    if n_entries > n_used:
        raise InputError(
            f"`n_codes` of {who} must not exceed the rows that codebooks are made from; got {n_entries} and {n_used} "
            "rows. Lower it, or raise n_rows."
        )
    numbers = np.sort(np.random.default_rng(seed).choice(points.n_rows, n_used, replace=False))
    with open_passes(points, n_threads, who) as passes:
        own = passes.over(Numbered(numbers))
        left = np.concatenate([part for _, part, _ in _residuals(own, centroids, n_used)])
    books = np.empty((n_books, n_entries, centroids.shape[1]), dtype=np.float32)
    for level in range(n_books):
        means = KMeans(n_entries, init="random", n_init=1, max_iter=n_steps, tol=0.0, random_state=seed + level)
        books[level] = means.fit(left).cluster_centers_
        left -= books[level][_nearest(left, books[level])]
    return ResidualCodebooks(centroids, books)


def _residuals(
    passes: Passes, centroids: npt.NDArray[np.float32], n_rows: int
) -> Iterator[tuple[slice, npt.NDArray[np.float32], npt.NDArray[np.int32]]]:
    """What is left of some rows at a time, and the lists they are in."""
    labels = passes.labels()
    passes.label(AffineRule.cosines(centroids.astype(np.float64)), labels, sums=False)
    for first in range(0, n_rows, _BLOCK_ROWS):
        numbers = np.arange(first, min(first + _BLOCK_ROWS, n_rows))
        own = labels.at(numbers)
        yield slice(first, first + len(numbers)), (passes.unit_rows(numbers) - centroids[own]).astype(np.float32), own


def _nearest(rows: npt.NDArray[np.float32], entries: npt.NDArray[np.float32]) -> npt.NDArray[np.intp]:
    """The nearest entry of each row."""
    squares = 0.5 * np.vecdot(entries, entries)
    return np.concatenate(
        [
            (squares - rows[first : first + _BLOCK_ROWS] @ entries.T).argmin(axis=1)
            for first in range(0, len(rows), _BLOCK_ROWS)
        ]
    )


# ------------------------------------------------------------------------------------------------------------ files


def write_layout(
    folder: str | os.PathLike[str],
    lists: InvertedLists,
    *,
    style: str = "faiss",
    codebooks: ResidualCodebooks | None = None,
) -> None:
    """Write lists as a vector store takes them: arrays (npy), lines for COPY, and layout.json that explains them.

    Parameters
    ----------
    folder : path
        A folder, made where it is not there. Each file is written whole; layout.json is the last.
    lists : InvertedLists
        What `inverted_lists` returned.
    style : {"faiss", "lance", "pgvector"}, default="faiss"
        For whom.
    codebooks : ResidualCodebooks or None, default=None
        Written too, as codebooks.npy.

    Returns
    -------
    None

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from armillary import SphericalKMeans
    >>> from armillary.curation import inverted_lists, write_layout
    >>> from armillary.datasets import make_vmf_mixture
    >>> X, _, _ = make_vmf_mixture(100, 4, 3, random_state=0)
    >>> lists = inverted_lists(SphericalKMeans(3, random_state=0).fit(X))
    >>> with tempfile.TemporaryDirectory() as place:
    ...     write_layout(place, lists)
    ...     sorted(path.name for path in Path(place).iterdir())
    ['centroids.npy', 'ids.npy', 'layout.json', 'offsets.npy']
    """
    who = "write_layout"
    kind = check_choice(style, "style", who, STYLES)
    if not isinstance(lists, InvertedLists):
        raise InputError(
            f"`lists` of {who} must be what inverted_lists returned; got {type(lists).__name__}. Call it first."
        )
    place = Path(check_path(folder, who))
    place.mkdir(parents=True, exist_ok=True)
    files = _WRITERS[kind](place, lists)
    if codebooks is not None:
        files["codebooks.npy"] = "(L, C, D) float32: a row is about its centroid plus one entry of each level"
        _write_array(place / "codebooks.npy", codebooks.codebooks)
    facts = {
        "format": f"armillary.layout.{kind}",
        "metric": "inner product of unit vectors (cosine)",
        "n_lists": len(lists.centroids),
        "n_features": int(lists.centroids.shape[1]),
        "n_rows": len(lists.ids),
        "files": files,
    }
    with whole_file(place / "layout.json", who) as stream:
        stream.write((json.dumps(facts, indent=2) + "\n").encode())


def _write_array(path: Path, array: npt.NDArray[Any]) -> None:
    with whole_file(path, "write_layout") as stream:
        np.lib.format.write_array(stream, np.ascontiguousarray(array), allow_pickle=False)


def _write_faiss(place: Path, lists: InvertedLists) -> dict[str, str]:
    _write_array(place / "centroids.npy", lists.centroids)
    _write_array(place / "offsets.npy", lists.offsets)
    _write_array(place / "ids.npy", lists.ids)
    return {
        "centroids.npy": "(K, D) float32: add to an IndexFlatIP, the quantiser of an IndexIVFFlat",
        "offsets.npy": "(K + 1,) int64: list k is ids[offsets[k]:offsets[k + 1]]",
        "ids.npy": "(n,) int64: numbers of rows, list after list",
    }


def _write_lance(place: Path, lists: InvertedLists) -> dict[str, str]:
    partitions = np.full(int(lists.ids.max(initial=-1)) + 1, -1, dtype=np.int32)
    partitions[lists.ids] = np.repeat(np.arange(len(lists.centroids)), np.diff(lists.offsets))
    _write_array(place / "ivf_centroids.npy", lists.centroids)
    _write_array(place / "partitions.npy", partitions)
    return {
        "ivf_centroids.npy": "(K, D) float32: create_index(..., metric='cosine', num_partitions=K, ivf_centroids=...)",
        "partitions.npy": "(n,) int32: the partition of each row, -1 for none",
    }


def _write_pgvector(place: Path, lists: InvertedLists) -> dict[str, str]:
    n_features = lists.centroids.shape[1]
    with whole_file(place / "centroids.tsv", "write_layout") as stream:
        for number, row in enumerate(lists.centroids):
            stream.write(f"{number}\t[{','.join(str(value) for value in row)}]\n".encode())
    with whole_file(place / "lists.tsv", "write_layout") as stream:
        for number in range(len(lists.centroids)):
            stream.write("".join(f"{row}\t{number}\n" for row in lists.members(number)).encode())
    with whole_file(place / "tables.sql", "write_layout") as stream:
        stream.write(
            f"CREATE TABLE centroids (list integer PRIMARY KEY, direction vector({n_features}));\n"
            "CREATE TABLE lists (row_number bigint PRIMARY KEY, list integer REFERENCES centroids);\n"
            "\\copy centroids FROM 'centroids.tsv'\n\\copy lists FROM 'lists.tsv'\n"
            "CREATE INDEX ON lists (list);\n".encode()
        )
    return {
        "centroids.tsv": "list, direction: for COPY",
        "lists.tsv": "row_number, list: for COPY",
        "tables.sql": "the tables, and how they are filled",
    }


_WRITERS: dict[str, Callable[[Path, InvertedLists], dict[str, str]]] = {
    "faiss": _write_faiss,
    "lance": _write_lance,
    "pgvector": _write_pgvector,
}
