"""`armillary stream`: vectors as they come in, the ids of their clusters out, with a state that lasts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import typer

from armillary.cli import options as o
from armillary.cli.model_names import MODELS, completed_streaming

_LASTING = "What lasts"
# those of LINK_PRESETS, which would bring NumPy with it: help answers at once (tests/cli/test_stream.py compares)
PRESET_NAMES = (
    "voice windows, few speakers",
    "voice windows, many speakers",
    "whole utterances",
    "faces",
    "faces, centred",
    "sentences",
)


def _presets(incomplete: str) -> Iterator[str]:
    return (name for name in PRESET_NAMES if name.startswith(incomplete))


def stream(
    input: Annotated[
        str,
        typer.Argument(
            metavar="INPUT",
            help='JSON lines ([..] or {"id": .., "vector": [..]}; a list of vectors is one step), npy '
            "arrays one after the other (each is one step), or any file of vectors. [b]-[/] is standard input.",
            show_default=False,
        ),
    ] = "-",
    output: Annotated[
        str,
        typer.Option("--output", "-o", metavar="FILE", help="jsonl or csv; [b]-[/] is standard output (jsonl)."),
    ] = "-",
    model: Annotated[
        str | None,
        typer.Option(
            "--model",
            "-m",
            metavar="NAME",
            help=f"{', '.join(name for name, known in MODELS.items() if known.is_streaming)}; by default that of the "
            "state, or links.",
            autocompletion=completed_streaming,
        ),
    ] = None,
    batch: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Rows in a step; by default 1 for links on a pipe, else 256 (10 K for skmeans, if more), or an npy "
            "array.",
            min=1,
        ),
    ] = None,
    preset: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help=f"Thresholds of links that were measured on one kind of vectors: {', '.join(PRESET_NAMES)}.",
            autocompletion=_presets,
        ),
    ] = None,
    tune_on: Annotated[
        str | None,
        typer.Option(
            metavar="FILE", help="Find the thresholds of links on these labelled vectors first (needs --labels)."
        ),
    ] = None,
    labels: Annotated[
        str | None, typer.Option(metavar="FILE", help="Whose each vector of --tune-on is: txt, csv, npy, ...")
    ] = None,
    n_clusters: o.NClusters = None,
    max_angle: o.MaxAngle = None,
    settings: o.Settings = None,
    seed: o.Seed = 0,
    threads: o.Threads = None,
    device: o.Device = None,
    state: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Where the model and its place in the stream are kept. If the file is there, the stream goes on.",
            rich_help_panel=_LASTING,
        ),
    ] = None,
    checkpoint_rows: Annotated[
        int, typer.Option(metavar="N", help="Keep the state at least every N rows.", min=1, rich_help_panel=_LASTING)
    ] = 100_000,
    checkpoint_seconds: Annotated[
        float,
        typer.Option(metavar="S", help="Keep the state at least every S seconds.", min=0.0, rich_help_panel=_LASTING),
    ] = 10.0,
    from_start: Annotated[
        bool,
        typer.Option(
            "--from-start",
            help="Standard input begins again at its first row: pass over the rows that are done.",
            rich_help_panel=_LASTING,
        ),
    ] = False,
    new_input: Annotated[
        bool,
        typer.Option(
            "--new-input",
            help="Take INPUT from its beginning, though the state stopped in the middle of another file.",
            rich_help_panel=_LASTING,
        ),
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace an output that is there already.")] = False,
    to: Annotated[str | None, typer.Option(metavar="NAME", help="The format of the output: jsonl or csv.")] = None,
    spreadsheet_safe: o.SpreadsheetSafe = False,
    missing: o.Missing = "flag",
    key: o.Key = None,
    format: o.Format = None,
    quiet: o.Quiet = False,
    debug: o.Debug = False,
) -> None:
    """Cluster vectors as they come, and go on where the last run stopped.

    Every row is answered with its number and the id of its cluster. With --state the model is kept: the same command
    goes on after it was broken off. From file to file no id is lost or repeated, whatever ended the last run; after a
    kill a pipe must send again what came after the number of rows that is said, or everything (--from-start). SIGINT
    and SIGTERM end a run after the step at hand, with exit codes 130 and 143.

    [b]producer | armillary stream --state voices.state -o ids.jsonl[/]

    [b]producer | armillary stream --preset "voice windows, few speakers" --state voices.state -o ids.jsonl[/]

    [b]armillary stream frames.npy --model ddp --max-angle 30 --batch 5000 --state room.state -o ids.csv[/]
    """
    from armillary.cli.fits import Request, parsed_settings
    from armillary.cli.screen import Screen
    from armillary.cli.stream_thresholds import with_thresholds
    from armillary.cli.streaming import StreamTask, follow

    screen = Screen(quiet=quiet)
    request = Request(
        model or "", n_clusters, max_angle, parsed_settings(settings), seed, threads, None, missing, device
    )
    code = follow(
        StreamTask(
            input=input,
            output=output,
            request=with_thresholds(request, preset, (tune_on, labels), state, screen),
            batch=batch,
            state=state,
            checkpoint_rows=checkpoint_rows,
            checkpoint_seconds=checkpoint_seconds,
            is_replayed=from_start,
            is_new_input=new_input,
            force=force,
            to=to,
            is_guarded=spreadsheet_safe,
            key=key,
            format=format,
        ),
        screen,
    )
    raise typer.Exit(code)
