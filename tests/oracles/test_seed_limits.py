"""Limits and theorems of Straub et al. 2015, and statements of all papers about a formula or a measure."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import integrate, special
from sklearn.metrics import normalized_mutual_info_score

from armillary import DPvMFMeans, SphericalKMeans, VonMisesFisherMixture
from armillary.datasets import make_vmf_mixture
from armillary.distributions import geodesic_walk, vmf
from armillary.geometry import sphere
from armillary.metrics import macro_f1_score, purity_score

TAUS = (10.0, 100.0, 1e3, 1e4)


def _unit(rows):
    return rows / np.linalg.norm(rows, axis=-1, keepdims=True)


def test_labels_of_the_finite_mixture_tend_to_the_nearest_direction():
    """Supplement eq. 4: whatever the weights."""
    rng = np.random.default_rng(0)
    rows, directions = _unit(rng.standard_normal((50, 4))), _unit(rng.standard_normal((5, 4)))
    log_weights = np.log(rng.dirichlet(np.full(5, 0.3)))
    nearest = (rows @ directions.T).argmax(axis=1)
    left = []
    for tau in TAUS:
        scores = log_weights + tau * rows @ directions.T
        chances = np.exp(scores - special.logsumexp(scores, axis=1, keepdims=True))
        left.append(1.0 - chances[np.arange(50), nearest])
    assert np.mean(left[0]) > 0.05  # far from the limit the weights count
    assert np.median(left[2]) < 1e-12
    gaps = np.sort(rows @ directions.T, axis=1)
    is_clear = gaps[:, -1] - gaps[:, -2] > 0.01
    assert np.all(left[3][is_clear] < 1e-12)


def test_the_posterior_of_a_direction_tends_to_the_direction_of_the_sum():
    """Supplement eq. 5: the prior is forgotten."""
    rng = np.random.default_rng(1)
    rows, prior = _unit(rng.standard_normal((6, 3)) + 2.0 * np.eye(3)[0]), np.eye(3)[2]
    total = rows.sum(axis=0)
    for tau in TAUS:
        natural = 5.0 * prior + tau * total
        assert sphere.angle(_unit(natural), _unit(total)) < 6.0 / tau
        # the spread about it: 1 - A_3(kappa) tends to 1 / kappa
        kappa = float(np.linalg.norm(natural))
        assert 1.0 - 1.0 / np.tanh(kappa) + 1.0 / kappa < 2.0 / tau


def test_spherical_kmeans_is_the_limit_of_the_hard_mixture():
    """Supplement eq. 6, and section 2: equal weights, one concentration, hard labels."""
    rows, _, _ = make_vmf_mixture(400, 5, 4, concentration=40.0, random_state=2)
    start = _unit(np.random.default_rng(2).standard_normal((4, 5)))
    kmeans = SphericalKMeans(4, init=start, n_init=1, tol=0.0, max_iter=1000).fit(rows)
    directions = start
    for _ in range(1000):
        log_weights = np.log(np.array([0.7, 0.1, 0.1, 0.1]))
        labels = (log_weights + 1e12 * rows @ directions.T).argmax(axis=1)
        sums = np.stack([rows[labels == k].sum(axis=0) for k in range(4)])
        if np.allclose(_unit(sums), directions, atol=1e-15):
            break
        directions = _unit(sums)
    np.testing.assert_array_equal(labels, kmeans.labels_)
    # and the estimator, where clusters are far apart: soft shares are hard ones
    far, truth, _ = make_vmf_mixture(300, 3, 3, concentration=5000.0, min_angle=1.2, random_state=3)
    mixture = VonMisesFisherMixture(3, random_state=0).fit(far)
    assert len(np.unique(mixture.labels_ * 3 + truth)) == 3
    assert mixture.predict_proba(far).max(axis=1).min() > 1.0 - 1e-12


@pytest.mark.parametrize("dimension", [3, 4, 20])
def test_the_normaliser_falls_like_exp_of_minus_tau_up_to_a_power(dimension):
    """Eqs. 6 and 7: log Z(tau) + tau is of the order of log tau."""
    mean = np.eye(dimension)[0]
    taus = np.array([1e3, 1e4, 1e5, 1e6])
    heights = np.array([float(vmf.log_density(mean[None], mean, tau)[0]) - tau for tau in taus])  # log Z
    powers = np.diff(heights + taus) / np.diff(np.log(taus))
    np.testing.assert_allclose(powers, (dimension - 1) / 2.0, rtol=5e-3)


@pytest.mark.parametrize("angle", [0.3, 1.2, 2.0])
def test_labels_of_the_restaurant_tend_to_the_rule_of_dp_vmf_means(angle):
    """Eqs. 4, 5, 8 and 10: with alpha = exp(lambda tau) a new cluster costs what cos(angle) says."""
    rng = np.random.default_rng(5)
    rows, directions = _unit(rng.standard_normal((200, 3))), _unit(rng.standard_normal((3, 3)))
    prior, prior_concentration, lam = np.array([0.0, 0.0, 1.0]), 2.0, math.cos(angle) - 1.0

    def log_z(kappa):
        return np.log(kappa) - kappa - np.log(2.0 * np.pi) - np.log1p(-np.exp(-2.0 * kappa))

    tau = 1e6
    known = np.log([50.0, 3.0, 7.0]) + log_z(tau) + tau * rows @ directions.T
    blurred = np.linalg.norm(tau * rows + prior_concentration * prior, axis=1)
    new = lam * tau + log_z(tau) + log_z(prior_concentration) - log_z(blurred)
    drawn = np.column_stack([known, new]).argmax(axis=1)
    ruled = np.column_stack([rows @ directions.T, np.full(200, math.cos(angle))])
    is_clear = np.diff(np.sort(ruled, axis=1)[:, -2:], axis=1).ravel() > 1e-4
    np.testing.assert_array_equal(drawn[is_clear], ruled.argmax(axis=1)[is_clear])
    assert is_clear.sum() > 190
    # the same rule in the estimator: rows within the angle of the one cluster that is there join it
    model = DPvMFMeans(angle).fit(np.repeat(directions[:1], 20, axis=0))
    is_near = rows @ directions[0] > math.cos(angle) + 1e-9
    np.testing.assert_array_equal(model.predict(rows, reject=True)[is_near], 0)


@pytest.mark.parametrize("n_steps", [1, 3])
def test_labels_of_the_dependent_process_tend_to_the_score_of_an_unseen_cluster(n_steps):
    """Eqs. 13, 15, 18, 23 and 24: q^T p(x; m, tau w) on the circle, walk integrated out, falls like the score."""
    weight, drift, price, n = 2.0, 3.0, -0.1, 1201
    angles = np.linspace(-np.pi, np.pi, n)[:-1]
    cosines = np.cos(angles[:, None] - angles)

    def gap(tau):
        """The largest difference of log(q^T p / Z(tau)) / tau, less 1, and the score over angles of 0 to 3 radians."""

        def log_kernel(concentration):
            return concentration * (cosines - 1.0) - np.log(2.0 * np.pi * special.ive(0, concentration))

        # from the memory at angle 0: the first mean, T steps of the walk, and the row
        log_p = log_kernel(tau * weight)[n // 2]
        for concentration in [tau * drift] * n_steps + [tau]:
            log_p = special.logsumexp(log_kernel(concentration) + log_p[None], axis=1) + np.log(angles[1] - angles[0])
        log_z = (
            -np.log(2.0 * np.pi * special.ive(0, tau)) - tau
        )  # eq. 24 has what is left of vMF(x; mu, tau) over Z(tau)
        rate = (n_steps * price * tau + log_p - log_z) / tau
        is_near = np.abs(angles) <= 3.0
        wanted = geodesic_walk.revival_score(np.abs(angles[is_near]), weight, drift, n_steps, price)
        return np.abs(rate[is_near] - wanted).max()

    found = [gap(tau) for tau in (100.0, 400.0, 1600.0)]
    assert found == sorted(found, reverse=True)
    # powers of tau are what is left: log(tau) / tau of them
    assert found[-1] < 2.0 * math.log(1600.0) / 1600.0


@pytest.mark.parametrize(("lam", "n_expected"), [(0.5, 40), (-2.5, 1)])
def test_prices_beyond_minus_two_and_zero_are_those_at_the_ends(lam, n_expected):
    """After eq. 10: cosines are in [-1, 1], so that a price above 0 parts all rows, and one below -2 parts none."""
    rows = _unit(np.random.default_rng(6).standard_normal((40, 3)))
    directions: list[np.ndarray] = []
    for row in rows:  # the printed rule, row by row
        scores = [float(row @ one) for one in directions]
        if not scores or lam + 1.0 > max(scores):
            directions.append(row)
    assert len(directions) == n_expected
    end = np.pi if lam < -2.0 else 1e-5
    assert DPvMFMeans(end).fit(rows).n_clusters_ == n_expected


def test_areas_are_integrals_over_the_tangent_space():
    """Lemma 1, for the exponential map: the Jacobian of S^m is (sin r / r)^(m-1)."""
    for m in (1, 2, 3, 7):
        ball = 2.0 * math.pi ** (m / 2.0) / special.gamma(m / 2.0)  # area of the unit sphere of R^m
        found = ball * integrate.quad(lambda r, m=m: (math.sin(r) / r) ** (m - 1) * r ** (m - 1), 0.0, math.pi)[0]
        assert found == pytest.approx(math.exp(sphere.log_area(m + 1)), rel=1e-8)


@pytest.mark.parametrize("m", [3, 4])
def test_the_manifold_laplace_approximation_needs_another_power_another_sign_and_the_curvature(m):
    """Theorem 1 for f = x . mu on S^m. Printed: (2 pi / tau)^m |det U' H U|^(1/2), with H that of f in space.

    H is 0 for a linear f, and every f of the paper is linear in each direction: the printed form divides by 0. What
    holds is (2 pi / tau)^(m/2) |det|^(-1/2) with the Hessian along the sphere, U' H U - (x . grad f) I.
    """
    ratios, rates = [], []
    for tau in (20.0, 200.0, 2000.0):
        # the integral is exp(tau) times that of exp(-tau (1 - cos r)) over rings
        ring = math.exp(sphere.log_area(m))
        exact = (
            ring
            * integrate.quad(
                lambda r, tau=tau: math.exp(-tau * (1.0 - math.cos(r))) * math.sin(r) ** (m - 1),
                0.0,
                math.pi,
                limit=200,
            )[0]
        )
        ratios.append(exact / (2.0 * math.pi / tau) ** (m / 2.0))
        rates.append(math.log(exact) / tau)
    printed_determinant = np.linalg.det(np.zeros((m, m)))
    assert printed_determinant == 0.0
    assert abs(ratios[0] - 1.0) > abs(ratios[1] - 1.0) > abs(ratios[2] - 1.0)
    assert ratios[2] == pytest.approx(1.0, abs=5e-3)
    # corollary 1, which is all that the paper uses: the rate alone
    assert abs(rates[0]) > abs(rates[1]) > abs(rates[2])
    assert abs(rates[2]) < 0.01


def _log_bessel(order, value):
    return np.log(special.ive(order, value)) + value


def _printed_log_bessel(orders, values):
    root = np.sqrt(values**2 + (orders + 1.0) ** 2)
    half = orders + 0.5
    return (
        root
        + half * np.log(values / (half + root))
        - 0.5 * np.log(values / 2.0)
        + half * np.log((2.0 * orders + 1.5) / (2.0 * (orders + 1.0)))
        - 0.5 * np.log(2.0 * np.pi)
    )


def test_the_printed_log_bessel_is_over_by_up_to_a_fifth_of_a_nat():
    """Gopal and Yang, 10.1: an Amos-type value of log I, above the exact one, whose slope is not the mean length."""
    orders, values = (grid.ravel() for grid in np.meshgrid(np.linspace(0.0, 60.0, 41), np.geomspace(0.05, 400.0, 60)))
    errors = _printed_log_bessel(orders, values) - _log_bessel(orders, values)
    assert errors.min() > 0.0
    assert 0.215 < errors.max() < 0.22
    # EM needs the slope of log I, which is A + order / kappa
    order, kappa, step = 9.0, 10.0, 1e-4
    slope = (_printed_log_bessel(order, kappa + step) - _printed_log_bessel(order, kappa - step)) / (2.0 * step)
    assert abs(slope - special.ive(order + 1.0, kappa) / special.ive(order, kappa) - order / kappa) > 1e-3


def test_the_printed_bound_of_log_bessel_is_none():
    """Gopal and Yang, 2.1, bounding: printed, sqrt(..) - v log(v sqrt(..) + v^2) - sqrt(..) - v log(u), as a bound.

    The integral of sqrt(u^2 + v^2) / u is sqrt(u^2 + v^2) - v log((v + sqrt(u^2 + v^2)) / u) and bounds differences.
    """
    v, u = 9.0, np.array([1.0, 10.0, 100.0])
    root = np.sqrt(u**2 + v**2)
    printed = root - v * np.log(v * root + v**2) - root - v * np.log(u)
    assert np.all(printed < _log_bessel(v, u) - 10.0)
    right = root - v * np.log((v + root) / u)
    gains = np.diff(right) - np.diff(_log_bessel(v, u))
    assert np.all(gains > 0.0)
    assert np.all(gains < 1.5)


def test_macro_f1_sees_a_class_without_a_cluster_where_purity_hardly_does():
    """Gopal and Yang, 6: it complements purity, since all clusters are to be found and not the large ones alone."""
    truth = np.repeat([0, 1, 2], [100, 100, 4])
    whole, lost = truth, np.minimum(truth, 1)
    assert purity_score(truth, whole) == macro_f1_score(truth, whole) == 1.0
    assert purity_score(truth, lost) > 0.97
    assert macro_f1_score(truth, lost) < 0.67


def test_nmi_falls_with_every_superfluous_cluster():
    """Straub 2015, DP-TGMM, 5.1: NMI penalises the use of superfluous clusters, which purity does not."""
    rng = np.random.default_rng(7)
    truth = np.repeat(np.arange(10), 50)
    labels = truth.copy()
    scores = [normalized_mutual_info_score(truth, labels)]
    for cluster in range(10):
        members = np.flatnonzero(labels == cluster)
        labels[rng.choice(members, 25, replace=False)] = 10 + cluster
        scores.append(normalized_mutual_info_score(truth, labels))
        assert purity_score(truth, labels) == 1.0
    assert scores[0] == 1.0
    assert np.all(np.diff(scores) < -0.005)


@pytest.mark.parametrize("dimension", [3, 5, 16])
def test_angles_to_the_centre_have_the_density_of_their_ring(dimension):
    """Mansfield 2018, eqs. 3 and 4: A sin(theta)^(N-2) f(theta), with A the area of the sphere of dimension N-2."""
    area = 2.0 * math.pi ** ((dimension - 1) / 2.0) / math.gamma((dimension - 1) / 2.0)
    whole = integrate.quad(lambda theta: math.sin(theta) ** (dimension - 2), 0.0, math.pi)[0]
    assert area * whole == pytest.approx(math.exp(sphere.log_area(dimension)), rel=1e-10)
    # a share of rows drawn over the whole sphere, where f is constant
    rows = _unit(np.random.default_rng(8).standard_normal((40_000, dimension)))
    limit = 1.2
    share = integrate.quad(lambda theta: math.sin(theta) ** (dimension - 2), 0.0, limit)[0] / whole
    found = np.mean(np.arccos(rows[:, 0]) < limit)
    assert abs(found - share) < 4.0 * math.sqrt(share * (1.0 - share) / len(rows))
