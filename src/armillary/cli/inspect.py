"""`armillary inspect`: what a saved model is."""

from __future__ import annotations

from typing import Annotated

import typer

from armillary.cli import options as o


def inspect(
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL",
            help="A saved model, a folder that cluster wrote, or the state of a stream.",
            show_default=False,
        ),
    ],
    all: Annotated[bool, typer.Option("--all", help="Print every cluster, not only the largest.")] = False,
    json: o.Json = False,
    debug: o.Debug = False,
) -> None:
    """Say what a saved model is: parameters, clusters, sizes, spread, ids.

    [b]armillary inspect embeddings-clusters[/]
    """
    from armillary.cli.inspecting import show_model
    from armillary.cli.screen import Screen

    show_model(model, Screen(as_json=json), is_whole=all)
