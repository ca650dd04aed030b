"""Store the payloads in the fallback buffer as soon as storage answers again. Only then do they count as stored.

Crash story: each payload is stored as an ingest stores it, with an intent before its file. A payload stays in memory
until it is committed, so a crash loses only payloads whose storage was never acknowledged. If the answer to a commit is
lost, the commit is repeated with the same file. When the process ends, the remaining payloads are saved to a file, and
the next process restores them from there. A restored payload is committed first and then marked as finished in that
file. After a crash between the two, the payload is restored again, and the commit finds it stored already.
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
"""Refusals after which a payload is dropped: it waits until storage answers, but not until its namespace has room."""
LAST_SECONDS = 5.0
"""Maximum seconds of the last round, which runs when the service stops."""


class _UncommittedFile(msgspec.Struct):
    """A written file that the catalogue may or may not have committed, because the answer to the commit was lost."""

    entry: FallbackPayload
    """The payload in the buffer that the file belongs to; a newer payload under the same key must not use the file."""
    change: StoreArtifact
    writer: BlobWriter
    """The writer of the file, which can still remove it."""
    until: datetime
    """The moment after which the file must not be committed: a second before the lease of its intent ends."""


class FlushFallback:
    """Stores the payloads in the fallback buffer once storage accepts them."""

    def __init__(self, deps: IngestDeps, readiness: CheckReadiness) -> None:
        """Stores its arguments.

        Args:
            deps: the dependencies of ingest. They contain ingest's circuit breakers, so that a silent store is not
                called for every payload.
            readiness: checks whether the silent stores answer again, and closes their circuit breakers if they do.
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
        """Checks which stores answer again, and stores the waiting payloads, oldest first; returns how many it stored.

        After a store has refused one payload, no other payload is offered to it in this round. If the blob store
        refuses, small payloads are still stored, because they need only the catalogue. The call waits for a silent
        store only once, however many payloads wait.

        Raises:
            CoatcheckError: the error of the store that refused last.
        """
        # Memory may have been freed since the last round, so payloads of earlier processes are restored from their
        # file.
        self._fallback.restore()
        await self._query_silent_stores()
        count = 0
        refused: CoatcheckError | None = None
        for entry in self._fallback.waiting(self._deps.clock.now()):
            # After a refusal, only small payloads are tried: they need the catalogue, but not the blob store.
            if self._deps.catalog_breaker.silent or (refused is not None and not self._is_small(entry)):
                continue
            try:
                # No deletion may run between the check that the payload still waits and its commit: otherwise the
                # commit would bring the deleted artifact back.
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
            # An unexpected error concerns one payload and does not keep the next payloads from being stored.
            except Exception:
                log.exception("%s waits for storage and could not be stored", entry.artifact.id)
        if count:
            log.info("%d payloads from the fallback buffer were stored", count)
        if refused is not None:
            raise refused
        return count

    async def last(self) -> None:
        """Runs the last round before the process ends, saves the remaining payloads to a file, and logs the lost ones.

        The round takes `LAST_SECONDS` at most. Raises nothing.
        """
        try:
            await asyncio.wait_for(self(), LAST_SECONDS)
        except (CoatcheckError, OSError) as error:  # a time-out is an OSError
            log.warning("flush_fallback failed at the end: %r", error)
        finally:
            self._save_remaining()

    def _save_remaining(self) -> None:
        """Saves the payloads that are still in the buffer to a file, and logs how many were saved and lost."""
        lost_count = self._fallback.save()
        if self._fallback.count - lost_count:
            log.warning("Saved %s for the next start.", plural(self._fallback.count - lost_count, "payload"))
        if lost_count:
            log.error("Lost %s that had not reached storage yet.", plural(lost_count, "payload"))

    def _is_small(self, entry: FallbackPayload) -> bool:
        return len(entry.stored_bytes) <= self._deps.inline_bytes

    async def _query_silent_stores(self) -> None:
        """Checks whether silent stores answer again. Raises nothing: a store that does not answer stays silent."""
        if self._deps.catalog_breaker.silent or self._deps.blobs_breaker.silent:
            await self._readiness()

    async def _store(self, entry: FallbackPayload) -> bool:
        """Stores a payload if it still waits; returns whether it was stored.

        Drops the payload from the buffer, unless the next round has to try again.
        """
        if not self._fallback.waits(entry):
            return False
        answer = await (self._commit(self._change(entry)) if self._is_small(entry) else self._as_blob(entry))
        if isinstance(answer, UploadFenced):
            return False  # writing the file took longer than the intent's lease: the next round writes a new file
        if not isinstance(answer, IngestResult | Gone):
            log.warning("%s waited for storage, which refused it: %r", entry.artifact.id, answer)
        # A later ingest may have replaced the entry in the buffer meanwhile; the new entry must stay.
        if self._fallback.waits(entry):
            self._fallback.forget(*entry.key)
        return isinstance(answer, IngestResult)

    def _change(self, entry: FallbackPayload) -> StoreArtifact:
        """Returns the change that stores a payload now, under new blob names.

        If the artifact was deleted after the payload was handed over, the catalogue refuses the change.
        """
        change = entry.change
        view = change.text_view
        # The text view needs a new name too: an earlier attempt whose answer was lost may have used the old name.
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
        """Stores a payload in the blob store: writes its file, or takes the one of the last round, and commits it."""
        file = self._uncommitted_files.pop(entry.key, None)
        # A file of an earlier round is used again if it belongs to this very entry and its intent's lease still holds.
        if file is None or file.entry is not entry or file.until <= self._deps.clock.now():
            file = await self._write_file(entry)
        try:
            answer = await self._commit(file.change)
        except CoatcheckError as error:
            if error.code is Code.STORAGE_UNAVAILABLE:
                self._uncommitted_files = {entry.key: file}  # the commit may have succeeded: a repeat shows it
            else:
                await self._give_up(file.writer, file.change)
            raise
        # The catalogue did not use this file, for instance because it already has the payload's bytes in another blob.
        # Nothing will ever refer to the file.
        if not (isinstance(answer, IngestResult) and answer.blob_used):
            await file.writer.abort()
        return answer

    async def _write_file(self, entry: FallbackPayload) -> _UncommittedFile:
        """Announces a payload's file by an intent, and writes the file."""
        deps = self._deps
        change = self._change(entry)
        blob = msgspec.structs.replace(change.blob, placement=deps.blobs.placement)
        change = msgspec.structs.replace(change, blob=blob, inline=None)
        until = deps.clock.now() + deps.lease
        intent = BeginUpload(namespace=change.namespace, blob_id=blob.id, placement=blob.placement, lease_until=until)
        # The intent is committed first: after a crash during the write, the reaper finds the file by the intent's row.
        with deps.catalog_breaker.guard_call():
            await deps.catalog.commit(intent)
        with deps.blobs_breaker.guard_call():
            writer = await deps.blobs.create(change.namespace, blob.id)
            try:
                await writer.write(entry.stored_bytes)
                await writer.finish()
            except CoatcheckError:
                await self._give_up(writer, change)
                raise
        # The commit has a second less than the lease, so that it arrives before the reaper may fence it off.
        return _UncommittedFile(entry, change, writer, until - timedelta(seconds=1))

    async def _give_up(self, writer: BlobWriter, change: StoreArtifact) -> None:
        """Removes a file that will not be committed, and its intent; if that fails, the reaper does it later."""
        try:
            # The bytes are removed before the intent, as in an upload: otherwise nothing would find the bytes.
            await writer.abort()
            await self._deps.catalog.commit(AbandonUpload(namespace=change.namespace, blob_id=change.blob.id))
        except CoatcheckError as error:
            log.warning("upload %s is left to the reaper: %s", change.blob.id, error.detail)
