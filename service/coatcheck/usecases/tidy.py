"""One round of upkeep: note reads, expire, reap, sweep, purge.

Every step is a small transaction that is harmless to repeat, so any number of processes may tidy at once and a crash
between two steps loses nothing. Bytes go before rows: a row whose bytes are gone is found and finished by the next
round; the reverse would leak.
"""

import logging
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta

from msgspec import Struct

from coatcheck.core.errors import CoatcheckError
from coatcheck.ports import (
    BlobStore,
    Catalog,
    Clock,
    DeadBlob,
    ExpireArtifacts,
    ForgetBlobs,
    PurgeRecords,
    ReapUploads,
    TakeLease,
    Upkeep,
)
from coatcheck.usecases.placed import not_opened, store_of
from coatcheck.usecases.reads import NoteReads, ReadLog

log = logging.getLogger(__name__)

BATCH = 500
"""Rows of one transaction; on SQLite 500 expiries hold the writer for well under 100 ms."""

_ROUND = 5.0
"""Seconds that a round takes at most while there is little to do."""

ROWS = 100
"""Blob rows forgotten in one transaction: their inline bytes are overwritten with zeros as they go, 32 KiB each."""


class Tidied(Struct, frozen=True):
    """What a round did."""

    expired: int = 0
    reaped: int = 0
    removed: int = 0
    """Dead blobs whose bytes and rows are gone."""
    purged: int = 0
    """Tombstones and idempotency keys that were forgotten."""


OTHERS = timedelta(seconds=5)
"""How long reads on another replica may take to reach their rows: until then what expired is not buried."""


class Crew(Struct, frozen=True):
    """Several processes over one store: one of them tidies at a time, to spare work. Two at once do no harm."""

    me: str
    """A name that no other process has."""
    pause: float
    """Seconds between two rounds."""


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
        note: NoteReads | None = None,
        crew: Crew | None = None,
    ) -> None:
        """Make the verb; `note` is shared with whoever else writes reads down. Without a crew the store is ours."""
        self._crew = crew
        self._upkeep = upkeep
        self._blobs = blobs
        self._clock = clock
        self._reads = reads
        self._note = note or NoteReads(catalog, reads)
        self._stuck: frozenset[str] = frozenset()
        self._life = tombstone_life
        self._grace = grace

    async def __call__(self) -> Tidied:
        """Do everything that is due, in batches, and answer what was done."""
        # Reads before expiry, and no further than all of them are noted: a row that a read still keeps stays.
        until = self._reads.horizon(self._clock.now())
        await self._note()
        if self._crew is not None:
            if not await self._lead(self._crew):
                return Tidied()
            until -= OTHERS
        return Tidied(
            expired=await _drain(lambda: self._expire(until)),
            reaped=await _drain(self._reap),
            removed=await self._sweep(),
            purged=await _drain(self._purge),
        )

    async def leave(self) -> None:
        """Give the lease back, so that another process tidies at once; for a clean stop. Raises nothing."""
        if self._crew is None:
            return
        lease = TakeLease(name="tidy", holder=self._crew.me, seconds=0, now=self._clock.now())
        try:
            await self._upkeep.take_lease(lease)
        except CoatcheckError as error:
            log.info("the lease for tidying was not given back, it will pass: %s", error.detail)

    async def _lead(self, crew: Crew) -> bool:
        """Whether it is this process that tidies. A leader that stops or hangs loses the lease after two rounds."""
        seconds = 2 * crew.pause + _ROUND
        return await self._upkeep.take_lease(
            TakeLease(name="tidy", holder=crew.me, seconds=seconds, now=self._clock.now())
        )

    async def _expire(self, now: datetime) -> int:
        return await self._upkeep.expire_artifacts(
            ExpireArtifacts(now=now, tombstone_until=now + self._life, limit=BATCH)
        )

    async def _reap(self) -> int:
        return await self._upkeep.reap_uploads(ReapUploads(now=self._clock.now(), limit=BATCH))

    async def _sweep(self) -> int:
        """Remove what has been dead for the grace. What cannot be removed is passed by, so that it starves no other."""
        before = self._clock.now() - self._grace
        removed = 0
        stuck: dict[str, str] = {}
        last: DeadBlob | None = None
        while batch := await self._upkeep.dead_blobs(before, BATCH, last):
            last = batch[-1]
            done = [blob for blob in batch if await self._remove(blob, stuck)]
            for start in range(0, len(done), ROWS):
                part = tuple((blob.namespace, blob.id) for blob in done[start : start + ROWS])
                await self._upkeep.forget_blobs(ForgetBlobs(blobs=part))
            removed += len(done)
        self._tell(stuck)
        return removed

    async def _remove(self, blob: DeadBlob, stuck: dict[str, str]) -> bool:
        """Whether a blob's bytes are gone, so that its row may go; its row's own bytes go with it."""
        if blob.placement == "inline":
            return True
        try:
            store = store_of(self._blobs, blob.placement)
            if store is None:
                raise not_opened(self._blobs, blob.placement)
            await store.remove(blob.namespace, blob.id)
        except CoatcheckError as error:
            stuck[blob.id] = error.detail
            return False
        return True

    def _tell(self, stuck: dict[str, str]) -> None:
        """Say which blobs are stuck when they are not those of the last round."""
        if stuck.keys() == self._stuck:
            return
        self._stuck = frozenset(stuck)
        if stuck:
            log.warning(
                "%d dead blobs could not be removed, will try again each round; the first is %s: %s",
                len(stuck),
                *next(iter(stuck.items())),
            )
        else:
            log.info("the dead blobs that could not be removed are gone")

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
