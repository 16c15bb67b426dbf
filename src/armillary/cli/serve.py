"""`armillary serve`: the identity service."""

from __future__ import annotations

from typing import Annotated

import typer

from armillary.cli import options as o


def serve(
    data: Annotated[
        str | None, typer.Option(metavar="FOLDER", help="Where collections and tokens are kept. [armillary-data]")
    ] = None,
    host: Annotated[str | None, typer.Option(metavar="ADDRESS", help="Where to listen. [127.0.0.1]")] = None,
    port: Annotated[int | None, typer.Option(metavar="N", help="The port. [8750]", min=1, max=65535)] = None,
    no_auth: Annotated[
        bool, typer.Option("--no-auth", help="Ask for no tokens; only where nobody but this machine can ask.")
    ] = False,
    config: Annotated[
        str | None, typer.Option(metavar="FILE", help="Settings as TOML. ARMILLARY_PORT=... sets them too.")
    ] = None,
    allowed_hosts: Annotated[
        str | None, typer.Option(metavar="NAMES", help="Further names of this server, e.g. of a proxy.")
    ] = None,
    certfile: Annotated[str | None, typer.Option(metavar="FILE", help="Certificate for TLS.")] = None,
    keyfile: Annotated[str | None, typer.Option(metavar="FILE", help="Its key.")] = None,
    show_settings: Annotated[
        bool, typer.Option("--show-settings", help="Print all settings as they are, as TOML, and end.")
    ] = False,
    debug: o.Debug = False,
) -> None:
    """Serve ids for vectors over HTTP, durably: who or what is this, for every vector that arrives.

    A page at / shows collections at work. Tokens are made by [b]armillary token create[/].
    """
    from armillary.cli.serving import show_or_serve

    flags = {
        "data": data, "host": host, "port": port, "no_auth": no_auth or None, "allowed_hosts": allowed_hosts,
        "certfile": certfile, "keyfile": keyfile,
    }  # fmt: skip
    show_or_serve(config, flags, is_shown=show_settings)
