"""Keys and namespaces, and the sessions' token accounts and events."""

from collections.abc import Collection
from datetime import datetime
from typing import ClassVar, Protocol

from typing_extensions import override

from coatcheck.core.artifact import Caller
from coatcheck.core.event import Event, SessionUsage, UsageDelta
from coatcheck.core.keys import KeyInfo, KeyRow, NamespaceInfo
from coatcheck.ports.decisions import CatalogChange, Commits


class MakeKey(CatalogChange[None], frozen=True, kw_only=True):
    """Stores a new key, and its namespace if it does not exist, with a line in the audit log.

    If a key of this ID exists, random generation is broken: it raises, and nothing is changed.
    """

    info: KeyInfo
    digest: bytes
    """Digest of the secret: the secret itself is stored nowhere."""
    by: Caller


class RevokeKey(CatalogChange[KeyInfo | None], frozen=True, kw_only=True):
    """Revokes a key; a repetition changes nothing. Returns the key as it is afterwards.

    Returns None if the namespace has no key of that ID; a `namespace` of None means any.
    """

    key_id: str
    namespace: str | None
    now: datetime
    by: Caller


class MakeNamespace(CatalogChange[tuple[NamespaceInfo, bool]], frozen=True, kw_only=True):
    """Creates a namespace unless it exists. Returns it, and whether this change created it."""

    name: str
    now: datetime
    by: Caller


class SwitchNamespace(CatalogChange[NamespaceInfo | None], frozen=True, kw_only=True):
    """Disables or enables a namespace's keys. Returns the namespace as it is afterwards, or None if there is none."""

    name: str
    disabled: bool
    """Whether its keys are refused from now on; its artifacts stay."""
    now: datetime
    by: Caller


class Keys(Commits, Protocol):
    """Keys and namespaces. A change applies to every request that any replica begins to check afterwards."""

    async def find_keys(self, ids: Collection[str]) -> dict[str, KeyRow]:
        """Returns the keys of these IDs as they are now, including revoked and expired ones."""
        ...

    async def any_key(self) -> bool:
        """Returns whether a key was ever created."""
        ...

    async def list_keys(self, namespace: str | None, *, before: str | None, limit: int) -> list[KeyInfo]:
        """Returns keys of a namespace, or of all, newest first, starting after the key `before`.

        None if that is unknown.
        """
        ...

    async def list_namespaces(self, *, after: str, limit: int, only: str | None = None) -> list[NamespaceInfo]:
        """Returns namespaces in the database's order of names, starting after `after`.

        Only the one named `only`, if given.
        """
        ...


_ACCOUNT_BYTES = 256
"""About as much as the numbers of an account take: weights only decide how many changes share a transaction."""


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
