"""A store with readers over it: payloads go in whole, of any kind that a test says; real readers take them out."""

import hashlib
import itertools
import shutil
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from coatcheck.core import ids
from coatcheck.core.artifact import Artifact, Blob, DeclaredMetadata, DetectedMetadata, Kind, Measure
from coatcheck.core.encoding.frames import new_blob_id
from coatcheck.core.encoding.seekable import FrameEncoder
from coatcheck.ports.artifacts import FoundView, IngestResult, StoreArtifact
from coatcheck.ports.blobs import BeginUpload
from coatcheck.ports.catalog import FoundArtifact
from coatcheck.reading.view import OpenView
from coatcheck.storing.content import Content, OpenContent
from coatcheck.storing.keep_text import KeepText
from coatcheck.usecases.reading.find_passages import FindPassages, PassagesAnswer
from coatcheck.usecases.reading.grep import PatternSearchRequest, Search, SearchAnswer
from coatcheck.usecases.reading.read import Read, ReadAnswer, ReadRequest
from coatcheck_client.contract.answers import TokenCount
from support.clock import HandClock
from support.faulty_catalog import FaultyCatalog
from support.harness import CALLER, LEASE, Harness
from support.memory_blobs import MemoryBlobStore
from support.outlines import SmallExtractor

CREATED = datetime(2026, 11, 21, 8, 49, 37, 123456, tzinfo=UTC)
_NAMES = itertools.count(1)
"""Of blobs: two harnesses may share a store."""


class Recording(OpenContent):
    """Opens content with empty caches, and keeps what it opened, so that frames can be counted."""

    opened: Content | None = None

    def __call__(self, found: FoundArtifact) -> Content:
        self.opened = super().__call__(found)
        return self.opened


class ReadingStore(NamedTuple):
    """What harnesses are opened over, one after the other."""

    root: Path
    pool: ThreadPoolExecutor
    catalog: FaultyCatalog


@contextmanager
def reading_store(root: Path, template: Path) -> Generator[ReadingStore]:
    """A catalogue in a directory, over a copy of a migrated database, and two threads."""
    shutil.copy(template, root / "coatcheck.db")
    with closing(FaultyCatalog.open(root / "coatcheck.db", threads=2)) as catalog, ThreadPoolExecutor(2) as pool:
        yield ReadingStore(root, pool, catalog)


class ReadingHarness:
    """Readers over a catalogue in a directory and bytes in memory. What others stored in the catalogue goes."""

    def __init__(
        self,
        store: ReadingStore,
        clock: Callable[[], float] | None = None,
        beside: "ReadingHarness | None" = None,
    ) -> None:
        """Open them; `beside` shares its store with this one."""
        self.store = store
        root, pool, catalog = store
        self.pool, self.catalog = pool, catalog
        self.blobs = beside.blobs if beside else MemoryBlobStore(HandClock(CREATED))
        self.stored: dict[int, FoundArtifact] = beside.stored if beside else {}
        self.harness = Harness(root, pool, catalog, self.blobs, HandClock(CREATED), fallback_bytes=0)
        if beside is None:
            catalog.fault = None
            self.harness.clear()
        self.tokenizer = self.harness.tokenizer
        self.find = self.harness.find
        self.open_content = self.harness.opened()
        # Without a clock of the test's own time stands still: no answer may depend on how busy the machine is.
        timing: dict[str, Any] = {"clock": clock or (lambda: 0.0)}
        self.extractor = SmallExtractor()
        deps = self.harness.deps(inline_bytes=1024, ttl=3600, new_blob_id=_fresh_blob_id)
        self.keep_text = KeepText(deps, self.open_content, self.extractor)
        self.open_view = OpenView(self.find, self.open_content, self.keep_text)
        self.reader = Read(self.open_view, self.tokenizer, pool, **timing)
        self.searcher = Search(self.open_view, self.tokenizer, pool, **timing)
        self.finder = FindPassages(self.open_view, self.tokenizer, pool, **timing)

    async def put(
        self,
        data: bytes,
        *,
        kind: Kind = Kind.TEXT,
        recognised: str | None = None,
        inline: bool = False,
        **said: Any,  # noqa: ANN401
    ) -> int:
        """Store a payload, `recognised` as a media type; answer its number."""
        encoder = FrameEncoder()
        stored = encoder.feed(data) + encoder.finish()
        assert encoder.index is not None
        digest = hashlib.sha256(data).digest()
        blob = Blob(
            id=_fresh_blob_id(),
            placement="inline" if inline else "file",
            size=len(data),
            stored_size=len(stored),
            sha256=digest,
            index=encoder.index.pack(),
        )
        if not inline:
            await self.catalog.commit(
                BeginUpload(namespace="default", blob_id=blob.id, placement="file", lease_until=CREATED + LEASE)
            )
            writer = await self.blobs.create("default", blob.id)
            await writer.write(stored)
            await writer.finish()
        answer = await self.catalog.commit(
            StoreArtifact(
                namespace="default",
                identity=ids.identity("default", None, str(len(self.stored)), digest),
                declared=DeclaredMetadata(**said),
                measure=_measure(data, encoder, digest),
                facts=DetectedMetadata(kind=kind, media_type=recognised),
                engine=1,
                blob=blob,
                inline=stored if inline else None,
                ttl=None,
                idle_ttl=None,
                pinned=False,
                now=CREATED,
            )
        )
        assert isinstance(answer, IngestResult)
        number = ids.parse(answer.artifact.id)
        self.stored[number] = FoundArtifact(answer.artifact, stored if inline else None)
        return number

    async def text_view(self, number: int) -> FoundView | None:
        """The text view that the catalogue keeps."""
        found = await self.catalog.find("default", number, CREATED, with_view=True)
        assert isinstance(found, FoundArtifact)
        return found.text_view

    def damage(self, number: int) -> None:
        """Flip a bit in the middle of what is stored."""
        stored = self.blobs._blobs[self.artifact(number).blob.id].data  # pyright: ignore[reportPrivateUsage]
        stored[len(stored) // 2] ^= 1

    def artifact(self, number: int) -> Artifact:
        return self.stored[number].artifact

    def content(self, number: int) -> Content:
        return self.open_content(self.stored[number])

    async def read(self, number: int, **ask: Any) -> ReadAnswer:  # noqa: ANN401
        return await self.reader(CALLER, number, ReadRequest(**ask))

    async def windows(self, number: int, query: str, **ask: Any) -> PassagesAnswer:  # noqa: ANN401
        return await self.finder(CALLER, number, query=query, **ask)

    async def search(self, number: int, pattern: str, **ask: Any) -> SearchAnswer:  # noqa: ANN401
        return await self.searcher(CALLER, number, PatternSearchRequest(pattern=pattern, **ask))


def _fresh_blob_id() -> str:
    return new_blob_id(CREATED, next(_NAMES).to_bytes(10, "big"))


def _measure(data: bytes, encoder: FrameEncoder, digest: bytes) -> Measure:
    try:
        data.decode()
        utf8 = True
    except UnicodeDecodeError:
        utf8 = False
    return Measure(
        size=len(data),
        lines=encoder.newlines + (1 if data and not data.endswith(b"\n") else 0),
        chars=encoder.chars,
        tokens=TokenCount(len(data) // 4, exact=False),
        sha256=digest,
        utf8=utf8,
    )
