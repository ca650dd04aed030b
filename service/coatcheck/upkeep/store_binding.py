"""Binds a database to its blob stores, so that a wrong setting loses no data.

Suppose that a service were started with one database and the blob store of another. Every blob that the service reads
would be marked corrupt, and `coatcheck check` would take the store's blobs for orphans. To prevent this, the database
and each location of blobs have an identity. A mark at the location names both identities, and the database is bound to
one location per placement. Identity and binding are stored as leases that never end: the first process to take such a
lease decides its value.

Crash story: the mark is written before the binding, and each step is conditional and harmless to repeat. So any number
of replicas may start at the same time, and a replica may crash between any two steps. Binding changes no blob and no
blob's row.

`write_once` keeps other values that all replicas share in the same way, such as the key that seals positions.
`NoteAccounts` writes the token counts and events of sessions, which were collected for about a second.
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
"""Seconds of a lease that never ends in practice: a hundred years."""


async def write_once(upkeep: Upkeep, clock: Clock, name: str, word: str) -> str:
    """Returns the word that all replicas share under a name: `word`, unless another word was stored before.

    Raises:
        CoatcheckError: `storage_unavailable`.
    """
    await upkeep.commit(TakeLease(name=name, holder=word, seconds=_FOREVER, now=clock.now()))
    return await upkeep.lease_holder(name) or word


NAMES_PER_QUERY = 500
"""Names of blobs that one query looks up, to tell whether this database knows them. Chosen, not measured."""
_DATABASE = "database"
_WORD = "coatcheck-store"


class _Mark(NamedTuple):
    """The text that a location of blobs bears: the identities of its database and of the location itself."""

    database: str
    place: str

    def __str__(self) -> str:
        return f"{_WORD} {self.database} {self.place}"


class StoreBinding:
    """Binds a database to the location of its blobs, and refuses every other location."""

    def __init__(self, upkeep: Upkeep, clock: Clock, new_token: Callable[[], str], *, looking: bool) -> None:
        """`new_token` returns a new identity for a database or a location. With `looking`, nothing is ever written."""
        self._upkeep = upkeep
        self._clock = clock
        self._new = new_token
        self._looking = looking

    async def __call__(self, place: BlobLocation, *, beside_database: bool = False) -> None:
        """Checks that a location belongs to this database; binds the database to the location the first time.

        Args:
            place: the location where blobs are stored, or will be.
            beside_database: whether the location is in the same directory as the database. A location without a mark
                is then accepted without a look at its blobs.

        Raises:
            CoatcheckError: `invalid_request` if the location belongs to another database, or this database to another
                location, with advice what to do; `storage_unavailable`.
        """
        database = await self._database()
        # The binding is read before the mark, because a replica writes the mark first: whoever sees another replica's
        # binding also sees its mark.
        bound = await self._upkeep.lease_holder(_lease(place.placement))
        text = await place.mark()
        if text is None:
            if not beside_database:
                await self._check_unmarked(place, database, bound)
            if self._looking or database is None:
                return
            text = await place.put_mark(f"{_Mark(database, bound or self._new())}\n")
        mark = _parse(text)
        if mark is None or mark.database != database:
            raise _foreign(place, mark, database)
        if not await self._bind(place.placement, mark.place, bound):
            raise _another(place, _Mark(mark.database, bound or mark.place))

    async def holds(self, place: BlobLocation) -> bool:
        """Returns whether a location bears this database's mark and this database is bound to it.

        The location need not exist.

        Raises:
            CoatcheckError: `storage_unavailable`.
        """
        text = await place.mark()
        mark = None if text is None else _parse(text)
        return mark is not None and mark == (
            await self._upkeep.lease_holder(_DATABASE),
            await self._upkeep.lease_holder(_lease(place.placement)),
        )

    async def bound(self, placement: Placement) -> bool:
        """Returns whether this database was ever bound to a location of this placement.

        Raises:
            CoatcheckError: `storage_unavailable`.
        """
        return await self._upkeep.lease_holder(_lease(placement)) is not None

    async def _database(self) -> str | None:
        """Returns the database's identity, and creates one if there is none; with `looking`, None if there is none."""
        identity = await self._upkeep.lease_holder(_DATABASE)
        if identity is not None or self._looking:
            return identity
        return await write_once(self._upkeep, self._clock, _DATABASE, self._new())

    async def _bind(self, placement: Placement, place: str, bound: str | None) -> bool:
        """Binds the database to a location if it has no binding yet; returns False if it is bound to another location.

        With `looking`, nothing is written, and a database without a binding counts as bound to this location.
        """
        if bound is not None or self._looking:
            return bound in {place, None}
        return await write_once(self._upkeep, self._clock, _lease(placement), place) == place

    async def _check_unmarked(self, place: BlobLocation, database: str | None, bound: str | None) -> None:
        """Checks that a location without a mark may get this database's mark.

        The location may get the mark if the database knows one of the location's blobs, because then the location is a
        copy of the database's own. It may also get the mark if it is empty and the database is bound to no location.

        Raises:
            CoatcheckError: `invalid_request` if the location may not get the mark; `storage_unavailable`.
        """
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
        """Returns whether the database has a row for at least one of these blobs."""
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


_SEAL_KEY: Final = "cursors"
_MAX_KEY_BYTES: Final = 64
"""Maximum bytes of a BLAKE2b key."""


class SealKey:
    """Provides the key that seals positions and cursors; all replicas share it. Reads the key once and caches it."""

    def __init__(self, upkeep: Upkeep, clock: Clock, new_token: Callable[[], str]) -> None:
        """`new_token` returns an unguessable token of at most 64 ASCII characters."""
        self._upkeep = upkeep
        self._clock = clock
        self._new = new_token
        self._key: bytes | None = None

    async def __call__(self) -> bytes:
        """Returns the sealing key, at most 64 bytes; the first call creates the key if there is none.

        Raises:
            CoatcheckError: `storage_unavailable`.
        """
        if self._key is None:
            token = await self._upkeep.lease_holder(_SEAL_KEY)
            if token is None:
                token = await write_once(self._upkeep, self._clock, _SEAL_KEY, self._new())
            self._key = token.encode()[:_MAX_KEY_BYTES]
        return self._key


NOTE_BATCH: Final = 500
"""Maximum number of sessions that one transaction writes, and also of namespaces and of events."""


class NoteAccounts:
    """Writes the ledger to the catalogue. Calls write one after the other: a second call waits for the first."""

    def __init__(self, accounts: SessionAccounts, ledger: Ledger, clock: Clock, number: Callable[[], int]) -> None:
        """`number` returns random numbers of 62 bits, which identify the written batches."""
        self._accounts = accounts
        self._ledger = ledger
        self._clock = clock
        self._number = number
        self._lock = asyncio.Lock()
        self._changes: list[AddSessionUsage] = []
        """Changes that were drained from the ledger and may not be written yet. After an error they are repeated
        unchanged, so that nothing is counted twice."""

    async def __call__(self) -> None:
        """Writes everything that was counted before this call; returns once it is durable.

        Raises:
            CoatcheckError: `storage_full`, `storage_unavailable`; the next call tries again.
        """
        async with self._lock:
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
