"""Commands that are killed and run again, and what must hold after each: shared by `kills` and `random_kills`.

A command runs in a fork of a process that is warm, so that a run takes milliseconds. Whatever moment it was killed at,
what it writes is the old content or the new one, whole; and after the same command was run again, everything in its
folder equals what one run leaves, byte for byte, with nothing beside it.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from multiprocessing.util import Finalize
from pathlib import Path

import numpy as np

import armillary
from armillary.cli import segment_output
from armillary.cli.app import run
from armillary.datasets import make_vmf_mixture
from armillary.files import folders
from armillary.persistence.archive import _described, _packed
from armillary.persistence.checkpoints import load_checkpoint

KILLED = 137
# a kill does not lose what the system has taken, so files need no disk, which would be waited for at every fsync
_MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
Content = dict[str, object]


@dataclass(frozen=True)
class Command:
    """A command, what it writes to, and a command that wrote something else there before."""

    name: str
    words: tuple[str, ...]
    output: str
    before: tuple[str, ...] | None = None
    can_exchange: bool = True
    is_stream: bool = False

    def do(self) -> None:
        """Run it to its end, in this process, which is a fork, and folder."""
        if not self.can_exchange:
            folders.exchange = lambda *_: False
        segment_output._write_figure = _write_nothing
        do_words(self.words)


_CLUSTER = ("cluster", "rows.npy", "--no-report", "--force", "-q", "--threads", "1", "-m", "skmeans")
_STREAM = ("stream", "rows.jsonl", "--state", "kept", "-q", "--checkpoint-seconds", "3600")


def _clustered(name: str, output: str, *, has_old: bool = True, **options: bool) -> Command:
    old = (*_CLUSTER, "-k", "2", "-o", output) if has_old else None
    return Command(name, (*_CLUSTER, "-k", "3", "-o", output), output, old, **options)


def _streamed(name: str, *words: str) -> Command:
    output = words[words.index("-o") + 1]
    return Command(name, (*_STREAM, "--checkpoint-rows", "40", *words), output, is_stream=True)


COMMANDS = (
    _streamed("stream links", "-o", "ids.jsonl", "--batch", "20"),
    _streamed("stream ddp", "-o", "ids.csv", "--batch", "40", "-m", "ddp", "--max-angle", "60", "--threads", "1"),
    _clustered("cluster anew", "X", has_old=False),
    _clustered("cluster over", "X"),
    _clustered("cluster over a link", "link"),
    _clustered("cluster deep", "a/b/X", has_old=False),
    _clustered("cluster without exchange", "X", can_exchange=False),
    Command("save anew", ("save", "3", "model"), "model"),
    Command("save over", ("save", "3", "model"), "model", ("save", "2", "model")),
    Command("save over a link", ("save", "3", "link"), "link", ("save", "2", "link")),
    Command("convert", ("convert", "rows.npy", "out.jsonl", "--force", "-q"), "out.jsonl", ("say", "old", "out.jsonl")),
    Command(
        "predict",
        ("predict", "fitted", "rows.npy", "-o", "out.csv", "--force", "-q", "--threads", "1"),
        "out.csv",
        ("say", "old", "out.csv"),
    ),
    Command(
        "curate",
        ("curate", "rows.npy", "-o", "X", "--levels", "2,4", "--no-report", "--force", "-q", "--threads", "1"),
        "X",
        (*_CLUSTER, "-k", "2", "-o", "X"),
    ),
    Command(
        "segment",
        ("segment", "frames.npz", "-o", "X", "--force", "-q", "--animation", "none", "--threads", "1"),
        "X",
        (*_CLUSTER, "-k", "2", "-o", "X"),
    ),
)


def do_words(words: tuple[str, ...]) -> None:
    """A command of the command line; `save K FILE` is the function of the library, `say` any other program."""
    if words[0] == "save":
        armillary.save(_models()[int(words[1])], words[2])
    elif words[0] == "say":
        Path(words[2]).write_text(words[1])
    else:
        sys.argv = ["armillary", *words]
        try:
            run()
        except SystemExit as end:
            if end.code != 0:
                raise


@cache
def _rows() -> np.ndarray:
    return make_vmf_mixture(150, 6, 3, concentration=60.0, random_state=0)[0].round(4)


@cache
def _models() -> dict[int, armillary.SphericalKMeans]:
    return {k: armillary.SphericalKMeans(k, random_state=0, n_threads=1).fit(_rows()) for k in (2, 3)}


def _make_inputs(folder: Path, n_repeats: int) -> None:
    rows = np.tile(_rows(), (n_repeats, 1))
    np.save(folder / "rows.npy", rows)
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows.tolist()))
    armillary.save(_models()[3], folder / "fitted")
    normals = np.random.default_rng(1).normal(size=(2, 12, 16, 3))
    np.savez(folder / "frames.npz", normals / np.linalg.norm(normals, axis=-1, keepdims=True))


# ------------------------------------------------------------------------------------------------------- processes


def fork(work: Callable[[], object], folder: Path) -> int:
    """The number of a child that does `work` in `folder` and ends; what it says is in a file beside the folder."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forks beside threads: those of BLAS survive them
        child = os.fork()
    if child:
        return child
    code = 1
    try:
        said = os.open(f"{folder}.said", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(said, 1)
        os.dup2(said, 2)
        sys.stdout, sys.stderr = (os.fdopen(number, "w", closefd=False) for number in (1, 2))  # not the test runner's
        os.chdir(folder)
        work()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 0
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stderr.flush()
        os._exit(code)


def ended(child: int) -> int:
    """The exit code of a child; the negative number of a signal."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def completed(work: Callable[[], object], folder: Path) -> None:
    """Do `work` in a child, which must end well."""
    code = ended(fork(work, folder))
    assert code == 0, f"exit code {code}: {Path(f'{folder}.said').read_text()[-2000:]}"


# --------------------------------------------------------------------------------------------------------- content


@contextlib.contextmanager
def scene(command: Command, n_repeats: int = 1) -> Iterator[Path]:
    """A folder as it is before the command."""
    with tempfile.TemporaryDirectory(prefix="kills-", dir=_MEMORY) as home:
        folder = Path(home, "here")
        shutil.copytree(_prepared(command, n_repeats).before, folder, symlinks=True)
        yield folder


@dataclass(frozen=True)
class Prepared:
    """A folder before a command, and contents before and after it."""

    before: Path
    old: Content
    new: Content
    output: tuple[object, object]  # old and new


def prepared(command: Command, n_repeats: int = 1) -> Prepared:
    """What the command finds and leaves."""
    return _prepared(command, n_repeats)


@cache
def _prepared(command: Command, n_repeats: int) -> Prepared:
    _warm(command.words)
    home = Path(tempfile.mkdtemp(prefix="kills-", dir=_MEMORY))
    # at the end of this process, be it one of multiprocessing, which does without atexit
    Finalize(None, shutil.rmtree, args=(home,), exitpriority=0)
    before, after = home / "here", home / "after" / "here"
    before.mkdir()
    _make_inputs(before, n_repeats)
    (before / "link").symlink_to("linked")
    if command.before is not None:
        completed(lambda: do_words(command.before or ()), before)
    shutil.copytree(before, after, symlinks=True)
    completed(command.do, after)
    both = content_of(before), content_of(after)
    return Prepared(before, *both, (output_of(command, before), output_of(command, after)))


@cache
def _warm(words: tuple[str, ...]) -> None:
    """Compile and import what a command needs in this process, so that its forks have it."""
    here, arguments, handler = os.getcwd(), sys.argv, signal.getsignal(signal.SIGTERM)
    with tempfile.TemporaryDirectory(prefix="kills-", dir=_MEMORY) as folder:
        _make_inputs(Path(folder), 1)
        os.chdir(folder)
        try:
            do_words(words)
        finally:
            os.chdir(here)
            sys.argv = arguments
            signal.signal(signal.SIGTERM, handler)


def _write_nothing(figure: object, path: Path) -> None:
    """Pictures take a second each; that they are written whole is the business of `whole_file`, as for all others."""
    with segment_output.whole_file(path) as stream:
        stream.write(b"a picture")


def content_of(folder: Path) -> Content:
    """Every file below a folder, hidden ones too; of summaries what does not depend on the clock."""
    return {str(path.relative_to(folder)): _plain(path) for path in sorted(folder.rglob("*")) if not path.is_dir()} | {
        f"{path.relative_to(folder)}/": "" for path in folder.rglob("*") if path.is_dir() and not path.is_symlink()
    }


def _plain(path: Path) -> object:
    if path.name == "kept":
        model, place = load_checkpoint(path)
        return place | {"output": ""}, _packed(*_described(model))  # the output is told by where the folder is
    if path.name != "summary.json":
        return path.read_bytes() if path.exists() else "a link to nothing"
    summary = json.loads(path.read_text())
    for clock in ("seconds", "milliseconds_per_frame", "frames_per_second", "frames_per_second_with_files"):
        summary.pop(clock, None)
    for line in summary.get("frames", []):
        line.pop("milliseconds", None)
    return summary


def output_of(command: Command, folder: Path) -> object:
    """What the command writes to; None where nothing is."""
    path = folder / command.output
    if not path.exists():
        return None
    return content_of(path) if path.is_dir() else path.read_bytes()


# ---------------------------------------------------------------------------------------------------------- checks


def check_killed(command: Command, folder: Path, found: Prepared) -> str:
    """What is there after a kill; a word for it."""
    output = output_of(command, folder)
    if command.is_stream:
        return _check_stream(folder, output, found)
    if output in found.output:
        return "old" if output == found.output[0] else "new"
    if command.name == "segment" and output is not None and "summary.json" in output:
        return "running"  # frames that are done are there, by design
    if output is None and not command.can_exchange:
        return "aside"
    raise AssertionError(f"neither old nor new: {sorted(output) if isinstance(output, dict) else output!r}")


def _check_stream(folder: Path, output: object, found: Prepared) -> str:
    """A state knows of a part of the output, which is as it will be in the end."""
    state = folder / "kept"
    if not state.exists():
        return "no state"
    place = load_checkpoint(state)[1]
    n_bytes = place["output_bytes"]
    whole = found.output[1]
    assert isinstance(output, bytes)
    assert isinstance(whole, bytes)
    assert len(output) >= n_bytes
    assert output[:n_bytes] == whole[:n_bytes]
    return "finished" if place["is_finished"] else "state"


def check_recovered(folder: Path, found: Prepared) -> None:
    """After the command was run again: all as after one run, and nothing else."""
    content = content_of(folder)
    odd = {name for name in content.keys() | found.new.keys() if content.get(name, "") != found.new.get(name, "")}
    odd |= content.keys() ^ found.new.keys()
    assert not odd, f"not as after one run: {sorted(odd)}"
