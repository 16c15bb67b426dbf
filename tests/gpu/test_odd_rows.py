"""Rows, tensors, rules and cards that are not as one expects: the labels of the CPU, or a sentence."""

import numpy as np
import pytest
from tests.gpu.here import WHY_NOT, has_cuda, is_interpreted
from tests.gpu.test_engine import assert_alike, both, opened, unit
from tests.gpu.test_sets import rules

import armillary
from armillary.engines.select import engine
from armillary.exceptions import InputError, InputTypeError, ParameterError
from armillary.rules import AffineRule

pytestmark = pytest.mark.skipif(not has_cuda(), reason=WHY_NOT)


class OnCard:
    """An array on another card, as CuPy and JAX say it."""

    shape = (4, 3)

    def __init__(self, card):
        self.card = card

    def __dlpack_device__(self):
        return 2, self.card

    def __dlpack__(self, **_):
        raise BufferError("Negative strides are not supported")


# ------------------------------------------------------------------------------------------------------------- rules


@pytest.mark.parametrize("length", [1e-60, 1e-200])
def test_offsets_decide_where_vectors_are_next_to_nothing(length):
    rng = np.random.default_rng(0)
    found = both(unit(rng, 64, 20), AffineRule(length * unit(rng, 4, 20, np.float64), np.array([0.3, -2.0, 0.7, 0.1])))
    assert_alike(found)
    assert (found[1][0] == 2).all()


def test_offsets_may_be_larger_than_float32_has():
    rng = np.random.default_rng(0)
    assert_alike(
        both(unit(rng, 64, 20), AffineRule(unit(rng, 4, 20, np.float64), np.array([1e300, -1e300, 1e300, 0.0])))
    )


@pytest.mark.skipif(is_interpreted(), reason="takes half a minute in the interpreter")
def test_the_widest_rows():
    rng = np.random.default_rng(0)
    assert_alike(both(unit(rng, 3, 8192), AffineRule.cosines(unit(rng, 2, 8192, np.float64))))


def test_pairs_are_counted_no_further_than_an_integer_goes(monkeypatch):
    from armillary.kernels.gpu import start

    counted = []
    monkeypatch.setattr(start, "_FEWEST_PAIRS", 8)
    monkeypatch.setattr(start, "_ROWS", 16)
    monkeypatch.setattr(start, "_MOST_PAIRS", 100)
    monkeypatch.setattr(start, "_ENOUGH_PAIRS", 150)
    as_before = start.Chooser._counted

    def seen(self):
        counted.append(as_before(self))
        return counted[-1]

    monkeypatch.setattr(start.Chooser, "_counted", seen)
    rng = np.random.default_rng(0)
    rows, rule = np.repeat(unit(rng, 1, 20), 60, axis=0), AffineRule.cosines(np.repeat(np.eye(1, 20), 9, axis=0))
    assert_alike(both(rows, rule))
    assert 150 <= counted[0].n_pairs < 60 * 9  # programs of 16 rows add 144 at once


def test_launches_across_are_cut_where_cuda_ends_them(monkeypatch):
    from armillary.kernels.gpu import start

    rng = np.random.default_rng(0)
    tangent, _, means = rules(5, rng)
    rows, found = unit(rng, 40, 5, np.float64), []
    for most in (start.MOST_ACROSS, 2):
        monkeypatch.setattr(start, "MOST_ACROSS", most)
        with opened("cuda", rows) as passes:
            sets = passes.partition(passes.labels_from(np.arange(40) % 2)).sets()
            limbs = sets.tangent_limbs(means[:2].copy(), with_scatter=True, with_curvature=True)
            found.append([limbs, sets.scatters(0.5 * means[:2]), passes.values(tangent, Raw())])
        wide = start.to_device(unit(rng.spawn(1)[0], 9, 20, np.float64))
        given = start.DeviceRule.of(AffineRule(unit(np.random.default_rng(1), 5, 20, np.float64), np.arange(5.0)))
        np.testing.assert_allclose(
            start.row_scores(wide, given).cpu().numpy(), wide.cpu().numpy() @ given.rule.vectors.T + np.arange(5.0)
        )
    for one, two in zip(*found, strict=True):
        np.testing.assert_array_equal(two, one)


class Raw:
    """The scores of each row."""

    def of(self, scores, here):
        return scores


# --------------------------------------------------------------------------------------------------- weights, shares


def test_weights_of_any_size_share_rows_by_more_clusters_than_one_program_has(monkeypatch):
    from armillary.kernels.gpu import start

    monkeypatch.setattr(start, "MOST_SHARED", 1)
    rng = np.random.default_rng(0)
    rows, weights = unit(rng, 40, 20), rng.gamma(1.0, size=40) * 1e200
    rule = AffineRule(9.0 * unit(rng, 3, 20, np.float64), rng.standard_normal(3))
    found = []
    for name in ("cpu", "cuda"):
        with opened(name, rows, weights) as passes:
            found.append(passes.share(rule))
    np.testing.assert_allclose(found[1].sums.counts, found[0].sums.counts, rtol=1e-4)
    np.testing.assert_allclose(found[1].sums.resultants, found[0].sums.resultants, atol=1e-4 * weights.sum())
    np.testing.assert_allclose(found[1].evidence, found[0].evidence, rtol=1e-5)


@pytest.mark.parametrize("slope", [9.0, 1e9])
def test_rows_are_not_widened_all_at_once_for_few_clusters(slope, monkeypatch):
    from armillary.engines import cuda

    monkeypatch.setattr(cuda, "_TABLE_VALUES", 2000)
    rng = np.random.default_rng(0)
    rows, taken = unit(rng, 90, 64), []
    as_before = cuda.CudaPasses._rows_of

    def seen(self, part):
        taken.append(part.stop - part.start)
        return as_before(self, part)

    monkeypatch.setattr(cuda.CudaPasses, "_rows_of", seen)
    rule = AffineRule(slope * unit(rng, 2, 64, np.float64), np.zeros(2))
    with opened("cuda", rows) as passes:
        found = passes.share(rule), passes.evidence(rule)
    with opened("cpu", rows) as passes:
        np.testing.assert_allclose(found[0].sums.counts, passes.share(rule).sums.counts, atol=1e-3)
        np.testing.assert_allclose(found[1], passes.evidence(rule), rtol=1e-5)
    assert max(taken) * 64 <= 2000


def test_odds_copy_some_rows_at_a_time(monkeypatch):
    from armillary.engines import cuda_sets

    rng = np.random.default_rng(0)
    rows, found = unit(rng, 50, 24), []
    rule = AffineRule(unit(rng, 4, 24, np.float64), rng.standard_normal(4))
    for most in (1 << 26, 24 * 7):
        monkeypatch.setattr(cuda_sets, "_COPIED_VALUES", most)
        with opened("cuda", rows) as passes:
            found.append(passes.partition(passes.labels_from(np.arange(50) % 2)).sets().log_odds(rule))
    np.testing.assert_array_equal(found[1], found[0])


# ------------------------------------------------------------------------------------------------------------ tensors


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint8", "bfloat16"])
def test_missing_rows_of_any_type(dtype):
    torch = pytest.importorskip("torch")
    rows = np.abs(np.random.default_rng(0).integers(-3, 4, (40, 5)))
    rows[7], rows[9] = 0, [1, 0, 0, 0, 0]
    given = torch.from_numpy(rows).to(getattr(torch, dtype))
    if dtype == "int8":
        given[9, 0] = -128  # the absolute value of which int8 does not have
    place = given if is_interpreted() else given.cuda()
    model = armillary.SphericalKMeans(2, random_state=0, n_init=1, device="cuda", missing="flag").fit(place)
    wanted = armillary.SphericalKMeans(2, random_state=0, n_init=1, missing="flag").fit(given.float().numpy())
    assert model.labels_[9] >= 0
    np.testing.assert_array_equal(model.labels_, wanted.labels_)


def test_weights_may_be_bfloat16_and_want_a_gradient():
    torch = pytest.importorskip("torch")
    rows = torch.from_numpy(unit(np.random.default_rng(0), 40, 20)).requires_grad_()
    weights = torch.full((40,), 2.0, dtype=torch.bfloat16, requires_grad=True)
    points = engine("cuda").points(rows, "test", weights)
    assert not points.matrix.requires_grad
    assert points.total_weight == 80.0


@pytest.mark.filterwarnings("ignore:Sparse")
def test_layouts_that_are_no_rows_are_refused():
    torch = pytest.importorskip("torch")
    blocks = torch.eye(4).to_sparse_bsr((2, 2))
    with pytest.raises(InputTypeError, match=r"must be a dense tensor, or one in CSR, CSC or COO; got the layout"):
        engine("cuda").points(blocks, "test")


@pytest.mark.filterwarnings("ignore:Sparse")
def test_tensors_of_the_host_that_numpy_has_not_are_no_large_arrays(monkeypatch):
    torch = pytest.importorskip("torch")
    from armillary.engines import cuda_stream

    monkeypatch.setattr(cuda_stream.start, "IS_INTERPRETED", False)
    monkeypatch.setattr(cuda_stream, "fits", lambda *_: False)
    for odd in (torch.eye(4).to_sparse_csr(), torch.eye(4, dtype=torch.bfloat16), torch.eye(4).to(torch.uint16)):
        assert cuda_stream._large_array(odd) is None
    assert cuda_stream._large_array(torch.eye(4)) is not None


# ----------------------------------------------------------------------------------------------------- cards, drivers


def test_rows_on_another_card_are_known_by_dlpack():
    from armillary.engines.cuda import CudaEngine, _place_of

    assert str(_place_of(OnCard(1))) == "cuda:1"
    assert _place_of(np.eye(3)) is None
    with pytest.raises(InputError, match=r"got rows on cuda:1 and device='cuda:0'"):
        CudaEngine(0).points(OnCard(1), "test")


def test_arrays_that_torch_does_not_take_are_a_sentence(monkeypatch):
    torch = pytest.importorskip("torch")
    from armillary.engines.cuda_points import from_device

    monkeypatch.setattr(torch, "from_dlpack", lambda given: given.__dlpack__())  # it would start the driver
    with pytest.raises(
        InputTypeError, match=r"got OnCard, of which it says: Negative strides.* Make a copy in C order"
    ):
        from_device(OnCard(0), "test")


def test_what_dlpack_does_not_take_goes_by_the_other_way(monkeypatch):
    torch = pytest.importorskip("torch")
    from armillary.engines.cuda_points import from_device

    class Both(OnCard):
        __cuda_array_interface__ = ()

    monkeypatch.setattr(torch, "from_dlpack", lambda given: given.__dlpack__())
    monkeypatch.setattr(torch, "as_tensor", lambda given, device: (type(given), device.type))
    assert from_device(Both(0), "test")[0] is Both


def test_each_card_says_itself_what_it_can(monkeypatch):
    torch = pytest.importorskip("torch")
    from armillary.kernels.gpu import start

    cards = [(9, 0), (8, 0)]
    monkeypatch.setattr(start, "IS_INTERPRETED", False)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda card=None: cards[now[0] if card is None else card])
    monkeypatch.setattr(torch.cuda, "current_device", lambda: now[0])
    now = [0]
    start._generation.cache_clear()
    assert start.has_descriptors()
    now[0] = 1
    assert not start.has_descriptors()
    start._generation.cache_clear()


@pytest.mark.parametrize(
    ("said", "kind", "sentence"),
    [
        ("Triton Error [CUDA]: out of memory", InputError, "must leave room on the GPU"),
        ("CUDA error: out of memory\nCompile with", InputError, "must leave room on the GPU"),
        ("Failed to find C compiler. Please specify via CC.", ParameterError, r"specify via CC\. Use device='cpu'"),
        ("PassManager::run failed", ParameterError, r"can be compiled for; .* PassManager::run failed\. Use"),
        ("something else", RuntimeError, "^something else$"),
    ],
)
def test_what_drivers_and_compilers_say_is_a_sentence(said, kind, sentence, monkeypatch):
    from armillary.engines import cuda_points

    def broken(*_):
        raise RuntimeError(said)

    rows = unit(np.random.default_rng(0), 40, 20)
    model = armillary.SphericalKMeans(2, random_state=0, n_init=1, max_iter=1, device="cuda")
    monkeypatch.setattr(cuda_points.start, "make_shadow", broken)
    with pytest.raises(kind, match=sentence):
        model.fit(rows)
    assert not hasattr(model, "labels_")
