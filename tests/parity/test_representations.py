"""One set of rows in many forms: a fit has equal bits where the numbers are equal, and agrees to rounding elsewhere."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

from armillary import SphericalKMeans, VonMisesFisherMixture
from armillary.engines import cpu

FITTED = ("labels_", "cluster_centers_", "counts_", "resultants_", "objective_", "inertia_", "n_iter_")
ALGORITHMS = ("lloyd", "hamerly")

every_dtype = pytest.mark.parametrize("dtype", [np.float32, np.float64], ids=["float32", "float64"])
both_algorithms = pytest.mark.parametrize("algorithm", ALGORITHMS)
weighted = pytest.mark.parametrize("is_weighted", [False, True], ids=["alike", "weighted"])


def clumped(rng, n_rows, n_features, spread=0.7):
    rows = rng.standard_normal((6, n_features))[rng.integers(0, 6, n_rows)]
    return rows + spread * rng.standard_normal(rows.shape)


def normalised(rows, dtype):
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(dtype)


def fit(rows, sample_weight=None, **parameters):
    model = SphericalKMeans(6, **{"random_state": 3, "n_threads": 1, "max_iter": 40, **parameters})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(rows, sample_weight=sample_weight)


def assert_same_bits(one, other, message=""):
    for name in FITTED:
        mine, theirs = np.asarray(getattr(one, name)), np.asarray(getattr(other, name))
        assert mine.dtype == theirs.dtype, (message, name)
        assert mine.tobytes() == theirs.tobytes(), (message, name)


def in_other_forms(rows, folder):
    """The same numbers, laid out otherwise."""
    mapped = {}
    for order in "CF":
        mapped[order] = np.memmap(folder / f"{order}.bin", rows.dtype, "w+", shape=rows.shape, order=order)
        mapped[order][:] = rows
        mapped[order].flush()
    np.save(folder / "rows.npy", rows)
    wide = np.zeros((2 * rows.shape[0], 3 * rows.shape[1]), rows.dtype)
    wide[::2, ::3] = rows
    read_only = rows.copy()
    read_only.setflags(write=False)
    return {
        "by column": np.asfortranarray(rows),
        "mapped": mapped["C"],
        "mapped by column": mapped["F"],
        "mapped for reading": np.load(folder / "rows.npy", mmap_mode="r"),
        "every second row, every third column": wide[::2, ::3],
        "backwards": rows[::-1].copy()[::-1],
        "read only": read_only,
        "other byte order": rows.astype(rows.dtype.newbyteorder()),
        "data frame": pd.DataFrame(rows, columns=[f"x{d}" for d in range(rows.shape[1])]),
    }


@pytest.mark.parametrize("n_features", [3, 24])
@pytest.mark.parametrize("is_unit", [True, False], ids=["unit", "long"])
@every_dtype
@weighted
@both_algorithms
def test_layout_does_not_change_a_bit(tmp_path, n_features, is_unit, dtype, is_weighted, algorithm):
    # 2,500 rows: more than the gate converts and a pass reads at once where rows stay on disk
    rng = np.random.default_rng([1, n_features])
    rows = clumped(rng, 2500, n_features)
    rows = normalised(rows, dtype) if is_unit else rows.astype(dtype)
    weights = rng.gamma(1.0, size=2500) if is_weighted else None
    wanted = fit(rows, weights, algorithm=algorithm)
    similarities = wanted.transform(rows)
    before = rows.copy()
    for name, same in in_other_forms(rows, tmp_path).items():
        model = fit(same, weights, algorithm=algorithm)
        assert_same_bits(model, wanted, name)
        bare = same.to_numpy() if name == "data frame" else same
        assert wanted.predict(bare).tobytes() == wanted.labels_.tobytes(), name
        assert wanted.transform(bare).tobytes() == similarities.tobytes(), name
        assert wanted.score(bare, sample_weight=weights) == -wanted.inertia_, name
    assert rows.tobytes() == before.tobytes()


@pytest.mark.parametrize("n_features", [3, 24])
def test_lists_and_whole_numbers_are_rows_too(n_features):
    rng = np.random.default_rng([2, n_features])
    whole = np.rint(10 * clumped(rng, 60, n_features)).astype(np.int64)
    whole[~whole.any(axis=1), 0] = 1
    wanted = fit(whole.astype(np.float64))
    assert_same_bits(fit(whole), wanted)
    assert_same_bits(fit(whole.tolist()), wanted)
    assert_same_bits(fit(whole.astype(object)), wanted)
    # 8- and 16-bit numbers fit in float32 without loss
    narrow = fit(whole.astype(np.float32))
    assert_same_bits(fit(whole.astype(np.int16)), narrow)
    assert_same_bits(fit(whole.astype(np.float16)), narrow)


# ------------------------------------------------------------------------------------------------------- threads


@pytest.mark.parametrize("name", ["narrow", "wide", "csr"])
@both_algorithms
@weighted
def test_fits_with_one_thread_and_more_have_equal_bits(name, algorithm, is_weighted):
    n_rows, n_features = {"narrow": (65_600, 3), "wide": (4_200, 40), "csr": (4_200, 60)}[name]
    rng = np.random.default_rng([3, n_features])
    rows = clumped(rng, n_rows, n_features).astype(np.float32)
    if name == "csr":
        rows *= rng.random(rows.shape) < 0.2
        rows[~rows.any(axis=1), 0] = 1.0
        rows = sp.csr_array(rows)
    weights = rng.gamma(1.0, size=n_rows) if is_weighted else None
    parameters = {"algorithm": algorithm, "max_iter": 6}
    one = fit(rows, weights, n_threads=1, **parameters)
    for n_threads in (2, 3, None):
        other = fit(rows, weights, n_threads=n_threads, **parameters)
        assert_same_bits(other, one, n_threads)
        assert other.transform(rows).tobytes() == one.transform(rows).tobytes()


@pytest.mark.parametrize("concentration", ["tied", "free"])
@every_dtype
@weighted
def test_mixtures_of_csr_rows_have_equal_bits_with_any_threads_and_agree_for_any_block(
    monkeypatch, concentration, dtype, is_weighted
):
    rng = np.random.default_rng(9)
    rows = sp.csr_array(sparse_rows(rng, 1_500, 40, dtype))
    weights = rng.gamma(1.0, size=1_500) if is_weighted else None
    names = ("weights_", "means_", "concentrations_", "labels_", "log_likelihood_")

    def fitted(n_threads):
        model = VonMisesFisherMixture(
            6, concentration=concentration, random_state=2, max_iter=5, tol=0.0, n_threads=n_threads
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(rows, sample_weight=weights)
        return [np.asarray(getattr(model, name)) for name in names]

    whole = fitted(1)
    monkeypatch.setattr(cpu, "_SHARES_AT_ONCE", 1_000)  # nine blocks
    cut = fitted(1)
    for n_threads in (2, 3):
        assert [array.tobytes() for array in fitted(n_threads)] == [array.tobytes() for array in cut]
    for one, other in zip(cut, whole, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-12)


# ---------------------------------------------------------------------------------------------------------- CSR


def sparse_rows(rng, n_rows, n_features, dtype):
    rows = clumped(rng, n_rows, n_features) * (rng.random((n_rows, n_features)) < 0.4)
    rows[~rows.any(axis=1), 0] = 1.0
    return rows.astype(dtype)


@pytest.mark.parametrize("n_features", [3, 16, 17, 50])
@every_dtype
@weighted
@both_algorithms
def test_dense_and_csr_agree(n_features, dtype, is_weighted, algorithm):
    for seed in range(3):
        rng = np.random.default_rng([4, n_features, seed])
        rows = sparse_rows(rng, 400, n_features, dtype)
        weights = rng.gamma(1.0, size=400) if is_weighted else None
        for init in ("k-means++", rows[rng.choice(400, 6, replace=False)]):
            dense = fit(rows, weights, init=init, algorithm=algorithm)
            csr = fit(sp.csr_array(rows), weights, init=init, algorithm=algorithm)
            np.testing.assert_array_equal(csr.labels_, dense.labels_)
            assert csr.n_iter_ == dense.n_iter_
            # each is normalised by its own sum of squares: an ulp of the rows' dtype apart, if at all
            atol = 1e-13 if dtype == np.float64 else 2e-7
            np.testing.assert_allclose(csr.cluster_centers_, dense.cluster_centers_, rtol=0, atol=atol)
            np.testing.assert_allclose(csr.inertia_, dense.inertia_, rtol=0, atol=400 * atol)
            np.testing.assert_allclose(csr.transform(sp.csr_array(rows)), dense.transform(rows), rtol=0, atol=2 * atol)
            np.testing.assert_array_equal(csr.predict(rows), dense.predict(sp.csr_array(rows)))


@every_dtype
@both_algorithms
@weighted
def test_forms_of_csr_have_equal_bits(dtype, algorithm, is_weighted):
    rng = np.random.default_rng(5)
    rows = sp.csr_array(sparse_rows(rng, 400, 30, dtype))
    weights = rng.gamma(1.0, size=400) if is_weighted else None
    wanted = fit(rows, weights, algorithm=algorithm)
    long = rows.copy()
    long.indices, long.indptr = long.indices.astype(np.int64), long.indptr.astype(np.int64)
    with_zeros = sp.csr_array(
        (np.r_[rows.data, 0], np.r_[rows.indices, 29], np.r_[rows.indptr[:-1], rows.indptr[-1] + 1]), shape=rows.shape
    )
    assert with_zeros.nnz == rows.nnz + 1
    forms = {
        "csr_matrix": sp.csr_matrix(rows),
        "csc_array": sp.csc_array(rows),
        "coo_array": sp.coo_array(rows),
        "lil_array": sp.lil_array(rows),
        "64-bit indices": long,
        "rows of a larger matrix": sp.csr_array(sp.vstack([rows, rows]))[:400],
        "a stored zero": with_zeros,
        "other byte order": sp.csr_array(
            (rows.data.astype(rows.dtype.newbyteorder()), rows.indices, rows.indptr), shape=rows.shape
        ),
    }
    assert long.indices.dtype == np.int64
    for name, same in forms.items():
        model = fit(same, weights, algorithm=algorithm)
        assert_same_bits(model, wanted, name)
        assert wanted.predict(same).tobytes() == wanted.labels_.tobytes(), name
        assert wanted.transform(same).tobytes() == wanted.transform(rows).tobytes(), name


def test_entries_given_twice_are_added():
    rng = np.random.default_rng(6)
    rows = sp.coo_array(sparse_rows(rng, 100, 20, np.float64))
    twice = sp.csr_array(
        (np.r_[rows.data / 2, rows.data / 2], (np.r_[rows.row, rows.row], np.r_[rows.col, rows.col])), shape=rows.shape
    )
    raw = sp.csr_array(rows)
    doubled = sp.csr_array((np.repeat(raw.data / 2, 2), np.repeat(raw.indices, 2), 2 * raw.indptr), shape=raw.shape)
    assert doubled.nnz == 2 * raw.nnz
    wanted = fit(raw)
    assert_same_bits(fit(doubled), wanted)
    assert_same_bits(fit(twice), wanted)
    assert doubled.nnz == 2 * raw.nnz  # the caller's matrix is left as it was


def shuffled_columns(rows, rng):
    """The same matrix with the entries of each row stored in another order."""
    data, indices = rows.data.copy(), rows.indices.copy()
    for start, stop in zip(rows.indptr, rows.indptr[1:], strict=False):
        order = start + rng.permutation(stop - start)
        data[start:stop], indices[start:stop] = rows.data[order], rows.indices[order]
    return sp.csr_array((data, indices, rows.indptr), shape=rows.shape)


def test_order_within_rows_changes_labels_at_ties_of_float64_at_most():
    # products are added in the order stored; unsorted rows are neither copied nor sorted
    rng = np.random.default_rng(7)
    rows = normalised(rng.random((300, 6)), np.float64)
    centers = normalised(rng.random((3, 6)), np.float64)
    centers = np.concatenate([centers, centers * (1 + 2e-16), centers[:, ::-1] * (1 - 1e-9)])
    model = fit(rows)
    model.cluster_centers_, model.offsets_ = centers, np.zeros(len(centers))
    csr = sp.csr_array(rows)
    wanted = model.predict(rows)
    np.testing.assert_array_equal(model.predict(csr), wanted)
    unsorted = shuffled_columns(csr, rng)
    assert not unsorted.has_sorted_indices
    kept = unsorted.indices.copy()
    labels = model.predict(unsorted)
    scores = rows @ centers.T
    assert (scores[np.arange(300), labels] >= scores.max(axis=1) - 1e-15).all()
    np.testing.assert_array_equal(labels % 3, wanted % 3)
    np.testing.assert_array_equal(unsorted.indices, kept)  # the caller's matrix is left as it was


def test_order_within_rows_changes_a_fit_by_rounding_at_most():
    rng = np.random.default_rng(8)
    rows = sp.csr_array(sparse_rows(rng, 300, 30, np.float64))
    wanted = fit(rows)
    model = fit(shuffled_columns(rows, rng))
    np.testing.assert_array_equal(model.labels_, wanted.labels_)
    np.testing.assert_allclose(model.cluster_centers_, wanted.cluster_centers_, rtol=0, atol=1e-13)


# -------------------------------------------------------------------------------------------------- one by one


@pytest.mark.parametrize("n_features", [3, 24])
@every_dtype
@pytest.mark.parametrize("is_sparse", [False, True], ids=["dense", "csr"])
def test_rows_one_at_a_time_get_the_labels_of_all_at_once(n_features, dtype, is_sparse):
    rng = np.random.default_rng([9, n_features])
    rows = sparse_rows(rng, 120, n_features, dtype)
    rows = sp.csr_array(rows) if is_sparse else rows
    # centers in pairs that differ by rounding: a score that depends on the size of the block would show
    model = fit(rows)
    pairs = model.cluster_centers_.copy()
    pairs[3:] = pairs[:3] + 1e-16 * rng.standard_normal((3, n_features))
    model.cluster_centers_ = pairs
    together = model.predict(rows)
    alone = [model.predict(rows[[number]])[0] for number in range(120)]
    np.testing.assert_array_equal(alone, together)
    some = np.arange(120)[::-3]
    np.testing.assert_array_equal(model.predict(rows[some]), together[some])
