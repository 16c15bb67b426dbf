"""Rows without a direction: an error that names the first, or passed over with label -1. One gate for all models."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.pipeline import make_pipeline
from sklearn.utils import get_tags

from armillary import (
    DDPvMFMeans,
    DPvMFMeans,
    SoftKMeans,
    SphericalKMeans,
    VonMisesFisherMixture,
    choose_model,
    load,
    open_rows,
    save,
)
from armillary.datasets import make_vmf_mixture
from armillary.exceptions import InputError, ParameterError
from armillary.persistence.archive import model_bytes
from armillary.validation import has_direction

MODELS = [
    SphericalKMeans(4, random_state=0, n_threads=1),
    DPvMFMeans(1.0, n_init=3, random_state=0, n_threads=1),
    DDPvMFMeans(1.0, n_threads=1),
    SoftKMeans(4, random_state=0, n_threads=1),
    VonMisesFisherMixture(4, random_state=0, n_threads=1),
]
BAD = [0, 17, 18, 299]


def rows(kind):
    """300 rows of which 296 have a direction, and those alone."""
    X, _, _ = make_vmf_mixture(
        300, 12 if kind == "narrow" else 40, 4, concentration=90.0, min_angle=1.2, random_state=3
    )
    X[BAD] = 0.0
    if kind == "csr":
        X = sp.csr_matrix(X)
    else:
        X[17, 3], X[18] = np.nan, np.inf
    return X, X[np.setdiff1d(np.arange(300), BAD)]


@pytest.mark.parametrize("kind", ["narrow", "wide", "csr"])
@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_flagged_rows_are_as_if_they_had_not_come(model, kind, tmp_path):
    X, present = rows(kind)
    is_here = np.ones(300, bool)
    is_here[BAD] = False
    weights = np.linspace(1.0, 2.0, 300)
    plain = clone(model).fit(present, sample_weight=weights[is_here])
    flagged = clone(model).set_params(missing="flag").fit(X, sample_weight=weights)
    assert (flagged.labels_[BAD] == -1).all()
    np.testing.assert_array_equal(flagged.labels_[is_here], plain.labels_)
    for name in ("cluster_centers_", "means_", "weights_", "objective_", "log_likelihood_"):
        np.testing.assert_array_equal(getattr(flagged, name, 0), getattr(plain, name, 0))
    predicted = flagged.predict(X)
    assert (predicted[BAD] == -1).all()
    np.testing.assert_array_equal(predicted[is_here], plain.predict(present))
    into = flagged.predict(X, out=np.empty(300, predicted.dtype))
    np.testing.assert_array_equal(into, predicted)
    np.testing.assert_array_equal(flagged.predict(X, out=tmp_path / "labels.npy"), predicted)
    for method in ("transform", "predict_proba", "score_samples"):
        if hasattr(model, method):
            values = getattr(flagged, method)(X)
            assert np.isnan(values[BAD]).all()
            np.testing.assert_array_equal(values[is_here], getattr(plain, method)(present))
    save(flagged, tmp_path / "model.safetensors")
    np.testing.assert_array_equal(load(tmp_path / "model.safetensors").predict(X), predicted)


@pytest.mark.parametrize("form", ["npy", "parquet", "csr", "workers"])
@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_flagged_rows_on_disk_are_those_of_memory(model, form, tmp_path):
    X = rows("csr" if form == "csr" else "wide")[0].astype(np.float32)
    (tmp_path / "rows").mkdir()
    for number, start in enumerate(range(0, 300, 100)):
        part, path = X[start : start + 100], tmp_path / "rows" / str(number)
        if form == "csr":
            sp.save_npz(f"{path}.npz", part, compressed=False)
        elif form == "parquet":
            pq.write_table(pa.table({"v": list(part)}), f"{path}.parquet", row_group_size=37)
        else:
            np.save(f"{path}.npy", part)
    weights = np.linspace(1.0, 2.0, 300)
    model = clone(model).set_params(missing="flag", n_threads=None)
    if form == "workers" and "n_init" in model.get_params():
        model.set_params(n_init=1)  # rows in parts have no random order
    memory = clone(model).fit(X, sample_weight=weights)
    with open_rows(tmp_path / "rows", **({"n_workers": 2} if form == "workers" else {})) as stored:
        disk = clone(model).fit(stored, sample_weight=weights)
        assert (disk.labels_[BAD] == -1).all()
        np.testing.assert_array_equal(disk.labels_, memory.labels_)
        np.testing.assert_array_equal(disk.predict(stored), memory.predict(X))
        np.testing.assert_array_equal(disk.predict(stored, out=tmp_path / "labels.npy"), memory.predict(X))
        if hasattr(model, "transform"):
            assert np.isnan(disk.transform(stored)[BAD]).all()
    # soft sums of CSR rows agree to rounding where rows are in parts (engines/contract.py)
    if isinstance(model, SphericalKMeans | DPvMFMeans | DDPvMFMeans) or form != "csr":
        assert model_bytes(disk) == model_bytes(memory)


def test_nothing_but_missing_rows_on_disk(tmp_path):
    np.save(tmp_path / "rows.npy", np.zeros((40, 3), np.float16))
    stored = open_rows(tmp_path / "rows.npy")
    with pytest.raises(InputError, match=r"^X of SphericalKMeans must have a row with a direction; all 40 are"):
        SphericalKMeans(2, missing="flag").fit(stored)
    assert (DDPvMFMeans(missing="flag").fit(stored).labels_ == -1).all()


@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_the_default_refuses_them(model):
    X, _ = rows("narrow")
    with pytest.raises(InputError, match=r"^Row (0|17|18) of X (contains|has norm 0).* missing=\"flag\" gives them"):
        clone(model).fit(X)
    with pytest.raises(InputError, match=r"^Row 1 of X has norm 0 .* missing=\"flag\" gives them the label -1\.$"):
        clone(model).fit(np.eye(5)[:, [0, 2, 3]])
    with pytest.raises(ParameterError, match=r"^`missing` of \w+ must be one of 'raise', 'flag'; got 'drop'\."):
        clone(model).set_params(missing="drop").fit(X)
    assert not get_tags(model).input_tags.allow_nan
    assert get_tags(clone(model).set_params(missing="flag")).input_tags.allow_nan


def test_nothing_but_missing_rows():
    with pytest.raises(InputError, match=r"^X of SphericalKMeans must have a row with a direction; all 5 are NaN, inf"):
        SphericalKMeans(2, missing="flag").fit(np.full((5, 3), np.nan))
    assert (DDPvMFMeans(missing="flag").fit(np.zeros((5, 3))).labels_ == -1).all()


def test_a_pipeline_from_texts_with_an_empty_one():
    texts = ["red apples and pears", "a ripe pear, a red apple", "", "ships at sea", "the sea and a ship", "the of and"]
    steps = TfidfVectorizer(stop_words="english"), SphericalKMeans(2, missing="flag", random_state=0)
    labels = make_pipeline(*steps).fit_predict(texts)
    assert labels[2] == labels[5] == -1
    assert labels[0] >= 0
    assert labels[3] >= 0


def test_the_default_model_flags_too():
    X, present = rows("wide")
    choice, plain = choose_model(X, missing="flag", n_threads=1), choose_model(present, n_threads=1)
    assert choice.reason == plain.reason
    np.testing.assert_array_equal(np.delete(choice.model.labels_, BAD), plain.model.labels_)
    assert (choice.model.labels_[BAD] == -1).all()


def test_which_rows_have_a_direction():
    tiny = np.array([[1e-300, 0.0], [0.0, -0.0], [np.inf, 1.0], [1.0, np.nan], [-2.0, 0.0]])
    for array in (tiny, np.hstack([tiny, np.zeros((5, 30))]), sp.csr_array(tiny), np.asfortranarray(tiny)):
        np.testing.assert_array_equal(has_direction(array), [True, False, False, False, True])
    np.testing.assert_array_equal(has_direction(np.array([[0, 0], [0, 3]], dtype=np.uint8)), [False, True])
