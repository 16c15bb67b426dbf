"""Draws of labels, kept small: each as what changed since the one before, compressed.

Most rows keep their label from one sweep to the next, so a draw of 300,000 rows takes a tenth of a byte for each row
rather than four bytes. Draws come back to the bit, in order.

What is unpacked may come from a file that somebody made: a draw takes no more memory than its rows have labels, and one
that is not such a draw is refused with a sentence.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from armillary.engines.contract import Labels
from armillary.exceptions import ArchiveError

Codes: TypeAlias = npt.NDArray[np.integer[Any]]

# The first byte of a draw is how many bytes a label takes; with this added where nothing comes before it.
_IS_FIRST = 128
_WIDTHS = {1: np.uint8, 2: np.uint16, 4: np.uint32}
# The fastest level: a higher one saves a fifth and takes three times as long.
_LEVEL = 1
# No stream of zlib's unpacks to more than this many times its length.
_MOST_PACKED = 1032


def are_packed_draws(n_rows: int, packed: npt.NDArray[np.uint8], ends: npt.NDArray[np.int64], n_chains: int) -> bool:
    """Whether bytes (B,) and ends (S,) may be draws of so many chains, as far as can be told without unpacking them.

    Draws that pass take at most `_MOST_PACKED` times the bytes they come in.
    """
    starts = np.append(0, ends[:-1])
    if len(ends) == 0 or ends[-1] != len(packed) or not (starts < ends).all():
        return False
    first = packed[starts]
    widths = first & ~np.uint8(_IS_FIRST)
    is_first = np.arange(len(ends)) % (len(ends) // n_chains) == 0
    return bool(
        np.isin(widths, list(_WIDTHS)).all()
        and ((first >= _IS_FIRST) == is_first).all()
        and ((ends - starts - 1) * _MOST_PACKED >= widths.astype(np.int64) * n_rows).all()
    )


class KeptDraws:
    """S draws of the labels of N rows, none negative."""

    def __init__(self, n_rows: int, draws: Iterable[bytes] = (), *, is_checked: bool = True) -> None:
        self.n_rows = n_rows
        self._is_checked = is_checked  # False: they may be anything, and a label below N is still to be seen
        self._draws = list(draws)
        self._last: Codes | None = None  # found when asked for

    @classmethod
    def unpacked(cls, n_rows: int, packed: npt.NDArray[np.uint8], ends: npt.NDArray[np.int64]) -> KeptDraws:
        """From what `packed` gave."""
        edges = [0, *ends.tolist()]
        return cls(n_rows, (packed[start:stop].tobytes() for start, stop in pairwise(edges)), is_checked=False)

    def packed(self) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
        """All draws as bytes (B,), and where each ends (S,)."""
        ends = np.cumsum([len(draw) for draw in self._draws], dtype=np.int64)
        return np.frombuffer(b"".join(self._draws), dtype=np.uint8).copy(), ends

    def split(self, n_parts: int) -> list[KeptDraws]:
        """Equal parts, such as those of chains; each must begin with a first draw."""
        size = len(self) // n_parts
        parts = (self._draws[part * size : (part + 1) * size] for part in range(n_parts))
        return [KeptDraws(self.n_rows, draws, is_checked=self._is_checked) for draws in parts]

    @classmethod
    def joined(cls, parts: list[KeptDraws]) -> KeptDraws:
        """The draws of all, one after the other."""
        draws = (draw for part in parts for draw in part._draws)
        return cls(parts[0].n_rows, draws, is_checked=all(part._is_checked for part in parts))

    def append(self, labels: Codes) -> None:
        """Keep a draw (N,)."""
        before = self._before()
        most = int(labels.max(initial=0))
        if before is not None:
            most = max(most, int(before.max(initial=0)))
        width = next(width for width in _WIDTHS if most < 1 << 8 * width)
        code = self._last = labels.astype(_WIDTHS[width])
        if before is not None:
            code = code ^ before.astype(_WIDTHS[width], copy=False)
        first = width + (_IS_FIRST if before is None else 0)
        self._draws.append(bytes([first]) + zlib.compress(code.data, _LEVEL))

    def _before(self) -> Codes | None:
        """The draw kept last."""
        if self._last is None:
            for labels in self:
                self._last = labels
        return self._last

    def __len__(self) -> int:
        return len(self._draws)

    def __iter__(self) -> Iterator[Codes]:
        """The draws (N,), in the smallest unsigned integers."""
        labels: Codes = np.zeros(self.n_rows, dtype=np.uint8)
        for number, draw in enumerate(self._draws):
            code = _unpacked(draw, self.n_rows, number)
            labels = code if draw[0] & _IS_FIRST else labels ^ code
            if not self._is_checked and int(labels.max(initial=0)) >= max(1, self.n_rows):
                raise _damaged(number, f"a cluster of number {labels.max()} for {self.n_rows} rows")
            yield labels

    def array(self) -> npt.NDArray[np.int32]:
        """All draws (S, N)."""
        found = np.empty((len(self), self.n_rows), dtype=np.int32)
        for number, labels in enumerate(self):
            found[number] = labels
        return found


def at_home(labels: Sequence[Labels]) -> npt.NDArray[np.int32]:
    """The labels (H, N) of H chains, for the user."""
    return np.array([own.to_host() for own in labels], dtype=np.int32)


def _unpacked(draw: bytes, n_rows: int, number: int) -> Codes:
    """The code of one draw (N,); no more is unpacked than its rows take."""
    dtype = np.dtype(_WIDTHS[draw[0] & ~_IS_FIRST])
    stream = zlib.decompressobj()
    try:
        data = stream.decompress(memoryview(draw)[1:], n_rows * dtype.itemsize + 1)
    except zlib.error as error:
        raise _damaged(number, f"bytes that do not unpack ({error})") from error
    if len(data) != n_rows * dtype.itemsize or not stream.eof:
        raise _damaged(number, f"something else than {n_rows} labels")
    return np.frombuffer(data, dtype=dtype)


def _damaged(number: int, came: str) -> ArchiveError:
    return ArchiveError(
        f"Draw {number} of a model must hold a cluster for each of its rows; it holds {came}. Fit again, or fetch the "
        "model's file again from where it came."
    )
