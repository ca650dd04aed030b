"""What sessions were told."""

from datetime import datetime
from typing import Protocol

from typing_extensions import override

from coatcheck.core.event import Event
from coatcheck.core.session_usage import SessionUsage, UsageDelta
from coatcheck.ports.change import CatalogChange, Commits

_ACCOUNT_BYTES = 256


class AddSessionUsage(CatalogChange[None], frozen=True, kw_only=True):
    """Add to the accounts of sessions, which begin with it where there are none.

    Making it again changes nothing, unless another process has added to the same session in between: then a change
    whose answer was lost counts twice. The accounts are for people to look at; nothing is decided by them.
    """

    batch: int
    """Random, of 62 bits: by which a change is known again."""
    at: datetime
    sessions: tuple[tuple[str, str, UsageDelta], ...]
    """Namespace, session, what to add; each pair once."""
    activity: tuple[tuple[str, UsageDelta], ...] = ()
    """Namespace, what to add to the hour of `at`, in sessions or in none; each namespace once."""
    events: tuple[Event, ...] = ()
    """What was done, to be logged."""

    @property
    @override
    def weight(self) -> int:
        return (len(self.sessions) + len(self.activity) + 2 * len(self.events)) * _ACCOUNT_BYTES


class SessionAccounts(Commits, Protocol):
    """What the sessions' tokens came to. An account goes with its session, or 90 days after it was written to last."""

    async def session_usage(self, namespace: str, /, session: str) -> SessionUsage | None:
        """The account of a session; None when nothing was ever added to it."""
        ...

    async def events(
        self, namespace: str, /, *, session: str | None, artifact: int | None, before: int | None, limit: int
    ) -> list[Event]:
        """Events of a session, of an artifact, or of both, with numbers below `before`, the latest first.

        An event goes with its artifact, with its session, after 30 days, or when there are more than are to be kept.
        """
        ...
