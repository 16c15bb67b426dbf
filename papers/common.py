"""What the scripts of all papers share: where recorded data is, progress, and numbers that are ready for JSON."""

from __future__ import annotations

import math
import os
import platform
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import sklearn
from rich.console import Console
from rich.progress import track as rich_track

import armillary

T = TypeVar("T")

CONSOLE = Console()
NO_DATA = "ARMILLARY_SHARED_DATA does not name a data folder"


def shared_data() -> Path | None:
    """The folder with recorded data, where there is one."""
    named = os.environ.get("ARMILLARY_SHARED_DATA")
    return Path(named) if named and Path(named).is_dir() else None


def temporary_folder(paper: Path) -> Path:
    """Where results go that are not worth keeping beside the script."""
    return Path(tempfile.gettempdir()) / "armillary-papers" / paper.name


def track(items: Iterable[T], word: str) -> Iterable[T]:
    """A progress bar."""
    return rich_track(list(items), description=word, console=CONSOLE, transient=True)


def versions() -> dict[str, str]:
    """Of what the results depend on."""
    return {
        "python": platform.python_version(),
        "armillary": armillary.__version__,
        "numpy": np.__version__,
        "scikit-learn": sklearn.__version__,
    }


def clean(value: Any) -> Any:
    """Ready for JSON: numbers with six digits, None for what is not a number."""
    if isinstance(value, dict):
        return {key: clean(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [clean(item) for item in value]
    if isinstance(value, float):
        return None if math.isnan(value) else float(f"{value:.6g}")
    return value
