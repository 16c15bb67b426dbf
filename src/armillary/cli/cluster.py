"""`armillary cluster`: vectors in, a folder of results out."""

from __future__ import annotations

from typing import Annotated

import typer

from armillary.cli import options as o
from armillary.cli.model_names import AUTO


def cluster(
    input: o.Input,
    output: Annotated[
        str | None,
        typer.Option("--output", "-o", metavar="FOLDER", help="Where results go; by default INPUT-clusters, here."),
    ] = None,
    model: o.Model = AUTO,
    n_clusters: o.NClusters = None,
    max_angle: o.MaxAngle = None,
    sample: o.Sample = None,
    settings: o.Settings = None,
    seed: o.Seed = 0,
    threads: o.Threads = None,
    labels: o.Labels = None,
    label_column: o.LabelColumn = None,
    times: o.Times = None,
    texts: o.Texts = None,
    text_column: o.TextColumn = None,
    id_column: o.IdColumn = None,
    key: o.Key = None,
    format: o.Format = None,
    header: o.Header = None,
    report: Annotated[bool, typer.Option("--report/--no-report", help="Write report.html.")] = True,
    spreadsheet_safe: o.SpreadsheetSafe = False,
    force: o.Force = False,
    quiet: o.Quiet = False,
    json: o.Json = False,
    debug: o.Debug = False,
) -> None:
    """Find the clusters of a file of vectors.

    Leaves a folder with labels.csv, labels.npy, model.safetensors, summary.json and report.html, all of it or nothing.
    Without options the model and its settings are chosen by measurement, and the reason is said.

    [b]armillary cluster embeddings.npy[/]

    [b]armillary cluster normals.npz --key normals --max-angle 40 -o rooms[/]

    [b]armillary cluster sentences.parquet --text-column sentence -k 77 --labels truth.csv[/]
    """
    from armillary.cli.clustering import Task, cluster_to_folder
    from armillary.cli.fits import Request, parsed_settings
    from armillary.cli.reading import Reading
    from armillary.cli.screen import Screen

    cluster_to_folder(
        Task(
            reading=Reading(input, format, key, id_column, text_column, texts, header),
            request=Request(model, n_clusters, max_angle, parsed_settings(settings), seed, threads, sample),
            output=output,
            truth=(labels, label_column),
            times=times,
            has_report=report,
            is_guarded=spreadsheet_safe,
            force=force,
        ),
        Screen(quiet=quiet, as_json=json),
    )
