"""Surplus ids of `Links` on voices and faces, without merging, by edges and by whole clusters.

    python -m benchmarks.link_merging --data shared/data      # into benchmarks/results/link_merging.json

Five orders each: utterances in any order, faces in any order. Presets as they are. Merging was chosen on these sets, so
its numbers are those of a choice among a few settings, not of unseen data. `ids` are those of answers as they go now.
"""

from __future__ import annotations

import argparse
import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from armillary import LINK_PRESETS
from armillary.metrics import matched_accuracy_score

RESULTS = Path(__file__).parent / "results" / "link_merging.json"
SETS = (
    ("voices, 10 speakers", "voice_librispeech/test_other.npz", "window", "voice windows, few speakers"),
    ("voices, 251 speakers", "voice_librispeech/train_clean.npz", "window", "voice windows, many speakers"),
    ("faces", "face_lfw/embeddings.npz", "embeddings", "faces"),
    ("faces, centred", "face_lfw/embeddings.npz", "embeddings_centred", "faces, centred"),
)
N_ORDERS = 5


def rows_of(data: Path, file: str, kind: str) -> tuple[Any, Any, Any]:
    """Unit rows, who they are, and what comes in one piece, or None."""
    content = np.load(data / file)
    name = "window_embeddings" if kind == "window" else kind
    rows = content[name].astype(np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    if kind == "window":
        return rows, content["window_speaker"], content["window_utterance"]
    return rows, content["person"], None


def order(pieces: Any, n_rows: int, seed: int) -> Any:
    """A stream: pieces in any order, or rows."""
    generator = np.random.default_rng(seed)
    if pieces is None:
        return generator.permutation(n_rows)
    return np.concatenate([np.flatnonzero(pieces == piece) for piece in generator.permutation(np.unique(pieces))])


def main() -> None:
    """Measure, print and store."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.link_merging")
    parser.add_argument("--data", type=Path, required=True)
    data = parser.parse_args().data
    lines = []
    for title, file, kind, preset in SETS:
        rows, who, pieces = rows_of(data, file, kind)
        truth = np.unique(who, return_inverse=True)[1]
        for merging in (False, True, "whole"):
            found = []
            for seed in range(N_ORDERS):
                chosen = order(pieces, len(rows), seed)
                model = LINK_PRESETS[preset].model(merge_clusters=merging)
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    ids = model.fit_predict(rows[chosen])
                now = model.current_ids(ids)
                accuracy = [matched_accuracy_score(truth[chosen], answers) for answers in (ids, now)]
                found.append([*accuracy, len(np.unique(now))])
            at_once, later, n_ids = np.mean(found, axis=0).tolist()
            n_persons = int(truth.max()) + 1
            lines.append(
                {
                    "set": title,
                    "persons": n_persons,
                    "merge_clusters": merging,
                    "accuracy_at_once": round(at_once, 4),
                    "accuracy_now": round(later, 4),
                    "ids": round(n_ids, 1),
                    "surplus": round(n_ids / n_persons - 1.0, 3),
                }
            )
            print(json.dumps(lines[-1]), flush=True)
    RESULTS.write_text(
        json.dumps({"command": "python -m benchmarks.link_merging --data shared/data", "lines": lines}, indent=1) + "\n"
    )


if __name__ == "__main__":
    main()
