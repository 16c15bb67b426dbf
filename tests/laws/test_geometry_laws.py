"""Laws of the sphere's maps and means, on points and angles of all sizes."""

import math

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.making import units

from armillary.geometry import means, sphere

EPS = np.finfo(np.float64).eps
law = settings(deadline=None, max_examples=200)


@st.composite
def generators(draw):
    """A generator and a dimension: hypothesis searches over seeds, sizes and angles, NumPy fills the vectors."""
    return np.random.default_rng(draw(st.integers(0, 2**32))), draw(st.integers(2, 40))


def rotation(rng, dimension):
    q, r = np.linalg.qr(rng.standard_normal((dimension, dimension)))
    return q * np.sign(np.diag(r))


# from far below the spacing of floats near 1, up to a milliradian short of the antipode
lengths = st.one_of(st.floats(0.0, math.pi - 1e-3), st.floats(-250.0, 0.0).map(lambda e: 10.0**e))


@law
@given(generators(), lengths)
def test_log_undoes_exp(setting, length):
    rng, dimension = setting
    base = units(rng, dimension)
    vec = length * sphere.tangent_vector(units(rng, dimension - 1), base)
    back = sphere.log(sphere.exp(vec, base), base)
    # a point is stored to one part in 1e16; turned back into a vector, that grows as angle / sin(angle)
    assert np.linalg.norm(back - vec) <= 8 * EPS * (1.0 + length / max(math.sin(length), 1e-3))


@law
@given(generators())
def test_exp_undoes_log_and_log_has_the_length_of_the_angle(setting):
    rng, dimension = setting
    a, b = units(rng, 2, dimension)
    vec = sphere.log(b, a)
    np.testing.assert_allclose(sphere.exp(vec, a), b, atol=16 * EPS)
    np.testing.assert_allclose(np.linalg.norm(vec), sphere.angle(a, b), rtol=8 * EPS)
    assert abs(vec @ a) <= 8 * EPS


@law
@given(generators())
def test_angle_is_a_metric(setting):
    rng, dimension = setting
    a, b, c = units(rng, 3, dimension)
    assert sphere.angle(a, b) == sphere.angle(b, a)
    assert sphere.angle(a, a) == 0.0
    assert sphere.angle(a, c) <= sphere.angle(a, b) + sphere.angle(b, c) + 4 * EPS
    assert 0.0 <= sphere.angle(a, b) <= math.pi


@law
@given(generators(), st.floats(0.0, 1.0))
def test_geodesic_is_the_same_from_either_end(setting, fraction):
    rng, dimension = setting
    a, b = units(rng, 2, dimension)
    # towards the antipode any error of the end points is stretched
    assume(sphere.angle(a, b) < 3.0)
    point = sphere.geodesic(a, b, fraction)
    np.testing.assert_allclose(point, sphere.geodesic(b, a, 1.0 - fraction), atol=200 * EPS)
    np.testing.assert_allclose(sphere.angle(a, point), fraction * sphere.angle(a, b), atol=8 * EPS)


@law
@given(generators(), lengths)
def test_transport_is_an_isometry_of_tangent_spaces(setting, length):
    rng, dimension = setting
    base = units(rng, dimension)
    end = sphere.exp(length * sphere.tangent_vector(units(rng, dimension - 1), base), base)
    vectors = sphere.tangent_vector(rng.standard_normal((3, dimension - 1)), base)
    moved = sphere.transport(vectors, base, end)
    scale = EPS * dimension * (1.0 + 1.0 / max(math.sin(length), 1e-3) * (length > 1.0))
    np.testing.assert_allclose(moved @ moved.T, vectors @ vectors.T, atol=64 * scale)
    np.testing.assert_allclose(moved @ end, 0.0, atol=64 * scale)
    np.testing.assert_allclose(sphere.transport(moved, end, base), vectors, atol=64 * scale)


@law
@given(generators())
def test_transport_moves_the_geodesic_onto_itself(setting):
    rng, dimension = setting
    a, b = units(rng, 2, dimension)
    assume(sphere.angle(a, b) < 3.0)
    np.testing.assert_allclose(sphere.transport(sphere.log(b, a), a, b), -sphere.log(a, b), atol=200 * EPS)


@law
@given(generators())
def test_rotating_everything_rotates_the_result(setting):
    rng, dimension = setting
    a, b = units(rng, 2, dimension)
    assume(sphere.angle(a, b) < 3.0)
    vec = sphere.to_tangent(rng.standard_normal(dimension), a)
    turn = rotation(rng, dimension)
    atol = 400 * EPS
    np.testing.assert_allclose(sphere.angle(turn @ a, turn @ b), sphere.angle(a, b), atol=atol)
    np.testing.assert_allclose(sphere.exp(turn @ vec, turn @ a), turn @ sphere.exp(vec, a), atol=atol)
    np.testing.assert_allclose(sphere.log(turn @ b, turn @ a), turn @ sphere.log(b, a), atol=atol)
    np.testing.assert_allclose(
        sphere.transport(turn @ vec, turn @ a, turn @ b), turn @ sphere.transport(vec, a, b), atol=10 * atol
    )


@law
@given(generators(), st.floats(0.0, 1.4))
def test_tangent_coordinates_are_an_isometry(setting, length):
    rng, dimension = setting
    base = units(rng, dimension)
    coordinates = length * rng.standard_normal((2, dimension - 1))
    vec = sphere.tangent_vector(coordinates, base)
    np.testing.assert_allclose(vec @ vec.T, coordinates @ coordinates.T, atol=100 * EPS * dimension)
    np.testing.assert_allclose(sphere.tangent_coordinates(vec, base), coordinates, atol=100 * EPS)
    np.testing.assert_allclose(vec, coordinates @ sphere.tangent_frame(base).T, atol=100 * EPS)


def cap(rng, n_rows, dimension, radius):
    """Rows within `radius` of a centre, and the centre."""
    center = units(rng, dimension)
    steps = radius * rng.random((n_rows, 1)) * units(rng, n_rows, dimension - 1)
    return sphere.exp(sphere.tangent_vector(steps, center), center), center


@law
@given(generators(), st.integers(1, 30), st.floats(1e-12, math.pi / 2 - 1e-3))
def test_karcher_mean_is_the_stationary_point_inside_the_ball(setting, n_rows, radius):
    rng, dimension = setting
    rows, center = cap(rng, n_rows, dimension, radius)
    weights = rng.random(n_rows) + 0.01
    mean = means.karcher_mean(rows, weights)
    gradient = weights @ sphere.log(rows, mean) / weights.sum()
    assert np.linalg.norm(gradient) <= 2e-12
    assert sphere.angle(mean, center) <= radius + 4 * EPS
    # moving away costs half the squared step times a curvature that is positive inside the ball
    beside = sphere.exp(1e-3 * sphere.tangent_vector(units(rng, dimension - 1), mean), mean)
    assert weights @ sphere.angle(rows, mean) ** 2 <= weights @ sphere.angle(rows, beside) ** 2


@law
@given(generators(), st.integers(1, 20), st.floats(0.01, 1.2))
def test_means_turn_with_the_rows_and_ignore_their_order(setting, n_rows, radius):
    rng, dimension = setting
    rows, _ = cap(rng, n_rows, dimension, radius)
    turn, order = rotation(rng, dimension), rng.permutation(n_rows)
    for mean in (means.resultant_mean, means.karcher_mean):
        np.testing.assert_allclose(mean((rows @ turn.T)[order]), turn @ mean(rows), atol=1e-10)


@law
@given(generators(), st.floats(0.0, 3.0), st.floats(0.05, 0.95))
def test_mean_of_two_rows_divides_their_arc_by_weight(setting, length, share):
    rng, dimension = setting
    a = units(rng, dimension)
    b = sphere.exp(length * sphere.tangent_vector(units(rng, dimension - 1), a), a)
    np.testing.assert_allclose(
        means.karcher_mean([a, b], [1.0 - share, share]), sphere.geodesic(a, b, share), atol=1e-10
    )
    np.testing.assert_allclose(means.resultant_mean([a, b]), sphere.geodesic(a, b, 0.5), atol=1e-13)


@law
@given(generators(), st.integers(1, 20))
def test_integer_weights_are_repeated_rows(setting, n_rows):
    rng, dimension = setting
    rows, _ = cap(rng, n_rows, dimension, 1.0)
    counts = rng.integers(0, 4, n_rows)
    counts[0] += 1
    for mean in (means.resultant_mean, means.karcher_mean):
        np.testing.assert_allclose(mean(rows, counts), mean(np.repeat(rows, counts, axis=0)), atol=1e-11)
