"""What a change of the catalogue is, and those that carry out decisions: policies, holds, namespaces to delete."""

from collections.abc import Collection
from datetime import datetime
from typing import ClassVar, Generic, Protocol, TypeVar

from msgspec import Struct
from typing_extensions import override

from coatcheck.core.artifact import Gone
from coatcheck.core.policies.policy import Policy, PolicyScope, Rules
from coatcheck.core.policies.quota import Usage
from coatcheck.core.retention.audit import SCHEDULE, By, Hold, HoldConflict

Answer = TypeVar("Answer")
ROW_BYTES = 1024
"""About as much as a row takes with its indexes and its place in the log: weights only decide how many changes share a
transaction."""


class CatalogChange(Struct, Generic[Answer], frozen=True, kw_only=True):
    """A statement of what must become true; `Answer` is the type that its commit returns.

    A change of this base class touches rows of any namespace.
    """

    alone: ClassVar[bool] = True
    """Whether it needs a transaction of its own: it locks rows that are not known in advance, so sharing one could
    deadlock replicas."""
    deletes: ClassVar[bool] = False
    """Whether it removes artifacts, and so must respect holds."""
    takes_room: ClassVar[bool] = False
    """Whether it adds what callers send, which a full disk refuses; all else may use the reserve of space."""

    @property
    def only_namespace(self) -> str | None:
        """The only namespace whose rows it touches; None: any."""
        return None

    @property
    def weight(self) -> int:
        """Approximate number of bytes that it adds to its transaction."""
        return ROW_BYTES


class NamespaceChange(CatalogChange[Answer], frozen=True, kw_only=True):
    """A change of rows of one namespace."""

    alone: ClassVar[bool] = False

    namespace: str

    @property
    @override
    def only_namespace(self) -> str | None:
        return self.namespace


class BatchChange(CatalogChange[Answer], frozen=True, kw_only=True):
    """A change of as many rows as there are, up to a limit."""

    limit: int
    """Maximum rows of one transaction, so that it delays others little."""

    @property
    @override
    def weight(self) -> int:
        return (1 + self.limit) * ROW_BYTES


class NamespaceBatchChange(NamespaceChange[Answer], frozen=True, kw_only=True):
    """Like BatchChange, of rows of one namespace."""

    limit: int
    """See BatchChange."""

    @property
    @override
    def weight(self) -> int:
        return (1 + self.limit) * ROW_BYTES


class ArtifactChange(NamespaceChange[Answer], frozen=True, kw_only=True):
    """A change of one artifact whose number is known, so its row can be locked before others."""

    number: int


class Commits(Protocol):
    """Commits changes to the catalog."""

    async def commit(self, change: CatalogChange[Answer], /) -> Answer:
        """Carries out a change and returns its answer once it is durable; see the change's docstring.

        Changes may share a transaction; a failing one never affects the others.
        """
        ...


class DeleteNamespace(NamespaceBatchChange[int], frozen=True, kw_only=True):
    """Deletes up to `limit` artifacts of a marked namespace, live or expired. Returns how many.

    Held artifacts stay. The accounts of its sessions are deleted with the last artifacts.
    """

    alone: ClassVar[bool] = True
    deletes: ClassVar[bool] = True

    now: datetime
    tombstone_until: datetime
    """When the tombstones are deleted."""
    by: By = SCHEDULE


class MarkNamespace(CatalogChange[bool | HoldConflict], frozen=True, kw_only=True):
    """Marks a namespace as being deleted, so that nothing can be stored in it; or removes the mark.

    Returns `HoldConflict`, without marking, if a hold covers the namespace itself; otherwise whether this changed it.
    """

    namespace: str
    now: datetime
    deleting: bool
    """False removes the mark."""
    by: By = By()


class SetPolicy(CatalogChange[int | None], frozen=True, kw_only=True):
    """Creates a new version of a scope's policy; None removes it. Returns the version.

    Returns None if there is no policy to remove.
    """

    scope: PolicyScope
    policy: Policy | None
    """The whole policy: fields that it lacks are unset."""
    now: datetime
    by: By = By()


class PlaceHold(CatalogChange[bool | Gone | None], frozen=True, kw_only=True):
    """Places a hold. Once it is answered, no delete that was not answered before removes what it covers.

    Returns True; for an artifact that does not exist its tombstone, or None if it is unknown, and no hold is placed. An
    artifact that has expired but has no tombstone yet can be held.
    """

    hold: Hold
    by: By = By()


class ReleaseHold(CatalogChange[Hold | None], frozen=True, kw_only=True):
    """Releases a hold. Returns it, or None if the ID is unknown."""

    id: str
    namespace: str | None
    """Only a hold of this namespace; None: of any."""
    now: datetime
    by: By = By()


class Decisions(Commits, Protocol):
    """The catalogue for administrators: policies, holds, usage."""

    async def policy_version(self) -> int:
        """Returns the latest version of all policies; 0 if there never was one. Cheap: called every few seconds."""
        ...

    async def policies(self) -> tuple[int, Rules]:
        """Returns all policies in force, and their latest version."""
        ...

    async def policy_history(self, scope: PolicyScope, limit: int) -> list["PolicyVersion"]:
        """Returns the versions of a scope's policy, newest first."""
        ...

    async def holds(
        self, namespace: str | None, /, *, after: str = "", limit: int = 200, only: str | None = None
    ) -> list[Hold]:
        """Returns holds of a namespace or of all, including ended ones, by ID, starting after `after`.

        `only`: the one with this ID.
        """
        ...

    async def covering_holds(
        self, namespace: str, numbers: Collection[int], sessions: Collection[str], now: datetime, /
    ) -> list[Hold]:
        """Returns the holds in force at `now` that cover artifacts, sessions or the namespace, by ID.

        At most NAMED for each of them. One query, however many artifacts there are.
        """
        ...

    async def usages(self, namespace: str | None, /, *, after: str = "", limit: int = 200) -> list[Usage]:
        """Returns what namespaces hold, by name, starting after `after`."""
        ...

    async def list_marked_namespaces(self) -> list[Usage]:
        """Returns the namespaces that are being deleted."""
        ...


class PolicyVersion(Struct, frozen=True, kw_only=True):
    """A version of a scope's policy."""

    version: int
    """Counts versions of all scopes together, in the order of commits."""
    scope: PolicyScope
    policy: Policy | None
    """None: it was removed."""
    at: datetime
    by: str
    """Who changed it, as in the audit log."""
