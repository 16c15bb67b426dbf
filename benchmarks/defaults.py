"""What comes out when nothing is said: `AutoClusterer` beside its peers, over seeds.

    python -m benchmarks.defaults [banking77 ...] [--methods ours leiden ...] [--seeds 5] [--again]

Every labelled set of recorded embeddings and documents (where ARMILLARY_SHARED_DATA names the data folder), and two
that are made here: all methods with their defaults, on all rows. Rows that a method leaves out as noise are a class of
their own in the scores; the number found does not count it. Cells (set, method, seed) are stored one by one in
`results/defaults.json`, and those that are there are not measured again; the table is printed as Markdown: means over
seeds, with the deviation where there are several.

    ours       AutoClusterer(random_state=seed)
    leiden     leidenalg, modularity at resolution 1 on the graph of 15 nearest rows (not weighted, either way)
    hdbscan    of scikit-learn, on Euclidean distances of unit rows, which order pairs as cosines do; up to 20,000 rows
               it gets them as a matrix, which gives the same labels in a tenth of the time. No seed
    umap       UMAP to 5 columns (15 neighbours, cosine, min_dist 0), then HDBSCAN (min_cluster_size 10): BERTopic's
    evoc       dense rows with at least four columns, in an environment of its own, made on first use (or named by
               ARMILLARY_EVOC_PYTHON)
    kmeans     spherical k-means, told the number of classes, best of 10 starts
    average    average link by cosine, told the number of classes, up to 20,000 rows. No seed

leidenalg and igraph are under the GPL, and umap-learn is large: they are peers here, never dependencies. What is not
installed is left out and said.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from papers.common import NO_DATA, shared_data
from papers.gopal2014_vmf import documents
from rich.console import Console
from sklearn.cluster import HDBSCAN, AgglomerativeClustering
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score

import armillary
from armillary.datasets import make_vmf_mixture
from armillary.engines.select import open_passes
from armillary.fitting.neighbours import nearest_rows
from armillary.points import as_points
from armillary.vision import estimate_normals, make_room_walk
from benchmarks import measure, workloads

RESULTS = Path(__file__).parent / "results" / "defaults.json"
EVOC = "evoc==0.3.2"
METHODS = {
    "ours": "`AutoClusterer()`",
    "leiden": "Leiden",
    "hdbscan": "HDBSCAN",
    "umap": "UMAP + HDBSCAN",
    "evoc": "evoc",
    "kmeans": "k-means, told K",
    "average": "average link, told K",
}
TOLD = ("kmeans", "average")  # what needs the number of classes is no rival
NO_SEED = ("hdbscan", "average")
NEAR = 0.02  # of ARI: as good as the best
N_NEIGHBOURS = 15
MATRIX_ROWS = 20_000  # a matrix of distances of so many rows takes 3.2 GB


class Labelled(NamedTuple):
    """Rows, dense or CSR, and the class of each; -1 where it is not known."""

    rows: Any
    classes: np.ndarray


def _unit(rows: np.ndarray) -> np.ndarray:
    wide = rows.astype(np.float32)
    return wide / np.linalg.norm(wide, axis=1, keepdims=True)


def _stored(path: str, rows: str, classes: str) -> Callable[[Path], Labelled]:
    def load(folder: Path) -> Labelled:
        stored = np.load(folder / path)
        return Labelled(_unit(stored[rows]), stored[classes].astype(np.int64))

    return load


def _documents(name: str) -> Callable[[Path], Labelled]:
    def load(folder: Path) -> Labelled:
        found = documents.load(folder, name)
        assert found.classes is not None
        return Labelled(documents.tf_idf(found.counts).astype(np.float32), found.classes.astype(np.int64))

    return load


def _room(_: Path | None) -> Labelled:
    """Every tenth normal of a depth image, with the direction of the plane it lies on."""
    walk = make_room_walk(30, width=320, height=240, random_state=0)
    normals = estimate_normals(walk[0].depth, walk.camera)
    is_seen = np.flatnonzero(normals.is_valid.ravel())[::10]
    return Labelled(normals.vectors.reshape(-1, 3)[is_seen], walk[0].direction_ids.ravel()[is_seen].astype(np.int64))


def _mixture(_: Path | None) -> Labelled:
    rows, classes, _truth = make_vmf_mixture(5_000, 3, 20, concentration=300.0, min_angle=0.35, random_state=0)
    return Labelled(rows, classes)


MADE: dict[str, Callable[[Path | None], Labelled]] = {
    "normals of a room": _room,
    "20 directions on S^2": _mixture,
}
RECORDED: dict[str, Callable[[Path], Labelled]] = {
    "sentences, Banking77": _stored("sent_banking77/embeddings.npz", "embeddings", "label"),
    "sentences, AG News": _stored("sent_agnews/embeddings.npz", "embeddings", "label"),
    "voices, 10, windows": _stored("voice_librispeech/test_other.npz", "window_embeddings", "window_speaker"),
    "voices, 10, utterances": _stored("voice_librispeech/test_other.npz", "utterance_embeddings", "utterance_speaker"),
    "voices, 251, windows": _stored("voice_librispeech/train_clean.npz", "window_embeddings", "window_speaker"),
    "faces, as they come": _stored("face_lfw/embeddings.npz", "embeddings", "person"),
    "faces, centred": _stored("face_lfw/embeddings.npz", "embeddings_centred", "person"),
    "word vectors, supersenses": _stored("wordvec_glove/glove_pca20.npz", "vectors", "supersense"),
    **{
        f"text, {name}": _documents(name)
        for name in ("CNAE-9", "BBC", "re0", "fbis", "k1a", "k1b", "R8", "Reuters", "TDT2", "20 Newsgroups")
    },
}


Found = tuple[np.ndarray, str]


def fit_ours(data: Labelled, seed: int) -> Found:
    """The default of the command line and of Python."""
    model = armillary.AutoClusterer(random_state=seed).fit(data.rows)
    return model.labels_, f"{'clear' if model.is_clear_ else 'not clear'}, {model.clarity_:.2f}"


def _cosines(rows: Any) -> np.ndarray:
    products = rows @ rows.T
    return np.asarray(products.todense() if sp.issparse(products) else products, dtype=np.float64)


def fit_hdbscan(data: Labelled, seed: int) -> Found:
    """scikit-learn's; its own noise is -1."""
    if data.rows.shape[0] > MATRIX_ROWS:
        return HDBSCAN(copy=False).fit(data.rows).labels_, "rows"
    distances = _cosines(data.rows)
    np.sqrt(np.maximum(2.0 - 2.0 * distances, 0.0, out=distances), out=distances)
    np.fill_diagonal(distances, 0.0)
    return HDBSCAN(metric="precomputed", copy=False).fit(distances).labels_, "distances"


def fit_leiden(data: Labelled, seed: int) -> Found:
    """leidenalg's, on neighbours by cosine."""
    import igraph
    import leidenalg

    n_rows = data.rows.shape[0]
    with open_passes(as_points(data.rows, "benchmark", None), None, "benchmark") as passes:
        lists = nearest_rows(passes, min(N_NEIGHBOURS, n_rows - 1))
    starts = np.repeat(np.arange(n_rows), lists.shape[1])
    pairs = np.sort(np.stack([starts, lists.ravel()], axis=1), axis=1)
    graph = igraph.Graph(n=n_rows, edges=np.unique(pairs, axis=0).tolist())
    kind = leidenalg.RBConfigurationVertexPartition
    parts = leidenalg.find_partition(graph, kind, resolution_parameter=1.0, seed=seed)
    return np.asarray(parts.membership), f"{N_NEIGHBOURS} neighbours"


def fit_umap(data: Labelled, seed: int) -> Found:
    """As BERTopic sets them."""
    import umap

    mapped = umap.UMAP(n_neighbors=15, n_components=5, min_dist=0.0, metric="cosine", random_state=seed)
    return HDBSCAN(min_cluster_size=10, copy=False).fit(mapped.fit_transform(data.rows)).labels_, "5 columns"


def fit_kmeans(data: Labelled, seed: int) -> Found:
    """Ours, told the number."""
    n_classes = len(np.unique(data.classes[data.classes >= 0]))
    model = armillary.SphericalKMeans(n_classes, n_init=10, random_state=seed).fit(data.rows)
    return model.labels_, f"K = {n_classes}"


def fit_average(data: Labelled, seed: int) -> Found:
    """scikit-learn's, told the number."""
    if data.rows.shape[0] > MATRIX_ROWS:
        raise ValueError(f"more than {MATRIX_ROWS:,} rows")
    n_classes = len(np.unique(data.classes[data.classes >= 0]))
    model = AgglomerativeClustering(n_classes, metric="precomputed", linkage="average")
    return model.fit(np.maximum(1.0 - _cosines(data.rows), 0.0)).labels_, f"K = {n_classes}"


class Evoc:
    """evoc, served by `evoc_worker.py` from its own environment."""

    def __init__(self) -> None:
        workloads.FOLDER.mkdir(parents=True, exist_ok=True)
        self._paths = {name: str(workloads.FOLDER / f"evoc-{name}.npy") for name in ("rows", "labels")}
        self._process = subprocess.Popen(
            [_environment(), Path(__file__).with_name("evoc_worker.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __call__(self, data: Labelled, seed: int) -> Found:
        """A fit of dense rows; ValueError where evoc refuses them."""
        rows = data.rows
        if sp.issparse(rows):
            raise ValueError("dense rows only")
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        np.save(self._paths["rows"], rows)
        self._process.stdin.write(json.dumps({**self._paths, "seed": seed}) + "\n")
        self._process.stdin.flush()
        reply = json.loads(self._process.stdout.readline())
        if "error" in reply:
            raise ValueError(reply["error"])
        return np.load(self._paths["labels"]), ""

    def close(self) -> None:
        """End the worker."""
        self._process.communicate()


def _environment() -> Path:
    """The interpreter of evoc's environment, made where it is missing."""
    named = os.environ.get("ARMILLARY_EVOC_PYTHON")
    if named:
        return Path(named)
    folder = workloads.FOLDER / "venv-evoc"
    python, is_done = folder / "bin" / "python", folder / "installed"
    if not is_done.exists():
        subprocess.run([sys.executable, "-m", "venv", folder], check=True, capture_output=True)
        install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", EVOC]
        subprocess.run(install, check=True, capture_output=True)
        is_done.touch()
    return python


def scores(classes: np.ndarray, labels: np.ndarray) -> dict[str, float]:
    """Agreement with the classes that are known, and how many clusters were found."""
    is_known = classes >= 0
    return {
        "nmi": float(normalized_mutual_info_score(classes[is_known], labels[is_known])),
        "ari": float(adjusted_rand_score(classes[is_known], labels[is_known])),
        "n_found": len(np.unique(labels[labels >= 0])),
        "noise": float(np.mean(labels < 0)),
    }


def measure_one(method: Callable[[Labelled, int], Found], data: Labelled, seed: int) -> dict[str, Any]:
    """Scores, seconds and settings of one method on one set; or why there are none."""
    found: list[Found] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        start = time.process_time()
        try:
            seconds = measure.seconds(lambda: found.append(method(data, seed)))
        except (ValueError, ImportError, MemoryError) as error:
            return {"not_run": str(error)}
    labels, settings = found[0]
    cpu = time.process_time() - start
    return {**scores(data.classes, labels), "seconds": round(seconds, 1), "cpu": round(cpu, 1), "settings": settings}


def summary(cells: Mapping[str, Mapping[str, Any]]) -> dict[str, float] | None:
    """Means over the seeds that were measured, and the deviation of the index; None where there are none."""
    known = [cell for cell in cells.values() if "ari" in cell]
    if not known:
        return None
    values = [cell["ari"] for cell in known]
    return {
        "ari": float(np.mean(values)),
        "deviation": float(np.std(values)),
        "nmi": float(np.mean([cell["nmi"] for cell in known])),
        "n_found": float(np.median([cell["n_found"] for cell in known])),
        "n_seeds": len(known),
    }


def _summaries(line: Mapping[str, Any]) -> dict[str, dict[str, float]]:
    found = {method: summary(line["methods"].get(method, {})) for method in METHODS}
    return {method: one for method, one in found.items() if one is not None}


def _best_untold(known: Mapping[str, Mapping[str, float]]) -> float:
    return max((one["ari"] for method, one in known.items() if method not in TOLD), default=np.nan)


def measured_methods(sets: Mapping[str, Mapping[str, Any]]) -> tuple[str, ...]:
    """Methods with a number for at least one set."""
    return tuple(method for method in METHODS if any(method in _summaries(line) for line in sets.values()))


def markdown(sets: Mapping[str, Mapping[str, Any]], methods: Sequence[str] = tuple(METHODS)) -> str:
    """One line for each set: ARI (deviation) / number found; the best untold ARI, and those within 0.02 of it, bold."""
    head = ["rows", "classes", *(METHODS[method] for method in methods)]
    lines = ["| " + " | ".join(head) + " |", "| " + " | ".join("---" for _ in head) + " |"]
    for name, line in sets.items():
        known = _summaries(line)
        best = _best_untold(known)
        cells = [f"{name}: {line['n_rows']:,} x {line['n_features']:,}", str(line["n_classes"])]
        for method in methods:
            if method not in known:
                cells.append("-")
                continue
            one = known[method]
            is_near = method not in TOLD and one["ari"] >= best - NEAR
            ari = f"**{one['ari']:.2f}**" if is_near else f"{one['ari']:.2f}"
            spread = f" ± {one['deviation']:.2f}" if one["n_seeds"] > 1 else ""
            cells.append(f"{ari}{spread} / {one['n_found']:.0f}")
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def verdict(sets: Mapping[str, Mapping[str, Any]]) -> str:
    """On how many sets ours is as good as the best that is not told the number, and where it is not."""
    behind, counts = [], {"dense": [0, 0], "text": [0, 0]}
    for name, line in sets.items():
        known = _summaries(line)
        if "ours" not in known:
            continue
        kind = "text" if name.startswith("text,") else "dense"
        counts[kind][1] += 1
        rivals = {method: one["ari"] for method, one in known.items() if method not in TOLD}
        if known["ours"]["ari"] >= max(rivals.values()) - NEAR:
            counts[kind][0] += 1
            continue
        best = max(rivals, key=lambda key: rivals[key])
        behind.append(f"{name} ({known['ours']['ari']:.2f}, {METHODS[best]} has {rivals[best]:.2f})")
    (dense, n_dense), (text, n_text) = counts["dense"], counts["text"]
    said = (
        f"Best, or within {NEAR} of the best ARI of those that are not told the number, on {dense} of {n_dense} dense "
        f"sets and {text} of {n_text} sets of documents."
    )
    return said + (f" Not on: {'; '.join(behind)}." if behind else "")


def main() -> None:
    """Measure, print, store."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", nargs="*", help="parts of names of sets; all by default")
    parser.add_argument("--methods", nargs="*", choices=METHODS, default=list(METHODS))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--again", action="store_true", help="measure cells that are stored once more")
    parser.add_argument("--output", type=Path, default=RESULTS)
    parser.add_argument("--print", action="store_true", help="print what is stored, measure nothing")
    arguments = parser.parse_args()
    if not arguments.print:
        _measure(arguments, Console(width=200))
    sets = _cells(arguments.output)
    print(markdown(sets))
    print(verdict(sets))


def _cells(output: Path) -> dict[str, Any]:
    return json.loads(output.read_text()).get("sets", {}) if output.exists() else {}


def _measure(arguments: argparse.Namespace, console: Console) -> None:
    """Method by method, set by set, seed by seed; what is stored is passed over."""
    folder = shared_data()
    if folder is None:
        console.print(f"Recorded sets are left out: {NO_DATA}.")
    loaders: dict[str, Callable[[Any], Labelled]] = {**(RECORDED if folder is not None else {}), **MADE}
    for method in arguments.methods:
        call = _call(method, console)
        for name, load in loaders.items():
            if arguments.sets and not any(part.lower() in name.lower() for part in arguments.sets):
                continue
            seeds = range(1 if method in NO_SEED else arguments.seeds)
            known = _cells(arguments.output).get(name, {}).get("methods", {}).get(method, {})
            missing = [seed for seed in seeds if arguments.again or str(seed) not in known]
            if not missing or call is None:
                continue
            data = load(folder)
            for seed in missing:
                cell = measure_one(call, data, seed)
                console.print(name, method, seed, cell)
                _keep(arguments.output, name, data, method, seed, cell)
        if isinstance(call, Evoc):
            call.close()


def _call(method: str, console: Console) -> Callable[[Labelled, int], Found] | None:
    calls = {
        "ours": fit_ours,
        "leiden": fit_leiden,
        "hdbscan": fit_hdbscan,
        "umap": fit_umap,
        "kmeans": fit_kmeans,
        "average": fit_average,
    }
    if method != "evoc":
        return calls[method]
    try:
        return Evoc()
    except (OSError, subprocess.CalledProcessError) as error:
        console.print(f"evoc is left out: {error}")
        return None


def _keep(output: Path, name: str, data: Labelled, method: str, seed: int, cell: dict[str, Any]) -> None:
    """Add one cell to what is stored, which another run may have changed meanwhile."""
    sets = _cells(output)
    line = sets.setdefault(name, {"methods": {}})
    line["n_rows"], line["n_features"] = (int(size) for size in data.rows.shape)
    line["n_classes"] = len(np.unique(data.classes[data.classes >= 0]))
    line["methods"].setdefault(method, {})[str(seed)] = cell
    ordered = {one: sets[one] for one in (*RECORDED, *MADE) if one in sets}  # in one order, whatever came last
    measure.store(output, {"command": "python -m benchmarks.defaults", "sets": ordered}, Console(quiet=True))


if __name__ == "__main__":
    main()
