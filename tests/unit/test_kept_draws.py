"""Draws that are kept small come back as they were."""

from __future__ import annotations

import numpy as np
import pytest

from armillary.fitting.kept_draws import KeptDraws


def some_draws(n_draws, n_rows, n_clusters, seed=0):
    rng = np.random.default_rng(seed)
    draws = [rng.integers(n_clusters, size=n_rows).astype(np.int32)]
    while len(draws) < n_draws:
        moves = rng.random(n_rows) < 0.05
        draws.append(np.where(moves, rng.integers(n_clusters, size=n_rows), draws[-1]).astype(np.int32))
    return draws


@pytest.mark.parametrize("n_clusters", [1, 3, 256, 257, 70_000])
def test_draws_come_back(n_clusters):
    n_rows = max(500, n_clusters)
    draws = some_draws(6, n_rows, n_clusters)
    kept = KeptDraws(n_rows)
    for draw in draws:
        kept.append(draw)
    assert len(kept) == 6
    np.testing.assert_array_equal(kept.array(), draws)
    np.testing.assert_array_equal(list(kept), list(kept))
    np.testing.assert_array_equal(KeptDraws.unpacked(n_rows, *kept.packed()).array(), draws)


def test_the_number_of_clusters_may_grow_and_shrink():
    draws = [np.full(9, top, dtype=np.int32) for top in (3, 300, 2, 70_000, 0)]
    kept = KeptDraws(9)
    for draw in draws:
        kept.append(draw)
    np.testing.assert_array_equal(kept.array(), draws)


def test_draws_kept_later_are_those_kept_at_once():
    draws = some_draws(7, 400, 5)
    whole, first = KeptDraws(400), KeptDraws(400)
    for number, draw in enumerate(draws):
        whole.append(draw)
        if number < 4:
            first.append(draw)
    rest = KeptDraws.unpacked(400, *first.packed())
    for draw in draws[4:]:
        rest.append(draw)
    np.testing.assert_array_equal(rest.packed()[0], whole.packed()[0])


def test_chains_are_joined_and_split():
    chains = []
    for seed in range(3):
        chains.append(KeptDraws(50))
        for draw in some_draws(4, 50, 4, seed):
            chains[-1].append(draw)
    together = KeptDraws.joined(chains)
    assert len(together) == 12
    np.testing.assert_array_equal(together.array(), np.concatenate([chain.array() for chain in chains]))
    for one, other in zip(together.split(3), chains, strict=True):
        np.testing.assert_array_equal(one.array(), other.array())


def test_draws_that_change_little_are_small():
    kept = KeptDraws(20_000)
    for draw in some_draws(20, 20_000, 30):
        kept.append(draw)
    packed, ends = kept.packed()
    assert packed.nbytes < 20_000 * 20 / 4
    assert ends[-1] == packed.nbytes


def test_no_draws():
    kept = KeptDraws(5)
    assert len(kept) == 0
    assert kept.array().shape == (0, 5)
