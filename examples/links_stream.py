"""Who is speaking: `Links` in a loop of the kind that river's users write, one vector at a time.

    python examples/links_stream.py

`Links` takes arrays. river hands out dictionaries; `FromFeatures` turns them into arrays, so that the model stands
where a clusterer of river would: predict, compare, learn.

It prints:

    vector 1: a new voice, number 0
    vector 2: a new voice, number 1
    vector 3: a new voice, number 2
    117 of 120 vectors were expected; 3 voices, 3 speakers
    the first vector: Ada, margin +0.18
    the first vector: 2, margin -0.75
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from armillary import Links
from armillary.datasets import make_vmf_mixture
from armillary.kernels.links.records import Fate


class FromFeatures:
    """A clusterer of arrays as one of dictionaries: features are taken in the order of the first one's keys."""

    def __init__(self, clusterer: Any) -> None:
        self.clusterer = clusterer
        self.keys: list[Any] = []

    def learn_one(self, x: Mapping[Any, float]) -> int:
        """Learn, and answer at once."""
        self.keys = self.keys or list(x)
        return self.clusterer.learn_one(self._array(x))

    def predict_one(self, x: Mapping[Any, float]) -> int:
        """The cluster as far as is known; -1 for a newcomer."""
        return self.clusterer.predict_one(self._array(x)) if self.keys else -1

    def _array(self, x: Mapping[Any, float]) -> np.ndarray:
        if set(x) != set(self.keys):
            raise ValueError(f"Every vector must have the features {self.keys}; got {list(x)}.")
        return np.array([x[key] for key in self.keys])


def dictionaries(rows: np.ndarray) -> Iterable[dict[str, float]]:
    """As river's streams give vectors."""
    for row in rows:
        yield {f"x{number}": float(value) for number, value in enumerate(row)}


def main() -> Links:
    """A stream of three speakers; the first is given a name, and newcomers are announced."""
    rows, speakers, _ = make_vmf_mixture(120, 64, 3, concentration=200.0, min_angle=1.0, random_state=0)
    model = Links()
    stream = FromFeatures(model)
    n_agree = 0
    for number, x in enumerate(dictionaries(rows), start=1):
        expected = stream.predict_one(x)
        answered = stream.learn_one(x)
        n_agree += expected == answered
        for event in model.events(since=number - 1):
            if event.fate is Fate.BIRTH:
                print(f"vector {event.vector}: a new voice, number {event.id}")
    model.name(0, "Ada")
    print(f"{n_agree} of {len(rows)} vectors were expected; {model.n_clusters_} voices, {len(set(speakers))} speakers")
    for one in model.alternatives(rows[0], k=2):
        print(f"the first vector: {model.names.get(one.id, one.id)}, margin {one.margin:+.2f}")
    return model


if __name__ == "__main__":
    main()
