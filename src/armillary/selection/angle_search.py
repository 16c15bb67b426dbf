"""The angle of DP-vMF-means that gives a number of clusters, by fits that are counted.

Begins at the farthest-first angle (`suggest_max_angle`), steps away from it until the number lies between two angles,
and halves what lies between. Kulis and Jordan stop at the first, which is the angle of the outermost rows: on the 2,225
documents of BBC News `DPvMFMeans` finds 87 clusters at the angle for 5, and 5 at 89.7 degrees.

The number of clusters falls with the angle, but not at every step: a row order decides which rows open clusters. So a
number may be passed over, and then both neighbours are told.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from armillary._typing import ArrayLike, Float64Array, IntArray, RandomState
from armillary.engines.select import open_passes
from armillary.exceptions import InputError
from armillary.fitting.events import Emitter
from armillary.fitting.initialization import farthest_first
from armillary.models.estimator import all_observers
from armillary.models.means.dp_vmf_means import DPvMFMeans, least_angle
from armillary.points import Points, as_points
from armillary.selection.angle_selection import usable_angles
from armillary.selection.choice import choice_html
from armillary.selection.counting import counted
from armillary.validation import check_integer

# The ratio of the first two angles; it is squared at every step that leaves the number far away.
_FIRST_RATIO = 1.05
# Angles nearer than this are not parted any more.
_LAST_RATIO = 1.0005
_MOST_FITS = 50


@dataclass(frozen=True, eq=False)
class AngleSearch:
    """What `find_max_angle` tried, and where it came nearest to the number asked for. `print` says it in a sentence."""

    n_asked: int
    max_angles: Float64Array  # (m,) radians, increasing
    n_clusters: IntArray  # (m,) clusters found
    model: DPvMFMeans  # fitted at the angle with the nearest number
    criterion: ClassVar[str] = "clusters found"

    @property
    def best(self) -> int:
        """The number of the angle whose clusters are nearest to those asked for; of equals the largest angle."""
        differences = np.abs(self.n_clusters - self.n_asked)
        return int(np.flatnonzero(differences == differences.min())[-1])

    @property
    def max_angle(self) -> float:
        """The angle there, in radians."""
        return float(self.max_angles[self.best])

    @property
    def n_found(self) -> int:
        """The clusters there: `model.n_clusters_`."""
        return int(self.n_clusters[self.best])

    @property
    def reason(self) -> str:
        """What was asked and what was found, with the nearest numbers on both sides where they differ."""
        place = f"{math.degrees(self.max_angle):.6g} degrees"
        said = f"{counted(self.n_asked, 'cluster')} asked, {self.n_found:,} found at {place}"
        tried = f"{counted(len(self.max_angles), 'angle')} tried"
        if self.n_found == self.n_asked:
            return f"{said} ({tried})."
        near = [self._nearest(self.n_clusters > self.n_asked), self._nearest(self.n_clusters < self.n_asked)]
        numbers = " and ".join(words for words in near if words)
        fewer = "" if all(near) else f"; none tried gives {'more' if near[1] else 'fewer'}"
        return f"{said}. {self.n_asked:,} could not be had: the nearest of {tried} give {numbers}{fewer}."

    def _nearest(self, is_side: Any) -> str:
        numbers = np.flatnonzero(is_side)
        if not len(numbers):
            return ""
        differences = np.abs(self.n_clusters[numbers] - self.n_asked)
        nearest = numbers[differences == differences.min()][-1]
        return f"{self.n_clusters[nearest]:,} at {math.degrees(self.max_angles[nearest]):.6g} degrees"

    @property
    def table(self) -> list[dict[str, Any]]:
        """One line for each angle."""
        return [
            {"max_angle_degrees": math.degrees(angle), "n_clusters": int(found), "is_chosen": number == self.best}
            for number, (angle, found) in enumerate(zip(self.max_angles, self.n_clusters, strict=True))
        ]

    def _repr_html_(self) -> str:
        """What notebooks show."""
        return choice_html(self)

    def __str__(self) -> str:
        return self.reason


def find_max_angle(
    X: Any,
    n_clusters: int,
    *,
    sample_weight: ArrayLike | None = None,
    n_init: int = 1,
    max_iter: int = 300,
    tol: float = 1e-6,
    max_clusters: int | None = None,
    consolidate: bool = False,
    random_state: RandomState = None,
    n_threads: int | None = None,
    verbose: int = 0,
    callbacks: Any = None,
) -> AngleSearch:
    """Look for the angle at which `DPvMFMeans` finds `n_clusters` clusters, by fits that are counted.

    Begins with `suggest_max_angle`, and stops at the first angle that gives the number, or when the number lies between
    two angles that differ by less than a thousandth (50 fits at most); then the nearest is taken.

    Parameters
    ----------
    X : array-like or CSR matrix of shape (n, D)
        Rows with a direction.
    n_clusters : int
        Number of clusters wanted, at most n.
    sample_weight : array-like of shape (n,), optional
        Weights of the rows in the fits.
    n_init, max_iter, tol, max_clusters, consolidate, random_state, n_threads
        As for `DPvMFMeans`, at every angle. An int as `random_state` makes `search.model` the fit that
        `DPvMFMeans(search.max_angle, ..., random_state=random_state)` gives alone.
    verbose : int, default=0
        1 shows a progress bar (needs the extra "progress").
    callbacks : callable, sequence of callables or None, default=None
        Each is called with a `FitEvent` after every fit: `n_clusters` is what was found.

    Returns
    -------
    search : AngleSearch
        `search.model` is the fit, `search.max_angle` its angle, `search.n_found` its clusters; `print(search)` says
        whether they are as many as asked for, and if not, the nearest numbers on both sides.

    Examples
    --------
    >>> from armillary import find_max_angle
    >>> from armillary.datasets import make_vmf_mixture
    >>> X, truth, _ = make_vmf_mixture(1000, 3, 5, concentration=200.0, min_angle=0.8, random_state=0)
    >>> find_max_angle(X, 5).model.n_clusters_
    5
    """
    who = "find_max_angle"
    points = as_points(X, who, sample_weight)
    asked = check_integer(n_clusters, "n_clusters", who, low=1)
    if asked > points.n_rows:
        raise InputError(
            f"`n_clusters` of {who} must not exceed the number of rows; got n_clusters={asked} for {points.n_rows} "
            "rows. Lower n_clusters or give more rows."
        )
    watching = all_observers(callbacks, verbose, who)
    parameters = {
        "max_iter": max_iter,
        "tol": tol,
        "n_init": n_init,
        "max_clusters": max_clusters,
        "consolidate": consolidate,
        "random_state": random_state,
        "n_threads": n_threads,
    }
    first = _first_angle(points, asked, n_threads, who)
    with Emitter(who, watching, n_rows=points.n_rows, n_restarts=1, max_steps=_MOST_FITS) as emitter:
        search = _Search(X, sample_weight, parameters, asked, emitter)
        search.go(first, least_angle(points.dtype))
        return search.result()


def _first_angle(points: Points, n_picks: int, n_threads: int | None, who: str) -> float:
    """The farthest-first angle, or the last one before rows lie too near each other."""
    with open_passes(points, n_threads, who) as passes:
        angles = usable_angles(farthest_first(passes, n_picks)[1], points)
    return float(angles[-1]) if len(angles) else math.pi / 4.0


class _Search:
    """Fits at angles that come one after the other; the nearest to the number is kept."""

    def __init__(
        self, X: Any, sample_weight: ArrayLike | None, parameters: dict[str, Any], asked: int, emitter: Emitter
    ) -> None:
        self._X, self._sample_weight, self._parameters = X, sample_weight, parameters
        self._asked, self._emitter = asked, emitter
        self._found: dict[float, int] = {}
        self._n_looks = 0
        self._nearest: DPvMFMeans | None = None

    @property
    def _is_done(self) -> bool:
        return self._asked in self._found.values() or self._n_looks >= _MOST_FITS

    def go(self, first: float, least: float) -> None:
        """Steps away from the first angle until the number lies between two, then halves."""
        is_above = self._has_more(first)
        low = high = first  # at low there are too many clusters, at high too few
        ratio = _FIRST_RATIO
        while not self._is_done:
            if is_above:
                low, high = high, min(high * ratio, math.pi)
                if not self._has_more(high):
                    break
            else:
                high, low = low, max(low / ratio, least)
                if self._has_more(low):
                    break
            if low == least or high == math.pi:
                return  # as many or as few as there can be
            ratio *= ratio
        while not self._is_done and high / low > _LAST_RATIO:
            middle = math.sqrt(low * high)
            if self._has_more(middle):
                low = middle
            else:
                high = middle

    def _has_more(self, angle: float) -> bool:
        """Whether there are more clusters than asked for at an angle: by a fit, or a sweep that opens far too many."""
        self._n_looks += 1
        if self._opens_far_too_many(angle):
            return True
        model = DPvMFMeans(angle, **self._parameters).fit(self._X, sample_weight=self._sample_weight)
        found = model.n_clusters_
        self._found[angle] = found
        self._emitter.step(restart=1, step=len(self._found), n_clusters=found, objective=-abs(found - self._asked))
        if self._nearest is None or self._rank(model) < self._rank(self._nearest):
            self._nearest = model
        return found > self._asked

    def _rank(self, model: DPvMFMeans) -> tuple[int, float]:
        return abs(model.n_clusters_ - self._asked), -float(model.max_angle)

    def _opens_far_too_many(self, angle: float) -> bool:
        """One sweep with a cap: at an angle below the width of clusters nearly every row opens one, n^2 D in all."""
        cap = 8 * self._asked + 32
        if self._parameters["max_clusters"] is not None or not self._found:
            return False
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # one sweep is not the end
            settings = {**self._parameters, "max_clusters": cap, "max_iter": 1, "n_init": 1, "consolidate": False}
            look = DPvMFMeans(angle, **settings).fit(self._X, sample_weight=self._sample_weight)
        return look.n_clusters_ >= cap and look.n_outside_ > 0

    def result(self) -> AngleSearch:
        """What was tried, by angle."""
        angles = sorted(self._found)
        model = self._nearest
        assert model is not None, "the first angle is always fitted"
        self._emitter.keep(
            restart=1,
            step=list(self._found).index(float(model.max_angle)) + 1,
            n_clusters=model.n_clusters_,
            objective=-abs(model.n_clusters_ - self._asked),
        )
        return AngleSearch(self._asked, np.array(angles), np.array([self._found[one] for one in angles]), model)
