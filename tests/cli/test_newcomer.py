"""A newcomer's walk, as it would be typed: cluster a file, open the report, predict, stream, be killed and go on."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from armillary.datasets import make_vmf_mixture

PROJECT = Path(__file__).parents[2]
SHARED = Path(os.environ.get("ARMILLARY_SHARED_DATA", PROJECT.parent / "shared" / "data"))
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


def armillary(folder, *arguments):
    """One command in a new process; its standard output."""
    command = [sys.executable, "-m", "armillary", *map(str, arguments)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def open_report(page_file):
    """Look at the report in a browser: it shows the clusters, and nothing goes wrong."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: make test-browser")
    if CHROMIUM is None:
        pytest.skip("Chromium is not installed: make test-browser")
    errors = []
    with sync_api.sync_playwright() as driver:
        options = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=options)
        page = browser.new_page()
        page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.goto(page_file.as_uri())
        words = page.inner_text("body")
        browser.close()
    assert errors == []
    return words


def walk(folder, X, n_new, name, n_expected):
    """Everything but the browser; `n_new` rows are kept back as those that come later."""
    np.savez(folder / "embeddings.npz", embeddings=X[:-n_new])
    np.save(folder / "new.npy", X[-n_new:])
    armillary(folder, "cluster", "embeddings.npz")
    out = folder / "embeddings-clusters"
    assert sorted(os.listdir(out)) == ["labels.csv", "labels.npy", "model.safetensors", "report.html", "summary.json"]
    summary = json.loads((out / "summary.json").read_text())
    assert summary["n_clusters"] in n_expected
    assert str(summary["n_clusters"]) in summary["reason"]

    lines = armillary(folder, "predict", out.name, "new.npy").splitlines()
    assert lines[0] == "row,cluster"
    assert len(lines) == n_new + 1
    assert f"{summary['n_clusters']:,} clusters" in armillary(folder, "inspect", out.name)

    with (folder / "rows.jsonl").open("w") as stream:
        for number, row in enumerate(X.astype(np.float64).round(5).tolist()):
            stream.write(json.dumps({"id": f"{name}-{number}", "vector": row}) + "\n")
    command = [
        "stream",
        "rows.jsonl",
        "-o",
        "ids.csv",
        "--state",
        "kept.state",
        "--checkpoint-rows",
        "100",
        "--batch",
        "10",
    ]
    ids = folder / "ids.csv"
    with subprocess.Popen([sys.executable, "-m", "armillary", *command], cwd=folder) as process:
        while process.poll() is None and not (ids.exists() and ids.stat().st_size > 2000):
            time.sleep(0.002)
        process.kill()  # -9
    armillary(folder, *command)
    lines = ids.read_text().splitlines()
    assert lines[0] == "row,id,cluster"
    told = [line.split(",")[:2] for line in lines[1:]]
    assert told == [[str(number), f"{name}-{number}"] for number in range(len(X))]
    armillary(folder, "stream", "rows.jsonl", "-o", "once.csv", "--batch", "10")
    assert ids.read_bytes() == (folder / "once.csv").read_bytes()
    return out / "report.html"


def test_a_walk_on_made_data(tmp_path):
    X, _, _ = make_vmf_mixture(500, 16, 6, concentration=120.0, min_angle=0.9, random_state=2, dtype=np.float32)
    page_file = walk(tmp_path, X, 100, "row", {6})
    assert "embeddings.npz" in open_report(page_file)


@pytest.mark.slow
def test_a_walk_on_real_sentences(tmp_path):
    source = SHARED / "sent_banking77" / "embeddings.npz"
    if not source.exists():
        pytest.skip(f"{source} is not here")
    with np.load(source) as archive:
        X = archive["embeddings"]
    page_file = walk(tmp_path, X, 500, "sentence", range(50, 301))
    assert "embeddings.npz" in open_report(page_file)


@pytest.mark.slow
def test_the_demo(tmp_path):
    """What `make demo` runs once it has installed the package."""
    command = [sys.executable, PROJECT / "examples" / "demo.py", "--output", tmp_path / "demo"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "demo" / "sphere.png").exists()
