"""Identifies callers by their key, and decides whether a key is required.

Every key is looked up in the catalogue when its request begins. So every replica refuses a key from the moment at which
the key is revoked, expires or its namespace is disabled. Look-ups are not cached, with one exception: payloads must get
a card even while the catalogue is down, so a key that was valid within the last 15 minutes may still ingest, but not
read.

Requests that arrive during a look-up share the next look-up, so that many simultaneous requests cost little more than
one. A text that cannot be a key is refused without a look-up.
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
"""The only scope for which a remembered key is accepted while the catalogue does not answer."""
GRACE: Final = timedelta(minutes=15)
"""How long a key may still ingest after the last look-up that found it valid, while it cannot be looked up again."""
LOOK_AGAIN: Final = timedelta(seconds=1)
"""Time between two checks whether the first key has been created, while there is none."""
_REMEMBERED_KEYS: Final = 10_000
"""Maximum keys that are remembered for outages of the catalogue; the least recently used keys are forgotten first."""
_LOCAL: Final = Caller()
"""The caller of every request while no key is required."""


class _ValidKey(NamedTuple):
    """A key's row, and the moment at which a look-up found the key valid."""

    row: KeyRow
    at: datetime


class Authenticate:
    """Identifies callers by their key, and checks their scopes. There is one instance in a process."""

    def __init__(self, keys: Keys, clock: Clock, *, required: bool | None = False) -> None:
        """Stores its arguments.

        Args:
            keys: the keys in the catalogue.
            clock: dates the look-ups.
            required: whether callers need a key even before the first key is created; False: callers need a key once
                there is one; None: callers never need a key.
        """
        self._keys = keys
        self._clock = clock
        self._required = bool(required)
        self._is_private = required is None
        self._checked_at: datetime | None = None
        """When this process last checked whether a key exists; None: it has not checked yet."""
        self._rows = _SharedLookups(keys.find_keys)
        self._valid_keys: dict[str, _ValidKey] = {}
        """The remembered keys by ID, the least recently used first."""
        self._silent = False
        """Whether the catalogue did not answer the last look-up of a key."""
        self._probing: asyncio.Task[None] | None = None
        """The look-up in the background that checks whether the catalogue answers again; there is at most one."""

    @property
    def is_required(self) -> bool:
        """Whether a key is required, as far as this process knows."""
        return self._required

    def require(self) -> None:
        """Requires a key from now on, because a key was created. Changes nothing if keys are never required."""
        if not self._required and not self._is_private:
            self._required = True
            log.info("a key was created: from now on every caller needs one")

    async def learn(self) -> bool:
        """Looks up whether a key was ever created; returns whether callers need a key.

        Raises:
            CoatcheckError: the errors of the catalogue, such as `storage_unavailable`.
        """
        if not self._required and not self._is_private:
            if await self._keys.any_key():
                self.require()
            self._checked_at = self._clock.now()
        return self._required

    async def close(self) -> None:
        """Waits until the look-ups in the background have ended."""
        if self._probing is not None:
            await self._probing
        await self._rows.wait_until_idle()

    async def __call__(self, text: str | None, scope: str) -> Caller:
        """Returns the caller, after checking that the caller has the required scope.

        Args:
            text: the key that the request presents; None: it presents no key.
            scope: the scope that the request needs.

        Raises:
            CoatcheckError: `unauthenticated`; `forbidden` without the scope, or while the key's namespace is disabled;
                `storage_unavailable` or `overloaded` while the key cannot be looked up.
        """
        if text is None:
            return await self._without_key()
        key = parse(text)
        caller = await self._identify_key(key, scope)
        allow(caller, scope)
        return caller

    async def identify(self, text: str | None) -> Caller:
        """Returns the caller without checking a scope, which the calling code must do.

        Args:
            text: the key that the request presents; None: it presents no key.

        Raises:
            CoatcheckError: `unauthenticated`; `forbidden` while the key's namespace is disabled;
                `storage_unavailable` or `overloaded` while the key cannot be looked up.
        """
        return await self._without_key() if text is None else await self._identify_key(parse(text), "")

    async def _without_key(self) -> Caller:
        now = self._clock.now()
        is_open = not self._required and not self._is_private
        if is_open and (self._checked_at is None or abs(now - self._checked_at) >= LOOK_AGAIN):
            self._checked_at = now  # this request looks for a key; other requests do not wait for it
            try:
                await self.learn()
            except CoatcheckError as error:
                if error.code not in REFUSALS:
                    raise
                # If the catalogue does not answer, other replicas can hardly have created a key either, unless only
                # this process is cut off from it.
        if self._required:
            raise refusal_of_caller(
                "This service requires a key. Send one as `Authorization: Bearer ck_live_…` or in `X-Api-Key`."
            )
        return _LOCAL

    async def _identify_key(self, key: Key, scope: str) -> Caller:
        # If the catalogue did not answer the last look-up, a remembered key ingests at once, and does not wait for
        # another time-out.
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
        return self._accept_key(key, row)

    def _accept_key(self, key: Key, row: KeyRow | None) -> Caller:
        """Returns the caller whose key this is, and remembers the key; raises if the key is not valid."""
        now = self._clock.now()
        try:
            caller = caller_of(key, row, now)
        except CoatcheckError:
            recent = self._valid_keys.get(key.id)
            # The key is forgotten only if the secret is right. Anyone can send a known ID with a wrong secret, and that
            # must not keep the key's owner from ingesting during an outage.
            if recent is not None and recent.row.digest == key.digest:
                del self._valid_keys[key.id]
            raise
        assert row is not None  # noqa: S101 - a key without a row is not valid
        # Removing and adding the key moves it to the end, so that the first key is the least recently used one.
        self._valid_keys.pop(key.id, None)
        self._valid_keys[key.id] = _ValidKey(row, now)
        if len(self._valid_keys) > _REMEMBERED_KEYS:
            del self._valid_keys[next(iter(self._valid_keys))]
        return caller

    def _recall_caller(self, key: Key) -> Caller | None:
        """Returns the caller of a remembered key that was valid within the grace period; None if there is none.

        Raises:
            CoatcheckError: `unauthenticated` if the secret is wrong, or the key has expired since.
        """
        valid_key = self._valid_keys.get(key.id)
        now = self._clock.now()
        if valid_key is None or now - valid_key.at > GRACE:
            return None
        return caller_of(key, valid_key.row, now)

    def _probe(self, key_id: str) -> None:
        """Checks in the background whether the catalogue answers again; no request waits for the check."""
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


class _SharedLookups:
    """Looks up keys with one query at a time, which answers all requests that arrived since the last query began.

    A query begins after all requests that it answers have arrived. So no answer is older than its request.
    """

    def __init__(self, query: Callable[[Collection[str]], Awaitable[dict[str, KeyRow]]]) -> None:
        self._query = query
        self._next: dict[str, asyncio.Future[KeyRow | None]] = {}
        """The futures of the requests that wait for the next query, by key ID."""
        self._asking: asyncio.Task[None] | None = None

    async def __call__(self, key_id: str) -> KeyRow | None:
        """Returns the present row of a key; None if there is no such key."""
        waiter = self._next.get(key_id)
        if waiter is None:
            waiter = self._next[key_id] = asyncio.get_running_loop().create_future()
        if self._asking is None:
            self._asking = asyncio.create_task(self._query_loop())
        try:
            return await asyncio.shield(waiter)
        except CoatcheckError as error:
            raise CoatcheckError(error.code, error.detail) from error  # each waiting request raises an error of its own

    async def wait_until_idle(self) -> None:
        """Waits until no query is running and no request waits for one."""
        if self._asking is not None:
            await self._asking

    async def _query_loop(self) -> None:
        try:
            while self._next:
                # Requests that arrive from here on wait for the next query: this query may read rows as they were
                # before those requests.
                waiters, self._next = self._next, {}
                try:
                    rows = await self._query(waiters.keys())
                except Exception as error:  # noqa: BLE001 - raised by the waiting requests
                    for waiter in waiters.values():
                        waiter.set_exception(error)
                        waiter.exception()  # marks the error as seen, as no request may be waiting any more
                else:
                    for key_id, waiter in waiters.items():
                        waiter.set_result(rows.get(key_id))
        finally:
            self._asking = None
