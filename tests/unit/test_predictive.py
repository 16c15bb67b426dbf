"""Predictive densities and rows against their formula, with one prior for all components and with one for each."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import logsumexp
from tests.making import units

from armillary.distributions import bessel
from armillary.distributions.log_concentration import MixturePrior
from armillary.distributions.predictive import PredictiveDensity

K, G, D = 4, 3, 6


def priors():
    rng = np.random.default_rng(1)
    # the last component is nowhere: no rows and no prior direction
    vectors = np.array([[30.0], [2.0], [0.0], [0.0]]) * units(rng, K, D)
    return {
        "one for all": MixturePrior(units(rng, D), 5.0, 0.0, 1.0),
        "one for each": MixturePrior.of_vectors(vectors, 0.0, 1.0),
    }


def make(prior, scale=1.0):
    rng = np.random.default_rng(0)
    resultants = np.array([[9.0], [0.5], [40.0], [0.0]]) * units(rng, K, D)
    node_weights = rng.dirichlet(np.ones(G), K).T
    nodes = scale * rng.gamma(3.0, 10.0, (G, K))
    return PredictiveDensity(rng.dirichlet(np.ones(K)), resultants, prior, nodes, node_weights, 0.7 * nodes)


def natural_vectors(density):
    """pull R + C_0 mu_0, (G, K, D), written out."""
    centers = np.broadcast_to(density.prior.mean_direction, (K, D))
    c = np.broadcast_to(density.prior.mean_concentration, K)
    return density.node_pulls[:, :, None] * density.resultants + c[:, None] * centers


def written_out(density, rows):
    order = 0.5 * D - 1.0
    vectors, kappa = natural_vectors(density), density.nodes
    joined = np.linalg.norm(kappa[:, :, None] * rows[:, None, None] + vectors, axis=-1)
    terms = bessel.log_h(order, joined) - bessel.log_h(order, kappa)
    terms -= bessel.log_h(order, np.linalg.norm(vectors, axis=-1))
    return logsumexp(terms, axis=(1, 2), b=density.weights * density.node_weights)


@pytest.mark.parametrize("kind", ["one for all", "one for each"])
@pytest.mark.parametrize("scale", [0.01, 1.0, 100.0])
def test_the_density_is_its_formula(kind, scale):
    density = make(priors()[kind], scale)
    rows = np.concatenate([units(np.random.default_rng(2), 50, D), density.resultants[:3] / [[9.0], [0.5], [40.0]]])
    found = density.log_density(rows @ density.vectors.T)
    np.testing.assert_allclose(found, written_out(density, rows), rtol=1e-10, atol=1e-9)


def test_known_concentrations_are_one_node():
    prior = priors()["one for each"]
    whole, kappa = make(prior), np.array([3.0, 50.0, 0.2, 8.0])
    density = PredictiveDensity.at(kappa, whole.weights, whole.resultants, prior)
    rows = units(np.random.default_rng(3), 20, D)
    np.testing.assert_allclose(
        density.log_density(rows @ density.vectors.T), written_out(density, rows), rtol=1e-10, atol=1e-11
    )
    np.testing.assert_allclose(
        natural_vectors(density)[0],
        kappa[:, None] * whole.resultants + prior.mean_concentration[:, None] * prior.mean_direction,
    )


@pytest.mark.parametrize("kind", ["one for all", "one for each"])
@pytest.mark.parametrize("component", range(K))
def test_rows_have_the_mean_of_the_density(kind, component):
    # E[x] is A(kappa) A(|v|) v/|v| at each node; a coordinate has a standard error of at most 1/sqrt(n), and 5 of them
    # are passed by chance fewer than three times in 100,000 over all coordinates and cases
    density, n_rows = make(priors()[kind]), 40_000
    rows = density.sample(component, n_rows, np.random.default_rng(4))
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1.0, rtol=1e-12)
    vectors = natural_vectors(density)[:, component]
    lengths = np.linalg.norm(vectors, axis=1)
    means = bessel.mean_resultant_length(D, lengths) * bessel.mean_resultant_length(D, density.nodes[:, component])
    means = means[:, None] * vectors / np.where(lengths > 0.0, lengths, 1.0)[:, None]
    expected = density.node_weights[:, component] @ means
    np.testing.assert_array_less(np.abs(rows.mean(axis=0) - expected), 5.0 / np.sqrt(n_rows))
