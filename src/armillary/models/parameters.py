"""What checks of parameters are given: plain values by name, the shape of the rows, and whose they are.

Each model has a frozen `Parameters` with `check(given, rows, who)`. No estimator is needed: a search, a file or a test
asks with a mapping of parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeVar

import numpy as np

Given: TypeAlias = Mapping[str, Any]  # parameters of a constructor, by name; other names are passed over


class RowShape(Protocol):
    """What checks ask of rows; every kind of points has it."""

    @property
    def n_rows(self) -> int:
        """How many rows."""

    @property
    def n_features(self) -> int:
        """How many columns."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of the values."""


class AnyRows(NamedTuple):
    """The shape of rows that are not here: by default of as many as any parameter asks for."""

    n_features: int
    n_rows: int = 1 << 30
    dtype: np.dtype[Any] = np.dtype(np.float64)


class Runs(Protocol):
    """Checked parameters that tell how many runs a fit has, and how many steps each at most."""

    @property
    def n_init(self) -> int:
        """Runs."""

    @property
    def max_iter(self) -> int:
        """Most steps of one."""


R = TypeVar("R", bound=Runs)
Check: TypeAlias = Callable[[Given, RowShape, str], R]
