"""Commits an artifact that points only at bytes that exist: the last step of storing a payload.

Crash story: a single transaction decides. Before it there is at most an intent and a file, which the reaper removes.
"""

from msgspec.structs import replace

from coatcheck.core.artifact import Blob, Gone
from coatcheck.core.policies.quota import QuotaExceeded, QuotaLimits
from coatcheck.ports.artifacts import IngestResult, KeyConflict, StoreArtifact, UploadFenced
from coatcheck.ports.catalog import Catalog
from coatcheck.runtime.circuit_breaker import CircuitBreaker
from coatcheck.storing.blob_health import BlobHealth
from coatcheck.storing.evict import NoQuota, QuotaEnforcer

CommitAnswer = IngestResult | Gone | UploadFenced | KeyConflict | None


class ApproachingCommits:
    """Counts payloads whose bytes have all arrived but are not committed: changes that a writer may gather with others.

    A context manager around that part of an ingest; any number of them may be open.
    """

    def __init__(self) -> None:
        self.count = 0

    def __enter__(self) -> None:
        """Counts one more commit on its way."""
        self.count += 1

    def __exit__(self, *_: object) -> None:
        """Counts one less: it is about to be committed, or never will be."""
        self.count -= 1


class CommitArtifact:
    """Commits artifacts whose bytes are durable."""

    def __init__(
        self,
        catalog: Catalog,
        blob_health: BlobHealth,
        breaker: CircuitBreaker,
        blobs_breaker: CircuitBreaker,
        rooms: QuotaEnforcer | None = None,
    ) -> None:
        """`breaker` is that of the catalogue. Without `rooms`, nothing is limited."""
        self._rooms: QuotaEnforcer = rooms or NoQuota()
        self._catalog = catalog
        self._blob_health = blob_health
        self._breaker = breaker
        self._blobs_breaker = blobs_breaker

    async def __call__(self, change: StoreArtifact) -> CommitAnswer:
        """Commits.

        A file can be committed only once, with its intent, so what it would be deduplicated with is checked first;
        inline bytes can be offered twice, which saves the common case a query.

        Raises:
            CoatcheckError: `storage_full`, `storage_unavailable`, `quota_exceeded`.
        """
        namespace = change.namespace
        if change.blob.placement != "inline":
            with self._breaker.guard_call():
                same = await self._catalog.same_bytes(namespace, change.blob.sha256, change.blob.size)
            if same is not None:
                await self._holds(namespace, same)
            return await self._store(change)
        answer = await self._store(change)
        # The commit used our bytes, or refused: no other blob needs a check.
        if not isinstance(answer, IngestResult) or answer.blob_used:
            return answer
        if await self._holds(namespace, answer.artifact.blob):
            return answer
        # The blob that the commit pointed at turned out damaged and is now marked, so the same change stores our bytes
        # instead.
        again = await self._store(change)
        return (
            # What the first commit created, the second one finds: the receipt reports the first.
            IngestResult(again.artifact, answer.created, again.blob_used) if isinstance(again, IngestResult) else again
        )

    async def _holds(self, namespace: str, blob: Blob) -> bool:
        if blob.condemned or blob.placement == "inline":
            return not blob.condemned
        with self._blobs_breaker.guard_call():
            return await self._blob_health.holds(namespace, blob)

    async def _store(self, change: StoreArtifact) -> CommitAnswer:
        async def commit_change(room: QuotaLimits | None) -> CommitAnswer | QuotaExceeded:
            # Eviction runs the change again, each time with the quota that holds at that moment.
            limited = change if room is None else replace(change, room=room)
            return await self._catalog.commit(limited)

        with self._breaker.guard_call():
            return await self._rooms.within_quota(change.namespace, commit_change)
