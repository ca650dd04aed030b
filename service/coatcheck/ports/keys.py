"""The ports for keys and namespaces, and for the token accounts and the events of sessions."""

from collections.abc import Collection
from datetime import datetime
from typing import ClassVar, Protocol

from typing_extensions import override

from coatcheck.core.artifact import Caller
from coatcheck.core.event import Event, SessionUsage, UsageDelta
from coatcheck.core.keys import KeyInfo, KeyRow, NamespaceInfo
from coatcheck.ports.decisions import CatalogChange, Commits


class MakeKey(CatalogChange[None], frozen=True, kw_only=True):
    """Stores a new key, creates its namespace unless it exists, and adds a line to the audit log.

    If a key with this ID exists already, the generator of random IDs is broken: the change raises an error, and nothing
    is stored.
    """

    info: KeyInfo
    digest: bytes
    """Digest of the key's secret. The secret itself is not stored anywhere."""
    by: Caller


class RevokeKey(CatalogChange[KeyInfo | None], frozen=True, kw_only=True):
    """Revokes a key, and returns the key as it is afterwards. Revoking a revoked key changes nothing.

    Returns None if the namespace has no key with this ID.
    """

    key_id: str
    namespace: str | None
    """The namespace that the key must belong to; None: any namespace."""
    now: datetime
    by: Caller


class MakeNamespace(CatalogChange[tuple[NamespaceInfo, bool]], frozen=True, kw_only=True):
    """Creates a namespace unless it exists. Returns the namespace, and whether this change created it."""

    name: str
    now: datetime
    by: Caller


class SwitchNamespace(CatalogChange[NamespaceInfo | None], frozen=True, kw_only=True):
    """Disables or enables a namespace's keys. Returns the namespace as it is afterwards, or None if it is unknown."""

    name: str
    disabled: bool
    """Whether the namespace's keys are refused from now on. Its artifacts stay."""
    now: datetime
    by: Caller


class Keys(Commits, Protocol):
    """The catalogue for keys and namespaces.

    A committed change applies to every request that any replica begins to check after the commit.
    """

    async def find_keys(self, ids: Collection[str]) -> dict[str, KeyRow]:
        """Returns the keys with these IDs as they are now, by ID, including revoked and expired ones."""
        ...

    async def any_key(self) -> bool:
        """Returns whether a key was ever created."""
        ...

    async def list_keys(self, namespace: str | None, *, before: str | None, limit: int) -> list[KeyInfo]:
        """Returns keys, newest first. A `namespace` of None means the keys of all namespaces.

        The list starts after the key with the ID `before`, or with the newest key if `before` is None. If there is no
        key with this ID among those to list, the list is empty.
        """
        ...

    async def list_namespaces(self, *, after: str, limit: int, only: str | None = None) -> list[NamespaceInfo]:
        """Returns namespaces in the database's order of names, starting after the name `after`.

        `only` restricts the answer to the namespace with this name.
        """
        ...


_ACCOUNT_BYTES = 256
"""Approximate bytes of the numbers of an account. An estimate is enough, because weights only decide how many changes
share a transaction."""


class AddSessionUsage(CatalogChange[None], frozen=True, kw_only=True):
    """Adds counts to the accounts of sessions, and creates accounts that do not exist.

    If this change is repeated, it counts nothing again, unless another process has added to the same session in
    between. In that case, a change that is repeated because its answer was lost counts twice. This is acceptable
    because accounts only inform people, and no decision depends on them.
    """

    takes_room: ClassVar[bool] = True

    batch: int
    """62 random bits, by which a repetition of this change is recognised."""
    at: datetime
    sessions: tuple[tuple[str, str, UsageDelta], ...]
    """Namespace, session and the counts to add to its account; each pair of namespace and session only once."""
    activity: tuple[tuple[str, UsageDelta], ...] = ()
    """Namespace and the counts to add to its activity in the hour of `at`, including requests outside of sessions; each
    namespace only once."""
    events: tuple[Event, ...] = ()
    """Events to add to the log."""

    @property
    @override
    def weight(self) -> int:
        return (len(self.sessions) + len(self.activity) + 2 * len(self.events)) * _ACCOUNT_BYTES


class SessionAccounts(Commits, Protocol):
    """The token accounts and events of sessions.

    An account is deleted with its session, or 90 days after the last addition to it.
    """

    async def session_usage(self, namespace: str, /, session: str) -> SessionUsage | None:
        """Returns the account of a session; None if the session has no account."""
        ...

    async def events(
        self, namespace: str, /, *, session: str | None, artifact: int | None, before: int | None, limit: int
    ) -> list[Event]:
        """Returns events of a session, of an artifact, or of both, latest first, with numbers below `before`.

        An event is deleted with its artifact or session, after 30 days, or when there are too many events.
        """
        ...
