"""The answer that needs no parameter, as an estimator: clusters at three levels, memberships, outliers.

What is found comes from `choose_model`; here are the levels beside it, what a user asks to be merged, and which rows
belong nowhere. Everything that `predict` needs is in the saved state, so a file answers as the fit does.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self, cast

import numpy as np
import numpy.typing as npt

from armillary._typing import ArrayLike, Float64Array, IntArray, RandomState
from armillary.draws import Stream
from armillary.engines.select import open_passes, refuse_at_workers
from armillary.exceptions import ParameterError
from armillary.models.clusterer import Clusterer
from armillary.models.labels_out import labels_to
from armillary.models.saved_state import SavedRecord
from armillary.models.turns import learning, reading
from armillary.naming.cluster_names import ClusterNames, name_clusters
from armillary.points import Points, everywhere
from armillary.rules import AffineRule
from armillary.selection import levels as tree_levels
from armillary.selection.automatic import ModelChoice, as_fitted, check_min_size, drawn_rows, find_model
from armillary.selection.counting import counted
from armillary.selection.levels import LEVELS, Levels, Pieces, Tree
from armillary.selection.small_clusters import Fitted
from armillary.selection.tails import FALSE_ALARMS, Apart, Elsewhere, RunnerUp, Tails, fit_tails
from armillary.selection.term_weights import WAYS, are_counts, inverse_frequencies, weighed
from armillary.validation import check_choice, check_integer, check_number


@dataclass(frozen=True, eq=False)
class SavedState(SavedRecord):
    """What answers need: the chosen clusters (C), their pieces (V), the tree of these, and how far rows may lie."""

    directions: Float64Array  # (C, D)
    pieces: Float64Array  # (V, D)
    parents: npt.NDArray[np.int32]  # (V,)
    names: npt.NDArray[np.int32]  # (V,): the label of each piece
    coarse: npt.NDArray[np.int32]  # (C,)
    children: npt.NDArray[np.int64]  # (M, 2)
    heights: Float64Array  # (M,)
    shapes: Float64Array  # (C,)
    scales: Float64Array  # (C,)
    limits: Float64Array  # (C,)
    leaves: npt.NDArray[np.int32]  # (N,): the piece of each row, -1 for rows without a direction
    idf: Float64Array | None = None  # (D,)

    @property
    def tails(self) -> Tails:
        """How far rows lie."""
        return Tails(self.shapes, self.scales, self.limits)


class AutoClusterer(Clusterer):
    """Clusters without a parameter: their number is found, and whether they are clear is said.

    The clusters are those of `choose_model`: spherical k-means from communities of rows that share neighbours, with as
    many clusters as halves of the rows agree on. Beside them are coarser and finer ones that nest, a membership of
    every row, and on request the label -1 for rows that belong nowhere.

    Parameters
    ----------
    level : {"coarse", "chosen", "fine"}, default="chosen"
        Which of three levels that nest the labels are of.
    n_clusters : int or None, default=None
        Cut the tree of clusters into so many instead; from 1 to the number of fine clusters.
    merge : sequence of sequences of int or None, default=None
        Clusters to take together, e.g. [[3, 7]]: they keep the smallest id, others keep theirs, and gaps stay.
    outliers : {None, "auto"} or float, default=None
        Give rows that belong nowhere the label -1. "auto" calls 1 in 100 rows that do belong outliers, a number between
        0 and 0.5 that share of them.
    min_cluster_size : int or None, default=None
        Beyond 10,000 rows, those that fit badly are looked at again for groups of at least so many; None is
        max(10, n / 20,000).
    tfidf : {"auto", "on", "off"}, default="auto"
        Weigh words: "auto" where rows are sparse counts, i.e. whole numbers.
    missing : {"raise", "flag"}, default="raise"
        Rows without a direction (NaN, infinities, all zero) are an error, or take no part and get the label -1.
    random_state : int, Generator, RandomState or None, default=0
        Seed of the sample, of the halves and of the order in which communities are found.
    n_threads : int or None, default=None
        Threads; None takes every core. The result does not depend on it.
    device : {None, "auto", "cpu", "cuda", "cuda:1", ...}, default=None
        Where new rows are worked on: None is where X is. The comparison itself is made in memory.
    verbose : int, default=0
        1 shows a progress bar over what is compared (needs the extra "progress").
    callbacks : callable, sequence of callables or None, default=None
        Each is called with every `FitEvent` of the comparison.

    Attributes
    ----------
    labels_ : array of shape (n,), int32
        Cluster of each row; -1 for outliers, where asked for, and for rows without a direction.
    n_clusters_ : int
        How many clusters; -1 is none.
    cluster_ids_ : array of shape (n_clusters_,)
        Their labels: 0, 1, ... with gaps where clusters were merged.
    cluster_centers_ : array of shape (n_clusters_, D)
        The mean direction of each, in that order.
    membership_ : array of shape (n,)
        The share of its cluster, by its law, that lies farther out than the row: 1 in the middle, 0 far out.
    is_clear_ : bool
        Whether the clusters are clearer than those of rows without any. Labels are there all the same.
    clarity_ : float
        How clear, from 0, no more than such rows, to 1; 0.2 is clear.
    k_range_ : array of shape (2,)
        Numbers of clusters that fit about as well as the chosen one.
    levels_ : Levels
        `coarse`, `chosen` and `fine` labels that nest, and the `tree`.
    reason_ : str
        What was compared, and why this was taken, for people.
    choice_ : ModelChoice
        What was compared. It is not saved.
    names_ : ClusterNames
        The words of each cluster, where `fit` was given texts (`name_clusters`). They are not saved.
    device_ : str
        Where the last fit ran. It is not saved.
    n_features_in_ : int
        D.
    feature_names_in_ : array of shape (D,)
        Column names, where X had them.

    Notes
    -----
    Outliers: each cluster has a limit beyond which a share of new rows of that cluster lies (`outliers`, 0.01 by
    default), told from distances of rows to directions that were learned without them. Where a cluster has many rows
    they tell it themselves, else the small clusters together, by gamma laws of their distances, as von Mises-Fisher
    clusters have. Rows that lie as even rows on the sphere would raise no limit (dense X of three columns or more).

    Examples
    --------
    >>> from armillary import AutoClusterer
    >>> from armillary.datasets import make_vmf_mixture
    >>> X, truth, _ = make_vmf_mixture(1000, 20, 7, concentration=60.0, random_state=0)
    >>> model = AutoClusterer().fit(X)
    >>> model.n_clusters_, model.is_clear_
    (7, True)
    >>> AutoClusterer(merge=[[0, 3]]).fit(X).cluster_ids_.tolist()
    [0, 1, 2, 4, 5, 6]
    """

    _state_kind = SavedState
    _saved_state: SavedState

    def __init__(
        self,
        level: str = "chosen",
        n_clusters: int | None = None,
        merge: Any = None,
        outliers: str | float | None = None,
        *,
        min_cluster_size: int | None = None,
        tfidf: str = "auto",
        missing: str = "raise",
        random_state: RandomState = 0,
        n_threads: int | None = None,
        device: str | None = None,
        verbose: int = 0,
        callbacks: Any = None,
    ) -> None:
        self.level = level
        self.n_clusters = n_clusters
        self.merge = merge
        self.outliers = outliers
        self.min_cluster_size = min_cluster_size
        self.tfidf = tfidf
        self.missing = missing
        self.random_state = random_state
        self.n_threads = n_threads
        self.device = device
        self.verbose = verbose
        self.callbacks = callbacks

    @learning
    def fit(
        self, X: Any, y: Any = None, sample_weight: ArrayLike | None = None, texts: Sequence[Any] | None = None
    ) -> Self:
        """Find the clusters of the rows of X (n, D), dense or CSR; `y` is ignored.

        With `texts`, one for each row, the clusters get names: `names_`.

        Parameters
        ----------
        X : array or CSR matrix of shape (n, D)
        y : ignored
        sample_weight : array of shape (n,), optional
            Weights of the rows; 1 by default.
        texts : sequence of n str, optional

        Returns
        -------
        self
        """
        self._check_own()
        refuse_at_workers(X, self._who, "models are compared on a sample of it and fitted over and over")
        given = self._gate(X, sample_weight, is_new=True)
        idf = inverse_frequencies(X) if self._weighs(X) else None
        given = given if idf is None else self._gate(weighed(X, idf), sample_weight, is_new=True)
        points = replace(cast(Points, given), is_present=None)
        stream = Stream.of(self.random_state)
        size = check_min_size(self.min_cluster_size, points.n_rows, self._who)
        choice = find_model(
            points, stream, self._observers(), size, self.n_threads, points.matrix, points.weights, "raise"
        )
        state = self._state_of(points, drawn_rows(points.counted(), stream), choice, stream)
        state = replace(state, names=self._names(state), idf=idf)
        found, membership = self._found(points, state, rejects=self._rate is not None)
        is_present = cast(Points, given).is_present
        labels = everywhere(found, is_present)
        names = None if texts is None else name_clusters(labels, texts=texts)
        ids = np.unique(state.names).astype(np.int64)
        self._publish(
            X,
            is_new=True,
            n_clusters_=len(ids),
            labels_=labels,
            membership_=everywhere(membership, is_present, 0.0),
            cluster_ids_=ids,
            cluster_centers_=_centers(points, state, ids),
            is_clear_=bool(choice.is_clear),
            clarity_=float(choice.clarity),
            k_range_=np.array(choice.k_range, dtype=np.int64),
            reason_=self._reason(choice, state, found, idf),
            _saved_state=replace(state, leaves=everywhere(state.leaves, is_present)),
            _choice=choice,
            _names_found=names,
        )
        return self

    @property
    def levels_(self) -> Levels:
        """Coarse, chosen and fine labels that nest, and their tree."""
        state = self._kept("levels_")
        is_here = state.leaves >= 0
        chosen = np.where(is_here, state.parents[state.leaves], -1).astype(np.int32)
        coarse = np.where(is_here, state.coarse[chosen], -1).astype(np.int32)
        tree = Tree(len(state.parents), state.children, state.heights)
        return Levels(coarse, chosen, state.leaves, tree, state.parents)

    @property
    def choice_(self) -> ModelChoice:
        """What was compared; a model from a file has none."""
        if "_choice" not in vars(self):
            raise AttributeError(f"This {self._who} was not fitted here: `choice_` is not saved.")
        return cast(ModelChoice, vars(self)["_choice"])

    @property
    def names_(self) -> ClusterNames:
        """The words of the clusters, where `fit` was given texts. They are not saved."""
        names = vars(self).get("_names_found")
        if names is None:
            raise AttributeError(f"This {self._who} has no `names_`: they need texts. Call fit(X, texts=texts).")
        return cast(ClusterNames, names)

    def _kept(self, name: str) -> SavedState:
        if "_saved_state" not in vars(self):
            raise AttributeError(f"This {self._who} is not fitted: it has no `{name}`. Call fit first.")
        return self._saved_state

    @reading
    def predict_membership(self, X: Any) -> Float64Array:
        """The membership (n,) of rows of X in the clusters that they are given: see `membership_`.

        Parameters
        ----------
        X : array or CSR matrix of shape (n, D)

        Returns
        -------
        array of shape (n,)
            Shares in [0, 1].
        """
        points = self._points(X, is_new=False)
        found = self._found(replace(cast(Points, points), is_present=None), self._saved_state, rejects=False)[1]
        return cast(Float64Array, everywhere(found, cast(Points, points).is_present, 0.0))

    @reading
    def score(self, X: Any, y: Any = None, sample_weight: ArrayLike | None = None) -> float:
        """Minus the inertia of X about its nearest `cluster_centers_`: higher is better, 0 is perfect.

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
        points = self._points(X, sample_weight, is_new=False)
        rule = AffineRule.cosines(self.cluster_centers_)
        with open_passes(points, self.n_threads, self._who) as passes:
            sums = passes.label(rule, passes.labels()).sums
        return min(0.0, float(np.vecdot(sums.resultants, self.cluster_centers_).sum()) - points.total_weight)

    def _points(self, X: Any, sample_weight: Any = None, *, is_new: bool) -> Any:
        points = self._gate(X, sample_weight, is_new=is_new)
        if is_new or self._saved_state.idf is None:
            return points
        refuse_at_workers(X, self._who, "its columns are weighed first")
        return self._gate(weighed(X, self._saved_state.idf), sample_weight, is_new=is_new)

    def _answers(self, X: Any, *, rejects: bool, out: Any = None) -> IntArray:
        points = cast(Points, self._points(X, is_new=False))
        present = replace(points, is_present=None)
        found, _ = self._found(present, self._saved_state, rejects=rejects or self._rate is not None)
        with labels_to(out, points.n_given, np.int32, f"{self._who}.predict") as place:
            place.put(everywhere(found, points.is_present))
        return place.result

    def _found(self, points: Points, state: SavedState, *, rejects: bool) -> tuple[IntArray, Float64Array]:
        """Labels and memberships of rows (n,)."""
        rule = AffineRule.cosines(state.directions)
        with open_passes(replace(points, weights=None), self.n_threads, self._who) as passes:
            nearest = passes.labels()
            passes.label(rule, nearest, sums=False)
            cosines = np.asarray(passes.own(rule, nearest).to_host(), dtype=np.float64)
            chosen = nearest.to_host()
        distances = np.clip(1.0 - cosines, 0.0, 2.0)
        labels = self._named(points, chosen, state)
        if rejects:
            labels = np.where(state.tails.is_out(chosen, distances), -1, labels).astype(np.int32)
        return labels, state.tails.membership(chosen, distances)

    def _named(self, points: Points, chosen: npt.NDArray[np.int32], state: SavedState) -> npt.NDArray[np.int32]:
        """The labels of rows, from their chosen clusters; pieces are looked at where they have other names."""
        _, first = np.unique(state.parents, return_index=True)
        if np.array_equal(state.names, state.names[first][state.parents]):
            return state.names[first][chosen]
        pieces = Pieces(state.pieces, state.parents)
        return state.names[tree_levels.leaves_of(points, chosen, pieces)]

    def _state_of(self, points: Points, compared: Points, choice: ModelChoice, stream: Stream) -> SavedState:
        """Pieces, tree and tails of the chosen clusters."""
        fitted = as_fitted(points, choice.model, self.n_threads)
        is_filled = fitted.counts > 0
        if not is_filled.all():  # clusters that no row is nearest to are none
            renamed = np.cumsum(is_filled) - 1
            fitted = replace(
                fitted,
                directions=fitted.directions[is_filled],
                labels=renamed[fitted.labels].astype(np.int32),
                counts=fitted.counts[is_filled],
                lengths=fitted.lengths[is_filled],
            )
        n_chosen = len(fitted.directions)
        candidates = choice.selection.candidates
        with open_passes(replace(compared, weights=None), self.n_threads, self._who) as passes:
            nearest = passes.labels()
            passes.label(AffineRule.cosines(fitted.directions), nearest, sums=False)
            compared_labels = nearest.to_host()
        finer = tree_levels.finer(candidates, n_chosen)
        pieces = tree_levels.cut_in_pieces(compared, compared_labels, fitted.directions, finer)
        leaves = tree_levels.leaves_of(points, fitted.labels, pieces)
        with open_passes(replace(points, weights=None), self.n_threads, self._who) as passes:
            sums = passes.sum(passes.labels_from(leaves), len(pieces.parents)).resultants
        tree = tree_levels.tree_of(np.asarray(sums), pieces.parents)
        _, first = np.unique(pieces.parents, return_index=True)
        coarse = tree.cut(min(n_chosen, tree_levels.n_coarse(candidates, n_chosen)))[first]
        tails = self._tails(points, fitted, stream)
        return SavedState(
            fitted.directions,
            pieces.directions,
            pieces.parents,
            pieces.parents,
            coarse.astype(np.int32),
            tree.children,
            tree.heights,
            tails.shapes,
            tails.scales,
            tails.limits,
            leaves,
        )

    def _tails(self, points: Points, fitted: Fitted, stream: Stream) -> Tails:
        """How far rows lie, by those that count."""
        n_clusters = len(fitted.directions)
        labels: npt.NDArray[np.integer[Any]] = fitted.labels
        distances = fitted.distances
        if n_clusters > 1:
            rule = AffineRule.cosines(fitted.directions)
            with open_passes(replace(points, weights=None), self.n_threads, self._who) as passes:
                runners_up = passes.values(rule, RunnerUp(), passes.labels_from(labels))
            apart = Apart.told(labels, distances, runners_up)
            labels, distances = apart.labels, apart.distances
        elsewhere = None
        # documents are never even, and on a circle even rows lie where tails of clusters do
        if not points.is_sparse and points.n_features > 2:
            elsewhere = Elsewhere.evenly(fitted.directions, stream.generator("elsewhere"))
        is_counted = np.ones(points.n_rows, dtype=bool) if points.weights is None else points.weights > 0.0
        rate = FALSE_ALARMS if self._rate is None else self._rate
        return fit_tails(labels[is_counted], distances[is_counted], n_clusters, rate, elsewhere)

    def _names(self, state: SavedState) -> npt.NDArray[np.int32]:
        """The label of each piece, as level, number and mergers ask."""
        tree = Tree(len(state.parents), state.children, state.heights)
        if self.n_clusters is not None:
            if self.n_clusters > tree.n_leaves:
                raise ParameterError(
                    f"`n_clusters` of {self._who} must be at most the number of fine clusters, {tree.n_leaves:,} here; "
                    f"got {self.n_clusters:,}. Give SphericalKMeans the number to cut further."
                )
            names = tree.cut(self.n_clusters)
        else:
            by_level: dict[str, npt.NDArray[Any]] = {
                "coarse": state.coarse[state.parents],
                "chosen": state.parents,
                "fine": np.arange(len(state.parents)),
            }
            names = by_level[self.level].astype(np.int32)
        return self._merged(names)

    def _merged(self, names: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
        """Names after the mergers that are asked for."""
        table = np.arange(int(names.max()) + 1, dtype=np.int32)
        for group in _groups(self.merge, self._who):
            for one in group:
                if not 0 <= one < len(table):
                    raise ParameterError(
                        f"`merge` of {self._who} must name clusters from 0 to {len(table) - 1:,}; got {one}. "
                        "`levels_` and `labels_` of a fit without it show them."
                    )
            together = np.isin(table, table[group])
            table[together] = table[together].min()
        return table[names]

    @property
    def _rate(self) -> float | None:
        """The share of rows that belong and get -1; None where none do."""
        if self.outliers is None:
            return None
        return FALSE_ALARMS if isinstance(self.outliers, str) else float(self.outliers)

    def _weighs(self, X: Any) -> bool:
        return self.tfidf == "on" or (self.tfidf == "auto" and are_counts(X))

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._check_own()

    def _check_own(self) -> None:
        who = self._who
        check_choice(self.level, "level", who, LEVELS, hint='"chosen" is the one that was measured to hold best.')
        check_choice(self.tfidf, "tfidf", who, WAYS, hint='"auto" weighs sparse counts.')
        if self.n_clusters is not None:
            check_integer(self.n_clusters, "n_clusters", who, low=1, hint="None takes the level.")
            if self.level != "chosen":
                raise ParameterError(
                    f"{who} takes `level` or `n_clusters`, since both say where to cut the tree; got "
                    f"level={self.level!r} and n_clusters={self.n_clusters}. Leave one out."
                )
        if isinstance(self.outliers, str):
            check_choice(self.outliers, "outliers", who, ("auto",), hint="None keeps every row in a cluster.")
        elif self.outliers is not None:
            hint = "It is the share of rows that belong and get -1 all the same."
            check_number(self.outliers, "outliers", who, low=1e-6, high=0.5, hint=hint)
        _groups(self.merge, who)
        check_min_size(self.min_cluster_size, 1, who)

    def _reason(self, choice: ModelChoice, state: SavedState, labels: IntArray, idf: Float64Array | None) -> str:
        """The reason of the choice, and what was done beside it."""
        words = [choice.reason]
        if idf is not None:
            why = "Rows are counts (sparse, whole numbers), so words" if self.tfidf == "auto" else "Words"
            words.insert(0, f'{why} were weighed by TF-IDF; tfidf="off" leaves them as they are.')
        n_shown, n_chosen = len(np.unique(state.names)), len(state.directions)
        if n_shown != n_chosen or self.level != "chosen":
            words.append(f"Shown are {counted(n_shown, 'cluster')} of its tree.")
        if self._rate is not None:
            words.append(_of_outliers(int(np.count_nonzero(labels < 0)), self._rate))
        return " ".join(words)


def _of_outliers(n_out: int, rate: float) -> str:
    beyond = "lies beyond the limit of its cluster and gets" if n_out == 1 else None
    beyond = beyond or "lie beyond the limit of their cluster and get"
    return f"{counted(n_out, 'row')} {beyond} -1; of rows that belong, {rate:.1%} would."


def _centers(points: Points, state: SavedState, ids: npt.NDArray[np.int64]) -> Float64Array:
    """Mean directions of the clusters with these labels."""
    if np.array_equal(state.names, state.parents):
        return state.directions
    rows = state.names[state.leaves]
    table = np.full(int(ids.max()) + 1, -1, dtype=np.int32)
    table[ids] = np.arange(len(ids), dtype=np.int32)
    with open_passes(replace(points, weights=None), None, points.who) as passes:
        sums = passes.sum(passes.labels_from(table[rows]), len(ids))
    first = [state.pieces[np.flatnonzero(state.names == one)[0]] for one in ids]
    return np.asarray(sums.directions(otherwise=np.array(first)))


def _is_list(value: Any) -> bool:
    if isinstance(value, np.ndarray):
        return value.ndim > 0
    return isinstance(value, Iterable) and not isinstance(value, str | bytes | dict)


def _groups(merge: Any, who: str) -> list[list[int]]:
    """The clusters to take together."""
    if merge is None:
        return []
    rule = f"`merge` of {who} must be groups of cluster numbers, e.g. [[3, 7]]; got {merge!r}. None merges nothing."
    if not _is_list(merge):
        raise ParameterError(rule)
    groups = []
    for group in merge:
        if not _is_list(group):
            raise ParameterError(rule)
        members = list(group)
        if any(isinstance(one, bool) or not isinstance(one, int | np.integer) for one in members):
            raise ParameterError(rule)
        groups.append([int(one) for one in members])
    return groups
