"""Bytes that cannot be read for now keep nothing else out of the index."""

import random
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from coatcheck.adapters.tokenizer import load_tokenizer
from coatcheck.core.artifact import Caller
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.ports.artifacts import IngestResult, StoreArtifact
from coatcheck.ports.blobs import BeginUpload
from coatcheck.storing.content import OpenContent
from coatcheck.tools.arguments import ListArguments
from coatcheck.tools.calls import ListArtifacts
from coatcheck.upkeep.index import Index
from contract.sample_changes import DAY, START, store
from fulltext.index_harness import IndexHarness
from support.memory_blobs import MemoryBlobStore


class Broken(MemoryBlobStore):
    """Gives no bytes until it is mended."""

    mended = False

    async def read(self, namespace: str, blob_id: str, start: int, length: int, *, fresh: bool = False) -> bytes:
        if not self.mended:
            raise CoatcheckError(Code.STORAGE_UNAVAILABLE, "The blob store answered EIO.")
        return await super().read(namespace, blob_id, start, length, fresh=fresh)


async def _put_apart(shelf: IndexHarness, blobs: MemoryBlobStore, text: bytes) -> StoreArtifact:
    """Store a payload whose bytes are not in the catalogue."""
    inline = store(text)
    change = store(text, said=inline.declared, placement=blobs.placement)
    intent = BeginUpload(namespace="acme", blob_id=change.blob.id, placement=blobs.placement, lease_until=START + DAY)
    await shelf.catalog.commit(intent)
    writer = await blobs.create("acme", change.blob.id)
    await writer.write(inline.inline or b"")
    await writer.finish()
    assert isinstance(await shelf.catalog.commit(change), IngestResult)
    return change


async def test_what_cannot_be_read_waits_alone_and_is_found_when_it_can(shelf: IndexHarness) -> None:
    blobs, rng = Broken(shelf.clock), random.Random(5)
    with ThreadPoolExecutor(2) as pool:
        index = Index(shelf.catalog, OpenContent(shelf.catalog, blobs, pool), pool, lambda: rng.getrandbits(62))
        shelf.browse = replace(shelf.browse, index=index)
        unreadable = await _put_apart(shelf, blobs, b"zeppelin unreadable")
        readable = [
            await shelf.put(f"zeppelin {i}", namespace=namespace) for i in range(3) for namespace in ("acme", "z")
        ]
        listing = await shelf.ask("zeppelin")
        assert (len(listing.items), listing.partial) == (3, True)
        tool = ListArtifacts(shelf.browse, load_tokenizer(), pool)
        shown = await tool(Caller("acme"), ListArguments(query="zeppelin"), 1_000)
        assert shown.text.endswith(
            "(3 artifacts, newest first. Some may be missing, because artifacts are being indexed: "
            "retry the same call.)"
        )
        with pytest.raises(CoatcheckError, match="EIO"):
            await index()
        assert await shelf.catalog.list_unindexed("z", 10) == []
        assert len(await shelf.found("zeppelin", namespace="z")) == len(readable) // 2
        (waiting,) = await shelf.catalog.list_unindexed("acme", 10)
        assert waiting.entry is not None
        assert waiting.entry.artifact.declared == unreadable.declared
        blobs.mended = True
        await index()
        assert len(await shelf.found("zeppelin")) == 4
