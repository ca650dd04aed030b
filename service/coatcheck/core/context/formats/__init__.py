"""One adapter per wire format, which turns a body into an index."""
