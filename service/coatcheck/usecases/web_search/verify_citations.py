"""Check whether quotations stand in the artifacts that they cite, where they stand, and how they differ.

Each quotation is checked by itself: if its citation is wrong, or its artifact is gone, the other quotations are still
checked. The text view of the artifact is searched. In a very large view, only the surroundings of the cited part are
searched, or the beginning if no part is cited. The check compares words and not meanings: a sentence that stands in an
artifact may still be misused.
"""

import codecs
import time
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import KW_ONLY, dataclass
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from coatcheck.core import ids
from coatcheck.core.artifact import Caller, LineFields
from coatcheck.core.errors import CoatcheckError, Code, invalid_request
from coatcheck.core.outline.section_names import no_section, nth_section
from coatcheck.core.parts.blobs import hidden_parts
from coatcheck.core.redact.masked_artifact import reveal_strings
from coatcheck.core.text.visible_text import VisibleText, has_hidden
from coatcheck.core.views.view import Section, ViewName
from coatcheck.core.views.window import Extent, Position, Span, Window, chars, decode, nth_char, window
from coatcheck.reading.positions import at_byte, place_of
from coatcheck.reading.view import OpenView, ViewReading
from coatcheck.runtime.work_placement import in_pool
from coatcheck_client.contract.quotations import Difference, QuotationMatch, Verdict, clip_match, verify

MAX_QUOTATIONS: Final = 100
"""Maximum quotations in one call."""
SOURCE_BYTES: Final = 2 * 1024 * 1024
"""Maximum bytes of a view that are searched for one quotation."""
_BYTES_BEFORE: Final = 256 * 1024
"""Bytes before the cited part that are searched in a view of more than `SOURCE_BYTES`."""
PATIENCE_SECONDS: Final = 5.0
"""Seconds after which a call checks no further quotation; the remaining quotations get an error."""


class Quotation(Struct, frozen=True, kw_only=True):
    """A quotation: the quoted words, and the artifact or section that they cite."""

    quote: str
    citation: str
    """A citation of a section, such as `art_…#r1`, or an artifact ID."""
    bytes: Extent | None = None
    """The cited part of the text view in bytes, which counts instead of the section; None: no bytes are cited."""
    chars: Extent | None = None
    """The cited part of the text view in characters; ignored if `bytes` are given. None: no characters are cited."""


class QuotationCheck(Struct, frozen=True, kw_only=True):
    """The result for one quotation."""

    verdict: Verdict
    citation: str
    """The citation of the quotation, unchanged."""
    stands_in: str | None
    """A citation of the innermost section in which the quotation stands, or the artifact's ID if no section contains
    the quotation; None: the quotation was not found."""
    view: ViewName
    """The view that was searched, to which `window` refers."""
    window: Window | None
    """The exact range of the quotation in the view. None: the quotation was not found, or the view is not valid UTF-8,
    so that no exact range can be given."""
    text: str
    """The text in the view that matches the quotation, verbatim."""
    ratio: float
    """Share of words that the quotation and `text` have in common, 0 to 1; it is 1 for `exact` and `normalised`."""
    moved: bool
    """Whether the quotation stands in the artifact, but outside the cited section or range."""
    differences: tuple[Difference, ...]
    """The differences between the words of the quotation and of `text`, in order; empty for `exact`."""
    partial: bool
    """Whether only a part of the view was searched, or the view lacks a part of the payload."""


class _Source(Struct, frozen=True):
    """The part of a view in which quotations are looked for."""

    place: Position
    """The position in the view where the part begins."""
    data: bytes
    text: str
    """The decoded part."""
    exact: bool
    """Whether `data` is valid UTF-8, so that positions in `text` are exact positions in `data`."""
    partial: bool
    """Whether the view is larger than this part."""


@dataclass(frozen=True)
class VerifyCitations:
    """Checks whether quotations stand in the artifacts that they cite."""

    open_view: OpenView
    pool: Executor
    _: KW_ONLY
    clock: Callable[[], float] = time.monotonic
    """A monotonic clock, in seconds."""
    patience: float = PATIENCE_SECONDS
    """Seconds after which a call checks no further quotation."""

    async def __call__(self, caller: Caller, quotations: list[Quotation]) -> list[QuotationCheck | CoatcheckError]:
        """Returns a result for each quotation, in the given order; a quotation that could not be checked gets an error.

        Raises:
            CoatcheckError: `invalid_request` for more than MAX_QUOTATIONS quotations.
        """
        if len(quotations) > MAX_QUOTATIONS:
            raise invalid_request(f"At most {MAX_QUOTATIONS} quotations in one call.", parameter="quotes")
        ends = self.clock() + self.patience
        out: dict[int, QuotationCheck | CoatcheckError] = {}
        view_cache = _ViewCache(self.open_view, caller)
        # Quotations are checked in the order of their citations, so that each artifact is opened only once. The answer
        # has the given order again.
        for place in sorted(range(len(quotations)), key=lambda place: (quotations[place].citation, place)):
            try:
                if self.clock() >= ends:
                    raise _too_slow()
                out[place] = await self._check_quotation(view_cache, quotations[place])
            except CoatcheckError as error:
                out[place] = error
        return [out[place] for place in range(len(quotations))]

    async def _check_quotation(self, view_cache: "_ViewCache", quotation: Quotation) -> QuotationCheck:
        number, name = ids.parse_citation(quotation.citation.strip())
        reading = await view_cache.reading(number)
        if reading.binary:
            raise CoatcheckError(Code.NOT_TEXT, f"{reading.artifact.id} is not text: nothing can be quoted from it.")
        cited = await _find_cited(reading, name, quotation)
        source = await view_cache.source(reading, cited)
        within = None if cited is None else _within(source, cited)
        match = await in_pool(self.pool, _verify, quotation.quote, source, within, reading.fields)
        checked = _answer(reading, quotation, source, match)
        # The quotation is compared with the stored bytes, in which fillers of the same size mask secrets. Readable
        # marks replace the fillers only at the end, because they change positions.
        return checked if reading.mask is None else reveal_strings(checked, reading.mask)


class _ViewCache:
    """Opens the views for one call; only the view that was opened last stays open."""

    def __init__(self, open_view: OpenView, caller: Caller) -> None:
        self._open = open_view
        self._caller = caller
        self._number: int | None = None
        self._reading: ViewReading | CoatcheckError | None = None
        self._source: tuple[int, int, _Source] | None = None

    async def reading(self, number: int) -> ViewReading:
        """Returns the text view of an artifact, or the raw view if there is no text view, or none can be made now.

        Raises:
            CoatcheckError: the error for which the artifact cannot be opened, which is cached like a view.
        """
        if number != self._number or self._reading is None:
            self._number, self._source = number, None
            try:
                self._reading = await self._open.best(self._caller, number, sections=True)
            except CoatcheckError as error:
                self._reading = error
        if isinstance(self._reading, CoatcheckError):
            raise self._reading
        return self._reading

    async def source(self, reading: ViewReading, cited: Extent | None) -> _Source:
        """Returns the text to search: the whole view, or of a large view the surroundings of the cited part.

        A part that is cited beyond the view's end counts as its end.
        """
        size = reading.content.size
        start = 0 if size <= SOURCE_BYTES or cited is None else max(0, min(cited.start, size) - _BYTES_BEFORE)
        end = min(size, start + SOURCE_BYTES)
        if self._source is None or self._source[:2] != (start, end):
            place = await at_byte(reading.content, start)
            self._source = (start, end, _source(place, await reading.content.read(start, end), size))
        return self._source[2]


async def _find_cited(reading: ViewReading, name: str | None, quotation: Quotation) -> Extent | None:
    """Returns the cited range of the view in bytes; None: the whole view is cited."""
    part: Section | None = None
    if name is not None:
        nth = nth_section(reading.sections, name)
        if nth is None:
            raise no_section(reading.artifact.id, name, reading.sections)
        part = reading.sections[nth]
    # The most precise citation counts: bytes before characters, and characters before a section.
    if quotation.bytes is not None:
        return quotation.bytes
    if quotation.chars is not None:
        ends = [
            await place_of(reading.content, Span("char", at, None))
            for at in (quotation.chars.start, quotation.chars.end)
        ]
        return Extent(*(reading.content.size if place is None else place.byte for place in ends))
    return None if part is None else Extent(part.start, part.end)


def _source(place: Position, data: bytes, size: int) -> _Source:
    """Returns a part of a view of `size` bytes, without the rest of a character that was cut at its beginning."""
    lead = 0
    while place.byte and lead < min(3, len(data)) and data[lead] & 0xC0 == 0x80:  # noqa: PLR2004 - UTF-8 continues
        lead += 1
    place, data = place.after(data[:lead]), data[lead:]
    last = place.byte + len(data) == size
    partial = place.byte > 0 or not last
    try:
        text = codecs.getincrementaldecoder("utf-8")().decode(data, final=last)
    except UnicodeDecodeError:
        return _Source(place, data, decode(data), exact=False, partial=partial)
    return _Source(place, data, text, exact=True, partial=partial)


def _verify(quote: str, source: _Source, within: Extent | None, fields: LineFields | None) -> QuotationMatch:
    """Looks for a quotation in the stored text and, if its words are not found there, in the text that reads show."""
    match = verify(quote, source.text, within)
    if match.verdict in {"exact", "normalised"} or not source.exact:
        return match
    apart = hidden_parts(fields, source.data, begins=not source.place.byte)
    if not apart and not has_hidden(source.data):
        return match
    # A model quotes the text as a read showed it, without escape sequences and hidden fields.
    visible_text = VisibleText(source.data, [(start, end, decode(replacement)) for start, end, replacement in apart])
    if within is not None:
        within = Extent(*(visible_text.at(len(source.text[:edge].encode())) for edge in (within.start, within.end)))
    rendered = verify(quote, visible_text.text, within)
    if rendered.at is None or rendered.ratio <= match.ratio:
        return match
    # The positions in the shown text are translated to positions in the stored text, to which the answer refers.
    start, end = (chars(source.data[: visible_text.cut(at)[0]]) for at in (rendered.at.start, rendered.at.end))
    # What a read does not show, such as encoded bytes, may be much longer than what was quoted.
    return replace(rendered, at=Extent(start, end), text=clip_match(source.text[start:end]))


def _within(source: _Source, cited: Extent) -> Extent:
    """Returns the range of characters of the source that a cited range of bytes covers."""
    start, end = (max(0, at - source.place.byte) for at in (cited.start, cited.end))
    first = chars(source.data[:start])
    return Extent(first, first + chars(source.data[start:end]) if end > start else first)


def _answer(reading: ViewReading, quotation: Quotation, source: _Source, match: QuotationMatch) -> QuotationCheck:
    where = _window(source, match.at) if match.at is not None and source.exact else None
    return QuotationCheck(
        verdict=match.verdict,
        citation=quotation.citation,
        stands_in=None if match.at is None else _stands_in(reading, where),
        view=reading.view,
        window=where,
        text=match.text,
        ratio=match.ratio,
        moved=match.moved,
        differences=match.differences,
        partial=source.partial or reading.partial or match.partial,
    )


def _window(source: _Source, at: Extent) -> Window:
    """Returns the range of the view that a range of characters of the source covers."""
    start = nth_char(source.data, at.start)
    data = source.text[at.start : at.end].encode()
    first = source.place.after(source.data[:start])
    return window(first, first.after(data), ends_line=data.endswith(b"\n"))


def _stands_in(reading: ViewReading, where: Window | None) -> str:
    """Returns a citation of the innermost section that contains a window; the artifact's ID if there is none."""
    artifact_id = reading.artifact.id
    if where is None:
        return artifact_id
    enclosing = [each for each in reading.sections if each.start <= where.bytes.start and where.bytes.end <= each.end]
    inner = min(enclosing, key=lambda each: (each.end - each.start, -each.level), default=None)
    return artifact_id if inner is None else f"{artifact_id}#{inner.name}"


def _too_slow() -> CoatcheckError:
    return CoatcheckError(
        Code.OVERLOADED, "Time ran out before this quotation was checked. Send the unchecked quotations again."
    )
