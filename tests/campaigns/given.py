"""What the calls of a campaign are given: rows in every holder, weights, and values that nobody should pass.

Everything is a function of the trial's generator. Rows have few columns and few kinds, so that a process compiles each
kernel once.
"""

from __future__ import annotations

import datetime
import decimal
import fractions
import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import scipy.sparse as sp

Random = np.random.Generator

# Holders and values that are not drawn, by name: for a hunt beside a fault that is known.
SKIPPED: frozenset[str] = frozenset()

_FOLDER = tempfile.TemporaryDirectory(prefix="armillary-campaign-")
DIMENSIONS = (2, 3, 3, 5, 8, 8, 20)


def folder() -> Path:
    """A folder of this process, for memory maps and files: processes of a campaign are forked from one."""
    own = Path(_FOLDER.name) / str(os.getpid())
    own.mkdir(exist_ok=True)
    return own


def one_of(random: Random, choices: Any) -> Any:
    """An entry of a sequence, as it is."""
    return choices[int(random.integers(len(choices)))]


@dataclass
class Rows:
    """Rows to give: `value` as they are held, `dense` as numbers where there are any.

    `is_plain`: three directions or so, each with many rows around it, which every model must take.
    """

    value: Any
    dense: np.ndarray | None
    what: str
    is_plain: bool = False

    @property
    def n_rows(self) -> int | None:
        return None if self.dense is None else len(self.dense)


# ------------------------------------------------------------------------------------------------------- numbers


def plain(random: Random, n_features: int) -> np.ndarray:
    """Rows around a few directions, of various lengths."""
    centers = np.eye(3, n_features) + 0.1 * random.normal(size=(3, n_features))
    made = centers[random.integers(3, size=int(random.integers(12, 60)))]
    made = made + 0.15 * random.normal(size=made.shape)
    return made * random.uniform(0.5, 3.0, size=(len(made), 1)) if random.random() < 0.5 else unit(made)


def unit(rows: np.ndarray) -> np.ndarray:
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def counts(random: Random, n_features: int) -> np.ndarray:
    """Documents: whole numbers, none without a word."""
    made = random.poisson(one_of(random, (0.4, 2.0)), size=(int(random.integers(12, 60)), n_features)).astype(float)
    made[np.arange(len(made)), random.integers(n_features, size=len(made))] += 1.0
    return made


def _spoiled(value: float) -> Callable[[Random, int], np.ndarray]:
    def make(random: Random, n_features: int) -> np.ndarray:
        made = plain(random, n_features)
        made[random.integers(len(made)), random.integers(n_features)] = value
        return made

    return make


def _zero_row(random: Random, n_features: int) -> np.ndarray:
    made = plain(random, n_features)
    made[random.integers(len(made))] = 0.0
    return made


def _lengths(random: Random, n_features: int) -> np.ndarray:
    made = unit(plain(random, n_features))
    with np.errstate(under="ignore", over="ignore"):
        return made * 10.0 ** random.uniform(-307, 307, size=(len(made), 1))


NUMBERS: dict[str, Callable[[Random, int], np.ndarray]] = {
    "duplicates": lambda random, d: plain(random, d)[random.integers(3, size=int(random.integers(3, 40)))],
    "equal rows": lambda random, d: np.repeat(plain(random, d)[:1], int(random.integers(2, 20)), axis=0),
    "antipodes": lambda random, d: np.vstack([rows := unit(plain(random, d)), -rows]),
    "one row": lambda random, d: plain(random, d)[:1],
    "two rows": lambda random, d: plain(random, d)[:2],
    "four rows": lambda random, d: plain(random, d)[:4],
    "axes": lambda random, d: np.eye(d)[random.integers(d, size=int(random.integers(1, 40)))],
    "both ends of axes": lambda random, d: np.vstack([np.eye(d), -np.eye(d)]),
    "uniform": lambda random, d: random.normal(size=(int(random.integers(2, 60)), d)),
    "nearly equal": lambda random, d: np.ones((9, d)) + 1e-9 * random.normal(size=(9, d)),
    "nearly antipodal": lambda random, d: (
        np.ones((10, d)) * np.repeat([1, -1], 5)[:, None] + 1e-12 * random.normal(size=(10, d))
    ),
    "tiny": lambda random, d: plain(random, d) * 1e-310,
    "huge": lambda random, d: plain(random, d) * 1e300,
    "lengths": _lengths,
    "counts": counts,
    "ones": lambda random, d: np.ones((5, d)),
    "a zero row": _zero_row,
    "zeros": lambda random, d: np.zeros((4, d)),
    "nan": _spoiled(np.nan),
    "inf": _spoiled(np.inf),
    "-inf": _spoiled(-np.inf),
    "1e300": _spoiled(1e300),
    "1e-310": _spoiled(1e-310),
    "no rows": lambda random, d: np.empty((0, d)),
    "one column": lambda random, d: np.ones((6, 1)),
    "no columns": lambda random, d: np.empty((6, 0)),
    "wide": lambda random, d: plain(random, 300),
}

# ------------------------------------------------------------------------------------------------------- holders


class _Subclass(np.ndarray):
    pass


def _memmap(rows: np.ndarray) -> np.ndarray:
    path = folder() / "rows.npy"
    path.unlink(missing_ok=True)  # a map of an earlier trial keeps its own file
    np.save(path, rows)
    return np.load(path, mmap_mode="r")


def _read_only(rows: np.ndarray) -> np.ndarray:
    rows = rows.copy()
    rows.flags.writeable = False
    return rows


def _wide_indices(rows: np.ndarray) -> sp.csr_array:
    csr = sp.csr_array(rows)
    csr.indices, csr.indptr = csr.indices.astype(np.int64), csr.indptr.astype(np.int64)
    return csr


def _unsorted(rows: np.ndarray) -> sp.csr_array:
    csr = sp.csr_array(rows)
    for row in range(csr.shape[0]):
        part = slice(csr.indptr[row], csr.indptr[row + 1])
        csr.indices[part], csr.data[part] = csr.indices[part][::-1].copy(), csr.data[part][::-1].copy()
    csr.has_sorted_indices = False
    return csr


def _split_entries(rows: np.ndarray) -> sp.coo_array:
    coo = sp.coo_array(rows)
    return sp.coo_array(
        (np.tile(coo.data / 2, 2), (np.tile(coo.coords[0], 2), np.tile(coo.coords[1], 2))), shape=coo.shape
    )


def _stored_zeros(rows: np.ndarray) -> sp.csr_array:
    n, d = rows.shape
    return sp.csr_array((rows.ravel().copy(), np.tile(np.arange(d), n), np.arange(n + 1) * d), shape=(n, d))


# The same float64 numbers, held otherwise: fits must be equal to the bit.
DENSE: dict[str, Callable[[np.ndarray], Any]] = {
    "C": np.array,
    "F": np.asfortranarray,
    "every other row": lambda rows: np.repeat(rows, 2, axis=0)[::2],
    "every other column": lambda rows: np.repeat(rows, 2, axis=1)[:, ::2],
    "reversed": lambda rows: rows[::-1].copy()[::-1],
    "reversed columns": lambda rows: rows[:, ::-1].copy()[:, ::-1],
    "read-only": _read_only,
    "memory map": _memmap,
    "swapped bytes": lambda rows: rows.astype(">f8"),
    "list": lambda rows: rows.tolist(),
    "tuple of arrays": tuple,
    "objects": lambda rows: rows.astype(object),
    "subclass": lambda rows: rows.copy().view(_Subclass),
    "masked array": np.ma.asarray,
    "pandas": lambda rows: pd.DataFrame(rows),
    "named pandas": lambda rows: pd.DataFrame(rows, columns=[f"c{i}" for i in range(rows.shape[1])]),
    "polars": lambda rows: pl.DataFrame(rows, schema=[f"c{i}" for i in range(rows.shape[1])], orient="row"),
    "matrix": np.matrix,
}
SPARSE: dict[str, Callable[[np.ndarray], Any]] = {
    "CSR": sp.csr_array,
    "CSR matrix": sp.csr_matrix,
    "CSC": sp.csc_array,
    "COO": sp.coo_matrix,
    "LIL": sp.lil_array,
    "DOK": sp.dok_array,
    "BSR": sp.bsr_array,
    "wide indices": _wide_indices,
    "unsorted": _unsorted,
    "stored zeros": _stored_zeros,
    "split entries": _split_entries,
}


def _cast(dtype: str) -> Callable[[np.ndarray], np.ndarray]:
    def cast(rows: np.ndarray) -> np.ndarray:
        with np.errstate(all="ignore"):
            return rows.astype(dtype)

    return cast


# Other numbers: narrower ones round, and may overflow or vanish.
OTHER_DTYPES: dict[str, Callable[[np.ndarray], Any]] = {
    **{dtype: _cast(dtype) for dtype in ("f4", "f4", "f2", ">f4", "longdouble", "i8", "i4", "u1", "i1", "?")},
    "f4 CSR": lambda rows: sp.csr_array(_cast("f4")(rows)),
    "i8 CSR": lambda rows: sp.csr_array(_cast("i8")(rows)),
}

# ------------------------------------------------------------------------------------------------- what is broken


def _broken_csr(change: Callable[[sp.csr_array, Random], None]) -> Callable[[Random, int], Any]:
    def make(random: Random, n_features: int) -> Any:
        csr = sp.csr_array(plain(random, n_features))
        change(csr, random)
        return csr

    return make


def _set(name: str, where: Callable[[np.ndarray, Random], int], what: int) -> Callable[[sp.csr_array, Random], None]:
    def change(csr: sp.csr_array, random: Random) -> None:
        array = getattr(csr, name).copy()
        array[where(array, random)] = what
        setattr(csr, name, array)

    return change


def _cut(name: str) -> Callable[[sp.csr_array, Random], None]:
    def change(csr: sp.csr_array, random: Random) -> None:
        setattr(csr, name, getattr(csr, name)[: int(random.integers(len(getattr(csr, name))))])

    return change


def _flagged_duplicates(csr: sp.csr_array, random: Random) -> None:
    csr.indices = csr.indices.copy()
    csr.indices[:2] = 0
    csr.has_canonical_format = True


def _lying_shape(csr: sp.csr_array, random: Random) -> None:
    csr._shape = (csr.shape[0] + int(random.integers(1, 1000)), csr.shape[1])


def _bad_coo(random: Random, n_features: int) -> Any:
    coo = sp.coo_array(plain(random, n_features))
    coo.coords[int(random.integers(2))][random.integers(coo.nnz)] = one_of(random, (-1, 10**6))
    return coo


def _bad_csc(random: Random, n_features: int) -> Any:
    csc = sp.csc_array(plain(random, n_features))
    csc.indices[random.integers(csc.nnz)] = one_of(random, (-1, 10**6))
    return csc


def _any(array: np.ndarray, random: Random) -> int:
    return int(random.integers(len(array)))


BROKEN_STRUCTURE: dict[str, Callable[[Random, int], Any]] = {
    "a row pointer far out": _broken_csr(_set("indptr", lambda a, r: int(r.integers(1, len(a) - 1)), 10**8)),
    "a negative first pointer": _broken_csr(_set("indptr", lambda a, r: 0, -3)),
    "a negative pointer": _broken_csr(_set("indptr", _any, -1)),
    "a last pointer too large": _broken_csr(_set("indptr", lambda a, r: -1, 10**7)),
    "a column out of range": _broken_csr(_set("indices", _any, 10**6)),
    "a negative column": _broken_csr(_set("indices", _any, -1)),
    "short pointers": _broken_csr(_cut("indptr")),
    "short columns": _broken_csr(_cut("indices")),
    "short data": _broken_csr(_cut("data")),
    "duplicates said to be none": _broken_csr(_flagged_duplicates),
    "a shape that lies": _broken_csr(_lying_shape),
    "COO out of range": _bad_coo,
    "CSC out of range": _bad_csc,
}


def _odd_frame(random: Random, n_features: int) -> Any:
    frame = pd.DataFrame(plain(random, n_features))
    frame[0] = one_of(random, ("text", None, pd.NA, datetime.date(2020, 1, 1)))
    return frame


def _with_object(value: Any) -> Callable[[Random, int], Any]:
    def make(random: Random, n_features: int) -> Any:
        rows = plain(random, n_features).astype(object)
        rows[random.integers(len(rows)), random.integers(n_features)] = value
        return rows

    return make


BROKEN: dict[str, Callable[[Random, int], Any]] = {
    "None": lambda random, d: None,
    "a word": lambda random, d: "rows",
    "a number": lambda random, d: 3.0,
    "an empty list": lambda random, d: [],
    "a list of an empty list": lambda random, d: [[]],
    "one vector": lambda random, d: plain(random, d)[0],
    "three axes": lambda random, d: np.ones((2, 3, d)),
    "ragged": lambda random, d: [[1.0] * d, [1.0] * (d + 1)],
    "complex": lambda random, d: plain(random, d) * 1j,
    "words": lambda random, d: np.full((5, d), "1.0"),
    "dates": lambda random, d: np.full((5, d), np.datetime64("2020-01-01")),
    "structured": lambda random, d: np.zeros(5, dtype=[("a", "f8"), ("b", "f8")]),
    "a set": lambda random, d: {1.0, 2.0},
    "a dict": lambda random, d: {"a": [1.0]},
    "a generator": lambda random, d: (row for row in plain(random, d)),
    "a function": lambda random, d: print,
    "masked": lambda random, d: np.ma.masked_less(plain(random, d), 0.2),
    "odd frame": _odd_frame,
    "None inside": _with_object(None),
    "a word inside": _with_object("word"),
    "a list inside": _with_object([1, 2]),
    "complex inside": _with_object(1j),
    "10**400 inside": _with_object(10**400),
    "1-D sparse": lambda random, d: sp.coo_array(np.ones(d)),
    "complex CSR": lambda random, d: sp.csr_array(plain(random, d) * 1j),
    "an empty CSR": lambda random, d: sp.csr_array((0, d)),
    "a CSR without values": lambda random, d: sp.csr_array((5, d)),
}


def _drawn(random: Random, table: dict[str, Any]) -> tuple[str, Any]:
    names = [name for name in table if name not in SKIPPED]
    name = one_of(random, names)
    return name, table[name]


def some_rows(random: Random, n_features: int, *, are_counts: bool = False, is_wide: bool = True) -> Rows:
    """Rows of any kind: good ones in three of four cases; with many columns at times, where `is_wide`."""
    chance = random.random()
    if chance < 0.05:
        what, make = _drawn(random, BROKEN)
        return Rows(make(random, n_features), None, what)
    if chance < 0.08 and any(name not in SKIPPED for name in BROKEN_STRUCTURE):
        what, make = _drawn(random, BROKEN_STRUCTURE)
        return Rows(make(random, n_features), None, what)
    if chance < 0.3:
        what, make = _drawn(random, NUMBERS)
        make = make if is_wide or what != "wide" else plain
        dense = make(random, n_features)
        is_plain = False
    else:
        what, is_plain = "plain", True
        dense = counts(random, n_features) if are_counts else plain(random, n_features)
    return held(random, dense, what, is_plain=is_plain)


def held(random: Random, dense: np.ndarray, what: str, *, is_plain: bool) -> Rows:
    """The rows in some holder."""
    chance = random.random()
    if chance < 0.15:
        holder, hold = _drawn(random, OTHER_DTYPES)
        value = hold(dense)
        seen = value.toarray() if sp.issparse(value) else np.asarray(value)
        with np.errstate(all="ignore"):
            # rounding may leave rows of zeros
            return Rows(value, seen.astype(np.float64), f"{what}, {holder}", is_plain and holder in ("f4", ">f4"))
    holder, hold = _drawn(random, DENSE if chance < 0.7 else SPARSE)
    try:
        return Rows(hold(dense), dense, f"{what}, {holder}", is_plain)
    except ValueError:  # no such matrix exists, as one of no columns in some formats
        return Rows(dense, dense, what, is_plain)


def some_weights(random: Random, n_rows: int | None) -> tuple[Any, bool]:
    """`sample_weight`, and whether it is good."""
    n = 10 if n_rows is None else n_rows
    if random.random() < 0.6:
        return None, True
    if random.random() < 0.6:
        good = random.uniform(0.1, 2.0, size=n)
        holders = (good, good.tolist(), good.astype(np.float32), good.astype(object), 2.0, pd.Series(good))
        return one_of(random, holders), True
    return _drawn(random, _WEIGHTS)[1](random, n), False


def _one(value: float) -> Callable[[Random, int], np.ndarray]:
    def make(random: Random, n: int) -> np.ndarray:
        weights = np.ones(n)
        weights[random.integers(max(1, n)) :][:1] = value
        return weights

    return make


_WEIGHTS: dict[str, Callable[[Random, int], Any]] = {
    "zeros": lambda random, n: np.zeros(n),
    "some zeros": lambda random, n: random.integers(0, 2, size=n),
    "one positive": lambda random, n: np.eye(1, max(n, 1))[0][:n],
    "one negative": _one(-1.0),
    "one nan": _one(np.nan),
    "one inf": _one(np.inf),
    "one of 1e300": _one(1e300),
    "one of 1e-310": _one(1e-310),
    "all of 1e-310": lambda random, n: np.full(n, 1e-310),
    "all of 1e300": lambda random, n: np.full(n, 1e300),
    "all of 1e12": lambda random, n: np.full(n, 1e12),
    "too many": lambda random, n: np.ones(n + 1),
    "two axes": lambda random, n: np.ones((n, 2)),
    "words": lambda random, n: ["a"] * n,
    "None inside": lambda random, n: [None] * n,
    "a word": lambda random, n: "balanced",
    "complex": lambda random, n: np.ones(n) * 1j,
    "bools": lambda random, n: np.ones(n, dtype=bool),
    "10**400 weights": lambda random, n: [10**400] * n,
}

# ------------------------------------------------------------------------------------------------------ one value

_NOBODY = object()
HOSTILE: tuple[Any, ...] = (
    None,
    True,
    False,
    -1,
    0,
    1.5,
    -0.5,
    np.nan,
    np.inf,
    -np.inf,
    10**30,
    -(10**30),
    "word",
    "",
    b"bytes",
    [],
    [1, 2],
    ["a"],
    {},
    {1, 2},
    np.array([]),
    np.array(np.nan),
    np.array([1.0, 2.0]),
    np.array("a"),
    np.ones((2, 2, 2)),
    np.float32("nan"),
    np.int64(-5),
    np.bool_(True),
    1e-310,
    1e300,
    3 + 4j,
    decimal.Decimal("NaN"),
    fractions.Fraction(1, 3),
    datetime.date(2020, 1, 1),
    range(3),
    (),
    int,
    _NOBODY,
)
HUGE = (10**400, 2**62, 2**63)


def hostile(random: Random, *, is_count: bool = False) -> Any:
    """A value of a kind that is hardly ever meant. Counts of steps are spared whole numbers that would only be slow."""
    if is_count or random.random() < 0.9:
        value = one_of(random, HOSTILE)
        return -1 if is_count and isinstance(value, int) and value > 1 else value
    return one_of(random, HUGE)
