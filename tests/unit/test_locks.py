"""Locks beside files: who holds one, who is refused and in which words, and what a killed holder leaves."""

from __future__ import annotations

import errno
import json
import os
import stat
import warnings
from pathlib import Path
from types import SimpleNamespace

import pytest

from armillary.durable import locks, whole
from armillary.durable.locks import beside, held, held_where_possible
from armillary.durable.whole import whole_file
from armillary.exceptions import InputError

pytestmark = pytest.mark.skipif(os.name != "posix", reason="made for systems with flock; Windows' form is played here")


def refused(target):
    with pytest.raises(InputError) as caught, held(target, "The state 's'", "Go elsewhere."):
        pass
    return str(caught.value)


def killed_inside(block):
    """A child process enters the block and ends there, without a farewell."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forks beside threads, which the child has no use for
        child = os.fork()
    if child == 0:
        with block as entered:
            if entered is not None:
                entered.write(b"half")
                entered.flush()
            os._exit(137)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 137


def test_a_second_holder_is_told_who_the_first_is(tmp_path):
    target = tmp_path / "kept"
    with held(target, "The state 's'", ""):
        facts = json.loads(beside(target, ".lock").read_text())
        assert refused(target) == (
            f"The state 's' must not be used by two runs at once; process {os.getpid()} on {facts['host']} has it "
            f"since {facts['since']}. Wait for its end."
        )
        with pytest.raises(InputError, match="two runs"), held_where_possible(target, "It"):
            pass
        beside(target, ".lock").write_text("nothing")
        assert "; another has it. Wait" in refused(target)
    with held(target, "The state 's'", ""):
        pass
    assert os.listdir(tmp_path) == []


def test_a_killed_holder_holds_nothing(tmp_path):
    target = tmp_path / "kept"
    killed_inside(held(target, "It", ""))
    assert os.listdir(tmp_path) == [".kept.armillary.lock"]
    with held(target, "It", ""):
        assert json.loads(beside(target, ".lock").read_text())["process"] == os.getpid()
    assert os.listdir(tmp_path) == []


def test_a_lock_file_that_was_removed_after_it_was_opened_locks_nothing(tmp_path, monkeypatch):
    target, real, opened = tmp_path / "kept", locks.try_lock, []

    def slow(descriptor):
        opened.append(descriptor)
        if len(opened) == 1:  # its holder ends between our open and our lock
            beside(target, ".lock").unlink()
        return real(descriptor)

    monkeypatch.setattr(locks, "try_lock", slow)
    with held(target, "It", ""):
        assert len(opened) == 2
        assert locks.is_named(beside(target, ".lock"), opened[1])


def test_a_lock_file_of_another_stays_at_the_end(tmp_path):
    target = tmp_path / "kept"
    with held(target, "It", ""):
        beside(target, ".lock").unlink()  # somebody tidies up
        beside(target, ".lock").touch()
    assert os.listdir(tmp_path) == [".kept.armillary.lock"]


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS, errno.EINVAL])
def test_a_file_system_without_locks(number, tmp_path, monkeypatch):
    def flock(*_):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(locks, "fcntl", SimpleNamespace(flock=flock, LOCK_EX=2, LOCK_NB=4))
    assert refused(tmp_path / "kept") == (
        f"The state 's' must lie on a file system that can lock files; that of '{tmp_path}' cannot: "
        f"{os.strerror(number)}. Go elsewhere."
    )
    with held_where_possible(tmp_path / "kept", "It") as is_locked:
        assert not is_locked
    assert os.listdir(tmp_path) == []
    # files are written whole all the same, and nothing is taken for a leftover
    beside(tmp_path / "file", "-0.tmp").write_text("somebody's")
    with whole_file(tmp_path / "file") as stream:
        stream.write(b"whole")
    assert (tmp_path / "file").read_bytes() == b"whole"
    assert sorted(os.listdir(tmp_path)) == [".file.armillary-0.tmp", "file"]


def test_a_system_without_any_form_of_locks(tmp_path, monkeypatch):
    monkeypatch.setattr(locks, "fcntl", None)
    monkeypatch.setattr(locks, "msvcrt", None)
    assert "must lie on a file system that can lock files" in refused(tmp_path / "kept")


def test_a_folder_that_takes_no_lock_and_a_lock_of_another_user(tmp_path, monkeypatch):
    def refuse(*_):
        raise PermissionError(errno.EACCES, "Permission denied")

    lock, real = beside(tmp_path / "kept", ".lock"), os.open
    monkeypatch.setattr(os, "open", refuse)
    assert refused(tmp_path / "kept") == (
        f"The state 's' is locked by a file beside it; '{tmp_path}' must allow a new file, and does not: Permission "
        "denied. Go elsewhere."
    )
    monkeypatch.setattr(os, "open", real)
    lock.touch()
    monkeypatch.setattr(os, "open", refuse)
    assert refused(tmp_path / "kept") == (
        f"The state 's' is locked by '{lock}', which cannot be opened: Permission denied. It may be another user's; "
        "where no run is at work it can be removed. Go elsewhere."
    )


def test_the_root_has_a_name_beside_it_too():
    assert beside(Path("/"), ".lock").parent == Path("/")


def test_names_of_any_length(tmp_path):
    target = tmp_path / ("ü" * 120)
    with held(target, "It", ""), whole_file(target) as stream:
        stream.write(b"whole")
    assert target.read_bytes() == b"whole"
    assert beside(target, ".lock") != beside(target.with_name("ü" * 121), ".lock")


# ------------------------------------------------------------------------------------------- temporary files


def test_the_next_writer_removes_what_a_killed_one_left(tmp_path):
    target = tmp_path / "file"
    target.write_bytes(b"old")
    killed_inside(whole_file(target))
    killed_inside(whole_file(tmp_path / "other"))
    assert len(os.listdir(tmp_path)) == 3
    with whole_file(target) as stream:
        stream.write(b"new")
    assert target.read_bytes() == b"new"
    assert sorted(os.listdir(tmp_path)) == [".other.armillary-0.tmp", "file"]


def test_what_was_to_be_read_only_is_removed_too(tmp_path):
    left = beside(tmp_path / "file", "-0.tmp")
    left.touch()
    left.chmod(stat.S_IRUSR)
    with whole_file(tmp_path / "file"):
        pass
    assert os.listdir(tmp_path) == ["file"]


def test_writers_at_work_do_not_disturb_each_other(tmp_path):
    target = tmp_path / "file"
    with whole_file(target) as first:
        first.write(b"first")
        with pytest.raises(AttributeError, match="enough"), whole_file(target) as second:
            second.enough()
        assert second.name != first.name
        for number in range(20):
            with whole_file(target) as other:
                other.write(b"%d" % number)
            assert target.read_bytes() == b"%d" % number
    assert target.read_bytes() == b"first"
    assert os.listdir(tmp_path) == ["file"]


def test_a_file_taken_for_a_leftover_before_its_lock_is_made_again(tmp_path, monkeypatch):
    target, real, made = tmp_path / "file", whole.try_lock, []

    def slow(descriptor):
        made.append(descriptor)
        if len(made) == 1:  # a cleaner is faster
            beside(target, "-0.tmp").unlink()
        return real(descriptor)

    monkeypatch.setattr(whole, "try_lock", slow)
    with whole_file(target) as stream:
        stream.write(b"whole")
    assert target.read_bytes() == b"whole"
    assert os.listdir(tmp_path) == ["file"]


def test_links_in_the_place_of_a_temporary_file_are_not_followed(tmp_path):
    (tmp_path / "precious").write_text("mine")
    beside(tmp_path / "file", "-0.tmp").symlink_to(tmp_path / "precious")
    with whole_file(tmp_path / "file") as stream:
        stream.write(b"whole")
    assert (tmp_path / "precious").read_text() == "mine"
    assert (tmp_path / "file").read_bytes() == b"whole"


# ------------------------------------------------------------------------------------------------------ Windows


class Windows:
    """`msvcrt.locking`: one byte of one file, by one handle at a time, at the place where the handle stands."""

    LK_NBLCK = 2

    def __init__(self):
        self.holders = {}

    def locking(self, descriptor, mode, n_bytes):
        assert (mode, n_bytes) == (self.LK_NBLCK, 1)
        assert 0 < os.lseek(descriptor, 0, os.SEEK_CUR) < 1 << 31
        file = os.fstat(descriptor).st_ino
        if self.holders.get(file) != descriptor and self.is_held(file):
            raise PermissionError(errno.EACCES, "Permission denied")
        self.holders[file] = descriptor

    def is_held(self, file):
        try:
            return os.fstat(self.holders[file]).st_ino == file
        except (KeyError, OSError):  # closed: the lock went with it
            return False


@pytest.fixture
def windows(monkeypatch):
    system, real_unlink = Windows(), os.unlink

    def unlink(path, **options):
        if os.path.exists(path) and system.is_held(os.stat(path).st_ino):
            raise PermissionError(errno.EACCES, "The file is used by another process")
        real_unlink(path, **options)

    monkeypatch.setattr(locks, "fcntl", None)
    monkeypatch.setattr(locks, "msvcrt", system)
    for module in (locks, whole):
        monkeypatch.setattr(module, "CAN_MOVE_OPEN_FILES", False)
    monkeypatch.setattr(os, "unlink", unlink)
    return system


def test_windows_holds_a_byte_that_nobody_reads(windows, tmp_path):
    target = tmp_path / "kept"
    with held(target, "The state 's'", ""):
        assert len(windows.holders) == 1
        assert f"process {os.getpid()} on " in refused(target)
    assert os.listdir(tmp_path) == []


def test_windows_moves_a_file_after_it_is_closed(windows, tmp_path, monkeypatch):
    streams = []
    real = os.replace

    def replace(one, other):
        assert streams[-1].closed
        real(one, other)

    monkeypatch.setattr(os, "replace", replace)
    with whole_file(tmp_path / "file") as stream:
        streams.append(stream)
        stream.write(b"whole")
    assert (tmp_path / "file").read_bytes() == b"whole"
    with pytest.raises(AttributeError, match="enough"), whole_file(tmp_path / "file") as stream:
        stream.enough()
    assert os.listdir(tmp_path) == ["file"]
    beside(tmp_path / "file", "-0.tmp").touch()
    with whole_file(tmp_path / "file") as stream:  # it may be another's that is closed and not yet moved
        streams.append(stream)
    assert sorted(os.listdir(tmp_path)) == [".file.armillary-0.tmp", "file"]
    whole.remove_leftovers(tmp_path / "file")  # under the lock of a state
    assert os.listdir(tmp_path) == ["file"]
