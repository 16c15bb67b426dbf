"""Rows on disk (`sources`): the CPU's passes over stretches of rows that are read ahead of the work.

A pass goes through its lanes in order, and each lane is one stretch: the next are read by one thread while the last
are worked on (`sources/ahead.py`), and rows are looked at and made unit block by block. Lanes depend on the shape of
all rows alone, so labels, sums and model files have the bits of rows in memory. What is kept of a row is what fits
keep beside rows: its label, 4 bytes, 8 more where bounds are kept ("hamerly"), and its weight where it has one.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import Any

from armillary.engines.contract import UNIT, Gate
from armillary.engines.cpu import CpuEngine
from armillary.kernels.rows.contract import Kernels
from armillary.kernels.select import kernels_for
from armillary.points import Points, refuse_stored


class ChunksEngine(CpuEngine):
    """The engine of rows on disk; see `engines/contract.py`."""

    name = "chunks"

    @cached_property
    def kernels(self) -> Kernels:
        """What works on blocks of rows."""
        return kernels_for("cpu")

    def points(
        self,
        X: Any,
        who: str,
        sample_weight: Any = None,
        expected_features: int | None = None,
        gate: Gate = UNIT,
    ) -> Points:
        """Check shapes and weights; values are looked at when they are read.

        Where rows may be without a direction, those are found first, by a reading of their own.
        """
        if gate.kind == "counts":
            refuse_stored(X, who, "counts are divided by the length of the longest row before the first pass")
        return replace(super().points(X, who, sample_weight, expected_features, gate), engine=self.name)
