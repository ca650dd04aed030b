"""How much a namespace holds, and how much it may. Values and sums; it counts nothing itself.

What counts, always and exactly:

- an artifact from its commit until it is buried, so also one that has expired and is not buried yet;
- the stored (compressed) bytes of every blob of the namespace that is not dead, payloads and kept text views alike.
  Bytes that several artifacts share count once. A blob is dead when nothing points at it any more; its bytes on the
  disk go after the grace and no longer count.

Tombstones, keys, indexes and the rows themselves do not count.
"""

from datetime import datetime

from msgspec import Struct

from coatcheck.core.policies.policy import Policy, value_or


class QuotaLimits(Struct, frozen=True):
    """The limits of a namespace; None: unlimited."""

    max_bytes: int | None = None
    max_artifacts: int | None = None


class Usage(Struct, frozen=True, kw_only=True):
    """What a namespace holds."""

    namespace: str
    bytes: int = 0
    """Stored bytes of its blobs."""
    artifacts: int = 0
    reserved: int = 0
    """Bytes that uploads in progress have reserved."""
    deleting_at: datetime | None = None
    """When the namespace's deletion began."""


class QuotaExceeded(Struct, frozen=True, kw_only=True):
    """The answer of a namespace without room for a change. Nothing was changed, and an upload's intent stays."""

    usage: Usage
    room: QuotaLimits
    bytes: int
    """Bytes that the change needs."""
    artifacts: int
    """Number of artifacts that it needs room for: 0 or 1."""

    @property
    def over_bytes(self) -> int:
        """Bytes that must be freed before it fits."""
        most = self.room.max_bytes
        return 0 if most is None else max(0, self.usage.bytes + self.usage.reserved + self.bytes - most)

    @property
    def over_artifacts(self) -> int:
        """Artifacts that must be removed before it fits."""
        most = self.room.max_artifacts
        return 0 if most is None else max(0, self.usage.artifacts + self.artifacts - most)

    @property
    def hopeless(self) -> bool:
        """Whether it would not even fit into an empty namespace."""
        bytes_, artifacts = self.room.max_bytes, self.room.max_artifacts
        return (bytes_ is not None and self.bytes > bytes_) or (artifacts is not None and self.artifacts > artifacts)


def room_of(policy: Policy) -> QuotaLimits | None:
    """Returns the limits that a namespace's policy sets; None if it sets none."""
    most, artifacts = value_or(policy.max_bytes, None), value_or(policy.max_artifacts, None)
    return None if most is None and artifacts is None else QuotaLimits(most, artifacts)
