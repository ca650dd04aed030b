"""Delete a namespace: it stores nothing any more, and upkeep deletes everything in it, in batches.

Deletion can stop at any point and continues from there: the mark is a row, a batch is a transaction. What is held stays
until the hold is released, and so does the mark. When nothing is left the mark goes too, and the namespace is as if it
had never been used; the administrator removes its policies and keys. Crash story: before the mark is committed nothing
has happened; after it, the schedule of any replica continues.
"""

import logging
from datetime import timedelta
from typing import Final

from msgspec import Struct

from coatcheck.core.artifact import Caller
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.core.keys import check_namespace, require_everywhere
from coatcheck.core.policies.quota import Usage
from coatcheck.core.retention.audit import SCHEDULE, By
from coatcheck.core.retention.holds import HoldConflict, refusal_of_delete
from coatcheck.ports.clock import Clock
from coatcheck.ports.decisions import Decisions, DeleteNamespace, MarkNamespace
from coatcheck.storing.policies import Policies

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
