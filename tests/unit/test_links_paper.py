"""`papers/mansfield2018_links` runs at toy size, and its page says what was measured."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

MANSFIELD = Path(__file__).parents[2] / "papers" / "mansfield2018_links"
STATUSES = {"holds", "holds in part", "does not hold here", "not attempted", "skipped"}


@pytest.fixture(scope="module")
def toy_run(tmp_path_factory):
    output = tmp_path_factory.mktemp("mansfield2018")
    command = [sys.executable, MANSFIELD / "run.py", "--toy", "--output", output]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return output, done.stdout


def test_the_run_leaves_results_claims_and_a_picture(toy_run):
    output, printed = toy_run
    assert {path.name for path in output.iterdir()} == {"results.json", "claims.md", "drawn.png"}
    assert "Recorded embeddings are skipped" in printed
    results = json.loads((output / "results.json").read_text())
    methods = results["sets"]["drawn"]["directions"][0]["methods"]
    assert {"Links", "Links, few sub-clusters", "DP-vMF-means, one pass", "mini-batch k-means, K known"} == set(methods)
    for run in methods["Links"]["runs"]:
        assert run["accuracy"][-1] == run["final_accuracy"] > 0.95
        assert run["n_persons"][-1] == 6
        assert run["n_seen"][-1] == 240


@pytest.mark.parametrize("is_stored", [False, True])
def test_the_page_is_written_from_the_results(is_stored, toy_run, monkeypatch):
    folder = MANSFIELD if is_stored else toy_run[0]
    monkeypatch.syspath_prepend(str(MANSFIELD))
    monkeypatch.delitem(sys.modules, "claims", raising=False)
    claims = __import__("claims")
    try:
        results = json.loads((folder / "results.json").read_text())
        assert (folder / "claims.md").read_text() == claims.page(results)
        assert {line.status for line in claims.lines(results)} <= STATUSES - ({"skipped"} if is_stored else set())
    finally:
        sys.modules.pop("claims", None)
