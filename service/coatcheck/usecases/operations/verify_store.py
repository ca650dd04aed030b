"""Compare the store with the catalogue's rows and the bytes with their digests; ask the engines about their health.

The result is a report. Only orphans are removed, only on request, and only those old enough that no upload can still be
writing them. Rows change only through a catalogue that is passed in for that: a blob whose bytes are gone is marked as
lost, so that posting its payload again heals every artifact that shares it. Bytes that a row knows are never touched.
"""

import hashlib
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from dataclasses import KW_ONLY, dataclass
from datetime import datetime, timedelta
from typing import Protocol

from msgspec import Struct

from coatcheck.core.artifact import Blob
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.core.findings import HARMLESS, EngineReport, Finding
from coatcheck.core.progress import Progress, untold
from coatcheck.ports.blobs import BlobStore, StoredName
from coatcheck.ports.catalog import Catalog
from coatcheck.ports.maintenance import DeadBlob, MarkBlobCorrupt, Upkeep
from coatcheck.ports.telemetry import Clock
from coatcheck.ports.text_index import TextIndex
from coatcheck.storing.blob_routing import all_stores, not_opened, store_of
from coatcheck.storing.content import OpenContent
from coatcheck.upkeep.index import check_text_index

ORPHAN_AGE = timedelta(days=1)
"""An unknown blob younger than this may belong to an upload whose intent is not visible yet."""
BATCH = 500
"""Names compared with the catalogue, or dead blobs read, in one statement: chosen, not measured."""
_CLOCKS_APART = timedelta(minutes=10)
"""How far the clock that records deletions may be behind ours."""
_LOSSES = frozenset({"missing", "corrupt"})
"""Errors for which a blob is marked as lost; an unreadable blob may become readable again."""


class RepairCatalog(Catalog, TextIndex, Protocol):
    """The ports that a repair of rows needs."""


class Examination(Protocol):
    """A check of one engine's health."""

    async def __call__(self, *, deep: bool, repair: datetime | None) -> EngineReport:
        """Examines the engine, thoroughly if `deep`; repairs what it can if given `repair`, the moment to record."""
        ...


class StoreVerification(Struct, frozen=True, kw_only=True):
    """The findings of a verification."""

    blobs: int
    """Number of live blobs that were looked at."""
    content: int
    """Bytes of content in these blobs."""
    stored: int
    """Number of names found in the store."""
    findings: tuple[Finding, ...]
    removed: int
    """Orphans removed."""
    condemned: int
    """Blobs marked as lost, so that posting their payloads again heals them."""
    notes: tuple[str, ...] = ()
    """What the engines say that is no damage, a sentence each."""

    @property
    def clean(self) -> bool:
        """Whether no data is missing, corrupt, unreadable or contradictory; what only costs space does not count."""
        return all(f.what in HARMLESS for f in self.findings)


@dataclass(frozen=True)
class VerifyStore:
    """Compares the stored bytes with the catalogue, and repairs what can be repaired."""

    upkeep: Upkeep
    blobs: BlobStore
    open_content: OpenContent
    clock: Clock
    _: KW_ONLY
    examinations: Sequence[Examination] = ()
    repairs: RepairCatalog | None = None
    """Applies changes to rows; without it rows stay as they are."""
    texts: TextIndex | None = None
    """The full-text index to compare too."""

    async def __call__(
        self,
        *,
        digests: bool = True,
        apply: bool = False,
        orphan_age: timedelta = ORPHAN_AGE,
        progress: Progress = untold,
    ) -> StoreVerification:
        """Examines everything and returns the findings.

        Args:
            digests: whether to read every live blob whole and compare its SHA-256; otherwise only names and sizes.
            apply: whether to remove orphans older than `orphan_age` and repair rows where possible.
            orphan_age: age from which an unknown blob is an orphan.
            progress: called for each blob that was looked at, with its bytes of content.

        Raises:
            CoatcheckError: `storage_unavailable` when the catalogue or the whole store cannot be asked.
        """
        began = self.clock.now()
        repairs = self.repairs if apply else None
        findings: list[Finding] = []
        notes: list[str] = []
        # The engines first: where a database is damaged, its rows say nothing about the blobs.
        for examine in self.examinations:
            examined = await examine(deep=digests, repair=None if repairs is None else began)
            findings += examined.findings
            notes += examined.notes
        blobs = content = name_count = removed = 0
        if not any(f.what == "database" for f in findings):  # the rows of a damaged database accuse the innocent
            async for namespace, blob in self.upkeep.all_blobs():
                blobs, content = blobs + 1, content + blob.size
                finding = await self._look(namespace, blob, digests=digests)
                progress(1, blob.size)
                # The walk takes long, and artifacts are deleted meanwhile: a blob that disappeared with its row is no
                # finding.
                if finding is not None and not await self._was_deleted(namespace, blob, began):
                    findings.append(await self._mark(finding, repairs))
            # A name that was written since the walk began has a row by now, or is protected by its age.
            name_count, removed = await self._orphans(findings, began - orphan_age, apply=apply)
            if self.texts is not None:
                findings += await check_text_index(self.texts, self.repairs if apply else None)
        return StoreVerification(
            blobs=blobs,
            content=content,
            stored=name_count,
            findings=tuple(findings),
            removed=removed,
            condemned=sum(f.repaired for f in findings if f.what in _LOSSES),
            notes=tuple(notes),
        )

    async def _look(self, namespace: str, blob: Blob, *, digests: bool) -> Finding | None:
        what, detail = await self._compare(namespace, blob, digests=digests)
        if what is None:
            return None
        if blob.condemned and what in _LOSSES:
            return Finding("lost", namespace, blob.id, f"{detail} It is marked as lost already.")
        return Finding(what, namespace, blob.id, detail)

    async def _compare(self, namespace: str, blob: Blob, *, digests: bool) -> tuple[str | None, str]:
        # A store that the service was not given says nothing about its bytes, so they are not counted as lost.
        if blob.placement != "inline" and store_of(self.blobs, blob.placement) is None:
            return "elsewhere", not_opened(self.blobs, blob.placement).detail
        try:
            # From cheap to expensive: a size costs one request, a digest reads everything.
            size = await self.open_content.find_stored_size(namespace, blob)
            if size is None:
                return "missing", f"{blob.stored_size:,} stored bytes are missing."
            if size != blob.stored_size:
                return "corrupt", f"{size:,} bytes are stored where {blob.stored_size:,} should be."
            if digests and await self._digest(namespace, blob) != blob.sha256:
                return "corrupt", "The content's SHA-256 is not the recorded one."
        except CoatcheckError as error:
            return ("corrupt" if error.code is Code.INTEGRITY else "unreadable"), error.detail
        return None, ""

    async def _digest(self, namespace: str, blob: Blob) -> bytes:
        content = await self.open_content.of_blob(namespace, blob)
        h = hashlib.sha256()
        async for block in content.blocks(0, blob.size):
            h.update(block)
        return h.digest()

    async def _was_deleted(self, namespace: str, blob: Blob, began: datetime) -> bool:
        """Whether the blob was deleted during the check; its bytes are then the sweep's business."""
        if not await self.upkeep.find_known_blobs([(namespace, blob.id)]):
            return True
        # The catalogue's clock dates what it deletes, and may differ from ours; hence a margin on either side.
        after = DeadBlob(namespace="", id="", placement=blob.placement, dead_at=began - _CLOCKS_APART)
        until = self.clock.now() + _CLOCKS_APART
        while batch := await self.upkeep.dead_blobs(until, BATCH, after):
            if any((dead.namespace, dead.id) == (namespace, blob.id) for dead in batch):
                return True
            after = batch[-1]
        # Between the two questions it may have been forgotten altogether.
        return not await self.upkeep.find_known_blobs([(namespace, blob.id)])

    async def _mark(self, finding: Finding, repairs: RepairCatalog | None) -> Finding:
        if repairs is None or finding.what not in _LOSSES:
            return finding
        change = MarkBlobCorrupt(namespace=finding.namespace, blob_id=finding.blob_id, now=self.clock.now())
        if not await repairs.commit(change):
            return finding
        detail = f"{finding.detail} It is marked as lost now: posting the same payload again repairs it."
        return Finding(finding.what, finding.namespace, finding.blob_id, detail, repaired=True)

    async def _orphans(self, findings: list[Finding], before: datetime, *, apply: bool) -> tuple[int, int]:
        seen = removed = 0
        # Every open store: after a switch from files to S3, the old one still holds blobs.
        for store in all_stores(self.blobs):
            async for names in _batches(store.names()):
                seen += len(names)
                orphans = await self._find_orphans(store, names, before, apply=apply)
                removed += sum(orphan.repaired for orphan in orphans)
                findings += orphans
        return seen, removed

    async def _find_orphans(
        self, store: BlobStore, batch: list[StoredName], before: datetime, *, apply: bool
    ) -> list[Finding]:
        """Returns those names that no row knows; with `apply`, removes their bytes."""
        known_blobs = await self.upkeep.find_known_blobs([(n.namespace, n.id) for n in batch])
        findings: list[Finding] = []
        for name in batch:
            # The age protects an upload whose intent this query could not see yet.
            if (name.namespace, name.id) in known_blobs or name.modified_at > before:
                continue
            size = f"{name.size:,} bytes that no row refers to"
            try:
                is_removed = apply and await store.remove(name.namespace, name.id)
                detail = f"{size}; removed." if is_removed else f"{size}."
            except CoatcheckError as error:
                is_removed, detail = False, f"{size}; removing them failed: {error.detail}"
            findings.append(Finding("orphan", name.namespace, name.id, detail, repaired=is_removed))
        return findings


async def _batches(names: AsyncIterator[StoredName]) -> AsyncGenerator[list[StoredName]]:
    batch: list[StoredName] = []
    async for name in names:
        batch.append(name)
        if len(batch) == BATCH:
            yield batch
            batch = []
    yield batch
