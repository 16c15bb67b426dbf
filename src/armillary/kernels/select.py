"""From a device's name to its kernels, imported when asked for. What was asked for happens, or an error says why."""

from __future__ import annotations

from typing import cast

from armillary.collector import imported
from armillary.exceptions import ParameterError
from armillary.kernels.rows.contract import Kernels

_HOMES = {"cpu": "armillary.kernels.rows.blocks", "reference": "armillary.kernels.rows.reference"}


def kernels_for(device: str) -> Kernels:
    """The kernels of `device`: "cpu", or "reference" (NumPy, slow, for tests)."""
    if device not in _HOMES:
        known = ", ".join(repr(name) for name in _HOMES)
        raise ParameterError(f"`device` must be one of {known}; got {device!r}. There is no other implementation here.")
    return cast(Kernels, imported(_HOMES[device]))
