"""Agreement of labellings: worked tables, any labels, and the sentences of the errors."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from tests.making import each

from armillary.exceptions import InputError, ParameterError
from armillary.metrics import (
    geometric_nmi_score,
    macro_f1_score,
    matched_accuracy_score,
    purity_score,
    variation_of_information,
)

ALL = [purity_score, macro_f1_score, matched_accuracy_score, geometric_nmi_score, variation_of_information]

# The table   cluster  0  1  2
#   class a            4  1  0
#   class b            1  2  1
#   class c            0  0  1
TRUTH = list("aaaaa" + "bbbb" + "c")
LABELS = [0, 0, 0, 0, 1, 0, 1, 1, 2, 2]


class TestWorkedTable:
    def test_purity_counts_the_majority_of_each_cluster(self):
        assert purity_score(TRUTH, LABELS) == (4 + 2 + 1) / 10

    def test_macro_f1_names_clusters_and_averages_over_classes(self):
        # cluster 2 is a tie of b and c, and b is smaller; so c is nobody's name and scores 0
        f1_a = 2 * 4 / (5 + 5)
        f1_b = 2 * 3 / (5 + 4)
        assert macro_f1_score(TRUTH, LABELS) == pytest.approx((f1_a + f1_b + 0) / 3, rel=1e-15)

    def test_a_tie_follows_the_order_of_the_classes_not_of_the_rows(self):
        # cluster 2 again: now the class that came second is the smaller one, and takes the cluster
        renamed = [{"a": "a", "b": "z", "c": "c"}[name] for name in TRUTH]
        f1 = [2 * 4 / (5 + 5), 2 * 2 / (3 + 4), 2 * 1 / (2 + 1)]
        assert macro_f1_score(renamed, LABELS) == pytest.approx(sum(f1) / 3, rel=1e-15)

    def test_matching_is_one_to_one(self):
        assert matched_accuracy_score(TRUTH, LABELS) == (4 + 2 + 1) / 10

    def test_matching_is_not_greedy(self):
        # greedy takes the 4 and then nothing is left for class b; the best matching takes 3 + 3
        truth = list("aaaaaaa" + "bbb")
        labels = [0, 0, 0, 0, 1, 1, 1, 0, 0, 0]
        assert matched_accuracy_score(truth, labels) == 6 / 10

    def test_variation_of_information_adds_both_conditional_entropies(self):
        def entropy(counts):
            shares = np.array([count for count in counts if count]) / sum(counts)
            return -float(shares @ np.log(shares))

        of_truth = 0.5 * entropy([4, 1]) + 0.3 * entropy([1, 2]) + 0.2 * entropy([1, 1])
        of_labels = 0.5 * entropy([4, 1]) + 0.4 * entropy([1, 2, 1]) + 0.1 * entropy([1])
        assert variation_of_information(TRUTH, LABELS) == pytest.approx(of_truth + of_labels, rel=1e-14)

    def test_variation_of_information_in_bits(self):
        nats = variation_of_information(TRUTH, LABELS)
        assert variation_of_information(TRUTH, LABELS, base=2) == pytest.approx(nats / math.log(2), rel=1e-15)


class TestUnequalNumbers:
    def test_more_clusters_than_classes(self):
        assert matched_accuracy_score([0, 0, 0, 0], [0, 1, 1, 2]) == 0.5

    def test_more_classes_than_clusters(self):
        assert matched_accuracy_score([0, 1, 1, 2], [0, 0, 0, 0]) == 0.5

    def test_singletons_are_pure_but_match_one_row_per_class(self):
        truth = [0, 0, 0, 1, 1]
        assert purity_score(truth, range(5)) == 1.0
        assert matched_accuracy_score(truth, range(5)) == 2 / 5

    def test_geometric_nmi_of_constant_labellings(self):
        assert geometric_nmi_score([0, 0], [5, 5]) == 1.0
        assert geometric_nmi_score([0, 0, 0], [0, 1, 2]) == 0.0

    def test_many_clusters_need_no_dense_table(self):
        # 20 000 x 20 000 cells would be 3.2 GB
        labels = np.arange(20_000)
        assert matched_accuracy_score(labels, labels[::-1]) == 1.0
        assert variation_of_information(labels, labels[::-1]) == 0.0


@pytest.mark.parametrize("score", ALL)
class TestLabels:
    @each(
        "spell",
        [
            np.array,
            lambda codes: np.array(codes, dtype=np.uint8),
            lambda codes: np.array(codes, dtype=float) - 0.5,
            lambda codes: [f"class {code}" for code in codes],
            lambda codes: np.array([b"x", b"y", b"z"])[codes],
            lambda codes: np.array([frozenset({code}) for code in codes], dtype=object),
            lambda codes: [[1, "1", 2.5][code] for code in codes],
            lambda codes: np.array(["2020-01-01", "2021-01-01", "2022-01-01"], dtype="M8[ns]")[codes],
            lambda codes: pd.Series(pd.Categorical.from_codes(codes, ["x", "y", "z"])),
            lambda codes: pd.Series(codes, dtype="Int64"),
            tuple,
        ],
    )
    def test_any_hashable_labels(self, score, spell):
        codes = [0, 0, 0, 1, 1, 1, 2, 2, 2, 2]
        clusters = [0, 0, 1, 1, 1, 1, 0, 2, 2, 2]
        assert score(spell(codes), clusters) == pytest.approx(score(codes, clusters), rel=1e-14)
        assert score(codes, spell(clusters)) == pytest.approx(score(codes, clusters), rel=1e-14)

    def test_perfect_agreement(self, score):
        perfect = 0.0 if score is variation_of_information else 1.0
        assert score(["x", "y", "y", "z"], [7, 3, 3, -1]) == pytest.approx(perfect, abs=1e-15)

    def test_returns_a_python_float(self, score):
        assert type(score(TRUTH, LABELS)) is float

    def test_unequal_lengths(self, score):
        with pytest.raises(InputError, match=rf"`truth` and `labels` of {score.__name__} .* got 3 and 2\. Check"):
            score([0, 1, 1], [0, 1])

    def test_empty(self, score):
        with pytest.raises(InputError, match=rf"`truth` of {score.__name__} must have at least one label; got none"):
            score([], [])

    @pytest.mark.parametrize("table", [[[0], [1]], np.ones((2, 3)), "aab", 3])
    def test_not_one_dimensional(self, score, table):
        with pytest.raises(InputError, match=r"`labels` of .* must be one-dimensional.*got shape \(.*\)\..*argmax"):
            score([0, 1], table)

    @each(
        "labels",
        [
            [0, 1, math.nan],
            np.array([0, 1, np.nan]),
            np.array(["2020-01-01", "2020-01-01", "NaT"], dtype="M8[D]"),
            ["a", "b", None],
            pd.Series([0, 1, None], dtype="Int64"),
            pd.Series(["a", "b", None]),
            pd.Series(["a", "b", pd.NA], dtype=object),
        ],
    )
    def test_missing_labels(self, score, labels):
        with pytest.raises(
            InputError, match=r"`labels` of .* for every row; got .* in row 2 \(1 missing in all\)\. Drop"
        ):
            score([0, 1, 1], labels)

    def test_unhashable_labels(self, score):
        with pytest.raises(
            InputError, match=r"`truth` of .* hashable labels such as ints or strings; .*list.*Turn each"
        ):
            score([[0], [1, 2]], [0, 1])


@pytest.mark.parametrize("base", [1.0, 0.5, math.inf, math.nan])
def test_base_must_exceed_one(base):
    with pytest.raises(ParameterError, match=r"`base` of variation_of_information .* above 1; got .*Use 2 for bits"):
        variation_of_information([0, 1], [0, 1], base=base)
