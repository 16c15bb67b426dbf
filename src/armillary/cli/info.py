"""`armillary info`: what is here to work with."""

from __future__ import annotations

from armillary.cli import options as o


def info(json: o.Json = False, debug: o.Debug = False) -> None:
    """Say what is here: versions, cores, and a GPU or why there is none.

    [b]armillary info --json[/]
    """
    import json as as_json
    import platform
    from importlib.metadata import version

    import typer

    from armillary import __version__
    from armillary.cores import usable_cores
    from armillary.engines.select import gpu_in_words

    is_there, card = gpu_in_words()
    found = {
        "armillary": __version__,
        "python": platform.python_version(),
        **{name: version(name) for name in ("numpy", "scipy", "scikit-learn", "numba")},
        "cores": usable_cores(),
        "gpu": card if is_there else f"none: {card}",
    }
    if json:
        typer.echo(as_json.dumps({**found, "has_gpu": is_there}, indent=2))
        return
    for name, value in found.items():
        typer.echo(f"{name:<14}{value}")
