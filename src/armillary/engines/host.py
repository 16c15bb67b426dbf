"""Work that only the host can do: algorithms that go from row to row.

Collapsed samplers, which draw one label after the other, and `Links` are written against rows in memory. They ask for
them here, and other rows are refused with a sentence.
"""

from __future__ import annotations

from typing import Any, cast

from armillary.engines.contract import Passes, Points
from armillary.engines.cpu import Labels as LabelArray
from armillary.engines.cpu import Passes as HostPasses
from armillary.exceptions import InputError
from armillary.points import Points as HostPoints

__all__ = ["HostPasses", "HostPoints", "LabelArray", "host_passes", "host_points"]


def host_points(points: Points, instead: str = "") -> HostPoints:
    """Points in memory."""
    return cast(HostPoints, _checked(points, HostPoints, points.who, instead))


def host_passes(passes: Passes, instead: str = "") -> HostPasses:
    """Passes over rows in memory."""
    return cast(HostPasses, _checked(passes, HostPasses, passes.points.who, instead))


def _checked(given: Any, kind: type, who: str, instead: str) -> Any:
    if not isinstance(given, kind):
        raise InputError(
            f"X of {who} must be rows in memory, an array or a CSR matrix: what it does goes from row to row; got rows "
            f"that live elsewhere. Give a sample as an array{instead and ', or ' + instead}."
        )
    return given
