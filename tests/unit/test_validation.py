"""The gate: what becomes of rows, weights and parameters, and every sentence it refuses them with."""

from __future__ import annotations

import decimal
import fractions
import math
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from tests.making import each

from armillary import sparse_structure, validation
from armillary.exceptions import ArmillaryError, InputError, InputTypeError, ParameterError, RowError
from armillary.validation import (
    UNIT_TOLERANCE,
    as_matrix,
    check_choice,
    check_integer,
    check_number,
    check_sample_weight,
    computing_dtype,
    row_blocks,
    unit_block,
    unit_rows,
)

FLOATS = [np.float32, np.float64]
CSR = [sp.csr_matrix, sp.csr_array]


def rows(n=20, n_features=5, dtype=np.float64, seed=0):
    return np.random.default_rng(seed).normal(size=(n, n_features)).astype(dtype)


def units(n=20, n_features=5, dtype=np.float64, seed=0):
    given_rows = rows(n, n_features, np.float64, seed)
    return (given_rows / np.linalg.norm(given_rows, axis=1, keepdims=True)).astype(dtype)


def refusal(kind, call, *arguments, **options):
    """The sentence with which `call` refuses, of exactly this class."""
    with pytest.raises(kind) as caught:
        call(*arguments, **options)
    # a sentence about one row is an InputError with its number
    assert type(caught.value) is (RowError if isinstance(caught.value, RowError) and kind is InputError else kind)
    return str(caught.value)


def assert_unit(matrix):
    dense = matrix.toarray() if sp.issparse(matrix) else matrix
    np.testing.assert_allclose(np.linalg.norm(dense.astype(np.float64), axis=1), 1.0, atol=2e-7)


# ------------------------------------------------------------------------------------------- what is not copied


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("n_features", [2, 3, 8, 9, 200])
def test_unit_rows_are_not_copied(dtype, n_features):
    given_rows = units(n_features=n_features, dtype=dtype)
    assert unit_rows(given_rows, "Model") is given_rows


@pytest.mark.parametrize("dtype", FLOATS)
def test_rows_that_float32_libraries_normalise_count_as_unit(dtype):
    # squares summed in the dtype itself, as a GPU or a vector database would
    given_rows = rows(500, 384, dtype)
    given_rows /= np.sqrt((given_rows * given_rows).sum(axis=1, keepdims=True, dtype=dtype))
    assert unit_rows(given_rows, "Model") is given_rows


@pytest.mark.parametrize("kind", CSR)
@pytest.mark.parametrize("dtype", FLOATS)
def test_unit_csr_is_not_copied(kind, dtype):
    given_rows = kind(units(dtype=dtype))
    assert unit_rows(given_rows, "Model") is given_rows


@pytest.mark.parametrize("kind", CSR)
def test_unsorted_csr_is_sorted_in_a_copy(kind):
    # norms and scores are sums in the order stored: only sorted rows have the bits of dense ones
    data, indices, indptr = np.array([0.8, 0.6, 1.0]), np.array([2, 0, 1]), np.array([0, 2, 3])
    given_rows = kind((data, indices, indptr), shape=(2, 3))
    unit = unit_rows(given_rows, "Model")
    assert type(unit) is kind
    assert unit.indices.tolist() == [0, 2, 1]
    assert unit.data.tolist() == [0.6, 0.8, 1.0]
    assert given_rows.indices.tolist() == [2, 0, 1]


@pytest.mark.parametrize("kind", CSR)
def test_csr_that_is_not_unit_keeps_its_class_and_shares_its_indices(kind):
    given_rows = kind(rows())
    unit = unit_rows(given_rows, "Model")
    assert type(unit) is type(given_rows)
    assert np.shares_memory(unit.indices, given_rows.indices)
    assert np.shares_memory(unit.indptr, given_rows.indptr)
    assert_unit(unit)


@pytest.mark.parametrize("make", [np.array, sp.csr_matrix, sp.csr_array, sp.csc_array, sp.coo_array])
def test_the_callers_rows_are_left_alone(make):
    given_rows = make(rows())
    before = given_rows.copy()
    unit_rows(given_rows, "Model")
    assert (given_rows != before).sum() == 0


def test_read_only_rows_are_taken():
    for given_rows in (rows(), units()):
        given_rows.flags.writeable = False
        assert_unit(unit_rows(given_rows, "Model"))


# ----------------------------------------------------------------------------------------------- what is widened


@pytest.mark.parametrize(
    ("given_dtype", "kept"),
    [
        ("f4", "f4"),
        ("f8", "f8"),
        (">f4", "f4"),
        (">f8", "f8"),
        ("f2", "f4"),
        (">f2", "f4"),
        ("?", "f4"),
        ("i1", "f4"),
        ("u1", "f4"),
        ("i2", "f4"),
        ("u2", "f4"),
        ("i4", "f8"),  # float32 has 24 bits
        ("u4", "f8"),
        ("i8", "f8"),
        (">i8", "f8"),
        ("u8", "f8"),
        ("longdouble", "f8"),
    ],
)
def test_dtype_of_the_rows(given_dtype, kept):
    numbers = np.array([[3, 4, 0], [0, 5, 12], [1, 0, 0]]).astype(given_dtype)
    assert computing_dtype(numbers.dtype) == np.dtype(kept)
    unit = unit_rows(numbers, "Model")
    assert unit.dtype == np.dtype(kept)
    assert unit.dtype.isnative
    expected = numbers.astype(np.float64)
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    np.testing.assert_allclose(unit, expected, rtol=1e-7 if kept == "f4" else 1e-15)


@pytest.mark.parametrize("dtype", ["?", "i1", "u2", "i4", "u8", "longdouble", "f4"])
@pytest.mark.parametrize("kind", CSR)
def test_dtype_of_csr_rows(kind, dtype):
    numbers = np.array([[3, 4, 0], [0, 5, 12], [1, 0, 0]]).astype(dtype)
    unit = unit_rows(kind(numbers), "Model")
    assert unit.dtype == computing_dtype(numbers.dtype)
    np.testing.assert_allclose(unit.toarray(), unit_rows(numbers, "Model"), rtol=1e-7)


def test_unit_rows_of_integers_are_widened_although_their_norm_is_1():
    assert unit_rows(np.eye(3, dtype=np.int64), "Model").dtype == np.float64
    assert unit_rows(sp.csr_array(np.eye(3, dtype=bool)), "Model").dtype == np.float32


def test_integers_near_the_ends_of_their_range_do_not_wrap():
    ends = np.array([[np.iinfo(np.int64).min, 0], [np.iinfo(np.int64).max, 0]])
    np.testing.assert_array_equal(unit_rows(ends, "Model"), [[-1.0, 0.0], [1.0, 0.0]])
    small = np.array([[-128, 0], [0, 127]], dtype=np.int8)
    np.testing.assert_array_equal(unit_rows(small, "Model"), [[-1.0, 0.0], [0.0, 1.0]])
    np.testing.assert_array_equal(unit_rows(sp.csr_array(small), "Model").toarray(), [[-1.0, 0.0], [0.0, 1.0]])


# ------------------------------------------------------------------------------------------- layouts and containers


LAYOUTS = {
    "fortran": np.asfortranarray,
    "every other row": lambda given_rows: np.repeat(given_rows, 2, axis=0)[::2],
    "every other column": lambda given_rows: np.repeat(given_rows, 2, axis=1)[:, ::2],
    "reversed": lambda given_rows: given_rows[::-1].copy()[::-1],
    "some columns": lambda given_rows: np.hstack([given_rows, given_rows])[:, : given_rows.shape[1]],
    "swapped bytes": lambda given_rows: given_rows.astype(given_rows.dtype.newbyteorder(">")),
    "list": list,
    "tuple": tuple,
    "memoryview": memoryview,
    "pandas": pd.DataFrame,
    "polars": pl.DataFrame,
    "arrow": lambda given_rows: pa.table({str(d): column for d, column in enumerate(given_rows.T)}),
}


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("arrange", LAYOUTS.values(), ids=LAYOUTS)
def test_layout_and_container_do_not_change_a_bit(dtype, arrange):
    for given_rows in (rows(dtype=dtype), units(dtype=dtype)):
        unit = unit_rows(arrange(given_rows), "Model")
        assert unit.flags.c_contiguous
        assert type(unit) is np.ndarray
        np.testing.assert_array_equal(unit, unit_rows(given_rows, "Model"))
        assert unit.dtype == dtype


@pytest.mark.parametrize("dtype", FLOATS)
def test_rows_at_odd_addresses(dtype):
    raw = np.zeros(1 + units(dtype=dtype).nbytes, dtype=np.uint8)
    odd = raw[1:].view(dtype).reshape(20, 5)
    odd[:] = units(dtype=dtype)
    assert not odd.flags.aligned
    np.testing.assert_array_equal(unit_rows(odd, "Model"), units(dtype=dtype))


def test_an_object_that_only_gives_an_array():
    given_rows = rows()

    class Holder:
        def __array__(self, dtype=None, copy=None):
            return given_rows

    np.testing.assert_array_equal(unit_rows(Holder(), "Model"), unit_rows(given_rows, "Model"))


def test_numbers_in_lists_and_objects_are_float64():
    given_rows = rows()
    for arrange in (np.ndarray.tolist, lambda array: array.astype(object)):
        unit = unit_rows(arrange(given_rows), "Model")
        assert unit.dtype == np.float64
        np.testing.assert_array_equal(unit, unit_rows(given_rows, "Model"))


def test_decimals_and_fractions_are_numbers():
    numbers = [[decimal.Decimal("0.3"), decimal.Decimal("0.4")], [fractions.Fraction(3), fractions.Fraction(4)]]
    np.testing.assert_allclose(unit_rows(numbers, "Model"), [[0.6, 0.8], [0.6, 0.8]], rtol=1e-15)


def test_frames_with_missing_numbers_of_their_own_kind():
    nullable = pd.DataFrame({"a": [3.0, 5.0], "b": [4.0, 12.0]}).astype("Float64")
    np.testing.assert_allclose(unit_rows(nullable, "Model")[0], [0.6, 0.8])
    arrow = pd.DataFrame({"a": [3.0, 5.0], "b": [4.0, 12.0]}).astype("float64[pyarrow]")
    np.testing.assert_allclose(unit_rows(arrow, "Model")[0], [0.6, 0.8])


@pytest.mark.parametrize("form", ["csr", "csc", "coo", "lil", "dok", "bsr", "dia"])
@pytest.mark.parametrize("kind", ["array", "matrix"])
def test_every_sparse_form_becomes_csr_and_stays_sparse(form, kind):
    dense = rows() * (rows(seed=1) > 0.0) + np.eye(20, 5) + np.eye(20, 5, -5) + np.eye(20, 5, -10) + np.eye(20, 5, -15)
    unit = unit_rows(getattr(sp, f"{form}_{kind}")(dense), "Model")
    assert sp.issparse(unit)
    assert unit.format == "csr"
    np.testing.assert_allclose(unit.toarray(), unit_rows(dense, "Model"), rtol=1e-15)


@pytest.mark.parametrize("kind", CSR)
def test_duplicate_entries_are_summed_in_a_copy(kind):
    # row 0 is (1 + 2, 4) = (3, 4), twice column 0; row 1 is (0, 5 - 5, 2), whose duplicates cancel
    data, indices = np.array([1.0, 4.0, 2.0, 5.0, -5.0, 2.0]), np.array([0, 1, 0, 1, 1, 2])
    given_rows = kind((data, indices, np.array([0, 3, 6])), shape=(2, 3))
    unit = unit_rows(given_rows, "Model")
    np.testing.assert_allclose(unit.toarray(), [[0.6, 0.8, 0.0], [0.0, 0.0, 1.0]], rtol=1e-15)
    assert given_rows.nnz == 6
    assert given_rows.data.tolist() == data.tolist()
    assert given_rows.indices.tolist() == indices.tolist()


def test_duplicates_are_seen_in_a_later_block(monkeypatch):
    monkeypatch.setattr(sparse_structure, "_BLOCK_VALUES", 4)
    n_rows = 9
    indices = np.tile([1, 0], n_rows)
    indices[-2:] = 1  # only the last row names a column twice
    given_rows = sp.csr_array((np.ones(2 * n_rows), indices, np.arange(0, 2 * n_rows + 1, 2)), shape=(n_rows, 3))
    unit = unit_rows(given_rows, "Model")
    np.testing.assert_array_equal(unit.toarray()[-1], [0.0, 1.0, 0.0])
    assert_unit(unit)


def test_explicit_zeros_stay_where_they_are():
    data = np.array([3.0, 0.0, 4.0, 0.0, 2.0])
    given_rows = sp.csr_array((data, np.array([0, 1, 2, 0, 2]), np.array([0, 3, 5])), shape=(2, 3))
    unit = unit_rows(given_rows, "Model")
    assert unit.nnz == 5
    np.testing.assert_allclose(unit.toarray(), [[0.6, 0.0, 0.8], [0.0, 0.0, 1.0]], rtol=1e-15)


def test_csr_with_long_indices_and_read_only_arrays():
    given_rows = sp.csr_array(rows())
    given_rows.indices, given_rows.indptr = given_rows.indices.astype(np.int64), given_rows.indptr.astype(np.int64)
    for array in (given_rows.data, given_rows.indices, given_rows.indptr):
        array.flags.writeable = False
    assert_unit(unit_rows(given_rows, "Model"))


# --------------------------------------------------------------------------------------------------- arithmetic


@each("make", [np.array, sp.csr_matrix, sp.csr_array])
@each("n_features", [3, 30])
@each(
    ("dtype", "size"),
    [
        (np.float64, 1e-200),
        (np.float64, 1e200),
        (np.float64, 1.7e308),
        (np.float64, 5e-324),
        (np.float64, 1e-310),
        (np.float32, 1e38),
        (np.float32, 3e38),
        (np.float32, 1e-38),
        (np.float32, 1e-45),
    ],
)
def test_tiny_and_huge_rows_have_directions(make, n_features, dtype, size):
    unit = unit_rows(make(np.full((2, n_features), size, dtype=dtype)), "Model")
    dense = unit.toarray() if sp.issparse(unit) else unit
    np.testing.assert_allclose(dense, 1.0 / math.sqrt(n_features), rtol=1e-7 if dense.dtype == np.float32 else 1e-15)


@pytest.mark.parametrize("size", [6e4, 6e-8])
def test_tiny_and_huge_rows_of_float16(size):
    unit = unit_rows(np.full((2, 9), size, dtype=np.float16), "Model")
    assert unit.dtype == np.float32
    np.testing.assert_allclose(unit, 1.0 / 3.0, rtol=1e-7)


@pytest.mark.parametrize("make", [np.array, sp.csr_array])
def test_a_row_may_span_the_whole_range(make):
    unit = unit_rows(make([[1e308, 1e-300, -1e308], [1e-300, 5e-324, 0.0]]), "Model")
    dense = unit.toarray() if sp.issparse(unit) else unit
    root = math.sqrt(0.5)
    np.testing.assert_allclose(dense, [[root, 0.0, -root], [1.0, 5e-24, 0.0]], rtol=1e-15, atol=1e-20)


finite = {
    np.float64: hnp.from_dtype(np.dtype(np.float64), allow_nan=False, allow_infinity=False),
    np.float32: hnp.from_dtype(np.dtype(np.float32), allow_nan=False, allow_infinity=False),
}


@st.composite
def any_rows(draw):
    """Rows of any size, none of them 0, 2 to 12 columns (the two ways of summing squares meet at 8)."""
    dtype = draw(st.sampled_from(FLOATS))
    shape = (draw(st.integers(1, 6)), draw(st.integers(2, 12)))
    drawn = draw(hnp.arrays(dtype, shape, elements=finite[dtype]))
    drawn[~drawn.any(axis=1), 0] = 1.0
    return drawn


@given(any_rows())
@example(np.array([[5e-324, 5e-324], [1.0, 0.0]]))
@example(np.full((2, 12), np.finfo(np.float64).max))
def test_laws_of_unit_rows(given_rows):
    unit = unit_rows(given_rows, "Model")
    sparse = unit_rows(sp.csr_array(given_rows), "Model")
    tolerance = UNIT_TOLERANCE[given_rows.dtype]
    norms = np.linalg.norm(unit.astype(np.float64), axis=1)
    assert np.all(np.abs(norms - 1.0) <= tolerance + 1e-15)
    # once unit, always the same bits
    assert unit_rows(unit, "Model") is unit
    assert unit_rows(sparse, "Model") is sparse
    # signs and zeros are the row's own, but for what vanishes beside the largest
    assert np.all(np.sign(unit) * np.sign(given_rows) >= 0)
    np.testing.assert_allclose(sparse.toarray(), unit, rtol=4 * np.finfo(unit.dtype).eps, atol=1e-300)
    for number in range(len(given_rows)):
        np.testing.assert_array_equal(unit_rows(given_rows[number : number + 1], "Model")[0], unit[number])


@given(any_rows(), st.integers(1, 40))
def test_blocks_do_not_change_a_bit(given_rows, block_values):
    whole, whole_sparse = unit_rows(given_rows, "Model"), unit_rows(sp.csr_array(given_rows), "Model")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(validation, "_BLOCK_VALUES", block_values)
        np.testing.assert_array_equal(unit_rows(given_rows, "Model"), whole)
        np.testing.assert_array_equal(unit_rows(sp.csr_array(given_rows), "Model").toarray(), whole_sparse.toarray())


@given(any_rows(), st.integers(-900, 900))
def test_powers_of_two_do_not_change_a_bit(given_rows, exponent):
    with np.errstate(over="ignore"):
        scaled = np.ldexp(given_rows, exponent)
    is_exact = np.isfinite(scaled).all() and np.array_equal(np.ldexp(scaled, -exponent), given_rows)
    if is_exact and scaled.any(axis=1).all():
        one, other = unit_rows(given_rows, "Model"), unit_rows(scaled, "Model")
        # a row that is unit to within the tolerance is left as it is, the other is divided
        np.testing.assert_allclose(one, other, rtol=2 * UNIT_TOLERANCE[given_rows.dtype], atol=1e-300)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("n_features", [4, 40])
def test_rows_within_the_tolerance_are_left_and_others_divided(dtype, n_features):
    tolerance = UNIT_TOLERANCE[np.dtype(dtype)]
    given_rows = units(3, n_features)
    given_rows[1] *= 1.0 + 0.6 * tolerance
    given_rows[2] *= 1.0 + 4.0 * tolerance
    given_rows = given_rows.astype(dtype)
    for unit in (unit_rows(given_rows, "Model"), unit_rows(sp.csr_array(given_rows), "Model").toarray()):
        np.testing.assert_array_equal(unit[:2], given_rows[:2])
        assert not np.array_equal(unit[2], given_rows[2])
        assert abs(np.linalg.norm(unit[2].astype(np.float64)) - 1.0) < tolerance


def test_unit_block_says_by_its_memory_whether_it_changed():
    kept, changed = units(), rows()
    assert np.shares_memory(unit_block(kept, 0, "Model"), kept)
    assert not np.shares_memory(unit_block(changed, 0, "Model"), changed)


@given(st.integers(0, 5000), st.integers(0, 3000))
def test_row_blocks_cover_the_rows_once(n_rows, n_features):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(validation, "_BLOCK_VALUES", 1000)
        blocks = row_blocks((n_rows, n_features))
    assert [row for start, stop in blocks for row in range(start, stop)] == list(range(n_rows))
    assert all((stop - start) * n_features <= 1000 or stop - start == 1 for start, stop in blocks)


# ------------------------------------------------------------------------------------ sentences about shape and dtype


@pytest.mark.parametrize(
    ("given_rows", "got"),
    [
        (np.ones(3), "1-D of shape (3,)"),
        (3.0, "0-D of shape ()"),
        (None, "0-D of shape ()"),
        ([], "1-D of shape (0,)"),
        (pd.Series([1.0, 2.0]), "1-D of shape (2,)"),
        (pl.Series([1.0, 2.0]), "1-D of shape (2,)"),
    ],
)
def test_sentence_about_dimensions(given_rows, got):
    assert refusal(InputError, unit_rows, given_rows, "Model") == (
        f"X of Model must be a 2-D array, one row per vector; got {got}. "
        "Reshape your data: X.reshape(1, -1) if it is a single vector."
    )


def test_sentence_about_dimensions_of_sparse_arrays():
    assert refusal(InputError, unit_rows, sp.coo_array(np.array([1.0, 2.0])), "Model") == (
        "X of Model must be a 2-D matrix, one row per vector; got a sparse array of shape (2,). "
        "Reshape it to (1, -1) if it is a single vector."
    )


@pytest.mark.parametrize(
    ("given_rows", "got"),
    [
        ([[1.0, 2.0], [3.0, 4.0], [5.0]], "a row 0 of length 2 and a row 2 of length 1"),
        (([1.0], [3.0, 4.0]), "a row 0 of length 1 and a row 1 of length 2"),
        ([[1.0, 2.0], 3.0], "a row 0 of length 2 and a row 1 of length 1"),
        ([np.ones(3), np.ones(2)], "a row 0 of length 3 and a row 1 of length 2"),
    ],
)
def test_sentence_about_rows_of_unequal_length(given_rows, got):
    assert refusal(InputError, unit_rows, given_rows, "Model") == (
        f"X of Model must be a 2-D array, one row per vector; got {got}. Give every row the same number of columns."
    )


def test_sentence_about_rows_uneven_further_in():
    sentence = refusal(InputError, unit_rows, [[[1.0], 2.0], [3.0, 4.0]], "Model")
    assert sentence.startswith("X of Model must be a 2-D array, one row per vector; got setting an array element")
    assert sentence.endswith("Give every row the same number of columns.")


@pytest.mark.parametrize("make", [np.array, sp.csr_matrix, sp.csr_array, sp.csc_array, sp.coo_array])
def test_sentence_about_no_rows(make):
    assert refusal(InputError, unit_rows, make(np.empty((0, 3))), "Model") == (
        "X of Model must have at least one row; got 0 sample(s) (shape=(0, 3)) while a minimum of 1 is required. "
        "Check the filter that made it."
    )


def test_sentence_about_no_rows_where_scipy_has_not_looked():
    empty = sp.csr_matrix((0, 3))
    empty.has_canonical_format = False
    assert "must have at least one row; got 0 sample(s)" in refusal(InputError, unit_rows, empty, "Model")


@pytest.mark.parametrize("n_features", [0, 1])
@pytest.mark.parametrize("make", [np.array, sp.csr_array])
def test_sentence_about_too_few_columns(make, n_features):
    assert refusal(InputError, unit_rows, make(np.ones((4, n_features))), "Model") == (
        f"X of Model must have at least 2 columns; got {n_features} feature(s) (shape=(4, {n_features})) while a "
        "minimum of 2 is required. Unit vectors in one dimension are only signs."
    )


@pytest.mark.parametrize("make", [np.array, sp.csr_array, pd.DataFrame, list])
def test_sentence_about_another_number_of_columns(make):
    assert refusal(InputError, as_matrix, make(np.ones((4, 3))), "Model", 5) == (
        "X has 3 features, but Model is expecting 5 features as input, as in its fit. "
        "Give vectors of the same embedding."
    )


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
@pytest.mark.parametrize("make", [np.array, sp.csr_array])
def test_sentence_about_complex_numbers(make, dtype):
    assert refusal(InputTypeError, unit_rows, make(np.ones((2, 2), dtype=dtype)), "Model") == (
        f"Complex data not supported: X of Model must hold real numbers; got dtype {np.dtype(dtype)}. "
        "Stack the parts: np.hstack([X.real, X.imag])."
    )


@pytest.mark.parametrize(
    ("given_rows", "dtype"),
    [
        (np.array([["a", "b"]]), "<U1"),
        (np.array([["1.5", "2"]]), "<U3"),
        (np.array([[b"a", b"b"]]), "|S1"),
        ([["a", "b"], ["c", "d"]], "<U1"),
        (np.array([["1", "2"]], dtype=np.dtypes.StringDType()), "StringDType()"),
    ],
)
def test_sentence_about_strings(given_rows, dtype):
    assert refusal(InputTypeError, unit_rows, given_rows, "Model") == (
        f"X of Model must hold real numbers; got strings (dtype {dtype}). "
        "Embed texts first, or convert numerals with X.astype(float)."
    )


@pytest.mark.parametrize(
    ("given_rows", "what"),
    [
        (np.array([[1.0, 2.0], [1.0, "x"]], dtype=object), "row 1 does not convert: could not convert string to float"),
        (pd.DataFrame({"a": [1.0, 2.0], "b": ["x", "y"]}), "row 0 does not convert: could not convert string to float"),
        (pl.DataFrame({"a": [1.0, 2.0], "b": ["3", "y"]}), "row 1 does not convert: could not convert string to float"),
        (
            pd.DataFrame({"a": [1.0, 2.0], "b": pd.to_datetime(["2024-01-01", "2024-01-02"])}),
            "row 0 does not convert: float() argument must be a string or a real number, not 'Timestamp'.",
        ),
        (
            pd.DataFrame({"a": [1.0, 2.0, None], "b": [3.0, 4.0, 5.0]}).astype("Float64"),
            "row 2 does not convert: float() argument must be a string or a real number, not 'NAType'.",
        ),
        (np.array([[1.0, 2.0], [3.0, {}]], dtype=object), "row 1 does not convert: float() argument must be"),
        (np.array([[1.0, 1j]], dtype=object), "row 0 does not convert: float() argument must be"),
        ({"a": 1}, "it does not convert: float() argument must be a string or a real number, not 'dict'."),
        ((number for number in range(3)), "it does not convert: float() argument must be"),
    ],
    ids=["string", "pandas", "polars", "dates", "missing", "dict", "complex", "whole", "generator"],
)
def test_sentence_about_objects(given_rows, what):
    sentence = refusal(InputTypeError, unit_rows, given_rows, "Model")
    assert sentence.startswith("X of Model must hold real numbers; got dtype object, and " + what)
    assert sentence.endswith(". Select the numeric columns and drop or fill what is missing.")
    assert ".." not in sentence


@pytest.mark.parametrize(
    ("given_rows", "dtype"),
    [
        (np.array([["2024-01-01", "2024-01-02"]], dtype="M8[D]"), "datetime64[D]"),
        (np.array([[1, 2]], dtype="m8[s]"), "timedelta64[s]"),
        (np.zeros((2, 2), dtype=[("a", "f4")]), "[('a', '<f4')]"),
    ],
)
def test_sentence_about_other_dtypes(given_rows, dtype):
    assert refusal(InputTypeError, unit_rows, given_rows, "Model") == (
        f"X of Model must hold real numbers; got dtype {dtype}. Convert it to floats first."
    )


def test_an_input_of_the_wrong_type_is_both_a_value_error_and_a_type_error():
    for kind in (ValueError, TypeError, InputError, ArmillaryError):
        with pytest.raises(kind):
            unit_rows(np.array([["a", "b"]]), "Model")


# --------------------------------------------------------------------------------------- sentences about single rows


def with_row(number, entries, n=40, dtype=np.float64):
    given_rows = rows(n, 3, dtype)
    given_rows[number] = entries
    return given_rows


@pytest.mark.parametrize("block_values", [1, 7, 1 << 18])
@pytest.mark.parametrize("make", [np.array, np.asfortranarray, sp.csr_matrix, sp.csr_array, list])
@pytest.mark.parametrize(
    ("entries", "what"), [([1, np.nan, 1], "NaN"), ([1, np.inf, 1], "inf"), ([-np.inf, 1, np.nan], "NaN")]
)
def test_sentence_about_rows_that_are_not_finite(monkeypatch, block_values, make, entries, what):
    monkeypatch.setattr(validation, "_BLOCK_VALUES", block_values)
    assert refusal(InputError, unit_rows, make(with_row(17, entries)), "Model") == (
        f"Row 17 of X contains {what}; Model needs finite numbers (no NaN, no inf). Drop or impute such rows."
    )


@pytest.mark.parametrize("block_values", [1, 7, 1 << 18])
@pytest.mark.parametrize("make", [np.array, np.asfortranarray, sp.csr_matrix, sp.csr_array, list])
def test_sentence_about_rows_of_zeros(monkeypatch, block_values, make):
    monkeypatch.setattr(validation, "_BLOCK_VALUES", block_values)
    for number in (0, 17, 39):
        assert refusal(InputError, unit_rows, make(with_row(number, 0.0)), "Model") == (
            f"Row {number} of X has norm 0 and no direction; Model takes rows as directions. "
            "Drop such rows before fitting."
        )


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
@pytest.mark.parametrize("n_features", [3, 30])
def test_sentences_about_rows_in_other_precisions(dtype, n_features):
    for entry, what in ((np.nan, "contains NaN"), (-np.inf, "contains inf"), (0.0, "has norm 0")):
        given_rows = rows(9, n_features, dtype)
        given_rows[4] = entry
        assert refusal(InputError, unit_rows, given_rows, "Model").startswith(f"Row 4 of X {what}")


def test_the_first_bad_row_is_named():
    given_rows = with_row(30, np.nan)
    given_rows[12] = np.inf
    assert refusal(InputError, unit_rows, given_rows, "Model").startswith("Row 12 of X contains inf")


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_missing_entries_of_frames_are_nan(frame):
    given_rows = frame({"a": [1.0, 2.0, None], "b": [1.0, 2.0, 3.0]})
    assert refusal(InputError, unit_rows, given_rows, "Model").startswith("Row 2 of X contains NaN")


def test_none_is_nan():
    assert refusal(InputError, unit_rows, [[1.0, 2.0], [None, 1.0]], "Model").startswith("Row 1 of X contains NaN")


def test_csr_rows_of_explicit_zeros_have_no_direction():
    given_rows = sp.csr_array((np.array([1.0, 0.0, 0.0]), np.array([0, 1, 2]), np.array([0, 1, 3])), shape=(2, 3))
    assert refusal(InputError, unit_rows, given_rows, "Model").startswith("Row 1 of X has norm 0")


def test_csr_duplicates_that_cancel_have_no_direction():
    given_rows = sp.csr_array((np.array([1.0, 2.0, -2.0]), np.array([0, 1, 1]), np.array([0, 1, 3])), shape=(2, 3))
    assert refusal(InputError, unit_rows, given_rows, "Model").startswith("Row 1 of X has norm 0")


def test_empty_csr_rows_at_both_ends():
    for number in (0, 2):
        dense = np.ones((3, 3))
        dense[number] = 0.0
        assert refusal(InputError, unit_rows, sp.csr_array(dense), "Model").startswith(f"Row {number} of X has norm 0")
    assert refusal(InputError, unit_rows, sp.csr_array((3, 3)), "Model").startswith("Row 0 of X has norm 0")


@pytest.mark.parametrize("block_values", [1, 1 << 18])
@pytest.mark.parametrize("column", [3, 7, -1])
def test_sentence_about_columns_outside_the_matrix(monkeypatch, block_values, column):
    # a shape given by hand, or columns counted from 1: SciPy lets it pass
    monkeypatch.setattr(sparse_structure, "_BLOCK_VALUES", block_values)
    data, indices, indptr = np.ones(4), np.array([0, 1, 2, column]), np.array([0, 2, 3, 4])
    given_rows = sp.csr_matrix((data, indices, indptr), shape=(3, 3))
    assert refusal(InputError, unit_rows, given_rows, "Model") == (
        f"Row 2 of X names column {column}; Model got a matrix whose columns go from 0 to 2. "
        "Give the matrix its true shape."
    )


def test_sentence_about_masked_entries():
    masked = np.ma.masked_array(rows(4, 2), mask=[[0, 0], [0, 0], [0, 1], [1, 0]])
    assert refusal(InputError, unit_rows, masked, "Model") == (
        "Row 2 of X has masked entries; Model needs every number. Drop such rows, or fill them: X.filled(value)."
    )
    whole = np.ma.masked_array(rows(4, 2))
    unit = unit_rows(whole, "Model")
    assert type(unit) is np.ndarray
    np.testing.assert_array_equal(unit, unit_rows(rows(4, 2), "Model"))


# ------------------------------------------------------------------------------------------------------ weights


def test_no_weights_are_none():
    assert check_sample_weight(None, 3, "Model") is None


@pytest.mark.parametrize(
    "weights",
    [
        [1, 0, 2.5],
        (1, 0, 2.5),
        np.array([1.0, 0.0, 2.5], dtype=np.float32),
        np.array([1.0, 0.0, 2.5], dtype=">f8"),
        np.array([1.0, 9.0, 0.0, 9.0, 2.5])[::2],
        np.array([1.0, 0.0, 2.5], dtype=object),
        pd.Series([1.0, 0.0, 2.5], index=[5, 3, 1]),
        pl.Series([1.0, 0.0, 2.5]),
    ],
    ids=["list", "tuple", "float32", "swapped", "strided", "object", "pandas", "polars"],
)
def test_weights_become_float64_in_order(weights):
    checked = check_sample_weight(weights, 3, "Model")
    assert checked.dtype == np.float64
    assert checked.dtype.isnative
    assert checked.flags.c_contiguous
    assert checked.tolist() == [1.0, 0.0, 2.5]


def test_weights_that_are_right_are_not_copied():
    weights = np.array([1.0, 2.0, 3.0])
    assert check_sample_weight(weights, 3, "Model") is weights


@pytest.mark.parametrize("scalar", [2, 2.0, np.float32(2.0), np.array(2.0)])
@pytest.mark.parametrize("n_rows", [1, 3])
def test_one_number_weighs_every_row(scalar, n_rows):
    assert check_sample_weight(scalar, n_rows, "Model").tolist() == [2.0] * n_rows


def test_booleans_choose_rows():
    assert check_sample_weight([True, False, True], 3, "Model").tolist() == [1.0, 0.0, 1.0]


@pytest.mark.parametrize(
    ("weights", "shape"), [([1.0, 2.0], "(2,)"), (np.ones((3, 1)), "(3, 1)"), ([], "(0,)"), ([1.0], "(1,)")]
)
def test_sentence_about_the_shape_of_weights(weights, shape):
    assert refusal(InputError, check_sample_weight, weights, 3, "Model") == (
        f"`sample_weight` of Model must have one number per row, shape (3,); got {shape}. "
        "Sample weights must be 1D array or scalar."
    )


@pytest.mark.parametrize(
    ("entry", "got"), [(-1.0, "-1.0"), (np.nan, "nan"), (np.inf, "inf"), (-np.inf, "-inf"), (None, "nan")]
)
def test_sentence_about_negative_and_infinite_weights(entry, got):
    assert refusal(InputError, check_sample_weight, [1.0, 2.0, entry, -9.0], 4, "Model") == (
        f"`sample_weight` of Model must be finite and not negative; got {got} for row 2. Use 0 to leave a row out."
    )


@pytest.mark.parametrize("weights", [[0.0, 0.0, 0.0], 0.0, [False, False, False], [-0.0, 0.0, 0.0]])
def test_sentence_about_weights_of_zero(weights):
    assert refusal(InputError, check_sample_weight, weights, 3, "Model") == (
        "`sample_weight` of Model must have a positive entry; all 3 weights are zero. Leave it out to count rows alike."
    )


@pytest.mark.parametrize(
    ("weights", "why"),
    [
        (["a", "b", "c"], "dtype <U1"),
        (["1", "2", "3"], "dtype <U1"),
        (np.array([1 + 2j, 1, 1]), "dtype complex128"),
        (np.array(["2024-01-01"] * 3, dtype="M8[D]"), "dtype datetime64[D]"),
        (np.array([1.0, "x", 2.0], dtype=object), "could not convert string to float: 'x'"),
        ([1.0, {}, 2.0], "float() argument must be a string or a real number, not 'dict'"),
    ],
    ids=["strings", "numerals", "complex", "dates", "object", "dict"],
)
def test_sentence_about_weights_that_are_no_numbers(weights, why):
    assert refusal(InputTypeError, check_sample_weight, weights, 3, "Model") == (
        f"`sample_weight` of Model must hold real numbers; they do not convert: {why}. Pass one number per row."
    )


@pytest.mark.parametrize(
    ("weights", "sentence"),
    [
        (
            [1.0, 1e300],
            "must have a sum of at most 8.45e+270; the largest of 2 weights is 1e+300. Divide them all by that.",
        ),
        (
            [1.7e308, 1.7e308],
            "must have a sum of at most 8.45e+270; the largest of 2 weights is 1.7e+308. Divide them all by that.",
        ),
        (
            [1.0, 1e-310],
            "must be 0 or at least 1.18e-271; got 1e-310 for row 1. Use 0 to leave a row out, or multiply all weights.",
        ),
    ],
)
def test_sentence_about_weights_that_sums_do_not_carry(weights, sentence):
    assert refusal(InputError, check_sample_weight, weights, 2, "Model") == f"`sample_weight` of Model {sentence}"


def test_sentence_about_more_copies_than_float64_counts():
    assert refusal(InputError, check_sample_weight, [1.0, 1e16], 2, "Model", most=validation.MOST_COPIES) == (
        "`sample_weight` of Model must have a sum of at most 9.01e+15, up to which float64 counts copies of rows one "
        "by one; the largest of 2 weights is 1e+16. Divide them all by that."
    )


def test_sentence_about_weights_beyond_every_float():
    assert "do not convert: int too large to convert to float" in refusal(
        InputTypeError, check_sample_weight, np.array([10**400, 1], dtype=object), 2, "Model"
    )


def test_sentence_about_numbers_beyond_every_float():
    given_rows = np.array([[1, 2], [10**400, 1]], dtype=object)
    assert refusal(InputTypeError, unit_rows, given_rows, "Model") == (
        "X of Model must hold real numbers; got dtype object, and row 1 does not convert: int too large to convert to "
        "float. Select the numeric columns and drop or fill what is missing."
    )


@pytest.mark.filterwarnings("ignore:the matrix subclass:PendingDeprecationWarning")
@pytest.mark.parametrize("dtype", [np.int64, np.float32, np.float64])
def test_a_numpy_matrix_is_an_array(dtype):
    given_rows = rows(6, 4).astype(dtype) + 3
    found = unit_rows(np.matrix(given_rows), "Model")
    assert type(found) is np.ndarray
    np.testing.assert_array_equal(found, unit_rows(given_rows, "Model"))


@pytest.mark.parametrize("exponent", [-1000, -401, -399, 399, 401, 1000])
def test_plain_and_scaled_sparse_rows_have_the_same_bits(exponent):
    given_rows = rows(40, 7)
    scaled = sp.csr_array(np.ldexp(given_rows, exponent))
    np.testing.assert_array_equal(
        unit_rows(scaled, "Model").toarray(), unit_rows(sp.csr_array(given_rows), "Model").toarray()
    )


@pytest.mark.parametrize("make", [np.array, sp.csr_array])
def test_nan_that_signals_is_refused_like_any_other(make):
    given_rows = np.ones((3, 4), dtype=np.float32)
    given_rows.view(np.uint32)[1, 2] = 0x7FA00000
    assert refusal(InputError, unit_rows, make(given_rows), "Model").startswith("Row 1 of X contains NaN")


@pytest.mark.skipif(np.finfo(np.longdouble).maxexp <= 1024, reason="long doubles are doubles here")
@pytest.mark.parametrize("make", [np.array, sp.csr_array])
def test_numbers_beyond_float64_are_inf(make):
    given_rows = np.ones((3, 4), dtype=np.longdouble)
    given_rows[1, 2] = np.ldexp(np.longdouble(1.0), 5000)
    assert refusal(InputError, unit_rows, make(given_rows), "Model").startswith("Row 1 of X contains inf")


def test_sentence_about_ragged_weights():
    sentence = refusal(InputTypeError, check_sample_weight, [1.0, [2.0, 3.0], 4.0], 3, "Model")
    assert sentence.startswith("`sample_weight` of Model must hold real numbers; they do not convert: ")


# --------------------------------------------------------------------------------------------------- parameters


@pytest.mark.parametrize("value", [3, np.int8(3), np.uint64(3), np.int32(3)])
def test_integers(value):
    checked = check_integer(value, "n_clusters", "Model", low=1)
    assert type(checked) is int
    assert checked == 3


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0, "0"),
        (-1, "-1"),
        (3.0, "3.0"),
        ("3", "'3'"),
        (None, "None"),
        (True, "True"),
        (np.True_, "np.True_"),
        (np.float64(3.0), "np.float64(3.0)"),
        ([3], "[3]"),
        (np.array(3), "array(3)"),
    ],
)
def test_sentence_about_integers(value, shown):
    assert refusal(ParameterError, check_integer, value, "n_clusters", "Model", low=1) == (
        f"`n_clusters` of Model must be an int >= 1; got {shown}."
    )


def test_sentence_about_integers_in_a_range_with_a_hint():
    assert check_integer(7, "n", "Model", low=1, high=7) == 7
    assert refusal(ParameterError, check_integer, 8, "n", "Model", low=1, high=7, hint="Try 7.") == (
        "`n` of Model must be an int from 1 to 7; got 8. Try 7."
    )


@pytest.mark.parametrize("value", [0, 0.5, np.float32(0.5), np.int64(1), fractions.Fraction(1, 2), 1])
def test_numbers(value):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        checked = check_number(value, "tol", "Model", low=0.0, high=1.0)
    assert type(checked) is float
    assert checked == float(value)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (-1e-9, "-1e-09"),
        (math.nan, "nan"),
        (math.inf, "inf"),
        (np.float32("inf"), "np.float32(inf)"),
        ("0.1", "'0.1'"),
        (None, "None"),
        (True, "True"),
        (1j, "1j"),
        (np.array(0.5), "array(0.5)"),
        (decimal.Decimal("0.1"), "Decimal('0.1')"),
        (10**400, repr(10**400)),
    ],
)
def test_sentence_about_numbers(value, shown):
    assert refusal(ParameterError, check_number, value, "tol", "Model", low=0.0) == (
        f"`tol` of Model must be a number >= 0; got {shown}."
    )


def test_sentence_about_numbers_in_a_range_with_a_hint():
    assert check_number(1.0, "share", "Model", low=0.0, high=1.0) == 1.0
    assert refusal(ParameterError, check_number, 1.5, "share", "Model", low=0.0, high=1.0, hint="It is a share.") == (
        "`share` of Model must be a number in [0, 1]; got 1.5. It is a share."
    )


def test_choices():
    assert check_choice("lloyd", "algorithm", "Model", ("auto", "lloyd")) == "lloyd"


@pytest.mark.parametrize(("value", "shown"), [("elkan", "'elkan'"), (None, "None"), (["auto"], "['auto']"), (1, "1")])
def test_sentence_about_choices(value, shown):
    assert refusal(ParameterError, check_choice, value, "algorithm", "Model", ("auto", "lloyd")) == (
        f"`algorithm` of Model must be one of 'auto', 'lloyd'; got {shown}."
    )
    assert refusal(ParameterError, check_choice, value, "algorithm", "Model", ("auto",), hint="Or leave it.") == (
        f"`algorithm` of Model must be one of 'auto'; got {shown}. Or leave it."
    )
