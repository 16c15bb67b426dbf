"""Tables of the benchmarks page, from `benchmarks/results/*.json`: nothing is typed, nothing is measured here.

python docs/building/result_tables.py FOLDER
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "benchmarks" / "results"
# Results whose files have other names than the modules that wrote them.
_MODULES = {"spherical_kmeans": "run"}


def _stored(name: str) -> dict[str, Any]:
    return json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))


def table(head: Sequence[str], lines: Iterable[Sequence[object]]) -> str:
    """A Markdown table."""
    rows = [head, ["---"] * len(head), *lines]
    return "\n".join("| " + " | ".join(str(cell).replace("|", "\\|") for cell in row) + " |" for row in rows)


def _ms(seconds: float) -> str:
    ms = 1e3 * seconds
    return f"{ms:,.0f}" if ms >= 100 else f"{ms:.3g}"


def _shape(numbers: Sequence[float]) -> str:
    return " x ".join(f"{int(number):,}" for number in numbers)


def steps() -> str:
    """One step of k-means, in milliseconds."""
    work = _stored("spherical_kmeans")["workloads"]
    peers = ["armillary", "armillary auto", "scikit-learn lloyd", "scikit-learn elkan", "faiss", "product alone"]
    lines = []
    for one in work.values():
        measured = one["peers"]
        cells = [_ms(measured[peer]["step_seconds"]) if peer in measured else "-" for peer in peers]
        memory = (one["row_bytes"] + measured["armillary auto"]["extra_bytes"]) / one["row_bytes"]
        lines.append([f"{_shape(one['shape'])}, K = {one['n_clusters']}", *cells, f"{memory:.2f} x rows"])
    return table(["rows", "armillary, plain", "armillary, as called", *peers[2:], "armillary's memory"], lines)


def defaults() -> str:
    """Every method with its defaults, against classes."""
    if str(ROOT) not in sys.path:
        sys.path.insert(0, str(ROOT))
    from benchmarks.defaults import markdown, verdict

    sets = _stored("defaults")["sets"]
    return f"{markdown(sets)}\n\n{verdict(sets)}"


def topics() -> str:
    """Topics by BERTopic with two cluster models."""
    lines = [
        [one["cluster_model"], one["topics"], f"{one['outliers']:,}", f"{one['ARI']:.2f}", f"{one['NMI']:.2f}",
         f"{one['same_topic_when_asked_again']:.0%}"]
        for one in _stored("bertopic")["lines"]
    ]  # fmt: skip
    return table(["cluster model", "topics", "in no topic", "ARI", "NMI", "same topic when asked again"], lines)


def streams() -> str:
    """A frame of a stream."""
    lines = [
        [f"{_shape(one['shape'][1:])}, {angle}°", peer, _ms(found["seconds"]), f"{found['nmi']:.3f}"]
        for angle, one in _stored("streams")["W1s"].items()
        for peer, found in one["peers"].items()
    ]
    return table(["frame, angle", "method", "ms", "NMI"], lines)


def angles() -> str:
    """Fits by an angle."""
    lines = [
        [_shape(one["shape"]), peer, _ms(found["seconds"]), found["n_clusters"], f"{found['nmi']:.3f}"]
        for one in _stored("dp_means")["workloads"].values()
        for peer, found in one["peers"].items()
    ]
    return table(["rows", "method", "ms", "clusters", "NMI"], lines)


def mixtures() -> str:
    """A step of EM."""
    lines = [
        [f"{_shape(one['shape'])}, K = {one['n_clusters']}", peer, _ms(found["step_seconds"])]
        for one in _stored("mixtures")["workloads"].values()
        for peer, found in one["peers"].items()
    ]
    return table(["rows", "method", "ms a step"], lines)


def sweeps() -> str:
    """A sweep of a sampler beside an iteration of scikit-learn's variational mixture."""
    lines = [
        [_shape(one["shape"][:2]), one["shape"][2], *(_ms(one["seconds"][k]) for k in ("split_merge", "scikit-learn"))]
        for one in _stored("dirichlet_process")["workloads"].values()
    ]
    head = ["rows", "clusters", "`DirichletProcessMixture`, ms a sweep", "`BayesianGaussianMixture`, ms an iteration"]
    return table(head, lines)


def links() -> str:
    """Vectors one after the other."""
    lines = [
        [
            _shape(one["shape"]),
            peer,
            f"{found['us_per_vector']:.3g}",
            found["n_ids"],
            f"{found['matched_accuracy']:.3f}",
        ]
        for one in _stored("links")["streams"].values()
        for peer, found in one["peers"].items()
    ]
    return table(["vectors", "method", "µs a vector", "ids", "matched accuracy"], lines)


def vision() -> str:
    """A depth image, stage by stage."""
    lines = [
        [stride, stage, _ms(found["median_seconds"])]
        for stride, one in _stored("vision")["pipeline"].items()
        for stage, found in one["stages"].items()
    ]
    return table(["640 x 480", "stage", "ms, median"], lines)


def gpu() -> str:
    """A step on a GPU, beside the least that the card could take."""
    lines = []
    for name, one in _stored("gpu")["times"].items():
        step = one.get("iteration") if isinstance(one, dict) else None
        if step:
            peers = ", ".join(f"{peer}: {ms:.3g}" for peer, ms in step["peers_ms"].items()) or "-"
            lines.append([name, f"{step['ms']:.3g}", f"{step['floor_ms']:.3g}", peers])
    return table(["rows", "ms a step", "ms, the card's own limit", "peers, ms"], lines)


def balance() -> str:
    """Clusters of bounded size beside free ones: largest over mean, and what is kept of the free mean cosine."""
    lines = []
    for name, one in _stored("balance").items():
        free = one["SphericalKMeans"]["mean_cosine"]
        for peer, found in one.items():
            if isinstance(found, dict) and "mean_cosine" in found:
                kept = found["mean_cosine"] / free
                cells = [f"{found['largest_over_mean']:.2f}", f"{found['deviation_over_mean']:.2f}", f"{kept:.4f}"]
                lines.append([name, peer, *cells])
    return table(["rows", "method", "largest / mean", "deviation / mean", "mean cosine / free"], lines)


def workers() -> str:
    """Two worker processes beside one process with two threads."""
    lines = []
    for one in _stored("workers").values():
        for kind in ("lloyd", "hamerly", "mixture"):
            if kind in one:
                found = one[kind]
                moved = [f"{sum(found[which]) / 1e6:.2f} MB" for which in ("bytes_of_passes", "bytes_foreseen")]
                ratios = [f"{found[which]:.3f}" for which in ("processor_ratio", "wall_ratio")]
                is_equal = all(turn["is_equal"] for turn in found["turns"])
                shape = f"{_shape((one['rows'], one['columns']))}, K = {one['clusters']}"
                lines.append([shape, kind, *ratios, *moved, "equal" if is_equal else "different"])
    head = ["rows", "steps", "CPU time, two / one", "time, two / one", "bytes moved", "foreseen", "model files"]
    return table(head, lines)


def curation() -> str:
    """Curation of made rows from end to end: what it took, and how even the sample is."""
    lines = []
    for one in _stored("curation").values():
        took = [f"{one['cpu_seconds'] / 60:.1f} min", f"{one['peak_resident_mib']:,} MiB"]
        took.append(f"{one['planted']['removed']:.3%} of {one['planted']['copies']:,}")
        even = [f"{found['effective_concepts']:,.0f}" for found in one["evenness"].values()]
        lines.append([_shape((one["rows"], one["features"])), *took, *even])
    head = ["rows", "CPU time", "most memory", "copies removed", "concepts in the sample", "by chance"]
    return table([*head, "even over the finest level", "over plain k-means"], lines)


def service() -> str:
    """Requests to the identity service."""
    lines = [
        [one["place"], one["batch"], one["clients"], f"{one['vectors_per_second']:,.0f}", one["p50_ms"], one["p99_ms"]]
        for one in _stored("service")["loads"]
        if one["asked_rate"] is None and one["server_cores"] == "all"
    ]
    return table(["log on", "vectors a request", "clients", "vectors a second", "p50, ms", "p99, ms"], lines)


def sources() -> str:
    """Every file of results: when, where, and the command that makes it again."""
    lines = []
    for path in sorted(RESULTS.glob("*.json")):
        found = json.loads(path.read_text(encoding="utf-8"))
        inner = next((one for one in found.values() if isinstance(one, dict) and "command" in one), {})
        command = found.get("command") or inner.get("command") or _command(path.stem)
        machine = found.get("machine") or inner.get("machine") or "-"
        lines.append([f"`{path.name}`", found.get("date", "-"), _machine(machine), f"`{command}`" if command else "-"])
    return table(["results", "measured", "machine", "again"], lines)


def _command(stem: str) -> str | None:
    """What wrote a file that does not say it."""
    module, _, rest = _MODULES.get(stem, stem).partition("-")
    is_there = (ROOT / "benchmarks" / f"{module}.py").exists()
    return f"python -m benchmarks.{module} {rest}".rstrip() if is_there else None


def _machine(machine: Any) -> str:
    if not isinstance(machine, dict):
        return str(machine)
    if "card" in machine:
        return str(machine["card"])
    cores = machine.get("cores") or machine.get("physical_cores") or "?"
    return f"{machine.get('processor', '?')}, {cores} cores, Python {machine.get('python', '?')}"


TABLES: dict[str, Callable[[], str]] = {
    "steps": steps,
    "defaults": defaults,
    "topics": topics,
    "streams": streams,
    "angles": angles,
    "mixtures": mixtures,
    "sweeps": sweeps,
    "links": links,
    "vision": vision,
    "gpu": gpu,
    "balance": balance,
    "workers": workers,
    "curation": curation,
    "service": service,
    "sources": sources,
}


def write(folder: Path) -> None:
    """One file for each table."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, make in TABLES.items():
        (folder / f"results_{name}.md").write_text(make() + "\n", encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
