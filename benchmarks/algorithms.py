"""Plain Lloyd beside Hamerly's bounds, both ours, run until no label changes: where do bounds win?

python -m benchmarks.algorithms [W1 W2 ...]
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from armillary import SphericalKMeans
from benchmarks import measure, workloads


def compare(name: str, repeats: int = 3) -> dict[str, Any]:
    """Time to convergence of both, and whether the results have equal bits."""
    work = workloads.load(name)
    best: dict[str, float] = {}
    models: dict[str, SphericalKMeans] = {}
    for _ in range(repeats):
        for algorithm in ("lloyd", "hamerly"):
            model = SphericalKMeans(work.n_clusters, init=work.starts, tol=0.0, max_iter=1000, algorithm=algorithm)
            spent = measure.seconds(lambda m=model: m.fit(work.rows))  # type: ignore[misc]
            best[algorithm] = min(spent, best.get(algorithm, np.inf))
            models[algorithm] = model
    same = np.array_equal(models["lloyd"].labels_, models["hamerly"].labels_) and np.array_equal(
        models["lloyd"].cluster_centers_, models["hamerly"].cluster_centers_
    )
    return {"n_steps": models["lloyd"].n_iter_, "is_equal": bool(same), "seconds": best}


def main() -> None:
    """Measure, show, store."""
    console = Console()
    table = Table("", "steps", "lloyd s", "hamerly s", "lloyd / hamerly", "equal bits", title="to convergence, tol=0")
    results = {}
    for name in sys.argv[1:] or workloads.NAMES:
        results[name] = result = compare(name)
        lloyd, hamerly = result["seconds"]["lloyd"], result["seconds"]["hamerly"]
        ratio = f"{lloyd / hamerly:.2f}"
        table.add_row(name, str(result["n_steps"]), f"{lloyd:.3f}", f"{hamerly:.3f}", ratio, str(result["is_equal"]))
    console.print(table)
    path = Path(__file__).parent / "results" / "algorithms.json"
    path.write_text(json.dumps({"machine": measure.machine(), "workloads": results}, indent=1) + "\n")


if __name__ == "__main__":
    main()
