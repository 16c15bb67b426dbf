"""The one loop: initial state, steps until stopped, restarts, the best run."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from armillary.fitting.events import Emitter
from armillary.fitting.stopping import Stopping

S_co = TypeVar("S_co", covariant=True)
S = TypeVar("S")

_ROUNDING = 1e-12  # of objectives that are equal, relative to them: sums of up to millions of rows


class Chain(Protocol[S_co]):
    """One run of a model from its start: what the loop can ask for."""

    @property
    def state(self) -> S_co:
        """The state after the last step."""

    @property
    def n_clusters(self) -> int:
        """Clusters in the present state."""

    def step(self) -> tuple[float, bool]:
        """Do one step; return the objective, which must not fall, and whether nothing changed any more."""


@dataclass(frozen=True)
class Run(Generic[S]):
    """The outcome of one chain."""

    chain: Chain[S]
    objective: float
    n_steps: int
    is_converged: bool


def run_chain(
    chain: Chain[S],
    *,
    max_steps: int,
    stopping: Stopping,
    emitter: Emitter,
    restart: int,
    n_done: int = 0,
    objective: float = -math.inf,
) -> Run[S]:
    """Step until nothing changes, the gain is small, or the steps are used up.

    A run that was broken off goes on after `n_done` steps, the last of which came to `objective`.
    """
    n_met = 0
    for step in range(n_done + 1, max_steps + 1):
        before = objective
        objective, is_still = chain.step()
        gain = stopping.gain(before, objective)
        emitter.step(
            restart=restart,
            step=step,
            n_clusters=chain.n_clusters,
            objective=objective,
            change=gain if math.isfinite(gain) else None,
        )
        n_met = n_met + 1 if stopping.is_met(gain) else 0
        if is_still or n_met >= stopping.patience:
            return Run(chain, objective, step, True)
    return Run(chain, objective, max_steps, False)


def best_run(
    start: Callable[[int], Chain[S]],
    *,
    n_restarts: int,
    max_steps: int,
    stopping: Stopping,
    emitter: Emitter,
    merit: Callable[[Run[S]], float] | None = None,
) -> Run[S]:
    """The run with the highest objective, or `merit`, among `start(1) ... start(n_restarts)`; the first of equals.

    Equal are those that differ by rounding alone: which run is kept must not depend on how the rows are held.
    """
    best, best_restart, best_merit = None, 0, -math.inf
    for restart in range(1, n_restarts + 1):
        chain = start(restart)
        run = run_chain(chain, max_steps=max_steps, stopping=stopping, emitter=emitter, restart=restart)
        worth = run.objective if merit is None or n_restarts == 1 else merit(run)
        # one partition, numbered otherwise, differs in the last bits of its sums, and so do dense and CSR rows
        if best is None or (worth > best_merit and not math.isclose(worth, best_merit, rel_tol=_ROUNDING)):
            best, best_restart, best_merit = run, restart, worth
    assert best is not None, "n_restarts is at least 1"
    emitter.keep(restart=best_restart, step=best.n_steps, n_clusters=best.chain.n_clusters, objective=best.objective)
    return best
