"""Help and completion: complete, and quick, because they import nothing heavy."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from armillary import __version__
from armillary.cli.model_names import MODELS, completed, entry
from armillary.exceptions import ParameterError
from armillary.persistence.schema import MODELS as SAVED

COMMANDS = (
    "cluster",
    "predict",
    "stream",
    "segment",
    "curate",
    "inspect",
    "compare",
    "suggest",
    "convert",
    "warmup",
    "serve",
    "token",
)
HEAVY = {"numpy", "numba", "scipy", "sklearn", "pyarrow", "matplotlib", "safetensors", "PIL"}


def test_help_names_every_command(cli):
    done = cli("--help")
    assert done.code == 0
    assert done.err == ""
    for command in COMMANDS:
        assert f" {command} " in done.out
    assert "embeddings.npy" in done.out


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself(command, cli):
    done = cli(command, "-h")
    assert done.code == 0
    assert f"Usage: armillary {command}" in done.out
    assert "--debug" in done.out


def test_the_version(cli):
    done = cli("--version")
    assert (done.code, done.out) == (0, f"armillary {__version__}\n")


def test_no_command_shows_help(cli):
    done = cli()
    assert "Usage: armillary" in done.out + done.err
    assert done.code == 2


def test_every_model_of_the_library_has_a_name():
    # what is chosen without a name needs none
    assert {known.class_name for known in MODELS.values()} | {"AutoClusterer"} == set(SAVED)


def test_models_are_known_by_both_names():
    assert entry("DDPvMFMeans") == entry(" ddp ") == ("ddp", MODELS["ddp"])
    with pytest.raises(ParameterError) as caught:
        entry("kmeans")
    assert str(caught.value) == (
        f"--model must be one of auto, {', '.join(MODELS)} or the name of a class; got 'kmeans'."
    )


def test_completion_of_lists_of_models():
    assert [name for name, _ in completed("s")] == ["skmeans", "soft-kmeans"]
    assert [name for name, _ in completed("dp,au")] == ["dp,auto"]


def completion(words):
    """What bash is told for a line that ends with the last of these words."""
    variables = {
        "_ARMILLARY_COMPLETE": "complete_bash",
        "COMP_WORDS": " ".join(words),
        "COMP_CWORD": str(len(words) - 1),
    }
    done = subprocess.run(
        [sys.executable, "-m", "armillary"],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""
    return done.stdout.split()


def test_completion_in_a_shell():
    assert completion(["armillary", "cl"]) == ["cluster"]
    assert set(completion(["armillary", "cluster", "x.npy", "--mod"])) == {"--model"}
    assert completion(["armillary", "cluster", "x.npy", "--model", "sk"]) == ["skmeans"]
    assert completion(["armillary", "stream", "--model", "l"]) == ["links"]
    assert completion(["armillary", "cluster", "x", "--format", "pa"]) == ["parquet"]


def test_completion_can_be_shown():
    done = subprocess.run(
        [sys.executable, "-m", "armillary", "--show-completion", "bash"],
        # else the shell is looked for among the parents of the process, and a job of a service may have none
        env=os.environ | {"_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "_ARMILLARY_COMPLETE=complete_bash" in done.stdout


@pytest.mark.parametrize("arguments", [["--help"], ["cluster", "--help"], ["stream", "--help"], ["--version"]])
def test_help_imports_nothing_heavy(arguments):
    code = (
        f"import sys; sys.argv = ['armillary', *{arguments!r}]\n"
        "from armillary.cli import main\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "sys.stderr.write(' '.join({name.split('.')[0] for name in sys.modules}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not set(done.stderr.split()) & HEAVY


def seconds(command, **variables):
    """CPU time of a process: what others do beside it weighs less on that than on the clock."""
    before = os.times()
    subprocess.run(command, env={**os.environ, **variables}, capture_output=True, check=False)
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system


@pytest.mark.skipif(sys.platform == "win32", reason="Windows does not tell the CPU time of children")
def test_help_and_completion_answer_in_less_than_three_times_the_import_of_numpy():
    """The least CPU time of several, taking turns, so that other work on the machine weighs on both."""
    asked = {"_ARMILLARY_COMPLETE": "complete_bash", "COMP_WORDS": "armillary cluster --mo", "COMP_CWORD": "2"}
    numpy, helped, completed_ = [], [], []
    for _ in range(8):
        numpy.append(seconds([sys.executable, "-c", "import numpy"]))
        helped.append(seconds([sys.executable, "-m", "armillary", "--help"]))
        completed_.append(seconds([sys.executable, "-m", "armillary"], **asked))
        ratios = min(helped) / min(numpy), min(completed_) / min(numpy)
        if len(numpy) >= 3 and max(ratios) < 2.5:
            break
    sys.stdout.write(f"help {ratios[0]:.2f}x, completion {ratios[1]:.2f}x the import of numpy\n")
    assert max(ratios) < 3.0
