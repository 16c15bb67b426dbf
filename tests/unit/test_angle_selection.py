"""Choosing `max_angle`: farthest-first against a plain loop, the grid, the table, and the sentences of the errors."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest
import scipy.sparse as sp

import armillary
from armillary.datasets import make_vmf_mixture
from armillary.engines.cpu import Passes
from armillary.exceptions import InputError, ParameterError
from armillary.fitting.initialization import farthest_first
from armillary.kernels.select import kernels_for
from armillary.metrics import cosine_silhouette_score
from armillary.models.means.dp_vmf_means import DPvMFMeans
from armillary.points import as_points
from armillary.selection.angle_selection import AngleTable, select_max_angle, suggest_max_angle
from armillary.workers import Workers


def at_degrees(*degrees):
    angles = np.radians(degrees)
    return np.column_stack([np.cos(angles), np.sin(angles)])


def directions(n_rows, n_features, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((4, n_features))[rng.integers(0, 4, n_rows)] + rng.standard_normal((n_rows, n_features))
    return X / np.linalg.norm(X, axis=1, keepdims=True)


def picks_of(X, n_picks, n_ignored=0, weights=None, n_threads=2):
    with Workers(n_threads) as workers:
        passes = Passes(as_points(X, "test", weights), kernels_for("cpu"), workers)
        return farthest_first(passes, n_picks, n_ignored=n_ignored)


def by_hand(X, n_picks, n_ignored=0):
    """All similarities to all that was taken, anew for every pick."""
    total = X.sum(axis=0)
    taken = [total / np.linalg.norm(total)]
    picks, angles = [], []
    for _ in range(n_picks):
        best = (X @ np.array(taken).T).max(axis=1)
        row = np.argsort(best, kind="stable")[n_ignored]
        picks.append(int(row))
        angles.append(math.acos(best[row]))
        taken.append(X[row])
    return picks, angles


def mixture_of(seed):
    return mixture(seed=seed)


def mixture(n_rows=600, seed=0):
    """Five clusters, well apart."""
    X, _, _ = make_vmf_mixture(n_rows, 3, 5, concentration=200.0, min_angle=0.8, random_state=seed)
    return X


# ------------------------------------------------------------------------------------------------- farthest-first


@pytest.mark.parametrize(("n_rows", "n_features"), [(5, 2), (200, 3), (400, 16), (400, 40)])
@pytest.mark.parametrize("share", [0.0, 0.05, 0.5])
@pytest.mark.parametrize("make", [np.asarray, sp.csr_array], ids=["dense", "csr"])
def test_farthest_first_is_the_plain_loop(n_rows, n_features, share, make):
    X = directions(n_rows, n_features)
    n_ignored = int(share * n_rows)
    n_picks = min(12, n_rows - n_ignored)
    picks, angles = picks_of(make(X), n_picks, n_ignored)
    expected_picks, expected_angles = by_hand(X, n_picks, n_ignored)
    if n_rows > 5:  # where no row has run out, and ties at distance 0 do not decide
        assert picks.tolist() == expected_picks
    np.testing.assert_allclose(angles, expected_angles, rtol=0, atol=2e-8)
    assert (np.diff(angles) <= 1e-12).all()


def test_exact_angles():
    # the mean direction is at 0 degrees; then come 90, -90, and 30, which is 30 from the mean
    X = at_degrees(90, -90, 30, -30, 0)
    picks, angles = picks_of(X, 5)
    assert picks[:4].tolist() == [0, 1, 2, 3]  # then all rows have been taken
    np.testing.assert_allclose(np.degrees(angles), [90, 90, 30, 30, 0], rtol=0, atol=1e-13)


def test_ignored_rows_are_the_farthest_at_each_pick():
    X = at_degrees(0, 0, 5, -5, 60, -60)
    for n_ignored, expected in ((0, [60, 60]), (1, [60, 5]), (2, [5, 5]), (4, [0, 0])):
        _, angles = picks_of(X, 2, n_ignored)
        np.testing.assert_allclose(np.degrees(angles), expected, rtol=0, atol=1e-6)


def test_rows_that_cancel_start_from_the_first_row():
    X = at_degrees(10, 100, 190, 280)
    picks, angles = picks_of(X, 2)
    assert picks[0] == 2
    np.testing.assert_allclose(np.degrees(angles), [180, 90], rtol=0, atol=1e-6)


def test_small_angles_keep_their_digits():
    # arccos of a float64 cosine knows nothing below 1.5e-8 radians, and little at 1e-6
    X = np.array([[1.0, 3e-6], [1.0, -3e-6]])
    _, angles = picks_of(X, 1)
    assert angles[0] == pytest.approx(3e-6, rel=1e-9)


def test_the_mean_direction_is_weighted():
    X = at_degrees(0, 90)
    _, angles = picks_of(X, 1, weights=[3.0, 1.0])
    assert angles[0] == pytest.approx(math.atan2(3.0, 1.0))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("n_rows", "n_features"), [(70_000, 3), (9000, 40)])
def test_picks_are_equal_bits_on_any_threads_dense_or_csr(dtype, n_rows, n_features):
    X = directions(n_rows, n_features).astype(dtype)
    picks, angles = picks_of(X, 8, n_ignored=5, n_threads=1)
    for other in (X, sp.csr_array(X)):
        again, angles_again = picks_of(other, 8, n_ignored=5, n_threads=3)
        assert np.array_equal(picks, again)
        # the sum of all rows, and with it the mean direction, is added up in another order
        np.testing.assert_allclose(angles_again, angles, rtol=1e-12 if other is not X else 0)


# ----------------------------------------------------------------------------------------------- suggest_max_angle


def test_suggestion_is_the_last_angle():
    X = directions(300, 5)
    for n_clusters in (1, 2, 7):
        assert suggest_max_angle(X, n_clusters) == pytest.approx(by_hand(X, n_clusters)[1][-1], abs=1e-9)
    ignored = suggest_max_angle(X, 7, ignore_fraction=0.1)
    assert ignored == pytest.approx(by_hand(X, 7, n_ignored=30)[1][-1], abs=1e-9)
    assert isinstance(ignored, float)


def test_a_share_of_rows_is_not_lost_to_rounding():
    X = directions(100, 5)
    assert 0.29 * 100 < 29
    assert suggest_max_angle(X, 3, ignore_fraction=0.29) == picks_of(X, 3, n_ignored=29)[1][-1]


def test_suggestion_finds_about_that_many_clusters():
    # a suggestion, not a promise: the mean direction stands among the rows that were taken, and rows are taken at the
    # far edges of clusters
    found = [DPvMFMeans(suggest_max_angle(X, 5)).fit(X).n_clusters_ for X in map(mixture_of, range(8))]
    assert np.abs(np.array(found) - 5).max() <= 1
    assert found.count(5) >= 6


def test_a_few_outliers_spoil_the_suggestion_unless_they_are_ignored():
    X = mixture()
    # copies of one outlier would be one cluster; these are apart, and count as clusters themselves
    outliers = np.random.default_rng(1).standard_normal((6, 3))
    spoilt = np.vstack([X, outliers])
    angle = suggest_max_angle(X, 5)
    assert suggest_max_angle(spoilt, 5) > 1.2 * angle
    assert suggest_max_angle(spoilt, 5, ignore_fraction=0.01) < 1.1 * angle


def test_lengths_of_rows_do_not_matter():
    X = directions(100, 5)
    assert suggest_max_angle(X * np.arange(1, 101)[:, None], 4) == pytest.approx(suggest_max_angle(X, 4), rel=1e-12)


class TestSuggestErrors:
    @pytest.mark.parametrize("n_clusters", [0, -1, 2.0, True, "5", None])
    def test_number_of_clusters(self, n_clusters):
        with pytest.raises(ParameterError) as caught:
            suggest_max_angle(at_degrees(0, 10), n_clusters)
        assert str(caught.value) == f"`n_clusters` of suggest_max_angle must be an int >= 1; got {n_clusters!r}."

    def test_more_clusters_than_rows(self):
        with pytest.raises(InputError) as caught:
            suggest_max_angle(at_degrees(0, 10), 3)
        assert str(caught.value) == (
            "`n_clusters` of suggest_max_angle must not exceed the number of rows; got n_clusters=3 for 2 of 2 rows. "
            "Lower n_clusters or give more rows."
        )

    def test_more_clusters_than_rows_that_count(self):
        with pytest.raises(InputError, match="rows that are not ignored; got n_clusters=3 for 2 of 4 rows"):
            suggest_max_angle(at_degrees(0, 10, 20, 30), 3, ignore_fraction=0.5)

    @pytest.mark.parametrize("fraction", [-0.1, 1.5, math.nan, "1%", None])
    def test_fraction(self, fraction):
        with pytest.raises(ParameterError) as caught:
            suggest_max_angle(at_degrees(0, 10), 1, ignore_fraction=fraction)
        assert str(caught.value) == (
            f"`ignore_fraction` of suggest_max_angle must be a number in [0, 1]; got {fraction!r}. "
            "It is the share of rows that may be outliers, e.g. 0.01."
        )

    def test_nothing_left(self):
        with pytest.raises(ParameterError, match=r"must leave a row; got 1\.0, which is all 2 rows\. It is the share"):
            suggest_max_angle(at_degrees(0, 10), 1, ignore_fraction=1.0)

    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    @pytest.mark.parametrize(("X", "n_clusters", "n_apart"), [
        (np.tile([[0.6, 0.8]], (5, 1)), 1, 0),  # copies
        (np.array([[0.6, 0.8]]), 1, 0),  # one row
        (at_degrees(0, 90, 0, 90, 0), 4, 2),
        (at_degrees(-40, 0, 40), 3, 2),  # the last row is the mean direction
    ])  # fmt: skip
    def test_rows_that_do_not_lie_apart(self, X, n_clusters, n_apart, dtype):
        with pytest.raises(InputError) as caught:
            suggest_max_angle(X.astype(dtype), n_clusters)
        assert str(caught.value) == (
            "`n_clusters` of suggest_max_angle must not exceed the number of rows that lie apart; got "
            f"n_clusters={n_clusters}, but after {n_apart} picks every row lies next to the mean direction or a row "
            "that was taken. Lower n_clusters, or choose max_angle by hand."
        )

    def test_rows_and_threads_are_checked(self):
        with pytest.raises(InputError, match="Row 1 of X has norm 0 and no direction; suggest_max_angle"):
            suggest_max_angle([[1.0, 0.0], [0.0, 0.0]], 1)
        with pytest.raises(ParameterError, match="`n_threads` of suggest_max_angle must be an int from 1 to 4096"):
            suggest_max_angle(at_degrees(0, 10), 1, n_threads=0)


# ------------------------------------------------------------------------------------------------ select_max_angle


def test_each_row_of_the_table_is_a_fit():
    X = mixture()
    given = [1.5, 0.2, 0.5, 0.2]
    table = select_max_angle(X, given, random_state=0, n_init=2)
    assert table.max_angles.tolist() == [0.2, 0.5, 1.5]
    for number, angle in enumerate(table.max_angles):
        model = DPvMFMeans(angle, random_state=0, n_init=2).fit(X)
        assert table.n_clusters[number] == model.n_clusters_
        assert table.objectives[number] == model.objective_
        assert table.n_sweeps[number] == model.n_iter_
        # the table's mean is a whole sum: the silhouette of each row is rounded to a unit of 2^-q first
        assert table.silhouettes[number] == pytest.approx(cosine_silhouette_score(X, model.labels_), abs=1e-13)
    assert table.best == 1
    assert table.max_angle == 0.5
    assert table.model.max_angle == 0.5
    assert table.model.n_clusters_ == 5
    assert np.array_equal(table.model.labels_, table.model.predict(X))


def test_parameters_reach_the_fits():
    X = mixture()
    table = select_max_angle(X, [0.1], max_iter=77, tol=1e-3, n_init=2, max_clusters=7, consolidate=True, n_threads=1)
    parameters = table.model.get_params()
    wanted = {"max_angle": 0.1, "max_iter": 77, "tol": 1e-3, "n_init": 2, "max_clusters": 7, "consolidate": True}
    assert wanted.items() <= parameters.items()
    assert parameters["n_threads"] == 1
    assert table.n_clusters[0] <= 7


@pytest.mark.parametrize("seed", range(3))
def test_the_grid_holds_the_right_angle(seed):
    X, truth, _ = make_vmf_mixture(2000, 3, 12, concentration=325.0, min_angle=0.45, random_state=seed)
    table = select_max_angle(X)
    assert len(table.max_angles) == 20
    assert table.model.n_clusters_ == 12
    assert table.silhouettes[table.best] == pytest.approx(cosine_silhouette_score(X, truth), abs=0.01)


def test_the_grid_goes_from_many_clusters_to_one():
    X = mixture(900)
    table = select_max_angle(X)
    angles = picks_of(X, 30, n_ignored=9)[1]
    assert table.max_angles[0] == pytest.approx(angles[29], rel=1e-12)
    assert table.max_angles[-1] == pytest.approx(angles[0], rel=1e-12)
    ratios = table.max_angles[1:] / table.max_angles[:-1]
    np.testing.assert_allclose(ratios, ratios[0], rtol=1e-12)
    assert ratios[0] > 1.0
    capped = select_max_angle(X, max_clusters=8)
    assert capped.max_angles[0] == pytest.approx(angles[7], rel=1e-12)
    assert capped.n_clusters.max() <= 8


def test_the_grid_has_no_needless_angles():
    # orthogonal rows all lie at one angle from their mean
    table = select_max_angle(np.eye(4))
    np.testing.assert_allclose(table.max_angles, [math.pi / 3], rtol=1e-12)
    assert table.silhouettes.tolist() == [0.0]


def test_few_rows():
    X = np.repeat(np.eye(4), 5, axis=0) + 0.05 * np.random.default_rng(0).standard_normal((20, 4))
    assert select_max_angle(X).model.n_clusters_ == 4


def test_sparse_equals_dense():
    rng = np.random.default_rng(0)
    X = np.eye(30)[:6][rng.integers(0, 6, 400)] + 0.3 * rng.standard_normal((400, 30)) * (rng.random((400, 30)) < 0.2)
    dense, sparse = select_max_angle(X, [0.3, 0.8, 1.2]), select_max_angle(sp.csr_array(X), [0.3, 0.8, 1.2])
    assert np.array_equal(dense.n_clusters, sparse.n_clusters)
    assert np.array_equal(dense.model.labels_, sparse.model.labels_)
    np.testing.assert_allclose(dense.silhouettes, sparse.silhouettes, rtol=0, atol=1e-13)


def test_threads_give_equal_bits():
    X = mixture(40_000)
    one, two = (select_max_angle(X, [0.3, 0.5], n_threads=n_threads) for n_threads in (1, 2))
    for name in ("max_angles", "n_clusters", "silhouettes", "objectives", "n_sweeps"):
        assert np.array_equal(getattr(one, name), getattr(two, name))
    assert np.array_equal(one.model.labels_, two.model.labels_)


def test_whole_weights_are_copies():
    X = mixture(300)
    weights = np.random.default_rng(0).integers(0, 3, 300)
    weighted = select_max_angle(X, [0.3, 0.5, 1.0], sample_weight=weights)
    copied = select_max_angle(np.repeat(X, weights, axis=0), [0.3, 0.5, 1.0])
    assert np.array_equal(weighted.n_clusters, copied.n_clusters)
    np.testing.assert_allclose(weighted.silhouettes, copied.silhouettes, rtol=0, atol=1e-12)


def test_rows_of_weight_zero_do_not_widen_the_grid():
    X = mixture(300)
    far = np.vstack([X, -X.sum(axis=0)])
    weights = np.ones(301)
    weights[-1] = 0.0
    expected = select_max_angle(X, max_clusters=5)
    assert select_max_angle(far, max_clusters=5, sample_weight=weights).max_angles == pytest.approx(
        expected.max_angles, rel=1e-12
    )


def test_callbacks_hear_of_every_angle():
    seen = []
    table = select_max_angle(mixture(), [0.2, 0.5, 1.5], callbacks=seen.append)
    assert [event.kind for event in seen] == ["start", "step", "step", "step", "end"]
    assert {(event.model, event.n_rows, event.n_restarts, event.max_steps) for event in seen} == {
        ("select_max_angle", 600, 1, 3)
    }
    assert [event.step for event in seen[1:4]] == [1, 2, 3]
    assert [event.n_clusters for event in seen[1:4]] == table.n_clusters.tolist()
    assert [event.objective for event in seen[1:4]] == table.silhouettes.tolist()
    last = seen[-1]
    assert (last.step, last.n_clusters, last.objective) == (2, 5, table.silhouettes[1])


def test_verbose_shows_one_bar(capsys):
    select_max_angle(mixture(), [0.2, 0.5, 1.5], verbose=1)
    said = capsys.readouterr()
    assert said.out == ""
    assert re.fullmatch(r"select_max_angle  600 rows  5 clusters  objective 0\.9\d+  step 2  .* s\n", said.err)


class TestSelectErrors:
    @pytest.mark.parametrize("angles", [[], 0.5, "0.5", [[0.1, 0.2]], np.empty(0)])
    def test_angles_that_are_no_list(self, angles):
        with pytest.raises(ParameterError) as caught:
            select_max_angle(at_degrees(0, 10), angles)
        assert str(caught.value) == (
            f"`angles` of select_max_angle must be None or a list of angles in (0, pi]; got {angles!r}. "
            "Give radians, e.g. numpy.radians([10, 20, 30])."
        )

    def test_degrees(self):
        with pytest.raises(ParameterError) as caught:
            select_max_angle(at_degrees(0, 10), [0.1, 95.0])
        assert str(caught.value) == (
            "`angles[1]` of select_max_angle must be a number in (0, pi]; got 95.0. "
            "Angles are in radians: math.radians(95) is 1.658."
        )

    @pytest.mark.parametrize("X", [np.tile([[0.6, 0.8]], (5, 1)), np.array([[0.6, 0.8]])], ids=["copies", "one row"])
    def test_rows_of_one_direction(self, X):
        with pytest.raises(InputError) as caught:
            select_max_angle(X)
        assert str(caught.value) == (
            "X of select_max_angle must have rows that lie apart, for angles to be chosen by them; got "
            f"{len(X)} row(s) of one direction. Give `angles`."
        )
        table = select_max_angle(X, [0.1, 0.2, 0.3])
        assert table.n_clusters.tolist() == [1, 1, 1]
        assert table.silhouettes.tolist() == [0.0, 0.0, 0.0]

    def test_other_parameters(self):
        X = at_degrees(0, 10)
        with pytest.raises(ParameterError, match="`max_clusters` of select_max_angle must be an int >= 1; got 0"):
            select_max_angle(X, max_clusters=0)
        with pytest.raises(ParameterError, match="`verbose` of select_max_angle must be an int >= 0"):
            select_max_angle(X, verbose=-1)
        with pytest.raises(ParameterError, match="`callbacks` of select_max_angle must be None, a callable"):
            select_max_angle(X, callbacks=3)
        with pytest.raises(ParameterError, match="`n_init` of DPvMFMeans must be an int >= 1; got 0"):
            select_max_angle(X, [0.1], n_init=0)
        with pytest.raises(InputError, match="`sample_weight` of select_max_angle must have one number per row"):
            select_max_angle(X, sample_weight=[1.0])


# ------------------------------------------------------------------------------------------------------- the table


def table_of(silhouettes):
    silhouettes = np.array(silhouettes)
    m = len(silhouettes)
    return AngleTable(np.linspace(0.1, 1.0, m), np.arange(m, 0, -1), silhouettes, np.full(m, 90.5), np.full(m, 4), None)


@pytest.mark.parametrize(("silhouettes", "best"), [
    ([0.1, 0.9, 0.3], 1),
    ([0.0], 0),
    ([0.9, 0.9, 0.9, 0.1], 1),  # the middle of equals
    ([0.1, 0.9, 0.9, 0.1], 1),
    ([0.1, 0.9 - 1e-12, 0.9, 0.9 - 1e-12], 2),  # equal but for rounding
    ([0.1, 0.9 - 1e-6, 0.9 - 1e-6, 0.9], 3),
    ([-0.5, -0.2], 1),
])  # fmt: skip
def test_best(silhouettes, best):
    table = table_of(silhouettes)
    assert table.best == best
    assert table.max_angle == table.max_angles[best]


def test_the_model_is_that_of_the_best_angle_among_equals():
    table = select_max_angle(mixture(), [0.2, 0.5, 0.55, 0.6, 1.5])
    assert len({round(value, 12) for value in table.silhouettes[1:4]}) == 1
    assert table.max_angle == table.model.max_angle == 0.55


def test_the_table_in_words():
    table = AngleTable(
        np.radians([5.0, 20.0, 120.5]),
        np.array([1223, 30, 1]),
        np.array([0.41, 0.92345, -0.01]),
        np.array([2987.123, 29906.7, 1e7]),
        np.array([12, 3, 41]),
        None,
    )
    assert str(table) == (
        "   max_angle  clusters  silhouette     objective  sweeps\n"
        "       5 deg      1223      0.4100       2987.12      12\n"
        ">     20 deg        30      0.9234       29906.7       3\n"
        "   120.5 deg         1     -0.0100         1e+07      41"
    )


def test_public_names():
    assert armillary.suggest_max_angle is suggest_max_angle
    assert armillary.select_max_angle is select_max_angle
