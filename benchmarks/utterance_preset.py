"""Thresholds of `Links` for whole utterances: tuned on half of the speakers, measured on the other half, both ways.

Ten speakers say ten utterances each, and 50 others say one each: a stream of both asks for speakers to be found again
and for strangers to be told apart.

    python -m benchmarks.utterance_preset

Needs the folder of shared data (ARMILLARY_SHARED_DATA). Writes results/utterance_preset.json.
"""

from __future__ import annotations

import json
import math
import os
from pathlib import Path

import numpy as np

from armillary import Links, tune_links
from armillary.metrics import matched_accuracy_score

PROJECT = Path(__file__).parents[1]
SHARED = Path(os.environ.get("ARMILLARY_SHARED_DATA", PROJECT.parent / "shared" / "data"))
RESULT = PROJECT / "benchmarks" / "results" / "utterance_preset.json"
N_ORDERS, N_STRANGERS = 5, 50


def orders_of(n_rows: int, seed: int) -> np.ndarray:
    """Streams of the same rows."""
    draws = np.random.default_rng(seed)
    return np.stack([draws.permutation(n_rows) for _ in range(N_ORDERS)])


def measured(rows: np.ndarray, speakers: np.ndarray, thresholds: tuple[float, float, float]) -> dict[str, float]:
    """Mean matched accuracy and number of ids over orders."""
    found = [
        (matched_accuracy_score(speakers[order], ids), len(set(ids.tolist())))
        for order in orders_of(len(rows), 7)
        for ids in [Links(*thresholds).partial_fit_predict(rows[order])]
    ]
    return {"accuracy": float(np.mean([one[0] for one in found])), "ids": float(np.mean([one[1] for one in found]))}


def main() -> None:
    """Tune, measure, store."""
    with np.load(SHARED / "voice_librispeech" / "test_other.npz") as archive:
        rows, speakers = archive["utterance_embeddings"].astype(np.float32), archive["utterance_speaker"]
    with np.load(SHARED / "voice_librispeech" / "train_clean.npz") as archive:
        others, whose = archive["utterance_embeddings"].astype(np.float32), archive["utterance_speaker"]
    n_own = len(rows)
    rows = np.concatenate([rows, others[:N_STRANGERS]])
    speakers = np.concatenate([speakers, whose[:N_STRANGERS] + speakers.max() + 1])
    known = np.unique(speakers)
    cuts = {"first": np.isin(speakers, known[::2]), "second": np.isin(speakers, known[1::2])}
    cuts["all"] = np.ones(len(speakers), dtype=bool)
    lines = {}
    for name, is_in in cuts.items():
        table = tune_links(rows[is_in], speakers[is_in], orders=orders_of(int(is_in.sum()), 1))
        thresholds = (
            math.floor(1000 * table.best[0]) / 1000,  # so that the third stays above its square
            *(math.ceil(1000 * value) / 1000 for value in table.best[1:3]),
        )
        lines[name] = {
            "thresholds": thresholds,
            "tuned": table.best.accuracy,
            "others": measured(rows[~is_in], speakers[~is_in], thresholds) if not is_in.all() else None,
            "251 speakers, one utterance each": measured(others, whose, thresholds),
            "ten speakers alone": measured(rows[:n_own], speakers[:n_own], thresholds),
        }
        print(name, lines[name])
    RESULT.write_text(json.dumps({"command": "python -m benchmarks.utterance_preset", "lines": lines}, indent=2) + "\n")


if __name__ == "__main__":
    main()
