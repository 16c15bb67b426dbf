"""What was found out about the rows: all that the page is made of, apart from the user's words."""

from __future__ import annotations

from dataclasses import dataclass, field

from armillary._typing import Float64Array, IntArray
from armillary.report.atlas import Atlas
from armillary.report.clusters import ClusterFacts
from armillary.report.content import RowNames
from armillary.report.flat_map import FlatMap


@dataclass(frozen=True, eq=False)
class Findings:
    """What was found out about the rows."""

    n_rows: int
    n_features: int
    is_sparse: bool
    rows: IntArray  # (n,) numbers of the rows that have a direction: what `facts` counts
    n_out: int  # rows with label -1, with a direction or without
    facts: ClusterFacts
    atlas: Atlas  # of the rows drawn
    drawn: IntArray  # (m,) which of `rows` those are
    central: list[IntArray]  # of each cluster, among `rows`
    doubtful: list[IntArray]
    names: RowNames
    words: list[str]  # (K,) the name of each cluster beside its number; empty where it has none
    purities: list[tuple[str, float]] | None  # the main class of each cluster and its share
    membership: Float64Array | None = None  # (n,) of `rows`
    coarse: IntArray | None = None  # (K,) the group of each cluster
    n_fine: IntArray | None = None  # (K,) into how many parts each cluster falls
    flat: FlatMap | None = None  # of the rows drawn
    thumbnails: dict[int, str] = field(default_factory=dict)  # addresses of pictures, by places among `drawn`

    def title_of(self, k: int) -> str:
        """What the page calls cluster `k`: its number, and its words where it has any."""
        return f"{self.facts.names[k]} {self.words[k]}".strip()
