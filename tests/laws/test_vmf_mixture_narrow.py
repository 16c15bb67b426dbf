"""Von Mises-Fisher mixtures of groups far narrower and nearer together than float32 rows can tell."""

from __future__ import annotations

import math
import warnings

import mpmath
import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score

from armillary import BayesianVonMisesFisherMixture, SphericalKMeans, VonMisesFisherMixture
from armillary.distributions import bessel, vmf
from armillary.distributions.log_concentration import length_gap


def two_groups(dimension, angle, spread, seed=0):
    centers = np.zeros((2, dimension))
    centers[0, 0], centers[1, :2] = 1.0, (math.cos(angle), math.sin(angle))
    rng = np.random.default_rng(seed)
    rows = np.repeat(centers, 100, axis=0) + spread * rng.standard_normal((200, dimension))
    return rows / np.linalg.norm(rows, axis=1, keepdims=True), np.repeat([0, 1], 100)


@pytest.mark.parametrize("concentration", ["tied", "free"])
@pytest.mark.parametrize(("dimension", "angle"), [(2, 1e-3), (3, 1e-3), (10, 1e-3), (3, 1e-4), (100, 1e-4)])
def test_groups_a_thousandth_apart_are_told(dimension, angle, concentration):
    spread = 0.05 * angle / math.sqrt(dimension)
    rows, truth = two_groups(dimension, angle, spread)
    model = VonMisesFisherMixture(2, concentration=concentration, random_state=0).fit(rows)
    assert adjusted_rand_score(truth, SphericalKMeans(2, random_state=0).fit(rows).labels_) == 1.0
    assert adjusted_rand_score(truth, model.labels_) == 1.0
    assert model.predict_proba(rows).max(axis=1).min() > 0.99
    # not only the labels: the concentrations are those of the groups, 1 / spread^2, and not those of all rows, a
    # hundredth of it; free ones have a prior that knows of all rows
    assert np.all(np.abs(np.log(model.concentrations_ * spread**2)) < (0.3 if concentration == "tied" else 1.2))


def test_the_bayesian_mixture_tells_them_too():
    rows, truth = two_groups(10, 1e-3, 1e-5)
    model = BayesianVonMisesFisherMixture(2, random_state=0).fit(rows)
    assert adjusted_rand_score(truth, model.labels_) == 1.0


@pytest.mark.parametrize("spread", [1e-7, 1e-5, 1e-3, 0.1])
@pytest.mark.parametrize("concentration", ["tied", "free"])
def test_the_objective_does_not_fall(spread, concentration):
    rows, _ = two_groups(4, 10.0 * spread, spread, seed=1)
    trace = []
    model = VonMisesFisherMixture(
        3, concentration=concentration, tol=0.0, max_iter=30, random_state=0, callbacks=trace.append
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(rows)
    values = np.array([event.objective for event in trace if event.kind == "step"])
    # a score is a difference of numbers of the size of the concentration, rounded once each
    slack = 200 * 8.0 * np.finfo(float).eps * model.concentrations_.max() + 1e-9 * abs(values[-1])
    assert len(values) > 2
    assert np.diff(values).min() > -slack


def test_rows_are_held_by_what_their_type_can_tell():
    assert length_gap(np.dtype(np.float64)) == 1e-12
    assert length_gap(np.dtype(np.float32)) == 1e-6
    copies = np.repeat(np.eye(3), 20, axis=0)
    for dtype, most in ((np.float64, 1e12), (np.float32, 1e6)):
        with pytest.warns(ConvergenceWarning, match="at its bound"):
            model = VonMisesFisherMixture(3, random_state=0).fit(copies.astype(dtype))
        np.testing.assert_allclose(model.concentrations_, most, rtol=1e-4)
        assert np.isfinite(model.score_samples(copies)).all()


@pytest.mark.parametrize("dimension", [2, 3, 50])
@pytest.mark.parametrize("concentration", [1e6, 1e9, 1e12])
def test_log_densities_keep_their_digits(dimension, concentration):
    """To the rounding of kappa x.mu, 4 eps kappa; nothing overflows."""
    mean = np.eye(dimension)[0]
    angles = np.array([0.0, 1e-7, 1e-5, 1e-3, 1.0, math.pi])
    rows = np.zeros((len(angles), dimension))
    rows[:, 0], rows[:, 1] = np.cos(angles), np.sin(angles)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    model = VonMisesFisherMixture(1, random_state=0).fit(rows[:5])
    model.means_, model.concentrations_ = mean[None], np.array([concentration])
    with mpmath.workdps(50):
        kappa, order = mpmath.mpf(concentration), mpmath.mpf(dimension) / 2 - 1
        # log(e^-k I_v(k)), asymptotic for large k
        series = mpmath.mpf(1)
        term = mpmath.mpf(1)
        for j in range(1, 8):
            term *= -(4 * order**2 - (2 * j - 1) ** 2) / (j * 8 * kappa)
            series += term
        log_bessel = kappa - mpmath.log(2 * mpmath.pi * kappa) / 2 + mpmath.log(series)
        log_constant = order * mpmath.log(kappa) - (order + 1) * mpmath.log(2 * mpmath.pi) - log_bessel
        exact = [float(log_constant + kappa * mpmath.mpf(float(x))) for x in rows[:, 0]]
    bound = 4.0 * np.finfo(float).eps * concentration
    np.testing.assert_allclose(model.score_samples(rows), exact, rtol=1e-14, atol=bound)
    np.testing.assert_allclose(vmf.log_density(rows, mean, concentration), exact, rtol=1e-14, atol=bound)


def test_the_inverse_holds_to_twelve_digits():
    for dimension in (2, 3, 50, 1000):
        kappa = bessel.concentration_from_resultant(dimension, complement=1e-12)
        assert bessel.mean_resultant_complement(dimension, kappa) == pytest.approx(1e-12, rel=1e-12)
