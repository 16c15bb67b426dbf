"""From data to a file: look at the rows, place them, draw, write."""

from __future__ import annotations

import os

import numpy as np
import numpy.typing as npt

from armillary._typing import Float64Array, IntArray
from armillary.durable.whole import whole_file
from armillary.engines.contract import Numbered
from armillary.engines.select import open_passes
from armillary.exceptions import InputError, InputTypeError
from armillary.points import as_points
from armillary.report.atlas import make_atlas
from armillary.report.clusters import ClusterFacts, cluster_facts, largest
from armillary.report.content import ReportData, RowNames
from armillary.report.findings import Findings
from armillary.report.flat_map import make_flat_map
from armillary.report.page import page
from armillary.validation import check_integer, has_direction
from armillary.vision.images import thumbnail_address

_WHO = "write_report"
_MAX_POINTS = 100_000
_MOST_PICTURES = 400
# Rows of each cluster that the table names, fewer where there are very many clusters; all of them are drawn.
_N_NAMED, _N_NAMED_OF_MANY, _MANY_CLUSTERS = 3, 1, 200


def write_report(
    path: str | os.PathLike[str], data: ReportData, *, max_points: int = _MAX_POINTS, n_threads: int | None = None
) -> None:
    """Write a report of a clustering as one HTML file that needs no network and no other file.

    The page has the clusters on a sphere that can be turned, a table of them with their most central and most doubtful
    rows, the angles between them, silhouettes, how their number was chosen, and how to make them again. Without
    JavaScript it shows the same as pictures and tables. Words from the data are escaped: they are never markup.

    Parameters
    ----------
    path : str or os.PathLike
        An existing file is replaced, when the new one is complete.
    data : ReportData
    max_points : int, default=100_000
        Of more rows than this, about this many are drawn, evenly spaced; the facts are of all rows.
    n_threads : int or None, default=None
        Threads; None takes every core. The page does not depend on it.

    Raises
    ------
    InputError
        The rows, labels, ids or texts do not fit together.
    OSError
        The file cannot be written.

    Examples
    --------
    >>> from armillary import SphericalKMeans
    >>> from armillary.datasets import make_vmf_mixture
    >>> from armillary.report import ReportData, write_report
    >>> X, _, _ = make_vmf_mixture(1000, 3, 5, concentration=100.0, random_state=0)
    >>> model = SphericalKMeans(5, random_state=0).fit(X)
    >>> write_report("report.html", ReportData(X, model.labels_, model, title="Five caps"))  # doctest: +SKIP
    """
    if not isinstance(data, ReportData):
        raise InputTypeError(
            f"`data` of {_WHO} must be a ReportData; got {type(data).__name__}. Use ReportData(X, labels)."
        )
    write_page(path, data, max_points=check_integer(max_points, "max_points", _WHO, low=1), n_threads=n_threads)


def write_page(
    path: str | os.PathLike[str],
    data: ReportData,
    *,
    max_points: int = _MAX_POINTS,
    n_threads: int | None = None,
    facts: ClusterFacts | None = None,
) -> None:
    """The same, where the facts of all clusters, of the rows with a direction, may be known already."""
    text = page(data, _findings(data, max_points, n_threads, facts))
    with whole_file(path, _WHO) as stream:
        # a lone surrogate, which text from files can hold, becomes a question mark
        stream.write(text.encode("utf-8", "replace"))


def _findings(data: ReportData, max_points: int, n_threads: int | None, facts: ClusterFacts | None) -> Findings:
    """Everything that the page says of the rows."""
    matrix = data.matrix()
    labels = data.checked_labels(matrix.shape[0])
    data.check_lengths(matrix.shape[0])
    is_shown = has_direction(matrix)
    if not is_shown.any():
        raise InputError(
            f"X of {_WHO} must have a row with a direction; all {len(is_shown)} are zero or not finite. "
            "Give the rows that were clustered."
        )
    rows = np.flatnonzero(is_shown)
    points = as_points(matrix if is_shown.all() else matrix[rows], _WHO)
    with open_passes(points, n_threads, _WHO) as passes:
        facts = cluster_facts(passes, labels[rows]) if facts is None else largest(passes, facts)
        n_named = _N_NAMED if len(facts.names) <= _MANY_CLUSTERS else _N_NAMED_OF_MANY
        central = facts.central_rows(n_named)
        doubtful = [
            np.setdiff1d(found, near, assume_unique=True)[:n_named]
            for found, near in zip(facts.doubtful_rows(2 * n_named), central, strict=True)
        ]
        drawn = _drawn(points.n_rows, max_points, np.concatenate([*central, *doubtful, np.empty(0, dtype=np.int64)]))
        over = passes if len(drawn) == points.n_rows else passes.over(Numbered(drawn))
        atlas = make_atlas(over, facts.centers)
        flat = make_flat_map(data.map, over, rows[drawn], matrix.shape[0])
    membership = data.checked_membership()
    coarse, n_fine = _levels(data, rows, facts)
    return Findings(
        n_rows=matrix.shape[0],
        n_features=matrix.shape[1],
        is_sparse=points.is_sparse,
        rows=rows,
        n_out=int((labels < 0).sum()),
        facts=facts,
        atlas=atlas,
        drawn=drawn,
        central=central,
        doubtful=doubtful,
        names=RowNames.of(data),
        words=data.cluster_words(facts.names),
        purities=_majorities(data, rows, facts),
        membership=None if membership is None else membership[rows],
        coarse=coarse,
        n_fine=n_fine,
        flat=flat,
        thumbnails=_thumbnails(data, rows, drawn, [*central, *doubtful]),
    )


def _levels(data: ReportData, rows: IntArray, facts: ClusterFacts) -> tuple[IntArray | None, IntArray | None]:
    """The coarse group of each cluster, by most of its rows, and how many fine parts it has."""
    given = {name: np.asarray(labels)[rows] for name, labels in (data.levels or {}).items()}
    is_member = facts.codes >= 0
    codes, n = facts.codes[is_member].astype(np.int64), len(facts.names)
    coarse, n_fine = None, None
    if "coarse" in given:
        known, groups = np.unique(given["coarse"][is_member], return_inverse=True)
        counts = np.zeros((n, len(known)), dtype=np.int64)
        np.add.at(counts, (codes, groups), 1)
        coarse = known[counts.argmax(axis=1)] if counts.size else None
    if "fine" in given:
        pairs = np.unique(np.column_stack([codes, given["fine"][is_member]]), axis=0)
        n_fine = np.bincount(pairs[:, 0], minlength=n)
    return coarse, n_fine


def _thumbnails(data: ReportData, rows: IntArray, drawn: IntArray, named: list[IntArray]) -> dict[int, str]:
    """Small pictures of the rows that the table names, and of others evenly spaced, by place among those drawn."""
    if data.images is None:
        return {}
    paths = list(data.images)
    place = {int(row): number for number, row in enumerate(drawn)}
    first = [int(row) for part in named for row in part]
    others = [
        int(drawn[number]) for number in np.arange(min(len(drawn), _MOST_PICTURES)) * len(drawn) // _MOST_PICTURES
    ]
    chosen = list(dict.fromkeys([*first, *others]))[:_MOST_PICTURES]
    return {place[row]: thumbnail_address(paths[int(rows[row])]) for row in chosen if paths[int(rows[row])]}


def _drawn(n_rows: int, max_points: int, named: IntArray) -> npt.NDArray[np.int64]:
    """Row numbers to draw: all of few, else some that are evenly spaced, and those that the table names."""
    if n_rows <= max_points:
        return np.arange(n_rows)
    return np.union1d(np.arange(max_points) * n_rows // max_points, named).astype(np.int64)


def _majorities(data: ReportData, rows: IntArray, facts: ClusterFacts) -> list[tuple[str, float]] | None:
    """The class that most rows of each cluster have, and their share; None where no truth is known."""
    if data.truth is None:
        return None
    values = [str(value) for value in np.asarray(data.truth)[rows]]
    classes, codes = np.unique(values, return_inverse=True)
    is_member = facts.codes >= 0
    cells = facts.codes[is_member].astype(np.int64) * len(classes) + codes[is_member]
    found, counts = np.unique(cells, return_counts=True)
    best: dict[int, tuple[str, float]] = {}
    for cell, count in zip(found, counts, strict=True):
        cluster, kind = divmod(int(cell), len(classes))
        share: Float64Array = count / facts.sizes[cluster]
        if cluster not in best or share > best[cluster][1]:
            best[cluster] = (str(classes[kind]), float(share))
    return [best[cluster] for cluster in range(len(facts.names))]
