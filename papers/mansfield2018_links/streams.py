"""Recorded embeddings as labelled streams, cut in two halves by person: one to tune on, one to test on."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np

sys.path.append(str(Path(__file__).parents[2]))  # what papers share
from papers.common import unit


class Stream(NamedTuple):
    """Vectors of persons; those of one recording stay together, in their order."""

    rows: np.ndarray  # (n, D) float32, unit
    persons: np.ndarray  # (n,) from 0
    recordings: np.ndarray  # (n,) from 0

    def take(self, chosen: np.ndarray) -> Stream:
        """Some of the vectors."""
        persons, recordings = (np.unique(codes[chosen], return_inverse=True)[1] for codes in self[1:])
        return Stream(self.rows[chosen], persons, recordings)

    @property
    def n_persons(self) -> int:
        """How many."""
        return int(self.persons.max()) + 1

    def order(self, seed: int) -> np.ndarray:
        """Recordings in a random order, vectors of each in time: row numbers (n,)."""
        rank = np.random.default_rng(seed).permutation(int(self.recordings.max()) + 1)
        return np.lexsort((np.arange(len(self.rows)), rank[self.recordings]))

    def halves(self, seed: int = 0) -> tuple[Stream, Stream]:
        """Two streams without a person in common."""
        drawn = np.random.default_rng(seed).permutation(self.n_persons)[: self.n_persons // 2]
        is_first = np.isin(self.persons, drawn)
        return self.take(np.flatnonzero(is_first)), self.take(np.flatnonzero(~is_first))


def _unit(rows: np.ndarray) -> np.ndarray:
    return unit(rows.astype(np.float32))


def _codes(values: np.ndarray) -> np.ndarray:
    return np.unique(values, return_inverse=True)[1]


def _voices(folder: Path, name: str) -> Stream:
    stored = np.load(folder / "voice_librispeech" / f"{name}.npz")
    rows = _unit(stored["window_embeddings"])
    return Stream(rows, _codes(stored["window_speaker"]), _codes(stored["window_utterance"]))


def _faces(folder: Path, name: str) -> Stream:
    stored = np.load(folder / "face_lfw" / "embeddings.npz")
    rows = _unit(stored[name])
    return Stream(rows, _codes(stored["person"]), np.arange(len(rows)))  # every picture by itself


SETS = {
    "voices of 251 speakers": lambda folder: _voices(folder, "train_clean"),
    "voices of 10 speakers": lambda folder: _voices(folder, "test_other"),
    "faces, centred": lambda folder: _faces(folder, "embeddings_centred"),
    "faces, as they come": lambda folder: _faces(folder, "embeddings"),
}


def drawn(seed: int = 0) -> Stream:
    """A stand-in where there is no recorded data: 12 directions, 5 recordings of 8 vectors of each."""
    generator = np.random.default_rng(seed)
    centers = _unit(generator.normal(size=(12, 64)))
    recordings = np.repeat(np.arange(60), 8)
    rows = _unit(centers[recordings // 5] + 0.08 * generator.normal(size=(480, 64)))
    return Stream(rows, recordings // 5, recordings)
