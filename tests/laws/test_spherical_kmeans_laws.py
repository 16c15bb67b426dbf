"""Laws of spherical k-means: what must hold for any rows, any start and either algorithm."""

from __future__ import annotations

import warnings
from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning
from tests.making import units

from armillary import SphericalKMeans
from armillary.engines.cpu import Passes
from armillary.fitting.assignment import HardAssignment
from armillary.kernels.rows import blocks as cpu
from armillary.points import as_points
from armillary.rules import AffineRule
from armillary.workers import Workers

law = settings(deadline=None, max_examples=60)
# loops for few columns are compiled for each number of columns: these few are enough
NARROW = (2, 3, 5, 16)
WIDE = (17, 33, 64, 200)
ALGORITHMS = ("lloyd", "hamerly")

both_algorithms = pytest.mark.parametrize("algorithm", ALGORITHMS)


def clumped(rng, n_rows, n_features, n_clumps, spread):
    """Rows around a few directions; the spread of each is that of its length across the direction."""
    rows = units(rng, n_clumps, n_features)[rng.integers(0, n_clumps, n_rows)]
    rows = rows + spread / np.sqrt(n_features) * rng.standard_normal(rows.shape)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def fit(rows, n_clusters, sample_weight=None, **parameters):
    """A fitted model; early stops and empty clusters are part of many laws, so their warnings are let go."""
    model = SphericalKMeans(n_clusters, **{"random_state": 0, "n_threads": 1, **parameters})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(rows, sample_weight=sample_weight)


@st.composite
def problems(draw, dimensions=NARROW + WIDE):
    """Rows, weights or None, a start and the number of clusters. Kinds of rows include those with many ties."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    n_features = draw(st.sampled_from(dimensions))
    n_clusters = draw(st.integers(1, 12))
    n_rows = draw(st.integers(n_clusters, 120))
    kind = draw(st.sampled_from(["clumped", "uniform", "repeated", "grid", "antipodal"]))
    if kind == "clumped":
        rows = clumped(rng, n_rows, n_features, draw(st.integers(1, 8)), draw(st.sampled_from([1e-3, 0.3, 1.0])))
    elif kind == "uniform":
        rows = units(rng, n_rows, n_features)
    elif kind == "repeated":
        distinct = units(rng, draw(st.integers(1, n_rows)), n_features)
        rows = distinct[rng.integers(0, len(distinct), n_rows)]
    elif kind == "grid":
        rows = rng.integers(-1, 2, (n_rows, n_features)).astype(float)
        rows[~rows.any(axis=1), 0] = 1.0
    else:
        rows = units(rng, n_rows, n_features)
        rows[1::2] = -rows[: 2 * (n_rows // 2) : 2]
    rows = rows.astype(draw(st.sampled_from([np.float32, np.float64])))
    weights = None
    if draw(st.booleans()):
        weights = rng.gamma(1.0, size=n_rows) * (rng.random(n_rows) < 0.8)
        weights[0] = 1.0
    start = rows[rng.choice(n_rows, n_clusters, replace=False)]
    if draw(st.booleans()):  # far from all rows: clusters that start empty
        start = units(rng, n_clusters, n_features) * 0.1 - rows.mean(axis=0)
    if not (np.abs(start).max(axis=1) > 0.0).all():
        start = units(rng, n_clusters, n_features)
    return rows, weights, start, n_clusters


settings_of_a_fit = st.fixed_dictionaries(
    {
        "algorithm": st.sampled_from(ALGORITHMS),
        "empty_clusters": st.sampled_from(["refill", "keep"]),
        "tol": st.sampled_from([0.0, 1e-6, 1e-2]),
        "max_iter": st.sampled_from([1, 2, 3, 100]),
    }
)


# -------------------------------------------------------------------------------------------------- the objective


@law
@given(problems(), settings_of_a_fit)
def test_the_objective_never_falls(problem, parameters):
    rows, weights, start, n_clusters = problem
    events = []
    model = fit(rows, n_clusters, weights, init=start, callbacks=events.append, **parameters)
    objectives = [event.objective for event in events if event.kind == "step"]
    total = len(rows) if weights is None else weights.sum()
    rounding = 1e-13 * total
    assert all(after >= before - rounding for before, after in pairwise(objectives))
    # labels are brought up to the last directions, which cannot cost either
    assert model.objective_ >= objectives[-1] - rounding
    assert model.n_iter_ == len(objectives)
    # float32 rows count as unit when they are so to 2e-6
    assert model.objective_ <= total * (1.0 + 2.1e-6)


@law
@given(problems(), settings_of_a_fit)
def test_labels_are_the_prediction(problem, parameters):
    rows, weights, start, n_clusters = problem
    model = fit(rows, n_clusters, weights, init=start, **parameters)
    np.testing.assert_array_equal(model.labels_, model.predict(rows))
    assert model.labels_.dtype == np.int32


@law
@given(problems(), settings_of_a_fit)
def test_what_is_published_is_consistent(problem, parameters):
    rows, weights, start, n_clusters = problem
    model = fit(rows, n_clusters, weights, init=start, **parameters)
    total = float(len(rows) if weights is None else weights.sum())
    unit = rows.astype(np.float64) / np.linalg.norm(rows.astype(np.float64), axis=1, keepdims=True)
    own = (unit * model.cluster_centers_[model.labels_]).sum(axis=1)
    assert abs(model.objective_ - (own.sum() if weights is None else weights @ own)) <= 3e-6 * total
    assert model.score(rows, sample_weight=weights) == -model.inertia_
    if model.inertia_ > 0.0:
        assert abs(model.inertia_ + model.objective_ - total) <= 1e-12 * total
    assert abs(model.counts_.sum() - total) <= 1e-12 * total
    # directions are those of the resultants, or kept where rows cancel or there are none
    lengths = np.linalg.norm(model.resultants_, axis=1)
    has_direction = lengths > 1e-9 * total
    along = (model.resultants_ * model.cluster_centers_).sum(axis=1)
    np.testing.assert_allclose(along[has_direction], lengths[has_direction], rtol=1e-12)
    np.testing.assert_allclose(np.linalg.norm(model.cluster_centers_, axis=1), 1.0, rtol=0, atol=1e-12)


@law
@given(problems(), st.sampled_from(ALGORITHMS))
def test_a_fit_that_settled_is_a_fixed_point(problem, algorithm):
    rows, weights, start, n_clusters = problem
    model = fit(rows, n_clusters, weights, init=start, algorithm=algorithm, tol=0.0)
    counts = np.bincount(model.labels_, weights, n_clusters)
    # tol=0 stops when no label changes or when nothing is gained; in the first case one more fit changes nothing
    if np.array_equal(counts, model.counts_) and counts.all():
        again = fit(rows, n_clusters, weights, init=model.cluster_centers_, algorithm=algorithm, tol=0.0)
        np.testing.assert_array_equal(again.labels_, model.labels_)
        np.testing.assert_allclose(again.cluster_centers_, model.cluster_centers_, rtol=0, atol=1e-12)


@both_algorithms
def test_each_restart_counts_and_the_best_is_kept(algorithm):
    rng = np.random.default_rng(3)
    n_strict = 0
    for seed in range(6):
        rows = clumped(rng, 150, 5, 9, 0.5)
        events = []
        model = fit(
            rows, 7, init="random", n_init=6, random_state=seed, tol=0.0, algorithm=algorithm, callbacks=events.append
        )
        last = {event.restart: event for event in events if event.kind == "step"}
        assert sorted(last) == [1, 2, 3, 4, 5, 6]
        objectives = [last[restart].objective for restart in sorted(last)]
        end = events[-1]
        # the first of those that differ by rounding alone
        assert end.restart == 1 + int(np.argmax(np.array(objectives) >= max(objectives) * (1.0 - 1e-12)))
        assert end.objective == objectives[end.restart - 1]
        assert model.n_iter_ == end.step == last[end.restart].step
        assert abs(model.objective_ - max(objectives)) <= 1e-12 * len(rows)
        n_strict += max(objectives) > objectives[-1] + 1e-9
        # the first restart of many is the only one of one
        alone = fit(rows, 7, init="random", n_init=1, random_state=seed, tol=0.0, algorithm=algorithm)
        assert abs(alone.objective_ - objectives[0]) <= 1e-12 * len(rows)
    assert n_strict > 0  # the best is not simply the last


# -------------------------------------------------------------------------------------------- symmetries of the data


def smooth_problem(seed, n_features, n_rows=90, n_clusters=5):
    """Rows without ties: what changes by rounding alone does not change a label."""
    rng = np.random.default_rng([seed, n_features])
    rows = clumped(rng, n_rows, n_features, 6, 0.8)
    return rng, rows, rows[rng.choice(n_rows, n_clusters, replace=False)]


@both_algorithms
@pytest.mark.parametrize("n_features", [2, 3, 16, 17, 40])
def test_rotating_rows_rotates_centers(algorithm, n_features):
    for seed in range(5):
        rng, rows, start = smooth_problem(seed, n_features)
        turn, _ = np.linalg.qr(rng.standard_normal((n_features, n_features)))
        model = fit(rows, 5, init=start, algorithm=algorithm, tol=0.0)
        turned = fit(rows @ turn, 5, init=start @ turn, algorithm=algorithm, tol=0.0)
        np.testing.assert_array_equal(turned.labels_, model.labels_)
        np.testing.assert_allclose(turned.cluster_centers_, model.cluster_centers_ @ turn, rtol=0, atol=1e-12)
        assert abs(turned.objective_ - model.objective_) <= 1e-11


@both_algorithms
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("is_sparse", [False, True], ids=["dense", "csr"])
def test_lengths_of_rows_do_not_matter(algorithm, dtype, is_sparse):
    for seed in range(4):
        rng, rows, start = smooth_problem(seed, 17)
        scale = 10.0 ** rng.uniform(-6, 6, (len(rows), 1))
        if is_sparse:
            rows = rows * (rng.random(rows.shape) < 0.5)
            rows[:, 0] += 0.1
        one, other = rows.astype(dtype), (scale * rows).astype(dtype)
        if is_sparse:
            one, other = sp.csr_array(one), sp.csr_array(other)
        model = fit(one, 5, init=start, algorithm=algorithm, tol=0.0)
        scaled = fit(other, 5, init=1e3 * start, algorithm=algorithm, tol=0.0)
        np.testing.assert_array_equal(scaled.labels_, model.labels_)
        atol = 1e-12 if dtype == np.float64 else 1e-6
        np.testing.assert_allclose(scaled.cluster_centers_, model.cluster_centers_, rtol=0, atol=atol)
        # a power of two rounds nothing
        doubled = fit(other * dtype(8.0), 5, init=start, algorithm=algorithm, tol=0.0)
        np.testing.assert_array_equal(doubled.cluster_centers_, scaled.cluster_centers_)


@both_algorithms
@pytest.mark.parametrize("n_features", [3, 17])
@pytest.mark.parametrize("is_sparse", [False, True], ids=["dense", "csr"])
def test_whole_weights_are_repeated_rows(algorithm, n_features, is_sparse):
    as_given = sp.csr_array if is_sparse else np.asarray
    for seed in range(6):
        rng, rows, start = smooth_problem(seed, n_features)
        weights = rng.integers(0, 4, len(rows))
        repeated = np.repeat(rows, weights, axis=0)
        model = fit(as_given(rows), 5, weights, init=start, algorithm=algorithm, tol=0.0)
        other = fit(as_given(repeated), 5, init=start, algorithm=algorithm, tol=0.0)
        np.testing.assert_array_equal(np.repeat(model.labels_, weights), other.labels_)
        np.testing.assert_allclose(model.cluster_centers_, other.cluster_centers_, rtol=0, atol=1e-12)
        np.testing.assert_allclose(model.counts_, other.counts_, rtol=1e-13)
        assert abs(model.inertia_ - other.inertia_) <= 1e-11


@both_algorithms
@pytest.mark.parametrize("empty_clusters", ["refill", "keep"])
@pytest.mark.parametrize("n_features", [3, 17])
def test_rows_of_weight_zero_might_as_well_be_gone(algorithm, empty_clusters, n_features):
    for seed in range(8):
        rng, rows, start = smooth_problem(seed, n_features)
        is_kept = rng.random(len(rows)) < 0.5
        if seed % 2:  # all rows that count are far from two of the directions
            start[:2] = -rows.mean(axis=0) + 0.1 * units(rng, 2, n_features)
        weights = np.where(is_kept, 1.0 + rng.random(len(rows)), 0.0)
        parameters = {"init": start, "algorithm": algorithm, "tol": 0.0, "empty_clusters": empty_clusters}
        model = fit(rows, 5, weights, **parameters)
        other = fit(rows[is_kept], 5, weights[is_kept], **parameters)
        np.testing.assert_array_equal(model.labels_[is_kept], other.labels_)
        np.testing.assert_allclose(model.cluster_centers_, other.cluster_centers_, rtol=0, atol=1e-12)
        np.testing.assert_allclose(model.counts_, other.counts_, rtol=1e-13)
        assert abs(model.objective_ - other.objective_) <= 1e-11


@pytest.mark.parametrize("init", ["k-means++", "random"])
def test_rows_of_weight_zero_start_no_cluster(init):
    rng = np.random.default_rng(4)
    rows = np.concatenate([clumped(rng, 40, 3, 3, 0.3), units(rng, 400, 3)])
    weights = np.r_[np.ones(40), np.zeros(400)]
    for seed in range(20):
        model = fit(rows, 6, weights, init=init, n_init=1, random_state=seed, max_iter=1, empty_clusters="keep")
        # one step leaves every direction the mean of rows that count, and no cluster empty
        assert model.counts_.sum() == 40
        assert model.counts_.all()


@both_algorithms
@pytest.mark.parametrize("factor", [1e-200, 1e-9, 3.0, 1e9, 1e200])
def test_weights_count_by_their_ratios(algorithm, factor):
    rng, rows, start = smooth_problem(1, 5)
    weights = rng.gamma(1.0, size=len(rows))
    model = fit(rows, 5, weights, init=start, algorithm=algorithm, tol=0.0)
    scaled = fit(rows, 5, factor * weights, init=start, algorithm=algorithm, tol=0.0)
    np.testing.assert_array_equal(scaled.labels_, model.labels_)
    np.testing.assert_allclose(scaled.cluster_centers_, model.cluster_centers_, rtol=0, atol=1e-12)
    np.testing.assert_allclose(scaled.objective_, factor * model.objective_, rtol=1e-12)


@both_algorithms
def test_naming_directions_in_another_order_renames_clusters(algorithm):
    for seed in range(6):
        rng, rows, start = smooth_problem(seed, 17)
        order = rng.permutation(5)
        model = fit(rows, 5, init=start, algorithm=algorithm, tol=0.0)
        renamed = fit(rows, 5, init=start[order], algorithm=algorithm, tol=0.0)
        np.testing.assert_array_equal(order[renamed.labels_], model.labels_)
        np.testing.assert_allclose(renamed.cluster_centers_, model.cluster_centers_[order], rtol=0, atol=1e-13)


@both_algorithms
def test_the_order_of_rows_does_not_matter_from_a_given_start(algorithm):
    for seed in range(6):
        rng, rows, start = smooth_problem(seed, 3)
        order = rng.permutation(len(rows))
        model = fit(rows, 5, init=start, algorithm=algorithm, tol=0.0)
        shuffled = fit(rows[order], 5, init=start, algorithm=algorithm, tol=0.0)
        np.testing.assert_array_equal(shuffled.labels_, model.labels_[order])
        np.testing.assert_allclose(shuffled.cluster_centers_, model.cluster_centers_, rtol=0, atol=1e-13)


# ------------------------------------------------------------------------------------- more clusters, one cluster


@st.composite
def few_rows(draw):
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    return units(rng, 6, draw(st.sampled_from((2, 3, 5))))


def partitions(n_rows, n_clusters):
    """Labellings of rows with at most `n_clusters` labels, each partition once (restricted growth strings)."""

    def grow(labels):
        if len(labels) == n_rows:
            yield labels
            return
        for label in range(min(max(labels, default=-1) + 2, n_clusters)):
            yield from grow([*labels, label])

    return [np.array(labels) for labels in grow([])]


@settings(deadline=None, max_examples=10)
@given(few_rows())
def test_one_more_cluster_is_never_worse_at_the_optimum(rows):
    best = []
    for n_clusters in range(1, 7):
        sums = [np.eye(n_clusters)[labels].T @ rows for labels in partitions(6, n_clusters)]
        best.append(max(np.linalg.norm(total, axis=1).sum() for total in sums))
        found = fit(rows, n_clusters, init="random", n_init=60, tol=0.0)
        assert found.objective_ <= best[-1] + 1e-12
        if n_clusters in (1, 6):
            assert found.objective_ >= best[-1] - 1e-12
    assert all(more >= fewer - 1e-12 for fewer, more in pairwise(best))


@law
@given(problems(), st.sampled_from(ALGORITHMS))
def test_one_cluster_is_the_mean_direction(problem, algorithm):
    rows, weights, start, _ = problem
    model = fit(rows, 1, weights, init=start[:1], algorithm=algorithm)
    unit = rows.astype(np.float64) / np.linalg.norm(rows.astype(np.float64), axis=1, keepdims=True)
    total = unit.sum(axis=0) if weights is None else weights @ unit
    assert not model.labels_.any()
    weight = len(rows) if weights is None else weights.sum()
    assert abs(model.objective_ - np.linalg.norm(total)) <= 3e-6 * weight


# ------------------------------------------------------------------------------------ lloyd and hamerly, to the bit


def assert_same_bits(one, other):
    for name in ("labels_", "cluster_centers_", "counts_", "resultants_", "objective_", "inertia_", "n_iter_"):
        assert np.asarray(getattr(one, name)).tobytes() == np.asarray(getattr(other, name)).tobytes(), name


@settings(deadline=None, max_examples=250)
@given(problems(), settings_of_a_fit, st.booleans())
def test_lloyd_and_hamerly_give_equal_bits(problem, parameters, is_sparse):
    rows, weights, start, n_clusters = problem
    rows = sp.csr_array(rows) if is_sparse else rows
    fits = [
        fit(rows, n_clusters, weights, init=start, **{**parameters, "algorithm": algorithm}) for algorithm in ALGORITHMS
    ]
    assert_same_bits(*fits)


@pytest.mark.parametrize("n_features", [2, 16, 17, 60, 200])
@pytest.mark.parametrize("n_clusters", [1, 2, 8, 40])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("is_sparse", [False, True], ids=["dense", "csr"])
def test_lloyd_and_hamerly_give_equal_bits_over_long_runs(n_features, n_clusters, dtype, is_sparse):
    # uniform rows have no clusters to find: runs are long and many steps are small
    rng = np.random.default_rng([n_features, n_clusters])
    rows = units(rng, 700, n_features).astype(dtype)
    if is_sparse:
        rows *= rng.random(rows.shape) < 0.3
        rows[~rows.any(axis=1), 0] = 1.0
        rows = sp.csr_array(rows)
    weights = rng.gamma(1.0, size=700)
    for init, sample_weight in (("k-means++", None), ("random", weights)):
        fits = [
            fit(rows, n_clusters, sample_weight, init=init, n_init=1, tol=0.0, algorithm=algorithm)
            for algorithm in ALGORITHMS
        ]
        assert_same_bits(*fits)


def test_bounds_survive_rows_and_starts_that_are_unit_only_to_float32():
    # Rows within 2e-6 of norm 1 are left as they are. Where rows and starting directions are both too long, a
    # cosine of theirs is too large by 4e-6, and an angle of 1e-3 looks a third as large.
    rng = np.random.default_rng(0)
    longer = 1.0 + 1.95e-6
    n_different = 0
    for _ in range(600):
        near, gap = rng.uniform(5e-4, 2e-3), rng.uniform(0.02, 0.3)
        angles = np.concatenate(
            [
                -np.abs(rng.normal(0.0, 0.1, 20)) * rng.uniform(),
                gap - np.abs(rng.normal(0.0, 0.02, 20)),
                near + rng.normal(0.0, 3e-4, 5),
            ]
        )
        rows = (longer * np.stack([np.cos(angles), np.sin(angles)], axis=1)).astype(np.float32)
        start = (longer * np.array([[1.0, 0.0], [np.cos(gap), np.sin(gap)]])).astype(np.float32)
        fits = [fit(rows, 2, init=start, tol=0.0, max_iter=10, algorithm=algorithm) for algorithm in ALGORITHMS]
        n_different += not np.array_equal(fits[0].labels_, fits[1].labels_) or fits[0].n_iter_ != fits[1].n_iter_
    assert n_different == 0


def sweep_both(rows, path):
    """Labels and sums under each set of directions in turn, by either algorithm; returns how many labels moved."""
    points = as_points(rows, "test")
    n_moved = 0
    with Workers(1) as workers:
        passes = Passes(points, cpu, workers)
        plain, bounded = HardAssignment(passes), HardAssignment(passes, "hamerly")
        for number, directions in enumerate(path):
            n_changed, sums = plain.sweep(AffineRule.cosines(directions))
            other_changed, other_sums = bounded.sweep(AffineRule.cosines(directions))
            assert np.array_equal(plain.labels.to_host(), bounded.labels.to_host()), number
            assert n_changed == other_changed
            assert sums.counts.tobytes() == other_sums.counts.tobytes()
            assert sums.resultants.tobytes() == other_sums.resultants.tobytes()
            n_moved += n_changed if number else 0
    return n_moved


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("step", [3e-8, 3e-7, 1e-5])
def test_bounds_do_not_wear_out_under_many_small_turns(dtype, step):
    # a bound of size 1 has an ulp of 1e-7 in float32: smaller turns would vanish when added to it
    angles = np.linspace(-600 * step, 600 * step, 241)
    rows = np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(dtype)
    turns = np.concatenate([np.arange(600), 600 - np.arange(600)]) * step - 300 * step
    path = [np.array([[np.cos(t + 1), np.sin(t + 1)], [np.cos(t - 1), np.sin(t - 1)]]) for t in turns]
    assert sweep_both(rows, path) > 100


@pytest.mark.parametrize("n_features", [2, 3, 17])
def test_bounds_follow_directions_that_rest_jump_and_flip(n_features):
    rng = np.random.default_rng([6, n_features])
    rows = clumped(rng, 400, n_features, 5, 0.7)
    directions = units(rng, 6, n_features)
    path = []
    for number in range(60):
        directions = directions.copy()
        if number % 4 == 1:  # one moves, the others rest
            k = rng.integers(6)
            directions[k] += 0.05 * rng.standard_normal(n_features)
        elif number % 4 == 2:  # all move a little
            directions += 0.01 * rng.standard_normal(directions.shape)
        elif number % 12 == 3:  # one turns about, another becomes a copy of a third
            directions[rng.integers(6)] *= -1.0
            directions[rng.integers(6)] = directions[rng.integers(6)]
        elif number % 12 == 7:  # one jumps on a row
            directions[rng.integers(6)] = rows[rng.integers(400)]
        directions /= np.linalg.norm(directions, axis=1, keepdims=True)
        path.append(directions)
    assert sweep_both(rows, path) > 100
    assert sweep_both(rows.astype(np.float32), path) > 100
    assert sweep_both(sp.csr_array(rows), path) > 100
