"""The passes over depth images in NumPy and float64, written to be read.

They are the oracle of `depth.py` and its neighbours beside it. `w` is an image (H, W) of inverse depth, 0 where nothing
was measured.

On a plane n . p = d the inverse depth 1/z = n . (x/z, y/z, 1) / d is affine in the pixel, so slopes taken by least
squares and local planes are exact there, whatever the slant, the mask and the window.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from armillary._typing import Float64Array, FloatArray

Mask = npt.NDArray[np.bool_]


def shifted(image: npt.NDArray[Any], down: int, right: int) -> npt.NDArray[Any]:
    """`image` at (v + down, u + right) for every pixel (v, u) of its first two axes; zeros outside."""
    height, width = image.shape[:2]
    found = np.zeros_like(image)
    rows, columns = _overlap(height, down), _overlap(width, right)
    found[rows[0], columns[0]] = image[rows[1], columns[1]]
    return found


def _overlap(length: int, shift: int) -> tuple[slice, slice]:
    """Where pixels are whose shifted place is inside, and these places."""
    start, stop = max(0, -shift), max(0, min(length, length - shift))
    return slice(start, max(start, stop)), slice(start + shift, max(start, stop) + shift)


def inverse_depth(depth: npt.NDArray[Any], scale: float, nearest: float, farthest: float) -> Float64Array:
    """1/z of a depth image in units of 1/`scale` metres; 0 unless z is from `nearest` to `farthest` metres."""
    z = depth.astype(np.float64) / scale
    is_measured = (z >= nearest) & (z <= farthest)
    return np.where(is_measured, 1.0 / np.where(is_measured, z, 1.0), 0.0)


def is_joined(w: FloatArray, down: int, right: int, jump: float) -> Mask:
    """Whether each pixel and its neighbour at (down, right) were measured and lie on one surface.

    They do where their depths differ by at most `jump` of the lesser: |dw| <= jump min(w, w') in inverse depths.
    """
    other = shifted(w, down, right)
    return np.asarray((w > 0.0) & (other > 0.0) & (np.abs(w - other) <= jump * np.minimum(w, other)))


def slope(w: FloatArray, radius: int, jump: float, axis: int) -> tuple[Float64Array, Float64Array]:
    """Numerator and denominator (H, W) of the mean slope of `w` along an axis, by least squares in a window.

    Along a line the slope is sum_j j (w[+j] - w[-j]) / sum_j 2 j^2, over the pairs that are joined to the centre pixel
    by pixel on both sides. The sums of the lines above and below (or beside) are added, again by pairs joined to the
    centre. So the window ends at jumps and holes and stays symmetric: errors on curved surfaces are of second order.
    """
    wide = w.astype(np.float64)
    numerator, denominator = np.zeros(w.shape), np.zeros(w.shape)
    along, across = ((1, 0), (0, 1)) if axis == 0 else ((0, 1), (1, 0))
    for j, alive in _pairs(w, radius, jump, along):
        ahead, behind = (shifted(wide, s * j * along[0], s * j * along[1]) for s in (1, -1))
        numerator += np.where(alive, j * (ahead - behind), 0.0)
        denominator += np.where(alive, 2.0 * j * j, 0.0)
    totals = [numerator.copy(), denominator.copy()]
    for j, alive in _pairs(w, radius, jump, across):
        for total, line in zip(totals, (numerator, denominator), strict=True):
            both = shifted(line, j * across[0], j * across[1]) + shifted(line, -j * across[0], -j * across[1])
            total += np.where(alive, both, 0.0)
    return totals[0], totals[1]


def _pairs(w: FloatArray, radius: int, jump: float, step: tuple[int, int]) -> list[tuple[int, Mask]]:
    """For j = 1 ... radius, where both pixels at distance j are joined to the centre by all those between."""
    alive, found = w > 0.0, []
    for j in range(1, radius + 1):
        near, far = (j - 1) * np.array(step), -j * np.array(step)
        joined = is_joined(w, *step, jump)
        alive = alive & shifted(joined, *near) & shifted(joined, *far)
        found.append((j, alive))
    return found


def normals(
    w: FloatArray, camera: tuple[float, float, float, float], radius: int, jump: float
) -> tuple[Float64Array, Mask]:
    """Unit normals (H, W, 3) towards the camera, zeros where undefined, and where they are defined (H, W).

    With slopes w_u and w_v the cross product of the tangents of the surface is a multiple of
    (fx w_u, fy w_v, w - (u - cx) w_u - (v - cy) w_v), whose product with the ray of the pixel is w > 0. A pixel has a
    normal where all its four neighbours are joined to it.
    """
    fx, fy, cx, cy = camera
    height, width = w.shape
    numerators, denominators = zip(*(slope(w, radius, jump, axis) for axis in (1, 0)), strict=True)
    is_valid = np.logical_and.reduce([is_joined(w, *step, jump) for step in ((0, 1), (0, -1), (1, 0), (-1, 0))])
    w_u, w_v = (n / np.where(is_valid, d, 1.0) for n, d in zip(numerators, denominators, strict=True))
    u, v = np.arange(width), np.arange(height)[:, None]
    vectors = -np.stack([fx * w_u, fy * w_v, w - (u - cx) * w_u - (v - cy) * w_v], axis=-1)
    vectors[~is_valid] = 0.0
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return vectors / np.where(lengths > 0.0, lengths, 1.0), is_valid


def box_sum(image: Float64Array, radius: int) -> Float64Array:
    """Sums over squares of (2 `radius` + 1)^2 entries, cut at the border."""
    lines = sum(shifted(image, 0, j) for j in range(-radius, radius + 1))
    return np.asarray(sum(shifted(np.asarray(lines), j, 0) for j in range(-radius, radius + 1)))


def guided_planes(w: FloatArray, radius: int, edge: float, noise: float = 0.0) -> Float64Array:
    """The guided filter with a local plane in place of the local mean; 0 stays 0 and is seen by nobody.

    Around every block of 2 x 2 pixels lies a square of (2 radius + 1)^2 blocks. A plane A + B u + C v is fitted to the
    measured pixels of the square by least squares and leaves a mean square residual s = noise^2 + q edge^2. It proposes
    w + b (A + B u + C v - w), b = 1 / (1 + q^4), to all its pixels, and a pixel takes the mean of its proposals with
    weights 1 / (2 q + 1/2)^8 + 1/1000. Squares whose pixels determine no plane propose w.
    """
    height, width = w.shape
    wide = np.zeros((height + height % 2, width + width % 2))
    wide[:height, :width] = w
    m = (wide > 0.0).astype(np.float64)
    # the origin in the middle of the image keeps sums of squares small
    u = np.arange(wide.shape[1]) - 0.5 * (width - 1)
    v = (np.arange(wide.shape[0]) - 0.5 * (height - 1))[:, None]
    n = np.maximum(_square_sums(m, radius), 1.0)
    mean_u, mean_v, mean_w = (_square_sums(f, radius) / n for f in (m * u, m * v, wide))
    uu, uv, vv = (_square_sums(m * f, radius) / n for f in (u * u, u * v, v * v))
    uw, vw, ww = (_square_sums(wide * f, radius) / n for f in (u, v, wide))
    uu, uv, vv = uu - mean_u * mean_u, uv - mean_u * mean_v, vv - mean_v * mean_v
    uw, vw, ww = uw - mean_u * mean_w, vw - mean_v * mean_w, ww - mean_w * mean_w
    determinant = uu * vv - uv * uv
    is_flat = determinant > least_determinant(radius)
    safe = np.where(is_flat, determinant, 1.0)
    slope_u, slope_v = (vv * uw - uv * vw) / safe, (uu * vw - uv * uw) / safe
    residual = ww - slope_u * uw - slope_v * vw
    weight, share = trust(np.maximum(residual - noise**2, 0.0) / edge**2)
    share = np.where(is_flat, share, 0.0)
    offset = mean_w - slope_u * mean_u - slope_v * mean_v
    parts = (weight, weight * (1.0 - share), *(weight * share * f for f in (offset, slope_u, slope_v)))
    total, keep, offset, slope_u, slope_v = (_spread(box_sum(part, radius)) for part in parts)
    mean = (keep * wide + offset + slope_u * u + slope_v * v) / total
    # where planes would go behind infinity, pixels keep their own
    return np.where((m > 0.0) & (mean > 0.0), mean, wide)[:height, :width]


def trust(q: Float64Array) -> tuple[Float64Array, Float64Array]:
    """Weight of a square with residual q, and the share of its plane.

    Both fall steeply beyond q = 1: squares that hold an edge should not count where others do not. In the noisy room of
    `vision/room.py`, squares of 18 pixels, normals are off by 1.4 degrees (median; 4.9 at 90%), against 2.6 (12.4) with
    the filter of He et al., equal weights and the share 1 / (1 + q), and 1.5 (5.6) with weights 1 / (q + 1/4)^4. The
    weight stays above 1/1000, so that sums over squares that all fit badly are not rounding.
    """
    return 1.0 / (2.0 * q + 0.5) ** 8 + 1e-3, 1.0 / (1.0 + q**4)


def least_determinant(radius: int) -> float:
    """Above what rounding leaves of pixels on one line, below what one more pixel beside such a line adds."""
    return 1e-3 / (4 * radius + 2) ** 2


def _square_sums(image: Float64Array, radius: int) -> Float64Array:
    """Sums over the squares around all blocks (H / 2, W / 2)."""
    full = np.broadcast_to(image, image.shape)
    return box_sum(full.reshape(len(full) // 2, 2, -1, 2).sum(axis=(1, 3)), radius)


def _spread(blocks: Float64Array) -> Float64Array:
    """One value for each pixel of a block."""
    return np.repeat(np.repeat(blocks, 2, axis=0), 2, axis=1)


def bilateral(vectors: FloatArray, is_valid: Mask, radius: int, width: float, max_chord: float) -> Float64Array:
    """Means of unit vectors (H, W, 3) with weights exp(-d^2 / 2 width^2) (1 - c^2 / max_chord^2)^2, made unit again.

    d is the distance in pixels, c that of the vectors; beyond `max_chord` and at invalid pixels the weight is 0.
    """
    wide = vectors.astype(np.float64)
    total = np.zeros(wide.shape)
    for down in range(-radius, radius + 1):
        for right in range(-radius, radius + 1):
            other, is_there = shifted(wide, down, right), shifted(is_valid, down, right)
            chords = np.square(wide - other).sum(axis=-1) / max_chord**2
            weight = np.exp(-(down * down + right * right) / (2.0 * width * width)) * np.maximum(1.0 - chords, 0.0) ** 2
            total += np.where(is_there & is_valid, weight, 0.0)[..., None] * other
    lengths = np.linalg.norm(total, axis=-1, keepdims=True)
    return total / np.where(lengths > 0.0, lengths, 1.0)


def total_variation(vectors: FloatArray, is_valid: Mask, strength: float, n_iter: int) -> Float64Array:
    """The minimiser of 1/2 |x - vectors|^2 + strength sum |grad x|, by `n_iter` steps on its dual, made unit again.

    Differences are taken between valid neighbours only; |grad x| is the length of all six at a pixel. Steps are those
    of Beck and Teboulle (2009) on Chambolle's dual, of length 1/8, which is 1/|div grad|.
    """
    wide = np.where(is_valid[..., None], vectors.astype(np.float64), 0.0)
    links = [is_valid & shifted(is_valid, *step) for step in ((0, 1), (1, 0))]
    dual = np.zeros((2, *wide.shape))
    leading, momentum = dual.copy(), 1.0
    for _ in range(n_iter):
        x = _primal(wide, leading, strength)
        rise = [np.where(link[..., None], shifted(x, *s) - x, 0.0) for link, s in zip(links, _STEPS, strict=True)]
        moved = leading + np.stack(rise) / (8.0 * strength)
        before, dual = dual, moved / np.maximum(1.0, np.sqrt(np.square(moved).sum(axis=(0, -1))))[None, ..., None]
        faster = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * momentum**2))
        leading, momentum = dual + (momentum - 1.0) / faster * (dual - before), faster
    x = _primal(wide, dual, strength)
    lengths = np.linalg.norm(x, axis=-1, keepdims=True)
    # vectors that cancel leave no direction: the old one is kept
    return np.where(lengths > 1e-6, x / np.where(lengths > 1e-6, lengths, 1.0), wide)


_STEPS = ((0, 1), (1, 0))


def _primal(wide: Float64Array, dual: Float64Array, strength: float) -> Float64Array:
    divergence = sum(part - shifted(part, -down, -right) for part, (down, right) in zip(dual, _STEPS, strict=True))
    return np.asarray(wide + strength * divergence)


# ------------------------------------------------------------------------------------------------------- labels


def label_pixels(
    vectors: FloatArray,
    is_valid: Mask,
    directions: Float64Array,
    ids: npt.NDArray[Any],
    steadiness: float,
    before: npt.NDArray[Any],
) -> npt.NDArray[Any]:
    """Ids (H, W) that maximise x . mu_z + steadiness [z is `before`]; of equal ones the first.

    `before` (H, W) has the place that each pixel had in the last frame, -1 for none. A pixel without a normal keeps it.
    """
    scores = vectors.astype(np.float64) @ directions.T
    scores += steadiness * (before[..., None] == np.arange(len(directions)))
    places = np.where(is_valid, scores.argmax(axis=2), before)
    return np.where(places >= 0, ids[places], -1)


def places_before(
    depth: FloatArray,
    last_depth: FloatArray,
    last: npt.NDArray[Any],
    table: npt.NDArray[Any],
    rotation: Float64Array,
    way: Float64Array,
    lens: tuple[float, float, float, float],
    jump: float,
) -> npt.NDArray[Any]:
    """The place (H, W) of each pixel in the last frame: a point Y then is R Y + t now; `lens` is fx, fy, cx, cy."""
    fx, fy, cx, cy = lens
    v, u = np.indices(depth.shape)
    points = depth[..., None] * np.stack([(u - cx) / fx, (v - cy) / fy, np.ones(depth.shape)], axis=2)
    then = (points - way) @ rotation
    far = np.where(then[..., 2] > 0.0, then[..., 2], 1.0)
    column, row = then[..., 0] / far * fx + cx + 0.5, then[..., 1] / far * fy + cy + 0.5
    is_seen = (depth > 0.0) & (then[..., 2] > 0.0) & (column >= 0.0) & (row >= 0.0)
    is_seen &= (column < depth.shape[1]) & (row < depth.shape[0])
    i, j = np.where(is_seen, row, 0).astype(int), np.where(is_seen, column, 0).astype(int)
    is_same = is_seen & (last[i, j] >= 0) & (np.abs(last_depth[i, j] - far) <= jump * far)
    return np.where(is_same, table[np.maximum(last[i, j], 0)], -1)


def block_means(w: FloatArray, side: int) -> Float64Array:
    """Means of whole squares of `side` pixels in every second row of squares; 0 where a pixel is missing."""
    height, width = len(w) // (2 * side), w.shape[1] // side
    rows = w[: 2 * side * height, : side * width].reshape(height, 2, side, width, side)[:, 0]
    return np.where((rows > 0.0).all(axis=(1, 3)), rows.mean(axis=(1, 3)), 0.0)
