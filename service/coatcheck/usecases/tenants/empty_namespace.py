"""Delete a namespace: nothing is stored in it any more, and everything in it goes, in batches, by whoever tidies.

It can be stopped at any point and goes on where it was: the mark is a row, a batch is a transaction. What is held
stays, and with it the mark, until the hold is released. When nothing is left the mark goes too, and the namespace is as
if it had never been used; its policies and keys are the administrator's to remove. Crash story: before the mark is
committed nothing has happened; after it the schedule of any replica goes on.
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
from coatcheck.core.retention.holds import HoldConflict, held
from coatcheck.ports.clock import Clock
from coatcheck.ports.decisions import Decisions, DeleteNamespace, MarkNamespace
from coatcheck.storing.policies import Policies

log = logging.getLogger(__name__)

BATCH: Final = 200
"""Artifacts that go in one transaction."""


class EmptyRound(Struct, frozen=True, kw_only=True):
    """What one round of deleting namespaces did."""

    artifacts: int = 0
    namespaces: int = 0
    """That are empty now and no more being deleted."""


class EmptyNamespace:
    """Deletes namespaces with everything in them, in batches."""

    def __init__(self, decisions: Decisions, clock: Clock, policies: Policies, *, tombstone_life: timedelta) -> None:
        self._decisions = decisions
        self._clock = clock
        self._policies = policies
        self._life = tombstone_life

    async def begin(self, caller: Caller, namespace: str) -> Usage:
        """Begin to delete a namespace; returns what it holds. Doing it again changes nothing.

        Raises:
            CoatcheckError: `held` when a hold covers the namespace itself; `forbidden`; `invalid_request`;
                `namespace_not_found` when nothing was ever stored in it.
        """
        require_everywhere(caller)
        check_namespace(namespace)
        if not await self._decisions.usages(namespace):
            raise CoatcheckError(
                Code.NAMESPACE_NOT_FOUND, f"Nothing was ever stored in a namespace {namespace!r}. Check its name."
            )
        by = By.of(caller)
        marked = await self._decisions.commit(
            MarkNamespace(namespace=namespace, now=self._clock.now(), deleting=True, by=by)
        )
        if isinstance(marked, HoldConflict):
            raise held(marked)
        return (await self._decisions.usages(namespace))[0]

    async def __call__(self) -> EmptyRound:
        """Do what there is to do for every namespace that is being deleted.

        Raises:
            CoatcheckError: `storage_unavailable`; the next round goes on.
        """
        artifacts = namespaces = 0
        for usage in await self._decisions.marked_namespaces():
            artifacts += await self._drain(usage.namespace)
            namespaces += await self._end(usage.namespace)
        return EmptyRound(artifacts=artifacts, namespaces=namespaces)

    async def _drain(self, namespace: str) -> int:
        total = 0
        while True:
            now = self._clock.now()
            done = await self._decisions.commit(
                DeleteNamespace(
                    namespace=namespace,
                    now=now,
                    tombstone_until=now + self._policies.tombstone_life(namespace, self._life),
                    limit=BATCH,
                )
            )
            total += done
            if done < BATCH:
                return total

    async def _end(self, namespace: str) -> bool:
        """Take the mark away when nothing is left; an upload that is under way is fenced by it until then."""
        left = (await self._decisions.usages(namespace))[0]
        if left.artifacts or left.reserved:
            return False
        change = MarkNamespace(namespace=namespace, now=self._clock.now(), deleting=False, by=SCHEDULE)
        ended = await self._decisions.commit(change)
        if ended is True:
            log.info("namespace %r is deleted", namespace)
        return ended is True
