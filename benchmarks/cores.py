"""Passes at 1, 2, 4, 8, ... threads, up to the cores there are, beside scikit-learn, faiss and the bare product.

    python -m benchmarks.cores NAME [--threads 1 2 4] [--only step EM] [--seconds 420] [--before TREE] [--add]

NAME says which machine, and goes into the name of the file: benchmarks/results/cores-NAME.json, written after each
piece of work, so that a run that is cut short keeps what it has, and `--add` goes on with it. Nothing is needed beyond
what armillary needs; faiss takes part where it is installed.

The time of a step is (time of n steps - time of 1) / (n - 1), so that checks and set-up drop out. Everybody takes turns
at every number of threads, again and again until the time of the piece of work is spent. The least times count (of n
steps and of 1, each), and the median stands beside them. CPU time stands there too: where it grows with the threads,
they wait or get in each other's way; where it does not, a long wall-clock time is that of the machine. With `--before`,
the sources of another tree take their turns too, in a process of their own.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import pickle
import platform
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np

RESULTS = Path(__file__).parent / "results"
MOST_REPEATS = 7
# of a Dirichlet process mixture: until given labels have become a sample, and then those that are measured
WARM_UP, N_SWEEPS = 10, 5
_TOLD = ("NUMBA_CPU_FEATURES", "NPY_DISABLE_CPU_FEATURES", "OPENBLAS_CORETYPE", "FAISS_OPT_LEVEL")
# frames of a stream: until tracks have settled, and then those that are measured
FIRST_FRAMES, N_FRAMES = 3, 10


class Times(NamedTuple):
    """Seconds (wall clock, CPU) of many steps and of few, and by how many more."""

    many: np.ndarray
    few: np.ndarray
    n_steps: int


Run = Callable[[int], Times]  # of the number of threads


class Work(NamedTuple):
    """Who does it, each a function of the number of threads; slow peers at the least and the most threads only."""

    runs: dict[str, Run]
    at_ends: dict[str, Run]


def clock() -> np.ndarray:
    """Wall clock and CPU."""
    return np.array([time.perf_counter(), time.process_time()])


def of_steps(fit: Callable[[int, int], int], n_steps: int) -> Run:
    """The time of a step of `fit(n_steps, n_threads)`, which returns how many it made."""

    def run(n_threads: int) -> Times:
        start = clock()
        n_few = fit(1, n_threads)
        between = clock()
        n_many = fit(n_steps, n_threads)
        return Times(clock() - between, between - start, n_many - n_few)

    return run


def of_time(call: Callable[[int], Any]) -> Run:
    """What takes the seconds (wall clock, CPU) that `call(n_threads)` returns."""
    return lambda n_threads: Times(np.asarray(call(n_threads)), np.zeros(2), 1)


# ------------------------------------------------------------------------------------------------------ the work


def _scene(n_rows: int, n_clusters: int, min_angle: float) -> np.ndarray:
    from armillary.datasets import make_vmf_mixture

    settings: dict[str, Any] = {"concentration": (20.0, 200.0), "min_angle": min_angle, "noise": 0.05}
    return make_vmf_mixture(n_rows, 3, n_clusters, random_state=1, dtype=np.float32, **settings)[0]


def _embeddings(n_rows: int, n_features: int) -> np.ndarray:
    generator = np.random.default_rng(2)
    centers = generator.standard_normal((100, n_features), dtype=np.float32)
    centers /= np.linalg.norm(centers, axis=1, keepdims=True)
    rows = np.empty((n_rows, n_features), np.float32)
    for start in range(0, n_rows, 65_536):
        part = rows[start : start + 65_536]
        generator.standard_normal(out=part, dtype=np.float32)
        part *= np.float32(np.sqrt(2.0 / 3.0 / n_features))
        part += centers[generator.integers(100, size=len(part))]
        part /= np.linalg.norm(part, axis=1, keepdims=True)
    return rows


def _starts(rows: np.ndarray, n_clusters: int) -> np.ndarray:
    chosen = np.random.default_rng(1).choice(len(rows), n_clusters, replace=False)
    return rows[np.sort(chosen)].copy()


def lloyd(rows: np.ndarray, n_clusters: int, n_steps: int) -> Work:
    """A step of k-means: every row scored, as users call it, and by others."""
    from sklearn.cluster import KMeans
    from threadpoolctl import threadpool_limits

    from armillary import SphericalKMeans

    starts = _starts(rows, n_clusters)

    def ours(algorithm: str) -> Callable[[int, int], int]:
        def fit(n_steps: int, n_threads: int) -> int:
            settings: dict[str, Any] = {"init": starts, "n_init": 1, "tol": 0.0, "algorithm": algorithm}
            model = SphericalKMeans(n_clusters, max_iter=n_steps, n_threads=n_threads, **settings)
            return int(model.fit(rows).n_iter_)

        return fit

    def scikit_learn(n_steps: int, n_threads: int) -> int:
        with threadpool_limits(n_threads):
            model = KMeans(n_clusters, init=starts, n_init=1, max_iter=n_steps, tol=0.0, algorithm="lloyd")
            return int(model.fit(rows).n_iter_)

    def faiss(n_steps: int, n_threads: int) -> int:
        import faiss as library

        library.omp_set_num_threads(n_threads)
        most = {"max_points_per_centroid": len(rows), "min_points_per_centroid": 1}
        model = library.Kmeans(rows.shape[1], n_clusters, niter=n_steps, spherical=True, **most)
        model.train(rows, init_centroids=starts)
        return len(model.iteration_stats)  # it stops where nothing changes any more

    def product(n_threads: int) -> np.ndarray:
        with threadpool_limits(n_threads, "blas"):
            start = clock()
            np.matmul(rows, starts.T, out=table)
            return clock() - start

    runs = {
        "plain": of_steps(ours("lloyd"), n_steps),
        "as called": of_steps(ours("auto"), n_steps),
        "scikit-learn": of_steps(scikit_learn, n_steps),
    }
    if importlib.util.find_spec("faiss") is not None:
        runs["faiss"] = of_steps(faiss, n_steps)
    if rows.shape[1] > 16:
        table = np.empty((len(rows), n_clusters), np.float32)
        runs["product"] = of_time(product)
    return Work(runs, {})


def em(rows: np.ndarray, n_components: int) -> Work:
    """A step of expectation maximisation."""
    from sklearn.mixture import GaussianMixture
    from threadpoolctl import threadpool_limits

    from armillary import VonMisesFisherMixture

    starts = _starts(rows, n_components)

    def fit(n_steps: int, n_threads: int) -> int:
        model = VonMisesFisherMixture(n_components, init=starts, max_iter=n_steps, tol=0.0, n_threads=n_threads)
        return int(model.fit(rows).n_iter_)

    def scikit_learn(n_steps: int, n_threads: int) -> int:
        first: dict[str, Any] = {"means_init": starts, "precisions_init": np.full(n_components, 10.0)}
        first["weights_init"] = np.full(n_components, 1.0 / n_components)
        with threadpool_limits(n_threads):
            # without means of its own it would first run k-means
            settings: dict[str, Any] = {"init_params": "random_from_data", "random_state": 0, **first}
            model = GaussianMixture(n_components, covariance_type="spherical", max_iter=n_steps, tol=0.0, **settings)
            return int(model.fit(rows).n_iter_)

    return Work({"ours": of_steps(fit, 11)}, {"scikit-learn": of_steps(scikit_learn, 3)})


def ddp_frame() -> Work:
    """A frame of a stream of 300,000 x 3."""
    from sklearn.cluster import KMeans
    from threadpoolctl import threadpool_limits

    from armillary import DDPvMFMeans
    from benchmarks.workloads import load_stream

    frames, _ = load_stream(300_000, FIRST_FRAMES + N_FRAMES)

    def ours(n_threads: int) -> tuple[float, float]:
        model = DDPvMFMeans(max_angle=1.0, n_threads=n_threads)
        for frame in frames[:FIRST_FRAMES]:
            model.partial_fit(frame)
        walls = []
        before = clock()
        for frame in frames[FIRST_FRAMES:]:
            start = time.perf_counter()
            model.partial_fit(frame)
            walls.append(time.perf_counter() - start)
        return median(walls), float((clock() - before)[1]) / N_FRAMES

    def scikit_learn(n_threads: int) -> np.ndarray:
        starts = _starts(frames[0], 7)
        with threadpool_limits(n_threads):
            start = clock()
            for frame in frames[:3]:
                starts = KMeans(7, init=starts, n_init=1, algorithm="lloyd").fit(frame).cluster_centers_
            return (clock() - start) / 3

    return Work({"ours": of_time(ours)}, {"scikit-learn, warm start": of_time(scikit_learn)})


def dp_mixture(n_clusters: int, spread: float, min_angle: float, n_rows: int = 100_000) -> Work:
    """A sweep of the Dirichlet process mixture of tangent Gaussians, from the true labels."""
    from sklearn.mixture import BayesianGaussianMixture
    from threadpoolctl import threadpool_limits

    from armillary import DirichletProcessMixture
    from armillary.datasets import make_tangent_gaussian_mixture

    made: dict[str, Any] = {"spread": spread, "min_angle": min_angle, "random_state": 0, "dtype": np.float32}
    rows, labels, _ = make_tangent_gaussian_mixture(n_rows, 3, n_clusters, **made)

    class Enough(Exception):  # noqa: N818 (nothing went wrong)
        """Ends a fit that has been timed."""

    def ours(n_threads: int) -> Any:
        stamps = []

        def watch(event: Any) -> None:
            if event.kind == "step":
                stamps.append(clock())
                if event.step == WARM_UP + N_SWEEPS:
                    raise Enough

        with suppress(Enough):
            settings: dict[str, Any] = {"spread_prior": 0.1, "callbacks": watch, "random_state": 0}
            DirichletProcessMixture(init=labels, n_threads=n_threads, **settings).fit(rows)
        return np.median(np.diff(stamps, axis=0)[-N_SWEEPS:], axis=0)

    def scikit_learn(n_steps: int, n_threads: int) -> int:
        with threadpool_limits(n_threads):
            first: dict[str, Any] = {"init_params": "random_from_data", "random_state": 0}
            model = BayesianGaussianMixture(n_components=n_clusters, max_iter=n_steps, tol=0.0, **first)
            return int(model.fit(rows).n_iter_)

    return Work({"ours": of_time(ours)}, {"scikit-learn": of_steps(scikit_learn, 4)})


def one_vector() -> Work:
    """A vector of a stream of 20,000 x 256, of 200 identities; by one thread, whatever there are."""
    from threadpoolctl import threadpool_limits

    from benchmarks import links, workloads

    _, rows, _ = workloads.load_labelled("W4")

    def median_of(run: Callable[[np.ndarray, tuple[float, float, float]], Any]) -> Callable[[int], np.ndarray]:
        def call(n_threads: int) -> np.ndarray:
            with threadpool_limits(n_threads):
                before = time.process_time()
                found = run(rows, links.THRESHOLDS["W4"])
                return np.array([np.median(found.times), (time.process_time() - before) / len(rows)])

        return call

    return Work({"ours": of_time(median_of(links.run_single)), "leader rule": of_time(median_of(links.run_leader))}, {})


WORK: dict[str, Callable[[], Work]] = {
    "step 300k x 3, K=7": lambda: lloyd(_scene(300_000, 7, 0.7), 7, 41),
    "step 100k x 384, K=100": lambda: lloyd(_embeddings(100_000, 384), 100, 6),
    "step 1M x 128, K=100": lambda: lloyd(_embeddings(1_000_000, 128), 100, 4),
    "DDP frame 300k x 3": ddp_frame,
    "EM step 300k x 3, K=7": lambda: em(_scene(300_000, 7, 0.7), 7),
    "DP mixture sweep 100k x 3, K=30": lambda: dp_mixture(30, 0.07, 0.26),
    "learn_one 20k x 256": one_vector,
    "DP mixture sweep 300k x 3, K=30": lambda: dp_mixture(30, 0.07, 0.26, 300_000),
    "DP mixture sweep 300k x 3, K=10": lambda: dp_mixture(10, 0.1, 0.6, 300_000),
    "step 20k x 768, K=100": lambda: lloyd(_embeddings(20_000, 768), 100, 11),
    "step 3M x 3, K=30": lambda: lloyd(_scene(3_000_000, 30, 0.2), 30, 6),
    "DP mixture sweep 100k x 3, K=10": lambda: dp_mixture(10, 0.1, 0.6),
}


# ------------------------------------------------------------------------------------------------- another tree


class Tree:
    """The sources of another tree, in a process that makes the rows of a piece of work once."""

    def __init__(self, tree: Path) -> None:
        environ = os.environ | {"PYTHONPATH": os.pathsep.join([str(tree / "src"), *sys.path[:1], *_given_paths()])}
        command = [sys.executable, "-m", "benchmarks.cores", "--serve"]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environ)

    def beside(self, name: str, work: Work) -> Work:
        """The same work with what is ours of the other tree."""
        theirs = {f"{who}, before": self._run(name, who) for who in ("plain", "as called", "ours") if who in work.runs}
        return Work(work.runs | theirs, work.at_ends)

    def _run(self, name: str, who: str) -> Run:
        return lambda n_threads: self._ask((name, who, n_threads))

    def _ask(self, question: tuple[str, str, int]) -> Times:
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        pickle.dump(question, stdin)
        stdin.flush()
        return Times(*pickle.load(stdout))

    def close(self) -> None:
        """It has no more work."""
        self._process.kill()
        self._process.wait()


def _given_paths() -> list[str]:
    return os.environ.get("PYTHONPATH", "").split(os.pathsep)


def serve() -> None:
    """Answer who is asked for on how many threads with times, until nobody asks."""
    output = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what libraries print is no answer
    name, work = "", Work({}, {})
    with suppress(EOFError):
        while True:
            wanted, who, n_threads = pickle.load(sys.stdin.buffer)
            if wanted != name:
                name, work = wanted, Work({}, {})
                work = WORK[name]()
            pickle.dump(tuple(work.runs[who](n_threads)), output)
            output.flush()


# ------------------------------------------------------------------------------------------------------ measuring


def measured(work: Work, threads: list[int], seconds: float) -> dict[str, Any]:
    """Milliseconds of everybody at each number of threads."""
    begin = time.monotonic()
    at = dict.fromkeys(work.runs, threads) | {who: sorted({threads[0], threads[-1]}) for who in work.at_ends}
    runs = work.runs | work.at_ends
    for who, run in runs.items():
        run(at[who][0])  # compiles, imports, touches memory
    found: dict[str, dict[int, list[Times]]] = {who: {n: [] for n in at[who]} for who in runs}
    n_repeats = 0
    while n_repeats < MOST_REPEATS and (n_repeats == 0 or time.monotonic() - begin < seconds):
        # up, then down: what comes first has no lasting privilege
        for n_threads in threads if n_repeats % 2 == 0 else threads[::-1]:
            for who, run in runs.items():
                if n_threads in found[who] and (who in work.runs or n_repeats == 0):
                    found[who][n_threads].append(run(n_threads))
        n_repeats += 1
    lines = {who: {str(n): _line(times) for n, times in by_threads.items()} for who, by_threads in found.items()}
    return {"repeats": n_repeats, "ms": lines}


def _line(times: list[Times]) -> dict[str, float]:
    """Milliseconds of a step."""
    many, few, n_steps = np.array([t.many for t in times]), np.array([t.few for t in times]), times[0].n_steps
    least = (many.min(axis=0) - few.min(axis=0)) / n_steps
    found = {"least": least[0], "median": np.median((many - few)[:, 0]) / n_steps, "cpu": least[1]}
    return {what: round(1e3 * float(value), 5) for what, value in found.items()}


def machine() -> dict[str, Any]:
    """What the numbers were measured on."""
    from importlib.metadata import PackageNotFoundError, version

    from threadpoolctl import threadpool_info

    libraries = {}
    for name in ("numpy", "scipy", "scikit-learn", "numba", "faiss-cpu"):
        with suppress(PackageNotFoundError):
            libraries[name] = version(name)
    cpuinfo = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    models = [line.split(":", 1)[1].strip() for line in cpuinfo if line.startswith("model name")]
    siblings = Path("/sys/devices/system/cpu").glob("cpu[0-9]*/topology/thread_siblings_list")
    return {
        "processor": models[0] if models else platform.processor(),
        "logical_cores": _n_logical(),
        "physical_cores": len({path.read_text().strip() for path in siblings}) or None,
        "numba_cpu": os.environ.get("NUMBA_CPU_NAME", "as it is"),
        # what other libraries were told, e.g. to leave AVX-512 alone
        "told": {name: os.environ[name] for name in _TOLD if name in os.environ},
        "python": platform.python_version(),
        "libraries": libraries,
        "blas": {Path(of["filepath"]).name: of["architecture"] for of in threadpool_info() if "architecture" in of},
        "load": os.getloadavg()[0],
    }


def _same_machine(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return all(one[name] == other[name] for name in one if name != "load")


def _n_logical() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def show(name: str, result: dict[str, Any]) -> None:
    """A line for everybody."""
    print(f"{name}  ({result['repeats']} repeats; ms: least, median, CPU in brackets)")
    for who, by_threads in result["ms"].items():
        cells = (f"{n:>3}: {of['least']:8.3f} {of['median']:8.3f} ({of['cpu']:8.3f})" for n, of in by_threads.items())
        print(f"  {who:26s}" + " ".join(cells), flush=True)


def main() -> None:
    """Measure, print and store."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", nargs="?", default="here", help="which machine, for the name of the file")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--before", type=Path, help="a folder with sources that take turns with these")
    parser.add_argument("--threads", type=int, nargs="*", help="default: powers of two up to the cores there are")
    parser.add_argument("--only", nargs="*", help="words of the names of the work to do")
    parser.add_argument("--seconds", type=float, default=420.0, help="of the whole run, compilation included")
    parser.add_argument("--add", action="store_true", help="keep what the file has of other work")
    parser.add_argument("--folder", type=Path, default=RESULTS)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if options.serve:
        serve()
        return
    tree = None if options.before is None else Tree(options.before.resolve())
    threads = options.threads or [n for n in (1, 2, 4, 8, 16, 32, 64) if n <= _n_logical()]
    names = [name for name in WORK if not options.only or any(word in name for word in options.only)]
    output = options.folder / f"cores-{options.name}.json"
    options.folder.mkdir(parents=True, exist_ok=True)
    record: dict[str, Any] = {"machine": machine(), "work": {}, "left_out": []}
    if options.add and output.exists():
        known = json.loads(output.read_text())
        assert _same_machine(known["machine"], record["machine"]), f"{output} is of another machine"
        record["work"] = known["work"]
    begin = time.monotonic()
    for number, name in enumerate(names):
        left = options.seconds - (time.monotonic() - begin)
        if left <= 0.0:
            record["left_out"].append(name)
        else:
            # half of the time goes to compiling and making rows: what is left is dealt to what is left to do
            try:
                work = WORK[name]()
                work = work if tree is None else tree.beside(name, work)
                result = measured(work, threads, 0.7 * left / (len(names) - number))
            except Exception as error:  # the others are still worth their time
                record["left_out"].append(f"{name}: {error!r}")
                print(record["left_out"][-1], flush=True)
            else:
                record["work"][name] = result | {"load": os.getloadavg()[0]}
                show(name, result)
        output.write_text(json.dumps(record, indent=1) + "\n")
    if tree is not None:
        tree.close()
    print(f"Stored in {output}")


if __name__ == "__main__":
    main()
