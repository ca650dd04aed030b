"""Sessions' token accounts and events."""

from datetime import datetime
from typing import ClassVar, Protocol

from typing_extensions import override

from coatcheck.core.event import Event
from coatcheck.core.session_usage import SessionUsage, UsageDelta
from coatcheck.ports.change import CatalogChange, Commits

_ACCOUNT_BYTES = 256


class AddSessionUsage(CatalogChange[None], frozen=True, kw_only=True):
    """Adds to the accounts of sessions, and creates those that do not exist.

    Repeating it changes nothing, unless another process has added to the same session in between: then a change whose
    answer was lost counts twice. The accounts are for people to read; no decision depends on them.
    """

    takes_room: ClassVar[bool] = True

    batch: int
    """62 random bits that identify a repeated change."""
    at: datetime
    sessions: tuple[tuple[str, str, UsageDelta], ...]
    """Namespace, session, what to add; each pair once."""
    activity: tuple[tuple[str, UsageDelta], ...] = ()
    """Namespace, what to add to the hour of `at`, within or outside sessions; each namespace once."""
    events: tuple[Event, ...] = ()
    """Events to log."""

    @property
    @override
    def weight(self) -> int:
        return (len(self.sessions) + len(self.activity) + 2 * len(self.events)) * _ACCOUNT_BYTES


class SessionAccounts(Commits, Protocol):
    """Sessions' token accounts. An account is deleted with its session, or 90 days after it was last written to."""

    async def session_usage(self, namespace: str, /, session: str) -> SessionUsage | None:
        """Returns the account of a session; None if nothing was ever added to it."""
        ...

    async def events(
        self, namespace: str, /, *, session: str | None, artifact: int | None, before: int | None, limit: int
    ) -> list[Event]:
        """Returns events of a session, an artifact, or both, with numbers below `before`, latest first.

        An event is deleted with its artifact or session, after 30 days, or when there are too many.
        """
        ...
