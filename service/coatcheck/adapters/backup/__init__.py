"""The embedded store, copied out while it serves and copied in again."""
