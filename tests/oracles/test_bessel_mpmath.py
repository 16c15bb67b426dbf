"""log H, log C, A, 1 - A, A' and the inverse against many-digit values, D = 2 .. 100000, k = 0 .. 1e8.

The many-digit values come from the power series of H, summed outwards from its largest term in integers of 200 bits.
Its terms are the weights of a law on n = 0, 1, ..., and k A = 2 E[n], k A + k^2 A' = 4 Var[n]. That needs about
20 sqrt(k) terms, where mpmath's own series needs k of them and gives up; where mpmath does answer the two are compared.
"""

import math
from fractions import Fraction
from functools import cache

import mpmath as mp
import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import gammaln, ive
from tests.making import each

from armillary.distributions import bessel
from armillary.exceptions import ParameterError
from armillary.geometry.sphere import log_area

DIMENSIONS = (2, 3, 4, 5, 10, 20, 31, 32, 33, 61, 62, 128, 384, 1536, 20733, 53975, 100000)
DIGITS = 60


@pytest.fixture(autouse=True)
def many_digits():
    with mp.workdps(DIGITS):
        yield


def concentrations(dimension):
    """Decades and random values, and both sides of the borders between series and expansion."""
    order = dimension / 2 - 1
    border = math.sqrt(900 - order**2) if order < 30 else 2 * math.sqrt(order + 1)
    near = [border * factor for factor in (0.5, 0.97, 1 - 1e-9, 1 + 1e-9, 1.03, 2.0)]
    spread = 10.0 ** np.random.default_rng(dimension).uniform(-3, 7, 12)
    around = [max(order, 1.0) * factor for factor in (0.3, 1.0, 3.0)]
    return [float(k) for k in (1e-8, 1e-4, 0.5, *near, *spread, *around, 1e6, 1e7, 1e8)]


@cache
def exact(dimension, k):
    """(log H, A, A') at the float k."""
    order, x = Fraction(dimension, 2) - 1, Fraction(k) ** 2 / 4
    a, b = order.numerator, order.denominator
    num, den = x.numerator, x.denominator
    # the largest term has n (order + n) = x
    peak = max(0, math.floor((math.sqrt(float(order) ** 2 + k * k) - float(order)) / 2))
    one = 1 << 200
    total, first, second = one, 0, 0
    term, n = one, peak
    while term:
        n += 1
        term = term * num * b // (den * n * (a + n * b))
        total, first, second = total + term, first + term * (n - peak), second + term * (n - peak) ** 2
    term, n = one, peak
    while term and n:
        term = term * den * n * (a + n * b) // (num * b)
        n -= 1
        total, first, second = total + term, first + term * (n - peak), second + term * (n - peak) ** 2
    shift, k_ = mp.mpf(first) / total, mp.mpf(k)
    mean, variance = peak + shift, mp.mpf(second) / total - shift**2
    order_ = mp.mpf(a) / b
    log_peak = (
        peak * mp.log(k_**2 / 4) - mp.loggamma(peak + 1) - mp.loggamma(order_ + peak + 1) + mp.loggamma(order_ + 1)
    )
    return mp.log(mp.mpf(total) / one) + log_peak, 2 * mean / k_, (4 * variance - 2 * mean) / k_**2


def exact_log_area(dimension):
    half = mp.mpf(dimension) / 2
    return mp.log(2) + half * mp.log(mp.pi) - mp.loggamma(half)


def relative(got, true):
    return float(abs(mp.mpf(float(got)) - true) / abs(true))


def worst(errors):
    return max(errors), f"worst (error, D, k): {max(errors)}"


def debye_rows(n_rows):
    """P_1 .. P_n in exact fractions: the Debye polynomials U_k by recurrence, then the logarithm of their series."""
    polynomials = [{0: Fraction(1)}]
    for _ in range(n_rows):
        # U_{k+1} = p^2 (1-p^2) U_k'/2 + (1/8) integral_0^p (1 - 5 t^2) U_k
        following = {}
        for power, c in polynomials[-1].items():
            rise, fall = c * Fraction(power, 2) + c / 8 / (power + 1), -c * Fraction(power, 2) - 5 * c / 8 / (power + 3)
            following[power + 1] = following.get(power + 1, 0) + rise
            following[power + 3] = following.get(power + 3, 0) + fall
        polynomials.append(following)
    logs = [{}]
    for k in range(1, n_rows + 1):
        # k L_k = k U_k - sum_{j<k} j L_j U_{k-j}
        row = dict(polynomials[k])
        for j in range(1, k):
            for p, c in logs[j].items():
                for q, d in polynomials[k - j].items():
                    row[p + q] = row.get(p + q, 0) - Fraction(j, k) * c * d
        logs.append(row)
    return [[logs[k].get(k + 2 * j, Fraction(0)) for j in range(k + 1)] for k in range(1, n_rows + 1)]


def test_stored_debye_rows_are_the_exact_ones_rounded():
    assert [list(row) for row in bessel._DEBYE_ROWS] == [[float(c) for c in row] for row in debye_rows(12)]


def test_debye_rows_at_one_are_minus_stirlings_coefficients():
    sums = [sum(row) for row in debye_rows(9)]
    assert sums[1::2] == [0, 0, 0, 0]
    assert [float(-s) for s in sums[::2]] == list(bessel._STIRLING)


def test_log_2_is_split_without_loss():
    assert mp.mpf(bessel._LOG2_HIGH) + mp.mpf(bessel._LOG2_LOW) == pytest.approx(mp.log(2), abs=1e-24)
    assert (bessel._LOG2_HIGH * 2**26).is_integer()


@pytest.mark.parametrize(
    ("dimension", "k"), [(2, 0.3), (2, 1e4), (3, 30.0), (20, 1e-3), (384, 50.0), (1536, 1e3), (20733, 700.0)]
)
def test_the_oracle_agrees_with_mpmath(dimension, k):
    order = mp.mpf(dimension) / 2 - 1
    log_h, a, slope = exact(dimension, k)
    ratio = mp.besseli(order + 1, k) / mp.besseli(order, k)
    assert abs(log_h / mp.log(mp.hyp0f1(order + 1, mp.mpf(k) ** 2 / 4)) - 1) < mp.mpf(10) ** -40
    assert abs(a / ratio - 1) < mp.mpf(10) ** -40
    assert abs(slope / (1 - ratio**2 - (dimension - 1) * ratio / mp.mpf(k)) - 1) < mp.mpf(10) ** -35


@pytest.mark.parametrize("dimension", DIMENSIONS)
def test_log_h(dimension):
    order = dimension / 2 - 1
    plain, scaled = [], []
    for k in concentrations(dimension):
        true = exact(dimension, k)[0]
        plain.append((relative(bessel.log_h(order, k), true), dimension, k))
        # log H - k can pass through 0, so the error is measured against 1 there
        rest = true - mp.mpf(k)
        scaled.append((float(abs(bessel.log_h(order, k, scaled=True) - rest) / max(1, abs(rest))), dimension, k))
    (error, *_), message = worst(plain)
    assert error <= 1e-15, message
    (error, *_), message = worst(scaled)
    assert error <= 2e-15, message


@pytest.mark.parametrize("dimension", DIMENSIONS)
def test_log_normalizer(dimension):
    errors = []
    for k in concentrations(dimension):
        true = -exact_log_area(dimension) - exact(dimension, k)[0]
        errors.append((float(abs(bessel.log_normalizer(dimension, k) - true) / max(1, abs(true))), dimension, k))
    (error, *_), message = worst(errors)
    assert error <= 1e-14, message


@pytest.mark.parametrize("dimension", [384, 1536, 20733, 53975, 99999, 100000])
def test_log_normalizer_where_its_parts_cancel(dimension):
    # log C = 0 here, as the difference of two numbers of size log_area, up to 4e5
    zero = brentq(lambda k: bessel.log_normalizer(dimension, k), 1.0, 1e9)
    errors = []
    for k in zero + np.linspace(-2, 2, 9):
        true = -exact_log_area(dimension) - exact(dimension, float(k))[0]
        errors.append((float(abs(bessel.log_normalizer(dimension, k) - true)), dimension, k))
    (error, *_), message = worst(errors)
    assert error <= 3e-11, message


@pytest.mark.parametrize("dimension", DIMENSIONS)
def test_mean_resultant_length_complement_and_derivative(dimension):
    lengths, complements, derivatives = [], [], []
    for k in concentrations(dimension):
        _, a, slope = exact(dimension, k)
        lengths.append((relative(bessel.mean_resultant_length(dimension, k), a), dimension, k))
        complements.append((relative(bessel.mean_resultant_complement(dimension, k), 1 - a), dimension, k))
        derivatives.append((relative(bessel.mean_resultant_derivative(dimension, k), slope), dimension, k))
    (error, *_), message = worst(lengths)
    assert error <= 2e-15, message
    # near k = 30 on the circle the series loses a factor 2k, then 2k^2
    (error, *_), message = worst(complements)
    assert error <= 1e-13, message
    (error, *_), message = worst(derivatives)
    assert error <= 5e-12, message


@each("dimension", DIMENSIONS)
@each("how", ["length", "complement"])
def test_inverse_against_the_exact_inverse_of_the_same_float(dimension, how):
    errors = []
    for k in concentrations(dimension):
        given = getattr(bessel, f"mean_resultant_{how}")(dimension, k)
        if given >= 1.0:
            continue
        found = bessel.concentration_from_resultant(dimension, **{how: given})
        # one many-digit Newton step from a root good to 1e-13 is good to 1e-25
        _, a, slope = exact(dimension, found)
        excess = a - mp.mpf(given) if how == "length" else mp.mpf(given) - (1 - a)
        errors.append((relative(found, mp.mpf(found) - excess / slope), dimension, k))
    (error, *_), message = worst(errors)
    assert error <= 1e-13, message


@pytest.mark.parametrize("dimension", DIMENSIONS)
def test_round_trip_within_its_conditioning(dimension):
    k = np.array(concentrations(dimension))
    a, gap = bessel.mean_resultant_length(dimension, k), bessel.mean_resultant_complement(dimension, k)
    back = bessel.concentration_from_resultant(dimension, a)
    rounding = np.spacing(a) / (bessel.mean_resultant_derivative(dimension, k) * k)
    inside = a < 1.0
    assert np.all(np.abs(back / k - 1.0)[inside] <= 4.0 * rounding[inside] + 2e-13)
    # with both given nothing is lost, from 1e-8 to 1e8
    both = bessel.concentration_from_resultant(dimension, a, complement=gap)
    np.testing.assert_allclose(both, k, rtol=2e-13)


@pytest.mark.parametrize("dimension", DIMENSIONS)
def test_bounds_of_hornik_gruen_and_amos(dimension):
    v, k = dimension / 2 - 1, np.array(concentrations(dimension))

    def height(a, b):
        return k**2 / (np.hypot(k, b) + b) - a * np.log1p(k**2 / (np.hypot(k, b) + b) / (a + b))

    def ratio(a, b):
        return k / (a + np.hypot(k, b))

    middle, root = v + 0.5, math.sqrt((v + 0.5) * (v + 1.5))
    slack = 1e-13
    log_h, a = bessel.log_h(v, k), bessel.mean_resultant_length(dimension, k)
    assert np.all(height(middle, v + 1.5) <= log_h * (1 + slack))
    assert np.all(log_h <= np.minimum(height(v, v + 2), height(middle, root)) * (1 + slack))
    assert np.all(ratio(middle, v + 1.5) <= a * (1 + slack))
    assert np.all(a <= np.minimum(ratio(v, v + 2), ratio(middle, root)) * (1 + slack))


def test_closed_forms_on_the_sphere_in_three_dimensions():
    for k in (1e-6, 0.1, 1.0, 5.0, 29.0, 31.0, 1e3, 1e7):
        x = mp.mpf(k)
        assert relative(bessel.log_h(0.5, k), mp.log(mp.sinh(x) / x)) <= 1e-15
        assert relative(bessel.mean_resultant_length(3, k), mp.coth(x) - 1 / x) <= 2e-15
        assert relative(bessel.mean_resultant_derivative(3, k), 1 / x**2 - mp.csch(x) ** 2) <= 5e-12


@pytest.mark.parametrize("dimension", [2, 3, 5, 20, 64])
def test_against_scipy_where_it_does_not_underflow(dimension):
    v, k = dimension / 2 - 1, np.geomspace(1e-2, 1e5, 200)
    scaled = np.log(ive(v, k)) - log_area(dimension) + (v + 1) * np.log(2 * np.pi) - v * np.log(k)
    np.testing.assert_allclose(bessel.log_h(v, k, scaled=True), scaled, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(bessel.mean_resultant_length(dimension, k), ive(v + 1, k) / ive(v, k), rtol=1e-13)


def test_values_at_zero():
    d = np.array([2, 3, 10, 100000])
    assert np.array_equal(bessel.log_h(d / 2 - 1, 0.0), np.zeros(4))
    assert np.array_equal(bessel.log_normalizer(d, 0.0), -log_area(d))
    assert np.array_equal(bessel.mean_resultant_length(d, 0.0), np.zeros(4))
    assert np.array_equal(bessel.mean_resultant_complement(d, 0.0), np.ones(4))
    np.testing.assert_allclose(bessel.mean_resultant_derivative(d, 0.0), 1 / d, rtol=1e-15)
    assert bessel.concentration_from_resultant(5, 0.0) == 0.0
    assert bessel.concentration_from_resultant(5, complement=1.0) == 0.0
    # linear at the origin, down to where squares underflow
    assert bessel.mean_resultant_length(4, 1e-200) == pytest.approx(2.5e-201, rel=1e-15)
    assert bessel.concentration_from_resultant(4, 2.5e-201) == pytest.approx(1e-200, rel=1e-15)


@pytest.mark.parametrize("k", [1e10, 1e15, 1e200, 1e300])
def test_far_concentrations_follow_the_asymptotic_series(k):
    d = np.array([2, 3, 4, 50, 1000])
    v = d / 2 - 1
    rest = gammaln(v + 1) + v * math.log(2) - 0.5 * math.log(2 * math.pi) - (v + 0.5) * math.log(k)
    np.testing.assert_allclose(bessel.log_h(v, k, scaled=True), rest, rtol=1e-7)
    np.testing.assert_allclose(bessel.log_h(v, k), k + rest, rtol=1e-14)
    gap = (d - 1) / (2 * k) * (1 - (d - 3) / (4 * k))
    np.testing.assert_allclose(bessel.mean_resultant_complement(d, k), gap, rtol=1e-15)
    np.testing.assert_allclose(bessel.mean_resultant_derivative(d, k), (d - 1) / 2 / k / k, rtol=1e-6)
    if k < 1e200:
        np.testing.assert_allclose(bessel.concentration_from_resultant(d, complement=gap), k, rtol=1e-14)


def test_length_one_has_infinite_concentration():
    assert bessel.concentration_from_resultant(7, 1.0) == math.inf
    assert bessel.concentration_from_resultant(7, complement=[0.0, 0.5])[0] == math.inf


def test_scalars_give_floats_and_arrays_broadcast():
    functions = (bessel.log_normalizer, bessel.mean_resultant_length, bessel.mean_resultant_complement)
    for function in (*functions, bessel.mean_resultant_derivative, bessel.concentration_from_resultant):
        assert type(function(3, 0.25)) is float
        grid = function(np.array([[2], [3], [400]]), [0.1, 0.2, 0.3, 0.9])
        assert grid.shape == (3, 4)
        assert grid.dtype == np.float64
        assert grid[1, 2] == function(3, 0.3)
        assert function(3, np.empty(0)).shape == (0,)
    assert type(bessel.log_h(0, 1)) is float
    assert bessel.log_h(np.zeros((2, 1)), np.ones(5)).shape == (2, 5)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: bessel.log_h(-0.5, 1.0), r"`order` must be a finite number >= 0; got -0\.5"),
        (lambda: bessel.mean_resultant_length(1, 1.0), r"`dimension` must be a finite number >= 2; got 1\.0"),
        (lambda: bessel.log_normalizer(3, [1.0, -2.0]), r"`concentration` must be a finite number >= 0; got -2\.0"),
        (lambda: bessel.log_h(0, math.nan), r"`concentration` .* got nan"),
        (lambda: bessel.log_h(0, math.inf), r"`concentration` .* got inf"),
        (lambda: bessel.concentration_from_resultant(3, 1.5), r"`length` must be a number from 0 to 1; got 1\.5"),
        (lambda: bessel.concentration_from_resultant(3, complement=-1e-9), r"`complement` .* got -1e-09"),
        (lambda: bessel.concentration_from_resultant(3), r"`length` or `complement`; got neither"),
        (lambda: bessel.concentration_from_resultant(3, 0.5, complement=0.4), r"add up to 1; they are off by 0\.1"),
    ],
)
def test_what_is_out_of_range_is_refused(call, sentence):
    with pytest.raises(ParameterError, match=sentence):
        call()
