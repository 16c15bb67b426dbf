"""The commands in one application, and what becomes of errors and signals.

Exit codes: 0 done; 2 bad input or usage, with one sentence on stderr; 1 something unexpected; 130 and 143 where the
user broke off (SIGINT, SIGTERM); 141 where whoever read the output went away.
"""

from __future__ import annotations

import errno
import os
import signal
import sys
from collections.abc import Callable
from functools import wraps
from inspect import cleandoc
from types import FrameType
from typing import Annotated, Any, NoReturn

import typer

from armillary import __version__
from armillary.cli.cluster import cluster
from armillary.cli.compare import compare
from armillary.cli.convert import convert
from armillary.cli.curate import curate
from armillary.cli.info import info
from armillary.cli.inspect import inspect
from armillary.cli.predict import predict
from armillary.cli.segment import segment
from armillary.cli.serve import serve
from armillary.cli.stream import stream
from armillary.cli.suggest import suggest
from armillary.cli.token import token
from armillary.cli.warmup import warmup
from armillary.exceptions import ArmillaryError

BAD_INPUT, UNEXPECTED, BROKEN_OFF, TERMINATED, NOBODY_READS = 2, 1, 130, 143, 141

# typer has its own copy of click in some releases: its errors are known by their public child
_UsageError = typer.BadParameter.__mro__[1]
_ClickError = _UsageError.__mro__[1]

app = typer.Typer(
    name="armillary",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)

_PANELS: dict[str, tuple[Callable[..., None], ...]] = {
    "The main job": (cluster, predict, stream, segment, curate),
    "Find out more": (inspect, compare, suggest),
    "The identity service": (serve, token),
    "Files and machine": (convert, warmup, info),
}


def _while_read(command: Callable[..., None]) -> Callable[..., None]:
    """The command; it ends quietly where whoever reads its output goes away, as `head` does."""

    @wraps(command)
    def guarded(*arguments: Any, **options: Any) -> None:
        try:
            command(*arguments, **options)
            sys.stdout.flush()
        except BrokenPipeError:
            # the interpreter flushes once more at its end, and would complain
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(NOBODY_READS) from None

    return guarded


def _paragraphs(command: Callable[..., None]) -> str:
    """The docstring with a line for each paragraph: help breaks lines where the window does."""
    return "\n\n".join(" ".join(part.split()) for part in cleandoc(command.__doc__ or "").split("\n\n"))


for _panel, _commands in _PANELS.items():
    for _command in _commands:
        app.command(rich_help_panel=_panel, help=_paragraphs(_command))(_while_read(_command))


def _show_version(is_asked: bool) -> None:
    if is_asked:
        typer.echo(f"armillary {__version__}")
        raise typer.Exit


@app.callback()
def armillary(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_show_version, is_eager=True)
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
) -> None:
    """Cluster unit vectors: embeddings, surface normals, documents, directions.

    [b]armillary cluster embeddings.npy[/] finds the clusters, and leaves labels, a model and a report in a folder.
    """


def run() -> NoReturn:
    """Run the command that the process was started with, and end the process with its exit code."""
    signal.signal(signal.SIGTERM, _end)
    try:
        code = app(prog_name="armillary", standalone_mode=False)
        sys.exit(code if isinstance(code, int) else 0)
    except (KeyboardInterrupt, typer.Abort):
        sys.exit(BROKEN_OFF)
    except Exception as error:
        if "--debug" in sys.argv:
            raise
        sys.exit(_told(error))


def _end(number: int, frame: FrameType | None) -> NoReturn:
    # an exception, so that what is half done is undone on the way out
    raise SystemExit(TERMINATED)


_MAKE_ROOM = "Make room or choose another place, and try again."
_NO_RIGHT = "Choose another place, or get the right to this one."
_WAYS_OUT: dict[int | None, str] = {
    errno.ENOENT: "Check the path, or make the folder first.",
    errno.ENOTDIR: "Check the path, or make the folder first.",
    errno.EACCES: _NO_RIGHT,
    errno.EPERM: _NO_RIGHT,
    errno.EROFS: _NO_RIGHT,
}


def _told(error: Exception) -> int:
    """Say what went wrong in one sentence; the exit code that goes with it."""
    if isinstance(error, ArmillaryError):
        _say(str(error))
        return BAD_INPUT
    if isinstance(error, _ClickError):
        _say(_one_line(error))
        return BAD_INPUT
    if isinstance(error, OSError):
        named = f" '{error.filename}'" if error.filename is not None else ""
        _say(f"{error.strerror or error}{named}. {_WAYS_OUT.get(error.errno, _MAKE_ROOM)}")
        return BAD_INPUT
    if isinstance(error, MemoryError):
        _say("not enough memory for this. Take fewer rows (--sample), or narrower numbers (float32).")
        return UNEXPECTED
    _say(f"unexpected {type(error).__name__}: {error}. Run again with --debug to see where, and please report it.")
    return UNEXPECTED


def _one_line(error: Exception) -> str:
    """What click says, with the command whose help explains it."""
    context = getattr(error, "ctx", None)
    message = str(getattr(error, "format_message", lambda: str(error))()).replace("\n", " ").strip()
    if not message:  # no command at all: help has been shown
        return "no command given."
    path = context.command_path if context is not None else "armillary"
    # what pydantic or a list of likely options ends with is no sentence yet
    end = "" if message.endswith((".", "?", "!")) else "."
    return f"{message}{end} See {path} --help."


def _say(sentence: str) -> None:
    sys.stderr.write(f"armillary: {sentence}\n")
