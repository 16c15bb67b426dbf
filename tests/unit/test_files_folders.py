"""Files and folders of results appear whole or not at all."""

from __future__ import annotations

import ctypes
import errno
import json
import os
import stat

import pytest

from armillary.durable import locks
from armillary.durable.locks import beside
from armillary.durable.whole import whole_file
from armillary.exceptions import ArchiveError, InputError
from armillary.files import folders, whole_folder
from armillary.files.exchange import exchange
from armillary.files.folders import bring_back


def test_a_folder_appears_whole(tmp_path):
    with whole_folder(tmp_path / "a" / "b") as folder:
        (folder / "file").write_text("x")
        assert not (tmp_path / "a").exists()
    assert [file.name for file in (tmp_path / "a" / "b").iterdir()] == ["file"]
    assert [file.name for file in tmp_path.iterdir()] == ["a"]


def folder_with_failure(path, error, **options):
    with whole_folder(path, **options) as folder:
        (folder / "file").write_text("new")
        raise error


@pytest.mark.parametrize(
    "error", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt(), SystemExit(1)]
)
def test_a_failure_leaves_no_folder(error, tmp_path):
    with pytest.raises(type(error)):
        folder_with_failure(tmp_path / "out", error)
    assert list(tmp_path.iterdir()) == []


def test_a_failure_leaves_the_old_folder(tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    (out / "summary.json").write_text(json.dumps({"armillary": "0.1.0"}))
    with pytest.raises(OSError, match="disk"):
        folder_with_failure(out, OSError("disk"), force=True)
    assert [file.name for file in out.iterdir()] == ["summary.json"]
    with whole_folder(out, force=True) as folder:
        (folder / "new").touch()
    assert [file.name for file in out.iterdir()] == ["new"]
    assert [file.name for file in tmp_path.iterdir()] == ["out"]


def test_the_old_folder_comes_back_where_the_new_one_cannot_take_its_place(tmp_path, monkeypatch):
    out = tmp_path / "out"
    out.mkdir()
    (out / "summary.json").write_text('{"armillary": "0.1.0"}')
    monkeypatch.setattr(folders, "exchange", lambda *_: False)
    real = os.rename

    def rename(one, other):
        if str(other) == str(out) and (out.parent / os.path.basename(one) / "new").exists():
            raise OSError(errno.ENOSPC, "No space left on device")
        real(one, other)

    monkeypatch.setattr(os, "rename", rename)
    with pytest.raises(OSError, match="No space"), whole_folder(out, force=True) as folder:
        (folder / "new").touch()
    assert [file.name for file in tmp_path.iterdir()] == ["out"]
    assert [file.name for file in out.iterdir()] == ["summary.json"]


def test_sentences_about_folders(tmp_path):
    def said(path, **options):
        with pytest.raises(InputError) as caught, whole_folder(path, **options):
            pass
        return str(caught.value)

    out = tmp_path / "out"
    out.mkdir()
    with whole_folder(out):  # an empty one is as good as none
        pass
    (out / "mine").touch()
    assert said(out) == f"The output folder '{out}' exists. Choose another with -o, or replace it with --force."
    assert said(out, force=True).startswith("--force replaces folders that armillary wrote; ")
    assert said(out / "mine") == (
        f"The output must be a folder; '{out / 'mine'}' is a file. Choose another place with -o."
    )
    assert said(out / "mine" / "x").startswith("The output folder must lie in a folder; ")


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="the superuser may write everywhere")
def test_a_place_without_permission(tmp_path):
    tmp_path.chmod(stat.S_IRUSR | stat.S_IXUSR)
    try:
        with pytest.raises(InputError, match="must allow a new folder; it does not: Permission denied"):
            folder_with_failure(tmp_path / "out", AssertionError())
    finally:
        tmp_path.chmod(stat.S_IRWXU)


def test_a_place_that_refuses(tmp_path, monkeypatch):
    def refuse(*_, **__):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr("pathlib.Path.mkdir", refuse)
    with pytest.raises(InputError) as caught, whole_folder(tmp_path / "out"):
        pass
    assert str(caught.value) == (
        f"'{tmp_path}' must allow a new folder; it does not: Permission denied. Choose another place with -o."
    )


def test_a_whole_file_names_who_writes(tmp_path):
    with pytest.raises(ArchiveError, match=r"^armillary writes a regular file; "), whole_file(tmp_path, "armillary"):
        pass


# ------------------------------------------------------------------------------------------ one name, two folders


@pytest.fixture(params=["exchange", "two renames"])
def can_exchange(request, monkeypatch):
    """With the exchange of this system, and without."""
    if request.param == "two renames":
        monkeypatch.setattr(folders, "exchange", lambda *_: False)
    return request.param == "exchange"


def made(path, word):
    path.mkdir()
    (path / "summary.json").write_text(json.dumps({"armillary": word}))
    return path


def word_in(path):
    return json.loads((path / "summary.json").read_text())["armillary"]


def replaced(path, word, **options):
    with whole_folder(path, force=True, **options) as folder:
        (folder / "summary.json").write_text(json.dumps({"armillary": word}))


def test_two_folders_trade_names(tmp_path):
    one, other = made(tmp_path / "one", "1"), made(tmp_path / "other", "2")
    if not exchange(one, other):
        pytest.skip("this system cannot")
    assert (word_in(one), word_in(other)) == ("2", "1")
    with pytest.raises(FileNotFoundError):
        exchange(one, tmp_path / "none")


@pytest.mark.parametrize("number", [errno.ENOSYS, errno.EINVAL, errno.EPERM])
def test_a_system_that_cannot_exchange_says_so(number, tmp_path, monkeypatch):
    def call(one, other):
        ctypes.set_errno(number)
        return -1

    monkeypatch.setattr("armillary.files.exchange._call", lambda: call)
    assert not exchange(tmp_path, tmp_path)
    monkeypatch.setattr("armillary.files.exchange._call", lambda: None)
    assert not exchange(tmp_path, tmp_path)


def test_a_symbolic_link_is_followed(tmp_path, can_exchange):
    made(tmp_path / "real", "old")
    (tmp_path / "link").symlink_to("real")
    replaced(tmp_path / "link", "new")
    assert (tmp_path / "link").is_symlink()
    assert word_in(tmp_path / "real") == "new"
    (tmp_path / "dangling").symlink_to("later")
    replaced(tmp_path / "dangling", "new")
    assert word_in(tmp_path / "later") == "new"
    assert sorted(os.listdir(tmp_path)) == ["dangling", "later", "link", "real"]


def test_permissions_of_the_old_folder_stay(tmp_path, can_exchange):
    out = made(tmp_path / "out", "old")
    out.chmod(0o700)
    replaced(out, "new")
    assert stat.S_IMODE(out.stat().st_mode) == 0o700


def test_a_second_run_on_a_folder_is_refused(tmp_path):
    out = made(tmp_path / "out", "old")
    (tmp_path / "link").symlink_to("out")
    with whole_folder(out, force=True) as folder:
        (folder / "summary.json").write_text('{"armillary": "first"}')
        with pytest.raises(InputError) as caught:
            replaced(tmp_path / "link", "second")
        assert str(caught.value).startswith(
            f"The output folder '{out}' must not be used by two runs at once; process {os.getpid()} on "
        )
    assert word_in(out) == "first"
    assert sorted(os.listdir(tmp_path)) == ["link", "out"]


def test_runs_beside_each_other_make_one_parent(tmp_path):
    with whole_folder(tmp_path / "a" / "b") as b, whole_folder(tmp_path / "a" / "c") as c:
        (b / "b").touch()
        (c / "c").touch()
    assert sorted(os.listdir(tmp_path / "a")) == ["b", "c"]
    assert os.listdir(tmp_path) == ["a"]


def test_a_run_that_has_just_made_the_folders_between_is_not_overtaken(tmp_path):
    with whole_folder(tmp_path / "a" / "b") as folder:
        (folder / "first").touch()
        (tmp_path / "a").mkdir()  # as the run does right before its end
        with pytest.raises(InputError, match="two runs at once"), whole_folder(tmp_path / "a" / "b"):
            pass
    assert os.listdir(tmp_path / "a" / "b") == ["first"]
    assert os.listdir(tmp_path) == ["a"]


def test_a_folder_that_came_meanwhile_is_not_replaced(tmp_path):
    out = tmp_path / "out"
    with pytest.raises(InputError, match="exists"), whole_folder(out):
        made(out, "another's")
    assert word_in(out) == "another's"
    assert os.listdir(tmp_path) == ["out"]


def left_aside(tmp_path):
    """What a kill between the two renames leaves."""
    made(beside(tmp_path / "out", ".old"), "old")
    made(beside(tmp_path / "out", ".new"), "new")
    return tmp_path / "out"


def test_the_next_run_brings_the_old_folder_back(tmp_path):
    out = left_aside(tmp_path)
    with pytest.raises(InputError, match="exists"), whole_folder(out):
        pass
    assert word_in(out) == "old"
    assert os.listdir(tmp_path) == ["out"]


def test_the_next_reader_brings_the_old_folder_back(tmp_path):
    out = left_aside(tmp_path)
    with locks.held(out, "It", ""):
        bring_back(out)  # a run is at it
        assert not out.exists()
    bring_back(out)
    assert word_in(out) == "old"


def test_a_folder_left_aside_goes_once_the_new_one_is_there(tmp_path):
    out = left_aside(tmp_path)
    made(out, "newer")
    bring_back(out)
    replaced(out, "newest")
    assert word_in(out) == "newest"
    assert os.listdir(tmp_path) == ["out"]


def test_folders_where_nobody_can_lock(tmp_path, monkeypatch, can_exchange):
    monkeypatch.setattr(locks, "fcntl", None)
    monkeypatch.setattr(locks, "msvcrt", None)
    out = made(tmp_path / "out", "old")
    made(beside(out, ".new"), "another's")
    replaced(out, "new")
    assert word_in(out) == "new"
    assert sorted(os.listdir(tmp_path)) == [".out.armillary.new", "out"]
