"""What the file store does when the k-th system call fails, in which order it calls, and what it never does."""

import asyncio
import errno
import random
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

import pytest
from typing_extensions import override

from coatcheck.adapters.blobs.files import FileBlobStore
from coatcheck.adapters.blobs.filesystem import FileEntry, FileSystem
from coatcheck.core.encoding.frames import is_blob_id, new_blob_id
from coatcheck.core.errors import CoatcheckError, Code

T = TypeVar("T")
NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


class FaultyFileSystem(FileSystem):
    """Records each call; fails the one that is due; writes at most `most` bytes at a time."""

    def __init__(self, most: int = 1 << 30) -> None:
        self.calls: list[str] = []
        self.fail_at: int | None = None
        self.number = errno.EIO
        self.most = most
        self.open_files = 0
        self._lock = threading.Lock()

    def _run(self, name: str, call: Callable[[], T]) -> T:
        with self._lock:
            due = len(self.calls) == self.fail_at
            self.calls.append(name)
        if due:
            raise OSError(self.number, "made to fail")
        return call()

    @override
    def make_directory(self, path: str) -> None:
        self._run(f"mkdir {Path(path).name}", lambda: super(FaultyFileSystem, self).make_directory(path))

    @override
    def create(self, path: str) -> int:
        fd = self._run("create", lambda: super(FaultyFileSystem, self).create(path))
        self.open_files += 1
        return fd

    @override
    def write(self, fd: int, data: memoryview) -> int:
        return self._run("write", lambda: super(FaultyFileSystem, self).write(fd, data[: self.most]))

    @override
    def flush(self, fd: int) -> None:
        self._run("flush", lambda: super(FaultyFileSystem, self).flush(fd))

    @override
    def sync(self, fd: int) -> None:
        self._run("sync", lambda: super(FaultyFileSystem, self).sync(fd))

    @override
    def sync_directory(self, path: str) -> None:
        self._run(f"syncdir {Path(path).name}", lambda: FileSystem().sync_directory(path))

    @override
    def close(self, fd: int) -> None:
        self.open_files -= 1
        super().close(fd)  # also when it reports a failure, close has let go of the file
        self._run("close", lambda: None)

    @override
    def unlink(self, path: str) -> None:
        self._run("unlink", lambda: super(FaultyFileSystem, self).unlink(path))

    @override
    def read(self, path: str, start: int, length: int) -> bytes:
        return self._run("read", lambda: super(FaultyFileSystem, self).read(path, start, length))

    @override
    def files(self, path: str) -> list[FileEntry]:
        return self._run("files", lambda: super(FaultyFileSystem, self).files(path))


async def store_blob(store: FileBlobStore, blob_id: str, data: bytes) -> None:
    writer = await store.create("acme", blob_id)
    try:
        for start in range(0, len(data), 300_000):
            await writer.write(data[start : start + 300_000])
        await writer.finish()
    except CoatcheckError:
        await writer.abort()
        raise


async def failure_of(work: Awaitable[None]) -> Code | None:
    try:
        await work
    except CoatcheckError as error:
        return error.code
    return None


def blob_id(seed: int) -> str:
    return new_blob_id(NOW, random.Random(seed).randbytes(10))


async def test_a_blob_is_synced_before_its_name_and_a_new_shard_before_its_first_file(tmp_path: Path) -> None:
    with ThreadPoolExecutor(1) as pool:
        files = FaultyFileSystem()
        store = FileBlobStore(tmp_path, pool, files)
        first = blob_id(1)
        second = first[:-4] + "0" + first[-3:]
        assert first != second
        await store_blob(store, first, b"one")
        await store_blob(store, second, b"two")
    shard = first[-2:]
    assert files.calls == [
        "mkdir blobs",
        f"syncdir {tmp_path.name}",
        f"syncdir {tmp_path.parent.name}",
        f"mkdir {shard}",
        "syncdir blobs",
        *["create", "write", "sync", "close", f"syncdir {shard}"],
        *["create", "write", "sync", "close", f"syncdir {shard}"],
    ]


async def test_a_shard_that_another_made_is_still_synced_before_it_is_trusted(tmp_path: Path) -> None:
    name = blob_id(1)
    (tmp_path / "blobs" / name[-2:]).mkdir(parents=True)
    with ThreadPoolExecutor(1) as pool:
        files = FaultyFileSystem()
        store = FileBlobStore(tmp_path, pool, files)
        await store_blob(store, name, b"one")
    assert "syncdir blobs" in files.calls


@pytest.mark.parametrize("is_top_gone", [False, True])
async def test_a_shard_that_vanished_is_made_and_synced_again_unless_all_blobs_vanished(
    tmp_path: Path, is_top_gone: bool
) -> None:
    files, name = FaultyFileSystem(), blob_id(1)
    top, shard = tmp_path / "blobs", name[-2:]
    with ThreadPoolExecutor(1) as pool:
        store = FileBlobStore(tmp_path, pool, files)
        await store_blob(store, name, b"one")
        assert await store.remove("acme", name)
        (top / shard).rmdir()
        if is_top_gone:
            top.rmdir()
        files.calls.clear()
        assert (await failure_of(store_blob(store, name, b"two")) is None) != is_top_gone
    assert top.exists() != is_top_gone
    if not is_top_gone:
        calls = [call for call in files.calls if not call.startswith("size")]
        assert calls[:4] == ["create", f"mkdir {shard}", "syncdir blobs", "create"]
        assert (top / shard / name).exists()


async def test_a_large_blob_is_flushed_while_it_is_written(tmp_path: Path) -> None:
    with ThreadPoolExecutor(2) as pool:
        files = FaultyFileSystem()
        store = FileBlobStore(tmp_path, pool, files)
        await store_blob(store, blob_id(1), bytes(17 * 1024 * 1024))
    assert files.calls.count("flush") >= 3
    assert files.calls.index("flush") < len(files.calls) - 1 - files.calls[::-1].index("write")


@pytest.mark.parametrize(
    ("number", "code"),
    [
        (errno.EIO, Code.STORAGE_UNAVAILABLE),
        (errno.ENOSPC, Code.STORAGE_FULL),
        (errno.EDQUOT, Code.STORAGE_FULL),
        (errno.EFBIG, Code.STORAGE_FULL),
        (errno.EMFILE, Code.STORAGE_UNAVAILABLE),
    ],
)
async def test_whichever_call_fails_nothing_is_acknowledged_nothing_is_left_and_the_next_blob_succeeds(
    tmp_path: Path, number: int, code: Code
) -> None:
    data = random.Random(5).randbytes(9_000_000)
    with ThreadPoolExecutor(2) as pool:
        files = FaultyFileSystem(most=1 << 20)
        store = FileBlobStore(tmp_path, pool, files)
        files.number = number
        for k in range(200):
            files.calls.clear()
            files.fail_at = k
            name = blob_id(k)
            if (failure := await failure_of(store_blob(store, name, data))) is not None:
                assert failure is code, files.calls
                files.fail_at = None
                assert [entry.id async for entry in store.names()] == [], files.calls
                assert files.open_files == 0
                continue
            assert len(files.calls) <= k
            assert await store.read("acme", name, 0, len(data)) == data
            break
        else:
            pytest.fail("every run met its failure: nothing ever succeeded")
    assert k > 20


async def test_a_flush_that_failed_in_the_background_is_never_forgotten(tmp_path: Path) -> None:
    with ThreadPoolExecutor(2) as pool:
        files = FaultyFileSystem()
        store = FileBlobStore(tmp_path, pool, files)
        writer = await store.create("acme", blob_id(1))
        files.calls.clear()
        files.fail_at = 1
        await writer.write(bytes(5_000_000))
        with pytest.raises(CoatcheckError) as caught:
            await writer.finish()
        assert (caught.value.code, files.calls) == (Code.STORAGE_UNAVAILABLE, ["write", "flush"])
        await writer.abort()


class SlowFileSystem(FileSystem):
    """Holds every write until it is let go."""

    def __init__(self) -> None:
        self.entered = threading.Event()
        self.go = threading.Event()

    @override
    def write(self, fd: int, data: memoryview) -> int:
        self.entered.set()
        self.go.wait(10)
        return super().write(fd, data)


async def test_a_cancelled_write_is_over_before_its_file_is_closed(tmp_path: Path) -> None:
    loop = asyncio.get_running_loop()
    with ThreadPoolExecutor(2) as pool:
        files = SlowFileSystem()
        store = FileBlobStore(tmp_path, pool, files)
        writer = await store.create("acme", blob_id(1))
        writing = asyncio.create_task(writer.write(bytes(400_000)))
        await loop.run_in_executor(None, files.entered.wait, 10)
        writing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await writing
        aborting = asyncio.create_task(writer.abort())
        await asyncio.sleep(0)
        assert not aborting.done()
        files.go.set()
        await aborting
        assert [name async for name in store.names()] == []


async def test_only_files_with_a_blob_name_in_their_own_shard_are_listed(tmp_path: Path) -> None:
    with ThreadPoolExecutor(2) as pool:
        store = FileBlobStore(tmp_path, pool)
        name = blob_id(1)
        await store_blob(store, name, b"data")
        shard = tmp_path / "blobs" / name[-2:]
        (shard / "README").write_text("not ours")
        (tmp_path / "blobs" / "stray").write_text("not ours")
        assert [entry.id async for entry in store.names()] == [name]


def test_blob_names_are_version_7_uuids_in_the_order_of_time() -> None:
    # The example of RFC 9562, appendix A.6.
    randomness = bytes.fromhex("0cc3" + "18c4dc0c0c07398f")
    name = new_blob_id(datetime(2022, 2, 22, 19, 22, 22, tzinfo=UTC), randomness)
    assert name == "017f22e279b07cc398c4dc0c0c07398f"
    assert is_blob_id(name)
    assert name < new_blob_id(datetime(2022, 2, 22, 19, 22, 22, 1000, tzinfo=UTC), bytes(10))
