"""The command line: one command per file, parse, call, print. Needs the extra `armillary[cli]`.

Modules that hold a command import nothing heavy, so that help and shell completion answer at once; the work is in the
modules that they import when they run.
"""

from __future__ import annotations


def main() -> None:
    """Run the command line; the entry point of the package's script."""
    try:
        import typer  # noqa: F401
    except ImportError:
        import sys

        sys.stderr.write("armillary: the command line needs typer. Run: pip install 'armillary[cli]'\n")
        raise SystemExit(2) from None
    from armillary.cli.app import run

    run()
