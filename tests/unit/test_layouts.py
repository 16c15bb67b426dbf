"""Layouts for vector stores: lists are those of the labels, and faiss takes them."""

import json

import numpy as np
import pytest

from armillary import SphericalKMeans
from armillary.curation import inverted_lists, residual_codebooks, write_layout
from armillary.datasets import make_vmf_mixture
from armillary.exceptions import InputError, ParameterError

ROWS = make_vmf_mixture(900, 24, 12, concentration=60.0, random_state=0)[0].astype(np.float32)


@pytest.fixture(scope="module")
def model():
    return SphericalKMeans(12, random_state=0).fit(ROWS)


def test_lists_are_those_of_the_labels(model):
    lists = inverted_lists(model)
    for number in range(12):
        np.testing.assert_array_equal(lists.members(number), np.flatnonzero(model.labels_ == number))
    assert lists.centroids.dtype == np.float32
    some = np.where(np.arange(900) < 10, -1, model.labels_)
    assert len(inverted_lists(model, some).ids) == 890


def test_faiss_takes_the_lists_as_they_are(model, tmp_path):
    faiss = pytest.importorskip("faiss")
    write_layout(tmp_path, inverted_lists(model))
    centroids, offsets, ids = (np.load(tmp_path / f"{name}.npy") for name in ("centroids", "offsets", "ids"))
    quantizer = faiss.IndexFlatIP(24)
    quantizer.add(centroids)
    index = faiss.IndexIVFFlat(quantizer, 24, 12, faiss.METRIC_INNER_PRODUCT)
    index.is_trained = True
    for number in range(12):
        own = ids[offsets[number] : offsets[number + 1]]
        codes = np.ascontiguousarray(ROWS[own]).view(np.uint8)
        index.invlists.add_entries(number, len(own), faiss.swig_ptr(own), faiss.swig_ptr(codes))
    index.ntotal = len(ids)
    index.nprobe = 12
    cosines, found = index.search(ROWS[:50], 5)
    exact = ROWS[:50] @ ROWS.T
    np.testing.assert_allclose(cosines, np.sort(exact, axis=1)[:, :-6:-1], atol=1e-5)
    np.testing.assert_array_equal(found[:, 0], np.arange(50))
    # and it would have put rows into the same lists
    _, own = quantizer.search(ROWS, 1)
    np.testing.assert_array_equal(own[:, 0], model.labels_)


def test_codebooks_are_those_of_a_residual_quantizer(model, tmp_path):
    books = residual_codebooks(ROWS, model, n_levels=3, n_codes=16)
    lists, codes = books.encode(ROWS)
    np.testing.assert_array_equal(lists, model.labels_)
    made = books.decode(lists, codes)
    # each level leaves less
    errors = [np.square(ROWS - books.decode(lists, codes[:, :level])).sum(axis=1).mean() for level in range(4)]
    assert (np.diff(errors) < 0).all()
    faiss = pytest.importorskip("faiss")
    quantizer = faiss.ResidualQuantizer(24, 3, 4)
    faiss.copy_array_to_vector(books.codebooks.ravel(), quantizer.codebooks)
    quantizer.is_trained = True
    packed, numbers = np.zeros((900, quantizer.code_size), dtype=np.uint8), codes.astype(np.int32)
    quantizer.pack_codes(900, faiss.swig_ptr(numbers), faiss.swig_ptr(packed))
    residuals = quantizer.decode(packed)
    np.testing.assert_allclose(books.centroids[lists] + residuals, made, atol=1e-5)


@pytest.mark.parametrize("style", ["faiss", "lance", "pgvector"])
def test_files_say_what_they_are(model, style, tmp_path):
    lists = inverted_lists(model)
    write_layout(tmp_path / "new", lists, style=style, codebooks=residual_codebooks(ROWS, model, n_codes=4))
    facts = json.loads((tmp_path / "new" / "layout.json").read_text())
    assert {path.name for path in (tmp_path / "new").iterdir()} == {*facts["files"], "layout.json"}
    assert (facts["n_lists"], facts["n_features"], facts["n_rows"]) == (12, 24, 900)
    if style == "lance":
        np.testing.assert_array_equal(np.load(tmp_path / "new" / "partitions.npy"), model.labels_)
    if style == "pgvector":
        lines = (tmp_path / "new" / "lists.tsv").read_text().split()
        np.testing.assert_array_equal(np.array(lines[1::2], int)[np.argsort(np.array(lines[::2], int))], model.labels_)
        first = (tmp_path / "new" / "centroids.tsv").read_text().splitlines()[0].split("\t")[1]
        np.testing.assert_array_equal(np.array(json.loads(first), np.float32), lists.centroids[0])


def test_wrong_arguments_are_sentences(model, tmp_path):
    with pytest.raises(ParameterError, match="`style` of write_layout must be one of 'faiss', 'lance', 'pgvector'"):
        write_layout(tmp_path, inverted_lists(model), style="milvus")
    with pytest.raises(InputError, match="`lists` of write_layout must be what inverted_lists returned; got int"):
        write_layout(tmp_path, 3)
    with pytest.raises(InputError, match="`labels` of inverted_lists must be one cluster number per row, from -1"):
        inverted_lists(model, [12])
    with pytest.raises(InputError, match="`model` of inverted_lists must be a fitted clusterer; got int"):
        inverted_lists(3)
    with pytest.raises(InputError, match="`n_codes` of residual_codebooks must not exceed the rows"):
        residual_codebooks(ROWS, model, n_rows=10, n_codes=16)
