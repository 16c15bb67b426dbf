"""What the service refuses, and with which status of HTTP."""

from __future__ import annotations

from typing import Any

from armillary.exceptions import ArmillaryError


class ServiceError(ArmillaryError):
    """A request that is not done; `status` is that of HTTP, `facts` go with the sentence."""

    def __init__(self, status: int, sentence: str, **facts: Any) -> None:
        super().__init__(sentence)
        self.status = status
        self.facts = facts

    def body(self) -> dict[str, Any]:
        """As the answer has it."""
        return {"error": str(self), **self.facts}


class LaterVersionError(ServiceError):
    """A file of a later release, which only that can read."""


def unusable(sentence: str, **facts: Any) -> ServiceError:
    """422: understood, and not to be done."""
    return ServiceError(422, sentence, **facts)


def absent(what: str, way_out: str) -> ServiceError:
    """404."""
    return ServiceError(404, f"{what} is not here. {way_out}")
