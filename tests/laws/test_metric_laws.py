"""Laws of the metrics: names do not matter, bounds hold, and variation of information is a metric."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from armillary.metrics import (
    cosine_silhouette_samples,
    geometric_nmi_score,
    macro_f1_score,
    matched_accuracy_score,
    purity_score,
    variation_of_information,
)

SYMMETRIC = [matched_accuracy_score, geometric_nmi_score, variation_of_information]
SHARES = [purity_score, macro_f1_score, matched_accuracy_score, geometric_nmi_score]
ALL = [*SHARES, variation_of_information]


@st.composite
def labellings(draw, how_many=2):
    """Several labellings of the same 1 to 30 rows with up to 5 labels each."""
    n_rows = draw(st.integers(1, 30))
    labels = st.lists(st.integers(0, 4), min_size=n_rows, max_size=n_rows)
    return tuple(np.array(draw(labels)) for _ in range(how_many))


permutations = st.permutations(range(5)).map(np.array)


@pytest.mark.parametrize("score", ALL)
@given(pair=labellings(), names=permutations)
def test_names_of_clusters_do_not_matter(score, pair, names):
    truth, labels = pair
    assert score(truth, names[labels]) == pytest.approx(score(truth, labels), abs=1e-14)


@pytest.mark.parametrize("score", [purity_score, *SYMMETRIC])
@given(pair=labellings(), names=permutations)
def test_names_of_classes_do_not_matter(score, pair, names):
    # macro F1 is not in this list: the order of the classes decides its ties
    truth, labels = pair
    assert score(names[truth], labels) == pytest.approx(score(truth, labels), abs=1e-14)


@pytest.mark.parametrize("score", ALL)
@given(pair=labellings(), data=st.data())
def test_order_of_rows_does_not_matter(score, pair, data):
    truth, labels = pair
    order = np.array(data.draw(st.permutations(range(len(truth)))))
    assert score(truth[order], labels[order]) == pytest.approx(score(truth, labels), abs=1e-14)


@pytest.mark.parametrize("score", SYMMETRIC)
@given(pair=labellings())
def test_symmetry(score, pair):
    truth, labels = pair
    assert score(labels, truth) == pytest.approx(score(truth, labels), abs=1e-14)


@pytest.mark.parametrize("score", SHARES)
@given(pair=labellings())
def test_shares_lie_between_zero_and_one(score, pair):
    assert 0.0 <= score(*pair) <= 1.0 + 1e-15


@given(pair=labellings())
def test_a_matching_cannot_beat_the_majority(pair):
    assert matched_accuracy_score(*pair) <= purity_score(*pair)


@given(triple=labellings(3))
def test_variation_of_information_is_a_metric(triple):
    a, b, c = triple
    assert variation_of_information(a, c) <= variation_of_information(a, b) + variation_of_information(b, c) + 1e-12
    assert 0.0 <= variation_of_information(a, b) <= math.log(len(a)) + 1e-12
    # zero exactly for equal partitions; else not below the least possible distance, 2/N bits (Meila 2007)
    same = len(set(zip(a, b, strict=True))) == len(set(a)) == len(set(b))
    assert (variation_of_information(a, b) == 0.0) == same
    if not same:
        assert variation_of_information(a, b) >= 2.0 / len(a) * math.log(2.0) - 1e-12


@settings(deadline=None)  # the first call compiles
@given(seed=st.integers(0, 2**32 - 1), names=permutations)
def test_silhouette_ignores_names_order_and_rotation(seed, names):
    rng = np.random.default_rng(seed)
    n_rows, n_features = 40, 4
    labels = np.concatenate([np.arange(5), rng.integers(0, 5, n_rows - 5)])
    X = rng.standard_normal((5, n_features))[labels] + rng.standard_normal((n_rows, n_features))
    scores = cosine_silhouette_samples(X, labels)
    assert (np.abs(scores) <= 1.0).all()
    order = rng.permutation(n_rows)
    rotation = np.linalg.qr(rng.standard_normal((n_features, n_features)))[0]
    turned = cosine_silhouette_samples(X[order] @ rotation, names[labels][order])
    np.testing.assert_allclose(turned, scores[order], rtol=0, atol=1e-10)
