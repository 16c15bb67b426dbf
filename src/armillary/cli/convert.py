"""`armillary convert`: vectors from one format into another."""

from __future__ import annotations

from typing import Annotated

import typer

from armillary.cli import options as o


def convert(
    input: o.Input,
    output: Annotated[
        str, typer.Argument(metavar="OUTPUT", help="The new file; [b]-[/] is standard output.", show_default=False)
    ],
    to: Annotated[str | None, typer.Option(metavar="NAME", help="The format of the output.")] = None,
    to_key: Annotated[
        str, typer.Option(metavar="NAME", help="The name of the array (npz, safetensors) or column of lists.")
    ] = "vectors",
    dtype: Annotated[
        str | None, typer.Option(metavar="NAME", help="Numbers of the output: float16, float32 or float64.")
    ] = None,
    normalize: Annotated[bool, typer.Option("--normalize", help="Make every row a unit vector.")] = False,
    texts: o.Texts = None,
    text_column: o.TextColumn = None,
    id_column: o.IdColumn = None,
    key: o.Key = None,
    format: o.Format = None,
    header: o.Header = None,
    spreadsheet_safe: o.SpreadsheetSafe = False,
    force: o.Force = False,
    quiet: o.Quiet = False,
    debug: o.Debug = False,
) -> None:
    """Write vectors in another format, with their ids and texts where it has room for them.

    [b]armillary convert vectors.csv vectors.npy --dtype float32[/]
    """
    from dataclasses import replace

    from armillary.cli.reading import Reading, shape_in_words
    from armillary.cli.saved import refuse_existing
    from armillary.cli.screen import Screen
    from armillary.exceptions import ParameterError
    from armillary.files.formats import format_of
    from armillary.files.write import WITH_WORDS, write_vectors
    from armillary.validation import unit_rows

    if dtype not in (None, "float16", "float32", "float64"):
        raise ParameterError(f"--dtype must be float16, float32 or float64; got '{dtype}'.")
    screen = Screen(quiet=quiet or output == "-")
    refuse_existing(output, force=force)
    kind = to or ("" if output == "-" else format_of(output))
    vectors = Reading(input, format, key, id_column, text_column, texts, header).read(screen)
    rows = unit_rows(vectors.rows, vectors.source, "The array") if normalize else vectors.rows
    vectors = replace(vectors, rows=rows if dtype is None else rows.astype(dtype))
    write_vectors(output, vectors, format=to, key=to_key, is_guarded=spreadsheet_safe)
    lost = [
        name for name, words in (("ids", vectors.ids), ("texts", vectors.texts)) if words and kind not in WITH_WORDS
    ]
    screen.note(f"{shape_in_words(vectors)}: {output}" + (f" (without {' and '.join(lost)})" if lost else ""))
