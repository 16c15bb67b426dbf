"""From options to a fitted model: which class, which parameters, on which rows, and the reasons for people."""

from __future__ import annotations

import inspect
import json
import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

import armillary
from armillary.cli.model_names import AUTO, MODELS, ModelName, entry
from armillary.cli.present import Presence, present_rows, spread_labels, those_here
from armillary.cli.screen import Screen
from armillary.exceptions import ParameterError, RowError
from armillary.files.vectors import Vectors
from armillary.selection.counting import counted, n_clusters_of, of_the_model
from armillary.sources.stored import StoredRows

# rows that get their clusters at a time, so that a bar can follow
_PREDICT_ROWS = 1 << 17
# k-means from one start is often a poor local optimum; several cost little beside reading the file
_STARTS = 5
_OF_THE_COMMAND = frozenset({"verbose", "callbacks"})


@dataclass(frozen=True)
class Request:
    """What the options say about a model."""

    model: str = AUTO
    n_clusters: int | None = None
    max_angle: float | None = None  # degrees
    settings: dict[str, Any] = field(default_factory=dict)
    seed: int = 0
    threads: int | None = None
    sample: int | None = None
    missing: str = "flag"  # what becomes of rows without a direction: label -1, or an error ("raise")
    device: str | None = None
    auto: dict[str, Any] = field(default_factory=dict)  # parameters of AutoClusterer that are not its defaults


@dataclass(frozen=True, eq=False)
class Fit:
    """A model with the labels of all rows, and why it is this one."""

    name: str  # short name of the model
    model: Any
    labels: npt.NDArray[np.integer[Any]]  # (n,)
    reason: str
    choice: Any = None  # what the settings were chosen from: a `ModelChoice`, an `AngleTable` or an `AngleSearch`
    sampled: npt.NDArray[np.int64] | None = None  # the rows that were fitted, where not all were
    is_here: Presence = None  # which rows have a direction, where not all have; the others have label -1
    auto: Any = None  # the `AutoClusterer` that knows levels and membership of the rows that were fitted

    @property
    def n_clusters(self) -> int:
        """Clusters that rows are in."""
        return n_clusters_of(self.labels)


def parsed_settings(pairs: list[str] | None) -> dict[str, Any]:
    """The values of `--set name=value`: JSON where it reads as JSON, none, inf, else a word."""
    settings = {}
    for pair in pairs or []:
        name, equals, text = pair.partition("=")
        if not equals or not name.isidentifier():
            raise ParameterError(f"--set must be NAME=VALUE, e.g. --set n_init=10; got '{pair}'.")
        settings[name] = _value(text)
    return settings


def auto_settings(
    level: str, merge: list[str] | None, outliers: str | None, tfidf: str, min_cluster_size: int | None
) -> dict[str, Any]:
    """What the options of the model that is found by itself say, without its defaults."""
    given: dict[str, Any] = {"n_clusters": int(level)} if level.isdigit() else {"level": level}
    given |= {"tfidf": tfidf, "min_cluster_size": min_cluster_size, "outliers": _value(outliers or "none")}
    given["merge"] = [_merged(group) for group in merge] if merge else None
    defaults = {"level": "chosen", "tfidf": "auto"}
    return {name: value for name, value in given.items() if value != defaults.get(name)}


def _merged(group: str) -> list[int]:
    words = group.split(",")
    if not all(word.strip().isdigit() for word in words):
        raise ParameterError(f"--merge must be cluster numbers with commas, e.g. --merge 3,7; got '{group}'.")
    return [int(word) for word in words]


def _value(text: str) -> Any:
    words: dict[str, Any] = {"none": None, "true": True, "false": False, "inf": math.inf}
    if text.lower() in words:
        return words[text.lower()]
    try:
        return json.loads(text)
    except ValueError:
        return text


def fit_request(request: Request, vectors: Vectors, screen: Screen, times: npt.NDArray[Any] | None = None) -> Fit:
    """Fit what is asked for, say it aloud, and label every row."""
    is_here = present_rows(vectors.rows, request.missing, screen, are_words=vectors.idf is not None)
    rows = those_here(vectors.rows, is_here)
    times = times if times is None or is_here is None else times[is_here]
    sampled = sampled_rows(request, rows.shape[0])
    if sampled is not None and times is not None:
        raise ParameterError("--sample cannot be used with --times: every slice of time needs its rows. Leave it out.")
    fitted_rows = rows if sampled is None else rows[sampled]
    with screen.timed("fitting"):
        name, model, reasons, choice, auto = _fitted(request, fitted_rows, screen, times)
    labels = np.asarray(model.labels_)
    if sampled is not None:
        with screen.timed("predicting"):
            labels = predicted(model, rows, screen)
        reasons.append(f"Fitted on {len(sampled):,} rows drawn at random.")
    n_clusters = n_clusters_of(labels)
    if not is_model_choice(choice):  # which says it itself
        reasons.insert(0, f"{counted(n_clusters, 'cluster')} by {described(model)}.")
    reason = " ".join(word for word in (*reasons, of_the_model(model, n_clusters)) if word)
    screen.note(reason)
    return Fit(name, model, spread_labels(labels, is_here), reason, choice, sampled, is_here, auto)


def is_model_choice(choice: Any) -> bool:
    """Whether the model is what `choose_model` took by itself."""
    return type(choice).__name__ == "ModelChoice"


def sampled_rows(request: Request, n_rows: int) -> npt.NDArray[np.int64] | None:
    """The numbers of the rows to fit, increasing; None for all."""
    if request.sample is None or request.sample >= n_rows:
        return None
    draws = np.random.default_rng(request.seed)
    return np.sort(draws.choice(n_rows, request.sample, replace=False))


def predicted(
    model: Any,
    rows: Any,
    screen: Screen,
    times: npt.NDArray[Any] | None = None,
    is_here: Presence = None,
    **options: Any,
) -> npt.NDArray[np.integer[Any]]:
    """The clusters of many rows, some at a time, with a bar; `times` of the rows for a model that drifts.

    Rows that are not here (`present_rows`) get -1.
    """
    n_rows = rows.shape[0]
    if is_here is not None and not is_here.any():
        return np.full(n_rows, -1, dtype=np.int32)
    if is_here is not None:
        when = times if times is None else times[is_here]
        return spread_labels(predicted(model, those_here(rows, is_here), screen, when, **options), is_here)
    parts = []
    with screen.progress("giving rows their clusters", n_rows, "rows") as advance:
        for start in range(0, n_rows, _PREDICT_ROWS):
            block = rows[start : start + _PREDICT_ROWS]
            if times is not None:
                options["times"] = times[start : start + _PREDICT_ROWS]
            parts.append(_predicted_block(model, block, start, options))
            advance(block.shape[0])
    return np.concatenate(parts)


def _predicted_block(model: Any, block: Any, start: int, options: dict[str, Any]) -> npt.NDArray[np.integer[Any]]:
    try:
        return np.asarray(model.predict(block, **options))
    except RowError as error:
        raise error.moved(start) from error  # the gate counts rows from the beginning of the block


# ------------------------------------------------------------------------------------------------ which model


def _fitted(
    request: Request, rows: Any, screen: Screen, times: npt.NDArray[Any] | None
) -> tuple[str, Any, list[str], Any, Any]:
    """Short name, fitted model, reasons, the choice behind it, and the `AutoClusterer` that made it."""
    if request.model.strip().lower() == AUTO:
        if request.n_clusters is None and request.max_angle is None:
            return _chosen(request, rows, screen)
        name = "skmeans" if request.n_clusters is not None else "dp"
        reasons = [f"Taken because {'the number of clusters' if name == 'skmeans' else 'an angle'} is given."]
    else:
        name, reasons = request.model, []
    short, known = entry(name)
    _refuse_auto(request, short)
    choice: Any = None
    parameters = parameters_of(short, known, request)
    if known.takes_angle and "max_angle" not in parameters:
        _refuse_search(rows, "the angle of a model", "Give --max-angle")
    if known.takes_angle and "max_angle" not in parameters:
        choice, reason = _angle(short, request, parameters, rows, screen)
        parameters["max_angle"] = choice.max_angle
        reasons.append(reason)
    if choice is not None and short == "dp":
        model = choice.model.set_params(**request.settings)  # the fit at the angle that was taken
    else:
        model = made(known, parameters, screen)
        _fit(model, rows, times, short)
    if request.device is not None:
        model.set_params(device=None)  # of this command, not of the model: its file goes anywhere
    return short, model, reasons, choice, None


def _fit(model: Any, rows: Any, times: npt.NDArray[Any] | None, name: str) -> None:
    if times is None:
        model.fit(rows)
    elif name == "temporal":
        model.fit(rows, times=times)
    else:
        raise ParameterError(f"--times belongs to the model temporal; got --model {name}. Leave it out.")


def _refuse_auto(request: Request, name: str) -> None:
    """Options of the model that is found by itself, beside a model that is named."""
    if request.auto:
        words = ", ".join("--" + one.replace("_", "-") for one in request.auto).replace("--n-clusters", "--level K")
        raise ParameterError(f"{words} must go with the model {AUTO}; got the model {name}. Leave one of them out.")


def _refuse_search(rows: Any, what: str, way_out: str) -> None:
    if isinstance(rows, StoredRows):
        raise ParameterError(
            f"To choose {what} rows must be in memory, since they are fitted over and over; these stay on disk. "
            f"{way_out}, or fit a sample of them: --sample 100000."
        )


def _chosen(request: Request, rows: Any, screen: Screen) -> tuple[str, Any, list[str], Any, Any]:
    if request.settings:
        raise ParameterError(
            f"--set belongs to a model that is named; got {', '.join(request.settings)} without --model. Name one of "
            f"{', '.join(MODELS)}."
        )
    if request.device not in (None, "cpu"):
        raise ParameterError(
            f"--device belongs to a model that is named; got {request.device} without --model. Name one of "
            f"{', '.join(MODELS)}."
        )
    _refuse_search(rows, "a model", "Name one with its number of clusters, e.g. --model skmeans -k 100")
    found = armillary.AutoClusterer(
        **request.auto, random_state=request.seed, n_threads=request.threads, verbose=int(screen.shows_progress)
    ).fit(rows)
    choice = found.choice_
    # its clusters alone where nothing more was asked for, so that any reader of k-means can use the file
    is_plain = not set(request.auto) - {"min_cluster_size"} and np.array_equal(found.labels_, choice.model.labels_)
    if is_plain and found.reason_ == choice.reason:
        return "skmeans", choice.model, [choice.reason], choice, found
    return AUTO, found.set_params(verbose=0), [found.reason_], choice, found


def parameters_of(short: str, known: ModelName, request: Request) -> dict[str, Any]:
    """The parameters that the options give to a model; what it needs and does not get is a sentence."""
    accepted = inspect.signature(getattr(armillary, known.class_name)).parameters
    names = [name for name in accepted if name not in _OF_THE_COMMAND]
    for name in request.settings:
        if name not in names:
            raise ParameterError(
                f"--set must name a parameter of {known.class_name}; got '{name}'. They are {', '.join(names)}."
            )
    parameters: dict[str, Any] = {}
    if "random_state" in accepted:
        parameters["random_state"] = request.seed
    if "n_threads" in accepted:
        parameters["n_threads"] = request.threads
    if request.device is not None:
        parameters["device"] = request.device
    if "n_init" in accepted and known.count is not None:
        parameters["n_init"] = _STARTS
    parameters.update(_counted(short, known, request))
    if request.max_angle is not None:
        if not known.takes_angle:
            raise ParameterError(
                f"--max-angle belongs to {_those(lambda one: one.takes_angle)}; got --model {short}. Leave it out."
            )
        if not 0.0 < request.max_angle <= 180.0:
            raise ParameterError(f"--max-angle must be above 0 and at most 180 degrees; got {request.max_angle:g}.")
        parameters["max_angle"] = math.radians(request.max_angle)
    return {**parameters, **request.settings}


def _counted(short: str, known: ModelName, request: Request) -> dict[str, Any]:
    """What --n-clusters sets."""
    if known.count is not None:
        if request.n_clusters is None and known.count not in request.settings:
            raise ParameterError(
                f"The model {short} needs the number of clusters: --n-clusters K. Leave --model out to have it found, "
                "or try armillary suggest."
            )
        return {} if request.n_clusters is None else {known.count: request.n_clusters}
    if request.n_clusters is not None and short != "dp":
        way_out = "Give --set height=2 --set branching=3" if short == "tree" else "Leave it out"
        raise ParameterError(
            f"--n-clusters belongs to {_those(lambda one: one.count is not None)} and dp; the model {short} takes no "
            f"number of clusters. {way_out}."
        )
    if request.n_clusters is not None and (request.max_angle is not None or "max_angle" in request.settings):
        raise ParameterError("The model dp takes --n-clusters or --max-angle; got both. Leave one out.")
    return {}


def _those(rule: Any) -> str:
    return ", ".join(name for name, known in MODELS.items() if rule(known))


def _angle(short: str, request: Request, parameters: dict[str, Any], rows: Any, screen: Screen) -> tuple[Any, str]:
    """An angle for models that need one and are given none: the choice, with the fit where it is one of dp, and why."""
    # what is fitted on the way has the settings of the model that is asked for; a warm start has nothing to start from
    settings = {name: value for name, value in parameters.items() if name != "warm_start"} if short == "dp" else {}
    settings = {"random_state": request.seed, "n_threads": request.threads, **settings}
    if request.n_clusters is not None:
        search = armillary.find_max_angle(rows, request.n_clusters, callbacks=screen.callbacks(), **settings)
        return search, search.reason
    table = armillary.select_max_angle(rows, extend=True, callbacks=screen.callbacks(), **settings)
    return table, table.reason if short == "dp" else f"{table.reason} It was found by fits of dp."


# ------------------------------------------------------------------------------------------------ in words


def made(known: ModelName, parameters: dict[str, Any], screen: Screen) -> Any:
    """A model that is not fitted yet, watched by a progress bar where a person looks on."""
    return getattr(armillary, known.class_name)(**parameters, callbacks=screen.callbacks())


class _Shape(str):
    """An array in words: its numbers would fill the screen."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def told_parameters(model: Any) -> dict[str, Any]:
    """The parameters of a model that are not its defaults, as numbers and words."""
    defaults = {name: one.default for name, one in inspect.signature(type(model)).parameters.items()}
    return {
        name: _Shape(f"<array {' x '.join(map(str, value.shape))}>") if isinstance(value, np.ndarray) else value
        for name, value in model.get_params(deep=False).items()
        if name not in _OF_THE_COMMAND and not _is_default(value, defaults[name])
    }


def _is_default(value: Any, default: Any) -> bool:
    return type(value) is type(default) and bool(np.all(value == default))


def described(model: Any) -> str:
    """E.g. "SphericalKMeans(n_clusters=12, n_init=5, random_state=0)"."""
    words = ", ".join(f"{name}={value!r}" for name, value in told_parameters(model).items())
    return f"{type(model).__name__}({words})"
