"""Texts from a file: csv, tsv, parquet, arrow and JSON lines by their column of texts, txt by its lines.

A file with a column of lists of numbers has vectors, and so has one whose columns of numbers are those of a vector:
they are counted (x0, x1, ...), named x, y, z, or are `_MANY_NUMBERS` or more. A few other numbers beside a column of
texts (stars, year, price) are no vector; the note says that they were not taken.
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet

from armillary.exceptions import InputError
from armillary.files.json_lines import json_lines
from armillary.files.separated import kinds_of, read_table
from armillary.files.source import Source, not_utf8
from armillary.files.tables import TEXT_NAMES, Choice, Columns, opened, read_arrow_table, read_parquet_table, words
from armillary.files.word2vec import is_word2vec
from armillary.sources.columns import ID_NAMES, is_list, is_number, side_columns, some
from armillary.sources.opening import files_of

_MANY_NUMBERS = 16
_COUNTED_NAME = re.compile(r"(.*?)[_. -]?(\d+)")
_SPACE_NAMES = ({"x", "y", "z"}, {"x", "y"}, {"nx", "ny", "nz"})
_VECTOR_KEYS = ("vector", "embedding", "x")

# A first line that is longer is taken for the only one.
_LINE_BYTES = 1 << 20

# formats that can hold texts; txt is a table of numbers, or lines of text
TABLES = frozenset({"csv", "tsv", "parquet", "arrow", "jsonl"})


@dataclass(frozen=True, eq=False)
class Documents:
    """Texts, and what the file says about them.

    Examples
    --------
    >>> from armillary.files import Documents
    >>> Documents(["a parcel", "a refund"], ids=["7", "9"]).texts
    ['a parcel', 'a refund']
    """

    texts: list[str]  # (n,)
    ids: list[str] | None = None  # (n,)
    source: str = ""
    format: str = ""
    notes: tuple[str, ...] = ()  # which columns were taken, for people


def holds_documents(
    path: str, format: str | None = None, text_column: str | None = None, has_header: bool | None = None
) -> bool:
    """Whether a file holds texts and no vectors, by its first rows; standard input holds vectors."""
    if path == "-":
        return False
    source = _sources(path, format)[0]
    if source.format not in TABLES or (source.format in ("csv", "tsv") and is_word2vec(source)):
        return False
    if _are_lines(source, text_column, has_header) and _is_one_line(source):
        has_header = False
    kinds = _kinds(source, has_header)
    if text_column is not None and text_column not in kinds:
        return False  # what reads vectors says which columns there are
    if kinds.get(text_column or "", "words") == "list" or "list" in kinds.values():
        return False
    aside = side_columns(kinds)
    numbers = [name for name, kind in kinds.items() if kind == "number" and name not in aside]
    numbers = [name for name in numbers if name != text_column]
    if "words" not in kinds.values() and text_column is None:
        return False
    is_named = text_column is not None or any(
        kind == "words" and name.strip().lower() in TEXT_NAMES for name, kind in kinds.items()
    )
    # one number alone is no vector, whatever it is called
    return len(numbers) < 2 or (is_named and not _is_vector(numbers))


def _is_vector(numbers: list[str]) -> bool:
    names = {name.strip().lower() for name in numbers}
    stems = {match.group(1) for name in names if (match := _COUNTED_NAME.fullmatch(name))}
    are_counted = len(names) > 1 and len(stems) == 1 and all(_COUNTED_NAME.fullmatch(name) for name in names)
    return len(numbers) >= _MANY_NUMBERS or are_counted or names in _SPACE_NAMES


def _kinds(source: Source, has_header: bool | None) -> dict[str, str]:
    """Of each column "number", "words" or "list", by the first rows or what the file says of itself."""
    match source.format:
        case "csv" | "tsv":
            return kinds_of(source, has_header=has_header)
        case "jsonl":
            return _json_kinds(source)
    with source.reading(pa.ArrowException), opened(source) as stream:
        if source.format == "parquet":
            schema = pyarrow.parquet.ParquetFile(stream).schema_arrow
        else:
            is_file = stream.read(6) == b"ARROW1"
            stream.seek(0)
            schema = (pyarrow.ipc.open_file if is_file else pyarrow.ipc.open_stream)(stream).schema
    return {
        field.name: "list" if is_list(field.type) else "number" if is_number(field.type) else "words"
        for field in schema
    }


def _json_kinds(source: Source) -> dict[str, str]:
    _, line = next(json_lines(source), (0, b"null"))
    try:
        first = json.loads(line)
    except (ValueError, RecursionError):
        return {"": "list"}  # what reads vectors says what is wrong with it
    if isinstance(first, list) and first and isinstance(first[0], str | dict):
        first = first[0]
    if isinstance(first, str):
        return {"text": "words"}
    if not isinstance(first, dict) or any(key in first for key in _VECTOR_KEYS):
        return {"": "list"}
    return {str(key): _json_kind(value) for key, value in first.items()}


def _json_kind(value: Any) -> str:
    if isinstance(value, list):
        return "list"
    return "number" if isinstance(value, int | float) else "words"


def read_documents(
    path: str | os.PathLike[str],
    *,
    format: str | None = None,
    text_column: str | None = None,
    id_column: str | None = None,
    has_header: bool | None = None,
) -> Documents:
    r"""Read texts, one in each row.

    Parameters
    ----------
    path : str or os.PathLike
        A csv, tsv, parquet, arrow or JSON lines file, or a txt file with one document a line; it may be compressed. Or
        a folder of parquet or arrow files, such as HuggingFace's `save_to_disk` writes.
    format : str, optional
        By default the ending of the path says it.
    text_column : str, optional
        The column (key of JSON objects) with the texts. By default the only column of words, or the one with a telling
        name such as text, body or title.
    id_column : str, optional
        The column with ids of the rows. By default one whose name says so.
    has_header : bool, optional
        Whether a csv or tsv file has one; by default its first rows tell.

    Returns
    -------
    documents : Documents
        With `texts`, `ids` and `notes`.

    Raises
    ------
    InputError
        With a sentence that names the file and what is wrong with it.

    Examples
    --------
    >>> import os, tempfile
    >>> from armillary.files import read_documents
    >>> path = os.path.join(tempfile.mkdtemp(), "reviews.csv")
    >>> with open(path, "w") as file:
    ...     _ = file.write("stars,body\n5,good coffee\n1,cold soup\n")
    >>> read_documents(path).texts
    ['good coffee', 'cold soup']
    """
    sources = _sources(path, format)
    source = sources[0]
    if source.format not in TABLES:
        raise InputError(
            f"{source.name} must be a file of texts: csv, tsv, parquet, arrow, jsonl or txt; it is {source.format}. "
            "Give texts beside vectors by --texts FILE."
        )
    if source.format == "csv" and _are_lines(source, text_column, has_header):
        texts = _lines(source)
        return Documents(texts, None, source.name, "txt", ("one text in each line",))
    tables = [_table(one, text_column, id_column, has_header) for one in sources]
    return _of_table(source, _stacked(sources, tables), text_column, id_column)


def _sources(path: str | os.PathLike[str], format: str | None) -> list[Source]:
    """The file, or the tables of a folder, such as HuggingFace's `save_to_disk` writes."""
    if os.fspath(path) != "-" and os.path.isdir(path):
        return [Source.of(file) for _, file in files_of(path)]
    return [Source.of(path, format)]


def _stacked(sources: list[Source], tables: list[Columns]) -> Columns:
    if len(tables) == 1:
        return tables[0]
    for source, table in zip(sources, tables, strict=True):
        if set(table) != set(tables[0]):
            raise InputError(
                f"{source.name} must have the columns of {sources[0].name}, {some(tables[0])}; it has {some(table)}. "
                "Name one of them."
            )
    return {
        name: pa.chunked_array([chunk for table in tables for chunk in table[name].chunks], tables[0][name].type)
        for name in tables[0]
    }


def _are_lines(source: Source, text_column: str | None, has_header: bool | None) -> bool:
    """Whether a file of the ending txt is lines of text: nobody named a column or a header."""
    suffixes = [ending.lower() for ending in source.path.suffixes]
    return ".txt" in suffixes[-2:] and text_column is None and has_header is None


def _is_one_line(source: Source) -> bool:
    """Whether there is one line, which is no header of others."""
    with source.open() as stream:
        return b"\n" not in stream.read(_LINE_BYTES).strip()


def _lines(source: Source) -> list[str]:
    with source.open() as stream:
        content = stream.read()
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise not_utf8(source.name, content, error.start) from error
    # not splitlines(): a text may hold the marks by which Unicode ends paragraphs
    texts = text.replace("\r\n", "\n").replace("\r", "\n").rstrip("\n").split("\n")
    if not any(map(str.strip, texts)):
        raise InputError(f"{source.name} must hold texts; it has only empty lines. Check the step that wrote it.")
    return texts


def _table(source: Source, text_column: str | None, id_column: str | None, has_header: bool | None) -> Columns:
    match source.format:
        case "parquet":
            return read_parquet_table(source)
        case "arrow":
            return read_arrow_table(source)
        case "jsonl":
            return _json_table(source)
    return read_table(source, Choice(None, id_column, text_column, has_gaps=True), has_header=has_header)


def _json_table(source: Source) -> Columns:
    """The strings and numbers of JSON objects, or strings alone, as columns; one a line, or in lists."""
    found: list[dict[str, Any]] = []
    for number, line in json_lines(source):
        try:
            value = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise InputError(
                f"Line {number} of {source.name} must be JSON; it does not read ({error}). A last line that was "
                "cut short reads so too."
            ) from error
        for item in value if isinstance(value, list) else [value]:
            if not isinstance(item, str | dict):
                raise InputError(
                    f"Line {number} of {source.name} must be a string or an object with a text, or a list of them; "
                    f"got {json.dumps(item)[:40]}. One document a line."
                )
            found.append(item if isinstance(item, dict) else {"text": item})
    names = dict.fromkeys(str(name) for one in found for name in one)
    return {name: pa.chunked_array([pa.array([_word(one.get(name)) for one in found], pa.string())]) for name in names}


def _word(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _of_table(source: Source, table: Columns, text_column: str | None, id_column: str | None) -> Documents:
    for wanted in (text_column, id_column):
        if wanted is not None and wanted not in table:
            raise InputError(f"{source.name} has no column '{wanted}'. Its columns: {some(table)}.")
    column = text_column or _text_column(source, table)
    ids = id_column or next((name for name in table if name.strip().lower() in ID_NAMES and name != column), None)
    left = [name for name in table if name not in (column, ids)]
    notes = [f"texts from column '{column}'", *([f"ids from column '{ids}'"] if ids is not None else [])]
    notes += [f"not used: {some(left, 5)}"] if left else []
    texts = words(table, column)
    assert texts is not None
    if not texts:
        raise InputError(f"{source.name} must have at least one row; it has none. Check the step that wrote it.")
    return Documents(texts, words(table, ids), source.name, source.format, tuple(notes))


def _text_column(source: Source, table: Columns) -> str:
    kinds = {name: column.type for name, column in table.items()}
    known = [name for name, kind in kinds.items() if not is_number(kind) and not is_list(kind)]
    aside = side_columns(table)
    known = [name for name in known if name not in aside]
    telling = [name for name in known if name.strip().lower() in TEXT_NAMES]
    for candidates in (telling, known):
        if len(candidates) == 1:
            return candidates[0]
    raise InputError(
        f"{source.name} must have one column of texts, or be told which one is meant; its columns: {some(table)}. "
        "Name it: --text-column NAME."
    )
