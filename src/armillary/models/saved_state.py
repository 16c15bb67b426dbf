"""What a model needs and no user reads, as one record: published with the attributes, saved as a part of its own."""

from __future__ import annotations

from typing import Any

import numpy as np


class SavedRecord:
    """Base of the records that `_saved_state` is; each is a frozen dataclass beside its estimator.

    Two are equal where all their fields are, bit for bit. What their values must be is said in `persistence/values.py`.
    """

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        mine, yours = vars(self), vars(other)
        return all(_are_equal(mine[name], yours[name]) for name in mine)


def _are_equal(one: Any, other: Any) -> bool:
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        if one.dtype != other.dtype or one.shape != other.shape:
            return False
        return one.tolist() == other.tolist() if one.dtype == object else one.tobytes() == other.tobytes()
    return type(one) is type(other) and bool(one == other)
