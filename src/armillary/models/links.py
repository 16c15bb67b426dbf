"""Links: online clustering of unit vectors, one at a time, under ids that are never given twice.

Story        vectors of a cluster lie at a nearly constant angle from its centre, in nearly orthogonal directions
Sub-clusters sum v and count k each; a vector joins the nearest at a cosine of T_s or more      Mansfield 2018 eq. 20
Thresholds   s~(k, k') = T_c^2 (1 - rho) + rho g(k) g(k'), g(k) = 1/sqrt(1 + t/k), t = 1/T_c^2 - 1,
             rho = (T_p - T_c^2)/(1 - T_c^2): an edge stands at this cosine or more             eq. 16, 24
Clusters     the trees of the graph of sub-clusters: each new sub-cluster brings one edge at most
Update       after a vector joins: merge neighbours at T_s or more, cut edges below s~, re-join the parts by one edge
             each if that is possible; the heaviest part keeps the id                           sec. 3.4
Row order    is the order of the stream

Where the paper is silent (ties, order of merges, partner of a re-joining edge, ids of parts) links.md, 3 and 7 hold.
Beyond the paper, and off by default: merging of whole clusters, a bound on sub-clusters, forgetting, corrections.
"""

from __future__ import annotations

import math
import numbers
import warnings
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import ClusterMixin
from sklearn.utils.validation import check_is_fitted

from armillary._typing import ArrayLike, Callback, Float64Array, FloatArray
from armillary.exceptions import InputError, ParameterError
from armillary.fitting.events import Emitter
from armillary.kernels.contract import Fate, LinkForest, LinkRule
from armillary.models._estimator import UnitVectorEstimator
from armillary.models._link_graph import Answers, Corrections, Int64Array, LinkGraph, SavedForest, row_blocks
from armillary.models._turns import SharedTurns, busy, learning
from armillary.points import Points
from armillary.statistics.directional import DirectionalStatistics
from armillary.validation import (
    UNIT_TOLERANCE,
    as_matrix,
    check_flag,
    check_integer,
    check_number,
    check_sample_weight,
    unit_block,
)

# So many vectors tell whether sub-clusters grow, and at this share of new ones they do not.
_ENOUGH_VECTORS, _TOO_MANY = 100, 0.9
# No stream has as many vectors: a bound beyond this, which compiled code could not hold, is none.
_MOST = (1 << 62) - 1
# Below it 1 / T_c^4 is beyond a float: as good as 0.
_LEAST_COSINE = 1e-75
_NO_PAIRS = np.empty((0, 2), np.int64)
_NO_CORRECTIONS = Corrections(_NO_PAIRS, _NO_PAIRS[:, 0], _NO_PAIRS[:, 0])
# Fitted attributes that are views of the arrays at work.
_SHOWN = (
    "resultants_",
    "counts_",
    "subcluster_numbers_",
    "subcluster_ids_",
    "subcluster_parents_",
    "is_pinned_",
    "last_seen_",
)


class LinkEvent(NamedTuple):
    """One birth, split, merge or death of a cluster."""

    vector: int  # number of the vector that brought it about, counted from 1; for a correction, of the last before it
    fate: Fate
    id: int  # born, split off, merged into another, or forgotten
    other: int  # the cluster it was split off from or merged into; else -1


class Alternative(NamedTuple):
    """A cluster that a vector might belong to."""

    id: int
    cosine: float  # with its nearest sub-cluster
    margin: float  # by how much that exceeds what the vector needs to share the cluster; negative: it would not


@dataclass(frozen=True)
class Thresholds:
    """T_c, T_s and T_p, and what follows from them (links.md, 1)."""

    cluster: float
    subcluster: float
    pair: float

    @property
    def least_cosine(self) -> float:
        """T_c^2, the least cosine at which two single vectors may share a cluster."""
        return self.cluster**2

    @property
    def rho(self) -> float:
        """How much of the way from T_c^2 to 1 the edge threshold goes."""
        return (self.pair - self.least_cosine) / (1.0 - self.least_cosine)

    @property
    def spread(self) -> float:
        """t = tan^2 theta_c."""
        return 1.0 / self.least_cosine - 1.0

    def gain(self, count: float) -> float:
        """g(k); k may be inf."""
        return 1.0 / math.sqrt(1.0 + self.spread / count)

    def edge(self, count: float, other_count: float = 1.0) -> float:
        """s~(k, k'), the least cosine of an edge between sub-clusters of k and k' vectors."""
        return self.least_cosine * (1.0 - self.rho) + self.rho * (self.gain(count) * self.gain(other_count))

    @property
    def single_limit(self) -> float:
        """s_inf = s~(inf, 1): what a vector needs to be linked to a large sub-cluster."""
        return self.edge(math.inf)

    def rule(self, max_nodes: int | None, max_idle: int | None, *, merges_clusters: bool) -> LinkRule:
        """As the kernel takes them."""
        return LinkRule(
            joining=self.subcluster,
            base=self.least_cosine * (1.0 - self.rho),
            slope=self.rho,
            spread=self.spread,
            max_nodes=min(max_nodes or 0, _MOST),
            max_idle=min(max_idle or 0, _MOST),
            merges_clusters=merges_clusters,
        )

    @classmethod
    def check(cls, cluster: Any, subcluster: Any, pair: Any, who: str) -> Thresholds:
        """Three numbers in their ranges, or an error that names the wrong one."""
        names = ("cluster_similarity_threshold", "subcluster_similarity_threshold", "pair_similarity_maximum")
        hint = "It is the cosine of the angle between a vector and the centre of its cluster."
        tc = check_number(cluster, names[0], who, low=0.0, high=1.0, hint=hint)
        if not _LEAST_COSINE < tc < 1.0:
            raise ParameterError(f"`{names[0]}` of {who} must be above 0 and below 1; got {cluster!r}. {hint}")
        ts = check_number(subcluster, names[1], who, low=0.0, high=1.0, hint="It is a cosine.")
        if ts == 0.0:
            raise ParameterError(f"`{names[1]}` of {who} must be above 0; got {subcluster!r}. It is a cosine.")
        hint = f"Below {names[0]} squared, which is {tc**2:.4g}, thresholds would fall as clusters grow."
        tp = check_number(pair, names[2], who, low=0.0, high=1.0, hint=hint)
        # T_p = T_c^2 may have been written with few digits, or computed in another order
        if tp < tc**2 * (1.0 - 1e-12):
            raise ParameterError(f"`{names[2]}` of {who} must be a number in [{tc**2:.6g}, 1]; got {pair!r}. {hint}")
        return cls(tc, ts, max(tp, tc**2))


class Links(ClusterMixin, UnitVectorEstimator):
    """Online clustering of unit vectors: each gets the id of a cluster at once, and ids are never given twice.

    Feed vectors by `learn_one` or in batches by `partial_fit_predict`: the answers are the same to the bit. What was
    answered stays; the picture inside is improved with every vector, and clusters that turn out to be two are split.
    `history_` tells of that, `labels_now` and `current_ids` bring old answers up to date.

    Parameters
    ----------
    cluster_similarity_threshold : float, default=0.75
        T_c, in (0, 1). Two single vectors may share a cluster at a cosine of T_c squared or more. It must lie below the
        typical cosine of vectors and their centre; `tune_links` finds it from labelled vectors, and
        `LINK_PRESETS` has it for some embedders.
    subcluster_similarity_threshold : float, default=0.75
        T_s, in (0, 1]: at this cosine a vector joins a sub-cluster, and neighbours are merged. Above the cosine of
        typical pairs of a cluster, every vector becomes a sub-cluster of its own, which is slow and learns nothing.
    pair_similarity_maximum : float, default=0.9
        T_p, in [T_c squared, 1]: the edge threshold for two large sub-clusters. Of little influence.
    merge_clusters : bool, default=False
        Merge two clusters when the sub-cluster of a new vector comes near enough to one of another cluster for an edge.
        At most one merge for each vector; the older id stays. The paper never merges clusters.
    max_subclusters : int or None, default=None
        Most sub-clusters. When all are in use, a vector that would be linked to its nearest one joins it instead; one
        that opens a cluster takes the place of the sub-cluster unseen for longest, which is merged into its most
        similar neighbour or, where it is a cluster by itself, forgotten.
    max_idle : int or None, default=None
        Forget a cluster when this many vectors in a row went elsewhere, before the next is looked at.
    max_history : int, default=1000000
        Events that `history_` keeps, and merges of sub-clusters that `joins_` keeps, the newest ones.
    verbose : int, default=0
        1 shows a progress bar for each batch (needs the extra "progress").
    callbacks : callable, sequence of callables or None, default=None
        Each is called with every `FitEvent` of a batch: after each block of vectors, and at the "end", which has as
        `births` all new ids and as `deaths` all that are no more. `events` tells the whole story.

    Attributes
    ----------
    labels_ : array of shape (n,), int64
        The answers to the last batch.
    nodes_ : array of shape (n,), int64
        Number of the sub-cluster of each of its vectors. Keep it to have the vectors' ids later: `labels_now(nodes)`.
    n_clusters_, n_subclusters_ : int
        Clusters and sub-clusters now.
    n_vectors_ : int
        Vectors learned so far.
    next_id_, next_subcluster_ : int
        What the next new cluster and sub-cluster will be called.
    resultants_ : array of shape (M, D), float64
        Sums of the vectors of each sub-cluster. This and the six that follow show the model at work: they change with
        the next vector, so copy what you want to keep.
    counts_ : array of shape (M,), float64
        Vectors (or weight) in each.
    subcluster_numbers_, subcluster_ids_, subcluster_parents_ : arrays of shape (M,), int64
        The number of each sub-cluster, the id of its cluster, and the row of the sub-cluster it is linked to, or -1:
        a forest, so M less the number of -1 is the number of edges.
    is_pinned_ : array of shape (M,), bool
        Whether that link was made by `must_link` and is never cut.
    last_seen_ : array of shape (M,), int64
        Number of the last vector that came to each, counted from 1.
    history_ : array of shape (E, 4), int64
        Births, splits, merges and deaths of clusters: vector, `Fate`, id, other id. `events` reads it.
    joins_ : array of shape (J, 2), int64
        Sub-clusters that were merged, and the older ones that hold them.
    apart_ : array of shape (P, 2), int64
        Pairs of ids that stay apart.
    named_ids_, names_ : arrays of shape (L,)
        Ids with a name, and the names.
    n_features_in_ : int
        D.
    feature_names_in_ : array of shape (D,)
        Column names, where X had them.

    Notes
    -----
    A vector costs one product with all M centroids. Decisions are made by float64 cosines, found by a float32 filter
    with a strict error bound, so answers do not depend on batches, BLAS or threads; a model saved and loaded in the
    middle of a stream goes on with equal bits. Memory is 12 M D bytes, and `max_subclusters` bounds M. Bad input is
    refused before the first vector is learned. A weight counts as so many vectors at one place; a vector of weight 0 is
    answered as by `predict`, and not learned. Threads may share a model: methods that read answer as before or after
    each vector that another thread learns, and a second learner gets a `BusyModelError`.

    References
    ----------
    Mansfield, Wang, Downey, Wan and Lopez Moreno (2018), Links: a high-dimensional online clustering method.

    Examples
    --------
    >>> from armillary import Links
    >>> from armillary.datasets import make_vmf_mixture
    >>> X, people, _ = make_vmf_mixture(200, 64, 3, concentration=200.0, min_angle=1.0, random_state=0)
    >>> stream = Links()
    >>> [stream.learn_one(x) for x in X[:6]]
    [0, 1, 2, 1, 1, 0]
    >>> stream.partial_fit(X[6:]).n_clusters_
    3
    >>> stream.predict_one(-X[0])
    -1
    """

    _kind_of_turns = SharedTurns
    _turns: SharedTurns
    _graph: LinkGraph
    _shown: LinkForest
    _checked: tuple[tuple[Any, ...], LinkRule]
    labels_: Int64Array
    nodes_: Int64Array
    resultants_: Float64Array
    counts_: Float64Array
    subcluster_numbers_: Int64Array
    subcluster_ids_: Int64Array
    subcluster_parents_: Int64Array
    is_pinned_: npt.NDArray[np.bool_]
    last_seen_: Int64Array
    history_: Int64Array
    joins_: Int64Array
    apart_: Int64Array
    named_ids_: Int64Array
    names_: npt.NDArray[np.object_]
    n_clusters_: int
    n_subclusters_: int
    n_vectors_: int
    next_id_: int
    next_subcluster_: int

    def __init__(
        self,
        cluster_similarity_threshold: float = 0.75,
        subcluster_similarity_threshold: float = 0.75,
        pair_similarity_maximum: float = 0.9,
        *,
        merge_clusters: bool = False,
        max_subclusters: int | None = None,
        max_idle: int | None = None,
        max_history: int = 1_000_000,
        verbose: int = 0,
        callbacks: Any = None,
    ) -> None:
        self.cluster_similarity_threshold = cluster_similarity_threshold
        self.subcluster_similarity_threshold = subcluster_similarity_threshold
        self.pair_similarity_maximum = pair_similarity_maximum
        self.merge_clusters = merge_clusters
        self.max_subclusters = max_subclusters
        self.max_idle = max_idle
        self.max_history = max_history
        self.verbose = verbose
        self.callbacks = callbacks

    # ---------------------------------------------------------------------------------------------- learning

    def learn_one(self, x: ArrayLike, sample_weight: float = 1.0) -> int:
        """Learn one vector (D,); its cluster's id."""
        turns = self._turns
        if not turns.learning.acquire(False):  # the mark `learning` by hand: 0.3 us less, of 18
            raise busy(self, "learn_one")
        try:
            return self._learn_one(x, sample_weight, turns)
        finally:
            turns.learning.release()

    def _learn_one(self, x: ArrayLike, sample_weight: float, turns: SharedTurns) -> int:
        if self.callbacks is not None or self.verbose or not hasattr(self, "resultants_"):
            row = self._row(x, is_new=not hasattr(self, "resultants_"))
            return int(self.partial_fit_predict(row, sample_weight=[sample_weight])[0])
        row = self._row(x, is_new=False)
        is_one = type(sample_weight) in (float, int) and sample_weight == 1
        weight = None if is_one else check_sample_weight([sample_weight], 1, self._who)
        rule = self._rule()
        with turns.lock:
            if turns.n_readers:
                turns.wait_for_readers()
            graph = self._graph_at_work(rule)
            corrections = self._corrections()
            self._adopt(graph, graph.learn_row(row, weight, rule, corrections), corrections)
            return int(self.labels_[0])

    @learning
    def fit(self, X: Any, y: Any = None, sample_weight: ArrayLike | None = None) -> Self:
        """Forget everything and learn the vectors X (n, D), dense or CSR, in their order; `y` is ignored."""
        return self._learn(X, sample_weight, is_new=True)

    fit_predict = learning(ClusterMixin.fit_predict)  # so that the labels are those of this fit

    @learning
    def partial_fit(self, X: Any, y: Any = None, sample_weight: ArrayLike | None = None) -> Self:
        """Learn the vectors X (n, D), in their order, as `learn_one` would one after the other."""
        return self._learn(X, sample_weight, is_new=not hasattr(self, "resultants_"))

    @learning
    def partial_fit_predict(self, X: Any, y: Any = None, sample_weight: ArrayLike | None = None) -> Int64Array:
        """`partial_fit`; returns the answers (n,), int64."""
        return self.partial_fit(X, y, sample_weight).labels_

    # -------------------------------------------------------------------------------------------- prediction

    def predict_one(self, x: ArrayLike) -> int:
        """The id of the cluster a vector (D,) belongs to, or -1 where it would open a new one. Learns nothing."""
        rule = self._rule()
        with self._turns.lock:
            row = self._row(x, is_new=False)
            return self._graph_at_work(rule).predict_row(row, rule)[0]

    def predict(self, X: Any) -> Int64Array:
        """The id of the cluster of each vector (n,), or -1 where it would open a new one. Learns nothing."""
        check_is_fitted(self)
        return self._predicted(X)[1][0]

    def alternatives(self, x: ArrayLike, k: int = 3) -> list[Alternative]:
        """The `k` clusters nearest to a vector (D,), the nearest first. Learns nothing."""
        check_is_fitted(self)
        n_wanted = check_integer(k, "k", f"{self._who}.alternatives", low=1)
        rule, thresholds = self._rule(), self._thresholds()
        with self._turns.lock:
            row = np.asarray(self._row(x, is_new=False)[0], np.float64)
            cosines = self._graph_at_work(rule).cosines(row)
            order = np.lexsort((self.subcluster_numbers_, -cosines))
            _, first = np.unique(self.subcluster_ids_[order], return_index=True)
            nearest = order[np.sort(first)[:n_wanted]]
            found = self.subcluster_ids_[nearest].tolist(), cosines[nearest].tolist(), self.counts_[nearest].tolist()
        return [
            Alternative(number, cosine, cosine - min(thresholds.subcluster, thresholds.edge(count)))
            for number, cosine, count in zip(*found, strict=True)
        ]

    def score(self, X: Any, y: Any = None, sample_weight: ArrayLike | None = None) -> float:
        """Minus the sum of cosine distances of the vectors to their nearest sub-clusters: 0 is perfect."""
        points, (_, _, cosines) = self._predicted(X, sample_weight)
        return min(
            0.0, float(cosines.sum() if points.weights is None else cosines @ points.weights) - points.total_weight
        )

    # -------------------------------------------------------------------------------------- what became of ids

    @property
    def cluster_ids_(self) -> Int64Array:
        """Ids of the clusters now (K,), increasing."""
        check_is_fitted(self)
        with self._turns.lock:
            return np.unique(self.subcluster_ids_)

    @property
    def cluster_centers_(self) -> Float64Array:
        """Directions of the sums of the clusters (K, D), in the order of `cluster_ids_`."""
        with self._turns.lock:
            ids, first, codes = np.unique(self.subcluster_ids_, return_index=True, return_inverse=True)
            sums = DirectionalStatistics.zero(len(ids), self.n_features_in_)
            np.add.at(sums.resultants, codes, self.resultants_)
            # sub-clusters that must_link put together can cancel
            spare = DirectionalStatistics(sums.counts, self.resultants_[first])
        return sums.directions(otherwise=spare.directions(otherwise=spare.resultants))

    def events(self, since: int = 0) -> list[LinkEvent]:
        """Births, splits, merges and deaths brought about by vectors after number `since`, in their order."""
        check_is_fitted(self)
        after = check_number(since, "since", f"{self._who}.events", low=-math.inf, hint="0 gives all that are kept.")
        with self._turns.lock:
            history = self.history_  # what it shows does not change
        recent = history[history[:, 0] > after]
        return [LinkEvent(vector, Fate(fate), number, other) for vector, fate, number, other in recent.tolist()]

    def current_ids(self, past_ids: ArrayLike) -> Int64Array:
        """The ids by which clusters go now that were once given these ids (n,); -1 for those forgotten, and for -1.

        An id changes only where clusters were merged, and -1 stands for those that were merged before all that
        `history_` keeps, too. Where one was split its id stays with the heaviest part; for which vectors went with the
        other parts, see `labels_now`.
        """
        check_is_fitted(self)
        with self._turns.lock:
            end, history, ids = self.next_id_, self.history_, self.subcluster_ids_.copy()
        given = self._integers(past_ids, "past_ids", "ids", end)
        return _followed(given, history[history[:, 1] == Fate.MERGE][:, 2:], ids, ids)

    def labels_now(self, nodes: ArrayLike | None = None) -> Int64Array:
        """The present ids of vectors, by the numbers of their sub-clusters (n,): `nodes_` of earlier batches.

        By default for the vectors of the last batch. -1 for those whose cluster was forgotten, for vectors of weight 0,
        and for sub-clusters that were merged before all that `joins_` keeps.
        """
        check_is_fitted(self)
        with self._turns.lock:
            last, end, joins = self.nodes_, self.next_subcluster_, self.joins_
            numbers, ids = self.subcluster_numbers_.copy(), self.subcluster_ids_.copy()
        given = self._integers(last if nodes is None else nodes, "nodes", "numbers", end)
        return _followed(given, joins, numbers, ids)

    # ------------------------------------------------------------------------------------------- corrections

    @learning
    def name(self, cluster: int, label: str | None) -> Self:
        """Give the cluster with this id a name; None takes it away. Clusters with different names are never merged."""
        number = self._alive(cluster, "cluster", f"{self._who}.name")
        if label is not None and not isinstance(label, str):
            raise ParameterError(
                f"`label` of {self._who}.name must be a string or None; got {label!r}. Use str(label)."
            )
        named = {key: value for key, value in self.names.items() if key != number}
        if label is not None:
            named[number] = label
        with self._turns.alone():
            self._set_names(named)
        return self

    @property
    def names(self) -> dict[int, str]:
        """Names by id."""
        check_is_fitted(self)
        with self._turns.lock:
            return dict(zip(self.named_ids_.tolist(), self.names_.tolist(), strict=True))

    @learning
    def must_link(self, one: int | ArrayLike, other: int | ArrayLike) -> int:
        """Make one cluster of two for good, and return its id: the older of the two.

        Each is an id, or a vector that stands for the cluster of its nearest sub-cluster. Between ids, the pair of
        sub-clusters is linked whose cosine comes nearest to an edge's; a link that is made so is never cut.
        """
        rule = self._rule()
        with self._turns.alone():
            return self._join(one, other, rule, f"{self._who}.must_link")

    def _join(self, one: int | ArrayLike, other: int | ArrayLike, rule: LinkRule, who: str) -> int:
        graph = self._graph_at_work(rule)
        slots = [self._slot(side, graph, rule, who) for side in (one, other)]
        ids = [int(graph.forest.nodes["id"][slot]) for slot in slots]
        if ids[0] == ids[1]:
            return ids[0]
        if any({*pair} == {*ids} for pair in self.apart_.tolist()):
            raise InputError(
                f"{who} must not link clusters that are kept apart; got {ids[0]} and {ids[1]}, of which cannot_link "
                "was told. Keep one of the two statements."
            )
        names = [self.names.get(number) for number in ids]
        if None not in names and names[0] != names[1]:
            raise InputError(
                f"{who} must not link clusters with different names; got {ids[0]}, named {names[0]!r}, and {ids[1]}, "
                f"named {names[1]!r}. Take one of the names away: name({ids[1]}, None)."
            )
        if _is_id(one) or _is_id(other):
            slots = [*graph.best_pair(ids[0], ids[1], rule)]
        corrections = self._corrections()
        graph.link(slots[0], slots[1], rule, corrections)
        self._adopt(graph, None, corrections)
        return min(ids)

    @learning
    def cannot_link(self, one: int | ArrayLike, other: int | ArrayLike) -> tuple[int, int]:
        """Keep two clusters apart, and return their ids.

        Each is an id, or a vector that stands for its nearest sub-cluster. Where two vectors share a cluster, it is
        split at the weakest link between their sub-clusters. Parts that split off later are not bound by it.
        """
        rule = self._rule()
        with self._turns.alone():
            return self._part(one, other, rule, f"{self._who}.cannot_link")

    def _part(self, one: int | ArrayLike, other: int | ArrayLike, rule: LinkRule, who: str) -> tuple[int, int]:
        graph = self._graph_at_work(rule)
        slots = [self._slot(side, graph, rule, who) for side in (one, other)]
        if graph.forest.nodes["id"][slots[0]] == graph.forest.nodes["id"][slots[1]]:
            graph = graph.copy()  # the tree is turned to look for a link, and there may be none to cut
            self._cut(graph, slots, rule, who, is_id=_is_id(one) or _is_id(other))
        first, second = (int(graph.forest.nodes["id"][slot]) for slot in slots)
        apart = self._corrections().apart
        pair = np.array([[first, second]], np.int64)
        corrections = self._corrections()._replace(apart=np.unique(np.concatenate([apart, np.sort(pair)]), axis=0))
        self._adopt(graph, None, corrections)
        return first, second

    def _cut(self, graph: LinkGraph, slots: list[int], rule: LinkRule, who: str, *, is_id: bool) -> None:
        number = int(graph.forest.nodes["id"][slots[0]])
        if is_id:
            raise InputError(
                f"{who} must be given two clusters, or vectors of two sub-clusters; both are in cluster {number}. "
                "Give vectors to say where to split it."
            )
        if slots[0] == slots[1]:
            raise InputError(
                f"{who} must be given two clusters, or vectors of two sub-clusters; both are in one sub-cluster of "
                f"cluster {number}, and these are never split. A higher subcluster_similarity_threshold makes more."
            )
        if not graph.cut(slots[0], slots[1], rule):
            raise InputError(
                f"{who} must not contradict must_link; all links between the two sub-clusters of cluster {number} were "
                "made by it. Start anew without them."
            )

    def _slot(self, side: int | ArrayLike, graph: LinkGraph, rule: LinkRule, who: str) -> int:
        """A node: any of the cluster with an id, or the nearest to a vector."""
        if _is_id(side):
            number = self._alive(side, "an id", who)
            return int(np.flatnonzero(self.subcluster_ids_ == number)[0])
        return graph.predict_row(self._row(side, is_new=False), rule)[1]

    def _alive(self, cluster: Any, name: str, who: str) -> int:
        check_is_fitted(self)
        if not _is_id(cluster) or int(cluster) not in self.subcluster_ids_:
            raise InputError(
                f"`{name}` of {who} must be the id of a cluster that there is; got {cluster!r}. `cluster_ids_` has "
                "them, and `current_ids` what became of earlier ones."
            )
        return int(cluster)

    def _integers(self, values: Any, name: str, what: str, end: int) -> Int64Array:
        given = np.asarray(values)
        is_whole = given.dtype.kind in "iu" or given.size == 0
        if not is_whole or (given.size and (given.min() < -1 or given.max() >= end)):
            came = f"numbers from {given.min()} to {given.max()}" if is_whole else f"dtype {given.dtype}"
            raise InputError(
                f"`{name}` of {self._who} must hold {what} that were given, integers from -1 to {end - 1}; got {came}. "
                "Those of another model mean nothing here."
            )
        return given.astype(np.int64)

    # ----------------------------------------------------------------------------------------------- inside

    def _learn(self, X: Any, sample_weight: Any, *, is_new: bool) -> Self:
        points = self._points(X, sample_weight, is_new=is_new)
        rule = self._rule()
        watching = self._observers()
        # an observer or the user may break off: the model is then as it was
        if is_new or watching or len(row_blocks(points)) > 1:
            graph, corrections = self._graph_aside(points, rule, is_new=is_new)
            answers = self._taught(graph, points, rule, corrections, watching)
            with self._turns.alone():
                self._publish(X, is_new=is_new)
                self._adopt(graph, answers, corrections, is_new=is_new)
        else:
            with self._turns.alone():
                graph, corrections = self._graph_at_work(rule), self._corrections()
                answers = self._taught(graph, points, rule, corrections, watching)
                self._publish(X, is_new=False)
                self._adopt(graph, answers, corrections)
        return self

    def _graph_aside(self, points: Points, rule: LinkRule, *, is_new: bool) -> tuple[LinkGraph, Corrections]:
        """A graph that nobody reads from, to learn in, and what the user said."""
        if is_new:
            return LinkGraph(points.n_features, rule=rule), self._corrections(is_new=True)
        with self._turns.lock:
            return self._graph_at_work(rule).copy(), self._corrections()

    def _taught(
        self, graph: LinkGraph, points: Points, rule: LinkRule, corrections: Corrections, watching: tuple[Callback, ...]
    ) -> Answers:
        """Let a graph learn while observers watch."""
        with Emitter(self._who, watching, n_rows=points.n_rows, n_restarts=1, max_steps=points.n_rows) as emitter:
            answers = graph.learn(
                points,
                rule,
                corrections,
                lambda n_done: emitter.step(restart=1, step=n_done, n_clusters=graph.n_clusters),
            )
            fates, ids = answers.events[:, 1], answers.events[:, 2]
            is_end = fates >= Fate.MERGE
            emitter.lives(births=tuple(ids[~is_end].tolist()), revivals=(), deaths=tuple(ids[is_end].tolist()))
        return answers

    def _predicted(
        self, X: Any, sample_weight: Any = None
    ) -> tuple[Points, tuple[Int64Array, Int64Array, Float64Array]]:
        points = self._points(X, sample_weight, is_new=False)
        rule = self._rule()
        turns = self._turns
        with turns.lock:
            turns.wait_for_learners()
            graph = self._graph_at_work(rule)
            turns.enter()
        try:
            if points.n_features != graph.n_features:  # fitted anew since the gate, which has a sentence for it
                points = self._points(X, sample_weight, is_new=False)
            return points, graph.predict(points, rule)
        finally:
            turns.leave()

    def _row(self, x: Any, *, is_new: bool) -> FloatArray:
        """The gate for one vector: a unit row (1, D)."""
        try:
            array = np.asarray(x)
        except ValueError:
            raise InputError(
                f"x of {self._who} must be one vector, a 1-D array; got lists of different lengths. "
                "Use partial_fit_predict or predict for many."
            ) from None
        if not is_new and _is_plain_unit(array, vars(self).get("n_features_in_")):
            return array.reshape(1, -1)
        if array.ndim != 1 and array.shape[:1] != (1,):
            raise InputError(
                f"x of {self._who} must be one vector, a 1-D array; got {array.ndim}-D of shape {array.shape}. "
                "Use partial_fit_predict or predict for many."
            )
        if not is_new:
            self._need_fit()
        matrix = as_matrix(array.reshape(1, -1), self._who, None if is_new else self.n_features_in_, what="x")
        return unit_block(np.asarray(matrix), 0, self._who, "x")

    def _need_fit(self) -> None:
        # scikit-learn's own look takes longer than the vector
        if "resultants_" not in vars(self):
            check_is_fitted(self)

    def _thresholds(self) -> Thresholds:
        return Thresholds.check(
            self.cluster_similarity_threshold,
            self.subcluster_similarity_threshold,
            self.pair_similarity_maximum,
            self._who,
        )

    def _check_bounds(self) -> None:
        for name, value in (("max_subclusters", self.max_subclusters), ("max_idle", self.max_idle)):
            if value is not None:
                check_integer(value, name, self._who, low=1, hint="None sets no bound.")
        check_integer(self.max_history, "max_history", self._who, low=0)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._thresholds()
        self._check_bounds()

    def _rule(self) -> LinkRule:
        """The checked parameters; they are looked at again only where they changed."""
        given = (
            self.cluster_similarity_threshold,
            self.subcluster_similarity_threshold,
            self.pair_similarity_maximum,
            self.merge_clusters,
            self.max_subclusters,
            self.max_idle,
            self.max_history,
        )
        known = vars(self).get("_checked")
        if known is not None and _are_same(known[0], given):
            rule: LinkRule = known[1]
            return rule
        who = self._who
        thresholds = self._thresholds()
        if thresholds.subcluster < thresholds.single_limit:
            warnings.warn(
                f"`subcluster_similarity_threshold` of {who} should be at least {thresholds.single_limit:.4g}, the "
                f"threshold of a vector and a large sub-cluster; got {thresholds.subcluster:g}. Below it a vector can "
                "join a sub-cluster to which it could not be linked.",
                UserWarning,
                stacklevel=5,
            )
        self._check_bounds()
        merges_clusters = check_flag(self.merge_clusters, "merge_clusters", who)
        rule = thresholds.rule(self.max_subclusters, self.max_idle, merges_clusters=merges_clusters)
        self._checked = (given, rule)
        return rule

    def _graph_at_work(self, rule: LinkRule) -> LinkGraph:
        """The graph behind the fitted attributes, with the lock held; made from them in a model loaded or copied."""
        self._need_fit()
        graph = vars(self).get("_graph")
        if graph is None:
            saved = SavedForest(
                self.resultants_,
                self.counts_,
                self.subcluster_numbers_,
                self.subcluster_ids_,
                self.subcluster_parents_,
                self.is_pinned_,
                self.last_seen_,
                self.next_subcluster_,
                self.next_id_,
                self.n_vectors_,
            )
            graph = self._graph = LinkGraph.restored(saved, self.history_, self.joins_, rule)
        elif graph.rule is not rule and graph.rule != rule:
            self._turns.wait_for_readers()
            graph = self._graph  # the lock was open
            graph.obey(rule)
        return graph

    def _corrections(self, *, is_new: bool = False) -> Corrections:
        """What the user said, for the kernel to read, and to rename where clusters merge."""
        if is_new or (len(self.apart_) == 0 and len(self.named_ids_) == 0):
            return _NO_CORRECTIONS
        codes = np.unique(self.names_.astype(str), return_inverse=True)[1].astype(np.int64)
        return Corrections(self.apart_.copy(), self.named_ids_.copy(), codes)

    def _set_names(self, named: dict[int, str]) -> None:
        self.named_ids_ = np.array(sorted(named), dtype=np.int64)
        self.names_ = np.array([named[number] for number in sorted(named)], dtype=object)

    def _adopt(
        self,
        graph: LinkGraph,
        answers: Answers | None,
        corrections: Corrections,
        *,
        is_new: bool = False,
    ) -> None:
        """Publish the state of a graph that learned, or was corrected (no answers)."""
        if answers is None:
            events, joins = graph.drained()
        else:
            self.labels_, self.nodes_, events, joins = answers
        n_before = 0 if is_new else getattr(self, "n_vectors_", 0)
        self._graph = graph
        counters = graph.counters()
        n_shown = self.n_subclusters_ if vars(self).get("_shown") is graph.forest else -1
        self.n_subclusters_, self.n_clusters_, self.next_subcluster_, self.next_id_, self.n_vectors_ = counters
        if n_shown != self.n_subclusters_:  # else the arrays shown are those at work
            self._show(graph)
        if is_new or len(events) or len(joins):
            self.history_ = graph.history.add(events, self.max_history)
            self.joins_ = graph.joins.add(joins, self.max_history)
        if is_new:
            self.apart_ = _NO_PAIRS
            self._set_names({})
        elif len(corrections.apart) or len(corrections.named):
            self._keep_corrections(corrections, events)
        self._warn_of_many(n_before)

    def _show(self, graph: LinkGraph) -> None:
        """Fitted attributes that are views of the arrays at work."""
        saved = graph.saved()
        self.resultants_, self.counts_, self.subcluster_numbers_ = saved.sums, saved.counts, saved.numbers
        self.subcluster_ids_, self.subcluster_parents_, self.is_pinned_ = saved.ids, saved.parents, saved.is_pinned
        self.last_seen_ = saved.last_seen
        self._shown = graph.forest

    def _keep_corrections(self, corrections: Corrections, events: Int64Array) -> None:
        """Of what the user said, the part that is about clusters that there are."""
        self.apart_ = corrections.apart
        # two clusters that merged have one name, or only one of them had any
        self._set_names(dict(zip(corrections.named.tolist(), self.names_.tolist(), strict=True)))
        if np.any(events[:, 1] == Fate.DEATH):
            alive = self.cluster_ids_
            self.apart_ = self.apart_[np.isin(self.apart_, alive).all(axis=1)]
            self._set_names({key: value for key, value in self.names.items() if key in alive})

    def _warn_of_many(self, n_before: int) -> None:
        """Once, when there have been enough vectors to tell."""
        if not n_before < _ENOUGH_VECTORS <= self.n_vectors_:
            return
        share = self.next_subcluster_ / self.n_vectors_
        if share >= _TOO_MANY:
            warnings.warn(
                f"`subcluster_similarity_threshold` of {self._who} makes a sub-cluster of nearly every vector: "
                f"{self.next_subcluster_} of {self.n_vectors_}. Every vector is then compared with all before it, and "
                f"no centroid gets better. Lower it from {self.subcluster_similarity_threshold:g}; `tune_links` finds "
                "it from labelled vectors.",
                UserWarning,
                stacklevel=6,
            )

    def _moment(self) -> dict[str, Any]:
        """The attributes now. The graph is made anew from them; arrays at work are copied."""
        with self._turns.lock:
            state = super()._moment()
            shown = {name: state[name].copy() for name in _SHOWN if name in state}
        return {name: value for name, value in (state | shown).items() if name not in ("_graph", "_shown")}


def _is_plain_unit(array: npt.NDArray[Any], n_features: int | None) -> bool:
    """Whether the gate would hand a vector on as it is: one look in place of all of its own."""
    if array.shape != (n_features,) or array.dtype not in UNIT_TOLERANCE or not array.flags.c_contiguous:
        return False
    with np.errstate(over="ignore"):
        # |norm - 1| is half of this, so that the gate agrees whatever the order of its sum
        return bool(abs(array @ array - 1.0) <= UNIT_TOLERANCE[array.dtype])


def _are_same(known: tuple[Any, ...], given: tuple[Any, ...]) -> bool:
    """Whether parameters are as they were; an array, which has no truth, is not."""
    try:
        return known == given
    except ValueError:
        return False


def _is_id(value: Any) -> bool:
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)


def _followed(given: Int64Array, steps: Int64Array, ends: Int64Array, answers: Int64Array) -> Int64Array:
    """From numbers given (n,) along steps (S, 2) to one of `ends`; the answer that belongs to it, or -1."""
    onward = dict(steps.tolist())
    answer = dict(zip(ends.tolist(), answers.tolist(), strict=True))
    found: dict[int, int] = {-1: -1}
    wanted, codes = np.unique(given, return_inverse=True)
    for number in wanted.tolist():
        path = [number]
        while path[-1] not in found and path[-1] not in answer and path[-1] in onward:
            path.append(onward[path[-1]])
        last = path[-1]
        end = found[last] if last in found else answer.get(last, -1)
        found.update(dict.fromkeys(path, end))
    return np.array([found[number] for number in wanted.tolist()], dtype=np.int64)[codes].reshape(given.shape)
