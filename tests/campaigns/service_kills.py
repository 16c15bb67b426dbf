"""A collection of the service killed by signal 9 at its writes, and at any moment; recoveries are killed too.

A library between the process and its files (tests/service/killing.c) counts writes, fsyncs, truncations, renames and
removals below the folder, and kills right before, right after or in the middle of one of them. Each trial draws
operations under keys, kills some times, finishes, and holds every answer, before and after kills, against the fold of
the same operations without a store, and ids of vectors against the library. 0 answers may be lost, repeated or changed.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import numpy as np
from tests.campaigns.campaign import main
from tests.service.running import shim

from armillary import Links
from armillary.datasets import make_vmf_mixture
from armillary.service.collection import Limits
from armillary.service.house import House
from armillary.service.identities import Identities
from armillary.service.operations import ADD, MERGE, NAME, SPLIT, UNDO, Operation

_MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None  # what the system has is there after kill -9, disk or not
_MOST_PLACES = 160
_MOST_KILLS = 6


def trial(generator: np.random.Generator) -> Counter[str]:
    """One collection, killed some times."""
    operations = drawn(generator)
    limits = Limits(snapshot_vectors=int(generator.integers(5, 60)), min_free_bytes=0)
    expected = folded(operations)
    with tempfile.TemporaryDirectory(prefix="service-kills-", dir=_MEMORY) as home:
        folder = Path(home, "data")
        house = House(folder, limits)
        house.create("people", {"class": "Links"})
        house.close()
        known: dict[int, str] = {}
        kills: Counter[str] = Counter()
        for _ in range(int(generator.integers(1, _MOST_KILLS + 1))):
            place, moment = int(generator.integers(_MOST_PLACES)), int(generator.integers(4))
            code = run(folder, limits, operations, known, place, moment, float(generator.random()))
            assert code in (0, -signal.SIGKILL), code
            kills["killed " + ("before", "torn", "after", "at any moment")[moment]] += code != 0
        assert run(folder, limits, operations, known, -1, 0, 0.0) == 0
        assert [json.loads(known[place]) for place in range(len(operations))] == expected
        check_again(folder, limits, operations, expected)
    return Counter({word: n for word, n in kills.items() if n} | {"kills": sum(kills.values()), "trials": 1})


def drawn(generator: np.random.Generator) -> list[Operation]:
    """Adds, and in half of the trials corrections between them."""
    X, _, _ = make_vmf_mixture(
        60, 16, 4, concentration=60.0, min_angle=0.9, random_state=int(generator.integers(1 << 30))
    )
    rows = X.astype(np.float32)
    has_corrections = generator.random() < 0.5
    found, start = [], 0
    while start < len(rows):
        stop = start + int(generator.integers(1, 8))
        found.append(Operation(ADD, {}, rows[start:stop]))
        start = stop
        if has_corrections and generator.random() < 0.4:
            one, other = (int(number) for number in generator.integers(0, 4, 2))
            found.append(
                [
                    Operation(NAME, {"id": one, "name": f"name {other}"}),
                    Operation(MERGE, {"one": one, "other": other}),
                    Operation(SPLIT, {"id": one}),
                    Operation(UNDO, {"operation": len(found)}),
                ][int(generator.integers(4))]
            )
    return found


def folded(operations: list[Operation]) -> list[dict[str, object]]:
    """What they must be answered."""
    state = Identities(Links())
    answers = [state.apply(place + 1, 0.0, operation).answer for place, operation in enumerate(operations)]
    if all(operation.kind == ADD for operation in operations):
        ids = [number for answer in answers for number in answer["ids"]]
        assert ids == Links().fit_predict(np.concatenate([one.rows for one in operations])).tolist()
    return answers


def run(
    folder: Path,
    limits: Limits,
    operations: list[Operation],
    known: dict[int, str],
    place: int,
    moment: int,
    wait: float,
) -> int:
    """Do what is not answered yet in a process that may be killed; what it answered is added to `known`."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.close(reading)
        _work(folder, limits, operations, set(known), writing, place if moment < 3 else -1, moment)
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
    folder: Path, limits: Limits, operations: list[Operation], known: set[int], writing: int, place: int, moment: int
) -> None:
    code = 1
    try:
        ctypes.CDLL(None).armillary_kill_at(ctypes.c_long(place), moment, str(folder).encode())
        house = House(folder, limits)
        room = house.get("people")
        for number, operation in enumerate(operations):
            if number not in known:
                answer = room.do(operation, f"key {number}").answer
                os.write(writing, f"{number} {json.dumps(answer)}\n".encode())
        house.close()
        code = 0
    except BaseException:
        sys.excepthook(*sys.exc_info())
        sys.stderr.flush()
    finally:
        os._exit(code)


def check_again(folder: Path, limits: Limits, operations: list[Operation], expected: list[dict[str, object]]) -> None:
    """Keys give their first answers; events are numbered without a gap."""
    house = House(folder, limits)
    room = house.get("people")
    for number, operation in enumerate(operations):
        assert room.do(operation, f"key {number}").answer == expected[number]
    numbers = [event.number for event in room.events(0, 100_000)]
    assert numbers == list(range(1, len(numbers) + 1))
    house.close()


if __name__ == "__main__":
    if shim() is None:
        raise SystemExit("no compiler for tests/service/killing.c")
    if "armillary-killing" not in os.environ.get("LD_PRELOAD", ""):
        os.environ["LD_PRELOAD"] = str(shim())
        os.execv(sys.executable, [sys.executable, "-m", "tests.campaigns.service_kills", *sys.argv[1:]])
    folded([Operation(ADD, {}, np.eye(4, dtype=np.float32))])  # compiled once, before processes are forked
    main("service_kills", trial)
