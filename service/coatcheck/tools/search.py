"""`pattern`: show the matching lines, and do by itself what a model would try next when there is none.

A pattern that is no regular expression is searched as plain text; a pattern that matches nothing is tried without
regard to case. Both are said in the answer.
"""

from typing import Final

from msgspec import structs

from coatcheck.core.artifact import Artifact, Caller
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.core.text.inert import inert
from coatcheck.tools.answers import answer, clipped, show
from coatcheck.tools.arguments import ReadArguments
from coatcheck.tools.values import Position
from coatcheck.usecases.search import DEFAULT_LIMIT, MAX_LIMIT, Search, SearchAnswer, SearchAsk

_SHOWN: Final = 80
"""Characters of a pattern that an answer repeats."""


class Searching:
    """Searches for the tool."""

    def __init__(self, search: Search) -> None:
        self._search = search

    async def __call__(self, caller: Caller, number: int, artifact: Artifact, asked: ReadArguments, room: int) -> str:
        """The matching lines as an answer, or a sentence when there is none."""
        lines = artifact.measure.lines
        at = asked.offset or Position(1)
        if at.line < 1:
            at = Position(max(1, lines + at.line + 1))
        ask = SearchAsk(
            pattern=asked.pattern or "",
            literal=asked.literal,
            ignore_case=asked.ignore_case,
            context=2 if asked.context is None else asked.context,
            limit=min(asked.limit or DEFAULT_LIMIT, MAX_LIMIT),
            from_line=at.line,
            from_byte=at.inside,
            section=asked.section,
            max_tokens=room,
        )
        got, said = await self._found(caller, number, ask)
        if not got.shown:
            return _nothing(artifact, got, ask, [*said, *clipped(asked.notes)])
        shown = show(got.text)
        which = f"{got.windows[0].line}-{got.windows[-1].line} of {lines}"
        last = [f"Lines {which}: {_count(got, at)}{_going_on(got)}", *said, *shown.said, *clipped(asked.notes)]
        return answer(artifact, f"matches in lines {which}", shown.body, last)

    async def _found(self, caller: Caller, number: int, ask: SearchAsk) -> tuple[SearchAnswer, list[str]]:
        """What a pattern finds, read more generously until it finds something; and how it was read."""
        try:
            got = await self._search(caller, number, ask)
        except CoatcheckError as error:
            if error.code is not Code.INVALID_PATTERN or ask.literal:
                raise
            try:
                got, said = await self._found(caller, number, structs.replace(ask, literal=True))
            except CoatcheckError as second:
                raise error from second
            if not got.shown and got.stopped != "deadline":
                raise
            return got, ["The pattern is not a valid regular expression; it was searched as plain text.", *said]
        if got.shown or got.stopped == "deadline" or ask.ignore_case:
            return got, []
        folded = await self._search(caller, number, structs.replace(ask, ignore_case=True))
        if not folded.shown:
            return got, []
        return folded, ["Nothing matches as written; these match without regard to case."]


def _count(got: SearchAnswer, at: Position) -> str:
    """How many matches these are of how many."""
    since = f" from line {at.line} on" if at.line > 1 or at.inside else ""
    if got.total is None:
        return f"{got.shown} of at least {got.at_least} matches{since}"
    if got.shown == got.total:
        return f"all {got.total} matches{since}" if got.total > 1 else f"the only match{since}"
    return f"{got.shown} of {got.total} matches{since}"


def _going_on(got: SearchAnswer) -> str:
    if got.next is None:
        return "."
    on = Position(got.next.line, got.next.byte)
    return f'. Next: offset="{on}".' if on.inside else f". Next: offset={on}."


def _nothing(artifact: Artifact, got: SearchAnswer, ask: SearchAsk, said: list[str]) -> str:
    """That nothing was found, and what else could be tried."""
    pattern = inert(ask.pattern[: _SHOWN * 2]).replace("\n", " ")
    pattern = pattern if len(pattern) <= _SHOWN else f"{pattern[:_SHOWN]}…"
    lines = artifact.measure.lines
    where = f"in {lines} {'line' if lines == 1 else 'lines'} of {artifact.id}"
    if got.stopped == "deadline":
        first = f'No match for "{pattern}" yet {where}: the search ran out of time. Retry the same call; it goes on.'
    elif ask.from_line > 1 or ask.from_byte:
        on = Position(ask.from_line, ask.from_byte)
        first = f'No match for "{pattern}" from line {on} on {where}. Leave out offset to search all of it.'
    else:
        first = f'No match for "{pattern}" {where}, upper or lower case. Try fewer or other words, or part of a word.'
    return " ".join([first, *said])
