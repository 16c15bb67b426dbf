"""The cosine silhouette: a worked case, noise, singletons, blocks, and the sentences of the errors."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.sparse as sp

from armillary.exceptions import InputError
from armillary.fitting import silhouette as fit_silhouette
from armillary.metrics import cosine_silhouette_samples, cosine_silhouette_score

BOTH = [cosine_silhouette_score, cosine_silhouette_samples]


def at_degrees(*degrees):
    angles = np.radians(degrees)
    return np.column_stack([np.cos(angles), np.sin(angles)])


def blobs(n_rows=60, n_features=5, n_clusters=4, seed=0):
    rng = np.random.default_rng(seed)
    labels = np.arange(n_rows) % n_clusters
    X = 2.0 * rng.standard_normal((n_clusters, n_features))[labels] + rng.standard_normal((n_rows, n_features))
    return X, labels


def test_worked_case():
    # rows at 0, 60 | 90, 180 degrees: distances 1 - cos are 0.5 within, and 1 within
    scores = cosine_silhouette_samples(at_degrees(0, 60, 90, 180), [0, 0, 1, 1])
    to_other = [(1 + 2) / 2, ((1 - math.sqrt(3) / 2) + 1.5) / 2, (1 + (1 - math.sqrt(3) / 2)) / 2, (2 + 1.5) / 2]
    within = [0.5, 0.5, 1.0, 1.0]
    expected = [(b - a) / max(a, b) for a, b in zip(within, to_other, strict=True)]
    np.testing.assert_allclose(scores, expected, rtol=0, atol=1e-15)


def test_score_is_the_mean_of_the_samples():
    X, labels = blobs()
    assert cosine_silhouette_score(X, labels) == pytest.approx(cosine_silhouette_samples(X, labels).mean(), rel=1e-15)


def test_singletons_score_zero():
    scores = cosine_silhouette_samples(at_degrees(0, 10, 90), ["a", "a", "b"])
    assert scores[2] == 0.0
    assert (scores[:2] > 0.9).all()


@pytest.mark.parametrize("seed", range(5))
def test_copies_of_one_row_score_zero(seed):
    # a and b are rounding noise here; without the floor their ratio would be anything in [-1, 1]
    X = np.tile(np.random.default_rng(seed).standard_normal(50), (17, 1))
    assert (cosine_silhouette_samples(X, np.arange(17) % 3) == 0.0).all()


def test_lengths_of_rows_do_not_matter():
    X, labels = blobs()
    lengths = np.random.default_rng(1).uniform(0.01, 100.0, size=(len(X), 1))
    np.testing.assert_allclose(
        cosine_silhouette_samples(X * lengths, labels), cosine_silhouette_samples(X, labels), rtol=0, atol=1e-13
    )


@pytest.mark.parametrize("make", [sp.csr_array, sp.csr_matrix, sp.coo_array])
def test_sparse_equals_dense(make):
    X, labels = blobs(n_features=30)
    X[np.abs(X) < 1.0] = 0.0
    expected = cosine_silhouette_samples(X, labels)
    np.testing.assert_allclose(cosine_silhouette_samples(make(X), labels), expected, rtol=0, atol=1e-14)
    assert cosine_silhouette_score(make(X), labels) == pytest.approx(expected.mean(), abs=1e-14)


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array])
def test_float32_rows_are_measured_in_float64(make):
    X, labels = blobs()
    # these rows are unit to 6e-8 and pass the gate as they are; cosines of 1 + 6e-8 would show in the sixth digit
    narrow = (X / np.linalg.norm(X, axis=1, keepdims=True)).astype(np.float32)
    scores = cosine_silhouette_samples(make(narrow), labels)
    assert scores.dtype == np.float64
    np.testing.assert_allclose(scores, cosine_silhouette_samples(narrow.astype(float), labels), rtol=0, atol=1e-13)


def test_sparse_rows_are_never_made_dense(monkeypatch):
    # 2000 x 10^7 would be 160 GB
    rng = np.random.default_rng(0)
    X = sp.csr_array((np.ones(6000), rng.integers(0, 10**7, 6000), np.arange(0, 6001, 3)), shape=(2000, 10**7))
    monkeypatch.setattr(fit_silhouette, "_BLOCK_VALUES", 10**7)
    assert -1.0 <= cosine_silhouette_score(X, np.arange(2000) % 2) <= 1.0


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("block_values", [1, 7, 23, 64])
def test_blocks_do_not_change_the_scores(monkeypatch, make, block_values):
    X, labels = blobs()
    expected = cosine_silhouette_samples(make(X), labels)
    monkeypatch.setattr(fit_silhouette, "_BLOCK_VALUES", block_values)
    np.testing.assert_allclose(cosine_silhouette_samples(make(X), labels), expected, rtol=0, atol=1e-14)


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array])
class TestIgnoreLabel:
    @pytest.mark.parametrize("noise", [-1, 1, 7])
    def test_ignored_rows_are_as_if_absent(self, make, noise):
        X, labels = blobs()
        labels[::7] = noise
        kept = labels != noise
        scores = cosine_silhouette_samples(make(X), labels, ignore_label=noise)
        np.testing.assert_allclose(
            scores[kept], cosine_silhouette_samples(make(X[kept]), labels[kept]), rtol=0, atol=1e-15
        )
        assert np.isnan(scores[~kept]).all()
        assert cosine_silhouette_score(make(X), labels, ignore_label=noise) == pytest.approx(scores[kept].mean())

    def test_by_default_every_label_is_a_cluster(self, make):
        X, labels = blobs()
        assert cosine_silhouette_score(make(X), labels - 1) == cosine_silhouette_score(make(X), labels)

    def test_a_label_nobody_has_ignores_nobody(self, make):
        X, labels = blobs()
        assert cosine_silhouette_score(make(X), labels, ignore_label=-1) == cosine_silhouette_score(make(X), labels)


@pytest.mark.parametrize("score", BOTH)
class TestErrors:
    @pytest.mark.parametrize("labels", [[0, 0, 0, 0], [0, 1, 2, 3]], ids=["one cluster", "all alone"])
    def test_too_few_or_too_many_clusters(self, score, labels):
        n_clusters = len(set(labels))
        sentence = rf"at least 2 clusters and fewer clusters than rows; got {n_clusters} for 4 rows\. A silhouette"
        with pytest.raises(InputError, match=rf"`labels` of {score.__name__} must have {sentence}"):
            score(at_degrees(0, 10, 90, 100), labels)

    def test_too_few_clusters_once_noise_is_gone(self, score):
        with pytest.raises(InputError, match="got 1 for 2 rows that are not ignored"):
            score(at_degrees(0, 10, 90), [0, 0, -1], ignore_label=-1)

    def test_only_noise(self, score):
        with pytest.raises(InputError, match="got 0 for 0 rows that are not ignored"):
            score(at_degrees(0, 10, 90), [-1, -1, -1], ignore_label=-1)

    def test_wrong_number_of_labels(self, score):
        with pytest.raises(InputError, match=rf"`labels` of {score.__name__} .* got 2 labels for 3 rows\. Check"):
            score(at_degrees(0, 10, 90), [0, 1])

    def test_missing_labels(self, score):
        with pytest.raises(InputError, match="label for every row; got nan in row 1"):
            score(at_degrees(0, 10, 90), [0, np.nan, 1])

    @pytest.mark.parametrize("make", [np.asarray, sp.csr_array])
    def test_rows_without_direction(self, score, make):
        X = at_degrees(0, 10, 90)
        X[1] = 0.0
        with pytest.raises(InputError, match="Row 1 of X has norm 0"):
            score(make(X), [0, 0, 1])
        X[1] = np.nan
        with pytest.raises(InputError, match="Row 1 of X contains NaN"):
            score(make(X), [0, 0, 1])
