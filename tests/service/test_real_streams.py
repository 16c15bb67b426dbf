"""Voices and faces through the service, with pauses, restarts and frames: the ids of the library, and no others."""

from __future__ import annotations

import os
import time
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from tests.service.making import create, npy, served

from armillary.metrics import matched_accuracy_score
from armillary.service.models import described, made

SHARED = Path(os.environ.get("ARMILLARY_SHARED_DATA", Path(__file__).parents[3] / "shared" / "data"))
VOICES = SHARED / "voice_librispeech" / "test_other.npz"
FACES = SHARED / "face_lfw" / "embeddings.npz"
NPY = {"content-type": "application/x-npy"}
HERE = "/v1/collections/people"


def library(preset):
    """The model that a collection of a preset gets."""
    return made(described({"preset": preset}))


def asked(folder, preset, parts, *, n_restarts=3):
    """Ids of parts of a stream, frames beside; the server ends and starts again between some of them."""
    stops = np.linspace(0, len(parts), n_restarts + 2).astype(int)
    ids, seen = [], None
    for start, stop in pairwise(stops):
        with served(folder, snapshot_vectors=300) as client:
            if not start:
                create(client, preset=preset)
            elif seen is not None:  # who was known before is known by the same id
                again = client.post(f"{HERE}/lookup", content=npy(seen[0]), headers=NPY).json()["ids"]
                assert again == seen[1]
            for rows, frames in parts[start:stop]:
                body = {} if frames is None else {"vectors": rows.tolist(), "frames": frames}
                sent = {"content": npy(rows), "headers": NPY} if frames is None else {"json": body}
                answer = client.post(f"{HERE}/vectors", **sent)
                assert answer.status_code == 200, answer.text
                ids += answer.json()["ids"]
            time.sleep(0.3)  # a pause: what followed is written, the log brought home
            known = parts[start][0]
            seen = known, client.post(f"{HERE}/lookup", content=npy(known), headers=NPY).json()["ids"]
    return np.array(ids)


@pytest.mark.skipif(not VOICES.exists(), reason="needs shared/data")
def test_voices_get_the_ids_of_the_library(tmp_path):
    content = np.load(VOICES)
    pieces = content["window_utterance"]
    order = np.random.default_rng(0).permutation(np.unique(pieces))
    chosen = [np.flatnonzero(pieces == piece) for piece in order]  # one request for each utterance
    rows = content["window_embeddings"].astype(np.float32)
    preset = "voice windows, few speakers"
    ids = asked(tmp_path, preset, [(rows[part], None) for part in chosen])
    truth = np.unique(content["window_speaker"], return_inverse=True)[1][np.concatenate(chosen)]
    expected = library(preset).fit_predict(rows[np.concatenate(chosen)])
    np.testing.assert_array_equal(ids, expected)
    assert matched_accuracy_score(truth, ids) > 0.95


@pytest.mark.skipif(not FACES.exists(), reason="needs shared/data")
def test_faces_of_photos_get_the_ids_of_the_library_and_no_photo_one_id_twice(tmp_path):
    content = np.load(FACES)
    generator = np.random.default_rng(1)
    order = generator.permutation(len(content["person"]))[:900]
    rows, truth = content["embeddings"][order].astype(np.float32), content["person"][order]
    photos = np.arange(900) // 3  # three faces each; of a person who is in one twice the second is left out
    _, first = np.unique(np.stack([photos, truth]), axis=1, return_index=True)
    kept = np.sort(first)
    rows, truth, photos = rows[kept], truth[kept], photos[kept]
    cuts = [0, *sorted(generator.choice(np.arange(1, len(rows)), 40, replace=False).tolist()), len(rows)]
    parts = [
        (rows[start:stop], [f"photo {photo}" for photo in photos[start:stop]])  # photos go on in the next request
        for start, stop in pairwise(cuts)
    ]
    ids = asked(tmp_path, "faces", parts)
    expected = library("faces").partial_fit_predict(rows, frames=photos)
    np.testing.assert_array_equal(ids, expected)
    assert len({*zip(photos.tolist(), ids.tolist(), strict=True)}) == len(ids)
    assert matched_accuracy_score(truth, ids) > 0.9
