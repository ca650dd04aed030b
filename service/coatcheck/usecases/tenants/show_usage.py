"""Show administrators what namespaces hold and may hold, and delete whole namespaces.

A namespace that is being deleted stores nothing any more; upkeep deletes everything in it, in batches, and can stop and
continue at any point: the mark is a row, a batch is a transaction. What is held stays until the hold is released, and
so does the mark. When nothing is left the mark goes too, and the namespace is as if it had never been used; its
policies and keys stay for the administrator to remove. Crash story: before the mark is committed nothing has happened;
after it, the schedule of any replica continues.
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


@dataclass(frozen=True)
class ShowUsage:
    """Lists how much each namespace holds."""

    decisions: Decisions
    policies: Policies

    async def __call__(self, caller: Caller, namespace: str | None, *, cursor: str | None, limit: int) -> UsagePage:
        """Returns namespaces by name; all of them if the caller administers all and names none.

        Raises:
            CoatcheckError: `forbidden`, `invalid_request`, `invalid_cursor`.
        """
        after = read_namespace_cursor(cursor)
        check_page_limit(limit)
        only = resolve_listed(caller, namespace)
        usages = await self.decisions.usages(only, after=after or "", limit=limit + 1)
        # A namespace in which nothing was ever stored has no row, but its administrator may ask for it.
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
"""Artifacts that one transaction deletes."""


class EmptyRound(Struct, frozen=True, kw_only=True):
    """The result of one round of deleting namespaces."""

    artifacts: int = 0
    namespaces: int = 0
    """Namespaces that are now empty and no longer being deleted."""


@dataclass(frozen=True)
class EmptyNamespace:
    """Deletes namespaces with everything in them, in batches."""

    decisions: Decisions
    clock: Clock
    policies: Policies
    _: KW_ONLY
    tombstone_life: timedelta

    async def begin(self, caller: Caller, namespace: str) -> Usage:
        """Begins to delete a namespace; returns what it holds. Repeating it changes nothing.

        Raises:
            CoatcheckError: `held` if a hold covers the namespace itself; `forbidden`; `invalid_request`;
                `namespace_not_found` if nothing was ever stored in it.
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
        """Deletes what no hold covers in every namespace that is being deleted; returns what went.

        Raises:
            CoatcheckError: `storage_unavailable`; the next round continues.
        """
        artifacts = namespaces = 0
        for usage in await self.decisions.list_marked_namespaces():
            artifacts += await self._drain(usage.namespace)
            namespaces += await self._end(usage.namespace)
        return EmptyRound(artifacts=artifacts, namespaces=namespaces)

    async def _drain(self, namespace: str) -> int:
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
        """Removes the mark when nothing is left; until then it fences uploads that are under way."""
        usage = (await self.decisions.usages(namespace))[0]
        # Held artifacts and open uploads keep the mark: without it, an upload could still commit after the namespace
        # was reported deleted.
        if usage.artifacts or usage.reserved:
            return False
        change = MarkNamespace(namespace=namespace, now=self.clock.now(), deleting=False, by=SCHEDULE)
        ended = await self.decisions.commit(change)
        if ended is True:
            log.info("namespace %r is deleted", namespace)
        return ended is True
