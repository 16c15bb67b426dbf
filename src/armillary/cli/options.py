"""Options that several commands share, so that they are called and explained alike everywhere."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import typer

from armillary.cli.model_names import AUTO, MODELS, completed
from armillary.files.formats import FORMATS

_READING = "How to read"
_FITTING = "What to fit"
_TALKING = "What to say"


def _formats(incomplete: str) -> Iterator[tuple[str, str]]:
    return ((name, what) for name, what in FORMATS.items() if name.startswith(incomplete))


Input = Annotated[
    str,
    typer.Argument(
        metavar="INPUT",
        help=f"A file of vectors, one in each row: {', '.join(FORMATS)}; .gz, .bz2 and .xz too. [b]-[/] is standard "
        "input.",
        show_default=False,
    ),
]
Format = Annotated[
    str | None,
    typer.Option(
        "--format",
        metavar="NAME",
        help="The format, where the ending does not say it.",
        autocompletion=_formats,
        rich_help_panel=_READING,
    ),
]
Key = Annotated[
    str | None,
    typer.Option(
        metavar="NAME", help="Which array of an npz or safetensors file, or column of lists.", rich_help_panel=_READING
    ),
]
IdColumn = Annotated[
    str | None, typer.Option(metavar="NAME", help="The column with ids of the rows.", rich_help_panel=_READING)
]
TextColumn = Annotated[
    str | None, typer.Option(metavar="NAME", help="The column with texts of the rows.", rich_help_panel=_READING)
]
Texts = Annotated[
    str | None,
    typer.Option(
        metavar="FILE", help="A file with one text for each row, for tables and the report.", rich_help_panel=_READING
    ),
]
Header = Annotated[
    bool | None,
    typer.Option(
        "--header/--no-header",
        help="Whether a csv or tsv file has one; by default its first rows tell.",
        show_default=False,
        rich_help_panel=_READING,
    ),
]
Labels = Annotated[
    str | None,
    typer.Option(
        metavar="FILE",
        help="Known classes, one for each row, to score against: txt, csv, npy, ... or the table itself.",
        rich_help_panel=_READING,
    ),
]
LabelColumn = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="The column of --labels that has them.", rich_help_panel=_READING),
]
Times = Annotated[
    str | None,
    typer.Option(metavar="FILE", help="One time for each row, for the model 'temporal'.", rich_help_panel=_READING),
]

Model = Annotated[
    str,
    typer.Option(
        "--model",
        "-m",
        metavar="NAME",
        help=f"{', '.join([AUTO, *MODELS])}. [b]{AUTO}[/] measures which model and settings suit the data.",
        autocompletion=completed,
        rich_help_panel=_FITTING,
    ),
]
NClusters = Annotated[
    int | None,
    typer.Option("--n-clusters", "-k", metavar="K", help="The number of clusters.", min=1, rich_help_panel=_FITTING),
]
MaxAngle = Annotated[
    float | None,
    typer.Option(metavar="DEGREES", help="How far a row may be from its cluster (dp, ddp).", rich_help_panel=_FITTING),
]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="NAME=VALUE",
        help="Any other parameter of the model; may be given again.",
        rich_help_panel=_FITTING,
    ),
]
Sample = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        help="Fit on N rows drawn at random, then give every row its cluster.",
        min=2,
        rich_help_panel=_FITTING,
    ),
]
Seed = Annotated[int, typer.Option(metavar="N", help="Seed of all draws.", min=0, rich_help_panel=_FITTING)]
Threads = Annotated[
    int | None,
    typer.Option(
        metavar="N", help="Threads; by default all cores. Results do not depend on it.", min=1, rich_help_panel=_FITTING
    ),
]

SpreadsheetSafe = Annotated[
    bool,
    typer.Option(
        "--spreadsheet-safe",
        help="In csv and tsv begin ids and texts that a spreadsheet would run as formulas (= + - @, tab, line end, but "
        "no plain numbers) with an apostrophe; armillary.files.restored takes it off. Without this they are written as "
        "they are: do not open ids of strangers in a spreadsheet.",
    ),
]
Force = Annotated[bool, typer.Option("--force", help="Replace earlier results.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing but errors.", rich_help_panel=_TALKING)]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON, for scripts.", rich_help_panel=_TALKING)]
# read by app.run from the command line itself: an error may come before a command begins
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.", rich_help_panel=_TALKING)]
