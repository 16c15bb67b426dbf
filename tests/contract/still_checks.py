"""Expected failures must name checks that scikit-learn has: one that was renamed would be expected for ever."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import sklearn
from sklearn.utils.estimator_checks import estimator_checks_generator

# The lowest release that is supported has not all checks yet; every other one is held to the whole list.
_YOUNGER = {"check_estimator_sparse_tag"} if sklearn.__version__ == "1.6.0" else set()


def assert_still_checks(expected: Iterable[str], estimator: Any) -> None:
    known = {getattr(check, "func", check).__name__ for _, check in estimator_checks_generator(estimator)}
    assert set(expected) - _YOUNGER <= known
