"""`device`: where rows are worked on. What was asked for happens, or a sentence says why; `device_` says where."""

import inspect

import numpy as np
import pytest
from sklearn.base import clone
from tests.making import docstring

import armillary
from armillary import DPvMFMeans, SphericalKMeans
from armillary.engines import select
from armillary.exceptions import ParameterError
from armillary.models.estimator import UnitVectorEstimator

ROWS = np.random.default_rng(0).standard_normal((60, 3))
ESTIMATORS = [
    found
    for found in (getattr(armillary, name) for name in armillary.__all__)
    if inspect.isclass(found) and issubclass(found, UnitVectorEstimator)
]


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda found: found.__name__)
def test_every_estimator_has_it(estimator):
    parameter = inspect.signature(estimator).parameters["device"]
    assert parameter.default is None
    assert parameter.kind is inspect.Parameter.KEYWORD_ONLY
    assert "    device : {" in docstring(estimator) or "n_threads, device, verbose" in docstring(estimator)
    assert "device_ : str" in docstring(estimator)
    assert clone(estimator(device="auto")).device == "auto"


@pytest.mark.parametrize("device", [None, "auto", "cpu"])
def test_where_a_fit_ran_is_told_and_not_saved(device, tmp_path):
    model = SphericalKMeans(3, random_state=0, device=device).fit(ROWS)
    assert model.device_ == "cpu"
    armillary.save(model, tmp_path / "model")
    again = armillary.load(tmp_path / "model")
    assert again.device == device
    assert not hasattr(again, "device_")
    np.testing.assert_array_equal(again.predict(ROWS), model.labels_)


def test_the_oracle_fits_what_the_cpu_fits(tmp_path):
    for make in (
        lambda device: SphericalKMeans(4, random_state=0, device=device),
        lambda device: DPvMFMeans(1.0, device=device),
    ):
        plain, slow = make(None).fit(ROWS), make("reference").fit(ROWS)
        assert slow.device_ == "reference"
        np.testing.assert_array_equal(slow.labels_, plain.labels_)
        np.testing.assert_array_equal(slow.resultants_, plain.resultants_)
        armillary.save(plain, tmp_path / "plain")
        armillary.save(slow.set_params(device=None), tmp_path / "slow")
        assert (tmp_path / "plain").read_bytes() == (tmp_path / "slow").read_bytes()


def test_a_device_that_is_not_here_gets_a_sentence():
    with pytest.raises(
        ParameterError, match=r"`device` of SphericalKMeans must have .* here; got 'cuda'.*device='cpu'"
    ):
        SphericalKMeans(3, device="cuda").fit(ROWS)
    with pytest.raises(ParameterError, match=r"`device` of DPvMFMeans must have .* here; got 'cuda"):
        DPvMFMeans(device="cuda:1").fit(ROWS)
    for odd in ("gpu", 3, "CPU", ["cpu"], "cuda:", "cuda:-1", "cuda:x", "cpu:0"):
        with pytest.raises(ParameterError, match="must be None, 'auto', 'cpu', 'cuda' or a card such as"):
            DPvMFMeans(device=odd).fit(ROWS)


def test_a_model_of_another_machine_loads(tmp_path):
    model = SphericalKMeans(3, random_state=0).fit(ROWS).set_params(device="cuda")
    armillary.save(model, tmp_path / "model")
    again = armillary.load(tmp_path / "model")
    with pytest.raises(ParameterError, match=r"`device` of SphericalKMeans must have .* here; got 'cuda'"):
        again.predict(ROWS)
    np.testing.assert_array_equal(again.set_params(device=None).predict(ROWS), model.labels_)


def test_engines_are_known_by_name():
    with pytest.raises(ParameterError, match=r"must be one of .*'cpu'"):
        select.engine("abacus")
