"""CSV and TSV: separator, header and kinds of columns from the first rows, then one fast read of all of them.

A file that does not read is looked at once more, slowly, to say which line and column is wrong.
"""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import NoReturn

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from armillary.exceptions import InputError
from armillary.files.source import Source, not_utf8
from armillary.files.tables import (
    TEXT_NAMES,
    Choice,
    Columns,
    Understood,
    columns_of,
    distinct,
    opened,
    understood,
)
from armillary.sources.columns import ID_NAMES, LABEL_NAMES, ends_as_id

_SAMPLE_BYTES = 1 << 18
_SAMPLE_ROWS = 100
_FEWEST_LINES = 4
# columns from which on 0, 1, 2, ... is a header whatever stands below
_MANY_COUNTED = 8
# pyarrow reads by blocks, and refuses a row that is longer than one
_BLOCK_BYTES, _ROWS_IN_BLOCK = 1 << 20, 16
_SEPARATORS = "\t;|,"
_LONGEST_CELL = 1 << 30  # characters
_LOOKED_AT = 20  # rows, and numbers of a list
_DECIMAL_COMMA = re.compile(r"[+-]?\d*,\d+([eE][+-]?\d+)?")


@dataclass(frozen=True)
class Layout:
    """How a file of separated values is laid out."""

    separator: str
    names: list[str]
    has_header: bool
    kinds: list[str]  # of each column "number", "list" or "words", by the first rows
    longest: int  # bytes of the longest of the first lines
    decimal: str = "."


def read_separated(source: Source, choice: Choice, *, has_header: bool | None = None) -> Understood:
    """Vectors of a CSV or TSV file."""
    return understood(source, read_table(source, choice, has_header=has_header), choice)


def read_table(source: Source, choice: Choice, *, has_header: bool | None = None) -> Columns:
    """The columns of a CSV or TSV file, float64 or strings; without those that hold nothing."""
    layout = _layout(source, has_header)
    as_words = {choice.id_column, choice.text_column}
    kinds = {
        name: pa.float64() if kind == "number" and name not in as_words else pa.string()
        for name, kind in zip(layout.names, layout.kinds, strict=True)
    }
    lists = {name for name, kind in zip(layout.names, layout.kinds, strict=True) if kind == "list"} - as_words
    has_words = pa.string() in kinds.values()
    try:
        with opened(source) as stream:
            table = columns_of(
                pyarrow.csv.read_csv(
                    stream,
                    pyarrow.csv.ReadOptions(
                        column_names=layout.names,
                        skip_rows=int(layout.has_header),
                        block_size=max(_BLOCK_BYTES, _ROWS_IN_BLOCK * layout.longest),
                    ),
                    pyarrow.csv.ParseOptions(delimiter=layout.separator, newlines_in_values=has_words),
                    # an empty cell is missing; in a column of words it is an empty word
                    pyarrow.csv.ConvertOptions(
                        column_types=kinds,
                        null_values=[""],
                        strings_can_be_null=False,
                        decimal_point=layout.decimal,
                    ),
                )
            )
    except pa.ArrowException as error:
        _explain(source, layout, kinds, error)
    _refuse_open_quote(source, layout, table)
    if not choice.has_gaps and any(table[name].null_count for name, kind in kinds.items() if kind == pa.float64()):
        _explain(source, layout, kinds, InputError("an empty cell"))
    return {
        name: _lists(source, name, column) if name in lists else _with_whole_ids(name, column)
        for name, column in table.items()
        if name in as_words or not _is_empty(column)
    }


def kinds_of(source: Source, *, has_header: bool | None = None) -> dict[str, str]:
    """Of each column "number", "list" or "words", by the first rows."""
    layout = _layout(source, has_header)
    return dict(zip(layout.names, layout.kinds, strict=True))


def _lists(source: Source, name: str, column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Lists that were written as words, "[0.1, 0.2]" or NumPy's "[0.1 0.2]"; null where a cell is empty."""
    bare = pc.utf8_trim(column.combine_chunks(), " []()\t\r\n")
    is_cut = pc.match_substring(bare, "...")
    if pc.any(is_cut).as_py():
        row = pc.index(is_cut, True).as_py()
        raise InputError(
            f"Column '{name}' of {source.name} must have all numbers of its lists; row {row} (from 0) has '...' "
            "in their place, as NumPy prints long arrays. Write lists: df['embedding'].map(list), or save as parquet."
        )
    parts = pc.split_pattern(pc.replace_substring_regex(bare, r"[,\s]+", " "), " ")
    parts = pc.if_else(pc.equal(bare, ""), pa.scalar(None, parts.type), parts)
    try:
        return pa.chunked_array([parts.cast(pa.list_(pa.float64()))])
    except pa.ArrowException:
        raise _odd_list(source, name, parts) from None


def _odd_list(source: Source, name: str, parts: pa.Array) -> InputError:
    row = next((row for row, words in enumerate(parts.to_pylist()) if not all(map(_is_number, words or []))), 0)
    return InputError(
        f"Column '{name}' of {source.name} must hold lists of numbers; row {row} (counted from 0) holds something "
        f"else. Correct it, or say that the column is words: --text-column '{name}'."
    )


def _is_empty(column: pa.ChunkedArray) -> bool:
    """Whether it holds nothing: a mark at the end of every line makes such a column."""
    return column.type == pa.string() and not pc.max(pc.utf8_length(column)).as_py()


def _with_whole_ids(name: str, column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Whole numbers under a name that says that they are ids are integers, so that 7.0 is written as 7."""
    if (name.strip().lower() in ID_NAMES or ends_as_id(name)) and column.type == pa.float64():
        with suppress(pa.ArrowInvalid):  # fractions: a column like any other
            return column.cast(pa.int64())
    return column


# -------------------------------------------------------------------------------------------------------- layout


def _layout(source: Source, has_header: bool | None) -> Layout:
    sample, is_whole = _sample(source)
    try:
        text = sample.decode("utf-8-sig", errors="strict" if is_whole else "ignore")
    except UnicodeDecodeError as error:
        raise not_utf8(source.name, sample, error.start) from error
    separator = "\t" if source.format == "tsv" else _separator(text, is_whole=is_whole)
    rows = _rows(text, separator, is_whole=is_whole)
    if not rows:
        raise InputError(f"{source.name} must hold vectors; it has only empty lines. Check the step that wrote it.")
    decimal = "," if separator != "," and _has_decimal_commas(rows) else "."
    if decimal == ",":
        rows = [[_with_point(cell) for cell in row] for row in rows]
    first, later = rows[0], rows[1:]
    if has_header is None:
        has_header = _is_header(first, later)
    if has_header and not later:
        raise InputError(f"{source.name} must have at least one row; it has only a header. Check what wrote it.")
    data = later if has_header else rows
    width = len(first)
    names = distinct(first) if has_header else [f"column {number}" for number in range(width)]
    return Layout(
        separator,
        names,
        has_header,
        [_kind(data, column) for column in range(width)],
        max(map(len, sample.split(b"\n"))),
        decimal,
    )


def _kind(rows: list[list[str]], column: int) -> str:
    if _mostly_numbers(rows, column):
        return "number"
    cells = [row[column].strip() for row in rows if column < len(row) and row[column].strip()]
    return "list" if cells and all(map(_is_list, cells)) else "words"


def _is_list(cell: str) -> bool:
    """Whether a cell is a list of numbers as Python or NumPy writes it."""
    if (cell[:1], cell[-1:]) not in (("[", "]"), ("(", ")")):
        return False
    words = cell[1:-1].replace(",", " ").split()
    return len(words) > 1 and all(_is_number(word) or word == "..." for word in words[:_LOOKED_AT])


def _has_decimal_commas(rows: list[list[str]]) -> bool:
    """Whether numbers are written 0,5: some cells are such numbers, and none is one with a point."""
    cells = [cell.strip() for row in rows for cell in row]
    return any(map(_DECIMAL_COMMA.fullmatch, cells)) and not any("." in cell and _is_number(cell) for cell in cells)


def _sample(source: Source) -> tuple[bytes, bool]:
    """The first bytes, a few lines at least, and whether they are all."""
    with source.open() as stream:
        sample = stream.read(_SAMPLE_BYTES)
        while sample.count(b"\n") < _FEWEST_LINES:
            more = stream.read(len(sample))
            if not more:
                return sample, True
            sample += more
        return sample, not stream.read(1)


def _separator(text: str, *, is_whole: bool) -> str:
    """The mark that cuts all of the first rows into as many cells, the rarest in words and numbers first."""
    for mark in _SEPARATORS:
        widths = {len(row) for row in _rows(text, mark, is_whole=is_whole)[:_LOOKED_AT]}
        if len(widths) == 1 and widths != {1}:
            return mark
    line = text.lstrip().split("\n", 1)[0]
    most = max(_SEPARATORS, key=line.count)
    # numbers written by numpy.savetxt are separated by spaces; beside any other mark, spaces are padding or words
    return most if most in line else " " if " " in line.strip() else ","


def _rows(text: str, separator: str, *, is_whole: bool) -> list[list[str]]:
    rows: list[list[str]] = []
    with _long_cells(), suppress(csv.Error):  # what else Python's reader does not take; pyarrow reads it
        for row in csv.reader(io.StringIO(text, newline=""), delimiter=separator):
            if row:
                rows.append(row)
            if len(rows) > _SAMPLE_ROWS:
                return rows
    # the last line of a sample may be cut
    return rows if is_whole or len(rows) < 2 else rows[:-1]


@contextmanager
def _long_cells() -> Iterator[None]:
    """Python's reader takes cells of any length."""
    before = csv.field_size_limit(_LONGEST_CELL)
    try:
        yield
    finally:
        csv.field_size_limit(before)


def _is_header(first: list[str], later: list[list[str]]) -> bool:
    """Whether the first row names the columns.

    It has words above numbers, names by which columns are known and no numbers, or it counts 0, 1, 2, ... as pandas
    does.
    """
    numbers = [cell for cell in first if _is_number(cell)]
    if not numbers and any(cell.strip().lower() in (ID_NAMES | LABEL_NAMES | TEXT_NAMES) - {""} for cell in first):
        return True
    if not later:
        return not numbers
    if len(numbers) > 1 and numbers == [str(number) for number in range(len(numbers))]:
        # 0, 1 may be a row of whole numbers too; then those below it are whole
        return len(numbers) >= _MANY_COUNTED or any("." in cell for row in later for cell in row)
    width = min(len(first), len(later[0]))
    return any(not _is_number(first[column]) and _mostly_numbers(later, column) for column in range(width))


def _with_point(cell: str) -> str:
    return cell.replace(",", ".") if _DECIMAL_COMMA.fullmatch(cell.strip()) else cell


def _mostly_numbers(rows: list[list[str]], column: int) -> bool:
    cells = [row[column] for row in rows if column < len(row) and row[column].strip()]
    return 2 * sum(map(_is_number, cells)) >= max(1, len(cells))


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return "_" not in cell  # Python reads 1_000, tables do not


# ------------------------------------------------------------------------------------------------- what is wrong


def _explain(source: Source, layout: Layout, kinds: dict[str, pa.DataType], error: Exception) -> NoReturn:
    """Say which line and column does not read."""
    _refuse_encoding(source)
    with _long_cells(), suppress(csv.Error):
        for line, row in _numbered(source, layout):
            _refuse_line(source, layout, kinds, line, row, error)
    raise source.damaged(error) from error


def _refuse_encoding(source: Source) -> None:
    """Refuse what is UTF-8 at its beginning alone."""
    decoder, done = codecs.getincrementaldecoder("utf-8")(), 0
    with source.open() as stream:
        first = chunk = stream.read(_SAMPLE_BYTES)
        while True:
            try:
                decoder.decode(chunk, final=not chunk)
            except UnicodeDecodeError as error:
                held = len(error.object) - len(chunk)  # of a character that began in the chunk before
                raise not_utf8(source.name, first, done - held + error.start) from error
            if not chunk:
                return
            done += len(chunk)
            chunk = stream.read(_SAMPLE_BYTES)


def _refuse_open_quote(source: Source, layout: Layout, columns: Columns) -> None:
    """Refuse a quotation mark that opens a cell and is never closed: all lines after it would be one text."""
    if not any(len(column) and "\n" in (column[-1].as_py() or "") for column in columns.values() if _is_words(column)):
        return
    with _long_cells(), source.open() as stream:
        text = io.TextIOWrapper(stream, "utf-8-sig", errors="replace", newline="")
        reader, line = csv.reader(text, delimiter=layout.separator, strict=True), 0
        try:
            for _ in reader:
                line = reader.line_num
        except csv.Error as error:
            if "unexpected end" in str(error):
                raise InputError(
                    f"{source.name} must close every quotation mark; the one that opens a cell in line {line + 1} goes "
                    f'on to the end, line {reader.line_num}. Write quotation marks within a cell twice: "".'
                ) from None


def _is_words(column: pa.ChunkedArray) -> bool:
    return bool(pa.types.is_string(column.type))


def _refuse_line(
    source: Source, layout: Layout, kinds: dict[str, pa.DataType], line: int, row: list[str], error: Exception
) -> None:
    if len(row) != len(layout.names):
        raise InputError(
            f"{source.name} must have rows of one length; line {line} has {len(row)} cells and the first row has "
            f"{len(layout.names)}. Give every row the same number of columns."
        ) from error
    for name, cell in zip(layout.names, row, strict=True):
        if kinds[name] == pa.float64() and not _is_number(_with_point(cell) if layout.decimal == "," else cell):
            came = f"'{cell[:40]}'" if cell.strip() else "nothing"
            raise InputError(
                f"{source.name} must have numbers in column '{name}'; line {line} has {came} there. Correct it, or "
                f"say that the column is words: --text-column '{name}' or --id-column '{name}'."
            ) from error


def _numbered(source: Source, layout: Layout) -> Iterator[tuple[int, list[str]]]:
    with source.open() as stream:
        reader = csv.reader(
            io.TextIOWrapper(stream, "utf-8-sig", errors="replace", newline=""), delimiter=layout.separator
        )
        is_first = layout.has_header
        for row in reader:
            if is_first:
                is_first = False
            elif row:
                yield reader.line_num, row
