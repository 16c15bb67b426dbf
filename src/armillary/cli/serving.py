"""The work of `armillary serve` and `armillary token`."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import typer

from armillary.exceptions import InputError, MissingExtraError
from armillary.service.settings import settings_from
from armillary.service.tokens import Tokens


def show_or_serve(file: str | None, flags: Mapping[str, Any], *, is_shown: bool) -> None:
    """Print the settings, or serve."""
    settings = settings_from(file, flags=flags)
    if is_shown:
        typer.echo("\n".join(settings.lines()))
        return
    try:
        server = importlib.import_module("armillary.service.server")
    except ImportError as error:
        raise MissingExtraError.of("armillary serve", str(error.name), "service") from error
    server.serve(settings)


def do_token(action: str, name: str | None, scope: str, data: str | None) -> None:
    """Make, list or revoke a token."""
    tokens = Tokens(Path(settings_from(None, flags={"data": data}).data))
    if action == "list":
        for token in tokens.all():
            typer.echo(f"{token.name}\t{token.scope}\t{token.created}")
        return
    if action not in ("create", "revoke"):
        raise InputError(f"armillary token takes create, list or revoke; got {action!r}.")
    if name is None:
        raise InputError(f"armillary token {action} needs the name of a token; got none.")
    if action == "revoke":
        tokens.revoke(name)
        return
    typer.echo(tokens.create(name, scope))
