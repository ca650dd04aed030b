"""Composes the text of an answer (first line, body, last line) within its bounds, and turns errors into sentences.

The body is the payload's text, verbatim with two exceptions. Characters and tags that could mislead are replaced
(`inert`). A line over 2,000 characters is divided into rows; each further row begins with a mark that no payload can
contain. The last line says what was changed.

The sentence for an error says what happened and what to do next, in the tool's own terms. Messages for HTTP callers
name codes and parameters that the tool does not have, such as `unit=byte`, and would mislead a model. The sentence for
an internal error says only that it happened.
"""

from collections.abc import Awaitable, Callable, Iterable
from concurrent.futures import Executor
from typing import Final

from msgspec import Struct, structs

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
"""Maximum tokens of an answer if neither the model nor the host sets a bound. Chosen, not measured."""
MAX_TOKENS: Final = 8_000
"""The highest token bound that a host may set; a model reads more in several calls. Chosen, not measured."""
MIN_ANSWER_TOKENS: Final = 800
"""The lowest token bound that a host may set: the first and last line take up to 300 tokens, and the 128 tokens that
use cases need at least may become three times as many when their text is made safe."""
ROW: Final = 2_000
"""Maximum characters of a row. A longer line continues in another row."""
GOES_ON: Final = f"\n{MARK} "
"""The separator between two rows of the same line."""
_FRAME_TOKENS: Final = 200
"""Tokens of an answer's bound that are reserved for the first and the last line."""
_MAX_ATTEMPTS: Final = 12
"""Maximum attempts at an answer that fits. Two or three usually suffice: after an answer that was too long, the next
attempt aims at 95 % of the bound."""
_MAX_NOTES_CHARS: Final = 600
"""Maximum characters of all notes of an answer together."""


class ToolAnswer(Struct, frozen=True, kw_only=True):
    """The answer to a tool call, which may be the sentence for an error."""

    text: str
    tokens: int
    """Tokens of `text`."""
    is_error: bool = False


class ShownText(Struct, frozen=True):
    """A payload's text, made safe to show to a model."""

    body: str
    notes: tuple[str, ...]
    """Sentences that say what was changed in the text."""


def show(text: str) -> ShownText:
    """Returns text made safe to show, with long lines divided into rows."""
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
    """The text of an answer in three parts: first line, body, last line."""

    first: str
    """Names the artifact and the part that is read; empty if the answer shows nothing of a payload."""
    body: str
    """The payload's text, already safe to show."""
    last: str
    """Says in brackets how to continue and what was changed; may be empty."""
    tokens: int | None
    """Tokens of `body`; None: not counted."""

    @property
    def text(self) -> str:
        """The whole text."""
        return f"{self.first}{self.body}{self.last}"


def answer(reading: ViewReading, part: str, body: str, last: Iterable[str], *, tokens: int | None = None) -> AnswerText:
    """Returns an answer about a view. At least one of `body` and `last` must not be empty.

    Args:
        reading: the view that is read.
        part: which part of it the body shows, for the first line.
        body: the text, safe to show; may be empty.
        last: the sentences of the last line.
        tokens: exact number of tokens in the body; None: not counted.
    """
    artifact, declared = reading.artifact, reading.artifact.declared
    name = declared.title or artifact.facts.title or declared.tool_name or artifact.facts.kind.value
    head = first_line(artifact.id, name, part, reading.view)
    gap = "" if not body or body.endswith("\n") else "\n"
    names = ["Encoded bytes are named; view=raw shows them."] if reading.view == "text" and has_names(body) else []
    last_line = " ".join([*last, *names])
    return AnswerText(f"{head}\n", body, f"{gap}({last_line})" if last_line else "", tokens)


def plain(text: str) -> AnswerText:
    """Returns an answer that shows nothing of a payload, and so has only a body."""
    return AnswerText("", text, "", None)


def within(reading: ViewReading, times: str = "") -> str:
    """Returns a part of a sentence: which section is read, and which fields of its lines are not shown.

    `times` is the range of times in those fields; empty if they have none.
    """
    lines, fields = reading.lines, reading.fields
    part = f", section {reading.section.name} ({lines.first}-{lines.last})" if reading.section is not None else ""
    names = "" if fields is None else ", ".join(map(one_line, dict.fromkeys(fields.names)))
    return f"{part} without {names} ({f'{times}; ' if times else ''}view=raw shows all)" if names else part


def lacks(reading: ViewReading, *, asked_raw: bool) -> list[str]:
    """Returns sentences about the parts of the payload that a search of this view does not reach.

    `asked_raw`: the call asked for the raw view.
    """
    artifact = reading.artifact
    sentences: list[str] = []
    if asked_raw and reading.view == "raw" and not is_plain(artifact.facts):
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
    """Returns a position whose line counts from the beginning of the view and is not before the part that is read.

    A negative line of `at` counts from the end of the section if one is read, otherwise from the end of the view.

    Raises:
        CoatcheckError: `offset_past_end` for a number beyond the end of any payload. The message does not repeat the
            number.
    """
    first, last = reading.lines.first, reading.lines.last
    if max(at.line, at.inside) >= NUMBER_LIMIT:
        advice = f"Use an offset from {first} to {last}." if last >= first else "It is empty."
        count = plural(max(0, last - first + 1), "line")
        raise CoatcheckError(
            Code.OFFSET_PAST_END, f"The offset is far past the end: {reading.name} has {count}. {advice}"
        )
    line = at.line if at.line > 0 else last + at.line + 1
    return structs.replace(at, line=max(first, line), inside=at.inside if line >= first else 0)


def clip_notes(notes: Iterable[str]) -> list[str]:
    """Returns notes up to _MAX_NOTES_CHARS characters. If some do not fit, a last note says that there were more."""
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
    """Returns the text of an answer within the bounds, and its tokens; None if not even the smallest attempt fits.

    Text that is made safe may become longer. The tokens of the whole answer are therefore counted, and while it is too
    long, the answer is composed again with less payload.

    Args:
        attempt: composes an answer with at most the given number of tokens of payload.
        tokens: maximum tokens of the answer.
        tokenizer: counts tokens.
        pool: executor for counting long texts.
        least: tokens of payload in the smallest attempt.
    """
    budget = max(least, tokens - _FRAME_TOKENS)
    for _ in range(_MAX_ATTEMPTS):
        candidate = await attempt(budget)
        text = candidate.text
        # If the body's tokens are known, count only the other two lines and the seams between them and the body.
        count = None
        if candidate.tokens is not None:
            count = count_around(candidate.first, candidate.body, candidate.tokens, candidate.last, tokenizer)
        if count is None:
            count = await count_aside(text, tokenizer, pool)
        if count <= tokens and len(text) <= MAX_CHARS:
            return text, count
        if budget == least:
            break
        # Reduce the payload in proportion to the excess, and by a little more: tokens are not spread evenly over text.
        share = min(tokens / count, MAX_CHARS / len(text))
        budget = max(least, int(min(budget, count) * share * 0.95) - 8)
    return None


_TRANSIENT_CODES: Final = frozenset(
    {Code.COUNT_PENDING, Code.UPLOAD_FENCED, Code.OVERLOADED, Code.STORAGE_UNAVAILABLE, Code.SCHEMA_OUTDATED}
)
"""Errors after which the same call may succeed a little later."""
_RETRY: Final = "Retry the same call"
_LITERAL: Final = " To search for the text as it is, use literal=true."
"""Advice for HTTP callers, which the tool replaces by a sentence of its own."""
_MAX_SENTENCE_CHARS: Final = 1_000
"""Maximum characters of a sentence. Without a bound, a caller could make it long: it repeats patterns and IDs."""
_FOREIGN_CURSOR: Final = (
    "{} did not come from an answer. Copy it from the last answer, keep the other arguments the same, or leave "
    "it out to begin again."
)
"""Format of the sentence for an invalid cursor; `{}` is the name of the argument that has the cursor."""
_REPLACEMENTS: Final = (
    ("`read` and `search`", "offset and pattern"),
    (_LITERAL, " Correct it, or put a backslash before each sign that is meant as it is."),
    (", or use view=raw.", "."),
    (" Or use view=raw.", ""),
)
"""Pairs of advice for HTTP callers and the tool's replacement for it."""
INTERNAL: Final = (
    "Something went wrong in the artifact service; it was logged. Retry the same call once; if it fails again, go on "
    "without this artifact or run the tool again."
)
"""The whole sentence for an internal error. Its details stay in the log, because they may quote a payload."""


def sentence(error: CoatcheckError, *, place: str = "offset") -> str:
    """Returns the sentence for an error. `place` is the name of the argument in which the tool takes a cursor."""
    detail = error.detail.strip()
    if error.code is Code.INTERNAL:
        return INTERNAL
    if error.code in _TRANSIENT_CODES:
        has_retry_advice = _RETRY.lower() in detail.lower()
        # Many messages give this advice already. Do not give it twice.
        detail = detail if has_retry_advice else f"{detail} {_RETRY} in a few seconds."
    elif error.code is Code.INTEGRITY and "again" not in detail:
        detail = f"{detail} Run the tool again if you need its output."
    elif error.code is Code.INVALID_CURSOR:
        detail = _FOREIGN_CURSOR.format(place)
    for theirs, ours in _REPLACEMENTS:
        detail = detail.replace(theirs, ours)
    return detail if len(detail) <= _MAX_SENTENCE_CHARS else f"{detail[: _MAX_SENTENCE_CHARS - 1]}…"


def not_text(artifact: Artifact, path: str | None = None) -> CoatcheckError:
    """Returns the error for a binary payload, or for a `path` into a document, which has text but is not JSON."""
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
    """Returns the error for a call of a tool that the service does not have."""
    printable_name = "".join(c if c.isprintable() else "\ufffd" for c in name[:60])
    what = f'There is no tool "{printable_name}" here.' if printable_name.strip() else "The call names no tool."
    return CoatcheckError(Code.INVALID_REQUEST, f"{what} There is {' and '.join(tool_names)}.")
