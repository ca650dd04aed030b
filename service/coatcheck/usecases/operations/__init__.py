"""The service's own health and stored bytes are checked."""
