"""The command line: one command per file, parse, call, print. Needs the extra `armillary[cli]`."""

from __future__ import annotations


def main() -> None:
    """Run the command line; the entry point of the package's script."""
    from armillary.cli.app import run

    run()
