"""The audit: what it finds, what it puts right when told to, and what it never touches."""

import os
import sqlite3
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from coatcheck.adapters.blobs.writer import ExposureExamination
from coatcheck.adapters.sql.sqlite.damage import SqliteExamination, can_corrupt
from coatcheck.adapters.sql.sqlite.store import SqliteCatalog
from coatcheck.core import ids
from coatcheck.core.artifact import Blob
from coatcheck.core.encoding.frames import new_blob_id
from coatcheck.core.findings import EngineReport, Finding
from coatcheck.ports.artifacts import StoredView, StoreView
from coatcheck.ports.blobs import BeginUpload
from coatcheck.storing.content import OpenContent
from coatcheck.usecases.operations.verify_store import ORPHAN_AGE, StoreVerification, VerifyStore
from contract.sample_changes import view
from support.clock import INSTANT, START
from support.harness import CALLER, GRACE, LEASE, Harness
from support.samples import lines, noise


def examined(harness: Harness, *, repairs: SqliteCatalog | None = None) -> VerifyStore:
    """The audit as the command line composes it."""
    examinations = (SqliteExamination(harness.root / "coatcheck.db"), ExposureExamination(harness.root))
    return VerifyStore(
        harness.catalog, harness.blobs, harness.opened(), harness.clock, examinations=examinations, repairs=repairs
    )


async def write(harness: Harness, sql: str) -> None:
    """Change rows as nothing in the service does."""
    await harness.catalog._writer.run(lambda conn: conn.exec_driver_sql(sql))  # type: ignore[attr-defined] # pyright: ignore[reportPrivateUsage]


async def _open_upload(harness: Harness, seed: int) -> None:
    """A writer that began and died: an intent, and a file that was half written."""
    blob_id = new_blob_id(harness.clock.now(), noise(10, seed))
    await harness.catalog.commit(
        BeginUpload(namespace="default", blob_id=blob_id, placement="file", lease_until=harness.clock.now() + LEASE)
    )
    writer = await harness.blobs.create("default", blob_id)
    await writer.write(b"half")
    await writer.finish()


async def test_an_audit_goes_on_past_what_the_disk_will_not_give(harness: Harness) -> None:
    for n in range(2):
        await harness.put(noise(50_000, seed=n))
    path, _ = harness.stored_files()
    path.unlink()
    path.mkdir()
    (path / "x").touch()
    audited = await harness.audit()()
    path.joinpath("x").unlink()
    assert [f.blob_id for f in audited.findings] == [path.name]
    assert (audited.blobs, audited.clean) == (2, False)


def _damage(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)


async def test_the_audit_of_a_clean_store_finds_nothing_and_changes_nothing(harness: Harness) -> None:
    for n in range(3):
        await harness.put(noise(300_000, seed=n))
        await harness.put(lines(5_000, seed=n))
    await harness.put(b"")
    await harness.forget(CALLER, ids.parse((await harness.put(noise(50_000))).id))
    await _open_upload(harness, 1)
    for digests in (True, False):
        audited = await harness.audit()(digests=digests, apply=True, orphan_age=timedelta(0))
        assert audited == StoreVerification(blobs=7, content=915_000, stored=5, findings=(), removed=0, condemned=0)
        assert audited.clean
    assert len(harness.stored_files()) == 5


async def test_bytes_that_no_row_knows_are_an_orphan_once_they_are_old_and_removed_only_when_told(
    harness: Harness,
) -> None:
    receipt = await harness.put(noise(50_000))
    (known,) = harness.stored_files()
    orphan = new_blob_id(START, noise(10))
    writer = await harness.blobs.create("default", orphan)
    await writer.write(b"lost")
    await writer.finish()
    path = next(p for p in harness.stored_files() if p.name == orphan)
    edge = (START - ORPHAN_AGE).timestamp()
    for old in (known, path):
        os.utime(old, (edge + 1, edge + 1))
    clean = StoreVerification(blobs=1, content=50_000, stored=2, findings=(), removed=0, condemned=0)
    assert await harness.audit()(apply=True) == clean
    harness.clock.forward(timedelta(seconds=1))
    told = await harness.audit()()
    assert told == StoreVerification(
        blobs=1,
        content=50_000,
        stored=2,
        findings=(Finding("orphan", "", orphan, "4 bytes that no row refers to."),),
        removed=0,
        condemned=0,
    )
    assert told.clean, "it costs space, not data"
    removed = await harness.audit()(apply=True)
    assert (removed.removed, [f.blob_id for f in removed.findings]) == (1, [orphan])
    assert harness.stored_files() == [known]
    assert await harness.audit()(apply=True) == StoreVerification(
        blobs=1, content=50_000, stored=1, findings=(), removed=0, condemned=0
    )
    assert await harness.content(receipt.id) == noise(50_000)


async def test_missing_cut_and_flipped_bytes_are_each_found_and_nothing_else_is_touched(
    harness: Harness,
) -> None:
    receipts = [await harness.put(noise(300_000, seed=n)) for n in range(5)]
    blobs = [(await harness.find(CALLER, ids.parse(r.id))).artifact.blob.id for r in receipts]
    paths = {p.name: p for p in harness.stored_files()}
    paths[blobs[0]].unlink()
    with paths[blobs[1]].open("r+b") as cut:
        cut.truncate(200_000)
    _damage(paths[blobs[2]], 150_000)
    before = {p: p.read_bytes() for p in harness.stored_files()}
    audited = await harness.audit()(apply=True, orphan_age=timedelta(0))
    assert {(f.what, f.blob_id) for f in audited.findings} == {
        ("missing", blobs[0]),
        ("corrupt", blobs[1]),
        ("corrupt", blobs[2]),
    }
    assert (audited.blobs, audited.stored, audited.removed, audited.clean) == (5, 4, 0, False)
    assert {p: p.read_bytes() for p in harness.stored_files()} == before
    names_only = await harness.audit()(digests=False)
    assert [(f.what, f.blob_id) for f in names_only.findings] == [("missing", blobs[0]), ("corrupt", blobs[1])]
    for receipt, n in zip(receipts[3:], (3, 4), strict=True):
        assert await harness.content(receipt.id) == noise(300_000, seed=n)


async def test_a_flipped_bit_is_found_in_whichever_frame_it_lies(harness: Harness) -> None:
    await harness.put(lines(200_000), settings={"inline_bytes": 0})
    (path,) = harness.stored_files()
    whole = path.read_bytes()
    content_end = len(whole) - 8 - 9 - 12 * 2
    for at in range(0, content_end, content_end // 40):
        _damage(path, at)
        audited = await harness.audit()()
        assert [f.what for f in audited.findings] == ["corrupt"], at
        path.write_bytes(whole)
    assert (await harness.audit()()).clean


async def test_what_is_damaged_is_marked_when_told_and_healed_by_the_next_post(harness: Harness) -> None:
    receipts = [await harness.put(noise(300_000, seed=n)) for n in range(3)]
    small = await harness.put(b"small\n")
    blobs = [(await harness.find(CALLER, ids.parse(r.id))).artifact.blob.id for r in (*receipts, small)]
    paths = {p.name: p for p in harness.stored_files()}
    paths[blobs[0]].unlink()
    _damage(paths[blobs[1]], 150_000)
    await write(harness, "DELETE FROM inline_bytes")
    told = await examined(harness, repairs=harness.catalog)()
    assert [(f.what, f.blob_id, f.repaired) for f in told.findings] == [
        ("missing", blobs[0], False),
        ("corrupt", blobs[1], False),
        ("missing", blobs[3], False),
    ]
    assert (told.condemned, harness.count("blobs", "condemned_at IS NOT NULL")) == (0, 0)
    without = await examined(harness)(apply=True)
    assert (without.condemned, harness.count("blobs", "condemned_at IS NOT NULL")) == (0, 0)
    marked = await examined(harness, repairs=harness.catalog)(apply=True)
    assert [(f.blob_id, f.repaired) for f in marked.findings] == [(blobs[n], True) for n in (0, 1, 3)]
    assert (marked.condemned, marked.clean) == (3, False)
    again = await examined(harness, repairs=harness.catalog)(apply=True)
    assert [(f.what, f.blob_id, f.repaired) for f in again.findings] == [("lost", blobs[n], False) for n in (0, 1, 3)]
    for n in range(2):
        await harness.put(noise(300_000, seed=n))
    await harness.put(b"small\n")
    assert await examined(harness)() == StoreVerification(
        blobs=4, content=900_006, stored=4, findings=(), removed=0, condemned=0, notes=again.notes
    )
    for n, receipt in enumerate(receipts):
        assert await harness.content(receipt.id) == noise(300_000, seed=n)


class Swept(OpenContent):
    """Deletes and sweeps what is looked at, before it is looked at."""

    def __init__(self, harness: Harness, artifact_ids: dict[str, str], *, forget: bool) -> None:
        super().__init__(harness.catalog, harness.blobs, harness.pool)
        self._house = harness
        self._artifacts = artifact_ids
        self._forget = forget

    async def find_stored_size(self, namespace: str, blob: Blob) -> int | None:
        await self._house.forget(CALLER, ids.parse(self._artifacts[blob.id]))
        if self._forget:
            self._house.clock.forward(GRACE + INSTANT)
            await self._house.tidy()()
        else:
            await self._house.blobs.remove(namespace, blob.id)  # a sweep between its two steps
        return await super().find_stored_size(namespace, blob)


@pytest.mark.parametrize("forget", [True, False], ids=["swept whole", "row not forgotten yet"])
async def test_what_is_deleted_and_swept_during_the_audit_is_no_finding(harness: Harness, forget: bool) -> None:
    receipts = [await harness.put(noise(50_000, seed=n)) for n in range(3)]
    names = {(await harness.find(CALLER, ids.parse(r.id))).artifact.blob.id: r.id for r in receipts}
    audit = VerifyStore(
        harness.catalog, harness.blobs, Swept(harness, names, forget=forget), harness.clock, repairs=harness.catalog
    )
    audited = await audit(apply=True)
    assert (audited.findings, audited.clean) == ((), True)
    assert harness.stored_files() == []


async def test_rows_that_contradict_each_other_are_found_and_what_only_costs_space_is_put_right(
    harness: Harness,
) -> None:
    kept = await harness.put(noise(50_000))
    unused, small, hollow = (
        await harness.put(noise(50_000, seed=2)),
        await harness.put(b"a\n"),
        await harness.put(b"b\n"),
    )
    blob = {r.id: (await harness.find(CALLER, ids.parse(r.id))).artifact.blob.id for r in (unused, hollow)}
    await write(harness, f"DELETE FROM artifacts WHERE number = {unused.id[4:]}")  # noqa: S608 - our own number
    await write(harness, f"UPDATE blobs SET dead_at = 1, placement = 'file' WHERE id = '{blob[hollow.id]}'")  # noqa: S608
    audit = SqliteExamination(harness.root / "coatcheck.db")
    found = (
        Finding("stray", "", "", "1 rows of stored bytes belong to no blob."),
        Finding("unreferenced", "default", blob[unused.id], "No artifact and no view uses this live blob."),
        Finding("dangling", "default", "", f"Artifact {hollow.id} points at a blob that is dead."),
    )
    findings = (await audit(deep=True, repair=None)).findings
    assert findings[:-1] == found
    assert findings[-1].what == "usage"  # what was done behind the catalogue's back was not counted
    repaired = (await audit(deep=False, repair=START)).findings
    assert [(f.what, f.repaired) for f in repaired] == [
        ("stray", True),
        ("unreferenced", True),
        ("dangling", False),
        ("usage", True),
    ]
    assert (await audit(deep=True, repair=None)).findings == found[2:]
    await write(harness, f"DELETE FROM artifacts WHERE number = {hollow.id[4:]}")  # noqa: S608 - our own number
    harness.clock.forward(GRACE + INSTANT)
    await harness.tidy()()
    assert [f.what for f in (await audit(deep=True, repair=START)).findings] == ["usage"]
    assert (await audit(deep=True, repair=None)).findings == ()
    assert (len(harness.stored_files()), harness.count("blobs")) == (1, 2)
    assert await harness.content(kept.id) == noise(50_000)
    assert await harness.content(small.id) == b"a\n"


async def keep_text(harness: Harness, artifact_id: str, text: bytes) -> str:
    """Keep a text view of an artifact; answers its blob's ID."""
    new = view(text)
    change = StoreView(namespace="default", number=ids.parse(artifact_id), now=harness.clock.now(), new=new)
    answer = await harness.catalog.commit(change)
    assert isinstance(answer, StoredView)
    assert answer.view.blob is not None
    return answer.view.blob.id


async def test_views_that_contradict_the_rows_around_them_are_found_and_those_of_no_artifact_are_removed(
    harness: Harness,
) -> None:
    whole, torn, left = [await harness.put(b"<p>%d" % n) for n in range(3)]
    texts = [await keep_text(harness, r.id, b"%d\n" % n) for n, r in enumerate((whole, torn, left))]
    page = (await harness.find(CALLER, ids.parse(left.id))).artifact.blob.id
    audit = SqliteExamination(harness.root / "coatcheck.db")
    assert (await audit(deep=True, repair=None)).findings == ()
    await write(harness, "INSERT INTO surveys SELECT seq, namespace, x'00' FROM artifacts")
    await write(harness, f"UPDATE blobs SET dead_at = 1 WHERE id = '{texts[1]}'")  # noqa: S608 - our own names
    with sqlite3.connect(harness.root / "coatcheck.db") as conn:  # without foreign keys, which refuse this
        conn.execute("DELETE FROM artifacts WHERE number = ?", (left.id[4:],))
    conn.close()
    found = (
        Finding("stray", "", "", "1 views belong to no artifact."),
        Finding("stray", "", "", "1 surveys belong to no artifact."),
        Finding("unreferenced", "default", page, "No artifact and no view uses this live blob."),
        Finding("dangling", "default", "", f"The text view of {torn.id} points at a blob that is dead."),
    )
    findings = (await audit(deep=True, repair=None)).findings
    assert (findings[:-1], findings[-1].what) == (found, "usage")
    repaired = (await audit(deep=False, repair=START)).findings
    assert [(f.what, f.repaired) for f in repaired] == [
        ("stray", True),
        ("stray", True),
        ("unreferenced", True),
        ("dangling", False),
        ("usage", True),
    ]
    assert (await audit(deep=True, repair=None)).findings == found[3:]
    assert (harness.count("views"), harness.count("surveys")) == (2, 2)
    assert harness.count("blobs", f"dead_at IS NOT NULL AND id IN ('{texts[2]}', '{page}')") == 2


async def test_the_bytes_of_views_are_compared_with_their_digests_and_marked_as_lost_as_payloads_are(
    harness: Harness,
) -> None:
    page = await harness.put(b"<p>page")
    text = await keep_text(harness, page.id, b"page\n")
    assert (await examined(harness)()).blobs == 2
    await write(harness, f"DELETE FROM inline_bytes WHERE blob_seq = (SELECT seq FROM blobs WHERE id = '{text}')")  # noqa: S608
    marked = await examined(harness, repairs=harness.catalog)(apply=True)
    assert [(f.what, f.blob_id, f.repaired) for f in marked.findings] == [("missing", text, True)]
    assert await keep_text(harness, page.id, b"another\n") == text
    assert [f.what for f in (await examined(harness)()).findings] == ["lost"]
    assert await keep_text(harness, page.id, b"page\n") != text
    assert (await examined(harness)()).findings == ()


async def test_a_damaged_database_is_said_and_nothing_is_concluded_from_its_rows(harness: Harness) -> None:
    for n in range(300):
        await harness.put(b"%d\n" % n * 300)
    harness.catalog.close()
    path = harness.root / "coatcheck.db"
    data = bytearray(path.read_bytes())
    for at in range(4096 * 12, len(data), 4096 * 7):
        data[at : at + 64] = b"\xff" * 64
    path.write_bytes(data)
    look = SqliteCatalog.look(path)
    try:
        examinations = (SqliteExamination(path),)
        audit = VerifyStore(
            look, harness.blobs, harness.opened(), harness.clock, examinations=examinations, repairs=look
        )
        audited = await audit(apply=True)
    finally:
        look.close()
    assert {f.what for f in audited.findings} == {"database"}
    assert (audited.blobs, audited.clean) == (0, False)


async def test_a_directory_that_everyone_can_enter_is_told_and_closed_when_told(harness: Harness) -> None:
    harness.root.chmod(0o755)
    told = await examined(harness)()
    assert [(f.what, f.repaired) for f in told.findings] == [("exposed", False)]
    assert told.clean, "no data is at risk of being lost"
    assert harness.root.stat().st_mode & 0o777 == 0o755
    await examined(harness, repairs=harness.catalog)(apply=True)
    assert harness.root.stat().st_mode & 0o777 == 0o750
    assert (await examined(harness)()).findings == ()


class Noted:
    """An engine with something to say."""

    async def __call__(self, *, deep: bool, repair: datetime | None) -> EngineReport:
        return EngineReport(notes=(f"{deep} {repair}",))


async def test_engines_are_examined_as_deeply_as_asked_and_repair_only_when_told_and_able(
    harness: Harness,
) -> None:
    def audit(repairs: SqliteCatalog | None) -> VerifyStore:
        return VerifyStore(
            harness.catalog, harness.blobs, harness.opened(), harness.clock, examinations=(Noted(),), repairs=repairs
        )

    assert (await audit(None)(apply=True)).notes == ("True None",)
    assert (await audit(harness.catalog)(digests=False)).notes == ("False None",)
    assert (await audit(harness.catalog)(apply=True)).notes == (f"True {START}",)


@pytest.mark.parametrize(
    ("version", "can"),
    [
        ("3.6.23", False),
        ("3.7.0", True),
        ("3.40.1", True),
        ("3.44.5", True),
        ("3.44.6", False),
        ("3.45.0", True),
        ("3.50.6", True),
        ("3.50.7", False),
        ("3.51.2", True),
        ("3.51.3", False),
        ("3.52.0", False),
    ],
)
def test_the_versions_with_the_defect_are_those_that_sqlite_names(version: str, can: bool) -> None:
    assert can_corrupt(tuple(map(int, version.split(".")))) is can
