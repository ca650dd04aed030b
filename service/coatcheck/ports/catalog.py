"""The catalogue: which artifacts exist, how healthy the store is, and the queries of an administrator's overview."""

from collections.abc import Collection
from datetime import datetime
from typing import Final, Literal, Protocol

from msgspec import Struct

from coatcheck.core.artifact import Artifact, Blob, Gone, Kind, ReceiptRecord
from coatcheck.core.errors import Code
from coatcheck.core.event import SessionUsage, UsageDelta
from coatcheck.core.policies.quota import Usage
from coatcheck.core.retention.audit import HoldConflict
from coatcheck.ports.artifacts import (
    FoundView,
    KeyRecord,
)
from coatcheck.ports.decisions import Commits

Health = Literal["ready", "degraded", "away"]
"""`degraded`: it does part of its work, for example reads but no writes; `away`: it does none of it."""


FAULTS: Final = frozenset({Code.STORAGE_UNAVAILABLE, Code.STORAGE_FULL, Code.OVERLOADED, Code.INTEGRITY})
"""Codes of a store that fails to serve a call."""


class HealthReason(Struct, frozen=True, kw_only=True):
    """Why the service is not ready: which component, and what is wrong with it."""

    component: str
    """Such as `catalogue` or `blob store`."""
    health: Health
    code: Code
    detail: str
    """A sentence or two that a stranger may read."""


class CheckedStore(Protocol):
    """A store whose health can be checked. Each check is a cheap real call that needs what serving needs."""

    async def check_reads(self) -> None:
        """Returns if the store can be read.

        Raises:
            CoatcheckError: why it cannot be, in a sentence for an operator.
        """
        ...

    async def check_writes(self, *, room: bool = False) -> None:
        """Returns if the store accepts a small write, which changes nothing.

        Args:
            room: whether there must be room for as much as a small payload takes, because storage was full before.

        Raises:
            CoatcheckError: why it does not, in a sentence for an operator.
        """
        ...


class FoundArtifact(Struct, frozen=True):
    """A live artifact and, if requested and inline, its stored bytes."""

    artifact: Artifact
    inline: bytes | None = None
    text_view: FoundView | None = None
    """If requested and kept."""
    survey: bytes | None = None
    """If requested and kept."""
    receipt: ReceiptRecord | None = None
    """If requested and kept."""


class RunKey(Struct, frozen=True, kw_only=True):
    """Identifies runs of the same thing: session, tool and command. None matches only None.

    Only the 1,000 artifacts stored last in the session are examined.
    """

    namespace: str
    session: str
    tool_name: str | None
    command: str | None
    """The declared command; None: the tool declares none."""
    but: bytes
    """An identity to skip: that of the run to be compared."""


class PayloadKey(Struct, frozen=True, kw_only=True):
    """Identifies artifacts of the same bytes in one session.

    Only the 1,000 artifacts of these bytes that were stored last in the namespace are examined.
    """

    namespace: str
    session: str
    sha256: bytes
    """With `size`, identifies the bytes."""
    size: int


class ArtifactFilter(Struct, frozen=True, kw_only=True):
    """Selects artifacts to list; all given conditions must hold."""

    session: str | None = None
    kind: Kind | None = None
    tool_name: str | None = None
    url: str | None = None
    """The declared address of the payload."""
    status: int | None = None
    """HTTP status of a page."""
    final_url: str | None = None
    """The address to which redirects led."""
    label: str | None = None
    """One of the artifact's labels."""
    created_after: datetime | None = None
    """Inclusive."""
    created_before: datetime | None = None
    """Exclusive."""
    session_prefix: str | None = None
    """Prefix of the session's name; artifacts without a session do not match."""
    terms: tuple[tuple[int, ...], ...] | None = None
    """Keys of `core/fulltext`: a document must contain one of each tuple. Artifacts that are not indexed yet do not
    match."""


class ArtifactPage(Struct, frozen=True):
    """Part of a list, newest first. `before` continues it; None means that this was the last part.

    If few of many artifacts match, a part may contain fewer than `limit`, or none, without being the last: a query has
    a time limit, and stops where the next part continues.
    """

    artifacts: list[Artifact]
    before: int | None
    damaged: tuple[int, ...] = ()
    """Segments of the full-text index that cannot be read; their artifacts are missing."""


class InlineBytes(Protocol):
    """Access to blobs that are stored in the catalogue."""

    async def inline_bytes(self, namespace: str, /, blob_id: str) -> bytes | None:
        """Returns the stored bytes of an inline blob; None if there is no such row."""
        ...


class Catalog(Commits, InlineBytes, CheckedStore, Protocol):
    """Rows: what exists, for whom, until when. Every method names the namespace; there is no ambient caller.

    All raise CoatcheckError `storage_unavailable` if the database cannot be reached or is busy for too long, and
    `storage_full` if it cannot grow. After `storage_full`, nothing of the change is visible. After
    `storage_unavailable` it may be visible, if only the answer to a commit was lost: every change can safely be
    repeated, and may then succeed. Queries raise `overloaded` if the database responds, but its connections are all in
    use.
    """

    async def same_bytes(self, namespace: str, /, sha256: bytes, size: int) -> Blob | None:
        """Returns the blob that storing this content would point at instead of a new one."""
        ...

    async def holds_within(self, namespace: str, /, session: str | None, now: datetime) -> HoldConflict | None:
        """Returns the holds on anything in a session, or in the whole namespace; None if there are none."""
        ...

    async def usage_of(self, namespace: str, /) -> Usage:
        """Returns what a namespace holds."""
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
        with_receipt: bool = False,
    ) -> FoundArtifact | Gone | None:
        """Returns the artifact if it is live at `now`, else its tombstone, else None; a single statement decides.

        `with_view` includes its kept text view with that view's inline bytes, `with_survey` its survey, `with_receipt`
        what a model got in its place. An artifact that has expired but was not swept yet also returns its tombstone.
        None: this namespace never had it, or has forgotten it.
        """
        ...

    async def live_artifacts(self, namespace: str, /, numbers: Collection[int], now: datetime) -> dict[int, Artifact]:
        """Returns those of the artifacts with these numbers that are live at `now`, by number."""
        ...

    async def latest_run(self, run: RunKey, now: datetime) -> int | None:
        """Returns the number of the live artifact of a run that was stored last; None if there is none. See RunKey."""
        ...

    async def find_given_cards(self, payload: PayloadKey, now: datetime) -> list[Artifact]:
        """Returns live artifacts of a payload whose receipts had a card (`facts.given`): the newest 8, newest first."""
        ...

    async def find_key(self, namespace: str, /, key: str, now: datetime) -> KeyRecord | None:
        """Returns the request that an idempotency key stands for, while it is remembered."""
        ...

    async def list_artifacts(
        self, namespace: str, where: ArtifactFilter, now: datetime, *, before: int | None, limit: int
    ) -> ArtifactPage:
        """Returns live artifacts, newest first. `limit` is 1 to 200."""
        ...


class ActivityHour(Struct, frozen=True):
    """The activity in one hour. Its gauges are not kept."""

    hour: datetime
    """When the hour began."""
    spent: UsageDelta


class SessionSummary(Struct, frozen=True):
    """A session and its account."""

    session: str
    usage: SessionUsage


class Overview(Protocol):
    """The catalogue for the administrator's page."""

    async def activity(self, namespace: str, /, since: datetime) -> list[ActivityHour]:
        """Returns the hours with any activity in a namespace since a moment, in order; `*` means all namespaces.

        Hours are kept for 90 days.
        """
        ...

    async def recent_sessions(self, namespace: str, *, limit: int) -> list[SessionSummary]:
        """Returns sessions of a namespace, latest activity first; of the latest 5,000 of all namespaces."""
        ...

    async def next_expiring(self, namespace: str, now: datetime, *, limit: int) -> list[Artifact]:
        """Returns live artifacts of a namespace, earliest expiry first; of the next 5,000 of all namespaces."""
        ...
