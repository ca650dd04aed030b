"""The ports for metrics, traces and the clock, and for the extractor of text views."""

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
"""This type and those above list the values of metric labels. Every series of a counter is created at the start: if a
series began with its first event, a monitoring system would see no increase."""


class Overdue(Struct, frozen=True, kw_only=True):
    """The backlog of maintenance over all namespaces at one moment, with the totals of all artifacts."""

    expired: int = 0
    """Artifacts that have expired but have no tombstone yet, except held ones; at most the `limit` of `overdue`."""
    oldest: datetime | None = None
    """When the first of these artifacts expired; None if there are none."""
    dead: int = 0
    """Blobs at which nothing points any more, and which are not swept yet; at most the `limit` of `overdue`."""
    dead_bytes: int = 0
    """Stored bytes of the dead blobs."""
    artifacts: int | None = None
    """Number of artifacts; None if artifacts are not counted."""
    stored_bytes: int | None = None
    """Stored bytes that quotas charge for these artifacts; None if the bytes are not counted."""


class Accounts(Protocol):
    """The query of the catalogue for metrics."""

    async def overdue(self, now: datetime, limit: int) -> Overdue:
        """Returns the backlog at `now`. Examines at most `limit` expired artifacts, and as many dead blobs."""
        ...


class Meter(Protocol):
    """Counts events for metrics. Any thread may call its methods; they take microseconds, never wait and never raise.

    Label values are few and fixed: kinds, codes, templates of routes. Callers of the service choose none of them. The
    methods defined here do nothing, so a class that inherits them counts nothing.
    """

    def record_answer(self, route: str, method: str, status: int, seconds: float, received: int) -> None:
        """Counts an answered request: route, method, status, duration in seconds, and bytes of the request body."""

    def problem(self, code: Code) -> None:
        """Counts an expected failure that was reported to a caller."""

    def record_limited(self, what: RateLimit) -> None:
        """Counts a request that a rate limit refused: the limit of `requests` or that of `bytes`."""

    def record_ingest(
        self, kind: Kind, outcome: IngestOutcome, size: int, tokens: int, card_tokens: int | None
    ) -> None:
        """Counts an ingested payload.

        Args:
            kind: the payload's kind.
            outcome: `stored`, `repeated` (the artifact existed already) or `unstored` (storage refused the payload).
            size: the payload's bytes.
            tokens: the payload's tokens, exact or estimated.
            card_tokens: tokens of the payload's card; None if the answer was the payload itself.
        """

    def record_refusal(self, store: StoreName, code: Code) -> None:
        """Counts a call that a store refused with the error `code`."""

    def record_commit(self, changes: int, waited: float, took: float) -> None:
        """Counts a commit of one group of changes.

        Args:
            changes: number of changes in the group.
            waited: seconds that the first change waited for the commit to begin.
            took: seconds that the commit took.
        """

    def ran(self, job: Job, result: JobResult, seconds: float) -> None:
        """Counts a round of a job, with its result and its duration in seconds."""

    def record_maintenance(self, what: RemovedRows, rows: int) -> None:
        """Counts the rows of one sort that maintenance removed."""

    def record_lag(self, seconds: float) -> None:
        """Records how many seconds late the event loop called a timer."""


class Stage(Protocol):
    """A stage of a request that is in progress: a span of its trace."""

    def note(self, name: str, value: str | float) -> None:
        """Adds an attribute to the stage. The value must not be text of a payload."""


class Tracer(Protocol):
    """Traces requests through their stages. Its methods never wait, and raise no errors of their own."""

    @property
    def on(self) -> bool:
        """Whether traces are collected; otherwise the other methods do nothing."""
        ...

    def request(self, method: str, parent: str | None, state: str | None) -> AbstractContextManager[Stage]:
        """Wraps a request; `parent` and `state` are its `traceparent` and `tracestate` (W3C Trace Context)."""
        ...

    def stage(self, name: str) -> AbstractContextManager[Stage]:
        """Wraps a stage of the request, in the task of the request or in a task that it started."""
        ...


class Clock(Protocol):
    """The authoritative time."""

    def now(self) -> datetime:
        """Returns the present time in UTC, as an aware datetime with microseconds."""
        ...


class DeletionClock(Clock, Protocol):
    """The authoritative time, and whether it may be wrong: data that a wrong clock deletes cannot be recovered."""

    @property
    def pause_reason(self) -> str | None:
        """Returns why expired data must not be deleted now, and what an administrator can do.

        None means that expired data may be deleted.
        """
        ...

    def deletion_time(self) -> datetime:
        """Returns the present time, if data that has expired by now may be deleted.

        Raises:
            CoatcheckError: `deletions_paused` while there is a `pause_reason`.
        """
        ...


class Extractor(Protocol):
    """Makes text views, outside this process and within limits on time and memory."""

    async def extract(
        self, kind: Kind, media_type: str | None, url: str | None, payload: bytes
    ) -> ExtractedText | None:
        """Returns the text view of a payload; None if its kind has only the raw view, or no text could be extracted.

        This method returns within a few seconds, whatever the payload: if the extractor fails, a simpler one is tried,
        and if that one fails too, the payload has no text view. The result depends only on the arguments, except for
        payloads near the limits.

        Raises:
            CoatcheckError: `overloaded` if no extractor is free now to decide whether the payload has a text view; only
                for documents and for payloads of more than 2 MiB.
        """
        ...
