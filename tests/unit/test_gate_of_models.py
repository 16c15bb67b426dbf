"""The gate through a model: whatever holds the rows the result is the same, and a fit that fails changes nothing."""

from __future__ import annotations

import copy
import re
import threading
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.preprocessing import StandardScaler

from armillary import DDPvMFMeans, DPvMFMeans, SphericalKMeans, points
from armillary.engines.cpu import Passes
from armillary.exceptions import InputError, InputTypeError, ParameterError

NAMES = ["east", "north", "up"]
FITTED = ["cluster_centers_", "labels_", "objective_", "inertia_", "counts_", "resultants_", "n_iter_", "n_clusters_"]


def rows(n=90, n_features=3, dtype=np.float64, seed=0):
    """Three bundles of rows around axes, of various lengths; no row is unit."""
    generator = np.random.default_rng(seed)
    centers = np.eye(3, n_features)
    made = centers[generator.integers(3, size=n)] + 0.2 * generator.normal(size=(n, n_features))
    return (made * generator.uniform(1.5, 9.0, size=(n, 1))).astype(dtype)


def units(n=90, n_features=3, dtype=np.float64, seed=0):
    made = rows(n, n_features, np.float64, seed)
    return (made / np.linalg.norm(made, axis=1, keepdims=True)).astype(dtype)


def model(**parameters):
    return SphericalKMeans(**{"n_clusters": 3, "random_state": 0, "n_threads": 1, **parameters})


def mapped(path, array, mode="r"):
    np.save(path / "rows.npy", array)
    return np.load(path / "rows.npy", mmap_mode=mode)


def assert_same_fit(one, other):
    """Equal bits in everything a fit says."""
    for name in FITTED:
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)


def snapshot(fitted):
    """Every attribute of a model and a deep copy of what it held."""
    return {name: (value, copy.deepcopy(value)) for name, value in vars(fitted).items() if name.endswith("_")}


def assert_unchanged(fitted, before):
    """The very same attributes, in identity and in bits."""
    after = {name: value for name, value in vars(fitted).items() if name.endswith("_")}
    assert after.keys() == before.keys()
    for name, (value, kept) in before.items():
        assert after[name] is value, name
        if isinstance(kept, np.ndarray):
            assert after[name].dtype == kept.dtype
            np.testing.assert_array_equal(after[name], kept, err_msg=name)
        else:
            assert after[name] == kept, name


# ---------------------------------------------------------------------------------------------- what holds the rows

HOLDERS = {
    "fortran": np.asfortranarray,
    "every other row": lambda given: np.repeat(given, 2, axis=0)[::2],
    "every other column": lambda given: np.repeat(given, 2, axis=1)[:, ::2],
    "reversed": lambda given: given[::-1].copy()[::-1],
    "some columns": lambda given: np.hstack([given, given])[:, : given.shape[1]],
    "swapped bytes": lambda given: given.astype(given.dtype.newbyteorder(">")),
    "list of lists": lambda given: given.tolist(),
    "list of arrays": list,
    "tuple": tuple,
    "objects": lambda given: given.astype(object),
    "memoryview": memoryview,
    "pandas": pd.DataFrame,
    "polars": pl.DataFrame,
    "arrow": lambda given: pa.table(dict(zip(NAMES, given.T, strict=True))),
}


@pytest.mark.parametrize("make", [rows, units])
@pytest.mark.parametrize("hold", HOLDERS.values(), ids=HOLDERS)
def test_what_holds_the_rows_does_not_matter(make, hold):
    given, held = make(), hold(make())
    expected, found = model().fit(given), model().fit(held)
    assert_same_fit(found, expected)
    assert found.n_features_in_ == 3
    assert found.score(held) == expected.score(given)
    np.testing.assert_array_equal(found.transform(held), expected.transform(given))
    np.testing.assert_array_equal(found.predict(held), found.labels_)


@pytest.mark.parametrize("dtype", ["f4", "f2", "?", "i1", "u1", "i2", "i4", "i8", "u8", "longdouble"])
def test_other_numbers_are_widened(dtype):
    given = np.abs(np.round(rows() * 4)) + np.eye(3)[np.arange(90) % 3]
    given = given.astype(dtype)
    expected = model().fit(given.astype(np.float32 if np.dtype(dtype).itemsize <= 2 or dtype == "f4" else np.float64))
    found = model().fit(given)
    assert_same_fit(found, expected)
    assert found.cluster_centers_.dtype == np.float64
    assert found.labels_.dtype == np.int32
    assert found.transform(given).dtype == expected.transform(given).dtype


def test_read_only_rows_and_weights_are_taken():
    for make in (rows, units):
        given, weights = make(), np.linspace(0.0, 2.0, 90)
        given.flags.writeable = weights.flags.writeable = False
        assert_same_fit(model().fit(given, sample_weight=weights), model().fit(make(), sample_weight=weights.copy()))


@pytest.mark.parametrize("hold", [np.array, sp.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("make", [rows, units])
def test_the_callers_data_are_left_alone(hold, make):
    given, weights = hold(make()), np.linspace(0.1, 2.0, 90)
    before = copy.deepcopy(given)
    fitted = model().fit(given, sample_weight=weights)
    fitted.predict(given)
    fitted.transform(given)
    fitted.score(given)
    fitted.partial_fit(given)
    assert (given != before).sum() == 0
    np.testing.assert_array_equal(weights, np.linspace(0.1, 2.0, 90))


@pytest.mark.parametrize(("dtype", "size"), [("f8", 1e-200), ("f8", 1e200), ("f8", 1e307), ("f4", 1e37), ("f4", 1e-38)])
@pytest.mark.parametrize("hold", [np.array, sp.csr_array], ids=["dense", "sparse"])
def test_the_length_of_rows_does_not_matter(dtype, size, hold):
    given = units(dtype=dtype)
    long = (given.astype(np.float64) * size).astype(dtype)
    expected, found = model().fit(hold(given)), model().fit(hold(long))
    np.testing.assert_array_equal(found.labels_, expected.labels_)
    np.testing.assert_allclose(found.cluster_centers_, expected.cluster_centers_, atol=1e-6 if dtype == "f4" else 1e-14)
    np.testing.assert_array_equal(expected.predict(hold(long)), expected.labels_)


# -------------------------------------------------------------------------------------------------- memory maps


@pytest.mark.parametrize("make", [rows, units])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
def test_memory_maps(tmp_path, make, dtype):
    given = make(dtype=dtype)
    held = mapped(tmp_path, given)
    expected, found = model().fit(given), model().fit(held)
    assert_same_fit(found, expected)
    np.testing.assert_array_equal(found.predict(held), expected.labels_)
    np.testing.assert_array_equal(found.transform(held), expected.transform(given))


def test_a_memory_map_in_fortran_order(tmp_path):
    held = mapped(tmp_path, np.asfortranarray(units()))
    assert not held.flags.c_contiguous
    assert_same_fit(model().fit(held), model().fit(units()))


def test_a_memory_map_that_may_be_written_is_not(tmp_path):
    model().fit(mapped(tmp_path, rows(), "r+"))
    np.testing.assert_array_equal(np.load(tmp_path / "rows.npy"), rows())


# 5,000 rows: more than one lane, and more than one block of rows converted at a time
LARGE = [(5000, 3, np.float32), (5000, 3, np.float64), (5000, 20, np.float32), (5000, 20, np.float64)]


@pytest.mark.parametrize(("n", "n_features", "dtype"), LARGE)
@pytest.mark.parametrize("hold", ["array", "memory map"])
def test_rows_converted_block_by_block_give_the_bits_of_rows_converted_at_once(
    tmp_path, monkeypatch, n, n_features, dtype, hold
):
    given = rows(n, n_features, dtype)
    weights = np.random.default_rng(1).uniform(0.5, 2.0, size=n)
    expected = model(max_iter=20).fit(given, sample_weight=weights)
    monkeypatch.setattr(points, "CONVERT_AT_ONCE", 1000)
    held = given if hold == "array" else mapped(tmp_path, given)
    found = model(max_iter=20).fit(held, sample_weight=weights)
    assert_same_fit(found, expected)
    np.testing.assert_array_equal(found.predict(held), expected.labels_)


@pytest.mark.parametrize("n_features", [3, 20])
def test_large_rows_that_are_unit_give_equal_bits_too(tmp_path, monkeypatch, n_features):
    given = units(5000, n_features)
    expected = model().fit(given)
    monkeypatch.setattr(points, "CONVERT_AT_ONCE", 1000)
    assert_same_fit(model().fit(given), expected)
    assert_same_fit(model().fit(mapped(tmp_path, given)), expected)


# ------------------------------------------------------------------------------------------------------- sparse rows


def sparse_rows(n=90, n_features=12, dtype=np.float64):
    made = rows(n, n_features, dtype)
    made[np.abs(made) < 0.8] = 0.0
    made[np.arange(n), np.arange(n) % 3] += 2.0
    return made


@pytest.mark.parametrize("form", ["csr", "csc", "coo", "lil", "dok", "bsr"])
@pytest.mark.parametrize("kind", ["array", "matrix"])
def test_sparse_forms_give_one_result(form, kind):
    given = sparse_rows()
    expected = model().fit(sp.csr_array(given))
    held = getattr(sp, f"{form}_{kind}")(given)
    found = model().fit(held)
    assert_same_fit(found, expected)
    np.testing.assert_array_equal(found.predict(held), expected.labels_)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("algorithm", ["lloyd", "hamerly"])
def test_sparse_and_dense_rows_agree(dtype, algorithm):
    given = sparse_rows(dtype=dtype)
    start = given[:3]
    dense = model(init=start, algorithm=algorithm).fit(given)
    sparse = model(init=start, algorithm=algorithm).fit(sp.csr_array(given))
    np.testing.assert_array_equal(sparse.labels_, dense.labels_)
    np.testing.assert_allclose(
        sparse.cluster_centers_, dense.cluster_centers_, atol=1e-6 if dtype == np.float32 else 1e-14
    )
    np.testing.assert_array_equal(dense.predict(sp.csr_array(given)), dense.labels_)
    np.testing.assert_array_equal(sparse.predict(given), sparse.labels_)


@pytest.mark.parametrize("kind", [sp.csr_array, sp.csr_matrix])
def test_rows_are_never_made_dense(monkeypatch, kind):
    """Only the directions are dense: no call asks for more than a few rows as an array."""

    def refuse(self, *arguments, **options):
        assert self.shape[0] <= 10
        return original(self, *arguments, **options)

    held = kind(sparse_rows())
    original = sp.csr_array.toarray
    for owner in (sp.csr_array, sp.csr_matrix):
        monkeypatch.setattr(owner, "toarray", refuse)
        monkeypatch.setattr(owner, "todense", refuse)
    for parameters in ({"algorithm": "hamerly"}, {"algorithm": "lloyd"}, {"init": "random", "n_init": 2}):
        fitted = model(**parameters).fit(held, sample_weight=np.linspace(0.5, 1.0, 90))
        fitted.predict(held)
        fitted.transform(held)
        fitted.score(held)
        fitted.partial_fit(held)
    model().partial_fit(held)


def test_duplicate_entries_count_once_as_their_sum():
    given = sp.coo_array(sparse_rows())
    order = np.random.default_rng(0).permutation(2 * given.nnz)
    row, column = np.tile(given.row, 2)[order], np.tile(given.col, 2)[order]
    # halves are exact, so the two halves sum to the entry
    data = np.tile(given.data / 2, 2)[order]
    by_row = np.argsort(row, kind="stable")
    indptr = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=90))])
    held = sp.csr_array((data[by_row], column[by_row], indptr), shape=given.shape)
    assert not held.has_canonical_format
    n_stored = held.nnz
    assert_same_fit(model().fit(held), model().fit(sp.csr_array(given)))
    assert held.nnz == n_stored


def test_unsorted_indices_change_nothing():
    given = sp.csr_array(sparse_rows())
    held = given.copy()
    for start, stop in zip(held.indptr, held.indptr[1:], strict=False):
        held.indices[start:stop] = held.indices[start:stop][::-1].copy()
        held.data[start:stop] = held.data[start:stop][::-1].copy()
    held.has_sorted_indices = held.has_canonical_format = False
    before = held.indices.copy()
    assert_same_fit(model().fit(held), model().fit(given))
    np.testing.assert_array_equal(held.indices, before)


def test_explicit_zeros_change_nothing():
    given = sp.csr_array(sparse_rows())
    full = sp.csr_array(np.ones(given.shape))
    full.data[:] = sparse_rows().ravel()
    assert full.nnz > given.nnz
    expected, found = model().fit(given), model().fit(full)
    np.testing.assert_array_equal(found.labels_, expected.labels_)
    np.testing.assert_allclose(found.cluster_centers_, expected.cluster_centers_, atol=1e-14)


def test_long_indices():
    held = sp.csr_array(sparse_rows())
    expected = model().fit(held)
    held.indices, held.indptr = held.indices.astype(np.int64), held.indptr.astype(np.int64)
    assert_same_fit(model().fit(held), expected)


def test_columns_outside_the_matrix_are_refused_before_they_are_written_to():
    held = sp.csr_matrix((np.ones(4), np.array([0, 1, 2, 3]), np.arange(5)), shape=(4, 3))
    with pytest.raises(
        InputError, match=r"^Row 3 of X names column 3; SphericalKMeans got .* Give the matrix its true"
    ):
        model(n_clusters=2).fit(held)


# -------------------------------------------------------------------------------------------------- one row, many rows


@pytest.mark.parametrize("n_features", [3, 20])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("hold", [np.array, sp.csr_array], ids=["dense", "sparse"])
def test_a_row_alone_gets_the_label_it_has_among_others(n_features, dtype, hold):
    given = rows(60, n_features, dtype)
    fitted = model(n_clusters=8).fit(hold(given))
    batch = fitted.predict(hold(given))
    alone = [fitted.predict(hold(given[number : number + 1])).item() for number in range(60)]
    assert alone == batch.tolist() == fitted.labels_.tolist()


def test_rows_between_two_directions_take_the_first_alone_and_among_others():
    fitted = model(n_clusters=2, init=[[1.0, 0.0], [0.0, 1.0]]).fit(np.eye(2))
    between = np.ones((50, 2))
    assert fitted.predict(between).tolist() == [0] * 50
    assert fitted.predict(between[:1]).tolist() == [0]
    assert fitted.predict(between.astype(np.float32)).tolist() == [0] * 50
    assert fitted.predict(sp.csr_array(between)).tolist() == [0] * 50


# ---------------------------------------------------------------------------------------------------- column names


# Releases of scikit-learn before narwhals ask for names in a way that polars has left.
knows_polars = hasattr(StandardScaler().fit(pl.DataFrame({"one": [1.0, 2.0]})), "feature_names_in_")
of_polars = pytest.mark.skipif(not knows_polars, reason="this scikit-learn does not read the names of a polars frame")
POLARS = pytest.param(pl.DataFrame, id="polars", marks=of_polars)


def frame(kind, names=tuple(NAMES), **options):
    given = rows(**options)
    return kind({name: given[:, number] for number, name in enumerate(names)})


@pytest.mark.parametrize("kind", [pytest.param(pd.DataFrame, id="pandas"), POLARS, pytest.param(pa.table, id="arrow")])
def test_frames_keep_their_names(kind):
    fitted = model().fit(frame(kind))
    assert fitted.feature_names_in_.tolist() == NAMES
    assert fitted.feature_names_in_.dtype == object
    np.testing.assert_array_equal(fitted.predict(frame(kind)), fitted.labels_)
    fitted.partial_fit(frame(kind))
    assert fitted.feature_names_in_.tolist() == NAMES
    assert model().partial_fit(frame(kind)).feature_names_in_.tolist() == NAMES


@of_polars
def test_frames_of_one_kind_may_follow_another():
    fitted = model().fit(frame(pd.DataFrame))
    np.testing.assert_array_equal(fitted.predict(frame(pl.DataFrame)), fitted.labels_)


@pytest.mark.parametrize("kind", [pytest.param(pd.DataFrame, id="pandas"), POLARS])
@pytest.mark.parametrize("method", ["predict", "transform", "score", "partial_fit"])
def test_wrong_names_are_refused(kind, method):
    fitted = model().fit(frame(kind))
    before = snapshot(fitted)
    with pytest.raises(
        ValueError, match=r"(?s)feature names should match.*unseen at fit time:\n- down.*missing:\n- up"
    ):
        getattr(fitted, method)(frame(kind, names=["east", "north", "down"]))
    with pytest.raises(ValueError, match="must be in the same order as they were in fit"):
        getattr(fitted, method)(frame(kind, names=["north", "east", "up"]))
    assert_unchanged(fitted, before)


def test_rows_without_names_are_taken_with_a_warning():
    fitted = model().fit(frame(pd.DataFrame))
    with pytest.warns(UserWarning, match="X does not have valid feature names, but SphericalKMeans was fitted with"):
        labels = fitted.predict(rows())
    np.testing.assert_array_equal(labels, fitted.labels_)


def test_names_after_a_fit_without_them_are_taken_with_a_warning():
    fitted = model().fit(rows())
    with pytest.warns(UserWarning, match="X has feature names, but SphericalKMeans was fitted without feature names"):
        fitted.predict(frame(pd.DataFrame))


def test_a_batch_without_names_does_not_make_the_model_forget_them():
    fitted = model().fit(frame(pd.DataFrame))
    with pytest.warns(UserWarning, match="X does not have valid feature names"):
        fitted.partial_fit(rows())
    assert fitted.feature_names_in_.tolist() == NAMES


def test_a_batch_with_names_does_not_name_a_model_without_them():
    fitted = model().fit(rows())
    with pytest.warns(UserWarning, match="X has feature names, but SphericalKMeans was fitted without"):
        fitted.partial_fit(frame(pd.DataFrame))
    assert not hasattr(fitted, "feature_names_in_")


def test_a_new_fit_takes_the_new_names_or_none():
    fitted = model().fit(frame(pd.DataFrame))
    assert fitted.fit(frame(pd.DataFrame, names=["a", "b", "c"])).feature_names_in_.tolist() == ["a", "b", "c"]
    fitted.fit(rows())
    assert not hasattr(fitted, "feature_names_in_")
    fitted.fit(pd.DataFrame(rows()))  # columns 0, 1, 2: numbers are no names
    assert not hasattr(fitted, "feature_names_in_")


def test_names_of_the_columns_that_transform_returns():
    fitted = model().set_output(transform="pandas").fit(frame(pd.DataFrame))
    held = frame(pd.DataFrame).set_index(pd.Index(range(1000, 1090)))
    table = fitted.transform(held)
    assert table.columns.tolist() == ["sphericalkmeans0", "sphericalkmeans1", "sphericalkmeans2"]
    assert table.index.tolist() == list(range(1000, 1090))


# ------------------------------------------------------------------------------------------------------------ weights


@pytest.mark.parametrize("method", ["fit", "partial_fit", "score"])
@pytest.mark.parametrize(
    ("weights", "kind", "sentence"),
    [
        (
            np.ones(89),
            InputError,
            (
                "`sample_weight` of SphericalKMeans must have one number per row, shape (90,); got (89,). "
                "Sample weights must be 1D array or scalar."
            ),
        ),
        (
            np.where(np.arange(90) == 41, -0.5, 1.0),
            InputError,
            (
                "`sample_weight` of SphericalKMeans must be finite and not negative; got -0.5 for row 41. "
                "Use 0 to leave a row out."
            ),
        ),
        (
            np.where(np.arange(90) == 41, np.nan, 1.0),
            InputError,
            (
                "`sample_weight` of SphericalKMeans must be finite and not negative; got nan for row 41. "
                "Use 0 to leave a row out."
            ),
        ),
        (
            np.zeros(90),
            InputError,
            (
                "`sample_weight` of SphericalKMeans must have a positive entry; all 90 weights are zero. "
                "Leave it out to count rows alike."
            ),
        ),
        (
            ["heavy"] * 90,
            InputTypeError,
            (
                "`sample_weight` of SphericalKMeans must hold real numbers; they do not convert: dtype <U5. "
                "Pass one number per row."
            ),
        ),
        (
            np.ones(90, dtype=complex),
            InputTypeError,
            (
                "`sample_weight` of SphericalKMeans must hold real numbers; they do not convert: dtype complex128. "
                "Pass one number per row."
            ),
        ),
    ],
    ids=["length", "negative", "nan", "zeros", "strings", "complex"],
)
def test_sentences_about_weights(method, weights, kind, sentence):
    fitted = model().fit(rows())
    before = snapshot(fitted)
    with pytest.raises(kind) as caught:
        getattr(fitted, method)(rows(), sample_weight=weights)
    assert str(caught.value) == sentence
    assert_unchanged(fitted, before)


@pytest.mark.parametrize("hold", [np.array, sp.csr_array], ids=["dense", "sparse"])
def test_a_weight_is_a_number_of_copies(hold):
    given, copies = rows(), np.arange(90) % 4
    start = given[:3]
    weighted = model(init=start).fit(hold(given), sample_weight=copies)
    repeated = model(init=start).fit(hold(np.repeat(given, copies, axis=0)))
    np.testing.assert_allclose(weighted.cluster_centers_, repeated.cluster_centers_, atol=1e-14)
    np.testing.assert_allclose(weighted.counts_, repeated.counts_)
    assert weighted.objective_ == pytest.approx(repeated.objective_)
    assert weighted.inertia_ == pytest.approx(repeated.inertia_)
    assert weighted.score(hold(given), sample_weight=copies) == pytest.approx(
        repeated.score(hold(np.repeat(given, copies, axis=0)))
    )
    batch = model(init=start).partial_fit(hold(given), sample_weight=copies)
    repeated_batch = model(init=start).partial_fit(hold(np.repeat(given, copies, axis=0)))
    np.testing.assert_allclose(batch.cluster_centers_, repeated_batch.cluster_centers_, atol=1e-14)


def test_one_number_weighs_every_row():
    one, many = model().fit(rows(), sample_weight=2.0), model().fit(rows(), sample_weight=np.full(90, 2.0))
    assert_same_fit(one, many)
    assert one.counts_.sum() == 180.0


@pytest.mark.parametrize("size", [1e-200, 1e-30, 1e30, 1e200])
def test_the_size_of_weights_does_not_matter(size):
    weights = np.random.default_rng(3).uniform(0.5, 2.0, size=90)
    # a power of two rounds nothing
    exact = 2.0 ** np.round(np.log2(size))
    expected, found = model().fit(rows(), sample_weight=weights), model().fit(rows(), sample_weight=weights * exact)
    np.testing.assert_array_equal(found.labels_, expected.labels_)
    np.testing.assert_array_equal(found.cluster_centers_, expected.cluster_centers_)
    assert found.objective_ == expected.objective_ * exact


def test_rows_of_weight_0_are_labelled_and_do_not_count():
    given = rows()
    given[::5] = [-1.0, -1.0, -1.0]
    weights = np.where(np.arange(90) % 5 == 0, 0.0, 1.0)
    fitted = model().fit(given, sample_weight=weights)
    assert fitted.counts_.sum() == 72.0
    np.testing.assert_array_equal(fitted.predict(given), fitted.labels_)


# ---------------------------------------------------------------------------------------- sentences, through the model


def spoilt(number, entry, n_features=3):
    given = rows(n_features=n_features)
    given[number] = entry
    return given


BAD_ROWS = {
    "zero": (spoilt(17, 0.0), "Row 17 of X has norm 0 and no direction; SphericalKMeans takes rows as directions."),
    "nan": (spoilt(5, np.nan), "Row 5 of X contains NaN; SphericalKMeans needs finite numbers (no NaN, no inf)."),
    "inf": (spoilt(88, -np.inf), "Row 88 of X contains inf; SphericalKMeans needs finite numbers (no NaN, no inf)."),
    "sparse zero": (sp.csr_array(spoilt(17, 0.0)), "Row 17 of X has norm 0 and no direction; SphericalKMeans takes"),
    "sparse nan": (sp.csr_matrix(spoilt(5, np.nan)), "Row 5 of X contains NaN; SphericalKMeans needs finite numbers"),
    "no rows": (np.empty((0, 3)), "X of SphericalKMeans must have at least one row; got 0 sample(s) (shape=(0, 3))"),
    "one vector": (np.ones(3), "X of SphericalKMeans must be a 2-D array, one row per vector; got 1-D of shape (3,)."),
    "complex": (rows() * 1j, "Complex data not supported: X of SphericalKMeans must hold real numbers; got dtype comp"),
    "strings": (np.full((9, 3), "a"), "X of SphericalKMeans must hold real numbers; got strings (dtype <U1). Embed"),
    "objects": (
        np.array([[1.0, 2.0, 3.0], [1.0, 2.0, "x"]], dtype=object),
        "X of SphericalKMeans must hold real numbers; got dtype object, and row 1 does not convert: could not convert",
    ),
    "ragged": (
        [[1.0, 2.0, 3.0], [1.0, 2.0]],
        "X of SphericalKMeans must be a 2-D array, one row per vector; got a row 0",
    ),
    "dates": (
        np.full((9, 3), "2024-01-01", "M8[D]"),
        "X of SphericalKMeans must hold real numbers; got dtype datetime",
    ),
    "masked": (
        np.ma.masked_equal(np.eye(3), 1.0),
        "Row 0 of X has masked entries; SphericalKMeans needs every number.",
    ),
}


@pytest.mark.parametrize("method", ["fit", "partial_fit", "predict", "transform", "score", "fit_predict"])
@pytest.mark.parametrize(("given", "sentence"), BAD_ROWS.values(), ids=BAD_ROWS)
def test_bad_rows_are_refused_everywhere_and_change_nothing(method, given, sentence):
    fitted = model().fit(frame(pd.DataFrame))
    before = snapshot(fitted)
    with pytest.raises(InputError) as caught:
        getattr(fitted, method)(given)
    assert str(caught.value).startswith(sentence)
    assert_unchanged(fitted, before)


@pytest.mark.parametrize("method", ["partial_fit", "predict", "transform", "score"])
@pytest.mark.parametrize("hold", [np.array, sp.csr_array, pd.DataFrame], ids=["dense", "sparse", "frame"])
def test_sentence_about_another_number_of_columns(method, hold):
    fitted = model().fit(rows())
    before = snapshot(fitted)
    with pytest.raises(InputError) as caught:
        getattr(fitted, method)(hold(rows(n_features=4)))
    assert str(caught.value) == (
        "X has 4 features, but SphericalKMeans is expecting 3 features as input, as in its fit. "
        "Give vectors of the same embedding."
    )
    assert_unchanged(fitted, before)


def test_sentence_about_one_column():
    with pytest.raises(
        InputError, match=r"at least 2 columns; got 1 feature\(s\) \(shape=\(90, 1\)\).* are only signs\.$"
    ):
        model().fit(rows()[:, :1])


@pytest.mark.parametrize("method", ["predict", "transform", "score"])
def test_a_model_that_is_not_fitted_says_so(method):
    with pytest.raises(NotFittedError, match="This SphericalKMeans instance is not fitted yet"):
        getattr(model(), method)(rows())


# ------------------------------------------------------------------------------------- a fit that fails changes nothing

BAD_PARAMETERS = {
    "n_clusters": [
        (0, "`n_clusters` of SphericalKMeans must be an int >= 1; got 0."),
        (2.5, "`n_clusters` of SphericalKMeans must be an int >= 1; got 2.5."),
        (True, "`n_clusters` of SphericalKMeans must be an int >= 1; got True."),
        (
            91,
            (
                "`n_clusters` of SphericalKMeans must not exceed the number of rows; got n_clusters=91 and "
                "n_samples=90. Lower n_clusters or give more rows."
            ),
        ),
    ],
    "init": [
        (
            "kmeans",
            (
                "`init` of SphericalKMeans must be one of 'k-means++', 'k-means||', 'random'; got 'kmeans'. "
                "Or give directions, shape (K, D)."
            ),
        ),
        (
            np.ones((2, 3)),
            (
                "`init` of SphericalKMeans must have shape (n_clusters, n_features) = (3, 3); got (2, 3). "
                "Give one direction per cluster."
            ),
        ),
        (
            np.ones((3, 4)),
            (
                "`init` of SphericalKMeans must have shape (n_clusters, n_features) = (3, 3); got (3, 4). "
                "Give one direction per cluster."
            ),
        ),
    ],
    "n_init": [
        (
            0,
            (
                "`n_init` of SphericalKMeans must be an int >= 1; got 0. "
                "'auto' takes 1 for k-means++ or given directions, 10 for random rows."
            ),
        ),
        (
            "many",
            (
                "`n_init` of SphericalKMeans must be an int >= 1; got 'many'. "
                "'auto' takes 1 for k-means++ or given directions, 10 for random rows."
            ),
        ),
    ],
    "max_iter": [(0, "`max_iter` of SphericalKMeans must be an int >= 1; got 0.")],
    "tol": [
        (
            -1e-3,
            (
                "`tol` of SphericalKMeans must be a number >= 0; got -0.001. "
                "It is a relative gain; 0 runs until nothing is gained."
            ),
        ),
        (
            np.nan,
            (
                "`tol` of SphericalKMeans must be a number >= 0; got nan. "
                "It is a relative gain; 0 runs until nothing is gained."
            ),
        ),
    ],
    "empty_clusters": [("drop", "`empty_clusters` of SphericalKMeans must be one of 'refill', 'keep'; got 'drop'.")],
    "algorithm": [("elkan", "`algorithm` of SphericalKMeans must be one of 'auto', 'lloyd', 'hamerly'; got 'elkan'.")],
    "random_state": [
        (
            -1,
            (
                "`random_state` must be None, an int >= 0, a numpy Generator or a RandomState; got -1. "
                "Pass an int for a result that repeats."
            ),
        )
    ],
    "n_threads": [
        (0, "`n_threads` of SphericalKMeans must be an int from 1 to 4096; got 0. None takes every core."),
        (-1, "`n_threads` of SphericalKMeans must be an int from 1 to 4096; got -1. None takes every core."),
    ],
    "verbose": [
        (-1, "`verbose` of SphericalKMeans must be an int >= 0; got -1. 1 shows a progress bar."),
        (0.5, "`verbose` of SphericalKMeans must be an int >= 0; got 0.5. 1 shows a progress bar."),
        (None, "`verbose` of SphericalKMeans must be an int >= 0; got None. 1 shows a progress bar."),
        ("loud", "`verbose` of SphericalKMeans must be an int >= 0; got 'loud'. 1 shows a progress bar."),
    ],
    "callbacks": [
        (
            7,
            (
                "`callbacks` of SphericalKMeans must be None, a callable or a sequence of callables; got 7. "
                "Give functions that take one FitEvent, e.g. callbacks=[print]."
            ),
        )
    ],
}


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [(name, value, sentence) for name, cases in BAD_PARAMETERS.items() for value, sentence in cases],
    ids=[f"{name}-{number}" for name, cases in BAD_PARAMETERS.items() for number in range(len(cases))],
)
def test_bad_parameters_are_named_and_change_nothing(name, value, sentence):
    fitted = model().fit(frame(pd.DataFrame))
    before = snapshot(fitted)
    fitted.set_params(**{name: value})
    kind = InputError if "number of rows" in sentence else ParameterError
    with pytest.raises(kind) as caught:
        fitted.fit(frame(pd.DataFrame, names=["a", "b", "c"], seed=1))
    assert str(caught.value) == sentence
    assert_unchanged(fitted, before)
    new = model(**{name: value})
    with pytest.raises(kind, match=re.escape(sentence)):
        new.fit(rows())
    assert snapshot(new) == {}


@pytest.mark.parametrize(
    ("init", "part"),
    [
        (np.where(np.eye(3) == 1, np.nan, 0.0), "Row 0 of `init` contains NaN; SphericalKMeans needs finite"),
        (np.diag([1.0, 1.0, 0.0]), "Row 2 of `init` has norm 0 and no direction; SphericalKMeans takes"),
        (
            np.ones(3),
            "`init` of SphericalKMeans must be a 2-D array, one row per vector; got 1-D of shape (3,)",
        ),
        (len, "`init` of SphericalKMeans must hold real numbers; got dtype object, and it does not convert"),
    ],
)
def test_sentences_about_directions_given(init, part):
    fitted = model().fit(rows())
    before = snapshot(fitted)
    with pytest.raises(InputError, match="^" + re.escape(part)):
        fitted.set_params(init=init).fit(rows())
    assert_unchanged(fitted, before)


class ObserverError(Exception):
    """Raised by an observer."""


@pytest.mark.parametrize("kind", [ObserverError, ValueError, KeyboardInterrupt, SystemExit, MemoryError])
@pytest.mark.parametrize("moment", ["start", "step", "end"])
@pytest.mark.parametrize("n_threads", [1, 2])
def test_an_observer_that_raises_ends_the_fit_and_changes_nothing(kind, moment, n_threads):
    fitted = model(n_threads=n_threads).fit(frame(pd.DataFrame))
    before = snapshot(fitted)

    def raise_at(event):
        if event.kind == moment:
            raise kind("from the observer")

    fitted.set_params(callbacks=raise_at, n_clusters=5, n_init=2)
    n_running = threading.active_count()
    with pytest.raises(kind, match="from the observer"):
        fitted.fit(frame(pd.DataFrame, names=["a", "b", "c"], seed=1))
    assert_unchanged(fitted, before)
    assert threading.active_count() == n_running
    np.testing.assert_array_equal(fitted.predict(frame(pd.DataFrame)), fitted.labels_)


def test_an_observer_that_raises_leaves_a_new_model_unfitted():
    new = model(callbacks=lambda event: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        new.fit(rows())
    assert snapshot(new) == {}
    with pytest.raises(NotFittedError):
        new.predict(rows())


@pytest.mark.parametrize("call", ["fit", "partial_fit"])
@pytest.mark.parametrize("at_sweep", [1, 2])
@pytest.mark.parametrize("kind", [MemoryError, KeyboardInterrupt])
def test_a_pass_that_fails_changes_nothing(monkeypatch, call, at_sweep, kind):
    fitted = model(algorithm="lloyd").fit(frame(pd.DataFrame))
    before = snapshot(fitted)
    n_sweeps = 0
    sweep = Passes.assign_and_sum

    def fail(self, *arguments, **options):
        nonlocal n_sweeps
        n_sweeps += 1
        if n_sweeps == at_sweep:
            raise kind("in a pass")
        return sweep(self, *arguments, **options)

    monkeypatch.setattr(Passes, "assign_and_sum", fail)
    with pytest.raises(kind, match="in a pass"):
        getattr(fitted, call)(frame(pd.DataFrame, seed=1))
    assert_unchanged(fitted, before)


def test_a_warning_turned_into_an_error_changes_nothing():
    fitted = model().fit(rows())
    before = snapshot(fitted)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        with pytest.raises(ConvergenceWarning, match="used all 1 steps and was still gaining more than tol=1e-06"):
            fitted.set_params(max_iter=1).fit(rows(seed=1))
        with pytest.raises(
            ConvergenceWarning, match="filled only 1 of n_clusters=3 clusters; X may have fewer distinct"
        ):
            fitted.set_params(max_iter=300).fit(np.ones((9, 3)))
    assert_unchanged(fitted, before)


def test_names_of_mixed_types_are_refused_and_change_nothing():
    fitted = model().fit(frame(pd.DataFrame))
    before = snapshot(fitted)
    with pytest.raises(TypeError, match="only supported if all input features have string names"):
        fitted.fit(pd.DataFrame(rows(), columns=["a", 1, 2]))
    assert_unchanged(fitted, before)


def test_a_first_batch_with_too_few_rows_leaves_a_new_model_unfitted():
    new = model()
    with pytest.raises(InputError, match=r"got n_clusters=3 and n_samples=2\. Lower n_clusters or give more rows"):
        new.partial_fit(rows(2))
    assert snapshot(new) == {}
    new.partial_fit(rows(30))
    assert new.n_steps_ == 1


@pytest.mark.parametrize(("name", "value"), [("n_threads", 0), ("n_threads", "all")])
def test_a_batch_with_bad_parameters_changes_nothing(name, value):
    fitted = model().partial_fit(rows())
    before = snapshot(fitted)
    with pytest.raises(ParameterError, match="`n_threads` of SphericalKMeans must be an int from 1 to 4096"):
        fitted.set_params(**{name: value}).partial_fit(rows(seed=1))
    assert_unchanged(fitted, before)


def test_a_fit_after_a_failure_is_a_fit_like_any_other():
    fitted = model().fit(rows(seed=3))
    with pytest.raises(InputError):
        fitted.fit(spoilt(3, np.nan))
    assert_same_fit(fitted.fit(rows()), model().fit(rows()))


def test_fits_in_several_threads_do_not_disturb_each_other():
    expected = model().fit(rows(2000, 20))
    found = [model(n_threads=2) for _ in range(4)]
    threads = [threading.Thread(target=each.fit, args=(rows(2000, 20),)) for each in found]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for each in found:
        assert_same_fit(each, expected)


def test_predicting_learns_nothing():
    fitted = model().fit(rows())
    before = snapshot(fitted)
    fitted.predict(rows(seed=1))
    fitted.transform(rows(seed=1))
    fitted.score(rows(seed=1), sample_weight=np.full(90, 2.0))
    assert_unchanged(fitted, before)


def test_what_a_model_learned_is_its_own():
    """Changing the rows, weights or starts afterwards changes no model."""
    given, weights, start = units(), np.ones(90), np.eye(3)
    fitted = model(init=start).fit(given, sample_weight=weights)
    before = {name: copy.deepcopy(getattr(fitted, name)) for name in FITTED}
    given[:], weights[:], start[:] = 7.0, 7.0, 7.0
    for name in FITTED:
        np.testing.assert_array_equal(getattr(fitted, name), before[name], err_msg=name)


# ------------------------------------------------------------------------- models that find the number of clusters

FINDERS = {"DPvMFMeans": DPvMFMeans, "DDPvMFMeans": DDPvMFMeans}
finders = pytest.mark.parametrize("finder", FINDERS.values(), ids=FINDERS)
METHODS = {
    "DPvMFMeans": ["fit", "partial_fit", "predict", "transform", "score", "fit_predict"],
    "DDPvMFMeans": ["fit", "partial_fit", "partial_fit_predict", "predict", "score", "fit_predict"],
}


def assert_same_state(one, other):
    """Equal bits in every fitted attribute."""
    mine, yours = ({n: v for n, v in vars(each).items() if n.endswith("_")} for each in (one, other))
    assert mine.keys() == yours.keys()
    for name, value in mine.items():
        np.testing.assert_array_equal(value, yours[name], err_msg=name)


@finders
@pytest.mark.parametrize("make", [rows, units])
@pytest.mark.parametrize("hold", HOLDERS.values(), ids=HOLDERS)
def test_finders_take_whatever_holds_the_rows(finder, make, hold):
    given, held = make(), hold(make())
    expected, found = finder(0.5, n_threads=1).fit(given), finder(0.5, n_threads=1).fit(held)
    if not hasattr(held, "columns"):
        assert_same_state(found, expected)
    np.testing.assert_array_equal(found.labels_, expected.labels_)
    np.testing.assert_array_equal(found.predict(held), found.labels_)
    assert found.score(held) == expected.score(given)
    found.partial_fit(held)
    np.testing.assert_array_equal(found.labels_, expected.partial_fit(given).labels_)


@finders
@pytest.mark.parametrize("make", [rows, units])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
def test_finders_take_memory_maps(tmp_path, finder, make, dtype):
    given = make(dtype=dtype)
    held = mapped(tmp_path, given)
    expected, found = finder(0.5, n_threads=1).fit(given), finder(0.5, n_threads=1).fit(held)
    assert_same_state(found, expected)
    np.testing.assert_array_equal(found.predict(held), expected.labels_)


@finders
@pytest.mark.parametrize("n_features", [3, 20])
def test_finders_convert_large_rows_block_by_block(tmp_path, monkeypatch, finder, n_features):
    given = rows(5000, n_features, np.float32)
    weights = np.random.default_rng(1).choice([0.0, 1.0, 2.0], size=5000)
    angle = 0.6 if n_features == 3 else 1.2
    expected = finder(angle, n_threads=1, tol=1e-2).fit(given, sample_weight=weights)
    monkeypatch.setattr(points, "CONVERT_AT_ONCE", 1000)
    for held in (given, mapped(tmp_path, given)):
        found = finder(angle, n_threads=1, tol=1e-2).fit(held, sample_weight=weights)
        assert_same_state(found, expected)
        np.testing.assert_array_equal(found.predict(held), expected.labels_)


@finders
@pytest.mark.parametrize("form", ["csr", "csc", "coo", "lil"])
def test_finders_take_sparse_forms(finder, form):
    given = sparse_rows()
    expected = finder(0.7, n_threads=1).fit(sp.csr_array(given))
    held = getattr(sp, f"{form}_array")(given)
    found = finder(0.7, n_threads=1).fit(held)
    assert_same_state(found, expected)
    np.testing.assert_array_equal(found.predict(held), expected.labels_)


@finders
def test_finders_never_make_rows_dense(monkeypatch, finder):
    def refuse(self, *arguments, **options):
        raise AssertionError("rows were made dense")

    held = sp.csr_array(sparse_rows())
    for owner in (sp.csr_array, sp.csr_matrix):
        monkeypatch.setattr(owner, "toarray", refuse)
        monkeypatch.setattr(owner, "todense", refuse)
    fitted = finder(0.4, n_threads=1).fit(held, sample_weight=np.linspace(0.0, 1.0, 90))
    assert fitted.n_clusters_ > 3
    fitted.partial_fit(held)
    fitted.predict(held, reject=True)
    fitted.score(held)


@finders
@pytest.mark.parametrize(("given", "sentence"), BAD_ROWS.values(), ids=BAD_ROWS)
def test_finders_refuse_bad_rows_and_change_nothing(finder, given, sentence):
    fitted = finder(0.5, n_threads=1).fit(frame(pd.DataFrame))
    before = snapshot(fitted)
    for method in METHODS[finder.__name__]:
        if finder is DDPvMFMeans and getattr(given, "shape", None) == (0, 3) and method != "score":
            continue  # a step without rows, and nothing to predict
        with pytest.raises(InputError) as caught:
            getattr(fitted, method)(given)
        assert str(caught.value).startswith(sentence.replace("SphericalKMeans", finder.__name__))
        assert_unchanged(fitted, before)


@finders
@pytest.mark.parametrize("hold", [np.array, sp.csr_array, pd.DataFrame], ids=["dense", "sparse", "frame"])
def test_finders_refuse_another_number_of_columns(finder, hold):
    fitted = finder(0.5, n_threads=1).fit(rows())
    before = snapshot(fitted)
    for method in METHODS[finder.__name__]:
        if method in ("fit", "fit_predict"):
            continue
        with pytest.raises(InputError) as caught:
            getattr(fitted, method)(hold(rows(n_features=4)))
        assert str(caught.value) == (
            f"X has 4 features, but {finder.__name__} is expecting 3 features as input, as in its fit. "
            "Give vectors of the same embedding."
        )
        assert_unchanged(fitted, before)


@finders
def test_finders_refuse_one_column(finder):
    with pytest.raises(InputError, match=r"at least 2 columns; got 1 feature\(s\) \(shape=\(90, 1\)\)"):
        finder().fit(rows()[:, :1])


@finders
@pytest.mark.parametrize("weights", [np.ones(89), np.full(90, -1.0), np.full(90, np.nan), np.zeros(90), ["a"] * 90])
def test_finders_refuse_bad_weights(finder, weights):
    fitted = finder(0.5, n_threads=1).fit(rows())
    before = snapshot(fitted)
    for method in ("fit", "partial_fit", "score"):
        with pytest.raises(InputError, match=f"`sample_weight` of {finder.__name__} must"):
            getattr(fitted, method)(rows(), sample_weight=weights)
        assert_unchanged(fitted, before)


@finders
@pytest.mark.parametrize("kind", [pytest.param(pd.DataFrame, id="pandas"), POLARS])
def test_finders_keep_names_and_refuse_others(finder, kind):
    fitted = finder(0.5, n_threads=1).fit(frame(kind))
    assert fitted.feature_names_in_.tolist() == NAMES
    np.testing.assert_array_equal(fitted.predict(frame(kind)), fitted.labels_)
    before = snapshot(fitted)
    for method in ("predict", "partial_fit", "score"):
        with pytest.raises(ValueError, match=r"(?s)feature names should match.*unseen at fit time:\n- down"):
            getattr(fitted, method)(frame(kind, names=["east", "north", "down"]))
    assert_unchanged(fitted, before)
    assert fitted.partial_fit(frame(kind)).feature_names_in_.tolist() == NAMES
    assert not hasattr(fitted.fit(rows()), "feature_names_in_")


@finders
def test_finders_give_a_row_alone_the_label_it_has_among_others(finder):
    for n_features in (3, 20):
        given = rows(60, n_features)
        fitted = finder(0.8, n_threads=1).fit(given)
        alone = [fitted.predict(given[number : number + 1]).item() for number in range(60)]
        assert alone == fitted.labels_.tolist()
