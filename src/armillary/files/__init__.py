"""Vectors and texts from files, and folders of results written whole or not at all. Names are imported on first use."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from armillary.files.documents import Documents, read_documents
    from armillary.files.folders import whole_folder
    from armillary.files.spreadsheets import restored
    from armillary.files.vectors import Vectors, read_vectors
    from armillary.files.words import read_labels
    from armillary.files.write import write_vectors

_HOMES = {
    "Documents": "documents",
    "Vectors": "vectors",
    "read_documents": "documents",
    "read_labels": "words",
    "read_vectors": "vectors",
    "restored": "spreadsheets",
    "whole_folder": "folders",
    "write_vectors": "write",
}

__all__ = [
    "Documents",
    "Vectors",
    "read_documents",
    "read_labels",
    "read_vectors",
    "restored",
    "whole_folder",
    "write_vectors",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(f"armillary.files.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'armillary.files' has no attribute {name!r}")
