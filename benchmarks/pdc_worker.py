"""pdc-dp-means in an environment of its own: its pins exclude ours. Reads requests and writes replies, one JSON a line.

    {"rows": "rows.npy", "delta": 0.5, "labels": "labels.npy"}  ->  {"seconds": ..., "n_clusters": ..., "n_iter": ...}

Needs numpy and pdc-dp-means only; `benchmarks/dp_means.py` starts it. Threads are set by OMP_NUM_THREADS.
"""

import json
import sys
import time
import warnings

import numpy as np
from pdc_dp_means import DPMeans


def main() -> None:
    """Serve until the input ends."""
    warnings.simplefilter("ignore")
    stored: dict[str, np.ndarray] = {}
    for line in sys.stdin:
        request = json.loads(line)
        path = request["rows"]
        if path not in stored:
            stored[path] = np.load(path)
        model = DPMeans(n_clusters=1, delta=request["delta"], n_init=1, max_iter=1000, random_state=0)
        start = time.perf_counter()
        model.fit(stored[path])
        seconds = time.perf_counter() - start
        np.save(request["labels"], model.labels_)
        reply = {"seconds": seconds, "n_clusters": len(model.cluster_centers_), "n_iter": int(model.n_iter_)}
        print(json.dumps(reply), flush=True)


if __name__ == "__main__":
    main()
