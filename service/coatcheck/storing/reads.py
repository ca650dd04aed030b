"""Reads that move idle expiry: kept on the request path, written separately.

Until a read is written, its artifact's row has an expiry that is too early. This process knows better, and `Find`
consults it, so that what was answered as live stays live, and what was answered as gone stays gone. A crash loses what
was not written: at most a second of reads.
"""

import asyncio
from collections.abc import Generator
from contextlib import contextmanager
from datetime import datetime, timedelta

from coatcheck.ports.artifacts import Touch
from coatcheck.ports.catalog import Catalog

BATCH = 500
"""Artifacts per change."""

Reads = tuple[tuple[str, int, datetime], ...]
_Key = tuple[str, int]


class ReadLog:
    """Unwritten reads of artifacts with an idle TTL. Bounded; a crash loses it.

    For each artifact it keeps the first read, the last, and as many in between as are needed so that each happened
    while the one before it kept the artifact alive.
    """

    LIMIT = 100_000

    def __init__(self) -> None:
        self._reads: dict[_Key, list[datetime]] = {}
        self._leaving: dict[_Key, list[datetime]] = {}
        self._looks: dict[object, datetime] = {}

    def note(self, namespace: str, number: int, moment: datetime, idle: timedelta = timedelta()) -> None:
        """Records a read of a live artifact; over the limit, new artifacts are not recorded until the next drain."""
        key = (namespace, number)
        chain = self._reads.get(key)
        if chain is None:
            if len(self._reads) < self.LIMIT:
                self._reads[key] = [moment]
        elif moment > chain[-1]:
            if len(chain) > 1 and moment < chain[-2] + idle:
                chain.pop()
            chain.append(moment)

    def pending(self, namespace: str, number: int) -> tuple[datetime, datetime] | None:
        """Returns the first and the last read of an artifact that may be unwritten."""
        key = (namespace, number)
        chain = [*self._leaving.get(key, ()), *self._reads.get(key, ())]
        return (chain[0], chain[-1]) if chain else None

    @contextmanager
    def look(self, moment: datetime) -> Generator[None]:
        """While this is open, an artifact that was live at `moment` may still be recorded as read then."""
        mark = object()
        self._looks[mark] = moment
        try:
            yield
        finally:
            del self._looks[mark]

    def horizon(self, now: datetime) -> datetime:
        """Returns a moment up to which everything has been recorded: what expired later must get no tombstone yet."""
        return min(now, *self._looks.values()) if self._looks else now

    def drain(self) -> Reads:
        """Returns what was recorded, oldest read first, and starts anew. It stays pending until `forget_drained`."""
        self._leaving, self._reads = self._reads, {}
        return tuple((ns, number, moment) for (ns, number), chain in self._leaving.items() for moment in chain)

    def forget_drained(self) -> None:
        """Forgets the drained reads, which are now in their rows."""
        self._leaving = {}

    def restore(self, reads: Reads) -> None:
        """Takes back drained reads that could not be written."""
        self._leaving = {}
        newer, self._reads = self._reads, {}
        for namespace, number, moment in reads:
            self._reads.setdefault((namespace, number), []).append(moment)
        for key, chain in newer.items():
            if key in self._reads or len(self._reads) < self.LIMIT:
                self._reads.setdefault(key, []).extend(chain)


class NoteReads:
    """Writes the log. One at a time: a second caller waits until the first one's reads are written."""

    def __init__(self, catalog: Catalog, reads: ReadLog) -> None:
        self._catalog = catalog
        self._reads = reads
        self._one = asyncio.Lock()

    async def __call__(self) -> None:
        """Returns once every read recorded before is durable.

        Raises:
            CoatcheckError: `storage_full`, `storage_unavailable`; then they are kept.
        """
        async with self._one:
            reads = self._reads.drain()
            for start in range(0, len(reads), BATCH):
                try:
                    await self._catalog.commit(Touch(reads=reads[start : start + BATCH]))
                except BaseException:
                    self._reads.restore(reads[start:])
                    raise
            self._reads.forget_drained()
