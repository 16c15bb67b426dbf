"""Surplus ids of `Links` on voices and faces: without merging, by edges, by whole clusters, and with lone vectors.

    python -m benchmarks.link_merging --data shared/data      # into benchmarks/results/link_merging.json

Persons are cut into halves ten times; each half is a stream of its own in three orders: utterances in any order, faces
in any order. Presets as they are. The constants of merging were chosen on faces of these sets under other cuts, so the
cuts are new and the persons are not; of voices nothing was chosen but that few clusters count as 32. `ids` are those of
answers as they go now. `strangers_taken`: of one vector each of the persons of the other half, strewn into the stream,
the share that ends under an id with others.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Iterator
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
N_CUTS, N_ORDERS = 10, 3


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


def streams(rows: Any, truth: Any, pieces: Any) -> Iterator[tuple[Any, Any, int]]:
    """Rows of one half of the persons in an order; the same with strangers strewn in; how many persons."""
    for cut in range(N_CUTS):
        generator = np.random.default_rng(300 + cut)
        people = generator.permutation(truth.max() + 1)
        parts = people[: len(people) // 2], people[len(people) // 2 :]
        for half, rest in (parts, parts[::-1]):
            chosen = np.flatnonzero(np.isin(truth, half))
            lone = np.array([generator.choice(np.flatnonzero(truth == person)) for person in rest])
            for seed in range(N_ORDERS):
                one = chosen[order(None if pieces is None else pieces[chosen], len(chosen), seed)]
                yield one, np.insert(one, np.sort(generator.integers(0, len(one), len(lone))), lone), len(half)


def measured(rows: Any, truth: Any, pieces: Any, preset: str, merging: Any) -> Any:
    """Accuracy at once and now, surplus and strangers taken, of each stream."""
    found = []
    for plain, strewn, n_persons in streams(rows, truth, pieces):
        answers = []
        for chosen in (plain, strewn):
            model = LINK_PRESETS[preset].model(merge_clusters=merging)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                ids = model.fit_predict(rows[chosen])
            answers.append((ids, model.current_ids(ids)))
        accuracy = [matched_accuracy_score(truth[plain], ids) for ids in answers[0]]
        is_stranger = ~np.isin(truth[strewn], truth[plain])
        now = answers[1][1]
        codes, counts = np.unique(now, return_inverse=True, return_counts=True)[1:]
        taken = np.mean(counts[codes[is_stranger]] > 1)
        found.append([*accuracy, len(np.unique(answers[0][1])) / n_persons - 1.0, taken])
    return np.array(found)


def main() -> None:
    """Measure, print and store."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.link_merging")
    parser.add_argument("--data", type=Path, required=True)
    data = parser.parse_args().data
    lines = []
    for title, file, kind, preset in SETS:
        rows, who, pieces = rows_of(data, file, kind)
        truth = np.unique(who, return_inverse=True)[1]
        for merging in (False, True, "whole", "lone"):
            found = measured(rows, truth, pieces, preset, merging)
            mean, most = found.mean(axis=0), found.max(axis=0)
            lines.append(
                {
                    "set": title,
                    "merge_clusters": merging,
                    "accuracy_at_once": round(float(mean[0]), 4),
                    "accuracy_now": round(float(mean[1]), 4),
                    "surplus": round(float(mean[2]), 3),
                    "most_surplus": round(float(most[2]), 3),
                    "strangers_taken": round(float(mean[3]), 3),
                }
            )
            print(json.dumps(lines[-1]), flush=True)
    RESULTS.write_text(
        json.dumps({"command": "python -m benchmarks.link_merging --data shared/data", "lines": lines}, indent=1) + "\n"
    )


if __name__ == "__main__":
    main()
