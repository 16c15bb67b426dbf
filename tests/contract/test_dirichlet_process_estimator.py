"""scikit-learn's own checks of `DirichletProcessMixture`, with each expected failure named, strict and justified."""

from __future__ import annotations

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks
from tests.contract.still_checks import assert_still_checks

from armillary import DirichletProcessMixture

ZERO_ROWS = "the check's data has rows of zeros, which have no direction; they are refused with a sentence"
BRIEF = {"n_burn_in": 1, "n_draws": 2, "n_attempts": 1, "init": 2, "random_state": 0, "n_threads": 1}
ESTIMATORS = [
    DirichletProcessMixture(**BRIEF),
    DirichletProcessMixture("gaussian", sampler="finite", **{**BRIEF, "init": "k-means"}),
    DirichletProcessMixture("vmf", sampler="subclusters", **BRIEF),
]
SPARSE = ("check_estimator_sparse_tag", "check_estimator_sparse_array", "check_estimator_sparse_matrix")


def expected_failures(estimator):
    # the other components refuse all sparse rows
    names = ("check_estimators_dtypes", *(SPARSE if estimator.component == "vmf" else ()))
    return dict.fromkeys(names, ZERO_ROWS)


@parametrize_with_checks(ESTIMATORS, expected_failed_checks=expected_failures)
def test_scikit_learn_contract(estimator, check):
    check(estimator)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_expected_failures_are_still_checks(estimator):
    assert_still_checks(expected_failures(estimator), estimator)
