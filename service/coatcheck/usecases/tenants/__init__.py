"""Administers keys and namespaces, authenticates callers, and shows usage."""
