"""What is SQLite's own: groups, durability settings, a full disk, one server a directory."""
# pyright: reportPrivateUsage=false

import asyncio
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any, cast

import pytest
from msgspec.structs import replace
from sqlalchemy import Connection, event

from coatcheck.adapters.sql.engine import file_system_of, refuse_network_file_system, sqlite_url
from coatcheck.adapters.sql.schema import migrate
from coatcheck.adapters.sql.sqlite.store import SqliteCatalog
from coatcheck.adapters.sql.sqlite.writer import GroupWriter
from coatcheck.core import ids
from coatcheck.core.artifact import DeclaredMetadata, Gone
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.core.retention.audit import Hold
from coatcheck.ports.artifacts import DeleteArtifact, DeleteSession, IngestResult, PatchArtifact, StoreView, Touch
from coatcheck.ports.catalog import ArtifactFilter, FoundArtifact
from coatcheck.ports.decisions import PlaceHold, ReleaseHold
from coatcheck.ports.maintenance import (
    DeadBlob,
    ExpireArtifacts,
    ForgetBlobs,
    MarkBlobCorrupt,
    PurgeRecords,
    ReapUploads,
)
from contract.sample_changes import DAY, START, number_of, store, view
from support.refusals import code_of, expect


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "catalog.db"
    migrate(sqlite_url(path))
    return path


@pytest.fixture
def catalog(path: Path) -> Iterator[SqliteCatalog]:
    opened = SqliteCatalog.open(path, threads=2)
    yield opened
    opened.close()


def pragma(conn: Connection, name: str) -> object:
    return conn.exec_driver_sql(f"PRAGMA {name}").scalar()


async def test_the_writer_syncs_each_commit_and_is_the_only_one_who_checkpoints(catalog: SqliteCatalog) -> None:
    names = ("synchronous", "journal_mode", "foreign_keys", "secure_delete", "wal_autocheckpoint")
    assert [await catalog._writer.run(lambda conn, n=n: pragma(conn, n)) for n in names] == [2, "wal", 1, 1, 1000]
    names = ("query_only", "wal_autocheckpoint")
    assert [await catalog._readers.run(lambda conn, n=n: pragma(conn, n)) for n in names] == [1, 0]


class Gate:
    """Holds the writer thread, so that what is queued meanwhile becomes one group."""

    def __init__(self, catalog: SqliteCatalog) -> None:
        self.entered = threading.Event()
        self.go = threading.Event()
        self.held = asyncio.create_task(catalog._writer.run(self._hold))

    def _hold(self, _: Connection) -> None:
        self.entered.set()
        self.go.wait(10)

    async def is_held(self) -> None:
        await asyncio.get_running_loop().run_in_executor(None, self.entered.wait, 10)

    async def open(self) -> None:
        self.go.set()
        await self.held


def broken(conn: Connection) -> None:
    conn.exec_driver_sql("INSERT INTO uploads VALUES ('half', 'done', 'file', 0, 0)")
    raise ZeroDivisionError


async def test_one_bad_change_fails_alone_and_leaves_nothing(catalog: SqliteCatalog) -> None:
    gate = Gate(catalog)
    await gate.is_held()
    changes = [store(b"%d" % i) for i in range(6)]
    good = [asyncio.create_task(catalog.commit(change)) for change in changes]
    bad = asyncio.create_task(catalog._writer.run(broken))
    more = [asyncio.create_task(catalog.commit(store(b"more %d" % i))) for i in range(6)]
    await asyncio.sleep(0)
    await gate.open()
    with pytest.raises(ZeroDivisionError):
        await bad
    answers = await asyncio.gather(*good, *more)
    assert [isinstance(answer, IngestResult) and answer.created for answer in answers] == [True] * 12
    assert await catalog.find_known_blobs([("", "half")]) == set()
    for change in changes:
        assert isinstance(await catalog.find("acme", number_of(change), START), FoundArtifact)


async def test_a_cancelled_caller_breaks_no_group_and_its_change_is_whole(catalog: SqliteCatalog) -> None:
    gate = Gate(catalog)
    await gate.is_held()
    changes = [store(b"%d" % i) for i in range(4)]
    tasks = [asyncio.create_task(catalog.commit(change)) for change in changes]
    await asyncio.sleep(0)
    tasks[1].cancel()
    await gate.open()
    answers = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(answer) for answer in answers] == [IngestResult, asyncio.CancelledError, IngestResult, IngestResult]
    assert isinstance(await catalog.find("acme", number_of(changes[1]), START, with_bytes=True), FoundArtifact)


async def test_closing_commits_what_waits_and_refuses_what_comes_later(path: Path) -> None:
    catalog = SqliteCatalog.open(path)
    changes = [store(b"%d" % i) for i in range(300)]
    tasks = [asyncio.create_task(catalog.commit(change)) for change in changes]
    await asyncio.sleep(0)
    await asyncio.get_running_loop().run_in_executor(None, catalog.close)
    assert all(isinstance(answer, IngestResult) for answer in await asyncio.gather(*tasks))
    for call in (catalog.commit(store()), catalog.find("acme", 97, START)):
        assert await code_of(call) is Code.STORAGE_UNAVAILABLE
    reopened = SqliteCatalog.open(path)
    assert isinstance(await reopened.find("acme", number_of(changes[-1]), START), FoundArtifact)
    reopened.close()


class Disk:
    """A disk with room for so many pages: the limit holds for the writer's connection and each that replaces it."""

    def __init__(self, catalog: SqliteCatalog) -> None:
        self.pages = 1 << 30
        self._writer = expect(GroupWriter, catalog._writer)
        event.listen(self._writer._engine, "connect", self._limit)

    def _limit(self, raw: sqlite3.Connection, _record: object) -> None:
        raw.execute(f"PRAGMA max_page_count = {self.pages}").close()

    async def leave_room_for(self, spare: int) -> None:
        self.pages = spare + int(str(await self._writer.run(lambda conn: pragma(conn, "page_count"))))
        await self._writer.run(lambda conn: pragma(conn, f"max_page_count = {self.pages}"))


async def test_a_full_disk_is_said_so_loses_nothing_acknowledged_and_passes_without_a_restart(
    catalog: SqliteCatalog,
) -> None:
    disk = Disk(catalog)
    await disk.leave_room_for(20)
    payloads = [b"".join(b"%d %d\n" % (i * 7919, j * j) for j in range(4000)) for i in range(40)]
    changes = [store(payload) for payload in payloads]
    answers = await asyncio.gather(*map(catalog.commit, changes), return_exceptions=True)
    kept = [c for c, answer in zip(changes, answers, strict=True) if isinstance(answer, IngestResult)]
    lost = [c for c, answer in zip(changes, answers, strict=True) if not isinstance(answer, IngestResult)]
    assert {a.code for a in answers if isinstance(a, CoatcheckError)} == {Code.STORAGE_FULL}
    assert kept
    assert len(lost) > 10
    for change in kept:
        found = expect(FoundArtifact, await catalog.find("acme", number_of(change), START, with_bytes=True))
        assert found.inline == change.inline
    for change in lost:
        assert await catalog.find("acme", number_of(change), START) is None
    await disk.leave_room_for(10_000)
    await catalog.check_writes()
    assert isinstance(await catalog.commit(lost[0]), IngestResult)


async def test_a_catalogue_that_cannot_write_is_not_ready_until_a_write_succeeds(
    path: Path, catalog: SqliteCatalog
) -> None:
    await catalog.check_writes()
    other = sqlite3.connect(path, isolation_level=None)
    await catalog._writer.run(lambda conn: pragma(conn, "busy_timeout = 10"))
    other.execute("BEGIN IMMEDIATE")
    answers = await asyncio.gather(catalog.commit(store()), return_exceptions=True)
    assert [a.code for a in answers if isinstance(a, CoatcheckError)] == [Code.STORAGE_UNAVAILABLE]
    assert await code_of(catalog.check_writes()) is Code.STORAGE_UNAVAILABLE
    other.close()
    await catalog.check_writes()
    assert catalog._writer.fault is None


def sizes(path: Path) -> dict[str, int]:
    """Files beside the database; not its log and shared memory, which SQLite makes for itself even to read."""
    return {p.name: p.stat().st_size for p in path.parent.iterdir() if p.name[-4:] not in {"-shm", "-wal"}}


async def test_looking_reads_everything_writes_nothing_and_makes_no_store(path: Path, catalog: SqliteCatalog) -> None:
    change = store()
    await catalog.commit(change)
    for _ in ("beside a server", "alone"):
        files = sizes(path)
        looking = SqliteCatalog.look(path)
        await looking.check_reads()
        assert isinstance(await looking.find("acme", number_of(change), START), FoundArtifact)
        assert await code_of(looking.commit(store())) is Code.STORAGE_UNAVAILABLE
        assert (
            await code_of(looking.commit(StoreView(namespace="acme", number=number_of(change), now=START, new=view())))
            is Code.STORAGE_UNAVAILABLE
        )
        looking.close()
        assert sizes(path) == files
        catalog.close()
    absent = SqliteCatalog.look(path.parent / "none" / "absent.db")
    assert await code_of(absent.check_reads()) is Code.STORAGE_UNAVAILABLE
    absent.close()
    assert not (path.parent / "none").exists()


async def test_a_lock_that_stays_is_unavailable_for_the_whole_group_at_once(path: Path, catalog: SqliteCatalog) -> None:
    other = sqlite3.connect(path, isolation_level=None)
    await catalog._writer.run(lambda conn: pragma(conn, "busy_timeout = 50"))
    other.execute("BEGIN IMMEDIATE")
    answers = await asyncio.gather(*(catalog.commit(store(b"%d" % i)) for i in range(50)), return_exceptions=True)
    codes = {answer.code for answer in answers if isinstance(answer, CoatcheckError)}
    assert (codes, len(answers)) == ({Code.STORAGE_UNAVAILABLE}, 50)
    assert isinstance(await catalog.find("acme", 97, START), Gone | None)
    other.close()
    await catalog.check_writes()
    assert isinstance(await catalog.commit(store()), IngestResult)


SERVE = """
import sys
from pathlib import Path
from coatcheck.adapters.sql.sqlite.store import SqliteCatalog
SqliteCatalog.open(Path(sys.argv[1]))
print("serving", flush=True)
sys.stdin.read()
"""


def test_a_second_server_on_a_directory_is_refused_and_a_killed_one_leaves_it_free(path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", SERVE, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as server:
        assert server.stdout is not None
        assert server.stdout.readline() == b"serving\n"
        with pytest.raises(CoatcheckError) as caught:
            SqliteCatalog.open(path)
        assert caught.value.code is Code.STORAGE_UNAVAILABLE
        assert f"process {server.pid}" in caught.value.detail
        SqliteCatalog.look(path).close()
        server.kill()
        server.wait(10)
    SqliteCatalog.open(path).close()


MOUNTS = """\
21 1 254:0 / / rw,relatime - ext4 /dev/root rw
30 21 0:40 / /srv/share rw,relatime shared:5 - nfs4 server:/share rw
31 30 254:1 / /srv/share/local\\040disk rw - xfs /dev/sdb1 rw
32 21 0:41 / /mnt/remote rw - fuse.sshfs me@host:/ rw
33 21 0:42 / /data rw - ext4 /dev/sdc1 rw
34 21 0:43 / /data rw master:1 propagate_from:2 - cifs //server/data rw
broken line
"""


@pytest.mark.parametrize(
    ("where", "kind"),
    [
        ("/var/lib/coatcheck", "ext4"),
        ("/srv/share/x", "nfs4"),
        ("/srv/shared", "ext4"),
        ("/srv/share/local disk/x", "xfs"),
        ("/mnt/remote", "fuse.sshfs"),
        ("/data/x", "cifs"),
    ],
)
def test_the_file_system_of_a_path_is_that_of_its_nearest_last_mount(where: str, kind: str) -> None:
    assert file_system_of(Path(where), MOUNTS) == kind


def test_a_network_file_system_is_refused_and_a_local_one_is_not() -> None:
    for local in ("/var/lib", "/srv/share/local disk"):
        refuse_network_file_system(Path(local), MOUNTS)
    for remote in ("/srv/share", "/mnt/remote", "/data"):
        with pytest.raises(CoatcheckError) as caught:
            refuse_network_file_system(Path(remote), MOUNTS)
        assert caught.value.code is Code.STORAGE_UNAVAILABLE


def crowded(identity: bytes, probe: int) -> int:
    """Every identity wants one of two numbers first, and has the others to itself."""
    return ids.check_digits(identity[0] % 2 if probe == 0 else 2 + int.from_bytes(identity[:6]) * 4 + probe)


async def test_colliding_identities_get_numbers_of_their_own_and_keep_them(path: Path) -> None:
    catalog = SqliteCatalog.open(path, number=crowded)
    changes = [store(b"%d" % i, said=DeclaredMetadata(tool_call_id=str(i))) for i in range(12)]

    async def stored_ids() -> list[str]:
        answers = [await catalog.commit(change) for change in changes]
        return [answer.artifact.id for answer in answers if isinstance(answer, IngestResult)]

    first = await stored_ids()
    assert len(set(first)) == 12
    holder = ids.parse(first[0])
    delete = DeleteArtifact(namespace="acme", number=holder, now=START, tombstone_until=START + DAY)
    assert await catalog.commit(delete) is True
    assert await catalog.commit(PurgeRecords(now=START + 2 * DAY, limit=9)) == 1
    # The first number is free again, and the others must not move to it.
    changes = changes[1:]
    assert await stored_ids() == first[1:]
    page = await catalog.list_artifacts("acme", ArtifactFilter(), START, before=None, limit=20)
    assert len(page.artifacts) == 11
    catalog.close()


async def test_a_tombstone_keeps_its_number_from_other_identities(path: Path) -> None:
    catalog = SqliteCatalog.open(path, number=crowded)
    twins = [store(b"%d" % i, said=DeclaredMetadata(tool_call_id=str(i))) for i in range(40)]
    parity = twins[0].identity[0] % 2
    first, second = [change for change in twins if change.identity[0] % 2 == parity][:2]
    before = expect(IngestResult, await catalog.commit(first))
    number = ids.parse(before.artifact.id)
    delete = DeleteArtifact(namespace="acme", number=number, now=START, tombstone_until=START + DAY)
    await catalog.commit(delete)
    other = expect(IngestResult, await catalog.commit(second))
    assert other.artifact.id != before.artifact.id
    assert isinstance(await catalog.find("acme", number, START + timedelta(hours=1)), Gone)
    again = expect(IngestResult, await catalog.commit(store(b"%d" % twins.index(first), said=first.declared)))
    assert again.artifact.id == before.artifact.id
    catalog.close()


async def test_no_statement_scans_a_table_that_grows(path: Path) -> None:
    catalog = SqliteCatalog.open(path, threads=1)  # one reader, so that its connection sees every read
    try:
        await _explain_everything(catalog)
    finally:
        catalog.close()


async def _explain_everything(catalog: SqliteCatalog) -> None:
    seen: set[str] = set()

    def watch(conn: Connection) -> None:
        cast("sqlite3.Connection", conn.connection.driver_connection).set_trace_callback(seen.add)

    await catalog._writer.run(watch)
    await catalog._readers.run(watch)
    change = store(said=DeclaredMetadata(session="s", labels=("x",)), ttl=60, idle_ttl=60)
    number, later = number_of(change), START + timedelta(seconds=30)
    await catalog.commit(change)
    await catalog.commit(change)
    new = view()
    assert new.blob is not None
    keep = StoreView(namespace="acme", number=number, now=START, new=new)
    for _ in range(2):
        await catalog.commit(keep)
    await catalog.commit(MarkBlobCorrupt(namespace="acme", blob_id=new.blob.id, now=START))
    await catalog.commit(replace(keep, new=view()))
    viewed = [store(b"%d" % i, text_view=view(b"%d\n" % i), ttl=60) for i in range(3)]
    for _ in range(2):
        await asyncio.gather(*map(catalog.commit, viewed))
    await catalog.find("acme", number, START, with_bytes=True, with_view=True)
    await catalog.commit(PatchArtifact(namespace="acme", number=number, now=START, ttl=90))
    await catalog.commit(Touch(reads=(("acme", number, later),)))
    await catalog.find("acme", number, START, with_bytes=True)
    await catalog.inline_bytes("acme", change.blob.id)
    await catalog.find_key("acme", "k", START)
    await catalog.list_artifacts("acme", ArtifactFilter(session="s", label="x"), START, before=9, limit=9)
    await catalog.list_artifacts("acme", ArtifactFilter(), START, before=None, limit=9)
    ends: dict[str, Any] = {"now": START + DAY, "tombstone_until": START + 2 * DAY, "limit": 9}
    await catalog.commit(DeleteSession(namespace="acme", session="s", **ends))
    await catalog.commit(change)
    await catalog.commit(ExpireArtifacts(**ends))
    await catalog.commit(ReapUploads(now=START, limit=9))
    await catalog.commit(PurgeRecords(now=START, limit=9))
    await catalog.commit(ForgetBlobs(blobs=(("acme", change.blob.id),)))
    await catalog.dead_blobs(START + DAY, 9)
    await catalog.dead_blobs(START + DAY, 9, DeadBlob("acme", change.blob.id, "inline", START))
    await catalog.same_bytes("acme", change.blob.sha256, change.blob.size)
    await catalog.commit(MarkBlobCorrupt(namespace="acme", blob_id=change.blob.id, now=START))
    await catalog.find_known_blobs([("acme", change.blob.id)])
    assert [pair async for pair in catalog.all_blobs()] == []
    queries = [sql for sql in seen if sql.startswith(("SELECT", "INSERT", "UPDATE", "DELETE"))]
    assert len(queries) > 25

    def plans(conn: Connection) -> list[tuple[str, str]]:
        raw = cast("sqlite3.Connection", conn.connection.driver_connection)
        return [(row[3], sql) for sql in queries for row in raw.execute(f"EXPLAIN QUERY PLAN {sql}").fetchall()]

    steps = await catalog._writer.run(plans)
    grow = {"artifacts", "views", "blobs", "inline_bytes", "tombstones", "uploads", "idempotency_keys"}
    scans = [(step, sql) for step, sql in steps if step.startswith("SCAN") and step.split()[1] in grow]
    # A scan along an index in its order, ended by a limit, is a look-up of the oldest.
    assert [(step, sql) for step, sql in scans if "USING" not in step] == []
    # A sort of what was asked for one by one is no longer than the question.
    sorts = [sql for step, sql in steps if "TEMP B-TREE FOR ORDER BY" in step]
    assert [sql for sql in sorts if "json_each" not in sql] == []


async def test_a_hold_that_an_earlier_release_let_end_after_the_year_9999_is_listed_and_released(
    catalog: SqliteCatalog,
) -> None:
    end = datetime(9999, 12, 31, 23, 59, 59, tzinfo=timezone(timedelta(hours=-5)))
    hold = Hold(
        id="hold_00ff12ab34cd56ef",
        namespace="acme",
        session=None,
        number=None,
        reason="case 7",
        made_by="tester",
        at=START,
        until=end,
    )
    assert await catalog.commit(PlaceHold(hold=hold)) is True
    shown = replace(hold, until=datetime.max.replace(tzinfo=UTC))
    assert await catalog.holds("acme") == [shown]
    assert await catalog.covering_holds("acme", {1: None}, START) == {1: [shown]}
    assert await catalog.commit(ReleaseHold(id=hold.id, namespace="acme", now=START)) == shown
    assert await catalog.holds("acme") == []
