"""Settings of the service: from a TOML file, then the environment (ARMILLARY_PORT=...), then flags; the last wins."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from armillary.exceptions import InputError, ParameterError
from armillary.service.collection import Limits

PREFIX = "ARMILLARY_"
LOOPBACK = ("127.0.0.1", "::1", "localhost")


@dataclass(frozen=True)
class Settings:
    """Everything that can be set, with what it is without being set."""

    data: str = "armillary-data"
    host: str = "127.0.0.1"
    port: int = 8750
    no_auth: bool = False
    allowed_hosts: str = ""  # names by which a proxy is reached, with commas between
    certfile: str = ""
    keyfile: str = ""
    max_body_bytes: int = 64 << 20
    max_import_bytes: int = 16 << 30
    max_held_bytes: int = 1 << 30  # of the bodies of all requests that are at work
    max_batch: int = 10_000
    max_dimension: int = 16_384
    max_queue: int = 1024
    max_connections: int = 256
    rate: float = 0.0  # requests a second of one token or address; 0: any
    header_seconds: float = 10.0
    body_seconds: float = 30.0
    shutdown_seconds: float = 10.0
    snapshot_vectors: int = 100_000
    snapshot_operations: int = 20_000
    min_free_bytes: int = 64 << 20
    log_level: str = "info"

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach the server."""
        return self.host in LOOPBACK

    def limits(self) -> Limits:
        """Those of a collection."""
        return Limits(self.max_queue, self.snapshot_vectors, self.snapshot_operations, self.min_free_bytes)

    def lines(self) -> list[str]:
        """As a TOML file would have them."""
        return [f"{field.name} = {_toml(getattr(self, field.name))}" for field in fields(self)]


_TYPES: dict[str, type] = {field.name: type(field.default) for field in fields(Settings)}


def settings_from(
    file: str | None, environment: Mapping[str, str] | None = None, flags: Mapping[str, Any] | None = None
) -> Settings:
    """Settings of all three places, checked."""
    given: dict[str, Any] = {}
    if file is not None:
        given |= {name: _checked(name, value, f"'{file}'") for name, value in _of_file(file).items()}
    for key, text in (os.environ if environment is None else environment).items():
        name = key.removeprefix(PREFIX).lower()
        if key.startswith(PREFIX) and name in _TYPES:
            given[name] = _of_text(name, text, key)
    given |= {name: value for name, value in (flags or {}).items() if value is not None}
    settings = Settings(**given)
    _check(settings)
    return settings


def _of_file(file: str) -> dict[str, Any]:
    try:
        return tomllib.loads(Path(file).read_text())
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InputError(f"'{file}' must be a TOML file of settings; it cannot be read: {error}.") from None


def _checked(name: str, value: Any, where: str) -> Any:
    kind = _TYPES.get(name)
    if kind is None:
        raise ParameterError(f"{where} must hold settings of the service; it has {name!r}. --show-settings lists them.")
    if kind is float and type(value) is int:
        return float(value)
    if type(value) is not kind:
        raise ParameterError(f"`{name}` in {where} must be of type {kind.__name__}; got {value!r}.")
    return value


def _of_text(name: str, text: str, key: str) -> Any:
    kind = _TYPES[name]
    try:
        if kind is bool:
            return {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False, "": False}[
                text.lower()
            ]
        return kind(text)
    except (ValueError, KeyError):
        raise ParameterError(f"`{key}` must be of type {kind.__name__}; got {text!r}.") from None


def _check(settings: Settings) -> None:
    for name, kind in _TYPES.items():
        value = getattr(settings, name)
        if kind in (int, float) and not 0 <= value < 1 << 62:
            raise ParameterError(f"`{name}` of the service must not be below 0; got {value!r}.")
    if not 0 < settings.port < 65_536:
        raise ParameterError(f"`port` of the service must be from 1 to 65535; got {settings.port}.")
    if settings.no_auth and not settings.is_loopback:
        raise ParameterError(
            f"`no_auth` needs a host that only this machine reaches ({', '.join(LOOPBACK)}); got {settings.host!r}. "
            "Make a token: armillary token create."
        )
    if settings.log_level not in ("debug", "info", "warning", "error"):
        raise ParameterError(f"`log_level` must be debug, info, warning or error; got {settings.log_level!r}.")


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f'"{value}"' if isinstance(value, str) else str(value)
