"""Show administrators what namespaces hold, and how much their policies let them hold.

Delete a namespace: it stores nothing any more, and upkeep deletes everything in it, in batches.

Deletion can stop at any point and continues from there: the mark is a row, a batch is a transaction. What is held stays
until the hold is released, and so does the mark. When nothing is left the mark goes too, and the namespace is as if it
had never been used; the administrator removes its policies and keys. Crash story: before the mark is committed nothing
has happened; after it, the schedule of any replica continues.
"""

import logging
from datetime import timedelta
from typing import Final, NamedTuple

from msgspec import Struct

from coatcheck.core.artifact import Caller
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.core.keys import check_namespace, is_everywhere, require_everywhere, resolve_administered
from coatcheck.core.policies.policy import value_or
from coatcheck.core.policies.quota import QuotaLimits, Usage
from coatcheck.core.retention.audit import SCHEDULE, By, HoldConflict, refusal_of_delete
from coatcheck.ports.decisions import Decisions, DeleteNamespace, MarkNamespace
from coatcheck.ports.telemetry import Clock
from coatcheck.storing.policies import Policies

MAX_PAGE = 200


class NamespaceUsage(NamedTuple):
    """How much one namespace holds, and its limits."""

    usage: Usage
    room: QuotaLimits
    evict: str


class UsagePage(NamedTuple):
    """Part of the list; `after` continues it."""

    items: list[NamespaceUsage]
    after: str | None


class ShowUsage:
    """Lists how much each namespace holds."""

    def __init__(self, decisions: Decisions, policies: Policies) -> None:
        self._decisions = decisions
        self._policies = policies

    async def __call__(self, caller: Caller, namespace: str | None, *, after: str | None, limit: int) -> UsagePage:
        """Returns namespaces by name; all of them if the caller administers all and names none.

        Raises:
            CoatcheckError: `forbidden`, `invalid_request`.
        """
        if not 1 <= limit <= MAX_PAGE:
            raise CoatcheckError(Code.INVALID_REQUEST, f"limit must be 1 to {MAX_PAGE}, not {limit}.", limit=limit)
        only = None if namespace is None and is_everywhere(caller) else resolve_administered(caller, namespace)
        usages = await self._decisions.usages(only, after=after or "", limit=limit + 1)
        if only is not None and not usages and not after:
            usages = [Usage(namespace=only)]
        items = [self._line(usage) for usage in usages[:limit]]
        return UsagePage(items, usages[limit - 1].namespace if len(usages) > limit else None)

    def _line(self, usage: Usage) -> NamespaceUsage:
        policy = self._policies.effective(usage.namespace)
        room = QuotaLimits(value_or(policy.max_bytes, None), value_or(policy.max_artifacts, None))
        return NamespaceUsage(usage, room, value_or(policy.evict, "off"))


log = logging.getLogger(__name__)

BATCH: Final = 200
"""Artifacts that one transaction deletes."""


class EmptyRound(Struct, frozen=True, kw_only=True):
    """The result of one round of deleting namespaces."""

    artifacts: int = 0
    namespaces: int = 0
    """Namespaces that are now empty and no longer being deleted."""


class EmptyNamespace:
    """Deletes namespaces with everything in them, in batches."""

    def __init__(self, decisions: Decisions, clock: Clock, policies: Policies, *, tombstone_life: timedelta) -> None:
        self._decisions = decisions
        self._clock = clock
        self._policies = policies
        self._life = tombstone_life

    async def begin(self, caller: Caller, namespace: str) -> Usage:
        """Begins to delete a namespace; returns what it holds. Repeating it changes nothing.

        Raises:
            CoatcheckError: `held` if a hold covers the namespace itself; `forbidden`; `invalid_request`;
                `namespace_not_found` if nothing was ever stored in it.
        """
        require_everywhere(caller)
        check_namespace(namespace)
        if not await self._decisions.usages(namespace):
            raise CoatcheckError(
                Code.NAMESPACE_NOT_FOUND, f"Nothing was ever stored in a namespace {namespace!r}. Check its name."
            )
        by = By.of(caller)
        outcome = await self._decisions.commit(
            MarkNamespace(namespace=namespace, now=self._clock.now(), deleting=True, by=by)
        )
        if isinstance(outcome, HoldConflict):
            raise refusal_of_delete(outcome)
        return (await self._decisions.usages(namespace))[0]

    async def __call__(self) -> EmptyRound:
        """Deletes what no hold covers in every namespace that is being deleted; returns what went.

        Raises:
            CoatcheckError: `storage_unavailable`; the next round continues.
        """
        artifacts = namespaces = 0
        for usage in await self._decisions.list_marked_namespaces():
            artifacts += await self._drain(usage.namespace)
            namespaces += await self._end(usage.namespace)
        return EmptyRound(artifacts=artifacts, namespaces=namespaces)

    async def _drain(self, namespace: str) -> int:
        total = 0
        while True:
            now = self._clock.now()
            count = await self._decisions.commit(
                DeleteNamespace(
                    namespace=namespace,
                    now=now,
                    tombstone_until=now + self._policies.tombstone_life(namespace, self._life),
                    limit=BATCH,
                )
            )
            total += count
            if count < BATCH:
                return total

    async def _end(self, namespace: str) -> bool:
        """Removes the mark when nothing is left; until then it fences uploads that are under way."""
        usage = (await self._decisions.usages(namespace))[0]
        if usage.artifacts or usage.reserved:
            return False
        change = MarkNamespace(namespace=namespace, now=self._clock.now(), deleting=False, by=SCHEDULE)
        ended = await self._decisions.commit(change)
        if ended is True:
            log.info("namespace %r is deleted", namespace)
        return ended is True
