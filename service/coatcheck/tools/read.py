"""Executes `read_artifact`: finds the artifact, calls one use case, and says which part was read and how to continue.

Every answer stays within its token budget. Every failure is a `CoatcheckError`, which the dispatcher reports.
"""

from concurrent.futures import Executor
from typing import Any

from msgspec import structs

from coatcheck.core import ids
from coatcheck.core.artifact import Caller
from coatcheck.core.card.render import main_part
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.core.event import Action
from coatcheck.core.kinds.spec import spec_of
from coatcheck.core.parts.fields import NEAR, time_range
from coatcheck.core.text.count import plural
from coatcheck.core.tokens import Tokenizer
from coatcheck.core.views.cursor import Cursor
from coatcheck.core.views.view import outer_asides
from coatcheck.core.views.window import Extent, Span, separates
from coatcheck.reading.positions import place_of
from coatcheck.reading.view import OpenView, ViewReading
from coatcheck.tools.answers import (
    AnswerText,
    ToolAnswer,
    answer,
    clip_notes,
    fit_answer,
    lacks,
    not_text,
    resolve_start,
    show,
    within,
)
from coatcheck.tools.arguments import OUTLINE_WORDS, ReadArguments
from coatcheck.tools.grep import PatternSearch
from coatcheck.tools.values import ReadStart
from coatcheck.usecases.reading.find_passages import FindPassages
from coatcheck.usecases.reading.grep import MIN_TOKENS, Search
from coatcheck.usecases.reading.outline import Outline, OutlineAnswer, Ways
from coatcheck.usecases.reading.read import Read, ReadAnswer, ReadRequest
from coatcheck.usecases.reading.read_json import ReadJson
from coatcheck_client.contract.inert import one_line
from coatcheck_client.contract.tools import DEFAULT_LINES, MAX_VALUES

_MIN_LINE_TOKENS = 16
"""Tokens of payload in the smallest answer that reads lines."""
_QUERY_TOKENS = 1_200
"""Maximum tokens of the passages that answer a query: for a model, another query is cheaper than a longer answer."""
_SECTION_NAMES_CHARS = 240
"""Maximum characters of the section names that a first answer lists."""
_NAMED_SECTIONS = 6
"""Maximum sections around an article that an answer names."""
_TITLE_CHARS = 40
"""Maximum characters of a section's title that are shown beside its name."""
_WAYS = Ways(more="the same call with offset={}", first=1, rest="")
"""How the outline says that the model can continue. `rest` is empty: `_open_view` notes what the view lacks."""
_MAX_CHARACTER_BYTES = 4
"""Bytes of the longest UTF-8 character."""


class ReadArtifact:
    """The tool `read_artifact`."""

    def __init__(
        self,
        open_view: OpenView,
        text_reader: Read,
        search: Search,
        outline: Outline,
        tokenizer: Tokenizer,
        pool: Executor,
        passages: FindPassages,
        values: ReadJson,
    ) -> None:
        self._view = open_view
        self._text_reader = text_reader
        self._searching = PatternSearch(search)
        self._outline = outline
        self._tokenizer = tokenizer
        self._pool = pool
        self._passages = passages
        self._values = values

    async def __call__(self, caller: Caller, arguments: ReadArguments, tokens: int) -> ToolAnswer:
        """Returns the requested part, in at most `tokens` tokens.

        Raises:
            CoatcheckError: any error of the look-up or the use cases; `not_text` for a binary payload;
                `invalid_request` if not even the beginning of the part fits.
        """
        number = ids.parse(arguments.artifact_id)
        arguments, reading = await self._open_view(caller, number, arguments)
        if reading.binary:
            raise not_text(reading.artifact, arguments.path)

        by_line = not arguments.outline and (arguments.pattern, arguments.query, arguments.path) == (None, None, None)

        async def attempt(budget: int) -> AnswerText:
            # In an empty part, every search would only answer that nothing matches.
            if not (by_line or arguments.outline) and reading.extent.start == reading.extent.end:
                last = ["It is empty: there is nothing to find in it.", *clip_notes(arguments.notes)]
                return answer(reading, "empty", "", last)
            if arguments.pattern is not None:
                return await self._searching(reading, arguments, budget)
            if arguments.query is not None:
                return await self._answer_query(reading, arguments, budget)
            if arguments.path is not None:
                return await self._answer_values(number, reading, arguments, budget)
            if arguments.outline:
                return await self._answer_outline(reading, arguments, budget)
            return await self._lines(number, reading, arguments, budget)

        got = await fit_answer(
            attempt, tokens, self._tokenizer, self._pool, least=_MIN_LINE_TOKENS if by_line else MIN_TOKENS
        )
        if got is None:
            raise CoatcheckError(
                Code.INVALID_REQUEST, "Not even the beginning of this part fits into an answer. Read another part."
            )
        # Report only the answer that is returned: attempts that did not fit do not count as reads.
        self._view.report_read(caller, reading, got[1], *_describe_request(arguments))
        return ToolAnswer(text=got[0], tokens=got[1])

    async def _open_view(
        self, caller: Caller, number: int, arguments: ReadArguments
    ) -> tuple[ReadArguments, ViewReading]:
        """Returns the request, and the view that it reads.

        A path applies to the view that `ReadJson.open` opens. Any other request reads the raw view if `raw` is true,
        otherwise the text view.
        """
        notes = list(arguments.notes)
        if arguments.path is not None:
            if arguments.section is not None:
                notes.append("section was left out: a path applies to the whole payload.")
            arguments = structs.replace(arguments, section=None, notes=tuple(notes))
            return arguments, await self._values.open(caller, number)
        if arguments.raw:
            if arguments.section is not None:
                notes.append("section was left out: view=raw reads the whole payload.")
            arguments = structs.replace(arguments, section=None, notes=tuple(notes))
            return arguments, await self._view(caller, number, view="raw")
        arguments, reading = await self._narrow_view(caller, number, arguments)
        if arguments.path is not None:
            return arguments, reading
        section, start = reading.section, arguments.offset
        # Line 1 may stand for the beginning of the section, but not as the first line of a range before the section.
        if section is not None and start is not None and start.line < section.line:
            is_noted = start.line > 1 or (start.last is not None and start.last < section.line)
            before = f"Line {start.line} is before section {section.name}, which begins at {section.line}."
            notes += [before] if is_noted else []
        if reading.unkept:
            notes.append("Its readable text is unavailable at the moment: this is the original payload.")
        if reading.partial:
            rest = ": path reads the rest, too" if spec_of(reading.artifact.facts.kind).paths else ""
            notes.append(f"The text view ends before the payload does{rest}.")
        return structs.replace(arguments, notes=tuple(notes)), reading

    async def _narrow_view(
        self, caller: Caller, number: int, arguments: ReadArguments
    ) -> tuple[ReadArguments, ViewReading]:
        """Returns the request, and the text view narrowed to the requested section.

        The section is one of the view's own, or an entry of its outline. An entry of a JSON outline turns the request
        into one with a path, which reads the payload.
        """
        section_name = arguments.section
        if section_name is None:
            everything = arguments.outline or arguments.query is not None or _reads_from_beginning(arguments)
            return arguments, await self._view.best(caller, number, sections=everything)
        # Words such as "outline" and "contents" mean the outline, unless a section has that name.
        if section_name.strip().lower() in OUTLINE_WORDS:
            reading = await self._view.best(caller, number, sections=True)
            names = {name.casefold(): nth for nth, s in enumerate(reading.sections) for name in (s.title, s.name)}
            nth = names.get(section_name.strip().casefold())
            if nth is not None:
                return arguments, structs.replace(reading, nth=nth)
            by_line = (arguments.pattern, arguments.query) == (None, None)
            return structs.replace(arguments, section=None, outline=by_line), reading
        try:
            return arguments, await self._view.best(caller, number, section=section_name)
        except CoatcheckError as error:
            if error.code is not Code.SECTION_NOT_FOUND:
                raise
        # The view has no section of that name, but its outline may have an entry. The outline is tried last, because
        # building it takes a pass over the whole text.
        reading, entry = await self._outline.entry(await self._view.best(caller, number, sections=True), section_name)
        if reading.section is not None:
            return arguments, reading
        # An entry of a JSON outline has a path instead of lines: it can be read, but not searched.
        if entry.path is None or arguments.pattern is not None or arguments.query is not None or arguments.outline:
            advice = "Search it with pattern, without section." if entry.what == "column" else "Leave section out."
            raise CoatcheckError(
                Code.SECTION_NOT_FOUND, f"{entry.title} of {reading.artifact.id} has no lines of its own. {advice}"
            )
        arguments = structs.replace(arguments, path=entry.path, section=None, offset=None)
        return arguments, await self._view(caller, number, view="raw")

    async def _lines(self, number: int, reading: ViewReading, arguments: ReadArguments, budget: int) -> AnswerText:
        article = reading.article
        at = resolve_start(arguments.offset or ReadStart(article.first if reading.section is None else 1), reading)
        limit = arguments.limit or DEFAULT_LINES
        # If the call has no limit, a web page is read to the end of its article, not into the menus after it.
        if arguments.limit is None and reading.section is None and at.line <= article.last:
            limit = min(limit, article.last - at.line + 1)
        ask, cursor, moved = ReadRequest(offset=at.line, limit=limit, max_tokens=budget), None, list[str]()
        # An earlier answer ended inside a long line and gave this offset: continue at that byte.
        if at.inside:
            asked_for, (at, byte) = at, await _align_start(reading, at)
            if at != asked_for:
                moved.append(f"Offset {asked_for} is inside a character, so this begins at {at}.")
            ask = ReadRequest(max_tokens=budget)
            cursor = Cursor(reading.view, "line", byte, limit, limit, section=reading.nth, version=reading.version)
        got = await self._text_reader.of(reading, number, ask, cursor)
        total = got.total.lines
        if not got.total.bytes:
            return answer(reading, "empty", "", ["It is empty.", *clip_notes(arguments.notes)])
        safe_text = show(got.text)
        lines = got.window.lines
        which = f"{lines.first}-{lines.last} of {total}"
        part = f"lines {which} from {at}" if at.inside and at.line == lines.first else f"lines {which}"
        last = [f"Lines {which}{await _render_continuation(reading, got)}"]
        # The first answer about a long text names its sections, so that the model can go straight to one of them.
        if got.next is not None and _reads_from_beginning(arguments) and arguments.offset is None:
            last += _render_sections(reading)
        last += [*moved, *safe_text.notes, *clip_notes(arguments.notes)]
        body_tokens = got.tokens if safe_text.body == got.text else None
        part += within(reading, await _times(reading, got.window.bytes))
        return answer(reading, part, safe_text.body, last, tokens=body_tokens)

    async def _answer_outline(self, reading: ViewReading, arguments: ReadArguments, budget: int) -> AnswerText:
        # The tool counts entries from 1, as it counts lines.
        offset = max(0, arguments.offset.line - 1) if arguments.offset is not None else 0
        got = await self._outline.of(
            reading,
            offset=offset,
            limit=min(arguments.limit or MAX_VALUES, MAX_VALUES),
            max_tokens=max(budget, 64),
            ways=_WAYS,
        )
        if not got.entries:
            return answer(reading, "outline", "", [*got.notices, *clip_notes(arguments.notes)])
        last = [_render_ways(got), *clip_notes(arguments.notes)]
        return answer(reading, "outline", got.text, last, tokens=got.tokens)  # already safe to show

    async def _answer_query(self, reading: ViewReading, arguments: ReadArguments, budget: int) -> AnswerText:
        got = await self._passages.of(reading, arguments.query or "", min(budget, _QUERY_TOKENS), concise=True)
        on = (
            ["Best first. Read around a passage with offset, or search with pattern."]
            if got.windows
            else lacks(reading, asked_raw=arguments.raw)
        )
        last = [*on, *clip_notes(arguments.notes)]
        part = f"passages for the query{within(reading)}"
        return answer(reading, part, got.text, last, tokens=got.tokens)  # the passages are already safe to show

    async def _answer_values(
        self, number: int, reading: ViewReading, arguments: ReadArguments, budget: int
    ) -> AnswerText:
        got = await self._values.of(
            reading,
            number,
            path=arguments.path or "",
            limit=arguments.limit or MAX_VALUES,
            max_tokens=budget,
            cursor=arguments.place,
        )
        on = "That is the end." if got.next is None else f'Next: the same call with offset="{got.next}".'
        return answer(reading, "values of the path", got.text, [on, *clip_notes(arguments.notes)], tokens=got.tokens)


async def _times(reading: ViewReading, extent: Extent) -> str:
    """Returns the first and last time of lines whose times the view leaves out; empty if there are no two times."""
    if reading.fields is None:
        return ""
    head = await reading.read(extent.start, min(extent.end, extent.start + NEAR))
    tail = head if extent.end - extent.start <= NEAR else await reading.read(extent.end - NEAR, extent.end)
    return time_range(reading.fields, head, tail)


def _reads_from_beginning(arguments: ReadArguments) -> bool:
    """Returns whether the call only reads lines: it searches for nothing and names no section."""
    return not arguments.outline and (arguments.pattern, arguments.query, arguments.path, arguments.section) == (
        None,
        None,
        None,
        None,
    )


def _render_ways(got: OutlineAnswer) -> str:
    """Returns a sentence on how to read entries of an outline: by section, path or lines, as the entries have them."""
    options = (
        ("section", any(entry.section is not None or entry.lines is not None for entry in got.entries)),
        ("path", any(entry.path is not None for entry in got.entries)),
        ("offset and limit by the lines in brackets", any(entry.lines is not None for entry in got.entries)),
    )
    ways = [way for way, has in options if has]
    if not ways:
        return "Read it with offset and limit, or search it with pattern."
    return f"Read one with {', or with '.join(ways)}."


async def _align_start(reading: ViewReading, at: ReadStart) -> tuple[ReadStart, int]:
    """Returns an offset inside a line, moved back to the start of its character, and the character's byte in the view.

    Raises:
        CoatcheckError: `offset_past_end`.
    """
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
    low = max(line.byte, byte - _MAX_CHARACTER_BYTES)
    data = await reading.content.read(low, byte + 1)
    # Go back to the first byte of the character. If the offset changes, the caller adds a note for the model.
    while not separates(data, byte - low):
        byte -= 1
    return ReadStart(at.line, byte - line.byte), byte


async def _render_continuation(reading: ViewReading, got: ReadAnswer) -> str:
    """Returns the end of the sentence about the lines read: at which offset to continue, or that this is the end."""
    if got.next is None:
        return "; that is the end." if reading.section is None else _render_section_end(reading)
    if reading.section is None and got.window.lines.last == reading.article.last < got.total.lines:
        return f"; that is the end of the {main_part(reading.artifact.facts.kind)}. {_render_surroundings(reading)}"
    if got.next.unit == "line":
        return f'. Next: offset={got.next.offset}. Or pattern="…" to search.'
    last = got.window.lines.last
    line = await place_of(reading.content, Span("line", last, None))
    inside = got.next.bytes - (line.byte if line else 0)
    return f', line {last} not to its end. Next: offset="{last}+{inside}". Or pattern="…" to search.'


def _render_surroundings(reading: ViewReading) -> str:
    """Returns a sentence that names the sections around an article, with their lines."""
    descriptions = [
        f"{each.title} ({each.line}-{each.line + each.lines - 1})" for each in outer_asides(reading.sections)
    ]
    more = f" and {len(descriptions) - _NAMED_SECTIONS} more" if len(descriptions) > _NAMED_SECTIONS else ""
    return f"Around it are the sections {', '.join(descriptions[:_NAMED_SECTIONS])}{more}."


def _render_section_end(reading: ViewReading) -> str:
    """Returns the end of the sentence about the lines read if a section ends there, and names the next section."""
    section = reading.section
    following = [s for s in reading.sections if section is not None and s.start >= section.end]
    on = f" The next is {following[0].name}." if following else ""
    return f"; that is the end of section {section.name if section else ''}.{on}"


def _render_sections(reading: ViewReading) -> list[str]:
    """Returns a line that names the first sections and says how to read one; empty if there are no sections."""
    sections = reading.sections
    if not sections:
        return []
    first = next((section for section in sections if not section.aside), sections[0])
    names, budget = list[str](), _SECTION_NAMES_CHARS
    for section in sections:
        title = one_line(section.title[:_TITLE_CHARS])
        name = f"{section.name} {title}".strip()
        if len(name) + 2 > budget:
            break
        names.append(name)
        budget -= len(name) + 2
    all_of = "Sections: " if len(names) == len(sections) else f"{len(sections)} sections: "
    more = "" if len(names) == len(sections) else "; all with outline=true"
    return [f'{all_of}{", ".join(names)}{more}. Read one with section="{first.name}".']


def _describe_request(arguments: ReadArguments) -> tuple[Action, dict[str, Any]]:
    """Returns the action of a call and its parameters, for the request log."""
    if arguments.pattern is not None:
        return "search", {
            "pattern": arguments.pattern,
            "literal": arguments.literal,
            "ignore_case": arguments.ignore_case,
        }
    if arguments.query is not None:
        return "passages", {"query": arguments.query}
    if arguments.path is not None:
        return "json", {"path": arguments.path}
    if arguments.outline:
        return "outline", {}
    return "read", {
        "unit": "line",
        "offset": None if arguments.offset is None else arguments.offset.line,
        "limit": arguments.limit,
    }
