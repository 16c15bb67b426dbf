"""Laws of passes, on every engine (engines/contract.py): one answer wherever the rows are and however they are cut."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
import scipy.sparse as sp
from tests.laws.engines import ENGINES, cut_at_random, in_any_order, one_piece
from tests.making import units

from armillary import BayesianVonMisesFisherMixture, VonMisesFisherMixture, open_rows, save
from armillary.engines.contract import Between, Counted, Labelled, Numbered, Outcome
from armillary.engines.partitioned import Partitioned
from armillary.fitting.initialization import plus_plus
from armillary.points import Points, SparseBlock, even_ranges
from armillary.rules import AffineRule
from armillary.sums import whole
from armillary.sums.directional import DirectionalStatistics

every_engine = pytest.mark.parametrize("name", list(ENGINES))
# narrow, narrow and long enough for lanes, wide, wide with many rows of CSR
CASES = {
    "narrow": (400, 3, np.float32, False),
    "lanes": (20_000, 3, np.float64, False),
    "wide": (300, 24, np.float32, False),
    "csr": (300, 40, np.float64, True),
}
every_case = pytest.mark.parametrize("case", list(CASES))
KEY = (31, 41)


def make(case, seed=0):
    n_rows, n_features, dtype, is_sparse = CASES[case]
    rng = np.random.default_rng([7, seed, n_rows, n_features])
    rows = rng.standard_normal((n_rows, n_features))
    if is_sparse:
        rows[rng.random(rows.shape) < 0.7] = 0.0
        rows[:, 0] += 0.1
    rows = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(dtype)
    return (sp.csr_array(rows) if is_sparse else rows), rng.gamma(1.0, size=n_rows), rng


def make_rule(rng, n_features, n_clusters=5, floor=-np.inf):
    directions = rng.standard_normal((n_clusters, n_features))
    return AffineRule.cosines(directions / np.linalg.norm(directions, axis=1, keepdims=True), floor)


def same_sums(found, wanted):
    """Whole sums are equal to the bit."""
    np.testing.assert_array_equal(found.counts, wanted.counts)
    np.testing.assert_array_equal(found.resultants, wanted.resultants)


def dense(block):
    if not isinstance(block, SparseBlock):
        return np.asarray(block)
    start, stop = block.indptr[0], block.indptr[-1]
    arrays = (block.data[start:stop], block.indices[start:stop], block.indptr - start)
    return sp.csr_array(arrays, shape=(len(block.indptr) - 1, block.n_features)).toarray()


# ------------------------------------------------------------------------------------------------------ labels, sums


@every_engine
@every_case
@pytest.mark.parametrize("is_weighted", [False, True])
def test_cuts_and_orders_of_parts_change_no_label_and_no_sum(name, case, is_weighted):
    rows, weights, rng = make(case)
    weights = weights if is_weighted else None
    rule = make_rule(rng, rows.shape[1], floor=0.2)
    plain = make_rule(rng, rows.shape[1])
    with one_piece("reference", rows, weights) as oracle:
        wanted_labels = oracle.labels()
        refused = oracle.label(rule, wanted_labels)
        first = wanted_labels.to_host().copy()
        wanted = oracle.label(plain, wanted_labels)
    for seed in range(3):
        with ENGINES[name](rows, weights, seed=seed) as passes:
            labels = passes.labels()
            found = passes.label(rule, labels)
            np.testing.assert_array_equal(labels.to_host(), first)
            assert (found.n_moved, found.n_refused) == (refused.n_moved, refused.n_refused)
            assert labels.n_refused() == found.n_refused == (first < 0).sum()
            same_sums(found.sums, refused.sums)
            found = passes.label(plain, labels)
            np.testing.assert_array_equal(labels.to_host(), wanted_labels.to_host())
            assert (found.n_moved, found.n_refused) == (wanted.n_moved, 0)
            same_sums(found.sums, wanted.sums)
            same_sums(passes.sum(passes.labels_from(labels.to_host()), 5), wanted.sums)
            same_sums(passes.sum(labels, 5, within=(1, 3)), wanted.sums.select([1, 2]))
            np.testing.assert_allclose(passes.weigh(labels, 5), wanted.sums.counts, rtol=1e-12)


@every_engine
@every_case
def test_bounds_give_the_labels_and_sums_of_a_plain_pass(name, case):
    rows, weights, rng = make(case)
    with ENGINES[name](rows, weights, seed=3) as passes:
        plain, bounded = passes.labels(), passes.labels("hamerly", 9)
        rule = make_rule(rng, rows.shape[1], 9)
        for _ in range(4):
            one, other = passes.label(rule, plain), passes.label(rule, bounded)
            np.testing.assert_array_equal(bounded.to_host(), plain.to_host())
            assert one.n_moved == other.n_moved
            same_sums(other.sums, one.sums)
            rule = AffineRule.cosines(one.sums.directions(otherwise=rule.directions))


@every_engine
@every_case
def test_a_span_is_labelled_by_itself(name, case):
    rows, weights, rng = make(case)
    n_rows = rows.shape[0]
    rule, plain = make_rule(rng, rows.shape[1], floor=0.1), make_rule(rng, rows.shape[1])
    with one_piece("reference", rows, weights) as oracle:
        everywhere = oracle.labels()
        oracle.label(rule, everywhere, sums=False)
        single = everywhere.to_host()
    start, stop = n_rows // 3, n_rows // 2
    with ENGINES[name](rows, weights, seed=1) as passes:
        labels = passes.labels()
        passes.label(rule, labels, span=(start, stop), sums=False)
        expected = np.full(n_rows, -1, np.int32)
        expected[start:stop] = single[start:stop]
        np.testing.assert_array_equal(labels.to_host(), expected)
        passes.label(plain, labels, sums=False)
        before = labels.to_host().copy()
        found = passes.label(rule, labels, span=(stop, n_rows))
        np.testing.assert_array_equal(labels.to_host()[:stop], before[:stop])
        is_here = single[stop:] >= 0
        np.testing.assert_array_equal(labels.to_host()[stop:][is_here], single[stop:][is_here])
        np.testing.assert_array_equal(labels.to_host()[stop:][~is_here], -2 - before[stop:][~is_here])
        same_sums(found.sums, passes.sum(passes.labels_from(labels.to_host()), 5))
        assert found.n_refused == (~is_here).sum()


@every_case
@pytest.mark.parametrize("is_weighted", [False, True])
@pytest.mark.parametrize("numbers", [(1, 2, 3, 8), pytest.param(range(1, 9), marks=pytest.mark.slow)], ids=["", "all"])
def test_no_number_of_threads_changes_a_bit(case, is_weighted, numbers):
    rows, weights, rng = make(case)
    rule = make_rule(rng, rows.shape[1])
    found = []
    for n_threads in numbers:
        with one_piece("cpu", rows, weights if is_weighted else None, n_threads) as passes:
            labels = passes.labels()
            hard, soft = passes.label(rule, labels), passes.share(rule)
            found.append((labels.to_host().copy(), hard.sums, soft.sums, soft.evidence))
    for labels, hard, soft, evidence in found[1:]:
        np.testing.assert_array_equal(labels, found[0][0])
        same_sums(hard, found[0][1])
        same_sums(soft, found[0][2])
        assert evidence == found[0][3]


@every_engine
@every_case
def test_rows_in_another_order_have_the_same_sums_for_their_labels(name, case):
    rows, weights, rng = make(case)
    order = rng.permutation(rows.shape[0])
    given = rng.integers(0, 4, rows.shape[0])
    with ENGINES[name](rows, weights, seed=2) as passes:
        wanted = passes.sum(passes.labels_from(given), 4)
    with ENGINES[name](rows[order], weights[order], seed=4) as passes:
        same_sums(passes.sum(passes.labels_from(given[order]), 4), wanted)


# ------------------------------------------------------------------------------------------------------- soft sums


@every_engine
@every_case
def test_a_row_of_weight_two_is_shared_as_two_rows(name, case):
    rows, _, rng = make(case)
    rule = AffineRule(9.0 * make_rule(rng, rows.shape[1]).directions, rng.standard_normal(5))
    twice = sp.vstack([rows, rows], format="csr") if sp.issparse(rows) else np.concatenate([rows, rows])
    with ENGINES[name](rows, np.full(rows.shape[0], 2.0), seed=5) as passes:
        heavy, evidence = passes.share(rule), passes.evidence(rule)
    with ENGINES[name](twice, seed=6) as passes:
        doubled = passes.share(rule)
    # on a GPU the sums of wide float32 rows are float32 products too
    tolerance = 1e-6 if name.startswith("cuda") and case == "wide" else 1e-9
    np.testing.assert_allclose(heavy.sums.counts, doubled.sums.counts, rtol=tolerance)
    scale = rows.shape[0]
    np.testing.assert_allclose(heavy.sums.resultants, doubled.sums.resultants, rtol=0, atol=tolerance * scale)
    assert heavy.evidence == pytest.approx(doubled.evidence, rel=tolerance)
    assert evidence == pytest.approx(heavy.evidence, rel=tolerance)


@every_engine
@every_case
def test_soft_sums_are_those_of_the_oracle(name, case):
    """Shares come from exponentials and, of wide rows, from products in blocks: to a tolerance (DESIGN)."""
    rows, weights, rng = make(case)
    rule = AffineRule(9.0 * make_rule(rng, rows.shape[1]).directions, rng.standard_normal(5))
    with one_piece("reference", rows, weights) as oracle:
        wanted, shares, evidence = oracle.share(rule), oracle.values(rule, "shares"), oracle.values(rule, "evidence")
    tolerance = 1e-9 if rows.dtype == np.float64 or rows.shape[1] <= 16 else 1e-5
    with ENGINES[name](rows, weights, seed=7) as passes:
        found = passes.share(rule)
        np.testing.assert_allclose(passes.values(rule, "shares"), shares, atol=tolerance)
        np.testing.assert_allclose(passes.values(rule, "evidence"), evidence, atol=tolerance)
        assert passes.mean(passes.values(rule, "evidence")) == pytest.approx(
            np.average(evidence, weights=weights), rel=10 * tolerance
        )
    np.testing.assert_allclose(found.sums.resultants, wanted.sums.resultants, rtol=0, atol=tolerance * weights.sum())
    assert found.evidence == pytest.approx(wanted.evidence, rel=tolerance)


@pytest.mark.parametrize("n_features", [3, 20])
def test_parts_of_one_lane_have_the_soft_sums_of_the_whole(monkeypatch, n_features):
    # lanes that would be cut again if they were rows by themselves
    monkeypatch.setattr("armillary.points.lane_plan", lambda n, _: even_ranges(n, 8 if n > 4000 else 2))
    rng = np.random.default_rng(n_features)
    rows, weights = units(rng, 5003, n_features).astype(np.float32), rng.gamma(1.0, size=5003)
    rule = AffineRule(9.0 * make_rule(rng, n_features).directions, rng.standard_normal(5))
    with one_piece("cpu", rows, weights) as whole_set:
        wanted = whole_set.share(rule)
    for n_threads in (1, 2, 8):
        with one_piece("cpu", rows, weights, n_threads) as passes:
            edges = [stop for _, stop in passes.points.lanes]
            assert len(edges) == 8
            found = Partitioned.cut(passes, edges, in_any_order(n_threads)).share(rule)
            same_sums(found.sums, wanted.sums)
            assert found.evidence == wanted.evidence


@pytest.mark.parametrize("kind", [VonMisesFisherMixture, BayesianVonMisesFisherMixture])
@pytest.mark.filterwarnings("ignore:.*used all")
def test_soft_fits_have_one_file_from_memory_map_parquet_and_shards(kind, tmp_path):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    rng = np.random.default_rng(4)
    rows = units(rng, 3000, 20).astype(np.float32)
    rows[:1500] = units(rng, 1, 20) + 0.1 * rows[:1500]
    np.save(tmp_path / "rows.npy", rows)
    (tmp_path / "shards").mkdir()
    for number, part in enumerate(np.split(rows, [700, 2333])):
        np.save(tmp_path / "shards" / f"{number}.npy", part)
    column = pa.FixedSizeListArray.from_arrays(pa.array(rows.ravel()), 20)
    pq.write_table(pa.table({"rows": column}), tmp_path / "rows.parquet")
    files = set()
    forms = [
        (rows, 1),
        (rows, 2),
        (rows, 8),
        (np.load(tmp_path / "rows.npy", mmap_mode="r"), 3),
        (open_rows(tmp_path / "rows.npy"), 1),
        (open_rows(tmp_path / "shards"), 4),
        (open_rows(tmp_path / "rows.parquet"), 2),
    ]
    for form, n_threads in forms:
        fitted = kind(3, random_state=0, max_iter=6, n_threads=n_threads).fit(form)
        fitted.set_params(n_threads=None)
        path = tmp_path / f"{n_threads}.model"
        save(fitted, path)
        files.add(path.read_bytes())
    assert len(files) == 1


# ----------------------------------------------------------------------------------------------------------- draws


@every_engine
@every_case
def test_draws_do_not_depend_on_the_cut(name, case):
    rows, _, rng = make(case)
    rule = AffineRule(5.0 * make_rule(rng, rows.shape[1], 4).directions, np.zeros(4))
    given = rng.integers(0, 4, rows.shape[0])
    with one_piece("cpu", rows) as whole:
        labels = whole.labels_from(given)
        wanted_anchors = whole.anchors(labels, (3, 5), 4)
        whole.draw(rule, labels, KEY, wanted_anchors)
        wanted = labels.to_host()
    with ENGINES[name](rows, seed=8) as passes:
        labels = passes.labels_from(given)
        anchors = passes.anchors(labels, (3, 5), 4)
        np.testing.assert_array_equal(anchors.rows, wanted_anchors.rows)
        np.testing.assert_array_equal(anchors.priorities, wanted_anchors.priorities)
        passes.draw(rule, labels, KEY, anchors)
        if name == "reference":  # its shares have other last bits
            assert (labels.to_host() == wanted).mean() > 0.999
        else:
            np.testing.assert_array_equal(labels.to_host(), wanted)


@every_engine
@every_case
@pytest.mark.parametrize("is_weighted", [False, True])
def test_columns_pick_the_same_rows_for_every_cut(name, case, is_weighted):
    rows, weights, rng = make(case)
    weights = weights if is_weighted else None
    uniforms, rule = rng.random(40), make_rule(rng, rows.shape[1], 1)
    candidates = make_rule(rng, rows.shape[1], 6)
    answers = []
    for engine, seed in (("cpu", 0), (name, 9), (name, 10)):
        with ENGINES[engine](rows, weights, seed=seed) as passes:
            column, quick = passes.column(2.0, is_exact=True), passes.column(2.0)
            passes.lower(column, rule, is_exact=True)
            passes.lower(quick, rule)
            answers.append(
                (
                    column.pick(uniforms).tolist(),
                    [column.farthest(n) for n in (0, 3)],
                    column.least(7, counted=True).tolist(),
                    column.to_host().tolist(),
                    passes.left(quick, candidates),
                    quick.to_host(),
                    plus_plus(passes, 7, np.random.default_rng(2)),
                    passes.column(0.0).pick(uniforms).tolist(),
                    passes.choose(5, np.random.default_rng(1)).tolist(),
                )
            )
    for answer in answers[1:]:
        assert answer[:4] == answers[0][:4]
        for one, other in zip(answer[4:7], answers[0][4:7], strict=True):
            if name == "reference":  # its cosines have other last bits
                np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
            else:
                np.testing.assert_array_equal(one, other)
        assert answer[7:] == answers[0][7:] == ([], answers[0][8])


@pytest.mark.parametrize("n_features", [20, 61, 384])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_candidates_of_plus_plus_are_weighed_alike_for_every_cut(n_features, dtype):
    """Rows at the ends of blocks of BLAS had other last bits."""
    rng = np.random.default_rng(n_features)
    rows = units(rng, 1501, n_features).astype(dtype)
    first, others = (make_rule(rng, n_features, n) for n in (1, 7))
    wanted = None
    for n_threads in (1, 3, 8):
        with one_piece("cpu", rows, None, n_threads) as passes:
            for seed in range(4):
                parted = cut_at_random(passes, seed) if seed else passes
                column = parted.column(2.0)
                parted.lower(column, first)
                found = column.to_host(), parted.left(column, others), plus_plus(parted, 9, np.random.default_rng(0))
                wanted = found if wanted is None else wanted
                for one, other in zip(found, wanted, strict=True):
                    np.testing.assert_array_equal(one, other)


# -------------------------------------------------------------------------------------------------------- few rows


@every_engine
@every_case
def test_few_rows_have_the_bits_that_passes_see(name, case):
    rows, weights, rng = make(case)
    numbers = rng.permutation(rows.shape[0])[:50]
    with ENGINES[name](rows, weights, seed=11) as passes:
        few = passes.rows(numbers)
        every = passes.rows(range(rows.shape[0]))
        np.testing.assert_array_equal(few.numbers, numbers)
        np.testing.assert_array_equal(dense(few.block), dense(every.block)[numbers])
        np.testing.assert_array_equal(few.weights, every.weights[numbers])
        np.testing.assert_array_equal(passes.weights_at(numbers), weights[numbers])
        assert passes.rows(numbers[:0]).block is not None
        # one cluster for each of a few rows: its sum is the row, rounded once
        labels = passes.labels()
        labels.put(numbers, np.arange(50))
        sums = passes.sum(labels, 50)
        each = few.weights[:, None] * dense(few.block).astype(np.float64)
        np.testing.assert_array_equal(sums.resultants, whole.rounded(each, passes.points.q))
        np.testing.assert_allclose(passes.unit_rows(numbers), dense(few.block), atol=1e-6)


@every_engine
@every_case
def test_labels_answer_alike(name, case):
    rows, weights, rng = make(case)
    weights[rng.random(len(weights)) < 0.3] = 0.0
    n_rows = rows.shape[0]
    given = rng.integers(-1, 6, n_rows)
    with ENGINES[name](rows, weights, seed=12) as passes:
        labels = passes.labels_from(given)
        np.testing.assert_array_equal(labels.sizes(7), [np.sum(given == k) for k in range(7)])
        counted = [np.sum((given == k) & (weights > 0.0)) for k in range(7)]
        np.testing.assert_array_equal(labels.sizes(7, counted=True), counted)
        sought = np.array([True] * 6 + [False])
        span = (n_rows // 4, n_rows - 3)
        inside = given[slice(*span)]
        firsts = [span[0] + np.argmax(inside == k) if np.any(inside == k) else n_rows for k in range(6)]
        np.testing.assert_array_equal(labels.first_rows(sought, span), [*firsts, n_rows])
        lasts = [np.flatnonzero(given == k)[-1] if np.any(given == k) else -1 for k in range(6)]
        np.testing.assert_array_equal(labels.last_rows(sought), [*lasts, -1])
        np.testing.assert_array_equal(labels.refused(span, 20), span[0] + np.flatnonzero(inside < 0)[:20])
        assert labels.n_refused() == np.sum(given < 0)
        assert labels.n_refused(counted=True) == np.sum((given < 0) & (weights > 0.0))
        names = np.arange(10, 16)
        np.testing.assert_array_equal(labels.to_host(names), np.where(given >= 0, 10 + given, -1))
        other = labels.copy()
        other.rename(np.array([5, 4, 3, 2, 1, 0]))
        np.testing.assert_array_equal(other.to_host(), np.where(given >= 0, 5 - given, -1))
        np.testing.assert_array_equal(labels.to_host(), given)
        labels.fill(2, span)
        given[slice(*span)] = 2
        np.testing.assert_array_equal(labels.at(np.array([n_rows - 1, 0])), given[[n_rows - 1, 0]])
        labels.fill(0)
        labels.put(np.array([n_rows - 1, 1]), [3, 1])
        labels.keep(np.array([True, True, False, True]))
        assert labels.at(np.array([0, 1, n_rows - 1])).tolist() == [0, 1, 2]


@every_engine
@every_case
def test_rows_chosen_are_rows_of_their_own(name, case):
    rows, weights, rng = make(case)
    weights[rng.random(len(weights)) < 0.3] = 0.0
    n_rows = rows.shape[0]
    given = rng.integers(0, 3, n_rows)
    numbers = np.sort(rng.choice(n_rows, n_rows // 3, replace=False))
    with ENGINES[name](rows, weights, seed=13) as passes:
        for which, chosen in (
            (Counted(), np.flatnonzero(weights)),
            (Numbered(numbers), numbers),
            (Between(n_rows // 5, n_rows - 1), np.arange(n_rows // 5, n_rows - 1)),
            (Labelled(passes.labels_from(given), 1), np.flatnonzero(given == 1)),
        ):
            some = passes.over(which)
            assert some.points.n_rows == len(chosen)
            few = some.rows(range(len(chosen)))
            np.testing.assert_array_equal(dense(few.block), dense(passes.rows(chosen).block))
            np.testing.assert_array_equal(few.weights, weights[chosen])
            labels = some.labels_from(given[chosen])
            counts = np.bincount(given[chosen], weights[chosen], minlength=3)
            np.testing.assert_allclose(some.sum(labels, 3).counts, counts, rtol=1e-12)
    with ENGINES[name](rows, np.ones(n_rows), seed=13) as passes:
        assert passes.over(Counted()) is passes


@dataclass(frozen=True)
class Least:
    """The smallest score of each cluster, and the row that has it."""

    is_exact: ClassVar[bool] = True

    def part(self, scores, here):
        rows = scores.argmin(axis=0)
        return [(scores[row, k], here.first_row + int(row)) for k, row in enumerate(rows)]

    def join(self, parts):
        return [min(every) for every in zip(*parts, strict=True)]


@every_engine
@every_case
def test_folders_see_every_row_once(name, case):
    rows, weights, rng = make(case)
    rule = make_rule(rng, rows.shape[1])
    wanted = (rows @ rule.directions.T).astype(np.float64)
    with ENGINES[name](rows, weights, seed=14) as passes:
        found = passes.fold(rule, Least())
    assert [row for _, row in found] == np.argmin(wanted, axis=0).tolist()
    np.testing.assert_allclose([value for value, _ in found], wanted.min(axis=0), atol=1e-6)


def test_outcomes_are_a_monoid():
    rng = np.random.default_rng(0)

    def outcome():
        values = np.round(rng.standard_normal((3, 4)) * 64) / 64
        return Outcome(DirectionalStatistics(np.abs(values[:, 0]), values), 0.5, 2, 1)

    a, b, c = outcome(), outcome(), outcome()
    left, right = a.merge(b).merge(c), a.merge(b.merge(c))
    same_sums(left.sums, right.sums)
    assert (left.evidence, left.n_moved, left.n_refused) == (1.5, 6, 3)
    nothing = Outcome(DirectionalStatistics.zero(3, 4))
    same_sums(a.merge(nothing).sums, a.sums)


def test_a_part_of_a_part_knows_its_rows():
    rows, weights, rng = make("narrow")
    rule = AffineRule(5.0 * make_rule(rng, 3, 4).directions, np.zeros(4))
    with one_piece("cpu", rows, weights) as whole:
        labels = whole.labels()
        whole.draw(rule, labels, KEY)
        twice = cut_at_random(cut_at_random(whole, 1), 2)
        assert sum(part.points.n_rows for part in twice.parts) == 400
        again = twice.labels()
        twice.draw(rule, again, KEY)
        np.testing.assert_array_equal(again.to_host(), labels.to_host())
        assert isinstance(whole.points, Points)
