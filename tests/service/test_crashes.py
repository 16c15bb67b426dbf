"""kill -9 of a real server: nothing that was answered is lost, repeated or changed. Five here, more in the campaign."""

from __future__ import annotations

import time

import pytest
from tests.service.making import people
from tests.service.running import Running, check_whole, feed, shim

from armillary.client import Client


def test_four_kills_lose_repeat_and_change_no_id(tmp_path):
    """One at any moment, three at a write, an fsync or in the middle of a write; campaigns have many more."""
    X = people(90, 4)
    acknowledged = {}
    injected = [("3", "before"), ("10", "torn"), ("21", "after")] if shim() is not None else []
    folder = tmp_path / "data"
    folder.mkdir()
    running = Running(folder, ARMILLARY_SNAPSHOT_VECTORS="20")
    assert running.wait()
    with Client(running.url) as client:
        client.create("people")
    feed(running, X[:18], acknowledged)
    running.kill()
    for place, moment in injected:
        running.start(
            LD_PRELOAD=str(shim()), KILL_AT=place, KILL_MOMENT=moment, KILL_FOLDER=str(folder / "collections")
        )
        if running.wait():
            feed(running, X[:63], acknowledged)
        running.kill()
        assert running.process.returncode == -9
    running.start()
    assert running.wait()
    feed(running, X, acknowledged)
    check_whole(running, X, acknowledged)
    assert running.end() == 0
    if not injected:
        pytest.skip("no compiler for the shim: one kill instead of four")


def test_a_server_that_is_asked_to_end_answers_what_waits_and_tells_listeners(tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    running = Running(folder)
    assert running.wait()
    X = people(20, 2)
    with Client(running.url) as client:
        room = client.create("people")
        watching = room.watch(since=0)
        room.add(X)
        assert next(watching)["kind"] == "born"
        started = time.monotonic()
        assert running.end() == 0
        assert time.monotonic() - started < 15.0
    log = (tmp_path / "data.log").read_text()
    assert '"message": "listening"' in log
    assert "Traceback" not in log
