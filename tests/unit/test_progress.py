"""The display of `verbose=1`: what it says in a terminal and in a file, and that it always closes."""

from __future__ import annotations

import builtins
import copy
import io
import logging
import os
import pickle
import re
import shutil
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console
from sklearn.base import clone

import armillary
from armillary import SphericalKMeans
from armillary.exceptions import MissingExtraError
from armillary.fitting.events import Emitter, FitEvent
from armillary.fitting.progress import ProgressBar, _clock, _Pace


def terminal(width=100):
    return Console(file=io.StringIO(), force_terminal=True, width=width, color_system=None, force_jupyter=False)


def watched(bar, *, n_restarts=2, fails=False):
    """A fit of two restarts with three steps each, of which the first is kept."""
    with Emitter("SphericalKMeans", (bar,), n_rows=300_000, n_restarts=n_restarts, max_steps=300) as emitter:
        for restart in range(1, n_restarts + 1):
            for step in (1, 2, 3):
                emitter.step(restart=restart, step=step, n_clusters=7, objective=0.98172341, change=3.1e-6)
        if fails:
            raise ZeroDivisionError
        emitter.keep(restart=1, step=3, n_clusters=7, objective=0.98172341)


def picture(bar, width):
    """What the display shows now, as lines of a page beside the terminal."""
    page = Console(file=io.StringIO(), width=width, color_system=None, force_jupyter=False)
    page.print(bar._picture())
    return page.file.getvalue().rstrip("\n").split("\n")


# ------------------------------------------------------------------------------------------------------ the words


def test_without_a_terminal_only_the_last_line_is_written_to_stderr(capfd):
    watched(ProgressBar())
    out, err = capfd.readouterr()
    assert out == ""
    assert re.fullmatch(
        r"SphericalKMeans  300,000 rows  7 clusters  objective 0\.98172341  restart 1/2  step 3  \S+ s\n", err
    )


def test_one_restart_is_not_counted(capfd):
    watched(ProgressBar(), n_restarts=1)
    assert "restart" not in capfd.readouterr().err


@pytest.mark.parametrize("width", [40, 80, 100, 200])
def test_a_terminal_shows_everything_that_fits_in_two_lines(width):
    console = terminal(width)
    bar = ProgressBar(console=console)
    start = FitEvent("SphericalKMeans", "start", n_rows=300_000, n_restarts=10, max_steps=300)
    bar(start)
    try:
        step = {"kind": "step", "restart": 1, "step": 42, "n_clusters": 7, "objective": 0.98172341, "change": 3.1e-6}
        bar(replace(start, **step, seconds=4.2))
        lines = picture(bar, width)
    finally:
        bar(replace(start, kind="end"))
    assert len(lines) == 2
    assert all(len(line) <= width for line in lines)
    if width >= 80:
        first, second = lines
        assert first.startswith("SphericalKMeans  restart 1/10  step 42/300  ")
        # 0.1 s a step and at most 2,958 steps to go
        assert first.rstrip().endswith("0:04, at most 4:56 left")
        assert second.rstrip() == "300,000 rows  7 clusters  objective 0.98172341  change 3.1e-06  10.0 steps/s"


def test_the_display_gives_way_to_one_last_line():
    console = terminal()
    watched(ProgressBar(console=console))
    last = console.file.getvalue().split("\n")[-2]
    assert (
        last.lstrip("\r\x1b[]0123456789?hlKA").startswith("phericalKMeans") or "SphericalKMeans  300,000 rows" in last
    )
    assert "restart 1/2  step 3" in last


def test_times_on_the_clock():
    assert [_clock(seconds) for seconds in (0.2, 7, 59.6, 61, 3723)] == ["0:00", "0:07", "1:00", "1:01", "1:02:03"]


# ------------------------------------------------------------------------------------------------------- the pace


def test_time_left_uses_the_length_of_finished_restarts():
    start = FitEvent("M", "start", n_rows=1, n_restarts=4, max_steps=100)
    pace = _Pace(start)
    assert (pace.fraction_done, pace.seconds_left, pace.words_left) == (0.0, None, "")
    pace.take(replace(start, kind="step", restart=1, step=10, seconds=1.0))
    # 0.1 s a step; none finished, so this and three more restarts may take 100 steps each
    assert pace.fraction_done == pytest.approx(0.1 / 4)
    assert pace.seconds_left == pytest.approx(0.1 * (90 + 300))
    assert pace.words_left == ", at most 0:39 left"
    pace.take(replace(start, kind="step", restart=2, step=1, seconds=1.1))
    # the first restart took 10 steps: so may the others
    assert pace.fraction_done == pytest.approx((1 + 0.1) / 4)
    assert pace.seconds_left == pytest.approx(0.1 * (9 + 20))
    assert pace.words_left == ", about 0:03 left"
    pace.take(replace(start, kind="step", restart=2, step=30, seconds=4.0))
    # longer than expected: the bar waits at the end of its quarter
    assert pace.fraction_done == pytest.approx(2 / 4)


# ---------------------------------------------------------------------------------------------------- always closed


@pytest.mark.parametrize("fails", [False, True])
def test_the_display_always_closes(fails):
    before = set(threading.enumerate())
    console = terminal()
    bar = ProgressBar(console=console)
    if fails:
        with pytest.raises(ZeroDivisionError):
            watched(bar, fails=True)
    else:
        watched(bar)
    for thread in set(threading.enumerate()) - before:
        thread.join(timeout=10)  # told to stop, and looks once a refresh
        assert not thread.is_alive()
    assert bar._live is None
    written = console.file.getvalue()
    assert written.rindex("\x1b[?25h") > written.rindex("\x1b[?25l")  # the cursor is back
    assert ("failed after restart 2/2  step 3" in written) == fails


def test_a_fit_that_fails_before_its_first_step_says_so(capfd):
    with (
        pytest.raises(ZeroDivisionError),
        Emitter("Model", (ProgressBar(),), n_rows=5, n_restarts=1, max_steps=3),
    ):
        raise ZeroDivisionError
    assert capfd.readouterr().err.startswith("Model  5 rows  failed before its first step  ")


def test_one_bar_watches_many_fits(capfd):
    bar = ProgressBar()
    watched(bar)
    watched(bar)
    assert capfd.readouterr().err.count("\n") == 2


def test_estimators_with_a_bar_can_be_cloned_and_pickled(capfd):
    console = terminal()
    assert copy.deepcopy(ProgressBar(console=console)).console is console
    model = SphericalKMeans(2, callbacks=[ProgressBar()], random_state=0)
    clone(model).fit(np.eye(3))
    model.fit(np.eye(3))
    pickle.loads(pickle.dumps(model)).fit(np.eye(3))
    assert capfd.readouterr().err.count("SphericalKMeans  3 rows  2 clusters") == 3


def test_verbose_adds_a_bar(capfd):
    SphericalKMeans(2, random_state=0, verbose=1).fit(np.eye(3))
    out, err = capfd.readouterr()
    assert out == ""
    # a first use on this machine also says that it compiles
    assert err.splitlines()[-1].startswith("SphericalKMeans  3 rows  2 clusters  objective ")


def test_missing_rich_is_named(monkeypatch):
    def without_rich(name, *args, **kwargs):
        if name == "rich":
            raise ImportError(name)
        return real_import(name, *args, **kwargs)

    real_import = builtins.__import__
    monkeypatch.setattr(builtins, "__import__", without_rich)
    with pytest.raises(MissingExtraError) as caught:
        ProgressBar()
    assert str(caught.value) == ("verbose=1 needs rich, which is not installed. Run: pip install 'armillary[progress]'")


def test_compilation_is_announced_once_and_cached_between_processes(tmp_path):
    code = "import numpy as np, armillary; [armillary.SphericalKMeans(2, verbose=1).fit(np.eye(3)) for _ in range(2)]"
    # what lies beside the sources would be read, so they are copied without it
    shutil.copytree(
        Path(armillary.__file__).parent, tmp_path / "armillary", ignore=shutil.ignore_patterns("__pycache__")
    )
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "kernels"), "PYTHONPATH": str(tmp_path)}
    runs = [
        subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True).stderr
        for _ in range(2)
    ]
    assert runs[0].count("Compiling the kernels") == 1
    assert "Compiling" not in runs[1]


def test_news_leave_the_logger_as_it_was():
    logger = logging.getLogger("armillary")
    before = (logger.level, list(logger.handlers))
    SphericalKMeans(2, random_state=0, verbose=1).fit(np.eye(3))
    assert (logger.level, list(logger.handlers)) == before
