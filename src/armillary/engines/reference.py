"""The oracle behind the seam: rows in memory, kernels written in NumPy to be read, slow."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from armillary.engines.contract import UNIT, Gate
from armillary.engines.cpu import CpuEngine
from armillary.points import Points


class ReferenceEngine(CpuEngine):
    """`CpuEngine` with the kernels of `kernels/rows/reference.py`."""

    name = "reference"

    def points(
        self,
        X: Any,
        who: str,
        sample_weight: Any = None,
        expected_features: int | None = None,
        gate: Gate = UNIT,
    ) -> Points:
        """Check rows and their weights."""
        return replace(super().points(X, who, sample_weight, expected_features, gate), engine=self.name)
