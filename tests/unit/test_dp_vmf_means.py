"""DPvMFMeans as its users meet it: the sequential rule on small examples, parameters, batches, what a fit leaves."""

from __future__ import annotations

import math
import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from tests.making import docstring, each, units

from armillary import DPvMFMeans
from armillary.draws import Stream
from armillary.engines.cpu import Passes
from armillary.exceptions import InputError, ParameterError
from armillary.fitting.optimistic import Opening, SequentialAssignment
from armillary.kernels.select import kernels_for
from armillary.metrics import cosine_silhouette_score
from armillary.points import as_points
from armillary.sums import whole
from armillary.workers import Workers


def clumped(seed, n_rows=120, n_features=3, n_clumps=4, spread=0.1):
    """Rows around axes of the space and their opposites: clumps that no method confuses."""
    rng = np.random.default_rng(seed)
    axes = np.concatenate([np.eye(n_features), -np.eye(n_features)])[:n_clumps]
    rows = axes[np.arange(n_rows) % n_clumps] + spread * rng.standard_normal((n_rows, n_features))
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def blurred(seed, n_rows=400, n_features=3):
    """Rows without clear clusters: sweeps go on, clusters open and close."""
    return units(np.random.default_rng(seed), n_rows, n_features)


def circle(*degrees):
    angles = np.radians(degrees)
    return np.stack([np.cos(angles), np.sin(angles)], axis=1)


def quiet_fit(model, rows, **arguments):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(rows, **arguments)


def published(model):
    return {name: value for name, value in vars(model).items() if name.endswith("_")}


def assert_same_fit(one, other):
    """Equal bits in everything a fit says."""
    mine, yours = published(one), published(other)
    assert mine.keys() == yours.keys()
    for name, value in mine.items():
        np.testing.assert_array_equal(value, yours[name], err_msg=name)


ROWS = clumped(0)
ROWS.setflags(write=False)


# ------------------------------------------------------------------------------------------- the rule, on few rows


class Sweeps:
    """Label sweeps and direction updates one at a time, from labels and directions of the test's choosing."""

    def __init__(self, rows, *, floor, labels=None, directions=None, max_open=None, is_bounded=False):
        self.points = as_points(rows, "test")
        passes = Passes(self.points, kernels_for("cpu"), Workers(1))
        self.assignment = SequentialAssignment(passes, "hamerly" if is_bounded else "lloyd")
        if labels is not None:
            self.assignment.begin_with(np.arange(self.points.n_rows), labels)
        self.directions = np.empty((0, self.points.n_features)) if directions is None else np.asarray(directions, float)
        self.opening = Opening(floor, max_open)

    def sweep(self, *, has_company=False):
        return self.assignment.sweep_in_order(self.directions, self.opening, has_company=has_company)

    def drop_and_update(self, sweep):
        is_kept = sweep.statistics.counts > 0.0
        self.assignment.keep(is_kept)
        self.directions = sweep.statistics.select(is_kept).directions(otherwise=sweep.directions[is_kept])

    @property
    def labels(self):
        return self.assignment.labels.to_host().tolist()


def means(rows, labels):
    resultants = np.array([rows[labels == k].sum(axis=0) for k in range(labels.max() + 1)])
    return resultants / np.linalg.norm(resultants, axis=1, keepdims=True)


def objective(rows, labels, directions, price):
    return float((rows * directions[labels]).sum()) + price * len(np.unique(labels))


def frozen_sweep(rows, labels, directions, floor):
    """The mistake: counts are those before the sweep, so an emptied slot stays open."""
    sizes = np.bincount(labels, minlength=len(directions))
    found = labels.copy()
    for i, row in enumerate(rows):
        is_open = sizes - (np.arange(len(sizes)) == labels[i]) > 0
        scores = np.where(is_open, directions @ row, -np.inf)
        assert scores.max() >= floor
        found[i] = int(np.argmax(scores))
    return found


def test_the_five_rows_for_which_counts_must_be_live():
    rows, labels, angle = circle(0, 59, 59, -29.9, -90), np.array([0, 1, 1, 2, 2]), math.radians(70)
    price = math.cos(angle) - 1.0
    directions = means(rows, labels)
    before = objective(rows, labels, directions, price)
    sweeps = Sweeps(rows, floor=1.0 + price, labels=labels, directions=directions)
    sweep = sweeps.sweep()
    assert sweeps.labels == [1, 1, 1, 2, 2]
    assert not sweep.is_still
    gain = objective(rows, np.array(sweeps.labels), sweep.directions, price) - before
    assert gain == pytest.approx(0.173, abs=5e-4)
    sweeps.drop_and_update(sweep)
    assert sweeps.labels == [0, 0, 0, 1, 1]
    # the planted mistake lowers the objective, and the update of directions does not make up for it
    frozen = frozen_sweep(rows, labels, directions, 1.0 + price)
    assert frozen.tolist() == [1, 1, 1, 0, 2]
    assert objective(rows, frozen, directions, price) - before == pytest.approx(-0.484, abs=5e-4)
    updated = means(rows, frozen)
    assert objective(rows, frozen, updated, price) - before == pytest.approx(-0.074, abs=5e-4)


def test_a_cluster_opens_at_the_first_row_that_nobody_accepts():
    rows = circle(0, 20, 50, 25, 70, 40)
    sweeps = Sweeps(rows, floor=math.cos(math.radians(30)))
    sweep = sweeps.sweep()
    # 25 is nearer to 0 (25) than 50 (25 + rounding)? the smaller slot takes a tie; 40 is 10 from 50
    assert sweeps.labels[:3] == [0, 0, 1]
    assert sweeps.labels[4:] == [1, 1]
    np.testing.assert_allclose(
        sweep.directions, rows[[0, 2]], atol=1e-15
    )  # directions are seed rows while the sweep runs
    assert not sweep.is_still


def test_ties_go_to_the_smaller_slot_and_to_a_cluster_that_is_there():
    angle = math.acos(0.5)  # the floor is then 0.5 to the bit
    assert 1.0 - 2.0 * math.sin(0.5 * angle) ** 2 == 0.5
    rows = np.array([[1, 0, 0, 0], [0, 1, 0, 0], [0.5, 0.5, 0.5, 0.5], [-1, 0, 0, 0], [-0.5, -0.5, 0.5, 0.5]])
    sweeps = Sweeps(rows, floor=0.5)
    sweeps.sweep()
    assert sweeps.labels == [0, 1, 0, 2, 2]
    # and in the model, where the first sweep is followed by an update
    model = DPvMFMeans(angle).fit(np.array([[1, 0, 0, 0], [0.5, 0.5, 0.5, 0.5]]))
    assert model.labels_.tolist() == [0, 0]
    assert DPvMFMeans(math.nextafter(angle, 0.0)).fit(rows[[0, 2]]).labels_.tolist() == [0, 1]


def test_a_lone_row_keeps_its_slot_and_labels_settle():
    rows = circle(0, 1, 2, 90, 180, 181)
    model = DPvMFMeans(0.5, tol=0.0).fit(rows)
    assert model.labels_.tolist() == [0, 0, 0, 1, 2, 2]
    assert model.n_iter_ == 2  # the second sweep moves nothing
    np.testing.assert_allclose(model.cluster_centers_[1], rows[3], rtol=0, atol=2.0**-47)  # a sum of one row, q = 47


def test_a_slot_that_lost_its_last_row_is_gone_for_later_rows():
    # slot 0 holds row 0 alone, which leaves for slot 1; row 3 would be nearest to slot 0, and opens a new one
    rows = circle(35, 40, 60, 10)
    directions = circle(10, 50)
    sweeps = Sweeps(rows, floor=math.cos(math.radians(20)), labels=[0, 1, 1, 1], directions=directions)
    sweep = sweeps.sweep()
    assert sweeps.labels == [1, 1, 1, 2]
    assert sweep.statistics.counts.tolist() == [0.0, 3.0, 1.0]
    sweeps.drop_and_update(sweep)
    assert sweeps.labels == [0, 0, 0, 1]


def test_a_lone_row_far_from_its_direction_reseeds_its_slot():
    rows = circle(0, 100)
    sweeps = Sweeps(rows, floor=math.cos(math.radians(20)), labels=[0, 1], directions=circle(0, 150))
    sweep = sweeps.sweep()
    assert sweeps.labels == [0, 1]
    np.testing.assert_allclose(sweep.directions, rows, atol=1e-15)


def test_given_directions_are_open_through_the_first_sweep_only():
    rows = circle(0, 1, 90)
    directions = circle(3, 200, 88)
    sweeps = Sweeps(rows, floor=math.cos(math.radians(20)), directions=directions)
    sweep = sweeps.sweep(has_company=True)
    assert sweeps.labels == [0, 0, 2]
    sweeps.drop_and_update(sweep)
    assert sweeps.labels == [0, 0, 1]
    np.testing.assert_allclose(sweeps.directions, circle(0.5, 90), atol=1e-15)


def test_without_company_given_directions_are_nobodys():
    sweeps = Sweeps(circle(0, 1), floor=math.cos(math.radians(20)), directions=circle(0, 90))
    sweeps.sweep()
    assert sweeps.labels == [2, 2]


def test_no_more_clusters_than_allowed_have_rows_at_any_time():
    rows = circle(0, 90, 180, 270, 185)
    sweeps = Sweeps(rows, floor=math.cos(math.radians(20)), max_open=2)
    sweeps.sweep()
    # 180 and 185 lie far from both: nearest of the two; 270 is as near to 0 as to 180, which has no cluster
    assert sweeps.labels == [0, 1, 1, 0, 1]


def order_of_birth(model):
    """The first row of each cluster, which must increase: clusters are numbered as they were born."""
    return [int(np.flatnonzero(model.labels_ == k)[0]) for k in range(model.n_clusters_)]


def test_clusters_are_numbered_in_the_order_of_their_birth():
    model = DPvMFMeans(0.5).fit(clumped(3, n_clumps=6))
    assert order_of_birth(model) == list(range(6))
    back = DPvMFMeans(0.5).fit(clumped(3, n_clumps=6)[::-1])
    assert order_of_birth(back) == list(range(6))


@pytest.mark.parametrize("n_features", [2, 3, 17, 40])
def test_one_direction_for_all_at_pi(n_features):
    for rows in (blurred(1, 50, n_features), np.repeat(blurred(2, 1, n_features), 5, axis=0)):
        opposite = np.concatenate([rows, -rows])
        for given in (rows, opposite, sp.csr_array(opposite)):
            model = DPvMFMeans(math.pi).fit(given)
            assert model.n_clusters_ == 1
            assert model.n_outside_ == 0
            assert model.lambda_ == -2.0
            np.testing.assert_array_equal(model.predict(given, reject=True), 0)


def test_one_row():
    model = DPvMFMeans(0.3).fit([[3.0, 4.0]])
    np.testing.assert_allclose(model.cluster_centers_, [[0.6, 0.8]], rtol=0, atol=2.0**-50)
    assert (model.n_clusters_, model.labels_.tolist(), model.n_iter_) == (1, [0], 2)
    assert model.objective_ == pytest.approx(1.0 + model.lambda_)


def test_equal_rows_are_one_cluster_at_the_smallest_angle_allowed():
    for dtype, angle in ((np.float32, 2.83e-3), (np.float64, 2.01e-6)):
        for scale in (1.0, 1.37):
            rows = (scale * np.repeat(blurred(5, 6, 7), 4, axis=0)).astype(dtype)
            model = DPvMFMeans(angle).fit(rows)
            assert model.labels_.tolist() == np.repeat(np.arange(6), 4).tolist()
            assert model.n_outside_ == 0


def test_rows_farther_apart_than_the_angle_are_all_clusters():
    rows = circle(*range(0, 360, 10))
    model = DPvMFMeans(math.radians(9.9)).fit(rows)
    assert model.labels_.tolist() == list(range(36))
    np.testing.assert_allclose(model.cluster_centers_, rows, atol=1e-15)
    assert DPvMFMeans(math.radians(10.1)).fit(rows).n_clusters_ < 36


def test_cancelling_rows_keep_the_direction_they_had():
    model = DPvMFMeans(math.pi).fit(circle(0, 180))
    np.testing.assert_array_equal(model.cluster_centers_, circle(0))
    assert model.labels_.tolist() == [0, 0]
    assert model.objective_ == pytest.approx(model.lambda_)


# ----------------------------------------------------------------------------------------------------- parameters

GAIN = " It is a gain per row; 0 runs until no row moves."
CORES = " None takes every core."
SENTENCES = [
    ({"max_angle": 0.0}, "must be a number in (0, pi]; got 0.0. Angles are in radians."),
    ({"max_angle": -0.5}, "must be a number in (0, pi]; got -0.5. Angles are in radians."),
    (
        {"max_angle": 95.0},
        "must be a number in (0, pi]; got 95.0. Angles are in radians: math.radians(95) is 1.658.",
    ),
    ({"max_angle": 1e6}, "must be a number in (0, pi]; got 1000000.0. Angles are in radians."),
    ({"max_angle": math.nan}, "must be a number in (0, pi]; got nan. Angles are in radians."),
    ({"max_angle": math.inf}, "must be a number in (0, pi]; got inf. Angles are in radians."),
    ({"max_angle": "wide"}, "must be a number in (0, pi]; got 'wide'. Angles are in radians."),
    ({"max_angle": None}, "must be a number in (0, pi]; got None. Angles are in radians."),
    ({"max_angle": True}, "must be a number in (0, pi]; got True. Angles are in radians."),
    (
        {"max_angle": 1e-6},
        (
            "must be at least 2e-06 for float64 rows, whose cosines resolve no smaller angle; got 1e-06. "
            "Use a larger angle."
        ),
    ),
    ({"max_iter": 0}, "must be an int >= 1; got 0."),
    ({"max_iter": 1.5}, "must be an int >= 1; got 1.5."),
    ({"tol": -1e-9}, f"must be a number >= 0; got -1e-09.{GAIN}"),
    ({"tol": math.nan}, f"must be a number >= 0; got nan.{GAIN}"),
    ({"tol": "small"}, f"must be a number >= 0; got 'small'.{GAIN}"),
    ({"n_init": 0}, "must be an int >= 1; got 0."),
    ({"n_init": "auto"}, "must be an int >= 1; got 'auto'."),
    ({"max_clusters": 0}, "must be an int >= 1; got 0. None sets no cap."),
    ({"max_clusters": 2.0}, "must be an int >= 1; got 2.0. None sets no cap."),
    ({"n_threads": 0}, f"must be an int from 1 to 4096; got 0.{CORES}"),
    ({"n_threads": 1.5}, f"must be an int from 1 to 4096; got 1.5.{CORES}"),
    ({"verbose": -1}, "must be an int >= 0; got -1. 1 shows a progress bar."),
    ({"verbose": "loud"}, "must be an int >= 0; got 'loud'. 1 shows a progress bar."),
    (
        {"callbacks": 3},
        (
            "must be None, a callable or a sequence of callables; got 3. "
            "Give functions that take one FitEvent, e.g. callbacks=[print]."
        ),
    ),
]


@each("method", ["fit", "partial_fit"])
@each(("parameters", "sentence"), SENTENCES)
def test_a_wrong_parameter_is_named(method, parameters, sentence):
    (name,) = parameters
    model = DPvMFMeans(**parameters)  # nothing is checked here
    if method == "partial_fit" and name in ("verbose", "callbacks"):
        pytest.skip("a batch has no observers")
    with pytest.raises(ParameterError) as caught:
        getattr(model, method)(ROWS)
    assert str(caught.value) == f"`{name}` of DPvMFMeans {sentence}"
    assert published(model) == {}


def test_a_wrong_parameter_leaves_a_fitted_model_as_it_was():
    model = DPvMFMeans(0.5).fit(ROWS)
    before = pickle.dumps(published(model))
    for parameters, _ in SENTENCES:
        with pytest.raises(ParameterError):
            clone_of(model).set_params(**parameters).fit(ROWS)
        broken = clone_of(model).set_params(**parameters)
        with pytest.raises(ParameterError):
            broken.fit(ROWS)
        assert pickle.dumps(published(broken)) == before


def clone_of(model):
    return pickle.loads(pickle.dumps(model))


def test_float32_rows_need_a_larger_angle():
    rows = ROWS.astype(np.float32)
    with pytest.raises(ParameterError) as caught:
        DPvMFMeans(0.002).fit(rows)
    assert str(caught.value) == (
        "`max_angle` of DPvMFMeans must be at least 0.0028 for float32 rows, whose cosines resolve no smaller angle; "
        "got 0.002. Give float64 rows."
    )
    assert DPvMFMeans(0.002).fit(ROWS).n_clusters_ == 120
    model = DPvMFMeans(0.5).fit(rows).set_params(max_angle=0.002)
    model.predict(rows)  # the angle plays no part
    with pytest.raises(ParameterError, match=r"must be at least 0\.0028 for float32 rows"):
        model.predict(rows, reject=True)
    with pytest.raises(ParameterError, match=r"must be at least 0\.0028 for float32 rows"):
        model.partial_fit(rows)


def test_a_wrong_seed_is_named():
    with pytest.raises(ParameterError, match=r"`random_state` must be None, an int >= 0, .*; got -1. Pass an int"):
        DPvMFMeans(random_state=-1).fit(ROWS)


@pytest.mark.parametrize("method", ["predict", "score", "transform"])
def test_an_unfitted_model_says_so(method):
    with pytest.raises(NotFittedError, match="This DPvMFMeans instance is not fitted yet"):
        getattr(DPvMFMeans(), method)(ROWS)


def test_parameters_are_stored_untouched_and_cloned():
    values = {
        "max_angle": 0.25,
        "max_iter": 7,
        "tol": 0.5,
        "n_init": 2,
        "max_clusters": 9,
        "warm_start": True,
        "consolidate": True,
        "random_state": 5,
        "n_threads": 1,
        "missing": "flag",
        "device": "cpu",
        "verbose": 0,
        "callbacks": None,
    }
    model = DPvMFMeans(**values)
    assert model.get_params() == values
    copy = clone(quiet_fit(model, ROWS))
    assert published(copy) == {}
    assert copy.get_params() == values
    assert DPvMFMeans(0.25).max_angle == 0.25  # the one that may be given by position
    with pytest.raises(TypeError):
        DPvMFMeans(0.25, 7)
    assert model.set_params(max_angle=0.3).max_angle == 0.3


# ------------------------------------------------------------------------------------------- what a fit leaves behind


@pytest.mark.parametrize("is_sparse", [False, True], ids=["dense", "csr"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_fitted_attributes(is_sparse, dtype):
    rows = sp.csr_array(ROWS.astype(dtype)) if is_sparse else ROWS.astype(dtype)
    model = DPvMFMeans(0.5).fit(rows)
    assert model.cluster_centers_.shape == (4, 3)
    assert model.cluster_centers_.dtype == np.float64
    assert model.labels_.shape == (120,)
    assert model.labels_.dtype == np.int32
    assert model.counts_.dtype == np.float64
    assert model.resultants_.shape == (4, 3)
    assert model.resultants_.dtype == np.float64
    for name in ("n_clusters_", "n_features_in_", "n_iter_", "n_steps_", "n_outside_"):
        assert type(getattr(model, name)) is int, name
    for name in ("objective_", "lambda_"):
        assert type(getattr(model, name)) is float, name
    assert (model.n_clusters_, model.n_features_in_, model.n_steps_, model.n_outside_) == (4, 3, 0, 0)
    assert not hasattr(model, "feature_names_in_")
    np.testing.assert_array_equal(model.labels_, np.arange(120) % 4)
    np.testing.assert_array_equal(model.counts_, np.bincount(model.labels_))
    np.testing.assert_allclose(np.linalg.norm(model.cluster_centers_, axis=1), 1.0, rtol=1e-14)


def test_every_attribute_has_a_line_in_the_docstring_and_every_line_an_attribute():
    table = pd.DataFrame(ROWS, columns=list("xyz"))
    model = DPvMFMeans().fit(table).partial_fit(table)
    section = docstring(DPvMFMeans).split("Attributes\n    ----------\n")[1].split("\n\n")[0]
    names = [
        name.strip()
        for line in section.splitlines()
        if line.startswith("    ") and not line.startswith("     ") and " : " in line
        for name in line.split(" : ")[0].split(",")
    ]
    assert set(names) == {*published(model), "device_"}
    parameters = docstring(DPvMFMeans).split("Parameters\n    ----------\n")[1].split("\n\n")[0]
    documented = [line.split(" : ")[0].strip() for line in parameters.splitlines() if " : " in line]
    assert sorted(documented) == sorted(DPvMFMeans().get_params())


@pytest.mark.parametrize("angle", [2.1e-6, 1e-5, 1e-3, 0.5, math.pi / 2, 3.0])
def test_the_price_of_a_cluster_is_exact_for_small_angles(angle):
    model = DPvMFMeans(angle).fit(ROWS[:3])
    # cos(phi) - 1 = -phi^2/2 + phi^4/24 - ...: all digits, where cos(phi) - 1 has lost them
    series = -sum((-1) ** (j + 1) * angle ** (2 * j) / math.factorial(2 * j) for j in range(1, 20))
    assert model.lambda_ == pytest.approx(series, rel=1e-14)
    assert abs(model.lambda_ - (math.cos(angle) - 1.0)) <= 2.3e-16
    if angle == 2.1e-6:
        assert model.lambda_ != math.cos(angle) - 1.0  # the naive form has four digits here


def test_the_objective_is_what_the_docstring_says():
    weights = 1.0 + np.random.default_rng(1).gamma(1.0, size=120)
    model = DPvMFMeans(0.4).fit(ROWS, sample_weight=weights)
    own = (ROWS * model.cluster_centers_[model.labels_]).sum(axis=1)
    price = math.cos(0.4) - 1.0
    assert math.isclose(model.objective_, weights @ own + price * model.n_clusters_, rel_tol=1e-12)
    lengths = np.linalg.norm(model.resultants_, axis=1)
    assert math.isclose(model.objective_, lengths.sum() + price * model.n_clusters_, rel_tol=1e-12)
    assert math.isclose(model.score(ROWS, sample_weight=weights), weights @ (own - 1.0), rel_tol=1e-9)
    assert math.isclose(model.score(ROWS), (own - 1.0).sum(), rel_tol=1e-9)
    assert model.score(np.repeat(model.cluster_centers_, 3, axis=0)) <= 0.0


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_features", [3, 20])
def test_similarities_are_cosines_in_the_dtype_of_the_rows(dtype, n_features):
    rows = (3.0 * clumped(3, n_features=n_features)).astype(dtype)
    model = DPvMFMeans(0.9).fit(rows)
    assert model.n_clusters_ == 4
    for given in (rows, sp.csr_array(rows)):
        similarities = model.transform(given)
        assert similarities.shape == (120, 4)
        assert similarities.dtype == dtype
        wide = rows.astype(float) / np.linalg.norm(rows.astype(float), axis=1, keepdims=True)
        atol = 1e-14 if dtype == np.float64 else 1e-6
        np.testing.assert_allclose(similarities, wide @ model.cluster_centers_.T, rtol=0, atol=atol)
        np.testing.assert_array_equal(similarities.argmax(axis=1), model.predict(given))


def test_rows_beyond_the_angle_are_rejected_on_request():
    model = DPvMFMeans(0.3).fit(circle(0, 5, 90, 95))
    new = circle(2.5 + math.degrees(0.299), 2.5 + math.degrees(0.301), 45, 92.5, 180)
    assert model.predict(new).tolist() == [0, 0, 0, 1, 1]
    assert model.predict(new, reject=True).tolist() == [0, -1, -1, 1, -1]
    assert model.predict(new, reject=True).dtype == np.int32
    assert model.predict(sp.csr_array(new), reject=True).tolist() == [0, -1, -1, 1, -1]
    model.set_params(max_angle=math.pi)
    assert model.predict(new, reject=True).tolist() == [0, 0, 0, 1, 1]


def test_predict_changes_nothing():
    model = DPvMFMeans(0.5).fit(ROWS)
    before = pickle.dumps(model)
    for given in (clumped(9), blurred(9)):
        model.predict(given)
        model.predict(given, reject=True)
        model.transform(given)
        model.score(given)
    assert pickle.dumps(model) == before


def test_fit_predict_is_labels():
    model = DPvMFMeans(0.5)
    np.testing.assert_array_equal(model.fit_predict(ROWS), model.labels_)


def test_a_pickled_model_goes_on():
    model = DPvMFMeans(0.5).fit(ROWS)
    twin = pickle.loads(pickle.dumps(model))
    for one in (model, twin):
        one.partial_fit(clumped(4, n_clumps=6))
    assert_same_fit(twin, model)


def test_a_second_fit_forgets_the_first():
    model = DPvMFMeans(0.5).fit(pd.DataFrame(blurred(1, 50, 5), columns=list("abcde")))
    model.partial_fit(pd.DataFrame(blurred(2, 50, 5), columns=list("abcde"))).fit(ROWS)
    assert_same_fit(model, DPvMFMeans(0.5).fit(ROWS))


# -------------------------------------------------------------------------------- labels are predictions, always

CONDITIONS = {
    "settled": {"tol": 0.0},
    "gain": {"tol": 1e-2},
    "one sweep": {"max_iter": 1},
    "two sweeps": {"max_iter": 2},
    "capped": {"max_clusters": 5},
    "capped, one sweep": {"max_clusters": 5, "max_iter": 1},
    "orders": {"n_init": 3},
    "merged": {"consolidate": True},
    "merged, one sweep": {"consolidate": True, "max_iter": 1},
    "all": {"max_clusters": 6, "n_init": 3, "consolidate": True, "max_iter": 2},
}
KINDS = {
    "dense": lambda rows: rows,
    "float32": lambda rows: rows.astype(np.float32),
    "csr": sp.csr_array,
    "not unit": lambda rows: rows * np.linspace(0.5, 5.0, len(rows))[:, None],
}


@each("n_features", [3, 20])
@each("hold", KINDS.values())
@each("parameters", CONDITIONS.values())
def test_labels_are_the_prediction(parameters, hold, n_features):
    for seed, angle in ((1, 0.6), (2, 1.3), (3, 1.9)):
        rows = blurred(seed, 100, n_features)
        weights = np.random.default_rng(seed).choice([0.0, 0.5, 1.0, 3.0], 100)
        for sample_weight in (None, weights):
            model = quiet_fit(DPvMFMeans(angle, random_state=0, **parameters), hold(rows), sample_weight=sample_weight)
            np.testing.assert_array_equal(model.labels_, model.predict(hold(rows)))
            assert model.labels_.dtype == np.int32
            counted = np.ones(100) if sample_weight is None else sample_weight
            assert (np.bincount(model.labels_, counted, model.n_clusters_) > 0.0).all()  # no cluster without rows
            assert model.n_clusters_ == len(model.cluster_centers_) == len(model.counts_)
            assert model.counts_.sum() == pytest.approx(counted.sum())
            rejected = model.predict(hold(rows), reject=True)
            assert model.n_outside_ == np.count_nonzero((rejected < 0) & (counted > 0.0))
            if parameters.get("max_clusters"):
                assert model.n_clusters_ <= parameters["max_clusters"]
            elif parameters == {"tol": 0.0}:
                assert model.n_outside_ == 0


def test_a_run_that_used_all_its_sweeps_says_so():
    rows = blurred(4, 300)
    with pytest.warns(ConvergenceWarning) as caught:
        model = DPvMFMeans(0.5, max_iter=2, tol=1e-5).fit(rows)
    assert [str(one.message) for one in caught] == [
        "DPvMFMeans used all 2 sweeps and was still gaining more than tol=1e-05 per row. Raise max_iter or tol."
    ]
    assert caught[0].filename == __file__
    assert model.n_iter_ == 2
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        settled = DPvMFMeans(0.5, tol=0.0).fit(rows)
    assert settled.n_iter_ > 2
    assert settled.n_outside_ == 0


def test_the_tolerance_is_a_gain_per_row():
    rows = blurred(4, 300)
    events = []
    DPvMFMeans(0.5, tol=0.0, callbacks=events.append).fit(rows)
    objectives = [event.objective for event in events if event.kind == "step"]
    gains = np.diff(objectives) / 300
    assert (gains >= -1e-14).all()
    for tol in (1e-2, 1e-3, 1e-4):
        n_sweeps = 2 + int(np.flatnonzero(gains <= tol)[0])
        assert DPvMFMeans(0.5, tol=tol).fit(rows).n_iter_ == n_sweeps
        # a weight is a number of rows
        assert DPvMFMeans(0.5, tol=tol, max_clusters=None).fit(rows, sample_weight=1.0).n_iter_ == n_sweeps
    changes = [event.change for event in events if event.kind == "step"]
    assert changes[0] is None
    np.testing.assert_allclose(changes[1:], gains, rtol=1e-12, atol=1e-16)


# ----------------------------------------------------------------------------------------------------------- the cap


def test_a_cap_on_clusters():
    rows = np.repeat(circle(0, 90, 180, 270), 10, axis=0)
    model = DPvMFMeans(0.5, max_clusters=2).fit(rows)
    assert model.n_clusters_ == 2
    assert model.n_outside_ == np.count_nonzero((rows @ model.cluster_centers_.T).max(axis=1) < math.cos(0.5))
    assert model.n_outside_ > 0
    free = DPvMFMeans(0.5).fit(rows)
    for cap in (4, 5, 100):
        assert_same_fit(DPvMFMeans(0.5, max_clusters=cap).fit(rows), free)
    one = DPvMFMeans(0.5, max_clusters=1).fit(rows)
    assert (one.n_clusters_, one.labels_.any()) == (1, False)


def test_a_cap_holds_for_batches_too():
    model = DPvMFMeans(0.5, max_clusters=2).partial_fit(circle(0, 1)).partial_fit(circle(90, 180))
    assert model.n_clusters_ == 2
    assert model.partial_fit(circle(270)).n_clusters_ == 2
    assert model.n_outside_ == 1
    assert model.set_params(max_clusters=None).partial_fit(circle(270)).n_clusters_ == 3
    # a cap below what is there closes nothing
    model.set_params(max_clusters=1).partial_fit(circle(45))
    assert (model.n_clusters_, model.counts_.sum()) == (3, 7.0)


# ------------------------------------------------------------------------------------------------------- several orders


@pytest.mark.parametrize("is_weighted", [False, True])
def test_the_order_with_the_best_silhouette_is_kept(is_weighted):
    rng = np.random.default_rng(7)
    seeds = [0, 1, 2, 3, 4, 5]
    winners = []
    for seed in seeds:
        rows = clumped(seed, n_rows=90, n_clumps=6, spread=0.35)
        weights = rng.integers(0, 4, 90).astype(float) if is_weighted else None
        counted = np.arange(90) if weights is None else np.flatnonzero(weights)
        orders = [counted]
        stream = Stream.of(seed)
        orders += [counted[stream.generator("order", restart).permutation(len(counted))] for restart in (2, 3, 4)]
        alone, silhouettes = [], []
        for order in orders:
            given = None if weights is None else weights[order]
            alone.append(DPvMFMeans(0.8, tol=0.0).fit(rows[order], sample_weight=given))
            copies = np.ones(len(order), dtype=int) if weights is None else weights[order].astype(int)
            labels = np.repeat(alone[-1].labels_, copies)
            silhouettes.append(cosine_silhouette_score(np.repeat(rows[order], copies, axis=0), labels))
        best = int(np.argmax(silhouettes))
        winners.append(best)
        events = []
        model = DPvMFMeans(0.8, n_init=4, tol=0.0, random_state=seed, callbacks=events.append)
        model.fit(rows, sample_weight=weights)
        np.testing.assert_array_equal(model.cluster_centers_, alone[best].cluster_centers_)
        np.testing.assert_array_equal(model.labels_[orders[best]], alone[best].labels_)
        assert model.n_iter_ == alone[best].n_iter_
        assert (events[-1].restart, events[-1].step) == (best + 1, model.n_iter_)
        assert events[-1].n_clusters == model.n_clusters_
        assert {event.n_restarts for event in events} == {4}
    assert len(set(winners)) > 1  # neither always the first nor always the last


def test_orders_repeat_by_seed():
    rows = clumped(5, n_rows=90, n_clumps=6, spread=0.4)

    def centers(random_state, n_init=4):
        return DPvMFMeans(0.7, n_init=n_init, random_state=random_state).fit(rows).cluster_centers_

    np.testing.assert_array_equal(centers(7), centers(7))
    np.testing.assert_array_equal(centers(np.random.default_rng(7)), centers(7))
    np.testing.assert_array_equal(centers(1, n_init=1), centers(2, n_init=1))  # one run takes the order given
    assert len({centers(seed).tobytes() for seed in range(8)}) > 1


# ------------------------------------------------------------------------------------------------------- warm starts


def test_a_warm_start_goes_on_from_the_clusters_there_are():
    rows = clumped(0, n_clumps=4)
    model = DPvMFMeans(0.5, warm_start=True).fit(rows)
    order = model.cluster_centers_.copy()
    model.fit(clumped(1, n_clumps=4)[::-1])  # the last clump comes first, and the numbers stay
    assert (np.vecdot(model.cluster_centers_, order) > 0.99).all()
    cold = DPvMFMeans(0.5).fit(clumped(1, n_clumps=4)[::-1])
    assert (np.vecdot(cold.cluster_centers_, order) < 0.5).any()
    assert model.n_steps_ == 0


def test_a_warm_start_drops_clusters_without_rows_and_opens_new_ones():
    model = DPvMFMeans(0.5, warm_start=True).fit(np.repeat(circle(0, 90, 180), 3, axis=0))
    model.fit(np.repeat(circle(181, 270), 4, axis=0))
    assert model.n_clusters_ == 2
    np.testing.assert_allclose(model.cluster_centers_, circle(181, 270), atol=1e-15)
    np.testing.assert_array_equal(model.counts_, [4, 4])  # counts of the last fit alone


def test_directions_are_open_in_the_first_warm_sweep_and_only_there():
    # one row, 20 degrees from a direction: cold it would be alone; warm it joins, and is then alone in that cluster
    model = DPvMFMeans(math.radians(30), warm_start=True).fit(circle(0, 100))
    model.fit(circle(20, 25, 100))
    assert model.labels_.tolist() == [0, 0, 1]
    np.testing.assert_allclose(model.cluster_centers_, circle(22.5, 100), atol=1e-15)
    # two directions within the angle of one row: it takes the nearer, the other goes
    close = DPvMFMeans(0.1, warm_start=True).fit(circle(0, 10))
    assert close.n_clusters_ == 2
    close.set_params(max_angle=0.5).fit(circle(8))
    np.testing.assert_allclose(close.cluster_centers_, circle(8), atol=1e-15)


def test_a_warm_start_equals_the_sequential_rule_from_given_directions():
    rows, more = blurred(6, 200), blurred(7, 200)
    model = quiet_fit(DPvMFMeans(0.8, warm_start=True), rows)
    sweeps = Sweeps(more, floor=1.0 + model.lambda_, directions=model.cluster_centers_)
    sweep = sweeps.sweep(has_company=True)
    sweeps.drop_and_update(sweep)
    quiet_fit(model.set_params(max_iter=1), more)
    np.testing.assert_array_equal(model.cluster_centers_, sweeps.directions)


def test_a_warm_start_on_an_unfitted_model_is_a_cold_one():
    assert_same_fit(DPvMFMeans(0.5, warm_start=True).fit(ROWS), DPvMFMeans(0.5).fit(ROWS))


def test_a_warm_start_refuses_rows_of_another_space():
    model = DPvMFMeans(0.5, warm_start=True).fit(ROWS)
    before = pickle.dumps(published(model))
    with pytest.raises(InputError, match="X has 4 features, but DPvMFMeans is expecting 3 features"):
        model.fit(np.eye(4))
    assert pickle.dumps(published(model)) == before
    assert model.set_params(warm_start=False).fit(np.eye(4)).n_features_in_ == 4


def test_a_warm_start_from_a_fixed_point_stays_there():
    model = DPvMFMeans(0.5, warm_start=True, tol=0.0).fit(blurred(8))
    before = published(clone_of(model))
    model.fit(blurred(8))
    np.testing.assert_array_equal(model.labels_, before["labels_"])
    np.testing.assert_array_equal(model.cluster_centers_, before["cluster_centers_"])
    assert model.n_iter_ == 2


# --------------------------------------------------------------------------------------------------------- batches


def test_batches_equal_sums_by_hand():
    model = DPvMFMeans(0.6)
    directions, resultants, counts = np.empty((0, 3)), np.empty((0, 3)), np.empty(0)
    for step in range(5):
        rows, weights = blurred(step, 40), np.random.default_rng(step).integers(0, 3, 40).astype(float)
        weights[0] = 1.0
        model.partial_fit(rows, sample_weight=weights)
        for row, weight in zip(rows, weights, strict=True):
            if weight == 0.0:
                continue
            scores = directions @ row
            if len(scores) and scores.max() >= math.cos(0.6):
                label = int(np.argmax(scores))
            else:
                label = len(directions)
                directions = np.vstack([directions, row])
                resultants = np.vstack([resultants, np.zeros(3)])
                counts = np.append(counts, 0.0)
            resultants[label] += weight * row
            counts[label] += weight
        directions = resultants / np.linalg.norm(resultants, axis=1, keepdims=True)
        assert model.n_clusters_ == len(directions)
        np.testing.assert_allclose(model.counts_, counts)
        np.testing.assert_allclose(model.resultants_, resultants, atol=1e-12)
        np.testing.assert_allclose(model.cluster_centers_, directions, atol=1e-13)
        np.testing.assert_array_equal(model.labels_, model.predict(rows))
        assert (model.n_steps_, model.n_iter_) == (step + 1, 1)
        cosines = (rows @ directions.T).max(axis=1)
        assert model.objective_ == pytest.approx(weights @ cosines + model.lambda_ * len(directions))
        assert model.n_outside_ == np.count_nonzero((cosines < math.cos(0.6)) & (weights > 0.0))


def test_no_batch_closes_a_cluster():
    model = DPvMFMeans(0.5).fit(np.repeat(circle(0, 90), 5, axis=0))
    before = model.cluster_centers_.copy()
    model.partial_fit(circle(180))
    assert model.n_clusters_ == 3
    np.testing.assert_array_equal(model.cluster_centers_[:2], before)
    np.testing.assert_array_equal(model.counts_, [5, 5, 1])
    assert model.labels_.tolist() == [2]
    model.partial_fit(circle(0.1))
    np.testing.assert_array_equal(model.counts_, [6, 5, 1])
    assert model.n_iter_ == 2  # of the fit


def test_a_batch_of_one_row_at_a_time_is_one_sweep_with_moving_directions():
    model = DPvMFMeans(0.5)
    for row in ROWS:
        model.partial_fit(row[None])
    assert model.n_clusters_ == 4
    assert model.n_steps_ == 120
    np.testing.assert_allclose(model.cluster_centers_, DPvMFMeans(0.5).fit(ROWS).cluster_centers_, atol=1e-12)


@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_a_call_that_fails_leaves_the_model_as_it_was(method):
    model = DPvMFMeans(0.5, warm_start=True).fit(ROWS).partial_fit(ROWS)
    before = pickle.dumps(published(model))
    spoilt = ROWS.copy()
    spoilt[7] = np.nan
    for wrong in (spoilt, np.zeros((10, 3)), np.ones((2, 4)), np.empty((0, 3)), "rows"):
        with pytest.raises(InputError):
            getattr(model, method)(wrong)
        assert pickle.dumps(published(model)) == before
    for weights in (np.ones(7), -np.ones(120), np.zeros(120)):
        with pytest.raises(InputError):
            getattr(model, method)(ROWS, sample_weight=weights)
        assert pickle.dumps(published(model)) == before


@pytest.mark.parametrize("moment", ["start", "step", "end"])
def test_a_model_whose_observer_raises_is_as_it_was(moment):
    def raising(event):
        if event.kind == moment:
            raise ZeroDivisionError

    model = DPvMFMeans(0.5).fit(ROWS)
    before = pickle.dumps(published(model))
    model.set_params(callbacks=raising, max_angle=0.05)
    with pytest.raises(ZeroDivisionError):
        model.fit(np.eye(4))
    assert pickle.dumps(published(model)) == before


# ----------------------------------------------------------------------------------------------------------- weights


def test_rows_of_weight_zero_might_as_well_be_gone():
    rows = blurred(9, 200)
    weights = np.random.default_rng(9).choice([0.0, 1.0, 2.5], 200)
    is_kept = weights > 0.0
    for parameters in ({}, {"n_init": 3, "random_state": 0}, {"max_clusters": 4}, {"consolidate": True}):
        model = DPvMFMeans(0.7, **parameters).fit(rows, sample_weight=weights)
        other = DPvMFMeans(0.7, **parameters).fit(rows[is_kept], sample_weight=weights[is_kept])
        np.testing.assert_array_equal(model.cluster_centers_, other.cluster_centers_)
        np.testing.assert_array_equal(model.labels_[is_kept], other.labels_)
        np.testing.assert_array_equal(model.counts_, other.counts_)
        assert model.n_iter_ == other.n_iter_
        assert model.objective_ == pytest.approx(other.objective_, rel=1e-14)
        np.testing.assert_array_equal(model.predict(rows), model.labels_)
    batch = DPvMFMeans(0.7).partial_fit(rows, sample_weight=weights)
    other = DPvMFMeans(0.7).partial_fit(rows[is_kept], sample_weight=weights[is_kept])
    np.testing.assert_array_equal(batch.cluster_centers_, other.cluster_centers_)
    np.testing.assert_array_equal(batch.labels_[is_kept], other.labels_)


def test_a_row_of_weight_zero_opens_nothing():
    model = DPvMFMeans(0.3).fit(circle(90, 0, 1), sample_weight=[0.0, 1.0, 1.0])
    assert model.n_clusters_ == 1
    assert model.labels_.tolist() == [0, 0, 0]


def test_a_heavy_row_is_not_alone():
    # the row at 0 opens slot 0, and slot 1 is then nearer to it than the angle: alone it moves, standing for two it
    # has company (of itself) in slot 0, which is nearest
    rows = circle(0, 25, 35)
    light = Sweeps(rows, floor=math.cos(math.radians(30)), labels=[0, 1, 1], directions=circle(0, 25))
    light.sweep()
    assert light.labels == [1, 1, 1]
    heavy = DPvMFMeans(math.radians(30), warm_start=True)
    heavy.cluster_centers_, heavy.counts_, heavy.resultants_ = circle(0, 25), np.ones(2), circle(0, 25)
    heavy.n_features_in_ = 2
    heavy.fit(rows, sample_weight=[2.0, 1.0, 1.0])
    assert heavy.labels_.tolist() == [0, 1, 1]


# --------------------------------------------------------------------------------- what holds the rows, and threads


def test_a_memory_map_gives_the_bits_of_an_array(tmp_path):
    for rows in (blurred(10, 3000), 2.5 * many_rows(3000, 20), blurred(12, 3000, 5).astype(np.float32)):
        np.save(tmp_path / "rows.npy", rows)
        held = np.load(tmp_path / "rows.npy", mmap_mode="r")
        for parameters in ({}, {"n_init": 2, "random_state": 0, "consolidate": True}):
            found, expected = (quiet_fit(DPvMFMeans(0.9, max_iter=5, **parameters), given) for given in (held, rows))
            assert_same_fit(found, expected)
        np.testing.assert_array_equal(found.predict(held), found.labels_)


@pytest.mark.parametrize("n_features", [3, 20])
def test_sparse_and_dense_rows_agree(n_features):
    rng = np.random.default_rng(13)
    rows = blurred(13, 300, n_features) * (rng.random((300, n_features)) < 0.4)
    rows[np.arange(300), np.arange(300) % n_features] += 0.5
    for parameters in ({}, {"max_clusters": 4}, {"n_init": 2, "random_state": 0}):
        dense = DPvMFMeans(0.9, **parameters).fit(rows)
        sparse = DPvMFMeans(0.9, **parameters).fit(sp.csr_array(rows))
        np.testing.assert_array_equal(sparse.labels_, dense.labels_)
        np.testing.assert_allclose(sparse.cluster_centers_, dense.cluster_centers_, atol=1e-13)
        assert sparse.n_iter_ == dense.n_iter_
        np.testing.assert_array_equal(dense.predict(sp.csr_array(rows)), dense.labels_)


def many_rows(n_rows, n_features, seed=0):
    """Rows around many directions, with some noise that opens clusters late."""
    rng = np.random.default_rng(seed)
    directions = units(rng, 20, n_features)
    rows = directions[rng.integers(20, size=n_rows)] + 0.5 / math.sqrt(n_features) * rng.standard_normal(
        (n_rows, n_features)
    )
    rows[rng.random(n_rows) < 0.002] = rng.standard_normal(n_features)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def sparse_rows(n_rows, n_features):
    rows = many_rows(n_rows, n_features)
    rows[np.abs(rows) < 0.2] = 0.0
    return sp.csr_array(rows / np.linalg.norm(rows, axis=1, keepdims=True))


@pytest.mark.parametrize(
    ("rows", "angle"),
    [
        (many_rows(30_000, 3), 0.6),
        (many_rows(30_000, 32).astype(np.float32), 0.9),
        (sparse_rows(30_000, 32), 1.0),
    ],
    ids=["narrow", "wide", "csr"],
)
def test_one_thread_and_two_give_equal_bits(rows, angle):
    for parameters in ({}, {"n_init": 2, "max_clusters": 15, "consolidate": True, "random_state": 0}):
        one, two = (quiet_fit(DPvMFMeans(angle, n_threads=n, max_iter=6, **parameters), rows) for n in (1, 2))
        assert_same_fit(one, two)
        np.testing.assert_array_equal(two.labels_, two.predict(rows))
    assert_same_fit(one.partial_fit(rows[:2000]), two.partial_fit(rows[:2000]))


def test_the_callers_rows_are_left_alone():
    rows = 3.0 * blurred(14)
    before = rows.copy()
    DPvMFMeans(0.5, n_init=2, random_state=0, consolidate=True).fit(rows).partial_fit(rows).predict(rows, reject=True)
    np.testing.assert_array_equal(rows, before)


# ------------------------------------------------------------------------------- many rows, decided one after the other


def assert_decided_in_order(rows, floor, before, directions, after, sweep, at_once=50_000):
    """Every label of a sweep follows from the closed form of the sequential rule (dp_vmf_means.md, 3).

    Slot k has company at row i iff i < last_k or first_k < i. A slot whose direction changed was seeded anew by the
    row first_k: rows before it saw the old direction, rows after it the new one.
    """
    n_rows, n_old, n_slots = len(rows), len(directions), len(sweep.directions)
    last = np.full(n_slots, -1)
    if n_old:
        last[:n_old] = [np.flatnonzero(before == k)[-1] for k in range(n_old)]
    first = np.full(n_slots, n_rows)
    found, where = np.unique(after, return_index=True)
    first[found] = where
    was = np.vstack([directions, sweep.directions[n_old:]])
    is_seeded = (was != sweep.directions).any(axis=1)
    is_seeded[n_old:] = True
    n_births = 0
    for start in range(0, n_rows, at_once):
        numbers = np.arange(start, min(n_rows, start + at_once))[:, None]
        part = rows[numbers[:, 0]]
        # products added in column order, as the contract defines scores
        cosines, old_cosines = np.zeros((len(part), n_slots)), np.zeros((len(part), n_slots))
        for column in range(part.shape[1]):
            cosines += part[:, column, None] * sweep.directions[:, column]
            old_cosines += part[:, column, None] * was[:, column]
        cosines = np.where(is_seeded & (numbers <= first), old_cosines, cosines)
        is_open = (numbers < last) | (first < numbers)
        cosines[~is_open] = -np.inf
        best = cosines.argmax(axis=1)
        labels = after[numbers[:, 0]]
        is_birth = cosines.max(axis=1) < floor
        np.testing.assert_array_equal(labels[~is_birth], best[~is_birth])
        # a birth is the first row of its slot and its direction; the slot is new, or its own that it alone was left in
        for row in np.flatnonzero(is_birth):
            slot = labels[row]
            assert first[slot] == start + row
            alone = whole.rounded(part[row].astype(np.float64), whole.exponent(len(after)))
            np.testing.assert_array_equal(sweep.directions[slot], alone / np.sqrt(np.vecdot(alone, alone)))
            assert slot >= n_old or (before[start + row] == slot and last[slot] == start + row)
        n_births += int(is_birth.sum())
    return n_births


@pytest.mark.parametrize(("n_rows", "angle"), [(20_000, 0.25), (300_000, 0.6)], ids=["20,000 rows", "300,000 rows"])
def test_every_label_of_a_fit_follows_from_the_sequential_rule(n_rows, angle):
    rows = many_rows(n_rows, 3, seed=n_rows)
    price = -2.0 * math.sin(0.5 * angle) ** 2
    sweeps = Sweeps(rows, floor=1.0 + price)
    labels, directions = sweeps.assignment.labels.to_host().copy(), sweeps.directions
    n_births = []
    for _ in range(3):
        sweep = sweeps.sweep()
        after = sweeps.assignment.labels.to_host().copy()
        n_births.append(assert_decided_in_order(rows, 1.0 + price, labels, directions, after, sweep))
        sweeps.drop_and_update(sweep)
        labels, directions = sweeps.assignment.labels.to_host().copy(), sweeps.directions
    assert n_births[0] > 10
    model = quiet_fit(DPvMFMeans(angle, max_iter=3, tol=0.0), rows)
    np.testing.assert_array_equal(model.cluster_centers_, directions)


# ------------------------------------------------------------------------------------------------------------ events


def test_events_of_a_fit():
    events = []
    rows = blurred(15)
    model = DPvMFMeans(0.6, n_init=2, random_state=0, callbacks=events.append).fit(rows)
    assert [event.kind for event in events[:2]] == ["start", "step"]
    assert events[-1].kind == "end"
    assert {(event.model, event.n_rows, event.n_restarts, event.max_steps) for event in events} == {
        ("DPvMFMeans", 400, 2, 300)
    }
    assert events[0].n_clusters == 0
    assert all(event.n_clusters > 1 for event in events[1:])
    steps = [event for event in events if event.kind == "step"]
    assert [event.restart for event in steps] == sorted(event.restart for event in steps)
    kept = [event for event in steps if event.restart == events[-1].restart]
    assert [event.step for event in kept] == list(range(1, model.n_iter_ + 1))
    assert kept[-1].objective == events[-1].objective
    assert (events[-1].births, events[-1].revivals, events[-1].deaths) == ((), (), ())
    assert {event.n_clusters for event in steps} != {steps[0].n_clusters}  # they come and go while the fit runs


def test_the_clusters_of_the_last_event_are_those_of_the_fit():
    events = []
    model = DPvMFMeans(0.6, tol=0.0, callbacks=[events.append]).fit(blurred(16))
    assert events[-1].n_clusters == events[-2].n_clusters == model.n_clusters_
    assert events[-1].objective == pytest.approx(model.objective_, rel=1e-13)


def test_verbose_shows_a_bar(capfd):
    DPvMFMeans(0.6, verbose=1).fit(blurred(17))
    shown = capfd.readouterr()
    assert "DPvMFMeans" in shown.out + shown.err
    DPvMFMeans(0.6).fit(blurred(17))
    assert capfd.readouterr() == ("", "")
