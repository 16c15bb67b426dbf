"""The whole suite on the lowest versions that pyproject.toml allows, on each Python, and on lesser processors.

    make test-versions
    python -m tests.campaigns.versions --only lowest,py313 --store

Environments are built in a folder of their own and kept there. Nothing but the standard library is needed here.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import time
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

ROOT = Path(__file__).parents[2]
RESULT = Path(__file__).parent / "results" / "versions.json"
# What the suite imports, and nothing that only looks at sources.
TOOLS = ("hypothesis", "mpmath", "pandas", "polars", "pytest", "pytest-cov", "pytest-randomly", "pytest-xdist")


@dataclass(frozen=True)
class Plan:
    """One run of the suite."""

    name: str
    python: str
    is_lowest: bool = False
    is_optional: bool = False
    setting: dict[str, str] = field(default_factory=dict)
    home: str = ""  # the environment it shares, if not its own

    @property
    def options(self) -> list[str]:
        """Old releases know nothing of what newer neighbours deprecate, and we cannot mend either."""
        return ["-W", "ignore::DeprecationWarning"] if self.is_lowest else []


# Without features of their own numba would add those of the processor at hand to the name.
PLANS = (
    Plan("lowest", "3.11", is_lowest=True),
    Plan("py311", "3.11"),
    Plan("py312", "3.12"),
    Plan("py313", "3.13"),
    Plan("py314", "3.14", is_optional=True),
    Plan("no-avx512", "3.11", setting={"NUMBA_CPU_NAME": "haswell", "NUMBA_CPU_FEATURES": ""}, home="py311"),
    Plan("no-avx2", "3.11", setting={"NUMBA_CPU_NAME": "generic"}, home="py311"),
)


def requirements(project: dict[str, Any], extras: tuple[str, ...] = ("all",)) -> Iterator[str]:
    """What the package needs with its extras, extras of extras too."""
    yield from project["dependencies"]
    waiting, seen = list(extras), set()
    while waiting:
        extra = waiting.pop()
        for requirement in project["optional-dependencies"][extra]:
            own = re.fullmatch(rf"{project['name']}\[(.+)\]", requirement)
            if own is None:
                yield requirement
            else:
                waiting += [name for name in own[1].split(",") if name not in seen]
        seen.add(extra)


def to_install(project: dict[str, Any], plan: Plan) -> list[str]:
    """Requirements for pip: the floors themselves, or whatever is newest; tools of the suite are always newest."""
    wanted = sorted(set(requirements(project)))
    chosen = [requirement.replace(">=", "==") if plan.is_lowest else requirement for requirement in wanted]
    return [*chosen, *TOOLS]


def interpreter(version: str) -> str | None:
    """A Python of that version on the path, or one of pyenv's."""
    for candidate in _candidates(version):
        answer = _answer(candidate, "-c", "import sys; print('{}.{}'.format(*sys.version_info))")
        if answer == version:
            return candidate
    return None


def _candidates(version: str) -> Iterator[str]:
    for name in (f"python{version}", "python3"):
        found = shutil.which(name)
        if found is not None:
            yield found
    if shutil.which("pyenv") is not None:
        for line in _answer("pyenv", "versions", "--bare").splitlines():
            if line.strip().startswith(f"{version}."):
                yield str(Path(_answer("pyenv", "prefix", line.strip())) / "bin" / "python")


def _answer(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True)
    return done.stdout.strip() if done.returncode == 0 else ""


def build(plan: Plan, project: dict[str, Any], python: str, folder: Path) -> Path | None:
    """The interpreter of an environment with everything but our sources; None where pip finds no such versions."""
    home = folder / (plan.home or plan.name)
    own = home / "bin" / "python"
    if not own.exists():
        subprocess.run([python, "-m", "venv", str(home)], check=True)
    pip = [str(own), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    if subprocess.run([*pip, "--upgrade", *to_install(project, plan)]).returncode:
        return None
    # the package is asked for its version and its command; the sources that are run come from the path
    subprocess.run([*pip, "--no-deps", "--force-reinstall", str(ROOT)], check=True)
    return own


def suite(plan: Plan, own: Path, arguments: list[str]) -> dict[str, Any]:
    """Run the suite, and count."""
    report = own.parents[1] / f"{plan.name}.xml"
    report.unlink(missing_ok=True)
    # compiled code of its own: that of other versions would be written over again and again
    kernels = {"NUMBA_CACHE_DIR": str(own.parents[1] / "kernels")}
    path = {"PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
    command = [str(own), "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={report}", *plan.options]
    setting = os.environ | kernels | path | plan.setting
    start = time.monotonic()
    # by one process: each worker of the suite would compile most of them for itself
    subprocess.run([str(own), "-m", "armillary", "warmup", "--quiet"], cwd=ROOT, env=setting)
    code = subprocess.run([*command, *arguments], cwd=ROOT, env=setting).returncode
    seconds = round(time.monotonic() - start, 1)
    counts = counted(report.read_text()) if report.exists() else {}
    return {"exit_code": code, **counts, "seconds": seconds}


def counted(report: str) -> dict[str, int]:
    """Tests that passed, failed and were left out, from pytest's report."""
    cases = list(ElementTree.fromstring(report).iter("testcase"))
    n_failed = sum(case.find("failure") is not None or case.find("error") is not None for case in cases)
    n_skipped = sum(case.find("skipped") is not None for case in cases)
    return {"passed": len(cases) - n_failed - n_skipped, "failed": n_failed, "skipped": n_skipped}


def versions(own: Path, project: dict[str, Any]) -> dict[str, str]:
    """What is installed of what we ask for, and the Python."""
    names = sorted({re.split(r"[><=\[]", requirement)[0] for requirement in requirements(project)})
    code = (
        "import json, platform, sys; from importlib.metadata import version; "
        "print(json.dumps({'python': platform.python_version(), **{name: version(name) for name in sys.argv[1:]}}))"
    )
    return json.loads(_answer(str(own), "-c", code, *names))


def run(plan: Plan, folder: Path, arguments: list[str]) -> dict[str, Any]:
    """Build and run one plan; what it says is told and stored."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    python = interpreter(plan.python)
    if python is None:
        return {"environment": plan.name, "left_out": f"Python {plan.python} is not on this machine"}
    own = build(plan, project, python, folder)
    if own is None:
        why = f"pip finds no such versions for Python {plan.python}"
        return (
            {"environment": plan.name, "left_out": why}
            if plan.is_optional
            else {"environment": plan.name, "exit_code": 1}
        )
    told = {"environment": plan.name, "versions": versions(own, project), **suite(plan, own, arguments)}
    return told | ({"setting": plan.setting} if plan.setting else {})


def store(entry: dict[str, Any], path: Path = RESULT) -> None:
    """Put an entry in the place of the last one of its environment."""
    stored = {old["environment"]: old for old in (json.loads(path.read_text()) if path.exists() else [])}
    stored[entry["environment"]] = entry
    ordered = [stored[plan.name] for plan in PLANS if plan.name in stored]
    path.write_text(json.dumps(ordered, indent=2) + "\n")


def main() -> None:
    """The command line: run the plans, print what came out, and end with 1 where something failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.campaigns.versions")
    parser.add_argument("--only", help="names with commas between: " + ", ".join(plan.name for plan in PLANS))
    parser.add_argument("--folder", type=Path, default=ROOT / ".versions", help="where environments are built and kept")
    parser.add_argument("--store", action="store_true", help=f"keep what came out in {RESULT.name}")
    parser.add_argument("tests", nargs="*", help="for pytest; if nothing is given: -n auto --dist worksteal")
    options = parser.parse_args()
    names = {plan.name for plan in PLANS} if options.only is None else set(options.only.split(","))
    entries = []
    for plan in PLANS:
        if plan.name in names:
            entries.append(run(plan, options.folder.resolve(), options.tests or ["-n", "auto", "--dist", "worksteal"]))
            print(json.dumps(entries[-1]), flush=True)
            if options.store:
                store(entries[-1])
    raise SystemExit(any(entry.get("exit_code", 0) for entry in entries))


if __name__ == "__main__":
    main()
