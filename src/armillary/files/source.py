"""Where bytes come from: a file, a compressed file or standard input, with a name for sentences."""

from __future__ import annotations

import bz2
import codecs
import gzip
import io
import lzma
import os
import sys
import tokenize
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from armillary.exceptions import InputError
from armillary.files.formats import COMPRESSED, check_format, format_of, sniffed
from armillary.files.sizes import unpacked
from armillary.validation import check_path

_OPEN: dict[str, Callable[[Path], Any]] = dict(zip(COMPRESSED, (gzip.open, bz2.open, lzma.open), strict=True))
_LONGEST_REASON = 200  # letters of what a library says, which may hold the content itself
FETCH_AGAIN = "Fetch it again from where it came."
# what libraries raise over content that is not what it should be
_COMPLAINTS = (
    ValueError,
    TypeError,
    LookupError,
    AttributeError,
    ArithmeticError,
    EOFError,
    OSError,
    RuntimeError,
    SyntaxError,
    tokenize.TokenError,
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
)


@dataclass(frozen=True)
class Source:
    """A file on disk, or bytes that are in memory because they came from a pipe or were compressed."""

    name: str  # as the user wrote it, in quotes
    format: str
    path: Path
    content: bytes | None = None

    @classmethod
    def of(cls, path: str | os.PathLike[str], format: str | None = None) -> Source:
        """The source at `path`, "-" for standard input; the format by its ending or first bytes where none is given."""
        given = check_path(path, "read_vectors")
        if format is not None:
            check_format(format)
        if given == "-":
            if sys.stdin.isatty():
                raise InputError("Standard input must be a pipe or a file; it is a terminal. Name a file of vectors.")
            content = sys.stdin.buffer.read()
            if not content:
                raise InputError("Standard input must hold vectors; it is empty. Check the command before the pipe.")
            return cls("standard input", format or sniffed(content[:4096]), Path("-"), content)
        file = Path(given)
        refuse_unreadable(file)
        kind = format or format_of(given)
        if file.suffix.lower() in COMPRESSED:
            return cls(f"'{given}'", kind, file, _decompressed(file))
        if file.stat().st_size == 0:
            raise InputError(f"'{given}' must hold vectors; it is empty. Check the step that wrote it.")
        return cls(f"'{given}'", kind, file)

    def open(self) -> BinaryIO:
        """Its bytes from the beginning."""
        return self.path.open("rb") if self.content is None else io.BytesIO(self.content)

    @property
    def size(self) -> int:
        """How many bytes."""
        return self.path.stat().st_size if self.content is None else len(self.content)

    @contextmanager
    def reading(self, *complaints: type[Exception]) -> Iterator[None]:
        """What libraries complain of while they read the content becomes the sentence about damage.

        Sentences stay as they are, and so do errors of the system, which have a number.
        """
        known: tuple[type[Exception], ...] = (*_COMPLAINTS, *complaints)
        try:
            yield
        except InputError:
            raise
        except known as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise
            raise self.damaged(error) from error

    def damaged(self, error: object) -> InputError:
        """The sentence for content that does not read as its format."""
        said = str(error).strip().split("\n")[0][:_LONGEST_REASON].rstrip(".")
        return InputError(
            f"{self.name} must be a whole {self.format} file; it is cut short, damaged or of another format "
            f"({said or type(error).__name__}). {FETCH_AGAIN}"
        )


def not_utf8(name: str, first: bytes, place: int) -> InputError:
    """The sentence for text in another encoding, by its first bytes and the number of the first byte that is odd."""
    is_wide = first[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
    encoding, guess = ("UTF-16", "it is UTF-16") if is_wide else ("WINDOWS-1252", f"byte {place:,} is not")
    return InputError(
        f"{name} must be UTF-8 text; {guess}. Save it as UTF-8 (Excel: CSV UTF-8), or convert it: iconv -f {encoding} "
        "-t UTF-8."
    )


def refuse_unreadable(file: Path) -> None:
    """A sentence for a path that cannot be read."""
    if file.is_dir():
        raise InputError(f"'{file}' must be a file; it is a folder. Name a file in it.")
    try:
        file.open("rb").close()
    except FileNotFoundError:
        raise InputError(f"'{file}' does not exist. Check the path.") from None
    except OSError as error:
        raise InputError(f"'{file}' cannot be read: {error.strerror}. Check its permissions.") from error


def _decompressed(file: Path) -> bytes:
    try:
        with _OPEN[file.suffix.lower()](file) as stream:
            content = unpacked(stream, f"'{file}'", file.stat().st_size)
    except InputError:
        raise
    except (OSError, EOFError, ValueError, zlib.error, lzma.LZMAError) as error:
        raise InputError(
            f"'{file}' must be a whole {file.suffix} file; it is cut short or damaged ({error}). {FETCH_AGAIN}"
        ) from error
    if not content:
        raise InputError(f"'{file}' must hold vectors; it is empty. Check the step that wrote it.")
    return content


def read_text(path: str | os.PathLike[str]) -> str:
    """A text file, UTF-8, compressed or not."""
    file = Path(os.fsdecode(path))
    refuse_unreadable(file)
    content = _decompressed(file) if file.suffix.lower() in COMPRESSED else file.read_bytes()
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise not_utf8(f"'{file}'", content, error.start) from error
