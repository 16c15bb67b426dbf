"""`armillary token`: who may ask the service."""

from __future__ import annotations

from typing import Annotated

import typer

from armillary.cli import options as o


def token(
    action: Annotated[str, typer.Argument(metavar="create|list|revoke", help="What to do.", show_default=False)],
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="Whose token.", show_default=False)] = None,
    scope: Annotated[
        str,
        typer.Option(
            metavar="read|write|admin",
            help="What it allows: [b]read[/] asks, [b]write[/] adds and corrects too, [b]admin[/] makes, erases and "
            "exports too.",
        ),
    ] = "write",
    data: Annotated[str | None, typer.Option(metavar="FOLDER", help="That of armillary serve.")] = None,
    debug: o.Debug = False,
) -> None:
    """Make, list and revoke tokens of the service. A token is shown once; only its hash is kept."""
    from armillary.cli.serving import do_token

    do_token(action, name, scope, data)
