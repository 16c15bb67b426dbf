"""SphericalKMeans as its users meet it: parameters and their sentences, starts, batches, what a fit leaves behind."""

from __future__ import annotations

import math
import pickle
import tracemalloc
import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from scipy import stats
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from tests.making import docstring, units

from armillary import SphericalKMeans
from armillary.engines import cpu as engine
from armillary.engines import cpu_column
from armillary.engines.cpu import Passes
from armillary.exceptions import ArmillaryError, InputError, ParameterError
from armillary.fitting import initialization
from armillary.kernels.rows import blocks as cpu
from armillary.models.means import spherical_kmeans
from armillary.points import as_points
from armillary.workers import Workers

FALSE_ALARM = 1e-6  # of each chi-square test below; seeds are fixed


def clumped(seed, n_rows=120, n_features=3, n_clumps=4, spread=0.1):
    """Rows around axes of the space and their opposites: clumps that no method confuses."""
    rng = np.random.default_rng(seed)
    axes = np.concatenate([np.eye(n_features), -np.eye(n_features)])[:n_clumps]
    rows = axes[np.arange(n_rows) % n_clumps] + spread * rng.standard_normal((n_rows, n_features))
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def quiet_fit(model, rows, **arguments):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(rows, **arguments)


ROWS = clumped(0)
ROWS.setflags(write=False)


# ----------------------------------------------------------------------------------------------------- parameters

RESTARTS = " 'auto' takes 1 for k-means++ or given directions, 10 for random rows."
GAIN = " It is a relative gain; 0 runs until nothing is gained."
CORES = " None takes every core."
SHAPE = "must have shape (n_clusters, n_features) = (4, 3);"
SENTENCES = [
    ({"n_clusters": 0}, "must be an int >= 1; got 0."),
    ({"n_clusters": 2.0}, "must be an int >= 1; got 2.0."),
    ({"n_clusters": True}, "must be an int >= 1; got True."),
    ({"n_clusters": None}, "must be an int >= 1; got None."),
    (
        {"init": "kmeans"},
        "must be one of 'k-means++', 'k-means||', 'random'; got 'kmeans'. Or give directions, shape (K, D).",
    ),
    ({"init": np.eye(3)[:2]}, f"{SHAPE} got (2, 3). Give one direction per cluster."),
    ({"init": np.eye(4)}, f"{SHAPE} got (4, 4). Give one direction per cluster."),
    ({"n_init": 0}, f"must be an int >= 1; got 0.{RESTARTS}"),
    ({"n_init": "many"}, f"must be an int >= 1; got 'many'.{RESTARTS}"),
    ({"max_iter": 0}, "must be an int >= 1; got 0."),
    ({"max_iter": 1.5}, "must be an int >= 1; got 1.5."),
    ({"tol": -1e-9}, f"must be a number >= 0; got -1e-09.{GAIN}"),
    ({"tol": math.nan}, f"must be a number >= 0; got nan.{GAIN}"),
    ({"tol": math.inf}, f"must be a number >= 0; got inf.{GAIN}"),
    ({"tol": "small"}, f"must be a number >= 0; got 'small'.{GAIN}"),
    ({"empty_clusters": "drop"}, "must be one of 'refill', 'keep'; got 'drop'."),
    ({"algorithm": "elkan"}, "must be one of 'auto', 'lloyd', 'hamerly'; got 'elkan'."),
    ({"algorithm": None}, "must be one of 'auto', 'lloyd', 'hamerly'; got None."),
    ({"n_threads": 0}, f"must be an int from 1 to 4096; got 0.{CORES}"),
    ({"n_threads": 1.5}, f"must be an int from 1 to 4096; got 1.5.{CORES}"),
    ({"verbose": -1}, "must be an int >= 0; got -1. 1 shows a progress bar."),
]


@pytest.mark.parametrize(("parameters", "sentence"), SENTENCES)
def test_a_wrong_parameter_is_named(parameters, sentence):
    (name,) = parameters
    model = SphericalKMeans(**{"n_clusters": 4, "random_state": 0, **parameters})  # nothing is checked here
    with pytest.raises(ParameterError) as caught:
        model.fit(ROWS)
    assert str(caught.value) == f"`{name}` of SphericalKMeans {sentence}"
    assert not hasattr(model, "cluster_centers_")
    assert not hasattr(model, "n_features_in_")


def test_a_wrong_seed_is_named():
    with pytest.raises(ParameterError, match=r"`random_state` must be None, an int >= 0, .*; got -1. Pass an int"):
        SphericalKMeans(4, random_state=-1).fit(ROWS)


@pytest.mark.parametrize("verbose", [None, "loud", [1]])
def test_verbose_that_is_no_number_is_named_too(verbose):
    with pytest.raises(ParameterError, match=r"`verbose` of SphericalKMeans must be an int >= 0; got "):
        SphericalKMeans(4, verbose=verbose).fit(ROWS)


def test_more_clusters_than_rows():
    with pytest.raises(InputError) as caught:
        SphericalKMeans(9).fit(ROWS[:8])
    assert str(caught.value) == (
        "`n_clusters` of SphericalKMeans must not exceed the number of rows; got n_clusters=9 and n_samples=8. "
        "Lower n_clusters or give more rows."
    )


@pytest.mark.parametrize(
    ("init", "words"),
    [
        ([[1.0, 0.0, 0.0]] * 3 + [[0.0, 0.0, 0.0]], "has norm 0 and no direction"),
        ([[1.0, 0.0, 0.0]] * 3 + [[0.0, 0.0, math.nan]], "contains NaN"),
        ([1.0, 0.0, 0.0], "must be a 2-D array"),
        (object(), "must hold real numbers"),
    ],
)
def test_a_start_without_directions_is_refused_in_its_own_name(init, words):
    with pytest.raises(ArmillaryError, match=words) as caught:
        SphericalKMeans(4, init=init).fit(ROWS)
    assert "`init`" in str(caught.value)


@pytest.mark.parametrize("method", ["predict", "transform", "score"])
def test_an_unfitted_model_says_so(method):
    with pytest.raises(NotFittedError):
        getattr(SphericalKMeans(4), method)(ROWS)


def test_parameters_are_stored_untouched_and_cloned():
    init = np.eye(3)
    values = {
        "n_clusters": 3,
        "init": init,
        "n_init": 2,
        "max_iter": 7,
        "tol": 0.5,
        "empty_clusters": "keep",
        "balance": 1.5,
        "batch_size": None,
        "algorithm": "lloyd",
        "random_state": 5,
        "n_threads": 1,
        "missing": "flag",
        "device": "cpu",
        "verbose": 0,
        "callbacks": None,
    }
    model = SphericalKMeans(**values)
    assert model.get_params() == values
    assert model.get_params()["init"] is init
    copy = clone(quiet_fit(model, ROWS))
    assert not hasattr(copy, "labels_")
    np.testing.assert_array_equal(copy.init, init)
    assert {name: value for name, value in copy.get_params().items() if name != "init"} == {
        name: value for name, value in values.items() if name != "init"
    }


@pytest.mark.parametrize(
    ("init", "n_init", "n_restarts"),
    [("k-means++", "auto", 1), ("random", "auto", 10), ("given", "auto", 1), ("k-means++", 3, 3), ("random", 2, 2)],
)
def test_the_number_of_starts(init, n_init, n_restarts):
    events = []
    start = ROWS[:4] if init == "given" else init
    SphericalKMeans(4, init=start, n_init=n_init, random_state=0, callbacks=events.append).fit(ROWS)
    assert {event.n_restarts for event in events} == {n_restarts}
    assert {event.restart for event in events if event.kind == "step"} == set(range(1, n_restarts + 1))


# ------------------------------------------------------------------------------------------- what a fit leaves behind


@pytest.mark.parametrize("algorithm", ["lloyd", "hamerly"])
@pytest.mark.parametrize("is_sparse", [False, True], ids=["dense", "csr"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_fitted_attributes(algorithm, is_sparse, dtype):
    rows = sp.csr_array(ROWS.astype(dtype)) if is_sparse else ROWS.astype(dtype)
    model = SphericalKMeans(4, algorithm=algorithm, random_state=0).fit(rows)
    assert model.cluster_centers_.shape == (4, 3)
    assert model.cluster_centers_.dtype == np.float64
    assert model.labels_.shape == (120,)
    assert model.labels_.dtype == np.int32
    assert isinstance(model.inertia_, float)
    assert isinstance(model.objective_, float)
    assert model.counts_.shape == (4,)
    assert model.counts_.dtype == np.float64
    assert model.resultants_.shape == (4, 3)
    assert model.resultants_.dtype == np.float64
    assert isinstance(model.n_iter_, int)
    assert isinstance(model.n_clusters_, int)
    assert (model.n_clusters_, model.n_features_in_) == (4, 3)
    assert not hasattr(model, "feature_names_in_")
    assert model.n_steps_ == 0
    np.testing.assert_array_equal(model.counts_, np.bincount(model.labels_))
    np.testing.assert_allclose(np.linalg.norm(model.cluster_centers_, axis=1), 1.0, rtol=1e-14)


def test_every_attribute_has_a_line_in_the_docstring_and_every_line_an_attribute():
    model = SphericalKMeans(4, random_state=0)
    model.fit(pd.DataFrame(ROWS, columns=list("xyz"))).partial_fit(pd.DataFrame(ROWS, columns=list("xyz")))
    section = docstring(SphericalKMeans).split("Attributes\n    ----------\n")[1].split("\n\n")[0]
    names = [
        name.strip()
        for line in section.splitlines()
        if line.startswith("    ") and not line.startswith("     ") and " : " in line
        for name in line.split(" : ")[0].split(",")
    ]
    of_both = {**vars(model), **vars(SphericalKMeans(4, balance=1.2, random_state=0).fit(ROWS))}
    published = {name for name in of_both if name.endswith("_") and not name.startswith("_")}
    assert set(names) == published | {"device_"}
    parameters = docstring(SphericalKMeans).split("Parameters\n    ----------\n")[1].split("\n\n")[0]
    documented = [line.split(" : ")[0].strip() for line in parameters.splitlines() if " : " in line]
    assert sorted(documented) == sorted(SphericalKMeans().get_params())


def test_the_objective_and_the_inertia_are_what_the_docstring_says():
    rng = np.random.default_rng(1)
    weights = rng.gamma(1.0, size=120)
    model = SphericalKMeans(5, random_state=0).fit(ROWS, sample_weight=weights)
    own = (ROWS * model.cluster_centers_[model.labels_]).sum(axis=1)
    assert math.isclose(model.objective_, weights @ own, rel_tol=1e-13)
    assert math.isclose(model.inertia_, weights @ (1.0 - own), rel_tol=1e-9)
    assert math.isclose(model.inertia_ + model.objective_, weights.sum(), rel_tol=1e-14)
    chords = np.linalg.norm(ROWS - model.cluster_centers_[model.labels_], axis=1)
    assert math.isclose(model.inertia_, weights @ chords**2 / 2.0, rel_tol=1e-9)
    assert model.score(ROWS, sample_weight=weights) == -model.inertia_
    assert model.score(ROWS) != model.score(ROWS, sample_weight=weights)


def test_a_perfect_fit_has_inertia_zero():
    rows = np.repeat(units(np.random.default_rng(2), 4, 5), 10, axis=0)
    model = SphericalKMeans(4, random_state=0).fit(rows)
    assert 0.0 <= model.inertia_ <= 40 * 2.0**-44  # sums are rounded to 2^-44 here
    assert model.score(rows) <= 0.0


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_features", [3, 20])
def test_transform_gives_cosines_in_the_dtype_of_the_rows(dtype, n_features):
    rows = (3.0 * clumped(3, n_features=n_features)).astype(dtype)
    model = SphericalKMeans(4, random_state=0).fit(rows)
    for given in (rows, sp.csr_array(rows)):
        similarities = model.transform(given)
        assert similarities.shape == (120, 4)
        assert similarities.dtype == dtype
        wanted = rows.astype(float) / np.linalg.norm(rows.astype(float), axis=1, keepdims=True)
        atol = 1e-14 if dtype == np.float64 else 1e-6
        np.testing.assert_allclose(similarities, wanted @ model.cluster_centers_.T, rtol=0, atol=atol)
        np.testing.assert_array_equal(similarities.argmax(axis=1), model.predict(given))
    assert model.transform(rows.astype(np.int16) + 1).dtype == np.float32
    np.testing.assert_array_equal(SphericalKMeans(4, random_state=0).fit_transform(rows), model.transform(rows))


def test_fit_predict_is_labels():
    model = SphericalKMeans(4, random_state=0)
    np.testing.assert_array_equal(model.fit_predict(ROWS), model.labels_)


def test_predict_changes_nothing():
    model = SphericalKMeans(4, random_state=0).fit(ROWS)
    before = pickle.dumps(model)
    model.predict(clumped(9))
    model.transform(clumped(9))
    model.score(clumped(9))
    assert pickle.dumps(model) == before


def test_names_of_columns_and_of_outputs():
    frame = pd.DataFrame(ROWS, columns=["x", "y", "z"])
    model = SphericalKMeans(4, random_state=0).set_output(transform="pandas").fit(frame)
    assert list(model.feature_names_in_) == ["x", "y", "z"]
    assert list(model.get_feature_names_out()) == [f"sphericalkmeans{k}" for k in range(4)]
    table = model.transform(frame)
    assert list(table.columns) == [f"sphericalkmeans{k}" for k in range(4)]
    np.testing.assert_array_equal(table.to_numpy(), SphericalKMeans(4, random_state=0).fit(ROWS).transform(ROWS))
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(frame.rename(columns={"x": "u"}))
    model.fit(ROWS)
    assert not hasattr(model, "feature_names_in_")


def test_other_numbers_of_columns_are_refused():
    model = SphericalKMeans(4, random_state=0).fit(ROWS)
    for method in (model.predict, model.transform, model.score, model.partial_fit):
        with pytest.raises(InputError, match="X has 4 features, but SphericalKMeans is expecting 3 features"):
            method(np.eye(4))


def test_a_pickled_model_goes_on():
    model = SphericalKMeans(4, random_state=0).fit(ROWS)
    twin = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(twin.predict(ROWS), model.labels_)
    for one in (model, twin):
        one.partial_fit(clumped(4))
    np.testing.assert_array_equal(twin.cluster_centers_, model.cluster_centers_)


def test_seeds():
    def centers(random_state):
        model = SphericalKMeans(9, random_state=random_state, n_init=1, init="random")
        return quiet_fit(model, ROWS).cluster_centers_

    np.testing.assert_array_equal(centers(7), centers(7))
    np.testing.assert_array_equal(centers(np.random.default_rng(7)), centers(7))
    assert (centers(7) != centers(8)).any()
    assert (centers(None) != centers(None)).any()
    generator = np.random.default_rng(1)
    assert (centers(generator) != centers(generator)).any()  # a generator moves on


def test_a_second_fit_forgets_the_first():
    model = SphericalKMeans(4, random_state=0)
    model.partial_fit(ROWS).partial_fit(ROWS).fit(ROWS)
    fresh = SphericalKMeans(4, random_state=0).fit(ROWS)
    published = {name for name in vars(fresh) if name.endswith("_")}
    assert {name for name in vars(model) if name.endswith("_")} == published
    for name in published:
        np.testing.assert_array_equal(getattr(model, name), getattr(fresh, name))


def test_a_fit_that_fails_leaves_the_model_as_it_was():
    model = SphericalKMeans(4, random_state=0).fit(ROWS)
    before = pickle.dumps(model)
    for wrong in (np.full((10, 3), np.nan), np.zeros((10, 3)), np.ones((2, 3)), "rows"):
        with pytest.raises(ArmillaryError):
            model.fit(wrong)
        with pytest.raises(ArmillaryError):
            model.partial_fit(wrong if len(wrong) != 2 else np.ones((3, 4)))
        assert pickle.dumps(model) == before


# -------------------------------------------------------------------------------------------------------- warnings


def test_all_steps_used_is_said():
    rows = units(np.random.default_rng(5), 300, 3)
    with pytest.warns(ConvergenceWarning) as caught:
        model = SphericalKMeans(6, max_iter=2, tol=1e-9, random_state=0).fit(rows)
    assert str(caught[0].message) == (
        "SphericalKMeans used all 2 steps and was still gaining more than tol=1e-09 of its objective. "
        "Raise max_iter or tol."
    )
    assert len(caught) == 1
    assert caught[0].filename == __file__  # the warning points at the caller
    assert model.n_iter_ == 2


@pytest.mark.parametrize("algorithm", ["lloyd", "hamerly"])
@pytest.mark.parametrize("empty_clusters", ["refill", "keep"])
@pytest.mark.parametrize("init", ["k-means++", "random"])
def test_fewer_distinct_rows_than_clusters_is_said(algorithm, empty_clusters, init):
    distinct = units(np.random.default_rng(6), 3, 4)
    rows = np.repeat(distinct, 5, axis=0)
    parameters = {"algorithm": algorithm, "empty_clusters": empty_clusters, "init": init}
    with pytest.warns(ConvergenceWarning) as caught:
        model = SphericalKMeans(5, random_state=1, n_init=4, **parameters).fit(rows)
    n_filled = len(np.unique(model.labels_))
    assert str(caught[0].message) == (
        f"SphericalKMeans filled only {n_filled} of n_clusters=5 clusters; X may have fewer distinct rows. "
        "Lower n_clusters."
    )
    assert n_filled == 3 or (init, empty_clusters) == ("random", "keep")
    if n_filled == 3:
        assert model.inertia_ <= 1e-13
    np.testing.assert_array_equal(model.labels_, model.predict(rows))
    assert model.cluster_centers_.shape == (5, 4)
    np.testing.assert_allclose(np.linalg.norm(model.cluster_centers_, axis=1), 1.0, rtol=1e-12)


def test_a_settled_fit_says_nothing():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        SphericalKMeans(4, random_state=0, max_iter=50).fit(ROWS)


# --------------------------------------------------------------------------------------------------- empty clusters


def far_start():
    """Two good directions, and two that no row is nearest to."""
    return np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [-1.0, -1.0, -0.5], [-1.0, -1.0, 0.5]])


@pytest.mark.parametrize("algorithm", ["lloyd", "hamerly"])
def test_an_empty_cluster_keeps_its_direction_if_so_asked(algorithm):
    rows = clumped(7, n_clumps=2)
    model = SphericalKMeans(4, init=far_start(), empty_clusters="keep", algorithm=algorithm)
    with pytest.warns(ConvergenceWarning, match="filled only 2 of n_clusters=4 clusters"):
        model.fit(rows)
    np.testing.assert_array_equal(model.counts_, [60, 60, 0, 0])
    wanted = far_start() / np.linalg.norm(far_start(), axis=1, keepdims=True)
    np.testing.assert_allclose(model.cluster_centers_[2:], wanted[2:], rtol=1e-15)
    assert not model.resultants_[2:].any()


@pytest.mark.parametrize("algorithm", ["lloyd", "hamerly"])
@pytest.mark.parametrize("is_weighted", [False, True])
def test_an_empty_cluster_takes_the_row_farthest_from_its_own_direction(algorithm, is_weighted):
    rows = clumped(7, n_clumps=2)
    weights = np.random.default_rng(7).gamma(1.0, size=120) if is_weighted else np.ones(120)
    weights[::7] = 0.0
    model = SphericalKMeans(4, init=far_start(), algorithm=algorithm, max_iter=1)
    quiet_fit(model, rows, sample_weight=weights)
    # after one step the two directions are rows: the farthest two that count, each from a cluster of more than one
    own = (rows @ far_start()[:2].T).max(axis=1)
    farthest = np.argsort(np.where(weights > 0.0, own, np.inf))[:2]
    np.testing.assert_allclose(model.cluster_centers_[2:], rows[farthest], rtol=0, atol=1e-11)  # q = 43, and light rows
    np.testing.assert_allclose(model.counts_[2:], weights[farthest])
    settled = SphericalKMeans(4, init=far_start(), algorithm=algorithm).fit(rows, sample_weight=weights)
    assert settled.counts_.all()
    assert len(np.unique(settled.labels_[weights > 0.0])) == 4


@pytest.mark.parametrize("algorithm", ["lloyd", "hamerly"])
def test_many_empty_clusters_take_the_farthest_rows_in_order(algorithm):
    rng = np.random.default_rng(26)
    rows = clumped(26, n_rows=1600, n_clumps=1)
    start = np.array([-1.0, 0.0, 0.0]) + 0.1 * rng.standard_normal((1300, 3))
    start[0] = 1.0, 0.0, 0.0
    model = quiet_fit(SphericalKMeans(1300, init=start, algorithm=algorithm, max_iter=1), rows)
    np.testing.assert_array_equal(model.counts_, [301] + [1] * 1299)
    farthest = np.argsort(rows[:, 0])[:1299]
    np.testing.assert_allclose(model.cluster_centers_[1:], rows[farthest], rtol=0, atol=2e-12)  # q = 39


@pytest.mark.parametrize("algorithm", ["lloyd", "hamerly"])
def test_a_cluster_of_one_row_gives_none_away(algorithm):
    # clusters 0 and 1 have one row each, far from their directions; cluster 2 has all others
    rows = np.array([[1.0, 0.6, 0], [0, 1, 0.6], [0, 0, 1], [0, 0.05, 1], [0.05, 0, 1]])
    start = np.array([[1.0, 0, 0], [0, 1, 0], [0, 0, 1], [-1, -1, -1]])
    model = quiet_fit(SphericalKMeans(4, init=start, algorithm=algorithm, max_iter=1), rows)
    np.testing.assert_array_equal(model.counts_, [1, 1, 2, 1])


# ------------------------------------------------------------------------------------------------------------ starts


def start_of(rows, n_clusters, seed, kind="k-means++", weights=None):
    points = as_points(rows, "test", weights)
    generator = np.random.default_rng(seed)
    with Workers(1) as workers:
        start = initialization.random_rows if kind == "random" else initialization.plus_plus
        return start(Passes(points, cpu, workers), n_clusters, generator)


@pytest.mark.parametrize("kind", ["k-means++", "random"])
@pytest.mark.parametrize("is_sparse", [False, True], ids=["dense", "csr"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_starts_are_rows_and_repeat_by_seed(kind, is_sparse, dtype):
    rows = units(np.random.default_rng(8), 50, 6).astype(dtype)
    given = sp.csr_array(rows) if is_sparse else rows
    start = start_of(given, 5, 3, kind)
    assert start.dtype == np.float64
    assert all((np.abs(rows - direction).max(axis=1) < 1e-6).any() for direction in start)
    np.testing.assert_array_equal(start, start_of(given, 5, 3, kind))
    assert (start != start_of(given, 5, 4, kind)).any()


@pytest.mark.parametrize("is_sparse", [False, True], ids=["dense", "csr"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_features", [3, 20])
def test_plus_plus_takes_no_direction_twice_while_others_remain(is_sparse, dtype, n_features):
    distinct = units(np.random.default_rng(9), 12, n_features).astype(dtype)
    rows = distinct[np.arange(200) % 12]
    given = sp.csr_array(rows) if is_sparse else rows
    for seed in range(20):
        for n_clusters in (1, 2, 7, 12):
            start = start_of(given, n_clusters, seed)
            assert start.shape == (n_clusters, n_features)
            assert len(np.unique(start, axis=0)) == n_clusters
        # once every direction is taken, rows are taken again rather than none
        assert len(np.unique(start_of(given, 15, seed), axis=0)) == 12


def test_plus_plus_tells_close_rows_apart_as_far_as_float64_can():
    # rows within a tenth of a milliradian: their cosines are 1 - 1e-8, far above the rounding of float64
    rng = np.random.default_rng(10)
    rows = np.array([1.0, 0.0, 0.0]) + 1e-4 * rng.standard_normal((20, 3))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    for seed in range(20):
        assert len(np.unique(start_of(rows, 8, seed), axis=0)) == 8, seed


def test_plus_plus_finds_separated_clusters_where_random_rows_do_not():
    rows = clumped(11, n_rows=300, n_features=5, n_clumps=10, spread=0.02)
    axes = np.concatenate([np.eye(5), -np.eye(5)])
    n_found = {
        kind: np.mean([len(np.unique((start_of(rows, 10, seed, kind) @ axes.T).argmax(axis=1))) for seed in range(30)])
        for kind in ("k-means++", "random")
    }
    # ten random rows hit 10 (1 - 0.9^10) = 6.5 of ten clusters
    assert n_found["random"] < 8.0
    assert n_found["k-means++"] == 10.0


def test_plus_plus_passes_over_rows_of_weight_zero():
    rng = np.random.default_rng(12)
    rows = units(rng, 60, 3)
    weights = (np.arange(60) < 20) * rng.gamma(1.0, size=60)
    for seed in range(10):
        for kind in ("k-means++", "random"):
            start = start_of(rows, 8, seed, kind, weights)
            nearest = (start @ rows.T).argmax(axis=1)
            assert (nearest < 20).all()
            assert len(np.unique(nearest)) == 8


@pytest.mark.parametrize("kind", ["k-means++", "random"])
def test_fewer_rows_that_count_than_clusters_still_start_every_cluster(kind):
    rows = units(np.random.default_rng(13), 10, 3)
    weights = np.array([1.0, 2.0, 0, 0, 0, 0, 0, 0, 0, 3.0])
    start = start_of(rows, 6, 0, kind, weights)
    assert start.shape == (6, 3)
    counted = {tuple(row) for row in rows[weights > 0.0]}
    assert counted <= {tuple(row) for row in start}
    model = SphericalKMeans(6, init=kind, random_state=0)
    with pytest.warns(ConvergenceWarning, match="filled only 3 of n_clusters=6"):
        model.fit(rows, sample_weight=weights)


def test_random_rows_are_distinct_and_all_are_drawn():
    rows = units(np.random.default_rng(14), 12, 3)
    drawn = np.array([(start_of(rows, 5, seed, "random") @ rows.T).argmax(axis=1) for seed in range(400)])
    assert all(len(np.unique(numbers)) == 5 for numbers in drawn)
    seen = np.bincount(drawn.ravel(), minlength=12)
    # each row is in 5 of 12 starts; rows of one start are not independent, which only lowers the statistic
    expected = 400 * 5 / 12
    assert ((seen - expected) ** 2 / expected).sum() < stats.chi2.isf(FALSE_ALARM, 11)
    np.testing.assert_array_equal(np.unique(start_of(rows, 12, 0, "random"), axis=0), np.unique(rows, axis=0))


def plus_plus_law(rows, weights):
    """Probabilities (n, n) of first and second row: the better of two draws by weight times 1 - cosine."""
    first = weights / weights.sum()
    distances = np.maximum(0.0, 1.0 - rows @ rows.T)
    law = np.zeros((len(rows), len(rows)))
    for i, distance in enumerate(distances):
        mass = weights * distance / (weights @ distance)
        remaining = np.minimum(distance, distances) @ weights  # of each candidate
        is_worse = remaining[None, :] > remaining[:, None]
        law[i] = first[i] * mass * (mass + 2.0 * (is_worse @ mass))
    return law


def plus_plus_statistic(rows, weights, n_starts):
    """Pearson's statistic of pairs of starting rows over its threshold: above 1 is a failure."""
    law = plus_plus_law(rows, weights)
    assert math.isclose(law.sum(), 1.0, rel_tol=1e-12)
    points = as_points(rows, "test", weights)
    generator = np.random.default_rng(15)
    seen = np.zeros_like(law)
    with Workers(1) as workers:
        passes = Passes(points, cpu, workers)
        for _ in range(n_starts):
            start = initialization.plus_plus(passes, 2, generator)
            seen[tuple((start @ rows.T).argmax(axis=1))] += 1
    assert not seen[law < 1e-12].any()
    is_rare = n_starts * law < 10.0  # the rare pairs are counted together
    seen = np.append(seen[~is_rare], seen[is_rare].sum())
    expected = n_starts * np.append(law[~is_rare], law[is_rare].sum())
    return ((seen - expected) ** 2 / expected).sum() / stats.chi2.isf(FALSE_ALARM, len(expected) - 1)


def test_plus_plus_draws_by_weight_times_one_minus_cosine(monkeypatch):
    rng = np.random.default_rng(16)
    rows, weights = units(rng, 5, 3), np.array([1.0, 2.0, 1.0, 0.5, 1.5])
    message = "generator seed 15"
    assert plus_plus_statistic(rows, weights, 3000) < 1.0, message
    distances = cpu_column.distances
    # planted: draws by the chord rather than its square
    monkeypatch.setattr(engine, "distances", lambda cosines: np.sqrt(distances(cosines)))
    assert plus_plus_statistic(rows, weights, 3000) > 1.0, message


def test_a_given_start_is_normalised_and_left_alone():
    start = np.array([[2.0, 0, 0], [0, 3, 0], [0, 0, 0.5], [-1, 0, 0]])
    given = start.copy()
    model = SphericalKMeans(4, init=given, random_state=0).fit(ROWS)
    np.testing.assert_array_equal(given, start)
    assert model.init is given
    unit = start / np.linalg.norm(start, axis=1, keepdims=True)
    for same in (unit, start.tolist(), sp.csr_array(start), np.asfortranarray(start), start.astype(np.float32)):
        other = SphericalKMeans(4, init=same).fit(ROWS)
        np.testing.assert_array_equal(other.cluster_centers_, model.cluster_centers_)
    given[:] = 0.0  # the model holds nothing of it
    np.testing.assert_array_equal(model.predict(ROWS), model.labels_)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_directions_are_unit_to_float64_from_any_start(dtype):
    # float32 vectors count as unit when they are so to 2e-6; centers of empty clusters must not keep that
    start = (np.array([[1.0, 0, 0], [-1, 0.1, 0], [0, 0.3, -1]]) * (1.0 + 1.9e-6)).astype(dtype)
    start /= np.linalg.norm(start, axis=1, keepdims=True).astype(dtype)
    start *= dtype(1.0 + 1.7e-6)
    rows = clumped(17, n_clumps=1).astype(dtype)
    model = quiet_fit(SphericalKMeans(3, init=start, empty_clusters="keep"), rows)
    assert (model.counts_ == 0).sum() == 2
    np.testing.assert_allclose(np.linalg.norm(model.cluster_centers_, axis=1), 1.0, rtol=0, atol=1e-14)
    # rows that start clusters likewise
    doubled = np.repeat(rows[:4] * dtype(1.0 + 1.7e-6), 4, axis=0)
    model = quiet_fit(SphericalKMeans(16, init="random", n_init=1, empty_clusters="keep", random_state=0), doubled)
    assert (model.counts_ == 0).any()
    np.testing.assert_allclose(np.linalg.norm(model.cluster_centers_, axis=1), 1.0, rtol=0, atol=1e-14)


# -------------------------------------------------------------------------------------------------------- algorithms


@pytest.mark.parametrize(
    ("n_features", "n_clusters", "is_sparse", "is_bounded"),
    [(16, 8, False, False), (17, 8, False, True), (17, 7, False, False), (3, 8, True, True), (3, 7, True, False)],
)
def test_auto_takes_hamerly_where_its_docstring_says(n_features, n_clusters, is_sparse, is_bounded):
    rows = units(np.random.default_rng(18), 40, n_features)
    points = as_points(sp.csr_array(rows) if is_sparse else rows, "test")
    parameters = spherical_kmeans.Parameters.check(SphericalKMeans(n_clusters).get_params(), points, "Model")
    labels = Passes(points, cpu, Workers(1)).labels(parameters.algorithm, n_clusters)
    assert labels.is_bounded is is_bounded


@pytest.mark.parametrize("kind", [sp.csr_array, sp.csr_matrix])
@pytest.mark.parametrize("init", ["k-means++", "random"])
def test_sparse_rows_stay_sparse(monkeypatch, kind, init):
    rng = np.random.default_rng(19)
    rows = sp.random_array((400, 3000), density=0.01, random_state=rng, format="csr")
    rows = kind(rows + sp.csr_array((np.ones(400), (np.arange(400), np.arange(400))), shape=rows.shape))
    made_dense = []
    to_array = kind.toarray

    def watched(matrix, *arguments, **options):
        made_dense.append(matrix.shape[0])
        return to_array(matrix, *arguments, **options)

    monkeypatch.setattr(kind, "toarray", watched)
    for name in ("todense", "__array__"):
        monkeypatch.setattr(kind, name, lambda *_: pytest.fail("a sparse matrix was made dense"), raising=False)
    model = quiet_fit(SphericalKMeans(5, init=init, n_init=1, random_state=0, max_iter=20), rows)
    assert max(made_dense) <= 5  # the rows that start clusters, and the few that k-means++ compares
    made_dense.clear()
    model.predict(rows)
    model.score(rows)
    assert model.transform(rows).shape == (400, 5)
    model.partial_fit(rows)
    assert made_dense == []


# ------------------------------------------------------------------------------------------------------- partial_fit


def batches(seed, n_batches=5, n_rows=60):
    return [clumped([seed, number], n_rows, spread=0.4) for number in range(n_batches)]


@pytest.mark.parametrize("is_weighted", [False, True], ids=["alike", "weighted"])
@pytest.mark.parametrize("is_sparse", [False, True], ids=["dense", "csr"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_batches_add_up(is_weighted, is_sparse, dtype):
    rng = np.random.default_rng(20)
    start = units(rng, 4, 3)
    model = SphericalKMeans(4, init=start)
    directions, counts, resultants = start, np.zeros(4), np.zeros((4, 3))
    for number, batch in enumerate(batches(21), start=1):
        rows = batch.astype(dtype)
        weights = rng.gamma(1.0, size=60) if is_weighted else None
        model.partial_fit(sp.csr_array(rows) if is_sparse else rows, sample_weight=weights)
        table = np.eye(4)[(rows @ directions.T).argmax(axis=1)] * (np.ones(60) if weights is None else weights)[:, None]
        counts, resultants = counts + table.sum(axis=0), resultants + table.T @ rows
        lengths = np.linalg.norm(resultants, axis=1, keepdims=True)
        directions = np.where(lengths > 0.0, resultants / np.where(lengths > 0.0, lengths, 1.0), directions)
        atol = 1e-12 if dtype == np.float64 else 1e-4
        np.testing.assert_allclose(model.counts_, counts, rtol=1e-12)
        np.testing.assert_allclose(model.resultants_, resultants, rtol=0, atol=atol)
        np.testing.assert_allclose(model.cluster_centers_, directions, rtol=0, atol=atol)
        assert model.n_steps_ == number
        # labels, inertia and objective are those of this batch under the directions after it
        given = sp.csr_array(rows) if is_sparse else rows
        np.testing.assert_array_equal(model.labels_, model.predict(given))
        assert model.score(given, sample_weight=weights) == -model.inertia_
        total = 60.0 if weights is None else weights.sum()
        assert math.isclose(model.inertia_ + model.objective_, total, rel_tol=1e-6)


def test_one_batch_over_and_over_is_a_fit():
    fitted = SphericalKMeans(4, init=ROWS[:4]).fit(ROWS)
    model = SphericalKMeans(4, init=ROWS[:4])
    for number in range(1, 31):
        model.partial_fit(ROWS)
        assert model.n_steps_ == number
        assert model.counts_.sum() == 120 * number
        assert model.n_iter_ == 1
    np.testing.assert_array_equal(model.labels_, fitted.labels_)
    np.testing.assert_allclose(model.cluster_centers_, fitted.cluster_centers_, rtol=0, atol=1e-12)
    # the grid of the stream grows coarser with its total: rounded once in each of five doublings
    np.testing.assert_allclose(model.resultants_, 30 * fitted.resultants_, rtol=0, atol=1e-10)


def test_batches_go_on_from_a_fit():
    model = SphericalKMeans(4, random_state=0).fit(ROWS)
    counts, resultants, n_iter = model.counts_.copy(), model.resultants_.copy(), model.n_iter_
    kept = model.counts_
    batch = clumped(22, 40)
    labels = model.predict(batch)
    model.partial_fit(batch)
    np.testing.assert_array_equal(model.counts_, counts + np.bincount(labels, minlength=4))
    np.testing.assert_allclose(model.resultants_, resultants + np.eye(4)[labels].T @ batch, rtol=0, atol=1e-12)
    assert model.n_iter_ == n_iter
    assert model.n_steps_ == 1
    assert model.labels_.shape == (40,)
    np.testing.assert_array_equal(kept, counts)  # published arrays are replaced, not written to


def test_a_first_batch_must_have_a_row_for_each_cluster_and_later_ones_need_not():
    model = SphericalKMeans(4, random_state=0)
    with pytest.raises(InputError) as caught:
        model.partial_fit(ROWS[:3])
    assert str(caught.value) == (
        "`n_clusters` of SphericalKMeans must not exceed the number of rows; got n_clusters=4 and n_samples=3. "
        "Lower n_clusters or give more rows."
    )
    assert not hasattr(model, "cluster_centers_")
    model.partial_fit(ROWS[:10]).partial_fit(ROWS[:1])
    assert model.counts_.sum() == 11
    assert model.labels_.shape == (1,)


def test_batches_that_cancel_leave_the_direction():
    model = SphericalKMeans(1, init=[[1.0, 0.0]])
    model.partial_fit([[0.6, 0.8], [-0.6, -0.8]])
    np.testing.assert_array_equal(model.cluster_centers_, [[1.0, 0.0]])
    assert model.counts_[0] == 2
    model.partial_fit([[0.0, 1.0]])
    np.testing.assert_allclose(model.cluster_centers_, [[0.0, 1.0]], atol=1e-15)


@pytest.mark.parametrize("algorithm", ["lloyd", "hamerly"])
def test_rows_that_cancel_to_rounding_leave_the_direction(algorithm):
    # three rows at 120 degrees add up to 1e-16 or so, which points nowhere
    angles = np.radians([10.0, 130.0, 250.0])
    rows = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    assert 0.0 < np.linalg.norm(rows.sum(axis=0)) < 1e-15
    model = SphericalKMeans(1, init=[[0.6, 0.8]], algorithm=algorithm).fit(rows)
    np.testing.assert_allclose(model.cluster_centers_, [[0.6, 0.8]], rtol=1e-15)
    assert math.isclose(model.inertia_, 3.0, rel_tol=1e-14)
    assert model.labels_.tolist() == [0, 0, 0]


def test_the_first_batch_starts_as_a_fit_does():
    batch = units(np.random.default_rng(23), 80, 3)
    one = SphericalKMeans(5, random_state=4).partial_fit(batch)
    other = quiet_fit(SphericalKMeans(5, random_state=4, max_iter=1), batch)
    np.testing.assert_array_equal(one.cluster_centers_, other.cluster_centers_)
    np.testing.assert_array_equal(one.labels_, other.labels_)


# ------------------------------------------------------------------------------------------------------------ events


def test_what_observers_hear():
    events = []
    model = SphericalKMeans(6, init="random", n_init=3, random_state=0, callbacks=[events.append], tol=0.0).fit(ROWS)
    assert [event.kind for event in events[:2]] == ["start", "step"]
    assert events[-1].kind == "end"
    assert not events[-1].is_failed
    steps = [event for event in events if event.kind == "step"]
    assert len(steps) == len(events) - 2
    assert [event.restart for event in steps] == sorted(event.restart for event in steps)
    for restart in (1, 2, 3):
        numbers = [event.step for event in steps if event.restart == restart]
        assert numbers == list(range(1, len(numbers) + 1))
        changes = [event.change for event in steps if event.restart == restart]
        assert changes[0] is None
        assert all(change >= -1e-15 for change in changes[1:])
    assert {(event.model, event.n_rows, event.n_restarts, event.max_steps) for event in events} == {
        ("SphericalKMeans", 120, 3, 300)
    }
    assert {event.n_clusters for event in steps} == {6}
    assert events[-1].step == model.n_iter_
    assert math.isclose(events[-1].objective, model.objective_, rel_tol=1e-12)


def test_an_observer_that_raises_stops_the_fit_before_anything_is_published():
    def stop(event):
        if event.step == 2:
            raise KeyboardInterrupt

    model = SphericalKMeans(6, random_state=0, callbacks=stop, tol=0.0, init=ROWS[:6])
    with pytest.raises(KeyboardInterrupt):
        model.fit(ROWS)
    assert not hasattr(model, "labels_")


def test_a_verbose_fit_shows_a_line_and_finds_the_same(capsys):
    quiet = SphericalKMeans(4, random_state=0).fit(ROWS)
    assert capsys.readouterr() == ("", "")
    model = SphericalKMeans(4, random_state=0, verbose=1).fit(ROWS)
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "SphericalKMeans  120 rows  4 clusters" in shown.err
    np.testing.assert_array_equal(model.cluster_centers_, quiet.cluster_centers_)
    model.predict(ROWS)
    assert capsys.readouterr() == ("", "")


# --------------------------------------------------------------------------------------------------------- stopping


@pytest.mark.parametrize("algorithm", ["lloyd", "hamerly"])
def test_tol_is_compared_with_the_relative_gain(algorithm):
    rows = units(np.random.default_rng(24), 500, 3)
    events = []
    model = SphericalKMeans(8, random_state=0, tol=1e-3, algorithm=algorithm, callbacks=events.append).fit(rows)
    steps = [event for event in events if event.kind == "step"]
    gains = [event.change for event in steps]
    assert all(gain > 1e-3 for gain in gains[1:-1])
    assert gains[-1] <= 1e-3
    assert math.isclose(gains[-1], 1.0 - steps[-2].objective / steps[-1].objective, rel_tol=1e-9)
    longer = SphericalKMeans(8, random_state=0, tol=0.0, algorithm=algorithm).fit(rows)
    assert longer.n_iter_ > model.n_iter_
    assert longer.objective_ > model.objective_


def test_one_cluster_takes_two_steps():
    model = SphericalKMeans(1, random_state=0).fit(ROWS)
    assert model.n_iter_ == 2
    total = ROWS.sum(axis=0)
    np.testing.assert_allclose(model.cluster_centers_[0], total / np.linalg.norm(total), rtol=1e-12)


def test_as_many_clusters_as_rows():
    rows = units(np.random.default_rng(25), 9, 4)
    model = SphericalKMeans(9, random_state=0).fit(rows)
    assert sorted(model.labels_) == list(range(9))
    assert model.inertia_ <= 1e-13


def test_one_row():
    model = SphericalKMeans(1).fit([[3.0, 4.0]])
    np.testing.assert_allclose(model.cluster_centers_, [[0.6, 0.8]], rtol=1e-15)
    assert model.labels_.tolist() == [0]


def test_a_scalar_weight_and_weights_that_are_refused():
    plain = SphericalKMeans(4, random_state=0).fit(ROWS)
    scaled = SphericalKMeans(4, random_state=0).fit(ROWS, sample_weight=2.0)
    np.testing.assert_allclose(scaled.cluster_centers_, plain.cluster_centers_, rtol=1e-12)
    np.testing.assert_allclose(scaled.counts_, 2.0 * plain.counts_)
    for wrong, words in [
        (np.ones(119), "one number per row"),
        (-np.ones(120), "finite and not negative"),
        (np.zeros(120), "all 120 weights are zero"),
    ]:
        with pytest.raises(InputError, match=words):
            SphericalKMeans(4).fit(ROWS, sample_weight=wrong)


@pytest.mark.parametrize("algorithm", ["lloyd", "hamerly"])
def test_a_fit_to_documents_holds_three_arrays_of_centres_and_no_fourth(algorithm):
    rows = sp.random_array((300, 40_000), density=5e-4, rng=np.random.default_rng(0), format="csr")
    rows = rows[np.diff(rows.indptr) > 0]
    model = SphericalKMeans(20, algorithm=algorithm, max_iter=4, tol=0.0, n_threads=1, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(rows)  # what is made once, on first use
        tracemalloc.start()
        try:
            model.fit(rows)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    centres = 20 * 40_000 * 8
    # three, and what goes with rows
    assert peak < 3.4 * centres
