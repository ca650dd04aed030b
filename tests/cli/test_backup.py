"""`backup` and `restore`: what was acknowledged comes back byte for byte, and what is damaged or half made is not."""

import contextlib
import hashlib
import json
import os
import shutil
import signal
import socket
import sqlite3
import subprocess
import tempfile
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

from cli.terminal import COMMAND, Ended, call
from faults.harnesses import backup as harness
from support.archives import unpack
from support.combos import EMBEDDED
from support.samples import noise
from support.service import Service, serving


def files(top: Path) -> list[Path]:
    return sorted(p for p in (top / "blobs").rglob("*") if p.is_file())


def names(top: Path) -> list[str]:
    return sorted(p.name for p in top.iterdir())


def backup(data: Path, target: Path, *args: str) -> Ended:
    return call("backup", str(target), "--data", str(data), *args)


def restore(source: Path, data: Path, *args: str) -> Ended:
    return call("restore", str(source), "--data", str(data), *args)


def clean(data: Path) -> bool:
    ended = call("check", "--data", str(data), "--json", "--orphan-age", "0")
    return bool(ended.code == 0 and json.loads(ended.text)["findings"] == [])


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Service, dict[str, bytes]]]:
    """A service that holds payloads of each placement, two of which share their bytes, and what it holds."""
    with serving(tmp_path_factory.mktemp("kept") / "data") as service:
        payloads: list[bytes] = [b"small\n", noise(300_000, 1), noise(300_000, 2), b"line of text\n" * 50_000]
        held = {service.post(data, tool_call_id=f"c{n}")["id"]: data for n, data in enumerate(payloads)}
        held[service.post(payloads[1], tool_call_id="again")["id"]] = payloads[1]
        yield service, held


@pytest.fixture(scope="module")
def made(kept: tuple[Service, dict[str, bytes]], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A backup of it. Tests that change one take a copy."""
    target = tmp_path_factory.mktemp("made") / "backup"
    ended = backup(kept[0].data, target)
    assert ended.code == 0, ended.err
    return target


@pytest.fixture
def other_disk() -> Iterator[Path]:
    """A directory on another file system than the tests' own, where this machine has one."""
    shm = Path("/dev/shm")  # noqa: S108 - a file system of its own
    with tempfile.TemporaryDirectory(dir=shm if shm.is_dir() else None) as folder:
        yield Path(folder)


@pytest.mark.parametrize("args", [(), ("--copy", "--verify")], ids=["linked", "copied"])
def test_a_restored_store_answers_as_the_one_that_was_serving_while_it_was_backed_up(
    kept: tuple[Service, dict[str, bytes]], tmp_path: Path, args: tuple[str, ...]
) -> None:
    service, held = kept
    done = json.loads(backup(service.data, tmp_path / "b", *args, "--json").text)
    assert (done["path"], done["verified"], done["linked"]) == (
        str(tmp_path / "b"),
        "--verify" in args,
        0 if args else 2,
    )
    manifest: dict[str, Any] = done["manifest"]
    assert json.loads((tmp_path / "b" / "manifest.json").read_bytes()) == manifest
    database = (tmp_path / "b" / "coatcheck.db").read_bytes()
    assert manifest["database"] == {"size": len(database), "sha256": hashlib.sha256(database).hexdigest()}
    sizes = sum(p.stat().st_size for p in files(tmp_path / "b"))
    assert [manifest[k] for k in ("artifacts", "blobs", "files", "file_bytes", "lost")] == [5, 4, 2, sizes, []]
    assert names(tmp_path / "b") == ["blobs", "coatcheck.db", "manifest.json"]
    assert names(tmp_path) == ["b"]
    answer = json.loads(restore(tmp_path / "b", tmp_path / "new", "--json").text)
    assert answer == {"data": str(tmp_path / "new"), "manifest": manifest, "verified": True, "outdated": False}
    assert clean(tmp_path / "new")
    if args:
        return  # the same store, by its digests; one start is enough to see that it answers
    with serving(tmp_path / "new") as again:
        assert {name: again.content(name) for name in held} == held
        for name in held:
            assert again.get(f"/v1/artifacts/{name}") == service.get(f"/v1/artifacts/{name}")


def test_a_backup_on_the_same_disk_shares_files_with_the_store_and_a_restored_store_shares_none(
    kept: tuple[Service, dict[str, bytes]], made: Path, tmp_path: Path
) -> None:
    inodes = {p.name: p.stat().st_ino for p in files(kept[0].data)}
    assert {p.name: p.stat().st_ino for p in files(made)} == inodes
    assert (made / "coatcheck.db").stat().st_ino != (kept[0].data / "coatcheck.db").stat().st_ino
    assert restore(made, tmp_path / "new").code == 0
    assert not set(inodes.values()) & {p.stat().st_ino for p in files(tmp_path / "new")}
    modes = {p.stat().st_mode & 0o777 for p in (tmp_path / "new").rglob("*")}
    assert modes == {0o700, 0o600}


def test_a_backup_to_another_disk_is_a_copy(
    kept: tuple[Service, dict[str, bytes]], other_disk: Path, tmp_path: Path
) -> None:
    ended = backup(kept[0].data, other_disk / "b", "--json")
    if other_disk.stat().st_dev != kept[0].data.stat().st_dev:
        assert json.loads(ended.text)["linked"] == 0
    assert restore(other_disk / "b", tmp_path / "new").code == 0
    assert clean(tmp_path / "new")


def test_a_backup_can_be_moved_and_packed_and_needs_nothing_else(made: Path, tmp_path: Path) -> None:
    shutil.make_archive(str(tmp_path / "packed"), "tar", made)
    unpack(tmp_path / "packed.tar", tmp_path / "unpacked")
    assert restore(tmp_path / "unpacked", tmp_path / "new").code == 0
    assert clean(tmp_path / "new")


def test_what_is_deleted_before_the_backup_is_not_in_it_and_of_an_upload_under_way_only_the_intent(
    tmp_path: Path,
) -> None:
    payload = noise(3_000_000, 3)
    with serving(tmp_path / "data") as service:
        gone = service.post(noise(300_000, 1))["id"]
        stays = service.post(noise(300_000, 2))["id"]
        service.client.delete(f"/v1/artifacts/{gone}")
        host, port = service.url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port))) as client:
            client.sendall(b"POST /v1/artifacts/raw HTTP/1.1\r\nhost: localhost\r\ncontent-length: 3000000\r\n\r\n")
            client.sendall(payload[:2_000_000])
            while len(files(service.data)) < 3:
                service.client.get("/health/live")
            assert backup(service.data, tmp_path / "b").code == 0
            client.sendall(payload[2_000_000:])
            assert client.recv(12) == b"HTTP/1.1 201"
    assert len(files(tmp_path / "b")) == 1
    assert restore(tmp_path / "b", tmp_path / "new").code == 0
    with contextlib.closing(sqlite3.connect(tmp_path / "new" / "coatcheck.db")) as conn:
        assert conn.execute("SELECT count(*) FROM uploads").fetchone() == (1,)
        assert conn.execute("SELECT number FROM artifacts").fetchall() == [(int(stays[4:]),)]
        assert conn.execute("SELECT number FROM tombstones").fetchall() == [(int(gone[4:]),)]
    assert clean(tmp_path / "new")


def test_a_live_blob_whose_file_is_lost_fails_the_backup_until_it_is_marked_as_lost(tmp_path: Path) -> None:
    with serving(tmp_path / "data") as service:
        for n in range(3):
            service.post(noise(300_000, n))
        found = [next(p for p in files(service.data) if noise(300_000, n)[:1000] in p.read_bytes()) for n in range(2)]
        names_in_order = [p.name for p in found]
        found[0].unlink()
        ended = backup(service.data, tmp_path / "b")
        assert (ended.code, ended.out) == (1, b"")
        assert f"1 live blobs are missing ({found[0].name})" in ended.err
        found[1].write_bytes(b"short")
        ended = backup(service.data, tmp_path / "b")
        assert (ended.code, f"do not have the recorded size ({found[1].name})" in ended.err) == (1, True)
        assert names(tmp_path) == ["data", "data.log"]
        assert call("check", "--data", str(service.data), "--apply").code == 1
        assert backup(service.data, tmp_path / "b").code == 1, "rows are not changed beside a service"
    marked = call("check", "--data", str(tmp_path / "data"), "--apply")
    assert (marked.code, "2 marked as lost" in marked.text) == (1, True)
    ended = backup(tmp_path / "data", tmp_path / "b", "--verify", "--json")
    assert ended.code == 0
    assert json.loads(ended.text)["manifest"]["lost"] == sorted([found[0].name, found[1].name])
    assert restore(tmp_path / "b", tmp_path / "new").code == 0
    checked = json.loads(call("check", "--data", str(tmp_path / "new"), "--json").text)
    assert [(f["what"], f["blob_id"]) for f in checked["findings"]] == [("lost", n) for n in names_in_order]


def test_a_flipped_bit_fails_a_verified_backup_and_any_restore_that_looks(tmp_path: Path, made: Path) -> None:
    shutil.copytree(made, tmp_path / "store")
    (tmp_path / "store" / "manifest.json").unlink()
    victim = files(tmp_path / "store")[0]
    data = bytearray(victim.read_bytes())
    data[len(data) // 2] ^= 1
    victim.write_bytes(data)
    assert backup(tmp_path / "store", tmp_path / "b").code == 0
    ended = backup(tmp_path / "store", tmp_path / "verified", "--verify")
    assert (ended.code, f"1 are damaged; the first is {victim.name}" in ended.err) == (1, True)
    ended = restore(tmp_path / "b", tmp_path / "new")
    assert (ended.code, "Nothing was restored" in ended.err) == (1, True)
    assert names(tmp_path) == ["b", "store"]
    assert restore(tmp_path / "b", tmp_path / "new", "--no-verify").code == 0
    assert not clean(tmp_path / "new")


def _rewrite(folder: Path, **changed: object) -> None:
    path = folder / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changed))


def _stamp(folder: Path, revision: str) -> None:
    database = folder / "coatcheck.db"
    with contextlib.closing(sqlite3.connect(database)) as conn, conn:
        conn.execute("UPDATE alembic_version SET version_num = ?", (revision,))
    raw = database.read_bytes()
    described = {"size": len(raw), "sha256": hashlib.sha256(raw).hexdigest()}
    _rewrite(folder, schema=revision, database=described)


def _flip(folder: Path) -> None:
    raw = bytearray((folder / "coatcheck.db").read_bytes())
    raw[len(raw) // 2] ^= 1
    (folder / "coatcheck.db").write_bytes(raw)


DAMAGE: dict[str, tuple[Callable[[Path], object], int, str]] = {
    "no manifest": (lambda b: (b / "manifest.json").unlink(), 2, "not a complete backup"),
    "manifest not UTF-8": (lambda b: (b / "manifest.json").write_bytes(b'{"format": "\xff"}'), 1, "is damaged"),
    "manifest cut off": (lambda b: os.truncate(b / "manifest.json", 40), 1, "is damaged"),
    "manifest of a newer form": (lambda b: _rewrite(b, format=2, more=1), 4, "newer release"),
    "schema of a newer release": (lambda b: _rewrite(b, schema="9999"), 4, "newer than this release's"),
    "schema that the database has not": (lambda b: _rewrite(b, schema="0000"), 1, "where the manifest says 0000"),
    "no database": (lambda b: (b / "coatcheck.db").unlink(), 1, "coatcheck.db is missing"),
    "database changed": (_flip, 1, "not the file that the manifest describes"),
    "file missing": (lambda b: files(b)[0].unlink(), 1, "is missing"),
    "file cut off": (lambda b: os.truncate(files(b)[0], 10), 1, "has 10 bytes"),
}


@pytest.mark.parametrize("damage", list(DAMAGE))
def test_a_damaged_backup_is_refused_and_leaves_the_place_as_it_was(made: Path, tmp_path: Path, damage: str) -> None:
    spoil, code, said = DAMAGE[damage]
    shutil.copytree(made, tmp_path / "b")
    spoil(tmp_path / "b")
    (tmp_path / "empty").mkdir()
    for place in ("new", "empty"):
        ended = restore(tmp_path / "b", tmp_path / place)
        assert (ended.code, ended.out) == (code, b""), ended.err
        assert said in ended.err
    assert names(tmp_path) == ["b", "empty"]
    assert set(names(tmp_path / "empty")) <= {"coatcheck.lock"}


def test_a_backup_of_an_older_schema_is_restored_and_left_to_the_next_start_to_migrate(
    made: Path, tmp_path: Path
) -> None:
    shutil.copytree(made, tmp_path / "b")
    _stamp(tmp_path / "b", "0000")
    ended = restore(tmp_path / "b", tmp_path / "new")
    assert (ended.code, "the next start migrates it" in ended.text) == (0, True)
    assert len(files(tmp_path / "new")) == 2


def test_nothing_is_restored_over_a_store_or_into_a_directory_with_something_in_it(
    made: Path, kept: tuple[Service, dict[str, bytes]], tmp_path: Path
) -> None:
    before = names(kept[0].data)
    ended = restore(made, kept[0].data)
    assert (ended.code, "already holds a store" in ended.err) == (2, True)
    assert names(kept[0].data) == before
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "notes.txt").write_text("mine")
    ended = restore(made, tmp_path / "full")
    assert (ended.code, "is not empty" in ended.err) == (2, True)
    assert names(tmp_path / "full") == ["notes.txt"]


def test_no_backup_is_written_over_anything_nor_where_its_disk_may_not_be_mounted(
    kept: tuple[Service, dict[str, bytes]], made: Path, tmp_path: Path
) -> None:
    data = kept[0].data
    assert "already exists" in backup(data, made).err
    assert "is not a directory" in backup(data, tmp_path / "not mounted" / "b").err
    assert "is inside the store's own directory" in backup(data, data / "blobs" / "b").err
    assert backup(data, tmp_path / "not mounted" / "b").code == 2
    ended = backup(tmp_path / "no store", tmp_path / "b")
    assert (ended.code, "no store" in ended.err) == (2, True)
    assert names(tmp_path) == []


def test_an_interrupted_restore_serves_nothing_and_starts_over_when_run_again(made: Path, tmp_path: Path) -> None:
    place = tmp_path / "new"
    place.mkdir(mode=0o700)
    (place / "restoring" / "blobs" / "00").mkdir(parents=True)
    (place / "restoring" / "coatcheck.db").write_bytes((made / "coatcheck.db").read_bytes())
    (place / "blobs").mkdir()
    for command in (("serve", "--port", "0"), ("migrate",)):
        ended = call(*command, "--data", str(place))
        assert (ended.code, "did not finish" in ended.err) == (4, True)
    assert names(place) == ["blobs", "restoring"]
    assert restore(made, place).code == 0
    assert names(place) == ["blobs", "coatcheck.db", "coatcheck.lock"]
    assert clean(place)


@contextlib.contextmanager
def started(*args: str) -> Generator[subprocess.Popen[bytes]]:
    process = subprocess.Popen([*COMMAND, *args], env={"PATH": "/usr/bin:/bin"}, stderr=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@pytest.fixture(scope="module")
def bulky(made: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store whose backup takes a while: the database alone has 100 MB that nothing uses."""
    data = tmp_path_factory.mktemp("bulky") / "data"
    assert restore(made, data).code == 0
    with contextlib.closing(sqlite3.connect(data / "coatcheck.db")) as conn, conn:
        conn.execute("CREATE TABLE ballast (bytes BLOB)")
        conn.executemany("INSERT INTO ballast VALUES (zeroblob(?))", [(10_000_000,)] * 10)
    return data


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL], ids=lambda n: n.name)
def test_a_backup_that_is_stopped_midway_leaves_nothing_that_is_taken_for_one(
    bulky: Path, tmp_path: Path, number: signal.Signals
) -> None:
    target = tmp_path / "b"
    with started("backup", str(target), "--data", str(bulky)) as process:
        while not any(p.name.startswith(".b.partial-") for p in tmp_path.iterdir()):
            assert process.poll() is None
        process.send_signal(number)
        code = process.wait(30)
    if number is signal.SIGKILL:
        (left,) = tmp_path.iterdir()
        assert (code, left.name.startswith(".b.partial-")) == (-9, True)
        assert restore(left, tmp_path / "new").code == 2
    else:
        assert (code != 0, names(tmp_path)) == (True, [])


def test_under_posts_deletes_and_sweeps_every_backup_holds_what_was_acknowledged_and_not_deleted() -> None:
    report = harness.run(EMBEDDED, rounds=1, seed=1)
    assert report.clean, report.line()
    assert report.counts["held"] > 5
    assert report.counts["deleted"] > 0


def test_a_backup_that_takes_files_first_and_the_rows_last_is_caught() -> None:
    report = harness.run(EMBEDDED, rounds=1, seed=2, faults=[harness.CARELESS])
    assert report.broken["lost"] + report.broken["corrupt"] + report.broken["a restored store is clean"] > 0
