"""Model files and checkpoints that were changed: damaged by chance, or made by somebody who signed them again.

Half of the files are damaged: bytes changed, cut out, put in. They load as they were saved or are refused. The other
half have a right SHA-256 around values that were chosen to hurt: numbers beyond their range, circles in forests, arrays
that do not go together, bombs for the memory. They are refused with a sentence, or are models like any other: whatever
is asked of them, within a bounded memory, gives numbers of the right shape or a sentence, and they can be saved again.

    python -m tests.campaigns.archives --trials 100000 --processes 2
"""

from __future__ import annotations

import json
import os
import resource
import tempfile
import warnings
import zlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import safetensors.numpy
from sklearn.exceptions import NotFittedError
from tests.campaigns.campaign import main
from tests.campaigns.saved_models import MAKERS, Random, fitted

from armillary.cli.inspecting import model_facts
from armillary.exceptions import ArchiveError, ArmillaryError
from armillary.persistence import archive, load, save
from armillary.persistence.checkpoints import load_checkpoint, save_checkpoint
from armillary.persistence.schema import MODELS

# Models of each class, and what a file may take in memory beyond what the process has when it starts.
_EACH = 4
_MOST_BYTES = 3 << 30
_STREAMING = ("Links", "DDPvMFMeans", "DPvMFMeans", "SphericalKMeans")
_PLACE = {
    "rows": 40,
    "input_rows": 40,
    "input_end": 4000,
    "input_mark": f"4000:{64 * 'a'}",
    "is_finished": False,
    "output": "/nowhere/ids.jsonl",
    "output_bytes": 900,
    "has_ids": False,
    "batch": 256,
}


class Saved(NamedTuple):
    """A whole file, and what it is made of."""

    data: bytes
    header: dict[str, Any]
    tensors: dict[str, np.ndarray]
    beside: dict[str, str]  # the place in a stream, for checkpoints


@cache
def saved_files(each: int = _EACH) -> list[Saved]:
    """Models of every class, the first time that they are asked for; some are checkpoints."""
    files = []
    path = _path()
    for number, name in enumerate(MAKERS):
        for turn in range(each):
            model = fitted(np.random.default_rng([number, turn]), name)
            if name in _STREAMING and turn % 3 == 0:
                save_checkpoint(model, _PLACE, path)
            else:
                save(model, path)
            files.append(_read(path.read_bytes(), path))
    path.unlink()
    return files


def _read(data: bytes, path: Path) -> Saved:
    with safetensors.safe_open(path, framework="numpy") as file:
        beside = dict(file.metadata())
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    header = json.loads(beside.pop("armillary"))
    header.pop("sha256")
    return Saved(data, header, tensors, beside)


@cache
def _path_of(process: int) -> Path:
    folder = "/dev/shm" if os.access("/dev/shm", os.W_OK) else tempfile.gettempdir()
    return Path(folder) / f"armillary-campaign-{process}.safetensors"


def _path() -> Path:
    return _path_of(os.getpid())


@cache
def _bound_memory(process: int) -> None:
    """A file that takes more is a fault: MemoryError is no sentence."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + _MOST_BYTES, resource.RLIM_INFINITY))


def trial(random: Random) -> str:
    """One file."""
    files = saved_files()
    _bound_memory(os.getpid())
    chosen = files[random.integers(len(files))]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return _damage(random, chosen) if random.random() < 0.5 else _intend(random, chosen)
    finally:
        _path().unlink(missing_ok=True)


# -------------------------------------------------------------------------------------------------------- by chance


def _damage(random: Random, chosen: Saved) -> str:
    data = bytearray(chosen.data)
    header_end = 8 + int.from_bytes(data[:8], "little")
    for _ in range(random.integers(1, 4)):
        # half of all edits hit the header, which is the smaller part of most files
        place = int(random.integers(header_end if random.random() < 0.5 else max(1, len(data))))
        kind = random.integers(5)
        if kind == 0:
            data[place : place + 1] = (
                bytes([data[place] ^ (1 << int(random.integers(8)))]) if place < len(data) else b""
            )
        elif kind == 1:
            data[place : place + 4] = random.bytes(int(random.integers(1, 5)))
        elif kind == 2:
            data[place:place] = random.bytes(int(random.integers(1, 9)))
        elif kind == 3:
            del data[place : place + int(random.integers(1, 40))]
        else:
            del data[place:]
    path = _path()
    path.write_bytes(data)
    try:
        loaded, place_read = _loaded(path, chosen)
    except ArchiveError as error:
        return _told(error, "refused: damaged")
    again = archive._packed(*archive._described(loaded), chosen.beside or None)
    if again != chosen.data or (place_read is not None and place_read != _PLACE):
        raise AssertionError("a damaged file loads as something else")
    return "as saved"


def _loaded(path: Path, chosen: Saved) -> tuple[Any, dict[str, Any] | None]:
    return load_checkpoint(path) if chosen.beside else (load(path), None)


def _told(error: Exception, outcome: str) -> str:
    sentence = str(error)
    if not (20 < len(sentence) < 20_000 and sentence.rstrip().endswith((".", "...", "]"))):
        raise AssertionError(f"no sentence: {sentence[:300]!r}")
    return outcome


# -------------------------------------------------------------------------------------------------------- by intent

_FLOATS = (np.nan, np.inf, -np.inf, 0.0, -0.0, -1.0, 1.0, 2.0, 1e-320, 1e-9, 1e9, 1e150, 1e300, -1e300, 0.5, 1e-300)
_INTS = (0, 1, -1, -2, 2, 3, 7, 255, 10**4, 2**31 - 1, -(2**31), 2**62, 2**63 - 1, -(2**63))
_WORDS = (
    "",
    "auto",
    "vmf",
    "gaussian",
    "tangent_gaussian",
    "subclusters",
    "gibbs",
    "per_slice",
    "x" * 3000,
    "k-means++",
)


def _deep(n: int) -> Any:
    value: Any = 1
    for _ in range(n):
        value = [value]
    return value


def _any_json(random: Random) -> Any:
    choices: list[Callable[[], Any]] = [
        lambda: int(random.choice(_INTS[:10])),
        lambda: _INTS[random.integers(len(_INTS))],
        lambda: 10 ** int(random.integers(18, 400)),
        lambda: _float_json(float(random.choice(_FLOATS))),
        lambda: float(random.normal()),
        lambda: str(random.choice(_WORDS)),
        lambda: bool(random.integers(2)),
        lambda: None,
        list,
        dict,
        lambda: [1, "a", None],
        lambda: {"tuple": [1, {"tuple": []}]},
        lambda: {"dict": [["a", 1]]},
        lambda: {"float": "1e400"},
        lambda: {"float": "one"},
        lambda: {"tensor": "nowhere"},
        lambda: {"dates": ["nowhere", "D"]},
        lambda: _deep(int(random.choice([5, 200, 900]))),
    ]
    return choices[random.integers(len(choices))]()


def _float_json(value: float) -> Any:
    return value if np.isfinite(value) else {"float": repr(value)}


def _hurt_entries(random: Random, header: dict[str, Any], tensors: dict[str, np.ndarray]) -> None:
    name, array = _some_tensor(random, tensors)
    if array.size == 0:
        return
    flat = array.reshape(-1)
    places = random.integers(array.size, size=int(random.choice([1, 1, 2, array.size])))
    if array.dtype.kind == "f":
        with np.errstate(over="ignore"):
            values = np.array(_FLOATS).astype(array.dtype)
        flat[places] = values[random.integers(len(values))]
    elif array.dtype.kind in "iu":
        value = int(random.choice([*_INTS, array.size, len(array), int(flat[places[0]]) + int(random.integers(-2, 3))]))
        flat[places] = np.array(value & 0xFFFFFFFFFFFFFFFF, np.uint64).astype(array.dtype)
    else:
        flat[places] = ~flat[places]
    tensors[name] = array


def _bend(random: Random, header: dict[str, Any], tensors: dict[str, np.ndarray]) -> None:
    """The whole array: in another order, on another scale, or noise."""
    name, array = _some_tensor(random, tensors)
    turns: list[Callable[[], np.ndarray]] = [
        lambda: random.permuted(array, axis=0) if array.ndim and len(array) else array,
        lambda: np.sort(array, axis=-1) if array.size else array,
        lambda: np.ascontiguousarray(array[::-1]),
        lambda: np.zeros_like(array),
    ]
    if array.dtype.kind == "f":
        turns += [
            lambda: array * random.choice([-1.0, 0.5, 1.0 + 1e-7, 1.01, 1e10, 1e-10, 1e200]),
            lambda: array + random.choice([1e-12, 1e-7, 1e-3, 1.0]) * random.standard_normal(array.shape),
            lambda: random.standard_normal(array.shape).astype(array.dtype),
        ]
    if array.dtype.kind in "iu" and array.size:
        turns += [lambda: random.integers(0, max(1, len(array)), array.shape).astype(array.dtype)]
    with np.errstate(over="ignore", invalid="ignore"):
        tensors[name] = np.ascontiguousarray(turns[random.integers(len(turns))]())


def _resize(random: Random, header: dict[str, Any], tensors: dict[str, np.ndarray]) -> None:
    """One array, or all that have an axis of this length, with the numbers that tell it."""
    name, array = _some_tensor(random, tensors)
    if not array.ndim:
        return
    old = array.shape[random.integers(array.ndim)]
    new = max(0, old + int(random.choice([-old, -1, 1, 2])))
    names = [name] if random.random() < 0.4 else list(tensors)
    for one in names:
        for axis in range(tensors[one].ndim):
            if tensors[one].shape[axis] == old:
                tensors[one] = _with_length(tensors[one], axis, new)
    if len(names) > 1:
        for field, value in header["fields"].items():
            if type(value) is int and value == old and random.random() < 0.9:
                header["fields"][field] = new


def _with_length(array: np.ndarray, axis: int, length: int) -> np.ndarray:
    return (
        np.ascontiguousarray(np.take(array, np.arange(length) % max(1, array.shape[axis]), axis=axis))
        if (array.shape[axis])
        else np.zeros([length if one == axis else size for one, size in enumerate(array.shape)], array.dtype)
    )


def _retype(random: Random, header: dict[str, Any], tensors: dict[str, np.ndarray]) -> None:
    name, array = _some_tensor(random, tensors)
    with np.errstate(over="ignore", invalid="ignore"):
        if random.random() < 0.5:
            tensors[name] = array.astype(random.choice(["int32", "int64", "float32", "float64", "uint8", "bool"]))
        else:
            tensors[name] = np.ascontiguousarray(array.reshape(-1) if random.random() < 0.5 else array[None])


def _exchange(random: Random, header: dict[str, Any], tensors: dict[str, np.ndarray]) -> None:
    name, array = _some_tensor(random, tensors)
    alike = [other for other in tensors if tensors[other].shape == array.shape]
    other = alike[random.integers(len(alike))]
    tensors[name], tensors[other] = tensors[other].astype(array.dtype), array.astype(tensors[other].dtype)


def _rename(random: Random, header: dict[str, Any], tensors: dict[str, np.ndarray]) -> None:
    """Entries gone, entries more, another class, another unit of dates."""
    part = header[str(random.choice(["params", "fields", "state"]))]
    kind = random.integers(5)
    if kind == 0 and part:
        part.pop(list(part)[random.integers(len(part))])
    elif kind == 1:
        part[str(random.choice(["x_", "init", "n_iter_", "__class__", "callbacks", "labels_"]))] = _any_json(random)
    elif kind == 2:
        header["class"] = str(random.choice([*MODELS, "object", ""]))
    elif kind == 3:
        tensors["more_"] = np.zeros(3)
    else:
        for value in header["fields"].values():
            if isinstance(value, dict) and "dates" in value:
                value["dates"][1] = str(random.choice(["ns", "Y", "D", "3M", "generic", "x", "0D"]))


def _say(random: Random, header: dict[str, Any], tensors: dict[str, np.ndarray]) -> None:
    """A number or word of the header."""
    part = header[str(random.choice(["params", "fields", "fields", "state"]))]
    plain = [name for name, value in part.items() if not (isinstance(value, dict) and "tensor" in value)]
    if plain:
        name = plain[random.integers(len(plain))]
        value = part[name]
        near = type(value) in (int, float) and random.random() < 0.4
        part[name] = value + type(value)(random.choice([-1, 1, 2, 10])) if near else _any_json(random)


def _knot(random: Random, header: dict[str, Any], tensors: dict[str, np.ndarray]) -> None:
    """Circles where there should be forests, and ids given twice."""
    names = [
        name
        for name in tensors
        if name in ("subcluster_parents_", "parents_", "state/joins", "history_", "state/apart")
    ]
    if not names:
        _hurt_entries(random, header, tensors)
        return
    name = names[random.integers(len(names))]
    array = tensors[name]
    if name == "state/joins":
        tensors[name] = np.array([[0, 1], [1, 0]], np.int64)
    elif name == "history_" and array.shape[1:] == (4,):
        tensors[name] = np.array([[1, 3, 0, 1], [1, 3, 1, 0]], np.int64)
    elif array.ndim == 1:
        tensors[name] = np.roll(np.arange(len(array), dtype=np.int64), 1)
    else:
        tensors[name] = array[:, ::-1].copy()


def _bomb(random: Random, header: dict[str, Any], tensors: dict[str, np.ndarray]) -> None:
    """Draws that unpack to far more than the rows have labels."""
    if "state/packed_draws" not in tensors:
        _say(random, header, tensors)
        return
    n_draws, n_rows = len(tensors["state/draw_ends"]), len(tensors["labels_"])
    size = int(random.choice([n_rows, 4 * n_rows, 10**4, 10**8]))
    width = int(random.choice([1, 2, 4, 0, 3]))
    fill = bytes([int(random.choice([0, 255, 1]))])
    one = bytes([width]) + _packed_fill(fill, size)
    first = bytes([width + 128]) + one[1:]
    draws = [first, *([one] * (n_draws - 1))]
    tensors["state/packed_draws"] = np.frombuffer(b"".join(draws), np.uint8).copy()
    tensors["state/draw_ends"] = np.cumsum([len(draw) for draw in draws], dtype=np.int64)


@cache
def _packed_fill(fill: bytes, size: int) -> bytes:
    return zlib.compress(fill * size, 9)


def _some_tensor(random: Random, tensors: dict[str, np.ndarray]) -> tuple[str, np.ndarray]:
    name = list(tensors)[random.integers(len(tensors))]
    return name, np.array(tensors[name])


_CHANGES = (_hurt_entries, _hurt_entries, _bend, _resize, _retype, _exchange, _rename, _say, _say, _knot, _bomb)


def _misplace(random: Random) -> dict[str, str]:
    """A checkpoint's place with a right digest and values of any kind."""
    place: dict[str, Any] = dict(_PLACE)
    for _ in range(random.integers(1, 3)):
        place[list(place)[random.integers(len(place))]] = _any_json(random)
    text = archive._text
    digest = archive.hashlib.sha256(text(place).encode()).hexdigest()
    return {"armillary.stream": text({"place": place, "sha256": digest})}


def _intend(random: Random, chosen: Saved) -> str:
    header, tensors, beside = json.loads(json.dumps(chosen.header)), dict(chosen.tensors), chosen.beside
    if beside and random.random() < 0.3:
        beside = _misplace(random)
    else:
        for _ in range(random.choice([1, 1, 1, 2, 3])):
            _CHANGES[random.integers(len(_CHANGES))](random, header, tensors)
    path = _path()
    try:
        path.write_bytes(archive._packed(header, {name: np.asarray(one) for name, one in tensors.items()}, beside))
    except (ValueError, RecursionError):
        return "not a file"
    try:
        model, place = _loaded(path, chosen)
    except ArchiveError as error:
        return _told(error, "refused: signed")
    if place is not None:
        _look_at_place(place)
    _use(random, model, chosen)
    return "a model"


def _look_at_place(place: dict[str, Any]) -> None:
    assert type(place["rows"]) is int, place
    assert place["rows"] >= 0, place
    assert isinstance(place.get("output", ""), str), place


# -------------------------------------------------------------------------------------------------- use of what loads


def _use(random: Random, model: Any, chosen: Saved) -> None:
    """It can be saved again, and whatever is asked of it gives an answer or a sentence; so does saving it then."""
    d = model.n_features_in_ if model.n_features_in_ < 100 else chosen.header["fields"]["n_features_in_"]
    X = random.standard_normal((4, d))
    if type(model).__name__ == "MultinomialMixture":
        X = np.floor(np.abs(3.0 * X))
    if hasattr(model, "feature_names_in_"):
        del model.feature_names_in_
    path = _path()
    save(model, path)
    asked = _questions(model, X, random)
    for number in random.permutation(len(asked))[:3]:
        name, ask, n_expected = asked[number]
        try:
            answer = ask()
        except (ArmillaryError, NotFittedError) as error:
            _told(error, "")
            continue
        _check_answer(name, answer, n_expected)
    try:
        save(model, path)
    except ArchiveError as error:  # one that stood at the end of a range may have been led beyond it
        _told(error, "")


def _check_answer(name: str, answer: Any, n_expected: int | None) -> None:
    if n_expected is not None:
        assert len(answer) == n_expected, f"{name}: {len(answer)} answers for {n_expected} rows"
    for part in answer if isinstance(answer, tuple) else (answer,):
        if isinstance(part, float | np.ndarray) and np.asarray(part).dtype.kind == "f":
            assert np.isfinite(part).all(), f"{name} is not finite"


def _questions(model: Any, X: np.ndarray, random: Random) -> list[tuple[str, Callable[[], Any], int | None]]:
    n = len(X)
    asked: list[tuple[str, Callable[[], Any], int | None]] = [
        ("predict", lambda: model.predict(X), n),
        ("score", lambda: model.score(X), None),
        ("inspect", lambda: (json.dumps(model_facts(model)), None)[1], None),
    ]
    for name in ("predict_proba", "score_samples", "transform", "score_next_samples"):
        if hasattr(model, name):
            asked.append((name, lambda name=name: getattr(model, name)(X), n))
    if hasattr(model, "sample"):
        asked.append(("sample", lambda: model.sample(5, random_state=0)[0], 5))
    max_iter = getattr(model, "max_iter", 1)
    if hasattr(model, "partial_fit") and max_iter <= 1000:
        asked.append(("partial_fit", lambda: model.partial_fit(X).labels_, n))
    for name in ("cluster_centers_", "sample_labels_", "tree_", "children_", "cluster_ids_"):
        if isinstance(getattr(type(model), name, None), property):
            asked.append((name, lambda name=name: getattr(model, name), None))
    for name in ("convergence", "principal_axes", "trajectories", "to_newick", "to_json", "labels_now", "events"):
        if hasattr(model, name):
            asked.append((name, lambda name=name: (getattr(model, name)(), None)[1], None))
    if hasattr(model, "learn_one"):
        asked += [
            ("learn_one", lambda: model.learn_one(X[0]), None),
            ("alternatives", lambda: model.alternatives(X[0]), None),
            ("current_ids", lambda: model.current_ids(np.arange(min(5, model.next_id_))), None),
        ]
    if hasattr(model, "record"):
        asked.append(("record", lambda: (model.record(), None)[1], None))
    if hasattr(model, "resume") and model.n_draws * model.thin * model.n_chains < 60 and len(model.labels_) < 100:
        rows = random.standard_normal((len(model.labels_), X.shape[1]))
        asked.append(("resume", lambda: model.set_params(n_burn_in=min(model.n_burn_in, 5)).resume(rows).labels_, None))
    return asked


if __name__ == "__main__":
    saved_files()  # before processes are forked, which then have them
    main("archives", trial)
