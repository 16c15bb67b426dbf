"""The picture of an angle table: what is on the axes, where, and that it is drawn where it is asked to be."""

from __future__ import annotations

import builtins
import io
import sys

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from armillary.exceptions import InputError, MissingExtraError, ParameterError
from armillary.plots import plot_angle_table
from armillary.selection.angle_selection import AngleTable


def table_of(degrees=(5.0, 10.0, 20.0, 40.0), n_clusters=(90, 50, 30, 4), silhouettes=(0.4, 0.6, 0.9, 0.5)):
    m = len(degrees)
    return AngleTable(
        np.radians(degrees), np.array(n_clusters), np.array(silhouettes), np.zeros(m), np.ones(m, dtype=int), None
    )


def twin_of(ax):
    (twin,) = [other for other in ax.figure.axes if other is not ax]
    return twin


def test_silhouette_at_the_left_and_clusters_at_the_right():
    ax = plot_angle_table(table_of())
    twin = twin_of(ax)
    curve = next(line for line in ax.lines if len(line.get_xdata()) == 4)
    np.testing.assert_allclose(curve.get_xdata(), [5, 10, 20, 40])
    assert curve.get_ydata().tolist() == [0.4, 0.6, 0.9, 0.5]
    (clusters,) = twin.lines
    np.testing.assert_allclose(clusters.get_xdata(), [5, 10, 20, 40])
    assert clusters.get_ydata().tolist() == [90, 50, 30, 4]
    assert ax.get_xlabel() == "max_angle"
    assert ax.get_ylabel() == "mean silhouette"
    assert twin.get_ylabel() == "clusters"
    assert twin.get_yscale() == "log"
    # each label has the colour of its curve
    assert ax.yaxis.label.get_color() == curve.get_color() != clusters.get_color() == twin.yaxis.label.get_color()
    assert curve.get_linestyle() != clusters.get_linestyle()


def test_the_best_angle_is_marked_and_named():
    ax = plot_angle_table(table_of())
    at_best = [line for line in ax.lines if set(np.round(line.get_xdata(), 9)) == {20.0}]
    assert len(at_best) == 2  # a line from bottom to top, and a ring
    assert any(list(line.get_ydata()) == [0.9] for line in at_best)
    assert ax.get_title(loc="left") == "20°: 30 clusters, silhouette 0.900"
    one = plot_angle_table(table_of([12.34], [1], [0.0]))
    assert one.get_title(loc="left") == "12.3°: 1 cluster, silhouette 0.000"


@pytest.mark.parametrize(("degrees", "scale"), [((5.0, 60.0), "log"), ((55.0, 87.0), "linear"), ((20.0,), "linear")])
def test_the_scale_follows_the_range(degrees, scale):
    m = len(degrees)
    ax = plot_angle_table(table_of(degrees, np.arange(m, 0, -1), np.linspace(0.2, 0.4, m)))
    assert ax.get_xscale() == scale
    low, high = ax.get_xlim()
    assert low < min(degrees) <= max(degrees) < high
    ax.figure.savefig(io.BytesIO())  # draws the ticks
    shown = [label.get_text() for label in ax.get_xticklabels()]
    assert all(text.endswith("°") for text in shown)
    assert len(shown) >= 3


def test_everything_is_inside():
    ax = plot_angle_table(table_of(silhouettes=(-0.3, 0.0, 0.1, 0.05), n_clusters=(20000, 300, 2, 1)))
    assert ax.get_ylim()[0] < -0.3
    assert ax.get_ylim()[1] == 1.0
    low, high = twin_of(ax).get_ylim()
    assert low < 1
    assert high > 20000


def test_words_do_not_overlap():
    ax = plot_angle_table(table_of(n_clusters=(20000, 300, 2, 1)))
    figure = ax.figure
    renderer = FigureCanvasAgg(figure).get_renderer()
    figure.draw(renderer)
    words = [ax.xaxis.label, ax.yaxis.label, twin_of(ax).yaxis.label, ax.title, ax._left_title]
    for axis in (ax.xaxis, ax.yaxis, twin_of(ax).yaxis):
        low, high = sorted(axis.get_view_interval())
        ticks = [tick for tick in axis.get_major_ticks() if low <= tick.get_loc() <= high]
        words += [word for tick in ticks for word in (tick.label1, tick.label2) if word.get_visible()]
    boxes = [word.get_window_extent(renderer) for word in words if word.get_text()]
    assert len(boxes) > 10
    for number, box in enumerate(boxes):
        assert figure.bbox.containsx(box.x0)
        assert figure.bbox.containsx(box.x1)
        assert not any(box.overlaps(other) for other in boxes[:number])


def test_axes_come_in_and_go_out():
    figure = Figure()
    first, second = figure.subplots(1, 2)
    assert plot_angle_table(table_of(), ax=second) is second
    assert not first.lines
    assert len(figure.axes) == 3
    figure.savefig(io.BytesIO())


def test_no_figure_is_kept():
    plot_angle_table(table_of())
    pyplot = sys.modules.get("matplotlib.pyplot")
    assert pyplot is None or not pyplot.get_fignums()


def test_sentences():
    with pytest.raises(InputError) as caught:
        plot_angle_table([1, 2])
    assert str(caught.value) == (
        "`table` of plot_angle_table must be an AngleTable; got list. Give what armillary.select_max_angle(X) returned."
    )
    with pytest.raises(ParameterError, match=r"`ax` of plot_angle_table must be plain 2-D axes; got PolarAxes\. Make"):
        plot_angle_table(table_of(), ax=Figure().add_subplot(projection="polar"))


def test_sentence_without_matplotlib(monkeypatch):
    real = builtins.__import__

    def refuse(name, *rest):
        if name.split(".")[0] == "matplotlib":
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(MissingExtraError, match="plot_angle_table needs matplotlib, which is not installed"):
        plot_angle_table(table_of())
