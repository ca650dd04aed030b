"""The port of keys in SQL, whatever the database. How a change is committed is the database's own."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection
from typing import Any, TypeVar, cast

from sqlalchemy import Connection

from coatcheck.adapters.sql import key_rows
from coatcheck.adapters.sql.change_group import Work
from coatcheck.adapters.sql.changes import keys
from coatcheck.core.keys import KeyInfo, KeyRow, NamespaceInfo
from coatcheck.ports.keys import MakeKey, MakeNamespace, RevokeKey, SwitchNamespace

T = TypeVar("T")
_WEIGHT = 1024


class SqlKeys(ABC):
    """Keys over a way to commit changes and a way to ask questions. Their rows are of any namespace."""

    @abstractmethod
    async def _commit(self, work: Work) -> object:
        """The answer of a change, once it is durable."""

    @abstractmethod
    async def _ask(self, namespace: str | None, question: Callable[[Connection], T]) -> T:
        """The answer to a question about a namespace; None: about all of them."""

    async def make_key(self, change: MakeKey) -> None:
        """Keep a key."""
        await self._commit(Work(keys.apply_make_key, change, None, _WEIGHT))

    async def revoke_key(self, change: RevokeKey) -> KeyInfo | None:
        """Refuse a key."""
        return cast("KeyInfo | None", await self._commit(Work(keys.apply_revoke_key, change, None, _WEIGHT)))

    async def make_namespace(self, change: MakeNamespace) -> tuple[NamespaceInfo, bool]:
        """Have a namespace."""
        answer: Any = await self._commit(Work(keys.apply_make_namespace, change, None, _WEIGHT))
        return cast("tuple[NamespaceInfo, bool]", answer)

    async def switch_namespace(self, change: SwitchNamespace) -> NamespaceInfo | None:
        """Disable or enable a namespace."""
        answer = await self._commit(Work(keys.apply_switch_namespace, change, None, _WEIGHT))
        return cast("NamespaceInfo | None", answer)

    async def find_keys(self, ids: Collection[str]) -> dict[str, KeyRow]:
        """The keys of these IDs."""
        return await self._ask(None, lambda conn: key_rows.find_keys(conn, ids))

    async def any_key(self) -> bool:
        """Whether a key was ever made."""
        return await self._ask(None, key_rows.any_key)

    async def list_keys(self, namespace: str | None, *, before: str | None, limit: int) -> list[KeyInfo]:
        """Keys, newest first."""
        return await self._ask(None, lambda conn: key_rows.list_keys(conn, namespace, before, limit))

    async def list_namespaces(self, *, after: str, limit: int, only: str | None = None) -> list[NamespaceInfo]:
        """Namespaces by name."""
        return await self._ask(None, lambda conn: key_rows.list_namespaces(conn, after, limit, only))
