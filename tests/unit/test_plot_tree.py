"""A tree as a picture: what is drawn where, and the sentences for what cannot be."""

from __future__ import annotations

import warnings

import matplotlib
import numpy as np
import pytest

matplotlib.use("Agg")

from matplotlib.figure import Figure
from matplotlib.patches import PathPatch
from sklearn.exceptions import ConvergenceWarning

from armillary import HierarchicalVonMisesFisherMixture, SphericalKMeans
from armillary.datasets import make_vmf_tree
from armillary.exceptions import InputError, ParameterError
from armillary.plots import plot_tree, tree

ROWS = make_vmf_tree(120, 6, 2, 2, random_state=0)[0]
WHO = "HierarchicalVonMisesFisherMixture"
NAMES = ["ant", "bee", "cat", "dog", "elk", "fox"]


def fitted(**parameters):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        settings = {"height": 2, "branching": 2, "max_iter": 3, "random_state": 0, "n_threads": 1, **parameters}
        return HierarchicalVonMisesFisherMixture(**settings).fit(ROWS)


@pytest.fixture(scope="module")
def model():
    return fitted()


def written(ax):
    return [text.get_text() for text in ax.texts]


def branches(ax):
    return [patch for patch in ax.patches if isinstance(patch, PathPatch)]


def test_every_node_has_its_words_and_every_child_a_branch(model):
    ax = plot_tree(model, feature_names=NAMES, n=2)
    top = model.top_features(2, NAMES)
    said = " ".join(written(ax)).replace("\n", " ")
    for row in top:
        assert ", ".join(row) in said
    assert len(branches(ax)) == 6
    assert sum(word.startswith("κ") for word in written(ax)) == 4


def test_leaves_stand_below_each_other_and_parents_between_their_children(model):
    ax = plot_tree(model)
    ends = [patch.get_path().vertices for patch in branches(ax)]
    places = {tuple(np.round(path[-1], 6)) for path in ends} | {tuple(np.round(path[0], 6)) for path in ends}
    assert len(places) == 7
    leaves = sorted((path[-1] for path in ends), key=lambda place: (-place[0], place[1]))[:4]
    assert len({round(float(x), 6) for x, _ in leaves}) == 1
    steps = np.diff([y for _, y in leaves])
    np.testing.assert_allclose(steps, steps[0])
    # no text of a leaf reaches beyond the page
    width, height = ax.figure.get_size_inches()
    assert ax.get_xlim() == (0.0, width)
    assert ax.get_ylim() == (height, 0.0)


def test_branches_have_the_colour_of_their_side_and_the_width_of_their_share(model):
    ax = plot_tree(model)
    by_node = dict(zip((node.number for node in model.tree_ if node.parent is not None), branches(ax), strict=True))
    colors = {number: patch.get_edgecolor() for number, patch in by_node.items()}
    for node in model.tree_:
        if node.level == 2:
            assert colors[node.number] == colors[node.parent]
            assert by_node[node.number].get_linewidth() <= by_node[node.parent].get_linewidth() + 1e-9
    assert colors[1] != colors[2]


def test_nearest_rows_by_their_texts(model):
    texts = [
        f"text number {row}, which goes on for much longer than there is room on any page for" for row in range(120)
    ]
    ax = plot_tree(model, X=ROWS, texts=texts)
    nearest = model.nearest_rows(ROWS, 1)[:, 0]
    for leaf in model.leaves_:
        shown = [word for word in written(ax) if word.startswith(f"text number {nearest[leaf]},") and "\n" not in word]
        assert shown
        assert len(shown[0]) <= 60
        assert shown[0].endswith("…")


def test_a_point_root_and_uneven_trees_are_drawn():
    assert len(branches(plot_tree(fitted(root="point")))) == 6
    uneven = fitted(parents=[-1, 0, 0, 1, 1])
    assert len(branches(plot_tree(uneven, n=20))) == 4
    flat = fitted(height=1, branching=3, root="point")
    assert len(branches(plot_tree(flat))) == 3


def test_draws_on_axes_given(model):
    ax = Figure().add_subplot()
    assert plot_tree(model, ax=ax) is ax


def test_numbers_are_short():
    assert [tree._number(value) for value in (0.0123, 12.3456, 1234.5, 1e7)] == ["0.0123", "12.3", "1,234", "1e+07"]


@pytest.mark.parametrize(
    ("arguments", "kind", "sentence"),
    [
        (
            {"model": SphericalKMeans()},
            ParameterError,
            f"`model` of plot_tree must be a fitted {WHO}; got SphericalKMeans. Fit it first.",
        ),
        (
            {"model": HierarchicalVonMisesFisherMixture()},
            ParameterError,
            f"`model` of plot_tree must be a fitted {WHO}; got {WHO}. Fit it first.",
        ),
        (
            {"texts": ["a"]},
            InputError,
            (
                "`X` and `texts` of plot_tree must be given together; got `texts` alone. Give the rows and one text "
                "for each, or feature_names."
            ),
        ),
        (
            {"X": ROWS, "texts": ["a"]},
            InputError,
            (
                "`texts` of plot_tree must have one text for each row of X, 120; got 1. Give them in the order of the "
                "rows."
            ),
        ),
        ({"n": 0}, ParameterError, "`n` of plot_tree must be an int >= 1; got 0."),
        (
            {"feature_names": ["a"]},
            InputError,
            (
                f"`feature_names` of {WHO}.top_features must have one name per column, shape (6,); got (1,). Give "
                "those of the vectoriser that made X."
            ),
        ),
    ],
)
def test_sentences(model, arguments, kind, sentence):
    with pytest.raises(kind) as caught:
        plot_tree(**{"model": model, **arguments})
    assert str(caught.value) == sentence
