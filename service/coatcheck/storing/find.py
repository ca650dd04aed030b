"""Finds a live artifact in the caller's namespace, or raises an error that says exactly why there is none.

A look-up also records that the artifact was read. The idle expiry in the artifact's row is moved after the request.

`SessionNames` finds a session by the name that lists show, in which secrets are masked. So filters and links work with
the real name and with the shown one.
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

_RECENT_READS_BYTES = 4 * 1024 * 1024
"""Size of the cache of the latest recorded read of each artifact: enough for over 10,000 artifacts."""
_MINUTE = timedelta(minutes=1)


class Find:
    """Finds an artifact. A use case that reads an artifact begins with this look-up."""

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
        """Creates a look-up.

        Args:
            catalog: the catalogue that has the stored artifacts.
            clock: the authoritative time.
            reads: records reads until they are written.
            fallback: payloads that wait for storage; None: only stored artifacts are found.
            evicts: returns whether a namespace, when it is full, evicts the artifacts that were read least recently.
            redacting: masks names according to policy; None: nothing is masked.
            notes: whether look-ups are recorded as reads, which postpones expiry and eviction.
        """
        self._notes = notes
        self._redacting = redacting
        self._evicts = evicts
        self._recent_reads: BoundedCache[tuple[str, int], datetime] = BoundedCache("recent_reads", _RECENT_READS_BYTES)
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
        """Returns an artifact that is live now, with its stored bytes, text view, survey and receipt if requested.

        Raises:
            CoatcheckError: `artifact_gone` while the artifact's tombstone lasts, otherwise `artifact_not_found`;
                `storage_unavailable` if the catalogue cannot be queried.
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
        """Returns the artifacts with these numbers that are stored, live now and visible to the caller, by number.

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
                if reads is not None:  # an unwritten read may have moved the expiry that the row has
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
            self._note_for_eviction(namespace, number, now)

    def _note_for_eviction(self, namespace: str, number: int, now: datetime) -> None:
        """Records a read for eviction, at most once a minute for each artifact: eviction needs no more."""
        before = self._recent_reads.get((namespace, number))
        if before is None or now - before >= _MINUTE:
            self._recent_reads.put((namespace, number), now)
            self._reads.note(namespace, number, now)

    async def _live_row(
        self,
        namespace: str,
        number: int,
        now: datetime,
        find: Callable[[datetime], Awaitable[FoundArtifact | Gone | None]],
    ) -> FoundArtifact | Gone | None:
        """Returns what `find` returns, corrected by reads that are not written to the row yet.

        Such reads may have moved the expiry, and may have kept an artifact alive that has expired according to its row.
        """
        # The unwritten reads are taken first, because they may be written while the row is queried.
        pending = self._reads.pending(namespace, number)
        entry = await find(now)
        if pending is None:
            return entry
        if isinstance(entry, FoundArtifact):
            return _later(entry, pending[1])
        if entry is None or entry.reason != "expired":
            return entry
        earlier_entry = await find(pending[0])
        if not isinstance(earlier_entry, FoundArtifact):
            return entry
        earlier_entry = _later(earlier_entry, pending[1])
        at = earlier_entry.artifact.expires_at
        return earlier_entry if at is None or at > now else msgspec.structs.replace(entry, at=at)


def _later(entry: FoundArtifact, read_at: datetime) -> FoundArtifact:
    """Returns a found artifact with the expiry that it has after a read at `read_at`.

    A read before the artifact's creation does not count: it was a read of the former artifact with this number.
    """
    a = entry.artifact
    if a.expires_at is None or a.idle_ttl is None or a.created_at > read_at:
        return entry
    expires_at = expiry(a.created_at, read_at, ttl=a.ttl, idle_ttl=a.idle_ttl, pinned=a.pinned)
    if expires_at is None or expires_at <= a.expires_at:
        return entry
    return msgspec.structs.replace(entry, artifact=msgspec.structs.replace(a, expires_at=expires_at))


async def require_seen(catalog: Catalog, fallback: FallbackBuffer, caller: Caller, number: int, now: datetime) -> None:
    """Returns if the caller may see an artifact that is about to be changed.

    The artifact's session never changes, so the result still holds when the change is made. For a caller who may see
    every session, nothing is looked up.

    Raises:
        CoatcheckError: `artifact_not_found` if the artifact is in a session that the caller may not see, or is unknown
            and the caller may not see every session.
    """
    if caller.session_prefix is None:
        return
    entry = fallback.find(caller.namespace, number, now) or await catalog.find(caller.namespace, number, now)
    if entry is None or not caller.sees(entry.session if isinstance(entry, Gone) else entry.artifact.declared.session):
        raise not_found()


STEP = timedelta(hours=24)
"""Maximum interval between two moves of an artifact's idle expiry. The usual interval is a quarter of the idle TTL."""


def _moves(artifact: Artifact, now: datetime) -> bool:
    """Returns whether a read at this moment should move the artifact's expiry."""
    if artifact.idle_ttl is None or artifact.expires_at is None:
        return False
    if artifact.ttl is not None and artifact.expires_at >= artifact.created_at + timedelta(seconds=artifact.ttl):
        return False
    idle = timedelta(seconds=artifact.idle_ttl)
    return now - (artifact.expires_at - idle) >= min(idle / 4, STEP)


def not_found() -> CoatcheckError:
    """Returns the error for an artifact that never existed, whose tombstone is gone, or that the caller may not see.

    These cases must look the same to a caller. An artifact cannot be seen from another namespace.
    """
    return CoatcheckError(
        Code.ARTIFACT_NOT_FOUND, "No artifact with this ID. Check the ID; if it is right, run the tool again."
    )


def still_waiting() -> CoatcheckError:
    """Returns the error for a change that needs the row of an artifact that still waits in memory to be stored."""
    return CoatcheckError(
        Code.STORAGE_UNAVAILABLE,
        "The artifact is still waiting to be stored, and can be neither changed nor held before that. Retry the same "
        "call.",
    )


_WHY = {
    "expired": "expired",
    "deleted": "was deleted",
    "session_deleted": "was deleted with its session",
    "namespace_deleted": "was deleted with its namespace",
    "evicted": "was removed to free space",
}


def gone_error(tombstone: Gone) -> CoatcheckError:
    """Returns the error for an artifact that is gone; it says when and why, and how to get the output again."""
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
"""Number of sessions that are searched for a shown name: those with the latest activity."""


class SessionNames:
    """Masks the names of sessions, and finds the real name of a session whose masked name a list has shown."""

    def __init__(self, overview: Overview, redacting: RedactionPolicy) -> None:
        self._overview = overview
        self._redacting = redacting

    def shown(self, namespace: str, session: str) -> str:
        """Returns a session's name as lists show it, with secrets masked."""
        return self._redacting.session(namespace, session)

    async def real(self, caller: Caller, name: str) -> str:
        """Returns the real name of a session that lists show as `name`.

        If no session, or more than one that the caller may see, is shown under this name, the name is returned as it
        is. A session can be found from about one second after its first artifact was stored.

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
