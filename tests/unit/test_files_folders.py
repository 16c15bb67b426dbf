"""Files and folders of results appear whole or not at all."""

from __future__ import annotations

import errno
import json
import os
import stat

import pytest

from armillary.exceptions import ArchiveError, InputError
from armillary.files import whole_folder
from armillary.persistence.whole import whole_file


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
