"""Spherical k-means: K directions that the rows lie closest to, by cosine.

Objective    J = sum_i w_i x_i . mu_{z_i}                    vmf_mixtures.md, 3; Dhillon and Modha 2001
Labels       z_i = argmax_k x_i . mu_k, ties to the smallest k
Directions   mu_k = r_k / |r_k|, r_k the resultant; the old direction where rows cancel
Row order    does not matter to the model; it matters to k-means++ draws and to the last bits of sums
Balance      maximise J with at most `balance` n / K rows in a cluster: prices in the labels' rule, places in row order
             (fitting/balance.py); there row order matters to rows that are too many
Batches      directions move after each of `batch_size` rows (fitting/batches.py); there row order matters to the steps
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, Self, cast

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from armillary._typing import ArrayLike, Float64Array, IntArray, RandomState
from armillary.draws import Stream
from armillary.engines.contract import Algorithm, Passes
from armillary.exceptions import InputError
from armillary.fitting import balance, initialization
from armillary.fitting.assignment import HardAssignment
from armillary.fitting.batches import BatchedAssignment
from armillary.fitting.events import logger
from armillary.fitting.loop import Run, best_run, run_chain
from armillary.fitting.stopping import RelativeGain
from armillary.models.clusterer import Clusterer
from armillary.models.labels_out import best_labels_to
from armillary.models.parameters import Given, RowShape
from armillary.models.turns import learning, reading
from armillary.rules import AffineRule
from armillary.sums.directional import DirectionalStatistics, on_grid
from armillary.validation import check_choice, check_integer, check_number

# Steps without a gain after which a balanced fit ends: prices swing before they settle.
_PATIENCE = 20
# What a balanced fit tells of the free one before it.
_OF_THE_FREE_FIT = ("free_objective_", "free_largest_")


@dataclass(frozen=True, eq=False)
class State:
    """What the next step needs."""

    directions: Float64Array  # (K, D)
    statistics: DirectionalStatistics  # of the rows that made the directions


@dataclass(frozen=True)
class Parameters:
    """Checked constructor parameters."""

    n_clusters: int
    init: str | Float64Array
    n_init: int
    max_iter: int
    tol: float
    algorithm: Algorithm
    refills: bool
    balance: float | None = None
    batch_size: int | None = None

    @property
    def n_runs(self) -> int:
        """Runs that observers see: one more where clusters are balanced."""
        return self.n_init + (self.balance is not None)

    @classmethod
    def check(cls, given: Given, rows: RowShape, who: str) -> Parameters:
        """The parameters, or an error that names the wrong one."""
        n_clusters = check_integer(given["n_clusters"], "n_clusters", who, low=1)
        if n_clusters > rows.n_rows:
            raise InputError(
                f"`n_clusters` of {who} must not exceed the number of rows; got n_clusters={n_clusters} and "
                f"n_samples={rows.n_rows}. Lower n_clusters or give more rows."
            )
        shape = (n_clusters, rows.n_features)
        init = initialization.check_init(given["init"], shape, "n_clusters", who, ("k-means++", "k-means||", "random"))
        n_init = 10 if isinstance(init, str) and init == "random" else 1
        if not (isinstance(given["n_init"], str) and given["n_init"] == "auto"):
            hint = "'auto' takes 1 for k-means++ or given directions, 10 for random rows."
            n_init = check_integer(given["n_init"], "n_init", who, low=1, hint=hint)
        algorithm = check_choice(given["algorithm"], "algorithm", who, ("auto", "lloyd", "hamerly"))
        return cls(
            n_clusters=n_clusters,
            init=init,
            n_init=n_init,
            max_iter=check_integer(given["max_iter"], "max_iter", who, low=1),
            tol=check_number(
                given["tol"], "tol", who, low=0.0, hint="It is a relative gain; 0 runs until nothing is gained."
            ),
            algorithm=cast(Algorithm, algorithm),
            refills=check_choice(given["empty_clusters"], "empty_clusters", who, ("refill", "keep")) == "refill",
            balance=_checked_balance(given["balance"], who),
            batch_size=_checked_batch_size(given["batch_size"], who),
        )


def _checked_balance(value: Any, who: str) -> float | None:
    hint = "It is the largest cluster over the mean, e.g. 1.2; None leaves clusters free."
    return None if value is None else check_number(value, "balance", who, low=1.0, hint=hint)


def _checked_batch_size(value: Any, who: str) -> int | None:
    hint = "It is a number of rows; None has directions move after all rows."
    return None if value is None else check_integer(value, "batch_size", who, low=1, hint=hint)


def initial_state(passes: Passes, parameters: Parameters, stream: Stream, restart: int) -> State:
    """Directions before the first sweep."""
    draws = stream.generator("start", restart)
    directions = initialization.starting_directions(passes, parameters.init, parameters.n_clusters, draws)
    return State(directions, DirectionalStatistics.zero(*directions.shape))


def score_rule(state: State) -> AffineRule:
    """The score is the cosine."""
    return AffineRule.cosines(state.directions)


def update(state: State, statistics: DirectionalStatistics) -> State:
    """Directions that maximise the objective for fixed labels."""
    return State(statistics.directions(otherwise=state.directions), statistics)


def objective(state: State, statistics: DirectionalStatistics) -> float:
    """J of labels with these statistics: sum_i x_i . mu_{z_i} = sum_k r_k . mu_k, with no sum over rows."""
    return float(np.vecdot(statistics.resultants, state.directions).sum())


class Lloyd:
    """Labels, then directions, over and over: the chain that the loop steps."""

    def __init__(self, passes: Passes, state: State, parameters: Parameters) -> None:
        self.state = state
        self.assignment = HardAssignment(passes, parameters.algorithm, parameters.n_clusters)
        self.is_settled = False  # whether the labels are those of the present directions
        self._refills = parameters.refills

    @property
    def n_clusters(self) -> int:
        """K."""
        return len(self.state.directions)

    def step(self) -> tuple[float, bool]:
        """The objective is that of the state after the step."""
        n_changed, statistics = self.assignment.sweep(score_rule(self.state))
        has_empty = self._refills and not statistics.counts.all()
        if has_empty:
            statistics = self.assignment.fill_empty(self.state.directions)
        # the sums before are let go first: a fit to documents holds three arrays of K x D, and no fourth
        self.state = State(self.state.directions, statistics)
        self.state = update(self.state, statistics)
        self.is_settled = n_changed == 0 and not has_empty
        return objective(self.state, statistics), self.is_settled

    def settle(self) -> DirectionalStatistics:
        """Statistics of the labels under the present directions, which may be one update ahead of the labels."""
        if self.is_settled:
            return self.state.statistics
        return self.assignment.sweep(score_rule(self.state))[1]


class InBatches:
    """Lloyd's steps with directions that move after every batch: a step is one round through all rows."""

    def __init__(self, passes: Passes, state: State, parameters: Parameters) -> None:
        self.state = state
        self.assignment = HardAssignment(passes, "lloyd", parameters.n_clusters)  # of all rows, at the end
        self._batches = BatchedAssignment(passes, cast(int, parameters.batch_size), parameters.n_clusters)
        self._refills = False  # while not all rows were seen, clusters without rows may be waiting for theirs
        self._will_refill = parameters.refills

    @property
    def n_clusters(self) -> int:
        """K."""
        return len(self.state.directions)

    def step(self) -> tuple[float, bool]:
        """The objective is that of the state after the step; it never falls from the second step on."""
        n_changed = sum(self._learned(number) for number in range(len(self._batches)))
        self._refills = self._will_refill
        return float(self.state.statistics.lengths.sum()), n_changed == 0

    def _learned(self, number: int) -> int:
        """Learn one batch; how much changed."""
        n_changed = self._batches.sweep(number, score_rule(self.state))
        if self._refills:
            n_changed += self._batches.fill_empty(number, self.state.directions)
        self.state = update(self.state, self._batches.statistics)
        return n_changed

    def settle(self) -> DirectionalStatistics:
        """Statistics of the labels of all rows under the present directions: the one full pass."""
        return self.assignment.sweep(score_rule(self.state))[1]


class Balanced:
    """Steps from the directions of a free fit to clusters of bounded size: every step has labels that meet the bound.

    What a step comes to may fall while prices settle, so the best one is kept, and the loop is told of that.
    """

    def __init__(self, passes: Passes, start: State, parameters: Parameters, value: float) -> None:
        n_rows = passes.points.n_rows
        self.state = start
        self.most = balance.capacity(cast(float, parameters.balance), n_rows, parameters.n_clusters)
        self.assignment = HardAssignment(passes, "lloyd", parameters.n_clusters)
        self._prices = balance.Prices(parameters.n_clusters, max(0.0, 1.0 - value / n_rows))
        self._refills = parameters.refills
        self._best = (-np.inf, start, self._prices.values)

    @property
    def n_clusters(self) -> int:
        """K."""
        return len(self.state.directions)

    def step(self) -> tuple[float, bool]:
        """The objective is the best so far."""
        prices = self._prices.values
        statistics, sizes, _ = self._labelled(self.state, prices)
        value = float(statistics.lengths.sum())
        if value > self._best[0]:
            self._best = value, self.state, prices
        self._prices.raise_by(sizes, self.most)
        self.state = update(self.state, statistics)
        return self._best[0], False

    def settle(self) -> tuple[State, Float64Array, int]:
        """The best step once more: its state, its prices and how many rows its labels moved for the bound."""
        _, before, prices = self._best
        statistics, _, n_moved = self._labelled(before, prices)
        self.state = update(before, statistics)
        return self.state, prices, n_moved

    def _labelled(self, state: State, prices: Float64Array) -> tuple[DirectionalStatistics, Any, int]:
        """Labels that meet the bound: their sums, the sizes that prices alone gave, and how many rows moved."""
        rule = balance.as_rule(state.directions, prices)
        labels, passes = self.assignment.labels, self.assignment.passes
        self.assignment.sweep(rule)
        sizes = labels.sizes(self.n_clusters)
        n_moved = balance.fill(passes, labels, rule, self.most)
        if self._refills and not labels.sizes(self.n_clusters).all():
            return self.assignment.fill_empty(state.directions), sizes, n_moved
        return passes.sum(labels, self.n_clusters), sizes, n_moved


class SphericalKMeans(Clusterer):
    """Spherical k-means: clusters unit vectors around K directions by cosine similarity.

    Rows are normalised first. The fit maximises the sum of cosines between rows and the directions of their
    clusters; it never falls from one step to the next.

    Parameters
    ----------
    n_clusters : int, default=8
        Number of clusters K.
    init : {"k-means++", "k-means||", "random"} or array of shape (K, D), default="k-means++"
        First directions: k-means++ by angle (greedy), which reads the rows K times; k-means||, which reads them a dozen
        times however large K is; distinct rows; or the directions given (normalised here).
    n_init : int or "auto", default="auto"
        Runs, each from its own draw; the one with the highest objective is kept (given directions give the same run
        every time). "auto" is 10 for random rows, else 1.
    max_iter : int, default=300
        Most steps of one run. A run that uses them all warns.
    tol : float, default=1e-6
        Stop when a step gains at most this fraction of the objective. 0 runs until nothing is gained.
    empty_clusters : {"refill", "keep"}, default="refill"
        A cluster that lost all rows takes the row farthest from its own direction (the objective does not fall), or
        keeps its direction.
    balance : float or None, default=None
        Clusters of bounded size: none has more rows than `balance` times the mean n / K (rounded down, but no fewer
        than hold all rows); 1.2 is a common choice for partitions of a vector store. The bound is met exactly. None
        leaves clusters free. What it costs is logged ("armillary", INFO; `verbose=1` shows it): the mean cosine and the
        largest cluster beside those of free clusters.
    batch_size : int or None, default=None
        Rows after which directions move. None: all. A batch is so many rows in a row, and a step still is one round
        through all rows. The objective does not fall from the second step on, and a fit that runs until nothing moves
        ends where Lloyd's steps could end too. Fewer rounds are needed where rows are many and mixed; rows that lie
        sorted gain nothing.
    algorithm : {"auto", "lloyd", "hamerly"}, default="auto"
        "lloyd" scores every row in every step. "hamerly" keeps two bounds per row, passes over rows whose label
        cannot change, and scores others only with clusters near their own. Both give equal bits; "auto" takes
        "hamerly" from 17 columns and 8 clusters on.
    missing : {"raise", "flag"}, default="raise"
        Rows without a direction (with NaN or infinities, or all zero, as an empty document is) are an error, or are
        passed over and get the label -1.
    random_state : int, Generator, RandomState or None, default=None
        Seed of the starts.
    n_threads : int or None, default=None
        Threads; None takes every core. The result does not depend on it. BLAS is held to one thread for each of them
        while the fit runs.
    device : {None, "auto", "cpu", "cuda", "cuda:1", ...}, default=None
        Where rows are worked on: None is where X is, "auto" a GPU if there is one. The result does not depend on it.
    verbose : int, default=0
        1 shows a progress bar (needs the extra "progress").
    callbacks : callable, sequence of callables or None, default=None
        Each is called with every `FitEvent`.

    Attributes
    ----------
    cluster_centers_ : array of shape (K, D), float64
        Unit directions.
    labels_ : array of shape (n,), int32
        Cluster of each row: `predict` of the training rows. With `balance` these keep the bound, which `predict`, a
        row at a time, does not know of.
    offsets_ : array of shape (K,)
        What is added to the cosine with each direction before the best is taken: 0 unless clusters are balanced, then
        minus the price of each.
    inertia_ : float
        sum_i w_i (1 - x_i . mu_{z_i}), the sum of cosine distances to the directions; half the sum of squared
        chords. 0 is perfect.
    objective_ : float
        sum_i w_i x_i . mu_{z_i}, what the fit maximises; the sum of weights minus `inertia_`.
    free_objective_, free_largest_ : float and int
        With `balance` alone: `objective_`, and the rows of the largest cluster, of the free fit that it began with.
    counts_ : array of shape (K,)
        Sum of the weights of the rows behind each direction.
    resultants_ : array of shape (K, D)
        Their weighted sum; `cluster_centers_` is its direction.
    n_iter_ : int
        Steps of the run that was kept.
    n_steps_ : int
        Calls of `partial_fit` since the last `fit`.
    device_ : str
        Where the last fit ran. It is not saved.
    n_clusters_, n_features_in_ : int
        K and D.
    feature_names_in_ : array of shape (D,)
        Column names, where X had them.

    Notes
    -----
    A step costs 2 n D K operations (2 nnz K for CSR rows, which stay sparse) and, apart from the rows, labels and
    one K x D sum per thread. Results repeat to the bit for one `random_state`, whatever `n_threads`.

    A balanced fit is a free one and then steps of the same cost in which clusters that are too large have a price, and
    rows that are too many all the same go to their best cluster with room, in order of their numbers. On 13,083
    sentences (Banking77, D = 384, K = 77) `balance=1.2` has the mean cosine of the free fit (1.0007 of it), whose
    largest cluster is 2.85 times the mean. Where one cluster of the data holds most rows, a bound on sizes must cut it,
    and the price is higher: 94 % for 60 % of 20,000 rows in one of 20. So it is with a long tail of more concepts than
    clusters: 97.7 % where the largest of 400 concepts alone fills a seventh of 200 clusters to the bound; and with 30
    concepts of one size in 40 clusters, each of which must be cut: 96 %, where exact assignments from a dozen starts
    come to 98 % of 1,200 rows. `free_objective_` tells the price. Prices bound what other labels could gain
    (`benchmarks/balance.py`). They settle slowly: a balanced fit takes two to five times as long as a free one, and
    `max_iter=40` nearly all of what it gains. Weights of rows are refused there: to meet a bound on weights exactly is
    a packing problem.

    References
    ----------
    Dhillon and Modha (2001), Concept decompositions for large sparse text data using clustering.
    Arthur and Vassilvitskii (2007), k-means++. Bahmani et al. (2012), Scalable k-means++. Hamerly (2010), Making
    k-means even faster.

    Examples
    --------
    >>> import numpy as np
    >>> from armillary import SphericalKMeans
    >>> from armillary.datasets import make_vmf_mixture
    >>> X, truth, _ = make_vmf_mixture(1000, 3, 4, concentration=100.0, min_angle=0.8, random_state=0)
    >>> model = SphericalKMeans(n_clusters=4, random_state=0).fit(X)
    >>> sorted(model.counts_.astype(int).tolist()) == sorted(np.bincount(truth).tolist())
    True
    """

    _parameters_kind = Parameters

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        init: str | ArrayLike = "k-means++",
        n_init: int | str = "auto",
        max_iter: int = 300,
        tol: float = 1e-6,
        empty_clusters: str = "refill",
        balance: float | None = None,
        batch_size: int | None = None,
        algorithm: str = "auto",
        missing: str = "raise",
        random_state: RandomState = None,
        n_threads: int | None = None,
        device: str | None = None,
        verbose: int = 0,
        callbacks: Any = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.init = init
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.empty_clusters = empty_clusters
        self.balance = balance
        self.batch_size = batch_size
        self.algorithm = algorithm
        self.missing = missing
        self.random_state = random_state
        self.n_threads = n_threads
        self.device = device
        self.verbose = verbose
        self.callbacks = callbacks

    @learning
    def fit(self, X: Any, y: Any = None, sample_weight: ArrayLike | None = None) -> Self:
        """Find the directions of the rows of X (n, D), dense or CSR; `y` is ignored.

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
        if self.balance is not None and sample_weight is not None:
            raise InputError(
                f"Rows of {self._who} with a `balance` must have no weights: a bound on weights cannot be met exactly; "
                "got sample_weight. Leave it out, or use balance=None."
            )
        with self._fitting(X, sample_weight, Parameters.check) as (points, parameters, stream, passes, emitter):
            kind = Lloyd if parameters.batch_size is None else InBatches

            def start(restart: int) -> Lloyd | InBatches:
                return kind(passes, initial_state(passes, parameters, stream, restart), parameters)

            run = best_run(
                start,
                n_restarts=parameters.n_init,
                max_steps=parameters.max_iter,
                stopping=RelativeGain(parameters.tol),
                emitter=emitter,
            )
            chain: Any = run.chain
            final = chain.settle()
            value = objective(chain.state, final)
            offsets = np.zeros(parameters.n_clusters)
            free: dict[str, float] = {}
            if parameters.balance is not None:
                chain = Balanced(passes, chain.state, parameters, value)
                run = run_chain(
                    chain,
                    max_steps=parameters.max_iter,
                    stopping=RelativeGain(parameters.tol, patience=_PATIENCE),
                    emitter=emitter,
                    restart=parameters.n_runs,
                )
                state, prices, _ = chain.settle()
                free = dict(zip(_OF_THE_FREE_FIT, (value, int(final.counts.max())), strict=True))
                final, offsets = state.statistics, 0.0 - prices
                value = objective(state, final)
                logger.info(
                    "%s with balance=%g has a mean cosine of %.4f, free clusters %.4f; the largest has %.2f times the "
                    "mean number of rows, free %.2f.",
                    self._who,
                    float(parameters.balance),
                    value / points.n_rows,
                    free["free_objective_"] / points.n_rows,
                    *(
                        parameters.n_clusters * size / points.n_rows
                        for size in (float(final.counts.max()), free["free_largest_"])
                    ),
                )
        self._warn(run, final)
        self._publish(
            X,
            is_new=True,
            without=_OF_THE_FREE_FIT,
            **_fitted(chain.state, offsets),
            **free,
            labels_=chain.assignment.labels.to_host(),
            objective_=value,
            inertia_=max(0.0, points.total_weight - value),
            n_iter_=run.n_steps,
            n_steps_=0,
        )
        return self

    @learning
    def partial_fit(self, X: Any, y: Any = None, sample_weight: ArrayLike | None = None) -> Self:
        """Learn one batch: label its rows by the present directions, then add them to the resultants.

        The first call on a new model starts the directions from the batch, which must then have at least
        `n_clusters` rows; a call after `fit` goes on from the fit. `labels_`, `inertia_` and `objective_` are those
        of the last batch under the directions after it.

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
        if self.balance is not None:
            raise InputError(
                f"{self._who} with a `balance` must see all rows at once, since the bound is on all of them; got "
                "`partial_fit`. Call fit, or use balance=None."
            )
        is_new = not hasattr(self, "cluster_centers_")
        points = self._points(X, sample_weight, is_new=is_new)
        with self._passes(points) as passes:
            if is_new:
                parameters = Parameters.check(vars(self), points, self._who)
                state = initial_state(passes, parameters, Stream.of(self.random_state), restart=1)
            else:
                state = self._state()
            assignment = HardAssignment(passes)
            _, batch = assignment.sweep(score_rule(state))
            state = update(state, state.statistics.merge(batch))
            _, final = assignment.sweep(score_rule(state))
            value = objective(state, final)
        self._publish(
            X,
            is_new=is_new,
            without=_OF_THE_FREE_FIT,
            **_fitted(state, np.zeros(len(state.directions))),
            labels_=assignment.labels.to_host(),
            objective_=value,
            inertia_=max(0.0, points.total_weight - value),
            n_iter_=1 if is_new else self.n_iter_,
            n_steps_=getattr(self, "n_steps_", 0) + 1,
        )
        return self

    @reading
    def score(self, X: Any, y: Any = None, sample_weight: ArrayLike | None = None) -> float:
        """Minus the inertia of X: higher is better, 0 is perfect.

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
            _, statistics = HardAssignment(passes).sweep(self._rule())
            value = objective(self._state(), statistics)
        return min(0.0, value - points.total_weight)

    def _answers(self, X: Any, *, rejects: bool, out: Any = None) -> IntArray:
        """Every row has a nearest cluster (int32), and none is too far from it."""
        points = self._points(X, is_new=False)
        return best_labels_to(out, points, self._passes(points), self._rule())

    def _rule(self) -> AffineRule:
        """How new rows are labelled; files from before there was a balance have no offsets."""
        centers = np.ascontiguousarray(self.cluster_centers_, dtype=np.float64)
        return AffineRule(centers, getattr(self, "offsets_", np.zeros(len(centers))))

    def _state(self) -> State:
        return State(self.cluster_centers_, on_grid(self.counts_, self.resultants_))

    def _warn(self, run: Run[State], final: DirectionalStatistics) -> None:
        if not run.is_converged:
            self._warn_of_steps(run.n_steps, stacklevel=3, gain=f" more than tol={float(self.tol):g} of its objective")
        n_filled = int(np.count_nonzero(final.counts))
        if n_filled < self.n_clusters:
            warnings.warn(
                f"{self._who} filled only {n_filled} of n_clusters={self.n_clusters} clusters; X may have fewer "
                "distinct rows. Lower n_clusters.",
                ConvergenceWarning,
                stacklevel=4,
            )


def _fitted(state: State, offsets: Float64Array) -> dict[str, Any]:
    return {
        "offsets_": offsets,
        "cluster_centers_": state.directions,
        "counts_": state.statistics.counts,
        "resultants_": state.statistics.resultants,
        "n_clusters_": len(state.directions),
    }
