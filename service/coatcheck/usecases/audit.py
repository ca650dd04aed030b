"""Compare what the store holds with what the rows say, and the bytes with their digests.

Reports; removes only orphans, only when told to, and only those old enough that no upload can still be writing them.
"""

import hashlib
from datetime import datetime, timedelta

from msgspec import Struct

from coatcheck.core.artifact import Blob
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.ports import BlobStore, Clock, StoredName, Upkeep
from coatcheck.usecases.content import OpenContent

ORPHAN_AGE = timedelta(days=1)
"""An unknown blob younger than this may belong to an upload whose intent is not visible yet."""

BATCH = 500


class Finding(Struct, frozen=True):
    """Something that is not as it should be."""

    what: str
    """`orphan`: bytes that no row knows; `missing`: a row without its bytes; `corrupt`: bytes that are not what the
    row says; `unreadable`: bytes that the disk would not give, nor say that they are not there."""
    namespace: str
    blob_id: str
    detail: str


class Audited(Struct, frozen=True, kw_only=True):
    """What an audit saw."""

    blobs: int
    """Live blobs looked at."""
    stored: int
    """Names found in the store."""
    findings: tuple[Finding, ...]
    removed: int
    """Orphans removed."""

    @property
    def clean(self) -> bool:
        """Whether nothing is missing, corrupt or unreadable; orphans cost space, not data."""
        return all(f.what == "orphan" for f in self.findings)


class Audit:
    """The verb."""

    def __init__(self, upkeep: Upkeep, blobs: BlobStore, open_content: OpenContent, clock: Clock) -> None:
        self._upkeep = upkeep
        self._blobs = blobs
        self._open = open_content
        self._clock = clock

    async def __call__(
        self, *, digests: bool = True, apply: bool = False, orphan_age: timedelta = ORPHAN_AGE
    ) -> Audited:
        """Look at everything.

        Args:
            digests: read every live blob whole and compare its SHA-256; otherwise only compare names and sizes.
            apply: remove orphans older than `orphan_age`.
            orphan_age: how old an unknown blob must be to be an orphan.
        """
        findings: list[Finding] = []
        blobs = 0
        async for namespace, blob in self._upkeep.all_blobs():
            blobs += 1
            finding = await self._look(namespace, blob, digests=digests)
            if finding is not None and await self._upkeep.known_blobs([(namespace, blob.id)]):
                findings.append(finding)  # otherwise it was deleted and swept while we looked
        stored, removed = await self._orphans(findings, self._clock.now() - orphan_age, apply=apply)
        return Audited(blobs=blobs, stored=stored, findings=tuple(findings), removed=removed)

    async def _look(self, namespace: str, blob: Blob, *, digests: bool) -> Finding | None:
        try:
            size = await self._open.stored_size(namespace, blob)
            if size is None:
                return Finding("missing", namespace, blob.id, f"{blob.stored_size:,} stored bytes are missing.")
            if size != blob.stored_size:
                detail = f"{size:,} bytes are stored where {blob.stored_size:,} should be."
                return Finding("corrupt", namespace, blob.id, detail)
            if digests and await self._digest(namespace, blob) != blob.sha256:
                return Finding("corrupt", namespace, blob.id, "The content's SHA-256 is not the recorded one.")
        except CoatcheckError as error:
            what = "corrupt" if error.code is Code.INTEGRITY else "unreadable"
            return Finding(what, namespace, blob.id, error.detail)
        return None

    async def _digest(self, namespace: str, blob: Blob) -> bytes:
        content = await self._open.of_blob(namespace, blob)
        h = hashlib.sha256()
        async for block in content.blocks(0, blob.size):
            h.update(block)
        return h.digest()

    async def _orphans(self, findings: list[Finding], before: datetime, *, apply: bool) -> tuple[int, int]:
        stored = removed = 0
        batch: list[StoredName] = []
        async for name in self._blobs.names():
            stored += 1
            batch.append(name)
            if len(batch) == BATCH:
                removed += await self._sift(batch, findings, before, apply=apply)
                batch.clear()
        removed += await self._sift(batch, findings, before, apply=apply)
        return stored, removed

    async def _sift(self, batch: list[StoredName], findings: list[Finding], before: datetime, *, apply: bool) -> int:
        removed = 0
        known = await self._upkeep.known_blobs([(n.namespace, n.id) for n in batch])
        for name in batch:
            if (name.namespace, name.id) in known or name.modified_at > before:
                continue
            done = apply and await self._blobs.remove(name.namespace, name.id)
            removed += done
            detail = f"{name.size:,} bytes that no row knows" + ("; removed." if done else ".")
            findings.append(Finding("orphan", name.namespace, name.id, detail))
        return removed
