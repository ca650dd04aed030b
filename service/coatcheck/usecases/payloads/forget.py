"""Delete an artifact, or all artifacts of a session.

An artifact can no longer be read once its deletion is committed. Its bytes are removed after a grace period.

Crash story: one transaction replaces the artifact's row by a tombstone and marks the blob dead. Later the sweep removes
the dead blob's bytes, and then the blob's row; after a crash it can repeat both steps without harm.
"""

import logging
from dataclasses import dataclass
from datetime import datetime, timedelta

from coatcheck.core.artifact import Caller, Gone
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.core.keys import require_session
from coatcheck.core.retention.audit import By, HoldConflict, refusal_of_delete
from coatcheck.ports.artifacts import DeleteArtifact, DeleteSession
from coatcheck.ports.catalog import Catalog
from coatcheck.ports.telemetry import Clock
from coatcheck.storing.fallback_buffer import FallbackBuffer, Key
from coatcheck.storing.find import SessionNames, gone_error, not_found, require_seen
from coatcheck.storing.ledger import NoteReads
from coatcheck.storing.policies import Policies

log = logging.getLogger(__name__)

BATCH = 200
"""Maximum artifacts that one transaction deletes: so few that other requests wait milliseconds at most."""


@dataclass(frozen=True)
class _Deletion:
    """The dependencies of both kinds of deletion."""

    catalog: Catalog
    clock: Clock
    tombstone_life: timedelta
    """How long a tombstone lasts if no policy sets a time."""
    fallback: FallbackBuffer
    policies: Policies
    """The policies, which may set how long the tombstones of a namespace last."""
    note: NoteReads
    """Writes reads, which may have kept an artifact alive that has expired by its row."""

    def _tombstone_until(self, caller: Caller, now: datetime) -> datetime:
        """Returns the moment until which the tombstone of an artifact that is deleted `now` is kept."""
        return now + self.policies.tombstone_life(caller.namespace, self.tombstone_life)


class Forget(_Deletion):
    """Deletes one artifact."""

    async def __call__(self, caller: Caller, number: int) -> None:
        """Deletes an artifact by its number, also one that still waits in memory to be stored.

        Raises:
            CoatcheckError: `artifact_gone` if the artifact was gone already; `artifact_not_found` if it is unknown;
                `held` if a hold forbids its deletion; `storage_unavailable`; `storage_full` if a read that kept it
                alive cannot be written.
        """
        await require_seen(self.catalog, self.fallback, caller, number, self.clock.now())
        # The flush is kept out: it could store the payload after the row was deleted, but before the buffer forgets the
        # payload.
        async with self.fallback.alone_with(caller.namespace, number):
            is_waiting = self.fallback.find(caller.namespace, number, self.clock.now()) is not None
            answer = await self.note.make_change(caller.namespace, number, lambda: self._delete(caller, number))
            if not isinstance(answer, HoldConflict):
                self.fallback.forget(caller.namespace, number, durably=True)
        self._check_answer(answer, was_waiting=is_waiting)

    async def _delete(self, caller: Caller, number: int) -> bool | Gone | HoldConflict | None:
        now = self.clock.now()
        sessions, key = self.fallback.sessions(), (caller.namespace, number)
        return await self.catalog.commit(
            DeleteArtifact(
                namespace=caller.namespace,
                number=number,
                now=now,
                tombstone_until=self._tombstone_until(caller, now),
                by=By.of(caller),
                is_waiting=key in sessions,
                session=sessions.get(key),
            )
        )

    @staticmethod
    def _check_answer(answer: bool | Gone | HoldConflict | None, *, was_waiting: bool) -> None:
        """Raises the error for a deletion that the catalogue did not make, unless the artifact was only in memory."""
        if isinstance(answer, HoldConflict):
            raise refusal_of_delete(answer)
        if was_waiting and answer is not True:
            return  # the artifact was only in memory, and is deleted there
        if isinstance(answer, Gone):
            raise gone_error(answer)
        if not answer:
            raise not_found()


@dataclass(frozen=True)
class ForgetSession(_Deletion):
    """Deletes all artifacts of a session."""

    session_names: SessionNames

    async def __call__(self, caller: Caller, session: str) -> int:
        """Deletes a session's artifacts in batches; returns how many were deleted, which is 0 for an unused session.

        Raises:
            CoatcheckError: `held` if a hold covers the whole session; then nothing of the session is deleted. Also
                `held` if holds cover some artifacts of the session; then all its other artifacts are deleted.
                `forbidden` for a session that the caller may not see; `storage_unavailable`.
        """
        session = await self.session_names.real(caller, session)
        require_session(caller, session)
        await self._write_reads()
        waiting = self.fallback.of_session(caller.namespace, session)
        total = count = await self._delete_batch(caller, session, 0)
        # The first batch has shown that no hold covers the session. If the flush stores one of the payloads that wait
        # meanwhile, the next batch deletes it.
        total += await self._forget_waiting(waiting)
        has_more = count == BATCH or bool(waiting)
        while has_more:
            count = await self._delete_batch(caller, session, total)
            total += count
            has_more = count == BATCH
        # The batches skip held artifacts. The error is raised only after all other artifacts are deleted.
        conflict = await self.catalog.holds_within(caller.namespace, session, self.clock.now())
        if conflict is not None:
            raise refusal_of_delete(conflict, deleted=total)
        return total

    async def _write_reads(self) -> None:
        """Writes reads, as far as the disk has room: the batches skip artifacts that have expired by their rows."""
        try:
            await self.note()
        except CoatcheckError as error:
            if error.code is not Code.STORAGE_FULL:
                raise
            log.warning("a session is deleted before the latest reads are written: %s", error.detail)

    async def _delete_batch(self, caller: Caller, session: str, deleted: int) -> int:
        """Deletes up to BATCH stored artifacts; returns how many. `deleted` were deleted before, for the error."""
        # Each batch has its own time, because the deletion of a large session takes long.
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
            raise refusal_of_delete(outcome, deleted=deleted)
        return outcome

    async def _forget_waiting(self, keys: list[Key]) -> int:
        """Drops payloads that wait in memory; returns how many.

        A payload that the flush is storing at this moment is stored first; the caller's next batch then deletes it.
        """
        total = 0
        for key in keys:
            async with self.fallback.alone_with(*key):
                total += self.fallback.forget(*key, durably=True)
        return total
