"""Clusters of bounded size: the bound is met exactly, by one rule wherever the rows are."""

import os
import re
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from tests.laws.engines import ENGINES, one_piece
from tests.laws.toy_engine import Listed, register_toy
from tests.making import each, units

from armillary import SphericalKMeans, load, open_rows, save
from armillary.datasets import make_vmf_mixture
from armillary.exceptions import InputError, ParameterError
from armillary.fitting import balance
from armillary.rules import AffineRule

register_toy()
SHARED = Path(os.environ.get("ARMILLARY_SHARED_DATA", Path(__file__).parents[3] / "shared" / "data"))
BANKING = SHARED / "sent_banking77" / "embeddings.npz"


def tailed(n_rows=3000, n_features=8, n_clusters=12, dtype=np.float64, seed=0):
    """Clusters of very unequal sizes."""
    weights = 1.0 / np.arange(1, n_clusters + 1) ** 1.2
    rows, _, _ = make_vmf_mixture(
        n_rows, n_features, n_clusters, concentration=80.0, weights=weights / weights.sum(), random_state=seed
    )
    return rows.astype(dtype)


def balanced(**parameters):
    return SphericalKMeans(**{"n_clusters": 20, "balance": 1.2, "random_state": 0, **parameters})


def plainly_filled(rows, rule, most, together):
    """The rule of `balance.fill`, a row at a time."""
    scores = rows @ rule.directions.T + rule.offsets
    room = np.full(len(rule.offsets), most)
    labels = np.full(len(rows), -1)
    waiting = []
    for row, best in enumerate(scores.argmax(axis=1)):
        if room[best]:
            labels[row], room[best] = best, room[best] - 1
        else:
            waiting.append(row)
    for start in range(0, len(waiting), together):
        company = waiting[start : start + together]
        while company:
            again, left = [], room.copy()
            for row in company:
                best = np.where(room > 0, scores[row], -np.inf).argmax()
                if left[best]:
                    labels[row], left[best] = best, left[best] - 1
                else:
                    again.append(row)
            company, room = again, left
    return labels


@each("together", [3, 50, 1 << 16])
@each("most", [40, 45, 100])
def test_places_are_given_in_row_order(most, together):
    rows = tailed(400)
    directions = units(np.random.default_rng(1), 10, 8)
    rule = AffineRule(directions, np.random.default_rng(2).uniform(-0.2, 0.0, 10))
    with pytest.MonkeyPatch.context() as patch, one_piece("cpu", rows) as passes:
        patch.setattr(balance, "TOGETHER", together)
        labels = passes.labels()
        passes.label(rule, labels)
        n_moved = balance.fill(passes, labels, rule, most)
        wanted = plainly_filled(rows, rule, most, together)
        np.testing.assert_array_equal(labels.to_host(), wanted)
        assert n_moved == (wanted != (rows @ directions.T + rule.offsets).argmax(axis=1)).sum()
        assert np.bincount(wanted, minlength=10).max() <= most
        # sums that were known stay those of the labels
        np.testing.assert_array_equal(
            passes.sum(labels, 10).resultants, passes.sum(passes.labels_from(wanted), 10).resultants
        )


@pytest.mark.parametrize("name", list(ENGINES))
@pytest.mark.parametrize("is_sparse", [False, True])
def test_no_cut_changes_who_is_too_many(name, is_sparse):
    rows = tailed(300, 24)
    given = sp.csr_array(rows) if is_sparse else rows
    rule = AffineRule.cosines(units(np.random.default_rng(3), 7, 24))
    own = (rows @ rule.directions.T).argmax(axis=1)
    room = np.array([0, 5, 10, 300, 1, 40, 30])
    seen, wanted = np.zeros(7, dtype=int), []
    for row, label in enumerate(own):
        if seen[label] >= room[label]:
            wanted.append(row)
        seen[label] += 1
    for seed in range(3):
        with ENGINES[name](given, seed=seed) as passes:
            labels = passes.labels()
            passes.label(rule, labels)
            np.testing.assert_array_equal(labels.surplus(room), wanted)
            balance.fill(passes, labels, rule, 43)
            np.testing.assert_array_equal(labels.to_host(), plainly_filled(rows, rule, 43, 1 << 16))


@each("dtype", [np.float32, np.float64])
@each("bound", [1.0, 1.2, 50.0])
def test_the_bound_holds_exactly(bound, dtype):
    rows = tailed(1003, dtype=dtype)
    model = balanced(balance=bound).fit(rows)
    sizes = np.bincount(model.labels_, minlength=20)
    assert sizes.max() <= max(int(bound * 1003 / 20), -(-1003 // 20))
    assert sizes.min() > 0
    np.testing.assert_array_equal(sizes, model.counts_)
    free = SphericalKMeans(20, random_state=0).fit(rows)
    if bound == 50.0:  # no cluster is that large: the free answer, but for one more step
        np.testing.assert_array_equal(model.labels_, free.labels_)
        assert not model.offsets_.any()
    own = np.einsum("ij,ij->i", rows.astype(float), model.cluster_centers_[model.labels_])
    assert model.objective_ == pytest.approx(own.sum(), rel=1e-6)
    assert model.inertia_ == pytest.approx(1003 - own.sum(), rel=1e-3)


def test_mean_cosines_stay_within_one_percent_of_free_ones():
    rows = tailed(8000, 16, 30, np.float32)
    free = SphericalKMeans(100, random_state=0).fit(rows)
    model = balanced(n_clusters=100).fit(rows)
    assert free.counts_.max() > 1.8 * 80
    assert model.counts_.max() <= 96
    assert model.objective_ > 0.99 * free.objective_


def test_one_dominant_cluster_is_cut_and_the_price_is_known(caplog):
    weights = np.r_[0.6, np.full(19, 0.4 / 19)]
    rows, _, _ = make_vmf_mixture(20_000, 16, 20, concentration=60.0, weights=weights, random_state=0)
    free = SphericalKMeans(20, random_state=0).fit(rows)
    with caplog.at_level("INFO", logger="armillary"):
        model = balanced().fit(rows)
    assert (
        f"has a mean cosine of {model.objective_ / 20_000:.4f}, free clusters {free.objective_ / 20_000:.4f}; "
        f"the largest has 1.20 times the mean number of rows, free {free.counts_.max() / 1000:.2f}."
    ) in caplog.text
    assert free.counts_.max() > 3.0 * 1000
    assert (model.free_objective_, model.free_largest_) == (free.objective_, np.bincount(free.labels_).max())
    assert model.counts_.max() == 1200
    # measured: 0.942; directions that follow prices alone came to 0.90
    assert model.objective_ > 0.93 * free.objective_


def test_what_free_clusters_come_to_is_saved_and_goes_with_the_bound(tmp_path):
    rows = tailed()
    model = balanced().fit(rows)
    save(model, tmp_path / "model")
    back = load(tmp_path / "model")
    assert (back.free_objective_, back.free_largest_) == (model.free_objective_, model.free_largest_)
    assert isinstance(model.free_largest_, int)
    for learn in (model.set_params(balance=None).fit, back.set_params(balance=None).partial_fit):
        assert not hasattr(learn(rows), "free_objective_")


@pytest.mark.skipif(not BANKING.exists(), reason="needs shared/data")
def test_sentences():
    rows = np.load(BANKING)["embeddings"].astype(np.float32)
    free = SphericalKMeans(77, random_state=0).fit(rows)
    model = balanced(n_clusters=77).fit(rows)
    assert free.counts_.max() > 2.5 * len(rows) / 77
    assert model.counts_.max() <= 1.2 * len(rows) / 77
    assert model.objective_ > 0.995 * free.objective_  # measured: 1.0007
    assert (model.predict(rows) == model.labels_).mean() > 0.98


def test_copies_of_one_row_are_cut_too():
    rows = np.repeat(units(np.random.default_rng(0), 3, 5), [400, 50, 50], axis=0)
    model = balanced(n_clusters=5, balance=1.1).fit(rows)
    assert np.bincount(model.labels_).max() <= 110


def test_threads_parts_and_files_give_equal_bytes(tmp_path):
    rows = tailed(900, 20, dtype=np.float32)
    one = balanced(n_threads=1).fit(rows)
    save(one, tmp_path / "one.safetensors")
    np.save(tmp_path / "0.npy", rows[:700])
    np.save(tmp_path / "1.npy", rows[700:])
    several = [balanced(n_threads=3).fit(rows), balanced(n_threads=3).fit(Listed(np.split(rows, [10, 400, 800])))]
    several.append(balanced(n_threads=3).fit(open_rows([tmp_path / "0.npy", tmp_path / "1.npy"])))
    for number, model in enumerate(several):
        path = tmp_path / f"other{number}.safetensors"
        save(model.set_params(n_threads=1), path)
        assert path.read_bytes() == (tmp_path / "one.safetensors").read_bytes()
    loaded = load(tmp_path / "one.safetensors")
    np.testing.assert_array_equal(loaded.offsets_, one.offsets_)
    np.testing.assert_array_equal(loaded.predict(rows), one.predict(rows))
    assert loaded.score(rows) == one.score(rows)


def test_files_from_before_have_no_offsets(tmp_path):
    rows = tailed(200)
    model = SphericalKMeans(3, random_state=0).fit(rows)
    del model.offsets_
    save(model, tmp_path / "old.safetensors")
    np.testing.assert_array_equal(load(tmp_path / "old.safetensors").predict(rows), model.labels_)


def test_observers_see_one_run_more():
    seen = []
    balanced(callbacks=seen.append).fit(tailed(300))
    assert seen[0].n_restarts == 2
    assert {event.restart for event in seen if event.kind == "step"} == {1, 2}
    objectives = [event.objective for event in seen if event.kind == "step" and event.restart == 2]
    assert objectives == sorted(objectives)


@each("value", [0.9, -1.0, np.nan, np.inf, "even", True])
def test_a_wrong_balance_is_a_sentence(value):
    with pytest.raises(ParameterError, match=r"^`balance` of SphericalKMeans must be a number >= 1"):
        balanced(balance=value).fit(tailed(50))


def test_weights_and_batches_are_refused_with_a_sentence():
    rows = tailed(50)
    with pytest.raises(InputError, match=re.escape("with a `balance` must have no weights")):
        balanced().fit(rows, sample_weight=np.ones(50))
    with pytest.raises(InputError, match=re.escape("with a `balance` must see all rows at once")):
        balanced().partial_fit(rows)


def test_capacity():
    assert balance.capacity(1.2, 100, 10) == 12
    assert balance.capacity(1.0, 101, 10) == 11  # else not all rows have a place
    assert balance.capacity(1.0, 3, 8) == 1
