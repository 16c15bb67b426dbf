"""Rows of NaN, zeros and empty cells do not stop a run: they get -1, and one line says how many and which first."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from armillary.files import read_vectors

LINE = (
    "3 of 600 rows have no direction (empty, NaN, infinite or all zero), the first is row 17, counted from 0: they get "
    "the label -1."
)


@pytest.fixture
def holes(tmp_path, mixture):
    """600 rows of which 17 (zeros), 30 and 99 (NaN) are bad: holes.npy."""
    X = mixture[0].copy()
    X[17], X[30, 3], X[99] = 0.0, np.nan, np.nan
    np.save(tmp_path / "holes.npy", X)
    return X


def labels_of(folder):
    return np.load(folder / "labels.npy")


@pytest.mark.parametrize("options", [[], ["-k", "5"], ["-m", "vmf", "-k", "5"], ["-k", "5", "--sample", "300"]])
def test_cluster_flags_them(cli, holes, tmp_path, options):
    done = cli("cluster", "holes.npy", *options)
    assert done.code == 0, done.err
    assert done.err.count(LINE) == 1
    assert "3 rows in no cluster (-1)" in done.out
    labels = labels_of(tmp_path / "holes-clusters")
    assert np.flatnonzero(labels < 0).tolist() == [17, 30, 99]
    summary = json.loads((tmp_path / "holes-clusters" / "summary.json").read_text())
    assert LINE in summary["warnings"]
    assert summary["rows_in_no_cluster"] == 3
    assert summary["model"]["rows_fitted"] == (300 if "--sample" in options else 597)
    if "--sample" not in options:
        found = {}
        exec(summary["python"], found)
        np.testing.assert_array_equal(found["labels"], labels[labels >= 0])


def test_predict_compare_and_suggest_flag_them(cli, holes, rows_file):
    assert cli("cluster", "rows.npy", "-k", "5", "-q", "--no-report").code == 0
    done = cli("predict", "rows-clusters", "holes.npy", "-o", "a.csv")
    assert LINE in done.err
    assert "3 of them in no cluster (-1)" in done.err
    done = cli("compare", "holes.npy", "--models", "skmeans,vmf", "-k", "5")
    assert (done.code, done.err.count(LINE)) == (0, 1)
    done = cli("suggest", "holes.npy", "--max-clusters", "6")
    assert (done.code, done.err.count(LINE)) == (0, 1)


def test_a_stream_goes_on(cli, holes, tmp_path):
    lines = [json.dumps({"id": str(n), "vector": row}) for n, row in enumerate(holes[:200].tolist())]
    lines[55] = json.dumps({"id": "55", "vector": None})
    (tmp_path / "rows.jsonl").write_text("\n".join(lines))
    done = cli("stream", "rows.jsonl", "-o", "ids.jsonl", "--batch", "7")
    assert done.code == 0, done.err
    assert done.err.count("Row 17 (counted from 0) has no direction") == 1
    assert "200 rows, 4 of them without a direction (-1)" in done.err
    ids = [json.loads(line)["cluster"] for line in (tmp_path / "ids.jsonl").read_text().splitlines()]
    assert [n for n, cluster in enumerate(ids) if cluster < 0] == [17, 30, 55, 99]
    good = [line for n, line in enumerate(lines) if n not in (17, 30, 55, 99)]
    (tmp_path / "good.jsonl").write_text("\n".join(good))
    assert cli("stream", "good.jsonl", "-o", "good_ids.jsonl").code == 0
    alone = [json.loads(line)["cluster"] for line in (tmp_path / "good_ids.jsonl").read_text().splitlines()]
    assert alone == [cluster for cluster in ids if cluster >= 0]


def write(kind, path, X):
    """A file whose row 2 misses a number, or all of them."""
    if kind == "csv":
        lines = [",".join(f"{value:.6f}" for value in row) for row in X]
        lines[2] = "," + lines[2].split(",", 1)[1]
        path.write_text("\n".join(["a,b,c", *lines]))
    elif kind == "jsonl":
        path.write_text("\n".join("null" if n == 2 else json.dumps(row) for n, row in enumerate(X.tolist())))
    else:
        rows = [None if n == 2 else row for n, row in enumerate(X.tolist())]
        table = {"vector": pa.array(rows)} if kind == "lists" else {"a": [1.0, 2.0, None, 4.0], "b": [1.0] * 4}
        pq.write_table(pa.table(table), path)


@pytest.mark.parametrize(("kind", "ending"), [("csv", "csv"), ("jsonl", "jsonl"), ("lists", "pq"), ("columns", "pq")])
def test_gaps_in_files_are_rows_of_nan_where_that_is_asked_for(kind, ending, tmp_path):
    X = np.random.default_rng(0).standard_normal((4, 3)).round(6)
    write(kind, tmp_path / f"rows.{ending}", X)
    with pytest.raises(ValueError, match=r"must have|must be"):
        read_vectors(tmp_path / f"rows.{ending}")
    rows = read_vectors(tmp_path / f"rows.{ending}", missing="flag").rows
    assert np.isnan(rows).any(axis=1).tolist() == [False, False, True, False]
