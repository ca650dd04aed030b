"""How much a namespace holds, and how much it may hold. Only values and sums; the catalogue does the counting.

These count, always and exactly:

- each artifact from its commit until it becomes a tombstone, including an expired artifact that is not yet removed;
- the stored (compressed) bytes of every blob of the namespace that is not dead, both payloads and kept text views.
  Bytes that several artifacts share count once. A blob is dead when nothing refers to it any more; its bytes on disk no
  longer count, and are removed after the grace period.

Tombstones, keys, indexes and the rows themselves do not count.
"""

from datetime import datetime

from msgspec import Struct

from coatcheck.core.policies.policy import Policy, value_or


class QuotaLimits(Struct, frozen=True):
    """The limits of a namespace; None in a field: unlimited."""

    max_bytes: int | None = None
    max_artifacts: int | None = None


class Usage(Struct, frozen=True, kw_only=True):
    """What a namespace holds now."""

    namespace: str
    bytes: int = 0
    """Stored bytes of the namespace's blobs."""
    artifacts: int = 0
    reserved: int = 0
    """Bytes that uploads in progress have reserved."""
    deleting_at: datetime | None = None
    """Time at which the deletion of the namespace began; None if it is not being deleted."""


class QuotaExceeded(Struct, frozen=True, kw_only=True):
    """The answer if a namespace has no room for a change. Nothing was changed, and the intent of an upload stays."""

    usage: Usage
    room: QuotaLimits
    bytes: int
    """Bytes that the change needs."""
    artifacts: int
    """Artifacts for which the change needs room: 0 or 1."""

    @property
    def over_bytes(self) -> int:
        """Bytes that must be freed before the change fits."""
        most = self.room.max_bytes
        return 0 if most is None else max(0, self.usage.bytes + self.usage.reserved + self.bytes - most)

    @property
    def over_artifacts(self) -> int:
        """Artifacts that must be removed before the change fits."""
        most = self.room.max_artifacts
        return 0 if most is None else max(0, self.usage.artifacts + self.artifacts - most)

    @property
    def hopeless(self) -> bool:
        """Whether the change would not fit even into an empty namespace."""
        bytes_, artifacts = self.room.max_bytes, self.room.max_artifacts
        return (bytes_ is not None and self.bytes > bytes_) or (artifacts is not None and self.artifacts > artifacts)


def room_of(policy: Policy) -> QuotaLimits | None:
    """Returns the limits that a namespace's policy sets; None if it sets none."""
    most, artifacts = value_or(policy.max_bytes, None), value_or(policy.max_artifacts, None)
    return None if most is None and artifacts is None else QuotaLimits(most, artifacts)
