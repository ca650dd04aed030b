"""Commits an artifact, which is the last step of storing a payload, and ensures that the bytes it points at exist.

Crash story: a single transaction stores the artifact. A crash before it leaves at most an intent and a file, which
maintenance removes.
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
    """Counts the commits that are on their way, because their payloads have arrived completely.

    A writer that gathers changes may wait for these commits. An ingest enters this context manager once its payload has
    arrived, and leaves it after its commit; any number of ingests may be in it at once.
    """

    def __init__(self) -> None:
        self.count = 0

    def __enter__(self) -> None:
        """Counts one more commit on its way."""
        self.count += 1

    def __exit__(self, *_: object) -> None:
        """Subtracts one from the count, because the ingest has committed or has failed."""
        self.count -= 1


class CommitArtifact:
    """Commits artifacts whose bytes are durable, and checks the blobs with which they are deduplicated."""

    def __init__(
        self,
        catalog: Catalog,
        blob_health: BlobHealth,
        breaker: CircuitBreaker,
        blobs_breaker: CircuitBreaker,
        rooms: QuotaEnforcer | None = None,
    ) -> None:
        """Stores its arguments.

        Args:
            catalog: takes the changes.
            blob_health: checks the blobs with which artifacts are deduplicated.
            breaker: guards calls to the catalogue.
            blobs_breaker: guards calls to the blob store.
            rooms: makes room in full namespaces; None: no quota applies.
        """
        self._rooms: QuotaEnforcer = rooms or NoQuota()
        self._catalog = catalog
        self._blob_health = blob_health
        self._breaker = breaker
        self._blobs_breaker = blobs_breaker

    async def __call__(self, change: StoreArtifact) -> CommitAnswer:
        """Commits an artifact, and returns the answer of the catalogue.

        The artifact must not be deduplicated with a blob whose bytes are lost. A file can be committed only once,
        because the commit deletes its intent. So the blob with the same bytes is checked before the commit. Inline
        bytes can be committed again, so the blob is checked only after the commit, which saves most ingests a query.

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
        # If the commit used our bytes or refused the artifact, no other blob needs a check.
        if not isinstance(answer, IngestResult) or answer.blob_used:
            return answer
        if await self._holds(namespace, answer.artifact.blob):
            return answer
        # The blob with which the artifact was deduplicated is lost, and is now marked corrupt. So the same change, made
        # again, stores our bytes in its place.
        again = await self._store(change)
        return (
            # The second commit finds the artifact that the first one created, so `created` is that of the first.
            IngestResult(again.artifact, answer.created, again.blob_used) if isinstance(again, IngestResult) else again
        )

    async def _holds(self, namespace: str, blob: Blob) -> bool:
        if blob.condemned or blob.placement == "inline":
            return not blob.condemned
        with self._blobs_breaker.guard_call():
            return await self._blob_health.holds(namespace, blob)

    async def _store(self, change: StoreArtifact) -> CommitAnswer:
        async def commit_change(room: QuotaLimits | None) -> CommitAnswer | QuotaExceeded:
            # After an eviction this is called again, each time with the present quota.
            limited = change if room is None else replace(change, room=room)
            return await self._catalog.commit(limited)

        with self._breaker.guard_call():
            return await self._rooms.within_quota(change.namespace, commit_change)
