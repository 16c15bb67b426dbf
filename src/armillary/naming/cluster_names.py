"""`name_clusters`: a few words for each cluster, and the rows that stand for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from armillary._typing import ArrayLike, Float64Array, IntArray
from armillary.exceptions import InputError, InputTypeError
from armillary.naming.telling_words import Words, first_forms, sampled_documents, telling_words, word_presence
from armillary.validation import as_matrix, check_integer, unit_matrix

_WHO = "name_clusters"
# More words than a name has are found, so that clusters with equal first words get different names.
_SPARE_WORDS = 4
# Items looked at for each word of a name: forms of one word count once.
_LOOKED_AT = 5

Namer = Callable[[int, list[str], list[Any]], str]


@dataclass(frozen=True, eq=False, repr=False)
class ClusterNames(Mapping[int, str]):
    """Names by label, as a mapping: `names[3]`. Noise (-1) has none.

    Examples
    --------
    >>> from armillary import name_clusters
    >>> texts = ["a late parcel", "my parcel is late", "refund to my card", "the card refund"]
    >>> names = name_clusters([0, 0, 1, 1], texts=texts)
    >>> names.of_rows([1, 0, -1])
    ['card, refund', 'late, parcel', '']
    """

    names: dict[int, str]
    words: dict[int, list[tuple[str, float]]]  # by falling weight
    representatives: dict[int, IntArray]  # numbers of rows, the most typical first
    source: str  # what the words come from, in words

    def __getitem__(self, label: int) -> str:
        return self.names[int(label)]

    def __iter__(self) -> Iterator[int]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)

    def of_rows(self, labels: ArrayLike) -> list[str]:
        """The name of each row's cluster; empty for noise and labels that are not known.

        Parameters
        ----------
        labels : array of int of shape (n,)

        Returns
        -------
        list of n str
            Names.
        """
        return [self.names.get(int(label), "") for label in np.asarray(labels)]

    def __repr__(self) -> str:
        return f"ClusterNames({self.names})"

    def __str__(self) -> str:
        """A line for each cluster."""
        width = max((len(str(label)) for label in self.names), default=0)
        return "\n".join(f"{label:>{width}}  {name}" for label, name in self.names.items())

    def _repr_html_(self) -> str:
        """A table for notebooks."""
        lines = "".join(f"<tr><th>{label}</th><td>{escape(name)}</td></tr>" for label, name in self.names.items())
        return f"<table><thead><tr><th>cluster</th><th>name</th></tr></thead><tbody>{lines}</tbody></table>"


def name_clusters(
    labels: ArrayLike,
    *,
    texts: Sequence[Any] | None = None,
    X: Any = None,
    vocabulary: Sequence[str] | None = None,
    items: tuple[Sequence[str], Any] | None = None,
    namer: Namer | None = None,
    n_words: int = 3,
    n_representatives: int = 3,
) -> ClusterNames:
    """Words for clusters.

    Words come from the first of these that is given: the texts of the rows; the columns of sparse rows, whose words the
    vocabulary has; known items with vectors in the space of the rows. A word is weighed by how common it is in a
    cluster's rows and by how much less common it is in all rows; forms of one word count once. Items are the nearest to
    the cluster's centre.

    Parameters
    ----------
    labels : array of int of shape (n,)
        The cluster of each row; -1 is noise and gets no name.
    texts : sequence of n strings, optional
        What the rows say. At most 1,000 of each cluster are looked at, evenly spaced. None and NaN are empty.
    X : array-like or CSR matrix of shape (n, D), optional
        The rows. They are needed for a vocabulary and for items, and choose representatives where they are given.
    vocabulary : sequence of D strings, optional
        What each column of X counts or weighs.
    items : (names, vectors), optional
        m strings and an array-like or CSR matrix of shape (m, D).
    namer : callable, optional
        `namer(label, words, representatives) -> str` makes the name from the words, and from the texts of the
        representatives (their row numbers where there are no texts). A model of language may be asked here.
    n_words : int, default=3
        Words in a name; one more where two clusters would be called alike.
    n_representatives : int, default=3
        Rows that stand for a cluster: those nearest to its centre, or by texts alone those with most of its words.

    Returns
    -------
    names : ClusterNames
        A mapping from label to name, with `words`, `representatives` and `source`.

    Raises
    ------
    InputError
        What is given does not fit together.

    Examples
    --------
    >>> from armillary import name_clusters
    >>> texts = ["the card was declined", "my card is lost", "exchange rate of today", "a bad exchange rate"]
    >>> names = name_clusters([0, 0, 1, 1], texts=texts)
    >>> print(names)
    0  card, declined, lost
    1  exchange, rate, bad
    """
    codes, found = _checked_labels(labels)
    n_words = check_integer(n_words, "n_words", _WHO, low=1)
    n_rows = len(codes)
    said = None if texts is None else _checked_words(texts, n_rows, "texts")
    matrix = None if X is None else _checked_rows(X, n_rows)
    weighed, source, by_words = _weighed(codes, found, said, matrix, vocabulary, items, n_words + _SPARE_WORDS)
    shown = _representatives(
        codes, len(found), matrix, by_words, check_integer(n_representatives, "n_representatives", _WHO, low=0)
    )
    names = _joined(weighed, n_words)
    if namer is not None:
        names = [_named(namer, int(found[k]), weighed[k], shown[k], said) for k in range(len(found))]
    keys = [int(label) for label in found]
    return ClusterNames(
        dict(zip(keys, names, strict=True)),
        dict(zip(keys, weighed, strict=True)),
        dict(zip(keys, shown, strict=True)),
        source,
    )


# ------------------------------------------------------------------------------------------------------- the gate


def _checked_labels(labels: ArrayLike) -> tuple[npt.NDArray[np.int64], IntArray]:
    """The place of each row's label among those found, -1 for noise, and the labels found, increasing."""
    try:
        values = np.asarray(labels)
    except ValueError:
        values = np.empty(())
    if values.ndim != 1 or values.dtype.kind not in "iu" or not len(values):
        raise InputError(
            f"`labels` of {_WHO} must be ints of shape (n,), one per row; got {values.dtype} of shape {values.shape}. "
            "Give `model.labels_`."
        )
    found, codes = np.unique(values, return_inverse=True)
    n_noise = int(np.count_nonzero(found < 0)) if values.dtype.kind == "i" else 0
    return np.where(codes >= n_noise, codes - n_noise, -1).astype(np.int64), found[n_noise:]


def _checked_words(words: Any, n: int, what: str) -> list[str]:
    """n strings; what is missing is empty."""
    if isinstance(words, str | bytes | Mapping) or not hasattr(words, "__len__") or np.ndim(words) == 0:
        raise InputTypeError(
            f"`{what}` of {_WHO} must be a sequence of {n} strings; got {type(words).__name__}. Give a list, an array "
            "or a column of a table."
        )
    if len(words) != n:
        raise InputError(
            f"`{what}` of {_WHO} must have {n} entries; got {len(words)}. Give them in the order of the "
            f"{'columns' if what == 'vocabulary' else 'rows'}."
        )
    return ["" if word is None or word != word else str(word) for word in list(words)]


def _checked_rows(X: Any, n_rows: int) -> Any:
    matrix = as_matrix(X, _WHO)
    if matrix.shape[0] != n_rows:
        raise InputError(
            f"X of {_WHO} must have a row for each of the {n_rows} labels; got {matrix.shape[0]}. Give the rows that "
            "were clustered."
        )
    return matrix


# ------------------------------------------------------------------------------------------------ words and items


def _weighed(
    codes: npt.NDArray[np.int64],
    found: IntArray,
    texts: list[str] | None,
    matrix: Any,
    vocabulary: Sequence[str] | None,
    items: tuple[Sequence[str], Any] | None,
    n_words: int,
) -> tuple[list[Words], str, tuple[IntArray, sp.csr_array] | None]:
    """Words of each cluster, where they come from, and which rows have which (where no rows are given)."""
    if texts is None and (vocabulary is not None or items is not None) and matrix is None:
        raise InputError(
            f"X of {_WHO} must be given with {'a vocabulary' if vocabulary is not None else 'items'}; got none. Give "
            "the rows that were clustered."
        )
    sizes = np.bincount(codes[codes >= 0], minlength=len(found))
    if texts is not None:
        rows = sampled_documents(codes)
        presence, words = word_presence([texts[row] for row in rows])
        return telling_words(presence, words, codes[rows], sizes, n_words), "words of the texts", (rows, presence)
    if vocabulary is not None:
        words = _checked_words(vocabulary, matrix.shape[1], "vocabulary")
        rows = sampled_documents(codes)
        presence = sp.csr_array(sp.csr_array(matrix[rows]) > 0).astype(np.float64)
        return telling_words(presence, words, codes[rows], sizes, n_words), "words of the vocabulary", None
    if items is not None:
        return _nearest_items(codes, len(found), matrix, items, n_words), "nearest known items", None
    raise InputError(
        f"{_WHO} needs `texts`, or X with a `vocabulary` or with `items`; got none of them. Give what the rows say."
    )


def _nearest_items(codes: npt.NDArray[np.int64], n_clusters: int, matrix: Any, items: Any, n_words: int) -> list[Words]:
    try:
        names, vectors = items
    except (TypeError, ValueError):
        raise InputTypeError(
            f"`items` of {_WHO} must be a pair (names, vectors); got {type(items).__name__}. Give both."
        ) from None
    known = unit_matrix(as_matrix(vectors, _WHO, matrix.shape[1], what="The vectors of items"), _WHO, "items")
    words = _checked_words(names, known.shape[0], "items")
    cosines = np.asarray((known @ _centers(codes, n_clusters, matrix).T).T)
    order = np.argsort(-np.round(cosines, 12), axis=1, kind="stable")[:, : _LOOKED_AT * n_words]
    return [
        first_forms(((words[place], float(cosines[k, place])) for place in order[k]), n_words)
        for k in range(n_clusters)
    ]


def _centers(codes: npt.NDArray[np.int64], n_clusters: int, matrix: Any) -> Float64Array:
    """Directions of the sums of each cluster's rows (K, D), 0 where they cancel."""
    members = np.flatnonzero(codes >= 0)
    unit = _unit_or_zero(matrix[members])
    which = sp.csr_array((np.ones(len(members)), (codes[members], np.arange(len(members)))), (n_clusters, len(members)))
    sums = which @ unit
    dense = np.asarray(sums.toarray() if isinstance(sums, sp.csr_array) else sums)
    lengths = np.linalg.norm(dense, axis=1, keepdims=True)
    return dense / np.where(lengths > 0.0, lengths, 1.0)


def _unit_or_zero(rows: Any) -> sp.csr_array | Float64Array:
    """Unit rows; those without a direction are 0, and weigh nothing."""
    if sp.issparse(rows):
        values: Any = sp.csr_array(rows.astype(np.float64))  # type: ignore[attr-defined]
        values.data = np.nan_to_num(values.data, posinf=0.0, neginf=0.0)
        return sp.csr_array(sp.diags_array(_inverse(np.asarray(values.power(2).sum(axis=1)).ravel())) @ values)
    dense = np.nan_to_num(np.asarray(rows, dtype=np.float64), posinf=0.0, neginf=0.0)
    return dense * _inverse(np.vecdot(dense, dense))[:, None]


def _inverse(squares: Float64Array) -> Float64Array:
    """One over the lengths; 1 where there is none."""
    return 1.0 / np.sqrt(np.where((squares > 0.0) & np.isfinite(squares), squares, 1.0))


def _joined(weighed: list[Words], n_words: int) -> list[str]:
    """Names: the first words; one more, as long as there is one, where two would be alike."""
    lengths = [n_words] * len(weighed)
    while True:
        names = [", ".join(word for word, _ in words[:n]) for words, n in zip(weighed, lengths, strict=True)]
        twice = {name for name in names if names.count(name) > 1} if len(set(names)) < len(names) else set()
        longer = [k for k, name in enumerate(names) if name in twice and lengths[k] < len(weighed[k])]
        if not longer:
            return names
        for k in longer:
            lengths[k] += 1


def _named(namer: Namer, label: int, words: Words, rows: IntArray, texts: list[str] | None) -> str:
    name = namer(label, [word for word, _ in words], [int(row) if texts is None else texts[row] for row in rows])
    if not isinstance(name, str):
        raise InputTypeError(
            f"`namer` of {_WHO} must return a string; it returned {type(name).__name__} for cluster {label}. Return "
            "the name alone."
        )
    return name


# ------------------------------------------------------------------------------------------------ representatives


def _representatives(
    codes: npt.NDArray[np.int64],
    n_clusters: int,
    matrix: Any,
    by_words: tuple[IntArray, sp.csr_array] | None,
    n_rows: int,
) -> list[IntArray]:
    """Rows of each cluster that are nearest to its centre, nearest first."""
    if matrix is not None:
        rows: IntArray = np.flatnonzero(codes >= 0)
        values = matrix[rows]
    elif by_words is not None and by_words[1].shape[1]:
        rows, presence = by_words
        # rare words tell more
        rarity = np.log((len(rows) + 1.0) / (np.asarray(presence.sum(axis=0)).ravel() + 1.0))
        values = sp.csr_array(presence @ sp.diags_array(rarity))
    else:
        return [np.flatnonzero(codes == k)[:n_rows] for k in range(n_clusters)]
    near = _nearness(codes[rows], n_clusters, values)
    order = np.lexsort((rows, -np.round(near, 12), codes[rows]))
    starts = np.searchsorted(codes[rows][order], np.arange(n_clusters + 1))
    return [rows[order[starts[k] : min(starts[k] + n_rows, starts[k + 1])]] for k in range(n_clusters)]


def _nearness(codes: npt.NDArray[np.int64], n_clusters: int, rows: Any) -> Float64Array:
    """The cosine of each row with its cluster's centre."""
    centers, unit = _centers(codes, n_clusters, rows), _unit_or_zero(rows)
    near = np.empty(len(codes))
    for k in range(n_clusters):
        own = np.flatnonzero(codes == k)
        near[own] = np.asarray(unit[own] @ centers[k]).ravel()
    return near
