"""evoc in an environment of its own: it compiles with other versions than ours. One request and one reply a line, JSON.

    {"rows": "rows.npy", "labels": "labels.npy", "seed": 0}  ->  {"seconds": ...}

Needs numpy and evoc only; `benchmarks/defaults.py` starts it. A set that evoc refuses is answered with {"error": ...}.
"""

import json
import sys
import time
import warnings

import evoc
import numpy as np


def main() -> None:
    """Serve until the input ends."""
    warnings.simplefilter("ignore")
    for line in sys.stdin:
        request = json.loads(line)
        rows = np.load(request["rows"])
        start = time.perf_counter()
        try:
            labels = evoc.EVoC(random_state=request["seed"]).fit_predict(rows)
        except ValueError as error:
            print(json.dumps({"error": str(error)}), flush=True)
            continue
        np.save(request["labels"], labels)
        print(json.dumps({"seconds": time.perf_counter() - start}), flush=True)


if __name__ == "__main__":
    main()
