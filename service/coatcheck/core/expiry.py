"""When an artifact expires. One rule for ingest, reads, changes and sweeps; it asks no clock."""

from datetime import datetime, timedelta


def expiry(
    created_at: datetime, read_at: datetime, *, ttl: int | None, idle_ttl: int | None, pinned: bool
) -> datetime | None:
    """The earlier of `ttl` seconds after creation and `idle_ttl` seconds after the last read.

    None when it is pinned or neither is set: then it is kept for ever.
    """
    if pinned:
        return None
    ends: list[datetime] = []
    if ttl is not None:
        ends.append(created_at + timedelta(seconds=ttl))
    if idle_ttl is not None:
        ends.append(read_at + timedelta(seconds=idle_ttl))
    return min(ends, default=None)
