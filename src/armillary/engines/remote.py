"""The host's side of parts that live elsewhere: passes, labels and columns as things to ask, and their history.

**History.** What lies beside rows at a worker was made by commands, and rows can be read again. So each object here
knows the commands that made it what it is, as a graph: a command, and what it was done to. A worker that dies takes
nothing along that cannot be had back: its part opens at another one, and the commands behind all that is still in use
are done once more, in their order. Everything is deterministic, so the bits are the same. What nobody refers to any
more is forgotten with its commands, by Python itself.

A history is short. A pass that labels every row whatever its label was ("label" without a floor or rivals) is all that
labels need of the past. Where labels depend on those before (DP and DDP), they come home once their history is longer
than they are (4 bytes a row), and the history begins with them; sides do so as well. Partitions are made anew from
labels in every sweep, so their history is a sweep long.
"""

from __future__ import annotations

import hashlib
import io
import itertools
import math
import pickle
import uuid
import weakref
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from armillary._typing import Float64Array, FloatArray
from armillary.engines.contract import Algorithm, FewRows, Host, Numbers, Outcome, Rule, Span, Which
from armillary.engines.desk import UNKNOWN, Command, Message, Opening, Stays, pickled
from armillary.engines.executors import Answers, Station, StationLostError, Traffic, WorkersLostError
from armillary.exceptions import RowError
from armillary.kernels.select import kernels_for
from armillary.points import Block
from armillary.rules import AffineRule, Anchors
from armillary.sums.directional import DirectionalStatistics

# Workers that a part may lose one after the other before it is given up: something kills them.
_MOST_LOST = 5
# Rows of a part that tell it from another one.
_LOOKED_AT = 64
# Bytes of a history that are kept whatever the rows.
_SHORT_HISTORY = 1 << 20


@dataclass(frozen=True, eq=False)
class Done:
    """A command that was done, and those that it needs to be done before."""

    number: int  # in the order of the part
    command: bytes
    before: tuple[Done, ...]
    n_bytes: int  # of this and of those before it, some of which may be counted twice
    kept: int | None = None  # the number of what it made


class _Writing(pickle.Pickler):
    """Commands name what lies at the worker by its number."""

    def __init__(self, stream: io.BytesIO) -> None:
        super().__init__(stream, protocol=pickle.HIGHEST_PROTOCOL)
        self.named: list[Remote] = []

    def persistent_id(self, obj: Any) -> int | None:
        if not isinstance(obj, Remote):
            return None
        self.named.append(obj)
        return obj.key


class Line:
    """The conversation with one part."""

    def __init__(
        self, station: Station, traffic: Traffic, first_row: int = 0, part: int = 0, answers: Answers | None = None
    ) -> None:
        self._station, self.traffic, self.first_row = station, traffic, first_row
        self._part, self._answers = part, answers
        self._numbers, self._commands, self._keys = itertools.count(), itertools.count(), itertools.count()
        self._in_use: weakref.WeakValueDictionary[int, Remote] = weakref.WeakValueDictionary()
        self._dropped: list[int] = []
        self._is_closed, self._is_behind = False, False
        self._name = uuid.uuid4().hex

    # ------------------------------------------------------------------------------------------------- asking

    def ask(self, owner: Any, method: str, *arguments: Any, **named: Any) -> Any:
        """A question that changes nothing."""
        return self._sent(method, self._written(owner, method, arguments, named, None)[0])

    def ask_the_rows(self, owner: Any, method: str, *arguments: Any) -> Any:
        """The same, of the rows that are there now: an answer that is known from before does not count."""
        return self._told(method, self._written(owner, method, arguments, {}, None)[0])

    def compare(self, name: str, value: Any) -> bool:
        """Whether the next answer that is known of the part is this value; where there is none, it is from here on."""
        if self._answers is None:
            return True
        is_known, before = self._answers.recalled(self._part, name)
        if not is_known:
            self._answers.note(self._part, name, value)
        return not is_known or bool(before == value)

    def make(self, kind: type[Remote], owner: Any, method: str, *arguments: Any, **named: Any) -> Any:
        """Something that stays at the worker; the owner itself where that is it."""
        key = next(self._keys)
        command, read = self._written(owner, method, arguments, named, key)
        told: Stays = self._sent(method, command)
        if told.is_owner:
            self._dropped.append(key)
            return owner
        return kind(self, key, self._done(command, tuple(one.done for one in read), key), told)

    def change(self, changed: Sequence[Remote], owner: Any, method: str, *arguments: Any, **named: Any) -> Any:
        """A command that changes some of what it is given."""
        command, read = self._written(owner, method, arguments, named, None)
        found = self._sent(method, command)
        done = self._done(command, tuple(one.done for one in read))
        for one in changed:
            one.done = done
        return found

    def overwrite(self, changed: Remote, owner: Any, method: str, *arguments: Any, **named: Any) -> Any:
        """A command after which it does not matter what `changed` was before."""
        command, read = self._written(owner, method, arguments, named, None)
        found = self._sent(method, command)
        changed.done = self._done(command, tuple(one.made if one is changed else one.done for one in read))
        return found

    def _done(self, command: bytes, before: tuple[Done, ...], kept: int | None = None) -> Done:
        n_bytes = len(command) + max((one.n_bytes for one in before), default=0)
        return Done(next(self._commands), command, before, n_bytes, kept)

    @staticmethod
    def _written(
        owner: Any, method: str, arguments: tuple[Any, ...], named: dict[str, Any], kept: int | None
    ) -> tuple[bytes, list[Remote]]:
        """A command as bytes, and the objects at the worker that it names."""
        stream = io.BytesIO()
        writing = _Writing(stream)
        writing.dump(tuple(Command(owner, method, arguments, named, kept)))
        return stream.getvalue(), writing.named

    # ------------------------------------------------------------------------------------------------- sending

    def _sent(self, method: str, command: bytes) -> Any:
        if self._answers is None:
            return self._told(method, command)
        is_known, found = self._answers.recalled(self._part, method)
        if not is_known:
            found = self._told(method, command)
            self._answers.note(self._part, method, found)
        self._is_behind |= is_known
        return found

    def _told(self, method: str, command: bytes) -> Any:
        """What the worker answers."""
        if self._is_closed:
            raise RuntimeError("These rows were asked after their passes were closed.")
        dropped, self._dropped = self._dropped, []
        number = next(self._numbers)
        # a worker does not hold yet what came of answers that were known
        is_anew, self._is_behind = number == 0 or self._is_behind, False
        commands = [*self._history(), command] if is_anew else [command]
        answer = self._try(method, Message(self._name, number, is_anew, dropped, commands))
        for _ in range(_MOST_LOST):
            if answer != UNKNOWN:
                break
            self.traffic.lose()
            # the number is a new one: an answer that was lost on its way is not the answer to the history
            number = next(self._numbers)
            answer = self._try(method, Message(self._name, number, True, [], [*self._history(), command]))
        if answer == UNKNOWN:
            raise WorkersLostError(
                f"Workers must stay for the length of a pass; that of one part was lost {_MOST_LOST} times in a row. "
                "Look at their memory, which they may have run out of, and give them fewer rows by taking more."
            )
        is_well, found = pickle.loads(answer)
        if not is_well:
            raise found.moved(self.first_row) if isinstance(found, RowError) else found
        return found

    def _try(self, method: str, message: Message) -> bytes:
        told = pickled(tuple(message))
        try:
            answer = self._station.ask(told)
        except StationLostError:
            return UNKNOWN
        self.traffic.count(method, len(told), len(answer))
        return answer

    def _history(self) -> list[bytes]:
        """The commands behind all that is in use, in their order; what they make besides is dropped afterwards."""
        found: dict[int, Done] = {}
        waiting = [one.done for one in self._in_use.values()]
        while waiting:
            one = waiting.pop()
            if one.number not in found:
                found[one.number] = one
                waiting.extend(one.before)
        made = {one.kept for one in found.values() if one.kept is not None}
        self._dropped += [key for key in made if key not in self._in_use]
        return [found[number].command for number in sorted(found)]

    # ------------------------------------------------------------------------------------------------- objects

    def keep(self, one: Remote) -> None:
        """Remember an object while somebody has it."""
        self._in_use[one.key] = one
        weakref.finalize(one, self._dropped_later, one.key).atexit = False

    def _dropped_later(self, key: int) -> None:
        self._dropped.append(key)

    def close(self) -> None:
        """Bring home the labels that somebody still has; nothing is asked any more."""
        for one in list(self._in_use.values()):
            if isinstance(one, RemoteLabels):
                one.come_home()
        self.abandon()

    def abandon(self) -> None:
        """Nothing is asked any more."""
        self._is_closed = True


class Remote:
    """Something that lies at a worker."""

    def __init__(self, line: Line, key: int, done: Done, told: Stays) -> None:
        self.line, self.key, self.done, self.made = line, key, done, done
        self.facts = told.facts
        line.keep(self)

    def _ask(self, method: str, *arguments: Any, **named: Any) -> Any:
        return self.line.ask(self, method, *arguments, **named)

    def _change(self, method: str, *arguments: Any, **named: Any) -> Any:
        return self.line.change([self], self, method, *arguments, **named)


def is_long(one: Remote, n_bytes: int) -> bool:
    """Whether the history of something that takes so many bytes is longer than that."""
    return one.done.n_bytes - one.made.n_bytes > max(_SHORT_HISTORY, n_bytes)


class RemoteLabels(Remote):
    """The labels of a part; see `engines/contract.py`."""

    _home: npt.NDArray[np.int32] | None = None
    n_rows = 0

    def sizes(self, n_clusters: int, *, counted: bool = False) -> npt.NDArray[np.int64]:
        """Rows with each label (K,)."""
        return self._ask("sizes", n_clusters, counted=counted)

    def at(self, numbers: Numbers) -> npt.NDArray[np.int32]:
        """The labels of a few rows (m,)."""
        return self._ask("at", numbers)

    def put(self, numbers: Numbers, values: npt.ArrayLike) -> None:
        """Give a few rows their labels."""
        self._change("put", numbers, values)

    def fill(self, label: int, span: Span = None) -> None:
        """Give the rows of the span one label."""
        self._change("fill", label, span)

    def keep(self, is_kept: npt.NDArray[np.bool_]) -> None:
        """Drop clusters that have no rows."""
        self._change("keep", is_kept)

    def copy(self) -> RemoteLabels:
        """The same labels, to be changed by themselves."""
        twin: RemoteLabels = self.line.make(RemoteLabels, self, "copy")
        twin.n_rows = self.n_rows
        return twin

    def rename(self, table: npt.NDArray[np.integer[Any]]) -> None:
        """Label k becomes table[k]."""
        self._change("rename", table)

    def first_rows(self, is_sought: npt.NDArray[np.bool_], span: Span = None) -> Numbers:
        """The first row of the span with each label (K,) that is sought."""
        return self._ask("first_rows", is_sought, span)

    def last_rows(self, is_sought: npt.NDArray[np.bool_]) -> Numbers:
        """The last row with each label (K,) that is sought."""
        return self._ask("last_rows", is_sought)

    def surplus(self, room: npt.NDArray[np.int64]) -> Numbers:
        """The rows with each label k beyond the first room[k] (K,)."""
        return self._ask("surplus", room)

    def refused(self, span: Span, most: int) -> Numbers:
        """The first rows of the span with a negative label."""
        return self._ask("refused", span, most)

    def n_refused(self, *, counted: bool = False) -> int:
        """How many rows have a negative label."""
        return self._ask("n_refused", counted=counted)

    def forget(self) -> None:
        """The clusters are no longer those of the last pass."""
        self._change("forget")

    def to_host(self, names: npt.NDArray[np.int64] | None = None) -> npt.NDArray[Any]:
        """The labels (n,) as an array for the user."""
        if self._home is None:
            return self._ask("to_host", names)
        return self._home if names is None else np.append(names, -1)[np.maximum(self._home, -1)]

    def come_home(self) -> None:
        """Be an array from here on: the workers go."""
        self._home = self._ask("to_host")

    def shorten(self) -> None:
        """Let the history begin here, where it takes more bytes than the labels do."""
        if is_long(self, 4 * self.n_rows):
            values = self._ask("to_host")
            self.line.overwrite(self, self, "put", slice(None), values)


class RemoteColumn(Remote):
    """A column of a part; see `engines/contract.py`."""

    def top(self) -> float:
        """The largest value."""
        return self._ask("top")

    def masses(self, q: int) -> RemoteMasses:
        """Weight times value of the rows as multiples of 2^-q."""
        return self.line.make(RemoteMasses, self, "masses", q)

    def at(self, numbers: Numbers) -> FloatArray:
        """The values of a few rows (m,)."""
        return self._ask("at", numbers)

    def largest(self, most: int) -> FloatArray:
        """The largest values."""
        return self._ask("largest", most)

    def find(self, value: float) -> int:
        """The first row with this value; -1 where there is none."""
        return self._ask("find", value)

    def least(self, most: int, *, counted: bool = False) -> Numbers:
        """The rows with the smallest values."""
        return self._ask("least", most, counted=counted)

    def to_host(self) -> FloatArray:
        """The values (n,)."""
        return self._ask("to_host")


class RemoteMasses(Remote):
    """Masses of a column."""

    @property
    def total(self) -> float:
        """The mass of all rows."""
        return float(self.facts)

    def reached(self, targets: Float64Array) -> Numbers:
        """The first rows whose running sum is above the targets."""
        return self._ask("reached", targets)


class RemoteLaneSums(Remote):
    """Sums of the lanes of a part."""

    def onto(self, outcome: Outcome | None) -> Outcome:
        """The outcome, and then these."""
        return self._ask("onto", outcome)


class RemoteGroups(Remote):
    """Rows of a part by their label."""

    def merge(self, kept: int, gone: int) -> None:
        """Give the rows of `gone` to `kept`."""
        self._change("merge", kept, gone)


# ---------------------------------------------------------------------------------------------------- sets of rows


class RemoteSides(Remote):
    """Left or right beside the rows of a set that a part has."""

    @property
    def n_left(self) -> int:
        """Rows on the left."""
        return int(self.facts[0])

    @property
    def n_right(self) -> int:
        """Rows on the right."""
        return int(self.facts[1])


class RemoteOdds(Remote):
    """Log odds beside the rows of several sets."""

    def sides(self, number: int) -> RemoteSides:
        """Of one set: left where that is the more probable."""
        return self.line.make(RemoteSides, self, "sides", number)

    def log_limbs(self, number: int, sides: Any) -> Float64Array:
        """Of one set: sums of log p and of log p - log(1 - p), in limbs."""
        return self._ask("log_limbs", number, sides)


class RemoteSets(Remote):
    """The share of a part in G sets of rows."""

    @property
    def sizes(self) -> npt.NDArray[np.int64]:
        """Rows of each set (G,)."""
        return np.asarray(self.facts)

    def totals(self) -> Float64Array:
        """sum x (G, D)."""
        return self._ask("totals")

    def scatter_limbs(self, centres: Float64Array) -> Float64Array:
        """Scatters in limbs."""
        return self._ask("scatter_limbs", centres)

    def tangent_limbs(self, bases: Float64Array, *, with_scatter: bool, with_curvature: bool) -> Float64Array:
        """Tangent sums in limbs."""
        return self._ask("tangent_limbs", bases, with_scatter=with_scatter, with_curvature=with_curvature)

    def rows_at(self, ranks: Sequence[npt.NDArray[np.int64]]) -> Block:
        """A few rows of each set, by their ranks in it."""
        return self._ask("rows_at", ranks)

    def some(self, places: Sequence[int]) -> RemoteSets:
        """The sets at some places."""
        return self.line.make(RemoteSets, self, "some", places)

    def parted(self, sides: Sequence[Any]) -> RemoteSets:
        """In the place of each set its left and its right rows; None leaves it whole."""
        return self.line.make(RemoteSets, self, "parted", sides)

    def all_odds(self, rule: Rule, most: float) -> RemoteOdds:
        """Log odds of all sets."""
        return self.line.make(RemoteOdds, self, "all_odds", rule, most)

    def sides_below(
        self, number: int, generator: np.random.Generator, n_before: int, law: Any, place: int
    ) -> RemoteSides:
        """Sides by chance."""
        return self.line.make(RemoteSides, self, "sides_below", number, generator, n_before, law, place)

    def where(self, number: int, labels: Any, label: int) -> RemoteSides:
        """Left where a row of a set has this label."""
        return self.line.make(RemoteSides, self, "where", number, labels, label)


class RemoteHalves(Remote):
    """A side beside each row of a part."""

    n_rows = 0

    def copy(self) -> RemoteHalves:
        """The same sides, to be changed by themselves."""
        twin: RemoteHalves = self.line.make(RemoteHalves, self, "copy")
        twin.n_rows = self.n_rows
        return twin

    def n_left(self, sets: Any) -> npt.NDArray[np.int64]:
        """How many rows of each set (G,) are left."""
        return self._ask("n_left", sets)

    def side(self, sets: Any, number: int) -> RemoteSides:
        """The sides of one set."""
        return self.line.make(RemoteSides, self, "side", sets, number)

    def parts(self, sets: Any) -> RemoteSets:
        """The left and the right rows of each set."""
        return self.line.make(RemoteSets, self, "parts", sets)

    def put(self, sets: Any, sides: Any) -> None:
        """Give the rows of one set their sides."""
        self._change("put", sets, sides)

    def draw(self, sets: Any, rule: Rule, key: tuple[int, int]) -> None:
        """Redraw the side of each row of the sets."""
        self._change("draw", sets, rule, key)
        if is_long(self, self.n_rows):
            self.line.overwrite(self, self, "fill", self.to_host())

    def to_host(self) -> npt.NDArray[np.bool_]:
        """Which rows are left (n,)."""
        return self._ask("to_host")


class RemotePartition(Remote):
    """The rows of a part in K clusters."""

    labels: Remote  # they change with it

    @property
    def counts(self) -> npt.NDArray[np.int64]:
        """Rows of each cluster (K,) when the partition was made."""
        return np.asarray(self.facts)

    def first_rows(self) -> npt.NDArray[np.int64]:
        """The first row of each cluster (K,)."""
        return self._ask("first_rows")

    def sets(self) -> RemoteSets:
        """The rows of all clusters."""
        return self.line.make(RemoteSets, self, "sets")

    def unions(self, groups: Sequence[Sequence[int]]) -> RemoteSets:
        """The rows of each group of clusters as one set."""
        return self.line.make(RemoteSets, self, "unions", groups)

    def split(self, cluster: int, sides: Any) -> None:
        """Make the rows that are right the last cluster."""
        self.line.change([self, self.labels], self, "split", cluster, sides)

    def merge(self, first: int, second: int) -> None:
        """Give the rows of `second` to `first`."""
        self.line.change([self, self.labels], self, "merge", first, second)


# ----------------------------------------------------------------------------------------------------------- passes


class RemotePasses(Remote):
    """Passes over a part; see `engines/contract.py`."""

    @property
    def points(self) -> Any:
        """The rows that these are passes over."""
        return self.facts

    @classmethod
    def opened(
        cls, station: Station, opening: Opening, traffic: Traffic, part: int = 0, answers: Answers | None = None
    ) -> RemotePasses:
        """Passes over the rows that the record opens at a station."""
        return Line(station, traffic, opening.first_row, part, answers).make(cls, opening, "open")

    def are_as_before(self) -> bool:
        """Whether the rows are those of the answers that are known: by the sum of all of them, and some of them."""
        numbers = np.unique(np.linspace(0, self.points.n_rows - 1, _LOOKED_AT).astype(np.int64))
        sums = self.line.ask_the_rows(self, "sum", None, 1).resultants
        some = self.line.ask_the_rows(self, "unit_rows", numbers)
        digest = hashlib.sha256(np.ascontiguousarray(sums).tobytes() + np.ascontiguousarray(some).tobytes())
        return self.line.compare("are_as_before", digest.hexdigest())

    @property
    def host(self) -> Host:
        """What the host does with a few rows."""
        return kernels_for("cpu")

    # ------------------------------------------------------------------------------------- beside the rows

    def labels(self, algorithm: Algorithm = "lloyd", n_clusters: int | None = None) -> RemoteLabels:
        """Labels, all -1."""
        return self._labels("labels", algorithm, n_clusters)

    def labels_from(self, values: npt.NDArray[np.integer[Any]]) -> RemoteLabels:
        """Labels that a user gave (n,)."""
        return self._labels("labels_from", values)

    def _labels(self, method: str, *arguments: Any) -> RemoteLabels:
        labels: RemoteLabels = self.line.make(RemoteLabels, self, method, *arguments)
        labels.n_rows = self.points.n_rows
        return labels

    def column(self, fill: float, *, is_exact: bool = False) -> RemoteColumn:
        """One number beside each row."""
        return self.line.make(RemoteColumn, self, "column", fill, is_exact=is_exact)

    def own(self, rule: AffineRule, labels: Any) -> RemoteColumn:
        """The float64 score of each row with its own label."""
        return self.line.make(RemoteColumn, self, "own", rule, labels)

    def inverse_lengths(self) -> RemoteColumn:
        """1 / |x| of each row."""
        return self.line.make(RemoteColumn, self, "inverse_lengths")

    def lower(self, column: Any, rule: AffineRule, *, is_exact: bool = False) -> None:
        """Lower to 1 - the score of one cluster, where that is less."""
        self.line.change([column], self, "lower", column, rule, is_exact=is_exact)

    def groups(self, labels: Any, n_clusters: int) -> RemoteGroups:
        """Rows by their label."""
        return self.line.make(RemoteGroups, self, "groups", labels, n_clusters)

    def lowest(self, groups: Any, rule: AffineRule, clusters: Iterable[int]) -> float:
        """The lowest float64 score that a row of some clusters has with a rule of one cluster."""
        return self._ask("lowest", groups, rule, tuple(clusters))

    # ------------------------------------------------------------------------------------------ the passes

    def label(self, rule: AffineRule, labels: Any, *, span: Span = None, sums: bool = True) -> Outcome:
        """Write the best cluster of each row of the span over its label, or refuse the row."""
        if span is None and rule.floor == -math.inf and rule.is_rival is None:
            return self.line.overwrite(labels, self, "label", rule, labels, sums=sums)
        outcome: Outcome = self.line.change([labels], self, "label", rule, labels, span=span, sums=sums)
        labels.shorten()
        return outcome

    def name(self, rule: AffineRule, names: npt.NDArray[np.int64], over: Any | None = None) -> npt.NDArray[np.int64]:
        """The name of the best cluster of each row, for the user."""
        return self.line.change([] if over is None else [over], self, "name", rule, names, over)

    def shared_lanes(self, rule: AffineRule) -> RemoteLaneSums:
        """Sums with every row shared by responsibility, lane by lane."""
        return self.line.make(RemoteLaneSums, self, "shared_lanes", rule)

    def evidence(self, rule: AffineRule) -> float:
        """The weighted sum over rows of log sum exp score."""
        return self._ask("evidence", rule)

    def anchors(self, labels: Any, key: tuple[int, int], n_clusters: int) -> Anchors:
        """The row of each cluster with the lowest priority."""
        return self._ask("anchors", labels, key, n_clusters)

    def draw(self, rule: Rule, labels: Any, key: tuple[int, int], anchors: Anchors | None = None) -> None:
        """Write one draw per row over its label."""
        self.line.change([labels], self, "draw", rule, labels, key, anchors)
        labels.shorten()

    def sum(self, labels: Any | None, n_clusters: int, within: tuple[int, int] | None = None) -> DirectionalStatistics:
        """Statistics of the labelled rows."""
        return self._ask("sum", labels, n_clusters, within)

    def move(self, labels: Any, numbers: Numbers, values: npt.ArrayLike) -> None:
        """Give a few rows their labels; sums that are known stay so."""
        self.line.change([labels], self, "move", labels, numbers, values)
        labels.shorten()

    def weigh(self, labels: Any, n_clusters: int) -> Float64Array:
        """The sum of the weights of each cluster's rows (K,)."""
        return self._ask("weigh", labels, n_clusters)

    def compare(self, rule: AffineRule, labels: Any, first: int, own: Any, nearest: Any) -> None:
        """Write scores with own clusters over `own`, and raise `nearest` to the largest of the others."""
        self.line.change([own, nearest], self, "compare", rule, labels, first, own, nearest)

    def fold(self, rule: AffineRule | None, folder: Any, labels: Any = None, columns: Sequence[Any] = ()) -> Any:
        """A summary of the scores of all rows."""
        return self._ask("fold", rule, folder, labels, tuple(columns))

    def values(self, rule: Rule | None, what: Any, labels: Any = None, columns: Sequence[Any] = ()) -> Any:
        """Something of each row for the user."""
        return self._ask("values", rule, what, labels, tuple(columns))

    def mean(self, values: npt.NDArray[Any]) -> float:
        """The mean of something of each row (n,)."""
        return self._ask("mean", values)

    # -------------------------------------------------------------------------------------------- few rows

    def rows(self, numbers: range | Numbers) -> FewRows:
        """A few rows on the host."""
        return self._ask("rows", numbers)

    def unit_rows(self, numbers: npt.ArrayLike) -> Float64Array:
        """A few rows (m, D), dense and of unit length in float64."""
        return self._ask("unit_rows", numbers)

    def weights_at(self, numbers: Numbers) -> Float64Array | None:
        """The weights of a few rows (m,)."""
        return self._ask("weights_at", numbers)

    # ----------------------------------------------------------------------------------------- sets of rows

    def partition(self, labels: Any, n_clusters: int) -> RemotePartition:
        """All rows by their labels."""
        found: RemotePartition = self.line.make(RemotePartition, self, "partition", labels, n_clusters)
        found.labels = labels
        return found

    def top_label(self, labels: Any) -> int:
        """The largest label."""
        return self._ask("top_label", labels)

    def halves(self, is_left: npt.NDArray[np.bool_] | None = None) -> RemoteHalves:
        """A side beside each row."""
        found: RemoteHalves = self.line.make(RemoteHalves, self, "halves", is_left)
        found.n_rows = self.points.n_rows
        return found

    def over(self, which: Which) -> RemotePasses:
        """Passes over some of the rows, as rows of their own."""
        return self.line.make(RemotePasses, self, "over", which)
