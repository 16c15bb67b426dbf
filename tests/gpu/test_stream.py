"""Rows that a GPU has no room for: they go by in blocks, with the labels and the files of rows in memory."""

import logging

import numpy as np
import pytest
import scipy.sparse as sp
from tests.gpu.here import WHY_NOT, has_cuda, is_interpreted
from tests.gpu.test_engine import MEANS, SOFT, fitted, grouped, opened, unit
from tests.gpu.test_sets import BRIEF
from tests.gpu.test_sparse import documents

import armillary
from armillary import DirichletProcessMixture, save
from armillary.engines.contract import Between, Numbered
from armillary.exceptions import RowError
from armillary.rules import AffineRule

pytestmark = pytest.mark.skipif(not has_cuda(), reason=WHY_NOT)


@pytest.fixture
def _no_room(monkeypatch):
    """A device with room for a block of 1 KiB or two."""
    from armillary.engines import cuda_sources

    monkeypatch.setattr(cuda_sources, "free_bytes", lambda: 3000)
    monkeypatch.setattr(cuda_sources, "BLOCK_BYTES", 2048)


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
@pytest.mark.parametrize("sampler", ["split_merge", "subclusters", "finite"])
@pytest.mark.parametrize("kind", ["dense", "CSR"])
def test_sets_that_split_and_merge_go_by_in_blocks(kind, sampler, tmp_path, caplog):
    if is_interpreted() and sampler != "finite":
        pytest.skip("takes minutes in the interpreter, where the chain of moves has the same steps")
    rows = grouped(12, 64) if kind == "dense" else documents(60)
    found, wanted = (
        DirichletProcessMixture("vmf", sampler=sampler, device=device, **BRIEF) for device in ("cuda", "cpu")
    )
    with caplog.at_level(logging.INFO, logger="armillary.engines"):
        found.fit(rows)
    wanted.fit(rows)
    assert "go by in" in caplog.text
    np.testing.assert_array_equal(found.sample_labels_, wanted.sample_labels_)
    np.testing.assert_array_equal(found.predict(rows), wanted.predict(rows))
    assert file_of(found, tmp_path / "gpu.model") == file_of(wanted, tmp_path / "cpu.model")


@pytest.mark.usefixtures("_no_room")
def test_sets_hold_no_block_that_has_gone_by():
    from armillary.fitting.dirichlet_process import clusters_of

    with opened("cuda", grouped(10, 64)) as passes:
        sets = clusters_of(passes, np.arange(64) % 2).sets()
        wanted = sets.totals()
        sets.tangent_sums(np.eye(2, 10), with_curvature=True)
        held = [part._passes.points._belt._now for part in sets.parts]
        assert held[0] is held[1]  # one block is there, whatever sets were asked
        kept = [value for part in sets.parts for value in vars(part._pieces).values()]
        assert not any(getattr(value, "shape", ())[1:] == (10,) for value in kept)
        np.testing.assert_array_equal(sets.some([1]).totals(), wanted[1:])


@pytest.mark.usefixtures("_no_room")
@pytest.mark.parametrize("dtype", [np.float32, np.int32])
def test_csr_rows_have_the_bits_of_the_cpu(dtype):
    from armillary.engines.cuda_stream import SparseBlockPasses

    rng = np.random.default_rng(3)
    rows = documents(90)
    rows.data = np.maximum(1, 9.0 * rows.data).astype(dtype)
    rows = sp.csr_array(rows)
    weights = rng.gamma(1.0, size=90)
    rule = AffineRule(unit(rng, 5, 50, np.float64), 0.2 * rng.standard_normal(5), 0.1, rng.random(5) < 0.3)
    found = []
    for name in ("cpu", "cuda"):
        with opened(name, rows, weights) as passes:
            assert name == "cpu" or isinstance(passes.parts[1], SparseBlockPasses)
            labels, column = passes.labels(), passes.column(2.0)
            outcomes = [
                passes.label(rule, labels),
                passes.label(rule, labels),
                passes.label(rule, labels, span=(30, 70)),
            ]
            passes.lower(column, AffineRule.cosines(rule.directions[:1]))
            few, some = passes.rows(np.array([80, 3, 44])), passes.over(Between(20, 80))
            taken = passes.over(Numbered(np.array([2, 40, 41, 77])))
            assert passes.points.is_sparse
            found.append(
                [labels.to_host(), *(outcome.sums.resultants for outcome in outcomes), outcomes[0].n_refused,
                 column.to_host(), column.pick(np.array([0.1, 0.5, 0.9])), *few.block, passes.points.width,
                 passes.unit_rows([5, 2]), some.points.first_row, some.sum(None, 1).resultants,
                 taken.sum(None, 1).resultants, labels.refused(None, 9), passes.values(rule, "scores")]
            )  # fmt: skip
    for one, two in zip(*found, strict=True):
        np.testing.assert_array_equal(two, one)


@pytest.mark.filterwarnings("ignore:.*used all")
@pytest.mark.usefixtures("_no_room")
def test_models_of_csr_rows_agree_and_bad_rows_have_their_numbers(tmp_path):
    rows = documents(90)
    one, two = (fitted(MEANS["SphericalKMeans"], device, rows) for device in ("cpu", "cuda"))
    np.testing.assert_array_equal(two.labels_, one.labels_)
    assert file_of(two, tmp_path / "gpu.model") == file_of(one, tmp_path / "cpu.model")
    one, two = (fitted(SOFT["VonMisesFisherMixture"], device, rows) for device in ("cpu", "cuda"))
    np.testing.assert_array_equal(two.labels_, one.labels_)
    np.testing.assert_allclose(two.means_, one.means_, atol=1e-9)
    rows.data[rows.indptr[70]] = np.nan
    with pytest.raises(RowError, match="Row 70 of X contains NaN"):
        armillary.SphericalKMeans(2, random_state=0, device="cuda").fit(rows)
    flagged = armillary.SphericalKMeans(2, random_state=0, device="cuda", missing="flag").fit(rows)
    assert flagged.labels_[70] == -1
    np.testing.assert_array_equal(
        flagged.labels_, armillary.SphericalKMeans(2, random_state=0, missing="flag").fit(rows).labels_
    )


def test_blocks_of_csr_rows_have_whole_rows_and_empty_ones(monkeypatch):
    from armillary.engines import cuda_sources, cuda_stream
    from armillary.points import SparseBlock

    monkeypatch.setattr(cuda_sources, "BLOCK_BYTES", 200)
    lengths = np.array([0, 0, 3, 90, 0, 1, 2, 0, 0, 30, 0])
    pointers = np.append(0, np.cumsum(lengths)).astype(np.int32)
    indices = np.concatenate([np.arange(n) for n in lengths]).astype(np.int32)
    data = np.random.default_rng(0).random(lengths.sum()).astype(np.float32)
    for numbers in (None, np.array([1, 3, 4, 9, 10])):
        source = cuda_sources.CsrSource(SparseBlock(data, indices, pointers, 100), numbers)
        spans = source.spans()
        assert [first for first, _ in spans[1:]] == [last for _, last in spans[:-1]]
        assert spans[0][0] == 0
        assert spans[-1][1] == source.n_rows
        belt = cuda_stream.Belt("test")
        try:
            for number, span in enumerate(spans):
                raw = belt.raw(source, span, spans[(number + 1) % len(spans)]).raw
                wanted = source.gather(np.arange(*span))
                for one, two in zip(raw.to_host(), (wanted.data, wanted.indices, wanted.indptr), strict=True):
                    np.testing.assert_array_equal(one, two)
        finally:
            belt.close()


@pytest.mark.skipif(is_interpreted(), reason="needs a GPU")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_copies_overlap_and_memory_comes_back(monkeypatch):
    torch = pytest.importorskip("torch")
    from armillary.engines import cuda_sources

    monkeypatch.setattr(cuda_sources, "free_bytes", lambda: 1 << 24)
    monkeypatch.setattr(cuda_sources, "BLOCK_BYTES", 1 << 20)
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
