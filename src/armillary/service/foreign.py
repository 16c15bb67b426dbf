"""What a bundle may hold that anybody can have made: rows of the log, and the state of a snapshot.

SQLite keeps any value in any column, and JSON any value anywhere. What is not looked at here would be found by the
request that reads it, or by the writer, which stops at what it does not understand.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from typing import Any

from armillary.service.errors import unusable
from armillary.service.operations import CANNOT_LINK, DTYPES, MERGE, NAME, SPLIT

_Rule = Callable[[Any], bool]
_MOST_COUNTED = 1 << 62  # of ids, places and numbers, so that some more can always be counted
_PNG = b"\x89PNG\r\n\x1a\n"


def check_row(table: str, columns: Sequence[str], row: tuple[Any, ...]) -> tuple[Any, ...]:
    """A row as it came, or a sentence."""
    for column, value in zip(columns, row, strict=True):
        place = f"{table}.{column}"
        if not _COLUMNS[place](value) and not (value is None and place in _MAY_LACK):
            raise unusable(f"The log must be one that export wrote; {place} holds something else. Export again.")
    return row


def check_state(state: dict[str, Any], seq: int, next_id: int) -> None:
    """Refuse what `Identities.state` cannot have given at this place of the log, with so many ids given."""
    for name, holds in _state_rules(seq, next_id).items():
        if name in state and not holds(state[name]):
            raise unusable(f"The state must be one that export wrote; {name} holds something else. Export again.")


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value < _MOST_COUNTED


def _is_id_or_none(value: Any) -> bool:
    return value == -1 or _is_count(value)


def _is_time(value: Any) -> bool:
    return type(value) in (int, float) and math.isfinite(value)


def _is_text(value: Any) -> bool:
    return type(value) is str


def _is_name(value: Any) -> bool:
    return value is None or type(value) is str


def _is_bytes(value: Any) -> bool:
    return type(value) is bytes


def _is_png(value: Any) -> bool:
    return type(value) is bytes and value.startswith(_PNG)


def _is_dtype(value: Any) -> bool:
    return value in DTYPES


def _is_json(value: Any) -> bool:
    return type(value) is str and _read(value) is not _is_json


def _is_object(value: Any) -> bool:
    return type(value) is str and type(_read(value)) is dict


def _read(text: str) -> Any:
    """What JSON says; this module's own mark where it is none."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return _is_json


def _list_of(holds: _Rule) -> _Rule:
    return lambda value: type(value) is list and all(map(holds, value))


def _pair_of(first: _Rule, second: _Rule) -> _Rule:
    return lambda value: type(value) is list and len(value) == 2 and first(value[0]) and second(value[1])


def _said_of_ids(holds: _Rule) -> _Rule:
    return lambda value: type(value) is dict and all(key.isdecimal() and holds(one) for key, one in value.items())


_COLUMNS: dict[str, _Rule] = {
    "facts.name": _is_text, "facts.value": _is_json,
    "operations.seq": _is_count, "operations.at": _is_time, "operations.kind": _is_text,
    "operations.fields": _is_object, "operations.vectors": _is_bytes,
    "answers.seq": _is_count, "answers.key": _is_text, "answers.digest": _is_bytes, "answers.at": _is_time,
    "answers.status": _is_count, "answers.body": _is_object,
    "events.number": _is_count, "events.at": _is_time, "events.kind": _is_text, "events.id": _is_count,
    "events.other": _is_id_or_none, "events.operation": _is_count, "events.name": _is_text,
    "members.number": _is_count, "members.node": _is_count, "members.dtype": _is_dtype, "members.vector": _is_bytes,
    "meta.id": _is_count, "meta.body": _is_object,
    "thumbnails.id": _is_count, "thumbnails.image": _is_png,
    "snapshots.seq": _is_count, "snapshots.at": _is_time, "snapshots.file": _is_text, "snapshots.digest": _is_text,
    "snapshots.state": _is_object,
}  # fmt: skip
_MAY_LACK = ("operations.vectors", "answers.status", "answers.body", "events.name")
_RECORDS = {  # what an undo must know of each kind
    NAME: {"id", "before"},
    MERGE: {"kept", "gone", "numbers", "names"},
    SPLIT: {"id", "part"},
    CANNOT_LINK: {"one", "other"},
}


def _state_rules(seq: int, next_id: int) -> dict[str, _Rule]:
    def is_id(value: Any) -> bool:
        return type(value) is int and 0 <= value < next_id

    ids = _list_of(is_id)
    return {
        "seq": lambda value: type(value) is int and value == seq,
        "next_event": lambda value: _is_count(value) and value > 0,
        "n_rows": _is_count,
        "frames": _list_of(_pair_of(_is_text, ids)),
        "merged": _list_of(_pair_of(is_id, is_id)),
        "undoable": _list_of(_pair_of(_is_count, _record_of(is_id, ids))),
        "own_names": _list_of(_pair_of(is_id, _is_text)),
    }


def _record_of(is_id: _Rule, ids: _Rule) -> _Rule:
    fields: dict[str, _Rule] = {
        **dict.fromkeys(("id", "kept", "gone", "part", "one", "other"), is_id),
        **dict.fromkeys(("before", "after", "name"), _is_name),
        "numbers": _list_of(_is_count),
        "names": _said_of_ids(_is_text),
        "apart": _said_of_ids(ids),
        "was_apart": lambda value: type(value) is bool,
    }

    def is_record(value: Any) -> bool:
        needed = _RECORDS.get(str(value.get("kind"))) if type(value) is dict else None
        if needed is None or not needed <= value.keys():
            return False
        return all(holds(value[name]) for name, holds in fields.items() if name in value)

    return is_record
