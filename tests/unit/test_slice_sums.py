"""Sums of slices that are stored, and those of which only the shares of rows are kept: the same to the model."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from armillary.distributions import direction_chains as dc
from armillary.engines.cpu import Passes
from armillary.fitting import slice_sums
from armillary.fitting.slice_sums import Beginning, ListedSums, Smoothing, StoredSums, first_pass
from armillary.fitting.slices import SlicedPasses
from armillary.kernels.rows import blocks as cpu
from armillary.points import as_points
from armillary.rules import AffineRule
from armillary.workers import Workers

N_SLICES, N_CLUSTERS, N_FEATURES = 5, 3, 90


def sliced_passes(n_features=N_FEATURES, density=0.08, seed=0):
    """Sparse rows with weights in five slices, the second of them without rows."""
    rng = np.random.default_rng(seed)
    rows = np.where(rng.random((80, n_features)) < density, rng.gamma(2.0, size=(80, n_features)), 0.0)
    rows[np.arange(80), rng.integers(0, n_features, 80)] += 1.0
    numbers = rng.choice([0, 2, 3, 4], size=80)
    points = as_points(sp.csr_array(rows), "test", rng.gamma(2.0, size=80))
    return SlicedPasses.of(Passes(points, cpu, Workers(1)), numbers, N_SLICES)


def drawn_rule(n_features=N_FEATURES, seed=1):
    rng = np.random.default_rng(seed)
    return AffineRule(20.0 * rng.random((N_CLUSTERS, n_features)), rng.standard_normal(N_CLUSTERS))


@pytest.fixture(scope="module")
def both():
    """The first pass over the same rows, without stored sums and with."""
    passes, rule = sliced_passes(), drawn_rule()
    listed, stored = (first_pass(passes, rule, is_smoothed=flag) for flag in (True, False))
    assert isinstance(listed.sums, ListedSums)
    assert isinstance(stored.sums, StoredSums)
    return passes, listed, stored


def smoothed(shared, drift=200.0, c=4.0):
    """Directions of one pass, by messages; their evidence and alignments."""
    rng = np.random.default_rng(2)
    direction = rng.random(N_FEATURES)
    beginning = Beginning(direction / np.linalg.norm(direction), c)
    kappa = np.array([30.0, 60.0, 90.0])
    chains = shared.sums.chains(kappa, beginning)
    laws, evidence = dc.smoothed_with_evidence(chains, drift)
    return shared.sums.directions(laws, Smoothing(kappa, beginning, drift)), evidence, shared.sums.alignments(laws)


def close(one, other, rtol=1e-11):
    np.testing.assert_allclose(one, other, rtol=rtol, atol=1e-12 * float(np.max(np.abs(other))))


def test_a_first_pass_counts_alike(both):
    _, listed, stored = both
    close(listed.sums.counts, stored.sums.counts)
    close(listed.products, stored.products)
    assert listed.evidence == pytest.approx(stored.evidence, rel=1e-13)
    assert listed.sums.moved == stored.sums.moved == pytest.approx(stored.sums.counts.sum())


@pytest.mark.parametrize("drift", [0.0, 3.0, 200.0, np.inf])
@pytest.mark.parametrize("c", [0.0, 4.0])
def test_directions_are_the_same(both, drift, c):
    _, listed, stored = both
    ours, our_evidence, our_alignments = smoothed(listed, drift, c)
    theirs, evidence, alignments = smoothed(stored, drift, c)
    close(our_evidence, evidence)
    close(our_alignments, alignments)
    close(ours.laws.concentrations, theirs.laws.concentrations)
    close(ours.first_mean, theirs.first_mean)
    close(ours.vectors, theirs.vectors)


def test_rows_are_shared_alike(both):
    passes, listed, stored = both
    rng = np.random.default_rng(3)
    scales, offsets = rng.uniform(0.2, 1.0, (2, N_SLICES, N_CLUSTERS))
    ours, theirs = (smoothed(shared)[0].share(passes, scales, offsets, shared.sums) for shared in (listed, stored))
    close(ours.sums.counts, theirs.sums.counts)
    close(ours.products, theirs.products)
    assert ours.evidence == pytest.approx(theirs.evidence, rel=1e-12)
    assert ours.sums.moved == pytest.approx(theirs.sums.moved, rel=1e-11)
    assert 0.0 < ours.sums.moved < ours.sums.counts.sum()
    # and again, from the sums that came of it
    ours, theirs = (smoothed(shared)[0].share(passes, scales, offsets, shared.sums) for shared in (ours, theirs))
    close(ours.products, theirs.products)
    assert ours.sums.moved == pytest.approx(theirs.sums.moved, rel=1e-9)


def test_the_first_mean_does_not_depend_on_when_it_is_asked_for(both):
    passes, listed, _ = both
    before, after = smoothed(listed)[0], smoothed(listed)[0]
    mean = before.first_mean
    shape = (N_SLICES, N_CLUSTERS)
    after.share(passes, np.full(shape, 3.0), np.zeros(shape), listed.sums)
    np.testing.assert_array_equal(after.first_mean, mean)


def test_a_drift_is_learned_alike(both):
    _, listed, stored = both
    beginning = Beginning(np.eye(N_FEATURES)[0], 0.0)
    kappa = np.full(N_CLUSTERS, 80.0)
    ours, theirs = (dc.learn_drift(shared.sums.chains(kappa, beginning)) for shared in (listed, stored))
    assert ours == pytest.approx(theirs, rel=1e-9)


def test_coordinates_follow_the_direction(both):
    """Chains that begin with another direction are other chains, whatever was asked for before."""
    _, listed, stored = both
    kappa = np.full(N_CLUSTERS, 50.0)
    for feature in (0, 1, 0):
        beginning = Beginning(np.eye(N_FEATURES)[feature], 7.0)
        ours, theirs = (shared.sums.chains(kappa, beginning) for shared in (listed, stored))
        close(dc.evidence(ours, 40.0), dc.evidence(theirs, 40.0))


def test_sums_are_stored_where_they_are_fewer_than_the_values():
    passes, rule = sliced_passes(n_features=6, density=0.9), drawn_rule(n_features=6)
    assert isinstance(first_pass(passes, rule, is_smoothed=True).sums, StoredSums)
    assert slice_sums._are_many(sliced_passes(), N_CLUSTERS)
    assert not slice_sums._are_many(SlicedPasses.last(passes.whole), 1000)


def test_a_cluster_without_rows_takes_an_offset_of_minus_infinity(both):
    passes, listed, stored = both
    shape = (N_SLICES, N_CLUSTERS)
    offsets = np.zeros(shape)
    offsets[:, 1] = -np.inf
    ours, theirs = (
        smoothed(shared)[0].share(passes, np.ones(shape), offsets, shared.sums) for shared in (listed, stored)
    )
    assert not ours.sums.counts[:, 1].any()
    assert np.isfinite(ours.products).all()
    close(ours.products, theirs.products)
    close(ours.sums.counts, theirs.sums.counts)
