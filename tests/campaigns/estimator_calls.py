"""Sessions with a model: parameters, a sequence of calls on one model, and what must hold after each.

Which methods there are is found on the class; here is only what each argument may be, and what an answer looks like.
"""

from __future__ import annotations

import inspect
import pickle
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.special import logsumexp
from sklearn.base import BaseEstimator, clone
from tests.campaigns import given
from tests.campaigns.given import Random, Rows, hostile, one_of
from tests.campaigns.outcomes import Calls, FaultError, Sentence, are_finite, fingerprint

import armillary
from armillary.distributions import vmf
from armillary.exceptions import ArchiveError
from armillary.fitting.slices import is_batches
from armillary.persistence import archive

# What good parameters are, by name, small enough for fits of milliseconds; by class and name where classes differ.
PARAMETERS: dict[str, tuple[Any, ...]] = {
    "algorithm": ("auto", "lloyd", "hamerly"),
    "missing": ("raise", "flag"),
    "assignment": ("soft", "hard"),
    "batch_size": (None,),
    "branching": (2, 3),
    "callbacks": (None,),
    "carry_unseen": (False, True),
    "cluster_similarity_threshold": (0.75, 0.9, 0.5),
    "component": ("tangent_gaussian", "gaussian", "vmf"),
    "concentration": ("tied", "free"),
    "concentration_posterior": (*("grid",) * 12, "monte_carlo", "log_normal"),
    "consolidate": (False, True),
    "degrees_of_freedom_prior": (None, 400.0),
    "drift": ("learn", 0.1),
    "drift_concentration": (1e5, 100.0),
    "drift_unit": ("angle", "cosine", "concentration"),
    "device": (None, "auto", "cpu"),
    "empirical_bayes": (True, False),
    "empty_clusters": ("refill", "keep"),
    "estimate": ("exact", "approximate"),
    "factors": ("joint", "factorised"),
    "feature_prior": (0.01, 1.0),
    "forget": (1.0, 0.9, 0.0),
    "groups": ("separate", "shared"),
    "height": (1, 2),
    "init": ("k-means++", "random_labels"),
    "initial_concentration": (10.0, 1.0),
    "inner_log_concentration_mean_prior": (None, 2.0),
    "inner_log_concentration_variance_prior": (1.0, 0.1),
    "learning_decay": (0.7, 1.0),
    "learning_offset": (1.0, 10.0),
    "log_concentration_mean_prior": (None, 2.0),
    "log_concentration_variance_prior": (1.0, 0.1),
    "log_normal_bound": ("quadrature", "jensen", "delta"),
    "loss": ("variation_of_information", "binder"),
    "balance": (None,),  # weights and batches are refused with one
    "max_angle": (0.5, 1.0, 0.1, 3.0),
    "max_clusters": (None, None, 20),
    "max_history": (10_000, 1),
    "max_idle": (None, 5),
    "max_iter": (1, 2, 4),
    "max_seconds": (None,),
    "max_subclusters": (None, 3),
    "max_unseen_steps": (400, 1, np.inf),
    "mean_concentration_prior": (0.0, 1.0),
    "mean_direction_prior": (None,),
    "merge": ("auto", True, False),
    "merge_after": (1, 3),
    "merge_angle": (None, 0.05, 0.3),
    "merge_clusters": (False, True, "whole"),
    "merge_slack": (0.0, 0.15, 1.0),
    "n_attempts": (1, 3),
    "n_burn_in": (1, 2),
    "n_chains": (1, 1, 1, 2),
    "n_clusters": (1, 2, 3, 5),
    "n_components": (1, 2, 3, 5),
    "n_init": (1, 1, 1, 2),
    "n_draws": (2, 4),
    "n_threads": (1, 1, 1, 2),
    "pair_similarity_maximum": (0.9, 1.0),
    "parents": (None,),
    "prior_strength": (1.0, 0.1),
    "random_state": (0, 1, 2**40),
    "root": ("random", "point"),
    "sampler": ("split_merge", "subclusters"),
    "solver": ("exact", "small_angle"),
    "spread_prior": ("auto", 0.1),
    "stopping": ("relative", "paper"),
    "subcluster_similarity_threshold": (0.75, 0.95),
    "thin": (1, 2),
    "tol": (1e-6, 0.0, 1e-2),
    "total_rows": (None,),
    "verbose": (0, False),
    "volume_factor": (True, False),
    "warm_start": (False, True),
    "AutoClusterer.merge": (None, [[0]]),
    "AutoClusterer.n_clusters": (None, 1),
    "AutoClusterer.level": ("chosen",),  # another is refused beside a number of clusters
    "AutoClusterer.outliers": (None,),
    "AutoClusterer.tfidf": ("auto", "off", "on"),
    "min_cluster_size": (None, 5),
    "DirichletProcessMixture.weight_prior": ("fixed", "resampled"),
    "weight_concentration_prior": (1.0, 0.1),
    "weight_update": ("curvature", "paper"),
    "weights": ("shared", "per_slice"),
    "BayesianVonMisesFisherMixture.inference": ("variational",),
    "BayesianVonMisesFisherMixture.weight_prior": ("dirichlet", "stick_breaking"),
    "DirichletProcessMixture.init": ("k-means", "one", 2),
    "HierarchicalVonMisesFisherMixture.inference": ("messages", "factorised"),
    "HierarchicalVonMisesFisherMixture.init": ("top_down",),
    "HierarchicalSphericalKMeans.init": ("k-means||", "k-means++", "random"),
    "HierarchicalSphericalKMeans.n_clusters": (2, (1, 3), [2, 5]),
    "n_fit_rows": (None,),
    "n_resamples": (0, 1),
    "resample_size": (None, 2),
    "SphericalKMeans.init": ("k-means++", "k-means||", "random"),
    "TemporalVonMisesFisherMixture.inference": ("messages", "factorised"),
}
# Numbers of steps: a large one is good, and only slow.
_STEPS = {
    "max_iter", "n_init", "n_burn_in", "n_draws", "thin", "n_attempts", "n_chains", "max_history", "height",
    "branching", "n_resamples",
}  # fmt: skip

# Public methods that are scikit-learn's own, which only keep or tell words, and a word that a loaded model has not.
NOT_CALLED = {"get_metadata_routing", "set_output", "get_feature_names_out", "device_", "choice_", "names_"}
# Fitted numbers that say infinity, or "not known".
_MAY_BE_INFINITE = {"drift_concentration_", "max_unseen_steps", "mean_concentrations_"}

_SLOW = {
    "AutoClusterer",
    "BayesianVonMisesFisherMixture", "DirichletProcessMixture", "HierarchicalVonMisesFisherMixture",
    "TemporalVonMisesFisherMixture",
}  # fmt: skip

# Streams, whose labels are answers of the moment.
_PROMISE_NO_LABELS = {"Links", "DDPvMFMeans"}

READING = {
    "aic", "alternatives", "bic", "condition_numbers", "convergence", "current_ids", "events", "labels_now",
    "ancestors", "centers", "levels_", "predict_membership",
    "level_nodes", "nearest_rows", "predict", "predict_one", "predict_proba", "principal_axes", "record", "sample",
    "score", "score_next", "score_next_samples", "score_samples", "tangent_coordinates", "to_json",
    "to_newick", "top_features", "trajectories", "transform", "children_", "leaves_", "node_concentrations_",
    "node_means_", "tree_", "sample_labels_", "n_draws_", "cluster_centers_", "cluster_ids_", "names",
    "subclusters_of",
}  # fmt: skip
LEARNING = {
    "cannot_link", "fit", "fit_predict", "fit_transform", "learn_one", "must_link", "name", "partial_fit",
    "partial_fit_predict", "resume", "may_link", "forget", "split", "restore",
}  # fmt: skip


@lru_cache
def estimators() -> tuple[type[BaseEstimator], ...]:
    """Every estimator among the public names."""
    found = [getattr(armillary, name) for name in armillary.__all__]
    return tuple(one for one in found if inspect.isclass(one) and issubclass(one, BaseEstimator))


@lru_cache
def methods(cls: type) -> tuple[str, ...]:
    """Its public methods and properties, without those that scikit-learn makes for metadata."""
    return tuple(
        name
        for name in dir(cls)
        if not name.startswith("_") and not name.endswith("_request") and name not in NOT_CALLED
    )


def good_values(cls: type, name: str) -> tuple[Any, ...]:
    return PARAMETERS[f"{cls.__name__}.{name}"] if f"{cls.__name__}.{name}" in PARAMETERS else PARAMETERS[name]


# ------------------------------------------------------------------------------------------------------ a session


class Session:
    """One model, and a sequence of calls on it."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.calls = Calls()
        # a fit of the Bayesian family takes as long as fifty of the others
        self.cls = one_of(random, [cls for cls in estimators() for _ in range(1 if cls.__name__ in _SLOW else 5)])
        self.n_features = int(one_of(random, given.DIMENSIONS))
        self.are_counts = self.cls.__name__ == "MultinomialMixture" and random.random() < 0.9
        self.is_good = True
        self.model = self.cls(**self._parameters())
        self.rows: Rows | None = None  # those of the last fit
        self.times: Any = None

    def run(self) -> Calls:
        """A handful of calls; the first is a fit in most sessions."""
        random = self.random
        names = ["fit"] if random.random() < 0.85 else []
        choices = [name for name in methods(self.cls) if name in READING | LEARNING]
        changes = [self._set_params, self._clone, self._pickle, self._save_and_load]
        for _ in range(int(random.integers(4, 12))):
            if names:
                self._call(names.pop())
            elif random.random() < 0.12:
                one_of(random, changes)()
            else:
                self._call(one_of(random, choices))
        return self.calls

    # -------------------------------------------------------------------------------------------- parameters

    def _parameters(self) -> dict[str, Any]:
        random, chosen = self.random, {}
        for name, parameter in inspect.signature(self.cls).parameters.items():
            # defaults would take long; of the others some stay
            is_slow = name in _STEPS | {"n_components", "n_clusters", "random_state", "n_threads"}
            if is_slow or random.random() < 0.4 or parameter.default is inspect.Parameter.empty:
                chosen[name] = one_of(random, good_values(self.cls, name))
        if random.random() < 0.25:
            chosen.update(self._odd_parameter())
        return chosen

    def _odd_parameter(self) -> dict[str, Any]:
        self.is_good = False
        name = one_of(self.random, list(inspect.signature(self.cls).parameters))
        return {name: self._odd_value(name)}

    def _odd_value(self, name: str) -> Any:
        random = self.random
        if name in ("init", "mean_direction_prior", "parents") and random.random() < 0.7:
            shape = {"init": (int(random.integers(1, 5)), self.n_features), "parents": (int(random.integers(1, 7)),)}
            numbers = random.normal(size=shape.get(name, (self.n_features,)))
            if name == "parents" or random.random() < 0.3:
                return random.integers(-1, 5, size=numbers.shape)
            return numbers * one_of(random, (1.0, 1.0, 1.0, 0.0, 1e-310, 1e300, np.nan))
        if name == "batch_size" and random.random() < 0.5:
            return 20
        if name == "verbose":  # a progress bar writes to the screen
            return one_of(random, ("word", -1, None, 1.5, 10**30 * -1))
        if name == "random_state" and random.random() < 0.5:
            return one_of(random, (None, np.random.default_rng(1), np.random.RandomState(1), np.int32(4)))
        if name == "n_threads" and random.random() < 0.5:
            return one_of(random, (None, 3, np.int64(2), 0, -1, 2.0))
        if name == "callbacks":
            return one_of(random, (lambda event: None, [lambda event: None], "word", [1], 3))
        return hostile(random, is_count=name in _STEPS)

    # ------------------------------------------------------------------------------------------------- calls

    def _call(self, name: str) -> None:
        """One method with arguments of its own, and what must hold afterwards."""
        before = self._seen()
        if not isinstance(inspect.getattr_static(self.cls, name), property) and not hasattr(self.model, name):
            return  # there for other parameters only
        if isinstance(inspect.getattr_static(self.cls, name), property):
            answer = self.calls.make(self._said(name), getattr, self.model, name, may_raise=(AttributeError,))
            # properties of a model that is not fitted say so as attributes do
            self._unchanged(name, before)
            if not isinstance(answer, Sentence):
                self._finite(name, answer)
            return
        arguments, rows, are_good = self._arguments(name)
        answer = self.calls.make(self._said(name), getattr(self.model, name), **arguments)
        if isinstance(answer, Sentence):
            self._unchanged(name, before)
            self._must_not_refuse(name, answer, rows, are_good)
            return
        if name in READING:
            self._unchanged(name, before)
        self._judge(name, answer, rows, arguments)
        if name in LEARNING:
            self._after_learning(name, arguments, rows, are_good=are_good)

    def _said(self, name: str) -> str:
        return f"{self.model!r}.{name}".replace("\n", "")

    def _must_not_refuse(self, name: str, sentence: Sentence, rows: Rows | None, are_good: bool) -> None:
        is_plain = rows is not None and rows.is_plain
        if self.cls.__name__ == "MultinomialMixture":
            is_plain &= self.are_counts
        elif self.cls.__name__ == "DirichletProcessMixture":  # Gaussians take no sparse rows
            is_plain &= not (is_plain and sp.issparse(rows.value))
        # a warm start goes on with the columns that it has
        is_plain &= "is expecting" not in str(sentence.error) or not getattr(self.model, "warm_start", False)
        if name == "fit" and self.is_good and are_good and is_plain:
            raise FaultError(
                f"{self._said(name)} refuses what is good ({rows.what}): {sentence.error}"
            ) from sentence.error

    def _arguments(self, name: str) -> tuple[dict[str, Any], Rows | None, bool]:
        """Arguments by name, the rows among them, and whether all are as they should be."""
        chosen: dict[str, Any] = {}
        rows, are_good = None, True
        for key, parameter in inspect.signature(getattr(self.cls, name)).parameters.items():
            # `out` writes: to arrays, which are held to stay as they are, and to files of any name
            if key in ("self", "y", "kwargs", "fit_params", "out"):
                continue
            if key == "X":
                rows = self._rows(name)
                chosen[key] = rows.value
            elif key == "sample_weight" and name != "learn_one":
                chosen[key], is_good = given.some_weights(self.random, None if rows is None else rows.n_rows)
                # draws of labels know no weights
                are_good &= is_good and (chosen[key] is None or "Gibbs" not in self.cls.__name__)
            elif parameter.default is inspect.Parameter.empty or self.random.random() < 0.5:
                is_odd = self.random.random() < 0.15
                chosen[key] = hostile(self.random) if is_odd else self._argument(name, key, rows)
                are_good = False  # a good value may not fit the others
        if name in ("fit_predict", "fit_transform") and "sample_weight" not in chosen and self.random.random() < 0.2:
            chosen["sample_weight"], _ = given.some_weights(self.random, None if rows is None else rows.n_rows)
            if self.cls.__name__ == "DirichletProcessMixture":
                del chosen["sample_weight"]
        return chosen, rows, are_good

    def _rows(self, name: str) -> Rows:
        random = self.random
        if self.rows is not None and name not in LEARNING and random.random() < 0.4:
            return self.rows
        n_features = self.n_features if random.random() < 0.95 else int(one_of(random, given.DIMENSIONS))
        # a covariance has D^2 numbers
        is_wide = self.cls.__name__ != "DirichletProcessMixture"
        rows = given.some_rows(random, n_features, are_counts=self.are_counts, is_wide=is_wide)
        if name == "fit" and self.cls.__name__ == "TemporalVonMisesFisherMixture" and random.random() < 0.1:
            batches = [given.some_rows(random, n_features).value for _ in range(int(random.integers(0, 4)))]
            return Rows(batches, None, "batches")
        return rows

    def _argument(self, method: str, key: str, rows: Rows | None) -> Any:
        random = self.random
        n_rows = 6 if rows is None or rows.n_rows is None else rows.n_rows
        make = _ARGUMENTS.get(f"{method}.{key}", _ARGUMENTS.get(key))
        if make is None:
            raise KeyError(f"nothing is known of the argument {key} of {self.cls.__name__}.{method}")
        return make(self, random, n_rows)

    # ------------------------------------------------------------------------------------- what must hold

    def _seen(self) -> tuple[str, bytes]:
        """Everything a user sees of the model, and its saved bytes where it can be saved."""
        shown = {name: value for name, value in vars(self.model).items() if not name.startswith("_")}
        return fingerprint({name: shown[name] for name in sorted(shown)}), saved(self.model)

    def _unchanged(self, name: str, before: tuple[str, bytes]) -> None:
        if self._seen() != before:
            raise FaultError(f"{self._said(name)} changed the model")

    def _present(self, answer: Any) -> Any:
        """Without the rows that are missing and were to be flagged: they have NaN for every number."""
        if getattr(self.model, "missing", None) != "flag" or not isinstance(answer, np.ndarray):
            return answer
        if answer.ndim == 0 or answer.dtype.kind != "f" or not answer.size:
            return answer
        return answer[~np.isnan(answer).reshape(len(answer), -1).all(axis=1)]

    def _finite(self, name: str, answer: Any) -> None:
        if not are_finite(self._present(answer)):
            raise FaultError(f"{self._said(name)} is not finite: {answer!r:.500}")

    def _judge(self, name: str, answer: Any, rows: Rows | None, arguments: dict[str, Any]) -> None:
        """The right shape, finite numbers, and what each kind of answer promises."""
        # R-hat is infinite where chains are constant at different values
        if name != "convergence" and not isinstance(answer, type(self.model)):
            self._finite(name, answer)
        n = None if rows is None else rows.n_rows
        if name in ("predict", "fit_predict", "partial_fit_predict"):
            self._judge_labels(name, answer, n, arguments)
        elif name == "predict_proba":
            _need(np.ndim(answer) == 2 and (n is None or len(answer) == n), f"{self._said(name)}: shape {answer.shape}")
            shares = self._present(answer)
            _need((shares >= 0).all() and (shares <= 1 + 1e-5).all(), f"{self._said(name)}: beyond [0, 1]")
            _need(np.allclose(shares.sum(axis=1), 1.0, atol=1e-5), f"{self._said(name)}: sums {shares.sum(axis=1)}")
        elif name in ("score_samples", "score_next_samples"):
            _need(n is None or answer.shape == (n,), f"{self._said(name)}: shape {answer.shape}")
        elif name in ("score", "aic", "bic", "score_next"):
            _need(isinstance(answer, float), f"{self._said(name)}: {answer!r}")
        elif name in ("transform", "fit_transform"):
            _need(n is None or len(answer) == n, f"{self._said(name)}: shape {answer.shape}")
        elif name == "sample":
            self._judge_sample(answer, arguments)
        elif name in ("fit", "partial_fit", "resume"):
            _need(answer is self.model, f"{self._said(name)} must return the model")

    def _judge_labels(self, name: str, labels: Any, n: int | None, arguments: dict[str, Any]) -> None:
        _need(labels.dtype.kind == "i" and labels.ndim == 1, f"{self._said(name)}: {labels.dtype}, {labels.shape}")
        _need(n is None or len(labels) == n, f"{self._said(name)}: {len(labels)} labels for {n} rows")
        if self.cls.__name__ not in ("Links", "DDPvMFMeans") and arguments.get("level") is None:
            most = self._n_components()
            may_miss = getattr(self.model, "missing", None) == "flag"
            may_miss |= getattr(self.model, "outliers", None) is not None
            may_miss |= self.cls.__name__ != "SphericalKMeans" and bool(arguments.get("reject", False))
            low = -1 if may_miss else 0
            _need(
                n == 0 or (labels.min() >= low and labels.max() < most), f"{self._said(name)}: beyond {most}: {labels}"
            )

    def _n_components(self) -> int:
        for name in ("cluster_centers_", "means_", "word_probabilities_", "weights_"):
            if hasattr(self.model, name):
                return int(np.shape(getattr(self.model, name))[-2 if name in ("cluster_centers_", "means_") else 0])
        return 1 << 30

    def _judge_sample(self, answer: Any, arguments: dict[str, Any]) -> None:
        rows, labels = answer
        n = int(arguments.get("n_samples", 1))
        _need(rows.shape == (n, self.model.n_features_in_) and labels.shape == (n,), f"{self._said('sample')}: shapes")
        if self.model.get_params().get("component") != "gaussian":  # those live in all of space
            _need(np.allclose(np.linalg.norm(rows, axis=1), 1.0, atol=1e-6), f"{self._said('sample')}: not unit")

    def _after_learning(self, name: str, arguments: dict[str, Any], rows: Rows | None, *, are_good: bool) -> None:
        """What a fit promises: finite numbers, labels that predict repeats, the same for rows held otherwise."""
        if rows is not None:
            self.rows = rows
        for key, value in vars(self.model).items():
            if key.endswith("_") and not self._may_be_infinite(key) and not are_finite(value):
                raise FaultError(f"{self._said(name)}: {key} is not finite: {value!r:.300}")
        if rows is None or rows.dense is None:
            return
        if name in ("fit", "fit_predict", "fit_transform"):
            self._judge_labels(name, self.model.labels_, rows.n_rows, arguments)
            extra = {key: arguments[key] for key in ("times",) if key in arguments}
            if arguments.get("slices") is not None and extra.get("times") is None and not is_batches(rows.value):
                extra["times"] = 0  # where fit puts rows without times; predict takes the last slice
            # labels of balanced clusters keep a bound that `predict` does not know
            if self.cls.__name__ not in _PROMISE_NO_LABELS and getattr(self.model, "balance", None) is None:
                again = self.model.predict(rows.value, **extra)
                _need(np.array_equal(again, self.model.labels_), f"{self._said(name)}: labels_ is not predict(X)")
            self._oracle(rows)
            if self.random.random() < 0.2:
                self._twin(name, arguments, rows)

    def _may_be_infinite(self, key: str) -> bool:
        if key == "memory_weights_":  # of the paper's rule: memory that cannot turn, and is never NaN
            model = self.model
            is_still = model.weight_update == "paper" and model.drift_concentration == np.inf
            return is_still and not np.isnan(model.memory_weights_).any()
        return key in _MAY_BE_INFINITE

    def _twin(self, name: str, arguments: dict[str, Any], rows: Rows) -> None:
        """The same numbers held otherwise, or another number of threads: equal to the bit; CSR: equal labels."""
        random = self.random
        state = self.model.get_params().get("random_state", 0)
        if not isinstance(state, int) or self.model.get_params().get("warm_start"):
            return
        if rows.n_rows == 0:  # a list of no rows says nothing of its columns
            return
        twin = clone(self.model)
        is_float64 = isinstance(rows.value, list | tuple) or getattr(rows.value, "dtype", None) == np.float64
        holder = rows.value
        must_match_bits = True
        if is_float64 and not sp.issparse(rows.value) and random.random() < 0.7:
            holder = one_of(random, [hold for key, hold in given.DENSE.items() if key not in given.SKIPPED])(rows.dense)
        elif is_float64 and rows.is_plain and self.cls.__name__ in ("SphericalKMeans", "DPvMFMeans", "Links"):
            holder = np.array(rows.dense) if sp.issparse(rows.value) else sp.csr_array(rows.dense)
            must_match_bits = False
        elif "n_threads" in twin.get_params():
            twin.set_params(n_threads=int(random.integers(1, 4)))
        answer = self.calls.make(self._said(f"{name} again"), twin.fit, **{**arguments, "X": holder})
        _need(not isinstance(answer, Sentence), f"{self._said(name)}: refused when held otherwise")
        _need(np.array_equal(twin.labels_, self.model.labels_), f"{self._said(name)}: other labels when held otherwise")
        if must_match_bits:
            for key, value in vars(self.model).items():
                if key.endswith("_") and not key.startswith("_") and key not in ("feature_names_in_", "history_"):
                    same = fingerprint(value) == fingerprint(getattr(twin, key))
                    _need(same, f"{self._said(name)}: {key} differs when held otherwise ({rows.what})")

    def _oracle(self, rows: Rows) -> None:
        """A few answers against the formula, by NumPy in float64."""
        model = self.model
        with np.errstate(all="ignore"):
            scaled = rows.dense / np.abs(rows.dense).max(axis=1, keepdims=True)
            unit = given.unit(scaled)
        if not np.isfinite(unit).all():
            return
        if self.cls.__name__ in ("SphericalKMeans", "DPvMFMeans"):
            cosines = unit @ model.cluster_centers_.T
            chosen = cosines[np.arange(len(unit)), model.labels_]
            _need((chosen >= cosines.max(axis=1) - 1e-6).all(), f"{self._said('fit')}: not the nearest centre")
        elif self.cls.__name__ == "VonMisesFisherMixture":
            parts = [
                vmf.log_density(unit, mean, kappa) for mean, kappa in zip(model.means_, _kappas(model), strict=True)
            ]
            with np.errstate(divide="ignore"):
                expected = logsumexp(np.array(parts).T + np.log(model.weights_), axis=1)
            found = model.score_samples(rows.value)
            near = np.allclose(found, expected, rtol=1e-4, atol=1e-3 + 1e-5 * float(np.max(_kappas(model))))
            _need(near, f"{self._said('score_samples')}: {np.abs(found - expected).max()} from the formula")

    # ------------------------------------------------------------------------------------- copies, files, changes

    def _set_params(self) -> None:
        name = one_of(self.random, list(inspect.signature(self.cls).parameters))
        is_odd = self.random.random() < 0.3
        self.is_good &= not is_odd
        value = self._odd_value(name) if is_odd else one_of(self.random, good_values(self.cls, name))
        self.calls.make(self._said("set_params"), self.model.set_params, **{name: value})

    def _clone(self) -> None:
        made = self.calls.make(self._said("clone"), clone, self.model)
        if self.random.random() < 0.3:
            self.model, self.rows = made, None

    def _pickle(self) -> None:
        if callable(getattr(self.model, "callbacks", None)) or isinstance(getattr(self.model, "callbacks", None), list):
            return
        try:
            text = pickle.dumps(self.model)
        except (TypeError, AttributeError, pickle.PicklingError):  # a parameter that has no place in a pickle
            return
        self.model = self.calls.make(self._said("pickle"), pickle.loads, text)

    def _save_and_load(self) -> None:
        before = saved(self.model)
        if not before:
            return
        path = given.folder() / "model.safetensors"
        self.calls.make(self._said("save"), armillary.save, self.model, path)
        loaded = self.calls.make("load", armillary.load, path)
        _need(saved(loaded) == before, f"{self._said('save')}: comes back otherwise")
        if self.rows is not None and self.rows.dense is not None:
            pair = [self.calls.make("predict", one.predict, self.rows.value) for one in (self.model, loaded)]
            are_sentences = [isinstance(one, Sentence) for one in pair]
            same = all(are_sentences) or (not any(are_sentences) and np.array_equal(*pair))
            _need(same, f"{self._said('load')}: predicts otherwise")


def saved(model: Any) -> bytes:
    """The bytes that `save` writes; none for a model that it refuses."""
    try:
        return archive._packed(*archive._described(model))
    except ArchiveError:
        return b""


def _kappas(model: Any) -> np.ndarray:
    return np.broadcast_to(model.concentrations_, len(model.means_))


def _need(condition: Any, what: str) -> None:
    if not condition:
        raise FaultError(what)


# ------------------------------------------------------------------------------------------ arguments of methods


def _times(session: Session, random: Random, n: int) -> Any:
    numbers = random.integers(0, 4, size=n)
    dates = np.datetime64("2020-01-01") + numbers
    return one_of(random, (numbers, numbers.tolist(), numbers * 0.5, dates, numbers.astype(str), np.zeros(n)))


def _vector(session: Session, random: Random, n: int) -> Any:
    rows = given.some_rows(random, session.n_features)
    if rows.dense is not None and len(rows.dense) and random.random() < 0.9:
        return one_of(random, (rows.dense[0], rows.dense[0].tolist(), rows.dense[0].astype(np.float32), rows.dense[:1]))
    return rows.value


def _cluster(session: Session, random: Random, n: int) -> Any:
    return int(random.integers(-1, 4))


def _side(session: Session, random: Random, n: int) -> Any:
    return _cluster(session, random, n) if random.random() < 0.5 else _vector(session, random, n)


def _rotation(session: Session, random: Random, n: int) -> Any:
    d = session.n_features
    turn = np.linalg.qr(random.normal(size=(d, d)))[0]
    turn[0] *= np.linalg.det(turn)
    return one_of(random, (None, np.eye(d), turn, -turn, turn * 2, turn[:1], np.full((d, d), np.nan)))


def _names(session: Session, random: Random, n: int) -> Any:
    return one_of(random, (None, [f"w{i}" for i in range(session.n_features)], ["one"], np.arange(session.n_features)))


_ARGUMENTS: dict[str, Callable[[Session, Random, int], Any]] = {
    "times": _times,
    "time": lambda s, random, n: one_of(random, (None, 3, 5, 7.5, "2021", np.datetime64("2021-01-01"))),
    "slices": lambda s, random, n: one_of(random, (None, range(4), [0, 1, 2, 3, 9], [0, 0], [])),
    "x": _vector,
    "one": _side,
    "other": _side,
    "cluster": _cluster,
    "label": lambda s, random, n: one_of(random, ("a", "b", None, "")),
    "past_ids": lambda s, random, n: random.integers(-1, 4, size=5),
    "nodes": lambda s, random, n: one_of(random, (None, random.integers(-1, 4, size=5))),
    "since": lambda s, random, n: int(random.integers(0, 20)),
    "frames": lambda s, random, n: one_of(random, (None, random.integers(0, 3, size=n), ["a"] * n)),
    "apart_from": lambda s, random, n: one_of(random, (None, [], random.integers(0, 4, size=2))),
    "margin": lambda s, random, n: one_of(random, (None, 0.0, 0.05, 2.0)),
    "subclusters": lambda s, random, n: random.integers(0, 6, size=2),
    "rows": lambda s, random, n: one_of(random, (None, random.normal(size=(2, s.n_features)))),
    "into": lambda s, random, n: one_of(random, (None, _cluster(s, random, n))),
    "past": _cluster,
    "k": lambda s, random, n: int(random.integers(1, 5)),
    "n": lambda s, random, n: int(random.integers(1, 5)),
    "n_steps": lambda s, random, n: int(random.integers(1, 4)),
    "n_samples": lambda s, random, n: int(random.integers(0, 9)),
    "n_draws": lambda s, random, n: int(random.integers(0, 9)),
    "n_features": lambda s, random, n: int(random.integers(0, 4)),
    "random_state": lambda s, random, n: one_of(random, (0, 1, None, np.random.RandomState(0))),
    "density": lambda s, random, n: one_of(random, ("full", "plugin")),
    "reject": lambda s, random, n: bool(random.integers(2)),
    "rotation": _rotation,
    "level": lambda s, random, n: one_of(random, (None, 0, 1, 2, -1)),
    "step": lambda s, random, n: one_of(random, (None, 0, 1, -1, 100)),
    "sample_weight": lambda s, random, n: one_of(random, (1.0, 2.0, 0.0, 0.5)),
    "feature_names": _names,
    "texts": lambda s, random, n: one_of(
        random, (None, ["a word"] * n, [f"word {i % 3}" for i in range(n)], [""] * n, [])
    ),
    "names": _names,
    "directions": lambda s, random, n: bool(random.integers(2)),
    "beside_parent": lambda s, random, n: bool(random.integers(2)),
    "indent": lambda s, random, n: one_of(random, (None, 2)),
}


def session(random: Random) -> Calls:
    """A trial: one session, or the same calls that a copy of the model must answer alike."""
    return Session(random).run()
