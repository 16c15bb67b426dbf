"""What the clusterers have in common: centres, `predict` with `reject`, cosines, names of columns."""

from __future__ import annotations

import inspect

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from armillary import DDPvMFMeans, DPvMFMeans, HierarchicalSphericalKMeans, Links, SphericalKMeans
from armillary.exceptions import ParameterError
from armillary.models.clusterer import Clusterer

CLUSTERERS = {
    "SphericalKMeans": lambda: SphericalKMeans(3, random_state=0, n_threads=1),
    "HierarchicalSphericalKMeans": lambda: HierarchicalSphericalKMeans((1, 3), random_state=0, n_threads=1),
    "DPvMFMeans": lambda: DPvMFMeans(0.5, n_threads=1),
    "DDPvMFMeans": lambda: DDPvMFMeans(0.5, n_threads=1),
    "Links": lambda: Links(0.5, 0.8),
}
RNG = np.random.default_rng(0)
X = np.eye(4)[np.arange(60) % 3] + 0.05 * RNG.standard_normal((60, 4))
FAR = np.vstack([X[:3], [[0.0, 0.0, 0.0, 1.0], [-1.0, 0.0, 0.0, 0.1]]])

every = pytest.mark.parametrize("name", CLUSTERERS)


@every
def test_centres_are_unit_and_labels_are_those_of_predict(name):
    model = CLUSTERERS[name]()
    assert isinstance(model, Clusterer)
    labels = model.fit_predict(X)
    np.testing.assert_array_equal(labels, model.labels_)
    np.testing.assert_array_equal(model.predict(X), labels)
    assert model.cluster_centers_.shape == (3, 4)
    assert model.cluster_centers_.dtype == np.float64
    np.testing.assert_allclose(np.linalg.norm(model.cluster_centers_, axis=1), 1.0, atol=1e-12)


@every
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_transform_is_the_cosine_similarity(name, dtype):
    model = CLUSTERERS[name]().fit(X.astype(dtype))
    rows = (7.0 * FAR).astype(dtype)
    unit = rows.astype(float) / np.linalg.norm(rows.astype(float), axis=1, keepdims=True)
    for given in (rows, sp.csr_array(rows)):
        cosines = model.transform(given)
        assert cosines.dtype == dtype
        np.testing.assert_allclose(cosines, unit @ model.cluster_centers_.T, atol=2e-6)
    assert inspect.getdoc(type(model).transform).startswith("Cosine similarity of each")
    np.testing.assert_allclose(CLUSTERERS[name]().fit_transform(X), model.transform(X), atol=1e-6)
    # the nearest centre is the cluster, but that Links goes by sub-clusters
    ids = getattr(model, "cluster_ids_", np.arange(3))
    np.testing.assert_array_equal(ids[model.transform(X).argmax(axis=1)], model.predict(X, reject=False))


@every
def test_columns_of_transform_have_names(name):
    frame = pd.DataFrame(X, columns=list("abcd"))
    model = CLUSTERERS[name]().fit(frame)
    expected = [f"{name.lower()}{number}" for number in range(3)]
    assert model.get_feature_names_out().tolist() == expected
    assert model.set_output(transform="pandas").transform(frame).columns.tolist() == expected


@every
def test_reject_means_the_same(name):
    model = CLUSTERERS[name]().fit(X)
    taken, strict = model.predict(FAR, reject=False), model.predict(FAR, reject=True)
    assert (taken >= 0).all()
    assert taken.dtype == strict.dtype
    np.testing.assert_array_equal(strict[:3], taken[:3])
    np.testing.assert_array_equal(strict[:3], model.labels_[:3])
    # k-means opens no clusters, so it has none to open for far rows
    is_closed = name.endswith("SphericalKMeans")
    assert (strict[3:] == (taken[3:] if is_closed else -1)).all()
    if not is_closed:  # where -1 is, a fit would open a cluster
        before = model.n_clusters_
        assert model.partial_fit(FAR[3:]).n_clusters_ == (2 if name == "DDPvMFMeans" else before + 2)
    with pytest.raises(ParameterError, match=rf"`reject` of {name}.predict must be True or False"):
        model.predict(FAR, reject="yes")


@every
def test_signatures_are_one(name):
    given = inspect.signature(CLUSTERERS[name]().predict).parameters
    own = {"HierarchicalSphericalKMeans": "level", "Links": "margin"}.get(name)
    assert [key for key in given if key != own] == ["X", "reject", "out"]
    assert {given[key].kind for key in ("reject", "out")} == {inspect.Parameter.KEYWORD_ONLY}
    assert given["reject"].default is (name == "Links")  # a stream is asked whether it knows a vector


def test_a_stream_without_clusters_has_no_columns():
    model = DDPvMFMeans(0.5, n_threads=1).partial_fit(np.empty((0, 4)))
    assert model.transform(X).shape == (60, 0)
    assert model.predict(X).tolist() == [-1] * 60
