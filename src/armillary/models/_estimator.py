"""The thin scikit-learn shell that every model wears: gate, threads, observers, tags. No algorithm lives here."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted, validate_data

from armillary._typing import Callback, Float64Array
from armillary.fitting.events import observers
from armillary.fitting.passes import Passes
from armillary.fitting.progress import ProgressBar
from armillary.fitting.workers import Workers, thread_count
from armillary.kernels.select import kernels_for
from armillary.models._turns import Turns, publish
from armillary.points import Points, as_points
from armillary.random import check_random_state
from armillary.validation import MOST_COPIES, check_integer

# More rows than any parameter asks for.
_MANY_ROWS = 1 << 30


def checked_points(X: Any, who: str, sample_weight: Any = None, expected_features: int | None = None) -> Points:
    """`as_points`, with the kernels' look at rows that are unit already."""
    return as_points(X, who, sample_weight, expected_features, look=kernels_for("cpu").are_unit)


def counted_points(X: Any, who: str, sample_weight: Any = None, expected_features: int | None = None) -> Points:
    """`checked_points` where weights are copies of rows, which priors are held against."""
    look = kernels_for("cpu").are_unit
    return as_points(X, who, sample_weight, expected_features, look=look, most_weight=MOST_COPIES)


@contextmanager
def open_passes(points: Points, n_threads: int | None, who: str) -> Iterator[Passes]:
    """Passes over the points, with threads that end with the context."""
    with Workers(thread_count(n_threads, who)) as workers:
        yield Passes(points, kernels_for("cpu"), workers)


def all_observers(callbacks: object, verbose: Any, who: str) -> tuple[Callback, ...]:
    """The callbacks, and a progress bar if `verbose` asks for one."""
    given = observers(callbacks, who)
    return (*given, ProgressBar()) if check_verbose(verbose, who) else given


def check_verbose(verbose: Any, who: str) -> int:
    """How much is shown of a fit."""
    level = int(verbose) if isinstance(verbose, bool) else verbose
    return check_integer(level, "verbose", who, low=0, hint="1 shows a progress bar.")


@lru_cache(maxsize=16)  # to make one takes a tenth of the time to load a small model
def _no_values(n_rows: int, n_features: int) -> Float64Array:
    """An array of zeros that takes no memory."""
    return np.broadcast_to(np.float64(0.0), (n_rows, n_features))


class UnitVectorEstimator(BaseEstimator):
    """Base of the models. Subclasses have the parameters `n_threads`, `verbose` and `callbacks`.

    Every public method is marked as one that learns or one that reads (`_turns.py`).
    """

    _kind_of_turns: type[Turns] = Turns

    @property
    def _turns(self) -> Turns:
        state = self.__dict__
        known: Turns | None = state.get("_own_turns")
        # of two threads that make it one wins, and both get that one's
        return state.setdefault("_own_turns", self._kind_of_turns()) if known is None else known

    @property
    def _who(self) -> str:
        return type(self).__name__

    def _points(self, X: Any, sample_weight: Any = None, *, is_new: bool) -> Points:
        """The gate. With `is_new=False`, X must have the features the model was fitted on."""
        return self._gate(X, sample_weight, is_new=is_new, make=checked_points)

    def _gate(self, X: Any, sample_weight: Any, *, is_new: bool, make: Callable[..., Points]) -> Points:
        if not is_new and "n_features_in_" not in vars(self):
            check_is_fitted(self)  # has the sentence; to ask it of a fitted model takes a tenth of a small `predict`
        expected = None if is_new else self.n_features_in_
        points = make(X, self._who, sample_weight, expected_features=expected)
        self._check_names(X, is_new=is_new)
        return points

    def _check_names(self, X: Any, *, is_new: bool) -> None:
        """The column names, where there are any: such as scikit-learn takes, and those of the fit."""
        if self._has_no_names(X):
            return
        if is_new:
            validate_data(BaseEstimator(), X, skip_check_array=True)
        else:
            validate_data(self, X, skip_check_array=True, reset=False)

    def _publish(self, X: Any, *, is_new: bool, without: Iterable[str] = (), **fitted: Any) -> None:
        """Set the fitted attributes, all at once, after everything that can fail; those in `without` go."""

        def change(after: Self) -> None:
            if not self._has_no_names(X):
                validate_data(after, X, skip_check_array=True, reset=is_new)
            elif is_new:
                after.n_features_in_ = X.shape[1]
            attributes = after.__dict__
            for name in without:
                attributes.pop(name, None)
            attributes.update(fitted)

        publish(self, change)

    def _has_no_names(self, X: Any) -> bool:
        """A plain array, and no names in the fit: scikit-learn's checks would find nothing, in 0.1 ms."""
        return type(X) is np.ndarray and not hasattr(self, "feature_names_in_")

    @contextmanager
    def _passes(self, points: Points) -> Iterator[Passes]:
        """Passes over the points, with threads that end with the context."""
        with open_passes(points, self.n_threads, self._who) as passes:
            yield passes

    def _observers(self) -> tuple[Callback, ...]:
        return all_observers(self.callbacks, self.verbose, self._who)

    def _check_parameters(self) -> None:
        """Refuse parameters that no fit would take, whatever its rows; those of a file are looked at so."""
        check_verbose(self.verbose, self._who)
        if "n_threads" in vars(self):
            thread_count(self.n_threads, self._who)
        if "random_state" in vars(self):
            check_random_state(self.random_state)

    def _any_points(self, n_rows: int = _MANY_ROWS) -> Points:
        """Points of the features of the fit, for checks that ask for their shape: they take no memory."""
        return Points(_no_values(n_rows, self.n_features_in_), np.dtype(np.float64), None, is_unit=True, who=self._who)

    def _warn_of_steps(
        self, n_steps: int, *, stacklevel: int, steps: str = "steps", gain: str = "", ways: str = "max_iter or tol"
    ) -> None:
        """Say that a run used up its steps; `stacklevel` counts from the caller to the learning method, both included.

        A learning method is called through its mark (`_turns.learning`): that is one step more to the user's line.
        """
        warnings.warn(
            f"{self._who} used all {n_steps} {steps} and was still gaining{gain}. Raise {ways}.",
            ConvergenceWarning,
            stacklevel=stacklevel + 2,
        )

    def __sklearn_is_fitted__(self) -> bool:
        # as scikit-learn looks, but at the attributes of one moment: others may come while it does
        return any(name.endswith("_") and not name.startswith("__") for name in vars(self).copy())

    def __getstate__(self) -> dict[str, Any]:
        # a copy has turns of its own, and the attributes of one moment
        return {name: value for name, value in self._moment().items() if name != "_own_turns"}

    def _moment(self) -> dict[str, Any]:
        """The attributes now, as scikit-learn would pickle them."""
        return dict(super().__getstate__())

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags
