"""`armillary stream`: ids that go on, whatever ended the last run."""

from __future__ import annotations

import errno
import io
import json
import os
import random
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import armillary
from armillary.durable import locks
from armillary.durable.locks import held
from armillary.exceptions import ArchiveError
from armillary.persistence.checkpoints import load_checkpoint, save_checkpoint

COMMAND = [sys.executable, "-m", "armillary", "stream"]


def write_lines(path, X, *, has_ids=True):
    with path.open("w") as stream:
        for number, row in enumerate(X.tolist()):
            line = {"id": f"r{number}", "vector": row} if has_ids else row
            stream.write(json.dumps(line) + "\n")


def clusters(path):
    return [json.loads(line)["cluster"] for line in path.read_text().splitlines()]


@pytest.fixture
def lines_file(tmp_path, mixture):
    write_lines(tmp_path / "rows.jsonl", mixture[0])
    return tmp_path / "rows.jsonl"


# ------------------------------------------------------------------------------------------------------------ answers


def test_answers_are_those_of_the_model(cli, lines_file, mixture, tmp_path):
    assert cli("stream", "rows.jsonl", "-o", "ids.jsonl").code == 0
    X = mixture[0].astype(np.float64)
    assert clusters(tmp_path / "ids.jsonl") == armillary.Links().fit(X).labels_.tolist()
    lines = (tmp_path / "ids.jsonl").read_text().splitlines()
    assert json.loads(lines[7]) == {"row": 7, "id": "r7", "cluster": clusters(tmp_path / "ids.jsonl")[7]}


@pytest.mark.parametrize(
    ("options", "model"),
    [
        (["--model", "ddp", "--max-angle", "60"], armillary.DDPvMFMeans(np.radians(60))),
        (["--model", "dp", "--max-angle", "60"], armillary.DPvMFMeans(np.radians(60), random_state=0)),
        (["--model", "skmeans", "-k", "5"], armillary.SphericalKMeans(5, n_init=5, random_state=0)),
    ],
)
def test_steps_of_every_model(options, model, cli, lines_file, mixture, tmp_path):
    assert cli("stream", "rows.jsonl", "-o", "ids.jsonl", "--batch", "150", *options).code == 0
    X = mixture[0].astype(np.float64)
    expected = []
    for start in range(0, 600, 150):
        expected += model.partial_fit(X[start : start + 150]).labels_.tolist()
    assert clusters(tmp_path / "ids.jsonl") == expected


def test_arrays_one_after_the_other_are_steps(cli, mixture, tmp_path):
    with (tmp_path / "frames.npy").open("wb") as stream:
        for start in range(0, 600, 200):
            np.save(stream, mixture[0][start : start + 200])
    np.save(tmp_path / "cube.npy", mixture[0].reshape(3, 200, 16))
    model = armillary.DDPvMFMeans(np.radians(60))
    expected = [model.partial_fit_predict(mixture[0][start : start + 200]) for start in range(0, 600, 200)]
    for name in ("frames", "cube"):
        options = ("--model", "ddp", "--max-angle", "60", "--state", f"{name}.state", "-o", f"{name}.jsonl")
        assert cli("stream", f"{name}.npy", *options).code == 0
        assert clusters(tmp_path / f"{name}.jsonl") == np.concatenate(expected).tolist()
        assert armillary.load(tmp_path / f"{name}.state").n_steps_ == 3


def test_a_line_of_many_vectors_is_a_step(cli, mixture, tmp_path):
    X = mixture[0].astype(np.float64)
    (tmp_path / "rows.jsonl").write_text("\n".join(json.dumps(X[k * 300 : (k + 1) * 300].tolist()) for k in range(2)))
    assert cli("stream", "rows.jsonl", "-m", "ddp", "--max-angle", "60", "--state", "s", "-o", "ids.jsonl").code == 0
    assert armillary.load(tmp_path / "s").n_steps_ == 2


def test_rows_before_a_step_of_many_are_a_step(cli, mixture, tmp_path):
    X = mixture[0].astype(np.float64)
    lines = [json.dumps(row) for row in X[:30].tolist()] + [json.dumps(X[30:100].tolist()), json.dumps(X[100].tolist())]
    (tmp_path / "rows.jsonl").write_text("\n".join(lines))
    assert cli("stream", "rows.jsonl", "-m", "ddp", "--max-angle", "60", "--state", "s", "-o", "ids.jsonl").code == 0
    model = armillary.DDPvMFMeans(np.radians(60))
    expected = np.concatenate([model.partial_fit_predict(rows) for rows in (X[:30], X[30:100], X[100:101])])
    assert clusters(tmp_path / "ids.jsonl") == expected.tolist()
    assert armillary.load(tmp_path / "s").n_steps_ == 3


def test_any_file_of_vectors(cli, rows_file, lines_file, tmp_path):
    cli("convert", "rows.npy", "rows.parquet")
    assert cli("stream", "rows.parquet", "-o", "a.csv").code == 0
    assert cli("stream", "rows.jsonl", "-o", "b.csv").code == 0
    table = [line.split(",") for line in (tmp_path / "b.csv").read_text().splitlines()]
    assert table[0] == ["row", "id", "cluster"]
    assert (tmp_path / "a.csv").read_text() == "row,cluster\n" + "".join(f"{row},{one}\n" for row, _, one in table[1:])


def test_standard_input_and_output(cli, lines_file, tmp_path, monkeypatch):
    cli("stream", "rows.jsonl", "-o", "ids.jsonl")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(lines_file.read_bytes())))
    done = cli("stream", "-q")
    assert done.out == (tmp_path / "ids.jsonl").read_text()
    assert done.err == ""
    content = io.BytesIO()
    np.save(content, np.eye(3)[:, :2] + 0.1)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(content.getvalue()))))
    assert len(cli("stream", "-", "-q").out.splitlines()) == 3


# --------------------------------------------------------------------------------------------------- going on


@pytest.mark.parametrize("model", [["-m", "links"], ["-m", "ddp", "--max-angle", "60", "--batch", "50"]])
def test_a_file_that_grows(model, cli, lines_file, mixture, tmp_path):
    options = ("-o", "ids.jsonl", "--state", "kept.state", *model)
    whole = lines_file.read_bytes()
    place = whole.index(b"\n", len(whole) // 2) + 1
    place = whole.index(b'{"id": "r300"')
    lines_file.write_bytes(whole[:place])
    assert cli("stream", "rows.jsonl", *options).code == 0
    lines_file.write_bytes(whole)
    done = cli("stream", "rows.jsonl", *options)
    assert done.code == 0
    assert "after 300 rows" in done.err
    cli("stream", "rows.jsonl", "-o", "once.jsonl", *model)
    assert (tmp_path / "ids.jsonl").read_bytes() == (tmp_path / "once.jsonl").read_bytes()
    # nothing new: nothing is added
    assert cli("stream", "rows.jsonl", *options).code == 0
    assert (tmp_path / "ids.jsonl").read_bytes() == (tmp_path / "once.jsonl").read_bytes()


def test_one_file_after_the_other(cli, mixture, tmp_path):
    write_lines(tmp_path / "whole.jsonl", mixture[0], has_ids=False)
    write_lines(tmp_path / "monday.jsonl", mixture[0][:250], has_ids=False)
    write_lines(tmp_path / "tuesday.jsonl", mixture[0][250:], has_ids=False)
    for day in ("monday", "tuesday"):
        assert cli("stream", f"{day}.jsonl", "-o", "ids.jsonl", "--state", "kept").code == 0
    cli("stream", "whole.jsonl", "-o", "once.jsonl")
    assert (tmp_path / "ids.jsonl").read_bytes() == (tmp_path / "once.jsonl").read_bytes()


def test_a_pipe_goes_on_or_begins_again(cli, lines_file, tmp_path, monkeypatch):
    whole = lines_file.read_bytes()
    place = whole.index(b'{"id": "r300"')

    def stream(content, *options):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
        done = cli("stream", "-", "-o", "ids.jsonl", "--state", "kept", *options)
        assert done.code == 0
        return done.err

    stream(whole[:place])
    assert "rows are expected from number 300 (counted from 0) on." in stream(whole[place:])
    expected = (tmp_path / "ids.jsonl").read_bytes()
    (tmp_path / "ids.jsonl").unlink()
    (tmp_path / "kept").unlink()
    stream(whole[:place])
    assert "the first 300 rows that come are passed over." in stream(whole, "--from-start")
    assert (tmp_path / "ids.jsonl").read_bytes() == expected
    assert len(expected.splitlines()) == 600


def test_what_a_killed_run_wrote_beyond_its_checkpoint_is_cut(cli, lines_file, tmp_path):
    options = ("-o", "ids.jsonl", "--state", "kept")
    cli("stream", "rows.jsonl", *options)
    whole = (tmp_path / "ids.jsonl").read_bytes()
    (tmp_path / "ids.jsonl").write_bytes(whole + b'{"row": 600, "clus')
    assert cli("stream", "rows.jsonl", *options).code == 0
    assert (tmp_path / "ids.jsonl").read_bytes() == whole


def test_a_run_killed_before_its_first_checkpoint_starts_anew(cli, lines_file, tmp_path):
    (tmp_path / "ids.jsonl").write_text("left by a run that was killed")
    (tmp_path / "kept.begun").write_text(str(tmp_path / "ids.jsonl"))
    assert cli("stream", "rows.jsonl", "-o", "ids.jsonl", "--state", "kept").code == 0
    assert len(clusters(tmp_path / "ids.jsonl")) == 600
    assert not (tmp_path / "kept.begun").exists()


def test_an_output_of_others_is_never_taken(cli, lines_file, tmp_path):
    (tmp_path / "mine.jsonl").write_text("dear diary")
    (tmp_path / "kept.begun").write_text(str(tmp_path / "ids.jsonl"))
    for _ in range(2):  # a refusal does not open the door to the next try
        said = cli("stream", "rows.jsonl", "-o", "mine.jsonl", "--state", "kept").sentence
        assert said.startswith("The output 'mine.jsonl' exists, and no state goes with it.")
    assert (tmp_path / "mine.jsonl").read_text() == "dear diary"


def test_a_run_that_is_refused_leaves_nothing(cli, tmp_path):
    (tmp_path / "rows.jsonl").write_text("oops\n")
    assert cli("stream", "rows.jsonl", "-o", "ids.jsonl", "--state", "kept").code == 2
    assert os.listdir(tmp_path) == ["rows.jsonl"]


def test_a_stream_without_rows(cli, tmp_path):
    (tmp_path / "rows.jsonl").write_text("\n")
    assert cli("stream", "rows.jsonl", "-o", "ids.jsonl").code == 0
    assert (tmp_path / "ids.jsonl").read_bytes() == b""


def test_going_on_in_another_output(cli, lines_file, mixture, tmp_path):
    write_lines(tmp_path / "more.jsonl", mixture[0][:50], has_ids=False)
    assert cli("stream", "rows.jsonl", "-o", "one.csv", "--state", "kept").code == 0
    assert cli("stream", "more.jsonl", "-o", "two.csv", "--state", "kept").code == 0
    lines = (tmp_path / "two.csv").read_text().splitlines()
    assert lines[0] == "row,cluster"
    assert [int(line.split(",")[0]) for line in lines[1:]] == list(range(600, 650))


def test_a_bad_line_stops_after_what_came_before(cli, lines_file, tmp_path):
    whole = lines_file.read_text().splitlines(keepends=True)
    lines_file.write_text("".join(whole[:400]) + '{"id": "bad", "vector": [1, 2]}\n' + "".join(whole[400:]))
    options = ("-o", "ids.jsonl", "--state", "kept", "-m", "ddp", "--max-angle", "60", "--batch", "100")
    done = cli("stream", "rows.jsonl", *options)
    assert done.code == 2
    assert "Line 401 of 'rows.jsonl' must be as long as those before it, 16 numbers; it has 2." in done.sentence
    assert len(clusters(tmp_path / "ids.jsonl")) == 400
    lines_file.write_text("".join(whole))
    assert cli("stream", "rows.jsonl", *options).code == 0
    cli("stream", "rows.jsonl", "-o", "once.jsonl", *options[4:])
    assert (tmp_path / "ids.jsonl").read_bytes() == (tmp_path / "once.jsonl").read_bytes()


def test_a_row_without_direction_is_named(cli, tmp_path):
    (tmp_path / "rows.jsonl").write_text("[1, 2]\n[0, 0]\n")
    assert cli("stream", "rows.jsonl", "--missing", "raise").sentence == (
        "In rows 0 to 1 of 'rows.jsonl': Row 1 of X has norm 0 and no direction; Links takes rows as directions. Drop "
        "such rows before fitting."
    )


def test_sentences_about_states(cli, lines_file, mixture, tmp_path):
    options = ("-o", "ids.jsonl", "--state", "kept", "-m", "ddp", "--max-angle", "60")
    assert cli("stream", "rows.jsonl", *options).code == 0
    before = {name: (tmp_path / name).read_bytes() for name in ("kept", "ids.jsonl")}

    def refused(*arguments):
        done = cli("stream", *arguments)
        assert done.code == 2
        assert {name: (tmp_path / name).read_bytes() for name in before} == before
        return done.sentence

    other = options[:4]
    assert "was begun with --model DDPvMFMeans; got Links." in refused("rows.jsonl", *other, "-m", "links")
    assert "was begun with max_angle 1.04" in refused("rows.jsonl", *other, "--max-angle", "30")
    assert "was begun with --batch 256; got 9." in refused("rows.jsonl", *options, "--batch", "9")
    assert "was begun with tol 1e-06; got 0.1." in refused("rows.jsonl", *options, "--set", "tol=0.1")
    write_lines(tmp_path / "narrow.jsonl", mixture[0][:, :5])
    assert (
        "must be as long as those before it, 16 numbers; it has 5" in cli("stream", "narrow.jsonl", *options).sentence
    )
    (tmp_path / "ids.jsonl").write_bytes(before["ids.jsonl"][:50])
    said = cli("stream", "rows.jsonl", *options).sentence
    assert f"must have the {len(before['ids.jsonl']):,} bytes that the state knows of; it has 50." in said
    armillary.save(armillary.DDPvMFMeans().fit(mixture[0]), tmp_path / "model")
    assert "is a saved model without a place in a stream" in cli("stream", "rows.jsonl", "--state", "model").sentence
    (tmp_path / "kept").write_bytes(before["kept"][:-10])
    assert "is cut short or damaged" in cli("stream", "rows.jsonl", *options).sentence


def test_another_file_in_the_middle_of_one(cli, lines_file, mixture, tmp_path):
    whole = lines_file.read_text().splitlines(keepends=True)
    lines_file.write_text("".join(whole[:300]) + "oops\n")
    options = ("-o", "ids.jsonl", "--state", "kept", "--batch", "100")
    assert cli("stream", "rows.jsonl", *options).code == 2
    write_lines(tmp_path / "other.jsonl", mixture[0][300:])
    said = cli("stream", "other.jsonl", *options).sentence
    assert said.startswith("The state 'kept' stopped after 300 rows of another file than 'other.jsonl'")
    assert cli("stream", "other.jsonl", *options, "--new-input").code == 0
    assert len(clusters(tmp_path / "ids.jsonl")) == 600


def test_two_runs_do_not_write_one_output(cli, lines_file, tmp_path):
    fcntl = pytest.importorskip("fcntl")
    options = ("-o", "ids.jsonl", "--state", "kept")
    cli("stream", "rows.jsonl", *options)
    whole = (tmp_path / "ids.jsonl").read_bytes()
    with (tmp_path / "ids.jsonl").open("rb") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        said = cli("stream", "rows.jsonl", *options).sentence
        assert said == "The output 'ids.jsonl' must not be written by two runs; another is at it. Wait for its end."
    assert (tmp_path / "ids.jsonl").read_bytes() == whole


def test_two_runs_do_not_share_a_state(cli, lines_file, tmp_path):
    options = ("-o", "ids.jsonl", "--state", "kept")
    cli("stream", "rows.jsonl", *options)
    before = {name: (tmp_path / name).read_bytes() for name in ("kept", "ids.jsonl")}
    (tmp_path / "link").symlink_to("kept")
    (tmp_path / "there").symlink_to(".", target_is_directory=True)
    with held(tmp_path / "kept", "It", ""):
        for name in ("kept", "link", "./there/kept", tmp_path / "kept"):
            done = cli("stream", "rows.jsonl", "-o", "other.jsonl", "--state", name)
            assert done.code == 2
            assert done.sentence.startswith(
                f"The state '{name}' must not be used by two runs at once; process {os.getpid()} on "
            )
    assert {name: (tmp_path / name).read_bytes() for name in before} == before
    assert sorted(os.listdir(tmp_path)) == ["ids.jsonl", "kept", "link", "rows.jsonl", "there"]


def test_two_runs_at_the_same_time(mixture, tmp_path):
    """The second does not even look at the state: what both would have learned is learned once."""
    command = [*COMMAND, "--state", "kept", "-o"]
    with subprocess.Popen([*command, "ids.jsonl"], cwd=tmp_path, stdin=subprocess.PIPE) as first:
        first.stdin.write(json.dumps(mixture[0][0].tolist()).encode() + b"\n")
        first.stdin.flush()
        wait_for(tmp_path / "ids.jsonl", 1, first)
        second = subprocess.run([*command, "other.jsonl"], cwd=tmp_path, stdin=subprocess.DEVNULL, capture_output=True)
        assert second.returncode == 2
        assert f"must not be used by two runs at once; process {first.pid} on ".encode() in second.stderr
        first.stdin.close()
    assert first.returncode == 0
    assert sorted(os.listdir(tmp_path)) == ["ids.jsonl", "kept"]


def test_the_next_run_removes_what_a_killed_one_left(cli, lines_file, tmp_path):
    for left in (".kept.armillary.lock", ".kept.armillary-0.tmp", ".kept.armillary-3.tmp", "kept.begun"):
        (tmp_path / left).touch()
    (tmp_path / ".other.armillary-0.tmp").touch()
    assert cli("stream", "rows.jsonl", "-o", "ids.jsonl", "--state", "kept").code == 0
    assert sorted(os.listdir(tmp_path)) == [".other.armillary-0.tmp", "ids.jsonl", "kept", "rows.jsonl"]


def test_a_state_or_an_output_where_nobody_can_lock(cli, lines_file, tmp_path, monkeypatch):
    monkeypatch.setattr(locks, "fcntl", None)
    monkeypatch.setattr(locks, "msvcrt", None)
    said = cli("stream", "rows.jsonl", "-o", "ids.jsonl", "--state", "kept").sentence
    assert said == (
        f"The state 'kept' must lie on a file system that can lock files; that of '{tmp_path}' cannot: "
        f"{os.strerror(errno.ENOLCK)}. Choose another place for it with --state."
    )
    assert os.listdir(tmp_path) == ["rows.jsonl"]
    said = cli("stream", "rows.jsonl", "-o", "ids.jsonl").sentence
    assert said.startswith("The output 'ids.jsonl' must lie on a file system that can lock files; it cannot: ")


def test_inspect_and_predict_take_a_state(cli, lines_file, rows_file):
    cli("stream", "rows.jsonl", "-o", "ids.jsonl", "--state", "kept")
    assert "state of a stream after 600 rows" in cli("inspect", "kept").out
    assert cli("inspect", "kept", "--json").data["stream"]["rows"] == 600
    assert len(cli("predict", "kept", "rows.npy").out.splitlines()) == 601


def test_a_place_that_was_edited_is_refused(mixture, tmp_path):
    path = tmp_path / "state"
    model = armillary.Links().fit(mixture[0])
    save_checkpoint(model, {"rows": 12345}, path)
    loaded, place = load_checkpoint(path)
    assert place == {"rows": 12345}
    assert np.array_equal(loaded.resultants_, model.resultants_)
    path.write_bytes(path.read_bytes().replace(b"12345", b"54321"))
    with pytest.raises(ArchiveError, match="compares a place with its SHA-256; that in"):
        load_checkpoint(path)


# --------------------------------------------------------------------------------------------- signals and kills


MODELS = {"links": ["-m", "links", "--batch", "20"], "ddp": ["-m", "ddp", "--max-angle", "60", "--batch", "100"]}
N_LINES = 8_000


@pytest.fixture
def long_stream(cli, mixture, tmp_path):
    """A file of many lines, and a function that gives the bytes of an uninterrupted run over it."""
    rng = np.random.default_rng(1)
    X = mixture[0][rng.integers(0, 600, size=N_LINES)] + 0.02 * rng.normal(size=(N_LINES, 16))
    write_lines(tmp_path / "rows.jsonl", X.round(4))

    def expected(name):
        assert cli("stream", "rows.jsonl", "-q", "-o", "once.jsonl", *MODELS[name]).code == 0
        content = (tmp_path / "once.jsonl").read_bytes()
        assert len(content.splitlines()) == N_LINES
        return content

    return expected


def wait_for(path, n_bytes, process):
    while process.poll() is None and not (path.exists() and path.stat().st_size >= n_bytes):
        time.sleep(0.002)


def run_and_kill(name, n_kills, folder):
    """Runs that are killed at moments drawn by chance, and one that is left to end."""
    draws = random.Random(n_kills)
    ids = folder / "ids.jsonl"
    command = [*COMMAND, "rows.jsonl", "-q", "-o", ids, "--state", "kept", "--checkpoint-rows", "200", *MODELS[name]]
    n_killed = 0
    for _ in range(n_kills):
        size = ids.stat().st_size if ids.exists() else 0
        with subprocess.Popen(command, cwd=folder, stderr=subprocess.DEVNULL) as process:
            wait_for(ids, size + draws.randrange(1, 300_000 // n_kills), process)
            time.sleep(draws.random() * 0.01)
            process.kill()
        n_killed += process.returncode == -signal.SIGKILL
    subprocess.run(command, cwd=folder, check=True)
    assert n_killed > 0
    return ids.read_bytes()


def test_killed_at_random_moments(long_stream, tmp_path):
    """SIGKILL gives a process no chance: whatever it had written, the runs together write what one run writes."""
    assert run_and_kill("links", 2, tmp_path) == long_stream("links")
    assert set(os.listdir(tmp_path)) == {"rows.jsonl", "ids.jsonl", "kept", "once.jsonl"}


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("n_kills", [5, 12])
def test_killed_at_many_random_moments(name, n_kills, long_stream, tmp_path):
    assert run_and_kill(name, n_kills, tmp_path) == long_stream(name)


def check_signal(number, code, word, expected, folder):
    ids = folder / "ids.jsonl"
    command = [*COMMAND, "rows.jsonl", "-o", ids, "--state", "kept", *MODELS["ddp"]]
    with subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, text=True) as process:
        wait_for(ids, 50_000, process)
        process.send_signal(number)
        _, said = process.communicate()
    assert process.returncode == code
    assert word in said
    assert "Traceback" not in said
    assert load_checkpoint(folder / "kept")[1]["rows"] == len(clusters(ids)) < N_LINES
    subprocess.run([*command, "-q"], cwd=folder, check=True)
    assert ids.read_bytes() == expected


def test_a_signal_ends_a_run_after_its_step(long_stream, tmp_path):
    check_signal(signal.SIGTERM, 143, "terminated", long_stream("ddp"), tmp_path)


@pytest.mark.slow
def test_an_interrupt_ends_a_run_after_its_step(long_stream, tmp_path):
    check_signal(signal.SIGINT, 130, "interrupted", long_stream("ddp"), tmp_path)


def test_a_signal_ends_a_run_that_waits_for_a_pipe(mixture, tmp_path):
    """Rows that wait for a whole step are answered first: a pipe cannot be read again."""
    command = [*COMMAND, "-m", "ddp", "--max-angle", "60", "--batch", "100", "--state", tmp_path / "kept"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        for row in mixture[0][:130].tolist():
            process.stdin.write(json.dumps(row).encode() + b"\n")
        process.stdin.flush()
        answers = [process.stdout.readline() for _ in range(100)]
        time.sleep(0.5)  # the other 30 are read
        process.send_signal(signal.SIGINT)
        rest, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert b"Traceback" not in said
    rows = [json.loads(line)["row"] for line in [*answers, *rest.splitlines()]]
    assert rows == list(range(130))
    assert load_checkpoint(tmp_path / "kept")[1]["rows"] == 130


def test_answers_come_at_once(mixture):
    """A producer that waits for the answer to one row gets it."""
    with subprocess.Popen([*COMMAND, "-q"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        for number, row in enumerate(mixture[0][:5].tolist()):
            process.stdin.write(json.dumps(row).encode() + b"\n")
            process.stdin.flush()
            assert json.loads(process.stdout.readline())["row"] == number
        process.stdin.close()
    assert process.returncode == 0


def test_a_disk_that_fills_up(cli, lines_file, tmp_path, monkeypatch):
    options = ("-o", "ids.jsonl", "--state", "kept", "--checkpoint-rows", "50", "--batch", "50")

    def fail(*_):
        raise OSError(28, "No space left on device")

    real = os.replace
    calls = []

    def replace(one, other):
        calls.append(other)
        if len(calls) > 3:
            fail()
        real(one, other)

    monkeypatch.setattr(os, "replace", replace)
    done = cli("stream", "rows.jsonl", *options)
    assert (done.code, done.sentence) == (
        2,
        "No space left on device. Make room or choose another place, and try again.",
    )
    monkeypatch.undo()
    monkeypatch.chdir(tmp_path)
    assert cli("stream", "rows.jsonl", *options).code == 0
    cli("stream", "rows.jsonl", "-o", "once.jsonl", "--batch", "50")
    assert (tmp_path / "ids.jsonl").read_bytes() == (tmp_path / "once.jsonl").read_bytes()
