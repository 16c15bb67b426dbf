"""Will the model of today answer alike tomorrow? Saving, loading, looking inside, going on.

    python examples/saving.py

A saved model is one safetensors file: arrays and a JSON header, no pickle, so it is safe to open and other languages
read it. A loaded model predicts to the bit what the saved one did, and learns on.

It prints:

    the same labels:  True
    the same settings: True
    inside: cluster_centers_ [8, 32], counts_ [8], labels_ [2000], offsets_ [8], resultants_ [8, 32]
    header: ['armillary_version', 'class', 'fields', 'format', 'params', 'schema_version', 'sha256', 'state']
    rows behind its directions, before and after one more batch: 2000.0 3000.0
    a file cut short: load reads whole files; 'model.safetensors' is cut short or damaged
"""

import json
import tempfile
from pathlib import Path

import numpy as np
from safetensors import safe_open

import armillary
from armillary.datasets import make_vmf_mixture


def main() -> None:
    """Fit, save, load, compare; learn one more batch; and what a broken file says."""
    rows, _, _ = make_vmf_mixture(3_000, 32, 8, concentration=60.0, random_state=0)
    model = armillary.SphericalKMeans(8, random_state=0).fit(rows[:2_000])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.safetensors"
        armillary.save(model, path)
        loaded = armillary.load(path)
        print("the same labels: ", np.array_equal(loaded.predict(rows), model.predict(rows)))
        print("the same settings:", loaded.get_params() == model.get_params())

        with safe_open(path, framework="numpy") as file:
            print("inside:", ", ".join(f"{name} {file.get_slice(name).get_shape()}" for name in sorted(file.keys())))
            print("header:", sorted(json.loads(file.metadata()["armillary"])))

        loaded.partial_fit(rows[2_000:])
        print("rows behind its directions, before and after one more batch:", model.counts_.sum(), loaded.counts_.sum())

        path.write_bytes(path.read_bytes()[:-100])
        try:
            armillary.load(path)
        except ValueError as error:
            sentence = str(error).replace(str(path), path.name).partition(" (")[0]
            print(f"a file cut short: {sentence}")


if __name__ == "__main__":
    main()
