"""Labels are the same on every processor, and fitted numbers but for their last bits: BLAS chosen as on others."""

from __future__ import annotations

import sys

import pytest
from tests.campaigns.processors import MODELS, differences, fit_as_on, make_rows

# of the largest number of an array: what is left of the rounding of a sum after a fit
MOST = 1e-9
LONG = "BayesianVonMisesFisherMixture"  # of all steps, two thirds of the time


@pytest.mark.skipif(sys.platform == "darwin", reason="NumPy has another BLAS there, which takes no other names")
@pytest.mark.parametrize(
    "names", [[name for name in MODELS if name != LONG], pytest.param([LONG], marks=pytest.mark.slow)], ids=["", LONG]
)
def test_labels_do_not_depend_on_blas(names, tmp_path):
    make_rows(tmp_path, 90)
    data = ["dense 3"]
    one, other = (fit_as_on({"OPENBLAS_CORETYPE": core}, tmp_path, names, data) for core in ("Haswell", "Prescott"))
    told = differences(one, other)
    assert set(told) == set(names)
    for name, entry in told.items():
        assert entry["labels"] == 0, (name, entry)
        assert entry["numbers"] < MOST, (name, entry)
