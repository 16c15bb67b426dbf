"""The angle of DP-vMF-means: from a number of clusters, or by comparing silhouettes (dp_vmf_means.md, 9).

`suggest_max_angle` guesses from the number of clusters with a pass over the rows for each: Kulis and Jordan's
farthest-first rule; `find_max_angle` (angle_search.py) goes on from there. `select_max_angle` needs nothing but the
rows: it fits `DPvMFMeans` at each angle of a grid and keeps the one with the best mean silhouette by cosine. Both work
on all rows; on a sample angles come out too small.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from armillary._typing import ArrayLike, Float64Array, IntArray, RandomState
from armillary.engines.contract import Counted, Passes, Points
from armillary.engines.select import open_passes
from armillary.exceptions import InputError, ParameterError
from armillary.fitting.events import Emitter
from armillary.fitting.initialization import farthest_first
from armillary.fitting.silhouette import mean_silhouette
from armillary.models.estimator import all_observers
from armillary.models.means.dp_vmf_means import DPvMFMeans, check_max_angle, least_angle
from armillary.points import as_points
from armillary.selection.choice import choice_html
from armillary.validation import check_angle, check_integer, check_number

# The grid that is chosen from the data. A good range of angles is about a fifth wide (18 to 22 degrees for 30 clusters
# on the sphere); 20 steps of a fifth go from 5 to 180 degrees.
_N_ANGLES = 20
_LEAST_RATIO = 1.01  # fewer angles rather than finer steps
_IGNORED_SHARE = 0.01  # rows that may be outliers
_FEW_CLUSTERS, _MANY_CLUSTERS = 20, 200
# Beyond the grid, with `extend`: so many angles past the best say that it is inside; steps are at least so wide, for
# where all rows are near their mean direction the grid is narrow (voices: 46 to 53 degrees, and 10 speakers at 58); not
# beyond so many clusters, for a fit with K clusters costs n K D.
_N_BEYOND = 2
_LEAST_RATIO_BEYOND = 1.03
_MOST_CLUSTERS = 1000


def suggest_max_angle(X: Any, n_clusters: int, *, ignore_fraction: float = 0.0, n_threads: int | None = None) -> float:
    """An angle in radians to begin with where `n_clusters` clusters are wanted: the farthest-first guess.

    Starts from the mean direction and takes the row farthest from everything taken, `n_clusters` times; the angle of
    the last one is returned (Kulis and Jordan 2012, section 5). Without chance, in O(n K D) time. Nothing is fitted:
    well separated clusters come out as asked for, rows with outliers or without clear clusters may give many times as
    many. `find_max_angle` fits and counts.

    Parameters
    ----------
    X : array-like or CSR matrix of shape (n, D)
        Rows with a direction.
    n_clusters : int
        Number of clusters wanted, roughly.
    ignore_fraction : float, default=0.0
        Share of the rows, in [0, 1), that is passed over for each pick, the farthest first. Outliers are what
        farthest-first looks for: if 1 % of the rows may be outliers, give 0.01.
    n_threads : int or None, default=None
        Threads; None takes every core. The result does not depend on it.

    Returns
    -------
    float
        Radians.

    Examples
    --------
    >>> from armillary import DPvMFMeans, suggest_max_angle
    >>> from armillary.datasets import make_vmf_mixture
    >>> X, truth, _ = make_vmf_mixture(1000, 3, 5, concentration=200.0, min_angle=0.8, random_state=0)
    >>> DPvMFMeans(max_angle=suggest_max_angle(X, 5)).fit(X).n_clusters_
    5
    """
    who = "suggest_max_angle"
    points = as_points(X, who)
    n_picks = check_integer(n_clusters, "n_clusters", who, low=1)
    n_ignored = _check_ignored(ignore_fraction, points.n_rows, who)
    if n_picks > points.n_rows - n_ignored:
        raise InputError(
            f"`n_clusters` of {who} must not exceed the number of rows{' that are not ignored' if n_ignored else ''}; "
            f"got n_clusters={n_picks} for {points.n_rows - n_ignored} of {points.n_rows} rows. "
            "Lower n_clusters or give more rows."
        )
    with open_passes(points, n_threads, who) as passes:
        _, angles = farthest_first(passes, n_picks, n_ignored=n_ignored)
    n_apart = len(usable_angles(angles, points))
    if n_apart < n_picks:
        raise InputError(
            f"`n_clusters` of {who} must not exceed the number of rows that lie apart; got n_clusters={n_picks}, but "
            f"after {n_apart} picks every row{' that is not ignored' if n_ignored else ''} lies next to the mean "
            f"direction or a row that was taken. Lower n_clusters, or choose max_angle by hand."
        )
    return float(angles[-1])


def _check_ignored(ignore_fraction: Any, n_rows: int, who: str) -> int:
    hint = "It is the share of rows that may be outliers, e.g. 0.01."
    fraction = check_number(ignore_fraction, "ignore_fraction", who, low=0.0, high=1.0, hint=hint)
    # a product like 0.29 * 100 may end just below the number that is meant
    n_ignored = math.floor(fraction * n_rows + 1e-6)
    if n_ignored >= n_rows:
        raise ParameterError(
            f"`ignore_fraction` of {who} must leave a row; got {ignore_fraction!r}, which is all {n_rows} rows. {hint}"
        )
    return n_ignored


def usable_angles(angles: Float64Array, points: Points) -> Float64Array:
    """The angles before the first that `DPvMFMeans` would refuse for these rows: 0, or too small to tell apart."""
    for number, angle in enumerate(angles):
        try:
            check_max_angle(float(angle), points.dtype, "DPvMFMeans")
        except ParameterError:
            return angles[:number]
    return angles


def _best_ones(silhouettes: Float64Array) -> IntArray:
    """The numbers of the highest, and of those that differ from it by rounding or by the order of clusters alone."""
    return np.flatnonzero(silhouettes >= silhouettes.max() - 1e-9)


def _best(silhouettes: Float64Array) -> int:
    equals = _best_ones(silhouettes)
    return int(equals[(len(equals) - 1) // 2])


@dataclass(frozen=True, eq=False)
class AngleTable:
    """What `select_max_angle` found at each angle: a `Choice`.

    `print` shows it in degrees; `plots.plot_angle_table` draws it.
    """

    max_angles: Float64Array  # (m,) radians, increasing
    n_clusters: IntArray  # (m,) clusters found
    silhouettes: Float64Array  # (m,) mean silhouette by cosine; 0 where there is one cluster
    objectives: Float64Array  # (m,) objective_ of the fits; not comparable between angles
    n_sweeps: IntArray  # (m,) n_iter_ of the fits
    model: DPvMFMeans  # fitted at the best angle
    end: str = ""  # where the best angle is the first or the last: that it is, and what lies beyond
    criterion: ClassVar[str] = "mean silhouette by cosine"

    @property
    def best(self) -> int:
        """The number of the angle with the highest silhouette; of equals (to 1e-9) the one in the middle.

        Well separated clusters come out alike over a range of angles; its middle will do for more such rows too.
        """
        return _best(self.silhouettes)

    @property
    def max_angle(self) -> float:
        """The best angle, in radians."""
        return float(self.max_angles[self.best])

    @property
    def table(self) -> list[dict[str, Any]]:
        """One line for each angle; the score is the silhouette."""
        columns = zip(np.degrees(self.max_angles), self.n_clusters, self.silhouettes, strict=True)
        return [
            {
                "max_angle_degrees": float(angle),
                "n_clusters": int(found),
                "score": float(silhouette),
                "is_chosen": number == self.best,
            }
            for number, (angle, found, silhouette) in enumerate(columns)
        ]

    @property
    def reason(self) -> str:
        """Why the angle was taken, and whether it is at the end of those that were tried."""
        first, last = (math.degrees(angle) for angle in (self.max_angles[0], self.max_angles[-1]))
        said = (
            f"The angle, {math.degrees(self.max_angle):.4g} degrees, has the best mean silhouette "
            f"({self.silhouettes[self.best]:.3f}) of {len(self.max_angles)} between {first:.4g} and {last:.4g}."
        )
        return f"{said} {self.end}".rstrip()

    def _repr_html_(self) -> str:
        """What notebooks show."""
        return choice_html(self)

    def __str__(self) -> str:
        """One line for each angle, in degrees; the best is marked, and a line says so where it is at the end."""
        lines = [f"  {'max_angle':>10}  {'clusters':>8}  {'silhouette':>10}  {'objective':>12}  {'sweeps':>6}"]
        for number, angle in enumerate(np.degrees(self.max_angles)):
            lines.append(
                f"{'>' if number == self.best else ' '} {angle:>6.4g} deg  {self.n_clusters[number]:>8}  "
                f"{self.silhouettes[number]:>10.4f}  {self.objectives[number]:>12.6g}  {self.n_sweeps[number]:>6}"
            )
        return "\n".join([*lines, self.end] if self.end else lines)


def select_max_angle(
    X: Any,
    angles: ArrayLike | None = None,
    *,
    sample_weight: ArrayLike | None = None,
    n_init: int = 1,
    max_iter: int = 300,
    tol: float = 1e-6,
    max_clusters: int | None = None,
    consolidate: bool = False,
    extend: bool = False,
    random_state: RandomState = None,
    n_threads: int | None = None,
    verbose: int = 0,
    callbacks: Any = None,
) -> AngleTable:
    """Fit `DPvMFMeans` at several angles and compare mean silhouettes by cosine.

    Parameters
    ----------
    X : array-like or CSR matrix of shape (n, D)
        Rows with a direction. All of them are used: on a sample small angles win.
    angles : array-like of shape (m,), optional
        Angles in radians, in (0, pi]; they are sorted, and equal ones are fitted once. By default 20 with a constant
        ratio, from farthest-first angles (see `suggest_max_angle`, with 1 % of the rows ignored): the largest is that
        of 1 cluster, where nearly all rows lie within it of the mean direction; the smallest is that of `max_clusters`
        clusters, or without that of sqrt(n), but at least 20 and at most 200 or half as many as there are rows.
    sample_weight : array-like of shape (n,), optional
        Weights of the rows, in the fits and in the silhouettes.
    extend : bool, default=False
        Whether to go on, in steps of the same ratio or of 3 %, where the best angle is one of the first two or the last
        two of the grid: until two angles beyond the best are worse, or at most as far as one cluster, 1,000 clusters
        (`max_clusters`, where that is given), half as many as there are rows, or the smallest angle that the rows
        resolve. In any case `table.end` says so where the best is at an end.
    n_init, max_iter, tol, max_clusters, consolidate, random_state, n_threads
        As for `DPvMFMeans`, at every angle. An int as `random_state` makes each row of the table the fit that
        `DPvMFMeans(max_angle, ..., random_state=random_state)` gives alone.
    verbose : int, default=0
        1 shows one progress bar over all angles (needs the extra "progress").
    callbacks : callable, sequence of callables or None, default=None
        Each is called with a `FitEvent` after every angle: `step` is the number of the angle, counted from 1,
        `n_clusters` what was found, `objective` the mean silhouette.

    Returns
    -------
    table : AngleTable
        `table.max_angle` is the best angle and `table.model` the fit at that angle; `print(table)` shows all.

    Examples
    --------
    >>> from armillary import select_max_angle
    >>> from armillary.datasets import make_vmf_mixture
    >>> X, truth, _ = make_vmf_mixture(1000, 3, 5, concentration=200.0, min_angle=0.8, random_state=0)
    >>> table = select_max_angle(X, [0.2, 0.5, 1.5])
    >>> table.max_angle, table.model.n_clusters_
    (0.5, 5)
    """
    who = "select_max_angle"
    points = as_points(X, who, sample_weight)
    watching = all_observers(callbacks, verbose, who)
    if max_clusters is not None:
        check_integer(max_clusters, "max_clusters", who, low=1, hint="None sets no cap.")
    parameters = {
        "max_iter": max_iter,
        "tol": tol,
        "n_init": n_init,
        "max_clusters": max_clusters,
        "consolidate": consolidate,
        "random_state": random_state,
        "n_threads": n_threads,
    }
    with open_passes(points, n_threads, who) as passes:
        grid = _angle_grid(passes.over(Counted()), max_clusters) if angles is None else _check_angles(angles, who)
        limits = _Limits(least_angle(points.dtype), min(max_clusters or _MOST_CLUSTERS, points.n_rows // 2))
        with Emitter(who, watching, n_rows=points.n_rows, n_restarts=1, max_steps=len(grid)) as emitter:
            fits = _AngleFits(X, sample_weight, parameters, passes, emitter)
            for angle in grid:
                fits.add(float(angle))
            if extend and len(grid) > 1:
                for angle in _beyond(fits, limits, max(float(grid[1] / grid[0]), _LEAST_RATIO_BEYOND)):
                    fits.add(angle)
            return fits.table(limits)


@dataclass(frozen=True)
class _Limits:
    """How far angles are looked at, whatever the silhouettes say."""

    least_angle: float
    most_clusters: int


class _AngleFits:
    """Fits at angles that come one after the other, and their silhouettes; only the best models are kept."""

    def __init__(
        self, X: Any, sample_weight: ArrayLike | None, parameters: dict[str, Any], passes: Passes, emitter: Emitter
    ) -> None:
        self._X, self._sample_weight, self._parameters = X, sample_weight, parameters
        self._passes, self._emitter = passes, emitter
        self._lines: list[tuple[float, int, float, float, int]] = []
        self._models: dict[float, DPvMFMeans] = {}

    @property
    def in_order(self) -> list[tuple[float, int, float, float, int]]:
        """Angle, clusters, silhouette, objective and sweeps of each fit, by angle."""
        return sorted(self._lines)

    @property
    def silhouettes(self) -> Float64Array:
        """Of the fits, by angle."""
        return np.array([line[2] for line in self.in_order])

    def add(self, angle: float) -> None:
        """Fit at one more angle."""
        model = DPvMFMeans(angle, **self._parameters).fit(self._X, sample_weight=self._sample_weight)
        labels = self._passes.labels_from(model.labels_)
        silhouette = mean_silhouette(self._passes, labels, model.n_clusters_)
        self._lines.append((angle, model.n_clusters_, silhouette, model.objective_, model.n_iter_))
        # only fits that may be the best are kept: labels of many rows are large
        self._models[angle] = model
        best = {self.in_order[one][0] for one in _best_ones(self.silhouettes)}
        self._models = {one: kept for one, kept in self._models.items() if one in best}
        self._emitter.step(restart=1, step=len(self._lines), n_clusters=model.n_clusters_, objective=silhouette)

    def table(self, limits: _Limits) -> AngleTable:
        """What was found; the best is named to whoever watches."""
        angles, n_clusters, silhouettes, objectives, n_sweeps = (
            np.array(column) for column in zip(*self.in_order, strict=True)
        )
        best = _best(silhouettes)
        self._emitter.keep(
            restart=1,
            step=[line[0] for line in self._lines].index(angles[best]) + 1,
            n_clusters=int(n_clusters[best]),
            objective=float(silhouettes[best]),
        )
        model = self._models[float(angles[best])]
        return AngleTable(
            angles, n_clusters, silhouettes, objectives, n_sweeps, model, _end(angles, n_clusters, best, limits)
        )


def _beyond(fits: _AngleFits, limits: _Limits, ratio: float) -> Iterator[float]:
    """Angles to go on with while the best is near an end, that end first which it is nearer to."""
    is_small = 2 * _best(fits.silhouettes) < len(fits.silhouettes) - 1
    for side in (_smaller, _larger) if is_small else (_larger, _smaller):
        yield from side(fits, limits, ratio)


def _smaller(fits: _AngleFits, limits: _Limits, ratio: float) -> Iterator[float]:
    while _best(fits.silhouettes) < _N_BEYOND:
        angle, n_clusters = fits.in_order[0][0] / ratio, fits.in_order[0][1]
        if angle < limits.least_angle or n_clusters >= limits.most_clusters:
            return
        yield angle


def _larger(fits: _AngleFits, limits: _Limits, ratio: float) -> Iterator[float]:
    while _best(fits.silhouettes) >= len(fits.silhouettes) - _N_BEYOND:
        angle, n_clusters = fits.in_order[-1][0], fits.in_order[-1][1]
        if n_clusters == 1 or angle == math.pi:
            return
        yield min(angle * ratio, math.pi)


def _end(angles: Float64Array, n_clusters: IntArray, best: int, limits: _Limits) -> str:
    """A sentence where the best angle is at an end of those that were tried, and more could be tried."""
    found, angle = int(n_clusters[best]), math.degrees(angles[best])
    if len(angles) < 2 or 0 < best < len(angles) - 1:
        return ""
    if best == 0:
        if found >= limits.most_clusters:
            why = f"it has {found:,} clusters, and no more are looked for from {limits.most_clusters:,} on"
        elif math.radians(angle) <= limits.least_angle * 1.5:
            why = "the rows resolve no smaller ones"
        else:
            why = "smaller ones were not tried"
        return f"The best angle, {angle:.4g} degrees, is the smallest of {len(angles)}: {why}."
    if found == 1:
        return ""  # all larger angles give one cluster as well
    return f"The best angle, {angle:.4g} degrees, is the largest of {len(angles)}: larger ones were not tried."


def _angle_grid(passes: Passes, max_clusters: int | None) -> Float64Array:
    """Angles from that of many clusters to that of one, with a constant ratio."""
    n_rows = passes.points.n_rows
    most = max_clusters or min(max(math.isqrt(n_rows), _FEW_CLUSTERS), _MANY_CLUSTERS)
    n_picks = max(1, min(most, n_rows // 2))
    _, angles = farthest_first(passes, n_picks, n_ignored=math.floor(_IGNORED_SHARE * n_rows))
    usable = usable_angles(angles, passes.points)
    if len(usable) == 0:
        raise InputError(
            "X of select_max_angle must have rows that lie apart, for angles to be chosen by them; got "
            f"{n_rows} row(s) of one direction. Give `angles`."
        )
    smallest, largest = float(usable.min()), float(usable.max())
    n_steps = math.ceil(math.log(largest / smallest) / math.log(_LEAST_RATIO))
    return np.geomspace(largest, smallest, min(_N_ANGLES, 1 + n_steps))[::-1]


def _check_angles(angles: Any, who: str) -> Float64Array:
    is_list = isinstance(angles, Sequence | np.ndarray) and not isinstance(angles, str) and np.ndim(angles) == 1
    if not is_list or len(angles) == 0:
        raise ParameterError(
            f"`angles` of {who} must be None or a list of angles in (0, pi]; got {angles!r}. "
            "Give radians, e.g. numpy.radians([10, 20, 30])."
        )
    return np.unique([check_angle(angle, f"angles[{number}]", who) for number, angle in enumerate(angles)])
