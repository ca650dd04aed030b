"""What an operator sees (counts, and where time is spent), the time, and the extraction of text views."""

from contextlib import AbstractContextManager
from datetime import datetime
from typing import Literal, Protocol

from msgspec import Struct

from coatcheck.core.artifact import Kind
from coatcheck.core.errors import Code
from coatcheck.core.views.view import ExtractedText

StoreName = Literal["catalogue", "blob store"]
RateLimit = Literal["requests", "bytes"]
IngestOutcome = Literal["stored", "repeated", "unstored"]
Job = Literal[
    "maintenance",
    "write_reads",
    "write_usage",
    "index",
    "flush_fallback",
    "refresh_policies",
    "check_clock",
    "carry_out_decisions",
    "resume_runs",
]
JobResult = Literal["done", "failed"]
RemovedRows = Literal["expired", "reaped", "removed", "purged"]
"""Values of labels. Every series of a counter exists from the start, because the first event of one that did not exist
before is no increase."""


class Overdue(Struct, frozen=True, kw_only=True):
    """The backlog of upkeep over all namespaces at one moment. Counts stop at the given limit."""

    expired: int = 0
    """Artifacts that have expired but have no tombstone yet, except held ones."""
    oldest: datetime | None = None
    """When the first of them expired; None if there is none."""
    dead: int = 0
    """Blobs that nothing points at and that are not swept yet."""
    dead_bytes: int = 0
    """Stored bytes of the dead blobs."""
    artifacts: int | None = None
    """Number of artifacts; None if it is not counted."""
    stored_bytes: int | None = None
    """Bytes that they are charged with; None if they are not counted."""


class Accounts(Protocol):
    """The catalogue for metrics."""

    async def overdue(self, now: datetime, limit: int) -> Overdue:
        """Returns the backlog, examining at most `limit` rows of each sort."""
        ...


class Meter(Protocol):
    """Counts what happens. Any thread may call it; it takes microseconds, never waits and never raises.

    Label values are few and fixed: kinds, codes, templates of routes. None is chosen by callers. Whoever inherits these
    methods does nothing.
    """

    def record_answer(self, route: str, method: str, status: int, seconds: float, received: int) -> None:
        """Counts an answered request: route, status, duration, bytes of its body."""

    def problem(self, code: Code) -> None:
        """Counts an expected failure that a caller was told."""

    def record_limited(self, what: RateLimit) -> None:
        """Counts a request refused by a rate limit, for `requests` or `bytes`."""

    def record_ingest(
        self, kind: Kind, outcome: IngestOutcome, size: int, tokens: int, card_tokens: int | None
    ) -> None:
        """Counts an ingested payload.

        Args:
            kind: its kind.
            outcome: `stored`, `repeated` (it existed already) or `unstored` (storage refused it).
            size: its bytes.
            tokens: its tokens, exact or estimated.
            card_tokens: tokens of its card; None if it was answered inline.
        """

    def record_refusal(self, store: StoreName, code: Code) -> None:
        """Counts a refusal by a store."""

    def record_commit(self, changes: int, waited: float, took: float) -> None:
        """Counts a commit of several changes, of which the first waited for `waited` seconds."""

    def ran(self, job: Job, result: JobResult, seconds: float) -> None:
        """Counts a round of a job: `done` or `failed`."""

    def record_maintenance(self, what: RemovedRows, rows: int) -> None:
        """Counts rows of a sort that upkeep removed."""

    def record_lag(self, seconds: float) -> None:
        """Records event-loop lag."""


class Stage(Protocol):
    """A part of a request in progress."""

    def note(self, name: str, value: str | float) -> None:
        """Adds an attribute, which must not be text of a payload."""


class Tracer(Protocol):
    """Traces requests through their stages. Never waits, and never raises by itself."""

    @property
    def on(self) -> bool:
        """Whether traces are collected; otherwise the rest does nothing."""
        ...

    def request(self, method: str, parent: str | None, state: str | None) -> AbstractContextManager[Stage]:
        """Wraps a request; `parent` and `state` are its `traceparent` and `tracestate` (W3C Trace Context)."""
        ...

    def stage(self, name: str) -> AbstractContextManager[Stage]:
        """Wraps a stage of it, in the same task or one that it started."""
        ...


class Clock(Protocol):
    """The authoritative time."""

    def now(self) -> datetime:
        """Returns the time, aware, in UTC, to the microsecond."""
        ...


class DeletionClock(Clock, Protocol):
    """The authoritative time, and whether it may be wrong: what is deleted by a wrong clock does not come back."""

    @property
    def pause_reason(self) -> str | None:
        """Returns why nothing may be deleted by time now, and what to do, for administrators; None if it may be."""
        ...

    def deletion_time(self) -> datetime:
        """Returns the time by which things may be deleted, which is `now`.

        Raises:
            CoatcheckError: `deletions_paused` while there is a `pause_reason`.
        """
        ...


class Extractor(Protocol):
    """Makes text views, outside this process and within limits of time and memory."""

    async def extract(
        self, kind: Kind, media_type: str | None, url: str | None, payload: bytes
    ) -> ExtractedText | None:
        """Returns the text view of a payload; None if its kind has only the raw one, or nothing could be extracted.

        Returns within a few seconds whatever the payload: if the extractor fails, a simpler one is tried, and if that
        fails too, there is no text view. Deterministic except for payloads near the limits.

        Raises:
            CoatcheckError: `overloaded` if it cannot be decided now whether there is a view; only for documents and for
                payloads of more than 2 MiB.
        """
        ...
