"""`papers/gopal2014_vmf` runs at toy size, and its pages say what was measured."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.feature_extraction.text import TfidfTransformer

from armillary import MultinomialMixture
from armillary.models.vmf import multinomial_mixture

GOPAL = Path(__file__).parents[2] / "papers" / "gopal2014_vmf"
REASON = "ARMILLARY_SHARED_DATA does not name a data folder"


@pytest.fixture
def modules(monkeypatch):
    """The script's own modules, as it imports them; gone from `sys.modules` afterwards."""
    names = (
        "documents", "methods", "held_out", "hierarchies", "slices", "claims", "pictures", "first_concentrations",
        "posteriors", "counter_examples", "topics_over_time", "weightings", "iterations", "proposals", "directions",
        "starts",
    )  # fmt: skip
    monkeypatch.syspath_prepend(str(GOPAL))
    loaded = {}
    for name in names:
        monkeypatch.delitem(sys.modules, name, raising=False)
    for name in names:
        loaded[name] = __import__(name)
    yield loaded
    for name in names:
        sys.modules.pop(name, None)


@pytest.fixture(scope="module")
def toy_run(tmp_path_factory):
    output = tmp_path_factory.mktemp("gopal2014")
    environ = {name: value for name, value in os.environ.items() if name != "ARMILLARY_SHARED_DATA"}
    command = [sys.executable, GOPAL / "run.py", "--toy", "--output", output]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return output, done.stdout


def test_the_run_leaves_results_tables_claims_and_pictures(toy_run):
    output, printed = toy_run
    names = {path.name for path in output.iterdir()}
    pictures = {"nmi_random_labels.png", "nmi_plus_plus.png", "nmi_over_k.png", "held_out.png"}
    pictures |= {"hierarchies.png", "slices.png"}
    assert names == pictures | {"results.json", "results.md", "claims.md"}
    assert f"skipped: {REASON}" in " ".join(printed.split())
    results = json.loads((output / "results.json").read_text())
    entry = results["clustering"]["4 topics"]
    assert set(entry["starts"]) == {"random labels", "k-means++"}
    at_classes = entry["starts"]["random labels"]["4"]
    assert set(at_classes) == {
        "vMFmix tied", "vMFmix free", "spherical k-means", "k-means", "soft k-means", "multinomial", "LDA",
    }  # fmt: skip
    for line in at_classes.values():
        assert {"MI", "NMI", "RI", "ARI", "purity", "macro F1"} <= set(line)
    # four topics far apart: from k-means++ the directional methods find them
    assert entry["starts"]["k-means++"]["4"]["vMFmix tied"]["NMI"]["mean"] > 0.8
    assert set(results["held_out"]["4 topics"]["by_number"]) == {"2", "4", "8"}
    trees = results["hierarchies"]["4 topics"]["by_number"]
    assert set(trees) == {"(2, 2)"}
    assert set(trees["(2, 2)"]["splits"][0]) == {
        "vMFmix tied", "vMFmix free", "B-vMFmix", "H-vMFmix", "H-vMFmix factorised",
    }  # fmt: skip
    (last,) = results["slices"]["4 topics"]["by_number"].values()
    assert {"B-vMFmix", "T-vMFmix", "drift, degrees"} <= set(last["splits"][0])


def test_slices_are_learned_from_the_past_and_scored_on_what_comes_next(modules, monkeypatch):
    documents = modules["documents"].drawn(60, 40, 3, seed=5)
    slices = np.repeat([0, 1, 3, 7], 15)  # 2 is missing; 4 to 6 as well
    shuffled = np.random.default_rng(0).permutation(60)
    late = modules["documents"].Documents("late", documents.counts[shuffled], None, slices[shuffled])
    seen = {}

    class Watched:
        drift_concentration_, drift_angle_ = 100.0, 0.1

        def __init__(self, *_, **__):
            pass

        def fit(self, rows, times, slices):
            seen["fit"] = rows.shape[0], times.tolist(), list(slices)

        def score_next(self, rows, n_steps):
            seen["score"] = rows.shape[0], n_steps
            return 0.0

    monkeypatch.setattr(modules["slices"].armillary, "TemporalVonMisesFisherMixture", Watched)
    modules["slices"].measure(late, 3, 2, seed=1)
    assert seen["fit"] == (45, sorted([0, 1, 3] * 15), [0, 1, 2, 3])
    assert seen["score"] == (15, 4)


def test_what_was_drawn_judges_no_claim(toy_run):
    output, _ = toy_run
    page = (output / "claims.md").read_text()
    table = page[page.index("| claim |") :].split("\n\n")[0]
    lines = table.splitlines()[2:]
    assert len(lines) >= 40
    assert all(line.endswith(f"{REASON} | skipped |") for line in lines)


def test_the_pages_are_those_of_the_stored_results(modules):
    stored = GOPAL / "results.json"
    results = json.loads(stored.read_text())
    assert (GOPAL / "claims.md").read_text() == modules["claims"].page(results)
    assert (GOPAL / "results.md").read_text() == modules["claims"].tables(results)
    assert results["about"]["data"] == "recorded"


def test_all_methods_start_from_the_same_labels(modules, monkeypatch):
    documents = modules["documents"].drawn(60, 50, 3, seed=2)
    labels = modules["methods"].start_labels(5, 60, 3)
    seen = {}
    real = multinomial_mixture.update

    def watched(statistics, scale, parameters):
        seen.setdefault("first", (statistics.counts.copy(), scale * statistics.resultants))
        return real(statistics, scale, parameters)

    monkeypatch.setattr(multinomial_mixture, "update", watched)
    MultinomialMixture(3, init="random_labels", random_state=5, tol=1e-3).fit(documents.counts)
    np.testing.assert_array_equal(seen["first"][0], np.bincount(labels, minlength=3))
    wanted = np.eye(3)[labels].T @ documents.counts.toarray()
    np.testing.assert_allclose(seen["first"][1], wanted, rtol=1e-12, atol=1e-9)
    rows = modules["documents"].tf_idf(documents.counts)
    start = modules["methods"].make_start(rows, 3, "random labels", 5)
    sums = np.eye(3)[labels].T @ rows.toarray()
    np.testing.assert_allclose(start.directions, sums / np.linalg.norm(sums, axis=1, keepdims=True), rtol=1e-12)


def test_tf_idf_is_that_of_the_mathematics_and_of_the_training_rows(modules):
    counts = modules["documents"].drawn(40, 30, 3, seed=3).counts
    train = np.arange(0, 40, 2)
    dense = counts.toarray()
    for given, seen in ((None, dense), (train, dense[train])):
        idf = np.log((1.0 + len(seen)) / (1.0 + (seen > 0).sum(axis=0))) + 1.0
        wanted = dense * idf
        wanted /= np.linalg.norm(wanted, axis=1, keepdims=True)
        np.testing.assert_allclose(modules["documents"].tf_idf(counts, given).toarray(), wanted, rtol=1e-12)
    np.testing.assert_allclose(
        modules["documents"].tf_idf(counts).toarray(), TfidfTransformer().fit_transform(counts).toarray(), rtol=1e-12
    )


def test_held_out_likelihood_is_over_the_uniform_law(modules):
    assert abs(modules["held_out"].gain(-np.log(4.0 * np.pi), 3)) < 1e-12
    documents = modules["documents"].drawn(80, 60, 3, seed=4)
    found = modules["held_out"].measure(documents, 3, seed=1)
    assert set(found) == {"vMFmix tied", "vMFmix free", "B-vMFmix"}
    assert all(np.isfinite(value) and value > 0.0 for value in found.values())
    assert modules["held_out"].measure(documents, 3, seed=1) == found


def test_first_concentrations_differ_and_repeat(modules):
    documents = modules["documents"].drawn(120, 80, 3, seed=6)
    found = modules["first_concentrations"].measure(documents, "random labels", 1)
    assert found["likeliest concentration"] > modules["first_concentrations"].LOW
    assert set(found["low"]) == {*modules["methods"].MEASURES, "steps"}
    assert found == modules["first_concentrations"].measure(documents, "random labels", 1)


def test_every_way_to_the_posterior_is_scored_on_what_it_has_not_seen(modules):
    documents = modules["documents"].drawn(100, 60, 3, seed=7)
    found = {way: modules["posteriors"].measure(documents, way, 1, (5, 5)) for way in modules["posteriors"].WAYS}
    nats = [line["nats"] for line in found.values()]
    assert all(np.isfinite(nats))
    # one model, five ways: they agree to a few nats
    assert max(nats) - min(nats) < 5.0
    grid = found["grid"]
    assert grid["falls"] == 0.0, "a bound in closed form never falls"
    assert grid["widths"]
    assert all(0.0 < width < 1.0 for width in grid["widths"])
    assert "falls" not in found["Gibbs"]


def test_a_fixed_variance_finds_what_is_far_apart_and_nothing_on_unit_rows(modules):
    rows = np.random.default_rng(0).standard_normal((200, 2)) * 0.3
    truth = np.arange(200) % 2
    rows[truth == 1, 0] += 8.0
    halves = np.where(np.arange(200) < 100, 0, 1)
    for place, is_found in ((rows, True), (rows / np.linalg.norm(rows, axis=1, keepdims=True), False)):
        labels = modules["weightings"].fixed_variance(sp.csr_matrix(place), halves, 2)
        assert (abs(np.corrcoef(labels, truth)[0, 1]) > 0.99 if len(np.unique(labels)) > 1 else False) == is_found


def test_all_weightings_are_measured(modules):
    documents = modules["documents"].drawn(100, 60, 3, seed=9)
    found = modules["weightings"].measure(documents, 1)
    assert len(found) == 6
    assert found == modules["weightings"].measure(documents, 1)
    assert max(found.values()) <= 1.0
    spent = modules["iterations"].measure(documents, 1)
    assert list(spent) == ["vMFmix tied", "k-means", "soft k-means", "multinomial", "LDA", "steps"]
    assert list(spent["steps"]) == ["product", "sums of hard labels", "sums of shares"]
    assert spent["LDA"] > 0.0


def test_starts_and_draws_of_directions_are_measured(modules):
    documents = modules["documents"].drawn(100, 60, 3, seed=9)
    found = modules["starts"].measure(documents, 1)
    assert set(found) == {"random labels", "k-means++"}
    assert found == modules["starts"].measure(documents, 1)
    spent = modules["directions"].measure(documents, 1)
    assert spent["components"] == 3.0
    assert spent["draw"] > 0.0


def test_relaxation_is_that_of_simulated_chains(modules):
    """The lag-one correlation of a Gaussian posterior under its own law as proposal is 0, and of no move at all 1."""
    proposals = modules["proposals"]
    points = np.linspace(-6.0, 6.0, 301)
    log_p = -0.5 * points**2
    itself = np.exp(log_p) / np.exp(log_p).sum()
    assert proposals._relaxation(np.broadcast_to(itself, (301, 301)), log_p) == pytest.approx(1.0, abs=1e-6)
    # a lazy step among neighbours relaxes as slowly as the square of the width says
    near = np.exp(-0.5 * ((points[None] - points[:, None]) / 0.2) ** 2) * (points[1] - points[0]) / (0.2 * 2.5066)
    slow = proposals._relaxation(near, log_p)
    nearer = np.exp(-0.5 * ((points[None] - points[:, None]) / 0.1) ** 2) * (points[1] - points[0]) / (0.1 * 2.5066)
    assert proposals._relaxation(nearer, log_p) / slow == pytest.approx(4.0, rel=0.2)
    # a prior much wider than the posterior is accepted as seldom as it is wide
    wide = proposals.relaxation(500, 200, 60.0, (np.log(200.0), 1.0))
    narrow = proposals.relaxation(500, 200, 60.0, (np.log(200.0), 0.25))
    assert wide["prior"] > 2.0 * narrow["prior"]
    assert narrow["log step"] < 5.0


def test_the_printed_step_needs_many_times_as_many(modules):
    found = modules["proposals"].relaxation(5000, 500, 200.0, (np.log(200.0), 1.0))
    assert found["step of 1"] > 10.0 * found["log step"]
    stored = json.loads((GOPAL / "results.json").read_text())["proposals"]
    for runs in stored.values():
        step, ours = (np.median([value for run in runs for value in run[what]]) for what in ("step of 1", "log step"))
        assert step > 9.0 * ours


def test_sets_have_the_sizes_that_the_paper_prints_but_for_one(modules):
    # the paper: 1,079 features of CNAE as well
    wanted = {"k1a": [2340, 21839], "CNAE-9": [1079, 856]}
    stored = json.loads((GOPAL / "results.json").read_text())["clustering"]
    assert {name: stored[name]["shape"] for name in wanted} == wanted
    folder = os.environ.get("ARMILLARY_SHARED_DATA")
    if folder:  # and so they are still
        for name, shape in wanted.items():
            assert list(modules["documents"].load(Path(folder), name).counts.shape) == shape


def test_quantities_of_a_collection(modules):
    rows = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, -1.0]])
    found = modules["counter_examples"].quantities(rows, np.array([0, 0, 1, 1]))
    assert found == {"length": 0.5, "spread": 1.0, "evenness": pytest.approx(1.0)}


def test_words_of_topics_are_those_of_the_papers_words(modules):
    documents = modules["documents"].drawn(150, 60, 4, seed=8)
    words = [f"word{number}" for number in range(60)]
    words[3] = "synaptic"
    numbers, model = modules["topics_over_time"].words_over_time(documents, words)
    assert numbers["topic"] == model.means_[0][:, 3].argmax()
    assert len(numbers["changed"]) == modules["topics_over_time"].N_TOPICS
    sphere, moving, rows = modules["topics_over_time"].on_the_sphere(documents)
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1.0)
    assert len(sphere["turned, degrees"]) == moving.means_.shape[1] == 5
