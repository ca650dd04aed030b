"""A cache of the most recently used values, up to a total cost. Nothing expires by time."""

from collections import OrderedDict
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Lru(Generic[K, V]):
    """The most recently used values, up to a total cost. Not thread-safe."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._cost = 0
        self._held: OrderedDict[K, tuple[V, int]] = OrderedDict()

    def get(self, key: K) -> V | None:
        """Returns the value and marks it as the most recently used; None if it is not cached."""
        entry = self._held.get(key)
        if entry is None:
            return None
        self._held.move_to_end(key)
        return entry[0]

    def put(self, key: K, value: V, cost: int) -> None:
        """Caches a value; drops the least recently used until the costs fit. A value over the limit is not cached."""
        old = self._held.pop(key, None)
        self._cost += cost - (old[1] if old else 0)
        self._held[key] = (value, cost)
        while self._cost > self._limit:
            _, (_, freed) = self._held.popitem(last=False)
            self._cost -= freed
