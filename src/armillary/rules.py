"""What a model says to an engine: how rows are scored, and how those that are decided one after the other meet.

A row meets a cluster through one dot product; `AffineRule` is that, `QuadraticRule` its cousin for Gaussians. The rest
are small tables for rows that see each other: what is remembered, which slots have company, who stays where. All of it
is K-sized, made of plain arrays, and can be sent to another machine.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from armillary._typing import Float64Array, FloatArray


@dataclass(frozen=True, eq=False)
class AffineRule:
    """score_k(x) = slopes_k directions_k . x + offsets_k, and which rows to refuse when the best is taken."""

    directions: Float64Array  # (K, D), of any length
    offsets: Float64Array  # (K,)
    floor: float = -np.inf  # a row whose best score is lower is refused
    is_rival: npt.NDArray[np.bool_] | None = None  # (K,) a row that prefers one of these is refused; None: no rivals
    slopes: Float64Array | None = None  # (K,) None: all 1

    @property
    def vectors(self) -> Float64Array:
        """Slopes times directions (K, D). Made when asked for: a softmax of sparse rows does without."""
        return self.directions if self.slopes is None else self.slopes[:, None] * self.directions

    @property
    def shape(self) -> tuple[int, int]:
        """K and D."""
        n_clusters, n_features = self.directions.shape
        return n_clusters, n_features

    @classmethod
    def cosines(cls, directions: Float64Array, floor: float = -np.inf) -> AffineRule:
        """The identity curve on unit directions: the score is the cosine."""
        return cls(np.ascontiguousarray(directions, dtype=np.float64), np.zeros(len(directions)), floor)


class QuadraticRule(NamedTuple):
    """Log densities of K Gaussians times their weights: offsets_k - |roots_k x - shifts_k|^2 / 2.

    With `means`, Gaussians in the tangent space of the sphere at each mean: roots_k has p = D - 1 rows, roots_k mean_k
    is 0, and with g = theta / sin theta, cos theta = x . mean_k,

        score_k(x) = offsets_k - g^2 |roots_k x|^2 / 2 + volume log g.

    Next to the antipode of a mean, where sin theta is below 1e-7 and is taken as that, |roots_k x|^2 g^2 is
    theta^2 |roots_k|^2 / p, the average over directions.
    """

    roots: Float64Array  # (K, p, D); (K, D, D) without means
    offsets: Float64Array  # (K,)
    shifts: Float64Array | None = None  # (K, D), without means
    means: Float64Array | None = None  # (K, D)
    volume: float = 0.0  # p - 1, or 0 for densities without the volume factor


class Anchors(NamedTuple):
    """The row of each cluster with the lowest priority, which stays where it is (dp_tgmm.md, 7).

    The priority of row i is philox(key, i), ties going to the smaller number. Rows may move to clusters whose anchor
    comes before them. Anchors of priority 0 and number -1 forbid nothing and hold no row.
    """

    key: tuple[int, int]
    priorities: Float64Array  # (K,)
    rows: npt.NDArray[np.int64]  # (K,)

    @classmethod
    def none(cls, n_clusters: int) -> Anchors:
        """Every row may go anywhere."""
        return cls((0, 0), np.zeros(n_clusters), np.full(n_clusters, -1, dtype=np.int64))


class Halt(IntEnum):
    """Why a walk over rows stopped."""

    END = 0
    BIRTH = 1  # nobody accepts the row
    REVIVAL = 2  # a track without rows accepts it
    DOUBT = 3  # filter scores cannot tell; give this row's exact ones


class Company(NamedTuple):
    """Which of K slots have a row other than row i: those with `last > i` or `first < i` (dp_vmf_means.md, 3)."""

    last: npt.NDArray[np.int64]  # (K,) the last row that had the label before the sweep; -1: none
    first: npt.NDArray[np.int64]  # (K,) the first row that got it in this sweep; n: none. Written by the walk


class Recall(NamedTuple):
    """Scores of T tracks without rows, as curves of the angle to the direction remembered; slots 0..T-1 are tracks."""

    cosines: FloatArray  # (m, T) of the rows with the remembered directions
    angles: Float64Array  # (T, knots) of a cubic Hermite curve, from 0 to pi
    scores: Float64Array  # (T, knots)
    slopes: Float64Array  # (T, knots)
    ceilings: Float64Array  # (T,) score - cosine never exceeds it
    cosine_doubt: float  # error of the cosines
    doubt: float  # error of the curve


class Exact(NamedTuple):
    """The float64 scores of the one row that a walk goes on with."""

    position: int  # in the list of rows; -1: none
    cosines: Float64Array  # (K,)
    recalls: Float64Array  # (T,)


class Tracks(NamedTuple):
    """Tracks of a stream that had no rows for some steps, and how they walk (distributions/geodesic_walk.py)."""

    directions: Float64Array  # (T, D) m
    weights: Float64Array  # (T,) w
    steps: npt.NDArray[np.int64]  # (T,) steps since they were seen
    drift_concentration: float  # beta
    is_exact: bool  # False: walks by the small-angle form


class Slots(NamedTuple):
    """K slots that rows may be in, and room for C - K that are opened by rows. Written by the walk."""

    directions: Float64Array  # (C, D)
    last: npt.NDArray[np.int64]  # (C,) as in `Company`; -1 where there is no slot yet
    first: npt.NDArray[np.int64]  # (C,) as in `Company`; the number of rows where there is no slot yet
    is_seed: npt.NDArray[np.bool_]  # (C,) whether the direction is that of its last row


class Seeds(NamedTuple):
    """What each of m rows makes of a slot that it has to itself."""

    units: Float64Array  # (m, D) its direction
    lengths: Float64Array  # (m,) of its resultant


class Meeting(NamedTuple):
    """What the walks of tracks to rows come to."""

    directions: Float64Array  # (T, D) where they end
    penalties: Float64Array  # (T,) what the walks cost
    weights: Float64Array  # (T,) of the tracks afterwards


class CollapsedRule(NamedTuple):
    """Components whose directions and weights are integrated out: what scores a row besides the sums."""

    concentrations: Float64Array  # (K,) kappa_k
    weight_concentration: float  # alpha > 0, of the symmetric Dirichlet law of the weights
    mean_concentration: float  # C_0 >= 0: directions have the prior vMF(mu_0, C_0)


class CollapsedSums(NamedTuple):
    """Sums of the rows of K components, carried along as rows move. Written by the sweep."""

    counts: Float64Array  # (K,) n_k
    resultants: Float64Array  # (D, K) S_k in columns, C order: a row's products walk along K
    squares: Float64Array  # (K,) |S_k|^2
    projections: Float64Array  # (K,) S_k.mu_0
