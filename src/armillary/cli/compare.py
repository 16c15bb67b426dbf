"""`armillary compare`: several models on the same vectors."""

from __future__ import annotations

from typing import Annotated

import typer

from armillary.cli import options as o
from armillary.cli.model_names import completed


def compare(
    input: o.Inputs,
    models: Annotated[
        str | None,
        typer.Option(
            "--models",
            "-m",
            metavar="NAMES",
            help="Names with commas between; by default auto, dp and links, or with -k skmeans, vmf, bayes and dp.",
            autocompletion=completed,
        ),
    ] = None,
    output: Annotated[
        str | None,
        typer.Option("--output", "-o", metavar="FOLDER", help="Where summary.json, comparison.png and labels go."),
    ] = None,
    n_clusters: o.NClusters = None,
    max_angle: o.MaxAngle = None,
    sample: o.Sample = None,
    seed: o.Seed = 0,
    threads: o.Threads = None,
    labels: o.Labels = None,
    label_column: o.LabelColumn = None,
    times: o.Times = None,
    text_column: o.TextColumn = None,
    embed: o.Embed = None,
    key: o.Key = None,
    format: o.Format = None,
    header: o.Header = None,
    missing: o.Missing = "flag",
    spreadsheet_safe: o.SpreadsheetSafe = False,
    force: o.Force = False,
    quiet: o.Quiet = False,
    json: o.Json = False,
    debug: o.Debug = False,
) -> None:
    """Fit several models to the same vectors, or texts: one table, and with -o a picture.

    Options go to the models that take them. Columns are the clusters that rows are in, the share of the largest, the
    mean silhouette, scores against --labels, and seconds. Texts are in no file that is written.

    [b]armillary compare embeddings.npy -k 20 --models skmeans,vmf,dp,auto --labels truth.csv -o compared[/]
    """
    from armillary.cli.comparing import compare_models
    from armillary.cli.fits import Request
    from armillary.cli.reading import Reading
    from armillary.cli.screen import Screen

    compare_models(
        Reading.of(
            input,
            format,
            key,
            text_column=text_column,
            header=header,
            missing=missing,
            takes_texts=True,
            embed=embed,
            keeps_texts=False,
        ),
        [] if models is None else models.split(","),
        Request("", n_clusters, max_angle, {}, seed, threads, sample, missing),
        (labels, label_column),
        times,
        output,
        Screen(quiet=quiet, as_json=json),
        force=force,
        is_guarded=spreadsheet_safe,
    )
