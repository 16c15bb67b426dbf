"""Sparse matrices whose arrays do not hold together are refused with a sentence, before compiled code sees them."""

from __future__ import annotations

import pickle
import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse as sp
from tests.making import each

from armillary import sparse_structure
from armillary.exceptions import InputError
from armillary.sparse_structure import checked_csr

FORMS = ["csr", "csc", "coo", "lil", "dok", "bsr", "dia"]
BUILD_AGAIN = (
    "Build it again, e.g. from its rows, columns and values: scipy.sparse.coo_array((values, (rows, columns)))."
)


def matrix(form="csr", kind="array"):
    """4 x 6, two entries in each row."""
    dense = np.zeros((4, 6))
    for row in range(4):
        dense[row, [row, row + 2]] = 1.0 + row, 2.0
    return getattr(sp, f"{form}_{kind}")(dense)


def changed(form, **arrays):
    """A matrix with some of its arrays, or attributes, replaced."""
    found = matrix(form)
    for name, value in arrays.items():
        setattr(found, name, value)
    return found


def ints(*values, dtype=np.int32):
    return np.array(values, dtype=dtype)


def shared(form, name, place, value):
    """A matrix with one number of one array changed."""
    found = matrix(form)
    array = getattr(found, name).copy()
    array[place] = value
    setattr(found, name, array)
    return found


def long_row_of_lists():
    found = matrix("lil")
    found.rows[1] = [0, 1, 2, 3]
    return found


def lists_with(value):
    found = matrix("lil")
    found.rows[2][1] = value
    return found


def keys_with(key):
    found = matrix("dok")
    found._dict[key] = 1.0
    return found


# name -> (what makes it, the sentence)
BROKEN = {
    "a pointer far outside": (
        lambda: sp.csr_matrix((np.ones(4), [0, 1, 2, 3], [0, 10**8, 2, 3, 4]), shape=(4, 6)),
        f"The row pointers of X of Model must not fall; row 1 goes from 100000000 to 2. {BUILD_AGAIN}",
    ),
    "a first pointer below 0": (
        lambda: shared("csr", "indptr", 0, -5),
        f"The row pointers of X of Model must begin at 0; got -5. {BUILD_AGAIN}",
    ),
    "a pointer below 0": (
        lambda: shared("csr", "indptr", 2, -(2**31)),
        f"The row pointers of X of Model must not fall; row 1 goes from 2 to -2147483648. {BUILD_AGAIN}",
    ),
    "a last pointer that is too large": (
        lambda: shared("csr", "indptr", -1, 2**31 - 1),
        (
            "X of Model must have a column number and a value for each of the 2147483647 entries that its row pointers "
            f"name; got 8 and 8. {BUILD_AGAIN}"
        ),
    ),
    "too few pointers": (
        lambda: changed("csr", indptr=ints(0, 2, 4)),
        "X of Model must have one row pointer more than rows, 5; its indptr has 3. Give the matrix its true shape.",
    ),
    "no pointers": (
        lambda: changed("csr", indptr=ints()),
        "X of Model must have one row pointer more than rows, 5; its indptr has 0. Give the matrix its true shape.",
    ),
    "a shape with more rows": (
        lambda: changed("csr", _shape=(1000, 6)),
        "X of Model must have one row pointer more than rows, 1001; its indptr has 5. Give the matrix its true shape.",
    ),
    "a shape with fewer columns": (
        lambda: changed("csr", _shape=(4, 3)),
        "Row 1 of X names column 3; Model got a matrix whose columns go from 0 to 2. Give the matrix its true shape.",
    ),
    "a shape below 0": (
        lambda: changed("csr", _shape=(4, -6)),
        f"X of Model must have a shape of two whole numbers; got a sparse matrix of shape (4, -6). {BUILD_AGAIN}",
    ),
    "too few indices": (
        lambda: changed("csr", indices=ints(0, 1)),
        (
            "X of Model must have a column number and a value for each of the 8 entries that its row pointers "
            "name; got 2 "
            f"and 8. {BUILD_AGAIN}"
        ),
    ),
    "too few values": (
        lambda: changed("csr", data=np.ones(3)),
        (
            "X of Model must have a column number and a value for each of the 8 entries that its row pointers "
            "name; got 8 "
            f"and 3. {BUILD_AGAIN}"
        ),
    ),
    "values with two axes": (
        lambda: changed("csr", data=np.ones((8, 1))),
        f"The array `data` of X of Model must have 1 axes in a csr matrix; got shape (8, 1). {BUILD_AGAIN}",
    ),
    "pointers that are not whole": (
        lambda: changed("csr", indptr=np.array([0.0, 2.0, 4.0, 6.0, 8.0])),
        (
            "The array `indptr` of X of Model must be one-dimensional and of int32 or int64; got float64 of "
            "shape (5,). "
            f"{BUILD_AGAIN}"
        ),
    ),
    "indices in a list": (
        lambda: changed("csr", indices=[0, 2, 1, 3, 2, 4, 3, 5]),
        f"The array `indices` of X of Model must be one-dimensional and of int32 or int64; got list. {BUILD_AGAIN}",
    ),
    "indices with two axes": (
        lambda: changed("csr", indices=matrix().indices.reshape(2, 4)),
        (
            "The array `indices` of X of Model must be one-dimensional and of int32 or int64; got int32 of shape "
            "(2, 4). "
            f"{BUILD_AGAIN}"
        ),
    ),
    "a column beyond the last, in order": (
        lambda: shared("csr", "indices", 3, 6),
        "Row 1 of X names column 6; Model got a matrix whose columns go from 0 to 5. Give the matrix its true shape.",
    ),
    "a column below 0, out of order": (
        lambda: shared("csr", "indices", 7, -1),
        "Row 3 of X names column -1; Model got a matrix whose columns go from 0 to 5. Give the matrix its true shape.",
    ),
    "a column beyond 32 bits": (
        lambda: changed("csr", indices=ints(0, 2, 1, 3, 2, 4, 3, 2**40 + 5, dtype=np.int64)),
        (
            "Row 3 of X names column 1099511627781; Model got a matrix whose columns go from 0 to 5. "
            "Give the matrix its true shape."
        ),
    ),
    "csc: a row outside": (
        lambda: shared("csc", "indices", 2, 10**6),
        "X of Model must name rows from 0 to 3; got row 1000000. Give the matrix its true shape.",
    ),
    "csc: a pointer that falls": (
        lambda: shared("csc", "indptr", 3, 10**7),
        f"The column pointers of X of Model must not fall; column 3 goes from 10000000 to 6. {BUILD_AGAIN}",
    ),
    "coo: a row outside": (
        lambda: shared("coo", "row", 0, 10**6),
        "X of Model must name rows from 0 to 3; got row 1000000. Give the matrix its true shape.",
    ),
    "coo: a column below 0": (
        lambda: shared("coo", "col", 0, -7),
        "X of Model must name columns from 0 to 5; got column -7. Give the matrix its true shape.",
    ),
    "coo: too few values": (
        lambda: changed("coo", data=np.ones(2)),
        (
            "X of Model must have a row, a column and a value for each entry; got 8 rows, 8 columns and 2 values. "
            f"{BUILD_AGAIN}"
        ),
    ),
    "bsr: a block outside": (
        lambda: shared("bsr", "indices", 0, 10**6),
        "X of Model must name block columns from 0 to 5; got block column 1000000. Give the matrix its true shape.",
    ),
    "bsr: blocks that do not fit": (
        lambda: changed("bsr", data=np.ones((8, 3, 5))),
        (
            f"X of Model must be made of equal blocks; got blocks of shape (3, 5) for a matrix of shape (4, 6). "
            f"{BUILD_AGAIN}"
        ),
    ),
    "dia: more diagonals than lines": (
        lambda: changed("dia", offsets=ints(0, 1, 2)),
        (
            "X of Model must have one line of values for each diagonal; got 3 diagonals, 3 of them distinct, and "
            "2 lines "
            f"of values. {BUILD_AGAIN}"
        ),
    ),
    "dia: a diagonal twice": (
        lambda: changed("dia", offsets=ints(0, 0)),
        (
            "X of Model must have one line of values for each diagonal; got 2 diagonals, 1 of them distinct, and "
            "2 lines "
            f"of values. {BUILD_AGAIN}"
        ),
    ),
    "lil: more columns than values": (
        long_row_of_lists,
        (
            "X of Model must have a list of columns and one of values, as long, for each of its 4 rows; they do "
            "not match. "
            f"{BUILD_AGAIN}"
        ),
    ),
    "lil: a column outside": (
        lambda: lists_with(99),
        "Row 2 of X names column 99; Model got a matrix whose columns go from 0 to 5. Give the matrix its true shape.",
    ),
    "lil: a column that is no number": (
        lambda: lists_with("a"),
        "X of Model must hold columns and values; they do not",
    ),
    "dok: a row outside": (
        lambda: keys_with((50, 1)),
        "X of Model must hold pairs of row and column inside its shape; they do not convert",
    ),
    "dok: a key that is no pair": (
        lambda: keys_with("a"),
        "X of Model must hold pairs of row and column inside its shape; they do not convert",
    ),
}


@each("name", BROKEN)
def test_sentences_about_structure(name):
    make, sentence = BROKEN[name]
    with pytest.raises(InputError) as caught:
        checked_csr(make(), "Model")
    assert str(caught.value).startswith(sentence)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", ["array", "matrix"])
def test_matrices_that_hold_are_taken(form, kind):
    given = matrix(form, kind)
    before = given.copy()
    found = checked_csr(given, "Model")
    np.testing.assert_array_equal(found.toarray(), matrix().toarray())
    assert found.format == "csr"
    assert (given != before).nnz == 0


@pytest.mark.parametrize("form", FORMS)
def test_matrices_without_entries_are_taken(form):
    assert checked_csr(getattr(sp, f"{form}_array")((3, 4)), "Model").nnz == 0


def test_a_matrix_that_holds_is_not_copied():
    given = matrix()
    assert checked_csr(given, "Model") is given


@pytest.mark.parametrize("flag", ["has_canonical_format", "has_sorted_indices"])
@pytest.mark.parametrize("kind", [sp.csr_array, sp.csr_matrix])
def test_flags_are_not_believed(flag, kind):
    given = kind((np.array([1.0, 4.0, 2.0]), ints(1, 1, 0), ints(0, 3)), shape=(1, 3))
    setattr(given, flag, True)
    found = checked_csr(given, "Model")
    assert found.toarray().tolist() == [[2.0, 5.0, 0.0]]
    assert found.nnz == 2
    assert given.indices.tolist() == [1, 1, 0]


def test_a_false_flag_of_order_is_not_handed_on():
    given = sp.csr_array((np.array([1.0, 4.0]), ints(1, 0), ints(0, 2)), shape=(1, 3))
    given.has_sorted_indices = True
    found = checked_csr(given, "Model")
    assert found.indices.tolist() == [0, 1]
    assert found.data.tolist() == [4.0, 1.0]
    assert given.indices.tolist() == [1, 0]


@pytest.mark.parametrize("block", [1, 2, 3, 5, 1 << 18])
def test_blocks_do_not_change_what_is_seen(monkeypatch, block):
    monkeypatch.setattr(sparse_structure, "_BLOCK_VALUES", block)
    monkeypatch.setattr(sparse_structure, "_FEW_VALUES", 0)
    random = np.random.default_rng(0)
    for _ in range(100):
        lengths = random.integers(0, 4, size=6)
        indices = random.integers(0, 4, size=lengths.sum())
        given = sp.csr_array((np.ones(len(indices)), indices, np.cumsum([0, *lengths])), shape=(6, 4))
        found = checked_csr(given, "Model")
        np.testing.assert_array_equal(found.toarray(), given.toarray())
        assert found.nnz == len(
            {(row, int(c)) for row in range(6) for c in given.indices[given.indptr[row] : given.indptr[row + 1]]}
        )
        if len(indices):
            given.indices[random.integers(len(indices))] = random.choice([-1, 4])
            with pytest.raises(InputError, match=r"names column (-1|4); Model"):
                checked_csr(given, "Model")


def test_room_behind_the_last_entry_is_left_out():
    given = matrix()
    given.data, given.indices = np.append(given.data, [9.0, 9.0]), np.append(given.indices, ints(77, -3))
    found = checked_csr(given, "Model")
    np.testing.assert_array_equal(found.toarray(), matrix().toarray())
    assert len(found.data) == len(found.indices) == 8


def test_indices_of_two_widths_become_one():
    given = changed("csr", indptr=matrix().indptr.astype(np.int64))
    found = checked_csr(given, "Model")
    assert found.indices.dtype == found.indptr.dtype
    np.testing.assert_array_equal(found.toarray(), matrix().toarray())


def test_diagonals_beside_the_matrix_hold_nothing():
    given = changed("dia", offsets=ints(0, -(2**31)))
    np.testing.assert_array_equal(checked_csr(given, "Model").toarray(), np.diag([1.0, 2.0, 3.0, 4.0, 0.0, 0.0])[:4])


# ------------------------------------------------------------------------------------------------------- every door

# a process of its own: what is not refused may end it
_EVERY_DOOR = """
import faulthandler, pickle, sys, warnings
import numpy as np
import armillary
from armillary import metrics
from armillary.distributions import vmf
from armillary.exceptions import InputError
from armillary.files import Vectors, write_vectors
from armillary.geometry import means
from armillary.plots import plot_similarity, plot_sphere
from armillary.report import ReportData, write_report

faulthandler.enable()
warnings.simplefilter("ignore")
broken = pickle.load(sys.stdin.buffer)
good = np.abs(np.random.default_rng(0).normal(size=(12, 6)))
few = {"n_clusters": 2, "n_components": 2, "n_burn_in": 1, "n_samples": 2, "max_iter": 2, "component": "vmf"}
doors = {}
for name in armillary.__all__:
    if not hasattr(getattr(armillary, name), "fit"):
        continue
    model = getattr(armillary, name)()
    numbers = {"AutoClusterer": None, "HierarchicalSphericalKMeans": (2, 3)}
    own = few | {"n_clusters": numbers.get(name, 2)}
    model.set_params(**{parameter: value for parameter, value in own.items() if parameter in model.get_params()})
    fitted = type(model)(**model.get_params()).fit(good, **({"times": [0] * 12} if "Temporal" in name else {}))
    for method in ("fit", "fit_predict", "partial_fit", "partial_fit_predict"):
        doors[name, method] = getattr(model, method, None)
    for method in ("predict", "predict_proba", "transform", "score", "score_samples", "alternatives", "partial_fit"):
        doors[name, "then", method] = getattr(fitted, method, None)
doors = {name: door for name, door in doors.items() if door is not None}
doors["batches"] = lambda X: armillary.TemporalVonMisesFisherMixture(2).fit([X, X])
doors["missing"] = armillary.DDPvMFMeans(missing="flag").fit
doors["init"] = lambda X: armillary.SphericalKMeans(2, init=X).fit(good)
doors["choose_model"] = armillary.choose_model
doors["select_max_angle"] = armillary.select_max_angle
doors["suggest_max_angle"] = lambda X: armillary.suggest_max_angle(X, 2)
doors["tune_links"] = lambda X: armillary.tune_links(X, [0, 0, 1, 1])
doors["silhouette"] = lambda X: metrics.cosine_silhouette_score(X, [0, 0, 1, 1])
doors["vmf.fit"] = vmf.fit
doors["vmf.log_density"] = lambda X: vmf.log_density(X, np.eye(6)[0], 3.0)
doors["resultant_mean"] = means.resultant_mean
doors["karcher_mean"] = means.karcher_mean
doors["plot_similarity"] = plot_similarity
doors["report"] = lambda X: write_report("never.html", ReportData(X, np.array([0, 0, 1, 1])))
doors["write"] = lambda X: write_vectors("never.csv", Vectors(X))
for number, bad in enumerate(broken):
    for name, door in doors.items():
        print(number, name, end=" ", flush=True)
        try:
            door(bad)
        except InputError:
            print("refused")
        except Exception as error:
            print(type(error).__name__, error)
        else:
            print("took it")
"""
_WORST = [
    "a pointer far outside",
    "a last pointer that is too large",
    "a column beyond 32 bits",
    "a shape with fewer columns",
    "csc: a row outside",
    "coo: a row outside",
    "bsr: a block outside",
]


def test_every_door_refuses_what_does_not_hold(tmp_path):
    given = pickle.dumps([BROKEN[name][0]() for name in _WORST])
    done = subprocess.run(
        [sys.executable, "-c", _EVERY_DOOR], input=given, capture_output=True, check=False, cwd=tmp_path
    )
    told = done.stdout.decode().splitlines()
    assert done.returncode == 0, f"ended by {done.returncode} at {told[-1:]}: {done.stderr.decode()[-3000:]}"
    assert [line for line in told if not line.endswith(" refused")] == []
    assert len(told) > 50 * len(_WORST)
    assert list(tmp_path.iterdir()) == []
