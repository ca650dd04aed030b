"""Show administrators how much each namespace stores and what its limits are, and delete whole namespaces.

A deletion begins with a row that marks the namespace. A marked namespace refuses new payloads. Maintenance deletes its
artifacts in batches, each in its own transaction, so the work can stop and continue at any point. Held artifacts stay
until their holds are released, and the mark stays as long. Once nothing is left, the mark is removed, and the namespace
is as if it had never been used. Its policies and keys stay until an administrator removes them.

Crash story: before the mark is committed, nothing has changed. Afterwards, maintenance in any replica continues the
deletion.
"""

import logging
from dataclasses import KW_ONLY, dataclass
from datetime import datetime, timedelta
from typing import Annotated, Final

from msgspec import Meta, Struct

from coatcheck.core.artifact import Caller
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.core.keys import (
    check_namespace,
    check_page_limit,
    namespace_cursor,
    read_namespace_cursor,
    require_everywhere,
    resolve_listed,
)
from coatcheck.core.policies.policy import value_or
from coatcheck.core.policies.quota import QuotaLimits, Usage
from coatcheck.core.retention.audit import SCHEDULE, By, HoldConflict, refusal_of_delete
from coatcheck.ports.decisions import Decisions, DeleteNamespace, MarkNamespace
from coatcheck.ports.telemetry import Clock
from coatcheck.storing.policies import Policies


class NamespaceUsage(Struct, frozen=True, kw_only=True):
    """What a namespace holds, and its limits."""

    namespace: str
    bytes: Annotated[
        int, Meta(description="Stored bytes: compressed, and counted once if several artifacts share them.")
    ]
    artifacts: Annotated[int, Meta(description="Includes artifacts that have expired and are not removed yet.")]
    reserved: Annotated[int, Meta(description="Bytes reserved by uploads in progress.")]
    max_bytes: Annotated[int | None, Meta(description="Null: no limit.")]
    max_artifacts: Annotated[int | None, Meta(description="Null: no limit.")]
    evict: Annotated[str, Meta(description="What happens when it is full.")]
    deleting_at: Annotated[datetime | None, Meta(description="When its deletion began. Null: it is not being deleted.")]

    @classmethod
    def of(cls, usage: Usage, limits: QuotaLimits, evict: str) -> "NamespaceUsage":
        """Returns a namespace's usage with its limits."""
        return cls(
            namespace=usage.namespace,
            bytes=usage.bytes,
            artifacts=usage.artifacts,
            reserved=usage.reserved,
            max_bytes=limits.max_bytes,
            max_artifacts=limits.max_artifacts,
            evict=evict,
            deleting_at=usage.deleting_at,
        )


class UsagePage(Struct, frozen=True):
    """A page of namespaces, by name."""

    items: tuple[NamespaceUsage, ...]
    next: str | None = None
    """The cursor of the next page; None: this is the last page."""


@dataclass(frozen=True)
class ShowUsage:
    """Lists how much each namespace stores, and its limits."""

    decisions: Decisions
    policies: Policies

    async def __call__(self, caller: Caller, namespace: str | None, *, cursor: str | None, limit: int) -> UsagePage:
        """Returns a page of the usage of namespaces, by name.

        Args:
            caller: the caller.
            namespace: the only namespace to return; None: all namespaces that the caller administers.
            cursor: `next` of the previous page; None: the first page.
            limit: maximum namespaces of the page.

        Raises:
            CoatcheckError: `forbidden`, `invalid_request`, `invalid_cursor`.
        """
        after = read_namespace_cursor(cursor)
        check_page_limit(limit)
        only = resolve_listed(caller, namespace)
        usages = await self.decisions.usages(only, after=after or "", limit=limit + 1)
        # A namespace in which nothing was ever stored has no row, but its administrator gets its usage, which is 0.
        if only is not None and not usages and not after:
            usages = [Usage(namespace=only)]
        last = usages[limit - 1].namespace if len(usages) > limit else None
        return UsagePage(tuple(map(self._line, usages[:limit])), namespace_cursor(last))

    def _line(self, usage: Usage) -> NamespaceUsage:
        policy = self.policies.effective(usage.namespace)
        limits = QuotaLimits(value_or(policy.max_bytes, None), value_or(policy.max_artifacts, None))
        return NamespaceUsage.of(usage, limits, value_or(policy.evict, "off"))


log = logging.getLogger(__name__)

BATCH: Final = 200
"""Maximum artifacts that one transaction deletes."""


class EmptyRound(Struct, frozen=True, kw_only=True):
    """The result of one round of deleting namespaces."""

    artifacts: int = 0
    """Number of artifacts that were deleted."""
    namespaces: int = 0
    """Number of namespaces whose deletion is complete: they are empty, and no longer marked."""


@dataclass(frozen=True)
class EmptyNamespace:
    """Deletes namespaces with all their artifacts, in batches."""

    decisions: Decisions
    clock: Clock
    policies: Policies
    _: KW_ONLY
    tombstone_life: timedelta

    async def begin(self, caller: Caller, namespace: str) -> Usage:
        """Begins to delete a namespace; returns its present usage. Repeating the call changes nothing.

        Raises:
            CoatcheckError: `held` if a hold covers the namespace as a whole; `forbidden`; `invalid_request`;
                `namespace_not_found` if nothing was ever stored in the namespace.
        """
        require_everywhere(caller)
        check_namespace(namespace)
        if not await self.decisions.usages(namespace):
            raise CoatcheckError(
                Code.NAMESPACE_NOT_FOUND, f"Nothing was ever stored in a namespace {namespace!r}. Check its name."
            )
        by = By.of(caller)
        outcome = await self.decisions.commit(
            MarkNamespace(namespace=namespace, now=self.clock.now(), deleting=True, by=by)
        )
        if isinstance(outcome, HoldConflict):
            raise refusal_of_delete(outcome)
        return (await self.decisions.usages(namespace))[0]

    async def __call__(self) -> EmptyRound:
        """Deletes all artifacts without a hold in the namespaces that are marked for deletion; returns how many.

        Raises:
            CoatcheckError: `storage_unavailable`; the next round continues.
        """
        artifacts = namespaces = 0
        for usage in await self.decisions.list_marked_namespaces():
            artifacts += await self._drain(usage.namespace)
            namespaces += await self._end(usage.namespace)
        return EmptyRound(artifacts=artifacts, namespaces=namespaces)

    async def _drain(self, namespace: str) -> int:
        """Deletes the artifacts of a namespace that no hold covers; returns how many."""
        total = 0
        while True:
            now = self.clock.now()
            count = await self.decisions.commit(
                DeleteNamespace(
                    namespace=namespace,
                    now=now,
                    tombstone_until=now + self.policies.tombstone_life(namespace, self.tombstone_life),
                    limit=BATCH,
                )
            )
            total += count
            if count < BATCH:
                return total

    async def _end(self, namespace: str) -> bool:
        """Removes the mark of a namespace if nothing is left in it; returns whether it was removed."""
        usage = (await self.decisions.usages(namespace))[0]
        # The mark stays while there are held artifacts or open uploads. Without the mark, an open upload could commit
        # after the namespace was reported as deleted.
        if usage.artifacts or usage.reserved:
            return False
        change = MarkNamespace(namespace=namespace, now=self.clock.now(), deleting=False, by=SCHEDULE)
        ended = await self.decisions.commit(change)
        if ended is True:
            log.info("namespace %r is deleted", namespace)
        return ended is True
