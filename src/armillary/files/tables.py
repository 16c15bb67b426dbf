"""Vectors from tables: which columns are numbers, ids, texts or labels, and the numbers as one matrix.

A column of lists of numbers is a vector in each row. Otherwise the columns of numbers are the vectors, but for those
whose name says that they are ids or labels. Columns of words are ids (different in every row and short) or texts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.ipc
import pyarrow.parquet

from armillary.exceptions import InputError
from armillary.files.sizes import refuse_unpacked
from armillary.files.source import Source
from armillary.sources.columns import ID_NAMES, LABEL_NAMES, ends_as_id, is_list, is_number, side_columns, some
from armillary.sources.tables import TableColumn, column_types

TEXT_NAMES = frozenset({"text", "texts", "sentence", "document", "content", "body", "title", "utterance"})

_LONGEST_ID = 64  # characters
_FEW_NAMES = 4
_VALUE_BYTES = 4  # what a number takes at least, once it is in memory

Columns: TypeAlias = "dict[str, pa.ChunkedArray]"


@dataclass(frozen=True)
class Choice:
    """Columns that the user named; None where the table is to be understood by itself."""

    key: str | None = None
    id_column: str | None = None
    text_column: str | None = None
    has_gaps: bool = False  # whether numbers may be missing: they are NaN then


@dataclass(frozen=True, eq=False)
class Understood:
    """A table as vectors."""

    rows: npt.NDArray[Any]
    ids: list[str] | None
    texts: list[str] | None
    notes: tuple[str, ...]
    has_whole_ids: bool = False  # whether ids are whole numbers, which are words here


def read_parquet(source: Source, choice: Choice) -> Understood:
    """Vectors of a parquet file."""
    return understood(source, read_parquet_table(source), choice)


def read_arrow(source: Source, choice: Choice) -> Understood:
    """Vectors of an Arrow file or stream, or a Feather file."""
    return understood(source, read_arrow_table(source), choice)


def read_parquet_table(source: Source) -> Columns:
    """All columns of a parquet file."""
    return _columns(source, _parquet_batches)


def read_arrow_table(source: Source) -> Columns:
    """All columns of an Arrow file or stream, or a Feather file."""
    return _columns(source, _arrow_batches)


def _parquet_batches(source: Source, stream: Any) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    file = pyarrow.parquet.ParquetFile(stream)
    about = file.metadata
    groups = [about.row_group(number) for number in range(about.num_row_groups)]
    # a column that says one thing over and over takes a few bytes, and its rows are memory all the same
    n_values = sum(group.num_rows * group.num_columns for group in groups)
    n_bytes = max(_VALUE_BYTES * n_values, sum(group.total_byte_size for group in groups))
    refuse_unpacked(source.name, source.size, n_bytes)
    return file.schema_arrow, (batch for number in range(len(groups)) for batch in _group(file, number))


def _group(file: Any, number: int) -> list[pa.RecordBatch]:
    return file.read_row_group(number).to_batches()


def _arrow_batches(source: Source, stream: Any) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    is_file = stream.read(6) == b"ARROW1"
    stream.seek(0)
    if not is_file:
        reader = pyarrow.ipc.open_stream(stream)
        return reader.schema, iter(reader)
    file = pyarrow.ipc.open_file(stream)
    return file.schema, (file.get_batch(number) for number in range(file.num_record_batches))


def opened(source: Source) -> Any:
    """The bytes as pyarrow reads them by itself: its threads may outlive an error, and a Python file with it."""
    return pa.OSFile(str(source.path)) if source.content is None else pa.BufferReader(source.content)


def _columns(source: Source, read: Any) -> Columns:
    with source.reading(pa.ArrowException), opened(source) as stream:
        schema, batches = read(source, stream)
        kept, n_bytes = [], 0
        for batch in batches:
            n_bytes += batch.get_total_buffer_size()  # `nbytes` believes offsets, which are not looked at yet
            refuse_unpacked(source.name, source.size, n_bytes)
            kept.append(batch)
        table = pa.Table.from_batches(kept, schema)
        # offsets and codes of a file are believed by everything that comes after
        table.validate(full=True)
        return columns_of(table)


def columns_of(table: pa.Table) -> Columns:
    """The columns by name; pyarrow looks for a name among all, which takes minutes where there are many."""
    return dict(zip(distinct(table.column_names), table.columns, strict=True))


def distinct(names: list[str]) -> list[str]:
    """Names of columns with numbers added to those that came before."""
    seen: dict[str, int] = {}
    found = []
    for name in names:
        count = seen.get(name, 0)
        seen[name] = count + 1
        found.append(name if count == 0 else f"{name}.{count}")
    return found


def understood(source: Source, table: Columns, choice: Choice) -> Understood:
    """The vectors in a table, with ids and texts where it has any."""
    if not table or len(next(iter(table.values()))) == 0:
        raise InputError(f"{source.name} must have at least one row; it has none. Check the step that wrote it.")
    for wanted in (choice.key, choice.id_column, choice.text_column):
        if wanted is not None and wanted not in table:
            raise InputError(f"{source.name} has no column '{wanted}'. Its columns: {some(table)}.")
    id_column = choice.id_column or _id_column(table, choice)
    text_column = choice.text_column or _text_column(table, choice, id_column)
    taken = [name for name in (id_column, text_column) if name is not None]
    lists = [name for name, column in table.items() if is_list(column.type)]
    if choice.key is not None or lists:
        key = choice.key or _only(source, lists)
        rows, said = _from_lists(source, table[key], key, has_gaps=choice.has_gaps), f"vectors from column '{key}'"
        used = {key, *taken}
    else:
        numbers = _number_columns(table, taken)
        if not numbers:
            raise InputError(
                f"{source.name} must have columns of numbers or a column of lists; its columns: {some(table)}. "
                "Embed texts first, and give the vectors."
            )
        if len(numbers) == 1:
            raise InputError(
                f"{source.name} must have two columns of numbers or more, or a column of lists; it has one, "
                f"'{numbers[0]}', among {some(table)}. A column of texts is named by --text-column."
            )
        rows, said = (
            _from_columns(source, table, numbers, has_gaps=choice.has_gaps),
            f"vectors from {len(numbers)} columns of numbers{_ends(numbers)}",
        )
        used = {*numbers, *taken}
    left = [name for name in table if name not in used]
    if left:
        said += f" (not used: {some(left, 5)})"
    notes = [said]
    notes += [f"ids from column '{id_column}'"] if id_column is not None else []
    notes += [f"texts from column '{text_column}'"] if text_column is not None else []
    ids, texts = words(table, id_column), words(table, text_column)
    return Understood(rows, ids, texts, tuple(notes), are_whole([table], id_column))


def _ends(names: list[str]) -> str:
    """Names of columns in words: all of a few, the first and the last of many."""
    if len(names) <= _FEW_NAMES:
        return f", {some(names)}"
    return f", '{names[0]}' to '{names[-1]}'"


class Beside(NamedTuple):
    """What tables say of their rows beside the vectors."""

    notes: list[str]  # which columns these are
    ids: Any
    texts: Any
    has_whole_ids: bool = False


def words_beside(paths: list[str], ids: str | None = None, texts: str | None = None) -> Beside:
    """Ids and texts of several parquet or arrow files with the same columns."""
    found: list[Columns] = []
    for path in paths:
        source = Source.of(path)
        found.append(read_parquet_table(source) if source.format == "parquet" else read_arrow_table(source))
        for wanted in (ids, texts):
            if wanted is not None and wanted not in found[-1]:
                raise InputError(f"{source.name} has no column '{wanted}'. Its columns: {some(found[-1])}.")
    choice = Choice(None, ids, texts)
    id_column = ids or _id_column(found[0], choice)
    text_column = texts or _text_column(found[0], choice, id_column)
    names = [f"ids from column '{id_column}'"] if id_column is not None else []
    names += [f"texts from column '{text_column}'"] if text_column is not None else []
    return Beside(names, _joined(found, id_column), _joined(found, text_column), are_whole(found, id_column))


def stored_beside(paths: list[str], ids: str | None = None, texts: str | None = None) -> Beside:
    """The same of tables that stay on disk: what a column is for is told by its name and type alone."""
    kinds = column_types(paths[0])
    for wanted in (ids, texts):
        if wanted is not None and not _is_cell(kinds.get(wanted)):
            came = "there is none" if wanted not in kinds else f"it holds {kinds[wanted]}"
            raise InputError(
                f"Column '{wanted}' of '{paths[0]}' must hold words or whole numbers; {came}. Its columns: "
                f"{some(kinds)}."
            )
    words = [name for name, kind in kinds.items() if _is_words(kind)]
    named = {
        "ids": ids or next((name for name in kinds if _bare(name) in ID_NAMES and _is_cell(kinds[name])), None),
        "texts": texts or next((name for name in words if _bare(name) in TEXT_NAMES), None),
    }
    notes = [f"{what} from column '{name}'" for what, name in named.items() if name is not None]
    columns = [None if name is None else TableColumn(paths, name) for name in named.values()]
    return Beside(notes, ids=columns[0], texts=columns[1])


def _bare(name: str) -> str:
    return name.strip().lower()


def _is_cell(kind: Any) -> bool:
    """Whether a column may name rows."""
    return kind is not None and (_is_words(kind) or pa.types.is_integer(kind))


def _joined(tables: list[Columns], name: str | None) -> list[str] | None:
    return None if name is None else [word for table in tables for word in words(table, name) or ()]


def are_whole(tables: list[Columns], name: str | None) -> bool:
    """Whether a column has a whole number in every row."""
    return name is not None and all(
        pa.types.is_integer(table[name].type) and not table[name].null_count for table in tables
    )


def words(table: Columns, name: str | None) -> list[str] | None:
    """A column as strings; empty where it is missing."""
    if name is None:
        return None
    return ["" if value is None else str(value) for value in table[name].to_pylist()]


# ------------------------------------------------------------------------------------------------- roles of columns


def _is_words(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)


def _id_column(table: Columns, choice: Choice) -> str | None:
    free = {name: column for name, column in table.items() if name not in (choice.key, choice.text_column)}
    for name, column in free.items():
        if name.strip().lower() in ID_NAMES and (_is_words(column.type) or pa.types.is_integer(column.type)):
            return name
    for name, column in free.items():
        is_of_ids = _is_words(column.type) or pa.types.is_integer(column.type)
        if is_of_ids and ends_as_id(name) and _are_ids(column):
            return name
    for name, column in free.items():
        is_named_otherwise = name.strip().lower() in TEXT_NAMES | LABEL_NAMES
        if _is_words(column.type) and not is_named_otherwise and _are_ids(column):
            return name
    return None


def _are_ids(column: pa.ChunkedArray) -> bool:
    words = column.cast(pa.string())  # pyarrow counts no codes of a dictionary
    longest = pc.max(pc.utf8_length(words)).as_py() or 0
    return column.null_count == 0 and longest <= _LONGEST_ID and pc.count_distinct(words).as_py() == len(words)


def _text_column(table: Columns, choice: Choice, id_column: str | None) -> str | None:
    free = {name: column for name, column in table.items() if name not in (choice.key, id_column)}
    texts = [name for name, column in free.items() if _is_words(column.type)]
    named = [name for name in texts if name.strip().lower() in TEXT_NAMES]
    unnamed = [name for name in texts if name.strip().lower() not in LABEL_NAMES]
    return next(iter(named or unnamed), None)


def _number_columns(table: Columns, taken: list[str]) -> list[str]:
    aside = side_columns(table)
    numbers = [name for name, column in table.items() if is_number(column.type) and name not in taken]
    return [name for name in numbers if name not in aside]


def _only(source: Source, lists: list[str]) -> str:
    if len(lists) > 1:
        raise InputError(
            f"{source.name} must have one column of lists, or be read by --key; it has {len(lists)}: {some(lists)}."
        )
    return lists[0]


# -------------------------------------------------------------------------------------------------------- numbers


def _from_columns(source: Source, table: Columns, names: list[str], *, has_gaps: bool) -> npt.NDArray[Any]:
    dtype = np.result_type(*{table[name].type.to_pandas_dtype() for name in names})
    rows = np.empty((len(table[names[0]]), len(names)), dtype=dtype if dtype.kind == "f" else np.float64)
    for number, name in enumerate(names):
        column = table[name]
        if column.null_count and not has_gaps:
            row = pc.index(pc.is_null(column), True).as_py()
            raise InputError(
                f"{source.name} must have a number in every row; column '{name}' is empty in row {row} (counted from "
                f"0), one of {column.null_count}. Drop or fill such rows."
            )
        rows[:, number] = column.to_numpy()
    return rows


def _from_lists(source: Source, column: pa.ChunkedArray, name: str, *, has_gaps: bool) -> npt.NDArray[Any]:
    if not is_list(column.type):
        raise InputError(
            f"Column '{name}' of {source.name} must hold lists of numbers; it holds {column.type}. "
            "Leave --key out to take the columns of numbers."
        )
    lengths = pc.fill_null(pc.list_value_length(column), 0).to_numpy()
    is_full = lengths > 0 if has_gaps else np.ones(len(lengths), dtype=np.bool_)
    if column.null_count and not has_gaps:
        row = pc.index(pc.is_null(column), True).as_py()
        raise InputError(f"{source.name} must have a vector in every row; column '{name}' has none in row {row}.")
    first = int(np.argmax(is_full))
    odd = np.flatnonzero(is_full & (lengths != lengths[first]))
    if odd.size:
        raise InputError(
            f"{source.name} must have rows of one length; row {first} of column '{name}' has {lengths[first]} numbers "
            f"and row {odd[0]} has {lengths[odd[0]]}. Give every row the same number of columns."
        )
    values = pc.list_flatten(column)
    if not is_number(values.type):
        raise InputError(
            f"Column '{name}' of {source.name} must hold lists of numbers; it holds lists of {values.type}."
        )
    if values.null_count and not has_gaps:
        place = int(pc.index(pc.is_null(values), True).as_py())
        raise InputError(
            f"{source.name} must have every number; row {place // lengths[0]} of column '{name}' misses one. Drop it."
        )
    table = np.ascontiguousarray(values.to_numpy()).reshape(int(is_full.sum()), int(lengths[first]))
    if is_full.all():
        return table
    rows = np.full((len(lengths), table.shape[1]), np.nan, dtype=np.result_type(table.dtype, np.float16))
    rows[is_full] = table
    return rows
