"""Every kernel compiled for cards that are not here: instructions, registers and shared memory as planned."""

import importlib.util
import re

import pytest
from tests.gpu.here import is_interpreted

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("triton") is None or is_interpreted(),
    reason="needs triton without TRITON_INTERPRET: make test-gpu-interpreter",
)
CSR_TILED = [f"csr_{name} {tile}" for name in ("table", "best") for tile in ("16 x 16", "8 x 32", "4 x 64")]
NAMES_OF_HOPPER = ["filter_flat", "filter_resident"]
NAMES = [
    "filter_pointers", "list_pairs", "score_pairs", "name_pairs", "settle", "record", "squares", "roots", "own_scores",
    "table", "best", "lane_scores", "narrow", "ends", "count", "deal", "add_sorted", "add_moved", "add_narrow",
    "softmax", "halve", "uniforms", "unit", "gaussian_table", "flat_table", "gaussian_odds", "sphere_table", "draw",
    "sides", "totals", "look", "tangent_pairs", "products", "sweep of 3 columns", "sweep of 8 columns", "name",
    "rename", "count_off", "halve_rule", "bound_rule", "tangents of 3 columns",
    "tangents of 4 columns", "least", "first_least", "merge",
    "csr_squares", "csr_own_scores", *CSR_TILED, "csr_add", "csr_move",
]  # fmt: skip
EXACT = {
    "score_pairs", "squares", "own_scores", "table", "best", "narrow", "lane_scores", "unit", "csr_squares",
    "csr_own_scores", *CSR_TILED, "totals", "tangent_pairs", "products", "sweep of 3 columns", "sweep of 8 columns",
    "name", "count_off",
}  # fmt: skip
# What is fused there is fused by name, as on the CPU.
NAMED = {
    "gaussian_table", "flat_table", "gaussian_odds", "sphere_table", "draw", "sides", "look", "tangents of 3 columns",
    "tangents of 4 columns",
}  # fmt: skip


def built(name, capability, tmp_path):
    from tests.gpu.compiling import DESCRIBED, PLAIN, build, resources

    compiled = build({**DESCRIBED, **PLAIN}[name], capability)
    return compiled, compiled.asm["ptx"], resources(compiled, capability, tmp_path)


@pytest.mark.parametrize("name", NAMES_OF_HOPPER)
def test_filters_of_hopper_use_its_tensor_cores_and_tile_copies(name, tmp_path):
    compiled, ptx, (registers, spills) = built(name, 90, tmp_path)
    assert "wgmma" in ptx
    assert "cp.async.bulk.tensor" in ptx
    assert spills == 0
    assert registers <= 255
    assert 2 * compiled.metadata.shared <= 227 * 1024  # two programs on a multiprocessor


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("capability", [80, 86, 89, 90])
def test_other_kernels_fit_every_card(name, capability, tmp_path):
    compiled, ptx, (_, spills) = built(name, capability, tmp_path)
    assert compiled.metadata.shared <= 99 * 1024
    assert spills == 0
    if name in EXACT:
        assert "fma.rn" not in ptx  # nothing fused where bits are promised
    if name in NAMED:
        assert "fma.rn.f64" in ptx
        assert ".approx" not in ptx
        assert ".f32" not in re.sub(r"(ld|cvt|mov)\S*", "", ptx)  # no constant went through float32
    if name == "filter_pointers":
        assert ("mma.sync" if capability < 90 else "wgmma") in ptx


def test_the_list_is_complete():
    from tests.gpu.compiling import DESCRIBED, PLAIN

    assert [*DESCRIBED] == NAMES_OF_HOPPER
    assert sorted(PLAIN) == sorted(NAMES)
