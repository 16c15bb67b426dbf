"""Every wrong input: one sentence, exit code 2, no traceback, nothing left behind."""

from __future__ import annotations

import errno
import gzip
import os
import signal
import stat
import subprocess
import sys

import numpy as np
import pytest

import armillary
from armillary.cli import clustering
from armillary.files import Vectors, write_vectors


def left_behind(folder, before):
    return sorted(set(os.listdir(folder)) - set(before))


@pytest.fixture
def refused(cli, tmp_path):
    """The sentence of a command that must be refused, with nothing left behind."""

    def sentence(*arguments):
        before = os.listdir(tmp_path)
        done = cli(*arguments)
        assert done.code == 2, (done.out, done.err)
        assert done.out == ""
        assert left_behind(tmp_path, before) == []
        assert "\n" not in done.sentence
        return done.sentence

    return sentence


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["clutser"], "No such command 'clutser'. Did you mean 'cluster'?"),
        (["cluster"], "Missing argument 'INPUT...'. See armillary cluster --help."),
        (["cluster", "rows.npy", "--modle", "dp"], "No such option"),
        (["cluster", "rows.npy", "--clusters", "3"], "). See armillary cluster --help."),
        (["convert", "rows.npy", "none/rows.csv"], "Check the path, or make the folder first."),
        (["cluster", "rows.npy", "-k", "many"], "Invalid value for '--n-clusters'"),
        (["cluster", "rows.npy", "-k", "0"], "greater than or equal to 1. See armillary cluster --help."),
        (["cluster", "no.npy"], "'no.npy' does not exist. Check the path."),
        (["cluster", "."], "The array of './truth.npy' must have two axes"),
        (["cluster", "rows.npy", "--format", "xls"], "A format must be one of npy, "),
        (["cluster", "rows.npy", "--model", "kmeans"], "--model must be one of auto, skmeans, "),
        (
            ["cluster", "rows.npy", "--model", "skmeans"],
            "The model skmeans needs the number of clusters: --n-clusters K.",
        ),
        (
            ["cluster", "rows.npy", "--model", "vmf", "--max-angle", "30", "-k", "3"],
            "--max-angle belongs to dp, ddp; got",
        ),
        (
            ["cluster", "rows.npy", "--model", "links", "-k", "3"],
            "the model links takes no number of clusters. Leave it",
        ),
        (["cluster", "rows.npy", "--model", "tree", "-k", "3"], "Give --set height=2 --set branching=3."),
        (
            ["cluster", "rows.npy", "--model", "dp", "-k", "3", "--max-angle", "9"],
            "--n-clusters or --max-angle; got both",
        ),
        (
            ["cluster", "rows.npy", "--max-angle", "400"],
            "--max-angle must be above 0 and at most 180 degrees; got 400.",
        ),
        (["cluster", "rows.npy", "-k", "9", "--set", "n_ini=3"], "--set must name a parameter of SphericalKMeans; got"),
        (["cluster", "rows.npy", "-k", "9", "--set", "n_init"], "--set must be NAME=VALUE, e.g. --set n_init=10; got"),
        (["cluster", "rows.npy", "--set", "n_init=3"], "--set belongs to a model that is named; got n_init without"),
        (["cluster", "rows.npy", "-k", "9", "--set", "n_init=-3"], "`n_init` of SphericalKMeans must be an int >= 1"),
        (["cluster", "rows.npy", "-k", "9", "--set", "tol=small"], "`tol` of SphericalKMeans must be a number >= 0"),
        (["cluster", "rows.npy", "-k", "700"], "`n_clusters` of SphericalKMeans must not exceed the number of rows"),
        (["cluster", "rows.npy", "-k", "9", "--labels", "no.csv"], "'no.csv' does not exist. Check the path."),
        (
            ["cluster", "rows.npy", "-k", "9", "--labels", "short.txt"],
            "must have labels for each of the 600 rows; it has",
        ),
        (
            ["cluster", "rows.npy", "-k", "9", "--texts", "short.txt"],
            "must have texts for each of the 600 rows; it has",
        ),
        (
            ["cluster", "rows.npy", "-k", "9", "--times", "truth.npy"],
            "--times belongs to the model temporal; got --model",
        ),
        (
            ["cluster", "rows.npy", "-k", "9", "--id-column", "a"],
            "--id-column names a column of a table, an array of an",
        ),
        (["cluster", "rows.npy", "-k", "9", "-o", "short.txt"], "The output must be a folder; '"),
        (["predict", "no.safetensors", "rows.npy"], "'no.safetensors' does not exist. Check the path."),
        (["predict", ".", "rows.npy"], "'.' must be a saved model or a folder with model.safetensors; it has none."),
        (["predict", "rows.npy", "rows.npy"], "load reads files that armillary.save wrote; 'rows.npy' is not a"),
        (
            ["predict", "rows.npy", "rows.npy", "-o", "a.xyz"],
            "The ending of 'a.xyz' must tell how to write labels: .csv",
        ),
        (["inspect", "rows.npy"], "load reads files that armillary.save wrote; 'rows.npy' is not a safetensors file."),
        (["convert", "rows.npy", "rows.xyz"], "The ending of 'rows.xyz' must tell its format; it has '.xyz', and"),
        (
            ["convert", "rows.npy", "a.csv", "--dtype", "int8"],
            "--dtype must be float16, float32 or float64; got 'int8'.",
        ),
        (["convert", "rows.npy", "truth.npy"], "The output 'truth.npy' exists. Choose another with -o, or replace it"),
        (["convert", "rows.npy", "a.csv.gz"], "has the ending of a compressed file; these are read and not written."),
        (["compare", "rows.npy", "--models", "dp,dp"], "--models must name every model once; got dp, dp."),
        (["compare", "rows.npy", "--models", "skmeans,vmf"], "The model skmeans needs the number of clusters"),
        (["stream", "rows.npy", "--model", "vmf"], "A stream takes the models skmeans, dp, ddp, links; got vmf, which"),
        (["stream", "rows.npy", "--model", "ddp"], "The model ddp needs an angle in a stream: --max-angle 30."),
        (["stream", "rows.npy", "--state", "no/state"], "The state must lie in a folder that is there; '"),
        (
            ["stream", "rows.npy", "-o", "a.xyz"],
            "The output of a stream must be jsonl or csv; got 'xyz'. Say it by --to.",
        ),
        (
            ["stream", "rows.npy", "-o", "truth.npy", "--to", "csv"],
            "The output 'truth.npy' exists, and no state goes with",
        ),
        (["warmup", "--models", "abc"], "--model must be one of auto, skmeans, "),
    ],
)
def test_usage(arguments, said, refused, rows_file):
    (rows_file.parent / "short.txt").write_text("a\nb\n")
    assert said in refused(*arguments)


def content_of(name, X, path):
    write_vectors(path, Vectors(X))
    return path.read_bytes()


@pytest.mark.parametrize("name", ["npy", "npz", "parquet", "arrow", "safetensors", "mtx"])
def test_truncated_files(name, refused, mixture, tmp_path):
    path = tmp_path / f"cut.{name}"
    content = content_of(name, mixture[0], path)
    path.write_bytes(content[: len(content) * 2 // 3])
    assert refused("cluster", path.name, "-k", "3").startswith(f"'cut.{name}' must be a whole {name} file; ")


def test_truncated_text_and_compressed_files(refused, mixture, tmp_path):
    (tmp_path / "cut.csv").write_bytes(content_of("csv", mixture[0], tmp_path / "cut.csv")[:-40])
    assert "must have rows of one length; line 601 has" in refused("cluster", "cut.csv", "-k", "3")
    (tmp_path / "cut.jsonl").write_bytes(content_of("jsonl", mixture[0], tmp_path / "cut.jsonl")[:-40])
    assert "Line 600 of 'cut.jsonl' must be JSON" in refused("cluster", "cut.jsonl", "-k", "3")
    (tmp_path / "cut.csv.gz").write_bytes(gzip.compress(b"1,2\n3,4\n")[:-9])
    assert "'cut.csv.gz' must be a whole .gz file; it is cut short or damaged" in refused("cluster", "cut.csv.gz")


def test_wrong_content(refused, mixture, tmp_path):
    X, _ = mixture
    np.savez(tmp_path / "two.npz", a=X, b=X)
    assert "has no array 'c'. Its keys: 'a' 600 x 16, 'b' 600 x 16." in refused("cluster", "two.npz", "--key", "c")
    assert "must have one array with two axes, or be read by --key" in refused("cluster", "two.npz")
    (tmp_path / "ragged.csv").write_text("1,2\n3,4\n5\n")
    assert "line 3 has 1 cells and the first row has 2" in refused("cluster", "ragged.csv")
    (tmp_path / "text.csv").write_text("a,b\n1,2\n3,four\n5,6\n")
    assert "must have numbers in column 'b'; line 3 has 'four' there" in refused("cluster", "text.csv")
    (tmp_path / "empty.npy").touch()
    assert (
        refused("cluster", "empty.npy") == "'empty.npy' must hold vectors; it is empty. Check the step that wrote it."
    )
    (tmp_path / "rows.abc").touch()
    assert "must tell its format; it has '.abc'" in refused("cluster", "rows.abc")
    holes = X.copy()
    holes[17] = 0.0
    holes[30, 3] = np.nan
    np.save(tmp_path / "holes.npy", holes)
    assert "Row 30 of X contains NaN" in refused("cluster", "holes.npy", "-k", "3", "--missing", "raise")
    assert "--missing must be flag or raise; got 'drop'." in refused("cluster", "holes.npy", "--missing", "drop")


def test_a_wrong_dimension_for_a_model(refused, cli, mixture, rows_file, tmp_path):
    assert cli("cluster", "rows.npy", "-k", "5", "-q", "--no-report").code == 0
    np.save(tmp_path / "narrow.npy", mixture[0][:, :7])
    said = refused("predict", "rows-clusters", "narrow.npy", "-o", "labels.csv")
    assert said == (
        "X has 7 features, but SphericalKMeans is expecting 16 features as input, as in its fit. Give vectors of the "
        "same embedding."
    )


def test_rows_are_counted_over_all_blocks(refused, cli, mixture, rows_file, tmp_path, monkeypatch):
    assert cli("cluster", "rows.npy", "-k", "5", "-q", "--no-report").code == 0
    monkeypatch.setattr("armillary.cli.fits._PREDICT_ROWS", 100)
    holes = mixture[0].copy()
    holes[417] = 0.0
    np.save(tmp_path / "holes.npy", holes)
    assert refused("predict", "rows-clusters", "holes.npy", "-o", "a.csv", "--missing", "raise").startswith(
        "Row 417 of X has norm 0"
    )


@pytest.mark.parametrize("step", ["labels", "model", "report", "summary", "rename"])
def test_a_full_disk(step, refused, rows_file, monkeypatch):
    def fail(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device", "somewhere")

    match step:
        case "labels":
            monkeypatch.setattr(clustering, "write_labels", fail)
        case "model":
            monkeypatch.setattr(os, "fsync", fail)
        case "report":
            monkeypatch.setattr(clustering, "_write_report", fail)
        case "summary":
            monkeypatch.setattr("pathlib.Path.write_text", fail)
        case "rename":
            monkeypatch.setattr(os, "rename", fail)
    said = refused("cluster", "rows.npy", "-k", "5")
    assert said == "No space left on device 'somewhere'. Make room or choose another place, and try again."


def test_a_disk_that_is_really_full(tmp_path):
    """A limit on the size of files stands for a full disk: the kernel refuses the write itself."""
    resource = pytest.importorskip("resource")
    X = np.random.default_rng(0).normal(size=(4000, 3)).astype(np.float32)
    np.save(tmp_path / "rows.npy", X)

    def limit():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))

    command = [sys.executable, "-m", "armillary", "cluster", "rows.npy", "-k", "5", "--no-report", "-q"]
    done = subprocess.run(command, cwd=tmp_path, preexec_fn=limit, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr == "armillary: File too large. Make room or choose another place, and try again.\n"
    assert os.listdir(tmp_path) == ["rows.npy"]


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="the superuser may write everywhere")
def test_no_permission_to_write(refused, rows_file, tmp_path):
    tmp_path.chmod(stat.S_IRUSR | stat.S_IXUSR)
    try:
        assert "must allow a new folder; it does not: Permission denied" in refused("cluster", "rows.npy", "-k", "5")
    finally:
        tmp_path.chmod(stat.S_IRWXU)


def test_a_place_that_refuses_a_folder(refused, rows_file, monkeypatch):
    def refuse(*_, **__):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr("pathlib.Path.mkdir", refuse)
    said = refused("cluster", "rows.npy", "-k", "5")
    assert said.endswith("must allow a new folder; it does not: Permission denied. Choose another place with -o.")


def test_existing_results_are_kept_unless_forced(cli, refused, rows_file, tmp_path):
    fit = ("cluster", "rows.npy", "-q", "--no-report", "-o", "out")
    assert cli(*fit, "-k", "5").code == 0
    first = (tmp_path / "out" / "labels.npy").read_bytes()
    assert "exists. Choose another with -o, or replace it with --force." in refused(*fit, "-k", "4")
    assert (tmp_path / "out" / "labels.npy").read_bytes() == first
    assert refused(*fit, "--force", "-k", "700")
    assert (tmp_path / "out" / "labels.npy").read_bytes() == first
    assert cli(*fit, "--force", "-k", "4").code == 0
    assert (tmp_path / "out" / "labels.npy").read_bytes() != first
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "diary.txt").write_text("dear")
    said = refused("cluster", "rows.npy", "-k", "5", "-o", "mine", "--force")
    assert "--force replaces folders that armillary wrote" in said
    assert (tmp_path / "mine" / "diary.txt").read_text() == "dear"


def test_something_unexpected(cli, rows_file, tmp_path, monkeypatch):
    def fail(*_, **__):
        raise RuntimeError("this cannot be")

    monkeypatch.setattr(armillary.SphericalKMeans, "fit", fail)
    before = os.listdir(tmp_path)
    done = cli("cluster", "rows.npy", "-k", "5")
    assert done.code == 1
    assert done.sentence == (
        "unexpected RuntimeError: this cannot be. Run again with --debug to see where, and please report it."
    )
    assert left_behind(tmp_path, before) == []


def test_debug_shows_the_traceback(tmp_path):
    command = [sys.executable, "-m", "armillary", "cluster", "no.npy", "--debug"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "Traceback (most recent call last)" in done.stderr
    assert "InputError: 'no.npy' does not exist" in done.stderr
    assert done.returncode == 1


def test_memory_that_is_not_there(cli, rows_file, monkeypatch):
    def fail(*_, **__):
        raise MemoryError

    monkeypatch.setattr(armillary.SphericalKMeans, "fit", fail)
    done = cli("cluster", "rows.npy", "-k", "5")
    assert (done.code, done.sentence.split(".")[0]) == (1, "not enough memory for this")


@pytest.mark.parametrize(("error", "code"), [(KeyboardInterrupt(), 130), (SystemExit(143), 143)])
def test_breaking_off_leaves_nothing(error, code, cli, rows_file, tmp_path, monkeypatch):
    def fail(*_, **__):
        raise error

    monkeypatch.setattr(armillary.SphericalKMeans, "fit", fail)
    before = os.listdir(tmp_path)
    assert cli("cluster", "rows.npy", "-k", "5").code == code
    assert left_behind(tmp_path, before) == []


def test_a_reader_that_goes_away(rows_file, tmp_path):
    np.save(tmp_path / "many.npy", np.random.default_rng(0).normal(size=(50_000, 3)))
    command = f"{sys.executable} -m armillary convert many.npy - --to csv | head -1; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.stdout == "x0,x1,x2\n"
    assert done.stderr == ""
    assert done.returncode == 141
