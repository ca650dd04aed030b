"""Make room in a namespace that is full, where its policy says so; otherwise refuse, and lose nothing.

What goes first has expired already, then what was read longest ago; never what is pinned or held. Reads of this process
are written down before anybody is chosen; those of other replicas are a second old at most. Crash story: each batch is
one transaction that leaves tombstones; the payload that asked for the room is stored in another one afterwards, so
that a crash between the two has evicted for nothing, within the limits of the policy.
"""

import logging
from collections.abc import Awaitable, Callable
from dataclasses import KW_ONLY, dataclass
from datetime import timedelta
from typing import Final, Protocol, TypeVar

from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.core.policies.quota import QuotaExceeded, QuotaLimits, Usage
from coatcheck.ports.catalog import Catalog
from coatcheck.ports.clock import Clock
from coatcheck.ports.decisions import Decisions
from coatcheck.ports.maintenance import EvictArtifacts
from coatcheck.storing.policies import Policies

log = logging.getLogger(__name__)

T = TypeVar("T")
BATCH: Final = 200
"""Artifacts that go in one transaction."""
_TRIES: Final = 8
"""Of one change. Each finds that others took the room that was made for it."""


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
    clock: Clock
    policies: Policies
    note: Callable[[], Awaitable[None]]
    """Writes down the reads of this process."""
    _: KW_ONLY
    tombstone_life: timedelta

    def room(self, namespace: str) -> QuotaLimits | None:
        """Returns the quota of a namespace; None: unlimited."""
        return self.policies.room(namespace)

    async def within_quota(
        self, namespace: str, change: Callable[[QuotaLimits | None], Awaitable[T | QuotaExceeded]]
    ) -> T:
        """The answer of a change that may need room: made again when room was made for it.

        Raises:
            CoatcheckError: `quota_exceeded`, and what the change raises.
        """
        answer = await change(self.room(namespace))
        for _ in range(_TRIES):
            if not isinstance(answer, QuotaExceeded):
                return answer
            if answer.hopeless or await self._evict(namespace, answer) is None:
                break
            answer = await change(self.room(namespace))
        if isinstance(answer, QuotaExceeded):
            raise quota_exceeded(namespace, answer)
        return answer

    async def relieve_all(self, decisions: Decisions) -> int:
        """Evict what namespaces hold beyond their limits, where their policies say so; returns how many artifacts went.

        A namespace is over a limit when the limit was lowered, or when kept views went over it.

        Raises:
            CoatcheckError: `storage_unavailable`; the next round goes on.
        """
        gone, after = 0, ""
        while self.policies.evicts_anywhere and (page := await decisions.usages(None, after=after)):
            for usage in page:
                gone += await self._relieve(usage)
            after = page[-1].namespace
        return gone

    async def _relieve(self, usage: Usage) -> int:
        quota = self.room(usage.namespace)
        if quota is None:
            return 0
        return await self._evict(usage.namespace, QuotaExceeded(usage=usage, room=quota, bytes=0, artifacts=0)) or 0

    async def _evict(self, namespace: str, full: QuotaExceeded) -> int | None:
        """How many went; None when what is needed cannot go, or nothing may."""
        if not self.policies.evicts(namespace):
            return None
        if not (full.over_bytes or full.over_artifacts):
            return 0
        await self.note()
        gone = 0
        while True:
            now = self.clock.now()
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
            gone += evicted.artifacts
            if evicted.enough or not evicted.artifacts:
                break
        if gone:
            log.info("namespace %r was full: %d artifacts that were read longest ago were let go", namespace, gone)
        return gone if evicted.enough else None


def quota_exceeded(namespace: str, full: QuotaExceeded) -> CoatcheckError:
    """The refusal: what is full, and by how much."""
    usage, quota = full.usage, full.room
    return CoatcheckError(
        Code.QUOTA_EXCEEDED,
        f"The namespace {namespace} has no room for this payload: {_told(usage, quota, full)} Nothing was stored. "
        "Delete what is no longer needed, or ask the administrator for a larger quota.",
        bytes=usage.bytes + usage.reserved,
        max_bytes=quota.max_bytes,
        artifacts=usage.artifacts,
        max_artifacts=quota.max_artifacts,
    )


def _told(usage: Usage, quota: QuotaLimits, full: QuotaExceeded) -> str:
    if full.over_artifacts:
        noun = "artifact" if usage.artifacts == 1 else "artifacts"
        return f"it holds {usage.artifacts:,} {noun} of at most {quota.max_artifacts:,}."
    return (
        f"it holds {usage.bytes + usage.reserved:,} of at most {quota.max_bytes:,} stored bytes, "
        f"and this needs {full.bytes:,} more."
    )
