"""When an artifact expires: one rule for ingest, reads, changes and sweeps. Time is an argument."""

from datetime import datetime, timedelta

from coatcheck.core.errors import CoatcheckError, Code

MIN_IDLE_TTL = 60
"""Seconds. Reads are written about every second, so a shorter idle TTL could not be kept exactly."""


def expiry(
    created_at: datetime, read_at: datetime, *, ttl: int | None, idle_ttl: int | None, pinned: bool
) -> datetime | None:
    """Returns the earlier of `ttl` seconds after creation and `idle_ttl` seconds after the last read.

    None if it is pinned or neither is set: then it is kept forever.
    """
    if pinned:
        return None
    ends: list[datetime] = []
    if ttl is not None:
        ends.append(created_at + timedelta(seconds=ttl))
    if idle_ttl is not None:
        ends.append(read_at + timedelta(seconds=idle_ttl))
    return min(ends, default=None)


def check_idle_ttl(seconds: int | None) -> None:
    """Raises CoatcheckError `invalid_request` for an idle TTL that is too short."""
    if seconds is not None and seconds < MIN_IDLE_TTL:
        raise CoatcheckError(
            Code.INVALID_REQUEST,
            f"idle_ttl is {seconds} s, but must be at least {MIN_IDLE_TTL} s. Give a longer one, or use ttl.",
        )
