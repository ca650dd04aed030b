"""Delete an artifact, or all of a session's. They are gone from the commit on; their bytes follow after a grace period.

Crash story: one transaction replaces the row with its tombstone and marks the blob dead. The sweep removes a dead
blob's bytes first and its row second; after a crash it can repeat both without harm.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

from coatcheck.core.artifact import Caller, Gone
from coatcheck.core.keys import require_session
from coatcheck.core.retention.audit import By, HoldConflict, refusal_of_delete
from coatcheck.ports.artifacts import DeleteArtifact, DeleteSession
from coatcheck.ports.catalog import Catalog
from coatcheck.ports.telemetry import Clock
from coatcheck.storing.fallback_buffer import FallbackBuffer
from coatcheck.storing.find import SessionNames, gone_error, not_found, require_seen
from coatcheck.storing.policies import Policies

BATCH = 200
"""Artifacts deleted in one transaction, so few that others wait milliseconds at most."""


@dataclass(frozen=True)
class _Deletion:
    """What both verbs need."""

    catalog: Catalog
    clock: Clock
    tombstone_life: timedelta
    """How long tombstones last where no policy decides."""
    fallback: FallbackBuffer
    policies: Policies
    """Decide how long a namespace's tombstones last."""

    def _tombstone_until(self, caller: Caller, now: datetime) -> datetime:
        """Returns the moment at which the tombstone of what is deleted `now` is forgotten."""
        return now + self.policies.tombstone_life(caller.namespace, self.tombstone_life)


class Forget(_Deletion):
    """Deletes one artifact."""

    async def __call__(self, caller: Caller, number: int) -> None:
        """Deletes the artifact.

        Raises:
            CoatcheckError: `artifact_gone` if it was gone already, `artifact_not_found` if it is unknown, `held` if a
                hold forbids it.
        """
        await require_seen(self.catalog, self.fallback, caller, number, self.clock.now())
        # Alone, or the flush could store the payload after the row was deleted and before the buffer forgets it.
        async with self.fallback.alone_with(caller.namespace, number):
            waited = self.fallback.find(caller.namespace, number, self.clock.now()) is not None
            answer = await self._delete(caller, number)
            self.fallback.forget(caller.namespace, number, durably=True)
        self._answer(answer, waited=waited)

    async def _delete(self, caller: Caller, number: int) -> bool | Gone | HoldConflict | None:
        now = self.clock.now()
        return await self.catalog.commit(
            DeleteArtifact(
                namespace=caller.namespace,
                number=number,
                now=now,
                tombstone_until=self._tombstone_until(caller, now),
                by=By.of(caller),
            )
        )

    @staticmethod
    def _answer(answer: bool | Gone | HoldConflict | None, *, waited: bool) -> None:
        if isinstance(answer, HoldConflict):
            raise refusal_of_delete(answer)
        if waited and answer is not True:
            return  # it was nowhere but in memory
        if isinstance(answer, Gone):
            raise gone_error(answer)
        if not answer:
            raise not_found()


@dataclass(frozen=True)
class ForgetSession(_Deletion):
    """Deletes everything in a session."""

    session_names: SessionNames

    async def __call__(self, caller: Caller, session: str) -> int:
        """Deletes a session's artifacts in batches; returns how many there were, 0 for an unused session.

        Raises:
            CoatcheckError: `held` if a hold covers the session, and then nothing is deleted; or if holds cover some of
                its artifacts, and then all others are deleted.
        """
        session = await self.session_names.real(caller, session)
        require_session(caller, session)
        # First what waits in memory: stored in between, it is found by the batches below.
        total = await self._forget_waiting(caller, session)
        while True:
            # A fresh time for each batch, as a large session takes long.
            now = self.clock.now()
            outcome = await self.catalog.commit(
                DeleteSession(
                    namespace=caller.namespace,
                    session=session,
                    now=now,
                    tombstone_until=self._tombstone_until(caller, now),
                    limit=BATCH,
                    by=By.of(caller),
                )
            )
            if isinstance(outcome, HoldConflict):
                raise refusal_of_delete(outcome, deleted=total)
            total += outcome
            if outcome < BATCH:
                break
        # Batches leave what is held; the caller is told only once nothing else is left.
        conflict = await self.catalog.holds_within(caller.namespace, session, self.clock.now())
        if conflict is not None:
            raise refusal_of_delete(conflict, deleted=total)
        return total

    async def _forget_waiting(self, caller: Caller, session: str) -> int:
        """Drops what waits in memory. What is being stored at this moment is stored first and then deleted."""
        total = 0
        for key in self.fallback.of_session(caller.namespace, session):
            async with self.fallback.alone_with(*key):
                total += self.fallback.forget(*key, durably=True)
        return total
