"""Sets of rows on a GPU held to the CPU's: the bits of scores, draws and sums, and whole fits of mixtures."""

import numpy as np
import pytest
from tests.gpu.here import WHY_NOT, has_cuda, is_interpreted
from tests.gpu.test_engine import file_of, grouped, opened, unit
from tests.laws import test_sets_laws as laws
from tests.laws.engines import ENGINES, one_piece

from armillary import DirichletProcessMixture
from armillary.distributions.tangent_gaussian import TangentGaussian
from armillary.exceptions import InputError
from armillary.fitting.dirichlet_process import clusters_of
from armillary.rules import AffineRule, QuadraticRule

pytestmark = pytest.mark.skipif(not has_cuda(), reason=WHY_NOT)

BRIEF = {"init": 3, "n_burn_in": 1, "n_draws": 1, "n_attempts": 1, "n_components": 5, "random_state": 0}


def rules(d, rng):
    """Gaussians in tangent spaces, one of them very wide, and flat ones; the means of the first."""
    means = unit(rng, 4, d, np.float64)
    roots = 0.5 * rng.standard_normal((4, d - 1, d - 1)) + np.eye(d - 1)
    covariances = roots @ np.swapaxes(roots, 1, 2) * np.array([0.02, 0.1, 0.5, 9.0])[:, None, None]
    law = TangentGaussian.of(means, covariances)
    flat = QuadraticRule(2.0 * rng.standard_normal((4, d, d)), rng.standard_normal(4), rng.standard_normal((4, d)))
    return QuadraticRule(law.root, rng.standard_normal(4), means=means, volume=d - 2.0), flat, means


def rows_around(means, dtype, n=64):
    """Rows near means, at them, at their antipodes, and next to those."""
    rng = np.random.default_rng(len(means[0]))
    rows = unit(rng, n, means.shape[1], np.float64)
    rows[:4], rows[4:8], rows[8:12] = means, -means, -means + 1e-6 * rng.standard_normal(means.shape)
    rows[12:24] = np.repeat(means, 3, axis=0) + 0.1 * rng.standard_normal((12, means.shape[1]))
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(dtype)


class Raw:
    """The scores of each row."""

    def of(self, scores, here):
        return scores


@pytest.mark.parametrize("n_clusters", [4, 70])
def test_anchors_and_unions_are_those_of_the_cpu(n_clusters):
    rows = unit(np.random.default_rng(0), 300, 3)
    labels = np.random.default_rng(1).permutation(np.arange(300) % n_clusters)
    groups = [(2, 0), (1,), (0, 3)]
    found = []
    for name in ("cpu", "cuda"):
        with opened(name, rows) as passes:
            anchors = passes.anchors(passes.labels_from(labels), (5, 6), n_clusters)
            partition = passes.partition(passes.labels_from(labels))
            pairs, threes = partition.unions(groups), partition.unions([(3, 1, 2), (0,)])
            sides = pairs.where(0, partition.labels, 2), pairs.where(2, partition.labels, 3)
            parted = pairs.parted([sides[0], None, sides[1]])
            each = [getattr(sets.numbers, "cpu", lambda sets=sets: sets.numbers)() for sets in (pairs, threes, parted)]
            found.append([*anchors, *each, parted.starts, sides[0].n_left, sides[1].n_right, sides[1].is_left])
    for one, two in zip(*found, strict=True):
        np.testing.assert_array_equal(two, one)


@pytest.mark.parametrize(("d", "dtype"), [(2, np.float64), (3, np.float32), (3, np.float64), (7, np.float32)])
def test_scores_draws_and_odds_have_the_bits_of_the_cpu(d, dtype):
    tangent, flat, means = rules(d, np.random.default_rng(d))
    rows = rows_around(means, dtype)
    labels = np.random.default_rng(1).permutation(np.arange(64) % 4)
    for rule in (tangent, flat):
        found = []
        for name in ("cpu", "cuda"):
            with opened(name, rows) as passes:
                drawn, free = passes.labels_from(labels), passes.labels_from(labels)
                passes.draw(rule, drawn, (3, 4), passes.anchors(drawn, (5, 6), 4))
                passes.draw(rule, free, (3, 4))
                sets = clusters_of(passes, labels % 2).sets()
                found.append([passes.values(rule, Raw()), drawn.to_host(), free.to_host(), sets.log_odds(rule)])
                if rule is tangent:
                    limbs = sets.tangent_limbs(means[:2].copy(), with_scatter=True, with_curvature=True)
                    found[-1] += [limbs, sets.scatters(0.5 * means[:2]), sets.totals()]
        for one, two in zip(*found, strict=True):
            np.testing.assert_array_equal(two, one)


@pytest.mark.parametrize("d", [5, 24])
def test_draws_among_directions_are_those_of_the_cpu(d):
    rng = np.random.default_rng(d)
    rows, found = unit(rng, 64, d), []
    rule = AffineRule(unit(rng, 4, d, np.float64), rng.standard_normal(4), slopes=np.array([1.0, 5.0, 20.0, 100.0]))
    for name in ("cpu", "cuda"):
        with opened(name, rows) as passes:
            labels = passes.labels_from(np.arange(64) % 4)
            passes.draw(rule, labels, (3, 4), passes.anchors(labels, (5, 6), 4))
            found.append([labels.to_host(), clusters_of(passes, np.arange(64) % 2).sets().log_odds(rule)])
    for one, two in zip(*found, strict=True):
        np.testing.assert_array_equal(two, one)


@pytest.mark.parametrize(
    ("name", "case"), [("cuda", "narrow"), ("cuda_parts", "narrow"), ("cuda_stream", "narrow"), ("cuda_stream", "csr")]
)
def test_a_chain_of_moves_finds_what_it_finds_on_the_cpu(name, case):
    rows, labels = laws.make(case)
    with one_piece("cpu", rows) as passes:
        wanted = laws.play(passes, case, labels)
    with ENGINES[name](rows, seed=3) as passes:
        laws.same(laws.play(passes, case, labels), wanted, is_oracle=False)


@pytest.mark.parametrize("sampler", ["split_merge", "subclusters", "finite"])
@pytest.mark.parametrize(("component", "d"), [("tangent_gaussian", 3), ("gaussian", 4), ("vmf", 3)])
def test_a_fit_has_one_file_on_both(component, sampler, d, tmp_path):
    if is_interpreted() and component == "tangent_gaussian" and sampler != "finite":
        pytest.skip("takes a minute in the interpreter, where the chain of moves has the same steps")
    rows = grouped(d, 40)
    models = [
        DirichletProcessMixture(component, sampler=sampler, device=device, **BRIEF).fit(rows)
        for device in ("cpu", "cuda")
    ]
    assert [model.device_ for model in models] == ["cpu", "cuda"]
    np.testing.assert_array_equal(models[1].labels_, models[0].labels_)
    np.testing.assert_array_equal(models[1].trace_, models[0].trace_)
    np.testing.assert_array_equal(models[1].predict_proba(rows), models[0].predict_proba(rows))
    assert file_of(models[1], tmp_path / "gpu.model") == file_of(models[0], tmp_path / "cpu.model")


def test_what_stays_with_rows_in_memory_is_a_sentence():
    with pytest.raises(InputError, match=r"must be rows in memory, an array or a CSR matrix: what it does"):
        DirichletProcessMixture(sampler="crp", random_state=0, device="cuda").fit(grouped(3))
