"""Finds an artifact and opens the part to be read: one of its views, or one section of a view.

The view `raw` is the exact payload. The view `text` is the readable text: the payload itself if that is plain text,
otherwise the kept text view, or a text view that is made now and kept. The default is `raw`, or `text` if a section is
requested. `Reader` is the base class of all use cases that read an open view. It holds what they share: the tokenizer,
the worker threads and the time limit.
"""

import time
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any, ClassVar, Final, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from coatcheck.core.artifact import Artifact, Caller, LineFields
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.core.event import Action
from coatcheck.core.media.documents import is_document
from coatcheck.core.outline.section_names import SectionPart, no_section, nth_section, part
from coatcheck.core.read_answer import MAX_TEXT_CHARS, is_binary, is_plain
from coatcheck.core.redact.mask import Mask
from coatcheck.core.redact.masked_artifact import reveal_answer, sections_of
from coatcheck.core.tokens import Tokenizer
from coatcheck.core.views.view import OPENED, Section, ViewMeasure, ViewName, outer_asides
from coatcheck.core.views.window import Extent, LineExtent
from coatcheck.ports.artifacts import FoundView
from coatcheck.ports.catalog import FoundArtifact
from coatcheck.runtime.circuit_breaker import REFUSALS
from coatcheck.runtime.work_placement import in_pool
from coatcheck.storing.content import Content, OpenContent
from coatcheck.storing.find import Find
from coatcheck.storing.keep_text import KeepText
from coatcheck.storing.ledger import Ledger
from coatcheck.storing.redaction import RedactionPolicy

_NO_VIEW: Final = "Use view=raw, which is the exact payload."


class ViewReading(Struct, frozen=True, kw_only=True):
    """An open view of an artifact, narrowed to the requested section."""

    artifact: Artifact
    view: ViewName
    content: Content
    """Content of the whole view, even if only a section is read."""
    measure: ViewMeasure
    """Sizes of the whole view, even if only a section is read."""
    sections: tuple[Section, ...] = ()
    """Sections of the view. Empty if no sections are known, or if plain text was opened without a request for them."""
    nth: int | None = None
    """Index, from 0, of the section that is read; None: the whole view."""
    partial: bool = False
    """Whether the view lacks part of the payload's text."""
    sections_end: bool = True
    """Whether `sections` covers the whole payload; if not, the rest of the payload may contain unknown sections."""
    unkept: bool = False
    """Whether this is the raw view only because the text view cannot be made or kept now."""
    fields: LineFields | None = None
    """The fields of each line that are not shown. Their bytes stay in `content`, so that positions stay the same."""
    version: int = 0
    """Version of a view with bytes of its own; 0: the view is the payload itself."""
    mask: Mask | None = None
    """The mask that replaces secrets in `content` by fillers; None: nothing is masked. `Reader.prepare_answer` turns
    the fillers into readable markers."""

    @property
    def section(self) -> Section | None:
        """The section that is read; None if the whole view is read."""
        return None if self.nth is None else self.sections[self.nth]

    @property
    def part(self) -> SectionPart | None:
        """The section as answers describe it; None if the whole view is read."""
        return None if self.section is None else part(self.section)

    @property
    def extent(self) -> Extent:
        """The byte range that is read: the whole view or the section."""
        return Extent(0, self.content.size) if self.section is None else Extent(self.section.start, self.section.end)

    @property
    def lines(self) -> LineExtent:
        """The line range that is read: the whole view or the section."""
        return LineExtent(1, self.measure.lines) if self.section is None else part(self.section).lines

    @property
    def article(self) -> LineExtent:
        """The lines between the asides at the two ends of the view; all lines if the asides leave none."""
        first, last, end = 1, self.measure.lines, self.measure.size
        asides = outer_asides(self.sections)
        if asides and asides[0].start == 0:
            first += asides[0].lines
        for aside in reversed(asides):
            if aside.end == end:
                last, end = aside.line - 1, aside.start
        return LineExtent(first, last) if first <= last else LineExtent(1, self.measure.lines)

    @property
    def binary(self) -> bool:
        """Whether the view is the raw view of a binary payload."""
        return self.view == "raw" and is_binary(self.artifact)

    @property
    def name(self) -> str:
        """The artifact or the section that is read, in words that fit into a sentence."""
        return self.artifact.id if self.section is None else f"section {self.section.name} of {self.artifact.id}"

    async def read(self, start: int, end: int) -> bytes:
        """Returns the bytes of the view from `start` to before `end`, clipped to the whole view or the section."""
        extent = self.extent
        return await self.content.read(max(start, extent.start), min(end, extent.end))


@dataclass(frozen=True)
class OpenView:
    """Opens a view of an artifact, which is the first step of every use case that reads."""

    find: Find
    open_content: OpenContent
    keep_text: KeepText | None = None
    """Makes missing text views; None: only stored views can be opened."""
    ledger: Ledger | None = None
    """Counts the tokens of answers; None: nothing is counted."""
    redacting: RedactionPolicy | None = None
    """Decides whether secrets are masked; None: nothing is masked."""

    async def __call__(
        self, caller: Caller, number: int, *, view: str | None = None, section: str | int | None = None
    ) -> ViewReading:
        """Opens a view of an artifact.

        Args:
            caller: the caller, who must be allowed to see the artifact.
            number: number of the artifact.
            view: `raw` or `text`; None: `raw`, or `text` if a section is requested.
            section: name of a section, or its title if the title is unique, or its index from 0, as in a cursor. None:
                the whole view.

        Raises:
            CoatcheckError: `artifact_not_found`, `artifact_gone`, `view_not_available`, `section_not_found`,
                `integrity`; `overloaded` or a storage error if a new view cannot be made or kept now.
        """
        name = _resolve_view(view, section)
        entry = await self._find_artifact(caller, number, with_view=name == "text" or section is not None)
        return await self.of(entry, name, section)

    def report_read(
        self, caller: Caller, reading: ViewReading, tokens: int, action: Action, extra_details: dict[str, Any]
    ) -> None:
        """Logs a request that read from this view, and adds the answer's tokens to the account of the session."""
        if self.ledger is not None:
            section = None if reading.section is None else reading.section.name
            details = {"view": reading.view, "section": section, **extra_details}
            self.ledger.read(caller, reading.artifact, tokens, action, details)

    async def of(self, entry: FoundArtifact, view: str | None = None, section: str | int | None = None) -> ViewReading:
        """Opens a view of an artifact, given the entry that was found for it `with_bytes` and `with_view`.

        Raises:
            CoatcheckError: as `__call__` does, except for errors of finding the artifact.
        """
        a = entry.artifact
        name = _resolve_view(view, section)
        plain = is_plain(a.facts)
        if name == "raw" and section is None:
            return self._raw(entry, "raw")
        text_view = await self._repair_view(entry)
        if text_view is None and (section is not None or not plain):
            text_view = await self._make_view(entry)
        # Plain text is its own text view. A kept view with bytes of its own was made when the artifact was declared as
        # another kind, so its ranges are not those of the payload.
        if plain and (text_view is None or text_view.blob is not None):
            reading = self._raw(entry, name)
        elif text_view is None:
            raise CoatcheckError(Code.VIEW_NOT_AVAILABLE, f"{a.id} has no text view. {_NO_VIEW}")
        elif name == "text":
            reading = await self._text(entry, text_view)
        elif text_view.blob is None:
            reading = self._raw(entry, name, text_view)
        else:
            raise CoatcheckError(
                Code.SECTION_NOT_FOUND,
                f"The sections of {a.id} are parts of its text view, not of the payload: use view=text.",
            )
        return _narrow_view(reading, section)

    async def best(
        self, caller: Caller, number: int, *, section: str | None = None, sections: bool = False
    ) -> ViewReading:
        """Opens the text view if there is one, otherwise the raw view.

        If the text view cannot be made or kept at the moment, and no section was requested, the raw view is opened
        instead, with `unkept` set unless it is plain text. The raw bytes of a document are not readable, so for a
        document the error is raised.

        Args:
            caller: the caller, who must be allowed to see the artifact.
            number: number of the artifact.
            section: name of a section, or its title if the title is unique; None: the whole view.
            sections: whether to find the sections of plain text too, although it can be read without them.

        Raises:
            CoatcheckError: as `__call__` does, but not `view_not_available`.
        """
        entry = await self._find_artifact(caller, number, with_view=True)
        plain = is_plain(entry.artifact.facts)
        view = await self._repair_view(entry)
        unkept = False
        if view is None and not (plain and section is None and not sections):
            try:
                view = await self._make_view(entry)
            except CoatcheckError as error:
                # The raw bytes of a document help no reader, and a section cannot be found without the text view. In
                # these cases the error is the answer.
                if error.code not in REFUSALS or section is not None or is_binary(entry.artifact):
                    raise
                unkept = not plain
        if section is not None and view is None:
            raise no_section(entry.artifact.id, section, ())
        if plain:
            return _narrow_view(self._raw(entry, "text", view), section)
        name: ViewName = "raw" if entry.artifact.facts.fields is None else "text"
        reading = self._raw(entry, name) if view is None else await self._text(entry, view)
        return _narrow_view(replace(reading, unkept=unkept), section)

    async def _find_artifact(self, caller: Caller, number: int, *, with_view: bool) -> FoundArtifact:
        entry = await self.find(caller, number, with_bytes=True, with_view=with_view)
        return entry if self.keep_text is None else await self.keep_text.describe(entry)

    async def _repair_view(self, entry: FoundArtifact) -> FoundView | None:
        """Returns the kept view; None if there is none, or if an earlier version of the extractor made it.

        If the bytes of the kept view are lost, the view is made again. That repairs the view if the new bytes equal the
        lost ones.
        """
        view = entry.text_view
        if view is not None and view.view.is_old and self.keep_text is not None:
            return None
        if view is None or view.blob is None or not view.blob.condemned:
            return view
        return await self._make_view(entry) or view

    async def _make_view(self, entry: FoundArtifact) -> FoundView | None:
        a = entry.artifact
        if self.keep_text is None or (is_binary(a) and not is_document(a.facts.media_type)):
            return None
        return await self.keep_text(entry)

    def _raw(self, entry: FoundArtifact, name: ViewName, view: FoundView | None = None) -> ViewReading:
        m = entry.artifact.measure
        of_payload = view if view is not None and view.blob is None else None
        return self._hiding(
            ViewReading(
                artifact=entry.artifact,
                view=name,
                content=self.open_content(entry),
                measure=ViewMeasure(size=m.size, lines=m.lines, chars=m.chars, tokens=m.tokens),
                sections=of_payload.view.sections if of_payload else (),
                fields=entry.artifact.facts.fields if name == "text" else None,
                sections_end=of_payload is None or not of_payload.view.partial,
            )
        )

    def _hiding(self, reading: ViewReading) -> ViewReading:
        """Returns an open view, with its secrets masked if the present policy says so."""
        mask = None if self.redacting is None else self.redacting.mask_of(reading.artifact)
        if self.redacting is None or mask is None:
            return reading
        # A filler has the size of the secret that it hides, so lines, sections and citations keep their positions.
        content = self.redacting.content(reading.content, mask, text=not reading.binary)
        return replace(reading, content=content, sections=sections_of(mask, reading.sections), mask=mask)

    async def _text(self, entry: FoundArtifact, text_view: FoundView) -> ViewReading:
        if text_view.blob is None:
            return self._raw(entry, "text", text_view)
        content = await self.open_content.of_view(entry.artifact.namespace, text_view)
        view = text_view.view
        return self._hiding(
            ViewReading(
                artifact=entry.artifact,
                view="text",
                content=content,
                measure=view.measure,
                sections=view.sections,
                partial=view.partial,
                sections_end=not view.partial,
                version=view.version,
                fields=entry.artifact.facts.fields if view.extractor == OPENED else None,
            )
        )


def _resolve_view(view: str | None, section: str | int | None) -> ViewName:
    if view is None:
        return "raw" if section is None else "text"
    if view not in {"raw", "text"}:
        raise CoatcheckError(Code.VIEW_NOT_AVAILABLE, f"There is no such view. {_NO_VIEW}")
    return "raw" if view == "raw" else "text"


def _narrow_view(reading: ViewReading, section: str | int | None) -> ViewReading:
    """Returns a view narrowed to one of its sections, given by name, title or index; None: the whole view."""
    if section is None:
        return reading
    if isinstance(section, int):
        if not 0 <= section < len(reading.sections):
            raise CoatcheckError(
                Code.INVALID_CURSOR, "This cursor belongs to a section that does not exist. Read without it."
            )
        return replace(reading, nth=section)
    nth = nth_section(reading.sections, section)
    if nth is None:
        raise no_section(reading.artifact.id, section, reading.sections)
    return replace(reading, nth=nth)


A = TypeVar("A", bound=Struct)


class Reader:
    """The base class of the use cases that read: it opens views, marks masked secrets, and knows the time limit."""

    PATIENCE_SECONDS: ClassVar[float] = 2.0
    """Seconds that one call may work before it stops and answers with the results so far."""

    def __init__(
        self,
        open_view: OpenView,
        tokenizer: Tokenizer,
        pool: Executor,
        *,
        clock: Callable[[], float] = time.monotonic,
        patience: float | None = None,
    ) -> None:
        """`clock` is monotonic, in seconds; `patience`, in seconds, replaces PATIENCE_SECONDS."""
        self._view = open_view
        self._tokenizer = tokenizer
        self._pool = pool
        self._clock = clock
        self._patience = self.PATIENCE_SECONDS if patience is None else patience

    async def prepare_answer(self, reading: ViewReading, answer: A, tokens: int) -> A:
        """Returns an answer that is ready to be sent: readable markers stand in place of the fillers of masked secrets.

        `tokens` is the maximum number of the answer's tokens.
        """
        if reading.mask is None or reading.binary:
            return answer
        return await in_pool(self._pool, reveal_answer, answer, reading.mask, self._tokenizer, tokens, MAX_TEXT_CHARS)
