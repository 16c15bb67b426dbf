"""Every number that a command prints is the one in the file beside it, for data of every kind."""

from __future__ import annotations

import csv
import json
import re

import numpy as np
import pytest
import scipy.sparse as sp

import armillary
from armillary.datasets import make_vmf_mixture
from armillary.files import read_vectors


def blobs():
    return make_vmf_mixture(200, 8, 5, concentration=60.0, min_angle=0.9, random_state=0)[0]


def noise():
    return np.random.default_rng(0).normal(size=(150, 10))


def duplicates():
    return np.repeat(np.eye(6)[:3], 10, axis=0)


def one_direction():
    return np.tile([0.6, 0.0, 0.8], (30, 1))


def documents():
    return sp.random_array((120, 60), density=0.1, random_state=np.random.default_rng(1), format="csr") + sp.csr_array(
        np.eye(60)[np.arange(120) % 60]
    )


DATA = {make.__name__: make for make in (blobs, noise, duplicates, one_direction, documents)}


@pytest.fixture(params=DATA)
def rows(request, tmp_path):
    """The name of a file of vectors, and the vectors."""
    X = DATA[request.param]()
    if sp.issparse(X):
        sp.save_npz(tmp_path / "rows.npz", X)
        return "rows.npz", X
    np.save(tmp_path / "rows.npy", X)
    return "rows.npy", X


def summary(folder):
    return json.loads((folder / "summary.json").read_text())


def number(pattern, text):
    """The number in the one place where the pattern is found."""
    found = re.findall(pattern, text)
    assert len(found) == 1, (pattern, found, text)
    return int(found[0].replace(",", ""))


def clusters_in(path):
    with path.open(newline="") as stream:
        return {line["cluster"] for line in csv.DictReader(stream)} - {"-1"}


def check_folder(folder, done, X):
    """What `cluster` printed and wrote agree with each other; the number of clusters."""
    told = summary(folder)
    labels = np.load(folder / "labels.npy")
    names, sizes = np.unique(labels[labels >= 0], return_counts=True)
    n_clusters = len(names)
    assert told["n_clusters"] == len(told["clusters"]) == len(clusters_in(folder / "labels.csv")) == n_clusters
    assert {line["cluster"]: line["size"] for line in told["clusters"]} == dict(zip(names, sizes, strict=True))
    assert told["rows_in_no_cluster"] == np.count_nonzero(labels < 0)
    assert told["reason"] in done.err
    said = told["reason"]
    if not said.startswith("One cluster: "):
        head = re.match(r"(?:Spherical k-means with )?([\d,]+) clusters?\b", said)
        assert head is not None, said
        assert int(head[1].replace(",", "")) == n_clusters, said
    else:
        assert n_clusters == 1
    model = armillary.load(folder / "model.safetensors")
    if model.n_clusters_ == n_clusters:
        assert "The model itself" not in said
    else:
        assert number(r"The model itself counts ([\d,]+) cluster", said) == model.n_clusters_
    lines = [line.split() for line in done.out.splitlines()[1:] if line.split() and line.split()[0].isdigit()]
    printed = {int(line[0]): int(line[1].replace(",", "")) for line in lines}
    more = re.search(r"\.\.\. and ([\d,]+) more cluster", done.out)
    assert len(printed) + (int(more[1].replace(",", "")) if more else 0) == n_clusters
    assert printed.items() <= dict(zip(names.tolist(), sizes.tolist(), strict=True)).items()
    if not (folder / "report.html").exists():
        return n_clusters
    page = (folder / "report.html").read_text()
    assert number(r"<strong>([\d,]+) clusters?</strong> in", page) == n_clusters
    assert number(r"clusters?</strong> in ([\d,]+) rows", page) == X.shape[0] == len(labels)
    assert number(r"<dt>clusters?</dt><dd>([\d,]+)</dd>", page) == n_clusters
    for mention in re.findall(r"counts ([\d,]+) clusters?,", page):
        assert int(mention) == model.n_clusters_
    return n_clusters


@pytest.mark.parametrize(
    "options", [[], ["-k", "7"], ["-m", "dp", "-k", "4"], ["-m", "dp"], ["-m", "links"]], ids=" ".join
)
def test_cluster_and_inspect(cli, rows, tmp_path, options):
    name, X = rows
    done = cli("cluster", name, *options, "-o", "out", *([] if options in ([], ["-m", "links"]) else ["--no-report"]))
    if done.code:  # rows of one direction have no angles to compare
        assert (options, name) == (["-m", "dp"], "rows.npy")
        assert "must have rows that lie apart" in done.sentence
        return
    n_clusters = check_folder(tmp_path / "out", done, X)
    if "dp" in options and "-k" in options:
        assert number(r"4 clusters asked, ([\d,]+) found at", done.err) == n_clusters
        if n_clusters != 4:
            assert "4 could not be had: the nearest of " in done.err
    shown, facts = cli("inspect", "out"), cli("inspect", "out", "--json").data
    assert number(r"([\d,]+) clusters?; vectors of", shown.out) == facts["n_clusters"]
    assert number(r"sizes are those of the ([\d,]+) rows", shown.out) == X.shape[0] == facts["rows"]
    if options != ["-m", "links"]:  # whose clusters have gone on since they answered
        sizes = {line["cluster"]: line["size"] for line in summary(tmp_path / "out")["clusters"]}
        assert {line["cluster"]: line["size"] for line in facts["clusters"] if line["size"]} == sizes


@pytest.mark.parametrize("model", ["vmf", "dpmm", "ddp"])
def test_cluster_by_other_models(cli, tmp_path, model):
    np.save(tmp_path / "rows.npy", duplicates() + 0.01 * np.random.default_rng(0).normal(size=(30, 6)))
    more = {"dpmm": ["--set", "n_burn_in=1", "--set", "n_draws=2"], "ddp": ["--max-angle", "30"]}.get(model, [])
    more = ["-k", "6"] if model == "vmf" else more
    done = cli("cluster", "rows.npy", "-m", model, *more, "-o", "out")
    assert done.code == 0, done.err
    check_folder(tmp_path / "out", done, np.empty((30, 6)))


def test_cluster_on_a_sample(cli, tmp_path):
    np.save(tmp_path / "rows.npy", blobs())
    done = cli("cluster", "rows.npy", "-m", "links", "--sample", "120", "-o", "out")
    check_folder(tmp_path / "out", done, blobs())
    assert number(r"Fitted on ([\d,]+) rows drawn", done.err) == summary(tmp_path / "out")["model"]["rows_fitted"]


def test_compare(cli, rows, tmp_path):
    name, _ = rows
    models = ["skmeans", "links", "dp", "vmf"]
    done = cli("compare", name, "-m", ",".join(models), "-k", "6", "-o", "out")
    assert done.code == 0, done.err
    said = re.findall(r"^([\d,]+) clusters? by (\w+)", done.err, re.MULTILINE)
    table = {line.split()[0]: line.split()[1] for line in done.out.splitlines() if line.split()[0] in models}
    told = [line for line in summary(tmp_path / "out")["models"] if "error" not in line]
    assert len(said) == len(told) == len(models)
    for (printed, _), line in zip(said, told, strict=True):
        found = len(clusters_in(tmp_path / "out" / f"labels-{line['model']}.csv"))
        assert int(printed) == int(table[line["model"]]) == line["n_clusters"] == found, line["model"]


def test_suggest_and_what_its_advice_gives(cli, rows, tmp_path):
    name, X = rows
    for option in ([], ["--no-auto"]) if X.shape[0] == 200 else ([],):
        done = cli("suggest", name, *option, "-k", "3", "-o", "suggested", "--force")
        if done.code:
            assert "must have rows that lie apart" in done.sentence
            return
        advice = [line for line in done.out.splitlines() if line.startswith("Advice: ")]
        assert len(advice) == 1
        command, found = re.fullmatch(r"Advice: armillary (.*) \((\d+) clusters?(?:, by .*)?\)", advice[0]).groups()
        cli(*command.split(), "-o", "out", "--force", "-q", "--no-report")
        assert summary(tmp_path / "out")["n_clusters"] == int(found)
        data = summary(tmp_path / "suggested")
        assert data["advice"]["n_clusters"] == int(found)
        assert data["advice"]["command"] == f"armillary {command}"
        angle, at_angle = re.search(r"of angles: --max-angle (\S+) \((\d+) cluster", done.out).groups()
        assert data["n_clusters_at_angle"] == int(at_angle)
        best = max(data["angles"], key=lambda line: line["score"])
        assert data["silhouette_at_angle"] == pytest.approx(best["score"], abs=1e-8)
        cli("cluster", name, "-m", "dp", "--max-angle", angle, "-o", "out", "--force", "-q", "--no-report")
        assert summary(tmp_path / "out")["n_clusters"] == int(at_angle)
        asked = re.search(r"For 3: --max-angle (\S+)\. 3 clusters asked, (\d+) found", done.out)
        cli("cluster", name, "-m", "dp", "--max-angle", asked[1], "-o", "out", "--force", "-q", "--no-report")
        assert summary(tmp_path / "out")["n_clusters"] == int(asked[2]) == data["angle_for"]["n_found"]


def test_a_sweep_of_numbers_goes_on_and_says_where_it_ends(cli, tmp_path):
    X, _, _ = make_vmf_mixture(400, 40, 60, concentration=2000.0, random_state=0)
    np.save(tmp_path / "rows.npy", X)
    data = cli("suggest", "rows.npy", "--no-auto", "--json").data
    assert len(data["numbers"]) > 18 or data["numbers"][-1]["n_clusters"] > 20  # beyond the square root of the rows
    scores = [line["score"] for line in data["numbers"]]
    assert scores.index(max(scores)) < len(scores) - 1
    assert data["ends"] == []
    assert abs(data["n_clusters"] - 60) < 20
    done = cli("suggest", "rows.npy", "--no-auto", "--max-clusters", "12")
    assert "The best number, 12, is the largest of 11: no more were tried, as --max-clusters says." in done.out
    assert "is the smallest of " in done.out


def test_predict_counts_rows_that_are_refused_apart(cli, tmp_path):
    X = blobs()
    np.save(tmp_path / "rows.npy", X)
    np.save(tmp_path / "new.npy", np.vstack([X[:50], -X.mean(axis=0, keepdims=True), noise()[:9, :8]]))
    cli("cluster", "rows.npy", "--max-angle", "45", "-o", "out", "-q", "--no-report")
    done = cli("predict", "out", "new.npy", "--reject", "-o", "new.csv")
    said = re.search(r"([\d,]+) rows in ([\d,]+) clusters, ([\d,]+) of them in no cluster \(-1\): new.csv", done.err)
    with (tmp_path / "new.csv").open() as stream:
        labels = [int(line["cluster"]) for line in csv.DictReader(stream)]
    assert [int(word) for word in said.groups()] == [60, len(set(labels) - {-1}), labels.count(-1)]
    assert labels.count(-1) > 0


@pytest.mark.parametrize("model", ["links", "dp", "ddp", "skmeans"])
def test_stream_and_its_state(cli, tmp_path, model):
    np.save(tmp_path / "rows.npy", blobs())
    more = ["--max-angle", "40"] if model in ("dp", "ddp") else ["-k", "5"] if model == "skmeans" else []
    done = cli("stream", "rows.npy", "-m", model, *more, "--batch", "60", "--state", "s", "-o", "ids.csv")
    assert done.code == 0, done.err
    facts = cli("inspect", "s", "--json").data
    with (tmp_path / "ids.csv").open() as stream:
        n_lines = len(list(csv.DictReader(stream)))
    assert number(r"^([\d,]+) rows, ", done.err) == number(r"rows, ([\d,]+) in all; ", done.err) == n_lines == 200
    assert facts["stream"]["rows"] == n_lines
    assert number(r"the model has ([\d,]+) cluster", done.err) == len(facts["clusters"])
    if model == "ddp":
        in_step = number(r"([\d,]+) of them with rows in the last step", done.err)
        assert in_step == facts["n_clusters"] == sum(line["size"] > 0 for line in facts["clusters"])
    shown = cli("inspect", "s").out
    assert number(r"state of a stream after ([\d,]+) rows", shown) == n_lines
    assert number(r"sizes are those of the ([\d,]+) rows", shown) == facts["rows"]


def test_convert_says_what_the_file_holds(cli, rows, tmp_path):
    name, X = rows
    done = cli("convert", name, "out.csv")
    n_rows, n_columns = re.search(r"([\d,]+) vectors of ([\d,]+) numbers \([^)]*\): out.csv", done.err).groups()
    read = read_vectors(tmp_path / "out.csv")
    assert (int(n_rows), int(n_columns)) == (read.n_rows, read.n_features) == X.shape
