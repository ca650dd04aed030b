"""The port of the catalogue: look-ups of artifacts, checks of a store's health, and the administrator's overview."""

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
"""`degraded`: a component does part of its work, for example reads but no writes; `away`: it does none of its work."""


FAULTS: Final = frozenset({Code.STORAGE_UNAVAILABLE, Code.STORAGE_FULL, Code.OVERLOADED, Code.INTEGRITY})
"""Codes of the errors with which a store fails to serve a call."""


class HealthReason(Struct, frozen=True, kw_only=True):
    """Why the service is not ready: which component, and what is wrong with it."""

    component: str
    """Such as `catalogue` or `blob store`."""
    health: Health
    code: Code
    detail: str
    """One or two sentences for an operator. They contain no secrets, because callers without a key may read them."""


class CheckedStore(Protocol):
    """A store whose health can be checked. Each check is a cheap, real call that fails where serving would fail."""

    async def check_reads(self) -> None:
        """Returns if the store can be read.

        Raises:
            CoatcheckError: the store cannot be read; the error explains the reason in a sentence for an operator.
        """
        ...

    async def check_writes(self, *, room: bool = False) -> None:
        """Returns if the store accepts a small write that leaves its contents as they are.

        Args:
            room: whether the store must also have room for a small payload, because it was full before.

        Raises:
            CoatcheckError: the store refuses the write; the error explains the reason in a sentence for an operator.
        """
        ...


class FoundArtifact(Struct, frozen=True):
    """A live artifact, with the additional parts that the caller of `Catalog.find` requested."""

    artifact: Artifact
    inline: bytes | None = None
    """The stored bytes; None if they were not requested or are not in the catalogue."""
    text_view: FoundView | None = None
    """The text view; None if it was not requested or none is kept."""
    survey: bytes | None = None
    """The engine's survey of the payload; None if it was not requested or none is kept."""
    receipt: ReceiptRecord | None = None
    """The record of the text that a model got; None if it was not requested or none is kept."""


class RunKey(Struct, frozen=True, kw_only=True):
    """Identifies the runs of one command in a session, by session, tool and command.

    A tool or command of None matches only artifacts that declare none.

    Only the 1,000 artifacts that were stored last in the session are examined.
    """

    namespace: str
    session: str
    tool_name: str | None
    command: str | None
    """The declared command; None: the tool declares none."""
    but: bytes
    """The identity of the artifact to skip, because that is the run to compare with an earlier one."""


class PayloadKey(Struct, frozen=True, kw_only=True):
    """Identifies the artifacts of one session that have the same bytes.

    Only the 1,000 artifacts with these bytes that were stored last in the namespace are examined.
    """

    namespace: str
    session: str
    sha256: bytes
    """Digest of the bytes. Digest and `size` together identify the bytes."""
    size: int


class ArtifactFilter(Struct, frozen=True, kw_only=True):
    """Selects artifacts to list. An artifact must meet every condition that is not None."""

    session: str | None = None
    kind: Kind | None = None
    tool_name: str | None = None
    url: str | None = None
    """The declared URL of the payload."""
    status: int | None = None
    """The HTTP status with which a page was fetched."""
    final_url: str | None = None
    """The URL to which the redirects of a page led."""
    label: str | None = None
    """A label that the artifact must have, beside any others."""
    created_after: datetime | None = None
    """The moment from which on the artifact must have been created, inclusive."""
    created_before: datetime | None = None
    """The moment before which the artifact must have been created, exclusive."""
    session_prefix: str | None = None
    """Prefix of the session's name; artifacts without a session do not match."""
    terms: tuple[tuple[int, ...], ...] | None = None
    """Keys of terms as `core/fulltext` computes them: a document must contain at least one key of each tuple. Artifacts
    that are not indexed yet do not match."""


class ArtifactPage(Struct, frozen=True):
    """One page of a list, newest first.

    If few of many artifacts match, a page may contain fewer than `limit` artifacts, or none, although more pages
    follow: a query has a time limit, and the next page continues where the query stopped.
    """

    artifacts: list[Artifact]
    before: int | None
    """The position after which the next page begins, for `list_artifacts`; None: this is the last page."""
    damaged: tuple[int, ...] = ()
    """Segments of the full-text index that cannot be read; their artifacts are missing from the list."""


class InlineBytes(Protocol):
    """Access to blobs that are stored in the catalogue."""

    async def inline_bytes(self, namespace: str, /, blob_id: str) -> bytes | None:
        """Returns the stored bytes of an inline blob; None if there is no such row."""
        ...


class Catalog(Commits, InlineBytes, CheckedStore, Protocol):
    """The rows of artifacts: which artifacts exist, in which namespace, and until when.

    Every method takes the namespace as an argument, because the catalogue knows nothing about the current caller.

    All methods raise CoatcheckError `storage_unavailable` if the database cannot be reached or is busy for too long,
    and `storage_full` if the database cannot grow. After `storage_full`, nothing of the change is visible. After
    `storage_unavailable`, the change may be visible, because only the answer to its commit may have been lost: every
    change can safely be repeated, and may then succeed. Queries raise `overloaded` if the database responds but all
    connections to it are in use.
    """

    async def same_bytes(self, namespace: str, /, sha256: bytes, size: int) -> Blob | None:
        """Returns a healthy blob with this content, at which a new artifact would point; None if there is no blob."""
        ...

    async def holds_within(self, namespace: str, /, session: str | None, now: datetime) -> HoldConflict | None:
        """Returns the holds that cover a session or any of its artifacts; None if there are none.

        Without a session, it returns the holds that cover the namespace, any of its sessions or any of its artifacts.
        """
        ...

    async def usage_of(self, namespace: str, /) -> Usage:
        """Returns the numbers of artifacts and stored bytes that a namespace holds."""
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
        """Returns the artifact if it is live at `now`, otherwise its tombstone. A single statement reads both.

        Returns None if this namespace never had the artifact, or no longer has its tombstone. For an artifact that has
        expired but is not swept yet, it returns a tombstone, too. `with_bytes` adds the artifact's inline bytes,
        `with_view` its kept text view with the inline bytes of the view, `with_survey` its survey, and `with_receipt`
        the record of the text that a model got in its place.
        """
        ...

    async def live_artifacts(self, namespace: str, /, numbers: Collection[int], now: datetime) -> dict[int, Artifact]:
        """Returns the artifacts with these numbers, by number. Artifacts that are not live at `now` are left out."""
        ...

    async def latest_run(self, run: RunKey, now: datetime) -> int | None:
        """Returns the number of the live artifact that `run` matches and that was stored last; None: there is none."""
        ...

    async def find_given_cards(self, payload: PayloadKey, now: datetime) -> list[Artifact]:
        """Returns the newest 8 live artifacts of a payload whose receipts had a card (`facts.given`), newest first."""
        ...

    async def find_key(self, namespace: str, /, key: str, now: datetime) -> KeyRecord | None:
        """Returns the request that an idempotency key stands for; None if the key is unknown or has expired."""
        ...

    async def list_artifacts(
        self, namespace: str, where: ArtifactFilter, now: datetime, *, before: int | None, limit: int
    ) -> ArtifactPage:
        """Returns a page of the live artifacts that `where` selects, newest first; `limit` is 1 to 200.

        `before` is the `ArtifactPage.before` of the previous page; None: the first page.
        """
        ...


class ActivityHour(Struct, frozen=True):
    """The activity in one hour."""

    hour: datetime
    """The beginning of the hour."""
    spent: UsageDelta
    """The counts of the hour. Gauges are not kept by hour, so they are unset."""


class SessionSummary(Struct, frozen=True):
    """A session and its token account."""

    session: str
    usage: SessionUsage


class Overview(Protocol):
    """The queries of the catalogue for the administrator's page."""

    async def activity(self, namespace: str, /, since: datetime) -> list[ActivityHour]:
        """Returns the hours with any activity in a namespace since a moment, in order; `*` means all namespaces.

        Hours are kept for 90 days.
        """
        ...

    async def recent_sessions(self, namespace: str, *, limit: int) -> list[SessionSummary]:
        """Returns sessions of a namespace, latest activity first.

        Only the 5,000 sessions of all namespaces with the latest activity are examined.
        """
        ...

    async def next_expiring(self, namespace: str, now: datetime, *, limit: int) -> list[Artifact]:
        """Returns live artifacts of a namespace, earliest expiry first.

        Only the 5,000 artifacts of all namespaces that expire next are examined.
        """
        ...
