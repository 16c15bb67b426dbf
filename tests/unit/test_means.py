"""The two means at known values, and each case in which there is none."""

import math

import numpy as np
import pytest
import scipy.sparse as sp

from armillary.exceptions import InputError, ParameterError
from armillary.geometry import means, sphere

E1, E2, E3 = np.eye(3)
MEANS = [means.resultant_mean, means.karcher_mean]


def on_circle(angles):
    return np.stack([np.cos(angles), np.sin(angles)], axis=1)


def test_karcher_mean_on_the_circle_is_the_mean_angle():
    angles = np.array([-1.5, -0.2, 0.1, 0.7, 1.4])
    weights = np.array([1.0, 2.0, 0.5, 3.0, 0.25])
    expected = weights @ angles / weights.sum()
    np.testing.assert_allclose(means.karcher_mean(on_circle(angles), weights), on_circle([expected])[0], atol=1e-15)
    # the resultant mean is another point
    assert abs(math.atan2(*means.resultant_mean(on_circle(angles), weights)[::-1]) - expected) > 0.01


def test_one_row_is_its_own_mean():
    row = np.array([[0.6, 0.0, 0.8]])
    for mean in MEANS:
        np.testing.assert_allclose(mean(row), row[0], atol=1e-16)


def test_symmetric_rows_have_their_axis_as_mean():
    for mean in MEANS:
        np.testing.assert_allclose(mean([E1, E2, E3]), np.full(3, 3**-0.5), atol=2e-16)


def test_rows_beyond_a_half_sphere():
    # four rows 100 degrees from the axis and three on it: a minimum by symmetry, though no ball of 90 degrees has all
    ring = [sphere.exp(math.radians(100) * v, E3) for v in (E1, -E1, E2, -E2)]
    np.testing.assert_allclose(means.karcher_mean([*ring, E3, E3, E3]), E3, atol=1e-15)


@pytest.mark.parametrize("seed", [8, 45, 106, 216, 223, 280])
def test_rows_all_over_the_sphere_lead_downhill_to_a_minimum(seed):
    # starts where Newton's step fails, and where the curvature is negative, among them
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((int(rng.integers(2, 8)), 4 if seed == 280 else 3))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    rows = np.round(rows, 3)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)

    def spread(point):
        return np.mean(sphere.angle(rows, point) ** 2)

    mean = means.karcher_mean(rows)
    assert np.linalg.norm(sphere.log(rows, mean).mean(axis=0)) <= 1e-12
    assert spread(mean) <= spread(means.resultant_mean(rows))
    for step in sphere.tangent_frame(mean).T:
        assert spread(mean) < min(spread(sphere.exp(1e-3 * step, mean)), spread(sphere.exp(-1e-3 * step, mean)))


def test_wide_rows_in_high_dimension_take_few_steps():
    # at 89 degrees the curvature is nearly gone: plain gradient steps would need thousands
    rng = np.random.default_rng(4)
    steps = math.radians(89) * rng.standard_normal((600, 299))
    steps *= math.radians(89) / np.linalg.norm(steps, axis=1, keepdims=True)
    center = np.full(300, 300**-0.5)
    rows = sphere.exp(sphere.tangent_vector(steps, center), center)
    mean = means.karcher_mean(rows, max_iter=10)
    assert np.linalg.norm(sphere.log(rows, mean).mean(axis=0)) <= 1e-12


def test_rows_are_scaled_to_unit_length_and_float32_is_summed_in_float64():
    rows = np.random.default_rng(0).normal([3.0, 0.0, 0.0, 0.0], 1.0, (50, 4))
    units = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    for mean in MEANS:
        np.testing.assert_allclose(mean(1e3 * rows), mean(units), atol=1e-15)
        single = mean(units.astype(np.float32))
        assert single.dtype == np.float64
        np.testing.assert_allclose(np.linalg.norm(single), 1.0, atol=4e-16)
        np.testing.assert_allclose(single, mean(units), atol=1e-7)


def test_sparse_rows_have_the_mean_of_dense_ones():
    rows = np.abs(
        sp.random_array((40, 12), density=0.4, random_state=np.random.default_rng(1)).toarray()
    ) + 0.1 * np.eye(40, 12)
    rows[:, 0] += 0.5
    for mean in MEANS:
        np.testing.assert_allclose(mean(sp.csr_array(rows)), mean(rows), atol=1e-15)


def test_rows_of_weight_zero_do_not_count():
    rows = np.array([E1, E2, -E1, -E2])
    for mean in MEANS:
        np.testing.assert_allclose(mean(rows, [1, 1, 0, 0]), mean([E1, E2]), atol=1e-16)


@pytest.mark.parametrize("mean", MEANS)
def test_rows_that_cancel_are_refused(mean):
    name = mean.__name__
    sentence = rf"The rows of {name} must have a direction in common; .* they cancel, as an antipodal pair does"
    with pytest.raises(InputError, match=sentence):
        mean([E1, -E1])
    with pytest.raises(InputError, match=sentence):
        mean([E1, E2, -E1], [2.0, 0.0, 2.0])
    ring = on_circle(np.arange(7) * 2 * math.pi / 7)
    with pytest.raises(InputError, match=sentence):
        mean(ring)


def test_a_row_opposite_to_the_mean_is_refused():
    with pytest.raises(InputError, match=r"stay clear of the antipode of their mean; one \(2,"):
        means.karcher_mean([E1, E1, -E1])


def test_no_convergence_is_said():
    rows = on_circle(np.array([0.0, 0.3, 2.9]))
    with pytest.raises(InputError, match=r"shorten its gradient to tol=1e-12; .* was left after max_iter=1 steps"):
        means.karcher_mean(np.c_[rows, [0.5, 0.1, 0.2]], max_iter=1)


@pytest.mark.parametrize("mean", MEANS)
@pytest.mark.parametrize(
    ("weights", "sentence"),
    [([1.0], "one number per row"), ([1.0, -1.0], "not negative"), ([1.0, math.nan], "finite"), ([0, 0], "positive")],
)
def test_weights_that_are_none_are_refused(mean, weights, sentence):
    with pytest.raises(InputError, match=sentence):
        mean([E1, E2], weights)


@pytest.mark.parametrize("mean", MEANS)
def test_rows_that_are_none_are_refused(mean):
    with pytest.raises(InputError, match="at least one row"):
        mean(np.empty((0, 3)))
    with pytest.raises(InputError, match="2-D"):
        mean(E1)
    with pytest.raises(InputError, match=r"Row 1 .*norm 0"):
        mean([E1, 0 * E1])
    with pytest.raises(InputError, match=r"Row 1 .*NaN"):
        mean([E1, math.nan * E1])


def test_parameters_out_of_range_are_refused():
    with pytest.raises(ParameterError, match="`max_iter` of karcher_mean"):
        means.karcher_mean([E1], max_iter=0)
    with pytest.raises(ParameterError, match="`tol` of karcher_mean"):
        means.karcher_mean([E1], tol=-1.0)
