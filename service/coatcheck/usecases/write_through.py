"""Store what waited for storage, as soon as storage answers again. Only then does it count as stored.

Crash story: each payload is stored as an ingest stores it, with an intent before its file; it waits in memory until its
commit, so that a crash loses what was never acknowledged, and nothing else.
"""

import logging
from datetime import timedelta
from typing import Protocol

import msgspec

from coatcheck.core import ids
from coatcheck.core.errors import CoatcheckError
from coatcheck.ports import (
    AbandonUpload,
    BeginUpload,
    BlobWriter,
    DeleteArtifact,
    StoreArtifact,
    Stored,
)
from coatcheck.usecases import receive
from coatcheck.usecases.settle import Settle
from coatcheck.usecases.shelter import Shelter, Sheltered
from coatcheck.usecases.trust import Trust

log = logging.getLogger(__name__)


class Places(receive.Places, Protocol):
    """What writing through needs from the composition: what receiving needs, and the shelter."""

    @property
    def shelter(self) -> Shelter:
        """What waits."""
        ...


class WriteThrough:
    """The verb."""

    def __init__(self, places: Places, tombstone_life: timedelta) -> None:
        """Make the verb. It shares the outages of ingest: a store that is silent is not asked for every payload."""
        self._p = places
        self._life = tombstone_life
        self._settle = Settle(places.catalog, Trust(places.catalog, places.blobs, places.clock), places.catalog_outage)

    async def __call__(self) -> int:
        """Store what waits, oldest first; answers how many were stored.

        A payload that its store does not take yet keeps no other waiting: a catalogue may answer while the blob store
        does not. However many wait, a silent store is waited for once.

        Raises:
            CoatcheckError: what the last store that refused said, after every payload had its turn.
        """
        done = 0
        refused: CoatcheckError | None = None
        for entry in self._p.shelter.waiting(self._p.clock.now()):
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
            entry.change, blob=msgspec.structs.replace(entry.change.blob, id=self._p.new_blob_id())
        )
        stored = change.inline or b""
        answer = await (self._inline(change) if len(stored) <= self._p.inline_bytes else self._as_blob(change, stored))
        if not isinstance(answer, Stored):
            log.warning("%s waited for storage and was refused by it: %r", entry.artifact.id, answer)
        elif not self._p.shelter.holds(entry):
            await self._forget(entry)  # deleted while it was being stored
            return
        self._p.shelter.forget(*entry.key)

    async def _inline(self, change: StoreArtifact) -> object:
        return await self._settle(change)

    async def _as_blob(self, change: StoreArtifact, stored: bytes) -> object:
        blob = msgspec.structs.replace(change.blob, placement=self._p.blobs.placement)
        change = msgspec.structs.replace(change, blob=blob, inline=None)
        namespace, blob_id = change.namespace, blob.id
        lease_until = self._p.clock.now() + self._p.lease
        with self._p.catalog_outage.watched():
            await self._p.catalog.begin_upload(
                BeginUpload(namespace=namespace, blob_id=blob_id, placement=blob.placement, lease_until=lease_until)
            )
        with self._p.blobs_outage.watched():
            writer = await self._p.blobs.create(namespace, blob_id)
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
            await self._p.catalog.abandon_upload(AbandonUpload(namespace=namespace, blob_id=blob_id))
        except CoatcheckError as error:
            log.warning("upload %s is left to the reaper: %s", blob_id, error.detail)

    async def _forget(self, entry: Sheltered) -> None:
        now = self._p.clock.now()
        await self._p.catalog.delete_artifact(
            DeleteArtifact(
                namespace=entry.artifact.namespace,
                number=ids.parse(entry.artifact.id),
                now=now,
                tombstone_until=now + self._life,
            )
        )
