"""`serve`, `check`, `migrate`, `settings`: what an administrator does, and what happens when it is done wrong."""

import contextlib
import json
import platform
import re
import signal
import socket
import sqlite3
import time
from collections.abc import Callable, Iterator
from datetime import date
from pathlib import Path

import pytest

from cli.terminal import call, run
from coatcheck import __version__
from coatcheck.adapters.system import SystemClock
from coatcheck.settings import Settings
from support.samples import noise
from support.service import Service, serving, start


def files(data: Path) -> list[Path]:
    return sorted(p for p in (data / "blobs").rglob("*") if p.is_file())


def check(data: Path, *args: str) -> tuple[int, str]:
    ended = call("check", "--data", str(data), *args)
    return ended.code, ended.text


def ends(checked: tuple[int, str], verdict: str) -> bool:
    """Whether a check ended well, and with these words."""
    return checked[0] == 0 and checked[1].endswith(f"{verdict}\n")


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Service]:
    """A service of this test's own."""
    with serving(tmp_path / "data") as running:
        yield running


def test_check_finds_nothing_wrong_then_exactly_the_damaged_blob_also_while_the_service_runs(own: Service) -> None:
    good, bad = own.post(noise(300_000, 1)), own.post(noise(300_000, 2))
    own.post("small\n")
    clean = json.loads(run("check", "--data", str(own.data), "--json").out)
    assert {k: clean[k] for k in ("blobs", "content", "stored", "findings", "removed", "condemned")} == {
        "blobs": 3,
        "content": 600_006,
        "stored": 2,
        "findings": [],
        "removed": 0,
        "condemned": 0,
    }
    assert (clean["clean"], clean["rows_kept"]) == (True, None)
    assert clean["versions"] == {
        "coatcheck": __version__,
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
    }
    sizes = {p: p.read_bytes() for p in files(own.data)}
    damaged = next(p for p, stored in sizes.items() if noise(300_000, 2)[:1000] in stored)
    flipped = bytearray(sizes[damaged])
    flipped[200_000] ^= 4
    damaged.write_bytes(flipped)
    code, said = check(own.data)
    assert code == 1
    assert said.startswith(f"corrupt: {damaged.name}: ")
    assert "\nWhat to do about corrupt: " in said
    assert said.endswith("\nDAMAGED: 3 blobs, 585.9 KiB read and compared with their digests; found 1 corrupt.\n")
    assert ends(check(own.data, "--no-digests"), "OK: 3 blobs, names and sizes compared; found nothing.")
    damaged.unlink()
    code, said = check(own.data, "--no-digests")
    assert (code, said.startswith(f"missing: {damaged.name}: ")) == (1, True)
    assert own.client.get(f"/v1/artifacts/{bad['id']}/content").status_code == 500
    assert own.content(good["id"]) == noise(300_000, 1)


def test_check_names_bytes_that_no_row_knows_and_removes_only_what_is_old_and_only_when_told(own: Service) -> None:
    receipt = own.post(noise(300_000, 1))
    orphan = own.data / "blobs" / "ab" / ("0" * 30 + "ab")
    orphan.parent.mkdir(exist_ok=True)
    orphan.write_bytes(b"lost")
    verdict = "OK: 1 blob, 293.0 KiB read and compared with their digests; found "
    assert ends(check(own.data, "--apply"), verdict + "nothing.")
    code, said = check(own.data, "--orphan-age", "0")
    assert (code, said.splitlines()[0]) == (0, f"orphan: {orphan.name}: 4 bytes that no row refers to.")
    assert orphan.exists()
    assert ends(check(own.data, "--orphan-age", "0", "--apply"), verdict + "1 orphan, 1 removed.")
    assert not orphan.exists()
    assert own.content(receipt["id"]) == noise(300_000, 1)


def test_what_is_lost_is_marked_only_while_nobody_serves_and_is_healed_by_posting_it_again(tmp_path: Path) -> None:
    with serving(tmp_path / "data") as service:
        artifact = service.post(noise(300_000, 1))["id"]
        (path,) = files(service.data)
        path.unlink()
        code, said = check(service.data, "--apply")
        assert (code, f"Rows were not changed: Another process (process {service.process.pid})" in said) == (1, True)
        answer = json.loads(call("check", "--data", str(service.data), "--apply", "--json").out)
        assert (answer["condemned"], "Another process" in answer["rows_kept"]) == (0, True)
    code, said = check(tmp_path / "data", "--apply")
    assert (code, said.splitlines()[0].endswith("posting the same payload again repairs it.")) == (1, True)
    assert said.endswith("found 1 missing, 1 marked as lost.\n")
    assert check(tmp_path / "data")[1].startswith(f"lost: {path.name}: ")
    with serving(tmp_path / "data") as service:
        service.post(noise(300_000, 1))
        assert service.content(artifact) == noise(300_000, 1)
        assert ends(check(service.data), "found nothing.")


def test_check_of_a_directory_without_a_store_makes_none(tmp_path: Path) -> None:
    ended = call("check", "--data", str(tmp_path / "no"))
    assert (ended.code, ended.out) == (2, b"")
    assert "no store" in ended.err
    assert not (tmp_path / "no").exists()


def test_check_that_shall_repair_what_it_cannot_write_to_ends_with_4_and_a_sentence(tmp_path: Path) -> None:
    assert call("migrate", "--data", str(tmp_path)).code == 0
    lock = tmp_path / "coatcheck.lock"
    lock.unlink()
    lock.mkdir()  # it cannot be opened for writing, as on a disk that is read-only
    ended = call("check", "--data", str(tmp_path), "--apply")
    assert (ended.code, ended.out) == (4, b"")
    assert f"The data directory {tmp_path} cannot be used: Is a directory. " in ended.err
    assert ends(check(tmp_path), "OK: 0 blobs, 0 bytes read and compared with their digests; found nothing.")


def test_migrating_twice_says_what_it_did_and_leaves_a_private_directory(tmp_path: Path) -> None:
    data = tmp_path / "data"
    first = run("migrate", "--data", str(data))
    again = call("migrate", "--data", str(data))
    assert (first.code, again.code) == (0, 0)
    revision = re.fullmatch(r"The schema is at (\S+); there was none before\.\n", first.text)
    assert revision is not None
    assert again.text == f"The schema is at {revision[1]}.\n"
    assert data.stat().st_mode & 0o077 == 0


def test_a_store_of_a_newer_release_is_refused_not_touched(tmp_path: Path) -> None:
    data = tmp_path / "data"
    call("migrate", "--data", str(data))
    with contextlib.closing(sqlite3.connect(data / "coatcheck.db")) as conn, conn:
        conn.execute("UPDATE alembic_version SET version_num = '9999'")
    for how, *command in ((call, "migrate"), (call, "check"), (run, "serve", "--port", "0")):
        ended = how(*command, "--data", str(data))
        assert (ended.code, ended.out) == (4, b""), command
        assert "newer" in ended.err, ended.err


@pytest.mark.parametrize("place", ["file", "file/data"])
def test_a_file_in_the_place_of_the_data_directory_is_named_and_ends_with_4(tmp_path: Path, place: str) -> None:
    (tmp_path / "file").touch()
    for command in (("migrate",), ("serve", "--port", "0")):
        ended = call(*command, "--data", str(tmp_path / place))
        assert (ended.code, ended.out) == (4, b"")
        assert f": {tmp_path / 'file'} is not a directory. Name another with --data.\n" in ended.err


def test_redaction_says_how_old_its_rules_are() -> None:
    ended = call("redaction", "--json")
    listed = json.loads(ended.out)
    age = (SystemClock().now().date() - date.fromisoformat(listed["released"])).days
    assert listed["days_old"] in {age, age - 1}
    assert f"gitleaks' of {listed['released']} ({listed['gitleaks']})" in call("redaction").text


def test_a_redaction_rule_that_there_is_not_stops_the_start_before_anything_is_made(tmp_path: Path) -> None:
    ended = call("serve", "--data", str(tmp_path / "data"), settings={"redaction_rules": "nope"})
    assert (ended.code, ended.out) == (2, b"")
    assert ended.err == "coatcheck: There is no redaction rule named nope.\n"
    assert list(tmp_path.iterdir()) == []


def test_every_setting_is_listed_with_its_default_its_value_and_a_meaning() -> None:
    ended = call("settings", "--json", settings={"ttl": "1h", "key": "hush-4711"})
    rows = {row["name"]: row for row in json.loads(ended.out)}
    assert list(rows) == [f"COATCHECK_{name.upper()}" for name in Settings.__struct_fields__]
    for name, row in rows.items():
        field = name.removeprefix("COATCHECK_").lower()
        assert row["default"] == getattr(Settings(), field)
        assert len(row["meaning"].split()) >= 4, name
    assert (rows["COATCHECK_TTL"]["value"], rows["COATCHECK_KEY"]["value"]) == (3600, "(set)")
    plain = call("settings", settings={"ttl": "1h", "key": "hush-4711"})
    assert "COATCHECK_TTL=2592000  (here: 3600)\n" in plain.text
    assert "COATCHECK_REQUIRE_KEYS=false\n" in plain.text
    given = call("settings", settings={"require_keys": "yes"}).text
    assert "COATCHECK_REQUIRE_KEYS=false  (here: true)\n" in given
    assert b"hush-4711" not in plain.out + ended.out
    assert [line.split("=")[0] for line in plain.text.splitlines() if line.startswith("COATCHECK_")] == list(rows)


@pytest.mark.parametrize(
    "args",
    [("serve",), ("put", "-"), ("check",)],
)
def test_a_misspelt_variable_stops_every_command_that_reads_settings(args: tuple[str, ...], tmp_path: Path) -> None:
    ended = run(*args, folder=tmp_path, settings={"payload_limt": "1gib"})
    assert (ended.code, ended.out) == (2, b"")
    assert "COATCHECK_PAYLOAD_LIMT is not a setting" in ended.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "example.org"])  # noqa: S104 - refused
def test_an_address_that_others_can_reach_is_refused_before_anything_is_made(host: str, tmp_path: Path) -> None:
    ended = call("serve", "--host", host, "--port", "0", "--data", str(tmp_path / "data"))
    assert (ended.code, ended.out) == (2, b"")
    assert "COATCHECK_ALLOW_UNAUTHENTICATED" in ended.err
    assert list(tmp_path.iterdir()) == []


def test_a_port_that_is_taken_ends_with_4_and_a_way_out(own: Service, tmp_path: Path) -> None:
    port = own.url.rpartition(":")[2]
    ended = run("serve", "--port", port, "--data", str(tmp_path / "other"))
    assert (ended.code, ended.out) == (4, b"")
    assert "--port" in ended.err
    assert "COATCHECK_PORT" in ended.err


def test_a_second_service_on_one_data_directory_is_refused_with_a_sentence(own: Service) -> None:
    ended = run("serve", "--port", "0", "--data", str(own.data))
    assert (ended.code, ended.out) == (4, b"")
    assert f"(process {own.process.pid})" in ended.err
    assert "data directory of its own" in ended.err
    assert own.client.get("/health/ready").status_code == 200


def _connected(service: Service, size: int) -> socket.socket:
    """A client that has announced a payload of this size."""
    client = socket.create_connection(service.address, timeout=30)
    client.sendall(b"POST /v1/artifacts/raw HTTP/1.1\r\nhost: localhost\r\ncontent-length: %d\r\n\r\n" % size)
    return client


def _until(condition: Callable[[], bool], service: Service) -> None:
    """Go round until something that the service is doing has happened."""
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        service.client.get("/health/live")


def _refuses(service: Service) -> bool:
    try:
        socket.create_connection(("127.0.0.1", int(service.url.rpartition(":")[2]))).close()
    except (ConnectionRefusedError, ConnectionResetError):  # a reset: it was closed while this one was in its queue
        return True
    return False


def _answer(client: socket.socket) -> tuple[int, bytes]:
    raw = b""
    while data := client.recv(65536):
        raw += data
    return int(raw[9:12]), raw.partition(b"\r\n\r\n")[2]


def test_an_upload_that_is_under_way_when_the_service_is_told_to_stop_is_finished_and_kept(tmp_path: Path) -> None:
    service = start(tmp_path / "data")
    before = service.post(noise(300_000, 1))
    payload = noise(3_000_000, 2)
    with _connected(service, len(payload)) as client:
        client.sendall(payload[:2_000_000])
        _until(lambda: len(files(service.data)) == 2, service)
        service.process.send_signal(signal.SIGTERM)
        while not _refuses(service):
            pass
        client.sendall(payload[2_000_000:])
        status, body = _answer(client)
    assert status == 201
    assert service.stop() == 0
    with serving(tmp_path / "data") as again:
        assert again.content(json.loads(body)["id"]) == payload
        assert again.content(before["id"]) == noise(300_000, 1)


def test_a_stalled_upload_is_given_up_when_stopping_is_urgent_and_leaves_nothing(tmp_path: Path) -> None:
    service = start(tmp_path / "data")
    service.post(noise(300_000, 1))
    with _connected(service, 5_000_000) as client:
        client.sendall(noise(3_000_000, 2))
        _until(lambda: len(files(service.data)) == 2, service)
        service.process.send_signal(signal.SIGTERM)
        while not _refuses(service):
            pass
        service.process.send_signal(signal.SIGINT)
        assert service.stop() == 0
    assert len(files(tmp_path / "data")) == 1
    with contextlib.closing(sqlite3.connect(tmp_path / "data" / "coatcheck.db")) as conn:
        assert conn.execute("SELECT count(*) FROM uploads").fetchone() == (0,)
    assert ends(check(tmp_path / "data", "--orphan-age", "0"), "found nothing.")


def test_the_openapi_document_is_compared_with_a_file(tmp_path: Path) -> None:
    written = call("openapi")
    (tmp_path / "same.json").write_bytes(written.out)
    (tmp_path / "other.json").write_bytes(written.out + b" ")
    assert call("openapi", "--check", str(tmp_path / "same.json")).code == 0
    ended = call("openapi", "--check", str(tmp_path / "other.json"))
    assert (ended.code, "make openapi" in ended.err) == (1, True)
