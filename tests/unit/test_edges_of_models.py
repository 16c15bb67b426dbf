"""Corners of the models that the campaign of calls (tests/campaigns/calls.py) ran into."""

import numpy as np
import pytest
import scipy.sparse as sp

from armillary import BayesianVonMisesFisherMixture, TemporalVonMisesFisherMixture
from armillary.exceptions import InputError, InputTypeError, ParameterError
from armillary.geometry.sphere import angle

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def rows(n=30, n_features=4, seed=0):
    made = np.random.default_rng(seed).normal(size=(n, n_features))
    return made / np.linalg.norm(made, axis=1, keepdims=True)


def temporal(**parameters):
    return TemporalVonMisesFisherMixture(**{"n_components": 1, "max_iter": 2, "random_state": 1, **parameters})


def test_rows_that_cancel_start_a_temporal_mixture():
    """Their concentration is 0, whose logarithm is not finite."""
    half = rows()
    X = np.vstack([half, -half])
    model = temporal(drift=0.1).fit(X, times=np.arange(60) % 4)
    assert np.isfinite(model.concentrations_).all()
    assert angle(model.means_[0, 0], model.means_[0, 0]) == 0.0


@pytest.mark.parametrize(
    ("batch", "message"),
    [
        (sp.csr_array(rows() * 1j), r"Batch 1 of Temporal.* must hold real numbers"),
        (rows().astype(str), r"Batch 1 of Temporal.* must hold real numbers"),
        (np.ma.masked_less(rows(), 0.0), r"Row 0 of Batch 1 has masked entries"),
    ],
)
def test_batches_pass_the_gate_one_by_one(batch, message):
    for first in (rows(), sp.csr_array(rows())):
        with pytest.raises(InputError, match=message):
            temporal().fit([first, batch])


def test_batches_without_rows_are_slices_still():
    X = [rows(), np.empty((0, 4)), sp.csr_array((0, 4)), rows(seed=1)]
    assert temporal().fit(X).n_slices_ == 4
    assert temporal().fit([rows().astype(np.float16), *X]).n_slices_ == 5
    with pytest.raises(InputError, match="at least one row"):
        temporal().fit([np.empty((0, 4)), np.empty((0, 4))])


def test_a_density_of_no_kind():
    model = BayesianVonMisesFisherMixture(2, max_iter=2, random_state=0).fit(rows())
    with pytest.raises(ParameterError, match=r"`density` of Bayesian.* must be one of 'full', 'plugin'"):
        model.score(rows(), density=np.ones(2))


@pytest.mark.parametrize("times", [[[1, 2], [3]], [10**400] * 30])
def test_times_of_no_kind(times):
    with pytest.raises(InputTypeError, match=r"`times` of Temporal.* must be numbers, strings or dates"):
        temporal().fit(rows(), times=times)
