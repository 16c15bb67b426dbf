"""The walk against brute force: the exponent maximised over its angles, over unit vectors, and by the printed Newton.

Over angles: a grid of shares of zeta, each on a scale of logarithms and with each of the three angles in turn as what
the other two leave, four closer grids round the best, and Newton's method on both free angles in 60 digits. Nothing is
taken from the code under test: neither the common tension nor a bracket nor a branch.
"""

import itertools
import math

import mpmath as mp
import numpy as np
import pytest

from armillary.distributions import geodesic_walk
from armillary.geometry import sphere

ANGLES = (1e-3, 0.5, 1.0, 1.2, math.pi / 2, 2.0, 2.6, 3.1, math.pi - 1e-6, math.pi)
WEIGHTS = (1e-6, 1e-2, 1.0, 2.0, 1e3, 1e9)
DRIFTS = (1e-6, 1e-2, 1.0, 3.0, 1e5, 1e12)
GAPS = (1, 2, 30, 10_000)
# the remainder of zeta is the largest angle or near it, so one of three charts has the other two on its scale
SHARES = np.concatenate([10.0 ** np.arange(-36.0, -3.0, 0.75), np.geomspace(1e-3, 0.97, 44)])


def loss(theta, step, eta, weight, drift, n_steps, length):
    """sum of v (1 - cos angle): the exponent, turned over, less its value at zeta = 0."""
    return 2.0 * (
        weight * np.sin(theta / 2) ** 2 + n_steps * drift * np.sin(step / 2) ** 2 + length * np.sin(eta / 2) ** 2
    )


def by_chart(first, second, zeta, n_steps, chart):
    """(theta, step, eta): `chart` names the one that is left over."""
    rest = zeta - first - second
    theta, walked, eta = [(rest, first, second), (first, rest, second), (first, second, rest)][chart]
    return theta, walked / n_steps, eta


def brute_force(zeta, weight, drift, n_steps, length):
    """The best angles and their loss, many digits."""
    parameters = (weight, drift, n_steps, length)
    best = (math.inf, 0, 0.0, 0.0)
    for chart in range(3):
        first, second = zeta * SHARES[:, None], zeta * SHARES[None, :]
        best = min(best, best_of(first, second, zeta, chart, parameters))
    for ratio in (2.5, 1.25, 1.06, 1.015):
        spread = ratio ** np.linspace(-1.0, 1.0, 13)
        _, chart, first, second = best
        best = min(best, best_of(first * spread[:, None], second * spread[None, :], zeta, chart, parameters))
    grid_loss, chart, first, second = best
    point = polished(mp.mpf(first), mp.mpf(second), mp.mpf(zeta), chart, tuple(map(mp.mpf, parameters)))
    angles = by_chart(*point, mp.mpf(zeta), mp.mpf(n_steps), chart)
    true_loss = many_digit_loss(angles, parameters)
    assert min(angles) > 0
    assert true_loss <= grid_loss * (1 + 1e-12)
    return *angles, true_loss


def polished(first, second, zeta, chart, parameters):
    """Newton's method on the loss; it ends at a minimum, since each step goes down and the Hessian is made positive."""
    weight, drift, n, length = parameters
    for _ in range(300):
        angles = by_chart(first, second, zeta, n, chart)
        # derivatives by theta, by T * step and by eta
        slopes = [v * mp.sin(angle) for v, angle in zip((weight, drift, length), angles, strict=True)]
        curves = [v * mp.cos(angle) for v, angle in zip((weight, drift / n, length), angles, strict=True)]
        rest_slope, rest_curve = slopes.pop(chart), curves.pop(chart)
        down = [rest_slope - slope for slope in slopes]
        a, c, d = curves[0] + rest_curve, curves[1] + rest_curve, rest_curve
        is_minimum = a > 0 and a * c > d * d
        shift = abs(d) * mp.mpf(10) ** -30
        while not (a > 0 and a * c > d * d):
            a, c, shift = a + shift, c + shift, 10 * shift
        change = [(c * down[0] - d * down[1]) / (a * c - d * d), (a * down[1] - d * down[0]) / (a * c - d * d)]
        if is_minimum and max(abs(change[0]) / first, abs(change[1]) / second) < mp.mpf(10) ** -22:
            return first, second
        here = many_digit_loss(angles, parameters)
        for _ in range(60):
            there = first + change[0], second + change[1]
            inside = min(*there, zeta - sum(there)) > 0
            if inside and many_digit_loss(by_chart(*there, zeta, n, chart), parameters) <= here:
                break
            change = [change[0] / 2, change[1] / 2]
        first, second = there
    raise AssertionError(f"no convergence for {zeta, *parameters}")


def many_digit_loss(angles, parameters):
    weight, drift, n_steps, length = map(mp.mpf, parameters)
    theta, step, eta = (2 * mp.sin(angle / 2) ** 2 for angle in angles)
    return weight * theta + n_steps * drift * step + length * eta


def best_of(first, second, zeta, chart, parameters):
    angles = by_chart(first, second, zeta, parameters[2], chart)
    values = np.where(first + second < zeta, loss(*angles, *parameters), np.inf)
    i, j = np.unravel_index(np.argmin(values), values.shape)
    return float(values[i, j]), chart, float(first[i, 0]), float(second[0, j])


def assert_brute_force_agrees(zeta, weight, drift, n_steps, length, relative=1e-9):
    cases = list(zip(zeta, weight, drift, n_steps, length, strict=True))
    with mp.workdps(60):
        exact = np.array([[float(value) for value in brute_force(*map(float, case))] for case in cases])
    zeta, weight, drift, n_steps, length = np.array(cases, dtype=np.float64).T
    walk = geodesic_walk.solve(zeta, weight, drift, n_steps, length)
    theta, step, eta, true_loss = exact.T
    for name, found, true in (("theta", walk.memory, theta), ("step", walk.step, step), ("eta", walk.rows, eta)):
        worst = np.argmax(np.abs(found - true))
        assert abs(found[worst] - true[worst]) < 1e-9, (name, cases[worst], found[worst], true[worst])
        # the acute ones keep their digits; the next step is to multiply them by the weights
        is_acute = true < 1.57
        np.testing.assert_allclose(found[is_acute], true[is_acute], rtol=relative, atol=0)
    cost = geodesic_walk.penalty(walk, weight, drift, n_steps) + 2.0 * length * np.sin(walk.rows / 2) ** 2
    np.testing.assert_allclose(cost, true_loss, rtol=1e-9, atol=0)
    least = np.minimum(np.minimum(weight, drift), length)
    assert np.all(np.abs(walk.tension - length * np.sin(eta)) <= 1e-9 * least)


@pytest.mark.parametrize("n_steps", GAPS)
def test_one_row_equals_brute_force_over_angles(n_steps):
    cases = [(z, w, b, n_steps, 1.0) for z, w, b in itertools.product(ANGLES, WEIGHTS, DRIFTS)]
    assert_brute_force_agrees(*zip(*cases, strict=True))


def test_resultants_of_any_length_equal_brute_force_over_angles():
    rng = np.random.default_rng(0)
    n = 250
    assert_brute_force_agrees(
        rng.uniform(0.0, math.pi, n),
        10.0 ** rng.uniform(-6, 9, n),
        10.0 ** rng.uniform(-6, 12, n),
        np.floor(10.0 ** rng.uniform(0, 4, n)),
        10.0 ** rng.uniform(-6, 9, n),
    )


def test_weights_of_one_size_equal_brute_force_over_angles():
    """Here the angle of the weakest link is often obtuse, and the two least weights can nearly agree."""
    rng = np.random.default_rng(1)
    n = 150
    weight, drift, length = 10.0 ** rng.uniform(-0.7, 0.7, (3, n))
    length[:40] = weight[:40] * (1.0 + 10.0 ** rng.uniform(-9, -1, 40))
    n_steps = rng.integers(1, 4, n)
    zeta = math.pi - 10.0 ** rng.uniform(-6, 0.3, n)
    assert_brute_force_agrees(zeta, weight, drift, n_steps, length)
    walk = geodesic_walk.solve(zeta, weight, drift, n_steps, length)
    assert np.sum(np.maximum(np.maximum(walk.memory, walk.step), walk.rows) > math.pi / 2) > 40


def test_where_the_weakest_link_gives_as_much_as_all_others_brute_force_agrees():
    """sum of a/v over the others is 1: near pi the angles start like a cube root, and rounding counts most."""
    cases = [(1.0, 2.0, 1, 2.0), (1.0, 4.0, 2, 2.0), (1.0, 20.0, 10, 2.0), (3.0, 3.0, 2, 1.0), (1e9, 10.0, 10, 1.0)]
    angles = (3.0, math.pi - 1e-4, math.pi - 1e-9, math.pi - 1e-13, math.pi)
    assert_brute_force_agrees(*zip(*[(zeta, *case) for zeta in angles for case in cases], strict=True), relative=1e-4)


@pytest.mark.parametrize(("drift", "n_steps"), [(math.inf, 5), (1e-3, 0)])
def test_rigid_or_missing_steps_equal_the_sum_of_two_vectors(drift, n_steps):
    for zeta, w, s in itertools.product((0.0, 1e-9, *ANGLES), WEIGHTS, (1e-6, 0.5, 1.0, 1.0 + 1e-12, 2.0, 1e9)):
        walk = geodesic_walk.solve(zeta, w, drift, n_steps, s)
        with mp.workdps(60):
            total = mp.mpf(w) + mp.mpf(s) * mp.expj(mp.mpf(zeta))
            theta = mp.arg(total)
            assert float(abs(walk.memory - theta)) < 1e-15 + 4e-16 * float(theta), (zeta, w, s)
            assert float(abs(walk.rows - (mp.mpf(zeta) - theta))) < 2e-15, (zeta, w, s)
            assert walk.step == 0.0
            c = mp.mpf(w) * mp.sin(theta)
            assert float(abs(walk.tension - c)) <= 1e-14 * float(c)


def best_vectors(memory, weight, drift, n_steps, length, resultant_direction, rng):
    """f and mu_T by ascent over one unit vector after another, each set to its best for given neighbours."""
    best = (-math.inf, memory)
    for _ in range(3):
        path = rng.standard_normal((n_steps + 1, len(memory)))
        path /= np.linalg.norm(path, axis=1, keepdims=True)
        for _ in range(4000):
            before = path.copy()
            for n in range(n_steps + 1):
                pull = weight * memory if n == 0 else drift * path[n - 1]
                pull = pull + (length * resultant_direction if n == n_steps else drift * path[n + 1])
                path[n] = pull / np.linalg.norm(pull)
            if np.abs(path - before).max() < 1e-14:
                break
        value = weight * path[0] @ memory + length * path[-1] @ resultant_direction
        value += drift * np.vecdot(path[1:], path[:-1]).sum()
        best = max(best, (value, path[-1]), key=lambda pair: pair[0])
    return best


@pytest.mark.parametrize("n_steps", [0, 1, 2, 3])
@pytest.mark.parametrize("zeta", [0.3, 1.4, 2.3, 2.9])
def test_angles_and_end_equal_the_maximum_over_unit_vectors(n_steps, zeta):
    rng = np.random.default_rng(n_steps)
    for _ in range(3):
        weight, drift, length = 10.0 ** rng.uniform(-0.6, 0.6, 3)
        memory, across = np.linalg.qr(rng.standard_normal((4, 2)))[0].T
        direction = math.cos(zeta) * memory + math.sin(zeta) * across
        value, end = best_vectors(memory, weight, drift, n_steps, length, direction, rng)
        angle = sphere.angle(memory, direction)
        walk = geodesic_walk.solve(angle, weight, drift, n_steps, length)
        height = weight * np.cos(walk.memory) + n_steps * drift * np.cos(walk.step) + length * np.cos(walk.rows)
        assert height == pytest.approx(value, abs=1e-10)
        np.testing.assert_allclose(geodesic_walk.end_direction(memory, direction, walk.rows), end, rtol=0, atol=1e-9)


def printed_newton(zeta, weight, drift, n_steps, length, n_iterations=20):
    """Straub 2015 suppl. sec. 3: unknown phi, start 0, principal arcsines."""
    phi = 0.0
    for _ in range(n_iterations):
        value, slope = n_steps * phi - zeta, n_steps
        for v in (weight, length):
            value = value + np.arcsin(drift / v * np.sin(phi))
            slope = slope + drift * np.cos(phi) / np.sqrt(v**2 - (drift * np.sin(phi)) ** 2)
        phi = phi - value / slope
    return phi


@pytest.mark.parametrize(("weight", "last_good"), [(2.0, 85.0), (100.0, 57.5), (1e4, 57.0)])
def test_the_printed_newton_fails_at_the_papers_settings_and_this_one_does_not(weight, last_good):
    """drift_concentration 1e5, one row: NaN from 1 + 1/w radians on, well within max_angle = 100 degrees."""
    for degrees in (10.0, 30.0, last_good):
        zeta = math.radians(degrees)
        expected = geodesic_walk.solve(zeta, weight, 1e5, 1, 1.0).step
        assert printed_newton(zeta, weight, 1e5, 1, 1.0) == pytest.approx(float(expected), rel=1e-10)
    beyond = [last_good + 1.0, 89.0, 100.0, 150.0]
    for degrees in beyond:
        with np.errstate(invalid="ignore"):
            assert math.isnan(printed_newton(math.radians(degrees), weight, 1e5, 1, 1.0))
    n = len(beyond)
    assert_brute_force_agrees(np.radians(beyond), [weight] * n, [1e5] * n, [1] * n, [1.0] * n)


@pytest.mark.parametrize("n_steps", [0, 1, 4])
def test_curvature_weight_is_the_second_derivative_along_the_arc(n_steps):
    """The walk's end at angle `at` from the memory: its rows' term, and the best walk that gets there."""
    rng = np.random.default_rng(n_steps)
    n_obtuse = 0
    for _ in range(60):
        weight, drift, length = 10.0 ** rng.uniform(-1, 1, 3)
        zeta = rng.uniform(0.1, 3.0)
        walk = geodesic_walk.solve(zeta, weight, drift, n_steps, length)
        n_obtuse += max(walk.memory, walk.step, walk.rows) > math.pi / 2
        with mp.workdps(50):
            second = second_derivative(zeta, weight, drift, n_steps, length, walk)
        found = geodesic_walk.memory_weight(walk, weight, drift, n_steps, length)
        assert found == pytest.approx(max(-second, 1e-6), rel=1e-8)
    assert n_obtuse >= 3


def second_derivative(zeta, weight, drift, n_steps, length, walk):
    w, b, s, step_here = (mp.mpf(float(value)) for value in (weight, drift, length, walk.step))

    def exponent(at):
        step = mp.mpf(0)
        if n_steps:
            step = mp.findroot(lambda step: w * mp.sin(at - n_steps * step) - b * mp.sin(step), step_here)
        return s * mp.cos(zeta - at) + w * mp.cos(at - n_steps * step) + n_steps * b * mp.cos(step)

    end, h = mp.mpf(zeta) - mp.mpf(float(walk.rows)), mp.mpf(10) ** -8
    return float((exponent(end + h) - 2 * exponent(end) + exponent(end - h)) / h**2)


def test_slope_of_the_score_is_minus_the_tension():
    """Against central differences of the brute force, not of our own solver."""
    h = 1e-12
    for zeta, w, b, n in [(0.7, 5.0, 20.0, 3), (2.0, 1e4, 1e5, 1), (2.6, 0.4, 3.0, 2), (1.5, 3.0, 0.2, 1)]:
        with mp.workdps(60):
            above, below = (brute_force(zeta + d, w, b, float(n), 1.0)[3] for d in (h, -h))
            slope = float((above - below) / (mp.mpf(zeta + h) - mp.mpf(zeta - h)))
        assert float(geodesic_walk.solve(zeta, w, b, n, 1.0).tension) == pytest.approx(slope, rel=1e-10)
