"""Rows in the principal axes of a cluster, and condition numbers: what is drawn, where, and sentences."""

from __future__ import annotations

import io

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import Ellipse

from armillary import DirichletProcessMixture, SphericalKMeans
from armillary.datasets import make_tangent_gaussian_mixture
from armillary.exceptions import InputError, ParameterError
from armillary.plots import plot_condition_numbers, plot_tangent_space, tangent


@pytest.fixture(scope="module")
def fits():
    """A fit of each kind of Gaussian on the same rows."""
    X, _, _ = make_tangent_gaussian_mixture(240, 4, 3, spread=0.1, min_angle=1.0, random_state=1)
    kinds = ("tangent_gaussian", "gaussian", "vmf")
    made = {kind: DirichletProcessMixture(kind, n_burn_in=0, n_draws=2, random_state=0).fit(X) for kind in kinds}
    return X, made


@pytest.fixture(scope="module")
def fitted(fits):
    return fits[0], fits[1]["tangent_gaussian"]


def dots(ax, number=0):
    return np.asarray(ax.collections[number].get_offsets())


def test_rows_are_at_their_tangent_coordinates_in_degrees(fitted):
    X, model = fitted
    for cluster in range(model.n_clusters_):
        ax = plot_tangent_space(model, X, cluster, labels=model.labels_, axes=(2, 0))
        members = X[model.labels_ == cluster]
        expected = np.degrees(model.tangent_coordinates(members, cluster))[:, [2, 0]]
        np.testing.assert_allclose(dots(ax), expected, atol=1e-12)
        assert ax.get_xlabel().startswith("principal axis 3, standard deviation ")
        assert ax.get_xlabel().endswith("°")
        assert ax.get_title(loc="left").startswith(f"cluster {cluster}: {len(members)} rows, condition number ")


def test_ellipses_have_one_and_two_deviations(fitted):
    X, model = fitted
    ax = plot_tangent_space(model, X, 1)
    deviations = np.degrees(np.sqrt(model.principal_axes()[0][1][:2]))
    sizes = [(patch.get_width(), patch.get_height()) for patch in ax.patches if isinstance(patch, Ellipse)]
    np.testing.assert_allclose(sizes, [2.0 * deviations, 4.0 * deviations])
    assert ax.get_aspect() == 1.0
    # everything is inside
    (left, right), (low, high) = ax.get_xlim(), ax.get_ylim()
    x, y = dots(ax).T
    assert left < min(x.min(), -2.0 * deviations[0])
    assert right > max(x.max(), 2.0 * deviations[0])
    assert low < min(y.min(), -2.0 * deviations[1])
    assert high > max(y.max(), 2.0 * deviations[1])


def test_rows_of_others_are_left_out_and_labels_default_to_predict(fitted):
    X, model = fitted
    assert len(dots(plot_tangent_space(model, X, 0))) == (model.predict(X) == 0).sum()
    few = np.where(np.arange(len(X)) < 7, 0, 2)
    assert len(dots(plot_tangent_space(model, X, 0, labels=few))) == 7
    nobody = plot_tangent_space(model, X, 0, labels=np.ones(len(X), dtype=int))
    assert nobody.get_title(loc="left").startswith("cluster 0: 0 rows")
    one = plot_tangent_space(model, X[:1], 0, labels=[0], names=["alone"])
    assert one.get_title(loc="left").startswith("cluster 0: 1 row,")
    assert [text.get_text() for text in one.texts] == ["alone"]


def test_euclidean_clusters_are_in_their_own_units(fits):
    X, model = fits[0], fits[1]["gaussian"]
    ax = plot_tangent_space(model, X, 0, labels=model.labels_, axes=(0, 3))
    np.testing.assert_allclose(dots(ax), model.tangent_coordinates(X[model.labels_ == 0], 0)[:, [0, 3]])
    assert not ax.get_xlabel().endswith("°")


def test_names_are_those_at_the_ends_of_both_axes(fitted):
    X, model = fitted
    names = [f"row {number}" for number in range(len(X))]
    ax = plot_tangent_space(model, X, 0, labels=model.labels_, names=names, n_names=8)
    members = np.flatnonzero(model.labels_ == 0)
    places = model.tangent_coordinates(X[members], 0)
    written = {text.get_text() for text in ax.texts}
    assert len(written) <= 8
    for axis in (0, 1):
        order = members[np.argsort(places[:, axis])]
        assert {names[order[0]], names[order[-1]]} <= written
    # beside its own row, not another's
    coordinates = {names[member]: np.degrees(place[:2]) for member, place in zip(members, places, strict=True)}
    for text in ax.texts:
        np.testing.assert_allclose(text.xy, coordinates[text.get_text()])
    plain = plot_tangent_space(model, X, 0, labels=model.labels_, names=names, n_names=0)
    assert not plain.texts


def test_names_do_not_cover_each_other(fitted):
    X, model = fitted
    names = [f"a word {number}" for number in range(len(X))]
    ax = plot_tangent_space(model, X, 0, labels=model.labels_, names=names, n_names=24)
    renderer = FigureCanvasAgg(ax.figure).get_renderer()
    ax.figure.draw(renderer)
    boxes = [text.get_window_extent(renderer) for text in ax.texts]
    assert len(boxes) == len(set(names) & {text.get_text() for text in ax.texts}) > 12
    assert not any(box.overlaps(other) for number, box in enumerate(boxes) for other in boxes[:number])


def test_of_many_rows_some_are_drawn(fitted):
    X, model = fitted
    n_rows = int((model.labels_ == 0).sum())
    assert len(dots(plot_tangent_space(model, X, 0, labels=model.labels_, max_points=10))) == 10
    assert len(dots(plot_tangent_space(model, X, 0, labels=model.labels_, max_points=n_rows))) == n_rows


def test_histogram_holds_every_cluster(fitted):
    _, model = fitted
    ax = plot_condition_numbers(model)
    numbers = model.condition_numbers()
    assert sum(bar.get_height() for bar in ax.patches) == len(numbers)
    for number in numbers:
        assert any(bar.get_x() <= number <= bar.get_x() + bar.get_width() and bar.get_height() for bar in ax.patches)
    assert ax.get_title(loc="left").startswith(f"3 clusters, median {np.median(numbers):.1f}; dashed: ")
    ax.figure.savefig(io.BytesIO(), format="png", dpi=40)
    assert ax.get_xticklabels()[0].get_text() == "1"


def test_what_round_clusters_show():
    found = tangent.round_condition_numbers(np.array([3, 3000, 200]), 200)
    assert found.shape == (1,)
    drawn = np.linalg.eigvalsh(np.cov(np.random.default_rng(0).standard_normal((200, 3000))))
    assert found[0] == pytest.approx(drawn[-1] / drawn[0], rel=0.05)


def test_axes_may_be_given(fitted):
    X, model = fitted
    figure = Figure()
    left, right = figure.subplots(1, 2)
    assert plot_tangent_space(model, X, ax=left) is left
    assert plot_condition_numbers(model, ax=right) is right
    figure.savefig(io.BytesIO(), format="png", dpi=40)


def test_sentences(fits):
    X, models = fits
    model = models["tangent_gaussian"]
    with pytest.raises(InputError, match=r"`model` of plot_tangent_space must be a fitted Dir.*got SphericalKMeans\."):
        plot_tangent_space(SphericalKMeans(2).fit(X), X)
    with pytest.raises(InputError, match=r"got DirichletProcessMixture that is not fitted\. Fit one first"):
        plot_condition_numbers(DirichletProcessMixture())
    with pytest.raises(ParameterError, match=r"`component` of .* must not be \"vmf\" where axes are asked for"):
        plot_condition_numbers(models["vmf"])
    with pytest.raises(ParameterError, match=r"`cluster` of plot_tangent_space must be an int from 0 to 2; got 3"):
        plot_tangent_space(model, X, 3)
    for axes in ((0, 0), (0, 3), (0,), "ab", 1):
        with pytest.raises(ParameterError, match=r"`axes` of plot_tangent_space must be two different ints from 0 to"):
            plot_tangent_space(model, X, axes=axes)
    with pytest.raises(InputError, match=r"`labels` of plot_tangent_space must be ints of shape \(240,\).*float64"):
        plot_tangent_space(model, X, labels=np.zeros(240))
    with pytest.raises(InputError, match=r"`names` of plot_tangent_space must be one per row of X, 240; got 2"):
        plot_tangent_space(model, X, names=["a", "b"])
    with pytest.raises(ParameterError, match=r"`ax` of plot_condition_numbers must be plain 2-D axes; got PolarAxes"):
        plot_condition_numbers(model, ax=Figure().add_subplot(projection="polar"))


def test_one_axis_is_no_plane():
    X, _, _ = make_tangent_gaussian_mixture(60, 2, 2, spread=0.1, min_angle=1.0, random_state=1)
    model = DirichletProcessMixture(n_burn_in=0, n_draws=1, random_state=0).fit(X)
    with pytest.raises(ParameterError, match=r"ints from 0 to 0; got \(0, 1\)\. One axis is no plane"):
        plot_tangent_space(model, X)
