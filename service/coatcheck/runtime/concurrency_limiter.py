"""Limits how many callers work at once and how many wait. Shares slots and queue fairly; refuses all other callers.

Each caller has a key, which says on whose behalf it works. A free slot goes to a waiting caller of the key that holds
the fewest slots. If the queue is full, a new caller takes the place of the last caller of the key with the most waiting
callers, if the new caller's key still has fewer. So the many callers of a busy key wait for one another, and leave room
for the callers of other keys. No caller waits longer than `patience` seconds.

A caller whose payload is still being sent may hold a slot without doing any work. While other callers wait, a sender
that has been silent for STALL_SECONDS gives way: its body ends with an error, which frees the slot. In a limiter with
`max_seconds`, a sender that is merely slow gives way as well. Use a limiter on a single event loop.
"""

import asyncio
import math
from collections import Counter, deque
from itertools import count
from typing import Final, Self

from coatcheck.core.errors import CoatcheckError, Code

PATIENCE: Final = 5.0
"""Seconds that a caller waits for a slot: half of the time that our own client waits for an answer."""
STALL_SECONDS: Final = 2.0
"""Seconds of silence after which a sender gives way. TCP repeats a lost packet after 0.2 to 1 seconds."""
_LOOK_SECONDS: Final = 0.25
"""Seconds between two searches for silent senders, while any caller waits."""

Key = str | None
Turn = asyncio.Future[bool]
"""The future that a waiting caller awaits. Its result is whether the caller got a slot; false: refused."""


class Sender:
    """The sender of one request body: knows how long no bytes have arrived, and can end the wait for them."""

    def __init__(self) -> None:
        self._heard_at = asyncio.get_running_loop().time()
        self._timeout: asyncio.Timeout | None = None
        self.error: CoatcheckError | None = None
        """Why the present wait for bytes was ended; None: it was not ended, because the sender has not given way."""

    @property
    def is_awaited(self) -> bool:
        """Whether somebody waits for the sender's next bytes, and the wait has not ended."""
        return self._timeout is not None and self.error is None and not self._timeout.expired()

    def wait(self, timeout: asyncio.Timeout) -> None:
        """Records that somebody waits for the sender's next bytes, until `timeout` ends the wait."""
        self._timeout = timeout

    def hear(self, now: float) -> None:
        """Records that bytes or the end of the body arrived; `now` is the event loop's time."""
        self._heard_at = now
        self._timeout = None
        self.error = None  # the bytes arrived before the ended wait took effect

    def silence(self, now: float) -> float:
        """Returns the seconds since the sender's last bytes; `now` is the event loop's time."""
        return now - self._heard_at

    def give_way(self, error: CoatcheckError) -> None:
        """Ends the present wait for the sender's bytes, as if it had timed out; its body then raises `error`."""
        if self._timeout is not None and self.is_awaited:
            self.error = error
            self._timeout.reschedule(asyncio.get_running_loop().time())


def stall_error(seconds: float) -> CoatcheckError:
    """Returns the error for a body of which no byte arrived for `seconds`."""
    return CoatcheckError(
        Code.TRUNCATED_BODY, f"No byte of the body arrived for {seconds:g} seconds. Nothing was stored; send it again."
    )


class LimiterSlot:
    """A slot of a limiter, which its caller holds until the end of a `with` block."""

    __slots__ = ("_limiter", "key", "sender", "since")

    def __init__(self, limiter: "ConcurrencyLimiter", key: Key, sender: Sender | None) -> None:
        self._limiter = limiter
        self.key = key
        self.sender = sender
        self.since = asyncio.get_running_loop().time()

    def __enter__(self) -> Self:
        """Begins the work for which the slot was granted."""
        return self

    def __exit__(self, *_: object) -> None:
        """Frees the slot, or passes it to a waiting caller."""
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
            name: a plural noun for the work that runs in the slots, for error messages.
            max_running: number of slots.
            max_waiting: maximum number of callers that wait for a slot.
            patience: maximum seconds that a caller waits.
            max_per_key: maximum slots that one key may hold, for work whose length its caller decides; None: all.
            max_seconds: seconds that a sender may hold a slot while other callers wait, even if it still sends.
        """
        self._name = name
        self._max_running = max_running
        self._max_waiting = max_waiting
        self._patience = patience
        # Without `max_per_key`, one key may hold every slot as long as no other key waits.
        self._max_per_key = max_running if max_per_key is None else max_per_key
        self._max_seconds = max_seconds
        self._numbers = count()
        self._queues: dict[Key, deque[tuple[int, Turn]]] = {}
        """Waiting callers by key, in order of arrival. Each has a number, which shows who came first of two keys."""
        self._by_key = Counter[Key]()
        """Number of slots held, by key."""
        self._received: set[LimiterSlot] = set()
        """Slots whose payloads come from a sender, and may still be on their way."""
        self._alarm: asyncio.TimerHandle | None = None
        self.running = 0
        """Number of slots in use."""
        self.waiting = 0
        """Number of callers that wait for a slot."""
        self.granted_count = 0
        """Number of slots granted so far."""
        self.refused = 0
        """Number of callers refused so far."""
        self.stalled_count = 0
        """Number of senders that gave way so far because they were silent."""

    async def acquire(self, key: Key = None, sender: Sender | None = None) -> LimiterSlot:
        """Returns a slot, to be used in a `with` statement.

        Args:
            key: the key of the caller. All callers about whom nothing is known share the key None.
            sender: the sender of the body on which the caller works in the slot; None: the body has arrived already.

        Raises:
            CoatcheckError: `overloaded` if too many callers wait already, or no slot became free in time.
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
        """Frees a slot, or passes it to the waiting caller whose turn is next."""
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
            elif turn.result():  # the slot was granted at the moment of the cancellation
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
        """Subtracts one from the number of waiting callers, and removes the queue of the key if it is empty."""
        self.waiting -= 1
        if not self._queues[key]:
            del self._queues[key]

    def _refuse(self, key: Key, turn: Turn) -> None:
        if not turn.done():
            self._leave(key, turn)
            turn.set_result(False)

    def _displace(self, key: Key) -> bool:
        """Makes room in a full queue for a new caller of `key`. Returns whether it did.

        Refuses the last caller of the key with the most waiting callers, but only if `key`, including its new caller,
        has fewer waiting callers than that key.
        """
        if not self._queues:
            return False
        longest = max(self._queues, key=lambda each: len(self._queues[each]))
        if len(self._queues[longest]) <= len(self._queues.get(key, ())) + 1:
            return False
        _, turn = self._queues[longest].pop()
        self._shrink(longest)
        if not turn.done():  # a turn that is done was cancelled: its caller leaves, but has not run yet
            turn.set_result(False)
        return True

    def _pass_on(self, key: Key) -> None:
        """Passes a slot of `key` to the first waiting caller of the key that holds the fewest slots.

        The slot counts as in use all the time, so that no new caller can take it first. If no waiting caller may run,
        the slot becomes free.
        """
        self._by_key[key] -= 1
        if not self._by_key[key]:
            del self._by_key[key]
        while eligible_keys := [each for each in self._queues if self._may_run(each)]:
            next_key = min(eligible_keys, key=lambda each: (self._by_key[each], self._queues[each][0][0]))
            _, turn = self._queues[next_key].popleft()
            self._shrink(next_key)
            if not turn.done():
                self._by_key[next_key] += 1
                turn.set_result(True)
                return
        self.running -= 1

    def _look(self) -> None:
        """Lets senders give way, at most one for each waiting caller; those that have been silent longest go first."""
        self._alarm = None
        if not self.waiting:
            return
        loop = asyncio.get_running_loop()
        now = loop.time()
        senders = [(slot.sender, slot) for slot in self._received if slot.sender is not None]
        senders.sort(key=lambda each: each[0].silence(now), reverse=True)
        needed = self.waiting - sum(sender.error is not None for sender, _ in senders)
        others = any(map(self._may_run, self._queues))  # whether some waiting caller can use a slot of any key
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
