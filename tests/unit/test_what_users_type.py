"""What users give to `fit` and as files, as they type it; each with the rows that it must mean."""

from __future__ import annotations

import pathlib
import re
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from armillary import SphericalKMeans
from armillary.exceptions import InputError, RowError
from armillary.files import read_vectors, word2vec
from armillary.files.source import Source
from armillary.validation import as_matrix

X = np.round(np.random.default_rng(0).normal(size=(12, 4)), 3)


# ------------------------------------------------------------------------------------------------ columns of lists


@pytest.mark.parametrize(
    "column",
    [
        pd.Series(X.tolist()),
        pd.Series(list(X)),
        pd.Series([tuple(row) for row in X], index=range(100, 112)),
        pd.DataFrame({"id": range(12), "embedding": list(X)})["embedding"],
        pd.DataFrame({"embedding": X.tolist()})[["embedding"]],
        pd.Series(pd.arrays.ArrowExtensionArray(pa.array(X.tolist()))),
        pl.Series("embedding", X.tolist()),
        pl.Series("embedding", X, dtype=pl.Array(pl.Float64, 4)),
        pl.DataFrame({"embedding": X.tolist()})["embedding"],
        np.array([list(row) for row in X] + [None], dtype=object)[:-1],
    ],
    ids=["lists", "arrays", "tuples", "of a frame", "a frame of one", "arrow", "polars list", "polars array",
         "polars frame", "objects"],
)  # fmt: skip
def test_a_column_of_vectors_is_taken(column):
    assert np.array_equal(as_matrix(column, "test"), X)
    model = SphericalKMeans(3, random_state=0).fit(column)
    assert np.array_equal(model.labels_, SphericalKMeans(3, random_state=0).fit(X).labels_)
    assert np.array_equal(model.predict(column), model.labels_)
    assert (model.n_features_in_, hasattr(model, "feature_names_in_")) == (4, False)


def test_a_column_of_uneven_vectors_gets_a_sentence():
    column = pd.Series([[1.0, 2.0], [1.0, 2.0], [1.0]])
    with pytest.raises(InputError, match="row 0 has 2 numbers and row 2 has 1 numbers"):
        as_matrix(column, "fit")
    with pytest.raises(InputError, match="row 1 has 2 numbers and row 2 has 'two'"):
        as_matrix(pd.Series([None, [1.0, 2.0], "two"]), "fit")


@pytest.mark.parametrize("nothing", [None, float("nan"), pd.NA])
@pytest.mark.parametrize("place", [0, 7])
def test_an_empty_cell_of_a_column_is_a_row_of_nan(nothing, place):
    cells = list(X)
    cells[place] = nothing
    column = pd.Series(cells)
    assert np.array_equal(np.flatnonzero(np.isnan(as_matrix(column, "test")).all(axis=1)), [place])
    with pytest.raises(RowError, match=f"^Row {place} of X contains NaN"):
        SphericalKMeans(3).fit(column)
    model = SphericalKMeans(3, missing="flag", random_state=0).fit(column)
    assert (model.labels_[place], model.n_features_in_, model.n_clusters_) == (-1, 4, 3)
    with pytest.raises(InputError, match=r"must be a 2-D array|does not convert"):
        SphericalKMeans(3).fit(pd.Series([nothing, nothing], dtype=object))


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (pd.Series(["[1, 2]", "[3, 4]"]), r"lists written as words: '\[1, 2\]'\. Read them first: \[json\.loads\("),
        (np.array([str(X[0].tolist())] * 2), r"got lists written as words: '\[-?[0-9., -]{23}\.\.\.'\. Read them"),
        (pd.DataFrame({"id": range(12), "e": list(X)}), r"2 columns, and column 'e' holds vectors\. .*: X\['e'\]\.$"),
        (pl.DataFrame({"id": range(12), "e": X.tolist()}), r"column 'e' holds vectors\. Give that .*: X\['e'\]\.$"),
        (np.array([[7, [1.0, 2.0]], [8, [3.0, 4.0]]], object), r"column 1 holds vectors.*: X\[:, 1\]\.$"),
        (["a parcel", "a refund"], r"got texts\. Embed texts first; armillary\.texts\.tfidf_rows\(texts\)"),
        (pd.Series(["a parcel", "a refund"]), r"got texts\. Embed texts first"),
        ("rows.npy", r"got one string or path, 'rows\.npy'\. Rows of a file are armillary\.open_rows\(path\)"),
        (pathlib.Path("rows.npy"), r"got one string or path, 'rows\.npy'\. Rows of a file are armillary"),
        (pd.DataFrame({"id": ["a", "b"], "x": [1.0, 2.0]}), "row 0 does not convert: could not convert string"),
        ({"e": X}, "got dtype object, and it does not convert"),
        ([[1.0, 2.0], "ab"], r"got setting an array element with a sequence\.[^.]*\.[^.]*\. Give every row the same"),
    ],
    ids=["words", "long words", "frame", "polars", "objects", "texts", "column of texts",
         "name", "path", "mixed", "dict", "one odd"],
)  # fmt: skip
def test_what_is_a_step_from_rows_gets_a_sentence(given, sentence):
    with pytest.raises(InputError, match=f"must (hold real numbers|be a 2-D array, one row per vector); .*{sentence}"):
        as_matrix(given, "fit")


@pytest.mark.parametrize(
    ("shape", "advice"),
    [
        ((5, 7, 384), r"X.reshape\(-1, 384\) makes a row of each vector.*X.mean\(axis=1\) is the mean of each text's"),
        ((48, 64, 3), r"X.reshape\(-1, 3\) makes a row of each pixel or point"),
        ((2, 3, 4, 5), "average the inner axes first"),
        ((9,), r"X.reshape\(1, -1\) if it is a single vector"),
    ],
)  # fmt: skip
def test_arrays_of_other_shapes_get_the_right_advice(shape, advice):
    with pytest.raises(InputError, match=advice):
        SphericalKMeans(2).fit(np.ones(shape))


# ------------------------------------------------------------------------------------------------------------ files


def written(tmp_path, name, content):
    path = tmp_path / name
    path.write_text(content) if isinstance(content, str) else path.write_bytes(content)
    return path


def test_csv_of_pandas_with_lists_as_words(tmp_path):
    path = tmp_path / "frame.csv"
    frame = pd.DataFrame({"text": [f"text {row}" for row in range(12)], "embedding": X.tolist(), "stars": range(12)})
    frame.to_csv(path, index=False)
    found = read_vectors(path)
    assert np.array_equal(found.rows, X)
    assert found.texts == frame["text"].tolist()
    assert found.notes == ("vectors from column 'embedding' (not used: 'stars')", "texts from column 'text'")


def test_csv_of_pandas_with_arrays_as_words(tmp_path):
    path = tmp_path / "frame.csv"
    pd.DataFrame({"id": range(12), "embedding": list(X)}).to_csv(path, index=False)
    assert "[" in path.read_text()
    np.testing.assert_allclose(read_vectors(path).rows, X, atol=1e-8)


def test_arrays_that_numpy_cut_short_get_a_sentence(tmp_path):
    path = tmp_path / "frame.csv"
    wide = np.random.default_rng(0).normal(size=(3, 2000))
    pd.DataFrame({"id": range(3), "embedding": list(wide)}).to_csv(path, index=False)
    with pytest.raises(InputError, match=r"row 0 .from 0. has '...' in their place, as NumPy prints long arrays"):
        read_vectors(path)


def test_a_cell_that_is_no_list_gets_a_sentence(tmp_path):
    lines = [f'{row},"[1.0, {row}]"' for row in range(150)]
    path = written(tmp_path, "frame.csv", "id,embedding\n" + "\n".join([*lines, '9,"[1.0, oops]"']) + "\n")
    with pytest.raises(InputError, match=r"row 150 \(counted from 0\) holds something else"):
        read_vectors(path)


@pytest.mark.parametrize("mark", [";", "\t", "|"])
def test_decimal_commas(tmp_path, mark):
    lines = [mark.join(str(value).replace(".", ",") for value in row) for row in X]
    path = written(tmp_path, "rows.csv", mark.join("abcd") + "\n" + "\n".join(lines) + "\n")
    assert np.array_equal(read_vectors(path).rows, X)


def test_semicolons_with_points_stay_points(tmp_path):
    path = written(tmp_path, "rows.csv", "\n".join(";".join(map(str, row)) for row in X) + "\n")
    assert np.array_equal(read_vectors(path).rows, X)


def test_a_cell_that_is_no_number_among_decimal_commas(tmp_path):
    path = written(tmp_path, "rows.csv", "a;b\n" + "0,5;1,5\n" * 200 + "0,5;x\n")
    with pytest.raises(InputError, match="numbers in column 'b'; line 202 has 'x' there"):
        read_vectors(path)


def test_y_beside_x_is_a_coordinate(tmp_path):
    path = written(tmp_path, "rows.csv", "x,y,z\n" + "".join("{},{},{}\n".format(*row) for row in X))
    found = read_vectors(path)
    assert np.array_equal(found.rows, X[:, :3])
    assert found.notes == ("vectors from 3 columns of numbers, 'x', 'y', 'z'",)
    path = written(tmp_path, "labelled.csv", "a,b,y\n" + "".join("{},{},{}\n".format(*row) for row in X))
    assert read_vectors(path).notes == ("vectors from 2 columns of numbers, 'a', 'b' (not used: 'y')",)


def test_many_columns_are_named_by_their_ends(tmp_path):
    names = ",".join(f"v{number}" for number in range(20))
    path = written(tmp_path, "rows.csv", names + "\n" + ",".join(["0.5"] * 20) + "\n")
    assert read_vectors(path).notes == ("vectors from 20 columns of numbers, 'v0' to 'v19'",)


@pytest.mark.parametrize("name", ["words.txt", "words.vec", "words.w2v"])
@pytest.mark.parametrize("end", ["", " "])  # word2vec's own tool writes a space at the end
def test_word2vec_text(tmp_path, name, end):
    words = ["the", "of", "</s>", '"', "1984", "naïve", *(f"w{row}" for row in range(6))]
    lines = [f"{word} {' '.join(map(str, row))}{end}" for word, row in zip(words, X, strict=True)]
    path = written(tmp_path, name, "\n".join(["12 4", *lines]) + "\n")
    found = read_vectors(path)
    np.testing.assert_array_equal(found.rows, X.astype(np.float32))
    assert found.ids == words


def test_word2vec_text_begins_with_a_phrase(tmp_path):
    content = "2 3\nnew york 0.1 -2e-3 1\nthe 1 2 3\n"
    found = read_vectors(written(tmp_path, "phrases.txt", content))
    assert found.ids == ["new york", "the"]
    assert not word2vec.is_word2vec(Source.of(written(tmp_path, "texts.txt", "2 3\nfour words or five\n")))


def test_glove_has_no_header(tmp_path):
    path = written(tmp_path, "glove.vec", "".join(f"w{n} {' '.join(map(str, row))}\n" for n, row in enumerate(X)))
    assert read_vectors(path).ids == [f"w{n}" for n in range(12)]


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("3 2\na 1 2\nb 3 4\n", "its first line says 3 words and 2 are there"),
        ("2 2\na 1 2\nb 3 x\n", "Line 3 of .* must be a word and 2 numbers; it is not"),
    ],
)
def test_word2vec_text_that_is_wrong(tmp_path, content, sentence):
    with pytest.raises(InputError, match=sentence):
        read_vectors(written(tmp_path, "words.vec", content))


def test_fvecs_and_bvecs(tmp_path):
    rows = X.astype("<f4")
    path = written(tmp_path, "base.fvecs", b"".join(np.int32(4).tobytes() + row.tobytes() for row in rows))
    assert np.array_equal(read_vectors(path).rows, rows)
    small = np.arange(24, dtype=np.uint8).reshape(6, 4)
    path = written(tmp_path, "base.bvecs", b"".join(np.int32(4).tobytes() + row.tobytes() for row in small))
    assert np.array_equal(read_vectors(path).rows, small)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (np.int32(4).tobytes() + bytes(15), "vectors of 4 numbers do not fill its 19 bytes"),
        (np.int32(-1).tobytes() + bytes(16), "do not fill"),
        (np.int32(4).tobytes() + bytes(16) + np.int32(3).tobytes() + bytes(16), "row 1 has 3 numbers and row 0 has 4"),
    ],
)
def test_fvecs_that_are_wrong(tmp_path, content, sentence):
    with pytest.raises(InputError, match=sentence):
        read_vectors(written(tmp_path, "base.fvecs", content))


# ------------------------------------------------------------------------------------------------ columns beside


@pytest.mark.parametrize(
    ("frame", "way"), [(pd.DataFrame, "columns=['id', 'label']"), (pl.DataFrame, "['id', 'label']")]
)
def test_a_column_of_ids_among_the_numbers_is_told(frame, way):
    columns = {f"x{number}": column for number, column in enumerate(X.T)}
    table = frame({"id": np.arange(12) + 1000.0, **columns, "label": np.arange(12) % 2})
    sentence = (
        "X of SphericalKMeans has columns whose names say ids or labels, 'id', 'label': they count as coordinates of "
        f"the vectors. Leave them out: X.drop({way})."
    )
    with pytest.warns(UserWarning, match=re.escape(sentence)):
        SphericalKMeans(2, random_state=0, n_threads=1).fit(table)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        SphericalKMeans(2, random_state=0, n_threads=1).fit(frame(columns))
        SphericalKMeans(2, random_state=0, n_threads=1).fit(frame({"x": X[:, 0], "y": X[:, 1], "z": X[:, 2]}))
