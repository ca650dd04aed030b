"""Blobs in an S3-compatible store: `<prefix/><namespace>/<yyyymmdd>/<blob ID>`, written once, one object each.

The store has no rows: only the catalogue knows what is in use and what is garbage. Bytes are returned as received; the
frames' checksums, one layer up, decide whether they are those that were written.

A small blob is written by one conditional request, a large one in parts. The client joins parts unconditionally, but a
name must be written once: so a large blob first claims its name with an empty object, by a conditional request, and the
join replaces only what was claimed. Steps run in tasks of their own: a cancelled caller leaves no half-made request,
and `abort` waits for it.
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
"""Bytes gathered before they are passed to the upload: handing them to the client's threads costs more than a few
KiB."""


class S3Writer:
    """A BlobWriter for one name. One task uses it; exactly one of `finish` and `abort` ends it.

    If the name turns out to be taken, `write` or `finish` raise FileExistsError.
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
        """Appends bytes. Raises `storage_full` or `storage_unavailable`; after that, only `abort` may follow."""
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
        """Removes what was written, even the finished object; another writer's object under the name stays."""
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
            # The store may have joined the parts before its answer was lost: the object itself tells.
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
"""A name that no object has. No blob has it either: it is one segment, and theirs have three."""
_WRITTEN = "write-probe"
"""The object that proves that one can be written."""
_ROOM_BYTES = 128 * 1024
"""As much as a small payload takes, for a store that was full."""
MARK = "coatcheck-store"
"""The object under the prefix that names the database of the blobs; no blob has such a name either."""


class S3BlobStore:
    """A BlobStore in one bucket of an S3 store. Any number of processes may share it."""

    def __init__(self, location: S3Location, patience: Patience | None = None, *, part_bytes: int = PART_BYTES) -> None:
        """Makes no request yet. Amazon refuses parts of less than 5 MiB."""
        self._location = location
        self._bucket = S3Bucket(location, patience or Patience(), part_bytes)
        self.others: tuple[BlobStore, ...] = ()
        """Stores from before a switch to S3: they still have the blobs whose rows name their placement. Nothing is
        moved."""

    @classmethod
    def open(cls, url: str, patience: Patience | None = None) -> Self:
        """Returns a store at `s3://bucket/prefix?option=value&…`, see `parse_s3_url`, without any request.

        Credentials come from AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN, a web identity token, or
        the role of the container or instance.

        Raises:
            ValueError: the URL is wrong; the text says why.
        """
        return cls(parse_s3_url(url), patience)

    async def reaches(self) -> None:
        """Returns if the bucket responds and accepts our credentials, using one small request.

        The object requested does not exist. Without s3:ListBucket the store would answer 403 instead of saying so.

        Raises:
            CoatcheckError: `storage_unavailable`, saying what an operator must do.
        """
        await self._bucket.get(f"{self._location.prefix}{_PROBE}", 0, 1)

    async def check_reads(self) -> None:
        """Returns if the store finds its mark, and reports that an object does not exist: two small requests.

        The mark proves that this is still the bucket that has the blobs: an emptied or another one answers as well.
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
        """Returns if the store accepts a conditional write of one name, by one request.

        The object is there after the first time, and the store answers so, after it has checked the credentials: no
        version is made. With `room`, the object is replaced, as a full store refuses that.
        """
        async with self._bucket.probing():
            await self._bucket.try_write(f"{self._location.prefix}{_WRITTEN}", _ROOM_BYTES if room else 0)

    @property
    def placement(self) -> Placement:
        """Is always `s3`."""
        return "s3"

    async def create(self, namespace: str, blob_id: str) -> S3Writer:
        """Starts a blob, without a request; `write` or `finish` raise if the name is taken."""
        return S3Writer(self._bucket, self._location.name(namespace, blob_id), secrets.token_hex(16))

    @property
    def where(self) -> str:
        """Returns the bucket and the prefix."""
        return f"s3://{self._location.bucket}/{self._location.prefix}".rstrip("/")

    async def mark(self) -> str | None:
        """Returns the mark's text; None if there is no mark."""
        data = await self._bucket.get(f"{self._location.prefix}{MARK}", 0, 256)
        return None if data is None else data.decode(errors="replace")

    async def put_mark(self, text: str) -> str:
        """Sets the mark unless there is one, by a conditional request; returns the mark in force."""
        with contextlib.suppress(FileExistsError):
            await self._bucket.put_new(f"{self._location.prefix}{MARK}", text.encode(), secrets.token_hex(16))
        return await self.mark() or ""

    async def read(self, namespace: str, blob_id: str, start: int, length: int, *, fresh: bool = False) -> bytes:
        """Returns exactly `length` stored bytes from `start`, by one request.

        Raises `integrity` if they are not all there.

        With `fresh`, it uses a new connection, and tells caches on the way to contact the store.
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

        S3 does not say whether there was something to delete, so this checks first. Two concurrent removals may both
        return True.
        """
        name = self._location.name(namespace, blob_id)
        if await self._bucket.look(name) is None:
            return False
        await self._bucket.delete(name)
        return True

    async def names(self) -> AsyncIterator[StoredName]:
        """Yields every blob under the prefix, including empty ones that claim a name.

        Not parts of unfinished uploads.
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
