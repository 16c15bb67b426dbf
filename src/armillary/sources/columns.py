"""Which columns of a table are vectors: by their types and names. The home of names that say what a column is.

A column of lists of numbers is a vector in each row. Otherwise the columns of numbers are the vectors, but for those
whose name says that they are ids or labels.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from armillary.exceptions import InputError

# the empty name is that of a pandas index in a CSV file
ID_NAMES = frozenset({"", "id", "ids", "uid", "uuid", "key", "index", "row", "unnamed: 0", "__index_level_0__"})
_ID_ENDING = re.compile(r".+(?:[ _.-]u?u?id|[a-z](?:Id|ID))")  # user_id, Ticket ID, messageId
LABEL_NAMES = frozenset({"label", "labels", "target", "targets", "class", "cluster", "truth", "y"})


def some(names: Iterable[str], most: int = 12) -> str:
    """Column names in words, not too many."""
    known = list(names)
    said = ", ".join(f"'{name}'" for name in known[:most])
    return said + (f" and {len(known) - most} more" if len(known) > most else "")


def side_columns(names: Iterable[str]) -> set[str]:
    """Columns whose name says that they are ids or labels; y beside x is a coordinate."""
    known = list(names)
    bare = {name.strip().lower() for name in known}
    others = (ID_NAMES | LABEL_NAMES) - ({"y"} if "x" in bare else set())
    return {name for name in known if name.strip().lower() in others or ends_as_id(name)}


def ends_as_id(name: str) -> bool:
    """Whether the name of a column ends as those of ids do: user_id, Ticket ID."""
    bare = name.strip()
    return bool(_ID_ENDING.fullmatch(bare) or _ID_ENDING.fullmatch(bare.lower()))


def is_list(kind: Any) -> bool:
    """Whether a column has a list in each row."""
    from pyarrow import types

    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


def is_number(kind: Any) -> bool:
    """Whether a column has a number in each row."""
    from pyarrow import types

    return bool(types.is_floating(kind) or types.is_integer(kind) or types.is_boolean(kind))


def chosen_columns(schema: Any, path: str, column: str | None, weights: str | None) -> list[str]:
    """The one column of lists, or the columns of numbers, that are the vectors of a table."""
    names = list(schema.names)
    for wanted in (column, weights):
        if wanted is not None and wanted not in names:
            raise InputError(f"'{path}' has no column '{wanted}'. Its columns: {some(names)}.")
    kinds = {name: schema.field(name).type for name in names if names.count(name) == 1 and name != weights}
    if column is not None:
        if not is_list(kinds.get(column)) or not is_number(kinds[column].value_type):
            raise InputError(
                f"Column '{column}' of '{path}' must hold lists of numbers; it holds {kinds.get(column)}. Leave "
                "`column` out to take the columns of numbers."
            )
        return [column]
    lists = [name for name, kind in kinds.items() if is_list(kind) and is_number(kind.value_type)]
    if len(lists) > 1:
        raise InputError(
            f"'{path}' must have one column of lists of numbers, or be told which one is meant; it has {len(lists)}: "
            f"{some(lists)}. Name one: column='{lists[0]}' (on the command line --key {lists[0]})."
        )
    aside = side_columns(names)
    numbers = [name for name, kind in kinds.items() if is_number(kind) and name not in aside]
    if not lists and not numbers:
        raise InputError(
            f"'{path}' must have columns of numbers or a column of lists of numbers; its columns: {some(names)}. "
            "Embed texts first, and give the vectors."
        )
    return lists or numbers
