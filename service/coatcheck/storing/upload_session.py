"""Receives a payload: worker threads hash, compress and count its blocks while more arrive; then its bytes are stored.

Small payloads stay in memory until the commit; once the stored bytes exceed the inline limit, they go to the blob
store, after an intent has been recorded. After a crash, the reaper removes an intent without a commit when its lease
has ended, and the sweep removes the bytes that were written under it.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Coroutine
from typing import Protocol, Self, TypeVar

from coatcheck.core.artifact import Blob, Caller
from coatcheck.core.encoding.payload_encoder import PayloadEncoder
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.ports.blobs import AbandonUpload, BlobWriter, RenewUpload
from coatcheck.runtime.circuit_breaker import REFUSALS
from coatcheck.runtime.work_placement import in_pool
from coatcheck.storing.evict import Reservation
from coatcheck.storing.ingest_deps import IngestDeps

log = logging.getLogger(__name__)

BLOCK = 512 * 1024
"""Bytes gathered before a worker thread takes them: enough that the hand-over costs nothing, few enough that the last
block is digested within milliseconds of its arrival."""

HELD = 4 * 1024**2
"""Maximum stored bytes of a payload that are held in memory until its commit, to be stored later if that fails."""


async def split_blocks(data: bytes) -> AsyncIterator[bytes]:
    """Yields a payload that is in memory, in pieces of BLOCK bytes, as if it were arriving."""
    for at in range(0, len(data), BLOCK):
        yield data[at : at + BLOCK]


class CommitResult(Protocol):
    """What a commit says about the stored bytes that it was given."""

    @property
    def blob_used(self) -> bool:
        """Whether an artifact now points at these bytes."""
        ...


C = TypeVar("C", bound=CommitResult)


class UploadSession:
    """Receives one payload. It is an async context manager, whose exit removes bytes that no commit points at."""

    def __init__(
        self,
        deps: IngestDeps,
        caller: Caller,
        encoder: PayloadEncoder,
        *,
        limited: bool = True,
        refusal: CoatcheckError | None = None,
    ) -> None:
        """Prepares an upload, and writes nothing yet.

        Args:
            deps: the dependencies of an ingest.
            caller: who sends the payload.
            encoder: encodes the payload.
            limited: whether the namespace's quota limits the payload; False: the payload may exceed the quota.
            refusal: why nothing of the payload is stored, now or later; None: the payload is to be stored.
        """
        self._deps = deps
        self._caller = caller
        self._pending: asyncio.Task[None] | None = None
        """The task that digests a block or syncs the file; at most one at a time, because blocks have an order."""
        self._writer: BlobWriter | None = None
        """The writer of the payload's file; None: all bytes so far fit inline, or the store refused to begin."""
        self._lease_until = deps.clock.now()
        """End of the intent's lease; meaningless while `begun` is false."""
        self._held: list[bytes] | None = [] if refusal is None else None
        """The stored bytes so far, in pieces; None: they are too many to hold, or they are not to be stored."""
        self._reserved_bytes = 0
        """Bytes of memory that the fallback buffer has reserved for this upload."""
        self.begun = False
        """Whether the bytes go to the blob store, under an intent."""
        self._committing: asyncio.Task[CommitResult] | None = None
        """The commit, if the bytes are in the blob store: its result decides whether they stay there."""
        self.encoder = encoder
        self.sheds = refusal is not None
        """Whether the payload only gets a card, because the service is too busy."""
        self.refusal = refusal
        """Why the payload is not stored, once that is known. Digesting continues, because the payload still gets a
        card."""
        self.blob_id = deps.new_blob_id()
        self._room = Reservation(deps.catalog, deps.rooms, caller.namespace, self.blob_id, limited=limited)

    async def __aenter__(self) -> Self:
        """Returns the upload itself; nothing is written yet."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Removes the bytes and the intent, unless a commit points at the bytes.

        The removal is completed even if the caller's task is cancelled. A storage that has refused the payload may take
        long to answer; then the removal continues in the background.
        """
        if self._reserved_bytes or self._pending:  # what is still being digested must reserve nothing after this
            self._drop_held_bytes()
        if self._is_kept() or not (self.begun or self._pending or self._committing):
            return
        # The removal is a shielded task of its own, because a cancelled caller must not stop it half-way.
        undoing = asyncio.ensure_future(self._undo())
        if self.refusal is None:
            await asyncio.shield(undoing)
            return
        # The set keeps the task alive: the event loop holds only a weak reference.
        self._deps.afterwards.add(undoing)
        undoing.add_done_callback(self._deps.afterwards.discard)

    async def take(self, block: bytes) -> None:
        """Begins to digest a block in the background, once the block before it is digested.

        Raises the error that the digesting of the block before it has raised, if any.
        """
        await self._await_pending()
        self._pending = asyncio.ensure_future(self._digest(block))

    async def wait_until_digested(self) -> None:
        """Returns once every block is digested. Raises the error of the last block, if any."""
        await self._await_pending()

    async def end(self, chunk: bytes) -> None:
        """Takes the last stored bytes, which `PayloadEncoder.end` returned, and begins to make all bytes durable.

        A file is then synced in the background. Inline bytes become durable only with the commit.
        """
        await self._store_chunk(chunk)
        if self._writer is not None and self.refusal is None:
            self._pending = asyncio.ensure_future(self._finish(self._writer))

    async def durable(self) -> None:
        """Returns once the bytes of a file are durable, so that the commit may follow.

        Raises:
            CoatcheckError: the error with which the payload was refused, such as `storage_full`, `storage_unavailable`,
                `quota_exceeded` or `overloaded`.
        """
        await self._await_pending()
        if self.refusal is not None:
            raise self.refusal

    async def _await_pending(self) -> None:
        pending, self._pending = self._pending, None
        if pending is not None:
            await pending

    async def _digest(self, block: bytes) -> None:
        await self._store_chunk(await in_pool(self._deps.pool, self.encoder.feed, block))

    async def _finish(self, writer: BlobWriter) -> None:
        with self._deps.blobs_breaker.guard_call():
            await writer.finish()

    async def _store_chunk(self, chunk: bytes) -> None:
        self._hold(chunk)
        if self.refusal is None:
            try:
                await self._write_blob(chunk)
            except CoatcheckError as error:
                # Digesting continues in a full namespace too: the payload may already exist.
                if error.code not in REFUSALS and error.code is not Code.QUOTA_EXCEEDED:
                    raise
                self.refusal = error

    def _hold(self, chunk: bytes) -> None:
        """Holds bytes in memory that may be stored inline, or later by the fallback buffer, if the buffer has room."""
        if self._held is None:
            return
        self._held.append(chunk)
        size, inline_bytes = self.encoder.stored_size, self._deps.inline_bytes
        if size <= HELD and self._deps.fallback.hold(max(0, size - inline_bytes) - self._reserved_bytes):
            self._reserved_bytes = max(0, size - inline_bytes)
        elif self._writer is not None or self.refusal is not None:  # otherwise the first write still needs them
            self._drop_held_bytes()

    def _drop_held_bytes(self) -> None:
        """Holds no bytes any more, and releases the memory that is reserved for them."""
        reserved_bytes, self._reserved_bytes, self._held = self._reserved_bytes, 0, None
        self._deps.fallback.let_go(reserved_bytes)

    async def _write_blob(self, chunk: bytes) -> None:
        """Passes the bytes to the blob store, once they are too many to be inline."""
        if self._writer is None:
            if self.encoder.stored_size <= self._deps.inline_bytes:
                return
            self._writer = await self._begin()
            # The first write passes everything held so far, this chunk included.
            chunk = b"".join(self._held or ())
        # The lease is renewed and room reserved before bytes are written: once the reaper has taken the intent, nothing
        # more may be written under it.
        await self._renew()
        with self._deps.catalog_breaker.guard_call():
            if not await self._room.cover(self.encoder.stored_size):
                raise fenced_error()
        if chunk:
            with self._deps.blobs_breaker.guard_call():
                await self._writer.write(chunk)

    async def _begin(self) -> BlobWriter:
        deps = self._deps
        self._lease_until = deps.clock.now() + deps.lease
        # `begun` is set before the intent is committed: if nobody knows whether that commit succeeded, the exit must
        # abandon the intent.
        self.begun = True
        with deps.catalog_breaker.guard_call():
            await self._room.begin(deps.blobs.placement, self._lease_until, self.encoder.stored_size)
        with deps.blobs_breaker.guard_call():
            return await deps.blobs.create(self._caller.namespace, self.blob_id)

    async def _renew(self) -> None:
        deps = self._deps
        now = deps.clock.now()
        # The lease is renewed only when a third of it has passed. So most blocks cost no transaction, and a slow block
        # still has two thirds of the lease.
        if self._lease_until - now > deps.lease * 2 / 3:
            return
        self._lease_until = now + deps.lease
        change = RenewUpload(namespace=self._caller.namespace, blob_id=self.blob_id, lease_until=self._lease_until)
        with deps.catalog_breaker.guard_call():
            has_intent = await deps.catalog.commit(change)
        if not has_intent:
            raise fenced_error()

    def blob(self) -> tuple[Blob, bytes | None]:
        """Returns the blob to commit, and its stored bytes if they are inline, otherwise None. Call it after `end`."""
        placement = "inline" if self._writer is None else self._deps.blobs.placement
        index = self.encoder.index
        blob = Blob(
            id=self.blob_id,
            placement=placement,
            size=index.size,
            stored_size=index.stored_size,
            sha256=self.encoder.sha256,
            index=index.pack(),
        )
        return blob, self.read_held_bytes() if self._writer is None else None

    def read_held_bytes(self) -> bytes | None:
        """Returns all stored bytes. Call it after `end`.

        Returns None if the bytes exceed HELD or the room in the fallback buffer, or were not to be stored at all.
        """
        return None if self._held is None else b"".join(self._held)

    async def run_commit(self, commit: Coroutine[None, None, C]) -> C:
        """Awaits the commit, and returns its result.

        If the bytes are in the blob store, the commit continues even if the caller is cancelled, because its result
        decides whether the bytes are kept.
        """
        if not self.begun:
            return await commit
        committing = asyncio.create_task(commit)
        self._committing = committing
        return await asyncio.shield(committing)

    def _is_kept(self) -> bool:
        """Returns whether the commit points at the bytes, or perhaps does; then this session must not remove them.

        If the catalogue did not answer, the commit may be durable all the same, so the file and the intent stay. If the
        commit is not durable, the reaper has both removed when the lease has ended.
        """
        commit_task = self._committing
        if commit_task is None or not commit_task.done():
            return False
        # Nobody knows how far a cancelled commit got: the reaper decides when the lease has ended.
        if commit_task.cancelled():
            return True
        error = commit_task.exception()
        if error is not None:
            return isinstance(error, CoatcheckError) and error.code is Code.STORAGE_UNAVAILABLE
        return commit_task.result().blob_used

    async def _undo(self) -> None:
        """Removes the bytes, and then the intent.

        If the process crashes or a removal fails in between, the intent remains, by which the reaper finds the bytes.
        """
        if self._committing is not None and not self._committing.done():
            # Removing the file while its commit is under way could leave a row without bytes.
            await asyncio.wait([self._committing])
            if self._is_kept():
                return
        if self._pending is not None:
            # A thread cannot be stopped: the writer must not be aborted while the last block is on its way into it.
            await asyncio.wait([self._pending])
            if not self._pending.cancelled():
                self._pending.exception()  # marks the error as seen: it no longer matters
        try:
            if self._writer is not None:
                await self._writer.abort()
            if self.begun:
                await self._deps.catalog.commit(AbandonUpload(namespace=self._caller.namespace, blob_id=self.blob_id))
        except CoatcheckError as error:
            log.warning("upload %s is left to the reaper: %s", self.blob_id, error.detail)


def fenced_error() -> CoatcheckError:
    """Returns the error for an upload whose lease ended before it was committed."""
    return CoatcheckError(
        Code.UPLOAD_FENCED, "The upload made no progress for too long and was given up. Retry the same call."
    )


async def blocks(source: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Gathers a stream's chunks into blocks of at least BLOCK bytes. The last block may be shorter, or empty."""
    parts: list[bytes] = []
    size = 0
    async for chunk in source:
        parts.append(chunk)
        size += len(chunk)
        if size >= BLOCK:
            yield b"".join(parts)
            parts.clear()
            size = 0
    yield b"".join(parts)
