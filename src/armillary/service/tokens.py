"""Tokens: who may read, write or administer.

Only their SHA-256 is kept: a token is 256 bits of chance, so no slower hash is needed, and whoever reads the file
cannot use it.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import secrets
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from armillary.durable.locks import held
from armillary.durable.whole import whole_file
from armillary.exceptions import InputError

SCOPES = ("read", "write", "admin")  # each may do what those before it may
FILE = "tokens.json"
_PREFIX = "arm_"


@dataclass(frozen=True)
class Token:
    """What is kept of one."""

    name: str
    scope: str
    sha256: str
    created: str


def may(scope: str, needed: str) -> bool:
    """Whether a scope is enough."""
    return SCOPES.index(scope) >= SCOPES.index(needed)


class Tokens:
    """The tokens of a data folder; read again when the file changes."""

    def __init__(self, data: Path) -> None:
        self.path = data / FILE
        self._stamp: tuple[int, int] | None = None
        self._known: list[Token] = []

    def all(self) -> list[Token]:
        """Those that hold now."""
        try:
            status = os.stat(self.path)
        except FileNotFoundError:
            self._stamp, self._known = None, []
            return self._known
        stamp = (status.st_mtime_ns, status.st_ino)
        if stamp != self._stamp:
            self._known = _read(self.path)
            self._stamp = stamp
        return self._known

    def holder(self, given: str) -> Token | None:
        """Whose token this is; the time it takes tells nothing of how near it came."""
        digest = hashlib.sha256(given.encode("utf-8", "surrogateescape")).hexdigest()
        found = None
        for token in self.all():
            if hmac.compare_digest(token.sha256, digest):
                found = token
        return found

    def create(self, name: str, scope: str) -> str:
        """A new token, which is not seen again."""
        if scope not in SCOPES:
            raise InputError(f"--scope must be one of {', '.join(SCOPES)}; got {scope!r}.")
        if not name or len(name) > 64 or not name.isprintable():
            raise InputError(f"The name of a token must have 1 to 64 printable characters; got {name!r}.")
        secret = _PREFIX + secrets.token_urlsafe(32)
        created = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        fresh = Token(name, scope, hashlib.sha256(secret.encode()).hexdigest(), created)
        self._change(lambda known: _with(known, fresh))
        return secret

    def revoke(self, name: str) -> None:
        """From now on this token is none."""

        def without(known: list[Token]) -> list[Token]:
            if all(token.name != name for token in known):
                raise InputError(f"There is no token {name!r}; there are {', '.join(t.name for t in known) or 'none'}.")
            return [token for token in known if token.name != name]

        self._change(without)

    def _change(self, change) -> None:  # type: ignore[no-untyped-def]
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with held(self.path, f"'{self.path}'", "Choose another folder for --data."):
            known = change(list(self.all()))
            with whole_file(self.path) as stream:
                os.chmod(stream.name, 0o600)
                _give_to_owner(stream.name, self.path.parent)
                stream.write(json.dumps({"tokens": [asdict(token) for token in known]}, indent=1).encode())
            os.chmod(self.path, 0o600)


def _give_to_owner(file: str, folder: Path) -> None:
    """What root makes in the folder of a service is for its user, who could not read it otherwise."""
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        status = os.stat(folder)
        os.chown(file, status.st_uid, status.st_gid)


def _with(known: list[Token], fresh: Token) -> list[Token]:
    if any(token.name == fresh.name for token in known):
        raise InputError(f"There is a token {fresh.name!r} already. Revoke it, or choose another name.")
    return [*known, fresh]


def _read(path: Path) -> list[Token]:
    try:
        return [Token(**token) for token in json.loads(path.read_text())["tokens"]]
    except PermissionError as error:
        raise InputError(f"'{path}' must be readable by the user of the server: {error.strerror}. chown it.") from error
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"'{path}' must be a file that armillary token wrote; it is not: {error}.") from None
