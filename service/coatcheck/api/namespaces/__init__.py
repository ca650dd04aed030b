"""Namespaces and their usage."""
