"""Executes the argument `pattern` of `read_artifact`: shows the matching lines, and if there are none, tries variants.

One search looks for the matches of a regular expression and for its own text. A pattern that is not a regular
expression is searched for as plain text. If nothing matches, the search is repeated with the variants that a model
would try next: without regard to case, then in the syntax of grep and JavaScript, and then in decoded lines. In decoded
lines, fields, colour codes and overwritten text are left out, and escapes are replaced by the characters that they
stand for. The answer says which variant matched.
"""

from typing import Final

from msgspec import structs

from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.core.grep.matcher import wants_line_feed
from coatcheck.core.text.count import plural
from coatcheck.reading.positions import end_after
from coatcheck.reading.view import ViewReading
from coatcheck.tools import values
from coatcheck.tools.answers import AnswerText, answer, clip_notes, lacks, plain, resolve_start, show, within
from coatcheck.tools.arguments import ReadArguments
from coatcheck.tools.values import ReadStart
from coatcheck.usecases.reading.grep import (
    DEFAULT_LIMIT,
    MAX_LIMIT,
    UNDECODED,
    PatternSearchRequest,
    Search,
    SearchAnswer,
)
from coatcheck_client.contract.inert import inert

_REPEATED_CHARS: Final = 80
"""Maximum characters of a pattern that an answer repeats."""
_CASE_NOTE: Final = "Nothing matches as written; these match without regard to case."
"""Note of an answer whose matches differ from the pattern in case."""
_PLAIN: Final = "Nothing matches as written; these match as read: without regard to case, colours, fields and escapes."
"""Note of an answer whose matches are in decoded lines."""


class PatternSearch:
    """Searches a view for the pattern of a tool call."""

    def __init__(self, search: Search) -> None:
        self._search = search

    async def __call__(self, reading: ViewReading, arguments: ReadArguments, budget: int) -> AnswerText:
        """Returns an answer with the matching lines, or with a sentence if there are none.

        Raises:
            CoatcheckError: the errors of the search; `offset_past_end`.
        """
        lines = reading.measure.lines
        at = resolve_start(arguments.offset or ReadStart(1), reading)
        # A range that is not in the part that is read, or reaches to its end, does not end the search earlier.
        if at.last is not None and not at.line <= at.last < reading.lines.last:
            at = structs.replace(at, last=None)
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
        got, notes = await self._matches(reading if at.last is None else await end_after(reading, at.last), ask)
        if not got.shown:
            notes = [*lacks(reading, asked_raw=arguments.raw), *notes, *clip_notes(arguments.notes)]
            return plain(_no_match(reading, got, ask, at, notes))
        safe_text = show(got.text)
        which = f"{got.windows[0].line}-{got.windows[-1].line} of {lines}"
        inside = within(reading)
        inside_of = f" in section {reading.section.name}" if reading.section is not None else ""
        count = f"{_count(got, at, reading.lines.first)}{inside_of}"
        first = f"Lines {which}: {count}{_render_next(got, at.last)}"
        last = [first, *notes, *safe_text.notes, *clip_notes(arguments.notes)]
        # The search has counted the tokens of its text. If `show` has changed the text, they must be counted again.
        body_tokens = got.tokens if safe_text.body == got.text else None
        return answer(reading, f"matches in lines {which}{inside}", safe_text.body, last, tokens=body_tokens)

    async def _matches(self, reading: ViewReading, ask: PatternSearchRequest) -> tuple[SearchAnswer, list[str]]:
        """Returns the result of the first variant of a pattern that matches, and notes that say which variant it is."""
        # Search for a pattern that was evidently copied from a text as plain text first: its dots and brackets are not
        # meant as operators.
        if not ask.literal and values.is_copied(ask.pattern):
            got = await self._search.of(reading, structs.replace(ask, literal=True))
            if got.shown or got.stopped == "deadline":
                return got, ["The pattern was searched for as plain text."]
        # Then search in one pass for the regular expression or its own text.
        combined = ask if ask.literal else structs.replace(ask, pattern=values.or_plain(ask.pattern))
        try:
            if combined.pattern != ask.pattern:  # `)|(` is invalid, but inside other groups it is not
                await self._search.check_pattern(ask)
            got = await self._search.of(reading, combined)
        except CoatcheckError as error:
            if error.code is not Code.INVALID_PATTERN or ask.literal:
                raise
            # The pattern is not valid for RE2: try the syntax of other engines first, then plain text.
            if (answered := await self._first_match(reading, _respell(ask))) is not None:
                return answered
            try:
                got, notes = await self._matches(reading, structs.replace(ask, literal=True))
            # The pattern is refused even as plain text: raise the first error, which says more.
            except CoatcheckError as second:
                raise error from second
            if not got.shown and got.stopped != "deadline":
                await self._search.of(reading, ask)  # raises the error that says what is wrong with the pattern
                raise
            return got, ["The pattern is not a valid regular expression; it was searched for as plain text.", *notes]
        if got.shown or got.stopped == "deadline":
            return got, []
        return await self._first_match(reading, _loosen(ask, combined)) or (got, [])

    async def _first_match(
        self, reading: ViewReading, tries: list[tuple[PatternSearchRequest, str]]
    ) -> tuple[SearchAnswer, list[str]] | None:
        """Returns the result of the first variant that matches, with its note; None if no variant matches.

        Also returns the result of a search that could not decode every line, with a note that says so.
        """
        for variant, note in tries:
            try:
                got = await self._search.of(reading, variant)
            except CoatcheckError as error:
                if error.code is not Code.INVALID_PATTERN:
                    raise
                continue  # a variant that is not a valid regular expression cannot be what the model meant
            if got.shown or got.stopped == "deadline":
                return got, [note] if got.shown else []
            if UNDECODED in (got.message or ""):
                return got, [UNDECODED]
        return None


def _loosen(ask: PatternSearchRequest, combined: PatternSearchRequest) -> list[tuple[PatternSearchRequest, str]]:
    """Returns variants of a pattern that matches nothing as written, each with the note for the answer."""
    tries: list[tuple[PatternSearchRequest, str]] = []
    if not ask.ignore_case:
        tries.append((structs.replace(combined, ignore_case=True), _CASE_NOTE))
    # The variants differ more and more from the pattern: the first that matches is most likely what the model meant.
    tries += _respell(ask)
    return [*tries, (structs.replace(combined, ignore_case=True, plain=True), _PLAIN)]


def _respell(ask: PatternSearchRequest) -> list[tuple[PatternSearchRequest, str]]:
    """Returns variants of a pattern in the syntax of grep and JavaScript, with and without regard to case.

    Each variant has the note for the answer.
    """
    tries: list[tuple[PatternSearchRequest, str]] = []
    for spelling, folds in [] if ask.literal else values.other_spellings(ask.pattern):
        for ignore_case in sorted({ask.ignore_case or folds, True}):
            case = "" if ignore_case == ask.ignore_case else ", without regard to case"
            note = f'Nothing matches as written; these match "{_shorten(spelling)}"{case}.'
            tries.append((structs.replace(ask, pattern=spelling, ignore_case=ignore_case), note))
    return tries


def _count(got: SearchAnswer, at: ReadStart, first: int) -> str:
    """Returns a phrase that says how many of all matches are shown."""
    since = f" from line {at.line} on" if at.line > first or at.inside else ""
    since = since if at.last is None else f" in {_range(at.line, at.last)}"
    if got.total is None:
        return f"{got.shown} of at least {plural(got.at_least, 'match', 'matches')}{since}"
    if got.shown == got.total:
        return f"all {got.total} matches{since}" if got.total > 1 else f"the only match{since}"
    return f"{got.shown} of {got.total:,} matches{since}"


def _range(first: int, last: int) -> str:
    return f"line {first}" if first == last else f"lines {first}-{last}"


def _render_next(got: SearchAnswer, last: int | None) -> str:
    """Returns the end of the sentence about the matches: at which offset the search up to line `last` continues."""
    if got.next is None:
        return "."
    on = str(ReadStart(got.next.line, got.next.byte, last))
    return f". Next: offset={on}." if on.isdecimal() else f'. Next: offset="{on}".'


def _no_match(
    reading: ViewReading, got: SearchAnswer, ask: PatternSearchRequest, at: ReadStart, notes: list[str]
) -> str:
    """Returns sentences that say that nothing matches, and what else to try."""
    pattern = _shorten(ask.pattern)
    lines = plural(reading.lines.last - reading.lines.first + 1, "line")
    where = f"in {lines if at.last is None else _range(at.line, at.last)} of {reading.name}"
    if got.stopped == "deadline":
        first = f'No match for "{pattern}" yet {where}: the search ran out of time. Retry the same call; it goes on.'
    elif not ask.literal and wants_line_feed(ask.pattern):
        first = f'No match for "{pattern}" {where}: a match stays within one line. Search for the text of one line.'
    elif at.last is not None:
        first = f'No match for "{pattern}" {where}. Leave out the range to search all of it.'
    elif at.line > reading.lines.first or at.inside:
        first = f'No match for "{pattern}" from line {at} on {where}. Leave out offset to search all of it.'
    else:
        first = f'No match for "{pattern}" {where}, upper or lower case. Try fewer or other words, or part of a word.'
    return " ".join([first, *notes])


def _shorten(pattern: str) -> str:
    """Returns a pattern so that a sentence can repeat it: on one line, made safe, and of limited length."""
    safe_pattern = inert(pattern[: _REPEATED_CHARS * 2]).replace("\n", " ")
    return safe_pattern if len(safe_pattern) <= _REPEATED_CHARS else f"{safe_pattern[:_REPEATED_CHARS]}…"
