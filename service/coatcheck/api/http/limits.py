"""Limits of the HTTP layer: what it accepts before it calls a use case. Values only; bootstrap fills them in."""

from msgspec import Struct

KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB

LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
"""Names under which a caller on this machine reaches the service."""


class RequestLimits(Struct, frozen=True, kw_only=True):
    """The limits of one application."""

    payload: int = GIB
    """Maximum size of a payload after decoding; the use case enforces it, and HTTP refuses early where it can."""
    json_body: int = 32 * MIB
    """Maximum size of a JSON body after decoding. Larger payloads use the raw or the multipart route."""
    buffered: int = 128 * MIB
    """Bytes of JSON bodies that all requests together may hold in memory."""
    stall_seconds: float = 60
    """Seconds that a body may pause ..."""
    least_rate: int = KIB
    """... and the average bytes per second that it must reach once the service has waited that long for it in total."""
    batch_at_once: int = 16
    """Items of one batch that are ingested concurrently."""
    field: int = 64 * KIB
    """Maximum size of a form field other than the payload."""
    fields: int = 64
    """Maximum number of parts in a multipart form."""
    codings: int = 2
    """Maximum number of content codings on top of each other."""
    ratio: int = 1000
    """Decoded bytes per encoded byte beyond which a stream is considered a decompression bomb ..."""
    ratio_free: int = 128 * MIB
    """... once it has produced this many bytes. Gzip cannot exceed 1,032; real logs stay below 200."""
    decoded: int = 16 * GIB
    """Bytes that one request may decode to, even if only its two ends are kept."""
    zstd_window: int = 8 * MIB
    """Maximum window of a Zstandard frame (RFC 9659 section 3)."""
    metrics_open: bool = False
    """Whether `/metrics` answers anybody who can reach it, under any host name and without a key."""
    allowed_hosts: tuple[str, ...] | None = LOOPBACK
    """Host names that are served, without port, in lower case. None allows every host and origin; use it only with
    keys."""
