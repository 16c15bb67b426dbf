"""Vectors of texts, kept in the user's cache folder: under a digest, for their owner alone, and no texts.

Vectors tell much of what their texts say, so the folder has mode 0700 and files 0600.
"""

from __future__ import annotations

import contextlib
import os
import warnings
from pathlib import Path

import numpy as np
import numpy.typing as npt

from armillary.durable.whole import whole_file
from armillary.exceptions import CacheWarning

_OWNER_ONLY, _OWNER_FILE = 0o700, 0o600


def cache_folder() -> Path:
    """$ARMILLARY_CACHE_DIR, or armillary in the cache folder of the user."""
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(os.environ.get("ARMILLARY_CACHE_DIR") or os.path.join(home, "armillary"), "vectors-of-texts")


def kept(key: str, n_rows: int) -> npt.NDArray[np.float32] | None:
    """The vectors under a key; None where there are none, or none that can be used."""
    path = cache_folder() / f"{key}.npy"
    with contextlib.suppress(OSError, ValueError, EOFError):
        rows = np.load(path, allow_pickle=False)
        if rows.ndim == 2 and rows.dtype == np.float32 and len(rows) == n_rows and np.isfinite(rows).all():
            return np.asarray(rows)
    return None


def keep(key: str, rows: npt.NDArray[np.float32]) -> None:
    """Put vectors under a key. A place that cannot be written ends no run: a warning says so."""
    folder = cache_folder()
    try:
        folder.mkdir(mode=_OWNER_ONLY, parents=True, exist_ok=True)
        folder.chmod(_OWNER_ONLY)
        with whole_file(folder / f"{key}.npy", "embed_texts") as stream:
            os.chmod(stream.name, _OWNER_FILE)  # before the first number is in it
            np.lib.format.write_array(stream, rows, allow_pickle=False)
    except OSError as error:
        warnings.warn(
            f"The vectors of the texts cannot be kept in '{folder}' ({error.strerror}); they are made again the next "
            "time. Choose another place by ARMILLARY_CACHE_DIR.",
            CacheWarning,
            stacklevel=3,
        )
