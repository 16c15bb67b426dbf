"""Segmented frames as a picture: what is drawn, and the sentences for what cannot be."""

from __future__ import annotations

import matplotlib
import numpy as np
import pytest

matplotlib.use("Agg")

from armillary.exceptions import InputError, ParameterError
from armillary.plots import plot_id_shares, plot_segmentation
from armillary.vision import color_depth, color_labels, color_normals

LABELS = [np.full((6, 8), number) for number in range(10)]
DEPTHS = [np.full((6, 8), 1000 + number, dtype=np.uint16) for number in range(10)]
NORMALS = [np.tile(np.float32([0, 0, -1]), (6, 8, 1)) for _ in range(10)]


def pictures(figure):
    """The arrays drawn, row by row."""
    return [ax.images[0].get_array() for ax in figure.axes]


def test_depth_normals_and_labels_are_drawn_one_below_the_other():
    figure = plot_segmentation(LABELS[:2], depths=DEPTHS[:2], normals=NORMALS[:2])
    drawn = pictures(figure)
    expected = [
        *(color_depth(depth) for depth in DEPTHS[:2]),
        *(color_normals(normals) for normals in NORMALS[:2]),
        *(color_labels(labels) for labels in LABELS[:2]),
    ]
    assert len(drawn) == 6
    assert all(np.array_equal(one, other) for one, other in zip(drawn, expected, strict=True))
    assert [ax.get_ylabel() for ax in figure.axes[::2]] == ["depth", "normals", "labels"]
    assert [ax.get_title() for ax in figure.axes[:2]] == ["0", "1"]


def test_of_many_frames_some_are_drawn_from_the_first_to_the_last():
    figure = plot_segmentation(LABELS, most_frames=4)
    assert [ax.get_title() for ax in figure.axes] == ["0", "3", "6", "9"]
    assert [ax.get_title() for ax in plot_segmentation(LABELS, most_frames=5).axes] == ["0", "2", "4", "7", "9"]
    titled = plot_segmentation(LABELS, titles=list("abcdefghij"), most_frames=2)
    assert [ax.get_title() for ax in titled.axes] == ["a", "j"]
    (alone,) = plot_segmentation(LABELS[:1]).axes
    assert alone.get_title() == ""


@pytest.mark.parametrize(
    ("arguments", "kind", "sentence"),
    [
        (
            {"labels": []},
            InputError,
            "`labels` of plot_segmentation must have at least one frame; got none. Give a list of label images.",
        ),
        (
            {"labels": LABELS[:2], "depths": DEPTHS[:1]},
            InputError,
            ("`depths` of plot_segmentation must have one entry for each of the 2 frames of `labels`; got 1."),
        ),
        (
            {"labels": LABELS, "most_frames": 0},
            ParameterError,
            "`most_frames` of plot_segmentation must be an int >= 1; got 0.",
        ),
    ],
)
def test_sentences(arguments, kind, sentence):
    with pytest.raises(kind) as raised:
        plot_segmentation(**arguments)
    assert str(raised.value) == sentence


def test_shares_by_id_are_drawn_as_ids_row_by_row_are():
    rows = [[0, 0, 1, 3], [1, 1, 1, 1], [3]]
    shares = [{0: 0.5, 1: 0.25, 3: 0.25}, {1: 4.0}, {3: 0.1}]
    drawn = [
        [collection.get_paths()[0].vertices.tolist() for collection in plot_id_shares(ids).collections]
        for ids in (rows, shares)
    ]
    assert drawn[0] == drawn[1]
    plot_id_shares([{}, {2: 1.0}])  # a frame without ids is a gap
