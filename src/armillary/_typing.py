"""Array aliases used in signatures. Shapes are written in docstrings, since NumPy's types do not carry them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Float64Array: TypeAlias = npt.NDArray[np.float64]
FloatArray: TypeAlias = npt.NDArray[np.floating[Any]]
IntArray: TypeAlias = npt.NDArray[np.integer[Any]]
ArrayLike: TypeAlias = npt.ArrayLike
RandomState: TypeAlias = "int | np.random.Generator | np.random.RandomState | None"


Callback: TypeAlias = "Callable[[Any], object]"
