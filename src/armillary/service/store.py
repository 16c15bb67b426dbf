"""The log of one collection on disk: SQLite with a write-ahead log, every commit brought to disk. The home of sqlite3.

A commit of operations carries what follows from earlier ones too (answers to keys, events, members): these are known
only after their operation was done, and are made again by replay where a crash came between. `done` tells how far they
are written.

Deleted content is overwritten (`secure_delete`), so that what is forgotten is not in free pages.
"""

from __future__ import annotations

import contextlib
import errno
import json
import sqlite3
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from armillary.service.errors import LaterVersionError, ServiceError
from armillary.service.foreign import check_row
from armillary.service.operations import META, THUMBNAIL, Event, Member, Operation

SCHEMA_VERSION = 2
_TABLES = """
CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE operations (
  seq INTEGER PRIMARY KEY, at REAL NOT NULL, kind TEXT NOT NULL, fields TEXT NOT NULL, vectors BLOB);
CREATE TABLE answers (
  seq INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, digest BLOB NOT NULL, at REAL NOT NULL, status INTEGER, body TEXT);
CREATE TABLE events (
  number INTEGER PRIMARY KEY, at REAL NOT NULL, kind TEXT NOT NULL, id INTEGER NOT NULL, other INTEGER NOT NULL,
  operation INTEGER NOT NULL, name TEXT);
CREATE INDEX events_of_ids ON events (id);
CREATE TABLE members (number INTEGER PRIMARY KEY, node INTEGER NOT NULL, dtype TEXT NOT NULL, vector BLOB NOT NULL);
CREATE INDEX members_of_nodes ON members (node);
CREATE TABLE meta (id INTEGER PRIMARY KEY, body TEXT NOT NULL);
CREATE TABLE thumbnails (id INTEGER PRIMARY KEY, image BLOB NOT NULL);
CREATE TABLE snapshots (
  seq INTEGER PRIMARY KEY, at REAL NOT NULL, file TEXT NOT NULL, digest TEXT NOT NULL, state TEXT NOT NULL);
CREATE TABLE backups (file TEXT PRIMARY KEY, at REAL NOT NULL, next_id INTEGER NOT NULL) WITHOUT ROWID;
"""
# From each version to the next; version 0 is an empty file.
_MIGRATIONS = {
    0: _TABLES,
    # the history of an id read all events, 0.1 s of half a million, and so did an erasure
    1: """
CREATE INDEX events_of_others ON events (other);
CREATE INDEX events_of_splits ON events (id, other) WHERE kind = 'split';
""",
}
TABLES = ("facts", "operations", "answers", "events", "members", "meta", "thumbnails", "snapshots")
LogError = sqlite3.Error  # for rooms that do not know SQLite
_KEPT_SECONDS, _KEPT_KEYS = 7 * 86_400.0, 1_000_000
_FULL = ("full", "disk i/o")
_MOST_UNSAVED, _MANY_UNSAVED = 4 << 20, 64 << 20  # bytes of the write-ahead log
_ROW_BYTES = 1024  # of an operation beside its vectors, with what followed
_MOST_SOUGHT = 20  # ids in one query
_MOST_DROPPED = 256  # operations in one quiet commit
_PATIENCE = 30.0  # seconds
_OF_KEY = "SELECT seq, digest, status, body FROM answers WHERE key = ?"


class Entry(NamedTuple):
    """An operation with its place in the log."""

    seq: int
    at: float
    operation: Operation
    key: str | None
    digest: bytes


class Answered(NamedTuple):
    """What is known of a key."""

    seq: int
    digest: bytes
    status: int | None
    body: str | None


class Followed(NamedTuple):
    """What followed from an operation."""

    seq: int
    key: str | None
    status: int
    body: str
    events: tuple[Event, ...]
    members: tuple[Member, ...]


class Snapshot(NamedTuple):
    """A state on disk: the file of the model, or "" before the first vector, and the rest."""

    seq: int
    file: str
    digest: str
    state: str  # as JSON, which is read at a start alone


class Store:
    """The file of one collection. One thread writes; any thread may read."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with contextlib.ExitStack() as unless_all_is_well:
            self._writing = unless_all_is_well.enter_context(contextlib.closing(_connected(path)))
            self._writing.execute("PRAGMA journal_mode = WAL")
            _migrate(self._writing, path)
            self._writing.execute("PRAGMA wal_autocheckpoint = 0")
            self._reading = unless_all_is_well.enter_context(contextlib.closing(_connected(path)))
            self._reading.execute("PRAGMA query_only = ON")
            unless_all_is_well.pop_all()
        self._lock = threading.Lock()
        self._bringing = threading.Lock()  # SQLite refuses a second checkpoint beside the first
        self._aside: threading.Thread | None = None
        self._n_unsaved = 0  # bytes in the write-ahead log, about
        self._is_cut = self._cut()
        (found,) = self._read("SELECT ifnull(max(seq), 0) FROM snapshots")
        self._replaced = int(found[0])  # operations up to this one are in a snapshot
        self._has_replaced = True

    def close(self) -> None:
        """Bring everything into the main file, and let go of it."""
        if self._aside is not None:
            self._aside.join()
        with self._lock:
            self._reading.close()
        with contextlib.suppress(sqlite3.Error):
            self._cut_now()
        self._writing.close()

    # ------------------------------------------------------------------------------- the write-ahead log

    def _cut(self) -> bool:
        """Bring the write-ahead log into the main file and cut it to nothing; False where readers were in the way."""
        with contextlib.suppress(sqlite3.Error), self._bringing, self._lock:
            return self._cut_now()
        return False

    def _cut_now(self) -> bool:
        self._writing.execute("PRAGMA busy_timeout = 0")  # a copy reads for as long as it takes, and all would wait
        try:
            (is_busy, _, _) = self._writing.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        finally:
            self._writing.execute(f"PRAGMA busy_timeout = {1000 * _PATIENCE:.0f}")
        return not is_busy

    def _bring_if_due(self, n_bytes: int) -> None:
        """Every few megabytes a thread brings the log into the main file, so that no answer waits for that.

        What is written meanwhile is left over, and SQLite begins the log anew only when nothing is: where that has not
        come about for long, the rest is brought here.
        """
        self._n_unsaved += n_bytes
        if self._n_unsaved < _MOST_UNSAVED or (self._aside is not None and self._aside.is_alive()):
            return
        if self._n_unsaved > _MANY_UNSAVED:
            with contextlib.suppress(sqlite3.Error), self._bringing:
                self._writing.execute("PRAGMA wal_checkpoint(PASSIVE)")
            self._n_unsaved = 0
            return
        self._aside = threading.Thread(target=self._bring_aside, name=f"checkpoint of {self.path.parent.name}")
        self._aside.start()

    def _bring_aside(self) -> None:
        before = self._n_unsaved
        with contextlib.suppress(sqlite3.Error), contextlib.closing(_connected(self.path)) as connection:
            for _ in range(2):  # the second brings what came during the first
                with self._bringing:
                    (_, n_frames, n_brought) = connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
                if n_frames == n_brought:
                    self._n_unsaved -= min(before, self._n_unsaved)
                    return

    # --------------------------------------------------------------------------------------------- writing

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        try:
            self._writing.execute("BEGIN IMMEDIATE")
            try:
                yield self._writing
                self._writing.execute("COMMIT")
            except BaseException:
                with contextlib.suppress(sqlite3.Error):
                    self._writing.execute("ROLLBACK")
                raise
        except sqlite3.Error as error:
            raise _refused(error) from error

    def append(self, entries: Sequence[Entry], followed: Sequence[Followed]) -> None:
        """Write operations, and what followed from earlier ones, in one commit that is on disk when this returns."""
        lines = [(one.seq, one.at, one.operation.kind, one.operation.text, one.operation.blob) for one in entries]
        with self._transaction() as connection:
            connection.executemany("INSERT INTO operations VALUES (?, ?, ?, ?, ?)", lines)
            connection.executemany(
                "INSERT OR REPLACE INTO answers (seq, key, digest, at) VALUES (?, ?, ?, ?)",
                [(one.seq, one.key, one.digest, one.at) for one in entries if one.key is not None],
            )
            for one in entries:
                _attach(connection, one.operation)
            _write_followed(connection, followed)
            if self._has_replaced:
                self._has_replaced = _dropped(connection, self._replaced, 2 * len(entries))
        self._bring_if_due(sum(len(blob or b"") + _ROW_BYTES for *_, blob in lines))

    def follow(self, followed: Sequence[Followed]) -> None:
        """Write what followed from operations that are in the log already."""
        if followed:
            with self._transaction() as connection:
                _write_followed(connection, followed)

    def keep_snapshot(self, snapshot: Snapshot, *, drops_log: bool = True) -> None:
        """Put a snapshot in place of the operations before it.

        Without `drops_log` these go little by little, with the commits that follow: content that is overwritten is
        written, and 50 MB of it in one commit would hold up all answers.
        """
        with self._transaction() as connection:
            _put_snapshot(connection, snapshot, drops_log=drops_log)
        self._replaced, self._has_replaced = snapshot.seq, not drops_log

    def drop_some(self) -> bool:
        """Drop some of the operations that a snapshot replaced; whether there may be more."""
        if self._has_replaced:
            with self._transaction() as connection:
                self._has_replaced = _dropped(connection, self._replaced, _MOST_DROPPED)
        return self._has_replaced

    @property
    def is_behind(self) -> bool:
        """Whether something is left for quiet moments."""
        return self._has_replaced or not self._is_cut

    @property
    def is_uncut(self) -> bool:
        """Whether what was erased may still be in the write-ahead log."""
        return not self._is_cut

    def erase(self, snapshot: Snapshot, ids: Iterable[int], nodes: Iterable[int]) -> None:
        """Replace the log by a snapshot, and take these ids out of everything else; nothing of them stays in the file.

        Answers keep their keys, with -1 in place of the ids. All in one commit: with the log goes the operation that a
        start would finish the erasure by.
        """
        gone = [(number,) for number in ids]
        with self._transaction() as connection:
            _put_snapshot(connection, snapshot, drops_log=True)
            connection.executemany("DELETE FROM meta WHERE id = ?", gone)
            connection.executemany("DELETE FROM thumbnails WHERE id = ?", gone)
            for side in ("id", "other"):
                query = f"UPDATE events SET name = NULL WHERE {side} = ? AND name IS NOT NULL"
                connection.executemany(query, gone)
            connection.executemany("DELETE FROM members WHERE node = ?", [(node,) for node in nodes])
            _scrub_answers(connection, {number for (number,) in gone})
        self._replaced, self._has_replaced = snapshot.seq, False
        self._is_cut = self._cut()

    def renumber_members(self, pairs: Iterable[tuple[int, int]]) -> None:
        """Put kept vectors under other sub-clusters: (those they are in now, those they are under)."""
        with self._transaction() as connection:
            connection.executemany("UPDATE members SET node = ? WHERE node = ?", pairs)

    def set_fact(self, name: str, value: Any) -> None:
        """Keep a fact of the collection."""
        with self._transaction() as connection:
            connection.execute("INSERT OR REPLACE INTO facts VALUES (?, ?)", (name, json.dumps(value)))

    def keep_backup(self, file: str, next_id: int) -> None:
        """Note that a file elsewhere holds what is here now."""
        with self._transaction() as connection:
            connection.execute("INSERT OR REPLACE INTO backups VALUES (?, ?, ?)", (file, time.time(), next_id))

    def checkpoint(self) -> None:
        """Bring the write-ahead log into the main file; where it holds what was erased, cut it too."""
        if not self._is_cut:
            self._is_cut = self._cut()
            return
        with contextlib.suppress(sqlite3.Error), self._bringing:
            self._writing.execute("PRAGMA wal_checkpoint(PASSIVE)")
        self._n_unsaved = 0

    # --------------------------------------------------------------------------------------------- reading

    def _read(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        try:
            with self._lock:
                return self._reading.execute(query, values).fetchall()
        except sqlite3.ProgrammingError as error:  # closed meanwhile
            raise ServiceError(503, "The collection is closed: it was deleted, or the server ends.") from error

    def facts(self) -> dict[str, Any]:
        """All facts."""
        return {name: json.loads(value) for name, value in self._read("SELECT name, value FROM facts")}

    def snapshot(self) -> Snapshot | None:
        """The newest."""
        found = self._read("SELECT seq, file, digest, state FROM snapshots ORDER BY seq DESC LIMIT 1")
        return Snapshot(*found[0]) if found else None

    def entries(self, after: int) -> Iterator[Entry]:
        """The operations after a place, in their order."""
        while True:
            lines = self._read(
                "SELECT o.seq, o.at, o.kind, o.fields, o.vectors, a.key, a.digest FROM operations o "
                "LEFT JOIN answers a ON a.seq = o.seq WHERE o.seq > ? ORDER BY o.seq LIMIT 1000",
                after,
            )
            if not lines:
                return
            for seq, at, kind, fields, vectors, key, digest in lines:
                yield Entry(seq, at, Operation.read(kind, fields, vectors), key, digest or b"")
                after = seq

    def last_seq(self) -> int:
        """The place of the newest operation, 0 before the first."""
        (found,) = self._read("SELECT max((SELECT ifnull(max(seq), 0) FROM operations), "
                              "(SELECT ifnull(max(seq), 0) FROM snapshots))")  # fmt: skip
        return int(found[0])

    def answered(self, key: str) -> Answered | None:
        """What a key was answered; without a status where that is not written yet."""
        found = self._read(_OF_KEY, key)
        return Answered(*found[0]) if found else None

    def answered_here(self, key: str) -> Answered | None:
        """The same for the thread that writes, which waits for no reader of something long."""
        found = self._writing.execute(_OF_KEY, (key,)).fetchall()
        return Answered(*found[0]) if found else None

    def events(self, since: int, most: int) -> list[Event]:
        """Events after number `since`."""
        found = self._read(
            "SELECT number, at, kind, id, other, operation, name FROM events WHERE number > ? ORDER BY number LIMIT ?",
            since, most,
        )  # fmt: skip
        return [Event(*line) for line in found]

    def events_of(self, ids: Sequence[int], most: int) -> list[Event]:
        """The newest events of some ids, oldest first."""
        marks = ",".join("?" * len(ids))
        found = self._read(
            "SELECT number, at, kind, id, other, operation, name FROM events "
            f"WHERE id IN ({marks}) OR other IN ({marks}) ORDER BY number DESC LIMIT ?",
            *ids, *ids, most,
        )  # fmt: skip
        return [Event(*line) for line in reversed(found)]

    def origins(self, ids: Sequence[int]) -> set[int]:
        """Some ids, and all that they were split off from, however long ago."""
        sources: dict[int, set[int]] = {}
        for part, source in self._read("SELECT id, other FROM events WHERE kind = 'split'"):
            sources.setdefault(part, set()).add(source)
        found, left = set(ids), list(ids)
        while left:
            fresh = sources.get(left.pop(), set()) - found
            found |= fresh
            left += fresh
        return found

    def last_event(self) -> int:
        """The number of the newest event written."""
        return int(self._read("SELECT ifnull(max(number), 0) FROM events")[0][0])

    def metas(self, ids: Sequence[int]) -> dict[int, Any]:
        """What users attached to ids."""
        marks = ",".join("?" * len(ids))
        return {
            number: json.loads(body)
            for number, body in self._read(f"SELECT id, body FROM meta WHERE id IN ({marks})", *ids)
        }

    def thumbnail(self, number: int) -> bytes | None:
        """The image of an id."""
        found = self._read("SELECT image FROM thumbnails WHERE id = ?", number)
        return found[0][0] if found else None

    def with_thumbnails(self, ids: Sequence[int]) -> set[int]:
        """Those of some ids that have one; a look at all of them would read every image."""
        marks = ",".join("?" * len(ids))
        return {number for (number,) in self._read(f"SELECT id FROM thumbnails WHERE id IN ({marks})", *ids)}

    def member_nodes(self) -> list[int]:
        """The numbers of sub-clusters that kept vectors came to."""
        return [node for (node,) in self._read("SELECT DISTINCT node FROM members")]

    def members(self, rows: Sequence[int]) -> list[tuple[int, int, str, bytes]]:
        """Number, sub-cluster, dtype and bytes of kept vectors."""
        found = []
        for row in rows:
            found += self._read("SELECT number, node, dtype, vector FROM members WHERE number = ?", row)
        return found

    def member_forms(self) -> list[tuple[str, int]]:
        """Dtypes and numbers of bytes of kept vectors."""
        return self._read("SELECT DISTINCT dtype, length(vector) FROM members")

    def members_in(self, nodes: Sequence[int], most: int) -> list[tuple[int, int]]:
        """Numbers and sub-clusters of kept vectors in some sub-clusters."""
        marks = ",".join("?" * len(nodes))
        query = f"SELECT number, node FROM members WHERE node IN ({marks}) ORDER BY number LIMIT ?"
        return self._read(query, *nodes, most)

    def backups(self) -> list[tuple[str, float, int]]:
        """File, time and next id of each backup."""
        return self._read("SELECT file, at, next_id FROM backups ORDER BY at")

    def seen_now(self) -> Seen:
        """All that is committed now, to be copied while the file is written to; for the thread that writes."""
        connection = _connected(self.path)
        try:
            connection.execute("BEGIN")
            found = connection.execute("SELECT seq, file, digest, state FROM snapshots").fetchall()
        except BaseException:
            connection.close()
            raise
        return Seen(connection, Snapshot(*found[0]) if found else None)

    def n_bytes(self) -> int:
        """What the file takes with its write-ahead log."""
        ahead = self.path.with_name(self.path.name + "-wal")
        return sum(path.stat().st_size for path in (self.path, ahead) if path.exists())


class Seen:
    """A log as it was at one moment."""

    def __init__(self, connection: sqlite3.Connection, snapshot: Snapshot | None) -> None:
        self.snapshot = snapshot  # that it builds upon
        self._connection = connection

    def copy_to(self, path: Path) -> None:
        """A whole copy in another file."""
        try:
            with contextlib.closing(sqlite3.connect(path)) as target:
                self._connection.backup(target, pages=4096)
        except sqlite3.Error as error:
            raise _refused(error) from error

    def close(self) -> None:
        """Let go of it."""
        self._connection.close()


# ------------------------------------------------------------------------------------------------------- pieces


def _connected(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=_PATIENCE, isolation_level=None, check_same_thread=False)
    try:
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA secure_delete = ON")
        connection.execute("PRAGMA trusted_schema = OFF")
        connection.execute("PRAGMA cell_size_check = ON")
    except BaseException:
        connection.close()
        raise
    return connection


def _migrate(connection: sqlite3.Connection, path: Path) -> None:
    """Bring a file of an earlier version up to this one, each step whole or not at all."""
    try:
        (version,) = connection.execute("PRAGMA user_version").fetchone()
    except sqlite3.DatabaseError as error:
        raise ServiceError(500, f"'{path}' must be the log of a collection; it is not: {error}.") from error
    if version > SCHEMA_VERSION:
        raise LaterVersionError(
            500,
            f"'{path}' must have a schema version up to {SCHEMA_VERSION}; it has {version}, of a later release. "
            "Upgrade: pip install --upgrade armillary.",
        )
    for step in range(version, SCHEMA_VERSION):
        connection.executescript(f"BEGIN; {_MIGRATIONS[step]} PRAGMA user_version = {step + 1}; COMMIT;")


def _attach(connection: sqlite3.Connection, operation: Operation) -> None:
    """What users attach is no state of the model: it goes into its table with the commit of its operation."""
    if operation.kind == META:
        number, body = operation.fields["id"], operation.fields["meta"]
        if body is None:
            connection.execute("DELETE FROM meta WHERE id = ?", (number,))
        else:
            connection.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (number, json.dumps(body)))
    elif operation.kind == THUMBNAIL:
        number = operation.fields["id"]
        if operation.attached is None:
            connection.execute("DELETE FROM thumbnails WHERE id = ?", (number,))
        else:
            connection.execute("INSERT OR REPLACE INTO thumbnails VALUES (?, ?)", (number, operation.attached))


def _write_followed(connection: sqlite3.Connection, followed: Sequence[Followed]) -> None:
    if not followed:
        return
    connection.executemany(
        "UPDATE answers SET status = ?, body = ? WHERE seq = ?",
        [(one.status, one.body, one.seq) for one in followed if one.key is not None],
    )
    connection.executemany(
        "INSERT OR REPLACE INTO events VALUES (?, ?, ?, ?, ?, ?, ?)",
        [
            (event.number, event.at, event.kind, event.id, event.other, event.operation, event.name)
            for one in followed
            for event in one.events
        ],
    )
    connection.executemany(
        "INSERT OR REPLACE INTO members VALUES (?, ?, ?, ?)",
        [
            (member.row, member.node, str(member.vector.dtype), member.vector.tobytes())
            for one in followed
            for member in one.members
        ],
    )


def _put_snapshot(connection: sqlite3.Connection, snapshot: Snapshot, *, drops_log: bool) -> None:
    connection.execute("DELETE FROM snapshots")
    connection.execute(
        "INSERT INTO snapshots VALUES (?, ?, ?, ?, ?)",
        (snapshot.seq, time.time(), snapshot.file, snapshot.digest, snapshot.state),
    )
    if drops_log:
        connection.execute("DELETE FROM operations WHERE seq <= ?", (snapshot.seq,))
    _drop_old_keys(connection)


def _dropped(connection: sqlite3.Connection, last: int, most: int) -> bool:
    """Drop the oldest operations up to a place; whether there may be more."""
    done = connection.execute(
        "DELETE FROM operations WHERE seq IN (SELECT seq FROM operations WHERE seq <= ? ORDER BY seq LIMIT ?)",
        (last, most),
    )
    return done.rowcount == most


def _drop_old_keys(connection: sqlite3.Connection) -> None:
    """Keys are kept for 7 days, and the newest million for as long as there are no more."""
    connection.execute(
        "DELETE FROM answers WHERE at < ? AND seq <= (SELECT seq FROM answers ORDER BY seq DESC LIMIT 1 OFFSET ?)",
        (time.time() - _KEPT_SECONDS, _KEPT_KEYS),
    )


def _scrub_answers(connection: sqlite3.Connection, gone: set[int]) -> None:
    changed = []
    for seq, body in connection.execute(*_answers_with(gone)):
        answer = json.loads(body)
        if answer.get("id") in (answer.get("ids") or ()):
            continue  # the answer to a forget: its key must give it again, and events have these numbers too
        scrubbed = {name: _without_ids(name, value, gone) for name, value in answer.items()}
        if scrubbed.get("id") == -1:
            scrubbed.pop("name", None)
        if scrubbed != answer:
            changed.append((json.dumps(scrubbed), seq))
    connection.executemany("UPDATE answers SET body = ? WHERE seq = ?", changed)


def _answers_with(gone: set[int]) -> tuple[str, list[str]]:
    """The query for answers that may have one of these ids, and what stands for its marks.

    A million answers are kept: to read each as JSON takes 10 s, in which nothing else is written.
    """
    query = "SELECT seq, body FROM answers WHERE body IS NOT NULL"
    if len(gone) > _MOST_SOUGHT:
        return query, []
    # as json.dumps has a number: after a bracket or a blank, before a comma or what closes
    words = [f"{before}{number}{after}" for number in sorted(gone) for before in "[ " for after in ",]}"]
    return f"{query} AND ({' OR '.join(['instr(body, ?)'] * len(words)) or 'FALSE'})", words


def _without_ids(name: str, value: Any, gone: set[int]) -> Any:
    """One field of an answer, with -1 in place of these ids."""
    if name == "ids" and isinstance(value, list):
        return [-1 if number in gone else number for number in value]
    return -1 if name in ("id", "part") and value in gone else value


def _refused(error: sqlite3.Error) -> ServiceError:
    if any(word in str(error).lower() for word in _FULL):
        return ServiceError(507, f"The disk takes no more: {error}. Make room; what was acknowledged is safe.")
    return ServiceError(503, f"The store refused to write: {error}. Look at the disk and its permissions.")


def refusal_of(error: OSError) -> ServiceError:
    """What is said of a file that could not be read or written; its place is nobody's business."""
    if is_full(error):
        return ServiceError(507, f"The disk takes no more: {error.strerror}. Make room; what was acknowledged is safe.")
    return ServiceError(503, f"The disk refused: {error.strerror}. Look at it and at its permissions.")


def is_full(error: OSError) -> bool:
    """Whether a file could not be written for want of room."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT)


def copied_rows(source: Path, target: Path) -> None:
    """Copy the rows of a file that may come from anybody into a new one with our own tables.

    Nothing of its schema is taken over: no trigger, view or index of it ever runs here.
    """
    Store(target).close()
    connection = sqlite3.connect(f"file:{source}?mode=ro&immutable=1", uri=True)
    try:
        connection.execute("PRAGMA trusted_schema = OFF")
        connection.execute("PRAGMA cell_size_check = ON")
        kinds = dict(connection.execute("SELECT name, type FROM sqlite_master WHERE type IN ('table', 'view')"))
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        if not 1 <= version <= SCHEMA_VERSION or any(kinds.get(table) != "table" for table in TABLES):
            raise ServiceError(422, "The log must be one that export wrote; its tables are others. Export again.")
        _copy_tables(connection, target)
    except sqlite3.Error as error:
        raise ServiceError(
            422, f"The log must be one that export wrote; it is damaged: {error}. Export again."
        ) from None
    finally:
        connection.close()


def _copy_tables(source: sqlite3.Connection, target: Path) -> None:
    writing = _connected(target)
    try:
        writing.execute("BEGIN IMMEDIATE")
        for table in TABLES:
            columns = [line[1] for line in writing.execute(f"PRAGMA table_info({table})")]
            marks = ",".join("?" * len(columns))
            names = ",".join(f'"{column}"' for column in columns)
            rows = (check_row(table, columns, row) for row in source.execute(f"SELECT {names} FROM {table}"))
            writing.executemany(f"INSERT INTO {table} ({names}) VALUES ({marks})", rows)
        writing.execute("COMMIT")
    finally:
        writing.close()
