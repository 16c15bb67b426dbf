"""Components of Dirichlet-process mixtures against quadrature, closed forms and their own definitions.

Quadrature on S^2 is a product of Gauss-Legendre in the cosine and the trapezoid rule in the longitude; tangent
Gaussians are integrated in polar coordinates around their mean, where they are smooth.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import integrate, stats
from scipy.special import logsumexp
from tests.making import each, units

from armillary.distributions import inverse_wishart, tangent_gaussian, vmf
from armillary.distributions.gaussian_component import GaussianComponent
from armillary.distributions.row_sets import ArrayRows
from armillary.distributions.tangent_component import TangentComponent
from armillary.distributions.tangent_gaussian import TangentGaussian
from armillary.distributions.vmf_component import VmfComponent, log_grid
from armillary.geometry import sphere

FALSE_ALARM_RATE = 1e-6


def clump(rng, n_rows, dimension, spread):
    """Rows around one direction."""
    rows = units(rng, 1, dimension) + spread * rng.standard_normal((n_rows, dimension))
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def components(dimension):
    return {
        "tangent": TangentComponent(dimension, scale=0.2, degrees=dimension + 2.0),
        "pseudo": TangentComponent(dimension, scale=0.2, degrees=dimension + 2.0, volume_factor=False),
        "gaussian": GaussianComponent(dimension, scale=0.3, degrees=dimension + 3.0, mean_pull=0.4),
        "vmf": VmfComponent.uniform(dimension, log_grid(0.3, 300.0, 24)),
    }


KINDS = ("tangent", "pseudo", "gaussian", "vmf")


# ------------------------------------------------------------------------------------------------ inverse Wishart


@pytest.mark.parametrize("dimension", [1, 2, 4])
def test_bartlett_draws_have_the_law_of_an_inverse_wishart(dimension):
    rng = np.random.default_rng(dimension)
    root = np.tril(rng.standard_normal((dimension, dimension))) + 2.0 * np.eye(dimension)
    scale, degrees = root @ root.T, dimension + 4.5
    draws = np.array([inverse_wishart.draw(scale, degrees, rng) for _ in range(4000)])
    # the first diagonal entry of the inverse of a block is chi-squared; so is any quadratic form of the inverse
    direction = rng.standard_normal(dimension)
    forms = np.einsum("i,nij,j->n", direction, np.linalg.inv(draws), direction)
    scaled = forms / (direction @ np.linalg.inv(scale) @ direction)
    assert stats.kstest(scaled, stats.chi2(degrees).cdf).pvalue > FALSE_ALARM_RATE
    entries = stats.kstest(draws[:, 0, 0] / scale[0, 0], stats.invgamma((degrees - dimension + 1) / 2, scale=0.5).cdf)
    assert entries.pvalue > FALSE_ALARM_RATE
    np.testing.assert_allclose(draws, np.swapaxes(draws, 1, 2), rtol=1e-12)


def test_the_multivariate_gamma_is_its_product():
    for p in (1, 2, 5):
        product = p * (p - 1) / 4 * math.log(math.pi) + sum(math.lgamma(3.7 + (1 - j) / 2) for j in range(1, p + 1))
        assert inverse_wishart.log_multivariate_gamma(p, 3.7) == pytest.approx(product, rel=1e-14)


def test_the_mode_is_where_the_density_is_highest():
    scale, degrees = np.array([[2.0, 0.3], [0.3, 1.0]]), 5.0
    at = inverse_wishart.mode(scale, degrees)
    law = stats.invwishart(degrees, scale)
    rng = np.random.default_rng(0)
    for _ in range(50):
        noise = 0.01 * rng.standard_normal((2, 2))
        assert law.logpdf(at) >= law.logpdf(at + noise + noise.T)


# ------------------------------------------------------------------------------------------------ the density (A)


def law_of(mean, variances, turn=0.4):
    turned = np.array([[np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)]])
    return TangentGaussian.of(mean, turned @ np.diag(variances) @ turned.T)


def mass_on_the_sphere(law, *, volume_factor):
    """The integral over S^2 in polar coordinates around the mean."""
    nodes, weights = np.polynomial.legendre.leggauss(400)
    theta, radial = 0.5 * math.pi * (nodes + 1.0), 0.5 * math.pi * weights
    turns = 2.0 * math.pi * np.arange(256) / 256
    frame = sphere.tangent_frame(law.mean)
    directions = np.stack([np.cos(turns), np.sin(turns)], axis=1) @ frame.T
    rows = np.cos(theta)[:, None, None] * law.mean + np.sin(theta)[:, None, None] * directions
    density = np.exp(tangent_gaussian.log_density(law, rows.reshape(-1, 3), volume_factor=volume_factor))
    per_ring = density.reshape(len(theta), len(turns)).mean(axis=1) * 2.0 * math.pi
    return float(np.sum(radial * np.sin(theta) * per_ring))


def mass_in_the_tangent_space(variances, *, bend):
    """P(|y| < pi) of a Gaussian, or the mean of (sin r/r)^bend there, by quadrature in polar coordinates."""

    def ring(radius):
        turns = 2.0 * math.pi * np.arange(256) / 256
        squares = radius**2 * (np.cos(turns) ** 2 / variances[0] + np.sin(turns) ** 2 / variances[1])
        height = np.mean(np.exp(-0.5 * squares)) / math.sqrt(variances[0] * variances[1])
        return radius * height * np.sinc(radius / math.pi) ** bend

    return integrate.quad(ring, 0.0, math.pi, epsabs=1e-13, limit=200)[0]


@pytest.mark.parametrize("variances", [(0.05, 0.3), (0.5, 2.0), (0.01, 0.01), (4.0, 9.0)])
def test_the_density_integrates_to_the_mass_within_radius_pi(variances):
    law = law_of(units(np.random.default_rng(3), 3), variances)
    whole = mass_on_the_sphere(law, volume_factor=True)
    assert whole == pytest.approx(mass_in_the_tangent_space(variances, bend=0), rel=1e-9)
    if max(variances) <= 0.05:
        assert whole == pytest.approx(1.0, abs=1e-10)
    bent = mass_on_the_sphere(law, volume_factor=False)
    assert bent == pytest.approx(mass_in_the_tangent_space(variances, bend=1), rel=1e-9)
    # a missing volume factor is seen
    assert bent < whole * (1.0 - 1e-3)


def test_the_density_is_a_gaussian_of_the_log_map():
    rng = np.random.default_rng(5)
    for dimension in (2, 3, 6):
        mean = units(rng, dimension)
        covariance = np.cov(rng.standard_normal((dimension - 1, 30))).reshape(dimension - 1, dimension - 1)
        law = TangentGaussian.of(mean, covariance)
        rows = units(rng, 50, dimension)
        y = sphere.tangent_coordinates(sphere.log(rows, mean), mean)
        theta = np.linalg.norm(y, axis=1)
        flat = stats.multivariate_normal(np.zeros(dimension - 1), covariance).logpdf(y)
        expected = flat + (dimension - 2) * np.log(theta / np.sin(theta))
        np.testing.assert_allclose(tangent_gaussian.log_density(law, rows)[:, 0], expected, rtol=1e-10)
        np.testing.assert_allclose(tangent_gaussian.log_density(law, rows, volume_factor=False)[:, 0], flat, rtol=1e-10)


def test_draws_of_a_tangent_gaussian_have_its_law():
    law = law_of(units(np.random.default_rng(1), 3), (0.02, 0.3))
    rows = tangent_gaussian.sample(law, 5000, np.random.default_rng(2))
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1.0, atol=1e-12)
    whitened = sphere.log(rows, law.mean) @ law.root.T
    for coordinate in whitened.T:
        assert stats.kstest(coordinate, "norm").pvalue > FALSE_ALARM_RATE


def test_near_and_far_rows_have_finite_densities_that_join_smoothly():
    mean = np.array([0.0, 0.6, 0.8])
    law = law_of(mean, (0.3, 0.5))
    tangent = sphere.tangent_frame(mean)[:, 0]
    near = np.array([sphere.exp(length * tangent, mean) for length in (0.0, 1e-12, 1e-8, 1.01e-7, 1e-6)])
    values = tangent_gaussian.log_density(law, near)[:, 0]
    np.testing.assert_allclose(values, values[0], atol=1e-9)
    far = np.array([-mean, sphere.exp((math.pi - 1e-9) * tangent, mean)])
    assert np.isfinite(tangent_gaussian.log_density(law, far)).all()
    # at the antipode the average over directions stands for a direction
    round_law = law_of(mean, (0.3, 0.3))
    at, beside = tangent_gaussian.log_density(
        round_law, np.array([-mean, sphere.exp((math.pi - 2e-7) * tangent, mean)])
    )[:, 0]
    assert at == pytest.approx(beside + math.log(2.0), abs=0.1)  # a rounded cosine knows little of the sine here


# ------------------------------------------------------------------------------------------------ scatter and transfer


def test_scatter_is_the_sum_of_squares_of_the_log_map():
    rng = np.random.default_rng(0)
    rows, mean = units(rng, 20, 4), units(rng, 4)
    seen = tangent_gaussian.log_map(rows, mean)
    vectors = sphere.log(rows, mean)
    np.testing.assert_allclose(seen.vectors, vectors, atol=1e-12)
    np.testing.assert_allclose(tangent_gaussian.scatter_of(seen, mean), vectors.T @ vectors, atol=1e-12)
    weights = rng.random(20)
    expected = (weights[:, None] * vectors).T @ vectors
    np.testing.assert_allclose(tangent_gaussian.scatter_of(seen, mean, weights), expected, atol=1e-12)


def test_an_antipode_adds_the_average_over_directions():
    mean = np.array([0.0, 0.0, 1.0])
    scatter = tangent_gaussian.scatter_of(tangent_gaussian.log_map(-mean[None], mean), mean)
    np.testing.assert_allclose(scatter, 0.5 * math.pi**2 * np.diag([1.0, 1.0, 0.0]))


# ------------------------------------------------------------------------------------------------ the evidence (B)


@pytest.mark.parametrize("volume_factor", [True, False])
@pytest.mark.parametrize("n_rows", [1, 3])
def test_the_marginal_is_the_integral_over_variances_on_the_circle(n_rows, volume_factor):
    component = TangentComponent(2, scale=0.3, degrees=2.5, volume_factor=volume_factor)
    rng = np.random.default_rng(n_rows)
    rows, mean = units(rng, n_rows, 2), units(rng, 2)
    prior = stats.invgamma(0.5 * component.degrees, scale=0.5 * component.scale)

    def integrand(log_variance):
        variance = math.exp(log_variance)
        law = TangentGaussian.of(mean, np.array([[variance]]))
        return math.exp(component.log_density(law, rows).sum() + prior.logpdf(variance) + log_variance)

    integral = integrate.quad(integrand, -12.0, 25.0, epsabs=0.0, epsrel=1e-11, limit=400)[0]
    assert component.log_joint(mean[None], rows) == pytest.approx(math.log(integral / (2.0 * math.pi)), rel=1e-9)


@pytest.mark.parametrize("volume_factor", [True, False])
def test_the_marginal_is_the_integral_over_covariances_on_the_sphere(volume_factor):
    component = TangentComponent(3, scale=0.3, degrees=4.0, volume_factor=volume_factor)
    rng = np.random.default_rng(8)
    rows, mean = clump(rng, 4, 3, 0.4), units(rng, 3)
    prior = stats.invwishart(component.degrees, component.scale * np.eye(2))
    # Sigma = L L' with L = [[a, 0], [c, b]]; Jacobian 4 a^2 b; a = exp(s), b = exp(t)
    s, t, c = (np.linspace(*ends) for ends in ((-4.5, 3.5, 70), (-4.5, 3.5, 70), (-14.0, 14.0, 701)))
    seen = tangent_gaussian.log_map(rows, mean)
    y = sphere.tangent_coordinates(seen.vectors, mean)
    a, b, c = np.meshgrid(np.exp(s), np.exp(t), np.sinh(c / 3.5), indexing="ij")
    first = y[:, 0, None, None, None] / a
    second = (y[:, 1, None, None, None] - c * first) / b
    count = len(rows)
    log_rows = -count * np.log(2 * np.pi) - count * np.log(a * b) - 0.5 * (first**2 + second**2).sum(axis=0)
    trace = component.scale * (1 / a**2 + (c / (a * b)) ** 2 + 1 / b**2)
    log_scale = prior.logpdf(np.eye(2)) + 0.5 * 2 * component.scale
    log_prior = log_scale - (component.degrees + 3) * np.log(a * b) - 0.5 * trace
    jacobian = np.log(4.0 * a**2 * b) + np.log(a * b) + np.log(np.sqrt(1.0 + c**2) / 3.5)
    cell = (8.0 / 69) * (8.0 / 69) * (28.0 / 700)
    volume = (seen.log_stretch.sum()) if volume_factor else 0.0
    expected = logsumexp(log_rows + log_prior + jacobian) + math.log(cell) + volume - float(sphere.log_area(3))
    assert component.log_joint(mean[None], rows) == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dimension", [2, 3, 5])
def test_statistics_of_rows_add_up_to_those_of_sets(kind, dimension):
    component = components(dimension)[kind]
    rng = np.random.default_rng(dimension)
    rows = clump(rng, 6, dimension, 0.5)
    pivot = component.draw(rows, rng)[0]
    each = component.statistics(pivot, rows)
    total = tuple(part.sum(axis=0)[0] for part in each)
    area = float(sphere.log_area(dimension)) if kind in ("tangent", "pseudo") else 0.0
    assert float(component.log_marginal(total)) - area == pytest.approx(component.log_joint(pivot, rows), rel=1e-11)
    empty = tuple(np.zeros_like(part) for part in total)
    assert float(component.log_marginal(empty)) == pytest.approx(0.0, abs=1e-10)


def test_the_gaussian_marginal_is_a_product_of_student_predictives():
    component = components(3)["gaussian"]
    rows = np.random.default_rng(2).standard_normal((5, 3))
    total = 0.0
    for n in range(5):
        before = component._posterior(ArrayRows(rows[:n])) if n else None
        mean, pull = (before.mean[0], before.pull[0]) if before else (np.zeros(3), component.mean_pull)
        scale = before.scale[0] if before else component.scale * np.eye(3)
        freedom = component.degrees + n - 2.0
        shape = scale * (pull + 1.0) / (pull * freedom)
        total += stats.multivariate_t(mean, shape, freedom).logpdf(rows[n])
    assert component.log_joint(None, rows) == pytest.approx(total, rel=1e-10)
    alone = component.log_prior_predictive(rows)
    np.testing.assert_allclose(alone, [component.log_joint(None, row[None])[0] for row in rows], rtol=1e-12)


def test_the_vmf_marginal_is_the_sum_over_its_grid():
    component = components(4)["vmf"]
    rows = clump(np.random.default_rng(9), 7, 4, 0.5)
    terms = [
        vmf.log_marginal_likelihood(7, rows.sum(axis=0), kappa, np.eye(4)[0], 0.0) + weight
        for kappa, weight in zip(component.concentrations, component.log_prior, strict=True)
    ]
    assert component.log_joint(None, rows) == pytest.approx(logsumexp(terms), rel=1e-12)
    one = [component.log_joint(None, row[None])[0] for row in rows]
    np.testing.assert_allclose(component.log_prior_predictive(rows), one, rtol=1e-12)


# ------------------------------------------------------------------------------------------------ proposals of a mean


def sphere_grid(centre, n_rings=200, n_turns=96):
    """Nodes (m, 3) and weights (m,) of a quadrature on S^2 around a centre; rings are dense near it."""
    nodes, weights = np.polynomial.legendre.leggauss(n_rings)
    u = 0.5 * (nodes + 1.0)
    theta, radial = math.pi * u**2, math.pi * u * weights
    turns = 2.0 * math.pi * np.arange(n_turns) / n_turns
    directions = np.stack([np.cos(turns), np.sin(turns)], axis=1) @ sphere.tangent_frame(centre).T
    rows = np.cos(theta)[:, None, None] * centre + np.sin(theta)[:, None, None] * directions
    measure = np.repeat(radial * np.sin(theta) * 2.0 * math.pi / n_turns, n_turns)
    return rows.reshape(-1, 3), measure


@pytest.mark.parametrize("n_rows", [1, 2, 5, 40])
def test_the_proposal_integrates_to_one(n_rows):
    component = components(3)["tangent"]
    rows = clump(np.random.default_rng(n_rows), n_rows, 3, 0.3)
    proposal = component.proposal(rows)
    nodes, measure = sphere_grid(proposal.centres[0])
    assert measure @ np.exp(proposal.log_density(nodes)) == pytest.approx(1.0, abs=1e-6)


def test_draws_of_the_proposal_have_its_density():
    component = components(3)["tangent"]
    proposal = component.proposal(clump(np.random.default_rng(0), 8, 3, 0.5))
    rng = np.random.default_rng(1)
    angles = sphere.angle(np.concatenate([proposal.draw(rng) for _ in range(4000)]), proposal.centres[0])
    nodes, measure = sphere_grid(proposal.centres[0])
    mass = measure * np.exp(proposal.log_density(nodes))
    edges = np.quantile(angles, [0.1, 0.3, 0.5, 0.7, 0.9])
    node_angles = sphere.angle(nodes, proposal.centres[0])
    for edge in edges:
        share = float(mass[node_angles <= edge].sum())
        found = float(np.mean(angles <= edge))
        assert abs(found - share) < 5.0 * math.sqrt(share * (1 - share) / 4000) + 0.02


def test_a_proposal_of_means_narrows_with_the_rows_and_the_printed_one_is_hardly_ever_accepted():
    """Straub 2015, eq. 16: its covariance is that of a row; that of a mean is smaller by the number of rows."""
    component = components(3)["tangent"]
    rng = np.random.default_rng(5)

    def accepted(means, log_q, rows):
        """The share of the draws that a chain of them takes."""
        weights = np.array([component.log_joint(mean[None], rows)[0] for mean in means]) - log_q
        now, n_taken = weights[0], 0
        for new in weights[1:]:
            if -rng.standard_exponential() < new - now:
                now, n_taken = new, n_taken + 1
        return n_taken / len(weights)

    widths = []
    for n_rows, most in ((30, 0.2), (300, 0.05)):
        rows = clump(rng, n_rows, 3, 0.3)
        proposal = component.proposal(rows)
        means = np.concatenate([proposal.draw(rng) for _ in range(200)])
        centre = proposal.centres[0]
        widths.append(math.sqrt((sphere.angle(means, centre) ** 2).mean()))
        assert accepted(means, proposal.log_density(means), rows) > 0.8
        frame = sphere.tangent_frame(centre)
        law = stats.multivariate_normal(cov=np.cov((sphere.log(rows, centre) @ frame).T))
        steps = law.rvs(400, random_state=rng)
        printed = sphere.exp(steps @ frame.T, centre[None])
        assert accepted(printed, law.logpdf(steps), rows) < most
    assert widths[0] / widths[1] == pytest.approx(math.sqrt(10.0), rel=0.2)


def test_the_evidence_averages_to_the_marginal_likelihood():
    """E_q[exp(e)] is the marginal likelihood, whatever q: a wrong q, or a q that forgets a factor, is seen."""
    for volume_factor in (True, False):
        component = TangentComponent(3, 0.2, 5.0, volume_factor)
        rows = clump(np.random.default_rng(3), 6, 3, 0.3)
        nodes, measure = sphere_grid(component.proposal(rows).centres[0])
        exact = logsumexp([component.log_joint(node[None], rows)[0] for node in nodes], b=measure)
        rng = np.random.default_rng(4)
        evidences = np.array([component.draw(rows, rng)[1] for _ in range(1000)])
        ratios = np.exp(evidences - exact)
        error = ratios.std() / math.sqrt(len(ratios))
        assert abs(ratios.mean() - 1.0) < 5.0 * error
        assert error < 0.035
        pivot, value = component.draw(rows, rng)
        assert component.evidence(pivot, rows) == pytest.approx(value, abs=1e-12)
        assert component.central_evidence(rows) == pytest.approx(exact, abs=1.0)


@pytest.mark.parametrize("volume_factor", [True, False])
@pytest.mark.parametrize("dimension", [2, 3, 4])
def test_the_prior_predictive_of_a_row_is_the_integral_over_means(dimension, volume_factor):
    component = TangentComponent(dimension, 0.8, dimension + 1.0, volume_factor)
    row = np.eye(dimension)[-1:]
    area = math.exp(float(sphere.log_area(dimension - 1))) if dimension > 2 else 2.0

    def ring(angle):
        mean = np.zeros(dimension)
        mean[-1], mean[0] = math.cos(angle), math.sin(angle)
        return math.exp(component.log_joint(mean[None], row)[0]) * area * math.sin(angle) ** (dimension - 2)

    integral = integrate.quad(ring, 0.0, math.pi, epsabs=1e-12, limit=200)[0]
    assert component.log_prior_predictive(row)[0] == pytest.approx(math.log(integral), abs=1e-7)


@pytest.mark.parametrize("volume_factor", [True, False])
def test_the_pivot_of_one_row_and_the_metropolis_step_have_the_same_law(volume_factor):
    component = TangentComponent(3, 0.8, 4.0, volume_factor)
    row = units(np.random.default_rng(0), 3)
    rng = np.random.default_rng(1)
    pivots = [component.draw_pivot_of_one(row, rng) for _ in range(1500)]
    angles = sphere.angle(np.concatenate(pivots), row)

    def ring(angle):
        mean = sphere.exp(angle * sphere.tangent_frame(row)[:, 0], row)
        return math.exp(component.log_joint(mean[None], row[None])[0]) * math.sin(angle)

    grid = np.linspace(1e-6, math.pi - 1e-6, 400)
    density = np.array([ring(angle) for angle in grid])
    cumulative = integrate.cumulative_trapezoid(density, grid, initial=0.0)
    cumulative /= cumulative[-1]
    assert stats.kstest(np.interp(angles, grid, cumulative), "uniform").pvalue > FALSE_ALARM_RATE
    moved = [component.update(pivot, row[None], rng) for pivot in pivots]
    after = sphere.angle(np.concatenate(moved), row)
    assert np.mean(after != angles) > 0.5
    assert stats.kstest(np.interp(after, grid, cumulative), "uniform").pvalue > FALSE_ALARM_RATE


# ------------------------------------------------------------------------------------------------ laws


@pytest.mark.parametrize("kind", KINDS)
def test_sets_are_independent_of_each_other(kind):
    """What is asked of several sets at once is what is asked of each alone, to the bit."""
    component = components(3)[kind]
    rng = np.random.default_rng(5)
    rows, weights = clump(rng, 12, 3, 0.4), rng.random((4, 12))
    together = ArrayRows(rows, weights)
    alone = [ArrayRows(rows, own[None]) for own in weights]
    for ask in (component.central_evidence, component.summary, component.point_estimate):
        found, each = ask(together), [ask(one) for one in alone]
        for ours, theirs in zip(_tuples([found])[0], zip(*_tuples(each), strict=True), strict=True):
            np.testing.assert_array_equal(ours, np.concatenate(theirs))


def _tuples(answers):
    return [answer if isinstance(answer, tuple) else (answer,) for answer in answers]


def rotation_of(rng, dimension):
    q, r = np.linalg.qr(rng.standard_normal((dimension, dimension)))
    return q * np.sign(np.diag(r))


@pytest.mark.parametrize("kind", KINDS[:2] + KINDS[3:])
@pytest.mark.parametrize("dimension", [2, 3, 7])
def test_rotated_rows_have_the_same_evidence(kind, dimension):
    component = components(dimension)[kind]
    rng = np.random.default_rng(dimension)
    rows, turn = clump(rng, 9, dimension, 0.4), rotation_of(rng, dimension)
    pivot = component.draw(rows, rng)[0]
    turned = None if pivot is None else pivot @ turn.T
    assert component.evidence(turned, rows @ turn.T) == pytest.approx(component.evidence(pivot, rows), rel=1e-9)
    assert component.central_evidence(rows @ turn.T) == pytest.approx(component.central_evidence(rows), rel=1e-9)
    centre, spread = component.summary(rows)
    turned_centre, turned_spread = component.summary(rows @ turn.T)
    np.testing.assert_allclose(turned_centre, centre @ turn.T, atol=1e-12)
    assert turned_spread == pytest.approx(spread, rel=1e-10)
    weights = rng.random(len(rows))
    before = component.point_estimate(ArrayRows(rows, weights[None]))
    after = component.point_estimate(ArrayRows(rows @ turn.T, weights[None]))
    np.testing.assert_allclose(
        component.log_density(after, rows @ turn.T), component.log_density(before, rows), rtol=1e-8
    )


@each("kind", KINDS)
@each("dimension", [2, 3, 6])
@each("case", ["one", "equal", "antipodes", "cross"])
def test_awkward_sets_have_finite_answers(kind, dimension, case):
    component = components(dimension)[kind]
    rng = np.random.default_rng(1)
    row = units(rng, dimension)
    rows = {
        "one": row[None],
        "equal": np.tile(row, (5, 1)),
        "antipodes": np.array([row, -row]),
        "cross": np.concatenate([np.eye(dimension), -np.eye(dimension)]),
    }[case]
    for _ in range(5):
        pivot, value = component.draw(rows, rng)
        assert np.isfinite(value)
        pivot = component.update(pivot, rows, rng)
        law = component.draw_parameters(pivot, rows, rng)
        assert np.isfinite(component.log_density(law, np.concatenate([rows, -rows]))).all()
    assert np.isfinite(component.central_evidence(rows))
    estimate = component.point_estimate(ArrayRows(rows, np.full((1, len(rows)), 0.01)))
    assert np.isfinite(component.log_density(estimate, rows)).all()
    centre, spread = component.summary(rows)
    assert np.isfinite(centre).all()
    assert spread > 0.0


# rows of the pseudo-likelihood have no law of their own
@pytest.mark.parametrize("kind", ["tangent", "gaussian", "vmf"])
def test_draws_given_rows_and_rows_given_draws_agree(kind):
    """Parameters from the prior, rows from them, parameters again given the rows: their law must not change."""
    component = components(3)[kind]
    rng = np.random.default_rng(11)
    before, after = [], []
    for _ in range(1500):
        law = component.draw_prior(1, rng)
        rows = component.sample(law, 0, 3, rng)
        again = component.draw_parameters(component.pivots_of(law), rows, rng)
        before.append(_size(law))
        after.append(_size(again))
    assert stats.ks_2samp(before, after).pvalue > FALSE_ALARM_RATE


def _size(law):
    return float(law.concentration[0]) if hasattr(law, "concentration") else float(law.log_determinant[0])
