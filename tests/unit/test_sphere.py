"""The maps of the sphere at exact values, at the ends of their range, and where there is no answer."""

import math

import mpmath as mp
import numpy as np
import pytest

from armillary.exceptions import InputError
from armillary.geometry import sphere

E1, E2, E3 = np.eye(3)
SIZES = [1e-300, 1e-200, 1e-100, 1e-30, 1e-16, 1e-12, 1e-8, 1e-4, 0.1, 1.0, 1.5, 2.0, 3.0]


def unit(*numbers):
    return np.array(numbers) / np.linalg.norm(numbers)


def at_angle(theta):
    """The point at `theta` from E1 in the plane of E1 and E2, with a sine of full relative precision."""
    return np.array([math.cos(theta), math.sin(theta), 0.0])


@pytest.mark.parametrize("theta", SIZES)
def test_angles_of_all_sizes_keep_their_digits(theta):
    assert sphere.angle(E1, at_angle(theta)) == pytest.approx(theta, rel=4e-16)


@pytest.mark.parametrize("theta", SIZES)
def test_log_of_all_sizes_keeps_its_digits(theta):
    np.testing.assert_allclose(sphere.log(at_angle(theta), E1), theta * E2, rtol=4e-16)


@pytest.mark.parametrize("theta", SIZES)
def test_exp_of_all_sizes_keeps_its_digits(theta):
    np.testing.assert_allclose(sphere.exp(theta * E2, E1), at_angle(theta), rtol=4e-16)


@pytest.mark.parametrize("gap", [1e-200, 1e-30, 1e-16, 1e-8, 1e-3])
def test_close_to_the_antipode(gap):
    point = np.array([-math.cos(gap), math.sin(gap), 0.0])
    assert sphere.angle(E1, point) == pytest.approx(math.pi - gap, rel=2e-16)
    np.testing.assert_allclose(sphere.log(point, E1), (math.pi - gap) * E2, rtol=4e-16)
    # over the pole along the meridian: the direction of travel turns round, the one across stays
    np.testing.assert_allclose(sphere.transport(E2, E1, point), [-math.sin(gap), -math.cos(gap), 0.0], rtol=4e-16)
    np.testing.assert_allclose(sphere.transport(E3, E1, point), E3, rtol=4e-16)


@pytest.mark.parametrize("exponent", [-12, -9, -7, -5, -3, -1])
def test_small_angles_between_general_points_against_many_digits(exponent):
    rng = np.random.default_rng(exponent + 100)
    base = unit(*rng.standard_normal(5))
    point = base + 10.0**exponent * rng.standard_normal(5)
    point /= np.linalg.norm(point)
    with mp.workdps(60):
        p, x = [mp.matrix(list(map(float, v))) for v in (base, point)]
        p, x = p / mp.norm(p), x / mp.norm(x)
        across = x - (p.T * x)[0] * p
        true = mp.asin(mp.norm(across)) * across / mp.norm(across)
        theta = float(mp.asin(mp.norm(across)))
    # the floats themselves are unit vectors only to 1e-16, so that is the error of a component
    np.testing.assert_allclose(sphere.log(point, base), np.array([float(t) for t in true]), rtol=0, atol=2e-16)
    assert sphere.angle(base, point) == pytest.approx(theta, rel=1e-15, abs=1e-16)


def test_equal_points():
    p = unit(0.3, -0.4, 0.5)
    assert sphere.angle(p, p) == 0.0
    assert np.array_equal(sphere.log(p, p), np.zeros(3))
    assert np.array_equal(sphere.exp(np.zeros(3), p), p)
    assert np.array_equal(sphere.geodesic(p, p, 0.5), p)
    tangent = sphere.to_tangent(E1, p)
    assert np.array_equal(sphere.transport(tangent, p, p), tangent)


def test_angle_of_antipodal_points_is_pi():
    assert sphere.angle(E1, -E1) == math.pi


@pytest.mark.parametrize(
    "function", [sphere.log, lambda x, p: sphere.transport(E2, p, x), lambda x, p: sphere.geodesic(p, x, 0.5)]
)
def test_antipodal_points_have_no_direction(function):
    with pytest.raises(InputError, match=r"must not be the antipode of its base point; .* every direction leads there"):
        function(-E1, E1)


def test_antipodal_up_to_rounding_of_the_norm():
    p = np.full(4, 0.5)
    with pytest.raises(InputError, match="antipode"):
        sphere.log(-p * (1 + 2.0**-50), p)


def test_the_sentence_names_the_row():
    rows = np.array([E2, E3, -E1, -E1])
    with pytest.raises(InputError, match=r"^Row 2 of `point` must not be the antipode"):
        sphere.log(rows, E1)
    with pytest.raises(InputError, match=r"^Row 3 of `end_point`"):
        sphere.transport(E2, E1, rows[[0, 1, 1, 2]])
    with pytest.raises(InputError, match=r"^`point` at \[1, 0\]"):
        sphere.log(rows.reshape(2, 2, 3), E1)
    with pytest.raises(InputError, match=r"^`point` must not"):
        sphere.log(-E1, E1)


def test_exp_goes_round():
    np.testing.assert_allclose(sphere.exp(math.pi / 2 * E2, E1), E2, atol=1e-16)
    np.testing.assert_allclose(sphere.exp(math.pi * E2, E1), -E1, atol=2e-16)
    np.testing.assert_allclose(sphere.exp(2 * math.pi * E2, E1), E1, atol=4e-16)


def test_many_steps_stay_on_the_sphere():
    point = unit(1.0, 2.0, 3.0, 4.0)
    rng = np.random.default_rng(3)
    for _ in range(2000):
        point = sphere.exp(sphere.to_tangent(rng.standard_normal(4), point), point)
    assert abs(np.linalg.norm(point) - 1.0) <= 4e-16


def test_geodesic_at_fractions():
    fractions = np.array([0.0, 0.25, 0.5, 1.0, 2.0])
    arc = sphere.geodesic(E1, E2, fractions)
    turned = fractions * math.pi / 2
    np.testing.assert_allclose(arc, np.stack([np.cos(turned), np.sin(turned), 0 * turned], axis=1), atol=4e-16)


def test_transport_round_an_octant_turns_by_its_area():
    # the triangle E1 E2 E3 has area pi/2, and carrying a vector round it turns the vector by that angle
    carried = sphere.transport(sphere.transport(sphere.transport(E2, E1, E2), E2, E3), E3, E1)
    np.testing.assert_allclose(carried, E3, atol=4e-16)


def test_transport_carries_the_base_point_along():
    a, b = unit(1.0, 2.0, -1.0, 0.5), unit(-0.3, 1.0, 0.2, 2.0)
    np.testing.assert_allclose(sphere.transport(a, a, b), b, atol=4e-16)
    np.testing.assert_allclose(sphere.transport(sphere.log(b, a), a, b), -sphere.log(a, b), atol=1e-15)


@pytest.mark.parametrize("base", [E1, -E1, E3, -E3, unit(1e-9, 0, -1.0), unit(1.0, 1.0, 1.0), unit(-1.0, 2.0, 0.0)])
def test_tangent_frame_is_orthonormal_and_orthogonal(base):
    frame = sphere.tangent_frame(base)
    assert frame.shape == (3, 2)
    np.testing.assert_allclose(frame.T @ frame, np.eye(2), atol=4e-16)
    np.testing.assert_allclose(base @ frame, 0.0, atol=4e-16)
    vec = sphere.to_tangent(np.array([0.3, -2.0, 0.7]), base)
    np.testing.assert_allclose(sphere.tangent_coordinates(vec, base), frame.T @ vec, atol=1e-15)
    np.testing.assert_allclose(sphere.tangent_vector(frame.T @ vec, base), vec, atol=1e-15)


def test_leading_axes_broadcast():
    rng = np.random.default_rng(0)
    points = rng.standard_normal((4, 1, 6))
    points /= np.linalg.norm(points, axis=-1, keepdims=True)
    bases = rng.standard_normal((3, 6))
    bases /= np.linalg.norm(bases, axis=-1, keepdims=True)
    assert sphere.angle(points, bases).shape == (4, 3)
    logs = sphere.log(points, bases)
    assert logs.shape == (4, 3, 6)
    np.testing.assert_array_equal(logs[2, 1], sphere.log(points[2, 0], bases[1]))
    np.testing.assert_allclose(sphere.exp(logs, bases), np.broadcast_to(points, (4, 3, 6)), atol=4e-16)
    assert sphere.transport(logs, bases, points).shape == (4, 3, 6)
    assert sphere.tangent_frame(bases).shape == (3, 6, 5)
    assert sphere.tangent_coordinates(logs, bases).shape == (4, 3, 5)
    assert sphere.tangent_vector(rng.standard_normal((7, 1, 5)), bases).shape == (7, 3, 6)
    assert sphere.geodesic(points, bases, [0.1, 0.2, 0.3]).shape == (4, 3, 6)


def test_float32_and_lists_are_computed_in_float64():
    for result in (sphere.angle([1, 0], [0, 1]), sphere.log(E2.astype(np.float32), E1.astype(np.float32))):
        assert result.dtype == np.float64
    assert sphere.angle([1, 0], [0, 1]) == math.pi / 2


def test_vectors_of_different_dimension_are_refused():
    with pytest.raises(InputError, match=r"same last axis, D; got a \(3,\), b \(4,\)"):
        sphere.angle(E1, np.ones(4) / 2)
    with pytest.raises(InputError, match=r"got point \(\), base_point \(3,\)"):
        sphere.log(1.0, E1)


def test_areas():
    areas = [2 * math.pi, 4 * math.pi, 2 * math.pi**2, 8 * math.pi**2 / 3]
    np.testing.assert_allclose(sphere.log_area([2, 3, 4, 5]), np.log(areas), rtol=1e-15)
    assert type(sphere.log_area(3)) is float
    assert np.isfinite(sphere.log_area(100000))


@pytest.mark.parametrize("n_features", [2, 3, 20])
def test_lengths_have_the_bits_of_those_that_are_scaled_first(n_features):
    """Ordinary lengths take a shorter way than lengths whose squares underflow."""
    vectors = np.random.default_rng(0).standard_normal((500, n_features)) * np.logspace(-9, 9, 500)[:, None]
    small = sphere._norm(np.ldexp(vectors, -700))
    np.testing.assert_array_equal(sphere._norm(vectors), np.ldexp(small, 700))
