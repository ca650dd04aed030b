"""Store the payloads that wait for storage, as soon as it answers again. Only then do they count as stored.

Crash story: each payload is stored as an ingest stores it, with an intent before its file. It waits in memory until it
is committed, so that a crash loses only what was never acknowledged. A commit whose answer was lost is repeated with
the same file. At the end of the process, what still waits goes to a file; a payload of an earlier process is settled
there after its commit, and if a crash comes between the two, it is offered again and found to be stored.
"""

import asyncio
import logging
from datetime import datetime, timedelta

import msgspec

from coatcheck.core.artifact import Blob, Gone
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.core.text.count import plural
from coatcheck.ports.artifacts import IngestResult, StoreArtifact, UploadFenced
from coatcheck.ports.blobs import AbandonUpload, BeginUpload, BlobWriter
from coatcheck.runtime.circuit_breaker import REFUSALS
from coatcheck.storing.blob_health import BlobHealth
from coatcheck.storing.commit_artifact import CommitAnswer, CommitArtifact
from coatcheck.storing.fallback_buffer import FallbackBuffer, FallbackPayload, Key
from coatcheck.storing.ingest_deps import IngestDeps
from coatcheck.usecases.operations.show_overview import CheckReadiness

log = logging.getLogger(__name__)

_FINAL = frozenset({Code.QUOTA_EXCEEDED, Code.NAMESPACE_DELETING})
"""Refusals that are not outages: a payload that waited for storage does not wait for room."""
LAST_SECONDS = 5.0
"""Seconds that the last round may take when the service stops."""


class _UncommittedFile(msgspec.Struct):
    """A file that was written and whose commit is not known to have succeeded."""

    entry: FallbackPayload
    """The payload as it waits; another entry under the same key must not use the file."""
    change: StoreArtifact
    writer: BlobWriter
    """Can still remove the file."""
    until: datetime
    """End of its intent's lease; after this it must not be committed."""


class FlushFallback:
    """Stores the payloads in the fallback buffer once storage accepts them."""

    def __init__(self, deps: IngestDeps, readiness: CheckReadiness) -> None:
        """Shares ingest's circuit breakers, so that a silent store is not called for every payload.

        `readiness` asks the stores that are silent whether they answer again, and closes their breakers.
        """
        self._deps = deps
        health = BlobHealth(deps.catalog, deps.blobs, deps.clock)
        self._commit = CommitArtifact(deps.catalog, health, deps.catalog_breaker, deps.blobs_breaker, deps.rooms)
        self._readiness = readiness
        self._uncommitted_files: dict[Key, _UncommittedFile] = {}

    @property
    def _fallback(self) -> FallbackBuffer:
        return self._deps.fallback

    async def __call__(self) -> int:
        """Learns which stores answer again, then stores what waits, oldest first; returns how many were stored.

        A store that refuses one payload is not asked about another in this round; a catalogue may answer while the blob
        store does not. A silent store is waited for once, however many payloads wait.

        Raises:
            CoatcheckError: the error of the store that refused last.
        """
        # Room may have been freed since the last round: payloads of earlier processes come in from their file.
        self._fallback.restore()
        await self._query_silent_stores()
        count = 0
        refused: CoatcheckError | None = None
        for entry in self._fallback.waiting(self._deps.clock.now()):
            # After a refusal, only small payloads are tried: they need the catalogue alone, not the blob store.
            if self._deps.catalog_breaker.silent or (refused is not None and not self._is_small(entry)):
                continue
            try:
                # A deletion must not run between the check that the payload waits and its commit: it would come back to
                # life.
                async with self._fallback.alone_with(*entry.key):
                    count += await self._store(entry)
            except CoatcheckError as error:
                if error.code not in REFUSALS:
                    log.warning("%s waits for storage and was refused: %s", entry.artifact.id, error.detail)
                    if error.code in _FINAL:
                        self._fallback.forget(*entry.key)
                    continue
                refused = error
                if self._is_small(entry):
                    break
            # A payload that cannot be stored for a reason of its own does not stop those behind it.
            except Exception:
                log.exception("%s waits for storage and could not be stored", entry.artifact.id)
        if count:
            log.info("%d payloads from the fallback buffer were stored", count)
        if refused is not None:
            raise refused
        return count

    async def last(self) -> None:
        """Runs the last round, bounded in time; saves what still waits, and logs what is lost with this process."""
        try:
            await asyncio.wait_for(self(), LAST_SECONDS)
        except (CoatcheckError, TimeoutError) as error:
            log.warning("flush_fallback failed at the end: %s", error)
        # Also after a failure or a time-out: what is still in the buffer goes to a file.
        lost_count = self._fallback.save()
        if self._fallback.count - lost_count:
            log.warning("Saved %s for the next start.", plural(self._fallback.count - lost_count, "payload"))
        if lost_count:
            log.error("Lost %s that had not reached storage yet.", plural(lost_count, "payload"))

    def _is_small(self, entry: FallbackPayload) -> bool:
        return len(entry.stored_bytes) <= self._deps.inline_bytes

    async def _query_silent_stores(self) -> None:
        """Raises nothing: a store that is still silent stays marked so."""
        if self._deps.catalog_breaker.silent or self._deps.blobs_breaker.silent:
            await self._readiness()

    async def _store(self, entry: FallbackPayload) -> bool:
        if not self._fallback.waits(entry):
            return False
        answer = await (self._commit(self._change(entry)) if self._is_small(entry) else self._as_blob(entry))
        if isinstance(answer, UploadFenced):
            return False  # the file took too long: the next round writes it anew
        if not isinstance(answer, IngestResult | Gone):
            log.warning("%s waited for storage, which refused it: %r", entry.artifact.id, answer)
        # A newer post may have replaced the entry meanwhile; that one must stay.
        if self._fallback.waits(entry):
            self._fallback.forget(*entry.key)
        return isinstance(answer, IngestResult)

    def _change(self, entry: FallbackPayload) -> StoreArtifact:
        """Returns the change as made now. What was deleted since it was handed over stays deleted."""
        change = entry.change
        view = change.text_view
        # The view needs a new name too, as an attempt whose answer was lost may have used the old one.
        if view is not None and view.blob is not None:
            view = msgspec.structs.replace(view, blob=self._rename_blob(view.blob))
        return msgspec.structs.replace(
            change,
            blob=self._rename_blob(change.blob),
            text_view=view,
            now=self._deps.clock.now(),
            unless_buried_since=change.now,
        )

    def _rename_blob(self, blob: Blob) -> Blob:
        """Returns the blob under a name that no earlier attempt can have used."""
        return msgspec.structs.replace(blob, id=self._deps.new_blob_id())

    async def _as_blob(self, entry: FallbackPayload) -> CommitAnswer:
        file = self._uncommitted_files.pop(entry.key, None)
        # A file of an earlier round is used again if it is of this very entry and its intent still holds.
        if file is None or file.entry is not entry or file.until <= self._deps.clock.now():
            file = await self._place(entry)
        try:
            answer = await self._commit(file.change)
        except CoatcheckError as error:
            if error.code is Code.STORAGE_UNAVAILABLE:
                self._uncommitted_files = {entry.key: file}  # the commit may have been made; asking again tells
            else:
                await self._give_up(file.writer, file.change)
            raise
        # The catalogue points at other bytes of the same payload, so nothing will ever point at this file.
        if not (isinstance(answer, IngestResult) and answer.blob_used):
            await file.writer.abort()
        return answer

    async def _place(self, entry: FallbackPayload) -> _UncommittedFile:
        p = self._deps
        change = self._change(entry)
        blob = msgspec.structs.replace(change.blob, placement=p.blobs.placement)
        change = msgspec.structs.replace(change, blob=blob, inline=None)
        until = p.clock.now() + p.lease
        intent = BeginUpload(namespace=change.namespace, blob_id=blob.id, placement=blob.placement, lease_until=until)
        # The intent first: a crash while the file is written leaves a row by which the reaper finds it.
        with p.catalog_breaker.guard_call():
            await p.catalog.commit(intent)
        with p.blobs_breaker.guard_call():
            writer = await p.blobs.create(change.namespace, blob.id)
            try:
                await writer.write(entry.stored_bytes)
                await writer.finish()
            except CoatcheckError:
                await self._give_up(writer, change)
                raise
        # A second is left for the commit to arrive before the lease ends and the reaper may fence it off.
        return _UncommittedFile(entry, change, writer, until - timedelta(seconds=1))

    async def _give_up(self, writer: BlobWriter, change: StoreArtifact) -> None:
        try:
            # Bytes first, intent second, as in an upload.
            await writer.abort()
            await self._deps.catalog.commit(AbandonUpload(namespace=change.namespace, blob_id=change.blob.id))
        except CoatcheckError as error:
            log.warning("upload %s is left to the reaper: %s", change.blob.id, error.detail)
