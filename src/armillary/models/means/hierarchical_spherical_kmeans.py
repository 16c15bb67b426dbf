"""Hierarchical spherical k-means: levels of clusters, coarse to fine, found from the finest upwards.

Story        k-means of rows gives the finest level; k-means of its directions, each of which counts once, the next
             coarser one; and so on (Vo et al. 2024). Directions lie more evenly over what rows there are than rows do
Resampling   after k-means of a level, k-means again of the few members of each cluster that are nearest to it: large
             clusters lose most of theirs, small ones none, so that directions spread further
Labels       z_i = argmax_k x_i . mu_k at the finest level; at others the ancestor of that cluster, so that ids nest
Row order    matters to draws and to ties alone
Departure    the paper draws on Euclidean distances and millions of clusters on GPUs; here rows are unit, starts are
             k-means||, and steps may be done on some rows, all of which are labelled in one pass
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.utils.validation import check_is_fitted

from armillary._typing import ArrayLike, Float64Array, IntArray, RandomState
from armillary.fitting.assignment import HardAssignment
from armillary.fitting.memory import NO_MEMORY, Memory
from armillary.models.clusterer import Clusterer
from armillary.models.labels_out import best_labels_to
from armillary.models.means._hierarchical_means_fit import Levels, Parameters, fitted_levels, sampled
from armillary.models.turns import learning, reading
from armillary.rules import AffineRule
from armillary.sums.directional import DirectionalStatistics
from armillary.validation import check_flag, check_integer

# What a memory knows the labels by.
_LABELLED = "labelled"


class HierarchicalSphericalKMeans(Clusterer):
    """Spherical k-means on several levels, coarse to fine, with ids that nest.

    The finest level is k-means of the rows, each coarser one k-means of the directions below it. `predict` answers at
    any level, and `armillary.curation.balanced_sample` draws evenly from the tree.

    Parameters
    ----------
    n_clusters : int or sequence of int, default=(100, 1000, 10000)
        Clusters of each level, rising. One number is one level.
    init : {"k-means||", "k-means++", "random"}, default="k-means||"
        First directions of each run.
    n_resamples : int, default=3
        How often each level is found again from the members nearest to each of its clusters. 0 is plain k-means on
        every level, which follows the density of rows more closely.
    resample_size : int or None, default=None
        Members of a cluster that a resample keeps. None keeps half of the mean number.
    n_fit_rows : int or None, default=None
        Rows that steps are done on, drawn by chance and held in memory; labels are those of all rows, by one pass at
        the end. None takes all.
    max_iter : int, default=50
        Most steps of each run of k-means. Runs that use them all do not warn: directions of a level are the input of
        the next one, and need not be settled.
    tol : float, default=1e-4
        A run ends when a step gains at most this fraction of its objective.
    missing : {"raise", "flag"}, default="raise"
        Rows without a direction (with NaN or infinities, or all zero, as an empty document is) are an error, or are
        passed over and get the label -1.
    random_state : int, Generator, RandomState or None, default=None
        Seed of the starts and of the rows drawn.
    n_threads : int or None, default=None
        Threads; None takes every core. The result does not depend on it.
    device : {None, "auto", "cpu", "cuda", "cuda:1", ...}, default=None
        Where rows are worked on: None is where X is, "auto" a GPU if there is one. The result does not depend on it.
    verbose : int, default=0
        1 shows a progress bar (needs the extra "progress").
    callbacks : callable, sequence of callables or None, default=None
        Each is called with every `FitEvent`.

    Attributes
    ----------
    cluster_centers_ : array of shape (K, D), float64
        Unit directions of the finest level.
    labels_ : array of shape (n,), int32
        Cluster of each row at the finest level: `predict` of the training rows.
    counts_ : array of shape (K,)
        Sum of the weights of the rows in each.
    inner_centers_ : array of shape (M, D), float64
        Unit directions of the coarser levels, the coarsest first.
    level_sizes_ : array of shape (I,), int64
        Clusters of each level, coarse to fine.
    parents_ : array of shape (V,), int64
        The tree: nodes are the clusters of all levels, the coarsest first; the node each belongs to, -1 at the top.
        Children of a node follow each other.
    objective_ : float
        sum_i w_i x_i . mu_{z_i} at the finest level.
    inertia_ : float
        sum_i w_i (1 - x_i . mu_{z_i}), the sum of cosine distances to the directions.
    n_iter_ : int
        Steps of all runs.
    n_clusters_, n_features_in_ : int
        K and D.
    device_ : str
        Where the last fit ran. It is not saved.
    feature_names_in_ : array of shape (D,)
        Column names, where X had them.

    Notes
    -----
    A step at the finest level costs 2 n D K operations, n the rows that steps are done on; levels above cost next to
    nothing beside it. Results repeat to the bit for one `random_state`, whatever `n_threads` and however rows are cut.

    References
    ----------
    Vo, Khalidov, Darcet et al. (2024), Automatic data curation for self-supervised learning: a clustering-based
    approach. Bahmani et al. (2012), Scalable k-means++.

    Examples
    --------
    >>> import numpy as np
    >>> from armillary import HierarchicalSphericalKMeans
    >>> from armillary.datasets import make_vmf_mixture
    >>> X, _, _ = make_vmf_mixture(1000, 8, 12, concentration=80.0, random_state=0)
    >>> model = HierarchicalSphericalKMeans(n_clusters=(3, 12), random_state=0).fit(X)
    >>> coarse, fine = model.predict(X, level=0), model.predict(X)
    >>> bool((model.ancestors(0)[fine] == coarse).all())
    True
    """

    _parameters_kind = Parameters

    def __init__(
        self,
        n_clusters: Any = (100, 1000, 10000),
        *,
        init: str = "k-means||",
        n_resamples: int = 3,
        resample_size: int | None = None,
        n_fit_rows: int | None = None,
        max_iter: int = 50,
        tol: float = 1e-4,
        missing: str = "raise",
        random_state: RandomState = None,
        n_threads: int | None = None,
        device: str | None = None,
        verbose: int = 0,
        callbacks: Any = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.init = init
        self.n_resamples = n_resamples
        self.resample_size = resample_size
        self.n_fit_rows = n_fit_rows
        self.max_iter = max_iter
        self.tol = tol
        self.missing = missing
        self.random_state = random_state
        self.n_threads = n_threads
        self.device = device
        self.verbose = verbose
        self.callbacks = callbacks

    @learning
    def fit(self, X: Any, y: Any = None, sample_weight: ArrayLike | None = None) -> Self:
        """Find the levels of the rows of X (n, D), dense or CSR; `y` is ignored.

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
        return self._learn(X, sample_weight)

    def _learn(self, X: Any, sample_weight: Any = None, memory: Memory = NO_MEMORY, *, labels_all: bool = True) -> Self:
        with self._fitting(X, sample_weight, Parameters.check) as (_, parameters, stream, passes, emitter):
            own = sampled(passes, parameters, stream)
            levels = fitted_levels(own, parameters, stream, emitter, self.n_threads, memory)
            labelled = passes if labels_all else own
            known = memory.get(_LABELLED)
            if known is None:
                assignment = HardAssignment(labelled)
                _, statistics = assignment.sweep(AffineRule.cosines(levels.directions[-1]))
                value = _objective(levels.directions[-1], statistics)
                known = {"labels": assignment.labels.to_host(), "counts": statistics.counts, "objective": value}
                memory.put(_LABELLED, **known)
            value = float(known["objective"])
            emitter.keep(restart=parameters.n_runs, step=1, n_clusters=parameters.sizes[-1], objective=value)
            total_weight = labelled.points.total_weight
        self._publish(
            X,
            is_new=True,
            **_fitted(levels),
            counts_=known["counts"],
            labels_=known["labels"],
            objective_=value,
            inertia_=max(0.0, total_weight - value),
        )
        return self

    _learn_remembered = learning(_learn)

    @reading
    def predict(self, X: Any, *, level: int | None = None, reject: bool = False, out: Any = None) -> IntArray:
        """The cluster of each row of X (n,) at a level: 0 is the coarsest, None (or -1) the finest. Learns nothing.

        The answer is the ancestor of the nearest cluster of the finest level. `reject` is there because other
        clusterers have it: no row is too far from all clusters. `out` takes the labels, and is returned: an array of n
        integers, a memory map, or the path of an npy file.

        Parameters
        ----------
        X : array or CSR matrix of shape (n, D)
        level : int, optional
        reject : bool, default=False
        out : array, memory map or path, optional

        Returns
        -------
        array of shape (n,)
            Numbers of clusters; where `out` was given, `out`.
        """
        check_flag(reject, "reject", f"{self._who}.predict")
        points = self._points(X, is_new=False)
        names = None if level is None else self._ancestors(level)
        rule = AffineRule.cosines(np.ascontiguousarray(self.cluster_centers_, dtype=np.float64))
        return best_labels_to(out, points, self._passes(points), rule, names)

    def _answers(self, X: Any, *, rejects: bool, out: Any = None) -> IntArray:
        return self.predict(X, reject=rejects, out=out)

    @reading
    def score(self, X: Any, y: Any = None, sample_weight: ArrayLike | None = None) -> float:
        """Minus the sum of cosine distances of the rows of X to their finest directions: 0 is perfect.

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
        with self._passes(points) as passes:
            _, statistics = HardAssignment(passes).sweep(AffineRule.cosines(self.cluster_centers_))
        return min(0.0, _objective(self.cluster_centers_, statistics) - points.total_weight)

    @reading
    def ancestors(self, level: int = 0) -> npt.NDArray[np.int64]:
        """The cluster of a level that each cluster of the finest one belongs to (K,), int64.

        Parameters
        ----------
        level : int, default=0
            0 is the coarsest; negative ones count from the finest.

        Returns
        -------
        array of shape (K,)
            `ancestors(level)[predict(X)]` is `predict(X, level=level)`. It never falls from one cluster to the next.
        """
        check_is_fitted(self)
        return self._ancestors(level)

    @reading
    def centers(self, level: int = -1) -> Float64Array:
        """The unit directions (K_l, D) of the clusters of a level.

        Parameters
        ----------
        level : int, default=-1
            0 is the coarsest; negative ones count from the finest.

        Returns
        -------
        array of shape (K_l, D)
            Float64.
        """
        check_is_fitted(self)
        number = self._checked_level(level)
        starts = np.cumsum([0, *self.level_sizes_])
        if number == len(self.level_sizes_) - 1:
            return np.asarray(self.cluster_centers_)
        return np.asarray(self.inner_centers_[starts[number] : starts[number + 1]])

    def _ancestors(self, level: int) -> npt.NDArray[np.int64]:
        number = self._checked_level(level)
        starts = np.cumsum([0, *self.level_sizes_])
        nodes = np.arange(starts[-2], starts[-1])
        for _ in range(len(self.level_sizes_) - 1 - number):
            nodes = self.parents_[nodes]
        return np.asarray(nodes - starts[number])

    def _checked_level(self, level: Any) -> int:
        n_levels = len(self.level_sizes_)
        hint = "0 is the coarsest level, -1 the finest."
        number = check_integer(level, "level", self._who, low=-n_levels, high=n_levels - 1, hint=hint)
        return number % n_levels


def fit_remembered(
    model: HierarchicalSphericalKMeans, X: Any, memory: Memory, *, labels_all: bool = True
) -> HierarchicalSphericalKMeans:
    """Fit a model with a memory of its steps: a fit that was broken off goes on, and ends with the same bytes.

    Without `labels_all` there is no pass over all rows: labels, counts and objective are those of the rows that steps
    were done on.
    """
    return model._learn_remembered(X, None, memory, labels_all=labels_all)


def _objective(directions: Float64Array, statistics: DirectionalStatistics) -> float:
    return float(np.vecdot(statistics.resultants, directions).sum())


def _fitted(levels: Levels) -> dict[str, Any]:
    coarser = levels.directions[:-1]
    n_features = levels.directions[-1].shape[1]
    return {
        "cluster_centers_": levels.directions[-1],
        "inner_centers_": np.concatenate([np.empty((0, n_features)), *coarser]),
        "level_sizes_": np.array([len(one) for one in levels.directions], dtype=np.int64),
        "parents_": levels.node_parents,
        "n_clusters_": len(levels.directions[-1]),
        "n_iter_": levels.n_steps,
    }
