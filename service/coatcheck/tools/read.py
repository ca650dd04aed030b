"""Execute `read_artifact`: look the artifact up, ask one use case, say what part this is and how to go on.

Whatever is asked, an answer is within the bounds; everything that fails is a `CoatcheckError`, for the desk to say.
"""

from concurrent.futures import Executor
from typing import Protocol

from msgspec import structs

from coatcheck.core import ids
from coatcheck.core.artifact import Caller
from coatcheck.core.cursor import Cursor
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.core.kinds.spec import spec_of
from coatcheck.core.text.inert import one_line
from coatcheck.core.text.plural import plural
from coatcheck.core.tokens import Tokenizer
from coatcheck.core.window import Span, separates
from coatcheck.reading.byte_positions import place_of
from coatcheck.reading.view import OpenView, ViewReading
from coatcheck.tools.answers import AnswerText, ToolAnswer, answer, clipped, counted, fitted, show, within
from coatcheck.tools.arguments import OUTLINE_WORDS, ReadArguments
from coatcheck.tools.failures import absent_feature, not_text
from coatcheck.tools.search import PatternSearch
from coatcheck.tools.table import DEFAULT_LINES, MAX_VALUES
from coatcheck.tools.values import ReadStart
from coatcheck.usecases.find_passages import FindPassages
from coatcheck.usecases.outline import Outline, OutlineAnswer, Ways
from coatcheck.usecases.read import Read, ReadAnswer, ReadRequest
from coatcheck.usecases.search import MIN_TOKENS, Search

_LEAST = 16
"""Tokens of payload in the smallest answer."""
_QUERY_TOKENS = 1_200
"""Tokens of the passages that answer a query: a model asks again more cheaply than it reads on."""
_NAMES = 240
"""Characters of the sections that a first answer names."""
_TITLE = 40
_WAYS = Ways(more="the same call with offset={}", rest="")
"""What the outline says of going on; `_opened` says what the view lacks."""
_CHARACTER = 4
"""Bytes of the longest character."""


class AnswerPage(Protocol):
    """A page of values."""

    @property
    def text(self) -> str:
        """Within the budget, and safe to show: the use case puts lines of ours between what comes from the payload."""
        ...

    @property
    def tokens(self) -> int:
        """Of `text`, exactly."""
        ...

    @property
    def next(self) -> str | None:
        """The cursor of the next page."""
        ...


class ReadValues(Protocol):
    """The values of a JSON artifact that a path selects."""

    async def of(
        self, reading: ViewReading, number: int, *, path: str, limit: int | None, max_tokens: int, cursor: str | None
    ) -> AnswerPage:
        """As many values as fit, with their places."""
        ...


class ReadArtifact:
    """The tool `read_artifact`."""

    def __init__(
        self,
        open_view: OpenView,
        read: Read,
        search: Search,
        outline: Outline,
        tokenizer: Tokenizer,
        pool: Executor,
        passages: FindPassages,
        values: ReadValues | None = None,
    ) -> None:
        self._view = open_view
        self._read = read
        self._searching = PatternSearch(search)
        self._outline = outline
        self._tokenizer = tokenizer
        self._pool = pool
        self._passages = passages
        self._values = values

    async def __call__(self, caller: Caller, asked: ReadArguments, tokens: int) -> ToolAnswer:
        """The part that was asked for, in at most so many tokens.

        Raises:
            CoatcheckError: whatever the look-up and the use cases raise.
        """
        number = ids.parse(asked.artifact_id)
        asked, reading = await self._opened(caller, number, asked)
        if reading.binary:
            raise not_text(reading.artifact)

        by_line = not asked.outline and (asked.pattern, asked.query, asked.path) == (None, None, None)

        async def attempt(room: int) -> AnswerText:
            if not (by_line or asked.outline) and reading.extent.start == reading.extent.end:
                last = ["It is empty: there is nothing to find in it.", *clipped(asked.notes)]
                return answer(reading, "empty", "", last)
            if asked.pattern is not None:
                return await self._searching(reading, asked, room)
            if asked.query is not None:
                return await self._answering(reading, asked, room)
            if asked.path is not None:
                return await self._selected(number, reading, asked, room)
            if asked.outline:
                return await self._outlined(reading, asked, room)
            return await self._lines(number, reading, asked, room)

        got = await fitted(attempt, tokens, self._tokenizer, self._pool, least=_LEAST if by_line else MIN_TOKENS)
        if got is None:
            raise CoatcheckError(
                Code.INVALID_REQUEST, "Not even the beginning of this part fits into an answer. Read another part."
            )
        self._view.told(reading, got[1])
        return ToolAnswer(text=got[0], tokens=got[1])

    async def _opened(self, caller: Caller, number: int, asked: ReadArguments) -> tuple[ReadArguments, ViewReading]:
        """The view to read, and what is asked of it: paths lead through the payload, all else reads the text."""
        notes = list(asked.notes)
        if asked.path is not None:
            if asked.section is not None:
                notes.append("section was left out: a path applies to the whole payload.")
            asked = structs.replace(asked, section=None, notes=tuple(notes))
            return asked, await self._view(caller, number, view="raw")
        asked, reading = await self._narrowed(caller, number, asked)
        if asked.path is not None:
            return asked, reading
        section = reading.section
        if section is not None and asked.offset is not None and 1 < asked.offset.line < section.line:
            notes.append(f"Line {asked.offset.line} is before section {section.name}, which begins at {section.line}.")
        if reading.unkept:
            notes.append("Its readable text is unavailable at the moment: this is the original payload.")
        if reading.partial:
            rest = ": path reads the rest, too" if spec_of(reading.artifact.facts.kind).paths else ""
            notes.append(f"The text view ends before the payload does{rest}.")
        return structs.replace(asked, notes=tuple(notes)), reading

    async def _narrowed(self, caller: Caller, number: int, asked: ReadArguments) -> tuple[ReadArguments, ViewReading]:
        """The text view, narrowed to the section that is asked for: one of its own, or an entry of its outline."""
        wanted = asked.section
        if wanted is None:
            everything = asked.outline or asked.query is not None or _reads_on(asked)
            return asked, await self._view.best(caller, number, sections=everything)
        if wanted.strip().lower() in OUTLINE_WORDS:
            reading = await self._view.best(caller, number, sections=True)
            names = {name.casefold(): nth for nth, s in enumerate(reading.sections) for name in (s.title, s.name)}
            nth = names.get(wanted.strip().casefold())
            if nth is not None:
                return asked, structs.replace(reading, nth=nth)
            by_line = (asked.pattern, asked.query) == (None, None)
            return structs.replace(asked, section=None, outline=by_line), reading
        try:
            return asked, await self._view.best(caller, number, section=wanted)
        except CoatcheckError as error:
            if error.code is not Code.SECTION_NOT_FOUND:
                raise
        reading, entry = await self._outline.entry(await self._view.best(caller, number, sections=True), wanted)
        if reading.section is not None:
            return asked, reading
        if entry.path is None or asked.pattern is not None or asked.query is not None or asked.outline:
            raise CoatcheckError(
                Code.SECTION_NOT_FOUND,
                f"{entry.title} of {reading.artifact.id} has no lines of its own. Leave section out.",
            )
        asked = structs.replace(asked, path=entry.path, section=None, offset=None)
        return asked, await self._view(caller, number, view="raw")

    async def _lines(self, number: int, reading: ViewReading, asked: ReadArguments, room: int) -> AnswerText:
        at = counted(asked.offset or ReadStart(1), reading)
        limit = asked.limit or DEFAULT_LINES
        ask, cursor, moved = ReadRequest(offset=at.line, limit=limit, max_tokens=room), None, list[str]()
        if at.inside:
            asked_for, (at, byte) = at, await _inside(reading, at)
            if at != asked_for:
                moved.append(f"Offset {asked_for} is inside a character, so this begins at {at}.")
            ask = ReadRequest(max_tokens=room)
            cursor = Cursor(reading.view, "line", byte, limit, limit, section=reading.nth)
        got = await self._read.of(reading, number, ask, cursor)
        total = got.total.lines
        if not got.total.bytes:
            return answer(reading, "empty", "", ["It is empty.", *clipped(asked.notes)])
        shown = show(got.text)
        lines = got.window.lines
        which = f"{lines.first}-{lines.last} of {total}"
        part = f"lines {which} from {at}" if at.inside and at.line == lines.first else f"lines {which}"
        last = [f"Lines {which}{await _going_on(reading, got)}"]
        if got.next is not None and _reads_on(asked) and asked.offset is None:
            last += _named(reading)
        last += [*moved, *shown.said, *clipped(asked.notes)]
        known = got.tokens if shown.body == got.text else None
        return answer(reading, part + within(reading), shown.body, last, tokens=known)

    async def _outlined(self, reading: ViewReading, asked: ReadArguments, room: int) -> AnswerText:
        offset = asked.offset.line if asked.offset is not None and asked.offset.line > 1 else 0
        got = await self._outline.of(
            reading,
            offset=offset,
            limit=min(asked.limit or MAX_VALUES, MAX_VALUES),
            max_tokens=max(room, 64),
            ways=_WAYS,
        )
        if not got.entries:
            return answer(reading, "outline", "", [*got.notices, *clipped(asked.notes)])
        last = [_reached(got), *clipped(asked.notes)]
        return answer(reading, "outline", got.text, last, tokens=got.tokens)  # safe to show already

    async def _answering(self, reading: ViewReading, asked: ReadArguments, room: int) -> AnswerText:
        got = await self._passages.of(reading, asked.query or "", min(room, _QUERY_TOKENS), concise=True)
        on = ["Best first. Read around a passage with offset, or search with pattern."] if got.windows else []
        last = [*on, *clipped(asked.notes)]
        part = f"passages for the query{within(reading)}"
        return answer(reading, part, got.text, last, tokens=got.tokens)  # safe to show already, under lines of ours

    async def _selected(self, number: int, reading: ViewReading, asked: ReadArguments, room: int) -> AnswerText:
        if self._values is None:
            raise absent_feature("path")
        got = await self._values.of(
            reading,
            number,
            path=asked.path or "",
            limit=asked.limit or MAX_VALUES,
            max_tokens=room,
            cursor=asked.place,
        )
        on = "That is the end." if got.next is None else f'Next: the same call with offset="{got.next}".'
        return answer(reading, "values of the path", got.text, [on, *clipped(asked.notes)], tokens=got.tokens)


def _reads_on(asked: ReadArguments) -> bool:
    """Whether this is a call that reads from the beginning, without saying what to look for."""
    return not asked.outline and (asked.pattern, asked.query, asked.path, asked.section) == (None, None, None, None)


def _reached(got: OutlineAnswer) -> str:
    """How the entries of an outline are read: each by what it has."""
    held = (
        ("section", any(entry.section is not None or entry.lines is not None for entry in got.entries)),
        ("path", any(entry.path is not None for entry in got.entries)),
        ("offset and limit by the lines in brackets", any(entry.lines is not None for entry in got.entries)),
    )
    ways = [way for way, has in held if has]
    if not ways:
        return "Read it with offset and limit, or search it with pattern."
    return f"Read one with {', or with '.join(ways)}."


async def _inside(reading: ViewReading, at: ReadStart) -> tuple[ReadStart, int]:
    """A place inside a line, and its byte: where the character begins that it is in."""
    line = await place_of(reading.content, Span("line", at.line, None))
    end = reading.extent.end
    if line is None or line.byte + at.inside >= end:
        lines = plural(reading.lines.last - reading.lines.first + 1, "line")
        size = plural(end - reading.extent.start, "byte")
        raise CoatcheckError(
            Code.OFFSET_PAST_END,
            f"Offset {at} is past the end: {reading.name} has {lines} and {size}. "
            "Use an offset that an answer gave, or the number of a line.",
        )
    byte = line.byte + at.inside
    low = max(line.byte, byte - _CHARACTER)
    data = await reading.content.read(low, byte + 1)
    while not separates(data, byte - low):
        byte -= 1
    return ReadStart(at.line, byte - line.byte), byte


async def _going_on(reading: ViewReading, got: ReadAnswer) -> str:
    """The rest of the sentence about what was read: where it goes on, or that this is the end."""
    if got.next is None:
        return "; that is the end." if reading.section is None else _after(reading)
    if got.next.unit == "line":
        return f'. Next: offset={got.next.offset}. Or pattern="…" to search.'
    last = got.window.lines.last
    line = await place_of(reading.content, Span("line", last, None))
    inside = got.next.bytes - (line.byte if line else 0)
    return f', line {last} not to its end. Next: offset="{last}+{inside}". Or pattern="…" to search.'


def _after(reading: ViewReading) -> str:
    """That a section ends, and which comes next."""
    section = reading.section
    following = [s for s in reading.sections if section is not None and s.start >= section.end]
    on = f" The next is {following[0].name}." if following else ""
    return f"; that is the end of section {section.name if section else ''}.{on}"


def _named(reading: ViewReading) -> list[str]:
    """The first sections that there are, for a reader who did not ask for one."""
    sections = reading.sections
    if not sections:
        return []
    shown, room = list[str](), _NAMES
    for section in sections:
        title = one_line(section.title[:_TITLE])
        name = f"{section.name} {title}".strip()
        if len(name) + 2 > room:
            break
        shown.append(name)
        room -= len(name) + 2
    all_of = "Sections: " if len(shown) == len(sections) else f"{len(sections)} sections: "
    more = "" if len(shown) == len(sections) else "; all with outline=true"
    return [f'{all_of}{", ".join(shown)}{more}. Read one with section="{sections[0].name}".']
