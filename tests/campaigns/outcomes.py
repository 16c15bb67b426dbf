"""One call and what came of it: an answer, or a sentence. Everything else is a fault."""

from __future__ import annotations

import dataclasses
import hashlib
import warnings
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning, NotFittedError

from armillary.exceptions import ArmillaryError


class FaultError(AssertionError):
    """What must not come of a call."""


class Sentence:
    """What came in place of an answer."""

    def __init__(self, error: BaseException) -> None:
        self.error = error


class Calls:
    """The calls of one trial: each is made, judged and counted."""

    def __init__(self) -> None:
        self.outcomes: Counter[str] = Counter()

    def make(
        self, what: str, function: Callable[..., Any], *arguments: Any, may_raise: tuple[type, ...] = (), **named: Any
    ) -> Any:
        """The answer, or a `Sentence`. What was given is looked at before and after: no call may change it."""
        before = fingerprint((arguments, named))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                answer: Any = function(*arguments, **named)
            except (ArmillaryError, NotFittedError, *may_raise) as error:
                answer = Sentence(error)
                _judge_sentence(what, error)
            except Exception as error:
                raise FaultError(f"{what}({told(arguments, named)}): a raw {type(error).__name__}: {error}") from error
        for warning in caught:
            if warning.category not in (ConvergenceWarning, UserWarning) or len(str(warning.message)) < 30:
                raise FaultError(f"{what}({told(arguments, named)}): {warning.category.__name__}: {warning.message}")
        if fingerprint((arguments, named)) != before:
            raise FaultError(f"{what}({told(arguments, named)}): changed what it was given")
        self.outcomes["sentence" if isinstance(answer, Sentence) else "answer"] += 1
        return answer


def _judge_sentence(what: str, error: BaseException) -> None:
    """A sentence begins with a word, ends with a stop, and names something the caller wrote."""
    message = str(error)
    if len(message.split()) < 5 or not message.rstrip().endswith((".", ")", "'", "!", "?")):
        raise FaultError(f"{what}: no sentence: {type(error).__name__}: {message!r}") from error


def told(arguments: tuple[Any, ...], named: Mapping[str, Any]) -> str:
    """What was given, in short."""
    words = [_short(value) for value in arguments] + [f"{name}={_short(value)}" for name, value in named.items()]
    return ", ".join(words)


def _short(value: Any) -> str:
    words = " ".join(repr(value).split())
    return words if len(words) < 120 else f"{words[:110]}... {type(value).__name__} {getattr(value, 'shape', '')}"


# ------------------------------------------------------------------------------------------------- fingerprints


def fingerprint(value: Any) -> str:
    """Equal for equal bits, whatever holds them."""
    digest = hashlib.blake2b(digest_size=16)
    _feed(digest.update, value)
    return digest.hexdigest()


def _feed(update: Callable[[bytes], None], value: Any) -> None:
    update(type(value).__name__.encode())
    if isinstance(value, np.ndarray):
        array = np.ma.getdata(value) if isinstance(value, np.ma.MaskedArray) else value
        update(f"{array.dtype}{array.shape}".encode())
        update(repr(array.tolist()).encode() if array.dtype.hasobject else np.ascontiguousarray(array).tobytes())
    elif sp.issparse(value):
        for name in ("data", "indices", "indptr", "offsets", "rows"):
            _feed(update, getattr(value, name, None))
        _feed(update, value.coords if value.format == "coo" else None)
        _feed(update, sorted(value.items()) if value.format == "dok" else None)
    elif isinstance(value, pd.DataFrame | pd.Series | pl.DataFrame):
        update(repr(value.to_numpy().tolist()).encode())
    elif isinstance(value, Mapping):
        for key in value:
            _feed(update, key)
            _feed(update, value[key])
    elif isinstance(value, list | tuple | set | frozenset):
        for part in value:
            _feed(update, part)
    elif isinstance(value, float | int | str | bytes | bool | complex | np.generic | None):
        update(repr(value).encode())


# ------------------------------------------------------------------------------------------------------- answers


def are_finite(value: Any) -> bool:
    """Whether every number in an answer is finite, however deep it lies."""
    if isinstance(value, float | complex | np.inexact):
        return bool(np.isfinite(value))
    if isinstance(value, np.ndarray):
        return value.dtype.kind not in "fc" or bool(np.isfinite(value).all())
    if sp.issparse(value):
        return bool(np.isfinite(value.data).all())
    if isinstance(value, Mapping):
        return all(are_finite(part) for part in value.values())
    if isinstance(value, list | tuple):
        return all(are_finite(part) for part in value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return all(are_finite(getattr(value, field.name)) for field in dataclasses.fields(value))
    return True
