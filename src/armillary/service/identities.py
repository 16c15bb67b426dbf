"""The state of a collection: what each operation of the log does to it, and what it answers.

A fold: the same operations from the same state give the same state and the same answers, to the bit. So there is no
clock in here, no chance and no thread; times come from the log.
"""

from __future__ import annotations

import itertools
import math
import warnings
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from armillary.engines.links import Fate
from armillary.exceptions import ArmillaryError
from armillary.models.links.links import Links, kept_apart_from, most_in_place, standing_merges
from armillary.models.means.ddp_vmf_means import DDPvMFMeans
from armillary.service.errors import ServiceError
from armillary.service.operations import (
    ADD,
    CANNOT_LINK,
    FORGET,
    MERGE,
    META,
    MUST_LINK,
    NAME,
    SPLIT,
    THUMBNAIL,
    UNDO,
    Event,
    Member,
    Operation,
    Outcome,
    Rows,
)

Int64Array = npt.NDArray[np.int64]

_FATES = {Fate.BIRTH: "born", Fate.SPLIT: "split", Fate.MERGE: "merged", Fate.DEATH: "forgotten"}
_MOST_FRAMES = 100_000  # the oldest are no longer remembered
_MOST_IN_FRAME = 1_000  # each of a frame is kept apart from each other: half a million pairs
_MOST_UNDOABLE = 1_000
LEAST_HISTORY = 1_000_000  # no call tells as much, so none of it is lost before it is read


class Identities:
    """A model that learns, and what people said of its ids."""

    def __init__(self, model: Any, *, store_members: bool = False, members: Callable[..., Any] | None = None) -> None:
        self.model = model
        self.store_members = store_members
        self.members = members  # vectors that were kept, by their numbers
        self.seq = 0
        self.next_event = 1
        self.n_rows = 0
        self.frames: OrderedDict[str, tuple[int, ...]] = OrderedDict()
        self.merged: dict[int, int] = {}  # ids that went into others, however long ago: a model forgets the oldest
        if self.is_links:
            model.max_history = max(model.max_history, LEAST_HISTORY)
            if self.is_fitted:
                self.merged = dict(standing_merges(model.history_).tolist())
        self.undoable: OrderedDict[int, dict[str, Any]] = OrderedDict()
        self.own_names: dict[int, str] = {}  # of models that have none

    # ------------------------------------------------------------------------------------- snapshots of it

    def state(self) -> dict[str, Any]:
        """Everything beside the model, as JSON holds it."""
        return {
            "seq": self.seq,
            "next_event": self.next_event,
            "n_rows": self.n_rows,
            # ids of a frame are never changed in place, as its next vectors come before a snapshot is written;
            # copies of 100,000 of them held up all answers for a third of a second
            "frames": list(self.frames.items()),
            "merged": list(self.merged.items()),
            "undoable": list(self.undoable.items()),
            "own_names": list(self.own_names.items()),
        }

    def take(self, state: dict[str, Any]) -> None:
        """Go on from what `state` gave."""
        self.seq, self.next_event, self.n_rows = state["seq"], state["next_event"], state["n_rows"]
        self.frames = OrderedDict((frame, tuple(ids)) for frame, ids in state["frames"])
        if "merged" in state:
            self.merged = _without_rings({int(gone): int(kept) for gone, kept in state["merged"]})
        self.undoable = OrderedDict((int(seq), record) for seq, record in state["undoable"])
        self.own_names = {int(number): name for number, name in state["own_names"]}

    # --------------------------------------------------------------------------------------------- reading

    @property
    def is_links(self) -> bool:
        """Whether people may correct the model."""
        return isinstance(self.model, Links)

    @property
    def is_learning(self) -> bool:
        """Whether the model takes vectors in."""
        return isinstance(self.model, Links | DDPvMFMeans)

    @property
    def is_fitted(self) -> bool:
        """Whether there is an id at all."""
        return "n_features_in_" in vars(self.model)

    @property
    def n_features(self) -> int | None:
        """Columns of vectors, once one was seen."""
        return vars(self.model).get("n_features_in_")

    @property
    def next_id(self) -> int:
        """Ids below this were given."""
        if not self.is_fitted:
            return 0
        return int(self.model.next_id_ if self.is_learning else self.model.n_clusters_)

    @property
    def names(self) -> dict[int, str]:
        """Names by id."""
        if self.is_links:
            return self.model.names if self.is_fitted else {}
        return dict(self.own_names)

    def ids_now(self) -> Int64Array:
        """The ids that there are (K,), increasing."""
        if not self.is_fitted:
            return np.empty(0, np.int64)
        if not self.is_learning:
            return np.arange(self.next_id)
        return np.sort(np.asarray(self.model.cluster_ids_, np.int64))

    def current(self, past: Iterable[int]) -> list[int]:
        """The ids by which clusters go now that were once given these; -1 for those that are no more."""
        given = [int(number) for number in past]
        for number in given:
            if not 0 <= number < self.next_id:
                raise ServiceError(404, f"id {number} was never given here; ids go from 0 to {self.next_id - 1}.")
        if not given:
            return []
        if self.is_links:
            found: list[int] = self.model.current_ids([self._last(number) for number in given]).tolist()
            return found
        alive = set(self.ids_now().tolist())
        return [number if number in alive else -1 for number in given]

    def alive(self, number: int) -> int:
        """The present id of one, or a sentence."""
        (now,) = self.current([number])
        if now < 0:
            raise ServiceError(410, f"id {number} is forgotten. Ids are never given again.")
        return now

    def known_as(self, number: int) -> list[int]:
        """All ids that became one with this one, increasing; also where their cluster is no more."""
        into: dict[int, list[int]] = {}
        for gone, kept in tuple(self.merged.items()):
            into.setdefault(kept, []).append(gone)
        found, left = [], [self._last(number)]
        while left:
            found.append(left.pop())
            left += into.get(found[-1], ())
        return sorted(found)

    def _last(self, number: int) -> int:
        """What an id became by merges."""
        while (into := self.merged.get(number)) is not None:  # one look: the writer may take it out between two
            number = into
        return number

    # ------------------------------------------------------------------------------------------ operations

    def apply(self, seq: int, at: float, operation: Operation) -> Outcome:
        """Do one operation; one that cannot be done changes nothing, and says so in its answer."""
        self.seq = seq
        story = _Story(self, seq, at)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of thresholds: they were said when the collection was made
                answer, members = _DOERS[operation.kind](self, operation, story)
        except ServiceError as error:
            return Outcome(error.status, error.body())
        except ArmillaryError as error:
            row = getattr(error, "row", None)
            return Outcome(422, {"error": str(error), **({} if row is None else {"row": row})})
        self.next_event += len(story.events)
        gone = frozenset(story.gone)
        return Outcome(200, {**answer, "operation": seq}, tuple(story.events), tuple(members), gone)

    def apply_all(self, asked: Sequence[tuple[int, float, Operation]]) -> list[Outcome]:
        """`apply` one after the other; vectors that follow each other are learned in one call, with the same bits."""
        outcomes: list[Outcome] = []
        while len(outcomes) < len(asked):
            left = asked[len(outcomes) :]
            run = left[: self._n_joined(left)]
            outcomes += self._added(run) if len(run) > 1 else [self.apply(*left[0])]
        return outcomes

    def _n_joined(self, asked: Sequence[tuple[int, float, Operation]]) -> int:
        """How many of these, from the first on, add vectors that one call may learn without a copy of the model."""
        if not self.is_links or not self.is_fitted:
            return 0
        first, most = asked[0][2].rows, most_in_place(self.model.n_features_in_)
        for place, (_, _, operation) in enumerate(asked):
            rows = operation.rows
            if operation.kind != ADD or operation.fields or rows is None or first is None:
                return place
            most -= len(rows)
            if most < 0 or rows.dtype != first.dtype or rows.shape[1] != self.model.n_features_in_:
                return place
        return len(asked)

    def _added(self, asked: Sequence[tuple[int, float, Operation]]) -> list[Outcome]:
        parts = [operation.rows for _, _, operation in asked if operation.rows is not None]
        n_before = int(self.model.n_vectors_)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # as in `apply`
                ids = self.model.partial_fit_predict(np.concatenate(parts)).tolist()
        except ArmillaryError:  # nothing was learned: one by one, so that only whose row it is are refused
            return [self.apply(*one) for one in asked]
        nodes, outcomes, start = self.model.nodes_, [], 0
        for (seq, at, _), rows in zip(asked, parts, strict=True):
            stop = start + len(rows)
            self.seq, story = seq, _Story(self, seq, at)
            story.tell_since(n_before + start, n_before + stop)
            self.next_event += len(story.events)
            self._nodes = nodes[start:stop]
            answer, members = self._noted(ids[start:stop], rows)
            outcomes.append(Outcome(200, {**answer, "operation": seq}, tuple(story.events), tuple(members)))
            start = stop
        return outcomes

    def _add(self, operation: Operation, story: _Story) -> tuple[dict[str, Any], list[Member]]:
        rows = operation.rows
        assert rows is not None
        if not self.is_learning:
            raise ServiceError(409, f"A collection of {type(self.model).__name__} learns nothing; use lookup.")
        return self._noted(self._learned(rows, operation.fields, story).tolist(), rows)

    def _noted(self, ids: list[int], rows: Rows) -> tuple[dict[str, Any], list[Member]]:
        """What is answered to vectors that were learned, and those of them that are kept."""
        first = self.n_rows
        self.n_rows += len(rows)
        members = []
        if self.store_members and self.is_links:
            nodes = self._nodes
            members = [Member(first + row, int(nodes[row]), rows[row]) for row in range(len(rows)) if nodes[row] >= 0]
        return {"ids": ids, "first": first}, members

    def _learned(self, rows: Rows, fields: dict[str, Any], story: _Story) -> Int64Array:
        if not self.is_links:
            if fields.get("frames") is not None or fields.get("margin") is not None:
                raise ServiceError(422, "frame and margin need a collection of Links; this is one of DDPvMFMeans.")
            ids = self.model.partial_fit_predict(rows)
            story.tell_step()
            return np.asarray(ids, np.int64)
        frames, margin = fields.get("frames"), fields.get("margin")
        n_before = int(vars(self.model).get("n_vectors_", 0))
        try:
            if frames is None:
                ids = self.model.partial_fit_predict(rows, margin=margin)
                self._nodes = self.model.nodes_
            else:
                ids = self._learned_in_frames(rows, frames, margin)
        finally:
            if self.is_fitted:
                story.tell_since(n_before)
        return np.asarray(ids, np.int64)

    def _learned_in_frames(self, rows: Rows, frames: list[str], margin: float | None) -> Int64Array:
        """One vector after the other; a frame keeps its ids for later requests."""
        if len(frames) != len(rows):
            raise ServiceError(
                422, f"frames must have one entry for each of the {len(rows)} vectors; got {len(frames)}."
            )
        self._refuse_crowds(frames)
        ids, nodes = np.empty(len(rows), np.int64), np.empty(len(rows), np.int64)
        starts = [row for row, frame in enumerate(frames) if row == 0 or frame != frames[row - 1]]
        for start, stop in itertools.pairwise([*starts, len(rows)]):
            part = slice(start, stop)
            seen = [number for number in dict.fromkeys(self.current(self.frames.get(frames[start], ()))) if number >= 0]
            ids[part] = self.model.partial_fit_predict(
                rows[part], frames=np.zeros(stop - start, np.int64), apart_from=seen or None, margin=margin
            )
            nodes[part] = self.model.nodes_
            self.frames[frames[start]] = (*seen, *(number for number in ids[part].tolist() if number >= 0))
        for frame in dict.fromkeys(frames):
            self.frames.move_to_end(frame)
        while len(self.frames) > _MOST_FRAMES:
            self.frames.popitem(last=False)
        self._nodes = nodes
        return ids

    def _refuse_crowds(self, frames: list[str]) -> None:
        for frame, n_rows in Counter(frames).items():
            n_all = n_rows + len(self.frames.get(frame, ()))
            if n_all > _MOST_IN_FRAME:
                raise ServiceError(
                    422, f"A frame has at most {_MOST_IN_FRAME:,} vectors, which are all kept apart; got {n_all:,}. "
                    "Give shorter moments frames of their own.",
                )  # fmt: skip

    def _name(self, operation: Operation, story: _Story) -> tuple[dict[str, Any], list[Member]]:
        number, name = self.alive(operation.fields["id"]), operation.fields["name"]
        before = self.names.get(number)
        self._set_name(number, name)
        story.tell("named" if name is not None else "unnamed", number, name=name)
        self._may_undo(story.seq, {"kind": NAME, "id": number, "before": before, "after": name})
        return {"id": number, "name": name}, []

    def _set_name(self, number: int, name: str | None) -> None:
        if self.is_links:
            self.model.name(number, name)
        elif name is None:
            self.own_names.pop(number, None)
        else:
            self.own_names[number] = name

    def _must_link(self, operation: Operation, story: _Story) -> tuple[dict[str, Any], list[Member]]:
        one, other = self._pair(operation)
        self._refuse_two_names(one, other, "use merge, which keeps the first")
        return self._joined(one, other, story, self._said_of(one, other)), []

    def _refuse_two_names(self, one: int, other: int, way_out: str) -> None:
        names = self.names
        if one in names and other in names and names[one] != names[other]:
            # without the names, which the model's sentence has: this one is kept under its key
            raise ServiceError(422, f"ids {one} and {other} have different names and are not linked. Take one of the "
                                    f"names away, or {way_out}.")  # fmt: skip

    def _merge(self, operation: Operation, story: _Story) -> tuple[dict[str, Any], list[Member]]:
        """As must_link, whatever was said before: the name of the first stays, that they are apart is taken back."""
        one, other = self._pair(operation)
        names, said = self.names, self._said_of(one, other)
        self.model.may_link(one, other)
        kept_name = names.get(one, names.get(other))
        if one in names and other in names:
            self.model.name(other, None)
        answer = self._joined(one, other, story, said)
        if self.names.get(answer["id"]) != kept_name:
            self.model.name(answer["id"], kept_name)
        if story.seq in self.undoable:
            self.undoable[story.seq]["name"] = kept_name
        return answer, []

    def _said_of(self, one: int, other: int) -> dict[str, Any]:
        """Names of two ids, and from which others they are kept apart: what an undo gives back to each."""
        names = self.names
        return {
            "names": {str(number): names[number] for number in (one, other) if number in names},
            "apart": {str(number): kept_apart_from(self.model, number) for number in (one, other)},
        }

    def _joined(self, one: int, other: int, story: _Story, said: dict[str, Any]) -> dict[str, Any]:
        gone = max(one, other)
        if one == other:
            return {"id": one}
        numbers = self.model.subclusters_of(gone).tolist()
        kept = self._linked(one, other, story)
        record = {"kind": MERGE, "kept": kept, "gone": gone, "numbers": numbers, "name": self.names.get(kept), **said}
        self._may_undo(story.seq, record)
        return {"id": kept}

    def _linked(self, one: int, other: int, story: _Story) -> int:
        """One cluster of two; what else it brought about is told too: sub-clusters that merge can lose their links."""
        kept = int(self.model.must_link(one, other))
        story.tell_from([Fate.MERGE, max(one, other), kept])
        return kept

    def _cannot_link(self, operation: Operation, story: _Story) -> tuple[dict[str, Any], list[Member]]:
        one, other = self._pair(operation)
        was_apart = other in kept_apart_from(self.model, one)
        self.model.cannot_link(one, other)
        story.tell("kept apart", one, other)
        self._may_undo(story.seq, {"kind": CANNOT_LINK, "one": one, "other": other, "was_apart": was_apart})
        return {"ids": [one, other]}, []

    def _pair(self, operation: Operation) -> tuple[int, int]:
        self._need_links(operation.kind)
        return self.alive(operation.fields["one"]), self.alive(operation.fields["other"])

    def _need_links(self, kind: str) -> None:
        if not self.is_links:
            raise ServiceError(409, f"{kind} needs a collection of Links; this is one of {type(self.model).__name__}.")

    def _split(self, operation: Operation, story: _Story) -> tuple[dict[str, Any], list[Member]]:
        self._need_links(SPLIT)
        number = self.alive(operation.fields["id"])
        subclusters, rows = operation.fields.get("subclusters"), operation.fields.get("rows_out")
        if rows is not None and operation.rows is None:  # of a log from before splits had their vectors
            operation = self.with_kept(operation)
        vectors = None if operation.rows is None else operation.rows.astype(np.float64)
        part = int(self.model.split(number, operation.fields.get("nodes", subclusters), rows=vectors))
        story.tell("split", part, number)
        self._may_undo(story.seq, {"kind": SPLIT, "id": number, "part": part})
        return {"id": number, "part": part}, self._moved_members(operation, part) if rows is not None else []

    def with_kept(self, operation: Operation) -> Operation:
        """A split by rows with the vectors that leave and the sub-clusters they are in now.

        The log has these, because kept vectors move with later splits: a replay would find them where they went.
        """
        self._need_links(SPLIT)
        rows = list(dict.fromkeys(operation.fields["rows_out"]))  # a vector leaves once
        if not self.store_members or self.members is None:
            raise ServiceError(409, "A split by rows needs a collection with store_members; this has none. Split by "
                                    "subclusters, or without either.")  # fmt: skip
        found = self.members(rows)
        if len(found) != len(rows):
            raise ServiceError(404, f"rows must be numbers of kept vectors; {len(rows) - len(found)} of {len(rows)} "
                                    "are not here.")  # fmt: skip
        fields = {**operation.fields, "rows_out": rows, "nodes": [node for _, node, _, _ in found]}
        return replace(
            operation, fields=fields, rows=np.stack([np.frombuffer(blob, dtype) for *_, dtype, blob in found])
        )

    def _moved_members(self, operation: Operation, part: int) -> list[Member]:
        """The vectors that left, under the sub-clusters that they are in now: by the nearest of the part's."""
        is_part = self.model.subcluster_ids_ == part
        numbers, sums = self.model.subclusters_of(part), self.model.resultants_[is_part]
        centres = sums / np.linalg.norm(sums, axis=1, keepdims=True)
        assert operation.rows is not None
        return [
            Member(row, int(numbers[np.argmax(centres @ vector.astype(np.float64))]), vector)
            for row, vector in zip(operation.fields["rows_out"], operation.rows, strict=True)
        ]

    def _forget(self, operation: Operation, story: _Story) -> tuple[dict[str, Any], list[Member]]:
        """Any id that was given: of one whose cluster is no more, names, attachments and answers may be left."""
        self._need_links(FORGET)
        number = operation.fields["id"]
        (now,) = self.current([number])
        gone = set(self.known_as(number))
        if now >= 0:
            number = now
            self.model.forget(now)
        story.gone |= gone
        story.tell("forgotten", number)
        self.frames = OrderedDict(
            (frame, left)
            for frame, ids in self.frames.items()
            if (left := tuple(one for one in ids if one not in gone)) or not ids
        )
        for seq in [seq for seq, record in self.undoable.items() if _mentions(record, gone)]:
            del self.undoable[seq]
        return {"id": number, "ids": sorted(gone)}, []

    def _note(self, operation: Operation, story: _Story) -> tuple[dict[str, Any], list[Member]]:
        """What was attached is in its table already."""
        story.tell(f"{operation.kind} set", operation.fields["id"])
        return {"id": operation.fields["id"]}, []

    def _undo(self, operation: Operation, story: _Story) -> tuple[dict[str, Any], list[Member]]:
        seq = operation.fields["operation"]
        record = self.undoable.get(seq)
        if record is None:
            raise ServiceError(409, f"operation {seq} cannot be undone: it is none that changes ids by hand, was "
                                    f"undone already, or is older than the last {_MOST_UNDOABLE:,}.")  # fmt: skip
        answer = self._undone(record, story)
        del self.undoable[seq]
        return {**answer, "undone": seq}, []

    def _undone(self, record: dict[str, Any], story: _Story) -> dict[str, Any]:
        match record["kind"]:
            case "name":
                number = self.alive(record["id"])
                if "after" in record and self.names.get(number) != record["after"]:
                    raise ServiceError(409, f"id {number} was named again since. Undo that first, or name it.")
                self._set_name(number, record["before"])
                story.tell("named" if record["before"] is not None else "unnamed", number, name=record["before"])
                return {"id": number}
            case "merge":
                return self._unmerged(record, story)
            case "split":
                return self._rejoined(record, story)
            case _:
                one, other = self.alive(record["one"]), self.alive(record["other"])
                if not record.get("was_apart") and not self._is_said_apart(one, other, record):
                    self.model.may_link(one, other)
                    story.tell("free to merge", one, other)
                return {"ids": [one, other]}

    def _is_said_apart(self, one: int, other: int, undone: dict[str, Any]) -> bool:
        """Whether people said besides that two ids are not one, and did not take it back."""
        return any(
            record["kind"] == CANNOT_LINK and {self._last(record["one"]), self._last(record["other"])} == {one, other}
            for record in self.undoable.values()
            if record is not undone
        )

    def _unmerged(self, record: dict[str, Any], story: _Story) -> dict[str, Any]:
        kept, gone, names = self.alive(record["kept"]), int(record["gone"]), record["names"]
        part = int(self.model.restore(kept, record["numbers"], gone))
        story.tell("split", part, kept)
        own_name = names.get(str(record["kept"]))
        if self.names.get(kept) == record.get("name", own_name):  # else it was named since
            self.model.name(kept, own_name)
        self.model.name(part, names.get(str(gone)))
        self._part_again(kept, part, record)
        return {"id": kept, "part": part}

    def _part_again(self, kept: int, part: int, record: dict[str, Any]) -> None:
        """From whom each of two was kept apart before they were merged."""
        before = {
            side: set(self.current(record.get("apart", {}).get(str(record[side]), ()))) for side in ("kept", "gone")
        }
        for other in sorted(before["gone"] - {-1, kept, part}):
            self.model.cannot_link(part, other)
            if kept == record["kept"] and other not in before["kept"] and not self._is_said_apart(kept, other, record):
                self.model.may_link(kept, other)

    def _rejoined(self, record: dict[str, Any], story: _Story) -> dict[str, Any]:
        one, part = self.alive(record["id"]), self.alive(record["part"])
        if one != part:
            self._refuse_two_names(one, part, "merge them, which keeps the first")
            self.model.may_link(one, part)
            one = self._linked(one, part, story)
        return {"id": one}

    def _may_undo(self, seq: int, record: dict[str, Any]) -> None:
        self.undoable[seq] = record
        while len(self.undoable) > _MOST_UNDOABLE:
            self.undoable.popitem(last=False)


_Doer = Callable[[Identities, Operation, "_Story"], tuple[dict[str, Any], list[Member]]]
_DOERS: dict[str, _Doer] = {
    ADD: Identities._add,
    NAME: Identities._name,
    MUST_LINK: Identities._must_link,
    CANNOT_LINK: Identities._cannot_link,
    MERGE: Identities._merge,
    SPLIT: Identities._split,
    FORGET: Identities._forget,
    UNDO: Identities._undo,
    META: Identities._note,
    THUMBNAIL: Identities._note,
}


class _Story:
    """What one operation makes happen."""

    def __init__(self, identities: Identities, seq: int, at: float) -> None:
        self.seq = seq
        self.events: list[Event] = []
        self.gone: set[int] = set()
        self._identities, self._at = identities, at

    def tell(self, kind: str, number: int, other: int = -1, name: str | None = None) -> None:
        """One event."""
        if kind == "merged":
            self._identities.merged[number] = other
        elif kind == "split":
            self._identities.merged.pop(number, None)
        place = self._identities.next_event + len(self.events)
        self.events.append(Event(place, self._at, kind, number, other, self.seq, name))

    def tell_since(self, n_vectors: int, last: int | None = None) -> None:
        """What the history of Links has of vectors after this number, up to the last."""
        history = self._identities.model.history_
        if not len(history) or history[-1, 0] <= n_vectors:
            return
        first = int(np.searchsorted(history[:, 0], n_vectors, side="right"))
        stop = None if last is None else int(np.searchsorted(history[:, 0], last, side="right"))
        for _, fate, number, other in history[first:stop].tolist():
            self.tell(_FATES[Fate(fate)], number, other)

    def tell_from(self, line: list[int]) -> None:
        """What the history of Links has from the newest such line on."""
        history = self._identities.model.history_
        first = int(np.flatnonzero((history[:, 1:] == line).all(axis=1))[-1])
        for _, fate, number, other in history[first:].tolist():
            self.tell(_FATES[Fate(fate)], number, other)

    def tell_step(self) -> None:
        """What the last step of DDPvMFMeans brought."""
        record = self._identities.model.record()
        for kind, ids in (("born", record.births), ("came back", record.revivals), ("forgotten", record.deaths)):
            for number in np.asarray(ids, np.int64).tolist():
                self.tell(kind, number)


def _without_rings(merged: dict[int, int]) -> dict[int, int]:
    """The same; a bundle of anybody's may send whoever follows it round and round."""
    ended: set[int] = set()
    for number in merged:
        path: dict[int, None] = {}
        while number in merged and number not in ended:
            if number in path:
                raise ServiceError(422, f"id {number} went into itself. Export again.")
            path[number] = None
            number = merged[number]
        ended.update(path)
    return merged


def _mentions(record: dict[str, Any], gone: set[int]) -> bool:
    return any(record.get(field) in gone for field in ("id", "kept", "gone", "part", "one", "other"))


def spread(count: float, length: float) -> float | None:
    """The angle, in degrees, that vectors of a cluster lie from its centre in the mean."""
    return None if count <= 0.0 else math.degrees(math.acos(max(-1.0, min(1.0, length / count))))
