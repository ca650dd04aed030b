"""Change how long an artifact is kept, its pin and its labels. What was said about its payload stays."""

from msgspec import UNSET, UnsetType

from coatcheck.core.artifact import Artifact, Caller, Gone
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.core.expiry import check_idle_ttl
from coatcheck.ports import Catalog, Clock, PatchArtifact
from coatcheck.usecases.find import gone, not_found
from coatcheck.usecases.shelter import Shelter


class Extend:
    """The verb."""

    def __init__(self, catalog: Catalog, clock: Clock, shelter: Shelter | None = None) -> None:
        self._catalog = catalog
        self._shelter = shelter
        self._clock = clock

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
        """Change what is given, leave what is unset; answers the artifact as it is now.

        Raises:
            CoatcheckError: `artifact_gone`, `artifact_not_found`, `invalid_request` (an idle TTL under a minute),
                `storage_unavailable` (it waits to be stored).
        """
        if idle_ttl is not UNSET:
            check_idle_ttl(idle_ttl)
        now = self._clock.now()
        if self._shelter is not None and self._shelter.find(caller.namespace, number, now) is not None:
            raise CoatcheckError(
                Code.STORAGE_UNAVAILABLE, "The artifact waits to be stored, which comes first. Retry the same call."
            )
        answer = await self._catalog.patch_artifact(
            PatchArtifact(
                namespace=caller.namespace,
                number=number,
                now=now,
                ttl=ttl,
                idle_ttl=idle_ttl,
                pinned=pinned,
                labels=labels,
            )
        )
        if answer is None:
            raise not_found()
        if isinstance(answer, Gone):
            raise gone(answer)
        return answer
