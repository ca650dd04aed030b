"""Say what is in an artifact and where, so that the right part of it can be read: headings, symbols, files, keys.

Sections come from the text view; where it has none, the kind decides what is looked for, in one pass over the lines
within a time limit and a size. It changes nothing but the note of a read, and keeps a text view that it had to make.
"""

from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from coatcheck.core.artifact import Artifact, Caller, Kind
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.core.kinds.spec import spec_of
from coatcheck.core.outline.model import Entry, Landmarks, OutlineEntries, OutlineReader, OutlineScanner
from coatcheck.core.outline.narrow import chosen, section_of
from coatcheck.core.outline.output import Phases, times
from coatcheck.core.outline.render import MIN_TOKENS, RenderedOutline, render
from coatcheck.core.outline.section_names import SectionPart
from coatcheck.core.outline.sections import of_sections
from coatcheck.core.reads.read_bounds import DEFAULT_TOKENS, MAX_CHARS, ViewName, check_budget
from coatcheck.core.text.plural import plural
from coatcheck.core.views.clip import ClipBudget
from coatcheck.core.views.view import Section
from coatcheck.core.views.window import NUMBER_LIMIT, Position
from coatcheck.reading.byte_positions import at_byte
from coatcheck.reading.reader import Reader
from coatcheck.reading.view import ViewReading
from coatcheck.runtime.pool import in_pool
from coatcheck.storing.content import BLOCK_BYTES

MAX_LIMIT: Final = 1_000
"""Entries of one answer; the budget usually holds fewer."""
SCAN_BYTES: Final = 64 * 1024 * 1024
"""Bytes whose lines are looked at."""
_LINE: Final = 64 * 1024
"""Bytes of a line above which it is passed over: it begins nothing."""
_HEAD: Final = 256 * 1024
"""Bytes of the beginning by which a structure, or a scanner, is chosen."""


class Looked(Struct, frozen=True):
    """How much of the view, or of the section, was looked at, from its beginning on."""

    bytes: int
    total: int


class Ways(Struct, frozen=True, kw_only=True):
    """How who asks reads on, in its own words."""

    more: str
    """The rest of the entries, with `{}` for the offset."""
    rest: str
    """Where the part of the payload is that the view lacks: a sentence, or nothing where who asks says it."""


_WAYS: Final = Ways(more="offset={}", rest="This view lacks a part of the payload; view=raw has it.")


class OutlineAnswer(Struct, frozen=True, kw_only=True):
    """What is in an artifact and where."""

    id: str
    view: ViewName
    """Of which the lines and bytes are: read them with the same view."""
    section: SectionPart | None
    """What was looked at; None: the whole view."""
    kind: Kind
    text: str
    """What a model reads: one line for each entry."""
    tokens: int
    """Of `text`."""
    entries: list[Entry]
    total: int
    """Entries that were found."""
    total_exact: bool
    """False: there may be more, or they may reach further; not all was looked at."""
    next: int | None
    """The offset with which the same call goes on; None at the end."""
    looked: Looked
    partial: bool
    """Not all was looked at, or the view lacks a part of the payload."""
    notices: list[str]
    message: str | None
    """A sentence where there is nothing to show."""


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
        """The entries of an artifact, or of a section of it, from number `offset` (from 0) on.

        Raises:
            CoatcheckError: `artifact_not_found`, `artifact_gone`, `section_not_found`, `invalid_request`,
                `integrity`; what storage says when a text view that was made now cannot be kept.
        """
        _check(offset, limit, max_tokens)
        reading = await self._view.best(caller, number, section=section, sections=True)
        answer = await self.of(reading, offset=offset, limit=limit, max_tokens=max_tokens, ways=_WAYS)
        self._view.told(caller, reading, answer.tokens, "outline", {"offset": offset or None})
        return answer

    async def of(
        self, reading: ViewReading, *, offset: int, limit: int | None, max_tokens: int, ways: Ways
    ) -> OutlineAnswer:
        """Lists the parts of an open view; `ways` says how the answer tells the reader to go on.

        Raises:
            CoatcheckError: `offset_past_end`, `integrity`.
        """
        found, looked = await self._entries(reading)
        notices = list(found.notices)
        size = reading.extent.end - reading.extent.start
        if reading.unkept:
            notices.append("Its text view is unavailable at the moment, so its sections are not known.")
        if reading.partial and ways.rest:
            notices.append(ways.rest)
        message = None if found.entries else _nothing(reading)
        if not found.entries:
            notices.insert(0, message or "")
        elif offset >= len(found.entries):
            raise _past_end(reading, offset, len(found.entries))
        budget, most, more = ClipBudget(max_tokens, MAX_CHARS), limit or MAX_LIMIT, ways.more
        shown: RenderedOutline = await in_pool(
            self._pool, render, found.entries, offset, most, budget, self._tokenizer, notices, more=more
        )
        end = offset + shown.shown
        answer = OutlineAnswer(
            id=reading.artifact.id,
            view=reading.view,
            section=reading.part,
            kind=reading.artifact.facts.kind,
            text=shown.text,
            tokens=shown.tokens,
            entries=found.entries[offset:end],
            total=len(found.entries),
            total_exact=found.exact,
            next=end if end < len(found.entries) else None,
            looked=Looked(looked, size),
            partial=looked < size or reading.partial or not found.exact,
            notices=notices,
            message=message,
        )
        return await self.shown(reading, answer, max_tokens)

    async def entry(self, reading: ViewReading, wanted: str) -> tuple[ViewReading, Entry]:
        """Returns the entry of a view's outline that `wanted` means, and the view narrowed to it, if it has lines.

        Raises:
            CoatcheckError: `section_not_found`, naming those that may be meant, `integrity`.
        """
        found, _ = await self._entries(reading)
        number = chosen(found.entries, wanted, reading.artifact.id)
        sections, nth = section_of(found.entries, number)
        return (reading if nth is None else replace(reading, sections=sections, nth=nth)), found.entries[number]

    async def _entries(self, reading: ViewReading) -> tuple[OutlineEntries, int]:
        """The entries, and how many bytes were looked at for them."""
        extent = reading.extent
        size = extent.end - extent.start
        sections = _within(reading)
        if reading.binary or not size:
            return OutlineEntries([]), size
        marks: Landmarks = spec_of(reading.artifact.facts.kind).landmarks
        if sections and not marks.beside_sections:
            lacking = () if reading.sections_end else ("Only the beginning was looked through for sections.",)
            return OutlineEntries(of_sections(sections), reading.sections_end, lacking), size
        if marks.structure is not None:
            shape, looked = await self._structure(reading, marks.structure, marks.whole_bytes)
            return OutlineEntries([*of_sections(sections), *shape.entries], shape.exact, shape.notices), looked
        head = await reading.read(extent.start, extent.start + _HEAD)
        scanner = marks.scanner(_names(reading.artifact), head)
        return (OutlineEntries([]), size) if scanner is None else await self._scan(reading, scanner)

    async def _structure(
        self, reading: ViewReading, read: OutlineReader, whole_bytes: int | None
    ) -> tuple[OutlineEntries, int]:
        """The entries of a structure, and how many bytes they speak of."""
        extent = reading.extent
        size = extent.end - extent.start
        whole = whole_bytes is not None and size <= whole_bytes
        head = await reading.read(extent.start, extent.end if whole else extent.start + _HEAD)
        lines = reading.lines.last - reading.lines.first + 1
        found = await in_pool(self._pool, read, head, lines, whole=whole)
        return found, size if whole_bytes is None else len(head)

    async def _scan(self, reading: ViewReading, scanner: OutlineScanner) -> tuple[OutlineEntries, int]:
        """Feed the lines, until their end, the deadline, or more than is looked at."""
        extent = reading.extent
        deadline = self._clock() + self._patience
        stop = min(extent.end, extent.start + SCAN_BYTES)
        place = await at_byte(reading.content, extent.start)
        at, carry, ends_line = extent.start, b"", True
        while at < stop and not scanner.full and (at == extent.start or self._clock() < deadline):
            block = await reading.read(at, min(stop, (at // BLOCK_BYTES + 1) * BLOCK_BYTES))
            at += len(block)
            data = carry + block
            cut = len(data) if at == extent.end else data.rfind(b"\n") + 1
            if not cut and len(data) > _LINE:
                cut = len(data)
            ends_line = data[:cut].endswith(b"\n")
            place, carry = await in_pool(self._pool, _fed, scanner, data[:cut], place), data[cut:]
        end = place.after(carry)
        entries = await in_pool(self._pool, scanner.finish, end, ends_line=ends_line and not carry)
        whole = at == extent.end and not scanner.full
        notices: list[str] = []
        if not whole:
            looked = at - extent.start
            notices.append(f"Only the first {looked:,} of {extent.end - extent.start:,} bytes were looked at.")
        if isinstance(scanner, Phases):
            head = await reading.read(extent.start, extent.start + _HEAD)
            said = times(head, await reading.read(extent.end - _HEAD, extent.end))
            notices += [said] if said else []
        return OutlineEntries(entries, whole, tuple(notices)), at - extent.start


def _fed(scanner: OutlineScanner, data: bytes, place: Position) -> Position:
    scanner.feed(data, place)
    return place.after(data)


def _names(artifact: Artifact) -> tuple[str | None, ...]:
    return artifact.said.title, artifact.facts.title, artifact.said.url, artifact.facts.url


def _within(reading: ViewReading) -> tuple[Section, ...]:
    """The sections of what is read; of a section, those inside it."""
    outer = reading.section
    if outer is None:
        return reading.sections
    return tuple(s for s in reading.sections if outer.start <= s.start and s.end <= outer.end and s.level > outer.level)


def _nothing(reading: ViewReading) -> str:
    if reading.binary:
        what = (
            reading.artifact.said.media_type or reading.artifact.facts.media_type or reading.artifact.facts.kind.value
        )
        return f"No outline: {reading.artifact.id} is not text ({what})."
    if reading.extent.start == reading.extent.end:
        return "No outline: it is empty."
    return (
        "No outline: it has no headings or other parts that are known. Read it by lines, or search it with a pattern."
    )


def _past_end(reading: ViewReading, offset: int, total: int) -> CoatcheckError:
    asked = f"Offset {offset} is past" if offset < NUMBER_LIMIT else "The offset is far past"
    last = f"from 0 to {total - 1}" if total > 1 else "of 0"
    return CoatcheckError(
        Code.OFFSET_PAST_END,
        f"{asked} the end: {reading.name} has {plural(total, 'entry', 'entries')}. Use an offset {last}, or leave it "
        "out.",
        total=total,
    )


def _check(offset: int, limit: int | None, max_tokens: int) -> None:
    check_budget(max_tokens, MIN_TOKENS)
    if offset < 0:
        raise CoatcheckError(
            Code.INVALID_REQUEST, "offset is the number of entries to skip: 0 or more.", parameter="offset"
        )
    if limit is not None and not 1 <= limit <= MAX_LIMIT:
        raise CoatcheckError(Code.INVALID_REQUEST, f"limit must be 1 to {MAX_LIMIT:,}.", parameter="limit")
