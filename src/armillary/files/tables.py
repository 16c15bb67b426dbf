"""Vectors from tables: which columns are numbers, ids, texts or labels, and the numbers as one matrix.

A column of lists of numbers is a vector in each row. Otherwise the columns of numbers are the vectors, but for those
whose name says that they are ids or labels. Columns of words are ids (different in every row and short) or texts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.ipc
import pyarrow.parquet

from armillary.exceptions import InputError
from armillary.files.sizes import refuse_unpacked
from armillary.files.source import Source

# the empty name is that of a pandas index in a CSV file
ID_NAMES = frozenset({"", "id", "ids", "uid", "uuid", "key", "index", "row", "unnamed: 0", "__index_level_0__"})
LABEL_NAMES = frozenset({"label", "labels", "target", "targets", "class", "cluster", "truth", "y"})
TEXT_NAMES = frozenset({"text", "texts", "sentence", "document", "content", "body", "title", "utterance"})

_LONGEST_ID = 64  # characters
_VALUE_BYTES = 4  # what a number takes at least, once it is in memory

Columns: TypeAlias = "dict[str, pa.ChunkedArray]"


@dataclass(frozen=True)
class Choice:
    """Columns that the user named; None where the table is to be understood by itself."""

    key: str | None = None
    id_column: str | None = None
    text_column: str | None = None


@dataclass(frozen=True, eq=False)
class Understood:
    """A table as vectors."""

    rows: npt.NDArray[Any]
    ids: list[str] | None
    texts: list[str] | None
    notes: tuple[str, ...]


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
    lists = [name for name, column in table.items() if _is_list(column.type)]
    if choice.key is not None or lists:
        key = choice.key or _only(source, lists)
        rows, said = _from_lists(source, table[key], key), f"vectors from column '{key}'"
    else:
        numbers = _number_columns(table, taken)
        if not numbers:
            raise InputError(
                f"{source.name} must have columns of numbers or a column of lists; its columns: {some(table)}. "
                "Embed texts first, and give the vectors."
            )
        rows, said = _from_columns(source, table, numbers), f"vectors from {len(numbers)} columns of numbers"
        used = {*numbers, *taken}
        left = [name for name in table if name not in used]
        if left:
            said += f" (not used: {some(left, 5)})"
    notes = [said]
    notes += [f"ids from column '{id_column}'"] if id_column is not None else []
    notes += [f"texts from column '{text_column}'"] if text_column is not None else []
    return Understood(rows, words(table, id_column), words(table, text_column), tuple(notes))


def words(table: Columns, name: str | None) -> list[str] | None:
    """A column as strings; empty where it is missing."""
    if name is None:
        return None
    return ["" if value is None else str(value) for value in table[name].to_pylist()]


def some(names: Iterable[str], most: int = 12) -> str:
    """Column names in words, not too many."""
    known = list(names)
    said = ", ".join(f"'{name}'" for name in known[:most])
    return said + (f" and {len(known) - most} more" if len(known) > most else "")


# ------------------------------------------------------------------------------------------------- roles of columns


def _is_list(kind: pa.DataType) -> bool:
    return pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)


def _is_words(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)


def _is_number(kind: pa.DataType) -> bool:
    return pa.types.is_floating(kind) or pa.types.is_integer(kind) or pa.types.is_boolean(kind)


def _id_column(table: Columns, choice: Choice) -> str | None:
    free = {name: column for name, column in table.items() if name not in (choice.key, choice.text_column)}
    for name, column in free.items():
        if name.strip().lower() in ID_NAMES and (_is_words(column.type) or pa.types.is_integer(column.type)):
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
    others = ID_NAMES | LABEL_NAMES
    numbers = [name for name, column in table.items() if _is_number(column.type) and name not in taken]
    return [name for name in numbers if name.strip().lower() not in others]


def _only(source: Source, lists: list[str]) -> str:
    if len(lists) > 1:
        raise InputError(
            f"{source.name} must have one column of lists, or be read by --key; it has {len(lists)}: {some(lists)}."
        )
    return lists[0]


# -------------------------------------------------------------------------------------------------------- numbers


def _from_columns(source: Source, table: Columns, names: list[str]) -> npt.NDArray[Any]:
    dtype = np.result_type(*{table[name].type.to_pandas_dtype() for name in names})
    rows = np.empty((len(table[names[0]]), len(names)), dtype=dtype if dtype.kind == "f" else np.float64)
    for number, name in enumerate(names):
        column = table[name]
        if column.null_count:
            row = pc.index(pc.is_null(column), True).as_py()
            raise InputError(
                f"{source.name} must have a number in every row; column '{name}' is empty in row {row} (counted from "
                f"0), one of {column.null_count}. Drop or fill such rows."
            )
        rows[:, number] = column.to_numpy()
    return rows


def _from_lists(source: Source, column: pa.ChunkedArray, name: str) -> npt.NDArray[Any]:
    if not _is_list(column.type):
        raise InputError(
            f"Column '{name}' of {source.name} must hold lists of numbers; it holds {column.type}. "
            "Leave --key out to take the columns of numbers."
        )
    if column.null_count:
        row = pc.index(pc.is_null(column), True).as_py()
        raise InputError(f"{source.name} must have a vector in every row; column '{name}' has none in row {row}.")
    lengths = pc.list_value_length(column).to_numpy()
    odd = np.flatnonzero(lengths != lengths[0])
    if odd.size:
        raise InputError(
            f"{source.name} must have rows of one length; row 0 of column '{name}' has {lengths[0]} numbers and row "
            f"{odd[0]} has {lengths[odd[0]]}. Give every row the same number of columns."
        )
    values = pc.list_flatten(column)
    if not _is_number(values.type):
        raise InputError(
            f"Column '{name}' of {source.name} must hold lists of numbers; it holds lists of {values.type}."
        )
    if values.null_count:
        place = int(pc.index(pc.is_null(values), True).as_py())
        raise InputError(
            f"{source.name} must have every number; row {place // lengths[0]} of column '{name}' misses one. Drop it."
        )
    return np.ascontiguousarray(values.to_numpy().reshape(len(column), int(lengths[0])))
