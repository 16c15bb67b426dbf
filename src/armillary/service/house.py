"""All collections of one folder."""

from __future__ import annotations

import contextlib
import re
import shutil
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from armillary.durable.locks import held
from armillary.durable.whole import sync_to_disk
from armillary.exceptions import ArmillaryError
from armillary.persistence.archive import load, save
from armillary.service.collection import LOG, PASSING, Collection, Limits, in_pieces, refuse_when_full, unpacked
from armillary.service.errors import LaterVersionError, ServiceError, absent, unusable
from armillary.service.models import described
from armillary.service.store import LogError, Snapshot, Store, refusal_of

_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
_NEW = ".new-"
# what files raise that are not what they should be
_UNUSABLE = (
    ArmillaryError,
    LogError,
    LookupError,
    TypeError,
    ValueError,
    AttributeError,
    ArithmeticError,
)


class House:
    """Opens what is there, and makes more."""

    def __init__(self, data: Path, limits: Limits | None = None, most: int = 1000) -> None:
        self.data = data
        self.limits = limits or Limits()
        self._most = most
        self._lock = threading.Lock()
        self._rooms: dict[str, Collection] = {}
        self.damaged: dict[str, str] = {}  # why collections could not be opened; they stay as they are
        self._held = contextlib.ExitStack()
        (data / "collections").mkdir(parents=True, exist_ok=True)
        self._held.enter_context(held(data / "collections", f"The folder '{data}'", "Choose another for --data."))
        try:
            shutil.rmtree(data / PASSING, ignore_errors=True)
            for folder in sorted((data / "collections").iterdir()):
                if folder.name.startswith(_NEW):
                    shutil.rmtree(folder)  # made halfway when its process was killed
                elif folder.is_dir():
                    self._open(folder)
        except BaseException:
            self.close()
            raise

    def _open(self, folder: Path) -> None:
        """Open a collection; one that cannot be opened is told, and keeps nobody from the others."""
        try:
            if not (folder / LOG).exists():
                raise absent("The log", "Bring it back from a backup.")
            self._rooms[folder.name] = Collection(folder, self.limits)
        except LaterVersionError:
            raise  # of another release: nothing is damaged, and another server has to be started
        except (*_UNUSABLE, OSError) as error:
            self.damaged[folder.name] = f"{type(error).__name__}: {error}"

    def rooms(self) -> list[Collection]:
        """All collections that are open, by name."""
        return sorted(self._rooms.values(), key=lambda room: room.name)

    def broken(self) -> list[str]:
        """Names of collections that stopped or could not be opened, in order."""
        return sorted([*self.damaged, *(room.name for room in self.rooms() if room.broken is not None)])

    def get(self, name: str) -> Collection:
        """The collection of a name."""
        found = self._rooms.get(name)
        if found is None and name in self.damaged:
            raise ServiceError(503, f"The collection {name!r} could not be opened; the log of the server says why. "
                                    "Put a copy of its folder in place and start again, or delete it.")  # fmt: skip
        if found is None:
            raise absent(f"The collection {name!r}", "GET /v1/collections lists those that are.")
        return found

    def create(self, name: str, model: dict[str, Any], *, store_members: bool = False) -> Collection:
        """A new, empty collection."""
        facts = model if "tuned" in model else described(model)

        def fill(folder: Path) -> None:
            _write_facts(folder, {"model": facts, "store_members": store_members})

        return self._made(name, fill)

    def create_from_model(self, name: str, content: bytes) -> Collection:
        """A collection around a fitted model, which goes on learning where its kind does."""

        def fill(folder: Path) -> None:
            path = folder / "snapshot-0.safetensors"
            path.write_bytes(content)
            try:
                model = load(path)
                save(model, path)  # durable, and in the words of this release
            except ArmillaryError as error:
                raise unusable(str(error).replace(str(path), "the file")) from None
            _write_facts(folder, {"model": {"class": type(model).__name__, "uploaded": True}}, path.name)

        return self._made(name, fill)

    def create_from_bundle(self, name: str, bundle: Path) -> Collection:
        """A collection that was exported."""
        return self._made(name, lambda folder: unpacked(bundle, folder))

    def refuse_when_full(self, n_bytes: int = 0) -> None:
        """A sentence where the disk would be nearly full with so many bytes more."""
        refuse_when_full(self.data, self.limits.min_free_bytes, n_bytes)

    @contextlib.contextmanager
    def passing(self, n_bytes: int = 0) -> Iterator[Path]:
        """A place for the file of one request, and for so many bytes; it goes with its end, or at the next start."""
        self.refuse_when_full(n_bytes)
        (self.data / PASSING).mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(dir=self.data / PASSING, ignore_cleanup_errors=True) as folder:
            yield Path(folder, "file")

    def _made(self, name: str, fill: Any) -> Collection:
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise unusable("name must be 1 to 64 of a-z, 0-9, - and _, beginning with a letter or digit.")
        with self._lock:
            if name in self._rooms or name in self.damaged:
                raise ServiceError(409, f"The collection {name!r} is there already. Choose another name.")
            if len(self._rooms) >= self._most:
                raise ServiceError(429, f"There are {self._most} collections already. Delete one.", retry=60)
            self.refuse_when_full()
            place = self.data / "collections" / name
            folder = Path(tempfile.mkdtemp(prefix=_NEW, dir=place.parent))
            try:
                fill(folder)
                _try_opening(folder, self.limits)
                sync_to_disk(folder)
                folder.rename(place)
                sync_to_disk(place.parent)
            except BaseException as error:
                shutil.rmtree(folder, ignore_errors=True)
                if isinstance(error, OSError):
                    raise refusal_of(error) from error
                raise
            self._rooms[name] = Collection(place, self.limits)
            return self._rooms[name]

    def delete(self, name: str) -> None:
        """Close a collection and remove all of its files, backups too."""
        with self._lock:
            if self.damaged.pop(name, None) is None:
                room = self.get(name)
                del self._rooms[name]
                room.close()
            place = self.data / "collections" / name
            # a folder of its own: what could not be removed of another of this name may lie there still
            doomed = Path(tempfile.mkdtemp(prefix=_NEW, dir=place.parent))
            place.rename(doomed / name)  # one step: whatever comes, it is not opened again
            sync_to_disk(place.parent)
            shutil.rmtree(doomed, ignore_errors=True)

    def close(self) -> None:
        """Close all."""
        for room in self._rooms.values():
            room.close()
        self._rooms.clear()
        self._held.close()


def _try_opening(folder: Path, limits: Limits) -> None:
    """Refuse what cannot be opened before it has its name: with it, no server on this folder would start again."""
    try:
        with contextlib.closing(Collection(folder, limits)) as room:
            room.check()
    except (*_UNUSABLE, RecursionError) as error:
        raise unusable(f"The collection cannot be opened: {error}") from None


def _write_facts(folder: Path, facts: dict[str, Any], snapshot: str = "") -> None:
    store = Store(folder / LOG)
    try:
        for key, value in facts.items():
            store.set_fact(key, value)
        if snapshot:
            state = {"seq": 0, "next_event": 1, "n_rows": 0, "frames": [], "undoable": [], "own_names": []}
            store.keep_snapshot(Snapshot(0, snapshot, "", in_pieces(state)))
    finally:
        store.close()
