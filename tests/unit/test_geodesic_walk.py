"""The walk of a track: ends of the range, limits, the score and its curve, what is remembered."""

import itertools
import math

import mpmath as mp
import numpy as np
import pytest

from armillary.distributions import geodesic_walk
from armillary.distributions.geodesic_walk import (
    end_direction,
    interpolate,
    memory_weight,
    penalty,
    revival_angle,
    revival_curve,
    revival_score,
    solve,
    solve_small_angle,
)
from armillary.geometry import sphere

ANGLES = [0.0, 1e-200, 1e-12, 1e-3, 0.5, 1.0, 1.2, math.pi / 2, 2.0, 2.6, 3.1, math.pi - 1e-9, math.pi]


def grid(*axes):
    return [axis.ravel() for axis in np.meshgrid(*axes, indexing="ij")]


def random_walks(seed, n):
    """Weights, drifts and gaps of all sizes; a third of them of one size, where angles get obtuse."""
    rng = np.random.default_rng(seed)
    weight, drift = 10.0 ** rng.uniform(-6, 9, n), 10.0 ** rng.uniform(-6, 12, n)
    near = n // 3
    weight[:near], drift[:near] = 10.0 ** rng.uniform(-1, 1, (2, near))
    n_steps = np.floor(10.0 ** rng.uniform(0, 4, n))
    n_steps[: near // 2] = 1.0
    return weight, drift, n_steps


def height(walk, weight, drift, n_steps, length):
    return weight * np.cos(walk.memory) + n_steps * drift * np.cos(walk.step) + length * np.cos(walk.rows)


# ------------------------------------------------------------------------------------------------- angles


def test_closure_and_one_tension_over_the_whole_range():
    zeta, weight, drift, n_steps, length = grid(
        ANGLES,
        10.0 ** np.arange(-6, 10, 3),
        10.0 ** np.arange(-6, 13, 3),
        [1, 2, 30, 1e4],
        10.0 ** np.arange(-6, 10, 3),
    )
    walk = solve(zeta, weight, drift, n_steps, length)
    np.testing.assert_allclose(walk.memory + n_steps * walk.step + walk.rows, zeta, rtol=4e-15, atol=0)
    for v, angle in ((weight, walk.memory), (drift, walk.step), (length, walk.rows)):
        # the sine of an angle close to pi has the rounding of pi, times its weight
        error = np.abs(v * np.sin(angle) - walk.tension)
        assert np.all(error <= 4e-15 * walk.tension + np.where(angle > 1.5, 1e-15 * v, 0.0))
    obtuse = (walk.memory > math.pi / 2).astype(int) + (walk.step > math.pi / 2) + (walk.rows > math.pi / 2)
    assert obtuse.max() == 1
    assert obtuse.sum() > 1000


def test_a_hundred_thousand_random_walks_close():
    """Each element stops on its own: one that stopped early would show here."""
    rng = np.random.default_rng(0)
    weight, drift, n_steps = random_walks(0, 100_000)
    zeta, length = rng.uniform(0.0, math.pi, 100_000), 10.0 ** rng.uniform(-1, 1, 100_000)
    walk = solve(zeta, weight, drift, n_steps, length)
    assert np.abs(walk.memory + n_steps * walk.step + walk.rows - zeta).max() < 4e-15


@pytest.mark.parametrize("excess", [1e-16, 2e-16, 1e-15, 1e-12, 1e-8, 1e-4, 1e-2])
def test_two_least_weights_that_nearly_agree(excess):
    zeta, drift, n_steps = grid(math.pi - np.array([0.0, 1e-14, 1e-10, 1e-6, 1e-3, 0.1, 1.0]), [1e2, 1e5, 1e12], [1, 7])
    for weight, length in ((1.0 + excess, 1.0), (1.0, 1.0 + excess)):
        walk = solve(zeta, weight, drift, n_steps, length)
        assert np.abs(walk.memory + n_steps * walk.step + walk.rows - zeta).max() < 4e-15
        # the heavier one is never obtuse
        assert np.all((walk.memory if weight > length else walk.rows) <= math.pi / 2)


def test_scalars_and_batches_agree_to_the_bit():
    rng = np.random.default_rng(1)
    weight, drift, n_steps = random_walks(1, 60)
    zeta = rng.uniform(0, math.pi, 60)
    batch = solve(zeta, weight, drift, n_steps, 2.0)
    for i in range(60):
        alone = solve(zeta[i], weight[i], drift[i], n_steps[i], 2.0)
        assert alone.memory.shape == ()
        assert (alone.memory, alone.step, alone.rows) == (batch.memory[i], batch.step[i], batch.rows[i])


def test_arguments_broadcast():
    walk = solve(np.linspace(0, 3, 5)[:, None], [1.0, 2.0, 3.0], 1e3, 4, 1.0)
    assert walk.memory.shape == walk.step.shape == walk.rows.shape == walk.tension.shape == (5, 3)
    assert np.array_equal(walk.memory[3, 1], solve(2.25, 2.0, 1e3, 4, 1.0).memory)
    assert solve(np.empty(0), 1.0, 1.0, 1, 1.0).rows.shape == (0,)


def test_never_nan_even_beyond_the_range():
    sizes = [1e-300, 1e-100, 1e-6, 1.0, 1e9, 1e100, 1e300]
    zeta, weight, drift, n_steps, length = grid(ANGLES, [*sizes, np.inf], [*sizes, np.inf], [0, 1, 7, 1e4], sizes)
    walk = solve(zeta, weight, drift, n_steps, length)
    assert np.abs(walk.memory + n_steps * walk.step + walk.rows - zeta).max() < 4e-15
    assert np.all(np.isfinite(walk.tension))
    assert np.all(np.isfinite(penalty(walk, weight, drift, n_steps)))
    for rule in ("curvature", "paper"):
        assert np.all(memory_weight(walk, weight, drift, n_steps, length, rule) >= 1e-6)
    small = solve_small_angle(zeta, weight, drift, n_steps, length)
    np.testing.assert_allclose(small.memory + n_steps * small.step + small.rows, zeta, rtol=1e-14, atol=0)
    assert not np.isnan(revival_angle(0.3, weight, drift, n_steps, -0.01)).any()


def test_no_angle_costs_nothing():
    walk = solve(0.0, 3.0, 7.0, 5, 2.0)
    assert walk.memory == walk.step == walk.rows == walk.tension == 0.0
    assert penalty(walk, 3.0, 7.0, 5) == 0.0


def test_the_flat_angle():
    # a weak row cannot turn a heavy track: the row takes all of pi and no tension is left
    walk = solve(math.pi, 1e4, 1e5, 1, 1.0)
    assert walk.rows == pytest.approx(math.pi, abs=1e-15)
    assert walk.tension < 2e-16
    # equal weights share it
    walk = solve(math.pi, 1.0, np.inf, 3, 1.0)
    assert (float(walk.memory), float(walk.rows)) == pytest.approx((math.pi / 2, math.pi / 2), abs=1e-15)
    # many soft steps take it whatever the ends weigh
    walk = solve(math.pi, 1e6, 1.0, 10_000, 1e6)
    assert walk.step == pytest.approx(math.pi / 10_000, rel=1e-6)


def test_without_steps_their_concentration_does_not_matter():
    for drift in (1e-6, 1.0, np.inf):
        walk = solve(2.0, 3.0, drift, 0, 1.0)
        rigid = solve(2.0, 3.0, np.inf, 4, 1.0)
        assert (walk.memory, walk.step, walk.rows) == (rigid.memory, 0.0, rigid.rows)


def test_large_concentrations_tend_to_rigid_steps():
    rigid = solve(2.0, 3.0, np.inf, 4, 1.0)
    previous = np.inf
    for drift in (1e3, 1e6, 1e9, 1e12):
        gap = abs(solve(2.0, 3.0, drift, 4, 1.0).rows - rigid.rows)
        assert gap < 10.0 / drift
        assert gap < previous
        previous = gap


def test_small_angles_tend_to_springs_in_series():
    weight, drift, n_steps, length = 5.0, 40.0, 6, 2.0
    for zeta in (1e-2, 1e-4):
        exact, small = (
            solve(zeta, weight, drift, n_steps, length),
            solve_small_angle(zeta, weight, drift, n_steps, length),
        )
        for name in ("memory", "step", "rows", "tension"):
            assert getattr(exact, name) == pytest.approx(getattr(small, name), rel=zeta**2)
    # the formulas of the errata, with the length of the resultant
    assert small.step == pytest.approx(zeta / (drift * (1 / weight + 1 / length) + n_steps))
    assert small.memory == pytest.approx(zeta / (1 + weight * (1 / length + n_steps / drift)))
    assert small.rows == pytest.approx(zeta / (1 + length / weight + length * n_steps / drift))
    assert small.tension == pytest.approx(zeta / (1 / weight + n_steps / drift + 1 / length))


def test_small_angle_solver_with_rigid_or_missing_steps():
    for drift, n_steps in ((np.inf, 3), (2.0, 0)):
        walk = solve_small_angle(0.6, 2.0, drift, n_steps, 1.0)
        assert (float(walk.memory), float(walk.step), float(walk.rows)) == pytest.approx((0.2, 0.0, 0.4))


def test_penalty_of_given_angles():
    walk = geodesic_walk.WalkAngles(*(np.array(v) for v in (0.5, 0.25, 0.1, 1.0)))
    expected = 3.0 * (1 - math.cos(0.5)) + 4 * 7.0 * (1 - math.cos(0.25))
    assert penalty(walk, 3.0, 7.0, 4) == pytest.approx(expected, rel=1e-14)


def test_penalty_keeps_the_digits_that_the_difference_of_heights_loses():
    # heavy: one row bends memory and steps by c/w and c/beta, at a cost of c^2 (1/w + T/beta)/2
    walk = solve(1.0, 1e9, 1e12, 100, 1.0)
    expected = math.sin(1.0) ** 2 * (1e-9 + 100 / 1e12) / 2
    assert penalty(walk, 1e9, 1e12, 100) == pytest.approx(expected, rel=1e-8)


# -------------------------------------------------------------------------------------------------- score


def test_score_at_the_memory_and_its_strict_fall():
    weight, drift, n_steps = random_walks(2, 300)
    price = -0.5 / n_steps
    zeta = np.linspace(0.0, math.pi, 200)
    score = revival_score(zeta, weight[:, None], drift[:, None], n_steps[:, None], price[:, None])
    np.testing.assert_allclose(score[:, 0], 1.0 + n_steps * price, rtol=0, atol=1e-15)
    # steps of the score below rounding are ties: weak tracks hardly care
    is_felt = np.minimum(weight, drift) > 1e-3
    assert np.all(np.diff(score[is_felt], axis=1) < 0.0)
    assert np.all(np.diff(score, axis=1) < 1e-15)


def test_slope_of_the_score_is_minus_the_tension():
    weight, drift, n_steps = random_walks(3, 500)
    zeta, h = np.random.default_rng(3).uniform(0.1, 2.9, 500), 1e-4
    offsets = h * np.array([-2.0, -1.0, 1.0, 2.0])
    far, near, next_, last = revival_score((zeta[:, None] + offsets).T, weight, drift, n_steps, -1e-5)
    slope = (far - 8 * near + 8 * next_ - last) / (12 * h)
    np.testing.assert_allclose(slope, -solve(zeta, weight, drift, n_steps, 1.0).tension, rtol=0, atol=1e-8)


def test_sandwich():
    weight, drift, n_steps = random_walks(4, 3000)
    zeta = np.random.default_rng(4).uniform(0.0, math.pi, 3000)
    price = -np.random.default_rng(5).uniform(0.0, 1.0, 3000) / n_steps
    score = revival_score(zeta, weight, drift, n_steps, price)
    missed = n_steps * price
    cosine = np.cos(zeta)
    rounding = 4e-15
    assert np.all(score >= cosine + missed - rounding)
    assert np.all(score <= 1.0 + missed + rounding)
    assert np.all(score <= cosine + missed + 0.5 * (1.0 / weight + n_steps / drift) + rounding)
    # a walk whose steps do not turn is one of the walks
    rigid = revival_score(zeta, weight, np.inf, n_steps, price)
    assert np.all(score >= rigid - rounding)


def test_rigid_score_is_the_length_of_a_sum():
    zeta = np.linspace(0.0, math.pi, 50)
    for weight in (0.3, 1.0, 2.0, 50.0):
        norm = np.hypot(weight + np.cos(zeta), np.sin(zeta))
        np.testing.assert_allclose(
            revival_score(zeta, weight, np.inf, 3, -0.1), norm - weight - 0.3, rtol=0, atol=1e-14
        )


def test_limits_of_the_score():
    zeta = np.linspace(0.0, math.pi, 20)
    # a track of no weight, or of free steps, or unseen for very long takes every row
    for weight, drift, n_steps in ((1e-6, 1e5, 3), (1e3, 1e-6, 3), (1e3, 1.0, 10_000_000)):
        np.testing.assert_allclose(revival_score(zeta, weight, drift, n_steps, 0.0), 1.0, rtol=0, atol=1e-5)
    # heavy and slow: to first order in 1/w + T/beta
    ease = 1e-6 + 5 / 1e6
    expected = np.cos(zeta) + np.sin(zeta) ** 2 * ease / 2
    np.testing.assert_allclose(revival_score(zeta, 1e6, 1e6, 5, 0.0), expected, rtol=0, atol=ease**2)


def test_score_at_the_papers_setting():
    """max_angle 100 degrees, 400 steps, drift_concentration 1e5: the cap of revival shrinks as the track waits."""
    price = (math.cos(math.radians(100.0)) - 1.0) / 400
    birth = math.cos(math.radians(100.0))
    caps = revival_angle(birth, 1e4, 1e5, [1, 100, 200, 300, 399, 400, 401], price)
    assert np.all(np.diff(caps) < 0.0)
    assert caps[0] == pytest.approx(math.radians(100.0), abs=3e-3)
    assert caps[2] == pytest.approx(math.acos(1.0 + 200 * price), abs=2e-3)
    assert caps[5] == pytest.approx(0.0, abs=1e-6)
    assert caps[6] == -1.0


# ------------------------------------------------------------------------------------------ levels, curve


def test_revival_angle_inverts_the_score():
    weight, drift, n_steps = random_walks(6, 3000)
    price = -0.3 / n_steps
    zeta = np.random.default_rng(6).uniform(0.0, math.pi, 3000)
    level = revival_score(zeta, weight, drift, n_steps, price)
    found = revival_angle(level, weight, drift, n_steps, price)
    assert np.all((found >= 0.0) & (found <= math.pi))
    np.testing.assert_allclose(revival_score(found, weight, drift, n_steps, price), level, rtol=0, atol=4e-15)
    # the score carries 1e-16, so the angle 1e-16 over the slope
    tension = solve(zeta, weight, drift, n_steps, 1.0).tension
    is_steep = tension > 1e-3
    assert is_steep.sum() > 800
    np.testing.assert_allclose(found[is_steep], zeta[is_steep], rtol=0, atol=1e-11)


def test_revival_angle_at_the_ends():
    weight, drift, n_steps = random_walks(7, 200)
    price = -0.3 / n_steps
    top = 1.0 + n_steps * price
    bottom = revival_score(math.pi, weight, drift, n_steps, price)
    assert np.all(revival_angle(top + 1e-9, weight, drift, n_steps, price) == -1.0)
    assert np.all(revival_angle(top, weight, drift, n_steps, price) == 0.0)
    assert np.all(revival_angle(bottom - 1e-9, weight, drift, n_steps, price) == math.pi)
    assert np.all(revival_angle(-np.inf, weight, drift, n_steps, price) == math.pi)
    assert np.all(revival_angle(np.inf, weight, drift, n_steps, price) == -1.0)
    assert revival_angle(0.5, 3.0, 100.0, 2, -0.1).shape == ()


def curve_tracks():
    """All sizes, and what bends a curve most: ties of the two least weights, a link that gives as much as the rest."""
    tracks = list(
        itertools.product(10.0 ** np.arange(-6, 10, 3), [*10.0 ** np.arange(-6, 13, 3), np.inf], [1, 3, 100, 1e4])
    )
    for excess in 10.0 ** np.arange(-15, 0, 0.5):
        for drift, n_steps in ((10.0, 1), (1e3, 10), (1e5, 1), (1e12, 1e4), (np.inf, 1)):
            tracks += [(1.0 + excess, drift, n_steps), (1.0 - excess, drift, n_steps)]
        for n_steps in (1, 2, 100):
            tracks += [(1e5, n_steps * (1.0 + excess), n_steps), (0.1, 0.1 * (1.0 + excess), n_steps)]
    return np.array(tracks).T


def test_curve_is_within_one_billionth_of_the_score():
    weight, drift, n_steps = curve_tracks()
    price = -0.2 / n_steps
    curve = revival_curve(weight, drift, n_steps, price)
    assert curve.angles.shape == curve.scores.shape == curve.slopes.shape == (len(weight), 257)
    assert np.all(np.diff(curve.angles, axis=1) >= 0.0)
    assert np.all(curve.angles[:, 0] == 0.0)
    assert np.all(curve.angles[:, -1] == math.pi)
    np.testing.assert_allclose(curve.scores[:, 0], 1.0 + n_steps * price, rtol=0, atol=0)
    parts = np.array([0.3, 0.7])
    between = curve.angles[:, :-1, None] + np.diff(curve.angles, axis=1)[..., None] * parts
    close = np.broadcast_to(math.pi - 10.0 ** np.linspace(-15, 0, 31), (len(weight), 31))
    zeta = np.concatenate([between.reshape(len(weight), -1), close], axis=1)
    exact = revival_score(zeta, weight[:, None], drift[:, None], n_steps[:, None], price[:, None])
    error = np.abs(interpolate(curve, zeta) - exact)
    assert error.max() < 1e-9


def test_curve_of_one_track_and_at_its_knots():
    curve = revival_curve(2.0, 30.0, 4, -0.1, n_knots=33)
    assert curve.angles.shape == (33,)
    np.testing.assert_allclose(interpolate(curve, curve.angles), curve.scores, rtol=0, atol=1e-15)
    np.testing.assert_allclose(curve.scores, revival_score(curve.angles, 2.0, 30.0, 4, -0.1), rtol=0, atol=1e-14)
    np.testing.assert_allclose(curve.slopes, -solve(curve.angles, 2.0, 30.0, 4, 1.0).tension, rtol=0, atol=1e-13)


def test_small_angle_score_is_that_of_one_walk_among_others():
    weight, drift, n_steps = random_walks(12, 2000)
    zeta = np.random.default_rng(12).uniform(0.0, math.pi, 2000)
    exact = revival_score(zeta, weight, drift, n_steps, -1e-5)
    small = revival_score(zeta, weight, drift, n_steps, -1e-5, is_exact=False)
    assert np.all(small <= exact + 4e-15)
    assert np.any(small < exact - 0.1)
    walk = solve_small_angle(zeta, weight, drift, n_steps, 1.0)
    expected = np.cos(walk.rows) - 1e-5 * n_steps - penalty(walk, weight, drift, n_steps)
    np.testing.assert_allclose(small, expected, rtol=0, atol=4e-15)


def test_small_angle_curve():
    weight, drift, n_steps = curve_tracks()
    curve = revival_curve(weight, drift, n_steps, -0.2 / n_steps, is_exact=False)
    assert curve.angles.shape == curve.scores.shape == curve.slopes.shape == (len(weight), 257)
    zeta = np.linspace(0.0, math.pi, 1001)
    exact = revival_score(zeta, *(v[:, None] for v in (weight, drift, n_steps, -0.2 / n_steps)), is_exact=False)
    assert np.abs(interpolate(curve, np.broadcast_to(zeta, exact.shape)) - exact).max() < 1e-10
    assert revival_curve(2.0, 30.0, 4, -0.1, is_exact=False).scores.shape == (257,)


def test_more_knots_are_better_by_the_fourth_power():
    zeta = np.linspace(0.0, math.pi, 1001)
    exact = revival_score(zeta, 3.0, 20.0, 2, 0.0)
    coarse, fine = (np.abs(interpolate(revival_curve(3.0, 20.0, 2, 0.0, n), zeta) - exact).max() for n in (33, 129))
    assert fine < coarse / 100


# ------------------------------------------------------------------------------------------------- memory


def test_curvature_is_the_kalman_step_for_small_angles():
    weight, drift, n_steps, length = 50.0, 400.0, 6, 8.0
    walk = solve(1e-6, weight, drift, n_steps, length)
    expected = length + 1.0 / (1.0 / weight + n_steps / drift)
    assert memory_weight(walk, weight, drift, n_steps, length) == pytest.approx(expected, rel=1e-11)
    assert memory_weight(walk, weight, drift, 0, length) == pytest.approx(length + weight, rel=1e-11)
    assert memory_weight(walk, weight, np.inf, n_steps, length) == pytest.approx(length + weight, rel=1e-11)


def test_curvature_is_positive_at_every_walk():
    weight, drift, n_steps = random_walks(8, 20_000)
    rng = np.random.default_rng(8)
    zeta, length = rng.uniform(0.0, math.pi, 20_000), 10.0 ** rng.uniform(-1, 1, 20_000)
    walk = solve(zeta, weight, drift, n_steps, length)
    found = memory_weight(walk, weight, drift, n_steps, length)
    assert np.all(found >= 1e-6)
    # the second-order condition: the floor is for weights that small, not for saddles
    lightest = np.minimum(np.minimum(weight, drift / n_steps), length)
    assert np.all(found[(lightest > 1e-2) & (zeta < 3.0)] > 1e-3)


def test_paper_rule_is_the_height_of_the_exponent():
    weight, drift, n_steps, length = 5.0, 40.0, 6, 2.0
    walk = solve(1.3, weight, drift, n_steps, length)
    expected = height(walk, weight, drift, n_steps, length)
    assert memory_weight(walk, weight, drift, n_steps, length, "paper") == pytest.approx(float(expected), rel=1e-15)
    assert memory_weight(walk, weight, drift, n_steps, length, "paper") > n_steps * drift * 0.9


def test_paper_rule_with_steps_that_cannot_turn():
    walk = solve(1.3, 5.0, np.inf, 3, 2.0)
    heavy = memory_weight(walk, 5.0, np.inf, 3, 2.0, "paper")
    assert heavy == np.inf
    # such a memory does not move again
    again = solve(1.3, heavy, np.inf, 3, 2.0)
    assert (again.memory, again.step, again.rows) == (0.0, 0.0, pytest.approx(1.3, abs=1e-15))
    assert penalty(again, heavy, np.inf, 3) == 0.0
    # without steps it is the length of the sum of the two vectors
    walk = solve(1.3, 5.0, np.inf, 0, 2.0)
    norm = math.hypot(5.0 + 2.0 * math.cos(1.3), 2.0 * math.sin(1.3))
    assert memory_weight(walk, 5.0, np.inf, 0, 2.0, "paper") == pytest.approx(norm, rel=1e-14)


def test_weights_have_a_floor():
    walk = solve(math.pi, 1e-9, 1e-9, 1, 1e-9)
    for rule in ("curvature", "paper"):
        assert memory_weight(walk, 1e-9, 1e-9, 1, 1e-9, rule) == 1e-6


def test_an_unknown_rule_is_refused():
    with pytest.raises(ValueError, match='must be "curvature" or "paper"; got \'height\''):
        memory_weight(solve(1.0, 1.0, 1.0, 1, 1.0), 1.0, 1.0, 1, 1.0, "height")


# ---------------------------------------------------------------------------------------------- direction


def unit_rows(rng, *shape):
    rows = rng.standard_normal(shape)
    return rows / np.linalg.norm(rows, axis=-1, keepdims=True)


def test_end_lies_on_the_arc_at_its_angle():
    rng = np.random.default_rng(9)
    memory, direction = unit_rows(rng, 2, 40, 5)
    zeta = sphere.angle(memory, direction)
    walk = solve(zeta, 3.0, 20.0, 2, 1.5)
    end = end_direction(memory, direction, walk.rows)
    np.testing.assert_allclose(np.linalg.norm(end, axis=1), 1.0, rtol=1e-15)
    np.testing.assert_allclose(sphere.angle(end, direction), walk.rows, rtol=0, atol=1e-14)
    np.testing.assert_allclose(sphere.angle(end, memory), zeta - walk.rows, rtol=0, atol=1e-14)


def test_end_without_steps_is_the_direction_of_the_sum():
    rng = np.random.default_rng(10)
    memory, direction = unit_rows(rng, 2, 40, 3)
    walk = solve(sphere.angle(memory, direction), 3.0, 1.0, 0, 1.5)
    total = 3.0 * memory + 1.5 * direction
    expected = total / np.linalg.norm(total, axis=1, keepdims=True)
    np.testing.assert_allclose(end_direction(memory, direction, walk.rows), expected, rtol=0, atol=1e-14)


def test_end_where_memory_and_resultant_agree():
    x = unit_rows(np.random.default_rng(11), 6)
    assert np.array_equal(end_direction(x, x, 0.0), x)
    assert np.array_equal(end_direction(x + 1e-14, x, 5e-15), x)


def test_end_where_memory_and_resultant_are_opposite():
    x = np.array([[0.6, 0.0, 0.8], [0.0, 1.0, 0.0]])
    end = end_direction(-x, x, [0.7, math.pi])
    np.testing.assert_allclose(end[0], [0.6 * math.cos(0.7), math.sin(0.7), 0.8 * math.cos(0.7)], rtol=0, atol=1e-15)
    np.testing.assert_allclose(end[1], [0.0, -1.0, 0.0], rtol=0, atol=1e-15)
    np.testing.assert_allclose(sphere.angle(end, x), [0.7, math.pi], rtol=0, atol=1e-15)


@pytest.mark.parametrize("gap", [1e-10, 1e-7, 1e-3])
def test_end_close_to_opposite_keeps_to_the_arc(gap):
    """Against many digits of the vectors as given: what lies across is 1e-10 long, and rounding 1e-16."""
    rng = np.random.default_rng(13)
    x, across = np.linalg.qr(rng.standard_normal((5, 2)))[0].T
    memory = -math.cos(gap) * x + math.sin(gap) * across
    with mp.workdps(50):
        m, base = mp.matrix(memory.tolist()), mp.matrix(x.tolist())
        base = base / mp.norm(base)
        rest = m - (m.T * base)[0] * base
        expected = mp.cos(1) * base + mp.sin(1) * rest / mp.norm(rest)
        expected = np.array([float(value) for value in expected])
    np.testing.assert_allclose(end_direction(memory, x, 1.0), expected, rtol=0, atol=1e-15)
