"""How payloads are stored: blob IDs, frames and seekable compression."""
