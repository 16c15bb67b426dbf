"""Files, folders and patterns on the command line; rows that stay on disk."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import armillary


@pytest.fixture
def shards(tmp_path):
    X, _, _ = armillary.datasets.make_vmf_mixture(1200, 5, 4, concentration=80.0, min_angle=1.0, random_state=0)
    X = X.astype(np.float32)
    (tmp_path / "shards").mkdir()
    for number in range(12):
        np.save(tmp_path / "shards" / f"part-{number}.npy", X[100 * number : 100 * (number + 1)])
    np.save(tmp_path / "whole.npy", X)
    flat = pa.FixedSizeListArray.from_arrays(pa.array(X.ravel()), 5)
    pq.write_table(pa.table({"v": flat, "w": flat}), tmp_path / "two.parquet")
    return tmp_path


@pytest.fixture
def small_memory(monkeypatch):
    """A machine on which nothing of these tests fits."""
    for home in ("armillary.cli.reading", "armillary.cli.clustering", "armillary.sources.stored"):
        monkeypatch.setattr(f"{home}.free_memory", lambda: 24_000)
    monkeypatch.setattr("armillary.sources.stored.StoredRows._refuse_large", lambda *_: None)
    monkeypatch.setattr("armillary.cli.reading._SURELY_SMALL", 0)


@pytest.fixture
def run(cli):
    return lambda *arguments: cli(*map(str, arguments))


def told(done):
    """All that a command said, on one line."""
    return " ".join((done.out + done.err).split())


def labels_of(folder):
    return np.load(folder / "labels.npy")


@pytest.mark.parametrize("form", ["folder", "pattern", "files"])
def test_many_files_are_one_set_of_rows(run, shards, form):
    given = {
        "folder": [shards / "shards"],
        "pattern": [shards / "shards" / "part-*.npy"],
        "files": [shards / "shards" / f"part-{number}.npy" for number in range(12)],
    }[form]
    one = run("cluster", shards / "whole.npy", "-k", "4", "-o", shards / "one", "--no-report")
    many = run("cluster", *given, "-k", "4", "-o", shards / "many", "--no-report")
    assert one.code == many.code == 0, told(many)
    np.testing.assert_array_equal(labels_of(shards / "one"), labels_of(shards / "many"))
    assert (shards / "one" / "model.safetensors").read_bytes() == (shards / "many" / "model.safetensors").read_bytes()
    said = told(many)
    assert "12 files in this order" in said
    assert said.index("part-2.npy") < said.index("part-10.npy")


def test_what_is_larger_than_memory_stays_on_disk(run, shards, small_memory):
    held = run("cluster", shards / "whole.npy", "-k", "4", "-o", shards / "disk")
    assert held.code == 0, told(held)
    said = told(held)
    assert "stay on disk" in said
    summary = json.loads((shards / "disk" / "summary.json").read_text())
    assert summary["data"]["is_on_disk"]
    assert sum(line["size"] for line in summary["clusters"]) == 1200
    page = (shards / "disk" / "report.html").read_text()
    assert "This page shows 120 of the 1,200 rows, drawn at random" in page
    model = armillary.load(shards / "disk" / "model.safetensors")
    for output in ("new.npy", "new.csv"):
        done = run("predict", shards / "disk", shards / "shards", "-o", shards / output)
        assert done.code == 0, told(done)
    np.testing.assert_array_equal(np.load(shards / "new.npy"), model.labels_)
    rows = (shards / "new.csv").read_text().splitlines()[1:]
    np.testing.assert_array_equal([int(row.split(",")[1]) for row in rows], model.labels_)


def test_rows_on_disk_without_direction_do_not_stop_a_run(run, shards, small_memory):
    bad = np.load(shards / "shards" / "part-3.npy")
    bad[7], bad[60] = np.nan, 0.0
    np.save(shards / "shards" / "part-3.npy", bad)
    done = run("cluster", shards / "shards", "-k", "4", "-o", shards / "disk")
    assert done.code == 0, told(done)
    said = told(done)
    assert "stay on disk" in said
    assert "2 of 1,200 rows have no direction (empty, NaN, infinite or all zero), the first is row 307" in said
    labels = labels_of(shards / "disk")
    np.testing.assert_array_equal(np.flatnonzero(labels < 0), [307, 360])
    for output in ("new.npy", "new.csv"):
        done = run("predict", shards / "disk", shards / "shards", "-o", shards / output)
        assert done.code == 0, told(done)
        assert told(done).count("2 of 1,200 rows have no direction") == 1
    np.testing.assert_array_equal(np.load(shards / "new.npy"), labels)
    refused = run("cluster", shards / "shards", "-k", "4", "--missing", "raise", "-o", shards / "no")
    assert refused.code == 2
    assert "row 7 of" in told(refused)


def test_what_needs_rows_in_memory_says_so_and_takes_a_sample(run, shards, small_memory):
    for command in ("cluster", "suggest"):
        done = run(command, shards / "whole.npy", "-o", shards / "out")
        assert done.code == 2
        assert "--sample" in told(done)
    done = run("cluster", shards / "whole.npy", "--model", "dp", "-o", shards / "out")
    assert "--max-angle" in told(done)
    done = run("cluster", shards / "whole.npy", "--sample", "300", "-k", "4", "-o", shards / "out")
    assert done.code == 0, told(done)
    assert len(labels_of(shards / "out")) == 1200


def test_sentences_of_sources_reach_the_command_line(run, shards):
    (shards / "empty").mkdir()
    assert "has none that end in" in told(run("cluster", shards / "empty", "-o", shards / "o"))
    done = run("cluster", shards / "two.parquet", shards / "two.parquet", "-k", "3", "-o", shards / "o")
    assert "--key v" in told(done)
    named = run("cluster", shards / "two.parquet", shards / "two.parquet", "-k", "3", "--key", "v", "-o", shards / "o")
    assert named.code == 0, told(named)
    done = run("cluster", shards / "shards", "--id-column", "x", "-o", shards / "o2")
    assert "--id-column belongs to tables that are read whole" in told(done)
