"""Store what waited for storage, as soon as storage answers again. Only then does it count as stored.

Crash story: each payload is stored as an ingest stores it, with an intent before its file; it waits in memory until its
commit, so that a crash loses what was never acknowledged, and nothing else.
"""

import logging
from collections.abc import Callable
from datetime import timedelta

import msgspec

from coatcheck.core import ids
from coatcheck.core.errors import CoatcheckError
from coatcheck.ports import (
    AbandonUpload,
    BeginUpload,
    BlobStore,
    BlobWriter,
    Catalog,
    Clock,
    DeleteArtifact,
    StoreArtifact,
    Stored,
)
from coatcheck.usecases.outage import Outage
from coatcheck.usecases.settle import Settle
from coatcheck.usecases.shelter import Shelter, Sheltered
from coatcheck.usecases.trust import Trust

log = logging.getLogger(__name__)


class WriteThrough:
    """The verb."""

    def __init__(
        self,
        shelter: Shelter,
        catalog: Catalog,
        blobs: BlobStore,
        clock: Clock,
        *,
        new_blob_id: Callable[[], str],
        lease: timedelta,
        inline_bytes: int,
        tombstone_life: timedelta,
    ) -> None:
        """Make the verb; the settings are those of ingest."""
        self._shelter = shelter
        self._catalog = catalog
        self._blobs = blobs
        self._clock = clock
        self._new_blob_id = new_blob_id
        self._lease = lease
        self._inline_bytes = inline_bytes
        self._life = tombstone_life
        self._settle = Settle(catalog, Trust(catalog, blobs, clock), Outage("catalogue, for what waits,", clock))

    async def __call__(self) -> int:
        """Store what waits, oldest first; answers how many were stored.

        A payload that its store does not take yet keeps no other waiting: a catalogue may answer while the blob store
        does not.

        Raises:
            CoatcheckError: what the last store that refused said, after every payload had its turn.
        """
        done = 0
        refused: CoatcheckError | None = None
        for entry in self._shelter.waiting(self._clock.now()):
            try:
                await self._store(entry)
            except CoatcheckError as error:
                refused = error
                continue
            except Exception:
                log.exception("%s waits for storage and could not be stored", entry.artifact.id)
                continue
            done += 1
        if done:
            log.info("%d payloads that waited for storage are stored", done)
        if refused is not None:
            raise refused
        return done

    async def _store(self, entry: Sheltered) -> None:
        change = msgspec.structs.replace(
            entry.change, blob=msgspec.structs.replace(entry.change.blob, id=self._new_blob_id())
        )
        stored = change.inline or b""
        answer = await (self._inline(change) if len(stored) <= self._inline_bytes else self._as_blob(change, stored))
        if not isinstance(answer, Stored):
            log.warning("%s waited for storage and was refused by it: %r", entry.artifact.id, answer)
        elif not self._shelter.holds(entry):
            await self._forget(entry)  # deleted while it was being stored
            return
        self._shelter.forget(*entry.key)

    async def _inline(self, change: StoreArtifact) -> object:
        return await self._settle(change)

    async def _as_blob(self, change: StoreArtifact, stored: bytes) -> object:
        blob = msgspec.structs.replace(change.blob, placement=self._blobs.placement)
        change = msgspec.structs.replace(change, blob=blob, inline=None)
        namespace, blob_id = change.namespace, blob.id
        lease_until = self._clock.now() + self._lease
        await self._catalog.begin_upload(
            BeginUpload(namespace=namespace, blob_id=blob_id, placement=blob.placement, lease_until=lease_until)
        )
        writer = await self._blobs.create(namespace, blob_id)
        try:
            await writer.write(stored)
            await writer.finish()
        except CoatcheckError:
            await self._give_up(writer, namespace, blob_id)
            raise
        # A commit whose answer was lost may be durable all the same: then file and intent are the reaper's business.
        answer = await self._settle(change)
        if not (isinstance(answer, Stored) and answer.blob_used):
            await writer.abort()
        return answer

    async def _give_up(self, writer: BlobWriter, namespace: str, blob_id: str) -> None:
        try:
            await writer.abort()
            await self._catalog.abandon_upload(AbandonUpload(namespace=namespace, blob_id=blob_id))
        except CoatcheckError as error:
            log.warning("upload %s is left to the reaper: %s", blob_id, error.detail)

    async def _forget(self, entry: Sheltered) -> None:
        now = self._clock.now()
        await self._catalog.delete_artifact(
            DeleteArtifact(
                namespace=entry.artifact.namespace,
                number=ids.parse(entry.artifact.id),
                now=now,
                tombstone_until=now + self._life,
            )
        )
