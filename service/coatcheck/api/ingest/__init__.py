"""Storing payloads."""
