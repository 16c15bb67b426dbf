"""Models saved by earlier commits: they load, answer as they did, and go on learning."""

from __future__ import annotations

import json
import shutil
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import normalized_mutual_info_score

from armillary import load, save
from armillary.persistence import renamed, schema
from armillary.persistence.checkpoints import load_checkpoint

sys.path.insert(0, str(Path(__file__).parent))
import make_commit

COMMITS = sorted(file.parent for file in make_commit.DATA.glob("*/answers.json"))
# Sums of rows are rounded to another grid when a model goes on: the last bits of what follows may differ.
SCORES = {"rtol": 1e-9, "atol": 1e-9}


@cache
def answers(home):
    return json.loads((home / "answers.json").read_text(encoding="utf-8"))


@cache
def rows(home):
    with np.load(home / "rows.npz") as arrays:
        return dict(arrays)


MODELS = [(home, name) for home in COMMITS for name in answers(home)["models"]]
STREAMS = [(home, name) for home in COMMITS for name in answers(home)["streams"]]


def test_there_is_an_archive_of_each_class():
    for home in COMMITS:
        said = answers(home)["models"]
        found = {renamed.class_now(one["class"], one["params"]) for one in said.values()}
        assert found <= {*schema.MODELS}
        assert len(found) >= 12
        assert {file.name for file in home.glob("*.safetensors")} == {f"{name}.safetensors" for name in said}


def now_called(said):
    """The parameters of a model under the names of today."""
    kind = renamed.class_now(said["class"], said["params"])
    names = renamed.PARAMETERS.get(kind, {})
    params = {names.get(name, name): value for name, value in said["params"].items() if names.get(name, name)}
    return renamed.values_now(kind, params)


# Five clusters were found among rows of four. Small ones are left out now where the posterior rises without them.
ESTIMATED_ANEW = {("f40587c", "tgmm_crp")}


@pytest.mark.parametrize(("home", "name"), MODELS, ids=lambda part: getattr(part, "name", part))
def test_a_model_of_a_commit_answers_as_it_did_and_goes_on(home, name, tmp_path):
    said, own = answers(home)["models"][name], rows(home)
    model = load(home / f"{name}.safetensors")
    save(model, tmp_path / "again")  # what loads saves, and is the same
    for one in (model, load(tmp_path / "again")):
        assert type(one).__name__ == renamed.class_now(said["class"], said["params"])
        X = make_commit.given(own, said["asked"])
        assert np.asarray(one.labels_).tolist() == said["labels"]
        assert now_called(said).items() <= one.get_params().items()
        assert one.predict(X).tolist() == said["predict"]
        np.testing.assert_allclose(one.score(X), said["score"], **SCORES)
        make_commit.go_on(one, own, said["asked"], said["way"])
        if (home.name, name) in ESTIMATED_ANEW:
            assert normalized_mutual_info_score(one.labels_, one.init) == pytest.approx(1.0)
            continue
        assert np.asarray(one.labels_).tolist() == said["next_labels"]
        assert one.predict(X).tolist() == said["next_predict"]
        np.testing.assert_allclose(one.score(X), said["next_score"], **SCORES)


@pytest.mark.parametrize(("home", "name"), STREAMS, ids=lambda part: getattr(part, "name", part))
def test_a_stream_of_a_commit_goes_on(home, name, tmp_path):
    said, own = answers(home)["streams"][name], rows(home)
    shutil.copy(home / f"stream_{name}.state", tmp_path / "state")  # its answers were written to another place
    _, place = load_checkpoint(tmp_path / "state")
    assert place["rows"] == make_commit.N_STREAMED
    X = np.vstack([own["narrow"], own["narrow_new"]])
    make_commit.run_stream(tmp_path, said["options"], X)
    assert (tmp_path / "ids.jsonl").read_text().splitlines() == said["ids"][make_commit.N_STREAMED :]
