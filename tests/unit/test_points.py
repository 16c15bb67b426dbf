"""A set of points gives out unit rows, the same bits whether it was converted at once or block by block."""

from __future__ import annotations

import dataclasses
from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import example, given
from hypothesis import strategies as st

from armillary import points, validation
from armillary.exceptions import InputError
from armillary.points import SparseBlock, as_points, even_ranges, lane_plan
from armillary.validation import unit_rows

FLOATS = [np.float32, np.float64]


def rows(n=50, n_features=5, dtype=np.float64, seed=0):
    return np.random.default_rng(seed).normal(size=(n, n_features)).astype(dtype)


def units(n=50, n_features=5, dtype=np.float64, seed=0):
    return validation.unit_rows(rows(n, n_features, dtype, seed), "test")


def mapped(path, array, mode="r"):
    """The array as a memory-mapped .npy file."""
    np.save(path / "rows.npy", array)
    return np.load(path / "rows.npy", mmap_mode=mode)


def dense(block):
    """The rows of a block of either kind."""
    if not isinstance(block, SparseBlock):
        return block
    shape = (len(block.indptr) - 1, block.n_features)
    first, last = block.indptr[0], block.indptr[-1]
    return sp.csr_array(
        (block.data[first:last], block.indices[first:last], block.indptr - first), shape=shape
    ).toarray()


@pytest.fixture
def in_place(monkeypatch):
    """Every array counts as too large to be converted at once."""
    monkeypatch.setattr(points, "CONVERT_AT_ONCE", 0)


# ------------------------------------------------------------------------------------------------ what is kept


@pytest.mark.parametrize("dtype", FLOATS)
def test_unit_arrays_are_kept_as_they_are(dtype):
    given_rows = units(dtype=dtype)
    held = as_points(given_rows, "Model")
    assert held.matrix is given_rows
    assert held.is_unit
    assert held.dtype == dtype
    assert np.shares_memory(held.block(3, 9), given_rows)
    assert (held.n_rows, held.n_features, held.is_sparse) == (50, 5, False)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("mode", ["r", "r+", "c"])
def test_unit_memory_maps_are_kept_as_they_are(tmp_path, dtype, mode):
    given_rows = mapped(tmp_path, units(dtype=dtype), mode)
    held = as_points(given_rows, "Model")
    assert held.matrix is given_rows
    assert held.is_unit
    block = held.block(3, 9)
    assert type(block) is np.ndarray
    assert np.shares_memory(block, given_rows)


def test_other_memory_maps_stay_on_disk_and_unchanged(tmp_path):
    given_rows = mapped(tmp_path, rows(), "r+")
    held = as_points(given_rows, "Model")
    assert held.matrix is given_rows
    assert not held.is_unit
    held.block(0, 50)
    held.rows([0, 1])
    np.testing.assert_array_equal(np.load(tmp_path / "rows.npy"), rows())


def test_large_unit_arrays_are_kept_as_they_are(in_place):
    given_rows = units()
    held = as_points(given_rows, "Model")
    assert held.matrix is given_rows
    assert held.is_unit


def test_the_size_that_counts_is_that_of_the_copy(monkeypatch):
    # 50 x 5 rows of bytes become 1,000 bytes of float32
    given_rows = np.random.default_rng(0).integers(1, 100, size=(50, 5)).astype(np.int8)
    monkeypatch.setattr(points, "CONVERT_AT_ONCE", 1000)
    assert as_points(given_rows, "Model").is_unit
    monkeypatch.setattr(points, "CONVERT_AT_ONCE", 999)
    held = as_points(given_rows, "Model")
    assert not held.is_unit
    assert held.matrix is given_rows


@pytest.mark.parametrize("kind", [sp.csr_matrix, sp.csr_array])
def test_unit_csr_is_kept_as_it_is(kind, in_place):
    given_rows = kind(units())
    held = as_points(given_rows, "Model")
    assert held.matrix is given_rows
    assert held.is_sparse
    assert np.shares_memory(held.block(3, 9).data, given_rows.data)


# ------------------------------------------------------------------------------------------ blocks and their bits

FORMS = {
    "float32": lambda path: rows(dtype=np.float32),
    "float64": lambda path: rows(),
    "wide": lambda path: rows(n_features=40, dtype=np.float32),
    "float16": lambda path: rows(dtype=np.float16),
    "int8": lambda path: np.random.default_rng(1).integers(1, 100, size=(50, 5)).astype(np.int8),
    "int64": lambda path: np.random.default_rng(1).integers(-100, -1, size=(50, 5)),
    "bool": lambda path: np.random.default_rng(1).random((50, 5)) < np.array([0.5, 0.5, 0.5, 0.5, 2.0]),
    "fortran": lambda path: np.asfortranarray(rows()),
    "unit fortran": lambda path: np.asfortranarray(units()),
    "swapped": lambda path: rows().astype(">f8"),
    "unit swapped": lambda path: units(dtype=np.float32).astype(">f4"),
    "strided": lambda path: np.repeat(units(), 2, axis=1)[:, ::2],
    "huge": lambda path: rows() * 1e200,
    "memory map": lambda path: mapped(path, rows()),
    "unit memory map": lambda path: mapped(path, units()),
    "fortran memory map": lambda path: mapped(path, np.asfortranarray(units())),
    "float16 memory map": lambda path: mapped(path, rows(dtype=np.float16)),
    "integer memory map": lambda path: mapped(path, np.arange(1, 251).reshape(50, 5)),
}


@pytest.mark.parametrize("limit", [0, 1 << 28], ids=["in place", "at once"])
@pytest.mark.parametrize("make", FORMS.values(), ids=FORMS)
def test_blocks_hold_the_bits_of_unit_rows(tmp_path, monkeypatch, make, limit):
    monkeypatch.setattr(points, "CONVERT_AT_ONCE", limit)
    given_rows = make(tmp_path)
    whole = validation.unit_rows(np.array(given_rows), "Model")
    held = as_points(given_rows, "Model")
    assert held.dtype == whole.dtype
    for start, stop in [(0, 50), (0, 1), (49, 50), (7, 31), (12, 12)]:
        block = held.block(start, stop)
        assert type(block) is np.ndarray
        assert block.flags.c_contiguous
        assert block.dtype == whole.dtype
        assert block.dtype.isnative
        np.testing.assert_array_equal(block, whole[start:stop])
    chosen = held.rows([4, 4, 0, 49])
    assert chosen.dtype == np.float64
    # the same rows, now of unit length in float64
    np.testing.assert_allclose(chosen, whole[[4, 4, 0, 49]], rtol=0, atol=validation.UNIT_TOLERANCE[whole.dtype])
    np.testing.assert_allclose(np.linalg.norm(chosen, axis=1), 1.0, rtol=0, atol=1e-12)


@pytest.mark.parametrize("kind", [sp.csr_matrix, sp.csr_array, sp.csc_array, sp.coo_matrix])
@pytest.mark.parametrize("dtype", [*FLOATS, np.int64])
def test_sparse_blocks_hold_the_rows(kind, dtype):
    given_rows = kind(np.round(3 * rows()).astype(dtype) + np.array([7, 0, 0, 0, 0], dtype=dtype) * 2)
    whole = validation.unit_rows(given_rows, "Model").toarray()
    held = as_points(given_rows, "Model")
    assert held.is_sparse
    for start, stop in [(0, 50), (0, 1), (49, 50), (7, 31)]:
        block = held.block(start, stop)
        assert isinstance(block, SparseBlock)
        np.testing.assert_array_equal(dense(block), whole[start:stop])
    chosen = held.rows(np.array([4, 4, 0, 49]))
    assert chosen.dtype == np.float64
    # the same rows, now of unit length in float64
    np.testing.assert_allclose(chosen, whole[[4, 4, 0, 49]], rtol=0, atol=validation.UNIT_TOLERANCE[whole.dtype])
    np.testing.assert_allclose(np.linalg.norm(chosen, axis=1), 1.0, rtol=0, atol=1e-12)


def test_all_rows_at_once():
    given_rows = units()
    assert unit_rows(given_rows, "Model") is given_rows
    np.testing.assert_array_equal(unit_rows(rows(), "Model"), given_rows)
    assert sp.issparse(unit_rows(sp.csr_array(rows()), "Model"))


# ----------------------------------------------------------------------------------------------- weights and errors


def test_weights_go_with_their_rows():
    weights = np.arange(50.0)
    held = as_points(rows(), "Model", sample_weight=weights)
    assert held.weights is weights
    assert held.block_weights(3, 6).tolist() == [3.0, 4.0, 5.0]
    assert held.total_weight == weights.sum()


def test_without_weights_every_row_counts_once():
    held = as_points(rows(), "Model")
    assert held.weights is None
    assert held.block_weights(3, 6) is None
    assert held.total_weight == 50.0
    assert type(held.total_weight) is float


def test_points_do_not_change():
    held = as_points(rows(), "Model")
    with pytest.raises(dataclasses.FrozenInstanceError):
        held.is_unit = False


@pytest.mark.parametrize(
    "arrange",
    [
        lambda path, array: array,
        lambda path, array: np.asfortranarray(array),
        lambda path, array: array.astype(np.float16),
        mapped,
        lambda path, array: sp.csr_array(array),
    ],
    ids=["array", "fortran", "float16", "memory map", "sparse"],
)
@pytest.mark.parametrize("block_values", [12, 1 << 18])
@pytest.mark.parametrize(("entry", "what"), [(np.nan, "contains NaN"), (np.inf, "contains inf"), (0.0, "has norm 0")])
def test_bad_rows_are_named_at_the_gate(tmp_path, monkeypatch, in_place, arrange, block_values, entry, what):
    monkeypatch.setattr(validation, "_BLOCK_VALUES", block_values)
    given_rows = rows()
    given_rows[31] = entry
    with pytest.raises(InputError, match=f"^Row 31 of X {what}.*Model.* Drop "):
        as_points(arrange(tmp_path, given_rows), "Model")


def test_shape_and_weights_are_checked_at_the_gate():
    with pytest.raises(
        InputError, match=r"^X has 5 features, but Model is expecting 4 features as input, as in its fit"
    ):
        as_points(rows(), "Model", expected_features=4)
    with pytest.raises(InputError, match=r"^`sample_weight` of Model .* shape \(50,\); got \(49,\)"):
        as_points(rows(), "Model", sample_weight=np.ones(49))


# --------------------------------------------------------------------------------------------------------- lanes


@given(st.integers(0, 10_000), st.integers(1, 300))
def test_even_ranges_cover_the_rows_once_and_evenly(n_rows, n_ranges):
    ranges = even_ranges(n_rows, n_ranges)
    assert len(ranges) == n_ranges
    assert ranges[0][0] == 0
    assert ranges[-1][1] == n_rows
    assert all(one[1] == other[0] for one, other in pairwise(ranges))
    lengths = [stop - start for start, stop in ranges]
    assert max(lengths) - min(lengths) <= 1


@given(st.integers(1, 1 << 33), st.integers(2, 1 << 20))
@example(1, 2)
@example(2047, 3)
@example(1 << 17, 3)
@example((1 << 33) - 1, 3)
def test_lanes_cover_the_rows_in_a_power_of_two_of_long_ranges(n_rows, n_features):
    lanes = lane_plan(n_rows, n_features)
    assert len(lanes).bit_count() == 1
    # one more row than an even share, and a power of two fewer lanes: at most twice as long as the longest
    longest = max(stop - start for start, stop in lanes)
    assert (
        len(lanes) == 1 << 14
        or longest <= 2 * max(2048, 98_304 // n_features, min(1 << 16, (1 << 23) // n_features)) + 1
    )
    assert lanes[0][0] == 0
    assert lanes[-1][1] == n_rows
    assert all(one[1] == other[0] for one, other in pairwise(lanes))
    assert len(lanes) == 1 or min(stop - start for start, stop in lanes) >= 2048
    assert lane_plan(n_rows, n_features) == lanes


def test_lanes_do_not_depend_on_what_the_rows_are():
    given_rows = rows(9000, 40)
    plans = [as_points(form, "Model").lanes for form in (given_rows, given_rows.astype("f4"), sp.csr_array(given_rows))]
    assert plans[0] == plans[1] == plans[2] == lane_plan(9000, 40)
    assert len(plans[0]) > 1
