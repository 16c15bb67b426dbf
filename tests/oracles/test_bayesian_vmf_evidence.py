"""The evidence bound and the predictive densities of the Bayesian mixture against integrals and enumeration."""

from __future__ import annotations

import itertools
import math
import warnings
from inspect import signature

import numpy as np
import pytest
from scipy import stats
from scipy.special import gammaln, logsumexp
from sklearn.exceptions import ConvergenceWarning
from tests.making import units

from armillary.distributions import bessel, vmf
from armillary.distributions import component_factors as cf
from armillary.distributions import concentration_laws as laws
from armillary.distributions.log_concentration import MixturePrior
from armillary.geometry.sphere import log_area
from armillary.models.vmf import _variational_parameters, _variational_vmf
from armillary.models.vmf.bayesian_vmf_mixture import BayesianVonMisesFisherMixture
from armillary.models.vmf.gibbs_vmf_mixture import GibbsVonMisesFisherMixture

FIXED = {
    "empirical_bayes": False,
    "mean_concentration_prior": 2.0,
    "log_concentration_mean_prior": 1.5,
    "log_concentration_variance_prior": 0.8,
    "weight_concentration_prior": 0.9,
    "random_state": 0,
    "n_threads": 1,
    "tol": 1e-10,
    "max_iter": 500,
}


def make(n_rows, dimension, seed=0, concentration=8.0):
    rng = np.random.default_rng(seed)
    parts = [vmf.sample(center, concentration, n_rows // 2 + 1, rng) for center in units(rng, 2, dimension)]
    return np.concatenate(parts)[rng.permutation(2 * (n_rows // 2 + 1))[:n_rows]]


def prior_direction(dimension):
    direction = np.arange(1.0, dimension + 1.0)
    return direction / np.linalg.norm(direction)


def log_evidence(rows, direction, **parameters):
    """log integral over log kappa of p(rows | kappa) p(log kappa), the direction integrated out in closed form."""
    m, s2 = parameters["log_concentration_mean_prior"], parameters["log_concentration_variance_prior"]
    y = np.linspace(m - 12.0 * math.sqrt(s2), m + 12.0 * math.sqrt(s2), 801)
    values = vmf.log_marginal_likelihood(
        len(rows), rows.sum(axis=0), np.exp(y), direction, parameters["mean_concentration_prior"]
    )
    return float(logsumexp(values + stats.norm.logpdf(y, m, math.sqrt(s2))) + math.log(y[1] - y[0]))


# ----------------------------------------------------------------------------------------------------- one component


@pytest.mark.parametrize(("dimension", "n_rows"), [(2, 4), (3, 1), (3, 60), (25, 4)])
def test_one_component_has_the_exact_evidence(dimension, n_rows):
    rows, direction = make(n_rows, dimension), prior_direction(dimension)
    exact = log_evidence(rows, direction, **FIXED)
    joint, factorised = (
        BayesianVonMisesFisherMixture(1, factors=factors, mean_direction_prior=direction, **FIXED).fit(rows)
        for factors in ("joint", "factorised")
    )
    assert joint.lower_bound_ == pytest.approx(exact, rel=1e-10, abs=1e-9)
    assert exact - 1.0 < factorised.lower_bound_ < exact + 1e-9
    # with one component there are no priors to learn, so empirical Bayes is the same model
    learned = BayesianVonMisesFisherMixture(1, mean_direction_prior=direction, **{**FIXED, "empirical_bayes": True})
    assert learned.fit(rows).lower_bound_ == joint.lower_bound_


def test_the_evidence_sees_planted_mistakes(monkeypatch):
    rows, direction = make(10, 3), prior_direction(3)
    exact = log_evidence(rows, direction, **FIXED)

    def bound():
        return BayesianVonMisesFisherMixture(1, mean_direction_prior=direction, **FIXED).fit(rows).lower_bound_

    assert bound() == pytest.approx(exact, abs=1e-9)
    true_law = laws.grid_law
    with monkeypatch.context() as patch:  # the Jacobian twice

        def shifted(target):
            law = true_law(target)
            return laws.LogLaw(law.nodes - 0.3, law.weights, law.entropies, law.log_h, is_followed=True)

        patch.setattr(_variational_parameters, "grid_law", shifted)
        assert bound() < exact - 1e-3
    with monkeypatch.context() as patch:  # entropy subtracted
        patch.setattr(
            _variational_vmf,
            "lower_bounds",
            lambda factors, *rest: cf.lower_bounds(factors, *rest) - 2.0 * factors.log_entropies,
        )
        assert abs(bound() - exact) > 1e-2
    with monkeypatch.context() as patch:  # a constant dropped
        patch.setattr(
            _variational_vmf, "lower_bounds", lambda *given: cf.lower_bounds(*given) + 0.5 * math.log(2.0 * math.pi)
        )
        assert abs(bound() - exact) > 0.5


@pytest.mark.parametrize("dimension", [2, 5, 300])
def test_a_known_concentration_leaves_the_conjugate_evidence(dimension):
    rows, direction = make(12, dimension), prior_direction(dimension)
    kappa, c = 7.0, 3.0
    prior = MixturePrior(direction, c, math.log(kappa), 1.0)
    counts, resultants = np.array([12.0]), rows.sum(axis=0)[None]
    made = cf.joint_factors(counts, resultants, prior, lambda target: laws.point_law(target, np.array([kappa])))
    gain = cf.lower_bounds(made, counts, resultants, prior)[0] + 0.5 * math.log(2.0 * math.pi)  # less the log prior
    exact = vmf.log_marginal_likelihood(12, resultants[0], kappa, direction, c)
    assert gain - 12 * log_area(dimension) == pytest.approx(exact, rel=1e-12)


# ------------------------------------------------------------------------------------------------------- enumeration


def dirichlet_labels(counts, alpha):
    """log p(z) with Dirichlet weights."""
    n_components = len(counts)
    total = gammaln(n_components * alpha) - gammaln(n_components * alpha + counts.sum())
    return float(total + (gammaln(alpha + counts) - gammaln(alpha)).sum())


def stick_labels(counts, mean):
    """log p(z) with two sticks: v ~ Beta(1, a), a exponential with this mean."""
    a = np.exp(np.linspace(-14.0, 6.0, 401))
    log_p = np.log(a) + gammaln(1.0 + counts[0]) + gammaln(a + counts[1]) - gammaln(1.0 + a + counts.sum())
    return float(logsumexp(log_p - a / mean - math.log(mean) + np.log(a)) + math.log(20.0 / 400))


@pytest.mark.parametrize(("weights", "dimension"), [("dirichlet", 3), ("stick_breaking", 2), ("dirichlet", 10)])
def test_two_components_are_below_the_enumerated_evidence(weights, dimension):
    rows, direction = make(7, dimension, seed=3), prior_direction(dimension)
    log_p_labels = dirichlet_labels if weights == "dirichlet" else stick_labels
    terms = []
    for labels in itertools.product((0, 1), repeat=7):
        is_second = np.array(labels) == 1
        counts = np.array([7.0 - is_second.sum(), is_second.sum()])
        parts = [log_evidence(part, direction, **FIXED) for part in (rows[~is_second], rows[is_second]) if len(part)]
        terms.append(log_p_labels(counts, FIXED["weight_concentration_prior"]) + sum(parts))
    exact = float(logsumexp(terms))
    bounds = {}
    for factors, law in (("joint", "grid"), ("factorised", "grid"), ("joint", "log_normal")):
        model = BayesianVonMisesFisherMixture(
            2,
            factors=factors,
            concentration_posterior=law,
            weight_prior=weights,
            mean_direction_prior=direction,
            init=rows[:2],
            **{**FIXED, "tol": 1e-5},
        )
        bounds[factors, law] = model.fit(rows).lower_bound_
        assert exact - 4.0 < bounds[factors, law] < exact
    assert bounds["factorised", "grid"] <= bounds["joint", "grid"] + 1e-2
    assert bounds["joint", "log_normal"] <= bounds["joint", "grid"] + 1e-2
    # no single labelling has more than the bound's worth of evidence plus the entropy it leaves out
    assert max(terms) < exact


# ----------------------------------------------------------------------------------------------- predictive densities

KINDS = {
    "joint": {},
    "factorised": {"factors": "factorised"},
    "jensen": {"concentration_posterior": "log_normal", "log_normal_bound": "jensen"},
    "monte_carlo": {"concentration_posterior": "monte_carlo", "max_iter": 5},
    "gibbs": {"n_draws": 12, "n_burn_in": 20},
}
every_kind = pytest.mark.parametrize("kind", KINDS)


def fitted(kind, rows, n_components=3, **more):
    settings = {**FIXED, "tol": 1e-4, "mean_direction_prior": prior_direction(rows.shape[1]), **KINDS[kind], **more}
    kind_of_model = GibbsVonMisesFisherMixture if kind == "gibbs" else BayesianVonMisesFisherMixture
    taken = signature(kind_of_model).parameters
    model = kind_of_model(n_components, **{name: value for name, value in settings.items() if name in taken})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # Metropolis steps never settle to a small gain
        return model.fit(rows)


@pytest.fixture(scope="module")
def on_the_circle():
    rows = make(30, 2, concentration=20.0)
    return {kind: fitted(kind, rows) for kind in KINDS}


@every_kind
@pytest.mark.parametrize("density", ["full", "plugin"])
def test_predictive_densities_integrate_to_one_on_the_circle(on_the_circle, kind, density):
    theta = np.linspace(0.0, 2.0 * np.pi, 4096, endpoint=False)
    circle = np.stack([np.cos(theta), np.sin(theta)], axis=1)
    values = np.exp(on_the_circle[kind].score_samples(circle, density=density))
    assert values.mean() * 2.0 * np.pi == pytest.approx(1.0, abs=1e-9)


@pytest.mark.parametrize("kind", ["joint", "factorised"])
def test_predictive_densities_integrate_to_one_on_the_sphere(kind):
    model = fitted(kind, make(20, 3))
    nodes, masses = np.polynomial.legendre.leggauss(80)
    phi = np.linspace(0.0, 2.0 * np.pi, 160, endpoint=False)
    ring = np.sqrt(1.0 - nodes**2)[:, None]
    sphere = np.stack([ring * np.cos(phi), ring * np.sin(phi), np.broadcast_to(nodes[:, None], (80, 160))], axis=-1)
    values = np.exp(model.score_samples(sphere.reshape(-1, 3))).reshape(80, 160)
    assert (masses @ values).mean() * 2.0 * np.pi == pytest.approx(1.0, abs=1e-8)


@pytest.mark.parametrize("kind", ["joint", "factorised"])
@pytest.mark.parametrize("dimension", [2, 6])
def test_predictive_density_is_the_mean_over_the_law(kind, dimension):
    rows = make(14, dimension)
    model = fitted(kind, rows, n_components=2)
    rng = np.random.default_rng(1)
    at, n_draws = units(rng, 5, dimension), 20_000
    means = np.zeros(5)
    squares = np.zeros(5)
    for k in range(2):
        nodes = rng.choice(len(model._saved_state.nodes), n_draws, p=model._saved_state.node_weights[:, k])
        values = np.empty((n_draws, 5))
        for g in np.unique(nodes):
            natural = model._saved_state.node_pulls[g, k] * model.resultants_[k] + 2.0 * model.mean_direction_
            length = float(np.linalg.norm(natural))
            centers = vmf.sample(natural / length, length, int((nodes == g).sum()), rng)
            values[nodes == g] = np.exp(vmf.log_density(at, centers[:, None], float(model._saved_state.nodes[g, k])))
        means += model.weights_[k] * values.mean(axis=0)
        squares += (model.weights_[k] * values.std(axis=0)) ** 2 / n_draws
    # five standard errors: a false alarm once in 1.7e6 for each of five numbers
    exact = np.exp(model.score_samples(at))
    assert np.all(np.abs(means - exact) < 5.0 * np.sqrt(squares))
    # the mutation: plugging in expectations is another density
    assert np.any(np.abs(means - np.exp(model.score_samples(at, density="plugin"))) > 5.0 * np.sqrt(squares))


@pytest.mark.parametrize("kind", ["joint", "factorised", "gibbs"])
def test_samples_have_the_predictive_density(on_the_circle, kind):
    model = on_the_circle[kind]
    rows, labels = model.sample(20_000, random_state=5)
    assert rows.shape == (20_000, 2)
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1.0, atol=1e-12)
    assert np.all(np.diff(labels) >= 0)
    edges = np.linspace(-np.pi, np.pi, 25)
    theta = np.linspace(-np.pi, np.pi, 24 * 100, endpoint=False) + np.pi / 1600
    if kind == "gibbs":  # draws come from the components of one draw, the density is the mean over all
        model = _without_draws(model)
    circle = np.stack([np.cos(theta), np.sin(theta)], axis=1)
    expected = np.exp(model.score_samples(circle)).reshape(24, 100).mean(axis=1) * (2.0 * np.pi / 24)
    found = np.histogram(np.arctan2(rows[:, 1], rows[:, 0]), edges)[0]
    assert stats.chisquare(found, 20_000 * expected / expected.sum()).pvalue > 1e-6
    # the mutation: rows about the mean direction itself are too close together
    plain = np.concatenate(
        [
            vmf.sample(model.means_[k], float(model.concentrations_[k]), int(n), 3)
            for k, n in enumerate(np.bincount(labels, minlength=3))
            if n
        ]
    )
    wrong = np.histogram(np.arctan2(plain[:, 1], plain[:, 0]), edges)[0]
    assert stats.chisquare(wrong, len(plain) * expected / expected.sum()).pvalue < 1e-6


def _without_draws(model):
    """The same components, as a model without draws."""
    bare = BayesianVonMisesFisherMixture(model.n_components, n_threads=1)
    for name, value in vars(model).items():
        if (name.endswith("_") and not name.startswith("sample")) or name == "_saved_state":
            setattr(bare, name, value)
    return bare


def test_few_terms_are_taken_and_none_is_missed(on_the_circle):
    # many components, so that most of them are passed over
    rng = np.random.default_rng(0)
    rows = np.concatenate([vmf.sample(center, 400.0, 30, rng) for center in np.eye(8)])
    model = BayesianVonMisesFisherMixture(8, random_state=0, n_threads=1).fit(rows)
    predictive = model._predictive()
    at = np.concatenate([rows[::11], units(rng, 20, 8)])
    order = 3.0
    kappa, pulls = model._saved_state.nodes, model._saved_state.node_pulls
    natural = pulls[..., None] * model.resultants_ + model.mean_concentration_ * model.mean_direction_
    joined = np.linalg.norm(kappa[..., None] * at[:, None, None] + natural, axis=-1)
    own = (
        bessel.log_h(order, joined) - bessel.log_h(order, kappa) - bessel.log_h(order, np.linalg.norm(natural, axis=-1))
    )
    with np.errstate(divide="ignore"):
        terms = own + np.log(model._saved_state.node_weights) + np.log(model.weights_)
    np.testing.assert_allclose(
        predictive.log_density(at @ predictive.vectors.T), logsumexp(terms, axis=(1, 2)), rtol=1e-10, atol=1e-9
    )
