"""What files only claim is held against what they are, before memory is taken; compressed content has a limit."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import subprocess
import sys
import zipfile

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
import scipy.sparse as sp

from armillary.exceptions import InputError
from armillary.files import read_labels, read_vectors, sizes
from armillary.files.sizes import UNPACKED_FREELY, UNPACKED_TIMES, most_unpacked


def refused(path, content, **options):
    path.write_bytes(content)
    with pytest.raises(InputError) as caught:
        read_vectors(path, **options)
    return str(caught.value)


def npy_header(shape, kind="<f8", version=1):
    stream = io.BytesIO()
    write = np.lib.format.write_array_header_1_0 if version == 1 else np.lib.format.write_array_header_2_0
    write(stream, {"descr": kind, "fortran_order": False, "shape": shape})
    return stream.getvalue()


def damaged(path, kind, said):
    return (
        f"'{path}' must be a whole {kind} file; it is cut short, damaged or of another format ({said}). "
        "Fetch it again from where it came."
    )


@pytest.mark.parametrize("version", [1, 2])
def test_an_array_that_claims_a_million_million_rows(tmp_path, version):
    path = tmp_path / "a.npy"
    content = npy_header((10**12, 3), version=version) + bytes(24)
    said = "its header claims 24,000,000,000,000 bytes of numbers and 24 are there"
    assert refused(path, content) == damaged(path, "npy", said)


def test_a_header_that_claims_to_be_long(tmp_path):
    path = tmp_path / "a.npy"
    content = b"\x93NUMPY\x02\x00" + (2**32 - 1).to_bytes(4, "little") + b"{"
    said = "its header claims 4,294,967,295 bytes for itself and the file ends before"
    assert refused(path, content) == damaged(path, "npy", said)


def test_an_array_in_an_archive_that_claims_too_much(tmp_path):
    path = tmp_path / "a.npz"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("x.npy", npy_header((10**10, 2)) + bytes(32))
    said = "its header claims 160,000,000,000 bytes of numbers and 32 are there"
    assert refused(path, path.read_bytes()) == damaged(path, "npz", said)


@pytest.mark.parametrize(
    ("sizes_line", "said"),
    [
        ("1000000000 3 1", "it claims a shape of 1,000,000,000 x 3 in 69 bytes"),
        ("3 100000000000 1", "it claims a shape of 3 x 100,000,000,000 in 71 bytes"),
        ("3 3 5", "5 entries are announced and 1 lines are there"),
        ("-3 3 1", "no sizes below its comments"),
        ("2 2", "no sizes below its comments"),
        ("3 3 1 1", "no sizes below its comments"),
        ("0 0 1", "an entry lies outside its 0 rows and 0 columns"),
    ],
)
def test_a_matrix_market_file_that_claims_too_much(tmp_path, sizes_line, said):
    path = tmp_path / "a.mtx"
    content = f"%%MatrixMarket matrix coordinate real general\n{sizes_line}\n1 1 1.0\n".encode()
    assert refused(path, content) == damaged(path, "mtx", said)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("coordinate real general\n3 3 1\n0 1 1.0\n", "an entry lies outside its 3 rows and 3 columns"),
        ("coordinate real general\n3 3 1\n1 4 1.0\n", "an entry lies outside its 3 rows and 3 columns"),
        ("coordinate real general\n3 3 1\n1.5 1 1.0\n", "an entry lies outside its 3 rows and 3 columns"),
        ("coordinate real symmetric\n3 4 1\n1 1 1.0\n", "it claims to be symmetric and has 3 rows and 4 columns"),
        (
            "coordinate complex general\n3 3 1\n1 1 1.0 2.0\n",
            "a matrix of real numbers is needed, and it is coordinate",
        ),
        ("array real general\n2 2\n1\n2\n3\nx\n", "could not convert string 'x' to float64"),
    ],
)
def test_matrix_market_files_that_do_not_hold(tmp_path, body, said):
    # the last one ends the process in the reader of SciPy 1.17
    assert said in refused(tmp_path / "a.mtx", f"%%MatrixMarket matrix {body}".encode())


@pytest.mark.parametrize("symmetry", ["general", "symmetric", "skew-symmetric"])
@pytest.mark.parametrize("is_sparse", [True, False])
def test_matrix_market_files_as_scipy_writes_them(tmp_path, symmetry, is_sparse):
    import scipy.io

    square = np.random.default_rng(0).normal(size=(5, 5)).round(3)
    matrix = {"general": square, "symmetric": square + square.T, "skew-symmetric": square - square.T}[symmetry]
    path = tmp_path / "a.mtx"
    scipy.io.mmwrite(path, sp.coo_array(matrix) if is_sparse else matrix, symmetry=symmetry)
    rows = read_vectors(path).rows
    np.testing.assert_allclose(rows.toarray() if is_sparse else rows, matrix)


def test_matrix_market_files_with_comments_and_spaces(tmp_path):
    path = tmp_path / "a.mtx"
    path.write_text("%%MatrixMarket matrix coordinate pattern general\n% a\n\n 2   3  2\n1  2\n% b\n2\t3\n")
    assert read_vectors(path).rows.toarray().tolist() == [[0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]


@pytest.mark.parametrize(
    "text", ["# armillary columns: 1000000000000\n0 1:1\n", "0 1:1 999999999:1\n", "# armillary columns: x\n0 1:1\n"]
)
def test_an_svmlight_file_that_claims_too_much(tmp_path, text):
    path = tmp_path / "a.svm"
    assert refused(path, text.encode()).startswith(f"'{path}' must be a whole svmlight file; it is cut short, damaged")


def test_a_tensor_that_claims_too_much(tmp_path):
    header = json.dumps({"x": {"dtype": "F32", "shape": [10**12, 3], "data_offsets": [0, 24]}}).encode()
    path = tmp_path / "a.safetensors"
    assert "must be a whole safetensors file" in refused(path, len(header).to_bytes(8, "little") + header + bytes(24))


# ------------------------------------------------------------------------------------------------------- unpacking


@pytest.fixture
def little(monkeypatch):
    """Bombs are quick to make where little is allowed."""
    monkeypatch.setattr(sizes, "UNPACKED_FREELY", 1 << 20)


def too_far(path, n_packed, freely_mib=1):
    most = max(1 << 20, UNPACKED_TIMES * n_packed)
    return (
        f"'{path}' may unpack to at most {most:,} bytes, {freely_mib} MiB or 200 times its {n_packed:,} bytes; it goes "
        "beyond that, as files made to fill a memory do. If you trust it, unpack it yourself and give it uncompressed, "
        "as npy for example."
    )


@pytest.mark.parametrize(("ending", "pack"), [("gz", gzip.compress), ("bz2", bz2.compress), ("xz", lzma.compress)])
def test_compressed_files_that_unpack_too_far(tmp_path, little, ending, pack):
    content = pack(b"1,2\n" * (1 << 20))
    path = tmp_path / f"a.csv.{ending}"
    assert refused(path, content) == too_far(path, len(content))


def test_an_archive_that_unpacks_too_far(tmp_path, little):
    path = tmp_path / "a.npz"
    np.savez_compressed(path, np.ones((1 << 16, 8)))
    content = path.read_bytes()
    assert refused(path, content) == too_far(path, len(content))


def test_a_table_of_one_number_over_and_over(tmp_path, little):
    path = tmp_path / "a.parquet"
    pyarrow.parquet.write_table(pa.table({"x": np.ones(1 << 20), "y": np.ones(1 << 20)}), path)
    content = path.read_bytes()
    assert refused(path, content) == too_far(path, len(content))


def test_an_arrow_file_that_unpacks_too_far(tmp_path, little):
    path = tmp_path / "a.arrow"
    table = pa.table({"x": np.ones(1 << 20), "y": np.ones(1 << 20)})
    with pa.ipc.new_file(path, table.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_table(table, max_chunksize=1 << 14)
    content = path.read_bytes()
    assert refused(path, content) == too_far(path, len(content))


def test_the_limit_grows_with_the_file():
    assert most_unpacked(10) == UNPACKED_FREELY
    assert most_unpacked(UNPACKED_FREELY) == UNPACKED_TIMES * UNPACKED_FREELY


def test_plain_files_have_no_limit(tmp_path, little):
    path = tmp_path / "a.npy"
    np.save(path, np.ones((1 << 16, 8)))
    assert read_vectors(path).rows.shape == (1 << 16, 8)


# ------------------------------------------------------------------------------------------- pointers that files have


def hostile_archives():
    good = sp.csr_array(np.eye(4, 5) + np.eye(4, 5, 1))
    csr = {"format": b"csr", "shape": [4, 5], "data": good.data, "indices": good.indices}
    yield "csr", {**csr, "indptr": [0, 10**8, 4, 6, 8]}
    yield "csc", {**csr, "format": b"csc", "indices": good.indices + 10**7, "indptr": [0, 2, 4, 6, 7, 8]}
    rows = np.array([0, 10**7, 2])
    yield "coo", {"format": b"coo", "shape": [4, 5], "data": np.ones(3), "row": rows, "col": [0, 1, 2]}
    yield "shape", {"format": b"coo", "shape": [10**11, 5], "data": np.ones(1), "row": [5], "col": [0]}
    yield "form", {**csr, "format": b"xyz", "indptr": good.indptr}
    yield "missing", csr


@pytest.mark.parametrize(("name", "arrays"), list(hostile_archives()))
def test_pointers_of_archives_are_looked_at(tmp_path, name, arrays):
    path = tmp_path / f"{name}.npz"
    np.savez(path, **{key: np.array(value) for key, value in arrays.items()})
    said = refused(path, path.read_bytes())
    assert str(path) in said


def test_convert_ends_with_a_sentence(tmp_path):
    path = tmp_path / "a.npz"
    np.savez(path, **{key: np.array(value) for key, value in next(hostile_archives())[1].items()})
    command = [sys.executable, "-m", "armillary", "convert", str(path), str(tmp_path / "b.npy")]
    done = subprocess.run(command, capture_output=True, check=False, text=True)
    assert done.returncode == 2
    assert "The row pointers of The matrix of" in done.stderr


def test_words_that_belong_to_other_rows(tmp_path):
    path = tmp_path / "a.npz"
    np.savez(path, x=np.eye(3), ids=np.array(["a", "b"]))
    assert refused(path, path.read_bytes()) == (
        f"'{path}' must have ids for each of the 3 rows; it has 2 of them. Check that both come from the same rows."
    )


def test_columns_of_words_in_codes(tmp_path):
    path = tmp_path / "a.parquet"
    words = pa.array(["one", "two", "three"]).dictionary_encode()
    pyarrow.parquet.write_table(pa.table({"w": words, "x": [1.0, 2, 3], "z": [1.0, 2, 3]}), path)
    assert read_vectors(path).ids == ["one", "two", "three"]


def test_labels_in_brackets_without_end(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text("[" * 100_000)
    with pytest.raises(InputError, match=r"^Line 1 of '.*' must be JSON; it does not read"):
        read_labels(path, 1)
