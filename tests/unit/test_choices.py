"""Everything that chooses gives back the same shape: a model, a table, the best line of it, and why."""

from __future__ import annotations

import numpy as np
import pytest

from armillary import choose_model, find_max_angle, select_max_angle
from armillary.datasets import make_vmf_mixture
from armillary.selection.choice import Choice

X = make_vmf_mixture(300, 3, 4, concentration=200.0, min_angle=1.0, random_state=0)[0]
EVEN = np.random.default_rng(0).standard_normal((40, 5))
CHOICES = {
    "choose_model": lambda: choose_model(X, n_threads=1),
    "choose_model, nothing clear": lambda: choose_model(EVEN, n_threads=1),
    "select_max_angle": lambda: select_max_angle(X, [0.2, 0.5, 1.5], n_threads=1),
    "select_max_angle, one angle": lambda: select_max_angle(X, [0.5], n_threads=1),
    "find_max_angle": lambda: find_max_angle(X, 4, n_threads=1),
}


@pytest.mark.parametrize("name", CHOICES)
def test_one_shape(name):
    choice = CHOICES[name]()
    assert isinstance(choice, Choice)
    table = choice.table
    assert [line["is_chosen"] for line in table] == [number == choice.best for number in range(len(table))]
    assert type(choice.best) is int
    line = table[choice.best]
    assert line["n_clusters"] == choice.model.n_clusters_
    assert isinstance(choice.criterion, str)
    assert choice.reason.endswith(".")
    assert choice.criterion.split(" ")[0] in choice.reason.lower() or "clear" in name or "find" in name
    if "score" in line:
        assert line["score"] == max(other["score"] for other in table) or "within one standard error" in choice.reason
    for other in table:  # plain values, for JSON
        assert {type(value) for value in other.values()} <= {str, int, float, bool}
        assert other.keys() == line.keys()


def test_the_reason_of_an_angle_says_where_it_lies():
    table = select_max_angle(X, [0.2, 0.5, 1.5], n_threads=1)
    silhouette = table.silhouettes[1]
    assert table.reason == (
        f"The angle, 28.65 degrees, has the best mean silhouette ({silhouette:.3f}) of 3 between 11.46 and 85.94."
    )
    ended = select_max_angle(X, [0.5, 1.5], n_threads=1)
    assert ended.end
    assert ended.reason.endswith(ended.end)
