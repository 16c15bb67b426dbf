"""Where compiled kernels are kept: no folder, file or disk may end a fit, and nobody else's code is run."""

from __future__ import annotations

import errno
import importlib.util
import os
import shutil
import stat
import subprocess
import sys
import tempfile
import threading
import warnings
from pathlib import Path

import numpy as np
import pytest
from numba.core import config

import armillary
from armillary.exceptions import CacheWarning
from armillary.kernels import jit as _jit

SOURCE = """
from armillary.kernels.jit import kernel


@kernel
def double(x):
    return x + x


@kernel
def triple(x):
    return double(x) + x
"""
NEITHER = "neither the folder of the package nor the cache of the user can be written"
AGAIN = "They are compiled again in each process."
WAY_OUT = "Set NUMBA_CACHE_DIR to a folder that lasts and can be written."


class Machine:
    """A package folder, a home and a folder for temporary files, some of which cannot be written."""

    def __init__(self, root, monkeypatch):
        self.package, self.home, self.temporary = root / "package", root / "home", root / "tmp"
        for folder in (self.package, self.home, self.temporary):
            folder.mkdir()
        self.temporary.chmod(0o1777)
        (self.package / "small.py").write_text(SOURCE)
        self.closed = []
        self.is_full = False
        self._monkeypatch = monkeypatch
        monkeypatch.setenv("XDG_CACHE_HOME", str(self.home))
        monkeypatch.setattr(tempfile, "tempdir", str(self.temporary))
        monkeypatch.setattr(config, "CACHE_DIR", "")
        # permission bits say nothing to root, so the answers of a disk that cannot be written are made here
        for owner, name in ((tempfile, "TemporaryFile"), (os, "mkdir"), (os, "replace")):
            monkeypatch.setattr(owner, name, self._refusing(getattr(owner, name)))

    def _refusing(self, ask):
        def asked(*arguments, **options):
            path = Path(options.get("dir") or arguments[-1 if ask is os.replace else 0])
            if any(path.is_relative_to(folder) for folder in self.closed):
                raise OSError(errno.EROFS, "Read-only file system", str(path))
            if self.is_full and ask.__name__ == "replace":
                raise OSError(errno.ENOSPC, "No space left on device", str(path))
            return ask(*arguments, **options)

        return asked

    @property
    def beside(self):
        return self.package / "__pycache__"

    @property
    def private(self):
        return self.temporary / f"armillary-{os.getuid()}"

    def begin(self):
        """The kernels as a new process sees them, and what it is told."""
        self._monkeypatch.setattr(_jit._Locator, "_chosen", {})
        self._monkeypatch.setattr(_jit, "_warnings_given", [])
        spec = importlib.util.spec_from_file_location("small", self.package / "small.py")
        module = importlib.util.module_from_spec(spec)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            spec.loader.exec_module(module)
            assert module.triple(2.0) == 6.0
            assert module.triple(2) == 6
        assert all(warning.category is CacheWarning for warning in caught)
        return module, [str(warning.message) for warning in caught]


@pytest.fixture
def machine(tmp_path, monkeypatch):
    return Machine(tmp_path, monkeypatch)


def n_read(module):
    return sum(module.triple.stats.cache_hits.values())


def files(folder):
    return sorted(path for path in folder.rglob("*") if path.is_file())


def test_kernels_are_kept_beside_their_source(machine):
    module, sentences = machine.begin()
    assert sentences == []
    assert Path(module.double.stats.cache_path) == machine.beside
    module, sentences = machine.begin()
    assert sentences == []
    assert n_read(module) == 2


def test_kernels_of_a_folder_that_cannot_be_written_are_kept_in_the_cache_of_the_user(machine):
    machine.closed = [machine.package]
    module, sentences = machine.begin()
    assert sentences == []
    assert Path(module.double.stats.cache_path).is_relative_to(machine.home)


def test_without_package_or_home_kernels_are_kept_in_a_private_folder_with_one_warning(machine):
    machine.closed = [machine.package, machine.home]
    module, sentences = machine.begin()
    folder = Path(module.double.stats.cache_path)
    assert sentences == [
        f"Compiled kernels cannot be kept where they belong: {NEITHER}. They are kept in {folder} for now. {WAY_OUT}"
    ]
    assert folder.is_relative_to(machine.private)
    assert stat.S_IMODE(machine.private.stat().st_mode) == 0o700
    module, sentences = machine.begin()
    assert sentences == []  # nothing is compiled any more
    assert n_read(module) == 2


def test_without_any_folder_kernels_are_compiled_in_memory_with_one_warning(machine):
    machine.closed = [machine.package, machine.home, machine.temporary]
    module, sentences = machine.begin()
    assert sentences == [f"Compiled kernels cannot be kept where they belong: {NEITHER}. {AGAIN} {WAY_OUT}"]
    module, _ = machine.begin()
    assert n_read(module) == 0


@pytest.mark.parametrize("has_temporary", [True, False])
def test_what_an_image_was_built_with_is_read_where_nothing_can_be_written(machine, has_temporary):
    machine.begin()
    machine.closed = [machine.package, machine.home, *([] if has_temporary else [machine.temporary])]
    module, sentences = machine.begin()
    assert n_read(module) == 2
    assert sentences == []
    with pytest.warns(CacheWarning):
        assert module.triple(np.float32(2.0)) == 6.0


def _linked(machine):
    (machine.temporary / "theirs").mkdir(mode=0o700)
    machine.private.symlink_to(machine.temporary / "theirs")


def _open_to_all(machine):
    machine.private.mkdir()
    machine.private.chmod(0o777)


def _a_file(machine):
    machine.private.write_text("")


def _in_a_folder_that_others_may_rename_in(machine):
    machine.temporary.chmod(0o777)


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="owners and modes are those of POSIX")
@pytest.mark.parametrize("plant", [_linked, _open_to_all, _a_file, _in_a_folder_that_others_may_rename_in])
def test_a_folder_that_others_may_have_planted_is_not_used(machine, plant):
    plant(machine)
    machine.closed = [machine.package, machine.home]
    module, sentences = machine.begin()
    assert not Path(module.double.stats.cache_path).is_relative_to(machine.temporary)
    assert AGAIN in sentences[0]
    assert not [path for path in files(machine.temporary) if path.suffix == ".nbc"]


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="owners and modes are those of POSIX")
def test_a_folder_of_somebody_else_is_not_used(machine, monkeypatch):
    other = os.getuid() + 1
    (machine.temporary / f"armillary-{other}").mkdir(mode=0o700)
    monkeypatch.setattr(os, "getuid", lambda: other)
    machine.closed = [machine.package, machine.home]
    module, sentences = machine.begin()
    assert not Path(module.double.stats.cache_path).is_relative_to(machine.temporary)
    assert AGAIN in sentences[0]


def test_the_folder_that_the_user_names_is_used(machine, monkeypatch, tmp_path):
    machine.closed = [machine.package, machine.home]
    monkeypatch.setattr(config, "CACHE_DIR", str(tmp_path / "named"))
    module, sentences = machine.begin()
    assert sentences == []
    assert Path(module.double.stats.cache_path).is_relative_to(tmp_path / "named")


def test_a_folder_that_the_user_names_and_that_cannot_be_written(machine, monkeypatch, tmp_path):
    named = tmp_path / "named"
    monkeypatch.setattr(config, "CACHE_DIR", str(named))
    machine.closed = [named]
    _, sentences = machine.begin()
    (sentence,) = sentences
    assert sentence.startswith("Compiled kernels cannot be kept where they belong: NUMBA_CACHE_DIR=")
    assert sentence.endswith(f"{named} cannot be written. They are kept in {machine.beside} for now. {WAY_OUT}")


def test_a_disk_that_fills_up_costs_the_cache_only(machine):
    machine.is_full = True
    _, sentences = machine.begin()
    assert len(sentences) == 1
    assert "cannot be kept where they belong: [Errno 28] No space left on device" in sentences[0]
    assert sentences[0].endswith(f"{AGAIN} {WAY_OUT}")
    machine.is_full = False
    machine.begin()
    module, sentences = machine.begin()
    assert sentences == []
    assert n_read(module) == 2


@pytest.mark.parametrize("damage", ["empty", "cut", "noise", "a folder"])
def test_damaged_files_are_compiled_again(machine, damage):
    machine.begin()
    for path in files(machine.package):
        if path.suffix == ".nbc":
            _spoil(path, damage)
    _, sentences = machine.begin()
    if damage == "a folder":
        assert len(sentences) == 1  # a folder cannot be replaced by a file
        return
    assert sentences == []
    module, _ = machine.begin()
    assert n_read(module) == 2


def test_code_of_another_version_is_not_run(machine):
    """As numba's index may name it where two processes compile at once: their files have one number."""
    machine.begin()
    one, other = [path for path in files(machine.beside) if path.name.startswith("small.triple")]
    swapped = one.read_bytes(), other.read_bytes()
    other.write_bytes(swapped[0])
    one.write_bytes(swapped[1])
    module, sentences = machine.begin()  # which looks at the answers
    assert sentences == []
    assert n_read(module) == 0
    module, _ = machine.begin()
    assert n_read(module) == 2


def test_what_is_saved_at_once_is_what_is_read(tmp_path):
    def save(number):
        barrier.wait()
        _jit._KernelFiles(str(tmp_path), "kernel", "stamp").save(("version", number), f"code of {number}")

    barrier = threading.Barrier(8)
    for _ in range(20):
        threads = [threading.Thread(target=save, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        kept = _jit._KernelFiles(str(tmp_path), "kernel", "stamp")
        assert [kept.load(("version", number)) for number in range(8)] == [f"code of {n}" for n in range(8)]
        assert kept.load(("version", 8)) is None
        assert _jit._KernelFiles(str(tmp_path), "kernel", "another").load(("version", 0)) is None
        for path in files(tmp_path):
            path.unlink()


def test_code_is_compiled_again_after_an_edit_of_any_kernel(machine, monkeypatch):
    """One kernel is compiled into another, whose own file did not change."""
    machine.begin()
    monkeypatch.setattr(_jit, "_sources_stamp", lambda: "edited")
    module, _ = machine.begin()
    assert n_read(module) == 0


def _spoil(path, damage):
    content = path.read_bytes()
    if damage == "a folder":
        path.unlink()
        path.mkdir()
        return
    other = {
        "empty": b"",
        "cut": content[: len(content) // 2],
        "noise": np.random.default_rng(0).bytes(len(content)),
    }
    path.write_bytes(other[damage])


FIT = """
import errno, os, sys, warnings

closed = sys.argv[1:]

def refuse(event, arguments):
    if event == "open" and isinstance(arguments[0], str) and arguments[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
        path = arguments[0]
    elif event == "os.mkdir":
        path = str(arguments[0])
    else:
        return
    if any(os.path.abspath(path).startswith(folder) for folder in closed):
        raise OSError(errno.EROFS, "Read-only file system", path)

sys.addaudithook(refuse)
import numpy as np
import armillary
assert armillary.__file__.startswith(closed[0]), armillary.__file__
assert "numba" not in sys.modules
X = np.repeat(np.eye(3), 20, axis=0) + 0.01
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    labels = armillary.SphericalKMeans(3, random_state=0).fit_predict(X)
    assert len(set(labels)) == 3
sys.stdout.write("\\n".join(f"{warning.category.__name__}: {warning.message}" for warning in caught))
"""


def test_a_read_only_install_fits(tmp_path):
    """The package as a container has it; nothing but the folder for temporary files can be written."""
    home, temporary = tmp_path / "home", tmp_path / "tmp"
    package = tmp_path / "site" / "armillary"
    shutil.copytree(Path(armillary.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
    home.mkdir()
    temporary.mkdir()
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("NUMBA_", "XDG_"))}
    environment |= {"PYTHONPATH": str(package.parent), "HOME": str(home), "TMPDIR": str(temporary)}
    done = subprocess.run(
        [sys.executable, "-c", FIT, str(tmp_path / "site"), str(home)],
        env=environment | {"PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    (line,) = done.stdout.splitlines()
    assert line.startswith(f"CacheWarning: Compiled kernels cannot be kept where they belong: {NEITHER}. They are kept")
    assert [path for path in files(temporary) if path.suffix == ".nbc"]
