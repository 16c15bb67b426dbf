"""From data to a file: look at the rows, place them, draw, write."""

from __future__ import annotations

import os
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from armillary._typing import Float64Array, IntArray
from armillary.exceptions import InputError, InputTypeError
from armillary.fitting.passes import Passes
from armillary.fitting.workers import Workers, thread_count
from armillary.kernels.select import kernels_for
from armillary.persistence.whole import whole_file
from armillary.points import as_points
from armillary.report.atlas import make_atlas
from armillary.report.clusters import ClusterFacts, cluster_facts
from armillary.report.content import ReportData, RowNames, has_direction
from armillary.report.findings import Findings
from armillary.report.page import page
from armillary.validation import check_integer

_WHO = "write_report"
# Rows of each cluster that the table names, fewer where there are very many clusters; all of them are drawn.
_N_NAMED, _N_NAMED_OF_MANY, _MANY_CLUSTERS = 3, 1, 200


def write_report(
    path: str | os.PathLike[str], data: ReportData, *, max_points: int = 100_000, n_threads: int | None = None
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
    max_points = check_integer(max_points, "max_points", _WHO, low=1)
    text = page(data, _findings(data, max_points, n_threads))
    with whole_file(path, _WHO) as stream:
        # a lone surrogate, which text from files can hold, becomes a question mark
        stream.write(text.encode("utf-8", "replace"))


def _findings(data: ReportData, max_points: int, n_threads: int | None) -> Findings:
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
    with Workers(thread_count(n_threads, _WHO)) as workers:
        passes = Passes(points, kernels_for("cpu"), workers)
        facts = cluster_facts(passes, labels[rows])
        n_named = _N_NAMED if len(facts.names) <= _MANY_CLUSTERS else _N_NAMED_OF_MANY
        central = facts.central_rows(n_named)
        doubtful = [
            np.setdiff1d(found, near, assume_unique=True)[:n_named]
            for found, near in zip(facts.doubtful_rows(2 * n_named), central, strict=True)
        ]
        drawn = _drawn(points.n_rows, max_points, np.concatenate([*central, *doubtful, np.empty(0, dtype=np.int64)]))
        over = passes if len(drawn) == points.n_rows else passes.over(replace(points.take(drawn), weights=None))
        atlas = make_atlas(over, facts.centers)
    return Findings(
        n_rows=matrix.shape[0],
        n_features=matrix.shape[1],
        is_sparse=points.is_sparse,
        rows=rows,
        facts=facts,
        atlas=atlas,
        drawn=drawn,
        central=central,
        doubtful=doubtful,
        names=RowNames.of(data),
        purities=_majorities(data, rows, facts),
    )


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
