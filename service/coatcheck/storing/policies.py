"""Sets, removes, lists and explains administrators' policies, and answers look-ups of the policy for a payload.

Look-ups are answered from memory. A process that changes a policy applies the new version before it answers the change.
Other processes query the number of the latest version every REFRESH_SECONDS, and load the policies if it has changed.
While the catalogue does not respond, the loaded policies stay in force. Crash story: a change and its line in the audit
log are one transaction.
"""

import logging
from collections.abc import Iterable
from datetime import timedelta
from typing import Final, NamedTuple

from coatcheck.core.artifact import Caller
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.core.keys import require_everywhere, resolve_administered, resolve_listed
from coatcheck.core.policies.policy import (
    EVERYWHERE,
    NO_RULES,
    Policy,
    PolicyScope,
    PolicySource,
    Rules,
    check,
    value_or,
)
from coatcheck.core.policies.quota import QuotaLimits, room_of
from coatcheck.core.retention.audit import By
from coatcheck.ports.decisions import Decisions, PolicyVersion, SetPolicy
from coatcheck.ports.telemetry import Clock

log = logging.getLogger(__name__)

REFRESH_SECONDS: Final = 2.0
"""Seconds between two queries for new policies. The documentation says five seconds, because a query takes time."""
HISTORY: Final = 100
"""Maximum number of versions of one scope that are listed."""


class EffectivePolicy(NamedTuple):
    """The policy that applies to a payload, and the scope from which each of its fields comes."""

    policy: Policy
    sources: dict[str, PolicySource]
    """The sources, by name of the policy's field."""


class Policies:
    """Sets, removes, lists and explains policies, and keeps them in memory for look-ups."""

    def __init__(self, decisions: Decisions, clock: Clock) -> None:
        """Loads nothing: until `refresh` is called, there are no policies."""
        self._decisions = decisions
        self._clock = clock
        self._version = 0
        self.rules: Rules = NO_RULES
        """All policies that this process has loaded. A refresh replaces the object and never changes it."""

    def now(self) -> Rules:
        """Returns all policies that this process has loaded."""
        return self.rules

    async def refresh(self) -> None:
        """Loads all policies if any of them has changed.

        Raises:
            CoatcheckError: `storage_unavailable`; then the loaded policies stay in force.
        """
        # There may be many policies, so the number of the latest version decides whether they are read again.
        if await self._decisions.policy_version() != self._version:
            self._version, self.rules = await self._decisions.policies()
            log.info("policies: version %d", self._version)

    def effective(
        self,
        namespace: str,
        session: str | None = None,
        kind: str | None = None,
        tool_name: str | None = None,
        labels: Iterable[str] = (),
    ) -> Policy:
        """Returns the policy for a payload with these properties, from memory.

        `Rules.effective` explains how the policies of several scopes are merged.
        """
        return self.rules.effective(namespace, session=session, kind=kind, tool_name=tool_name, labels=labels)

    def room(self, namespace: str) -> QuotaLimits | None:
        """Returns the quota of a namespace; None: unlimited."""
        return room_of(self.rules.effective(namespace)) if self.rules else None

    def evicts(self, namespace: str) -> bool:
        """Returns whether a namespace, when it is full, evicts the artifacts that were read least recently."""
        return bool(self.rules) and value_or(self.rules.effective(namespace).evict, "off") != "off"

    @property
    def evicts_anywhere(self) -> bool:
        """Whether any policy makes a full namespace evict artifacts."""
        return any(value_or(policy.evict, "off") != "off" for _, policy in self.rules.all())

    def tombstone_life(self, namespace: str, otherwise: timedelta) -> timedelta:
        """Returns how long tombstones of a namespace last; `otherwise` if no policy sets it."""
        seconds = value_or(self.rules.effective(namespace).tombstone_ttl, None)
        return otherwise if seconds is None else timedelta(seconds=seconds)

    def tombstone_lives(self, otherwise: timedelta) -> tuple[timedelta, dict[str, timedelta]]:
        """Returns how long tombstones last by default, and by name for each namespace whose policy sets it.

        The default is `otherwise`, unless the policy for all namespaces sets another duration.
        """
        spaces = {scope.namespace for scope, policy in self.rules.all() if isinstance(policy.tombstone_ttl, int)}
        # The scope of all namespaces is one of these, under the name EVERYWHERE. Its duration becomes the default.
        own = {space: self.tombstone_life(space, otherwise) for space in spaces}
        return own.pop(EVERYWHERE, otherwise), own

    async def set(self, caller: Caller, scope: PolicyScope, policy: Policy) -> int:
        """Sets the policy of a scope, and replaces its present policy; returns the number of the new version.

        Raises:
            CoatcheckError: `invalid_request` for an invalid policy; `forbidden` if the caller's key is for one
                namespace, and the scope is in another one or covers all namespaces.
        """
        _allow(caller, scope)
        check(scope, policy)
        version = await self._decisions.commit(
            SetPolicy(scope=scope, policy=policy, now=self._clock.now(), by=By.of(caller))
        )
        # The policies are loaded before the answer, so that the administrator's next request to this process already
        # follows the new one.
        await self.refresh()
        return version or 0

    async def remove(self, caller: Caller, scope: PolicyScope) -> int:
        """Removes the policy of a scope; returns the number of the version that records the removal.

        Raises:
            CoatcheckError: `policy_not_found`, `forbidden`.
        """
        _allow(caller, scope)
        version = await self._decisions.commit(
            SetPolicy(scope=scope, policy=None, now=self._clock.now(), by=By.of(caller))
        )
        if version is None:
            raise not_found(scope)
        await self.refresh()
        return version

    async def current(self, caller: Caller, namespace: str | None) -> tuple[int, list[tuple[PolicyScope, Policy]]]:
        """Returns the latest version's number, and the policies that can apply in a namespace.

        These are the policies of the namespace and those for all namespaces. An administrator of all namespaces who
        names no namespace gets all policies.

        Raises:
            CoatcheckError: `forbidden`.
        """
        only = resolve_listed(caller, namespace)
        version, rules = await self._decisions.policies()
        return version, [each for each in rules.all() if only is None or each[0].namespace in {only, EVERYWHERE}]

    async def show(self, caller: Caller, scope: PolicyScope) -> list[PolicyVersion]:
        """Returns the versions of a scope's policy, newest first.

        Raises:
            CoatcheckError: `policy_not_found` if the scope never had a policy; `forbidden`.
        """
        if scope.namespace != EVERYWHERE:
            resolve_administered(caller, scope.namespace)
        versions = await self._decisions.policy_history(scope, HISTORY)
        if not versions:
            raise not_found(scope)
        return versions

    async def explain(
        self,
        caller: Caller,
        namespace: str | None,
        *,
        session: str | None = None,
        kind: str | None = None,
        tool_name: str | None = None,
        labels: tuple[str, ...] = (),
    ) -> EffectivePolicy:
        """Returns the policy that would apply to a payload with these properties, and the scope of each of its fields.

        Raises:
            CoatcheckError: `forbidden`, `invalid_request`.
        """
        space = resolve_administered(caller, namespace)
        # The policies are read from the catalogue, because those in memory may be REFRESH_SECONDS old. An administrator
        # who has just set a policy wants to see its effect.
        _, rules = await self._decisions.policies()
        policy = rules.effective(space, session=session, kind=kind, tool_name=tool_name, labels=labels)
        sources = rules.explain(space, session=session, kind=kind, tool_name=tool_name, labels=labels)
        return EffectivePolicy(policy, sources)


def not_found(scope: PolicyScope) -> CoatcheckError:
    """Returns the error for a scope without a policy."""
    return CoatcheckError(
        Code.POLICY_NOT_FOUND, f"There is no policy for {scope}. List the policies to see which scopes have one."
    )


def _allow(caller: Caller, scope: PolicyScope) -> None:
    if scope.namespace == EVERYWHERE:
        require_everywhere(caller)
    else:
        resolve_administered(caller, scope.namespace)
