"""List the parts of an artifact and where they begin: headings, symbols, files or keys. So a caller can read one part.

The entries are the sections of the text view. If the text view has no sections, or has other parts besides, the
artifact's kind decides which entries are looked for, in one pass over the lines that is bounded in time and size.
Nothing is stored except the record of the read, and a text view that had to be made.
"""

from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from coatcheck.core.artifact import Artifact, Caller, Kind
from coatcheck.core.errors import CoatcheckError, Code, invalid_request
from coatcheck.core.kinds.spec import spec_of
from coatcheck.core.outline.line_scanner import LineScanner, times
from coatcheck.core.outline.model import Landmarks, OutlineEntries, OutlineEntry, OutlineReader, OutlineScanner
from coatcheck.core.outline.render import MIN_TOKENS, RenderedOutline, choose_entry, render, section_of
from coatcheck.core.outline.section_names import SectionPart, of_sections
from coatcheck.core.read_answer import DEFAULT_TOKENS, MAX_TEXT_CHARS, SearchedBytes, check_budget
from coatcheck.core.text.count import plural
from coatcheck.core.views.clip import ClipBudget
from coatcheck.core.views.view import Section, ViewName
from coatcheck.core.views.window import NUMBER_LIMIT, Extent, LineExtent, Position, span
from coatcheck.reading.positions import at_byte, place_of
from coatcheck.reading.view import Reader, ViewReading
from coatcheck.runtime.work_placement import in_pool
from coatcheck.storing.content import BLOCK_BYTES

MAX_LIMIT: Final = 1_000
"""Maximum entries of one answer; usually the token budget allows fewer."""
SCAN_BYTES: Final = 64 * 1024 * 1024
"""Maximum bytes in which entries are looked for."""
_LINE_BYTES: Final = 64 * 1024
"""Length in bytes beyond which a line without an end is passed to the scanner in pieces."""
_HEAD_BYTES: Final = 256 * 1024
"""How many bytes are read from the beginning to choose a scanner, or to list the parts of a document that is too large
to be read whole. As many are read from each end of a log to find its time span."""

_LINE_HEAD_BYTES: Final = 1024 * 1024
"""How many bytes are read if the first line is longer than that. Reading by path distinguishes JSON lines from a single
document by as many."""


class Ways(Struct, frozen=True, kw_only=True):
    """How an answer tells its reader to continue, in the words of the interface that the reader uses."""

    more: str
    """How to request the remaining entries, with `{}` in place of the offset."""
    first: int
    """The offset of the first entry: 0 or 1."""
    rest: str
    """A sentence that says where to find the part of the payload that the view lacks; empty: no such sentence is
    wanted."""


_WAYS: Final = Ways(more="offset={}", first=0, rest="This view lacks a part of the payload; view=raw has it.")


class OutlineAnswer(Struct, frozen=True, kw_only=True):
    """What is in an artifact and where."""

    id: str
    view: ViewName
    """The view that lines and bytes refer to: read the entries in the same view."""
    section: SectionPart | None
    """The section whose entries are listed; None: the whole view."""
    kind: Kind
    text: str
    """The text for a model: one line for each entry."""
    tokens: int
    """Tokens of `text`."""
    entries: list[OutlineEntry]
    total: int
    """Number of entries that were found."""
    total_exact: bool
    """False: only a part was searched, so there may be more entries, or the last entry may be longer."""
    next: int | None
    """The offset with which the same call continues; None: these are the last entries."""
    searched: SearchedBytes
    partial: bool
    """Whether only a part of the view was searched, or the view lacks a part of the payload."""
    notices: list[str]
    message: str | None
    """A sentence that says why there is nothing to show; None: there are entries."""


class Outline(Reader):
    """Lists the parts of an artifact and where they are."""

    async def __call__(
        self,
        caller: Caller,
        number: int,
        *,
        section: str | None = None,
        offset: int = 0,
        limit: int | None = None,
        max_tokens: int = DEFAULT_TOKENS,
    ) -> OutlineAnswer:
        """Returns the entries of an artifact, or of one of its sections.

        Args:
            caller: the caller.
            number: number of the artifact.
            section: name of the section; None: the whole artifact.
            offset: number of the first entry to return, counted from 0.
            limit: maximum entries, 1 to 1,000; None: as many as the budget allows, at most 1,000.
            max_tokens: token budget of the text.

        Raises:
            CoatcheckError: `artifact_not_found`, `artifact_gone`, `section_not_found`, `offset_past_end`,
                `invalid_request`, `integrity`; the errors of storage if a text view that was made for this call cannot
                be stored.
        """
        _check(offset, limit, max_tokens)
        reading = await self._view.best(caller, number, section=section, sections=True)
        answer = await self.of(reading, offset=offset, limit=limit, max_tokens=max_tokens, ways=_WAYS)
        self._view.report_read(caller, reading, answer.tokens, "outline", {"offset": offset or None})
        return answer

    async def of(
        self, reading: ViewReading, *, offset: int, limit: int | None, max_tokens: int, ways: Ways
    ) -> OutlineAnswer:
        """Lists the entries of a view that is open already; `ways` says how the answer tells its reader to continue.

        Raises:
            CoatcheckError: `offset_past_end`, `integrity`.
        """
        # All entries are found first, because the total and the check of the offset need the number of all entries.
        outline_entries, searched_bytes = await self._entries(reading)
        notices = list(outline_entries.notices)
        size = reading.extent.end - reading.extent.start
        if reading.unkept:
            notices.append("Its text view is unavailable at the moment, so its sections are not known.")
        if reading.partial and ways.rest:
            notices.append(ways.rest)
        message = None if outline_entries.entries else _nothing(reading)
        if not outline_entries.entries:
            notices.insert(0, message or "")
        elif offset >= len(outline_entries.entries):
            raise _past_end(reading, offset, len(outline_entries.entries), ways.first)
        # Rendering decides how many entries fit into the budget, which decides `next` and the returned entries.
        budget, most, more = ClipBudget(max_tokens, MAX_TEXT_CHARS), limit or MAX_LIMIT, ways.more
        rendered: RenderedOutline = await in_pool(
            self._pool,
            render,
            outline_entries.entries,
            offset,
            most,
            budget,
            self._tokenizer,
            notices,
            more=more,
            origin=ways.first,
        )
        end = offset + rendered.entry_count
        answer = OutlineAnswer(
            id=reading.artifact.id,
            view=reading.view,
            section=reading.part,
            kind=reading.artifact.facts.kind,
            text=rendered.text,
            tokens=rendered.tokens,
            entries=outline_entries.entries[offset:end],
            total=len(outline_entries.entries),
            total_exact=outline_entries.exact,
            next=end if end < len(outline_entries.entries) else None,
            searched=SearchedBytes(searched_bytes, size),
            partial=searched_bytes < size or reading.partial or not outline_entries.exact,
            notices=notices,
            message=message,
        )
        return await self.prepare_answer(reading, answer, max_tokens)

    async def entry(self, reading: ViewReading, name: str) -> tuple[ViewReading, OutlineEntry]:
        """Finds an entry of a view's outline by its name.

        Returns the view and the entry. If the entry has lines, the returned view is narrowed to these lines.

        Raises:
            CoatcheckError: `section_not_found`, with the names of entries that the caller perhaps meant; `integrity`.
        """
        outline_entries, _ = await self._entries(reading)
        number = choose_entry(outline_entries.entries, name, reading.artifact.id)
        sections, nth = section_of(outline_entries.entries, number)
        return (reading if nth is None else replace(reading, sections=sections, nth=nth)), outline_entries.entries[
            number
        ]

    async def _entries(self, reading: ViewReading) -> tuple[OutlineEntries, int]:
        """Returns the entries, and how many bytes were searched to find them."""
        extent = reading.extent
        size = extent.end - extent.start
        sections = _within(reading)
        if reading.binary or not size:
            return OutlineEntries([]), size
        landmarks: Landmarks = spec_of(reading.artifact.facts.kind).landmarks
        # Sections of the text view are more reliable than a scan of the lines, so the lines are not scanned as well.
        has_all = reading.sections_end or not sections
        lacking = () if has_all else ("Only the beginning was looked through for sections.",)
        if sections and not landmarks.beside_sections:
            return OutlineEntries(of_sections(sections), has_all, lacking), size
        if landmarks.structure is not None:
            shape, searched_bytes = await self._structure(reading, landmarks.structure, landmarks.whole_bytes)
            entries, notices = [*of_sections(sections), *shape.entries], (*shape.notices, *lacking)
            return OutlineEntries(entries, shape.exact and has_all, notices), searched_bytes
        head = await reading.read(extent.start, extent.start + _HEAD_BYTES)
        scanner = landmarks.scanner(_names(reading.artifact), head)
        return (OutlineEntries([]), size) if scanner is None else await self._scan(reading, scanner)

    async def _structure(
        self, reading: ViewReading, read_outline: OutlineReader, whole_bytes: int | None
    ) -> tuple[OutlineEntries, int]:
        """Returns the entries of a structure such as JSON, and how many bytes were searched to find them."""
        extent = reading.extent
        size = extent.end - extent.start
        # A small document is read whole, which makes the entries exact. Of a large document only the beginning is read.
        whole = whole_bytes is not None and size <= whole_bytes
        head = await reading.read(extent.start, extent.end if whole else extent.start + _HEAD_BYTES)
        if not whole and b"\n" not in head:
            head = await reading.read(extent.start, extent.start + _LINE_HEAD_BYTES)
        lines = reading.lines.last - reading.lines.first + 1
        outline_entries = await in_pool(self._pool, read_outline, head, lines, whole=whole)
        entries = [await _place(reading, entry) for entry in outline_entries.entries]
        return replace(outline_entries, entries=entries), size if whole_bytes is None else len(head)

    async def _scan(self, reading: ViewReading, scanner: OutlineScanner) -> tuple[OutlineEntries, int]:
        """Feeds the lines to the scanner until the end, the deadline or `SCAN_BYTES`, or until the scanner is full.

        Returns the entries, and how many bytes were searched.
        """
        extent = reading.extent
        # The first block is scanned even after the deadline, so that lack of time alone never makes an answer empty.
        deadline = self._clock() + self._patience
        stop = min(extent.end, extent.start + SCAN_BYTES)
        place = await at_byte(reading.content, extent.start)
        at, carry, ends_line = extent.start, b"", True
        while at < stop and not scanner.full and (at == extent.start or self._clock() < deadline):
            block = await reading.read(at, min(stop, (at // BLOCK_BYTES + 1) * BLOCK_BYTES))
            at += len(block)
            data = carry + block
            boundary = len(data) if at == extent.end else data.rfind(b"\n") + 1
            # A very long line is passed to the scanner in pieces, so that it does not fill the memory.
            if not boundary and len(data) > _LINE_BYTES:
                boundary = len(data)
            ends_line = data[:boundary].endswith(b"\n")
            # Only whole lines are passed to the scanner; the beginning of the next line waits in `carry`.
            place, carry = await in_pool(self._pool, _feed_scanner, scanner, data[:boundary], place), data[boundary:]
        end = place.after(carry)
        entries = await in_pool(self._pool, scanner.finish, end, ends_line=ends_line and not carry)
        whole = at == extent.end and not scanner.full
        notices: list[str] = []
        if not whole:
            searched_bytes = at - extent.start
            notices.append(f"Only the first {searched_bytes:,} of {extent.end - extent.start:,} bytes were looked at.")
        # The outline of a log also gives its time span, which is read from its beginning and its end.
        if isinstance(scanner, LineScanner) and scanner.what == "phase":
            head = await reading.read(extent.start, extent.start + _HEAD_BYTES)
            time_note = times(head, await reading.read(extent.end - _HEAD_BYTES, extent.end))
            notices += [time_note] if time_note else []
        return OutlineEntries(entries, whole, tuple(notices)), at - extent.start


async def _place(reading: ViewReading, entry: OutlineEntry) -> OutlineEntry:
    """Returns an entry with its lines and bytes in the view; its own lines count from the beginning of what is read.

    An entry without lines, or that has bytes already, is returned as it is.
    """
    if entry.lines is None or entry.bytes is not None:
        return entry
    before = reading.lines.first - 1
    lines = LineExtent(entry.lines.first + before, entry.lines.last + before)
    start = await place_of(reading.content, span("line", lines.first, None))
    if start is None:
        return replace(entry, lines=lines)
    following = await place_of(reading.content, span("line", lines.last + 1, None))
    end = reading.extent.end if following is None else following.byte
    return replace(entry, lines=lines, bytes=Extent(start.byte, end))


def _feed_scanner(scanner: OutlineScanner, data: bytes, place: Position) -> Position:
    scanner.feed(data, place)
    return place.after(data)


def _names(artifact: Artifact) -> tuple[str | None, ...]:
    """Returns the titles and URLs of an artifact, by which a scanner may recognise the language of source code."""
    return artifact.declared.title, artifact.facts.title, artifact.declared.url, artifact.facts.url


def _within(reading: ViewReading) -> tuple[Section, ...]:
    """Returns all sections of the view; if one section is read, only the sections inside it."""
    outer = reading.section
    if outer is None:
        return reading.sections
    return tuple(s for s in reading.sections if outer.start <= s.start and s.end <= outer.end and s.level > outer.level)


def _nothing(reading: ViewReading) -> str:
    if reading.binary:
        what = (
            reading.artifact.declared.media_type
            or reading.artifact.facts.media_type
            or reading.artifact.facts.kind.value
        )
        return f"No outline: {reading.artifact.id} is not text ({what})."
    if reading.extent.start == reading.extent.end:
        return "No outline: it is empty."
    return (
        "No outline: it has no headings or other parts that are known. Read it by lines, or search it with a pattern."
    )


def _past_end(reading: ViewReading, offset: int, total: int, first: int) -> CoatcheckError:
    subject = f"Offset {offset + first} is past" if offset + first < NUMBER_LIMIT else "The offset is far past"
    last = f"from {first} to {total - 1 + first}" if total > 1 else f"of {first}"
    return CoatcheckError(
        Code.OFFSET_PAST_END,
        f"{subject} the end: {reading.name} has {plural(total, 'entry', 'entries')}. Use an offset {last}, or leave it "
        "out.",
        total=total,
    )


def _check(offset: int, limit: int | None, max_tokens: int) -> None:
    check_budget(max_tokens, MIN_TOKENS)
    if offset < 0:
        raise invalid_request("offset is the number of entries to skip: 0 or more.", parameter="offset")
    if limit is not None and not 1 <= limit <= MAX_LIMIT:
        raise invalid_request(f"limit must be 1 to {MAX_LIMIT:,}.", parameter="limit")
