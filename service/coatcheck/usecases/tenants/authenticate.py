"""Identifies callers by their key, and decides whether a key is required.

Every presented key is looked up when its request begins: a key that was revoked, has expired or belongs to a disabled
namespace is refused from that moment on, by every replica. No look-up is cached, with one exception, for ingest alone,
since payloads must get a card even while the catalogue is down: a key that was good within the last 15 minutes may
still ingest, but not read.

Requests that arrive while a look-up is under way share the next one, so that many at once cost little more than one.
Text that cannot be a key is refused without a look-up.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from coatcheck.core.artifact import Caller
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.core.keys import Key, KeyRow, allow, caller_of, parse, refusal_of_caller
from coatcheck.ports.keys import Keys
from coatcheck.ports.telemetry import Clock
from coatcheck.runtime.circuit_breaker import REFUSALS

log = logging.getLogger(__name__)

INGEST: Final = "ingest"
"""The only scope for which a remembered key is accepted while the catalogue is silent."""
GRACE: Final = timedelta(minutes=15)
"""How long after it was last found good a key may ingest while it cannot be looked up."""
LOOK_AGAIN: Final = timedelta(seconds=1)
"""While no key has been created: time between two checks whether there is one."""
_REMEMBERED_KEYS: Final = 10_000
"""Maximum keys that are remembered for outages; those used longest ago are forgotten first."""
_LOCAL: Final = Caller()
"""The caller where no key is required."""


class _Good(NamedTuple):
    """A key that was found good, and when."""

    row: KeyRow
    at: datetime


class Authenticate:
    """Identifies the caller by their key, and checks the scope. One per process."""

    def __init__(self, keys: Keys, clock: Clock, *, required: bool | None = False) -> None:
        """`required`: whether every caller needs a key even while none exists; None: nobody ever needs one."""
        self._keys = keys
        self._clock = clock
        self._required = bool(required)
        self._is_private = required is None
        self._checked_at: datetime | None = None
        """When this process last checked whether there is a first key; None: never."""
        self._rows = _Shared(keys.find_keys)
        self._good: dict[str, _Good] = {}
        """By key ID, least recently used first."""
        self._silent = False
        """Whether the catalogue did not answer when a key was last looked up."""
        self._probing: asyncio.Task[None] | None = None
        """The look-up in the background; at most one, however many requests come."""

    @property
    def is_required(self) -> bool:
        """Whether a key is required, as far as this process knows."""
        return self._required

    def require(self) -> None:
        """Requires a key from now on, because one has been created."""
        if not self._required and not self._is_private:
            self._required = True
            log.info("a key was created: from now on every caller needs one")

    async def learn(self) -> bool:
        """Looks up whether a key was ever created; returns whether one is required. Raises as the catalogue does."""
        if not self._required and not self._is_private:
            if await self._keys.any_key():
                self.require()
            self._checked_at = self._clock.now()
        return self._required

    async def close(self) -> None:
        """Waits for background look-ups to end."""
        if self._probing is not None:
            await self._probing
        await self._rows.wait_until_idle()

    async def __call__(self, text: str | None, scope: str) -> Caller:
        """Returns the caller, who has the required scope.

        Args:
            text: what was presented as a key; None: nothing.
            scope: the scope that the request needs.

        Raises:
            CoatcheckError: `unauthenticated`; `forbidden`; `storage_unavailable` or `overloaded` while the key cannot
                be looked up.
        """
        if text is None:
            return await self._without_key()
        key = parse(text)
        caller = await self._identify_key(key, scope)
        allow(caller, scope)
        return caller

    async def identify(self, text: str | None) -> Caller:
        """Returns the caller, whatever their scopes; the code that calls this checks those.

        Args:
            text: what was presented as a key; None: nothing.

        Raises:
            CoatcheckError: as when calling.
        """
        return await self._without_key() if text is None else await self._identify_key(parse(text), "")

    async def _without_key(self) -> Caller:
        now = self._clock.now()
        is_open = not self._required and not self._is_private
        if is_open and (self._checked_at is None or abs(now - self._checked_at) >= LOOK_AGAIN):
            self._checked_at = now  # the others go on meanwhile: one looks for all of them
            try:
                await self.learn()
            except CoatcheckError as error:
                if error.code not in REFUSALS:
                    raise
                # Nobody can have made a key either, except beside a network that is cut.
        if self._required:
            raise refusal_of_caller(
                "This service requires a key. Send one as `Authorization: Bearer ck_live_…` or in `X-Api-Key`."
            )
        return _LOCAL

    async def _identify_key(self, key: Key, scope: str) -> Caller:
        # The catalogue was silent a moment ago: a known key ingests at once instead of waiting for the next time-out.
        if self._silent and scope == INGEST and (caller := self._recall_caller(key)) is not None:
            self._probe(key.id)
            return caller
        try:
            row = await self._rows(key.id)
        except CoatcheckError as error:
            if error.code not in REFUSALS:
                raise
            self._silent = error.code is Code.STORAGE_UNAVAILABLE
            caller = self._recall_caller(key) if scope == INGEST else None
            if caller is None:
                raise
            return caller
        self._silent = False
        return self._judge(key, row)

    def _judge(self, key: Key, row: KeyRow | None) -> Caller:
        now = self._clock.now()
        try:
            caller = caller_of(key, row, now)
        except CoatcheckError:
            recent = self._good.get(key.id)
            # Only with the right secret: anyone can send a known ID with a wrong one, which must not end the owner's
            # grace.
            if recent is not None and recent.row.digest == key.digest:
                del self._good[key.id]
            raise
        assert row is not None  # noqa: S101 - otherwise it was not good
        # Removing and adding moves the key to the end, so that the first is the one used longest ago.
        self._good.pop(key.id, None)
        self._good[key.id] = _Good(row, now)
        if len(self._good) > _REMEMBERED_KEYS:
            del self._good[next(iter(self._good))]
        return caller

    def _recall_caller(self, key: Key) -> Caller | None:
        """Returns whose key this recently was, for times when it cannot be looked up."""
        good = self._good.get(key.id)
        now = self._clock.now()
        if good is None or now - good.at > GRACE:
            return None
        return caller_of(key, good.row, now)

    def _probe(self, key_id: str) -> None:
        """Checks whether the catalogue answers again, while no request waits for it."""
        if self._probing is None:
            self._probing = asyncio.create_task(self._listen(key_id))

    async def _listen(self, key_id: str) -> None:
        try:
            await self._rows(key_id)
            self._silent = False
        except CoatcheckError:
            pass
        finally:
            self._probing = None


class _Shared:
    """Shared look-ups of keys: one query at a time, for all requests that came since the last one began.

    A query begins after all requests that it answers have come, so that no answer is older than its request.
    """

    def __init__(self, query: Callable[[Collection[str]], Awaitable[dict[str, KeyRow]]]) -> None:
        self._query = query
        self._next: dict[str, asyncio.Future[KeyRow | None]] = {}
        """Who waits for the next query, by key ID."""
        self._asking: asyncio.Task[None] | None = None

    async def __call__(self, key_id: str) -> KeyRow | None:
        """Returns the row of a key as it is now; None if there is none."""
        waiter = self._next.get(key_id)
        if waiter is None:
            waiter = self._next[key_id] = asyncio.get_running_loop().create_future()
        if self._asking is None:
            self._asking = asyncio.create_task(self._query_loop())
        try:
            return await asyncio.shield(waiter)
        except CoatcheckError as error:
            raise CoatcheckError(error.code, error.detail) from error  # one for each of those who waited

    async def wait_until_idle(self) -> None:
        """Waits for the queries under way."""
        if self._asking is not None:
            await self._asking

    async def _query_loop(self) -> None:
        try:
            while self._next:
                # Whoever comes from here on waits for the next query: this one may read rows from before their request.
                waiters, self._next = self._next, {}
                try:
                    rows = await self._query(waiters.keys())
                except Exception as error:  # noqa: BLE001 - it is for those who wait
                    for waiter in waiters.values():
                        waiter.set_exception(error)
                        waiter.exception()  # nobody may wait any more
                else:
                    for key_id, waiter in waiters.items():
                        waiter.set_result(rows.get(key_id))
        finally:
            self._asking = None
