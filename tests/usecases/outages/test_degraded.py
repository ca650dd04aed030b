"""When storage does not answer: a card all the same, memory for a while, and storing later."""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from dataclasses import replace
from datetime import timedelta
from functools import partial
from itertools import count
from typing import Any, cast

import pytest

from coatcheck.core import ids
from coatcheck.core.encoding.frames import new_blob_id
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.ports.blobs import BlobStore
from coatcheck.ports.catalog import Catalog, FoundArtifact
from coatcheck.runtime.circuit_breaker import PATIENCE, CircuitBreaker
from coatcheck.storing.fallback_buffer import FallbackBuffer
from coatcheck.storing.find import Find
from coatcheck.storing.ingest_request import Receipt
from coatcheck.usecases.operations.flush_fallback import FlushFallback
from coatcheck.usecases.retention.administer_holds import Holds
from support.clock import INSTANT
from support.harness import CALLER, GRACE, LEASE, Harness, flushing, readiness_of
from support.intercepting_catalog import InterceptingCatalog
from support.refusals import code_of
from support.samples import lines, noise, stream

PAUSE = timedelta(seconds=PATIENCE)
SMALL = lines(20_000)
LARGE = noise(300_000)


class Fault:
    """What ails an adapter: while it is down, its first `answers` calls are still answered."""

    def __init__(self, code: Code = Code.STORAGE_UNAVAILABLE) -> None:
        self.down = True
        self.code = code
        self.answers = 0
        self.calls = 0

    def met(self) -> None:
        self.calls += 1
        if self.down and self.calls > self.answers:
            raise CoatcheckError(self.code, "It does not answer.")


class Ailing:
    """A real adapter, or a writer of one, with a fault."""

    def __init__(self, real: object, fault: Fault) -> None:
        self._real = real
        self._fault = fault

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever the adapter has
        found: Callable[..., Awaitable[Any]] = getattr(self._real, name)
        if not callable(found) or name == "abort":
            return found

        async def call(*args: object, **named: object) -> object:
            self._fault.met()
            answer: object = await found(*args, **named)
            return Ailing(answer, self._fault) if name == "create" else answer

        return call


class Degraded:
    """A house whose catalogue or blob store fails, with everything that lives over it."""

    def __init__(self, harness: Harness, broken: str, fault: Fault, room: int = 1 << 24) -> None:
        self.harness = harness
        self.fault = fault
        self.catalog = cast("Catalog", Ailing(harness.catalog, fault) if broken == "catalog" else harness.catalog)
        self.blobs = cast("BlobStore", Ailing(harness.blobs, fault) if broken == "blobs" else harness.blobs)
        self.fallback = FallbackBuffer(room)
        self.find = Find(self.catalog, harness.clock, harness.reads, self.fallback)
        self.forget = replace(harness.forget, catalog=self.catalog, fallback=self.fallback)
        self.forget_session = replace(harness.forget_session, catalog=self.catalog, fallback=self.fallback)
        self.extend = replace(harness.extend, catalog=self.catalog, fallback=self.fallback)
        self._names = iter(range(1000))
        self.deps: dict[str, Any] = {
            "catalog": self.catalog,
            "blobs": self.blobs,
            "fallback": self.fallback,
            "catalog_breaker": CircuitBreaker("catalogue", harness.clock.seconds),
            "blobs_breaker": CircuitBreaker("blob store", harness.clock.seconds),
            "new_blob_id": lambda: new_blob_id(harness.clock.now(), next(self._names).to_bytes(10)),
        }

    async def put(self, payload: bytes, **offer: Any) -> Receipt:  # noqa: ANN401 - fields of an Offer
        return await self.harness.put(payload, settings=self.deps, **offer)

    async def write_through(self, **changed: Any) -> int:  # noqa: ANN401 - settings
        return await flushing(self.harness.deps(**(self.deps | changed)))()

    async def stored_nothing(self) -> bool:
        """Whether writing through stores nothing at this moment, whatever it says of that."""
        waiting, rows = self.fallback.count, self.harness.count("artifacts")
        try:
            stored = await self.write_through()
        except CoatcheckError:
            stored = 0
        return (stored, self.fallback.count, self.harness.count("artifacts")) == (0, waiting, rows)

    async def found(self, artifact_id: str) -> FoundArtifact:
        return await self.find(CALLER, ids.parse(artifact_id), with_bytes=True)

    async def content(self, artifact_id: str) -> bytes:
        content = self.harness.opened()(await self.found(artifact_id))
        return b"".join([block async for block in content.blocks(0, content.size)])

    async def settled(self) -> None:
        """Whatever was left to the upkeep is done."""
        self.fault.down = False
        await self.harness.rest()
        self.harness.clock.forward(LEASE + INSTANT)
        await self.harness.tidy()()
        self.harness.clock.forward(GRACE + INSTANT)
        await self.harness.tidy()()


CASES = [("catalog", SMALL), ("catalog", LARGE), ("blobs", LARGE)]
IDS = ["catalogue, inline", "catalogue, file", "blob store"]


async def test_what_is_recorded_of_a_receipt_is_what_it_said_while_storage_was_away(harness: Harness) -> None:
    world = Degraded(harness, "catalog", Fault())
    receipt = await world.put(SMALL)
    assert "NOT STORED" in receipt.text
    world.fault.down = False
    assert await world.write_through() == 1
    found = await world.find(CALLER, ids.parse(receipt.id), with_receipt=True)
    assert found.receipt is not None
    assert found.receipt.sha256 == hashlib.sha256(receipt.text.encode()).digest()


@pytest.mark.parametrize(("broken", "payload"), CASES, ids=IDS)
@pytest.mark.parametrize("code", [Code.STORAGE_UNAVAILABLE, Code.STORAGE_FULL, Code.OVERLOADED])
async def test_what_storage_refuses_is_readable_at_once_and_stored_later_under_the_same_id(
    harness: Harness, broken: str, payload: bytes, code: Code
) -> None:
    world = Degraded(harness, broken, Fault(code))
    receipt = await world.put(payload)
    assert (receipt.stored, receipt.created, [w.code for w in receipt.warnings]) == (False, True, [str(code)])
    assert await world.content(receipt.id) == payload
    assert harness.count("artifacts") == 0
    assert await world.stored_nothing()
    world.fault.down = False
    harness.clock.forward(PAUSE)
    assert await world.write_through() == 1
    assert (world.fallback.count, harness.count("artifacts")) == (0, 1)
    assert await harness.content(receipt.id) == payload
    assert world.fallback.find(CALLER.namespace, ids.parse(receipt.id), harness.clock.now()) is None
    again = await world.put(payload)
    assert (again.id, again.stored, again.created) == (receipt.id, True, False)
    assert again.text != receipt.text or again.inline


@pytest.mark.parametrize("answers", [0, 1], ids=["the look-up fails", "the commit fails"])
async def test_what_storage_refuses_has_a_card_of_its_own_though_it_repeats_another(
    harness: Harness, answers: int
) -> None:
    said = {"session": "s", "tool_call_id": "call_1"}
    first = await harness.put(SMALL, said=said)
    world = Degraded(harness, "catalog", Fault())
    world.fault.answers = answers
    receipt = await world.put(SMALL, said=said | {"tool_call_id": "call_2"})
    assert (receipt.stored, receipt.same_as) == (False, None)
    assert "NOT STORED" in receipt.text.splitlines()[0]
    assert receipt.text.count("\n") > 4
    world.fault.down = False
    harness.clock.forward(PAUSE)
    assert await world.write_through() == 1
    again = await world.put(SMALL, said=said | {"tool_call_id": "call_2"})
    assert (again.id, again.created, again.same_as) == (receipt.id, False, None)
    third = await world.put(SMALL, said=said | {"tool_call_id": "call_3"})
    assert third.same_as in {first.id, receipt.id}


@pytest.mark.parametrize("broken", ["catalog", "blobs"])
async def test_a_fault_at_any_call_of_an_upload_says_not_stored_and_leaves_nothing(
    harness: Harness, broken: str
) -> None:
    healthy = Degraded(harness, broken, Fault())
    healthy.fault.down = False
    first = await healthy.put(LARGE)
    await harness.forget(CALLER, ids.parse(first.id))
    await healthy.settled()
    assert healthy.fault.calls > 1
    for k in range(healthy.fault.calls):
        world = Degraded(harness, broken, Fault())
        world.fault.answers = k
        receipt = await world.put(noise(300_000, seed=100 + k))
        if receipt.stored:  # only asking whether it was there already failed
            await harness.forget(CALLER, ids.parse(receipt.id))
        await world.settled()
        assert (k, harness.stored_files(), harness.count("uploads"), harness.count("artifacts")) == (k, [], 0, 0)


async def test_while_nobody_knows_a_read_is_not_answered_not_found(harness: Harness) -> None:
    kept = await harness.put(SMALL)
    world = Degraded(harness, "catalog", Fault(), room=0)
    lost = await world.put(LARGE)
    for artifact_id in (kept.id, lost.id):
        assert await code_of(world.found(artifact_id)) is Code.STORAGE_UNAVAILABLE
    world.fault.down = False
    assert await world.content(kept.id) == SMALL
    assert await code_of(world.found(lost.id)) is Code.ARTIFACT_NOT_FOUND


async def test_a_silent_store_is_asked_once_in_a_while_not_by_every_payload(harness: Harness) -> None:
    world = Degraded(harness, "catalog", Fault())
    for seed in range(5):
        assert not (await world.put(lines(2_000, seed))).stored
    assert world.fault.calls == 1
    world.fault.down = False
    assert not (await world.put(lines(2_000, 6))).stored
    assert await world.write_through() == 6
    assert (await world.put(lines(2_000, 7))).stored


@pytest.mark.parametrize("how", ["compared", "named", "the same key", "the same key, inline"])
async def test_while_the_blob_store_is_silent_the_catalogue_takes_what_is_small(harness: Harness, how: str) -> None:
    said = {"session": "s", "tool_name": "bash"}
    inline = how.endswith("inline")
    earlier = await harness.put(SMALL, said=said, key="k", settings={} if inline else {"inline_bytes": 0})
    world = Degraded(harness, "blobs", Fault())
    if inline:
        assert not (await world.put(noise(300_000, 5))).stored
        assert world.deps["blobs_breaker"].silent
    if how.startswith("the same key"):
        again = await world.put(SMALL, said=said, key="k")
        assert (again.id, again.stored, again.replayed) == (earlier.id, inline, inline)
    else:
        run = await world.put(lines(2_000, 1), said=said, compare_to=earlier.id if how == "named" else "previous")
        assert run.stored
    assert (world.deps["blobs_breaker"].silent, world.deps["catalog_breaker"].silent) == (True, False)
    assert (await world.put(lines(2_000, 2))).stored


async def test_what_is_ready_takes_the_next_payload(harness: Harness) -> None:
    place = Degraded(harness, "catalog", Fault())
    ready = readiness_of(harness.deps(**place.deps))
    assert not (await place.put(SMALL)).stored
    (reason,) = (await ready()).reasons
    assert (reason.component, reason.health, reason.code) == ("catalogue", "away", Code.STORAGE_UNAVAILABLE)
    assert not (await place.put(SMALL + b"1")).stored
    place.fault.down = False
    assert not (await place.put(SMALL + b"2")).stored  # nobody has asked it since
    assert (await ready()).health == "ready"
    assert (await place.put(SMALL + b"3")).stored


async def test_without_anybody_who_probes_one_caller_tries_again_after_a_while(harness: Harness) -> None:
    world = Degraded(harness, "catalog", Fault())
    assert not (await world.put(lines(2_000, 1))).stored
    world.fault.down = False
    harness.clock.forward(PAUSE - INSTANT)
    assert not (await world.put(lines(2_000, 2))).stored
    harness.clock.forward(INSTANT)
    assert (await world.put(lines(2_000, 3))).stored


async def test_however_many_wait_a_silent_store_is_waited_for_once(harness: Harness) -> None:
    world = Degraded(harness, "catalog", Fault())
    for seed in range(5):
        await world.put(lines(2_000, seed))
    harness.clock.forward(PAUSE)
    asked = world.fault.calls
    assert await world.stored_nothing()
    assert world.fault.calls == asked + 1


async def test_the_oldest_make_room_and_the_largest_find_none(harness: Harness) -> None:
    world = Degraded(harness, "catalog", Fault(), room=3 * 310_000)
    kept = [(await world.put(noise(300_000, seed))).id for seed in range(5)]
    large = await world.put(noise(1_000_000))
    beyond = await world.put(noise(5_000_000))
    assert [await outcome(world, one) for one in [*kept, large.id, beyond.id]] == [
        Code.STORAGE_UNAVAILABLE,
        Code.STORAGE_UNAVAILABLE,
        "readable",
        "readable",
        "readable",
        Code.STORAGE_UNAVAILABLE,
        Code.STORAGE_UNAVAILABLE,
    ]


async def test_an_upload_that_has_ended_holds_no_memory(harness: Harness) -> None:
    world = Degraded(harness, "blobs", Fault(), room=2_000_000)
    world.fault.down = False
    for seed, size in enumerate((1_000_000, 1_000_000, 5_000_000)):
        await world.put(noise(size, seed))
    world.fault.down = True
    assert await outcome(world, (await world.put(noise(1_000_000, 9))).id) == "readable"


@pytest.mark.parametrize("size", [600_000, 1024**2, 4 * 1024**2 + 512 * 1024])
async def test_an_upload_that_breaks_off_holds_no_memory_and_releases_no_others(harness: Harness, size: int) -> None:
    async def break_off(seed: int) -> AsyncIterator[bytes]:
        async for piece in stream(noise(size, seed)):
            yield piece
        raise CoatcheckError(Code.TRUNCATED_BODY, "It broke off.")

    room = 1 << 24
    fallback = FallbackBuffer(room)
    for seed in range(6):
        put = harness.put(break_off(seed), settings={"fallback": fallback})
        assert await code_of(put) is Code.TRUNCATED_BODY
        await harness.rest()
    assert (fallback.hold(room), fallback.hold(1)) == (True, False)


async def outcome(world: Degraded, artifact_id: str) -> str:
    try:
        await world.content(artifact_id)
    except CoatcheckError as error:
        return error.code
    return "readable"


async def test_what_is_deleted_or_expires_while_it_waits_is_never_stored(harness: Harness) -> None:
    world = Degraded(harness, "catalog", Fault())
    one = await world.put(lines(3_000, 1))
    of_session = await world.put(lines(3_000, 2), said={"session": "s"})
    brief = await world.put(lines(3_000, 3), ttl=60)
    assert await code_of(world.extend(CALLER, ids.parse(one.id), pinned=True)) is Code.STORAGE_UNAVAILABLE
    world.fault.down = False
    await world.forget(CALLER, ids.parse(one.id))
    assert await world.forget_session(CALLER, "s") == 1
    harness.clock.forward(PAUSE * 30)
    assert await world.write_through() == 0
    assert (world.fallback.count, harness.count("artifacts")) == (0, 0)
    for receipt in (one, of_session, brief):
        assert await code_of(world.found(receipt.id)) is Code.ARTIFACT_NOT_FOUND


async def test_what_waits_is_held_with_its_session_and_by_itself_once_it_is_stored(harness: Harness) -> None:
    world = Degraded(harness, "blobs", Fault())
    receipt = await world.put(LARGE, said={"session": "s"})
    names = count()
    holds = Holds(
        harness.catalog, harness.clock, lambda _: next(names).to_bytes(8), harness.session_names, world.fallback
    )
    of_session = await holds.place(CALLER, None, reason="case 7", session="s")
    place = partial(holds.place, CALLER, None, reason="case 7", number=ids.parse(receipt.id))
    assert await code_of(place()) is Code.STORAGE_UNAVAILABLE
    waiting = (await world.found(receipt.id)).artifact
    assert await holds.covering([waiting]) == [(of_session,)]
    world.fault.down = False
    harness.clock.forward(PAUSE)
    assert await world.write_through() == 1
    placed = await place()
    assert await holds.covering([waiting]) == [(of_session, placed)]


@pytest.mark.parametrize("whole_session", [False, True])
async def test_one_deleted_while_it_is_being_stored_is_gone_afterwards(harness: Harness, whole_session: bool) -> None:
    world = Degraded(harness, "catalog", Fault())
    receipt = await world.put(SMALL, said={"session": "s"})
    world.fault.down = False
    number = ids.parse(receipt.id)
    deleting = world.forget_session(CALLER, "s") if whole_session else world.forget(CALLER, number)
    meeting = MeetingCatalog(harness, deleting)
    await world.write_through(catalog=meeting)
    await cast("asyncio.Task[object]", meeting.task)
    assert (world.fallback.count, harness.count("artifacts"), harness.count("tombstones")) == (0, 0, 1)


async def test_one_put_out_while_it_is_being_stored_stays_stored(harness: Harness) -> None:
    world = Degraded(harness, "catalog", Fault(), room=2 * 310_000)
    receipt = await world.put(LARGE)
    world.fault.down = False

    async def crowd() -> None:
        for seed in range(5):
            found = world.fallback.find(CALLER.namespace, ids.parse(receipt.id), harness.clock.now())
            if found is not None:
                world.fallback.forget(CALLER.namespace, ids.parse(receipt.id))
            await asyncio.sleep(0 * seed)

    meeting = MeetingCatalog(harness, crowd())
    assert await world.write_through(catalog=meeting) == 1
    await cast("asyncio.Task[object]", meeting.task)
    assert await harness.content(receipt.id) == LARGE


class MeetingCatalog(InterceptingCatalog):
    """A catalogue during whose commit something else begins."""

    def __init__(self, harness: Harness, other: Coroutine[Any, Any, object]) -> None:
        super().__init__(harness.catalog, self._meet)
        self._other = other
        self.task: asyncio.Task[object] | None = None

    async def _meet(self) -> None:
        self.task = asyncio.ensure_future(self._other)
        for _ in range(10):
            await asyncio.sleep(0)  # it gets as far as it can


async def test_what_was_deleted_elsewhere_meanwhile_is_not_revived(harness: Harness) -> None:
    world = Degraded(harness, "catalog", Fault())
    receipt = await world.put(SMALL)
    harness.clock.forward(INSTANT)
    other = await harness.put(SMALL)
    harness.clock.forward(INSTANT)
    await harness.forget(CALLER, ids.parse(other.id))
    world.fault.down = False
    assert (other.id, await world.write_through()) == (receipt.id, 0)
    assert (world.fallback.count, harness.count("artifacts"), harness.count("tombstones")) == (0, 0, 1)


async def test_a_delete_that_was_refused_leaves_what_waits_to_the_next_one(harness: Harness) -> None:
    world = Degraded(harness, "catalog", Fault())
    number = ids.parse((await world.put(SMALL)).id)
    assert await code_of(world.forget(CALLER, number)) is Code.STORAGE_UNAVAILABLE
    world.fault.down = False
    await world.forget(CALLER, number)
    assert (world.fallback.count, await world.write_through(), harness.count("artifacts")) == (0, 0, 0)


async def test_a_full_disk_or_a_lost_answer_leaves_no_more_than_one_file_behind(harness: Harness) -> None:
    world = Degraded(harness, "catalog", Fault())
    await world.put(LARGE)
    world.fault.down = False
    for error in (Code.STORAGE_FULL, Code.STORAGE_UNAVAILABLE):
        deps: dict[str, Any] = {**world.deps, "catalog": deaf(harness, error)}
        lost = flushing(harness.deps(**deps))
        for _ in range(3):
            assert await code_of(lost()) is error
            lost._deps.catalog_breaker.answers()  # pyright: ignore[reportPrivateUsage]
        assert len(harness.stored_files()) == (0 if error is Code.STORAGE_FULL else 1)
    assert await lost_then_found(world, lost)


async def lost_then_found(world: Degraded, verb: FlushFallback) -> bool:
    """Whether the same file is committed in the end."""
    (file,) = world.harness.stored_files()
    cast("Any", verb._deps.catalog).before = partial(asyncio.sleep, 0)  # pyright: ignore[reportPrivateUsage]
    return await verb() == 1 and world.harness.stored_files() == [file]


def deaf(harness: Harness, error: Code) -> InterceptingCatalog:
    """A catalogue that answers everything but a commit."""

    async def refuse() -> None:
        raise CoatcheckError(error, "It did not answer.")

    return InterceptingCatalog(harness.catalog, refuse)


async def test_a_key_means_nothing_before_storage_took_its_request(harness: Harness) -> None:
    world = Degraded(harness, "catalog", Fault())
    first = await world.put(SMALL, key="k")
    world.fault.down = False
    harness.clock.forward(PAUSE)
    second = await world.put(SMALL, key="k")
    assert (first.stored, second.stored, second.created, second.id) == (False, True, True, first.id)
    assert (await world.write_through(), world.fallback.count, harness.count("artifacts")) == (0, 0, 1)


@pytest.mark.parametrize("budget", [64, 128, 300, 600, 4096])
async def test_the_card_of_what_is_not_stored_keeps_its_budget_and_offers_nothing_to_read(
    harness: Harness, budget: int
) -> None:
    world = Degraded(harness, "catalog", Fault(), room=0)
    receipt = await world.put(SMALL, card_tokens=budget, inline_tokens=0)
    assert receipt.tokens <= budget
    assert receipt.card.next is None
    assert "not stored" in receipt.text.lower()
    assert "read_artifact" not in receipt.text
