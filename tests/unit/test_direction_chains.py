"""Chains of directions: limits of the drift, messages, the factorised form and its bound, and what is kept small."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest

from armillary.distributions import bessel, vmf
from armillary.distributions import direction_chains as dc
from armillary.distributions import natural_vectors as nv
from armillary.exceptions import InputError, ParameterError

every_drift = pytest.mark.parametrize("drift", [0.0, 0.3, 12.0, 3e4, math.inf])
every_dimension = pytest.mark.parametrize("dimension", [2, 3, 60])


def problem(dimension, n_slices=5, n_chains=4, seed=0, strength=2.5):
    """Chains with an empty slice in the middle, and a chain without any rows."""
    rng = np.random.default_rng(seed)
    evidence = (
        10.0 * rng.gamma(1.0, size=(n_slices, n_chains, 1)) * rng.standard_normal((n_slices, n_chains, dimension))
    )
    evidence += 20.0 * rng.standard_normal((n_chains, dimension))
    if n_slices > 2:
        evidence[n_slices // 2] = 0.0
    evidence[:, -1] = 0.0
    first = rng.standard_normal(dimension)
    return dc.Chains.of(evidence, strength * first / np.linalg.norm(first))


def whole_bound(chains, laws, drift):
    return dc.factorised_bounds(chains, laws, drift) + dc.alignments(chains, laws)


def log_h(dimension, vectors):
    return np.asarray(bessel.log_h(0.5 * dimension - 1.0, nv.natural_lengths(vectors)))


# ------------------------------------------------------------------------------------------------------------- conv


@pytest.mark.parametrize("dimension", [2, 3, 1000])
def test_conv_at_its_ends(dimension):
    values = np.array([0.0, 1e-12, 0.5, 7.0, 1e4, 1e9, np.inf])
    np.testing.assert_array_equal(nv.conv(dimension, values, np.inf), values)
    np.testing.assert_array_equal(nv.conv(dimension, np.inf, values), values)
    np.testing.assert_array_equal(nv.conv(dimension, values, 0.0), np.zeros_like(values))
    table = nv.conv(dimension, values[:, None], values)
    np.testing.assert_allclose(table, table.T, rtol=1e-9)
    assert np.all(table <= np.minimum(values[:, None], values))
    assert np.all(np.diff(table, axis=0) >= 0.0)


def test_conv_near_its_ends():
    # spreads add: (D-1)/(2k) far out, and A(c) k near 0
    assert nv.conv(50, 1e10, 3e10) == pytest.approx(0.75e10, rel=1e-6)
    assert nv.conv(50, 1e-9, 40.0) == pytest.approx(1e-9 * bessel.mean_resultant_length(50, 40.0), rel=1e-9)
    assert nv.conv(50, 25.0, 1e15) == pytest.approx(25.0, rel=1e-12)
    assert isinstance(nv.conv(3, 1.0, 2.0), float)
    assert nv.conv(3, 1.0, 2.0) == vmf.convolved_concentration(3, 1.0, 2.0)


def test_conv_refuses_what_is_no_concentration():
    with pytest.raises(ParameterError, match="`concentration` must be a finite number >= 0; got nan"):
        nv.conv(3, np.nan, 1.0)
    with pytest.raises(ParameterError, match=r"`concentration` must be a finite number >= 0; got -1\.0"):
        nv.conv(3, 2.0, -1.0)


def test_convolved_keeps_directions():
    rng = np.random.default_rng(0)
    vectors = rng.standard_normal((4, 7))
    vectors[2] = 0.0
    made = nv.convolved(vectors, np.array([3.0, 0.0, 5.0, np.inf]))
    np.testing.assert_array_equal(made[[1, 2]], 0.0)
    np.testing.assert_array_equal(made[3], vectors[3])
    length = np.linalg.norm(vectors[0])
    np.testing.assert_allclose(made[0], vectors[0] / length * nv.conv(7, length, 3.0), rtol=1e-13)


@every_drift
def test_many_steps_are_single_ones(drift):
    vectors = np.array([[0.0, 30.0, 4.0, 0.0, 1.0], [0.0, 0.0, 0.0, 0.0, 1e-3]])
    np.testing.assert_array_equal(nv.ahead(vectors, drift, 0), vectors)
    one_by_one = vectors
    for n_steps in range(1, 5):
        one_by_one = nv.convolved(one_by_one, drift)
        np.testing.assert_allclose(nv.ahead(vectors, drift, n_steps), one_by_one, rtol=1e-11, atol=1e-300)


def test_steps_of_each_chain():
    vectors, drifts = np.ones((3, 4)), np.array([0.0, 5.0, np.inf])
    made = nv.ahead(vectors, drifts, 3)
    for chain, drift in enumerate(drifts):
        np.testing.assert_array_equal(made[chain], nv.ahead(vectors[chain], drift, 3))
    with pytest.raises(ParameterError, match="`n_steps` of ahead must be an int >= 0; got -1"):
        nv.ahead(vectors, 1.0, -1)


# --------------------------------------------------------------------------------------------------------- messages


@every_dimension
def test_no_drift_is_one_model_for_all_times(dimension):
    chains = problem(dimension)
    total = chains.first + np.sum(chains.evidence, axis=0)
    for laws in (dc.smoothed(chains, np.inf), dc.sweep(chains, dc.ChainLaws.uniform(chains), np.inf)):
        np.testing.assert_allclose(laws.natural_vectors, np.broadcast_to(total, laws.natural_vectors.shape), atol=1e-11)
        np.testing.assert_allclose(laws.concentrations[2], np.linalg.norm(total, axis=1), rtol=1e-13)
    exact = log_h(dimension, total) - log_h(dimension, chains.first)
    np.testing.assert_allclose(dc.evidence(chains, np.inf), exact, atol=1e-11)
    np.testing.assert_allclose(whole_bound(chains, laws, np.inf), exact, atol=1e-10)
    # and the limit is reached
    np.testing.assert_allclose(dc.evidence(chains, 1e13), exact, atol=1e-6)
    np.testing.assert_allclose(dc.smoothed(chains, 1e13).natural_vectors, laws.natural_vectors, atol=1e-5)


@every_dimension
def test_drift_that_forgets_all_makes_slices_independent(dimension):
    chains = problem(dimension)
    alone = np.array(chains.evidence)
    alone[0] += chains.first
    for laws in (dc.smoothed(chains, 0.0), dc.sweep(chains, dc.ChainLaws.uniform(chains), 0.0)):
        np.testing.assert_array_equal(laws.natural_vectors, alone)
    exact = log_h(dimension, alone).sum(axis=0) - log_h(dimension, chains.first)
    np.testing.assert_allclose(dc.evidence(chains, 0.0), exact, rtol=1e-13)
    np.testing.assert_allclose(whole_bound(chains, laws, 0.0), exact, rtol=1e-12, atol=1e-10)
    np.testing.assert_allclose(dc.evidence(chains, 1e-7), exact, atol=1e-4)
    np.testing.assert_allclose(dc.smoothed(chains, 1e-7).natural_vectors, alone, atol=1e-5)


@every_drift
def test_one_slice_is_the_conjugate_posterior(drift):
    chains = problem(6, n_slices=1)
    exact = log_h(6, chains.first + chains[0]) - log_h(6, chains.first)
    for laws in (dc.smoothed(chains, drift), dc.sweep(chains, dc.ChainLaws.uniform(chains), drift)):
        np.testing.assert_array_equal(laws.natural_vectors[0], chains.first + chains[0])
        np.testing.assert_allclose(whole_bound(chains, laws, drift), exact, atol=1e-10)
    np.testing.assert_allclose(dc.evidence(chains, drift), exact, rtol=1e-13, atol=1e-13)


@every_drift
def test_messages_by_hand(drift):
    chains = problem(4, n_slices=3)
    v = [chains[time] for time in range(3)]
    q2 = nv.convolved(chains.first + v[0], drift)
    q3 = nv.convolved(q2 + v[1], drift)
    b2 = nv.convolved(v[2], drift)
    b1 = nv.convolved(b2 + v[1], drift)
    for (q, f), expected, own in zip(dc.forward(chains, drift), (chains.first, q2, q3), v, strict=True):
        np.testing.assert_array_equal(q, expected)
        np.testing.assert_array_equal(f, expected + own)
    for b, expected in zip(dc.backward(chains, drift), (np.zeros_like(b1), b2, b1), strict=True):
        np.testing.assert_array_equal(b, expected)
    laws = dc.smoothed(chains, drift)
    by_hand = np.array([chains.first + v[0] + b1, q2 + v[1] + b2, q3 + v[2]])
    np.testing.assert_allclose(laws.natural_vectors, by_hand, rtol=1e-13, atol=1e-13)
    np.testing.assert_allclose(laws.means(1), nv.natural_means(by_hand[1]), rtol=1e-12, atol=1e-15)


def test_time_can_run_backwards_from_a_uniform_start():
    chains = problem(5, strength=0.0)
    turned = dc.Chains.of(np.array(chains.evidence)[::-1], np.zeros(5))
    for drift in (0.4, 9.0, 500.0):
        np.testing.assert_allclose(
            dc.smoothed(turned, drift).natural_vectors[::-1], dc.smoothed(chains, drift).natural_vectors, atol=1e-11
        )


def test_an_empty_last_slice_is_a_prediction():
    chains = problem(8, n_slices=2)
    longer = dc.Chains.of([chains[0], chains[1], np.zeros_like(chains[0]), np.zeros_like(chains[0])], chains.first)
    last = dc.smoothed(chains, 15.0).natural_vectors[-1]
    np.testing.assert_allclose(dc.smoothed(longer, 15.0).natural_vectors[-1], nv.ahead(last, 15.0, 2), rtol=1e-12)
    np.testing.assert_allclose(dc.evidence(longer, 15.0), dc.evidence(chains, 15.0), atol=1e-11)


def test_chains_do_not_see_each_other():
    chains = problem(9)
    for chain in range(4):
        alone = dc.Chains.of(np.array(chains.evidence)[:, [chain]], chains.first[[chain]])
        # to the bit: no sum runs over chains
        np.testing.assert_array_equal(
            dc.smoothed(alone, 20.0).natural_vectors[:, 0], dc.smoothed(chains, 20.0).natural_vectors[:, chain]
        )


# --------------------------------------------------------------------------------------------------- what is kept small


def test_slices_may_be_made_when_asked_for():
    whole = problem(40)
    kappas = np.array([2.0, 50.0, 0.1, 1.0])
    resultants = np.array(whole.evidence) / kappas[:, None]
    lazy = dc.Chains.of(dc.ScaledSlices(list(resultants), kappas), whole.first[0])
    np.testing.assert_allclose(
        dc.smoothed(lazy, 7.0).natural_vectors, dc.smoothed(whole, 7.0).natural_vectors, rtol=1e-12, atol=1e-12
    )
    assert dc.learn_drift(lazy) == pytest.approx(dc.learn_drift(whole), rel=1e-6)


def test_single_precision_is_kept_and_close():
    chains = problem(40)
    single = dc.Chains.of(np.array(chains.evidence, dtype=np.float32), chains.first)
    laws = dc.smoothed(single, 7.0, dtype=np.float32)
    assert laws.natural_vectors.dtype == np.float32
    assert dc.sweep(single, laws, 7.0).natural_vectors.dtype == np.float32
    scale = np.abs(np.array(chains.evidence)).max()
    np.testing.assert_allclose(laws.natural_vectors, dc.smoothed(chains, 7.0).natural_vectors, atol=1e-6 * scale)
    assert laws.means(0).dtype == np.float64


@pytest.mark.parametrize("block", [1, 1 << 24])
def test_reduced_chains_have_the_same_evidence(block, monkeypatch):
    monkeypatch.setattr(dc, "_REDUCED_VALUES", block)
    chains = problem(200)
    # slices of very different weight
    chains = replace(chains, evidence=np.array(chains.evidence) * np.array([1e5, 1.0, 1.0, 1e-4, 10.0])[:, None, None])
    small = chains.reduced()
    assert small[0].shape == (4, 6)
    for drift in (0.0, 3.0, 1e4, np.inf):
        np.testing.assert_allclose(dc.evidence(small, drift), dc.evidence(chains, drift), rtol=1e-11, atol=1e-10)
        ours, theirs = dc.smoothed(small, drift), dc.smoothed(chains, drift)
        np.testing.assert_allclose(ours.concentrations, theirs.concentrations, rtol=1e-11, atol=1e-11)
        np.testing.assert_allclose(dc.alignments(small, ours), dc.alignments(chains, theirs), rtol=1e-11, atol=1e-10)
    few = problem(3)
    assert few.reduced() is few


def test_several_drifts_at_once():
    chains = problem(5)
    drifts = np.array([0.0, 2.0, 80.0, np.inf])
    together = dc.evidence(chains, drifts[:, None])
    for number, drift in enumerate(drifts):
        np.testing.assert_allclose(together[number], dc.evidence(chains, drift), rtol=1e-13, atol=1e-13)
    own = dc.evidence(chains, drifts)  # one for each of the four chains
    np.testing.assert_allclose(own, np.diag(together), rtol=1e-13, atol=1e-13)


# ----------------------------------------------------------------------------------------------------- learned drift


def test_the_learned_drift_has_the_greatest_evidence():
    rng = np.random.default_rng(2)
    walk = 5.0 * rng.standard_normal((3, 30)) + np.cumsum(rng.standard_normal((10, 3, 30)), axis=0)
    chains = dc.Chains.of(20.0 * walk, np.zeros(30))
    best = dc.learn_drift(chains)
    assert 0.0 < best < math.inf
    peak = dc.evidence(chains, best).sum()
    for factor in (0.01, 0.5, 0.99, 1.01, 2.0, 100.0):
        assert dc.evidence(chains, factor * best).sum() < peak
    assert peak > max(dc.evidence(chains, end).sum() for end in (0.0, np.inf))


def test_slices_that_agree_show_no_drift():
    rng = np.random.default_rng(1)
    one = 20.0 * rng.standard_normal((3, 30))
    assert dc.learn_drift(dc.Chains.of([one, one, 2.0 * one], np.zeros(30))) == math.inf


def test_slices_that_turn_away_forget_all():
    pole = 30.0 * np.eye(5)[:1]
    assert dc.learn_drift(dc.Chains.of([pole, -pole, pole, -pole], np.zeros(5))) == 0.0


def test_where_nothing_can_be_learned_there_is_no_drift():
    rng = np.random.default_rng(1)
    rows, nothing = 20.0 * rng.standard_normal((3, 30)), np.zeros((3, 30))
    for slices in ([rows], [nothing], [nothing, nothing], [nothing, rows, nothing]):
        assert dc.learn_drift(dc.Chains.of(slices, np.zeros(30))) == math.inf


@pytest.mark.parametrize("dimension", [2, 3, 50, 20_000])
@pytest.mark.parametrize("share", [1e-3, 1.0, 40.0, 1e6])
def test_a_table_of_the_drift_is_the_drift(dimension, share):
    drift = share * dimension
    lengths = dimension * np.exp(np.random.default_rng(0).uniform(-25.0, 40.0, size=(4, 500)))
    lengths[0, :2] = 0.0, 1e-300
    ratios = nv.tabulated(dimension, drift).ratios(lengths)
    exact = np.asarray(nv.conv(dimension, lengths, drift))
    np.testing.assert_allclose(ratios * lengths, exact, rtol=2e-10)
    # several drifts at once, each with lengths of its own or with the same ones
    drifts = np.array([[0.1], [3.0], [70.0], [2e4]]) * dimension
    table = nv.TabulatedDrift(dimension, drifts)
    np.testing.assert_allclose(table.ratios(lengths) * lengths, nv.conv(dimension, lengths, drifts), rtol=2e-10)
    np.testing.assert_allclose(
        table.ratios(lengths[1]) * lengths[1], nv.conv(dimension, lengths[1], drifts), rtol=2e-10
    )
    # of lengths that are known to be short a table is shorter, and still right beyond its end
    short = nv.TabulatedDrift(dimension, drift, longest=2.0 * dimension)
    np.testing.assert_allclose(short.ratios(lengths) * lengths, exact, rtol=2e-10)


def test_the_ends_of_the_drift_have_no_table():
    assert nv.tabulated(3, 0.0) == 0.0
    assert nv.tabulated(3, math.inf) == math.inf


@pytest.mark.parametrize("dimension", [3, 60])
def test_smoothing_by_a_table_and_with_its_evidence(dimension):
    chains = problem(dimension, n_slices=8)
    for drift in (0.3, 12.0, 3e4):
        exact = dc.smoothed(chains, drift)
        laws, evidence = dc.smoothed_with_evidence(chains, nv.tabulated(dimension, drift))
        scale = exact.concentrations.max()
        np.testing.assert_allclose(laws.natural_vectors, exact.natural_vectors, atol=1e-9 * scale)
        np.testing.assert_allclose(evidence, dc.evidence(chains, drift), atol=1e-7)


def test_a_search_may_begin_near_a_drift():
    rng = np.random.default_rng(2)
    walk = 5.0 * rng.standard_normal((3, 30)) + np.cumsum(rng.standard_normal((10, 3, 30)), axis=0)
    chains = dc.Chains.of(20.0 * walk, np.zeros(30))
    best = dc.learn_drift(chains)
    # within reach, out of reach, and the ends
    for near in (1.3 * best, 0.6 * best, 30.0 * best, 1e-3 * best, 0.0, math.inf):
        assert dc.learn_drift(chains, near=near) == pytest.approx(best, rel=1e-3)


# ------------------------------------------------------------------------------------------------------- factorised


@pytest.mark.parametrize("dimension", [3, 60])
@pytest.mark.parametrize("n_slices", [1, 2, 5])
@pytest.mark.parametrize("is_learned", [False, True])
def test_the_bound_rises_with_every_single_update(dimension, n_slices, is_learned):
    chains, drift = problem(dimension, n_slices), 9.0
    laws = dc.ChainLaws.uniform(chains)
    bounds = [whole_bound(chains, laws, drift)]
    for number, time in itertools.product(range(8), [*range(n_slices), *reversed(range(n_slices - 1))]):
        laws = dc.sweep(chains, laws, drift, [time])
        bounds.append(whole_bound(chains, laws, drift))
        assert np.all(bounds[-1] >= bounds[-2] - 1e-9)  # each chain has a bound of its own
        if is_learned and n_slices > 1:
            drift = dc.factorised_drift(laws)
            bounds.append(whole_bound(chains, laws, drift))
            assert bounds[-1].sum() >= bounds[-2].sum() - 1e-9, number


@pytest.mark.parametrize("time", range(5))
def test_an_update_is_the_best_there_is(time):
    chains, drift = problem(4), 6.0
    rng = np.random.default_rng(3)
    laws = dc.sweep(chains, dc.ChainLaws.uniform(chains), drift)
    best = dc.sweep(chains, laws, drift, [time])
    # only that slice has changed
    others = np.arange(5) != time
    np.testing.assert_array_equal(best.natural_vectors[others], laws.natural_vectors[others])
    peak = whole_bound(chains, best, drift)
    for size in (1e-2, 1.0, 30.0):
        vectors = best.natural_vectors.copy()
        vectors[time] += size * rng.standard_normal(vectors[time].shape)
        other = dc.ChainLaws(vectors, nv.natural_lengths(vectors), 4)
        assert np.all(whole_bound(chains, other, drift) < peak)


def test_the_learned_factorised_drift_is_the_best_there_is():
    chains = problem(10)
    laws = dc.sweep(chains, dc.ChainLaws.uniform(chains), 40.0)
    best = dc.factorised_drift(laws)
    assert 0.0 < best < math.inf
    peak = whole_bound(chains, laws, best).sum()
    for factor in (0.0, 0.9, 0.999, 1.001, 1.1, 10.0):
        assert whole_bound(chains, laws, factor * best).sum() < peak


def test_the_factorised_drift_at_its_ends():
    assert dc.factorised_drift(dc.ChainLaws.uniform(problem(3, n_slices=1))) == math.inf
    assert dc.factorised_drift(dc.ChainLaws.uniform(problem(3))) == 0.0
    pole = np.array([1.0, 0.0, 0.0])
    turning = np.array([pole, -pole])[:, None] * 5.0
    assert dc.factorised_drift(dc.ChainLaws(turning, nv.natural_lengths(turning), 3)) == 0.0
    # beyond all digits, and still finite
    still = np.array([pole, pole])[:, None] * 1e17
    assert math.isfinite(dc.factorised_drift(dc.ChainLaws(still, np.full((2, 1), 1e17), 3)))


def test_a_sweep_is_forward_and_back():
    chains = problem(4)
    start = dc.ChainLaws.uniform(chains)
    by_hand = dc.sweep(chains, start, 5.0, [0, 1, 2, 3, 4, 3, 2, 1, 0])
    made = dc.sweep(chains, start, 5.0)
    np.testing.assert_array_equal(made.natural_vectors, by_hand.natural_vectors)
    np.testing.assert_array_equal(made.concentrations, nv.natural_lengths(made.natural_vectors))
    assert not start.natural_vectors.any()


# ----------------------------------------------------------------------------------------------------------- gate


def test_sentences():
    with pytest.raises(
        InputError, match=r"evidence of Chains must have at least one slice; got none\. Leave empty times"
    ):
        dc.Chains.of([], np.zeros(3))
    with pytest.raises(InputError, match=r"got a slice \(2, 3\) and a vector \(4,\). Give both in the same D"):
        dc.Chains.of(np.zeros((5, 2, 3)), np.zeros(4))
    with pytest.raises(InputError, match=r"got a slice \(3,\) and a vector \(3,\)"):
        dc.Chains.of(np.zeros((5, 3)), np.zeros(3))


@pytest.mark.parametrize("drift", [0.0, 7.0, np.inf])
def test_what_steps_leave_makes_the_vectors(drift):
    """F_t = ahead_t F_{t-1} + V_t, B_{t-1} = back_t (B_t + V_t), and both together are the natural vectors."""
    chains = problem(4, n_slices=5)
    laws = dc.smoothed(chains, drift)
    forward, backward = chains.first + chains[0], np.zeros_like(chains.first)
    forwards = [forward]
    for time in range(1, 5):
        forward = laws.ahead[time][:, None] * forward + chains[time]
        forwards.append(forward)
    for time in reversed(range(5)):
        expected = forwards[time] + backward
        np.testing.assert_allclose(laws.natural_vectors[time], expected, rtol=1e-12, atol=1e-12)
        backward = laws.back[time][:, None] * (backward + chains[time])
    assert (laws.ahead[0] == 1.0).all()
    assert (laws.back[0] == 1.0).all()


def test_coordinates_from_products_alone():
    rng = np.random.default_rng(5)
    vectors = rng.standard_normal((4, 6, 50)) * np.array([1e6, 1.0, 1e-6, 3.0, 0.0, 1.0])[:, None]
    products = vectors @ vectors.swapaxes(1, 2)
    made = dc.own_coordinates(products)
    assert made.shape == (4, 6, 6)
    scale = np.sqrt(products[:, range(6), range(6)])
    scale[scale == 0.0] = 1.0
    outer = scale[:, :, None] * scale[:, None, :]
    np.testing.assert_allclose(made @ made.swapaxes(1, 2) / outer, products / outer, atol=1e-13)


def test_a_sweep_over_lent_laws_uses_their_memory():
    chains = problem(3, n_slices=5)
    start = dc.sweep(chains, dc.ChainLaws.uniform(chains), 5.0)
    kept = dc.sweep(chains, start, 5.0)
    lent = dc.sweep(chains, start, 5.0, is_lent=True)
    np.testing.assert_array_equal(lent.natural_vectors, kept.natural_vectors)
    np.testing.assert_array_equal(lent.concentrations, kept.concentrations)
    assert lent.natural_vectors is start.natural_vectors
