"""Steps of variational inference beyond single updates: sticks in order, merges, mini-batches.

Order        sticks by size, where that raises the bound                                  vmf_mixtures.md, 10
Merges       two components become one where that raises the bound                        10
Mini-batches running counts and resultants scaled to the whole                            11; Hoffman et al. 2013

With E[a] > 1 the last two sticks are better the other way round, so that the order by size alone is not monotone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import numpy.typing as npt
from scipy.special import xlogy

from armillary._typing import Float64Array, FloatArray
from armillary.distributions.component_factors import first_factors, lower_bounds
from armillary.draws import Stream
from armillary.engines.contract import Here, Numbered, Passes, Points
from armillary.models.vmf._variational_vmf import (
    FactorForm,
    State,
    update_components,
    update_labels,
    update_weights,
    weight_gain,
)
from armillary.rules import AffineRule
from armillary.sums.directional import DirectionalStatistics


def sort_components(state: State) -> State:
    """Components by falling count, where the bound rises by that: only sticks mind their order.

    They must have one prior: it stays where it is.
    """
    counts = state.statistics.counts
    order = np.argsort(-counts, kind="stable")
    weights = state.weights.update(counts[order])
    if weight_gain(weights, counts[order]) <= weight_gain(state.weights, counts):
        return state
    statistics = state.statistics.select(order)
    return replace(state, statistics=statistics, weights=weights, factors=state.factors.select(order))


def merge_components(state: State, passes: Passes, rule: AffineRule, form: FactorForm) -> State:
    """Make one of two components where that raises the bound (vmf_mixtures.md, 10).

    `rule` gave the responsibilities of `state`. The pairs with the largest cosines are tried, best first; a component
    takes part in one merge. What a pair would leave behind is an empty component, whose factor is its prior and adds
    nothing to the bound. Components must have one prior.
    """
    statistics = state.statistics
    pairs = _closest_pairs(statistics)
    if not len(pairs):
        return state
    entropies: Float64Array = passes.fold(rule, MergedEntropies(pairs))
    own = lower_bounds(state.factors, statistics.counts, statistics.resultants, state.prior)
    merged = DirectionalStatistics(statistics.counts[pairs].sum(axis=1), statistics.resultants[pairs].sum(axis=1))
    gains = _best_bounds(state, merged, pairs, form) - own[pairs].sum(axis=1) + entropies
    counts, resultants = statistics.counts.copy(), statistics.resultants.copy()
    weights, entropy = state.weights, state.label_entropy
    is_taken = np.zeros(len(counts), dtype=np.bool_)
    for number in np.argsort(-gains, kind="stable"):
        first, second = pairs[number]
        if is_taken[[first, second]].any():
            continue
        new_counts = counts.copy()
        new_counts[first], new_counts[second] = merged.counts[number], 0.0
        new_weights = weights.update(new_counts)
        if gains[number] + weight_gain(new_weights, new_counts) - weight_gain(weights, counts) <= 0.0:
            continue
        is_taken[[first, second]] = True
        counts, weights, entropy = new_counts, new_weights, entropy + float(entropies[number])
        resultants[first], resultants[second] = merged.resultants[number], 0.0
    if not is_taken.any():
        return state
    state = replace(
        state,
        statistics=DirectionalStatistics(counts, resultants),
        label_entropy=max(entropy, 0.0),
        weights=weights,
    )
    return update_components(state, form)


@dataclass(frozen=True, eq=False)
class MergedEntropies:
    """How the entropy of the labels would change if the clusters of each pair (P, 2) became one: (P,), at most 0.

    The weighted sum over rows of p log p + q log q - (p + q) log(p + q), for the responsibilities p and q of a
    pair. Changes of pairs that share no cluster add up.
    """

    pairs: npt.NDArray[np.int64]
    is_exact: ClassVar[bool] = True

    def part(self, scores: FloatArray, here: Here) -> Float64Array:
        """Of a few rows."""
        shares = np.exp(scores - scores.max(axis=1, keepdims=True))
        shares /= shares.sum(axis=1, keepdims=True)
        first, second = self.pairs[:, 0], self.pairs[:, 1]
        own = xlogy(shares, shares)
        both = shares[:, first] + shares[:, second]
        change = own[:, first] + own[:, second] - xlogy(both, both)
        return np.asarray(change.sum(axis=0) if here.weights is None else here.weights @ change)

    def join(self, parts: Sequence[Float64Array]) -> Float64Array:
        """Of all rows."""
        return np.asarray(np.sum(parts, axis=0))


def _closest_pairs(statistics: DirectionalStatistics) -> npt.NDArray[np.int64]:
    """Pairs (P, 2) of components that have rows, at most K of them, by falling cosine of their resultants."""
    lengths = statistics.lengths
    there = np.flatnonzero((statistics.counts > 1e-8 * statistics.counts.sum()) & (lengths > 0.0))
    cosines = statistics.resultants[there] @ statistics.resultants[there].T / np.outer(lengths[there], lengths[there])
    first, second = np.triu_indices(len(there), k=1)
    best = np.argsort(-cosines[first, second], kind="stable")[: len(statistics.counts)]
    return np.stack([there[first[best]], there[second[best]]], axis=1)


def _best_bounds(
    state: State, merged: DirectionalStatistics, pairs: npt.NDArray[np.int64], form: FactorForm
) -> Float64Array:
    """What each merged component would have of the bound (P,)."""
    shares = state.statistics.counts[pairs] / merged.counts[:, None]
    start = (shares * state.factors.concentrations[pairs]).sum(axis=1)
    alone = replace(state, statistics=merged, factors=first_factors(merged.resultants, state.prior, start))
    for _ in range(1 if form.is_joint else 2):
        alone = update_components(alone, form)
    return lower_bounds(alone.factors, merged.counts, merged.resultants, state.prior)


# ---------------------------------------------------------------------------------------------------- mini-batches


def take_batch(state: State, batch: Passes, form: FactorForm, *, total: float, rate: float) -> tuple[State, State]:
    """One stochastic step (vmf_mixtures.md, 11), and the same state with the batch alone for statistics.

    Running statistics are scaled to `total` rows and move by `rate` towards those of the batch. A batch of all rows at
    rate 1 is one whole step.
    """
    seen = update_labels(state, batch)
    scale = total / batch.points.total_weight
    alone = replace(seen, statistics=seen.statistics.scale(scale), label_entropy=scale * seen.label_entropy)
    kept = state.statistics.scale((1.0 - rate) * total / float(state.statistics.counts.sum()))
    moved = replace(
        state,
        statistics=kept.merge(alone.statistics.scale(rate)),
        label_entropy=(1.0 - rate) * state.label_entropy + rate * alone.label_entropy,
    )
    moved = update_components(update_weights(moved), form)
    return moved, replace(alone, weights=moved.weights, factors=moved.factors)


def random_batches(points: Points, size: int, stream: Stream, restart: int, epoch: int) -> Iterator[Numbered]:
    """As many random batches as it takes to have the rows' number once."""
    for number in range(-(-points.n_rows // size)):
        draws = stream.generator("batch", restart, epoch, number)
        yield Numbered(np.sort(draws.choice(points.n_rows, min(size, points.n_rows), replace=False)))
