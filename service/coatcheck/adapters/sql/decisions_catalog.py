"""The port of administrators' decisions in SQL, whatever the database: policies, holds, usage, namespaces that go."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, TypeVar, cast

from sqlalchemy import Connection, select

from coatcheck.adapters.sql.change_group import Work
from coatcheck.adapters.sql.changes import evict, holds, namespaces, policies
from coatcheck.adapters.sql.tables import usage
from coatcheck.core.artifact import Gone
from coatcheck.core.holds import Hold, HoldConflict
from coatcheck.core.policy import PolicyScope, Rules
from coatcheck.core.quota import Usage
from coatcheck.ports.decisions import DeleteNamespace, MarkNamespace, PlaceHold, PolicyVersion, ReleaseHold, SetPolicy

C = TypeVar("C")
T = TypeVar("T")
_WEIGHT = 1024


class SqlDecisions(ABC):
    """Decisions over a way to commit changes and a way to ask questions."""

    @abstractmethod
    async def _commit(self, work: Work) -> object:
        """The answer of a change, once it is durable."""

    @abstractmethod
    async def _ask(self, namespace: str | None, question: Callable[[Connection], T]) -> T:
        """The answer to a question about a namespace; None: about all of them."""

    async def set_policy(self, change: SetPolicy) -> int | None:
        """Make a version of a policy."""
        return await self._decide(policies.apply_set, change)

    async def policy_version(self) -> int:
        """The last version of all."""
        return await self._ask(None, policies.last_version)

    async def policies(self) -> tuple[int, Rules]:
        """All policies that hold."""
        return await self._ask(None, policies.current)

    async def policy_history(self, scope: PolicyScope, limit: int) -> list[PolicyVersion]:
        """The versions of a scope's policy."""
        return await self._ask(None, lambda conn: policies.history(conn, scope, limit))

    async def place_hold(self, change: PlaceHold) -> bool | Gone | None:
        """Place a hold."""
        return await self._decide(holds.apply_place, change)

    async def release_hold(self, change: ReleaseHold) -> Hold | None:
        """Release a hold."""
        return await self._decide(holds.apply_release, change)

    async def holds(self, namespace: str | None, *, after: str = "", limit: int = 200) -> list[Hold]:
        """Holds, by ID."""
        return await self._ask(namespace, lambda conn: holds.list_holds(conn, namespace, after, limit))

    async def usages(self, namespace: str | None, *, after: str = "", limit: int = 200) -> list[Usage]:
        """What namespaces hold, by name."""
        wanted = select(*usage.c).where(usage.c.namespace > after).order_by(usage.c.namespace).limit(limit)
        if namespace is not None:
            wanted = wanted.where(usage.c.namespace == namespace)
        return await self._ask(namespace, lambda conn: [usage_from(row) for row in conn.execute(wanted)])

    async def mark_namespace(self, change: MarkNamespace) -> bool | HoldConflict:
        """Begin or end a namespace's deletion."""
        return await self._decide(namespaces.apply_mark, change)

    async def delete_namespace(self, change: DeleteNamespace) -> int:
        """Bury a batch of a namespace."""
        work = Work(evict.apply_delete_namespace, change, change.namespace, change.limit * _WEIGHT)
        return cast("int", await self._commit(work))

    async def marked_namespaces(self) -> list[Usage]:
        """The namespaces that are being deleted."""
        marked = select(*usage.c).where(usage.c.deleting_at.is_not(None)).order_by(usage.c.namespace)
        return await self._ask(None, lambda conn: [usage_from(row) for row in conn.execute(marked)])

    async def _decide(self, apply: Callable[[Connection, C], T], change: C) -> T:
        """Carry out a change that is for no one namespace, or whose row is looked at by all."""
        return cast("T", await self._commit(Work(apply, change, None, _WEIGHT)))


def usage_from(row: Any) -> Usage:  # noqa: ANN401 - a row of `usage`
    """What a namespace holds, from its row."""
    return Usage(**{name: getattr(row, name) for name in Usage.__struct_fields__})
