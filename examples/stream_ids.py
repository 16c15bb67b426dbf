"""Which group is this, and have I seen it before? A stream of batches with ids that last.

    python examples/stream_ids.py

`DDPvMFMeans` takes a batch at a time. Groups drift from batch to batch; one stays away for three batches and comes back
under the id it had. A model that was saved in the middle goes on as if nothing had happened.

It prints:

    batch 0: ids [0, 1, 2, 3], 4 of 4 groups under one id
    batch 1: ids [0, 1, 2, 3], 4 of 4 groups under one id
    batch 2: ids [0, 1, 2, 3], 4 of 4 groups under one id
    batch 3: ids [0, 1, 3], 3 of 3 groups under one id
    batch 4: ids [0, 1, 3], 3 of 3 groups under one id
    saved, loaded, and on
    batch 5: ids [0, 1, 3], 3 of 3 groups under one id
    batch 6: ids [0, 1, 2, 3], 4 of 4 groups under one id, back: (2,)
    batch 7: ids [0, 1, 2, 3], 4 of 4 groups under one id
    batch 8: ids [0, 1, 2, 3], 4 of 4 groups under one id
    batch 9: ids [0, 1, 2, 3], 4 of 4 groups under one id
"""

import tempfile
from pathlib import Path

import numpy as np

import armillary
from armillary.datasets import make_drifting_mixture


def main() -> None:
    """Ten batches; the model is saved and loaded after the fifth."""
    is_present = [[True, step not in (3, 4, 5), True, True] for step in range(10)]
    batches, truth, _ = make_drifting_mixture(
        400, 16, 4, 10, concentration=150.0, rotation=0.03, is_present=is_present, min_angle=1.2, random_state=0
    )
    model = armillary.DDPvMFMeans(max_angle=0.8, max_unseen_steps=5)
    for step, (rows, labels) in enumerate(zip(batches, truth, strict=True)):
        ids = model.partial_fit_predict(rows)
        seen = np.unique(ids).tolist()
        n_right = sum(len(np.unique(ids[labels == group])) == 1 for group in np.unique(labels))
        back = f", back: {model.record().revivals}" if model.record().revivals else ""
        print(f"batch {step}: ids {seen}, {n_right} of {len(np.unique(labels))} groups under one id{back}")
        if step == 4:
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / "stream.safetensors"
                armillary.save(model, path)
                model = armillary.load(path)
            print("saved, loaded, and on")


if __name__ == "__main__":
    main()
