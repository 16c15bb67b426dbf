"""A kernel inside another is a part of it: one version, no code of its own, the same numbers."""

from __future__ import annotations

import gc
import hashlib
import os
import subprocess
import sys

import numba
import numpy as np
import pytest
from numba.core import registry
from numba.core.runtime import _nrt_python, rtsys

from armillary import SphericalKMeans
from armillary.exceptions import CacheWarning
from armillary.kernels import jit, parts


@jit.kernel
def scaled(rows, factor):
    total = 0.0
    for i in range(rows.shape[0]):
        total += factor * rows[i]
    return total


@jit.kernel
def both(rows):
    return scaled(rows, 2) + scaled(rows, 3)


@jit.kernel
def deep(rows):
    return both(rows) + scaled(rows, 5)


ROWS = np.arange(4.0)


@pytest.fixture(autouse=True)
def _in_memory(monkeypatch):
    # a kernel of another test that failed on purpose leaves all later ones to numba
    monkeypatch.setattr(parts.Kernel, "is_plain", False)
    for name in ("scaled", "both", "deep"):  # new ones for each test: what they were called with is counted
        fresh = jit.kernel(globals()[name].py_func)
        monkeypatch.setattr(fresh._cache, "load_overload", lambda *_: None)
        monkeypatch.setattr(fresh._cache, "save_overload", lambda *_: None)
        monkeypatch.setitem(globals(), name, fresh)


def test_a_part_has_one_version_for_all_numbers_and_no_code():
    assert deep(ROWS) == 60.0
    assert both.signatures == scaled.signatures == []
    assert len(both.part.signatures) == len(scaled.part.signatures) == 1
    assert len(deep.signatures) == 1
    assert "define" in deep.inspect_llvm(deep.signatures[0])


def test_a_part_can_be_called_from_python_too():
    assert deep(ROWS) == 60.0
    assert scaled(ROWS, 2) == 12.0
    assert both(ROWS) == 30.0
    assert deep(ROWS.astype(np.float32)) == 60.0


def test_versions_are_counted_by_name():
    deep(ROWS)
    before = jit.versions()[f"{__name__}.deep"]
    deep(np.arange(4))
    assert jit.versions()[f"{__name__}.deep"] == before + 1


def test_arrays_that_kernels_make_and_lend_are_freed():
    @jit.kernel
    def doubled(rows):
        out = np.empty(rows.shape[0])
        for i in range(rows.shape[0]):
            out[i] = 2.0 * rows[i]
        return out

    @jit.kernel
    def rest(rows):
        return rows[1:]

    @jit.kernel
    def borrowing(rows):
        last = rows[1:], rows
        return scaled(last[0][1:], 1) + last[1][-1]

    @jit.kernel
    def owning(rows):
        return borrowing(rest(doubled(rows))) + scaled(rest(rows), 1)

    for one in (doubled, rest, borrowing, owning):
        one._cache.disable()
    rows = np.arange(4.0)
    assert owning(rows) == 18.0
    _nrt_python.memsys_enable_stats()
    try:
        owners, before = sys.getrefcount(rows), rtsys.get_allocation_stats()
        for _ in range(10):
            owning(rows), borrowing(rows), rest(rows)
        after = rtsys.get_allocation_stats()
    finally:
        _nrt_python.memsys_disable_stats()
    assert after.mi_alloc - before.mi_alloc >= 10
    assert after.mi_alloc - before.mi_alloc == after.mi_free - before.mi_free
    assert sys.getrefcount(rows) == owners
    assert "NRT_" in owning.inspect_llvm()[owning.signatures[0]]
    assert "NRT_" not in borrowing.inspect_llvm()[borrowing.signatures[0]]


def test_numba_is_left_as_it_was():
    @jit.kernel
    def fresh(n):
        return np.empty(n).shape[0] + min(n, 3)

    @numba.njit
    def of_others(n):
        out = np.empty(n)
        out[:] = min(n, 3)
        return out.sum()

    fresh._cache.disable()
    assert fresh(5) == 8
    code, typing = registry.cpu_target.target_context.codegen(), registry.cpu_target.typing_context
    assert not {"_library_class", "set_env"} & set(vars(code))
    assert "_resolve_user_function_type" not in vars(typing)
    assert of_others(5) == 15.0  # parts are linked there too


@pytest.mark.parametrize("is_enabled", [True, False])
def test_the_collector_is_left_as_it_was(is_enabled):
    @jit.kernel
    def fresh(x):
        return x + 1

    fresh._cache.disable()
    was_enabled = gc.isenabled()
    try:
        (gc.enable if is_enabled else gc.disable)()
        assert fresh(1) == 2
        assert gc.isenabled() == is_enabled
    finally:
        (gc.enable if was_enabled else gc.disable)()


def test_a_kernel_that_cannot_be_compiled_says_why():
    @jit.kernel
    def wrong(x):
        return x.nothing

    wrong._cache.disable()
    with pytest.raises(Exception, match="nothing"):
        wrong(1.0)
    assert gc.isenabled()
    assert not parts.Kernel.is_plain


# ----------------------------------------------------------------------------------------------- numba's own way

FIT = """
import hashlib, logging, sys
import numba

{change}
logging.basicConfig(level=logging.DEBUG, format="%(name)s %(levelname)s %(message)s")
import numpy as np
import armillary
from armillary.kernels import jit

jit._KernelCache._load_built_in = lambda *_: None  # what was compiled beside the sources
rows = np.random.default_rng(0).standard_normal((60, 3)).astype(np.float32)
model = armillary.SphericalKMeans(3, random_state=0).fit(rows)
print(hashlib.sha256(model.labels_.tobytes() + model.resultants_.tobytes()).hexdigest(), jit.where_kept())
"""
OTHER_VERSION = "numba.__version__ = '0.99.1'"
A_NAME_IS_GONE = "from numba.core import typed_passes; del typed_passes.NativeLowering"
A_PART_FAILS = "from armillary.kernels import parts; parts._is_borrowing = None"
CHANGES = {
    OTHER_VERSION: "which takes longer: numba 0.99.1 was not tested",
    A_NAME_IS_GONE: "which takes longer: this numba has other internals",
    A_PART_FAILS: "from here on, which takes longer: ",
}


# each compiles the kernels of a fit in a process of its own
@pytest.mark.parametrize(
    "change",
    [
        pytest.param(OTHER_VERSION, marks=pytest.mark.slow, id="version"),
        pytest.param(A_NAME_IS_GONE, marks=pytest.mark.slow, id="name"),
        pytest.param(A_PART_FAILS, id="failure"),
    ],
)
def test_another_numba_compiles_by_itself_to_the_same_bits(change, tmp_path):
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
    program = [sys.executable, "-c", FIT.format(change=change)]
    done = subprocess.run(program, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    rows = np.random.default_rng(0).standard_normal((60, 3)).astype(np.float32)
    model = SphericalKMeans(3, random_state=0).fit(rows)
    bits = hashlib.sha256(model.labels_.tobytes() + model.resultants_.tobytes()).hexdigest()
    assert done.stdout.startswith(f"{bits} They are kept in {tmp_path}")
    assert list(tmp_path.rglob("*.nbc"))
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("armillary.kernels DEBUG")]
    assert CHANGES[change] in line


def test_the_numba_that_is_here_was_tested():
    """Where this fails: run the suite on the new version, and let `TESTED` end with it."""
    assert jit.is_tested(numba.__version__)
    assert jit._parts is parts
    assert not parts.Kernel.is_plain
    versions = ["0.60.0", "0.61.0rc1", "0.61.2", "0.68.1+3.g12", "0.69.0", "1.0.0", "", "unknown"]
    assert [jit.is_tested(version) for version in versions] == [False, True, True, True] + 4 * [False]


def test_a_kernel_made_by_parts_is_called_by_one_that_numba_makes(monkeypatch):
    @jit.kernel
    def inner(rows):
        return scaled(rows, 2)

    @jit.kernel
    def outer(rows):
        return inner(rows) + scaled(rows, 3)

    inner._cache.disable()
    outer._cache.disable()
    monkeypatch.setattr(parts.Kernel, "is_plain", True)
    assert outer(ROWS) == 30.0
    assert len(inner.signatures) == 1
    assert inner.part.signatures == []


def test_a_warning_that_is_an_error_is_no_failure_of_parts(monkeypatch):
    @jit.kernel
    def fresh(x):
        return x + 1

    def warn(*_):
        raise CacheWarning("a full disk")

    monkeypatch.setattr(fresh._cache, "save_overload", warn)
    with pytest.raises(CacheWarning, match="a full disk"):
        fresh(1)
    assert not parts.Kernel.is_plain
