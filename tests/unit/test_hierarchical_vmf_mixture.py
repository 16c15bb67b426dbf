"""HierarchicalVonMisesFisherMixture as its users meet it: sentences, what a fit leaves, predictions, the tree."""

from __future__ import annotations

import json
import math
import pickle
import re
import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from tests.making import docstring

from armillary import HierarchicalVonMisesFisherMixture, load, save
from armillary.datasets import make_vmf_tree
from armillary.exceptions import ArchiveError, InputError, InputTypeError, ParameterError
from armillary.geometry.sphere import log_area

ROWS, LABELS, TRUTH = make_vmf_tree(
    300, 8, 2, 2, concentration=40.0, inner_concentration=[2.0, 15.0, 15.0], random_state=3
)
ROWS.setflags(write=False)
UNEVEN = [-1, 0, 0, 1, 1, 1, 3, 3]  # leaves 2, 4, 5, 6 and 7


def model(**parameters):
    settings = {"height": 2, "branching": 2, "random_state": 0, "n_threads": 1, "tol": 1e-4, **parameters}
    return HierarchicalVonMisesFisherMixture(**settings)


def quiet(fitting, *given, **named):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return fitting(*given, **named)


def fit(**parameters):
    return quiet(model(**{"max_iter": 4, **parameters}).fit, ROWS)


@pytest.fixture(scope="module")
def fitted():
    return model().fit(ROWS)


@pytest.fixture(scope="module")
def uneven():
    return fit(parents=UNEVEN)


def fitted_attributes(estimator):
    return {name: value for name, value in vars(estimator).items() if name.endswith("_")}


# ----------------------------------------------------------------------------------------------------- parameters

SENTENCES = [
    ({"height": 0}, "must be an int >= 1; got 0."),
    ({"branching": 1}, "must be an int >= 2; got 1."),
    ({"root": "none"}, "must be one of 'random', 'point'; got 'none'."),
    ({"inference": "gibbs"}, "must be one of 'messages', 'factorised'; got 'gibbs'."),
    ({"groups": "each"}, "must be one of 'separate', 'shared'; got 'each'."),
    ({"concentration_posterior": "laplace"}, "must be one of 'grid', 'monte_carlo', 'log_normal'; got 'laplace'."),
    ({"log_normal_bound": "turan"}, "must be one of 'quadrature', 'jensen', 'delta'; got 'turan'."),
    ({"empirical_bayes": "yes"}, "must be True or False; got 'yes'."),
    ({"weight_concentration_prior": 0.0}, "must be a number in (0, inf); got 0.0."),
    ({"mean_direction_prior": [1.0, 2.0]}, "must be None or one direction, shape (8,); got shape (2,)."),
    ({"mean_concentration_prior": -1.0}, "must be a number in [0, 1e+10]; got -1.0."),
    ({"log_concentration_mean_prior": 1e3}, "must be a number in [-23, 27]; got 1000.0. It is a logarithm"),
    ({"log_concentration_variance_prior": 0.0}, "must be a number in [1e-06, 100]; got 0.0."),
    ({"inner_log_concentration_mean_prior": 28.0}, "must be a number in [-23, 27]; got 28.0. It is a logarithm"),
    ({"inner_log_concentration_variance_prior": 0.001}, "must be a number in [0.01, 100]; got 0.001."),
    ({"init": "k-means++"}, "must be one of 'top_down'; got 'k-means++'."),
    ({"init": np.eye(8)}, "must have shape (n_leaves, n_features) = (4, 8); got (8, 8)."),
    ({"n_init": 0}, "must be an int >= 1; got 0."),
    ({"max_iter": 0}, "must be an int >= 1; got 0."),
    ({"tol": -1.0}, "must be a number >= 0; got -1.0."),
    ({"n_threads": 0}, "must be an int from 1 to 4096; got 0."),
]


@pytest.mark.parametrize(("wrong", "said"), SENTENCES, ids=[str(wrong)[:40] for wrong, _ in SENTENCES])
def test_a_wrong_parameter_gets_a_sentence(wrong, said):
    name = next(iter(wrong))
    with pytest.raises(ParameterError) as caught:
        model(**wrong).fit(ROWS)
    assert f"`{name}` of HierarchicalVonMisesFisherMixture {said}" in str(caught.value)


@pytest.mark.parametrize(
    ("wrong", "kind", "said"),
    [
        ({"parents": [-1, 5]}, InputError, "must be numbers of its nodes, 0 to 1, or -1; node 1 has the parent 5."),
        ({"parents": [1, -1, 0]}, InputError, "must come before their children; node 0 has the parent 1."),
        ({"parents": [-1, 2, 1]}, InputError, "must lead to a top; they go in a circle: 1 -> 2 -> 1."),
        ({"parents": []}, InputError, "must be one number for each node; got shape (0,)."),
        ({"parents": [-1.0, 0.0]}, InputTypeError, "must be node numbers, ints; got dtype float64."),
    ],
)
def test_a_wrong_tree_gets_a_sentence(wrong, kind, said):
    with pytest.raises(kind) as caught:
        model(**wrong).fit(ROWS)
    assert f"The parents of HierarchicalVonMisesFisherMixture {said}" in str(caught.value)


def test_more_leaves_than_rows():
    said = (
        "The tree of HierarchicalVonMisesFisherMixture must not have more leaves than there are rows; got 4 leaves and "
        "n_samples=3. Lower height or branching, or give more rows."
    )
    with pytest.raises(InputError) as caught:
        model().fit(ROWS[:3])
    assert str(caught.value) == said


@pytest.mark.parametrize("level", [-1, 3, 1.0, "leaves", True])
def test_unknown_levels(fitted, level):
    said = (
        "`level` of HierarchicalVonMisesFisherMixture must be an int from 0 to 2, the depth of its tree, or None for "
        f"the leaves; got {level!r}."
    )
    for method in (fitted.predict, fitted.predict_proba):
        with pytest.raises(ParameterError) as caught:
            method(ROWS, level=level)
        assert str(caught.value) == said
    with pytest.raises(ParameterError, match=re.escape(said)):
        fitted.level_nodes(level)


def test_other_sentences(fitted):
    for ask in (lambda other: other.tree_, lambda other: other.to_newick(), lambda other: other.predict(ROWS)):
        with pytest.raises(NotFittedError):
            ask(model())
    assert not hasattr(model(), "tree_")
    with pytest.raises(
        ParameterError, match=r"`density` of HierarchicalVonMisesFisherMixture.score_samples must be one"
    ):
        fitted.score_samples(ROWS, density="best")
    with pytest.raises(InputError, match=r"X has 4 features"):
        fitted.predict(ROWS[:, :4])
    with pytest.raises(InputError, match=r"must be 7 strings, one for each node; got 2. Name the nodes in the order"):
        fitted.to_newick(["a", "b"])
    with pytest.raises(
        ParameterError, match=r"`n` of HierarchicalVonMisesFisherMixture.top_features must be an int from 1 to"
    ):
        fitted.top_features(9)
    with pytest.raises(
        ParameterError, match=r"`n` of HierarchicalVonMisesFisherMixture.nearest_rows must be an int from 1 to"
    ):
        fitted.nearest_rows(ROWS, 301)


def test_a_fit_that_could_go_on_warns_and_a_failed_one_changes_nothing():
    estimator = model(max_iter=1)
    with pytest.warns(ConvergenceWarning, match="used all 1 steps and was still gaining. Raise max_iter") as caught:
        estimator.fit(ROWS)
    assert caught[0].filename == __file__
    before = fitted_attributes(estimator)
    with pytest.raises(ParameterError):
        estimator.set_params(tol=-1.0).fit(ROWS)

    def stop(event):
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError):
        estimator.set_params(tol=1e-6, callbacks=stop).fit(ROWS)
    after = fitted_attributes(estimator)
    assert before.keys() == after.keys()
    assert all(after[name] is before[name] for name in before)


def test_equal_rows_hold_a_concentration_at_its_bound_and_are_said_to(fitted):
    rows = np.concatenate([np.repeat(-ROWS[:1], 40, axis=0), ROWS[:60]])
    starts = np.concatenate([-ROWS[:1], fitted.means_])
    loose = {"log_concentration_variance_prior": 100.0, "empirical_bayes": False}
    with pytest.warns(
        ConvergenceWarning, match=r"holds the concentration of component 0 at its bound 5.32e\+11: the r"
    ):
        estimator = model(height=1, branching=5, init=starts, **loose).fit(rows)
    assert np.isfinite(estimator.lower_bound_)
    assert np.all(np.isfinite(estimator.score_samples(rows)))


# --------------------------------------------------------------------------------------------- what a fit leaves


def test_what_a_fit_leaves_behind(fitted):
    assert fitted.converged_
    np.testing.assert_array_equal(fitted.labels_, fitted.predict(ROWS))
    assert fitted.labels_.dtype == np.int32
    assert fitted.parents_.tolist() == [-1, 0, 0, 1, 1, 2, 2]
    assert fitted.leaves_.tolist() == [3, 4, 5, 6]
    assert fitted.node_means_.shape == (7, 8)
    np.testing.assert_allclose(np.linalg.norm(fitted.node_means_, axis=1), 1.0, atol=1e-12)
    np.testing.assert_array_equal(fitted.node_means_[3:], fitted.means_)
    np.testing.assert_array_equal(fitted.node_means_[:3], fitted.inner_means_)
    np.testing.assert_array_equal(fitted.node_concentrations_[3:], fitted.concentrations_)
    assert fitted.weights_.sum() == pytest.approx(1.0)
    assert fitted.counts_.sum() == pytest.approx(300.0)
    assert fitted.n_clusters_ == 4
    assert len(fitted.lower_bounds_) == fitted.n_iter_
    assert fitted.lower_bounds_[-1] == fitted.lower_bound_
    # 75 rows each: within five standard errors of the truth, kappa sqrt(2/(n (D-1)))
    assert np.all(np.abs(fitted.concentrations_ - 40.0) < 5.0 * 40.0 * math.sqrt(2.0 / (7.0 * 60.0)))
    assert np.all(fitted.inner_posterior_concentrations_ > 0.0)
    assert fitted.mean_concentration_ == 0.0


def test_every_documented_attribute_is_there_and_saved_ones_are_the_schema(fitted):
    text = docstring(HierarchicalVonMisesFisherMixture).split("Attributes\n")[1].split("Notes\n")[0]
    heads = re.findall(r"^    (\w+_(?:, \w+_)*) :", text, flags=re.MULTILINE)
    documented = {name for head in heads for name in head.split(", ")} - {"feature_names_in_"}
    assert documented
    assert all(hasattr(fitted, name) for name in documented)
    assert set(fitted_attributes(fitted)) <= documented


@pytest.mark.parametrize("inference", ["messages", "factorised"])
@pytest.mark.parametrize("root", ["random", "point"])
def test_hyper_parameters_that_are_learned_and_those_that_stay(inference, root):
    estimator = fit(inference=inference, root=root, height=2, branching=3, max_iter=3)
    assert estimator.log_concentration_variance_ != 1.0
    assert estimator.inner_log_concentration_variance_ >= 0.01
    assert estimator.inner_log_concentration_variance_ != 1.0
    assert estimator.weight_concentration_ != 1.0
    assert (estimator.mean_concentration_ != 0.0) == (root == "point")
    kept = fit(
        inference=inference, root=root, empirical_bayes=False, max_iter=2, inner_log_concentration_mean_prior=1.5
    )
    assert (
        kept.log_concentration_variance_ == kept.inner_log_concentration_variance_ == kept.weight_concentration_ == 1.0
    )
    assert kept.inner_log_concentration_mean_ == 1.5
    assert kept.mean_concentration_ == 0.0


def test_only_the_tops_of_a_point_root_share_a_prior_that_is_learned():
    forest = {"parents": [-1, -1, 0, 0, 1, 1], "mean_concentration_prior": 1.0, "max_iter": 2}
    assert fit(root="random", **forest).mean_concentration_ == 1.0
    assert fit(root="point", **forest).mean_concentration_ != 1.0
    single = {"parents": [-1, 0, 0], "mean_concentration_prior": 1.0, "max_iter": 2}
    assert fit(root="point", **single).mean_concentration_ == 1.0


def test_shared_groups_have_one_prior():
    estimator = fit(groups="shared")
    assert estimator.log_concentration_mean_ == estimator.inner_log_concentration_mean_
    assert estimator.log_concentration_variance_ == estimator.inner_log_concentration_variance_
    given = fit(groups="shared", log_concentration_mean_prior=2.0, empirical_bayes=False)
    assert given.log_concentration_mean_ == given.inner_log_concentration_mean_ == 2.0


@pytest.mark.parametrize("law", ["monte_carlo", "log_normal"])
def test_other_laws_of_concentrations(law, fitted):
    estimator = fit(concentration_posterior=law, init=fitted.means_)
    np.testing.assert_allclose(estimator.concentrations_, fitted.concentrations_, rtol=0.05)
    assert np.all(np.isfinite(estimator.score_samples(ROWS)))


def test_any_tree(uneven):
    assert uneven.means_.shape == (5, 8)
    assert uneven.inner_means_.shape == (3, 8)
    assert uneven.leaves_.tolist() == [2, 4, 5, 6, 7]
    forest = fit(parents=[-1, -1, 0, 0], root="point")
    assert forest.means_.shape == (3, 8)
    single = fit(parents=[-1, 0, 1, 1])  # a node with one child
    assert single.inner_means_.shape == (2, 8)
    alone = fit(parents=[-1])
    assert alone.means_.shape == (1, 8)
    assert alone.inner_means_.shape == (0, 8)


def test_restarts_keep_the_best():
    one = [fit(n_init=1, random_state=seed, height=2, branching=3).lower_bound_ for seed in (0,)]
    assert fit(n_init=3, random_state=0, height=2, branching=3).lower_bound_ >= one[0]


def test_events(fitted):
    seen = []
    fit(callbacks=seen.append, init=fitted.means_, max_iter=2)
    assert [event.kind for event in seen] == ["start", "step", "step", "end"]
    assert all(event.model == "HierarchicalVonMisesFisherMixture" for event in seen)


def test_clones_and_pickles(fitted):
    assert clone(fitted).get_params() == fitted.get_params()
    other = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(other.predict_proba(ROWS), fitted.predict_proba(ROWS))
    assert other.to_json() == fitted.to_json()


# --------------------------------------------------------------------------------------------------- predictions


def test_levels(fitted, uneven):
    shares = fitted.predict_proba(ROWS)
    np.testing.assert_allclose(shares.sum(axis=1), 1.0)
    np.testing.assert_array_equal(fitted.level_nodes(0), [0])
    np.testing.assert_array_equal(fitted.level_nodes(1), [1, 2])
    np.testing.assert_array_equal(fitted.level_nodes(2), [3, 4, 5, 6])
    assert np.all(fitted.predict(ROWS, level=0) == 0)
    np.testing.assert_array_equal(fitted.predict(ROWS, level=2), fitted.leaves_[fitted.predict(ROWS)])
    by_branch = fitted.predict_proba(ROWS, level=1)
    np.testing.assert_allclose(by_branch, np.stack([shares[:, :2].sum(axis=1), shares[:, 2:].sum(axis=1)], axis=1))
    at_one = fitted.predict(ROWS, level=1)
    assert at_one.dtype == np.int32
    np.testing.assert_array_equal(at_one, np.array([1, 2])[by_branch.argmax(axis=1)])
    # leaves that end above a level stay what they are
    np.testing.assert_array_equal(uneven.level_nodes(2), [2, 3, 4, 5])
    assert uneven.predict_proba(ROWS, level=2).shape == (300, 4)
    assert set(uneven.predict(ROWS, level=1)) <= {1, 2}


def test_a_row_can_belong_to_a_branch_whose_leaves_all_lose():
    # three leaves of one branch share a row that a single leaf of the other has most of
    estimator = fit(parents=[-1, 0, 0, 1, 1, 1, 2], max_iter=1)
    shares = estimator.predict_proba(ROWS)
    expected = np.where(shares[:, :3].sum(axis=1) > shares[:, 3], 1, 2)
    np.testing.assert_array_equal(estimator.predict(ROWS, level=1), expected)


def test_one_row_alone_gets_the_same_answers(fitted):
    for level in (None, 0, 1, 2):
        alone = [fitted.predict(ROWS[row : row + 1], level=level).item() for row in range(20)]
        assert alone == fitted.predict(ROWS, level=level)[:20].tolist()


@pytest.mark.parametrize("inference", ["messages", "factorised"])
@pytest.mark.parametrize("density", ["full", "plugin"])
def test_densities_integrate_to_one(inference, density):
    rows = make_vmf_tree(60, 2, 2, 2, concentration=20.0, inner_concentration=5.0, random_state=0)[0]
    estimator = quiet(model(inference=inference, max_iter=3).fit, rows)
    angles = np.linspace(0.0, 2.0 * math.pi, 4000, endpoint=False)
    circle = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    density_there = np.exp(estimator.score_samples(circle, density=density))
    assert density_there.mean() * 2.0 * math.pi == pytest.approx(1.0, rel=1e-5)


def test_scores_and_samples(fitted):
    each = fitted.score_samples(ROWS)
    weights = np.arange(300.0)
    assert fitted.score(ROWS) == pytest.approx(each.mean())
    assert fitted.score(ROWS, sample_weight=weights) == pytest.approx(np.average(each, weights=weights))
    assert fitted.score(ROWS) > -log_area(8) + 3.0
    rows, components = fitted.sample(500, random_state=0)
    assert rows.shape == (500, 8)
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1.0, atol=1e-12)
    # new rows of the model score like its training rows
    assert abs(fitted.score(rows) - fitted.score(ROWS)) < 5.0 * each.std() / math.sqrt(300.0)
    assert np.mean(fitted.predict(rows) == components) > 0.95


def test_dense_and_sparse_answers(fitted):
    sparse = sp.csr_array(ROWS)
    np.testing.assert_allclose(fitted.score_samples(sparse), fitted.score_samples(ROWS), rtol=1e-12)
    np.testing.assert_array_equal(fitted.nearest_rows(sparse, 3), fitted.nearest_rows(ROWS, 3))
    np.testing.assert_array_equal(fitted.predict(sparse, level=1), fitted.predict(ROWS, level=1))


# ----------------------------------------------------------------------------------------------- views of the tree


def test_nodes(uneven):
    nodes = uneven.tree_
    assert [node.number for node in nodes] == list(range(8))
    assert nodes[0].parent is None
    assert nodes[6].parent == 3
    assert nodes[1].children == (3, 4, 5)
    assert nodes[6].path == (0, 1, 3, 6)
    assert [node.level for node in nodes] == [0, 1, 1, 2, 2, 2, 3, 3]
    assert [node.component for node in nodes] == [None, None, 0, None, 1, 2, 3, 4]
    assert nodes[0].weight == pytest.approx(1.0)
    assert nodes[0].count == pytest.approx(300.0)
    assert nodes[3].count == pytest.approx(uneven.counts_[3] + uneven.counts_[4])
    np.testing.assert_array_equal(nodes[4].direction, uneven.means_[1])
    assert nodes[4].concentration == uneven.concentrations_[1]
    assert nodes[3].concentration == uneven.inner_concentrations_[2]
    assert repr(nodes[1]).startswith("TreeNode(1, level 1, 3 children, count ")
    assert repr(nodes[2]).startswith("TreeNode(2, level 1, component 0, count ")


def test_children_are_numbered_as_in_scikit_learn(fitted, uneven):
    assert fitted.children_.shape == (3, 2)
    n_leaves = 4
    # scikit-learn's own recipe for a dendrogram counts the samples below each merge
    counts = np.zeros(len(fitted.children_))
    for i, merge in enumerate(fitted.children_):
        counts[i] = sum(1 if child < n_leaves else counts[child - n_leaves] for child in merge)
    assert counts.tolist() == [2.0, 2.0, 4.0]
    assert sorted(fitted.children_[2].tolist()) == [4, 5]
    assert uneven.children_.tolist() == [[3, 4, -1], [5, 1, 2], [6, 0, -1]]


def test_newick(fitted, uneven):
    text = fitted.to_newick()
    assert re.sub(r":[0-9.e+-]+", "", text) == "((3,4)1,(5,6)2)0;"
    lengths = dict(re.findall(r"(\d+):([0-9.e+-]+)", text))
    angle = math.acos(float(fitted.means_[0] @ fitted.inner_means_[1]))
    assert float(lengths["3"]) == pytest.approx(angle, rel=1e-5)
    assert "0" not in lengths
    assert re.sub(r":[0-9.e+-]+", "", uneven.to_newick()) == "(((6,7)3,4,5)1,2)0;"
    names = ["root", "it's", "two words", "a", "b", "c", "d_1"]
    assert re.sub(r":[0-9.e+-]+", "", fitted.to_newick(names)) == "((a,b)'it''s',(c,d_1)'two words')root;"
    point = fit(root="point", max_iter=3)
    assert re.sub(r":[0-9.e+-]+", "", point.to_newick()) == "((2,3)0,(4,5)1);"
    assert len(re.findall(":", point.to_newick())) == 6


def test_json(fitted):
    tree = json.loads(fitted.to_json(n_features=2, feature_names=list("abcdefgh"), directions=True, indent=1))
    (root,) = tree["children"]
    assert root["node"] == 0
    assert root["component"] is None
    assert root["count"] == pytest.approx(300.0)
    leaf = root["children"][1]["children"][0]
    assert (leaf["node"], leaf["component"], leaf["level"], leaf["children"]) == (5, 2, 2, [])
    assert leaf["direction"] == fitted.means_[2].tolist()
    assert leaf["top_features"] == fitted.top_features(2, list("abcdefgh"))[5].tolist()
    assert set(json.loads(fitted.to_json())["children"][0]) == {
        "node",
        "level",
        "component",
        "concentration",
        "weight",
        "count",
        "children",
    }


def test_top_features(fitted):
    top = fitted.top_features(3)
    assert top.shape == (7, 3)
    np.testing.assert_array_equal(top.astype(int), np.argsort(-fitted.node_means_, axis=1)[:, :3])
    assert fitted.top_features(1, list("abcdefgh"))[4, 0] == "abcdefgh"[int(np.argmax(fitted.node_means_[4]))]
    apart = fitted.top_features(1, beside_parent=True)
    assert apart[4, 0] == np.argmax(fitted.node_means_[4] - fitted.node_means_[1])
    assert apart[0, 0] == np.argmax(fitted.node_means_[0])
    named = quiet(model(max_iter=2).fit, pd.DataFrame(ROWS, columns=list("abcdefgh")))
    assert set(named.top_features(8)[0]) == set("abcdefgh")


def test_nearest_rows(fitted):
    rows = make_vmf_tree(5000, 8, random_state=1)[0]  # several blocks
    expected = np.argsort(-(fitted.node_means_ @ rows.T), axis=1, kind="stable")[:, :4]
    np.testing.assert_array_equal(fitted.nearest_rows(rows, 4), expected)


# --------------------------------------------------------------------------------------------------------- files


@pytest.mark.parametrize(
    "parameters",
    [{}, {"parents": np.array(UNEVEN)}, {"height": 1, "root": "point", "inference": "factorised"}],
    ids=["balanced", "uneven", "flat"],
)
def test_a_loaded_model_answers_with_equal_bits(tmp_path, parameters):
    estimator = quiet(
        model(max_iter=2, **parameters).fit, pd.DataFrame(ROWS, columns=list("abcdefgh")), sample_weight=1.0 + LABELS
    )
    path = tmp_path / "model.safetensors"
    save(estimator, path)
    loaded = load(path)
    assert fitted_attributes(loaded).keys() == fitted_attributes(estimator).keys()
    given = pd.DataFrame(ROWS, columns=list("abcdefgh"))
    for method in ("predict", "predict_proba", "score_samples"):
        np.testing.assert_array_equal(getattr(loaded, method)(given), getattr(estimator, method)(given))
    assert loaded.to_json(n_features=2) == estimator.to_json(n_features=2)
    assert loaded.to_newick() == estimator.to_newick()
    np.testing.assert_array_equal(loaded.children_, estimator.children_)


def test_fields_that_do_not_fit_together_are_not_saved(tmp_path, fitted):
    other = pickle.loads(pickle.dumps(fitted))
    other.inner_means_ = other.inner_means_[:, :3]
    with pytest.raises(
        ArchiveError, match="`inner_means_` of HierarchicalVonMisesFisherMixture must be float64 of shape"
    ):
        save(other, tmp_path / "model.safetensors")
