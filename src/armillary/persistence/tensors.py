"""Arrays in a plain safetensors file, such as embedders write: no model, only names and arrays."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import safetensors
import safetensors.numpy

from armillary.exceptions import InputError
from armillary.persistence.schema import Array


def tensor_shapes(path: str | os.PathLike[str]) -> dict[str, tuple[int, ...]]:
    """The names of the arrays in a safetensors file with their shapes; the arrays themselves are not read."""
    with _opened(path) as file:
        return {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118


def read_tensor(path: str | os.PathLike[str], name: str) -> Array:
    """One array of a safetensors file."""
    with _opened(path) as file:
        try:
            return np.asarray(file.get_tensor(name))
        except (safetensors.SafetensorError, TypeError) as error:  # TypeError: a dtype that NumPy lacks
            raise InputError(
                f"'{os.fsdecode(path)}' must hold numbers that NumPy has under '{name}'; it does not read "
                f"({str(error).rstrip('.')}). Save it as float16, float32 or float64."
            ) from error


def packed_tensors(arrays: Mapping[str, Array]) -> bytes:
    """The content of a safetensors file with these arrays."""
    return safetensors.numpy.save({name: np.ascontiguousarray(array) for name, array in arrays.items()})


def _opened(path: str | os.PathLike[str]) -> safetensors.safe_open:
    file = Path(os.fsdecode(path))
    file.open("rb").close()  # a missing file or one without permission is an OSError that names it
    try:
        return safetensors.safe_open(file, framework="numpy")
    except safetensors.SafetensorError as error:
        raise InputError(
            f"'{file}' must be a whole safetensors file; it is cut short, damaged or something else ({error}). "
            "Fetch it again from where it came."
        ) from error
