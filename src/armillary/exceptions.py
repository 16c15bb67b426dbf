"""Errors and warnings. Each sentence says who, the rule, what came, and the way out.

The classes inherit from the built-in ones that scikit-learn's users already catch.
"""

from __future__ import annotations


class ArmillaryError(Exception):
    """Base of every error raised by Armillary."""


class InputError(ArmillaryError, ValueError):
    """The rows, weights or labels given cannot be used."""


class RowError(InputError):
    """One row cannot be used; `row` is its number, so that nobody has to read it from the sentence.

    `lacks_direction` says that it is NaN, infinite or all zero: such rows can be passed over.
    """

    def __init__(self, row: int, what: str, rest: str, place: str = "", lacks_direction: bool = False) -> None:
        super().__init__(f"Row {row} of {what}{f' ({place})' if place else ''} {rest}")
        self.row, self.what, self.rest, self.place, self.lacks_direction = row, what, rest, place, lacks_direction

    def __reduce__(self) -> tuple[type[RowError], tuple[int, str, str, str, bool]]:
        return type(self), (self.row, self.what, self.rest, self.place, self.lacks_direction)

    def moved(self, n_rows: int) -> RowError:
        """The same of rows that are counted from `n_rows` before."""
        return type(self)(self.row + n_rows, self.what, self.rest, self.place, self.lacks_direction)

    def at(self, place: str) -> RowError:
        """The same with the place of the row in words."""
        return type(self)(self.row, self.what, self.rest, place, self.lacks_direction)

    def or_flagged(self) -> RowError:
        """The same where the model can pass such rows over."""
        rest = f'{self.rest} missing="flag" gives them the label -1.'
        return type(self)(self.row, self.what, rest, self.place, self.lacks_direction)


class InputTypeError(InputError, TypeError):
    """The values given are of a type that holds no real numbers."""


class ParameterError(ArmillaryError, ValueError):
    """A parameter is outside its range."""


class ArchiveError(ArmillaryError, ValueError):
    """A saved model cannot be read, or a model cannot be saved."""


class BusyModelError(ArmillaryError, RuntimeError):
    """A model is asked to learn while it learns from another thread."""


class MissingExtraError(ArmillaryError, ImportError):
    """An optional library is asked for but not installed."""

    @classmethod
    def of(cls, what: str, library: str, extra: str) -> MissingExtraError:
        """Wording for a missing library, e.g. `of("verbose=1", "rich", "progress")`."""
        return cls(f"{what} needs {library}, which is not installed. Run: pip install 'armillary[{extra}]'")


class CacheWarning(UserWarning):
    """Compiled kernels cannot be kept where they belong, so that other processes compile them again."""
