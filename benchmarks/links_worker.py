"""linkscluster and river in an environment of their own. Reads requests and writes replies, one JSON a line.

    {"peer": "linkscluster", "rows": "rows.npy", "parameters": [0.75, 0.65, 0.7], "ids": "i.npy", "times": "t.npy"}
    ->  {"seconds": ..., "n_subclusters": ...}

`ids` gets the answer to each vector and `times` the seconds it took. `benchmarks/links_peers.py` starts it.
"""

import json
import sys
import time
import warnings

import numpy as np


def linkscluster(rows, parameters):
    """Vectors one after the other, as its `predict_next` takes them."""
    from linkscluster import LinksClusterer

    model = LinksClusterer(*parameters)
    return model.predict_next, lambda: model.n_subclusters_


def dbstream(rows, parameters):
    """river's DBSTREAM; a vector is answered by `predict_one` after it was learned."""
    from river.cluster import DBSTREAM

    model = DBSTREAM(**parameters)
    names = list(range(rows.shape[1]))

    def learn(row):
        x = dict(zip(names, row.tolist(), strict=True))
        model.learn_one(x)
        return model.predict_one(x)

    return learn, lambda: len(model.micro_clusters)


PEERS = {"linkscluster": linkscluster, "dbstream": dbstream}


def main() -> None:
    """Serve until the input ends."""
    warnings.simplefilter("ignore")
    for line in sys.stdin:
        request = json.loads(line)
        rows = np.load(request["rows"])[: request.get("n_rows")]
        learn, count = PEERS[request["peer"]](rows, request["parameters"])
        ids, times = np.empty(len(rows), np.int64), np.empty(len(rows))
        begin = time.perf_counter()
        for number, row in enumerate(rows):
            start = time.perf_counter()
            ids[number] = learn(row)
            times[number] = time.perf_counter() - start
        seconds = time.perf_counter() - begin
        np.save(request["ids"], ids)
        np.save(request["times"], times)
        print(json.dumps({"seconds": seconds, "n_subclusters": count()}), flush=True)


if __name__ == "__main__":
    main()
