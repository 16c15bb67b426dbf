"""CSR rows on a GPU held to the CPU's: gate, labels, sums, columns and whole fits, bit for bit where promised."""

import numpy as np
import pytest
import scipy.sparse as sp
from tests.gpu.here import WHY_NOT, has_cuda, is_interpreted
from tests.gpu.test_engine import MEANS, SOFT, assert_alike, both, file_of, fitted, opened, unit
from tests.gpu.test_sets import BRIEF

import armillary
from armillary import DirichletProcessMixture
from armillary.engines.contract import Gate
from armillary.engines.select import engine
from armillary.exceptions import InputError, RowError
from armillary.rules import AffineRule

pytestmark = pytest.mark.skipif(not has_cuda(), reason=WHY_NOT)


def documents(n=60, d=50, seed=0, dtype=np.float32, n_topics=4):
    """Rows of a few words of their topic and a few of any, the lengths of which differ."""
    rng = np.random.default_rng([seed, n, d])
    words = np.stack([rng.permutation(d)[: d // 2] for _ in range(n_topics)])
    rows = np.zeros((n, d))
    for row in rows:
        own = words[rng.integers(n_topics)]
        row[rng.choice(own, rng.integers(2, len(own)), replace=False)] = rng.gamma(2.0, size=1)
        row[rng.choice(d, 2)] += rng.random(2)
    return sp.csr_array(rows.astype(dtype))


@pytest.mark.parametrize(("d", "k", "dtype"), [(50, 5, np.float32), (9, 1, np.float64), (40, 70, np.float64)])
def test_labels_and_sums_have_the_bits_of_the_cpu(d, k, dtype):
    rng = np.random.default_rng([d, k])
    rows = documents(40, d, 1, dtype)
    vectors = unit(rng, k, d, np.float64) * rng.gamma(3.0, size=(k, 1))
    rule = AffineRule(vectors, 0.3 * rng.standard_normal(k))
    assert_alike(both(rows, rule))
    refusing = AffineRule(vectors, rule.offsets, 0.4, rng.random(k) < 0.3, rng.gamma(2.0, size=k))
    assert_alike(both(rows, refusing, rng.gamma(1.0, size=40), rng.integers(-1, k, 40)))


def test_ties_go_to_the_smallest_cluster():
    rng = np.random.default_rng(2)
    directions = unit(rng, 3, 50, np.float64)
    found = both(documents(), AffineRule.cosines(np.concatenate([directions, directions])))
    assert_alike(found)
    assert found[1][0].max() < 3


def test_rows_that_move_bring_sums_up_to_date():
    rng = np.random.default_rng(3)
    rows, weights = documents(), rng.gamma(1.0, size=60)
    rule = AffineRule.cosines(unit(rng, 5, 50, np.float64))
    with opened("cuda", rows, weights) as passes:
        labels = passes.labels()
        passes.label(rule, labels)
        passes.label(rule, labels)
        passes.move(labels, np.array([3, 5]), np.array([1, 2]))
        found = passes.label(rule, labels)
        again = passes.sum(passes.labels_from(labels.to_host()), 5)
        np.testing.assert_array_equal(found.sums.resultants, again.resultants)
        np.testing.assert_array_equal(found.sums.counts, again.counts)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32])
def test_the_gate_and_what_lies_beside_rows(dtype):
    rng = np.random.default_rng(4)
    rows = documents(dtype=np.float64)
    rows.data *= 30.0
    rows = rows.astype(dtype)
    rows.eliminate_zeros()
    rows = rows[np.diff(rows.indptr) > 0]
    if dtype == np.float64:
        rows.data[: rows.indptr[1]] *= 1e200
        rows.data[rows.indptr[1] : rows.indptr[2]] *= 1e-250
    rule = AffineRule.cosines(unit(rng, 3, 50, np.float64))
    found = []
    for name in ("cpu", "cuda"):
        with opened(name, rows) as passes:
            few = passes.rows(np.array([7, 0, 1])).block
            column, exact = passes.column(2.0), passes.column(2.0, is_exact=True)
            passes.lower(column, AffineRule.cosines(rule.directions[:1]))
            passes.lower(exact, rule, is_exact=True)
            labels = passes.labels_from(np.arange(passes.points.n_rows) % 3)
            assert passes.points.is_sparse
            found.append(
                [*few, column.to_host(), exact.to_host(), passes.left(column, rule), passes.unit_rows([5, 2]),
                 passes.own(rule, labels).to_host(), passes.inverse_lengths().to_host(), passes.points.width,
                 passes.values(rule, "scores"), passes.lowest(passes.groups(labels, 3), AffineRule.cosines(
                     rule.directions[:1]), [0, 2])]
            )  # fmt: skip
    for one, two in zip(*found, strict=True):
        np.testing.assert_array_equal(two, one)


@pytest.mark.parametrize("most", [1 << 27, 90])
def test_shares_agree_and_repeat(most, monkeypatch):
    from armillary.engines import cuda
    from armillary.kernels.gpu import start_sparse

    monkeypatch.setattr(start_sparse, "_SEGMENT", 4)
    monkeypatch.setattr(cuda, "_TABLE_VALUES", most)
    rng = np.random.default_rng(5)
    rows, weights = documents(), rng.gamma(1.0, size=60)
    rule = AffineRule(20.0 * unit(rng, 3, 50, np.float64), rng.standard_normal(3))
    with opened("cpu", rows, weights) as passes:
        wanted = passes.share(rule)
    with opened("cuda", rows, weights) as passes:
        found, again = passes.share(rule), passes.share(rule)
    np.testing.assert_allclose(found.sums.resultants, wanted.sums.resultants, atol=1e-9 * weights.sum())
    np.testing.assert_allclose(found.sums.counts, wanted.sums.counts, atol=1e-9 * weights.sum())
    np.testing.assert_allclose(found.evidence, wanted.evidence, rtol=1e-12)
    np.testing.assert_array_equal(found.sums.resultants, again.sums.resultants)


@pytest.mark.filterwarnings("ignore:.*used all")
@pytest.mark.parametrize("name", ["SphericalKMeans", "DPvMFMeans"])
def test_models_of_means_have_one_file_on_both(name, tmp_path):
    rows = documents()
    models = [fitted(MEANS[name], device, rows) for device in ("cpu", "cuda")]
    np.testing.assert_array_equal(models[1].labels_, models[0].labels_)
    assert file_of(models[1], tmp_path / "gpu.model") == file_of(models[0], tmp_path / "cpu.model")
    np.testing.assert_array_equal(models[1].set_params(device="cuda").predict(rows), models[0].predict(rows))


@pytest.mark.filterwarnings("ignore:.*used all")
def test_mixtures_agree():
    rows = documents()
    one, two = (fitted(SOFT["VonMisesFisherMixture"], device, rows) for device in ("cpu", "cuda"))
    np.testing.assert_array_equal(two.labels_, one.labels_)
    np.testing.assert_allclose(two.means_, one.means_, atol=1e-9)
    np.testing.assert_allclose(two.predict_proba(rows), one.predict_proba(rows), atol=1e-9)


@pytest.mark.filterwarnings("ignore:Sparse")
def test_sparse_tensors_are_taken_as_they_are_and_odd_ones_by_scipy():
    torch = pytest.importorskip("torch")
    rows = documents()
    place = "cpu" if is_interpreted() else "cuda"
    wanted = engine("cpu").points(rows, "test").matrix

    def made(data, indices, pointers):
        parts = (torch.from_numpy(np.array(part)).to(place) for part in (pointers, indices, data))
        return torch.sparse_csr_tensor(*parts, size=rows.shape, check_invariants=False)

    found = engine("cuda").points(made(rows.data, rows.indices, rows.indptr), "test")
    np.testing.assert_array_equal(found.matrix.data.cpu().numpy(), wanted.data)
    turned = rows.indices.copy()
    turned[[0, 1]] = turned[[1, 0]]
    values = rows.data.copy()
    values[[0, 1]] = values[[1, 0]]
    mended = engine("cuda").points(made(values, turned, rows.indptr), "test")
    np.testing.assert_array_equal(mended.matrix.indices.cpu().numpy(), rows.indices)
    outside = rows.indices.copy()
    outside[3] = 70
    with pytest.raises(InputError, match="70"):
        engine("cuda").points(made(rows.data, outside, rows.indptr), "test")
    bad = rows.data.copy()
    bad[rows.indptr[9]] = np.nan
    with pytest.raises(RowError, match="Row 9 of X contains NaN"):
        engine("cuda").points(made(bad, rows.indices, rows.indptr), "test")


@pytest.mark.parametrize("sampler", ["split_merge", "subclusters", "finite"])
def test_sets_that_split_and_merge_have_one_file_on_both(sampler, tmp_path):
    if is_interpreted() and sampler != "finite":
        pytest.skip("takes minutes in the interpreter, where the chain of moves has the same steps")
    rows = documents(80)
    one, two = (DirichletProcessMixture("vmf", sampler=sampler, device=device, **BRIEF) for device in ("cpu", "cuda"))
    np.testing.assert_array_equal(two.fit(rows).sample_labels_, one.fit(rows).sample_labels_)
    assert file_of(two, tmp_path / "gpu.model") == file_of(one, tmp_path / "cpu.model")


@pytest.mark.filterwarnings("ignore:Sparse")
def test_densities_of_dense_rows_refuse_a_sparse_tensor():
    torch = pytest.importorskip("torch")
    given = torch.from_numpy(documents().toarray()).to_sparse_csr()
    given = given if is_interpreted() else given.cuda()
    with pytest.raises(InputError, match=r"Sparse data was passed to .*'tangent_gaussian' needs dense rows"):
        DirichletProcessMixture(random_state=0, device="cuda").fit(given)


@pytest.mark.filterwarnings("ignore:Sparse")
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_halves_that_scipy_has_not_go_by_way_of_float32(dtype):
    torch = pytest.importorskip("torch")
    given = torch.from_numpy(documents(20).toarray()).to(getattr(torch, dtype)).to_sparse_csr()
    given = given if is_interpreted() else given.cuda()
    found = engine("cuda").points(given, "test", gate=Gate(allows_missing=True))
    wanted = engine("cpu").points(sp.csr_array(given.to_dense().float().cpu().numpy()), "test").matrix
    np.testing.assert_array_equal(found.matrix.data.cpu().numpy(), wanted.data)


@pytest.mark.filterwarnings("ignore:Sparse")
def test_sparse_tensors_of_the_host_go_where_its_csr_rows_go(monkeypatch):
    torch = pytest.importorskip("torch")
    from armillary.engines import cuda_sparse

    monkeypatch.setattr(cuda_sparse.start, "IS_INTERPRETED", False)
    given = torch.from_numpy(documents(20).toarray()).to_sparse_csr()
    assert cuda_sparse._is_at_home(given)
    assert cuda_sparse._is_at_home(documents(20))
    monkeypatch.setattr(cuda_sparse.start, "IS_INTERPRETED", True)
    assert not cuda_sparse._is_at_home(given)  # the CPU of torch is the device then


def test_missing_rows_and_rows_on_disk(tmp_path):
    rows = documents()
    rows.data[rows.indptr[4] : rows.indptr[5]] = 0.0
    one, two = (
        armillary.SphericalKMeans(2, random_state=0, device=device, missing="flag").fit(rows)
        for device in ("cpu", "cuda")
    )
    assert two.labels_[4] == -1
    np.testing.assert_array_equal(two.labels_, one.labels_)
    sp.save_npz(tmp_path / "rows.npz", documents(), compressed=False)
    opened_rows = armillary.open_rows(tmp_path / "rows.npz")
    found = armillary.SphericalKMeans(2, random_state=0, device="cuda").fit(opened_rows)
    np.testing.assert_array_equal(found.labels_, armillary.SphericalKMeans(2, random_state=0).fit(documents()).labels_)


@pytest.mark.skipif(not is_interpreted(), reason="there is a GPU: see the next test")
@pytest.mark.filterwarnings("ignore:Sparse")
def test_answers_to_sparse_tensors_are_tensors(monkeypatch):
    torch = pytest.importorskip("torch")
    monkeypatch.setattr("armillary.engines.select._DLPACK_CUDA", 1)  # as if the CPU of torch were a GPU
    rows = documents()
    given = torch.from_numpy(rows.toarray()).to_sparse_csr()
    model = armillary.SphericalKMeans(3, random_state=0, n_init=1).fit(given)
    assert model.device_ == "cuda"
    found = model.predict(given)
    assert isinstance(found, torch.Tensor)
    np.testing.assert_array_equal(found.numpy(), model.predict(rows))
    np.testing.assert_array_equal(model.predict(given.to_sparse_coo()).numpy(), found.numpy())


@pytest.mark.skipif(is_interpreted(), reason="needs a GPU")
@pytest.mark.filterwarnings("ignore:Sparse")
def test_answers_have_the_kind_of_array_that_rows_came_in():
    torch = pytest.importorskip("torch")
    rows = documents(300, 80)
    parts = (torch.from_numpy(np.array(part)).cuda() for part in (rows.indptr, rows.indices, rows.data))
    given = torch.sparse_csr_tensor(*parts, size=rows.shape)
    model = armillary.SphericalKMeans(3, random_state=0).fit(given)
    assert model.device_ == "cuda"
    assert model.predict(given).is_cuda
    np.testing.assert_array_equal(model.labels_, armillary.SphericalKMeans(3, random_state=0).fit(rows).labels_)
    cupyx = pytest.importorskip("cupyx.scipy.sparse")
    found = model.predict(cupyx.csr_matrix(sp.csr_matrix(rows)))
    np.testing.assert_array_equal(found.get(), model.labels_)
