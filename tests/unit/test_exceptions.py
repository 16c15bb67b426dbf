from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
import scipy.sparse as sp

from armillary import SphericalKMeans
from armillary.exceptions import InputError, RowError


@pytest.mark.parametrize("wrong", [np.nan, np.inf, 0.0])
@pytest.mark.parametrize("hold", [np.asarray, sp.csr_array])
def test_the_row_that_cannot_be_used_is_a_number(wrong, hold):
    rows = np.eye(6)
    rows[4, 4] = wrong
    with pytest.raises(RowError, match=r"^Row 4 of X ") as caught:
        SphericalKMeans(2).fit(hold(rows))
    assert caught.value.row == 4
    assert isinstance(caught.value, InputError)


def test_a_column_outside_the_matrix_is_in_a_row():
    matrix = sp.csr_array(np.eye(4))
    matrix.indices[2] = 9
    with pytest.raises(RowError, match=r"^Row 2 of X names column 9") as caught:
        SphericalKMeans(2).fit(matrix)
    assert caught.value.row == 2


def test_rows_after_others_have_later_numbers():
    later = RowError(3, "X", "is odd.").moved(100)
    assert (later.row, str(later)) == (103, "Row 103 of X is odd.")
    for twin in (pickle.loads(pickle.dumps(later)), copy.copy(later)):
        assert (type(twin), twin.row, str(twin)) == (RowError, 103, "Row 103 of X is odd.")
