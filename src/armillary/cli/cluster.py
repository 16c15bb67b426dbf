"""`armillary cluster`: vectors in, a folder of results out."""

from __future__ import annotations

from typing import Annotated

import typer

from armillary.cli import options as o
from armillary.cli.model_names import AUTO


def cluster(
    input: o.Inputs,
    output: Annotated[
        str | None,
        typer.Option("--output", "-o", metavar="FOLDER", help="Where results go; by default INPUT-clusters, here."),
    ] = None,
    model: o.Model = AUTO,
    n_clusters: o.NClusters = None,
    max_angle: o.MaxAngle = None,
    sample: o.Sample = None,
    settings: o.Settings = None,
    level: o.Level = "chosen",
    merge: o.Merge = None,
    outliers: o.Outliers = None,
    tfidf: o.Tfidf = "auto",
    min_cluster_size: o.MinClusterSize = None,
    seed: o.Seed = 0,
    threads: o.Threads = None,
    device: o.Device = None,
    labels: o.Labels = None,
    label_column: o.LabelColumn = None,
    times: o.Times = None,
    texts: o.Texts = None,
    text_column: o.TextColumn = None,
    embed: o.Embed = None,
    keep_texts: o.KeepsTexts = True,
    vocabulary: o.Vocabulary = None,
    label_names: o.LabelNames = None,
    id_column: o.IdColumn = None,
    key: o.Key = None,
    format: o.Format = None,
    header: o.Header = None,
    missing: o.Missing = "flag",
    report: Annotated[bool, typer.Option("--report/--no-report", help="Write report.html.")] = True,
    flat_map: o.FlatMap = None,
    images: o.Images = None,
    spreadsheet_safe: o.SpreadsheetSafe = False,
    force: o.Force = False,
    quiet: o.Quiet = False,
    json: o.Json = False,
    debug: o.Debug = False,
) -> None:
    """Find the clusters of a file of vectors or texts.

    Leaves a folder with labels.csv, labels.npy, model.safetensors, summary.json and report.html, all of it or nothing.
    Without options the model and its settings are chosen by measurement, and the reason is said.

    [b]armillary cluster embeddings.npy[/]

    [b]armillary cluster normals.npz --key normals --max-angle 40 -o rooms[/]

    [b]armillary cluster sentences.parquet --text-column sentence -k 77 --labels truth.csv[/]

    [b]armillary cluster reviews.csv --text-column body[/]
    """
    from armillary.cli.clustering import Pictures, Task, cluster_to_folder
    from armillary.cli.fits import Request, auto_settings, parsed_settings
    from armillary.cli.naming import NameRequest
    from armillary.cli.reading import Reading
    from armillary.cli.screen import Screen

    auto = auto_settings(level, merge, outliers, tfidf, min_cluster_size)
    cluster_to_folder(
        Task(
            reading=Reading.of(
                input,
                format,
                key,
                id_column,
                text_column,
                texts,
                header,
                missing=missing,
                embed=embed,
                keeps_texts=keep_texts,
                takes_texts=True,
            ),
            request=Request(
                model, n_clusters, max_angle, parsed_settings(settings), seed, threads, sample, missing, device, auto
            ),
            output=output,
            truth=(labels, label_column),
            times=times,
            names=NameRequest(label_names, vocabulary),
            has_report=report,
            pictures=Pictures(flat_map, images),
            is_guarded=spreadsheet_safe,
            force=force,
        ),
        Screen(quiet=quiet, as_json=json),
    )
