"""What was found out about the rows: all that the page is made of, apart from the user's words."""

from __future__ import annotations

from dataclasses import dataclass

from armillary._typing import IntArray
from armillary.report.atlas import Atlas
from armillary.report.clusters import ClusterFacts
from armillary.report.content import RowNames


@dataclass(frozen=True, eq=False)
class Findings:
    """What was found out about the rows."""

    n_rows: int
    n_features: int
    is_sparse: bool
    rows: IntArray  # (n,) numbers of the rows that have a direction: what `facts` counts
    facts: ClusterFacts
    atlas: Atlas  # of the rows drawn
    drawn: IntArray  # (m,) which of `rows` those are
    central: list[IntArray]  # of each cluster, among `rows`
    doubtful: list[IntArray]
    names: RowNames
    purities: list[tuple[str, float]] | None  # the main class of each cluster and its share
