"""A few rows of each cluster: those nearest to its direction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from armillary._typing import Float64Array, FloatArray
from armillary.engines.contract import Here, Labels, Numbers, Passes
from armillary.rules import AffineRule


class Members(NamedTuple):
    """Rows of clusters."""

    labels: npt.NDArray[np.int32]  # (m,)
    scores: Float64Array  # (m,) with the own cluster
    numbers: Numbers  # (m,)


@dataclass(frozen=True)
class _NearestOfEach:
    """The rows with the highest numbers in the column, so many of each label; equals by number, so no cut matters."""

    most: int
    is_exact: ClassVar[bool] = True

    def part(self, scores: FloatArray, here: Here) -> Members:
        assert here.labels is not None
        numbers = here.first_row + np.arange(len(here.labels))
        return self._first(Members(here.labels, here.columns[0].astype(np.float64), numbers))

    def join(self, parts: Sequence[Members]) -> Members:
        labels, scores, numbers = zip(*parts, strict=True)
        return self._first(Members(np.concatenate(labels), np.concatenate(scores), np.concatenate(numbers)))

    def _first(self, members: Members) -> Members:
        order = np.lexsort((members.numbers, -members.scores, members.labels))
        labels = members.labels[order]
        ranks = np.arange(len(labels)) - np.searchsorted(labels, labels)
        kept = order[(ranks < self.most) & (labels >= 0)]
        return Members(members.labels[kept], members.scores[kept], members.numbers[kept])


def nearest_of_each(passes: Passes, labels: Labels, rule: AffineRule, most: int) -> Numbers:
    """The rows of each cluster with the highest scores, `most` of each or all it has, in the order of their numbers."""
    found = passes.fold(None, _NearestOfEach(most), labels, (passes.own(rule, labels),))
    return np.sort(found.numbers - passes.points.first_row)
