"""Paths of mean directions on a globe, and the words of a component: what is drawn, in which colour, and sentences."""

from __future__ import annotations

import io
import warnings
from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from sklearn.exceptions import ConvergenceWarning

from armillary import TemporalVonMisesFisherMixture
from armillary.datasets import make_drifting_mixture
from armillary.exceptions import InputError, ParameterError
from armillary.plots import plot_top_features, plot_trajectories
from armillary.plots import trajectories as plot_file


def fitted(n_features, n_components=3, n_steps=5, **parameters):
    batches, _, truth = make_drifting_mixture(
        20, n_features, n_components, n_steps, concentration=300.0, drift_concentration=3.0, random_state=2
    )
    made = TemporalVonMisesFisherMixture(n_components, init=truth.directions[0], n_threads=1, max_iter=3, **parameters)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return made.fit(batches), np.concatenate(batches)


def paths_of(ax):
    """The coloured lines of paths; the white edges and the graticule are not among them."""
    made = [part for part in ax.collections if isinstance(part, LineCollection)]
    return [part for part in made if round(part.get_zorder() % 1, 3) in (0.7,)]


@pytest.mark.parametrize("n_features", [2, 3, 12])
@pytest.mark.parametrize("rows", ["none", "dense", "sparse"])
def test_a_picture_comes_out(n_features, rows):
    model, X = fitted(n_features)
    given = {"none": None, "dense": X, "sparse": sp.csr_array(X)}[rows]
    ax = plot_trajectories(model, given, None if given is None else model.labels_)
    assert isinstance(ax.figure, Figure)
    ax.figure.savefig(io.BytesIO(), format="png", dpi=40)
    assert paths_of(ax)


def test_paths_are_where_the_means_are():
    model, _ = fitted(3)
    ax = plot_trajectories(model, view_from=(0.0, 0.0, 1.0))
    drawn = np.concatenate([np.concatenate(part.get_segments()) for part in paths_of(ax)])
    # seen from above, x is to the right and y up
    for mean in model.means_.reshape(-1, 3):
        assert np.linalg.norm(drawn - mean[:2], axis=1).min() < 1e-9
    # from thin to thick
    widths = np.concatenate([part.get_linewidths() for part in paths_of(ax)])
    assert widths.min() == pytest.approx(1.0)
    assert widths.max() == pytest.approx(3.2)


def test_the_far_side_can_be_hidden():
    model, _ = fitted(3)
    view = -model.means_[:, 0].sum(axis=0)
    shown, hidden = (plot_trajectories(model, view_from=view, far_side=side) for side in ("dimmed", "hidden"))
    assert len(paths_of(hidden)) < len(paths_of(shown))


def test_directions_in_three_axes_keep_their_angles():
    model, _ = fitted(3)
    turn = np.linalg.qr(np.random.default_rng(0).standard_normal((9, 3)))[0]
    wide = model.means_ @ turn.T
    axes, share = plot_file._axes_of(wide)
    assert share == pytest.approx(1.0)
    seen, flat = wide.reshape(-1, 9) @ axes.T, wide.reshape(-1, 9)
    np.testing.assert_allclose(seen @ seen.T, flat @ flat.T, atol=1e-12)
    # one mean has one axis
    axes, share = plot_file._axes_of(wide[:1, :1])
    assert share == pytest.approx(1.0)
    np.testing.assert_allclose(np.linalg.norm(axes, axis=1), [1.0, 0.0, 0.0], atol=1e-12)


def test_what_is_left_out_is_said():
    model, _ = fitted(12, n_components=5)
    notes = [text.get_text() for text in plot_trajectories(model).texts]
    assert any("of the means lie along the three axes shown" in note for note in notes)
    model, _ = fitted(3)
    texts = [text.get_text() for text in plot_trajectories(model).texts]
    assert {"0", "4"} <= set(texts)
    assert not any("axes shown" in note for note in texts)


def test_one_slice_has_no_path():
    model, _ = fitted(3, n_steps=1)
    assert not paths_of(plot_trajectories(model))


def test_words():
    model, _ = fitted(6)
    names = [f"w{number}" for number in range(6)]
    ax = plot_top_features(model, 1, n=2, every=2, feature_names=names)
    texts = {(text.get_position()[0], text.get_position()[1]): text.get_text() for text in ax.texts}
    top = model.top_features(2, names)[::2, 1]
    for place in range(3):
        assert [texts[place, rank] for rank in range(2)] == top[place].tolist()
    assert [texts[place, -0.95] for place in range(3)] == ["0", "2", "4"]
    n_kept = sum(len(set(one) & set(two)) for one, two in pairwise(top))
    assert len(ax.lines) == n_kept
    ax.figure.savefig(io.BytesIO(), format="png", dpi=40)


def test_axes_may_be_given():
    model, _ = fitted(3)
    figure = Figure()
    ax = figure.add_subplot()
    assert plot_trajectories(model, ax=ax) is ax
    assert plot_top_features(model, n=2, ax=ax) is ax


def test_sentences():
    with pytest.raises(InputError, match=r"`model` of plot_trajectories must be a fitted Temp.*without means_"):
        plot_trajectories(TemporalVonMisesFisherMixture())
    model, X = fitted(6)
    with pytest.raises(InputError, match=r"`X` of plot_trajectories must have shape \(n, 6\), as the model's means"):
        plot_trajectories(model, X[:, :4])
    with pytest.raises(ParameterError, match=r"`component` of plot_top_features must be an int from 0 to 2; got 3"):
        plot_top_features(model, 3)
    with pytest.raises(ParameterError, match=r"`every` of plot_top_features must be an int >= 1; got 0"):
        plot_top_features(model, every=0)
