"""`armillary cluster`, `predict` and `inspect`: what is written is right, and comes from every format and model."""

from __future__ import annotations

import csv
import io
import json
import os
import sys

import numpy as np
import pytest
import scipy.sparse as sp

import armillary
from armillary.cli.fits import parsed_settings
from armillary.cli.model_names import MODELS
from armillary.datasets import make_vmf_mixture
from armillary.durable.locks import beside
from armillary.files import Vectors, write_vectors
from armillary.files.formats import FORMATS
from armillary.fitting.silhouette import silhouettes
from armillary.metrics import matched_accuracy_score
from armillary.report import clusters

ALL = ["labels.csv", "labels.npy", "model.safetensors", "report.html", "summary.json"]
QUICK = ("--no-report", "-q")


def summary(folder):
    return json.loads((folder / "summary.json").read_text())


def table(path):
    with path.open(newline="") as stream:
        return list(csv.DictReader(stream))


# --------------------------------------------------------------------------------------------------------- results


def test_clusters_are_measured_once_for_the_summary_and_the_report(cli, rows_file, monkeypatch):
    measured = []

    def counted(*given):
        measured.append(given)
        return silhouettes(*given)

    monkeypatch.setattr(clusters, "silhouettes", counted)
    assert cli("cluster", "rows.npy", "-k", "5").code == 0
    assert len(measured) == 1


def test_the_folder_of_results(cli, rows_file, mixture, tmp_path):
    X, truth = mixture
    done = cli("cluster", "rows.npy", "-k", "5", "--labels", "truth.npy")
    assert done.code == 0
    folder = tmp_path / "rows-clusters"
    assert sorted(path.name for path in folder.iterdir()) == ALL
    labels = np.load(folder / "labels.npy")
    expected = armillary.SphericalKMeans(5, n_init=5, random_state=0).fit(X)
    assert np.array_equal(labels, expected.labels_)
    assert [int(line["cluster"]) for line in table(folder / "labels.csv")] == labels.tolist()
    assert [int(line["row"]) for line in table(folder / "labels.csv")] == list(range(600))
    assert np.array_equal(armillary.load(folder / "model.safetensors").predict(X), labels)
    told = summary(folder)
    assert told["armillary"] == armillary.__version__
    assert told["command"] == "armillary cluster rows.npy -k 5 --labels truth.npy"
    assert (told["data"]["rows"], told["data"]["columns"], told["data"]["format"]) == (600, 16, "npy")
    assert told["model"] == {
        "name": "skmeans",
        "class": "SphericalKMeans",
        "parameters": {"n_clusters": 5, "n_init": 5, "random_state": 0},
        "rows_fitted": 600,
    }
    assert told["n_clusters"] == 5
    assert [line["size"] for line in told["clusters"]] == np.bincount(labels).tolist()
    assert told["scores"]["matched accuracy"] == matched_accuracy_score(truth, labels)
    assert set(told["scores"]) == {"NMI", "ARI", "matched accuracy", "purity"}
    assert told["seconds"].keys() >= {"reading", "fitting", "writing", "reporting"}
    assert told["warnings"] == []
    assert "rows-clusters: labels.csv" in done.out
    assert "600 vectors of 16 numbers (float32) from 'rows.npy'." in done.err
    assert "5 clusters by SphericalKMeans(n_clusters=5, n_init=5, random_state=0)." in done.err


def test_spreads_are_angles_to_the_centres(cli, rows_file, mixture, tmp_path):
    X = mixture[0].astype(np.float64)
    cli("cluster", "rows.npy", "-k", "5", *QUICK, "-o", "out")
    labels = np.load(tmp_path / "out" / "labels.npy")
    for line in summary(tmp_path / "out")["clusters"]:
        rows = X[labels == line["cluster"]]
        centre = rows.sum(axis=0) / np.linalg.norm(rows.sum(axis=0))
        angles = np.degrees(np.arccos(np.clip(rows @ centre / np.linalg.norm(rows, axis=1), -1, 1)))
        assert line["spread_degrees"] == pytest.approx(np.median(angles), abs=1e-4)
        assert line["size"] == len(rows)


def test_the_snippet_makes_the_same_clusters(cli, rows_file, tmp_path):
    for options in (
        ["-k", "5"],
        ["--model", "dp"],
        ["--max-angle", "50"],
        ["-k", "5", "--sample", "200", "--seed", "3"],
    ):
        done = cli("cluster", "rows.npy", *options, *QUICK, "-o", "out", "--force")
        assert done.code == 0, done.err
        names = {}
        exec(summary(tmp_path / "out")["python"], names)
        assert np.array_equal(names["labels"], np.load(tmp_path / "out" / "labels.npy"))


def test_equal_commands_give_equal_files(cli, rows_file, tmp_path):
    for folder in ("one", "two"):
        assert cli("cluster", "rows.npy", "-k", "7", "--seed", "4", *QUICK, "-o", folder).code == 0
    for name in ("labels.csv", "labels.npy", "model.safetensors"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()


def test_threads_do_not_change_results(cli, rows_file, tmp_path):
    for threads in ("1", "2"):
        assert cli("cluster", "rows.npy", "-k", "7", "--threads", threads, *QUICK, "-o", threads).code == 0
    assert (tmp_path / "1" / "labels.npy").read_bytes() == (tmp_path / "2" / "labels.npy").read_bytes()


def test_quiet_and_json(cli, rows_file, tmp_path):
    done = cli("cluster", "rows.npy", "-k", "5", *QUICK)
    assert (done.out, done.err) == ("", "")
    done = cli("cluster", "rows.npy", "-k", "5", "--json", "--no-report", "--force")
    assert {**done.data, "folder": None} == {**summary(tmp_path / "rows-clusters"), "folder": None}
    assert done.data["folder"] == "rows-clusters"


def test_ids_and_texts_go_with_the_labels(cli, mixture, tmp_path):
    ids = [f"r{number}" for number in range(600)]
    texts = [f'say "{number % 7}", <b>twice</b>' for number in range(600)]
    write_vectors(tmp_path / "rows.csv", Vectors(mixture[0], ids, texts))
    assert cli("cluster", "rows.csv", "-k", "5", *QUICK).code == 0
    lines = table(tmp_path / "rows-clusters" / "labels.csv")
    assert [line["id"] for line in lines] == ids
    assert [line["text"] for line in lines] == texts
    (tmp_path / "texts.txt").write_text("\n".join(texts))
    np.save(tmp_path / "plain.npy", mixture[0])
    assert cli("cluster", "plain.npy", "--texts", "texts.txt", "-k", "5", *QUICK).code == 0
    assert [line["text"] for line in table(tmp_path / "plain-clusters" / "labels.csv")] == texts


def test_known_classes_in_a_column_of_the_table_itself(cli, mixture, tmp_path):
    X, truth = mixture
    header = ",".join([*(f"x{n}" for n in range(16)), "label"])
    np.savetxt(tmp_path / "rows.csv", np.column_stack([X, truth]), delimiter=",", header=header, comments="")
    done = cli("cluster", "rows.csv", "-k", "5", "--labels", "rows.csv", "--no-report", "--json")
    assert done.data["data"]["columns"] == 16
    assert done.data["scores"]["ARI"] > 0.99
    assert "(not used: 'label')" in done.err


def test_warnings_are_said_and_kept(cli, rows_file, tmp_path):
    done = cli("cluster", "rows.npy", "-k", "5", "--set", "max_iter=1", "--no-report")
    assert "Note: SphericalKMeans used all 1 steps and was still gaining" in done.err
    assert summary(tmp_path / "rows-clusters")["warnings"][0].startswith("SphericalKMeans used all 1 steps")


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_gives_the_same_clusters(name, cli, mixture, tmp_path, monkeypatch):
    X = sp.csr_array(mixture[0]) if name == "svmlight" else mixture[0]
    write_vectors(tmp_path / f"rows.{name}", Vectors(X))
    expected = armillary.SphericalKMeans(5, n_init=5, random_state=0).fit(mixture[0].astype(np.float64)).labels_
    assert cli("cluster", f"rows.{name}", "-k", "5", *QUICK, "-o", "file").code == 0
    found = np.load(tmp_path / "file" / "labels.npy")
    assert matched_accuracy_score(expected, found) == 1.0
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO((tmp_path / f"rows.{name}").read_bytes())))
    assert cli("cluster", "-", "--format", name, "-k", "5", *QUICK).code == 0
    assert np.array_equal(np.load(tmp_path / "vectors-clusters" / "labels.npy"), found)


def test_arrays_with_names(cli, mixture, tmp_path):
    np.savez(tmp_path / "rows.npz", other=np.eye(4), faces=mixture[0])
    assert cli("cluster", "rows.npz", "--key", "faces", "-k", "5", *QUICK).code == 0
    assert summary(tmp_path / "rows-clusters")["data"]["rows"] == 600


def test_a_large_file_is_mapped(cli, rows_file, tmp_path, monkeypatch):
    monkeypatch.setattr("armillary.files.arrays.CONVERT_AT_ONCE", 1000)
    done = cli("cluster", "rows.npy", "-k", "5", "--no-report")
    assert "(float32, memory-mapped)" in done.err
    monkeypatch.undo()
    expected = armillary.SphericalKMeans(5, n_init=5, random_state=0).fit(np.load(rows_file)).labels_
    assert np.array_equal(np.load(tmp_path / "rows-clusters" / "labels.npy"), expected)


# ---------------------------------------------------------------------------------------------------------- models

OPTIONS = {
    "dp": ["--max-angle", "60"],
    "ddp": ["--max-angle", "60"],
    "links": [],
    "tree": ["--set", "height=1", "--set", "branching=5"],
    "gibbs": ["-k", "8", "--set", "n_burn_in=5", "--set", "n_draws=5"],
    "dpmm": ["--set", "component=vmf", "--set", "n_burn_in=5", "--set", "n_draws=5"],
}


@pytest.mark.parametrize("name", MODELS)
def test_every_model(name, cli, mixture, tmp_path):
    X = np.abs(mixture[0]) if name == "multinomial" else mixture[0]
    np.save(tmp_path / "rows.npy", X)
    done = cli("cluster", "rows.npy", "--model", name, *OPTIONS.get(name, ["-k", "5"]), *QUICK)
    assert done.code == 0, done.err
    told = summary(tmp_path / "rows-clusters")
    assert told["model"]["class"] == MODELS[name].class_name
    model = armillary.load(tmp_path / "rows-clusters" / "model.safetensors")
    labels = np.load(tmp_path / "rows-clusters" / "labels.npy")
    assert np.array_equal(model.labels_, labels)
    assert sum(line["size"] for line in told["clusters"]) + told["rows_in_no_cluster"] == 600
    if name != "multinomial":
        assert told["n_clusters"] >= 5
    # what was written is read by the other commands
    shown = cli("inspect", "rows-clusters", "--json")
    assert (shown.code, shown.data["class"], shown.data["n_clusters"]) == (
        0,
        MODELS[name].class_name,
        model.n_clusters_,
    )
    if name != "temporal":
        assert cli("predict", "rows-clusters", "rows.npy", "-o", "p.npy").code == 0
        assert np.array_equal(np.load(tmp_path / "p.npy"), model.predict(X))


def test_an_angle_in_degrees(cli, rows_file, tmp_path):
    cli("cluster", "rows.npy", "--max-angle", "40", *QUICK)
    model = armillary.load(tmp_path / "rows-clusters" / "model.safetensors")
    assert type(model).__name__ == "DPvMFMeans"
    assert model.max_angle == pytest.approx(np.radians(40.0), rel=1e-15)


def test_an_angle_that_is_found(cli, rows_file, mixture, tmp_path):
    done = cli("cluster", "rows.npy", "--model", "dp", "--no-report")
    expected = armillary.select_max_angle(mixture[0], random_state=0)
    assert np.array_equal(np.load(tmp_path / "rows-clusters" / "labels.npy"), expected.model.labels_)
    told = summary(tmp_path / "rows-clusters")
    assert told["choice"]["criterion"] == "mean silhouette by cosine"
    assert len(told["choice"]["table"]) == len(expected.max_angles)
    assert "has the best mean silhouette" in done.err
    done = cli("cluster", "rows.npy", "--model", "dp", "-k", "5", "--no-report", "--force")
    search = armillary.find_max_angle(mixture[0], 5, random_state=0)
    assert search.reason in done.err
    model = armillary.load(tmp_path / "rows-clusters" / "model.safetensors")
    assert model.max_angle == search.max_angle


def test_times_of_rows(cli, tmp_path):
    rng = np.random.default_rng(0)
    X, _, _ = make_vmf_mixture(300, 8, 3, concentration=60.0, random_state=0)
    np.save(tmp_path / "rows.npy", X)
    years = rng.integers(2000, 2004, size=300)
    (tmp_path / "times.csv").write_text("year\n" + "\n".join(map(str, years)))
    assert cli("cluster", "rows.npy", "-m", "temporal", "-k", "3", "--times", "times.csv", *QUICK).code == 0
    model = armillary.load(tmp_path / "rows-clusters" / "model.safetensors")
    assert model.times_.tolist() == [2000, 2001, 2002, 2003]
    assert cli("predict", "rows-clusters", "rows.npy", "--times", "times.csv", "-o", "p.npy").code == 0
    assert np.array_equal(np.load(tmp_path / "p.npy"), model.labels_)
    done = cli("cluster", "rows.npy", "-m", "temporal", "-k", "3", "--times", "times.csv", "--sample", "50", "-o", "x")
    assert done.sentence.startswith("--sample cannot be used with --times")


def test_a_sample(cli, rows_file, mixture, tmp_path):
    done = cli("cluster", "rows.npy", "-k", "5", "--sample", "100", "--no-report")
    told = summary(tmp_path / "rows-clusters")
    assert told["model"]["rows_fitted"] == 100
    assert "Fitted on 100 rows drawn at random." in told["reason"]
    labels = np.load(tmp_path / "rows-clusters" / "labels.npy")
    model = armillary.load(tmp_path / "rows-clusters" / "model.safetensors")
    assert len(model.labels_) == 100
    assert np.array_equal(model.predict(mixture[0]), labels)
    assert done.code == 0


def test_settings_are_values():
    given = ["a=3", "b=0.5", "c=word", "d=None", "e=true", "f=[1, 2]", "g=inf", "h=a=b", 'i="3"']
    expected = {"a": 3, "b": 0.5, "c": "word", "d": None, "e": True, "f": [1, 2], "g": np.inf, "h": "a=b", "i": "3"}
    assert parsed_settings(given) == expected


def test_counts_of_words_with_empty_rows(cli, tmp_path):
    counts = np.random.default_rng(0).poisson(0.7, size=(60, 12))
    counts[7] = 0
    sp.save_npz(tmp_path / "counts.npz", sp.csr_array(counts))
    done = cli("cluster", "counts.npz", "-m", "multinomial", "-k", "3")
    assert done.code == 0, done.err
    assert summary(tmp_path / "counts-clusters")["data"]["is_sparse"]


# --------------------------------------------------------------------------------------------------------- predict


@pytest.fixture
def fitted(cli, rows_file, tmp_path):
    assert cli("cluster", "rows.npy", "--max-angle", "60", *QUICK, "-o", "fitted").code == 0
    return armillary.load(tmp_path / "fitted" / "model.safetensors")


def test_predict_in_every_format(cli, fitted, mixture, tmp_path):
    expected = fitted.predict(mixture[0]).tolist()
    assert cli("predict", "fitted", "rows.npy", "-o", "a.npy").code == 0
    assert np.load(tmp_path / "a.npy").tolist() == expected
    for name, separator in (("a.csv", ","), ("a.tsv", "\t")):
        assert cli("predict", "fitted/model.safetensors", "rows.npy", "-o", name).code == 0
        with (tmp_path / name).open() as stream:
            lines = list(csv.DictReader(stream, delimiter=separator))
        assert [int(line["cluster"]) for line in lines] == expected
    assert cli("predict", "fitted", "rows.npy", "-o", "a.jsonl").code == 0
    lines = [json.loads(line) for line in (tmp_path / "a.jsonl").read_text().splitlines()]
    assert lines[3] == {"row": 3, "cluster": expected[3]}
    done = cli("predict", "fitted", "rows.npy")
    assert done.err == ""
    assert [int(line.split(",")[1]) for line in done.out.splitlines()[1:]] == expected
    assert cli("predict", "fitted", "rows.npy", "-o", "a.npy").sentence.startswith("The output 'a.npy' exists.")


def test_predict_can_reject(cli, fitted, mixture, tmp_path):
    np.save(tmp_path / "far.npy", -mixture[0])
    assert cli("predict", "fitted", "far.npy", "-o", "a.npy", "--reject").code == 0
    expected = fitted.predict(-mixture[0], reject=True)
    assert np.array_equal(np.load(tmp_path / "a.npy"), expected)
    assert (expected == -1).any()
    cli("cluster", "rows.npy", "-k", "5", *QUICK, "-o", "told")
    assert cli("predict", "told", "far.npy", "--reject").sentence.startswith(
        "--reject belongs to dp and ddp; 'told' is"
    )


def test_inspect_says_what_a_model_is(cli, fitted):
    done = cli("inspect", "fitted")
    assert done.code == 0
    assert done.out.startswith("DPvMFMeans(max_angle=1.047")
    assert f"{fitted.n_clusters_} clusters; vectors of 16 numbers" in done.out
    facts = cli("inspect", "fitted", "--json").data
    assert facts["model"] == "dp"
    assert [line["size"] for line in facts["clusters"]] == fitted.counts_.tolist()
    lengths = np.linalg.norm(fitted.resultants_, axis=1) / fitted.counts_
    spreads = [line["spread_degrees"] for line in facts["clusters"]]
    assert spreads == pytest.approx(np.degrees(np.arccos(lengths)), rel=1e-12)


def test_a_folder_that_a_killed_run_left_aside_comes_back(cli, rows_file, tmp_path):
    command = ("cluster", "rows.npy", "-k", "5", "--no-report", "-o", "out")
    assert cli(*command).code == 0
    for next_command in (("inspect", "out"), ("predict", "out", "rows.npy"), command):
        (tmp_path / "out").rename(beside(tmp_path / "out", ".old"))
        done = cli(*next_command)
        assert done.code == (2 if next_command is command else 0)
        assert sorted(os.listdir(tmp_path)) == ["out", "rows.npy", "truth.npy"]
    assert done.sentence.endswith("exists. Choose another with -o, or replace it with --force.")
    assert cli(*command, "--force").code == 0


def test_inspect_shows_the_largest_first_and_all_on_request(cli, rows_file):
    cli("cluster", "rows.npy", "-k", "30", *QUICK)
    assert "... and 10 more, none larger (--all)" in cli("inspect", "rows-clusters").out
    whole = cli("inspect", "rows-clusters", "--all").out
    assert "none larger" not in whole
    assert len(whole.splitlines()) > 30


# --------------------------------------------------------------------------------------------------------- convert


@pytest.mark.parametrize("name", FORMATS)
def test_convert_there_and_back(name, cli, rows_file, tmp_path):
    assert cli("convert", "rows.npy", f"there.{name}").code == 0
    assert cli("convert", f"there.{name}", "back.npy", "--dtype", "float32").code == 0
    assert np.array_equal(np.load(tmp_path / "back.npy"), np.load(rows_file))


def test_convert_says_what_is_lost_and_normalizes(cli, tmp_path):
    (tmp_path / "rows.csv").write_text("id,a,b\np,3,4\nq,0,2\n")
    done = cli("convert", "rows.csv", "unit.npy", "--normalize")
    assert np.load(tmp_path / "unit.npy").tolist() == [[0.6, 0.8], [0.0, 1.0]]
    assert done.err.rstrip().endswith("unit.npy (without ids)")
    done = cli("convert", "rows.csv", "-", "--to", "jsonl")
    assert done.out == '{"id": "p", "vector": [3.0, 4.0]}\n{"id": "q", "vector": [0.0, 2.0]}\n'
