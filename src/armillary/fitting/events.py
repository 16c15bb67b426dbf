"""What observers of a fit receive, and the one place that calls them.

A fit says "start" once, "step" after every step of every restart, and "end" once, also when it fails: an observer
that opened something can always close it. Nothing is printed. The same events go to the logger "armillary" at
level DEBUG; with no observer and that level off, a step costs two comparisons.

An exception raised by an observer leaves the fit. Fitted attributes are published after the fit, all at once, so
the model is then as it was before.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Literal, Self

from armillary._typing import Callback
from armillary.exceptions import ParameterError

logger = logging.getLogger("armillary")


@dataclass(frozen=True, slots=True)
class FitEvent:
    """One moment of a fit.

    Restarts and steps count from 1; a "start" has 0 for both, and no clusters yet. An "end" repeats the run that
    was kept, or the last step where the fit failed.
    """

    model: str  # class name of the estimator
    kind: Literal["start", "step", "end"]
    n_rows: int
    n_restarts: int
    max_steps: int  # of one restart
    restart: int = 0
    step: int = 0
    n_clusters: int = 0
    objective: float | None = None  # None where a model has none yet
    change: float | None = None  # relative gain in the objective, the number that is compared with `tol`
    seconds: float = 0.0  # since the fit began
    is_failed: bool = False  # of an "end": an exception is on its way out
    births: tuple[int, ...] = ()  # of the "end" of a step in a stream: ids of clusters that are new, ...
    revivals: tuple[int, ...] = ()  # ... are back after an absence, ...
    deaths: tuple[int, ...] = ()  # ... or were forgotten
    merges: tuple[tuple[int, int], ...] = ()  # and of those that were merged: the id that is gone, and the one kept

    def __str__(self) -> str:
        """One line for logs: only what is known."""
        said = [
            f"{self.model} {self.kind}{' (failed)' if self.is_failed else ''}: {self.n_rows:,} rows",
            f"restart {self.restart}/{self.n_restarts}",
            f"step {self.step}/{self.max_steps}",
            f"{self.n_clusters} clusters",
        ]
        if self.objective is not None:
            said.append(f"objective {self.objective:.9g}")
        if self.change is not None:
            said.append(f"change {self.change:.2g}")
        return ", ".join([*said, f"{self.seconds:.3f} s"])


def observers(callbacks: object, owner: str) -> tuple[Callback, ...]:
    """The parameter `callbacks` of the estimator named `owner`, as a tuple of callables."""
    if callbacks is None:
        return ()
    if callable(callbacks):
        return (callbacks,)
    rule = f"`callbacks` of {owner} must be None, a callable or a sequence of callables"
    way_out = "Give functions that take one FitEvent, e.g. callbacks=[print]."
    if not isinstance(callbacks, Sequence) or isinstance(callbacks, str | bytes):
        raise ParameterError(f"{rule}; got {callbacks!r}. {way_out}")
    for position, callback in enumerate(callbacks):
        if not callable(callback):
            raise ParameterError(f"{rule}; got {callback!r} at position {position}. {way_out}")
    return tuple(callbacks)


class Emitter:
    """Sends the events of one fit; a context manager, so that "end" is sent whatever happens.

    >>> seen = []
    >>> with Emitter("Model", (seen.append,), n_rows=50, n_restarts=1, max_steps=10) as emitter:
    ...     emitter.step(restart=1, step=1, n_clusters=3, objective=0.5)
    >>> [event.kind for event in seen]
    ['start', 'step', 'end']
    """

    def __init__(
        self, model: str, callbacks: Sequence[Callback], *, n_rows: int, n_restarts: int, max_steps: int
    ) -> None:
        self._callbacks = tuple(callbacks)
        self._last = FitEvent(model, "start", n_rows=n_rows, n_restarts=n_restarts, max_steps=max_steps)
        self._began = time.perf_counter()
        self._farewells = ExitStack()

    def __enter__(self) -> Self:
        self._began = time.perf_counter()
        self._log(self._last)
        try:
            for callback in self._callbacks:
                self._tell(callback)
                # Whoever heard "start" hears "end": the stack calls them all, even where one of them raises.
                self._farewells.callback(self._tell, callback)
        except BaseException:
            self._end(is_failed=True)
            raise
        return self

    def step(
        self,
        *,
        restart: int,
        step: int,
        n_clusters: int,
        objective: float | None = None,
        change: float | None = None,
    ) -> None:
        """Say that step number `step` of restart number `restart` is done, both counted from 1."""
        if not self._callbacks and not logger.isEnabledFor(logging.DEBUG):
            return
        self._last = replace(
            self._last,
            kind="step",
            restart=restart,
            step=step,
            n_clusters=n_clusters,
            objective=objective,
            change=change,
            seconds=time.perf_counter() - self._began,
        )
        self._log(self._last)
        for callback in self._callbacks:
            self._tell(callback)

    def keep(self, *, restart: int, step: int, n_clusters: int, objective: float | None = None) -> None:
        """Name the run that the fit keeps, for "end" to report: with many restarts, seldom the last one."""
        self._last = replace(
            self._last, restart=restart, step=step, n_clusters=n_clusters, objective=objective, change=None
        )

    def lives(
        self,
        *,
        births: tuple[int, ...],
        revivals: tuple[int, ...],
        deaths: tuple[int, ...],
        merges: tuple[tuple[int, int], ...] = (),
    ) -> None:
        """Ids of the clusters that were born, came back, died or were merged in a step, for "end" to report."""
        self._last = replace(self._last, births=births, revivals=revivals, deaths=deaths, merges=merges)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end(is_failed=error is not None)

    def _end(self, *, is_failed: bool) -> None:
        seconds = time.perf_counter() - self._began
        self._last = replace(self._last, kind="end", seconds=seconds, is_failed=is_failed)
        self._log(self._last)
        self._farewells.close()

    def _tell(self, callback: Callback) -> None:
        callback(self._last)

    @staticmethod
    def _log(event: FitEvent) -> None:
        logger.debug("%s", event)
