"""scikit-learn's own checks of the hierarchical mixture, with each expected failure named, strict and justified."""

from __future__ import annotations

import warnings

from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.estimator_checks import parametrize_with_checks
from tests.contract.still_checks import assert_still_checks

from armillary import HierarchicalVonMisesFisherMixture

ZERO_ROWS = "the check's data has rows of zeros, which have no direction; they are refused with a sentence"
STARTS = "the check shuffles rows, and starts are drawn by row; tests/laws has the law from given starts"
ESTIMATORS = [
    HierarchicalVonMisesFisherMixture(1, 2, max_iter=10, random_state=0),
    HierarchicalVonMisesFisherMixture(
        parents=[-1, -1, 0, 0], root="point", inference="factorised", groups="shared", max_iter=5, random_state=0
    ),
]
EXPECTED_FAILURES: dict[str, str] = {
    **dict.fromkeys(
        [
            "check_estimators_dtypes",
            "check_estimator_sparse_tag",
            "check_estimator_sparse_array",
            "check_estimator_sparse_matrix",
        ],
        ZERO_ROWS,
    ),
    **dict.fromkeys(
        ["check_sample_weight_equivalence_on_dense_data", "check_sample_weight_equivalence_on_sparse_data"], STARTS
    ),
}


@parametrize_with_checks(ESTIMATORS, expected_failed_checks=lambda estimator: EXPECTED_FAILURES)
def test_scikit_learn_contract(estimator, check):
    with warnings.catch_warnings():
        # some checks lower max_iter, others have copies of rows; being told so is then what they ask for
        warnings.simplefilter("ignore", ConvergenceWarning)
        check(estimator)


def test_expected_failures_are_still_checks():
    made = HierarchicalVonMisesFisherMixture()
    assert_still_checks(EXPECTED_FAILURES, made)
