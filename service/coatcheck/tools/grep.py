"""`pattern`: shows the matching lines, and tries what a model would try next if there are none.

A pattern that is not a regular expression is searched as plain text, and one that is matches as plain text too. What
matches nothing is tried ignoring case, then as grep and JavaScript would read it, and then in the lines as they are
read: without fields, colour codes and what was written over, and with escapes as what they stand for. The answer says
so.
"""

from typing import Final

from msgspec import structs

from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.core.grep.matcher import wants_line_feed
from coatcheck.core.text.count import plural
from coatcheck.reading.view import ViewReading
from coatcheck.tools import values
from coatcheck.tools.answers import AnswerText, answer, clip_notes, lacks, plain, resolve_start, show, within
from coatcheck.tools.arguments import ReadArguments
from coatcheck.tools.values import ReadStart
from coatcheck.usecases.reading.grep import DEFAULT_LIMIT, MAX_LIMIT, PatternSearchRequest, Search, SearchAnswer
from coatcheck_client.contract.inert import inert

_REPEATED_CHARS: Final = 80
"""Characters of a pattern that an answer repeats."""
_FOLDED: Final = "Nothing matches as written; these match without regard to case."
"""Note of an answer for which case was ignored."""
_PLAIN: Final = "Nothing matches as written; these match as read: without regard to case, colours, fields and escapes."
"""Note of an answer whose matches are in decoded lines."""


class PatternSearch:
    """Searches for the tool."""

    def __init__(self, search: Search) -> None:
        self._search = search

    async def __call__(self, reading: ViewReading, arguments: ReadArguments, budget: int) -> AnswerText:
        """Returns the matching lines as an answer, or a sentence if there are none."""
        lines = reading.measure.lines
        at = resolve_start(arguments.offset or ReadStart(1), reading)
        ask = PatternSearchRequest(
            pattern=arguments.pattern or "",
            literal=arguments.literal,
            ignore_case=arguments.ignore_case,
            context=2 if arguments.context is None else arguments.context,
            limit=min(arguments.limit or DEFAULT_LIMIT, MAX_LIMIT),
            from_line=at.line,
            from_byte=at.inside,
            max_tokens=budget,
        )
        got, notes = await self._matches(reading, ask)
        if not got.shown:
            return plain(_nothing(reading, got, ask, [*notes, *clip_notes(arguments.notes)]))
        safe_text = show(got.text)
        which = f"{got.windows[0].line}-{got.windows[-1].line} of {lines}"
        inside = within(reading)
        inside_of = f" in section {reading.section.name}" if reading.section is not None else ""
        count = f"{_count(got, at, reading.lines.first)}{inside_of}"
        last = [f"Lines {which}: {count}{_going_on(got)}", *notes, *safe_text.notes, *clip_notes(arguments.notes)]
        # The search has counted its text; if making it safe has changed it, it is counted again.
        body_tokens = got.tokens if safe_text.body == got.text else None
        return answer(reading, f"matches in lines {which}{inside}", safe_text.body, last, tokens=body_tokens)

    async def _matches(self, reading: ViewReading, ask: PatternSearchRequest) -> tuple[SearchAnswer, list[str]]:
        """Returns what a pattern finds, read more and more generously until it finds something; and how it was read."""
        # A pattern that was evidently copied from a text is searched for as text first: its dots and brackets are not
        # meant.
        if not ask.literal and values.is_copied(ask.pattern):
            got = await self._search.of(reading, structs.replace(ask, literal=True))
            if got.shown or got.stopped == "deadline":
                return got, ["The pattern was searched for as plain text."]
        # Next as both, in one pass: the expression or the text.
        either = ask if ask.literal else structs.replace(ask, pattern=values.or_plain(ask.pattern))
        try:
            got = await self._search.of(reading, either)
        except CoatcheckError as error:
            if error.code is not Code.INVALID_PATTERN or ask.literal:
                raise
            # Not a valid expression here: first in the spelling of other engines, then as text.
            if (answered := await self._first_match(reading, _respell(ask))) is not None:
                return answered
            try:
                got, notes = await self._matches(reading, structs.replace(ask, literal=True))
            # Even as text it is refused: the first error says more.
            except CoatcheckError as second:
                raise error from second
            if not got.shown and got.stopped != "deadline":
                await self._search.of(reading, ask)  # which says what is wrong with it
                raise
            return got, ["The pattern is not a valid regular expression; it was searched for as plain text.", *notes]
        if got.shown or got.stopped == "deadline":
            return got, []
        return await self._first_match(reading, _loosen(ask, either)) or (got, [])

    async def _first_match(
        self, reading: ViewReading, tries: list[tuple[PatternSearchRequest, str]]
    ) -> tuple[SearchAnswer, list[str]] | None:
        """Returns what the first of some readings finds, with its note; None if none finds anything."""
        for variant, note in tries:
            try:
                got = await self._search.of(reading, variant)
            except CoatcheckError as error:
                if error.code is not Code.INVALID_PATTERN:
                    raise
                continue  # a reading that is no expression is not what was meant
            if got.shown or got.stopped == "deadline":
                return got, [note] if got.shown else []
        return None


def _loosen(ask: PatternSearchRequest, either: PatternSearchRequest) -> list[tuple[PatternSearchRequest, str]]:
    """Returns more generous readings of a pattern that finds nothing as written, with what to say of each."""
    tries: list[tuple[PatternSearchRequest, str]] = []
    if not ask.ignore_case:
        tries.append((structs.replace(either, ignore_case=True), _FOLDED))
    # From the least to the most generous reading: the first that matches is the likeliest to be meant.
    tries += _respell(ask)
    return [*tries, (structs.replace(either, ignore_case=True, plain=True), _PLAIN)]


def _respell(ask: PatternSearchRequest) -> list[tuple[PatternSearchRequest, str]]:
    """Returns a pattern as grep and JavaScript read it, each also ignoring case, with what to say of each."""
    tries: list[tuple[PatternSearchRequest, str]] = []
    for spelling, folds in [] if ask.literal else values.other_spellings(ask.pattern):
        for ignore_case in sorted({ask.ignore_case or folds, True}):
            case = "" if ignore_case == ask.ignore_case else ", without regard to case"
            note = f'Nothing matches as written; these match "{_shorten(spelling)}"{case}.'
            tries.append((structs.replace(ask, pattern=spelling, ignore_case=ignore_case), note))
    return tries


def _count(got: SearchAnswer, at: ReadStart, first: int) -> str:
    """Returns how many matches of how many are shown."""
    since = f" from line {at.line} on" if at.line > first or at.inside else ""
    if got.total is None:
        return f"{got.shown} of at least {plural(got.at_least, 'match', 'matches')}{since}"
    if got.shown == got.total:
        return f"all {got.total} matches{since}" if got.total > 1 else f"the only match{since}"
    return f"{got.shown} of {got.total:,} matches{since}"


def _going_on(got: SearchAnswer) -> str:
    if got.next is None:
        return "."
    on = ReadStart(got.next.line, got.next.byte)
    return f'. Next: offset="{on}".' if on.inside else f". Next: offset={on}."


def _nothing(reading: ViewReading, got: SearchAnswer, ask: PatternSearchRequest, notes: list[str]) -> str:
    """Returns that nothing was found, and what else to try."""
    pattern = _shorten(ask.pattern)
    where = f"in {plural(reading.lines.last - reading.lines.first + 1, 'line')} of {reading.name}"
    if got.stopped == "deadline":
        first = f'No match for "{pattern}" yet {where}: the search ran out of time. Retry the same call; it goes on.'
    elif not ask.literal and wants_line_feed(ask.pattern):
        first = f'No match for "{pattern}" {where}: a match stays within one line. Search for the text of one line.'
    elif ask.from_line > reading.lines.first or ask.from_byte:
        on = ReadStart(ask.from_line, ask.from_byte)
        first = f'No match for "{pattern}" from line {on} on {where}. Leave out offset to search all of it.'
    else:
        first = f'No match for "{pattern}" {where}, upper or lower case. Try fewer or other words, or part of a word.'
    return " ".join([first, *lacks(reading), *notes])


def _shorten(pattern: str) -> str:
    """Returns a pattern as a sentence repeats it: on one line, inert, and not too long."""
    safe_pattern = inert(pattern[: _REPEATED_CHARS * 2]).replace("\n", " ")
    return safe_pattern if len(safe_pattern) <= _REPEATED_CHARS else f"{safe_pattern[:_REPEATED_CHARS]}…"
