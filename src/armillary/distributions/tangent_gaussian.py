"""A Gaussian in the tangent space of the sphere at its mean, brought to the sphere by the exponential map.

Story        y ~ N(0, Sigma) in T_mu, x = Exp_mu(y); lengths beyond pi are not modelled         dp_tgmm.md, 2.1 to 2.3
Density      f(x) = N(Log_mu(x); 0, Sigma) (theta / sin theta)^(p-1), p = D - 1, theta = angle(x, mu)    2.2, (A)
Volume       (theta / sin theta)^(p-1) turns a density in the tangent space into one on the sphere. The paper leaves it
             out; f then does not integrate to one, by a factor that depends on Sigma and falls fast with D
Scatter      S_mu = sum_i Log_mu(x_i) Log_mu(x_i)', and how it moves to another base point      5, (E)

Covariances are kept in ambient form, (D, D) of rank p with mu in their null space, so nothing depends on a frame. At
the antipode of mu every direction leads back: quadratic forms and scatters take the average over directions, and sin
theta is held at 1e-7 or above.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

import numpy as np

from armillary._typing import Float64Array
from armillary.exceptions import InputError
from armillary.geometry import sphere
from armillary.sums import whole

# Below this sine a row is its base point or the antipode, to all the digits that a log map has.
LEAST_SINE = 1e-7
# Angles whose cotangent is taken lie between these.
LEAST_ANGLE, MOST_ANGLE = 1e-4, np.pi - 1e-3
# Tangent vectors drawn for each that is asked for, before the law is said to be wider than the sphere.
_MOST_TRIED = 20_000


class TangentGaussian(NamedTuple):
    """Parameters of one law, or of several: the axes before those named here are theirs."""

    mean: Float64Array  # (D,) unit
    covariance: Float64Array  # (D, D) in the tangent space of the mean
    root: Float64Array  # (p, D) W with W' W the pseudo-inverse of the covariance and W mean = 0
    log_determinant: Float64Array  # () of the covariance within the tangent space

    @classmethod
    def of(cls, mean: Float64Array, covariance: Float64Array, frame: Float64Array | None = None) -> TangentGaussian:
        """From covariances (..., p, p) in the coordinates of `sphere.tangent_frame(mean)`, which may be known."""
        frame = sphere.tangent_frame(mean) if frame is None else frame
        across = frame.mT
        lower = np.linalg.cholesky(covariance)
        log_determinant = 2.0 * np.log(np.diagonal(lower, axis1=-2, axis2=-1)).sum(axis=-1)
        return cls(mean, frame @ covariance @ across, np.linalg.solve(lower, across), log_determinant)


class LogMap(NamedTuple):
    """Rows seen from a base point."""

    vectors: Float64Array  # (..., D) tangent vectors that lead to the rows; 0 for an antipode
    angles: Float64Array  # (...) their lengths, theta
    log_stretch: Float64Array  # (...) log(theta / sin theta)
    is_antipode: Float64Array  # (...) 1 where the row has no direction, else 0


def log_map(rows: Float64Array, base: Float64Array) -> LogMap:
    """The log map of unit rows at base points, (..., D), with an answer everywhere; see `LogMap`."""
    cosine = rows @ base if base.ndim == 1 else np.vecdot(rows, base)
    across = rows - cosine[..., None] * base
    sine = np.sqrt(np.vecdot(across, across))
    angles = np.arctan2(sine, cosine)
    is_near = sine < LEAST_SINE
    is_antipode = is_near & (cosine < 0.0)
    stretch = np.where(is_near & ~is_antipode, 1.0 + angles * angles / 6.0, angles / np.maximum(sine, LEAST_SINE))
    vectors = np.where(is_antipode, 0.0, stretch)[..., None] * across
    return LogMap(vectors, angles, np.log(stretch), is_antipode.astype(np.float64))


def scatter_of(seen: LogMap, base: Float64Array, weights: Float64Array | None = None) -> Float64Array:
    """sum_i w_i Log(x_i) Log(x_i)' (D, D) at one base point, weights 1 where None."""
    weighted = seen.vectors if weights is None else weights[:, None] * seen.vectors
    scatter = weighted.T @ seen.vectors
    if seen.is_antipode.any():
        squares = seen.is_antipode * seen.angles**2
        scatter += float(squares.sum() if weights is None else squares @ weights) * _round(base)
    return np.asarray(scatter)


class RowSums(NamedTuple):
    """Sums over rows seen from one base point, or from several: the axes before those named here are theirs."""

    vector: Float64Array  # (D,) sum w Log(x)
    scatter: Float64Array  # (D, D) sum w Log(x) Log(x)', 0 where not asked for
    log_stretch: Float64Array  # () sum w log(theta / sin theta), with the scatter
    # of the curvature of the posterior of a mean (dp_tgmm.md, 4), with a = theta held off 0 and k = cot a held off
    # infinity: sum a k, and sum f2 + (p - 1) f1 k with f1 = 1/a - k, f2 = 1 + k^2 - 1/a^2; 0 where not asked for
    bend: Float64Array
    sway: Float64Array


def sum_bounds(n_features: int) -> Float64Array:
    """Bounds (5,) of what one row adds to each field of `RowSums`: |Log(x)| <= pi, and angles are held off the ends."""
    log_stretch, bend = np.log(np.pi / LEAST_SINE), np.pi / (np.pi - MOST_ANGLE)
    # k^2 at the far end, once and once more for each other direction; near 0 both terms are below 1
    sway = 2.0 * n_features / (np.pi - MOST_ANGLE) ** 2
    return np.array([np.pi, np.pi**2, log_stretch, bend, sway])


@cache
def sum_rounders(q: int, n_features: int) -> Float64Array:
    """M of the two limbs (5, 2) of each field, where weights have 2^-q; nobody writes to it."""
    return np.array([whole.two_limbs(q, bound) for bound in sum_bounds(n_features)])


def from_limbs(limbs: Float64Array, bases: Float64Array, *, with_scatter: bool = True) -> RowSums:
    """Sums (G, 2, D + D D + 4) in two limbs (sums/whole.py) at G base points (G, D), made one number each.

    D of vectors, D D of squares, of which the upper half is summed; then log stretch, squared angles of antipodes,
    whose squares are the average over directions, bend and sway.
    """
    n_features = bases.shape[1]
    sums = limbs[:, 0] + limbs[:, 1]
    others = sums[:, n_features + n_features**2 :]
    vector, squares = sums[:, :n_features], sums[:, n_features : n_features + n_features**2]
    if not with_scatter:
        nothing = np.broadcast_to(0.0, (len(sums), n_features, n_features))
        return RowSums(vector, nothing, others[:, 0], others[:, 2], others[:, 3])
    scatter = whole.mirrored(squares.reshape(-1, n_features, n_features))
    if others[:, 1].any():
        scatter += others[:, 1, None, None] * _round(bases)
    return RowSums(vector, scatter, others[:, 0], others[:, 2], others[:, 3])


def row_sums(
    rows: Float64Array,
    base: Float64Array,
    weights: Float64Array | None = None,
    *,
    with_scatter: bool = True,
    with_curvature: bool = False,
) -> RowSums:
    """Sums of unit rows (n, D) at `base` (D,), weights (n,) being 1 where None."""
    seen = log_map(rows, base)
    vector = seen.vectors.sum(axis=0) if weights is None else weights @ seen.vectors
    scatter, log_stretch = np.zeros((len(base), len(base))), np.zeros(())
    if with_scatter:
        scatter = scatter_of(seen, base, weights)
        log_stretch = np.asarray(seen.log_stretch.sum() if weights is None else weights @ seen.log_stretch)
    if not with_curvature:
        return RowSums(vector, scatter, log_stretch, np.zeros(()), np.zeros(()))
    a = np.maximum(seen.angles, LEAST_ANGLE)
    k = 1.0 / np.tan(np.minimum(a, MOST_ANGLE))
    sway = 1.0 + k * k - 1.0 / (a * a) + (len(base) - 2.0) * (1.0 / a - k) * k
    return RowSums(vector, scatter, log_stretch, np.asarray(np.sum(a * k)), np.asarray(np.sum(sway)))


def squares_of(seen: LogMap, base: Float64Array) -> Float64Array:
    """Log(x) Log(x)' (..., D, D) of each row alone, at base points (..., D)."""
    squares = seen.vectors[..., :, None] * seen.vectors[..., None, :]
    if seen.is_antipode.any():
        squares += (seen.is_antipode * seen.angles**2)[..., None, None] * _round(base)
    return np.asarray(squares)


def _round(base: Float64Array) -> Float64Array:
    """u u' averaged over the unit tangent vectors u at a base point: (..., D, D)."""
    dimension = base.shape[-1]
    return (np.eye(dimension) - base[..., :, None] * base[..., None, :]) / (dimension - 1.0)


def log_density(
    laws: TangentGaussian | Sequence[TangentGaussian], rows: Float64Array, *, volume_factor: bool = True
) -> Float64Array:
    """Log densities (n, K) of unit rows (n, D), in nats with respect to surface measure; (n, 1) of a single law.

    Without the volume factor the values are those of the paper's pseudo-likelihood, which is no density on the sphere.
    """
    if not isinstance(laws, TangentGaussian):
        laws = TangentGaussian(*(np.array(parts) for parts in zip(*laws, strict=True)))
    p = rows.shape[1] - 1
    heights = np.atleast_1d(-0.5 * (p * np.log(2.0 * np.pi) + laws.log_determinant))
    means, roots = laws.mean.reshape(-1, p + 1), laws.root.reshape(-1, p, p + 1)
    return scores(rows, means, roots, heights, p - 1.0 if volume_factor else 0.0)


def scores(
    rows: Float64Array, means: Float64Array, roots: Float64Array, heights: Float64Array, volume: float
) -> Float64Array:
    """heights_k - |g roots_k x|^2 / 2 + volume log g, (n, K), with g = theta / sin theta; roots are (K, p, D)."""
    cosines = np.clip(rows @ means.T, -1.0, 1.0)
    whitened = (rows @ roots.reshape(-1, rows.shape[1]).T).reshape(len(rows), *roots.shape[:2])
    # the angle and its sine come from one rounded cosine, so their ratio has all its digits near the mean
    angles = np.arccos(cosines)
    sines = np.sqrt((1.0 - cosines) * (1.0 + cosines))
    is_near = sines < LEAST_SINE
    stretch = np.where(is_near & (cosines > 0.0), 1.0, angles / np.maximum(sines, LEAST_SINE))
    average = angles**2 * np.sum(roots**2, axis=(1, 2)) / roots.shape[1]
    squares = np.where(is_near & (cosines < 0.0), average, stretch**2 * np.vecdot(whitened, whitened))
    return np.asarray(heights - 0.5 * squares + volume * np.log(stretch))


def sample(law: TangentGaussian, size: int, generator: np.random.Generator) -> Float64Array:
    """Draws (size, D), conditioned on tangent vectors shorter than pi."""
    frame = sphere.tangent_frame(law.mean)
    root = frame @ np.linalg.cholesky(frame.T @ law.covariance @ frame)
    drawn = np.empty((0, len(law.mean)))
    n_tried = 0
    while len(drawn) < size:
        n_tried += size - len(drawn)
        if n_tried > _MOST_TRIED * size:
            raise InputError(
                f"Draws of a tangent Gaussian must be shorter than pi; of {n_tried:,} tried {len(drawn):,} are, and "
                f"{size:,} asked for: the covariance is far wider than the sphere. Fit with a smaller spread_prior."
            )
        tangents = generator.standard_normal((size - len(drawn), len(law.mean) - 1)) @ root.T
        kept = tangents[np.linalg.norm(tangents, axis=1) < np.pi]
        drawn = np.concatenate([drawn, sphere.exp(kept, law.mean)])
    return drawn


class TangentSums(NamedTuple):
    """What is left of n rows: their number, a base point near their mean, and their scatter there.

    Or of several sets of rows: the axes before those named here are theirs.
    """

    n_rows: Float64Array  # ()
    base: Float64Array  # (D,)
    scatter: Float64Array  # (D, D)

    def centred(self, vector: Float64Array) -> TangentSums:
        """The sums at the mean, one Karcher step along `vector` / n with `vector` = sum Log(x); as approximate."""
        counts = np.asarray(self.n_rows)[..., None]
        shift = sphere.to_tangent(vector / counts, self.base)
        square = shift[..., :, None] * shift[..., None, :]
        around = self._replace(scatter=self.scatter - counts[..., None] * square)
        mean = sphere.exp(shift, self.base)
        return TangentSums(self.n_rows, mean, around._carried(mean))

    def _carried(self, base: Float64Array) -> Float64Array:
        """P S P' (..., D, D)."""
        here, there = self.base[..., None, :], base[..., None, :]
        # rows of a matrix move by P, so its columns do when it is turned over
        turned = sphere.transport(self.scatter, here, there).mT
        return sphere.transport(turned, here, there).mT
