"""Stores blobs in an S3-compatible store, one object each, named `<prefix/><namespace>/<yyyymmdd>/<blob ID>`.

Each object is written once. Only the catalogue knows which objects are in use and which are garbage. Bytes are returned
as the store sends them; the layer above verifies the checksums of the frames.

A small blob is written by one conditional request, a large blob in parts. The client library joins parts without a
condition, although a name must only be written once. A large blob therefore claims its name first, by a conditional
request that writes an empty object, and the join replaces this object. Each step runs in a task of its own, so that a
request is not broken off if the caller is cancelled. `abort` waits for these tasks.
"""

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator, Coroutine
from typing import Final, Self

from coatcheck.adapters.blobs.filesystem import missing, too_short
from coatcheck.adapters.blobs.s3_bucket import PART_BYTES, ObjectStat, Patience, S3Bucket, Upload
from coatcheck.adapters.blobs.s3_location import S3Location, parse_s3_url
from coatcheck.core.artifact import Placement
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.ports.blobs import BlobStore, StoredName

_HOP_BYTES: Final = 256 * 1024
"""Bytes that are gathered before they are passed to the client library's threads, since each hand-over costs more time
than a few KiB."""


class S3Writer:
    """Writes one blob; implements BlobWriter. Only one task may use a writer, and must end it by `finish` or `abort`.

    If another writer has taken the name, `write` or `finish` raises FileExistsError.
    """

    def __init__(self, bucket: S3Bucket, name: str, nonce: str) -> None:
        self._bucket = bucket
        self._name = name
        self._nonce = nonce
        self._gathered: list[bytes] = []
        self._waiting = 0
        self._size = 0
        self._upload: Upload | None = None
        self._working: set[asyncio.Task[None]] = set()
        self._begun = False
        self._ended = False
        self._taken = False

    async def write(self, data: bytes) -> None:
        """Appends bytes. Raises `storage_full` or `storage_unavailable`; after an error, only `abort` may be called."""
        if self._ended:
            raise ValueError("this writer has ended")
        self._gathered.append(data)
        self._waiting += len(data)
        self._size += len(data)
        if self._waiting > (self._bucket.part_bytes if self._upload is None else _HOP_BYTES):
            await self._run(self._send())

    async def finish(self) -> None:
        """Returns once the store has acknowledged every byte under the name."""
        if self._ended:
            raise ValueError("this writer has ended")
        await self._run(self._put() if self._upload is None else self._join(self._upload))
        self._ended = True

    async def abort(self) -> None:
        """Removes the blob, even if it was finished. An object of another writer with the same name stays."""
        self._ended = True
        while self._working:
            await asyncio.wait(self._working)
        await asyncio.shield(asyncio.ensure_future(self._discard()))

    async def _run(self, step: Coroutine[None, None, None]) -> None:
        task = asyncio.ensure_future(step)
        self._begun = True
        self._working.add(task)
        task.add_done_callback(self._finish_work)
        await asyncio.shield(task)

    def _finish_work(self, task: asyncio.Task[None]) -> None:
        self._working.discard(task)
        if task.cancelled() or task.exception() is not None:
            self._ended = True
            self._gathered.clear()

    async def _send(self) -> None:
        if self._upload is None:
            await self._put_new(b"")
            self._upload = self._bucket.upload(self._name, self._nonce)
        data = b"".join(self._gathered)
        self._gathered, self._waiting = [], 0
        await self._upload.write(data)

    async def _put(self) -> None:
        data = b"".join(self._gathered)
        self._gathered.clear()
        await self._put_new(data)

    async def _put_new(self, data: bytes) -> None:
        try:
            await self._bucket.put_new(self._name, data, self._nonce)
        except FileExistsError:
            self._taken = True
            raise

    async def _join(self, upload: Upload) -> None:
        await self._send()
        try:
            await upload.join()
        except CoatcheckError:
            # The store may have joined the parts although its answer was lost. The properties of the object show it.
            if await self._bucket.look(self._name) != ObjectStat(self._size, self._nonce):
                raise

    async def _discard(self) -> None:
        if not self._begun or self._taken:
            return
        try:
            if self._upload is not None:
                await self._upload.abandon()
        finally:
            object_stat = await self._bucket.look(self._name)
            if object_stat is not None and object_stat.nonce == self._nonce:
                await self._bucket.delete(self._name)


_PROBE = "ready-probe"
"""Name of an object that never exists. It is no blob's name, since names of blobs have three segments."""
_WRITTEN = "write-probe"
"""Name of the object that is written to prove that the store accepts writes. It is no blob's name."""
_ROOM_BYTES = 128 * 1024
"""Bytes of the object that proves that a full store has room again: as many as a small payload takes."""
MARK = "coatcheck-store"
"""Name of the object that says to which database the blobs belong. It is no blob's name."""


class S3BlobStore:
    """Stores blobs in one bucket of an S3 store; implements BlobStore. Any number of processes may share the bucket."""

    def __init__(self, location: S3Location, patience: Patience | None = None, *, part_bytes: int = PART_BYTES) -> None:
        """Sends no request yet. `part_bytes` should be at least 5 MiB, since Amazon refuses smaller parts."""
        self._location = location
        self._bucket = S3Bucket(location, patience or Patience(), part_bytes)
        self.others: tuple[BlobStore, ...] = ()
        """Stores that were used before a switch to S3. As a switch moves no blobs, these stores still have the blobs
        whose rows name another placement than S3."""

    @classmethod
    def open(cls, url: str, patience: Patience | None = None) -> Self:
        """Returns a store at `s3://bucket/prefix?option=value&…` (see `parse_s3_url`), without sending a request.

        Credentials come from AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN, a web identity token, or
        the role of the container or instance.

        Raises:
            ValueError: the URL is wrong; the text says why.
        """
        return cls(parse_s3_url(url), patience)

    async def reaches(self) -> None:
        """Returns if the bucket can be reached and accepts our credentials; sends one small request.

        The request is for an object that does not exist. If the credentials lack s3:ListBucket, the store answers 403
        instead of 404.

        Raises:
            CoatcheckError: `storage_unavailable`; the text says what an operator must do.
        """
        await self._bucket.get(f"{self._location.prefix}{_PROBE}", 0, 1)

    async def check_reads(self) -> None:
        """Returns if the location has its mark and `reaches` succeeds; sends two small requests.

        The mark proves that this is the bucket with the blobs: an emptied bucket, or another one, would also answer.
        The stores in `others` are checked too.

        Raises:
            CoatcheckError: `storage_unavailable`; the text says what an operator must do.
        """
        async with self._bucket.probing():
            mark, _ = await asyncio.gather(self.mark(), self.reaches())
        if mark is None:
            raise CoatcheckError(
                Code.STORAGE_UNAVAILABLE,
                f"The S3 location no longer has its mark ({MARK}): it was emptied, or is another one. Restore it, or "
                "correct the bucket, the prefix or the endpoint in COATCHECK_BLOB_URL.",
            )
        for store in self.others:
            await store.check_reads()

    async def check_writes(self, *, room: bool = False) -> None:
        """Returns if the store accepts a conditional write; sends one request.

        After the first check the object exists. From then on the store checks the credentials and answers that the
        object exists, so that a bucket with versions gets no further version. With `room`, the object is replaced by
        128 KiB instead, which a full store refuses.
        """
        async with self._bucket.probing():
            await self._bucket.try_write(f"{self._location.prefix}{_WRITTEN}", _ROOM_BYTES if room else 0)

    @property
    def placement(self) -> Placement:
        """The placement of blobs in this store: `s3`."""
        return "s3"

    async def create(self, namespace: str, blob_id: str) -> S3Writer:
        """Begins a blob, without sending a request. `write` or `finish` raises FileExistsError if the name is taken."""
        return S3Writer(self._bucket, self._location.name(namespace, blob_id), secrets.token_hex(16))

    @property
    def where(self) -> str:
        """The URL of the bucket and the prefix."""
        return f"s3://{self._location.bucket}/{self._location.prefix}".rstrip("/")

    async def mark(self) -> str | None:
        """Returns the text of the location's mark; None if it has no mark."""
        data = await self._bucket.get(f"{self._location.prefix}{MARK}", 0, 256)
        return None if data is None else data.decode(errors="replace")

    async def put_mark(self, text: str) -> str:
        """Writes the mark by a conditional request, unless the location has one; returns the text of its mark."""
        with contextlib.suppress(FileExistsError):
            await self._bucket.put_new(f"{self._location.prefix}{MARK}", text.encode(), secrets.token_hex(16))
        return await self.mark() or ""

    async def read(self, namespace: str, blob_id: str, start: int, length: int, *, fresh: bool = False) -> bytes:
        """Returns exactly `length` stored bytes from `start`, by one request.

        With `fresh`, the request uses a new connection, and caches between us and the store are bypassed.

        Raises:
            CoatcheckError: `integrity` if the blob does not exist or does not have all of these bytes.
        """
        if length == 0:
            await self._reaches(namespace, blob_id, start)
            return b""
        data = await self._bucket.get(self._location.name(namespace, blob_id), start, length, fresh=fresh)
        if data is None:
            raise missing(blob_id)
        if not data:
            await self._reaches(namespace, blob_id, start + length)
        if len(data) != length:
            raise too_short(blob_id, start + length, start + len(data))
        return data

    async def size(self, namespace: str, blob_id: str) -> int | None:
        """Returns the number of stored bytes; None if the store says that there is no such blob."""
        object_stat = await self._bucket.look(self._location.name(namespace, blob_id))
        return None if object_stat is None else object_stat.size

    async def remove(self, namespace: str, blob_id: str) -> bool:
        """Removes a blob durably. Returns False if it did not exist.

        The answer to a deletion does not say whether the object existed, so another request checks this first. If two
        callers remove a blob at the same time, both may get True.
        """
        name = self._location.name(namespace, blob_id)
        if await self._bucket.look(name) is None:
            return False
        await self._bucket.delete(name)
        return True

    async def names(self) -> AsyncIterator[StoredName]:
        """Yields every blob under the prefix, including the empty objects by which writers have claimed a name.

        The parts of unfinished uploads are not listed.
        """
        async for entry in self._bucket.objects(self._location.prefix):
            blob_name = self._location.parse(entry.name)
            if blob_name is not None:
                yield StoredName(
                    namespace=blob_name.namespace, id=blob_name.blob_id, size=entry.size, modified_at=entry.modified_at
                )

    async def _reaches(self, namespace: str, blob_id: str, end: int) -> None:
        size = await self.size(namespace, blob_id)
        if size is None:
            raise missing(blob_id)
        if size < end:
            raise too_short(blob_id, end, size)
