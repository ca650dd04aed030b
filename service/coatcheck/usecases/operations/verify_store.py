"""Compare the blob stores with the catalogue's rows, and the bytes with their digests; check the health of the engines.

The result is a report. On request, orphans are removed: bytes that no row refers to, and that are so old that no upload
can still be writing them. Bytes that a row refers to are never changed or removed. Rows change only if the caller
requests repairs and passes in a catalogue for them. A blob whose bytes are missing or corrupt is then marked as lost;
posting its payload again repairs every artifact that shares the blob.
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
"""Age below which an unknown blob is no orphan: it may belong to an upload whose intent the query did not see yet."""
BATCH = 500
"""Maximum names that one query looks up in the catalogue, and maximum dead blobs that one query reads. Chosen, not
measured."""
_CLOCKS_APART = timedelta(minutes=10)
"""How far the catalogue's clock, which dates deletions, may differ from this process's clock."""
_LOSSES = frozenset({"missing", "corrupt"})
"""Kinds of findings for which a repair marks the blob as lost. An `unreadable` blob is not marked, because it may
become readable again."""


class RepairCatalog(Catalog, TextIndex, Protocol):
    """The ports that a repair of rows needs: it marks blobs, and repairs the full-text index."""


class Examination(Protocol):
    """A check of one engine's health."""

    async def __call__(self, *, deep: bool, repair: datetime | None) -> EngineReport:
        """Examines the engine, and returns its report.

        Args:
            deep: whether to examine the engine thoroughly, which takes longer.
            repair: the moment that repairs are recorded with; None: nothing is repaired.
        """
        ...


class StoreVerification(Struct, frozen=True, kw_only=True):
    """The findings of a verification."""

    blobs: int
    """Number of live blobs that were compared with their stored bytes."""
    content: int
    """Bytes of content of these blobs, before compression."""
    stored: int
    """Number of names of blobs that the stores list."""
    findings: tuple[Finding, ...]
    removed: int
    """Number of orphans that were removed."""
    condemned: int
    """Number of blobs that were marked as lost; posting their payloads again repairs them."""
    notes: tuple[str, ...] = ()
    """Remarks of the engines that report no damage, one sentence each."""

    @property
    def clean(self) -> bool:
        """Whether no data is missing, corrupt, unreadable or contradictory; findings in `HARMLESS` do not count."""
        return all(finding.what in HARMLESS for finding in self.findings)


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
    """The catalogue through which rows are repaired; None: rows stay as they are."""
    texts: TextIndex | None = None
    """The full-text index, which is also compared with the rows; None: it is not examined."""

    async def __call__(
        self,
        *,
        digests: bool = True,
        apply: bool = False,
        orphan_age: timedelta = ORPHAN_AGE,
        progress: Progress = untold,
    ) -> StoreVerification:
        """Examines the engines, the blobs and the full-text index, and returns the findings.

        Args:
            digests: whether to read every live blob and compare its SHA-256; otherwise only names and sizes are
                compared.
            apply: whether to remove orphans that are older than `orphan_age`, and to repair rows.
            orphan_age: age from which an unknown blob counts as an orphan.
            progress: called after each blob, with the number 1 and the blob's size in bytes before compression.

        Raises:
            CoatcheckError: `storage_unavailable` if the catalogue or a whole blob store does not answer.
        """
        began = self.clock.now()
        repairs = self.repairs if apply else None
        findings: list[Finding] = []
        notes: list[str] = []
        # The engines are examined first, because the rows of a damaged database say nothing reliable about the blobs.
        for examine in self.examinations:
            examined = await examine(deep=digests, repair=None if repairs is None else began)
            findings += examined.findings
            notes += examined.notes
        blobs = content = name_count = removed = 0
        if not any(f.what == "database" for f in findings):  # a damaged database would report sound blobs as orphans
            async for namespace, blob in self.upkeep.all_blobs():
                blobs, content = blobs + 1, content + blob.size
                finding = await self._check_blob(namespace, blob, digests=digests)
                progress(1, blob.size)
                # The walk takes long, and artifacts are deleted in the meantime. A blob whose bytes are missing because
                # it was deleted is no finding.
                if finding is not None and not await self._was_deleted(namespace, blob, began):
                    findings.append(await self._mark(finding, repairs))
            # A blob that was written since the walk began has a row by now, or is too young to count as an orphan.
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

    async def _check_blob(self, namespace: str, blob: Blob, *, digests: bool) -> Finding | None:
        """Compares a blob with its stored bytes; returns the finding, or None if they agree."""
        what, detail = await self._compare(namespace, blob, digests=digests)
        if what is None:
            return None
        if blob.condemned and what in _LOSSES:
            return Finding("lost", namespace, blob.id, f"{detail} It is marked as lost already.")
        return Finding(what, namespace, blob.id, detail)

    async def _compare(self, namespace: str, blob: Blob, *, digests: bool) -> tuple[str | None, str]:
        """Returns the kind of the finding about a blob and its detail; None and an empty text if there is none."""
        # If the service was not given the blob's store, it cannot tell whether the bytes exist: they are not lost.
        if blob.placement != "inline" and store_of(self.blobs, blob.placement) is None:
            return "elsewhere", not_opened(self.blobs, blob.placement).detail
        try:
            # The cheap check comes first: the size takes one request, but the digest reads all bytes.
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
        digest = hashlib.sha256()
        async for block in content.blocks(0, blob.size):
            digest.update(block)
        return digest.digest()

    async def _was_deleted(self, namespace: str, blob: Blob, began: datetime) -> bool:
        """Returns whether a blob was deleted since the check began; the sweep then removes its bytes."""
        if not await self.upkeep.find_known_blobs([(namespace, blob.id)]):
            return True
        # The catalogue dates deletions by its own clock, which may differ from this process's clock. So the dead blobs
        # of a somewhat longer time are searched.
        after = DeadBlob(namespace="", id="", placement=blob.placement, dead_at=began - _CLOCKS_APART)
        until = self.clock.now() + _CLOCKS_APART
        while batch := await self.upkeep.dead_blobs(until, BATCH, after):
            if any((dead.namespace, dead.id) == (namespace, blob.id) for dead in batch):
                return True
            after = batch[-1]
        # The sweep may have deleted the blob's row between the first query and the search, so the query is repeated.
        return not await self.upkeep.find_known_blobs([(namespace, blob.id)])

    async def _mark(self, finding: Finding, repairs: RepairCatalog | None) -> Finding:
        """Marks the blob of a finding as lost, and returns a finding that says so.

        Returns the finding unchanged if no repair is wanted, the finding is no loss, or the catalogue changes nothing.
        """
        if repairs is None or finding.what not in _LOSSES:
            return finding
        change = MarkBlobCorrupt(namespace=finding.namespace, blob_id=finding.blob_id, now=self.clock.now())
        if not await repairs.commit(change):
            return finding
        detail = f"{finding.detail} It is marked as lost now: posting the same payload again repairs it."
        return Finding(finding.what, finding.namespace, finding.blob_id, detail, repaired=True)

    async def _orphans(self, findings: list[Finding], before: datetime, *, apply: bool) -> tuple[int, int]:
        """Adds a finding for each orphan; returns how many names the stores list, and how many orphans were removed."""
        seen = removed = 0
        # Every open store is searched: after a switch from files to S3, the file store still holds blobs.
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
        """Returns a finding for each name of a batch that no row refers to; with `apply`, removes the bytes."""
        known_blobs = await self.upkeep.find_known_blobs([(name.namespace, name.id) for name in batch])
        findings: list[Finding] = []
        for name in batch:
            # A young blob is skipped: it may belong to an upload whose intent this query could not see yet.
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
