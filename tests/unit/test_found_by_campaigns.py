"""Cases that campaigns found, each in its smallest form: an answer or a sentence, and a model that stays as it was."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
import scipy.sparse as sp

import armillary
from armillary import DDPvMFMeans, DirichletProcessMixture, Links, TemporalVonMisesFisherMixture, VonMisesFisherMixture
from armillary.datasets import make_sparse_topics, make_tangent_gaussian_mixture
from armillary.distributions import vmf
from armillary.distributions.dirichlet import log_gamma
from armillary.exceptions import ArmillaryError, InputError, InputTypeError, ParameterError
from armillary.files import read_vectors, restored
from armillary.metrics import variation_of_information
from armillary.plots import plot_sphere
from armillary.vision import Camera, smooth_depth

ROWS = np.random.default_rng(0).normal(size=(12, 3))
BEYOND = 10**400  # an int that no float holds


def without_clusters():
    model = Links().fit(ROWS)
    for number in model.cluster_ids_.tolist():
        model.forget(number)
    return model


@pytest.mark.parametrize(
    ("call", "error", "sentence"),
    [
        (
            lambda: plot_sphere(ROWS, view_from=BEYOND),
            ArmillaryError,
            "`view_from` of plot_sphere must be three finite",
        ),
        (
            lambda: armillary.HierarchicalSphericalKMeans(np.array(np.nan)).fit(ROWS),
            ParameterError,
            "`n_clusters` of Hier.* must be an int",
        ),
        (
            lambda: armillary.HierarchicalSphericalKMeans([2, [3, 4]]).fit(ROWS),
            ParameterError,
            "`n_clusters` of Hier.* must be an int",
        ),
        (
            lambda: armillary.AutoClusterer(merge=np.array("a")).fit(ROWS),
            ParameterError,
            "`merge` of AutoClusterer must be groups",
        ),
        (
            lambda: (
                armillary.HierarchicalVonMisesFisherMixture(max_iter=50, tol=1.0, random_state=0)
                .fit(ROWS)
                .top_features(2, beside_parent=np.array([]))
            ),
            ParameterError,
            "`beside_parent` of .* must be True or False",
        ),
        (lambda: without_clusters().score(ROWS), InputError, "`score` of Links must have clusters"),
        (lambda: restored(3.5), InputTypeError, r"`word` of restored must be a string; got float"),
        (lambda: DDPvMFMeans(drift_concentration=BEYOND).fit(ROWS), ParameterError, "`drift_concentration` of DDPvMF"),
        (
            lambda: DDPvMFMeans(drift_concentration=1e-310).fit(ROWS),
            ParameterError,
            r"must be a number in \[1e-100",
        ),
        (lambda: DDPvMFMeans(max_unseen_steps=BEYOND).fit(ROWS), ParameterError, "`max_unseen_steps` of DDPvMFMeans"),
        (lambda: Links(1e-200).fit(ROWS), ParameterError, "must be above 0 and below 1; got 1e-200"),
        (lambda: Links().learn_one(ROWS[0], np.array([])), InputError, "must have one number per row"),
        (lambda: DirichletProcessMixture(component=ROWS).fit(sp.csr_array(ROWS)), ArmillaryError, "Sparse data was"),
        (lambda: TemporalVonMisesFisherMixture().fit([[ROWS[0]], sp.csr_array(ROWS)]), ArmillaryError, "row 0 of len"),
        (lambda: variation_of_information([0, 1], [0, 1], base=BEYOND), ParameterError, "a finite number above 1"),
        (lambda: vmf.concentration_from_resultant(1e300, 0.5), ParameterError, r"`dimension` must be at most 1e\+100"),
        (
            lambda: vmf.log_density(1e300 * ROWS, [1.0, 0.0, 0.0], 1.0),
            InputError,
            "`points` of .* be unit vectors",
        ),
        (
            lambda: vmf.log_predictive_density(ROWS, [1.0, 0.0, 0.0], 1.0, -1.0),
            ParameterError,
            "concentration` of .* must not be negative",
        ),
        (
            lambda: make_sparse_topics(3, 5, 1, document_length=1e300),
            ParameterError,
            "`document_length` of make_",
        ),
        (
            lambda: smooth_depth(np.ones((12, 16)), Camera(20.0, 20.0, 8.0, 6.0, 16, 12), radius=1 << 62),
            ParameterError,
            "`radius` of smooth_depth must be an int from 1 to 65536",
        ),
        (
            lambda: TemporalVonMisesFisherMixture(1).fit(ROWS, times=-np.inf),
            InputError,
            "`times` of TemporalVonMisesFisherMixture must be finite; got -inf",
        ),
        (
            lambda: VonMisesFisherMixture(2, initial_concentration=1e300).fit(ROWS),
            ParameterError,
            r"`initial_concentration` of VonMisesFisherMixture must be a number in \(0, 1e\+30\]; got 1e\+300",
        ),
    ],
)
def test_sentences(call, error, sentence):
    with pytest.raises(error, match=sentence):
        call()


def test_the_highest_first_concentration_is_a_start():
    fit = VonMisesFisherMixture(2, initial_concentration=1e30, random_state=0).fit(ROWS)
    assert np.isfinite(fit.concentrations_).all()


def test_rows_and_views_of_any_length_are_directions():
    sizes = np.array([[1e135], [1e-102], [1e300], [1e-300]])
    there = plot_sphere(ROWS[:4], view_from=(1.0, 0.5, 0.2))
    for view in ((1e300, 5e299, 2e299), (1e-300, 5e-301, 2e-301)):
        drawn = plot_sphere(sizes * ROWS[:4], view_from=view)
        for points, expected in zip(drawn.collections, there.collections, strict=True):
            np.testing.assert_allclose(points.get_offsets(), expected.get_offsets(), rtol=0.0, atol=1e-15)


def test_a_memory_that_cannot_turn_is_infinitely_sure(tmp_path):
    model = DDPvMFMeans(drift_concentration=np.inf, weight_update="paper")
    for turned in (0.0, 0.0, 0.1):
        model.partial_fit(np.tile([np.cos(turned), np.sin(turned)], (5, 1)))
    np.testing.assert_array_equal(model.memory_weights_, [np.inf])
    np.testing.assert_allclose(model.cluster_centers_, [[1.0, 0.0]], rtol=0.0, atol=1e-15)
    assert np.isfinite(model.objective_)
    armillary.save(model, tmp_path / "model")
    np.testing.assert_array_equal(armillary.load(tmp_path / "model").memory_weights_, [np.inf])


def test_rows_without_times_are_of_the_first_slice_named_0():
    model = TemporalVonMisesFisherMixture(2, max_iter=50, tol=0.1, random_state=0).fit(ROWS, slices=range(4))
    np.testing.assert_array_equal(model.predict(ROWS, times=0), model.labels_)


def test_a_fraction_is_a_number():
    rows, *_ = make_tangent_gaussian_mixture(20, 3, 2, spread=Fraction(1, 10), random_state=0)
    assert np.isfinite(rows).all()


def test_a_long_prior_direction_is_a_direction():
    priors = [scale * np.ones(3) for scale in (1.0, 1e300, 1e-300)]
    fits = [
        armillary.BayesianVonMisesFisherMixture(
            n_components=1, mean_direction_prior=prior, mean_concentration_prior=5.0, max_iter=50, tol=0.1
        ).fit(ROWS)
        for prior in priors
    ]
    for fit in fits[1:]:
        np.testing.assert_allclose(fit.mean_direction_, fits[0].mean_direction_, rtol=1e-15)


def test_a_folder_is_no_model(tmp_path):
    with pytest.raises(OSError, match=str(tmp_path)):
        armillary.load(tmp_path)


def test_a_cut_that_must_not_be_leaves_the_model_as_it_was(tmp_path):
    # a chain of three sub-clusters, all linked by the user: the tree is turned to look for a link to cut
    rows = np.array([[1.0, 0.0, 0.0], [0.9, 0.436, 0.0], [0.62, 0.784, 0.0]])
    model = Links(0.99, 0.995, 0.99).fit(rows)
    for other in range(1, 3):
        model.must_link(rows[other - 1], rows[other])
    armillary.save(model, tmp_path / "before")
    with pytest.raises(InputError, match="must not contradict must_link"):
        model.cannot_link(rows[0], rows[2])
    armillary.save(model, tmp_path / "after")
    assert (tmp_path / "before").read_bytes() == (tmp_path / "after").read_bytes()


def test_offsets_of_an_arrow_file_are_not_believed(tmp_path):
    values = pa.array(np.arange(6.0))
    offsets = pa.py_buffer(np.array([0, 1 << 30, 6], dtype=np.int32))
    lists = pa.Array.from_buffers(pa.list_(pa.float64()), 2, [None, offsets], children=[values])
    path = tmp_path / "rows.arrow"
    with pa.OSFile(str(path), "wb") as stream, pa.ipc.new_file(stream, pa.schema([("v", lists.type)])) as writer:
        writer.write_batch(pa.RecordBatch.from_arrays([lists], ["v"]))
    with pytest.raises(InputError):
        read_vectors(path)


def test_a_balance_beyond_every_integer_bounds_nothing():
    rows = np.eye(4)
    free = armillary.SphericalKMeans(2, init=rows[:2]).fit(rows)
    held = armillary.SphericalKMeans(2, init=rows[:2], balance=2.0**70).fit(rows)
    assert held.labels_.tolist() == free.labels_.tolist()


def test_words_are_weighed_in_rows_of_any_kind():
    rows = np.abs(np.random.default_rng(0).normal(size=(40, 8)))
    wanted = armillary.AutoClusterer(tfidf="on", random_state=0).fit(rows).labels_
    assert armillary.AutoClusterer(tfidf="on", random_state=0).fit(tuple(rows)).labels_.tolist() == wanted.tolist()


def test_a_set_is_no_list_of_subclusters():
    stream = armillary.Links(0.75, 0.95, 0.9)
    stream.partial_fit([[1.0, 0.0], [0.85, 0.53]])
    with pytest.raises(InputError, match="`subclusters` of Links must hold numbers that were given"):
        stream.restore(0, {0, 1}, 0)


def test_a_step_without_rows_answers_with_no_rows():
    model = DDPvMFMeans().fit(np.eye(3))
    assert model.transform(np.empty((0, 3))).shape == (0, 3)
    assert model.fit_transform(np.empty((0, 3))).shape == (0, 0)


@pytest.mark.parametrize("model", [DDPvMFMeans(), Links(), armillary.SphericalKMeans(2, random_state=0)])
def test_a_fit_whose_answer_fails_leaves_the_model_as_it_was(model, monkeypatch, tmp_path):
    armillary.save(model.fit(ROWS), tmp_path / "before")

    def fails(*_):
        raise MemoryError

    monkeypatch.setattr(type(model), "transform", fails)
    with pytest.raises(MemoryError):
        model.fit_transform(ROWS[:3])
    armillary.save(model, tmp_path / "after")
    assert (tmp_path / "before").read_bytes() == (tmp_path / "after").read_bytes()


def test_a_prior_of_weights_below_every_normal_number():
    model = armillary.GibbsVonMisesFisherMixture(
        n_components=3, weight_concentration_prior=1e-310, empirical_bayes=False, n_burn_in=1, n_draws=2, random_state=0
    ).fit(ROWS)
    assert np.isfinite(model.log_joint_).all()
    np.testing.assert_allclose(log_gamma([5e-324, 1e-310]), [-np.log(5e-324), -np.log(1e-310)])
    np.testing.assert_allclose(log_gamma([1e-308, 0.5, 4.0]), [-np.log(1e-308), 0.5 * np.log(np.pi), np.log(6.0)])


def test_a_parameter_that_is_an_array_is_looked_at_as_a_parameter(tmp_path):
    model = armillary.SphericalKMeans(2, random_state=0).fit(ROWS)
    model.missing = np.array([1.0, 2.0])
    with pytest.raises(ArmillaryError, match="missing"):
        armillary.save(model, tmp_path / "model")
