"""A catalogue with its index and the verb that lists, at an hour that the test decides."""

import random
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

from coatcheck.adapters.redaction_rules import Masks
from coatcheck.core.artifact import Caller, DeclaredMetadata, Kind
from coatcheck.ports.artifacts import IngestResult, PatchArtifact, StoreArtifact
from coatcheck.ports.catalog import ArtifactFilter
from coatcheck.storing.content import OpenContent
from coatcheck.storing.find import SessionNames
from coatcheck.storing.redaction import RedactionPolicy
from coatcheck.upkeep.index import Index
from coatcheck.upkeep.store_binding import SealKey
from coatcheck.usecases.payloads.browse import Browse, Listing
from contract.sample_changes import Everything, deleting, number_of, store
from support.clock import HandClock
from support.memory_blobs import MemoryBlobStore
from support.refusals import expect


class IndexHarness:
    """Artifacts by their text."""

    def __init__(self, catalog: Everything, pool: ThreadPoolExecutor) -> None:
        self.catalog = catalog
        self.clock = HandClock()
        rng = random.Random(20261101)
        content = OpenContent(catalog, MemoryBlobStore(self.clock), pool)
        self.index = Index(catalog, content, pool, lambda: rng.getrandbits(62))
        self.seal_key = SealKey(catalog, self.clock, lambda: "a key for tests")
        redacting = RedactionPolicy("off", Masks(), pool)
        self.blind = Browse(catalog, self.clock, self.seal_key, redacting, SessionNames(catalog, redacting))
        """Indexes nothing by itself."""
        self.browse = replace(self.blind, index=self.index)
        self._calls = 0

    async def put(
        self,
        text: str | bytes,
        *,
        namespace: str = "acme",
        labels: Iterable[str] = (),
        ttl: int | None = None,
        kind: Kind | None = None,
        **said: Any,  # noqa: ANN401 - fields
    ) -> StoreArtifact:
        """Store a payload as a call of its own."""
        self._calls += 1
        content = text.encode() if isinstance(text, str) else text
        spoken = DeclaredMetadata(tool_call_id=f"call_{self._calls}", labels=tuple(labels), kind=kind, **said)
        change = store(content, namespace=namespace, said=spoken, now=self.clock.now(), ttl=ttl)
        answer = expect(IngestResult, await self.catalog.commit(change))
        assert answer.created
        return change

    async def ask(self, query: str, *, namespace: str = "acme", limit: int = 200, **where: Any) -> Listing:  # noqa: ANN401 - conditions
        """What a query lists."""
        return await self.browse(Caller(namespace), ArtifactFilter(**where), None, limit, query=query)

    async def found(self, query: str, *, namespace: str = "acme", **where: Any) -> list[str]:  # noqa: ANN401 - conditions
        """The call IDs of what a query lists, newest first."""
        listing = await self.ask(query, namespace=namespace, **where)
        assert not listing.partial
        assert listing.next is None
        return called(listing)

    async def delete(self, change: StoreArtifact) -> None:
        """Delete what a change stored."""
        assert await self.catalog.commit(deleting(change, self.clock.now())) is True

    async def label(self, change: StoreArtifact, *labels: str) -> None:
        """Give what a change stored other labels."""
        await self.catalog.commit(
            PatchArtifact(namespace=change.namespace, number=number_of(change), now=self.clock.now(), labels=labels)
        )


def called(listing: Listing) -> list[str]:
    """Call IDs, in the list's order."""
    return [item.declared.tool_call_id or "" for item in listing.items]


def call(change: StoreArtifact) -> str:
    """The call ID of a change."""
    return change.declared.tool_call_id or ""
