"""What caches hold is known and bounded, and every one of them is in the metrics."""

import random
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from coatcheck.adapters.metrics import Metrics, Standing, render_metrics
from coatcheck.core.caches import CACHE_NAMES, BoundedCache, CacheSize, cache_sizes, memory_bytes, remember
from coatcheck.core.encoding.frames import FrameIndex
from coatcheck.core.ids import number

KIB = 1024


def test_held_bytes_are_those_of_all_objects_once() -> None:
    text = "a text of its own" * 100
    parts = sys.getsizeof(text), sys.getsizeof((text, text)), sys.getsizeof([1, 2])
    assert sum(parts) <= memory_bytes(((text, text), [1, 2])) <= sum(parts) + 3 * 64 + 2 * 32
    assert memory_bytes(None) == memory_bytes(True) == memory_bytes(int) == 0


def test_held_bytes_include_slots_fields_and_arrays() -> None:
    zeros = np.zeros(10_000, dtype=np.int64)
    assert memory_bytes(zeros) >= zeros.nbytes
    few, many = (
        memory_bytes(
            FrameIndex(
                frame_size=10, size=10 * n, stored_size=n, compressed_sizes=[1] * n, newlines=[0] * n, chars=[10] * n
            )
        )
        for n in (2, 1_002)
    )
    assert 0 <= many - few - 3 * 8 * 1_000 <= 64  # three columns of eight bytes a frame


@pytest.mark.parametrize("size", [10, 1_000, 6_000])
def test_a_cache_never_holds_more_than_its_limit(size: int) -> None:
    cache = BoundedCache[int, bytes]("frames", 64 * KIB)
    for at in range(500):
        cache.put(number(b"%d" % at), bytes(size))
        assert cache.size.bytes <= 64 * KIB
    assert cache.size.bytes >= 24 * KIB  # it is used, too


def test_what_is_used_stays_and_what_is_not_goes() -> None:
    cache = BoundedCache[str, bytes]("frames", 64 * KIB)
    cache.put("used", b"u")
    cache.put("unused", b"n")
    for at in range(1_000):
        cache.put(f"other {at}", bytes(500))
        assert cache.get("used") == b"u"
    assert cache.get("unused") is None


def test_a_value_that_changed_is_measured_again_and_a_huge_one_is_left_out() -> None:
    cache = BoundedCache[str, bytearray]("frames", 64 * KIB)
    cache.put("a", bytearray())
    empty = cache.size
    cache.put("a", bytearray(8 * KIB))
    assert cache.size.entries == empty.entries == 1
    assert cache.size.bytes - empty.bytes >= 8 * KIB
    cache.put("a", bytearray(40 * KIB))
    assert (cache.get("a"), cache.size) == (None, CacheSize(0, 0))


def test_what_python_does_not_know_of_counts() -> None:
    cache = BoundedCache[str, int]("patterns", 64 * KIB)
    for at in range(20):
        cache.put(str(at), at, beside=8 * KIB)
    assert 3 <= cache.size.entries <= 7


def test_threads_share_a_cache() -> None:
    cache = BoundedCache[int, bytes]("frames", 64 * KIB)

    def work(seed: int) -> None:
        rng = random.Random(seed)
        for _ in range(5_000):
            key = rng.randrange(200)
            value = cache.get(key)
            assert value is None or value == b"%d" % key * 20
            cache.put(key, b"%d" % key * 20)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    assert cache.size.entries <= 200


def test_caches_of_one_name_are_counted_together_while_they_exist() -> None:
    before = cache_sizes()["secrets"]
    first, second = BoundedCache[int, bytes]("secrets", 64 * KIB), BoundedCache[int, bytes]("secrets", 64 * KIB)
    first.put(1, b"")
    second.put(1, b"")
    assert cache_sizes()["secrets"].entries == before.entries + 2
    del first
    assert cache_sizes()["secrets"].entries == before.entries + 1


def test_remembered_results_are_counted_and_bounded() -> None:
    before, calls = cache_sizes()["messages"], list[int]()

    def slow(of: int) -> int:
        calls.append(of)
        return of * 2

    remembering: Callable[[int], int] = remember("messages", 8, 100)(slow)
    assert [remembering(of) for of in (3, 3, 4)] == [6, 6, 8]
    assert calls == [3, 4]
    for of in range(50):
        remembering(of)
    after = cache_sizes()["messages"]
    assert (after.entries - before.entries, after.bytes - before.bytes) == (8, 800)


def test_every_cache_has_its_series_from_the_start() -> None:
    text = render_metrics(Metrics("1", Standing).registry, "")[0].decode()
    for name in CACHE_NAMES:
        assert f'coatcheck_cache_bytes{{cache="{name}"}}' in text
        assert f'coatcheck_cache_entries{{cache="{name}"}}' in text
