"""Samplers of Dirichlet-process mixtures against the list of all partitions of five rows (of six in the slow run).

The exact posterior is built from the definition: the restaurant process or the finite Dirichlet law, times the marginal
likelihood of each set, with the mean of a tangent Gaussian integrated by quadrature on the sphere. Standard errors come
from batches of the chain, thresholds from a false-alarm rate of 1e-6 for each test, divided among the cells. The same
check fails for each planted mistake.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
import pytest
from scipy import stats
from scipy.special import gammaln, logsumexp
from tests.making import units

from armillary.distributions.gaussian_component import GaussianComponent
from armillary.distributions.tangent_component import TangentComponent
from armillary.distributions.vmf_component import VmfComponent, log_grid
from armillary.draws import Stream
from armillary.engines.cpu_sets import CpuSides
from armillary.engines.select import open_passes
from armillary.fitting import divisions
from armillary.fitting.dirichlet_process import clusters_of, score_rule
from armillary.models.dirichlet_process import _split_merge, _subclusters
from armillary.models.dirichlet_process._chains import FiniteChain, RestaurantChain, Setting, SplitMergeChain, log_crp
from armillary.models.dirichlet_process._split_merge import Drawn, SplitMerge, Summaries
from armillary.models.dirichlet_process._subclusters import SubclusterChain
from armillary.points import as_points

FALSE_ALARM_RATE = 1e-6
ALPHA = 1.3
N_BATCHES = 50


def clumps(seed, n_rows, dimension, spread=0.9):
    """Rows in two loose clumps, so that many partitions have weight."""
    rng = np.random.default_rng(seed)
    rows = units(rng, 2, dimension)[np.arange(n_rows) % 2] + spread * units(rng, n_rows, dimension)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


COMPONENTS = {
    "tangent": TangentComponent(3, 0.3, 5.0),
    "tangent without volume": TangentComponent(3, 0.3, 5.0, volume_factor=False),
    "tangent on a circle": TangentComponent(2, 0.3, 4.0),
    "wide tangent": TangentComponent(3, 6.0, 5.0),
    "gaussian": GaussianComponent(3, 0.3, 6.0, 0.5),
    "vmf": VmfComponent.uniform(3, log_grid(0.3, 100.0, 12)),
}


# ---------------------------------------------------------------------------------------------- the exact posterior


def partitions(n_rows):
    """All partitions as tuples of labels, numbered as they appear."""

    def grow(prefix, n_clusters):
        if len(prefix) == n_rows:
            yield tuple(prefix)
            return
        for label in range(n_clusters + 1):
            yield from grow([*prefix, label], max(n_clusters, label + 1))

    return list(grow([0], 1))


def canonical(labels):
    seen: dict[int, int] = {}
    return tuple(seen.setdefault(int(label), len(seen)) for label in labels)


def quadrature(dimension):
    """Points of the sphere and weights that sum to one."""
    if dimension == 2:
        turns = 2.0 * np.pi * np.arange(1500) / 1500
        return np.stack([np.cos(turns), np.sin(turns)], axis=1), np.full(1500, 1.0 / 1500)
    z, weights = np.polynomial.legendre.leggauss(64)
    turns = 2.0 * np.pi * np.arange(128) / 128
    radius = np.sqrt(1.0 - z * z)
    grid = [np.outer(radius, np.cos(turns)), np.outer(radius, np.sin(turns)), np.outer(z, np.ones(128))]
    return np.stack(grid, axis=-1).reshape(-1, 3), np.repeat(0.5 * weights / 128, 128)


def log_marginals(component, rows):
    """The log marginal likelihood of each subset, by its bits."""
    has_pivot = isinstance(component, TangentComponent)
    nodes, weights = quadrature(component.n_features) if has_pivot else (None, np.ones(1))
    each = component.statistics(nodes, rows)
    found = {}
    for mask in range(1, 2 ** len(rows)):
        members = [i for i in range(len(rows)) if mask >> i & 1]
        values = component.log_marginal(tuple(part[members].sum(axis=0) for part in each))
        found[mask] = float(logsumexp(values, b=weights))
    return found


def log_finite(counts, n_components):
    """The law of a partition under a symmetric Dirichlet over n_components, from the definition."""
    if len(counts) > n_components:
        return -np.inf
    share = ALPHA / n_components
    names = gammaln(n_components + 1) - gammaln(n_components - len(counts) + 1)
    return names + sum(gammaln(share + n) - gammaln(share) for n in counts)


def posterior(component, rows, log_prior):
    evidence = log_marginals(component, rows)
    listed = partitions(len(rows))
    logs = []
    for partition in listed:
        masks = [sum(1 << i for i, label in enumerate(partition) if label == k) for k in range(max(partition) + 1)]
        logs.append(log_prior([mask.bit_count() for mask in masks]) + sum(evidence[mask] for mask in masks))
    return dict(zip(listed, np.exp(np.array(logs) - logsumexp(logs)), strict=True))


def crp_prior(counts):
    return log_crp(np.array(counts), ALPHA)


# ---------------------------------------------------------------------------------------------- the comparison


@dataclass
class Comparison:
    """Frequencies of a chain beside the exact posterior."""

    total_variation: float
    noise: float  # what the total variation of an exact sampler would be, about
    worst: float  # largest |z|
    threshold: float

    @property
    def agrees(self):
        return self.worst < self.threshold


def compare(exact, draws):
    """Partitions too rare for a normal law share a cell; the numbers of clusters are cells of their own."""
    listed = sorted(exact, key=exact.__getitem__, reverse=True)
    number = {partition: i for i, partition in enumerate(listed)}
    expected = np.array([exact[partition] for partition in listed])
    codes = np.array([number[draw] for draw in draws])
    hits = np.eye(len(listed))[codes]
    sizes = np.array([max(partition) + 1 for partition in listed])
    n_own = max(1, int(np.count_nonzero(expected * len(draws) >= 50.0)))
    cells = np.concatenate(
        [
            np.eye(len(listed))[:, :n_own],
            (np.arange(len(listed)) >= n_own)[:, None],
            sizes[:, None] == np.unique(sizes),
        ],
        axis=1,
    ).astype(float)
    cells = cells[:, (expected @ cells) * len(draws) >= 50.0]
    length = len(draws) // N_BATCHES
    batches = hits[: N_BATCHES * length].reshape(N_BATCHES, length, -1).mean(axis=1)
    shares = batches @ cells
    target = expected @ cells
    floor = 0.5 * np.sqrt(target * (1.0 - target) / len(draws))
    error = np.maximum(shares.std(axis=0, ddof=1) / np.sqrt(N_BATCHES), floor)
    worst = float(np.max(np.abs(shares.mean(axis=0) - target) / error))
    own_error = batches.std(axis=0, ddof=1) / np.sqrt(N_BATCHES)
    return Comparison(
        0.5 * float(np.abs(hits.mean(axis=0) - expected).sum()),
        0.5 * float(np.sqrt(2.0 / np.pi) * own_error.sum()),
        worst,
        float(stats.t.isf(FALSE_ALARM_RATE / (2 * cells.shape[1]), N_BATCHES - 1)),
    )


class OnlyRandom(SplitMergeChain):
    def _sweep(self):
        self._split_and_merge(1, 0)


class OnlyLaunch(SplitMergeChain):
    def _sweep(self):
        self._split_and_merge(0, 1)


class OnlyRandom4(SplitMergeChain):
    def _sweep(self):
        self._split_and_merge(4, 0)


class NoLaunch(SplitMergeChain):
    """Labels and `random` moves."""

    def _sweep(self):
        self._draw_labels(self._draw_parameters())
        self._split_and_merge(2, 0)


CHAINS = {
    "all moves": SplitMergeChain,
    "random": OnlyRandom,
    "launch": OnlyLaunch,
    "labels and random": NoLaunch,
    "crp": RestaurantChain,
    "finite": FiniteChain,
    "subclusters": SubclusterChain,
}


def run(component, chain_class, n_sweeps, *, n_rows=5, spread=0.9, seed=0, truth=None, **setting):
    """Partitions of a chain, and how they compare with the exact posterior (of `truth`, where that is given)."""
    rows = clumps(4, n_rows, component.n_features, spread)
    n_components = setting.setdefault("n_components", 3)
    is_finite = chain_class is FiniteChain
    prior = (lambda counts: log_finite(counts, n_components)) if is_finite else crp_prior
    exact = posterior(truth or component, rows, prior)
    draws = []
    with open_passes(as_points(rows, "test"), 1, "test") as passes:
        clusters = clusters_of(passes, np.arange(n_rows) % 2)
        rng = np.random.default_rng(seed)
        pivots = component.draw(clusters.sets(), rng)[0]
        whole = Setting(component, passes, Stream(seed), **{"n_attempts": 1, **setting})
        chain = chain_class(whole, clusters, pivots, ALPHA)
        for _ in range(n_sweeps):
            chain.n_sweeps += 1
            chain._sweep()
            draws.append(canonical(chain.rows.labels.to_host()))
    return compare(exact, draws)


@pytest.fixture
def quick_launches(monkeypatch):
    """A launch may be any function of the set and of chance: one step of its fit instead of six is as exact."""
    monkeypatch.setattr(divisions, "_LAUNCH_STEPS", 1)


# ---------------------------------------------------------------------------------------------- exact samplers

QUICK = [
    ("tangent", "all moves", 400),
    ("tangent", "random", 1000),
    ("tangent", "launch", 600),
    ("tangent", "crp", 300),
    ("tangent", "finite", 300),
    ("tangent without volume", "labels and random", 250),
    ("tangent on a circle", "all moves", 300),
    ("gaussian", "all moves", 500),
    ("gaussian", "random", 1500),
    ("gaussian", "launch", 800),
    ("gaussian", "crp", 400),
    ("gaussian", "finite", 400),
    ("vmf", "all moves", 200),
    ("vmf", "crp", 150),
]


@pytest.mark.parametrize(("name", "moves", "n_sweeps"), QUICK)
@pytest.mark.usefixtures("quick_launches")
def test_partitions_have_their_posterior(name, moves, n_sweeps):
    result = run(COMPONENTS[name], CHAINS[moves], n_sweeps)
    assert result.agrees, result
    assert result.total_variation < 2.5 * result.noise + 0.02, result


@pytest.mark.slow
@pytest.mark.parametrize("moves", [name for name in CHAINS if name != "subclusters"])
@pytest.mark.parametrize("name", [name for name in COMPONENTS if name != "wide tangent"])
def test_partitions_of_six_rows_have_their_posterior(name, moves):
    result = run(COMPONENTS[name], CHAINS[moves], 10_000, n_rows=6, seed=1)
    print(name, moves, result)  # noqa: T201
    assert result.agrees, result


# ---------------------------------------------------------------------------------------------- planted mistakes


class ForgetsArea(TangentComponent):
    """The prior of the mean, 1/A, is left out."""

    def _log_joint(self, statistics):
        return super()._log_joint(statistics) + self._log_area


class ForgetsProposal(TangentComponent):
    """q(mu) is left out of the evidence: the paper's (20) as printed."""

    def _weigh(self, means, sets, proposal):
        statistics = self.set_statistics(means, sets)
        return self._log_joint(statistics), statistics[1]


class DeletesEmptied(NoLaunch):
    """Labels without anchors; clusters that end empty are deleted."""

    def _draw_labels(self, parameters):
        log_weights = np.log(self._generator("weights").gamma(self.rows.counts))
        rule = score_rule(self.component, parameters, log_weights)
        kept = self.rows.redraw(rule, self._key("labels"), None)
        self.pivots = None if self.pivots is None else self.pivots[kept > 0]


class AttemptsByClusters(SplitMergeChain):
    """More attempts where there are more clusters."""

    def _sweep(self):
        self._split_and_merge(self.n_clusters**2, 0)


@pytest.mark.slow
def test_a_missing_volume_factor_is_seen():
    """On S^2 its posterior differs by a total variation of 0.1; the density itself is in test_mixture_components."""
    wide = COMPONENTS["wide tangent"]
    wrong = TangentComponent(3, wide.scale, wide.degrees, volume_factor=False)
    honest = run(wide, RestaurantChain, 6000, seed=2)
    assert honest.agrees, honest
    mistaken = run(wrong, RestaurantChain, 6000, seed=2, truth=wide)
    assert not mistaken.agrees, mistaken


@pytest.mark.parametrize(("wrong", "n_sweeps"), [(ForgetsArea, 300), (ForgetsProposal, 500)])
def test_a_missing_factor_of_the_evidence_is_seen(wrong, n_sweeps):
    # narrow clusters, whose means have densities well above 1
    honest = TangentComponent(3, 0.03, 5.0)
    result = run(wrong(3, 0.03, 5.0), NoLaunch, n_sweeps, spread=0.3, seed=3, truth=honest)
    assert not result.agrees, result


@pytest.mark.parametrize(
    ("wrong", "n_sweeps"), [(DeletesEmptied, 3000), pytest.param(AttemptsByClusters, 3000, marks=pytest.mark.slow)]
)
def test_moves_without_a_way_back_are_seen(wrong, n_sweeps):
    result = run(COMPONENTS["gaussian"], wrong, n_sweeps, seed=4)
    assert not result.agrees, result


# ---------------------------------------------------------------------------------------------- one attempt, exactly


def transitions(component, rows):
    """The matrix of one `random` attempt between all partitions, from the sampler's own ratios and probabilities."""
    listed = partitions(len(rows))
    number = {partition: i for i, partition in enumerate(listed)}
    matrix = np.zeros((len(listed), len(listed)))
    ratios = []
    honest, division = _split_merge.log_split_ratio, divisions.RandomDivision(ALPHA)

    def record(*values, **logs):
        ratios.append(honest(*values, **logs))
        return -np.inf if is_split else np.inf  # nothing is accepted

    rng = np.random.default_rng(0)
    with open_passes(as_points(rows, "test"), 1, "test") as passes, pytest.MonkeyPatch.context() as patch:
        patch.setattr(_split_merge, "log_split_ratio", record)
        patch.setattr(_split_merge, "is_hopeless", lambda *_: False)
        for partition in listed:
            labels = np.array(partition)
            clusters = clusters_of(passes, labels)
            moves = SplitMerge(component, clusters, None, ALPHA)
            here = number[partition]
            for k in range(len(clusters)):
                members = clusters.numbers(k)
                # the first row is left: each unordered division once
                for mask in range(2 ** (len(members) - 1) - 1):
                    is_left = np.array([True, *(bool(mask >> i & 1) for i in range(len(members) - 1))])
                    sides = CpuSides(is_left)
                    parts = Drawn.of(component, clusters.sets(k).parted([sides]), rng)
                    is_split = True
                    moves.propose_split(k, sides, division.log_probability(sides), parts, rng)
                    after = labels.copy()
                    after[members[~is_left]] = len(clusters)
                    chosen = 0.5 / len(clusters) * np.exp(division.log_probability(sides))
                    matrix[here, number[canonical(after)]] += chosen * min(1.0, np.exp(ratios[-1]))
            for first in range(len(clusters)):
                for second in range(first):
                    union = clusters.unions([(first, second)])
                    sides = union.where(0, clusters.labels, first)
                    whole = Drawn.of(component, union, rng)
                    is_split = False
                    moves._propose_merge(first, second, partial(division.log_probability, sides), whole, rng)
                    chosen = 0.5 * np.exp(moves._summaries.log_probability(first, second))
                    after = np.where(labels == second, first, labels)
                    matrix[here, number[canonical(after)]] += chosen * min(1.0, np.exp(-ratios[-1]))
    return listed, matrix + np.diag(1.0 - matrix.sum(axis=1))


@pytest.mark.parametrize("name", ["gaussian", "vmf"])
def test_an_attempt_keeps_the_posterior_to_rounding(name):
    component = COMPONENTS[name]
    rows = clumps(4, 5, component.n_features)
    listed, matrix = transitions(component, rows)
    exact = np.array([posterior(component, rows, crp_prior)[partition] for partition in listed])
    flows = exact[:, None] * matrix
    np.testing.assert_allclose(flows, flows.T, rtol=1e-8, atol=1e-14)
    assert np.all(np.linalg.matrix_power(matrix, 8) > 0.0)
    # three attempts in every state are as good as one; as many as there are clusters are not
    three = np.linalg.matrix_power(matrix, 3)
    np.testing.assert_allclose(exact @ three, exact, atol=1e-12)
    sizes = np.array([max(partition) + 1 for partition in listed])
    by_clusters = np.array([np.linalg.matrix_power(matrix, size)[i] for i, size in enumerate(sizes)])
    assert 0.5 * np.abs(exact @ by_clusters - exact).sum() > 0.003


def test_the_number_of_attempts_does_not_depend_on_the_state(monkeypatch):
    made = []
    honest = SplitMerge.attempt

    def count(self, kinds, generator):
        done, is_changed = honest(self, kinds, generator)
        made[-1] += kinds[:done]
        return done, is_changed

    monkeypatch.setattr(SplitMerge, "attempt", count)
    component, rows = COMPONENTS["gaussian"], clumps(4, 6, 3)
    with open_passes(as_points(rows, "test"), 1, "test") as passes:
        chain = SplitMergeChain(
            Setting(component, passes, Stream(1), n_attempts=3), clusters_of(passes, [0] * 6), None, 1.0
        )
        sizes = set()
        for _ in range(40):
            made.append([])
            sizes.add(chain.n_clusters)
            chain.step()
    assert len(sizes) > 1
    assert all(kinds == ["random"] * 3 + ["launch"] * 3 for kinds in made)


RATIOS = {
    "selection probabilities are left out": lambda honest: (
        lambda *values, **logs: honest(*values, **{**logs, "log_pair": 0.0, "log_choice": 0.0})
    ),
    "divisions are counted as ordered": lambda honest: lambda *values, **logs: honest(*values, **logs) - np.log(2.0),
    "Gamma factors are upside down": lambda honest: (
        lambda alpha, counts, *values, **logs: (
            honest(alpha, counts, *values, **logs)
            - 2.0 * float(gammaln(counts[0]) + gammaln(counts[1]) - gammaln(sum(counts)))
        )
    ),
}


@pytest.mark.parametrize("mistake", RATIOS)
def test_wrong_ratios_are_seen(mistake, monkeypatch):
    monkeypatch.setattr(_split_merge, "log_split_ratio", RATIOS[mistake](_split_merge.log_split_ratio))
    result = run(COMPONENTS["gaussian"], OnlyRandom, 3000, seed=5)
    assert not result.agrees, result


def test_the_printed_merge_ratio_is_seen(monkeypatch):
    """(24) as printed: the ratio of likelihoods is upside down, and the factor A is missing."""
    honest_ratio, honest_merge = _split_merge.log_split_ratio, SplitMerge._propose_merge

    def printed(alpha, counts, evidences, together, **logs):
        return honest_ratio(alpha, counts, (-evidences[0], -evidences[1]), -together, **logs)

    def merge(self, *proposal):
        with monkeypatch.context() as patch:
            patch.setattr(_split_merge, "log_split_ratio", printed)
            return honest_merge(self, *proposal)

    monkeypatch.setattr(SplitMerge, "_propose_merge", merge)
    result = run(COMPONENTS["gaussian"], OnlyRandom, 1500, seed=6)
    assert not result.agrees, result


@pytest.mark.parametrize("name", ["tangent", "gaussian"])
def test_subclusters_are_biased_and_that_is_known(name, monkeypatch):
    """The approximate sampler fails the same test where it proposes often; the module carries the numbers."""
    monkeypatch.setattr(_subclusters, "_SUB_BURN_IN", 1)
    result = run(COMPONENTS[name], SubclusterChain, 400, seed=7)
    assert not result.agrees, result
    assert result.total_variation > 0.3, result


@pytest.mark.slow
@pytest.mark.parametrize("name", ["tangent", "gaussian"])
def test_the_bias_of_subclusters_as_they_are(name):
    result = run(COMPONENTS[name], SubclusterChain, 20_000, n_rows=6, seed=7)
    print(name, "subclusters", result)  # noqa: T201
    assert 0.05 < result.total_variation < 0.4, result


# ---------------------------------------------------------------------------------------------- ratios


@pytest.mark.parametrize("kind", ["random", "launch"])
@pytest.mark.parametrize("name", ["tangent", "tangent on a circle", "gaussian", "vmf"])
def test_split_and_merge_ratios_are_reciprocal(name, kind, monkeypatch):
    """A split that is made, and the merge that would undo it, with the pivot that the whole had."""
    component = COMPONENTS[name]
    rows = clumps(8, 12, component.n_features)
    rng = np.random.default_rng(1)
    seen = []
    honest = _split_merge.log_split_ratio

    def record(*values, **logs):
        seen.append(honest(*values, **logs))
        return np.inf

    launch = divisions.launch
    monkeypatch.setattr(_split_merge, "log_split_ratio", record)
    monkeypatch.setattr(_split_merge, "is_hopeless", lambda *_: False)
    # the same launch for both: it is a function of the set and of chance
    monkeypatch.setattr(_split_merge, "launch", lambda c, sets, _: launch(c, sets, np.random.default_rng(7)))
    with open_passes(as_points(rows, "test"), 1, "test") as passes:
        clusters = clusters_of(passes, np.array([0, 0, 0, 0, 0, 0, 1, 1, 1, 2, 2, 2]))
        pivots = component.draw(clusters.sets(), rng)[0]
        whole = clusters.numbers(0).copy()
        moves = SplitMerge(component, clusters, pivots, ALPHA)
        planned = [_split_merge._Attempt(kind, (0,))]
        while not seen:
            (proposal,) = moves._proposed(planned, rng)
            if proposal is not None:
                assert moves._is_accepted(proposal, rng)
        assert len(clusters) == 4
        (back,) = moves._proposed([_split_merge._Attempt(kind, (0, 3))], rng)
        sets = clusters.unions([(0, 3)])
        own = None if pivots is None else pivots[:1]
        drawn = Drawn(own, component.evidence(own, sets), Summaries(component, *component.summary(sets)))
        monkeypatch.setattr(_split_merge, "log_split_ratio", lambda *v, **k: seen.append(honest(*v, **k)) or -np.inf)
        assert moves._is_accepted(back._replace(drawn=drawn), rng)
        np.testing.assert_array_equal(clusters.numbers(0), whole)
    assert len(clusters) == 3
    assert seen[0] == pytest.approx(seen[1], abs=1e-10)


@pytest.mark.parametrize("name", ["tangent", "gaussian"])
def test_attempts_made_at_once_are_those_made_one_by_one(name, monkeypatch):
    """Frequencies of moves do not depend on how many are proposed before one is decided."""
    results = []
    for at_once in (1, 10):
        monkeypatch.setattr(_split_merge, "_AT_ONCE", at_once)
        result = run(COMPONENTS[name], OnlyRandom4, 400, seed=8 + at_once)
        assert result.agrees, result
        results.append(result)
