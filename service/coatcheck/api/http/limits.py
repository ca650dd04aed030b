"""Bounds of the HTTP face: what it accepts before a use case is called. Values only; bootstrap fills them in."""

from msgspec import Struct

KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB

LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
"""Names under which a caller on this machine reaches the service."""


class RequestLimits(Struct, frozen=True, kw_only=True):
    """One instance serves one application."""

    payload: int = GIB
    """Bytes of a payload after decoding; the use case enforces it, the face refuses early where it can."""
    json_body: int = 32 * MIB
    """Bytes of a JSON request body after decoding. Larger payloads go to the raw or the multipart route."""
    buffered: int = 128 * MIB
    """Bytes of JSON bodies that all requests together may hold in memory."""
    stall_seconds: float = 60
    """How long a body may go without a byte ..."""
    least_rate: int = KIB
    """... and the bytes a second that it must bring on average once its sender was waited for that long in all."""
    batch_at_once: int = 16
    """Items of one batch that are ingested at the same time."""
    field: int = 64 * KIB
    """Bytes of one field of a multipart form that is not the payload."""
    fields: int = 64
    """Parts of a multipart form."""
    codings: int = 2
    """Content codings that may be applied one over the other."""
    ratio: int = 1000
    """Decoded bytes per encoded byte beyond which a stream is taken for a decompression bomb ..."""
    ratio_free: int = 128 * MIB
    """... once it has produced this many bytes. Gzip cannot exceed 1,032; real logs stay below 200."""
    decoded: int = 16 * GIB
    """Bytes that one request may decode to, also when only its two ends are kept."""
    zstd_window: int = 8 * MIB
    """Largest window of a Zstandard frame: RFC 9659 section 3."""
    metrics_open: bool = False
    """Whether `/metrics` answers everybody who can reach it, by any host name and without a key."""
    allowed_hosts: tuple[str, ...] | None = LOOPBACK
    """Host names answered to, without port, lower case. None answers every host and origin: only where keys protect."""
