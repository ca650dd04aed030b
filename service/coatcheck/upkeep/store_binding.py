"""Binds a database to its blob stores, so that a wrong setting does not cause a loss.

A service with a database and another database's bytes would mark every blob that it reads as corrupt, and a check would
take the other's blobs for orphans. So the database and each location have an identity, the location bears a mark with
both, and the database is bound to one location per placement. Identity and binding are leases without an end: the first
to take one keeps it.

Crash story: the mark is set before the binding, and each step is conditional and harmless to repeat, so any number of
replicas may start at once and any of them may die between two steps. No blob and no row of one is changed.
"""

from collections.abc import Callable
from typing import NamedTuple

from coatcheck.core.artifact import Placement
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.ports.blobs import BlobLocation, StoredName
from coatcheck.ports.clock import Clock
from coatcheck.ports.maintenance import Upkeep
from coatcheck.upkeep.write_once import write_once

BATCH = 500
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
            if len(batch) == BATCH:
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
