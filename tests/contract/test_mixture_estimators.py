"""scikit-learn's own checks of the mixtures, with each expected failure named, strict and justified."""

from __future__ import annotations

import warnings

import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.estimator_checks import parametrize_with_checks
from tests.contract.still_checks import assert_still_checks

from armillary import (
    BayesianVonMisesFisherMixture,
    GibbsVonMisesFisherMixture,
    MultinomialMixture,
    SoftKMeans,
    VonMisesFisherMixture,
)

ZERO_ROWS = "the check's data has rows of zeros, which have no direction; they are refused with a sentence"
NO_CLASSIFIER = "the check reads the tags of a classifier from all that has predict_proba; a mixture has none"
STARTS = (
    "the check shuffles rows, and starts are drawn by row; tests/laws and tests/unit have the law from given starts"
)
ESTIMATORS = [
    VonMisesFisherMixture(n_components=2, random_state=0),
    VonMisesFisherMixture(
        n_components=2,
        concentration="free",
        assignment="hard",
        init="random_labels",
        n_init=2,
        stopping="paper",
        random_state=0,
    ),
    BayesianVonMisesFisherMixture(n_components=2, max_iter=8, random_state=0),
    GibbsVonMisesFisherMixture(n_components=2, n_burn_in=2, n_draws=2, random_state=0),
    SoftKMeans(n_components=2, random_state=0),
    MultinomialMixture(n_components=2, random_state=0),
    MultinomialMixture(n_components=2, init="random_labels", random_state=0),
]
WITHOUT_DIRECTION = dict.fromkeys(
    [
        "check_estimators_dtypes",
        "check_estimator_sparse_tag",
        "check_estimator_sparse_array",
        "check_estimator_sparse_matrix",
    ],
    ZERO_ROWS,
)
WEIGHTS = dict.fromkeys(
    ["check_sample_weight_equivalence_on_dense_data", "check_sample_weight_equivalence_on_sparse_data"], STARTS
)
WEIGHTED = "the check gives weights other than 1; a row that is sampled has one label and counts once, which is said"
EXPECTED_FAILURES: dict[str, dict[str, str]] = {
    "VonMisesFisherMixture": {**WITHOUT_DIRECTION, **WEIGHTS},
    "BayesianVonMisesFisherMixture": {**WITHOUT_DIRECTION, **WEIGHTS},
    "GibbsVonMisesFisherMixture": {
        **WITHOUT_DIRECTION,
        **dict.fromkeys([*WEIGHTS, "check_sample_weights_list", "check_sample_weights_not_overwritten"], WEIGHTED),
    },
    "SoftKMeans": {**WITHOUT_DIRECTION, **WEIGHTS},
    "MultinomialMixture": {
        **dict.fromkeys(["check_estimator_sparse_array", "check_estimator_sparse_matrix"], NO_CLASSIFIER),
        **WEIGHTS,
    },
}


def expected_failures(estimator):
    return EXPECTED_FAILURES[type(estimator).__name__]


@parametrize_with_checks(ESTIMATORS, expected_failed_checks=expected_failures)
def test_scikit_learn_contract(estimator, check):
    with warnings.catch_warnings():
        # some checks lower max_iter, others have copies of rows; being told so is then what they ask for
        warnings.simplefilter("ignore", ConvergenceWarning)
        check(estimator)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_expected_failures_are_still_checks(estimator):
    assert_still_checks(expected_failures(estimator), estimator)
