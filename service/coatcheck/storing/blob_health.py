"""Checks whether a blob's bytes are still there, and marks those that are not.

A row promises bytes, yet a disk may lose them. A blob found missing or damaged is condemned: nothing new points at it,
and the next post of the same payload replaces it for every artifact that shares it. Nothing is removed here.
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
    """Checks blobs before anything relies on them, and remembers the results."""

    def __init__(self, catalog: Catalog, blobs: BlobStore, clock: Clock) -> None:
        self._catalog = catalog
        self._blobs = blobs
        self._clock = clock
        self._running: dict[str, asyncio.Task[None]] = {}
        """Reports being recorded, by blob ID: many readers of one damaged blob cause one change."""

    async def holds(self, namespace: str, blob: Blob) -> bool:
        """Returns whether a blob may be pointed at: it is not corrupt, and its stored size is the one in its row.

        This costs one check of the file's size; damage inside is found when the blob is read. A blob that fails twice
        is marked corrupt. A blob in a store that the service was not given is trusted: nothing speaks against its
        bytes.

        Raises:
            CoatcheckError: `storage_unavailable` if the store or the catalogue cannot be reached.
        """
        if blob.condemned or blob.placement == "inline":
            return not blob.condemned
        store = store_of(self._blobs, blob.placement)
        if store is None or await store.size(namespace, blob.id) == blob.stored_size:
            return True
        # A second look before a permanent mark: one wrong answer of a store must not make a good blob corrupt.
        actual_size = await store.size(namespace, blob.id)
        if actual_size == blob.stored_size:
            return True
        why = (
            "it is missing" if actual_size is None else f"it has {actual_size:,} bytes instead of {blob.stored_size:,}"
        )
        await self.mark_corrupt(namespace, blob.id, why)
        return False

    async def mark_corrupt(self, namespace: str, blob_id: str, why: str) -> None:
        """Marks a blob corrupt, permanently."""
        change = MarkBlobCorrupt(namespace=namespace, blob_id=blob_id, now=self._clock.now())
        # Only the call that made the change logs it, so one lost blob is one line however many callers notice.
        if await self._catalog.commit(change):
            because = why.rstrip(".")
            log.error("Blob %s of %r is lost: %s. Posting its payload again repairs it.", blob_id, namespace, because)

    def report_damage(self, namespace: str, blob_id: str, why: str) -> None:
        """Marks corrupt, in the background, a blob that a reader found damaged."""
        if blob_id in self._running:
            return
        task = asyncio.ensure_future(self._note(namespace, blob_id, why))
        self._running[blob_id] = task
        task.add_done_callback(lambda _: self._running.pop(blob_id, None))

    async def wait_until_recorded(self) -> None:
        """Returns once all findings are recorded, or could not be."""
        if self._running:
            await asyncio.wait(list(self._running.values()))

    async def _note(self, namespace: str, blob_id: str, why: str) -> None:
        try:
            await self.mark_corrupt(namespace, blob_id, why)
        # Nobody awaits this task. A mark that is not recorded now is made by the next reader of the same bytes.
        except CoatcheckError as error:
            log.warning("blob %s is damaged (%s), which could not be recorded: %s", blob_id, why, error.detail)
