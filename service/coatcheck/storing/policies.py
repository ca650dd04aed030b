"""Administrators' policies: set, removed, listed and explained, and available wherever they apply.

Look-ups are answered from memory. The process that makes a change knows it when it answers; others learn of it within
REFRESH_SECONDS, by querying the latest version's number. While the catalogue is silent, the known policies stay in
force. Crash story: a change is one transaction, including its line in the audit log.
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
"""Seconds between two queries for new policies. Five seconds are documented: queries take time."""
HISTORY: Final = 100
"""Versions of one scope that are listed."""


class EffectivePolicy(NamedTuple):
    """What applies to a payload, and which scope decides it."""

    policy: Policy
    sources: dict[str, PolicySource]
    """By field of the policy."""


class Policies:
    """Sets, removes, lists and explains policies, and keeps them in memory for look-ups."""

    def __init__(self, decisions: Decisions, clock: Clock) -> None:
        """There are no policies until `refresh` loads them."""
        self._decisions = decisions
        self._clock = clock
        self._version = 0
        self.rules: Rules = NO_RULES
        """All policies, as this process knows them. Replaced whole, never changed."""

    def now(self) -> Rules:
        """Returns all policies, as this process knows them now."""
        return self.rules

    async def refresh(self) -> None:
        """Loads new policies.

        Raises:
            CoatcheckError: `storage_unavailable`; the known policies stay.
        """
        # One number says whether the policies, which may be many, must be read again.
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
        """Returns what applies to a payload described so far; see `Rules.effective`. Never waits."""
        return self.rules.effective(namespace, session=session, kind=kind, tool_name=tool_name, labels=labels)

    def room(self, namespace: str) -> QuotaLimits | None:
        """Returns the quota of a namespace; None: unlimited."""
        return room_of(self.rules.effective(namespace)) if self.rules else None

    def evicts(self, namespace: str) -> bool:
        """Returns whether a namespace, when full, evicts what was read least recently."""
        return bool(self.rules) and value_or(self.rules.effective(namespace).evict, "off") != "off"

    @property
    def evicts_anywhere(self) -> bool:
        """Returns whether any namespace does."""
        return any(value_or(policy.evict, "off") != "off" for _, policy in self.rules.all())

    def tombstone_life(self, namespace: str, otherwise: timedelta) -> timedelta:
        """Returns how long tombstones of a namespace last."""
        seconds = value_or(self.rules.effective(namespace).tombstone_ttl, None)
        return otherwise if seconds is None else timedelta(seconds=seconds)

    def tombstone_lives(self, otherwise: timedelta) -> tuple[timedelta, dict[str, timedelta]]:
        """Returns the lifetime of tombstones by default, and that of each namespace with its own."""
        spaces = {scope.namespace for scope, policy in self.rules.all() if isinstance(policy.tombstone_ttl, int)}
        # The scope of all namespaces is in there under its own name, and becomes the default.
        own = {space: self.tombstone_life(space, otherwise) for space in spaces}
        return own.pop(EVERYWHERE, otherwise), own

    async def set(self, caller: Caller, scope: PolicyScope, policy: Policy) -> int:
        """Sets the policy of a scope, replacing its present one; returns the new version.

        Raises:
            CoatcheckError: `invalid_request` for an invalid policy; `forbidden` for a namespace other than the key's,
                and for all of them with a key of one.
        """
        _allow(caller, scope)
        check(scope, policy)
        version = await self._decisions.commit(
            SetPolicy(scope=scope, policy=policy, now=self._clock.now(), by=By.of(caller))
        )
        # Before the answer, so that the administrator's next request to this process already follows it.
        await self.refresh()
        return version or 0

    async def remove(self, caller: Caller, scope: PolicyScope) -> int:
        """Removes the policy of a scope; returns the new version.

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
        """Returns the latest version, and all policies that may concern a namespace: its own, and those of all.

        An administrator of all namespaces who names none gets all policies.

        Raises:
            CoatcheckError: `forbidden`.
        """
        only = resolve_listed(caller, namespace)
        version, rules = await self._decisions.policies()
        return version, [each for each in rules.all() if only is None or each[0].namespace in {only, EVERYWHERE}]

    async def show(self, caller: Caller, scope: PolicyScope) -> list[PolicyVersion]:
        """Returns the versions of a scope's policy, newest first.

        Raises:
            CoatcheckError: `policy_not_found` if there never was one; `forbidden`.
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
        """Returns what would apply to such a payload, and which scope decides each part of it.

        Raises:
            CoatcheckError: `forbidden`, `invalid_request`.
        """
        space = resolve_administered(caller, namespace)
        # From the catalogue: the policies in memory may be REFRESH_SECONDS old, and whoever set one just now wants to
        # see it.
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
