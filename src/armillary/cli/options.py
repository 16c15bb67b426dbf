"""Options that several commands share, so that they are called and explained alike everywhere."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import typer

from armillary.cli.model_names import AUTO, MODELS, completed
from armillary.files.formats import FORMATS, READ_ONLY

_READING = "How to read"
_FITTING = "What to fit"
_TALKING = "What to say"
_READ = ", ".join([*FORMATS, *READ_ONLY])


def _formats(incomplete: str) -> Iterator[tuple[str, str]]:
    return ((name, what) for name, what in {**FORMATS, **READ_ONLY}.items() if name.startswith(incomplete))


Input = Annotated[
    str,
    typer.Argument(
        metavar="INPUT",
        help=f"A file of vectors, one in each row: {_READ}; .gz, .bz2 and .xz too. [b]-[/] is standard input.",
        show_default=False,
    ),
]
Inputs = Annotated[
    list[str],
    typer.Argument(
        metavar="INPUT...",
        help=f"Vectors, one in each row: a file ({_READ}; .gz, .bz2 and .xz too), several files, a folder "
        "of npy, parquet or arrow files, a saved dataset, or a pattern; [b]-[/] is standard input. What is larger "
        "than half of the free memory stays on disk.",
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
Embed = Annotated[
    str | None,
    typer.Option(
        metavar="NAME_OR_PATH",
        help="Embed the texts by this sentence-transformers model, which must be on this machine: nothing is "
        "downloaded, no code of a model is run, weights must be safetensors. Without this, texts are weighed by their "
        "words (TF-IDF).",
        rich_help_panel=_READING,
    ),
]
KeepsTexts = Annotated[
    bool,
    typer.Option(
        "--keep-texts/--no-texts",
        help="Whether labels.csv, summary.json and report.html hold texts of the rows. Names of clusters are words of "
        "the texts in any case.",
        rich_help_panel=_READING,
    ),
]
Vocabulary = Annotated[
    str | None,
    typer.Option(
        metavar="FILE", help="One word for each column of sparse rows, to name clusters.", rich_help_panel=_READING
    ),
]
LabelNames = Annotated[
    str | None,
    typer.Option(
        metavar="FILE",
        help="Your own names of clusters: a table with the columns cluster and name, a JSON object, or lines of text "
        "(line k, from 0, names cluster k).",
        rich_help_panel=_READING,
    ),
]
FlatMap = Annotated[
    str | None,
    typer.Option(
        "--map",
        metavar="umap|pacmap",
        help="A flat map in the report beside the globe; needs umap-learn or pacmap installed.",
    ),
]
Images = Annotated[
    str | None,
    typer.Option(
        metavar="FILE",
        help="A file with the path of a picture for each row: small copies of some are put into the report.",
    ),
]
Missing = Annotated[
    str,
    typer.Option(
        metavar="flag|raise",
        help="Rows that are empty, NaN, infinite or all zero: [b]flag[/] gives them the label -1 and says how many, "
        "[b]raise[/] stops at the first.",
        rich_help_panel=_READING,
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
Level = Annotated[
    str,
    typer.Option(
        metavar="coarse|chosen|fine|K",
        help="Which level of clusters that nest, or K of them from their tree (auto).",
        rich_help_panel=_FITTING,
    ),
]
Merge = Annotated[
    list[str] | None,
    typer.Option(
        metavar="I,J",
        help="Clusters to take together, e.g. 3,7: they keep the smallest number (auto); may be given again.",
        rich_help_panel=_FITTING,
    ),
]
Outliers = Annotated[
    str | None,
    typer.Option(
        metavar="auto|SHARE",
        help="Give rows that belong nowhere the label -1 (auto): [b]auto[/] loses 1 in 100 rows that belong, 0.05 one "
        "in 20.",
        rich_help_panel=_FITTING,
    ),
]
Tfidf = Annotated[
    str,
    typer.Option(
        metavar="auto|on|off",
        help="Weigh words by TF-IDF: [b]auto[/] where rows are sparse counts (auto).",
        rich_help_panel=_FITTING,
    ),
]
MinClusterSize = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        help="Of more than 10,000 rows look again for groups of at least N among those that fit badly (auto); by "
        "default max(10, n / 20,000).",
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
Device = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Where rows are worked on: cpu, cuda, or auto, a GPU where one is. By default the CPU.",
        rich_help_panel=_FITTING,
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
