"""Show administrators what namespaces hold, and how much their policies let them hold."""

from typing import NamedTuple

from coatcheck.core.artifact import Caller
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.core.keys import administered, is_everywhere
from coatcheck.core.policies.policy import said
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
        only = None if namespace is None and is_everywhere(caller) else administered(caller, namespace)
        found = await self._decisions.usages(only, after=after or "", limit=limit + 1)
        if only is not None and not found and not after:
            found = [Usage(namespace=only)]
        items = [self._line(usage) for usage in found[:limit]]
        return UsagePage(items, found[limit - 1].namespace if len(found) > limit else None)

    def _line(self, usage: Usage) -> NamespaceUsage:
        policy = self._policies.effective(usage.namespace)
        room = QuotaLimits(said(policy.max_bytes, None), said(policy.max_artifacts, None))
        return NamespaceUsage(usage, room, said(policy.evict, "off"))
