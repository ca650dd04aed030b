"""Place, list and release holds. Nobody can delete what a hold covers by any route; it is read and expires as before.

A held artifact that expires is reported as gone, like any other, but its row and bytes stay: an administrator may
extend it, and posting the same payload again finds it as it was. When its last hold is released, upkeep removes it.
Crash story: each verb is one transaction, including its line in the audit log.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

from coatcheck.core import ids
from coatcheck.core.artifact import Artifact, Caller, Gone
from coatcheck.core.errors import CoatcheckError, Code, invalid_request
from coatcheck.core.keys import check_page_limit, is_everywhere, not_a_cursor, resolve_administered, resolve_listed
from coatcheck.core.retention.audit import (
    MAX_NAMED_HOLDS,
    MAX_REASON_CHARS,
    By,
    Hold,
    check_hold_id,
    hold_id,
    is_hold_id,
)
from coatcheck.ports.decisions import Decisions, PlaceHold, ReleaseHold
from coatcheck.ports.telemetry import Clock
from coatcheck.storing.find import gone_error, not_found

_ID_BYTES = 8
"""Random bytes of a hold's ID."""


class HoldsPage(NamedTuple):
    """Part of a list of holds; `after` continues it."""

    items: list[Hold]
    after: str | None


@dataclass(frozen=True)
class Holds:
    """Places, releases and lists holds."""

    decisions: Decisions
    clock: Clock
    random: Callable[[int], bytes]
    """Returns the given number of random bytes, never the same twice."""

    async def place(
        self,
        caller: Caller,
        namespace: str | None,
        *,
        reason: str,
        number: int | None = None,
        session: str | None = None,
        until: datetime | None = None,
        life: timedelta | None = None,
    ) -> Hold:
        """Forbids the deletion of an artifact, a session or, with neither, a namespace; returns the hold.

        Once this returns, no delete that was not already answered removes what the hold covers.

        Args:
            caller: the caller.
            namespace: the namespace; None: the caller's own.
            reason: why, for callers who may read what it covers and for the audit log.
            number: the artifact. One that has expired and whose row is still there can be held.
            session: the session, including what is added to it later.
            until: the moment at which the hold ends; None: when it is released.
            life: how long the hold lasts, instead of `until`.

        Raises:
            CoatcheckError: `invalid_request`; `artifact_not_found`, `artifact_gone`; `forbidden`.
        """
        if until is not None and life is not None:
            raise two_ends()
        now = self.clock.now()
        # Both ends are checked as one moment; the service's clock decides, not the caller's.
        until = until if life is None else now + life
        _check(reason, number, session, until, now)
        hold = Hold(
            id=hold_id(self.random(_ID_BYTES)),
            namespace=resolve_administered(caller, namespace),
            session=session,
            number=number,
            reason=reason,
            made_by=caller.name,
            at=now,
            until=until,
        )
        outcome = await self.decisions.commit(PlaceHold(hold=hold, by=By.of(caller)))
        if outcome is None:
            raise not_found()
        if isinstance(outcome, Gone):
            raise gone_error(outcome)
        return hold

    async def release(self, caller: Caller, hold: str) -> Hold:
        """Releases a hold and returns it.

        Raises:
            CoatcheckError: `hold_not_found`, also for one that is not the caller's to administer; `invalid_request`.
        """
        # In the change itself: an administrator of one namespace cannot release, or notice, the hold of another.
        only = None if is_everywhere(caller) else caller.namespace
        change = ReleaseHold(id=check_hold_id(hold), namespace=only, now=self.clock.now(), by=By.of(caller))
        released = await self.decisions.commit(change)
        if released is None:
            raise _hold_not_found()
        return released

    async def show(self, caller: Caller, hold: str) -> Hold:
        """Returns the hold with an ID.

        Raises:
            CoatcheckError: as `release`.
        """
        only = None if is_everywhere(caller) else caller.namespace
        holds = await self.decisions.holds(only, only=check_hold_id(hold))
        if not holds:
            raise _hold_not_found()
        return holds[0]

    async def covering(self, artifacts: Sequence[Artifact]) -> Sequence[tuple[Hold, ...] | None]:
        """Returns the holds that keep each artifact, all of one namespace; at most MAX_NAMED_HOLDS for each, by ID.

        None for each if storage is away, for artifacts that are found without it.
        """
        if not artifacts:
            return ()
        numbers = [ids.parse(each.id) for each in artifacts]
        sessions = {each.declared.session for each in artifacts if each.declared.session is not None}
        try:
            holds = await self.decisions.covering_holds(artifacts[0].namespace, numbers, sessions, self.clock.now())
        # An artifact in the fallback buffer can be shown without storage; its holds are then unknown, not absent.
        except CoatcheckError as error:
            if error.code is not Code.STORAGE_UNAVAILABLE:
                raise
            return [None] * len(artifacts)
        return [
            tuple(
                hold
                for hold in holds
                if hold.number in {number, None} and hold.session in {each.declared.session, None}
            )[:MAX_NAMED_HOLDS]
            for each, number in zip(artifacts, numbers, strict=True)
        ]

    async def list(self, caller: Caller, namespace: str | None, *, after: str | None, limit: int) -> HoldsPage:
        """Returns holds by ID, ended ones included; of all namespaces if the caller administers all and names none.

        Raises:
            CoatcheckError: `forbidden`, `invalid_request`, `invalid_cursor`.
        """
        check_page_limit(limit)
        only = resolve_listed(caller, namespace)
        if after is not None and not is_hold_id(after):
            raise not_a_cursor()
        # One more than the page has, which tells whether another page follows.
        holds = await self.decisions.holds(only, after=after or "", limit=limit + 1)
        return HoldsPage(holds[:limit], holds[limit - 1].id if len(holds) > limit else None)


def _hold_not_found() -> CoatcheckError:
    return CoatcheckError(Code.HOLD_NOT_FOUND, "There is no hold with this ID. List the holds to see their IDs.")


def _check(reason: str, number: int | None, session: str | None, until: datetime | None, now: datetime) -> None:
    if not 1 <= len(reason.strip()) <= len(reason) <= MAX_REASON_CHARS or "\0" in reason:
        raise invalid_request(f"A hold needs a reason of 1 to {MAX_REASON_CHARS} characters.", field="reason")
    if number is not None and session is not None:
        raise invalid_request("A hold covers an artifact or a session: give one of the two.", field="session")
    if until is not None and until <= now:
        raise invalid_request("A hold cannot end in the past: give a later `until`, or none.", field="until")


def two_ends() -> CoatcheckError:
    """Returns the error for a hold that gives both a moment and a duration for its end."""
    return invalid_request("Give one of `until` and `ttl`: both set when the hold ends.", field="ttl")
