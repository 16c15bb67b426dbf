"""Split and merge moves of Dirichlet-process mixtures, exact for any component.

Target       p(z, pivots | X) ~ alpha^K prod_k Gamma(n_k) p(pivot_k) m(x_k | pivot_k)             dp_tgmm.md, 6, (F)
Attempt      with probability 1/2 a split of a random cluster, else a merge of two that are near          8.1, 8.5
Division     `random` or `launch`, see fitting/divisions.py                                               8.2, 8.3
Ratio        (G): evidences, Gamma factors, and the probabilities of choosing and of dividing             8.1

Covariances, concentrations and weights are integrated out of the target, so none is proposed. Pivots of new clusters
are drawn fresh: a copied one would have no density and no way back. The number of attempts in a sweep must not depend
on the state; one for each cluster would prefer states with few.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from armillary._typing import Float64Array
from armillary.distributions.components import Component, Pivots
from armillary.engines.contract import Partition, Sets, Sides
from armillary.fitting.divisions import LaunchDivision, RandomDivision, launch

S = TypeVar("S", bound=np.generic)

# Far pairs are chosen too, a ten-thousandth as often as touching ones.
_FAR_WEIGHT = 1e-4
# Attempts that are made at once, while their rows are few or half of all: ten on thirty clusters.
_AT_ONCE = 10
_FEW_ROWS = 1 << 16
# More than what rounding does to a log ratio, of its terms: evidences, which are some nats a row each.
_ROUNDING = 1e-6


def log_split_ratio(
    weight_concentration: float,
    counts: tuple[int, int],
    evidences: tuple[float, float],
    evidence_together: float,
    *,
    log_pair: float,
    log_choice: float,
    log_division: float,
) -> float:
    """(G): target ratio times proposal ratio of a split into b and c; a merge has minus this.

    `log_pair` is the log probability that a merge chooses {b, c}, `log_choice` that a split chooses the whole, and
    `log_division` that it divides it so.
    """
    target = log_target_ratio(weight_concentration, counts, evidences, evidence_together)
    return target + log_pair - log_choice - log_division


def log_target_ratio(
    weight_concentration: float, counts: tuple[int, int], evidences: tuple[float, float], evidence_together: float
) -> float:
    """The part of (G) without the probabilities of choosing and of dividing."""
    n_left, n_right = counts
    partitions = math.lgamma(n_left) + math.lgamma(n_right) - math.lgamma(n_left + n_right)
    return math.log(weight_concentration) + partitions + sum(evidences) - evidence_together


def is_hopeless(luck: float, most: float) -> bool:
    """Whether an attempt is rejected though its log ratio were as high as this, which no rounding makes up for."""
    return luck > most + _ROUNDING * (1.0 + abs(most))


class Summaries(NamedTuple):
    """Centres and variances of K clusters, by which pairs to merge are chosen."""

    component: Component
    centres: Float64Array  # (K, D)
    variances: Float64Array  # (K,)

    def weights(self, cluster: int) -> Float64Array:
        """Weights (K,) of the other clusters as partners of one; its own is 0."""
        return self.weights_of([cluster])[0]

    def weights_of(self, clusters: list[int]) -> Float64Array:
        """`weights` of some clusters (m, K)."""
        squares = self.component.squared_distances(self.centres[clusters, None], self.centres)
        weights = (1.0 + squares / (self.variances[clusters, None] + self.variances)) ** -2.0 + _FAR_WEIGHT
        weights[np.arange(len(clusters)), clusters] = 0.0
        return np.asarray(weights)

    def draw_pair(self, generator: np.random.Generator) -> tuple[int, int]:
        """One cluster at random, and a partner by weight."""
        first = int(generator.integers(len(self.centres)))
        cumulative = np.cumsum(self.weights(first))
        found = np.searchsorted(cumulative, generator.random() * cumulative[-1], side="right")
        # a uniform next to 1 can round up to the total, which the last cluster with weight takes
        return first, int(min(found, np.searchsorted(cumulative, cumulative[-1], side="left")))

    def log_probability(self, first: int, second: int) -> float:
        """Of the pair, whichever of the two was chosen first."""
        ours, theirs = self.weights_of([first, second])
        return math.log((ours[second] / ours.sum() + theirs[first] / theirs.sum()) / len(self.centres))

    @property
    def least_log_probability(self) -> float:
        """What `log_probability` of no pair is below: no weight is less than `_FAR_WEIGHT`, or more than 1 and that."""
        n_clusters = len(self.centres)
        return math.log(2.0 * _FAR_WEIGHT / (1.0 + _FAR_WEIGHT) / (n_clusters * (n_clusters - 1.0)))

    def split(self, cluster: int, parts: Summaries) -> Summaries:
        """With two parts in the place of a cluster: the first where it was, the second last."""
        centres = replaced(self.centres, cluster, parts.centres)
        return Summaries(self.component, centres, replaced(self.variances, cluster, parts.variances))

    def merged(self, first: int, second: int, whole: Summaries) -> Summaries:
        """With one in the place of two: see `SplitMerge.merge`."""
        centres = merged(self.centres, first, second, whole.centres)
        return Summaries(self.component, centres, merged(self.variances, first, second, whole.variances))


def replaced(values: npt.NDArray[S], cluster: int, parts: npt.NDArray[S]) -> npt.NDArray[S]:
    """Values (K, ...) with two in the place of one: the first where it was, the second last."""
    both = np.concatenate([values, parts[1:]])
    both[cluster] = parts[0]
    return both


def merged(values: npt.NDArray[S], first: int, second: int, whole: npt.NDArray[S]) -> npt.NDArray[S]:
    """Values (K, ...) with `whole` (1, ...) where `first` was; the last takes the place of `second`."""
    kept = values.copy()
    kept[first] = whole[0]
    if second < len(kept) - 1:
        kept[second] = kept[-1]
    return kept[:-1]


class Drawn(NamedTuple):
    """New clusters: pivots proposed for sets, their evidences, and their summaries."""

    pivots: Pivots
    evidences: Float64Array
    summaries: Summaries

    @classmethod
    def of(cls, component: Component, sets: Sets, generator: np.random.Generator) -> Drawn:
        """One for each set."""
        pivots, evidences = component.draw(sets, generator)
        return cls(pivots, evidences, Summaries(component, *component.summary(sets)))

    def part(self, part: slice) -> Drawn:
        """Some of them."""
        summaries = self.summaries
        pivots = None if self.pivots is None else self.pivots[part]
        centres, variances = summaries.centres[part], summaries.variances[part]
        return Drawn(pivots, self.evidences[part], Summaries(summaries.component, centres, variances))


class _Attempt(NamedTuple):
    """A split of one cluster or a merge of two, as far as it is planned before anything is drawn."""

    kind: str
    clusters: tuple[int, ...]  # one to split, or two to merge; none where nothing can be done


class _Proposal(NamedTuple):
    """A move to accept or reject."""

    clusters: tuple[int, ...]
    sides: Sides | None  # the division that a split makes
    log_division: Callable[[], float]  # of it, or of the one that a merge undoes
    drawn: Drawn  # the two parts of a split, or the whole of a merge


class _Sizes(NamedTuple):
    """All that a `random` division is asked for."""

    n_left: int
    n_right: int


class SplitMerge:
    """A partition with pivots, and attempts to change it.

    Most attempts are rejected, so several are made at once in the state as it is, and decided one after the other;
    those that come after one that is accepted are made anew. That is the same as one after the other: what is
    proposed depends on the state alone, and the proposals that are thrown away have had no part in a decision.
    """

    def __init__(self, component: Component, rows: Partition, pivots: Pivots, weight_concentration: float) -> None:
        self.pivots = pivots
        self.origins = np.arange(len(rows))  # which cluster each was at first; -1: a new one
        self._component = component
        self._rows = rows
        self._alpha = weight_concentration
        # of all clusters, though some will not be looked at: the log joint after the sweep and the first step of the
        # next ask for the same sums, which sets remember
        self._evidences = component.evidence(pivots, rows.sets())
        self._summaries = Summaries(component, *component.summary(rows.sets()))

    def attempt(self, kinds: Sequence[str], generator: np.random.Generator) -> tuple[int, bool]:
        """Attempts with `random` or `launch` divisions, until one changes the partition or enough rows were looked at.

        Returns how many were made, at least one, and whether the last of them changed the partition.
        """
        planned = self._planned(kinds, generator)
        for number, proposal in enumerate(self._proposed(planned, generator), 1):
            if proposal is not None and self._is_accepted(proposal, generator):
                return number, True
        return len(planned), False

    def _planned(self, kinds: Sequence[str], generator: np.random.Generator) -> list[_Attempt]:
        """The next few attempts: each a split or a merge with probability 1/2, whatever the state."""
        planned: list[_Attempt] = []
        n_rows, most_rows, counts = 0, max(self._rows.n_rows // 2, _FEW_ROWS), self._rows.counts
        for kind in kinds[:_AT_ONCE]:
            clusters: tuple[int, ...] = ()
            if generator.random() < 0.5:
                whole = int(generator.integers(len(self._rows)))
                clusters = (whole,) if counts[whole] > 1 else ()
            elif len(self._rows) > 1:
                clusters = self._summaries.draw_pair(generator)
            planned.append(_Attempt(kind, clusters))
            n_rows += sum(counts[cluster] for cluster in clusters)
            if n_rows > most_rows:
                break
        return planned

    def _proposed(self, planned: list[_Attempt], generator: np.random.Generator) -> list[_Proposal | None]:
        """The moves planned, with divisions and pivots drawn; None where there is nothing to decide."""
        found: list[_Proposal | None] = [None] * len(planned)
        possible = [number for number, attempt in enumerate(planned) if attempt.clusters]
        if not possible:
            return found
        groups = [planned[number].clusters for number in possible]
        wholes = self._rows.unions(groups)
        divisions = self._divisions([planned[number].kind for number in possible], wholes, generator)
        is_split = [len(group) == 1 for group in groups]
        sides = self._drawn_sides(is_split, divisions, wholes, generator)
        chosen = [place for place in range(len(groups)) if not is_split[place] or place in sides]
        if not chosen:
            return found
        parts = wholes.some(chosen).parted([sides.get(place) for place in chosen])
        drawn = Drawn.of(self._component, parts, generator)
        ends = np.cumsum([1 + is_split[place] for place in chosen]).tolist()
        for place, end in zip(chosen, ends, strict=True):
            own, clusters = sides.get(place), groups[place]
            log_division = partial(self._log_division, divisions[place], wholes, place, clusters, own)
            new = drawn.part(slice(end - 1 - is_split[place], end))
            found[possible[place]] = _Proposal(clusters, own, log_division, new)
        return found

    def _divisions(
        self, kinds: list[str], wholes: Sets, generator: np.random.Generator
    ) -> dict[int, RandomDivision | LaunchDivision]:
        """How each of some sets is divided, by its place."""
        divisions: dict[int, RandomDivision | LaunchDivision] = {
            place: RandomDivision(self._alpha) for place, kind in enumerate(kinds) if kind == "random"
        }
        launched = [place for place, kind in enumerate(kinds) if kind == "launch"]
        if launched:
            divisions |= zip(launched, launch(self._component, wholes.some(launched), generator), strict=True)
        return divisions

    def _drawn_sides(
        self,
        is_split: list[bool],
        divisions: dict[int, RandomDivision | LaunchDivision],
        wholes: Sets,
        generator: np.random.Generator,
    ) -> dict[int, Sides]:
        """The divisions that splits make, by place, of those that leave rows on both sides."""
        places = [place for place, own in enumerate(is_split) if own]
        launched = [divisions[place] for place in places]
        LaunchDivision.fit_together([own for own in launched if isinstance(own, LaunchDivision)])
        drawn = {place: divisions[place].draw(wholes, place, generator) for place in places}
        return {place: sides for place, sides in drawn.items() if sides.n_left and sides.n_right}

    def _log_division(
        self,
        division: RandomDivision | LaunchDivision,
        wholes: Sets,
        place: int,
        clusters: tuple[int, ...],
        sides: Sides | None,
    ) -> float:
        """The log probability of the division that a split makes, or that a merge undoes."""
        if sides is not None:
            return division.log_probability(sides)
        if isinstance(division, RandomDivision):
            return division.log_probability(_Sizes(*self._sizes_of(clusters)))
        return division.log_probability(wholes.where(place, self._rows.labels, clusters[0]))

    def _sizes_of(self, clusters: tuple[int, ...]) -> tuple[int, int]:
        first, second = self._rows.counts[list(clusters)].tolist()
        return first, second

    def _is_accepted(self, proposal: _Proposal, generator: np.random.Generator) -> bool:
        """Decide, and make the move if it is accepted."""
        clusters, sides, log_division, drawn = proposal
        if sides is not None:
            return self.propose_split(clusters[0], sides, log_division(), drawn, generator)
        return self._propose_merge(clusters[0], clusters[1], log_division, drawn, generator)

    def propose_split(
        self, whole: int, sides: Sides, log_division: float, parts: Drawn, generator: np.random.Generator
    ) -> bool:
        """Accept or reject a division of a cluster that was proposed with a given probability."""
        luck = -generator.standard_exponential()
        target = (
            self._alpha,
            (sides.n_left, sides.n_right),
            (float(parts.evidences[0]), float(parts.evidences[1])),
            float(self._evidences[whole]),
        )
        log_choice = -math.log(len(self._rows))
        # with no pair that a merge is surer to choose
        if is_hopeless(luck, log_target_ratio(*target) - log_choice - log_division):
            return False
        after = self._summaries.split(whole, parts.summaries)
        log_pair = after.log_probability(whole, len(self._rows))
        if not luck < log_split_ratio(*target, log_pair=log_pair, log_choice=log_choice, log_division=log_division):
            return False
        self._rows.split(whole, sides)
        self._summaries = after
        self._evidences = replaced(self._evidences, whole, parts.evidences)
        self.origins = replaced(self.origins, whole, np.array([-1, -1]))
        if self.pivots is not None and parts.pivots is not None:
            self.pivots = replaced(self.pivots, whole, parts.pivots)
        return True

    def _propose_merge(
        self,
        first: int,
        second: int,
        log_division: Callable[[], float],
        whole: Drawn,
        generator: np.random.Generator,
    ) -> bool:
        """Accept or reject that two clusters become one, whose division into them has a given probability."""
        luck = -generator.standard_exponential()
        target = (
            self._alpha,
            self._sizes_of((first, second)),
            (float(self._evidences[first]), float(self._evidences[second])),
            float(whole.evidences[0]),
        )
        log_choice = -math.log(len(self._rows) - 1)
        # with the pair that is chosen least, and the division sure: to find its probability may take a fit to the rows
        if is_hopeless(luck, log_choice - log_target_ratio(*target) - self._summaries.least_log_probability):
            return False
        log_pair = self._summaries.log_probability(first, second)
        if not luck < -log_split_ratio(*target, log_pair=log_pair, log_choice=log_choice, log_division=log_division()):
            return False
        self._rows.merge(first, second)
        self._summaries = self._summaries.merged(first, second, whole.summaries)
        self._evidences = merged(self._evidences, first, second, whole.evidences)
        self.origins = merged(self.origins, first, second, np.array([-1]))
        if self.pivots is not None and whole.pivots is not None:
            self.pivots = merged(self.pivots, first, second, whole.pivots)
        return True
