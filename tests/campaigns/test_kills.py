"""A few of the kills of the campaigns `kills` and `random_kills`, the same ones in every run."""

from __future__ import annotations

import os

import pytest
from tests.campaigns import kills, random_kills
from tests.campaigns.campaign import assert_clean, run
from tests.campaigns.killed_commands import COMMANDS, Command

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="commands run in forks")

# the others are to be found in `make fuzz`
SOME = tuple(
    command
    for command in COMMANDS
    if command.name in ("stream links", "cluster over", "cluster without exchange", "curate", "save over")
)
SAVE_OVER = next(command for command in SOME if command.name == "save over")
# where a folder or a file gets its name, and what lies around that
_TELLING = ("write", "truncate", "rename", "replace", "exchange", "unlink", "rmdir")


def _some(random):
    """Two in three at operations, the others at random moments."""
    if random.random() < 0.3:
        return random_kills.suffer(SOME[random.integers(len(SOME))], random)
    telling = [kill for kill in kills.kills(SOME) if kill.operation in _TELLING]
    return kills.suffer(telling[random.integers(len(telling))])


@pytest.mark.parametrize("trials", [8, pytest.param(24, marks=pytest.mark.slow)])
def test_commands_that_are_killed(trials):
    assert_clean(run("some kills", _some, seed=0, trials=trials, patience=600.0))


def test_every_operation_of_a_save_is_seen():
    done = kills.operations(SAVE_OVER)
    assert SAVE_OVER.name == "save over"
    seen = [name for name in done if name in ("write", "fsync", "chmod", "replace")]
    assert seen == ["write", "fsync", "chmod", "replace", "fsync"]


def _in_place(random):
    command = Command("say", ("say", "n" * 100, "out"), "out", ("say", "old", "out"))
    for kill in kills.kills((command,)):
        kills.suffer(kill)
    return "whole"


def test_a_planted_command_that_writes_in_place_is_found():
    record = run("in place", _in_place, seed=0, trials=1)
    assert "neither old nor new" in record.faults[0]["what"]
