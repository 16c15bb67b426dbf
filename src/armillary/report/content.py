"""What a report is about: rows, their clusters, and the words that go with them; checked once, here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from armillary._typing import ArrayLike, Float64Array, IntArray
from armillary.exceptions import InputError
from armillary.validation import as_matrix

_WHO = "write_report"
_MOST_WORD_LETTERS = 60  # of a cluster's name


@dataclass(eq=False)
class ReportData:
    """Everything `write_report` shows. Only `X` and `labels` are needed.

    Parameters
    ----------
    X : array-like or CSR matrix of shape (n, D)
        The rows that were clustered. Rows without a direction (NaN, or all zeros) are counted and not drawn.
    labels : array of int of shape (n,)
        The cluster of each row; -1 is noise. Any numbers will do, ids of a stream too.
    model : fitted estimator, optional
        Named in the headline, with its parameters.
    title : str
    ids, texts : sequences of n strings, optional
        What the page calls a row: by default its number, counted from 0.
    truth : array of shape (n,), optional
        Known classes, any hashable values; the page then says how well the clusters agree with them.
    choice : object, optional
        How the model was chosen: what `choose_model`, `select_max_angle` or `find_max_angle` returned (`reason`,
        `table`, `criterion`).
    timings : mapping from a step to its seconds
    command, snippet : str, optional
        The command line and the Python lines that make the same clusters again.
    notes : sequence of str
        Sentences for the top of the page.
    names : mapping from a label to its name, optional
        What the page calls a cluster beside its number, e.g. what `name_clusters` returned.
    membership : array of shape (n,), optional
        How surely each row belongs to its cluster, in [0, 1].
    levels : mapping from "coarse" and "fine" to labels (n,), optional
        Groups that the clusters are in, and parts that they fall into.
    map : {"umap", "pacmap"} or array of shape (n, 2), optional
        A flat map beside the sphere: by a library that must be installed, or the places of all rows.
    images : sequence of n paths, optional
        Pictures of the rows. Small copies of some are put into the page (needs the extra "vision").

    Examples
    --------
    >>> import numpy as np
    >>> from armillary.report import ReportData
    >>> data = ReportData(np.eye(3), [0, 0, 1], names={0: "first"})
    >>> data.cluster_words([0, 1])
    ['first', '']
    """

    X: Any
    labels: ArrayLike
    model: Any = None
    title: str = "Clusters"
    ids: Sequence[Any] | None = None
    texts: Sequence[Any] | None = None
    truth: ArrayLike | None = None
    choice: Any = None
    timings: Mapping[str, float] = field(default_factory=dict)
    command: str | None = None
    snippet: str | None = None
    notes: Sequence[str] = ()
    names: Mapping[int, str] | None = None
    membership: ArrayLike | None = None
    levels: Mapping[str, ArrayLike] | None = None
    map: Any = None
    images: Sequence[Any] | None = None

    def matrix(self) -> Any:
        """X as a 2-D array or CSR matrix; its values are not looked at.

        Returns
        -------
        array or CSR matrix of shape (n, D)
            X.
        """
        return as_matrix(self.X, _WHO)

    def checked_labels(self, n_rows: int) -> IntArray:
        """The labels as int64 (n,).

        Parameters
        ----------
        n_rows : int
            Of X.

        Returns
        -------
        array of shape (n,), int64
            Labels.
        """
        values = np.asarray(self.labels)
        if values.shape != (n_rows,) or values.dtype.kind not in "iu":
            raise InputError(
                f"`labels` of {_WHO} must be ints of shape ({n_rows},), one per row of X; got {values.dtype} of shape "
                f"{values.shape}. Give `model.labels_` or `model.predict(X)`."
            )
        if values.min() < -1:
            raise InputError(f"`labels` of {_WHO} must be -1 (noise) or more; got {values.min()}. Give noise -1.")
        return values.astype(np.int64)

    def checked_membership(self) -> Float64Array | None:
        """The membership as numbers in [0, 1] (n,), NaN where there is none.

        Returns
        -------
        array of shape (n,) or None
            None where none was given.
        """
        if self.membership is None:
            return None
        try:
            values = np.asarray(self.membership, dtype=np.float64)
        except (TypeError, ValueError):
            values = np.full(1, np.inf)
        known = values[~np.isnan(values)]
        if values.ndim != 1 or (len(known) and (known.min() < 0.0 or known.max() > 1.0)):
            raise InputError(
                f"`membership` of {_WHO} must be numbers from 0 to 1, one per row; got others. Give "
                "`model.membership_`."
            )
        return values

    def cluster_words(self, labels: IntArray) -> list[str]:
        """The names of clusters, on one line; empty where they have none.

        Parameters
        ----------
        labels : array of int of shape (K,)
            Of the clusters.

        Returns
        -------
        list of str
            One for each label.
        """
        known = self.names or {}
        return [shortened(one_line(known.get(int(label), "")), _MOST_WORD_LETTERS) for label in labels]

    def check_lengths(self, n_rows: int) -> None:
        """Refuse ids, texts or classes that are not one per row.

        Parameters
        ----------
        n_rows : int
            Of X.
        """
        beside = {name: getattr(self, name) for name in ("ids", "texts", "truth", "membership", "images")}
        beside |= {f"levels[{name!r}]": labels for name, labels in (self.levels or {}).items()}
        for name, given in beside.items():
            if given is not None and len(given) != n_rows:
                raise InputError(
                    f"`{name}` of {_WHO} must have one entry per row of X, {n_rows}; got {len(given)}. "
                    "Give them in the order of the rows."
                )


@dataclass(frozen=True, slots=True)
class RowNames:
    """What the page calls each row."""

    ids: list[Any] | None
    texts: list[Any] | None

    @classmethod
    def of(cls, data: ReportData) -> RowNames:
        """By place, whatever index a column of a table has."""
        return cls(*(None if words is None else list(words) for words in (data.ids, data.texts)))

    def id_of(self, row: int) -> str:
        """The user's id, or the row's number."""
        return f"row {row}" if self.ids is None else one_line(self.ids[row])

    def text_of(self, row: int) -> str:
        """The user's text on one line; empty where there is none."""
        return "" if self.texts is None else one_line(self.texts[row])


def one_line(value: Any) -> str:
    """The words of a value with single spaces between them; none of what is missing."""
    is_missing = value is None or (isinstance(value, float) and value != value)
    return "" if is_missing else " ".join(str(value).split())


def shortened(text: str, n_letters: int) -> str:
    """At most `n_letters` of a text, with a sign where it was cut."""
    return text if len(text) <= n_letters else text[: n_letters - 1].rstrip() + "…"
