"""Uploads under way: what is reserved for them, and what fences them."""

from datetime import datetime

from coatcheck.core.artifact import Placement
from coatcheck.core.policies.quota import QuotaExceeded, QuotaLimits
from coatcheck.ports.change import NamespaceChange


class BeginUpload(NamespaceChange[QuotaExceeded | None], frozen=True, kw_only=True):
    """Record the intent to write a blob, before its first byte is written.

    Answers `QuotaExceeded` where its reservation does not fit into `room`; then nothing is recorded.
    """

    blob_id: str
    placement: Placement
    lease_until: datetime
    reserve: int = 0
    """Stored bytes to reserve. They are given back with the intent, however it ends."""
    room: QuotaLimits | None = None


class ReserveMore(NamespaceChange[bool | QuotaExceeded], frozen=True, kw_only=True):
    """Raise the reservation of an open upload to so many bytes. Answers as RenewUpload does, or `QuotaExceeded`."""

    blob_id: str
    reserve: int
    room: QuotaLimits | None


class RenewUpload(NamespaceChange[bool], frozen=True, kw_only=True):
    """Move the lease of an open upload. Answers whether it was still ours (false: reaped, stop writing)."""

    blob_id: str
    lease_until: datetime


class AbandonUpload(NamespaceChange[None], frozen=True, kw_only=True):
    """Forget an intent whose file its writer has removed already. Absent is fine."""

    blob_id: str
