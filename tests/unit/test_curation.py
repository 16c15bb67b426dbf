"""Curation: duplicates against brute force, even samples, coverage, and a run that was killed."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
from tests.laws.toy_engine import Listed, register_toy
from tests.making import each, units

from armillary import HierarchicalSphericalKMeans, SphericalKMeans, load, open_rows
from armillary.curation import (
    CurationPlan,
    Duplicates,
    balanced_sample,
    coverage,
    curate,
    duplicate_recall,
    near_duplicates,
    nearest_clusters,
)
from armillary.curation import duplicates as search
from armillary.curation.sampling import evenly
from armillary.curation.work import Work
from armillary.datasets import make_vmf_mixture
from armillary.exceptions import InputError, ParameterError, RowError

register_toy()


def planted(n_rows=900, n_features=20, n_copies=200, noise=0.03, dtype=np.float32, seed=0):
    """Rows, the last of which are near others, some in groups."""
    rng = np.random.default_rng(seed)
    rows, n_copies = units(rng, n_rows, n_features), min(n_copies, n_rows // 3)
    rows[-n_copies:] = rows[rng.integers(0, n_rows // 8, n_copies)] + noise * rng.standard_normal(
        (n_copies, n_features)
    )
    rows = rng.permutation(rows)
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(dtype)


def greedy(rows, threshold, labels=None, ranks=None):
    """The stated rule, a row at a time: within clusters, then across borders among those kept."""
    wide = rows.astype(np.float64)
    cosines = wide @ wide.T / np.outer(*2 * [np.linalg.norm(wide, axis=1)])
    order = np.arange(len(rows)) if ranks is None else np.argsort(ranks)
    labels = np.zeros(len(rows)) if labels is None else labels
    went_for, places = np.arange(len(rows)), np.argsort(order)
    for is_same in (True, False):
        kept = []
        candidates = [row for row in order if went_for[row] == row]
        for row in candidates:
            near = [one for one in kept if cosines[row, one] >= threshold and (labels[one] == labels[row]) == is_same]
            if near:
                went_for[row] = max(near, key=lambda one: (cosines[row, one], -places[one]))
            else:
                kept.append(row)
    while (went_for[went_for] != went_for).any():
        went_for = went_for[went_for]
    return went_for


@each("threshold", [0.8, 0.95, 0.99])
@each("is_sparse", [False, True])
def test_duplicates_are_those_of_the_rule_a_row_at_a_time(threshold, is_sparse):
    rows = planted()
    model = SphericalKMeans(9, random_state=0).fit(rows)
    given = sp.csr_array(rows) if is_sparse else rows
    found = near_duplicates(given, threshold=threshold, model=model, n_searched=9)
    assert found.is_exact
    np.testing.assert_array_equal(found.kept_for, greedy(rows, threshold, model.labels_))
    assert found.n_removed > 100
    gone = ~found.is_kept
    assert (found.cosines[gone] >= threshold - 1e-6).all()
    assert (found.cosines[~gone] == 1.0).all()
    assert duplicate_recall(given, found) == 1.0


def test_priority_says_who_stays():
    rows = planted(300, n_copies=80)
    priority = np.random.default_rng(1).random(300).round(1)  # with ties
    ranks = np.empty(300, int)
    ranks[np.lexsort((np.arange(300), -priority))] = np.arange(300)
    model = SphericalKMeans(3, random_state=0).fit(rows)
    found = near_duplicates(rows, threshold=0.9, model=model, priority=priority)
    np.testing.assert_array_equal(found.kept_for, greedy(rows, 0.9, model.labels_, ranks))
    assert (priority[found.kept_for] >= priority).mean() > 0.99  # chains may end at a lower one


def test_what_is_searched_and_what_is_missed_is_known():
    rows = planted(1200, n_copies=500, noise=0.12)
    model = SphericalKMeans(40, random_state=0).fit(rows)
    own = near_duplicates(rows, threshold=0.85, model=model, n_searched=1)
    few = near_duplicates(rows, threshold=0.85, model=model, n_searched=4)
    everything = near_duplicates(rows, threshold=0.85, model=model, n_searched=40)
    assert not own.is_exact
    assert everything.is_exact
    recalls = [duplicate_recall(rows, found, n_rows=1200) for found in (own, few, everything)]
    assert recalls[0] < recalls[1] <= recalls[2] == 1.0
    # measured by brute force over all pairs
    cosines = rows.astype(float) @ rows.T.astype(float)
    pairs = np.argwhere(np.triu(cosines >= 0.85, 1))
    missed = own.is_kept[pairs].all(axis=1).mean()
    assert recalls[0] == pytest.approx(1.0 - missed, abs=1e-12)


def test_few_rows_are_searched_exactly_and_many_in_the_nearest_clusters(monkeypatch):
    rows = planted(1200, n_copies=500, noise=0.12)
    model = SphericalKMeans(40, random_state=0).fit(rows)
    assert near_duplicates(rows, threshold=0.85, model=model).is_exact
    assert CurationPlan(n_clusters=(3, 12)).checked(20_000).n_searched == 12
    assert CurationPlan(n_clusters=(3, 12)).checked(20_001).n_searched == 8
    monkeypatch.setattr(search, "_EXACT_ROWS", 1000)
    beyond = near_duplicates(rows, threshold=0.85, model=model)
    assert not beyond.is_exact
    np.testing.assert_array_equal(
        beyond.kept_for, near_duplicates(rows, threshold=0.85, model=model, n_searched=8).kept_for
    )


def test_reach_is_enough_for_every_pair():
    """Of any two near rows one has the other's cluster in reach: the bound in the module's docstring."""
    rng = np.random.default_rng(3)
    for n_features in (3, 20):
        centers = units(rng, 30, n_features)
        rows = units(rng, 4000, n_features)
        others = rows + rng.uniform(0.0, 0.5) * rng.standard_normal(rows.shape) / np.sqrt(n_features)
        others /= np.linalg.norm(others, axis=1, keepdims=True)
        angles, angles_2 = (np.arccos(np.clip(one @ centers.T, -1, 1)) for one in (rows, others))
        own, own_2 = angles.argmin(axis=1), angles_2.argmin(axis=1)
        delta = np.arccos(np.clip((rows * others).sum(axis=1), -1, 1))
        every = np.arange(4000)
        margin = angles[every, own_2] - angles[every, own]
        margin_2 = angles_2[every, own] - angles_2[every, own_2]
        assert (np.minimum(margin, margin_2) <= delta + 1e-9).all()
        assert (own != own_2).sum() > 100


@each("together", [7, 100])
def test_groups_and_blocks_change_nothing(together):
    rows = planted()
    model = SphericalKMeans(9, random_state=0).fit(rows)
    whole = near_duplicates(rows, model=model, threshold=0.9)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(search, "_GATHERED_VALUES", 20 * together)
        patch.setattr(search, "_BLOCK_ROWS", together)
        parts = near_duplicates(rows, model=model, threshold=0.9)
    np.testing.assert_array_equal(parts.kept_for, whole.kept_for)
    np.testing.assert_allclose(parts.cosines, whole.cosines, atol=1e-6)


def test_parts_and_files_find_the_same(tmp_path):
    rows = planted()
    np.save(tmp_path / "0.npy", rows[:500])
    np.save(tmp_path / "1.npy", rows[500:])
    plain = near_duplicates(rows, threshold=0.9)
    for form in (Listed(np.split(rows, [100, 101, 700])), open_rows([tmp_path / "0.npy", tmp_path / "1.npy"])):
        found = near_duplicates(form, threshold=0.9)
        np.testing.assert_array_equal(found.kept_for, plain.kept_for)
        assert duplicate_recall(form, found) == duplicate_recall(rows, plain)


def test_groups_are_told_with_the_kept_row_first():
    found = Duplicates(np.array([0, 0, 2, 2, 0, 5]), np.ones(6, np.float32), 0.9, 0, 0)
    assert [group.tolist() for group in found.groups()] == [[0, 1, 4], [2, 3]]
    assert [group.tolist() for group in found.groups(1)] == [[0, 1, 4]]
    assert found.n_removed == 3


def test_nearest_clusters_are_those_of_a_sort():
    rows = planted(dtype=np.float64)
    model = SphericalKMeans(9, random_state=0).fit(rows)
    found = nearest_clusters(model, rows, 3)
    cosines = rows @ model.cluster_centers_.T
    np.testing.assert_array_equal(found.clusters, np.argsort(-cosines, axis=1)[:, :3])
    np.testing.assert_allclose(np.cos(found.angles), -np.sort(-cosines, axis=1)[:, :3], atol=1e-6)
    np.testing.assert_array_equal(found.clusters[:, 0], model.labels_)
    assert nearest_clusters(model, rows, 50).clusters.shape == (900, 9)


@each("n_features", [5, 24])
@each("dtype", [np.float32, np.float64])
def test_nearest_clusters_of_many_that_are_alike(n_features, dtype):
    """More clusters lie within the doubt of a score than are scored again, and ties go to the smaller number."""
    rng = np.random.default_rng(4)
    rows, directions = units(rng, 400, n_features).astype(dtype), units(rng, 700, n_features)
    directions[30:70] = directions[30]
    directions[80:110] += 1e-9 * rng.standard_normal((30, n_features))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    directions[500:600] = directions[:100]
    model = SphericalKMeans(700, init=directions)
    model.cluster_centers_, model.n_features_in_ = directions, n_features
    found = nearest_clusters(model, rows, 6)
    cosines = rows.astype(np.float64) @ directions.T
    best = -np.sort(-cosines, axis=1)[:, :6]
    np.testing.assert_allclose(np.take_along_axis(cosines, found.clusters, axis=1), best, rtol=0.0, atol=1e-12)
    np.testing.assert_array_equal(found.clusters[:, 0], model.predict(rows))
    copied = np.isin(found.clusters, np.arange(500, 600))
    first = (found.clusters - 500)[copied]
    rows_of, _ = np.nonzero(copied)
    # a copy never stands before the cluster that it is a copy of
    assert all(
        one in found.clusters[row, : np.flatnonzero(found.clusters[row] == one + 500)[0]]
        for row, one in zip(rows_of, first, strict=True)
    )


def test_sums_in_column_order_decide_labels_that_are_equal_to_rounding():
    rng = np.random.default_rng(0)
    rows = units(rng, 3000, 24)
    directions = np.concatenate([units(rng, 300, 24)] * 2)
    # the last bits of two directions that are one: the label is that of `predict`, whatever a product of BLAS says
    directions[300:] = np.nextafter(directions[300:], rng.choice([-1.0, 1.0], (300, 24)))
    model = SphericalKMeans(600, init=directions)
    model.cluster_centers_, model.n_features_in_ = directions, 24
    np.testing.assert_array_equal(nearest_clusters(model, rows, 2).clusters[:, 0], model.predict(rows))


def test_guests_are_kept_cluster_by_cluster():
    rng = np.random.default_rng(2)
    parts = []
    for n_rows in (50, 1, 80):
        rows, clusters = np.nonzero(rng.random((n_rows, 9)) < 0.3)
        parts.append(search.Borders(np.zeros(n_rows, np.int32), rows, clusters.astype(np.int32), 0))
    everything = [(row + first, one) for part, first in zip(parts, (0, 50, 51), strict=True)
                  for row, one in zip(part.rows.tolist(), part.clusters.tolist(), strict=True)]  # fmt: skip
    guests = search.Search.joined(parts, 0.9, np.arange(131), 12).guests
    for cluster in range(12):
        assert guests.at(cluster).tolist() == sorted(row for row, one in everything if one == cluster)
    assert guests.numbers.itemsize == 4


def test_threads_change_nothing():
    rows = planted(noise=0.08)
    one, three = (near_duplicates(rows, threshold=0.9, n_threads=n) for n in (1, 3))
    np.testing.assert_array_equal(one.kept_for, three.kept_for)
    np.testing.assert_array_equal(one.cosines, three.cosines)


@each(("n", "room", "parts"), [
    (10, [5, 5, 5], [4, 3, 3]),
    (10, [1, 2, 100], [1, 2, 7]),
    (7, [0, 3, 3, 9], [0, 3, 2, 2]),
    (100, [3, 4], [3, 4]),
    (0, [3, 4], [0, 0]),
])  # fmt: skip
def test_parts_are_as_equal_as_can_be(n, room, parts):
    assert evenly(n, np.array(room)).tolist() == parts


def test_even_parts_are_optimal():
    rng = np.random.default_rng(0)
    for _ in range(200):
        room = rng.integers(0, 12, rng.integers(1, 9))
        n = int(rng.integers(0, room.sum() + 1))
        parts = evenly(n, room)
        assert parts.sum() == n
        assert (parts <= room).all()
        # whoever has more than another by two could not have given: the other is full
        assert all(low + 1 >= parts.max() for low, most in zip(parts, room, strict=True) if low < most)


@pytest.fixture(scope="module")
def tailed():
    weights = 1.0 / np.arange(1, 41) ** 1.5
    rows, truth, _ = make_vmf_mixture(
        6000, 24, 40, concentration=200.0, weights=weights / weights.sum(), random_state=0
    )
    return rows.astype(np.float32), truth


@pytest.fixture(scope="module")
def tree(tailed):
    return HierarchicalSphericalKMeans((8, 60), random_state=0).fit(tailed[0])


def test_samples_are_even(tree, tailed):
    truth = tailed[1]
    chosen = balanced_sample(tree, 400)
    assert len(np.unique(chosen)) == 400
    assert (np.diff(chosen) > 0).all()
    coarse = np.bincount(tree.ancestors(0)[tree.labels_[chosen]], minlength=8)
    assert coarse.max() - coarse.min() <= 1  # every coarse cluster has enough rows
    random = np.random.default_rng(0).choice(6000, 400, replace=False)
    share = lambda rows: np.bincount(truth[rows], minlength=40).max() / 400  # noqa: E731
    assert share(chosen) < 0.6 * share(random)
    before, after = coverage(tree, among=random), coverage(tree, among=chosen)
    assert all(one.effective < other.effective for one, other in zip(before, after, strict=True))
    np.testing.assert_array_equal(balanced_sample(tree, 400), chosen)
    assert len(balanced_sample(tree, 10**9)) == 6000
    among = np.arange(0, 6000, 3)
    assert set(balanced_sample(tree, 300, among=among)) <= set(among)
    np.testing.assert_array_equal(balanced_sample(tree, 300, among=np.arange(6000) % 3 == 0, labels=tree.labels_),
                                  balanced_sample(tree, 300, among=among))  # fmt: skip


def test_central_rows_come_first(tree, tailed):
    angles = nearest_clusters(tree, tailed[0], 1).angles[:, 0]
    central = balanced_sample(tree, 120, order="central", angles=angles)
    edge = balanced_sample(tree, 120, order="edge", angles=angles)
    assert angles[central].mean() < angles.mean() < angles[edge].mean()
    with pytest.raises(InputError, match='must be "random" where `angles` are not given'):
        balanced_sample(tree, 120, order="central")


def test_coverage_of_known_sizes():
    model = SphericalKMeans(4, random_state=0).fit(np.eye(4))
    (even,) = coverage(model, labels=[0, 1, 2, 3])
    assert (even.n_filled, even.gini, even.largest_share) == (4, 0.0, 0.25)
    assert even.effective == pytest.approx(4.0)
    (one,) = coverage(model, labels=[2, 2, 2])
    assert (one.n_filled, one.gini, one.largest_share) == (1, 0.75, 1.0)
    (none,) = coverage(model, labels=[-1, -1])
    assert (none.n_filled, none.effective) == (0, 0.0)


PLAN = CurationPlan(n_clusters=(3, 12), threshold=0.9, n_sample=90, n_recall_rows=100, max_iter=6, n_resamples=1)


def contents(folder):
    return {path.name: path.read_bytes() for path in sorted(Path(folder).iterdir())}


def test_coarse_clusters_without_finer_ones_are_counted():
    rows = np.repeat(np.random.default_rng(3).standard_normal((4, 6)), 10, axis=0)
    model = HierarchicalSphericalKMeans((10, 30), random_state=0).fit(rows)
    assert model.ancestors(0).max() < 9  # the last have no finer cluster
    assert [(one.n_clusters, one.n_filled) for one in coverage(model)] == [(10, 4), (30, 4)]
    assert [one.n_filled for one in coverage(model, among=[])] == [0, 0]
    assert len(balanced_sample(model, 5, among=np.flatnonzero(np.zeros(40)))) == 0


def test_a_run_leaves_a_folder(tmp_path):
    rows = planted()
    told = []
    found = curate(
        rows, tmp_path / "out", PLAN, ids=[f"r{n}" for n in range(900)], tell=lambda *news: told.append(news)
    )
    assert sorted(contents(tmp_path / "out")) == ["model.safetensors", "rows.parquet", "sample.npy", "summary.json"]
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    table = pq.read_table(tmp_path / "out" / "rows.parquet").to_pydict()
    model = load(tmp_path / "out" / "model.safetensors")
    np.testing.assert_array_equal(table["cluster_1"], model.predict(rows))
    np.testing.assert_array_equal(table["cluster_0"], model.predict(rows, level=0))
    assert table["nearest_1"] == table["cluster_1"]
    assert table["id"][5] == "r5"
    plain = near_duplicates(rows, threshold=0.9, model=model)
    np.testing.assert_array_equal(table["kept_row"], plain.kept_for)
    np.testing.assert_array_equal(table["is_kept"], plain.is_kept)
    np.testing.assert_array_equal(np.flatnonzero(table["is_sampled"]), np.load(tmp_path / "out" / "sample.npy"))
    assert found["duplicates"]["removed"] == plain.n_removed
    assert found["duplicates"]["recall"] == 1.0
    assert 0 < found["duplicates"]["recall_pairs"] <= 2 * 900
    assert {stage for stage, _, _ in told} == {"levels", "pass", "duplicates within", "duplicates across"}
    with pytest.raises(InputError, match="exists"):
        curate(rows, tmp_path / "out", PLAN)


def test_files_give_the_same_rows(tmp_path):
    rows = planted()
    np.save(tmp_path / "0.npy", rows[:300])
    np.save(tmp_path / "1.npy", rows[300:])
    curate(rows, tmp_path / "a", PLAN)
    curate(open_rows([tmp_path / "0.npy", tmp_path / "1.npy"]), tmp_path / "b", PLAN, n_threads=1)
    one, other = contents(tmp_path / "a"), contents(tmp_path / "b")
    assert one["sample.npy"] == other["sample.npy"]
    assert one["rows.parquet"] == other["rows.parquet"]
    assert one["model.safetensors"] == other["model.safetensors"]


def test_a_row_without_direction_ends_a_run_before_steps(tmp_path):
    rows = planted()
    rows[777] = 0.0
    np.save(tmp_path / "rows.npy", rows)
    told = []
    plan = replace(PLAN, n_fit_rows=100)
    with pytest.raises(RowError, match="Row 777"):
        curate(open_rows(tmp_path / "rows.npy"), tmp_path / "out", plan, tell=lambda *news: told.append(news))
    assert not told


def test_dask_brings_no_more_home_than_rows_that_are_looked_at(tmp_path, monkeypatch):
    arrays = pytest.importorskip("dask.array", reason="needs the extra dask")
    rows = planted()
    curate(rows, tmp_path / "memory", PLAN)
    monkeypatch.setattr(arrays.Array, "__array__", lambda *_, **__: pytest.fail("all rows came home"))
    curate(arrays.from_array(rows, chunks=(250, 20)), tmp_path / "dask", PLAN)
    assert_same_results(tmp_path / "dask", tmp_path / "memory")


@pytest.mark.slow
def test_rows_at_processes_give_the_same_files(tmp_path):
    rows = planted()
    np.save(tmp_path / "rows.npy", rows)
    curate(rows, tmp_path / "memory", PLAN)
    with open_rows(tmp_path / "rows.npy", n_workers=2) as dealt:
        curate(dealt, tmp_path / "processes", PLAN)
    assert_same_results(tmp_path / "processes", tmp_path / "memory")


def assert_same_results(folder, other):
    found, wanted = contents(folder), contents(other)
    assert all(found[name] == wanted[name] for name in ("rows.parquet", "sample.npy", "model.safetensors"))


class Killed(BaseException):
    """The end of a process."""


def test_killed_after_every_piece_nothing_is_done_twice(tmp_path):
    rows = planted(500)
    whole = curate(rows, tmp_path / "whole", PLAN)
    n_pieces = whole["seconds"]["pieces_made"]
    put = Work.put
    made = []

    def put_then_die(self, name, **values):
        put(self, name, **values)
        made.append((name, values.get("n_steps"), values.get("is_done")))
        raise Killed

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Work, "put", put_then_die)
        for _ in range(n_pieces):
            with pytest.raises(Killed):
                curate(rows, tmp_path / "killed", PLAN)
            assert not (tmp_path / "killed").exists()
    found = curate(rows, tmp_path / "killed", PLAN)
    assert found["seconds"]["pieces_made"] == 0
    assert len(set(made)) == len(made) == n_pieces
    assert ("labelled", None, None) in made  # the pass that ends a fit is not done again either
    assert contents(tmp_path / "killed") == contents(tmp_path / "whole")


@pytest.mark.parametrize("changed", [0, 101, 102])
def test_other_rows_or_plans_begin_anew(changed, tmp_path, monkeypatch):
    rows = planted(400)
    monkeypatch.setattr("armillary.curation.work._LOOKED_AT", 10)  # as many as stand for a million
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("armillary.curation.pipeline._recall", lambda *_: (_ for _ in ()).throw(Killed))
        with pytest.raises(Killed):
            curate(rows, tmp_path / "out", PLAN)
    assert any(path.name.endswith(".work") for path in tmp_path.iterdir())
    other = rows.copy()
    if changed == 102:
        other[[101, 102]] = other[[102, 101]]
    else:
        other[changed] = -other[changed]
    found = curate(other, tmp_path / "out", PLAN)
    assert found["seconds"]["pieces_made"] > 10
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_another_size_of_the_sample_takes_what_was_done(tmp_path):
    rows = planted(400)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("armillary.curation.pipeline.balanced_sample", lambda *_, **__: (_ for _ in ()).throw(Killed))
        with pytest.raises(Killed):
            curate(rows, tmp_path / "out", PLAN)
    found = curate(rows, tmp_path / "out", replace(PLAN, n_sample=33), ids=range(400))
    assert found["seconds"]["pieces_made"] == 0
    assert found["sample"]["rows"] == 33
    assert pq.read_table(tmp_path / "out" / "rows.parquet")["id"].to_pylist() == list(range(400))


@pytest.mark.slow
def test_processes_that_are_killed_end_with_the_same_files(tmp_path):
    np.save(tmp_path / "rows.npy", planted(20_000, 32, 4000))
    script = (
        "import sys, numpy as np\n"
        "from armillary.curation import CurationPlan, curate\n"
        "curate(np.load(sys.argv[1]), sys.argv[2], CurationPlan(n_clusters=(10, 200), n_sample=500))\n"
    )
    command = [sys.executable, "-c", script, str(tmp_path / "rows.npy")]
    subprocess.run([*command, str(tmp_path / "whole")], check=True)
    n_killed = 0
    for seconds in (2.0, 2.5, 3.0, 4.0, 5.0, 6.0):
        if (tmp_path / "out").exists():
            break
        with subprocess.Popen([*command, str(tmp_path / "out")]) as process:
            try:
                process.wait(seconds)
            except subprocess.TimeoutExpired:
                os.kill(process.pid, 9)
                n_killed += 1
    if not (tmp_path / "out").exists():
        subprocess.run([*command, str(tmp_path / "out")], check=True)
    assert n_killed > 0
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")


@each(
    ("changed", "sentence"),
    [
        ({"threshold": 1.5}, "`threshold` of curate must be a number in [-1, 1]; got 1.5. It is a cosine"),
        ({"keep": "last"}, "`keep` of curate must be one of 'first', 'central'; got 'last'"),
        ({"n_sample": 0}, "`n_sample` of curate must be an int >= 1; got 0."),
        ({"n_nearest": 0}, "`n_nearest` of curate must be an int >= 1"),
        ({"n_clusters": (3, 3)}, "`n_clusters` of curate must rise from coarse to fine; got (3, 3)."),
        ({"n_resamples": -1}, "`n_resamples` of curate must be an int >= 0; got -1."),
        ({"n_clusters": (3, 1000)}, "`n_clusters` of curate must not exceed the rows that steps are done on; got 1000"),
    ],
)
def test_wrong_plans_are_sentences(changed, sentence, tmp_path):
    with pytest.raises((ParameterError, InputError)) as caught:
        curate(planted(100), tmp_path / "out", replace(PLAN, **changed))
    assert sentence in str(caught.value)
    assert not list(tmp_path.iterdir())


def test_wrong_arguments_are_sentences(tree):
    rows = planted(100)
    model = SphericalKMeans(3, random_state=0)
    for call, sentence in (
        (lambda: near_duplicates(rows, model=model), "has no `cluster_centers_`. Call fit first."),
        (lambda: near_duplicates(rows, model=tree), "must have the 24 columns"),
        (lambda: near_duplicates(rows, priority=[1.0]), "`priority` of near_duplicates must have one number per row"),
        (lambda: near_duplicates(rows, n_searched=0), "`n_searched` of near_duplicates must be an int >= 1"),
        (lambda: duplicate_recall(rows, 3), "must be what near_duplicates returned; got int"),
        (lambda: duplicate_recall(rows[:50], near_duplicates(rows)), "must be the 100 rows that were searched; got 50"),
        (lambda: balanced_sample(tree, 5, labels=[99]), "`labels` of balanced_sample must be one cluster number per"),
        (lambda: balanced_sample(tree, 5, labels=[0, 99]), "; got 99 in row 1. Use model.predict(X)."),
        (lambda: balanced_sample(tree, 5, among=[6000]), "`among` of balanced_sample must be a mask of shape (6000,)"),
        (lambda: balanced_sample(tree, 5, order="edge", angles=[1.0]), "`angles` of balanced_sample must have one"),
        (lambda: coverage(5), "`model` of coverage must be a fitted clusterer; got int."),
        (lambda: curate(rows, "x", {"n_clusters": 3}), "`plan` of curate must be a CurationPlan or None; got dict."),
        (lambda: curate(rows, "x", PLAN, ids=["a"]), "`ids` of curate must name each of the 100 rows; got 1."),
        (lambda: curate(rows, "x", PLAN, ids=["a", 3] * 50), "must all be words or all be whole numbers; got int, str"),
    ):
        with pytest.raises(Exception, match=r".") as caught:
            call()
        assert sentence in str(caught.value)


def test_summary_is_json(tmp_path):
    curate(planted(300), tmp_path / "out", PLAN)
    told = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert told["levels"] == [3, 12]
    assert told["plan"]["n_clusters"] == [3, 12]
