"""Which rows may have changed their nearest direction: Hamerly's bounds, with angles for distances.

Angles on the sphere obey the triangle inequality, so a direction that turns by an angle a moves no row's angle to it
by more than a. Bounds are float32; each change is padded by more than its rounding, so they stay on the safe side.
"""

from __future__ import annotations

from armillary.kernels.cpu._jit import kernel

# A row is passed over only if its own direction is nearer by more than this angle: the float64 scores of the two
# then differ by at least 1 - cos(4e-6) = 8e-12, beyond their rounding.
_SAFE_GAP = 4e-6


@kernel
def loosen(labels, own, other, turned, largest, second_largest, widest, reach, active):
    """Loosen the bounds by the angles `turned` (K,); write the numbers of the doubtful rows to `active`.

    `largest` is the largest angle turned, by direction `widest`; the rest turned by at most `second_largest`. Rows
    that may lie beyond `reach` are doubtful too.
    """
    n_active = 0
    for i in range(labels.shape[0]):
        k = labels[i]
        own[i] += turned[k]
        other[i] -= second_largest if k == widest else largest
        active[n_active] = i
        n_active += not (own[i] + _SAFE_GAP < other[i] and own[i] <= reach)
    return n_active


@kernel
def gather(rows, numbers, out):
    """Rows `numbers` of a block into `out` (float32)."""
    for r in range(numbers.shape[0]):
        source = rows[numbers[r]]
        target = out[r]
        for d in range(rows.shape[1]):
            target[d] = source[d]
