"""VonMisesFisherMixture against EM written out in NumPy with SciPy's Bessel functions, quadrature and enumeration."""

from __future__ import annotations

import itertools
import math
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from scipy import integrate, optimize, special
from sklearn.exceptions import ConvergenceWarning
from tests.making import each, units

from armillary import SphericalKMeans, VonMisesFisherMixture
from armillary.distributions import vmf
from armillary.draws import Stream
from armillary.engines.cpu import Passes
from armillary.fitting.expectation import ExpectationMaximization
from armillary.kernels.rows import blocks as cpu
from armillary.models.vmf import vmf_mixture
from armillary.points import as_points
from armillary.workers import Workers


def clumped(rng, n_rows, n_features, n_clumps, spread):
    rows = units(rng, n_clumps, n_features)[rng.integers(0, n_clumps, n_rows)]
    rows = rows + spread / np.sqrt(n_features) * rng.standard_normal(rows.shape)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def fit(rows, n_components, sample_weight=None, **parameters):
    model = VonMisesFisherMixture(n_components, **{"n_threads": 1, "random_state": 0, **parameters})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(rows, sample_weight=sample_weight)


# ---------------------------------------------------------------------------------------------- EM written out
# From SciPy's scaled Bessel functions, which are right to 6e-15 at the dimensions here; nothing of Armillary is used.


def log_normalizer(dimension, kappa):
    order = 0.5 * dimension - 1.0
    log_bessel = np.log(special.ive(order, kappa)) + kappa
    return order * np.log(kappa) - 0.5 * dimension * math.log(2.0 * math.pi) - log_bessel


def mean_length(dimension, kappa):
    return special.ive(0.5 * dimension, kappa) / special.ive(0.5 * dimension - 1.0, kappa)


def inverse(dimension, length):
    return optimize.brentq(lambda kappa: mean_length(dimension, kappa) - length, 1e-9, 1e7, xtol=1e-300, rtol=1e-14)


class NaiveEM:
    """One step at a time, on dense float64 rows."""

    def __init__(self, rows, weights, start, *, is_tied, is_hard, t, kappa):
        self.rows, self.row_weights = rows, np.ones(len(rows)) if weights is None else weights
        self.is_tied, self.is_hard, self.t = is_tied, is_hard, t
        n_components = len(start)
        self.weights, self.means = np.full(n_components, 1.0 / n_components), start
        self.kappas, self.anchor = np.full(n_components, kappa), None

    @property
    def dimension(self):
        return self.rows.shape[1]

    def scores(self):
        with np.errstate(divide="ignore"):
            offsets = np.log(self.weights) + log_normalizer(self.dimension, self.kappas)
        return offsets + self.kappas * (self.rows @ self.means.T)

    def log_likelihood(self):
        return self.row_weights @ special.logsumexp(self.scores(), axis=1)

    def objective(self, anchor):
        """Against the uniform law, as the model reports it."""
        log_area = math.log(2.0) + 0.5 * self.dimension * math.log(math.pi) - math.lgamma(0.5 * self.dimension)
        table = self.scores() + log_area
        per_row = table.max(axis=1) if self.is_hard else special.logsumexp(table, axis=1)
        prior = (
            0.0
            if self.is_tied
            else self.t * np.sum(anchor * self.kappas + log_normalizer(self.dimension, self.kappas) + log_area)
        )
        return self.row_weights @ per_row + prior

    def responsibilities(self):
        table = self.scores()
        if self.is_hard:
            return np.eye(len(self.weights))[table.argmax(axis=1)]
        return np.exp(table - special.logsumexp(table, axis=1)[:, None])

    def step(self):
        shares = self.responsibilities() * self.row_weights[:, None]
        counts, resultants = shares.sum(axis=0), shares.T @ self.rows
        lengths = np.linalg.norm(resultants, axis=1)
        pooled = lengths.sum() / counts.sum()
        self.anchor = pooled if self.anchor is None else self.anchor
        is_there = counts > 0.0
        self.weights = counts / counts.sum()
        self.means = np.where(is_there[:, None], resultants / np.where(is_there, lengths, 1.0)[:, None], self.means)
        if self.is_tied:
            self.kappas = np.full(len(counts), inverse(self.dimension, pooled))
        else:
            wanted = (lengths + self.t * self.anchor) / (counts + self.t)
            self.kappas = np.array([inverse(self.dimension, length) for length in wanted])


CASES = [
    (3, "tied", "soft", 1.0),
    (3, "free", "soft", 1.0),
    (3, "free", "hard", 2.5),
    (2, "free", "soft", 0.0),
    (2, "tied", "hard", 1.0),
    (20, "tied", "soft", 1.0),
    (20, "free", "soft", 0.5),
    (20, "tied", "hard", 1.0),
    (20, "free", "hard", 0.0),
]


@each(("n_features", "concentration", "assignment", "t"), CASES)
@each("is_weighted", [False, True])
@each("is_sparse", [False, True])
def test_every_step_is_that_of_em_written_out(n_features, concentration, assignment, t, is_weighted, is_sparse):
    rng = np.random.default_rng([n_features, len(concentration), len(assignment), 1])
    rows = clumped(rng, 150, n_features, 4, 0.7)
    start = rows[rng.choice(150, 3, replace=False)]
    weights = rng.gamma(2.0, size=150) if is_weighted else None
    naive = NaiveEM(rows, weights, start, is_tied=concentration == "tied", is_hard=assignment == "hard", t=t, kappa=7.0)
    given = sp.csr_array(rows) if is_sparse else rows
    objectives = []
    for n_steps in range(1, 7):
        before = NaiveEM(rows, weights, start, is_tied=naive.is_tied, is_hard=naive.is_hard, t=t, kappa=7.0)
        before.weights, before.means, before.kappas = naive.weights, naive.means, naive.kappas
        naive.step()
        objectives.append(before.objective(naive.anchor))
        if n_steps not in (1, 2, 6):
            continue
        events = []
        model = fit(
            given,
            3,
            weights,
            concentration=concentration,
            assignment=assignment,
            prior_strength=t,
            initial_concentration=7.0,
            init=start,
            max_iter=n_steps,
            tol=0.0,
            callbacks=events.append,
        )
        if model.n_iter_ < n_steps:  # hard labels stood still: so must the naive ones
            assert assignment == "hard"
            np.testing.assert_array_equal(before.responsibilities(), naive.responsibilities())
        np.testing.assert_allclose(model.weights_, naive.weights, rtol=1e-10)
        np.testing.assert_allclose(model.means_, naive.means, rtol=0, atol=1e-10)
        np.testing.assert_allclose(model.concentrations_, naive.kappas, rtol=1e-9)
        assert math.isclose(model.log_likelihood_, naive.log_likelihood(), rel_tol=1e-10, abs_tol=1e-9)
        seen = [event.objective for event in events if event.kind == "step"]
        np.testing.assert_allclose(seen, objectives[: len(seen)], rtol=1e-10, atol=1e-9)
        naive_now = naive.responsibilities()
        np.testing.assert_array_equal(model.labels_, naive_now.argmax(axis=1))
        if assignment == "soft":
            np.testing.assert_allclose(model.predict_proba(given), naive_now, rtol=0, atol=1e-9)
        per_row = special.logsumexp(naive.scores(), axis=1)
        np.testing.assert_allclose(model.score_samples(given), per_row, rtol=0, atol=1e-9)


# -------------------------------------------------------------------------------------------------- one component


@each("n_features", [2, 3, 20, 300])
@each("concentration", ["tied", "free"])
@each("assignment", ["soft", "hard"])
@each("form", ["dense", "csr", "float32"])
def test_one_component_is_the_maximum_likelihood_fit(n_features, concentration, assignment, form):
    rng = np.random.default_rng(n_features)
    rows = clumped(rng, 120, n_features, 1, 0.8)
    weights = rng.gamma(1.0, size=120)
    given = {"dense": rows, "csr": sp.csr_array(rows), "float32": rows.astype(np.float32)}[form]
    wanted = vmf.fit(given, weights)
    model = fit(
        given, 1, weights, concentration=concentration, assignment=assignment, prior_strength=0.0, tol=0.0, max_iter=9
    )
    rtol = 1e-5 if form == "float32" else 1e-11
    np.testing.assert_allclose(model.weights_, [1.0], rtol=1e-15)
    np.testing.assert_allclose(model.means_[0], wanted.mean, rtol=0, atol=1e-12 if form != "float32" else 1e-6)
    np.testing.assert_allclose(model.concentrations_, [wanted.concentration], rtol=rtol)
    assert math.isclose(model.log_likelihood_, wanted.log_likelihood, rel_tol=rtol, abs_tol=1e-9)
    assert not model.labels_.any()


@pytest.mark.parametrize("concentration", ["tied", "free"])
def test_one_component_under_the_prior_is_what_it_is_without(concentration):
    # the anchor is the pooled length itself
    rows = clumped(np.random.default_rng(1), 60, 4, 1, 0.8)
    model = fit(rows, 1, concentration=concentration, prior_strength=13.0)
    np.testing.assert_allclose(model.concentrations_, [vmf.fit(rows).concentration], rtol=1e-11)


# ----------------------------------------------------------------------------------------------------- the M-step


@pytest.mark.parametrize("n_features", [2, 3, 20])
@pytest.mark.parametrize("t", [0.0, 0.3, 1.0, 20.0])
def test_free_concentrations_maximise_likelihood_times_prior(n_features, t):
    rng = np.random.default_rng([n_features, 2])
    rows = clumped(rng, 80, n_features, 3, 0.6)
    start = rows[:3]
    model = fit(rows, 3, concentration="free", prior_strength=t, init=start, max_iter=1, initial_concentration=5.0)
    table = 5.0 * rows @ start.T
    shares = np.exp(table - special.logsumexp(table, axis=1)[:, None])
    counts, lengths = shares.sum(axis=0), np.linalg.norm(shares.T @ rows, axis=1)
    anchor = lengths.sum() / 80.0
    for k in range(3):
        # n log C(kappa) + kappa |R|, and the conjugate prior C(kappa)^t exp(t r0 kappa)
        found = optimize.minimize_scalar(
            lambda kappa, k=k: -(counts[k] + t) * log_normalizer(n_features, kappa) - (lengths[k] + t * anchor) * kappa,
            bounds=(1e-6, 1e4),
            method="bounded",
            options={"xatol": 1e-9},
        )
        assert math.isclose(model.concentrations_[k], found.x, rel_tol=1e-5)


def fixed_point(rows, weights, n_components, parameters, n_steps=160):
    """The state after many steps of the model's own EM, whatever the stopping rule says."""
    model = VonMisesFisherMixture(n_components, random_state=0, **parameters)
    points = as_points(rows, "test", weights)
    checked = vmf_mixture.Parameters.check(model.get_params(), points, "Model")
    with Workers(1) as workers:
        passes = Passes(points, cpu, workers)
        chain = ExpectationMaximization(
            passes,
            vmf_mixture.initial_state(passes, checked, Stream.of(0), 1),
            score_rule=vmf_mixture.score_rule,
            update=lambda state, statistics: vmf_mixture.update(state, statistics, checked),
            objective=lambda before, after, evidence: evidence,
            n_clusters=lambda state: n_components,
        )
        for _ in range(n_steps):
            chain.step()
    return chain.state


@pytest.mark.parametrize("n_features", [3, 9])
@pytest.mark.parametrize("concentration", ["tied", "free"])
@pytest.mark.parametrize("t", [0.0, 2.0])
def test_a_soft_fixed_point_satisfies_the_equations_of_the_m_step(n_features, concentration, t):
    rng = np.random.default_rng([n_features, 4])
    rows, weights = clumped(rng, 24, n_features, 2, 0.4), rng.gamma(2.0, size=24)
    state = fixed_point(rows, weights, 2, {"concentration": concentration, "prior_strength": t})
    scores = state.log_weights + log_normalizer(n_features, state.concentrations)
    scores = scores + state.concentrations * (rows @ state.directions.T)
    shares = np.exp(scores - special.logsumexp(scores, axis=1)[:, None]) * weights[:, None]
    counts, resultants = shares.sum(axis=0), shares.T @ rows
    lengths = np.linalg.norm(resultants, axis=1)
    assert (counts > 0.5).all()  # both components are there
    np.testing.assert_allclose(np.exp(state.log_weights), counts / weights.sum(), rtol=0, atol=1e-10)
    np.testing.assert_allclose(state.directions, resultants / lengths[:, None], rtol=0, atol=1e-10)
    if concentration == "tied":
        wanted = np.full(2, lengths.sum() / weights.sum())
    else:
        wanted = (lengths + t * state.anchor) / (counts + t)
    np.testing.assert_allclose(mean_length(n_features, state.concentrations), wanted, rtol=0, atol=1e-10)


# ------------------------------------------------------------------------------------------------------- densities


def some_model(n_features, seed=0):
    rng = np.random.default_rng([n_features, seed])
    return fit(clumped(rng, 200, n_features, 4, 0.6), 4, concentration="free")


def test_the_density_integrates_to_one_on_the_circle():
    model = some_model(2)
    angles = np.linspace(0.0, 2.0 * np.pi, 20_001)[:-1]  # periodic: the trapezoid rule is exact to rounding
    circle = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    assert math.isclose(2.0 * np.pi * np.exp(model.score_samples(circle)).mean(), 1.0, rel_tol=1e-12)


def test_the_density_integrates_to_one_on_the_sphere():
    model = some_model(3)
    nodes, weights = np.polynomial.legendre.leggauss(400)
    angles = np.linspace(0.0, 2.0 * np.pi, 801)[:-1]
    height, angle = np.meshgrid(nodes, angles, indexing="ij")
    ring = np.sqrt(1.0 - height**2)
    sphere = np.stack([ring * np.cos(angle), ring * np.sin(angle), height], axis=-1).reshape(-1, 3)
    density = np.exp(model.score_samples(sphere)).reshape(height.shape)
    assert math.isclose(weights @ density.mean(axis=1) * 2.0 * np.pi, 1.0, rel_tol=1e-10)


def test_the_density_is_the_sum_of_those_of_the_components():
    model = some_model(20)
    rows = units(np.random.default_rng(5), 50, 20)
    parts = [
        math.log(weight) + vmf.log_density(rows, mean, kappa)
        for weight, mean, kappa in zip(model.weights_, model.means_, model.concentrations_, strict=True)
    ]
    np.testing.assert_allclose(model.score_samples(rows), special.logsumexp(parts, axis=0), rtol=1e-12)
    np.testing.assert_allclose(
        model.predict_proba(rows).T, np.exp(parts - special.logsumexp(parts, axis=0)), rtol=0, atol=1e-12
    )


def test_a_draw_on_the_circle_has_the_density_of_the_model():
    # the cumulative distribution of the angle by quadrature against 4,000 draws; Kolmogorov's distance at 1e-6
    model = some_model(2, seed=1)
    drawn, _ = model.sample(4000, random_state=11)
    angles = np.sort(np.arctan2(drawn[:, 1], drawn[:, 0]))
    grid = np.linspace(-np.pi, np.pi, 4001)
    density = np.exp(model.score_samples(np.stack([np.cos(grid), np.sin(grid)], axis=1)))
    cumulative = integrate.cumulative_trapezoid(density, grid, initial=0.0)
    expected = np.interp(angles, grid, cumulative)
    distance = np.abs(expected - (np.arange(4000) + 0.5) / 4000.0).max()
    assert distance < math.sqrt(-0.5 * math.log(1e-6 / 2.0) / 4000.0), "random_state 11"


# ----------------------------------------------------------------------------------------------------- enumeration


@pytest.mark.parametrize("n_features", [2, 3])
def test_hard_em_never_beats_the_list_of_all_labellings_and_reaches_its_top(n_features):
    rng = np.random.default_rng([n_features, 8])
    rows = clumped(rng, 9, n_features, 2, 0.6)
    best = -math.inf
    for labels in itertools.product(range(2), repeat=9):
        table = np.eye(2)[list(labels)]
        counts, lengths = table.sum(axis=0), np.linalg.norm(table.T @ rows, axis=1)
        kappa = inverse(n_features, min(lengths.sum() / 9.0, 1.0 - 1e-6))
        is_there = counts > 0.0
        value = counts[is_there] @ np.log(counts[is_there] / 9.0)
        best = max(best, value + 9.0 * log_normalizer(n_features, kappa) + kappa * lengths.sum())
    found = []
    for seed in range(20):
        model = fit(rows, 2, assignment="hard", init="random", random_state=seed, tol=0.0)
        own = [
            math.log(model.weights_[k]) + vmf.log_density(row, model.means_[k], model.concentrations_[k])
            for row, k in zip(rows, model.labels_, strict=True)
        ]
        found.append(sum(own))
    assert max(found) <= best + 1e-9
    assert max(found) >= best - 1e-9


# ----------------------------------------------------------------------------------------------- spherical k-means


@pytest.mark.parametrize("n_features", [3, 40])
@pytest.mark.parametrize("is_sparse", [False, True], ids=["dense", "csr"])
def test_hard_em_with_a_huge_concentration_is_spherical_k_means(n_features, is_sparse, monkeypatch):
    rng = np.random.default_rng([n_features, 9])
    rows = clumped(rng, 400, n_features, 6, 1.5)
    start = rows[rng.choice(400, 5, replace=False)]
    given = sp.csr_array(rows) if is_sparse else rows
    monkeypatch.setattr(
        vmf_mixture, "estimate_concentration", lambda dimension, lengths, is_exact: np.full(len(lengths), 1e9)
    )
    monkeypatch.setattr(VonMisesFisherMixture, "_warn_of_bounds", lambda *_: None)
    for max_iter in (1, 2, 100):
        means = SphericalKMeans(5, init=start, max_iter=max_iter, tol=0.0, empty_clusters="keep", algorithm="lloyd")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            means.fit(given)
        model = fit(given, 5, assignment="hard", init=start, initial_concentration=1e9, max_iter=max_iter, tol=0.0)
        np.testing.assert_array_equal(model.labels_, means.labels_)
        np.testing.assert_allclose(model.means_, means.cluster_centers_, rtol=0, atol=1e-12)
    assert model.n_iter_ > 2


def test_the_first_hard_step_from_a_huge_concentration_is_one_of_spherical_k_means():
    rng = np.random.default_rng(10)
    rows = clumped(rng, 200, 5, 6, 1.5)
    means = SphericalKMeans(6, init=rows[:6], max_iter=1, empty_clusters="keep")
    with pytest.warns(ConvergenceWarning):
        means.fit(rows)
    model = fit(rows, 6, assignment="hard", init=rows[:6], initial_concentration=1e9, max_iter=1)
    np.testing.assert_allclose(model.means_, means.cluster_centers_, rtol=0, atol=1e-13)
    np.testing.assert_allclose(model.weights_, means.counts_ / 200.0, rtol=1e-14)
