"""What an administrator looks at first. Every question looks at a bounded number of rows."""

from datetime import datetime
from typing import Protocol

from msgspec import Struct

from coatcheck.core.artifact import Artifact
from coatcheck.core.session_usage import SessionUsage, UsageDelta


class ActivityHour(Struct, frozen=True):
    """What happened in an hour. Its gauges are not kept."""

    hour: datetime
    """When it began."""
    spent: UsageDelta


class SessionSummary(Struct, frozen=True):
    """A session and its account."""

    session: str
    usage: SessionUsage


class Overview(Protocol):
    """The catalogue as the administrator's page sees it."""

    async def activity(self, namespace: str, /, since: datetime) -> list[ActivityHour]:
        """The hours of a namespace in which anything happened, from a moment on, in order; of `*`, of all namespaces.

        Hours are kept for 90 days.
        """
        ...

    async def recent_sessions(self, namespace: str, *, limit: int) -> list[SessionSummary]:
        """Sessions of a namespace, the one with the latest activity first; of the latest 5,000 of all namespaces."""
        ...

    async def next_expiring(self, namespace: str, now: datetime, *, limit: int) -> list[Artifact]:
        """Live artifacts of a namespace, the one that expires first first; of the next 5,000 of all namespaces."""
        ...
