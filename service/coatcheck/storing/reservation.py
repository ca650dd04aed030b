"""Reserves room for an upload as its bytes arrive: before they are written, in steps that double.

Only if the namespace has a limit; otherwise an upload reserves nothing. The commit determines what it really needs, and
however else the upload ends, its reservation is released with its intent.
"""

from datetime import datetime
from typing import Final, Protocol

from coatcheck.core.artifact import Placement
from coatcheck.core.policies.quota import QuotaExceeded, QuotaLimits
from coatcheck.ports.catalog import Catalog
from coatcheck.ports.uploads import BeginUpload, ReserveMore
from coatcheck.storing.evict import QuotaEnforcer

_AHEAD: Final = 1024 * 1024
"""Minimum bytes reserved beyond what has arrived, so that not every block is a transaction."""


class ReservationDeps(Protocol):
    """What a reservation needs."""

    @property
    def catalog(self) -> Catalog:
        """The store of reservations."""
        ...

    @property
    def rooms(self) -> QuotaEnforcer:
        """Knows the limits, and makes room."""
        ...


class Reservation:
    """The reservation of one upload."""

    def __init__(self, deps: ReservationDeps, namespace: str, blob_id: str, *, limited: bool) -> None:
        """Reserves nothing yet; `limited` is false for what is stored whether or not there is room."""
        self._deps = deps
        self._namespace = namespace
        self._blob_id = blob_id
        self._limited = limited
        self._reserved: int | None = None
        """None: nothing needs to be reserved."""

    async def begin(self, placement: Placement, lease_until: datetime, size: int) -> None:
        """Records the intent, with room for `size` bytes, and for more if there is.

        Raises:
            CoatcheckError: `quota_exceeded`; then there is no intent.
        """

        async def begin_upload(reserve: int, quota: QuotaLimits | None) -> QuotaExceeded | None:
            return await self._deps.catalog.commit(
                BeginUpload(
                    namespace=self._namespace,
                    blob_id=self._blob_id,
                    placement=placement,
                    lease_until=lease_until,
                    reserve=reserve,
                    room=quota,
                )
            )

        if not self._limited:
            await begin_upload(0, None)
            return
        steps = iter((_ahead(size),))

        async def change(quota: QuotaLimits | None) -> QuotaExceeded | None:
            self._reserved = None if quota is None or quota.max_bytes is None else next(steps, size)
            answer = await begin_upload(self._reserved or 0, quota)
            if isinstance(answer, QuotaExceeded) and self._reserved != size:
                self._reserved = next(steps, size)
                answer = await begin_upload(self._reserved, quota)
            return answer

        await self._deps.rooms.within_quota(self._namespace, change)

    async def cover(self, size: int) -> bool:
        """Ensures room for `size` bytes in total; returns false if the upload was reaped.

        Raises:
            CoatcheckError: `quota_exceeded`.
        """
        if self._reserved is None or size <= self._reserved:
            return True
        steps = iter((_ahead(size),))

        async def change(quota: QuotaLimits | None) -> bool | QuotaExceeded:
            answer = await self._more(next(steps, size), quota)
            return await self._more(size, quota) if isinstance(answer, QuotaExceeded) else answer

        return await self._deps.rooms.within_quota(self._namespace, change)

    async def _more(self, reserve: int, quota: QuotaLimits | None) -> bool | QuotaExceeded:
        change = ReserveMore(namespace=self._namespace, blob_id=self._blob_id, reserve=reserve, room=quota)
        answer = await self._deps.catalog.commit(change)
        if answer is True:
            self._reserved = reserve
        return answer


def _ahead(size: int) -> int:
    return max(2 * size, size + _AHEAD)
