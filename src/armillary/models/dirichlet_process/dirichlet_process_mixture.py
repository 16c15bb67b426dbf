"""Dirichlet-process mixtures on the sphere by split/merge MCMC: DP-TGMM and its family.

Story        weights ~ GEM(alpha), z_i ~ weights, theta_k ~ prior, x_i ~ component(theta_{z_i})       dp_tgmm.md, 2
Target       alpha^K prod_k Gamma(n_k) p(pivot_k) m(x_k | pivot_k), the rest integrated out           6, (F)
Sweep        of each sampler: `_chains.py`; moves: `_split_merge.py`; components: distributions/
Start        over-seeded k-means, greedy merges, a warm-up of fixed length                            10
Row order    does not matter to the posterior; draws are keyed by row

Departures from Straub et al. 2015 are listed in dp_tgmm.md, 15. The main ones: covariances are in D - 1 tangent
coordinates, the density has its volume factor, means move with the covariance integrated out, labels never empty a
cluster, and split and merge moves have a way back.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt
from scipy.sparse import issparse
from sklearn.base import DensityMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from armillary._typing import Float64Array, IntArray, RandomState
from armillary.distributions.components import Component
from armillary.distributions.components import Parameters as Law
from armillary.distributions.gaussian_component import Gaussian
from armillary.distributions.tangent_gaussian import TangentGaussian
from armillary.distributions.vmf_component import VonMisesFisher
from armillary.draws import Stream
from armillary.engines.contract import Passes, Points, Rule
from armillary.exceptions import InputError, ParameterError
from armillary.fitting.convergence import effective_sample_size, split_r_hat
from armillary.fitting.dirichlet_process import (
    best_clusters,
    coordinates,
    log_evidence,
    responsibilities,
    score_rule,
)
from armillary.fitting.events import Emitter
from armillary.fitting.kept_draws import KeptDraws
from armillary.fitting.partitions import LOSSES, n_labels
from armillary.geometry import sphere
from armillary.models.dirichlet_process._estimate import point_estimate
from armillary.models.dirichlet_process._fit import (
    Draws,
    Parameters,
    first_chains,
    guess_spread,
    make_component,
    restored_chains,
    run_chains,
)
from armillary.models.dirichlet_process._subclusters import Halves, packed_halves, unpacked_halves
from armillary.models.estimator import UnitVectorEstimator
from armillary.models.labels_out import labels_to
from armillary.models.parameters import AnyRows
from armillary.models.saved_state import SavedRecord
from armillary.models.turns import learning, reading
from armillary.points import refuse_stored
from armillary.validation import check_choice, check_integer, check_row_count

# Columns of `trace_`.
_CLUSTERS, _ALPHA, _LOG_JOINT = range(3)


@dataclass(frozen=True, eq=False)
class SavedState(SavedRecord):
    """The draws that were kept, and where each chain stands, for `resume`."""

    packed_draws: npt.NDArray[np.uint8]  # what changed from one draw to the next, small
    draw_ends: npt.NDArray[np.int64]  # (S,) where each ends in it
    chain_labels: npt.NDArray[np.int32]  # (H, N)
    chain_pivots: Float64Array  # (sum of the chains' clusters, D), or (0, D)
    chain_alphas: Float64Array  # (H,)
    seed: int
    # of the sampler by sub-clusters alone
    chain_sides: npt.NDArray[np.bool_] | None = None  # (H, N)
    chain_ages: npt.NDArray[np.int64] | None = None
    chain_half_pivots: Float64Array | None = None


class Convergence(NamedTuple):
    """How the chains of a fit have mixed, from the sweeps after the burn-in."""

    n_clusters_r_hat: float
    log_joint_r_hat: float
    n_clusters_sample_size: float
    log_joint_sample_size: float


class DirichletProcessMixture(DensityMixin, UnitVectorEstimator):
    """Dirichlet-process mixture of directions, sampled by split/merge MCMC: the number of clusters is inferred.

    Rows are normalised first. `component="tangent_gaussian"` is DP-TGMM (Straub et al. 2015): every cluster is a
    Gaussian with a full covariance in the tangent space of the sphere at its mean. The chain draws from the posterior
    of partitions; `labels_` are the clusters of the draw that is nearest to all others, each row where it is most
    probable.

    Parameters
    ----------
    component : {"tangent_gaussian", "gaussian", "vmf"}, default="tangent_gaussian"
        The law of a cluster. "tangent_gaussian" has D - 1 standard deviations and their axes, in radians along the
        sphere. "gaussian" is an ordinary Gaussian in R^D, the Euclidean DP-GMM. "vmf" is a von Mises-Fisher law, round,
        whose concentration is one of 128 values.
    sampler : {"split_merge", "subclusters", "finite", "crp"}, default="split_merge"
        "split_merge" draws all labels at once and changes the number of clusters by split and merge moves; exact.
        "crp" draws one label after the other; exact, slow. "finite" has `n_components` components, some of them empty;
        exact for that model. "subclusters" has the split moves of the paper; APPROXIMATE: it has more clusters than the
        posterior (on six rows a total variation of 0.1 to 0.2; the bias fades with rows), and is prone to stay at one
        cluster if it starts there.
    weight_concentration_prior : float, default=1.0
        alpha: a new cluster is as probable as one that has alpha rows.
    weight_prior : {"fixed", "resampled"}, default="fixed"
        Whether alpha stays, or has the prior Gamma(1, 1) and is drawn in every sweep.
    spread_prior : float or "auto", default="auto"
        Root of the mean variance of a cluster in each direction, in radians, as far as the prior knows. "auto" takes
        twice the median of what pieces of k-means have; on the circle, where pieces are far narrower than clusters, and
        in more than six dimensions, where most of an inverse-Wishart law lies far below its mean, as much more as
        raises the posterior of the pieces, merged. `spread_` is the value used. Not for "vmf".
    degrees_of_freedom_prior : float, optional
        Of the inverse-Wishart prior of covariances: above D for "tangent_gaussian" (default D + 2), above D + 1 for
        "gaussian" (default D + 3). More of them hold covariances nearer to the mean of the prior.
    volume_factor : bool, default=True
        Whether tangent Gaussians have the factor (theta/sin theta)^(D-2) that makes them densities on the sphere. The
        paper leaves it out, which penalises wide clusters: little in three dimensions, 2 nats a row in 20.
    init : {"k-means", "one"}, int, or array of shape (n,), default="k-means"
        Where chains start: many clusters of spherical k-means merged while that pays, one cluster, a number of clusters
        of k-means, or the labels given.
    n_components : int, default=100
        Components of the finite sampler.
    n_attempts : int, default=10
        Split/merge attempts of each of two kinds in every sweep. The number must not depend on the state.
    n_chains : int, default=1
        Chains, each from its own start; several let `convergence` compare them.
    n_burn_in : int, default=50
        Sweeps after the warm-up (10 sweeps, 35 with init="one") whose draws are not kept.
    n_draws : int, default=100
        Draws kept of each chain, as what changed from one to the next: a tenth of a byte for each row and draw where
        clusters are clear.
    thin : int, default=1
        Sweeps for each draw kept.
    loss : {"variation_of_information", "binder"}, default="variation_of_information"
        `labels_` comes from the draw with the least mean loss to all draws. Single draws carry a few tiny clusters;
        variation of information leaves fewer of them than Binder's loss (Wade and Ghahramani 2018).
    max_seconds : float, optional
        Stop after the sweep in which this time has passed, the first one at the earliest; `resume` goes on. Where that
        is before the first draw a warning says so: `labels_` and all that goes with it then come from the last state
        of each chain instead of from draws, and `n_draws_` is 0.
    random_state : int, Generator, RandomState or None, default=None
        Seed of all draws.
    n_threads : int or None, default=None
        Threads; None takes every core. The result does not depend on it.
    device : {None, "auto", "cpu", "cuda", "cuda:1", ...}, default=None
        Where rows are worked on: None is where X is, "auto" a GPU if there is one. The result does not depend on it.
    verbose : int, default=0
        1 shows a progress bar with the current number of clusters (needs the extra "progress").
    callbacks : callable, sequence of callables or None, default=None
        Each is called with every `FitEvent`. Chains take turns; a step is one sweep of one of them.

    Attributes
    ----------
    labels_ : array of shape (n,), int32
        The most probable cluster of each row, as `predict` has it, among those of the draw with the least expected
        loss. In the draw itself a row between two clusters is in one of them by chance; small clusters, of which every
        draw has some, are left out where that lowers the loss or raises the posterior of the partition.
    n_clusters_ : int
        The clusters that have rows in `labels_`.
    weights_ : array of shape (K,)
        n_k / (n + alpha), with n_k the rows of the cluster in that draw; what is missing to 1 is the weight of
        clusters not seen yet.
    means_ : array of shape (K, D)
        Means of the clusters: on the sphere, but for "gaussian".
    covariances_ : array of shape (K, D, D)
        Most probable covariances there, in ambient coordinates: for tangent Gaussians of rank D - 1, the mean in their
        null space. Not for "vmf".
    concentrations_ : array of shape (K,)
        Of "vmf" only.
    trace_ : array of shape (n_chains, sweeps, 3)
        After every sweep: the number of clusters, alpha, the log joint density of rows and partition.
    sample_labels_ : array of shape (draws, n), int32
        The draws kept, all of the first chain first. Held small, and made anew whenever asked for. Where no draw was
        kept (`n_draws_` is 0), the last state of each chain, which comes from the warm-up or the burn-in and not from
        the posterior.
    n_draws_ : int
        Draws kept of all chains together; 0 where `max_seconds` ended the fit before the first.
    partition_draw_ : int
        Which of them is nearest to all.
    expected_loss_ : float
        The mean loss of `labels_` to all draws.
    spread_, degrees_of_freedom_, weight_concentration_ : float
        Of the prior as used; alpha is the mean over chains of its last value.
    n_discarded_ : int
        Sweeps of the warm-up and the burn-in, at the start of `trace_`.
    device_ : str
        Where the last fit ran. It is not saved.
    n_features_in_ : int
        D.
    feature_names_in_ : array of shape (D,)
        Column names, where X had any.

    Notes
    -----
    A sweep costs n K D^2 operations (for D = 3 most clusters are passed over) and reads the rows about ten times; the
    split/merge attempts cost as much as a few clusters' rows each. The result repeats to the bit for one seed,
    whatever the number of threads; `fit` with n_draws=20 and `resume` with 10 more leave what `fit` with 30 does,
    with every sampler; a model saved by `armillary.save` is a checkpoint. Rows are held once, and besides them some 20
    bytes for each row, of which a few are the draws. Rows on disk (`armillary.open_rows`), also those dealt to workers,
    stay there and give the same model to the byte; a sweep of split_merge reads them about fifty times. sampler="crp"
    takes rows in memory alone. CSR rows are taken by component="vmf", whose densities are linear
    in them. `armillary.diagnostics.coclustering_matrix(model.sample_labels_)` tells how often rows share a cluster.

    References
    ----------
    Straub, Chang, Freifeld, Fisher 2015, A Dirichlet process mixture model for spherical data. Jain and Neal 2004,
    Dahl 2005 for split and merge moves.

    Examples
    --------
    >>> from armillary import DirichletProcessMixture
    >>> from armillary.datasets import make_tangent_gaussian_mixture
    >>> X, _, _ = make_tangent_gaussian_mixture(300, 3, 4, spread=0.08, min_angle=0.6, random_state=0)
    >>> model = DirichletProcessMixture(n_burn_in=5, n_draws=10, random_state=0).fit(X)
    >>> model.n_clusters_
    4
    """

    _parameters_kind = Parameters
    _state_kind = SavedState
    _saved_state: SavedState

    def __init__(
        self,
        component: str = "tangent_gaussian",
        *,
        sampler: str = "split_merge",
        weight_concentration_prior: float = 1.0,
        weight_prior: str = "fixed",
        spread_prior: float | str = "auto",
        degrees_of_freedom_prior: float | None = None,
        volume_factor: bool = True,
        init: Any = "k-means",
        n_components: int = 100,
        n_attempts: int = 10,
        n_chains: int = 1,
        n_burn_in: int = 50,
        n_draws: int = 100,
        thin: int = 1,
        loss: str = "variation_of_information",
        max_seconds: float | None = None,
        random_state: RandomState = None,
        n_threads: int | None = None,
        device: str | None = None,
        verbose: int = 0,
        callbacks: Any = None,
    ) -> None:
        self.component = component
        self.sampler = sampler
        self.weight_concentration_prior = weight_concentration_prior
        self.weight_prior = weight_prior
        self.spread_prior = spread_prior
        self.degrees_of_freedom_prior = degrees_of_freedom_prior
        self.volume_factor = volume_factor
        self.init = init
        self.n_components = n_components
        self.n_attempts = n_attempts
        self.n_chains = n_chains
        self.n_burn_in = n_burn_in
        self.n_draws = n_draws
        self.thin = thin
        self.loss = loss
        self.max_seconds = max_seconds
        self.random_state = random_state
        self.n_threads = n_threads
        self.device = device
        self.verbose = verbose
        self.callbacks = callbacks

    # ------------------------------------------------------------------------------------------------ fitting

    @learning
    def fit(self, X: Any, y: Any = None) -> Self:
        """Sample the posterior of the rows of X (n, D), dense, or CSR with component="vmf"; y is ignored.

        Parameters
        ----------
        X : array or CSR matrix of shape (n, D)
        y : ignored

        Returns
        -------
        self
        """
        points = self._rows_to_fit(X, is_new=True)
        parameters = Parameters.check(vars(self), points, self._who)
        check_choice(self.loss, "loss", self._who, LOSSES)
        stream = Stream.of(self.random_state)
        n_sweeps = parameters.n_sweeps(parameters.n_draws)
        with self._kept_passes(points) as passes, self._watched(points, n_sweeps) as emitter:
            spread = guess_spread(passes, parameters, stream)
            component = make_component(
                parameters.component, points.n_features, spread, parameters.degrees, volume_factor=self.volume_factor
            )
            chains = first_chains(passes, parameters, component, stream)
            draws = run_chains(chains, parameters, n_sweeps, emitter)
            del chains  # they hold as much as the point estimate needs
            fitted = self._fitted(passes, component, draws, stream.seed)
        self._publish(
            X,
            is_new=True,
            without=("covariances_", "concentrations_"),  # what only another component has goes
            **fitted,
            spread_=spread,
            degrees_of_freedom_=parameters.degrees,
            n_discarded_=parameters.n_first,
        )
        self._warn_of_time(parameters, draws, n_sweeps)
        return self

    @learning
    def resume(self, X: Any, n_draws: int = 0) -> Self:
        """Go on with the chains on the rows they were fitted to, for the draws still missing and `n_draws` more.

        The result is that of one fit with as many draws, to the bit. Parameters must be those of the fit; `n_draws`
        of the constructor is left as it is.

        Parameters
        ----------
        X : array or CSR matrix of shape (n, D)
            The rows of the fit.
        n_draws : int, default=0
            More draws than the fit was to have.

        Returns
        -------
        self
        """
        points = self._rows_to_fit(X, is_new=False)
        parameters = Parameters.check(vars(self), points, self._who)
        known = self._saved_state.chain_labels.shape
        if known != (parameters.n_chains, points.n_rows):
            raise InputError(
                f"X of {self._who}.resume must be the rows that the chains were fitted to, and n_chains as it was: "
                f"{known[1]} rows and {known[0]} chains; got {points.n_rows} rows "
                f"and {parameters.n_chains}. Use fit for other rows."
            )
        n_more = check_integer(n_draws, "n_draws", self._who, low=0)
        n_before = parameters.n_kept(self.trace_.shape[1])
        n_sweeps = parameters.n_sweeps(max(parameters.n_draws, n_before) + n_more)
        with self._passes(points) as passes, self._watched(points, n_sweeps) as emitter:
            component, before = self._component(), self._draws(passes)
            chains = restored_chains(passes, parameters, component, Stream(self._saved_state.seed), before)
            draws = run_chains(chains, parameters, n_sweeps, emitter, before)
            del chains
            fitted = self._fitted(passes, component, draws, self._saved_state.seed)
        self._publish(X, is_new=False, **fitted)
        self._warn_of_time(parameters, draws, n_sweeps)
        return self

    @learning
    def fit_predict(self, X: Any, y: Any = None) -> IntArray:
        """`fit`; returns `labels_`.

        Parameters
        ----------
        X : array or CSR matrix of shape (n, D)
        y : ignored

        Returns
        -------
        array of shape (n,), int32
            `labels_`.
        """
        return self.fit(X).labels_

    def _rows_to_fit(self, X: Any, *, is_new: bool) -> Points:
        """The gate of fits: one sampler asks for rows one by one, and none has weights."""
        if isinstance(self.sampler, str) and self.sampler == "crp":
            refuse_stored(X, self._who, 'sampler="crp" draws the label of one row after the other')
        points = self._points(X, is_new=is_new)
        if points.has_weights:
            raise InputError(
                f"Rows of {self._who} must all count once, since its posterior is one of rows; got rows on disk that "
                "have weights. Open them without `weights`."
            )
        return points

    def _points(self, X: Any, sample_weight: Any = None, *, is_new: bool) -> Points:
        """The gate: quadratic densities are for dense rows."""
        self._refuse_sparse(X, issparse(X) or getattr(X, "is_sparse", False) is True)
        points = super()._points(X, sample_weight, is_new=is_new)
        self._refuse_sparse(X, points.is_sparse)  # CSR rows on a device do not all say that they are
        return points

    def _refuse_sparse(self, X: Any, is_sparse: bool) -> None:
        if is_sparse and not (isinstance(self.component, str) and self.component == "vmf"):
            raise InputError(
                f"Sparse data was passed to {self._who}, whose component {self.component!r} needs dense rows; got "
                f'{type(X).__name__}. Use component="vmf", or X.toarray(), after a projection to fewer columns where '
                "there are many."
            )

    def _watched(self, points: Points, n_sweeps: int) -> Emitter:
        return self._emitter(points.n_rows, n_restarts=1, max_steps=n_sweeps * self.n_chains)

    def _fitted(self, passes: Passes, component: Component, draws: Draws, seed: int) -> dict[str, Any]:
        """The attributes that draws leave."""
        alpha = float(draws.chain_alphas.mean())
        found = point_estimate(passes, component, draws.labels, alpha, self.loss)
        packed, ends = draws.labels.packed()
        fitted: dict[str, Any] = {
            "labels_": found.labels,
            "n_clusters_": len(found.weights),
            "weights_": found.weights,
            "means_": found.laws.mean,
            "trace_": draws.trace,
            "partition_draw_": found.draw,
            "expected_loss_": found.expected_loss,
            "weight_concentration_": alpha,
            "_saved_state": SavedState(
                packed,
                ends,
                draws.chain_labels,
                draws.chain_pivots,
                draws.chain_alphas,
                seed,
                *(packed_halves(draws.chain_halves, passes.points.n_features) if draws.chain_halves else ()),
            ),
        }
        if self.component == "vmf":
            return {**fitted, "concentrations_": found.laws.concentration}
        return {**fitted, "covariances_": found.laws.covariance}

    @property
    @reading
    def sample_labels_(self) -> IntArray:
        """The draws kept (draws, n), int32, all of the first chain first; made anew whenever asked for."""
        check_is_fitted(self)
        return self._kept_draws().array()

    @property
    def n_draws_(self) -> int:
        """Draws kept of all chains together; 0 where `sample_labels_` are the last states of chains instead."""
        check_is_fitted(self)
        n_chains, n_sweeps, _ = self.trace_.shape
        return n_chains * (max(n_sweeps - self.n_discarded_, 0) // int(self.thin))

    def _kept_draws(self) -> KeptDraws:
        kept = self._saved_state
        return KeptDraws.unpacked(len(self.labels_), kept.packed_draws, kept.draw_ends)

    def _draws(self, passes: Passes) -> Draws:
        """What the chains left when they stopped."""
        kept = self._saved_state
        halves: list[Halves] = []
        if kept.chain_sides is not None and kept.chain_ages is not None and kept.chain_half_pivots is not None:
            sizes = [n_labels(own) for own in kept.chain_labels]
            halves = unpacked_halves(passes, sizes, kept.chain_sides, kept.chain_ages, kept.chain_half_pivots)
        return Draws(self._kept_draws(), self.trace_, kept.chain_labels, kept.chain_pivots, kept.chain_alphas, halves)

    def _warn_of_time(self, parameters: Parameters, draws: Draws, n_sweeps: int) -> None:
        n_done = draws.trace.shape[1]
        if n_done < n_sweeps and parameters.n_kept(n_done) == 0:
            warnings.warn(
                f"{self._who} must do {parameters.n_sweeps(1)} sweeps for its first draw; max_seconds="
                f"{self.max_seconds:g} ended it after {n_done}. No draw was kept: labels_ comes from the last state of "
                "the chains, not from the posterior. Call resume to go on, or raise max_seconds.",
                ConvergenceWarning,
                stacklevel=4,
            )

    # ------------------------------------------------------------------------------------------------ use

    def _any_rows(self) -> AnyRows:
        """Labels to start from are those of the rows of a fit."""
        is_labels = isinstance(self.init, list | tuple) or getattr(self.init, "ndim", 0) > 0
        return AnyRows(self.n_features_in_, len(self.init)) if is_labels else super()._any_rows()

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_choice(self.loss, "loss", self._who, LOSSES)

    def _component(self) -> Component:
        return make_component(
            self.component,
            self.n_features_in_,
            self.spread_,
            self.degrees_of_freedom_,
            volume_factor=self.volume_factor,
        )

    def _laws(self) -> Law:
        """The clusters' parameters."""
        if self.component == "vmf":
            return VonMisesFisher(self.means_, self.concentrations_)
        if self.component == "gaussian":
            return Gaussian.of(self.means_, self.covariances_)
        frames = sphere.tangent_frame(self.means_)
        return TangentGaussian.of(self.means_, np.swapaxes(frames, 1, 2) @ self.covariances_ @ frames)

    def _rest(self) -> float:
        """The weight of clusters not seen yet; that of the others may be above 1 in its last bit."""
        return max(0.0, 1.0 - float(self.weights_.sum()))

    def _rule(self) -> Rule:
        return score_rule(self._component(), self._laws(), np.log(self.weights_))

    @reading
    def predict(self, X: Any, *, out: Any = None) -> IntArray:
        """The most probable cluster of each row of X (n,), int32, under the weights, means and covariances fitted.

        `out` takes the labels, and is returned: an array of n integers, a memory map, or the path of an npy file, which
        is written whole or not at all and comes back as a memory map.

        Parameters
        ----------
        X : array or CSR matrix of shape (n, D)
        out : array, memory map or path, optional

        Returns
        -------
        array of shape (n,), int32
            Numbers of clusters; where `out` was given, `out`.
        """
        points = self._points(X, is_new=False)
        with labels_to(out, points.n_rows, np.int32, self._who) as place, self._passes(points) as passes:
            place.labels[:] = best_clusters(passes, self._rule())
        return place.result

    @reading
    def predict_proba(self, X: Any) -> Float64Array:
        """The probability of each cluster for each row of X (n, K).

        Parameters
        ----------
        X : array or CSR matrix of shape (n, D)

        Returns
        -------
        array of shape (n, K)
            Each row has the sum 1.
        """
        points = self._points(X, is_new=False)
        with self._passes(points) as passes:
            return responsibilities(passes, self._rule())

    @reading
    def score_samples(self, X: Any) -> Float64Array:
        """Log density of each row of X (n,), in nats: the clusters fitted, and the prior for those not seen yet.

        With respect to the area of the sphere; for "gaussian" with respect to volume in R^D, so the numbers of
        different components cannot all be compared.

        Parameters
        ----------
        X : array or CSR matrix of shape (n, D)

        Returns
        -------
        array of shape (n,)
            Nats.
        """
        points = self._points(X, is_new=False)
        with np.errstate(divide="ignore"):  # alpha may be too small to leave anything
            log_rest = float(np.log(self._rest()))
        with self._passes(points) as passes:
            return log_evidence(passes, self._rule(), self._component(), log_rest)

    @reading
    def score(self, X: Any, y: Any = None) -> float:
        """Mean log density of the rows of X.

        Parameters
        ----------
        X : array or CSR matrix of shape (n, D)
        y : ignored

        Returns
        -------
        float
            Nats a row: higher is better.
        """
        return float(self.score_samples(X).mean())

    @reading
    def sample(self, n_samples: int = 1, random_state: RandomState = None) -> tuple[Float64Array, IntArray]:
        """Rows (n, D) from the mixture fitted, and their clusters (n,): -1 for rows of a cluster not seen yet.

        Parameters
        ----------
        n_samples : int, default=1
            How many rows.
        random_state : int, numpy.random.Generator or None
            Seed of the draws.

        Returns
        -------
        X : array of shape (n_samples, D)
            Unit rows.
        labels : array of shape (n_samples,)
            Their components.
        """
        check_is_fitted(self)
        n_samples = check_row_count(n_samples, self.n_features_in_, "n_samples", f"{self._who}.sample", low=1)
        component = self._component()
        generator = Stream.of(random_state).generator("dp sample")
        shares = np.append(self.weights_, self._rest())
        sizes = generator.multinomial(n_samples, shares / shares.sum())
        known, unseen = self._laws(), component.draw_prior(int(sizes[-1]), generator)
        parts = [component.sample(known, k, size, generator) for k, size in enumerate(sizes[:-1])]
        parts += [component.sample(unseen, k, 1, generator) for k in range(sizes[-1])]
        labels = np.append(np.repeat(np.arange(self.n_clusters_), sizes[:-1]), np.full(sizes[-1], -1))
        return np.concatenate(parts), labels.astype(np.int32)

    # ------------------------------------------------------------------------------------------------ looking

    @reading
    def principal_axes(self) -> tuple[Float64Array, Float64Array]:
        """Variances (K, p), largest first, and their unit directions (K, p, D), of each cluster.

        p is D - 1 for tangent Gaussians, whose axes are tangent vectors at the mean, and D for Gaussians. The sign of a
        direction makes its largest entry positive.

        Returns
        -------
        variances : array of shape (K, p)
        axes : array of shape (K, p, D)
        """
        check_is_fitted(self)
        if self.component == "vmf":
            raise ParameterError(
                f'`component` of {self._who} must not be "vmf" where axes are asked for; its clusters are round. '
                "`concentrations_` tells how wide they are."
            )
        variances, directions = np.linalg.eigh(self.covariances_)
        p = self.n_features_in_ - (self.component == "tangent_gaussian")
        variances, axes = variances[:, ::-1][:, :p], np.swapaxes(directions, 1, 2)[:, ::-1][:, :p]
        largest = np.take_along_axis(axes, np.abs(axes).argmax(axis=2)[..., None], axis=2)
        return variances, axes * np.copysign(1.0, largest)

    @reading
    def condition_numbers(self) -> Float64Array:
        """Largest over smallest variance (K,) of each cluster: 1 for a round one.

        Returns
        -------
        array of shape (K,)
            At least 1.
        """
        variances = self.principal_axes()[0]
        return np.asarray(variances[:, 0] / variances[:, -1])

    @reading
    def tangent_coordinates(self, X: Any, cluster: int) -> Float64Array:
        """The rows of X (n, D) in the principal axes of a cluster (n, p): the first coordinate is along its longest.

        Radians along the sphere from the mean, for tangent Gaussians; a row at the antipode of the mean, to which every
        direction leads, has all zeros.

        Parameters
        ----------
        X : array or CSR matrix of shape (n, D)
        cluster : int
            Its number in `means_`.

        Returns
        -------
        array of shape (n, p)
            Coordinates.
        """
        points = self._points(X, is_new=False)
        cluster = check_integer(cluster, "cluster", self._who, low=0, high=self.n_clusters_ - 1)
        axes = self.principal_axes()[1][cluster]
        is_curved = self.component == "tangent_gaussian"
        with self._passes(points) as passes:
            return coordinates(passes, self.means_[cluster], axes, is_curved=is_curved)

    @reading
    def convergence(self) -> Convergence:
        """Split R-hat and effective sample size of the number of clusters and of the log joint, after the burn-in.

        Returns
        -------
        Convergence
            Of all chains together.
        """
        check_is_fitted(self)
        after = self.trace_[:, self.n_discarded_ :]
        both = after[:, :, _CLUSTERS], after[:, :, _LOG_JOINT]
        return Convergence(*map(split_r_hat, both), *map(effective_sample_size, both))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self.component == "vmf"
        return tags
