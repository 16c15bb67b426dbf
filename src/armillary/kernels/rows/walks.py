"""Tracks that meet rows: `distributions/geodesic_walk.py`, one track after the other.

A stream has a dozen tracks, for which NumPy's calls would take as long as five passes over 300,000 rows. The names,
the equations and the reasons are those of that file; the links of a chain are tuples (memory, steps, rows) here.
"""

from __future__ import annotations

import math

import numpy as np

from armillary.distributions.geodesic_walk import (
    KNOT_SPACING_AT_ENDS,
    MAX_NEWTON_STEPS,
    MIN_ACROSS,
    MIN_WEIGHT,
    PI_REST,
)
from armillary.kernels.jit import kernel

_EPS = float(np.finfo(np.float64).eps)
_RIGHT = math.pi / 2.0


@kernel
def meet(memory, weights, drift, steps, towards, lengths, is_exact, is_paper, ends, penalties, after):
    """See `Kernels.meet_tracks`."""
    for t in range(len(weights)):
        zeta = _angle_between(memory[t], towards[t])
        chain = _links(weights[t], drift, steps[t], lengths[t])
        theta, phi, eta = _bends(chain, zeta) if is_exact else _small_bends(chain, zeta)
        _turn_towards(towards[t], memory[t], eta, ends[t])
        penalties[t] = _bending(weights[t], theta) + steps[t] * _bending(drift, phi)
        after[t] = _weight_after(weights[t], drift, steps[t], lengths[t], (theta, phi, eta), is_paper)


@kernel
def revival_curves(weights, drift, steps, miss_price, angles, scores, slopes):
    """See `Kernels.revival_curves`."""
    n_knots = angles.shape[1]
    for t in range(len(weights)):
        chain = _links(weights[t], drift, steps[t], 1.0)
        least = chain[0]
        top = 1.0 + steps[t] * miss_price
        end, can_be_obtuse = _share_of_weakest(chain, math.pi)
        reached = 0.0
        for knot in range(n_knots):
            part = knot / (n_knots - 1)
            is_obtuse = can_be_obtuse and part > 0.5
            if is_obtuse:
                x = _RIGHT + (end - _RIGHT) * _eased(2.0 * part - 1.0)
            elif can_be_obtuse:
                x = _RIGHT * _eased(2.0 * part)
            else:
                x = end * _eased(part)
            length, _, give = _span(chain, x, is_obtuse)
            zeta = math.pi - length if is_obtuse else length
            # rounding can reverse knots that differ in the last bit
            reached = max(reached, min(max(zeta, 0.0), math.pi))
            angles[t, knot] = reached
            scores[t, knot] = top - (2.0 * least - give if is_obtuse else give)
            slopes[t, knot] = -least * math.sin(x)
        angles[t, 0], angles[t, n_knots - 1] = 0.0, math.pi


# ---------------------------------------------------------------------------------------------------- the chain


@kernel
def _links(weight, drift, steps, length):
    """The least weight, and (a/v, 1 - a/v, number) of each link."""
    step = drift if steps > 0.0 else math.inf
    least = min(weight, step, length)
    first, first_gap = _share(least, weight)
    second, second_gap = _share(least, step)
    third, third_gap = _share(least, length)
    return least, (first, second, third), (first_gap, second_gap, third_gap), (1.0, float(steps), 1.0)


@kernel
def _share(least, weight):
    if weight == math.inf:
        return 0.0, 1.0
    return least / weight, (weight - least) / weight


@kernel
def _arc(ratio, gap, sine, cosine):
    """Sine and cosine of arcsin((a/v) sin x), with all digits also near a right angle."""
    return ratio * sine, math.sqrt(cosine * cosine + gap * (1.0 + ratio) * (sine * sine))


@kernel
def _span(chain, x, is_obtuse):
    """The signed sum of arcs, its slope, and the signed sum of v (1 - cos arc)."""
    least, ratios, gaps, counts = chain
    sine, cosine = math.sin(x), math.cos(x)
    length, slope, give = 0.0, 0.0, 0.0
    for link in range(3):
        sine_of_arc, cosine_of_arc = _arc(ratios[link], gaps[link], sine, cosine)
        count = -counts[link] if is_obtuse and ratios[link] != 1.0 else counts[link]
        # x is acute, so that the arc of the weakest link is x itself
        length += count * (x if ratios[link] == 1.0 else math.atan2(sine_of_arc, cosine_of_arc))
        slope += count * (ratios[link] * cosine / cosine_of_arc)
        give += count * sine_of_arc / (1.0 + cosine_of_arc)
    return length, slope, least * sine * give


@kernel
def _share_of_weakest(chain, zeta):
    """The angle of the weakest link, or pi less that angle where it is obtuse; and whether it is."""
    _, ratios, gaps, _ = chain
    if ratios[1] == 0.0:
        lean = 2.0 * math.cos(zeta / 2.0) ** 2 - max(gaps[0], gaps[2])
        return math.atan2(math.sin(zeta), abs(lean)), lean < 0.0
    is_obtuse = zeta > _span(chain, _RIGHT, False)[0]
    return _newton(chain, zeta, is_obtuse), is_obtuse


@kernel
def _newton(chain, zeta, is_obtuse):
    _, ratios, _, counts = chain
    n_weakest, compliance = 0.0, 0.0
    for link in range(3):
        n_weakest += counts[link] if ratios[link] == 1.0 else 0.0
        compliance += counts[link] * ratios[link]
    if is_obtuse:
        target = (math.pi - zeta) + PI_REST
        low, high, x = target, _RIGHT, _RIGHT
    else:
        target = zeta
        low, high = 0.0, min(zeta / n_weakest, _RIGHT)
        x = min(zeta / compliance, high)
    for _ in range(MAX_NEWTON_STEPS):
        length, slope, _ = _span(chain, x, is_obtuse)
        missing = target - length
        if abs(missing) <= _EPS * (2.0 * x - length if is_obtuse else length):
            break
        if missing >= 0.0:
            low = x
        if missing <= 0.0:
            high = x
        there = x + missing / slope if slope > 0.0 else -1.0
        if not (there > low and there < high):
            there = 0.5 * (low + high)
        is_still = abs(there - x) <= 4.0 * _EPS * there
        x = there
        if is_still:
            break
    return x


@kernel
def _bends(chain, zeta):
    """theta, phi and eta of the exact walk."""
    _, ratios, gaps, _ = chain
    x, is_obtuse = _share_of_weakest(chain, zeta)
    sine, cosine = math.sin(x), math.cos(x)
    return (
        _bend(ratios[0], gaps[0], sine, cosine, is_obtuse),
        _bend(ratios[1], gaps[1], sine, cosine, is_obtuse),
        _bend(ratios[2], gaps[2], sine, cosine, is_obtuse),
    )


@kernel
def _bend(ratio, gap, sine, cosine, is_obtuse):
    sine_of_arc, cosine_of_arc = _arc(ratio, gap, sine, cosine)
    arc = math.atan2(sine_of_arc, cosine_of_arc)
    return math.pi - arc if is_obtuse and ratio == 1.0 else arc


@kernel
def _small_bends(chain, zeta):
    """theta, phi and eta of the walk with sines replaced by angles."""
    _, ratios, _, counts = chain
    x = zeta / (counts[0] * ratios[0] + counts[1] * ratios[1] + counts[2] * ratios[2])
    return ratios[0] * x, ratios[1] * x, ratios[2] * x


@kernel
def _eased(part):
    return KNOT_SPACING_AT_ENDS * part + (1.0 - KNOT_SPACING_AT_ENDS) * part * part * (3.0 - 2.0 * part)


# ----------------------------------------------------------------------------------------------- what it leaves


@kernel
def _bending(weight, angle):
    half = math.sin(angle / 2.0)
    return 2.0 * (weight * half) * half if half > 0.0 else 0.0


@kernel
def _weight_after(weight, drift, steps, length, bends, is_paper):
    theta, phi, eta = bends
    rows, memory, step = length * math.cos(eta), weight * math.cos(theta), drift * math.cos(phi)
    if is_paper:
        return max(memory + (steps * step if steps > 0.0 else 0.0) + rows, MIN_WEIGHT)
    walk = step / steps if steps > 0.0 else math.inf
    return max(rows + _in_series(memory, walk), MIN_WEIGHT)


@kernel
def _in_series(first, second):
    less, more = (first, second) if abs(first) <= abs(second) else (second, first)
    share = 0.0 if math.isinf(less) or more == 0.0 else less / more
    return less / (_EPS if share == -1.0 else 1.0 + share)


# -------------------------------------------------------------------------------------------------- directions


@kernel
def _angle_between(first, second):
    apart, together = 0.0, 0.0
    for d in range(len(first)):
        apart += (first[d] - second[d]) ** 2
        together += (first[d] + second[d]) ** 2
    return 2.0 * math.atan2(math.sqrt(apart), math.sqrt(together))


@kernel
def _turn_towards(start, goal, angle, out):
    """`start` turned by `angle` towards `goal`, all unit, into `out`: `geodesic_walk.end_direction`."""
    cosine = _dot(start, goal)
    sign = math.copysign(1.0, cosine)
    for d in range(len(start)):
        out[d] = goal[d] - sign * start[d]
    length = _take_across(out, start)
    if length < MIN_ACROSS:
        if cosine > 0.0:
            for d in range(len(start)):
                out[d] = start[d]
            return
        for d in range(len(start)):
            out[d] = 0.0
        out[_nearest_zero(start)] = 1.0
        length = _take_across(out, start)
    along, aside = math.cos(angle), math.sin(angle) / length
    for d in range(len(start)):
        out[d] = along * start[d] + aside * out[d]
    length = math.sqrt(_dot(out, out))
    for d in range(len(start)):
        out[d] /= length


@kernel
def _nearest_zero(vector):
    """The first column with the least magnitude."""
    least = 0
    for d in range(1, len(vector)):
        if abs(vector[d]) < abs(vector[least]):
            least = d
    return least


@kernel
def _take_across(vector, base):
    """Leave of `vector` what is orthogonal to `base`; return its length."""
    along = _dot(vector, base)
    for d in range(len(vector)):
        vector[d] -= along * base[d]
    return math.sqrt(_dot(vector, vector))


@kernel
def _dot(first, second):
    total = 0.0
    for d in range(len(first)):
        total += first[d] * second[d]
    return total
