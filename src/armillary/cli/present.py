"""Rows that cannot be clustered (NaN, infinite, all zero): left out, labelled -1 and counted, in one line."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from armillary.cli.screen import Screen
from armillary.exceptions import InputError, ParameterError
from armillary.points import as_points
from armillary.selection.counting import counted
from armillary.sources.stored import StoredRows
from armillary.validation import has_direction

WAYS = ("flag", "raise")

Presence = npt.NDArray[np.bool_] | None


def check_missing(missing: str) -> str:
    """The option --missing."""
    if missing not in WAYS:
        raise ParameterError(f"--missing must be flag or raise; got '{missing}'. flag gives bad rows the label -1.")
    return missing


def present_rows(
    rows: Any, missing: str, screen: Screen, *, are_words: bool = False, is_placed: bool = False
) -> Presence:
    """Which rows (n,) can be clustered, and a line about the others; None: all of them, or whatever the model says.

    New texts that are placed (`is_placed`) may all have other words than those that were learned. Rows on disk are read
    once for this.
    """
    if check_missing(missing) == "raise":
        return None
    is_here = _looked_at(rows, screen) if isinstance(rows, StoredRows) else has_direction(rows)
    if is_here.all():
        return None
    bad = np.flatnonzero(~is_here)
    say_missing(screen, len(bad), len(is_here), int(bad[0]), are_words=are_words)
    if len(bad) == len(is_here) and not (are_words and is_placed):
        raise InputError(f"A row with a direction is needed; all {len(bad):,} are empty, NaN or zero. Check the file.")
    return is_here


def _looked_at(rows: StoredRows, screen: Screen) -> npt.NDArray[np.bool_]:
    with screen.timed("reading"), screen.progress("looking for rows without a direction", None, "rows"):
        return as_points(rows, "armillary").have_direction()


def those_here(rows: Any, is_here: Presence) -> Any:
    """The rows that can be clustered, where they are: in memory, or on disk."""
    if is_here is None:
        return rows
    return rows.only(is_here) if isinstance(rows, StoredRows) else rows[np.flatnonzero(is_here)]


def say_missing(screen: Screen, n_bad: int, n_rows: int, first: int, *, are_words: bool = False) -> None:
    """The one line; `are_words` of texts whose words are weighed."""
    have, they = ("has", "it gets") if n_bad == 1 else ("have", "they get")
    which = f"row {first:,}" if n_bad == 1 else f"the first is row {first:,}"
    lack = "no direction (empty, NaN, infinite or all zero)"
    if are_words:
        lack = (
            "none of the words that are weighed (or are empty)" if n_bad > 1 else "none of the words that are weighed"
        )
    screen.warn(
        f"{n_bad:,} of {counted(n_rows, 'text' if are_words else 'row')} {have} {lack}, {which}, counted from 0: "
        f"{they} the label -1."
    )


def spread_labels(labels: npt.NDArray[Any], is_here: Presence) -> npt.NDArray[Any]:
    """Labels of the rows that are here (m,), for all (n,): -1 for the others."""
    if is_here is None:
        return labels
    spread = np.full(len(is_here), -1, dtype=labels.dtype)
    spread[is_here] = labels
    return spread
