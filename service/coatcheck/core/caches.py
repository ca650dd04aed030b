"""Caches that are bounded and know their size, which is counted for the metrics of the process.

Every cache that grows with what callers send is one of these. No entry expires by time. `BoundedCache` measures each
entry when it is added, by the sizes that Python reports for its objects. Where measuring would cost more than computing
the value, `remember` bounds the number of entries instead; the size of an entry was measured once.
"""

import sys
from collections import Counter
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from enum import Enum
from functools import lru_cache
from typing import Any, Final, Generic, Literal, NamedTuple, ParamSpec, Protocol, TypeVar, cast, final, get_args
from weakref import WeakSet

from msgspec import Struct

K = TypeVar("K")
V = TypeVar("V")
P = ParamSpec("P")

CacheName = Literal[
    "cards",
    "database_pages",
    "forms_absent",
    "frame_indexes",
    "frames",
    "messages",
    "names",
    "patterns",
    "recent_reads",
    "scan_positions",
    "search_sources",
    "search_summaries",
    "secrets",
    "token_counts",
    "token_positions",
    "views_absent",
    "words",
]
"""The name of a cache, by what is cached; the label `cache` of the metrics."""
CACHE_NAMES: Final[tuple[CacheName, ...]] = get_args(CacheName)
_ALIGNED: Final = 16
"""Bytes to which CPython's allocator rounds every object up (ALIGNMENT in Objects/obmalloc.c)."""
_SHARED: Final = (Enum, type, bool, type(None))
"""Types whose values exist only once, however many objects refer to them, so that they cost nothing."""


def memory_bytes(value: object) -> int:
    """Returns the bytes of memory of a value and of everything to which it refers.

    An object that occurs several times in the value counts once. Memory that other libraries allocate is not included,
    except that of NumPy's own arrays.
    """
    return _measure(value, set())


def _measure(value: object, object_ids: set[int]) -> int:
    if isinstance(value, _SHARED) or id(value) in object_ids:
        return 0
    object_ids.add(id(value))
    total = -(-sys.getsizeof(value) // _ALIGNED) * _ALIGNED
    if isinstance(value, str | bytes | int | float):
        return total
    return total + sum([_measure(part, object_ids) for part in _parts(value)])


def _parts(value: object) -> list[object]:
    """Returns the objects to which an object refers."""
    if isinstance(value, tuple | list | AbstractSet):
        return list(cast("list[object]", value))
    if isinstance(value, Mapping):
        return [part for pair in cast("Mapping[object, object]", value).items() for part in pair]
    names: tuple[str, ...] = value.__struct_fields__ if isinstance(value, Struct) else getattr(value, "__slots__", ())
    return [getattr(value, name) for name in names] + list(getattr(value, "__dict__", {}).values())


class _Entry(NamedTuple):
    value: Any
    cost: int


_ENTRY_BYTES: Final = memory_bytes(_Entry(None, 1 << 30)) + 2 * 24 + 2 * 8
"""Bytes of an entry beside its key and value: the tuple, and its slot in a dictionary that may be half empty. A slot
has 24 bytes and an index of up to 8 bytes (Objects/dictobject.c)."""


class CacheSize(NamedTuple):
    """The size of a cache, or of all caches of one name."""

    entries: int
    bytes: int
    """Bytes of memory of these entries."""


class CountedCache(Protocol):
    """A cache that is counted for the metrics."""

    @property
    def name(self) -> CacheName:
        """The name of the cache in the metrics."""
        ...

    @property
    def size(self) -> CacheSize:
        """Returns the number of entries, and their bytes. Must not block."""
        ...


@final
class BoundedCache(Generic[K, V]):
    """The most recently used values, up to a number of bytes. Threads may share a cache.

    The cache has two halves. A value that is used moves to the young half. When the young half is full, it becomes the
    old half, and the former old half is dropped. So an entry stays until entries of about half the limit were used
    after it.
    """

    def __init__(self, name: CacheName, limit: int) -> None:
        """`limit` is the maximum number of bytes of memory."""
        self.name: CacheName = name
        """The name of the cache in the metrics."""
        self._half = limit // 2
        self._young: dict[K, _Entry] = {}
        self._old: dict[K, _Entry] = {}
        self._young_bytes = self._old_bytes = 0
        count_cache(self)

    def get(self, key: K) -> V | None:
        """Returns the value of a key, and marks it as just used; None if it is not cached."""
        entry = self._young.get(key)
        if entry is None:
            entry = self._old.pop(key, None)
            if entry is None:
                return None
            self._old_bytes -= entry.cost
            self._add(key, entry)
        return cast("V", entry.value)

    def put(self, key: K, value: V, *, beside: int = 0) -> V:
        """Caches a value, unless it takes more than half of the limit, and returns it.

        `beside` is the number of bytes of the value that Python does not report. A value that changes must be put
        again.
        """
        cost = _ENTRY_BYTES + memory_bytes(key) + memory_bytes(value) + beside
        former = self._old.pop(key, None)
        if former is not None:
            self._old_bytes -= former.cost
        former = self._young.pop(key, None)
        if former is not None:
            self._young_bytes -= former.cost
        if cost <= self._half:
            self._add(key, _Entry(value, cost))
        return value

    @property
    def size(self) -> CacheSize:
        """Returns the number of entries, and their bytes."""
        return CacheSize(len(self._young) + len(self._old), self._young_bytes + self._old_bytes)

    def _add(self, key: K, entry: _Entry) -> None:
        if self._young_bytes + entry.cost > self._half:
            # Both halves are replaced before the new one is filled, so that entries which other threads add meanwhile
            # are counted.
            self._old, self._young = self._young, {}
            self._old_bytes, self._young_bytes = self._young_bytes, 0
        self._young[key] = entry
        self._young_bytes += entry.cost


class _FunctionCache(NamedTuple):
    """A function whose results are cached."""

    name: CacheName
    entries: Callable[[], int]
    entry_bytes: int
    """Measured bytes of memory of one entry."""

    @property
    def size(self) -> CacheSize:
        """See CountedCache."""
        entries = self.entries()
        return CacheSize(entries, entries * self.entry_bytes)


def remember(name: CacheName, most: int, entry_bytes: int) -> Callable[[Callable[P, V]], Callable[P, V]]:
    """Returns a decorator that caches the most recently used results of a function.

    Args:
        name: the name of the cache in the metrics.
        most: maximum number of results.
        entry_bytes: bytes of memory of an entry, as measured with tracemalloc: its arguments, its result, and some 150
            bytes for its slot.
    """

    def decorate(function: Callable[P, V]) -> Callable[P, V]:
        caching = lru_cache(most)(function)
        _FUNCTIONS.append(_FunctionCache(name, lambda: caching.cache_info().currsize, entry_bytes))
        return cast("Callable[P, V]", caching)

    return decorate


_FUNCTIONS: Final[list[_FunctionCache]] = []
_CACHES: Final[WeakSet[CountedCache]] = WeakSet()
"""All caches of the process, so that none can be left out of the metrics."""


def count_cache(cache: CountedCache) -> None:
    """Includes a cache in the metrics for as long as it exists."""
    _CACHES.add(cache)


def cache_sizes() -> dict[CacheName, CacheSize]:
    """Returns the size of all caches of each name, including the names under which nothing is cached yet."""
    entries, bytes_ = Counter[CacheName](), Counter[CacheName]()
    for cache in [*_CACHES, *_FUNCTIONS]:
        size = cache.size
        entries[cache.name] += size.entries
        bytes_[cache.name] += size.bytes
    return {name: CacheSize(entries[name], bytes_[name]) for name in CACHE_NAMES}
