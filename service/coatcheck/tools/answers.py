"""The text of an answer: first line, body, last line, within bounds that none exceeds; and failures as sentences.

The body is verbatim except for what could mislead (`inert`), and for rows: a line over 2,000 characters continues in
rows that begin with a mark that no payload can contain. The last line says what was changed. A failure says what
happened and the one thing to do next, in the tool's own terms: HTTP callers get codes and parameters that the tool does
not have (`unit=byte`), which would mislead a model. Of an internal error it says only that it happened.
"""

from collections.abc import Awaitable, Callable, Iterable
from concurrent.futures import Executor
from typing import Final

from msgspec import Struct

from coatcheck.core.artifact import Artifact
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.core.media.documents import is_document
from coatcheck.core.read_answer import MAX_CHARS, first_line, has_plain_view, is_binary, is_plain
from coatcheck.core.text.count import plural
from coatcheck.core.text.excerpt import count_around
from coatcheck.core.tokens import Tokenizer
from coatcheck.core.views.window import NUMBER_LIMIT
from coatcheck.reading.view import ViewReading
from coatcheck.runtime.work_placement import count_aside
from coatcheck.tools.values import ReadStart
from coatcheck_client.contract.blobs import has_names
from coatcheck_client.contract.inert import MARK, inert, one_line

DEFAULT_TOKENS: Final = 4_000
"""Tokens of an answer if neither the model nor the host sets a bound. Chosen, not measured."""
MAX_TOKENS: Final = 8_000
"""Maximum bound in tokens that a host may request: more is read in several calls. Chosen, not measured."""
MIN_ANSWER_TOKENS: Final = 800
"""Minimum bound of an answer that a host may request: the first and last line take up to 300, and the 128 tokens that
use cases need at least can triple when they are made safe."""
ROW: Final = 2_000
"""Characters of a line after which it continues in another row."""
GOES_ON: Final = f"\n{MARK} "
"""Separates two rows of one line."""
_FRAME_TOKENS: Final = 200
"""Tokens reserved for the first and the last line."""
_MAX_ATTEMPTS: Final = 12
"""Attempts at an answer that fits: each asks for at most 95 % of what would have fitted, so two or three usually
suffice."""
_MAX_NOTES_CHARS: Final = 600
"""Maximum characters of all notes."""


class ToolAnswer(Struct, frozen=True, kw_only=True):
    """The answer to a call, whatever happened."""

    text: str
    tokens: int
    """Tokens of `text`."""
    is_error: bool = False


class ShownText(Struct, frozen=True):
    """A payload's text as a model may see it."""

    body: str
    notes: tuple[str, ...]
    """What was changed in it."""


def show(text: str) -> ShownText:
    """Returns text made safe, with long lines in rows."""
    safe = inert(text)
    changed = safe != text
    notes: list[str] = []
    if len(safe) > ROW and any(len(line) > ROW for line in safe.split("\n")):
        safe = "\n".join(_rows(line) for line in safe.split("\n"))
        notes.append(f"Rows after {MARK} continue the line above.")
    if changed:
        notes.append("Control characters or tags were changed to be safe to show.")
    return ShownText(safe, tuple(notes))


def _rows(line: str) -> str:
    if len(line) <= ROW:
        return line
    return GOES_ON.join(line[at : at + ROW] for at in range(0, len(line), ROW))


class AnswerText(Struct, frozen=True):
    """First line, body, last line."""

    first: str
    """Says what is read, and which part of it; empty if all is our own words."""
    body: str
    """The payload's text, already safe to show."""
    last: str
    """Says where to go on and what was changed, in brackets; may be empty."""
    tokens: int | None
    """Tokens of `body`, if known."""

    @property
    def text(self) -> str:
        """The whole text."""
        return f"{self.first}{self.body}{self.last}"


def answer(reading: ViewReading, part: str, body: str, last: Iterable[str], *, tokens: int | None = None) -> AnswerText:
    """Returns first line, body, and last line if there is anything to say.

    `tokens` are those of the body, if known exactly.

    Every answer has a body or a last line.
    """
    artifact, declared = reading.artifact, reading.artifact.declared
    name = declared.title or artifact.facts.title or declared.tool_name or artifact.facts.kind.value
    head = first_line(artifact.id, name, part, reading.view)
    gap = "" if not body or body.endswith("\n") else "\n"
    names = ["Encoded bytes are named; view=raw shows them."] if reading.view == "text" and has_names(body) else []
    last_line = " ".join([*last, *names])
    return AnswerText(f"{head}\n", body, f"{gap}({last_line})" if last_line else "", tokens)


def plain(text: str) -> AnswerText:
    """Returns an answer that is all our own words."""
    return AnswerText("", text, "", None)


def within(reading: ViewReading, times: str = "") -> str:
    """Returns which section is read, and which fields of its lines are not shown, as a part of a sentence.

    `times` is their range.
    """
    lines, fields = reading.lines, reading.fields
    part = f", section {reading.section.name} ({lines.first}-{lines.last})" if reading.section is not None else ""
    names = "" if fields is None else ", ".join(map(one_line, dict.fromkeys(fields.names)))
    return f"{part} without {names} ({f'{times}; ' if times else ''}view=raw shows all)" if names else part


def lacks(reading: ViewReading) -> list[str]:
    """Returns what a search of a view cannot find although it belongs to the payload, in sentences."""
    artifact = reading.artifact
    sentences: list[str] = []
    if reading.view == "raw" and not is_plain(artifact.facts):
        sentences.append("Its original bytes were searched, not the text in them: leave out view.")
    elif is_binary(artifact):
        sentences.append("Only its text was searched, not its pictures.")
    elif reading.view == "text" and not has_plain_view(artifact.facts.kind):
        sentences.append("Only its text view was searched: view=raw has the original.")
    if artifact.measure.dropped:
        sentences.append(f"{plural(artifact.measure.dropped, 'byte')} of its middle were never stored.")
    if reading.mask is not None:
        sentences.append("Masked secrets are not searched.")
    return sentences


def resolve_start(at: ReadStart, reading: ViewReading) -> ReadStart:
    """Returns a position with its line counted from the beginning of the view, and not before what is read.

    A line from the end counts from the end of the section, if one is read.

    Raises:
        CoatcheckError: `offset_past_end` for a number beyond any payload, which is not repeated.
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


def clip_notes(notes: Iterable[str]) -> list[str]:
    """Returns as many notes as there is room for."""
    clipped_notes: list[str] = []
    for note in notes:
        if sum(map(len, clipped_notes)) + len(note) > _MAX_NOTES_CHARS:
            clipped_notes.append("There were more problems with the arguments.")
            break
        clipped_notes.append(note)
    return clipped_notes


async def fit_answer(
    attempt: Callable[[int], Awaitable[AnswerText]], tokens: int, tokenizer: Tokenizer, pool: Executor, *, least: int
) -> tuple[str, int] | None:
    """Returns an answer within the bounds, and its tokens.

    Making a text safe can make it longer, so the whole answer is counted, and requested again with less in it until it
    fits. `attempt` returns an answer with at most the given tokens of payload. None if not even `least` fits.
    """
    ask = max(least, tokens - _FRAME_TOKENS)
    for _ in range(_MAX_ATTEMPTS):
        candidate = await attempt(ask)
        text = candidate.text
        # If the body's tokens are known, only the seams to the other two lines are counted.
        count = None
        if candidate.tokens is not None:
            count = count_around(candidate.first, candidate.body, candidate.tokens, candidate.last, tokenizer)
        if count is None:
            count = await count_aside(text, tokenizer, pool)
        if count <= tokens and len(text) <= MAX_CHARS:
            return text, count
        if ask == least:
            break
        # Less by the share that was too much, and a little more, because text is not spread evenly.
        share = min(tokens / count, MAX_CHARS / len(text))
        ask = max(least, int(min(ask, count) * share * 0.95) - 8)
    return None


_PASSING: Final = frozenset(
    {Code.COUNT_PENDING, Code.UPLOAD_FENCED, Code.OVERLOADED, Code.STORAGE_UNAVAILABLE, Code.SCHEMA_OUTDATED}
)
"""Failures after which the same call may succeed a little later."""
_RETRY: Final = "Retry the same call"
_LITERAL: Final = " To search for the text as it is, use literal=true."
"""Advice for HTTP callers, which the tool replaces by its own."""
_MAX_SENTENCE_CHARS: Final = 1_000
"""Maximum characters of a sentence: patterns and IDs that it repeats come from callers."""
_ELSEWHERE: Final = (
    "{} did not come from an answer. Copy it from the last answer, keep the other arguments the same, or leave "
    "it out to begin again."
)
"""For a cursor that cannot be read, with the name of the argument that holds it."""
_OWN_WORDS: Final = (
    ("`read` and `search`", "offset and pattern"),
    (_LITERAL, " Correct it, or put a backslash before each sign that is meant as it is."),
    (", or use view=raw.", "."),
    (" Or use view=raw.", ""),
)
"""What HTTP callers are told, and the tool's equivalent."""
INTERNAL: Final = (
    "Something went wrong in the artifact service; it was logged. Retry the same call once; if it fails again, go on "
    "without this artifact or run the tool again."
)
"""The whole sentence for a bug: its details stay in the log, as they may quote a payload."""


def sentence(error: CoatcheckError, *, place: str = "offset") -> str:
    """Returns the sentence for an expected failure. `place` is the argument that says where an answer continues."""
    detail = error.detail.strip()
    if error.code is Code.INTERNAL:
        return INTERNAL
    if error.code in _PASSING:
        has_retry_advice = _RETRY.lower() in detail.lower()
        # Many errors give this advice already; the sentence has it once.
        detail = detail if has_retry_advice else f"{detail} {_RETRY} in a few seconds."
    elif error.code is Code.INTEGRITY and "again" not in detail:
        detail = f"{detail} Run the tool again if you need its output."
    elif error.code is Code.INVALID_CURSOR:
        detail = _ELSEWHERE.format(place)
    for theirs, ours in _OWN_WORDS:
        detail = detail.replace(theirs, ours)
    return detail if len(detail) <= _MAX_SENTENCE_CHARS else f"{detail[: _MAX_SENTENCE_CHARS - 1]}…"


def not_text(artifact: Artifact, path: str | None = None) -> CoatcheckError:
    """Returns the error for binaries, and for a path into a document, which has a text but is not JSON."""
    media_type = artifact.facts.media_type
    if path is not None and is_document(media_type):
        message = (
            f"{artifact.id} is not JSON ({media_type}): path does not apply. Read it with section, pattern or query."
        )
        return CoatcheckError(Code.NOT_TEXT, message)
    what = artifact.declared.media_type or media_type or artifact.facts.kind.value
    return CoatcheckError(
        Code.NOT_TEXT,
        f"{artifact.id} is not text ({what}, {artifact.measure.size:,} bytes), so there are no lines to read. "
        f"A program can fetch its bytes from GET /v1/artifacts/{artifact.id}/content.",
    )


def unknown_tool(name: str, tool_names: tuple[str, ...]) -> CoatcheckError:
    """Returns the error for a call of a tool that is not ours."""
    printable_name = "".join(c if c.isprintable() else "\ufffd" for c in name[:60])
    what = f'There is no tool "{printable_name}" here.' if printable_name.strip() else "The call names no tool."
    return CoatcheckError(Code.INVALID_REQUEST, f"{what} There is {' and '.join(tool_names)}.")
