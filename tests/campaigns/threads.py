"""Random mixes of reading and learning calls from several threads on one model.

Every answer must be that of a state the model was in between the start and the end of the call, as one thread alone
would have met it, to the bit; a learning call beside another must be refused with its sentence. Three kinds of trials:
many threads that read; threads that fit one of a few data sets, beside readers; one learner that follows a plan, beside
readers and beside learners whose input is bad, so that they are refused either way.

The models and their calls, all of them, are in `CASES`, which `tests/laws/test_thread_laws.py` uses too.
"""

from __future__ import annotations

import copy
import pickle
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, is_dataclass
from functools import cache, partial
from operator import attrgetter, methodcaller
from typing import Any

import numpy as np
import scipy.sparse as sp
from tests.campaigns.campaign import main

import armillary as ar
from armillary.exceptions import ArmillaryError, InputError

N_FEATURES = 6
Read = Callable[[Any, Any], Any]
Learn = Callable[[Any, Any], Any]


@dataclass(frozen=True)
class Case:
    """A model with all its reading calls, each a function of the model and of rows, and ways to learn."""

    make: Callable[[], Any]
    reads: dict[str, Read]
    steps: dict[str, Learn] = field(default_factory=dict)  # that go on from the state before
    takes_sparse: bool = True
    are_counts: bool = False
    refused: tuple[str, ...] = ()  # reading calls that this form of the model has no answer to


def _of_rows(*names: str, **keywords: Any) -> dict[str, Read]:
    def read(name: str) -> Read:
        return lambda model, X: getattr(model, name)(X, **keywords)

    return {name: read(name) for name in names}


def _plain(**reads: Callable[[Any], Any]) -> dict[str, Read]:
    return {name: lambda model, _, read=read: read(model) for name, read in reads.items()}


def _first(X: Any) -> Any:
    return X[:1].toarray()[0] if sp.issparse(X) else X[0]


_COPIES = {
    "pickle": lambda model, X: pickle.loads(pickle.dumps(model)).predict(X),
    "copy": lambda model, X: copy.copy(model).predict(X),
}
_NAMES_OUT = _plain(get_feature_names_out=methodcaller("get_feature_names_out"))
_SAMPLE = _plain(sample=methodcaller("sample", 5, random_state=3))
_AFFINE = {**_of_rows("predict", "predict_proba", "score_samples", "score", "bic", "aic"), **_COPIES}


def _partial(model: Any, X: Any) -> Any:
    return model.partial_fit(X)


_LINKS_READS = {
    **_COPIES,
    **_NAMES_OUT,
    **_of_rows("predict", "score", "transform"),
    "predict_one": lambda model, X: model.predict_one(_first(X)),
    "alternatives": lambda model, X: model.alternatives(_first(X)),
    **_plain(
        events=methodcaller("events"),
        current_ids=methodcaller("current_ids", [0, -1]),
        labels_now=methodcaller("labels_now", np.array([0, 1, 2, -1])),
        cluster_ids_=attrgetter("cluster_ids_"),
        cluster_centers_=attrgetter("cluster_centers_"),
        names=attrgetter("names"),
    ),
    "subclusters_of": lambda model, _: model.subclusters_of(int(model.cluster_ids_[0])),
}


def _correct(model: Any, X: Any) -> Any:
    """Statements about clusters that differ from step to step, and may be refused."""
    ids = model.cluster_ids_
    try:
        if len(ids) > 2 and len(ids) % 2:
            model.must_link(int(ids[0]), int(ids[1]))
        elif len(ids) > 1:
            model.cannot_link(int(ids[0]), int(ids[-1]))
        model.name(int(ids[-1]), f"at {model.n_vectors_}")
    except InputError:
        pass
    return model


_DP_READS = {
    **_COPIES,
    **_of_rows("predict", "predict_proba", "score_samples", "score"),
    **_SAMPLE,
    **_plain(
        convergence=methodcaller("convergence"),
        sample_labels_=attrgetter("sample_labels_"),
        n_draws_=attrgetter("n_draws_"),
    ),
}
_AXES = {
    **_plain(principal_axes=methodcaller("principal_axes"), condition_numbers=methodcaller("condition_numbers")),
    "tangent_coordinates": lambda model, X: model.tangent_coordinates(X, 0),
}

CASES: dict[str, Case] = {
    "SphericalKMeans": Case(
        lambda: ar.SphericalKMeans(3, random_state=0),
        {
            **_COPIES,
            **_of_rows("predict", "transform", "score"),
            **_NAMES_OUT,
        },
        {"partial_fit": _partial},
    ),
    "HierarchicalSphericalKMeans": Case(
        lambda: ar.HierarchicalSphericalKMeans((2, 4), random_state=0),
        {
            **_COPIES,
            **_of_rows("predict", "transform", "score"),
            "predict, level": lambda model, X: model.predict(X, level=0),
            **_NAMES_OUT,
            **_plain(ancestors=methodcaller("ancestors"), centers=methodcaller("centers", 0)),
        },
    ),
    "AutoClusterer": Case(
        lambda: ar.AutoClusterer(),
        {
            **_COPIES,
            **_of_rows("predict", "transform", "score", "predict_membership"),
            **_NAMES_OUT,
            "levels_": lambda model, X: model.levels_.fine,
            "choice_": lambda model, X: model.choice_.reason,
            "names_": lambda model, X: getattr(model, "names_", None),
        },
    ),
    "DPvMFMeans": Case(
        lambda: ar.DPvMFMeans(0.7, random_state=0),
        {**_COPIES, **_of_rows("predict", "score", "transform"), **_NAMES_OUT},
        {"partial_fit": _partial},
    ),
    "DDPvMFMeans": Case(
        lambda: ar.DDPvMFMeans(0.7),
        {
            **_COPIES,
            **_of_rows("predict", "score", "transform"),
            **_NAMES_OUT,
            **_plain(record=methodcaller("record"), current_ids=methodcaller("current_ids", [0, -1])),
        },
        {"partial_fit": _partial},
    ),
    "VonMisesFisherMixture": Case(lambda: ar.VonMisesFisherMixture(3, random_state=0), {**_AFFINE, **_SAMPLE}),
    "SoftKMeans": Case(lambda: ar.SoftKMeans(3, random_state=0), _AFFINE),
    "MultinomialMixture": Case(lambda: ar.MultinomialMixture(3, random_state=0), _AFFINE, are_counts=True),
    "BayesianVonMisesFisherMixture": Case(
        lambda: ar.BayesianVonMisesFisherMixture(3, empirical_bayes=False, max_iter=4, random_state=0),
        {**_COPIES, **_of_rows("predict", "predict_proba", "score_samples", "score"), **_SAMPLE},
        {"partial_fit": _partial},
    ),
    "GibbsVonMisesFisherMixture": Case(
        lambda: ar.GibbsVonMisesFisherMixture(3, empirical_bayes=False, n_burn_in=1, n_draws=2, thin=1, random_state=0),
        {**_COPIES, **_of_rows("predict", "predict_proba", "score_samples", "score"), **_SAMPLE},
    ),
    "HierarchicalVonMisesFisherMixture": Case(
        lambda: ar.HierarchicalVonMisesFisherMixture(2, 2, empirical_bayes=False, max_iter=3, random_state=0),
        {
            **_COPIES,
            **_of_rows("predict", "predict_proba", "score_samples", "score", "nearest_rows"),
            "predict, level": lambda model, X: model.predict(X, level=1),
            **_SAMPLE,
            **_plain(
                tree_=attrgetter("tree_"),
                children_=attrgetter("children_"),
                leaves_=attrgetter("leaves_"),
                node_means_=attrgetter("node_means_"),
                node_concentrations_=attrgetter("node_concentrations_"),
                level_nodes=methodcaller("level_nodes", 1),
                top_features=methodcaller("top_features", 2),
                to_newick=methodcaller("to_newick"),
                to_json=methodcaller("to_json", n_features=2),
            ),
        },
    ),
    "TemporalVonMisesFisherMixture": Case(
        lambda: ar.TemporalVonMisesFisherMixture(3, drift=0.1, max_iter=4, random_state=0),
        {
            **_COPIES,
            **_of_rows("predict", "predict_proba", "score_samples", "score", "score_next", "score_next_samples"),
            **_SAMPLE,
            **_plain(top_features=methodcaller("top_features", 2), trajectories=methodcaller("trajectories")),
        },
        {"partial_fit": _partial},
    ),
    "DirichletProcessMixture": Case(
        lambda: ar.DirichletProcessMixture(n_burn_in=0, n_draws=4, random_state=0),
        {**_DP_READS, **_AXES},
        {"resume": lambda model, _: model.resume(rows_of("A", are_counts=False, is_sparse=False), 1)},
        takes_sparse=False,
    ),
    "DirichletProcessMixture, round": Case(
        lambda: ar.DirichletProcessMixture("vmf", n_burn_in=0, n_draws=4, random_state=0),
        _DP_READS,
        refused=tuple(_AXES),
    ),
    "Links": Case(
        lambda: ar.Links(0.8, 0.9, 0.9, merge_clusters=True),
        _LINKS_READS,
        {
            "partial_fit": _partial,
            "learn_one": lambda model, X: model.learn_one(_first(X)),
            "many": lambda model, X: model.partial_fit(sp.vstack([X] * 8) if sp.issparse(X) else np.tile(X, (8, 1))),
            "correct": _correct,
        },
    ),
}
LEARNING = ("fit", "partial_fit", "fit_predict", "partial_fit_predict", "fit_transform", "resume", "learn_one")
CORRECTIONS = ("name", "must_link", "cannot_link", "may_link", "forget", "split", "restore")


@cache
def rows_of(name: str, *, are_counts: bool, is_sparse: bool) -> Any:
    """A small data set by name: three or four bundles of directions, or counts of words."""
    seed = sum(name.encode())
    draws = np.random.default_rng(seed)
    centers = draws.normal(size=(3 + seed % 2, N_FEATURES))
    rows = centers[draws.integers(len(centers), size=36)] * 4.0 + draws.normal(size=(36, N_FEATURES))
    if are_counts:
        rows = draws.poisson(np.abs(rows)).astype(np.float64) + np.eye(N_FEATURES)[draws.integers(N_FEATURES, size=36)]
    elif is_sparse:
        rows[np.abs(rows) < 1.0] = 0.0
        rows[:, 0] += 0.1
    rows.setflags(write=False)
    return sp.csr_matrix(rows) if is_sparse else rows


def told(value: Any) -> Any:
    """A value that can be compared, to the bit."""
    if isinstance(value, np.ndarray):
        return value.shape, value.dtype.str, repr(value.tolist()) if value.dtype == object else value.tobytes()
    if isinstance(value, tuple | list):
        return tuple(told(part) for part in value)
    if isinstance(value, dict):
        return tuple((key, told(part)) for key, part in value.items())
    if is_dataclass(value):
        return told(vars(value))
    return repr(value)


def answer(read: Read, model: Any, X: Any) -> Any:
    """What a reading call says: an answer, or a sentence."""
    try:
        return told(read(model, X))
    except (ArmillaryError, ValueError, AttributeError) as error:  # the last two: not fitted, in scikit-learn's words
        return type(error).__name__, str(error)


@contextmanager
def short_turns() -> Iterator[None]:
    """Let threads take turns often."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of runs that use up their steps
            yield
    finally:
        sys.setswitchinterval(before)


def in_threads(*tasks: Callable[[], object]) -> None:
    """Run tasks side by side, begun together; the first error of any is raised here."""
    errors: list[BaseException] = []
    start = threading.Barrier(len(tasks))

    def run(task: Callable[[], object]) -> None:
        start.wait()
        try:
            task()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(task,)) for task in tasks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


Step = tuple[str, str]  # a learning call of a case, or "fit", and the data set it gets


def take(case: Case, model: Any, step: Step, *, is_sparse: bool) -> None:
    """One learning call."""
    call, name = step
    X = rows_of(name, are_counts=case.are_counts, is_sparse=is_sparse)
    if call == "fit":
        model.fit(X)
    else:
        case.steps[call](model, X)


@cache
def probes_of(*, are_counts: bool, is_sparse: bool) -> list[Any]:
    """Rows to ask about: of each data set some, in an order of their own."""
    return [
        rows_of(name, are_counts=are_counts, is_sparse=is_sparse)[
            np.random.default_rng(n_rows).permutation(36)[:n_rows]
        ]
        for name, n_rows in (("A", 17), ("B", 30), ("C", 2))
    ]


@cache
def state_after(name: str, is_sparse: bool, steps: tuple[Step, ...]) -> tuple[Any, dict[tuple[str, int], Any]]:
    """The model that one thread alone makes by these steps, and what it says to every reading call."""
    case = CASES[name]
    if steps:
        model = copy.deepcopy(state_after(name, is_sparse, since_fit(steps[:-1]))[0])
        take(case, model, steps[-1], is_sparse=is_sparse)
    else:
        model = case.make()
    probes = probes_of(are_counts=case.are_counts, is_sparse=is_sparse)
    answers = {
        (call, place): answer(read, model, X) for call, read in case.reads.items() for place, X in enumerate(probes)
    }
    return model, answers


def since_fit(steps: tuple[Step, ...]) -> tuple[Step, ...]:
    """The steps that the state depends on."""
    fits = [place for place, (call, _) in enumerate(steps) if call == "fit"]
    return steps[fits[-1] :] if fits else steps


class Plan:
    """The states a model goes through when one learner takes steps, and the answers of each."""

    def __init__(self, name: str, steps: list[Step], *, is_sparse: bool) -> None:
        self.case, self.steps, self.is_sparse = CASES[name], steps, is_sparse
        known = [state_after(name, is_sparse, since_fit(tuple(steps[:n_taken]))) for n_taken in range(len(steps) + 1)]
        self.answers = [answers for _, answers in known]
        self.end = told(final(known[-1][0]))
        self.n_begun = self.n_done = 0

    def follow(self, model: Any) -> None:
        """Take the steps; one that is refused because somebody else has the turn is tried again."""
        from armillary.exceptions import BusyModelError

        for step in self.steps:
            self.n_begun += 1
            while True:
                try:
                    take(self.case, model, step, is_sparse=self.is_sparse)
                except BusyModelError:
                    time.sleep(0.0)
                else:
                    break
            self.n_done += 1

    def check(self, model: Any, call: str, place: int) -> None:
        """One reading call: its answer is that of a state there was while it lasted."""
        first = self.n_done
        probes = probes_of(are_counts=self.case.are_counts, is_sparse=self.is_sparse)
        said = answer(self.case.reads[call], model, probes[place])
        possible = [answers[call, place] for answers in self.answers[first : self.n_begun + 1]]
        assert said in possible, f"{call} answers as no state between steps {first} and {self.n_begun} does"


def final(model: Any) -> dict[str, Any]:
    """The fitted attributes."""
    state = {name: value for name, value in pickle.loads(pickle.dumps(model)).__dict__.items() if name.endswith("_")}
    return dict(sorted(state.items()))


@dataclass
class _Setting:
    name: str
    is_sparse: bool
    random: np.random.Generator

    @property
    def case(self) -> Case:
        return CASES[self.name]

    def step(self) -> Step:
        calls = [*self.case.steps] * 3 + ["fit"]
        return calls[self.random.integers(len(calls))], "ABC"[self.random.integers(3)]

    def calls(self, n_calls: int) -> list[tuple[str, int]]:
        names = [*self.case.reads]
        return [(names[self.random.integers(len(names))], int(self.random.integers(3))) for _ in range(n_calls)]

    def reader(self, plan: Plan, model: Any, n_reads: int) -> Callable[[], None]:
        calls = self.calls(n_reads)

        def read() -> None:
            for call, place in calls:
                plan.check(model, call, place)

        return read


def _reading(setting: _Setting) -> str:
    """Many threads read."""
    plan = Plan(setting.name, [("fit", "ABC"[setting.random.integers(3)])], is_sparse=setting.is_sparse)
    model = setting.case.make()
    plan.follow(model)
    if setting.random.random() < 0.5:
        model = pickle.loads(pickle.dumps(model))  # what it makes on first use is made by one of them
    in_threads(*(setting.reader(plan, model, 10) for _ in range(5)))
    return "read"


def _learning(setting: _Setting) -> str:
    """One learner follows a plan; others read, or are refused."""
    steps = [("fit", "A"), *(setting.step() for _ in range(int(setting.random.integers(1, 6))))]
    plan = Plan(setting.name, steps, is_sparse=setting.is_sparse)
    model = setting.case.make()
    n_refused = [0]

    def challenge() -> None:
        for _ in range(6):
            n_refused[0] += refused(lambda: model.fit(np.zeros((2, 2, 2))))

    in_threads(lambda: plan.follow(model), challenge, *(setting.reader(plan, model, 10) for _ in range(3)))
    assert told(final(model)) == plan.end, "the model is not that of one learner alone"
    return "learned, one refused" if n_refused[0] else "learned"


def refused(learn: Callable[[], object]) -> bool:
    """Whether a learning call was refused because of another, and not because of its input."""
    from armillary.exceptions import BusyModelError

    try:
        learn()
    except BusyModelError:
        return True
    except InputError:
        return False
    raise AssertionError("bad input was learned")


def _fitting(setting: _Setting) -> str:
    """Several threads fit, each one of a few data sets; others read."""
    from armillary.exceptions import BusyModelError

    case, is_sparse = setting.case, setting.is_sparse
    known = {name: state_after(setting.name, is_sparse, (("fit", name),)) for name in "ABC"}
    possible = [state_after(setting.name, is_sparse, ())[1], *(answers for _, answers in known.values())]
    probes = probes_of(are_counts=case.are_counts, is_sparse=is_sparse)
    model = case.make()
    outcomes: list[str] = []

    def fit(order: list[int]) -> None:
        for name in ("ABC"[number] for number in order):
            try:
                said = told(model.fit_predict(rows_of(name, are_counts=case.are_counts, is_sparse=is_sparse)))
            except BusyModelError:
                outcomes.append("refused")
            else:
                assert said == told(known[name][0].labels_), "fit_predict answers for another fit"

    def read(calls: list[tuple[str, int]]) -> None:
        for call, place in calls:
            said = answer(case.reads[call], model, probes[place])
            assert said in [answers[call, place] for answers in possible], f"{call} answers as no fit does"

    orders = [setting.random.integers(3, size=4).tolist() for _ in range(3)]
    in_threads(*(partial(fit, order) for order in orders), *(partial(read, setting.calls(10)) for _ in range(2)))
    assert told(final(model)) in [told(final(one)) for one, _ in known.values()], "the model is not that of one fit"
    return "fitted, some refused" if outcomes else "fitted"


# Models whose fits take milliseconds come five times as often, and Links, which learns in place, more often still.
_QUICK = ("SphericalKMeans", "DPvMFMeans", "DDPvMFMeans", "SoftKMeans", "MultinomialMixture")
_NAMES = [*CASES, *_QUICK * 4, *("Links",) * 11]


def trial(random: np.random.Generator) -> str:
    """One model, one mix of calls."""
    name = _NAMES[random.integers(len(_NAMES))]
    setting = _Setting(name, bool(CASES[name].takes_sparse and random.random() < 0.4), random)
    kind = (_reading, _learning, _learning, _fitting)[random.integers(4)]
    with short_turns():
        return kind(setting)


if __name__ == "__main__":
    main("threads", trial)
