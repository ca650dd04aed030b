"""The text of an answer: first line, body, last line; and the bounds that no answer exceeds.

The body is verbatim but for what could mislead (`inert`), and for rows: a line over 2,000 characters goes on in rows
that begin with the mark that no payload can write. What was changed is said in the last line.
"""

from collections.abc import Awaitable, Callable, Iterable
from concurrent.futures import Executor
from typing import Final

from msgspec import Struct

from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.core.reads.read_answer import MAX_CHARS, first_line
from coatcheck.core.text.around import count_around
from coatcheck.core.text.plural import plural
from coatcheck.core.tokens import Tokenizer
from coatcheck.core.views.window import NUMBER_LIMIT
from coatcheck.reading.view import ViewReading
from coatcheck.runtime.pool import count_aside
from coatcheck.tools.values import ReadStart
from coatcheck_client.contract.inert import MARK, inert

DEFAULT_TOKENS: Final = 4_000
MAX_TOKENS: Final = 8_000
LEAST_TOKENS: Final = 800
"""The smallest bound of an answer that a host may ask for: the first and last line take up to 300, and the 128 tokens
that the use cases need at least can become three times as many when they are made safe."""
ROW: Final = 2_000
"""Characters of a line after which it goes on in another row."""
GOES_ON: Final = f"\n{MARK} "
"""Between two rows of one line."""
_AROUND: Final = 200
"""Tokens kept for the first and the last line."""
_TRIES: Final = 12
_NOTES: Final = 600
"""Characters of all notes."""


class ToolAnswer(Struct, frozen=True, kw_only=True):
    """What a call answers, whatever happened."""

    text: str
    tokens: int
    """Of `text`."""
    is_error: bool = False


class ShownText(Struct, frozen=True):
    """A payload's text as a model may see it."""

    body: str
    said: tuple[str, ...]
    """What was done to it."""


def show(text: str) -> ShownText:
    """Text made safe, its long lines in rows."""
    safe = inert(text)
    changed = safe != text
    said: list[str] = []
    if len(safe) > ROW and any(len(line) > ROW for line in safe.split("\n")):
        safe = "\n".join(_rows(line) for line in safe.split("\n"))
        said.append(f"Rows after {MARK} continue the line above.")
    if changed:
        said.append("Control characters or tags were changed to be safe to show.")
    return ShownText(safe, tuple(said))


def _rows(line: str) -> str:
    if len(line) <= ROW:
        return line
    return GOES_ON.join(line[at : at + ROW] for at in range(0, len(line), ROW))


class AnswerText(Struct, frozen=True):
    """First line, body, last line."""

    first: str
    body: str
    last: str
    tokens: int | None
    """Of `body`, where they are known."""

    @property
    def text(self) -> str:
        """All of it."""
        return f"{self.first}{self.body}{self.last}"


def answer(reading: ViewReading, part: str, body: str, last: Iterable[str], *, tokens: int | None = None) -> AnswerText:
    """First line, body, last line, where there is anything to say. `tokens` of the body, where they are known exactly.

    Every answer has a body or a last line.
    """
    artifact, said = reading.artifact, reading.artifact.said
    name = said.title or artifact.facts.title or said.tool_name or artifact.facts.kind.value
    head = first_line(artifact.id, name, part, reading.view)
    gap = "" if not body or body.endswith("\n") else "\n"
    said_last = " ".join(last)
    return AnswerText(f"{head}\n", body, f"{gap}({said_last})" if said_last else "", tokens)


def plain(text: str) -> AnswerText:
    """An answer that is all our own words."""
    return AnswerText("", text, "", None)


def within(reading: ViewReading) -> str:
    """Which section is read, as a part of a sentence; empty for the whole view."""
    lines = reading.lines
    return f", section {reading.section.name} ({lines.first}-{lines.last})" if reading.section is not None else ""


def counted(at: ReadStart, reading: ViewReading) -> ReadStart:
    """A position with its line counted from the beginning of the view, and not before what is read.

    From the end counts from the end of the section, where one is read.

    Raises:
        CoatcheckError: `offset_past_end` for a number that nothing has as many of, which is not repeated.
    """
    first, last = reading.lines.first, reading.lines.last
    if max(at.line, at.inside) >= NUMBER_LIMIT:
        advice = f"Use an offset from {first} to {last}." if last >= first else "It is empty."
        count = plural(max(0, last - first + 1), "line")
        raise CoatcheckError(
            Code.OFFSET_PAST_END, f"The offset is far past the end: {reading.name} has {count}. {advice}"
        )
    line = at.line if at.line > 0 else last + at.line + 1
    return ReadStart(max(first, line), at.inside if line >= first else 0) if at.line < 1 or line < first else at


def clipped(notes: Iterable[str]) -> list[str]:
    """As many notes as there is room for."""
    kept: list[str] = []
    for note in notes:
        if sum(map(len, kept)) + len(note) > _NOTES:
            kept.append("There were more problems with the arguments.")
            break
        kept.append(note)
    return kept


async def fitted(
    attempt: Callable[[int], Awaitable[AnswerText]], tokens: int, tokenizer: Tokenizer, pool: Executor, *, least: int
) -> tuple[str, int] | None:
    """An answer within the bounds, and its tokens.

    What makes a text safe can make it longer, so the whole answer is counted, and asked for again with less in it until
    it fits. `attempt` answers with at most so many tokens of payload. None when not even the least fits.
    """
    ask = max(least, tokens - _AROUND)
    for _ in range(_TRIES):
        made = await attempt(ask)
        text = made.text
        count = None
        if made.tokens is not None:
            count = count_around(made.first, made.body, made.tokens, made.last, tokenizer)
        if count is None:
            count = await count_aside(text, tokenizer, pool)
        if count <= tokens and len(text) <= MAX_CHARS:
            return text, count
        if ask == least:
            break
        share = min(tokens / count, MAX_CHARS / len(text))
        ask = max(least, int(min(ask, count) * share * 0.95) - 8)
    return None
