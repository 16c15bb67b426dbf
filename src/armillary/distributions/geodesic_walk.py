"""The hidden walk of one track: from its memory, in T unseen steps, to the rows that bring it back.

A direction starts at mu_0 ~ vMF(m, w), takes T steps mu_n ~ vMF(mu_{n-1}, beta), and is seen through rows whose
resultant has length s and direction x, all concentrations in units of that of a row. The most likely walk lies on the
short arc from m to x (angle zeta), which it cuts into theta (m to mu_0), T equal steps phi, and eta (mu_T to x):

tension       w sin(theta) = beta sin(phi) = s sin(eta) = c        Straub 2015 suppl. sec. 3, from eq. 20
closure       theta + T phi + eta = zeta
exponent      f = w cos(theta) + T beta cos(phi) + s cos(eta)      the maximum of eq. 19, and df/dzeta = -c

solve, solve_small_angle, penalty          the angles, and what the walk costs
revival_score, revival_angle,
revival_curve, interpolate                 one row against an unseen track: a function of zeta alone
memory_weight, end_direction               what the track remembers afterwards

It is a chain of springs under one tension. All springs follow from the angle psi of the weakest, weight a, since
sin(angle) = (a/v) sin(psi) for a weight v. Only the weakest can bend beyond a right angle; all others are then the
principal arcsines, and x = psi or x = pi - psi, whichever is acute, is the one unknown:

acute         sum_j n_j arcsin((a/v_j) sin x) = zeta               all terms positive
obtuse        the same sum = pi - zeta                             all terms negative but that of the weakest

Both sums have the right sign of curvature for Newton's method to reach the root from one side, and both keep their
digits at their end of [0, pi]. An angle is taken as the exact value of its float: that nearest to pi is 1.2e-16 short
of it, so there is always one arc.

Arguments broadcast. Weights are positive; `weight` and `drift_concentration` may be infinite. Everything is float64.

Departures from the paper: the printed Newton iteration (unknown phi, principal arcsines, start 0) steps out of the
domain of the arcsine when zeta > a (1/w + T/beta + 1/s), and has no root at all in the obtuse case; a resultant of any
length s is taken, where eqs. 26-28 hold for s = 1; the weight remembered is by default the curvature of the exponent,
not its height.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np

from armillary._typing import ArrayLike, Float64Array
from armillary.geometry import sphere

__all__ = [
    "KNOT_SPACING_AT_ENDS",
    "MAX_NEWTON_STEPS",
    "MIN_ACROSS",
    "MIN_WEIGHT",
    "N_KNOTS",
    "PI_REST",
    "RevivalCurve",
    "WalkAngles",
    "WeightRule",
    "end_direction",
    "interpolate",
    "memory_weight",
    "penalty",
    "revival_angle",
    "revival_curve",
    "revival_score",
    "solve",
    "solve_small_angle",
]

# How a track weighs what it remembers; see `memory_weight`.
WeightRule = Literal["curvature", "paper"]

_EPS = float(np.finfo(np.float64).eps)
_RIGHT = np.pi / 2.0
# pi less the float nearest to it
PI_REST = 1.2246467991473532e-16
# Newton takes 3 steps on average and 10 at most over 200 000 random walks. Where the two least weights nearly agree
# the sum has a corner at psi = pi/2, and leaving it by doublings takes up to 31.
MAX_NEWTON_STEPS = 100
MIN_WEIGHT = 1e-6
# Below this a direction across the resultant is rounding, and the walk has no arc of its own.
MIN_ACROSS = 1e-12
# Knots of a revival curve.
N_KNOTS = 257
# How close knots lie at both ends of a piece, against the mean; 0.2 to 0.35 serve alike.
KNOT_SPACING_AT_ENDS = 0.3


@dataclass(frozen=True, eq=False)
class WalkAngles:
    """The most likely walk: angles in radians and the tension, arrays of one shape (...).

    memory    theta, from the memory direction to the walk's start
    step      phi, of each of the T steps; 0 where T = 0
    rows      eta, from the walk's end to the rows' resultant
    tension   c = weight * sin(angle), the same for every link
    """

    memory: Float64Array
    step: Float64Array
    rows: Float64Array
    tension: Float64Array


class RevivalCurve(NamedTuple):
    """Knots of the revival score over the angle zeta, each (..., n_knots), tracks first.

    angles    from 0 to pi, never falling; neighbours can be equal where the curve bends within the last bit of pi
    scores    S at the knots
    slopes    dS/dzeta = -c at the knots
    """

    angles: Float64Array
    scores: Float64Array
    slopes: Float64Array


def solve(
    angle: ArrayLike, weight: ArrayLike, drift_concentration: ArrayLike, n_steps: ArrayLike, length: ArrayLike
) -> WalkAngles:
    """The walk of greatest likelihood: exact for all angles, by a bracketed Newton iteration.

    Each element converges on its own. Measured against brute force in 60 digits, angles are within 5e-16; within 4e-11
    where zeta is pi but for its last bits and the weakest link gives as much as all others together. Without steps, or
    for steps that cannot turn (`drift_concentration` infinite), the walk ends along w m + s x and nothing is iterated.

    Parameters
    ----------
    angle : (...), zeta in [0, pi], between the memory and the resultant
    weight : (...), w > 0, of the memory
    drift_concentration : (...), beta > 0, of one step; may be infinite
    n_steps : (...), T >= 0
    length : (...), s > 0, of the resultant of the rows; 1 for one row
    """
    zeta, *links = _broadcast(angle, weight, drift_concentration, n_steps, length)
    chain = _Chain.of(*(link.ravel() for link in links))
    x, is_obtuse = _share_of_weakest(chain, zeta.ravel())
    bent = chain.bent(x, is_obtuse)
    angles = np.where(is_obtuse & chain.is_weakest, np.pi - bent.arcs, bent.arcs)
    memory, step, rows = angles.reshape(3, *zeta.shape)
    return WalkAngles(memory, step, rows, bent.tension.reshape(zeta.shape))


def solve_small_angle(
    angle: ArrayLike, weight: ArrayLike, drift_concentration: ArrayLike, n_steps: ArrayLike, length: ArrayLike
) -> WalkAngles:
    """The walk with sines replaced by angles: springs in series, c = zeta/(1/w + T/beta + 1/s). Arguments as `solve`.

    Straub 2015 suppl. eqs. 26-28 for a resultant of any length. The angles still add up to zeta; the tension is that
    of the linear springs, angle times weight.
    """
    zeta, *links = _broadcast(angle, weight, drift_concentration, n_steps, length)
    chain = _Chain.of(*links)
    x = zeta / chain.compliance
    memory, step, rows = chain.ratios * x
    return WalkAngles(memory, step, rows, chain.least * x)


def penalty(angles: WalkAngles, weight: ArrayLike, drift_concentration: ArrayLike, n_steps: ArrayLike) -> Float64Array:
    """What the walk costs against one that stays at the memory, w (1 - cos theta) + T beta (1 - cos phi); (...)."""
    steps = np.asarray(n_steps, dtype=np.float64)
    return _bending(weight, angles.memory) + steps * _bending(drift_concentration, angles.step)


def revival_score(
    angle: ArrayLike,
    weight: ArrayLike,
    drift_concentration: ArrayLike,
    n_steps: ArrayLike,
    miss_price: ArrayLike,
    *,
    is_exact: bool = True,
) -> Float64Array:
    """The score S of an unseen track for one row at `angle` (...) from its memory; Straub 2015 eq. 24, third case.

    S = 1 + T Q - penalty - (1 - cos eta), with `miss_price` Q <= 0 for each of the T steps. It lies between cos(zeta)
    + T Q and 1 + T Q, and falls strictly with the angle: its slope is minus the tension. With `is_exact=False` the
    walk is that of `solve_small_angle`: a walk among others, so its score is at most the exact one.
    """
    find = solve if is_exact else solve_small_angle
    angles = find(angle, weight, drift_concentration, n_steps, 1.0)
    # the difference f - w - T beta would lose 1e-16 of its parts: 1e-8 for beta = 1e4 and T = 1e4
    cost = penalty(angles, weight, drift_concentration, n_steps) + _bending(1.0, angles.rows)
    return _score_at_zero(n_steps, miss_price) - cost


def revival_angle(
    level: ArrayLike, weight: ArrayLike, drift_concentration: ArrayLike, n_steps: ArrayLike, miss_price: ArrayLike
) -> Float64Array:
    """The largest angle in [0, pi] at which the revival score is at least `level`; (...).

    pi where every row has that score, -1 where not even a row at the memory has. Score and angle are both explicit in
    the angle psi of the weakest link, so one root of S(psi) = level is all there is to find.
    """
    start = _score_at_zero(n_steps, miss_price)
    start, aim, *links = _broadcast(start, level, weight, drift_concentration, n_steps, 1.0)
    chain = _Chain.of(*(link.ravel() for link in links))
    budget = (start - aim).ravel()
    end, can_be_obtuse = _share_of_weakest(chain, np.full(start.size, np.pi))
    full_cost = chain.bent(end, can_be_obtuse).cost
    angle = np.where(budget >= full_cost, np.pi, np.where(budget >= 0.0, 0.0, -1.0))
    between = np.flatnonzero((budget > 0.0) & (budget < full_cost))
    angle[between] = _angle_of_cost(chain.take(between), budget[between], end[between], can_be_obtuse[between])
    return angle.reshape(start.shape)


def revival_curve(
    weight: ArrayLike,
    drift_concentration: ArrayLike,
    n_steps: ArrayLike,
    miss_price: ArrayLike,
    n_knots: int = N_KNOTS,
    *,
    is_exact: bool = True,
) -> RevivalCurve:
    """The revival score as a cubic Hermite interpolant in the angle, for tracks (K,): arrays (K, n_knots).

    Angle, score and slope are explicit in psi, so no knot needs a root. When two least weights nearly agree the slope
    turns round within a short stretch of angles, where psi passes through pi/2; when the weakest link gives as much as
    all others together it starts like a cube root at pi. Knots are therefore placed in psi, one of them at pi/2 (for
    an odd `n_knots`), and closer at both ends of the pieces on either side. Measured with 257 knots over weights
    1e-6..1e9, drift_concentration 1e-6..1e12 and inf, 1..1e4 steps, ties of weights to all digits included: the
    interpolant is within 9e-10 of the score on all of [0, pi]. Evenly spaced in psi it is within 4e-8.

    With `is_exact=False` all angles grow in proportion, so that knots evenly spaced in zeta serve: within 1e-10.
    """
    if not is_exact:
        return _small_angle_curve(weight, drift_concentration, n_steps, miss_price, n_knots)
    start, *links = _broadcast(_score_at_zero(n_steps, miss_price), weight, drift_concentration, n_steps, 1.0)
    chain = _Chain.of(*(link.ravel() for link in links))
    end, can_be_obtuse = _share_of_weakest(chain, np.full(start.size, np.pi))
    chain, end, can_be_obtuse = chain.take((slice(None), None)), end[:, None], can_be_obtuse[:, None]
    part = np.linspace(0.0, 1.0, n_knots)
    is_obtuse = can_be_obtuse & (part > 0.5)
    x = np.where(can_be_obtuse, _RIGHT * _eased(np.minimum(2.0 * part, 1.0)), end * _eased(part))
    x = np.where(is_obtuse, _RIGHT + (end - _RIGHT) * _eased(np.maximum(2.0 * part - 1.0, 0.0)), x)
    bent = chain.bent(x, is_obtuse)
    angles = np.clip(bent.angle, 0.0, np.pi)
    angles[:, 0], angles[:, -1] = 0.0, np.pi
    # rounding can reverse knots that differ in the last bit
    angles = np.maximum.accumulate(angles, axis=-1)
    scores, slopes = start.reshape(-1, 1) - bent.cost, -bent.tension
    shape = (*start.shape, n_knots)
    return RevivalCurve(angles.reshape(shape), scores.reshape(shape), slopes.reshape(shape))


def _small_angle_curve(
    weight: ArrayLike, drift_concentration: ArrayLike, n_steps: ArrayLike, miss_price: ArrayLike, n_knots: int
) -> RevivalCurve:
    w, drift, steps, price = (
        value[..., None] for value in _broadcast(weight, drift_concentration, n_steps, miss_price)
    )
    angles = np.broadcast_to(np.linspace(0.0, np.pi, n_knots), (*w.shape[:-1], n_knots)).copy()
    walk = solve_small_angle(angles, w, drift, steps, 1.0)
    scores = revival_score(angles, w, drift, steps, price, is_exact=False)
    # each weight times the growth of its angle is the tension per zeta, a constant
    per_angle = walk.tension[..., -1:] / np.pi
    slopes = -per_angle * (np.sin(walk.memory) + steps * np.sin(walk.step) + np.sin(walk.rows))
    return RevivalCurve(angles, scores, slopes)


def interpolate(curve: RevivalCurve, angle: ArrayLike) -> Float64Array:
    """Scores at `angle` (..., n) in [0, pi] from curves (..., n_knots) of the same leading axes; (..., n)."""
    zeta = np.asarray(angle, dtype=np.float64)
    n_knots = curve.angles.shape[-1]
    knots, scores, slopes = (values.reshape(-1, n_knots) for values in curve)
    flat = zeta.reshape(len(knots), -1)
    result = np.empty_like(flat)
    for row, at in enumerate(flat):
        left = np.clip(np.searchsorted(knots[row], at, side="right") - 1, 0, n_knots - 2)
        width = knots[row, left + 1] - knots[row, left]
        t = np.where(width > 0.0, (at - knots[row, left]) / np.where(width > 0.0, width, 1.0), 1.0)
        first, rise = scores[row, left], scores[row, left + 1] - scores[row, left]
        begin, finish = width * slopes[row, left], width * slopes[row, left + 1]
        result[row] = first + t * (begin + t * (3.0 * rise - 2.0 * begin - finish + t * (begin + finish - 2.0 * rise)))
    return result.reshape(zeta.shape)


def memory_weight(
    angles: WalkAngles,
    weight: ArrayLike,
    drift_concentration: ArrayLike,
    n_steps: ArrayLike,
    length: ArrayLike,
    rule: WeightRule = "curvature",
) -> Float64Array:
    """The weight of the track after its rows were seen, at least 1e-6; (...).

    "curvature"   s cos(eta) + 1/(1/(w cos theta) + T/(beta cos phi)): minus the second derivative of the exponent
                  when the walk's end moves along the arc, the concentration of the posterior. For small angles the
                  Kalman step s + 1/(1/w + T/beta): the walk erodes the old weight, the rows add theirs.
    "paper"       f, the height of the exponent. It grows by beta with each unseen step, and is infinite for steps
                  that cannot turn (beta infinite, T > 0), after which the memory stays where it is.
    """
    steps = np.asarray(n_steps, dtype=np.float64)
    rows = np.asarray(length, dtype=np.float64) * np.cos(angles.rows)
    memory = np.asarray(weight, dtype=np.float64) * np.cos(angles.memory)
    step = np.asarray(drift_concentration, dtype=np.float64) * np.cos(angles.step)
    if rule == "paper":
        # without steps an infinite beta is not met
        return np.maximum(memory + steps * np.where(steps > 0.0, step, 0.0) + rows, MIN_WEIGHT)
    if rule == "curvature":
        walk = np.where(steps > 0.0, step / np.where(steps > 0.0, steps, 1.0), np.inf)
        return np.maximum(rows + _in_series(memory, walk), MIN_WEIGHT)
    raise ValueError(f'`rule` of geodesic_walk.memory_weight must be "curvature" or "paper"; got {rule!r}.')


def end_direction(memory: ArrayLike, resultant_direction: ArrayLike, eta: ArrayLike) -> Float64Array:
    """mu_T: the resultant's direction turned by `eta` (...) towards the memory; unit vectors (..., D).

    Where the two agree to 1e-12 this is the resultant's direction. Where they are opposite, every arc is shortest; the
    one taken leaves in the direction of the coordinate axis along which the resultant has least.
    """
    x = np.asarray(resultant_direction, dtype=np.float64)
    m, x = np.broadcast_arrays(np.asarray(memory, dtype=np.float64), x)
    turn = np.asarray(eta, dtype=np.float64)[..., None]
    cosine = np.vecdot(m, x)[..., None]
    # the offset from x or -x, whichever is nearer, is exact and has the same part across x as m
    across = sphere.to_tangent(m - np.copysign(1.0, cosine) * x, x)
    is_flat = np.linalg.norm(across, axis=-1, keepdims=True) < MIN_ACROSS
    axis = np.arange(x.shape[-1]) == np.argmin(np.abs(x), axis=-1)[..., None]
    across = np.where(is_flat, sphere.to_tangent(axis.astype(np.float64), x), across)
    across = across / np.linalg.norm(across, axis=-1, keepdims=True)
    end = np.cos(turn) * x + np.sin(turn) * across
    end = end / np.linalg.norm(end, axis=-1, keepdims=True)
    return np.where(is_flat & (cosine > 0.0), x, end)


@dataclass(frozen=True, eq=False)
class _Chain:
    """The links of walks (...): to the memory, of the steps, to the rows, along a first axis of 3.

    least    (...)      a, the least weight that counts
    ratios   (3, ...)   a/v; 1 for the weakest, 0 for what cannot bend and for steps that are not there
    gaps     (3, ...)   1 - a/v, exact also where weights agree in nearly all digits
    counts   (3, ...)   1, T, 1

    `x` is the angle of the weakest link, or pi less that angle where `is_obtuse`.
    """

    least: Float64Array
    ratios: Float64Array
    gaps: Float64Array
    counts: Float64Array

    @classmethod
    def of(cls, weight: Float64Array, drift: Float64Array, steps: Float64Array, length: Float64Array) -> _Chain:
        weights = np.stack([weight, np.where(steps > 0.0, drift, np.inf), length])
        least = weights.min(axis=0)
        finite = np.where(np.isinf(weights), least, weights)
        gaps = np.where(np.isinf(weights), 1.0, (finite - least) / finite)
        ones = np.ones_like(least)
        return cls(least, least / weights, gaps, np.stack([ones, steps, ones]))

    def take(self, index: Any) -> _Chain:
        """The chains at `index`, an index of the leading axes."""
        every = (slice(None), *index) if isinstance(index, tuple) else (slice(None), index)
        return _Chain(self.least[index], self.ratios[every], self.gaps[every], self.counts[every])

    @cached_property
    def is_weakest(self) -> Any:
        return self.ratios == 1.0

    @property
    def compliance(self) -> Float64Array:
        """sum n a/v: angle of the whole per angle of the weakest, while both are small."""
        total: Float64Array = (self.counts * self.ratios).sum(axis=0)
        return total

    def signed_counts(self, is_obtuse: Any) -> Float64Array:
        return np.where(self.is_weakest | np.logical_not(is_obtuse), self.counts, -self.counts)

    def bent(self, x: Float64Array, is_obtuse: Any) -> _Bent:
        """With the weakest link at `x`."""
        return _Bent(self, x, is_obtuse, self.signed_counts(is_obtuse))


class _Bent:
    """Chains bent so that the weakest link has the angle `x` (...), or pi - x where `is_obtuse`.

    `signed_counts` are those of the chain for `is_obtuse`, made once where many `x` are tried.
    """

    def __init__(self, chain: _Chain, x: Float64Array, is_obtuse: Any, signed_counts: Float64Array) -> None:
        self._chain = chain
        self._is_obtuse = is_obtuse
        self._signed_counts = signed_counts
        sine = np.sin(x)
        self.tension: Float64Array = chain.least * sine
        self._sines = chain.ratios * sine  # of each arc (3, ...)
        self._cosine = np.cos(x)
        # cos of each arc, sqrt(1 - (a/v)^2 sin^2 x), without the cancellation
        self._cosines = np.sqrt(self._cosine**2 + chain.gaps * (1.0 + chain.ratios) * sine**2)

    @cached_property
    def arcs(self) -> Float64Array:
        """arcsin((a/v) sin x), with all digits also near a right angle; (3, ...)."""
        return np.arctan2(self._sines, self._cosines)

    @cached_property
    def length(self) -> Float64Array:
        """The signed sum of arcs: zeta, or pi - zeta where obtuse."""
        total: Float64Array = (self._signed_counts * self.arcs).sum(axis=0)
        return total

    @property
    def slope(self) -> Float64Array:
        """d length / dx."""
        rates = self._chain.ratios * self._cosine / self._cosines
        total: Float64Array = (self._signed_counts * rates).sum(axis=0)
        return total

    @property
    def give(self) -> Float64Array:
        """The signed sum of v (1 - cos arc): the cost, or 2a less the cost where obtuse."""
        return self._summed(self._signed_counts)

    @property
    def whole_give(self) -> Float64Array:
        """The sum of the sizes of all terms of `give`."""
        return self._summed(self._chain.counts)

    def _summed(self, counts: Float64Array) -> Float64Array:
        # v (1 - cos) = v sin tan(arc/2), and v sin is the tension: infinite weights need no care
        total: Float64Array = self.tension * (counts * self._sines / (1.0 + self._cosines)).sum(axis=0)
        return total

    @property
    def angle(self) -> Float64Array:
        """zeta."""
        return np.where(self._is_obtuse, np.pi - self.length, self.length)

    @property
    def cost(self) -> Float64Array:
        """sum of v (1 - cos angle) over all links."""
        return np.where(self._is_obtuse, 2.0 * self._chain.least - self.give, self.give)


def _share_of_weakest(chain: _Chain, zeta: Float64Array) -> tuple[Float64Array, Any]:
    """`x` and `is_obtuse` of chains (n,) that span angles (n,)."""
    # two links: the sum of two vectors at angle zeta, in units of the longer; (a/v) + cos(zeta) is this difference
    lean = 2.0 * np.cos(zeta / 2.0) ** 2 - np.maximum(chain.gaps[0], chain.gaps[2])
    has_two = chain.ratios[1] == 0.0
    right = np.full(zeta.shape, _RIGHT)
    is_obtuse = np.where(has_two, lean < 0.0, zeta > chain.bent(right, False).length)
    x = np.arctan2(np.sin(zeta), np.abs(lean))
    many = np.flatnonzero(~has_two)
    if many.size:
        x[many] = _newton(chain.take(many), zeta[many], is_obtuse[many])
    return x, is_obtuse


def _newton(chain: _Chain, zeta: Float64Array, is_obtuse: Any) -> Float64Array:
    """The root of length(x) = zeta or pi - zeta.

    Acute: concave, and at least (number of weakest links) x; Newton climbs from 0, whose first step is the small-angle
    solution. Obtuse: convex where it rises, and at most x; Newton comes down from pi/2.
    """
    target = np.where(is_obtuse, (np.pi - zeta) + PI_REST, zeta)
    n_weakest = np.where(chain.is_weakest, chain.counts, 0.0).sum(axis=0)
    low = np.where(is_obtuse, target, 0.0)
    high = np.where(is_obtuse, _RIGHT, np.minimum(zeta / n_weakest, _RIGHT))
    start = np.where(is_obtuse, _RIGHT, np.minimum(zeta / chain.compliance, high))

    signed_counts = chain.signed_counts(is_obtuse)

    def length(x: Float64Array) -> tuple[Float64Array, Float64Array, Float64Array]:
        bent = _Bent(chain, x, is_obtuse, signed_counts)
        # the sum of the terms' sizes: all add up, or all but the weakest are taken from x
        return bent.length, bent.slope, _EPS * np.where(is_obtuse, 2.0 * x - bent.length, bent.length)

    return _increasing_root(length, target, low, high, start)


def _angle_of_cost(chain: _Chain, cost: Float64Array, end: Float64Array, can_be_obtuse: Any) -> Float64Array:
    """The angles at which chains (n,) have a cost (n,) between 0 and that of pi, where x = `end`."""
    right = np.full(cost.shape, _RIGHT)
    is_obtuse = can_be_obtuse & (cost > chain.bent(right, False).cost)
    # the square root is nearly linear in x: the cost starts as a (sum n a/v) x^2/2
    target = np.sqrt(np.maximum(np.where(is_obtuse, 2.0 * chain.least - cost, cost), 0.0))
    low = np.where(is_obtuse, end, 0.0)
    high = np.where(can_be_obtuse, _RIGHT, end)
    small = target * np.sqrt(2.0 / chain.compliance) / np.sqrt(chain.least)
    start = np.where(is_obtuse, _RIGHT, np.minimum(small, high))

    def root_of_cost(x: Float64Array) -> tuple[Float64Array, Float64Array, Float64Array]:
        bent = chain.bent(x, is_obtuse)
        value = np.sqrt(np.maximum(bent.give, 0.0))
        per_root = np.where(value > 0.0, 0.5 / np.where(value > 0.0, value, 1.0), 0.0)
        # the envelope theorem: d cost = c d length
        return value, bent.tension * bent.slope * per_root, _EPS * bent.whole_give * per_root

    x = _increasing_root(root_of_cost, target, low, high, start)
    return np.clip(chain.bent(x, is_obtuse).angle, 0.0, np.pi)


def _increasing_root(
    evaluate: Callable[[Float64Array], tuple[Float64Array, Float64Array, Float64Array]],
    target: Float64Array,
    low: Float64Array,
    high: Float64Array,
    start: Float64Array,
) -> Float64Array:
    """Where increasing functions reach `target` (n,) in [low, high]: Newton, and bisection where that would leave.

    `evaluate(x)` gives value, slope and rounding error of the functions. Those that have converged stay where they are
    until all have: a call costs as much for ten as for one.
    """
    x = start
    is_done = np.zeros(x.shape, dtype=np.bool_)
    for _ in range(MAX_NEWTON_STEPS):
        value, slope, rounding = evaluate(x)
        missing = target - value
        low = np.where(missing >= 0.0, x, low)
        high = np.where(missing <= 0.0, x, high)
        can_step = slope > 0.0
        there = x + missing / np.where(can_step, slope, 1.0)
        # strictly inside: rounding could send it from one end to the other and back
        is_inside = can_step & (there > low) & (there < high)
        there = np.where(is_inside, there, 0.5 * (low + high))
        is_done |= np.abs(missing) <= rounding
        x, before = np.where(is_done, x, there), x
        is_done |= np.abs(x - before) <= 4.0 * _EPS * x
        if is_done.all():
            break
    return x


def _bending(weight: ArrayLike, angle: Float64Array) -> Float64Array:
    """weight * (1 - cos angle); a link of infinite weight does not bend and costs nothing."""
    half = np.sin(angle / 2.0)
    finite = np.where(half > 0.0, np.asarray(weight, dtype=np.float64), 0.0)
    return 2.0 * (finite * half) * half


def _score_at_zero(n_steps: ArrayLike, miss_price: ArrayLike) -> Float64Array:
    """1 + T Q, the score of a row at the memory itself."""
    price: Float64Array = 1.0 + np.asarray(n_steps, dtype=np.float64) * np.asarray(miss_price, dtype=np.float64)
    return price


def _in_series(first: Float64Array, second: Float64Array) -> Float64Array:
    """1/(1/first + 1/second) for stiffnesses of any sign, 0 and infinity among them."""
    is_first_less = np.abs(first) <= np.abs(second)
    less, more = np.where(is_first_less, first, second), np.where(is_first_less, second, first)
    # both infinite: rigid; otherwise |less/more| <= 1
    share = np.where(np.isinf(less) | (more == 0.0), 0.0, less) / np.where(more == 0.0, 1.0, more)
    # the sum of the inverses is 0 only where the walk is no longer a maximum
    return less / np.where(share == -1.0, _EPS, 1.0 + share)


def _eased(part: Float64Array) -> Float64Array:
    """[0, 1] to itself, slow at both ends."""
    return KNOT_SPACING_AT_ENDS * part + (1.0 - KNOT_SPACING_AT_ENDS) * part * part * (3.0 - 2.0 * part)


def _broadcast(*arguments: ArrayLike) -> list[Float64Array]:
    return list(np.broadcast_arrays(*(np.asarray(value, dtype=np.float64) for value in arguments)))
