"""Methods of a port, made of functions over a connection: each is one question, or one change in its own transaction.

How a change is committed and where a question is asked is the database's own; see `SqlAccess`.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from types import CoroutineType
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

from sqlalchemy import Connection

from coatcheck.adapters.sql.change_group import Work

C = TypeVar("C")
P = ParamSpec("P")
T = TypeVar("T")
_ROW_BYTES = 1024


class SqlAccess(ABC):
    """A way to commit changes and a way to ask questions."""

    @abstractmethod
    async def _commit(self, work: Work) -> object:
        """The answer of a change, once it is durable."""

    @abstractmethod
    async def _ask(self, namespace: str | None, question: Callable[[Connection], T]) -> T:
        """The answer to a question about a namespace; None: about all of them."""

    async def ask(self, namespace: str | None, question: Callable[[Connection], T]) -> T:
        """The same, for the methods made here."""
        return await self._ask(namespace, question)

    async def alone(self, apply: Callable[[Connection, C], T], change: C, rows: int) -> T:
        """The answer of a change of about so many rows, of any namespace, once it is durable."""
        return cast("T", await self._commit(Work(apply, change, None, (rows + 1) * _ROW_BYTES)))


def asks(
    question: Callable[Concatenate[Connection, P], T],
) -> Callable[Concatenate[SqlAccess, P], "CoroutineType[Any, Any, T]"]:
    """A method that asks a question about rows of any namespace."""

    async def method(access: SqlAccess, *args: P.args, **kwargs: P.kwargs) -> T:
        return await access.ask(None, lambda conn: question(conn, *args, **kwargs))

    return method


def asks_namespace(
    question: Callable[Concatenate[Connection, str, P], T],
) -> Callable[Concatenate[SqlAccess, str, P], "CoroutineType[Any, Any, T]"]:
    """A method that asks a question about a namespace, its first argument."""

    async def method(access: SqlAccess, namespace: str, *args: P.args, **kwargs: P.kwargs) -> T:
        return await access.ask(namespace, lambda conn: question(conn, namespace, *args, **kwargs))

    return method


def changes(
    apply: Callable[[Connection, C], T], rows: Callable[[C], int] = lambda _: 0
) -> Callable[[SqlAccess, C], "CoroutineType[Any, Any, T]"]:
    """A method that carries out a change of rows of any namespace; `rows` says about how many it touches."""

    async def method(access: SqlAccess, change: C) -> T:
        return await access.alone(apply, change, rows(change))

    return method
