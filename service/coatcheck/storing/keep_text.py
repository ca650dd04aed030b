"""Makes an artifact's text view when it is first needed, and keeps it, because its ranges are citations from then on.

If several requests need a view at once, it is made only once, and a caller who leaves does not stop the others. If
storage refuses the view, no part of it is shown: another extractor may make a different view later, and citations of
this one would then be wrong.

Crash story: the same as for an ingest. The intent of a large view is durable before its first byte, and its bytes are
durable before the commit; the reaper removes the remains of a crash. If two processes make a view at once, the first
commit counts, and both processes return its view.
"""

import asyncio
from collections.abc import AsyncIterator, Generator
from contextlib import contextmanager
from typing import Final

from msgspec import structs

from coatcheck.core import ids
from coatcheck.core.artifact import (
    ENGINE,
    SAMPLE_BYTES,
    Caller,
    DeclaredMetadata,
    DetectedMetadata,
    PayloadForm,
)
from coatcheck.core.caches import BoundedCache
from coatcheck.core.encoding.payload_encoder import HELD_WHOLE, PayloadEncoder
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.core.kinds.spec import spec_of
from coatcheck.core.parts.form import FormDecoder, open_payload
from coatcheck.core.read_answer import ViewInputs, is_plain, view_inputs
from coatcheck.core.views.view import OPENED, TEXT, ExtractedText, View, ViewMeasure
from coatcheck.ports.artifacts import FoundView, NewView, StoredView, StoreView, UploadFenced
from coatcheck.ports.catalog import FoundArtifact
from coatcheck.ports.telemetry import Extractor
from coatcheck.runtime.circuit_breaker import REFUSALS
from coatcheck.runtime.work_placement import in_pool
from coatcheck.storing.content import Content, OpenContent
from coatcheck.storing.draft import describe_form
from coatcheck.storing.find import not_found
from coatcheck.storing.ingest_deps import IngestDeps
from coatcheck.storing.upload_session import BLOCK, UploadSession, fenced_error

_AT_ONCE: Final = 2
"""Number of views that are made concurrently. Each of them needs memory for a payload and a view."""
_WITHOUT_BYTES: Final = 8 * 1024 * 1024
"""Size of each cache of artifacts that need not be examined again: enough for over 10,000 artifacts."""


_Key = tuple[str, str, bytes, ViewInputs]
"""An artifact with its present declaration: namespace, ID, digest, and the extractor's inputs."""


class KeepText:
    """Makes an artifact's text view when it is first needed, and stores it."""

    def __init__(self, deps: IngestDeps, open_content: OpenContent, extractor: Extractor) -> None:
        self._deps = deps
        self._open = open_content
        self._extractor = extractor
        self._semaphore = asyncio.Semaphore(_AT_ONCE)
        self._making: dict[_Key, asyncio.Task[FoundView | None]] = {}
        """Views in progress. Requests that need the same one wait for its task."""
        self._absent_views: BoundedCache[_Key, bool] = BoundedCache("views_absent", _WITHOUT_BYTES)
        self._absent_forms: BoundedCache[tuple[str, str, bytes], bool] = BoundedCache("forms_absent", _WITHOUT_BYTES)

    async def __call__(self, entry: FoundArtifact) -> FoundView | None:
        """Makes and keeps the text view of an artifact found `with_bytes`, and returns it; None if there is none.

        Raises:
            CoatcheckError: `storage_full`, `storage_unavailable` or `overloaded` if the view cannot be made or kept
                now, but a retry may succeed; `integrity`; `artifact_not_found` if the artifact was deleted meanwhile.
        """
        a = entry.artifact
        key = (a.namespace, a.id, a.measure.sha256, view_inputs(a.declared, a.facts))
        if self._absent_views.get(key):
            return None
        making = self._making.get(key)
        if making is None:
            making = self._making[key] = asyncio.create_task(self._make(entry))
            making.add_done_callback(lambda task: self._finish_making(key, task))
        # The shield keeps a caller who leaves from cancelling the task that others wait for.
        return await asyncio.shield(making)

    async def keep(self, entry: FoundArtifact, extracted: ExtractedText) -> FoundView:
        """Keeps a text view that was made already.

        Raises:
            CoatcheckError: as `__call__` does.
        """
        with _explain_refusal(entry.artifact.id):
            return await self._keep(entry, extracted)

    async def describe(self, entry: FoundArtifact) -> FoundArtifact:
        """Returns an artifact found `with_bytes`, and adds the form of its text if an older release found none.

        Raises:
            CoatcheckError: `storage_unavailable`, `integrity` if its bytes cannot be read.
        """
        a = entry.artifact
        key = (a.namespace, a.id, a.measure.sha256)
        if not a.lacks_form or self._absent_forms.get(key):
            return entry
        size = a.measure.size
        # The form shows in the beginning of a payload. But a payload that fits in memory is decoded whole, so that its
        # detected metadata is complete.
        head = await self._open(entry).read(0, size if size <= HELD_WHOLE else SAMPLE_BYTES)
        facts = await in_pool(self._deps.pool, describe_form, a, head)
        if facts is None:
            self._absent_forms.put(key, value=True)
            return entry
        return structs.replace(entry, artifact=structs.replace(a, facts=facts))

    async def finish_views(self, seconds: float) -> None:
        """Returns once every view in progress is kept or has failed; after `seconds`, cancels the remaining ones."""
        if not self._making:
            return
        _, pending = await asyncio.wait(list(self._making.values()), timeout=seconds)
        for making in pending:
            making.cancel()
        if pending:
            await asyncio.wait(pending)

    def _finish_making(self, key: _Key, task: "asyncio.Task[FoundView | None]") -> None:
        del self._making[key]
        # Only the result that there is no view is remembered. An error is not, because it may pass.
        if not task.cancelled() and task.exception() is None and task.result() is None:
            self._absent_views.put(key, value=True)

    async def _make(self, entry: FoundArtifact) -> FoundView | None:
        a = entry.artifact
        content = self._open(entry)
        spec = spec_of(a.facts.kind)
        cap = spec.view_bytes
        # A payload that is too large to decode in memory is decoded block by block. No extractor is used, because an
        # extractor needs the whole text.
        if a.facts.form is not None and content.size > HELD_WHOLE:
            async with self._semaphore:
                with _explain_refusal(a.id):
                    return await self._decode(entry, content, a.facts.form)
        # A payload that is too large gets a view of its beginning, unless its kind can only be read as a whole.
        if content.size > cap and not spec.view_partial:
            return None
        async with self._semaphore:
            extracted = await self._extract_text(entry, content, cap)
            if extracted is None:
                return None
            with _explain_refusal(a.id):
                return await self._keep(entry, extracted)

    async def _extract_text(self, entry: FoundArtifact, content: Content, cap: int) -> ExtractedText | None:
        a = entry.artifact
        payload = await content.read(0, cap)
        if a.facts.form is not None:
            payload = await in_pool(self._deps.pool, open_payload, a.facts.form, payload)
        try:
            extracted = await extract_view(self._extractor, a.declared, a.facts, payload)
        except CoatcheckError as error:
            detail = f"The text view of {a.id} cannot be made at the moment. {error.detail}"
            raise CoatcheckError(error.code, f"{detail} Retry the same call, or use view=raw.") from error
        if extracted is None or (is_plain(a.facts) and extracted.text is not None):
            return None  # plain text is its own text view, so no other one may be kept
        # The extractor gets at most `cap` bytes, and cannot know whether there were more.
        return structs.replace(extracted, partial=extracted.partial or content.size > cap)

    async def _keep(self, entry: FoundArtifact, extracted: ExtractedText) -> FoundView:
        a = entry.artifact
        if extracted.text is None:
            m = a.measure
            measure = ViewMeasure(size=m.size, lines=m.lines, chars=m.chars, tokens=m.tokens)
            return (await self._commit(entry, NewView(view=_view(extracted, measure), blob=None))).view
        return await self._write(entry, _blocks(extracted.text), extracted)

    async def _decode(self, entry: FoundArtifact, content: Content, form: PayloadForm) -> FoundView:
        """Decodes the text of a payload block by block, whatever its size, and keeps it as the text view."""
        decoder = FormDecoder(form)

        async def texts() -> AsyncIterator[bytes]:
            for at in range(0, content.size, BLOCK):
                block = await content.read(at, min(at + BLOCK, content.size))
                yield await in_pool(self._deps.pool, decoder.decode, block)
            yield decoder.decode(b"", is_last=True)

        return await self._write(entry, texts(), ExtractedText(text=b"", extractor=OPENED))

    async def _write(self, entry: FoundArtifact, blocks: AsyncIterator[bytes], extracted: ExtractedText) -> FoundView:
        a = entry.artifact
        encoder = PayloadEncoder(self._deps.tokenizer)
        # The view is not limited by the quota, so that artifacts of a full namespace can still be read.
        async with UploadSession(self._deps, Caller(namespace=a.namespace), encoder, limited=False) as upload:
            # As in an ingest, the last block is kept back for the encoder's `end`.
            last = b""
            async for block in blocks:
                if last:
                    await upload.take(last)
                last = block or last
            await upload.wait_until_digested()
            await upload.end(await in_pool(self._deps.pool, encoder.end, last))
            # `upload.end` syncs a file in the background. Meanwhile, the tokens are counted.
            await in_pool(self._deps.pool, encoder.count)
            await upload.durable()
            m = encoder.measure()
            measure = ViewMeasure(size=m.size, lines=m.lines, chars=m.chars, tokens=m.tokens)
            blob, inline = upload.blob()
            new = NewView(view=_view(extracted, measure), blob=blob, inline=inline)
            return (await upload.run_commit(self._commit(entry, new))).view

    async def _commit(self, entry: FoundArtifact, new: NewView) -> StoredView:
        a, now = entry.artifact, self._deps.clock.now()
        number = ids.parse(a.id)
        change = StoreView(
            namespace=a.namespace,
            number=number,
            now=now,
            new=new,
            inputs=view_inputs(a.declared, a.facts),
            facts=a.facts if a.engine < ENGINE and a.facts.form is not None else None,
        )
        with self._deps.catalog_breaker.guard_call():
            answer = await self._deps.catalog.commit(change)
        if isinstance(answer, UploadFenced):
            raise fenced_error()
        if answer is None:
            # A payload in the fallback buffer has no row yet to which a view could be attached. The artifact is known,
            # though, so `artifact_not_found` would be wrong.
            waits = self._deps.fallback.find(a.namespace, number, now) is not None
            raise _waits() if waits else not_found()
        return answer


async def extract_view(
    extractor: Extractor, declared: DeclaredMetadata, facts: DetectedMetadata, text: bytes
) -> ExtractedText | None:
    """Returns the text view that the extractor makes of a payload; None if there is none.

    `text` is the payload, or its decoded text if the payload is encoded. If the extractor makes no view of a decoded
    text, the decoded text itself is the view.

    Raises:
        CoatcheckError: `overloaded` if no extractor is free now to decide whether there is a view.
    """
    inputs = view_inputs(declared, facts)
    extracted_text = await extractor.extract(inputs.kind, inputs.media_type, inputs.source, text)
    # An encoded payload always has a text view, at least its decoded text.
    if facts.form is None or (extracted_text is not None and extracted_text.text is not None):
        return extracted_text
    sections, is_partial = ((), False) if extracted_text is None else (extracted_text.sections, extracted_text.partial)
    return ExtractedText(text=text, sections=sections, extractor=OPENED, partial=is_partial)


async def _blocks(text: bytes) -> AsyncIterator[bytes]:
    for at in range(0, len(text), BLOCK):
        yield text[at : at + BLOCK]


def _view(extracted: ExtractedText, measure: ViewMeasure) -> View:
    return View(
        name=TEXT,
        extractor=extracted.extractor,
        partial=extracted.partial,
        sections=extracted.sections,
        measure=measure,
    )


@contextmanager
def _explain_refusal(artifact_id: str) -> Generator[None]:
    """Adds to a refusal of storage that the text view was refused, and that the payload itself can still be read."""
    try:
        yield
    except CoatcheckError as error:
        if error.code not in REFUSALS:
            raise
        detail = f"The text view of {artifact_id} could not be stored, and is not shown until it is. {error.detail}"
        advice = "" if "etry" in error.detail else " Retry the same call"
        raise CoatcheckError(error.code, f"{detail}{advice}{', or' if advice else ' Or'} use view=raw.") from error


def _waits() -> CoatcheckError:
    return CoatcheckError(Code.STORAGE_UNAVAILABLE, "The payload itself is in memory, waiting to be stored.")
