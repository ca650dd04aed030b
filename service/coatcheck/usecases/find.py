"""Find a live artifact of the caller's namespace, or say exactly why there is none to read.

Also notes that it was read, so that idle expiry moves later, off the request path.
"""

from datetime import datetime, timedelta

from coatcheck.core.artifact import Artifact, Caller, Gone
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.ports import Catalog, Clock, Found


class ReadLog:
    """Reads since the last drain: one moment for each artifact that has an idle TTL. Bounded; a crash loses it."""

    LIMIT = 100_000

    def __init__(self) -> None:
        self._reads: dict[tuple[str, int], datetime] = {}

    def note(self, namespace: str, number: int, moment: datetime) -> None:
        """Remember a read; over the limit, new artifacts are not remembered until the next drain."""
        key = (namespace, number)
        if key in self._reads or len(self._reads) < self.LIMIT:
            self._reads[key] = moment

    def drain(self) -> tuple[tuple[str, int, datetime], ...]:
        """Hand over what was noted and start anew."""
        reads, self._reads = self._reads, {}
        return tuple((ns, number, moment) for (ns, number), moment in reads.items())


class Find:
    """The look-up that every other use case begins with."""

    def __init__(self, catalog: Catalog, clock: Clock, reads: ReadLog) -> None:
        self._catalog = catalog
        self._clock = clock
        self._reads = reads

    async def __call__(self, caller: Caller, number: int, *, with_bytes: bool = False) -> Found:
        """The artifact, live at this moment.

        Raises:
            CoatcheckError: `artifact_gone` while its tombstone lasts, otherwise `artifact_not_found`.
        """
        now = self._clock.now()
        found = await self._catalog.find(caller.namespace, number, now, with_bytes=with_bytes)
        if found is None:
            raise not_found()
        if isinstance(found, Gone):
            raise gone(found)
        if _moves(found.artifact, now):
            self._reads.note(caller.namespace, number, now)
        return found


STEP = timedelta(hours=24)
"""Idle expiry is moved when a quarter of the idle TTL has passed since it last was, at the latest after this."""


def _moves(artifact: Artifact, now: datetime) -> bool:
    """Whether a read at this moment should move the artifact's expiry."""
    if artifact.idle_ttl is None or artifact.expires_at is None:
        return False
    if artifact.ttl is not None and artifact.expires_at >= artifact.created_at + timedelta(seconds=artifact.ttl):
        return False
    idle = timedelta(seconds=artifact.idle_ttl)
    return now - (artifact.expires_at - idle) >= min(idle / 4, STEP)


def not_found() -> CoatcheckError:
    """The same answer for never existed, another namespace's and long forgotten: it tells nothing."""
    return CoatcheckError(
        Code.ARTIFACT_NOT_FOUND, "No artifact with this ID. Check the ID; if it is right, run the tool again."
    )


_WHY = {
    "expired": "expired",
    "deleted": "was deleted",
    "session_deleted": "was deleted with its session",
    "evicted": "was removed to free space",
}


def gone(tombstone: Gone) -> CoatcheckError:
    """The answer for what is no longer there."""
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
