"""Locks of the operating system: who is at work on a file or a folder, known to every process, gone with its holder.

Protocol. A target (a state, a folder of results) is locked by a file beside it that no checkpoint replaces; the target
itself is, by a rename. Whoever can lock the open file and still finds it under its name holds the target until the
file is closed, be it by the end of the process, however that comes. Then the facts of the holder are written into it.
The holder removes the file at the end while it still has the lock, so whoever opened it before and locks it after has
a file without a name, sees that, and begins again. A killed holder leaves the file behind, unlocked: the next one takes
it. What lies beside a target under our names while nobody else can hold its lock was left by a killed run.

Temporary files (`whole.py`) go by the same two steps, lock and look again, with the lock on the file itself.

A lock belongs to an open file (`flock`), so threads of one process exclude each other too. Windows locks a byte
instead, far behind any content, because nobody else may read what is locked there; and it removes no file that is open.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import importlib
import json
import os
import platform
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from armillary.exceptions import InputError


def _imported(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


# each system has one of them
fcntl, msvcrt = _imported("fcntl"), _imported("msvcrt")

# Windows neither removes nor moves a file that is open.
CAN_MOVE_OPEN_FILES = os.name != "nt"
# The C library of Windows knows places up to 2 GiB here.
_LOCKED_BYTE = (1 << 31) - 2
_HELD_BY_ANOTHER = frozenset({errno.EAGAIN, errno.EWOULDBLOCK, errno.EACCES, errno.EDEADLK})
# Names longer than this are told by a digest: file systems take 255 bytes, encrypted ones 143.
_LONGEST_NAME = 64


class _NoLockError(InputError):
    """There is no way to lock this place."""


def beside(target: Path, ending: str) -> Path:
    """A hidden name in the folder of `target`, and so on the same disk, that tells whose it is."""
    name = target.name
    if len(os.fsencode(name)) > _LONGEST_NAME:
        name = hashlib.sha256(os.fsencode(name)).hexdigest()[:32]
    return target.parent / f".{name}.armillary{ending}"


def try_lock(descriptor: int) -> bool:
    """Lock an open file for as long as it stays open; False where another has it, OSError where nobody can."""
    try:
        if fcntl is not None:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        elif msvcrt is not None:
            _lock_byte(descriptor)
        else:
            raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))
    except OSError as error:
        if error.errno in _HELD_BY_ANOTHER:
            return False
        raise
    return True


def _lock_byte(descriptor: int) -> None:
    place = os.lseek(descriptor, 0, os.SEEK_CUR)
    os.lseek(descriptor, _LOCKED_BYTE, os.SEEK_SET)
    try:
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
    finally:
        os.lseek(descriptor, place, os.SEEK_SET)


def is_named(path: str | Path, descriptor: int) -> bool:
    """Whether `path` still is the name of an open file."""
    try:
        return os.path.samestat(os.lstat(path), os.fstat(descriptor))
    except OSError:
        return False


def remove_and_close(path: str | Path, descriptor: int) -> None:
    """Remove a file that is locked here, unless its name is another's by now, and let go of it."""
    is_ours = is_named(path, descriptor)
    if is_ours and CAN_MOVE_OPEN_FILES:
        _remove(path)
    os.close(descriptor)
    if is_ours and not CAN_MOVE_OPEN_FILES:
        _remove(path)  # Windows refuses where another has opened it since


def _remove(path: str | Path) -> None:
    with contextlib.suppress(OSError):
        os.unlink(path)


@contextmanager
def held(target: Path, what: str, way_out: str) -> Iterator[None]:
    """Nobody else works on `target` in this block; a sentence where another does, or where locks cannot be had."""
    lock = beside(target, ".lock")
    descriptor = _taken(lock, what, way_out)
    try:
        yield
    finally:
        remove_and_close(lock, descriptor)


@contextmanager
def held_where_possible(target: Path, what: str) -> Iterator[bool]:
    """Like `held`; where locks cannot be had the block runs all the same, and is told so by False."""
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(held(target, what, ""))
            is_locked = True
        except _NoLockError:
            is_locked = False
        yield is_locked


def _taken(lock: Path, what: str, way_out: str) -> int:
    """The open lock file, locked, with our facts in it."""
    while True:
        descriptor = _opened(lock, what, way_out)
        try:
            _lock_or_refuse(lock, descriptor, what, way_out)
            if is_named(lock, descriptor):
                _write_facts(descriptor)
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)  # its holder removed it after we had opened it


def _opened(lock: Path, what: str, way_out: str) -> int:
    flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
    try:
        return os.open(lock, flags, 0o666)
    except OSError as error:
        if os.path.lexists(lock):
            raise _NoLockError(
                f"{what} is locked by '{lock}', which cannot be opened: {error.strerror}. It may be another user's; "
                f"where no run is at work it can be removed. {way_out}"
            ) from error
        raise _NoLockError(
            f"{what} is locked by a file beside it; '{lock.parent}' must allow a new file, and does not: "
            f"{error.strerror}. {way_out}"
        ) from error


def _lock_or_refuse(lock: Path, descriptor: int, what: str, way_out: str) -> None:
    try:
        is_locked = try_lock(descriptor)
    except OSError as error:
        _remove(lock)  # a file that nobody can lock says nothing
        raise _NoLockError(
            f"{what} must lie on a file system that can lock files; that of '{lock.parent}' cannot: {error.strerror}. "
            f"{way_out}"
        ) from error
    if not is_locked:
        raise InputError(f"{what} must not be used by two runs at once; {_holder(descriptor)}. Wait for its end.")


def _write_facts(descriptor: int) -> None:
    facts = {
        "process": os.getpid(),
        "host": platform.node(),
        "since": time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime()),
    }
    with contextlib.suppress(OSError):  # a full disk: the lock holds without words
        os.ftruncate(descriptor, 0)
        os.write(descriptor, json.dumps(facts).encode())


def _holder(descriptor: int) -> str:
    """Who says in the lock file that it is at work."""
    try:
        os.lseek(descriptor, 0, os.SEEK_SET)
        facts = json.loads(os.read(descriptor, 4096))
        return f"process {facts['process']} on {facts['host']} has it since {facts['since']}"
    except (OSError, ValueError, LookupError, TypeError):
        return "another has it"
