"""Payloads that wait when the process ends: in a file until the next one has stored them, or knows that it never will.

A process is a buffer here; that it ends is that nobody uses it any more. The last test ends real ones.
"""

import errno
import logging
import stat
import time
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from coatcheck.adapters.waiting_files import NAME, WaitingFileFolder
from coatcheck.core import ids
from coatcheck.core.encoding.frames import zstd
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.core.retention.audit import Hold
from coatcheck.ports.decisions import PlaceHold
from coatcheck.storing.fallback_buffer import FallbackBuffer
from support.clock import INSTANT
from support.combos import Combo
from support.harness import CALLER, Harness, flushing
from support.http_proxy import Answer, HttpProxy, every
from support.postgres_shared import databases
from support.s3 import shared_s3
from support.samples import lines, noise
from support.service import serving
from usecases.outages.test_degraded import Degraded, Fault

ROOM = 1 << 24


def files(folder: Path) -> list[Path]:
    return sorted(folder.glob(f"{NAME}*"))


def beside(folder: Path) -> list[Path]:
    """Everything in the folder that is of no form that a process would open."""
    return sorted(path for path in folder.iterdir() if not path.name.startswith(NAME))


def starting(folder: Path, room: int = ROOM) -> FallbackBuffer:
    """The buffer of a process that starts."""
    buffer = FallbackBuffer(room, WaitingFileFolder(folder))
    buffer.restore()
    return buffer


async def ended(harness: Harness, folder: Path, *payloads: bytes, room: int = ROOM, lost: int = 0) -> list[str]:
    """A process to which payloads were handed while storage was away, and which has ended; answers their IDs."""
    world = Degraded(harness, "catalog", Fault())
    world.fallback = world.deps["fallback"] = starting(folder, room)
    handed = [(await world.put(payload, said={"session": "s"})).id for payload in payloads]
    assert world.fallback.save() == lost
    return handed


async def flushed(harness: Harness, buffer: FallbackBuffer) -> int:
    return await flushing(harness.deps(fallback=buffer))()


async def test_the_next_process_reads_and_stores_what_waited_and_removes_the_file(
    harness: Harness, tmp_path: Path
) -> None:
    payloads = lines(20_000), noise(300_000)
    handed = await ended(harness, tmp_path, *payloads)
    (file,) = files(tmp_path)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    buffer = starting(tmp_path)
    assert buffer.count == 2
    assert await flushed(harness, buffer) == 2
    for name, payload in zip(handed, payloads, strict=True):
        assert await harness.content(name) == payload
    buffer.restore()
    assert files(tmp_path) == []


async def test_a_process_that_ends_with_nothing_waiting_leaves_no_file(harness: Harness, tmp_path: Path) -> None:
    assert await ended(harness, tmp_path) == []
    assert [path for path in beside(tmp_path) if "waiting" in path.name] + files(tmp_path) == []


async def test_what_was_stored_before_a_crash_is_found_stored_and_settled(harness: Harness, tmp_path: Path) -> None:
    await ended(harness, tmp_path, lines(20_000), noise(300_000))
    copy = files(tmp_path)[0].read_bytes()
    assert await flushed(harness, starting(tmp_path)) == 2
    files(tmp_path)[0].unlink()
    (tmp_path / f"{NAME}copy").write_bytes(copy)  # as if the process had died before it settled anything
    buffer = starting(tmp_path)
    assert buffer.count == 2
    await flushed(harness, buffer)
    buffer.restore()
    assert (harness.count("artifacts"), buffer.count, files(tmp_path)) == (2, 0, [])
    assert len(harness.stored_files()) == 1


@pytest.mark.parametrize("whole_session", [False, True])
@pytest.mark.parametrize("room", [ROOM, 1], ids=["in memory", "no memory for it"])
async def test_one_that_is_deleted_after_the_restart_never_returns(
    harness: Harness, tmp_path: Path, whole_session: bool, room: int
) -> None:
    handed = await ended(harness, tmp_path, lines(20_000), lines(20_000, 2))
    world = Degraded(harness, "catalog", Fault())
    world.fault.down = False
    buffer = starting(tmp_path, room)
    assert buffer.count == (2 if room == ROOM else 1)
    if whole_session:
        assert await replace(world.forget_session, fallback=buffer)(CALLER, "s") == 2
    else:
        await replace(world.forget, fallback=buffer)(CALLER, ids.parse(handed[0]))
    assert starting(tmp_path).count == 0, "its file is still open elsewhere"
    buffer.save()  # the process ends
    assert starting(tmp_path).count == (0 if whole_session else 1)


@pytest.mark.parametrize("session", ["s", None], ids=["of the session", "of the namespace"])
@pytest.mark.parametrize("room", [ROOM, 1], ids=["in memory", "no memory for it"])
async def test_a_hold_keeps_a_payload_that_waits(
    harness: Harness, tmp_path: Path, session: str | None, room: int
) -> None:
    handed = await ended(harness, tmp_path, lines(20_000), lines(20_000, 2))
    world = Degraded(harness, "catalog", Fault())
    world.fault.down = False
    hold = Hold(
        id="hold_0000000000000001",
        namespace=CALLER.namespace,
        session=session,
        number=None,
        reason="case 7",
        made_by="tester",
        at=harness.clock.now(),
        until=None,
    )
    await harness.catalog.commit(PlaceHold(hold=hold))
    buffer = starting(tmp_path, room)
    with pytest.raises(CoatcheckError) as refused_session:
        await replace(world.forget_session, fallback=buffer)(CALLER, "s")
    with pytest.raises(CoatcheckError) as refused_artifact:
        await replace(world.forget, fallback=buffer)(CALLER, ids.parse(handed[0]))
    assert refused_session.value.code is refused_artifact.value.code is Code.HELD
    buffer.save()  # the process ends
    assert await flushed(harness, starting(tmp_path)) == 2


async def test_what_was_deleted_or_expired_while_no_process_ran_is_not_revived(
    harness: Harness, tmp_path: Path
) -> None:
    (name,) = await ended(harness, tmp_path, lines(20_000))
    harness.clock.forward(INSTANT)
    assert (await harness.put(lines(20_000), said={"session": "s"})).id == name
    harness.clock.forward(INSTANT)
    await harness.forget(CALLER, ids.parse(name))
    buffer = starting(tmp_path)
    assert (buffer.count, await flushed(harness, buffer)) == (1, 0)
    buffer.restore()
    assert (buffer.count, harness.count("artifacts"), files(tmp_path)) == (0, 0, [])
    await ended(harness, tmp_path, lines(20_000, 3))
    harness.clock.forward(timedelta(days=365))
    buffer = starting(tmp_path)
    assert (buffer.count, await flushed(harness, buffer), harness.count("artifacts")) == (1, 0, 0)
    buffer.restore()
    assert files(tmp_path) == []


async def test_what_cannot_be_read_is_reported_and_set_aside_and_the_rest_is_stored(
    harness: Harness, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    handed = await ended(harness, tmp_path, lines(20_000), lines(20_000, 2))
    (file,) = files(tmp_path)
    damaged = bytearray(file.read_bytes())
    damaged[-100] ^= 1
    file.write_bytes(damaged)
    buffer = starting(tmp_path)
    assert await flushed(harness, buffer) == 1
    assert await harness.content(handed[0]) == lines(20_000)
    with caplog.at_level(logging.ERROR):
        buffer.restore()
    assert "set aside" in caplog.text
    assert files(tmp_path) == []
    (aside,) = (path for path in beside(tmp_path) if path.name.startswith("coatcheck.unreadable."))
    assert len(aside.read_bytes()) == len(damaged)


class FlakyFolder(WaitingFileFolder):
    """A folder on a disk that answers some calls with an error."""

    bad_reads: Iterable[int] = ()
    """Which of the reads fail, the first one being 1."""
    lists = True

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._count = 0

    def open_next(self) -> list[int]:
        if not self.lists:
            raise OSError(errno.EIO, "Input/output error")
        return super().open_next()

    def read(self, position: int) -> bytes:
        self._count += 1
        if self._count in self.bad_reads:
            raise OSError(errno.EIO, "Input/output error")
        return super().read(position)


@pytest.mark.parametrize("bad_reads", [{1}, {2}, {4}, {5}, {1, 2, 3}, {1, 4}])
async def test_a_read_error_loses_no_payload(harness: Harness, tmp_path: Path, bad_reads: set[int]) -> None:
    payloads = [lines(20_000, seed) for seed in range(3)]
    handed = await ended(harness, tmp_path, *payloads)
    folder = FlakyFolder(tmp_path)
    folder.bad_reads = bad_reads
    buffer = FallbackBuffer(ROOM, folder)
    buffer.restore()
    assert sum([await flushed(harness, buffer) for _ in range(3)]) == 3
    for name, payload in zip(handed, payloads, strict=True):
        assert await harness.content(name) == payload
    buffer.restore()
    assert (files(tmp_path), [path.name for path in beside(tmp_path) if "unreadable" in path.name]) == ([], [])


async def test_what_could_not_be_read_is_left_to_the_next_process(harness: Harness, tmp_path: Path) -> None:
    await ended(harness, tmp_path, lines(20_000), lines(20_000, 2))
    folder = FlakyFolder(tmp_path)
    folder.bad_reads = range(1, 9)
    buffer = FallbackBuffer(ROOM, folder)
    buffer.restore()
    assert (buffer.count, buffer.save()) == (0, 0)
    assert starting(tmp_path).count == 2


async def test_the_last_round_saves_what_waits_though_the_disk_fails_before(harness: Harness, tmp_path: Path) -> None:
    world = Degraded(harness, "catalog", Fault())
    folder = FlakyFolder(tmp_path)
    folder.lists = False
    world.fallback = world.deps["fallback"] = FallbackBuffer(ROOM, folder)
    await world.put(lines(20_000))
    await flushing(harness.deps(**world.deps)).last()
    assert starting(tmp_path).count == 1


@pytest.mark.parametrize("damage", [b"", b"coatcheck waiting payloads 2\n", b"coatcheck waiting payloads 1\nwrong"])
def test_a_file_of_another_form_is_set_aside(tmp_path: Path, damage: bytes) -> None:
    (tmp_path / f"{NAME}1").write_bytes(damage)
    assert starting(tmp_path).count == 0
    assert [path.name for path in tmp_path.iterdir()] == ["coatcheck.unreadable.1"]


async def test_files_take_no_more_than_the_buffer_may_and_the_latest_are_kept(harness: Harness, tmp_path: Path) -> None:
    room = 700_000
    first = await ended(harness, tmp_path, noise(300_000, 1), noise(300_000, 2), room=room)
    second = await ended(harness, tmp_path, noise(300_000, 3), noise(60_000, 4), room=room, lost=1)
    assert sum(path.stat().st_size for path in files(tmp_path)) <= room
    buffer = starting(tmp_path)
    await flushed(harness, buffer)
    await flushed(harness, buffer)
    for name in (*first, second[1]):
        await harness.content(name)
    assert harness.count("artifacts") == 3


async def test_more_than_there_is_memory_for_is_stored_one_after_the_other(harness: Harness, tmp_path: Path) -> None:
    await ended(harness, tmp_path, *(noise(300_000, seed) for seed in range(4)))
    buffer = starting(tmp_path, room=700_000)
    assert buffer.count == 2
    stored = [await flushed(harness, buffer) for _ in range(3)]
    assert stored == [2, 2, 0]
    assert (harness.count("artifacts"), files(tmp_path)) == (4, [])


async def test_without_a_place_or_on_a_disk_that_takes_nothing_it_is_lost_and_counted(
    harness: Harness, tmp_path: Path
) -> None:
    await ended(harness, tmp_path / "none", lines(20_000), lines(20_000, 2), lost=2)
    assert not (tmp_path / "none").exists()
    full = Path("/dev/full")
    assert WaitingFileFolder(full).save([b"x"], ROOM) == 0


# ------------------------------------------------------------------------------------------- real processes


def text_in(folder: Path) -> bytes:
    """The text of the payload in the file, decompressed."""
    buffer = starting(folder)
    (entry,) = buffer.waiting(datetime(2000, 1, 1, tzinfo=UTC))
    buffer.save()
    return zstd.decompress(entry.stored_bytes)


SECRET = b"token=ghp_" + b"A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8"


@pytest.mark.parametrize("place", [True, False], ids=["with a data folder", "without"])
def test_a_service_that_stops_while_s3_is_away_stores_the_payload_after_its_next_start(
    tmp_path: Path, place: bool
) -> None:
    s3 = shared_s3("ministack")
    data = tmp_path / "data"
    if place:
        data.mkdir()
    body = b"".join(b"%d " % number for number in noise(60_000, 7)) + SECRET + b"\n"
    with HttpProxy(s3.port) as proxy, databases().lent() as database:
        settings = {"database_url": database, "blob_url": s3.url(endpoint=proxy.endpoint)}
        combo = Combo("postgresql+s3", settings, s3.environment)
        with serving(data, combo, redaction="stored") as service:
            proxy.fault = every(1, Answer(403, "<Error><Code>AccessDenied</Code></Error>"))
            answer = service.client.post("/v1/artifacts/raw", content=body, headers={"content-type": "text/plain"})
            assert (answer.status_code, answer.json()["stored"]) == (202, False)
        log = (tmp_path / "data.log").read_text()
        assert len(files(data)) == (1 if place else 0)
        if not place:
            assert "Lost 1 payload that had not reached storage yet." in log
            return
        assert "Saved 1 payload for the next start." in log
        assert "Lost" not in log
        assert SECRET not in text_in(data)
        proxy.forget()
        with serving(data, combo, redaction="stored") as service:
            end = time.monotonic() + 30
            name = answer.json()["id"]
            while files(data) and time.monotonic() < end:
                time.sleep(0.1)
            content = service.content(name)
            assert (files(data), SECRET in content, SECRET in body) == ([], False, True)
            assert content[:1000] == body[:1000]
