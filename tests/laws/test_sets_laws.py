"""Laws of sets of rows, on every engine: no cut, order of parts, thread or loss of a worker changes a bit.

A chain is played on each engine: sums over sets, divisions by chance and by odds, splits, merges, draws, sides. The
oracle's log maps and odds have other last bits than compiled ones, so what comes of them is held to a tolerance there.
"""

from itertools import combinations

import numpy as np
import pytest
import scipy.sparse as sp
from tests.laws.engines import ENGINES, one_piece
from tests.making import units

from armillary import DirichletProcessMixture, open_rows, save
from armillary.datasets import make_tangent_gaussian_mixture
from armillary.distributions.gaussian_component import GaussianComponent
from armillary.distributions.tangent_component import TangentComponent
from armillary.draws import skip_uniforms
from armillary.engines import cpu_sets
from armillary.exceptions import InputError
from armillary.fitting.dirichlet_process import clusters_of, score_rule
from armillary.persistence import Checkpoint
from armillary.points import lane_plan
from armillary.rules import AffineRule

every_engine = pytest.mark.parametrize("name", list(ENGINES))
CASES = {
    "narrow": (500, 3, np.float32, False),
    "wide": (300, 20, np.float64, False),
    "lanes": (9000, 3, np.float64, False),
    "csr": (300, 40, np.float64, True),
}
every_case = pytest.mark.parametrize("case", list(CASES))
N_CLUSTERS = 4


def make(case):
    n_rows, n_features, dtype, is_sparse = CASES[case]
    rng = np.random.default_rng([3, n_rows, n_features])
    rows = units(rng, n_rows, n_features)
    if is_sparse:
        rows[rng.random(rows.shape) < 0.7] = 0.0
        rows[:, 0] += 0.1
    rows = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(dtype)
    labels = rng.integers(N_CLUSTERS, size=n_rows)
    labels[:30] = 0  # a part may have rows of one cluster alone
    labels[-5:] = N_CLUSTERS
    return (sp.csr_array(rows) if is_sparse else rows), labels


def rule_for(case, n_clusters, rng):
    _, n_features, _, is_sparse = CASES[case]
    if is_sparse:
        return AffineRule(9.0 * units(rng, n_clusters, n_features), rng.standard_normal(n_clusters))
    if case == "wide":
        component = GaussianComponent(n_features, 0.5, n_features + 3.0)
    else:
        component = TangentComponent(n_features, 0.5, n_features + 2.0)
    return score_rule(component, component.draw_prior(n_clusters, rng), np.zeros(n_clusters))


def sums_of(sets, case, rng):
    """All that is summed over sets, by name."""
    found = {"sizes": sets.sizes, "counts": sets.counts, "totals": sets.totals()}
    if not CASES[case][3]:
        centres = units(rng, len(sets), CASES[case][1])
        found["scatters"] = sets.scatters(0.5 * centres)
        curved = sets.tangent_sums(centres, with_curvature=True)
        found |= {f"tangent {field}": value for field, value in curved._asdict().items()}
        found["vectors"] = sets.tangent_sums(centres, with_scatter=False).vector
        found["again"] = sets.tangent_sums(centres).scatter
    return found


def play(passes, case, labels):
    """One chain: what it finds, in order."""
    rng, generator = np.random.default_rng(1), np.random.default_rng(2)
    rows = clusters_of(passes, labels)
    found = [sums_of(rows.sets(), case, rng)]
    unions = rows.unions([(0,), (1, 3), (N_CLUSTERS,)])
    found.append(sums_of(unions, case, rng))
    odds = unions.odds(rule_for(case, 6, rng), 20.0)
    by_odds = unions.chance(0, generator).below(odds[0])
    found.append({"odds": np.array(odds[0].log_probabilities(by_odds)), "sides": by_odds.n_left})
    by_chance = unions.chance(1, generator).below(0.3)
    where = unions.where(1, rows.labels, 1)
    found.append({"odds": np.array(odds[1].log_probabilities(where)), "sides": (by_chance.n_left, where.n_right)})
    found.append({"best": odds[1].sides().n_left, "after": generator.random()})
    parted = unions.parted([by_odds, by_chance, None])
    found.append(sums_of(parted, case, rng))
    found.append(sums_of(parted.some([1, 4]), case, rng))
    few = unions.few([np.arange(0, 60, 2), np.array([0, 5, 100]), np.arange(5)])
    found.append({"few": np.concatenate([np.asarray(_dense(few.rows(number))) for number in range(3)])})
    shared = few.shared([np.full(30, 0.3), np.array([0.1, 0.5, 1.0]), np.full(5, 0.5)])
    found.append(
        {"shared": shared.totals(), "weights": shared.counts, "few odds": few.log_odds(rule_for(case, 6, rng))}
    )

    whole = rows.sets(0)
    rows.split(0, whole.chance(0, generator).below(0.4))
    rows.merge(1, 3)
    rows.merge(len(rows) - 1, 0)
    found.append({"first": [rows.first_row(k) for k in range(len(rows))], "counts": rows.counts})
    found.append({"labels": rows.labels.to_host().copy(), **sums_of(rows.sets(), case, rng)})
    counts = rows.redraw(rule_for(case, len(rows), rng), (5, 6), (7, 8))
    found.append({"counts": counts, "labels": rows.labels.to_host().copy()})
    counts = rows.redraw(rule_for(case, 7, rng), (9, 6), None)
    found.append({"counts": counts, "labels": rows.labels.to_host().copy(), **sums_of(rows.sets(), case, rng)})

    halves = passes.halves()
    sets = rows.sets()
    halves.put(rows.sets(0), rows.sets(0).chance(0, generator).below(0.5))
    halves.draw(sets, rule_for(case, 2 * len(rows), rng), (11, 12))
    halves.put(rows.sets(1), None)
    twin = halves.copy()
    twin.put(rows.sets(0), None)
    found.append({"halves": halves.to_host().copy(), "left": halves.n_left(sets), "twin": twin.n_left(sets)})
    both = [k for k, n_left in enumerate(halves.n_left(sets)) if 0 < n_left < sets.sizes[k]]
    found.append({"of": [side.n_right for side in halves.of(sets)]})
    if both:
        found.append(sums_of(halves.parts(rows.sets(*both)), case, rng))
    again = passes.halves(halves.to_host())
    found.append({"again": again.n_left(sets)})
    return found


def _dense(rows):
    return rows.toarray() if sp.issparse(rows) else rows


WHOLE = {"sizes", "counts", "totals", "scatters", "few", "shared", "weights", "first"}


def same(found, wanted, is_oracle):
    for ours, theirs in zip(found, wanted, strict=True):
        assert ours.keys() == theirs.keys()
        for what, value in theirs.items():
            if is_oracle and what not in WHOLE:
                np.testing.assert_allclose(ours[what], value, rtol=1e-6, atol=1e-5, err_msg=what)
            else:
                np.testing.assert_array_equal(ours[what], value, err_msg=what)


@every_engine
@every_case
def test_no_cut_and_no_order_of_parts_changes_a_sum_a_side_or_a_label(name, case, monkeypatch):
    monkeypatch.setattr("armillary.points._LANE_ROWS", 100)  # many lanes of few rows
    monkeypatch.setattr("armillary.points._LANE_VALUES", 300)
    rows, labels = make(case)
    with one_piece("cpu", rows) as passes:
        wanted = play(passes, case, labels)
    for seed in range(3):
        with ENGINES[name](rows, seed=seed) as passes:
            same(play(passes, case, labels), wanted, is_oracle=name == "reference")


@every_case
def test_no_thread_and_no_piece_changes_a_bit(case, monkeypatch):
    rows, labels = make(case)
    with one_piece("cpu", rows) as passes:
        wanted = play(passes, case, labels)
    monkeypatch.setattr(cpu_sets, "_PIECE_ROWS", 33)
    monkeypatch.setattr(cpu_sets, "_TASK_ROWS", 10)
    monkeypatch.setattr(cpu_sets, "_COPIED_ROWS", 10)
    monkeypatch.setattr("armillary.engines.cpu._TABLE_ROWS", 10)  # of those whose priorities are drawn together
    for n_threads in (1, 2, 3, 8):
        with one_piece("cpu", rows, n_threads=n_threads) as passes:
            same(play(passes, case, labels), wanted, is_oracle=False)


def test_rows_in_another_order_have_the_same_sums():
    rows, labels = make("wide")
    order = np.random.default_rng(0).permutation(len(rows))
    centres = 0.5 * units(np.random.default_rng(1), N_CLUSTERS + 1, 20)
    found = []
    for given, own in ((rows, labels), (rows[order], labels[order])):
        with one_piece("cpu", given) as passes:
            sets = clusters_of(passes, own).sets()
            found.append((sets.totals(), sets.scatters(centres), *sets.tangent_sums(2.0 * centres)))
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("kind", [np.random.PCG64, np.random.Philox, np.random.MT19937])
def test_uniforms_that_are_left_out_are_those_that_would_be_drawn(kind):
    for n_draws in (0, 1, 7, 100_000):
        drawn, skipped = np.random.Generator(kind(5)), np.random.Generator(kind(5))
        for generator in (drawn, skipped):
            generator.integers(10, dtype=np.int32)  # leaves half of a draw
        drawn.random(n_draws)
        skip_uniforms(skipped, n_draws)
        np.testing.assert_array_equal(drawn.integers(1000, size=5), skipped.integers(1000, size=5))
        np.testing.assert_array_equal(drawn.random(3), skipped.random(3))


# -------------------------------------------------------------------------------------------------------------- fits

BRIEF = {"init": 4, "n_burn_in": 1, "n_draws": 1, "n_attempts": 2, "n_components": 12, "random_state": 0}


def bytes_of(model, folder):
    model.set_params(n_threads=None, callbacks=None)
    save(model, folder / "model")
    return (folder / "model").read_bytes()


@pytest.fixture(scope="module")
def forms(tmp_path_factory):
    """The same rows in memory, in a map, in shards and at two processes, which are started once for all fits."""
    folder = tmp_path_factory.mktemp("forms")
    rows, _, _ = make_tangent_gaussian_mixture(4200, 6, 4, spread=0.15, min_angle=0.7, random_state=2)
    assert len(lane_plan(*rows.shape)) == 2  # a part for each process
    np.save(folder / "rows.npy", rows)
    (folder / "shards").mkdir()
    for number, part in enumerate(np.split(rows, [700, 2333])):
        np.save(folder / "shards" / f"{number}.npy", part)
    with open_rows(folder / "rows.npy", n_workers=2) as dealt:
        yield [
            ("memory", rows, 1),
            ("map and threads", np.load(folder / "rows.npy", mmap_mode="r"), 3),
            ("shards", open_rows(folder / "shards"), 2),
            ("workers", dealt, 1),
        ]


@pytest.mark.parametrize("sampler", ["split_merge", "subclusters", "finite"])
@pytest.mark.parametrize("component", ["tangent_gaussian", "gaussian", "vmf"])
def test_a_fit_has_one_file_from_memory_map_shards_and_two_processes(component, sampler, forms, tmp_path):
    files = {}
    for name, form, n_threads in forms:
        model = DirichletProcessMixture(component, sampler=sampler, n_threads=n_threads, **BRIEF).fit(form)
        files[name] = bytes_of(model, tmp_path)
        if name in ("shards", "workers"):
            model.resume(form, n_draws=1)
            files[f"{name}, resumed"] = bytes_of(model, tmp_path)
    resumed = {name: files.pop(name) for name in list(files) if "resumed" in name}
    for one, other in (*combinations(files, 2), *combinations(resumed, 2)):
        assert {**files, **resumed}[one] == {**files, **resumed}[other], (one, other)


def test_a_fit_that_was_kept_is_read_from_its_checkpoint(tmp_path):
    rows, _, _ = make_tangent_gaussian_mixture(4200, 6, 3, spread=0.1, min_angle=0.8, random_state=1)
    np.save(tmp_path / "rows.npy", rows)
    plain = DirichletProcessMixture(sampler="subclusters", **BRIEF).fit(rows)
    seen = []

    def stop(event):
        seen.append(event.kind)
        if seen.count("step") == 2:
            raise KeyboardInterrupt

    kept = Checkpoint(tmp_path / "fit.checkpoint")
    with open_rows(tmp_path / "rows.npy", n_workers=2) as dealt:
        with pytest.raises(KeyboardInterrupt):
            DirichletProcessMixture(sampler="subclusters", callbacks=[kept, stop], **BRIEF).fit(dealt)
        again = DirichletProcessMixture(sampler="subclusters", callbacks=[kept], **BRIEF).fit(dealt)
    np.testing.assert_array_equal(again.labels_, plain.labels_)
    np.testing.assert_array_equal(again.trace_, plain.trace_)


def test_what_stays_with_rows_in_memory_is_a_sentence(tmp_path):
    rows, _, _ = make_tangent_gaussian_mixture(300, 3, 3, spread=0.1, random_state=1)
    np.save(tmp_path / "rows.npy", rows)
    with pytest.raises(InputError, match=r'in memory, since sampler="crp" draws'):
        DirichletProcessMixture(sampler="crp", random_state=0).fit(open_rows(tmp_path / "rows.npy"))
    np.save(tmp_path / "weights.npy", np.ones(300))
    weighted = open_rows(tmp_path / "rows.npy", weights=tmp_path / "weights.npy")
    with pytest.raises(InputError, match=r"must all count once"):
        DirichletProcessMixture(random_state=0).fit(weighted)
    sp.save_npz(tmp_path / "rows.npz", sp.csr_array(rows), compressed=False)
    with pytest.raises(InputError, match=r"needs dense rows"):
        DirichletProcessMixture(random_state=0).fit(open_rows(tmp_path / "rows.npz"))
    on_disk = DirichletProcessMixture("vmf", **BRIEF).fit(open_rows(tmp_path / "rows.npz"))
    np.testing.assert_array_equal(
        on_disk.sample_labels_, DirichletProcessMixture("vmf", **BRIEF).fit(sp.csr_array(rows)).sample_labels_
    )
