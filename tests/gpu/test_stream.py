"""Rows that a GPU has no room for: they go by in blocks, with the labels and the files of rows in memory."""

import logging

import numpy as np
import pytest
from tests.gpu.here import WHY_NOT, has_cuda, is_interpreted
from tests.gpu.test_engine import MEANS, SOFT, fitted, grouped, opened, unit

import armillary
from armillary import save
from armillary.exceptions import InputError, RowError
from armillary.rules import AffineRule

pytestmark = pytest.mark.skipif(not has_cuda(), reason=WHY_NOT)


@pytest.fixture
def _no_room(monkeypatch):
    """A device with room for a block of 1 KiB or two."""
    from armillary.engines import cuda_stream

    monkeypatch.setattr(cuda_stream, "free_bytes", lambda: 3000)
    monkeypatch.setattr(cuda_stream, "BLOCK_BYTES", 2048)


def file_of(model, path):
    model.set_params(device=None)
    save(model, path)
    return path.read_bytes()


def stored(rows, tmp_path, n_files=2):
    for number, part in enumerate(np.array_split(rows, n_files)):
        np.save(tmp_path / f"part-{number}.npy", part)
    return armillary.open_rows(tmp_path / "part-*.npy")


@pytest.mark.usefixtures("_no_room")
@pytest.mark.parametrize("has_weights", [False, True])
def test_passes_have_the_bits_of_the_cpu(has_weights):
    from armillary.engines.cuda_stream import StreamedPasses

    rng = np.random.default_rng(3)
    rows, k = unit(rng, 90, 20, np.float16), 5
    weights = rng.gamma(1.0, size=90) if has_weights else None
    rule = AffineRule(unit(rng, k, 20, np.float64), 0.2 * rng.standard_normal(k), 0.1, rng.random(k) < 0.3)
    found = []
    for name in ("cpu", "cuda"):
        with opened(name, rows, weights) as passes:
            assert name == "cpu" or (isinstance(passes, StreamedPasses) and len(passes.parts) == 2)
            labels, column = passes.labels(), passes.column(2.0)
            outcomes = [passes.label(rule, labels), passes.label(rule, labels, span=(30, 70))]
            passes.lower(column, AffineRule.cosines(rule.directions[:1]))
            left = passes.left(column, AffineRule.cosines(rule.directions))
            few = passes.rows(np.array([80, 3, 44]))
            some = passes.over(armillary.engines.contract.Between(20, 80))
            found.append(
                [labels.to_host(), *(outcome.sums.resultants for outcome in outcomes), outcomes[0].n_refused,
                 column.to_host(), column.pick(np.array([0.1, 0.5, 0.9])), left, few.block,
                 some.points.first_row, some.sum(None, 1).resultants, labels.refused(None, 9),
                 labels.first_rows(np.ones(k, bool)), passes.choose(4, np.random.default_rng(1))]
            )  # fmt: skip
    for one, two in zip(*found, strict=True):
        np.testing.assert_array_equal(two, one)


@pytest.mark.filterwarnings("ignore:.*used all")
@pytest.mark.usefixtures("_no_room")
@pytest.mark.parametrize("name", ["SphericalKMeans", "DPvMFMeans"])
@pytest.mark.parametrize("kind", ["float32 in memory", "float16 map", "float16 files"])
def test_models_of_means_have_one_file_wherever_rows_are(name, kind, tmp_path, caplog):
    rows = grouped(32, 64) if kind.startswith("float32") else grouped(32, 64).astype(np.float16)
    given = rows
    if kind == "float16 map":
        np.save(tmp_path / "rows.npy", rows)
        given = np.load(tmp_path / "rows.npy", mmap_mode="r")
    if kind == "float16 files":
        given = stored(rows, tmp_path)
    wanted = fitted(MEANS[name], "cpu", rows)
    with caplog.at_level(logging.INFO, logger="armillary.engines"):
        found = fitted(MEANS[name], "cuda", given)
    assert "go by in" in caplog.text
    assert found.device_ == "cuda"
    np.testing.assert_array_equal(found.labels_, wanted.labels_)
    assert file_of(found, tmp_path / "gpu.model") == file_of(wanted, tmp_path / "cpu.model")
    predicted = found.set_params(device="cuda").predict(given)
    assert isinstance(predicted, np.ndarray)
    np.testing.assert_array_equal(predicted, wanted.predict(rows))


@pytest.mark.filterwarnings("ignore:.*used all")
@pytest.mark.usefixtures("_no_room")
def test_mixtures_agree(tmp_path):
    rows = grouped(32)
    one = fitted(SOFT["VonMisesFisherMixture"], "cpu", rows)
    two = fitted(SOFT["VonMisesFisherMixture"], "cuda", stored(rows, tmp_path))
    np.testing.assert_array_equal(two.labels_, one.labels_)
    np.testing.assert_allclose(two.means_, one.means_, atol=1e-5)
    np.testing.assert_allclose(two.predict_proba(rows), one.predict_proba(rows), atol=1e-4)


def test_rows_on_disk_that_fit_are_read_once(tmp_path):
    from armillary.engines.cuda_points import CudaPoints
    from armillary.engines.select import checked_points

    rows = grouped(12, 40).astype(np.float16)
    points = checked_points(stored(rows, tmp_path), "test", device="cuda")
    assert isinstance(points, CudaPoints)
    np.testing.assert_array_equal(points.matrix.cpu().numpy(), opened("cpu", rows).__enter__().rows(range(40)).block)


@pytest.mark.usefixtures("_no_room")
def test_a_bad_row_is_told_by_its_number_and_its_file(tmp_path):
    rows = grouped(32)
    rows[50, 3] = np.nan
    with pytest.raises(RowError, match=r"Row 50 of X contains NaN"):
        armillary.SphericalKMeans(2, random_state=0, device="cuda").fit(rows)
    with pytest.raises(RowError, match=r"Row 50 of X .*row 18 of '.*part-1.npy'.* contains NaN"):
        armillary.SphericalKMeans(2, random_state=0, device="cuda").fit(stored(rows, tmp_path))
    flagged = armillary.SphericalKMeans(2, random_state=0, device="cuda", missing="flag").fit(rows)
    wanted = armillary.SphericalKMeans(2, random_state=0, missing="flag").fit(rows)
    np.testing.assert_array_equal(flagged.labels_, wanted.labels_)
    assert flagged.labels_[50] == -1


@pytest.mark.usefixtures("_no_room")
def test_what_has_no_form_in_blocks_says_so():
    with pytest.raises(InputError, match=r"sets of rows that split and merge have no form there for rows that go by"):
        armillary.DirichletProcessMixture(random_state=0, device="cuda").fit(grouped(5, 300))


@pytest.mark.skipif(is_interpreted(), reason="needs a GPU")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_copies_overlap_and_memory_comes_back(monkeypatch):
    torch = pytest.importorskip("torch")
    from armillary.engines import cuda_stream

    monkeypatch.setattr(cuda_stream, "free_bytes", lambda: 1 << 24)
    monkeypatch.setattr(cuda_stream, "BLOCK_BYTES", 1 << 20)
    rows = unit(np.random.default_rng(0), 100_000, 64)
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    found = armillary.SphericalKMeans(9, random_state=0, max_iter=5, n_init=1, device="cuda").fit(rows)
    wanted = armillary.SphericalKMeans(9, random_state=0, max_iter=5, n_init=1).fit(rows)
    np.testing.assert_array_equal(found.labels_, wanted.labels_)
    np.testing.assert_array_equal(found.cluster_centers_, wanted.cluster_centers_)
    torch.cuda.synchronize()
    assert torch.cuda.memory_allocated() - before < 2**22
    pinned = torch.from_numpy(rows).pin_memory()
    np.testing.assert_array_equal(found.predict(pinned), wanted.labels_)
