"""A catalogue and a blob store that say when they are at work, for whoever follows requests. They change nothing else.

Used only while there is a tracer: what is not followed costs nothing then.
"""

import contextlib
from collections.abc import AsyncIterator
from typing import Any, Final, cast

from coatcheck.core.artifact import Placement
from coatcheck.ports.artifacts import DeleteArtifact, DeleteSession, PatchArtifact, StoreArtifact, StoreView
from coatcheck.ports.blobs import BlobStore, BlobWriter, StoredName
from coatcheck.ports.change import Answer, CatalogChange
from coatcheck.ports.telemetry import Tracer
from coatcheck.ports.uploads import BeginUpload

_CHANGES: Final[dict[type[CatalogChange[Any]], str]] = {
    StoreArtifact: "commit",
    StoreView: "commit",
    PatchArtifact: "commit",
    DeleteArtifact: "commit",
    DeleteSession: "commit",
    BeginUpload: "intent",
}
"""Changes, and the stage that their commit is."""
_QUESTIONS: Final = {"find": "find", "list_artifacts": "list", "find_keys": "authenticate"}
"""Questions to the catalogue, by method, and the stage that each is."""


def traced_catalog(catalog: Any, tracer: Tracer) -> Any:  # noqa: ANN401 - whatever ports it has, it keeps
    """Wraps a catalogue so that some of its commits and questions appear as stages of the request's trace."""
    return _Catalog(catalog, tracer)


class _Catalog:
    """Hands every call on."""

    def __init__(self, catalog: object, tracer: Tracer) -> None:
        self._catalog: Any = catalog
        self._tracer = tracer
        for name, stage in _QUESTIONS.items():
            call = getattr(catalog, name, None)
            if call is not None:
                setattr(self, name, _followed(call, stage, tracer))

    async def commit(self, change: CatalogChange[Answer], /) -> Answer:
        stage = _CHANGES.get(type(change))
        with contextlib.nullcontext() if stage is None else self._tracer.stage(stage):
            return cast("Answer", await self._catalog.commit(change))

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - the catalogue's own
        return getattr(self._catalog, name)


def _followed(call: Any, stage: str, tracer: Tracer) -> Any:  # noqa: ANN401 - the catalogue's own
    async def followed(*args: object, **named: object) -> object:
        with tracer.stage(stage):
            return await call(*args, **named)

    return followed


class TracedBlobs:
    """A blob store whose reads and writes are stages."""

    def __init__(self, blobs: BlobStore, tracer: Tracer) -> None:
        self._blobs = blobs
        self._tracer = tracer

    @property
    def placement(self) -> Placement:
        """As the wrapped store has it."""
        return self._blobs.placement

    @property
    def others(self) -> tuple[BlobStore, ...]:
        """As the wrapped store has it."""
        return self._blobs.others

    async def create(self, namespace: str, blob_id: str) -> BlobWriter:
        """Start a blob."""
        with self._tracer.stage("blob create"):
            return _Writer(await self._blobs.create(namespace, blob_id), self._tracer)

    async def read(self, namespace: str, blob_id: str, start: int, length: int, *, fresh: bool = False) -> bytes:
        """Read a part of one."""
        with self._tracer.stage("blob get") as stage:
            stage.note("bytes", length)
            return await self._blobs.read(namespace, blob_id, start, length, fresh=fresh)

    async def size(self, namespace: str, blob_id: str) -> int | None:
        """Stored bytes of one."""
        with self._tracer.stage("blob size"):
            return await self._blobs.size(namespace, blob_id)

    async def remove(self, namespace: str, blob_id: str) -> bool:
        """Removes a blob, see BlobStore."""
        return await self._blobs.remove(namespace, blob_id)

    def names(self) -> AsyncIterator[StoredName]:
        """Everything in the store."""
        return self._blobs.names()

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - what else this store has
        return getattr(self._blobs, name)


class _Writer:
    """A blob being written, piece by piece."""

    def __init__(self, writer: BlobWriter, tracer: Tracer) -> None:
        self._writer = writer
        self._tracer = tracer

    async def write(self, data: bytes) -> None:
        """Append."""
        with self._tracer.stage("blob put") as stage:
            stage.note("bytes", len(data))
            await self._writer.write(data)

    async def finish(self) -> None:
        """Makes the blob durable, see BlobWriter."""
        with self._tracer.stage("blob sync"):
            await self._writer.finish()

    async def abort(self) -> None:
        """Remove what was written."""
        await self._writer.abort()
