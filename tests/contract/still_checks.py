"""Expected failures must name checks that scikit-learn has: one that was renamed would be expected for ever."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sklearn.utils.estimator_checks import estimator_checks_generator


def assert_still_checks(expected: Iterable[str], estimator: Any) -> None:
    known = {getattr(check, "func", check).__name__ for _, check in estimator_checks_generator(estimator)}
    assert set(expected) <= known
