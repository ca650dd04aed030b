"""What an operator sees: counts, and where time goes."""

from contextlib import AbstractContextManager
from datetime import datetime
from typing import Protocol

from msgspec import Struct

from coatcheck.core.artifact import Kind
from coatcheck.core.errors import Code


class Overdue(Struct, frozen=True, kw_only=True):
    """What upkeep still has to do, over all namespaces, at one moment. Counts stop at the limit that was asked with."""

    expired: int = 0
    """Artifacts that have expired and are not buried yet. What is held is not among them."""
    oldest: datetime | None = None
    """When the first of them expired; None when there is none."""
    dead: int = 0
    """Blobs that nothing points at and that are not swept yet."""
    dead_bytes: int = 0
    """Stored bytes of the dead blobs."""
    artifacts: int | None = None
    """Artifacts there are; None where nobody keeps count."""
    stored_bytes: int | None = None
    """Bytes that they are charged with; None where nobody keeps count."""


class Accounts(Protocol):
    """The catalogue as a meter sees it."""

    async def overdue(self, now: datetime, limit: int) -> Overdue:
        """Count what upkeep has to do, looking at no more than `limit` rows of each sort."""
        ...


class Meter(Protocol):
    """Counts what happens. Any thread may call it; it takes microseconds, never waits and never raises.

    Names that are counted by are few and fixed: kinds, codes, routes by their template. No caller chooses one.
    """

    def answered(self, route: str, method: str, status: int, seconds: float, received: int) -> None:
        """A request has been answered: by which route, with what, in how long, after how many bytes of its body."""
        ...

    def problem(self, code: Code) -> None:
        """A caller was told of an expected failure."""
        ...

    def limited(self, what: str) -> None:
        """A caller was refused for what it may do in a minute: `requests` or `bytes`."""
        ...

    def ingested(self, kind: Kind, outcome: str, size: int, tokens: int, shown: int | None) -> None:
        """A payload was taken in.

        Args:
            kind: what it is.
            outcome: `stored`, `repeated` (it was there already) or `unstored` (storage did not take it).
            size: its bytes.
            tokens: its tokens, exact or estimated.
            shown: tokens of the card that stands for it; None when it was answered inline.
        """
        ...

    def refused(self, store: str, code: Code) -> None:
        """A store did not take or give what was asked of it."""
        ...

    def committed(self, changes: int, waited: float, took: float) -> None:
        """Changes were committed together, the first of which had waited for so many seconds."""
        ...

    def ran(self, job: str, result: str, seconds: float) -> None:
        """A round of a job has ended: `done` or `failed`."""
        ...

    def tidied(self, what: str, rows: int) -> None:
        """Upkeep has removed rows of a sort."""
        ...

    def lagged(self, seconds: float) -> None:
        """The event loop came back so much later than it was asked to."""
        ...


class Stage(Protocol):
    """A part of what a request does, while it goes on."""

    def note(self, name: str, value: str | float) -> None:
        """Say something of it that is no text of a payload."""
        ...


class Tracer(Protocol):
    """Follows requests through their stages, for whoever collects that. Never waits and never raises of itself."""

    @property
    def on(self) -> bool:
        """Whether anybody collects; otherwise the rest does nothing."""
        ...

    def request(self, method: str, parent: str | None, state: str | None) -> AbstractContextManager[Stage]:
        """Around a request; `parent` and `state` are its `traceparent` and `tracestate` (W3C Trace Context)."""
        ...

    def stage(self, name: str) -> AbstractContextManager[Stage]:
        """Around a part of it; in the same task or one that it started."""
        ...
