"""scikit-learn's own checks of the estimator contract, with each expected failure named, strict and justified."""

from __future__ import annotations

import warnings

import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.estimator_checks import parametrize_with_checks

from armillary import SphericalKMeans

ZERO_ROWS = "the check's data has rows of zeros, which have no direction; they are refused with a sentence"
ROW_ORDER = "the check shuffles rows, and k-means++ draws by row; tests/laws has the law from given starts"
EXPECTED_FAILURES: dict[str, dict[str, str]] = {
    "SphericalKMeans": {
        "check_estimators_dtypes": ZERO_ROWS,
        "check_estimator_sparse_tag": ZERO_ROWS,
        "check_estimator_sparse_array": ZERO_ROWS,
        "check_estimator_sparse_matrix": ZERO_ROWS,
        "check_sample_weight_equivalence_on_dense_data": ROW_ORDER,
        "check_sample_weight_equivalence_on_sparse_data": ROW_ORDER,
    }
}


@parametrize_with_checks(
    [SphericalKMeans(n_clusters=2, n_init=1, random_state=0)],
    expected_failed_checks=lambda estimator: EXPECTED_FAILURES[type(estimator).__name__],
)
def test_scikit_learn_contract(estimator, check):
    with warnings.catch_warnings():
        # some checks lower max_iter; stopping early is then what they ask for
        warnings.simplefilter("ignore", ConvergenceWarning)
        check(estimator)


@pytest.mark.parametrize("name", sorted(EXPECTED_FAILURES))
def test_expected_failures_are_still_checks(name):
    from sklearn.utils.estimator_checks import estimator_checks_generator

    known = {getattr(check, "func", check).__name__ for _, check in estimator_checks_generator(SphericalKMeans())}
    assert set(EXPECTED_FAILURES[name]) <= known
