"""`armillary warmup`: compile the kernels now rather than at the first use."""

from __future__ import annotations

from typing import Annotated

import typer

from armillary.cli import options as o
from armillary.cli.model_names import completed


def warmup(
    models: Annotated[
        str | None,
        typer.Option(metavar="NAMES", help="Only these models, with commas between.", autocompletion=completed),
    ] = None,
    quiet: o.Quiet = False,
    debug: o.Debug = False,
) -> None:
    """Compile the kernels of all models now, for dense and sparse rows: a minute or two, once per machine.

    Later processes read them from disk. For images of containers and machines that must answer at once.
    """
    from armillary.cli.screen import Screen
    from armillary.cli.warming import warm

    warm(None if models is None else models.split(","), Screen(quiet=quiet))
