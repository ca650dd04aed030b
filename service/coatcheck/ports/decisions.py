"""The base classes of all changes of the catalogue, and the changes that carry out an administrator's decisions.

Administrators set policies, place holds and delete namespaces.
"""

from collections.abc import Mapping
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
"""Approximate bytes of a row, with its indexes and its part of the database's log. An estimate is enough, because
weights only decide how many changes share a transaction."""


class CatalogChange(Struct, Generic[Answer], frozen=True, kw_only=True):
    """A change of the catalogue: a value that describes the wanted state; `Answer` is the type that its commit returns.

    A change of this base class may touch rows of any namespace.
    """

    alone: ClassVar[bool] = True
    """Whether the change needs a transaction of its own. It does if it locks rows that are not known in advance: in a
    shared transaction, such locks could deadlock replicas."""
    deletes: ClassVar[bool] = False
    """Whether the change removes artifacts, and so must respect holds."""
    takes_room: ClassVar[bool] = False
    """Whether the change adds data that callers send. A full disk refuses such a change; all others may use the reserve
    of disk space."""

    @property
    def only_namespace(self) -> str | None:
        """The only namespace whose rows the change touches; None: the change may touch rows of any namespace."""
        return None

    @property
    def weight(self) -> int:
        """Approximate number of bytes that the change adds to its transaction."""
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
    """A change of many rows, of which one transaction changes at most `limit`. Callers repeat it for the rest."""

    limit: int
    """Maximum number of rows that one transaction changes, so that other transactions are delayed little."""

    @property
    @override
    def weight(self) -> int:
        return (1 + self.limit) * ROW_BYTES


class NamespaceBatchChange(NamespaceChange[Answer], frozen=True, kw_only=True):
    """Like BatchChange, but for rows of one namespace."""

    limit: int
    """Maximum number of rows that one transaction changes, as in BatchChange."""

    @property
    @override
    def weight(self) -> int:
        return (1 + self.limit) * ROW_BYTES


class ArtifactChange(NamespaceChange[Answer], frozen=True, kw_only=True):
    """A change of one artifact whose number is known, so that its row can be locked before all other rows."""

    number: int


class Commits(Protocol):
    """Commits changes to the catalogue."""

    async def commit(self, change: CatalogChange[Answer], /) -> Answer:
        """Carries out a change, and returns its answer once the change is durable. Each change documents its answer.

        Changes may share a transaction. A change that fails never affects the others.
        """
        ...


class DeleteNamespace(NamespaceBatchChange[int], frozen=True, kw_only=True):
    """Deletes up to `limit` artifacts, live or expired, of a namespace marked for deletion. Returns their number.

    Held artifacts stay. The accounts of the namespace's sessions are deleted with its last artifacts.
    """

    alone: ClassVar[bool] = True
    deletes: ClassVar[bool] = True

    now: datetime
    tombstone_until: datetime
    """When the tombstones are deleted."""
    by: By = SCHEDULE


class MarkNamespace(CatalogChange[bool | HoldConflict], frozen=True, kw_only=True):
    """Marks a namespace for deletion, so that nothing can be stored in it; or removes the mark.

    If a hold covers the namespace itself, sets no mark and returns `HoldConflict`. Otherwise returns whether the mark
    was set or removed by this change.
    """

    namespace: str
    now: datetime
    deleting: bool
    """Whether to set the mark; false removes it."""
    by: By = By()


class SetPolicy(CatalogChange[int | None], frozen=True, kw_only=True):
    """Creates a new version of a scope's policy, or removes the policy. Returns the number of the new version.

    Returns None if there is no policy to remove.
    """

    scope: PolicyScope
    policy: Policy | None
    """The whole policy: fields that are not set in it are unset afterwards. None removes the policy."""
    now: datetime
    by: By = By()


class PlaceHold(CatalogChange[bool | Gone | None], frozen=True, kw_only=True):
    """Places a hold, and returns True. After this answer, no deletion removes artifacts that the hold covers.

    A covered artifact can be gone only if its deletion was answered before the hold. If the hold is for an artifact
    that does not exist, no hold is placed: the change returns the artifact's tombstone, or None if the artifact is
    unknown. An artifact that has expired but has no tombstone yet can be held.
    """

    hold: Hold
    by: By = By()


class ReleaseHold(CatalogChange[Hold | None], frozen=True, kw_only=True):
    """Releases a hold. Returns the hold, or None if its ID is unknown."""

    id: str
    namespace: str | None
    """The namespace that the hold must belong to; None: any namespace."""
    now: datetime
    by: By = By()


class Decisions(Commits, Protocol):
    """The queries of the catalogue for administrators: policies, holds, usage."""

    async def policy_version(self) -> int:
        """Returns the latest version number of all policies; 0 if no policy was ever set.

        The query must be cheap, because every process makes it every few seconds.
        """
        ...

    async def policies(self) -> tuple[int, Rules]:
        """Returns the latest version number, and all policies in force."""
        ...

    async def policy_history(self, scope: PolicyScope, limit: int) -> list["PolicyVersion"]:
        """Returns up to `limit` versions of a scope's policy, newest first."""
        ...

    async def holds(
        self, namespace: str | None, /, *, after: str = "", limit: int = 200, only: str | None = None
    ) -> list[Hold]:
        """Returns holds in order of ID, starting after the ID `after`, including holds that have ended.

        A `namespace` of None means the holds of all namespaces. `only` restricts the answer to the hold with this ID.
        """
        ...

    async def covering_holds(
        self, namespace: str, sessions: Mapping[int, str | None], now: datetime, /
    ) -> dict[int, list[Hold]]:
        """Returns by number the holds in force at `now` that cover each artifact, in order of ID.

        It returns at most MAX_NAMED_HOLDS for each. `sessions` has the artifacts' numbers, each with the session of an
        artifact that is not stored yet; a stored artifact's session is read from the catalogue. It makes two queries,
        however many artifacts there are.
        """
        ...

    async def usages(self, namespace: str | None, /, *, after: str = "", limit: int = 200) -> list[Usage]:
        """Returns how many artifacts and bytes namespaces hold, in order of name, starting after the name `after`.

        A `namespace` of None means all namespaces.
        """
        ...

    async def list_marked_namespaces(self) -> list[Usage]:
        """Returns the namespaces that are marked for deletion, and what each of them holds."""
        ...


class PolicyVersion(Struct, frozen=True, kw_only=True):
    """A version of a scope's policy."""

    version: int
    """The version's number. One sequence counts the versions of all scopes, in the order of commits."""
    scope: PolicyScope
    policy: Policy | None
    """The policy from this version on; None: the policy was removed."""
    at: datetime
    by: str
    """Name of the caller who changed the policy, as in the audit log."""
