"""`armillary curate`: many vectors in; near-duplicates, an even sample and levels of clusters out."""

from __future__ import annotations

from typing import Annotated

import typer

from armillary.cli import options as o

_CURATING = "What to do"


def curate(
    input: o.Inputs,
    output: Annotated[
        str | None,
        typer.Option("--output", "-o", metavar="FOLDER", help="Where results go; by default INPUT-curated, here."),
    ] = None,
    levels: Annotated[
        str,
        typer.Option(metavar="K,K,...", help="Clusters of each level, coarse to fine.", rich_help_panel=_CURATING),
    ] = "auto",
    threshold: Annotated[
        float,
        typer.Option(
            metavar="COSINE",
            help="Rows whose cosine is at least this are near-duplicates.",
            min=-1.0,
            max=1.0,
            rich_help_panel=_CURATING,
        ),
    ] = 0.95,
    keep: Annotated[
        str,
        typer.Option(
            metavar="first|central",
            help="Which of near-duplicates stays: the first row, or that nearest to its cluster.",
            rich_help_panel=_CURATING,
        ),
    ] = "first",
    sample_size: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Rows of the even sample; by default a tenth of those kept.",
            min=1,
            rich_help_panel=_CURATING,
        ),
    ] = None,
    nearest: Annotated[
        int,
        typer.Option(
            metavar="M", help="Nearest clusters that are written for each row.", min=1, rich_help_panel=_CURATING
        ),
    ] = 4,
    searched: Annotated[
        int | None,
        typer.Option(
            metavar="M",
            help="Most clusters that a row is compared with; by default all that a near row may be in for up to 20,000 "
            "rows, 8 beyond.",
            min=1,
            rich_help_panel=_CURATING,
        ),
    ] = None,
    fit_rows: Annotated[
        int,
        typer.Option(metavar="N", help="Rows that steps of k-means are done on.", min=2, rich_help_panel=_CURATING),
    ] = 1_000_000,
    layout: Annotated[
        list[str] | None,
        typer.Option(
            metavar="faiss|lance|pgvector",
            help="Also write centroids and lists for a vector store; may be given again.",
            rich_help_panel=_CURATING,
        ),
    ] = None,
    seed: o.Seed = 0,
    threads: o.Threads = None,
    texts: o.Texts = None,
    text_column: o.TextColumn = None,
    id_column: o.IdColumn = None,
    key: o.Key = None,
    format: o.Format = None,
    header: o.Header = None,
    report: Annotated[bool, typer.Option("--report/--no-report", help="Write report.html.")] = True,
    force: o.Force = False,
    quiet: o.Quiet = False,
    json: o.Json = False,
    debug: o.Debug = False,
) -> None:
    """Deduplicate and balance a set of vectors.

    Leaves a folder with rows.parquet (clusters, angles, what was removed and for which row, what was chosen),
    sample.npy, model.safetensors, summary.json and report.html, all of it or nothing. A run that was killed goes on
    where it was when it is started again.

    [b]armillary curate embeddings.npy --threshold 0.9[/]

    [b]armillary curate shards/ --levels 100,1000,10000 --sample-size 1000000 -o curated[/]
    """
    from armillary.cli.curating import Task, curate_to_folder
    from armillary.cli.reading import Reading
    from armillary.cli.screen import Screen

    curate_to_folder(
        Task(
            reading=Reading.of(
                input, format, key, id_column, text_column, texts, header, missing="raise", takes_stored_words=True
            ),
            output=output,
            levels=levels,
            threshold=threshold,
            keep=keep,
            n_sample=sample_size,
            n_nearest=nearest,
            n_searched=searched,
            n_fit_rows=fit_rows,
            layouts=tuple(layout or ()),
            seed=seed,
            threads=threads,
            has_report=report,
            force=force,
        ),
        Screen(quiet=quiet, as_json=json),
    )
