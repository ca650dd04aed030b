"""Queries for an administrator's overview. Each examines a bounded number of rows."""

from datetime import datetime
from typing import Protocol

from msgspec import Struct

from coatcheck.core.artifact import Artifact
from coatcheck.core.session_usage import SessionUsage, UsageDelta


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
