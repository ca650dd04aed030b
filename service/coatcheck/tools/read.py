"""Execute `read_artifact`: look the artifact up, ask one use case, say what part this is and how to go on.

Whatever is asked, an answer is within the bounds; everything that fails is a `CoatcheckError`, for the desk to say.
"""

from concurrent.futures import Executor
from typing import Protocol

from coatcheck.core import cursor as cursors
from coatcheck.core import ids
from coatcheck.core.artifact import Artifact, Caller
from coatcheck.core.cursor import Cursor
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.core.tokens import Tokenizer
from coatcheck.core.window import Span
from coatcheck.ports import Found
from coatcheck.tools.answers import ToolAnswer, answer, clipped, fitted, show
from coatcheck.tools.arguments import ReadArguments
from coatcheck.tools.failures import absent_feature, not_text
from coatcheck.tools.search import Searching
from coatcheck.tools.table import DEFAULT_LINES
from coatcheck.tools.values import Position
from coatcheck.usecases.asking import is_binary
from coatcheck.usecases.content import OpenContent
from coatcheck.usecases.find import Find
from coatcheck.usecases.places import place_of
from coatcheck.usecases.read import Read, ReadAnswer, ReadAsk
from coatcheck.usecases.search import MIN_TOKENS, Search

_VIEW = "raw"
_MAX_VALUES = 1_000
"""Values of one answer, of which the budget usually holds fewer."""
_LEAST = 16
"""Tokens of payload in the smallest answer."""


class Text(Protocol):
    """What the use cases of passages and values answer."""

    @property
    def text(self) -> str:
        """Within the budget, and safe to show: the use case puts lines of ours between what comes from the payload."""
        ...


class More(Text, Protocol):
    """A page of values."""

    @property
    def next(self) -> str | None:
        """The cursor of the next page."""
        ...


class FindPassages(Protocol):
    """The passages of an artifact that answer a query."""

    async def __call__(self, caller: Caller, number: int, *, query: str, max_tokens: int, view: str = "raw") -> Text:
        """At least one passage, or a sentence that there is none."""
        ...


class ReadValues(Protocol):
    """The values of a JSON artifact that a path selects."""

    async def __call__(
        self, caller: Caller, number: int, *, path: str, limit: int | None, max_tokens: int, cursor: str | None
    ) -> More:
        """As many values as fit, with their places."""
        ...


class ReadArtifact:
    """The tool."""

    def __init__(
        self,
        find: Find,
        open_content: OpenContent,
        read: Read,
        search: Search,
        tokenizer: Tokenizer,
        pool: Executor,
        passages: FindPassages | None = None,
        values: ReadValues | None = None,
    ) -> None:
        self._find = find
        self._open = open_content
        self._read = read
        self._searching = Searching(search)
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
        found = await self._find(caller, number, with_bytes=True)
        if is_binary(found.artifact):
            raise not_text(found.artifact)

        async def attempt(room: int) -> str:
            if asked.pattern is not None:
                return await self._searching(caller, number, found.artifact, asked, room)
            if asked.query is not None:
                return await self._answering(caller, number, found.artifact, asked, room)
            if asked.path is not None:
                return await self._selected(caller, number, found.artifact, asked, room)
            return await self._lines(caller, number, found, asked, room)

        by_line = (asked.pattern, asked.query, asked.path) == (None, None, None)
        got = await fitted(attempt, tokens, self._tokenizer, self._pool, least=_LEAST if by_line else MIN_TOKENS)
        if got is None:
            raise CoatcheckError(
                Code.INVALID_REQUEST, "Not even a little of this part fits into an answer. Read another part of it."
            )
        return ToolAnswer(text=got[0], tokens=got[1])

    async def _lines(self, caller: Caller, number: int, found: Found, asked: ReadArguments, room: int) -> str:
        artifact = found.artifact
        at = _from_end(asked.offset or Position(1), artifact.measure.lines)
        limit = asked.limit or DEFAULT_LINES
        ask = ReadAsk(offset=at.line, limit=limit, view=_VIEW, section=asked.section, max_tokens=room)
        if at.inside:
            cursor = await self._inside(found, number, at, limit)
            ask = ReadAsk(cursor=cursor, view=_VIEW, section=asked.section, max_tokens=room)
        got = await self._read(caller, number, ask)
        total = got.total.lines
        if not got.total.bytes:
            return answer(artifact, "empty", "", ["Lines 0-0 of 0. It is empty.", *clipped(asked.notes)])
        shown = show(got.text)
        lines = got.window.lines
        which = f"{lines.first}-{lines.last} of {total}"
        part = f"lines {which} from {at}" if at.inside and at.line == lines.first else f"lines {which}"
        last = [f"Lines {which}{await self._going_on(found, got)}", *shown.said, *clipped(asked.notes)]
        return answer(artifact, part, shown.body, last)

    async def _inside(self, found: Found, number: int, at: Position, limit: int) -> str:
        """A cursor for a place inside a line."""
        content = self._open(found)
        line = await place_of(content, Span("line", at.line, None))
        if line is None or line.byte + at.inside >= content.size:
            raise CoatcheckError(
                Code.OFFSET_PAST_END,
                f"Offset {at} is past the end: {found.artifact.id} has {found.artifact.measure.lines} lines and "
                f"{content.size} bytes. Use an offset that an answer gave, or the number of a line.",
            )
        return cursors.write(Cursor(_VIEW, "line", line.byte + at.inside, limit, limit), number)

    async def _going_on(self, found: Found, got: ReadAnswer) -> str:
        """The rest of the sentence about what was read: where it goes on, or that this is the end."""
        if got.next is None:
            return "; that is the end."
        if got.next.unit == "line":
            return f'. Next: offset={got.next.offset}. Or pattern="…" to search.'
        last = got.window.lines.last
        line = await place_of(self._open(found), Span("line", last, None))
        inside = got.next.bytes - (line.byte if line else 0)
        return f', line {last} not to its end. Next: offset="{last}+{inside}". Or pattern="…" to search.'

    async def _answering(self, caller: Caller, number: int, artifact: Artifact, asked: ReadArguments, room: int) -> str:
        if self._passages is None:
            raise absent_feature("query")
        got = await self._passages(caller, number, query=asked.query or "", max_tokens=room, view=_VIEW)
        said = [] if asked.section is None else ["section does not narrow a query."]
        last = ["Read around a passage with offset, or search with pattern.", *said, *clipped(asked.notes)]
        return answer(artifact, "passages for the query", got.text, last)  # safe to show already, under lines of ours

    async def _selected(self, caller: Caller, number: int, artifact: Artifact, asked: ReadArguments, room: int) -> str:
        if self._values is None:
            raise absent_feature("path")
        got = await self._values(
            caller,
            number,
            path=asked.path or "",
            limit=min(asked.limit or _MAX_VALUES, _MAX_VALUES),
            max_tokens=room,
            cursor=asked.place,
        )
        on = "That is the end." if got.next is None else f'Next: the same call with offset="{got.next}".'
        return answer(artifact, "values of the path", got.text, [on, *clipped(asked.notes)])


def _from_end(at: Position, lines: int) -> Position:
    """The position with its line counted from the beginning."""
    return at if at.line > 0 else Position(max(1, lines + at.line + 1))
