"""Show administrators what namespaces hold, and how much their policies let them hold."""

from typing import NamedTuple

from coatcheck.core.artifact import Caller
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.core.keys import is_everywhere, resolve_administered
from coatcheck.core.policies.policy import value_or
from coatcheck.core.policies.quota import QuotaLimits, Usage
from coatcheck.ports.decisions import Decisions
from coatcheck.storing.policies import Policies

MAX_PAGE = 200


class NamespaceUsage(NamedTuple):
    """How much one namespace holds, and its limits."""

    usage: Usage
    room: QuotaLimits
    evict: str


class UsagePage(NamedTuple):
    """Part of the list; `after` continues it."""

    items: list[NamespaceUsage]
    after: str | None


class ShowUsage:
    """Lists how much each namespace holds."""

    def __init__(self, decisions: Decisions, policies: Policies) -> None:
        self._decisions = decisions
        self._policies = policies

    async def __call__(self, caller: Caller, namespace: str | None, *, after: str | None, limit: int) -> UsagePage:
        """Returns namespaces by name; all of them if the caller administers all and names none.

        Raises:
            CoatcheckError: `forbidden`, `invalid_request`.
        """
        if not 1 <= limit <= MAX_PAGE:
            raise CoatcheckError(Code.INVALID_REQUEST, f"limit must be 1 to {MAX_PAGE}, not {limit}.", limit=limit)
        only = None if namespace is None and is_everywhere(caller) else resolve_administered(caller, namespace)
        usages = await self._decisions.usages(only, after=after or "", limit=limit + 1)
        if only is not None and not usages and not after:
            usages = [Usage(namespace=only)]
        items = [self._line(usage) for usage in usages[:limit]]
        return UsagePage(items, usages[limit - 1].namespace if len(usages) > limit else None)

    def _line(self, usage: Usage) -> NamespaceUsage:
        policy = self._policies.effective(usage.namespace)
        room = QuotaLimits(value_or(policy.max_bytes, None), value_or(policy.max_artifacts, None))
        return NamespaceUsage(usage, room, value_or(policy.evict, "off"))
