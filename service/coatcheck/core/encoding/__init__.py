"""How payloads are kept: blob IDs, frames and seekable compression."""
