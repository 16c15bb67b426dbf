"""scikit-learn's own checks of the temporal mixture, with each expected failure named, strict and justified.

Without `times` all rows are one slice, which is how the checks call it.
"""

from __future__ import annotations

import warnings

from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.estimator_checks import parametrize_with_checks
from tests.contract.still_checks import assert_still_checks

from armillary import TemporalVonMisesFisherMixture

ZERO_ROWS = "the check's data has rows of zeros, which have no direction; they are refused with a sentence"
STARTS = "the check shuffles rows, and starts are drawn by row; tests/unit has the law from given starts"
EXPECTED_FAILURES = {
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
NO_DRIFT = "the check goes on with partial_fit from one slice, which no drift can be learned from; a sentence says so"
ESTIMATORS = [
    TemporalVonMisesFisherMixture(n_components=2, max_iter=8, random_state=0),
    TemporalVonMisesFisherMixture(
        n_components=2, inference="factorised", drift=0.1, weights="per_slice", max_iter=10, random_state=0
    ),
]


def expected_failures(estimator):
    learned = {"check_fit_score_takes_y": NO_DRIFT} if estimator.drift == "learn" else {}
    return EXPECTED_FAILURES | learned


@parametrize_with_checks(ESTIMATORS, expected_failed_checks=expected_failures)
def test_scikit_learn_contract(estimator, check):
    with warnings.catch_warnings():
        # some checks lower max_iter, others have copies of rows; being told so is then what they ask for
        warnings.simplefilter("ignore", ConvergenceWarning)
        check(estimator)


def test_expected_failures_are_still_checks():
    made = TemporalVonMisesFisherMixture()
    assert_still_checks(expected_failures(made), made)
