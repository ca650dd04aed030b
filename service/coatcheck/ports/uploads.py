"""Uploads in progress: their reservations and fences."""

from datetime import datetime
from typing import ClassVar

from coatcheck.core.artifact import Placement
from coatcheck.core.policies.quota import QuotaExceeded, QuotaLimits
from coatcheck.ports.change import NamespaceChange


class BeginUpload(NamespaceChange[QuotaExceeded | None], frozen=True, kw_only=True):
    """Records the intent to write a blob, before its first byte is written.

    Returns `QuotaExceeded` if its reservation does not fit into `room`; then nothing is recorded.
    """

    takes_room: ClassVar[bool] = True

    blob_id: str
    placement: Placement
    lease_until: datetime
    reserve: int = 0
    """Stored bytes to reserve. They are released with the intent, however it ends."""
    room: QuotaLimits | None = None


class ReserveMore(NamespaceChange[bool | QuotaExceeded], frozen=True, kw_only=True):
    """Raises the reservation of an open upload to `reserve` bytes. Returns like RenewUpload, or `QuotaExceeded`."""

    takes_room: ClassVar[bool] = True

    blob_id: str
    reserve: int
    room: QuotaLimits | None


class RenewUpload(NamespaceChange[bool], frozen=True, kw_only=True):
    """Extends the lease of an open upload. Returns whether it was still ours (false: reaped, stop writing)."""

    blob_id: str
    lease_until: datetime


class AbandonUpload(NamespaceChange[None], frozen=True, kw_only=True):
    """Deletes an intent whose file its writer has already removed. A missing one is no error."""

    blob_id: str
