"""One fit of a Dirichlet-process mixture: parameters, component, start, chains in lock-step, draws."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from armillary._typing import Float64Array, IntArray
from armillary.distributions.components import Component
from armillary.distributions.gaussian_component import GaussianComponent
from armillary.distributions.tangent_component import TangentComponent
from armillary.distributions.vmf_component import VmfComponent, log_grid
from armillary.draws import Stream
from armillary.engines.contract import Partition, Passes
from armillary.exceptions import InputError, ParameterError
from armillary.fitting.dirichlet_process import clusters_of, rough_clusters, typical_spread
from armillary.fitting.events import Emitter
from armillary.fitting.kept_draws import KeptDraws, at_home
from armillary.fitting.restaurant import in_memory
from armillary.models.dirichlet_process._chains import (
    AlphaPrior,
    Chain,
    FiniteChain,
    RestaurantChain,
    Setting,
    SplitMergeChain,
    log_crp,
)
from armillary.models.dirichlet_process._start import (
    GROW,
    NO_WARM_UP,
    SETTLE,
    WarmUp,
    merge_greedily,
    n_seeds,
)
from armillary.models.dirichlet_process._subclusters import Halves, SubclusterChain
from armillary.models.parameters import Given, RowShape
from armillary.validation import check_choice, check_flag, check_integer, check_positive

COMPONENTS = ("tangent_gaussian", "gaussian", "vmf")
SAMPLERS: dict[str, type[Chain]] = {
    "split_merge": SplitMergeChain,
    "subclusters": SubclusterChain,
    "finite": FiniteChain,
    "crp": RestaurantChain,
}
_INITS = ("k-means", "one")
# Pieces of k-means are smaller than clusters (dp_tgmm.md, 10): by about this factor, in few dimensions.
_SPREAD_OF_PIECES = 2.0
_SPREAD_OTHERWISE = 0.1
# From one spread tried to the next: with 1.2 the best is missed where two clusters and three are near to equal.
_SPREAD_STEP = 1.1
# Duplicate rows have no scatter; the prior must keep a covariance positive definite.
_LEAST_SCALE = 1e-10
# Concentrations of von Mises-Fisher components: from a cluster that covers the sphere to one of 0.2 degrees.
_LEAST_CONCENTRATION, _MOST_CONCENTRATION, _N_CONCENTRATIONS = 0.25, 1e5, 128


class Draws(NamedTuple):
    """What H chains left: S draws of labels, every sweep's trace, and where each chain stands."""

    labels: KeptDraws  # S kept draws, all of the first chain first
    trace: Float64Array  # (H, sweeps, 3) clusters, alpha, log joint
    chain_labels: npt.NDArray[np.int32]  # (H, N)
    chain_pivots: Float64Array  # (sum of the chains' clusters, D), or (0, D)
    chain_alphas: Float64Array  # (H,)
    chain_halves: list[Halves]  # (H,) of the sampler by sub-clusters, else empty


@dataclass(frozen=True, eq=False)
class Parameters:
    """Checked constructor parameters."""

    component: str
    sampler: str
    alpha: float
    alpha_prior: AlphaPrior | None
    spread: float | None  # None: from the rows
    degrees: float
    volume_factor: bool
    init: str | int | IntArray
    n_components: int
    n_attempts: int
    n_chains: int
    n_burn_in: int
    n_draws: int
    thin: int
    max_seconds: float

    @classmethod
    def check(cls, given: Given, rows: RowShape, who: str) -> Parameters:
        """The parameters, or an error that names the wrong one."""
        component = check_choice(given["component"], "component", who, COMPONENTS)
        sampler = check_choice(given["sampler"], "sampler", who, tuple(SAMPLERS))
        update = check_choice(given["weight_prior"], "weight_prior", who, ("fixed", "resampled"))
        if update == "resampled" and sampler == "finite":
            raise ParameterError(
                f'`weight_prior` of {who} must be "fixed" with sampler="finite"; got "resampled", whose step '
                "is for the Dirichlet process. Choose another sampler."
            )
        return cls(
            component=component,
            sampler=sampler,
            alpha=check_positive(
                given["weight_concentration_prior"], "weight_concentration_prior", who, is_finite=True
            ),
            alpha_prior=AlphaPrior() if update == "resampled" else None,
            spread=_check_spread(given["spread_prior"], who),
            degrees=_check_degrees(given["degrees_of_freedom_prior"], component, rows.n_features, who),
            volume_factor=check_flag(given["volume_factor"], "volume_factor", who),
            init=_check_init(given["init"], rows, who),
            n_components=check_integer(given["n_components"], "n_components", who, low=1),
            n_attempts=check_integer(given["n_attempts"], "n_attempts", who, low=0),
            n_chains=check_integer(given["n_chains"], "n_chains", who, low=1),
            n_burn_in=check_integer(given["n_burn_in"], "n_burn_in", who, low=0),
            n_draws=check_integer(given["n_draws"], "n_draws", who, low=1),
            thin=check_integer(given["thin"], "thin", who, low=1),
            max_seconds=np.inf
            if given["max_seconds"] is None
            else check_positive(given["max_seconds"], "max_seconds", who, hint="None does not stop."),
        )

    @property
    def warm_up(self) -> WarmUp:
        """Sweeps before the burn-in; the other samplers have none."""
        if self.sampler != "split_merge":
            return NO_WARM_UP
        return GROW if isinstance(self.init, str) and self.init == "one" else SETTLE

    @property
    def n_first(self) -> int:
        """Sweeps before the first that may be kept."""
        return self.warm_up.n_sweeps + self.n_burn_in

    def n_sweeps(self, n_draws: int) -> int:
        """All sweeps that give so many draws."""
        return self.n_first + n_draws * self.thin

    def n_kept(self, n_sweeps: int) -> int:
        """Draws of a chain kept among so many sweeps."""
        return max(n_sweeps - self.n_first, 0) // self.thin


def make_component(kind: str, n_features: int, spread: float, degrees: float, *, volume_factor: bool) -> Component:
    """The component whose clusters have about this spread; von Mises-Fisher ones have a grid instead."""
    if kind == "vmf":
        grid = log_grid(_LEAST_CONCENTRATION, _MOST_CONCENTRATION * max(1.0, n_features / 3.0), _N_CONCENTRATIONS)
        return VmfComponent.uniform(n_features, grid)
    # E[Sigma] = spread^2 I
    scale = max((degrees - _covariance_dimension(kind, n_features) - 1.0) * spread**2, _LEAST_SCALE)
    if kind == "gaussian":
        return GaussianComponent(n_features, scale, degrees)
    return TangentComponent(n_features, scale, degrees, volume_factor)


def _covariance_dimension(component: str, n_features: int) -> int:
    return n_features if component == "gaussian" else n_features - 1


def _check_spread(spread: Any, who: str) -> float | None:
    if isinstance(spread, str) and spread == "auto":
        return None
    hint = '"auto" takes it from the rows. It is a standard deviation in radians.'
    return check_positive(spread, "spread_prior", who, is_finite=True, hint=hint)


def _check_degrees(degrees: Any, component: str, n_features: int, who: str) -> float:
    dimension = _covariance_dimension(component, n_features)
    if degrees is None:
        return dimension + 3.0
    number = check_positive(degrees, "degrees_of_freedom_prior", who, is_finite=True)
    if not number > dimension + 1:
        raise ParameterError(
            f"`degrees_of_freedom_prior` of {who} must be above {dimension + 1}, where the mean covariance exists; "
            f"got {degrees!r}. None takes {dimension + 3}."
        )
    return number


def _check_init(init: Any, points: RowShape, who: str) -> str | int | IntArray:
    if isinstance(init, str):
        return check_choice(init, "init", who, _INITS, hint="Or give a number of clusters, or labels.")
    try:
        n_axes = np.ndim(init)
    except ValueError as error:
        raise InputError(
            f"`init` of {who} must hold one integer for each row where it is labels; got {error}. The labels of any "
            "clustering will do."
        ) from error
    if n_axes == 0:
        number = check_integer(init, "init", who, low=1, hint="Or 'k-means', 'one', or labels.")
        if number > points.n_rows:
            raise InputError(
                f"`init` of {who} must not exceed the number of rows; got init={number} and n_samples={points.n_rows}. "
                "Start from fewer clusters."
            )
        return number
    labels = np.asarray(init)
    if labels.shape != (points.n_rows,) or labels.dtype.kind not in "iu":
        raise InputError(
            f"`init` of {who} must hold one integer for each of the {points.n_rows} rows where it is labels; "
            f"got shape {labels.shape} of {labels.dtype}. The labels of any clustering will do."
        )
    return labels


# ------------------------------------------------------------------------------------------------ start


def first_partition(passes: Passes, parameters: Parameters, stream: Stream, number: int) -> Partition:
    """The clusters a chain starts from, before greedy merges."""
    generator = stream.generator("dp start", number)
    if isinstance(parameters.init, np.ndarray):
        return clusters_of(passes, parameters.init)
    if isinstance(parameters.init, int):
        return rough_clusters(passes, parameters.init, generator)
    if parameters.init == "one":
        labels = passes.labels()
        labels.fill(0)
        return passes.partition(labels)
    n_clusters = n_seeds(passes.points.n_rows)
    if parameters.sampler == "finite":
        n_clusters = min(n_clusters, parameters.n_components)
    return rough_clusters(passes, n_clusters, generator)


def guess_spread(passes: Passes, parameters: Parameters, stream: Stream) -> float:
    """The standard deviation in each direction that clusters are expected to have: given, or from pieces of k-means."""
    if parameters.spread is not None:
        return parameters.spread
    clusters = rough_clusters(passes, n_seeds(passes.points.n_rows), stream.generator("dp start", 0))
    spread = _SPREAD_OF_PIECES * typical_spread(clusters, _SPREAD_OTHERWISE / _SPREAD_OF_PIECES)
    n_features = passes.points.n_features
    return _climbed(spread, clusters, parameters, n_features) if _is_misled(parameters, n_features) else spread


def _is_misled(parameters: Parameters, n_features: int) -> bool:
    """Whether twice the spread of pieces can be far below the one that suits the clusters.

    On the circle a dozen pieces of a cluster are each a dozen times narrower. In many dimensions they are not, but the
    mean of the inverse-Wishart prior lies far above its bulk: the evidence of many rows of variance s^2 is largest with
    the scale nu s^2, a mean of nu / (nu - p - 1) s^2, which with the default nu = p + 3 is a spread of 1.6 s in three
    dimensions and of 5.1 s in fifty.
    """
    if parameters.component == "vmf":
        return False
    spare = parameters.degrees - _covariance_dimension(parameters.component, n_features) - 1.0
    return n_features == 2 or parameters.degrees > _SPREAD_OF_PIECES**2 * spare


def _climbed(spread: float, clusters: Partition, parameters: Parameters, n_features: int) -> float:
    """The spread, from the one given upwards, at which the clusters, merged greedily, have the highest log joint.

    A prior that expects too narrow clusters holds every direction that the rows of a piece do not span for empty, and
    no two pieces may merge; one that expects too wide ones merges what is apart. Pieces stay merged from one spread to
    the next, so the climb takes little more than the merges of one.
    """
    best, highest = spread, -np.inf
    while True:
        component = make_component(
            parameters.component, n_features, spread, parameters.degrees, volume_factor=parameters.volume_factor
        )
        merge_greedily(component, clusters, parameters.alpha)
        height = log_crp(clusters.counts, parameters.alpha) + float(component.central_evidence(clusters.sets()).sum())
        if not height > highest:
            return best
        best, highest = spread, height
        spread *= _SPREAD_STEP


def first_chains(passes: Passes, parameters: Parameters, component: Component, stream: Stream) -> list[Chain]:
    """Chains before their first sweep."""
    if parameters.sampler == "crp":
        passes = in_memory(passes)
    chains = []
    for number in range(parameters.n_chains):
        clusters = first_partition(passes, parameters, stream, number)
        if isinstance(parameters.init, str) and parameters.init == "k-means":
            merge_greedily(component, clusters, parameters.alpha)
        if parameters.sampler == "finite" and len(clusters) > parameters.n_components:
            raise ParameterError(
                f"`n_components` of {passes.points.who} must be at least the number of clusters that the chain starts "
                f"with; got n_components={parameters.n_components} and {len(clusters)} clusters. Raise it, or start "
                "from fewer clusters (init)."
            )
        pivots = component.draw(clusters.sets(), stream.generator("dp first pivots", number))[0]
        setting = make_setting(passes, parameters, component, stream, number)
        chains.append(SAMPLERS[parameters.sampler](setting, clusters, pivots, parameters.alpha))
    return chains


def make_setting(passes: Passes, parameters: Parameters, component: Component, stream: Stream, number: int) -> Setting:
    """What one chain is told."""
    return Setting(
        component,
        passes,
        stream,
        number,
        n_attempts=parameters.n_attempts,
        n_components=parameters.n_components,
        warm_up=parameters.warm_up,
        alpha_prior=parameters.alpha_prior,
    )


def restored_chains(
    passes: Passes, parameters: Parameters, component: Component, stream: Stream, draws: Draws
) -> list[Chain]:
    """Chains as they stood after their last sweep."""
    chains = []
    first = 0
    for number, labels in enumerate(draws.chain_labels):
        clusters = clusters_of(passes, labels)
        pivots = draws.chain_pivots[first : first + len(clusters)] if len(draws.chain_pivots) else None
        first += len(clusters)
        setting = make_setting(passes, parameters, component, stream, number)
        known: dict[str, Any] = {"n_sweeps": draws.trace.shape[1]}
        if draws.chain_halves:
            known["halves"] = draws.chain_halves[number]
        alpha = float(draws.chain_alphas[number])
        chains.append(SAMPLERS[parameters.sampler](setting, clusters, pivots, alpha, **known))
    return chains


# ------------------------------------------------------------------------------------------------ chains


def run_chains(
    chains: list[Chain], parameters: Parameters, n_sweeps: int, emitter: Emitter, before: Draws | None = None
) -> Draws:
    """Step all chains, one sweep each in turn, until they have done `n_sweeps` or the time is up."""
    began = time.perf_counter()
    kept = _kept_before(before, parameters, chains)
    trace: list[Float64Array] = [] if before is None else list(np.swapaxes(before.trace, 0, 1))
    while len(trace) < n_sweeps and (not trace or time.perf_counter() - began < parameters.max_seconds):
        trace.append(np.array([_stepped(chain, len(chains), emitter) for chain in chains]))
        if parameters.n_kept(len(trace)) > parameters.n_kept(len(trace) - 1):
            for own, chain in zip(kept, chains, strict=True):
                own.append(chain.rows.labels.to_host())
    if not len(kept[0]):
        # stopped in the burn-in: the last state for want of draws
        for own, chain in zip(kept, chains, strict=True):
            own.append(chain.rows.labels.to_host())
    pivots = [chain.pivots for chain in chains if chain.pivots is not None]
    return Draws(
        KeptDraws.joined(kept),
        np.swapaxes(np.array(trace), 0, 1).copy(),
        at_home([chain.rows.labels for chain in chains]),
        np.concatenate(pivots) if pivots else np.empty((0, chains[0].component.n_features)),
        np.array([chain.alpha for chain in chains]),
        [chain.halves for chain in chains if isinstance(chain, SubclusterChain)],
    )


def _kept_before(before: Draws | None, parameters: Parameters, chains: list[Chain]) -> list[KeptDraws]:
    """The draws that each chain kept before."""
    if before is None or parameters.n_kept(before.trace.shape[1]) == 0:
        return [KeptDraws(chain.rows.n_rows) for chain in chains]
    return before.labels.split(len(chains))


def _stepped(chain: Chain, n_chains: int, emitter: Emitter) -> tuple[float, float, float]:
    log_joint = chain.step()
    # chains take turns, so the sweeps of all are counted as the steps of one run
    step = (chain.n_sweeps - 1) * n_chains + chain.setting.number + 1
    emitter.step(restart=1, step=step, n_clusters=chain.n_clusters, objective=log_joint)
    return float(chain.n_clusters), chain.alpha, log_joint
