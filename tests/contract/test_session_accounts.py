"""What every catalogue does with sessions' accounts."""

from datetime import timedelta

from coatcheck.core.artifact import DeclaredMetadata
from coatcheck.core.event import GAUGES, SessionUsage, UsageDelta
from coatcheck.ports.artifacts import DeleteSession
from coatcheck.ports.decisions import DeleteNamespace, MarkNamespace
from coatcheck.ports.keys import AddSessionUsage
from coatcheck.ports.maintenance import PurgeRecords
from contract.sample_changes import DAY, START, Everything, store

SECOND = timedelta(seconds=1)


def adding(batch: int, *sessions: tuple[str, str, UsageDelta], seconds: int = 0) -> AddSessionUsage:
    return AddSessionUsage(batch=batch, at=START + seconds * SECOND, sessions=sessions)


async def test_what_happens_adds_up_and_the_last_gauges_stand(catalog: Everything) -> None:
    gauges = dict.fromkeys(GAUGES, 700)
    first = UsageDelta(artifacts=1, raw_tokens=900, given_tokens=60, **gauges)
    more = UsageDelta(reads=2, read_tokens=150, compactions=1, unsent_tokens=840)
    later = UsageDelta(artifacts=2, raw_tokens=1_000, given_tokens=-5, persisted_tokens=5_100, transient_tokens=0)
    await catalog.commit(adding(1, ("acme", "s", first), ("acme", "t", more)))
    await catalog.commit(adding(2, ("acme", "s", more), seconds=1))
    between = await catalog.session_usage("acme", "s")
    assert between is not None
    assert {name: getattr(between.spent, name) for name in GAUGES} == gauges
    await catalog.commit(adding(3, ("acme", "s", later), seconds=2))
    total = UsageDelta(
        artifacts=3,
        raw_tokens=1_900,
        given_tokens=55,
        reads=2,
        read_tokens=150,
        compactions=1,
        unsent_tokens=840,
        persisted_tokens=5_100,
        transient_tokens=0,
    )
    at = START + 2 * SECOND
    assert await catalog.session_usage("acme", "s") == SessionUsage(spent=total, since=START, at=at)
    assert await catalog.session_usage("acme", "t") == SessionUsage(spent=more, since=START, at=START)


async def test_a_change_that_is_made_again_counts_once(catalog: Everything) -> None:
    change = adding(7, ("acme", "s", UsageDelta(reads=1)), ("other", "s", UsageDelta(reads=5)))
    for _ in range(3):
        await catalog.commit(change)
    found = [await catalog.session_usage(namespace, "s") for namespace in ("acme", "other")]
    assert [account.spent.reads if account else None for account in found] == [1, 5]


async def test_accounts_of_another_namespace_are_not_seen(catalog: Everything) -> None:
    await catalog.commit(adding(1, ("acme", "s", UsageDelta(reads=1))))
    assert await catalog.session_usage("other", "s") is None
    assert await catalog.session_usage("acme", "S") is None


async def test_an_account_goes_with_its_session(catalog: Everything) -> None:
    _ = await catalog.commit(store(said=DeclaredMetadata(session="s")))
    await catalog.commit(adding(1, ("acme", "s", UsageDelta(reads=1)), ("acme", "t", UsageDelta(reads=2))))
    gone = DeleteSession(namespace="acme", session="s", now=START, tombstone_until=START + DAY, limit=10)
    assert await catalog.commit(gone) == 1
    assert await catalog.session_usage("acme", "s") is None
    assert await catalog.session_usage("acme", "t") is not None


async def test_accounts_that_nobody_writes_to_go_after_ninety_days(catalog: Everything) -> None:
    await catalog.commit(adding(1, ("acme", "old", UsageDelta(reads=1))))
    await catalog.commit(adding(2, ("acme", "new", UsageDelta(reads=1)), seconds=86_400))
    just = START + 90 * DAY
    assert await catalog.commit(PurgeRecords(now=just - SECOND, limit=10)) in {0, 2}
    _ = await catalog.commit(PurgeRecords(now=just, limit=10))
    assert await catalog.session_usage("acme", "old") is None


async def test_accounts_go_with_their_namespace_and_those_of_others_stay(catalog: Everything) -> None:
    spent = UsageDelta(artifacts=1, raw_tokens=900)
    sessions = [("acme", f"s{at}", spent) for at in range(7)]
    await catalog.commit(adding(1, *sessions, ("other", "s1", spent)))
    for at in range(3):
        await catalog.commit(store(b"%d\n" % at, said=DeclaredMetadata(session=f"s{at}", tool_call_id=str(at))))
    going = DeleteNamespace(namespace="acme", now=START, tombstone_until=START + DAY, limit=2)
    assert await catalog.commit(going) == 0  # it is not marked
    assert await catalog.session_usage("acme", "s0") is not None
    await catalog.commit(MarkNamespace(namespace="acme", now=START, deleting=True))
    assert await catalog.commit(going) == 2
    left = [name for _, name, _ in sessions if await catalog.session_usage("acme", name) is not None]
    assert len(left) == 5
    assert await catalog.commit(going) == 1
    assert [name for name in left if await catalog.session_usage("acme", name) is not None] == []
    assert await catalog.session_usage("other", "s1") is not None
