"""scikit-learn's own checks of the estimator contract, with each expected failure named, strict and justified."""

from __future__ import annotations

import warnings

from sklearn.utils.estimator_checks import parametrize_with_checks
from tests.contract.still_checks import assert_still_checks

from armillary import Links

ZERO_ROWS = "the check's data has rows of zeros, which have no direction; they are refused with a sentence"
ROW_ORDER = "the check shuffles rows, and the order of rows is the order of the stream"
EXPECTED_FAILURES: dict[str, str] = {
    "check_estimators_dtypes": ZERO_ROWS,
    "check_estimator_sparse_tag": ZERO_ROWS,
    "check_estimator_sparse_array": ZERO_ROWS,
    "check_estimator_sparse_matrix": ZERO_ROWS,
    "check_sample_weight_equivalence_on_dense_data": ROW_ORDER,
    "check_sample_weight_equivalence_on_sparse_data": ROW_ORDER,
}
ESTIMATORS = [Links(), Links(0.9, 0.95, 1.0, merge_clusters=True, max_subclusters=20, max_idle=50)]


@parametrize_with_checks(ESTIMATORS, expected_failed_checks=lambda estimator: EXPECTED_FAILURES)
def test_scikit_learn_contract(estimator, check):
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="`subcluster_similarity_threshold` of Links makes")
        check(estimator)


def test_expected_failures_are_still_checks():
    assert_still_checks(EXPECTED_FAILURES, Links())
