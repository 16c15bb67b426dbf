"""What a long fit tells of its steps, so that one that was broken off goes on from the last."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol


class Memory(Protocol):
    """Arrays and numbers under names, that may outlive a process."""

    def get(self, name: str) -> Mapping[str, Any] | None:
        """What was put last under this name; None where nothing was."""

    def put(self, name: str, **values: Any) -> None:
        """Remember these, in the place of what there was."""


class _NoMemory:
    """Remembers nothing."""

    def get(self, name: str) -> Mapping[str, Any] | None:
        """Nothing."""

    def put(self, name: str, **values: Any) -> None:
        """Nothing."""


NO_MEMORY = _NoMemory()
