"""Binds a database to its blob stores, so that a wrong setting does not cause a loss.

A service with a database and another database's bytes would mark every blob that it reads as corrupt, and a check would
take the other's blobs for orphans. So the database and each location have an identity, the location bears a mark with
both, and the database is bound to one location per placement. Identity and binding are leases without an end: the first
to take one keeps it.

Crash story: the mark is set before the binding, and each step is conditional and harmless to repeat, so any number of
replicas may start at once and any of them may die between two steps. No blob and no row of one is changed.

Other words that all replicas share are kept in the same way (`write_once`), such as the key that seals positions.
`NoteAccounts` writes sessions' token counts and events, all of the last second in one change.
"""

import asyncio
from collections.abc import Callable
from typing import Final, NamedTuple

from coatcheck.core.artifact import Placement
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.ports.blobs import BlobLocation, StoredName
from coatcheck.ports.keys import AddSessionUsage, SessionAccounts
from coatcheck.ports.maintenance import TakeLease, Upkeep
from coatcheck.ports.telemetry import Clock
from coatcheck.storing.ledger import Ledger

_FOREVER: Final = 100 * 365 * 86400.0
"""Seconds, a hundred years: a word that was kept stays."""


async def write_once(upkeep: Upkeep, clock: Clock, name: str, word: str) -> str:
    """Returns the word that is kept under a name: `word`, unless another was kept before.

    Raises:
        CoatcheckError: `storage_unavailable`.
    """
    await upkeep.commit(TakeLease(name=name, holder=word, seconds=_FOREVER, now=clock.now()))
    return await upkeep.lease_holder(name) or word


NAMES_PER_QUERY = 500
"""Names of blobs that are looked up at once to tell whose they are. Chosen, not measured."""
_DATABASE = "database"
_WORD = "coatcheck-store"


class _Mark(NamedTuple):
    database: str
    place: str

    def __str__(self) -> str:
        return f"{_WORD} {self.database} {self.place}"


class StoreBinding:
    """Binds a database to the location of its bytes, and refuses any other."""

    def __init__(self, upkeep: Upkeep, clock: Clock, new_token: Callable[[], str], *, looking: bool) -> None:
        """`new_token` creates the names of databases and locations. With `looking`, nothing is written."""
        self._upkeep = upkeep
        self._clock = clock
        self._new = new_token
        self._looking = looking

    async def __call__(self, place: BlobLocation, *, beside_database: bool = False) -> None:
        """Returns if a location is the one of this database; binds it the first time.

        Args:
            place: where bytes are, or will be.
            beside_database: database and location are in one directory. Then a location without a mark is accepted as
                it is.

        Raises:
            CoatcheckError: `invalid_request` if it is another's, saying what to do; `storage_unavailable`.
        """
        database = await self._database()
        # The binding is read before the mark, which is set first: seeing another replica's binding implies seeing its
        # mark.
        bound = await self._upkeep.lease_holder(_lease(place.placement))
        text = await place.mark()
        if text is None:
            if not beside_database:
                await self._look_around(place, database, bound)
            if self._looking or database is None:
                return
            text = await place.put_mark(f"{_Mark(database, bound or self._new())}\n")
        mark = _parse(text)
        if mark is None or mark.database != database:
            raise _foreign(place, mark, database)
        if not await self._bind(place.placement, mark.place, bound):
            raise _another(place, _Mark(mark.database, bound or mark.place))

    async def holds(self, place: BlobLocation) -> bool:
        """Returns whether a location bears this database's mark and is bound to it; for one that need not exist."""
        text = await place.mark()
        mark = None if text is None else _parse(text)
        return mark is not None and mark == (
            await self._upkeep.lease_holder(_DATABASE),
            await self._upkeep.lease_holder(_lease(place.placement)),
        )

    async def bound(self, placement: Placement) -> bool:
        """Returns whether this database was ever bound to a location of a placement."""
        return await self._upkeep.lease_holder(_lease(placement)) is not None

    async def _database(self) -> str | None:
        """Returns the database's identity, created if it has none; None if it has none and we only look."""
        identity = await self._upkeep.lease_holder(_DATABASE)
        if identity is not None or self._looking:
            return identity
        return await write_once(self._upkeep, self._clock, _DATABASE, self._new())

    async def _bind(self, placement: Placement, place: str, bound: str | None) -> bool:
        if bound is not None or self._looking:
            return bound in {place, None}
        return await write_once(self._upkeep, self._clock, _lease(placement), place) == place

    async def _look_around(self, place: BlobLocation, database: str | None, bound: str | None) -> None:
        """Raises unless a location without a mark is a copy of ours, or empty while we have none."""
        empty = True
        batch: list[StoredName] = []
        async for name in place.names():
            empty = False
            batch.append(name)
            if len(batch) == NAMES_PER_QUERY:
                if await self._knows(batch):
                    return
                batch.clear()
        if await self._knows(batch):
            return
        if not empty:
            raise _strangers(place)
        if bound is not None and database is not None:
            raise _another(place, _Mark(database, bound))

    async def _knows(self, batch: list[StoredName]) -> bool:
        return bool(batch) and bool(await self._upkeep.find_known_blobs([(name.namespace, name.id) for name in batch]))


def _lease(placement: Placement) -> str:
    return f"place:{placement}"


def _parse(text: str) -> _Mark | None:
    words = text.split()
    return _Mark(words[1], words[2]) if len(words) == 3 and words[0] == _WORD else None  # noqa: PLR2004 - as written


def _foreign(place: BlobLocation, mark: _Mark | None, database: str | None) -> CoatcheckError:
    theirs = "of a database that its damaged mark does not name" if mark is None else f"of the database {mark.database}"
    ours = "this database was never served" if database is None else f"this database is {database}"
    return CoatcheckError(
        Code.INVALID_REQUEST,
        f"{place.where} holds the bytes {theirs}, and {ours}. Used together, they would lose data: reading would mark "
        "blobs as lost, and a check would remove the other's. Correct the settings so that they name a database and "
        "the place of its own bytes; a new database needs an empty place.",
    )


def _strangers(place: BlobLocation) -> CoatcheckError:
    return CoatcheckError(
        Code.INVALID_REQUEST,
        f"{place.where} holds blobs, and this database knows none of them. Correct the settings so that they name a "
        "database and the place of its own bytes; a new database needs an empty place.",
    )


def _another(place: BlobLocation, mark: _Mark) -> CoatcheckError:
    return CoatcheckError(
        Code.INVALID_REQUEST,
        f"{place.where} is not where this database keeps its bytes: all replicas must share one bucket or one "
        "directory. Name that one, or copy its contents here, including its mark. To continue here without those "
        f"bytes, which are then lost, write this line into the mark (see docs/how-to/storage.md): {mark}",
    )


_NAME: Final = "cursors"
_MAX_KEY_BYTES: Final = 64
"""Maximum bytes of a BLAKE2b key."""


class SealKey:
    """Provides the sealing key; reads it once and caches it."""

    def __init__(self, upkeep: Upkeep, clock: Clock, new_token: Callable[[], str]) -> None:
        """`new_token` returns an unguessable token of at most 64 ASCII characters."""
        self._upkeep = upkeep
        self._clock = clock
        self._new = new_token
        self._key: bytes | None = None

    async def __call__(self) -> bytes:
        """Returns the sealing key.

        Raises:
            CoatcheckError: `storage_unavailable`.
        """
        if self._key is None:
            token = await self._upkeep.lease_holder(_NAME)
            if token is None:
                token = await write_once(self._upkeep, self._clock, _NAME, self._new())
            self._key = token.encode()[:_MAX_KEY_BYTES]
        return self._key


NOTE_BATCH: Final = 500
"""Sessions per change."""


class NoteAccounts:
    """Writes the ledger. One at a time: a second caller waits until the first one's counts are written."""

    def __init__(self, accounts: SessionAccounts, ledger: Ledger, clock: Clock, number: Callable[[], int]) -> None:
        """`number` returns random numbers of 62 bits."""
        self._accounts = accounts
        self._ledger = ledger
        self._clock = clock
        self._number = number
        self._one = asyncio.Lock()
        self._changes: list[AddSessionUsage] = []
        """Drained changes that may not be written yet; they are repeated unchanged, so nothing counts twice."""

    async def __call__(self) -> None:
        """Returns once everything that was counted before is durable.

        Raises:
            CoatcheckError: `storage_full`, `storage_unavailable`; the next call tries again.
        """
        async with self._one:
            if len(self._changes) * NOTE_BATCH < Ledger.LIMIT:
                self._drain()
            while self._changes:
                await self._accounts.commit(self._changes[0])
                del self._changes[0]

    def _drain(self) -> None:
        spent, activity, events = self._ledger.drain(), self._ledger.drain_activity(), self._ledger.drain_events()
        for start in range(0, max(len(spent), len(activity), len(events)), NOTE_BATCH):
            change = AddSessionUsage(
                batch=self._number(),
                at=self._clock.now(),
                sessions=tuple(spent[start : start + NOTE_BATCH]),
                activity=tuple(activity[start : start + NOTE_BATCH]),
                events=tuple(events[start : start + NOTE_BATCH]),
            )
            self._changes.append(change)
