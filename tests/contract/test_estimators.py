"""scikit-learn's own checks of the estimator contract, with each expected failure named, strict and justified."""

from __future__ import annotations

import warnings

import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.estimator_checks import parametrize_with_checks
from tests.contract.still_checks import assert_still_checks

import armillary
from armillary import AutoClusterer, DDPvMFMeans, DPvMFMeans, HierarchicalSphericalKMeans, SphericalKMeans

ZERO_ROWS = "the check's data has rows of zeros, which have no direction; they are refused with a sentence"
STARTS = "the check shuffles rows, and k-means++ draws by row; tests/laws has the law from given starts"
SAMPLES = "a row of weight 2 is one row in the comparison, and two copies are two; weights count in the fit alone"
ROW_ORDER = "the check shuffles rows, and a cluster is born at the first row nobody accepts; tests/laws has the law"
NO_ROWS = "a step without rows is a step in which every cluster is unseen"
ALWAYS = dict.fromkeys(
    [
        "check_estimators_dtypes",
        "check_estimator_sparse_tag",
        "check_estimator_sparse_array",
        "check_estimator_sparse_matrix",
    ],
    ZERO_ROWS,
)
WEIGHTS = ["check_sample_weight_equivalence_on_dense_data", "check_sample_weight_equivalence_on_sparse_data"]
EXPECTED_FAILURES: dict[str, dict[str, str]] = {
    "AutoClusterer": {**ALWAYS, **dict.fromkeys(WEIGHTS, SAMPLES)},
    "SphericalKMeans": {**ALWAYS, **dict.fromkeys(WEIGHTS, STARTS)},
    "HierarchicalSphericalKMeans": {**ALWAYS, **dict.fromkeys(WEIGHTS, STARTS)},
    "DPvMFMeans": {**ALWAYS, **dict.fromkeys(WEIGHTS, ROW_ORDER)},
    "DDPvMFMeans": {**ALWAYS, **dict.fromkeys(WEIGHTS, ROW_ORDER), "check_estimators_empty_data_messages": NO_ROWS},
}
ESTIMATORS = [
    AutoClusterer(n_threads=1),
    SphericalKMeans(n_clusters=2, n_init=1, random_state=0),
    HierarchicalSphericalKMeans(n_clusters=(2, 3), random_state=0),
    DPvMFMeans(random_state=0),
    DPvMFMeans(0.5, n_init=2, max_clusters=5, consolidate=True, random_state=0),
    DDPvMFMeans(),
    DDPvMFMeans(0.7, max_unseen_steps=1, weight_update="paper", solver="small_angle", carry_unseen=True),
]


@parametrize_with_checks(
    ESTIMATORS, expected_failed_checks=lambda estimator: EXPECTED_FAILURES[type(estimator).__name__]
)
def test_scikit_learn_contract(estimator, check):
    with warnings.catch_warnings():
        # some checks lower max_iter; stopping early is then what they ask for
        warnings.simplefilter("ignore", ConvergenceWarning)
        check(estimator)


@pytest.mark.parametrize("name", sorted(EXPECTED_FAILURES))
def test_expected_failures_are_still_checks(name):
    made = getattr(armillary, name)()
    assert_still_checks(EXPECTED_FAILURES[name], made)


def test_every_model_of_this_file_is_checked():
    assert {type(estimator).__name__ for estimator in ESTIMATORS} == set(EXPECTED_FAILURES)
