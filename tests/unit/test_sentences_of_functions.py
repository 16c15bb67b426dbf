"""Functions that are called with what they cannot use say so: no error of NumPy, of Python or of a file comes raw."""

import datetime
import math

import numpy as np
import pytest

from armillary import DirichletProcessMixture, DPvMFMeans, Links, SphericalKMeans, VonMisesFisherMixture, load, save
from armillary.datasets import make_sparse_topics, make_tangent_gaussian_mixture, make_vmf_mixture
from armillary.diagnostics import compare_draws, effective_sample_size, split_r_hat
from armillary.distributions import vmf
from armillary.exceptions import InputError, InputTypeError, ParameterError
from armillary.files import Vectors, read_labels, read_vectors, write_vectors
from armillary.geometry import sphere
from armillary.geometry.rotation import mean_rotation
from armillary.metrics import variation_of_information
from armillary.plots import plot_agreement, plot_id_shares, plot_segmentation, plot_silhouettes, plot_tangent_space
from armillary.report import write_report
from armillary.validation import check_broadcast, check_flag, check_integer, check_numbers, check_path, check_row_count
from armillary.vision import open_frames, read_depth_image, read_id_image, write_label_image

E1, E2, E3 = np.eye(3)
DATE = datetime.date(2020, 1, 1)


# -------------------------------------------------------------------------------------------------------- checks


@pytest.mark.parametrize("value", ["a", b"bytes", DATE, int, {1, 2}, [1, [2, 3]], 10**400, 1j, np.array("a"), object()])
def test_what_is_no_number_is_refused_by_name(value):
    with pytest.raises(InputTypeError, match=r"^`x` of f must hold real numbers; they do not convert: .*floats\.$"):
        check_numbers(value, "x", "f")


@pytest.mark.parametrize("value", [math.nan, [1.0, math.inf]])
def test_numbers_are_finite_unless_the_caller_looks(value):
    with pytest.raises(InputError, match=r"^`x` of f must hold finite numbers; got (nan|inf)\. "):
        check_numbers(value, "x", "f")
    assert check_numbers(value, "x", "f", may_be_infinite=True).dtype == np.float64


def test_shapes_that_do_not_broadcast_are_told_by_name():
    check_broadcast("f", a=(3, 1), b=(2,))
    with pytest.raises(InputError, match=r"of f must have shapes that broadcast; got a \(2,\), b \(3,\)\."):
        check_broadcast("f", a=(2,), b=(3,))


def test_integers_beyond_every_array_are_refused():
    assert check_integer(2**63 - 1, "n", "f", low=1) == 2**63 - 1
    with pytest.raises(ParameterError, match=r"must be an int from 1 to 9223372036854775807; got 9223372036854775808"):
        check_integer(2**63, "n", "f", low=1)
    with pytest.raises(ParameterError, match=r"must be an int >= 1; got 0"):
        check_integer(0, "n", "f", low=1)


def test_rows_that_no_memory_holds_are_not_drawn():
    assert check_row_count(10, 3, "n_samples", "f", low=1) == 10
    with pytest.raises(ParameterError, match=r"`n_samples` of f must be an int from 1 to 333333333333333; got .*"):
        check_row_count(2**62, 3, "n_samples", "f", low=1)


@pytest.mark.parametrize("value", [1, 0, None, "yes", np.ones(3)])
def test_a_flag_is_true_or_false(value):
    assert check_flag(np.True_, "x", "f") is True
    with pytest.raises(ParameterError, match=r"^`x` of f must be True or False; got "):
        check_flag(value, "x", "f")


@pytest.mark.parametrize("value", [None, 3.5, (), DATE])
def test_a_path_is_a_string_or_a_path(value):
    assert check_path(b"a", "f") == "a"
    with pytest.raises(InputTypeError, match=r"^`path` of f must be a string or a path; got .*pathlib"):
        check_path(value, "f")


# ------------------------------------------------------------------------------------------------------ geometry

GEOMETRY = {
    "words": lambda: sphere.exp(b"bytes", E1),
    "a date": lambda: sphere.angle(DATE, E1),
    "NaN": lambda: sphere.log([math.nan, 0.0, 1.0], E1),
    "no numbers": lambda: sphere.tangent_frame([]),
    "shapes": lambda: sphere.angle(np.eye(3)[:2], np.eye(3)),
    "a number of coordinates": lambda: sphere.tangent_vector(math.nan, E1),
    "fractions": lambda: sphere.geodesic(np.eye(3)[:2], np.eye(3)[1:], [0.1, 0.2, 0.3]),
    "an area": lambda: sphere.log_area(b"bytes"),
    "an area of nothing": lambda: sphere.log_area(None),
    "an area below": lambda: sphere.log_area(-1),
    "rotation": lambda: mean_rotation(["a"], np.eye(3)),
    "rotation of NaN": lambda: mean_rotation(np.full((2, 3), np.nan), np.eye(3)[:2]),
}


@pytest.mark.parametrize("call", GEOMETRY.values(), ids=GEOMETRY)
def test_geometry_says_what_it_cannot_use(call):
    with pytest.raises(InputError):
        call()


# ------------------------------------------------------------------------------------------- von Mises-Fisher

VMF = {
    "words for a mean": lambda: vmf.log_density(E1, ["a"], 1.0),
    "an object for a mean": lambda: vmf.kl_divergence(E1, 1.0, object(), 1.0),
    "shapes of curves": lambda: vmf.entropy([2, 3], [1.0, 2.0, 3.0]),
    "a date": lambda: vmf.entropy(8, DATE),
    "10**400": lambda: vmf.mean_resultant_length(10**400, 1.0),
    "a word": lambda: vmf.log_normalizer(3, "a"),
    "no concentrations": lambda: vmf.log_predictive_density(np.eye(3), E1, (), 1.0),
    "NaN": lambda: vmf.mean_posterior(E1, math.nan, E1, 1.0),
    "a prior of inf": lambda: vmf.mean_posterior(E1, 0.0, E1, math.inf),
    "squares that overflow": lambda: vmf.log_marginal_likelihood(7.0, E1, 1e300, E2, 1.0),
    "a set": lambda: vmf.log_marginal_likelihood(7.0, E1, {1, 2}, E2, 1.0),
    "a resultant of bytes": lambda: vmf.log_marginal_likelihood(7.0, b"bytes", 1.0, E2, 1.0),
    "points of NaN": lambda: vmf.log_density([[math.nan, 0.0, 1.0]], E1, 1.0),
    "draws that no memory holds": lambda: vmf.sample(E1, 1.0, 2**62),
}


@pytest.mark.parametrize("call", VMF.values(), ids=VMF)
def test_vmf_says_what_it_cannot_use(call):
    with pytest.raises((InputError, ParameterError)):
        call()


# ------------------------------------------------------------------------------------ data, draws, files, models


def _mixture():
    return DirichletProcessMixture(n_burn_in=1, n_draws=2, random_state=0, n_threads=1).fit(_rows())


def _rows(n=30):
    return make_vmf_mixture(n, 3, 3, random_state=0)[0]


OTHERS = {
    "draws of a word": lambda folder: split_r_hat(np.array("a")),
    "draws of a type": lambda folder: effective_sample_size(int),
    "draws of a flag": lambda folder: compare_draws(np.ones((9, 2)), True, false_alarm_rate=0.1),
    "draws of other statistics": lambda folder: compare_draws(
        np.ones((9, 2)), np.ones((2, 30, 3)), false_alarm_rate=0.1
    ),
    "columns beyond": lambda folder: make_sparse_topics(14, 2**63, 3),
    "rows beyond": lambda folder: make_vmf_mixture(2**62, 3, 3),
    "a dtype": lambda folder: make_vmf_mixture(9, 3, 3, dtype=2**63),
    "degrees of a word": lambda folder: make_tangent_gaussian_mixture(9, 3, 3, degrees_of_freedom="many"),
    "a base": lambda folder: variation_of_information([0, 1], [0, 1], base=np.array([])),
    "a path to load": lambda folder: load(3.5),
    "a path to save": lambda folder: save(SphericalKMeans(2).fit(_rows()), None),
    "a path to read": lambda folder: read_vectors(()),
    "a path to write": lambda folder: write_vectors(int, Vectors(_rows())),
    "rows to write": lambda folder: write_vectors(folder / "rows.npy", [1, 2]),
    "a number of labels": lambda folder: read_labels(folder / "labels.csv", []),
    "a path of frames": lambda folder: open_frames(3.5),
    "a path of depth": lambda folder: read_depth_image(None),
    "a path of ids": lambda folder: read_id_image(None),
    "a path of labels": lambda folder: write_label_image(1j, np.zeros((2, 2), int)),
    "a report of nothing": lambda folder: write_report(folder / "a.html", object()),
    "threads beyond": lambda folder: SphericalKMeans(2, n_threads=2**62).fit(_rows()),
    "reject of numbers": lambda folder: DPvMFMeans().fit(_rows()).predict(_rows(), reject=np.ones((2, 2))),
    "consolidate of a word": lambda folder: DPvMFMeans(consolidate="yes").fit(_rows()),
    "merging of a word": lambda folder: Links(merge_clusters="yes").fit(_rows()),
    "an array for a bound": lambda folder: Links().fit(_rows()).set_params(max_idle=np.ones(2)).predict(_rows()),
    "agreement of a word": lambda folder: plot_agreement("", ["a"]),
    "silhouettes of words": lambda folder: plot_silhouettes(["a"], [0]),
    "a ragged vector": lambda folder: Links().fit(_rows()).predict_one([[1.0, 2.0], [1.0]]),
    "a plane of no rows": lambda folder: plot_tangent_space(_mixture(), math.nan),
    "a number of ids": lambda folder: plot_id_shares([[0, 1]], most_ids="word"),
    "frames of a number": lambda folder: plot_segmentation(math.nan),
    "samples beyond": lambda folder: VonMisesFisherMixture(2, random_state=0).fit(_rows()).sample(10**400),
}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("call", OTHERS.values(), ids=OTHERS)
def test_the_others_say_it_too(call, tmp_path):
    (tmp_path / "labels.csv").write_text("label\n1\n2\n")
    with pytest.raises((InputError, ParameterError), match=r"must"):
        call(tmp_path)
