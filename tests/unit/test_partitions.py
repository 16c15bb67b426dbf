"""Point partitions from draws of labels: the losses, the choice, the sentences."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import rand_score

from armillary.diagnostics import PointPartition, coclustering_matrix, expected_losses, point_partition
from armillary.exceptions import InputError, ParameterError
from armillary.fitting import partitions
from armillary.metrics import variation_of_information

LOSSES = {
    "variation_of_information": variation_of_information,
    "binder": lambda one, other: 1.0 - rand_score(one, other),
}

every_loss = pytest.mark.parametrize("loss", LOSSES)


def random_draws(seed, n_draws=12, n_rows=30, n_clusters=4):
    rng = np.random.default_rng(seed)
    base = rng.integers(n_clusters, size=n_rows)
    draws = np.where(rng.random((n_draws, n_rows)) < 0.3, rng.integers(n_clusters, size=(n_draws, n_rows)), base)
    return np.concatenate([draws, draws[:3]])  # some partitions come more than once


@every_loss
@pytest.mark.parametrize("n_clusters", [1, 4, 29])
def test_expected_losses_are_means_over_all_draws(loss, n_clusters):
    draws = random_draws(n_clusters, n_clusters=n_clusters)
    expected = [np.mean([LOSSES[loss](one, other) for other in draws]) for one in draws]
    found = expected_losses(draws, loss=loss)
    np.testing.assert_allclose(found, expected, atol=1e-12)
    chosen = point_partition(draws, loss=loss)
    assert chosen.expected_loss == pytest.approx(min(expected), abs=1e-12)
    assert chosen.draw == np.flatnonzero(found == found.min())[0]
    assert LOSSES[loss](chosen.labels, draws[chosen.draw]) == pytest.approx(0.0, abs=1e-12)


@every_loss
def test_sorted_cells_and_counted_cells_agree(loss, monkeypatch):
    draws = random_draws(5)
    counted = expected_losses(draws, loss=loss)
    monkeypatch.setattr(partitions, "_CELLS_PER_ROW", 0)
    np.testing.assert_allclose(expected_losses(draws, loss=loss), counted, atol=1e-15)


@every_loss
def test_the_numbering_of_components_does_not_matter(loss):
    draws = random_draws(1)
    rng = np.random.default_rng(0)
    renumbered = np.array([rng.permutation(9)[draw] for draw in draws])
    one, other = point_partition(draws, loss=loss), point_partition(renumbered, loss=loss)
    np.testing.assert_array_equal(one.labels, other.labels)
    assert (one.draw, one.expected_loss) == (other.draw, other.expected_loss)


@every_loss
def test_the_majority_wins_and_labels_are_numbered_as_they_appear(loss):
    draws = [[5, 5, 2, 2, 7], [2, 2, 5, 5, 1], [0, 1, 1, 1, 1], [3, 3, 0, 0, 1]]
    chosen = point_partition(draws, loss=loss)
    assert isinstance(chosen, PointPartition)
    assert chosen.labels.tolist() == [0, 0, 1, 1, 2]
    assert chosen.labels.dtype == np.int32
    assert chosen.draw == 0


@every_loss
def test_one_draw_and_one_row(loss):
    assert point_partition([[4, 4, 1]], loss=loss).expected_loss == 0.0
    assert point_partition([[4], [2]], loss=loss).labels.tolist() == [0]


def test_coclustering_is_the_share_of_draws():
    draws = random_draws(2)
    matrix = coclustering_matrix(draws)
    expected = np.mean([draw[:, None] == draw for draw in draws], axis=0)
    np.testing.assert_allclose(matrix, expected, rtol=0, atol=1e-15)
    # Binder's loss of a partition is its mean distance from that matrix
    chosen = point_partition(draws, loss="binder")
    apart = np.abs((chosen.labels[:, None] == chosen.labels) - matrix).sum() / (30 * 29)
    assert chosen.expected_loss == pytest.approx(apart, abs=1e-12)


def test_sentences():
    with pytest.raises(ParameterError, match="`loss` of point_partition must be"):
        point_partition([[0, 1]], loss="vi")
    with pytest.raises(InputError) as caught:
        point_partition([0, 1, 1])
    assert str(caught.value) == (
        "`labels` of point_partition must be draws of integer labels, of shape (S, N) with S and N at least 1; "
        "got shape (3,) of int64. One labelling is labels[None]."
    )
    with pytest.raises(InputError, match="of float64"):
        expected_losses([[0.0, 1.0]])
    with pytest.raises(InputError) as caught:
        coclustering_matrix(np.zeros((1, 20_000), dtype=int))
    assert str(caught.value) == (
        "`labels` of coclustering_matrix must have at most 10000 rows; got 20000, a matrix of 3.2 GB. Choose some "
        "rows, or use point_partition, which needs no such matrix."
    )
