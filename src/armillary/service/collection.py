"""One collection at work: its lock, its one writer, group commit, snapshots and erasure.

The writer takes all requests that wait, writes their operations in one commit, does them, and answers. Readers ask the
model directly (`models/turns.py`), so they see what is on disk and nothing else. A snapshot is a copy of the model that
another thread writes; the writer puts it in place of the log when the file is whole.
"""

from __future__ import annotations

import contextlib
import copy
import hashlib
import json
import os
import queue
import secrets
import shutil
import tempfile
import threading
import time
import zipfile
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from armillary.durable.locks import held
from armillary.durable.whole import sync_to_disk, whole_file
from armillary.models.links.links import nodes_now
from armillary.persistence.archive import load, model_bytes
from armillary.service.errors import ServiceError, absent, unusable
from armillary.service.foreign import check_state
from armillary.service.identities import Identities, Int64Array
from armillary.service.operations import ADD, FORGET, META, SPLIT, THUMBNAIL, Event, Operation, Outcome, Rows
from armillary.service.store import Entry, Followed, Seen, Snapshot, Store, copied_rows, refusal_of

LOG, BACKUPS = "log.sqlite", "backups"
PASSING = "passing"  # a folder for files at work; whatever lies there at a start was left by a process that was killed
_MOST_GROUPED = 512  # operations in one commit
_IDLE_SECONDS = 0.25  # after which what followed is written by itself
_MOST_RECENT = 10_000  # events in memory that are written too
_STRETCH = 1 << 28  # products of coordinates that a lookup makes in one go: some 10 ms
_PIECE = 1000  # entries of a state that are written in one go: a millisecond
_RENUMBERED = 250_000  # vectors; a model remembers a million merges of sub-clusters, and a vector brings one at most


@dataclass(frozen=True)
class Limits:
    """How a collection works."""

    max_queue: int = 1024
    snapshot_vectors: int = 100_000
    snapshot_operations: int = 20_000
    min_free_bytes: int = 64 << 20


class _Asked(NamedTuple):
    operation: Operation
    key: str | None
    answered: Future[Outcome]
    digest: bytes = b""  # made by the writer: a hash in the thread of requests would hold all of them up


class _Written(NamedTuple):
    """A snapshot whose file is whole."""

    snapshot: Snapshot
    epoch: int


class _Unwritten(NamedTuple):
    """No snapshot: it could not be written."""


class _Task(NamedTuple):
    """Something that the writer does between two groups."""

    work: Callable[[], Any]
    answered: Future[Any]


class Collection:
    """A name, a log and the state that follows from it."""

    def __init__(self, folder: Path, limits: Limits, *, model: Any = None) -> None:
        self.name = folder.name
        self.folder = folder
        self.limits = limits
        self.broken: BaseException | None = None
        self.is_closed = False
        self.latencies: deque[float] = deque(maxlen=2048)  # seconds from request to answer
        self.commits: deque[float] = deque(maxlen=2048)  # seconds of each commit
        self.listeners: set[Callable[[], None]] = set()
        self._held = contextlib.ExitStack()
        what = f"The collection '{folder}'"
        self._held.enter_context(held(folder, what, "Choose another folder for --data."))
        try:
            shutil.rmtree(folder / PASSING, ignore_errors=True)
            self.store = Store(folder / LOG)
            self._held.callback(self.store.close)
            self._open(model)
        except BaseException:
            self._held.close()
            raise
        self._queue: queue.SimpleQueue[_Asked | _Written | _Unwritten | _Task | None] = queue.SimpleQueue()
        self._n_waiting = 0
        self._lock = threading.Lock()
        self._backing_up: set[str] = set()  # files that are not there yet
        self._running: dict[str, Operation] = {}
        self._aside: threading.Thread | None = None
        self._looked = -1.0, 0
        self._writer = threading.Thread(target=self._work, name=f"writer of {self.name}", daemon=True)
        self._writer.start()

    # ------------------------------------------------------------------------------------------- beginning

    def _open(self, model: Any) -> None:
        """The state from the newest snapshot and the log after it."""
        self.facts = self.store.facts()
        self.snapshot = self.store.snapshot()
        if self.snapshot is not None and self.snapshot.file:
            model = load(self.folder / self.snapshot.file)
        elif model is None:
            from armillary.service.models import made  # here: it knows all classes

            model = made(self.facts["model"])
        members = bool(self.facts.get("store_members"))
        self.identities = Identities(model, store_members=members, members=self.store.members)
        if self.snapshot is not None:
            self.identities.take(json.loads(self.snapshot.state))
        self._followed: list[Followed] = []
        self._answers: OrderedDict[str, Followed] = OrderedDict()
        self.recent: deque[Event] = deque()  # the newest, and all that are not written
        self._n_since = self._n_operations = 0
        self._epoch = 0
        self._is_writing_snapshot = False
        self._doomed: set[int] = set()  # forgotten, and not erased from files yet
        self._tried = 0.0  # when what must go was tried the last time
        self._n_renumbered = self.identities.n_rows
        for entry in self.store.entries(self.identities.seq):
            outcome = self.identities.apply(entry.seq, entry.at, entry.operation)
            self._follow(entry, outcome)
            self._doomed |= outcome.gone
        self._remove_strays()
        try:
            self._flush()
            self._erase_doomed()  # a crash came between the commit of a forget and the erasure
        except ServiceError as error:
            if error.status != 507:  # a full disk can be read from; quiet moments try again
                raise

    def check(self) -> None:
        """What opening does not look at, because we wrote it, and a file that somebody gave us may have wrong."""
        model = self.facts.get("model")
        if not isinstance(model, dict) or not isinstance(model.get("parameters", {}), dict):
            raise unusable("facts.model must be an object with parameters. Export again.")
        if self.snapshot is not None:
            check_state(json.loads(self.snapshot.state), self.snapshot.seq, self.identities.next_id)
        nodes, width = np.array(self.store.member_nodes(), np.int64), self.identities.n_features
        if len(nodes):
            if not self.identities.is_links:
                raise unusable("Only Links keeps vectors; there are some of another model. Export again.")
            self.identities.model.labels_now(nodes)  # refuses numbers of sub-clusters that were never given
        if any(n_bytes != np.dtype(dtype).itemsize * (width or 0) for dtype, n_bytes in self.store.member_forms()):
            raise unusable(f"Kept vectors must have {width} columns. Export again.")

    def _remove_strays(self) -> None:
        """Snapshots that no log names, whole or not: their writer was killed."""
        for path in (*self.folder.glob("snapshot-*"), *self.folder.glob(".snapshot-*")):
            if self.snapshot is None or path.name != self.snapshot.file:
                path.unlink(missing_ok=True)

    # --------------------------------------------------------------------------------------------- asking

    def ask(self, operation: Operation, key: str | None = None) -> Future[Outcome]:
        """Let the writer do an operation; the future has its outcome once it is on disk.

        A key that was used before gives the outcome it had then, for the same operation.
        """
        with self._lock:
            self._refuse_where_needed(key)
            if key is not None:
                if key in self._running:
                    _hold_against(self._running[key].digest(), operation.digest(), key)
                    raise _at_work(key)
                self._running[key] = operation
            self._n_waiting += 1
            answered: Future[Outcome] = Future()
            answered.set_running_or_notify_cancel()  # who does not wait any more cannot take it from the writer
            self._queue.put(_Asked(operation, key, answered))  # under the lock: nothing comes after the end
        return answered

    def _refuse_where_needed(self, key: str | None) -> None:
        self._refuse_when_closed()
        self._refuse_when_broken()
        if self._n_waiting >= self.limits.max_queue:
            raise ServiceError(429, f"{self._n_waiting} requests wait for '{self.name}' already. Try again.", retry=1)
        if self._free_bytes() < self.limits.min_free_bytes and (key is None or self.store.answered(key) is None):
            raise _nearly_full()  # what a key was answered before is answered again: nothing is written

    def _refuse_when_broken(self) -> None:
        if self.broken is not None:
            raise ServiceError(503, f"The collection '{self.name}' stopped: {self.broken}. Restart the server.")

    def _refuse_when_closed(self) -> None:
        if self.is_closed:
            raise ServiceError(503, f"The collection '{self.name}' is closed: it was deleted, or the server ends.")

    def _free_bytes(self) -> int:
        """What the disk has left, as of the last quarter of a second."""
        now = time.monotonic()
        if now - self._looked[0] > _IDLE_SECONDS:
            self._looked = now, shutil.disk_usage(self.folder).free
        return self._looked[1]

    def _known(self, key: str, digest: bytes) -> Outcome | None:
        """What a key was answered before."""
        waiting = self._answers.get(key)
        stored = self.store.answered_here(key)
        if stored is None:
            return None
        _hold_against(stored.digest, digest, key)
        status, body = (waiting.status, waiting.body) if waiting is not None else (stored.status, stored.body)
        if status is None or body is None:
            raise _at_work(key)
        return Outcome(status, json.loads(body))

    def do(self, operation: Operation, key: str | None = None) -> Outcome:
        """`ask`, and wait."""
        return self.ask(operation, key).result()

    def between(self, work: Callable[[], Any]) -> Any:
        """Let the writer do something while nothing changes, and wait for it."""
        answered: Future[Any] = Future()
        answered.set_running_or_notify_cancel()
        with self._lock:
            self._refuse_when_closed()
            self._queue.put(_Task(work, answered))
        return answered.result()

    @property
    def n_waiting(self) -> int:
        """Requests that are not answered yet."""
        return self._n_waiting

    # -------------------------------------------------------------------------------------------- the writer

    def _work(self) -> None:
        while True:
            is_behind = self._followed or self._doomed or self.store.is_behind
            try:
                with contextlib.suppress(queue.Empty):
                    first = self._queue.get(timeout=_IDLE_SECONDS if is_behind else None)
                    if first is None:
                        return
                    self._take_turn(first)
                    continue
                self._flush_quietly()
            except Exception as error:  # without a writer nobody would ever be answered again
                self._stop([], error)

    def _take_turn(self, first: _Asked | _Written | _Unwritten | _Task) -> None:
        group, others = self._grouped(first)
        if group:
            try:
                self._do_group(group)
            except Exception as error:  # of SQLite, say: what is on disk is not known, and a restart tells
                self._stop(group, error)
        for other in others:
            if isinstance(other, _Task):
                _settle(other.answered, other.work)
            else:
                self._adopt_snapshot(other)
        if self.broken is not None:
            return
        self._snapshot_if_due()
        self._renumber_if_due()
        if (self._doomed or self.store.is_uncut) and time.monotonic() - self._tried > _IDLE_SECONDS:
            self._finish_erasures()  # under load there is no quiet moment

    def _grouped(self, first: Any) -> tuple[list[_Asked], list[_Written | _Unwritten | _Task]]:
        """All that waits, up to what ends a group."""
        group: list[_Asked] = []
        others: list[_Written | _Unwritten | _Task] = []
        taken: Any = first
        while True:
            if taken is None:
                self._queue.put(None)
                break
            if not isinstance(taken, _Asked):
                others.append(taken)
                break
            group.append(taken)
            # attachments are held against the state before they are written, and nothing follows an erasure
            if taken.operation.kind in (META, THUMBNAIL, FORGET) or len(group) >= _MOST_GROUPED:
                break
            try:
                taken = self._queue.get_nowait()
            except queue.Empty:
                break
        return group, others

    def _do_group(self, group: list[_Asked]) -> None:
        if self.broken is not None:
            self._fail(group, ServiceError(503, f"The collection '{self.name}' stopped. Restart the server."))
            return
        group = [asked for asked in map(self._looked_at, group) if asked is not None]
        if not group:
            return
        first, now = self.identities.seq + 1, time.time()
        entries = [
            Entry(first + place, now, asked.operation, asked.key, asked.digest) for place, asked in enumerate(group)
        ]
        started = time.perf_counter()
        try:
            self.store.append(entries, self._followed)
        except ServiceError as error:
            self._fail(group, error)
            return
        self.commits.append(time.perf_counter() - started)
        self._wrote_followed()
        refused: ServiceError | None = None
        try:
            outcomes = self.identities.apply_all([(entry.seq, entry.at, entry.operation) for entry in entries])
            for entry, outcome in zip(entries, outcomes, strict=True):
                self._follow(entry, outcome)
            gone = frozenset().union(*(outcome.gone for outcome in outcomes))
            if gone:
                self._epoch += 1  # a snapshot that is being written has them
                self._doomed |= gone
                try:
                    self._flush()
                    self._erase_doomed()
                except ServiceError as error:
                    if error.status != 507:
                        raise
                    refused = error
        except BaseException as error:
            self._stop(group, error)
            return
        for asked, outcome in zip(group, outcomes, strict=True):
            if refused is not None and outcome.gone:
                self._fail([asked], refused)
            else:
                self._answer(asked, outcome)
        self.ring()

    def _stop(self, group: list[_Asked], error: BaseException) -> None:
        """Take nothing more, and leave nobody of a group waiting."""
        self.broken = error
        sentence = f"The collection '{self.name}' stopped: {error}. Restart the server."
        self._fail([asked for asked in group if not asked.answered.done()], ServiceError(503, sentence))

    def _looked_at(self, asked: _Asked) -> _Asked | None:
        """A request as it is written; None where its key was answered before, or it is refused."""
        operation, key = asked.operation, asked.key
        try:
            if operation.kind == FORGET:
                self._erase_doomed()  # the key of an erasure that found no room is answered once that is done
                refuse_when_full(self.folder, self.limits.min_free_bytes, self._erasure_bytes())
            if key is not None:
                asked = asked._replace(digest=operation.digest())
                known = self._known(key, asked.digest)
                if known is not None:
                    self._answer(asked, known)
                    return None
            if operation.kind in (META, THUMBNAIL):  # attached to an id that there is
                fields = {**operation.fields, "id": self.identities.alive(operation.fields["id"])}
                asked = asked._replace(operation=replace(operation, fields=fields))
            if operation.kind == SPLIT and "rows_out" in operation.fields:
                self._flush()  # kept vectors of the last group are written now
                asked = asked._replace(operation=self.identities.with_kept(operation))
        except ServiceError as error:
            self._fail([asked], error)
            return None
        return asked

    def _follow(self, entry: Entry, outcome: Outcome) -> None:
        """Note what followed from an operation."""
        followed = Followed(
            entry.seq,
            entry.key,
            outcome.status,
            json.dumps(outcome.answer) if entry.key is not None else "",
            outcome.events,
            outcome.members,
        )
        if entry.key is not None or outcome.events or outcome.members:
            self._followed.append(followed)
        if entry.key is not None:
            self._answers[entry.key] = followed
        self.recent.extend(outcome.events)
        self._n_operations += 1
        if entry.operation.kind == ADD and entry.operation.rows is not None:
            self._n_since += len(entry.operation.rows)

    def _answer(self, asked: _Asked, outcome: Outcome) -> None:
        with self._lock:
            self._n_waiting -= 1
            if asked.key is not None:
                self._running.pop(asked.key, None)
        asked.answered.set_result(outcome)

    def _fail(self, group: Sequence[_Asked], error: ServiceError) -> None:
        with self._lock:
            self._n_waiting -= len(group)
            for asked in group:
                if asked.key is not None:
                    self._running.pop(asked.key, None)
        for asked in group:
            asked.answered.set_exception(error)

    def ring(self) -> None:
        """Tell listeners that there is something."""
        for listener in tuple(self.listeners):
            listener()

    def _flush(self) -> None:
        self.store.follow(self._followed)
        self._wrote_followed()

    def _flush_quietly(self) -> None:
        """What followed can be made again, so a disk that is full is no loss here."""
        with contextlib.suppress(ServiceError):
            self._flush()
            while self._queue.empty() and self.store.drop_some():
                pass
            self.store.checkpoint()
            self._finish_erasures()

    def _wrote_followed(self) -> None:
        self._followed = []
        self._answers.clear()
        while len(self.recent) > _MOST_RECENT:
            self.recent.popleft()

    # ------------------------------------------------------------------------------------------- snapshots

    def _snapshot_if_due(self) -> None:
        is_due = self._n_since >= self.limits.snapshot_vectors or self._n_operations >= self.limits.snapshot_operations
        if not is_due or self._is_writing_snapshot or self._doomed:
            return
        self._n_since = self._n_operations = 0
        # where it cannot be written the log goes on, and another is tried when that is as long again
        with contextlib.suppress(ServiceError, MemoryError, RuntimeError):  # the last: no thread to be had
            refuse_when_full(self.folder, self.limits.min_free_bytes, self._model_bytes())
            seq, state = self.identities.seq, self.identities.state()
            model = copy.copy(self.identities.model) if self.identities.is_fitted else None
            aside = threading.Thread(
                target=self._write_aside,
                args=(seq, state, model, self._epoch),
                name=f"snapshot of {self.name}",
                daemon=True,
            )
            aside.start()
            self._aside, self._is_writing_snapshot = aside, True

    def _write_aside(self, seq: int, state: dict[str, Any], model: Any, epoch: int) -> None:
        try:
            found: _Written | _Unwritten = _Written(self._written(seq, state, model), epoch)
        except Exception:
            found = _Unwritten()
        self._queue.put(found)

    def _model_bytes(self) -> int:
        """What a snapshot takes, about."""
        own = vars(self.identities.model)
        return 2 * sum(value.nbytes for name, value in own.items() if isinstance(value, np.ndarray) and name[0] != "_")

    def _erasure_bytes(self) -> int:
        """What an erasure takes, about: a snapshot, and the log that it replaces overwritten."""
        return self._model_bytes() + 8 * self._n_since * (self.identities.n_features or 0)

    def _written(self, seq: int, state: dict[str, Any], model: Any) -> Snapshot:
        """A snapshot whose file is on disk, and which no log names yet."""
        if model is None:
            return Snapshot(seq, "", "", in_pieces(state))
        content = model_bytes(model)
        name = f"snapshot-{seq}.safetensors"
        with whole_file(self.folder / name) as stream:
            stream.write(content)
        return Snapshot(seq, name, hashlib.sha256(content).hexdigest(), in_pieces(state))

    def _adopt_snapshot(self, written: _Written | _Unwritten) -> None:
        self._is_writing_snapshot = False
        if isinstance(written, _Unwritten):
            return
        if written.epoch != self._epoch:  # somebody was forgotten since: the file still has them
            self._drop_file(written.snapshot, self.snapshot)  # one that was asked for may have the same place and name
            return
        try:
            self._flush()
            self.store.keep_snapshot(written.snapshot, drops_log=False)
        except ServiceError:
            self._drop_file(written.snapshot, self.snapshot)  # a full disk is none the fuller for it
            return
        self._drop_file(self.snapshot, written.snapshot)
        self.snapshot = written.snapshot

    def _drop_file(self, snapshot: Snapshot | None, kept: Snapshot | None = None) -> None:
        if snapshot is not None and snapshot.file and (kept is None or snapshot.file != kept.file):
            with contextlib.suppress(OSError):  # the next start removes it
                (self.folder / snapshot.file).unlink(missing_ok=True)

    def take_snapshot(self) -> Snapshot:
        """Write a snapshot now; the log before it goes."""
        refuse_when_full(self.folder, self.limits.min_free_bytes)
        taken: Snapshot = self.between(self._snapshot_now)
        return taken

    def _snapshot_now(self) -> Snapshot:
        self._refuse_when_broken()  # what is in memory may be half of an operation, and the log is whole
        self._flush()
        self._erase_doomed()
        snapshot = self._written_now()
        self._epoch += 1
        try:
            self.store.keep_snapshot(snapshot)
        except ServiceError:
            self._drop_file(snapshot, self.snapshot)
            raise
        self._drop_file(self.snapshot, snapshot)
        self.snapshot = snapshot
        self._n_since = self._n_operations = 0
        return snapshot

    def _written_now(self) -> Snapshot:
        model = self.identities.model if self.identities.is_fitted else None
        try:
            return self._written(self.identities.seq, self.identities.state(), model)
        except OSError as error:
            raise refusal_of(error) from error

    def _finish_erasures(self) -> None:
        """What could not be erased, for want of room or because somebody read, is tried again."""
        if self.broken is not None:
            return
        self._tried = time.monotonic()
        with contextlib.suppress(ServiceError):
            self._erase_doomed()
        if self.store.is_uncut:
            self.store.checkpoint()

    def _erase_doomed(self) -> None:
        if not self._doomed:
            return
        try:
            refuse_when_full(self.folder, self.limits.min_free_bytes, self._erasure_bytes())
            self._flush()
            self._erase(set(self._doomed))
        except ServiceError as error:
            if error.status != 507:
                raise
            raise ServiceError(507, "The disk is nearly full: who was forgotten is gone from answers, and is erased "
                                    "from files when there is room. Make room, and ask again.") from error  # fmt: skip
        self._doomed = set()

    def _renumber_if_due(self) -> None:
        """Kept vectors go by sub-clusters that there are, before the model forgets what became of the others."""
        if not self.identities.store_members or self.identities.n_rows - self._n_renumbered < _RENUMBERED:
            return
        self._n_renumbered = self.identities.n_rows
        with contextlib.suppress(ServiceError):
            self._flush()
            nodes = np.array(self.store.member_nodes(), np.int64)
            now = nodes_now(self.identities.model, nodes)
            moved = (now >= 0) & (now != nodes)
            self.store.renumber_members(zip(now[moved].tolist(), nodes[moved].tolist(), strict=True))

    def _erase(self, gone: set[int]) -> None:
        """Nothing of these ids is left: a fresh snapshot in place of log and files, other tables cleaned."""
        self._epoch += 1
        model = self.identities.model
        snapshot = self._written_now()
        nodes = np.array(self.store.member_nodes(), np.int64)
        lost = nodes[model.labels_now(nodes) < 0] if len(nodes) else nodes
        self.store.erase(snapshot, gone, lost.tolist())
        self._drop_file(self.snapshot, snapshot)
        self.snapshot = snapshot
        self._n_since = self._n_operations = 0
        self.recent = deque(_nameless(event) if {event.id, event.other} & gone else event for event in self.recent)
        sync_to_disk(self.folder)

    # --------------------------------------------------------------------------------------------- reading

    def events(self, since: int, most: int = 1000) -> list[Event]:
        """Events after number `since`, oldest first."""
        recent = list(self.recent)
        if recent and recent[0].number <= since + 1:
            return [event for event in recent if event.number > since][:most]
        stored = self.store.events(since, most)
        last = stored[-1].number if stored else since
        return (stored + [event for event in recent if event.number > last])[:most]

    def lookup(self, rows: Rows, margin: float | None = None, frames: Sequence[str] | None = None) -> Int64Array:
        """The id of each vector, -1 for unknown ones. Learns nothing.

        Vectors with equal `frames` are different identities: none gets the id of an earlier one of its frame here.
        """
        model = self.identities.model
        if not self.identities.is_links and (margin is not None or frames is not None):
            raise ServiceError(
                422, f"frame and margin need a collection of Links; this is one of {type(model).__name__}."
            )
        if not self.identities.is_fitted:
            return np.full(len(rows), -1)
        if self.identities.is_links:
            # vectors that come wait for one stretch of it, not for all
            n_rows = max(1, _STRETCH // (model.n_subclusters_ * rows.shape[1] or 1))
            parts = [
                model.predict(rows[start : start + n_rows], margin=margin) for start in range(0, len(rows), n_rows)
            ]
            ids = np.concatenate(parts).astype(np.int64, copy=False)
            return ids if frames is None else self._told_apart(rows, ids, frames)
        reject = {"reject": True} if self.identities.is_learning else {}
        return np.asarray(model.predict(rows, **reject), np.int64)

    def _told_apart(self, rows: Rows, ids: Int64Array, frames: Sequence[str]) -> Int64Array:
        """The same with the next best id, or -1, where an earlier vector of the frame has the best."""
        seen: dict[str, set[int]] = {}
        for row, frame in enumerate(frames):
            taken = seen.setdefault(frame, set())
            if ids[row] in taken:
                others = self.identities.model.alternatives(rows[row].astype(np.float64), len(taken) + 1)
                free = [one for one in others if one.id not in taken]
                ids[row] = free[0].id if free and free[0].margin >= 0.0 else -1
            if ids[row] >= 0:
                taken.add(int(ids[row]))
        return ids

    # --------------------------------------------------------------------------------------------- bundles

    def export_to(self, path: Path) -> None:
        """Everything in one file, while work goes on."""
        self._export(path, lambda: None)

    def _export(self, path: Path, also: Callable[[], None]) -> None:
        """The same; `also` is done by the writer at the moment that the file is of."""
        self._refuse_copies()
        with self.passing() as folder, contextlib.ExitStack() as until_done:

            def seen() -> Seen:
                self._flush()
                also()
                found = self.store.seen_now()
                until_done.callback(found.close)
                if found.snapshot is not None and found.snapshot.file:
                    # the writer may put another in its place, and remove it, before it was copied
                    _link(self.folder / found.snapshot.file, folder / found.snapshot.file)
                return found

            found: Seen = self.between(seen)
            snapshot = "" if found.snapshot is None else found.snapshot.file
            try:
                found.copy_to(folder / LOG)
                with whole_file(folder / "whole") as stream, zipfile.ZipFile(stream, "w") as bundle:  # not compressed
                    for name in filter(None, (LOG, snapshot)):
                        bundle.write(folder / name, name)
                os.replace(folder / "whole", path)
            except (OSError, ServiceError) as error:
                self._refuse_when_closed()  # deleted meanwhile: its files are gone, and the disk is well
                raise (refusal_of(error) if isinstance(error, OSError) else error) from error
            sync_to_disk(path.parent)

    @contextlib.contextmanager
    def passing(self) -> Iterator[Path]:
        """A folder for files of one request; it goes with its end, or at the next start."""
        self._refuse_when_closed()
        (self.folder / PASSING).mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(dir=self.folder / PASSING, ignore_cleanup_errors=True) as folder:
            yield Path(folder)

    def _refuse_copies(self) -> None:
        """A copy is written twice: the log beside, then both in one file."""
        snapshot = self.snapshot
        file = None if snapshot is None or not snapshot.file else self.folder / snapshot.file
        with contextlib.suppress(OSError):
            n_bytes = 2 * self.store.n_bytes() + (0 if file is None else file.stat().st_size)
            refuse_when_full(self.folder, self.limits.min_free_bytes, n_bytes)

    def back_up(self) -> Path:
        """A bundle in the folder of backups."""
        self._refuse_when_closed()
        folder = self.folder / BACKUPS
        folder.mkdir(exist_ok=True)
        stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
        path = folder / f"{self.name}-{stamp}-{self.identities.seq}-{secrets.token_hex(4)}.armillary"
        self._backing_up.add(path.name)
        try:
            # noted before there is a file: whoever is forgotten meanwhile must hear of it
            self._export(path, lambda: self.store.keep_backup(path.name, self.identities.next_id))
        finally:
            self._backing_up.discard(path.name)
        return path

    def backups_holding(self, ids: Sequence[int]) -> list[str]:
        """Backups here from when one of these ids, or one that they were split off from, was already given."""
        oldest = min(self.store.origins(ids))
        return [file for file, _, next_id in self.store.backups() if next_id > oldest and self._is_there(file)]

    def _is_there(self, file: str) -> bool:
        return file in self._backing_up or (self.folder / BACKUPS / file).exists()

    # ------------------------------------------------------------------------------------------------- end

    def close(self) -> None:
        """Finish what waits, write what followed, and let go of the lock; what comes later is refused."""
        with self._lock:
            self.is_closed = True
            self._queue.put(None)
        self._writer.join()
        if self._aside is not None:
            self._aside.join()
        while not self._queue.empty():
            left = self._queue.get_nowait()
            if isinstance(left, _Written | _Unwritten):
                self._adopt_snapshot(left)
        try:
            self._flush_quietly()
        finally:
            self._held.close()
            self.ring()  # who listens hears the end


def in_pieces(state: dict[str, Any]) -> str:
    """`json.dumps` of a state in pieces: one call for 100,000 frames holds up all other threads for 0.15 s."""

    def told(value: Any) -> str:
        if not isinstance(value, list) or not value:
            return json.dumps(value)
        starts = range(0, len(value), _PIECE)
        return f"[{', '.join(json.dumps(value[start : start + _PIECE])[1:-1] for start in starts)}]"

    return f"{{{', '.join(f'{json.dumps(name)}: {told(value)}' for name, value in state.items())}}}"


def refuse_when_full(folder: Path, min_free_bytes: int, n_bytes: int = 0) -> None:
    """A sentence where the disk would be nearly full with so many bytes more."""
    if shutil.disk_usage(folder).free - n_bytes < min_free_bytes:
        raise _nearly_full()


def _nearly_full() -> ServiceError:
    return ServiceError(507, "The disk is nearly full; nothing is written, and reading goes on. Make room.")


def _link(source: Path, target: Path) -> None:
    """The same file under a second name, or a copy where there are no such names."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)


def unpacked(bundle: Path, folder: Path) -> None:
    """A bundle as the folder of a collection; sizes and names are held against what export writes."""
    try:
        with zipfile.ZipFile(bundle) as packed:
            names = packed.namelist()
            files = [name for name in names if name != LOG]
            is_ours = LOG in names and len(names) <= 2 and len(set(names)) == len(names)
            if not is_ours or any(not _is_snapshot(name) for name in files):
                raise ServiceError(422, "The file must be one that export wrote; it holds something else.")
            if any(info.compress_type != zipfile.ZIP_STORED for info in packed.infolist()):
                raise ServiceError(422, "The file must be one that export wrote; it is compressed.")
            for name in names:
                with packed.open(name) as source, open(folder / f"{name}.new", "wb") as target:
                    shutil.copyfileobj(source, target)
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError) as error:
        raise ServiceError(422, f"The file must be one that export wrote; it cannot be read: {error}.") from None
    copied_rows(folder / f"{LOG}.new", folder / LOG)
    os.unlink(folder / f"{LOG}.new")
    for name in files:
        os.replace(folder / f"{name}.new", folder / name)
    store = Store(folder / LOG)
    try:
        snapshot = store.snapshot()
    finally:
        store.close()
    if [snapshot.file] * bool(snapshot and snapshot.file) != files if snapshot else files:
        raise absent("The snapshot that the log builds upon", "Export again.")


def _is_snapshot(name: str) -> bool:
    return name.startswith("snapshot-") and name[9:].removesuffix(".safetensors").isdigit()


def _hold_against(known: bytes, digest: bytes, key: str) -> None:
    if known != digest:
        raise ServiceError(422, f"The key {key!r} was used for another request. Take a new key for a new request.")


def _at_work(key: str) -> ServiceError:
    return ServiceError(409, f"A request under the key {key!r} is at work. Ask again in a moment.", retry=1)


def _nameless(event: Event) -> Event:
    return Event(event.number, event.at, event.kind, event.id, event.other, event.operation)


def _settle(answered: Future[Any], work: Callable[[], Any]) -> None:
    try:
        answered.set_result(work())
    except BaseException as error:
        answered.set_exception(error)
