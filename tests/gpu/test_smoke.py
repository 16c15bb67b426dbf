"""Kernels of the GPU once each, but those of sets, on tiny cases held to the reference: what `make test` runs.

At most 64 rows of 64 columns and 32 clusters, three steps a model, but for the one filter of wider rows. The oracle is
in NumPy, so that nothing is compiled.
"""

import numpy as np
import pytest
import scipy.sparse as sp
from tests.gpu.here import WHY_NOT, has_cuda
from tests.gpu.test_engine import MEANS, SOFT, assert_alike, fitted, grouped, opened, unit

from armillary.kernels.select import kernels_for
from armillary.rules import AffineRule

pytestmark = [pytest.mark.smoke, pytest.mark.skipif(not has_cuda(), reason=WHY_NOT)]
ENGINES = ("reference", "cuda")


class Counted:
    """A kernel that says when it is started."""

    def __init__(self, name, kernel, started):
        self._name, self._kernel, self._started = name, kernel, started

    def __getitem__(self, grid):
        self._started.add(self._name)
        return self._kernel[grid]


def kernels():
    """All that are started from the host, by module and name."""
    from armillary.kernels.gpu import choose, draws, exact, frames, soft, sparse, sums

    modules = (
        choose,
        draws,
        exact,
        frames,
        soft,
        sparse,
        sums,
    )  # those of sets are in test_sets.py, which takes minutes here
    return {
        (module, name): kernel
        for module in modules
        for name, kernel in vars(module).items()
        if hasattr(kernel, "fn") and not name.startswith("_")
    }


def rules(rng, k, d):
    vectors = unit(rng, k, d, np.float64) * rng.gamma(3.0, size=(k, 1))
    return AffineRule(vectors, 0.3 * rng.standard_normal(k), 0.4, rng.random(k) < 0.3)


def labelled(rows, rule, weights):
    found = []
    for name in ENGINES:
        with opened(name, rows, weights) as passes:
            labels = passes.labels()
            found.append((labels.to_host().copy(), passes.label(rule, labels)))
    return found


def beside(name, rows, rule, weights):
    """What other passes find; the column last, whose float32 scores NumPy sums in an order of its own."""
    n_clusters = len(rule.offsets)
    one = AffineRule.cosines(rule.directions[:1])
    with opened(name, rows, weights) as passes:
        labels, column = passes.labels(), passes.column(2.0)
        for _ in range(3):
            passes.label(rule, labels)
        passes.move(labels, np.array([1, 3]), np.array([0, 2]))
        passes.lower(column, one)
        wanted = np.ones(n_clusters, bool)
        return [
            passes.label(rule, labels).sums.resultants,
            labels.first_rows(wanted),
            labels.last_rows(wanted),
            labels.to_host(7 * np.arange(n_clusters)),
            passes.name(rule, 3 * np.arange(n_clusters)),
            passes.own(rule, passes.labels_from(np.arange(len(weights)) % n_clusters)).to_host(),
            passes.inverse_lengths().to_host(),
            column.to_host(),
        ]


def test_every_kernel_has_the_bits_of_the_reference(monkeypatch):
    from armillary.engines import cuda_sources
    from armillary.kernels.gpu import start, start_frames

    started, known = set(), kernels()
    for (module, name), kernel in known.items():
        monkeypatch.setattr(module, name, Counted((module, name), kernel, started))
    rng = np.random.default_rng(0)
    weights = rng.gamma(1.0, size=64)
    mostly_zeros = unit(rng, 64, 60)
    mostly_zeros[rng.random((64, 60)) < 0.8] = 0.0
    mostly_zeros[:, 0] += 0.1
    for rows in (unit(rng, 64, 3), 2.0 * unit(rng, 64, 40), unit(rng, 64, 130), sp.csr_array(mostly_zeros)):
        rule = rules(rng, 5, rows.shape[1])
        assert_alike(labelled(rows, rule, weights))
        wanted, found = (beside(name, rows, rule, weights) for name in ENGINES)
        np.testing.assert_allclose(found.pop(), wanted.pop(), atol=1e-6)
        for one, two in zip(wanted, found, strict=True):
            np.testing.assert_array_equal(two, one)
    scores = []
    for name in ENGINES:
        with opened(name, sp.csr_array(mostly_zeros), weights) as passes:
            scores.append(passes.values(rules(np.random.default_rng(1), 5, 60), "scores"))
    np.testing.assert_allclose(*scores, atol=1e-6)
    with monkeypatch.context() as patch:  # narrow rows with many clusters
        patch.setattr(start_frames, "FEW_CLUSTERS", 0)
        rows, rule = unit(rng, 64, 3), rules(rng, 5, 3)
        assert_alike(labelled(rows, rule, weights))
        for one, two in zip(*(beside(name, rows, rule, weights) for name in ENGINES), strict=True):
            np.testing.assert_array_equal(two, one)
    rows, rule = unit(rng, 64, 40), rules(rng, 32, 40)
    with monkeypatch.context() as patch:
        patch.setattr(start, "has_descriptors", lambda: False)
        assert_alike(labelled(rows, rule, weights))
    with monkeypatch.context() as patch:
        patch.setattr(cuda_sources, "free_bytes", lambda: 0)
        patch.setattr(cuda_sources, "BLOCK_BYTES", 2000)
        assert_alike(labelled(rows.astype(np.float16), rule, weights))
    soft = []
    for name in ENGINES:
        with opened(name, rows, weights) as passes:
            labels = passes.labels_from(np.arange(64) % 32)
            passes.draw(rule, labels, (3, 5))
            soft.append((passes.share(rule), passes.values(rule, "scores"), labels.to_host()))
    np.testing.assert_allclose(soft[1][0].sums.resultants, soft[0][0].sums.resultants, atol=1e-5 * weights.sum())
    np.testing.assert_allclose(soft[1][1], soft[0][1], atol=1e-5)
    np.testing.assert_array_equal(soft[1][2], soft[0][2])
    with opened("cuda", rows) as passes:
        passes.label(rule, passes.labels())
        found = passes.points.scratch.found.clone()
        passes.chooser.brute(start.DeviceRule.of(rule), (0, 64), is_plain=True)
        np.testing.assert_array_equal(found.cpu().numpy(), passes.points.scratch.found.cpu().numpy())
    assert {f"{module.__name__}.{name}" for module, name in set(known) - started} == set()


@pytest.mark.filterwarnings("ignore:.*used all")
@pytest.mark.parametrize("name", [*MEANS, "VonMisesFisherMixture"])
def test_models_agree_with_the_reference(name, monkeypatch):
    from armillary.engines.cuda import CudaPasses

    monkeypatch.setattr(CudaPasses, "host", kernels_for("reference"))
    make = {**MEANS, **SOFT}[name]
    one, two = (fitted(make, device, grouped(20, 48)) for device in ENGINES)
    np.testing.assert_array_equal(two.labels_, one.labels_)
