"""Change how long an artifact is kept, its pin and its labels. What was declared about its payload stays."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from msgspec import UNSET, UnsetType

from coatcheck.core.artifact import Artifact, Caller, Gone
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.core.keys import ADMIN
from coatcheck.core.policies.policy import NO_RULES, Rules, check_idle_ttl, resolve_terms
from coatcheck.ports.artifacts import PatchArtifact
from coatcheck.ports.catalog import Catalog, FoundArtifact
from coatcheck.ports.telemetry import Clock
from coatcheck.storing.fallback_buffer import FallbackBuffer
from coatcheck.storing.find import gone_error, not_found, require_seen
from coatcheck.storing.redaction import RedactionPolicy


@dataclass(frozen=True)
class Extend:
    """Changes an artifact's expiry, pin and labels."""

    catalog: Catalog
    clock: Clock
    fallback: FallbackBuffer
    redacting: RedactionPolicy
    rules: Callable[[], Rules] = lambda: NO_RULES
    """Returns the current policies."""

    async def __call__(
        self,
        caller: Caller,
        number: int,
        *,
        ttl: int | None | UnsetType = UNSET,
        idle_ttl: int | None | UnsetType = UNSET,
        pinned: bool | UnsetType = UNSET,
        labels: tuple[str, ...] | UnsetType = UNSET,
    ) -> Artifact:
        """Changes the given fields and leaves unset ones; returns the artifact as it is now.

        A `ttl` over the policy's `max_ttl` is cut to it. An administrator brings back what has expired and is held.

        Raises:
            CoatcheckError: `artifact_gone`, `artifact_not_found`, `invalid_request` (an idle TTL under a minute),
                `storage_unavailable` (it waits to be stored).
        """
        if idle_ttl is not UNSET:
            check_idle_ttl(idle_ttl)
        now = self.clock.now()
        # A caller bound to sessions learns nothing of artifacts outside them, not even that they exist.
        await require_seen(self.catalog, self.fallback, caller, number, now)
        # It has no row yet, and the change that will create it is fixed.
        if self.fallback.find(caller.namespace, number, now) is not None:
            raise CoatcheckError(
                Code.STORAGE_UNAVAILABLE,
                "The artifact is still waiting to be stored, and cannot change before that. Retry the same call.",
            )
        answer = await self.catalog.commit(
            PatchArtifact(
                namespace=caller.namespace,
                number=number,
                now=now,
                revive=ADMIN in caller.scopes,
                ttl=await self._within(caller, number, now, ttl),
                idle_ttl=idle_ttl,
                pinned=pinned,
                labels=labels,
            )
        )
        if answer is None:
            raise not_found()
        if isinstance(answer, Gone):
            raise gone_error(answer)
        return self.redacting.mask_listed_artifact(answer)

    async def _within(
        self, caller: Caller, number: int, now: datetime, ttl: int | None | UnsetType
    ) -> int | None | UnsetType:
        """Returns the requested time, cut to what the artifact's policy allows."""
        rules = self.rules()
        if ttl is UNSET or not rules:
            return ttl
        entry = await self.catalog.find(caller.namespace, number, now)
        # Of what is not live, an expired artifact that is held for example, only the namespace is known here: its own
        # limit applies.
        if not isinstance(entry, FoundArtifact):
            policy = rules.effective(caller.namespace)
        else:
            policy = rules.of_payload(caller.namespace, entry.artifact.declared, entry.artifact.facts.kind)
        return resolve_terms(policy, ttl=ttl, idle_ttl=UNSET, otherwise=0).ttl
