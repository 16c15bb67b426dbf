"""Claims of a paper beside their outcomes: the table that every page of claims begins with, and the list it ends with.

A claim has a rule that was written before the run, and a judge that reads the stored results. A verdict is one of four
words; what the papers do not say and we add is marked "(ours)" and counted apart. `Said` is one statement of a seed,
with the lines that answer it: `by_section` shows all of them, and a test holds every page to the list.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, NamedTuple

Results = dict[str, Any]

HOLDS, PARTLY, FAILS, OPEN = "holds", "holds in part", "does not hold here", "not attempted"
VERDICTS = (HOLDS, PARTLY, FAILS, OPEN)
SHOWN, SKIPPED, NOT_RUN = "shown", "skipped", "not run"
OURS = "(ours)"
A_TEST = "no run: a test"

_BAR = r"\|"  # within a cell
_HEADER = "| claim | where | rule | runs | measured | status |\n| --- | --- | --- | --- | --- | --- |\n"


class Verdict(NamedTuple):
    """What came out: numbers in words, one of the statuses, and how many runs stand behind it."""

    measured: str
    status: str
    runs: str = ""


class Claim(NamedTuple):
    """What the paper says, and how it is judged."""

    key: str
    claim: str
    where: str  # section of the paper
    rule: str  # what "holds" means, and "in part" where there is one
    judge: Callable[[Results], Verdict]
    parts: tuple[str, ...] = ()  # of the results, that the judge needs


class Line(NamedTuple):
    """A claim with its outcome."""

    key: str
    claim: str
    where: str
    rule: str
    runs: str
    measured: str
    status: str


class Said(NamedTuple):
    """One statement of a seed, and the keys of the lines that answer it."""

    section: str
    statement: str
    lines: tuple[str, ...]


def judged(claims: Iterable[Claim], results: Results) -> list[Line]:
    """All claims, judged; those whose part of the results is missing say so."""
    return [_line(claim, _verdict(claim, results)) for claim in claims]


def _verdict(claim: Claim, results: Results) -> Verdict:
    for part in claim.parts:
        if part not in results or not results[part]:
            return Verdict(f"part {part!r} was not run", NOT_RUN)
        if "skipped" in results[part]:
            return Verdict(results[part]["skipped"], SKIPPED)
    return claim.judge(results)


def _line(claim: Claim, verdict: Verdict) -> Line:
    return Line(claim.key, claim.claim, claim.where, claim.rule, verdict.runs, verdict.measured, verdict.status)


def by_test(*names: str, note: str = "", status: str = HOLDS) -> Callable[[Results], Verdict]:
    """A judge for what is proved or exact: the tests that show it, each "path::name"."""
    told = ", ".join(f"`{name}`" for name in names)
    return lambda _: Verdict(f"{note}; {told}" if note else told, status, A_TEST)


def not_attempted(reason: str) -> Callable[[Results], Verdict]:
    """A judge for what was not run, and why."""
    return lambda _: Verdict(reason, OPEN)


def over(wins: Iterable[bool]) -> str:
    """One verdict for several cases: all of them, some, none; where there is no case, nothing was shown."""
    found = list(wins)
    if not found:
        return NOT_RUN
    return HOLDS if all(found) else PARTLY if any(found) else FAILS


# ------------------------------------------------------------------------------------------------------- the page


def counts(lines: Sequence[Line]) -> str:
    """How many lines have which verdict: the paper's, and ours."""
    statuses = [*VERDICTS, *sorted({line.status for line in lines} - set(VERDICTS))]
    table = f"| | {' | '.join(statuses)} |\n" + "| --- " * (1 + len(statuses)) + "|\n"
    for word, is_ours in (("the paper's claims", False), ("ours", True)):
        own = [line.status for line in lines if line.claim.startswith(OURS) == is_ours]
        table += f"| {word} | {' | '.join(str(own.count(status)) for status in statuses)} |\n"
    return table


def table(lines: Sequence[Line]) -> str:
    """Every claim, numbered."""
    rows = []
    for number, line in enumerate(lines, start=1):
        cells = (f"{number}. {line.claim}", line.where, line.rule, line.runs, line.measured, line.status)
        # a bar in a cell, as of |cosine|, would end it
        rows.append(f"| {' | '.join(cell.replace('|', _BAR) for cell in cells)} |\n")
    return _HEADER + "".join(rows)


def rules(lines: Sequence[Line], before: Collection[str]) -> str:
    """Which rules are older than the results that they judge."""
    older = [str(number) for number, line in enumerate(lines, start=1) if line.key in before]
    word = "lines" if len(older) > 1 else "line"
    return (
        f"**Rules.** Those of {word} {', '.join(older)} were committed before the first run that they judge. Those of "
        "other lines\nwith runs were written, or worded anew, when results of an earlier run were known; runs since "
        "then have not changed a rule.\n"
    )


def by_section(said: Sequence[Said], lines: Sequence[Line]) -> str:
    """Every statement of the seed in its order, with the lines that answer it."""
    places = {line.key: (number, line.status) for number, line in enumerate(lines, start=1)}
    text = "## All claims by section\n\n| section | the paper says | lines |\n| --- | --- | --- |\n"
    for one in said:
        answers = "; ".join(f"{places[key][0]} ({places[key][1]})" for key in one.lines)
        text += f"| {one.section} | {one.statement} | {answers} |\n"
    return text
