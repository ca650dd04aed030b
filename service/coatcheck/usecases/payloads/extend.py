"""Change how long an artifact is kept, its pin and its labels. Its other declared metadata stays unchanged."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from coatcheck.core.artifact import Artifact, Caller, DeclaredMetadata, Gone, Kind
from coatcheck.core.keys import ADMIN
from coatcheck.core.policies.policy import NO_RULES, Rules, check_idle_ttl, value_or
from coatcheck.ports.artifacts import PatchArtifact
from coatcheck.ports.catalog import Catalog, FoundArtifact
from coatcheck.ports.telemetry import Clock
from coatcheck.storing.fallback_buffer import FallbackBuffer
from coatcheck.storing.find import gone_error, not_found, require_seen, still_waiting
from coatcheck.storing.ledger import NoteReads
from coatcheck.storing.redaction import RedactionPolicy


@dataclass(frozen=True)
class Extend:
    """Changes an artifact's expiry, pin and labels."""

    catalog: Catalog
    clock: Clock
    fallback: FallbackBuffer
    redacting: RedactionPolicy
    note: NoteReads
    """Writes reads, which may have kept an artifact alive that has expired by its row."""
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
        """Changes the fields that are given, and returns the artifact as it is now; unset fields stay as they are.

        If the caller is an administrator, an artifact that has expired but still exists because of a hold becomes live
        again.

        Args:
            caller: the caller.
            number: number of the artifact.
            ttl: seconds from the artifact's creation until it expires; None: the artifact does not expire by age. A
                TTL over the policy's `max_ttl` is reduced to that, but not below the artifact's present TTL.
            idle_ttl: seconds without a read after which the artifact expires, at least 60; None: no such expiry.
            pinned: whether the artifact's expiry is suspended.
            labels: the new labels, which replace the old ones. If the policy keeps secrets from being stored, secrets
                in them are masked or refused, as when a payload is stored.

        Raises:
            CoatcheckError: `artifact_gone`; `artifact_not_found`; `invalid_request` for an idle TTL under a minute;
                `secret_refused` for labels with a secret that the policy refuses; `storage_unavailable`, also while the
                artifact still waits in memory to be stored; `storage_full`.
        """
        if idle_ttl is not UNSET:
            check_idle_ttl(idle_ttl)
        now = self.clock.now()
        # A caller who is bound to sessions must not even learn that an artifact of another session exists.
        await require_seen(self.catalog, self.fallback, caller, number, now)
        # A payload in the fallback buffer has no row yet that could change, and the change that stores it is fixed.
        if self.fallback.find(caller.namespace, number, now) is not None:
            raise still_waiting()

        async def change() -> Artifact | Gone | None:
            return await self.catalog.commit(
                PatchArtifact(
                    namespace=caller.namespace,
                    number=number,
                    now=now,
                    revive=ADMIN in caller.scopes,
                    ttl=ttl,
                    max_ttl=None if ttl is UNSET else await self._max_ttl(caller, number, now),
                    idle_ttl=idle_ttl,
                    pinned=pinned,
                    labels=await self._storable(caller, number, now, labels),
                )
            )

        answer = await self.note.make_change(caller.namespace, number, change)
        if answer is None:
            raise not_found()
        if isinstance(answer, Gone):
            raise gone_error(answer)
        return self.redacting.mask_listed_artifact(answer)

    async def _max_ttl(self, caller: Caller, number: int, now: datetime) -> int | None:
        """Returns the maximum TTL of the artifact's policy; None: it sets none."""
        rules = self.rules()
        if not rules:
            return None
        declared, kind = await self._metadata(caller, number, now)
        return value_or(rules.of_payload(caller.namespace, declared, kind).max_ttl, None)

    async def _storable(
        self, caller: Caller, number: int, now: datetime, labels: tuple[str, ...] | UnsetType
    ) -> tuple[str, ...] | UnsetType:
        """Returns the requested labels as the artifact's policy lets them be stored."""
        if not labels or self.redacting.never:
            return labels
        declared, kind = await self._metadata(caller, number, now)
        return self.redacting.resolve_labels(caller.namespace, replace(declared, labels=labels), kind)

    async def _metadata(self, caller: Caller, number: int, now: datetime) -> tuple[DeclaredMetadata, Kind | None]:
        """Returns the metadata of the artifact by which its policy is found."""
        entry = await self.catalog.find(caller.namespace, number, now)
        if isinstance(entry, FoundArtifact):
            return entry.artifact.declared, entry.artifact.facts.kind
        # Only a live artifact can be looked up here. Of another one, such as an expired artifact that is held, no more
        # than its tombstone is known.
        known = (
            DeclaredMetadata() if entry is None else DeclaredMetadata(session=entry.session, tool_name=entry.tool_name)
        )
        return known, None
