"""A fitted temporal mixture to read: its attributes, the scores and labels they give, the paths of its directions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from armillary._typing import Float64Array, IntArray
from armillary.distributions import bessel
from armillary.distributions.log_concentration import MixturePrior
from armillary.engines.contract import Points
from armillary.fitting.loop import Run
from armillary.fitting.slices import SlicedPasses, Times
from armillary.geometry import sphere
from armillary.models.mixture import best_labels
from armillary.models.saved_state import SavedRecord
from armillary.models.vmf._temporal_vmf import State
from armillary.models.vmf._temporal_vmf_fit import drift_angle
from armillary.rules import AffineRule


@dataclass(frozen=True, eq=False)
class SavedState(SavedRecord):
    """What scores, densities and `partial_fit` need beside the public attributes."""

    expected_log_h: Float64Array  # (K,) E[log H(kappa)], and
    expected_log_weights: Float64Array  # (T, K) E[log pi]: what a score has beside the product with the row
    nodes: Float64Array  # (G, K) q(kappa) as weighted nodes
    node_weights: Float64Array  # (G, K)
    total_counts: Float64Array  # (K,) what is known of weights: sums over slices of counts, and
    projections: Float64Array  # (K,) of concentrations: of resultants along expected directions
    seed: int  # of the draws that `partial_fit` goes on with


class Trajectories(NamedTuple):
    """The paths of K mean directions over T slices."""

    times: Times  # (T,)
    means: Float64Array  # (K, T, D)
    step_angles: Float64Array  # (K, T - 1) radians from one slice to the next
    path_lengths: Float64Array  # (K,) their sums
    end_angles: Float64Array  # (K,) from the first slice to the last

    @classmethod
    def of(cls, times: Times, means: Float64Array) -> Trajectories:
        """From mean directions (T, K, D)."""
        paths = np.ascontiguousarray(means.swapaxes(0, 1))
        steps = sphere.angle(paths[:, :-1], paths[:, 1:])
        return cls(times, paths, steps, steps.sum(axis=1), sphere.angle(paths[:, 0], paths[:, -1]))


def slice_rule(fitted: Mapping[str, Any], number: int) -> AffineRule:
    """The scores of rows of one slice."""
    means, gammas, kappa = fitted["means_"][number], fitted["mean_concentrations_"][number], fitted["concentrations_"]
    lengths = np.asarray(bessel.mean_resultant_length(means.shape[1], gammas))
    kept: SavedState = fitted["_saved_state"]
    offsets = kept.expected_log_weights[number] - kept.expected_log_h
    return AffineRule(means, offsets, slopes=kappa * lengths)


def slice_labels(passes: SlicedPasses, fitted: Mapping[str, Any]) -> IntArray:
    """The most probable component of each row, in the order in which the rows came."""
    return passes.rows(lambda number, rows: best_labels(rows, slice_rule(fitted, number)))


def told(run: Run[State], points: Points) -> dict[str, Any]:
    """What the run says of itself."""
    chain: Any = run.chain
    bounds = np.array(chain.trace) - points.total_weight * float(sphere.log_area(points.n_features))
    return {
        "n_clusters_": chain.n_clusters,
        "lower_bound_": float(bounds[-1]),
        "lower_bounds_": bounds,
        "n_iter_": run.n_steps,
        "converged_": run.is_converged,
    }


def described(state: State, prior: MixturePrior, drift: float, seed: int) -> dict[str, Any]:
    """The attributes that tell a state, and the saved state."""
    law, gammas = state.concentrations, state.directions.laws.concentrations
    is_known = gammas > 0.0
    means = state.directions.vectors / np.where(is_known, gammas, 1.0)[..., None]
    means[~is_known] = prior.mean_direction
    nodes, node_weights = law.nodes_for_densities()
    shape = gammas.shape
    slice_weights = np.array(np.broadcast_to(state.weights.mean(), shape))
    counts = state.counts
    has_own = state.has_slice_weights
    totals = counts.sum(axis=1)
    shares = totals / totals.sum() if has_own and totals.any() else np.full(len(totals), 1.0 / len(totals))
    return {
        "means_": means,
        "mean_concentrations_": gammas,
        "concentrations_": law.concentrations,
        "concentration_deviations_": law.concentration_deviations,
        "log_concentrations_": law.log_means,
        "log_concentration_variances_": law.log_variances,
        "weights_": shares @ slice_weights if has_own else slice_weights[0].copy(),
        "slice_weights_": slice_weights,
        "counts_": counts,
        "weight_concentration_": float(state.weights.concentration),
        "mean_direction_": prior.mean_direction,
        "mean_concentration_": float(prior.mean_concentration),
        "log_concentration_mean_": float(prior.log_mean),
        "log_concentration_variance_": float(prior.log_variance),
        "drift_concentration_": float(drift),
        "drift_angle_": drift_angle(drift, means.shape[2]),
        "_saved_state": SavedState(
            expected_log_h=law.log_h,
            expected_log_weights=np.array(np.broadcast_to(state.weights.expected_log(), shape)),
            nodes=np.exp(nodes),
            node_weights=node_weights,
            total_counts=state.total_counts,
            projections=state.kept.projections + state.projections,
            seed=seed,
        ),
    }
