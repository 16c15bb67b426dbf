"""The steps of the Dockerfile, done in a folder and a virtual environment where there is no Docker.

    python -m release.container

COPY copies, RUN runs, ENV sets, in the order of the file, with every path of the image below one folder. What needs
root (a user, owners) is left out, and said. Then a token is made as the file's comment says, the service is started by
ENTRYPOINT and CMD on a free port of loopback, asked by HEALTHCHECK until it answers, asked with the token, and ended.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
KNOWN = ("FROM", "WORKDIR", "COPY", "RUN", "USER", "ENV", "VOLUME", "EXPOSE", "ENTRYPOINT", "CMD", "HEALTHCHECK")
AS_ROOT = ("useradd", "chown")
PATIENCE = 60.0  # seconds until the service must be ready
TOKEN_COMMENT = re.compile(r"^# A token first: docker run .*? armillary (token .*)$", flags=re.MULTILINE)


@dataclass(frozen=True)
class Step:
    """One instruction."""

    word: str
    rest: str

    @property
    def listed(self) -> list[str]:
        """The words of a form like ["a", "b"]."""
        return [str(one) for one in json.loads(self.rest.removeprefix("CMD ").strip())]


def steps(text: str) -> list[Step]:
    """Instructions of a Dockerfile, lines joined; an error at a word that is not known here."""
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    found = []
    for line in re.sub(r"\\\n", " ", "\n".join(lines)).splitlines():
        word, _, rest = line.strip().partition(" ")
        if word not in KNOWN:
            raise ValueError(f"The Dockerfile has {word}, which this script does not know: add it here.")
        found.append(Step(word, rest.strip()))
    return found


def one(found: list[Step], word: str) -> Step:
    """The only step with a word."""
    (step,) = [step for step in found if step.word == word]
    return step


class Image:
    """A folder that stands for the file system of the image."""

    def __init__(self, folder: Path, python: str) -> None:
        self.root = folder / "root"
        self.here = self.root
        self.root.mkdir()
        environment = folder / "environment"
        subprocess.run([python, "-m", "venv", str(environment)], check=True)
        self.environ = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "NUMBA"))}
        self.environ["PATH"] = f"{environment / 'bin'}{os.pathsep}{os.environ['PATH']}"

    def inside(self, path: str) -> Path:
        """Where a path of the image is."""
        return self.root / path.lstrip("/") if path.startswith("/") else self.here / path

    def do(self, step: Step) -> None:
        """Do one step of the build."""
        if step.word == "WORKDIR":
            self.here = self.inside(step.rest)
            self.here.mkdir(parents=True, exist_ok=True)
        elif step.word == "COPY":
            self._copy(step.rest.split())
        elif step.word == "ENV":
            name, _, value = step.rest.partition("=")
            self.environ[name] = str(self.inside(value)) if value.startswith("/") else value
        elif step.word == "RUN":
            for command in step.rest.split("&&"):
                self._run(shlex.split(command))

    def _copy(self, words: list[str]) -> None:
        *sources, target = words
        for source in sources:
            place = self.inside(target)
            if target.endswith("/"):
                place.mkdir(parents=True, exist_ok=True)
                place /= Path(source).name
            if (ROOT / source).is_dir():
                shutil.copytree(ROOT / source, place, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(ROOT / source, place)

    def _run(self, command: list[str]) -> None:
        if command[0] in AS_ROOT:
            print(f"  left out, since it needs root: {' '.join(command)}")
            return
        words = [str(self.inside(word)) if word.startswith("/") else word for word in command]
        print(f"  {' '.join(command)}")
        subprocess.run(words, cwd=self.here, env=self.environ, check=True)


def free_port() -> int:
    """A port of loopback that nobody has now."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])


def serve(image: Image, found: list[Step], token_command: list[str]) -> None:
    """Start what the image starts, and ask it."""
    start = one(found, "ENTRYPOINT").listed
    made = subprocess.run(
        [*start, *token_command], cwd=image.here, env=image.environ, check=True, stdout=subprocess.PIPE
    )
    token = made.stdout.decode().split()[-1]
    if not any(image.inside("/data").iterdir()):
        raise SystemExit("The token was not written to /data.")
    port = free_port()
    # the same as in the image, but on loopback and a port of its own
    command = [*start, *one(found, "CMD").listed, "--host", "127.0.0.1", "--port", str(port)]
    health = [word.replace(":8750/", f":{port}/") for word in one(found, "HEALTHCHECK").listed]
    process = subprocess.Popen(command, cwd=image.here, env=image.environ)
    try:
        _wait(process, health, image.environ)
        _ask(f"http://127.0.0.1:{port}/v1/collections", token)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)


def _wait(process: subprocess.Popen[bytes], health: list[str], environ: dict[str, str]) -> None:
    end = time.monotonic() + PATIENCE
    while subprocess.run(health, env=environ, capture_output=True).returncode:
        if process.poll() is not None:
            raise SystemExit("The service ended before it was ready.")
        if time.monotonic() > end:
            raise SystemExit("HEALTHCHECK did not pass in time.")
        time.sleep(0.5)
    print("  HEALTHCHECK passes")


def _ask(url: str, token: str) -> None:
    with urllib.request.urlopen(urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"})) as answer:
        print(f"  with the token: {answer.status}")
    try:
        urllib.request.urlopen(url)
    except urllib.error.HTTPError as refused:
        if refused.code != 401:
            raise
        print("  without a token: 401")
    else:
        raise SystemExit("The service answers without a token.")


def main() -> None:
    """Do the steps, then serve."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default=sys.executable)
    options = parser.parse_args()
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    found = steps(text)
    (token_command,) = TOKEN_COMMENT.findall(text)
    with tempfile.TemporaryDirectory(prefix="armillary-image-") as name:
        image = Image(Path(name), options.python)
        for step in found:
            print(f"{step.word} {step.rest}"[:110])
            image.do(step)
        serve(image, found, shlex.split(token_command))
    print("The steps of the Dockerfile work.")


if __name__ == "__main__":
    main()
