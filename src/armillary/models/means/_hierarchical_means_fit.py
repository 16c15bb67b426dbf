"""One fit of levels: k-means of rows, then of directions, each level resampled; and ids that nest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from armillary._typing import Float64Array
from armillary.draws import Stream
from armillary.engines.contract import Numbered, Passes
from armillary.engines.select import checked_points, open_passes
from armillary.exceptions import InputError
from armillary.fitting.events import Emitter
from armillary.fitting.loop import run_chain
from armillary.fitting.memory import NO_MEMORY, Memory
from armillary.fitting.representatives import nearest_of_each
from armillary.fitting.stopping import RelativeGain
from armillary.models.means import spherical_kmeans as means
from armillary.models.parameters import Given, RowShape
from armillary.rules import AffineRule
from armillary.sums.directional import DirectionalStatistics
from armillary.validation import check_choice, check_integer, check_levels, check_number

_STARTS = ("k-means||", "k-means++", "random")
# Rows that stay of a cluster of mean size in a resample, as a share of its rows.
_KEPT = 0.5

Parents = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Parameters:
    """Checked constructor parameters."""

    sizes: tuple[int, ...]  # clusters of each level, coarse to fine
    init: str
    n_resamples: int
    resample_size: int | None
    n_fit_rows: int | None
    max_iter: int
    tol: float
    n_init: int = 1

    @property
    def n_runs(self) -> int:
        """Runs that observers see."""
        return len(self.sizes) * (1 + self.n_resamples)

    @classmethod
    def check(cls, given: Given, rows: RowShape, who: str) -> Parameters:
        """The parameters, or an error that names the wrong one."""
        sizes = check_levels(given["n_clusters"], who)
        n_fit_rows = _or_none(given["n_fit_rows"], "n_fit_rows", who, "None does them on all rows.")
        n_rows = rows.n_rows if n_fit_rows is None else min(n_fit_rows, rows.n_rows)
        if sizes[-1] > n_rows:
            raise InputError(
                f"`n_clusters` of {who} must not exceed the number of rows that steps are done on; got {sizes[-1]} "
                f"clusters and {n_rows} rows. Lower n_clusters or give more rows."
            )
        return cls(
            sizes=sizes,
            init=check_choice(given["init"], "init", who, _STARTS),
            n_resamples=check_integer(given["n_resamples"], "n_resamples", who, low=0),
            resample_size=_or_none(given["resample_size"], "resample_size", who, "None takes half of the mean."),
            n_fit_rows=n_fit_rows,
            max_iter=check_integer(given["max_iter"], "max_iter", who, low=1),
            tol=check_number(given["tol"], "tol", who, low=0.0, hint="It is a relative gain."),
        )

    def of_level(self, level: int) -> means.Parameters:
        """Those of k-means at one level."""
        return means.Parameters(
            n_clusters=self.sizes[level],
            init=self.init,
            n_init=1,
            max_iter=self.max_iter,
            tol=self.tol,
            algorithm="auto",
            refills=True,
        )


def _or_none(value: Any, name: str, who: str, hint: str) -> int | None:
    return None if value is None else check_integer(value, name, who, low=1, hint=hint)


@dataclass(frozen=True, eq=False)
class Levels:
    """Directions of every level, coarse to fine, numbered so that the children of a cluster follow each other."""

    directions: tuple[Float64Array, ...]  # (K_l, D) each
    parents: tuple[Parents, ...]  # (K_l,) each but the first: the cluster of the level above
    n_steps: int

    @property
    def node_parents(self) -> Parents:
        """The parent of each node (V,): nodes are the clusters of all levels, coarse ones first; -1 at the top."""
        starts = np.cumsum([0, *(len(one) for one in self.directions)])
        top = np.full(len(self.directions[0]), -1, dtype=np.int64)
        return np.concatenate([top, *(own + start for own, start in zip(self.parents, starts, strict=False))])


def fitted_levels(
    own: Passes,
    parameters: Parameters,
    stream: Stream,
    emitter: Emitter,
    n_threads: int | None,
    memory: Memory = NO_MEMORY,
) -> Levels:
    """All levels, from the finest, which is found from rows, to the coarsest, each found from the one below.

    Steps that `memory` knows of are not done again.
    """
    found: list[Float64Array] = []
    parents: list[Parents] = []
    n_steps = 0
    for level in reversed(range(len(parameters.sizes))):
        fit = _Level(parameters, stream, emitter, level, memory)
        if not found:
            found.append(fit.run(own))
        else:
            points = checked_points(found[-1], own.points.who)
            with open_passes(points, n_threads, own.points.who) as finer:
                directions = fit.run(finer)
                parents.append(_nearest(finer, directions))
            found.append(directions)
        n_steps += fit.n_steps
    return _nested(found[::-1], parents[::-1], n_steps)


def sampled(passes: Passes, parameters: Parameters, stream: Stream) -> Passes:
    """The rows that steps are done on."""
    n_wanted = parameters.n_fit_rows
    if n_wanted is None or n_wanted >= passes.points.n_rows:
        return passes
    return passes.over(Numbered(np.sort(passes.choose(n_wanted, stream.generator("sample")))))


def _nearest(passes: Passes, directions: Float64Array) -> Parents:
    """The nearest of the coarse directions to each of the finer ones, which `passes` are over."""
    parents = passes.labels()
    passes.label(AffineRule.cosines(directions), parents, sums=False)
    return parents.to_host().astype(np.int64)


class _Level:
    """K-means over rows, or over the directions of the level below, and over resamples of them."""

    def __init__(self, parameters: Parameters, stream: Stream, emitter: Emitter, level: int, memory: Memory) -> None:
        self._parameters = parameters
        self._means = parameters.of_level(level)
        self._stream = stream
        self._emitter = emitter
        self._n_before = (len(parameters.sizes) - 1 - level) * (1 + parameters.n_resamples)  # runs of other levels
        self._memory = memory
        self.n_steps = 0

    def run(self, passes: Passes) -> Float64Array:
        """Directions (K, D)."""
        directions = self._lloyd(passes, 0)
        for number in range(1, self._parameters.n_resamples + 1):
            # what is known needs no rows to be found in
            numbers = None if self._is_done(number) else self._members(passes, directions)
            if numbers is not None and not self._means.n_clusters <= len(numbers) < passes.points.n_rows:
                break  # nothing to thin out, or too few are left
            directions = self._lloyd(passes if numbers is None else passes.over(Numbered(numbers)), number)
        return directions

    def _members(self, passes: Passes, directions: Float64Array) -> Any:
        """The rows of each cluster that are nearest to it."""
        size = self._parameters.resample_size
        mean = passes.points.n_rows / self._means.n_clusters
        labels, rule = passes.labels(), AffineRule.cosines(directions)
        passes.label(rule, labels, sums=False)
        return nearest_of_each(passes, labels, rule, size or max(1, round(_KEPT * mean)))

    def _is_done(self, number: int) -> bool:
        known = self._memory.get(self._name(number))
        return known is not None and bool(known["is_done"])

    def _name(self, number: int) -> str:
        return f"run-{self._n_before + number}"

    def _lloyd(self, passes: Passes, number: int) -> Float64Array:
        """One run of k-means; it goes on where it was broken off."""
        name, restart = self._name(number), self._n_before + number + 1
        known = self._memory.get(name)
        if known is None:
            state = means.initial_state(passes, self._means, self._stream, restart)
            known = {"directions": state.directions, "n_steps": 0, "objective": -np.inf, "is_done": False}
            self._memory.put(name, **known)
        if known["is_done"]:
            self.n_steps += int(known["n_steps"])
            return np.asarray(known["directions"], dtype=np.float64)
        stopping = RelativeGain(self._means.tol)
        begun = _begun(np.asarray(known["directions"], dtype=np.float64))
        done, value = int(known["n_steps"]), float(known["objective"])
        chain = _Told(means.Lloyd(passes, begun, self._means), self._memory, name, done, value, stopping)
        run = run_chain(
            chain,
            max_steps=self._means.max_iter,
            stopping=stopping,
            emitter=self._emitter,
            restart=restart,
            n_done=done,
            objective=value,
        )
        self.n_steps += run.n_steps
        return chain.state.directions


def _begun(directions: Float64Array) -> means.State:
    return means.State(directions, DirectionalStatistics.zero(*directions.shape))


class _Told:
    """A chain that tells a memory of every step, and whether it was the last: a kill may come right after it."""

    def __init__(
        self,
        chain: means.Lloyd,
        memory: Memory,
        name: str,
        n_steps: int,
        objective: float,
        stopping: RelativeGain,
    ) -> None:
        self._chain, self._memory, self._name = chain, memory, name
        self._n_steps, self._objective, self._stopping = n_steps, objective, stopping

    @property
    def state(self) -> means.State:
        """The state after the last step."""
        return self._chain.state

    @property
    def n_clusters(self) -> int:
        """K."""
        return self._chain.n_clusters

    def step(self) -> tuple[float, bool]:
        """One step, which is known from here on."""
        objective, is_still = self._chain.step()
        is_done = is_still or self._stopping.is_met(self._stopping.gain(self._objective, objective))
        self._n_steps, self._objective = self._n_steps + 1, objective
        self._memory.put(
            self._name,
            directions=self.state.directions,
            n_steps=self._n_steps,
            objective=objective,
            is_done=is_done,
        )
        return objective, is_still


def _nested(directions: Sequence[Float64Array], parents: Sequence[Parents], n_steps: int) -> Levels:
    """Clusters of each level but the first in the order of their parents."""
    ordered, above = [directions[0]], np.arange(len(directions[0]))
    nested = []
    for own, parent in zip(directions[1:], parents, strict=True):
        renamed = above[parent]
        order = np.argsort(renamed, kind="stable")
        ordered.append(own[order])
        nested.append(renamed[order])
        above = np.argsort(order)  # where each cluster is now
    return Levels(tuple(ordered), tuple(nested), n_steps)
