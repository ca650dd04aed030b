"""Keeps a namespace within its quota: reserves room as bytes arrive, and evicts, if its policy says so, or refuses.

Expired artifacts go first, then those that were read least recently; never pinned or held ones. Reads of this process
are written before anything is chosen; those of other replicas are at most a second old. Crash story: each batch is one
transaction that leaves tombstones; the payload that needed the room is stored in another one afterwards, so a crash
between the two has evicted in vain, within the limits of the policy.

Room for an upload is reserved before its bytes are written, in steps that double, if the namespace has a limit. The
commit determines what it really needs, and however else the upload ends, its reservation is released with its intent.
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
"""Artifacts evicted in one transaction."""
_TRIES: Final = 8
"""Attempts at one change, each of which found that others had taken the room made for it."""


class QuotaEnforcer(Protocol):
    """What knows a namespace's quota and can make room."""

    def room(self, namespace: str) -> QuotaLimits | None:
        """Returns the quota of a namespace; None: unlimited."""
        ...

    async def within_quota(
        self, namespace: str, change: Callable[[QuotaLimits | None], Awaitable[T | QuotaExceeded]]
    ) -> T:
        """Runs a change that may need room, and returns its result once there is room for it."""
        ...


class NoQuota:
    """Enforces no quota, for stores without limits."""

    def room(self, namespace: str) -> QuotaLimits | None:
        """Always None: nothing is limited."""
        del namespace
        return None

    async def within_quota(
        self, namespace: str, change: Callable[[QuotaLimits | None], Awaitable[T | QuotaExceeded]]
    ) -> T:
        """Runs the change and returns its result."""
        answer = await change(None)
        if isinstance(answer, QuotaExceeded):
            raise quota_exceeded(namespace, answer)
        return answer


@dataclass(frozen=True)
class Evict:
    """Evicts artifacts of a full namespace where its policy allows it; otherwise refuses."""

    catalog: Catalog
    """Chooses and removes, each batch in one transaction."""
    clock: DeletionClock
    """Says in `pause_reason` when its time may be wrong; nothing is evicted then."""
    policies: Policies
    """Say how much a namespace may hold, and whether it evicts."""
    note: Callable[[], Awaitable[None]]
    """Writes the reads of this process."""
    _: KW_ONLY
    tombstone_life: timedelta
    """For namespaces whose policy names none."""

    def room(self, namespace: str) -> QuotaLimits | None:
        """Returns the quota of a namespace; None: unlimited."""
        return self.policies.room(namespace)

    async def within_quota(
        self, namespace: str, change: Callable[[QuotaLimits | None], Awaitable[T | QuotaExceeded]]
    ) -> T:
        """Returns the answer of a change that may need room, retrying it after room was made.

        Raises:
            CoatcheckError: `quota_exceeded`, and what the change raises.
        """
        answer = await change(self.room(namespace))
        for _ in range(_TRIES):
            if not isinstance(answer, QuotaExceeded):
                return answer
            # Hopeless: the change alone exceeds the quota, so eviction would empty the namespace for nothing.
            if answer.hopeless or await self._evict(namespace, answer) is None:
                break
            answer = await change(self.room(namespace))
        if isinstance(answer, QuotaExceeded):
            raise quota_exceeded(namespace, answer)
        return answer

    async def relieve_all(self, decisions: Decisions) -> int:
        """Evicts what namespaces hold beyond their limits, if their policies say so; returns how many artifacts.

        A namespace exceeds a limit if the limit was lowered, or kept views exceeded it.

        Raises:
            CoatcheckError: `storage_unavailable`; the next round continues.
        """
        evicted_count, after = 0, ""
        # Without any policy that evicts, the walk over all namespaces is skipped.
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
        """Returns how many were evicted; None if not enough can be, or none may be."""
        if not self.policies.evicts(namespace):
            return None
        if not (full.over_bytes or full.over_artifacts):
            return 0
        # Unwritten reads would make the artifacts that are in use right now look like the least recently read.
        await self.note()
        evicted_count = 0
        while True:
            now = self.clock.now()
            if self.clock.pause_reason is not None:  # by a wrong clock, everything may seem expired or long unread
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
            # An empty batch means that removing everything that may go would not suffice: another round would find the
            # same.
            if evicted.enough or not evicted.artifacts:
                break
        if evicted_count:
            log.info(
                "namespace %r was full: %d artifacts that were read longest ago were evicted", namespace, evicted_count
            )
        return evicted_count if evicted.enough else None


def quota_exceeded(namespace: str, full: QuotaExceeded) -> CoatcheckError:
    """Returns the refusal: what is full, and by how much."""
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
"""Minimum bytes reserved beyond what has arrived, so that not every block is a transaction."""


class Reservation:
    """The reservation of one upload."""

    def __init__(
        self, catalog: Catalog, quotas: "QuotaEnforcer", namespace: str, blob_id: str, *, limited: bool
    ) -> None:
        """Reserves nothing yet; `limited` is false for what is stored whether or not there is room."""
        self._catalog = catalog
        self._quotas = quotas
        self._namespace = namespace
        self._blob_id = blob_id
        self._limited = limited
        self._reserved: int | None = None
        """None: nothing needs to be reserved."""

    async def begin(self, placement: Placement, lease_until: datetime, size: int) -> None:
        """Records the intent, with room for `size` bytes, and for more if there is.

        Raises:
            CoatcheckError: `quota_exceeded`; then there is no intent.
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
        # The first attempt reserves ahead, every later one only what has arrived: eviction must not remove artifacts
        # for bytes that may never come.
        steps = iter((_ahead(size),))

        async def change(quota: QuotaLimits | None) -> QuotaExceeded | None:
            # The quota is read on each attempt, as a policy may add or remove the limit between two of them.
            self._reserved = None if quota is None or quota.max_bytes is None else next(steps, size)
            answer = await begin_upload(self._reserved or 0, quota)
            if isinstance(answer, QuotaExceeded) and self._reserved != size:
                self._reserved = next(steps, size)
                answer = await begin_upload(self._reserved, quota)
            return answer

        await self._quotas.within_quota(self._namespace, change)

    async def cover(self, size: int) -> bool:
        """Ensures room for `size` bytes in total; returns false if the upload was reaped.

        Raises:
            CoatcheckError: `quota_exceeded`.
        """
        if self._reserved is None or size <= self._reserved:
            return True
        # As in `begin`: ahead once, then exactly, before anything is evicted.
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
