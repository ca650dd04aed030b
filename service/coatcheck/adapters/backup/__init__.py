"""Backup of the embedded store while it serves, and restore."""
