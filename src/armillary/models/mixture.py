"""What mixtures with affine scores share: the fit around the loop, responsibilities, densities, information criteria.

A row's log density is log sum exp of its scores plus a constant that the model names (`_log_base`).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Self, TypeVar

import numpy as np
from sklearn.base import DensityMixin

from armillary._typing import ArrayLike, Float64Array, FloatArray, IntArray
from armillary.engines.contract import Passes, Points
from armillary.exceptions import InputError
from armillary.fitting.events import Emitter
from armillary.fitting.loop import Chain, Run, best_run
from armillary.fitting.stopping import RelativeGain, Stopping
from armillary.models.estimator import UnitVectorEstimator
from armillary.models.labels_out import best_labels_to
from armillary.models.parameters import Given, RowShape, Runs
from armillary.models.turns import learning, reading
from armillary.rules import AffineRule
from armillary.validation import check_integer, check_number

S = TypeVar("S")
# A component with less weight than this is not counted.
EMPTY = 1e-8


def check_n_components(n_components: Any, rows: RowShape, who: str) -> int:
    """At least 1, and no more than there are rows."""
    number = check_integer(n_components, "n_components", who, low=1)
    if number > rows.n_rows:
        raise InputError(
            f"`n_components` of {who} must not exceed the number of rows; got n_components={number} and "
            f"n_samples={rows.n_rows}. Lower n_components or give more rows."
        )
    return number


def check_runs(given: Given, who: str) -> tuple[int, int, float]:
    """`n_init`, `max_iter` and `tol`, or an error that names the wrong one."""
    return (
        check_integer(given["n_init"], "n_init", who, low=1),
        check_integer(given["max_iter"], "max_iter", who, low=1),
        check_number(given["tol"], "tol", who, low=0.0, hint="It is a relative gain; 0 runs to the last bit."),
    )


def best_labels(passes: Passes, rule: AffineRule) -> IntArray:
    """The component with the highest score of each row (n,), int32."""
    labels = passes.labels()
    passes.label(rule, labels, sums=False)
    return labels.to_host()


def count_clusters(log_weights: Float64Array) -> int:
    """Components that count."""
    return int(np.count_nonzero(log_weights > math.log(EMPTY)))


def log_shares(counts: Float64Array) -> Float64Array:
    """log(n_k / N); -inf for a component without rows."""
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(counts / counts.sum()))


class AffineMixture(DensityMixin, UnitVectorEstimator, ABC):
    """Base of the mixtures. Subclasses have `_rule(points)`, `_log_base(points)` and `_n_parameters()`."""

    @abstractmethod
    def _rule(self, points: Points) -> AffineRule:
        """The scores of these points under the fitted parameters."""

    @abstractmethod
    def _log_base(self, points: Points) -> float:
        """Log density of a row minus log sum exp of its scores."""

    @abstractmethod
    def _n_parameters(self) -> int:
        """Free parameters."""

    def _run(
        self,
        passes: Passes,
        emitter: Emitter,
        parameters: Runs,
        start: Callable[[int], Chain[S]],
        *,
        stopping: Stopping,
        score_rule: Callable[[S], AffineRule],
    ) -> tuple[S, Run[S], IntArray, float]:
        """The state of the best run, the run, labels, and the evidence under that state."""
        run = best_run(
            start,
            n_restarts=parameters.n_init,
            max_steps=parameters.max_iter,
            stopping=stopping,
            emitter=emitter,
        )
        state = run.chain.state
        rule = score_rule(state)
        labels = best_labels(passes, rule)
        evidence = passes.evidence(rule)
        if not run.is_converged:
            ways = "max_iter or tol" if isinstance(stopping, RelativeGain) else "max_iter"
            self._warn_of_steps(run.n_steps, stacklevel=3, ways=ways)
        return state, run, labels, evidence

    @abstractmethod
    def fit(self, X: Any, y: Any = None, sample_weight: ArrayLike | None = None) -> Self:
        """Fit the mixture."""

    @learning
    def fit_predict(self, X: Any, y: Any = None, sample_weight: ArrayLike | None = None) -> IntArray:
        """`fit`; returns `labels_`.

        Parameters
        ----------
        X : array or CSR matrix of shape (n, D)
        y : ignored
        sample_weight : array of shape (n,), optional
            Weights of the rows; 1 by default.

        Returns
        -------
        array of shape (n,), int32
            `labels_`.
        """
        return self.fit(X, y, sample_weight).labels_

    @reading
    def predict(self, X: Any, *, out: Any = None) -> IntArray:
        """The most probable component of each row of X (n,), int32.

        `out` takes the labels, and is returned: an array of n integers, a memory map, or the path of an npy file, which
        is written whole or not at all and comes back as a memory map.

        Parameters
        ----------
        X : array or CSR matrix of shape (n, D)
        out : array, memory map or path, optional

        Returns
        -------
        array of shape (n,), int32
            Numbers of components; where `out` was given, `out`.
        """
        points = self._points(X, is_new=False)
        return best_labels_to(out, points, self._passes(points), self._rule(points))

    @reading
    def predict_proba(self, X: Any) -> FloatArray:
        """Responsibilities of the components for each row of X (n, K).

        Parameters
        ----------
        X : array or CSR matrix of shape (n, D)

        Returns
        -------
        array of shape (n, K)
            Each row has the sum 1.
        """
        points = self._points(X, is_new=False)
        with self._passes(points) as passes:
            return points.spread(passes.values(self._rule(points), "shares"))

    @reading
    def score_samples(self, X: Any) -> Float64Array:
        """Log density of each row of X (n,), in nats.

        Parameters
        ----------
        X : array or CSR matrix of shape (n, D)

        Returns
        -------
        array of shape (n,)
            Nats.
        """
        points = self._points(X, is_new=False)
        with self._passes(points) as passes:
            return points.spread(passes.values(self._rule(points), "evidence")) + self._log_base(points)

    @reading
    def score(self, X: Any, y: Any = None, sample_weight: ArrayLike | None = None) -> float:
        """Mean log density of the rows of X.

        Parameters
        ----------
        X : array or CSR matrix of shape (n, D)
        y : ignored
        sample_weight : array of shape (n,), optional
            Weights of the rows; 1 by default.

        Returns
        -------
        float
            Nats a row: higher is better.
        """
        points = self._points(X, sample_weight, is_new=False)
        with self._passes(points) as passes:
            evidence = passes.evidence(self._rule(points))
        return evidence / points.total_weight + self._log_base(points)

    @reading
    def bic(self, X: Any) -> float:
        """Bayesian information criterion on X: lower is better.

        Parameters
        ----------
        X : array or CSR matrix of shape (n, D)

        Returns
        -------
        float
            Minus twice the log likelihood, in nats, and the penalty.
        """
        n_rows = self._points(X, is_new=False).n_rows
        return -2.0 * n_rows * self.score(X) + self._n_parameters() * math.log(n_rows)

    @reading
    def aic(self, X: Any) -> float:
        """Akaike information criterion on X: lower is better.

        Parameters
        ----------
        X : array or CSR matrix of shape (n, D)

        Returns
        -------
        float
            Minus twice the log likelihood, in nats, and the penalty.
        """
        n_rows = self._points(X, is_new=False).n_rows
        return -2.0 * n_rows * self.score(X) + 2.0 * self._n_parameters()
