"""The GPU engine held to the CPU's: labels, sums, gate, draws, columns and whole fits, bit for bit where promised.

Cases are tiny: without a GPU Triton's interpreter runs them (`make test-gpu-interpreter`).
"""

import numpy as np
import pytest
from tests.gpu.here import WHY_NOT, has_cuda, is_interpreted

import armillary
from armillary import save
from armillary.engines.select import engine, engine_for, gpu_in_words
from armillary.exceptions import InputError, InputTypeError, ParameterError, RowError
from armillary.rules import AffineRule

pytestmark = pytest.mark.skipif(not has_cuda(), reason=WHY_NOT)


def unit(rng, n, d, dtype=np.float32):
    rows = rng.standard_normal((n, d))
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(dtype)


def opened(name, rows, weights=None):
    home = engine(name)
    return home.open(home.points(rows, "test", weights), 1, "test")


def both(rows, rule, weights=None, before=None):
    """Labels and outcomes of both engines."""
    found = []
    for name in ("cpu", "cuda"):
        with opened(name, rows, weights) as passes:
            labels = passes.labels() if before is None else passes.labels_from(before)
            outcome = passes.label(rule, labels)
            found.append((labels.to_host().copy(), outcome))
    return found


def assert_alike(found):
    (labels, one), (others, two) = found
    np.testing.assert_array_equal(others, labels)
    assert (two.n_moved, two.n_refused) == (one.n_moved, one.n_refused)
    np.testing.assert_array_equal(two.sums.counts, one.sums.counts)
    np.testing.assert_array_equal(two.sums.resultants, one.sums.resultants)


# shapes that meet every form: narrow, resident rows of each width, the flat loop, more than one tile of clusters
@pytest.mark.parametrize(
    ("n", "d", "k", "dtype"),
    [
        (130, 2, 3, np.float32),
        (64, 8, 5, np.float64),
        (64, 9, 4, np.float32),
        (140, 24, 6, np.float32),
        (64, 100, 130, np.float32),
        (64, 150, 20, np.float64),
        (1, 20, 1, np.float32),
    ],
)
def test_labels_and_sums_have_the_bits_of_the_cpu(n, d, k, dtype):
    rng = np.random.default_rng([n, d, k])
    rows = unit(rng, n, d, dtype)
    vectors = unit(rng, k, d, np.float64) * rng.gamma(3.0, size=(k, 1))
    rule = AffineRule(vectors, 0.3 * rng.standard_normal(k))
    assert_alike(both(rows, rule))
    weights = rng.gamma(1.0, size=n)
    refusing = AffineRule(vectors, rule.offsets, 0.4, rng.random(k) < 0.3)
    assert_alike(both(rows, refusing, weights, rng.integers(-1, k, n)))


@pytest.mark.parametrize("d", [3, 40])
def test_ties_go_to_the_smallest_cluster(d):
    rng = np.random.default_rng(d)
    directions = unit(rng, 6, d, np.float64)
    doubled = np.concatenate([directions, directions, directions + 1e-12 * rng.standard_normal((6, d))])
    found = both(unit(rng, 64, d), AffineRule.cosines(doubled))
    assert_alike(found)
    assert (found[1][0] % 18 < 18).all()
    same = both(unit(rng, 64, d), AffineRule.cosines(np.repeat(directions[:1], 9, axis=0)))
    assert_alike(same)
    assert not same[1][0].any()


def test_clusters_that_no_row_may_prefer_are_left_out():
    rng = np.random.default_rng(1)
    offsets = np.array([-np.inf, 0.0, -np.inf, 0.1])
    found = both(unit(rng, 64, 20), AffineRule(unit(rng, 4, 20, np.float64), offsets))
    assert_alike(found)
    assert set(found[1][0]) <= {1, 3}
    nobody = both(unit(rng, 64, 20), AffineRule(unit(rng, 4, 20, np.float64), np.full(4, -np.inf)))
    np.testing.assert_array_equal(nobody[1][0], nobody[0][0])


def test_room_for_pairs_grows_and_rows_are_settled_in_halves(monkeypatch):
    from armillary.kernels.gpu import start

    rng = np.random.default_rng(2)
    rows, rule = unit(rng, 60, 20), AffineRule.cosines(np.repeat(unit(rng, 2, 20, np.float64), 4, axis=0))
    for most in (1 << 27, 100):
        monkeypatch.setattr(start, "_FEWEST_PAIRS", 8)
        monkeypatch.setattr(start, "_MOST_PAIRS", most)
        assert_alike(both(rows, rule))


def test_rows_that_move_bring_sums_up_to_date():
    rng = np.random.default_rng(3)
    rows, weights = unit(rng, 200, 20), rng.gamma(1.0, size=200)
    rule = AffineRule.cosines(unit(rng, 5, 20, np.float64))
    with opened("cuda", rows, weights) as passes:
        labels = passes.labels()
        passes.label(rule, labels)
        passes.label(rule, labels)  # nothing moves: the next adds and takes away only what does
        turned = rule.directions + 0.05 * rng.standard_normal((5, 20))
        passes.move(labels, np.array([3, 5]), np.array([1, 2]))
        found = passes.label(AffineRule.cosines(turned / np.linalg.norm(turned, axis=1, keepdims=True)), labels)
        again = passes.sum(passes.labels_from(labels.to_host()), 5)
        assert 0 < found.n_moved < 200
        np.testing.assert_array_equal(found.sums.resultants, again.resultants)
        np.testing.assert_array_equal(found.sums.counts, again.counts)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.int8, np.int64])
@pytest.mark.parametrize("d", [3, 21])
def test_the_gate_has_the_bits_of_the_cpu(dtype, d):
    rng = np.random.default_rng([d, 7])
    rows = (30.0 * rng.standard_normal((50, d)) + 1.0).astype(dtype)
    if dtype in (np.float32, np.float64):
        rows[0] *= 1e-30
        rows[1] = unit(rng, 1, d, dtype)
    if dtype == np.float64:
        rows[2] *= 1e200
        rows[3] *= 1e-250
    blocks = []
    for name in ("cpu", "cuda"):
        with opened(name, rows) as passes:
            blocks.append(passes.rows(range(50)).block)
    assert blocks[1].dtype == blocks[0].dtype
    np.testing.assert_array_equal(blocks[1], blocks[0])


def test_uniforms_are_those_of_the_cpu():
    from armillary.kernels.gpu import start
    from armillary.kernels.rows.philox import fill_uniforms

    for key, first in (((3, 5), 0), ((2**32 - 1, 2**31 + 7), 2**33 + 11)):
        wanted = np.empty(40)
        fill_uniforms(key, first, 40, wanted)
        np.testing.assert_array_equal(start.uniforms(key, first, 40).cpu().numpy(), wanted)


@pytest.mark.parametrize("d", [3, 20])
def test_columns_are_lowered_to_the_best_of_many(d):
    rng = np.random.default_rng(d)
    rows, rule = unit(rng, 64, d), AffineRule.cosines(unit(rng, 7, d, np.float64))
    found = []
    for name in ("cpu", "cuda"):
        with opened(name, rows) as passes:
            column = passes.column(2.0, is_exact=True)
            passes.lower(column, rule, is_exact=True)
            found.append(column.to_host())
    np.testing.assert_array_equal(found[1], found[0])


MEANS = {
    "SphericalKMeans": lambda device: armillary.SphericalKMeans(3, random_state=0, max_iter=3, device=device),
    "DPvMFMeans": lambda device: armillary.DPvMFMeans(max_angle=0.7, max_iter=3, device=device),
    "DDPvMFMeans": lambda device: armillary.DDPvMFMeans(max_angle=0.7, device=device),
}
SOFT = {
    "VonMisesFisherMixture": lambda device: armillary.VonMisesFisherMixture(
        3, random_state=0, max_iter=3, device=device
    ),
    "BayesianVonMisesFisherMixture": lambda device: armillary.BayesianVonMisesFisherMixture(
        3, random_state=0, max_iter=3, device=device
    ),
    "TemporalVonMisesFisherMixture": lambda device: armillary.TemporalVonMisesFisherMixture(
        2, random_state=0, max_iter=3, device=device
    ),
    "SoftKMeans": lambda device: armillary.SoftKMeans(3, random_state=0, max_iter=3, device=device),
}


def grouped(d, n=64):
    rng = np.random.default_rng([d, 4])
    return (unit(rng, 4, d)[rng.integers(4, size=n)] + 0.3 / d**0.5 * rng.standard_normal((n, d))).astype(np.float32)


def fitted(make, device, rows):
    model = make(device)
    if isinstance(model, armillary.DDPvMFMeans):
        return model.partial_fit(rows).partial_fit(rows[::-1].copy())
    if isinstance(model, armillary.TemporalVonMisesFisherMixture):
        return model.fit(rows, times=np.arange(len(rows)) // 32)
    return model.fit(rows)


def file_of(model, path):
    model.set_params(device=None)
    save(model, path)
    return path.read_bytes()


@pytest.mark.filterwarnings("ignore:.*used all")
@pytest.mark.parametrize("d", [3, 32])
@pytest.mark.parametrize("name", list(MEANS))
def test_models_of_means_have_one_file_on_both(name, d, tmp_path):
    rows = grouped(d)
    models = [fitted(MEANS[name], device, rows) for device in ("cpu", "cuda")]
    assert [model.device_ for model in models] == ["cpu", "cuda"]
    np.testing.assert_array_equal(models[1].labels_, models[0].labels_)
    assert file_of(models[1], tmp_path / "gpu.model") == file_of(models[0], tmp_path / "cpu.model")
    np.testing.assert_array_equal(models[1].set_params(device="cuda").predict(rows), models[0].predict(rows))


@pytest.mark.filterwarnings("ignore:.*used all")
@pytest.mark.parametrize("d", [3, 32])
@pytest.mark.parametrize("name", list(SOFT))
def test_mixtures_agree(name, d):
    rows = grouped(d)
    one, two = (fitted(SOFT[name], device, rows) for device in ("cpu", "cuda"))
    np.testing.assert_array_equal(two.labels_, one.labels_)
    if hasattr(one, "predict_proba") and name != "TemporalVonMisesFisherMixture":
        np.testing.assert_allclose(two.predict_proba(rows), one.predict_proba(rows), atol=1e-4)


# ------------------------------------------------------------------------------------------------------ sentences


def test_what_has_no_form_says_so():
    rng = np.random.default_rng(0)
    rows = unit(rng, 40, 5)
    with pytest.raises(InputError, match=r"rows of counts have no passes on a GPU yet"):
        armillary.MultinomialMixture(2, device="cuda").fit(np.abs(rows))


def test_bad_rows_are_refused_with_the_sentences_of_the_cpu_and_the_model_stays():
    rng = np.random.default_rng(0)
    rows = unit(rng, 40, 20)
    model = armillary.SphericalKMeans(2, random_state=0, device="cuda").fit(rows)
    centers = model.cluster_centers_.copy()
    for number, value in ((7, np.nan), (9, np.inf)):
        bad = rows.copy()
        bad[number, 3] = value
        said = []
        for device in ("cpu", "cuda"):
            with pytest.raises(RowError) as caught:
                model.set_params(device=device).fit(bad)
            said.append(str(caught.value))
        assert said[0] == said[1]
    zero = rows.copy()
    zero[4] = 0.0
    with pytest.raises(RowError, match="Row 4 of X has norm 0"):
        model.fit(zero)
    with pytest.raises(InputError, match="X has 7 features"):
        model.predict(rows[:, :7])
    np.testing.assert_array_equal(model.cluster_centers_, centers)
    flagged = armillary.SphericalKMeans(2, random_state=0, device="cuda", missing="flag").fit(zero)
    assert flagged.labels_[4] == -1
    assert np.isnan(flagged.transform(zero)[4]).all()


def test_tensors_that_are_not_contiguous_and_other_types():
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    rows = unit(rng, 40, 20)
    wanted = armillary.SphericalKMeans(2, random_state=0, device="cpu").fit(rows)
    turned = torch.from_numpy(np.asfortranarray(rows)).to("cpu" if is_interpreted() else "cuda")
    assert not turned.is_contiguous()
    found = armillary.SphericalKMeans(2, random_state=0, device="cuda").fit(turned)
    np.testing.assert_array_equal(found.labels_, wanted.labels_)
    with pytest.raises(InputTypeError, match=r"must hold real numbers; got dtype torch\.complex64"):
        found.fit(turned.to(torch.complex64))
    with pytest.raises(InputError, match="must be a 2-D array"):
        found.fit(turned[0])


def test_memory_that_is_out_is_a_sentence(monkeypatch):
    torch = pytest.importorskip("torch")
    from armillary.engines import cuda_points

    def full(*_):
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 3 GiB.")

    rows = unit(np.random.default_rng(0), 40, 20)
    model = armillary.SphericalKMeans(2, random_state=0, device="cuda").fit(rows)
    before = model.labels_
    monkeypatch.setattr(cuda_points.start, "make_shadow", full)
    with pytest.raises(InputError, match=r"must fit into the memory of the GPU.*Give fewer rows"):
        model.fit(rows)
    assert model.labels_ is before


def test_a_kernel_that_does_not_compile_is_a_sentence(monkeypatch):
    from armillary.engines import cuda_points

    def broken(*_):
        raise cuda_points.start.KernelError("ptxas: Internal error")

    rows = unit(np.random.default_rng(0), 40, 20)
    model = armillary.SphericalKMeans(2, random_state=0, device="cuda").fit(rows)
    before = model.labels_
    monkeypatch.setattr(cuda_points.start, "make_shadow", broken)
    with pytest.raises(ParameterError, match=r"one of them was not, by triton .*Internal error. Use device='cpu'"):
        model.fit(rows)
    assert model.labels_ is before


def test_rows_beyond_32_bits_are_refused(monkeypatch):
    monkeypatch.setattr("armillary.engines.cuda_points.MOST_ROWS", 30)
    with pytest.raises(InputError, match=r"must have at most 30 rows on a GPU.*got 40\. Give them in parts"):
        armillary.SphericalKMeans(2, device="cuda").fit(unit(np.random.default_rng(0), 40, 3))


def test_where_rows_go():
    rows = unit(np.random.default_rng(0), 4, 3)
    assert gpu_in_words()[0]
    assert engine_for(rows, "auto").name == "cuda"
    assert engine_for(rows).name == "cpu"


def test_a_card_is_known_by_its_number(tmp_path):
    rows = unit(np.random.default_rng(0), 40, 3)
    model = armillary.SphericalKMeans(3, random_state=0, device="cuda:0").fit(rows)
    assert model.device_ == "cuda:0"
    np.testing.assert_array_equal(armillary.SphericalKMeans(3, random_state=0).fit(rows).labels_, model.labels_)
    with pytest.raises(ParameterError, match=r"got 'cuda:99'\. There are \d+ of them, counted from 0"):
        armillary.SphericalKMeans(3, device="cuda:99").fit(rows)


@pytest.mark.skipif(not is_interpreted(), reason="there is a GPU: see the next test")
@pytest.mark.filterwarnings("ignore:.*used all")
def test_answers_to_tensors_are_tensors(monkeypatch):
    torch = pytest.importorskip("torch")
    monkeypatch.setattr("armillary.engines.select._DLPACK_CUDA", 1)  # as if the CPU of torch were a GPU
    given = torch.from_numpy(unit(np.random.default_rng(0), 40, 3))
    model = armillary.DPvMFMeans(max_angle=1.0, max_iter=2).fit(given)
    assert model.device_ == "cuda"
    assert isinstance(model.labels_, np.ndarray)
    found = model.predict(given)
    assert isinstance(found, torch.Tensor)
    np.testing.assert_array_equal(found.numpy(), model.predict(given.numpy()))
    with pytest.raises(InputError, match="X of Links must be rows in memory"):
        armillary.Links().fit(given)


@pytest.mark.skipif(is_interpreted(), reason="needs a GPU")
def test_answers_have_the_kind_of_array_that_rows_came_in():
    torch = pytest.importorskip("torch")
    rows = unit(np.random.default_rng(0), 400, 20)
    given = torch.from_numpy(rows).cuda()
    model = armillary.SphericalKMeans(3, random_state=0).fit(given)
    assert model.device_ == "cuda"
    found = model.predict(given)
    assert isinstance(found, torch.Tensor)
    assert found.is_cuda
    np.testing.assert_array_equal(found.cpu().numpy(), model.labels_)
    assert model.transform(given).is_cuda
    assert isinstance(model.predict(rows), np.ndarray)
    with pytest.raises(ParameterError, match="must be None, 'auto' or 'cuda' for X of class Tensor"):
        armillary.SphericalKMeans(3, device="cpu").fit(given)
    cupy = pytest.importorskip("cupy")
    other = cupy.asarray(rows)
    assert isinstance(model.predict(other), cupy.ndarray)
    np.testing.assert_array_equal(cupy.asnumpy(model.predict(other)), model.labels_)


@pytest.mark.skipif(is_interpreted(), reason="needs a GPU")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_the_stream_that_is_current_is_used_and_memory_comes_back():
    torch = pytest.importorskip("torch")
    given = torch.randn((20_000, 64), device="cuda")
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    with torch.cuda.stream(torch.cuda.Stream()):
        one = armillary.SphericalKMeans(9, random_state=0, max_iter=5).fit(given)
    two = armillary.SphericalKMeans(9, random_state=0, max_iter=5).fit(given)
    np.testing.assert_array_equal(one.labels_, two.labels_)
    torch.cuda.synchronize()
    assert torch.cuda.memory_allocated() - before < 2**22
