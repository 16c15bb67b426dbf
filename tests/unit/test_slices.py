"""Rows grouped by slices: times of every kind and their sentences, views of rows, and passes over each slice."""

from __future__ import annotations

import datetime
import re

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from armillary.engines.cpu import Passes
from armillary.exceptions import InputError, InputTypeError
from armillary.fitting import slices as s
from armillary.kernels.rows import blocks as cpu
from armillary.points import as_points
from armillary.rules import AffineRule
from armillary.workers import Workers


def rows(n=60, n_features=7, seed=0):
    made = np.random.default_rng(seed).standard_normal((n, n_features))
    return made / np.linalg.norm(made, axis=1, keepdims=True)


# ---------------------------------------------------------------------------------------------------------- times


@pytest.mark.parametrize(
    ("times", "known"),
    [
        ([3, 1, 3, 2], [1, 2, 3]),
        (np.array([3, 1, 3, 2], dtype=np.uint8), [1, 2, 3]),
        ([0.5, -1.0, 0.5, 0.0], [-1.0, 0.0, 0.5]),
        (["b", "a", "b", "ab"], ["a", "ab", "b"]),
        (np.array(["b", "a", "b", "ab"], dtype=object), ["a", "ab", "b"]),
        (pd.Series(["b", "a", "b", "ab"]), ["a", "ab", "b"]),
        (np.array(["2001", "1999", "2001", "2000"], dtype="datetime64[Y]"), ["1999", "2000", "2001"]),
        ([datetime.date(2001, 5, day) for day in (3, 1, 3, 2)], ["2001-05-01", "2001-05-02", "2001-05-03"]),
        (pd.to_datetime(["2001-05-03", "2001-05-01", "2001-05-03", "2001-05-02"]), None),
        ([3, 1.5, 3, 2], [1.5, 2.0, 3.0]),
        (np.array([3, 1.5, 3, 2], dtype=object), [1.5, 2.0, 3.0]),
    ],
    ids=lambda value: str(type(value).__name__),
)
def test_times_of_every_kind(times, known):
    found, numbers = s.find_slices(times, None, 4, "Model")
    np.testing.assert_array_equal(numbers, [2, 0, 2, 1])
    assert numbers.dtype == np.int64
    if known is not None:
        assert [str(value) for value in found] == [str(value) for value in known]
    # each is found again
    np.testing.assert_array_equal(s.locate_slices(times, found, 4, "Model", ""), numbers)


def test_one_time_for_all_rows():
    found, numbers = s.find_slices("now", None, 3, "Model")
    assert found.tolist() == ["now"]
    np.testing.assert_array_equal(numbers, [0, 0, 0])
    np.testing.assert_array_equal(s.locate_slices(7.0, np.arange(9), 2, "Model", ""), [7, 7])


def test_slices_without_rows_are_named():
    found, numbers = s.find_slices([1999, 1997], range(1996, 2000), 2, "Model")
    np.testing.assert_array_equal(found, [1996, 1997, 1998, 1999])
    np.testing.assert_array_equal(numbers, [3, 1])
    found, numbers = s.find_slices([1.0, 3.0], [3, 2, 1], 2, "Model")
    np.testing.assert_array_equal(found, [1, 2, 3])
    np.testing.assert_array_equal(numbers, [0, 2])


@pytest.mark.parametrize(
    ("call", "error", "said"),
    [
        (
            lambda: s.find_slices([1, 2], None, 3, "M"),
            InputError,
            "`times` of M must have one value per row, shape (3,); got (2,). Give the time of each row of X, or one",
        ),
        (
            lambda: s.find_slices([1.0, np.nan], None, 2, "M"),
            InputError,
            "`times` of M must not be missing; got NaN or NaT among them. Drop such rows.",
        ),
        (
            lambda: s.find_slices(np.array(["2000", "NaT"], dtype="datetime64[D]"), None, 2, "M"),
            InputError,
            "`times` of M must not be missing; got NaN or NaT",
        ),
        (
            lambda: s.find_slices([1 + 2j, 0j], None, 2, "M"),
            InputTypeError,
            "`times` of M must be numbers, strings or dates; got dtype complex128. Number the slices 0, 1, ...",
        ),
        (
            lambda: s.find_slices(np.array(["a", 1], dtype=object), None, 2, "M"),
            InputTypeError,
            "`times` of M must be numbers, strings or dates, all of one kind; got 'a' and others.",
        ),
        (
            lambda: s.find_slices([1, 5], [1, 2, 3], 2, "M"),
            InputError,
            "`times` of M must be among its 3 slices, 1 to 3; got 5 for row 1. Add it to `slices`, or drop such rows.",
        ),
        (
            lambda: s.find_slices([1, 1], [1, 2, 2], 2, "M"),
            InputError,
            "`slices` of M must be the times of the slices, each named once; got shape (3,) with 2 different values.",
        ),
        (
            lambda: s.locate_slices(["1"], np.array([1]), 1, "M", ""),
            InputTypeError,
            "`times` of M must be numbers like the slices, 1; got strings such as '1'. Convert them.",
        ),
        (
            lambda: s.join_batches([np.ones((2, 3)), np.ones((0, 4))], "M"),
            InputError,
            "Batches of M must have the same columns; batch 0 has 3 and batch 1 has 4. Give an empty batch its columns",
        ),
        (
            lambda: s.join_weights([np.ones(2), np.ones(1)], [np.ones((1, 2)), np.ones((2, 2))], "M"),
            InputError,
            "`sample_weight` of M must have one array for each batch, of its number of rows [1, 2]; got arrays of",
        ),
    ],
    ids=range(10),
)
def test_sentences(call, error, said):
    with pytest.raises(error, match=re.escape(said)):
        call()


# -------------------------------------------------------------------------------------------------------- batches


def test_batches_are_told_from_rows():
    table = rows(4)
    assert s.is_batches([table, table[:0]])
    assert s.is_batches((sp.csr_array(table), table))
    assert s.is_batches([pd.DataFrame(table)])
    for other in (table, table.tolist(), list(table), [], pd.DataFrame(table), np.stack([table, table])):
        assert not s.is_batches(other)


@pytest.mark.parametrize("hold", [np.asarray, sp.csr_array, pd.DataFrame])
def test_batches_are_joined(hold):
    table = rows(5)
    joined, numbers = s.join_batches([hold(table[:3]), hold(table[:0]), hold(table[3:])], "M")
    np.testing.assert_array_equal(joined.toarray() if sp.issparse(joined) else joined, table)
    np.testing.assert_array_equal(numbers, [0, 0, 0, 2, 2])
    weights = s.join_weights([np.arange(3), np.empty(0), np.arange(2)], [table[:3], table[:0], table[3:]], "M")
    np.testing.assert_array_equal(weights, [0, 1, 2, 0, 1])
    assert s.join_weights(None, [], "M") is None


# ---------------------------------------------------------------------------------------------------------- points


def over(points, numbers, n_slices):
    return s.SlicedPasses.of(Passes(points, cpu, Workers(1)), numbers, n_slices)


def parts(sliced):
    """The points of each slice; None where there are no rows."""
    return sliced.each(lambda _, rows: rows.points, lambda _: None)


@pytest.mark.parametrize("hold", [np.asarray, sp.csr_array])
def test_slices_of_rows_in_order_are_views(hold):
    points = as_points(hold(rows()), "M")
    sliced = over(points, np.repeat([0, 2, 3], [10, 20, 30]), 5)
    assert (len(sliced), sliced.sizes.tolist()) == (5, [10, 0, 20, 30, 0])
    assert sliced.whole.points is points
    part = parts(sliced)[2]
    values, whole = (part.matrix, points.matrix) if hold is np.asarray else (part.matrix.data, points.matrix.data)
    assert np.shares_memory(values, whole)
    np.testing.assert_array_equal(part.rows(np.arange(20)), points.rows(np.arange(10, 30)))
    assert parts(sliced)[1] is parts(sliced)[4] is None
    assert parts(sliced)[2] is part  # made once


@pytest.mark.parametrize("hold", [np.asarray, sp.csr_array])
def test_rows_in_any_order_come_back_in_it(hold):
    rng = np.random.default_rng(1)
    numbers = rng.integers(4, size=60)
    weights = rng.gamma(1.0, size=60)
    points = as_points(hold(rows()), "M", weights)
    sliced = over(points, numbers, 4)
    for number, part in enumerate(parts(sliced)):
        here = np.flatnonzero(numbers == number)
        np.testing.assert_array_equal(part.rows(np.arange(len(here))), points.rows(here))
        np.testing.assert_array_equal(part.weights, weights[here])
    np.testing.assert_array_equal(sliced.as_given(np.sort(numbers)), numbers)
    np.testing.assert_array_equal(sliced.as_given(sliced.whole.points.weights), weights)


def test_rows_of_no_stated_time_are_in_the_last_slice():
    sliced = s.SlicedPasses.last(Passes(as_points(rows(), "M"), cpu, Workers(1)), 3)
    assert sliced.sizes.tolist() == [0, 0, 60]


# ---------------------------------------------------------------------------------------------------------- passes


@pytest.mark.parametrize("hold", [np.asarray, sp.csr_array])
def test_passes_over_slices_do_not_depend_on_threads(hold):
    numbers = np.random.default_rng(2).permutation(np.repeat([0, 1, 3, 4, 5, 6, 7, 8], [500, 3, 900, 40, 1, 7, 80, 90]))
    points = as_points(hold(rows(len(numbers), 20)), "M")
    rule = AffineRule(5.0 * rows(3, 20, seed=1), np.zeros(3))
    outcomes = []
    for n_threads in (1, 2, 16):
        with Workers(n_threads) as workers:
            passes = s.SlicedPasses.of(Passes(points, cpu, workers), numbers, 9)
            sums = passes.each(lambda _, over: over.soft_sums(rule), lambda number: number)
            table = passes.rows(lambda _, over: over.responsibilities(rule)[0])
        outcomes.append((sums, table))
    for sums, table in outcomes:
        assert sums[2] == 2  # the one without rows
        for number in (0, 1, 8):
            np.testing.assert_array_equal(sums[number][0].resultants, outcomes[0][0][number][0].resultants)
            assert sums[number][1] == outcomes[0][0][number][1]
        np.testing.assert_array_equal(table, outcomes[0][1])
    # each row where it was
    with Workers(1) as workers:
        whole = Passes(points, cpu, workers).responsibilities(rule)[0]
    np.testing.assert_allclose(outcomes[0][1], whole, rtol=1e-12)
    counts = sum(part[0].counts for part in outcomes[0][0] if part != 2)
    np.testing.assert_allclose(counts, whole.sum(axis=0), rtol=1e-12)
