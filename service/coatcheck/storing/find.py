"""Finds a live artifact in the caller's namespace, or says exactly why there is none to read.

Also records that it was read, so that idle expiry moves later, off the request path.

`SessionNames` finds sessions by the names that lists show, in which secrets are masked: filters and links take either.
"""

from collections.abc import Awaitable, Callable, Collection
from datetime import datetime, timedelta
from functools import partial
from typing import Final

import msgspec

from coatcheck.core.artifact import Artifact, Caller, Gone
from coatcheck.core.caches import BoundedCache
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.core.policies.policy import expiry
from coatcheck.ports.catalog import Catalog, FoundArtifact, Overview
from coatcheck.ports.telemetry import Clock
from coatcheck.storing.fallback_buffer import FallbackBuffer
from coatcheck.storing.ledger import ReadLog
from coatcheck.storing.redaction import RedactionPolicy

_LATELY_BYTES = 4 * 1024 * 1024
"""Size of the cache of artifacts of which a read was recorded recently: over 10,000 of them."""
_MINUTE = timedelta(minutes=1)


class Find:
    """Finds an artifact: the look-up that every other use case begins with."""

    def __init__(
        self,
        catalog: Catalog,
        clock: Clock,
        reads: ReadLog,
        fallback: FallbackBuffer | None = None,
        evicts: Callable[[str], bool] = lambda _: False,
        redacting: RedactionPolicy | None = None,
        *,
        notes: bool = True,
    ) -> None:
        """`evicts` tells whether a namespace, when full, evicts what was read least recently.

        With `redacting`, names are masked according to policy. Without `notes`, nothing is recorded as read, so nothing
        expires later because of it.
        """
        self._notes = notes
        self._redacting = redacting
        self._evicts = evicts
        self._lately: BoundedCache[tuple[str, int], datetime] = BoundedCache("recent_reads", _LATELY_BYTES)
        self._catalog = catalog
        self._fallback = fallback
        self._clock = clock
        self._reads = reads

    async def __call__(
        self,
        caller: Caller,
        number: int,
        *,
        with_bytes: bool = False,
        with_view: bool = False,
        with_survey: bool = False,
        with_receipt: bool = False,
    ) -> FoundArtifact:
        """Returns the artifact, live at this moment; with stored bytes, text view, survey and receipt if requested.

        Raises:
            CoatcheckError: `artifact_gone` while its tombstone lasts, otherwise `artifact_not_found`;
                `storage_unavailable` while this cannot be decided.
        """
        now = self._clock.now()
        waiting = self._fallback.find(caller.namespace, number, now) if self._fallback is not None else None
        if waiting is not None:
            if not caller.sees(waiting.artifact.declared.session):
                raise not_found()
            return waiting if self._redacting is None else self._redacting.mask_entry(waiting)
        with self._reads.look(now):
            find = partial(
                self._catalog.find,
                caller.namespace,
                number,
                with_bytes=with_bytes,
                with_view=with_view,
                with_survey=with_survey,
                with_receipt=with_receipt,
            )
            entry = await self._live_row(caller.namespace, number, now, find)
            if entry is None:
                raise not_found()
            if isinstance(entry, Gone):
                raise gone_error(entry) if caller.sees(entry.session) else not_found()
            a = entry.artifact
            if not caller.sees(a.declared.session):
                raise not_found()
            if self._notes:
                self._note(a, caller.namespace, number, now)
            return entry if self._redacting is None else self._redacting.mask_entry(entry)

    async def live(self, caller: Caller, numbers: Collection[int]) -> dict[int, Artifact]:
        """Returns those artifacts that are stored, live at this moment and visible to the caller, by number.

        Raises:
            CoatcheckError: `storage_unavailable`.
        """
        if not numbers:
            return {}
        namespace, now = caller.namespace, self._clock.now()
        with self._reads.look(now):
            pending = {number: self._reads.pending(namespace, number) for number in numbers}
            artifacts = await self._catalog.live_artifacts(namespace, numbers, now)
            live: dict[int, Artifact] = {}
            for number, reads in pending.items():
                if reads is not None:  # its row may not say yet until when it lives
                    find = partial(self._catalog.find, namespace, number)
                    entry = await self._live_row(namespace, number, now, find)
                    artifact = entry.artifact if isinstance(entry, FoundArtifact) else None
                else:
                    artifact = artifacts.get(number)
                if artifact is None or not caller.sees(artifact.declared.session):
                    continue
                if self._notes:
                    self._note(artifact, namespace, number, now)
                live[number] = artifact if self._redacting is None else self._redacting.artifact(artifact)
            return live

    def _note(self, a: Artifact, namespace: str, number: int, now: datetime) -> None:
        if a.idle_ttl is not None and _moves(a, now):
            self._reads.note(namespace, number, now, timedelta(seconds=a.idle_ttl))
        elif self._evicts(namespace):
            self._note_lately(namespace, number, now)

    def _note_lately(self, namespace: str, number: int, now: datetime) -> None:
        """Records a read only for eviction, which needs it to the minute."""
        before = self._lately.get((namespace, number))
        if before is None or now - before >= _MINUTE:
            self._lately.put((namespace, number), now)
            self._reads.note(namespace, number, now)

    async def _live_row(
        self,
        namespace: str,
        number: int,
        now: datetime,
        find: Callable[[datetime], Awaitable[FoundArtifact | Gone | None]],
    ) -> FoundArtifact | Gone | None:
        """Returns the row's answer, unless unwritten reads have kept the artifact alive until now."""
        pending = self._reads.pending(namespace, number)  # first: after the row's answer, they may have been written
        entry = await find(now)
        if pending is None:
            return entry
        if isinstance(entry, FoundArtifact):
            return _later(entry, pending[1])
        if entry is None or entry.reason != "expired":
            return entry
        then = await find(pending[0])
        if not isinstance(then, FoundArtifact):
            return entry
        then = _later(then, pending[1])
        at = then.artifact.expires_at
        return then if at is None or at > now else msgspec.structs.replace(entry, at=at)


def _later(entry: FoundArtifact, read_at: datetime) -> FoundArtifact:
    """Returns what was found, with the expiry after this read.

    Reads of an artifact that it has replaced do not count.
    """
    a = entry.artifact
    if a.expires_at is None or a.idle_ttl is None or a.created_at > read_at:
        return entry
    expires_at = expiry(a.created_at, read_at, ttl=a.ttl, idle_ttl=a.idle_ttl, pinned=a.pinned)
    if expires_at is None or expires_at <= a.expires_at:
        return entry
    return msgspec.structs.replace(entry, artifact=msgspec.structs.replace(a, expires_at=expires_at))


async def require_seen(catalog: Catalog, fallback: FallbackBuffer, caller: Caller, number: int, now: datetime) -> None:
    """Checks before a change: what is in a session that does not exist for the caller does not exist either.

    An artifact's session never changes, so this holds until the change.

    Raises:
        CoatcheckError: `artifact_not_found`.
    """
    if caller.session_prefix is None:
        return
    entry = fallback.find(caller.namespace, number, now) or await catalog.find(caller.namespace, number, now)
    if entry is None or not caller.sees(entry.session if isinstance(entry, Gone) else entry.artifact.declared.session):
        raise not_found()


STEP = timedelta(hours=24)
"""Maximum interval between moves of idle expiry, which is moved after a quarter of the idle TTL."""


def _moves(artifact: Artifact, now: datetime) -> bool:
    """Returns whether a read at this moment should move the artifact's expiry."""
    if artifact.idle_ttl is None or artifact.expires_at is None:
        return False
    if artifact.ttl is not None and artifact.expires_at >= artifact.created_at + timedelta(seconds=artifact.ttl):
        return False
    idle = timedelta(seconds=artifact.idle_ttl)
    return now - (artifact.expires_at - idle) >= min(idle / 4, STEP)


def not_found() -> CoatcheckError:
    """Returns the error for an ID that never existed, is forgotten or in another namespace, which look the same."""
    return CoatcheckError(
        Code.ARTIFACT_NOT_FOUND, "No artifact with this ID. Check the ID; if it is right, run the tool again."
    )


_WHY = {
    "expired": "expired",
    "deleted": "was deleted",
    "session_deleted": "was deleted with its session",
    "namespace_deleted": "was deleted with its namespace",
    "evicted": "was removed to free space",
}


def gone_error(tombstone: Gone) -> CoatcheckError:
    """Returns the error for an artifact that is gone."""
    at = tombstone.at.strftime("%Y-%m-%dT%H:%M:%SZ")
    again = f"run {tombstone.tool_name} again" if _plain(tombstone.tool_name) else "run the tool again"
    return CoatcheckError(
        Code.ARTIFACT_GONE,
        f"{tombstone.id} {_WHY[tombstone.reason]} on {at}; {again} if you still need its output.",
        id=tombstone.id,
        reason=tombstone.reason,
        at=at,
    )


def _plain(name: str | None) -> bool:
    return name is not None and len(name) <= 64 and name.replace("_", "").replace("-", "").isalnum()  # noqa: PLR2004


_MARKER: Final = "[redacted"
_SEARCHED: Final = 5_000
"""Sessions with the latest activity among which a shown name is looked for."""


class SessionNames:
    """Finds the session that a list shows by a masked name."""

    def __init__(self, overview: Overview, redacting: RedactionPolicy) -> None:
        self._overview = overview
        self._redacting = redacting

    async def real(self, caller: Caller, name: str) -> str:
        """Returns the session's real name, if exactly one session of the caller's is shown by this name.

        A session is found about a second after its first artifact. Any other name is returned as it is.

        Raises:
            CoatcheckError: `storage_unavailable`.
        """
        if _MARKER not in name:
            return name
        recent = await self._overview.recent_sessions(caller.namespace, limit=_SEARCHED)
        matching_sessions = [
            each.session
            for each in recent
            if caller.sees(each.session) and self._redacting.session(caller.namespace, each.session) == name
        ]
        return matching_sessions[0] if len(matching_sessions) == 1 else name
