"""Shares of ids over a stream as a picture: what is drawn, and the sentences for what cannot be."""

from __future__ import annotations

import matplotlib
import numpy as np
import pytest

matplotlib.use("Agg")

from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from armillary.exceptions import InputError, ParameterError
from armillary.plots import plot_id_shares


def bands(ax):
    """Top minus bottom of each band at each step."""
    found = []
    for collection in ax.collections:
        vertices = collection.get_paths()[0].vertices
        found.append((tuple(collection.get_facecolor()[0]), vertices))
    return found


def test_every_step_is_filled_to_the_top_and_no_further():
    rng = np.random.default_rng(0)
    ids = [rng.integers(0, 5, 40) for _ in range(6)]
    ax = plot_id_shares(ids)
    tops = max(vertices[:, 1].max() for _, vertices in bands(ax))
    assert tops == pytest.approx(1.0)
    assert ax.get_ylim() == (0.0, 1.0)
    assert ax.get_xlim() == (-0.5, 5.5)


def test_an_id_keeps_its_colour_and_ids_in_excess_are_drawn_together():
    few = plot_id_shares([[3, 3, 7], [7, 7, 7]])
    many = plot_id_shares([[3] * 5 + [7] * 4 + [9], [3, 7, 7, 7, 9]], most_ids=2)
    assert [color for color, _ in bands(few)] == [color for color, _ in bands(many)][:2]
    assert len(bands(many)) == 3
    assert [text.get_text() for text in many.texts] == ["3", "7", "others"]


def test_missing_rows_are_on_top_without_a_name():
    ax = plot_id_shares([[0, 0, -1], [0, -1, -1]])
    assert [text.get_text() for text in ax.texts] == ["0"]
    assert bands(ax)[-1][1][:, 1].max() == pytest.approx(1.0)


def test_a_step_without_rows_is_a_gap():
    ax = plot_id_shares([np.array([1, 1]), np.empty(0, dtype=np.int64), np.array([1])])
    (_, vertices) = bands(ax)[0]
    inside = vertices[(vertices[:, 0] > 0.5) & (vertices[:, 0] < 1.5)]
    assert not inside.size or inside[:, 1].max() == 0.0


def test_draws_on_axes_given():
    ax = Figure().add_subplot()
    assert plot_id_shares([[0], [1]], ax=ax) is ax


@pytest.mark.parametrize(
    ("arguments", "kind", "sentence"),
    [
        (
            {"ids": []},
            InputError,
            "`ids` of plot_id_shares must have at least one step; got none. Give one array of ids for each step.",
        ),
        (
            {"ids": [[0], [0.5]]},
            InputError,
            (
                "`ids` of plot_id_shares must hold one 1-D array of integers for each step; step 1 has shape (1,) and "
                "dtype float64. Give `labels_` of each step."
            ),
        ),
        (
            {"ids": [[0]], "most_ids": 0},
            ParameterError,
            "`most_ids` of plot_id_shares must be an int >= 1; got 0.",
        ),
    ],
)
def test_sentences(arguments, kind, sentence):
    with pytest.raises(kind) as raised:
        plot_id_shares(**arguments)
    assert str(raised.value) == sentence


def test_bands_take_the_colours_of_a_table():
    ax = plot_id_shares([[0, 0, 1], [0, 1, 1]], table=[[255, 0, 16], [0, 128, 255]])
    colors = {to_hex(color) for color, _ in bands(ax)}
    assert {"#ff0010", "#0080ff"} <= colors
