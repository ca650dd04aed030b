"""Uploads under way: what is reserved for them, and what fences them."""

from datetime import datetime

from msgspec import Struct

from coatcheck.core.artifact import Placement
from coatcheck.core.quota import QuotaLimits


class BeginUpload(Struct, frozen=True, kw_only=True):
    """Record the intent to write a blob, before its first byte is written.

    Answers `QuotaExceeded` where its reservation does not fit into `room`; then nothing is recorded.
    """

    namespace: str
    blob_id: str
    placement: Placement
    lease_until: datetime
    reserve: int = 0
    """Stored bytes to reserve. They are given back with the intent, however it ends."""
    room: QuotaLimits | None = None


class ReserveMore(Struct, frozen=True, kw_only=True):
    """Raise the reservation of an open upload to so many bytes. Answers as RenewUpload does, or `QuotaExceeded`."""

    namespace: str
    blob_id: str
    reserve: int
    room: QuotaLimits | None


class RenewUpload(Struct, frozen=True, kw_only=True):
    """Move the lease of an open upload. Answers whether it was still ours (false: reaped, stop writing)."""

    namespace: str
    blob_id: str
    lease_until: datetime


class AbandonUpload(Struct, frozen=True, kw_only=True):
    """Forget an intent whose file its writer has removed already. Absent is fine."""

    namespace: str
    blob_id: str
