"""The catalogue's two ways to the database, and port methods made from functions that take a connection."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from types import CoroutineType
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

from sqlalchemy import Connection

from coatcheck.adapters.sql.changes import usage
from coatcheck.ports.change import Answer, CatalogChange

N = TypeVar("N", bound=str | None)
P = ParamSpec("P")
T = TypeVar("T")


class SqlAccess(ABC):
    """A way to commit changes and a way to run queries."""

    @abstractmethod
    async def carry_out(self, change: CatalogChange[Any]) -> object:
        """Returns the answer of a change, once it is durable."""

    @abstractmethod
    async def ask(self, namespace: str | None, question: Callable[[Connection], T]) -> T:
        """Returns the answer to a query about a namespace; None: about all of them."""

    async def commit(self, change: CatalogChange[Answer], /) -> Answer:
        """Carries out a change and returns its answer once it is durable."""
        try:
            return cast("Answer", await self.carry_out(change))
        except usage.NamespaceClosing as error:
            raise usage.closing(str(error)) from error


def asks(
    question: Callable[Concatenate[Connection, P], T],
) -> Callable[Concatenate[SqlAccess, P], "CoroutineType[Any, Any, T]"]:
    """Returns a method that runs a query on rows of any namespace."""

    async def method(access: SqlAccess, *args: P.args, **kwargs: P.kwargs) -> T:
        return await access.ask(None, lambda conn: question(conn, *args, **kwargs))

    return method


def asks_namespace(
    question: Callable[Concatenate[Connection, N, P], T],
) -> Callable[Concatenate[SqlAccess, N, P], "CoroutineType[Any, Any, T]"]:
    """Returns a method that runs a query on a namespace, its first argument."""

    async def method(access: SqlAccess, namespace: N, *args: P.args, **kwargs: P.kwargs) -> T:
        return await access.ask(namespace, lambda conn: question(conn, namespace, *args, **kwargs))

    return method
