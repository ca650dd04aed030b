"""Stored payloads are read on and searched."""
