"""Names of clusters on the command line: from texts or a vocabulary, or as the user wrote them in a file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from armillary.exceptions import InputError
from armillary.files.vectors import Vectors
from armillary.files.words import read_cluster_names, read_words
from armillary.naming import ClusterNames, name_clusters
from armillary.report.clusters import ClusterFacts
from armillary.validation import has_direction

# Representative rows of each cluster in summary.json, and words.
_SHOWN, _MOST_WORDS = 3, 7


@dataclass(frozen=True)
class NameRequest:
    """What the options say about names."""

    label_names: str | None = None  # a file
    vocabulary: str | None = None  # a file


def named_clusters(
    request: NameRequest, vectors: Vectors, labels: npt.NDArray[Any], facts: ClusterFacts | None
) -> ClusterNames | None:
    """Names with words and representatives; None where nothing is known that could name a cluster."""
    vocabulary = vectors.vocabulary if request.vocabulary is None else _vocabulary(request.vocabulary, vectors)
    found: ClusterNames | None = None
    whole = np.asarray(labels)
    if vectors.texts is not None:
        found = name_clusters(whole, texts=vectors.texts, n_representatives=0)
    elif vocabulary is not None:
        found = name_clusters(whole, X=vectors.rows, vocabulary=vocabulary, n_representatives=0)
    if request.label_names is not None:
        found = _renamed(found, read_cluster_names(request.label_names), whole)
    if found is None or facts is None:
        return found
    return replace(found, representatives=_representatives(facts, vectors))


def _vocabulary(path: str, vectors: Vectors) -> Sequence[str]:
    return read_words(path, vectors.n_features, "words for the columns", {"word", "words", "term", "token"})


def _renamed(found: ClusterNames | None, given: Mapping[int, str], labels: npt.NDArray[Any]) -> ClusterNames:
    """Names that the user gave; clusters without one keep theirs."""
    known = [int(label) for label in np.unique(labels) if label >= 0]
    unknown = [label for label in given if label not in set(known)]
    if unknown:
        raise InputError(
            f"--label-names must name clusters that are there, {known[0] if known else 'none'} to "
            f"{known[-1] if known else 'none'}; got {unknown[0]}. Run without it once to see the clusters."
        )
    names = {label: given.get(label) or (found.names.get(label, "") if found else "") for label in known}
    words = {label: found.words[label] if found else [] for label in known}
    return ClusterNames(names, words, {}, "given by the user")


def _representatives(facts: ClusterFacts, vectors: Vectors) -> dict[int, npt.NDArray[Any]]:
    """The rows nearest to each centre, by their numbers among all rows."""
    rows = np.flatnonzero(has_direction(vectors.rows))
    central = facts.central_rows(_SHOWN)
    return {int(name): rows[found] for name, found in zip(facts.names, central, strict=True)}


def add_names(lines: list[dict[str, Any]], names: ClusterNames | None, vectors: Vectors, *, keeps_texts: bool) -> None:
    """Name, words and representative rows into each cluster's line of summary.json."""
    if names is None:
        return
    for line in lines:
        label = line["cluster"]
        line["name"] = names.names.get(label, "")
        line["words"] = [word for word, _ in names.words.get(label, [])[:_MOST_WORDS]]
        line["representatives"] = [
            _told_row(int(row), vectors, keeps_texts=keeps_texts) for row in names.representatives.get(label, ())
        ]


def _told_row(row: int, vectors: Vectors, *, keeps_texts: bool) -> dict[str, Any]:
    told: dict[str, Any] = {"row": row}
    if vectors.ids is not None:
        told["id"] = vectors.ids[row]
    if vectors.texts is not None and keeps_texts:
        told["text"] = vectors.texts[row]
    return told
