"""`stream --preset`, `--tune-on` and `--labels`; the warning where one cluster swallows a stream."""

from __future__ import annotations

import json

import numpy as np
import pytest

from armillary import LINK_PRESETS
from armillary.cli.stream import PRESET_NAMES
from armillary.datasets import make_vmf_mixture


@pytest.fixture
def people(tmp_path):
    """rows.npy of 4 people whose vectors are near each other, known.npy of the same people, and whose those are."""
    X, labels, _ = make_vmf_mixture(400, 64, 4, concentration=400.0, min_angle=0.9, random_state=0, dtype=np.float32)
    X += 0.25  # as embedders do: all cosines are high
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    np.save(tmp_path / "rows.npy", X[:200])
    np.save(tmp_path / "known.npy", X[200:])
    np.save(tmp_path / "whose.npy", labels[200:])
    return labels[:200]


def ids_of(done):
    return np.array([json.loads(line)["cluster"] for line in done.out.splitlines()])


def test_help_names_the_presets_that_there_are():
    assert tuple(LINK_PRESETS) == PRESET_NAMES


def test_a_preset_sets_the_thresholds(cli, people):
    done = cli("stream", "rows.npy", "--preset", "faces", "--state", "s")
    assert done.code == 0
    assert f"Thresholds for {LINK_PRESETS['faces'].vectors}; measured:" in done.err
    model = LINK_PRESETS["faces"].model()
    assert np.array_equal(ids_of(done), model.partial_fit_predict(np.load("rows.npy")))
    again = cli("stream", "known.npy", "--preset", "sentences", "--state", "s")
    assert "The state 's' has its thresholds; --preset is not looked at." in again.err
    assert again.code == 0


def test_thresholds_are_tuned_on_labelled_vectors(cli, people):
    done = cli("stream", "rows.npy", "--tune-on", "known.npy", "--labels", "whose.npy")
    assert done.code == 0
    assert "tuned on 200 vectors of 4 labels: matched accuracy 1.000 on them, 4 ids." in done.err
    ids = ids_of(done)
    assert (
        len({*zip(ids.tolist(), people.tolist(), strict=True)}) == len(set(people.tolist())) == len(set(ids.tolist()))
    )


def test_a_cluster_that_swallows_the_stream_is_told(cli, people):
    done = cli("stream", "rows.npy")
    assert len(set(ids_of(done).tolist())) == 1
    assert "Note: Cluster 0 took 200 of 200 rows, and no threshold was given" in done.err
    given = cli("stream", "rows.npy", "--set", "cluster_similarity_threshold=0.75")
    assert "swallow" not in given.err
    assert "no threshold was given" not in given.err


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--preset", "cats"], "--preset must be one of 'voice windows, few speakers', "),
        (["--tune-on", "known.npy"], "--tune-on needs to know whose vectors 'known.npy' has; got no --labels."),
        (["--labels", "whose.npy"], "--labels belongs to --tune-on in a stream; got it alone."),
        (["--preset", "faces", "--tune-on", "known.npy"], "--preset or from --tune-on; got both."),
        (
            ["--preset", "faces", "-m", "ddp", "--max-angle", "3"],
            "--preset belongs to the model links; got --model ddp",
        ),
    ],
)
def test_sentences(cli, people, options, sentence):
    done = cli("stream", "rows.npy", *options)
    assert done.code == 2
    assert sentence in done.sentence
