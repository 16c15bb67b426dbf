"""`papers/straub2015_dptgmm` runs at toy size, measures what it says, and its page is that of the stored results."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from armillary import DirichletProcessMixture
from armillary.datasets import make_tangent_gaussian_mixture
from armillary.geometry import sphere

PAPER = Path(__file__).parents[2] / "papers" / "straub2015_dptgmm"
REASON = "ARMILLARY_SHARED_DATA does not name a data folder"
STATUSES = {"holds", "holds in part", "does not hold here", "shown", "skipped", "not run", "not attempted"}
NAMES = (
    "synthetic", "normals", "words", "claims", "page", "pictures", "proposals", "other_models", "mismatch", "costs",
    "cosine",
)  # fmt: skip


@pytest.fixture(scope="module")
def modules():
    """The script's own modules, as it imports them; gone from `sys.modules` afterwards."""
    kept = {name: sys.modules.pop(name) for name in NAMES if name in sys.modules}
    sys.path.insert(0, str(PAPER))
    loaded = {name: __import__(name) for name in NAMES}
    sys.path.remove(str(PAPER))
    for name in NAMES:
        sys.modules.pop(name, None)
    sys.modules.update(kept)
    return loaded


@pytest.fixture(scope="module")
def toy_run(tmp_path_factory):
    output = tmp_path_factory.mktemp("straub2015_dptgmm")
    environ = {name: value for name, value in os.environ.items() if name != "ARMILLARY_SHARED_DATA"}
    command = [sys.executable, PAPER / "run.py", "--toy", "--output", output]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return output, done.stdout


def test_the_run_leaves_results_claims_and_pictures(toy_run):
    output, printed = toy_run
    curves = {"figure3.png", "figure3_other_starts.png", "spheres_isotropic.png", "spheres_anisotropic.png"}
    frames = {"figure4.png", "frames_on_the_sphere.png"}
    assert {path.name for path in output.iterdir()} == curves | frames | {"results.json", "claims.md"}
    assert f"Recorded data is skipped: {REASON}" in " ".join(printed.split())
    results = json.loads((output / "results.json").read_text())
    for part in ("bundled", "scenes", "words"):
        assert results[part] == {"skipped": REASON}
    for kind in ("isotropic", "anisotropic"):
        methods = results[kind]["methods"]
        assert {"DP-TGMM", "FSD-TGMM", "DP-GMM", "k-means, random labels", "spherical k-means, k-means++"} <= set(
            methods
        )
        # NMI is known from the end of the warm-up on, the number of clusters from the first sweep
        line = methods["DP-TGMM"]["curves"]
        n_first = len(line["sweep"]) - 4
        assert line["sweep"] == list(range(1, n_first + 5))
        assert [value is None for value in line["nmi"]["mean"]] == n_first * [True] + 4 * [False]
        assert all(line["n_clusters"]["mean"])
        assert len(results[f"{kind}, other starts"]["methods"]) == 6


@pytest.mark.parametrize("is_stored", [False, True])
def test_the_page_is_written_from_the_results(is_stored, toy_run, modules):
    folder = PAPER if is_stored else toy_run[0]
    results = json.loads((folder / "results.json").read_text())
    assert (folder / "claims.md").read_text() == modules["page"].page(results)
    found = modules["claims"].lines(results)
    assert {line.status for line in found} <= STATUSES
    if is_stored:
        assert results["about"]["size"] == "full"
        assert set(modules["claims"].PARTS) <= set(results)
        assert not {"skipped", "not run"} & {line.status for line in found}


def test_a_chain_is_measured_sweep_by_sweep(modules):
    synthetic = modules["synthetic"]
    made = synthetic.make("anisotropic", 200, 4, seed=3)
    model = DirichletProcessMixture(n_burn_in=0, n_draws=5, random_state=5, init=synthetic.random_labels(made, 5))
    model.fit(made.rows)
    settings = {"init": "random labels"}
    estimate = synthetic.sampled(made, settings, n_draws=5, seed=5)
    last = synthetic.sampled(made, settings, n_draws=5, seed=5, is_estimated=False)
    np.testing.assert_array_equal(estimate.labels, model.labels_)
    np.testing.assert_array_equal(last.labels, model.sample_labels_[-1])
    np.testing.assert_array_equal(estimate.n_clusters, model.trace_[0, :, 0])
    assert np.isnan(estimate.nmi[:-5]).all()
    np.testing.assert_allclose(estimate.nmi[-5:], [synthetic.nmi(made.labels, draw) for draw in model.sample_labels_])


@pytest.mark.parametrize("method", ["k-means, random labels", "spherical k-means, k-means++"])
def test_what_is_told_the_number_goes_one_iteration_at_a_time(method, modules):
    synthetic = modules["synthetic"]
    made = synthetic.make("isotropic", 300, 5, seed=1)
    outcome = synthetic.told(made, method, seed=2)
    assert len(outcome.nmi) == 30
    assert outcome.nmi[-1] == synthetic.nmi(made.labels, outcome.labels) >= outcome.nmi[0]
    assert set(outcome.n_clusters) == {5.0}
    assert len(np.unique(outcome.labels)) == 5


def test_nothing_is_better_than_the_true_parameters(modules):
    synthetic = modules["synthetic"]
    assert synthetic.make("isotropic", 300, 4, seed=0).best_nmi == 1.0
    # crowded: thirty clusters overlap, and the true parameters cannot tell all rows apart
    made = synthetic.make("anisotropic", 3000, 30, seed=0)
    told = synthetic.told(made, "k-means, best of ten k-means++", seed=0)
    assert told.nmi[-1] < made.best_nmi < 1.0


def test_normals_are_described_by_the_clusters_they_are_in(modules):
    normals = modules["normals"]
    rows = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]] + 198 * [[0.0, 0.0, 1.0]])
    found = normals.describe(rows, np.array([0, 0] + 198 * [1]))
    assert found == {
        "n_clusters": 2,
        "n_large": 2,
        "mean_angle": pytest.approx(2 * 45.0 / 200),
        "far_share": pytest.approx(0.01),
    }
    assert normals.describe(rows, np.array([0, 2] + 198 * [1]))["n_large"] == 1


def test_coherence_counts_neighbours_that_have_normals(modules):
    is_valid = np.array([[True, True, False], [True, True, True]])
    normals = modules["normals"].Normals(np.zeros((2, 3, 3), dtype=np.float32), is_valid)
    # 0 0 .
    # 0 1 1    side by side: equal, not, equal; one above the other: equal, not
    assert modules["normals"].coherence(normals, np.array([0, 0, 0, 1, 1])) == pytest.approx(3 / 5)


def test_the_prior_weighs_against_the_rows_as_in_the_paper(modules):
    priors = modules["normals"].priors
    assert priors(300_000)["degrees_of_freedom_prior"] == priors(600_000)["degrees_of_freedom_prior"] == 10_000.0
    assert priors(3000)["degrees_of_freedom_prior"] == pytest.approx(100.0)
    assert priors(3000)["init"] == 2


@pytest.fixture(scope="module")
def vocabulary(modules):
    rows, labels, _ = make_tangent_gaussian_mixture(400, 20, 3, spread=0.12, min_angle=1.0, random_state=0)
    words = [f"word{number}" for number in range(400)]
    words[7], words[8] = "germany", "parliament"
    senses = np.where(np.arange(400) % 3 == 0, -1, labels)
    return modules["words"].Vocabulary(rows, words, senses, ["noun.a", "noun.b", "noun.c"])


@pytest.fixture(scope="module")
def word_run(modules, vocabulary):
    return modules["words"].run(vocabulary, 8)


def test_proposals_of_means_are_accepted_where_clusters_are_narrow(modules):
    narrow, wide = (modules["proposals"].mean_proposals(20, 50, degrees, 0, 60) for degrees in (4.0, 30.0))
    assert narrow["accepted"] > 0.8 > wide["accepted"]
    assert narrow["scatter error"] < 0.02 < wide["scatter error"]
    assert modules["proposals"].mean_proposals(20, 50, 4.0, 0, 60) == narrow
    spent = modules["proposals"].reused(3, 0, 20)
    assert 0.0 < spent["reused"] < spent["exact"]
    assert modules["proposals"].merged(3, 4.0, 15.0, 0) < 0.01 < modules["proposals"].merged(20, 4.0, 90.0, 0)


def test_a_chain_as_in_the_paper_starts_from_few_centroids(modules, vocabulary):
    found = modules["words"].as_in_the_paper(vocabulary, 5, 1)
    assert found["sweeps"][0] == 1
    assert len(found["sweeps"]) == len(found["n_clusters"]) == len(found["log_joint"]) == 2
    assert found == modules["words"].as_in_the_paper(vocabulary, 5, 1)


def test_ends_of_axes_differ_where_their_words_do(modules, vocabulary, word_run):
    """Supersenses by the first axis of each cluster are seen at its ends; by chance they are not."""
    words, model = modules["words"], word_run[1]
    senses = np.zeros(400, dtype=int)
    for cluster in range(3):
        members = np.flatnonzero(model.labels_ == cluster)
        senses[members] = model.tangent_coordinates(vocabulary.rows[members], cluster)[:, 0] > 0.0
    found = words.axes(model, vocabulary._replace(senses=senses), np.random.default_rng(0))
    assert (found["n_clusters"], found["first"]) == (3, 3)
    shuffled = vocabulary._replace(senses=np.random.default_rng(1).integers(3, size=400))
    none = words.axes(model, shuffled, np.random.default_rng(0))
    assert none["first"] + none["second"] <= 2  # of six at 5% each


def test_models_that_describe_less(modules):
    found = modules["other_models"].measure("anisotropic", 600, 4, 4, 0)
    assert found["DP-vMF-MM"]["n_clusters"] >= 4
    assert all(0.0 < one["nmi"] <= 1.0 for one in found.values())
    assert found["Gaussians in space"]["nmi"] > 0.9


def test_a_fixed_concentration_far_too_low_loses_clusters(modules):
    found = modules["mismatch"].measure(900, 12, 0)
    assert list(found) == ["0.0625", "1", "16"]
    assert found["1"] > 0.95
    assert found["0.0625"] < found["1"] - 0.01
    assert found == modules["mismatch"].measure(900, 12, 0)


def test_documents_are_compared_by_angle_and_by_distance(modules):
    """Topics of documents a hundred times as long as others: lengths tell nothing, and mislead distances."""
    from papers.gopal2014_vmf.documents import Documents, drawn

    short = drawn(120, 80, 3, seed=2)
    factors = np.where(np.arange(120) % 2 == 0, 100.0, 1.0)
    documents = Documents("made", short.counts.multiply(factors[:, None]).tocsr(), short.classes)
    found = modules["cosine"].measure(documents, 1)
    assert set(found) == {"random labels", "k-means++"}
    assert all(one["cosine"] > one["Euclidean"] + 0.2 for one in found.values())


def test_powers_of_a_cost(modules):
    sizes = [{"n_rows": n, "n_clusters": 5.0, "milliseconds": 0.1 * n**1.5} for n in (10, 20, 40)]
    assert modules["costs"]._power(sizes, "n_rows") == pytest.approx(1.5)
    rows = modules["synthetic"].make("isotropic", 200, 3, seed=0).rows
    found = modules["costs"].sweep(rows, (2, 6), {"random_state": 0, "init": 4})
    assert found["n_rows"] == 200
    assert 2.0 <= found["n_clusters"] <= 8.0
    # every size is a case of its own, so that a run that is cut short loses one
    cases = modules["costs"].cases(None, (), 2, (5, 15), 1.0)
    assert len(cases) == 2 * (len(modules["costs"].ROWS) + len(modules["costs"].NUMBERS))
    entries = {
        name: {"n_rows": number, "n_clusters": number, "milliseconds": 0.1 * number}
        for name in cases
        for number in [float(name.split(",")[0].split()[1])]
    }
    collected = modules["costs"].collected(entries | {"a frame": 1})
    assert collected["frames"] == {"a frame": 1}
    assert [len(run["rows"]) for run in collected["made"]] == [3, 3]
    for run in collected["made"]:
        assert [run["power of rows"], run["power of clusters"]] == pytest.approx([1.0, 1.0])


def test_a_cost_that_is_hardly_felt_holds_in_part(modules):
    judge = next(claim.judge for claim in modules["claims"].CLAIMS if claim.key == "cost")

    def verdict(power, first):
        times = [{"n_rows": n, "n_clusters": n, "milliseconds": first + n**power} for n in (10, 40, 160)]
        run = {"rows": times, "clusters": times, "power of rows": power, "power of clusters": power}
        return judge({"costs": {"made": [run, run]}})[1]

    assert verdict(1.0, 1.0) == "holds"
    assert verdict(1.5, 1.0) == "does not hold here"
    # most of a sweep is what it costs whatever the rows are: that says nothing
    assert verdict(1.0, 1000.0) == "holds in part"


def test_cases_of_other_starts_are_collected_as_runs_are(modules):
    synthetic = modules["synthetic"]
    given = 90, 3, range(2), 3
    cases = {name: case() for name, case in synthetic.elsewhere("isotropic", *given).items()}
    found = synthetic.collected(cases, *given)
    beside, _, _ = synthetic.run(
        "isotropic", 90, 3, range(2), synthetic.FROM_ELSEWHERE, 3, track=lambda items, _: items, is_estimated=False
    )
    assert found["best_nmi"] == beside["best_nmi"]
    for method, line in beside["methods"].items():
        assert found["methods"][method]["n_clusters"] == line["n_clusters"]
        assert found["methods"][method]["nmi"] == line["nmi"]
        np.testing.assert_allclose(
            found["methods"][method]["curves"]["n_clusters"]["sd"], line["curves"]["n_clusters"]["sd"]
        )


def test_words_of_a_made_vocabulary(modules, vocabulary, word_run):
    results, model = word_run
    assert results["n_clusters"] == model.n_clusters_ == 3
    assert results["n_sweeps"] == len(results["trace"]) == model.n_discarded_ + 2
    assert results["meaning"]["DP-TGMM"]["ami"] == pytest.approx(1.0)
    assert abs(results["meaning"]["DP-TGMM's clusters, words shuffled"]["ami"]) < 0.05
    assert [line["senses"][0][1] for line in results["clusters"]] == [1.0, 1.0, 1.0]
    assert results["ends"]["cluster"] == model.labels_[7]
    assert {"germany", "parliament"} == {word for line in results["clusters"] for word in line["of"]}
    assert results["share_above_round"] == np.mean(
        np.array(results["condition_numbers"]) > results["round_condition_number"]
    )
    again = modules["words"].by_seed(vocabulary, 8, 0)
    assert again == {name: results[name] for name in again}
    runs = [modules["words"].as_in_the_paper(vocabulary, 4, 0)]
    assert len(modules["pictures"].figure_5(results, runs).axes) == 3
    figure = modules["pictures"].figure_5b(model, vocabulary, results["ends"]["cluster"])
    assert len(figure.axes[0].texts) > 20


def test_most_likely_words_have_the_highest_density(modules, vocabulary, word_run):
    model = word_run[1]
    for cluster in range(3):
        # the density of the mixture is nearly that of the cluster: the others are far away
        densities = model.score_samples(vocabulary.rows)
        members = np.flatnonzero(model.labels_ == cluster)
        best = members[np.argsort(-densities[members])[:10]]
        assert modules["words"].most_likely(model, vocabulary, cluster) == [vocabulary.words[row] for row in best]


def test_densities_integrate_to_one_over_the_sphere(modules):
    mean = np.array([0.6, 0.0, 0.8])
    frame = sphere.tangent_frame(mean)
    covariance = frame @ np.array([[0.2, 0.05], [0.05, 0.1]]) @ frame.T
    heights, turns = (
        np.linspace(-1.0, 1.0, 400, endpoint=False) + 1 / 400,
        np.linspace(0.0, 2 * np.pi, 400, endpoint=False),
    )
    z, turn = (axis.ravel() for axis in np.meshgrid(heights, turns))
    ring = np.sqrt(1.0 - z**2)
    rows = np.stack([ring * np.cos(turn), ring * np.sin(turn), z], axis=1)
    densities = np.exp(modules["synthetic"].log_density(rows, mean, covariance))
    assert densities.mean() * 4.0 * np.pi == pytest.approx(1.0, rel=1e-3)


def test_ends_are_at_the_ends(modules, vocabulary, word_run):
    model = word_run[1]
    found = modules["words"].ends(model, vocabulary, 1, n=3)
    places = model.tangent_coordinates(vocabulary.rows, 1)[:, 1]
    of = dict(zip(vocabulary.words, places, strict=True))
    low, high = ([of[word] for word in found[f"second axis, {end}"]] for end in ("low", "high"))
    members = places[model.labels_ == 1]
    assert low == sorted(members)[:3]
    assert high == sorted(members, reverse=True)[:3]


def entry_of(n_clusters, nmi, **others):
    """Results of one set as the judges read them; k-means is at 0.9 unless given."""
    n_runs = len(n_clusters)
    line = {"n_clusters": n_clusters, "nmi": n_runs * [nmi]}
    told = [
        f"{method}, {start}"
        for method in ("k-means", "spherical k-means")
        for start in ("random labels", "k-means++", "best of ten k-means++")
    ]
    curves = {"sweep": [5, 10, 20], "nmi": {"mean": [0.8, 0.9, 0.9], "sd": [0.01, 0.01, 0.01]}}
    weaker = {"n_clusters": n_runs * [30], "nmi": n_runs * [0.9], "curves": curves}
    methods = {"DP-TGMM": line, **dict.fromkeys(("FSD-TGMM", "DP-GMM", *told), weaker), **others}
    return {"n_true": 30, "n_runs": n_runs, "best_nmi": n_runs * [0.995], "methods": methods}


def statuses(modules, results):
    return {line.claim.split(":")[0]: line.status for line in modules["claims"].lines(results)}


def test_verdicts_follow_the_numbers(modules):
    number, quality = "DP-TGMM finds the true number of clusters, isotropic and anisotropic", "(ours) mean NMI of 0.98"
    told, best = "k-means and spherical k-means end in worse", "DP-TGMM fits best"

    def status(word, results):
        (found,) = [value for claim, value in statuses(modules, results).items() if claim.startswith(word)]
        return found

    good = entry_of([29, 30, 31, 30, 30, 30, 30, 30, 30, 33], 0.992)
    bad = entry_of([29, 30, 31, 30, 30, 30, 30, 30, 32, 33], 0.985)
    results = {"about": {}, "isotropic": good, "anisotropic": good}
    assert [status(word, results) for word in (number, quality, told, best)] == 4 * ["holds"]
    results["anisotropic"] = bad
    assert [status(word, results) for word in (number, quality)] == 2 * ["holds in part"]
    results["isotropic"] = entry_of([40] * 10, 0.97)
    assert [status(word, results) for word in (number, quality)] == 2 * ["does not hold here"]
    stronger = {"n_clusters": 10 * [30], "nmi": 10 * [0.999]}
    results = {kind: entry_of([30] * 10, 0.99, **{"k-means, k-means++": stronger}) for kind in modules["claims"].SETS}
    assert status(told, results) == "does not hold here"
    # where only the best of ten starts keeps up
    ten = {"k-means, best of ten k-means++": stronger}
    results = {kind: entry_of([30] * 10, 0.99, **ten) for kind in modules["claims"].SETS}
    assert status(told, results) == "holds in part"
    results = {kind: entry_of([30] * 10, 0.99, **{"DP-GMM": stronger}) for kind in modules["claims"].SETS}
    assert status(best, results) == "holds in part"
    assert status("FSD-TGMM gives", results) == "not run"


def test_methods_that_miss_the_number(modules):
    right, wrong = ({"n_clusters": 10 * [n], "nmi": 10 * [0.9]} for n in (30, 45))
    elsewhere = "FSD-TGMM, from random labels"
    for here, there, expected in (
        (wrong, wrong, "holds"),
        (right, wrong, "holds in part"),
        (right, right, "does not hold here"),
    ):
        results = {}
        for kind in modules["claims"].SETS:
            results[kind] = entry_of([30] * 10, 0.99, **{"FSD-TGMM": here})
            results[f"{kind}, other starts"] = {"n_true": 30, "n_runs": 10, "methods": {elsewhere: there}}
        judge = next(claim.judge for claim in modules["claims"].CLAIMS if claim.claim.startswith("FSD-TGMM gives"))
        assert judge(results)[1] == expected


@pytest.mark.slow
def test_gaussians_in_space_cut_anisotropic_clusters(modules):
    """The short form of the line on DP-GMM: 20 draws instead of 60, two runs instead of ten, rows as there."""
    synthetic = modules["synthetic"]
    for run in range(2):
        made = synthetic.make("anisotropic", 9990, 30, run)
        found = {
            method: synthetic.sampled(made, synthetic.FROM_DEFAULT[method], 20, run)
            for method in (synthetic.TANGENT, synthetic.EUCLIDEAN)
        }
        numbers = {method: len(np.unique(outcome.labels)) for method, outcome in found.items()}
        assert abs(numbers[synthetic.TANGENT] - 30) <= 1
        assert numbers[synthetic.EUCLIDEAN] > 31
