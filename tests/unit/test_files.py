"""Vectors in files: every format comes back as it was written, and every wrong file gets its sentence."""

from __future__ import annotations

import bz2
import errno
import gzip
import io
import lzma
import os
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
import scipy.sparse as sp

from armillary.exceptions import InputError
from armillary.files import Vectors, read_labels, read_vectors, write_vectors
from armillary.files.formats import FORMATS, format_of, sniffed

ENDINGS = {name: f".{name}" for name in FORMATS}
DENSE = [name for name in FORMATS if name != "svmlight"]
WITH_WORDS = ("npz", "csv", "tsv", "jsonl", "parquet", "arrow")


def rows(n_rows=7, n_features=5, dtype=np.float64, seed=0):
    return np.random.default_rng(seed).normal(size=(n_rows, n_features)).astype(dtype)


def sentence(*arguments, **options):
    with pytest.raises(InputError) as caught:
        read_vectors(*arguments, **options)
    return str(caught.value)


# ------------------------------------------------------------------------------------------------------ round trips


@pytest.mark.parametrize("name", DENSE)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_dense_rows_come_back_to_the_bit(name, dtype, tmp_path):
    path = tmp_path / f"rows{ENDINGS[name]}"
    X = rows(dtype=dtype)
    write_vectors(path, Vectors(X))
    back = read_vectors(path)
    assert back.format == name
    # text has the digits of float32 and is read as float64
    assert back.rows.dtype == (np.float64 if name in ("csv", "tsv", "jsonl", "mtx") else dtype)
    assert np.array_equal(back.rows.astype(dtype), X)
    assert back.ids is None
    assert back.texts is None


@pytest.mark.parametrize("name", ["npz", "mtx", "svmlight"])
def test_sparse_rows_come_back_with_their_shape(name, tmp_path):
    path = tmp_path / f"rows{ENDINGS[name]}"
    dense = sp.random_array((20, 50), density=0.1, random_state=np.random.default_rng(0)).toarray()
    dense[:, 49] = 0.0  # a last column without entries
    X = sp.csr_array(dense)
    write_vectors(path, Vectors(X))
    back = read_vectors(path).rows
    assert sp.issparse(back)
    assert back.shape == X.shape
    assert np.array_equal(back.toarray(), X.toarray())


@pytest.mark.parametrize("name", ["npy", "csv", "parquet", "safetensors"])
def test_sparse_rows_are_made_dense_for_other_formats(name, tmp_path):
    X = sp.csr_array(np.eye(4)[:, :3] + 0.5 * np.eye(4)[:, 1:])
    write_vectors(tmp_path / f"rows{ENDINGS[name]}", Vectors(X))
    assert np.array_equal(read_vectors(tmp_path / f"rows{ENDINGS[name]}").rows, X.toarray())


@pytest.mark.parametrize("name", WITH_WORDS)
def test_ids_and_texts_are_carried(name, tmp_path):
    path = tmp_path / f"rows{ENDINGS[name]}"
    texts = [
        'a "quoted" one',
        "two\nlines",
        "comma, semicolon; tab\t",
        "Größe",
        "",
        "same words here",
        "same words here",
    ]
    vectors = Vectors(rows(), [f"row-{number}" for number in range(7)], texts)
    write_vectors(path, vectors)
    back = read_vectors(path)
    assert np.array_equal(back.rows, vectors.rows)
    assert back.ids == vectors.ids
    assert back.texts == vectors.texts


@pytest.mark.parametrize("name", FORMATS)
def test_standard_input_and_output(name, monkeypatch):
    X = sp.csr_array(np.abs(rows())) if name == "svmlight" else rows()
    out = io.TextIOWrapper(io.BytesIO())
    monkeypatch.setattr(sys, "stdout", out)
    write_vectors("-", Vectors(X), format=name)
    content = out.buffer.getvalue()
    for said in (None, name):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
        back = read_vectors("-", format=said)
        # tabs are found in a csv as well
        assert back.format == ("csv" if name == "tsv" and said is None else name)
        found = back.rows.toarray() if name == "svmlight" else back.rows
        assert np.array_equal(found, X.toarray() if name == "svmlight" else X)


@pytest.mark.parametrize(("ending", "pack"), [(".gz", gzip.compress), (".bz2", bz2.compress), (".xz", lzma.compress)])
@pytest.mark.parametrize("name", ["npy", "csv", "safetensors", "jsonl"])
def test_compressed_files_are_read(name, ending, pack, tmp_path):
    write_vectors(tmp_path / f"rows.{name}", Vectors(rows()))
    path = tmp_path / f"rows.{name}{ending}"
    path.write_bytes(pack((tmp_path / f"rows.{name}").read_bytes()))
    assert np.array_equal(read_vectors(path).rows, rows())
    path.write_bytes(path.read_bytes()[:40])
    assert f"'{path}' must be a whole {ending} file; it is cut short or damaged" in sentence(path)


def test_large_arrays_are_mapped_and_small_ones_read(tmp_path, monkeypatch):
    path = tmp_path / "rows.npy"
    np.save(path, rows())
    assert not isinstance(read_vectors(path).rows, np.memmap)
    monkeypatch.setattr("armillary.files.arrays.CONVERT_AT_ONCE", 100)
    mapped = read_vectors(path).rows
    assert isinstance(mapped, np.memmap)
    assert np.array_equal(mapped, rows())


def test_a_file_that_fails_to_be_written_is_not_there(tmp_path, monkeypatch):
    def fail(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    for name in FORMATS:
        with pytest.raises(OSError, match="No space left"):
            write_vectors(tmp_path / f"rows{ENDINGS[name]}", Vectors(rows()))
    assert list(tmp_path.iterdir()) == []


# ------------------------------------------------------------------------------------------------------- layouts


@pytest.mark.parametrize(
    ("text", "n_rows", "ids", "texts"),
    [
        ("1,2\n3,4\n", 2, None, None),
        ("a,b\n1,2\n3,4\n", 2, None, None),
        ("0,1\n1.5,2\n3,4\n", 2, None, None),  # pandas names columns so
        ("0,1\n1,0\n", 2, None, None),  # ... but these are rows
        ("key 1 2\nindex 3 4\n", 2, ["key", "index"], None),  # words, not names of columns
        (",0,1\n0,1.5,2\n1,3,4\n", 2, ["0", "1"], None),  # ... and writes its index so
        ("id,x,y2\n7,1,2\n9,3,4\n", 2, ["7", "9"], None),
        ("dog,1,2\ncat,3,4\n", 2, ["dog", "cat"], None),
        ("1;2\n3;4\n", 2, None, None),
        ("1 2\n3 4\n", 2, None, None),
        ("word 1 2\nother 3 4\n", 2, ["word", "other"], None),
        ("text,x,z\nhello there,1,2\nhello there,3,4\n", 2, None, ["hello there", "hello there"]),
        ("x,z,label\n1,2,0\n3,4,1\n", 2, None, None),  # labels are no coordinates
        ("\ufeff1,2\n3,4\n\n", 2, None, None),
        ("1,2\r\n3,4\r\n", 2, None, None),
        ("1e-3,2\nnan,4\n", 2, None, None),
        ("1, 2\n 3,4\n", 2, None, None),
        ("1,2,\n3,4,\n", 2, None, None),
        ('"a; b, c",1,2\n"d, e",3,4\n', 2, ["a; b, c", "d, e"], None),
        ("name\tx\tz\nö, ü\t1\t2\nß; é\t3\t4\n", 2, ["ö, ü", "ß; é"], None),
        ("+1.0,-2.\n.3,4E2\n", 2, None, None),
    ],
)
def test_tables_of_many_layouts(text, n_rows, ids, texts, tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text(text, encoding="utf-8")
    found = read_vectors(path)
    assert found.rows.shape == (n_rows, 2)
    assert found.ids == ids
    assert found.texts == texts


def test_a_header_can_be_told(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("0,1\n2.5,3\n")
    assert read_vectors(path).rows.tolist() == [[2.5, 3.0]]
    assert read_vectors(path, has_header=False).rows.tolist() == [[0.0, 1.0], [2.5, 3.0]]
    path.write_text("5,1\n2,3\n")
    assert read_vectors(path, has_header=True).rows.tolist() == [[2.0, 3.0]]


def test_columns_can_be_named(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("a,b,code,words\n1,2,10,x\n3,4,20,x\n")
    found = read_vectors(path, id_column="code", text_column="words")
    assert found.rows.tolist() == [[1.0, 2.0], [3.0, 4.0]]
    assert found.ids == ["10", "20"]
    assert found.texts == ["x", "x"]
    assert found.notes == (
        "vectors from 2 columns of numbers, 'a', 'b'",
        "ids from column 'code'",
        "texts from column 'words'",
    )


def test_rows_wider_than_a_block_of_the_table(tmp_path, monkeypatch):
    monkeypatch.setattr("armillary.files.separated._SAMPLE_BYTES", 1 << 10)
    monkeypatch.setattr("armillary.files.separated._BLOCK_BYTES", 1 << 10)
    X = rows(60, 2000).round(6)
    for has_words in (False, True):
        vectors = Vectors(X, texts=[f"text {n % 2}" for n in range(60)] if has_words else None)
        write_vectors(tmp_path / "rows.csv", vectors)
        back = read_vectors(tmp_path / "rows.csv")
        assert np.array_equal(back.rows, X)
        assert back.texts == vectors.texts


def test_many_rows_of_a_table_are_read_alike(tmp_path):
    X = rows(20_000, 12)
    write_vectors(tmp_path / "rows.csv", Vectors(X, texts=["line one\nline two"] * len(X)))
    assert np.array_equal(read_vectors(tmp_path / "rows.csv").rows, X)


@pytest.mark.parametrize("kind", [pa.list_(pa.float32()), pa.large_list(pa.float32()), pa.list_(pa.float32(), 5)])
def test_columns_of_lists(kind, tmp_path):
    X = rows(dtype=np.float32)
    table = pa.table({"id": [f"r{n}" for n in range(7)], "embedding": pa.array(X.tolist(), kind), "n": list(range(7))})
    pyarrow.parquet.write_table(table, tmp_path / "rows.parquet")
    found = read_vectors(tmp_path / "rows.parquet")
    assert found.rows.dtype == np.float32
    assert np.array_equal(found.rows, X)
    assert found.ids == table["id"].to_pylist()


def test_a_slice_of_a_table_of_lists(tmp_path):
    X = rows(dtype=np.float32)
    table = pa.table({"embedding": pa.array(X.tolist(), pa.list_(pa.float32(), 5))}).slice(2, 3)
    with pa.OSFile(str(tmp_path / "rows.arrow"), "wb") as stream, pa.ipc.new_file(stream, table.schema) as writer:
        writer.write_table(table)
    assert np.array_equal(read_vectors(tmp_path / "rows.arrow").rows, X[2:5])


def test_columns_of_numbers_keep_float32(tmp_path):
    X = rows(dtype=np.float32)
    pyarrow.parquet.write_table(pa.table({f"x{n}": X[:, n] for n in range(5)}), tmp_path / "rows.parquet")
    found = read_vectors(tmp_path / "rows.parquet").rows
    assert found.dtype == np.float32
    assert np.array_equal(found, X)


def test_json_lines_of_every_kind(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text('[1, 2]\n\n{"id": 7, "text": "hi", "embedding": [3, 4]}\n[[5, 6], [7, 8]]\n')
    found = read_vectors(path)
    assert found.rows.tolist() == [[1, 2], [3, 4], [5, 6], [7, 8]]
    assert found.ids == ["", "7", "", ""]
    assert found.texts == ["", "hi", "", ""]


def test_texts_from_a_file_beside(tmp_path):
    np.save(tmp_path / "rows.npy", rows(3))
    (tmp_path / "texts.txt").write_text("one\n\nthree\n")
    assert read_vectors(tmp_path / "rows.npy", texts=tmp_path / "texts.txt").texts == ["one", "", "three"]
    (tmp_path / "texts.jsonl").write_text('"one"\n{"text": "two"}\n"three"\n')
    assert read_vectors(tmp_path / "rows.npy", texts=tmp_path / "texts.jsonl").texts == ["one", "two", "three"]
    (tmp_path / "texts.csv").write_text('text,n\n"one, and",1\ntwo,2\n')
    said = sentence(tmp_path / "rows.npy", texts=tmp_path / "texts.csv")
    assert said == (
        f"'{tmp_path / 'texts.csv'}' must have texts for each of the 3 rows; it has 2. "
        "Check that both come from the same rows."
    )


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("truth.txt", "a\nb\na\n"),
        ("truth.csv", "label\na\nb\na\n"),
        ("truth.csv", "row,cluster\n0,a\n1,b\n2,a\n"),
        ("truth.tsv", "x\tlabel\n1\ta\n2\tb\n3\ta\n"),
        ("truth.jsonl", '"a"\n"b"\n{"label": "a"}\n'),
    ],
)
def test_labels_from_files(name, content, tmp_path):
    (tmp_path / name).write_text(content)
    assert read_labels(tmp_path / name, 3).tolist() == ["a", "b", "a"]


def test_labels_from_arrays_and_targets(tmp_path):
    truth = np.array([1, 0, 1])
    np.save(tmp_path / "truth.npy", truth[:, None])
    np.savez(tmp_path / "truth.npz", truth=truth)
    (tmp_path / "truth.svm").write_text("1 1:2\n0 1:3\n1 2:1\n")
    (tmp_path / "truth.csv").write_text("1\n0\n1\n")
    for name in ("truth.npy", "truth.npz", "truth.svm", "truth.csv"):
        assert read_labels(tmp_path / name, 3).tolist() == [1, 0, 1], name


# --------------------------------------------------------------------------------------------------- what is wrong


def test_sentences_about_paths(tmp_path):
    assert sentence(tmp_path / "no.npy") == f"'{tmp_path / 'no.npy'}' does not exist. Check the path."
    assert sentence(tmp_path) == f"'{tmp_path}' must be a file; it is a folder. Name a file in it."
    (tmp_path / "rows.npy").touch()
    assert "must hold vectors; it is empty" in sentence(tmp_path / "rows.npy")
    (tmp_path / "rows.abc").write_text("1,2\n")
    assert sentence(tmp_path / "rows.abc").startswith(
        f"The ending of '{tmp_path / 'rows.abc'}' must tell its format; it has '.abc', and those known are .npy, "
    )
    assert read_vectors(tmp_path / "rows.abc", format="csv").rows.shape == (1, 2)
    assert sentence(tmp_path / "rows.abc", format="xls") == (
        f"A format must be one of {', '.join(FORMATS)}; got 'xls'."
    )


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="the superuser may read everything")
def test_sentence_about_permission(tmp_path):
    np.save(tmp_path / "rows.npy", rows())
    (tmp_path / "rows.npy").chmod(0)
    assert "cannot be read: Permission denied. Check its permissions." in sentence(tmp_path / "rows.npy")


@pytest.mark.parametrize("name", [name for name in FORMATS if name not in ("csv", "tsv", "jsonl", "mtx", "svmlight")])
@pytest.mark.parametrize("share", [0.05, 0.3, 0.6, 0.95])
def test_every_cut_binary_file_is_refused(name, share, tmp_path):
    path = tmp_path / f"rows{ENDINGS[name]}"
    write_vectors(path, Vectors(rows(200, 8)))
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])
    said = sentence(path)
    assert said.startswith(f"'{path}' must be a whole {name} file; it is cut short, damaged or ")
    assert said.endswith("Fetch it again from where it came.")
    assert "\n" not in said


def test_cut_text_files_are_refused(tmp_path):
    for name, place in (("mtx", -30), ("jsonl", -5), ("csv", -30)):
        path = tmp_path / f"rows.{name}"
        write_vectors(path, Vectors(rows(20, 8)))
        path.write_bytes(path.read_bytes()[:place])
        assert f"'{path}'" in sentence(path)


def test_a_large_cut_array_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("armillary.files.arrays.CONVERT_AT_ONCE", 100)
    np.save(tmp_path / "rows.npy", rows(100))
    content = (tmp_path / "rows.npy").read_bytes()
    (tmp_path / "rows.npy").write_bytes(content[:-100])
    assert "must be a whole npy file; it is cut short" in sentence(tmp_path / "rows.npy")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a,b\n1,2\n3\n", "must have rows of one length; line 3 has 1 cells and the first row has 2."),
        ("1,2\n3,4\n5,6,7\n", "must have rows of one length; line 3 has 3 cells and the first row has 2."),
        ("a,b\n1,2\n3,x\n", "must have numbers in column 'b'; line 3 has 'x' there. Correct it, or say that"),
        ("a,b\n1,2\n3,\n", "must have numbers in column 'b'; line 3 has nothing there."),
        ("1,2\n3,4\n5,six\n", "must have numbers in column 'column 1'; line 3 has 'six' there."),
        ("a,b\n", "must have at least one row; it has only a header."),
        ("\n\n", "must hold vectors; it has only empty lines."),
        ("a,b\nx,y\nz,w\n", "must have columns of numbers or a column of lists; its columns: "),
    ],
)
def test_sentences_about_tables(text, said, tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text(text)
    assert said in sentence(path)
    assert sentence(path).startswith(f"'{path}' ")


def test_a_wrong_cell_far_down_is_found(tmp_path):
    path = tmp_path / "rows.csv"
    lines = ["a,b"] + [f"{n}.5,{n}" for n in range(200_000)]
    lines[150_000] = "1.5,oops"
    path.write_text("\n".join(lines))
    assert "column 'b'; line 150001 has 'oops' there" in sentence(path)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[1, 2]\n[3]\n", "Line 2 of {path} must be as long as those before it, 2 numbers; it has 1."),
        ('[1, 2]\n[3, "x"]\n', 'Line 2 of {path} must be a list of numbers; number 1 (counted from 0) is "x".'),
        ("[1, 2]\n[3, null]\n", "number 1 (counted from 0) is null"),
        ("[1, 2]\n[3, 4\n", "Line 2 of {path} must be JSON, e.g. [0.1, 0.2] or "),
        ('{"a": [1, 2]}\n', "Line 1 of {path} must have a vector under 'vector' or 'embedding' or 'x'; its keys: 'a'."),
        ("7\n", "Line 1 of {path} must be a list of numbers; got 7."),
    ],
)
def test_sentences_about_json_lines(text, said, tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text(text)
    assert said.format(path=f"'{path}'") in sentence(path)


def test_sentences_about_keys(tmp_path):
    np.savez(tmp_path / "rows.npz", a=rows(), b=rows(), n=np.arange(7))
    assert sentence(tmp_path / "rows.npz") == (
        f"'{tmp_path / 'rows.npz'}' must have one array with two axes, or be read by --key; it has 2 of them. "
        "Its keys: 'a' 7 x 5, 'b' 7 x 5, 'n' 7."
    )
    assert read_vectors(tmp_path / "rows.npz", key="b").rows.shape == (7, 5)
    missing = f"'{tmp_path / 'rows.npz'}' has no array 'c'. Its keys: 'a' 7 x 5, 'b' 7 x 5, 'n' 7."
    assert sentence(tmp_path / "rows.npz", key="c") == missing
    write_vectors(tmp_path / "rows.safetensors", Vectors(rows()), key="a")
    said = f"'{tmp_path / 'rows.safetensors'}' has no array 'c'. Its keys: 'a' 7 x 5."
    assert sentence(tmp_path / "rows.safetensors", key="c") == said
    write_vectors(tmp_path / "rows.parquet", Vectors(rows()), key="a")
    assert sentence(tmp_path / "rows.parquet", key="c") == (
        f"'{tmp_path / 'rows.parquet'}' has no column 'c'. Its columns: 'a'."
    )
    assert sentence(tmp_path / "rows.safetensors", id_column="c").startswith("--id-column names a column of a table")


def test_sentences_about_lists_in_columns(tmp_path):
    path = tmp_path / "rows.parquet"

    def said(**columns):
        pyarrow.parquet.write_table(pa.table(columns), path)
        return sentence(path)

    assert "row 0 of column 'v' has 2 numbers and row 1 has 1" in said(v=[[1.0, 2.0], [3.0]])
    assert "column 'v' has none in row 1" in said(v=[[1.0, 2.0], None])
    assert "row 1 of column 'v' misses one" in said(v=[[1.0, 2.0], [3.0, None]])
    assert "must have one column of lists, or be read by --key; it has 2: 'v', 'w'." in said(v=[[1.0]], w=[[2.0]])
    assert "column 'b' is empty in row 1" in said(a=[1.0, 2.0], b=[3.0, None])
    assert "must hold lists of numbers; it holds lists of string" in said(v=[["a", "b"]])


def test_sentences_about_shapes_and_kinds(tmp_path):
    path = tmp_path / "rows.npy"

    def said(array):
        np.save(path, array)
        return sentence(path)

    assert said(np.ones(3)).startswith(f"The array of '{path}' must be a 2-D array, one row per vector; got 1-D")
    assert said(np.ones((2, 3, 4))).startswith(f"The array of '{path}' must be a 2-D array")
    assert said(np.empty((0, 3))).startswith(f"The array of '{path}' must have at least one row")
    assert said(np.ones((3, 1))).startswith(f"The array of '{path}' must have at least 2 columns")
    assert "must hold real numbers; got strings" in said(np.array([["a", "b"]]))
    assert "it has Python objects, and such files can run code" in said(np.array([[1, None]], dtype=object))
    assert "Complex data not supported" in said(np.ones((2, 2), complex))


def test_a_format_that_is_not_what_the_ending_says(tmp_path):
    for name in ("npy", "npz", "parquet", "arrow", "safetensors", "mtx", "svmlight"):
        path = tmp_path / f"rows{ENDINGS[name]}"
        path.write_text("hello there, this is no such file\n" * 3)
        assert f"'{path}' must be a whole {name} file; it is cut short, damaged or" in sentence(path)


def test_standard_input_may_be_empty(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"")))
    assert sentence("-") == "Standard input must hold vectors; it is empty. Check the command before the pipe."


@pytest.mark.parametrize(
    ("first", "name"),
    [(b"1 1:0.5 3:2\n", "svmlight"), (b"  [1, 2]\n", "jsonl"), (b"1,2\n", "csv"), (b"%%MatrixMarket m", "mtx")],
)
def test_first_bytes_tell_the_format(first, name):
    assert sniffed(first) == name


@pytest.mark.parametrize(("path", "name"), [("a.b.npy", "npy"), ("A.CSV.GZ", "csv"), ("x.feather", "arrow")])
def test_endings_tell_the_format(path, name):
    assert format_of(path) == name
