"""Names of blobs: UUIDv7 (RFC 9562, section 5.7) as 32 hexadecimal digits, ordered by creation time.

The server makes each name, which is used for one write and never again. Time and randomness are arguments.
"""

import re
from datetime import UTC, datetime, timedelta

RANDOM_BYTES = 10
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SHAPE = re.compile(r"[0-9a-f]{32}", re.ASCII)


def new_blob_id(now: datetime, randomness: bytes) -> str:
    """Returns a new name: 48 bits of milliseconds since 1970, then 74 of the 80 bits of `randomness`."""
    if len(randomness) != RANDOM_BYTES:
        raise ValueError(f"a blob name takes {RANDOM_BYTES} random bytes, not {len(randomness)}")
    milliseconds = (now - _EPOCH) // timedelta(milliseconds=1)
    octets = bytearray(milliseconds.to_bytes(6, "big") + randomness)
    octets[6] = 0x70 | octets[6] & 0x0F
    octets[8] = 0x80 | octets[8] & 0x3F
    return octets.hex()


def is_blob_id(text: str) -> bool:
    """Returns whether a text has the form of a blob's name, and so may become part of a path."""
    return _SHAPE.fullmatch(text) is not None


def blob_day(blob_id: str) -> str:
    """Returns the UTC day on which a name was made, as `yyyymmdd`.

    It is part of the blob's location in an object store.

    Raises:
        ValueError: it is not a blob's name.
    """
    if not is_blob_id(blob_id):
        raise ValueError("not a blob's name")
    try:
        made_at = _EPOCH + timedelta(milliseconds=int(blob_id[:12], 16))
    except OverflowError:
        raise ValueError("not a blob's name: its time is past the year 9999") from None
    return f"{made_at:%Y%m%d}".rjust(8, "0")
