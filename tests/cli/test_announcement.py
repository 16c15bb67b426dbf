"""A first run compiles: the command line says so once, also where nobody watches a terminal."""

from __future__ import annotations

import logging
from types import SimpleNamespace

import pytest

from armillary.cli.screen import Screen
from armillary.kernels import jit

SENTENCE = "Compiling the kernels for this kind of rows: a few seconds, once per machine.\n"


def compile_of(module):
    function = SimpleNamespace(__module__=module)
    jit.announcer.on_start(SimpleNamespace(data={"dispatcher": SimpleNamespace(py_func=function)}))


@pytest.fixture(autouse=True)
def _has_not_spoken(monkeypatch):
    monkeypatch.setattr(jit.announcer, "has_spoken", False)


def test_it_is_said_once_to_a_standard_error_that_is_no_terminal(capfd):
    screen = Screen()
    for _ in range(2):
        with screen.heard():
            compile_of("armillary.kernels.rows.dense")
            compile_of("armillary.kernels.rows.choose")
    assert capfd.readouterr() == ("", SENTENCE)


def test_nothing_is_said_where_quiet_is_asked_for_or_somebody_else_compiles(capfd):
    with Screen(quiet=True).heard():
        compile_of("armillary.kernels.rows.dense")
    with Screen().heard():
        compile_of("somebody.else")
    assert capfd.readouterr() == ("", "")


def test_a_bar_says_it_itself(monkeypatch, capfd):
    monkeypatch.setattr(Screen, "shows_progress", True)
    with Screen().heard():
        compile_of("armillary.kernels.rows.dense")
    assert capfd.readouterr() == ("", "")


def test_the_logger_is_left_as_it_was():
    logger = logging.getLogger("armillary.kernels")
    before = (logger.level, list(logger.handlers))
    with Screen().heard():
        assert (logger.level, list(logger.handlers)) != before
    assert (logger.level, list(logger.handlers)) == before


def test_a_program_hears_it_by_logging(caplog):
    with caplog.at_level(logging.INFO, "armillary"):
        compile_of("armillary.kernels.rows.dense")
    said = [(record.name, record.getMessage()) for record in caplog.records]
    assert said == [("armillary.kernels", SENTENCE.strip())]
