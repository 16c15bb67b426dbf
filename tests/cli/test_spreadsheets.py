"""Ids and texts that a spreadsheet would run as formulas: written as they are, or with --spreadsheet-safe guarded."""

from __future__ import annotations

import csv
import doctest
import json

import numpy as np
import pytest

from armillary.files import Vectors, restored, spreadsheets, write_vectors
from armillary.files.spreadsheets import guarded

IDS = [
    "=1+1",
    "+cmd",
    "-x",
    "@SUM(A1)",
    "\tt",
    "-1.5",
    "+2e3",
    "plain",
    "'=1",
    "'tis",
    "",
    "-",
    "--1",
    "a=b",
    "-inf",
    "ü=1",
]
SAFE = ["'=1+1", "'+cmd", "'-x", "'@SUM(A1)", "'\tt", "-1.5", "+2e3", "plain", "''=1", "'tis", "", "'-", "'--1", "a=b"]
SAFE += ["'-inf", "ü=1"]


def test_what_is_guarded_and_that_it_comes_back():
    assert list(map(guarded, IDS)) == SAFE
    assert list(map(restored, SAFE)) == IDS
    for first in "=+-@\t\r\n":
        assert guarded(f"{first}x") == f"'{first}x"
    assert doctest.testmod(spreadsheets).failed == 0


@pytest.fixture
def rows(tmp_path):
    """Vectors with such ids and texts as rows.jsonl."""
    X = np.random.default_rng(0).normal(size=(len(IDS), 4))
    texts = [f"={name}" for name in IDS]
    with (tmp_path / "rows.jsonl").open("w") as stream:
        for name, text, row in zip(IDS, texts, X.tolist(), strict=True):
            stream.write(json.dumps({"id": name, "text": text, "vector": row}) + "\n")
    write_vectors(tmp_path / "rows.parquet", Vectors(X, ids=IDS, texts=texts))
    return X, texts


def columns(path, separator=","):
    with path.open(newline="") as stream:
        lines = list(csv.DictReader(stream, delimiter=separator))
    return {name: [line[name] for line in lines] for name in lines[0]}


@pytest.mark.parametrize("is_safe", [False, True])
def test_every_command_that_writes_a_table(cli, rows, tmp_path, is_safe):
    option = ["--spreadsheet-safe"] if is_safe else []
    words = ["--id-column", "id", "--text-column", "text"]
    ids = SAFE if is_safe else IDS
    texts = [f"'{text}" for text in rows[1]] if is_safe else rows[1]
    done = cli("cluster", "rows.parquet", "-k", "2", *words, "--no-report", "-q", "-o", "out", *option)
    assert done.code == 0, done.err
    labels = np.load(tmp_path / "out" / "labels.npy").tolist()
    table = columns(tmp_path / "out" / "labels.csv")
    assert (table["id"], table["text"]) == (ids, texts)
    assert table["cluster"] == list(map(str, labels))
    for name, separator in (("p.csv", ","), ("p.tsv", "\t")):
        assert cli("predict", "out", "rows.parquet", *words, "-o", name, "-q", *option).code == 0
        assert columns(tmp_path / name, separator)["id"] == ids
    assert cli("predict", "out", "rows.parquet", *words, "-o", "p.jsonl", "-q", *option).code == 0
    assert [json.loads(line)["id"] for line in (tmp_path / "p.jsonl").read_text().splitlines()] == IDS
    for name, separator in (("c.csv", ","), ("c.tsv", "\t")):
        assert cli("convert", "rows.parquet", name, *words, "-q", *option).code == 0
        table = columns(tmp_path / name, separator)
        assert (table["id"], table["text"]) == (ids, texts)
        assert np.array_equal(np.array([table[f"x{number}"] for number in range(4)], dtype=float).T, rows[0])
    assert cli("compare", "rows.parquet", "-m", "links", "-o", "compared", "-q", *option).code == 0
    assert columns(tmp_path / "compared" / "labels-links.csv").get("id", ids) == ids
    assert cli("stream", "rows.jsonl", "-o", "ids.csv", "-q", *option).code == 0
    assert columns(tmp_path / "ids.csv")["id"] == ids


def test_help_says_so(cli):
    for command in ("cluster", "predict", "convert", "compare", "stream"):
        assert "--spreadsheet-safe" in cli(command, "--help").out
