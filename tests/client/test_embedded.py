"""A service that programs start by opening a directory, and that ends with the last of them: in real processes."""

import asyncio
import inspect
import json
import os
import random
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from coatcheck_client import Client, EmbeddedError, __version__, embedded
from coatcheck_client.contract.run_folder import ADDRESS_FILE, HTTP_SOCKET, LIFELINE_SOCKET
from coatcheck_client.embedded_service import Embedded
from coatcheck_client.options import ClientOptions
from support.service import COMMAND, serving, start
from support.small_disk import small_disk
from support.used_servers import used

OUTPUT = "".join(f"{number} of a long output\n" for number in range(2000))
HOLDER = """
import sys
from coatcheck_client import embedded
with embedded(sys.argv[1], deadline=60.0) as coatcheck:
    print(coatcheck.put(sys.argv[2], tool_name="holder").id, flush=True)
    sys.stdin.read()
"""
ONCE = """
import sys
from coatcheck_client import EmbeddedError, embedded
try:
    with embedded(sys.argv[1], deadline=60.0) as coatcheck:
        receipt = coatcheck.put(sys.argv[2])
        print(receipt.stored, receipt.id, *(warning.code for warning in receipt.warnings))
except EmbeddedError as error:
    print(error)
"""
READ_ONLY = 'mount --bind /tmp /tmp && mount -o remount,bind,ro /tmp && exec "$@"'
OTHER = "import coatcheck; coatcheck.__version__ = '{version}'; from coatcheck.cli import main; main()"
ENDS_IN = 10.0
"""Seconds after which nothing may run any more."""


@pytest.fixture(autouse=True)
def runtime(monkeypatch: pytest.MonkeyPatch) -> Generator[Path]:
    """Keeps run folders apart from those of whoever runs the tests."""
    with tempfile.TemporaryDirectory(prefix="run") as folder:  # its path is short enough for sockets
        monkeypatch.setenv("XDG_RUNTIME_DIR", folder)
        monkeypatch.setenv("COATCHECK_RESERVE_BYTES", "0")
        yield Path(folder)


@pytest.fixture
def data(tmp_path: Path) -> Generator[Path]:
    """A directory whose service is gone at the end of the test."""
    folder = tmp_path / "data"
    yield folder
    wait_until(lambda: served_by(folder) is None)


def served_by(data: Path) -> int | None:
    """Returns the process that serves a directory."""
    try:
        return int(json.loads((data / ADDRESS_FILE).read_text())["pid"])
    except FileNotFoundError:
        return None


def wait_until(is_true: Callable[[], bool], seconds: float = 3 * ENDS_IN) -> float:
    """Waits for a condition; returns how long it took."""
    start = time.monotonic()
    while not is_true():
        assert time.monotonic() - start < seconds, "it does not happen"
        time.sleep(0.05)
    return time.monotonic() - start


def kill(data: Path) -> None:
    """Kills the service of a directory, and waits for its end."""
    pid = served_by(data)
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not runs(pid))


def runs(pid: int) -> bool:
    """Returns whether a process runs; one that has ended and was not waited for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def opened(data: Path, **options: Any) -> Embedded:  # noqa: ANN401 - a client's
    """A directory, for a client that waits for a busy machine."""
    return embedded(data, deadline=60.0, **options)


def run_once(data: Path, text: str = "once", before: Sequence[str] = ()) -> str:
    """What a program prints that stores a text."""
    command = [*before, sys.executable, "-c", ONCE, str(data), text]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout.strip()


@contextmanager
def holder(data: Path, text: str = "held") -> Generator[tuple[subprocess.Popen[str], str]]:
    """A program that has a directory open: its process, and the artifact that it stored."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(data), text], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdin is not None
    try:
        yield process, process.stdout.readline().strip()
    finally:
        process.stdin.close()
        process.wait(30)
        process.stdout.close()


def test_a_program_gets_a_card_without_port_or_key_and_nothing_runs_after_it(data: Path, runtime: Path) -> None:
    with opened(data, inline_tokens=0) as coatcheck:
        receipt = coatcheck.put(OUTPUT, tool_name="bash")
        assert receipt.stored
        assert coatcheck.read_artifact(receipt.id, offset=1000, limit=1).startswith("[")
        pid = served_by(data)
        assert pid is not None
        assert pid != os.getpid()
    wait_until(lambda: not runs(pid), ENDS_IN)
    assert not list(runtime.rglob("*.sock"))
    assert served_by(data) is None


def test_code_on_an_event_loop_gets_the_same(data: Path) -> None:
    async def program() -> str | None:
        async with opened(data, inline_tokens=0) as coatcheck:
            return (await coatcheck.put(OUTPUT)).id

    with opened(data) as coatcheck:
        assert coatcheck.put(OUTPUT).id == asyncio.run(program())


def test_two_programs_share_one_service_and_either_may_be_killed(data: Path) -> None:
    with holder(data, "of the first program") as (first, stored), opened(data) as coatcheck:
        pid = served_by(data)
        assert pid is not None
        first.kill()
        first.wait()
        assert runs(pid)
        assert coatcheck.put("of the second").stored
        assert "of the first program" in coatcheck.read_artifact(stored)
        assert served_by(data) == pid


def test_a_service_that_is_killed_is_started_again_with_all_that_it_acknowledged(data: Path) -> None:
    with holder(data, "acknowledged") as (_, stored), opened(data) as coatcheck:
        pid = served_by(data)
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        assert coatcheck.put("after the kill").stored
        assert "acknowledged" in coatcheck.read_artifact(stored)
        assert served_by(data) != pid


async def test_after_a_service_that_other_programs_reach_the_next_one_is_used_wherever_it_is(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with tempfile.TemporaryDirectory(prefix="run") as folder:
        with monkeypatch.context() as elsewhere:
            elsewhere.setenv("XDG_RUNTIME_DIR", folder)
            holding = ExitStack()
            _, stored = holding.enter_context(holder(data))
        with holding, opened(data) as coatcheck:
            async with opened(data) as waiting:
                assert "held" in coatcheck.read_artifact(stored)
                kill(data)
                assert coatcheck.put("on another socket").stored
                assert (await waiting.put("on another socket")).stored
                kill(data)
                with serving(data) as service:
                    receipt = coatcheck.put("over TCP")
                    assert service.content(receipt.id) == b"over TCP"
                    assert (await waiting.put("over TCP")).id == receipt.id


def test_a_service_that_is_told_to_stop_makes_way_for_the_next_one(data: Path) -> None:
    with holder(data, "before the stop") as (_, stored), opened(data) as coatcheck:
        pid = served_by(data)
        assert pid is not None
        os.kill(pid, signal.SIGTERM)
        wait_until(lambda: not runs(pid))
        assert coatcheck.put("after the stop").stored
        assert "before the stop" in coatcheck.read_artifact(stored)


def test_a_service_stays_while_one_block_is_open(data: Path) -> None:
    with opened(data) as coatcheck:
        pid = served_by(data)
        with opened(data):
            pass
        time.sleep(6)  # longer than it would stay alone
        assert served_by(data) == pid
        assert coatcheck.ready()


def test_programs_that_come_while_it_ends_get_the_next_one(data: Path) -> None:
    stored: set[str | None] = set()
    deadline = time.monotonic() + 12
    while time.monotonic() < deadline:
        with opened(data) as coatcheck:
            receipt = coatcheck.put("always the same")
            assert receipt.stored
            stored.add(receipt.id)
        time.sleep(4.9)  # the service decides to end just now
    assert len(stored) == 1


@pytest.mark.parametrize("version", [__version__, "99.0.0"])
def test_a_directory_that_a_service_of_its_own_has_is_shared(data: Path, version: str) -> None:
    with serving(data, command=(sys.executable, "-c", OTHER.format(version=version))) as service:
        receipt = service.post("stored over HTTP")
        with opened(data) as coatcheck:
            assert "stored over HTTP" in coatcheck.read_artifact(receipt["id"])
            assert served_by(data) == service.process.pid
        assert service.process.poll() is None


def test_an_address_that_a_dead_service_left_is_not_used(data: Path, tmp_path: Path) -> None:
    dead = start(data)
    dead.kill()
    with serving(tmp_path / "other") as other:  # which might have the dead one's port
        address = json.loads((data / ADDRESS_FILE).read_text())
        (data / ADDRESS_FILE).write_text(json.dumps({**address, "url": other.url}))
        with opened(data) as coatcheck:
            assert coatcheck.put("for this directory").stored
        assert other.get("/v1/artifacts")["items"] == []


def test_a_directory_whose_service_needs_a_key_is_refused_with_what_to_do(data: Path) -> None:
    with serving(data, require_keys="true") as service, pytest.raises(EmbeddedError, match="needs a key") as caught:
        opened(data).__enter__()
    assert service.url in str(caught.value)


def test_keys_that_exist_in_the_directory_are_not_needed_by_its_owner(data: Path) -> None:
    with opened(data):
        subprocess.run([*COMMAND, "key", "create", "somebody", "--data", str(data)], check=True, capture_output=True)
        with opened(data) as coatcheck:
            assert coatcheck.put("of the owner").stored


def test_sockets_that_a_dead_service_left_are_replaced(data: Path, runtime: Path) -> None:
    with opened(data):
        pid = served_by(data)
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: not runs(pid))
    assert {HTTP_SOCKET, LIFELINE_SOCKET} <= {path.name for path in runtime.rglob("*.sock")}
    with opened(data) as coatcheck:
        assert coatcheck.put("again").stored


def test_a_run_folder_on_a_long_path_is_somewhere_else(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = tmp_path / ("x" * 200)
    long.mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(long))
    with opened(data) as coatcheck:
        assert coatcheck.put("somewhere").stored
    assert not list(long.iterdir())


def test_where_nothing_can_be_written_any_more_the_folders_and_the_reason_are_named(
    data: Path, runtime: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TMPDIR", raising=False)
    private = ("unshare", "--user", "--map-root-user", "--mount")
    if shutil.which("unshare") is None or subprocess.run([*private, "true"], check=False).returncode:
        used("read-only disks: none, user namespaces are forbidden here")
        pytest.skip("user namespaces are forbidden here")
    before = [*private, "sh", "-c", READ_ONLY, "sh"]
    reasons = "; ".join(f"{base}/coatcheck-0[^;:]*: Read-only file system" for base in (runtime, "/tmp"))  # noqa: S108
    assert run_once(data).startswith("True ")
    wait_until(lambda: served_by(data) is None)
    sentence = run_once(data, before=before)
    assert re.fullmatch(
        rf"There is no folder for the service's sockets \({reasons}\)\. Set XDG_RUNTIME_DIR to a short path that only "
        r"you can open\.",
        sentence,
    )


@pytest.mark.parametrize("what", ["open to others", "a link", "somebody else's"])
def test_a_run_folder_that_somebody_else_could_use_is_refused(
    data: Path, runtime: Path, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    user = os.getuid()
    if what == "somebody else's":
        user += 1
        monkeypatch.setattr(os, "getuid", lambda: user)
    folder = runtime / f"coatcheck-{user}"
    if what == "a link":
        folder.symlink_to(runtime)
    elif what == "somebody else's":
        folder.mkdir(mode=0o700)
    else:
        folder.mkdir(mode=0o700)
        folder.chmod(0o777)
    with pytest.raises(EmbeddedError, match="only you can open"):
        opened(data).__enter__()


def test_a_directory_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no directory")
    with pytest.raises(EmbeddedError, match=r"file/data does not start: .+ \(its log: "):
        opened(tmp_path / "file" / "data").__enter__()


def test_a_service_of_an_older_release_is_used_with_a_warning(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coatcheck_client.options.NEEDED_SERVICE", "99.0.0")
    with pytest.warns(UserWarning, match=r"this client needs 99\.0\.0"), opened(data) as coatcheck:
        assert coatcheck.put("all the same").stored


def test_a_directory_of_a_newer_release_is_refused_as_it_is(data: Path) -> None:
    assert run_once(data, "of the newer one").startswith("True ")
    wait_until(lambda: served_by(data) is None)
    with closing(sqlite3.connect(data / "coatcheck.db")) as catalog:
        (revision,) = catalog.execute("SELECT version_num FROM alembic_version").fetchone()
        catalog.execute("UPDATE alembic_version SET version_num = '9999'")
        catalog.commit()
        assert "which is newer than this release's" in run_once(data)
        catalog.execute("UPDATE alembic_version SET version_num = ?", [revision])
        catalog.commit()
    with opened(data) as coatcheck:
        assert [each.size.bytes for each in coatcheck.each_artifact()] == [len("of the newer one")]


def test_a_full_disk_is_named_and_what_was_acknowledged_is_still_there(tmp_path: Path) -> None:
    if shutil.which("unshare") is None or shutil.which("nsenter") is None:
        used("full disks: none, util-linux is not here")
        pytest.skip("no unshare and nsenter")
    with small_disk(tmp_path / "disk", 24 * 2**20) as disk:
        if disk is None:
            used("full disks: none, user namespaces are forbidden here")
            pytest.skip("user namespaces are forbidden here")
        data, large = disk.folder / "data", random.Random(36).randbytes(45_000).hex()
        stored, artifact = run_once(data, "acknowledged", disk.entrance).split()
        disk.fill()
        assert re.fullmatch("False .* storage_full", run_once(data, large, disk.entrance))
        assert f"The disk that holds {disk.folder}/other is full." in run_once(disk.folder / "other", "", disk.entrance)
        disk.clear()
        assert (stored, run_once(data, "acknowledged", disk.entrance)) == ("True", f"True {artifact}")
        wait_until(lambda: served_by(disk.seen / "data") is None)


def test_without_the_service_the_extra_is_named(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "coatcheck", None)
    with pytest.raises(EmbeddedError, match=r"pip install 'coatcheck-client\[embedded\]'"):
        opened(data).__enter__()


def test_its_options_are_those_of_the_client_except_where_the_service_is() -> None:
    assert {*ClientOptions.__annotations__, "url", "transport"} == {*inspect.signature(Client).parameters}
