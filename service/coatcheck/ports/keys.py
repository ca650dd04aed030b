"""Keys and namespaces."""

from collections.abc import Collection
from datetime import datetime
from typing import Protocol

from coatcheck.core.artifact import Caller
from coatcheck.core.keys import KeyInfo, KeyRow, NamespaceInfo
from coatcheck.ports.change import CatalogChange, Commits


class MakeKey(CatalogChange[None], frozen=True, kw_only=True):
    """Keep a new key, and its namespace where there is none of that name, with a line in the audit.

    Another key of the same ID is an error of whoever draws the bytes: nothing is changed, and it raises.
    """

    info: KeyInfo
    digest: bytes
    by: Caller


class RevokeKey(CatalogChange[KeyInfo | None], frozen=True, kw_only=True):
    """Refuse a key from now on; a repetition changes nothing. Answers the key as it is then, or None.

    None: there is none of that ID in the namespace; a `namespace` of None looks in all.
    """

    key_id: str
    namespace: str | None
    now: datetime
    by: Caller


class MakeNamespace(CatalogChange[tuple[NamespaceInfo, bool]], frozen=True, kw_only=True):
    """Have a namespace of this name. Answers it, and whether this change made it."""

    name: str
    now: datetime
    by: Caller


class SwitchNamespace(CatalogChange[NamespaceInfo | None], frozen=True, kw_only=True):
    """Refuse a namespace's keys from now on, or no more. Answers it as it is then, or None when there is none."""

    name: str
    disabled: bool
    now: datetime
    by: Caller


class Keys(Commits, Protocol):
    """Who may ask. What is changed here holds for every request that any replica begins to check afterwards."""

    async def find_keys(self, ids: Collection[str]) -> dict[str, KeyRow]:
        """The keys of these IDs, as they are now; also those that are revoked or have expired."""
        ...

    async def any_key(self) -> bool:
        """Whether a key was ever made."""
        ...

    async def list_keys(self, namespace: str | None, *, before: str | None, limit: int) -> list[KeyInfo]:
        """Keys of a namespace, or of all, newest first, behind the one of an ID; where that is none of them, none."""
        ...

    async def list_namespaces(self, *, after: str, limit: int, only: str | None = None) -> list[NamespaceInfo]:
        """Namespaces in the order that the database gives their names, behind one; `only` the one of a name."""
        ...
