"""What comes out when nothing is said: `choose_model` beside HDBSCAN, evoc and `DPvMFMeans` at its suggested angle.

    python -m benchmarks.defaults [banking77 ...] [--methods ours dp hdbscan evoc]

Every labelled set of recorded embeddings and documents (where ARMILLARY_SHARED_DATA names the data folder), and two
that are made here: all methods with their defaults, on all rows. Rows that a method leaves out as noise are a class of
their own in the scores; the number found does not count it. Results are merged into `results/defaults.json`, so that
one method can be measured again; the table is printed as Markdown.

HDBSCAN of scikit-learn works on Euclidean distances of unit rows, which order pairs as cosines do; up to 20,000 rows it
gets them as a matrix, which gives the same labels in a tenth of the time. evoc takes dense rows with at least four
columns, and lives in an environment of its own, made on first use (or named by ARMILLARY_EVOC_PYTHON).
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from papers.common import NO_DATA, shared_data
from papers.gopal2014_vmf import documents
from rich.console import Console
from sklearn.cluster import HDBSCAN
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score

import armillary
from armillary.datasets import make_vmf_mixture
from armillary.vision import estimate_normals, make_room_walk
from benchmarks import measure, workloads

RESULTS = Path(__file__).parent / "results" / "defaults.json"
EVOC = "evoc==0.3.2"
METHODS = {
    "ours": "armillary cluster",
    "dp": "DPvMFMeans at its suggested angle",
    "hdbscan": "HDBSCAN",
    "evoc": "evoc",
}
NEAR = 0.02  # of ARI: as good as the best
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


def fit_ours(rows: Any) -> tuple[np.ndarray, str]:
    """The default of the command line and of Python."""
    choice = armillary.choose_model(rows)
    return choice.model.labels_, choice.reason


def fit_dp(rows: Any) -> tuple[np.ndarray, str]:
    """Angles compared by silhouette."""
    table = armillary.select_max_angle(rows, random_state=0)
    return table.model.labels_, f"{np.degrees(table.max_angle):.1f} degrees"


def fit_hdbscan(rows: Any) -> tuple[np.ndarray, str]:
    """scikit-learn's; its own noise is -1."""
    if rows.shape[0] > MATRIX_ROWS:
        return HDBSCAN(copy=False).fit(rows).labels_, "rows"
    products = rows @ rows.T
    distances = np.asarray(products.todense() if sp.issparse(products) else products, dtype=np.float64)
    np.sqrt(np.maximum(2.0 - 2.0 * distances, 0.0, out=distances), out=distances)
    np.fill_diagonal(distances, 0.0)
    return HDBSCAN(metric="precomputed", copy=False).fit(distances).labels_, "distances"


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

    def __call__(self, rows: Any) -> tuple[np.ndarray, str]:
        """A fit of dense rows; ValueError where evoc refuses them."""
        if sp.issparse(rows):
            raise ValueError("dense rows only")
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        np.save(self._paths["rows"], rows)
        self._process.stdin.write(json.dumps(self._paths) + "\n")
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


def measure_one(method: Callable[[Any], tuple[np.ndarray, str]], data: Labelled) -> dict[str, Any]:
    """Scores, seconds and settings of one method on one set; or why there are none."""
    found: list[tuple[np.ndarray, str]] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.simplefilter("ignore", FutureWarning)
        try:
            seconds = measure.seconds(lambda: found.append(method(data.rows)))
        except ValueError as error:
            return {"not_run": str(error)}
    labels, settings = found[0]
    return {**scores(data.classes, labels), "seconds": round(seconds, 1), "settings": settings}


def markdown(sets: Mapping[str, Mapping[str, Any]]) -> str:
    """One line for each set: ARI / NMI / number found; the best ARI, and those within 0.02 of it, in bold."""
    head = ["rows", "classes", *METHODS.values()]
    lines = ["| " + " | ".join(head) + " |", "| " + " | ".join("---" for _ in head) + " |"]
    for name, line in sets.items():
        best = max((cell["ari"] for cell in line["methods"].values() if "ari" in cell), default=np.nan)
        cells = [f"{name}: {line['n_rows']:,} x {line['n_features']:,}", str(line["n_classes"])]
        for method in METHODS:
            cell = line["methods"].get(method, {})
            if "ari" not in cell:
                cells.append("-")
                continue
            ari = f"**{cell['ari']:.2f}**" if cell["ari"] >= best - NEAR else f"{cell['ari']:.2f}"
            cells.append(f"{ari} / {cell['nmi']:.2f} / {cell['n_found']}")
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def verdict(sets: Mapping[str, Mapping[str, Any]]) -> str:
    """On how many sets ours is as good as the best, and where it is not."""
    behind = []
    for name, line in sets.items():
        known = {method: cell["ari"] for method, cell in line["methods"].items() if "ari" in cell}
        if "ours" in known and known["ours"] < max(known.values()) - NEAR:
            behind.append(
                f"{name} ({known['ours']:.2f}, {METHODS[max(known, key=lambda key: known[key])]} has "
                f"{max(known.values()):.2f})"
            )
    n_sets = sum("ari" in line["methods"].get("ours", {}) for line in sets.values())
    said = f"Best, or within {NEAR} of the best ARI, on {n_sets - len(behind)} of {n_sets} sets."
    return said + (f" Not on: {'; '.join(behind)}." if behind else "")


def main() -> None:
    """Measure, print, store."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", nargs="*", help="parts of names of sets; all by default")
    parser.add_argument("--methods", nargs="*", choices=METHODS, default=list(METHODS))
    parser.add_argument("--output", type=Path, default=RESULTS)
    parser.add_argument("--print", action="store_true", help="print what is stored, measure nothing")
    arguments = parser.parse_args()
    console = Console(width=200)
    record = json.loads(arguments.output.read_text()) if arguments.output.exists() else {}
    sets: dict[str, Any] = record.get("sets", {})
    if not arguments.print:
        _measure(sets, arguments.sets, arguments.methods, console, lambda: _store(arguments.output, sets, console))
    print(markdown(sets))
    print(verdict(sets))


def _measure(
    sets: dict[str, Any], wanted: list[str], methods: list[str], console: Console, store: Callable[[], None]
) -> None:
    """Fill `sets`, storing after each."""
    folder = shared_data()
    if folder is None:
        console.print(f"Recorded sets are left out: {NO_DATA}.")
    loaders: dict[str, Callable[[Any], Labelled]] = {**MADE, **(RECORDED if folder is not None else {})}
    calls: dict[str, Callable[[Any], tuple[np.ndarray, str]]] = {
        "ours": fit_ours,
        "dp": fit_dp,
        "hdbscan": fit_hdbscan,
    }
    evoc = None
    if "evoc" in methods:
        try:
            evoc = calls["evoc"] = Evoc()
        except (OSError, subprocess.CalledProcessError) as error:
            console.print(f"evoc is left out: {error}")
    for name, load in loaders.items():
        if wanted and not any(part.lower() in name.lower() for part in wanted):
            continue
        data = load(folder)
        line = sets.setdefault(name, {"methods": {}})
        line["n_rows"], line["n_features"] = (int(size) for size in data.rows.shape)
        line["n_classes"] = len(np.unique(data.classes[data.classes >= 0]))
        for method in [one for one in methods if one in calls]:
            line["methods"][method] = measure_one(calls[method], data)
            console.print(name, method, line["methods"][method])
        store()
    if evoc is not None:
        evoc.close()


def _store(output: Path, sets: dict[str, Any], console: Console) -> None:
    names = [name for name in (*RECORDED, *MADE) if name in sets]
    sets.update({name: sets.pop(name) for name in names})  # in one order, whatever was measured last
    measure.store(output, {"sets": sets}, console)


if __name__ == "__main__":
    main()
