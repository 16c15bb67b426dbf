"""`armillary suggest`: how many clusters, and which angle."""

from __future__ import annotations

from typing import Annotated

import typer

from armillary.cli import options as o


def suggest(
    input: o.Inputs,
    output: Annotated[
        str | None, typer.Option("--output", "-o", metavar="FOLDER", help="Where summary.json and suggestion.png go.")
    ] = None,
    max_clusters: Annotated[
        int | None,
        typer.Option(
            metavar="K",
            help="Most clusters to look at; by default sqrt(n), at most 200, and beyond while "
            "the best is the last of them.",
            min=2,
        ),
    ] = None,
    n_clusters: Annotated[
        int | None,
        typer.Option(
            "--n-clusters", "-k", metavar="K", help="Also the angle at which dp finds K, or the nearest.", min=1
        ),
    ] = None,
    sample: o.Sample = None,
    seed: o.Seed = 0,
    threads: o.Threads = None,
    automatic: Annotated[
        bool, typer.Option("--auto/--no-auto", help="Also what cluster would choose by itself.")
    ] = True,
    text_column: o.TextColumn = None,
    embed: o.Embed = None,
    key: o.Key = None,
    format: o.Format = None,
    header: o.Header = None,
    missing: o.Missing = "flag",
    force: o.Force = False,
    quiet: o.Quiet = False,
    json: o.Json = False,
    debug: o.Debug = False,
) -> None:
    """Compare angles and numbers of clusters, and say which suit the vectors, or texts.

    The advice is what cluster takes by itself. Beside it angles by fits of dp and numbers of clusters by spherical
    k-means, both by silhouette: another criterion, which may say otherwise. A sweep whose best is its last goes on, to
    half as many clusters as rows, 1,000 at most; it is said where the best is at the end.

    [b]armillary suggest embeddings.npy -o suggestion[/]
    """
    from armillary.cli.fits import Request
    from armillary.cli.reading import Reading
    from armillary.cli.screen import Screen
    from armillary.cli.suggesting import suggest_settings

    suggest_settings(
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
        Request("", n_clusters, None, {}, seed, threads, sample, missing),
        max_clusters,
        output,
        Screen(quiet=quiet, as_json=json),
        has_choice=automatic,
        force=force,
    )
