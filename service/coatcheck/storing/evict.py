"""Keeps a namespace within its quota: reserves room while bytes arrive, and evicts artifacts if there is too little.

The policy of the namespace decides whether artifacts are evicted; if not, the payload is refused. Expired artifacts go
first, then the least recently read ones, and never pinned or held ones. This process writes its own reads before
artifacts are chosen, and the reads of other replicas are written within about a second. Crash story: each batch of
evictions is one transaction that leaves tombstones. The payload that needed the room is stored in a later transaction.
After a crash between the two, artifacts were evicted without need, but within the limits of the policy.

If the namespace has a limit of bytes, room for an upload is reserved before its bytes are written, in steps that
double. The commit determines how much room the payload really needs. If the upload ends without a commit, its
reservation is released with its intent.
"""

import logging
from collections.abc import Awaitable, Callable
from dataclasses import KW_ONLY, dataclass
from datetime import datetime, timedelta
from typing import Final, Protocol, TypeVar

from coatcheck.core.artifact import Placement
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.core.policies.quota import QuotaExceeded, QuotaLimits, Usage
from coatcheck.ports.blobs import BeginUpload, ReserveMore
from coatcheck.ports.catalog import Catalog
from coatcheck.ports.decisions import Decisions
from coatcheck.ports.maintenance import EvictArtifacts
from coatcheck.ports.telemetry import DeletionClock
from coatcheck.storing.policies import Policies

log = logging.getLogger(__name__)

T = TypeVar("T")
BATCH: Final = 200
"""Maximum artifacts that one transaction evicts."""
_TRIES: Final = 8
"""Maximum attempts to make room for one change: other uploads may take the room before the change is repeated."""


class QuotaEnforcer(Protocol):
    """Knows the quotas of namespaces, and makes room for changes that need it."""

    def room(self, namespace: str) -> QuotaLimits | None:
        """Returns the quota of a namespace; None: unlimited."""
        ...

    async def within_quota(
        self, namespace: str, change: Callable[[QuotaLimits | None], Awaitable[T | QuotaExceeded]]
    ) -> T:
        """Runs a change that may need room, with the namespace's quota, and returns its result.

        If the change answers `QuotaExceeded`, it may be run again after room was made.

        Raises:
            CoatcheckError: `quota_exceeded`; any error that the change raises.
        """
        ...


class NoQuota:
    """Enforces no quota, for stores without limits."""

    def room(self, namespace: str) -> QuotaLimits | None:
        """Returns None, which means that no namespace is limited."""
        del namespace
        return None

    async def within_quota(
        self, namespace: str, change: Callable[[QuotaLimits | None], Awaitable[T | QuotaExceeded]]
    ) -> T:
        """Runs the change without a quota, and returns its result.

        Raises:
            CoatcheckError: `quota_exceeded` if the change answers so all the same; any error that the change raises.
        """
        answer = await change(None)
        if isinstance(answer, QuotaExceeded):
            raise quota_exceeded(namespace, answer)
        return answer


@dataclass(frozen=True)
class Evict:
    """Evicts artifacts of a full namespace if its policy allows it; otherwise refuses the change that needs room."""

    catalog: Catalog
    """Chooses the artifacts and removes them, each batch in one transaction."""
    clock: DeletionClock
    """The clock. While it has a `pause_reason`, its time may be wrong, and nothing is evicted."""
    policies: Policies
    """The policies, which set how much a namespace may hold, and whether artifacts are evicted from it."""
    note: Callable[[], Awaitable[None]]
    """Writes the reads of this process to the catalogue."""
    _: KW_ONLY
    tombstone_life: timedelta
    """How long tombstones last, in namespaces whose policy sets no duration."""

    def room(self, namespace: str) -> QuotaLimits | None:
        """Returns the quota of a namespace; None: unlimited."""
        return self.policies.room(namespace)

    async def within_quota(
        self, namespace: str, change: Callable[[QuotaLimits | None], Awaitable[T | QuotaExceeded]]
    ) -> T:
        """Runs a change that may need room, repeats it after evictions, and returns its answer.

        Raises:
            CoatcheckError: `quota_exceeded`; any error that the change raises.
        """
        answer = await change(self.room(namespace))
        for _ in range(_TRIES):
            if not isinstance(answer, QuotaExceeded):
                return answer
            # `hopeless` means that the change alone exceeds the quota: no eviction could make enough room.
            if answer.hopeless or await self._evict(namespace, answer) is None:
                break
            answer = await change(self.room(namespace))
        if isinstance(answer, QuotaExceeded):
            raise quota_exceeded(namespace, answer)
        return answer

    async def relieve_all(self, decisions: Decisions) -> int:
        """Evicts artifacts of all namespaces that exceed their quota and whose policy evicts; returns their number.

        A namespace exceeds its quota if the quota was lowered, or if text views that were stored later need more room
        than the quota allows.

        Raises:
            CoatcheckError: `storage_unavailable`; the next round continues.
        """
        evicted_count, after = 0, ""
        # If no policy evicts, the walk over all namespaces is skipped.
        while self.policies.evicts_anywhere and (page := await decisions.usages(None, after=after)):
            for usage in page:
                evicted_count += await self._relieve(usage)
            after = page[-1].namespace
        return evicted_count

    async def _relieve(self, usage: Usage) -> int:
        quota = self.room(usage.namespace)
        if quota is None:
            return 0
        return await self._evict(usage.namespace, QuotaExceeded(usage=usage, room=quota, bytes=0, artifacts=0)) or 0

    async def _evict(self, namespace: str, full: QuotaExceeded) -> int | None:
        """Evicts artifacts until a namespace has the room that it lacks. Returns how many artifacts it evicted.

        Returns None if the evictions do not make enough room, or the namespace does not evict.
        """
        if not self.policies.evicts(namespace):
            return None
        if not (full.over_bytes or full.over_artifacts):
            return 0
        # While the latest reads are not written, artifacts that are in use right now look like the least recently read.
        await self.note()
        evicted_count = 0
        while True:
            now = self.clock.now()
            if self.clock.pause_reason is not None:  # to a wrong clock, any artifact may seem expired or long unread
                return None
            evicted = await self.catalog.commit(
                EvictArtifacts(
                    namespace=namespace,
                    now=now,
                    room=full.room,
                    bytes=full.bytes,
                    artifacts=full.artifacts,
                    tombstone_until=now + self.policies.tombstone_life(namespace, self.tombstone_life),
                    limit=BATCH,
                )
            )
            evicted_count += evicted.artifacts
            # An empty batch means that the eviction of all candidates would not suffice. Another round would not find
            # more.
            if evicted.enough or not evicted.artifacts:
                break
        if evicted_count:
            log.info(
                "namespace %r was full: %d artifacts that were read longest ago were evicted", namespace, evicted_count
            )
        return evicted_count if evicted.enough else None


def quota_exceeded(namespace: str, full: QuotaExceeded) -> CoatcheckError:
    """Returns the error for a change that exceeds the quota. It says which limit is exceeded, and by how much."""
    usage, quota = full.usage, full.room
    return CoatcheckError(
        Code.QUOTA_EXCEEDED,
        f"The namespace {namespace} has no room for this payload: {_explain_quota(usage, quota, full)} "
        f"Nothing was stored. "
        "Delete what is no longer needed, or ask the administrator for a larger quota.",
        bytes=usage.bytes + usage.reserved,
        max_bytes=quota.max_bytes,
        artifacts=usage.artifacts,
        max_artifacts=quota.max_artifacts,
    )


def _explain_quota(usage: Usage, quota: QuotaLimits, full: QuotaExceeded) -> str:
    if full.over_artifacts:
        noun = "artifact" if usage.artifacts == 1 else "artifacts"
        return f"it holds {usage.artifacts:,} {noun} of at most {quota.max_artifacts:,}."
    return (
        f"it holds {usage.bytes + usage.reserved:,} of at most {quota.max_bytes:,} stored bytes, "
        f"and this needs {full.bytes:,} more."
    )


_AHEAD: Final = 1024 * 1024
"""Minimum bytes that are reserved beyond those that have arrived, so that not every block needs a transaction."""


class Reservation:
    """The reservation of one upload."""

    def __init__(
        self, catalog: Catalog, quotas: "QuotaEnforcer", namespace: str, blob_id: str, *, limited: bool
    ) -> None:
        """Reserves nothing yet; `limited` is false if the payload is stored even where it exceeds the quota."""
        self._catalog = catalog
        self._quotas = quotas
        self._namespace = namespace
        self._blob_id = blob_id
        self._limited = limited
        self._reserved: int | None = None
        """Reserved bytes; None: the upload needs no reservation."""

    async def begin(self, placement: Placement, lease_until: datetime, size: int) -> None:
        """Records the upload's intent, with a reservation of `size` bytes, or of more if there is room.

        Raises:
            CoatcheckError: `quota_exceeded`; then no intent is recorded.
        """

        async def begin_upload(reserve: int, quota: QuotaLimits | None) -> QuotaExceeded | None:
            return await self._catalog.commit(
                BeginUpload(
                    namespace=self._namespace,
                    blob_id=self._blob_id,
                    placement=placement,
                    lease_until=lease_until,
                    reserve=reserve,
                    room=quota,
                )
            )

        if not self._limited:
            await begin_upload(0, None)
            return
        # The first attempt reserves more than has arrived, every later one only what has arrived: artifacts must not be
        # evicted for bytes that may never come.
        steps = iter((_ahead(size),))

        async def change(quota: QuotaLimits | None) -> QuotaExceeded | None:
            # Each attempt gets the present quota, because a policy may add or remove a limit between two attempts.
            self._reserved = None if quota is None or quota.max_bytes is None else next(steps, size)
            answer = await begin_upload(self._reserved or 0, quota)
            if isinstance(answer, QuotaExceeded) and self._reserved != size:
                self._reserved = next(steps, size)
                answer = await begin_upload(self._reserved, quota)
            return answer

        await self._quotas.within_quota(self._namespace, change)

    async def cover(self, size: int) -> bool:
        """Extends the reservation to at least `size` bytes in total. Returns false if the upload was reaped.

        Raises:
            CoatcheckError: `quota_exceeded`.
        """
        if self._reserved is None or size <= self._reserved:
            return True
        # As in `begin`: one attempt reserves more than has arrived. If it fails, the next one reserves exactly `size`
        # bytes, before anything is evicted.
        steps = iter((_ahead(size),))

        async def change(quota: QuotaLimits | None) -> bool | QuotaExceeded:
            answer = await self._more(next(steps, size), quota)
            return await self._more(size, quota) if isinstance(answer, QuotaExceeded) else answer

        return await self._quotas.within_quota(self._namespace, change)

    async def _more(self, reserve: int, quota: QuotaLimits | None) -> bool | QuotaExceeded:
        change = ReserveMore(namespace=self._namespace, blob_id=self._blob_id, reserve=reserve, room=quota)
        answer = await self._catalog.commit(change)
        if answer is True:
            self._reserved = reserve
        return answer


def _ahead(size: int) -> int:
    return max(2 * size, size + _AHEAD)
