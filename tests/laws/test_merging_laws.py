"""Laws of merges and of labels that hold on to the last frame: the order of frames, resuming, events replayed."""

from __future__ import annotations

import math

import numpy as np
import pytest

import armillary
from armillary import DDPvMFMeans
from armillary.vision import Camera, LastFrame, Normals
from armillary.vision.motion import ViewMotion
from armillary.vision.steady import LookBack, steady_labels
from armillary.workers import Workers

SEEDS = range(3)
N_STEPS = 16


def rows_about(directions, rng, n=60, spread=0.12):
    """Rows near directions (K, 3), n for each."""
    rows = np.repeat(directions, n, axis=0) + rng.normal(0.0, spread, (n * len(directions), 3))
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def crowd(step, rng):
    """Nine directions that draw together in threes, of which some are out of sight now and then."""
    corners = np.eye(3)[:, None]
    angles = np.array([0.0, 2.0, 4.0])
    apart = max(0.05, 0.6 - 0.05 * step)
    one, other = np.roll(np.eye(3), 1, axis=0)[:, None], np.roll(np.eye(3), 2, axis=0)[:, None]
    around = np.cos(angles)[None, :, None] * one + np.sin(angles)[None, :, None] * other
    directions = (corners + apart * around).reshape(-1, 3)
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    return rows_about(directions[rng.random(9) < 0.8], rng)


def stream(**settings):
    return DDPvMFMeans(0.4, drift_concentration=50.0, max_unseen_steps=6, merge_angle=0.4, **settings)


@pytest.mark.parametrize("seed", SEEDS)
def test_events_replayed_give_the_map_of_ids(seed):
    rng, model = np.random.default_rng(seed), stream()
    onward: dict[int, int] = {}
    n_merges = 0
    for step in range(N_STEPS):
        model.partial_fit(crowd(step, rng))
        record = model.record()
        for born in record.births:
            onward[born] = born
        for gone, kept in record.merges:
            onward = {past: kept if now == gone else now for past, now in onward.items()}
        for dead in record.deaths:
            onward = {past: -1 if now == dead else now for past, now in onward.items()}
        n_merges += len(record.merges)
        past = np.array(sorted(onward))
        np.testing.assert_array_equal(model.current_ids(past), [onward[number] for number in past.tolist()])
        assert set(onward.values()) - {-1} == set(model.cluster_ids_.tolist())
        assert all(kept < gone for gone, kept in record.merges)  # the older id stays
    assert n_merges >= 4


@pytest.mark.parametrize("seed", SEEDS)
def test_a_stream_resumed_at_any_step_has_equal_bits(seed, tmp_path):
    frames = [crowd(step, np.random.default_rng([seed, step])) for step in range(N_STEPS)]
    whole, resumed = stream(), stream()
    for step, rows in enumerate(frames):
        expected, labels = whole.partial_fit_predict(rows), resumed.partial_fit_predict(rows)
        np.testing.assert_array_equal(labels, expected)
        armillary.save(resumed, tmp_path / f"{step}.safetensors")
        resumed = armillary.load(tmp_path / f"{step}.safetensors")
    for name in ("cluster_centers_", "memory_weights_", "cluster_ids_", "merges_", "history_"):
        assert getattr(resumed, name).tobytes() == getattr(whole, name).tobytes()


@pytest.mark.parametrize("seed", SEEDS)
def test_frames_that_do_not_show_a_pair_may_come_in_any_order(seed):
    """They neither hasten nor hinder its merge: it comes at the frame with the pair at which it would come without."""
    rng = np.random.default_rng(seed)
    pairs = []
    for degrees in (80.0, 60.0, 40.0, 24.0, 12.0, 12.0, 12.0, 12.0, 12.0):
        turned = [[math.cos(math.radians(degrees)), math.sin(math.radians(degrees)), 0.0]]
        pairs.append(rows_about(np.array([[1.0, 0.0, 0.0], *turned]), rng, spread=0.1))
    other = rows_about(np.array([[0.0, 0.0, 1.0]]), rng)
    told = []
    for places in ((), rng.integers(0, len(pairs), 5), rng.integers(3, len(pairs), 8)):
        model, merges = DDPvMFMeans(0.9, drift_concentration=5.0, merge_angle=0.7, max_unseen_steps=400), {}
        for number, rows in enumerate(pairs):
            for _ in range(int(np.count_nonzero(np.asarray(places) == number))):
                model.partial_fit(other)
                assert model.record().merges == ()
            model.partial_fit(rows)
            if model.record().merges:
                merges[number] = model.record().merges
        told.append(merges)
    assert told[0]
    assert told[0] == {next(iter(told[0])): ((1, 0),)}
    assert told[1] == told[2] == told[0]


CAMERA = Camera.from_field_of_view(40, 30, math.radians(60.0))
STEADINESS = 0.3
REST = ViewMotion(np.eye(3), np.zeros(3), 1.0)


def labelled(frames, directions):
    """Labels of the last of frames that one camera at rest sees one after the other."""
    depth, ids, back = np.ones((30, 40), np.float32), np.arange(len(directions)), None
    with Workers(1) as workers:
        for vectors in frames:
            normals = Normals(vectors, np.ones((30, 40), bool))
            labels = steady_labels(normals, ids, directions, depth, back, 0.03, workers)
            back = LookBack(LastFrame(labels, depth), REST, CAMERA, STEADINESS)
    return labels


@pytest.mark.parametrize("seed", SEEDS)
def test_the_order_of_past_frames_matters_within_the_penalty_only(seed):
    rng = np.random.default_rng(seed)
    directions = rows_about(np.eye(3), rng, n=2, spread=0.3)
    images = [
        rows_about(rng.standard_normal((1200, 3)), rng, n=1).reshape(30, 40, 3).astype(np.float32) for _ in "abcd"
    ]
    cosines = images[-1].astype(np.float64) @ directions.T
    in_order = np.sort(cosines, axis=2)
    is_sure = in_order[..., -1] - in_order[..., -2] > STEADINESS + 1e-6
    found = [
        labelled([*(images[place] for place in order), images[-1]], directions) for order in ([0, 1, 2], [2, 0, 1])
    ]
    assert 0.05 < is_sure.mean() < 0.9  # the case tests something
    for labels in found:
        np.testing.assert_array_equal(labels[is_sure], cosines.argmax(axis=2)[is_sure])
        lost = in_order[..., -1] - np.take_along_axis(cosines, labels[..., None], 2)[..., 0]
        assert lost.max() <= STEADINESS + 1e-6
        assert lost.max() > 0.5 * STEADINESS  # the penalty holds something
    assert 0.0 < (found[0] != found[1])[~is_sure].mean() < 0.5


@pytest.mark.parametrize("seed", SEEDS)
def test_a_frame_seen_again_changes_no_label(seed):
    rng = np.random.default_rng(seed)
    directions = rows_about(np.eye(3), rng, n=2, spread=0.3)
    one, other = (
        rows_about(rng.standard_normal((1200, 3)), rng, n=1).reshape(30, 40, 3).astype(np.float32) for _ in "ab"
    )
    np.testing.assert_array_equal(labelled([one, other], directions), labelled([one, other, other, other], directions))
