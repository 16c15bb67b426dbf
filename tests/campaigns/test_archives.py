"""A little of the campaign against model files, and that no model of a legal fit is refused."""

import numpy as np
import pytest
from tests.campaigns.campaign import clean_run
from tests.campaigns.saved_models import MAKERS, fitted

from armillary import load, save


def test_changed_files_are_refused_or_can_be_used():
    outcomes = clean_run("archives", seed=0, trials=250)
    assert outcomes["refused: damaged"] > 100
    assert outcomes["refused: signed"] > 50
    assert outcomes["a model"] > 12


@pytest.mark.parametrize("name", MAKERS)
def test_models_of_legal_fits_are_saved_and_come_back(name, tmp_path):
    for number in range(2):
        save(fitted(np.random.default_rng([99, number]), name), tmp_path / "first")
        save(load(tmp_path / "first"), tmp_path / "second")
        assert (tmp_path / "first").read_bytes() == (tmp_path / "second").read_bytes()
