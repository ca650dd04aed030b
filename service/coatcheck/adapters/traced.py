"""A catalogue and a blob store whose work appears in traces. They change nothing else.

Used only if there is a tracer, so without one they cost nothing.
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
"""Changes, and the stage name of their commit."""
_QUESTIONS: Final = {"find": "find", "list_artifacts": "list", "find_keys": "authenticate"}
"""Queries to the catalogue, by method, and their stage names."""


def trace_catalog(catalog: Any, tracer: Tracer) -> Any:  # noqa: ANN401 - whatever ports it has, it keeps
    """Returns a catalogue some of whose commits and queries appear as stages of the request's trace."""
    return _Catalog(catalog, tracer)


class _Catalog:
    """Passes every call on."""

    def __init__(self, catalog: object, tracer: Tracer) -> None:
        self._catalog: Any = catalog
        self._tracer = tracer
        for name, stage in _QUESTIONS.items():
            call = getattr(catalog, name, None)
            if call is not None:
                setattr(self, name, _trace_call(call, stage, tracer))

    async def commit(self, change: CatalogChange[Answer], /) -> Answer:
        stage = _CHANGES.get(type(change))
        with contextlib.nullcontext() if stage is None else self._tracer.stage(stage):
            return cast("Answer", await self._catalog.commit(change))

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - the catalogue's own
        return getattr(self._catalog, name)


def _trace_call(call: Any, stage: str, tracer: Tracer) -> Any:  # noqa: ANN401 - the catalogue's own
    async def call_in_stage(*args: object, **kwargs: object) -> object:
        with tracer.stage(stage):
            return await call(*args, **kwargs)

    return call_in_stage


class TracedBlobs:
    """A blob store whose reads and writes are stages."""

    def __init__(self, blobs: BlobStore, tracer: Tracer) -> None:
        self._blobs = blobs
        self._tracer = tracer

    @property
    def placement(self) -> Placement:
        """That of the wrapped store."""
        return self._blobs.placement

    @property
    def others(self) -> tuple[BlobStore, ...]:
        """Those of the wrapped store."""
        return self._blobs.others

    async def check_reads(self) -> None:
        """See CheckedStore."""
        await self._blobs.check_reads()

    async def check_writes(self, *, room: bool = False) -> None:
        """See CheckedStore."""
        await self._blobs.check_writes(room=room)

    async def create(self, namespace: str, blob_id: str) -> BlobWriter:
        """See BlobStore."""
        with self._tracer.stage("blob create"):
            return _Writer(await self._blobs.create(namespace, blob_id), self._tracer)

    async def read(self, namespace: str, blob_id: str, start: int, length: int, *, fresh: bool = False) -> bytes:
        """See BlobStore."""
        with self._tracer.stage("blob get") as stage:
            stage.note("bytes", length)
            return await self._blobs.read(namespace, blob_id, start, length, fresh=fresh)

    async def size(self, namespace: str, blob_id: str) -> int | None:
        """See BlobStore."""
        with self._tracer.stage("blob size"):
            return await self._blobs.size(namespace, blob_id)

    async def remove(self, namespace: str, blob_id: str) -> bool:
        """See BlobStore."""
        return await self._blobs.remove(namespace, blob_id)

    def names(self) -> AsyncIterator[StoredName]:
        """See BlobStore."""
        return self._blobs.names()

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - what else this store has
        return getattr(self._blobs, name)


class _Writer:
    """A writer whose work appears in traces."""

    def __init__(self, writer: BlobWriter, tracer: Tracer) -> None:
        self._writer = writer
        self._tracer = tracer

    async def write(self, data: bytes) -> None:
        """See BlobWriter."""
        with self._tracer.stage("blob put") as stage:
            stage.note("bytes", len(data))
            await self._writer.write(data)

    async def finish(self) -> None:
        """See BlobWriter."""
        with self._tracer.stage("blob sync"):
            await self._writer.finish()

    async def abort(self) -> None:
        """See BlobWriter."""
        await self._writer.abort()
