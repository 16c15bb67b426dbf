"""The runs behind single lines of the pages of claims: small forms of them, and what they share."""

from __future__ import annotations

import importlib
import json
import math
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from papers.common import (
    between,
    clock,
    computed,
    interval,
    interval_of,
    resumed,
    share_interval,
    since,
    told_seconds,
    written,
)

from armillary.datasets import make_vmf_mixture
from armillary.distributions.vmf_component import VmfComponent

PAPERS = Path(__file__).parents[2] / "papers"


def _loaded(monkeypatch, folder, names):
    """Scripts by their plain names, as they import each other; gone from `sys.modules` afterwards."""
    for name in names:
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.syspath_prepend(str(PAPERS / folder))
    return {name: importlib.import_module(name) for name in names}


@pytest.fixture
def straub(monkeypatch):
    names = (
        "synthetic",
        "baselines",
        "views",
        "scenes",
        "depth_images",
        "restaurant",
        "samplers",
        "other_data",
        "times",
        "walks",
        "maxima",
    )
    yield _loaded(monkeypatch, "straub2015_small_variance", names)
    for name in names:
        sys.modules.pop(name, None)


@pytest.fixture
def mansfield(monkeypatch):
    names = ("streams", "methods", "similarities", "behaviour", "budgets")
    yield _loaded(monkeypatch, "mansfield2018_links", names)
    for name in names:
        sys.modules.pop(name, None)


# ----------------------------------------------------------------------------------------------------------- shared


def test_a_run_that_was_cut_short_goes_on(tmp_path):
    store, called = tmp_path / "deep" / "cases.json", []

    def case(number):
        if number == 2 and 2 not in called:
            called.append(number)
            raise KeyboardInterrupt
        called.append(number)
        return {"square": float(number**2)}

    cases = {str(number): lambda number=number: case(number) for number in range(4)}
    with pytest.raises(KeyboardInterrupt):
        resumed(cases, store, "cases")
    assert set(json.loads(store.read_text())) == {"0", "1"}
    found = resumed(cases, store, "cases")
    assert list(found) == ["0", "1", "2", "3"]
    assert called == [0, 1, 2, 2, 3]
    assert not store.exists()


def test_cases_of_other_numbers_are_computed_again(tmp_path):
    """A run with 100 sweeps that was cut short once gave its cases to one with 300."""
    store, called = tmp_path / "cases.json", []

    def case(run, n_sweeps):
        called.append((run, n_sweeps))
        if run == 2 and n_sweeps == 100:
            raise KeyboardInterrupt
        return n_sweeps

    def cases(n_sweeps):
        return {f"run {run}": partial(case, run, n_sweeps) for run in range(3)}

    with pytest.raises(KeyboardInterrupt):
        resumed(cases(100), store, word="")
    assert resumed(cases(300), store, word="") == {f"run {run}": 300 for run in range(3)}
    assert called == [(0, 100), (1, 100), (2, 100), (0, 300), (1, 300), (2, 300)]


def test_parts_of_a_first_go_are_kept_until_the_results_are_written(tmp_path):
    """A run that was cut short in its second go once computed the first again."""
    store, called = tmp_path / "parts.json", []

    def part(name):
        called.append(name)
        return {"of": name}

    first = {name: partial(part, name) for name in "ab"}
    for _ in range(2):
        assert computed(first, store, is_kept=True)[0] == {"a": {"of": "a"}, "b": {"of": "b"}}
    assert called == ["a", "b"]
    written(first, store)
    assert not list(tmp_path.iterdir())
    computed(first, store)
    assert called == ["a", "b"] * 2
    assert not list(tmp_path.iterdir())


def test_parts_that_were_computed_are_not_computed_again(tmp_path):
    store, called = tmp_path / "cases" / "full, parts.json", []

    def part(name):
        called.append(name)
        if called == ["a", "b"]:
            raise KeyboardInterrupt
        return {"cases": resumed({"one": lambda: len(called)}, tmp_path / f"{name}.json", word="")}

    parts = {name: lambda name=name: part(name) for name in "abc"}
    with pytest.raises(KeyboardInterrupt):
        computed(parts, store)
    # another choice of parts is another run, and leaves this one as it is
    assert list(computed({"c": parts["c"]}, store)[0]) == ["c"]
    found, seconds = computed(parts, store)
    assert found == {"a": {"cases": {"one": 1}}, "b": {"cases": {"one": 4}}, "c": {"cases": {"one": 5}}}
    assert called == ["a", "b", "c", "b", "c"]
    assert all(spent["wall"] >= 0.0 and spent["cpu"] >= 0.0 for spent in seconds.values())
    told = told_seconds(seconds | {"d": {"wall": 61.0}}, (*"abcd", "e"))
    assert "a 0 (0)" in told
    assert ", d 61. In all 1 minutes" in told
    assert told.endswith("whose parts have no time: e.")
    assert not list(store.parent.iterdir())


def test_seconds_of_an_earlier_process_are_counted(tmp_path):
    store = tmp_path / "cases.json"
    store.write_text(json.dumps({"one": {"value": 1, "spent": {"wall": 50.0, "cpu": 40.0}}}))
    begin = clock()
    assert resumed({"one": lambda: 2, "two": lambda: 3}, store, word="") == {"one": 1, "two": 3}
    assert since(begin) == {"wall": pytest.approx(50.0, abs=5.0), "cpu": pytest.approx(40.0, abs=5.0)}


def test_intervals():
    values = [1.0, 2.0, 4.0]
    low, high = interval(values)
    sd = np.std(values, ddof=1)
    assert (low, high) == pytest.approx(interval_of(float(np.mean(values)), float(sd), 3))
    assert high - np.mean(values) == pytest.approx(4.30265 * sd / math.sqrt(3), rel=1e-5)  # t of two degrees of freedom
    assert interval([0.5]) == interval([0.5, 0.5]) == (0.5, 0.5)
    # Wilson's, by hand: 9 of 10
    z = 1.959964
    middle, half = (0.9 + z**2 / 20) / (1 + z**2 / 10), z * math.sqrt(0.09 / 10 + z**2 / 400) / (1 + z**2 / 10)
    assert share_interval(9, 10) == pytest.approx((middle - half, middle + half), abs=1e-6)
    assert between((0.25, 0.5), 2) == "95%: 0.25 to 0.50"


# ------------------------------------------------------------------------------------ Straub 2015, small variance


def test_samplers_start_from_random_labels_and_tell_what_they_cost(straub):
    restaurant = straub["samplers"].RESTAURANTS[0]
    cases = straub["samplers"].cases({"FSD": (90, 3, 1), restaurant: (60, 2, 1)})
    found = {name: case() for name, case in cases.items()}
    beside = f"{restaurant}: split/merge"  # on the same rows, for as many sweeps
    assert list(found) == ["FSD, run 0", f"{restaurant}, run 0", f"{beside}, run 0"]
    collected = straub["samplers"].collected(found)
    for name, n_rows in (("FSD", 90), (restaurant, 60), (beside, 60)):
        (run,) = collected[name]["runs"]
        assert run["n_rows"] == n_rows
        assert run["n_sweeps"] >= (2 if name.startswith(restaurant) else 3)
        hours = run["seconds_a_sweep"] / n_rows * 30_000 * 5000 / 3600
        assert collected[name]["hours_in_full"] == pytest.approx(hours)


def _seated(rows, labels, uniforms, component):
    """The same draws by the marginals of the component; clusters are numbered as in the compiled form."""
    labels, groups = labels.copy(), [set(np.flatnonzero(labels == k)) for k in range(labels.max() + 1)]
    for i, row in enumerate(rows):
        here = next(k for k, group in enumerate(groups) if i in group)
        groups[here].remove(i)
        if not groups[here]:
            groups[here] = groups[-1]
            groups.pop()
        scores = []
        for group in groups:
            count, total = np.array(float(len(group))), rows[list(group)].sum(axis=0)
            gain = component.log_marginal((count + 1.0, total + row)) - component.log_marginal((count, total))
            scores.append(np.log(len(group)) + float(gain))
        scores.append(component.log_prior_predictive(row[None])[0])
        shares = np.exp(scores - np.max(scores))
        chosen = int(np.argmax(np.cumsum(shares) > uniforms[i] * shares.sum()))
        groups[chosen].add(i) if chosen < len(groups) else groups.append({i})
    for k, group in enumerate(groups):
        labels[list(group)] = k
    return labels


def test_the_compiled_restaurant_draws_what_the_component_says(straub):
    generator = np.random.default_rng(3)
    rows, _ = straub["synthetic"].thirty_clusters(120, 4)
    start = generator.integers(6, size=len(rows))
    kappa = straub["synthetic"].CONCENTRATION
    component = VmfComponent(3, np.array([kappa]), np.zeros(1))
    seats, labels = straub["restaurant"].Seats(rows, start, kappa), start
    for _ in range(3):
        uniforms = generator.random(len(rows))
        seats.sweep(uniforms)
        labels = _seated(rows, labels, uniforms, component)
        np.testing.assert_array_equal(seats.labels, labels)
    assert len(np.unique(labels)) > 6
    # at another concentration it draws otherwise
    broad = straub["restaurant"].Seats(rows, start, 0.2 * kappa)
    broad.sweep(uniforms)
    assert (broad.labels != labels).any()


def test_the_restaurant_on_all_rows_is_told_beside_a_chain_from_the_truth(straub):
    samplers = straub["samplers"]
    cases = samplers.cases({}, (90, 4, 2, 2))
    assert list(cases) == [f"{samplers.WHOLE}, run {run}" for run in range(2)]
    entry = samplers.collected({name: case() for name, case in cases.items()})[samplers.WHOLE]
    for run in entry["runs"]:
        assert (run["n_rows"], run["n_sweeps"]) == (90, 4)
        assert run["true"]["nmi"] > 0.9
        assert run["random"]["numbers"][-1] == run["random"]["last_n_clusters"]
    hours = np.mean([run["random"]["seconds_a_sweep"] for run in entry["runs"]]) / 90 * 30_000 * 5000 / 3600
    assert entry["hours_in_full"] == pytest.approx(hours)


def test_a_quaternion_and_its_opposite_are_one_vector(straub):
    other = straub["other_data"]
    rows, labels = other.rotations(200, 5)
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1.0)
    written = other.embedded(rows)
    np.testing.assert_allclose(written, other.embedded(-rows), atol=1e-15)
    np.testing.assert_allclose(written @ written.T, (rows @ rows.T) ** 2, atol=1e-12)
    assert len(np.unique(labels)) == other.N_ROTATIONS
    found = other.quaternions(600, 5)
    assert found["n_clusters"] == 12
    assert found["raw n_clusters"] == 24


def test_backbones_are_unit_rows_about_four_places(straub):
    found = straub["other_data"].backbones(400, 3)
    assert found["nmi"] > 0.8
    assert 4 <= found["n_clusters"] <= 7


def test_the_printed_iteration_is_right_where_it_gets_anywhere(straub):
    walks = straub["walks"]
    for is_sum in (False, True):
        found = walks.measure(is_sum, 0, 300)
        assert 0.3 < found["solved"] < 0.95
        assert found["steps"] <= found["most steps"] < 20
        assert found["off, degrees"] < 1.0
    # beyond 58 degrees a heavy memory and one row leave the arcsine
    phi, _ = walks.printed(np.radians([50.0, 70.0]), np.full(2, 1e5), np.ones(2), np.ones(2))
    assert np.isfinite(phi[0])
    assert np.isnan(phi[1])


def test_maxima_of_a_scene_are_where_its_normals_are(straub):
    maxima = straub["maxima"]
    rows, _, _ = make_vmf_mixture(600, 3, 3, concentration=300.0, min_angle=1.4, random_state=1)
    found = maxima.measure(rows.astype(np.float32)[None], track=lambda items, _: items)
    assert found == {
        "centres": [3], "centres near a maximum": [3], "maxima": [3], "maxima near a centre": [3]
    }  # fmt: skip


def test_every_made_room_has_rows_of_its_own(straub):
    one, other = (straub["views"].turning_room(64, 0.0, 30, seed) for seed in (100, 101))
    assert (one.frames != other.frames).any()
    found = straub["views"].many_rooms(64, 100, 30)
    assert set(found) == {"100", "80", "100, noisy", "80, noisy"}
    assert found["80"]["batch"]["id_changes"] >= found["80"]["ddp"]["id_changes"]


def test_times_leave_out_the_first_frame(straub):
    stream = straub["depth_images"].room(4, 64)
    found = straub["times"].measure(stream, 2)
    assert set(found["milliseconds"]) == set(straub["times"].PAPER)
    spent = [*found["milliseconds"].values(), found["smoothing and normals"]]
    assert all(len(values) == 2 and min(values) >= 0.0 for values in spent)


# ------------------------------------------------------------------------------------------------------ Mansfield 2018


def test_made_clusters_have_the_density_of_the_paper(mansfield):
    """The angle to the centre has its mode where it was asked for, and spreads less in more dimensions."""
    rng = np.random.default_rng(0)
    spreads = []
    for dimension in (32, 256):
        center, rows = mansfield["similarities"].cluster(dimension, 4000, rng)
        angles = np.arccos(np.clip(rows @ center, -1.0, 1.0))
        assert abs(np.median(angles) - mansfield["similarities"].MODE) < 0.02
        spreads.append(angles.std())
    assert spreads[1] < 0.5 * spreads[0]


def test_similarities_of_made_clusters_are_those_of_the_formula(mansfield):
    found = mansfield["similarities"].made(256, 1, 20)
    assert max(abs(value) for value in found["differences"].values()) < 0.03
    assert found["lemma 1"] == found["lemma 2"] == 0.0
    assert found["means, degrees"] < 1.0
    assert found == mansfield["similarities"].made(256, 1, 20)


def test_elongated_clusters_keep_the_similarity_of_members_and_part_their_ends(mansfield):
    found = mansfield["similarities"].elongated(256, 1, 5)
    assert found["long pair"] == pytest.approx(found["round pair"], abs=0.02)
    assert found["long grown"] < found["round grown"] - 0.02
    assert found == mansfield["similarities"].elongated(256, 1, 5)


def test_ids_at_the_end_are_beside_the_answers(mansfield):
    stream = mansfield["streams"].drawn()
    runs = mansfield["behaviour"].past(stream, [[0.75, 0.8, 0.9], [0.75, 0.8, 0.9]])
    assert len(runs) == 6
    for run in runs:
        assert run["now"] >= 0.9
        assert min(run["n_subclusters"], run["n_subclusters_at_half"]) >= 6.0
        assert run["n_persons"] == 6.0


def test_linkscluster_tries_as_many_settings_as_links(mansfield):
    """A peer that answers with the persons themselves, and counts what it is asked."""
    budgets, methods = mansfield["budgets"], mansfield["methods"]
    stream = mansfield["streams"].drawn()
    seen = []

    def answer(peer, parameters, rows):
        seen.append((peer, tuple(parameters), len(rows)))
        return stream.persons[(rows @ stream.rows.T).argmax(axis=1)], 0.0

    cases = budgets.cases({"drawn": mansfield["streams"].drawn}, answer)
    found = budgets.collected({name: case() for name, case in cases.items() if name.endswith("back")})
    (way,) = found["drawn"][methods.PEER]
    assert way["accuracy"] == [1.0] * 3
    # all and its preset on one order, the best three on two orders more, three orders of the other half
    assert len(seen) == way["n_tried"] + 1 + 6 + 3
    assert len({parameters for _, parameters, _ in seen}) >= way["n_tried"]


def test_more_sub_clusters_at_a_larger_threshold(mansfield):
    found = list(mansfield["behaviour"].granularity(128, 0).values())
    assert found == sorted(found)
    assert found[-1] > 2.0 * found[0]


def test_lemmas_are_measured_on_one_vector_of_each_recording(mansfield, monkeypatch):
    """Persons that are what the lemmas say, and persons in three dimensions."""
    similarities, streams = mansfield["similarities"], mansfield["streams"]
    for dimension, is_so in ((256, True), (3, False)):
        rng = np.random.default_rng(7)
        rows = np.concatenate([similarities.cluster(dimension, 24, rng)[1] for _ in range(6)])
        made = streams.Stream(rows.astype(np.float32), np.repeat(np.arange(6), 24), np.tile(np.arange(12).repeat(2), 6))
        monkeypatch.setitem(streams.SETS, "made", lambda _, made=made: made)
        found = similarities.recorded_lemmas(Path(), "made")
        assert len(found) == 6
        means = {what: np.mean([person[what] for person in found]) for what in found[0]}
        assert (max(means.values()) < 0.05) == is_so, means


@pytest.mark.slow
def test_links_serves_where_small_variance_does_not(mansfield):
    """Broad clusters in 128 dimensions; three draws, the gap is about 0.3."""
    for run in range(3):
        found = mansfield["behaviour"].complement(128, run, 3)
        assert found["Links"] > found["DP-vMF-means, one pass"] + 0.1


@pytest.mark.slow
def test_the_finite_sampler_has_too_few_clusters_on_its_way(straub):
    """The short form of the line on FSD: 76 sweeps instead of 500, three runs instead of ten, seeds as there."""
    for run in range(3):
        finite = straub["samplers"].one("FSD", 3000, 76, run)
        exact = straub["samplers"].one("split/merge", 3000, 60, run)
        assert finite["n_clusters"] < 29
        assert finite["nmi"] < exact["nmi"]


@pytest.mark.slow
def test_the_restaurant_finds_on_few_rows_what_splits_do_not(straub):
    """The short form of the line on the CRP: 20 sweeps instead of 50, two runs instead of five, seeds as there."""
    samplers = straub["samplers"]
    name = samplers.RESTAURANTS[0]
    for run in range(2):
        restaurant = samplers.one(name, 200, 20, run)
        exact = samplers.one(f"{name}: {samplers.EXACT}", 200, 20, run)
        assert restaurant["nmi"] > 0.8
        assert restaurant["nmi"] > exact["nmi"] + 0.1
