"""The thin scikit-learn shell that every model wears: gate, threads, observers, tags. No algorithm lives here."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted, validate_data

from armillary._typing import Callback
from armillary.draws import Stream, check_random_state
from armillary.engines.contract import UNIT, Gate, Passes, Points
from armillary.engines.select import (
    check_device,
    checked_points,
    engine_for,
    has_no_frame,
    is_bare_on_gpu,
    n_columns,
    open_passes,
)
from armillary.exceptions import RowError
from armillary.fitting.events import Emitter, observers
from armillary.fitting.progress import ProgressBar
from armillary.models.parameters import AnyRows, Check, R
from armillary.models.turns import Turns, publish
from armillary.sources.columns import side_columns, some
from armillary.validation import MOST_COPIES, check_choice, check_integer, is_vector_column
from armillary.workers import thread_count

# Rows whose weights are copies, which priors are held against.
COPIES = Gate(most_weight=MOST_COPIES)


# Parameters that change nothing in a result.
_UNTOLD = frozenset({"callbacks", "device", "n_threads", "verbose"})


def _in_words(value: Any) -> str:
    """A parameter as text: arrays by their digest."""
    if not isinstance(value, str) and np.ndim(value) > 0:
        array = np.ascontiguousarray(value)
        return f"{array.shape} {array.dtype} {hashlib.sha256(array.tobytes()).hexdigest()}"
    return repr(value)


def all_observers(callbacks: object, verbose: Any, who: str) -> tuple[Callback, ...]:
    """The callbacks, and a progress bar if `verbose` asks for one."""
    given = observers(callbacks, who)
    return (*given, ProgressBar()) if check_verbose(verbose, who) else given


def check_verbose(verbose: Any, who: str) -> int:
    """How much is shown of a fit."""
    level = int(verbose) if isinstance(verbose, bool) else verbose
    return check_integer(level, "verbose", who, low=0, hint="1 shows a progress bar.")


def check_missing(missing: Any, who: str) -> bool:
    """Whether rows without a direction are passed over."""
    hint = '"flag" gives rows of NaN, infinities or zeros the label -1.'
    return check_choice(missing, "missing", who, ("raise", "flag"), hint=hint) == "flag"


def flags_missing(missing: Any) -> bool:
    """Whether a parameter that was not looked at says so: it may be an array, which has no one truth."""
    return isinstance(missing, str) and missing == "flag"


class UnitVectorEstimator(BaseEstimator):
    """Base of the models.

    Subclasses have the parameters `n_threads`, `device`, `verbose` and `callbacks`, and those that can pass over rows
    without a direction also `missing`.

    Every public method is marked as one that learns or one that reads (`turns.py`).
    """

    _kind_of_turns: type[Turns] = Turns
    # The record that `_saved_state` is, where the next step or a prediction needs what no user reads. `fit` publishes
    # it with the attributes, and files hold it as its own part (`persistence/schema.py`).
    _state_kind: type[Any] | None = None
    # The `Parameters` of the class: its `check` says what a fit takes.
    _parameters_kind: type[Any] | None = None

    @property
    def _turns(self) -> Turns:
        state = self.__dict__
        known: Turns | None = state.get("_own_turns")
        # of two threads that make it one wins, and both get that one's
        return state.setdefault("_own_turns", self._kind_of_turns()) if known is None else known

    @property
    def device_(self) -> str:
        """Where the last fit ran. It is not saved: a model from a file has none."""
        if "_ran_on" not in vars(self):
            raise AttributeError(f"This {self._who} was not fitted here: `device_` tells where its last fit ran.")
        return str(vars(self)["_ran_on"])

    @property
    def _who(self) -> str:
        return type(self).__name__

    def _points(self, X: Any, sample_weight: Any = None, *, is_new: bool) -> Points:
        """The gate. With `is_new=False`, X must have the features the model was fitted on."""
        return self._gate(X, sample_weight, is_new=is_new)

    def _gate(self, X: Any, sample_weight: Any, *, is_new: bool, gate: Gate = UNIT) -> Points:
        if not is_new and "n_features_in_" not in vars(self):
            check_is_fitted(self)  # has the sentence; to ask it of a fitted model takes a tenth of a small `predict`
        can_flag = "missing" in vars(self)
        if can_flag and check_missing(self.missing, self._who):
            gate = replace(gate, allows_missing=True)
        expected = None if is_new else self.n_features_in_
        try:
            points = checked_points(X, self._who, sample_weight, expected, gate=gate, device=self.device)
        except RowError as error:
            if can_flag and error.lacks_direction:
                raise error.or_flagged() from error
            raise
        self._check_names(X, is_new=is_new)
        return points

    def _check_names(self, X: Any, *, is_new: bool) -> None:
        """The column names, where there are any: such as scikit-learn takes, and those of the fit."""
        if self._has_no_names(X):
            return
        if is_new:
            validate_data(BaseEstimator(), X, skip_check_array=True)
            self._warn_of_ids(X)
        else:
            validate_data(self, X, skip_check_array=True, reset=False)

    def _warn_of_ids(self, X: Any) -> None:
        """Say that a column that is called id or label counts as a coordinate."""
        names = [name for name in getattr(X, "columns", ()) if isinstance(name, str)]
        aside = side_columns(names)
        if aside and len(names) > len(aside) + 1:
            told = [name for name in names if name in aside]
            way = f"columns={told!r}" if hasattr(X, "iloc") else f"{told!r}"  # pandas, or Polars
            warnings.warn(
                f"X of {self._who} has columns whose names say ids or labels, {some(told)}: they count as coordinates "
                f"of the vectors. Leave them out: X.drop({way}).",
                UserWarning,
                stacklevel=6,
            )

    def _publish(self, X: Any, *, is_new: bool, without: Iterable[str] = (), **fitted: Any) -> None:
        """Set the fitted attributes, all at once, after everything that can fail; those in `without` go."""

        def change(after: Self) -> None:
            if not self._has_no_names(X):
                validate_data(after, X, skip_check_array=True, reset=is_new)
            elif is_new:
                after.n_features_in_ = n_columns(X, self._who)
                after.__dict__.pop("feature_names_in_", None)
            attributes = after.__dict__
            for name in without:
                attributes.pop(name, None)
            attributes.update(fitted)
            attributes["_ran_on"] = engine_for(X, self.device, self._who).name  # private: it is not saved

        publish(self, change)

    def _has_no_names(self, X: Any) -> bool:
        """Whether there are no names to look at: scikit-learn's checks would find nothing, in 0.1 ms.

        So it is for a plain array without names in the fit. Rows that lie elsewhere have no names that these checks
        could ask for, and one column of vectors has none of a feature.
        """
        is_plain = (type(X) is np.ndarray or is_bare_on_gpu(X)) and not hasattr(self, "feature_names_in_")
        return is_plain or has_no_frame(X) or is_vector_column(X)

    def _passes(self, points: Points) -> AbstractContextManager[Passes]:
        """Passes over the points, with threads that end with the context."""
        return open_passes(points, self.n_threads, self._who)

    def _kept_passes(self, points: Points) -> AbstractContextManager[Passes]:
        """`_passes` of a fit, which may be kept while it runs."""
        journal = self._journal()
        if journal is None:
            return self._passes(points)
        return open_passes(points, self.n_threads, self._who, journal, self._told())

    def _emitter(self, n_rows: int, *, n_restarts: int, max_steps: int) -> Emitter:
        """Tells observers of a fit."""
        return Emitter(self._who, self._observers(), n_rows=n_rows, n_restarts=n_restarts, max_steps=max_steps)

    @contextmanager
    def _fitting(
        self, X: Any, sample_weight: Any, check: Check[R], *, is_new: bool = True
    ) -> Iterator[tuple[Points, R, Stream, Passes, Emitter]]:
        """How a fit begins: the gate, the parameters, the seed, passes over the rows, and whoever watches."""
        points = self._points(X, sample_weight, is_new=is_new)
        parameters = check(vars(self), points, self._who)
        stream = Stream.of(self.random_state)
        n_runs = getattr(parameters, "n_runs", parameters.n_init)
        watched = self._emitter(points.n_rows, n_restarts=n_runs, max_steps=parameters.max_iter)
        with self._kept_passes(points) as passes, watched as emitter:
            yield points, parameters, stream, passes, emitter

    def _journal(self) -> Any:
        """Where a fit is kept while it runs: one of the callbacks, or nowhere."""
        found = [one for one in observers(self.callbacks, self._who) if hasattr(one, "answers")]
        if not found:
            return None
        if "random_state" in vars(self):
            hint = "A fit that is started again must draw what it drew."
            check_integer(self.random_state, "random_state", f"{self._who} with a Checkpoint", low=0, hint=hint)
        return found[0]

    def _told(self) -> dict[str, Any]:
        """By what a fit is known to be the same when it is started again."""
        told = {name: _in_words(value) for name, value in self.get_params(deep=False).items() if name not in _UNTOLD}
        return {"model": self._who, "is_fitted": self.__sklearn_is_fitted__(), **told}

    def _observers(self) -> tuple[Callback, ...]:
        return all_observers(self.callbacks, self.verbose, self._who)

    def _check_parameters(self) -> None:
        """Refuse parameters that no fit would take, whatever its rows; those of a file are looked at so."""
        check_verbose(self.verbose, self._who)
        check_device(self.device, self._who)
        if "missing" in vars(self):
            check_missing(self.missing, self._who)
        if "n_threads" in vars(self):
            thread_count(self.n_threads, self._who)
        if "random_state" in vars(self):
            check_random_state(self.random_state)
        if self._parameters_kind is not None:
            self._parameters_kind.check(vars(self), self._any_rows(), self._who)

    def _any_rows(self) -> AnyRows:
        """The shape of rows that a fit might be given, for checks without any."""
        return AnyRows(self.n_features_in_)

    def _warn_of_steps(
        self, n_steps: int, *, stacklevel: int, steps: str = "steps", gain: str = "", ways: str = "max_iter or tol"
    ) -> None:
        """Say that a run used up its steps; `stacklevel` counts from the caller to the learning method, both included.

        A learning method is called through its mark (`turns.learning`): that is one step more to the user's line.
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
        tags.input_tags.allow_nan = flags_missing(vars(self).get("missing"))
        return tags
