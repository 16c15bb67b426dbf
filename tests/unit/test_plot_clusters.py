"""Pictures of clusters: sizes, silhouettes, similarity, traces and sweeps; what is drawn, where, in whose colour."""

from __future__ import annotations

import builtins
import io
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

from armillary.exceptions import InputError, MissingExtraError, ParameterError
from armillary.palette import PALETTE
from armillary.plots import (
    plot_cluster_sizes,
    plot_silhouettes,
    plot_similarity,
    plot_sphere,
    plot_sphere_views,
    plot_sweep,
    plot_traces,
)
from armillary.plots.paper import INK, png_of, svg_of
from armillary.plots.similarity import similarity_order

TABLE = [{"n_clusters": k, "score": score} for k, score in ((2, 0.1), (4, 0.6), (6, 0.3))]


def sampler(n_chains=2, n_sweeps=10, n_discarded=4):
    trace = np.random.default_rng(0).normal(size=(n_chains, n_sweeps, 3))
    trace[:, :, 0] = np.arange(n_sweeps) % 3 + 1
    return SimpleNamespace(trace_=trace, n_discarded_=n_discarded)


def tick_words(ax):
    return [word.get_text() for word in ax.get_yticklabels()]


# ---------------------------------------------------------------------------------------------------------------- sizes


def test_bars_are_the_numbers_of_rows_largest_first():
    labels = np.repeat([3, 8, 5, -1], [4, 9, 2, 6])
    ax = plot_cluster_sizes(labels)
    assert [bar.get_width() for bar in ax.patches] == [9, 4, 2, 6]
    assert tick_words(ax) == ["8", "3", "5", "noise"]
    # colours go with the labels in order, not with the bars
    assert [to_rgb(bar.get_facecolor()) for bar in ax.patches[:3]] == [to_rgb(PALETTE[k]) for k in (2, 0, 1)]
    assert ax.get_ylim()[0] > ax.get_ylim()[1]  # the first on top
    assert [text.get_text() for text in ax.texts] == ["9", "4", "2", "6"]
    assert ax.get_title(loc="left") == "3 clusters, 21 rows"


def test_very_many_clusters_are_cut_and_counted():
    labels = np.repeat(np.arange(50), np.arange(50, 0, -1))
    ax = plot_cluster_sizes(labels, most_clusters=10)
    assert len(ax.patches) == 10
    assert ax.get_title(loc="left") == "50 clusters, 1,275 rows; 40 smaller ones, not drawn, have 820"


def test_nothing_but_noise():
    assert tick_words(plot_cluster_sizes([-1, -1])) == ["noise"]


# ---------------------------------------------------------------------------------------------------------- silhouettes


def test_silhouettes_go_down_within_each_cluster():
    scores = np.array([0.1, 0.9, 0.5, -0.4, 0.3, np.nan, 0.8])
    labels = np.array([0, 0, 0, 1, 1, 1, -1])
    ax = plot_silhouettes(scores, labels)
    first, second = (area.get_paths()[0].vertices for area in ax.collections)
    assert sorted(set(first[:, 0].round(9))) == [0.0, 0.1, 0.5, 0.9]
    assert sorted(set(second[:, 0].round(9))) == [-0.4, 0.0, 0.3]
    # best on top: the axis points down
    best, worst = (first[first[:, 0].round(9) == value][:, 1].min() for value in (0.9, 0.1))
    assert best < worst
    assert ax.get_ylim()[0] > ax.get_ylim()[1]
    assert ax.get_title(loc="left") == "mean silhouette 0.280"
    assert tick_words(ax) == ["0", "1"]
    assert ax.get_xlim()[0] < -0.4


def test_very_many_clusters_are_lines_from_quartile_to_quartile():
    rng = np.random.default_rng(0)
    labels = np.arange(900) % 45
    scores = rng.uniform(0.0, 0.2, 900) + labels / 100.0
    ax = plot_silhouettes(scores, labels)
    lines, dots = ax.collections
    means = np.array([scores[labels == k].mean() for k in range(45)])
    order = np.argsort(-means)
    np.testing.assert_allclose(np.asarray(dots.get_offsets())[:, 0], means[order])
    quartiles = [np.quantile(scores[labels == k], [0.25, 0.75]) for k in order]
    np.testing.assert_allclose([segment[:, 0] for segment in lines.get_segments()], quartiles)
    assert tick_words(ax)[0] == str(order[0])


# ----------------------------------------------------------------------------------------------------------- similarity


def test_cells_are_angles_in_degrees():
    angles = np.radians([0.0, 30.0, 100.0])
    ax = plot_similarity(
        np.column_stack([np.cos(angles), np.sin(angles)]) * 5.0, names=["a", "b", "c"], is_ordered=False
    )
    image = np.asarray(ax.images[0].get_array())
    np.testing.assert_allclose(image, [[0, 30, 100], [30, 0, 70], [100, 70, 0]], atol=1e-6)
    assert tick_words(ax) == ["a", "b", "c"]
    assert {text.get_text() for text in ax.texts} == {"30", "70", "100"}


def test_near_clusters_stand_side_by_side():
    angles = np.radians([0.0, 90.0, 5.0, 95.0, 10.0])
    order = similarity_order(np.column_stack([np.cos(angles), np.sin(angles)]))
    assert [[0, 2, 4], [1, 3]] in ([sorted(order[:3]), sorted(order[3:])], [sorted(order[2:]), sorted(order[:2])])
    assert sorted(order) == list(range(5))
    assert similarity_order(np.eye(2)).tolist() == [0, 1]


def test_hundreds_of_clusters_have_no_words_in_their_cells():
    directions = np.random.default_rng(0).normal(size=(310, 6))
    ax = plot_similarity(directions)
    assert not ax.texts
    assert len(tick_words(ax)) == 60
    image = np.asarray(ax.images[0].get_array())
    units = directions / np.linalg.norm(directions, axis=1, keepdims=True)
    order = [int(word) for word in tick_words(ax)]
    shown = np.arange(60) * 310 // 60
    expected = np.degrees(np.arccos(np.clip(units[order] @ units[order].T, -1.0, 1.0)))
    np.testing.assert_allclose(image[np.ix_(shown, shown)], expected, atol=1e-5)


# --------------------------------------------------------------------------------------------------------------- traces


def test_chains_are_lines_over_the_sweeps():
    model = sampler()
    top, bottom = plot_traces(model)
    for ax, column in ((top, 0), (bottom, 2)):
        for chain, line in enumerate(ax.lines[:2]):
            assert line.get_xdata().tolist() == list(range(1, 11))
            assert line.get_ydata().tolist() == model.trace_[chain, :, column].tolist()
        assert ax.lines[0].get_linestyle() != ax.lines[1].get_linestyle()
        (span,) = ax.patches
        box = span.get_extents().transformed(ax.transData.inverted())
        assert (box.x0, box.x1) == pytest.approx((0.5, 4.5))
    assert top.get_title(loc="left") == "2 chains, 10 sweeps"


def test_the_log_joint_of_the_burn_in_does_not_flatten_the_rest():
    model = sampler()
    model.trace_[:, 0, 2] = -1e6
    bottom = plot_traces(model)[1]
    kept = model.trace_[:, 4:, 2]
    low, high = bottom.get_ylim()
    assert low < kept.min()
    assert high > kept.max()
    assert high - low < 4.0 * np.ptp(kept)


# --------------------------------------------------------------------------------------------------------------- sweeps


def test_a_sweep_has_a_line_for_each_model_and_a_mark():
    table = [{"model": "a", **entry} for entry in TABLE] + [{"model": "b", "n_clusters": 5, "score": 0.5}]
    ax = plot_sweep(table, criterion="evidence")
    first, second = (line for line in ax.lines if line.get_label() in ("a", "b"))
    assert first.get_xydata().tolist() == [[2, 0.1], [4, 0.6], [6, 0.3]]
    assert second.get_xydata().tolist() == [[5, 0.5]]
    assert ax.get_title(loc="left") == "4 clusters: evidence 0.6"
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["a", "b"]
    assert plot_sweep(table, best=3).get_title(loc="left") == "5 clusters: score 0.5"
    assert plot_sweep(TABLE).get_legend() is None


def test_the_entry_that_was_chosen_is_marked_and_none_where_none_was():
    chosen = [{**entry, "is_chosen": entry["n_clusters"] == 6} for entry in TABLE]
    assert plot_sweep(chosen).get_title(loc="left") == "6 clusters: score 0.3"
    ax = plot_sweep([{**entry, "is_chosen": False} for entry in TABLE])
    assert ax.get_title(loc="left") == ""
    assert len(ax.lines) == 1


def test_entries_without_numbers_are_left_out():
    ax = plot_sweep(
        [*TABLE, {"n_clusters": None, "score": 9.0}, {"n_clusters": 3, "score": float("nan")}, {"score": 8.0}]
    )
    assert ax.get_title(loc="left") == "4 clusters: score 0.6"


@pytest.mark.parametrize(("numbers", "scale"), [((2, 40), "log"), ((10, 30), "linear"), ((5,), "linear")])
def test_the_scale_follows_the_range(numbers, scale):
    ax = plot_sweep([{"n_clusters": k, "score": 0.5} for k in numbers])
    assert ax.get_xscale() == scale
    ax.figure.savefig(io.BytesIO())


def test_other_numbers_can_be_swept():
    ax = plot_sweep([{"max_angle": 20.0, "score": 0.5}, {"max_angle": 30.0, "score": 0.7}], x="max_angle")
    assert ax.get_title(loc="left") == "max_angle 30: score 0.7"
    assert ax.get_xlabel() == "max_angle"


# ----------------------------------------------------------------------------------------------------- names on spheres


def test_centers_can_be_named():
    centers = [[1.0, 0, 0], [0, 1.0, 0], [0, 0, 1.0]]
    views = plot_sphere_views(centers, [0, 1, 2], centers=centers, names=["7", "", "9"], has_axes=False)
    assert [text.get_text() for text in views.axes[0].texts] == ["7", "9"]
    ax = plot_sphere(centers, [0, 1, 2], centers=centers, names=["7", "8", "9"], view_from=(0, 0, 1), has_axes=False)
    assert {"7", "8", "9"} == {text.get_text() for text in ax.texts}
    assert "x" in {text.get_text() for text in plot_sphere(centers).texts}
    with pytest.raises(InputError, match="`names` of plot_sphere must have one for each of 3 centers; got 2"):
        plot_sphere(centers, centers=centers, names=["a", "b"])


# -------------------------------------------------------------------------------------------------------- every picture

PICTURES = {
    "plot_cluster_sizes": lambda ax: plot_cluster_sizes([0, 0, 1], ax=ax),
    "plot_silhouettes": lambda ax: plot_silhouettes([0.5, 0.2, 0.1], [0, 0, 1], ax=ax),
    "plot_similarity": lambda ax: plot_similarity(np.eye(3), ax=ax),
    "plot_sweep": lambda ax: plot_sweep(TABLE, ax=ax),
    "plot_traces": lambda ax: plot_traces(sampler(), axes=None if ax is None else [ax, ax])[0],
}


@pytest.mark.parametrize("name", PICTURES)
def test_axes_come_in_and_go_out_and_no_figure_is_kept(name):
    figure = Figure()
    first, second = figure.subplots(1, 2)
    assert PICTURES[name](second) is second
    assert not first.lines
    assert not first.patches
    figure.savefig(io.BytesIO())
    pyplot = sys.modules.get("matplotlib.pyplot")
    assert pyplot is None or not pyplot.get_fignums()
    with pytest.raises(ParameterError, match=f"`ax` of {name} must be plain 2-D axes; got PolarAxes"):
        PICTURES[name](Figure().add_subplot(projection="polar"))


@pytest.mark.parametrize("name", PICTURES)
def test_sentence_without_matplotlib(name, monkeypatch):
    real = builtins.__import__

    def refuse(module, *rest):
        if module.split(".")[0] == "matplotlib":
            raise ImportError(module)
        return real(module, *rest)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(MissingExtraError, match=f"{name} needs matplotlib, which is not installed"):
        PICTURES[name](None)


@pytest.mark.parametrize(
    ("draw", "sentence"),
    [
        (
            lambda: plot_cluster_sizes([0.5, 1.0]),
            (
                "`labels` of plot_cluster_sizes must be ints of shape (n,), one per row; got float64 of shape (2,). "
                "Give `model.labels_` or `model.predict(X)`."
            ),
        ),
        (
            lambda: plot_cluster_sizes([0, -3]),
            "`labels` of plot_cluster_sizes must be -1 (noise) or more; got -3. Give noise the label -1.",
        ),
        (
            lambda: plot_cluster_sizes([0, 1], colors=["red"]),
            (
                "`colors` of plot_cluster_sizes must have one for each of 2 clusters; got 1. Give them in the order of "
                "the labels, noise aside."
            ),
        ),
        (
            lambda: plot_silhouettes([[0.1]], [0]),
            (
                "`silhouettes` of plot_silhouettes must be one number per row; got shape (1, 1). Give what "
                "metrics.cosine_silhouette_samples(X, labels) returned."
            ),
        ),
        (
            lambda: plot_silhouettes([np.nan, 0.4], [0, -1]),
            (
                "`silhouettes` of plot_silhouettes must have a number for a row of a cluster; all are NaN or noise. A "
                "silhouette needs two clusters."
            ),
        ),
        (
            lambda: plot_silhouettes([0.1, 0.2], [0]),
            (
                "`labels` of plot_silhouettes must be ints of shape (2,), one per row; got int64 of shape (1,). Give "
                "`model.labels_` or `model.predict(X)`."
            ),
        ),
        (
            lambda: plot_similarity(np.eye(3), names=["a"]),
            (
                "`names` of plot_similarity must have one for each of 3 directions; got 1. Give them in the order of "
                "the rows."
            ),
        ),
        (
            lambda: plot_traces(SimpleNamespace()),
            (
                "`model` of plot_traces must be a fitted DirichletProcessMixture, which has a trace_; got "
                "SimpleNamespace. Fit it first."
            ),
        ),
        (
            lambda: plot_traces(sampler(), axes=[Figure().add_subplot()]),
            (
                "`axes` of plot_traces must be two axes, for the clusters and for the log joint; got 1. Make them with "
                "figure.subplots(2)."
            ),
        ),
        (
            lambda: plot_sweep([{"score": 1.0}]),
            (
                '`table` of plot_sweep must have an entry with the numbers "n_clusters" and "score"; got 1 without. '
                "Give the table of a choice, e.g. armillary.choose_model(X).table."
            ),
        ),
        (
            lambda: plot_sweep(TABLE, best=7),
            "`best` of plot_sweep must be the number of an entry with both numbers; got 7. These have them: 0, 1, 2.",
        ),
    ],
)
def test_sentences(draw, sentence):
    with pytest.raises(InputError) as caught:
        draw()
    assert str(caught.value) == sentence


# ------------------------------------------------------------------------------------------------------------ on a page


def test_pictures_for_a_page_follow_its_colours_and_are_the_same_each_time():
    svg = svg_of(plot_cluster_sizes([0, 0, 1]), "sizes")
    assert svg.startswith("<svg")
    assert svg.endswith("</svg>")
    assert INK not in svg
    assert "currentColor" in svg
    assert "2 clusters, 3 rows</text>" in svg  # words, not outlines
    assert svg == svg_of(plot_cluster_sizes([0, 0, 1]), "sizes")
    assert png_of(plot_cluster_sizes([0, 1]).figure).startswith(b"\x89PNG")
