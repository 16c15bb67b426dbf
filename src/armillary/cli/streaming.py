"""The work of `armillary stream`: learn a step, answer it, and keep model and place together.

Protocol. A checkpoint is one file with the model, the rows taken, how much of the input is done and how long the output
is, put in place by one rename after the output is on disk. Whatever ends a run, the next one loads the checkpoint, cuts
the output back to its length and reads the input from its place: the rows after it are learned and answered again, with
the same ids. So a file that was read and written in any number of runs equals that of one run. A pipe cannot be read
again: rows that were read after the last checkpoint of a run that was killed come back only if the producer sends them
again, all rows (--from-start) or those after the number that is said at the start.

The state is locked (`durable/locks.py`) from before it is looked at until after its last write, so a second run on
it is refused: it would learn from the same place and give out the same row numbers again.
"""

from __future__ import annotations

import math
import os
import signal
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import numpy.typing as npt

from armillary.cli.fits import Request, described, made, parameters_of
from armillary.cli.model_names import MODELS, entry
from armillary.cli.present import check_missing, spread_labels
from armillary.cli.screen import Screen
from armillary.cli.stream_input import Step, StreamInput
from armillary.cli.stream_output import StreamOutput
from armillary.cli.stream_thresholds import SwallowWatch
from armillary.durable.locks import held
from armillary.durable.whole import remove_leftovers, whole_file
from armillary.exceptions import ArmillaryError, InputError, ParameterError, RowError
from armillary.persistence.checkpoints import load_checkpoint, save_checkpoint
from armillary.selection.counting import counted, in_the_model
from armillary.validation import has_direction

_STEP_ROWS = 256


@dataclass(frozen=True)
class StreamTask:
    """What the options say."""

    input: str
    output: str
    request: Request
    batch: int | None = None
    state: str | None = None
    checkpoint_rows: int = 100_000
    checkpoint_seconds: float = 10.0
    is_replayed: bool = False
    is_new_input: bool = False
    force: bool = False
    to: str | None = None
    is_guarded: bool = False
    key: str | None = None
    format: str | None = None


@dataclass(frozen=True)
class Place:
    """Where a stream stands."""

    rows: int = 0  # taken, over its whole life
    input_rows: int = 0  # taken of the present input
    input_end: int = 0  # of the present input: bytes of JSON lines, rows of others
    input_mark: str = ""
    is_finished: bool = False  # whether the present input was read to its end
    output: str = "-"
    output_bytes: int = 0
    has_ids: bool = False
    batch: int | None = None


class _StopError(Exception):
    """A signal came while nothing was at hand but waiting."""


@dataclass(eq=False)
class _Stop:
    """SIGINT and SIGTERM ask for an end after the step at hand; while waiting for input they end at once."""

    code: int = 0
    is_waiting: bool = False
    _before: dict[int, Any] = field(default_factory=dict)

    def __enter__(self) -> _Stop:
        for number in (signal.SIGINT, signal.SIGTERM):
            self._before[number] = signal.signal(number, self._ask)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _ask(self, number: int, frame: FrameType | None) -> None:
        self.code = 128 + number
        signal.signal(number, self._before[number])  # a second one does not wait
        if self.is_waiting:
            raise _StopError

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Around a read that may take for ever."""
        self.is_waiting = True
        try:
            if self.code:
                raise _StopError
            yield
        finally:
            self.is_waiting = False


def follow(task: StreamTask, screen: Screen) -> int:
    """Follow the stream to its end, or until a signal; the exit code."""
    check_missing(task.request.missing)
    output = StreamOutput(task.output, task.to, is_guarded=task.is_guarded)
    with (
        _Stop() as stop,
        suppress(_StopError),  # one that is not caught below came before the first row
        _held_state(task.state),
        closing(output),
        closing(
            StreamInput.open(task.input, task.format, task.key, task.batch, stop.waiting, task.request.missing)
        ) as source,
    ):
        model, place = _beginning(task, source, output, screen)
        watch = SwallowWatch(task.request, type(model).__name__) if place.rows == 0 else None
        _Run(task, model, place, source, output, screen, watch=watch).go(stop)
    return stop.code


# ------------------------------------------------------------------------------------------------------ beginning


def _held_state(state: str | None) -> AbstractContextManager[None]:
    """Around all that is done with a state."""
    return nullcontext() if state is None else _held(_real(state), f"The state '{state}'")


@contextmanager
def _held(file: Path, what: str) -> Iterator[None]:
    _refuse_folder(file)
    with held(file, what, "Choose another place for it with --state."):
        remove_leftovers(file)
        yield


def _real(state: str) -> Path:
    """One path for one state, however it is spelled."""
    return Path(os.path.realpath(state))


def _beginning(task: StreamTask, source: StreamInput, output: StreamOutput, screen: Screen) -> tuple[Any, Place]:
    """The model and the place to start from: those of the state, or new ones."""
    if task.state is None or not Path(task.state).exists():
        model = _new_model(task)
        _refuse_others_output(task, output)
        source.batch = task.batch or _usual_batch(model, source)
        return model, Place(output=output.place, batch=source.batch)
    model, saved = load_checkpoint(task.state)
    try:
        place = Place(**saved)
    except TypeError as error:
        raise InputError(
            f"The state '{task.state}' must be one of this release; it says other things of its place ({error}). "
            "Upgrade: pip install --upgrade armillary."
        ) from error
    _refuse_other_options(task, model, place)
    source.batch = task.batch or place.batch
    is_same_output = output.place == place.output
    place = replace(_continued(task, place, source), output=output.place, batch=source.batch)
    if is_same_output:
        output.go_on(place.output_bytes, has_ids=place.has_ids)
    else:
        _refuse_others_output(task, output)
    screen.note(
        f"Going on with {described(model)} after {counted(place.rows, 'row')}, {in_the_model(model)}"
        + _what_to_send(task, place, source)
    )
    return model, place


def _what_to_send(task: StreamTask, place: Place, source: StreamInput) -> str:
    if source.is_file:
        return "."
    if task.is_replayed:
        return f"; the first {place.input_rows:,} rows that come are passed over."
    return f"; rows are expected from number {place.rows:,} (counted from 0) on."


def _marker(state: str) -> Path:
    """A file that names the output which a run has begun and no checkpoint knows of yet."""
    return Path(f"{_real(state)}.begun")


def _refuse_others_output(task: StreamTask, output: StreamOutput) -> None:
    """A new output must not be there, unless a run that was killed before its first checkpoint left it."""
    marker = None if task.state is None else _marker(task.state)
    was_begun = marker is not None and marker.exists() and marker.read_bytes() == os.fsencode(output.place)
    if not task.force and not was_begun:
        output.refuse_existing()


def _refuse_folder(state: Path) -> None:
    folder = state.parent
    if not folder.is_dir():
        raise InputError(f"The state must lie in a folder that is there; '{folder}' is not. Make it first.")


def _new_model(task: StreamTask) -> Any:
    short, known = entry(task.request.model or "links")
    if not known.is_streaming:
        able = ", ".join(name for name, one in MODELS.items() if one.is_streaming)
        raise ParameterError(f"A stream takes the models {able}; got {short}, which learns all rows at once.")
    if known.takes_angle and task.request.max_angle is None and "max_angle" not in task.request.settings:
        raise ParameterError(
            f"The model {short} needs an angle in a stream: --max-angle 30. armillary suggest finds one."
        )
    if short == "dp" and task.request.n_clusters is not None:
        raise ParameterError(
            "--n-clusters cannot set the angle of dp in a stream: rows are not known yet. Give --max-angle."
        )
    parameters = parameters_of(short, known, task.request)
    return made(known, parameters, Screen(quiet=True))  # a step is too short for a bar of its own


def _usual_batch(model: Any, source: StreamInput) -> int | None:
    if source.format == "npy":
        return None  # an array is a step
    if type(model).__name__ == "Links":
        return _STEP_ROWS if source.is_file else 1  # its answers do not depend on steps; a pipe wants them at once
    return max(_STEP_ROWS, 10 * getattr(model, "n_clusters", 0))


def _refuse_other_options(task: StreamTask, model: Any, place: Place) -> None:
    """The same command again is fine; one that asks for something else than the state holds is not."""
    asked: dict[str, tuple[Any, Any]] = {}
    if task.request.model and entry(task.request.model)[1].class_name != type(model).__name__:
        asked["--model"] = (type(model).__name__, entry(task.request.model)[1].class_name)
    wanted: dict[str, Any] = dict(task.request.settings)
    if task.request.max_angle is not None:
        wanted["max_angle"] = math.radians(task.request.max_angle)
    if task.request.n_clusters is not None:
        wanted["n_clusters"] = task.request.n_clusters
    known = model.get_params(deep=False)
    for name, value in wanted.items():
        if not asked and known.get(name) != value:
            asked[name] = (known.get(name), value)
    if task.batch is not None and task.batch != place.batch and not asked:
        asked["--batch"] = (place.batch, task.batch)
    for name, (before, value) in asked.items():
        raise ParameterError(
            f"The state '{task.state}' was begun with {name} {before}; got {value}. Leave the option out to go on, or "
            "name another --state to start anew."
        )
    if task.request.threads is not None and "n_threads" in known:
        model.set_params(n_threads=task.request.threads)
    if task.request.device is not None:
        model.set_params(device=task.request.device)


def _continued(task: StreamTask, place: Place, source: StreamInput) -> Place:
    """The place within the input that is given now: the same file, the next one, or a pipe."""
    at_beginning = replace(place, input_rows=0, input_end=0, input_mark="", is_finished=False)
    if not source.is_file:
        return at_beginning if place.input_mark else replace(place, is_finished=False)
    if task.is_new_input:
        return at_beginning
    if source.has_mark(place.input_mark):
        return replace(place, is_finished=False)
    if place.is_finished or not place.input_mark:
        return at_beginning
    raise InputError(
        f"The state '{task.state}' stopped after {place.input_rows:,} rows of another file than {source.name}, or it "
        "has changed. Give that file first, or take this one from its beginning with --new-input."
    )


# ------------------------------------------------------------------------------------------------------------ running


@dataclass(eq=False)
class _Run:
    """One run of the loop."""

    task: StreamTask
    model: Any
    place: Place
    source: StreamInput
    output: StreamOutput
    screen: Screen
    n_new: int = 0
    n_bad: int = 0  # rows without a direction
    watch: SwallowWatch | None = None
    _kept_rows: int = 0
    _kept_at: float = field(default_factory=time.monotonic)

    def go(self, stop: _Stop) -> None:
        """Steps until the input or a signal ends them; the state is kept whatever happens."""
        self._kept_rows = self.place.rows
        n_passed = self.place.input_rows if self.task.is_replayed and not self.source.is_file else 0
        start = self.place.input_end if self.source.is_file else 0
        width = getattr(self.model, "n_features_in_", None)
        try:
            with self.screen.progress("rows", None, "rows") as advance:
                for step in self.source.steps(start, n_passed, width):
                    self._take(step)
                    advance(len(step.ids))
                    if stop.code:
                        break
                    self._keep_in_time()
                else:
                    self._begin_output()
                    self.place = replace(self.place, is_finished=True)
        except _StopError:
            left = self.source.leftover()
            if left is not None:
                self._take(left)
        except ArmillaryError:
            self._keep()  # what came before the bad row is done
            raise
        self._keep()
        self._say_farewell(stop)

    def _take(self, step: Step) -> None:
        with self.screen.heard():
            clusters = self._answers(step)
        self._begin_output()
        if self.watch is not None:
            self.watch.take(clusters)
        self.output.write(self.place.rows, step.ids, clusters)
        n_rows = len(step.ids)
        self.n_new += n_rows
        self.place = replace(
            self.place,
            rows=self.place.rows + n_rows,
            input_rows=self.place.input_rows + n_rows,
            input_end=step.end if self.source.is_file else 0,
            output_bytes=self.output.n_bytes,
            has_ids=self.output.has_ids,
        )

    def _answers(self, step: Step) -> npt.NDArray[np.integer[Any]]:
        """The clusters of the rows of a step; -1 for those without a direction, which no model learns."""
        is_here = has_direction(step.rows) if self.task.request.missing == "flag" and len(step.ids) else None
        if is_here is None or is_here.all():
            return _learned(self.model, step, self.place, self.source.name)
        if not self.n_bad:
            first = self.place.rows + int(np.argmin(is_here))
            self.screen.warn(
                f"Row {first:,} (counted from 0) has no direction (empty, NaN, infinite or all zero): such rows are "
                "not learned and get the cluster -1."
            )
        self.n_bad += int(np.count_nonzero(~is_here))
        if not is_here.any():
            return np.full(len(step.ids), -1)
        ids = [name for name, is_good in zip(step.ids, is_here, strict=True) if is_good]
        here = replace(step, rows=step.rows[is_here], ids=ids)
        return spread_labels(_learned(self.model, here, self.place, self.source.name), is_here)

    def _begin_output(self) -> None:
        """Not before the first answer, so that a run which is refused leaves nothing."""
        if self.output.is_begun:
            return
        if self.task.state is not None and self.output.is_file:
            with whole_file(_marker(self.task.state), "stream") as marker:
                marker.write(os.fsencode(self.output.place))
        self.output.begin()

    def _keep_in_time(self) -> None:
        is_due = self.place.rows - self._kept_rows >= self.task.checkpoint_rows
        # the first step is kept at once: until then a run that is killed starts anew
        is_first = self._kept_rows == 0
        if is_due or is_first or time.monotonic() - self._kept_at >= self.task.checkpoint_seconds:
            self._keep()

    def _keep(self) -> None:
        if self.task.state is None or not hasattr(self.model, "n_features_in_"):
            return
        self.output.sync()
        place = replace(self.place, input_mark=self.source.mark(self.place.input_end))
        save_checkpoint(self.model, asdict(place), self.task.state)
        with suppress(FileNotFoundError):
            _marker(self.task.state).unlink()
        self._kept_rows, self._kept_at = self.place.rows, time.monotonic()

    def _say_farewell(self, stop: _Stop) -> None:
        if self.watch is not None:
            self.watch.say(self.screen)
        why = {0: "", 130: " (interrupted)", 143: " (terminated)"}[stop.code]
        kept = "" if self.task.state is None else f"; state: {self.task.state}"
        bad = f", {self.n_bad:,} of them without a direction (-1)" if self.n_bad else ""
        rows = f"{counted(self.n_new, 'row')}{bad}, {self.place.rows:,} in all"
        self.screen.note(f"{rows}; the model has {in_the_model(self.model)}{why}{kept}")


def _learned(model: Any, step: Step, place: Place, name: str) -> npt.NDArray[np.integer[Any]]:
    """The clusters of the rows of a step, which the model learns."""
    try:
        if hasattr(model, "learn_one") and len(step.ids) == 1:
            return np.array([model.learn_one(step.rows[0])])
        if hasattr(model, "partial_fit_predict"):
            return np.asarray(model.partial_fit_predict(step.rows))
        return np.asarray(model.partial_fit(step.rows).labels_)
    except InputError as error:
        first, last = place.input_rows, place.input_rows + len(step.ids) - 1
        kind = (
            InputError if isinstance(error, RowError) else type(error)
        )  # whose row is one of the step, not of the file
        raise kind(f"In rows {first:,} to {last:,} of {name}: {error}") from error
