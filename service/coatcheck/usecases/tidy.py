"""One round of upkeep: note reads, expire, reap, sweep, purge.

Every step is a small transaction that is harmless to repeat, so any number of processes may tidy at once and a crash
between two steps loses nothing. Bytes go before rows: a row whose bytes are gone is found and finished by the next
round; the reverse would leak.
"""

from collections.abc import Awaitable, Callable
from datetime import timedelta

from msgspec import Struct

from coatcheck.ports import (
    BlobStore,
    Catalog,
    Clock,
    ExpireArtifacts,
    ForgetBlob,
    PurgeRecords,
    ReapUploads,
    Touch,
    Upkeep,
)
from coatcheck.usecases.find import ReadLog

BATCH = 500
"""Rows of one transaction; on SQLite 500 expiries hold the writer for well under 100 ms."""


class Tidied(Struct, frozen=True):
    """What a round did."""

    expired: int = 0
    reaped: int = 0
    removed: int = 0
    """Dead blobs whose bytes and rows are gone."""
    purged: int = 0
    """Tombstones and idempotency keys that were forgotten."""


class Tidy:
    """The verb."""

    def __init__(
        self,
        catalog: Catalog,
        upkeep: Upkeep,
        blobs: BlobStore,
        clock: Clock,
        reads: ReadLog,
        *,
        tombstone_life: timedelta,
        grace: timedelta,
    ) -> None:
        self._catalog = catalog
        self._upkeep = upkeep
        self._blobs = blobs
        self._clock = clock
        self._reads = reads
        self._life = tombstone_life
        self._grace = grace

    async def __call__(self) -> Tidied:
        """Do everything that is due, in batches, and answer what was done."""
        reads = self._reads.drain()
        for start in range(0, len(reads), BATCH):
            await self._catalog.touch(Touch(reads=reads[start : start + BATCH]))
        return Tidied(
            expired=await _drain(self._expire),
            reaped=await _drain(self._reap),
            removed=await _drain(self._sweep),
            purged=await _drain(self._purge),
        )

    async def _expire(self) -> int:
        now = self._clock.now()
        return await self._upkeep.expire_artifacts(
            ExpireArtifacts(now=now, tombstone_until=now + self._life, limit=BATCH)
        )

    async def _reap(self) -> int:
        return await self._upkeep.reap_uploads(ReapUploads(now=self._clock.now(), limit=BATCH))

    async def _sweep(self) -> int:
        dead = await self._upkeep.dead_blobs(self._clock.now() - self._grace, BATCH)
        for blob in dead:
            if blob.placement != "inline":
                await self._blobs.remove(blob.namespace, blob.id)
            await self._upkeep.forget_blob(ForgetBlob(namespace=blob.namespace, blob_id=blob.id))
        return len(dead)

    async def _purge(self) -> int:
        return await self._upkeep.purge_records(PurgeRecords(now=self._clock.now(), limit=BATCH))


async def _drain(step: Callable[[], Awaitable[int]]) -> int:
    """Repeat a step until it finds less than a full batch."""
    total = 0
    while True:
        done = await step()
        total += done
        if done < BATCH:
            return total
