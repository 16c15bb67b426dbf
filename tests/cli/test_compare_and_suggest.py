"""`armillary compare`, `suggest` and `warmup`, and the default of `cluster`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.metrics import adjusted_rand_score

import armillary
from armillary.exceptions import InputError
from armillary.metrics import cosine_silhouette_score
from armillary.plots.comparison import plot_agreement, plot_scores


def summary(folder):
    return json.loads((folder / "summary.json").read_text())


# ------------------------------------------------------------------------------------------------------- the default


def test_the_default_is_said_aloud_with_its_reason(cli, rows_file, mixture, tmp_path):
    done = cli("cluster", "rows.npy", "--labels", "truth.npy")
    choice = armillary.choose_model(mixture[0], random_state=0)
    assert done.code == 0
    assert choice.reason in done.err
    told = summary(tmp_path / "rows-clusters")
    assert told["reason"] == choice.reason
    assert told["choice"]["criterion"] == choice.criterion
    assert len(told["choice"]["table"]) == len(choice.table)
    assert told["n_clusters"] == 5
    assert told["scores"]["ARI"] > 0.99
    assert np.array_equal(np.load(tmp_path / "rows-clusters" / "labels.npy"), choice.model.labels_)
    page = (tmp_path / "rows-clusters" / "report.html").read_text()
    assert "armillary cluster rows.npy --labels truth.npy" in page
    names = {}
    exec(told["python"], names)
    assert np.array_equal(names["labels"], choice.model.labels_)


def test_the_default_on_a_sample_and_on_sparse_rows(cli, mixture, tmp_path):
    sp.save_npz(tmp_path / "rows.npz", sp.csr_array(mixture[0]))
    assert cli("cluster", "rows.npz", "--sample", "300", "--no-report", "-q").code == 0
    told = summary(tmp_path / "rows-clusters")
    assert told["model"]["rows_fitted"] == 300
    assert told["n_clusters"] == 5


# ----------------------------------------------------------------------------------------------------------- compare


def test_models_beside_each_other(cli, rows_file, mixture, tmp_path):
    X, truth = mixture
    done = cli("compare", "rows.npy", "-m", "skmeans,vmf,dp", "-k", "5", "--labels", "truth.npy", "-o", "out", "--json")
    assert done.code == 0
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "comparison.png",
        "labels-dp.csv",
        "labels-skmeans.csv",
        "labels-vmf.csv",
        "summary.json",
    ]
    table = done.data["models"]
    assert summary(tmp_path / "out") == done.data
    assert [line["model"] for line in table] == ["skmeans", "vmf", "dp"]
    labels = armillary.SphericalKMeans(5, n_init=5, random_state=0).fit(X).labels_
    assert table[0]["silhouette"] == cosine_silhouette_score(X, labels)
    assert table[0]["ARI"] == adjusted_rand_score(truth, labels)
    matrix = np.array(done.data["agreement"]["matrix"])
    assert matrix.shape == (3, 3)
    assert np.array_equal(matrix, matrix.T)
    assert np.diag(matrix).tolist() == [1.0, 1.0, 1.0]


def test_usual_models(cli, rows_file):
    assert [line["model"] for line in cli("compare", "rows.npy", "--json").data["models"]] == ["auto", "dp", "links"]
    table = cli("compare", "rows.npy", "-k", "5", "--json").data["models"]
    assert [line["model"] for line in table] == ["skmeans", "vmf", "bayes", "dp"]


def test_a_model_that_cannot_be_fitted_does_not_stop_the_others(cli, mixture, tmp_path):
    sp.save_npz(tmp_path / "rows.npz", sp.csr_array(mixture[0]))
    done = cli("compare", "rows.npz", "-m", "dpmm,links")
    assert done.code == 0
    assert "dpmm: " in done.err
    lines = done.out.splitlines()
    assert lines[1].split() == ["dpmm", "-", "-", "-", "-"]
    assert lines[2].split()[0] == "links"


def test_scores_as_bars_and_agreement_as_a_matrix():
    pytest.importorskip("matplotlib")
    table = [
        {"model": "a", "n_clusters": 3, "s": 0.5, "t": None},
        {"model": "b", "n_clusters": 1200, "s": -0.1, "t": 1.0},
    ]
    ax = plot_scores(table, ["s", "t"])
    assert [word.get_text() for word in ax.get_yticklabels()] == ["a (3)", "b (1,200)"]
    assert [bar.get_width() for bar in ax.patches] == [0.5, -0.1, 0.0, 1.0]
    assert "-" in [word.get_text() for word in ax.texts]
    ax = plot_agreement([[1.0, 0.25], [0.25, 1.0]], ["a", "b"])
    assert [word.get_text() for word in ax.texts] == ["1.00", "0.25", "0.25", "1.00"]
    with pytest.raises(InputError, match=r"must have shape \(1, 1\)"):
        plot_agreement([[1.0, 0.25], [0.25, 1.0]], ["a"])
    with pytest.raises(InputError, match="must have an entry each; got none"):
        plot_scores([], ["s"])


# ----------------------------------------------------------------------------------------------------------- suggest


def test_sweeps_and_what_they_say(cli, rows_file, mixture, tmp_path):
    done = cli("suggest", "rows.npy", "-o", "out", "--no-auto", "-k", "5", "--json")
    assert done.code == 0
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["suggestion.png", "summary.json"]
    table = armillary.select_max_angle(mixture[0], random_state=0)
    assert done.data["max_angle_degrees"] == np.degrees(table.max_angle)
    assert [line["score"] for line in done.data["angles"]] == table.silhouettes.tolist()
    assert done.data["n_clusters"] == 5
    search = armillary.find_max_angle(mixture[0], 5, random_state=0)
    assert done.data["angle_for"]["max_angle_degrees"] == np.degrees(search.max_angle)
    assert done.data["angle_for"]["n_found"] == 5
    best = max(done.data["numbers"], key=lambda line: line["score"])
    labels = armillary.SphericalKMeans(5, n_init=3, random_state=0).fit(mixture[0]).labels_
    assert best == {"n_clusters": 5, "n_found": 5, "score": cosine_silhouette_score(mixture[0], labels)}


def test_suggest_for_people(cli, rows_file):
    done = cli("suggest", "rows.npy", "--max-clusters", "8", "--sample", "200")
    assert done.code == 0
    assert "Advice: armillary cluster rows.npy (5 clusters in 200 of 600 rows, by modularity x agreement)" in done.out
    assert "  of numbers: --n-clusters 5 (" in done.out
    assert done.out.index("Advice: ") < done.out.index("Why: Spherical k-means with 5 clusters.")
    assert "On a sample of the rows small angles come out too well" in done.err


# ------------------------------------------------------------------------------------------------------------ warmup


def test_warmup_gives_models_numbers_that_its_few_rows_allow(cli):
    done = cli("warmup", "--models", "hkmeans")
    assert done.code == 0, done.err


def test_warmup_of_one_model_says_where_its_kernels_are_kept(cli):
    from armillary.kernels import jit
    from armillary.kernels.rows.dense import add_rows

    done = cli("warmup", "--models", "skmeans,dp")
    assert done.code == 0
    last = done.err.splitlines()[-1]  # after the word that kernels are compiled, where nothing compiled them before
    assert last.startswith("The kernels of skmeans, dp are compiled: ")
    # what other tests of this process compiled is kept beside it
    where = Path(add_rows.stats.cache_path)
    assert last.endswith(f" {jit.where_kept()}")
    assert last.split(" They are kept in ")[1].removesuffix(".") in [str(where), *map(str, where.parents[:2])]


@pytest.mark.slow
def test_warmup_leaves_nothing_to_compile(cli, mixture, tmp_path):
    """After it no command compiles: kernels announce that they do."""
    assert cli("warmup", "-q").code == 0
    X = mixture[0]
    code = (
        "import logging, sys, numpy as np, armillary\n"
        "said = []\n"
        "logger = logging.getLogger('armillary')\n"
        "logger.setLevel(logging.INFO)\n"
        "handler = logging.Handler()\n"
        "handler.emit = lambda record: said.append(record.getMessage())\n"
        "logger.addHandler(handler)\n"
        "X = np.load('rows.npy')\n"
        "for dtype in (np.float32, np.float64):\n"
        "    armillary.SphericalKMeans(5, random_state=0).fit(X.astype(dtype))\n"
        "    armillary.DPvMFMeans(1.0).fit(X.astype(dtype)[:, :3])\n"
        "    armillary.Links().fit(X.astype(dtype))\n"
        "    armillary.VonMisesFisherMixture(5).fit(X.astype(dtype))\n"
        "print(said)\n"
    )
    np.save(tmp_path / "rows.npy", X)
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
