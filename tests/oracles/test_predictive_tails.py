"""Predictive densities of rows far from every component, against quadrature over the concentrations.

A row against a component is explained by concentrations that its posterior holds for next to impossible: at D = 200 and
forty rows by some of weight 1e-40, without which its density is 20 to 90 nats too low.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import logsumexp

from armillary import BayesianVonMisesFisherMixture, TemporalVonMisesFisherMixture
from armillary.distributions import bessel, concentration_laws, vmf
from armillary.distributions.log_concentration import JointTarget, MixturePrior
from armillary.geometry import sphere

CASES = [(3, 20.0, 40), (50, 100.0, 40), (200, 400.0, 40), (200, 400.0, 8)]


def fitted(dimension, concentration, n_each, **kind):
    rng = np.random.default_rng(0)
    rows = np.concatenate([vmf.sample(axis, concentration, n_each, rng) for axis in np.eye(dimension)[:2]])
    return BayesianVonMisesFisherMixture(2, random_state=0, n_threads=1, **kind).fit(rows)


def rows_at(model, cosines):
    """Rows at these cosines with the first component, for the rest across both."""
    own = model.resultants_[0] / np.linalg.norm(model.resultants_[0])
    frame = np.linalg.qr(np.concatenate([[own], model.resultants_[1:], np.eye(len(own))]).T)[0]
    cosines = np.asarray(cosines)
    return cosines[:, None] * own + np.sqrt(1.0 - cosines**2)[:, None] * frame[:, 2]


def by_quadrature(model, rows):
    """The log density with q(kappa) on 20,001 nodes, ten nats of kappa wide."""
    prior, dimension = model._prior(), model.n_features_in_
    order = 0.5 * dimension - 1.0
    y = np.log(model.concentrations_) + np.linspace(-6.0, 4.0, 20001)[:, None]
    log_q = JointTarget.of(model.counts_, model.resultants_, prior).value(y)
    log_q -= logsumexp(log_q, axis=0)
    kappa, terms = np.exp(y), []
    for k, share in enumerate(model.weights_):
        natural = kappa[:, k, None] * model.resultants_[k] + prior.mean_concentration * prior.mean_direction
        own = log_q[:, k] - bessel.log_h(order, kappa[:, k]) - bessel.log_h(order, np.linalg.norm(natural, axis=1))
        for row in rows:
            joined = np.linalg.norm(natural + kappa[:, k, None] * row, axis=1)
            terms.append(np.log(share) + logsumexp(own + bessel.log_h(order, joined)))
    by_component = np.array(terms).reshape(len(model.weights_), len(rows))
    return logsumexp(by_component, axis=0) - float(sphere.log_area(dimension))


@pytest.mark.parametrize(("dimension", "concentration", "n_each"), CASES)
def test_far_rows_have_the_density_of_the_integral(dimension, concentration, n_each):
    model = fitted(dimension, concentration, n_each)
    rows = rows_at(model, [-1.0, 0.0, 0.5, 1.0])
    np.testing.assert_allclose(model.score_samples(rows), by_quadrature(model, rows), atol=1e-6, rtol=0.0)
    assert len(model._saved_state.nodes) <= (50 if n_each == 40 else 80)


@pytest.mark.parametrize("kind", [{"factors": "factorised"}, {"concentration_posterior": "log_normal"}])
def test_other_laws_have_tails_too(kind):
    model, joint = fitted(200, 400.0, 40, **kind), fitted(200, 400.0, 40)
    rows = rows_at(model, [-1.0, -0.5, 0.0, 0.5, 1.0])
    assert model._saved_state.node_weights[model._saved_state.node_weights > 0.0].min() < 1e-30
    # laws of other families, of the same rows: near to each other where each has its tail
    np.testing.assert_allclose(model.score_samples(rows), joint.score_samples(rows), atol=12.0)


def test_nodes_reach_as_far_as_floats_do():
    # rows so concentrated that the mode for a row against them has a weight below the smallest float
    resultants = 39.9 * np.eye(200)[:1]
    prior = MixturePrior(np.eye(200)[0], 0.0, 5.0, 4.0)
    target = JointTarget.of(np.array([40.0]), resultants, prior)
    nodes, weights = concentration_laws.grid_law(target).nodes_for_densities()
    assert np.isfinite(nodes).all()
    assert weights.sum() == pytest.approx(1.0, rel=1e-12)
    assert np.log(weights.min()) < -600.0
    assert weights.min() > 0.0
    assert len(nodes) < 200


def test_temporal_components_keep_their_tails():
    rng = np.random.default_rng(0)
    slices = [np.concatenate([vmf.sample(axis, 400.0, 20, rng) for axis in np.eye(100)[:2]]) for _ in range(2)]
    model = TemporalVonMisesFisherMixture(2, random_state=0).fit(np.concatenate(slices), np.repeat([0, 1], 40))
    assert model._saved_state.node_weights[model._saved_state.node_weights > 0.0].min() < 1e-15
