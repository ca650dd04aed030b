"""Makes the text view from which a card is cut, keeps it with the artifact, and finds it again for later cards.

The view is made at ingest. If it cannot be made or kept, the artifact and its card are stored all the same: then the
card is cut from the payload, and the view is made again when it is needed next. A view that no card shows is not made
here; `keep_text` makes it when the artifact is read.

Crash story: a small view is part of the single commit of the ingest. A large view is kept after that commit, like any
other view. A crash between the two leaves an artifact without a view, and the view is made when the payload is posted
again or read.
"""

import logging
from collections.abc import Callable
from typing import Final

from msgspec import Struct

from coatcheck.core.artifact import Artifact, Blob, DeclaredMetadata, DetectedMetadata, PayloadSample
from coatcheck.core.card import CardSource, may_show_text, shows_text, text_of
from coatcheck.core.encoding.payload_encoder import PayloadEncoder, sample_ranges
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.core.kinds.spec import spec_of
from coatcheck.core.tokens import Tokenizer
from coatcheck.core.views.view import TEXT, ExtractedText, View, ViewMeasure
from coatcheck.ports.artifacts import FoundView, NewView
from coatcheck.ports.catalog import FoundArtifact
from coatcheck.ports.telemetry import Extractor
from coatcheck.runtime.circuit_breaker import REFUSALS
from coatcheck.storing.content import OpenContent
from coatcheck.storing.keep_text import KeepText, extract_view

log = logging.getLogger(__name__)

_EXAMINED_BYTES: Final = 64 * 1024
"""Bytes at the beginning of a payload that decide whether its card would show the view."""
_DENSEST: Final = 8
"""The highest compression ratio that is likely for text."""


class TextViewDraft(Struct, frozen=True):
    """A text view that was made at ingest."""

    extracted: ExtractedText
    """The result of the extractor. `keep` stores it if the ingest's commit does not."""
    text: CardSource | None
    """The source of the card, which is this view; None if the card is cut from the payload."""
    new: NewView | None
    """The view to keep with the ingest's commit; None if the view is too large for that and is kept afterwards."""


class CardText:
    """Makes, keeps and finds the text view from which a card is cut."""

    def __init__(
        self,
        extractor: Extractor,
        open_content: OpenContent,
        keep_text: KeepText,
        tokenizer: Tokenizer,
        new_blob_id: Callable[[], str],
        inline_bytes: int,
    ) -> None:
        """A view of up to `inline_bytes` stored bytes is kept in the catalogue, together with its artifact."""
        self._extractor = extractor
        self._open = open_content
        self._keep_text = keep_text
        self._tokenizer = tokenizer
        self._new_blob_id = new_blob_id
        self._inline_bytes = inline_bytes

    def wants(self, facts: DetectedMetadata, sample: PayloadSample, payload: bytes | None) -> bool:
        """Returns whether a payload's card may show its text view, so that the view must be made at ingest.

        `payload` is the payload or its decoded text; None: it is too large to be held in memory, and no view is made.
        """
        return payload is not None and _worth_making(facts, sample)

    async def extract(self, declared: DeclaredMetadata, facts: DetectedMetadata, text: bytes) -> ExtractedText | None:
        """Returns the text view of a payload; None if it has none. `text` is the payload or its decoded text.

        This may take seconds, so no worker thread must wait for the result.
        """
        return await extract_view(self._extractor, declared, facts, text)

    def make_draft(
        self, extracted: ExtractedText | None, facts: DetectedMetadata, sample: PayloadSample, *, with_card: bool = True
    ) -> TextViewDraft | None:
        """Measures an extracted text, and returns it as a view that is ready to be kept; None if there is no text.

        Call it in a worker thread, because it counts tokens. `with_card` says whether a card is cut from the view. If
        not, a view that is almost certainly too large for the ingest's commit is not measured before it is kept.
        """
        if extracted is None or extracted.text is None:
            return None
        # Without a card, nobody needs the view before the answer. `keep` encodes it, so it is not encoded here, too.
        if not with_card and len(extracted.text) > _DENSEST * self._inline_bytes:
            return TextViewDraft(extracted, None, None)
        return self._measure_view(extracted, extracted.text, facts, sample.size)

    def _measure_view(self, extracted: ExtractedText, view: bytes, facts: DetectedMetadata, size: int) -> TextViewDraft:
        # The view is stored like a payload, with frames, a line index and exact sizes.
        encoder = PayloadEncoder(self._tokenizer)
        stored_bytes = encoder.end(view)
        encoder.count()
        m = encoder.measure()
        measure = ViewMeasure(size=m.size, lines=m.lines, chars=m.chars, tokens=m.tokens)
        is_text_shown = shows_text(facts, size, extracted.extractor)
        text = text_of(encoder.sample(), measure, extracted.sections, extracted.extractor) if is_text_shown else None
        # The ingest's transaction takes only small blobs. `keep` uploads a larger one after the commit.
        if len(stored_bytes) > self._inline_bytes:
            return TextViewDraft(extracted, text, None)
        blob = Blob(
            id=self._new_blob_id(),
            placement="inline",
            size=m.size,
            stored_size=len(stored_bytes),
            sha256=m.sha256,
            index=encoder.index.pack(),
        )
        text_view = View(
            name=TEXT,
            extractor=extracted.extractor,
            partial=extracted.partial,
            sections=extracted.sections,
            measure=measure,
        )
        return TextViewDraft(extracted, text, NewView(view=text_view, blob=blob, inline=stored_bytes))

    async def keep(self, artifact: Artifact, draft: TextViewDraft | None) -> None:
        """Keeps a view that was too large for the ingest's commit. A view that storage refuses is made again later."""
        if draft is None or draft.new is not None:
            return
        try:
            await self._keep_text.keep(FoundArtifact(artifact), draft.extracted)
        # The artifact is committed already, so its receipt must not become an error because its view cannot be kept.
        except CoatcheckError as error:
            if error.code not in REFUSALS:
                log.warning("the text view of %s is not kept: %s", artifact.id, error.detail)

    async def describe(self, entry: FoundArtifact) -> FoundArtifact:
        """Returns an artifact found `with_bytes`, with the form of its text, as `KeepText.describe` does.

        Raises:
            CoatcheckError: `storage_unavailable`; `integrity` if the artifact's bytes cannot be read.
        """
        return await self._keep_text.describe(entry)

    async def find_card_source(self, entry: FoundArtifact) -> CardSource | None:
        """Returns the text view from which the card of an artifact found `with_bytes` and `with_view` is cut.

        Returns None if the card is cut from the payload.

        Raises:
            CoatcheckError: `storage_unavailable` if the view exists but cannot be read; `integrity` if the view must be
                made again, and the bytes of the payload are lost.
        """
        a = entry.artifact
        if not may_show_text(a.facts, a.measure.size):
            return None
        # A view that an older release made counts as absent, because this release may make another one of the payload.
        view = None if entry.text_view is None or entry.text_view.view.is_old else entry.text_view
        whole, text = (False, None) if view is None else await self._read(a, view)
        if not whole:  # no view is kept, or its bytes are lost
            draft = await self._remade(entry)
            _, text = (False, None) if draft is None else await self._read(a, draft)
        return text

    async def _read(self, a: Artifact, view: FoundView) -> tuple[bool, CardSource | None]:
        """Returns False if the view's bytes are lost, otherwise True, and the source of the card.

        The source is None if the bytes are lost or the card does not show the view.
        """
        # The card is cut from the payload if the view has no bytes of its own, or if the card does not show the view.
        if view.blob is None or not shows_text(a.facts, a.measure.size, view.view.extractor):
            return True, None
        try:
            content = await self._open.of_view(a.namespace, view)
            head, tail = sample_ranges(content.size)
            sample = PayloadSample(await content.read(*head), await content.read(*tail), content.size)
        except CoatcheckError as error:
            if error.code is not Code.INTEGRITY:
                raise
            return False, None
        return True, text_of(sample, view.view.measure, view.view.sections, view.view.extractor)

    async def _remade(self, entry: FoundArtifact) -> FoundView | None:
        """Makes the view again and keeps it; returns None if the card would not show it, or storage refuses it."""
        facts = entry.artifact.facts
        # This is the same test as at ingest, on the same number of bytes. With another test, a later card could differ
        # from the first one.
        shows_view = None if facts.form is not None else spec_of(facts.kind).shows_view
        if shows_view is not None and not shows_view(await self._open(entry).read(0, _EXAMINED_BYTES)):
            return None
        try:
            return await self._keep_text(entry)
        except CoatcheckError as error:
            if error.code not in REFUSALS:
                raise
            return None


def _worth_making(facts: DetectedMetadata, sample: PayloadSample) -> bool:
    if not may_show_text(facts, sample.size):
        return False
    shows_view = None if facts.form is not None else spec_of(facts.kind).shows_view
    return shows_view is None or shows_view(sample.head[:_EXAMINED_BYTES])
