"""`armillary predict`: clusters of new rows by a saved model."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from armillary.cli import options as o


def predict(
    model: Annotated[
        str, typer.Argument(metavar="MODEL", help="A saved model, or a folder that cluster wrote.", show_default=False)
    ],
    input: o.Inputs,
    output: Annotated[
        str,
        typer.Option(
            "--output", "-o", metavar="FILE", help="csv, tsv, jsonl or npy; [b]-[/] is standard output (csv)."
        ),
    ] = "-",
    to: Annotated[str | None, typer.Option(metavar="NAME", help="The format of the output.")] = None,
    reject: Annotated[
        bool, typer.Option("--reject", help="-1 for rows beyond max_angle of every cluster (dp, ddp).")
    ] = False,
    times: o.Times = None,
    threads: o.Threads = None,
    device: o.Device = None,
    texts: o.Texts = None,
    text_column: o.TextColumn = None,
    id_column: o.IdColumn = None,
    key: o.Key = None,
    format: o.Format = None,
    header: o.Header = None,
    missing: o.Missing = "flag",
    spreadsheet_safe: o.SpreadsheetSafe = False,
    force: o.Force = False,
    quiet: o.Quiet = False,
    debug: o.Debug = False,
) -> None:
    """Give new rows the clusters of a saved model.

    [b]armillary predict embeddings-clusters new.npy -o new.csv[/]

    [b]armillary predict reviews-clusters new.csv --text-column body -o placed.csv[/]
    """
    from armillary.cli.fits import predicted
    from armillary.cli.labels_out import check_kind, is_array, write_labels
    from armillary.cli.present import present_rows
    from armillary.cli.reading import Reading, read_times
    from armillary.cli.saved import load_model, names_of, refuse_existing, with_words_of
    from armillary.cli.screen import Screen
    from armillary.exceptions import ParameterError
    from armillary.selection.counting import counted, n_clusters_of
    from armillary.sources.stored import StoredRows

    screen = Screen(quiet=quiet or output == "-")
    check_kind(output, to)
    refuse_existing(output, force=force)
    fitted = load_model(model)
    if threads is not None and hasattr(fitted, "n_threads"):
        fitted.set_params(n_threads=threads)
    if device is not None:
        fitted.set_params(device=device)
    if reject and type(fitted).__name__ not in ("DPvMFMeans", "DDPvMFMeans"):
        raise ParameterError(f"--reject belongs to dp and ddp; '{model}' is a {type(fitted).__name__}. Leave it out.")
    if times is not None and type(fitted).__name__ != "TemporalVonMisesFisherMixture":
        raise ParameterError(f"--times belongs to temporal; '{model}' is a {type(fitted).__name__}. Leave it out.")
    reading = Reading.of(input, format, key, id_column, text_column, texts, header, missing=missing, takes_texts=True)
    if reading.holds_texts():
        reading = with_words_of(model, reading)
    vectors = reading.read(screen)
    when = read_times(times, vectors.n_rows, screen)
    options: dict[str, Any] = {"reject": True} if reject else {}
    is_here = present_rows(vectors.rows, missing, screen, are_words=vectors.idf is not None, is_placed=True)
    if isinstance(vectors.rows, StoredRows) and when is None and is_here is None and is_array(output, to):
        labels = fitted.predict(vectors.rows, out=output, **options)  # not twice in memory, nor once
    else:
        labels = predicted(fitted, vectors.rows, screen, when, is_here, **options)
        write_labels(output, labels, vectors, kind=to, is_guarded=spreadsheet_safe, names=names_of(model))
    n_out = int((labels < 0).sum())
    refused = f", {n_out:,} of them in no cluster (-1)" if n_out else ""
    screen.note(f"{counted(len(labels), 'row')} in {counted(n_clusters_of(labels), 'cluster')}{refused}: {output}")
