"""Whether a blob's bytes are still there, and the mark on those that are not.

A row promises bytes; a disk may lose them all the same. What is found missing or damaged is condemned: nothing new
points at it, and the next post of the same payload replaces it for every artifact that shares it. Removes nothing.
"""

import asyncio
import logging

from coatcheck.core.artifact import Blob
from coatcheck.core.errors import CoatcheckError
from coatcheck.ports.blobs import BlobStore
from coatcheck.ports.catalog import Catalog
from coatcheck.ports.clock import Clock
from coatcheck.ports.maintenance import MarkBlobCorrupt
from coatcheck.storing.blob_routing import store_of

log = logging.getLogger(__name__)


class BlobHealth:
    """Looks before bytes are relied upon, and remembers what was seen."""

    def __init__(self, catalog: Catalog, blobs: BlobStore, clock: Clock) -> None:
        self._catalog = catalog
        self._blobs = blobs
        self._clock = clock
        self._running: dict[str, asyncio.Task[None]] = {}

    async def holds(self, namespace: str, blob: Blob) -> bool:
        """Whether a blob may be pointed at: not condemned, and as long in its store as its row says.

        It costs one look at the file's size; damage inside is found by those who read. What fails twice is condemned.
        A blob in a place that the service was not given is believed: nothing speaks against its bytes.

        Raises:
            CoatcheckError: `storage_unavailable` when the store or the catalogue cannot be asked.
        """
        if blob.condemned or blob.placement == "inline":
            return not blob.condemned
        store = store_of(self._blobs, blob.placement)
        if store is None or await store.size(namespace, blob.id) == blob.stored_size:
            return True
        found = await store.size(namespace, blob.id)
        if found == blob.stored_size:
            return True
        why = "it is missing" if found is None else f"it has {found:,} bytes instead of {blob.stored_size:,}"
        await self.mark_corrupt(namespace, blob.id, why)
        return False

    async def mark_corrupt(self, namespace: str, blob_id: str, why: str) -> None:
        """Trust a blob no more, from now on and after a restart."""
        change = MarkBlobCorrupt(namespace=namespace, blob_id=blob_id, now=self._clock.now())
        if await self._catalog.commit(change):
            because = why.rstrip(".")
            log.error("Blob %s of %r is lost: %s. Posting its payload again heals it.", blob_id, namespace, because)

    def damaged(self, namespace: str, blob_id: str, why: str) -> None:
        """Condemn in the background what a reader found damaged; its answer need not wait for that."""
        if blob_id in self._running:
            return
        task = asyncio.ensure_future(self._note(namespace, blob_id, why))
        self._running[blob_id] = task
        task.add_done_callback(lambda _: self._running.pop(blob_id, None))

    async def settled(self) -> None:
        """Return when everything that was found is written down or has failed to be."""
        if self._running:
            await asyncio.wait(list(self._running.values()))

    async def _note(self, namespace: str, blob_id: str, why: str) -> None:
        try:
            await self.mark_corrupt(namespace, blob_id, why)
        except CoatcheckError as error:
            log.warning("blob %s is damaged (%s), which could not be recorded: %s", blob_id, why, error.detail)
