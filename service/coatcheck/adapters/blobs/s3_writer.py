"""Writes one blob to S3: a small one in a single conditional request, a large one in parts.

This client joins parts unconditionally, but a name must be written once. So a large blob first claims its name with an
empty object, by the same conditional request as for a small one; the join replaces only what was claimed. Steps run in
tasks of their own: a cancelled caller leaves no half-made request, and `abort` waits for it.
"""

import asyncio
from collections.abc import Coroutine
from typing import Final

from coatcheck.adapters.blobs.s3_bucket import ObjectStat, S3Bucket, Upload
from coatcheck.core.errors import CoatcheckError

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
