"""Code blocks of the pages, run as a reader would: top to bottom, in an empty folder.

    python docs/building/code_blocks.py [--fill] PAGE ...

Python blocks of a page share their names. A `text` block after one must be what it printed, and `--fill` writes that.
Marks are comments in the line before a block: `<!-- not run: why -->` leaves it out, `<!-- run -->` has a `sh` block
run. Blocks marked `<!-- slow -->` or `<!-- run slow -->`, and pages with `<!-- slow page -->`, are left to `make docs`.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import types
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parents[1]
FOLDERS = (".", "guide", "contribute")
_BLOCK = re.compile(
    r"^(?:<!-- (?P<mark>[^\n]*) -->\n)?^```(?P<language>python|sh|text)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL
)
_MODULE = "page_of_the_site"
_BETWEEN = re.compile(r"\s*(?:It prints:?\s*)?")


@dataclass(frozen=True)
class Block:
    """A piece of code, and what the page says that it prints."""

    language: str
    code: str
    line: int
    printed: re.Match[str] | None

    @property
    def said(self) -> str | None:
        """What the page says, if it says anything."""
        return None if self.printed is None else self.printed["body"]


def pages() -> list[Path]:
    """Every page of the site that is written by hand."""
    return [path for folder in FOLDERS for path in sorted((DOCS / folder).glob("*.md"))]


def is_slow(page: Path) -> bool:
    """Whether the page is left to `make docs`."""
    return "<!-- slow page -->" in page.read_text(encoding="utf-8")


def blocks(page: Path, *, has_slow: bool = True) -> Iterator[Block]:
    """The blocks of a page that are run."""
    text = page.read_text(encoding="utf-8")
    found = list(_BLOCK.finditer(text))
    for number, one in enumerate(found):
        mark = one["mark"] or ""
        if one["language"] == "text" or mark.startswith("not run"):
            continue
        if one["language"] == "sh" and not mark.startswith("run"):
            continue
        if mark.endswith("slow") and not has_slow:
            continue
        after = found[number + 1] if number + 1 < len(found) else None
        is_output = after is not None and after["language"] == "text"
        is_output = is_output and _BETWEEN.fullmatch(text[one.end() : after.start()]) is not None
        line = text.count("\n", 0, one.start("body")) + 1
        yield Block(one["language"], one["body"], line, after if is_output else None)


def run(page: Path, folder: Path, *, has_slow: bool = True) -> Iterator[tuple[Block, str]]:
    """Run the blocks of a page in a folder, each with what it printed."""
    module = types.ModuleType(_MODULE)  # so that classes of a page have a home, and can be pickled
    sys.modules[_MODULE] = module
    names = module.__dict__
    begun: list[int] = []
    try:
        with contextlib.chdir(folder):
            for block in blocks(page, has_slow=has_slow):
                is_python = block.language == "python"
                yield block, _python(block, page, names) if is_python else _shell(block, folder, begun)
    finally:
        del sys.modules[_MODULE]
        for group in begun:  # what a page left running, e.g. a server
            with contextlib.suppress(ProcessLookupError):
                os.killpg(group, signal.SIGTERM)


def _python(block: Block, page: Path, names: dict[str, Any]) -> str:
    output = io.StringIO()
    # line numbers in tracebacks are those of the page
    code = compile("\n" * (block.line - 1) + block.code, str(page), "exec", dont_inherit=True)
    with contextlib.redirect_stdout(output):
        exec(code, names)
    return output.getvalue()


def _shell(block: Block, folder: Path, begun: list[int]) -> str:
    tools = folder / ".tools"
    if not tools.exists():
        tools.mkdir()
        for name, arguments in (("python", ""), ("armillary", "-m armillary")):
            (tools / name).write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} {arguments} "$@"\n')
            (tools / name).chmod(0o755)
    environ = os.environ | {"PATH": f"{tools}{os.pathsep}{os.environ['PATH']}", "COLUMNS": "100", "NO_COLOR": "1"}
    command = [shutil.which("bash") or "bash", "-euc", block.code]
    with subprocess.Popen(
        command,
        env=environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        start_new_session=True,
    ) as process:
        begun.append(process.pid)
        printed = process.communicate()[0]
    if process.returncode:
        raise RuntimeError(f"line {block.line}: exit {process.returncode}\n{printed}")
    return re.sub(r"^Compiling .*?(?=^\S)", "", printed, flags=re.MULTILINE | re.DOTALL)


def differences(page: Path, *, has_slow: bool = True) -> list[str]:
    """Where a page says other things than its blocks print."""
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for block, printed in run(page, Path(folder), has_slow=has_slow):
            if block.said is not None and block.said.rstrip() != printed.rstrip():
                found.append(f"{page.name}, line {block.line}: it says\n{block.said}\nand prints\n{printed}")
    return found


def fill(page: Path) -> None:
    """Write what blocks print into the page."""
    text = page.read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder:
        results = list(run(page, Path(folder)))
    for block, printed in reversed(results):
        if block.printed is not None:
            text = text[: block.printed.start("body")] + printed.rstrip() + "\n" + text[block.printed.end("body") :]
    page.write_text(text, encoding="utf-8")


def main() -> int:
    """Run the pages; 1 where one of them is wrong."""
    sys.path.append(str(DOCS.parent))  # the page on engines takes the toy of the tests
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pages", nargs="*", type=Path)
    parser.add_argument("--fill", action="store_true", help="write what blocks print into the pages")
    arguments = parser.parse_args()
    is_wrong = False
    for page in [path.resolve() for path in arguments.pages] or pages():
        began = time.perf_counter()
        try:
            found = fill(page) if arguments.fill else differences(page)
        except Exception:
            found = [f"{page.name}: {traceback.format_exc()}"]
        print(f"{page.relative_to(DOCS)}: {len(list(blocks(page)))} blocks, {time.perf_counter() - began:.1f} s")
        for one in found or ():
            is_wrong = True
            print(one)
    return int(is_wrong)


if __name__ == "__main__":
    raise SystemExit(main())
