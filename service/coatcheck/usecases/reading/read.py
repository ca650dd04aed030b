"""Read a part of an artifact within a token budget, and say where the next read continues.

A caller who follows `next.cursor` until it is null gets every byte of the artifact exactly once, even if a line has
100 MB. A read decompresses only the frames that its answer needs. Nothing is stored except the record of the read.
"""

from functools import cached_property, partial
from itertools import pairwise
from typing import Annotated, Literal

from msgspec import Meta, Struct

from coatcheck.core.artifact import Caller, LineFields
from coatcheck.core.errors import CoatcheckError, Code, invalid_request
from coatcheck.core.outline.section_names import SectionPart, nth_section
from coatcheck.core.parts.blobs import ends_inside, hidden_parts
from coatcheck.core.read_answer import (
    DEFAULT_TOKENS,
    MAX_TEXT_CHARS,
    Section,
    View,
    check_budget,
    text_budget,
    text_instead,
)
from coatcheck.core.text.visible_text import VisibleText, complete_length
from coatcheck.core.views import cursor as cursors
from coatcheck.core.views.clip import MIN_TOKENS as HEX_MIN_TOKENS
from coatcheck.core.views.clip import ROW, ClipBudget, Verbatim, clip, clip_dump, clip_tokens
from coatcheck.core.views.cursor import Cursor
from coatcheck.core.views.view import ViewName
from coatcheck.core.views.window import (
    Extent,
    Position,
    Span,
    Unit,
    Window,
    decode,
    nth_char,
    nth_newline,
    past_end,
    span,
    window,
)
from coatcheck.reading.positions import TokenPositions, at_byte, past_end_of, place_of
from coatcheck.reading.view import Reader, ViewReading
from coatcheck.runtime.work_placement import in_pool
from coatcheck_client.contract.blobs import rest_of

_HIDDEN_FETCH_BYTES = 1024 * 1024
"""Maximum bytes that are read for one answer if most of them are hidden, as in the output of a progress bar. A longer
line takes several answers."""
_BYTES_PER_TOKEN = 5
"""Bytes that a token is first assumed to have, which decides how many bytes are read. If they do not fill the budget,
four times as many are read."""
_CHAR_BYTES = 4
"""Maximum bytes of a UTF-8 character."""
_FETCH_BYTES = _CHAR_BYTES * MAX_TEXT_CHARS + 64
"""Maximum bytes that are read for one answer: less than a frame, so that an answer needs two frames at most."""
_TOKEN_UNIT_MIN_TOKENS = 16
"""Minimum token budget of a read by tokens, so that any token fits: a token that is cut out of its text may be encoded
as several."""

Stop = Literal["limit", "max_tokens", "max_characters", "end"]


class ReadRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A caller's request to read. With a cursor, offset and unit must be left out. The default unit is lines."""

    unit: Annotated[Unit, Meta(description="What offset and limit count. Default: lines.")] | None = None
    offset: (
        Annotated[int, Meta(ge=0, description="Where to begin: lines count from 1, all other units from 0.")] | None
    ) = None
    limit: Annotated[int, Meta(ge=1, description="How many. Default: as much as the budget holds.")] | None = None
    section: Section | None = None
    """The section to read; None: the whole view. An offset is counted in the view, and an offset before the section
    stands for the section's start; only tokens are counted from the section's start."""
    view: View | None = None
    """The view to read; None: the cursor's view, or without a cursor the text view if a section is given, otherwise the
    raw view."""
    cursor: (
        Annotated[str, Meta(min_length=1, max_length=512, description="`next.cursor` of the previous answer.")] | None
    ) = None
    max_tokens: Annotated[int, text_budget(1)] = DEFAULT_TOKENS


class ViewTotal(Struct, frozen=True):
    """The size of the whole view."""

    bytes: int
    chars: int
    """Number of Unicode code points, the unit of offsets in `char`."""
    lines: int
    tokens: int
    tokens_exact: bool
    """Whether `tokens` is exact; False: it is an estimate."""


class ReadNext(Struct, frozen=True):
    """The position where the answer's text ends and the next read begins, as a cursor and as an offset in `unit`.

    `unit` is the unit of the request. If a read by lines ended inside a line, `unit` is `byte`, because an offset in
    lines cannot express that position.
    """

    cursor: str
    offset: int
    unit: Unit
    bytes: int
    """The byte of the view where the next read begins, also if `unit` is not `byte`."""


class ReadAnswer(Struct, frozen=True, kw_only=True):
    """A part of an artifact, as text.

    Lines of the text view look as they did on a terminal: they have no escape sequences, and a line that was
    overwritten with carriage returns shows only its last state, after a note that says how many bytes were overwritten.
    """

    id: str
    view: ViewName
    section: SectionPart | None
    """The section that was read; None: the whole view."""
    unit: Unit
    text: str
    encoding: Literal["utf-8", "hex"] = "utf-8"
    """`utf-8`: `text` is the text itself. `hex`: `text` is a hexadecimal dump of `window.bytes`, 16 bytes a row."""
    window: Window
    total: ViewTotal
    tokens: int
    """Tokens of `text`."""
    complete: bool
    """Whether the text reaches the limit of the page, or the end of the view or section; False: the budget, or the
    maximum of characters of an answer, cut it."""
    cut: Stop
    """The reason why the text ends at this place."""
    next: ReadNext | None
    """How to continue; None: the view or section ends here."""
    partial: bool = False
    """Whether the view lacks a part of the payload that was too large or broken to be extracted; the raw view has all
    of it."""


class _Piece(Struct, frozen=True):
    """The text of an answer, with the values from which the rest of the answer is computed."""

    text: str
    tokens: int
    end: Position
    """The position where the next answer begins."""
    stop_reason: Stop
    ends_line: bool
    """Whether the last byte of the piece is a line feed."""
    extent: Extent | None = None
    """The numbers of the piece's tokens, counted from the start of the view or section; None: the unit is not
    tokens."""
    remaining: int | None = None
    """Number of units of the page that are left for the next answers; None: the request has no limit."""


class Read(Reader):
    """Reads a part of an artifact by lines, characters, bytes or tokens."""

    @cached_property
    def _tokens(self) -> TokenPositions:
        return TokenPositions(self._tokenizer, self._pool, self._clock, self._patience)

    async def __call__(self, caller: Caller, number: int, ask: ReadRequest) -> ReadAnswer:
        """Returns the text of a span of lines, characters, bytes or tokens, cut to the budget.

        Raises:
            CoatcheckError: `artifact_not_found`, `artifact_gone`, `section_not_found`, `view_not_available`,
                `not_text`, `invalid_cursor`, `invalid_request`, `offset_past_end`, `count_pending`, `integrity`; the
                errors of storage if a text view that was made for this call cannot be stored.
        """
        at = _from_cursor(ask, number) if ask.cursor is not None else None
        if at is None:
            reading = await self._view(caller, number, view=ask.view, section=ask.section)
        else:
            reading = await self._view(caller, number, view=at.view, section=at.section)
        answer = await self.of(reading, number, ask, at)
        details = {"unit": at.unit if at else ask.unit or "line", "offset": ask.offset, "limit": ask.limit}
        if at is not None:
            details = {"unit": at.unit, "from_byte": at.byte}
        self._view.report_read(caller, reading, answer.tokens, "read", details)
        return answer

    async def of(self, reading: ViewReading, number: int, ask: ReadRequest, at: Cursor | None = None) -> ReadAnswer:
        """Reads a part of a view that is open already; ignores the view and section that `ask` names.

        Args:
            reading: the open view.
            number: number of the artifact.
            ask: the request.
            at: the decoded cursor of `ask`; None: `ask` has no cursor.

        Raises:
            CoatcheckError: `not_text`, `invalid_cursor`, `invalid_request`, `offset_past_end`, `count_pending`,
                `integrity`.
        """
        extent = reading.extent
        unit: Unit = at.unit if at else ask.unit or "line"
        check_budget(ask.max_tokens, _TOKEN_UNIT_MIN_TOKENS if unit == "token" else 1)
        if reading.binary:
            _check_binary(reading, unit, ask.max_tokens)
        if at is not None:
            _check_cursor(at, ask, reading)
        requested_span = span(unit, None if at else ask.offset, ask.limit)
        # A cursor continues the page of the first request, unless the caller gives a new limit.
        page, remaining = (
            (at.page, at.page_remaining) if at and ask.limit is None else (requested_span.limit, requested_span.limit)
        )
        budget = ClipBudget(ask.max_tokens, MAX_TEXT_CHARS)
        if unit == "token":
            start, piece = await self._by_token(reading, requested_span, at, remaining, budget)
        else:
            start = await at_byte(reading.content, at.byte) if at else await _start(reading, requested_span)
            read_piece = self._hex if reading.binary else self._by_text
            piece = await read_piece(reading, start, unit, remaining, budget)
        after = Cursor(reading.view, unit, 0, page, section=reading.nth, version=reading.version)
        return await self.prepare_answer(reading, _answer(reading, number, after, start, piece, extent), ask.max_tokens)

    async def _by_text(
        self, reading: ViewReading, start: Position, unit: Unit, remaining: int | None, budget: ClipBudget
    ) -> _Piece:
        stop = reading.extent.end
        as_seen = unit == "line" and reading.view == "text"
        fields = reading.fields if as_seen else None
        # Fields are hidden only at the beginning of a line, so it matters whether the first byte begins a line.
        begins = not start.byte or await reading.content.read(start.byte - 1, start.byte) == b"\n"
        guess = budget.tokens * _BYTES_PER_TOKEN + 64
        while True:
            most = min(guess, _HIDDEN_FETCH_BYTES if as_seen else _FETCH_BYTES)
            most = min(most, remaining) if unit == "byte" and remaining is not None else most
            data = await reading.read(start.byte, start.byte + most)
            # The request's limit, the end of the bytes read, or the budget ends the answer. `clip` applies the budget.
            limit_end = _until(data, unit, remaining)
            whole = limit_end is not None or start.byte + len(data) == stop
            data = data if limit_end is None else data[:limit_end]
            by_line = unit == "line"
            # The answer must end with these bytes if no more may be read for it, even if they do not fill the budget.
            last = whole or most == _HIDDEN_FETCH_BYTES
            at_line = fields if begins else None
            render_visible = partial(_render_visible, ends=last, fields=at_line, begins=begins, is_whole=whole)
            show = render_visible if as_seen else Verbatim
            got = await in_pool(self._pool, clip, data, budget, self._tokenizer, whole=last, by_line=by_line, show=show)
            if got is not None:
                break
            # The bytes did not fill the budget, perhaps because most of them are hidden: more are read.
            guess *= 4
        piece_data = data[: got.end]
        end = start.after(piece_data)
        # If the answer ends inside hidden encoded bytes, the next answer begins after them, because the rest alone
        # could not be recognised as encoded bytes.
        if as_seen and not whole and got.end == len(data) and ends_inside(data, begins=begins):
            end = await _after_blob(reading, end)
        stop_reason: Stop = got.limited_by or ("end" if end.byte == stop else "limit" if whole else "max_characters")
        return _Piece(
            got.text,
            got.tokens,
            end,
            stop_reason,
            piece_data.endswith(b"\n"),
            None,
            _count_left(unit, remaining, start, end),
        )

    async def _hex(
        self, reading: ViewReading, start: Position, unit: Unit, remaining: int | None, budget: ClipBudget
    ) -> _Piece:
        most = min(budget.tokens, MAX_TEXT_CHARS // ROW) * ROW
        data = await reading.read(start.byte, start.byte + (most if remaining is None else min(remaining, most)))
        shown_size, text, tokens, stop_reason = await in_pool(
            self._pool, clip_dump, data, start.byte, budget, self._tokenizer
        )
        data = data[:shown_size]
        end = start.after(data)
        at_end = end.byte == reading.extent.end
        stop: Stop = stop_reason or ("end" if at_end else "limit" if remaining == shown_size else "max_characters")
        return _Piece(text, tokens, end, stop, data.endswith(b"\n"), None, _count_left(unit, remaining, start, end))

    async def _by_token(
        self, reading: ViewReading, span: Span, at: Cursor | None, remaining: int | None, budget: ClipBudget
    ) -> tuple[Position, _Piece]:
        part = _Part(reading)
        first = at.token if at else span.offset
        if part.size == 0 and first == 0:
            empty = await at_byte(reading.content, part.start)
            return empty, _Piece("", 0, empty, "end", ends_line=False, extent=Extent(0, 0))
        if first >= part.size:  # a token has at least one byte, so no token need be counted
            raise past_end(span, reading.name, part.tokens)
        want = min(remaining or budget.tokens, budget.tokens)
        progress = await self._tokens.reach(part, first + want)
        # Reading begins at the checkpoint before the first token, because tokens can be counted only from a checkpoint.
        begin = progress.before(first)
        cuts = progress.between(begin.byte, first + want)
        data = await part.read(begin.byte, cuts[-1])
        pieces = [data[a - begin.byte : b - begin.byte] for a, b in pairwise([begin.byte, *cuts])]
        got = await in_pool(self._pool, clip_tokens, pieces, first - begin.tokens, want, budget, self._tokenizer)
        # All tokens have been counted by now, and the offset is past the last one.
        if got is None:
            raise past_end(span, reading.name, progress.last.tokens)
        start = await at_byte(reading.content, part.start + begin.byte + got.start)
        piece_data = data[got.start : got.end]
        end = start.after(piece_data)
        extent = Extent(first, first + got.count)
        is_limit_reached = remaining is not None and got.count >= remaining
        at_end = end.byte == part.start + part.size
        stop_reason: Stop = "end" if at_end else "limit" if is_limit_reached else got.limited_by or "max_tokens"
        rest = None if remaining is None else max(0, remaining - got.count)
        return start, _Piece(got.text, got.tokens, end, stop_reason, piece_data.endswith(b"\n"), extent, rest)


class _Part:
    """The view or section that is read by tokens, which are counted from its own beginning."""

    def __init__(self, reading: ViewReading) -> None:
        self._reading = reading
        extent = reading.extent
        self.start = extent.start
        self.size = extent.end - extent.start
        whole = reading.section is None
        self.key = reading.content.blob.id if whole else f"{reading.content.blob.id} {extent.start} {extent.end}"

    @property
    def tokens(self) -> int:
        """Estimated number of tokens of the whole part."""
        if self._reading.section is None:
            return self._reading.measure.tokens.count
        return self._reading.measure.tokens.count * self.size // max(1, self._reading.measure.size)

    async def read(self, start: int, end: int) -> bytes:
        return await self._reading.read(self.start + start, self.start + end)


async def _after_blob(reading: ViewReading, at: Position) -> Position:
    """Returns the position where the encoded bytes around `at` end. A read that was cut inside them continues there."""
    while block := await reading.read(at.byte, at.byte + _HIDDEN_FETCH_BYTES):
        rest = rest_of(block)
        at = at.after(block[:rest])
        if rest < len(block):
            break
    return at


async def _start(reading: ViewReading, span: Span) -> Position:
    """Returns the position where a span begins; the section's start if the span begins before the section."""
    extent = reading.extent
    place = await place_of(reading.content, span)
    # An offset is counted in the view, so an offset before the section is not an error.
    if place is not None and place.byte < extent.start:
        return await at_byte(reading.content, extent.start)
    if place is None or (place.byte >= extent.end and span.offset > span.first):
        raise await past_end_of(reading, span)
    return place


def _check_binary(reading: ViewReading, unit: Unit, max_tokens: int) -> None:
    if unit != "byte":
        raise CoatcheckError(
            Code.NOT_TEXT,
            f"{reading.artifact.id} is not text. {text_instead(reading.artifact)}"
            "Use unit=byte for a hexadecimal dump, or "
            f"GET /v1/artifacts/{reading.artifact.id}/content for its bytes.",
        )
    check_budget(max_tokens, HEX_MIN_TOKENS)


def _from_cursor(ask: ReadRequest, number: int) -> Cursor:
    at = cursors.read(ask.cursor or "", number)
    if ask.offset is not None or (ask.unit is not None and ask.unit != at.unit):
        raise invalid_request("A cursor says where to read and in which unit: give it without offset and unit.")
    return at


def _check_cursor(at: Cursor, ask: ReadRequest, reading: ViewReading) -> None:
    """Checks that a cursor fits the view and section of the request, and that it points into the part that is read.

    Raises:
        CoatcheckError: `invalid_cursor`.
    """
    section = reading.section.name if reading.section else None
    requested_nth = at.section if ask.section is None else nth_section(reading.sections, ask.section)
    if (
        ask.view not in {None, at.view}
        or requested_nth != at.section
        or (ask.section is not None and requested_nth is None)
    ):
        where = f"view {at.view}, {f'section {section}' if section else 'no section'}"
        raise CoatcheckError(
            Code.INVALID_CURSOR, f"This cursor belongs to {where}. Give it without view and section, or leave it out."
        )
    if at.version != reading.version:
        raise CoatcheckError(
            Code.INVALID_CURSOR,
            f"The text view of {reading.artifact.id} was made anew since this cursor was given. Read from an offset.",
        )
    if not reading.extent.start <= at.byte < reading.extent.end:
        raise CoatcheckError(Code.INVALID_CURSOR, "This cursor points past the end. Read from an offset.")


def _render_visible(data: bytes, *, ends: bool, fields: LineFields | None, begins: bool, is_whole: bool) -> VisibleText:
    """Returns bytes as an answer shows them: without escape sequences, hidden fields and encoded bytes.

    Args:
        data: the bytes.
        ends: whether the answer must end with these bytes.
        fields: the fields that are hidden at the beginning of a line; None: no field is hidden.
        begins: whether the first byte begins a line.
        is_whole: whether the view, section or limit ends with these bytes.
    """
    # If more bytes may follow, a character, escape sequence or field that is cut at the end is left for the next read.
    if not ends:
        data = data[: complete_length(data)]
        data = data if fields is None else data[: data.rfind(b"\n") + 1 or len(data)]
    apart = hidden_parts(fields, data, begins=begins, ends=is_whole)
    if not ends and apart and apart[-1][0] > 0 and apart[-1][1] == len(data):  # its end was not read
        data = data[: apart.pop()[0]]
    return VisibleText(data, [(start, end, decode(replacement)) for start, end, replacement in apart])


def _until(data: bytes, unit: Unit, remaining: int | None) -> int | None:
    """Returns the byte of `data` at which the remaining units end; None if `data` has fewer units."""
    if remaining is None:
        return None
    if unit == "byte":
        return remaining if remaining <= len(data) else None
    if unit == "line":
        at = nth_newline(data, remaining - 1)
        return at + 1 if at >= 0 else None
    at = nth_char(data, remaining)
    return at if at >= 0 else None


def _count_left(unit: Unit, remaining: int | None, start: Position, end: Position) -> int | None:
    """Returns how many units remain after the bytes from `start` to `end`; None if there is no limit."""
    if remaining is None:
        return None
    lengths = {"line": end.newlines - start.newlines, "char": end.chars - start.chars}
    return max(0, remaining - lengths.get(unit, end.byte - start.byte))


def _answer(
    reading: ViewReading, number: int, after: Cursor, start: Position, piece: _Piece, extent: Extent
) -> ReadAnswer:
    view = reading.measure
    end = piece.end
    # If the budget cut a page short, the cursor keeps the number of units that the page still has, so that the next
    # pages begin where they would have begun.
    complete = piece.stop_reason in {"limit", "end"}
    following = None
    # The cursor contains everything that the next call needs: the service keeps no state between two pages.
    if end.byte < extent.end:
        token = piece.extent.end if piece.extent else 0
        remaining = after.page if complete else piece.remaining
        at = Cursor(after.view, after.unit, end.byte, after.page, remaining, token, after.section, after.version)
        unit, offset = _offset(after.unit, end, token, ends_line=piece.ends_line)
        following = ReadNext(cursors.write(at, number), offset, unit, end.byte)
    return ReadAnswer(
        id=reading.artifact.id,
        view=reading.view,
        section=reading.part,
        unit=after.unit,
        text=piece.text,
        encoding="hex" if reading.binary else "utf-8",
        window=window(start, end, ends_line=piece.ends_line, tokens=piece.extent),
        total=ViewTotal(view.size, view.chars, view.lines, view.tokens.count, view.tokens.exact),
        tokens=piece.tokens,
        complete=complete,
        cut=piece.stop_reason,
        next=following,
        partial=reading.partial,
    )


def _offset(unit: Unit, end: Position, token: int, *, ends_line: bool) -> tuple[Unit, int]:
    """Returns the unit and offset at which the next read begins; in bytes if `unit` cannot express the position."""
    if unit == "token":
        return unit, token
    if unit == "line" and ends_line:
        return unit, end.newlines + 1
    if unit == "char":
        return unit, end.chars
    return "byte", end.byte
