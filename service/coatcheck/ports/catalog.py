"""The catalogue: which artifacts there are, and what is known of them."""

from datetime import datetime
from typing import Protocol

from msgspec import Struct

from coatcheck.core.artifact import Artifact, Blob, Gone, Kind
from coatcheck.core.policies.quota import Usage
from coatcheck.core.retention.holds import HoldConflict
from coatcheck.ports.artifacts import (
    FoundView,
    KeyRecord,
)
from coatcheck.ports.change import Commits


class FoundArtifact(Struct, frozen=True):
    """A live artifact and, when asked for and inline, its stored bytes."""

    artifact: Artifact
    inline: bytes | None = None
    text_view: FoundView | None = None
    """When asked for and kept."""
    survey: bytes | None = None
    """When asked for and kept."""


class RunKey(Struct, frozen=True, kw_only=True):
    """What makes artifacts runs of one thing: session, tool and command. None matches None only.

    Only the 1,000 artifacts that were stored last in the session are looked at.
    """

    namespace: str
    session: str
    tool_name: str | None
    command: str | None
    but: bytes
    """An identity that does not count: that of the run to be compared."""


class ArtifactFilter(Struct, frozen=True, kw_only=True):
    """Which artifacts to list; all given conditions hold."""

    session: str | None = None
    kind: Kind | None = None
    tool_name: str | None = None
    url: str | None = None
    label: str | None = None
    created_after: datetime | None = None
    """Inclusive."""
    created_before: datetime | None = None
    """Exclusive."""
    session_prefix: str | None = None
    """With which the session's name begins; what is in no session does not meet it."""
    terms: tuple[tuple[int, ...], ...] | None = None
    """Keys of `core/fulltext`: a document must have one of each. What is not indexed yet is not found by them."""


class ArtifactPage(Struct, frozen=True):
    """Part of a list, newest first. `before` continues it; None means that this was the last part.

    Where few of many artifacts meet the conditions, a part that is not the last may hold less than was asked for, even
    nothing: a search for them has its time, and stops where the next part goes on.
    """

    artifacts: list[Artifact]
    before: int | None
    damaged: tuple[int, ...] = ()
    """Segments of the full-text index that cannot be read: what they hold is missing."""


class InlineBytes(Protocol):
    """What the catalogue knows of blobs that are stored in it."""

    async def inline_bytes(self, namespace: str, /, blob_id: str) -> bytes | None:
        """The stored bytes of an inline blob; None when there is no such row."""
        ...


class Catalog(Commits, InlineBytes, Protocol):
    """Rows: what exists, for whom, until when. Every method names the namespace; none has an ambient caller.

    All raise CoatcheckError `storage_unavailable` when the database cannot be reached or is busy for too long, and
    `storage_full` when it cannot grow. After the second nothing of the change is visible. After the first it may be
    all the same, where the answer to a commit was lost: every change can be made again safely, and then may succeed.
    Questions raise `overloaded` when the database answers, but others keep all that there is to ask it with.
    """

    async def same_bytes(self, namespace: str, /, sha256: bytes, size: int) -> Blob | None:
        """The blob that storing this content would point at instead of a new one."""
        ...

    async def holds_within(self, namespace: str, /, session: str | None, now: datetime) -> HoldConflict | None:
        """The holds that cover something there is in a session, or in the whole namespace; None when there are none."""
        ...

    async def usage_of(self, namespace: str, /) -> Usage:
        """What a namespace holds."""
        ...

    async def find(
        self,
        namespace: str,
        /,
        number: int,
        now: datetime,
        *,
        with_bytes: bool = False,
        with_view: bool = False,
        with_survey: bool = False,
    ) -> FoundArtifact | Gone | None:
        """The artifact if it is live at `now`, else its tombstone, else None; one statement decides.

        `with_view` also answers its kept text view with that view's inline bytes, `with_survey` its survey.

        One that has expired but was not yet swept answers its tombstone too. None: this namespace has never heard
        of it, or has forgotten it.
        """
        ...

    async def latest_run(self, run: RunKey, now: datetime) -> int | None:
        """The number of the live artifact that was stored last of a run; see Run. None: there is none."""
        ...

    async def find_key(self, namespace: str, /, key: str, now: datetime) -> KeyRecord | None:
        """The request an idempotency key stands for, while it is remembered."""
        ...

    async def list_artifacts(
        self, namespace: str, where: ArtifactFilter, now: datetime, *, before: int | None, limit: int
    ) -> ArtifactPage:
        """Live artifacts, newest first. `limit` is 1 to 200."""
        ...

    async def ready(self) -> None:
        """Return if the database answers, takes writes and has this release's schema; otherwise raise, saying which.

        After a write that storage refused, it raises that fault until a write succeeds.
        """
        ...
