"""Policies, holds, and namespaces that are to go."""

from datetime import datetime
from typing import ClassVar, Protocol

from msgspec import Struct
from typing_extensions import override

from coatcheck.core.artifact import Gone
from coatcheck.core.policies.policy import Policy, PolicyScope, Rules
from coatcheck.core.policies.quota import Usage
from coatcheck.core.retention.audit import SCHEDULE, By
from coatcheck.core.retention.holds import Hold, HoldConflict
from coatcheck.ports.change import ROW_BYTES, CatalogChange, Commits, NamespaceChange


class DeleteNamespace(NamespaceChange[int], frozen=True, kw_only=True):
    """Deletes up to `limit` artifacts of a marked namespace, live or expired. Returns how many.

    Artifacts that are held stay. The accounts of its sessions go, with the last artifacts the last of them.
    """

    alone: ClassVar[bool] = True
    deletes: ClassVar[bool] = True

    now: datetime
    tombstone_until: datetime
    limit: int
    by: By = SCHEDULE

    @property
    @override
    def weight(self) -> int:
        return (1 + self.limit) * ROW_BYTES


class MarkNamespace(CatalogChange[bool | HoldConflict], frozen=True, kw_only=True):
    """Mark a namespace as being deleted: from then on nothing is stored in it. Or take the mark away.

    Answers `HoldConflict` when a hold covers the namespace itself; then it is not marked. Otherwise whether this
    changed it.
    """

    namespace: str
    now: datetime
    deleting: bool
    by: By = By()


class SetPolicy(CatalogChange[int | None], frozen=True, kw_only=True):
    """Make a new version of a scope's policy, or with None remove it. Answers the version.

    Answers None when a removal finds no policy.
    """

    scope: PolicyScope
    policy: Policy | None
    now: datetime
    by: By = By()


class PlaceHold(CatalogChange[bool | Gone | None], frozen=True, kw_only=True):
    """Place a hold. When it is answered, no delete that has not been answered before removes what it covers.

    Answers True; for an artifact that is not there its tombstone, or None when it is unknown, and no hold is placed.
    An artifact that has expired and is not buried can be held.
    """

    hold: Hold
    by: By = By()


class ReleaseHold(CatalogChange[Hold | None], frozen=True, kw_only=True):
    """Release a hold. Answers it, or None when there is none of this ID."""

    id: str
    namespace: str | None
    """Only in this namespace; None: in any."""
    now: datetime
    by: By = By()


class Decisions(Commits, Protocol):
    """The catalogue as administrators see it: policies, holds, usage."""

    async def policy_version(self) -> int:
        """The last version of all; 0 when there never was a policy. Cheap: asked every few seconds."""
        ...

    async def policies(self) -> tuple[int, Rules]:
        """All policies that hold, and their last version."""
        ...

    async def policy_history(self, scope: PolicyScope, limit: int) -> list["PolicyVersion"]:
        """The versions of a scope's policy, newest first."""
        ...

    async def holds(self, namespace: str | None, /, *, after: str = "", limit: int = 200) -> list[Hold]:
        """Holds of a namespace or of all, by ID behind one; those whose time is over are among them."""
        ...

    async def usages(self, namespace: str | None, /, *, after: str = "", limit: int = 200) -> list[Usage]:
        """What namespaces hold, by name behind one."""
        ...

    async def marked_namespaces(self) -> list[Usage]:
        """The namespaces that are being deleted."""
        ...


class PolicyVersion(Struct, frozen=True, kw_only=True):
    """A version of a scope's policy."""

    version: int
    scope: PolicyScope
    policy: Policy | None
    """None: it was removed."""
    at: datetime
    by: str
