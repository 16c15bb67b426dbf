"""`armillary curate`: a folder with everything in it, a page to look at, and sentences."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest
from tests.making import units

from armillary import load


@pytest.fixture
def rows(tmp_path):
    rng = np.random.default_rng(0)
    rows = units(rng, 700, 20).astype(np.float32)
    rows[500:] = rows[:200] + 0.02 * rng.standard_normal((200, 20))
    np.save(tmp_path / "rows.npy", rows)
    (tmp_path / "texts.txt").write_text("".join(f"row {n} <b>\n" for n in range(700)))
    return rows


def test_a_folder_with_all_that_was_found(cli, rows, tmp_path):
    options = "--levels 3,15 --sample-size 60 --texts texts.txt --threshold 0.9 --layout faiss --layout pgvector"
    done = cli("curate", "rows.npy", *options.split())
    assert done.code == 0, done.err
    folder = tmp_path / "rows-curated"
    names = {path.name for path in folder.iterdir()}
    assert names == {
        "rows.parquet", "sample.npy", "model.safetensors", "summary.json", "report.html", "layout-faiss",
        "layout-pgvector",
    }  # fmt: skip
    assert "200 rows of 700 (28.6%) within cosine 0.9 of a row that is kept" in done.out
    assert "60 rows chosen evenly" in done.out
    summary = json.loads((folder / "summary.json").read_text())
    assert summary["duplicates"]["removed"] == 200
    assert summary["levels"] == [3, 15]
    table = pq.read_table(folder / "rows.parquet")
    assert table.num_rows == 700
    np.testing.assert_array_equal(table["kept_row"].to_numpy()[500:], np.arange(200))
    np.testing.assert_array_equal(np.load(folder / "layout-faiss" / "ids.npy").sum(), 700 * 699 // 2)
    page = (folder / "report.html").read_text()
    assert "200 (28.6" in page
    assert "row 3 &lt;b&gt;" in page or "row 0 &lt;b&gt;" in page
    assert "<script" not in page
    assert load(folder / "model.safetensors").n_clusters_ == 15


def test_rows_that_went_by_way_of_another_are_told(cli, tmp_path):
    rows = units(np.random.default_rng(0), 3000, 3).astype(np.float32)
    np.save(tmp_path / "rows.npy", rows)
    done = cli("curate", "rows.npy", "--levels", "40", "--threshold", "0.99", "-o", "out")
    n_chained = json.loads((tmp_path / "out" / "summary.json").read_text())["duplicates"]["chained"]
    table = pq.read_table(tmp_path / "out" / "rows.parquet")
    cosines = np.vecdot(rows, rows[table["kept_row"].to_numpy()])
    assert 0 < np.count_nonzero(cosines < 0.99) <= n_chained
    assert f"{n_chained} rows of these by way of another that went for it" in done.out
    page = (tmp_path / "out" / "report.html").read_text()
    assert f"{n_chained} rows went for a row that went for another one itself, across a border of clusters" in page


def test_the_number_of_clusters_follows_the_rows(cli, rows, tmp_path):
    done = cli("curate", "rows.npy", "--json", "--no-report", "-o", "out")
    found = done.data
    assert found["levels"] == [2, 26]
    assert found["folder"] == "out"
    assert not (tmp_path / "out" / "report.html").exists()


@pytest.mark.parametrize("stays", [False, True], ids=["in memory", "on disk"])
@pytest.mark.parametrize("kind", ["numbers", "words"])
def test_ids_are_those_of_the_tables(kind, stays, cli, rows, tmp_path, monkeypatch):
    ids = np.arange(700) * 7 + 10**12 if kind == "numbers" else [f"row {n}" for n in range(700)]
    columns = {"id": ids, "text": [f"text {n}" for n in range(700)], "vector": list(rows)}
    (tmp_path / "shards").mkdir()
    for number, first in enumerate((0, 300)):
        part = pa.table({name: column[first : first + 300 + 100 * number] for name, column in columns.items()})
        pq.write_table(part, tmp_path / "shards" / f"{number}.parquet", row_group_size=110)
    feather.write_feather(pa.table(columns), tmp_path / "rows.feather", chunksize=90)
    monkeypatch.setattr("armillary.cli.reading._is_large", lambda _: stays)
    monkeypatch.setattr("armillary.cli.reading._SURELY_SMALL", 0)
    for name in ("shards", "rows.feather"):
        done = cli("curate", name, "--levels", "3", "-o", "out", "--force")
        assert done.code == 0, done.err
        assert ("they stay on disk" in done.err) == stays
        found = pq.read_table(tmp_path / "out" / "rows.parquet")["id"]
        assert found.type == (pa.int64() if kind == "numbers" else pa.string())
        assert found.to_pylist() == list(ids)
        page = (tmp_path / "out" / "report.html").read_text()
        assert f"<small>{ids[0]}</small> text 0" in page


def test_columns_that_cannot_name_rows_on_disk_are_sentences(cli, rows, tmp_path, monkeypatch):
    pq.write_table(pa.table({"id": range(700), "vector": list(rows)}), tmp_path / "rows.parquet")
    monkeypatch.setattr("armillary.cli.reading._is_large", lambda _: True)
    monkeypatch.setattr("armillary.cli.reading._SURELY_SMALL", 0)
    for name, came in (("vector", "it holds list"), ("key", "there is none. Its columns: 'id', 'vector'.")):
        done = cli("curate", "rows.parquet", "--levels", "3", "--id-column", name)
        assert done.code == 2
        assert f"Column '{name}' of 'rows.parquet' must hold words or whole numbers; {came}" in done.sentence


def test_sentences(cli, rows, tmp_path):
    levels = "--levels must be numbers of clusters that rise from coarse to fine, e.g. 100,1000, or 'auto'; got "
    for options, sentence in (
        *((["--levels", wrong], f"{levels}'{wrong}'.") for wrong in ("a,b", "9,3", "0", "5,", "", "-3", "5.5")),
        (["--layout", "milvus"], "--layout must be one of faiss, lance, pgvector; got 'milvus'."),
        (["--keep", "last"], "`keep` of curate must be one of 'first', 'central'; got 'last'."),
    ):
        done = cli("curate", "rows.npy", *options)
        assert done.code == 2
        assert sentence in done.sentence
        assert not list(tmp_path.glob(".*"))
