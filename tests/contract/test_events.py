"""What every catalogue does with the log of events."""

from datetime import timedelta

from coatcheck.core import ids
from coatcheck.core.artifact import DeclaredMetadata
from coatcheck.core.event import Event, first_number
from coatcheck.ports.artifacts import DeleteArtifact, DeleteSession, IngestResult
from coatcheck.ports.decisions import DeleteNamespace, MarkNamespace
from coatcheck.ports.keys import AddSessionUsage
from coatcheck.ports.maintenance import PurgeRecords
from contract.sample_changes import DAY, START, Everything, store

SECOND = timedelta(seconds=1)


def event(at: int, *, namespace: str = "acme", session: str | None = "s", artifact: int | None = None) -> Event:
    """An event some seconds after the start."""
    return Event(
        number=first_number(START + at * SECOND),
        namespace=namespace,
        session=session,
        artifact=artifact,
        action="search",
        key_id="key_1",
        tokens=120,
        details={"pattern": "ERROR", "view": "raw"},
    )


async def log(catalog: Everything, *events: Event) -> None:
    await catalog.commit(AddSessionUsage(batch=events[0].number, at=START, sessions=(), events=events))


async def listed(
    catalog: Everything,
    *,
    namespace: str = "acme",
    session: str | None = "s",
    artifact: int | None = None,
    before: int | None = None,
    limit: int = 10,
) -> list[Event]:
    return await catalog.events(namespace, session=session, artifact=artifact, before=before, limit=limit)


async def test_events_are_listed_latest_first_page_by_page(catalog: Everything) -> None:
    made = [event(at, artifact=at % 2 + 1) for at in range(5)]
    await log(catalog, *made)
    await log(catalog, *made[:2])  # a change whose answer was lost is made again
    assert await listed(catalog) == made[::-1]
    first = await listed(catalog, limit=2)
    assert [*first, *await listed(catalog, before=first[-1].number)] == made[::-1]
    assert await listed(catalog, session=None, artifact=2) == [made[3], made[1]]
    assert await listed(catalog, artifact=2, before=made[3].number) == [made[1]]
    assert [each.at for each in made] == [START + at * SECOND for at in range(5)]


async def test_events_of_other_namespaces_and_sessions_are_not_listed(catalog: Everything) -> None:
    await log(
        catalog,
        event(1, namespace="other", artifact=7),
        event(2, session="t", artifact=7),
        event(3, session=None, artifact=7),
    )
    assert await listed(catalog) == []
    assert [each.session for each in await listed(catalog, session=None, artifact=7)] == [None, "t"]


async def test_events_go_with_their_artifact(catalog: Everything) -> None:
    found = [await catalog.commit(store(name, said=DeclaredMetadata(session="s"))) for name in (b"a", b"b")]
    kept, gone = [each.artifact.id for each in found if isinstance(each, IngestResult)]
    await log(catalog, event(1, artifact=ids.parse(kept)), event(2, artifact=ids.parse(gone)), event(3))
    until = START + DAY
    removed = DeleteArtifact(namespace="acme", number=ids.parse(gone), now=START, tombstone_until=until)
    assert await catalog.commit(removed) is True
    assert [each.artifact for each in await listed(catalog)] == [None, ids.parse(kept)]


async def test_events_go_with_their_session_and_their_namespace(catalog: Everything) -> None:
    await log(catalog, event(1), event(2, session="t"), event(3, namespace="other"))
    await catalog.commit(DeleteSession(namespace="acme", session="s", now=START, tombstone_until=START + DAY, limit=10))
    assert await listed(catalog) == []
    assert len(await listed(catalog, session="t")) == 1
    await catalog.commit(MarkNamespace(namespace="acme", deleting=True, now=START))
    await catalog.commit(DeleteNamespace(namespace="acme", now=START, tombstone_until=START + DAY, limit=10))
    assert await listed(catalog, session="t") == []
    assert len(await listed(catalog, namespace="other")) == 1


async def test_events_go_after_thirty_days_and_beyond_a_number(catalog: Everything) -> None:
    made = [event(at) for at in range(6)]
    await log(catalog, *made)
    assert await catalog.commit(PurgeRecords(now=START, limit=100, most_events=4)) == 2
    assert await listed(catalog) == made[:1:-1]
    assert await catalog.commit(PurgeRecords(now=START + 30 * DAY + 3 * SECOND, limit=1)) == 1
    assert await catalog.commit(PurgeRecords(now=START + 30 * DAY + 3 * SECOND, limit=100)) == 1
    assert await listed(catalog) == made[:3:-1]
