"""Reads and searches stored payloads."""
