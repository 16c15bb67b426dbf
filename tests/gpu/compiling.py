"""Kernels compiled for cards that are not here: signatures, configurations, and what the machine code holds."""

import re
import subprocess

from triton.backends.compiler import GPUTarget
from triton.backends.nvidia.compiler import get_ptxas
from triton.compiler import ASTSource, compile

from armillary.kernels.gpu import choose, draws, exact, frames, gaussians, soft, sparse, sums

_DESC = ("tensordesc<fp16[128,{0}]>",) * 2
_BESIDE = ["*fp32", "*fp32", "*i8", "*i32", "*fp32", "*i32", "*i32", "i32", "i32"]
_FLAGS = {"HAS_FLOOR": True, "HAS_RIVALS": True, "ROWS": 128, "TILE": 128}
_F, _D, _I, _L = "*fp32", "*fp64", "*i32", "*i64"
_SETS = [_F, _I, _L, _L]  # rows, numbers, edges and owners of pieces
_GAUSSIANS = {"num_warps": 4, "enable_fp_fusion": False}

# name: kernel, types of its arguments in order, constants, options; those by descriptors are for Hopper and later
DESCRIBED = {
    "filter_flat": (
        choose.filter_flat,
        [*(each.format(64) for each in _DESC), *_BESIDE, "i32", "i32", _F],
        {**_FLAGS, "DEEP": 64},
        {"num_warps": 4, "num_stages": 2},
    ),
    "filter_resident": (
        choose.filter_resident,
        [*(each.format(128) for each in _DESC), *_BESIDE, "i32", _F],
        {**_FLAGS, "DEEP": 128},
        {"num_warps": 4, "num_stages": 1},
    ),
}
# All that launches take: others have failed to compile.
_CSR_TILES = [(16, 16), (8, 32), (4, 64)]
PLAIN = {
    "filter_pointers": (
        choose.filter_pointers,
        ["*fp16", "*fp16", *_BESIDE, "i32", "i32", "i32", _F],
        {**_FLAGS, "DEEP": 64},
        {"num_warps": 8, "num_stages": 3},
    ),
    "halve_rule": (
        choose.halve_rule,
        [_D, _D, _D, "*fp16", _D, _D, "i32", "i32", "i32"],
        {"COLUMNS": 256},
        {},
    ),
    "bound_rule": (choose.bound_rule, [_D, _D, _D, _D, _F, _F, "i32", "i32", "i32"], {"BLOCK": 1024}, {}),
    "list_pairs": (
        choose.list_pairs,
        ["*fp16", "*fp16", _F, _F, _F, _I, _I, _I, _I, "i32", "i32", "i32", "i32", "i32", _F, "i32", "i32"],
        {"ENOUGH": 1 << 30, "ROWS": 128, "TILE": 128, "DEEP": 64},
        {"num_warps": 8, "num_stages": 3},
    ),
    "score_pairs": (
        choose.score_pairs,
        [_F, _D, _D, _I, _I, _I, _I, _L, _L, "i32", "i32", "i32"],
        {"AHEAD": 16, "BLOCK": 32},
        {"num_warps": 1, "enable_fp_fusion": False},
    ),
    "name_pairs": (choose.name_pairs, [_I, _I, _I, _L, _L, _I, "i32"], {"BLOCK": 128}, {}),
    "settle": (
        choose.settle,
        [_I, _I, _L, _I, "*i8", _I, "i64", "i32", "i32", "i32"],
        {"HAS_RIVALS": True, "BLOCK": 128},
        {},
    ),
    "record": (choose.record, [_I, _I, _I, _I, _I, "i32", "i32", "i32"], {"HAS_LIST": True, "BLOCK": 1024}, {}),
    "squares": (
        exact.squares,
        [_F, _D, "i32", "i32", "i32"],
        {"BLOCK": 256, "AHEAD": 8},
        {"enable_fp_fusion": False},
    ),
    "unit": (
        exact.unit,
        ["*fp16", _D, _D, _F, "*fp16", _F, "i32", "i32", "i32", "i32"],
        {"ROWS": 4, "COLUMNS": 128},
        {"enable_fp_fusion": False},
    ),
    "roots": (exact.roots, [_D, _D, "i32"], {"BLOCK": 256}, {}),
    "own_scores": (
        exact.own_scores,
        [_F, _D, _D, _I, _D, "i32", "i32", "i32"],
        {"BLOCK": 256, "AHEAD": 8},
        {"enable_fp_fusion": False},
    ),
    "table": (
        exact.table,
        [_F, _D, _D, _D, "i32", "i32", "i32", "i32"],
        {"ROWS": 64, "CLUSTERS": 64},
        {"num_warps": 8, "enable_fp_fusion": False},
    ),
    "best": (
        exact.best,
        [_F, _D, _D, "*i8", _I, _D, "i32", "i32", "i32", "i32", "i32"],
        {"HAS_RIVALS": True, "ROWS": 64, "CLUSTERS": 64},
        {"num_warps": 8, "enable_fp_fusion": False},
    ),
    "lane_scores": (
        exact.lane_scores,
        [_F, _F, _F, _F, "i32", "i32", "i32", "i32", "i32"],
        {"HAS_OFFSETS": True, "BLOCK": 128, "LANES": 16},
        {"enable_fp_fusion": False},
    ),
    "narrow": (
        frames.narrow,
        [_F, _D, _D, "*i8", _I, _D, "i32", "i32", "i32"],
        {"N_FEATURES": 3, "HAS_RIVALS": True, "BLOCK": 256},
        {"enable_fp_fusion": False},
    ),
    "add_sorted": (
        sums.add_sorted,
        [_F, _D, _I, _I, _L, _L, _D, "i32", "i32", "i32"],
        {"HAS_WEIGHTS": True, "TOGETHER": 512, "ROWS": 4, "COLUMNS": 128},
        {"num_warps": 2, "enable_fp_fusion": False},
    ),
    "ends": (sums.ends, [_I, _L, _L, "i32", "i32", "i32"], {"BLOCK": 1024}, {}),
    "count": (sums.count, [_I, _I, "i32", "i32"], {"BLOCK": 1024}, {}),
    "deal": (sums.deal, [_I, _I, _I, _I, "i32", "i32"], {"BLOCK": 1024}, {}),
    "add_moved": (
        sums.add_moved,
        [_F, _D, _I, _I, _I, _L, _L, _I, _D, "i32", "i32"],
        {"HAS_WEIGHTS": True, "ROWS": 8, "COLUMNS": 128},
        {"enable_fp_fusion": False},
    ),
    "add_narrow": (
        sums.add_narrow,
        [_F, _D, _I, _L, _D, "i32", "i32", "i32"],
        {"N_FEATURES": 3, "HAS_WEIGHTS": True, "BLOCK": 256},
        {"enable_fp_fusion": False},
    ),
    **{
        f"sweep of {n} columns": (
            frames.sweep,
            [_F, _D, _D, _I, _L, _D, "i32", "i32", "i32", "i32", "i32", "i32", "i32"],
            {"N_FEATURES": n, "HAS_WEIGHTS": True, "HAS_SUMS": True, "BLOCK": block},
            {"enable_fp_fusion": False},
        )
        for n, block in ((3, 512), (8, 256))
    },
    "name": (
        frames.name,
        [_F, _D, _L, _L, "i32", "i32"],
        {"N_FEATURES": 3, "BLOCK": 512},
        {"enable_fp_fusion": False},
    ),
    "rename": (frames.rename, [_I, _L, _L, "i32"], {"BLOCK": 256}, {}),
    "count_off": (
        frames.count_off,
        [_F, _D, _I, "i32", "i32", "i32"],
        {"BLOCK": 256, "AHEAD": 8},
        {"enable_fp_fusion": False},
    ),
    "softmax": (
        soft.softmax,
        [_F, _F, _F, "*fp16", "*fp16", _D, _D, _F, "i32", "i32"],
        {"HAS_WEIGHTS": True, "ROWS": 2, "BLOCK": 1024, "SMALL": 2048.0},
        {"num_warps": 4},
    ),
    "halve": (
        soft.halve,
        [_F, "*fp16", _F, "i32", "i32", "i32", "i32"],
        {"ROWS": 16, "COLUMNS": 128},
        {"enable_fp_fusion": False},
    ),
    "csr_squares": (sparse.squares, [_F, _L, _D, "i32"], {"BLOCK": 128, "AHEAD": 4}, {"enable_fp_fusion": False}),
    "csr_own_scores": (
        sparse.own_scores,
        [_F, _I, _L, _D, _D, _I, _D, "i32", "i32"],
        {"BLOCK": 128, "AHEAD": 4},
        {"enable_fp_fusion": False},
    ),
    **{
        f"csr_table {rows} x {clusters}": (
            sparse.table,
            [_F, _I, _L, _D, _D, _D, "i32", "i32"],
            {"ROWS": rows, "CLUSTERS": clusters, "AHEAD": 4},
            {"enable_fp_fusion": False},
        )
        for rows, clusters in _CSR_TILES
    },
    **{
        f"csr_best {rows} x {clusters}": (
            sparse.best,
            [_F, _I, _L, _D, _D, "*i8", _I, _D, "i32", "i32", "i32"],
            {"HAS_RIVALS": True, "ROWS": rows, "CLUSTERS": clusters, "AHEAD": 4},
            {"enable_fp_fusion": False},
        )
        for rows, clusters in _CSR_TILES
    },
    "csr_add": (
        sparse.add,
        [_F, _I, _L, _D, _I, _L, _L, _D, "i32", "i32"],
        {"HAS_WEIGHTS": True, "ROWS": 4, "WIDTH": 32},
        {"enable_fp_fusion": False},
    ),
    "csr_move": (
        sparse.move,
        [_F, _I, _L, _D, _I, _I, _I, _L, _L, _I, _D, "i32"],
        {"HAS_WEIGHTS": True, "ROWS": 4, "WIDTH": 32},
        {"enable_fp_fusion": False},
    ),
    "uniforms": (draws.uniforms, [_D, _L, "i64", "i32"], {"BLOCK": 256}, {}),
    "gaussian_table": (
        gaussians.table,
        [_F, _D, _D, _D, _D, _D, "i32", "i32", "i32", "i32", "i32", "i32"],
        {"IS_CURVED": True, "BLOCK": 256},
        _GAUSSIANS,
    ),
    "flat_table": (
        gaussians.table,
        [_F, _D, _D, _D, _D, _D, "i32", "i32", "i32", "i32", "i32", "i32"],
        {"IS_CURVED": False, "BLOCK": 256},
        _GAUSSIANS,
    ),
    "gaussian_odds": (
        gaussians.odds,
        [*_SETS, _D, _D, _D, _D, _D, "i32", "i32", "i32", "i32"],
        {"IS_CURVED": True, "BLOCK": 256},
        _GAUSSIANS,
    ),
    "sphere_table": (
        gaussians.sphere_table,
        [_F, _I, _D, _D, _D, _D, _D, _D, _D, "i32", "i32", "i32"],
        {"BLOCK": 256},
        _GAUSSIANS,
    ),
    "draw": (
        gaussians.choose,
        [_D, _I, _D, _D, _D, _L, "i64", "i32", "i32"],
        {"HAS_ANCHORS": True, "BLOCK": 256},
        _GAUSSIANS,
    ),
    "sides": (gaussians.sides, [_I, _D, _D, "*i8", "i32"], {"BLOCK": 256}, _GAUSSIANS),
    "totals": (gaussians.totals, [*_SETS, _D, _L, "i32", "i32"], {"BLOCK": 256}, _GAUSSIANS),
    "look": (
        gaussians.look,
        [*_SETS, _D, _D, _D, _D, _L, "i32", "i32"],
        {"WITH_SCATTER": True, "WITH_CURVATURE": True, "BLOCK": 256},
        _GAUSSIANS,
    ),
    "tangent_pairs": (
        gaussians.tangent_pairs,
        [*_SETS, _D, _D, _D, _D, _I, _L, "i32", "i32"],
        {"BLOCK": 256},
        _GAUSSIANS,
    ),
    **{
        f"tangents of {n} columns": (
            gaussians.tangents,
            [*_SETS, _D, _D, _L, "i32", "i32"],
            {"N_FEATURES": n, "WITH_SCATTER": True, "WITH_CURVATURE": True, "BLOCK": 256},
            _GAUSSIANS,
        )
        for n in (3, 4)
    },
    "least": (gaussians.least, [_I, _D, _L, "i32", "i32"], {"BLOCK": 1024}, {}),
    "first_least": (gaussians.first_least, [_I, _D, _L, _L, "i64", "i32"], {"BLOCK": 256}, {}),
    "merge": (gaussians.merge, [_I, _L, _I, "i32"], {"BLOCK": 256}, {"num_warps": 4}),
    "products": (gaussians.products, [*_SETS, _D, _D, _I, _L, "i32", "i32"], {"BLOCK": 256}, _GAUSSIANS),
}


def build(entry, capability):
    """One kernel compiled for one card."""
    kernel, types, constants, options = entry
    names = [parameter.name for parameter in kernel.params if not parameter.is_constexpr]
    assert len(names) == len(types), (kernel.__name__, names, types)
    signature = dict(zip(names, types, strict=True)) | dict.fromkeys(constants, "constexpr")
    aligned = {
        (place,): [["tt.divisibility", 16]]
        for place, parameter in enumerate(kernel.params)
        if signature[parameter.name].startswith("*") or parameter.name in ("width", "row_stride", "n_features")
    }
    source = ASTSource(kernel, signature, constexprs=constants, attrs=aligned)
    return compile(source, target=GPUTarget("cuda", capability, 32), options=options)


def resources(compiled, capability, folder):
    """Registers and bytes of spills, by the assembler that triton brings."""
    path = folder / "kernel.ptx"
    path.write_text(compiled.asm["ptx"])
    card = f"sm_{capability}{'a' if capability >= 90 else ''}"
    call = [get_ptxas(capability).path, "-v", f"--gpu-name={card}", path, "-o", folder / "kernel.cubin"]
    if ".target" in compiled.asm["ptx"] and "--fmad" not in call:
        call.insert(1, "--fmad=false" if ".contract" not in compiled.asm["ptx"] else "--fmad=true")
    said = subprocess.run([str(word) for word in call], capture_output=True, text=True, check=True).stderr
    spills = sum(int(number) for number in re.findall(r"(\d+) bytes spill", said))
    return int(re.search(r"Used (\d+) registers", said)[1]), spills
