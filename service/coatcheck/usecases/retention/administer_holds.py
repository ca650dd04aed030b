"""Place, list and release holds. A hold forbids that anybody deletes the artifacts that the hold covers.

Held artifacts can be read and expire as before. A held artifact that has expired is reported as gone, like any other,
but its row and bytes stay. An administrator may extend it, and posting the same payload again finds the artifact
unchanged. Maintenance removes an expired artifact once its last hold is released.

Crash story: placing or releasing a hold is one transaction, which also writes the line in the audit log.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from msgspec.structs import replace

from coatcheck.core import ids
from coatcheck.core.artifact import Artifact, Caller, Gone
from coatcheck.core.errors import CoatcheckError, Code, invalid_request
from coatcheck.core.keys import check_page_limit, is_everywhere, not_a_cursor, resolve_administered, resolve_listed
from coatcheck.core.retention.audit import (
    MAX_REASON_CHARS,
    By,
    Hold,
    check_hold_id,
    hold_id,
    is_hold_id,
)
from coatcheck.ports.decisions import Decisions, PlaceHold, ReleaseHold
from coatcheck.ports.telemetry import Clock
from coatcheck.storing.fallback_buffer import FallbackBuffer
from coatcheck.storing.find import SessionNames, gone_error, not_found, still_waiting

_ID_BYTES = 8
"""Number of random bytes in a hold's ID."""


class HoldsPage(NamedTuple):
    """A page of a list of holds."""

    items: list[Hold]
    after: str | None
    """The ID after which the next page begins; None: this is the last page."""


@dataclass(frozen=True)
class Holds:
    """Places, releases and lists holds."""

    decisions: Decisions
    clock: Clock
    random: Callable[[int], bytes]
    """Returns the given number of random bytes; no two calls return the same bytes."""
    session_names: SessionNames
    """Masks the names of sessions in all holds that are returned, except by `covering`."""
    fallback: FallbackBuffer
    """The payloads that wait to be stored, which holds may cover."""

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
        """Places a hold on an artifact, on a session or, if neither is given, on a namespace; returns the hold.

        Once this call returns, no request can delete the covered artifacts, not even a request that is in progress.

        Args:
            caller: the caller.
            namespace: the namespace; None: the caller's own.
            reason: the reason of the hold, shown in the audit log and to callers who may read the held artifacts.
            number: number of the artifact. An expired artifact can be held while its row exists.
            session: the session, by its real name or as lists show it. The hold also covers artifacts that are added
                to the session later.
            until: the moment at which the hold ends, in the years 1 to 9999 of UTC; None: it ends when it is released,
                or after `life`.
            life: how long the hold lasts; only one of `until` and `life` may be given.

        Raises:
            CoatcheckError: `invalid_request`; `artifact_not_found`; `artifact_gone`; `forbidden`;
                `storage_unavailable`, also while the artifact still waits in memory to be stored.
        """
        if until is not None and life is not None:
            raise two_ends()
        now = self.clock.now()
        # A duration is converted to a moment by the service's clock, so that both forms are checked in the same way.
        until = _in_utc(until) if life is None else now + life
        _check(reason, number, session, until, now)
        namespace = resolve_administered(caller, namespace)
        if session is not None:
            session = await self.session_names.real(replace(caller, namespace=namespace), session)
        hold = Hold(
            id=hold_id(self.random(_ID_BYTES)),
            namespace=namespace,
            session=session,
            number=number,
            reason=reason,
            made_by=caller.name,
            at=now,
            until=until,
        )
        # The buffer is asked first, because the payload may be stored while the hold is being placed.
        is_waiting = number is not None and self.fallback.find(namespace, number, now) is not None
        outcome = await self.decisions.commit(PlaceHold(hold=hold, by=By.of(caller)))
        if is_waiting and outcome is not True:
            raise still_waiting()
        if outcome is None:
            raise not_found()
        if isinstance(outcome, Gone):
            raise gone_error(outcome)
        return self._mask(hold)

    async def release(self, caller: Caller, hold: str) -> Hold:
        """Releases a hold and returns it.

        Raises:
            CoatcheckError: `hold_not_found`, also for a hold that the caller may not administer;
                `invalid_request` for a text that cannot be an ID.
        """
        # The transaction checks the namespace: the administrator of one namespace can neither release a hold of another
        # namespace nor learn that it exists.
        only = None if is_everywhere(caller) else caller.namespace
        change = ReleaseHold(id=check_hold_id(hold), namespace=only, now=self.clock.now(), by=By.of(caller))
        released = await self.decisions.commit(change)
        if released is None:
            raise _hold_not_found()
        return self._mask(released)

    async def show(self, caller: Caller, hold: str) -> Hold:
        """Returns the hold with this ID.

        Raises:
            CoatcheckError: `hold_not_found`, also for a hold that the caller may not administer;
                `invalid_request` for a text that cannot be an ID.
        """
        only = None if is_everywhere(caller) else caller.namespace
        holds = await self.decisions.holds(only, only=check_hold_id(hold))
        if not holds:
            raise _hold_not_found()
        return self._mask(holds[0])

    async def covering(self, artifacts: Sequence[Artifact]) -> Sequence[tuple[Hold, ...] | None]:
        """Returns for each artifact the holds that cover it, in the order of their IDs, at most MAX_NAMED_HOLDS each.

        All artifacts must be in one namespace; their sessions' names may be masked. The result is None for each
        artifact while storage does not answer, because artifacts in the fallback buffer can be shown without storage.
        """
        if not artifacts:
            return ()
        namespace, numbers = artifacts[0].namespace, [ids.parse(each.id) for each in artifacts]
        # The artifacts may have the masked names of their sessions, which several sessions may share.
        waiting = self.fallback.sessions()
        sessions = {number: waiting.get((namespace, number)) for number in numbers}
        try:
            holds = await self.decisions.covering_holds(namespace, sessions, self.clock.now())
        # An artifact in the fallback buffer can be shown without storage. Its holds are then not known.
        except CoatcheckError as error:
            if error.code is not Code.STORAGE_UNAVAILABLE:
                raise
            return [None] * len(artifacts)
        return [tuple(holds[number]) for number in numbers]

    async def list(self, caller: Caller, namespace: str | None, *, after: str | None, limit: int) -> HoldsPage:
        """Returns a page of holds, ordered by ID, including holds that have ended.

        Args:
            caller: the caller.
            namespace: the namespace; None: all namespaces that the caller administers.
            after: `after` of the previous page; None: the first page.
            limit: maximum holds of the page.

        Raises:
            CoatcheckError: `forbidden`, `invalid_request`, `invalid_cursor`.
        """
        check_page_limit(limit)
        only = resolve_listed(caller, namespace)
        if after is not None and not is_hold_id(after):
            raise not_a_cursor()
        # One hold more than fits on the page is read, which shows whether another page follows.
        holds = await self.decisions.holds(only, after=after or "", limit=limit + 1)
        return HoldsPage(list(map(self._mask, holds[:limit])), holds[limit - 1].id if len(holds) > limit else None)

    def _mask(self, hold: Hold) -> Hold:
        """Returns a hold with secrets in its session's name masked, if policy masks them."""
        name = None if hold.session is None else self.session_names.shown(hold.namespace, hold.session)
        return replace(hold, session=name)


def _hold_not_found() -> CoatcheckError:
    return CoatcheckError(Code.HOLD_NOT_FOUND, "There is no hold with this ID. List the holds to see their IDs.")


def _check(reason: str, number: int | None, session: str | None, until: datetime | None, now: datetime) -> None:
    if not 1 <= len(reason.strip()) <= len(reason) <= MAX_REASON_CHARS or "\0" in reason:
        raise invalid_request(f"A hold needs a reason of 1 to {MAX_REASON_CHARS} characters.", field="reason")
    if number is not None and session is not None:
        raise invalid_request("A hold covers an artifact or a session: give one of the two.", field="session")
    if until is not None and until <= now:
        raise invalid_request("A hold cannot end in the past: give a later `until`, or none.", field="until")


def _in_utc(until: datetime | None) -> datetime | None:
    try:
        return None if until is None else until.astimezone(UTC)
    # Such a moment can be stored, but no longer be read.
    except OverflowError as error:
        detail = "A hold cannot end after the year 9999 of UTC: give an earlier `until`, or none."
        raise invalid_request(detail, field="until") from error


def two_ends() -> CoatcheckError:
    """Returns the error for a hold that gives both a moment and a duration for its end."""
    return invalid_request("Give one of `until` and `ttl`: both set when the hold ends.", field="ttl")
