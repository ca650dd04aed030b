"""Several processes over one store: one tidies at a time."""

from dataclasses import replace
from datetime import timedelta

from coatcheck.upkeep.maintenance import REPLICA_READ_DELAY, Maintenance, MaintenanceRound, maintenance_lease
from support.clock import INSTANT
from support.harness import Harness


def member(harness: Harness, name: str) -> Maintenance:
    return replace(harness.tidy(), leader=maintenance_lease(harness.catalog, harness.clock, name, 10.0))


async def test_one_leads_until_it_leaves_or_is_silent_for_two_rounds(harness: Harness) -> None:
    first, second = member(harness, "first"), member(harness, "second")
    for seed in range(3):
        await harness.put(b"%d" % seed, ttl=60 * (seed + 1))
    harness.clock.forward(timedelta(seconds=60) + REPLICA_READ_DELAY)
    assert await first() == MaintenanceRound(expired=1)
    harness.clock.forward(timedelta(seconds=20))
    assert (await second(), await first()) == (MaintenanceRound(), MaintenanceRound())
    harness.clock.forward(timedelta(seconds=25) + INSTANT)
    assert await second() == MaintenanceRound()
    harness.clock.forward(timedelta(seconds=15))
    assert (await first(), await second()) == (MaintenanceRound(), MaintenanceRound(expired=1))
    await first.leave()
    assert await first() == MaintenanceRound()
    await second.leave()
    harness.clock.forward(timedelta(seconds=60))
    assert (await first(), await second()) == (MaintenanceRound(expired=1), MaintenanceRound())


async def test_what_another_replica_may_have_read_just_now_is_not_buried_yet(harness: Harness) -> None:
    only = member(harness, "only")
    await harness.put(b"x", ttl=60)
    harness.clock.forward(timedelta(seconds=60) + REPLICA_READ_DELAY - INSTANT)
    assert await only() == MaintenanceRound()
    harness.clock.forward(INSTANT)
    assert await only() == MaintenanceRound(expired=1)
