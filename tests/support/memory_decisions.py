"""Decisions of administrators in memory, for faces without a database: policies, holds and what a namespace holds."""

from datetime import datetime
from typing import Any

from coatcheck.core.holds import Hold, HoldConflict
from coatcheck.core.policy import Policy, PolicyScope, Rules
from coatcheck.core.quota import Usage
from coatcheck.ports.change import CatalogChange
from coatcheck.ports.decisions import DeleteNamespace, MarkNamespace, PlaceHold, PolicyVersion, ReleaseHold, SetPolicy


class MemoryDecisions:
    """The port of decisions. It knows no artifacts: whatever is to be held can be held, and nothing is deleted."""

    def __init__(self) -> None:
        self.versions: list[PolicyVersion] = []
        self.kept: dict[str, Hold] = {}
        self.marks: dict[str, datetime] = {}

    async def commit(self, change: CatalogChange[Any], /) -> Any:  # noqa: ANN401 - the change's own answer
        match change:
            case SetPolicy():
                return self._set_policy(change)
            case PlaceHold():
                self.kept[change.hold.id] = change.hold
                return True
            case ReleaseHold():
                return self._release_hold(change)
            case MarkNamespace():
                return self._mark_namespace(change)
            case DeleteNamespace():
                return 0
            case _:
                raise NotImplementedError(type(change))

    def _set_policy(self, change: SetPolicy) -> int | None:
        before = self._current().get(change.scope)
        if change.policy is None and before is None:
            return None
        version = len(self.versions) + 1
        self.versions.append(
            PolicyVersion(version=version, scope=change.scope, policy=change.policy, at=change.now, by=change.by.actor)
        )
        return version

    async def policy_version(self) -> int:
        return len(self.versions)

    async def policies(self) -> tuple[int, Rules]:
        return len(self.versions), Rules(self._current())

    async def policy_history(self, scope: PolicyScope, limit: int) -> list[PolicyVersion]:
        return [version for version in reversed(self.versions) if version.scope == scope][:limit]

    def _release_hold(self, change: ReleaseHold) -> Hold | None:
        hold = self.kept.get(change.id)
        if hold is None or change.namespace not in {None, hold.namespace}:
            return None
        return self.kept.pop(change.id)

    async def holds(self, namespace: str | None, *, after: str = "", limit: int = 200) -> list[Hold]:
        found = [self.kept[name] for name in sorted(self.kept) if name > after]
        return [hold for hold in found if namespace in {None, hold.namespace}][:limit]

    async def usages(self, namespace: str | None, *, after: str = "", limit: int = 200) -> list[Usage]:
        known = [Usage(namespace="default", deleting_at=self.marks.get("default"))]
        return [usage for usage in known if namespace in {None, usage.namespace} and usage.namespace > after][:limit]

    def _mark_namespace(self, change: MarkNamespace) -> bool | HoldConflict:
        whole = tuple(h.id for h in self.kept.values() if h.session is None and h.number is None)
        if change.deleting and whole:
            return HoldConflict(whole)
        self.marks.pop(change.namespace, None)
        if change.deleting:
            self.marks[change.namespace] = change.now
        return True

    async def marked_namespaces(self) -> list[Usage]:
        return [Usage(namespace=name, deleting_at=at) for name, at in self.marks.items()]

    def _current(self) -> dict[PolicyScope, Policy]:
        last = {version.scope: version.policy for version in self.versions}
        return {scope: policy for scope, policy in last.items() if policy is not None}
