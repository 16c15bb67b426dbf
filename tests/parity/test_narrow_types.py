"""Rows of float16 and bytes: the kernel that makes them unit float32 rows has the bits of the gate in NumPy."""

import numpy as np
import pytest

from armillary.kernels.rows.narrow_types import unit_bytes, unit_halves
from armillary.kernels.select import kernels_for
from armillary.validation import GAUGE, UNIT_TOLERANCE, unit_block

_WITHIN = UNIT_TOLERANCE[np.dtype(np.float32)]
_gauge = kernels_for("cpu").gauge


def halves(kind, n_features, draws):
    bits = draws.integers(0, 0x7C00, (500, n_features)) | (draws.integers(0, 2, (500, n_features)) << 15)
    rows = {
        "any": bits.astype(np.uint16).view(np.float16),
        "subnormal": (bits & 0x83FF).astype(np.uint16).view(np.float16),
        "plain": draws.normal(size=(500, n_features)).astype(np.float16),
    }.get(kind)
    if rows is None:  # unit already, or nearly
        rows = draws.normal(size=(500, n_features))
        rows = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float16)
        rows[::3] = np.eye(n_features)[draws.integers(0, n_features, len(rows[::3]))]
    return np.where(np.any(rows != 0, axis=1, keepdims=True), rows, np.float16(1.0))


@pytest.mark.parametrize("kind", ["any", "subnormal", "plain", "unit"])
def test_float16(kind):
    draws = np.random.default_rng(7)
    for n_features in (2, 3, 16, 17, 100, 384):
        rows = halves(kind, n_features, draws)
        expected = unit_block(rows, 0, "Model", gauge=GAUGE)
        for part in (slice(None), slice(3, 8), slice(3, 4)):
            found = unit_block(rows[part], 0, "Model", gauge=_gauge)
            assert found.dtype == np.float32
            np.testing.assert_array_equal(found.view(np.uint32), expected[part].view(np.uint32))


def test_quotients_in_the_middle_between_two_numbers_are_divided():
    # of 8 million quotients some lie so near that a product with 1 / norm cannot tell
    draws = np.random.default_rng(11)
    for _ in range(8):
        rows = draws.integers(1, 128, (125_000, 8)).astype(np.int8)
        wide = rows.astype(np.float64)
        norms = np.sqrt(np.add.accumulate(wide * wide, axis=1)[:, -1:])
        out = np.empty(rows.shape, np.float32)
        assert unit_bytes(rows, _WITHIN, out)
        np.testing.assert_array_equal(out, (wide / norms).astype(np.float32))


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.bool_, ">f2"])
def test_whole_numbers(dtype):
    rows = np.random.default_rng(5).integers(0, 127, (300, 37)).astype(dtype)
    rows[:, 0] = 1
    expected = unit_block(rows, 0, "Model", gauge=GAUGE)
    np.testing.assert_array_equal(unit_block(rows, 0, "Model", gauge=_gauge), expected)


def test_rows_without_direction_are_left_to_the_gate():
    out = np.empty((2, 3), np.float32)
    for bad in (np.nan, np.inf, -np.inf):
        rows = np.array([[1, 2, 3], [1, bad, 2]], np.float16)
        assert not unit_halves(rows.view(np.uint16), _WITHIN, out)
        with pytest.raises(ValueError, match=r"Row 11 of X contains"):
            unit_block(rows, 10, "Model", gauge=_gauge)
    assert not unit_halves(np.zeros((1, 3), np.uint16), _WITHIN, out)
    assert not unit_bytes(np.zeros((1, 3), np.int8), _WITHIN, out)
