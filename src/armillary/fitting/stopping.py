"""When a fit stops."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol


class Stopping(Protocol):
    """A rule that looks at the objective before and after a step."""

    def gain(self, before: float, now: float) -> float:
        """The number that is compared with the tolerance; infinite at the first step."""

    def is_met(self, gain: float) -> bool:
        """Whether the fit has settled."""

    @property
    def patience(self) -> int:
        """How many steps in a row must meet the rule."""


@dataclass(frozen=True)
class AbsoluteGain:
    """Stop when the objective gains at most `tol` in a step: the rule of Gopal and Yang 2014."""

    tol: float
    patience: int = 1

    def gain(self, before: float, now: float) -> float:
        """The gain; infinite at the first step."""
        return now - before if math.isfinite(before) else math.inf

    def is_met(self, gain: float) -> bool:
        """Whether the fit has settled."""
        return gain <= self.tol


@dataclass(frozen=True)
class GainPerRow:
    """Stop when the objective gains at most `tol` for each unit of weight in a step: dp_vmf_means.md, 5."""

    tol: float
    total_weight: float
    patience: int = 1

    def gain(self, before: float, now: float) -> float:
        """The gain for each row; infinite at the first step."""
        return (now - before) / self.total_weight if math.isfinite(before) else math.inf

    def is_met(self, gain: float) -> bool:
        """Whether the fit has settled."""
        return gain <= self.tol


@dataclass(frozen=True)
class RelativeGain:
    """Stop when the objective gains at most `tol` of its size in a step.

    A relative rule: an absolute one asks for eleven digits on a million rows and for none on a hundred.
    """

    tol: float
    patience: int = 1

    def gain(self, before: float, now: float) -> float:
        """The gain as a fraction of the objective; infinite at the first step."""
        if not math.isfinite(before):
            return math.inf
        return (now - before) / max(abs(now), 1e-300)

    def is_met(self, gain: float) -> bool:
        """Whether the fit has settled."""
        return gain <= self.tol
