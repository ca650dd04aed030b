"""What is PostgreSQL's own about changes: groups, commits without an answer, races of replicas, cancelled callers."""
# pyright: reportPrivateUsage=false

import asyncio
import random
from collections.abc import AsyncIterator
from typing import Any

import pytest
from sqlalchemy import Connection, text
from sqlalchemy.exc import DBAPIError

from coatcheck.adapters.sql.postgres import PostgresCatalog
from coatcheck.adapters.sql.postgres_connection import PostgresLimits
from coatcheck.core.artifact import DeclaredMetadata
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.ports.artifacts import DeleteArtifact, IdempotencyKey, IngestResult, PatchArtifact, StoreArtifact
from coatcheck.ports.blobs import BeginUpload
from coatcheck.ports.catalog import ArtifactFilter, FoundArtifact
from contract.sample_changes import DAY, START, number_of, store
from support.catalogs import open_replicas
from support.namespace_call import run_in
from support.postgres import connect
from support.postgres_proxy import Break, Proxy, proxied
from support.refusals import code_of, expect

QUICK = PostgresLimits(connections=2, connect=1.0, statement=1.0, lock=0.2, answer=4.0)


@pytest.fixture
async def catalog(url: str) -> AsyncIterator[PostgresCatalog]:
    opened = await PostgresCatalog.open(url, limits=QUICK)
    yield opened
    await opened.close()


@pytest.fixture
async def breaking(url: str) -> AsyncIterator[tuple[PostgresCatalog, Proxy]]:
    async with proxied(url) as (through, proxy):
        opened = await PostgresCatalog.open(through, limits=QUICK)
        yield opened, proxy
        await opened.close()


def broken(conn: Connection) -> None:
    conn.execute(text("INSERT INTO uploads VALUES ('half', 'acme', 'file', now(), 0)"))
    raise ZeroDivisionError


async def test_one_bad_change_fails_alone_and_leaves_nothing(catalog: PostgresCatalog) -> None:
    changes = [store(b"%d" % i) for i in range(12)]
    answers = await asyncio.gather(
        *map(catalog.commit, changes[:6]),
        run_in(catalog, "acme", broken),
        *map(catalog.commit, changes[6:]),
        return_exceptions=True,
    )
    assert [type(answer) for answer in answers] == [IngestResult] * 6 + [ZeroDivisionError] + [IngestResult] * 6
    assert await catalog.find_known_blobs([("", "half")]) == set()
    page = await catalog.list_artifacts("acme", ArtifactFilter(), START, before=None, limit=20)
    assert len(page.artifacts) == 12


async def test_a_row_that_somebody_keeps_locked_is_unavailable_and_its_neighbours_are_stored(
    url: str, catalog: PostgresCatalog
) -> None:
    held = store(b"held")
    await catalog.commit(held)
    other = await connect(url)
    async with other.transaction():
        await other.execute("SET LOCAL coatcheck.upkeep = 'on'")
        await other.execute("SELECT * FROM artifacts FOR UPDATE")
        patch = PatchArtifact(namespace="acme", number=number_of(held), now=START, ttl=9)
        answers = await asyncio.gather(
            catalog.commit(patch),
            *(catalog.commit(store(b"%d" % i)) for i in range(9)),
            return_exceptions=True,
        )
    await other.close()
    assert isinstance(answers[0], CoatcheckError)
    assert answers[0].code is Code.STORAGE_UNAVAILABLE
    assert [type(answer) for answer in answers[1:]] == [IngestResult] * 9


@pytest.mark.parametrize(
    ("state", "code"),
    [
        ("53100", Code.STORAGE_FULL),
        ("53300", Code.STORAGE_UNAVAILABLE),
        ("57014", Code.STORAGE_UNAVAILABLE),
        ("55P03", Code.STORAGE_UNAVAILABLE),
        ("40001", Code.STORAGE_UNAVAILABLE),
        ("40P01", Code.STORAGE_UNAVAILABLE),
        ("58030", Code.STORAGE_UNAVAILABLE),
        ("25006", Code.STORAGE_UNAVAILABLE),
        ("XX001", Code.INTEGRITY),
        ("22012", None),
        ("42501", Code.STORAGE_UNAVAILABLE),
        ("23505", None),
    ],
)
async def test_what_the_server_says_is_a_fault_of_storage_or_a_bug(
    catalog: PostgresCatalog, state: str, code: Code | None
) -> None:
    said = text(f"DO $$ BEGIN RAISE EXCEPTION 'as asked' USING ERRCODE = '{state}'; END $$")

    def fails(conn: Connection) -> None:
        conn.execute(said)

    with pytest.raises(DBAPIError if code is None else CoatcheckError) as caught:
        await run_in(catalog, "acme", fails)
    assert getattr(caught.value, "code", None) is code or code is None
    assert isinstance(await catalog.commit(store()), IngestResult)
    await catalog.check_writes()


async def with_intent(catalog: PostgresCatalog, content: bytes, said: DeclaredMetadata | None = None) -> StoreArtifact:
    change = store(content, placement="file", said=said)
    lease = START + DAY
    await catalog.commit(BeginUpload(namespace="acme", blob_id=change.blob.id, placement="file", lease_until=lease))
    return change


@pytest.mark.parametrize("where", [Break.BEFORE_COMMIT, Break.BEFORE_ANSWER])
async def test_a_commit_whose_answer_is_lost_is_found_out_and_made_once(
    breaking: tuple[PostgresCatalog, Proxy], where: Break
) -> None:
    catalog, proxy = breaking
    file = await with_intent(catalog, b"file")
    key = IdempotencyKey(key="k", fingerprint=b"f", expires_at=START + DAY)
    changes = [file, store(b"inline"), store(b"keyed", key=key)]
    before = proxy.commits
    proxy.next = where
    answers = await asyncio.gather(*map(catalog.commit, changes))
    assert [
        (type(answer), answer.created, answer.blob_used) for answer in answers if isinstance(answer, IngestResult)
    ] == [(IngestResult, True, True)] * 3
    assert proxy.commits - before == (2 if where is Break.BEFORE_COMMIT else 1)
    for change in changes:
        found = expect(FoundArtifact, await catalog.find("acme", number_of(change), START, with_bytes=True))
        assert (found.artifact.blob, found.inline) == (change.blob, change.inline)
    assert await catalog.dead_blobs(START + DAY, 9) == []


@pytest.mark.parametrize("where", [Break.BEFORE_COMMIT, Break.BEFORE_ANSWER])
async def test_a_commit_that_nobody_can_be_asked_about_is_no_success_and_may_be_repeated(
    breaking: tuple[PostgresCatalog, Proxy], where: Break
) -> None:
    catalog, proxy = breaking
    said = DeclaredMetadata(tool_call_id="c")
    first = await with_intent(catalog, b"file", said)
    proxy.next, proxy.stays_away = where, True
    assert await code_of(catalog.commit(first)) is Code.STORAGE_UNAVAILABLE
    proxy.refuses = False
    committed = where is Break.BEFORE_ANSWER
    # The bytes belong to the artifact, or to an intent that the reaper will find: never to nobody.
    assert isinstance(await catalog.find("acme", number_of(first), START), FoundArtifact) == committed
    assert await catalog.find_known_blobs([("acme", first.blob.id)]) == {("acme", first.blob.id)}
    again = expect(IngestResult, await catalog.commit(await with_intent(catalog, b"file", said)))
    assert (again.created, again.blob_used) == (not committed, not committed)
    await catalog.check_writes()


async def test_replicas_that_store_the_same_at_once_make_one_artifact_and_no_error(url: str) -> None:
    async with open_replicas(url, 3, connections=1) as replicas:
        rng = random.Random(5)
        for turn in range(8):
            said = [DeclaredMetadata(tool_call_id=f"{turn}-{i}") for i in range(20)]
            calls = [
                replica.commit(store(b"%d" % i, said=one))
                for replica in replicas
                for i, one in sorted(enumerate(said), key=lambda _: rng.random())
            ]
            answers = await asyncio.gather(*calls)
            assert {type(answer) for answer in answers} == {IngestResult}
            created = [a.artifact.declared.tool_call_id for a in answers if isinstance(a, IngestResult) and a.created]
            assert sorted(created, key=str) == sorted((s.tool_call_id for s in said), key=str)


async def test_replicas_that_use_one_idempotency_key_at_once_answer_one_request(url: str) -> None:
    async with open_replicas(url, 3, connections=1) as replicas:
        key = IdempotencyKey(key="k", fingerprint=b"f", expires_at=START + DAY)
        calls = [replica.commit(store(said=DeclaredMetadata(tool_call_id="c"), key=key)) for replica in replicas]
        answers = await asyncio.gather(*calls)
        assert {(type(a), a.created) for a in answers if isinstance(a, IngestResult)} == {(IngestResult, True)}
        assert sum(a.blob_used for a in answers if isinstance(a, IngestResult)) == 1


async def test_replicas_that_delete_the_same_in_opposite_orders_wait_for_no_one_for_ever(url: str) -> None:
    async with open_replicas(url, 2, connections=1) as replicas:
        changes = [store(b"%d" % i) for i in range(30)]
        await asyncio.gather(*map(replicas[0].commit, changes))
        deletes = [
            DeleteArtifact(namespace="acme", number=number_of(c), now=START, tombstone_until=START + DAY)
            for c in changes
        ]
        calls = [replicas[0].commit(d) for d in deletes] + [replicas[1].commit(d) for d in deletes[::-1]]
        answers = await asyncio.gather(*calls)
        assert sum(answer is True for answer in answers) == 30


async def states(url: str) -> list[str]:
    """What the connections of the catalogue are doing; one that is only opening or closing has no state."""
    conn = await connect(url)
    rows = await conn.fetch(
        "SELECT state FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
        " AND backend_type = 'client backend' AND state IS NOT NULL"
    )
    await conn.close()
    return [row[0] for row in rows]


async def test_cancelled_callers_leave_no_transaction_open_and_hurt_no_neighbour(
    url: str, catalog: PostgresCatalog
) -> None:
    rng = random.Random(11)
    kept = [store(b"kept %d" % i) for i in range(40)]
    for at in range(0, 40, 4):
        stores = [asyncio.create_task(catalog.commit(change)) for change in kept[at : at + 4]]
        doomed: list[asyncio.Task[Any]] = [
            asyncio.create_task(catalog.commit(store(b"doomed %d" % i))) for i in range(8)
        ]
        doomed += [asyncio.create_task(catalog.find("acme", number_of(kept[0]), START)) for _ in range(8)]
        for task in rng.sample(doomed, 12):
            for _ in range(rng.randrange(6)):
                await asyncio.sleep(0)
            task.cancel()
        answers = await asyncio.gather(*stores)
        assert [type(answer) for answer in answers] == [IngestResult] * 4
        await asyncio.gather(*doomed, return_exceptions=True)
    await catalog.check_writes()
    assert set(await states(url)) == {"idle"}
    assert len(await states(url)) <= QUICK.connections + 1


async def test_a_cancelled_change_that_waits_for_a_lock_is_made_when_it_gets_it(
    url: str, catalog: PostgresCatalog
) -> None:
    held = store(b"held")
    await catalog.commit(held)
    other = await connect(url)
    transaction = other.transaction()
    await transaction.start()
    await other.execute("SET LOCAL coatcheck.upkeep = 'on'")
    await other.execute("SELECT * FROM artifacts FOR UPDATE")
    patch = PatchArtifact(namespace="acme", number=number_of(held), now=START, labels=("late",))
    waiting: asyncio.Task[Any] = asyncio.create_task(catalog.commit(patch))
    while not await other.fetchval("SELECT count(*) FROM pg_locks WHERE NOT granted"):  # noqa: ASYNC110 - the server's
        await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    assert waiting.cancelled()
    await transaction.commit()
    await other.close()
    await catalog._writer.run(lambda _: None)
    found = expect(FoundArtifact, await catalog.find("acme", number_of(held), START))
    assert found.artifact.declared.labels == ("late",)
    assert set(await states(url)) == {"idle"}


async def test_closing_commits_what_waits_and_refuses_what_comes_later(url: str) -> None:
    catalog = await PostgresCatalog.open(url)
    changes = [store(b"%d" % i) for i in range(300)]
    tasks = [asyncio.create_task(catalog.commit(change)) for change in changes]
    await asyncio.sleep(0)
    await catalog.close()
    assert all(isinstance(answer, IngestResult) for answer in await asyncio.gather(*tasks))
    for call in (catalog.commit(store()), catalog.find("acme", 97, START)):
        assert await code_of(call) is Code.STORAGE_UNAVAILABLE
    assert await states(url) == []


async def test_looking_reads_everything_and_writes_nothing(url: str, catalog: PostgresCatalog) -> None:
    change = store()
    await catalog.commit(change)
    looking = await PostgresCatalog.look(url)
    await looking.check_reads()
    assert isinstance(await looking.find("acme", number_of(change), START), FoundArtifact)
    assert await code_of(looking.commit(store())) is Code.STORAGE_UNAVAILABLE
    assert (
        await code_of(looking.ask(None, lambda conn: conn.execute(text("DELETE FROM artifacts"))))
        is Code.STORAGE_UNAVAILABLE
    )
    await looking.close()
