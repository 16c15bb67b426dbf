"""Laws of the gate: a row has one norm, with the same bits however it is held, looked at and cut."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.sparse as sp

from armillary.kernels.select import kernels_for
from armillary.points import as_points
from armillary.validation import GAUGE, UNIT_TOLERANCE, unit_block, unit_rows

GAUGES = {"numpy": GAUGE, "reference": kernels_for("reference").gauge, "cpu": kernels_for("cpu").gauge}
SHAPES = ((1, 2), (7, 3), (60, 16), (61, 17), (33, 40), (9, 700))


def in_order(row):
    """The definition, one number at a time."""
    total = 0.0
    for value in row.tolist():
        total += value * value
    return total


def rows_of(shape, dtype, seed=0):
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal(shape) * np.exp(rng.normal(size=shape) * 3.0)
    rows[rng.random(shape) < 0.3] = 0.0
    rows[:, -1] += 0.1
    return rows.astype(dtype)


@pytest.mark.parametrize("name", GAUGES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sums_of_squares_are_those_of_the_definition(name, dtype):
    gauge = GAUGES[name]
    for shape in SHAPES:
        rows = rows_of(shape, dtype)
        expected = [in_order(row) for row in rows]
        assert gauge.squares(rows).tolist() == expected
        csr = sp.csr_array(rows)
        assert csr.nnz < rows.size or rows.size < 10
        assert gauge.csr_squares(csr.data, csr.indptr).tolist() == expected
        for number in range(len(rows)):
            assert gauge.squares(rows[number : number + 1]).tolist() == expected[number : number + 1]


def test_a_sum_in_another_order_or_with_fused_steps_would_be_seen():
    rows = rows_of((400, 40), np.float64)
    expected = [in_order(row) for row in rows]
    assert [math.fsum(row * row) for row in rows] != expected
    assert [in_order(row[::-1]) for row in rows] != expected
    wide = rows.astype(np.longdouble)
    fused = np.zeros(len(rows))
    for column in range(rows.shape[1]):
        fused = (wide[:, column] * wide[:, column] + fused).astype(np.float64)
    assert fused.tolist() != expected


@pytest.mark.parametrize("name", GAUGES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows_are_called_unit_only_where_the_norm_is(name, dtype):
    """At and around the tolerance the quick look may not be sure; where it is, the norm agrees."""
    gauge, tolerance = GAUGES[name], UNIT_TOLERANCE[np.dtype(dtype)]
    rng = np.random.default_rng(1)
    n_sure = 0
    for n_features in (2, 3, 8, 15, 17, 300, 3000):
        for off in np.concatenate([np.linspace(-2.2, 2.2, 45), [0.0]]) * tolerance:
            row = rng.standard_normal(n_features)
            row = ((1.0 + off) * row / np.linalg.norm(row)).astype(dtype)[None]
            is_off = abs(math.sqrt(in_order(row[0])) - 1.0) > tolerance
            if gauge.are_unit(row, tolerance):
                n_sure += 1
                assert not is_off
            block = unit_block(row, 0, "Model", gauge=gauge)
            assert np.shares_memory(block, row) != is_off
    assert n_sure > 20 or name == "reference"


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows_have_equal_bits_however_they_are_held(tmp_path, dtype):
    for shape in SHAPES:
        rows = rows_of(shape, dtype)
        expected = np.array([row / math.sqrt(in_order(row)) for row in rows.astype(np.float64)]).astype(dtype)
        np.save(tmp_path / "rows.npy", rows)
        shuffled = sp.csr_array(rows)
        for start, stop in zip(shuffled.indptr, shuffled.indptr[1:], strict=False):
            order = slice(start, stop)
            shuffled.indices[order] = shuffled.indices[order][::-1].copy()
            shuffled.data[order] = shuffled.data[order][::-1].copy()
        shuffled.has_sorted_indices = shuffled.has_canonical_format = False
        forms = [
            rows,
            np.asfortranarray(rows),
            np.repeat(rows, 2, axis=1)[:, ::2],
            rows.astype(rows.dtype.newbyteorder()),
        ]
        forms += [sp.csr_array(rows), sp.csc_array(rows), sp.coo_array(rows), shuffled]
        for gauge in GAUGES.values():
            for form in forms:
                held = as_points(form, "Model", gauge=gauge)
                found = held.matrix if isinstance(held.matrix, np.ndarray) else held.matrix.toarray()
                np.testing.assert_array_equal(found, expected)
            mapped = as_points(np.load(tmp_path / "rows.npy", mmap_mode="r"), "Model", gauge=gauge)
            parts = [mapped.block(start, min(start + 5, len(rows))) for start in range(0, len(rows), 5)]
            np.testing.assert_array_equal(np.concatenate(parts), expected)


@pytest.mark.parametrize("dtype", [np.float16, np.int8, np.uint8, np.int16])
def test_short_numbers_are_the_float32_rows_of_the_same_values(tmp_path, dtype):
    given = np.clip(np.round(10.0 * rows_of((50, 24), np.float64)), -100, 100)
    given[:, 0] = np.arange(50) % 7 + 1
    short = np.abs(given).astype(dtype) if dtype == np.uint8 else given.astype(dtype)
    expected = unit_rows(short.astype(np.float32), "Model")
    np.save(tmp_path / "rows.npy", short)
    for gauge in GAUGES.values():
        held = as_points(short, "Model", gauge=gauge)
        assert held.dtype == np.float32
        np.testing.assert_array_equal(held.matrix, expected)
        mapped = as_points(np.load(tmp_path / "rows.npy", mmap_mode="r"), "Model", gauge=gauge)
        assert mapped.matrix.dtype == dtype
        np.testing.assert_array_equal(mapped.block(3, 40), expected[3:40])


def test_numbers_whose_squares_leave_the_range_have_one_norm_too():
    rng = np.random.default_rng(2)
    for size in (1e300, 1e200, 1e130, 1e-130, 1e-200, 1e-300, 1e-310):
        rows = rng.standard_normal((20, 30)) * size * np.exp(rng.normal(size=(20, 30)) * 2.0)
        units = [
            np.asarray(matrix if isinstance(matrix, np.ndarray) else matrix.toarray())
            for gauge in GAUGES.values()
            for matrix in (
                as_points(rows, "M", gauge=gauge).matrix,
                as_points(sp.csr_array(rows), "M", gauge=gauge).matrix,
            )
        ]
        for unit in units[1:]:
            np.testing.assert_array_equal(unit, units[0])
