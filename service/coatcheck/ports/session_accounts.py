"""What sessions were told."""

from datetime import datetime
from typing import Protocol

from msgspec import Struct

from coatcheck.core.session_usage import SessionUsage, UsageDelta


class AddSessionUsage(Struct, frozen=True, kw_only=True):
    """Add to the accounts of sessions, which begin with it where there are none.

    Making it again changes nothing, unless another process has added to the same session in between: then a change
    whose answer was lost counts twice. The accounts are for people to look at; nothing is decided by them.
    """

    batch: int
    """Random, of 62 bits: by which a change is known again."""
    at: datetime
    sessions: tuple[tuple[str, str, UsageDelta], ...]
    """Namespace, session, what to add; each pair once."""


class SessionAccounts(Protocol):
    """What the sessions' tokens came to. An account goes with its session, or 90 days after it was written to last."""

    async def add_session_usage(self, change: AddSessionUsage) -> None:
        """Add to accounts; see AddSessionUsage."""
        ...

    async def session_usage(self, namespace: str, session: str) -> SessionUsage | None:
        """The account of a session; None when nothing was ever added to it."""
        ...
