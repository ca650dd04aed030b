"""The port of sessions' accounts in SQL, whatever the database."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TypeVar

from sqlalchemy import Connection

from coatcheck.adapters.sql.change_group import Work
from coatcheck.adapters.sql.changes import session_usage
from coatcheck.core.session_usage import SessionUsage
from coatcheck.ports.session_accounts import AddSessionUsage

T = TypeVar("T")
_ROW_BYTES = 256


class SqlSessionAccounts(ABC):
    """Accounts over a way to commit changes and a way to ask questions. A change speaks of several namespaces."""

    @abstractmethod
    async def _commit(self, work: Work) -> object:
        """The answer of a change, once it is durable."""

    @abstractmethod
    async def _ask(self, namespace: str | None, question: Callable[[Connection], T]) -> T:
        """The answer to a question about a namespace; None: about all of them."""

    async def add_session_usage(self, change: AddSessionUsage) -> None:
        """Add to accounts."""
        await self._commit(Work(session_usage.apply_add, change, None, len(change.sessions) * _ROW_BYTES))

    async def session_usage(self, namespace: str, session: str) -> SessionUsage | None:
        """The account of a session."""
        return await self._ask(namespace, lambda conn: session_usage.account(conn, namespace, session))
