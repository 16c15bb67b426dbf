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
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, fields
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt
from sklearn.utils.validation import check_is_fitted

from armillary._typing import ArrayLike, Callback, Float64Array, FloatArray
from armillary.engines.contract import Passes
from armillary.engines.contract import Points as AnyPoints
from armillary.engines.host import HostPoints as Points
from armillary.engines.host import host_points
from armillary.engines.links import Corrections, Fate, LinkForest, LinkRule
from armillary.engines.select import open_passes
from armillary.exceptions import InputError, ParameterError
from armillary.fitting.events import Emitter
from armillary.models.clusterer import Clusterer
from armillary.models.labels_out import is_in_parts, part_by_part
from armillary.models.links import _edits
from armillary.models.links._link_graph import (
    NOBODY,
    Answers,
    Int64Array,
    Ledger,
    LinkGraph,
    SavedForest,
    block_rows,
    dense_rows,
    row_blocks,
)
from armillary.models.saved_state import SavedRecord
from armillary.models.turns import SharedTurns, busy, learning
from armillary.sums.directional import DirectionalStatistics
from armillary.validation import (
    UNIT_TOLERANCE,
    as_matrix,
    check_choice,
    check_flag,
    check_integer,
    check_number,
    check_sample_weight,
    is_sure,
    unit_block,
)

# So many vectors tell whether sub-clusters grow, and at this share of new ones they do not.
_ENOUGH_VECTORS, _TOO_MANY = 100, 0.9
# No stream has as many vectors: a bound beyond this, which compiled code could not hold, is none.
_MOST = (1 << 62) - 1
# Below it 1 / T_c^4 is beyond a float: as good as 0.
_LEAST_COSINE = 1e-75
_NO_PAIRS = np.empty((0, 2), np.int64)
_NO_EVENTS = np.empty((0, 4), np.int64)
_NO_CORRECTIONS = Corrections(_NO_PAIRS, _NO_PAIRS[:, 0], _NO_PAIRS[:, 0])
# Fitted attributes that are views of the arrays at work.
_SHOWN = (
    "resultants_",
    "counts_",
    "_subcluster_numbers",
    "subcluster_ids_",
    "subcluster_parents_",
    "_is_pinned",
    "_last_seen",
    "_apart",
    "_named_ids",
)

# What is made of the others where it is wanted.
_AT_WORK = ("_graph", "_shown", "_coded", "_growing")


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

    def rule(
        self, max_nodes: int | None, max_idle: int | None, *, merges_clusters: int, slack: float = 0.0
    ) -> LinkRule:
        """As the kernel takes them."""
        return LinkRule(
            joining=self.subcluster,
            base=self.least_cosine * (1.0 - self.rho),
            slope=self.rho,
            spread=self.spread,
            max_nodes=min(max_nodes or 0, _MOST),
            max_idle=min(max_idle or 0, _MOST),
            merges_clusters=merges_clusters,
            slack=slack * (1.0 - self.least_cosine),
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


@dataclass(frozen=True, eq=False)
class SavedState(SavedRecord):
    """What the next vector needs beside the public attributes."""

    next_subcluster: int  # what the next new sub-cluster will be called
    subcluster_numbers: Int64Array  # (M,) what those here are called
    is_pinned: npt.NDArray[np.bool_]  # (M,) whether the link to the parent was made by `must_link` and is never cut
    last_seen: Int64Array  # (M,) number of the last vector that came to each, counted from 1
    joins: Int64Array  # (J, 2) sub-clusters that were merged, and the older ones that hold them
    apart: Int64Array  # (P, 2) pairs of ids that stay apart
    named_ids: Int64Array  # (L,) increasing ids with a name
    names: npt.NDArray[np.object_]  # (L,) their names


class Links(Clusterer):
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
    merge_clusters : bool, "whole" or "lone", default=False
        "whole" merges clusters by the sums of all their vectors: each time the weight of one has doubled it is held
        against all others, and of two, one of them of weight 16 at least, the lighter joins the one nearest to it, if
        their cosine misses the threshold of their weights by no more than `merge_slack` times 1 - T_c squared. With the
        presets that leaves fewer surplus ids, and more right answers when ids are followed through merges, on four sets
        of voices and faces, which its numbers were chosen on (`benchmarks/link_merging.py`). True merges when the
        sub-cluster of a new vector comes near enough to one of another cluster for an edge, at most once for each
        vector: where clusters are many, chains of such edges join strangers. The older id stays. "lone" does
        what "whole" does, and gives vectors that stay alone to a cluster that leads, whose id stays: after ten vectors
        for each cluster there is, sooner the further it is nearer than the second nearest. On halves of the persons of
        two sets of faces that leaves 10 and 16 % more ids than persons, for 32 and 37 % with "whole", and 0.969 and
        0.970 right answers, for 0.970 and 0.965; but of strangers who come once 1.6 to 2.4 times as many are taken
        for somebody known, by set of faces and voices (`benchmarks/link_merging.py`). The paper never
        merges clusters.
    merge_slack : float, default=0.15
        For "whole", from 0 to 1: more leaves fewer ids, and joins strangers sooner.
    max_subclusters : int or None, default=None
        Most sub-clusters. When all are in use, a vector that would be linked to its nearest one joins it instead; one
        that opens a cluster takes the place of the sub-cluster unseen for longest, which is merged into its most
        similar neighbour or, where it is a cluster by itself, forgotten.
    max_idle : int or None, default=None
        Forget a cluster when this many vectors in a row went elsewhere, before the next is looked at.
    max_history : int, default=1000000
        Events that `history_` keeps, the newest ones; as many merges of sub-clusters are remembered.
    device : {None, "auto", "cpu"}, default=None
        Where rows are worked on. Vectors are learned one after the other, on the host.
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
    next_id_ : int
        What the next new cluster will be called.
    resultants_ : array of shape (M, D), float64
        Sums of the vectors of each sub-cluster. This and the three that follow show the model at work: they change
        with the next vector, so copy what you want to keep.
    counts_ : array of shape (M,), float64
        Vectors (or weight) in each.
    subcluster_ids_, subcluster_parents_ : arrays of shape (M,), int64
        The id of the cluster of each sub-cluster, and the row of the sub-cluster it is linked to, or -1: a forest, so M
        less the number of -1 is the number of edges.
    history_ : array of shape (E, 4), int64
        Births, splits, merges and deaths of clusters: vector, `Fate`, id, other id. `events` reads it.
    names : dict
        Names by id, of clusters that have one.
    device_ : str
        Where the last fit ran. It is not saved.
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
    _state_kind = SavedState
    _turns: SharedTurns
    _graph: LinkGraph
    _shown: LinkForest
    _checked: tuple[tuple[Any, ...], LinkRule]
    labels_: Int64Array
    nodes_: Int64Array
    resultants_: Float64Array
    counts_: Float64Array
    _subcluster_numbers: Int64Array
    subcluster_ids_: Int64Array
    subcluster_parents_: Int64Array
    _is_pinned: npt.NDArray[np.bool_]
    _last_seen: Int64Array
    history_: Int64Array
    _joins: Int64Array
    _apart: Int64Array
    _named_ids: Int64Array
    _names: npt.NDArray[np.object_]
    n_clusters_: int
    n_subclusters_: int
    n_vectors_: int
    next_id_: int
    _next_subcluster: int

    def __init__(
        self,
        cluster_similarity_threshold: float = 0.75,
        subcluster_similarity_threshold: float = 0.75,
        pair_similarity_maximum: float = 0.9,
        *,
        merge_clusters: bool | str = False,
        merge_slack: float = 0.15,
        max_subclusters: int | None = None,
        max_idle: int | None = None,
        max_history: int = 1_000_000,
        device: str | None = None,
        verbose: int = 0,
        callbacks: Any = None,
    ) -> None:
        self.cluster_similarity_threshold = cluster_similarity_threshold
        self.subcluster_similarity_threshold = subcluster_similarity_threshold
        self.pair_similarity_maximum = pair_similarity_maximum
        self.merge_clusters = merge_clusters
        self.merge_slack = merge_slack
        self.max_subclusters = max_subclusters
        self.max_idle = max_idle
        self.max_history = max_history
        self.device = device
        self.verbose = verbose
        self.callbacks = callbacks

    @property
    def _saved_state(self) -> SavedState | None:
        """As one record: the model learns in its parts, one by one."""
        own = vars(self)
        if "_next_subcluster" not in own:
            return None
        return SavedState(**{field.name: own[f"_{field.name}"] for field in fields(SavedState)})

    @_saved_state.setter
    def _saved_state(self, state: SavedState) -> None:
        self.__dict__.update({f"_{name}": value for name, value in vars(state).items()})

    # ---------------------------------------------------------------------------------------------- learning

    def learn_one(self, x: ArrayLike, sample_weight: float = 1.0) -> int:
        """Learn one vector (D,); its cluster's id.

        Parameters
        ----------
        x : array of shape (D,)
        sample_weight : float, default=1.0
            Of the vector.

        Returns
        -------
        int
            The id.
        """
        turns = self._turns
        if not turns.learning.acquire(False):  # the mark `learning` by hand: 0.3 us less, of 18
            raise busy(self, "learn_one")
        try:
            answer = self._learn_plain(x, sample_weight, turns)
            return self._learn_one(x, sample_weight, turns) if answer is None else answer
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

    def _learn_plain(self, x: ArrayLike, sample_weight: float, turns: SharedTurns) -> int | None:
        """`learn_one` of a unit vector as most come; None, and nothing is learned, where there is more to look at."""
        rule = self._known_rule(self._given_parameters())
        is_one = type(sample_weight) in (float, int) and sample_weight == 1
        if rule is None or not is_one or self.callbacks is not None or self.verbose:
            return None
        row, within = self._plain(x)
        if row is None:
            return None
        with turns.lock:
            if turns.n_readers:
                turns.wait_for_readers()
            if len(self._apart) or len(self._named_ids):
                return None
            graph = self._graph_at_work(rule)
            answers = graph.learn_unit(row, within, rule)
            if answers is not None:
                self._adopt(graph, answers, _NO_CORRECTIONS)
        return None if answers is None else int(answers.ids[0])

    @learning
    def fit(self, X: Any, y: Any = None, sample_weight: ArrayLike | None = None) -> Self:
        """Forget everything and learn the vectors X (n, D), dense or CSR, in their order; `y` is ignored.

        Parameters
        ----------
        X : array or CSR matrix of shape (n, D)
        y : ignored
        sample_weight : array of shape (n,), optional
            Weights of the rows; 1 by default.

        Returns
        -------
        self
        """
        return self._learn(X, sample_weight, is_new=True)

    @learning
    def partial_fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: ArrayLike | None = None,
        *,
        frames: ArrayLike | None = None,
        apart_from: ArrayLike | None = None,
        margin: float | None = None,
    ) -> Self:
        """Learn the vectors X (n, D), in their order, as `learn_one` would one after the other.

        Vectors with equal entries of `frames` (n,) are of one photo or moment, and so of different clusters: none gets
        the id of an earlier one of its frame, and such clusters are kept apart from then on. None of all gets an id of
        `apart_from` (B,), the ids that the frame was given in earlier calls.

        A vector whose best cluster is nearer than the second best by less than `margin` (of the cosine) is not learned;
        its answer is -1, unknown.

        Parameters
        ----------
        X : array or CSR matrix of shape (n, D)
        y : ignored
        sample_weight : array of shape (n,), optional
            Weights of the rows; 1 by default.
        frames : array of shape (n,), optional
        apart_from : array of shape (B,), optional
        margin : float, optional

        Returns
        -------
        self
        """
        is_new = not hasattr(self, "resultants_")
        if frames is None and apart_from is None and margin is None:
            return self._learn(X, sample_weight, is_new=is_new)
        return self._learn_with_care(X, sample_weight, frames, apart_from, margin, is_new=is_new)

    @learning
    def partial_fit_predict(
        self,
        X: Any,
        y: Any = None,
        sample_weight: ArrayLike | None = None,
        *,
        frames: ArrayLike | None = None,
        apart_from: ArrayLike | None = None,
        margin: float | None = None,
    ) -> Int64Array:
        """`partial_fit`; returns the answers (n,), int64.

        Parameters
        ----------
        X : array or CSR matrix of shape (n, D)
        y : ignored
        sample_weight : array of shape (n,), optional
            Weights of the rows; 1 by default.
        frames : array of shape (n,), optional
            As in `partial_fit`.
        apart_from : array of shape (B,), optional
            As in `partial_fit`.
        margin : float, optional
            As in `partial_fit`.

        Returns
        -------
        array of shape (n,), int64
            Ids.
        """
        return self.partial_fit(X, y, sample_weight, frames=frames, apart_from=apart_from, margin=margin).labels_

    # -------------------------------------------------------------------------------------------- prediction

    def predict_one(self, x: ArrayLike) -> int:
        """The id of the cluster a vector (D,) belongs to, or -1 where it would open a new one. Learns nothing.

        Parameters
        ----------
        x : array of shape (D,)

        Returns
        -------
        int
            The id, or -1.
        """
        rule = self._rule()
        with self._turns.lock:
            plain, within = self._plain(x)
            answer = None if plain is None else self._graph_at_work(rule).answer_unit(plain, within, rule)
            if answer is None:
                row = self._row(x, is_new=False)
                answer = self._graph_at_work(rule).predict_row(row, rule)[0]
        return answer

    def predict(self, X: Any, *, reject: bool = True, margin: float | None = None, out: Any = None) -> Int64Array:
        """The id of the cluster of each vector (n,), or -1 where it would open a new one. Learns nothing.

        With `reject=False`, the cluster of the nearest sub-cluster for every vector; -1 only where there is none.
        With `margin`, -1 too where the best cluster is nearer than the second best by less than this (of the cosine).

        `out` takes the labels, and is returned: an array of n integers, a memory map, or the path of an npy file, which
        is written whole or not at all and comes back as a memory map.

        Parameters
        ----------
        X : array or CSR matrix of shape (n, D)
        reject : bool, default=True
        margin : float, optional
        out : array, memory map or path, optional

        Returns
        -------
        array of shape (n,), int64
            Ids; where `out` was given, `out`.
        """
        rejects = check_flag(reject, "reject", f"{self._who}.predict")
        check_is_fitted(self)
        if margin is None:
            return self._answers(X, rejects=rejects, out=out)
        least = self._check_margin(margin, "predict")
        ids = self._answers(X, rejects=rejects, out=out)
        for start, stop, rows in self._row_blocks(X):
            part = slice(start, stop)
            ids[part] = np.where(self._leads(rows) < least, -1, ids[part])
        return ids

    def _row_blocks(self, X: Any) -> Iterator[tuple[int, int, FloatArray]]:
        points = host_points(self._points(X, is_new=False))
        for start, stop in row_blocks(points):
            yield start, stop, dense_rows(points.block(start, stop))

    def _leads(self, rows: FloatArray) -> Float64Array:
        """By how much the best cluster is nearer than the second best, for each row (b,); inf without a second."""
        leads, rule = np.empty(len(rows)), self._rule()
        for place, row in enumerate(rows):
            with self._read_graph(rule) as graph:  # for each: a learner comes in between
                leads[place] = _lead(graph, row)
        return leads

    @contextmanager
    def _read_graph(self, rule: LinkRule) -> Iterator[LinkGraph]:
        """The graph while nobody learns; the lock is open meanwhile, and who waits to learn is next."""
        turns = self._turns
        with turns.lock:
            turns.wait_for_learners()
            graph = self._graph_at_work(rule)
            turns.enter()
        try:
            yield graph
        finally:
            turns.leave()

    def _check_margin(self, margin: Any, call: str) -> float:
        hint = "It is a difference of two cosines."
        return check_number(margin, "margin", f"{self._who}.{call}", low=0.0, high=2.0, hint=hint)

    def _answers(self, X: Any, *, rejects: bool, out: Any = None) -> Int64Array:
        if is_in_parts(X, out):
            n_rows = self._points(X, is_new=False).n_rows
            return part_by_part(
                X, n_rows, out, np.int64, self._who, lambda part, _: self._answers(part, rejects=rejects)
            )
        _, (ids, nearest, _) = self._predicted(X)
        return ids if rejects else nearest

    def transform(self, X: Any) -> FloatArray:
        """Cosine similarity of each vector to each of `cluster_centers_` (n, K), in the dtype of the vectors.

        Parameters
        ----------
        X : array or CSR matrix of shape (n, D)

        Returns
        -------
        array of shape (n, K)
            Cosines.
        """
        check_is_fitted(self)
        return self._cosines(X, self.cluster_centers_)

    def alternatives(self, x: ArrayLike, k: int = 3) -> list[Alternative]:
        """The `k` clusters nearest to a vector (D,), the nearest first. Learns nothing.

        Parameters
        ----------
        x : array of shape (D,)
        k : int, default=3
            At most so many.

        Returns
        -------
        list of Alternative
            Ids with their cosines.
        """
        check_is_fitted(self)
        n_wanted = check_integer(k, "k", f"{self._who}.alternatives", low=1)
        rule, thresholds = self._rule(), self._thresholds()
        with self._read_graph(rule) as graph:
            row = np.asarray(self._row(x, is_new=False)[0], np.float64)
            saved, cosines = graph.saved(), graph.cosines(row)
            order = np.lexsort((saved.numbers, -cosines))
            _, first = np.unique(saved.ids[order], return_index=True)
            nearest = order[np.sort(first)[:n_wanted]]
            found = saved.ids[nearest].tolist(), cosines[nearest].tolist(), saved.counts[nearest].tolist()
        return [
            Alternative(number, cosine, cosine - min(thresholds.subcluster, thresholds.edge(count)))
            for number, cosine, count in zip(*found, strict=True)
        ]

    def score(self, X: Any, y: Any = None, sample_weight: ArrayLike | None = None) -> float:
        """Minus the sum of cosine distances of the vectors to their nearest sub-clusters: 0 is perfect.

        Parameters
        ----------
        X : array or CSR matrix of shape (n, D)
        y : ignored
        sample_weight : array of shape (n,), optional
            Weights of the rows; 1 by default.

        Returns
        -------
        float
            At most 0.
        """
        points, (_, nearest, cosines) = self._predicted(X, sample_weight)
        if (nearest < 0).any():  # nobody is nearest where nobody is
            self._refuse_to_score("this model has none (all were forgotten). Teach it vectors first.")
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
        """Births, splits, merges and deaths brought about by vectors after number `since`, in their order.

        Parameters
        ----------
        since : int, default=0

        Returns
        -------
        list of LinkEvent
            What happened, and to which ids.
        """
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

        Parameters
        ----------
        past_ids : array of int of shape (n,)

        Returns
        -------
        array of shape (n,), int64
            Present ids.
        """
        check_is_fitted(self)
        with self._turns.lock:
            end, history, ids = self.next_id_, self.history_, self.subcluster_ids_.copy()
        given = self._integers(past_ids, "past_ids", "ids", end)
        if np.isin(given, ids).all():  # as most are: nothing needs to be followed
            return given
        return _followed(given, standing_merges(history), ids, ids)

    def subclusters_of(self, cluster: int) -> Int64Array:
        """Numbers of the sub-clusters of the cluster with this id (m,), in the order of `resultants_`.

        Parameters
        ----------
        cluster : int
            Its id.

        Returns
        -------
        array of shape (m,), int64
            Numbers.
        """
        number = self._alive(cluster, "cluster", f"{self._who}.subclusters_of")
        with self._turns.lock:
            return self._subcluster_numbers[self.subcluster_ids_ == number].copy()

    def labels_now(self, nodes: ArrayLike | None = None) -> Int64Array:
        """The present ids of vectors, by the numbers of their sub-clusters (n,): `nodes_` of earlier batches.

        By default for the vectors of the last batch. -1 for those whose cluster was forgotten, for vectors of weight 0,
        and for sub-clusters that were merged before all that are remembered.

        Parameters
        ----------
        nodes : array of int of shape (n,), optional

        Returns
        -------
        array of shape (n,), int64
            Ids.
        """
        check_is_fitted(self)
        with self._turns.lock:
            last, end, joins = self.nodes_, self._next_subcluster, self._joins
            numbers, ids = self._subcluster_numbers.copy(), self.subcluster_ids_.copy()
        given = self._integers(last if nodes is None else nodes, "nodes", "numbers", end)
        return _followed(given, joins, numbers, ids)

    # ------------------------------------------------------------------------------------------- corrections

    @learning
    def name(self, cluster: int, label: str | None) -> Self:
        """Give the cluster with this id a name; None takes it away. Clusters with different names are never merged.

        Parameters
        ----------
        cluster : int
            Its id.
        label : str or None
            The name.

        Returns
        -------
        self
        """
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
            return dict(zip(self._named_ids.tolist(), self._names.tolist(), strict=True))

    @learning
    def must_link(self, one: int | ArrayLike, other: int | ArrayLike) -> int:
        """Make one cluster of two for good, and return its id: the older of the two.

        Each is an id, or a vector that stands for the cluster of its nearest sub-cluster. Between ids, the pair of
        sub-clusters is linked whose cosine comes nearest to an edge's; a link that is made so is never cut.

        Parameters
        ----------
        one : int or array of shape (D,)
        other : int or array of shape (D,)

        Returns
        -------
        int
            The id.
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
        if any({*pair} == {*ids} for pair in self._apart.tolist()):
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

        Parameters
        ----------
        one : int or array of shape (D,)
        other : int or array of shape (D,)

        Returns
        -------
        tuple of two int
            The ids.
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

    @learning
    def may_link(self, one: int, other: int) -> Self:
        """Take back that two clusters, given by their ids, are kept apart.

        Parameters
        ----------
        one : int
            An id.
        other : int
            An id.

        Returns
        -------
        self
        """
        who = f"{self._who}.may_link"
        pair = sorted(self._alive(side, "an id", who) for side in (one, other))
        with self._turns.alone():
            self._apart = self._apart[(np.sort(self._apart, axis=1) != pair).any(axis=1)]
        return self

    @learning
    def forget(self, cluster: int) -> Self:
        """Forget the cluster with this id: its sub-clusters, its name, what was said of it. The id is not given again.

        `history_` keeps that it was there and that it is no more.

        Parameters
        ----------
        cluster : int
            Its id.

        Returns
        -------
        self
        """
        number = self._alive(cluster, "cluster", f"{self._who}.forget")
        rule = self._rule()
        with self._turns.alone():
            saved = self._graph_at_work(rule).saved()
            self._replace_forest(_edits.without(saved, saved.ids == number), rule, (Fate.DEATH, number, -1))
            self._apart = self._apart[(self._apart != number).all(axis=1)]
            self._set_names({key: value for key, value in self.names.items() if key != number})
        return self

    @learning
    def split(
        self,
        cluster: int,
        subclusters: ArrayLike | None = None,
        *,
        rows: ArrayLike | None = None,
        into: int | None = None,
    ) -> int:
        """Split a cluster in two for good, and return the id of the part that leaves it.

        Parameters
        ----------
        cluster : int
            An id. It stays with the other part, and so does the name.
        subclusters : array-like of shape (m,), optional
            Numbers of the sub-clusters that leave, as in `nodes_`; those that were merged since are followed. By
            default what hangs on the weakest link of the cluster.
        rows : array-like of shape (m, D), optional
            Vectors that leave, each learned with weight 1 into the sub-cluster of the same place in `subclusters`. The
            others of these sub-clusters stay.
        into : int, optional
            An id that was merged into this cluster, to be given back to the part. By default a new id.

        Returns
        -------
        part : int
            The id of the part.

        Examples
        --------
        >>> import numpy as np
        >>> from armillary import Links
        >>> stream = Links(0.75, 0.95, 0.9)
        >>> stream.partial_fit_predict([[1.0, 0.0], [0.85, 0.53]]).tolist()
        [0, 0]
        >>> stream.split(0), stream.cluster_ids_.tolist()
        (1, [0, 1])
        """
        return self._split(cluster, subclusters, rows, into, f"{self._who}.split")

    def _split(self, cluster: Any, subclusters: Any, rows: Any, into: Any, who: str) -> int:
        number = self._alive(cluster, "cluster", who)
        rule = self._rule()
        with self._turns.alone():
            graph = self._graph_at_work(rule)
            saved = graph.saved()
            part = saved.next_id if into is None else self._check_past(into, number, who)
            after = self._parted(saved, number, subclusters, rows, part, rule, who)
            next_id = saved.next_id + (into is None)
            self._replace_forest(after._replace(next_id=next_id), rule, (Fate.SPLIT, part, number))
            pair = np.array([sorted((number, part))], np.int64)
            self._apart = np.unique(np.concatenate([self._apart, pair]), axis=0)
        return part

    def _parted(
        self, saved: SavedForest, number: int, subclusters: Any, rows: Any, part: int, rule: LinkRule, who: str
    ) -> SavedForest:
        """The forest after a split, or a sentence about what cannot be split so."""
        if subclusters is None:
            is_moved = _edits.weakest_side(saved, number, _margins(saved, rule))
            if is_moved is None:
                raise InputError(
                    f"{who} must be given a cluster of two sub-clusters or more; cluster {number} has one. Give `rows` "
                    "and their `subclusters`, where the vectors were kept."
                )
            return _edits.split(saved, is_moved, part)
        slots = self._slots_of(subclusters, saved, number, who)
        if rows is not None:
            units = np.concatenate([block for _, _, block in self._row_blocks(rows)]).astype(np.float64)
            if len(units) != len(slots):
                raise InputError(
                    f"`rows` of {who} must have one vector for each of the {len(slots)} `subclusters`; got "
                    f"{len(units)}. Give `nodes_` of the same vectors."
                )
            _check_leaving(saved, number, slots, who)
            return _edits.moved_out(saved, slots, units, part)
        is_moved = np.zeros(len(saved.ids), np.bool_)
        is_moved[slots] = True
        if not (saved.ids[~is_moved] == number).any():
            raise InputError(
                f"`subclusters` of {who} must leave one behind; got all {np.count_nonzero(is_moved)} of cluster "
                f"{number}. Name fewer."
            )
        return _edits.split(saved, is_moved, part)

    def _slots_of(self, subclusters: Any, saved: SavedForest, number: int, who: str) -> Int64Array:
        given = self._integers(subclusters, "subclusters", "numbers", self._next_subcluster).ravel()
        slots = _followed(given, self._joins, saved.numbers, np.arange(len(saved.numbers)))
        if not len(slots) or (slots < 0).any() or (saved.ids[slots] != number).any():
            raise InputError(
                f"`subclusters` of {who} must be numbers of sub-clusters of cluster {number}; got "
                f"{given[:8].tolist()}. `nodes_` and `labels_now` tell which are."
            )
        return slots

    def _check_past(self, into: Any, number: int, who: str) -> int:
        if not _is_id(into) or into == number or not 0 <= into < self.next_id_ or self.current_ids([into])[0] != number:
            raise InputError(
                f"`into` of {who} must be an id that was merged into cluster {number}; got {into!r}. Leave it out for "
                "a new id."
            )
        return int(into)

    @learning
    def restore(self, cluster: int, subclusters: ArrayLike, past: int) -> int:
        """Undo a merge: the cluster `past` leaves `cluster` again under its old id, which is returned.

        `subclusters` (m,) are the numbers of its sub-clusters before the merge. Those that came since go with the
        nearer side; where all of its own were merged with others there is nothing to restore, and a sentence says so.

        Parameters
        ----------
        cluster : int
            The id that it went into.
        subclusters : array of int of shape (m,)
        past : int
            The id that it had.

        Returns
        -------
        int
            `past`.
        """
        who = f"{self._who}.restore"
        number = self._alive(cluster, "cluster", who)
        before = self._integers(subclusters, "subclusters", "numbers", self._next_subcluster)
        with self._turns.lock:
            saved = self._graph_at_work(self._rule()).saved()
            is_own = np.isin(saved.numbers, before) & (saved.ids == number)
            is_other = (saved.ids == number) & ~is_own & (saved.numbers < self._next_subcluster)
            is_part = _edits.nearer_side(saved, number, is_other, is_own)
            numbers = saved.numbers[is_part].copy()
        if not len(numbers) or not is_other.any():
            raise InputError(
                f"{who} must find sub-clusters of both sides; those of cluster {past} were merged with others of "
                f"cluster {number} since. Use split."
            )
        return self._split(number, numbers, None, past, who)

    def _replace_forest(self, saved: SavedForest, rule: LinkRule, told: tuple[int, int, int]) -> None:
        """Take over an edited state; tell what happened to which ids."""
        graph = LinkGraph.restored(saved, self.history_, self._joins, rule)
        event = np.array([[self.n_vectors_, *told]], np.int64)
        self._adopt(graph, None, _NO_CORRECTIONS)
        self.history_ = graph.history.add(event, self.max_history)

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
        points = host_points(self._points(X, sample_weight, is_new=is_new))
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

    def _learn_with_care(
        self, X: Any, sample_weight: Any, frames: Any, apart_from: Any, margin: Any, *, is_new: bool
    ) -> Self:
        """One vector after the other, each with the clusters that it must not share, or left out where unclear."""
        points = host_points(self._points(X, sample_weight, is_new=is_new))
        who = f"{self._who}.partial_fit"
        moments = _check_frames(frames, points.n_rows, who)
        least = None if margin is None else self._check_margin(margin, "partial_fit")
        given = NOBODY if apart_from is None else self._ids_apart(apart_from, is_new=is_new)
        rule = self._rule()
        with self._turns.alone():
            graph = LinkGraph(points.n_features, rule=rule) if is_new else self._graph_at_work(rule)
            said, known = self._corrections(is_new=is_new), vars(self).get("_growing")
            growing = known[1] if known is not None and known[0] is said.apart else Ledger(said.apart)
            teacher = _Teacher(graph, rule, said, given, least, growing)
            answers = teacher.taught(points, moments)
            self._publish(X, is_new=is_new)
            self._adopt(graph, answers, teacher.corrections, is_new=is_new)
            if is_new:
                self._apart = teacher.corrections.apart
            self._growing = teacher.corrections.apart, growing
        return self

    def _ids_apart(self, apart_from: Any, *, is_new: bool) -> Int64Array:
        given = np.asarray(apart_from).ravel()
        if is_new and not given.size:
            return NOBODY
        return np.unique(self.current_ids(given))

    def _graph_aside(self, points: Points, rule: LinkRule, *, is_new: bool) -> tuple[LinkGraph, Corrections]:
        """A graph that nobody reads from, to learn in, and what the user said."""
        if is_new:
            return LinkGraph(points.n_features, rule=rule), self._corrections(is_new=True)
        with self._turns.lock:
            said = self._corrections()
            return self._graph_at_work(rule).copy(), said._replace(apart=said.apart.copy(), named=said.named.copy())

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
        """Of each vector (n,): its id or -1, the id of its nearest sub-cluster, and the cosine with that."""
        points = host_points(self._points(X, sample_weight, is_new=False))
        rule = self._rule()
        with self._read_graph(rule) as graph:
            if points.n_features != graph.n_features:  # fitted anew since the gate, which has a sentence for it
                points = host_points(self._points(X, sample_weight, is_new=False))
            ids, slots, cosines = graph.predict(points, rule)
            return points, (ids, graph.ids_at(slots), cosines)

    def _passes(self, points: AnyPoints) -> AbstractContextManager[Passes]:
        """Vectors are learned one after the other, so there is no `n_threads`; `transform` takes every core."""
        return open_passes(points, None, self._who)

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

    def _plain(self, x: Any) -> tuple[FloatArray | None, float]:
        """A vector whose shape and type need no gate, and how near to 1 the kernel must find its squared norm.

        None for any other, and for all where a float64 sum is too far off to be sure that the gate would agree.
        """
        try:
            array = np.asarray(x)
        except ValueError:
            return None, 0.0
        n_features = self.__dict__.get("n_features_in_")
        tolerance = UNIT_TOLERANCE.get(array.dtype)
        if tolerance is None or array.shape != (n_features,) or not is_sure(len(array), tolerance):
            return None, 0.0
        return array, tolerance

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
        self._way_of_merging()

    def _way_of_merging(self) -> int:
        check_number(self.merge_slack, "merge_slack", self._who, low=0.0, high=1.0)
        if isinstance(self.merge_clusters, str):
            chosen = check_choice(self.merge_clusters, "merge_clusters", self._who, ("whole", "lone"))
            return 3 if chosen == "lone" else 2
        return int(check_flag(self.merge_clusters, "merge_clusters", self._who))

    def _given_parameters(self) -> tuple[Any, ...]:
        return (
            self.cluster_similarity_threshold,
            self.subcluster_similarity_threshold,
            self.pair_similarity_maximum,
            self.merge_clusters,
            self.merge_slack,
            self.max_subclusters,
            self.max_idle,
            self.max_history,
        )

    def _known_rule(self, given: tuple[Any, ...]) -> LinkRule | None:
        """What was made of parameters the last time; None where they changed."""
        known = self.__dict__.get("_checked")
        if known is None or not _are_same(known[0], given):
            return None
        rule: LinkRule = known[1]
        return rule

    def _rule(self) -> LinkRule:
        """The checked parameters; they are looked at again only where they changed."""
        given = self._given_parameters()
        known = self._known_rule(given)
        if known is not None:
            return known
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
        rule = thresholds.rule(
            self.max_subclusters, self.max_idle, merges_clusters=self._way_of_merging(), slack=float(self.merge_slack)
        )
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
                self._subcluster_numbers,
                self.subcluster_ids_,
                self.subcluster_parents_,
                self._is_pinned,
                self._last_seen,
                self._next_subcluster,
                self.next_id_,
                self.n_vectors_,
            )
            graph = self._graph = LinkGraph.restored(saved, self.history_, self._joins, rule)
        elif graph.rule is not rule and graph.rule != rule:
            self._turns.wait_for_readers()
            graph = self._graph  # the lock was open
            graph.obey(rule)
        return graph

    def _corrections(self, *, is_new: bool = False) -> Corrections:
        """What the user said, for the kernel to read, and to rename in place where clusters merge.

        There may be a million pairs: a copy of them for each vector would take longer than the vector.
        """
        if is_new or (len(self._apart) == 0 and len(self._named_ids) == 0):
            return _NO_CORRECTIONS
        self._apart, self._named_ids = (
            np.require(values, np.int64, ("C", "W")) for values in (self._apart, self._named_ids)
        )
        return Corrections(self._apart, self._named_ids, self._name_codes())

    def _name_codes(self) -> Int64Array:
        """A number for each name (L,), the same for equal ones."""
        known = vars(self).get("_coded")
        if known is None or known[0] is not self._names:
            numbers: dict[str, int] = {}
            codes = [numbers.setdefault(name, len(numbers)) for name in self._names.tolist()]
            known = self._coded = self._names, np.array(codes, np.int64)
        return known[1]

    def _set_names(self, named: dict[int, str]) -> None:
        self._named_ids = np.array(sorted(named), dtype=np.int64)
        self._names = np.array([named[number] for number in sorted(named)], dtype=object)

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
        self.n_subclusters_, self.n_clusters_, self._next_subcluster, self.next_id_, self.n_vectors_ = counters
        if n_shown != self.n_subclusters_:  # else the arrays shown are those at work
            self._show(graph)
        if is_new or len(events) or len(joins):
            self.history_ = graph.history.add(events, self.max_history)
            self._joins = graph.joins.add(joins, self.max_history)
        if is_new:
            self._apart = _NO_PAIRS
            self._set_names({})
        elif len(corrections.apart) or len(corrections.named):
            self._apart, self._named_ids = corrections.apart, corrections.named
            if np.any(events[:, 1] >= Fate.MERGE):
                self._keep_corrections(events)
        self._warn_of_many(n_before)

    def _show(self, graph: LinkGraph) -> None:
        """Fitted attributes that are views of the arrays at work."""
        saved = graph.saved()
        self.resultants_, self.counts_, self._subcluster_numbers = saved.sums, saved.counts, saved.numbers
        self.subcluster_ids_, self.subcluster_parents_, self._is_pinned = saved.ids, saved.parents, saved.is_pinned
        self._last_seen = saved.last_seen
        self._shown = graph.forest

    def _keep_corrections(self, events: Int64Array) -> None:
        """Of what the user said, the part that is about clusters that there are."""
        if (np.diff(self._named_ids) <= 0).any():  # two that merged have one name, or only one of them had any
            self._set_names(dict(zip(self._named_ids.tolist(), self._names.tolist(), strict=True)))
        if np.any(events[:, 1] == Fate.DEATH):
            alive = self.cluster_ids_
            self._apart = self._apart[np.isin(self._apart, alive).all(axis=1)]
            self._set_names({key: value for key, value in self.names.items() if key in alive})

    def _warn_of_many(self, n_before: int) -> None:
        """Once, when there have been enough vectors to tell."""
        if not n_before < _ENOUGH_VECTORS <= self.n_vectors_:
            return
        share = self._next_subcluster / self.n_vectors_
        if share >= _TOO_MANY:
            warnings.warn(
                f"`subcluster_similarity_threshold` of {self._who} makes a sub-cluster of nearly every vector: "
                f"{self._next_subcluster} of {self.n_vectors_}. Every vector is then compared with all before it, and "
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
        return {name: value for name, value in (state | shown).items() if name not in _AT_WORK}


class _Teacher:
    """Lets a graph learn vectors of frames, and those that are clear."""

    def __init__(
        self,
        graph: LinkGraph,
        rule: LinkRule,
        corrections: Corrections,
        apart: Int64Array,
        margin: float | None,
        growing: Ledger,
    ) -> None:
        self.corrections = corrections
        self._growing = growing  # has the pairs of the corrections; to copy a million for each new one takes 5 ms
        self._graph, self._rule, self._apart, self._margin = graph, rule, apart, margin

    def taught(self, points: Points, moments: Int64Array) -> Answers:
        """Learn all; vectors with equal numbers in `moments` (n,) are of one frame, -1 of none."""
        seen: dict[int, list[int]] = {}
        parts = []
        for start, stop in row_blocks(points):
            rows, weights = dense_rows(points.block(start, stop)), points.block_weights(start, stop)
            for row in range(stop - start):
                weight = None if weights is None else weights[row : row + 1]
                parts.append(self._one(rows[row : row + 1], weight, int(moments[start + row]), seen))
        ids, nodes, events, joins = (np.concatenate(values) for values in zip(*parts, strict=True))
        return Answers(ids, nodes, events, joins)

    def _one(self, row: FloatArray, weight: Float64Array | None, moment: int, seen: dict[int, list[int]]) -> Answers:
        if self._margin is not None and self._is_unclear(row):
            return Answers(np.full(1, -1), np.full(1, -1), _NO_EVENTS, _NO_PAIRS)
        company = [] if moment < 0 else seen.setdefault(moment, [])
        banned = np.union1d(self._apart, np.array(company, np.int64))
        answer = self._graph.learn_row(row, weight, self._rule, self.corrections, banned)
        cluster = int(answer.ids[0])
        for _, fate, gone, kept in answer.events.tolist():
            if fate == Fate.MERGE:
                self._rename(gone, kept, seen)
        if moment >= 0 and answer.nodes[0] >= 0:
            self._keep_apart(cluster, [*self._apart.tolist(), *company])
            company.append(cluster)
        return answer

    def _is_unclear(self, row: FloatArray) -> bool:
        is_known = self._graph.n_nodes > 0 and self._graph.predict_row(row, self._rule)[0] >= 0
        return is_known and _lead(self._graph, row[0]) < (self._margin or 0.0)

    def _rename(self, gone: int, kept: int, seen: dict[int, list[int]]) -> None:
        for ids in seen.values():
            ids[:] = [kept if number == gone else number for number in ids]
        self._apart = np.unique(np.where(self._apart == gone, kept, self._apart))

    def _keep_apart(self, cluster: int, company: list[int]) -> None:
        if not company:
            return
        apart = self.corrections.apart
        sides = apart.ravel()
        partners = sides[np.flatnonzero(sides == cluster) ^ 1]  # the other sides of its pairs
        known = {cluster, *partners.tolist()}
        pairs = [sorted((cluster, other)) for other in dict.fromkeys(company) if other >= 0 and other not in known]
        if pairs:
            self.corrections = self.corrections._replace(apart=self._growing.add(np.array(pairs, np.int64), _MOST))


def most_in_place(n_features: int) -> int:
    """How many dense vectors one call learns in the arrays at work; beyond them it learns in a copy of all."""
    return block_rows(n_features)


def kept_apart_from(model: Links, cluster: int) -> list[int]:
    """The ids of the clusters that one is kept apart from, increasing."""
    sides = model._apart.ravel()
    return sorted(set(sides[np.flatnonzero(sides == cluster) ^ 1].tolist()))


def parts_of(model: Links, cluster: int) -> tuple[Int64Array, Float64Array, Float64Array]:
    """Numbers (m,), weights (m,) and sums (m, D) of the sub-clusters of an id at one moment; none if it is no more."""
    with model._turns.lock:
        own = np.flatnonzero(model.subcluster_ids_ == cluster)
        return model._subcluster_numbers[own], model.counts_[own], model.resultants_[own]


def nodes_now(model: Links, nodes: Int64Array) -> Int64Array:
    """The numbers by which sub-clusters (n,) go now; -1 for those that are no more."""
    with model._turns.lock:
        numbers, joins = model._subcluster_numbers.copy(), model._joins
    return _followed(nodes, joins, numbers, numbers)


def standing_merges(history: Int64Array) -> Int64Array:
    """Of a history (E, 4), the merges (S, 2) that hold, oldest first: ids that went, and those that they went into.

    A merge that was undone gave its id back: what became of it later is no matter of the cluster that it once joined.
    """
    told = history[(history[:, 1] == Fate.MERGE) | (history[:, 1] == Fate.SPLIT)]
    _, from_the_end = np.unique(told[::-1, 2], return_index=True)
    last = told[np.sort(len(told) - 1 - from_the_end)]
    return last[last[:, 1] == Fate.MERGE][:, 2:]


def _lead(graph: LinkGraph, row: FloatArray) -> float:
    """By how much the best cluster is nearer to a vector (D,) than the second best."""
    cosines = graph.cosines(np.asarray(row, np.float64))
    ids = graph.forest.nodes["id"][: graph.n_nodes]
    best = int(np.argmax(cosines))
    others = cosines[ids != ids[best]]
    return float(cosines[best] - others.max()) if others.size else math.inf


def _margins(saved: SavedForest, rule: LinkRule) -> Float64Array:
    """By how much each link to a parent exceeds its threshold (n,); 0 where there is none."""
    parents = saved.parents
    norms = np.sqrt(np.vecdot(saved.sums, saved.sums))
    gains = 1.0 / np.sqrt(1.0 + rule.spread / saved.counts)
    cosines = np.vecdot(saved.sums, saved.sums[parents]) / (norms * norms[parents])
    return np.where(parents >= 0, cosines - (rule.base + rule.slope * gains * gains[parents]), 0.0)


def _check_leaving(saved: SavedForest, number: int, slots: Int64Array, who: str) -> None:
    """Of a cluster some must stay, and no sub-cluster has more to give than it holds."""
    leaving = np.bincount(slots, minlength=len(saved.ids))
    is_member = saved.ids == number
    if (leaving > saved.counts + 0.5).any() or not (saved.counts[is_member] > leaving[is_member] + 0.5).any():
        raise InputError(
            f"`rows` of {who} must be vectors that were learned, fewer than all {saved.counts[is_member].sum():.0f} of "
            f"cluster {number}; got {len(slots)}. Leave one behind at least."
        )


def _check_frames(frames: Any, n_rows: int, who: str) -> Int64Array:
    """A number for each frame (n,); -1 without one."""
    if frames is None:
        return np.full(n_rows, -1)
    given = np.asarray(frames)
    if given.shape != (n_rows,) or given.dtype.kind not in "iuUS":
        raise InputError(
            f"`frames` of {who} must have an integer or a string for each of the {n_rows} vectors; got shape "
            f"{given.shape} of {given.dtype}. Vectors of one photo or moment have equal entries."
        )
    return np.unique(given, return_inverse=True)[1].astype(np.int64)


def _is_plain_unit(array: npt.NDArray[Any], n_features: int | None) -> bool:
    """Whether the gate would hand a vector on as it is: one look in place of all of its own."""
    if array.shape != (n_features,) or array.dtype not in UNIT_TOLERANCE or not array.flags.c_contiguous:
        return False
    # |norm - 1| is half of this, so that the gate agrees whatever the order of its sum. `vdot` is silent on overflow.
    return bool(abs(float(np.vdot(array, array)) - 1.0) <= UNIT_TOLERANCE[array.dtype])


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
