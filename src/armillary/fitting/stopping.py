"""When a fit stops."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class RelativeGain:
    """Stop when the objective gains at most `tol` of its size in a step.

    A relative rule: an absolute one asks for eleven digits on a million rows and for none on a hundred.
    """

    tol: float

    def gain(self, before: float, now: float) -> float:
        """The gain as a fraction of the objective; infinite at the first step."""
        if not math.isfinite(before):
            return math.inf
        return (now - before) / max(abs(now), 1e-300)

    def is_met(self, gain: float) -> bool:
        """Whether the fit has settled."""
        return gain <= self.tol
