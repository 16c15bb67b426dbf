"""Rows on disk: what is read, in which order, with which sentences."""

import itertools
import json
import os
import pickle
import subprocess
import sys
import threading
import time

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp

from armillary import DDPvMFMeans, DirichletProcessMixture, DPvMFMeans, Links, SphericalKMeans, choose_model, open_rows
from armillary.exceptions import InputError, RowError
from armillary.points import as_points
from armillary.sources import memory, shards, stored, tables
from armillary.sources.ahead import Ahead
from armillary.sources.parquet_pages import PagedShard
from armillary.sources.shards import PlainShard
from armillary.sources.tables import DecodedShard, PiecedShard

N, D = 3000, 6


def given(dtype="f2", n=N, seed=0):
    values = np.random.default_rng(seed).normal(scale=30.0, size=(n, D))
    return values.astype(dtype)


def lists(X, kind="fixed"):
    flat = pa.array(X.ravel())
    if kind == "fixed":
        return pa.FixedSizeListArray.from_arrays(flat, X.shape[1])
    offsets = np.arange(len(X) + 1) * X.shape[1]
    made = pa.ListArray if kind == "list" else pa.LargeListArray
    return made.from_arrays(pa.array(offsets, pa.int32() if kind == "list" else pa.int64()), flat)


def write_arrow(path, table, *, is_stream=False, compression=None, rows=257):
    options = pa.ipc.IpcWriteOptions(compression=compression)
    new = pa.ipc.new_stream if is_stream else pa.ipc.new_file
    with new(str(path), table.schema, options=options) as writer:
        writer.write_table(table, max_chunksize=rows)


def write_saved_dataset(folder, X, n_files=2):
    """As HuggingFace's save_to_disk writes it."""
    folder.mkdir()
    names = [f"data-{k:05}-of-{n_files:05}.arrow" for k in range(n_files)]
    for name, part in zip(names, np.array_split(X, n_files), strict=True):
        table = pa.table({"text": ["a"] * len(part), "embedding": lists(part, "list")})
        write_arrow(folder / name, table, is_stream=True, rows=100)
    (folder / "state.json").write_text(json.dumps({"_data_files": [{"filename": name} for name in names]}))
    (folder / "dataset_info.json").write_text(json.dumps({"features": {}}))


def sentence(call, *arguments, kind=InputError, **options):
    with pytest.raises(kind) as caught:
        call(*arguments, **options)
    return str(caught.value)


@pytest.mark.parametrize("kind", ["fixed", "list", "large"])
def test_small_batches_are_read_together_and_looked_at_one_by_one(tmp_path, monkeypatch, kind):
    X, path, together = given(), tmp_path / "rows.arrow", []
    write_arrow(path, pa.table({"v": lists(X, kind)}), is_stream=True, rows=100)
    read, scatter = open_rows(path), shards.Shard.scatter
    assert isinstance(read.shards[0], PiecedShard)
    monkeypatch.setattr(shards.Shard, "scatter", lambda *given: together.append(1) or scatter(*given))
    for start, stop in ((0, N), (1, N - 1), (50, 260), (100, 300), (99, 100)):
        assert (read.read(start, stop) == X[start:stop]).all()
    assert together
    monkeypatch.setattr(
        shards.Shard, "scatter", lambda *_: False
    )  # as where the system reads less, or has no such call
    assert (read.read(0, N) == X).all()


def test_batches_that_lie_otherwise_are_read_together_once(tmp_path, monkeypatch):
    X, path, together = given(), tmp_path / "rows.arrow", []
    write_arrow(path, pa.table({"v": lists(X, "list")}), is_stream=True, rows=100)
    scatter = shards.Shard.scatter
    monkeypatch.setattr(shards.Shard, "scatter", lambda *given: together.append(1) or scatter(*given))
    # as where a writer cut its lists out of longer ones, and their offsets do not begin at 0
    monkeypatch.setattr(tables._PiecedReader, "_even_offsets", lambda *_: np.zeros(1))
    assert (open_rows(path).read(0, N) == X).all()
    assert len(together) == 1


def test_a_batch_among_others_whose_lists_are_of_other_lengths(tmp_path):
    X, path = given("f4"), tmp_path / "rows.arrow"
    offsets = np.arange(101) * D
    offsets[7] += 1  # row 6 has one number more, row 7 one less
    odd = pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), pa.array(X[100:200].ravel()))
    table = pa.table({"v": pa.chunked_array([lists(X[:100], "list"), odd, lists(X[200:], "list")])})
    with pa.ipc.new_stream(str(path), table.schema) as writer:
        for batch in table.to_batches():
            writer.write_batch(batch)
    said = sentence(lambda: open_rows(path).read(0, N))
    assert f"row 106 (counted from 0 in this file) has {D + 1}" in said


def expected(path):
    """How many batches are only expected to be where they are."""
    return sum(piece.message_at is not None for piece in open_rows(path, column="v").shards[0].pieces)


@pytest.mark.parametrize("kind", ["fixed", "list", "large"])
@pytest.mark.parametrize("is_stream", [True, False])
@pytest.mark.parametrize("n", [N, 2950, 2101, 2067])
def test_batches_as_long_as_each_other_are_expected_and_looked_at_as_they_are_read(tmp_path, kind, is_stream, n):
    X, path = given(n=n), tmp_path / "rows.arrow"
    table = pa.table({"id": np.arange(n), "v": lists(X, kind), "z": np.arange(n) / 3})
    write_arrow(path, table, is_stream=is_stream, rows=30)
    # four at the beginning and the last were looked at
    assert expected(path) == (n // 30 - 5 if n // 30 - 5 >= 64 else 0)
    read = open_rows(path, column="v")
    for start, stop in ((0, n), (1, n - 1), (50, 260), (100, 300), (99, 100), (n - 31, n)):
        assert (read.read(start, stop) == X[start:stop]).all()


@pytest.mark.parametrize("kind", ["fixed", "list"])
@pytest.mark.parametrize("start", [0, 1010, 1006])
def test_a_batch_that_is_not_where_it_was_expected_has_all_of_them_looked_at(tmp_path, monkeypatch, kind, start):
    X, path = given(n=N), tmp_path / "rows.arrow"
    monkeypatch.setattr(tables, "_TRIED", 2)  # so that it is not found at opening
    lengths = [10] * (N // 10)
    lengths[100:102] = [6, 14]  # together as long as two others
    ends = np.cumsum(lengths)
    batches = [
        pa.record_batch({"v": lists(X[end - length : end], kind)}) for end, length in zip(ends, lengths, strict=True)
    ]
    with pa.ipc.new_stream(str(path), batches[0].schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
    read = open_rows(path)
    assert expected(path) == N // 10 - 5
    assert read.shape == X.shape
    assert (read.read(start, N) == X[start:]).all()
    assert (read.read(0, N) == X).all()


def test_numbers_that_are_missing_where_batches_were_expected_are_told(tmp_path, monkeypatch):
    X, path = given("f4"), tmp_path / "rows.arrow"
    monkeypatch.setattr(tables, "_TRIED", 2)
    numbers = pa.array(X.ravel(), mask=np.arange(N * D) == 1501 * D)
    gone = pa.table({"v": pa.FixedSizeListArray.from_arrays(numbers, D)})
    write_arrow(path, gone, rows=10)
    said = sentence(lambda: open_rows(path)[:])
    assert "column 'v' misses one in row 1,501" in said


@pytest.mark.parametrize("form", ["npy", "parquet", "arrow"])
def test_what_the_memory_has_no_room_for_is_forgotten_as_it_is_read(tmp_path, monkeypatch, form):
    X, path, told = given(n=50_000), tmp_path / f"rows.{form}", []
    if form == "npy":
        np.save(path, X)
    elif form == "arrow":
        write_arrow(path, pa.table({"v": lists(X)}), rows=20_000)
    else:
        pq.write_table(pa.table({"v": lists(X)}), path, compression="none", use_dictionary=False)
    monkeypatch.setattr(shards, "_FORGOTTEN_AT_ONCE", 1 << 16)
    monkeypatch.setattr(tables, "_BYTES_TOGETHER", 1 << 16)
    monkeypatch.setattr(shards, "advise", lambda _, what, *where: told.append((what, *where)))
    assert (open_rows(path)[:] == X).all()
    assert not [one for one in told if one[0] == "DONTNEED"]  # what fits stays for the next pass
    with monkeypatch.context() as patch:
        patch.setattr(stored, "free_memory", lambda: X.nbytes - 1)
        beyond = open_rows(path)
    assert (beyond.read(0, len(X)) == X).all()
    forgotten = [where for what, *where in told if what == "DONTNEED"]
    assert sum(n for _, n in forgotten) >= X.nbytes
    assert max(n for _, n in forgotten) <= 1 << 16
    model = SphericalKMeans(3, random_state=0)
    assert (model.fit(beyond).labels_ == model.fit(open_rows(path)).labels_).all()


def check_reading(rows, X):
    """All rows, random ranges, random numbers, and in order by a reader of its own."""
    draws = np.random.default_rng(0)
    assert rows.shape == X.shape
    assert len(rows) == len(X)
    np.testing.assert_array_equal(rows[:], X)
    for _ in range(5):
        start, stop = sorted(draws.integers(0, len(X) + 1, 2))
        np.testing.assert_array_equal(rows[start:stop], X[start:stop])
    numbers = draws.integers(-len(X), len(X), 40)
    np.testing.assert_array_equal(rows[numbers], X[numbers])
    np.testing.assert_array_equal(rows[5], X[5])
    place = rows.sequential()
    edges = [0, *sorted(draws.integers(0, len(X), 6)), len(X)]
    for start, stop in itertools.pairwise(edges):
        out = np.empty((stop - start, X.shape[1]), X.dtype)
        np.testing.assert_array_equal(place.read(start, stop, out), X[start:stop])


# ------------------------------------------------------------------------------------------------------- formats


@pytest.mark.parametrize("dtype", ["f2", "f4", ">f4", "f8", "i1", "u2", "?"])
def test_npy(tmp_path, dtype):
    X = given("f4").astype(dtype)
    np.save(tmp_path / "a.npy", X)
    rows = open_rows(tmp_path / "a.npy")
    assert rows.dtype == X.dtype
    assert isinstance(rows.shards[0], PlainShard)
    check_reading(rows, X)


def test_npy_by_columns(tmp_path):
    X = np.asfortranarray(given("f4"))
    np.save(tmp_path / "a.npy", X)
    check_reading(open_rows(tmp_path / "a.npy"), X)


@pytest.mark.parametrize("compression", [None, "zstd"])
@pytest.mark.parametrize("is_stream", [False, True])
@pytest.mark.parametrize("kind", ["fixed", "list", "large"])
def test_arrow(tmp_path, kind, is_stream, compression):
    X = given()
    table = pa.table({"id": np.arange(N), "vector": lists(X, kind)})
    write_arrow(tmp_path / "a.arrow", table, is_stream=is_stream, compression=compression)
    rows = open_rows(tmp_path / "a.arrow")
    assert isinstance(rows.shards[0], DecodedShard if compression else PiecedShard)
    check_reading(rows, X)


@pytest.mark.parametrize("compression", ["uncompressed", "zstd"])
def test_arrow_files_of_polars(tmp_path, compression):
    """Those of its later versions have no message where streams begin; the table of contents says what is in them."""
    X = given("f4")
    parts = [pl.DataFrame({"id": range(len(part)), "vector": part}) for part in np.split(X, [700, 1900])]
    pl.concat(parts, rechunk=False).write_ipc(tmp_path / "a.arrow", compression=compression)
    rows = open_rows(tmp_path / "a.arrow")
    assert isinstance(rows.shards[0], PiecedShard if compression == "uncompressed" else DecodedShard)
    check_reading(rows, X)


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "i4", "i1"])
@pytest.mark.parametrize("kind", ["fixed", "list", "large"])
def test_parquet(tmp_path, kind, dtype):
    X = given("f4").astype(dtype)
    table = pa.table({"id": np.arange(N), "vector": lists(X, kind)})
    for form in (
        {},
        {"compression": "none", "use_dictionary": False},
        {"compression": "none", "use_dictionary": False, "data_page_version": "2.0", "data_page_size": 999},
        {"compression": "none", "use_dictionary": False, "data_page_size": 700, "write_batch_size": 13},
    ):
        pq.write_table(table, tmp_path / "a.parquet", row_group_size=700, **form)
        rows = open_rows(tmp_path / "a.parquet")
        assert isinstance(rows.shards[0], PagedShard if form and dtype != "i1" else DecodedShard)
        check_reading(rows, X)
        if form and dtype != "i1":
            place = rows.sequential()
            place.read(0, N, np.empty_like(X))
            assert place._reader._decoded is None  # pyarrow was not needed


@pytest.mark.parametrize("lengths", [[3, 3, 2, 4], [3, 3, 3, 0, 6], [6, 3, 3, 0]])
def test_lists_of_parquet_pages_that_come_out_even_but_are_not(tmp_path, lengths):
    values = [list(np.arange(1.0, length + 1)) for length in lengths]
    table = pa.table({"v": pa.array(values, pa.list_(pa.float32()))})
    pq.write_table(table, tmp_path / "a.parquet", compression="none", use_dictionary=False)
    assert "lists of one length" in sentence(lambda: open_rows(tmp_path / "a.parquet")[:])


def test_slices_of_a_table_are_read_from_their_first_row(tmp_path):
    X = given()
    table = pa.table({"vector": lists(X, "list")}).slice(100, 2000)
    write_arrow(tmp_path / "a.arrow", table)
    check_reading(open_rows(tmp_path / "a.arrow"), X[100:2100])


@pytest.mark.parametrize("ending", ["parquet", "feather"])
def test_columns_of_numbers(tmp_path, ending):
    X = given("f4")
    table = pa.table({"id": np.arange(N), "label": np.zeros(N), **{f"x{d}": X[:, d] for d in range(D)}})
    if ending == "parquet":
        pq.write_table(table, tmp_path / "a.parquet", row_group_size=500)
    else:
        write_arrow(tmp_path / "a.feather", table, compression="lz4")
    check_reading(open_rows(tmp_path / f"a.{ending}"), X)


def test_saved_datasets(tmp_path):
    X = given()
    write_saved_dataset(tmp_path / "set", X)
    rows = open_rows(tmp_path / "set")
    assert all(isinstance(shard, PiecedShard) for shard in rows.shards)
    check_reading(rows, X)


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_zarr(tmp_path, zarr_format):
    zarr = pytest.importorskip("zarr", reason="the extra zarr is not installed")
    X = given()
    try:
        array = zarr.open(
            str(tmp_path / "a.zarr"), mode="w", shape=X.shape, chunks=(271, 4), dtype="f2", zarr_format=zarr_format
        )
    except TypeError:
        pytest.skip("this zarr knows one format")
    array[:] = X
    check_reading(open_rows(tmp_path / "a.zarr"), X)
    group = zarr.open_group(str(tmp_path / "g.zarr"), mode="w", zarr_format=zarr_format)
    for name in ("one", "two"):
        group.create_array(name, shape=(10, D), dtype="f4")[:] = 1.0
    assert "'one'" in repr(sentence(open_rows, tmp_path / "g.zarr")) or "one" in sentence(
        open_rows, tmp_path / "g.zarr"
    )
    assert open_rows(tmp_path / "g.zarr", column="two").shape == (10, D)


def test_shards_of_csr_matrices(tmp_path):
    X = sp.random(N, 50, 0.1, format="csr", random_state=0, dtype=np.float32)
    for k, part in enumerate((X[:1000], X[1000:1001], X[1001:])):
        sp.save_npz(tmp_path / f"s-{k}.npz", part, compressed=False)
    rows = open_rows(tmp_path)
    assert rows.is_sparse
    assert (rows[:] != X).nnz == 0
    assert (rows[900:1100] != X[900:1100]).nnz == 0
    numbers = np.array([2999, 3, 1000, 3])
    assert (rows[numbers] != X[numbers]).nnz == 0


def test_arrays_of_an_npz_file(tmp_path):
    X = given()
    np.savez(tmp_path / "a.npz", X=X, other=np.ones((3, 2)), ids=np.arange(N))
    said = sentence(open_rows, tmp_path / "a.npz")
    assert "'X' 3000 x 6" in said
    assert "column=" in said
    check_reading(open_rows(tmp_path / "a.npz", column="X"), X)


# --------------------------------------------------------------------------------------------------- many files


def test_shards_come_in_the_natural_order_of_their_names(tmp_path):
    X = given(n=1100)
    for k in range(11):
        np.save(tmp_path / f"shard-{k}.npy", X[100 * k : 100 * (k + 1)])
    (tmp_path / "_SUCCESS").touch()
    (tmp_path / "notes.txt").touch()
    for named in (tmp_path, str(tmp_path / "shard-*.npy")):
        rows = open_rows(named)
        check_reading(rows, X)
        assert [os.path.basename(shard.path) for shard in rows.shards] == [f"shard-{k}.npy" for k in range(11)]
    assert rows.describe().index("shard-2.npy") < rows.describe().index("shard-10.npy")
    assert "1,100 x 6" in repr(rows)
    assert "shard-10.npy" in repr(rows)
    # a list is taken as it is
    two = open_rows([tmp_path / "shard-10.npy", tmp_path / "shard-2.npy"])
    np.testing.assert_array_equal(two[:], np.concatenate([X[1000:], X[200:300]]))


def test_names_with_digits_that_are_no_numbers(tmp_path):
    for name in ("1\u00b210", "1\u00b22"):
        np.save(tmp_path / f"{name}.npy", given())
    assert open_rows(tmp_path).order().index("\u00b22") < open_rows(tmp_path).order().index("\u00b210")


def test_files_with_names_of_columns_go_with_files_without(tmp_path):
    one, two, three = (given("f4", 20, seed) for seed in range(3))
    np.save(tmp_path / "1.npy", one)
    for name, X, columns in (("2", two, "abcdef"), ("3", three, "fedcba")):
        pq.write_table(pa.table({c: X[:, "abcdef".index(c)] for c in columns}), tmp_path / f"{name}.parquet")
    rows = open_rows([tmp_path / "1.npy", tmp_path / "2.parquet", tmp_path / "3.parquet"])
    np.testing.assert_array_equal(rows[:], np.concatenate([one, two, three]))
    some = rows.between(5, 55)  # parts of files keep the names
    np.testing.assert_array_equal(some[:], np.concatenate([one, two, three])[5:55])


@pytest.mark.parametrize("ending", ["parquet", "arrow"])
def test_tables_meet_by_the_names_of_their_columns(tmp_path, ending):
    """Another order of columns, and other columns, were put below each other as they came."""
    one, two = given("f4", 20), given("f4", 30, seed=1)

    def write(name, X, columns):
        table = pa.table({column: X[:, "abcd".index(column)] for column in columns})
        (pq.write_table if ending == "parquet" else lambda table, path: write_arrow(path, table))(
            table, tmp_path / f"{name}.{ending}"
        )

    write("1", one, "abc")
    write("2", two, "cab")
    np.testing.assert_array_equal(open_rows(tmp_path)[:], np.concatenate([one, two])[:, :3])
    write("2", two, "abd")
    assert "columns of one name" in sentence(open_rows, tmp_path)
    for name, column in (("1", "v"), ("2", "w")):
        table = pa.table({column: lists(one)})
        pq.write_table(table, tmp_path / f"{name}.parquet")
        write_arrow(tmp_path / f"{name}.arrow", table)
    paths = [tmp_path / f"{name}.{ending}" for name in "12"]
    assert "'v'" in sentence(open_rows, paths)
    assert "'w'" in sentence(open_rows, paths)


def test_files_without_rows_are_passed_over(tmp_path):
    X = given()
    for name, part in (("0", X[:0]), ("1", X[:10]), ("2", X[10:10]), ("3", X[10:])):
        np.save(tmp_path / f"{name}.npy", part)
    check_reading(open_rows(tmp_path), X)


def test_rows_can_be_used_in_a_context_and_not_after_it(tmp_path):
    np.save(tmp_path / "a.npy", given())
    with open_rows(tmp_path / "a.npy") as rows:
        model = SphericalKMeans(3, random_state=0).fit(rows)
    assert "closed" in sentence(model.predict, rows)


def test_weights_of_a_column_and_of_a_file(tmp_path):
    X, weights = given("f4"), np.random.default_rng(0).random(N)
    pq.write_table(pa.table({"v": lists(X), "w": weights}), tmp_path / "a.parquet", row_group_size=900)
    np.save(tmp_path / "w.npy", weights)
    expected = SphericalKMeans(5, random_state=0).fit(X, sample_weight=weights)
    for given_weights in ("w", tmp_path / "w.npy"):
        rows = open_rows(tmp_path / "a.parquet", weights=given_weights)
        found = SphericalKMeans(5, random_state=0).fit(rows)
        np.testing.assert_array_equal(found.cluster_centers_, expected.cluster_centers_)
        assert "weighted" in repr(rows)
    assert "one place" in sentence(SphericalKMeans(5).fit, rows, sample_weight=weights)
    np.save(tmp_path / "w.npy", weights[:5])
    assert "one number per row" in sentence(open_rows, tmp_path / "a.parquet", weights=tmp_path / "w.npy")
    np.save(tmp_path / "a.npy", X)
    assert "neither" in sentence(open_rows, tmp_path / "a.npy", weights="w")
    assert "has no column 'x'" in sentence(open_rows, tmp_path / "a.parquet", weights="x")


# ------------------------------------------------------------------------------------------------------ sentences


def test_sentences_about_paths(tmp_path):
    assert "does not exist" in sentence(open_rows, tmp_path / "none.npy")
    assert "none is like it" in sentence(open_rows, str(tmp_path / "*.npy"))
    assert "empty list" in sentence(open_rows, [])
    assert "takes a path" in sentence(open_rows, 5)
    assert "has none that end in" in sentence(open_rows, tmp_path)
    (tmp_path / "a.csv").write_text("1,2\n")
    assert "armillary convert" in sentence(open_rows, tmp_path / "a.csv")
    (tmp_path / "a.npy.gz").touch()
    assert "Unpack it" in sentence(open_rows, tmp_path / "a.npy.gz")
    np.save(tmp_path / "a.npy", given())
    pq.write_table(pa.table({"v": lists(given())}), tmp_path / "a.parquet")
    assert "1 npy" in sentence(open_rows, tmp_path)
    assert "one array" in sentence(open_rows, tmp_path / "a.npy", column="v")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_what_can_be_read_once_is_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe.npy")
    for pipe in (tmp_path / "pipe.npy", "-"):
        assert "only once" in sentence(open_rows, pipe)


@pytest.mark.parametrize(
    ("part", "words"), [(np.ones((5, D + 1), "f2"), "one width"), (np.ones((5, D), "f4"), "one dtype")]
)
def test_shards_that_do_not_go_together(tmp_path, part, words):
    np.save(tmp_path / "a.npy", given())
    np.save(tmp_path / "b.npy", part)
    said = sentence(open_rows, tmp_path)
    assert words in said
    assert "b.npy" in said


@pytest.mark.parametrize("ending", ["parquet", "arrow"])
@pytest.mark.parametrize(
    ("values", "words"),
    [
        ([[1.0, 2.0], [3.0, 4.0], None], "has none in row 2"),
        ([[1.0, 2.0], [3.0, None], [1.0, 2.0]], "misses one in row 1"),
        ([[1.0, 2.0], [3.0, 4.0], [5.0]], "row 2 (counted from 0 in this file) has 1"),
    ],
)
def test_lists_that_are_not_vectors(tmp_path, ending, values, words):
    table = pa.table({"v": pa.array(values, pa.list_(pa.float32()))})
    path = tmp_path / f"a.{ending}"
    for form in ({}, {"compression": "none", "use_dictionary": False}):
        if ending == "parquet":
            pq.write_table(table, path, **form)
        else:
            write_arrow(path, table)
        assert words in sentence(lambda: open_rows(path)[:])


def test_sentences_about_columns(tmp_path):
    X = given("f4", 10)
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"a": lists(X), "b": lists(X), "t": ["x"] * 10}), path)
    assert "it has 2: 'a', 'b'" in sentence(open_rows, path)
    assert open_rows(path, column="b").shape == (10, D)
    assert "has no column 'c'. Its columns: 'a', 'b', 't'" in sentence(open_rows, path, column="c")
    assert "must hold lists of numbers; it holds string" in sentence(open_rows, path, column="t")
    pq.write_table(pa.table({"t": ["x"] * 10}), path)
    assert "Embed texts first" in sentence(open_rows, path)
    pq.write_table(pa.table({"a": lists(X[:0])}), path)
    assert "at least one row" in sentence(open_rows, path)


def test_compressed_and_other_matrices(tmp_path):
    X = sp.random(20, 8, 0.5, format="csr", random_state=0)
    sp.save_npz(tmp_path / "a.npz", X)
    assert "compressed=False" in sentence(open_rows, tmp_path / "a.npz")
    sp.save_npz(tmp_path / "b.npz", X.tocsc(), compressed=False)
    assert "it is csc" in sentence(open_rows, tmp_path / "b.npz")
    sp.save_npz(tmp_path / "c.npz", X.tocoo(), compressed=False)
    assert "tocsr" in sentence(open_rows, tmp_path / "c.npz")


@pytest.mark.parametrize("name", ["a.npy", "a.npz", "a.parquet", "a.arrow"])
def test_damaged_files(tmp_path, name):
    (tmp_path / name).write_bytes(b"\x93NUMPY\x01\x00 nothing of the kind")
    assert "damaged" in sentence(open_rows, tmp_path / name)


def test_a_header_that_claims_more_than_there_is(tmp_path):
    np.save(tmp_path / "a.npy", given())
    content = (tmp_path / "a.npy").read_bytes()
    (tmp_path / "a.npy").write_bytes(content[:-100])
    assert "its header claims" in sentence(open_rows, tmp_path / "a.npy")


@pytest.mark.parametrize("form", ["npy", "csr", "stream", "file", "packed", "pages", "parquet"])
def test_files_with_bytes_changed_are_read_or_refused(tmp_path, form):
    X = given("f4", 60)
    names = {"npy": "a.npy", "csr": "a.npz", "pages": "a.parquet", "parquet": "a.parquet"}
    path = tmp_path / names.get(form, "a.arrow")
    table = pa.table({"v": lists(X, "list"), "t": ["x"] * len(X)})
    if form == "npy":
        np.save(path, X)
    elif form == "csr":
        sp.save_npz(path, sp.csr_array(X), compressed=False)
    elif form in ("pages", "parquet"):
        plain = {"compression": "none", "use_dictionary": False} if form == "pages" else {}
        pq.write_table(table, path, row_group_size=25, data_page_size=300, **plain)
    else:
        write_arrow(path, table, is_stream=form == "stream", compression="lz4" if form == "packed" else None, rows=25)
    whole, draws = path.read_bytes(), np.random.default_rng(17)
    n_refused = 0
    for _ in range(60):
        content = bytearray(whole)
        for place in draws.integers(0, len(whole), draws.integers(1, 4)):
            content[place] = draws.integers(0, 256)
        path.write_bytes(bytes(content[: draws.integers(1, len(whole))] if draws.random() < 0.2 else content))
        try:
            with np.errstate(all="ignore"):
                open_rows(path)[:]
        except (InputError, MemoryError):
            n_refused += 1
    assert n_refused > 5


def test_saved_datasets_that_are_not_plain(tmp_path):
    (tmp_path / "dataset_dict.json").write_text('{"splits": ["train", "test"]}')
    assert "has 2 splits" in sentence(open_rows, tmp_path)
    write_saved_dataset(tmp_path / "set", given())
    (tmp_path / "dataset_dict.json").write_text('{"splits": ["set"]}')
    check_reading(open_rows(tmp_path), given())
    for odd in ('[".."]', '["none"]', '["."]', "[[]]"):
        (tmp_path / "dataset_dict.json").write_text(f'{{"splits": {odd}}}')
        assert "not in it" in sentence(open_rows, tmp_path)
    (tmp_path / "dataset_dict.json").write_text('{"splits": 3}')
    assert "none is listed" in sentence(open_rows, tmp_path)
    (tmp_path / "dataset_dict.json").unlink()
    state = tmp_path / "set" / "state.json"
    state.write_text(json.dumps({"_data_files": [{"filename": "../x.arrow"}]}))
    assert "not in it" in sentence(open_rows, tmp_path / "set")
    state.write_text(json.dumps({"_indices_files": [{"filename": "i.arrow"}]}))
    assert "flatten_indices" in sentence(open_rows, tmp_path / "set")


@pytest.mark.parametrize("change", ["shrinks", "grows", "is written again", "goes"])
@pytest.mark.parametrize("ending", ["npy", "parquet"])
def test_a_file_that_changes_during_a_fit(tmp_path, change, ending):
    X = given("f4", 20_000)
    path = tmp_path / f"a.{ending}"

    def write(rows):
        np.save(path, rows) if ending == "npy" else pq.write_table(pa.table({"v": lists(rows)}), path)

    def meddle(event):
        if getattr(event, "step", 0) != 2:
            return
        if change == "goes":
            path.unlink(missing_ok=True)
        elif change == "is written again":
            time.sleep(0.02)
            write(X)
        else:
            write(X[:-1000] if change == "shrinks" else np.concatenate([X, X]))

    write(X)
    model = SphericalKMeans(5, random_state=0, tol=0.0, callbacks=meddle)
    words = {"shrinks": "shrank", "grows": "grew", "is written again": "written again", "goes": "cannot be found"}
    assert words[change] in sentence(model.fit, open_rows(path))
    assert not hasattr(model, "labels_")


def meddled(act):
    """A fit of a few passes, and something that is done once during it."""
    steps = []

    def meddle(event):
        steps.append(event)
        if getattr(event, "step", 0) == 2:
            act()

    return SphericalKMeans(5, random_state=0, tol=0.0, max_iter=4, callbacks=meddle)


@pytest.mark.parametrize("change", ["shrinks", "grows", "is replaced", "goes"])
@pytest.mark.parametrize("n_known", [1 << 10, 0], ids=["few", "many"])
def test_a_zarr_array_that_changes_during_a_fit(tmp_path, monkeypatch, change, n_known):
    """Of a chunk that went the fill value was read, and the fit ended as if nothing had been."""
    zarr = pytest.importorskip("zarr", reason="the extra zarr is not installed")
    monkeypatch.setattr("armillary.sources.zarr_arrays._FEW_FILES", n_known)
    X = given("f4")
    array = zarr.open(str(tmp_path / "a.zarr"), mode="w", shape=X.shape, chunks=(1000, 4), dtype="f4")
    array[:] = X
    files = [path for path in (tmp_path / "a.zarr").rglob("*") if path.is_file() and path.stat().st_size > 2000]
    chunk = max(files)  # one of the last columns: rows without it have a direction still

    def act():
        match change:
            case "shrinks":
                os.truncate(chunk, chunk.stat().st_size // 2)
            case "grows":
                chunk.write_bytes(chunk.read_bytes() + bytes(50))
            case "is replaced":
                (tmp_path / "other").write_bytes(chunk.read_bytes())
                os.replace(tmp_path / "other", chunk)
            case _:
                chunk.unlink(missing_ok=True)

    model = meddled(act)
    assert "must stay as it is" in sentence(model.fit, open_rows(tmp_path / "a.zarr"))
    assert not hasattr(model, "labels_")


def test_a_damaged_zarr_array(tmp_path):
    zarr = pytest.importorskip("zarr", reason="the extra zarr is not installed")
    X = given("f4")
    zarr.open(str(tmp_path / "a.zarr"), mode="w", shape=X.shape, chunks=(1000, 6), dtype="f4")[:] = X
    for path in (tmp_path / "a.zarr").rglob("*"):
        if path.is_file() and path.stat().st_size > 2000:
            path.write_bytes(bytes(100))
    rows = open_rows(tmp_path / "a.zarr")
    assert "must be a whole Zarr file" in sentence(rows.read, 0, 10)
    for name in ("zarr.json", ".zarray"):
        if (tmp_path / "a.zarr" / name).exists():
            (tmp_path / "a.zarr" / name).write_text("{")
    assert "must be a whole Zarr file" in sentence(open_rows, tmp_path / "a.zarr")


@pytest.mark.parametrize("n_features", [6, 40])
@pytest.mark.filterwarnings("ignore:.*used all:sklearn.exceptions.ConvergenceWarning")
def test_a_memory_map_whose_file_is_written_during_a_fit(tmp_path, n_features):
    X = np.random.default_rng(0).normal(size=(3000, n_features)).astype("f4")
    path = tmp_path / "a.npy"
    np.save(path, X)

    def act():
        with open(path, "r+b") as stream:
            stream.seek(-100, 2)
            stream.write(bytes(range(100)))

    model = meddled(act)
    assert "it was written again" in sentence(model.fit, np.load(path, mmap_mode="r"))
    assert not hasattr(model, "labels_")
    # a map holds on to its file, whatever has the name now; and who may write it answers for what is in it
    np.save(path, X)
    model = meddled(lambda: (path.unlink(), np.save(path, -X)))
    np.testing.assert_array_equal(model.fit(np.load(path, mmap_mode="r")).labels_, meddled(list).fit(X).labels_)
    mapped = np.load(path, mmap_mode="r+")
    meddled(lambda: mapped.__setitem__(0, mapped[1])).fit(mapped)


SHRINKING = """
import os, sys
import numpy as np
from armillary import SphericalKMeans
from armillary.exceptions import InputError

path = sys.argv[1]
for n_features in (3, 40):
    X = np.random.default_rng(0).normal(size=(5000, n_features)).astype("f4")
    if n_features == 40:
        X /= np.linalg.norm(X, axis=1, keepdims=True)
    np.save(path, X)
    mapped = np.load(path, mmap_mode="r")
    act = lambda event: getattr(event, "step", 0) == 2 and os.truncate(path, 1000)
    for model in (SphericalKMeans(5, random_state=0, tol=0.0, callbacks=act), SphericalKMeans(5)):
        try:
            model.fit(mapped[10:])
        except InputError as error:
            assert "it shrank from" in str(error), error
            print("refused")
"""


def test_a_memory_map_whose_file_becomes_shorter(tmp_path):
    """In a process of its own, which the system ended."""
    done = subprocess.run(
        [sys.executable, "-c", SHRINKING, str(tmp_path / "a.npy")], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout.split()) == (0, ["refused"] * 4), done.stderr


def test_rows_without_direction_are_named_by_file_and_row(tmp_path):
    X = given("f4")
    X[2100, 3] = np.nan
    np.save(tmp_path / "a.npy", X[:2000])
    np.save(tmp_path / "b.npy", X[2000:])
    with pytest.raises(RowError, match=r"Row 2100 of X \(row 100 of '.*b\.npy'\) contains NaN") as caught:
        SphericalKMeans(3, random_state=0).fit(open_rows(tmp_path))
    assert caught.value.row == 2100
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
    rows = sp.random(N, 50, 0.3, format="csr", random_state=0, dtype=np.float32)
    rows.data[rows.indptr[2500]] = np.inf
    sp.save_npz(tmp_path / "s.npz", rows, compressed=False)
    said = sentence(SphericalKMeans(3, random_state=0).fit, open_rows(tmp_path / "s.npz"))
    assert "(row 2,500 of" in said
    points = as_points(open_rows(tmp_path / "a.npy"), "Model")
    assert points.rows([3, 1]).shape == (2, D)
    with pytest.raises(RowError, match=r"Row 2100 .*row 100 of"):
        as_points(open_rows([tmp_path / "a.npy", tmp_path / "b.npy"]), "Model").rows([3, 2100])


@pytest.mark.parametrize("form", ["npy", "parquet", "csr"])
def test_rows_that_are_left_out_are_as_if_they_were_not_there(tmp_path, form):
    X, draws = given("f4"), np.random.default_rng(5)
    np.save(tmp_path / "weights.npy", np.arange(1.0, N + 1))
    folder = tmp_path / "rows"
    folder.mkdir()
    for number, part in enumerate(np.split(X, [1000, 1700])):
        if form == "csr":
            sp.save_npz(folder / f"{number}.npz", sp.csr_matrix(part), compressed=False)
        elif form == "parquet":
            pq.write_table(pa.table({"v": lists(part)}), folder / f"{number}.parquet", row_group_size=301)
        else:
            np.save(folder / f"{number}.npy", part)
    rows = open_rows(folder, weights=tmp_path / "weights.npy")
    every_other = np.arange(N) % 2 == 0
    far_apart = np.isin(np.arange(N), [3, 2900])
    but_one_file = (np.arange(N) < 1000) | (np.arange(N) >= 1700)
    for is_here in (draws.random(N) < 0.9, draws.random(N) < 0.1, every_other, far_apart, but_one_file):
        fewer = pickle.loads(pickle.dumps(rows.only(is_here)))
        np.testing.assert_array_equal(fewer.weights, 1.0 + np.flatnonzero(is_here))
        if form == "csr":
            np.testing.assert_array_equal(fewer[:].toarray(), X[is_here])
            np.testing.assert_array_equal(fewer[[1, 0]].toarray(), X[is_here][[1, 0]])
        else:
            if len(fewer) > 5:
                check_reading(fewer, X[is_here])
            np.testing.assert_array_equal(fewer[:], X[is_here])
        middle = len(fewer) // 2
        np.testing.assert_array_equal(
            fewer.between(middle, len(fewer)).only(np.arange(len(fewer) - middle) > 0).shape,
            (len(fewer) - middle - 1, D),
        )
        last = int(np.flatnonzero(is_here)[-1])
        assert fewer.place(len(fewer) - 1).startswith(f"row {last - 1700:,} of ")


def test_few_rows_among_many_that_are_left_out_take_little_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(shards, "_LOOKED_THROUGH_ROWS", 100)
    np.save(tmp_path / "a.npy", given("f4"))
    is_here = np.zeros(N, np.bool_)
    is_here[[0, N - 1]] = True
    asked = []
    shard = open_rows(tmp_path / "a.npy").only(is_here).shards[0]
    reader = shard.reader()
    plain = reader._reader.read
    reader._reader.read = lambda start, stop, out: asked.append(stop - start) or plain(start, stop, out)
    out = reader.read(0, 2, np.empty((2, D), np.float32))
    np.testing.assert_array_equal(out, given("f4")[[0, N - 1]])
    assert max(asked) == 100


def test_models_that_need_all_rows_say_so(tmp_path):
    np.save(tmp_path / "a.npy", given("f4", 300))
    rows = open_rows(tmp_path / "a.npy")
    for call in (DirichletProcessMixture(sampler="crp").fit, choose_model, lambda X: np.linalg.norm(X)):
        assert "X[:]" in sentence(call, rows)


def test_rows_that_take_too_much_memory_are_not_brought_home(tmp_path, monkeypatch):
    np.save(tmp_path / "a.npy", given("f4"))
    rows = open_rows(tmp_path / "a.npy")
    monkeypatch.setattr("armillary.sources.stored.free_memory", lambda: 1000)
    assert "may take half of what is free" in sentence(lambda: rows[:])
    assert rows[:10].shape == (10, D)
    assert memory.in_words(25_600_000_000) == "25.6 GB"


def test_numbers_of_rows_that_are_none(tmp_path):
    np.save(tmp_path / "a.npy", given())
    rows = open_rows(tmp_path / "a.npy")
    with pytest.raises(IndexError):
        rows[[N]]
    assert "mask" in sentence(lambda: rows["a"])
    assert rows[np.zeros(N, bool)].shape == (0, D)
    assert rows[::1000].shape == (3, D)


# ------------------------------------------------------------------------------------------------------ reading ahead


def test_stretches_are_read_ahead_by_one_thread_into_few_buffers(tmp_path):
    X = given("f4", 10_000)
    np.save(tmp_path / "a.npy", X)
    plan = [(start, start + 1000) for start in range(0, 10_000, 1000)]
    rows = open_rows(tmp_path / "a.npy")
    ahead = Ahead(rows, dict(itertools.pairwise(plan)))
    threads, places = set(), set()
    read = ahead._reader.read

    def watched(first, last, out):
        threads.add(threading.get_ident())
        return read(first, last, out)

    ahead._reader.read = watched
    for _ in range(2):
        for first, last in plan:
            with ahead.stretch(first, last) as some:
                np.testing.assert_array_equal(some, X[first:last])
                places.add(some.__array_interface__["data"][0])
    assert len(threads) == 1
    assert threading.get_ident() not in threads
    assert len(places) <= 4
    # a pass that goes elsewhere is not led astray by what was read for another
    for first, last in (plan[5], plan[2], plan[3]):
        with ahead.stretch(first, last) as some:
            np.testing.assert_array_equal(some, X[first:last])


def test_errors_of_the_reading_thread_come_to_the_pass(tmp_path):
    np.save(tmp_path / "a.npy", given())
    rows = open_rows(tmp_path / "a.npy")
    ahead = Ahead(rows, {(0, 1000): (1000, 2000)})
    (tmp_path / "a.npy").write_bytes(b"")
    for _ in range(2):
        with pytest.raises(InputError, match="shrank"), ahead.stretch(0, 1000):
            pass


# ---------------------------------------------------------------------------------------------------------- labels out


def every_model():
    yield SphericalKMeans(4, random_state=0)
    yield DPvMFMeans(1.0, random_state=0)
    yield DDPvMFMeans(1.0)
    yield Links(0.5, 0.6, 0.7)


@pytest.mark.parametrize("model", list(every_model()), ids=lambda model: type(model).__name__)
def test_labels_go_where_they_are_wanted(tmp_path, model):
    X = given("f4", 500)
    np.save(tmp_path / "a.npy", X)
    labels = model.fit(X).predict(X)
    path = tmp_path / "labels.npy"
    for rows in (X, open_rows(tmp_path / "a.npy")):
        written = model.predict(rows, out=path)
        assert isinstance(written, np.memmap)
        assert written.dtype == labels.dtype
        np.testing.assert_array_equal(np.load(path), labels)
        for dtype in (labels.dtype, np.int64, np.int16):
            into = np.empty(500, dtype)
            assert model.predict(rows, out=into) is into
            np.testing.assert_array_equal(into, labels)
        mapped = np.lib.format.open_memmap(tmp_path / "m.npy", "w+", labels.dtype, (500,))
        assert model.predict(rows, out=mapped) is mapped
        np.testing.assert_array_equal(mapped, labels)
    # not every form of sparse matrices has rows that can be taken
    np.testing.assert_array_equal(model.predict(sp.coo_matrix(X), out=np.empty(500, np.int64)), labels)


def test_labels_of_a_file_are_there_whole_or_not_at_all(tmp_path):
    X = given("f4", 5000)
    model = SphericalKMeans(4, random_state=0).fit(X)
    path = tmp_path / "labels.npy"
    before = np.array(model.predict(X[:100], out=path))
    X[4900, 0] = np.nan
    np.save(tmp_path / "a.npy", X)
    sentence(model.predict, open_rows(tmp_path / "a.npy"), out=path)
    np.testing.assert_array_equal(np.load(path), before)
    assert sorted(os.listdir(tmp_path)) == ["a.npy", "labels.npy"]


def test_sentences_about_places_for_labels(tmp_path):
    X = given("f4", 50)
    model = SphericalKMeans(4, random_state=0).fit(X)
    for out, words in (
        (np.empty(49, np.int32), "shape (50,)"),
        (np.empty(50), "signed integers"),
        (np.empty(50, np.uint8), "signed integers"),
        (tmp_path / "labels.csv", "ends in .npy"),
        (3.5, "the path of an npy file"),
    ):
        assert words in sentence(model.predict, X, out=out)
    fixed = np.empty(50, np.int32)
    fixed.flags.writeable = False
    assert "read-only" in sentence(model.predict, X, out=fixed)


def test_headers_of_shards_are_parsed_one_at_a_time(tmp_path, monkeypatch):
    """Two at once made Python 3.11.7 raise SystemError."""
    for number in range(8):
        np.save(tmp_path / f"{number}.npy", np.eye(3))
    read, under_way, most = np.lib.format.read_array_header_1_0, [], []

    def slow(stream):
        under_way.append(stream)
        most.append(len(under_way))
        time.sleep(0.01)
        under_way.pop()
        return read(stream)

    monkeypatch.setattr(np.lib.format, "read_array_header_1_0", slow)
    open_rows(tmp_path).close()
    assert len(most) == 8
    assert max(most) == 1


@pytest.mark.parametrize("kind", [pa.int64(), pa.string(), pa.large_string(), pa.dictionary(pa.int16(), pa.string())])
def test_columns_of_words_stay_on_disk(kind, tmp_path):
    cells = [7 * n for n in range(1000)] if kind == pa.int64() else [f"row {n // 3} é" for n in range(1000)]
    column = pa.array(cells, pa.string() if kind != pa.int64() else kind).cast(kind)
    table = pa.table({"key": column, "vector": lists(given(n=1000))})
    pq.write_table(table[:333], tmp_path / "0.parquet", row_group_size=100)
    write_arrow(tmp_path / "1.arrow", table[333:600].unify_dictionaries(), rows=40)
    write_arrow(tmp_path / "2.arrow", table[600:].unify_dictionaries(), is_stream=True, rows=70)
    paths = [str(tmp_path / name) for name in ("0.parquet", "1.arrow", "2.arrow")]
    found = tables.TableColumn(paths, "key")
    assert len(found) == 1000
    for first, last in ((0, 1000), (320, 350), (5, 5), (990, 2000), (0, 3), (332, 601), (599, 700), (100, 200)):
        assert found[first:last].to_pylist() == cells[first:last]
    for row in (999, 0, 332, 333, 599, 600, 450):
        assert found[row] == cells[row]
    found.close()
    with pytest.raises(InputError, match=r"has no column 'id'\. Its columns: 'key', 'vector'"):
        tables.TableColumn(paths, "id")
    write_arrow(tmp_path / "1.arrow", table[333:599], rows=40)
    with pytest.raises(InputError, match="must stay as it is"):
        found[400]
