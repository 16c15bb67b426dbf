"""Pictures of the sphere: what is on the axes, in which colours and places, and that nothing is left behind."""

from __future__ import annotations

import builtins
import sys

import numpy as np
import pytest
from matplotlib.collections import LineCollection, PathCollection
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

from armillary.exceptions import InputError, MissingExtraError, ParameterError
from armillary.palette import MORE_COLORS
from armillary.plots import plot_sphere, plot_sphere_views
from armillary.plots.sphere import NOISE_COLOR, PALETTE, UNLABELLED_COLOR, _frame, _lambert, cluster_colors

FRONT = (0.0, 0.0, 1.0)  # seen from above: x to the right, y up


def directions(n, seed=0):
    vectors = np.random.default_rng(seed).normal(size=(n, 3))
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def scatters(ax):
    return [artist for artist in ax.collections if isinstance(artist, PathCollection)]


def colors(artist):
    return np.asarray(artist.get_facecolor())[:, :3]


# ------------------------------------------------------------------------------------------------ places and colours


def test_near_and_far_points_are_drawn_apart():
    X = directions(200)
    ax = plot_sphere(X, view_from=FRONT)
    far, near = scatters(ax)
    is_near = X[:, 2] >= 0.0
    for artist, rows in ((near, X[is_near]), (far, X[~is_near])):
        rows = rows[np.argsort(rows[:, 2])]  # from far to near
        np.testing.assert_allclose(artist.get_offsets(), rows[:, :2])
    assert far.get_zorder() < near.get_zorder()
    assert far.get_sizes()[0] < near.get_sizes()[0]


def test_the_far_side_can_be_hidden():
    X = directions(200)
    ax = plot_sphere(X, view_from=FRONT, far_side="hidden")
    (near,) = scatters(ax)
    assert len(near.get_offsets()) == (X[:, 2] >= 0.0).sum()
    assert len([artist for artist in ax.collections if isinstance(artist, LineCollection)]) == 1


def test_near_points_have_the_colours_of_their_clusters_and_far_ones_are_faded():
    X = np.array([[0.1, 0.0, 1.0], [0.2, 0.0, 1.0], [0.3, 0.0, 1.0], [0.0, 0.2, -1.0]])
    ax = plot_sphere(X, [1, -1, 0, 0], view_from=FRONT)
    far, near = scatters(ax)
    place = {round(float(x), 1): tuple(color) for (x, _), color in zip(near.get_offsets(), colors(near), strict=True)}
    assert place[0.1] == pytest.approx(to_rgb(PALETTE[1]))
    assert place[0.2] == pytest.approx(to_rgb(NOISE_COLOR))
    assert place[0.3] == pytest.approx(to_rgb(PALETTE[0]))
    # a fifth of the way from the globe, which is light, to the cluster's colour
    assert colors(far)[0].min() > 0.6
    assert colors(far)[0, 0] < colors(far)[0, 2]  # bluish still


def test_noise_is_smaller_and_lies_below():
    X = np.tile([0.0, 0.0, 1.0], (4, 1))
    (near,) = scatters(plot_sphere(X, [0, -1, 1, -1], view_from=FRONT))
    np.testing.assert_allclose(colors(near)[:2], [to_rgb(NOISE_COLOR)] * 2)
    sizes = near.get_sizes()
    assert sizes[:2].max() < sizes[2:].min()


def test_unlabelled_points_have_one_colour_that_is_no_clusters():
    (near,) = scatters(plot_sphere([[0, 0, 1], [0, 1, 1]], view_from=FRONT))
    np.testing.assert_allclose(colors(near), [to_rgb(UNLABELLED_COLOR)] * 2)
    assert UNLABELLED_COLOR not in PALETTE


def test_labels_without_centers_are_colored_by_rank_so_any_ids_will_do():
    X = np.array([[0.1, 0, 1], [0.2, 0, 1], [0.3, 0, 1]])
    (near,) = scatters(plot_sphere(X, np.array([7_000_000_000, 3, 12]), view_from=FRONT))
    by_x = colors(near)[np.argsort(np.asarray(near.get_offsets())[:, 0])]
    np.testing.assert_allclose(by_x, [to_rgb(PALETTE[rank]) for rank in (2, 0, 1)])


def test_centers_are_rings_in_the_colour_of_their_label():
    # label 0 has no rows: the color of label 1 stays that of center 1
    ax = plot_sphere([[0, 0, 1]], [1], centers=[[0.5, 0, 1], [0, 0.5, 2], [0, 0, -1]], view_from=FRONT)
    _far_ink, _far_white, far_dot, near, ink, white, dot = scatters(ax)
    np.testing.assert_allclose(colors(near), [to_rgb(PALETTE[1])])
    np.testing.assert_allclose(colors(dot), [to_rgb(PALETTE[0]), to_rgb(PALETTE[1])])
    assert len(far_dot.get_offsets()) == 1
    assert ink.get_sizes()[0] > white.get_sizes()[0] > dot.get_sizes()[0]
    np.testing.assert_allclose(dot.get_offsets()[0], [0.5 / np.hypot(0.5, 1.0), 0.0])


def test_only_noise_and_no_clusters():
    (near,) = scatters(plot_sphere([[0, 0, 1]], [-1], view_from=FRONT))
    np.testing.assert_allclose(colors(near), [to_rgb(NOISE_COLOR)])


def test_the_graticule_lies_on_the_sphere_and_on_the_right_side():
    ax = plot_sphere(directions(5), view_from=(1.0, 2.0, 3.0))
    far, near = (artist for artist in ax.collections if isinstance(artist, LineCollection))
    for lines in (far, near):
        radius = np.linalg.norm(np.concatenate(lines.get_segments()), axis=1)
        assert radius.max() <= 1.0 + 1e-12
    # twelve meridians of 90 pieces and five parallels of 180, less those that cross the rim
    n_pieces = len(far.get_segments()) + len(near.get_segments())
    assert 12 * 90 + 5 * 180 - 40 <= n_pieces <= 12 * 90 + 5 * 180


# --------------------------------------------------------------------------------------------------- two hemispheres


def test_lambert_keeps_areas():
    # a cap of height h around the middle holds h / 2 of the sphere, h of the hemisphere and h of the disc
    for height in (0.1, 0.5, 1.0):
        rim = np.array([[np.sqrt(1.0 - (1.0 - height) ** 2), 0.0, 1.0 - height]])
        assert np.linalg.norm(_lambert(rim)) ** 2 == pytest.approx(height)


def test_every_row_is_on_one_of_the_two_hemispheres():
    X = directions(500)
    figure = plot_sphere_views(X, np.zeros(500, dtype=int), view_from=FRONT)
    (ax,) = figure.axes
    front, back = scatters(ax)
    assert len(front.get_offsets()) + len(back.get_offsets()) == 500
    for artist, middle in ((front, -1.02), (back, 1.02)):
        assert np.linalg.norm(artist.get_offsets() - [middle, 0.0], axis=1).max() <= 1.0 + 1e-12
        np.testing.assert_allclose(colors(artist), to_rgb(PALETTE[0]) + np.zeros((len(artist.get_offsets()), 3)))


def test_the_hemispheres_meet_where_they_should():
    # just in front and just behind the right edge of the front view
    X = np.array([[1.0, 0.0, 1e-6], [1.0, 0.0, -1e-6]])
    front, back = scatters(plot_sphere_views(X, view_from=FRONT).axes[0])
    np.testing.assert_allclose(front.get_offsets(), [[-1.02 + 1.0, 0.0]], atol=1e-5)
    np.testing.assert_allclose(back.get_offsets(), [[1.02 - 1.0, 0.0]], atol=1e-5)


@pytest.mark.parametrize("view_from", [(1, 0, 0), (0, 0, 1), (0, 0, -2), (1, 2, 3), (-1, 1e-9, 0)])
def test_the_frame_is_a_rotation_that_looks_where_it_is_told(view_from):
    frame = _frame(view_from, "plot_sphere")
    np.testing.assert_allclose(frame @ frame.T, np.eye(3), atol=1e-12)
    assert np.linalg.det(frame) == pytest.approx(1.0)
    np.testing.assert_allclose(frame @ view_from, [0.0, 0.0, np.linalg.norm(view_from)], atol=1e-12)
    if abs(view_from[2]) != np.linalg.norm(view_from):
        assert frame[1, 2] > 0.0  # the third axis points up


# ------------------------------------------------------------------------------------------------------------- size


def test_many_rows_are_thinned_evenly_and_a_note_says_so():
    angles = np.linspace(0.0, 1.0, 1_000)
    X = np.stack([np.sin(angles), 0.0 * angles, np.cos(angles)], axis=1)
    ax = plot_sphere(X, view_from=FRONT, max_points=100)
    (near,) = scatters(ax)
    np.testing.assert_allclose(np.sort(np.asarray(near.get_offsets())[:, 0]), X[::10, 0])
    assert "100 of 1,000 rows drawn, evenly spaced" in [text.get_text() for text in ax.texts]
    assert not any("rows" in text.get_text() for text in plot_sphere(X, max_points=1_000).texts)


def test_points_shrink_with_their_number_and_with_the_axes():
    def size(n, ax=None):
        return scatters(plot_sphere(directions(n), ax=ax, far_side="hidden"))[0].get_sizes()[0]

    sizes = [size(n) for n in (100, 1_000, 10_000, 100_000)]
    assert sizes == sorted(sizes, reverse=True)
    assert 10.0 < sizes[0] < 60.0
    assert 0.25 <= sizes[-1] < 2.0
    small = Figure(figsize=(2, 2)).add_subplot()
    assert size(1_000, small) < sizes[1] / 4
    assert scatters(plot_sphere(directions(50), point_size=7.0))[-1].get_sizes()[0] == 7.0


def test_thousands_of_points_are_a_picture_inside_a_pdf():
    assert not scatters(plot_sphere(directions(1_000)))[-1].get_rasterized()
    assert scatters(plot_sphere(directions(20_000)))[-1].get_rasterized()


# ---------------------------------------------------------------------------------------------------------- colours


def oklab(rgb):
    """sRGB in [0, 1] made linear, seen through `eye`, as OKLab (Ottosson 2020)."""
    to_lms = [
        [0.4122214708, 0.5363325363, 0.0514459929],
        [0.2119034982, 0.6806995451, 0.1073969566],
        [0.0883024619, 0.2817188376, 0.6299787005],
    ]
    to_lab = [
        [0.2104542553, 0.7936177850, -0.0040720468],
        [1.9779984951, -2.4285922050, 0.4505937099],
        [0.0259040371, 0.7827717662, -0.8086757660],
    ]
    return np.cbrt(np.clip(rgb, 0.0, 1.0) @ np.transpose(to_lms)) @ np.transpose(to_lab)


# Machado, Oliveira and Fernandes 2009, severity 1.0, on linear RGB
EYES = {
    "normal": np.eye(3),
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.01182, 0.04294, 0.968881]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.3039]],
}


def smallest_step(palette, eye):
    srgb = np.array([to_rgb(color) for color in palette])
    linear = np.where(srgb <= 0.04045, srgb / 12.92, ((srgb + 0.055) / 1.055) ** 2.4)
    lab = oklab(linear @ np.transpose(EYES[eye]))
    steps = np.linalg.norm(lab[:, None] - lab, axis=-1)
    return steps[np.triu_indices(len(palette), 1)].min()


@pytest.mark.parametrize("eye", EYES)
def test_any_two_colours_differ_for_every_eye(eye):
    assert smallest_step(PALETTE, eye) >= 0.09
    assert smallest_step([*PALETTE, NOISE_COLOR], eye) >= 0.045


@pytest.mark.parametrize("eye", EYES)
def test_two_dozen_colours_differ_too(eye):
    assert smallest_step([*PALETTE, *MORE_COLORS], eye) >= (0.09 if eye == "normal" else 0.058)


def test_the_measure_finds_a_palette_that_color_blind_readers_cannot_use():
    matplotlib_default = ["#1f77b4", "#ff7f0e", "#2ca02c", "#d62728", "#9467bd", "#8c564b", "#e377c2"]
    assert smallest_step(matplotlib_default, "normal") > 0.09 > smallest_step(matplotlib_default, "deuteranopia")


def test_up_to_twelve_clusters_have_the_palette_in_order():
    np.testing.assert_allclose(cluster_colors(directions(12)), [to_rgb(color) for color in PALETTE])
    assert cluster_colors(np.empty((0, 3))).shape == (0, 3)


@pytest.mark.parametrize("n_clusters", [13, 30, 60])
@pytest.mark.parametrize("seed", range(3))
def test_neighbours_among_many_clusters_have_different_colours(n_clusters, seed):
    means = directions(n_clusters, seed)
    chosen = cluster_colors(means)
    angles = np.arccos(np.clip(means @ means.T, -1.0, 1.0))
    is_same = (chosen[:, None] == chosen).all(axis=-1) & ~np.eye(n_clusters, dtype=bool)
    # the five nearest neighbours of every cluster have other colours than it
    nearest = np.argsort(angles, axis=1)[:, 1:6]
    assert not np.take_along_axis(is_same, nearest, axis=1).any()


# ------------------------------------------------------------------------------------------------ axes in, axes out


def test_given_axes_are_used_and_returned():
    figure = Figure()
    left, right = figure.subplots(1, 2)
    assert plot_sphere(directions(10), ax=right) is right
    assert not left.collections
    assert left.axison


def test_no_pyplot_and_no_global_figure(tmp_path):
    before = "matplotlib.pyplot" in sys.modules
    ax = plot_sphere(directions(100), np.arange(100) % 4)
    figure = plot_sphere_views(directions(100), np.arange(100) % 4)
    ax.figure.savefig(tmp_path / "globe.png")
    figure.savefig(tmp_path / "views.png")
    figure.savefig(tmp_path / "views.pdf")
    for name in ("globe.png", "views.png"):
        assert (tmp_path / name).read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "views.pdf").read_bytes().startswith(b"%PDF")
    if before:
        import matplotlib.pyplot as plt

        assert plt.get_fignums() == []
    else:
        assert "matplotlib.pyplot" not in sys.modules


# ---------------------------------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize("plot", [plot_sphere, plot_sphere_views])
@pytest.mark.parametrize("shape", [(5, 2), (5, 4), (3,), (2, 3, 3)])
def test_other_than_three_columns(plot, shape):
    with pytest.raises(InputError) as caught:
        plot(np.ones(shape))
    assert str(caught.value) == (
        f"`X` of {plot.__name__} must have shape (n, 3), one vector in space per row; got shape {shape}. "
        "Project to three dimensions first, or choose three columns."
    )


@pytest.mark.parametrize(
    ("arguments", "error", "sentence"),
    [
        (
            {"X": [[1, 0, 0], [0, 0, 0]]},
            InputError,
            "Row 1 of `X` of plot_sphere must have a direction; got [0. 0. 0.]. Drop such rows before plotting.",
        ),
        (
            {"X": [[1, 0, np.nan]]},
            InputError,
            "Row 0 of `X` of plot_sphere must have a direction; got [ 1.  0. nan]. Drop such rows before plotting.",
        ),
        (
            {"centers": [[0, 0, 0]]},
            InputError,
            "Row 0 of `centers` of plot_sphere must have a direction; got [0. 0. 0.]. Drop such rows before plotting.",
        ),
        (
            {"centers": [[1, 0]]},
            InputError,
            (
                "`centers` of plot_sphere must have shape (n, 3), one vector in space per row; got shape (1, 2). "
                "Project to three dimensions first, or choose three columns."
            ),
        ),
        (
            {"labels": [0]},
            InputError,
            (
                "`labels` of plot_sphere must be ints of shape (2,), one per row of X; got int64 of shape (1,). "
                "Give `model.labels_` or `model.predict(X)`."
            ),
        ),
        (
            {"labels": [0.0, 1.0]},
            InputError,
            (
                "`labels` of plot_sphere must be ints of shape (2,), one per row of X; got float64 of shape (2,). "
                "Give `model.labels_` or `model.predict(X)`."
            ),
        ),
        (
            {"labels": [0, -2]},
            InputError,
            "`labels` of plot_sphere must be -1 (noise) or more; got -2. Give noise the label -1.",
        ),
        (
            {"labels": [0, 2], "centers": [[1, 0, 0], [0, 1, 0]]},
            InputError,
            (
                "`labels` of plot_sphere must be less than 2, the number of centers; got 2. "
                "Give one center per label, or none."
            ),
        ),
        (
            {"view_from": (0, 0, 0)},
            ParameterError,
            (
                "`view_from` of plot_sphere must be three finite numbers that are not all 0; got (0, 0, 0). "
                "It points from the middle of the sphere to the viewer, e.g. (0, 0, 1) for a view from above."
            ),
        ),
        (
            {"view_from": "top"},
            ParameterError,
            (
                "`view_from` of plot_sphere must be three finite numbers that are not all 0; got 'top'. "
                "It points from the middle of the sphere to the viewer, e.g. (0, 0, 1) for a view from above."
            ),
        ),
        (
            {"ax": Figure().add_subplot(projection="polar")},
            ParameterError,
            (
                "`ax` of plot_sphere must be plain 2-D axes, since the sphere is projected here; got PolarAxes. "
                "Make them with figure.add_subplot(), without `projection`."
            ),
        ),
    ],
)
def test_what_cannot_be_drawn_is_refused(arguments, error, sentence):
    with pytest.raises(error) as caught:
        plot_sphere(**{"X": [[1, 0, 0], [0, 1, 0]], **arguments})
    assert str(caught.value) == sentence


@pytest.mark.parametrize(("name", "value"), [("far_side", "glass"), ("max_points", 0), ("point_size", -1.0)])
def test_parameters_go_through_the_gate(name, value):
    with pytest.raises(ParameterError, match=f"`{name}` of plot_sphere must be"):
        plot_sphere([[1, 0, 0]], **{name: value})


@pytest.mark.parametrize("plot", [plot_sphere, plot_sphere_views])
def test_missing_matplotlib_is_named(plot, monkeypatch):
    def without_matplotlib(name, *args, **kwargs):
        if name == "matplotlib":
            raise ImportError(name)
        return real_import(name, *args, **kwargs)

    real_import = builtins.__import__
    monkeypatch.setattr(builtins, "__import__", without_matplotlib)
    with pytest.raises(MissingExtraError) as caught:
        plot([[1, 0, 0]])
    assert str(caught.value) == (
        f"{plot.__name__} needs matplotlib, which is not installed. Run: pip install 'armillary[plots]'"
    )
