"""Two trees of sources beside each other, in turn: does anything users call get slower?

    python -m benchmarks.before_after --before ../before --after .

Each tree has a process of its own, which makes the rows of a piece of work once. Then the two take turns, A B, B A,
A B, ...; a pair gives one ratio of times, after over before. Told are the median of the ratios and an interval that
holds the true median with at least 98 % (order statistics of a sign test: of 7 pairs the least and the largest). A
piece of work fails if its interval lies above the limit, 1.03 unless stated.

Two processes of the same code can differ by 4 % for as long as they live: where their memory lies is decided once. So
one pair of processes cannot tell 3 %, however many times they take turns. With `--rounds 7` each of seven rounds has
two new processes; a round gives one ratio, the median of its pairs, and the interval is that of the rounds.
"""

from __future__ import annotations

import argparse
import json
import os
import pickle
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from math import comb
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks import measure

_OUTPUT = Path(__file__).parent / "results" / "before_after.json"
_CONFIDENCE = 0.98
_LEAST_SECONDS = 0.15  # of one measurement: shorter calls are repeated

Call = Callable[[], object]


# ------------------------------------------------------------------------------------------------------ the work


def _normals() -> Any:
    from armillary.datasets import make_vmf_mixture

    scene = {"concentration": (20.0, 200.0), "min_angle": 0.7, "noise": 0.05, "dtype": "float32"}
    return make_vmf_mixture(300_000, 3, 7, random_state=1, **scene)[0]


def _embeddings(n_rows: int, n_features: int, n_clusters: int = 50) -> Any:
    from armillary.datasets import make_vmf_mixture

    return make_vmf_mixture(n_rows, n_features, n_clusters, concentration=n_features, random_state=2, dtype="float32")[
        0
    ]


def _documents() -> Any:
    from armillary.datasets import make_sparse_topics

    return make_sparse_topics(8_000, 20_000, 20, random_state=3)[0]


def _gate(rows: Any) -> Call:
    try:
        from armillary.engines.select import checked_points as gate
    except ModuleNotFoundError:  # a tree from before there were engines
        try:
            from armillary.models._estimator import checked_points as gate
        except ImportError:
            from armillary.points import as_points as gate

    return lambda: gate(rows, "SphericalKMeans")


def _fit(name: str, rows: Any, **parameters: Any) -> Call:
    import armillary

    kind = getattr(armillary, name)
    if "n_draws" in parameters and "n_draws" not in kind._get_param_names():  # a tree from before the name
        parameters["n_samples"] = parameters.pop("n_draws")
    return lambda: kind(**parameters).fit(rows)


def _steps(workload: str, **parameters: Any) -> Call:
    """k-means from given starts: the same steps in both trees."""
    from benchmarks.workloads import load

    work = load(workload)
    settings = {"n_clusters": work.n_clusters, "init": work.starts, "n_init": 1, "tol": 0.0, **parameters}
    return _fit("SphericalKMeans", work.rows, **settings)


def _plain(workload: str) -> Callable[[], Call]:
    return lambda: _steps(workload, algorithm="lloyd", max_iter=5)


def _converged(workload: str) -> Callable[[], Call]:
    return lambda: _steps(workload, max_iter=300)


def _fitted(name: str, rows: Any, **parameters: Any) -> Any:
    import armillary

    return getattr(armillary, name)(**parameters).fit(rows)


def _predict_one(name: str, rows: Any, **parameters: Any) -> Call:
    model, row = _fitted(name, rows, **parameters), rows[:1]
    return lambda: model.predict(row)


def _frame() -> Call:
    import armillary

    frames = _normals().reshape(4, 75_000, 3)
    model = armillary.DDPvMFMeans(max_angle=1.0)
    for frame in frames:
        model.partial_fit(frame)
    return lambda: model.partial_fit(frames[0])


def _links(call: str) -> Call:
    import armillary

    rows = _embeddings(2_000, 256, 100)
    model = armillary.Links(0.7, 0.65, 0.85).partial_fit(rows)
    if call == "learn_one":
        return lambda: [model.learn_one(row) for row in rows[:50]]
    if call == "predict_one":
        return lambda: [model.predict_one(row) for row in rows[:50]]
    if call == "predict":
        return lambda: model.predict(rows)
    return lambda: armillary.Links(0.7, 0.65, 0.85).partial_fit(rows)


def _file(call: str) -> Call:
    import armillary

    rows = _embeddings(20_000, 128)
    model = _fitted("SphericalKMeans", rows, n_clusters=50, random_state=0, max_iter=3, tol=1.0)
    path = Path(tempfile.mkdtemp()) / "model.safetensors"
    armillary.save(model, path)
    return (lambda: armillary.load(path)) if call == "load" else (lambda: armillary.save(model, path))


def _read(ending: str) -> Call:
    from armillary.files import Vectors, read_vectors, write_vectors

    path = Path(tempfile.mkdtemp()) / f"rows.{ending}"
    write_vectors(path, Vectors(_embeddings(20_000, 64)))
    return lambda: read_vectors(path)


def _depth() -> Call:
    from armillary.vision import DirectionSegmenter, make_room_walk

    walk = make_room_walk(3, width=320, height=240, random_state=0)
    segmenter = DirectionSegmenter(camera=walk.camera)
    frames = [frame.depth for frame in walk]
    return lambda: [segmenter.step(frame) for frame in frames]


def _sweeps(component: str, n_features: int = 3) -> Call:
    rows = _normals()[:20_000] if n_features == 3 else _embeddings(10_000, n_features, 10)
    settings = {"component": component, "n_burn_in": 4, "n_draws": 4, "random_state": 0}
    return _fit("DirichletProcessMixture", rows, **settings)


WORK: dict[str, Callable[[], Call]] = {
    "gate 300k x 3": lambda: _gate(_normals()),
    "gate 50k x 384": lambda: _gate(_embeddings(50_000, 384)),
    "gate CSR": lambda: _gate(_documents()),
    "gate 300k x 3, not unit": lambda: _gate(2.0 * _normals()),
    "k-means fit 300k x 3": lambda: _fit(
        "SphericalKMeans", _normals(), n_clusters=7, n_init=1, max_iter=20, random_state=0
    ),
    "k-means fit 20k x 384": lambda: _fit(
        "SphericalKMeans", _embeddings(20_000, 384), n_clusters=50, n_init=1, max_iter=10, tol=0.0, random_state=0
    ),
    "k-means fit CSR": lambda: _fit("SphericalKMeans", _documents(), n_clusters=20, n_init=1, random_state=0),
    **{f"5 plain steps {name}": _plain(name) for name in ("W1", "W2", "W2b", "W2c", "W3")},
    **{f"to convergence {name}": _converged(name) for name in ("W2", "W2c")},
    "k-means predict of one row": lambda: _predict_one(
        "SphericalKMeans", _embeddings(5_000, 128), n_clusters=50, random_state=0
    ),
    "DP-vMF-means fit 300k x 3": lambda: _fit("DPvMFMeans", _normals(), max_angle=1.0),
    "DDP-vMF-means frame 75k x 3": _frame,
    "EM fit 300k x 3": lambda: _fit(
        "VonMisesFisherMixture", _normals(), n_components=7, max_iter=10, tol=0.0, n_init=1, random_state=0
    ),
    "EM predict of one row": lambda: _predict_one(
        "VonMisesFisherMixture", _embeddings(5_000, 128), n_components=10, random_state=0
    ),
    "Bayesian fit 20k x 64": lambda: _fit(
        "BayesianVonMisesFisherMixture", _embeddings(20_000, 64), n_components=20, max_iter=10, tol=0.0, random_state=0
    ),
    "hierarchical fit 10k x 32": lambda: _fit(
        "HierarchicalVonMisesFisherMixture", _embeddings(10_000, 32), max_iter=10, tol=0.0, random_state=0
    ),
    "DP mixture, 8 sweeps of 20k x 3": lambda: _sweeps("tangent_gaussian"),
    "DP mixture vMF, 8 sweeps of 20k x 3": lambda: _sweeps("vmf"),
    "DP mixture, 8 sweeps of 10k x 20": lambda: _sweeps("tangent_gaussian", 20),
    "DP mixture, 8 sweeps of 10k x 50": lambda: _sweeps("tangent_gaussian", 50),
    "DP mixture Gaussian, 8 sweeps of 10k x 32": lambda: _sweeps("gaussian", 32),
    "Links learn_one": lambda: _links("learn_one"),
    "Links predict_one": lambda: _links("predict_one"),
    "Links predict 2k x 256": lambda: _links("predict"),
    "Links partial_fit 2k x 256": lambda: _links("partial_fit"),
    "save 20k labels, 50 x 128": lambda: _file("save"),
    "load 20k labels, 50 x 128": lambda: _file("load"),
    "read npy 20k x 64": lambda: _read("npy"),
    "read csv 20k x 64": lambda: _read("csv"),
    "read parquet 20k x 64": lambda: _read("parquet"),
    "3 depth frames 320 x 240": _depth,
}


# ------------------------------------------------------------------------------------------------------ measuring


def _serve() -> None:
    """In a tree's own process: names of work come in, seconds of one call go out."""
    import warnings

    warnings.simplefilter("ignore")
    calls: dict[str, tuple[Call, int]] = {}
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever prints does not print among the answers
    for line in sys.stdin:
        name = line.strip()
        if name not in calls:
            call = WORK[name]()
            call()  # compiles
            once = measure.seconds(call)
            calls = {name: (call, max(1, round(_LEAST_SECONDS / max(once, 1e-7))))}
        call, number = calls[name]
        begin = time.perf_counter()
        for _ in range(number):
            call()
        pickle.dump((time.perf_counter() - begin) / number, answers)
        answers.flush()


class _Tree:
    """One tree of sources and its process."""

    def __init__(self, tree: Path) -> None:
        environ = os.environ | {"PYTHONPATH": os.pathsep.join([str(tree / "src"), str(Path.cwd())])}
        command = [sys.executable, "-m", "benchmarks.before_after", "--serve"]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environ)

    def seconds(self, name: str) -> float:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{name}\n".encode())
        self._process.stdin.flush()
        return float(pickle.load(self._process.stdout))

    def close(self) -> None:
        self._process.kill()
        self._process.wait()


def interval(ratios: list[float]) -> tuple[float, float]:
    """Order statistics that hold the true median between them with at least 98 %, or the two ends."""
    found, n = sorted(ratios), len(ratios)
    outside, place = 0.0, 0
    while place < n // 2:
        outside += 2.0 * comb(n, place) / 2.0**n
        if outside > 1.0 - _CONFIDENCE:
            break
        place += 1
    place = max(0, place - 1)
    return found[place], found[n - 1 - place]


def paired(name: str, before: _Tree, after: _Tree, n_pairs: int) -> list[tuple[float, float]]:
    """Seconds of one piece of work, (before, after) for each pair."""
    for tree in (before, after):
        tree.seconds(name)
    times = []
    for pair in range(n_pairs):
        trees = (before, after) if pair % 2 == 0 else (after, before)
        first, second = (tree.seconds(name) for tree in trees)
        times.append((first, second) if pair % 2 == 0 else (second, first))
    return times


def compared(rounds: list[list[tuple[float, float]]]) -> dict[str, Any]:
    """The ratios of one piece of work: of the pairs of one round, or of the medians of several."""
    ratios = [[new / old for old, new in times] for times in rounds]
    told = ratios[0] if len(rounds) == 1 else [median(some) for some in ratios]
    low, high = interval(told)
    return {
        "before_ms": 1e3 * median(old for times in rounds for old, _ in times),
        "after_ms": 1e3 * median(new for times in rounds for _, new in times),
        "ratio": median(told),
        "low": low,
        "high": high,
        "pairs": len(rounds[0]),
        "rounds": len(rounds),
    }


def main() -> None:
    """Compare two trees, print a table, store it, and fail where something got slower."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--before", type=Path)
    parser.add_argument("--after", type=Path, default=Path())
    parser.add_argument("--pairs", type=int, default=9)
    parser.add_argument("--rounds", type=int, default=1, help="pairs of new processes")
    parser.add_argument("--limit", type=float, default=1.03)
    parser.add_argument("--only", nargs="*", help="words of the names of the work to do")
    parser.add_argument("--output", type=Path, default=_OUTPUT)
    options = parser.parse_args()
    if options.serve:
        _serve()
        return
    if options.before is None:
        parser.error("say --before, a folder with the sources to compare with")
    names = [name for name in WORK if not options.only or any(word in name for word in options.only)]
    lines: dict[str, Any] = {}
    rounds: dict[str, list[list[tuple[float, float]]]] = {name: [] for name in names}
    for number in range(options.rounds):
        before, after = (_Tree(tree.resolve()) for tree in (options.before, options.after))
        try:
            for name in names:
                rounds[name].append(paired(name, before, after, options.pairs))
                line = lines[name] = compared(rounds[name])
                mark = "  SLOWER" if line["low"] > options.limit else ""
                if number == options.rounds - 1:
                    print(
                        f"{name:40s} {line['before_ms']:10.3f} {line['after_ms']:10.3f} ms   {line['ratio']:.3f} "
                        f"[{line['low']:.3f}, {line['high']:.3f}]{mark}",
                        flush=True,
                    )
                record = {"limit": options.limit, "load": os.getloadavg()[0], "work": lines}
                options.output.write_text(json.dumps({"machine": measure.machine(), **record}, indent=1) + "\n")
        finally:
            before.close()
            after.close()
    slower = [name for name, line in lines.items() if line["low"] > options.limit]
    raise SystemExit(1 if slower else 0)


if __name__ == "__main__":
    main()
