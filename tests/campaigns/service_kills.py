"""A collection of the service killed by signal 9 at its writes, and at any moment; recoveries are killed too.

A library between the process and its files (tests/service/killing.c) counts writes, fsyncs, truncations, renames and
removals below the folder, and kills right before, right after or in the middle of one of them. Each trial draws vectors
with and without frames, corrections, splits by rows, undos, attachments, erasures, snapshots, backups, exports and
imports, kills some times, and finishes. Then all of it is held against a fold of the same operations without a store:

- every answer, before and after kills, and once more under its key; ids of vectors also against the library
- the model, to the bit, names, what can be undone, kept vectors, attachments, events
- files: none that nobody names, in none a vector of somebody forgotten, and every backup opens as what was at its time
- collections: those that were made, whole, and none that is half made

0 answers may be lost, repeated or changed.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
import signal
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from tests.campaigns.campaign import main
from tests.service.running import shim

from armillary import Links
from armillary.datasets import make_vmf_mixture
from armillary.service.collection import BACKUPS, LOG, Collection, Limits
from armillary.service.house import House
from armillary.service.identities import Identities
from armillary.service.operations import (
    ADD,
    CANNOT_LINK,
    FORGET,
    MERGE,
    META,
    MUST_LINK,
    NAME,
    SPLIT,
    THUMBNAIL,
    UNDO,
    Member,
    Operation,
)
from armillary.service.store import Store

_MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None  # what the system has is there after kill -9, disk or not
_MOST_PLACES = 240
_MOST_KILLS = 8
_PNG = b"\x89PNG\r\n\x1a\n"  # what an image begins with; nobody looks further here
SNAPSHOT, BACKUP, EXPORT, IMPORT = "snapshot", "backup", "export", "import"  # what is asked for beside operations
Step = Operation | str


# ------------------------------------------------------------------------------------------------------------- a plan


@dataclass
class Fold:
    """What a collection must come to: the state without a store, and what the store must hold beside it."""

    parameters: dict[str, Any]
    store_members: bool
    steps: list[Step] = field(default_factory=list)
    answers: list[dict[str, Any]] = field(default_factory=list)  # one for each step
    members: dict[int, Member] = field(default_factory=dict)
    events: list[list[Any]] = field(default_factory=list)
    attached: dict[tuple[str, int], Any] = field(default_factory=dict)
    twins: dict[str, int] = field(default_factory=dict)  # imported collections, and the operation that each is of
    gone: set[int] = field(default_factory=set)
    gone_vectors: list[bytes] = field(default_factory=list)
    digests: list[str] = field(default_factory=list)  # of the state after each operation

    def __post_init__(self) -> None:
        self.state = Identities(Links(**self.parameters), store_members=self.store_members, members=self._kept)
        self.digests.append(digest(self.state))

    def do(self, step: Step) -> None:
        """One step, as the collection must do it."""
        self.steps.append(step)
        if isinstance(step, str):
            self.answers.append({})
            if step == IMPORT:
                self.twins[f"twin-{len(self.steps) - 1}"] = self.state.seq
            return
        operation = self.state.with_kept(step) if "rows_out" in step.fields else step
        outcome = self.state.apply(self.state.seq + 1, 0.0, operation)
        self.answers.append(outcome.answer)
        self.members.update({one.row: one for one in outcome.members})
        self.events += [[one.number, one.kind, one.id, one.other, one.operation, one.name] for one in outcome.events]
        if step.kind in (META, THUMBNAIL):
            self.attached[step.kind, step.fields["id"]] = step.fields.get("meta", step.attached)
        if outcome.gone:
            self._lose(set(outcome.gone))
        self.digests.append(digest(self.state))

    def _kept(self, rows: list[int]) -> list[tuple[int, int, str, bytes]]:
        found = [self.members[row] for row in rows]
        return [(one.row, one.node, str(one.vector.dtype), one.vector.tobytes()) for one in found]

    def _lose(self, gone: set[int]) -> None:
        self.gone |= gone
        self.attached = {place: value for place, value in self.attached.items() if place[1] not in gone}
        for row in [row for row, one in self.members.items() if self.state.model.labels_now([one.node])[0] < 0]:
            self.gone_vectors.append(self.members.pop(row).vector.tobytes())
        if not self.store_members:  # the log was all that had vectors
            self.gone_vectors = [row.tobytes() for step in self.steps if _rows(step) is not None for row in _rows(step)]

    def rows_of(self, number: int) -> list[int]:
        """Vectors that are kept of an id."""
        nodes = [one.node for one in self.members.values()]
        if not nodes:
            return []
        return [row for row, now in zip(self.members, self.state.model.labels_now(nodes), strict=True) if now == number]

    def scrubbed(self, answer: dict[str, Any]) -> dict[str, Any]:
        """An answer as its key must give it again when all is done."""
        if "ids" in answer and answer.get("id") in answer["ids"]:
            return answer  # of an erasure
        found = dict(answer)
        for name in ("id", "part"):
            if found.get(name) in self.gone:
                found[name] = -1
        if "ids" in found:
            found["ids"] = [-1 if number in self.gone else number for number in found["ids"]]
        if found.get("id") == -1:
            found.pop("name", None)
        return found


def _rows(step: Step) -> Any:
    return step.rows if isinstance(step, Operation) and step.kind == ADD else None


def digest(state: Identities) -> str:
    """The whole state, to the bit."""
    found = hashlib.sha256(json.dumps([state.state(), sorted(state.names.items())]).encode())
    if state.is_fitted:
        model = state.model
        for values in (model.resultants_, model.counts_, model.subcluster_ids_, model.subcluster_parents_):
            found.update(np.ascontiguousarray(values).tobytes())
        found.update(np.ascontiguousarray(model.history_[:, 1:]).tobytes())
        found.update(np.ascontiguousarray(model._apart).tobytes())
    return found.hexdigest()


def drawn(generator: np.random.Generator) -> Fold:
    """Vectors, and in most of the trials all that people do to ids between them."""
    X, _, _ = make_vmf_mixture(
        60, 16, 4, concentration=60.0, min_angle=0.9, random_state=int(generator.integers(1 << 30))
    )
    rows = X.astype(np.float32)
    parameters = [{}, {"subcluster_similarity_threshold": 0.93}, {"max_idle": 20}, {"merge_clusters": "whole"}]
    fold = Fold(parameters[int(generator.integers(4))], bool(generator.random() < 0.6))
    has_corrections = generator.random() < 0.8
    start = 0
    while start < len(rows):
        stop = min(start + int(generator.integers(1, 8)), len(rows))
        fields: dict[str, Any] = {}
        if has_corrections and generator.random() < 0.2:
            fields = {"frames": [f"photo {one}" for one in generator.integers(0, 9, stop - start)]}
        if has_corrections and generator.random() < 0.1:
            fields["margin"] = 0.1
        fold.do(Operation(ADD, fields, rows[start:stop]))
        start = stop
        while has_corrections and generator.random() < 0.45:
            fold.do(correction(generator, fold))
    return fold


def correction(generator: np.random.Generator, fold: Fold) -> Step:
    """Something that somebody may ask for now; also what will be refused."""
    one, other = (int(number) for number in generator.integers(0, fold.state.next_id, 2))
    (now,) = fold.state.current([one])
    kept = fold.rows_of(now) if fold.store_members and now >= 0 else []
    undoable = list(fold.state.undoable) or [1]
    choices: list[Step] = [
        Operation(NAME, {"id": one, "name": f"name {other} of {one}"}),
        Operation(MERGE, {"one": one, "other": other}),
        Operation(MUST_LINK, {"one": one, "other": other}),
        Operation(CANNOT_LINK, {"one": one, "other": other}),
        Operation(SPLIT, {"id": one}),
        Operation(UNDO, {"operation": int(generator.choice(undoable))}),
        Operation(UNDO, {"operation": undoable[-1]}),
        Operation(FORGET, {"id": one}),
        *3 * [SNAPSHOT],
        BACKUP,
        EXPORT,
        IMPORT,
    ]
    if now >= 0:
        choices.append(Operation(META, {"id": now, "meta": {"note": f"note of <{now}>"}}))
        choices.append(Operation(THUMBNAIL, {"id": now}, attached=_PNG + f"note of <{now}>".encode()))
    if kept:
        leaving = generator.choice(kept, int(generator.integers(1, len(kept) + 1)), replace=False).tolist()
        choices += 3 * [Operation(SPLIT, {"id": now, "rows_out": leaving})]
    return choices[int(generator.integers(len(choices)))]


# ------------------------------------------------------------------------------------------------------------ a trial


def trial(generator: np.random.Generator) -> Counter[str]:
    """One collection, killed some times."""
    fold = drawn(generator)
    every = int(generator.integers(1, 8)) if generator.random() < 0.4 else int(generator.integers(8, 60))
    limits = Limits(snapshot_vectors=every, min_free_bytes=0)
    if all(isinstance(step, Operation) and step.kind == ADD and not step.fields for step in fold.steps):
        ids = [number for answer in fold.answers for number in answer["ids"]]
        rows = np.concatenate([_rows(step) for step in fold.steps])
        assert ids == Links(**fold.parameters).fit_predict(rows).tolist()
    with tempfile.TemporaryDirectory(prefix="service-kills-", dir=_MEMORY) as home:
        folder = Path(home, "data")
        house = House(folder, limits)
        house.create("people", {"class": "Links", "parameters": fold.parameters}, store_members=fold.store_members)
        house.close()
        known: dict[int, str] = {}
        kills: Counter[str] = Counter()
        for _ in range(int(generator.integers(1, _MOST_KILLS + 1))):
            place, moment = int(generator.integers(_MOST_PLACES)), int(generator.integers(4))
            code = run(folder, limits, fold.steps, known, place, moment, float(generator.random()))
            assert code in (0, -signal.SIGKILL), code
            kills["killed " + ("before", "torn", "after", "at any moment")[moment]] += code != 0
        assert run(folder, limits, fold.steps, known, -1, 0, 0.0) == 0
        for number, (step, answer) in enumerate(zip(fold.steps, fold.answers, strict=True)):
            assert json.loads(known[number]) == answer, (number, step, json.loads(known[number]), answer)
        check_again(folder, limits, fold)
    asked = Counter(f"asked: {step if isinstance(step, str) else step.kind}" for step in fold.steps)
    asked["asked: split by rows"] = sum("rows_out" in step.fields for step in fold.steps if isinstance(step, Operation))
    kills = Counter({word: n for word, n in (kills + asked).items() if n and not word.endswith(": add")})
    return kills | Counter({"kills": sum(n for word, n in kills.items() if word.startswith("killed")), "trials": 1})


def run(
    folder: Path, limits: Limits, steps: list[Step], known: dict[int, str], place: int, moment: int, wait: float
) -> int:
    """Do what is not answered yet in a process that may be killed; what it answered is added to `known`."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.close(reading)
        _work(folder, limits, steps, set(known), writing, place if moment < 3 else -1, moment)
    os.close(writing)
    if moment == 3 and place >= 0:
        time.sleep(0.25 * wait)
        os.kill(child, signal.SIGKILL)
    with os.fdopen(reading, "r") as answers:
        for line in answers:
            number, _, answer = line.rstrip("\n").partition(" ")
            if answer.endswith("}"):  # a line that the kill cut is no answer
                assert known.setdefault(int(number), answer) == answer
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _work(
    folder: Path, limits: Limits, steps: list[Step], known: set[int], writing: int, place: int, moment: int
) -> None:
    code = 1
    try:
        ctypes.CDLL(None).armillary_kill_at(ctypes.c_long(place), moment, str(folder).encode())
        house = House(folder, limits)
        room = house.get("people")
        for number, step in enumerate(steps):
            if number not in known:
                answer = _done(house, room, step, number)
                os.write(writing, f"{number} {json.dumps(answer)}\n".encode())
        house.close()
        code = 0
    except BaseException:
        sys.excepthook(*sys.exc_info())
        sys.stderr.flush()
    finally:
        os._exit(code)


def _done(house: House, room: Collection, step: Step, number: int) -> dict[str, Any]:
    if isinstance(step, Operation):
        return room.do(step, f"key {number}").answer
    if step == SNAPSHOT:
        room.take_snapshot()
    elif step == BACKUP:
        room.back_up()
    else:
        with house.passing() as path:
            room.export_to(path)
            # where it was made, and killed before it could say so, its name is taken
            if step == IMPORT and f"twin-{number}" not in [other.name for other in house.rooms()]:
                house.create_from_bundle(f"twin-{number}", path)
    return {}


# ------------------------------------------------------------------------------------------------------ what is there


def check_again(folder: Path, limits: Limits, fold: Fold) -> None:
    """All that can be asked for and all that lies on the disk, held against the fold."""
    house = House(folder, limits)
    room = house.get("people")
    for number, step in enumerate(fold.steps):
        if isinstance(step, Operation):
            again, wanted = room.do(step, f"key {number}").answer, fold.scrubbed(fold.answers[number])
            assert again == wanted, (number, step, again, wanted)
    assert digest(room.identities) == fold.digests[-1], told(room.identities, fold)
    events = [[one.number, one.kind, one.id, one.other, one.operation, one.name] for one in room.events(0, 100_000)]
    nameless = [[*one[:5], None if {one[2], one[3]} & fold.gone else one[5]] for one in fold.events]
    assert events == nameless
    assert [one[0] for one in events] == list(range(1, len(events) + 1))
    room.between(room._flush)
    for row, one in fold.members.items():
        assert room.store.members([row]) == [(row, one.node, str(one.vector.dtype), one.vector.tobytes())], row
    assert set(room.store.member_nodes()) == {one.node for one in fold.members.values()}
    for number in range(fold.state.next_id):
        meta = fold.attached.get((META, number))
        assert room.store.metas([number]) == ({} if meta is None else {number: meta}), number
        assert room.store.thumbnail(number) == fold.attached.get((THUMBNAIL, number)), number
    for name, seq in fold.twins.items():
        twin = house.get(name).identities
        assert (twin.seq, digest(twin)) == (seq, fold.digests[seq]), told(twin, fold)
    house.close()
    made = {path.name for path in (folder / "collections").iterdir() if path.is_dir()}
    assert made == {"people", *fold.twins}, made
    assert not list((folder / "passing").glob("*"))
    store = Store(folder / "collections" / "people" / LOG)  # the end may have put another snapshot in place
    snapshot = store.snapshot()
    store.close()
    check_files(folder / "collections" / "people", fold, set() if snapshot is None else {snapshot.file})
    check_backups(folder, limits, fold)


def check_files(folder: Path, fold: Fold, snapshots: set[str]) -> None:
    """No file that nobody names, and nobody who was forgotten."""
    there = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    files = {name for name in there if not name.startswith(f"{BACKUPS}/")}
    assert files <= {LOG, *snapshots}, files
    assert all(name.endswith(".armillary") for name in there - files), there
    kept = {one.vector.tobytes() for one in fold.members.values()}
    contents = [(folder / name).read_bytes() for name in files]
    for vector in fold.gone_vectors:
        assert vector in kept or not any(vector in content for content in contents)
    for number in fold.gone:
        assert not any(f"note of <{number}>".encode() in content for content in contents), number


def check_backups(folder: Path, limits: Limits, fold: Fold) -> None:
    """Each opens as what was at its time."""
    house = House(folder, limits)
    files = sorted((folder / "collections" / "people" / BACKUPS).glob("*.armillary"))
    listed = {file for file, _, _ in house.get("people").store.backups()}
    for number, path in enumerate(files):
        assert path.name in listed, path.name  # whoever is forgotten hears of it
        twin = house.create_from_bundle(f"copy-{number}", path)
        assert digest(twin.identities) == fold.digests[twin.identities.seq], told(twin.identities, fold)
    house.close()


def told(found: Identities, fold: Fold) -> str:
    """How a state differs from what it must be at its place."""
    wanted = Fold(fold.parameters, fold.store_members)
    for step in fold.steps:
        if wanted.state.seq < found.seq:
            wanted.do(step)
    pairs = {name: (value, found.state()[name]) for name, value in wanted.state.state().items()}
    pairs["names"] = wanted.state.names, found.names
    if found.is_fitted:
        for name in ("subcluster_ids_", "subcluster_parents_", "counts_", "history_"):
            pairs[name] = getattr(wanted.state.model, name).tolist(), getattr(found.model, name).tolist()
    steps = [step for step in fold.steps if isinstance(step, Operation)][: found.seq]
    asked = [(step.kind, step.fields) for step in steps]
    return f"{found.seq}: {[(name, *pair) for name, pair in pairs.items() if pair[0] != pair[1]]} {asked}"


if __name__ == "__main__":
    if shim() is None:
        raise SystemExit("no compiler for tests/service/killing.c")
    if "armillary-killing" not in os.environ.get("LD_PRELOAD", ""):
        os.environ["LD_PRELOAD"] = str(shim())
        os.execv(sys.executable, [sys.executable, "-m", "tests.campaigns.service_kills", *sys.argv[1:]])
    # compiled once, before processes are forked
    warm = Fold({}, store_members=False)
    warm.do(Operation(ADD, {}, np.eye(4, dtype=np.float32)))
    main("service_kills", trial)
