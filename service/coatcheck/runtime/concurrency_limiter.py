"""Limits how many callers work at once and how many wait; shares slots and queue fairly, and refuses all others.

Slots and queue are shared by key, which says who holds or waits: a free slot goes to the key with the fewest, and a
full queue takes a caller in place of the last one of the key that waits most. So whoever comes in numbers waits for
their own, and leaves room for others. Nobody waits longer than the patience.

Whoever works on what is still being sent may hold a slot for nothing. While another waits for it, a sender that has
been silent for STALL_SECONDS gives way: its body ends with an error, which frees the slot. Where slots are for short
work, one that only sends slowly gives way as well. Use a limiter on a single event loop.
"""

import asyncio
import math
from collections import Counter, deque
from itertools import count
from typing import Final, Self

from coatcheck.core.errors import CoatcheckError, Code

PATIENCE: Final = 5.0
"""Seconds that a caller waits for a slot: half of what our own client waits for an answer."""
STALL_SECONDS: Final = 2.0
"""Silence of a sender after which it gives way. TCP repeats a lost packet after 0.2 to 1 seconds."""
_LOOK_SECONDS: Final = 0.25
"""Time between two looks for silent senders, while anybody waits."""

Key = str | None
Turn = asyncio.Future[bool]
"""What a waiting caller awaits: true if it got a slot, false if it got none in time."""


class Sender:
    """The sender of one body: how long it has been silent while it was waited for, and how to stop waiting."""

    def __init__(self) -> None:
        self._heard_at = asyncio.get_running_loop().time()
        self._timeout: asyncio.Timeout | None = None
        self.error: CoatcheckError | None = None
        """Why the present wait was ended, if it gave way to others."""

    @property
    def is_awaited(self) -> bool:
        """Whether its next bytes are awaited, and the wait was not ended yet."""
        return self._timeout is not None and self.error is None and not self._timeout.expired()

    def wait(self, timeout: asyncio.Timeout) -> None:
        """Records that its next bytes are awaited, within `timeout`."""
        self._timeout = timeout

    def hear(self, now: float) -> None:
        """Records that bytes came, or the end; `now` is the event loop's time."""
        self._heard_at = now
        self._timeout = None
        self.error = None  # they came in time after all

    def silence(self, now: float) -> float:
        """Returns the seconds since its last bytes."""
        return now - self._heard_at

    def give_way(self, error: CoatcheckError) -> None:
        """Ends the present wait for its bytes, as if its time were over; its body then raises `error`."""
        if self._timeout is not None and self.is_awaited:
            self.error = error
            self._timeout.reschedule(asyncio.get_running_loop().time())


def stall_error(seconds: float) -> CoatcheckError:
    """Returns the error for a body that stopped arriving."""
    return CoatcheckError(
        Code.TRUNCATED_BODY, f"No byte of the body arrived for {seconds:g} seconds. Nothing was stored; send it again."
    )


class LimiterSlot:
    """A slot that is held until the end of a `with` block."""

    __slots__ = ("_limiter", "key", "sender", "since")

    def __init__(self, limiter: "ConcurrencyLimiter", key: Key, sender: Sender | None) -> None:
        self._limiter = limiter
        self.key = key
        self.sender = sender
        self.since = asyncio.get_running_loop().time()

    def __enter__(self) -> Self:
        """Begins the work."""
        return self

    def __exit__(self, *_: object) -> None:
        """Passes the slot on."""
        self._limiter.release(self)


class ConcurrencyLimiter:
    """Limits concurrent work of one kind."""

    def __init__(
        self,
        name: str,
        max_running: int,
        max_waiting: int,
        patience: float = PATIENCE,
        *,
        max_per_key: int | None = None,
        max_seconds: float = math.inf,
    ) -> None:
        """Creates a limiter with all slots free.

        Args:
            name: what runs in the slots, in the plural, for error messages.
            max_running: number of slots.
            max_waiting: callers who may wait for one.
            patience: maximum seconds that a caller waits.
            max_per_key: slots that one key may hold; None: all. For work whose length its caller decides.
            max_seconds: time after which a sender gives way, while another waits, although it still sends.
        """
        self._name = name
        self._max_running = max_running
        self._max_waiting = max_waiting
        self._patience = patience
        # Without a bound of its own, one key may hold every slot while nobody else waits.
        self._max_per_key = max_running if max_per_key is None else max_per_key
        self._max_seconds = max_seconds
        self._numbers = count()
        self._queues: dict[Key, deque[tuple[int, Turn]]] = {}
        """Who waits, by key, each with a number that tells who came first."""
        self._by_key = Counter[Key]()
        """Slots held, by key."""
        self._received: set[LimiterSlot] = set()
        """Slots for what is still being sent."""
        self._alarm: asyncio.TimerHandle | None = None
        self.running = 0
        """Slots in use."""
        self.waiting = 0
        """Callers waiting for a slot."""
        self.granted_count = 0
        """Slots granted so far."""
        self.refused = 0
        """Callers refused so far."""
        self.stalled_count = 0
        """Senders that gave way so far."""

    async def acquire(self, key: Key = None, sender: Sender | None = None) -> LimiterSlot:
        """Returns a slot, to be used in a `with` statement.

        Args:
            key: who asks; None: all about whom nothing is known.
            sender: who sends what is worked on while the slot is held; None: nobody is waited for.

        Raises:
            CoatcheckError: `overloaded` if too many wait already, or no slot became free in time.
        """
        if self.running < self._max_running and self._may_run(key):
            self.running += 1
            self._by_key[key] += 1
        else:
            await self._wait(key)
        self.granted_count += 1
        slot = LimiterSlot(self, key, sender)
        if sender is not None:
            self._received.add(slot)
        return slot

    def release(self, slot: LimiterSlot) -> None:
        """Frees a slot, or passes it to the caller who is next."""
        self._received.discard(slot)
        self._pass_on(slot.key)

    def _may_run(self, key: Key) -> bool:
        return self._by_key[key] < self._max_per_key

    async def _wait(self, key: Key) -> None:
        if self.waiting >= self._max_waiting and not self._displace(key):
            raise self._refusal(f"{self.waiting} others wait, which is the most that may.")
        loop = asyncio.get_running_loop()
        turn: Turn = loop.create_future()
        self._queues.setdefault(key, deque()).append((next(self._numbers), turn))
        self.waiting += 1
        expiry = loop.call_later(self._patience, self._refuse, key, turn)
        if self._alarm is None:
            self._alarm = loop.call_later(_LOOK_SECONDS, self._look)
        try:
            granted = await turn
        except asyncio.CancelledError:
            if turn.cancelled():
                self._leave(key, turn)
            elif turn.result():  # it was granted at the same moment
                self._pass_on(key)
            raise
        finally:
            expiry.cancel()
        if not granted:
            raise self._refusal(f"this one did not get a slot in its turn, or within {self._patience:g} seconds.")

    def _leave(self, key: Key, turn: Turn) -> None:
        queue = self._queues.get(key, deque())
        entry = next((each for each in queue if each[1] is turn), None)
        if entry is not None:
            queue.remove(entry)
            self._shrink(key)

    def _shrink(self, key: Key) -> None:
        """Counts one waiting caller of a key less."""
        self.waiting -= 1
        if not self._queues[key]:
            del self._queues[key]

    def _refuse(self, key: Key, turn: Turn) -> None:
        if not turn.done():
            self._leave(key, turn)
            turn.set_result(False)

    def _displace(self, key: Key) -> bool:
        """Makes room in a full queue: refuses the last caller of the key that waits most, if `key` waits less."""
        if not self._queues:
            return False
        longest = max(self._queues, key=lambda each: len(self._queues[each]))
        if len(self._queues[longest]) <= len(self._queues.get(key, ())) + 1:
            return False
        _, turn = self._queues[longest].pop()
        self._shrink(longest)
        if not turn.done():  # otherwise its caller has left, but was not notified yet
            turn.set_result(False)
        return True

    def _pass_on(self, key: Key) -> None:
        """Passes a slot to the first caller of the key that has fewest. It stays in use, so nobody overtakes."""
        self._by_key[key] -= 1
        if not self._by_key[key]:
            del self._by_key[key]
        while able := [each for each in self._queues if self._may_run(each)]:
            following = min(able, key=lambda each: (self._by_key[each], self._queues[each][0][0]))
            _, turn = self._queues[following].popleft()
            self._shrink(following)
            if not turn.done():
                self._by_key[following] += 1
                turn.set_result(True)
                return
        self.running -= 1

    def _look(self) -> None:
        """Lets senders give way, those that have been silent longest first, as many as wait for their slots."""
        self._alarm = None
        if not self.waiting:
            return
        loop = asyncio.get_running_loop()
        now = loop.time()
        senders = [(slot.sender, slot) for slot in self._received if slot.sender is not None]
        senders.sort(key=lambda each: each[0].silence(now), reverse=True)
        needed = self.waiting - sum(sender.error is not None for sender, _ in senders)
        others = any(map(self._may_run, self._queues))  # some wait that any slot would help, not only their own key's
        for sender, slot in senders:
            if needed <= 0:
                break
            stalls = sender.silence(now) >= STALL_SECONDS
            if not sender.is_awaited or not (others or slot.key in self._queues):
                continue
            if stalls or now - slot.since >= self._max_seconds:
                sender.give_way(
                    stall_error(STALL_SECONDS) if stalls else self._refusal("this one took too long to arrive.")
                )
                self.stalled_count += stalls
                needed -= 1
        self._alarm = loop.call_later(_LOOK_SECONDS, self._look)

    def _refusal(self, why: str) -> CoatcheckError:
        self.refused += 1
        return CoatcheckError(
            Code.OVERLOADED,
            f"{self.running} {self._name} are under way, and {why} "
            "Nothing was stored; retry the same call in a moment.",
        )
