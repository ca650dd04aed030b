"""A store with readers over it: payloads go in whole, real readers take them out."""

import hashlib
import itertools
from collections.abc import Callable
from concurrent.futures import Executor
from datetime import UTC, datetime, timedelta
from typing import Any, cast

from coatcheck.adapters.blobs.memory import MemoryBlobStore
from coatcheck.adapters.tokenizer import load_tokenizer
from coatcheck.core import ids
from coatcheck.core.artifact import Artifact, Blob, Caller, DeclaredMetadata, DetectedMetadata, Kind, Measure, Tokens
from coatcheck.core.blob_ids import new_blob_id
from coatcheck.core.errors import CoatcheckError
from coatcheck.core.seekable import FrameEncoder
from coatcheck.ports.artifacts import FoundView, StoredView, StoreView
from coatcheck.ports.catalog import FoundArtifact
from coatcheck.ports.change import CatalogChange
from coatcheck.ports.uploads import AbandonUpload, BeginUpload
from coatcheck.reading.view import OpenView
from coatcheck.runtime.circuit_breaker import CircuitBreaker
from coatcheck.storing.content import Content, OpenContent
from coatcheck.storing.fallback_buffer import FallbackBuffer
from coatcheck.storing.find import Find
from coatcheck.storing.ingest_deps import IngestDeps
from coatcheck.storing.keep_text import KeepText
from coatcheck.storing.reads import ReadLog
from coatcheck.usecases.find_passages import FindPassages, PassagesAnswer
from coatcheck.usecases.read import Read, ReadAnswer, ReadRequest
from coatcheck.usecases.search import PatternSearchRequest, Search, SearchAnswer
from support.outlines import SmallExtractor

CREATED = datetime(2026, 11, 21, 8, 49, 37, 123456, tzinfo=UTC)
CALLER = Caller()
_NAMES = itertools.count(1)
"""Of the blobs of views: two shelves may share a store."""


class FixedClock:
    """A clock that stands."""

    def now(self) -> datetime:
        return CREATED


class Rows:
    """The statements of the catalogue that readers use, over a dict."""

    def __init__(self) -> None:
        self.rows: dict[int, FoundArtifact] = {}
        self.uploads: list[str] = []
        self.refusal: CoatcheckError | None = None
        """What keeping a view answers, while it is set."""

    async def find(
        self,
        namespace: str,
        number: int,
        now: datetime,
        *,
        with_bytes: bool = False,
        with_view: bool = False,
        with_survey: bool = False,
    ) -> FoundArtifact | None:
        assert now == CREATED
        found = self.rows.get(number)
        if found is None or found.artifact.namespace != namespace:
            return None
        return FoundArtifact(
            found.artifact,
            found.inline if with_bytes else None,
            found.text_view if with_view else None,
            found.survey if with_survey else None,
        )

    async def inline_bytes(self, namespace: str, blob_id: str) -> bytes | None:
        rows = (f for f in self.rows.values() if f.artifact.namespace == namespace)
        return next((f.inline for f in rows if f.artifact.blob.id == blob_id), None)

    async def commit(self, change: CatalogChange[Any], /) -> Any:  # noqa: ANN401 - the change's own answer
        match change:
            case BeginUpload():
                self.uploads.append(change.blob_id)
            case AbandonUpload():
                if change.blob_id in self.uploads:
                    self.uploads.remove(change.blob_id)
            case StoreView():
                return self._keep_view(change)
            case _:
                raise NotImplementedError(type(change))
        return None

    def _keep_view(self, change: StoreView) -> StoredView | None:
        if self.refusal is not None:
            raise self.refusal
        found = self.rows.get(change.number)
        if found is None:
            return None
        if change.new.blob is not None and change.new.blob.id in self.uploads:
            self.uploads.remove(change.new.blob.id)
        if found.text_view is not None:
            return StoredView(found.text_view, blob_used=False)
        kept = FoundView(change.new.view, change.new.blob, change.new.inline)
        self.rows[change.number] = FoundArtifact(found.artifact, found.inline, kept)
        return StoredView(kept, blob_used=True)


class Recording(OpenContent):
    """Opens content with empty caches, and keeps what it opened, so that frames can be counted."""

    opened: Content | None = None

    def __call__(self, found: FoundArtifact) -> Content:
        self.opened = super().__call__(found)
        return self.opened


class ReadingHarness:
    """Where tests put payloads."""

    def __init__(self, pool: Executor, clock: Callable[[], float] | None = None) -> None:
        self.blobs = MemoryBlobStore(FixedClock())
        self.rows = Rows()
        self.tokenizer = load_tokenizer()
        find = Find(cast("Any", self.rows), FixedClock(), ReadLog())
        self.find = find
        self.pool = pool
        self.open_content = OpenContent(self.rows, self.blobs, pool)
        # Without a clock of the test's own time stands still: no answer may depend on how busy the machine is.
        timing: dict[str, Any] = {"clock": clock or (lambda: 0.0)}
        self.extractor = SmallExtractor()
        self.keep_text = KeepText(self._places(), self.open_content, self.extractor)
        self.open_view = OpenView(find, self.open_content, self.keep_text)
        self.reader = Read(self.open_view, self.tokenizer, pool, **timing)
        self.searcher = Search(self.open_view, self.tokenizer, pool, **timing)
        self.finder = FindPassages(self.open_view, self.tokenizer, pool, **timing)

    def _places(self) -> IngestDeps:
        return IngestDeps(
            catalog=cast("Any", self.rows),
            blobs=self.blobs,
            clock=FixedClock(),
            pool=self.pool,
            tokenizer=self.tokenizer,
            new_blob_id=lambda: new_blob_id(CREATED, next(_NAMES).to_bytes(10, "big")),
            lease=timedelta(minutes=5),
            inline_bytes=1024,
            payload_limit=1 << 30,
            ttl=3600,
            card_tokens=600,
            inline_tokens=1000,
            fallback=FallbackBuffer(0),
            catalog_breaker=CircuitBreaker("catalogue", lambda: 0.0),
            blobs_breaker=CircuitBreaker("blob store", lambda: 0.0),
        )

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
        number = ids.number(ids.identity("default", None, str(len(self.rows.rows)), digest))
        blob_id = new_blob_id(CREATED, number.to_bytes(10, "big"))
        blob = Blob(
            id=blob_id,
            placement="inline" if inline else "file",
            size=len(data),
            stored_size=len(stored),
            sha256=digest,
            index=encoder.index.pack(),
        )
        if not inline:
            writer = await self.blobs.create("default", blob_id)
            await writer.write(stored)
            await writer.finish()
        artifact = Artifact(
            namespace="default",
            id=ids.render(number),
            said=DeclaredMetadata(**said),
            measure=_measure(data, encoder, digest),
            facts=DetectedMetadata(kind=kind, media_type=recognised),
            blob=blob,
            created_at=CREATED,
            expires_at=None,
            ttl=None,
            idle_ttl=None,
        )
        self.rows.rows[number] = FoundArtifact(artifact, stored if inline else None)
        return number

    def damage(self, number: int) -> None:
        """Flip a bit in the middle of what is stored."""
        stored = self.blobs._blobs[self.artifact(number).blob.id].data  # pyright: ignore[reportPrivateUsage]
        stored[len(stored) // 2] ^= 1

    def artifact(self, number: int) -> Artifact:
        return self.rows.rows[number].artifact

    def content(self, number: int) -> Content:
        return self.open_content(self.rows.rows[number])

    async def read(self, number: int, **ask: Any) -> ReadAnswer:  # noqa: ANN401
        return await self.reader(CALLER, number, ReadRequest(**ask))

    async def windows(self, number: int, query: str, **ask: Any) -> PassagesAnswer:  # noqa: ANN401
        return await self.finder(CALLER, number, query=query, **ask)

    async def search(self, number: int, pattern: str, **ask: Any) -> SearchAnswer:  # noqa: ANN401
        return await self.searcher(CALLER, number, PatternSearchRequest(pattern=pattern, **ask))


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
        tokens=Tokens(len(data) // 4, exact=False),
        sha256=digest,
        utf8=utf8,
    )
