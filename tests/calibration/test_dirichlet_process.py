"""The sampler of Dirichlet-process mixtures keeps the joint law of alpha, partition, means and rows (Geweke 2004).

Four rows on S^2. Rows given labels and means are drawn with covariances fresh from their prior. All tangent vectors
must be shorter than pi, which is the event that the model conditions on. Statistics do not depend on how clusters are
numbered.
"""

from __future__ import annotations

import numpy as np
import pytest

from armillary.diagnostics import joint_test
from armillary.distributions import inverse_wishart
from armillary.distributions.tangent_component import TangentComponent
from armillary.draws import Stream
from armillary.engines.select import open_passes
from armillary.fitting import divisions
from armillary.fitting.dirichlet_process import clusters_of
from armillary.geometry import sphere
from armillary.models.dirichlet_process._chains import AlphaPrior, Setting, SplitMergeChain
from armillary.points import as_points

FALSE_ALARM_RATE = 1e-6
N_ROWS = 4
PRIOR = AlphaPrior(2.0, 1.5)
COMPONENT = TangentComponent(3, 0.4, 6.0)
NAMES = (
    "alpha",
    "squared alpha",
    "clusters",
    "alpha times clusters",
    "rows 0 and 1 together",
    "sum of squared counts",
    "squared length of the total",
    "squared lengths of clusters",
    "cosine of rows 0 and 1 if together",
    "angle to the own mean",
    "squared angle to the own mean",
    "cosines of means",
)


def draw_partition(alpha, generator):
    labels = [0]
    for i in range(1, N_ROWS):
        counts = np.bincount(labels)
        shares = np.append(counts, alpha) / (i + alpha)
        labels.append(int(generator.choice(len(shares), p=shares)))
    return np.array(labels)


def draw_one(alpha, labels, means, generator):
    """Rows (N, 3) given labels and means, or None if a tangent vector was too long."""
    rows = np.empty((N_ROWS, 3))
    for k, mean in enumerate(means):
        covariance = inverse_wishart.draw(COMPONENT.scale * np.eye(2), COMPONENT.degrees, generator)
        members = np.flatnonzero(labels == k)
        tangents = generator.standard_normal((len(members), 2)) @ np.linalg.cholesky(covariance).T
        if np.any(np.linalg.norm(tangents, axis=1) >= np.pi):
            return None
        rows[members] = sphere.exp(tangents @ sphere.tangent_frame(mean).T, mean)
    return rows


def draw_parameters(n_chains):
    def draw_theta(generator):
        """alpha, labels and means from the prior, given that the rows they make stay within radius pi."""
        while True:
            alpha = generator.gamma(PRIOR.shape) / PRIOR.rate
            labels = draw_partition(alpha, generator)
            means = generator.standard_normal((labels.max() + 1, 3))
            means /= np.linalg.norm(means, axis=1, keepdims=True)
            if draw_one(alpha, labels, means, generator) is not None:
                return alpha, labels, means

    return lambda generator: [draw_theta(generator) for _ in range(n_chains)]


def draw_rows(theta, generator):
    found = []
    for one in theta:
        rows = None
        while rows is None:
            rows = draw_one(*one, generator)
        found.append(rows)
    return found


def invariants(theta, data):
    return np.array([_invariants(*one, rows) for one, rows in zip(theta, data, strict=True)])


def _invariants(alpha, labels, means, rows):
    indicators = (labels == np.arange(len(means))[:, None]).astype(float)
    counts, resultants = indicators.sum(axis=1), indicators @ rows
    together = float(labels[0] == labels[1])
    angles = sphere.angle(rows, means[labels])
    return (
        alpha,
        alpha**2,
        len(means),
        alpha * len(means),
        together,
        (counts**2).sum(),
        (rows.sum(axis=0) ** 2).sum(),
        (resultants**2).sum(),
        together * (rows[0] @ rows[1]),
        angles.mean(),
        (angles**2).mean(),
        float((means @ means.T).sum()),
    )


def transition_of(component=COMPONENT, prior=PRIOR, chain_class=SplitMergeChain):
    def transition(theta, data, generator):
        found = []
        for (alpha, labels, means), rows in zip(theta, data, strict=True):
            with open_passes(as_points(rows, "test"), 1, "test") as passes:
                setting = Setting(
                    component, passes, Stream(int(generator.integers(2**62))), n_attempts=1, alpha_prior=prior
                )
                chain = chain_class(setting, clusters_of(passes, labels), means, alpha, n_sweeps=1)
                chain._sweep()
            found.append((chain.alpha, chain.rows.labels.to_host().copy(), chain.pivots))
        return found

    return transition


def run_joint_test(transition, *, n_chains, n_steps, n_draws, n_batches, seed):
    return joint_test(
        draw_parameters(n_chains),
        draw_rows,
        transition,
        invariants,
        n_draws=n_draws,
        n_steps=n_steps,
        stream=Stream(seed),
        false_alarm_rate=FALSE_ALARM_RATE,
        n_batches=n_batches,
        names=NAMES,
    )


@pytest.fixture
def quick_launches(monkeypatch):
    monkeypatch.setattr(divisions, "_LAUNCH_STEPS", 1)


@pytest.mark.usefixtures("quick_launches")
def test_the_sampler_keeps_the_joint_law():
    result = run_joint_test(transition_of(), n_chains=12, n_steps=60, n_draws=120, n_batches=2, seed=1)
    assert result.is_passed, result


@pytest.mark.slow
def test_the_sampler_keeps_the_joint_law_over_many_steps():
    result = run_joint_test(transition_of(), n_chains=20, n_steps=1000, n_draws=2000, n_batches=5, seed=2)
    assert result.is_passed, result


class CountsTwoMore(AlphaPrior):
    def draw(self, alpha, n_clusters, n_rows, generator):
        return super().draw(alpha, n_clusters + 2, n_rows, generator)


class WideMeans(TangentComponent):
    """Proposals of (16) as printed: the covariance is not divided by n, and means are kept whatever they are."""

    def _step(self, means, sets, generator):
        proposal = self.proposal(sets)
        new = proposal._replace(lowers=proposal.lowers * np.sqrt(8.0)).draw(generator)
        return new, sets.tangent_sums(new).scatter


@pytest.mark.usefixtures("quick_launches")
@pytest.mark.parametrize(
    "wrong",
    [
        {"prior": CountsTwoMore(PRIOR.shape, PRIOR.rate)},
        {"component": WideMeans(3, 0.4, 6.0)},
    ],
    ids=["alpha counts two clusters more", "means without a ratio"],
)
def test_planted_mistakes_are_seen(wrong):
    result = run_joint_test(transition_of(**wrong), n_chains=12, n_steps=50, n_draws=100, n_batches=2, seed=3)
    assert not result.is_passed, result
