"""Several processes over one store: one tidies at a time."""

from datetime import timedelta

from coatcheck.usecases.tidy import OTHERS, Crew, Tidied, Tidy
from usecases.house import GRACE, INSTANT, TOMBSTONE_LIFE, House


def member(house: House, name: str) -> Tidy:
    return Tidy(
        house.catalog,
        house.catalog,
        house.blobs,
        house.clock,
        house.reads,
        tombstone_life=TOMBSTONE_LIFE,
        grace=GRACE,
        crew=Crew(name, 10.0),
    )


async def test_one_leads_until_it_leaves_or_is_silent_for_two_rounds(house: House) -> None:
    first, second = member(house, "first"), member(house, "second")
    for seed in range(3):
        await house.put(b"%d" % seed, ttl=60 * (seed + 1))
    house.clock.forward(timedelta(seconds=60) + OTHERS)
    assert await first() == Tidied(expired=1)
    house.clock.forward(timedelta(seconds=20))
    assert (await second(), await first()) == (Tidied(), Tidied())
    house.clock.forward(timedelta(seconds=25) + INSTANT)
    assert await second() == Tidied()
    house.clock.forward(timedelta(seconds=15))
    assert (await first(), await second()) == (Tidied(), Tidied(expired=1))
    await first.leave()
    assert await first() == Tidied()
    await second.leave()
    house.clock.forward(timedelta(seconds=60))
    assert (await first(), await second()) == (Tidied(expired=1), Tidied())


async def test_what_another_replica_may_have_read_just_now_is_not_buried_yet(house: House) -> None:
    only = member(house, "only")
    await house.put(b"x", ttl=60)
    house.clock.forward(timedelta(seconds=60) + OTHERS - INSTANT)
    assert await only() == Tidied()
    house.clock.forward(INSTANT)
    assert await only() == Tidied(expired=1)
