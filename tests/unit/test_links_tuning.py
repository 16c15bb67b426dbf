"""Tuning of Links: what is counted as what, where a search begins, the table and its picture, presets, examples."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from armillary import LINK_PRESETS, Links, tune_links
from armillary.datasets import make_vmf_mixture
from armillary.exceptions import InputError, ParameterError
from armillary.metrics import matched_accuracy_score
from armillary.selection.link_tuning import Position, wrong_shares

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture(scope="module")
def labelled():
    rows, labels, _ = make_vmf_mixture(250, 32, 5, concentration=45.0, min_angle=1.0, random_state=0)
    return rows, labels


@pytest.fixture(scope="module")
def table(labelled):
    return tune_links(*labelled)


def test_errors_are_of_two_kinds_and_add_up_to_the_matched_accuracy():
    generator = np.random.default_rng(0)
    for _ in range(50):
        codes, ids = generator.integers(0, 5, 60), generator.integers(0, int(generator.integers(1, 9)), 60)
        codes[:5] = np.arange(5)
        conflated, fractured = wrong_shares(codes, ids)
        assert 1.0 - conflated - fractured == pytest.approx(matched_accuracy_score(codes, ids))


def test_a_surplus_id_fractures_and_a_shared_id_conflates():
    assert wrong_shares(np.array([0, 0, 0, 0]), np.array([0, 0, 0, 1])) == (0.0, 0.25)
    assert wrong_shares(np.array([0, 0, 0, 1]), np.array([0, 0, 0, 0])) == (0.25, 0.0)
    # the id 2 has one of each label: it is matched with none
    assert wrong_shares(np.array([0, 0, 1, 1, 0, 1]), np.array([0, 0, 1, 1, 2, 2])) == (0.0, 2 / 6)


def test_positions_give_thresholds_in_their_ranges():
    generator = np.random.default_rng(1)
    for _ in range(200):
        position = Position(0.5, 0.5, 0.5)
        for axis in range(3):
            position = position.moved(axis, generator.normal())
        found = position.thresholds()
        assert 0.0 < found.cluster < 1.0
        assert found.least_cosine <= found.pair + 1e-12 <= 1.0 + 2e-12
        assert found.single_limit <= found.subcluster + 1e-12 <= 1.0 + 2e-12


def test_the_best_setting_does_what_the_table_says(labelled, table):
    rows, labels = labelled
    best = table.best
    model = table.model().fit(rows)
    assert best.accuracy == pytest.approx(matched_accuracy_score(labels, model.labels_))
    assert best.accuracy >= 0.97
    assert (best.n_ids, best.n_subclusters) == (model.next_id_, model.n_subclusters_)
    assert best.cost == min(one.cost for one in table.outcomes)
    assert table.model(max_idle=7).max_idle == 7


def test_costs_move_the_balance(labelled):
    rows, labels = labelled
    noisy = rows + 0.12 * np.random.default_rng(0).normal(size=rows.shape)
    careful = tune_links(noisy, labels, conflation_cost=20.0).best
    bold = tune_links(noisy, labels, fracture_cost=20.0).best
    assert careful.conflated <= bold.conflated
    assert careful.fractured >= bold.fractured
    assert careful.n_ids > bold.n_ids


def test_orders_are_averaged(labelled):
    rows, labels = labelled
    orders = [np.random.default_rng(seed).permutation(len(rows)) for seed in range(2)]
    best = tune_links(rows, labels, orders=orders, max_rounds=1).best
    found = [matched_accuracy_score(labels[one], Links(*best[:3]).fit(rows[one]).labels_) for one in orders]
    assert best.accuracy == pytest.approx(np.mean(found))


def test_tuning_repeats_and_tells_its_steps(labelled, table):
    seen = []
    again = tune_links(*labelled, callbacks=seen.append)
    assert again == table
    assert [event.kind for event in seen][:2] == ["start", "step"]
    assert len(seen) == len(table.outcomes) + 2
    assert -min(one.cost for one in table.outcomes) == max(event.objective for event in seen[1:])


def test_the_table_prints_its_best_lines(table):
    lines = str(table).splitlines()
    assert lines[0].startswith("250 vectors, 5 labels; pairs balance at a cosine of 0.")
    assert len(lines) == 12
    assert f"{table.best.accuracy:.4f}" in lines[2]


@pytest.mark.parametrize(
    ("arguments", "error", "sentence"),
    [
        ({"labels": [0, 1]}, InputError, "`labels` of tune_links must have one entry for each of the 250 vectors"),
        ({"labels": np.zeros(250)}, InputError, "pairs with two; got none with two"),
        ({"labels": np.arange(250)}, InputError, "got none with one"),
        ({"orders": [[0, 1]]}, InputError, "`orders` of tune_links must have the numbers 0 to 249 in each line"),
        ({"conflation_cost": 0.0}, ParameterError, "`conflation_cost` of tune_links must be a number in"),
        ({"max_rounds": 0}, ParameterError, "`max_rounds` of tune_links must be an int >= 1"),
    ],
)
def test_what_cannot_be_tuned_on_gets_a_sentence(labelled, arguments, error, sentence):
    rows, labels = labelled
    with pytest.raises(error) as caught:
        tune_links(rows, **{"labels": labels, **arguments})
    assert sentence in str(caught.value)


def test_presets_are_thresholds_that_work_without_a_word():
    for preset in LINK_PRESETS.values():
        model = preset.model(max_idle=3)
        assert (model.cluster_similarity_threshold, model.max_idle) == (preset[0], 3)
        model.fit(np.eye(3))  # a warning would be an error
        assert any(character.isdigit() for character in preset.measured)


def test_the_picture_shows_every_setting_and_rings_the_best(table):
    pytest.importorskip("matplotlib")
    from matplotlib.figure import Figure

    from armillary.plots import plot_links_table

    ax = plot_links_table(table)
    points, ring = ax.collections[:2]
    assert len(points.get_offsets()) == len(table.outcomes)
    np.testing.assert_allclose(ring.get_offsets()[0], [table.best.conflated, table.best.fractured])
    assert f"accuracy {table.best.accuracy:.3f}" in ax.texts[0].get_text()
    own = Figure().add_subplot()
    assert plot_links_table(table, ax=own) is own


def loaded(name):
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_topics_example_finds_its_topics(capsys):
    words = loaded("links_topics").main()
    assert "match" in words[0]
    assert "bank" in words[1]
    assert "comet" in words[2]
    assert "Tuesday: [1, 0, 2, 2]" in capsys.readouterr().out


def test_the_stream_example_hears_three_voices(capsys):
    module = loaded("links_stream")
    assert module.main().n_clusters_ == 3
    assert capsys.readouterr().out.count("a new voice") == 3
    adapter = module.FromFeatures(Links())
    adapter.learn_one({"a": 1.0, "b": 0.0})
    assert adapter.predict_one({"b": 0.0, "a": 2.0}) == 0
    with pytest.raises(ValueError, match="must have the features"):
        adapter.learn_one({"a": 1.0})
