"""Store the bytes that are encoded in a text as artifacts of their own, and name them in it.

Crash story: one ingest for each. The text still has those that were not stored.
"""

import asyncio
from collections.abc import Awaitable, Callable

from coatcheck.core.parts.blobs import identify_blobs
from coatcheck.storing.ingest_request import Receipt
from coatcheck_client.contract.blobs import Blob, with_ids

Store = Callable[[bytes, str | None], Awaitable[Receipt]]
"""Stores bytes of a media type."""


async def store_blobs(store: Store, text: bytes) -> bytes:
    """Returns a text with names in place of large encoded bytes; the same object if there are none.

    Raises:
        CoatcheckError: whatever `store` raises.
    """
    ids: list[tuple[Blob, str | None]] = []
    for blob in await asyncio.to_thread(identify_blobs, text):
        receipt = await store(await asyncio.to_thread(blob.decode, text), blob.media_type)
        ids.append((blob, receipt.id if receipt.is_stored else None))
    return with_ids(text, ids) if any(artifact_id for _, artifact_id in ids) else text
