"""Checks whether the bytes of a blob still exist, and marks blobs whose bytes are lost.

A row says that its blob has bytes, but a disk may lose them. A blob whose bytes are missing or damaged is marked
corrupt: no new artifact points at such a blob, and the next post of the same payload replaces the blob for every
artifact that points at it. This module removes nothing.
"""

import asyncio
import logging

from coatcheck.core.artifact import Blob
from coatcheck.core.errors import CoatcheckError
from coatcheck.ports.blobs import BlobStore
from coatcheck.ports.catalog import Catalog
from coatcheck.ports.maintenance import MarkBlobCorrupt
from coatcheck.ports.telemetry import Clock
from coatcheck.storing.blob_routing import store_of

log = logging.getLogger(__name__)


class BlobHealth:
    """Checks a blob before anything relies on its bytes, and marks it in the catalogue if the bytes are lost."""

    def __init__(self, catalog: Catalog, blobs: BlobStore, clock: Clock) -> None:
        self._catalog = catalog
        self._blobs = blobs
        self._clock = clock
        self._running: dict[str, asyncio.Task[None]] = {}
        """Marks that are being recorded, by blob ID, so that many readers of one damaged blob cause a single change."""

    async def holds(self, namespace: str, blob: Blob) -> bool:
        """Returns whether an artifact may point at a blob: it is not corrupt, and its size in the store is right.

        This costs one query of the blob's size; damage within the bytes is only found when the blob is read. If the
        size is wrong twice, the blob is marked corrupt. A blob in a store for which the service is not configured
        counts as healthy, because nothing shows that its bytes are lost.

        Raises:
            CoatcheckError: `storage_unavailable` if the store or the catalogue cannot be reached.
        """
        if blob.condemned or blob.placement == "inline":
            return not blob.condemned
        store = store_of(self._blobs, blob.placement)
        if store is None or await store.size(namespace, blob.id) == blob.stored_size:
            return True
        # The mark is permanent, so the size is queried again: a single wrong answer of a store must not mark a healthy
        # blob.
        actual_size = await store.size(namespace, blob.id)
        if actual_size == blob.stored_size:
            return True
        why = (
            "it is missing" if actual_size is None else f"it has {actual_size:,} bytes instead of {blob.stored_size:,}"
        )
        await self.mark_corrupt(namespace, blob.id, why)
        return False

    async def mark_corrupt(self, namespace: str, blob_id: str, why: str) -> None:
        """Marks a blob corrupt, permanently; `why` is the reason for the log."""
        change = MarkBlobCorrupt(namespace=namespace, blob_id=blob_id, now=self._clock.now())
        # Only the call that sets the mark logs it, so that a lost blob causes one line, however many callers notice it.
        if await self._catalog.commit(change):
            because = why.rstrip(".")
            log.error("Blob %s of %r is lost: %s. Posting its payload again repairs it.", blob_id, namespace, because)

    def report_damage(self, namespace: str, blob_id: str, why: str) -> None:
        """Marks a blob corrupt in the background, because a reader found damage; `why` is the reason for the log."""
        if blob_id in self._running:
            return
        task = asyncio.ensure_future(self._note(namespace, blob_id, why))
        self._running[blob_id] = task
        task.add_done_callback(lambda _: self._running.pop(blob_id, None))

    async def wait_until_recorded(self) -> None:
        """Returns once every mark in progress is recorded, or its recording has failed."""
        if self._running:
            await asyncio.wait(list(self._running.values()))

    async def _note(self, namespace: str, blob_id: str, why: str) -> None:
        try:
            await self.mark_corrupt(namespace, blob_id, why)
        # Nobody awaits this task. If the mark cannot be recorded now, the next reader of the blob reports it again.
        except CoatcheckError as error:
            log.warning("blob %s is damaged (%s), which could not be recorded: %s", blob_id, why, error.detail)
