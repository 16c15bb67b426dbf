"""Options of the model that is found by itself: levels, mergers, outliers, weights of words."""

from __future__ import annotations

import json

import numpy as np
import pytest
import scipy.sparse as sp

import armillary
from armillary.cli.fits import auto_settings
from armillary.datasets import make_vmf_mixture
from armillary.exceptions import ParameterError

PLAIN = ("--quiet", "--no-report", "--threads", "1")


@pytest.fixture(scope="module")
def rows():
    X, _, _ = make_vmf_mixture(300, 20, 5, concentration=80.0, random_state=0)
    return np.r_[X, np.random.default_rng(0).normal(size=(30, 20))]


def test_the_folder_has_what_was_asked_for(rows, cli, tmp_path):
    np.save("rows.npy", rows)
    assert (
        cli(
            "cluster", "rows.npy", "--outliers", "auto", "--merge", "0,2", "--level", "chosen", "-o", "out", *PLAIN
        ).code
        == 0
    )
    labels = np.load("out/labels.npy")
    model = armillary.AutoClusterer(outliers="auto", merge=[[0, 2]], n_threads=1).fit(rows)
    np.testing.assert_array_equal(labels, model.labels_)
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert summary["model"]["class"] == "AutoClusterer"
    assert summary["rows_in_no_cluster"] == np.count_nonzero(model.labels_ < 0) >= 28
    assert "armillary.AutoClusterer(merge=[[0, 2]], n_threads=1, outliers='auto').fit(X)" in summary["python"]
    loaded = armillary.load("out/model.safetensors")
    np.testing.assert_array_equal(loaded.predict(rows), labels)
    assert cli("cluster", "rows.npy", "--level", "2", "-o", "two", *PLAIN).code == 0
    assert len(np.unique(np.load("two/labels.npy"))) == 2


def test_counts_in_a_file_are_weighed(cli, tmp_path):
    draws = np.random.default_rng(0)
    rates = np.where(np.arange(60) // 20 == np.arange(120)[:, None] % 3, 0.6, 0.02)
    counts = sp.csr_matrix(draws.poisson(rates))
    sp.save_npz("counts.npz", counts)
    assert cli("cluster", "counts.npz", "-o", "out", *PLAIN).code == 0
    assert "weighed by TF-IDF" in json.loads((tmp_path / "out" / "summary.json").read_text())["reason"]
    assert cli("cluster", "counts.npz", "--tfidf", "off", "-o", "off", *PLAIN).code == 0
    assert "weighed by TF-IDF" not in json.loads((tmp_path / "off" / "summary.json").read_text())["reason"]


def test_options_become_parameters():
    assert auto_settings("chosen", None, None, "auto", None) == {}
    assert auto_settings("20", ["3,7", "1, 2"], "0.05", "on", 30) == {
        "n_clusters": 20,
        "tfidf": "on",
        "min_cluster_size": 30,
        "outliers": 0.05,
        "merge": [[3, 7], [1, 2]],
    }
    with pytest.raises(ParameterError, match=r"^--merge must be cluster numbers with commas, e\.g\. --merge 3,7; got"):
        auto_settings("chosen", ["a,b"], None, "auto", None)


def test_options_of_the_default_need_it(rows, cli):
    np.save("rows.npy", rows)
    done = cli("cluster", "rows.npy", "-k", "3", "--outliers", "auto", "--level", "4", "-o", "out")
    expected = "--level K, --outliers must go with the model auto; got the model skmeans. Leave one of them out."
    assert done.sentence == expected
